"""Groups whose bounding rectangles are smaller than those of the best configuration of quadrants.

In each block of near subjects groups of k are formed from the outermost inwards: whoever is farthest from the block's
middle and has no group yet begins one, and k - 1 times it is joined by the subject whose joining leaves the least area,
summed over the instants. Invariant: groups are disjoint, hold everybody, k or more each, and follow from positions and
k alone.

Not in the paper: Deutsch, Hull, Vyas, Zhao: Trajectory and Policy Aware Sender Anonymity in Location Based Services,
2012, whose optimum is one over quadrants.
"""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.base.kernels import kernel
from dbanon.base.trajectory import Int
from dbanon.methods.tp_aware import _blocks

_LANES = 16  # instants are padded to a multiple of it, so that the processor does several at once
_MARGIN = 4  # whoever has a bound up to the best area and this part of it is listed
_MOST_BITS = 62  # of an area summed over the instants
_MOST = np.int64(2**63 - 1)


def grouping(
    x: Any, y: Any, order: NDArray[np.int32], offset: Int, k: int, members: NDArray[np.int32]
) -> list[Callable[[], None]]:
    """Return a call for each block, which puts its subjects into groups of k to 2k - 1.

    Parameters
    ----------
    x, y : int32[n, l]
        Cells, in [0, 2^30).
    order, offset : int32[n], int64[b + 1]
        Blocks of k or more, from `_blocks.cut`.
    members : int32[n]
        Gets the subjects, block by block and group by group; where each begins is what `begins` gives.

    Notes
    -----
    Takes O(B) for each subject of a block of B at most, of which all but O(B / k) look at its bound alone. Areas are
    compared in cells, exactly; where their sum might not fit 64 bits, in squares of 2^s cells a side.
    """
    turn = _blocks.spread(x.shape[1])
    width = -(-len(turn) // _LANES) * _LANES
    reach = max(int(x.max()), int(y.max())).bit_length()
    # An area is at most 2^(2 reach) cells, so the sum of `width` of them, shifted by 2 `shift` bits, stays below 2^62.
    shift = max(0, -((_MOST_BITS - width.bit_length() - 2 * reach) // 2))

    def group(lo: int, hi: int) -> None:
        who, out = order[lo:hi], members[lo:hi]
        place = np.zeros((hi - lo, 2, width), np.int32)
        near = np.empty((2 * min(_blocks.FEW, len(turn)), hi - lo), np.int32)
        bound, numbers = np.empty(hi - lo, np.int64), np.empty((3, hi - lo), np.int32)
        _copy(x, y, who, turn, shift, place, bound)
        outermost = np.argsort(-bound, kind="stable")
        _group(place, k, outermost, near, bound, numbers, np.empty((4, width), np.int32), out)
        out[:] = who[out]

    return [partial(group, lo, hi) for lo, hi in pairwise(offset.tolist())]


def begins(offset: Int, k: int) -> Int:
    """Say where the groups of blocks begin, int64[g + 1]: all but the last of a block have k members."""
    each = [np.arange(lo, hi - k + 1, k) for lo, hi in pairwise(offset.tolist())]
    return np.append(np.concatenate(each), offset[-1])


@kernel
def _copy(x: Any, y: Any, who: Any, turn: Any, shift: Any, place: Any, distance: Any) -> None:
    """Copy the positions of a block side by side; the distance of each from the mean of all, over all instants."""
    for p in range(len(who)):
        i = who[p]
        distance[p] = 0
        for j in range(len(turn)):
            place[p, 0, j] = x[i, turn[j]] >> shift
            place[p, 1, j] = y[i, turn[j]] >> shift
    for axis in range(2):
        for j in range(len(turn)):
            total = np.int64(0)
            for p in range(len(who)):
                total += place[p, axis, j]
            mean = total // len(who)
            for p in range(len(who)):
                distance[p] += abs(place[p, axis, j] - mean)


@kernel
def _group(place: Any, k: Any, outermost: Any, near: Any, bound: Any, numbers: Any, box: Any, out: Any) -> None:
    """Group a block; `out` gets its members, by their numbers in it, group by group."""
    left, few = len(outermost), len(near) // 2
    whom, slot, listed = numbers[0], numbers[1], numbers[2]
    # Kept true: slots [0, left) are those without a group, `whom` their members, `slot` the inverse, `near` their
    # positions at few instants; `slot` is -1 for those with a group.
    for s in range(left):
        whom[s] = slot[s] = s
        for j in range(few):
            near[j, s] = place[s, 0, j]
            near[few + j, s] = place[s, 1, j]
    done = first = 0
    # Each turn takes k, so k or more are left for the last group: it has k to 2 k - 1.
    while left >= 2 * k:
        while slot[outermost[first]] < 0:
            first += 1
        begun, seed = done, outermost[first]
        _begin(place, seed, near, left, bound, box)
        bound[slot[seed]] = _MOST
        out[done] = seed
        done += 1
        reach, some = np.int64(place.shape[2]), np.int64(0)  # no area is below it
        for _ in range(k - 1):
            # Kept true: who is not listed has a bound above `reach`, so the least area up to it is the least of all.
            best, least = _cheapest(place, box, bound, whom, listed, some)
            while least > reach:
                reach = least if best >= 0 else reach
                reach += reach // _MARGIN
                some = _list(bound, left, reach, listed)
                best, least = _cheapest(place, box, bound, whom, listed, some)
            bound[best] = _MOST
            out[done] = whom[best]
            done += 1
            _grow(place, whom[best], box)
        left = _close(out[begun:done], left, few, near, whom, slot)
    for s in range(left):
        out[done + s] = whom[s]


@kernel
def _cheapest(place: Any, box: Any, bound: Any, whom: Any, listed: Any, some: Any) -> Any:
    """Find who leaves the least area of those listed, ties by number: the slot, or -1, and the area."""
    best, least = np.int64(-1), _MOST
    # An area with the group only grows as the group does: what it once was is a bound, and computed anew only below.
    for c in range(some):
        s = np.int64(listed[c])
        if bound[s] < least or (best >= 0 and bound[s] == least and whom[s] < whom[best]):
            bound[s] = _joined(place, whom[s], box)
            if bound[s] < least or (bound[s] == least and whom[s] < whom[best]):
                best, least = s, bound[s]
    return best, least


@kernel
def _list(bound: Any, left: Any, reach: Any, listed: Any) -> Any:
    some = 0
    for s in range(left):
        if bound[s] <= reach:
            listed[some] = s
            some += 1
    return some


@kernel
def _close(group: Any, left: Any, few: Any, near: Any, whom: Any, slot: Any) -> Any:
    """Fill the slots of a group from the end; how many are left."""
    for i in group:
        s = slot[i]
        slot[i] = -1
        left -= 1
        if s < left:  # the last may be of the group too: then its turn comes, in this slot
            whom[s] = whom[left]
            slot[whom[s]] = s
            for j in range(2 * few):
                near[j, s] = near[j, left]
    return left


@kernel
def _begin(place: Any, seed: Any, near: Any, left: Any, bound: Any, box: Any) -> None:
    """Make the group of one subject; bounds are the areas at the few instants, and one cell at each other."""
    width, few = place.shape[2], len(near) // 2
    for j in range(width):
        box[0, j] = box[1, j] = place[seed, 0, j]
        box[2, j] = box[3, j] = place[seed, 1, j]
    for s in range(left):
        # Padded instants count a cell as well: the same for every subject, so they decide nothing.
        bound[s] = width - few
    for j in range(few):
        along, across, x0, y0 = near[j], near[few + j], place[seed, 0, j], place[seed, 1, j]
        for s in range(left):
            wide, high = np.int32(abs(along[s] - x0) + 1), np.int32(abs(across[s] - y0) + 1)
            bound[s] += np.int64(wide) * np.int64(high)


@kernel
def _joined(place: Any, i: Any, box: Any) -> Any:
    """Give the area of a group with one more, summed over the instants."""
    total = np.int64(0)
    for j in range(place.shape[2]):
        # Of 32 bits each, whatever Python makes of their sums: so the processor multiplies several at once.
        wide = np.int32(max(box[1, j], place[i, 0, j]) - min(box[0, j], place[i, 0, j]) + 1)
        high = np.int32(max(box[3, j], place[i, 1, j]) - min(box[2, j], place[i, 1, j]) + 1)
        total += np.int64(wide) * np.int64(high)
    return total


@kernel
def _grow(place: Any, i: Any, box: Any) -> None:
    for j in range(place.shape[2]):
        box[0, j] = min(box[0, j], place[i, 0, j])
        box[1, j] = max(box[1, j], place[i, 0, j])
        box[2, j] = min(box[2, j], place[i, 1, j])
        box[3, j] = max(box[3, j], place[i, 1, j])
