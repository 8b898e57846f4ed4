"""Plain statements of whom GenAG finds, for `mob`: lists of cells or None, sets of instants, no arrays."""


def find_nearest(data, subject, number, among):
    """Exhaustive search; `place[i][t]` is None where i is absent."""
    place, own, rank = data
    found = [
        (compute_deviation(place, own, subject, other), rank[other], other)
        for other in among
        if other != subject and is_present_both_ways(place, own, subject, other)
    ]
    return [other for _, _, other in sorted(found)[:number]]


def compute_deviation(place, own, subject, other):
    return sum(abs(place[subject][t] - place[other][t]) for t in own[subject])


def is_present_both_ways(place, own, a, b):
    return all(place[b][t] is not None for t in own[a]) and all(place[a][t] is not None for t in own[b])
