"""Algorithm 2: two trajectories become one whose rows do not overlap and hold a fix of each member."""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.semantic import growth
from benchmarks.papers.semantic.growth import Pool, Work, compile_kernel
from benchmarks.papers.semantic.loss import Path, Scale, Tables, bound_area, compute_space_loss, compute_time_loss
from dbanon.base.trajectory import Float, Int
from dbanon.methods.semantic._graph import Graph

_BOUND_FACTOR = 1 - 1e-12  # a lower bound of a loss may be rounded up


@compile_kernel
def merge(
    graph: Graph, pool: Pool, work: Work, tables: Tables, scale: Scale, longer: Path, shorter: Path, n_longer: int,
    n_shorter: int,
) -> Path:  # fmt: skip
    """Merge each point of the longer trajectory with the point of the other that it loses least with.

    Parameters
    ----------
    longer, shorter : Path
        The longer first; where both are as long, the second in the order of the run.
    n_longer, n_shorter : int
        People in each.

    Returns
    -------
    Path
        In the order of `shorter`: periods may overlap.

    Raises
    ------
    PoolFullError
        If the pool is full.
    """
    points = len(shorter.start)
    start, end, region = shorter.start.copy(), shorter.end.copy(), shorter.region.copy()
    met = np.zeros(points, np.bool_)
    least, loss = np.empty(points), np.empty(points)
    for i in range(len(longer.start)):
        # Section IV-B: the merged point takes the place of the other's, so later points find it as it is now.
        j, _ = _find_best(
            graph, pool, work, tables, scale, longer.start[i], longer.end[i], longer.region[i], start, end, region,
            least, loss, n_longer, n_shorter, False,
        )  # fmt: skip
        region[j] = _unite(graph, pool, work, longer.region[i], region[j])
        start[j], end[j], met[j] = min(start[j], longer.start[i]), max(end[j], longer.end[i]), True
    # What is left over goes to what was merged.
    kept = np.flatnonzero(met)
    for left in np.flatnonzero(~met):
        i = int(left)
        a, b, c = start[kept], end[kept], region[kept]
        k, _ = _find_best(
            graph, pool, work, tables, scale, start[i], end[i], region[i], a, b, c, least[: len(kept)],
            loss[: len(kept)], n_shorter, n_longer, False,
        )  # fmt: skip
        j = kept[k]
        region[j] = _unite(graph, pool, work, region[i], region[j])
        start[j], end[j] = min(start[j], start[i]), max(end[j], end[i])
    return Path(start[kept], end[kept], region[kept])


@compile_kernel
def compute_loss(
    graph: Graph, pool: Pool, work: Work, tables: Tables, scale: Scale, longer: Path, shorter: Path, n_longer: int,
    n_shorter: int, nearly: Any,
) -> Any:  # fmt: skip
    """C_ij: the mean of what each point of the longer loses with that of the other which suits it best.

    For single trajectories `compute_cells_loss` finds the same, quicker. `nearly` takes a bound of a merge's
    area for the area: it grows no region.
    """
    total, least, time = 0.0, np.empty(len(shorter.start)), np.empty(len(shorter.start))
    for i in range(len(longer.start)):
        _, lost = _find_best(
            graph, pool, work, tables, scale, longer.start[i], longer.end[i], longer.region[i], shorter.start,
            shorter.end, shorter.region, least, time, n_longer, n_shorter, nearly,
        )  # fmt: skip
        total += lost
    return total / len(longer.start)


@compile_kernel
def _find_best(
    graph: Graph, pool: Pool, work: Work, tables: Tables, scale: Scale, start: int, end: int, region: int, starts: Int,
    ends: Int, regions: NDArray[np.int32], least: Float, loss: Float, n_one: int, n_other: int, nearly: Any,
) -> Any:  # fmt: skip
    """Find the point that one loses least with, and how much; of equal ones the first.

    Points come up by what they lose at least, so the regions of few are merged to see what they lose.
    """
    area = pool.area[region]
    for j in range(len(starts)):
        loss[j] = compute_time_loss(scale, start, end, starts[j], ends[j], n_one, n_other)
        theirs = pool.area[regions[j]]
        least[j] = loss[j] + compute_space_loss(scale, max(area, theirs), area, theirs, n_one, n_other)
    best, index, sharper = np.inf, -1, np.zeros(len(starts), np.bool_)
    while True:
        j = int(np.argmin(least))
        # Kept true: `least` is a lower bound of each loss not computed yet, infinite of the others.
        if least[j] * _BOUND_FACTOR > best:
            return index, best
        theirs = pool.area[regions[j]]
        if not sharper[j]:
            sharper[j] = True
            bound = bound_area(graph, pool, tables, region, regions[j])
            least[j] = max(least[j], loss[j] + compute_space_loss(scale, bound, area, theirs, n_one, n_other))
            continue
        if nearly:
            return j, least[j]
        whole = pool.area[_unite(graph, pool, work, region, regions[j])]
        lost = loss[j] + compute_space_loss(scale, whole, area, theirs, n_one, n_other)
        if lost < best or (lost == best and j < index):
            best, index = lost, j
        least[j] = np.inf


@compile_kernel
def _unite(graph: Graph, pool: Pool, work: Work, one: int, other: int) -> Any:
    """Merge two regions; where one is a cell of the other, nothing but the other is to grow."""
    if one < len(graph.area) and one != other:
        cells = pool.cell[pool.offset[other] : pool.offset[other + 1]]
        at = np.searchsorted(cells, one)
        if at < len(cells) and cells[at] == one:
            one = other
    return growth.merge_regions(graph, pool, work, one, other)


# ---- reshaping -------------------------------------------------------------------------------------------------------


@compile_kernel
def reshape(graph: Graph, pool: Pool, work: Work, path: Path, fix_offset: Int, fix_slot: Int) -> Path:
    """Cut what overlaps, then merge what does not hold a fix of each member with a neighbour.

    Parameters
    ----------
    fix_offset : int64[n + 1]
    fix_slot : int64[]
        Slots of the fixes of each member, ascending.

    Raises
    ------
    PoolFullError
        If the pool is full.
    """
    # A cut that adds a piece leaves one before the overlap for good, which ends at one of 2 n bounds: 3 n at most.
    room = 4 * len(path.start) + 4
    pieces = Path(np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int32))
    count = 0
    for i in range(len(path.start)):
        count = _insert(pool, pieces, 0, count, path.start[i], path.end[i], path.region[i])
    count = _cut(graph, pool, work, pieces, count)
    count = _merge_unheld(graph, pool, work, pieces, count, fix_offset, fix_slot)
    return Path(pieces.start[:count].copy(), pieces.end[:count].copy(), pieces.region[:count].copy())


@compile_kernel
def _cut(graph: Graph, pool: Pool, work: Work, pieces: Path, count: int) -> Any:
    """Cut the first two pieces that overlap in before, overlap and after, or merge them, until none do.

    The region of the overlap holds both others, so a cut never costs more (sum of period x area) than a merge, and as
    much only where what is cut off is as large.
    """
    start, end, region = pieces
    i = 0
    while i + 1 < count:
        # Kept true: pieces are in order of start, and those before i overlap none.
        if start[i + 1] >= end[i]:
            i += 1
            continue
        middle, early, late = start[i + 1], min(end[i], end[i + 1]), max(end[i], end[i + 1])
        first, last = region[i], region[i] if end[i] > end[i + 1] else region[i + 1]
        both = _unite(graph, pool, work, region[i], region[i + 1])
        cut_before = start[i] < middle and pool.area[first] < pool.area[both]
        cut_after = early < late and pool.area[last] < pool.area[both]
        begin = start[i]
        for values in (start, end):
            values[i : count - 2] = values[i + 2 : count]
        region[i : count - 2] = region[i + 2 : count]
        count -= 2
        if cut_before or cut_after:
            if begin < middle:
                count = _insert(pool, pieces, i, count, begin, middle, first)
            count = _insert(pool, pieces, i, count, middle, early, both)
            if early < late:
                count = _insert(pool, pieces, i, count, early, late, last)
        else:
            count = _insert(pool, pieces, i, count, begin, late, both)
    return count


@compile_kernel
def _merge_unheld(
    graph: Graph, pool: Pool, work: Work, pieces: Path, count: int, fix_offset: Int, fix_slot: Int
) -> Any:
    """Merge the first piece without a fix of each member with the neighbour that costs less, until each has them."""
    start, end, region = pieces
    i = 0
    # Each turn goes on or merges two pieces, so this ends. A single piece holds all fixes of the members.
    while i < count:
        if count == 1 or _has_all(start[i], end[i], fix_offset, fix_slot):
            i += 1
            continue
        before = _compute_cost(graph, pool, work, pieces, i - 1) if i else np.inf
        after = _compute_cost(graph, pool, work, pieces, i) if i + 1 < count else np.inf
        i = i - 1 if before <= after else i
        region[i] = _unite(graph, pool, work, region[i], region[i + 1])
        end[i] = end[i + 1]
        for values in (start, end):
            values[i + 1 : count - 1] = values[i + 2 : count]
        region[i + 1 : count - 1] = region[i + 2 : count]
        count -= 1
    return count


@compile_kernel
def _compute_cost(graph: Graph, pool: Pool, work: Work, pieces: Path, i: int) -> Any:
    """What it costs to merge a piece with the next: period x area."""
    start, end, region = pieces
    whole = pool.area[_unite(graph, pool, work, region[i], region[i + 1])]
    apart = (
        float(end[i] - start[i]) * pool.area[region[i]] + float(end[i + 1] - start[i + 1]) * pool.area[region[i + 1]]
    )
    return float(end[i + 1] - start[i]) * whole - apart


@compile_kernel
def _has_all(start: int, end: int, fix_offset: Int, fix_slot: Int) -> Any:
    """Whether each member has a fix in a period."""
    for m in range(len(fix_offset) - 1):
        slots = fix_slot[fix_offset[m] : fix_offset[m + 1]]
        at = np.searchsorted(slots, start)
        if at == len(slots) or slots[at] >= end:
            return False
    return True


@compile_kernel
def _insert(pool: Pool, pieces: Path, low: int, count: int, start: int, end: int, region: int) -> Any:
    """Put a piece where it belongs from `low` on; give how many there are then."""
    at = count
    while at > low and _precedes(
        pool, start, end, region, pieces.start[at - 1], pieces.end[at - 1], pieces.region[at - 1]
    ):
        pieces.start[at], pieces.end[at] = pieces.start[at - 1], pieces.end[at - 1]
        pieces.region[at] = pieces.region[at - 1]
        at -= 1
    pieces.start[at], pieces.end[at], pieces.region[at] = start, end, region
    return count + 1


@compile_kernel
def _precedes(pool: Pool, start: int, end: int, region: int, start2: int, end2: int, region2: int) -> Any:
    """Order of pieces: by start, end and cells."""
    if start != start2:
        return start < start2
    if end != end2:
        return end < end2
    first, second = pool.offset[region], pool.offset[region2]
    many, others = pool.offset[region + 1] - first, pool.offset[region2 + 1] - second
    for i in range(min(many, others)):
        if pool.cell[first + i] != pool.cell[second + i]:
            return pool.cell[first + i] < pool.cell[second + i]
    return many < others
