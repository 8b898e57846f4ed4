"""Derives from the data where every subject was at every instant: what a trajectory-aware adversary knows.

Time is counted in slots of the dataset's time grid. Subjects are taken in batches, and of each subject only the windows
one of its fixes can reach, so memory does not grow with the data: a batch holds about `ELEMENTS` fixes and as many
positions.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.trajectory import Float, Int, Trajectories

Bool = NDArray[np.bool_]

ELEMENTS = 1 << 17
_KEYS = 1 << 62


@dataclass(frozen=True, kw_only=True)
class Timetable:
    """The instants of a run and the windows they form.

    Attributes
    ----------
    grid_s : int
        Length of a slot in seconds.
    first : int
        The slot of the first instant.
    step : int
        Slots from one instant to the next.
    count : int
        Number of instants, at least 1.
    length : int
        Instants of a window, at most `count`; the last window may have fewer.
    """

    grid_s: int
    first: int
    step: int
    count: int
    length: int

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

    def instants(self, window: Int) -> Int:
        """Give the number of instants of each window."""
        return np.minimum(self.length, self.count - window * self.length)

    def instant(self, t: Float) -> Int:
        """Find the instant whose ``[start, start + step_s)`` holds each time; -1 where there is none."""
        begin = float(self.first * self.grid_s)
        known = np.isfinite(t) & (t >= begin) & (t < begin + float(self.count * self.step_s))
        near = np.where(known, t, begin)
        found = np.floor((near - begin) / self.step_s).astype(np.int64)
        found -= near < self.start_s(found)  # a quotient may have been rounded across the border
        found += near >= self.start_s(found + 1)
        return np.where(known & (found >= 0) & (found < self.count), found, -1)


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """Some (subject, window) pairs, and where the subject is at each instant of the window.

    Attributes
    ----------
    subject, window : int64[p]
        Distinct pairs; all pairs with a position at one instant or more come up once in a replay.
    inside : bool[p, length]
        Whether the window has this instant: all but the last window have all.
    there : bool[p, length]
        Whether the subject has a position.
    x, y : float64[p, length]
        The position; arbitrary where it has none.
    before, after : int64[p, length]
        Index of the trajectories (into ``Trajectories.trajectory_id``) that supply the position; equal where it is one.
    """

    subject: Int
    window: Int
    inside: Bool
    there: Bool
    x: Float
    y: Float
    before: Int
    after: Int

    @property
    def seen(self) -> Bool:
        """Whether the subject has a position at one instant of the window or more."""
        return np.asarray(self.there.any(axis=1))

    @property
    def present(self) -> Bool:
        """Whether the subject has a position at every instant of the window."""
        return np.asarray((self.there | ~self.inside).all(axis=1))


@dataclass(frozen=True, kw_only=True)
class _Fixes:
    """All fixes of some subjects, sorted by (subject, time, trajectory); `owner` counts the batch's subjects from 0."""

    subject: Int
    first: Int
    owner: Int
    slot: Int
    x: Float
    y: Float
    trajectory: Int


@dataclass(frozen=True, kw_only=True)
class _Alignment:
    """How a fix serves an instant: alone for `gap` slots, or with the next one if it is `gap` slots away at most."""

    linear: bool
    gap: int


def within(data: Trajectories, first: int | None, end: int | None) -> Trajectories:
    """Keep the fixes in the slots from `first` to before `end` (None: no bound), and trajectories that have any."""
    slot = slots(data.t, data.grid_s)
    kept = (slot >= (slot.min(initial=0) if first is None else first)) & (
        slot < (slot.max(initial=0) + 1 if end is None else end)
    )
    owner = np.repeat(np.arange(len(data.trajectory_id)), np.diff(data.offset))[kept]
    left = np.bincount(owner, minlength=len(data.trajectory_id))
    return Trajectories(
        trajectory_id=data.trajectory_id[left > 0],
        subject=data.subject[left > 0],
        offset=np.append(0, np.cumsum(left[left > 0])),
        t=data.t[kept],
        x=data.x[kept],
        y=data.y[kept],
        srid=data.srid,
        grid_m=data.grid_m,
        grid_s=data.grid_s,
        day=None if data.day is None else data.day[left > 0],
    )


def replay(data: Trajectories, timetable: Timetable, align: str, max_gap_s: int) -> Iterator[Sighting]:
    """Give the position of every subject at every instant.

    Parameters
    ----------
    data : Trajectories
    timetable : Timetable
    align : {"last", "exact", "linear"}
    max_gap_s : int
        How long a fix counts (``last``), or how long a gap may be bridged (``linear``).

    Yields
    ------
    Sighting
        Sorted by (subject, window) within and across.

    Notes
    -----
    O((fixes + pairs x length) x log batch) time.
    """
    gap = 0 if align == "exact" else min(max_gap_s // data.grid_s, 1 << 53)
    # Each pair (subject, window) comes once: `_reach` gives it to the first fix of the subject that can serve it.
    for fixes in _batches(data):
        begin, number = _reach(fixes, timetable, gap)
        for low, high in slices(number, max(1, ELEMENTS // timetable.length)):
            pairs = number[low:high]
            if pairs.any():
                owner = np.repeat(fixes.owner[low:high], pairs)
                window = runs(begin[low:high], pairs)
                yield _sighting(fixes, owner, window, timetable, _Alignment(linear=align == "linear", gap=gap))


def slices(sizes: Int, limit: int, most: int = _KEYS) -> Iterator[tuple[int, int]]:
    """Cut ``range(len(sizes))`` where the sizes add up to `limit` or the items to `most`; at least one item each."""
    # Kept true: the items before `low` were given, and `done` is the sum of their sizes.
    total, low, done = np.cumsum(sizes), 0, 0
    while low < len(sizes):
        high = int(np.searchsorted(total, done + limit, side="right"))
        high = min(max(high, low + 1), low + most)
        yield low, high
        low, done = high, int(total[high - 1])


def runs(begin: Int, number: Int) -> Int:
    """Write one after the other the ranges ``begin[i], begin[i] + 1, ...`` of `number[i]` items each."""
    ends = np.cumsum(number)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(begin - (ends - number), number) + np.arange(total, dtype=np.int64)


def slots(t: Float, grid_s: int) -> Int:
    """Number the slot of each time, from 1970 UTC."""
    return np.floor(t / grid_s).astype(np.int64)


def _batches(data: Trajectories) -> Iterator[_Fixes]:
    order = np.argsort(data.subject, kind="stable")
    subject = data.subject[order]
    heads = np.flatnonzero(np.diff(subject, prepend=subject[:1] - 1))
    fixes = np.add.reduceat(np.diff(data.offset)[order], heads)
    extent = int(slots(data.t.max(keepdims=True), data.grid_s)[0] - slots(data.t.min(keepdims=True), data.grid_s)[0])
    ends = np.append(heads, len(order))
    for low, high in slices(fixes, ELEMENTS, max(1, _KEYS // (extent + 2))):  # so that keys of slots fit 64 bits
        yield _gather(data, order[ends[low] : ends[high]])


def _gather(data: Trajectories, chosen: Int) -> _Fixes:
    length = data.offset[chosen + 1] - data.offset[chosen]
    index = runs(data.offset[chosen], length)
    trajectory = np.repeat(chosen, length)
    t = data.t[index]
    subject, owner = np.unique(data.subject[chosen], return_inverse=True)
    owner = np.repeat(owner, length)
    if ((np.diff(t) < 0) & (np.diff(owner) == 0)).any():  # trajectories of one subject overlap in time
        order = np.lexsort((t, owner))  # stable: ties stay in the order of the trajectories' ids
        index, trajectory, t = index[order], trajectory[order], t[order]
    return _Fixes(
        subject=subject,
        first=np.searchsorted(owner, np.arange(len(subject))),
        owner=owner,
        slot=slots(t, data.grid_s),
        x=data.x[index],
        y=data.y[index],
        trajectory=trajectory,
    )


def _reach(fixes: _Fixes, timetable: Timetable, gap: int) -> tuple[Int, Int]:
    """For each fix the windows it can serve and no earlier fix of its subject can: the first, and how many."""
    # The first instant not before the fix (rounded up), and the last one within `gap` of it: what it may serve.
    low = np.maximum(-((timetable.first - fixes.slot) // timetable.step), 0)
    high = np.minimum((fixes.slot + gap - timetable.first) // timetable.step, timetable.count - 1)
    serves = np.flatnonzero(low <= high)
    begin, last = low[serves] // timetable.length, high[serves] // timetable.length
    owner = fixes.owner[serves]
    # Fixes come by subject and time, so `last` grows: begin behind the windows of the fix before, of the same subject.
    begin[1:] = np.maximum(begin[1:], np.where(owner[1:] == owner[:-1], last[:-1] + 1, 0))
    first, number = np.zeros((2, len(fixes.slot)), dtype=np.int64)
    first[serves], number[serves] = begin, np.maximum(last - begin + 1, 0)
    return first, number


def _sighting(fixes: _Fixes, owner: Int, window: Int, timetable: Timetable, alignment: _Alignment) -> Sighting:
    instant = window[:, None] * timetable.length + np.arange(timetable.length)
    inside = instant < timetable.count
    at = timetable.first + instant * timetable.step
    # An index before the subject's own first fix is one of another subject: it has none so early.
    index = _latest(fixes, owner, at)
    there = inside & (index >= fixes.first[owner][:, None])
    before = after = np.maximum(index, 0)
    if alignment.linear:
        after, served, x, y = _between(fixes, before, at, alignment.gap)
    else:
        served, x, y = at - fixes.slot[before] <= alignment.gap, fixes.x[before], fixes.y[before]
    return Sighting(
        subject=fixes.subject[owner],
        window=window,
        inside=inside,
        there=there & served,
        x=x,
        y=y,
        before=fixes.trajectory[before],
        after=fixes.trajectory[after],
    )


def _latest(fixes: _Fixes, owner: Int, at: Int) -> Int:
    """Index of the last fix of the owner or of an earlier subject with a slot not after `at`; -1 if there is none."""
    low, high = int(fixes.slot.min()), int(fixes.slot.max())
    span = high - low + 2
    # One sorted key for (owner, slot), so that one search serves all owners; slots sought are clipped to the span.
    key = fixes.owner * span + (fixes.slot - low + 1)
    sought = owner[:, None] * span + np.clip(at - low + 1, 0, span - 1)
    return np.searchsorted(key, sought.ravel(), side="right").reshape(sought.shape) - 1


def _between(fixes: _Fixes, before: Int, at: Int, gap: int) -> tuple[Int, Bool, Float, Float]:
    """Interpolate linearly between the last fix not after `at` and the first after it, where there is one."""
    slot = fixes.slot[before]
    following = np.minimum(before + 1, len(fixes.slot) - 1)
    length = fixes.slot[following] - slot
    # Only between two fixes of one subject, strictly, and no longer apart than `gap`.
    bridged = (fixes.owner[following] == fixes.owner[before]) & (slot < at) & (at - slot < length) & (length <= gap)
    after = np.where(bridged, following, before)
    share = (at - slot) / np.where(bridged, length, 1)
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow is a position in no cloak
        x = np.where(bridged, fixes.x[before] + (fixes.x[after] - fixes.x[before]) * share, fixes.x[before])
        y = np.where(bridged, fixes.y[before] + (fixes.y[after] - fixes.y[before]) * share, fixes.y[before])
    return after, (slot == at) | bridged, x, y
