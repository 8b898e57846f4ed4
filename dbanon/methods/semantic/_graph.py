"""Cells as a graph: who borders on whom, how large each is, and what is in it, in the form that kernels take."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.base.errors import DataError, InfeasibleError
from dbanon.base.trajectory import Cells, Float, Int
from dbanon.methods.semantic import Parameters

MM2_PER_M2 = 1e6
"""Areas are whole square millimetres: sums are exact, whatever the order, and equal ones are equal."""

_MIN_OVERLAP_M2 = 1.0


class Graph(NamedTuple):
    """Cells and what a region of them must hold."""

    first: Int  # [c + 1]: the neighbours of cell i are ``near[first[i]:first[i + 1]]``, ascending
    near: NDArray[np.int32]  # [2e]
    area: Int  # [c]: square millimetres
    # In cell i are ``many[a]`` points of interest of category ``kind[a]`` for a from ``first_kind[i]`` to
    # ``first_kind[i + 1]``.
    first_kind: Int  # [c + 1]
    kind: NDArray[np.int32]  # []
    many: NDArray[np.int32]  # []
    log_share: Float  # [q]: logarithm of each category's share of all of the city's; each category is somewhere
    logs: Float  # [n + 1]: logarithm of every number of points of interest there can be
    least: int  # categories that a region must have (the paper's l)
    most: float  # how far its shares may be from the city's (the paper's t), rounding allowed for


def build_graph(cells: Cells, params: Parameters) -> Graph:
    """Check that regions can grow in a dataset's cells, and put them in the form that kernels take.

    Raises `DataError` if there are no cells, or they overlap; `InfeasibleError` if the city as a whole has fewer
    categories than a region must have.
    """
    count = len(cells.cell_id)
    if not count:
        raise DataError(
            "A run of semantic must have cells. The dataset has none. Load them: `dbanon load stations` or `dbanon "
            "load cells`."
        )
    if cells.overlap_m2 >= _MIN_OVERLAP_M2:
        raise DataError(
            f"The cells of a run of semantic must not overlap. They cover {cells.overlap_m2:.0f} m2 more than once. "
            f"Load others."
        )
    total = cells.pois.sum(axis=0)
    present = total > 0
    demands = params.l > 0 or np.isfinite(params.t)
    if demands and not present.any():
        raise InfeasibleError(
            "A run of semantic must have points of interest in its cells. There are none. Load some that lie in "
            "them: `dbanon load pois`."
        )
    if present.sum() < params.l:
        raise InfeasibleError(
            f"The city must have at least l = {params.l} categories of points of interest inside its cells. It has "
            f"{present.sum()}. Choose a lower l, or load points of more categories."
        )
    ends = cells.neighbours.T
    # Each border in either direction, as in figure 5(b).
    one, other = np.concatenate([ends, ends[::-1]], axis=1)
    order = np.lexsort((other, one))
    # A category that the city lacks has a share of 0, by which section III-A divides.
    pois, total = cells.pois[:, present], total[present]
    where, kind = np.nonzero(pois)
    return Graph(
        first=np.searchsorted(one[order], np.arange(count + 1)).astype(np.int64),
        near=other[order].astype(np.int32),
        area=np.maximum(np.rint(cells.area_m2 * MM2_PER_M2), 1).astype(np.int64),
        first_kind=np.searchsorted(where, np.arange(count + 1)).astype(np.int64),
        kind=kind.astype(np.int32),
        many=pois[where, kind].astype(np.int32),
        log_share=np.log(total / max(total.sum(), 1)),
        logs=np.log(np.maximum(np.arange(int(total.sum()) + 1), 1)),
        least=params.l,
        most=params.t + 1e-9,
    )


def select_cells(graph: Graph, cells: Int) -> Graph:
    """Keep some cells (ascending) and the borders between them; what the whole city has stays."""
    number = np.full(len(graph.area), -1)
    number[cells] = np.arange(len(cells))
    ends, kinds = np.diff(graph.first), np.diff(graph.first_kind)
    inner = (np.repeat(number, ends) >= 0) & (number[graph.near] >= 0)
    held = np.repeat(number, kinds) >= 0
    ranks = np.arange(len(cells) + 1)
    return graph._replace(
        first=np.searchsorted(np.repeat(number, ends)[inner], ranks).astype(np.int64),
        near=number[graph.near][inner].astype(np.int32),
        area=graph.area[cells],
        first_kind=np.searchsorted(np.repeat(number, kinds)[held], ranks).astype(np.int64),
        kind=graph.kind[held],
        many=graph.many[held],
    )
