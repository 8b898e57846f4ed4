"""Positions of subjects at common instants.

The unit is the subject: the fixes of all its trajectories together, by time, then trajectory id. A position is
*located* by the one or two fixes it is made from, so that membership can name every trajectory that supplied one. No
memory beyond O(fixes) is held between windows, and O(subjects located x instants) within one.
"""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from dbanon.trajectory import Float, Int, Trajectories, _freeze

LAST, EXACT, LINEAR = 0, 1, 2
MODES = {"last": LAST, "exact": EXACT, "linear": LINEAR}


@dataclass(frozen=True, kw_only=True)
class Instants:
    """The instants of one window, and how a position is found at each.

    Attributes
    ----------
    start : int
        First instant, unix seconds, a multiple of the dataset's `grid_s`.
    step_s, count : int
        Seconds between instants, and how many there are.
    mode : int
        `LAST`, `EXACT` or `LINEAR`.
    max_gap_s : int
        Oldest fix that still gives a position (`LAST`), widest gap that is interpolated (`LINEAR`).
    """

    start: int
    step_s: int
    count: int
    mode: int
    max_gap_s: int

    @property
    def key(self) -> tuple[int, int, int, int, int]:
        """The attributes in the order the kernels take them."""
        return self.start, self.step_s, self.count, self.mode, self.max_gap_s


@dataclass(frozen=True, kw_only=True, eq=False)
class Timeline:
    """The fixes of a dataset merged by subject.

    Attributes
    ----------
    subject : int64[s]
        Distinct subject codes, ascending.
    offset : int64[s + 1]
        Fixes of subject i are ``[offset[i], offset[i + 1])``, by (time, trajectory id).
    slot : int64[m]
        Start of each fix's time slot, unix seconds.
    x, y : float64[m]
        Metres.
    trajectory : int32[m]
        Index of the fix's trajectory in the dataset.
    single : bool
        Every subject has exactly one trajectory.
    """

    subject: Int
    offset: Int
    slot: Int
    x: Float
    y: Float
    trajectory: NDArray[np.int32]
    single: bool

    def __post_init__(self) -> None:
        _freeze(self)  # also because kernels are compiled once for arrays that may be written to, once for others


def merge(data: Trajectories) -> Timeline:
    """Merge the fixes of each subject's trajectories; linear unless trajectories of one subject overlap in time."""
    by_subject = np.argsort(data.subject, kind="stable")
    length = np.diff(data.offset)[by_subject]
    trajectory = np.repeat(by_subject.astype(np.int32), length)
    subject, first = np.unique(data.subject[by_subject], return_index=True)
    ends = np.concatenate([[0], np.cumsum(length)])
    offset = np.concatenate([ends[:-1][first], ends[-1:]]).astype(np.int64)
    t, x, y = data.t, data.x, data.y
    single = len(subject) == len(data.subject)
    if not (single and (np.diff(by_subject) == 1).all()):
        order = np.arange(len(t)) + np.repeat(data.offset[:-1][by_subject] - ends[:-1], length)
        if not single:
            _order_by_time(t, order, trajectory, offset)
        t, x, y = t[order], x[order], y[order]
    slot = np.floor(t / data.grid_s).astype(np.int64) * data.grid_s
    return Timeline(subject=subject, offset=offset, slot=slot, x=x, y=y, trajectory=trajectory, single=single)


@dataclass(frozen=True, kw_only=True, eq=False)
class Located:
    """The fixes that give some subjects' positions at the instants of one window.

    Attributes
    ----------
    who : int32[p]
        Indices into the timeline's `subject`.
    first, second : int32[p, count]
        Indices of fixes; `first` is -1 where the subject has no position, `second` where one fix gives it.
    """

    who: NDArray[np.int32]
    first: NDArray[np.int32]
    second: NDArray[np.int32]


def reached(line: Timeline, windows: list[Instants]) -> NDArray[np.bool_]:
    """Tell which of consecutive windows any fix can give a position in, so that a fix of a wild time costs nothing."""
    first = windows[0]
    gap_s = 0 if first.mode == EXACT else first.max_gap_s
    return np.cumsum(_reached(line.slot, first.start, first.count * first.step_s, len(windows), gap_s)) > 0


def survey(line: Timeline, instants: Instants, cell_m: float) -> tuple[Int, NDArray[np.int32], Float]:
    """Count the instants at which each subject has a position, and find the cells of those who have all.

    Returns
    -------
    found : int64[s]
        Instants with a position, of `instants.count`.
    present : int32[p]
        Indices into `line.subject` of the subjects with a position at every instant.
    extent : float64[4]
        Least and greatest cell of the present subjects: xmin, ymin, xmax, ymax; infinite where there are none.
    """
    found, extent = _survey(line.slot, line.offset, line.x, line.y, *instants.key, cell_m)
    return found, np.flatnonzero(found == instants.count).astype(np.int32), extent


def locate(line: Timeline, instants: Instants, who: NDArray[np.int32]) -> Located:
    """Find the fixes that give each subject's position at each instant."""
    first, second = _locate_all(line.slot, line.offset, *instants.key, who)
    return Located(who=who, first=first, second=second)


def positions(line: Timeline, instants: Instants, at: Located) -> tuple[Float, Float]:
    """Coordinates in metres at each instant, two float64[p, count]; NaN where there is none."""
    x, y = _positions(line.slot, line.x, line.y, instants.start, instants.step_s, at.first, at.second)
    return x, y


def cells(
    line: Timeline, instants: Instants, at: Located, cell_m: float, root: tuple[float, float]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Cells relative to the cell `root` at each instant, every one of which must be located: two int32[p, count]."""
    x, y = _cells(line.slot, line.x, line.y, instants.start, instants.step_s, at.first, at.second, cell_m, *root)
    return x, y


def suppliers(line: Timeline, at: Located) -> tuple[Int, NDArray[np.int32]]:
    """List every trajectory that gave a subject a position: (row of `at.who`, index of trajectory), distinct."""
    if line.single:
        return np.arange(len(at.who)), line.trajectory[line.offset[:-1][at.who]]
    row, trajectory = _suppliers(line.trajectory, at.first, at.second)
    return row, trajectory


@numba.njit(cache=True)
def _order_by_time(t: Any, order: Any, trajectory: Any, offset: Any) -> None:
    """Sort both by t within each subject; they come by trajectory, so a stable sort leaves ties by trajectory id."""
    for i in range(len(offset) - 1):
        lo, hi = offset[i], offset[i + 1]
        for f in range(lo + 1, hi):
            if t[order[f]] < t[order[f - 1]]:
                by_time = np.argsort(t[order[lo:hi]], kind="mergesort")
                order[lo:hi] = order[lo:hi][by_time]
                trajectory[lo:hi] = trajectory[lo:hi][by_time]
                break


@numba.njit(cache=True)
def _locate(
    slot: Any, lo: Any, hi: Any, start: Any, step: Any, count: Any, mode: Any, gap: Any, first: Any, second: Any
) -> Any:
    """Locate one subject's positions into `first` and `second`; the number of instants that have one."""
    found = 0
    p = lo + np.searchsorted(slot[lo:hi], start, side="right")
    for j in range(count):
        t = start + j * step
        while p < hi and slot[p] <= t:
            p += 1
        first[j] = -1
        second[j] = -1
        # p - 1 is the latest fix at or before t, p the first one after it.
        if p == lo:
            continue
        age = t - slot[p - 1]
        if age == 0 or (mode == LAST and age <= gap):
            first[j] = p - 1
            found += 1
        elif mode == LINEAR and p < hi and slot[p] - slot[p - 1] <= gap:
            first[j] = p - 1
            second[j] = p
            found += 1
    return found


@numba.njit(cache=True)
def _reached(slot: Any, start: Any, width: Any, windows: Any, gap: Any) -> Any:
    """Differences, from window to window, of how many fixes reach it."""
    change = np.zeros(windows + 1, np.int64)
    for s in slot:
        begin, end = (s - start) // width, (s + gap - start) // width
        if end >= 0 and begin < windows:
            change[max(begin, 0)] += 1
            change[min(end + 1, windows)] -= 1
    return change[:windows]


@numba.njit(cache=True)
def _between(slot: Any, v: Any, a: Any, b: Any, t: Any) -> Any:
    """Coordinate at t: of fix a, or on the straight line from a to b, in exactly the form the attack uses."""
    if b < 0:
        return v[a]
    return v[a] + (v[b] - v[a]) * ((t - slot[a]) / (slot[b] - slot[a]))


@numba.njit(cache=True)
def _survey(
    slot: Any, offset: Any, x: Any, y: Any, start: Any, step: Any, count: Any, mode: Any, gap: Any, cell_m: Any
) -> Any:
    found = np.zeros(len(offset) - 1, np.int64)
    extent = np.array([np.inf, np.inf, -np.inf, -np.inf])
    first = np.empty(count, np.int32)
    second = np.empty(count, np.int32)
    for i in range(len(offset) - 1):
        found[i] = _locate(slot, offset[i], offset[i + 1], start, step, count, mode, gap, first, second)
        if found[i] < count:
            continue
        for j in range(count):
            t = start + j * step
            cx = np.floor(_between(slot, x, first[j], second[j], t) / cell_m)
            cy = np.floor(_between(slot, y, first[j], second[j], t) / cell_m)
            extent[0] = min(extent[0], cx)
            extent[1] = min(extent[1], cy)
            extent[2] = max(extent[2], cx)
            extent[3] = max(extent[3], cy)
    return found, extent


@numba.njit(cache=True)
def _locate_all(slot: Any, offset: Any, start: Any, step: Any, count: Any, mode: Any, gap: Any, who: Any) -> Any:
    first = np.empty((len(who), count), np.int32)
    second = np.empty((len(who), count), np.int32)
    for i in range(len(who)):
        s = who[i]
        _locate(slot, offset[s], offset[s + 1], start, step, count, mode, gap, first[i], second[i])
    return first, second


@numba.njit(cache=True)
def _positions(slot: Any, x: Any, y: Any, start: Any, step: Any, first: Any, second: Any) -> Any:
    out_x = np.full(first.shape, np.nan)
    out_y = np.full(first.shape, np.nan)
    for i in range(first.shape[0]):
        for j in range(first.shape[1]):
            a, b = first[i, j], second[i, j]
            if a >= 0:
                out_x[i, j] = _between(slot, x, a, b, start + j * step)
                out_y[i, j] = _between(slot, y, a, b, start + j * step)
    return out_x, out_y


@numba.njit(cache=True)
def _cells(
    slot: Any, x: Any, y: Any, start: Any, step: Any, first: Any, second: Any, cell_m: Any, root_x: Any, root_y: Any
) -> Any:
    out_x = np.empty(first.shape, np.int32)
    out_y = np.empty(first.shape, np.int32)
    for i in range(first.shape[0]):
        for j in range(first.shape[1]):
            a, b, t = first[i, j], second[i, j], start + j * step
            out_x[i, j] = np.floor(_between(slot, x, a, b, t) / cell_m) - root_x
            out_y[i, j] = np.floor(_between(slot, y, a, b, t) / cell_m) - root_y
    return out_x, out_y


@numba.njit(cache=True)
def _suppliers(trajectory: Any, first: Any, second: Any) -> Any:
    rows, which = [np.int64(0) for _ in range(0)], [np.int32(0) for _ in range(0)]
    for i in range(first.shape[0]):
        begin = len(which)
        for j in range(first.shape[1]):
            for f in (first[i, j], second[i, j]):
                if f < 0:
                    continue
                known = False
                for q in range(len(which) - 1, begin - 1, -1):
                    if which[q] == trajectory[f]:
                        known = True
                        break
                if not known:
                    rows.append(np.int64(i))
                    which.append(trajectory[f])
    return np.array(rows, np.int64), np.array(which, np.int32)
