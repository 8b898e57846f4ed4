"""Questions, true counts and the figures of counts, against plain Python and by hand."""

import math
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.metrics import METRICS
from dbanon.metrics.counts import (
    compute_exact_interval,
    find_usable_resolution,
    find_weighted_quantiles,
    measure_counts,
)
from dbanon.metrics.questions import choose_compared_side, count_true_answers, draw_questions, note_sides
from dbanon.results.figures import Answers, Figure, Movements, Questions


def make_movements(rows: list[tuple[int, float, float, float]]) -> Movements:
    """Rows of (person, t, x, y), sorted as the record wants them."""
    person, *places = (np.array(column) for column in zip(*sorted(rows, key=lambda row: row[:2]), strict=True))
    return Movements(person=person, **dict(zip("txy", (place.astype(float) for place in places), strict=True)))


NOTHING = Movements(person=np.empty(0, np.int64), t=np.empty(0), x=np.empty(0), y=np.empty(0))


def make_questions(asked: list[tuple[float, float, float, float, float]]) -> Questions:
    """Rows of (side, x, y, since, until)."""
    side, x, y, since, until = np.array(asked, float).reshape(-1, 5).T
    return Questions(side_m=side, x=x, y=y, since=since, until=until)


def count_plainly(moved: Movements, asked: Questions) -> list[int]:
    found = []
    for side, left, low, since, until in zip(asked.side_m, asked.x, asked.y, asked.since, asked.until, strict=True):
        people = set()
        for person, t, x, y in zip(moved.person, moved.t, moved.x, moved.y, strict=True):
            then = t == since if since == until else since <= t < until
            if then and left <= x <= left + side and low <= y <= low + side:
                people.add(int(person))
        found.append(len(people))
    return found


small = st.integers(0, 6)
rows = st.lists(st.tuples(st.integers(0, 4), small, small, small), min_size=1, max_size=40)
asked = st.lists(st.tuples(st.integers(0, 4), small, small, small, st.integers(0, 3)), max_size=20)


@settings(max_examples=150, deadline=None)
@given(rows, asked)
def test_true_counts_are_those_of_plain_python(
    rows: list[tuple[int, int, int, int]], asked: list[tuple[int, int, int, int, int]]
) -> None:
    moved = make_movements(rows)
    put = make_questions([(side, x, y, since, since + long) for side, x, y, since, long in asked])
    assert count_true_answers(moved, put).tolist() == count_plainly(moved, put)


def test_many_people_are_counted_as_in_plain_python() -> None:
    rng = np.random.default_rng(4)
    n = 3000
    columns = rng.integers(0, 50, n), 600 * rng.integers(0, 20, n), *(8 * rng.random((2, n)))
    moved = make_movements(list(zip(*columns, strict=True)))
    put = draw_questions(
        rng, box=(0, 0, 8, 8), moments=600.0 * np.arange(20), spans=np.array([[300.0, 900.0], [0.0, 12000.0]]),
        sides_m=(1, 4), queries=30,
    )  # fmt: skip
    assert count_true_answers(moved, put).tolist() == count_plainly(moved, put)


def test_people_whose_positions_are_in_several_parts_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    moved = make_movements([(person, t, *rng.integers(0, 4, 2)) for person in (0, 1, 2, 3) for t in range(10)])
    put = make_questions([(side, 0, 0, since, 9) for side in (1, 2, 3) for since in (0, 4, 8)])
    for size in (1, 3, 7, 10, 11, 25):
        monkeypatch.setattr("dbanon.metrics.questions._POSITIONS_PER_PART", size)
        assert count_true_answers(moved, put).tolist() == count_plainly(moved, put)


def test_many_positions_and_questions_take_memory_for_one_of_them_at_a_time() -> None:
    """200,000 positions x 2,000 questions would be 400 MB of truth values."""
    rng = np.random.default_rng(6)
    person, t = np.divmod(np.arange(200_000), 10)
    x, y = 9000 * rng.random((2, 200_000))
    data = Movements(person=person, t=t.astype(float), x=x, y=y)
    put = draw_questions(
        rng, box=(0, 0, 9000, 9000), moments=np.arange(10.0), spans=np.array([[0.0, 3.0], [4.0, 9.0]]), queries=200,
    )  # fmt: skip
    count_true_answers(make_movements([(0, 0, 0, 0)]), put)  # what is compiled is not counted
    tracemalloc.start()
    try:
        count_true_answers(data, put)
        assert tracemalloc.get_traced_memory()[1] < 60e6
    finally:
        tracemalloc.stop()


def test_nothing_moves_and_nothing_is_asked() -> None:
    put = make_questions([(1, 0, 0, 5, 5)])
    assert count_true_answers(NOTHING, put).tolist() == [0]
    assert count_true_answers(make_movements([(0, 5, 0, 0)]), make_questions([])).tolist() == []


def test_an_edge_and_the_start_of_a_span_count_and_its_end_does_not() -> None:
    moved = make_movements([(0, 10, 2, 1)])
    put = make_questions(
        [(1, 1, 0, 10, 20), (1, 1, 0, 0, 10), (1, 1, 0, 10, 10), (1, 2, 1, 10, 10), (1, 2.1, 1, 10, 10)]
    )
    assert count_true_answers(moved, put).tolist() == [1, 0, 1, 1, 0]


def test_questions_are_drawn_as_many_of_each_side_and_kind() -> None:
    spans = np.array([[0.0, 600.0]])
    rng = np.random.default_rng(0)
    put = draw_questions(rng, box=(0, 0, 16000, 20000), moments=np.array([5.0]), spans=spans)
    assert len(put.side_m) == 5 * 2 * 400
    assert put.moment.sum() == 5 * 400
    centre = put.x + put.side_m / 2
    assert centre.min() >= 0
    assert centre.max() <= 16000
    assert abs(centre.mean() - 8000) < 500
    only = draw_questions(rng, box=(0, 0, 16000, 20000), moments=np.empty(0), spans=spans, queries=7)
    assert len(only.side_m) == 35
    assert not only.moment.any()
    none = draw_questions(rng, box=(0, 0, 1, 1), moments=np.empty(0), spans=np.empty((0, 2)), queries=7)
    assert len(none.side_m) == 0


@pytest.mark.parametrize(
    ("width", "asked", "compared"),
    [
        (16000, [500, 1000, 2000, 4000, 8000], 2000),
        (15999, [500, 1000, 2000, 4000], 2000),
        (4000, [500, 1000, 2000], 1000),
        (3999, [62.5, 125, 250, 500, 1000], 500),
        (999, [31.25, 62.5, 125, 250], 125),
        (0, [31.25, 62.5], 31.25),
    ],
)
def test_squares_are_at_most_half_as_wide_as_the_city_and_settings_are_compared_by_a_quarter(
    width: float, asked: list[float], compared: float
) -> None:
    spans, rng = np.array([[0.0, 600.0]]), np.random.default_rng(0)
    for box in ((5, 5, 5 + width, 50_000), (5, 5, 50_000, 5 + width)):
        put = draw_questions(rng, box=box, moments=np.empty(0), spans=spans, queries=1)
        assert np.unique(put.side_m).tolist() == asked
        assert choose_compared_side(put) == compared
        [*note] = note_sides(put)
        assert bool(note) == (width < 16000)
        assert all(f"{side:g}" in said for side in asked for said in note)


def test_the_same_seed_asks_the_same() -> None:
    one, two = (
        draw_questions(
            np.random.default_rng(3), box=(0, 0, 9, 9), moments=np.arange(9.0), spans=np.array([[0.0, 9.0]]),
            queries=5,
        )
        for _ in range(2)
    )  # fmt: skip
    assert all((getattr(one, name) == getattr(two, name)).all() for name in ("side_m", "x", "y", "since", "until"))


# ---- figures ---------------------------------------------------------------------------------------------------------


def compute_figures(true: list[float], expected: list[float], low: list[float], high: list[float]) -> dict[str, Figure]:
    put = make_questions([(500, 0, 0, 0, 0)] * len(true))
    answers = Answers(at_least=np.array(low), expected=np.array(expected), at_most=np.array(high))
    found = measure_counts(put, np.array(true, float), answers, rng=np.random.default_rng(1))
    return {figure.name: figure for figure in found}


def test_figures_of_counts_by_hand() -> None:
    """Three squares with 4, 0 and 6 people; told 5, 1 and 3."""
    found = compute_figures([4, 0, 6], [5, 1, 3], [0, 0, 0], [9, 2, 5])
    assert found["count_error"].value == pytest.approx((1 + 1 + 3) / 10)
    assert found["bias"].value == pytest.approx((1 + 1 - 3) / 10)
    assert found["bounds_width"].value == pytest.approx((9 + 2 + 5) / 3)
    assert found["coverage"].value == pytest.approx(2 / 3)
    assert found["count_error"].side_m == 500
    assert found["count_error"].asked == "moment"
    assert all(one.low <= one.value <= one.high for one in found.values() if one.name != "usable_resolution_m")
    assert set(found) <= set(METRICS)


def test_all_answers_that_are_right_have_no_error() -> None:
    found = compute_figures([4, 0, 6], [4, 0, 6], [4, 0, 6], [4, 0, 6])
    assert [found[name].value for name in ("count_error", "bias", "bounds_width")] == [0] * 3
    assert found["coverage"].value == 1
    assert found["usable_resolution_m"].value == 500


def test_a_ratio_to_no_people_cannot_be_said() -> None:
    found = compute_figures([0, 0], [1, 2], [0, 0], [3, 3])
    said = {name: figure.value for name, figure in found.items()}
    assert said == {
        "count_error": None, "bias": None, "bounds_width": 3, "coverage": 1, "usable_resolution_m": None,
    }  # fmt: skip


def test_a_bound_may_miss_by_a_rounding_error_only() -> None:
    assert compute_figures([3], [3], [3 + 1e-9], [3])["coverage"].value == 1
    assert compute_figures([3], [3], [3.1], [4])["coverage"].value == 0


def compute_resolution(errors: dict[float, float]) -> Figure:
    return find_usable_resolution({side: (error, np.full(9, error)) for side, error in errors.items()}, "moment")


def test_the_usable_resolution_lies_between_sides_by_their_logarithm() -> None:
    assert compute_resolution({500: 0.8, 1000: 0.3, 2000: 0.1}).value == pytest.approx(1000 * math.sqrt(2))
    assert compute_resolution({500: 0.8, 1000: 0.4, 4000: 0.2}).value == 4000


def test_the_usable_resolution_is_that_from_which_on_all_are_good() -> None:
    assert compute_resolution({500: 0.1, 1000: 0.3, 2000: 0.1}).value == pytest.approx(1000 * math.sqrt(2))
    assert compute_resolution({500: 0.1, 1000: 0.05}).value == 500
    over = compute_resolution({500: 0.1, 1000: 0.5})
    assert over.value == over.high == math.inf
    assert compute_resolution({500: math.nan, 1000: 0.1}).value == 1000
    assert compute_resolution({500: math.nan, 1000: math.nan}).value is None


def test_the_interval_of_a_resolution_may_be_open_above() -> None:
    half = np.array([0.1, 0.5] * 50)
    one = find_usable_resolution({500: (0.5, np.full(100, 0.5)), 1000: (0.19, half)}, "span")
    assert one.low < 1000
    assert one.high == math.inf
    assert one.value < 1000


# ---- intervals -------------------------------------------------------------------------------------------------------


def draw_evaluations(queries: int, repeats: int) -> Iterator[dict[str, Figure]]:
    """Ask questions of a small town again and again: its answers err by square, more so where more people are."""
    rng = np.random.default_rng(8)
    true, noise = rng.poisson(rng.gamma(1.0, 20.0, 20_000)).astype(float), rng.normal(0, 1, 20_000)
    expected = np.maximum(true + noise * np.sqrt(4 * true + 9), 0)
    off = np.abs(expected - true)
    yield {
        "count_error": Figure(name="count_error", value=off.sum() / true.sum()),
        "bias": Figure(name="bias", value=(expected - true).sum() / true.sum()),
    }
    for _ in range(repeats):
        drawn = rng.integers(0, 20_000, queries)
        put = make_questions([(500, 0, 0, 0, 0)] * queries)
        told = Answers(at_least=true[drawn], expected=expected[drawn], at_most=true[drawn])
        found = measure_counts(put, true[drawn], told, rng=rng)
        yield {figure.name: figure for figure in found}


def test_intervals_hold_what_is_so_of_all_squares_nine_times_in_ten() -> None:
    whole, *samples = draw_evaluations(200, 200)
    for name in ("count_error", "bias"):
        held = np.mean([one[name].low <= whole[name].value <= one[name].high for one in samples])
        assert 0.82 <= held <= 0.97, f"{name}: {held}"


def test_80_questions_leave_much_more_open_than_400() -> None:
    _, few = draw_evaluations(80, 1)
    _, many = draw_evaluations(400, 1)
    width = {len_: one["count_error"].high - one["count_error"].low for len_, one in ((80, few), (400, many))}
    assert 1.6 < width[80] / width[400] < 3.2


def test_an_exact_interval_of_a_share_knows_doubt_at_both_ends() -> None:
    assert compute_exact_interval(0, 100) == (0, pytest.approx(1 - 0.05 ** (1 / 100)))
    assert compute_exact_interval(100, 100) == (pytest.approx(0.05 ** (1 / 100)), 1)
    low, high = compute_exact_interval(5, 10)
    assert (low, high) == (pytest.approx(0.2224, abs=1e-3), pytest.approx(0.7776, abs=1e-3))


def test_noise_is_taken_off_errors_in_squares() -> None:
    rng = np.random.default_rng(3)
    asked = make_questions([(500, 0, 0, 0, 0)] * 4000)
    true = rng.uniform(200, 1000, 4000)
    off, noise = 60 * rng.standard_normal(4000), 40 * rng.standard_normal(4000)

    def measured(error: Any, noise: Any = None) -> dict[str, Figure]:
        told = true + error
        answers = Answers(at_least=told, expected=told, at_most=told)
        found = measure_counts(asked, true, answers, rng=np.random.default_rng(1), noise=noise)
        return {one.name: one for one in found}

    without, noisy, taken_off = measured(off), measured(off + noise), measured(off + noise, noise[::-1])
    values = [found["count_error"].value for found in (without, noisy, taken_off)]
    assert values[1] == pytest.approx(values[0] * math.hypot(60, 40) / 60, rel=0.05)
    assert values[2] == pytest.approx(values[0], rel=0.05)
    assert taken_off["bias"] == noisy["bias"]
    for error, lost in ((noise, 2 * noise), (np.abs(off), off)):  # an error is at least its bias
        found = measured(error, lost)
        assert found["count_error"].value == pytest.approx(abs(found["bias"].value or 0))


# ---- quantiles -------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), min_size=1, max_size=20))
def test_weighted_quantiles_are_those_of_values_written_out(rows: list[tuple[int, int]]) -> None:
    written = sorted(value for value, weight in rows for _ in range(weight))
    by_hand = {share: written[max(0, math.ceil(len(written) * share / 100) - 1)] for share in (10, 50, 90)}
    values, weights = np.array(rows, float).T
    assert find_weighted_quantiles(values, weights) == by_hand
    assert set(find_weighted_quantiles(values, 0 * weights).values()) == {None}
