"""Searches locally for smaller rectangles, site by site, from a mapping that BK or MK found.

Not in the paper. A site gives its subjects back, looks for the least rectangle around itself with k subjects that no
other site has, and takes those. So the total area never rises, every site keeps exactly k subjects, and those that one
gives back another may take: subjects are exchanged until a pass over all sites gains next to nothing. No rectangle
becomes longer (width + height) than it was, nor thinner than `MAX_ASPECT` unless it was: long thin ones have small
areas, but nearly show where their subjects are.
"""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from typing import Any

import numpy as np

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Int
from dbanon.methods.sensitive_sites._boxes import Boxes

MAX_ASPECT = 4.0  # of the longer to the shorter side; a rectangle that was thinner may stay so
MAX_PASSES = 10
MIN_GAIN_SHARE = 0.005  # of the total area in a pass; below it is left at that
CANDIDATES_PER_SITE = 1000  # subjects a site looks at, those first that take the least area with it
MAX_TRIED_SIDES = 24  # left and right sides that are tried, of the many there may be
_NO_SPAN = np.int64(2**62)


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
    owner = np.full(len(subjects), -1, np.int32)
    owner[mine.ravel()] = np.repeat(np.arange(len(sites), dtype=np.int32), mine.shape[1])
    wide, tall = measure_sides(ordered, sites, mine)
    area, length = wide * tall, wide + tall
    aspect = np.maximum(MAX_ASPECT, np.maximum(wide, tall) / np.minimum(wide, tall))
    shaped = bool((subjects.x1 > subjects.x0).any() or (subjects.y1 > subjects.y0).any())
    # Kept true: `mine` are k subjects of each site, disjoint, and `owner` their inverse; areas only shrink. The largest
    # rectangles go first: they have most to gain.
    for _ in range(MAX_PASSES):
        before, order = int(area.sum()), np.argsort(-area, kind="stable")
        _search(*ordered.columns, shaped, *sites.columns, order, length, aspect, mine, owner, area)
        if before - int(area.sum()) <= MIN_GAIN_SHARE * before:
            break
    return np.asarray(by_x[mine])


def measure_sides(subjects: Boxes, sites: Boxes, members: Int) -> tuple[Int, Int]:
    """Width and height, in cells, of each site's rectangle with its members [m, k]."""
    x0, y0 = np.minimum(subjects.x0[members].min(1), sites.x0), np.minimum(subjects.y0[members].min(1), sites.y0)
    x1, y1 = np.maximum(subjects.x1[members].max(1), sites.x1), np.maximum(subjects.y1[members].max(1), sites.y1)
    return x1.astype(np.int64) - x0 + 1, y1.astype(np.int64) - y0 + 1


@compile_kernel
def _search(
    x0: Any, y0: Any, x1: Any, y1: Any, shaped: Any, sx0: Any, sy0: Any, sx1: Any, sy1: Any, order: Any, length: Any,
    aspect: Any, members: Any, owner: Any, area: Any,
) -> None:  # fmt: skip
    """One pass; subjects are sorted by x0. `members`, `owner` and `area` are brought up to date."""
    found, size = np.empty(len(x0), np.int64), np.empty(len(x0), np.int64)
    site, box, scratch = np.empty(4, np.int64), np.empty(4, np.int64), np.empty((2, CANDIDATES_PER_SITE), np.int64)
    for s in order:
        site[0], site[1], site[2], site[3] = sx0[s], sy0[s], sx1[s], sy1[s]
        who = _find_near(x0, y0, x1, y1, owner, s, site, length[s], area[s], found, size)
        near = np.empty((4, len(who)), np.int64)  # copies side by side: they are read hundreds of times
        for i in range(len(who)):
            near[0, i], near[1, i], near[2, i], near[3, i] = x0[who[i]], y0[who[i]], x1[who[i]], y1[who[i]]
        if _find_least_box(near, shaped, site, members.shape[1], area[s], length[s], aspect[s], scratch, box):
            area[s] = _move(near, who, s, site, box, area[s], aspect[s], members[s], owner)


@compile_kernel
def _find_near(
    x0: Any, y0: Any, x1: Any, y1: Any, owner: Any, s: Any, site: Any, length: Any, area: Any, found: Any, size: Any,
) -> Any:  # fmt: skip
    """Find subjects for a smaller rectangle of a site, sorted by x0: free or its own, and alone not too far."""
    left, bottom, right, top = site
    n = 0
    # A rectangle with a subject whose x0 is outside [right - length, left + length] would be longer than allowed.
    for u in range(np.searchsorted(x0, right - length), len(x0)):
        if x0[u] > left + length:
            break
        if owner[u] >= 0 and owner[u] != s:
            continue
        wide = max(np.int64(x1[u]), right) - min(np.int64(x0[u]), left) + 1
        tall = max(np.int64(y1[u]), top) - min(np.int64(y0[u]), bottom) + 1
        if wide * tall <= area and wide + tall <= length:
            found[n], size[n] = u, wide * tall
            n += 1
    if n <= CANDIDATES_PER_SITE:
        return found[:n].copy()
    return np.sort(found[np.argsort(size[:n])[:CANDIDATES_PER_SITE]])


@compile_kernel
def _is_acceptable(wide: Any, tall: Any, area: Any, length: Any, aspect: Any) -> Any:
    """Whether a rectangle is smaller, and neither too long nor too thin."""
    return wide * tall < area and wide + tall <= length and max(wide, tall) <= aspect * min(wide, tall)


@compile_kernel
def _move(
    near: Any, who: Any, s: Any, site: Any, box: Any, area: Any, aspect: Any, members: Any, owner: Any
) -> Any:  # fmt: skip
    """Give the site the first k subjects in the box instead of those it had; returns the area it takes with them.

    They may span less than the box: what they span must do as well.
    """
    left, bottom, right, top = site
    chosen, taken = np.empty(len(members), np.int64), 0
    for i in range(len(who)):
        inside = near[0, i] >= box[0] and near[1, i] >= box[1] and near[2, i] <= box[2] and near[3, i] <= box[3]
        if inside and taken < len(members):
            chosen[taken] = who[i]
            taken += 1
            left, bottom = min(left, near[0, i]), min(bottom, near[1, i])
            right, top = max(right, near[2, i]), max(top, near[3, i])
    wide, tall = right - left + 1, top - bottom + 1
    if not _is_acceptable(wide, tall, area, wide + tall, aspect):
        return area
    for member in members:
        owner[member] = -1
    for i in range(taken):
        members[i] = chosen[i]
        owner[chosen[i]] = s
    return wide * tall


@compile_kernel
def _find_least_box(
    near: Any, shaped: Any, site: Any, k: Any, area: Any, length: Any, aspect: Any, scratch: Any, box: Any
) -> Any:
    """Look for a rectangle around a site and k subjects that is smaller than `area`, and put it into `box`.

    For some left and right sides the best bottom and top; then the best left and right for those, and so on.
    """
    by_x, by_y = np.arange(near.shape[1]), np.argsort(near[1])
    lefts, rights = _list_sides(near[0], site[0], -1), _list_sides(near[2], site[2], 1)
    best = area
    for a in range(0, len(lefts), 1 + (len(lefts) - 1) // MAX_TRIED_SIDES):
        for b in range(0, len(rights), 1 + (len(rights) - 1) // MAX_TRIED_SIDES):
            wide = rights[b] - lefts[a] + 1
            # Rectangles only grow wider from here: no further one with this left side can do.
            if wide * (site[3] - site[1] + 1) >= best or wide >= length:
                break
            down, up = _find_shortest_span(near, by_y, 1, shaped, lefts[a], rights[b], site, k, scratch)
            if up < _NO_SPAN and _is_acceptable(wide, up - down + 1, best, length, aspect):
                best = wide * (up - down + 1)
                box[0], box[1], box[2], box[3] = lefts[a], down, rights[b], up
    if best == area:
        return False
    while True:
        # Each turn keeps one pair of sides and makes the other best; it ends, because `best` shrinks every time.
        left, right = _find_shortest_span(near, by_x, 0, shaped, box[1], box[3], site, k, scratch)
        if right == _NO_SPAN:  # of shapes not all spans are tried
            return True
        down, up = _find_shortest_span(near, by_y, 1, shaped, left, right, site, k, scratch)
        if up == _NO_SPAN or not _is_acceptable(right - left + 1, up - down + 1, best, length, aspect):
            return True
        best = (right - left + 1) * (up - down + 1)
        box[0], box[1], box[2], box[3] = left, down, right, up


@compile_kernel
def _list_sides(values: Any, start: Any, step: Any) -> Any:
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
def _find_shortest_span(
    near: Any, order: Any, axis: Any, shaped: Any, begin: Any, end: Any, site: Any, k: Any, scratch: Any
) -> Any:
    """Find the shortest span of an axis that holds the site and k subjects within ``[begin, end]`` of the other axis.

    Of subjects that are shapes, only k consecutive ones by their lower ends are tried. Where there is no span it ends
    at `_NO_SPAN`.
    """
    low, high, first, last = scratch[0], scratch[1], site[axis], site[axis + 2]
    n = 0
    for i in order:
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
