"""A lower bound for the cost of bounding rectangles, whatever the groups: how far what was found may be from the best.

Subject i's cloak holds k - 1 others as well, so it is no smaller than the rectangle of i and any one of these: at
least as large as the (k - 1)-th smallest rectangle of i and one other, of all others. The mean of a sample of subjects
times their number estimates the bound of all.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Float, Int, Int32
from dbanon.methods.tp_aware import _blocks

SAMPLED_SUBJECTS = 100
"""Subjects, each in one window, that are looked at in a run."""

_SAMPLE_SEED = 20120905  # not the run's, on which nothing here depends


class _Block(NamedTuple):
    """A block of subjects."""

    who: Int32  # [b]
    near: Int32  # [2 few, b]: their positions at the few instants
    area: Float  # [b or more]: scratch


def draw_sample(present: Int) -> list[Int]:
    """Draw subjects of windows of so many: those of each window, ascending."""
    ends = np.cumsum(present)
    drawn = np.random.default_rng(_SAMPLE_SEED).choice(
        int(ends[-1]), min(int(ends[-1]), SAMPLED_SUBJECTS), replace=False
    )
    drawn = np.sort(drawn)
    parts = np.split(drawn, np.searchsorted(drawn, ends[:-1]))
    return [part - before for part, before in zip(parts, ends - present, strict=True)]


def estimate_sum(areas: Float, of: int) -> tuple[float, float]:
    """Give the sum over `of` subjects, estimated from those of a sample, and its standard error."""
    # The last factor is there because subjects are drawn without replacement.
    error = float(areas.std(ddof=1)) * of / len(areas) ** 0.5 * (1 - len(areas) / of) ** 0.5
    return float(areas.mean()) * of, error


def find_least_areas(x: Int32, y: Int32, order: Int32, offset: Int, k: int, who: Int) -> Float:
    """Find what the cloaks of some subjects have at least, summed over the instants.

    Parameters
    ----------
    x, y : int32[n, l]
        Cells.
    order, offset : int32[n], int64[b + 1]
        Blocks, from `_blocks.cut`.
    who : int64[m]

    Returns
    -------
    float64[m]
        In cells.

    Notes
    -----
    Areas at a few instants are bounds: of a subject and anybody of a block, and of a subject and one other. Blocks are
    visited one by one, so that positions are copied for a block at a time, after each subject's nearest block.
    """
    turn = _blocks.spread(x.shape[1])
    blocks = [order[lo:hi] for lo, hi in pairwise(offset.tolist())]
    mine = _blocks.copy_sampled_positions(x, y, who)
    bound = np.stack([_compute_bounds(_blocks.copy_sampled_positions(x, y, block), mine) for block in blocks], axis=1)
    lowest, area = np.full((len(who), k - 1), np.inf), np.empty(int(np.diff(offset).max()))
    first = bound.argmin(axis=1)
    # Kept true: `lowest` are the smallest areas of each subject with those of the blocks visited so far.
    for nearest in (True, False):
        for b, block in enumerate(blocks):
            # A block whose bound is not below the (k - 1)-th smallest area of a subject cannot change it.
            asked = first == b if nearest else (first != b) & (bound[:, b] < lowest[:, -1])
            if asked.any():
                some = _Block(block, _blocks.copy_sampled_positions(x, y, block), area)
                _insert_areas(x, y, some, turn, np.flatnonzero(asked), who, lowest)
    return np.asarray(lowest[:, -1])


def _compute_bounds(near: NDArray[np.int32], mine: NDArray[np.int32]) -> Float:
    """Give the least area of each subject with anybody of a block, at the few instants: float64[m]."""
    low, high = near.min(axis=1), near.max(axis=1)
    # The rectangle of a subject and any member of a block reaches from the subject to the block's box.
    sides = np.maximum(np.maximum(low[:, None] - mine, mine - high[:, None]), 0) + 1.0
    few = len(sides) // 2
    return np.asarray((sides[:few] * sides[few:]).sum(axis=0))


@compile_kernel
def _insert_areas(x: Int32, y: Int32, some: _Block, turn: Int, asked: Int, who: Int, lowest: Float) -> None:
    """Put areas of the rectangles of a subject and one of a block among the subject's smallest, for some subjects."""
    block, near, area = some
    last, few = lowest.shape[1] - 1, len(near) // 2
    rest = turn[few:]
    for m in asked:
        i = who[m]
        # At a few instants first; at each other the area is a cell at least.
        for p in range(len(block)):
            area[p] = len(turn) - few
        for f in range(few):
            x0, y0 = np.float64(x[i, turn[f]]), np.float64(y[i, turn[f]])
            along, across = near[f], near[few + f]
            for p in range(len(block)):
                area[p] += (abs(along[p] - x0) + 1) * (abs(across[p] - y0) + 1)
        for p in range(len(block)):
            if area[p] < lowest[m, last] and block[p] != i:
                _insert(lowest, m, _complete_area(x, y, block[p], i, rest, area[p], lowest[m, last]))


@compile_kernel
def _complete_area(x: Int32, y: Int32, i: int, o: int, rest: Int, area: float, most: float) -> float:
    """Give the area at all instants, of which `area` has a cell at each of the rest; if above `most`, less."""
    for j in rest:
        area += (abs(x[o, j] - x[i, j]) + 1.0) * (abs(y[o, j] - y[i, j]) + 1.0) - 1.0
        if area >= most:
            break
    return area


@compile_kernel
def _insert(lowest: Float, m: int, area: float) -> None:
    """Put an area among a subject's smallest, if it is one; the greatest of them goes."""
    at = lowest.shape[1] - 1
    if area < lowest[m, at]:
        while at > 0 and lowest[m, at - 1] > area:
            lowest[m, at] = lowest[m, at - 1]
            at -= 1
        lowest[m, at] = area
