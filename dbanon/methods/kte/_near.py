"""Who may be cheap to merge with whom, without a merge: those who are near one another at all times of the day."""

from typing import NamedTuple

import numpy as np

from dbanon.base import cores
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Int, Int32
from dbanon.methods.kte._samples import Samples, Stretches, take_stretches

TIME_BINS = 48  # stretches of time
_COARSE_BINS = 8  # for what bounds a difference of signatures
_MAX_SIGNATURE_VALUE = 1 << 20  # sums of 3 * TIME_BINS differences fit 32 bits
_MAX_STEPS_PER_CELL = 16
_MIN_COMPARISONS_PER_THREAD = 1 << 14


class _Area(NamedTuple):
    """Where cells and slots are counted from."""

    west: int
    south: int
    steps: float  # in a cell
    since: int
    period: int  # slots from there on


def compute_signatures(samples: Samples | Stretches, bins: int = TIME_BINS) -> Int32:
    """Describe subjects so that the merge of those with near signatures (sum of differences) is cheap.

    Returns
    -------
    int32[n, 3, bins]
        Mean column and row of cells in each stretch of time, in a straight line over stretches without samples; the
        logarithm of the number of samples, scaled to count as much as the others. In whole steps of 1/16 cell, or
        wider ones where cells are far apart: sums of them do not depend on their order.
    """
    n, since, until = len(samples.offset) - 1, samples.slot.min(), samples.slot.max() + 1
    west, south = int(samples.x.min()), int(samples.y.min())
    widest = max(int(samples.x.max()) - west, int(samples.y.max()) - south, 1)
    area = _Area(west, south, min(_MAX_STEPS_PER_CELL, _MAX_SIGNATURE_VALUE / widest), since, until - since)
    signature, number = np.empty((n, 3, bins), np.int32), np.empty((n, bins), np.int32)

    def run_range(low: int, high: int) -> None:
        _describe(take_stretches(samples), low, high, area, np.empty((2, bins), np.int64), signature, number)

    cores.share_work(np.diff(samples.offset), run_range, _MIN_COMPARISONS_PER_THREAD)
    activity = np.log1p(number)
    spread = np.abs(signature[:, :2] - np.median(signature[:, :2], axis=0)).mean()
    signature[:, 2] = np.minimum(np.rint(activity * (spread / (activity.std() or 1.0))), _MAX_SIGNATURE_VALUE)
    return signature


def find_nearest(signature: Int32, number: int) -> Int32:
    """Find who is near each in signature.

    Parameters
    ----------
    signature : int32[n, 3, bins]
        In the order that decides between equals.

    Returns
    -------
    int32[n, min(number, n - 1)]
        Nearest first, by the sum of differences.

    Notes
    -----
    O(n^2) time, of which 24 differences a pair are all that most take; memory for what is returned.
    """
    n = len(signature)
    number = min(number, n - 1)
    flat = np.ascontiguousarray(signature.reshape(n, -1))
    coarse = np.ascontiguousarray(signature.reshape(n, 3 * _COARSE_BINS, -1).sum(axis=2, dtype=np.int32).T)
    nearest = np.empty((n, number), np.int32)

    def run_range(low: int, high: int) -> None:
        _find_nearest(flat, coarse, low, high, np.empty(n, np.int32), np.empty(number + 1, np.int32), nearest)

    cores.share_work(np.full(n, n), run_range, _MIN_COMPARISONS_PER_THREAD)
    return nearest


@compile_kernel
def _describe(samples: Stretches, low: int, high: int, area: _Area, sums: Int, signature: Int32, number: Int32) -> None:
    bins, (offset, slot, x, y) = number.shape[1], samples
    for i in range(low, high):
        for b in range(bins):
            sums[0, b], sums[1, b], number[i, b] = 0, 0, 0
        for at in range(offset[i], offset[i + 1]):
            b = (slot[at] - area.since) * bins // area.period
            sums[0, b] += x[at] - area.west
            sums[1, b] += y[at] - area.south
            number[i, b] += 1
        for axis in range(2):
            before = -1
            for b in range(bins):
                if number[i, b] == 0:
                    continue
                value = np.int32(np.rint(sums[axis, b] / number[i, b] * area.steps))
                signature[i, axis, b] = value
                # A straight line from the last stretch with samples; what is before the first is where that is.
                first = signature[i, axis, before] if before >= 0 else value
                for between in range(before + 1, b):
                    part = (between - before) / (b - before)
                    signature[i, axis, between] = np.int32(np.rint(first + (value - first) * part))
                before = b
            for b in range(before + 1, bins):
                signature[i, axis, b] = signature[i, axis, before]


@compile_kernel
def _find_nearest(flat: Int32, coarse: Int32, low: int, high: int, least: Int32, away: Int32, nearest: Int32) -> None:
    n, number = len(flat), nearest.shape[1]
    for i in range(low, high):
        for j in range(n):
            least[j] = 0
        # Differences of sums of a few stretches never exceed sums of differences, so these bound the whole.
        for part in range(coarse.shape[0]):
            all_parts, one = coarse[part], coarse[part, i]
            for j in range(n):
                least[j] = np.int32(least[j] + abs(np.int32(all_parts[j] - one)))
        filled, own = 0, flat[i]
        for j in range(n):
            if j == i or (filled == number and least[j] >= away[number - 1]):
                continue
            total = _sum_differences(own, flat[j])
            if filled == number and total >= away[number - 1]:
                continue
            # Equally near ones stay in the order of their numbers.
            place = filled
            while place > 0 and away[place - 1] > total:
                if place < number:
                    away[place], nearest[i, place] = away[place - 1], nearest[i, place - 1]
                place -= 1
            away[place], nearest[i, place] = total, j
            filled = min(filled + 1, number)


@compile_kernel
def _sum_differences(one: Int32, other: Int32) -> np.int32:
    total = np.int32(0)  # Numba adds in 64 bits, of which a vector has half as many, unless each sum is cut again
    for at in range(len(one)):
        total = np.int32(total + abs(np.int32(one[at] - other[at])))
    return total
