"""Plain statements of whom GenAG finds, for `mob`: lists of cells or None, sets of instants, no arrays."""


def nearest_plain(data, subject, number, among):
    """Exhaustive search; `place[i][t]` is None where i is absent."""
    place, own, rank = data
    found = [
        (deviation(place, own, subject, other), rank[other], other)
        for other in among
        if other != subject and both_ways(place, own, subject, other)
    ]
    return [other for _, _, other in sorted(found)[:number]]


def deviation(place, own, subject, other):
    return sum(abs(place[subject][t] - place[other][t]) for t in own[subject])


def both_ways(place, own, a, b):
    return all(place[b][t] is not None for t in own[a]) and all(place[a][t] is not None for t in own[b])
