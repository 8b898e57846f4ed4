"""Who is nearest each subject at the instants of its own quasi-identifier, by summed deviations along a Hilbert curve.

Invariant: the lists are exact. Of all whom presence both ways allows they hold those of the least sums, ties in the
run's order; neither the quantisation that most are rejected by nor the number of threads shows in them.

`nearest` is what runs use: it looks at everybody, sixteen at a time. `nearest_by_threshold` is the paper's Algorithm 1.
Yarovoy, Bonchi, Lakshmanan, Wang: Anonymizing Moving Objects: How to Hide a MOB in a Crowd?, EDBT 2009.
"""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from dbanon.methods.kernels import cores
from dbanon.methods.mob._positions import Positions, Words
from dbanon.trajectory import Int

_FAR = 65_535  # stands for being absent: further than any limit
_LEAST_LEVELS, _MOST_LEVELS = 256, 4_096  # that places are quantised to
_BLOCK_VALUES = 1 << 17  # quantised places of a block, 2 bytes each: half of a usual second-level cache
_LEAST_LANES, _MOST_LANES = 64, 1_024  # candidates of a block
_LEAST = 1 << 22  # additions worth a thread
_NEVER = np.iinfo(np.int64).max

_kernel = numba.njit(cache=True, nogil=True, error_model="numpy")


class _Candidates(NamedTuple):
    """Those who may be taken, in the run's order, and their places at the instants that somebody asks about.

    `row` is their rows of `Positions`; `column` the column of each instant. A quantised place is the place shifted
    right by `shift` bits, or `_FAR` where the candidate is absent; lanes past the last candidate hold `_FAR` as well.
    """

    row: Int  # [m]
    column: NDArray[np.int32]  # [T], -1 where nobody asks
    quantised: NDArray[np.uint16]  # [blocks, columns, lanes]
    own: Words  # [blocks, W, lanes]
    somebody: Words  # [W], instants that are own ones of any of them
    shift: int
    levels: int  # a power of two, above all quantised places


class _Nearest(NamedTuple):
    """The nearest so far of each who asks: binary heaps, the furthest first; before they are full, of `_NEVER`."""

    total: Int  # [w, number]
    which: NDArray[np.int32]  # [w, number] index into _Candidates.row, -1 where there is none


def nearest(
    positions: Positions, place: NDArray[np.integer], who: Int, number: int, among: NDArray[np.bool_]
) -> NDArray[np.int32]:
    """Find the others of the least summed deviation at each subject's own instants.

    Parameters
    ----------
    positions : Positions
    place : int32 or int64[n, T]
        Along the Hilbert curve, not negative; arbitrary where a subject is absent.
    who : int64[w]
        Rows of `positions`, each with own instants.
    number : int
        How many are wanted, at least 1.
    among : bool[n]
        Who may be taken.

    Returns
    -------
    int32[w, number]
        Rows of `positions`, nearest first, equal sums in the run's order: those who are present at all own instants of
        the subject, and at all of whose own instants the subject is. -1 at the end where there are fewer.

    Notes
    -----
    Looks at all w x m pairs, in O(w m p) additions of 16 bits for p own instants, 16 a machine instruction. Places are
    quantised, so their differences bound deviations from below; only pairs whose bound is within the subject's
    furthest of the nearest so far, about number x log(m) a subject, are summed exactly. Holds 2 m T bytes beside the
    result.
    """
    candidates = _candidates(positions, place, who, among)
    found = _Nearest(np.full((len(who), number), _NEVER), np.full((len(who), number), -1, np.int32))
    asked = np.diff(positions.offset)[who]

    def task(low: int, high: int) -> None:
        _sweep(
            positions.offset, positions.instant, positions.there, positions.own, place, who,
            *candidates, *found, low, high,
        )  # fmt: skip

    cores.share(asked * len(candidates.row), task, _LEAST)
    return _rows(candidates.row, found.which)


def nearest_by_threshold(
    positions: Positions, place: NDArray[np.integer], who: Int, number: int, among: NDArray[np.bool_]
) -> NDArray[np.int32]:
    """Find the same by the paper's Algorithm 1, best positions in sorted lists.

    Departs from the paper in its threshold. As printed, it is the deviation at the end "seen last" of the stretch of
    each list that has been seen; once random accesses have moved the other end, somebody nearer than that may still be
    unseen. Here it is that of the nearer of the next unseen above and below.

    Notes
    -----
    Parameters and result are those of `nearest`. Holds the lists, of 8 or 12 m T bytes, and 4 m for each thread.
    """
    row = _in_order(positions, among)
    column, asked = _columns(positions, who)
    lists = _sorted_lists(positions, place, row, asked)
    found = _Nearest(np.full((len(who), number), _NEVER), np.full((len(who), number), -1, np.int32))

    def task(low: int, high: int) -> None:
        _by_threshold(
            positions.offset, positions.instant, positions.there, positions.own, place, who, row, column,
            *lists, *found, low, high,
        )  # fmt: skip

    cores.share(np.diff(positions.offset)[who] * len(row), task, _LEAST)
    return _rows(row, found.which)


def _sorted_lists(
    positions: Positions, place: NDArray[np.integer], row: Int, asked: Int
) -> tuple[NDArray[np.int32], NDArray[np.integer], Int]:
    """Sort candidates by place at each instant: who, where, and how many are present, whom the others come after."""
    which, where = np.empty((len(asked), len(row)), np.int32), np.empty((len(asked), len(row)), place.dtype)
    number = np.empty(len(asked), np.int64)

    def task(low: int, high: int) -> None:
        for column in range(low, high):
            t = asked[column]
            there = (positions.there[row, t >> 6] >> np.uint64(t & 63)) & np.uint64(1)
            which[column] = np.lexsort((place[row, t], there == 0))
            where[column] = place[row[which[column]], t]
            number[column] = there.sum()

    cores.share(np.full(len(asked), len(row)), task, _LEAST >> 6)
    return which, where, number


def _in_order(positions: Positions, among: NDArray[np.bool_]) -> Int:
    row = np.flatnonzero(among)
    return np.asarray(row[np.argsort(positions.rank[row])], np.int64)


def _columns(positions: Positions, who: Int) -> tuple[NDArray[np.int32], Int]:
    """Number the instants that are own ones of `who`: the number of each or -1, and the instants."""
    words = np.bitwise_or.reduce(positions.own[who], axis=0) if len(who) else positions.own[:0].sum(axis=0)
    count = positions.instants.count
    used = np.unpackbits(words.view(np.uint8), count=count, bitorder="little").astype(bool)
    column = np.where(used, np.cumsum(used) - 1, -1).astype(np.int32)
    return column, np.flatnonzero(used)


def _rows(row: Int, which: NDArray[np.int32]) -> NDArray[np.int32]:
    """Turn indices of candidates into rows of `Positions`; -1 stays."""
    return np.append(row, -1).astype(np.int32)[which]


def _candidates(positions: Positions, place: NDArray[np.integer], who: Int, among: NDArray[np.bool_]) -> _Candidates:
    """Quantise the places of all who may be taken, in blocks of some lanes."""
    row = _in_order(positions, among)
    column, asked = _columns(positions, who)
    longest = int(np.diff(positions.offset)[who].max(initial=1))
    # Sums of a subject's quantised deviations fit 16 bits if it has no more own instants than _FAR / levels - 1.
    levels = min(max(_FAR // (longest + 1), _LEAST_LEVELS), _MOST_LEVELS)
    shift = max(int(place.max(initial=0)).bit_length() - (levels.bit_length() - 1), 0)
    lanes = min(max(_BLOCK_VALUES // max(len(asked), 1), _LEAST_LANES), _MOST_LANES) // _LEAST_LANES * _LEAST_LANES
    blocks = -(-len(row) // lanes)
    quantised = np.full((blocks, len(asked), lanes), _FAR, np.uint16)

    def task(low: int, high: int) -> None:
        _quantise(positions.there, place, row, asked, shift, quantised, low, high)

    cores.share(np.full(blocks, lanes * len(asked)), task, _LEAST)
    own = np.zeros((blocks * lanes, words := positions.own.shape[1]), np.uint64)
    own[: len(row)] = positions.own[row]
    own = np.ascontiguousarray(own.reshape(blocks, lanes, words).swapaxes(1, 2))
    somebody = np.bitwise_or.reduce(positions.own[row], axis=0)
    return _Candidates(row, column, quantised, own, somebody, shift, 1 << (levels.bit_length() - 1))


@_kernel
def _quantise(there: Any, place: Any, row: Any, asked: Any, shift: Any, quantised: Any, low: Any, high: Any) -> None:
    lanes = quantised.shape[2]
    for block in range(low, high):
        for lane in range(min(lanes, len(row) - block * lanes)):
            j = row[block * lanes + lane]
            for column in range(len(asked)):
                t = asked[column]
                if (there[j, t >> 6] >> np.uint64(t & 63)) & np.uint64(1):
                    quantised[block, column, lane] = place[j, t] >> shift


@_kernel
def _sweep(
    offset: Any, instant: Any, there: Any, own: Any, place: Any, who: Any, row: Any, column: Any, quantised: Any,
    known: Any, somebody: Any, shift: Any, levels: Any, total: Any, which: Any, low: Any, high: Any,
) -> None:  # fmt: skip
    """Compare subjects low..high with all candidates, block by block, and sort what was found."""
    lanes = quantised.shape[2]
    bound, within = np.empty(lanes, np.uint16), np.empty(lanes, np.uint8)
    # Kept true: each heap holds the nearest among the candidates of earlier blocks.
    for block in range(len(quantised)):
        candidates = row[block * lanes : (block + 1) * lanes]
        for w in range(low, high):
            i = who[w]
            own_instants = offset[i + 1] - offset[i]
            least, most = 0, _limit(total[w, 0], own_instants, shift, levels)
            if most < 0:
                continue
            _add_up(offset[i], offset[i + 1], instant, column, place[i], quantised[block], shift, bound)
            _leave_out(there[i], known[block], somebody, bound)
            if block == 0 and total.shape[1] <= lanes:
                # Those who seem nearest first: few of the others then come within the limit.
                soon = np.int64(np.partition(bound, total.shape[1] - 1)[total.shape[1] - 1])
                _select(bound, least, min(soon, most), within)
                _take(
                    offset, instant, there, own, place, i, candidates, 0, bound, within, shift, levels,
                    total[w], which[w],
                )  # fmt: skip
                # The others do not come after them in the run's order, and may tie with them.
                worst = total[w, 0] if total[w, 0] == _NEVER else total[w, 0] + 1
                least, most = soon + 1, _limit(worst, own_instants, shift, levels)
            _select(bound, least, most, within)
            _take(
                offset, instant, there, own, place, i, candidates, block * lanes, bound, within, shift, levels,
                total[w], which[w],
            )  # fmt: skip
    for w in range(low, high):
        _sort(total[w], which[w])


@_kernel
def _select(bound: Any, least: Any, most: Any, within: Any) -> None:
    first, last = np.uint16(least), np.uint16(max(most, 0))
    for lane in range(len(bound)):
        within[lane] = (bound[lane] >= first) & (bound[lane] <= last)
    if most < least:
        within[:] = 0


@_kernel
def _leave_out(there: Any, known: Any, somebody: Any, bound: Any) -> None:
    """Put out of reach those with an own instant at which the subject is absent."""
    for word in range(len(there)):
        absent = somebody[word] & ~there[word]
        if absent:
            for lane in range(len(bound)):
                if known[word, lane] & absent:
                    bound[lane] = _FAR


@_kernel
def _take(
    offset: Any, instant: Any, there: Any, own: Any, place: Any, i: Any, candidates: Any, first: Any, bound: Any,
    within: Any, shift: Any, levels: Any, total: Any, which: Any,
) -> None:  # fmt: skip
    """Take those within the limit whose exact sum is as small; the limit comes down meanwhile."""
    eight = within.view(np.uint64)
    most = np.int64(_FAR)
    for group in range(len(eight)):
        if eight[group] == 0:
            continue
        for lane in range(8 * group, min(8 * group + 8, len(candidates))):
            if within[lane] and bound[lane] <= most:
                taken = _take_one(offset, instant, there, own, place, i, candidates[lane], first + lane, total, which)
                if taken and total[0] != _NEVER:
                    most = _limit(total[0] + 1, offset[i + 1] - offset[i], shift, levels)


@_kernel
def _limit(worst: Any, instants: Any, shift: Any, levels: Any) -> Any:
    """Give the greatest sum of quantised deviations that somebody nearer than `worst` may have; below 0 for none.

    A quantised deviation is less than the deviation in units of 2^shift, plus 1. Candidates come in the run's order:
    of those to come, one as far as the furthest is not taken.
    """
    # Further than this are those who are absent; where sums of the present may be as well, all are looked at.
    open_limit = _FAR - levels if instants * (levels - 1) <= _FAR - levels else _FAR
    if worst == _NEVER:
        return open_limit
    if worst == 0:
        return -1
    limit = ((worst - 1) >> shift) + (instants if shift else 0)
    return limit if limit <= _FAR - levels else open_limit


@_kernel
def _add_up(begin: Any, end: Any, instant: Any, column: Any, mine: Any, quantised: Any, shift: Any, bound: Any) -> None:
    """Sum the quantised deviations of all lanes of a block, staying at 65,535 where they exceed it."""
    bound[:] = 0
    for at in range(begin, end):
        t = instant[at]
        here, line = np.uint16(mine[t] >> shift), column[t]
        for lane in range(len(bound)):
            there = quantised[line, lane]
            # Written so that the compiler finds the saturating addition of 16 lanes.
            deviation = np.uint16(there - here) if there > here else np.uint16(here - there)
            more = np.uint16(bound[lane] + deviation)
            bound[lane] = more if more >= deviation else np.uint16(_FAR)


@_kernel
def _take_one(
    offset: Any, instant: Any, there: Any, own: Any, place: Any, i: Any, j: Any, index: Any, total: Any, which: Any
) -> Any:
    """Take j among the nearest of i in place of the furthest, if it is nearer and may be taken; say so."""
    if i == j or not _both_ways(there, own, i, j):
        return False
    away = _deviation(offset, instant, place, i, j, total[0])
    if away > total[0] or (away == total[0] and index > which[0]):
        return False
    _replace_furthest(total, which, len(total), away, index)
    return True


@_kernel
def _both_ways(there: Any, own: Any, i: Any, j: Any) -> Any:
    for word in range(own.shape[1]):
        if (own[i, word] & ~there[j, word]) | (own[j, word] & ~there[i, word]):
            return False
    return True


@_kernel
def _deviation(offset: Any, instant: Any, place: Any, i: Any, j: Any, enough: Any) -> Any:
    """Sum the deviations at the own instants of i, or some of them that together exceed `enough`."""
    away = np.int64(0)
    for at in range(offset[i], offset[i + 1]):
        t = instant[at]
        away += abs(np.int64(place[i, t]) - np.int64(place[j, t]))
        if away > enough:
            break
    return away


@_kernel
def _replace_furthest(total: Any, which: Any, size: Any, away: Any, index: Any) -> None:
    """Put an entry into the first `size` of a heap instead of its first, and let it sink to where it belongs."""
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _before(total, which, child, total[child + 1], which[child + 1]):
            child += 1
        if _before(total, which, child, away, index):
            break
        total[at], which[at] = total[child], which[child]
        at = child
    total[at], which[at] = away, index


@_kernel
def _before(total: Any, which: Any, at: Any, away: Any, index: Any) -> Any:
    return total[at] < away or (total[at] == away and which[at] < index)


@_kernel
def _sort(total: Any, which: Any) -> None:
    """Turn a heap into a list, nearest first."""
    for last in range(len(total) - 1, 0, -1):
        away, index = total[last], which[last]
        total[last], which[last] = total[0], which[0]
        _replace_furthest(total, which, last, away, index)


@_kernel
def _by_threshold(
    offset: Any, instant: Any, there: Any, own: Any, place: Any, who: Any, row: Any, column: Any, listed: Any,
    where: Any, number: Any, total: Any, which: Any, low: Any, high: Any,
) -> None:  # fmt: skip
    seen = np.full(len(row), -1, np.int32)  # by whom last, in any list
    longest = 0
    for w in range(low, high):
        longest = max(longest, offset[who[w] + 1] - offset[who[w]])
    above, below = np.empty(longest, np.int64), np.empty(longest, np.int64)
    for w in range(low, high):
        i = who[w]
        begin, end = offset[i], offset[i + 1]
        for at in range(begin, end):
            line = column[instant[at]]
            below[at - begin] = np.searchsorted(where[line, : number[line]], place[i, instant[at]])
            above[at - begin] = below[at - begin] - 1
        threshold = np.int64(0)
        while threshold <= total[w, 0]:  # somebody unseen may be as near as the furthest, and before it in the order
            # One sorted access to each list, and as many random ones as there are others; -1 at the end of a list:
            # whoever is present at all own instants is in each list, and has been seen.
            threshold = np.int64(0)
            for at in range(begin, end):
                line, mine = column[instant[at]], place[i, instant[at]]
                _pass_seen(listed[line], number[line], seen, w, above, below, at - begin)
                up = _away(where[line], number[line], mine, above[at - begin])
                down = _away(where[line], number[line], mine, below[at - begin])
                if min(up, down) == _NEVER:
                    threshold = np.int64(-1)
                    break
                index = listed[line, above[at - begin] if up <= down else below[at - begin]]
                seen[index] = w
                _take_one(offset, instant, there, own, place, i, row[index], index, total[w], which[w])
            if threshold < 0:
                break
            # Every end now at the next unseen, wherever random accesses have been: nobody unseen is nearer.
            for at in range(begin, end):
                line, mine = column[instant[at]], place[i, instant[at]]
                _pass_seen(listed[line], number[line], seen, w, above, below, at - begin)
                up = _away(where[line], number[line], mine, above[at - begin])
                down = _away(where[line], number[line], mine, below[at - begin])
                if min(up, down) == _NEVER:
                    threshold = np.int64(_NEVER)
                    break
                threshold += min(up, down)
            if threshold == _NEVER:
                break
        _sort(total[w], which[w])


@_kernel
def _pass_seen(listed: Any, number: Any, seen: Any, w: Any, above: Any, below: Any, at: Any) -> None:
    while above[at] >= 0 and seen[listed[above[at]]] == w:
        above[at] -= 1
    while below[at] < number and seen[listed[below[at]]] == w:
        below[at] += 1


@_kernel
def _away(where: Any, number: Any, mine: Any, at: Any) -> Any:
    """Give the deviation of an entry of a list; `_NEVER` past its ends."""
    return abs(np.int64(where[at]) - np.int64(mine)) if 0 <= at < number else _NEVER
