"""What a merge of two points loses in time and space (section III-B of the paper), and what one of two trajectories."""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.semantic import growth
from benchmarks.papers.semantic.growth import Pool, Work, compile_kernel
from dbanon.base.trajectory import Int
from dbanon.methods.semantic._graph import Graph
from dbanon.methods.semantic._losses import Scale


class Path(NamedTuple):
    """The points of one trajectory, or the rows of a group, in order of time."""

    start: Int  # [p]; start, end: slots, half-open
    end: Int  # [p]
    region: NDArray[np.int32]  # [p]: numbers of the pool


class Tables(NamedTuple):
    """What is known of pairs of cells, square millimetres."""

    # Area of the cheapest path from one cell to the other, both included: no region that holds both is smaller.
    apart: Int  # [c, c]
    # Area of their merge, from the first to the second; 0 where it was not asked for yet, and where it was found to be
    # above some area, this area with a minus.
    area: Int  # [c, c]


def make_tables(graph: Graph, *, exact: bool) -> Tables:
    """Make the tables of all pairs of cells.

    Where the areas need not be exact, that of a merge is taken for what is known without one: it is not smaller than
    the path between both cells, and seldom much smaller or larger than the smaller of the regions that both grow to
    alone (an eighth is more than 2.8 times as large). The merge of two points is exact in either case.
    """
    count = len(graph.area)
    made = Tables(apart=np.zeros((count, count), np.int64), area=np.zeros((count, count), np.int64))
    work, alone = growth.make_work(graph), np.empty(count, np.int64)
    _measure(graph, work, made.apart)
    if not exact:
        _grow_each(graph, work, alone)
        np.minimum(alone[:, None], alone[None], out=made.area)
        np.maximum(made.area, made.apart, out=made.area)
    return made


@compile_kernel
def _measure(graph: Graph, work: Work, apart: Int) -> None:
    for cell in range(len(graph.area)):
        growth.spread(graph, work, cell, apart[cell])


@compile_kernel
def _grow_each(graph: Graph, work: Work, alone: Int) -> None:
    for cell in range(len(graph.area)):
        growth.begin(graph, work)
        size = growth.add(graph, work, 0, cell)
        size = growth.grow(graph, work, size, growth.UNLIMITED_AREA)
        alone[cell] = growth.measure_area(graph, work, size)


@compile_kernel
def find_pair_area(graph: Graph, work: Work, tables: Tables, one: int, other: int, most: float, far: float) -> Any:
    """Area of the merge of two cells, or anything above `most` where it is larger than that.

    `far` is the largest `most` of any caller. Two threads that ask at once find the same, or bounds that are both true.
    """
    known = tables.area[one, other]
    if known < 0 and -known <= most:
        known = 0
    if known == 0:
        cells = np.array([one, other], np.int32)
        size = growth.connect(graph, work, cells[:1], cells[1:])
        further = int(min(2 * most, far))  # it may be asked again, for more
        size = growth.grow(graph, work, size, further)
        known = growth.measure_area(graph, work, size) if size else -further - 1
        tables.area[one, other] = known
    return abs(known)


@compile_kernel
def compute_time_loss(scale: Scale, a0: int, a1: int, b0: int, b1: int, n_a: int, n_b: int) -> Any:
    """Weighted loss in time of two periods that become one."""
    # The loss in time of section III-B: the mean over the people of both sides, capped.
    whole = max(a1, b1) - min(a0, b0)
    lost = ((whole - (a1 - a0)) * n_a + (whole - (b1 - b0)) * n_b) / (n_a + n_b)
    return scale.weight_time * min(lost / scale.span, 1.0)


@compile_kernel
def compute_space_loss(scale: Scale, whole: int, one: int, other: int, n_a: int, n_b: int) -> Any:
    """Weighted loss in space of two areas that become a larger one."""
    # The loss in space of section III-B, likewise.
    lost = ((whole - one) * float(n_a) + (whole - other) * float(n_b)) / (n_a + n_b)
    return (1 - scale.weight_time) * min(lost / scale.area, 1.0)


@compile_kernel
def bound_area(graph: Graph, pool: Pool, tables: Tables, one: int, other: int) -> Any:
    """An area that no merge of two regions is below."""
    count = len(graph.area)
    if one < count and other < count:
        return tables.apart[one, other]
    least = max(pool.area[one], pool.area[other])
    if one >= count and other >= count:
        return least
    cell, region = (one, other) if one < count else (other, one)
    nearest = np.iinfo(np.int64).max
    for at in range(pool.offset[region], pool.offset[region + 1]):
        other_cell = pool.cell[at]
        if other_cell == cell:
            return least
        nearest = min(nearest, tables.apart[cell, other_cell] - graph.area[other_cell])
    return pool.area[region] + nearest


@compile_kernel
def find_largest_area(scale: Scale, loss: float, one: int, other: int, n_one: int, n_other: int) -> Any:
    """The area above which a merge of two areas loses more in space than a given loss, or all there is to lose."""
    mean = (one * float(n_one) + other * float(n_other)) / (n_one + n_other)
    share = loss / (1 - scale.weight_time) if scale.weight_time < 1 else 1.0
    return (mean + min(share, 1.0) * scale.area) * (1 + 1e-9)


@compile_kernel
def compute_cells_loss(
    graph: Graph, work: Work, tables: Tables, scale: Scale, longer: Path, shorter: Path, step: int, limit: float
) -> Any:
    """C_ij of two single trajectories: the mean of what each point of the longer loses with the one that suits it best.

    Parameters
    ----------
    longer, shorter : Path
        Of cells; starts and ends ascend in both.
    step : int
        Every step-th point of `longer` is looked at: all with 1, else the mean is an estimate.
    limit : float
        Infinity is given for any loss above this.
    """
    total, points = 0.0, 0
    count = (len(longer.start) + step - 1) // step
    starts, ends, regions, areas = shorter.start, shorter.end, shorter.region, graph.area
    for i in range((len(longer.start) - 1) % step // 2, len(longer.start), step):
        best = np.inf
        start, end, cell = longer.start[i], longer.end[i], longer.region[i]
        apart, known = tables.apart[cell], tables.area[cell]
        middle = np.searchsorted(starts, start, side="right")
        # Outwards in time: near periods come first and lower `best`, which lets most of the others be passed over.
        for way in (-1, 1):
            j = middle - 1 if way < 0 else middle
            while 0 <= j < len(starts):
                # What `compute_time_loss` and `compute_space_loss` say: handing arrays on costs more than both.
                whole = max(end, ends[j]) - min(start, starts[j])
                lost = ((whole - (end - start)) + (whole - (ends[j] - starts[j]))) / 2
                loss = scale.weight_time * min(lost / scale.span, 1.0)
                if loss < best:
                    there = regions[j]
                    mine, theirs, size = float(areas[cell]), float(areas[there]), apart[there]
                    lost = ((size - mine) + (size - theirs)) / 2
                    # No region that holds both cells is smaller than the path between them: the merge is grown only
                    # where this bound is below the best loss.
                    least = loss + (1 - scale.weight_time) * min(lost / scale.area, 1.0)
                    if least < best:
                        size = known[there]
                        if size <= 0:
                            most = find_largest_area(scale, best - loss, areas[cell], areas[there], 1, 1)
                            far = find_largest_area(scale, 1.0, areas[cell], areas[there], 1, 1)
                            size = find_pair_area(graph, work, tables, cell, there, most, far)
                        lost = ((size - mine) + (size - theirs)) / 2
                        best = min(best, loss + (1 - scale.weight_time) * min(lost / scale.area, 1.0))
                elif (ends[j] <= end) if way < 0 else (ends[j] >= end):
                    break  # from here on, periods lie further and further away
                j += way
        total, points = total + best, points + 1
        if total > limit * count:
            return np.inf
    return total / points
