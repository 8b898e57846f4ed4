"""Beyond the paper: rows no longer than the fixes in them, and smaller regions for the same fixes, l and t.

While trajectories are merged, regions grow again and again around cells that in the end no fix of a row is in. Here
each published row starts anew from the cells of its own fixes. A region that holds nothing but what it needs would
tell where these are, so it gets decoys. Invariant: a row never gets longer, and its region never larger.
"""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.base.trajectory import Int
from dbanon.methods.semantic import _regions
from dbanon.methods.semantic._graph import Graph
from dbanon.methods.semantic._regions import Work, _kernel

_DECOYS = 3
_STEP = np.uint64(0x9E3779B97F4A7C15)  # of a splitmix64 generator


@_kernel
def improve(
    graph: Graph, work: Work, start: Int, end: Int, offset: Int, cell: NDArray[np.int32], fix_offset: Int,
    fix_slot: Int, fix_cell: NDArray[np.int32], seed: Any,
) -> tuple[Int, NDArray[np.int32]]:  # fmt: skip
    """Shorten the rows of a group in place, and find smaller regions for them.

    Parameters
    ----------
    start, end : int64[c]
        Slots, half-open; changed.
    offset : int64[c + 1]
    cell : int32[]
        The cells of row i are ``cell[offset[i]:offset[i + 1]]``.
    fix_offset : int64[n + 1]
    fix_slot : int64[]
        Slots of the fixes of each member, ascending.
    fix_cell : int32[]
    seed : uint64
        Decoys are drawn by it.

    Returns
    -------
    offset : int64[c + 1]
    cell : int32[]
        As given, of regions that are no larger.
    """
    found, ends, kept = np.empty_like(cell), np.zeros(len(offset), np.int64), 0
    needed = np.zeros(len(graph.area), np.int64)
    for i in range(len(start)):
        own, mark, any_cell = cell[offset[i] : offset[i + 1]], i + 1, -1
        first, last = end[i], start[i]
        for m in range(len(fix_offset) - 1):
            slots = fix_slot[fix_offset[m] : fix_offset[m + 1]]
            low, high = np.searchsorted(slots, start[i]), np.searchsorted(slots, end[i])
            for at in range(fix_offset[m] + low, fix_offset[m] + high):
                any_cell = fix_cell[at]
                needed[any_cell] = mark
                first, last = min(first, fix_slot[at]), max(last, fix_slot[at])
        start[i], end[i] = first, last + 1
        _regions.begin(graph, work)
        size = 0
        for one in own:
            size = _regions.add(graph, work, size, one)
        whole = _regions.area(graph, work, size)
        # Anew from the cells of the row's fixes. Where that would be larger, the row keeps the region it had, below.
        size = _connected(graph, work, needed, mark, any_cell, own)
        size = _regions.grow(graph, work, size, whole, True)
        if size:
            size = _disguised(graph, work, size, whole, needed, mark, seed + np.uint64(i) * _STEP)
        if not size:
            _regions.begin(graph, work)
            for one in own:
                size = _regions.add(graph, work, size, one)
        if kept + size > len(found):  # a smaller region may have more cells
            found = np.concatenate((found, np.empty_like(found), work.cells[:size]))
        found[kept : kept + size] = np.sort(work.cells[:size])
        kept += size
        ends[i + 1] = kept
    return ends, found[:kept].copy()


@_kernel
def _connected(graph: Graph, work: Work, needed: Int, mark: int, cell: int, own: NDArray[np.int32]) -> Any:
    """Begin a region with the cells that are needed, joined one after another by the cheapest path to the next."""
    missing = -1
    for one in own:
        missing += needed[one] == mark
    _regions.begin(graph, work)
    size = _regions.add(graph, work, 0, cell)
    while missing:
        at = end = _regions.cheapest(graph, work, work.cells[:size], needed, mark)
        while at >= 0:
            missing -= needed[at] == mark and work.inside[at] != work.stamp[0]
            at = work.before[at]
        size = _regions.add_path(graph, work, size, end)
    _regions.settle(work, size)
    return size


@_kernel
def _disguised(graph: Graph, work: Work, size: int, most: int, needed: Int, mark: int, seed: Any) -> Any:
    """Add cells to the region at hand until it tells little of where fixes are; give its size, 0 if larger than `most`.

    A cell that neither l nor t nor the region's connection needs is there for another reason: most of them, for a fix.
    So of those that could be taken out, at least `_DECOYS` times as many as hold fixes are to hold none. They are drawn
    at random from the neighbours that leave the region good.
    """
    while graph.least > 0 or graph.most < np.inf:  # else nothing is promised of what is there
        missing = 0
        for cell in work.cells[:size]:
            if _spare(graph, work, cell):
                missing += _DECOYS if needed[cell] == mark else -1
        if missing <= 0:
            return size
        for _ in range(missing):
            seed += _STEP
            cell = _drawn(graph, work, size, seed)
            if cell < 0:
                return 0
            size = _regions.add(graph, work, size, cell)
        if _regions.area(graph, work, size) > most:
            return 0
    return size


@_kernel
def _drawn(graph: Graph, work: Work, size: int, seed: Any) -> Any:
    """Draw a neighbour of the region at hand that leaves its shares near enough to the city's; -1 if there is none."""
    stamp, drawn, least = work.stamp[0], -1, np.uint64(0)
    for cell in work.cells[:size]:
        for near in graph.near[graph.first[cell] : graph.first[cell + 1]]:
            if work.inside[near] == stamp:
                continue
            rank = _mixed(seed ^ np.uint64(near))
            if (drawn < 0 or rank < least) and _near_enough(graph, work, near, 1):
                drawn, least = near, rank
    return drawn


@_kernel
def _mixed(number: Any) -> Any:
    """Mix the bits of a number (the end of splitmix64)."""
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@_kernel
def _near_enough(graph: Graph, work: Work, cell: int, sign: int) -> Any:
    """Whether the region at hand has its categories and shares with a cell (1), or without one of its own (-1)."""
    for at in range(graph.first_kind[cell], graph.first_kind[cell + 1]):
        work.pois[graph.kind[at]] += sign * graph.many[at]
    good = _regions.categories(work.pois) >= graph.least
    if good and graph.most < np.inf:
        good = _regions.divergence(work.pois, graph) <= graph.most
    for at in range(graph.first_kind[cell], graph.first_kind[cell + 1]):
        work.pois[graph.kind[at]] -= sign * graph.many[at]
    return good


@_kernel
def _spare(graph: Graph, work: Work, cell: int) -> Any:
    """Whether the region at hand would be good without a cell: diverse, near enough to the city, in one piece."""
    if not _near_enough(graph, work, cell, -1):
        return False
    work.inside[cell] = 0
    whole = _whole(graph, work, cell)
    work.inside[cell] = work.stamp[0]
    return whole


@_kernel
def _whole(graph: Graph, work: Work, cell: int) -> Any:
    """Whether the neighbours in the region of a cell that was taken out still reach one another in it."""
    stamp, others, queue = work.stamp[0], 0, 0
    work.search[0] += 1
    search = work.search[0]
    for at in range(graph.first[cell], graph.first[cell + 1]):
        if work.inside[graph.near[at]] == stamp:
            others += 1
            if others == 1:
                work.heap[0] = graph.near[at]
                work.seen[graph.near[at]] = search
                queue = 1
    left, head = others - 1, 0
    while left > 0 and head < queue:
        here = work.heap[head]
        head += 1
        for at in range(graph.first[here], graph.first[here + 1]):
            near = graph.near[at]
            if work.inside[near] == stamp and work.seen[near] != search:
                work.seen[near] = search
                work.heap[queue] = near
                queue += 1
                left -= _borders(graph, cell, near)
    return left <= 0


@_kernel
def _borders(graph: Graph, cell: int, other: int) -> Any:
    """Whether two cells are neighbours."""
    for near in graph.near[graph.first[cell] : graph.first[cell + 1]]:  # noqa: SIM110 - quicker than a generator
        if near == other:
            return True
    return False
