"""Derives from the data where every subject was at every instant: what a trajectory-aware adversary knows.

Time is counted in slots of the dataset's time grid. Subjects are taken in batches, and of each subject only the windows
one of its fixes can reach, so memory does not grow with the data: a batch holds about `FIXES_PER_BATCH` fixes and as
many positions.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from dbanon.base import cores
from dbanon.base.trajectory import Bool, Float, Int, Trajectories

T = TypeVar("T")

FIXES_PER_BATCH = 1 << 17


class Timetable(NamedTuple):
    """The instants of a run and the windows they form."""

    grid_s: int  # length of a slot in seconds
    first: int  # the slot of the first instant
    step: int  # slots from one instant to the next
    count: int  # type: ignore[assignment]  # number of instants, at least 1; nobody calls the method of tuples
    length: int  # instants of a window, at most `count`; the last window may have fewer

    @property
    def windows(self) -> int:
        """Number of windows."""
        return -(-self.count // self.length)

    @property
    def step_s(self) -> int:
        """Seconds from one instant to the next."""
        return self.step * self.grid_s

    def start_s(self, instant: Int) -> Int:
        """Give the unix seconds at which instants begin."""
        return (self.first + instant * self.step) * self.grid_s

    def count_instants(self, window: Int) -> Int:
        """Give the number of instants of each window."""
        return np.minimum(self.length, self.count - window * self.length)

    def find_instant(self, t: Float) -> Int:
        """Find the instant whose ``[start, start + step_s)`` holds each time; -1 where there is none."""
        begin = float(self.first * self.grid_s)
        known = np.isfinite(t) & (t >= begin) & (t < begin + float(self.count * self.step_s))
        near = np.where(known, t, begin)
        instant = np.floor((near - begin) / self.step_s).astype(np.int64)
        instant -= near < self.start_s(instant)  # a quotient may have been rounded across the border
        instant += near >= self.start_s(instant + 1)
        return np.where(known & (instant >= 0) & (instant < self.count), instant, -1)


class Sighting(NamedTuple):
    """Some (subject, window) pairs, and where the subject is at each instant of the window."""

    # subject, window: distinct pairs; all pairs with a position at one instant or more come up once in a replay.
    subject: Int  # [p]
    window: Int  # [p]
    inside: Bool  # [p, length]: whether the window has this instant: all but the last window have all
    there: Bool  # [p, length]: whether the subject has a position
    x: Float  # [p, length]; x, y: the position; arbitrary where it has none
    y: Float  # [p, length]
    # before, after: index of the trajectories (into ``Trajectories.trajectory_id``) that supply the position; equal
    # where it is one.
    before: Int  # [p, length]
    after: Int  # [p, length]

    @property
    def seen(self) -> Bool:
        """Whether the subject has a position at one instant of the window or more."""
        return np.asarray(self.there.any(axis=1))

    @property
    def present(self) -> Bool:
        """Whether the subject has a position at every instant of the window."""
        return np.asarray((self.there | ~self.inside).all(axis=1))


def select_slots(data: Trajectories, first: int | None, end: int | None) -> Trajectories:
    """Keep the fixes in the slots from `first` to before `end` (None: no bound), and trajectories that have any."""
    slot = number_slots(data.t, data.grid_s)
    kept = (slot >= (slot.min(initial=0) if first is None else first)) & (
        slot < (slot.max(initial=0) + 1 if end is None else end)
    )
    owner = np.repeat(np.arange(len(data.trajectory_id)), np.diff(data.offset))[kept]
    left = np.bincount(owner, minlength=len(data.trajectory_id))
    return replace(
        data,
        trajectory_id=data.trajectory_id[left > 0],
        subject=data.subject[left > 0],
        offset=np.append(0, np.cumsum(left[left > 0])),
        t=data.t[kept],
        x=data.x[kept],
        y=data.y[kept],
        day=None if data.day is None else data.day[left > 0],
    )


def replay(data: Trajectories, timetable: Timetable, align: str, max_gap_s: int) -> Iterator[Sighting]:
    """Give the position of every subject at every instant.

    Parameters
    ----------
    align : {"last", "exact", "linear"}
    max_gap_s : int
        How long a fix counts (``last``), or how long a gap may be bridged (``linear``).

    Yields
    ------
    Sighting
        Sorted by (subject, window) within and across.

    Notes
    -----
    O(fixes + pairs x length) time beside sorting subjects.
    """
    for chosen in _cut_batches(data):
        yield from _find_sightings(data, chosen, timetable, align, max_gap_s)


def map_sightings(
    data: Trajectories, timetable: Timetable, align: str, max_gap_s: int, task: Callable[[Sighting], T]
) -> Iterator[T]:
    """Do a task for each sighting of a `replay`, on all cores: what it gives, in the order of the sightings."""

    def do_batch(chosen: Int) -> list[T]:
        return [task(sighting) for sighting in _find_sightings(data, chosen, timetable, align, max_gap_s)]

    for results in cores.map_each(do_batch, _cut_batches(data)):
        yield from results


def cut_slices(sizes: Int, limit: int) -> Iterator[tuple[int, int]]:
    """Cut ``range(len(sizes))`` where the sizes add up to `limit`; at least one item each."""
    # Kept true: the items before `low` were given, and `done` is the sum of their sizes.
    total, low, done = np.cumsum(sizes), 0, 0
    while low < len(sizes):
        high = max(int(np.searchsorted(total, done + limit, side="right")), low + 1)
        yield low, high
        low, done = high, int(total[high - 1])


def join_ranges(begin: Int, number: Int) -> Int:
    """Write one after the other the ranges ``begin[i], begin[i] + 1, ...`` of `number[i]` items each."""
    ends = np.cumsum(number)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(begin - (ends - number), number) + np.arange(total, dtype=np.int64)


def number_slots(t: Float, grid_s: int) -> Int:
    """Number the slot of each time, from 1970 UTC."""
    return np.floor(t / grid_s).astype(np.int64)


def find_end_slots(data: Trajectories) -> tuple[int, int]:
    """Find the slots of the first and the last fix; there is one."""
    first, last = number_slots(np.array([data.times.min(), data.times.max()]), data.grid_s).tolist()
    return first, last


def _cut_batches(data: Trajectories) -> Iterator[Int]:
    """Cut the trajectories, by subject, where about `FIXES_PER_BATCH` fixes of whole subjects are together."""
    order = np.argsort(data.subject, kind="stable")
    subject = data.subject[order]
    heads = np.flatnonzero(np.diff(subject, prepend=subject[:1] - 1))
    fixes = np.add.reduceat(np.diff(data.offset)[order], heads)
    ends = np.append(heads, len(order))
    # Batches hold whole subjects, so each (subject, window) is in one batch, and batches may run at once.
    for low, high in cut_slices(fixes, FIXES_PER_BATCH):
        yield order[ends[low] : ends[high]]


def _find_sightings(
    data: Trajectories, chosen: Int, timetable: Timetable, align: str, max_gap_s: int
) -> Iterator[Sighting]:
    """Give the positions of the subjects of chosen trajectories, about `FIXES_PER_BATCH` at a time."""
    from dbanon.attacks.shared import _positions  # Numba is slow to import

    # `exact` is `last` with a fix of age 0. The cap keeps sums of slots within int64.
    gap = 0 if align == "exact" else min(max_gap_s // data.grid_s, 1 << 53)
    subject, first, trajectory, t, x, y, ordered = _positions.gather_fixes(
        chosen, data.subject, data.offset, data.times, data.x, data.y
    )
    if not ordered:  # stable: ties stay in the order of the trajectories' ids
        order = np.lexsort((t, np.repeat(np.arange(len(subject)), np.diff(first))))
        trajectory, t, x, y = trajectory[order], t[order], x[order], y[order]
    fixes = _positions.Fixes(subject, first, trajectory, number_slots(t, data.grid_s), x, y)
    # Each pair (subject, window) comes once: it is given to the first fix of the subject that can serve it.
    served = _positions.find_windows(fixes, timetable, gap)
    for low, high in cut_slices(served.number, max(1, FIXES_PER_BATCH // timetable.length)):
        if served.number[low:high].any():
            yield _positions.find_positions(low, high, fixes, served, timetable, gap, align == "linear")
