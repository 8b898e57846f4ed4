"""Groups of trajectories that are near one another along a Hilbert curve, overlapping groups merged.

Deutsch, Hull, Vyas, Zhao: Trajectory and Policy Aware Sender Anonymity in Location Based Services, 2012, section 5.2,
after Yarovoy, Bonchi, Lakshmanan, Wang: Anonymizing Moving Objects: How to Hide a MOB in a Crowd?, EDBT 2009. The
distance of two trajectories is the sum over the instants of the difference of their places along the curve. Invariant:
a trajectory is in one group with its k - 1 nearest.
"""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from typing import Any

import numpy as np

from dbanon.base import cores
from dbanon.base.kernels import compile_kernel
from dbanon.methods.kernels import hilbert

_MAX_NEIGHBOURS_HELD = 1 << 21  # neighbours held at once
_MIN_COMPARISONS_PER_THREAD = 1 << 20  # comparisons worth a thread
_INSTANTS_PER_CHUNK = 8  # instants added up between two looks at whether a trajectory is too far already


def group(x: Any, y: Any, levels: int, k: int) -> Any:
    """Number the group of each trajectory: those connected by being among each other's k - 1 nearest.

    Parameters
    ----------
    x, y : int32[n, l]
        Cells in [0, 2^levels); n >= k >= 2.
    levels : int
    k : int

    Returns
    -------
    int32[n]
        The least trajectory of each one's group.

    Notes
    -----
    Equal distances: the lesser trajectory. The curve has coarser cells where sums of l differences would not fit 63
    bits: above 29 levels at 30 instants. O(n^2 l) at worst; trajectories whose sums of places differ by more than the
    distance of those found are not looked at.
    """
    n, instants = x.shape
    coarser = max(0, levels - (63 - instants.bit_length()) // 2)
    place = hilbert.number_cells(x >> coarser, y >> coarser, max(1, levels - coarser))
    total = place.sum(axis=1)
    order = np.argsort(total, kind="stable").astype(np.int32)
    place, total = place[order], total[order]
    least = np.arange(n, dtype=np.int32)
    held = max(1, _MAX_NEIGHBOURS_HELD // (k - 1))
    for low in range(0, n, held):
        high = min(n, low + held)
        near, distance = np.empty((high - low, k - 1), np.int32), np.empty((high - low, k - 1), np.int64)

        def nearest(a: int, b: int, low: int = low, near: Any = near, distance: Any = distance) -> None:
            _find_nearest(place, total, order, low + a, low + b, near[a:b], distance[a:b])

        cores.share_work(np.full(high - low, n), nearest, _MIN_COMPARISONS_PER_THREAD)
        _unite(order[low:high], near, least)
    _settle(least)
    return least


@compile_kernel
def _find_nearest(place: Any, total: Any, order: Any, low: Any, high: Any, near: Any, distance: Any) -> None:
    """Find the nearest of the rows from `low` to `high`, which are sorted by `total`."""
    n, wanted = len(total), near.shape[1]
    for p in range(low, high):
        # The heap of those found: the farthest on top, of equally far ones the greatest trajectory.
        filled, who, far = 0, near[p - low], distance[p - low]
        a, b = p - 1, p + 1
        # Kept true: all between a and b were looked at. |sum of differences| <= sum of |differences|, so beyond the
        # distance of the farthest found nobody is nearer.
        while a >= 0 or b < n:
            if b >= n or (a >= 0 and total[p] - total[a] <= total[b] - total[p]):
                q, gap = a, total[p] - total[a]
                a -= 1
            else:
                q, gap = b, total[b] - total[p]
                b += 1
            if filled == wanted and gap > far[0]:
                break
            d = _measure_distance(place, p, q, far[0] if filled == wanted else np.int64(0x7FFFFFFFFFFFFFFF))
            if filled < wanted:
                filled += 1
                _sift_up(far, who, filled - 1, d, order[q])
            elif d < far[0] or (d == far[0] and order[q] < who[0]):
                _replace_top(far, who, d, order[q])


@compile_kernel
def _measure_distance(place: Any, p: Any, q: Any, most: Any) -> Any:
    """Sum the differences of two rows; where they exceed `most`, of the first instants alone."""
    d = np.int64(0)
    for first in range(0, place.shape[1], _INSTANTS_PER_CHUNK):
        for j in range(first, min(first + _INSTANTS_PER_CHUNK, place.shape[1])):
            d += abs(place[p, j] - place[q, j])
        if d > most:
            break
    return d


@compile_kernel
def _sift_up(far: Any, who: Any, at: Any, d: Any, i: Any) -> None:
    while at > 0:
        above = (at - 1) // 2
        if far[above] > d or (far[above] == d and who[above] > i):
            break
        far[at], who[at] = far[above], who[above]
        at = above
    far[at], who[at] = d, i


@compile_kernel
def _replace_top(far: Any, who: Any, d: Any, i: Any) -> None:
    """Put another in the place of the top."""
    at = 0
    while 2 * at + 1 < len(far):
        below = 2 * at + 1
        if below + 1 < len(far) and (
            far[below + 1] > far[below] or (far[below + 1] == far[below] and who[below + 1] > who[below])
        ):
            below += 1
        if far[below] < d or (far[below] == d and who[below] < i):
            break
        far[at], who[at] = far[below], who[below]
        at = below
    far[at], who[at] = d, i


@compile_kernel
def _unite(order: Any, near: Any, least: Any) -> None:
    """Merge the groups of each trajectory and its nearest."""
    for p in range(len(order)):
        for q in range(near.shape[1]):
            a, b = _find_root(least, order[p]), _find_root(least, near[p, q])
            least[max(a, b)] = min(a, b)


@compile_kernel
def _find_root(least: Any, i: Any) -> Any:
    # Kept true: least[i] <= i, and i itself in the least of a group.
    while least[i] != i:
        least[i] = least[least[i]]
        i = least[i]
    return i


@compile_kernel
def _settle(least: Any) -> None:
    for i in range(len(least)):
        least[i] = least[least[i]]
