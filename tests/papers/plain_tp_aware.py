"""The baselines of section 5.2 in plain Python, to be read beside it: slow, and sharing nothing with `dbanon.methods`.

Deutsch, Hull, Vyas, Zhao: Trajectory and Policy Aware Sender Anonymity in Location Based Services, 2012. A trajectory
is a list of (x, y) cells; each algorithm gives its groups as lists of trajectories' numbers. Numbers are exact: a sum
of logarithms of areas is compared as their product.
"""

from fractions import Fraction
from math import prod

from tests.unit import oracles_tp_aware as oracle

# ---- bulk-dp: the optimum of the first snapshot


def group_by_bulk_dp(trajectories, k, height):
    first = [[t[0]] for t in trajectories]
    tree = oracle.compress_chain(oracle.grow_tree(first, oracle.list_binary_steps(1, height), height))
    tree = oracle.compress_chain(oracle.prune_tree(tree, k))
    groups, rest = _list_policy(tree, k, 0, first)
    assert not rest
    return groups


def _compute_row(node, k):
    """Least cost by number passed up, with the number that came up and each child's share (Algorithm 1)."""
    if "row" in node:
        return node["row"]
    d = len(node["members"])
    sums = {0: (0, ())} if node["children"] else {d: (0, ())}
    for child in node["children"]:
        row = _compute_row(child, k)
        both = {}
        for s, (c, shares) in sums.items():
            for u, (cu, *_) in row.items():
                both.setdefault(s + u, []).append((c + cu, (*shares, u)))
        sums = {s: min(ways) for s, ways in both.items()}  # of equal costs the lesser share of the left child
    ways = {}
    for s, (c, shares) in sums.items():
        for u in [s, *range(s - k + 1)]:
            ways.setdefault(u, []).append((c + node["area"] * (s - u), s, shares))
    node["row"] = {u: min(found) for u, found in ways.items()}  # of equal costs the lesser s
    return node["row"]


def _list_policy(node, k, u, cells):
    """Groups at a node and below, and those who are passed up: the farthest from the median of who is left."""
    _, s, shares = _compute_row(node, k)[u]
    groups, there = [], [] if node["children"] else list(node["members"])
    for child, share in zip(node["children"], shares, strict=True):
        below, up = _list_policy(child, k, share, cells)
        groups += below
        there += up
    if s == u:
        return groups, there
    axes = [sorted(cells[m][j][axis] for m in there) for j in range(len(cells[0])) for axis in (0, 1)]
    median = [values[(len(values) - 1) // 2] for values in axes]

    def distance(m):
        return sum(abs(v - c) for v, c in zip([v for cell in cells[m] for v in cell], median, strict=True))

    there.sort(key=lambda m: (distance(m), m))
    return [*groups, there[: s - u]], there[s - u :]


# ---- fast and slow TGA: clusters of k around the first trajectory left


def list_areas(group, trajectories):
    """Cells of the rectangles that hold a group, by instant."""
    found = []
    for j in range(len(trajectories[0])):
        xs, ys = zip(*(trajectories[m][j] for m in group), strict=True)
        found.append((max(xs) - min(xs) + 1) * (max(ys) - min(ys) + 1))
    return found


def group_by_fast_tga(trajectories, k):
    def cluster(left):
        nearest = sorted(left[1:], key=lambda m: (prod(list_areas([left[0], m], trajectories)), m))
        return [left[0], *nearest[: k - 1]]

    return _make_clusters(trajectories, k, cluster)


def group_by_slow_tga(trajectories, k):
    def cluster(left):
        group, rest = [left[0]], left[1:]
        while len(group) < k:
            group.append(min(rest, key=lambda m: (prod(list_areas([*group, m], trajectories)), m)))
            rest.remove(group[-1])
        return group

    return _make_clusters(trajectories, k, cluster)


def _make_clusters(trajectories, k, cluster):
    left, groups = list(range(len(trajectories))), []
    while len(left) >= k:
        groups.append(cluster(left))
        left = [m for m in left if m not in groups[-1]]
    for m in left:

        def growth(group, m=m):
            return Fraction(prod(list_areas([*group, m], trajectories)), prod(list_areas(group, trajectories)))

        min(groups, key=growth).append(m)
    return groups


# ---- hilbert: each with its nearest along the curve, merged where they overlap


def find_place(x, y, order):
    place, side = 0, 2**order
    half = side // 2
    while half:
        right, up = int(x & half > 0), int(y & half > 0)
        place += half * half * ((3 * right) ^ up)
        if not up:
            if right:
                x, y = side - 1 - x, side - 1 - y
            x, y = y, x
        half //= 2
    return place


def group_by_hilbert(trajectories, k, order):
    places = [[find_place(x, y, order) for x, y in t] for t in trajectories]

    def distance(a, b):
        return sum(abs(p - q) for p, q in zip(places[a], places[b], strict=True))

    groups = []
    for m in range(len(trajectories)):
        others = sorted((o for o in range(len(trajectories)) if o != m), key=lambda o: (distance(m, o), o))
        own = {m, *others[: k - 1]}
        overlapping = [g for g in groups if g & own]
        groups = [g for g in groups if not g & own] + [own.union(*overlapping)]
    return [sorted(g) for g in groups]


# ---- cloaks


def find_smallest_quadrant(cells):
    """The smallest quadrant, or left or right half of one, that holds cells: (x0, y0, x1, y1), half-open."""
    side = 1
    while True:
        for wide in (max(side // 2, 1), side):
            corners = {(x // wide * wide, y // side * side) for x, y in cells}
            if len(corners) == 1:
                ((x, y),) = corners
                return x, y, x + wide, y + side
        side *= 2
