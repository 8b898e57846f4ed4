"""Cut a city's cells once into atoms: sets of neighbouring cells that each have the categories and the mix of a region.

Decides which cells are told apart, from areas, borders and points of interest alone. Invariant: an atom has `least`
categories and a divergence of at most `most` by itself; so has every union of atoms, because counts add and the
divergence is convex. New atoms are connected by shared edges. Same graph, same atoms, however many threads there are.

The cost is the area of a cell's atom, on average over cells. Random spanning trees are cut as long as both sides hold.
Simulated annealing then moves single cells between neighbouring atoms, and cuts atoms, and pairs of atoms, along random
trees. An atom that does not hold costs more meanwhile, and is merged with a neighbour in the end.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from dbanon.base import cores
from dbanon.base.errors import MAX_LISTED_NAMES, InfeasibleError, format_count
from dbanon.base.trajectory import Int
from dbanon.methods.semantic import _cutting
from dbanon.methods.semantic._graph import MM2_PER_M2, Graph, select_cells

SEED = 0x5EA7A705  # public: the atoms are no secret, and the same again
_SEARCHES = 2  # with a seed each; the cheaper result is taken
_MIN_ALLOWED_ATOMS = 2  # atoms that chance allows: with fewer, a city that no tree cuts is one atom
# Stages of a search; over all stages, moves and trees tried a cell.
_STAGES, _MOVES_PER_CELL, _TREES_PER_CELL = 80, 5000, 12
_START_HEAT, _END_HEAT = 3.0, 0.001  # temperatures, in average areas of an atom before the search
_START_WEIGHT, _END_WEIGHT = 1.0, 4.0  # weights of what an atom lacks: when hot, and when cold


def cut(graph: Graph) -> Int:
    """Cut cells into atoms of little area.

    Takes 10,000 steps a cell in two searches, of about a microsecond each; more in cities of a few hundred cells.

    Returns
    -------
    int64[c]
        The atom of each cell, numbered from 0 by their first cells.

    Raises `InfeasibleError` if cells that hang together do not have l and t, taken all together.
    """
    c = len(graph.area)
    if graph.least == 0 and graph.most == np.inf:
        return np.arange(c)
    whole = _begin_with_components(graph)
    with ThreadPoolExecutor(cores.count_threads()) as pool:
        partitions = list(pool.map(lambda seed: _search(graph, whole.copy(), seed), range(SEED, SEED + _SEARCHES)))
    return _number_atoms(min(partitions, key=lambda atom: compute_cost(graph, atom)))


def merge_failing(graph: Graph, atom: Int) -> Int:
    """Take stored atoms, and merge those that fail with neighbours until all hold.

    They fail where points of interest, l or t have changed. Cells that are in no stored atom are cut by themselves
    first. Two cells of one stored atom stay together, so nothing is told apart that was not before.

    Parameters
    ----------
    atom : int64[c]
        The atom of each cell, in one piece or several; -1 where it is in none.

    Returns
    -------
    int64[c]
        Numbered from 0 by their first cells.

    Raises `InfeasibleError` as of `cut`.
    """
    _begin_with_components(graph)
    new = np.flatnonzero(atom < 0)
    of = atom.copy()
    of[new] = atom.max(initial=-1) + 1 + _cut_apart(select_cells(graph, new))
    atoms = _cutting.begin(graph, _number_atoms(of))
    _cutting.join(graph, atoms, _cutting.make_scratch(graph))
    return _number_atoms(atoms.of)


def _cut_apart(graph: Graph) -> Int:
    """Cut the cells of each part that holds; in other parts each cell is an atom, which fails."""
    _, of = connected_components(_build_adjacency(graph))
    atoms = _cutting.begin(graph, of.astype(np.int64))
    holding = np.array([_cutting.has_l_and_t(graph, atoms, a) for a in of.tolist()], bool)
    atom = np.arange(len(of)) + len(of)
    if holding.any():
        atom[holding] = cut(select_cells(graph, np.flatnonzero(holding)))
    return atom


def estimate_atom_count(graph: Graph) -> float:
    """Estimate how many atoms there can be: about 2tP / (q - 1), for P points of interest of q categories.

    Not a bound: n points of interest drawn from the city's own mix diverge by (q - 1) / 2n on average. At least 1.
    """
    q, pois = len(graph.log_share), len(graph.logs) - 1
    return max(1.0, 2 * graph.most * pois / (q - 1)) if q > 1 and graph.most < np.inf else np.inf


def compute_cost(graph: Graph, atom: Int) -> float:
    """Give the area of a cell's atom in square metres, on average over cells: what `cut` makes small."""
    of = _number_atoms(atom)
    size, area = np.bincount(of), np.bincount(of, graph.area)
    return float((size * area).sum() / len(of) / MM2_PER_M2)


def _number_atoms(atom: Int) -> Int:
    _, first, of = np.unique(atom, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[of].astype(np.int64)


def _build_adjacency(graph: Graph) -> csr_array:
    c = len(graph.area)
    return csr_array((np.ones(len(graph.near), np.int8), graph.near, graph.first), (c, c))


def _begin_with_components(graph: Graph) -> Int:
    """Put all cells that hang together into one atom, and check that each holds."""
    parts, of = connected_components(_build_adjacency(graph))
    of = np.asarray(of, np.int64)
    atoms = _cutting.begin(graph, of)
    failing = [a for a in range(parts) if not _cutting.has_l_and_t(graph, atoms, a)]
    if failing:
        sizes = ", ".join(f"{atoms.size[a]:,}" for a in failing[:MAX_LISTED_NAMES])
        raise InfeasibleError(
            f"Cells that are connected by shared edges must together have l and t, here "
            f"{format_count(graph.least, 'category', 'categories')} and a divergence of at most "
            f"{graph.most - 1e-9:.6g}. "
            f"The cells make {format_count(parts, 'separate part')}, of which "
            f"{format_count(len(failing), 'fails', 'fail')} "
            f"(cells: {sizes}). Load cells without gaps between them or more points of interest, or choose a lower l "
            f"or a higher t."
        )
    return of


def _search(graph: Graph, of: Int, seed: int) -> Int:
    """Search for a cheap partition from a coarse one."""
    work, state = _cutting.make_scratch(graph), np.array([seed], np.uint64)
    atoms = _cutting.begin(graph, of)
    _cutting.split(graph, atoms, work, state)
    atoms, c = _cutting.begin(graph, of), len(of)
    if estimate_atom_count(graph) < _MIN_ALLOWED_ATOMS and not np.ptp(of):
        return of
    steps = max(c, min(c * c // 40, 300))  # small cities are searched for longer: it costs little
    usual = float((atoms.usual / atoms.size[of]).mean())
    for done in np.linspace(0, 1, _STAGES):
        heat = usual * _START_HEAT * (_END_HEAT / _START_HEAT) ** done
        weight = _START_WEIGHT * (_END_WEIGHT / _START_WEIGHT) ** done
        _cutting.flip(graph, atoms, work, state, steps * _MOVES_PER_CELL // _STAGES, heat, weight)
        _cutting.recut(graph, atoms, work, state, steps * _TREES_PER_CELL // _STAGES, heat, weight)
    _cutting.join(graph, atoms, work)
    for _ in range(2):
        _cutting.flip(graph, atoms, work, state, steps * 100, 0.0, _cutting.PROHIBITIVE_WEIGHT)
        _cutting.recut(graph, atoms, work, state, steps * 3, 0.0, _cutting.PROHIBITIVE_WEIGHT)
        _cutting.split(graph, atoms, work, state)
    _cutting.join(graph, atoms, work)  # a cell of hardly any area may have been left in an atom that fails
    return of
