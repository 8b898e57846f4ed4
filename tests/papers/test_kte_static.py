"""Static generalisation: who is alike at a level, what is published of them, and of which tuples all are alike."""

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.papers.kte import static
from tests.unit.kte_tracks import list_rows, make_samples, walk

SEED = 2013
LEVEL = (2 * 3600, 4_000.0)  # 120 slots, 40 cells


def generalise_track(track):
    return frozenset((slot // 120, x // 40, y // 40) for slot, x, y in track)


def test_subjects_in_the_same_coarse_slots_and_cells_are_a_group():
    """The third is in a cell of its own, the fourth in one slot less."""
    tracks = [
        [(0, 0, 0), (1, 39, 39), (240, 40, 0)],
        [(119, 20, 20), (359, 79, 39)],
        [(0, 0, 0), (240, 80, 0)],
        [(0, 0, 0)],
    ]
    group, merged, success = static.group_statically(make_samples(tracks), 2, *LEVEL)
    assert group.tolist() == [0, 0, -1, -1]
    assert success == 0.5
    assert list_rows(merged, 0) == [(0, 119, 0, 0, 39, 39), (240, 359, 40, 0, 79, 39)]


def test_slots_and_cells_below_zero_are_cut_downwards():
    group, merged, _ = static.group_statically(make_samples([[(-1, -1, 0)], [(-120, -40, 39)]]), 2, *LEVEL)
    assert group.tolist() == [0, 0]
    assert list_rows(merged, 0) == [(-120, -1, -40, 0, -1, 39)]


def test_several_cells_in_a_coarse_slot_are_published_as_their_rectangle_and_must_all_be_shared():
    tracks = [[(0, 0, 0), (5, 100, 40)], [(5, 0, 0), (0, 100, 40)], [(0, 0, 0), (5, 100, 40), (6, 50, 0)]]
    group, merged, success = static.group_statically(make_samples(tracks), 2, *LEVEL)
    assert group.tolist() == [0, 0, -1]
    assert success == pytest.approx(2 / 3)
    assert list_rows(merged, 0) == [(0, 119, 0, 0, 119, 79)]


@pytest.mark.parametrize(("tracks", "k"), [([], 2), ([[(0, 0, 0)]], 2), ([[(0, 0, 0)]] * 3, 4)])
def test_where_nobody_is_alike_with_enough_there_is_no_group(tracks, k):
    group, merged, success = static.group_statically(make_samples(tracks), k, *LEVEL)
    assert group.tolist() == [-1] * len(tracks)
    assert success == 0
    assert merged.offset.tolist() == [0]
    assert merged.box.shape == (0, 4)


@pytest.mark.parametrize("k", [2, 3])
def test_success_groups_and_rows_are_those_of_a_plain_count(k):
    rng = random.Random(SEED + k)
    for _ in range(30):
        tracks = [walk(rng, 3, slots=240, side=70, step=3) for _ in range(rng.randint(1, 25))]
        group, merged, success = static.group_statically(make_samples(tracks), k, *LEVEL)
        count = Counter(map(generalise_track, tracks))
        alike = [count[generalise_track(track)] >= k for track in tracks]
        assert success == pytest.approx(sum(alike) / len(tracks))
        assert (group >= 0).tolist() == alike
        assert len(merged.offset) - 1 == group.max() + 1
        for g in range(group.max() + 1):
            mine = [tracks[u] for u in np.flatnonzero(group == g)]
            assert len(mine) >= k
            assert len(set(map(generalise_track, mine))) == 1
            rows = list_rows(merged, g)
            assert all(a[1] < b[0] for a, b in pairwise(rows))
            for track in mine:
                demand_held(rows, track)


def demand_held(rows, track):
    """Every sample is in a row, and every row holds one."""
    found = [
        {s for s in track if first <= s[0] <= last and x0 <= s[1] <= x1 and y0 <= s[2] <= y1}
        for first, last, x0, y0, x1, y1 in rows
    ]
    assert all(found)
    assert set().union(*found) == set(track)


def test_coarser_levels_that_are_multiples_merge_whatever_finer_ones_do():
    rng = random.Random(SEED)
    tracks = [walk(rng, 3, slots=240, side=70, step=3) for _ in range(60)]
    fine, coarse = (
        static.group_statically(make_samples(tracks), 2, *level)[0] for level in (LEVEL, (8 * 3600, 20_000.0))
    )
    assert (coarse[fine >= 0] >= 0).all()
