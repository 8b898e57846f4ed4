"""Which regions are exactly the cells they are said to be made of: the outlines of these add up to theirs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from dbanon.attacks.shared.keys import find, sort_distinct
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Bool, Int, Int32

_ELEMENT_BYTES = 12  # bytes of an element of bigint[] as the server sends it: its length, then 8 bytes


def build_outlines(
    cells: Mapping[str, NDArray[Any]], regions: Iterable[Mapping[str, NDArray[Any]]]
) -> tuple[Int, Int, NDArray[np.int32]]:
    """Find the regions that are exactly the cells they are said to be made of, each once.

    Polygons whose rings run counter-clockwise, and clockwise about holes, are given by these: around a point inside
    they wind once, around all others not at all. An edge that two of the cells share is run once each way, and adds up
    to nothing. So where what is left of the cells' edges is the region's outline, edge by edge, each point of the
    region is in exactly one of the cells, and each point of these in the region: no part of a cell is left out, and
    nothing added, however small.

    Parameters
    ----------
    cells : mapping
        ``cell_id``, ascending, and ``outline``: WKB, directed as above.
    regions : iterable of mappings
        ``region_no``, ``outline``, and ``cells``: of the cells it is said to be made of, elements of ``bigint[]``.

    Returns
    -------
    region_no, number : int64[s]
        The regions that are what they are said to be, and of how many cells.
    cell : int32[h]
        Indices of these cells, region by region.

    Notes
    -----
    O(edges log corners) time. Regions that have other corners than the cells, as cells that meet only nearly leave
    them, are not among these: they have to be looked at as polygons.
    """
    city, ids = _CellEdges.from_outlines(cells["outline"]), cells["cell_id"]
    nos, numbers, held = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for batch in regions:
        number = np.array([len(sent) // _ELEMENT_BYTES for sent in batch["cells"]], np.int64)
        sent = np.frombuffer(b"".join(batch["cells"]), np.uint8).reshape(-1, _ELEMENT_BYTES)[:, 4:]
        cell = find(ids, np.ascontiguousarray(sent).view(">i8")[:, 0].astype(np.int64)).astype(np.int32)
        edge, owner = city.find_edges(batch["outline"])
        ends, low = np.concatenate([[0], np.cumsum(number)]), np.searchsorted(owner, np.arange(len(number) + 1))
        same = number > 0
        # An edge or a cell that is not the city's: it could not add up, and must not be read below.
        same[owner[edge == 0]] = False
        same[np.repeat(np.arange(len(number)), number)[cell < 0]] = False
        _add_up(low, edge, ends, cell, city.low, city.edge, np.zeros(len(city.pairs) + 1, np.int64), same)
        nos.append(batch["region_no"][same])
        numbers.append(number[same])
        held.append(cell[np.repeat(same, number)])
    return np.concatenate(nos), np.concatenate(numbers), np.concatenate(held)


@dataclass(frozen=True)
class _CellEdges:
    """The edges of all cells: an edge is two corners, and which way it is run."""

    corners: NDArray[np.complex128]  # [v]: sorted
    pairs: Int  # [e]: the edges, sorted: index of the lesser corner, times v, plus that of the greater
    low: Int  # [c + 1]: where the edges of each cell begin
    # The edges of each cell: the index in `pairs` plus one, negative where it is run from the greater corner.
    edge: Int  # [m]

    @classmethod
    def from_outlines(cls, outlines: NDArray[Any]) -> "_CellEdges":
        """Number the corners and edges of cells."""
        begin, end, _ = _split_edges(outlines)
        corners = np.unique(begin)
        ends = np.searchsorted(corners, begin), np.searchsorted(corners, end)
        pairs, none = sort_distinct(np.minimum(*ends) * len(corners) + np.maximum(*ends)), np.empty(0, np.int64)
        edge, owner = cls(corners, pairs, none, none).find_edges(outlines)
        return cls(corners, pairs, np.searchsorted(owner, np.arange(len(outlines) + 1)), edge)

    def find_edges(self, outlines: NDArray[Any]) -> tuple[Int, Int]:
        """Give the edges of polygons as in `edge`, 0 for those that no cell has, and whose they are, ascending."""
        begin, end, owner = _split_edges(outlines)
        first, second = (np.minimum(np.searchsorted(self.corners, at), len(self.corners) - 1) for at in (begin, end))
        edge = find(self.pairs, np.minimum(first, second) * len(self.corners) + np.maximum(first, second)) + 1
        # A corner that no cell has lands on another one, from which it differs.
        known = (self.corners[first] == begin) & (self.corners[second] == end)
        return np.where(known, np.where(first < second, edge, -edge), 0), owner


def _split_edges(outlines: NDArray[Any]) -> tuple[NDArray[np.complex128], NDArray[np.complex128], Int]:
    """Take polygons apart into edges: where each begins and ends, x + iy, and whose it is, ascending."""
    polygons, of = shapely.get_parts(shapely.from_wkb(outlines), return_index=True)
    rings, polygon = shapely.get_rings(polygons, return_index=True)
    points, ring = shapely.get_coordinates(rings, return_index=True)
    corner = np.ascontiguousarray(points).view(np.complex128)[:, 0]
    edge = np.flatnonzero((ring[1:] == ring[:-1]) & (corner[1:] != corner[:-1]))
    return corner[edge], corner[edge + 1], of[polygon[ring[edge]]]


def prepare() -> None:
    """Compile for the types that outlines are read in."""
    zero, none = np.zeros(1, np.int64), np.empty(0, np.int64)
    _add_up(zero, none, zero, np.empty(0, np.int32), zero, none, zero, np.empty(0, bool))


@compile_kernel
def _add_up(low: Int, edge: Int, ends: Int, cell: Int32, cell_low: Int, cell_edge: Int, left: Int, same: Bool) -> None:
    """Keep `same` where the cells' edges add up to the outline; `left` is what is left of each: 0 between regions."""
    for r in range(len(same)):
        if not same[r]:
            continue
        for e in edge[low[r] : low[r + 1]]:
            left[abs(e)] += np.sign(e)
        for c in cell[ends[r] : ends[r + 1]]:
            for e in cell_edge[cell_low[c] : cell_low[c + 1]]:
                left[abs(e)] -= np.sign(e)
        # No edge may be left over; what has been read goes back to 0, or it would count with the next region.
        for e in edge[low[r] : low[r + 1]]:
            same[r] &= left[abs(e)] == 0
            left[abs(e)] = 0
        for c in cell[ends[r] : ends[r + 1]]:
            for e in cell_edge[cell_low[c] : cell_low[c + 1]]:
                same[r] &= left[abs(e)] == 0
                left[abs(e)] = 0
