"""Hiding sets and classes equal their plain statements, and keep what they promise."""

import random
from itertools import pairwise

import numpy as np
import pytest

from dbanon.base import cores
from dbanon.base.cloaks import summarise_sides
from dbanon.base.errors import DataError, InfeasibleError
from dbanon.base.trajectory import QuasiIdentifiers, Trajectories
from dbanon.methods import METHODS
from dbanon.methods.mob import _classes, _positions, _sets
from tests.facts import expect_refusal
from tests.unit import oracles_mob as oracle
from tests.unit.mob_instances import draw_world, locate_on_curve, make_positions, pack_flags

SEED = 2009
ALGORITHMS = {
    "symmetric": (_sets.draw_symmetric, oracle.find_symmetric),
    "extreme-union": (_sets.draw_extreme_union, oracle.find_extreme_union),
}
WORLDS = {  # keywords of draw_world; many are at the same place in the first
    "ties": {"instants": 4, "side": 2},
    "gaps": {"instants": 6, "side": 8, "absent": 0.3},
    "two words": {"instants": 70, "side": 8, "absent": 0.05, "most": 4},
    "few blank": {"instants": 5, "side": 8, "absent": 0.2, "blank": 0.4},
}


@pytest.fixture(params=ALGORITHMS)
def algorithm(request):
    return ALGORITHMS[request.param]


def convert_sets(sets):
    """Sets as the oracle has them: HS, T(O), who is kept."""
    kept = set(np.flatnonzero(sets.kept).tolist())
    ends = list(pairwise(sets.offset.tolist()))
    hiding = {i: set(sets.other[a:b].tolist()) for i, (a, b) in enumerate(ends) if a < b}
    when = {
        i: {64 * w + b for w, word in enumerate(row.tolist()) for b in range(64) if word >> b & 1}
        for i, row in enumerate(sets.when)
    }
    return hiding, {i: instants for i, instants in when.items() if instants}, kept


def convert_classes(found):
    """Classes as the oracle has them, and that they are numbered by instant and box."""
    keys = [(t, tuple(box)) for t, box in zip(found.instant.tolist(), found.box.tolist(), strict=True)]
    assert keys == sorted(set(keys))
    classes = {key: set() for key in keys}
    for i, t in zip(*np.nonzero(found.of >= 0), strict=True):
        assert keys[found.of[i, t]][0] == t
        classes[keys[found.of[i, t]]].add(int(i))
    assert [len(classes[key]) for key in keys] == found.size.tolist()
    return classes


def solve_world(world, k, algorithm, instants):
    where, own, rank = world
    positions = make_positions(where, own, rank, instants)
    place, plainly = locate_on_curve(positions)
    drawn, expected = algorithm[0](positions, place, k), algorithm[1]((where, own, plainly, rank), k)
    return positions, drawn, expected


@pytest.mark.many
@pytest.mark.parametrize("kind", WORLDS)
@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("seed", range(10))
def test_sets_classes_and_loss_equal_their_plain_statements(algorithm, kind, k, seed):
    rng = random.Random(f"{SEED} {kind} {k} {seed}")
    for n in (k, k + 1, rng.randint(k, 2 * k), rng.randint(2 * k, 25)):
        world = draw_world(rng, n, **WORLDS[kind])
        positions, sets, expected = solve_world(world, k, algorithm, WORLDS[kind]["instants"])
        assert convert_sets(sets) == expected
        found = _classes.build_classes(positions, sets)
        hiding, when, kept = expected
        classes = oracle.find_classes(world[0], hiding, when)
        assert convert_classes(found) == classes
        loss = oracle.compute_information_loss(world[0], kept, classes)
        rows = int(_positions.unpack_presence(positions)[sets.kept].sum())
        assert _classes.compute_information_loss(found, rows) == pytest.approx(loss)


@pytest.mark.many
@pytest.mark.parametrize("seed", range(20))
def test_every_published_object_may_be_any_of_k_people(algorithm, seed):
    rng = random.Random(f"{SEED} {seed}")
    for _ in range(3):
        k = rng.randint(2, 3)
        world = draw_world(rng, 6, 3, side=6, absent=rng.choice([0, 0.25]), blank=rng.choice([0, 0.3]), most=2)
        _, sets, _ = solve_world(world, k, algorithm, 3)
        hiding, when, kept = convert_sets(sets)
        graph = oracle.build_attack_graph(*world[:2], kept, oracle.find_classes(world[0], hiding, when))
        assert all(len(objects) >= k for objects in oracle.prune_graph(graph).values())


def test_candidates_are_asked_for_until_enough_fit(monkeypatch):
    asked, fit_rest = [], _sets._fit_rest
    monkeypatch.setattr(_sets, "_CANDIDATES_PER_K", 2)
    monkeypatch.setattr(_sets, "_fit_rest", lambda *arrays: asked.append(len(arrays[1])) or fit_rest(*arrays))
    rng = random.Random(SEED)
    for _ in range(10):
        world = draw_world(rng, 60, 6, side=16, absent=0.4, most=2)
        _, sets, expected = solve_world(world, 4, ALGORITHMS["extreme-union"], 6)
        assert convert_sets(sets) == expected
        assert sets.kept.any()
    assert sum(asked) > 10


def test_sets_are_listed_in_the_runs_order_without_their_owner(algorithm):
    world = draw_world(random.Random(SEED), 30, 5, side=8)
    positions, sets, _ = solve_world(world, 4, algorithm, 5)
    for i, (a, b) in enumerate(pairwise(sets.offset.tolist())):
        ranks = positions.rank[sets.other[a:b]].tolist()
        assert ranks == sorted(set(ranks))
        assert i not in sets.other[a:b]


def test_neither_threads_nor_the_numbers_of_objects_change_what_is_drawn(algorithm, monkeypatch):
    rng = random.Random(SEED)
    where, own, rank = draw_world(rng, 40, 70, side=4, absent=0.02, most=4)
    positions, sets, _ = solve_world((where, own, rank), 3, algorithm, 70)
    found = _classes.build_classes(positions, sets)
    monkeypatch.setattr(cores, "count_threads", lambda: 3)
    monkeypatch.setattr(_classes, "_MIN_POSITIONS_PER_THREAD", 1)
    monkeypatch.setattr(_sets, "_MIN_DEVIATIONS_PER_THREAD", 1)
    new = rng.sample(range(40), 40)  # object i is now new[i]
    old = np.argsort(new)
    positions, again, _ = solve_world(
        ([where[i] for i in old], [own[i] for i in old], [rank[i] for i in old]), 3, algorithm, 70
    )
    hiding, when, kept = convert_sets(sets)
    assert convert_sets(again) == (
        {new[i]: {new[j] for j in others} for i, others in hiding.items()},
        {new[i]: instants for i, instants in when.items()},
        {new[i] for i in kept},
    )
    renumbered = _classes.build_classes(positions, again)
    assert (renumbered.of == found.of[old]).all()
    assert (renumbered.box == found.box).all()


def test_who_loses_its_partners_to_suppression_is_suppressed_as_well(algorithm):
    # Each of 0, 1, 2 is present with the next alone; the others are many.
    line = [{0: (0, 0), 1: (0, 0)}, {1: (0, 0), 2: (0, 0)}, {2: (0, 0), 3: (0, 0)}]
    where, own = [*line, *[{4: (i, 0)} for i in range(4)]], [{1}, {1, 2}, {2}, *[{4}] * 4]
    _, sets, expected = solve_world((where, own, range(7)), 3, algorithm, 5)
    assert convert_sets(sets) == expected
    assert np.flatnonzero(sets.kept).tolist() == [3, 4, 5, 6]


def test_fewer_than_k_without_own_instants_serve_in_the_nearest_sets(algorithm):
    where = [{0: (x, 0)} for x in (0, 1, 2, 13, 14, 15, 12, 3)]
    own = [{0}] * 6 + [set()] * 2
    _, sets, _ = solve_world((where, own, [0, 1, 2, 3, 4, 5, 7, 6]), 3, algorithm, 1)
    served = convert_sets(sets)[0]
    assert sets.kept.all()
    assert {i for i in served if 6 in served[i]} == {3}
    assert {i for i in served if 7 in served[i]} == {2}


def test_who_lacks_own_instants_and_can_serve_nobody_is_suppressed(algorithm):
    where = [{0: (0, 0)}] * 3 + [{1: (0, 0)}]
    _, sets, _ = solve_world(
        (
            where,
            [{0}, {0}, {0}, set()],
            range(4),
        ),
        2,
        algorithm,
        2,
    )
    assert sets.kept.tolist() == [True, True, True, False]


def test_k_without_own_instants_need_not_serve(algorithm):
    where = [{0: (0, 0)}] * 3 + [{1: (0, 0)}] * 2
    _, sets, _ = solve_world((where, [{0}, {0}, {0}, set(), set()], range(5)), 2, algorithm, 2)
    assert sets.kept.all()


def test_all_kernels_are_prepared(algorithm):
    where, own, rank = draw_world(random.Random(SEED), 60, 6, side=16, absent=0.5, blank=0)
    positions = make_positions([*where, {0: (0, 0)}], [*own, set()], [*rank, -1], 6)
    place, _ = locate_on_curve(positions)
    _sets.prepare(positions, place)
    kernels = _sets._fit_rest, _sets._find_nearest_owner
    compiled = [kernel.signatures[:] for kernel in kernels]
    algorithm[0](positions, place, 4)
    assert [kernel.signatures for kernel in kernels] == compiled


@pytest.mark.parametrize(("own", "kept"), [({0}, False), (set(), False)])
def test_fewer_than_k_objects_are_all_suppressed(algorithm, own, kept):
    positions, sets, _ = solve_world(([{0: (0, 0)}] * 3, [own] * 3, range(3)), 4, algorithm, 1)
    assert (sets.kept == kept).all()
    assert not len(sets.other)
    assert not sets.when.any()
    found = _classes.build_classes(positions, sets)
    assert (found.of == -1).all()
    assert _classes.measure_classes(found, 0, 4, 10.0) == {
        "information_loss": 0,
        "classes": 0,
        "median_class_size": 0,
        "coverage_percent": 100,
        "generalised_percent": 0,
        "longer_side_50_m": 0,
        "longer_side_90_m": 0,
    }


def test_nobody_is_generalised_where_nobody_has_own_instants(algorithm):
    positions, sets, _ = solve_world(([{0: (0, 0)}] * 4, [set()] * 4, range(4)), 4, algorithm, 1)
    assert sets.kept.all()
    assert (_classes.build_classes(positions, sets).of == -1).all()


def test_all_of_k_identical_objects_hide_one_another_in_their_cell(algorithm):
    positions, sets, _ = solve_world(([{0: (5, 5), 1: (5, 6)}] * 4, [{0, 1}] * 4, range(4)), 4, algorithm, 2)
    found = _classes.build_classes(positions, sets)
    assert convert_classes(found) == {(t, (5, 5 + t, 5, 5 + t)): {0, 1, 2, 3} for t in (0, 1)}
    assert _classes.compute_information_loss(found, 8) == 0


def test_classes_with_the_same_rectangle_are_one():
    where = [{0: (0, 0)}, {0: (3, 3)}, {0: (3, 0)}, {0: (0, 3)}]
    positions = make_positions(where, [{0}] * 4, range(4), 1)
    sets = _sets.Sets(
        offset=np.arange(5),
        other=np.array([1, 0, 3, 2], np.int32),
        when=pack_flags(np.ones((4, 1), bool)),
        kept=np.ones(4, bool),
    )
    found = _classes.build_classes(positions, sets)
    assert convert_classes(found) == {(0, (0, 0, 3, 3)): {0, 1, 2, 3}}


def test_figures_are_of_published_pairs_and_metres():
    # Two of a class of 2 x 8 cells and three of one of 4 x 4, of five objects at two instants; the sixth is left out.
    where = [{0: (0, 0), 1: (0, 0)}, {0: (1, 7), 1: (0, 0)}]
    where += [{0: (20 + x, 20 + y), 1: (0, 0)} for x, y in ((0, 0), (3, 0), (0, 3))] + [{1: (9, 9)}]
    positions = make_positions(where, [{0}] * 5 + [{1}], range(6), 2)
    sets = _sets.Sets(
        offset=np.array([0, 1, 2, 4, 6, 8, 8]),
        other=np.array([1, 0, 3, 4, 2, 4, 2, 3], np.int32),
        when=pack_flags(np.array([[True, False]] * 5 + [[False, False]])),
        kept=np.arange(6) < 5,
    )
    assert _classes.measure_classes(_classes.build_classes(positions, sets), 10, 2, 10.0) == {
        "information_loss": pytest.approx(5 * (1 - 1 / 16) / 10),
        "classes": 2,
        "median_class_size": 2.5,
        "coverage_percent": 100,
        "generalised_percent": 50,
        **summarise_sides(np.array([20, 40]), np.array([80, 40])),
    }


def test_a_run_of_generalised_instants_alone_must_leave_somebody() -> None:
    """Nobody can hide the one who is known, and of the others nothing is generalised."""
    data = Trajectories(
        trajectory_id=np.arange(3), subject=np.arange(3), offset=np.array([0, 2, 3, 4]),
        t=np.array([0.0, 60.0, 0.0, 0.0]), x=np.full(4, 5.0), y=np.full(4, 5.0), srid=32610, grid_m=10.0, grid_s=1,
    )  # fmt: skip
    known = QuasiIdentifiers(subject=np.array([0]), t=np.array([60.0]))
    family = METHODS["mob"]
    for algorithm in ("symmetric", "extreme-union"):
        params = family.parse({"k": 2, "align": "exact", "qid_only": True})
        with expect_refusal(InfeasibleError, "k = 2", 3):
            family.anonymise(data, algorithm, params, np.random.default_rng(0), quasi_identifiers=known)


@pytest.mark.parametrize("at", [0.0, 30.0])
def test_fixes_too_far_apart_are_refused_before_anything_is_computed_whether_at_an_instant_or_not(at: float) -> None:
    # The attack would refuse both; the dataset's cells are of 10 m.
    t = np.tile([0.0, 30.0, 60.0], 2)
    data = Trajectories(
        trajectory_id=np.arange(2), subject=np.arange(2), offset=np.arange(3) * 3, t=t,
        x=np.where((t == at) & (np.arange(6) < 3), 3e10, 0.0), y=np.zeros(6), srid=32610, grid_m=10.0, grid_s=1,
    )  # fmt: skip
    known = QuasiIdentifiers(subject=np.array([0, 1]), t=np.array([0.0, 60.0]))
    params = METHODS["mob"].parse({"k": 2, "align": "exact"})
    with pytest.raises(DataError, match=r"2\^30"):
        METHODS["mob"].anonymise(data, "symmetric", params, np.random.default_rng(0), quasi_identifiers=known)
