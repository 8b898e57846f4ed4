"""k-merge: the optimal generalisation of trajectories into one.

Of all ways to cut the samples of the inputs, in order of time, into stretches that each hold a sample of every input,
it finds the one of the least cost: the sum, over the stretches, of slots spanned times (columns + rows of cells
spanned). Samples of one slot are never parted.

Gramaglia, Fiore, Tarable, Banchs: k^(tau,epsilon)-anonymity: Towards Privacy-Preserving Publishing of Spatiotemporal
Trajectory Data, INFOCOM 2017, Algorithm 1. Departures: that algorithm parts samples of equal time; and it stops at the
first stretch that could be cut in two, which is put here as follows. A row is a slot in which there is a sample, with
the box of all its samples. Let c(j) be the last row i for which the rows i to j hold every input. Rows i to j can be
cut in two if and only if i <= c(c(j) - 1); so a stretch of the optimum that ends with row j starts with a row i,
c(c(j) - 1) < i <= c(j). Its box is that of rows i to c(j), which grows as i falls, joined to that of rows c(j) to j,
which grows as j rises while c(j) stays: neither is computed twice, and a row is in at most k of either.

A start is left out for good where as little was spent before a later one, whose stretches are shorter and narrower.

That leaves pairs (i, j), few where the samples of the inputs alternate, but L^2 for two runs of L rows each of one
input. Many starts are therefore cut into blocks. A block whose starts all give the same box (a subject rests) is a
minimum of lines in the time of the end, kept until the box changes; a block is passed over whose least cost before it,
with the box of its last start and the time from it, is no better than the best.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dbanon.base import cores
from dbanon.base.kernels import compile_kernel
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.base.trajectory import Float, Int, freeze_arrays
from dbanon.methods.kte._samples import Merged, Samples, Stretches, select_stretches, take_stretches

_INFINITY = np.int64(2**62)
_MIN_SAMPLES_PER_THREAD = 1 << 14
_SAMPLE_INPUTS_PER_TASK = 1 << 23  # samples times inputs
_STARTS_PER_BLOCK = 32

# Columns of rows: slot; box; c(j); the least cost of the rows up to this one; the start of the last stretch of these.
_T, _X0, _Y0, _X1, _Y1, _C, _COST, _START = range(8)
_ROW_COLUMNS = 8
# Each start has the cost of the rows before it, its slot, the box of the rows from it to c(j), and its row.
_BEFORE, _SLOT, _WEST, _SOUTH, _EAST, _NORTH, _ROW = range(7)
_START_ROWS = 7
# Of blocks of starts: for which sum of spans the next two hold (0: none); the least over starts of (cost before - spans
# * slot), and the start that has it.
_SPANS, _LINE, _BY = range(3)


class Scratch(NamedTuple):
    """Room for one task after the other."""

    rows: Int  # [r, _ROW_COLUMNS]
    starts: Int  # [_START_ROWS, r]: for c(j), from the latest on, each with less spent before it than the one before
    blocks: Int  # [r // _STARTS_PER_BLOCK + 1, 3]
    inputs: Int  # [k, 2]: of each input, its next sample and the last row it is in


class _Inputs(NamedTuple):
    """What tasks merge, as in `merge`."""

    offset: Int  # [g + 1]
    begin: Int  # [j]
    end: Int  # [j]


class _Box(NamedTuple):
    """Cells, all inside."""

    x0: np.int64
    y0: np.int64
    x1: np.int64
    y1: np.int64


def merge(samples: Samples, offset: Int, begin: Int, end: Int, tasks: Tasks = SERIAL_TASKS) -> Merged:
    """Merge trajectories optimally, for many tasks.

    Parameters
    ----------
    offset : int64[g + 1]
        Inputs of task i are those from ``offset[i]`` to ``offset[i + 1]``, at least one.
    begin, end : int64[j]
        Input j is the samples from ``begin[j]`` to ``end[j]``, at least one, of one subject.
    tasks : Tasks
        Does them elsewhere, where they are many.

    Returns
    -------
    Merged
        One record a task. Of equally cheap ones that whose stretches start latest, decided from the last to the first;
        the order of inputs does not matter. A task of one input gives its samples slot by slot.

    Notes
    -----
    O(k m) time for k inputs of m samples where inputs alternate; for runs of L rows of one input, O(L) more a row at
    worst, divided by the length of a block. Memory beside the result: half of it, and 120 bytes a sample of the largest
    task and thread.
    """
    offset, begin, end = (np.ascontiguousarray(values, np.int64) for values in (offset, begin, end))
    if tasks is SERIAL_TASKS:
        return _merge_all(samples, offset, begin, end)
    cuts = _find_cuts(_measure_work(offset, end - begin))

    def iter_work() -> Iterator[tuple[Any, ...]]:
        for low, high in pairwise(cuts):
            some = slice(offset[low], offset[high])
            yield select_stretches(samples, begin[some], end[some]), offset[low : high + 1] - offset[low]

    done = tasks.map(_merge_part, iter_work())
    ends = np.cumsum(np.concatenate([np.diff(each.offset) for each in done]))
    first, last, box = (np.concatenate([getattr(each, name) for each in done]) for name in ("first", "last", "box"))
    return Merged(offset=np.concatenate([[0], ends]), first=first, last=last, box=box)


def _find_cuts(work: Int) -> Int:
    """Cut tasks into ranges that take a second or so each; one where there are none."""
    done = np.cumsum(work)
    parts = int(done[-1]) // _SAMPLE_INPUTS_PER_TASK + 1 if len(work) else 1
    inner = np.searchsorted(done, done[-1] * np.arange(1, parts) // parts) if len(work) else done
    return np.unique(np.concatenate([[0], inner, [len(work)]]))


def _merge_part(samples: Stretches, offset: Int) -> Merged:
    return _merge_all(freeze_arrays(samples), offset, samples.offset[:-1].copy(), samples.offset[1:].copy())


def _merge_all(samples: Samples | Stretches, offset: Int, begin: Int, end: Int) -> Merged:
    """Merge on all threads of this process."""
    lengths = end - begin
    tasks = len(offset) - 1
    # A stretch holds a sample of every input: no task gives more rows than its shortest input has samples.
    most = np.minimum.reduceat(lengths, offset[:-1]) if tasks else lengths[:0]
    number = np.zeros(tasks, np.int64)
    parts: dict[int, Any] = {}
    # Half of the memory, but for seconds after 2038. Cells always fit.
    far = max(int(samples.slot.max(initial=0)), -int(samples.slot.min(initial=0)))
    kind = np.int32 if far <= np.iinfo(np.int32).max else np.int64

    def run_range(low: int, high: int) -> None:
        # Rows that are not written take no memory.
        rows = np.empty((int(most[low:high].sum()), 6), kind)
        inputs, scratch = _prepare_range(offset, begin, end, low, high)
        written = _merge(take_stretches(samples), inputs, scratch, rows, number[low:high])
        parts[low] = rows[:written]

    work = _measure_work(offset, lengths)
    cores.share_work(work, run_range, _MIN_SAMPLES_PER_THREAD)
    whole = np.concatenate([[0], np.cumsum(number)])
    first, last, box = (np.empty((whole[-1], *shape), np.int64) for shape in ((), (), (4,)))

    def put(low: int, high: int) -> None:
        here, part = slice(whole[low], whole[high]), parts.pop(low)
        first[here], last[here], box[here] = part[:, 0], part[:, 1], part[:, 2:]

    cores.share_work(work, put, _MIN_SAMPLES_PER_THREAD)  # in the same ranges again
    return Merged(offset=whole, first=first, last=last, box=box)


def compute_costs(samples: Samples | Stretches, offset: Int, begin: Int, end: Int) -> Int:
    """Cost of what `merge` gives for each task, without its rows: int64[g]."""
    offset, begin, end = (np.ascontiguousarray(values, np.int64) for values in (offset, begin, end))
    cost = np.empty(len(offset) - 1, np.int64)

    def run_range(low: int, high: int) -> None:
        _fill_costs(take_stretches(samples), *_prepare_range(offset, begin, end, low, high), cost[low:high])

    cores.share_work(_measure_work(offset, end - begin), run_range, _MIN_SAMPLES_PER_THREAD)
    return cost


def compute_pair_costs(samples: Samples | Stretches, begin_a: Int, end_a: Int, begin_b: Int, end_b: Int) -> Float:
    """Cost of the optimal merge of many pairs of trajectories.

    Parameters
    ----------
    begin_a, end_a, begin_b, end_b : int64[p]
        Pair i is the samples from ``begin_a[i]`` to ``end_a[i]`` and those from ``begin_b[i]`` to ``end_b[i]``, at
        least one each.

    Returns
    -------
    float64[p]
        In slots times cells: whole numbers. Which of a pair comes first does not matter.
    """
    pairs, work = np.column_stack([begin_a, end_a, begin_b, end_b]), (end_a - begin_a) + (end_b - begin_b)
    cost = np.empty(len(work))

    def run_range(low: int, high: int) -> None:
        scratch = make_scratch(int(work[low:high].max()), 0)
        _fill_pair_costs(take_stretches(samples), pairs[low:high], scratch, cost[low:high])

    cores.share_work(work, run_range, _MIN_SAMPLES_PER_THREAD)
    return cost


def _measure_work(offset: Int, lengths: Int) -> Int:
    """Samples of each task, times its inputs."""
    return np.add.reduceat(lengths, offset[:-1]) * np.diff(offset) if len(offset) > 1 else lengths[:0]


def _prepare_range(offset: Int, begin: Int, end: Int, low: int, high: int) -> tuple[_Inputs, Scratch]:
    """Give the inputs of some tasks, and scratch for the largest of them."""
    rows = int(np.add.reduceat((end - begin)[: offset[high]], offset[low:high]).max())
    few = offset[low : high + 1]
    return _Inputs(few, begin, end), make_scratch(rows, int(np.diff(few).max()))


def make_scratch(rows: int, inputs: int) -> Scratch:
    """Make room for tasks of so many rows and inputs at most."""
    return Scratch(
        np.empty((rows, _ROW_COLUMNS), np.int64),
        np.empty((_START_ROWS, rows), np.int64),
        np.empty((rows // _STARTS_PER_BLOCK + 1, 3), np.int64),
        np.empty((inputs, 2), np.int64),
    )


@compile_kernel
def _merge(samples: Stretches, inputs: _Inputs, scratch: Scratch, merged: Any, number: Int) -> int:
    """Write the rows of tasks one after the other, and how many of each; the number of all."""
    written, rows = 0, scratch.rows
    for task in range(len(number)):
        low, high = inputs.offset[task], inputs.offset[task + 1]
        n = write_rows(samples, inputs.begin[low:high], inputs.end[low:high], scratch)
        cut(scratch, n, True)
        # Lines 16-17: follow the stretches back from the last row, once to count them and once to write them.
        j = n - 1
        while j >= 0:
            written += 1
            number[task] += 1
            j = rows[j, _START] - 1
        at, j = written, n - 1
        while j >= 0:
            i = rows[j, _START]
            box = _bound(rows, i, j)
            at -= 1
            row = merged[at]
            row[0], row[1], row[2], row[3], row[4], row[5] = rows[i, _T], rows[j, _T], box.x0, box.y0, box.x1, box.y1
            j = i - 1
    return written


@compile_kernel
def _fill_costs(samples: Stretches, inputs: _Inputs, scratch: Scratch, cost: Int) -> None:
    for task in range(len(cost)):
        low, high = inputs.offset[task], inputs.offset[task + 1]
        cost[task] = cut(scratch, write_rows(samples, inputs.begin[low:high], inputs.end[low:high], scratch), False)


@compile_kernel
def _fill_pair_costs(samples: Stretches, pairs: Int, scratch: Scratch, cost: Float) -> None:
    for pair in range(len(cost)):
        a, end_a, b, end_b = pairs[pair, 0], pairs[pair, 1], pairs[pair, 2], pairs[pair, 3]
        cost[pair] = cut(scratch, write_rows_of_two(samples, a, end_a, b, end_b, scratch.rows), False)


@compile_kernel
def write_rows_of_two(samples: Stretches, a: int, end_a: int, b: int, end_b: int, rows: Int) -> int:
    """Write slot, box and c(j) of the rows of two inputs; their number. The same as `write_rows`, in half the time."""
    slot, x, y = samples.slot, samples.x, samples.y
    n, last_a, last_b = 0, -1, -1
    while a < end_a or b < end_b:
        t_a = slot[a] if a < end_a else _INFINITY
        t_b = slot[b] if b < end_b else _INFINITY
        t = min(t_a, t_b)
        x0, y0, x1, y1 = _INFINITY, _INFINITY, -_INFINITY, -_INFINITY
        if t_a == t:
            last_a = n
            while a < end_a and slot[a] == t:
                x0, y0, x1, y1 = min(x0, x[a]), min(y0, y[a]), max(x1, x[a]), max(y1, y[a])
                a += 1
        if t_b == t:
            last_b = n
            while b < end_b and slot[b] == t:
                x0, y0, x1, y1 = min(x0, x[b]), min(y0, y[b]), max(x1, x[b]), max(y1, y[b])
                b += 1
        row = rows[n]
        row[_T], row[_X0], row[_Y0], row[_X1], row[_Y1], row[_C] = t, x0, y0, x1, y1, min(last_a, last_b)
        n += 1
    return n


@compile_kernel
def write_rows(samples: Stretches, begin: Int, end: Int, scratch: Scratch) -> int:
    """Write slot, box and c(j) of the rows of any number of inputs; their number."""
    slot, x, y, rows, inputs = samples.slot, samples.x, samples.y, scratch.rows, scratch.inputs
    k, n = len(begin), 0
    if k == 2:
        return write_rows_of_two(samples, begin[0], end[0], begin[1], end[1], rows)
    # Lines 1-3 of Algorithm 1 without a sort, since each input is in order: the next slot is the least next one.
    t = _INFINITY
    for i in range(k):
        inputs[i, 0], inputs[i, 1] = begin[i], -1
        t = min(t, slot[begin[i]])
    while t < _INFINITY:
        x0, y0, x1, y1 = _INFINITY, _INFINITY, -_INFINITY, -_INFINITY
        later, complete = _INFINITY, n
        for i in range(k):
            at = inputs[i, 0]
            if at < end[i]:
                if slot[at] == t:
                    inputs[i, 1] = n
                    while at < end[i] and slot[at] == t:
                        x0, y0, x1, y1 = min(x0, x[at]), min(y0, y[at]), max(x1, x[at]), max(y1, y[at])
                        at += 1
                    inputs[i, 0] = at
                if at < end[i]:
                    later = min(later, slot[at])
            # Stays -1 until every input has had a sample: no stretch that ends here is complete.
            complete = min(complete, inputs[i, 1])
        row = rows[n]
        row[_T], row[_X0], row[_Y0], row[_X1], row[_Y1], row[_C] = t, x0, y0, x1, y1, complete
        n += 1
        t = later
    return n


@compile_kernel
def cut(scratch: Scratch, n: int, has_starts: bool) -> Any:
    """Write the least cost up to every row and, if asked for, the start of its last stretch; the cost of all.

    Rows before the first that has every input behind it end no stretch: their cost is never read.
    """
    # In one function, and `starts` as one array: calls with many arrays take longer than what they do here.
    rows, starts, first, c, number, hint = scratch.rows, scratch.starts, n, -1, 0, -1
    box = _bound(rows, 0, 0)  # of rows c to j
    # Line 6. Kept true: rows before j hold the optimal cost of all rows up to them, which depends on no later row
    # (Proposition 2).
    for j in range(n):
        # Line 8: no start makes a stretch that ends here complete.
        if rows[j, _C] < 0:
            continue
        first = min(first, j)
        # While c(j) stays, the starts that may be best do too, and the box of rows c to j grows by row j alone.
        if rows[j, _C] == c:
            box = _join(box, rows, j)
        else:
            c, number, hint, least = rows[j, _C], 0, -1, _INFINITY
            box, whole = _bound(rows, c, j), _bound(rows, c, c)
            before = rows[c - 1, _C] if c > 0 else -1
            # From the latest start to the first one that makes a stretch that can be cut in two (Proposition 1). Where
            # no complete stretch ends before c, all rows are one: the last one written stands, with nothing before it.
            for i in range(c, max(before, first) if before >= 0 else -1, -1):
                whole, spent = _join(whole, rows, i), rows[i - 1, _COST] if before >= 0 else np.int64(0)
                starts[_BEFORE, number], starts[_SLOT, number], starts[_ROW, number] = spent, rows[i, _T], i
                starts[_WEST, number], starts[_SOUTH, number] = whole.x0, whole.y0
                starts[_EAST, number], starts[_NORTH, number] = whole.x1, whole.y1
                number += int((before >= 0) & (spent < least))
                least = min(least, spent)
            number = max(number, 1)
        if number >= 2 * _STARTS_PER_BLOCK:
            # Blocks of starts are passed over or looked up, from the one that was best for the row before.
            hint = _search(scratch, number, j, box, hint)
            continue
        # Lines 10-14, without a branch, so that several are computed at once.
        after, best = rows[j, _T] + 1, _INFINITY
        for i in range(number):
            best = min(best, starts[_BEFORE, i] + (after - starts[_SLOT, i]) * _sum_spans(starts, i, box))
        rows[j, _COST] = best
        if has_starts:
            rows[j, _START] = starts[_ROW, _find_start(starts, after, box, best)]
    return rows[n - 1, _COST]


@compile_kernel
def _find_start(starts: Int, after: int, box: _Box, best: Any) -> int:
    """Find the latest start of a cost: it stays where several cost as much."""
    i = 0
    while starts[_BEFORE, i] + (after - starts[_SLOT, i]) * _sum_spans(starts, i, box) > best:
        i += 1
    return i


@compile_kernel
def _bound(rows: Int, i: int, j: int) -> _Box:
    box = _Box(_INFINITY, _INFINITY, -_INFINITY, -_INFINITY)
    for at in range(i, j + 1):
        box = _join(box, rows, at)
    return box


@compile_kernel
def _join(box: _Box, rows: Int, i: int) -> _Box:
    x0, y0, x1, y1 = rows[i, _X0], rows[i, _Y0], rows[i, _X1], rows[i, _Y1]
    return _Box(min(box.x0, x0), min(box.y0, y0), max(box.x1, x1), max(box.y1, y1))


@compile_kernel
def _sum_spans(starts: Int, i: int, box: _Box) -> Any:
    """Columns and rows of cells of a start's box joined to another."""
    wide = max(starts[_EAST, i], box.x1) - min(starts[_WEST, i], box.x0)
    return wide + max(starts[_NORTH, i], box.y1) - min(starts[_SOUTH, i], box.y0) + 2


@compile_kernel
def _search(scratch: Scratch, number: int, j: int, box: _Box, hint: int) -> Any:
    """Write the best of many starts for row j; return it. `box` is that of rows c to j; `hint` -1 where c is new."""
    starts, blocks, after = scratch.starts, scratch.blocks, scratch.rows[j, _T] + 1
    before, slot, width = starts[_BEFORE], starts[_SLOT], max(_STARTS_PER_BLOCK, int(np.sqrt(number)) // 4)
    if hint < 0:
        hint, blocks[: number // _STARTS_PER_BLOCK + 1, _SPANS] = 0, 0
    # Kept true: starts passed over cost at least `best`, or more than the start that was best for the row before.
    bar = before[hint] + (after - slot[hint]) * _sum_spans(starts, hint, box)
    best, start = _INFINITY, 0
    for block in range((number - 1) // width + 1):
        top = block * width
        bottom = min(number, top + width) - 1
        narrow = _sum_spans(starts, top, box)
        # No start of the block costs less: none has less before it, a shorter stretch or a smaller box.
        bound = before[bottom] + (after - slot[top]) * narrow
        if bound > bar or bound >= best:
            continue
        # Boxes grow as starts fall, so all starts between have this box too: costs differ by a constant in `after`.
        if _sum_spans(starts, bottom, box) == narrow:
            if blocks[block, _SPANS] != narrow:
                _find_line(starts, top, bottom, narrow, blocks[block])
            cost = blocks[block, _LINE] + after * narrow
            if cost < best:
                best, start = cost, blocks[block, _BY]
            continue
        for i in range(top, bottom + 1):
            cost = before[i] + (after - slot[i]) * _sum_spans(starts, i, box)
            if cost < best:
                best, start = cost, i
    scratch.rows[j, _COST], scratch.rows[j, _START] = best, starts[_ROW, start]
    return start


@compile_kernel
def _find_line(starts: Int, top: int, bottom: int, spans: int, block: Int) -> None:
    """Write the least of the lines of starts that all give the same box, and which it is."""
    block[_SPANS], block[_LINE], block[_BY] = spans, _INFINITY, top
    for i in range(top, bottom + 1):
        value = starts[_BEFORE, i] - spans * starts[_SLOT, i]
        if value < block[_LINE]:
            block[_LINE], block[_BY] = value, i
