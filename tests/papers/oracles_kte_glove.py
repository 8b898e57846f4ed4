"""A plain Python statement of GLOVE: slow, small, and sharing nothing with `dbanon.methods`.

A track is a sorted list of distinct (slot, x, y); a generalised sample is (first, last, x0, y0, x1, y1), ends inside.
"""

from itertools import pairwise
from math import inf


def find_hull(*parts):
    """Least generalised sample that holds others."""
    first, last, x0, y0, x1, y1 = zip(*parts, strict=True)
    return min(first), max(last), min(x0), min(y0), max(x1), max(y1)


def compute_cost(a, na, b, nb, grid):
    """Sample stretch: half of phi_s / 20 km and half of phi_t / 8 h, each 1 at most."""
    both = find_hull(a, b)

    def times(g):
        return g[1] - g[0]

    def sides(g):
        return g[4] - g[2] + g[5] - g[3]

    in_time = na * (times(both) - times(a)) + nb * (times(both) - times(b))
    in_space = na * (sides(both) - sides(a)) + nb * (sides(both) - sides(b))
    weight_s, weight_m = grid[0] / 28_800 / 2 / (na + nb), grid[1] / 20_000 / 2 / (na + nb)
    return min(in_time * weight_s, 0.5) + min(in_space * weight_m, 0.5)


def sort_longer_first(a, b):
    """Of groups (key, members, pieces), the one with more pieces, else the lesser key."""
    return (a, b) if (-len(a[2]), a[0]) < (-len(b[2]), b[0]) else (b, a)


def stretch(a, b, grid):
    """Mean over the longer of the least cost with a sample of the shorter."""
    a, b = sort_longer_first(a, b)
    total = 0.0
    for piece in a[2]:
        total += min(compute_cost(piece, len(a[1]), other, len(b[1]), grid) for other in b[2])
    return total / len(a[2])


def reshape_pieces(pieces):
    """Cut all pieces at the beginnings and ends of all; where several lie, their hull."""
    cuts = sorted({p[0] for p in pieces} | {p[1] + 1 for p in pieces})
    out = []
    for low, high in pairwise(cuts):
        there = [p for p in pieces if p[0] <= low and p[1] >= high - 1]
        if there:
            out.append((low, high - 1, *find_hull(*there)[2:]))
    return out


def complete(pieces, tracks, grid):
    """From the left: a piece that lacks a member's fix goes to its cheaper neighbour, the earlier of equals."""
    pieces, i = list(pieces), 0
    while i < len(pieces):
        piece = pieces[i]
        if all(any(piece[0] <= slot <= piece[1] for slot, _, _ in track) for track in tracks):
            i += 1
            continue
        before = compute_cost(piece, 1, pieces[i - 1], 1, grid) if i else inf
        after = compute_cost(piece, 1, pieces[i + 1], 1, grid) if i + 1 < len(pieces) else inf
        other = i - 1 if before <= after else i + 1
        pieces[min(i, other) : max(i, other) + 1] = [find_hull(piece, pieces[other])]
        i = min(i, other)
    return pieces


def merge(a, b, tracks, grid):
    """Merge two groups."""
    a, b = sort_longer_first(a, b)
    na, nb = len(a[1]), len(b[1])
    taken = {}
    for piece in a[2]:
        j = min(range(len(b[2])), key=lambda j, piece=piece: (compute_cost(piece, na, b[2][j], nb, grid), j))
        taken.setdefault(j, []).append(piece)
    merged = [find_hull(b[2][j], *taken[j]) for j in sorted(taken)]
    grown = list(merged)
    for j, piece in enumerate(b[2]):
        if j not in taken:
            m = min(
                range(len(merged)), key=lambda m, piece=piece: (compute_cost(piece, nb, merged[m], na + nb, grid), m)
            )
            grown[m] = find_hull(grown[m], piece)
    members = a[1] | b[1]
    return min(a[0], b[0]), members, complete(reshape_pieces(grown), [tracks[u] for u in members], grid)


def start(track):
    """Samples of one slot as one."""
    by_slot = {}
    for slot, x, y in track:
        by_slot.setdefault(slot, []).append((slot, slot, x, y, x, y))
    return [find_hull(*by_slot[slot]) for slot in sorted(by_slot)]


def group_by_glove(tracks, k, rank, grid):
    """Groups as (members, pieces), by least rank."""
    groups = [(rank[u], frozenset([u]), start(track)) for u, track in enumerate(tracks)]
    if len(groups) < k:
        return []
    while len(below := [g for g in groups if len(g[1]) < k]) > 1:
        pairs = [(a, b) for a in below for b in below if a[0] < b[0]]
        a, b = min(pairs, key=lambda p: (stretch(*p, grid), p[0][0], p[1][0]))
        groups = [g for g in groups if g is not a and g is not b] + [merge(a, b, tracks, grid)]
    for left in below:
        groups.remove(left)
        other = min(groups, key=lambda g: (stretch(left, g, grid), g[0]))
        groups.remove(other)
        groups.append(merge(left, other, tracks, grid))
    return [(set(members), pieces) for _, members, pieces in sorted(groups, key=lambda g: g[0])]
