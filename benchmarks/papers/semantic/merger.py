"""Trajectories and groups with cells of their own, and what merges them: regions are numbered by a pool in between."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.semantic import growth, reshaping
from benchmarks.papers.semantic.growth import Pool, Work, compile_kernel
from benchmarks.papers.semantic.loss import Path, Scale, Tables
from dbanon.base.trajectory import Int
from dbanon.methods.semantic._graph import Graph

Result = TypeVar("Result")

POOL_REGIONS = 1 << 18
"""Room of a new pool: some hundred megabytes when it is full."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Track:
    """The points of a trajectory or the rows of a group, in order of time."""

    start: Int  # [p]; start, end: slots, half-open
    end: Int  # [p]
    offset: Int  # [p + 1]: the cells of point i are ``cell[offset[i]:offset[i + 1]]``, ascending
    cell: NDArray[np.int32]  # []

    def __len__(self) -> int:
        return len(self.start)


class Merger:
    """Merges tracks by a pool of regions, which is emptied when it is full.

    `nearly`: whether losses may be computed without the regions of merges.
    """

    def __init__(self, graph: Graph, tables: Tables, scale: Scale, *, nearly: bool) -> None:
        self._graph, self._tables, self._scale, self._nearly = graph, tables, scale, nearly
        self._work, self._pool = growth.make_work(graph), growth.make_pool(graph, POOL_REGIONS)

    def compute_loss(self, first: Track, second: Track, n_first: int, n_second: int) -> float:
        """C_ij of two tracks, of n_first and n_second people; the first is that in the order of the run."""

        def ask(pool: Pool) -> float:
            pair = self._order_pair(pool, first, second, n_first, n_second)
            return float(
                reshaping.compute_loss(self._graph, pool, self._work, self._tables, self._scale, *pair, self._nearly)
            )

        return self._repeat_until_fits(ask)

    def merge_tracks(self, first: Track, second: Track, n_first: int, n_second: int, fixes: list[Int]) -> Track:
        """Merge two tracks, and reshape what they make.

        `fixes` (list of int64[]): slots of the fixes of each member of both.
        """

        def make(pool: Pool) -> Track:
            pair = self._order_pair(pool, first, second, n_first, n_second)
            path = reshaping.merge(self._graph, pool, self._work, self._tables, self._scale, *pair)
            return self._reshape_track(pool, path, fixes)

        return self._repeat_until_fits(make)

    def grow_alone(self, track: Track, fixes: Int) -> Track:
        """Reshape a track of one unit, and grow each of its points."""

        def make(pool: Pool) -> Track:
            path = self._make_path(pool, track)
            region = [growth.merge_regions(self._graph, pool, self._work, one, one) for one in path.region]
            return self._reshape_track(pool, Path(path.start, path.end, np.array(region, np.int32)), [fixes])

        return self._repeat_until_fits(make)

    def _order_pair(
        self, pool: Pool, first: Track, second: Track, n_first: int, n_second: int
    ) -> tuple[Path, Path, int, int]:
        """Put the one to be walked first: the longer, of equal ones the second in the order of the run."""
        one, other = self._make_path(pool, first), self._make_path(pool, second)
        return (one, other, n_first, n_second) if len(first) > len(second) else (other, one, n_second, n_first)

    def _make_path(self, pool: Pool, track: Track) -> Path:
        return Path(track.start, track.end, _number_regions(self._graph, pool, self._work, track.offset, track.cell))

    def _reshape_track(self, pool: Pool, path: Path, fixes: list[Int]) -> Track:
        offset = np.concatenate([[0], np.cumsum([len(slots) for slots in fixes])])
        path = reshaping.reshape(self._graph, pool, self._work, path, offset, np.concatenate(fixes))
        cells = [pool.cell[pool.offset[region] : pool.offset[region + 1]] for region in path.region]
        size = [len(own) for own in cells]
        return Track(
            start=path.start, end=path.end, offset=np.concatenate([[0], np.cumsum(size)]), cell=np.concatenate(cells)
        )

    def _repeat_until_fits(self, task: Callable[[Pool], Result]) -> Result:
        """Do a task; where the pool gets full, again with an empty one, and with larger ones until it fits."""
        # A task changes only the pool, and notes in tables what is true of cells anyway, so it may be done twice.
        room = POOL_REGIONS
        while True:
            try:
                return task(self._pool)
            except growth.PoolFullError:
                self._pool = growth.make_pool(self._graph, room)
                room *= 2


@compile_kernel
def _number_regions(graph: Graph, pool: Pool, work: Work, offset: Int, cell: NDArray[np.int32]) -> NDArray[np.int32]:
    """Number the regions of a track in a pool."""
    region = np.empty(len(offset) - 1, np.int32)
    for i in range(len(region)):
        growth.begin(graph, work)
        size = 0
        for at in range(offset[i], offset[i + 1]):
            size = growth.add(graph, work, size, cell[at])
        region[i] = growth.number_region(graph, pool, work, size)
    return region
