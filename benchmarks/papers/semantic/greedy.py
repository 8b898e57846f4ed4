"""Who is merged with whom: the cheapest pair first, until every group has k people (Algorithm 2, the outer loop)."""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

import heapq
from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations, count

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.semantic import growth, loss
from benchmarks.papers.semantic.growth import Work, compile_kernel
from benchmarks.papers.semantic.loss import Path, Scale, Tables
from benchmarks.papers.semantic.merger import Merger, Track
from dbanon.base import cores
from dbanon.base.trajectory import Float, Int
from dbanon.methods.semantic._graph import Graph
from dbanon.methods.semantic._points import Units

MAX_ALL_PAIRS = 50
"""Up to so many units the loss of every pair is computed, and exactly; of more, that of candidates, nearly."""

CANDIDATES_PER_UNIT = 16
"""For so many others of each unit the loss is computed where it is not of all."""

_SAMPLED_POINTS = 12  # points of a trajectory that candidates are found by
_MIN_PAIRS_PER_THREAD = 1 << 8


@dataclass
class Group:
    """Units whose records are alike."""

    units: list[int]
    people: frozenset[int]  # their subjects
    track: Track  # their common rows


Edge = tuple[float, int, int, int, Group, Group]
"""What two groups lose, their places in the order of the run, a number of its own, and both."""


def merge_groups(units: Units, graph: Graph, scale: Scale, k: int) -> list[Group]:
    """Merge the pair that loses least, again and again, until every group has k people.

    Parameters
    ----------
    units : Units
        In the order of the run; of at least k subjects.

    Returns
    -------
    list of Group
        By their first unit.
    """
    return _Grouping(units, graph, scale, k).form_all()


class _Grouping:
    def __init__(self, units: Units, graph: Graph, scale: Scale, k: int) -> None:
        self._units, self._graph, self._scale, self._k = units, graph, scale, k
        nearly = len(units) > MAX_ALL_PAIRS
        self._tables = loss.make_tables(graph, exact=not nearly)
        self._merger = Merger(graph, self._tables, scale, nearly=nearly)
        self._open = {i: self._make_single(i) for i in range(len(units))}
        self._done: list[Group] = []
        self._near: dict[int, set[int]] = defaultdict(set)
        self._numbers = count()

    def _make_single(self, unit: int) -> Group:
        own = slice(self._units.offset[unit], self._units.offset[unit + 1])
        cell = self._units.place[own].copy()
        # Copies, as kernels are compiled for arrays that may be changed apart from those that may not.
        start, end = self._units.start[own].copy(), self._units.end[own].copy()
        track = Track(start=start, end=end, offset=np.arange(len(cell) + 1), cell=cell)
        return Group([unit], frozenset([int(self._units.subject[unit])]), track)

    def form_all(self) -> list[Group]:
        if self._k == 1:
            for i, one in self._open.items():
                one.track = self._merger.grow_alone(one.track, self._list_fixes(i))
            return list(self._open.values())
        edges = self._list_edges(np.array(sorted(self._open), np.int64))
        while edges:
            heapq.heapify(edges)
            self._take(edges)
            # Candidates may all be taken: the others look for new ones among themselves.
            edges = self._list_edges(np.array([i for i, one in self._open.items() if len(one.units) == 1], np.int64))
            edges += self._compute_mixed_losses()
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
            self._put(i, both)
            if i not in self._open:
                continue
            self._near[i] |= self._near.pop(j, set())
            # Lines 6 and 7 of Algorithm 2, for those alone who were candidates of either part.
            near = [
                a for a in sorted(self._near[i] - {i}) if a in self._open and not self._open[a].people & both.people
            ]
            for a in near:
                self._near[a].add(i)
            for edge in self._compute_losses([(min(i, a), max(i, a)) for a in near]):
                heapq.heappush(edges, edge)

    def _compute_mixed_losses(self) -> list[Edge]:
        """Compute what every pair of open groups loses of which one at least is of several units."""
        return self._compute_losses(
            [
                (i, j)
                for (i, one), (j, other) in combinations(sorted(self._open.items()), 2)
                if len(one.units) + len(other.units) > 2 and not one.people & other.people
            ]
        )

    def _compute_losses(self, pairs: list[tuple[int, int]]) -> list[Edge]:
        # Of equal losses the pair first in the run's order; the number keeps the heap from comparing groups.
        both = [(i, j, self._open[i], self._open[j]) for i, j in pairs]
        return [(self._compute_loss(one, other), i, j, next(self._numbers), one, other) for i, j, one, other in both]

    def _list_edges(self, places: Int) -> list[Edge]:
        """Compute what pairs of single units lose: all pairs, or candidates."""
        n = len(places)
        if n < 2:
            return []
        units = self._units
        arrays = (units.offset, units.start, units.end, units.place)
        one, other = np.triu_indices(n, 1) if n <= MAX_ALL_PAIRS else self._choose_candidates(places)
        one, other = places[one], places[other]
        differ = units.subject[one] != units.subject[other]
        one, other = one[differ], other[differ]
        lost = np.empty(len(one))

        def measure(low: int, high: int) -> None:
            work = growth.make_work(self._graph)
            _compute_pair_losses(
                self._graph, work, self._tables, self._scale, *arrays, one[low:high], other[low:high], lost[low:high]
            )

        cores.share_work(np.ones(len(one), np.int64), measure, _MIN_PAIRS_PER_THREAD)
        for i, j in zip(one.tolist(), other.tolist(), strict=True):
            self._near[i].add(j)
            self._near[j].add(i)
        return [
            (least, i, j, next(self._numbers), self._open[i], self._open[j])
            for least, i, j in zip(lost.tolist(), one.tolist(), other.tolist(), strict=True)
        ]

    def _choose_candidates(self, places: Int) -> tuple[Int, Int]:
        """Choose pairs of single units that may be cheap to merge: indices into `places`, the lesser first."""
        units, candidates = self._units, np.full((len(places), CANDIDATES_PER_UNIT), -1, np.int64)
        arrays = (units.offset, units.start, units.end, units.place, units.subject)

        def search(low: int, high: int) -> None:
            work = growth.make_work(self._graph)
            _find_candidates(self._graph, work, self._tables, self._scale, *arrays, places, low, high, candidates)

        cores.share_work(np.ones(len(places), np.int64), search, 1)
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

            def rank(other: tuple[int, Group], place: int = place, left: Group = left) -> tuple[float, int]:
                at, group = other
                return self._compute_loss(left, group) if place < at else self._compute_loss(group, left), at

            where, group = min(others, key=rank)
            both = self._merge_pair(left, group) if place < where else self._merge_pair(group, left)
            self._open.pop(where, None)
            self._done = [one for one in self._done if one is not group]
            self._put(min(place, where), both)

    # ---- work --------------------------------------------------------------------------------------------------------

    def _put(self, place: int, group: Group) -> None:
        """Put a group that was merged where it belongs: a merged trajectory takes its first's place."""
        if len(group.people) >= self._k:
            self._done.append(group)
        else:
            self._open[place] = group

    def _list_fixes(self, unit: int) -> Int:
        return self._units.fix_slot[self._units.fix_offset[unit] : self._units.fix_offset[unit + 1]]

    def _compute_loss(self, first: Group, second: Group) -> float:
        return self._merger.compute_loss(first.track, second.track, len(first.people), len(second.people))

    def _merge_pair(self, first: Group, second: Group) -> Group:
        units = first.units + second.units
        fixes = [self._list_fixes(unit) for unit in units]
        track = self._merger.merge_tracks(first.track, second.track, len(first.people), len(second.people), fixes)
        return Group(units, first.people | second.people, track)


@compile_kernel
def _find_candidates(
    graph: Graph, work: Work, tables: Tables, scale: Scale, offset: Int, start: Int, end: Int,
    region: NDArray[np.int32], subject: Int, places: Int, low: int, high: int, candidates: Int,
) -> None:  # fmt: skip
    """Find, for the units at some places, others that seem cheap to merge with: by a sample of the longer's points."""
    n, number = candidates.shape
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
            step = (max(sizes[0], sizes[1]) + _SAMPLED_POINTS - 1) // _SAMPLED_POINTS
            lost = loss.compute_cells_loss(
                graph, work, tables, scale, _take_path(offset, start, end, region, longer),
                _take_path(offset, start, end, region, shorter), step, losses[-1],
            )  # fmt: skip
            if lost < losses[-1]:
                rank = np.searchsorted(losses, lost, side="right")
                losses[rank + 1 :] = losses[rank:-1].copy()
                candidates[at, rank + 1 :] = candidates[at, rank:-1].copy()
                losses[rank], candidates[at, rank] = lost, beside


@compile_kernel
def _compute_pair_losses(
    graph: Graph, work: Work, tables: Tables, scale: Scale, offset: Int, start: Int, end: Int,
    region: NDArray[np.int32], one: Int, other: Int, lost: Float,
) -> None:  # fmt: skip
    """Compute C_ij of pairs of units."""
    for at in range(len(one)):
        i, j = one[at], other[at]
        if offset[j + 1] - offset[j] >= offset[i + 1] - offset[i]:
            i, j = j, i
        lost[at] = loss.compute_cells_loss(
            graph, work, tables, scale, _take_path(offset, start, end, region, i),
            _take_path(offset, start, end, region, j), 1,
            np.inf,
        )  # fmt: skip


@compile_kernel
def _take_path(offset: Int, start: Int, end: Int, region: NDArray[np.int32], unit: int) -> Path:
    low, high = offset[unit], offset[unit + 1]
    return Path(start[low:high], end[low:high], region[low:high])
