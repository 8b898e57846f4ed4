"""BK: k consecutive subjects of a curve for each of its sites in turn, at the least total area.

Exact: the same optimum as the paper's matrices, with the same ties (the lowest start). Where the paper stores a start
for every subject and site, one bit is enough: whether a group that starts here is better than every earlier one. And a
column, shifted by the subjects that earlier sites need at least, depends on the column before it only at the same place
and on itself only at the place before: so columns are tabulated block by block, and ranges of columns follow one
another through the blocks, each on another core.

Krishnamachari, Ghinita, Kalnis: Privacy-Preserving Publication of User Locations in the Proximity of Sensitive Sites,
SSDBM 2008, section 4.2.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.base import cores
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Int
from dbanon.methods.sensitive_sites._boxes import Boxes

MAX_DECISION_BYTES = 512 * 1024**2
"""Decisions held at once; where there are more, columns are tabulated a second time instead of being remembered."""

# Starts: what a core works on stays in its cache; a multiple of 8, so that blocks share no byte.
_STARTS_PER_BLOCK = 8192
_INFINITE_COST = np.int64(2**62)


def find_best_starts(subjects: Boxes, sites: Boxes, k: int) -> Int:
    """Find where each site's group of k consecutive subjects starts, so that the total area is least.

    Parameters
    ----------
    subjects, sites : Boxes
        n and m, both in the order of the curve; n >= k m. The area of all of them times m is below 2^62.

    Returns
    -------
    int64[m]
        Index of the first subject of each site's group, ascending by k or more; of several optima the one with the
        lowest starts, decided from the last site to the first.

    Notes
    -----
    O(m (n - k m)) time; m (n - k m) bits up to `MAX_DECISION_BYTES`, and 16 bytes a subject.
    """
    windows, width = subjects.bound_windows(k), len(subjects.x0) + 1 - k * len(sites.x0)
    step = max(1, MAX_DECISION_BYTES // -(-width // 8))
    cuts = [*range(0, len(sites.x0), step), len(sites.x0)]
    # costs[i] is the column before the i-th stretch of columns; of the decisions only the last stretch's are kept.
    costs = [np.zeros(width, np.int64)]
    better: NDArray[np.uint8] = np.empty((0, 0), np.uint8)
    for low, high in pairwise(cuts):
        costs.append(costs[-1].copy())
        better = _tabulate(windows, sites, k, low, high, costs[-1])
    start = np.empty(len(sites.x0), np.int64)
    # Lines 15 to 19: from the last start allowed, back through the columns; earlier stretches are tabulated again.
    at = width - 1
    for number, (low, high) in reversed(list(enumerate(pairwise(cuts)))):
        if high < len(sites.x0):
            better = _tabulate(windows, sites, k, low, high, costs[number].copy())
        at = _trace(better, at, start[low:high])
    return start + k * np.arange(len(sites.x0))


class _Table(NamedTuple):
    """A stretch of columns while they are tabulated."""

    low: int  # its first column
    cost: Int  # [n + 1 - m k]: the column done last, place by place
    edge: Int  # [columns]: the least of each column so far
    better: NDArray[np.uint8]  # [columns, bytes]: a bit a place, whether a group that starts there is the best so far


def _tabulate(windows: Boxes, sites: Boxes, k: int, low: int, high: int, cost: Int) -> NDArray[np.uint8]:
    """Turn the costs of column `low` - 1 into those of column `high` - 1; returns the decisions of those between.

    The columns are cut into as many ranges as there are threads. In a round each range does one block, the
    first range being ahead of the second by one, and so on.
    """
    threads = min(cores.count_threads(), high - low)
    parts = list(pairwise(low + (high - low) * i // threads for i in range(threads + 1)))
    table = _Table(
        low=low, cost=cost, edge=np.full(high - low, _INFINITE_COST, np.int64),
        better=np.zeros((high - low, -(-len(cost) // 8)), np.uint8),
    )  # fmt: skip
    scratch = np.empty((threads, _STARTS_PER_BLOCK), np.int64)
    blocks = range(-(-len(cost) // _STARTS_PER_BLOCK))

    def compute_block(part: int, block: int) -> None:
        if block in blocks:
            first, last = parts[part]
            begin, end = block * _STARTS_PER_BLOCK, min((block + 1) * _STARTS_PER_BLOCK, len(cost))
            _compute_columns(windows, sites, k, first, last, begin, end, table, scratch[part])

    with ThreadPoolExecutor(threads) as pool:
        # Kept true: when a range comes to a block, the range before it has left there its last column (Cost_{j-1}), and
        # it has itself carried its minima (Cost_j[t - 1]) to the block's begin. No two ranges are at one block.
        for turn in range(len(blocks) + threads - 1):
            list(pool.map(compute_block, range(threads), range(turn, turn - threads, -1)))
    return table.better


@compile_kernel
def _compute_columns(
    windows: Boxes, sites: Boxes, k: int, first: int, last: int, begin: int, end: int, table: _Table, scratch: Int
) -> None:
    """Equation (6) for the starts ``[begin, end)`` of columns ``[first, last)``; `edge` carries minima on to the next.

    With t = i - j k, Cost_j[t] = min(Cost_j[t - 1], Cost_{j-1}[t] + GC(window t + j k, s_j)).
    """
    n = end - begin
    for j in range(first, last):
        # a(j) and b(j), equation (5), with j from 0: t = i - j k runs over the same n + 1 - m k places in every column.
        shift = begin + j * k
        a0, b0 = windows.x0[shift : shift + n], windows.y0[shift : shift + n]
        a1, b1 = windows.x1[shift : shift + n], windows.y1[shift : shift + n]
        left, bottom, right, top = sites.x0[j], sites.y0[j], sites.x1[j], sites.y1[j]
        column = table.cost[begin:end]
        # Apart from the minima, and in int32 as long as it fits, so that it is vectorised.
        for t in range(n):
            wide = np.int64(np.int32(max(a1[t], right) - min(a0[t], left))) + 1
            high = np.int64(np.int32(max(b1[t], top) - min(b0[t], bottom))) + 1
            scratch[t] = column[t] + wide * high
        # Lines 10 to 14, the last two for every i: the minimum so far is carried on; < takes the lowest of equals.
        best, row = table.edge[j - table.low], table.better[j - table.low]
        for t in range(n):
            total = scratch[t]
            if total < best:
                best = total
                row[(begin + t) >> 3] |= np.uint8(1 << (t & 7))
            column[t] = best
        table.edge[j - table.low] = best


@compile_kernel
def _trace(better: NDArray[np.uint8], at: int, start: Int) -> int:
    """Follow the decisions back: the best start at or before `at` is the last one that was better than all before."""
    for j in range(len(start) - 1, -1, -1):
        while not better[j, at >> 3] >> (at & 7) & 1:
            at -= 1
        start[j] = at
    return at
