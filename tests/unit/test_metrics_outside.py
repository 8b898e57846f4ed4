"""What an adversary outside of any promise achieves, against plain Python and by hand."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.base.errors import ParameterError
from dbanon.base.figures import Movements
from dbanon.metrics import METRICS
from dbanon.metrics.outside import link_nearest, measure_unicity
from tests.unit.test_metrics_counts import NOTHING, make_movements

small = st.integers(0, 3)
rows = st.lists(st.tuples(st.integers(0, 4), small, small, small), min_size=1, max_size=30)
Rows = list[tuple[int, int, int, int]]


def make_moved(rows: Rows) -> Movements:
    return make_movements([(person, person, t, x, y) for person, t, x, y in rows])


@settings(max_examples=80, deadline=None)
@given(rows, st.integers(0, 9))
def test_all_points_of_a_person_single_out_those_whose_points_no_other_has(rows: Rows, seed: int) -> None:
    """With as many points as a person has there is nothing at random."""
    points: dict[int, set[tuple[int, int, int]]] = {}
    for person, t, x, y in rows:
        points.setdefault(person, set()).add((t // 2, x // 2, y // 2))
    rng = np.random.default_rng(seed)
    found = measure_unicity(make_moved(rows), rng, points=range(1, 30), cell_m=2, slot_s=2)
    for p, figure in enumerate(found, 1):
        exactly = [person for person, own in points.items() if len(own) == p]
        more = [person for person, own in points.items() if len(own) > p]
        unique = [person for person in exactly if sum(points[person] <= own for own in points.values()) == 1]
        if not exactly and not more:
            assert figure.value is None
        elif not more:
            assert figure.value == pytest.approx(len(unique) / len(exactly))


def test_points_at_random_single_out_as_many_as_there_are_pairs_that_do() -> None:
    """Four people with three points each, of which they share some: all draws, against their mean over many."""
    own = {0: {0, 1, 2}, 1: {0, 1, 3}, 2: {0, 4, 5}, 3: {6, 7, 2}}
    data = make_moved([(person, t, 0, 0) for person, times in own.items() for t in times])
    rng = np.random.default_rng(0)
    draws = [measure_unicity(data, rng, points=(1, 2, 3), cell_m=1, slot_s=1) for _ in range(800)]
    for p in (1, 2, 3):
        alone = [
            sum(set(drawn) <= points for points in own.values()) == 1
            for of in own.values()
            for drawn in itertools.combinations(of, p)
        ]
        assert np.mean([found[p - 1].value for found in draws]) == pytest.approx(np.mean(alone), abs=0.03)
        assert draws[0][p - 1].name in METRICS


def test_more_points_never_single_out_fewer() -> None:
    rng = np.random.default_rng(1)
    n = 4000
    data = make_moved(list(zip(*rng.integers(0, [[200], [50], [9], [9]], (4, n)).tolist(), strict=True)))
    found = measure_unicity(data, rng, cell_m=3, slot_s=10, people=100)
    values = [figure.value for figure in found]
    assert values == sorted(values)
    assert values[0] < 0.2
    assert values[-1] > 0.5
    assert all(figure.low <= figure.value <= figure.high for figure in found)


def test_those_who_all_do_the_same_are_never_alone_and_one_person_always_is() -> None:
    same = make_moved([(person, t, 5, 5) for person in range(6) for t in range(8)])
    rng = np.random.default_rng(1)
    assert [figure.value for figure in measure_unicity(same, rng, cell_m=1, slot_s=1)] == [0] * 6
    one = make_moved([(0, t, 5, 5) for t in range(3)])
    assert [figure.value for figure in measure_unicity(one, rng, cell_m=1, slot_s=1)] == [1, 1, 1, None, None, None]
    assert [figure.value for figure in measure_unicity(NOTHING, rng, cell_m=1, slot_s=1)] == [None] * 6


def test_cells_that_cannot_be_numbered_are_refused() -> None:
    far = make_movements([(0, 0, 0, 0, 0), (0, 0, 1e9, 1e9, 1e9)])
    with pytest.raises(ParameterError, match="Cells and slots"):
        measure_unicity(far, np.random.default_rng(0), cell_m=1e-3, slot_s=1)


# ---- the nearest -----------------------------------------------------------------------------------------------------


def add_weights(data: Movements, weight: list[float]) -> Movements:
    return Movements(**(vars(data) | {"weight": np.array(weight, float)[data.track]}))


def link_plainly(true: Rows, told: Rows, members: set[tuple[int, int]], weight: list[float]) -> float:
    """Take each person's nearest track, one after the other."""
    right = []
    for person in sorted({row[0] for row in true}):
        way = {t: (x, y) for who, t, x, y in true if who == person}
        distance: dict[int, float] = {}
        for track in {row[0] for row in told}:
            common = [math.dist(way[t], (x, y)) for own, t, x, y in told if own == track and t in way]
            if common:
                distance[track] = sum(common) / len(common)
        nearest = [track for track, d in distance.items() if abs(d - min(distance.values())) < 1e-12]
        hits = [1 / weight[track] for track in nearest if (person, track) in members]
        right.append(sum(hits) / max(1, len(nearest)))
    return sum(right) / len(right)


ways = st.lists(
    st.tuples(st.integers(0, 4), small, small, small), min_size=1, max_size=20, unique_by=lambda row: row[:2]
)


@settings(max_examples=100, deadline=None)
@given(ways, ways, st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4))))
def test_linking_is_that_of_plain_python(true: Rows, told: Rows, members: set[tuple[int, int]]) -> None:
    weight = [1.0, 2.0, 5.0, 1.0, 3.0]
    # Distances along one axis are whole numbers: equal sums are equal to the last bit, in any order.
    true, told = ([(who, t, x, 0) for who, t, x, _ in own] for own in (true, told))
    pairs = np.array(sorted(members), np.int64).reshape(-1, 2).T
    found = link_nearest(
        make_moved(true),
        add_weights(make_moved(told), weight),
        (pairs[0], pairs[1]),
        np.random.default_rng(0),
        people=50,
    )
    assert found.value == pytest.approx(link_plainly(true, told, members, weight), abs=1e-9)
    assert found.low <= found.value <= found.high


def test_five_in_a_group_are_each_found_once_in_five() -> None:
    """Two groups far apart, whose centres are told."""
    true = make_moved([(i, t, 100 * (i // 5) + i % 5, 0) for i in range(10) for t in range(3)])
    told = add_weights(make_moved([(g, t, 100 * g + 2, 0) for g in range(2) for t in range(3)]), [5, 5])
    members = (np.arange(10), np.arange(10) // 5)
    found = link_nearest(true, told, members, np.random.default_rng(0))
    assert found.value == pytest.approx(0.2)
    assert found.name in METRICS


def test_no_one_is_found_where_there_is_no_one_or_nothing_at_the_same_time() -> None:
    data, other = make_moved([(0, 0, 1, 1)]), make_moved([(0, 3, 1, 1)])
    nobody = (np.empty(0, np.int64), np.empty(0, np.int64))
    assert link_nearest(NOTHING, data, nobody, np.random.default_rng(0)).value is None
    assert link_nearest(data, NOTHING, nobody, np.random.default_rng(0)).value == 0
    assert link_nearest(data, NOTHING, nobody, np.random.default_rng(0)).high == pytest.approx(0.95)
    assert link_nearest(data, other, (np.zeros(1, np.int64),) * 2, np.random.default_rng(0)).value == 0


def test_a_sample_says_about_what_all_would() -> None:
    rng = np.random.default_rng(3)
    x = rng.random(400) * 1000
    true = make_movements([(i, i, t, x[i], 0) for i in range(400) for t in range(2)])
    noisy = make_movements(
        [(i, i, t, x[i] + shift, 0) for i, shift in enumerate(rng.normal(0, 2, 400)) for t in range(2)]
    )
    members = (np.arange(400), np.arange(400))
    whole = link_nearest(true, noisy, members, rng, people=400).value
    part = link_nearest(true, noisy, members, rng, people=100)
    assert part.low - 0.05 <= whole <= part.high + 0.05
    assert part.high - part.low < 0.25
