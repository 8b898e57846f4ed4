"""The Local algorithm: one subject after the other, each with the box that covers sites most cheaply.

Hu, Xu, Du, Ng: Privacy-Aware Location Publishing for Moving Clients, 2007, is not available. This follows section 2.3
and Figure 5 of Krishnamachari, Ghinita, Kalnis: Privacy-Preserving Publication of User Locations in the Proximity of
Sensitive Sites, 2008. A subject's candidate box is the box of the least coverage around the subject. Coverage is area
over the number of remaining sites in the box, and boxes reach from the subject outwards to remaining sites. Local
outputs the subject of the least coverage, each site in that subject's box gains a subject, and a site that has `k`
subjects leaves. Sites share subjects, so Local gives no guarantee.

The paper leaves two choices open. Of boxes of equal coverage the one of smaller area is taken, then that of lowest
(x0, y0, x1, y1). Of subjects of equal coverage the first is taken.

The answer is that of the paper's four nested sweeps; two observations save most of them. As sites leave, the coverage
of every subject's best box can only grow. So an earlier coverage is a lower bound, and a subject is looked at again
only when that bound is the least of all. Second, order sites by the area that each needs by itself: a box whose last
site in this order is the j-th has at least that area and holds at most j sites.

Coverages are compared by multiplying crosswise in int64. That is exact while the area of the whole, times the number of
sites, stays below 2^63, as it must for the sum of areas of any algorithm.
"""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from typing import Any

import numpy as np

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Int
from dbanon.methods.sensitive_sites._boxes import Boxes


def cover(subjects: Boxes, sites: Boxes, k: int) -> tuple[Int, Int]:
    """Cover every site by the boxes of `k` subjects.

    Parameters
    ----------
    subjects, sites : Boxes
        n and m of them, in any order; the order of subjects decides ties.
    k : int
        Subjects a site needs, at least 1.

    Returns
    -------
    site, subject : int64[p]
        Index pairs, by site, then subject: `k` for every site where ``n >= k m``. A subject is output at most once, so
        fewer subjects may be spent while sites still need some; these sites then have fewer than `k`.

    Notes
    -----
    O(m^4) time for each look at a subject, at worst; O(n + k m) memory.
    """
    n, m = len(subjects.x0), len(sites.x0)
    x0, y0, x1, y1 = sites
    # Sites in the order in which sweeps to the west, south, east and north meet them, wherever they start.
    sweep = np.array([np.argsort(side, kind="stable") for side in (-x0, -y0, x1, y1)])
    site, subject = np.empty((2, k * m), np.int64)
    heap, boxes = np.arange(n), np.empty((n, 6), np.int64)
    need, scratch = np.full(m, k), np.empty((11, m), np.int64)
    number = _cover(*subjects, *sites, sweep, need, heap, boxes, scratch, site, subject)
    order = np.lexsort((subject[:number], site[:number]))
    return site[order], subject[order]


# In every kernel `boxes` is area, number of sites, x0, y0, x1, y1 of each subject's box; `need` is how many subjects a
# site still needs. Rows of `scratch`, by site: how far a box must reach west, south, east, north to hold it; a key, -1
# where the site does not matter. Then lists of sites: by key; by west, south, east, north; of a strip, by north.

_KEY, _BY_KEY, _BY_SIDE, _STRIP = 4, 5, 6, 10


@compile_kernel
def _cover(
    ux0: Any, uy0: Any, ux1: Any, uy1: Any, x0: Any, y0: Any, x1: Any, y1: Any, sweep: Any, need: Any, heap: Any,
    boxes: Any, scratch: Any, site: Any, subject: Any,
) -> Any:  # fmt: skip
    """Write the pairs, unsorted; their number."""
    m, size, remaining, number = len(x0), len(heap), len(x0), 0
    for u in range(size if m else 0):
        kept = _list_reach(ux0[u], uy0[u], ux1[u], uy1[u], x0, y0, x1, y1, need, scratch)
        _write_bound(kept, scratch, boxes[u])
    for i in range(size // 2 - 1 if m else -1, -1, -1):
        _sift(heap, i, size, boxes)
    # Kept true: boxes[u] is at most the coverage of u's best box, and exact if its box still holds box[1] sites. So the
    # subject on top, if exact, has the least coverage of all, and of equals the lowest index.
    while remaining and size:
        u = heap[0]
        box, inside = boxes[u], 0
        for s in range(m):
            inside += need[s] > 0 and _is_enclosing(box, x0[s], y0[s], x1[s], y1[s])
        if inside < box[1]:  # a site left since it was found, or it is but a bound
            kept = _list_reach(ux0[u], uy0[u], ux1[u], uy1[u], x0, y0, x1, y1, need, scratch)
            _search(ux0[u], uy0[u], ux1[u], uy1[u], kept, sweep, scratch, box)
        else:
            for s in range(m):
                if need[s] > 0 and _is_enclosing(box, x0[s], y0[s], x1[s], y1[s]):
                    site[number], subject[number] = s, u
                    number += 1
                    need[s] -= 1
                    remaining -= need[s] == 0
            size -= 1
            heap[0] = heap[size]
        _sift(heap, 0, size, boxes)
    return number


@compile_kernel
def _is_enclosing(box: Any, x0: Any, y0: Any, x1: Any, y1: Any) -> Any:
    return box[2] <= x0 and box[3] <= y0 and box[4] >= x1 and box[5] >= y1


@compile_kernel
def _sift(heap: Any, at: Any, size: Any, boxes: Any) -> None:
    """Restore the heap, least coverage and then least subject first, below a place whose subject may have to sink."""
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _precedes(heap[child + 1], heap[child], boxes):
            child += 1
        if not _precedes(heap[child], heap[at], boxes):
            return
        heap[at], heap[child] = heap[child], heap[at]
        at = child


@compile_kernel
def _precedes(a: Any, b: Any, boxes: Any) -> Any:
    left, right = boxes[a, 0] * boxes[b, 1], boxes[b, 0] * boxes[a, 1]
    return left < right or (left == right and a < b)


@compile_kernel
def _list_reach(
    ux0: Any, uy0: Any, ux1: Any, uy1: Any, x0: Any, y0: Any, x1: Any, y1: Any, need: Any, scratch: Any
) -> Any:
    """Fill in the reach to every remaining site, and list them by the area that takes; their number."""
    kept = 0
    for s in range(len(x0)):
        scratch[_KEY, s] = -1
        if need[s] > 0:
            west, south = max(np.int64(ux0) - x0[s], 0), max(np.int64(uy0) - y0[s], 0)
            east, north = max(np.int64(x1[s]) - ux1, 0), max(np.int64(y1[s]) - uy1, 0)
            scratch[0, s], scratch[1, s], scratch[2, s], scratch[3, s] = west, south, east, north
            scratch[_KEY, s] = (np.int64(ux1) - ux0 + 1 + west + east) * (np.int64(uy1) - uy0 + 1 + south + north)
            scratch[_BY_KEY, kept] = s
            kept += 1
    _sort(scratch, kept)
    return kept


@compile_kernel
def _sort(scratch: Any, kept: Any) -> None:
    """Shell sort of the first sites listed by key, by key; which of equal ones comes first does not matter."""
    gap = kept // 2
    while gap > 0:
        for i in range(gap, kept):
            s = scratch[_BY_KEY, i]
            while i >= gap and scratch[_KEY, scratch[_BY_KEY, i - gap]] > scratch[_KEY, s]:
                scratch[_BY_KEY, i] = scratch[_BY_KEY, i - gap]
                i -= gap  # noqa: PLW2901 - the hole moves down
            scratch[_BY_KEY, i] = s
        # Gaps shrink by 2.2 (Gonnet and Baeza-Yates), and the last one is 1.
        gap = 5 * gap // 11 if gap != 2 else 1


@compile_kernel
def _write_bound(kept: Any, scratch: Any, box: Any) -> None:
    """Write a lower bound of a subject's coverage, with a box that holds nothing."""
    box[0], box[1] = scratch[_KEY, scratch[_BY_KEY, 0]], 1
    box[2], box[3], box[4], box[5] = 1, 1, 0, 0
    # A box whose last site by key is the j-th has at least its area and at most j + 1 sites: the least quotient.
    for j in range(1, kept):
        area = scratch[_KEY, scratch[_BY_KEY, j]]
        if area * box[1] < box[0] * (j + 1):
            box[0], box[1] = area, j + 1


@compile_kernel
def _write_start(ux0: Any, uy0: Any, ux1: Any, uy1: Any, kept: Any, scratch: Any, box: Any) -> None:
    """Write the best of the boxes around the first j sites by key; there is a better one if it holds more than j."""
    west = south = east = north = 0
    for j in range(kept):
        s = scratch[_BY_KEY, j]
        west, south = max(west, scratch[0, s]), max(south, scratch[1, s])
        east, north = max(east, scratch[2, s]), max(north, scratch[3, s])
        area = (np.int64(ux1) - ux0 + 1 + west + east) * (np.int64(uy1) - uy0 + 1 + south + north)
        if j == 0 or area * box[1] < box[0] * (j + 1):
            box[0], box[1] = area, j + 1
            box[2], box[3], box[4], box[5] = ux0 - west, uy0 - south, ux1 + east, uy1 + north


@compile_kernel
def _keep(kept: Any, sweep: Any, scratch: Any, box: Any) -> Any:
    """List again, by height and by side, only the sites that a box as good as the best so far can hold; their number.

    The key becomes the height that is to be added to hold the site.
    """
    # By the bound above: a box whose last site by key is behind the first `most` has more coverage than the best.
    most = 0
    for j in range(kept):
        if scratch[_KEY, scratch[_BY_KEY, j]] * box[1] <= box[0] * (j + 1):
            most = j + 1
    for j in range(kept):
        s = scratch[_BY_KEY, j]
        scratch[_KEY, s] = scratch[1, s] + scratch[3, s] if j < most else -1
    _sort(scratch, most)
    for side in range(4):
        listed = 0
        for p in range(sweep.shape[1]):
            s = sweep[side, p]
            if scratch[_KEY, s] >= 0:
                scratch[_BY_SIDE + side, listed] = s
                listed += 1
    return most


@compile_kernel
def _find_flattest(kept: Any, scratch: Any, west: Any, height: Any) -> Any:
    """Of the sites within reach to the west, the least height over the number of sites: a pair, (0, 0) of none."""
    best, of, number = 0, 0, 0
    for j in range(kept):
        s = scratch[_BY_KEY, j]
        if scratch[0, s] <= west:
            number += 1
            if of == 0 or (height + scratch[_KEY, s]) * of < best * number:
                best, of = height + scratch[_KEY, s], number
    return best, of


@compile_kernel
def _search(ux0: Any, uy0: Any, ux1: Any, uy1: Any, kept: Any, sweep: Any, scratch: Any, box: Any) -> None:
    """Find a subject's candidate box: sweep west, then east; in each strip sweep south, then north.

    Whatever is passed over has more coverage than the best so far: equal coverage may be of smaller area.
    """
    _write_start(ux0, uy0, ux1, uy1, kept, scratch, box)
    kept = _keep(kept, sweep, scratch, box)
    width, height = np.int64(ux1) - ux0 + 1, np.int64(uy1) - uy0 + 1
    # Least height a site for all sites together: times a width, a bound for every box of that width or wider.
    all_flattest, all_number = _find_flattest(kept, scratch, scratch[0, scratch[_BY_SIDE, kept - 1]], height)
    last_west = -1
    for p in range(-1, kept):
        west = scratch[0, scratch[_BY_SIDE, p]] if p >= 0 else 0
        if west == last_west:
            continue
        last_west = west
        if (width + west) * all_flattest * box[1] > box[0] * all_number:
            break
        # Sharper: of the sites this far west. It bounds all stops to the east.
        flattest, number = _find_flattest(kept, scratch, west, height)
        last_east = -1
        for q in range(-1, kept if number else -1):
            east = scratch[2, scratch[_BY_SIDE + 2, q]] if q >= 0 else 0
            if east == last_east:
                continue
            last_east = east
            if (width + west + east) * flattest * box[1] > box[0] * number:
                break
            limit, listed = _list_strip(kept, scratch, west, east, width, height, box)
            if listed:
                _sweep_strip(ux0, uy0, ux1, uy1, kept, scratch, west, east, limit, listed, box)


@compile_kernel
def _list_strip(kept: Any, scratch: Any, west: Any, east: Any, width: Any, height: Any, box: Any) -> Any:
    """List the sites of a strip that a box as good as the best so far can hold, by north.

    Returns the most height to be added for one of them, and their number: 0 also where they do not fill the strip's
    width, because the strip that they fill is better.
    """
    number, most, limit = 0, 0, -1
    for j in range(kept):
        s = scratch[_BY_KEY, j]
        if scratch[0, s] <= west and scratch[2, s] <= east:
            number += 1
            if (width + west + east) * (height + scratch[_KEY, s]) * box[1] <= box[0] * number:
                most, limit = number, scratch[_KEY, s]
    listed, farthest_west, farthest_east = 0, 0, 0
    for j in range(kept if most else 0):
        s = scratch[_BY_SIDE + 3, j]
        if scratch[0, s] <= west and scratch[2, s] <= east and scratch[_KEY, s] <= limit:
            scratch[_STRIP, listed] = s
            listed += 1
            farthest_west, farthest_east = max(farthest_west, scratch[0, s]), max(farthest_east, scratch[2, s])
    return limit, listed if farthest_west == west and farthest_east == east else 0


@compile_kernel
def _sweep_strip(
    ux0: Any, uy0: Any, ux1: Any, uy1: Any, kept: Any, scratch: Any, west: Any, east: Any, limit: Any, listed: Any,
    box: Any,
) -> None:  # fmt: skip
    """Sweep south over the sites of a strip, and for each stop north, improving the best box."""
    width, height = np.int64(ux1) - ux0 + 1 + west + east, np.int64(uy1) - uy0 + 1
    last_south = -1
    for p in range(-1, kept):
        south = 0
        if p >= 0:
            s = scratch[_BY_SIDE + 1, p]
            south = scratch[1, s]
            if south == last_south or scratch[0, s] > west or scratch[2, s] > east or scratch[_KEY, s] > limit:
                continue
        last_south = south
        # Even with no step north and all sites of the strip it would be worse; so would every stop farther south.
        if width * (height + south) * box[1] > box[0] * listed:
            break
        number = 0
        for q in range(listed):
            s = scratch[_STRIP, q]
            area = width * (height + south + scratch[3, s])
            if area * box[1] > box[0] * listed:
                break
            if scratch[1, s] <= south:
                number += 1
                # Of sites equally far north the last counts all: it is better than those before it.
                _improve(box, area, number, ux0 - west, uy0 - south, ux1 + east, uy1 + scratch[3, s])


@compile_kernel
def _improve(box: Any, area: Any, number: Any, x0: Any, y0: Any, x1: Any, y1: Any) -> None:
    """Replace the best box by a better one: of less coverage, then less area, then lower (x0, y0, x1, y1)."""
    new, old = area * box[1], box[0] * number
    better = new < old or (new == old and area < box[0])
    if new == old and area == box[0]:
        if x0 != box[2]:
            better = x0 < box[2]
        elif y0 != box[3]:
            better = y0 < box[3]
        else:  # with as much area, y1 is the lower where x1 is the higher
            better = x1 < box[4]
    if better:
        box[0], box[1] = area, number
        box[2], box[3], box[4], box[5] = x0, y0, x1, y1
