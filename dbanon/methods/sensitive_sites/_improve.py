"""Searches locally for smaller rectangles, site by site, from a mapping that BK or MK found.

Not in the paper. A site gives its subjects back, looks for the least rectangle around itself with k subjects that no
other site has, and takes those. So the total area never rises, every site keeps exactly k subjects, and those that one
gives back another may take: subjects are exchanged until a pass over all sites gains next to nothing. No rectangle
becomes longer (width + height) than it was, nor thinner than `MAX_ASPECT` unless it was: long thin ones have small
areas, but nearly show where their subjects are.
"""

from typing import Any, NamedTuple

import numpy as np

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Float, Int, Int32
from dbanon.methods.sensitive_sites._boxes import Boxes

MAX_ASPECT = 4.0  # of the longer to the shorter side; a rectangle that was thinner may stay so
MAX_PASSES = 10
MIN_GAIN_SHARE = 0.005  # of the total area in a pass; below it is left at that
CANDIDATES_PER_SITE = 1000  # subjects a site looks at, those first that take the least area with it
MAX_TRIED_SIDES = 24  # left and right sides that are tried, of the many there may be
_NO_SPAN = 2**62


class _Mapping(NamedTuple):
    """Who is hidden with which site, and what may become of each site's rectangle."""

    members: Int  # [m, k]
    owner: Int32  # [n]: the inverse of `members`; -1 for those without a site
    area: Int  # [m]: cells of the rectangle
    length: Int  # [m]: the greatest width + height allowed
    aspect: Float  # [m]: the greatest ratio of the longer to the shorter side allowed


class _Around(NamedTuple):
    """A site, and the subjects that it may have."""

    site: Int  # [4]: x0, y0, x1, y1
    near: Int  # [4, c]: their x0, y0, x1, y1, copied side by side: they are read hundreds of times; by x0
    order: Int  # [2, c]: their places by x0, and by y0
    shaped: bool  # whether any subject is more than a point
    k: int
    scratch: Int  # [2, c or more]


class _Limits(NamedTuple):
    """What a rectangle that replaces another must keep to."""

    area: int  # it must have fewer cells than this
    length: int
    aspect: float


def improve(subjects: Boxes, sites: Boxes, members: Int) -> Int:
    """Look for smaller rectangles.

    Parameters
    ----------
    members : int64[m, k]
        Disjoint subjects of each site.

    Returns
    -------
    int64[m, k]
        The same kind of mapping; its total area is not greater, no rectangle has a greater width + height, and none is
        thinner than `MAX_ASPECT` to one unless it was.

    Notes
    -----
    A pass takes O(m c (log c + MAX_TRIED_SIDES^2)) for the c <= `CANDIDATES_PER_SITE` subjects near a site, besides
    finding them: those in a strip of x as wide as the rectangle was.
    """
    by_x = np.argsort(subjects.x0, kind="stable")
    rank = np.empty_like(by_x)
    rank[by_x] = np.arange(len(by_x))
    ordered, mine = subjects.take(by_x), rank[members]
    owner = np.full(len(subjects.x0), -1, np.int32)
    owner[mine.ravel()] = np.repeat(np.arange(len(sites.x0), dtype=np.int32), mine.shape[1])
    wide, tall = measure_sides(ordered, sites, mine)
    mapping = _Mapping(
        mine, owner, wide * tall, wide + tall, np.maximum(MAX_ASPECT, np.maximum(wide, tall) / np.minimum(wide, tall))
    )
    area = mapping.area
    shaped = bool((subjects.x1 > subjects.x0).any() or (subjects.y1 > subjects.y0).any())
    # Kept true: each site has k subjects that no other has, and areas only shrink. The largest rectangles go first:
    # they have most to gain.
    for _ in range(MAX_PASSES):
        before, order = int(area.sum()), np.argsort(-area, kind="stable")
        _search(ordered, shaped, sites, order, mapping)
        if before - int(area.sum()) <= MIN_GAIN_SHARE * before:
            break
    return np.asarray(by_x[mine])


def measure_sides(subjects: Boxes, sites: Boxes, members: Int) -> tuple[Int, Int]:
    """Width and height, in cells, of each site's rectangle with its members [m, k]."""
    x0, y0 = np.minimum(subjects.x0[members].min(1), sites.x0), np.minimum(subjects.y0[members].min(1), sites.y0)
    x1, y1 = np.maximum(subjects.x1[members].max(1), sites.x1), np.maximum(subjects.y1[members].max(1), sites.y1)
    return x1.astype(np.int64) - x0 + 1, y1.astype(np.int64) - y0 + 1


@compile_kernel
def _search(subjects: Boxes, shaped: bool, sites: Boxes, turn: Int, mapping: _Mapping) -> None:
    """One pass; subjects are sorted by x0. Members, owners and areas are brought up to date."""
    scratch = np.empty((2, max(len(subjects.x0), CANDIDATES_PER_SITE)), np.int64)
    site, box = np.empty(4, np.int64), np.empty(4, np.int64)
    for s in turn:
        site[0], site[1], site[2], site[3] = sites.x0[s], sites.y0[s], sites.x1[s], sites.y1[s]
        limits = _Limits(mapping.area[s], mapping.length[s], mapping.aspect[s])
        who = _find_near(subjects, mapping.owner, s, site, limits, scratch)
        near = np.empty((4, len(who)), np.int64)
        for i in range(len(who)):
            u = who[i]
            near[0, i], near[1, i] = subjects.x0[u], subjects.y0[u]
            near[2, i], near[3, i] = subjects.x1[u], subjects.y1[u]
        order = np.empty((2, len(who)), np.int64)
        order[0], order[1] = np.arange(len(who)), np.argsort(near[1])
        around = _Around(site, near, order, shaped, mapping.members.shape[1], scratch)
        if _find_least_box(around, limits, box):
            _move(around, who, s, box, limits, mapping)


@compile_kernel
def _find_near(subjects: Boxes, owner: Int32, s: int, site: Int, limits: _Limits, scratch: Int) -> Any:
    """Find subjects for a smaller rectangle of a site, sorted by x0: free or its own, and alone not too far."""
    x0, y0, x1, y1 = subjects
    left, bottom, right, top = site
    who, size, n = scratch[0], scratch[1], 0
    # A rectangle with a subject whose x0 is outside [right - length, left + length] would be longer than allowed.
    for u in range(np.searchsorted(x0, right - limits.length), len(owner)):
        if x0[u] > left + limits.length:
            break
        if owner[u] >= 0 and owner[u] != s:
            continue
        wide = max(np.int64(x1[u]), right) - min(np.int64(x0[u]), left) + 1
        tall = max(np.int64(y1[u]), top) - min(np.int64(y0[u]), bottom) + 1
        if wide * tall <= limits.area and wide + tall <= limits.length:
            who[n], size[n] = u, wide * tall
            n += 1
    if n <= CANDIDATES_PER_SITE:
        return who[:n].copy()
    return np.sort(who[np.argsort(size[:n])[:CANDIDATES_PER_SITE]])


@compile_kernel
def _is_acceptable(wide: int, tall: int, limits: _Limits) -> bool:
    """Whether a rectangle is smaller, and neither too long nor too thin."""
    thin = max(wide, tall) > limits.aspect * min(wide, tall)
    return wide * tall < limits.area and wide + tall <= limits.length and not thin


@compile_kernel
def _move(around: _Around, who: Int, s: int, box: Int, limits: _Limits, mapping: _Mapping) -> None:
    """Give the site the first k subjects in the box instead of those it had.

    They may span less than the box: what they span must do as well.
    """
    left, bottom, right, top = around.site
    near, chosen, taken = around.near, np.empty(around.k, np.int64), 0
    for i in range(len(who)):
        inside = near[0, i] >= box[0] and near[1, i] >= box[1] and near[2, i] <= box[2] and near[3, i] <= box[3]
        if inside and taken < around.k:
            chosen[taken] = who[i]
            taken += 1
            left, bottom = min(left, near[0, i]), min(bottom, near[1, i])
            right, top = max(right, near[2, i]), max(top, near[3, i])
    wide, tall = right - left + 1, top - bottom + 1
    if not _is_acceptable(wide, tall, limits):
        return
    # Those of before first: some of them are most often chosen again.
    for member in mapping.members[s]:
        mapping.owner[member] = -1
    for i in range(taken):
        mapping.members[s, i] = chosen[i]
        mapping.owner[chosen[i]] = s
    mapping.area[s] = wide * tall


@compile_kernel
def _find_least_box(around: _Around, limits: _Limits, box: Int) -> bool:
    """Look for a rectangle around a site and k subjects that keeps to the limits, and put it into `box`.

    For some left and right sides the best bottom and top; then the best left and right for those, and so on.
    """
    near, site = around.near, around.site
    lefts, rights = _list_sides(near[0], site[0], -1), _list_sides(near[2], site[2], 1)
    least = limits
    for a in range(0, len(lefts), 1 + (len(lefts) - 1) // MAX_TRIED_SIDES):
        for b in range(0, len(rights), 1 + (len(rights) - 1) // MAX_TRIED_SIDES):
            wide = rights[b] - lefts[a] + 1
            # Rectangles only grow wider from here: no further one with this left side can do.
            if wide * (site[3] - site[1] + 1) >= least.area or wide >= limits.length:
                break
            down, up = _find_shortest_span(around, 1, lefts[a], rights[b])
            if up < _NO_SPAN and _is_acceptable(wide, up - down + 1, least):
                least = _Limits(wide * (up - down + 1), limits.length, limits.aspect)
                box[0], box[1], box[2], box[3] = lefts[a], down, rights[b], up
    if least.area == limits.area:
        return False
    while True:
        # Each turn keeps one pair of sides and makes the other best; it ends, because the area shrinks every time.
        left, right = _find_shortest_span(around, 0, box[1], box[3])
        if right == _NO_SPAN:  # of shapes not all spans are tried
            return True
        down, up = _find_shortest_span(around, 1, left, right)
        if up == _NO_SPAN or not _is_acceptable(right - left + 1, up - down + 1, least):
            return True
        least = _Limits((right - left + 1) * (up - down + 1), limits.length, limits.aspect)
        box[0], box[1], box[2], box[3] = left, down, right, up


@compile_kernel
def _list_sides(values: Int, start: int, step: int) -> Int:
    """Distinct coordinates from `start` outwards: those at which one more subject comes in."""
    ordered = np.sort(values)
    sides = np.empty(len(values) + 1, np.int64)
    sides[0], number = start, 1
    for i in range(len(ordered)):
        value = ordered[i] if step > 0 else ordered[len(ordered) - 1 - i]
        if (value - sides[number - 1]) * step > 0:
            sides[number] = value
            number += 1
    return sides[:number]


@compile_kernel
def _find_shortest_span(around: _Around, axis: int, begin: int, end: int) -> tuple[int, int]:
    """Find the shortest span of an axis that holds the site and k subjects within ``[begin, end]`` of the other axis.

    Of subjects that are shapes, only k consecutive ones by their lower ends are tried. Where there is no span it ends
    at `_NO_SPAN`.
    """
    site, near, order, shaped, k, scratch = around
    low, high, first, last, n = scratch[0], scratch[1], site[axis], site[axis + 2], 0
    for i in order[axis]:
        low[n], high[n] = near[axis, i], near[axis + 2, i]  # without a branch, which could not be foretold
        n += (near[1 - axis, i] >= begin) & (near[3 - axis, i] <= end)
    best, down, up = _NO_SPAN, first, _NO_SPAN
    # In the order of lower ends: the span from the a-th is least with the k - 1 behind it (of points: to the last).
    for a in range(n - k + 1):
        reach = high[a + k - 1]
        if shaped:
            for b in range(a, a + k - 1):
                reach = max(reach, high[b])
        start, stop = min(low[a], first), max(reach, last)
        if stop - start < best:
            best, down, up = stop - start, start, stop
        # From here on the span begins at the site, and later points only move its end up.
        if low[a] >= first:
            break
    return down, up
