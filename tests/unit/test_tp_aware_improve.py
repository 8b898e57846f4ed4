"""tp-aware's `improve`: the groups of the plain rule, never dearer than without, and a bound below both."""

import random
from itertools import pairwise

import numpy as np
import pytest

from dbanon.base import cores
from dbanon.base.trajectory import Trajectories
from dbanon.methods import METHODS
from dbanon.methods.tp_aware import _blocks, _bound, _bundles, _improve
from tests.unit import oracles_tp_aware as oracle
from tests.unit import plain_groups as plain

SEED = 20120905
FAMILY = METHODS["tp-aware"]


def draw_instance(rng, *, most=60, instants=7, sides=(1, 2, 5, 40, 3000)):
    """Clusters, lines and strays; many share cells where the city is small."""
    k, side = rng.randint(2, 6), rng.choice(sides)
    centres = [(rng.randrange(side), rng.randrange(side)) for _ in range(rng.randint(1, 4))]
    trajectories = []
    for _ in range(rng.randint(k, most)):
        (x, y), spread = rng.choice(centres), rng.choice([0, 1, 3, side])
        steps = [(rng.randint(-spread, spread), rng.randint(-spread, spread)) for _ in range(instants)]
        trajectories.append([(min(max(x + a, 0), side), min(max(y + b, 0), side)) for a, b in steps])
    return trajectories, k


def make_cells(trajectories):
    both = np.array(trajectories, np.int32)
    return np.ascontiguousarray(both[..., 0]), np.ascontiguousarray(both[..., 1])


def group_trajectories(trajectories, k, least):
    x, y = make_cells(trajectories)
    order, ends = _blocks.cut(x, y, least)
    members = np.empty_like(order)
    cores.run_together(_improve.plan_grouping(x, y, order, ends, k, members), 1, 1)
    groups = [sorted(members[a:b].tolist()) for a, b in pairwise(_improve.find_begins(ends, k).tolist())]
    return [order[a:b].tolist() for a, b in pairwise(ends.tolist())], groups


def make_data(trajectories):
    both = np.array(trajectories, float)
    n, instants = both.shape[:2]
    return Trajectories(
        trajectory_id=np.arange(n), subject=np.arange(n), offset=np.arange(n + 1) * instants,
        t=np.tile(60.0 * np.arange(instants), n), x=both[..., 0].ravel(), y=both[..., 1].ravel(),
        srid=32610, grid_m=1.0, grid_s=1,
    )  # fmt: skip


def run(trajectories, k, **params):
    chosen = FAMILY.parse({"k": k, "instants": len(trajectories[0]), "start": 0, **params})
    return FAMILY.anonymise(make_data(trajectories), "traj-anon", chosen, np.random.default_rng(0))


def make_coarse(trajectories):
    """Count from a corner in squares of 2^s cells, of which fewer than 2^12 - 1 are side by side."""
    xs, ys = ([fix[axis] for trajectory in trajectories for fix in trajectory] for axis in (0, 1))
    (x, y), width = (min(xs), min(ys)), max(max(xs) - min(xs), max(ys) - min(ys))
    size = next(2**s for s in range(32) if width // 2**s + 1 < 2**12)
    return [[((a - x) // size, (b - y) // size) for a, b in trajectory] for trajectory in trajectories]


def list_bundles(cloaks):
    return [cloaks.member_trajectory[cloaks.member_record == r].tolist() for r in np.unique(cloaks.member_record)]


def test_groups_are_those_of_the_plain_rule_in_one_block_and_in_many():
    rng = random.Random(SEED)
    for _ in range(300):
        trajectories, k = draw_instance(rng, instants=rng.choice([1, 2, 5, 7, 17]))
        blocks, groups = group_trajectories(trajectories, k, rng.choice([k, 2 * k, 100]))
        expected = [[b[i] for i in g] for b in blocks for g in plain.make_groups([trajectories[i] for i in b], k)]
        assert groups == expected


def test_groups_of_wide_blocks_are_those_of_the_plain_rule_in_larger_squares():
    rng = random.Random(SEED + 5)
    for _ in range(60):
        trajectories, k = draw_instance(
            rng, instants=rng.choice([1, 7, 17]), sides=(4094, 4095, 4096, 70_000, 2**30 - 1)
        )
        blocks, groups = group_trajectories(trajectories, k, rng.choice([2 * k, 100]))
        expected = [
            [b[i] for i in g] for b in blocks for g in plain.make_groups(make_coarse([trajectories[i] for i in b]), k)
        ]
        assert groups == expected


def test_blocks_hold_everybody_once_and_are_as_large_as_wanted():
    rng = random.Random(SEED + 1)
    for _ in range(100):
        trajectories, k = draw_instance(rng, most=200)
        least = rng.randint(k, 30)
        blocks, groups = group_trajectories(trajectories, k, least)
        assert sorted(i for block in blocks for i in block) == list(range(len(trajectories)))
        assert sorted(i for group in groups for i in group) == list(range(len(trajectories)))
        assert all(block == sorted(block) for block in blocks)
        assert all(min(least, len(trajectories)) <= len(block) < 2 * least for block in blocks)
        assert all(k <= len(group) < 2 * k for group in groups)


def test_the_result_is_the_same_with_one_thread_and_three(monkeypatch):
    rng = random.Random(SEED + 2)
    trajectories, k = draw_instance(rng, most=900, instants=20)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(cores, "count_threads", lambda threads=threads: threads)
        monkeypatch.setattr(_blocks, "compute_min_block", lambda k: 4 * k)
        monkeypatch.setattr(_bundles, "_MIN_POSITIONS_FOR_THREADS", 1)
        monkeypatch.setattr(_blocks, "_MIN_SUBJECTS_FOR_THREADS", 1)
        cloaks = run(trajectories, k)
        found.append((list_bundles(cloaks), cloaks.bounds.tolist(), cloaks.metrics))
    assert found[0] == found[1]


@pytest.mark.many
@pytest.mark.parametrize("least", [20, 2000])
def test_the_cost_is_never_above_that_without_nor_below_the_bound(monkeypatch, least):
    monkeypatch.setattr(_blocks, "compute_min_block", lambda k: least)
    rng, better = random.Random(SEED + 3), 0
    for _ in range(60):
        trajectories, k = draw_instance(rng, most=_bound.SAMPLED_SUBJECTS)
        on, off = (run(trajectories, k, improve=improve) for improve in (True, False))
        assert on.crowd.min() >= k
        assert on.metrics["mbr_cost_m2"] == plain.compute_cost(trajectories, list_bundles(on))
        assert off.metrics["mbr_cost_m2"] == plain.compute_cost(trajectories, list_bundles(off))
        assert on.metrics["unimproved_mbr_cost_m2"] == off.metrics["mbr_cost_m2"] >= on.metrics["mbr_cost_m2"]
        assert on.metrics["mbr_cost_bound_m2"] == off.metrics["mbr_cost_bound_m2"]
        n = len(trajectories)  # fewer than a sample: the bound is that of all
        assert on.metrics["mbr_cost_bound_m2"] == pytest.approx(
            sum(plain.find_least_area(trajectories, i, k) for i in range(n))
        )
        assert on.metrics["mbr_cost_bound_error_m2"] == 0
        assert on.metrics["mbr_cost_bound_m2"] <= on.metrics["mbr_cost_m2"] * (1 + 1e-9)
        better += on.metrics["mbr_cost_m2"] < off.metrics["mbr_cost_m2"]
    assert better > 20


def test_the_bound_is_not_above_the_least_cost_of_all_partitions():
    rng = random.Random(SEED + 4)
    for _ in range(40):
        trajectories, _ = draw_instance(rng, most=7, instants=2)
        k, n = 2, len(trajectories)
        best = oracle.find_best_partition(
            n, k, lambda group, all_=trajectories: plain.measure_area([all_[i] for i in group])
        )
        assert sum(plain.find_least_area(trajectories, i, k) for i in range(n)) <= best


def test_the_least_areas_are_the_plain_ones_whatever_the_blocks():
    rng = random.Random(SEED + 5)
    for _ in range(100):
        trajectories, k = draw_instance(rng, instants=rng.choice([1, 4, 9]))
        who = np.array(sorted(rng.sample(range(len(trajectories)), min(5, len(trajectories)))))
        x, y = make_cells(trajectories)
        found = _bound.find_least_areas(x, y, *_blocks.cut(x, y, rng.choice([k, 15, 100])), k, who)
        assert found.tolist() == [plain.find_least_area(trajectories, i, k) for i in who.tolist()]


def test_a_sample_is_of_all_windows_and_its_error_that_of_a_mean():
    drawn = _bound.draw_sample(np.array([1000, 5, 3000]))
    assert sum(map(len, drawn)) == _bound.SAMPLED_SUBJECTS
    assert all(len(set(some.tolist())) == len(some) for some in drawn)
    assert all((some >= 0).all() and (some < n).all() for some, n in zip(drawn, (1000, 5, 3000), strict=True))
    assert [some.tolist() for some in _bound.draw_sample(np.array([3, 2]))] == [[0, 1, 2], [0, 1]]
    rng, within = np.random.default_rng(SEED), 0
    for _ in range(200):
        everybody = rng.exponential(7.0, 5000)
        bound, error = _bound.estimate_sum(rng.choice(everybody, 200, replace=False), 5000)
        within += abs(bound - everybody.sum()) < 2 * error
    assert within > 180


@pytest.mark.parametrize("n", [5, 6, 9, 10, 11])
def test_few_people_and_people_at_one_point_are_grouped_too(n):
    for at in (lambda i: (3, 3), lambda i: (i * i, 7 * i % 5)):
        cloaks = run([[at(i)] * 4 for i in range(n)], 5)
        assert sorted(map(len, list_bundles(cloaks))) in ([n], [5, n - 5])
        assert min(map(len, list_bundles(cloaks))) >= 5


def test_places_as_far_apart_as_there_may_be_do_not_overflow():
    rng = random.Random(SEED + 6)
    far = 2**30 - 1
    trajectories = [
        [(rng.choice([0, far]) ^ rng.randrange(9), rng.randrange(far)) for _ in range(30)] for _ in range(60)
    ]
    on, off = (run(trajectories, 3, improve=improve) for improve in (True, False))
    assert 0 < on.metrics["mbr_cost_m2"] <= off.metrics["mbr_cost_m2"]
    _, groups = group_trajectories(trajectories, 3, 100)
    assert plain.compute_cost(trajectories, groups) < plain.compute_cost(
        trajectories, [range(i, i + 3) for i in range(0, 60, 3)]
    )


def test_quadrants_keep_the_papers_groups():
    trajectories, k = draw_instance(random.Random(SEED + 7), most=150)
    on, off = (run(trajectories, k, improve=improve, cloak="quadrant") for improve in (True, False))
    assert list_bundles(on) == list_bundles(off)
    assert on.metrics == off.metrics
