"""Plain Python statements of the paper: slow, small, and sharing nothing with `dbanon.methods`.

Krishnamachari, Ghinita, Kalnis: Privacy-Preserving Publication of User Locations in the Proximity of Sensitive Sites,
2008. A subject or site is (x0, y0, x1, y1), cells, both ends inside. Subjects and sites come in the order of the curve
where the paper sorts them. Indices are returned from 0, whatever the paper counts from.
"""

from functools import cache
from itertools import pairwise
from math import inf

import numpy as np


def measure_area(boxes):
    """Area(MBR(.)) in cells."""
    x0, y0, x1, y1 = zip(*boxes, strict=True)
    return (max(x1) - min(x0) + 1) * (max(y1) - min(y0) + 1)


def measure_extent(boxes):
    """1D_Ext(.): distance between the least and the greatest coordinate on the x axis."""
    return max(b[2] for b in boxes) - min(b[0] for b in boxes)


def locate_on_curve(x, y, order):
    """Place of a cell on the curve from (0, 0) to (2^order - 1, 0): four smaller curves, the outer two turned."""
    if order == 0:
        return 0
    half = 2 ** (order - 1)
    if x < half and y < half:
        return locate_on_curve(y, x, order - 1)
    if x < half:
        return half**2 + locate_on_curve(x, y - half, order - 1)
    if y >= half:
        return 2 * half**2 + locate_on_curve(x - half, y - half, order - 1)
    return 3 * half**2 + locate_on_curve(half - 1 - y, half - 1 - (x - half), order - 1)


def group_by_bk(subjects, sites, k, cost_of=measure_area):
    """Figure 11, with lines 5-6 and 13-14 for every i: start of each site's subjects, and the cost."""
    n, m = len(subjects), len(sites)
    u, s = [None, *subjects], [None, *sites]
    cost, solution = {}, {}

    def gc(i, j):
        return cost_of([*u[i : i + k], s[j]])

    min_val, best_start = inf, -1
    for i in range(1, n - m * k + 2):
        if gc(i, 1) < min_val:
            min_val = gc(i, 1)
            best_start = i
        solution[i, 1] = best_start
        cost[i, 1] = min_val
    for j in range(2, m + 1):
        min_val, best_start = inf, -1
        for i in range((j - 1) * k + 1, n + 1 - (m - j + 1) * k + 1):
            if cost[i - k, j - 1] + gc(i, j) < min_val:
                min_val = cost[i - k, j - 1] + gc(i, j)
                best_start = i
            solution[i, j] = best_start
            cost[i, j] = min_val
    group_start = solution[n - k + 1, m]
    starts = [group_start]
    for j in range(m - 1, 0, -1):
        group_start = solution[group_start - k, j]
        starts.append(group_start)
    return [start - 1 for start in reversed(starts)], cost[n - k + 1, m]


def group_by_one_d_anon(subjects, k, cost_of=measure_area):
    """Best consecutive groups of k to 2k - 1, prefix by prefix: offsets and cost; the shortest last group on a tie."""
    best = {0: (0, [0])}
    for i in range(k, len(subjects) + 1):
        for size in range(k, 2 * k):
            if i - size in best:
                before, offset = best[i - size]
                cost = before + cost_of(subjects[i - size : i])
                if i not in best or cost < best[i][0]:
                    best[i] = cost, [*offset, i]
    return best.get(len(subjects), (0, [0]))[::-1]


def group_by_mk(subjects, sites, offset, priority):
    """Figure 6 from line 2 on, given line 1's groups: the group of each site; as many groups as sites or more.

    Line 4 takes the first group on a tie, line 7 the site of the least priority.
    """
    groups = {g: subjects[a:b] for g, (a, b) in enumerate(pairwise(offset))}
    left, output = set(range(len(sites))), {}
    while left:
        chosen = {s: min(groups, key=lambda g, s=s: (measure_area([*groups[g], sites[s]]), g)) for s in left}
        for g in list(groups):
            claimants = [s for s in left if chosen[s] == g]
            if claimants:
                s0 = min(claimants, key=lambda s, g=g: (measure_area([*groups[g], sites[s]]), priority[s]))
                output[s0] = g
                del groups[g]
                left.remove(s0)
    return [output[s] for s in range(len(sites))]


def iter_windows(n, m, k):
    """Every way to give m sites in order k consecutive subjects each, in order: tuples of starts."""
    if m == 0:
        return [()]
    return [(*before, i) for i in range((m - 1) * k, n - k + 1) for before in iter_windows(i, m - 1, k)]


def find_cheapest_windows(subjects, sites, k):
    """Brute force of BK's problem: the least cost, and of its solutions the one with the lowest last, ... starts."""
    best = min(
        (sum(measure_area([*subjects[i : i + k], s]) for i, s in zip(starts, sites, strict=True)), starts[::-1])
        for starts in iter_windows(len(subjects), len(sites), k)
    )
    return list(best[1][::-1]), best[0]


def find_cheapest_mapping(subjects, sites, k, *, exactly=False):
    """Brute force of Problem 1 on the x axis: least 1D_Cost of all mappings to disjoint sets of `k` subjects."""
    subset, rest = _iter_disjoint_pairs(len(subjects))
    members = np.array([bin(mask).count("1") for mask in range(2 ** len(subjects))])
    large = members == k if exactly else members >= k
    best = np.where(members == 0, 0.0, inf)  # of exactly these subjects, for the sites so far
    for s in sites:
        low, high = np.array([s[0]]), np.array([s[2]])
        for u in subjects:
            low = np.concatenate([low, np.minimum(low, u[0])])
            high = np.concatenate([high, np.maximum(high, u[2])])
        total = best[rest] + np.where(large, high - low, inf)[subset]
        best = np.full(len(best), inf)
        np.minimum.at(best, rest | subset, total)
    return best.min()


@cache
def _iter_disjoint_pairs(n):
    """All pairs of disjoint sets of n subjects, as bit masks."""
    pairs = [(0, 0)]
    for bit in (2**i for i in range(n)):
        pairs += [(a | bit, b) for a, b in pairs] + [(a, b | bit) for a, b in pairs]
    return np.array(pairs).T


def iter_partitions(members, k):
    """Every way to divide a list into sets of k or more."""
    if not members:
        yield []
        return
    first, *others = members
    for mask in range(2 ** len(others)):
        group = [first, *(x for i, x in enumerate(others) if mask >> i & 1)]
        if len(group) >= k:
            outside = [x for i, x in enumerate(others) if not mask >> i & 1]
            yield from ([group, *rest] for rest in iter_partitions(outside, k))


def iter_consecutive(n, k):
    """Every way to divide n subjects in order into groups of k to 2k - 1: lists of offsets."""
    if n == 0:
        return [[0]]
    return [[*before, n] for size in range(k, 2 * k) if size <= n for before in iter_consecutive(n - size, k)]
