"""Algorithm 1 in the plane: a connected region that holds two others, grown until it is as mixed as `l` and `t` ask.

Regions are interned: one of the same cells has the same number wherever it comes up, and the merge of two is looked up
when it comes up again. Invariant: the number of a region of one cell is that of the cell.
"""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

import heapq
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Int
from dbanon.methods.semantic._graph import Graph

# Divergences are compared after rounding, so that equal mixes are equal however they were summed.
_ROUNDING_FACTOR = 1e12
UNLIMITED_AREA = np.iinfo(np.int64).max  # a limit that no area exceeds
_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class Work(NamedTuple):
    """Memory of one thread, by cell unless said otherwise."""

    inside: Int  # [c]; inside, edge: marked with the current stamp where a cell is in the region, and on its border
    edge: Int  # [c]
    cells: NDArray[np.int32]  # [c]; cells, border: the region's cells, and its neighbours
    border: NDArray[np.int32]  # [c]
    seen: Int  # [c]; of Dijkstra's search: marked with the current one where it has been
    distance: Int  # [c]
    before: Int  # [c]
    pois: Int  # [q]: the region's points of interest by category
    stamp: Int  # [1]
    search: Int  # [1]


def make_work(graph: Graph) -> Work:
    """Make the memory of a thread."""
    c, q = len(graph.area), len(graph.log_share)
    longs, ints, one = np.zeros((5, c), np.int64), np.zeros((2, c), np.int32), np.zeros((2, 1), np.int64)
    return Work(longs[0], longs[1], ints[0], ints[1], *longs[2:], np.zeros(q, np.int64), *one)


class PoolFullError(Exception):
    """A pool has no room for another region or pair."""


class Pool(NamedTuple):
    """All regions that came up, and which two make which."""

    offset: Int  # [r + 1]: cells of region i are ``cell[offset[i]:offset[i + 1]]``, ascending
    cell: NDArray[np.int32]  # []
    area: Int  # [r]: square millimetres
    slot: NDArray[np.int32]  # [s]: hash table of regions: number + 1, 0 where free
    pair: Int  # [p]: hash table of merges: the key of two regions, 0 where free
    made: NDArray[np.int32]  # [p]: what they make
    used: Int  # [2]: how many regions and how many entries of `pair` are used


# ---- what is in a region ---------------------------------------------------------------------------------------------


@compile_kernel
def count_categories(count: Int) -> Any:
    """Count the categories that are there."""
    there = 0
    for u in range(len(count)):
        if count[u]:
            there += 1
    return there


# ---- Algorithm 1 -----------------------------------------------------------------------------------------------------


@compile_kernel
def begin(graph: Graph, work: Work) -> None:
    """Empty the region at hand."""
    work.stamp[0] += 1
    work.pois[:] = 0


@compile_kernel
def add(graph: Graph, work: Work, size: int, cell: int) -> Any:
    """Put a cell into the region at hand, unless it is there; give the region's size."""
    if work.inside[cell] == work.stamp[0]:
        return size
    work.inside[cell] = work.stamp[0]
    work.cells[size] = cell
    for at in range(graph.first_kind[cell], graph.first_kind[cell + 1]):
        work.pois[graph.kind[at]] += graph.many[at]
    return size + 1


@compile_kernel
def grow(graph: Graph, work: Work, size: int, most: int) -> Any:  # noqa: C901, PLR0912 - one loop, on its own arrays
    """Grow the region at hand; give its size, or 0 once it is larger than `most` square millimetres.

    Neighbours are added until it has enough categories (lines 3 to 7), then until its shares are near enough to the
    city's (lines 9 to 13). Every cell that is added borders on the region, so a connected one stays so. The whole city
    has all categories and diverges by nothing, so this ends.
    """
    whole = measure_area(graph, work, size)
    first_kind, kind, many, logs, log_share = graph.first_kind, graph.kind, graph.many, graph.logs, graph.log_share
    count, border, areas = work.pois, work.border, graph.area
    borders = -1
    while True:
        if whole > most:
            return 0
        here, inside, sums = count_categories(count), count.sum(), 0.0
        for u in range(len(count)):
            sums += count[u] * (logs[count[u]] - log_share[u])
        diverse = here >= graph.least
        # Lines 3 and 9 of Algorithm 1 in one loop: `diverse` stays true, as categories never leave a region.
        if diverse and (graph.most == np.inf or (inside and sums / inside - logs[inside] <= graph.most)):
            return size
        if borders < 0:  # only now: most regions that come up are good as they are
            borders = 0
            for i in range(size):
                borders = _reach(graph, work, borders, work.cells[i])
        if not borders:
            return size
        best, best_score, chosen = -1, np.inf, 0
        for i in range(borders):
            # Categories and divergence of the region with this cell, from what it adds.
            cell, number, there, total = border[i], inside, here, sums
            for at in range(first_kind[cell], first_kind[cell + 1]):
                u = kind[at]
                m = count[u] + many[at]
                number += many[at]
                there += count[u] == 0
                total += m * (logs[m] - log_share[u]) - count[u] * (logs[count[u]] - log_share[u])
            if not diverse:
                score = -float(there)
            else:
                score = np.rint((total / number - logs[number]) * _ROUNDING_FACTOR) if number else np.inf
            # Of those that are equally good the smaller, then the first.
            if best < 0 or score < best_score:
                best, best_score, chosen = cell, score, i
            elif score == best_score and (areas[cell] < areas[best] or (areas[cell] == areas[best] and cell < best)):
                best, chosen = cell, i
        borders -= 1
        border[chosen] = border[borders]
        whole += areas[best]
        size = add(graph, work, size, best)
        borders = _reach(graph, work, borders, best)


@compile_kernel
def _reach(graph: Graph, work: Work, borders: int, cell: int) -> Any:
    """Note the neighbours of a new cell as the region's."""
    stamp = work.stamp[0]
    for at in range(graph.first[cell], graph.first[cell + 1]):
        near = graph.near[at]
        if work.inside[near] != stamp and work.edge[near] != stamp:
            work.edge[near] = stamp
            work.border[borders] = near
            borders += 1
    return borders


@compile_kernel
def connect(graph: Graph, work: Work, one: NDArray[np.int32], other: NDArray[np.int32]) -> Any:
    """Begin a region with two others and the cells of the cheapest path between them (line 2); give its size."""
    begin(graph, work)
    size, goal, apart = 0, work.stamp[0], True
    for cell in other:
        size = add(graph, work, size, cell)
        # Cells that border on the second region: the search may end there, since the second region's own cells cost
        # nothing more.
        for near in graph.near[graph.first[cell] : graph.first[cell + 1]]:
            work.edge[near] = goal
    for cell in one:
        if work.inside[cell] == goal or work.edge[cell] == goal:
            apart = False
    if apart:
        size = _add_path(graph, work, size, find_cheapest_path(graph, work, one, work.edge, goal))
    for cell in one:
        size = add(graph, work, size, cell)
    _settle(work, size)
    return size


@compile_kernel
def find_cheapest_path(graph: Graph, work: Work, cells: NDArray[np.int32], wanted: Int, mark: int) -> Any:
    """Find the cheapest path from some cells to another that is marked; give its last cell. It is in `before`, to -1.

    Dijkstra's algorithm: leaving a cell costs nothing and entering one its area, so a cell that is reached first, in
    the order of (area, cells, number), is reached for good, and each is put on the heap once.
    """
    work.search[0] += 1
    for cell in cells:
        work.seen[cell] = work.search[0]
    heap = [(0, 0, 0) for _ in range(0)]
    for cell in cells:
        _reach_from(graph, work, heap, 0, 0, np.int64(cell), -1)
    while heap:
        distance, hops, cell = heapq.heappop(heap)
        work.distance[cell] = distance
        if wanted[cell] == mark:
            return cell
        _reach_from(graph, work, heap, distance, hops, cell, cell)
    return -1


@compile_kernel
def _reach_from(graph: Graph, work: Work, heap: Any, distance: int, hops: int, cell: int, before: int) -> None:
    """Put the neighbours of a cell that no search has reached on the heap."""
    for near in graph.near[graph.first[cell] : graph.first[cell + 1]]:
        if work.seen[near] != work.search[0]:
            work.seen[near], work.before[near] = work.search[0], before
            heapq.heappush(heap, (distance + graph.area[near], hops + 1, np.int64(near)))


@compile_kernel
def _add_path(graph: Graph, work: Work, size: int, cell: int) -> Any:
    """Put the cells of the path that was found last to the region at hand; give its size."""
    while cell >= 0:
        size = add(graph, work, size, cell)
        cell = work.before[cell]
    return size


@compile_kernel
def _settle(work: Work, size: int) -> None:
    """Give the region at hand another stamp: what else was marked with the old one is no border of it."""
    work.stamp[0] += 1
    for i in range(size):
        work.inside[work.cells[i]] = work.stamp[0]


@compile_kernel
def measure_area(graph: Graph, work: Work, size: int) -> Any:
    """Area of the region at hand, square millimetres."""
    total = 0
    for i in range(size):
        total += graph.area[work.cells[i]]
    return total


# ---- regions by number -----------------------------------------------------------------------------------------------


def make_pool(graph: Graph, regions: int) -> Pool:
    """Make a pool that has the regions of one cell, and room for others: so many, of 64 cells on average."""
    c = len(graph.area)
    regions = max(regions, 1 << (2 * c).bit_length())
    pairs = 4 * regions
    made = Pool(
        offset=np.zeros(regions + 1, np.int64),
        cell=np.empty(64 * regions, np.int32),
        area=np.empty(regions, np.int64),
        slot=np.zeros(2 * regions, np.int32),
        pair=np.zeros(pairs, np.int64),
        made=np.empty(pairs, np.int32),
        used=np.zeros(2, np.int64),
    )
    _add_singles(graph, made, make_work(graph))
    return made


@compile_kernel
def _add_singles(graph: Graph, pool: Pool, work: Work) -> None:
    for cell in range(len(graph.area)):
        begin(graph, work)
        number_region(graph, pool, work, add(graph, work, 0, cell))


@compile_kernel
def _hash(cells: NDArray[np.int32]) -> Any:
    mixed = np.uint64(len(cells))
    for cell in cells:
        mixed = (mixed ^ np.uint64(cell)) * _HASH_FACTOR
        mixed ^= mixed >> np.uint64(29)
    return np.int64(mixed >> np.uint64(2))


@compile_kernel
def _find_place(pool: Pool, key: int) -> Any:
    """Find where the merge of two regions is noted, or would be."""
    mask = len(pool.pair) - 1
    mixed = np.uint64(key) * _HASH_FACTOR
    at = np.int64((mixed ^ (mixed >> np.uint64(29))) >> np.uint64(2)) & mask
    while pool.pair[at] and pool.pair[at] != key:
        at = (at + 1) & mask
    return at


@compile_kernel
def number_region(graph: Graph, pool: Pool, work: Work, size: int) -> Any:
    """Number the region at hand; raises `PoolFullError` if the pool is full."""
    cells = np.sort(work.cells[:size])
    mask = len(pool.slot) - 1
    at = _hash(cells) & mask
    while pool.slot[at]:
        # Equal hashes are distinguished by the cells, so a number stands for one set of cells.
        known = pool.slot[at] - 1
        first, end = pool.offset[known], pool.offset[known + 1]
        if end - first == size and np.all(pool.cell[first:end] == cells):
            return known
        at = (at + 1) & mask
    number = pool.used[0]
    first = pool.offset[number]
    if number + 1 >= len(pool.area) or first + size > len(pool.cell):
        raise PoolFullError
    pool.cell[first : first + size] = cells
    pool.offset[number + 1] = first + size
    pool.area[number] = measure_area(graph, work, size)
    pool.slot[at] = number + 1
    pool.used[0] = number + 1
    return number


@compile_kernel
def merge_regions(graph: Graph, pool: Pool, work: Work, one: int, other: int) -> Any:
    """Merge two regions by number (Algorithm 1), or grow one that is given twice; give the number of what they make.

    Raises `PoolFullError` if the pool is full.
    """
    # In this order: of equally cheap paths another may be found from the second to the first.
    key = ((one + 1) << 31) | other
    at = _find_place(pool, key)
    if pool.pair[at]:
        return pool.made[at]
    if 2 * (pool.used[1] + 1) > len(pool.pair):
        raise PoolFullError
    first = pool.cell[pool.offset[one] : pool.offset[one + 1]]
    second = pool.cell[pool.offset[other] : pool.offset[other + 1]]
    size = grow(graph, work, connect(graph, work, first, second), UNLIMITED_AREA)
    pool.made[at] = number_region(graph, pool, work, size)
    pool.pair[at] = key
    pool.used[1] += 1
    return pool.made[at]


@compile_kernel
def spread(graph: Graph, work: Work, cell: int, areas: Int) -> None:
    """Find the least area of a connected region that holds a cell and each other one: int64[c], `areas`."""
    start = np.array([cell], np.int32)
    find_cheapest_path(graph, work, start, work.seen, -1)  # which no cell is marked with: to the end
    for other in range(len(areas)):
        areas[other] = graph.area[cell] + (work.distance[other] if other != cell else 0)
