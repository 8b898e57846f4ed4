"""The baselines of tp-aware against plain Python, group by group, and what they publish."""

import random

import numpy as np
import pytest

from benchmarks.papers import tp_aware
from benchmarks.papers.tp_aware import condensation, hilbert
from dbanon.base.trajectory import Trajectories
from dbanon.methods import METHODS
from dbanon.methods.tp_aware import _binary_us_tree
from tests.papers import plain_tp_aware as plain
from tests.unit.test_traj_anon_optimum import draw_instance, make_cells

SEED = 20120906
FAMILY = METHODS["tp-aware"]
BASELINES = list(tp_aware.GROUPS)
HEIGHT = 4

PLAIN = {
    "bulk-dp": lambda trajectories, k: plain.group_by_bulk_dp(trajectories, k, HEIGHT),
    "fast-tga": plain.group_by_fast_tga,
    "slow-tga": plain.group_by_slow_tga,
    "hilbert": lambda trajectories, k: plain.group_by_hilbert(trajectories, k, HEIGHT),
}


def list_groups(algorithm, trajectories, k, height=HEIGHT):
    members, offset = tp_aware.GROUPS[algorithm](*make_cells(trajectories), height, k)
    return [group.tolist() for group in np.split(members, offset[1:-1])]


def convert_to_sets(found):
    return {frozenset(group) for group in found}


@pytest.mark.parametrize("algorithm", BASELINES)
def test_the_groups_are_those_of_the_plain_algorithm(algorithm):
    rng, several, rest = random.Random(SEED), 0, 0
    for _ in range(300):
        trajectories, k = draw_instance(rng, most=40, instants=rng.randint(1, 4), height=HEIGHT)
        found = list_groups(algorithm, trajectories, k)
        assert convert_to_sets(found) == convert_to_sets(PLAIN[algorithm](trajectories, k))
        assert sorted(m for group in found for m in group) == list(range(len(trajectories)))
        assert min(map(len, found)) >= k
        several += len(found) > 1
        rest += len(trajectories) % k > 0
    assert several > 150
    assert rest > 100


@pytest.mark.parametrize("algorithm", BASELINES)
def test_wide_towns_and_long_windows_have_the_groups_of_the_plain_algorithm(algorithm):
    rng, height = random.Random(SEED + 1), 12
    for instants in (8, 9, 30):
        side = 2**height - 1
        walks = [[(rng.randint(0, side), rng.randint(0, side)) for _ in range(instants)] for _ in range(40)]
        exact = {
            **PLAIN,
            "bulk-dp": lambda t, k: plain.group_by_bulk_dp(t, k, height),
            "hilbert": lambda t, k: plain.group_by_hilbert(t, k, height),
        }
        assert convert_to_sets(list_groups(algorithm, walks, 3, height)) == convert_to_sets(exact[algorithm](walks, 3))


def test_bulk_dp_costs_at_the_first_instant_what_traj_anon_costs_for_it_alone():
    rng = random.Random(SEED + 2)
    for _ in range(50):
        trajectories, k = draw_instance(rng, instants=3)
        x, y = make_cells([t[:1] for t in trajectories])
        _, node = _binary_us_tree.build(x, y, HEIGHT, k)
        area = _binary_us_tree.compute_areas(node[:, 2], 1, HEIGHT)
        best = _binary_us_tree.find_best_configuration(node, area, k)[2]
        found = [
            plain.find_smallest_quadrant([trajectories[m][0] for m in g])
            for g in list_groups("bulk-dp", trajectories, k)
        ]
        sizes = [len(group) for group in list_groups("bulk-dp", trajectories, k)]
        cost = sum((x1 - x0) * (y1 - y0) * n for (x0, y0, x1, y1), n in zip(found, sizes, strict=True))
        assert cost == best


def test_slow_tga_adds_who_costs_the_cluster_least_and_fast_tga_who_is_nearest_to_the_first():
    # 1 and 2 lie on two sides of 0, 3 beyond 1: the nearest two of 0 span more than 0, 1 and 3.
    trajectories = [[(50, 0)], [(55, 0)], [(44, 0)], [(57, 0)], [(90, 90)], [(91, 90)]]
    assert list_groups("fast-tga", trajectories, 3, 7)[0] == [0, 1, 2]
    assert list_groups("slow-tga", trajectories, 3, 7)[0] == [0, 1, 3]


def test_overlapping_neighbourhoods_are_merged_into_one_group():
    square = [[(x, y)] for x in range(4) for y in range(4)]
    assert list_groups("hilbert", square, 3, 2) == [list(range(16))]


@pytest.mark.parametrize("algorithm", BASELINES)
def test_the_widest_root_and_the_longest_window_overflow_nothing(algorithm):
    x = np.repeat(np.array([0, 2**30 - 1], np.int32), 4)[:, None].repeat(10_000, axis=1)
    members, offset = tp_aware.GROUPS[algorithm](x, x, 30, 4)
    assert convert_to_sets(np.split(members, offset[1:-1])) == {frozenset(range(4)), frozenset(range(4, 8))}


def test_a_number_of_a_product_orders_products_and_is_the_same_for_equal_ones():
    x = np.array([[0, 0], [5, 0], [1, 2], [2, 1], [3, 0], [0, 6]], np.int32)
    y = np.zeros_like(x)
    products = [6, 6, 6, 4, 7]  # of the areas with the first: (6, 1), (2, 3), (3, 2), (4, 1), (1, 7)
    found = [condensation._compute_distance(x, y, i, 0) for i in range(1, 6)]
    assert np.argsort(found, kind="stable").tolist() == np.argsort(products, kind="stable").tolist()
    assert len(set(found[:3])) == 1


def test_neighbours_found_part_by_part_make_the_same_groups(monkeypatch):
    trajectories, k = draw_instance(random.Random(SEED + 3), most=200, instants=3)
    whole = list_groups("hilbert", trajectories, k)
    monkeypatch.setattr(hilbert, "_MAX_NEIGHBOURS_HELD", 7)
    assert list_groups("hilbert", trajectories, k) == whole


def test_the_smallest_quadrants_are_those_of_plain_search():
    rng = random.Random(SEED + 4)
    for _ in range(500):
        some = [(rng.randint(0, 15), rng.randint(0, 15)) for _ in range(rng.randint(1, 3))]
        (xs, ys) = zip(*some, strict=True)
        tight = np.array([[min(xs), min(ys), max(xs) + 1, max(ys) + 1]], np.int32)
        assert tuple(tp_aware.find_smallest_quadrants(tight)[0].tolist()) == plain.find_smallest_quadrant(some)


# ---- what is published


def draw_walkers(n, instants, side=300.0):
    rng = np.random.default_rng(SEED)
    walk = rng.uniform(0, side, (n, 1, 2)) + rng.normal(0, 8, (n, instants, 2)).cumsum(axis=1)
    return Trajectories(
        trajectory_id=np.arange(n), subject=np.arange(n), offset=np.arange(n + 1) * instants,
        t=np.tile(np.arange(instants) * 60.0, n), x=walk[..., 0].ravel(), y=walk[..., 1].ravel(),
        srid=32610, grid_m=2.0, grid_s=1,
    )  # fmt: skip


def run(algorithm, seed=0, **params):
    parsed = FAMILY.parse({"k": 4, "start": 0, "instants": 3, **params})
    return FAMILY.anonymise(draw_walkers(70, 6), algorithm, parsed, np.random.default_rng(seed))


@pytest.mark.parametrize("algorithm", BASELINES)
def test_the_seed_has_no_effect(algorithm):
    one, other = run(algorithm, 1), run(algorithm, 2)
    assert np.array_equal(one.bounds, other.bounds)
    assert np.array_equal(one.member_trajectory, other.member_trajectory)


@pytest.mark.parametrize("algorithm", BASELINES)
@pytest.mark.parametrize("cloak", ["mbr", "quadrant"])
def test_the_costs_of_baselines_are_the_areas_of_their_cloaks_summed_over_subjects(algorithm, cloak):
    cloaks = run(algorithm, cloak=cloak)
    side = cloaks.bounds[:, 2:] - cloaks.bounds[:, :2]
    assert (side.prod(axis=1) * cloaks.crowd).sum() == cloaks.metrics[f"{cloak}_cost_m2"]
    assert cloaks.metrics["windows_published"] == 2


@pytest.mark.parametrize("algorithm", BASELINES)
def test_quadrants_of_baselines_hold_their_rectangles_and_are_quadrants(algorithm):
    tight, wide = run(algorithm), run(algorithm, cloak="quadrant")
    assert np.array_equal(tight.member_record, wide.member_record)
    assert (tight.bounds[:, :2] >= wide.bounds[:, :2]).all()
    assert (tight.bounds[:, 2:] <= wide.bounds[:, 2:]).all()
    sides = (wide.bounds[:, 2:] - wide.bounds[:, :2]) / 2.0
    assert (np.log2(sides) % 1 == 0).all()
    assert np.isin(sides[:, 1] / sides[:, 0], [1, 2]).all()
