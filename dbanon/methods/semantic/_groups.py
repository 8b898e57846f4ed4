"""Who is merged with whom: the cheapest pair first, until every group has k people (Algorithm 2, the outer loop)."""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

import heapq
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, count
from queue import SimpleQueue
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dbanon.base import cores
from dbanon.base.trajectory import Float, Int
from dbanon.methods.semantic import _improve, _losses, _regions
from dbanon.methods.semantic._graph import Graph
from dbanon.methods.semantic._losses import Path, Scale, Tables
from dbanon.methods.semantic._points import Units
from dbanon.methods.semantic._regions import Work, _kernel
from dbanon.methods.semantic._tracks import Merger, Track

ALL_PAIRS = 50
"""Up to so many units the loss of every pair is computed, and exactly; of more, that of candidates, nearly."""

CANDIDATES = 16
"""For so many others of each unit the loss is computed where it is not of all."""

Item = TypeVar("Item")
Result = TypeVar("Result")

_SAMPLE = 12  # points of a trajectory that candidates are found by
_MIN_PAIRS_PER_THREAD = 1 << 8


@dataclass
class Group:
    """Units whose records are alike."""

    units: list[int]
    people: frozenset[int]  # their subjects
    track: Track | None  # their common rows; None where they are still to be merged: `parts` then has both sides
    parts: tuple["Group", "Group"] | None = None

    @property
    def rows(self) -> Track:
        """Their common rows, once they are merged."""
        return cast("Track", self.track)


def groups(units: Units, graph: Graph, scale: Scale, k: int, *, improve: Int | None = None) -> list[Group]:
    """Merge the pair that loses least, again and again, until every group has k people.

    Parameters
    ----------
    units : Units
        In the order of the run; of at least k subjects.
    improve : int64[n], optional
        Random numbers, one a unit, by which the rows of groups are shortened and shrunk at the end; see `_improve`.

    Returns
    -------
    list of Group
        By their first unit; each with a track.
    """
    grouping = _Grouping(units, graph, scale, k)
    found = grouping.groups()
    if improve is not None:
        grouping.improve(found, improve)
    return found


Edge = tuple[float, int, int, int, Group, Group]
"""What two groups lose, their places in the order of the run, a number of its own, and both."""


def prepare(units: Units, graph: Graph, scale: Scale) -> None:
    """Compile what only many units need."""
    places = np.arange(len(units))
    _losses.tables(graph, exact=False)
    _Grouping(units, graph, scale, 2).candidates(places)


class _Grouping:
    def __init__(self, units: Units, graph: Graph, scale: Scale, k: int) -> None:
        self._units, self._graph, self._scale, self._k = units, graph, scale, k
        nearly = len(units) > ALL_PAIRS
        self._tables = _losses.tables(graph, exact=not nearly)
        self._mergers: SimpleQueue[Merger] = SimpleQueue()
        for _ in range(cores.count()):
            self._mergers.put(Merger(graph, self._tables, scale, nearly=nearly))
        self._open = {i: self._single(i) for i in range(len(units))}
        self._done: list[Group] = []
        self._near: dict[int, set[int]] = defaultdict(set)
        self._numbers = count()

    def _single(self, unit: int) -> Group:
        own = slice(self._units.offset[unit], self._units.offset[unit + 1])
        cell = self._units.region[own].copy()
        # Copies, as kernels are compiled for arrays that may be changed apart from those that may not.
        start, end = self._units.start[own].copy(), self._units.end[own].copy()
        track = Track(start=start, end=end, offset=np.arange(len(cell) + 1), cell=cell)
        return Group([unit], frozenset([int(self._units.subject[unit])]), track)

    def groups(self) -> list[Group]:
        if self._k == 1:
            self._done = list(self._open.values())
            self._each(self._done, self._grow)
            return self._done
        edges = self._edges(np.array(sorted(self._open), np.int64))
        while edges:
            heapq.heapify(edges)
            self._take(edges)
            # Candidates may all be taken: the others look for new ones among themselves.
            edges = self._edges(np.array([i for i, one in self._open.items() if len(one.units) == 1], np.int64))
            edges += self._mixed()
        self._each(self._done, self._merge)
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
            both = Group(first.units + second.units, first.people | second.people, None, (first, second))
            if len(both.people) >= self._k:
                self._done.append(both)
                continue
            self._merge(both)
            self._open[i] = both  # a merged trajectory takes its first's place
            self._near[i] |= self._near.pop(j, set())
            # Lines 6 and 7 of Algorithm 2, for those alone who were candidates of either part.
            near = [
                a for a in sorted(self._near[i] - {i}) if a in self._open and not self._open[a].people & both.people
            ]
            for a in near:
                self._near[a].add(i)
            for edge in self._losses([(min(i, a), max(i, a)) for a in near]):
                heapq.heappush(edges, edge)

    def _mixed(self) -> list[Edge]:
        """Compute what every pair of open groups loses of which one at least is of several units."""
        return self._losses(
            [
                (i, j)
                for (i, one), (j, other) in combinations(sorted(self._open.items()), 2)
                if len(one.units) + len(other.units) > 2 and not one.people & other.people
            ]
        )

    def _losses(self, pairs: list[tuple[int, int]]) -> list[Edge]:
        def loss(pair: tuple[int, int], merger: Merger) -> Edge:
            i, j = pair
            first, second = self._open[i], self._open[j]
            lost = merger.loss(first.rows, second.rows, len(first.people), len(second.people))
            # Of equal losses the pair first in the run's order; the number keeps the heap from comparing groups.
            return lost, i, j, next(self._numbers), first, second

        return self._each(pairs, loss)

    def _edges(self, places: Int) -> list[Edge]:
        """Compute what pairs of single units lose: all pairs, or candidates."""
        n = len(places)
        if n < 2:
            return []
        units = self._units
        arrays = (units.offset, units.start, units.end, units.region)
        one, other = np.triu_indices(n, 1) if n <= ALL_PAIRS else self.candidates(places)
        one, other = places[one], places[other]
        differ = units.subject[one] != units.subject[other]
        one, other = one[differ], other[differ]
        lost = np.empty(len(one))

        def measure(low: int, high: int) -> None:
            work = _regions.work(self._graph)
            _pair_losses(
                self._graph, work, self._tables, self._scale, *arrays, one[low:high], other[low:high], lost[low:high]
            )

        cores.share(np.ones(len(one), np.int64), measure, _MIN_PAIRS_PER_THREAD)
        for i, j in zip(one.tolist(), other.tolist(), strict=True):
            self._near[i].add(j)
            self._near[j].add(i)
        return [
            (loss, i, j, next(self._numbers), self._open[i], self._open[j])
            for loss, i, j in zip(lost.tolist(), one.tolist(), other.tolist(), strict=True)
        ]

    def candidates(self, places: Int) -> tuple[Int, Int]:
        """Choose pairs of single units that may be cheap to merge: indices into `places`, the lesser first."""
        units, found = self._units, np.full((len(places), CANDIDATES), -1, np.int64)
        arrays = (units.offset, units.start, units.end, units.region, units.subject)

        def search(low: int, high: int) -> None:
            work = _regions.work(self._graph)
            _candidates(self._graph, work, self._tables, self._scale, *arrays, places, low, high, found)

        cores.share(np.ones(len(places), np.int64), search, 1)
        one, at = np.nonzero(found >= 0)
        one, other = np.unique(np.sort(np.stack([one, found[one, at]]), axis=0), axis=1)
        return one, other

    # ---- what is left ------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        """Let what is left with fewer than k people join the group it loses least with."""
        # Not in Algorithm 2, which may end with one group short of k. Each turn joins one, so this ends.
        while self._open:
            place = min(self._open)
            left = self._open.pop(place)
            others = [(one.units[0], one) for one in self._done] + list(self._open.items())
            losses = self._each(others, partial(_loss_between, (place, left)))
            rank = [(lost, at) for lost, (at, _) in zip(losses, others, strict=True)]
            where, group = others[rank.index(min(rank))]
            first, second = (left, group) if place < where else (group, left)
            both = Group(first.units + second.units, first.people | second.people, None, (first, second))
            self._merge(both)
            if where in self._open and self._open[where] is group:
                del self._open[where]
            else:
                self._done = [one for one in self._done if one is not group]
            if len(both.people) >= self._k:
                self._done.append(both)
            else:
                self._open[min(place, where)] = both

    # ---- work --------------------------------------------------------------------------------------------------------

    def _fixes(self, unit: int) -> Int:
        return self._units.fix_slot[self._units.fix_offset[unit] : self._units.fix_offset[unit + 1]]

    def _merge(self, group: Group, merger: Merger | None = None) -> None:
        if group.parts is None:
            return
        first, second = group.parts
        fixes = [self._fixes(unit) for unit in group.units]
        own = merger or self._mergers.get()
        group.track = own.merged(first.rows, second.rows, len(first.people), len(second.people), fixes)
        group.parts = None
        if merger is None:
            self._mergers.put(own)

    def improve(self, groups: list[Group], seeds: Int) -> None:
        """Shorten and shrink the rows of groups, each by the random number of its first unit."""

        def one(group: Group, _: Merger) -> None:
            units, track = self._units, group.rows
            fixes = [slice(units.fix_offset[unit], units.fix_offset[unit + 1]) for unit in group.units]
            slots = [units.fix_slot[own] for own in fixes]
            start, end = track.start.copy(), track.end.copy()
            offset, cell = _improve.improve(
                self._graph, _regions.work(self._graph), start, end, track.offset, track.cell,
                np.concatenate([[0], np.cumsum([len(own) for own in slots])]), np.concatenate(slots),
                np.concatenate([units.fix_cell[own] for own in fixes]), np.uint64(seeds[group.units[0]]),
            )  # fmt: skip
            group.track = Track(start=start, end=end, offset=offset, cell=cell)

        self._each(groups, one)

    def _grow(self, group: Group, merger: Merger) -> None:
        group.track = merger.alone(group.rows, self._fixes(group.units[0]))

    def _each(self, items: Sequence[Item], task: Callable[[Item, Merger], Result]) -> list[Result]:
        """Do a task with each of some items and a merger, on all threads; give what comes out, in their order."""

        def one(item: Item) -> Result:
            merger = self._mergers.get()
            try:
                return task(item, merger)
            finally:
                self._mergers.put(merger)

        return list(cores.each(one, items))


def _loss_between(left: tuple[int, Group], one: tuple[int, Group], merger: Merger) -> float:
    """Compute what two groups lose, each with its place in the order of the run."""
    (_, first), (_, second) = sorted((left, one), key=lambda group: group[0])
    return merger.loss(first.rows, second.rows, len(first.people), len(second.people))


@_kernel
def _candidates(
    graph: Graph, work: Work, tables: Tables, scale: Scale, offset: Int, start: Int, end: Int,
    region: NDArray[np.int32], subject: Int, places: Int, low: int, high: int, found: Int,
) -> None:  # fmt: skip
    """Find, for the units at some places, others that seem cheap to merge with: by a sample of the longer's points."""
    n, number = found.shape
    for at in range(low, high):
        i = places[at]
        losses = np.full(number, np.inf)
        for beside in range(n):
            j = places[beside]
            if subject[i] == subject[j]:
                continue
            # Every point loses at least what lies between both.
            gap = max(start[offset[j]] - end[offset[i + 1] - 1], start[offset[i]] - end[offset[j + 1] - 1], 0)
            if scale.weight_time * min(gap / scale.span, 1.0) >= losses[-1]:
                continue
            longer, shorter = i, j
            sizes = offset[i + 1] - offset[i], offset[j + 1] - offset[j]
            if sizes[1] > sizes[0] or (sizes[0] == sizes[1] and i < j):
                longer, shorter = j, i
            step = (max(sizes[0], sizes[1]) + _SAMPLE - 1) // _SAMPLE
            loss = _losses.cells_loss(
                graph, work, tables, scale, _path(offset, start, end, region, longer),
                _path(offset, start, end, region, shorter), step, losses[-1],
            )  # fmt: skip
            if loss < losses[-1]:
                rank = np.searchsorted(losses, loss, side="right")
                losses[rank + 1 :] = losses[rank:-1].copy()
                found[at, rank + 1 :] = found[at, rank:-1].copy()
                losses[rank], found[at, rank] = loss, beside


@_kernel
def _pair_losses(
    graph: Graph, work: Work, tables: Tables, scale: Scale, offset: Int, start: Int, end: Int,
    region: NDArray[np.int32], one: Int, other: Int, lost: Float,
) -> None:  # fmt: skip
    """Compute C_ij of pairs of units."""
    for at in range(len(one)):
        i, j = one[at], other[at]
        if offset[j + 1] - offset[j] >= offset[i + 1] - offset[i]:
            i, j = j, i
        lost[at] = _losses.cells_loss(
            graph, work, tables, scale, _path(offset, start, end, region, i), _path(offset, start, end, region, j), 1,
            np.inf,
        )  # fmt: skip


@_kernel
def _path(offset: Int, start: Int, end: Int, region: NDArray[np.int32], unit: int) -> Path:
    low, high = offset[unit], offset[unit + 1]
    return Path(start[low:high], end[low:high], region[low:high])
