"""Rectangles of cells, int64[n, 4] of x0, y0, x1, y1 with both ends inside: made, counted and compared.

What meets is counted by dominance, so time and memory do not depend on how much overlaps.
"""

import numpy as np

from dbanon.attacks.shared.replay import cut_slices, join_ranges
from dbanon.base.trajectory import Bool, Float, Int

NOWHERE_CELL = 1 << 60  # the one cell of a rectangle that is none: it meets nothing that is somewhere
FURTHEST_CELL = 1 << 52  # indices below are exact in a float64
_PAIRS_PER_PART = 1 << 20  # looked at together


def find_cells(bounds: Float, grid_m: float) -> Int:
    """Give the cells from that of the least corner to that of the greatest, of float64[n, 4] in metres."""
    return np.floor(bounds / grid_m).astype(np.int64)


def find_region_cells(bounds: Float, grid_m: float) -> tuple[Int, Bool]:
    """Give the cells of published regions, and which of these have their sides on the grid and an area."""
    sides = bounds / grid_m
    known = np.asarray((np.abs(sides) < FURTHEST_CELL).all(axis=1))  # not so for NaN
    sides[~known] = 0
    whole = np.rint(sides)
    cells = whole.astype(np.int64) - np.array([0, 0, 1, 1])
    known &= (cells[:, 2:] >= cells[:, :2]).all(axis=1)
    cells[~known] = NOWHERE_CELL
    # To the last bit: what is a little off would mark a row among its like.
    return cells, known & (whole * grid_m == bounds).all(axis=1)


def hold(outer: Int, inner: Int) -> Bool:
    """Say of each rectangle whether it holds the other of its row."""
    return np.asarray((outer[:, :2] <= inner[:, :2]).all(axis=1) & (outer[:, 2:] >= inner[:, 2:]).all(axis=1))


def count_meeting(those: Int, others: Int) -> Int:
    """Count for each rectangle how many of the others share a cell with it: int64[n].

    O((n + m) log m) time: begun in time on both axes, less those that ended before on one, plus those on both.
    """
    counts = np.zeros(len(those), dtype=np.int64)
    for x, sign_x in ((0, 1), (2, -1)):
        for y, sign_y in ((1, 1), (3, -1)):
            reach_x = those[:, 2] + 1 if x == 0 else those[:, 0]
            reach_y = those[:, 3] + 1 if y == 1 else those[:, 1]
            counts += sign_x * sign_y * _count_below(others[:, x], others[:, y], reach_x, reach_y)
    return counts


def _count_below(x: Int, y: Int, reach_x: Int, reach_y: Int) -> Int:
    """Count points with x < reach_x and y < reach_y for each pair of reaches (a wavelet matrix over the ranks of y)."""
    order = np.argsort(x, kind="stable")
    rank = np.empty(len(y), dtype=np.int64)
    rank[np.argsort(y[order], kind="stable")] = np.arange(len(y))
    high = np.searchsorted(x[order], reach_x)  # the first `high` points in x
    limit = np.searchsorted(np.sort(y), reach_y)  # those of rank below `limit`
    low, count = np.zeros((2, len(reach_x)), dtype=np.int64)
    # Kept true: [low, high) are, in this level's order, the points within reach in x whose rank agrees with `limit`
    # in all bits above. Where this bit of `limit` is 1, those with a 0 are below it: counted; the others go on.
    for bit in range(len(y).bit_length() - 1, -1, -1):
        one = (rank >> bit) & 1
        zeros = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(1 - one)))
        low_zeros, high_zeros = zeros[low], zeros[high]
        right = ((limit >> bit) & 1).astype(bool)
        count += np.where(right, high_zeros - low_zeros, 0)
        low = np.where(right, zeros[-1] + low - low_zeros, low_zeros)
        high = np.where(right, zeros[-1] + high - high_zeros, high_zeros)
        rank = np.concatenate((rank[one == 0], rank[one == 1]))
    return count


def find_holding(outer: Int, inner: Int) -> tuple[Int, Int]:
    """Find all pairs (index of outer, index of inner) in which the one holds the other."""
    order = np.argsort(inner[:, 0], kind="stable")
    first = np.searchsorted(inner[order, 0], outer[:, 0])
    number = np.searchsorted(inner[order, 0], outer[:, 2], side="right") - first
    # Candidates begin between the outer one's sides in x; a bounded number of pairs is looked at together.
    pairs = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))]
    for low, high in cut_slices(number, _PAIRS_PER_PART):
        owner = np.repeat(np.arange(low, high), number[low:high])
        member = order[join_ranges(first[low:high], number[low:high])]
        held = hold(outer[owner], inner[member])
        pairs.append((owner[held], member[held]))
    owners, members = zip(*pairs, strict=True)
    return np.concatenate(owners), np.concatenate(members)
