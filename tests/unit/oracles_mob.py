"""Plain Python statements of the paper: slow, small, and sharing nothing with `dbanon.methods`.

Yarovoy, Bonchi, Lakshmanan, Wang: Anonymizing Moving Objects: How to Hide a MOB in a Crowd?, EDBT 2009.
A world is (where, own, place, rank): of object i, where[i] is its cell at each instant at which it is present, own[i]
its quasi-identifier, place[i] its place along the curve by instant, rank[i] its turn. A hiding set HS is without its
owner. Sets are (HS, T(O), kept).
"""

from itertools import permutations


def is_present_both_ways(where, own, i, j):
    """Whether each of two is present at all own instants of the other."""
    return i != j and own[i] <= where[j].keys() and own[j] <= where[i].keys()


def compute_deviation(own, place, i, j):
    """Sum of Hilbert deviations at the own instants of i."""
    return sum(abs(place[i][t] - place[j][t]) for t in own[i])


def sort_by_deviation(world, i, among):
    """Whom presence allows to hide i, the nearest first."""
    where, own, place, rank = world
    allowed = [j for j in among if is_present_both_ways(where, own, i, j)]
    return sorted(allowed, key=lambda j: (compute_deviation(own, place, i, j), rank[j]))


def find_symmetric(world, k):
    """Algorithm 3, drawn again from those left until none is suppressed."""
    where, own, _, rank = world
    kept = set(range(len(where)))
    while True:
        hiding = {i: set() for i in kept}
        for i in sorted(kept, key=rank.__getitem__):
            slack = k - 1 - len(hiding[i])
            if own[i] and slack > 0:
                others = sort_by_deviation(world, i, kept - hiding[i])
                for j in others[:slack]:
                    hiding[i].add(j)
                    hiding[j].add(i)
        hiding = {i: others for i, others in hiding.items() if own[i]}
        lacking = {i for i in hiding if len(hiding[i]) < k - 1} or serve(
            world, k, kept, hiding, {i: own[i] for i in hiding}
        )
        if not lacking:
            return hiding, {i: own[i] for i in hiding}, kept
        kept -= {min(lacking, key=rank.__getitem__)}  # one at a time comes to the same


def find_extreme_union(world, k):
    """Algorithm 2 with every member present at every instant of the union, drawn again likewise."""
    where, own = world[:2]
    kept = set(range(len(where)))
    while True:
        hiding, when = {}, {}
        for i in kept:
            if not own[i]:
                continue
            members, union = [i], set(own[i])
            for j in sort_by_deviation(world, i, kept):
                wider = union | own[j]
                if len(members) < k and all(wider <= where[m].keys() for m in [*members, j]):
                    members, union = [*members, j], wider
            hiding[i], when[i] = set(members[1:]), union
        lacking = {i for i in hiding if len(hiding[i]) < k - 1} or serve(world, k, kept, hiding, when)
        if not lacking:
            return hiding, when, kept
        kept -= lacking


def serve(world, k, kept, hiding, when):
    """Let each of fewer than k without own instants serve in a set; who can serve in none."""
    where, own, place, rank = world
    blank = sorted((i for i in kept if not own[i]), key=rank.__getitem__)
    lacking = set()
    for one in blank if len(blank) < k else []:
        if any(one in others for others in hiding.values()):
            continue
        owners = [i for i in hiding if when[i] <= where[one].keys()]
        if owners:
            hiding[min(owners, key=lambda i: (compute_deviation(own, place, i, one), rank[i]))].add(one)
        else:
            lacking.add(one)
    return lacking


def find_classes(where, hiding, when):
    """Algorithm 4 with all members of a set at every t in T(O): (instant, box) -> members, the same boxes as one."""
    found = {}
    for t in {t for instants in when.values() for t in instants}:
        groups = []
        for i, others in hiding.items():
            if t in when[i]:
                joined = {i, *others}
                apart = [group for group in groups if not group & joined]
                groups = [*apart, joined.union(*(group for group in groups if group & joined))]
        for group in groups:
            xs, ys = zip(*(where[i][t] for i in group), strict=True)
            found.setdefault((t, (min(xs), min(ys), max(xs), max(ys))), set()).update(group)
    return found


def list_published(where, kept, found):
    """D*: the rectangle of each object kept at each instant at which it is present."""
    region = {(i, t): (*cell, *cell) for i in kept for t, cell in where[i].items()}
    for (t, box), members in found.items():
        region.update({(i, t): box for i in members})
    return region


def compute_information_loss(where, kept, found):
    """Section 3, on average over the pairs of an object and an instant at which it is present."""
    areas = [(x1 - x0 + 1) * (y1 - y0 + 1) for x0, y0, x1, y1 in list_published(where, kept, found).values()]
    return sum(1 - 1 / area for area in areas) / len(areas) if areas else 0


def build_attack_graph(where, own, kept, found):
    """Definition 1: the objects whose regions hold an individual's cells at all its own instants."""
    region = list_published(where, kept, found)

    def fits(i, j):
        for t in own[i]:
            if (j, t) not in region:
                return False
            (x, y), (x0, y0, x1, y1) = where[i][t], region[j, t]
            if not (x0 <= x <= x1 and y0 <= y <= y1):
                return False
        return True

    return {i: {j for j in kept if fits(i, j)} for i in kept}


def prune_graph(graph):
    """Definition 2: the edges that are in a perfect matching."""
    people, left = sorted(graph), {i: set() for i in graph}
    for objects in permutations(people):
        if all(j in graph[i] for i, j in zip(people, objects, strict=True)):
            for i, j in zip(people, objects, strict=True):
                left[i].add(j)
    return left
