"""Atoms of a city: each is connected and holds, so does each union, and they cost little more than the best."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.base import cores
from dbanon.base.errors import InfeasibleError
from dbanon.base.trajectory import Cells
from dbanon.methods.semantic import Parameters, _graph, _partition
from tests.unit.semantic_cases import draw_voronoi, make_city, make_grid

pytestmark = pytest.mark.usefixtures("short_search")


def make_cells(neighbours, area, pois):
    pairs = [(i, j) for i in sorted(neighbours) for j in sorted(neighbours[i]) if i < j]
    pois = np.array(pois, np.int64)
    return Cells(
        cell_id=np.arange(len(area)) * 3 + 1,
        area_m2=np.array(area, float),
        categories=tuple(f"c{u}" for u in range(pois.shape[1])),
        pois=pois,
        neighbours=np.array(pairs, np.int64).reshape(-1, 2),
        fix_cell=np.zeros(0, np.int64),
    )


def draw_city(rng, count, categories=3, most=4):
    neighbours, area = draw_voronoi(rng, count) if rng.random() < 0.5 else make_grid(count, 1 + (count < 5))
    pois = [[rng.randint(0, most) for _ in range(categories)] for _ in area]
    pois[0] = [1 + m for m in pois[0]]
    return make_cells(neighbours, area, pois)


def make_graph(cells, l, t):  # noqa: E741 - the paper's name
    return _graph.build_graph(cells, Parameters(l=l, t=t))


def has_promise(cells, members, l, t):  # noqa: E741
    """By the definitions, without what the package has."""
    total = cells.pois.sum(axis=0)
    mine = cells.pois[sorted(members)].sum(axis=0)
    if (mine > 0).sum() < l:
        return False
    if t == math.inf:
        return True
    if not mine.sum():
        return False
    x, y = mine / mine.sum(), total / total.sum()
    return sum(a * math.log(a / b) for a, b in zip(x, y, strict=True) if a) <= t + 2e-9


def is_connected(cells, members):
    members, near = set(members), {}
    for i, j in cells.neighbours.tolist():
        near.setdefault(i, []).append(j)
        near.setdefault(j, []).append(i)
    reached, todo = set(), [min(members)]
    while todo:
        cell = todo.pop()
        if cell not in reached:
            reached.add(cell)
            todo += [other for other in near.get(cell, ()) if other in members]
    return reached == members


def list_atoms(atom):
    return [set(np.flatnonzero(atom == a).tolist()) for a in range(atom.max() + 1)]


def check(cells, atom, l, t):  # noqa: E741
    check_held(cells, atom, l, t)
    assert all(is_connected(cells, members) for members in list_atoms(atom))


def check_held(cells, atom, l, t):  # noqa: E741
    assert len(atom) == len(cells.cell_id)
    firsts = [min(members) for members in list_atoms(atom)]
    assert firsts == sorted(firsts)
    assert all(has_promise(cells, members, l, t) for members in list_atoms(atom))


def iter_partitions(items):
    if not items:
        yield []
        return
    for parts in iter_partitions(items[1:]):
        yield [[items[0]], *parts]
        for at, part in enumerate(parts):
            yield [*parts[:at], [items[0], *part], *parts[at + 1 :]]


def compute_price(cells, parts):
    return sum(len(part) * cells.area_m2[sorted(part)].sum() for part in parts) / len(cells.cell_id)


# ---- against every partition -----------------------------------------------------------------------------------------


def test_tiny_cities_are_cut_nearly_as_well_as_can_be(monkeypatch):
    monkeypatch.setattr(_partition, "_MOVES_PER_CELL", 10 * _partition._MOVES_PER_CELL)  # as long as runs do
    found = best = 0.0
    for seed in range(15):
        rng = random.Random(seed)
        cells = draw_city(rng, rng.randint(4, 7) if seed else 8)
        l, t = rng.randint(0, 3), rng.choice([0.05, 0.2, 0.5, math.inf])  # noqa: E741
        atom = _partition.cut(make_graph(cells, l, t))
        check(cells, atom, l, t)
        cheapest = min(
            compute_price(cells, parts)
            for parts in iter_partitions(list(range(len(cells.cell_id))))
            if all(has_promise(cells, part, l, t) and is_connected(cells, part) for part in parts)
        )
        assert compute_price(cells, list_atoms(atom)) == pytest.approx(
            _partition.compute_cost(make_graph(cells, l, t), atom)
        )
        assert cheapest <= compute_price(cells, list_atoms(atom)) * (1 + 1e-9)
        found, best = found + compute_price(cells, list_atoms(atom)), best + cheapest
    assert found <= 1.02 * best


# ---- what each partition is ------------------------------------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), l=st.integers(0, 4), t=st.sampled_from([0.02, 0.1, 0.4, math.inf]))
def test_every_atom_and_every_union_holds(seed, l, t):  # noqa: E741
    rng = random.Random(seed)
    cells = draw_city(rng, rng.randint(9, 40), categories=4)
    atom = _partition.cut(make_graph(cells, l, t))
    check(cells, atom, l, t)
    for _ in range(20):
        chosen = [members for members in list_atoms(atom) if rng.random() < 0.4]
        assert not chosen or has_promise(cells, set().union(*chosen), l, t)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_stored_atoms_are_merged_until_all_hold_and_never_cut(seed):
    rng = random.Random(seed)
    cells = draw_city(rng, 40, categories=4)
    stored = _partition.cut(make_graph(cells, 2, 0.3))
    changed = cells.pois.copy()
    for _ in range(rng.randint(0, 30)):
        changed[rng.randrange(len(changed)), rng.randrange(4)] = rng.randint(0, 5)
    changed[0] += 1
    later = make_cells(*draw_parted(cells), changed)
    l, t = rng.choice([(2, 0.3), (3, 0.1), (4, 0.02)])  # noqa: E741
    atom = _partition.merge_failing(make_graph(later, l, t), stored * 7 + 5)
    check(later, atom, l, t)
    assert all(len(set(atom[sorted(members)].tolist())) == 1 for members in list_atoms(stored))
    for members in list_atoms(stored):  # those that hold are merged only with one that fails
        if members in list_atoms(atom):
            assert has_promise(later, members, l, t)


def draw_parted(cells):
    neighbours = {i: set() for i in range(len(cells.cell_id))}
    for i, j in cells.neighbours.tolist():
        neighbours[i].add(j)
        neighbours[j].add(i)
    return neighbours, cells.area_m2.tolist()


@pytest.mark.parametrize("seed", range(6))
def test_new_cells_are_cut_by_themselves_and_the_rest_of_them_join_what_is_stored(seed):
    rng = random.Random(seed)
    cells = draw_city(rng, 24)
    known = make_graph(cells, 2, 0.3)
    stored = np.where(np.arange(len(cells.cell_id)) < (6, 23)[seed % 2], _partition.cut(known), -1)
    atom = _partition.merge_failing(known, stored)
    check_held(cells, atom, 2, 0.3)
    for members in list_atoms(stored):
        assert len(set(atom[sorted(members)].tolist())) == 1
    if seed % 2 == 0:  # what is new holds by itself, and is more than one atom
        assert len(set(atom[stored < 0].tolist()) - set(atom[stored >= 0].tolist())) > 1


def test_stored_atoms_may_be_in_pieces():
    # Of a stored atom of three cells in a row the middle one is there no more.
    cells = make_cells({0: [1], 1: [0, 2], 2: [1, 3], 3: [2]}, [1] * 4, [[1, 0], [1, 1], [1, 1], [0, 1]])
    assert _partition.merge_failing(make_graph(cells, 2, 0.2), np.array([0, 1, 2, 0])).tolist() == [0, 1, 2, 0]
    assert _partition.merge_failing(make_graph(cells, 2, 0.001), np.array([0, 1, 2, 1])).tolist() == [0, 0, 1, 0]


def test_atoms_that_hold_stay_as_they_are():
    cells = draw_city(random.Random(5), 40)
    atom = _partition.cut(make_graph(cells, 3, 0.2))
    assert (_partition.merge_failing(make_graph(cells, 3, 0.2), atom) == atom).all()


def test_atoms_are_the_same_again_whatever_the_number_of_threads():
    known = make_graph(draw_city(random.Random(2), 60), 3, 0.1)
    atom = _partition.cut(known)
    before = known.area.copy(), known.near.copy()
    with cores.limit_threads(1):
        assert (_partition.cut(known) == atom).all()
    assert (known.area == before[0]).all()
    assert (known.near == before[1]).all()


# ---- cases that are easily forgotten ---------------------------------------------------------------------------------


def test_without_l_and_t_every_cell_is_an_atom():
    cells = draw_city(random.Random(1), 30)
    known = make_graph(cells, 0, math.inf)
    assert (_partition.cut(known) == np.arange(30)).all()
    assert _partition.estimate_atom_count(known) == math.inf
    empty = make_cells(*make_grid(4, 4), np.zeros((16, 0)))
    assert (_partition.cut(make_graph(empty, 0, math.inf)) == np.arange(16)).all()


@pytest.mark.parametrize(
    ("pois", "atoms"), [([[1, 2], [2, 1], [0, 1], [5, 0]], 1), ([[1, 2], [2, 4], [1, 2], [3, 6]], 4)]
)
def test_t_of_nothing_takes_the_citys_mix_alone(pois, atoms):
    cells = make_cells(*make_grid(4, 1), pois)
    assert _partition.cut(make_graph(cells, 2, 0.0)).max() + 1 == atoms


def test_one_cell_is_one_atom():
    assert _partition.cut(make_graph(make_cells(*make_city([[0]]), [[2, 1]]), 2, 0.1)).tolist() == [0]


def make_two_parts(pois):
    neighbours, area = make_grid(4, 1)
    neighbours[1].discard(2)
    neighbours[2].discard(1)
    return make_cells(neighbours, area, pois)


def test_parts_that_do_not_touch_are_cut_by_themselves():
    cells = make_two_parts([[1, 0], [0, 1], [2, 2], [1, 1]])
    atom = _partition.cut(make_graph(cells, 2, 0.1))
    assert atom.tolist() == [0, 0, 1, 2]
    assert _partition.merge_failing(make_graph(cells, 2, 0.1), np.array([4, 9, 2, 2])).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(("l", "t"), [(2, math.inf), (1, 0.2)])
def test_a_part_that_fails_as_a_whole_is_named(l, t):  # noqa: E741
    cells = make_two_parts([[1, 0], [0, 0], [20, 15], [1, 1]])
    for call in (_partition.cut, lambda known: _partition.merge_failing(known, np.arange(4))):
        with pytest.raises(InfeasibleError, match=r"2 separate parts.*1 fails.*cells: 2\)"):
            call(make_graph(cells, l, t))


def test_as_many_atoms_are_allowed_as_chance_gives():
    cells = make_cells(*make_grid(4, 1), [[10, 10, 10, 10, 10, 10]] * 4)
    assert _partition.estimate_atom_count(make_graph(cells, 0, 0.1)) == pytest.approx(2 * 0.1 * 240 / 5)
    assert _partition.estimate_atom_count(make_graph(cells, 0, 0.0)) == 1
