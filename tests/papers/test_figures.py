"""The figures that papers report, against plain Python, by hand, and with their two known faults right."""

import itertools
import math
from collections import Counter
from collections.abc import Hashable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.figures import sequences, tallies
from benchmarks.figures.files import Tracks
from benchmarks.figures.tallies import Tally, measure_divergence
from benchmarks.figures.unicity import measure_unicity

Counts = dict[tuple[int, int], int]


def make_tally(counts: Counts) -> Tally:
    keys = np.array(list(counts), np.int64).reshape(-1, 2)
    return Tally(keys=keys, values=np.array(list(counts.values()), float))


def compute_plain_jsd(a: dict[Hashable, float], e: dict[Hashable, float]) -> float:
    p, q = ({key: value / sum(own.values()) for key, value in own.items()} for own in (a, e))
    total = 0.0
    for key in set(p) | set(q):
        m = (p.get(key, 0) + q.get(key, 0)) / 2
        total += sum(s.get(key, 0) * math.log2(s.get(key, 0) / m) / 2 for s in (p, q) if s.get(key, 0))
    return total


def compute_plain_tau_b(a: list[float], e: list[float]) -> float:
    """Go through all pairs: (C - D) / sqrt((C + D + T) (C + D + U))."""
    pairs = list(itertools.combinations(range(len(a)), 2))
    signs = [(np.sign(a[i] - a[j]), np.sign(e[i] - e[j])) for i, j in pairs]
    agree = sum(s * r for s, r in signs)
    return agree / math.sqrt(sum(s != 0 for s, _ in signs) * sum(r != 0 for _, r in signs))


keys = st.tuples(st.integers(0, 2), st.integers(0, 4))
counts = st.dictionaries(keys, st.integers(1, 5), min_size=1, max_size=10)


@settings(max_examples=100, deadline=None)
@given(counts, counts)
def test_figures_of_tallies_are_those_of_plain_python(a: Counts, e: Counts) -> None:
    true, told = make_tally(a), make_tally(e)
    assert tallies.measure_trip_jsd(true, told) == pytest.approx(compute_plain_jsd(a, e), abs=1e-12)
    off = sum(abs(a.get(key, 0) - e.get(key, 0)) for key in {*a, *e})
    assert tallies.measure_tally_error(true, told) == pytest.approx(off / sum(a.values()))
    by_hour = []
    for hour in {key[0] for key in a}:
        own = [{key: value for key, value in of.items() if key[0] == hour} for of in (a, e)]
        by_hour.append(compute_plain_jsd(*own) if own[1] else 1)
    assert tallies.measure_density_jsd(true, told) == pytest.approx(np.mean(by_hour))
    both = sorted({*a, *e})
    values = [[own.get(key, 0) for key in both] for own in (a, e)]
    if all(len(set(own)) > 1 for own in values):
        assert tallies.measure_location_tau_b(true, told) == pytest.approx(compute_plain_tau_b(*values))
    else:
        assert tallies.measure_location_tau_b(true, told) is None


def test_the_divergence_is_not_its_root_and_at_most_one_bit() -> None:
    """A half in common: shares 1, 0 and 1/2, 1/2."""
    by_hand = (math.log2(4 / 3) + math.log2(2 / 3) / 2 + 1 / 2) / 2
    assert measure_divergence(np.array([7.0, 0.0]), np.array([3.0, 3.0])) == pytest.approx(by_hand)
    assert measure_divergence(np.array([1.0, 0.0]), np.array([0.0, 9.0])) == 1
    assert measure_divergence(np.array([2.0, 4.0]), np.array([1.0, 2.0])) == pytest.approx(0)
    assert measure_divergence(np.zeros(2), np.ones(2)) == 1


def test_tallies_of_nothing_cannot_be_compared() -> None:
    none, some = make_tally({}), make_tally({(0, 0): 3})
    for of in (
        tallies.measure_density_jsd, tallies.measure_trip_jsd, tallies.measure_tally_error,
        tallies.measure_location_tau_b,
    ):  # fmt: skip
        assert of(none, some) is None
        assert of(none, none) is None
    assert tallies.measure_trip_jsd(some, none) == tallies.measure_density_jsd(some, none) == 1
    assert tallies.measure_location_tau_b(some, some) is None  # one cell has no order


# ---- tracks ----------------------------------------------------------------------------------------------------------

small = st.integers(0, 5)
rows = st.lists(
    st.tuples(st.integers(0, 3), small, small, small), min_size=1, max_size=30, unique_by=lambda row: row[:2]
)
Rows = list[tuple[int, int, int, int]]


def list_tracks(rows: Rows) -> list[list[tuple[int, int]]]:
    by_track: dict[int, list[tuple[int, int]]] = {}
    for track, _, x, y in sorted(rows):
        by_track.setdefault(track, []).append((x, y))
    return list(by_track.values())


def make_tracks(rows: Rows) -> Tracks:
    person, t, x, y = np.array(sorted(rows)).T
    return Tracks(person=person, t=t.astype(float), x=x.astype(float), y=y.astype(float), weight=np.ones(len(t)))


def count_plain_buckets(sizes: list[float], like: list[float]) -> Counter[int]:
    edges = [min(like) + (max(like) - min(like)) * i / 20 for i in range(1, 20)]
    return Counter(sum(size >= edge - 1e-12 for edge in edges) for size in sizes)


@settings(max_examples=100, deadline=None)
@given(rows, rows)
def test_lengths_and_diameters_are_those_of_plain_python(a: Rows, e: Rows) -> None:
    lengths = [[sum(map(math.dist, own, own[1:])) for own in list_tracks(of)] for of in (a, e)]
    extents = [[max(math.dist(p, q) for p in own for q in own) for own in list_tracks(of)] for of in (a, e)]
    assert sequences.measure_diameters(make_tracks(a)) == pytest.approx(extents[0])
    if not any(find_near_edge(lengths)):
        expected = compute_plain_jsd(*(count_plain_buckets(own, lengths[0]) for own in lengths))
        assert sequences.measure_length_jsd(make_tracks(a), make_tracks(e)) == pytest.approx(expected, abs=1e-9)
    if not any(find_near_edge(extents)):
        expected = compute_plain_jsd(*(count_plain_buckets(own, extents[0]) for own in extents))
        assert sequences.measure_diameter_jsd(make_tracks(a), make_tracks(e)) == pytest.approx(expected, abs=1e-9)


def find_near_edge(sizes: list[list[float]]) -> list[bool]:
    """Which sizes lie on an edge of buckets, where rounding decides."""
    edges = np.linspace(min(sizes[0]), max(sizes[0]), 21)[1:-1]
    return [bool(np.abs(edges - size).min() < 1e-9) for size in sizes[0] + sizes[1]]


def test_the_longest_tracks_are_in_a_bucket_too() -> None:
    """Twice the greatest true length is in the last bucket, with the greatest."""
    true = make_tracks([(0, 0, 0, 0), (0, 1, 10, 0), (1, 0, 0, 0), (1, 1, 1, 0)])
    told = make_tracks([(0, 0, 0, 0), (0, 1, 20, 0), (1, 0, 0, 0), (1, 1, 0, 0)])
    assert sequences.measure_length_jsd(true, told) == 0


def test_a_track_counts_as_many_people_as_it_stands_for() -> None:
    true = make_tracks([(0, 0, 0, 0), (0, 1, 10, 0), (1, 0, 0, 0), (2, 0, 5, 5)])
    heavy = make_tracks([(0, 0, 0, 0), (0, 1, 10, 0), (1, 0, 0, 0)])
    weighted = Tracks(**(vars(heavy) | {"weight": np.array([1.0, 1.0, 2.0])}))
    assert sequences.measure_length_jsd(true, weighted) == pytest.approx(0)
    assert sequences.measure_length_jsd(true, heavy) > 0.01


def find_plain_patterns(of: list[list[tuple[int, int]]]) -> Counter[tuple[tuple[int, int], ...]]:
    found: Counter[tuple[tuple[int, int], ...]] = Counter()
    for track in of:
        cells = [cell for cell, _ in itertools.groupby((x // 2, y // 2) for x, y in track)]
        for length in (2, 3, 4, 5):
            found.update(tuple(cells[i : i + length]) for i in range(len(cells) - length + 1))
    return found


@settings(max_examples=100, deadline=None)
@given(rows, rows)
def test_patterns_are_those_of_plain_python(a: Rows, e: Rows) -> None:
    """With fewer than 100 patterns, none is cut off."""
    true, told = find_plain_patterns(list_tracks(a)), find_plain_patterns(list_tracks(e))
    found = sequences.compare_patterns(make_tracks(a), make_tracks(e), 2)
    if not true:
        assert found.f1 is None
        assert found.support is None
        return
    assert found.f1 == pytest.approx(2 * len(true.keys() & told.keys()) / (len(true) + len(told)))
    assert found.support == pytest.approx(sum(abs(told[key] - n) / n for key, n in true.items()) / len(true))


def test_only_the_hundred_most_frequent_patterns_count() -> None:
    """150 ways of two cells, of which 100 are gone twice; what is told has the other 50, and 50 of those."""
    often = [(i, t, 10 * i + t, 0) for i in range(100) for t in (0, 1)]
    again = [(1000 + i, t, x, y) for i, t, x, y in often]
    once = [(2000 + i, t, 5000 + 10 * i + t, 0) for i in range(50) for t in (0, 1)]
    told = [*often[:100], *once]
    found = sequences.compare_patterns(make_tracks([*often, *again, *once]), make_tracks(told), 1)
    assert found.f1 == pytest.approx(2 * 50 / 200)
    assert found.support == pytest.approx((50 * 0.5 + 50 * 1) / 100)


def test_the_same_data_have_the_best_figures() -> None:
    rng = np.random.default_rng(2)
    walk = make_tracks([(i, t, *rng.integers(0, 9, 2)) for i in range(30) for t in range(40)])
    found = sequences.compare_patterns(walk, walk, 3)
    assert (found.f1, found.support) == (1, 0)
    assert sequences.measure_length_jsd(walk, walk) == sequences.measure_diameter_jsd(walk, walk) == 0


@settings(max_examples=80, deadline=None)
@given(rows, st.integers(0, 9))
def test_all_points_of_a_person_single_out_those_whose_points_no_other_has(rows: Rows, seed: int) -> None:
    """With as many points as a person has there is nothing at random."""
    points: dict[int, set[tuple[int, int, int]]] = {}
    for person, t, x, y in rows:
        points.setdefault(person, set()).add((t // 2, x // 2, y // 2))
    found = measure_unicity(make_tracks(rows), np.random.default_rng(seed), points=range(1, 30), cell_m=2, slot_s=2)
    for p, figure in enumerate(found, 1):
        exactly = [person for person, own in points.items() if len(own) == p]
        more = [person for person, own in points.items() if len(own) > p]
        unique = [person for person in exactly if sum(points[person] <= own for own in points.values()) == 1]
        if not more:
            assert figure.value == (pytest.approx(len(unique) / len(exactly)) if exactly else None)
