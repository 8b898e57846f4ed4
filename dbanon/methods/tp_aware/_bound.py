"""A lower bound for the cost of bounding rectangles, whatever the groups: how far what was found may be from the best.

Subject i's cloak holds k - 1 others as well, so it is no smaller than the rectangle of i and any one of these: at
least as large as the (k - 1)-th smallest rectangle of i and one other, of all others. The mean of a sample of subjects
times their number estimates the bound of all.
"""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from dbanon.methods.tp_aware import _blocks
from dbanon.trajectory import Float, Int

SAMPLE = 200
"""Subjects, each in one window, that are looked at in a run."""

_SEED = 20120905  # of the sample: not the run's, on which nothing here depends

_kernel = numba.njit(cache=True, nogil=True, error_model="numpy")


def sampled(present: Int) -> list[Int]:
    """Draw subjects of windows of so many: those of each window, ascending."""
    ends = np.cumsum(present)
    drawn = np.random.default_rng(_SEED).choice(int(ends[-1]), min(int(ends[-1]), SAMPLE), replace=False)
    drawn = np.sort(drawn)
    parts = np.split(drawn, np.searchsorted(drawn, ends[:-1]))
    return [part - before for part, before in zip(parts, ends - present, strict=True)]


def estimated(areas: Float, of: int) -> tuple[float, float]:
    """Give the sum over `of` subjects, estimated from those of a sample, and its standard error."""
    error = float(areas.std(ddof=1)) * of / len(areas) ** 0.5 * (1 - len(areas) / of) ** 0.5
    return float(areas.mean()) * of, error


def least_areas(x: Any, y: Any, order: NDArray[np.int32], offset: Int, k: int, who: Int) -> Float:
    """Find what the cloaks of some subjects have at least, summed over the instants.

    Parameters
    ----------
    x, y : int32[n, l]
        Cells.
    order, offset : int32[n], int64[b + 1]
        Blocks, from `_blocks.cut`.
    k : int
    who : int64[m]

    Returns
    -------
    float64[m]
        In cells.

    Notes
    -----
    Blocks are visited by their own least area with a subject, until that is above the (k - 1)-th smallest found.
    """
    found = np.empty(len(who))
    if not len(who):
        return found
    turn = _blocks.spread(x.shape[1])
    few = turn[: _blocks.FEW]
    near = np.ascontiguousarray(np.concatenate([x[:, few], y[:, few]], axis=1)[order].T)
    extent = np.empty((len(offset) - 1, 4, x.shape[1]), np.int32)
    _extents(x, y, order, offset, extent)
    bound, area, lowest = np.empty((len(extent), 2)), np.empty(int(np.diff(offset).max())), np.empty(k - 1)
    for m, i in enumerate(who.tolist()):
        _bounds(x, y, extent, turn, len(few), i, bound)
        nearest = np.argsort(bound.sum(axis=1), kind="stable")
        found[m] = _least(x, y, order, offset, near, turn, bound, nearest, i, area, lowest)
    return found


@_kernel
def _extents(x: Any, y: Any, order: Any, offset: Any, extent: Any) -> None:
    for b in range(len(extent)):
        for p in range(offset[b], offset[b + 1]):
            i = order[p]
            for j in range(x.shape[1]):
                if p == offset[b]:
                    extent[b, 0, j] = extent[b, 1, j] = x[i, j]
                    extent[b, 2, j] = extent[b, 3, j] = y[i, j]
                extent[b, 0, j] = min(extent[b, 0, j], x[i, j])
                extent[b, 1, j] = max(extent[b, 1, j], x[i, j])
                extent[b, 2, j] = min(extent[b, 2, j], y[i, j])
                extent[b, 3, j] = max(extent[b, 3, j], y[i, j])


@_kernel
def _bounds(x: Any, y: Any, extent: Any, turn: Any, few: Any, i: Any, bound: Any) -> None:
    """Give the least area of a subject with anybody of each block, at the few instants and at the others."""
    for b in range(len(extent)):
        bound[b, 0] = bound[b, 1] = 0.0
        for at in range(len(turn)):
            j = turn[at]
            wide = max(extent[b, 0, j] - x[i, j], x[i, j] - extent[b, 1, j], 0) + 1.0
            high = max(extent[b, 2, j] - y[i, j], y[i, j] - extent[b, 3, j], 0) + 1.0
            bound[b, int(at >= few)] += wide * high


@_kernel
def _least(
    x: Any, y: Any, order: Any, offset: Any, near: Any, turn: Any, bound: Any, nearest: Any, i: Any, area: Any,
    lowest: Any,
) -> Any:  # fmt: skip
    """Find the (k - 1)-th smallest area of the rectangles of a subject and one other."""
    lowest[:] = np.inf
    last, few = len(lowest) - 1, len(near) // 2
    # Kept true: `lowest` are the smallest areas so far, ascending.
    for b in nearest:
        if bound[b, 0] + bound[b, 1] >= lowest[last]:
            break
        lo, hi = offset[b], offset[b + 1]
        # At a few instants first; at each other the area is no less than with anybody of the block.
        for p in range(hi - lo):
            area[p] = bound[b, 1]
        for f in range(few):
            along, across = near[f, lo:hi], near[few + f, lo:hi]
            x0, y0 = x[i, turn[f]], y[i, turn[f]]
            for p in range(hi - lo):
                wide, high = np.int32(abs(along[p] - x0)), np.int32(abs(across[p] - y0))
                area[p] += (np.float64(wide) + 1.0) * (np.float64(high) + 1.0)
        for p in range(hi - lo):
            o = order[lo + p]
            if area[p] >= lowest[last] or o == i:
                continue
            total = area[p] - bound[b, 1]
            for f in range(few, len(turn)):
                j = turn[f]
                total += (abs(x[o, j] - x[i, j]) + 1.0) * (abs(y[o, j] - y[i, j]) + 1.0)
                if total >= lowest[last]:
                    break
            _insert(lowest, total)
    return lowest[last]


@_kernel
def _insert(lowest: Any, area: Any) -> None:
    """Put an area among the smallest, if it is one; the greatest of them goes."""
    at = len(lowest) - 1
    if area < lowest[at]:
        while at > 0 and lowest[at - 1] > area:
            lowest[at] = lowest[at - 1]
            at -= 1
        lowest[at] = area
