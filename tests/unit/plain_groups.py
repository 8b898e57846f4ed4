"""Plain statements of what regroups for bounding rectangles, and of its lower bound: slow, small, sharing nothing.

A trajectory is a list of (x, y) cells.
"""


def measure_area(group):
    """Of the bounding rectangle of some trajectories, in cells, summed over the instants."""
    total = 0
    for places in zip(*group, strict=True):
        xs, ys = zip(*places, strict=True)
        total += (max(xs) - min(xs) + 1) * (max(ys) - min(ys) + 1)
    return total


def measure_cost(group):
    """Four times its area and the square with its mean side, summed over the instants."""
    total = 0
    for places in zip(*group, strict=True):
        wide, high = (max(side) - min(side) + 1 for side in zip(*places, strict=True))
        total += 4 * wide * high + (wide + high) ** 2
    return total


def compute_cost(trajectories, groups):
    """Sum over people of the areas of their cloaks."""
    return sum(len(group) * measure_area([trajectories[i] for i in group]) for group in groups)


def make_groups(trajectories, k):
    """From the outermost inwards: who is farthest from the mean, and k - 1 times who leaves the least cost."""
    n = len(trajectories)
    means = [[sum(v) // n for v in zip(*places, strict=True)] for places in zip(*trajectories, strict=True)]

    def away(i):
        return sum(
            abs(v - m)
            for place, mean in zip(trajectories[i], means, strict=True)
            for v, m in zip(place, mean, strict=True)
        )

    left, found = list(range(n)), []
    while len(left) >= 2 * k:
        group = [max(left, key=lambda i: (away(i), -i))]
        left.remove(group[0])
        while len(group) < k:
            group.append(min(left, key=lambda i: (measure_cost([trajectories[j] for j in [*group, i]]), i)))
            left.remove(group[-1])
        found.append(sorted(group))
    return [*found, left]


def find_least_area(trajectories, i, k):
    """What the cloak of one has at least: the (k - 1)-th smallest rectangle with one other."""
    others = sorted(measure_area([trajectories[i], other]) for j, other in enumerate(trajectories) if j != i)
    return others[k - 2]
