"""GLOVE: its formulas on hand-made samples, against a plain statement of it, and what holds of every group."""

import random
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.papers.kte import glove
from dbanon.base import cores
from dbanon.methods.kte import _rows
from tests.papers import oracles_kte_glove as oracle
from tests.unit import test_kte_posterior as posterior
from tests.unit.kte_tracks import GRID, list_rows, make_samples, walk

SEED = 2015


def make_pieces(*rows):
    return np.array(rows, np.int64).T.copy()


def stretch(a, na, b, nb):
    return glove._stretch(make_pieces(*a), na, make_pieces(*b), nb, *glove._scale(make_samples([])))[0]


def test_a_stretch_of_48_minutes_and_4_km_costs_015():
    """Half of 48 min / 8 h and half of 4 km / 20 km."""
    a, b = (0, 0, 0, 0, 0, 0), (48, 48, 30, 10, 30, 10)
    assert stretch([a], 1, [b], 1) == pytest.approx(0.5 * 0.1 + 0.5 * 0.2)


def test_stretches_are_weighted_by_the_subjects_of_each_group():
    """A period of 2 subjects grows from 10 to 25 slots, that of one from 1 to 25: (2 x 15 + 24) / 3 = 18 min."""
    a, b = (0, 9, 0, 0, 5, 5), (24, 24, 5, 5, 5, 5)
    assert stretch([a], 2, [b], 1) == pytest.approx(0.5 * 18 / 480 + 0.5 * (10 / 3 * 0.1) / 20)


def test_a_stretch_in_time_and_one_in_space_cost_a_half_at_most_each():
    assert stretch([(0, 0, 0, 0, 0, 0)], 1, [(10**6, 10**6, 0, 0, 0, 0)], 1) == 0.5
    assert stretch([(0, 0, 0, 0, 0, 0)], 1, [(10**6, 10**6, 10**6, 0, 10**6, 0)], 1) == 1.0


def test_the_stretch_of_a_pair_is_the_mean_over_the_longer_of_the_least_over_the_shorter():
    a = [(0, 0, 0, 0, 0, 0), (48, 48, 0, 0, 0, 0), (480, 480, 0, 0, 0, 0)]
    b = [(0, 0, 0, 0, 0, 0), (480, 480, 0, 0, 0, 0)]
    assert stretch(a, 1, b, 1) == pytest.approx((0 + 0.05 + 0) / 3)


def test_two_samples_that_overlap_become_before_both_and_after():
    out = glove._reshape(make_pieces((0, 9, 0, 0, 1, 1), (5, 14, 4, 4, 6, 6)))
    assert out.T.tolist() == [[0, 4, 0, 0, 1, 1], [5, 9, 0, 0, 6, 6], [10, 14, 4, 4, 6, 6]]


def test_a_sample_within_another_cuts_it_in_three_and_a_gap_stays():
    out = glove._reshape(make_pieces((0, 9, 0, 0, 1, 1), (5, 5, 4, 4, 6, 6), (20, 20, 7, 7, 7, 7)))
    assert out.T.tolist() == [[0, 4, 0, 0, 1, 1], [5, 5, 0, 0, 6, 6], [6, 9, 0, 0, 1, 1], [20, 20, 7, 7, 7, 7]]


def test_two_pairs_that_go_together_are_two_groups():
    """Subjects 0 and 2 are a cell apart, 1 and 3 a slot; samples of one are merged with those of the other in turn."""
    tracks = [
        [(0, 0, 0), (60, 50, 0)],
        [(0, 500, 500), (60, 450, 500)],
        [(0, 1, 0), (60, 51, 0)],
        [(1, 500, 500), (61, 450, 500)],
    ]
    group, merged = glove.group_by_glove(make_samples(tracks), 2, np.arange(4))
    assert group.tolist() == [0, 1, 0, 1]
    assert list_rows(merged, 0) == [(0, 0, 0, 0, 1, 0), (60, 60, 50, 0, 51, 0)]
    assert list_rows(merged, 1) == [(0, 1, 500, 500, 500, 500), (60, 61, 450, 500, 450, 500)]


def test_of_a_sample_left_over_the_cheapest_merged_one_takes_it():
    """The shorter's second sample, chosen by none of the longer, goes to the merged one 100 slots away."""
    tracks = [[(0, 0, 0), (1, 0, 0), (2, 0, 0)], [(1, 0, 0), (102, 3, 0)]]
    _, merged = glove.group_by_glove(make_samples(tracks), 2, np.arange(2))
    assert list_rows(merged, 0) == [(0, 102, 0, 0, 3, 0)]


def test_a_piece_without_a_fix_of_everyone_goes_to_the_neighbour_it_costs_least():
    """Of the pieces, the second holds no fix of subject 1: the third is a slot away and the first 17."""
    samples = make_samples([[(0, 0, 0), (20, 5, 5), (22, 5, 5)], [(0, 0, 0), (22, 5, 6)]])
    before = make_pieces((0, 2, 0, 0, 0, 0), (20, 21, 5, 5, 5, 5), (22, 22, 5, 5, 5, 6))
    out = glove._complete(before, samples.offset, samples.slot, np.arange(2), *glove._scale(samples))
    assert out.T.tolist() == [[0, 2, 0, 0, 0, 0], [20, 22, 5, 5, 5, 6]]


def test_the_last_subject_joins_the_group_it_costs_least():
    tracks = [[(0, 0, 0)], [(0, 1, 0)], [(0, 500, 0)], [(0, 503, 0)], [(0, 400, 0)]]
    group, merged = glove.group_by_glove(make_samples(tracks), 2, np.arange(5))
    assert group.tolist() == [0, 0, 1, 1, 1]
    assert list_rows(merged, 1) == [(0, 0, 400, 0, 503, 0)]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_k_subjects_are_in_no_group(count):
    group, merged = glove.group_by_glove(make_samples([[(0, 0, 0)]] * count), 3, np.arange(count))
    assert group.tolist() == [-1] * count
    assert merged.offset.tolist() == [0]


@pytest.mark.many
@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_the_kernels_do_what_the_plain_statement_does(cases, k):
    rng = random.Random(SEED + k)
    for _ in cases(40):
        tracks = [walk(rng, 30) for _ in range(rng.randint(k, 12))]
        rank = rng.sample(range(len(tracks)), len(tracks))
        demand_agreement(tracks, k, rank)


def test_they_do_so_where_many_costs_are_equal(cases):
    rng = random.Random(SEED)
    for _ in cases(80):
        tracks = [walk(rng, 6, slots=4, side=2, step=1) for _ in range(rng.randint(2, 9))]
        demand_agreement(tracks, rng.randint(2, 4), rng.sample(range(len(tracks)), len(tracks)))


@pytest.mark.many
@pytest.mark.parametrize(("remembered", "block", "threads"), [(1, 1, 1), (1, 20, 2), (2, 7, 3), (3, 1 << 23, 5)])
def test_they_do_so_with_little_remembered_in_blocks_and_on_any_number_of_threads(
    cases, monkeypatch, remembered, block, threads
):
    monkeypatch.setattr(glove, "PARTNERS_KEPT", remembered)
    monkeypatch.setattr(glove, "PAIRS_PER_BLOCK", block)
    monkeypatch.setattr(cores, "count_threads", lambda: threads)
    rng = random.Random(SEED)
    for _ in cases(15):
        tracks = [walk(rng, 12) for _ in range(rng.randint(8, 16))]
        demand_agreement(tracks, rng.randint(2, 5), rng.sample(range(len(tracks)), len(tracks)))


def demand_agreement(tracks, k, rank):
    samples = make_samples(tracks)
    group, merged = glove.group_by_glove(samples, k, np.array(rank))
    expected = oracle.group_by_glove([sorted(set(track)) for track in tracks], k, rank, GRID)
    if len(tracks) < k:
        assert not expected
        return
    assert [set(np.flatnonzero(group == g).tolist()) for g in range(group.max() + 1)] == [m for m, _ in expected]
    assert [list_rows(merged, g) for g in range(group.max() + 1)] == [rows for _, rows in expected]


@pytest.mark.parametrize("k", [2, 3, 7])
def test_groups_have_k_and_rows_cover_hold_everyone_and_never_overlap(k):
    rng = random.Random(SEED - k)
    for _ in range(10):
        tracks = [walk(rng, 80) for _ in range(rng.randint(k, 30))]
        samples = make_samples(tracks)
        group, merged = glove.group_by_glove(samples, k, np.array(rng.sample(range(len(tracks)), len(tracks))))
        assert (np.bincount(group) >= k).all()
        for g in range(group.max() + 1):
            demand_held(list_rows(merged, g), [set(tracks[u]) for u in np.flatnonzero(group == g)])


def demand_held(rows, tracks):
    assert all(a[1] < b[0] for a, b in pairwise(rows))
    for track in tracks:
        within = [
            [s for s in track if first <= s[0] <= last and x0 <= s[1] <= x1 and y0 <= s[2] <= y1]
            for first, last, x0, y0, x1, y1 in rows
        ]
        assert all(within)
        assert sum(map(len, within)) == len(track)


def test_ties_go_by_rank_and_not_by_the_order_of_subjects():
    """All at one point: whoever is first of the order is grouped with the second, whatever their codes."""
    tracks = [[(0, 0, 0)]] * 6
    for seed in range(20):
        rank = np.random.default_rng(seed).permutation(6)
        group, _ = glove.group_by_glove(make_samples(tracks), 2, rank)
        assert group[np.argsort(rank)].tolist() == [0, 0, 1, 1, 2, 2]


def test_other_codes_with_the_same_order_give_the_same_groups():
    rng = random.Random(SEED)
    tracks = [walk(rng, 20) for _ in range(15)]
    rank = np.array(rng.sample(range(15), 15))
    group, merged = glove.group_by_glove(make_samples(tracks), 2, rank)
    turned = glove.group_by_glove(make_samples(tracks[::-1]), 2, rank[::-1].copy())
    assert turned[0][::-1].tolist() == group.tolist()
    assert turned[1].box.tolist() == merged.box.tolist()
    codes = np.arange(15) * 3 + 2  # some codes have no samples
    sparse = np.full(50, 99)
    sparse[codes] = rank
    assert glove.group_by_glove(make_samples(tracks, subject=codes), 2, sparse)[0].tolist() == group.tolist()


@pytest.mark.parametrize("places", [(2, 2), (2, 1, 2), (2, 2, 1)])
def test_no_record_is_anybodys_above_one_half_whichever_epochs_are_known(monkeypatch, places):
    """Every placement of four people, weighed as `tests.unit.test_kte_posterior` does."""
    monkeypatch.setattr(_rows, "rank_subjects", lambda data, _: np.arange(len(data.subject)))
    releases, epochs = list(posterior.publish_all(places, "glove", {})), range(len(places))
    assert max(posterior.find_greatest_posterior(releases, [epoch]) for epoch in epochs) <= (posterior.HALF, 0)
    if places == (2, 2):
        assert posterior.find_greatest_posterior(releases, epochs) == (posterior.HALF, 0)
