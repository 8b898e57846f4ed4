"""Groups whose bounding rectangles are smaller than those of the best configuration of quadrants.

In each block of near subjects groups of k are formed from the outermost inwards: whoever is farthest from the block's
middle and has no group yet begins one, and k - 1 times it is joined by the subject whose joining leaves the least
cost. The cost of a rectangle is its area and a square with its mean side, summed over the instants: by the area alone,
slivers of any length would cost nothing. Invariant: groups are disjoint, hold everybody, k or more each, and follow
from positions and k alone.

Not in the paper: Deutsch, Hull, Vyas, Zhao: Trajectory and Policy Aware Sender Anonymity in Location Based Services,
2012, whose optimum is one over quadrants.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Int, Int32
from dbanon.methods.tp_aware import _blocks

_LANES = 16  # instants that the processor does at once: positions are stored by so many
# Of positions in a block, so that the costs of so many instants add up in 32 bits, two sides multiply in 16.
_POSITION_BITS = 12
_MARGIN_DIVISOR = 8  # a subject is listed if its bound exceeds the best cost by at most this part of it
_CELL_COST = 8  # of a rectangle of one cell
_INFINITE_COST = 2**63 - 1

_Places = NDArray[np.int16]
"""Positions by subject, `_LANES` instants, axis and one of these: [n, c, 2, _LANES]; boxes: [c, 4, _LANES]."""


class _Free(NamedTuple):
    """Those of a block without a group, in slots ``[0, left)``."""

    whom: Int32  # [n]: the member in each slot
    slot: Int32  # [n]: of each member; -1 for those with a group
    near: NDArray[np.int16]  # [2 few, n]: their positions at few instants, by slot
    bound: Int  # [n]: of each slot, less than the cost with the group; infinite for those who are in it


class _List(NamedTuple):
    """Those who may be next, in any order."""

    who: Int32  # [n]
    known: Int  # [n]: the cost of each with the group as it was when it was asked last
    asked: Int32  # [n]: places in the list, scratch


def plan_grouping(x: Any, y: Any, order: Int32, offset: Int, k: int, members: Int32) -> list[Callable[[], None]]:
    """Return a call for each block, which puts its subjects into groups of k to 2k - 1.

    Parameters
    ----------
    x, y : int32[n, l]
        Cells, in [0, 2^30).
    order, offset : int32[n], int64[b + 1]
        Blocks of k or more, from `_blocks.cut`.
    members : int32[n]
        Gets the subjects, block by block and group by group; where each begins is what `find_begins` gives.

    Notes
    -----
    Takes O(B) for each subject of a block of B at most, of which all but O(B / k) look at its bound alone. Costs are
    compared in cells; in a block 2^12 cells wide or wider, in squares of 2^s cells a side.
    """
    turn = _blocks.spread(x.shape[1])

    def group(lo: int, hi: int) -> None:
        who, out = order[lo:hi], members[lo:hi]
        place = np.zeros((hi - lo, -(-len(turn) // _LANES), 2, _LANES), np.int16)
        near = np.empty((2 * min(_blocks.SAMPLED_INSTANTS, len(turn)), hi - lo), np.int16)
        areas, numbers = np.empty((2, hi - lo + 1), np.int64), np.empty((4, hi - lo + 1), np.int32)
        outermost = np.argsort(-_copy(x, y, who, turn, place, near, areas[0, :-1]), kind="stable")
        free, some = _Free(numbers[0], numbers[1], near, areas[0]), _List(numbers[2], areas[1], numbers[3])
        _group(place, k, outermost, free, some, np.empty((place.shape[1], 4, _LANES), np.int16), out)
        out[:] = who[out]

    return [partial(group, lo, hi) for lo, hi in pairwise(offset.tolist())]


def find_begins(offset: Int, k: int) -> Int:
    """Say where the groups of blocks begin, int64[g + 1]: all but the last of a block have k members."""
    each = [np.arange(lo, hi - k + 1, k) for lo, hi in pairwise(offset.tolist())]
    return np.append(np.concatenate(each), offset[-1])


@compile_kernel
def _copy(x: Int32, y: Int32, who: Int32, turn: Int, place: _Places, near: NDArray[np.int16], distance: Int) -> Int:
    """Copy the positions of a block; return the distance of each from the mean of all, summed over the instants."""
    few, distance[:] = len(near) // 2, 0
    west, south = x[who[0], 0], y[who[0], 0]
    east, north = west, south
    for i in who:
        for j in range(len(turn)):
            west, east = min(west, x[i, j]), max(east, x[i, j])
            south, north = min(south, y[i, j]), max(north, y[i, j])
    shift = 0
    while (
        max(east - west, north - south) >> shift
    ) + 1 >= 1 << _POSITION_BITS:  # a side is the difference and one more
        shift += 1
    for axis, side, least in ((0, x, west), (1, y, south)):
        for j in range(len(turn)):
            total, c, lane = np.int64(0), j // _LANES, j % _LANES
            for p in range(len(who)):
                at = np.int16((side[who[p], turn[j]] - least) >> shift)
                place[p, c, axis, lane] = at
                if j < few:
                    near[axis * few + j, p] = at
                total += at
            mean = total // len(who)
            for p in range(len(who)):
                distance[p] += abs(place[p, c, axis, lane] - mean)
    return distance


@compile_kernel
def _group(place: _Places, k: int, outermost: Int, free: _Free, some: _List, box: _Places, out: Int32) -> None:
    """Group a block; `out` gets its members, by their numbers in it, group by group."""
    whom, slot, _, bound = free
    listed, known, _ = some
    left = len(outermost)
    # Kept true: slots [0, left) are those without a group, and `slot` is the inverse of `whom`.
    for s in range(left):
        whom[s] = slot[s] = s
    done = first = 0
    # Each turn takes k, so k or more are left for the last group: it has k to 2 k - 1.
    while left >= 2 * k:
        while slot[outermost[first]] < 0:
            first += 1
        begun, seed = done, outermost[first]
        _begin(place, seed, free, left, box)
        bound[slot[seed]] = _INFINITE_COST
        out[done] = seed
        done += 1
        count, ahead, reach = 0, -1, _INFINITE_COST
        for s in range(left):
            reach = min(reach, bound[s])  # `_LANES` or more: it grows by a part of itself
        for _ in range(k - 1):
            # Kept true: who is not listed has a bound above `reach`, so the least cost up to it is the least of all.
            best, least, ahead = _find_cheapest(place, box, some, count, ahead)
            while least > reach or best < 0:
                reach = least if best >= 0 else reach
                reach += reach // _MARGIN_DIVISOR
                count, ahead = _list(free, left, reach, some, count, best)
                best, least, ahead = _find_cheapest(place, box, some, count, ahead)
            bound[slot[listed[best]]] = _INFINITE_COST
            out[done] = listed[best]
            done += 1
            _grow(place, listed[best], box)
            count -= 1
            listed[best], known[best] = listed[count], known[count]
            ahead = best if ahead == count else ahead
        left = _close(out[begun:done], left, free)
    for s in range(left):
        out[done + s] = whom[s]


@compile_kernel
def _find_cheapest(place: _Places, box: _Places, some: _List, count: int, ahead: int) -> Any:
    """Find who leaves the least cost of those listed, ties by number, and who comes next: places in the list, or -1.

    `ahead` came next when the group was smaller: most others have a bound above its cost.
    """
    listed, known, asked = some
    best, least, second, after = -1, _INFINITE_COST, -1, _INFINITE_COST
    if ahead >= 0:
        known[ahead] = _measure_joined(place, listed[ahead], box)
        best, least = ahead, known[ahead]
    # Without a branch: the processor cannot foresee who is to be asked.
    cheap = np.int64(0)
    for c in range(count):
        asked[cheap] = c
        cheap += known[c] <= least
    # A cost with the group only grows as the group does: what it once was is a bound, and computed anew only below.
    for a in range(cheap):
        at = asked[a]
        if known[at] > least or at == best:
            continue
        known[at] = _measure_joined(place, listed[at], box)
        if known[at] < least or (known[at] == least and listed[at] < listed[best]):
            best, least, second, after = at, known[at], best, least
        elif known[at] < after:
            second, after = at, known[at]
    return best, least, second


@compile_kernel
def _list(free: _Free, left: int, reach: int, some: _List, before: int, best: int) -> Any:
    """List all with a bound up to `reach`, which the list of before has learnt: how many, and where its best is now."""
    whom, slot, _, bound = free
    listed, known, _ = some
    for c in range(before):
        bound[slot[listed[c]]] = known[c]
    who = listed[best] if best >= 0 else np.int32(-1)
    count, ahead = np.int64(0), np.int64(-1)
    for s in range(left):
        listed[count], known[count] = whom[s], bound[s]
        ahead = count if whom[s] == who else ahead
        count += bound[s] <= reach
    return count, ahead


@compile_kernel
def _close(group: Int32, left: int, free: _Free) -> int:
    """Fill the slots of a group from the end; how many are left."""
    whom, slot, near, _ = free
    for i in group:
        s = slot[i]
        slot[i] = -1
        left -= 1
        if s < left:  # the last may be of the group too: then its turn comes, in this slot
            whom[s] = whom[left]
            slot[whom[s]] = s
            for j in range(len(near)):
                near[j, s] = near[j, left]
    return left


@compile_kernel
def _begin(place: _Places, seed: int, free: _Free, left: int, box: _Places) -> None:
    """Make the group of one subject; bounds are the costs at the few instants, and of one cell at each other."""
    near, bound, few = free.near, free.bound, len(free.near) // 2
    for c in range(place.shape[1]):
        for j in range(_LANES):
            box[c, 0, j] = box[c, 1, j] = place[seed, c, 0, j]
            box[c, 2, j] = box[c, 3, j] = place[seed, c, 1, j]
    for s in range(left):
        # Padded instants count a cell as well: the same for every subject, so they decide nothing.
        bound[s] = (place.shape[1] * _LANES - few) * _CELL_COST
    for j in range(few):
        along, across, x0, y0 = near[j], near[few + j], place[seed, 0, 0, j], place[seed, 0, 1, j]
        for s in range(left):
            wide = np.int16(max(along[s], x0) - min(along[s], x0) + 1)
            high = np.int16(max(across[s], y0) - min(across[s], y0) + 1)
            bound[s] += _compute_cost(wide, high)


@compile_kernel
def _compute_cost(wide: np.int16, high: np.int16) -> np.int32:
    """Give four times the area of a rectangle and of the square with its mean side: a whole number."""
    both = np.int16(wide + high)
    return np.int32(np.int32(np.int16(4 * wide)) * np.int32(high) + np.int32(both) * np.int32(both))


@compile_kernel
def _measure_joined(place: _Places, i: int, box: _Places) -> np.int64:
    """Give the cost of a group with one more, summed over the instants."""
    total = np.int64(0)
    for c in range(place.shape[1]):
        part = np.int32(0)
        for j in range(_LANES):
            # Of 16 and 32 bits, whatever Python makes of their sums: so the processor multiplies several at once.
            wide = np.int16(max(box[c, 1, j], place[i, c, 0, j]) - min(box[c, 0, j], place[i, c, 0, j]) + 1)
            high = np.int16(max(box[c, 3, j], place[i, c, 1, j]) - min(box[c, 2, j], place[i, c, 1, j]) + 1)
            part = np.int32(part + _compute_cost(wide, high))
        total += part
    return total


@compile_kernel
def _grow(place: _Places, i: int, box: _Places) -> None:
    for c in range(place.shape[1]):
        for j in range(_LANES):
            box[c, 0, j] = min(box[c, 0, j], place[i, c, 0, j])
            box[c, 1, j] = max(box[c, 1, j], place[i, c, 0, j])
            box[c, 2, j] = min(box[c, 2, j], place[i, c, 1, j])
            box[c, 3, j] = max(box[c, 3, j], place[i, c, 1, j])
