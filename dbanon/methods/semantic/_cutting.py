"""Kernels that change a partition of cells into atoms: single cells move, trees are cut, what does not hold is merged.

Atoms are sets of cells, and hold if they have the categories and the mix that a region must have. Invariant: each stays
connected by shared edges. During a search an atom that does not hold costs more, so that the search may pass
through partitions with such atoms. One seed, one result: random numbers are made here.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Bool, Float, Int, Int32
from dbanon.methods.semantic._graph import Graph

PROHIBITIVE_WEIGHT = 1e9  # weight of what an atom lacks with which none that holds comes not to hold
_MAX_FAILED_TREES = 10  # random trees that must fail before an atom is taken as not to be cut
_TREE_HEAT_SHARE = 0.025  # of a cut along a tree, beside that of a move of one cell
_MERGE_WEIGHT = 20.0  # weight of what a union lacks, when atoms that do not hold are merged
_CUT_SHARE = 0.4  # share of trees that cut one atom; others recut two
# Cells in the trees of one call of `recut`, for each cell there is: few trees where atoms are large.
_TREE_CELLS_PER_CELL = 60
_MAX_SEARCHED_CELLS = 60  # cells that are looked at to see that an atom still hangs together without one of them


class Atoms(NamedTuple):
    """A partition while it changes. Atoms have numbers below c; those of free numbers have no cells."""

    of: Int  # [c]: the atom of each cell
    size: Int  # [c], by atom from here: cells, area, points of interest of each category and of all, categories
    area: Int  # [c]
    kinds: Int32  # [c, q]
    pois: Int  # [c]
    there: Int  # [c]
    sums: Float  # [c]: sum of m (ln m - ln Y) over categories of m points of interest and share Y
    usual: Float  # [c], by cell: size times area of the atom it was in when the search began
    usuals: Float  # [c]: sum of `usual` over the atom


class _Chains(NamedTuple):
    """The cells of each atom, one after the other, -1 at the end; and the cheapest merge of those that do not hold."""

    first: Int  # [c], by atom
    last: Int  # [c], by atom
    after: Int  # [c], by cell
    partner: Int  # [c], by atom: -1 for none
    rise: Float  # [c], by atom: what the merge costs; infinite for none


class Scratch(NamedTuple):
    """Memory of one thread."""

    mark: Int  # [c]: of the cells that are reached, the current stamp
    stamp: Int  # [1]
    queue: Int  # [c]: cells as they are reached; by place in it: where each was reached from, and what is below it
    before: Int  # [c]
    size: Int  # [c]
    area: Int  # [c]
    usual: Float  # [c]
    kinds: Int32  # [c, q]
    below: Bool  # [c], by place in the queue: whether it is cut off
    inner: Int  # [e]: borders that a tree may grow over: a place in the queue, and a cell
    outer: Int  # [e]


def make_scratch(graph: Graph) -> Scratch:
    c, q, e = len(graph.area), len(graph.log_share), len(graph.near)
    longs = np.zeros((5, c), np.int64)
    return Scratch(
        longs[0], np.zeros(1, np.int64), longs[1], longs[2], longs[3], longs[4], np.zeros(c),
        np.zeros((c, q), np.int32), np.zeros(c, np.bool_), np.zeros(e, np.int64), np.zeros(e, np.int64),
    )  # fmt: skip


# ---- random numbers: splitmix64, so that no version of NumPy or Numba changes the atoms ------------------------------


@compile_kernel
def _draw_bits(state: NDArray[np.uint64]) -> Any:
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compile_kernel
def _draw_below(state: NDArray[np.uint64], limit: int) -> Any:
    return np.int64(((_draw_bits(state) >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32))


@compile_kernel
def _draw_exponential(state: NDArray[np.uint64]) -> Any:
    """Draw from nearly the exponential distribution, without a logarithm, whose last bit depends on the machine."""
    bits, halvings = _draw_bits(state), 0
    rest = np.float64(bits >> np.uint64(32)) / 4294967296.0
    while halvings < 31 and bits & np.uint64(1):
        bits >>= np.uint64(1)
        halvings += 1
    return 0.6931471805599453 * (halvings + rest)


# ---- what an atom has and costs --------------------------------------------------------------------------------------


@compile_kernel
def _sum_mix(graph: Graph, count: Int32, less: Int32, sign: int) -> Any:
    """Sum up points of interest, categories, and m (ln m - ln Y), of one count with or without another."""
    pois, there, sums = 0, 0, 0.0
    for u in range(len(count)):
        m = count[u] + sign * less[u]
        if m:
            pois += m
            there += 1
            sums += m * (graph.logs[m] - graph.log_share[u])
    return pois, there, sums


@compile_kernel
def _measure_lack(graph: Graph, mix: tuple[int, int, float]) -> Any:
    """Say how far an atom is from holding: 0 where it does."""
    pois, there, sums = mix
    lack = (graph.least - there) / graph.least if there < graph.least else 0.0
    if graph.most < np.inf:
        apart = sums / pois - graph.logs[pois] if pois else np.inf
        if apart == np.inf:
            lack += 1.0
        elif apart > graph.most:
            lack += 0.02 + (apart - graph.most) / (apart + graph.most)
    return lack


@compile_kernel
def _compute_price(
    graph: Graph, weight: float, size: int, area: int, mix: tuple[int, int, float], usuals: float
) -> Any:
    """Cells times area, and what an atom lacks, as a share of what its cells usually cost; 0 without cells."""
    if not size:
        return 0.0
    lack = _measure_lack(graph, mix)
    return size * np.float64(area) + (weight * lack * usuals / size if lack else 0.0)


@compile_kernel
def _read_mix(atoms: Atoms, a: int) -> Any:
    return atoms.pois[a], atoms.there[a], atoms.sums[a]


@compile_kernel
def _compute_atom_price(graph: Graph, atoms: Atoms, weight: float, a: int) -> Any:
    return _compute_price(graph, weight, atoms.size[a], atoms.area[a], _read_mix(atoms, a), atoms.usuals[a])


@compile_kernel
def has_l_and_t(graph: Graph, atoms: Atoms, a: int) -> Any:
    return _measure_lack(graph, _read_mix(atoms, a)) == 0


@compile_kernel
def _sum_up(graph: Graph, atoms: Atoms, a: int) -> None:
    atoms.pois[a], atoms.there[a], atoms.sums[a] = _sum_mix(graph, atoms.kinds[a], atoms.kinds[a], 0)


@compile_kernel
def begin(graph: Graph, of: Int) -> Any:
    """Begin with a partition."""
    c, q = len(of), len(graph.log_share)
    zeros, sums = np.zeros((4, c), np.int64), np.zeros((3, c))
    atoms = Atoms(of, zeros[0], zeros[1], np.zeros((c, q), np.int32), zeros[2], zeros[3], sums[0], sums[1], sums[2])
    for i in range(c):
        atoms.size[of[i]] += 1
        atoms.area[of[i]] += graph.area[i]
        for at in range(graph.first_kind[i], graph.first_kind[i + 1]):
            atoms.kinds[of[i], graph.kind[at]] += graph.many[at]
    for i in range(c):
        atoms.usual[i] = atoms.size[of[i]] * np.float64(atoms.area[of[i]])
        atoms.usuals[of[i]] += atoms.usual[i]
    for a in range(c):
        _sum_up(graph, atoms, a)
    return atoms


# ---- single cells ----------------------------------------------------------------------------------------------------


@compile_kernel
def flip(
    graph: Graph, atoms: Atoms, work: Scratch, state: NDArray[np.uint64], steps: int, heat: float, weight: float
) -> None:
    """Move random cells to a neighbour's atom, as annealing allows at this temperature; 0: only where it gains."""
    of, count, logs, share = atoms.of, atoms.kinds, graph.logs, graph.log_share
    for _ in range(steps):
        i = _draw_below(state, len(of))
        degree = graph.first[i + 1] - graph.first[i]
        if not degree:
            continue
        a, b = of[i], of[graph.near[graph.first[i] + _draw_below(state, degree)]]
        if a == b:
            continue
        left, pois, there = atoms.sums[a], atoms.pois[a], atoms.there[a]
        right, more, here = atoms.sums[b], atoms.pois[b], atoms.there[b]
        for at in range(graph.first_kind[i], graph.first_kind[i + 1]):
            u, m = graph.kind[at], graph.many[at]
            x, y = count[a, u], count[b, u]
            left += (x - m) * (logs[x - m] - share[u]) - x * (logs[x] - share[u])
            right += (y + m) * (logs[y + m] - share[u]) - y * (logs[y] - share[u])
            pois, more, there, here = pois - m, more + m, there - (x == m), here + (y == 0)
        own, usual = graph.area[i], atoms.usual[i]
        rise = _compute_price(
            graph, weight, atoms.size[a] - 1, atoms.area[a] - own, (pois, there, left), atoms.usuals[a] - usual
        )
        rise += _compute_price(
            graph, weight, atoms.size[b] + 1, atoms.area[b] + own, (more, here, right), atoms.usuals[b] + usual
        )
        rise -= _compute_atom_price(graph, atoms, weight, a) + _compute_atom_price(graph, atoms, weight, b)
        if rise >= 0 and (heat == 0 or rise > heat * _draw_exponential(state)):
            continue
        if _stays_connected(graph, atoms, work, i):
            _move(graph, atoms, i, a, b)


@compile_kernel
def _stays_connected(graph: Graph, atoms: Atoms, work: Scratch, i: int) -> Any:
    """Whether an atom still hangs together without a cell, as far as a short search around the cell can see."""
    a, work.stamp[0] = atoms.of[i], work.stamp[0] + 2
    wanted = work.stamp[0] - 1
    reached, missing = wanted + 1, 0
    for at in range(graph.first[i], graph.first[i + 1]):
        near = graph.near[at]
        if atoms.of[near] == a:
            work.mark[near], work.queue[0] = wanted, near
            missing += 1
    if missing < 2:
        return missing == 1 or atoms.size[a] == 1
    work.mark[work.queue[0]] = reached
    missing, length, at_cell = missing - 1, 1, 0
    while at_cell < min(length, _MAX_SEARCHED_CELLS):
        cell = work.queue[at_cell]
        at_cell += 1
        for at in range(graph.first[cell], graph.first[cell + 1]):
            near = graph.near[at]
            if near != i and atoms.of[near] == a and work.mark[near] != reached:
                missing -= work.mark[near] == wanted
                work.mark[near], work.queue[length] = reached, near
                length += 1
        if not missing:
            return True
    return False


@compile_kernel
def _move(graph: Graph, atoms: Atoms, i: int, a: int, b: int) -> None:
    atoms.of[i] = b
    for atom, sign in ((a, -1), (b, 1)):
        atoms.size[atom] += sign
        atoms.area[atom] += sign * graph.area[i]
        atoms.usuals[atom] += sign * atoms.usual[i]
        for at in range(graph.first_kind[i], graph.first_kind[i + 1]):
            atoms.kinds[atom, graph.kind[at]] += sign * graph.many[at]
        _sum_up(graph, atoms, atom)


# ---- random spanning trees -------------------------------------------------------------------------------------------


@compile_kernel
def _grow(  # noqa: C901 - one search
    graph: Graph, atoms: Atoms, work: Scratch, state: NDArray[np.uint64], i: int, a: int, b: int
) -> Any:
    """Span two atoms (or one) by a random tree, and sum up what is below each of its cells; give its size."""
    work.stamp[0] += 1
    work.mark[i], work.queue[0], work.before[0] = work.stamp[0], i, -1
    length, borders, at_cell = 1, 0, 0
    while True:
        cell = work.queue[at_cell]
        for at in range(graph.first[cell], graph.first[cell + 1]):
            near = graph.near[at]
            if (atoms.of[near] == a or atoms.of[near] == b) and work.mark[near] != work.stamp[0]:
                work.inner[borders], work.outer[borders] = at_cell, near
                borders += 1
        at_cell = length
        while borders and at_cell == length:
            chosen = _draw_below(state, borders)
            from_cell, cell = work.inner[chosen], work.outer[chosen]
            borders -= 1
            work.inner[chosen], work.outer[chosen] = work.inner[borders], work.outer[borders]
            if work.mark[cell] != work.stamp[0]:
                work.mark[cell], work.queue[length], work.before[length] = work.stamp[0], cell, from_cell
                length += 1
        if at_cell == length:
            break
    for p in range(length):
        cell = work.queue[p]
        work.size[p], work.area[p], work.usual[p], work.kinds[p] = 1, graph.area[cell], atoms.usual[cell], 0
        for at in range(graph.first_kind[cell], graph.first_kind[cell + 1]):
            work.kinds[p, graph.kind[at]] += graph.many[at]
    for p in range(length - 1, 0, -1):
        before = work.before[p]
        work.size[before] += work.size[p]
        work.area[before] += work.area[p]
        work.usual[before] += work.usual[p]
        for u in range(len(graph.log_share)):
            work.kinds[before, u] += work.kinds[p, u]
    return length


@compile_kernel
def _recut(
    graph: Graph, atoms: Atoms, work: Scratch, state: NDArray[np.uint64], i: int, b: int, heat: float, weight: float
) -> Any:
    """Cut the atom of cell `i`, or it and atom `b`, where it costs least along a random tree; say whether it did."""
    a = atoms.of[i]
    length = _grow(graph, atoms, work, state, i, a, b)
    best, least = 0, np.inf
    # To cut above the p-th cell parts what is below it, which `_grow` has summed up, from the rest.
    for p in range(1, length):
        size, area, usual = work.size[p], work.area[p], work.usual[p]
        # What atoms lack only adds to this, so most cuts need no look at their points of interest.
        plain = size * np.float64(area) + (length - size) * np.float64(work.area[0] - area)
        if plain >= least:
            continue
        one, other = _sum_mix(graph, work.kinds[p], work.kinds[p], 0), _sum_mix(graph, work.kinds[0], work.kinds[p], -1)
        price = _compute_price(graph, weight, size, area, one, usual)
        price += _compute_price(graph, weight, length - size, work.area[0] - area, other, work.usual[0] - usual)
        if price < least:
            best, least = p, price
    rise = (
        least
        - _compute_atom_price(graph, atoms, weight, a)
        - (_compute_atom_price(graph, atoms, weight, b) if b != a else 0.0)
    )
    if not best or (rise >= 0 and (heat == 0 or rise > heat * length * _draw_exponential(state))):
        return False
    if a == b:
        b = int(np.argmin(atoms.size))  # a free number: only where each cell is an atom there is none, and no cut
    # Cells stand behind the one that they were reached from, so that one's side is known.
    for p in range(length):
        work.below[p] = p == best or (p > best and work.below[work.before[p]])
        atoms.of[work.queue[p]] = b if work.below[p] else a
    atoms.size[b], atoms.area[b], atoms.usuals[b] = work.size[best], work.area[best], work.usual[best]
    atoms.size[a], atoms.area[a] = length - work.size[best], work.area[0] - work.area[best]
    atoms.usuals[a] = work.usual[0] - work.usual[best]
    for kind in range(atoms.kinds.shape[1]):
        atoms.kinds[b, kind] = work.kinds[best, kind]
        atoms.kinds[a, kind] = work.kinds[0, kind] - work.kinds[best, kind]
    _sum_up(graph, atoms, a)
    _sum_up(graph, atoms, b)
    return True


@compile_kernel
def recut(
    graph: Graph, atoms: Atoms, work: Scratch, state: NDArray[np.uint64], steps: int, heat: float, weight: float
) -> None:
    """Recut the atoms of random cells, or of random neighbours, as long as there is work left."""
    room = _TREE_CELLS_PER_CELL * len(atoms.of)
    for _ in range(steps):
        i = _draw_below(state, len(atoms.of))
        degree = graph.first[i + 1] - graph.first[i]
        if degree and room > 0:
            a, b = atoms.of[i], atoms.of[graph.near[graph.first[i] + _draw_below(state, degree)]]
            if _draw_below(state, 1000) < 1000 * _CUT_SHARE:
                b = a
            elif a == b:
                continue
            if a != b or atoms.size[a] > 1:
                room -= atoms.size[a] + atoms.size[b]
                _recut(graph, atoms, work, state, i, b, heat * _TREE_HEAT_SHARE, weight)


@compile_kernel
def split(graph: Graph, atoms: Atoms, work: Scratch, state: NDArray[np.uint64]) -> None:
    """Cut atoms along random trees, into two that hold, until none can be cut as far as is seen."""
    failed, again = np.zeros(len(atoms.of), np.int64), True
    while again:
        again = False
        for i in range(len(atoms.of)):
            a = atoms.of[i]
            if atoms.size[a] > 1 and failed[a] < _MAX_FAILED_TREES:
                again = True
                failed[a] = 0 if _recut(graph, atoms, work, state, i, a, 0.0, PROHIBITIVE_WEIGHT) else failed[a] + 1


# ---- merging ---------------------------------------------------------------------------------------------------------


@compile_kernel
def _append(chains: _Chains, a: int, first: int, last: int) -> None:
    """Append a chain of cells to an atom's."""
    if chains.first[a] < 0:
        chains.first[a] = first
    else:
        chains.after[chains.last[a]] = first
    chains.last[a] = last


@compile_kernel
def _walk(chains: _Chains, a: int, cells: Int) -> int:
    """Write the cells of an atom; their number."""
    i, number = chains.first[a], 0
    while i >= 0:
        cells[number] = i
        i, number = chains.after[i], number + 1
    return number


@compile_kernel
def join(graph: Graph, atoms: Atoms, work: Scratch) -> None:
    """Merge atoms that do not hold with neighbours, the cheapest merge first, until each holds or has no neighbour."""
    c = len(atoms.of)
    chains = _Chains(np.full(c, -1), np.full(c, -1), np.full(c, -1), np.full(c, -1), np.full(c, np.inf))
    for i in range(c):
        _append(chains, atoms.of[i], i, i)
    for a in range(c):
        _find_partner(graph, atoms, chains, work, a)
    # Kept true: merges are of the atoms as they are. Each turn leaves one atom less, so this ends.
    while True:
        a = int(np.argmin(chains.rise))
        if chains.rise[a] == np.inf:
            return
        b = chains.partner[a]
        _unite(graph, atoms, chains, work, a, b)
        chains.rise[a] = np.inf
        # What merges cost changed for the union and for its neighbours alone.
        work.stamp[0] += 1
        work.mark[b] = work.stamp[0]
        _find_partner(graph, atoms, chains, work, b)
        for p in range(_walk(chains, b, work.queue)):
            i = work.queue[p]
            for at in range(graph.first[i], graph.first[i + 1]):
                near = atoms.of[graph.near[at]]
                if work.mark[near] != work.stamp[0]:
                    work.mark[near] = work.stamp[0]
                    _find_partner(graph, atoms, chains, work, near)


@compile_kernel
def _unite(graph: Graph, atoms: Atoms, chains: _Chains, work: Scratch, a: int, b: int) -> None:
    """Give atom b all that atom a has; the number a is free then."""
    for p in range(_walk(chains, a, work.queue)):
        atoms.of[work.queue[p]] = b
    _append(chains, b, chains.first[a], chains.last[a])
    atoms.size[b] += atoms.size[a]
    atoms.area[b] += atoms.area[a]
    atoms.usuals[b] += atoms.usuals[a]
    for kind in range(atoms.kinds.shape[1]):
        atoms.kinds[b, kind] += atoms.kinds[a, kind]
    _sum_up(graph, atoms, b)
    atoms.size[a], chains.first[a] = 0, -1


@compile_kernel
def _find_partner(graph: Graph, atoms: Atoms, chains: _Chains, work: Scratch, a: int) -> None:
    """Find the neighbour that an atom is merged with at the least cost, of equal ones the first; none if it holds."""
    chains.rise[a] = np.inf
    if not atoms.size[a] or has_l_and_t(graph, atoms, a):
        return
    best, least = -1, np.inf
    for p in range(_walk(chains, a, work.before)):  # `join` is walking along the queue
        i = work.before[p]
        for at in range(graph.first[i], graph.first[i + 1]):
            b = atoms.of[graph.near[at]]
            if b == a:
                continue
            rise = _compute_price(
                graph, _MERGE_WEIGHT, atoms.size[a] + atoms.size[b], atoms.area[a] + atoms.area[b],
                _sum_mix(graph, atoms.kinds[a], atoms.kinds[b], 1), atoms.usuals[a] + atoms.usuals[b],
            ) - _compute_atom_price(graph, atoms, 0.0, a) - _compute_atom_price(graph, atoms, 0.0, b)  # fmt: skip
            if rise < least or (rise == least and b < best):
                best, least = b, rise
    chains.partner[a], chains.rise[a] = best, least
