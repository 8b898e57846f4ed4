"""Finds where people truly were at the times that a run is asked about, from the data and from whom its rows stand for.

Of a family whose rows hold at instants, the truth is the aligned positions at the instants of the rows; of the others,
the fixes that rows cover. It is only found at the times that are asked about, and never one person at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from dbanon.base.trajectory import Bool, Float, Int, Trajectories
from dbanon.methods.kernels import align
from dbanon.results.figures import Movements

_CUT_ROUNDS = 40
_MAX_CUT_PLACES = 100_000  # positions that say where people are


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Rows of a run: which record each is of, and from when until when it holds."""

    record: Int  # int64[n]
    since: Float  # float64[n]; since, until: unix seconds
    until: Float
    # geometries[s], int64[n]; shapes, shape: their distinct regions, and which of these each has; empty where rows hold
    # at instants
    shapes: NDArray[Any]
    shape: Int

    def select(self, chosen: Bool) -> "Rows":
        """Give some of the rows."""
        record, since, until = self.record[chosen], self.since[chosen], self.until[chosen]
        shape = self.shape[chosen] if len(self.shape) else self.shape
        return Rows(record=record, since=since, until=until, shapes=self.shapes, shape=shape)


@dataclass(frozen=True, kw_only=True, eq=False)
class Members:
    """Whose data each record carries: distinct pairs by record. int64[m] both; `trajectory` is an index of the data."""

    record: Int
    trajectory: Int

    @classmethod
    def from_pairs(cls, record: Int, trajectory: Int) -> "Members":
        """Put pairs in order, each once."""
        order = np.lexsort((trajectory, record))
        record, trajectory = record[order], trajectory[order]
        new = np.append(True, (np.diff(record) != 0) | (np.diff(trajectory) != 0))[: len(record)]
        return cls(record=record[new], trajectory=trajectory[new])

    def list_members(self, record: Int) -> tuple[Int, Int]:
        """List the members of some records: the place of the record among those given, and the trajectory."""
        low, high = (np.searchsorted(self.record, record, side) for side in ("left", "right"))
        place, at = _expand_ranges(low, high)
        return place, self.trajectory[at]


def number_groups(record: Int, trajectory: Int) -> tuple[Int, Int]:
    """Number groups of records with the very same members, which follow one another: the records, the group of each.

    `record` ascends, and `trajectory` within it. At one time, one member of both makes all of them the same.
    """
    records, first = np.unique(record, return_index=True)
    return records, np.cumsum(np.diff(trajectory[first], prepend=-1) != 0)


_NO_MEMBERS = Members.from_pairs(np.empty(0, np.int64), np.empty(0, np.int64))


class Truth:
    """Where the people of a dataset were.

    Parameters
    ----------
    data : Trajectories
    params : mapping
        Of a run: those of the alignment, where its rows hold at instants.
    members : Members
        Of the run, to find the people of its rows.
    """

    def __init__(self, data: Trajectories, params: Mapping[str, Any], members: Members = _NO_MEMBERS) -> None:
        self._data, self._params, self._members = data, params, members
        self._line: align.Timeline | None = None

    @property
    def _timeline(self) -> align.Timeline:
        if self._line is None:
            self._line = align.merge(self._data)
        return self._line

    def find_everybody(self, instants: Float) -> Movements:
        """Find everybody who has a position at some of the instants."""
        everyone = np.arange(len(self._timeline.subject))
        return self._place_people([(t, everyone) for t in instants.tolist()])

    def find_people(self, rows: Rows, instants: Float) -> Movements:
        """Find the people for whom rows stand at some of the instants."""
        line, order = self._timeline, np.argsort(rows.since, kind="stable")
        at = np.empty(int(line.subject.max(initial=0)) + 1, np.int64)
        at[line.subject] = np.arange(len(line.subject))
        since, longest = rows.since[order], float((rows.until - rows.since).max(initial=0))
        present = []
        for t in instants.tolist():
            low, high = np.searchsorted(since, t - longest, "left"), np.searchsorted(since, t, "right")
            then = order[low:high][rows.until[order[low:high]] > t]
            trajectory = self._members.list_members(np.unique(rows.record[then]))[1]
            present.append((t, at[np.unique(self._data.subject[trajectory])]))
        return self._place_people(present)

    def _place_people(self, options: list[tuple[float, Int]]) -> Movements:
        """Make movements of times and the people asked about at each, as places in the line."""
        params, line = self._params, self._timeline
        mode, gap = align.MODES[str(params.get("align", "last"))], int(params.get("max_gap_s", 300))
        parts = [np.empty((4, 0))]
        for t, who in options:
            instant = align.Instants(start=int(t), step_s=line.grid_s, count=1, mode=mode, max_gap_s=gap)
            x, y = (axis[:, 0] for axis in align.compute_positions(line, instant, who.astype(np.int32)))
            part = np.stack([line.subject[who], np.full(len(who), t), x, y])
            parts.append(part[:, ~np.isnan(x)])
        return _make_movements(*np.concatenate(parts, axis=1))

    def find_seen(self, spans: Float) -> Movements:
        """Give all fixes within spans."""
        trajectory = np.arange(len(self._data.trajectory_id))
        spans = _join_spans(spans)
        parts = [self._list_between(trajectory, *np.full((2, len(trajectory)), span[:, None]))[1] for span in spans]
        return self._take_fixes(np.concatenate([np.empty(0, np.int64), *parts]))

    def find_covered(self, rows: Rows) -> Movements:
        """Give the fixes that rows cover, each once."""
        row, trajectory = self._members.list_members(rows.record)
        pair, fix = self._list_between(trajectory, rows.since[row], rows.until[row])
        shapes = rows.shapes[rows.shape[row[pair]]]
        return self._take_fixes(fix[shapely.intersects_xy(shapes, self._data.x[fix], self._data.y[fix])])

    def _take_fixes(self, fix: Int) -> Movements:
        data, fix = self._data, np.unique(fix)
        person = data.subject[np.searchsorted(data.offset, fix, "right") - 1]
        return _make_movements(person, data.t[fix], data.x[fix], data.y[fix])

    def _list_between(self, trajectory: Int, since: Float, until: Float) -> tuple[Int, Int]:
        """List the fixes of trajectories from a time until before another: the place in `trajectory`, and the fix."""
        ends = self._data.offset[trajectory], self._data.offset[trajectory + 1]
        low, high = (_bisect(self._data.t, *ends, t) for t in (since, until))
        return _expand_ranges(low, high)


def _join_spans(spans: Float) -> Float:
    """Join spans that meet, so that few are left."""
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    reached = np.maximum.accumulate(spans[:, 1])
    first = np.flatnonzero(np.append(True, spans[1:, 0] > reached[:-1])[: len(spans)])
    last = np.append(first[1:], len(spans))[: len(first)] - 1
    return np.column_stack([spans[first, 0], reached[last]])


def _bisect(t: Float, begin: Int, end: Int, sought: Float) -> Int:
    """Find in each of many sorted stretches of an array the first place that is not before what is sought."""
    low, high = begin.copy(), end.copy()
    while (open_ := low < high).any():
        middle = (low + high) // 2
        later = open_ & (t[np.minimum(middle, len(t) - 1)] < sought)
        low = np.where(later, middle + 1, low)
        high = np.where(open_ & ~later, middle, high)
    return low


def _expand_ranges(low: NDArray[Any], high: NDArray[Any]) -> tuple[Int, Int]:
    """List the numbers of ranges, one after another: the place of the range, and the number."""
    size = np.maximum(high - low, 0)
    place = np.repeat(np.arange(len(low)), size)
    return place, np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size) + np.repeat(low, size)


def _make_movements(person: Float | Int, t: Float, x: Float, y: Float) -> Movements:
    """Put positions in order: by person, then time."""
    order = np.lexsort((t, person))
    return Movements(person=person[order].astype(np.int64), t=t[order], x=x[order], y=y[order])


def find_last(seen: Movements, moments: Float, near_s: float) -> Movements:
    """Find the last position of each person at moments, at most so many seconds old."""
    order, parts = np.argsort(seen.t, kind="stable"), [np.empty(0, np.int64)]
    ends = [np.searchsorted(seen.t[order], moments - since, "right") for since in (near_s, 0)]
    for low, high in zip(*ends, strict=True):
        some = np.sort(order[low:high])  # by person, then time
        parts.append(some[np.append(np.diff(seen.person[some]) != 0, True)[: len(some)]])
    last = np.concatenate(parts)
    return _make_movements(
        seen.person[last], np.repeat(moments, [len(part) for part in parts[1:]]), seen.x[last], seen.y[last]
    )


def find_window(seen: Movements, share: float = 0.95) -> tuple[float, float, float, float]:
    """Find a small box with a share of positions: forty times some are cut off where that makes the box smallest.

    Returns xmin, ymin, xmax and ymax in metres, which are infinite where there are no positions.
    """
    place = np.stack([seen.x, seen.y])[:, :: len(seen.x) // _MAX_CUT_PLACES + 1]
    each = int(place.shape[1] * (1 - share) / _CUT_ROUNDS)
    for _ in range(_CUT_ROUNDS if each else 0):
        sides = [
            (axis, sign * np.partition(sign * place[axis], each)[each], sign) for axis in (0, 1) for sign in (1, -1)
        ]
        kept = [place[:, sign * place[axis] >= sign * limit] for axis, limit, sign in sides]
        place = min(kept, key=lambda some: float(np.prod(np.ptp(some, axis=1) + 1)))
    (x0, y0), (x1, y1) = place.min(axis=1, initial=np.inf), place.max(axis=1, initial=-np.inf)
    return float(x0), float(y0), float(x1), float(y1)
