"""Who may be cheap to merge with whom, by an index and without a merge."""

from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from dbanon.base import cores
from dbanon.base.kernels import kernel
from dbanon.base.trajectory import Float, Int
from dbanon.methods.kte._samples import Samples

_BINS = 48  # of time, for the signature
_COARSE = 4  # for the index: trees of more dimensions are no quicker than looking at all
_WIDER = 6  # times as many from the index as are wanted
_MIN_COMPARISONS_PER_THREAD = 1 << 14


def signatures(samples: Samples, order: Int) -> Float:
    """Describe subjects so that the merge of those with near signatures (sum of differences) is cheap.

    Parameters
    ----------
    order : int64[n]
        Positions of the subjects to describe.

    Returns
    -------
    float64[n, 3, bins]
        Mean column and row of cells in each stretch of time, in a straight line over stretches without samples; the
        logarithm of the number of samples, scaled to count as much as the others.
    """
    n = len(order)
    lengths = np.diff(samples.offset)[order]
    at = np.repeat(samples.offset[:-1][order] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
    since, until = samples.slot.min(), samples.slot.max() + 1
    stretch = (samples.slot[at] - since) * _BINS // (until - since)
    cell = np.repeat(np.arange(n), lengths) * _BINS + stretch
    number = np.bincount(cell, minlength=n * _BINS).reshape(n, _BINS)
    signature = np.empty((n, 3, _BINS))
    every, filled = np.arange(_BINS), number > 0
    for axis, values in enumerate((samples.x, samples.y)):
        # Relative to the least cell: whole numbers, exact wherever on Earth this is.
        total = np.bincount(cell, (values - values.min())[at], minlength=n * _BINS).reshape(n, _BINS)
        mean = total / np.maximum(number, 1)
        for i in range(n):
            signature[i, axis] = np.interp(every, every[filled[i]], mean[i, filled[i]])
    activity = np.log1p(number)
    spread = np.abs(signature[:, :2] - np.median(signature[:, :2], axis=0)).mean()
    signature[:, 2] = activity * (spread / (activity.std() or 1.0))
    return signature


def nearest(signature: Float, number: int) -> Int:
    """Find who is near each in signature.

    Parameters
    ----------
    signature : float64[n, 3, bins]
        In the order that decides between equals.

    Returns
    -------
    int64[n, min(number, n - 1)]
        Nearest first, by the sum of differences among those a k-d tree of coarser signatures gives.
    """
    n = len(signature)
    number = min(number, n - 1)
    # The tree answers in a few dimensions, roughly; the whole signature then decides among more subjects than are
    # wanted.
    coarse = signature.reshape(n, 3, _COARSE, -1).mean(axis=3)
    coarse = np.hstack([coarse[:, 0], coarse[:, 1], coarse[:, 2].mean(axis=1, keepdims=True)])
    wider = min(n, _WIDER * number + 1)
    _, found = cKDTree(coarse).query(coarse, wider, p=1, workers=cores.count())
    # By number before the stable sort below: equally near subjects come in the run's order, not in that of the tree.
    found = np.sort(np.asarray(found, np.int64).reshape(n, wider), axis=1)
    flat = np.ascontiguousarray(signature.reshape(n, -1), np.float32)
    away = np.empty(found.shape, np.float32)

    def task(low: int, high: int) -> None:
        _compare(flat, found, low, high, away)

    cores.share(np.full(n, wider), task, _MIN_COMPARISONS_PER_THREAD)
    nearest_first = np.argsort(away, axis=1, kind="stable")[:, :number]
    return np.asarray(np.take_along_axis(found, nearest_first, axis=1), np.int64)


@kernel
def _compare(signature: Any, found: Any, low: Any, high: Any, away: Any) -> None:
    for i in range(low, high):
        for place in range(found.shape[1]):
            other = found[i, place]
            total = np.float32(0)
            for at in range(signature.shape[1]):
                total += abs(signature[i, at] - signature[other, at])
            away[i, place] = total if other != i else np.float32(np.inf)
