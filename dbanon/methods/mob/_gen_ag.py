"""The nearest candidates of each subject at its own instants, by summed deviations along a Hilbert curve.

Invariant: the lists are exact. Of all candidates that presence both ways allows they hold those of least sum, ties in
the run's order; neither the quantisation by which most are rejected nor the number of threads shows in them.

`find_nearest` looks at all candidates, sixteen at a time. Algorithm 1 of the paper finds the same lists by a threshold.
Yarovoy, Bonchi, Lakshmanan, Wang: Anonymizing Moving Objects: How to Hide a MOB in a Crowd?, EDBT 2009.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from dbanon.base import cores
from dbanon.base.kernels import compile_kernel
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.base.trajectory import Bool, Int, Int32
from dbanon.methods.mob._positions import Positions, Words, unpack_words

_OUT_OF_REACH = 65_535  # stands for being absent: further than any limit that a candidate present can exceed
_MIN_LEVELS, _MAX_LEVELS = 256, 4_096  # that places are quantised to
_VALUES_PER_BLOCK = 208_000  # quantised places of a block, of 2 bytes each: for a second-level cache of 512 KiB
_MIN_LANES, _MAX_LANES = 64, 1_024  # candidates of a block
MIN_ADDITIONS_PER_THREAD = 1 << 22
_ADDITIONS_PER_TASK = 1 << 35  # some seconds on a core
_MAX_TASKS = 16  # each carries the places of all
_THREADS_PER_TASK = 4  # that a task keeps busy by itself
INFINITE_SUM = np.iinfo(np.int64).max  # the sum of an entry that nobody takes yet


class Objects(NamedTuple):
    """All objects, whether they ask or may be taken."""

    there: Words  # [n, W]
    own: Words  # [n, W]
    place: NDArray[np.integer]  # [n, T]: along the Hilbert curve


class Asking(NamedTuple):
    """One who asks."""

    row: int
    when: Int32  # [p]: its own instants
    here: NDArray[np.integer]  # [p]: its places at these


class Heap(NamedTuple):
    """The nearest so far of one who asks, the furthest first."""

    total: Int  # [number]
    which: Int32  # [number]


class _Subjects(NamedTuple):
    """Those who ask: their own instants, the columns these are of the candidates' places, and their places there."""

    row: Int  # [w] of Positions
    since: Int  # [w + 1]: subject w has instants when[since[w]:since[w + 1]]
    when: Int32
    line: Int32
    here: NDArray[np.integer]  # what is read again for each block lies together, and not in rows of T

    def select(self, low: int, high: int) -> "_Subjects":
        """Keep those from one number to before another."""
        begin, end = self.since[low], self.since[high]
        return _Subjects(
            self.row[low:high],
            self.since[low : high + 1] - begin,
            self.when[begin:end],
            self.line[begin:end],
            self.here[begin:end],
        )


class _Candidates(NamedTuple):
    """Those who may be taken, in the run's order, in blocks of some lanes.

    A quantised place is the place shifted right by `shift` bits, or `_OUT_OF_REACH` where the candidate is absent;
    lanes past the last candidate hold `_OUT_OF_REACH` as well.
    """

    row: Int  # [m] of Positions
    quantised: NDArray[np.uint16]  # [blocks, columns, lanes]
    own: Words  # [blocks, W, lanes]
    asked: Words  # [W], instants that are own ones of any of them
    shift: int
    levels: int  # a power of two, above all quantised places


class Nearest(NamedTuple):
    """The nearest so far of each who asks: binary heaps, the furthest first.

    Before they are full they hold `INFINITE_SUM`.
    """

    total: Int  # [w, number]
    which: Int32  # [w, number] index into the rows of candidates, -1 where there is none

    @classmethod
    def make_empty(cls, subjects: int, number: int) -> "Nearest":
        return cls(np.full((subjects, number), INFINITE_SUM), np.full((subjects, number), -1, np.int32))

    def find_rows(self, row: Int) -> Int32:
        """Give rows of `Positions` instead of indices of candidates; -1 stays."""
        return np.append(row, -1).astype(np.int32)[self.which]


class _Field:
    """All that is known of those who ask and of candidates: where it is sent, only what is asked for, once."""

    def __init__(
        self, there: Words, own: Words, place: Int, *, order: Int, instants: Int, shift: int, levels: int
    ) -> None:
        self.objects, self.instants = Objects(there, own, place), instants
        self.candidates = _build_candidates(self.objects, order=order, instants=instants, shift=shift, levels=levels)

    def __reduce__(self) -> tuple[Any, ...]:
        there, own, place = self.objects
        columns = place[:, self.instants]
        if int(columns.max(initial=0)) < 1 << 31:
            columns = columns.astype(np.int32)
        given = self.candidates.row, self.instants, self.candidates.shift, self.candidates.levels
        return _Field._rebuild, (there, own, columns, place.shape, *given)

    @classmethod
    def _rebuild(cls, there: Words, own: Words, columns: Int, shape: tuple[int, int], *given: Any) -> "_Field":
        order, instants, shift, levels = given
        place = np.zeros(shape, np.int64)
        place[:, instants] = columns
        return cls(there, own, place, order=order, instants=instants, shift=shift, levels=levels)


def find_nearest(
    positions: Positions, place: Int, who: Int, number: int, among: Bool, *, tasks: Tasks = SERIAL_TASKS
) -> Int32:
    """Find the others of the least summed deviation at each subject's own instants.

    Parameters
    ----------
    place : int64[n, T]
        Along the Hilbert curve, not negative; arbitrary where a subject is absent.
    who : int64[w]
        Rows of `positions`, each with own instants.
    number : int
        How many are wanted, at least 1.
    among : bool[n]
        Who may be taken.
    tasks : Tasks
        Looks at candidates of some of `who` at a time, where that takes long.

    Returns
    -------
    int32[w, number]
        Rows of `positions`, nearest first, equal sums in the run's order: those who are present at all own instants of
        the subject, and at all of whose own instants the subject is. -1 at the end where there are fewer.

    Notes
    -----
    Looks at all w x m pairs, in O(w m p) additions of 16 bits for p own instants, 16 a machine instruction. Places are
    quantised, so their differences bound deviations from below; only pairs whose bound is within the furthest of the
    nearest so far, about number x log(m) a subject, are summed exactly. Holds 2 m T bytes beside the result.
    """
    order = order_candidates(positions, among)
    column, instants = number_columns(positions, who)
    shift, levels = _choose_quantisation(positions, place, who)
    field = _Field(positions.there, positions.own, place, order=order, instants=instants, shift=shift, levels=levels)
    subjects = gather_subjects(positions, place, who, column)
    parts = ((field, subjects.select(low, high), number) for low, high in _cut(np.diff(subjects.since) * len(order)))
    return np.concatenate(
        [np.empty((0, number), np.int32), *tasks.map(_find_part_nearest, parts, threads=_THREADS_PER_TASK)]
    )


def _cut(work: Int) -> Iterator[tuple[int, int]]:
    """Cut those who ask where the additions for them make a task."""
    done = np.cumsum(work)
    number = min(int(done[-1]) // _ADDITIONS_PER_TASK + 1, _MAX_TASKS) if len(done) else 0
    cuts = [0, *(np.searchsorted(done, done[-1] * np.arange(1, number) / number) if number > 1 else []), len(work)]
    for low, high in pairwise(cuts):
        if high > low:
            yield int(low), int(high)


def _find_part_nearest(field: _Field, subjects: _Subjects, number: int) -> Int32:
    nearest = Nearest.make_empty(len(subjects.row), number)

    def run_range(low: int, high: int) -> None:
        _sweep(field.objects, subjects, field.candidates, nearest, low, high)

    cores.share_work(np.diff(subjects.since) * len(field.candidates.row), run_range, MIN_ADDITIONS_PER_THREAD)
    return nearest.find_rows(field.candidates.row)


# ---- what kernels read -----------------------------------------------------------------------------------------------


def order_candidates(positions: Positions, among: Bool) -> Int:
    row = np.flatnonzero(among)
    return np.asarray(row[np.argsort(positions.rank[row])], np.int64)


def number_columns(positions: Positions, who: Int) -> tuple[Int32, Int]:
    """Number the instants that are own ones of `who`: the number of each or -1, and the instants."""
    used = unpack_words(np.bitwise_or.reduce(positions.own[who], axis=0), positions.instants.count)
    return np.where(used, np.cumsum(used) - 1, -1).astype(np.int32), np.flatnonzero(used)


def _choose_quantisation(positions: Positions, place: Int, who: Int) -> tuple[int, int]:
    """Choose by how many bits places are shifted, and how many levels there are then, a power of two."""
    longest = int(np.diff(positions.offset)[who].max(initial=1))
    # A sum over at most _OUT_OF_REACH / levels - 1 own instants fits 16 bits. A sum over more may stop at 65,535.
    bits = min(max(_OUT_OF_REACH // (longest + 1), _MIN_LEVELS), _MAX_LEVELS).bit_length() - 1
    return max(int(place.max(initial=0)).bit_length() - bits, 0), 1 << bits


def gather_subjects(positions: Positions, place: Int, who: Int, column: Int32) -> _Subjects:
    length = np.diff(positions.offset)[who]
    since = np.concatenate([[0], np.cumsum(length)])
    at = np.repeat(positions.offset[who] - since[:-1], length) + np.arange(since[-1])
    when = positions.instant[at]
    return _Subjects(np.asarray(who, np.int64), since, when, column[when], place[np.repeat(who, length), when])


def _build_candidates(objects: Objects, *, order: Int, instants: Int, shift: int, levels: int) -> _Candidates:
    lanes = min(max(_VALUES_PER_BLOCK // max(len(instants), 1), _MIN_LANES), _MAX_LANES) // _MIN_LANES * _MIN_LANES
    blocks, own = -(-len(order) // lanes), objects.own[order]
    quantised = np.full((blocks, len(instants), lanes), _OUT_OF_REACH, np.uint16)

    def run_range(low: int, high: int) -> None:
        _quantise(objects, order, instants, shift, quantised, low, high)

    cores.share_work(np.full(blocks, lanes * len(instants)), run_range, MIN_ADDITIONS_PER_THREAD)
    known = np.zeros((blocks * lanes, own.shape[1]), np.uint64)
    known[: len(order)] = own
    known = np.ascontiguousarray(known.reshape(blocks, lanes, own.shape[1]).swapaxes(1, 2))
    return _Candidates(order, quantised, known, np.bitwise_or.reduce(own, axis=0), shift, levels)


@compile_kernel
def _quantise(
    objects: Objects, order: Int, instants: Int, shift: int, out: NDArray[np.uint16], low: int, high: int
) -> None:
    lanes = out.shape[2]
    for block in range(low, high):
        for lane in range(min(lanes, len(order) - block * lanes)):
            j = order[block * lanes + lane]
            for column in range(len(instants)):
                t = instants[column]
                if (objects.there[j, t >> 6] >> np.uint64(t & 63)) & np.uint64(1):
                    out[block, column, lane] = objects.place[j, t] >> shift


# ---- all candidates, sixteen at a time -------------------------------------------------------------------------------


@compile_kernel
def _sweep(objects: Objects, subjects: _Subjects, candidates: _Candidates, heaps: Nearest, low: int, high: int) -> None:
    """Compare subjects low..high with all candidates, block by block, and sort what was found."""
    quantised, shift, levels = candidates.quantised, candidates.shift, candidates.levels
    lanes, number = quantised.shape[2], heaps.total.shape[1]
    bound, within = np.empty(lanes, np.uint16), np.empty(lanes, np.uint8)
    # Kept true: each heap holds the nearest among the candidates of earlier blocks, who come before the others.
    for block in range(len(quantised)):
        for w in range(low, high):
            begin, end = subjects.since[w], subjects.since[w + 1]
            heap = Heap(heaps.total[w], heaps.which[w])
            least, most = np.int64(0), _compute_limit(heap.total[0], end - begin, shift, levels)
            if most < 0:
                continue
            asking = Asking(subjects.row[w], subjects.when[begin:end], subjects.here[begin:end])
            _add_up(subjects.line[begin:end], asking.here, shift, quantised[block], bound)
            _leave_out(objects.there[asking.row], candidates.own[block], candidates.asked, bound)
            if block == 0 and number <= lanes:
                # Candidates that seem nearest come first: then few of the others come within the limit.
                soon = np.int64(np.partition(bound, number - 1)[number - 1])
                _select(bound, least, min(soon, most), within)
                _take(objects, asking, candidates, 0, bound, within, heap)
                # The others may precede them in the run's order, and count where they are as far.
                worst = heap.total[0]
                least, most = soon + 1, _compute_limit(worst + (worst != INFINITE_SUM), end - begin, shift, levels)
            _select(bound, least, most, within)
            _take(objects, asking, candidates, block * lanes, bound, within, heap)
    for w in range(low, high):
        sort_heap(Heap(heaps.total[w], heaps.which[w]))


@compile_kernel
def _compute_limit(worst: int, instants: int, shift: int, levels: int) -> Any:
    """Give the greatest sum of quantised deviations that a candidate nearer than `worst` may have; below 0: none is.

    A quantised deviation is less than the deviation in units of 2^shift, plus 1.
    """
    if worst == 0:
        return np.int64(-1)
    if (worst - 1) >> shift <= _OUT_OF_REACH - levels - instants:
        return ((worst - 1) >> shift) + instants
    # Sums of the absent are greater than this; where sums of the present may be as well, all are looked at.
    return np.int64(_OUT_OF_REACH - levels if instants * (levels - 1) <= _OUT_OF_REACH - levels else _OUT_OF_REACH)


@compile_kernel
def _add_up(
    line: Int32, here: NDArray[np.integer], shift: int, quantised: NDArray[np.uint16], bound: NDArray[np.uint16]
) -> None:
    """Sum the quantised deviations of all lanes of a block, staying at 65,535 where they exceed it."""
    bound[:] = 0
    whole = len(line) - len(line) % 4
    for at in range(0, whole, 4):  # four rows at a time: sums are read and written a quarter as often
        a, b, c, d = line[at], line[at + 1], line[at + 2], line[at + 3]
        in_a, in_b = np.uint16(here[at] >> shift), np.uint16(here[at + 1] >> shift)
        in_c, in_d = np.uint16(here[at + 2] >> shift), np.uint16(here[at + 3] >> shift)
        for lane in range(len(bound)):
            total = _add_deviation(_add_deviation(bound[lane], quantised[a, lane], in_a), quantised[b, lane], in_b)
            bound[lane] = _add_deviation(_add_deviation(total, quantised[c, lane], in_c), quantised[d, lane], in_d)
    for at in range(whole, len(line)):
        a, in_a = line[at], np.uint16(here[at] >> shift)
        for lane in range(len(bound)):
            bound[lane] = _add_deviation(bound[lane], quantised[a, lane], in_a)


@numba.njit(inline="always", error_model="numpy")
def _add_deviation(total: Any, there: Any, here: Any) -> Any:
    """Add a deviation, written so that the compiler finds the saturating addition of sixteen lanes."""
    deviation = np.uint16(there - here) if there > here else np.uint16(here - there)
    more = np.uint16(total + deviation)
    return more if more >= deviation else np.uint16(_OUT_OF_REACH)


@compile_kernel
def _leave_out(there: Words, known: Words, asked: Words, bound: NDArray[np.uint16]) -> None:
    """Put candidates out of reach that have an own instant at which the subject is absent."""
    for word in range(len(there)):
        absent = asked[word] & ~there[word]
        if absent:
            for lane in range(len(bound)):
                if known[word, lane] & absent:
                    bound[lane] = _OUT_OF_REACH


@compile_kernel
def _select(bound: NDArray[np.uint16], least: Any, most: Any, within: NDArray[np.uint8]) -> None:
    if most < least:
        within[:] = 0
        return
    first, last = np.uint16(least), np.uint16(most)
    for lane in range(len(bound)):
        within[lane] = (bound[lane] >= first) & (bound[lane] <= last)


@compile_kernel
def _take(
    objects: Objects, asking: Asking, candidates: _Candidates, first: int, bound: NDArray[np.uint16],
    within: NDArray[np.uint8], heap: Heap,
) -> None:  # fmt: skip
    """Take those selected whose exact sum is among the least; the limit comes down meanwhile."""
    order = candidates.row
    eight = within.view(np.uint64)
    most = np.int64(_OUT_OF_REACH)
    for group in range(len(eight)):
        if eight[group] == 0:
            continue
        for lane in range(8 * group, min(8 * group + 8, len(order) - first)):
            if within[lane] and bound[lane] <= most:
                index = first + lane
                taken, worst = take_one(objects, asking, order[index], index, heap), heap.total[0]
                if taken and worst != INFINITE_SUM:
                    most = _compute_limit(worst + 1, len(asking.when), candidates.shift, candidates.levels)


# ---- the nearest so far ----------------------------------------------------------------------------------------------


@compile_kernel
def take_one(objects: Objects, asking: Asking, j: int, index: int, heap: Heap) -> bool:
    """Take j among the nearest in place of the furthest, if it is nearer and may be taken; say so."""
    # Presence both ways is not in the paper, whose objects are always there: an absent one could be ruled out.
    if asking.row == j or not _is_present_both_ways(objects, asking.row, j):
        return False
    away = _sum_deviations(asking, objects.place[j], heap.total[0])
    # Of equal sums the earlier in the run's order is nearer, in whatever order candidates come.
    if away > heap.total[0] or (away == heap.total[0] and index > heap.which[0]):
        return False
    _replace_furthest(heap, len(heap.total), away, index)
    return True


@compile_kernel
def _is_present_both_ways(objects: Objects, i: int, j: int) -> bool:
    own, there = objects.own, objects.there
    for word in range(own.shape[1]):  # noqa: SIM110 - quicker than a generator
        if (own[i, word] & ~there[j, word]) | (own[j, word] & ~there[i, word]):
            return False
    return True


@compile_kernel
def _sum_deviations(asking: Asking, there: NDArray[np.integer], enough: int) -> Any:
    """Sum the deviations at all own instants, or at as many as together exceed `enough`."""
    away = np.int64(0)
    for at in range(len(asking.when)):
        away += abs(np.int64(asking.here[at]) - np.int64(there[asking.when[at]]))
        if away > enough:
            break
    return away


@compile_kernel
def _replace_furthest(heap: Heap, size: int, away: int, index: int) -> None:
    """Put an entry into the first `size` of a heap instead of its first, and let it sink to where it belongs."""
    total, which = heap
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _is_nearer(heap, child, total[child + 1], which[child + 1]):
            child += 1
        if _is_nearer(heap, child, away, index):
            break
        total[at], which[at] = total[child], which[child]
        at = child
    total[at], which[at] = away, index


@compile_kernel
def _is_nearer(heap: Heap, at: int, away: int, index: int) -> bool:
    return bool(heap.total[at] < away or (heap.total[at] == away and heap.which[at] < index))


@compile_kernel
def sort_heap(heap: Heap) -> None:
    """Turn a heap into a list, nearest first."""
    total, which = heap
    for last in range(len(total) - 1, 0, -1):
        away, index = total[last], which[last]
        total[last], which[last] = total[0], which[0]
        _replace_furthest(heap, last, away, index)
