"""Who is merged with whom: the cheapest pair first, until every group has k people (Algorithm 2, the outer loop)."""

import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, count

import numpy as np

from dbanon.base import cores
from dbanon.base.kernels import compile_kernel
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.base.trajectory import Float, Int, freeze_arrays
from dbanon.methods.semantic import _losses, _optimum
from dbanon.methods.semantic._losses import Scale, Track
from dbanon.methods.semantic._points import Units

MAX_ALL_PAIRS_GROUPS = 50
"""Up to so many units the loss of every pair is computed, of more that of candidates."""

CANDIDATES_PER_UNIT = 16
"""For so many others of each unit the loss is computed where it is not of all."""

_SAMPLED_POINTS = 12  # points of a trajectory that candidates are found by
_MIN_PAIRS_PER_THREAD = 1 << 8
_MAX_TASKS = 64  # each carries all points
_MIN_UNITS_PER_TASK, _MIN_PAIRS_PER_TASK = 1 << 8, 1 << 12
_THREADS_PER_TASK = 4  # that a task keeps busy by itself


@dataclass(kw_only=True)
class Group:
    """Units whose records are alike."""

    units: list[int]
    people: frozenset[int]  # their subjects
    track: Track  # their common rows; those of a group with fewer than k people are merged further


Edge = tuple[float, int, int, int, Group, Group]
"""What two groups lose, their places in the order of the run, a number of its own, and both."""


def form_groups(units: Units, area: Int, scale: Scale, k: int, tasks: Tasks = SERIAL_TASKS) -> list[Group]:
    """Merge the pair that loses least, again and again, until every group has k people.

    Parameters
    ----------
    units : Units
        In the order of the run; of at least k subjects.
    area : int64[a]
        Of each atom, square millimetres.
    tasks : Tasks
        Looks for candidates, and computes what they lose.

    Returns
    -------
    list of Group
        By their first unit.
    """
    return _Grouping(units, area, scale, k, tasks).merge_all()


def prepare(units: Units, area: Int, scale: Scale) -> None:
    """Compile what only many units need."""
    _Grouping(units, area, scale, 2, SERIAL_TASKS).find_candidates(np.arange(len(units)))


class _Grouping:
    def __init__(self, units: Units, area: Int, scale: Scale, k: int, tasks: Tasks) -> None:
        self._units, self._area, self._scale, self._k, self._tasks = units, area, scale, k, tasks
        self._single = freeze_arrays(Track(units.start, units.end, np.arange(len(units.start) + 1), units.place))
        self._open = {
            i: Group(units=[i], people=frozenset([subject]), track=_select_unit(self._single, units.offset, i))
            for i, subject in enumerate(units.subject.tolist())
        }
        self._done: list[Group] = []
        self._near: dict[int, set[int]] = defaultdict(set)
        self._numbers = count()

    def merge_all(self) -> list[Group]:
        if self._k == 1:
            self._done, self._open = list(self._open.values()), {}
        edges = self._find_edges(np.array(sorted(self._open), np.int64))
        while edges:
            heapq.heapify(edges)
            self._take(edges)
            # Candidates may all be taken: the others look for new ones among themselves.
            edges = self._find_edges(np.array([i for i, one in self._open.items() if len(one.units) == 1], np.int64))
            edges += self._compute_mixed_losses()
        for group, track in zip(
            self._done, cores.map_each(self._join_tracks, [one.units for one in self._done]), strict=True
        ):
            group.track = track
        self._join()
        return sorted(self._done, key=lambda one: one.units[0])

    # ---- the cheapest pair first -------------------------------------------------------------------------------------

    def _take(self, edges: list[Edge]) -> None:
        """Merge pairs by what they lose, as long as there are any."""
        while edges:
            _, i, j, _, first, second = heapq.heappop(edges)
            # An edge of a group that was merged meanwhile: the heap still has it.
            if self._open.get(i) is not first or self._open.get(j) is not second:
                continue
            del self._open[i], self._open[j]
            both = self._merge_pair(first, second)
            if len(both.people) >= self._k:
                self._done.append(both)
                continue
            both.track = self._join_tracks(both.units)
            self._open[i] = both  # a merged trajectory takes its first's place
            self._near[i] |= self._near.pop(j, set())
            # Lines 6 and 7 of Algorithm 2, for those alone who were candidates of either part.
            near = [
                a for a in sorted(self._near[i] - {i}) if a in self._open and not self._open[a].people & both.people
            ]
            for a in near:
                self._near[a].add(i)
            for edge in self._compute_edges([(min(i, a), max(i, a)) for a in near]):
                heapq.heappush(edges, edge)

    def _merge_pair(self, first: Group, second: Group) -> Group:
        return Group(units=first.units + second.units, people=first.people | second.people, track=first.track)

    def _join_tracks(self, units: list[int]) -> Track:
        own = self._units
        fixes = [slice(own.fix_offset[unit], own.fix_offset[unit + 1]) for unit in units]
        offset = np.concatenate([[0], np.cumsum([part.stop - part.start for part in fixes])])
        slot, atom = (np.concatenate([values[part] for part in fixes]) for values in (own.fix_slot, own.fix_place))
        return _optimum.cut_rows(self._area, self._scale, offset, slot, atom)

    def _compute_mixed_losses(self) -> list[Edge]:
        """Compute what every pair of open groups loses of which one at least is of several units."""
        return self._compute_edges(
            [
                (i, j)
                for (i, one), (j, other) in combinations(sorted(self._open.items()), 2)
                if len(one.units) + len(other.units) > 2 and not one.people & other.people
            ]
        )

    def _compute_edges(self, pairs: list[tuple[int, int]]) -> list[Edge]:
        groups = [(self._open[i], self._open[j]) for i, j in pairs]
        lost = cores.map_each(lambda both: self._compute_loss(*both), groups)
        # Of equal losses the pair first in the run's order; the number keeps the heap from comparing groups.
        return [(loss, *pair, next(self._numbers), *both) for loss, pair, both in zip(lost, pairs, groups, strict=True)]

    def _compute_loss(self, first: Group, second: Group) -> float:
        """C_ij of two groups; the first is that in the order of the run."""
        longer, other = (first, second) if len(first.track.start) > len(second.track.start) else (second, first)
        people = len(longer.people), len(other.people)
        return float(_losses.compute_loss(self._area, self._scale, longer.track, other.track, *people, 1, np.inf))

    def _find_edges(self, places: Int) -> list[Edge]:
        """Compute what pairs of single units lose: all pairs, or candidates."""
        n = len(places)
        if n < 2:
            return []
        units = self._units
        one, other = np.triu_indices(n, 1) if n <= MAX_ALL_PAIRS_GROUPS else self.find_candidates(places)
        one, other = places[one], places[other]
        differ = units.subject[one] != units.subject[other]
        one, other = one[differ], other[differ]
        points = self._area, self._scale, self._single, units.offset
        parts = ((*points, one[low:high], other[low:high]) for low, high in _iter_ranges(len(one), _MIN_PAIRS_PER_TASK))
        lost = np.concatenate([np.empty(0), *self._tasks.map(_measure_pairs, parts, threads=_THREADS_PER_TASK)])
        for i, j in zip(one.tolist(), other.tolist(), strict=True):
            self._near[i].add(j)
            self._near[j].add(i)
        return [
            (loss, i, j, next(self._numbers), self._open[i], self._open[j])
            for loss, i, j in zip(lost.tolist(), one.tolist(), other.tolist(), strict=True)
        ]

    def find_candidates(self, places: Int) -> tuple[Int, Int]:
        """Choose pairs of single units that may be cheap to merge: indices into `places`, the lesser first."""
        points = self._area, self._scale, self._single, self._units.offset, self._units.subject, places
        parts = ((*points, low, high) for low, high in _iter_ranges(len(places), _MIN_UNITS_PER_TASK))
        candidates = np.concatenate(self._tasks.map(_search_candidates, parts, threads=_THREADS_PER_TASK))
        one, at = np.nonzero(candidates >= 0)
        one, other = np.unique(np.sort(np.stack([one, candidates[one, at]]), axis=0), axis=1)
        return one, other

    # ---- what is left ------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        """Let what is left with fewer than k people join the group it loses least with."""
        # Not in Algorithm 2, which may end with one group short of k. Each turn joins one, so this ends.
        while self._open:
            place = min(self._open)
            left = self._open.pop(place)
            others = [(one.units[0], one) for one in self._done] + list(self._open.items())
            pairs = [sorted(((place, left), one), key=lambda group: group[0]) for one in others]
            losses = [self._compute_loss(first, second) for (_, first), (_, second) in pairs]
            best = min(range(len(others)), key=lambda at: (losses[at], others[at][0]))
            (_, first), (_, second) = pairs[best]
            where, group = others[best]
            both = self._merge_pair(first, second)
            both.track = self._join_tracks(both.units)
            if self._open.get(where) is group:
                del self._open[where]
            else:
                self._done = [one for one in self._done if one is not group]
            if len(both.people) >= self._k:
                self._done.append(both)
            else:
                self._open[min(place, where)] = both


def _iter_ranges(number: int, least: int) -> Iterator[tuple[int, int]]:
    """Cut so many items into ranges of at least so many, and not into many."""
    size = max(least, -(-number // _MAX_TASKS))
    for low in range(0, number, size):
        yield low, min(low + size, number)


def _search_candidates(
    area: Int, scale: Scale, points: Track, offset: Int, subject: Int, places: Int, low: int, high: int
) -> Int:
    """Find candidates of the units at some places: indices into `places`, -1 where there are fewer."""
    candidates = np.full((high - low, CANDIDATES_PER_UNIT), -1, np.int64)

    def search(first: int, end: int) -> None:
        _find_candidates(area, scale, points, offset, subject, places, low + first, candidates[first:end])

    cores.share_work(np.ones(high - low, np.int64), search, 1)
    return candidates


def _measure_pairs(area: Int, scale: Scale, points: Track, offset: Int, one: Int, other: Int) -> Float:
    """Compute what pairs of units lose."""
    lost = np.empty(len(one))

    def measure(low: int, high: int) -> None:
        _fill_pair_losses(area, scale, points, offset, one[low:high], other[low:high], lost[low:high])

    cores.share_work(np.ones(len(one), np.int64), measure, _MIN_PAIRS_PER_THREAD)
    return lost


@compile_kernel
def _select_unit(points: Track, offset: Int, unit: int) -> Track:
    low, high = offset[unit], offset[unit + 1]
    return Track(points.start[low:high], points.end[low:high], points.first[low : high + 1], points.atom)


@compile_kernel
def _find_candidates(
    area: Int, scale: Scale, points: Track, offset: Int, subject: Int, places: Int, low: int, candidates: Int
) -> None:
    """Find, for the units from a place on, others that seem cheap to merge with: by a sample of the longer's points."""
    n, number = len(places), candidates.shape[1]
    for at in range(len(candidates)):
        i = places[low + at]
        losses = np.full(number, np.inf)
        # Kept true: `candidates` and `losses` are the cheapest of those passed by, ascending.
        for beside in range(n):
            j = places[beside]
            if subject[i] == subject[j]:
                continue
            # Every point loses at least what lies between both.
            gap = max(
                points.start[offset[j]] - points.end[offset[i + 1] - 1],
                points.start[offset[i]] - points.end[offset[j + 1] - 1],
                0,
            )
            if scale.weight_time * min(gap / scale.span, 1.0) >= losses[-1]:
                continue
            longer, shorter = i, j
            sizes = offset[i + 1] - offset[i], offset[j + 1] - offset[j]
            if sizes[1] > sizes[0] or (sizes[0] == sizes[1] and i < j):
                longer, shorter = j, i
            step = (max(sizes[0], sizes[1]) + _SAMPLED_POINTS - 1) // _SAMPLED_POINTS
            loss = _losses.compute_loss(
                area,
                scale,
                _select_unit(points, offset, longer),
                _select_unit(points, offset, shorter),
                1,
                1,
                step,
                losses[-1],
            )
            if loss < losses[-1]:
                rank = np.searchsorted(losses, loss, side="right")
                for later in range(len(losses) - 1, rank, -1):
                    losses[later], candidates[at, later] = losses[later - 1], candidates[at, later - 1]
                losses[rank], candidates[at, rank] = loss, beside


@compile_kernel
def _fill_pair_losses(area: Int, scale: Scale, points: Track, offset: Int, one: Int, other: Int, lost: Float) -> None:
    """Compute C_ij of pairs of units."""
    for at in range(len(one)):
        i, j = one[at], other[at]
        if offset[j + 1] - offset[j] >= offset[i + 1] - offset[i]:
            i, j = j, i
        lost[at] = _losses.compute_loss(
            area, scale, _select_unit(points, offset, i), _select_unit(points, offset, j), 1, 1, 1, np.inf
        )
