"""What is known of the atoms of a city, and regions made of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.base.trajectory import Bool, Cells, Float, Int
from dbanon.methods.semantic import Parameters, _partition
from dbanon.methods.semantic._graph import Graph

_SLACK_NATS = 1e-9  # of comparisons with t


@dataclass(frozen=True, kw_only=True, eq=False)
class City:
    """Atoms, from public data alone: nothing after this sees a cell."""

    atom: Int  # [c]: of each cell
    area: Int  # [a]: square millimetres
    pois: Int  # [a, q]
    offset: Int  # [a + 1]: the cells of atom i are ``cell[offset[i]:offset[i + 1]]``, ascending
    cell: Int  # [c]
    near: Int  # [e, 2]: atoms that share an edge, either way, sorted

    def __len__(self) -> int:
        return len(self.area)

    def list_cells(self, atoms: Int) -> Int:
        """Cells of a set of atoms, ascending."""
        return np.sort(np.concatenate([self.cell[self.offset[one] : self.offset[one + 1]] for one in atoms]))


def build_city(cells: Cells, graph: Graph, *, is_new: bool) -> City:
    """Cut a city into atoms, or take those that were published of it.

    Parameters
    ----------
    graph : Graph
        Of the cells, with the l and t that an atom must have.
    is_new : bool
        Whether the city is cut again.
    """
    # A cell may have been in an atom that has l or t no more, as points of interest change: such atoms are merged.
    stored = None if is_new else cells.atom
    atom = _partition.cut(graph) if stored is None else _partition.merge_failing(graph, stored)
    count = int(atom.max()) + 1
    area, pois = np.zeros(count, np.int64), np.zeros((count, cells.pois.shape[1]), np.int64)
    np.add.at(area, atom, graph.area)
    np.add.at(pois, atom, cells.pois)
    ends = atom[np.concatenate([cells.neighbours, cells.neighbours[:, ::-1]])]
    order = np.argsort(atom, kind="stable")
    return City(
        atom=atom,
        area=area,
        pois=pois,
        offset=np.searchsorted(atom[order], np.arange(count + 1)),
        cell=order,
        near=np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0),
    )


def measure_atoms(of: City, graph: Graph) -> dict[str, float]:
    """How many atoms there are, the side of a square as large as that of a cell on average, and how many there can be.

    The last is an estimate, and missing where t is infinite: there, cells with l categories are atoms.
    """
    most = _partition.estimate_atom_count(graph)
    known = {"atoms": float(len(of)), "atom_side_m": _partition.compute_cost(graph, of.atom) ** 0.5}
    return known if np.isinf(most) else {**known, "atoms_allowed": most}


def grow_region(of: City, atoms: NDArray[np.integer[Any]], params: Parameters) -> Int:
    """Add atoms to a set until it has l and t: each time the neighbour that does most for l, then t, then is smallest.

    A set of atoms that each have l and t has them too, so the function adds nothing to it. The result depends on the
    set alone.
    """
    own = atoms.astype(np.int64)
    count, total = of.pois[own].sum(axis=0), of.pois.sum(axis=0)
    while not _has_l_and_t(count[None], total, params)[0]:
        beside = np.setdiff1d(of.near[np.isin(of.near[:, 0], own), 1], own)
        if not len(beside):  # an island that lacks something as a whole
            beside = np.setdiff1d(np.arange(len(of)), own)
        counts = count + of.pois[beside]
        lacking = np.maximum(params.l - (counts > 0).sum(axis=1), 0)
        apart = np.maximum(compute_divergences(counts, total), params.t)
        best = int(np.lexsort((of.area[beside], apart, lacking))[0])
        own, count = np.append(own, beside[best]), counts[best]
    return np.sort(own)


def _has_l_and_t(count: Int, total: Int, params: Parameters) -> Bool:
    return np.asarray(
        ((count > 0).sum(axis=1) >= params.l) & (compute_divergences(count, total) <= params.t + _SLACK_NATS)
    )


def compute_divergences(count: Int, total: Int) -> Float:
    """Kullback-Leibler divergence of the city's shares from those of regions, in nats; infinite without any point.

    Parameters
    ----------
    count : int64[r, q]
    total : int64[q]
    """
    number = count.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = count / number[:, None]
        terms = np.where(count > 0, share * np.log(share / (total / total.sum())), 0.0)
    return np.where(number > 0, terms.sum(axis=1), np.inf)
