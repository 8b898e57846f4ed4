"""Groups of k subjects: a partition, the same whatever subjects are numbered, and cheap."""

import random
from itertools import chain, combinations

import numpy as np
import pytest

from dbanon.base import cores
from dbanon.base.trajectory import freeze_arrays
from dbanon.methods.kte import _blocks, _groups, _k_merge, _near, _pairs
from tests.contract.test_tasks_of_methods import Elsewhere
from tests.unit.kte_instances import draw_neighbours, make_samples

SEED = 2017


def group_subjects(subjects, k, rank=None, improve=True, seed=SEED):
    """The groups as a set of sets, and their cost."""
    samples = make_samples(subjects)
    rank = np.arange(len(subjects)) if rank is None else np.asarray(rank)
    group = _groups.group(samples, k, rank, np.random.default_rng(seed), improve=improve)
    assert group.dtype == np.int64
    sets = [np.flatnonzero(group == number).tolist() for number in range(group.max() + 1)]
    assert sorted(chain.from_iterable(sets)) == (list(range(len(subjects))) if len(subjects) >= k else [])
    least = [min(rank[one]) for one in sets]
    assert least == sorted(least)  # numbered by the least rank of their members
    return {frozenset(one) for one in sets}, sum(compute_cost(samples, one) for one in sets)


def compute_cost(samples, members):
    begin, end = samples.offset[:-1][members], samples.offset[1:][members]
    return int(_k_merge.compute_costs(samples, np.array([0, len(members)]), begin, end)[0])


@pytest.fixture(params=["all pairs", "candidates", "blocks"])
def tabulated(request, monkeypatch):
    """Both ways to cost pairs, whatever the number of subjects; and these cut into blocks."""
    if request.param == "blocks":
        monkeypatch.setattr(_blocks, "MAX_BLOCK_SUBJECTS", 12)
    if request.param == "candidates":
        monkeypatch.setattr(_pairs, "MAX_TABULATED_SUBJECTS", 0)
        monkeypatch.setattr(_groups, "_MAX_EXHAUSTIVE_SUBJECTS", 4)
        monkeypatch.setattr(_groups, "_CANDIDATES_BEYOND_K", 4)
    return request.param


@pytest.mark.many
@pytest.mark.parametrize("improve", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("n", [5, 6, 11, 40])
def test_every_subject_is_in_one_group_of_at_least_k(tabulated, n, k, improve):
    groups, _ = group_subjects(draw_neighbours(random.Random(SEED + n), n, 8), k, improve=improve)
    sizes = sorted(map(len, groups))
    assert sizes[0] >= k
    assert sum(sizes) == n
    assert len(groups) == n // k  # none is larger than it must be, but by those who were left


@pytest.mark.parametrize("n", [0, 1, 2])
def test_fewer_than_k_subjects_are_in_no_group(n):
    samples = make_samples([[(0, 0, 0)]] * n)
    assert _groups.group(samples, 3, np.arange(n), np.random.default_rng(1)).tolist() == [-1] * n


def test_subjects_who_go_the_same_way_are_grouped(tabulated):
    rng = random.Random(SEED)
    subjects = [one for one in draw_neighbours(rng, 20, 12) for _ in range(2)]
    groups, _ = group_subjects(subjects, 2)
    assert groups == {frozenset({2 * i, 2 * i + 1}) for i in range(20)}


@pytest.mark.parametrize("k", [2, 3])
def test_groups_follow_people_and_not_their_numbers(tabulated, k):
    rng = random.Random(SEED)
    subjects = draw_neighbours(rng, 31, 6, side=20)
    rank = rng.sample(range(31), 31)
    number = rng.sample(range(31), 31)  # the new number of each
    others, others_rank = [None] * 31, [None] * 31
    for old, new in enumerate(number):
        others[new], others_rank[new] = subjects[old], rank[old]
    groups, _ = group_subjects(subjects, k, rank)
    assert {frozenset(number[i] for i in one) for one in groups} == group_subjects(others, k, others_rank)[0]


@pytest.mark.parametrize("k", [2, 3])
def test_groups_are_the_same_on_any_number_of_threads(monkeypatch, tabulated, k):
    monkeypatch.setattr(_k_merge, "_MIN_SAMPLES_PER_THREAD", 4)
    subjects = draw_neighbours(random.Random(SEED), 33, 8)
    found = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(cores, "count_threads", lambda threads=threads: threads)
        found.append(group_subjects(subjects, k))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("k", [2, 3])
def test_groups_move_with_the_data(tabulated, k):
    subjects = draw_neighbours(random.Random(SEED), 30, 8)
    moved = [[(t + 1_000_001, x - 37_003, y + 12_345) for t, x, y in one] for one in subjects]
    assert group_subjects(subjects, k) == group_subjects(moved, k)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_improving_never_costs_more(tabulated, k):
    rng, gained = random.Random(SEED), 0
    for n in (k, k + 1, 2 * k, 20, 41):
        subjects = draw_neighbours(rng, n, 8)
        plain, better = group_subjects(subjects, k, improve=False)[1], group_subjects(subjects, k)[1]
        assert better <= plain
        gained += better < plain
    assert gained


def test_exchanges_gain_a_sixth_and_more_of_groups_by_greed():
    """No exchange is passed over that was not tried: without some of these the ratio is 0.827."""
    improved = greedy = 0
    for seed in range(12):
        for n, k in ((60, 3), (61, 4), (60, 5)):
            subjects = draw_neighbours(random.Random(seed), n, 6)
            improved += group_subjects(subjects, k, seed=seed)[1]
            greedy += group_subjects(subjects, k, improve=False, seed=seed)[1]
    assert improved < 0.825 * greedy


def find_cheapest_pairs(subjects):
    samples = make_samples(subjects)

    def least(left):
        if not left:
            return 0
        one, *others = left
        return min(compute_cost(samples, [one, other]) + least([i for i in others if i != other]) for other in others)

    return least(list(range(len(subjects))))


def test_pairs_of_few_subjects_cost_the_least_there_is():
    rng = random.Random(SEED)
    for _ in range(15):
        subjects = draw_neighbours(rng, 8, 5, side=30)
        assert group_subjects(subjects, 2)[1] == find_cheapest_pairs(subjects)


@pytest.mark.parametrize("wide", [False, True])
def test_groups_of_three_cost_hardly_more_than_the_least_there_is(wide):
    rng, found, best = random.Random(SEED), 0, 0
    for _ in range(12):
        subjects = draw_neighbours(rng, 6 + wide, 5, side=30)
        samples, everybody = make_samples(subjects), set(range(len(subjects)))
        found += group_subjects(subjects, 3)[1]
        best += min(
            compute_cost(samples, list(three)) + compute_cost(samples, sorted(everybody.difference(three)))
            for three in combinations(everybody, 3)
        )
    assert best <= found <= 1.05 * best


@pytest.mark.parametrize("number", [1, 5, 39, 60])
def test_the_nearest_in_signature_are_those_of_a_plain_search(number):
    rng = np.random.default_rng(SEED + number)
    signature = rng.integers(0, rng.choice([3, 1000, _near._MAX_SIGNATURE_VALUE]), (40, 3, _near.TIME_BINS), np.int32)
    away = np.abs(signature[:, None].astype(np.int64) - signature).sum(axis=(2, 3))
    due = [[j for j in np.argsort(row, kind="stable").tolist() if j != i][:number] for i, row in enumerate(away)]
    assert _near.find_nearest(signature, number).tolist() == due


def test_candidates_hold_the_cheapest_partners():
    subjects = draw_neighbours(random.Random(SEED), 300, 30)
    samples = make_samples(subjects)
    samples = freeze_arrays(_groups._select_samples(samples, np.arange(300)))
    near = _near.find_nearest(_near.compute_signatures(samples), 8)
    assert near.shape == (300, 8)
    pairs = _pairs.build_pairs(samples, _pairs.MAX_TABULATED_SUBJECTS)
    costs = np.full((300, 300), np.inf)
    costs[np.tril_indices(300, -1)] = pairs.costs
    costs = np.minimum(costs, costs.T)
    assert all(i not in row for i, row in enumerate(near.tolist()))
    assert np.take_along_axis(costs, near, axis=1).min(axis=1).sum() < 1.1 * costs.min(axis=1).sum()


def test_costs_of_pairs_are_remembered_and_looked_up():
    subjects = draw_neighbours(random.Random(SEED), 30, 5)
    samples = freeze_arrays(_groups._select_samples(make_samples(subjects), np.arange(30)[::-1]))
    every, some = (_pairs.build_pairs(samples, most) for most in (_pairs.MAX_TABULATED_SUBJECTS, 0))
    assert every.is_complete
    assert not some.is_complete
    a, b = np.nonzero(~np.eye(30, dtype=bool))
    due = [compute_cost(make_samples(subjects), [29 - i, 29 - j]) for i, j in zip(a, b, strict=True)]
    assert [_pairs.compute_cost(some, i, j) for i, j in zip(a[:200], b[:200], strict=True)] == due[:200]
    assert (some.costs < 0).sum() > 100
    for table in (every, some):
        for _ in range(2):
            assert _pairs.look_up(table, a, b).tolist() == due


def test_everybody_at_one_place_and_time_is_grouped(tabulated):
    groups, total = group_subjects([[(0, 3, 4)]] * 7, 2)
    assert sorted(map(len, groups)) == [2, 2, 3]
    assert total == 3 * 2


@pytest.mark.parametrize("k", [2, 3])
def test_blocks_and_merges_done_elsewhere_give_the_same(monkeypatch, k):
    monkeypatch.setattr(_blocks, "MAX_BLOCK_SUBJECTS", 12)
    monkeypatch.setattr(_k_merge, "_SAMPLE_INPUTS_PER_TASK", 300)
    samples, rank = make_samples(draw_neighbours(random.Random(SEED), 61, 8)), np.arange(61)[::-1]
    elsewhere, found = Elsewhere(), []
    for way in ({}, {"tasks": elsewhere}):
        group = _groups.group(samples, k, rank, np.random.default_rng(SEED), **way)
        found.append((group, _groups.merge_groups(samples, group, **way)))
    (here, rows), (there, others) = found
    assert here.tolist() == there.tolist()
    for column in ("offset", "first", "last", "box"):
        assert (getattr(rows, column) == getattr(others, column)).all()
    assert elsewhere.done > 10


def test_a_second_cut_takes_back_what_borders_cost(monkeypatch):
    subjects = draw_neighbours(random.Random(SEED), 400, 12)
    whole = group_subjects(subjects, 2)[1]
    monkeypatch.setattr(_blocks, "MAX_BLOCK_SUBJECTS", 100)
    blocks = group_subjects(subjects, 2)[1]
    monkeypatch.setattr(_groups, "_exchange_block", lambda samples, k, group, home: group)
    assert whole < blocks < group_subjects(subjects, 2)[1]


@pytest.mark.parametrize("whole", [1, 2, 5])
def test_blocks_part_all_and_hold_whole_groups(whole):
    place = np.random.default_rng(SEED).integers(0, 50, (333, 9)).astype(float)
    blocks = _blocks.cut(place, 40, whole)
    assert np.sort(np.concatenate(blocks)).tolist() == list(range(333))
    assert max(map(len, blocks)) <= 40
    assert sum(len(some) % whole > 0 for some in blocks) <= 1
    assert len(_blocks.cut(np.zeros((9, 9)), 3, 5)) == 1  # no block is smaller than a group
