"""W4M: matching, moving and clustering on hand-made tracks, and what holds of every cluster."""

import random
from itertools import combinations, pairwise
from math import hypot

import numpy as np
import pytest

from benchmarks.papers.kte import w4m
from dbanon.base import cores
from tests.unit.kte_tracks import list_rows, make_samples, walk

SEED = 2010


def edit_tracks(tracks, clusters, delta_m):
    return w4m.edit(make_samples(tracks), [np.array(c) for c in clusters], delta_m)


def test_samples_go_to_the_pivots_slots_and_what_is_missing_is_created_on_the_straight_line():
    """Of the second's samples 0 -> 0 and 22 -> 20; at 10 nobody was: 10/22 of the way from cell 0 to cell 22."""
    out = edit_tracks([[(0, 0, 0), (10, 10, 0), (20, 20, 0)], [(0, 0, 0), (22, 22, 0)]], [[0, 1]], 10_000)
    assert list_rows(out.rows, 0) == [(0, 0, 0, 0, 0, 0), (10, 10, 10, 0, 10, 0), (20, 20, 20, 0, 20, 0)]
    assert list_rows(out.rows, 1) == [(0, 0, 0, 0, 0, 0), (10, 10, 10, 0, 10, 0), (20, 20, 22, 0, 22, 0)]
    assert out.source.tolist() == [0, 1, 2, 3, -1, 4]
    assert out.counts == {"created": 1, "deleted": 0}


def test_as_many_samples_as_can_be_are_matched_in_order_and_moved_least_and_the_others_are_deleted():
    """11 to 10 and 18 to 20 moves 3 slots in all."""
    out = edit_tracks([[(10, 0, 0), (20, 0, 0)], [(8, 1, 0), (11, 2, 0), (15, 3, 0), (18, 4, 0)]], [[0, 1]], 10_000)
    assert list_rows(out.rows, 1) == [(10, 10, 2, 0, 2, 0), (20, 20, 4, 0, 4, 0)]
    assert out.deleted.tolist() == [0, 2]
    assert out.source.tolist() == [0, 1, 3, 5]


def test_matches_are_those_of_all_in_order_that_move_least():
    rng = random.Random(SEED)
    for _ in range(300):
        long = sorted(rng.sample(range(20), rng.randint(1, 7)))
        short = sorted(rng.sample(range(20), rng.randint(1, len(long))))
        chosen = w4m._align(np.array(short), np.array(long)).tolist()
        assert chosen == sorted(set(chosen))
        assert measure_move(short, [long[i] for i in chosen]) == min(
            measure_move(short, c) for c in combinations(long, len(short))
        )


def measure_move(a, b):
    return sum(abs(p - q) for p, q in zip(a, b, strict=True))


def test_a_second_sample_in_a_slot_is_deleted():
    out = edit_tracks([[(0, 0, 0), (0, 5, 0)], [(0, 0, 0)]], [[0, 1]], 10_000)
    assert out.deleted.tolist() == [1, 0]
    assert out.source.tolist() == [0, 2]


def test_positions_are_moved_onto_the_disc_around_their_mean_and_no_further():
    """The mean of 0, 0 and 30 is 10; a disc 1 km across reaches 5 cells from it, a wide one moves nobody."""
    tracks = [[(0, 0, 0)], [(0, 0, 0)], [(0, 30, 0)]]
    out = edit_tracks(tracks, [[0, 1, 2]], 1_000)
    assert [list_rows(out.rows, i)[0][2] for i in range(3)] == [5, 5, 15]
    assert edit_tracks(tracks, [[0, 1, 2]], 4_000).rows.box[:, 0].tolist() == [0, 0, 30]
    assert [list_rows(edit_tracks(tracks, [[2, 0, 1]], 0).rows, i)[0][2] for i in range(3)] == [10, 10, 10]


def test_subjects_outside_all_clusters_have_no_rows():
    out = edit_tracks([[(0, 0, 0)], [(0, 9, 9)], [(0, 1, 0)]], [[0, 2]], 1_000)
    assert out.rows.offset.tolist() == [0, 1, 1, 2]


def test_the_distance_is_linear_between_samples_and_costs_the_pace_outside_them():
    """One way 0, 10 and 20 are 3 cells away and 30 is 10 slots late; back both are 3 cells away."""
    a = [(0, 0, 3), (10, 10, 3), (20, 20, 3), (30, 20, 3)]
    b = [(0, 0, 0), (20, 20, 0)]
    tracks = w4m._Tracks.from_samples(make_samples([a, b]))
    assert tracks.pace == pytest.approx(40 / 50)
    there, back = (3 + 3 + 3 + 3 + 10 * 0.8) / 4, 3
    assert tracks.compute_distances(0, np.array([1, 0])).tolist() == pytest.approx([(there + back) / 2, 0])
    assert tracks.compute_distances(1, np.array([0])).tolist() == pytest.approx([(there + back) / 2])


def test_two_towns_are_two_clusters_and_a_far_subject_is_trash():
    tracks = [[(t, x + u, 0) for t in (0, 60)] for x in (0, 5000) for u in range(5)] + [[(0, 10**6, 0)]]
    group, out = w4m.cluster_by_w4m(make_samples(tracks), 5, 1_000, np.arange(11), np.random.default_rng(SEED))
    assert group[10] == -1
    assert len(set(group[:5])) == len(set(group[5:10])) == 1
    assert set(group) == {-1, 0, 1}
    assert np.diff(out.rows.offset).tolist() == [2] * 10 + [0]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_k_subjects_are_in_no_cluster(count):
    group, out = w4m.cluster_by_w4m(
        make_samples([[(0, 0, 0)]] * count), 3, 100, np.arange(count), np.random.default_rng(SEED)
    )
    assert group.tolist() == [-1] * count
    assert out.rows.offset.tolist() == [0] * (count + 1)
    assert out.counts == {"created": 0, "deleted": 0}


@pytest.mark.parametrize("k", [2, 3, 5])
def test_clusters_have_k_share_their_slots_and_lie_in_their_discs(k):
    rng = random.Random(SEED + k)
    for seed in range(10):
        tracks = [walk(rng, 20) for _ in range(rng.randint(k, 30))]
        samples = make_samples(tracks)
        rank = np.array(rng.sample(range(len(tracks)), len(tracks)))
        group, out = w4m.cluster_by_w4m(samples, k, 500, rank, np.random.default_rng(seed))
        assert (group < 0).sum() <= 0.1 * len(tracks)
        assert (np.bincount(group[group >= 0]) >= k).all()
        kept = np.zeros(len(tracks), int)
        for u in range(len(tracks)):
            part = slice(out.rows.offset[u], out.rows.offset[u + 1])
            kept[u] = (out.source[part] >= 0).sum()
            if group[u] >= 0:
                # Nothing gets lost unseen: a subject's samples are kept or deleted.
                assert kept[u] + out.deleted[u] == len(set(tracks[u]))
        for g in range(group.max() + 1):
            rows = [list_rows(out.rows, u) for u in np.flatnonzero(group == g)]
            assert len({tuple(row[0] for row in record) for record in rows}) == 1
            for at in zip(*rows, strict=True):
                for a in at:
                    assert a[0] == a[1]
                    assert a[2:4] == a[4:6]
                    # 5 cells across, and less than one more each way for the cell's corner
                    assert all(hypot(a[2] - b[2], a[3] - b[3]) <= 5 + 2**0.5 for b in at)
            for record in rows:
                assert all(a[1] < b[0] for a, b in pairwise(record))


def test_w4m_is_the_same_for_one_seed_on_any_number_of_threads_and_for_other_codes(monkeypatch):
    rng = random.Random(SEED)
    tracks = [walk(rng, 20) for _ in range(20)]
    rank = np.array(rng.sample(range(20), 20))

    def run(tracks, rank):
        return w4m.cluster_by_w4m(make_samples(tracks), 3, 500, rank, np.random.default_rng(SEED))

    first = run(tracks, rank)
    for threads in (1, 3):
        monkeypatch.setattr(cores, "count_threads", lambda threads=threads: threads)
        again = run(tracks, rank)
        assert again[0].tolist() == first[0].tolist()
        assert again[1].rows.box.tolist() == first[1].rows.box.tolist()
    assert run(tracks[::-1], rank[::-1].copy())[0][::-1].tolist() == first[0].tolist()


def test_ties_go_by_rank():
    """All at one point: the clusters depend on the order of the run alone."""
    by_rank = set()
    for seed in range(20):
        rank = np.random.default_rng(seed).permutation(6)
        group, _ = w4m.cluster_by_w4m(make_samples([[(0, 0, 0)]] * 6), 2, 100, rank, np.random.default_rng(SEED))
        by_rank.add(tuple(group[np.argsort(rank)].tolist()))
    assert len(by_rank) == 1
