"""Computes positions of subjects at common instants.

The unit is the subject: the fixes of all its trajectories together, by time, then trajectory id. A position is made
from one or two fixes, and membership names every trajectory that supplied one. Where every subject has one trajectory
no fix is copied; else O(fixes) are held, and what is returned.
"""

from typing import Any, NamedTuple

import numpy as np

from dbanon.base import cores
from dbanon.base.errors import DataError, format_count
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Bool, Float, Int, Int32, Trajectories, freeze_arrays
from dbanon.methods.parsing import LATEST_S

LAST, EXACT, LINEAR = 0, 1, 2
_MIN_POSITIONS_PER_THREAD = 1 << 18

MODES = {"last": LAST, "exact": EXACT, "linear": LINEAR}


class Instants(NamedTuple):
    """The instants of one window, and how a position is found at each."""

    start: int  # first instant, unix seconds, a multiple of the dataset's `grid_s`
    step_s: int  # step_s, count: seconds between instants, and how many there are
    count: int  # type: ignore[assignment]  # the method of tuples, which nobody calls
    mode: int  # `LAST`, `EXACT` or `LINEAR`
    max_gap_s: int  # oldest fix that still gives a position (`LAST`), widest gap that is interpolated (`LINEAR`)


class Timeline(NamedTuple):
    """The fixes of a dataset by subject; read-only, also because kernels are compiled again for other arrays."""

    subject: Int  # [s]: distinct subject codes, ascending
    begin: Int  # [s]; begin, end: fixes of subject i are ``[begin[i], end[i])``, by (time, trajectory id)
    end: Int  # [s]
    t: Float  # unix seconds: [m], or those of each subject, where all have the same
    x: Float  # [m]; x, y: metres
    y: Float  # [m]
    # Index, in the dataset, of each fix's trajectory; where `is_single`, of each subject's.
    trajectory: Int32  # [m] or int32[s]
    is_single: bool  # every subject has exactly one trajectory
    grid_s: int  # length of the dataset's time slots


def demand_sane_times(data: Trajectories) -> None:
    """Raise `DataError` if there are fixes at times that cannot be unix seconds."""
    if data.fixes and max(-float(data.times.min()), float(data.times.max())) > LATEST_S:
        wild = int((np.abs(data.t) > LATEST_S).sum())
        raise DataError(
            f"Every time must be unix seconds before the year 5138. Got {format_count(wild, 'other')}. Load without "
            "those."
        )


def merge(data: Trajectories) -> Timeline:
    """Merge the fixes of each subject's trajectories; nothing is moved where every subject has one."""
    # Stable: trajectories come by id, so those of one subject stay in that order, which decides ties of time.
    by_subject = np.argsort(data.subject, kind="stable")
    in_order = data.subject[by_subject]
    first = np.flatnonzero(np.diff(in_order, prepend=in_order[:1] - 1))
    subject = in_order[first]
    trajectory = by_subject.astype(np.int32)
    if len(subject) == len(in_order):
        begin, end = data.offset[:-1][by_subject], data.offset[1:][by_subject]
        t, x, y, is_single = data.times, data.x, data.y, True
    else:
        length = np.diff(data.offset)[by_subject]
        trajectory = np.repeat(trajectory, length)
        ends = np.concatenate([[0], np.cumsum(length)])
        begin, end = ends[first], ends[np.append(first[1:], len(length))]
        # For each place in the new order, the fix that comes there: the runs of the trajectories, one after another.
        order = np.arange(len(data.t)) + np.repeat(data.offset[:-1][by_subject] - ends[:-1], length)
        _order_by_time(data.t, order, trajectory, begin, end)
        t, x, y, is_single = data.t[order], data.x[order], data.y[order], False
    return Timeline(*freeze_arrays((subject, begin, end, t, x, y, trajectory)), is_single, data.grid_s)


def find_reached_windows(line: Timeline, windows: list[Instants]) -> Bool:
    """Find the windows in which any fix can give a position, so that a fix of a wild time costs nothing."""
    first = windows[0]
    gap_s = 0 if first.mode == EXACT else first.max_gap_s
    # Each fix adds one where the windows it serves begin, and takes one away behind them: sums count fixes by window.
    change = np.zeros(len(windows) + 1, np.int64)
    _add_window_changes(line.t, line.grid_s, first.start, first.count * first.step_s, gap_s, change)
    return np.cumsum(change[:-1]) > 0


def survey(line: Timeline, instants: Instants, cell_m: float) -> tuple[Int, Int32, Float]:
    """Count the instants at which each subject has a position, and find the cells of those who have all.

    Returns
    -------
    count : int64[s]
        Instants with a position, of `instants.count`.
    present : int32[p]
        Indices into `line.subject` of the subjects with a position at every instant.
    extent : float64[4]
        Least and greatest cell of the present subjects: xmin, ymin, xmax, ymax; infinite where there are none.
    """
    count = np.empty(len(line.subject), np.int64)
    extents = [np.array([np.inf, np.inf, -np.inf, -np.inf])]

    def run_range(low: int, high: int) -> None:
        extent = extents[0].copy()
        _survey(line, instants, cell_m, low, high, np.empty((2, instants.count), np.int64), count, extent)
        extents.append(extent)

    cores.share_work(np.full(len(count), instants.count), run_range, _MIN_POSITIONS_PER_THREAD)
    each = np.array(extents)
    extent = np.concatenate([each[:, :2].min(axis=0), each[:, 2:].max(axis=0)])
    return count, np.flatnonzero(count == instants.count).astype(np.int32), extent


def compute_positions(line: Timeline, instants: Instants, who: Int32) -> tuple[Float, Float]:
    """Coordinates in metres of subjects at each instant, two float64[p, count]; NaN where there is none."""
    x, y = np.full((2, len(who), instants.count), np.nan)
    _fill_positions(line, instants, who, np.empty((2, instants.count), np.int64), x, y)
    return x, y


def compute_cells(line: Timeline, along: Float, instants: Instants, who: Int32, cell_m: float, least: float) -> Int32:
    """Cells, from `least` on, of subjects present at every instant, along `line.x` or `line.y`: int32[p, count].

    An axis at a time, so that a caller can give the positions along the first back before it asks for the other.
    """
    cells = np.empty((len(who), instants.count), np.int32)

    def run_range(low: int, high: int) -> None:
        scratch, some = np.empty((2, instants.count), np.int64), slice(low, high)
        _fill_cells(line, along, instants, who[some], cell_m, least, scratch, cells[some])

    cores.share_work(np.full(len(who), instants.count), run_range, _MIN_POSITIONS_PER_THREAD)
    return cells


def list_suppliers(line: Timeline, instants: Instants, who: Int32) -> tuple[Int, Int32]:
    """List every trajectory that gives a subject a position: (place in `who`, index of trajectory), distinct."""
    if line.is_single:
        return np.arange(len(who)), line.trajectory[who]
    scratch = np.empty((2, instants.count), np.int64)
    row, trajectory = np.empty(0, np.int64), np.empty(0, np.int32)
    # Counted first, written second, since a kernel that allocates costs time to compile.
    number = _write_suppliers(line, instants, who, scratch, row, trajectory)
    row, trajectory = np.empty(number, np.int64), np.empty(number, np.int32)
    _write_suppliers(line, instants, who, scratch, row, trajectory)
    return row, trajectory


# Kernels allocate nothing, call nothing of NumPy's and take few types: each of these costs a first run time to compile.


@compile_kernel
def _order_by_time(t: Float, order: Int, trajectory: Int32, begin: Int, end: Int) -> None:
    """Sort both by t within each subject; they come by trajectory, so a stable sort leaves ties by trajectory id."""
    for i in range(len(begin)):
        for f in range(begin[i] + 1, end[i]):
            if t[order[f]] < t[order[f - 1]]:
                _sort_by_heap(t, order, trajectory, begin[i], end[i])
                break


@compile_kernel
def _sort_by_heap(t: Float, order: Int, trajectory: Int32, lo: int, hi: int) -> None:
    """Sort ``[lo, hi)`` by (t, trajectory); fixes of one trajectory have distinct times, so there are no ties."""
    n = hi - lo
    for heaped in range(n // 2 - 1, -n, -1):
        root, size = heaped, n
        if heaped < 0:  # a heap: the greatest goes behind the rest
            root, size = 0, n + heaped
            order[lo], order[lo + size] = order[lo + size], order[lo]
            trajectory[lo], trajectory[lo + size] = trajectory[lo + size], trajectory[lo]
        while 2 * root + 1 < size:
            child = 2 * root + 1
            if child + 1 < size and _is_earlier(t, order, trajectory, lo + child, lo + child + 1):
                child += 1
            if not _is_earlier(t, order, trajectory, lo + root, lo + child):
                break
            a, b = lo + root, lo + child
            order[a], order[b] = order[b], order[a]
            trajectory[a], trajectory[b] = trajectory[b], trajectory[a]
            root = child


@compile_kernel
def _is_earlier(t: Float, order: Int, trajectory: Int32, a: int, b: int) -> bool:
    ta, tb = t[order[a]], t[order[b]]
    return bool(ta < tb or (ta == tb and trajectory[a] < trajectory[b]))


@compile_kernel
def _floor_to_slot(t: float, grid: int) -> Any:
    return np.int64(np.floor(t / grid)) * grid


@compile_kernel
def _locate(line: Timeline, instants: Instants, subject: int, scratch: Int) -> int:
    """Find the fixes that give one subject's position at each instant; the number of instants that have one.

    ``scratch[0]`` gets the first fix, -1 where there is no position, ``scratch[1]`` the second, -1 where one gives it.
    """
    t, grid, lo, hi = line.t, line.grid_s, line.begin[subject], line.end[subject]
    shift = lo - lo % len(t)  # 0 where each fix has a time of its own
    start, step, count, mode, gap = instants
    low, high = lo, hi
    # Binary search for the first fix with a slot after the start: those of [lo, low) have none, of [high, hi) all.
    while low < high:
        middle = (low + high) // 2
        if _floor_to_slot(t[middle - shift], grid) <= start:
            low = middle + 1
        else:
            high = middle
    # Kept true: fixes before p have slots up to the last instant looked at, at first the start; `before` is the slot of
    # fix p - 1.
    p = low
    before = _floor_to_slot(t[p - 1 - shift], grid) if p > lo else start
    seen = 0
    # Both indices only grow from instant to instant: O(fixes in the window + count).
    for j in range(count):
        at = start + j * step
        after = before
        while p < hi:
            after = _floor_to_slot(t[p - shift], grid)
            if after > at:
                break
            before = after
            p += 1
        scratch[0, j] = -1
        scratch[1, j] = -1
        # p - 1 is the latest fix at or before the instant, p the first one after it.
        if p == lo:
            continue
        # A fix of the slot itself serves in every mode, an older one for `gap` seconds (LAST) or with the next (LINEAR)
        age = at - before
        if age == 0 or (mode == LAST and age <= gap):
            scratch[0, j] = p - 1
            seen += 1
        elif mode == LINEAR and p < hi and after - before <= gap:
            scratch[0, j] = p - 1
            scratch[1, j] = p
            seen += 1
    return seen


@compile_kernel
def _interpolate(line: Timeline, v: Float, a: int, b: int, at: int) -> Any:
    """Coordinate at an instant: of fix a, or on the straight line from a to b, in exactly the form the attack uses."""
    if b < 0:
        return v[a]
    t = line.t
    slot, after = _floor_to_slot(t[a % len(t)], line.grid_s), _floor_to_slot(t[b % len(t)], line.grid_s)
    return v[a] + (v[b] - v[a]) * ((at - slot) / (after - slot))


@compile_kernel
def _add_window_changes(t: Float, grid: int, start: int, width: int, gap: int, change: Int) -> None:
    """Add differences, from window to window, of how many fixes reach it."""
    windows = len(change) - 1
    for p in range(len(t)):
        slot = _floor_to_slot(t[p], grid)
        # It may serve instants from its slot until `gap` later; clipped, so that a wild time costs no more than others.
        begin, end = (slot - start) // width, (slot + gap - start) // width
        if end >= 0 and begin < windows:
            change[max(begin, 0)] += 1
            change[min(end + 1, windows)] -= 1


@compile_kernel
def _survey(
    line: Timeline, instants: Instants, cell_m: float, low: int, high: int, scratch: Int, count: Int, extent: Float
) -> None:
    for i in range(low, high):
        count[i] = _locate(line, instants, i, scratch)
        # A subject absent at any instant is in no bundle, so its cells must not widen the root.
        if count[i] < instants.count:
            continue
        for j in range(instants.count):
            a, b, at = scratch[0, j], scratch[1, j], instants.start + j * instants.step_s
            cx = np.floor(_interpolate(line, line.x, a, b, at) / cell_m)
            cy = np.floor(_interpolate(line, line.y, a, b, at) / cell_m)
            extent[0] = min(extent[0], cx)
            extent[1] = min(extent[1], cy)
            extent[2] = max(extent[2], cx)
            extent[3] = max(extent[3], cy)


@compile_kernel
def _fill_positions(line: Timeline, instants: Instants, who: Int32, scratch: Int, out_x: Float, out_y: Float) -> None:
    for i in range(len(who)):
        _locate(line, instants, who[i], scratch)
        for j in range(instants.count):
            a, b, at = scratch[0, j], scratch[1, j], instants.start + j * instants.step_s
            if a >= 0:
                out_x[i, j] = _interpolate(line, line.x, a, b, at)
                out_y[i, j] = _interpolate(line, line.y, a, b, at)


@compile_kernel
def _fill_cells(
    line: Timeline, along: Float, instants: Instants, who: Int32, cell_m: float, least: float, scratch: Int, out: Int32
) -> None:
    for i in range(len(who)):
        _locate(line, instants, who[i], scratch)
        for j in range(instants.count):
            a, b, at = scratch[0, j], scratch[1, j], instants.start + j * instants.step_s
            out[i, j] = np.int32(np.floor(_interpolate(line, along, a, b, at) / cell_m) - least)


@compile_kernel
def _write_suppliers(line: Timeline, instants: Instants, who: Int32, scratch: Int, row: Int, which: Int32) -> int:
    """Count them, and write them into `row` and `which` where there is room for any."""
    trajectory, number = line.trajectory, 0
    for i in range(len(who)):
        _locate(line, instants, who[i], scratch)
        # Two fixes an instant, in the order of time; a trajectory counts at its first.
        for place in range(2 * instants.count):
            f = scratch[place % 2, place // 2]
            known = f < 0
            for q in range(place - 1, -1, -1):  # the latest first: most often it is that one
                g = scratch[q % 2, q // 2]
                if known or (g >= 0 and trajectory[g] == trajectory[f]):
                    known = True
                    break
            if not known:
                if len(row):
                    row[number], which[number] = i, trajectory[f]
                number += 1
    return number
