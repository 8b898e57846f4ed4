"""`semantic` on atoms in plain Python, to be read beside the paper: slow, and sharing no code with the family.

A place is an atom; a point or row is (start, end, atoms), start and end in slots, the end outside.
"""

# ruff: noqa: PLR0917 - what a merge is made of

from itertools import combinations
from math import inf


def compute_theta(loss, span, area):
    """Loss of section III-B of a stay of no length and no area: in time up to a full one, and in space."""
    return loss.weight_time * min(span / loss.span_slots, 1.0) + (1 - loss.weight_time) * min(area / loss.area_mm2, 1.0)


def find_least_cost(area, loss, members):
    """The least cost of cutting the fixes (slot, atom) of members into rows that hold one of each: by all cuts."""
    slots = sorted({slot for fixes in members for slot, _ in fixes})
    least = [0.0] + [inf] * len(slots)
    for j in range(1, len(slots) + 1):
        for i in range(j):
            least[j] = min(least[j], least[i] + compute_row_cost(area, loss, members, slots[i], slots[j - 1] + 1))
    return least[-1]


def compute_row_cost(area, loss, members, start, end):
    held = [[atom for slot, atom in fixes if start <= slot < end] for fixes in members]
    if not all(held):
        return inf
    atoms = {atom for own in held for atom in own}
    return sum(map(len, held)) * compute_theta(loss, end - start, sum(area[atom] for atom in atoms))


def find_stays(slots, atoms, gap):
    """Points of section III: a stay in one atom without a longer gap."""
    made = []
    for slot, atom in sorted(zip(slots, atoms, strict=True), key=lambda fix: fix[0]):
        if made and made[-1][2] == {atom} and slot - made[-1][1] + 1 <= gap:
            made[-1][1] = slot + 1
        else:
            made.append([slot, slot + 1, {atom}])
    return [(start, end, frozenset(held)) for start, end, held in made]


def merge_loss(area, loss, one, other, n_one, n_other):
    """C_ij of two tracks, in the run's order: the mean of what each point of the longer loses at best."""
    walked, beside, a, b = (one, other, n_one, n_other) if len(one) > len(other) else (other, one, n_other, n_one)
    mine, theirs = a / (a + b), b / (a + b)
    total = 0.0
    for start, end, held in walked:
        best = inf
        for first, last, there in beside:
            whole = max(end, last) - min(start, first)
            lost = whole - mine * (end - start) - theirs * (last - first)
            space = (
                measure_size(area, held | there) - mine * measure_size(area, held) - theirs * measure_size(area, there)
            )
            least = loss.weight_time * min(lost / loss.span_slots, 1.0)
            best = min(best, least + (1 - loss.weight_time) * min(space / loss.area_mm2, 1.0))
        total += best
    return total / len(walked)


def measure_size(area, atoms):
    return sum(area[atom] for atom in atoms)


def merge_greedily(area, loss, tracks, subjects, k, merged):
    """Who is with whom (Algorithm 2): the cheapest pair first, then what is left joins what it loses least with.

    `merged`: gives the rows of some units together.
    """
    if k == 1:
        return [[i] for i in range(len(tracks))]
    units = {i: [i] for i in range(len(tracks))}  # of groups below k people, by their place in the run
    track = dict(enumerate(tracks))
    done = []

    def people(group):
        return {subjects[unit] for unit in group}

    def lost(i, one, j, other):
        (_, first, a), (_, second, b) = sorted(
            [(i, one, track_of(one)), (j, other, track_of(other))], key=lambda x: x[0]
        )
        return merge_loss(area, loss, a, b, len(people(first)), len(people(second)))

    def track_of(group):
        return track[group[0]] if len(group) == 1 else merged(group)

    while pairs := [
        (lost(i, units[i], j, units[j]), i, j)
        for i, j in combinations(sorted(units), 2)
        if not people(units[i]) & people(units[j])
    ]:
        _, i, j = min(pairs)
        both = units.pop(i) + units.pop(j)
        if len(people(both)) >= k:
            done.append(both)
        else:
            units[i] = both
    while units:
        place = min(units)
        left = units.pop(place)
        others = [(group[0], group) for group in done] + list(units.items())
        _, where, at = min((lost(place, left, where, group), where, at) for at, (where, group) in enumerate(others))
        group = others[at][1]
        both = left + group if place < where else group + left
        if group in done:
            done.remove(group)
        else:
            del units[where]
        if len(people(both)) >= k:
            done.append(both)
        else:
            units[min(place, where)] = both
    return sorted(sorted(group) for group in done)
