"""MK: users cut along a curve into groups of k to 2 k - 1 at the least total area, which sites then choose among.

Krishnamachari, Ghinita, Kalnis: Privacy-Preserving Publication of User Locations in the Proximity of Sensitive Sites,
SSDBM 2008, section 3 (figure 6, with 1DAnon of Ghinita, Karras, Kalnis, Mamoulis, VLDB 2007).
"""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from dbanon.methods import _threads
from dbanon.methods._boxes import Boxes
from dbanon.trajectory import Int

_kernel = numba.njit(cache=True, nogil=True, error_model="numpy")

_WORST = np.int64(2**62)


def partition(users: Boxes, k: int) -> Int:
    """Cut users into groups of k to 2 k - 1 consecutive ones, so that the sum of the groups' areas is least.

    Parameters
    ----------
    users : Boxes
        In the order of the curve.
    k : int

    Returns
    -------
    int64[g + 1]
        Group i holds the users ``[offset[i], offset[i + 1])``; of equal costs the shortest last group. There is no
        group where there are fewer than k users.

    Notes
    -----
    O(n k) time.
    """
    if len(users) < k:
        return np.zeros(1, np.int64)
    cost, size = np.full(len(users) + 1, _WORST, np.int64), np.zeros(len(users) + 1, np.int32)
    _partition(*users.columns, k, cost, size)
    ends = [len(users)]
    while ends[-1]:
        ends.append(ends[-1] - int(size[ends[-1]]))
    return np.array(ends[::-1], np.int64)


def assign(users: Boxes, sites: Boxes, offset: Int, priority: Int) -> Int:
    """Give every site a group of its own, in stages: each takes the group that fits it best, then each group one site.

    Parameters
    ----------
    users, sites : Boxes
    offset : int64[g + 1]
        Groups from `partition`, at least as many as sites.
    priority : int64[m]
        Distinct numbers; of the sites that fit a group equally well it takes the one with the lowest. The paper says
        "a random site": draw them.

    Returns
    -------
    int64[m]
        Group of each site; of groups that fit a site equally well it wants the lowest.

    Notes
    -----
    O(m g) time a stage; each stage serves at least one site, and mostly more than half of those left.
    """
    boxes = _bounds(users, offset)
    group, left = np.full(len(sites), -1, np.int64), np.arange(len(sites))
    free = np.arange(len(offset) - 1)
    while len(left):
        wanted, area = _wishes(boxes.take(free), sites.take(left))
        order = np.lexsort((priority[left], area, wanted))
        served = order[np.flatnonzero(np.diff(wanted[order], prepend=-1))]
        group[left[served]] = free[wanted[served]]
        free = np.delete(free, wanted[served])
        left = np.delete(left, served)
    return group


def windows(users: Boxes, sites: Boxes, k: int) -> Int | None:
    """Give every site k consecutive users of its own, out of MK's groups: those it takes the least area with.

    Returns
    -------
    int64[m] or None
        Index of the first user of each; None where there are fewer groups than sites.
    """
    offset = partition(users, k)
    if len(offset) <= len(sites):
        return None
    group = assign(users, sites, offset, np.arange(len(sites)))
    start, spans = offset[group].copy(), users.windows(k)
    least = spans.take(start).joined(sites).areas()
    for shift in range(1, k):  # a group has 2 k - 1 users at most
        other = np.minimum(offset[group] + shift, offset[group + 1] - k)
        area = spans.take(other).joined(sites).areas()
        start, least = np.where(area < least, other, start), np.minimum(area, least)
    return start


def _bounds(users: Boxes, offset: Int) -> Boxes:
    first = offset[:-1]
    low = (np.minimum.reduceat(side, first) for side in (users.x0, users.y0))
    high = (np.maximum.reduceat(side, first) for side in (users.x1, users.y1))
    x0, y0, x1, y1 = *low, *high
    return Boxes(x0=x0, y0=y0, x1=x1, y1=y1)


def _wishes(groups: Boxes, sites: Boxes) -> tuple[Int, Int]:
    """Find for each site the group with which it takes the least area, and that area."""
    wanted, area = np.empty(len(sites), np.int64), np.empty(len(sites), np.int64)
    parts = np.array_split(np.arange(len(sites)), _threads.count())

    def work(part: NDArray[np.int64]) -> None:
        if len(part):
            _nearest_groups(*groups.columns, *sites.columns, part[0], part[-1] + 1, wanted, area)

    with ThreadPoolExecutor(len(parts)) as pool:
        list(pool.map(work, parts))
    return wanted, area


@_kernel
def _partition(x0: Any, y0: Any, x1: Any, y1: Any, k: Any, cost: Any, size: Any) -> None:
    """cost[i] is the least for the first i users, size[i] that of the last group among them."""
    cost[0] = 0
    for i in range(k, len(x0) + 1):
        left, bottom, right, top = x0[i - 1], y0[i - 1], x1[i - 1], y1[i - 1]
        for g in range(1, min(2 * k, i + 1)):
            u = i - g
            left, bottom = min(left, x0[u]), min(bottom, y0[u])
            right, top = max(right, x1[u]), max(top, y1[u])
            if g >= k and cost[u] < _WORST:
                total = cost[u] + (np.int64(right) - left + 1) * (np.int64(top) - bottom + 1)
                if total < cost[i]:
                    cost[i] = total
                    size[i] = g


@_kernel
def _nearest_groups(
    gx0: Any, gy0: Any, gx1: Any, gy1: Any, sx0: Any, sy0: Any, sx1: Any, sy1: Any, first: Any, last: Any, wanted: Any,
    area: Any,
) -> None:  # fmt: skip
    for s in range(first, last):
        left, bottom, right, top = sx0[s], sy0[s], sx1[s], sy1[s]
        best, at = _WORST, 0
        for g in range(len(gx0)):
            wide = np.int64(np.int32(max(gx1[g], right) - min(gx0[g], left))) + 1
            high = np.int64(np.int32(max(gy1[g], top) - min(gy0[g], bottom))) + 1
            if wide * high < best:
                best = wide * high
                at = g
        wanted[s] = at
        area[s] = best
