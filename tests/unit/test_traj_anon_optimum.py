"""The optimised Traj-anon against the paper's plain algorithm and against brute force over policies."""

import random

import numpy as np
import pytest

from dbanon.methods.tp_aware import _binary_us_tree as tree
from tests.unit import oracles_tp_aware as oracle

SEED = 20120905


def draw_instance(rng, *, most=24, instants=3, height=4):
    """A few clusters and stragglers: what makes an optimum neither all at the root nor all at leaves."""
    k, n = rng.randint(2, 4), rng.randint(6, most)
    side = 2**height - 1
    centres = [(rng.randint(0, side), rng.randint(0, side)) for _ in range(rng.randint(1, 4))]
    trajectories = []
    for _ in range(n):
        cx, cy = rng.choice(centres)
        spread = rng.choice([0, 1, 2, side])
        walk = [(cx + rng.randint(-spread, spread), cy + rng.randint(-spread, spread)) for _ in range(instants)]
        trajectories.append([(min(max(x, 0), side), min(max(y, 0), side)) for x, y in walk])
    return trajectories, k


def make_cells(trajectories):
    both = np.array(trajectories, np.int32)
    return np.ascontiguousarray(both[..., 0]), np.ascontiguousarray(both[..., 1])


def solve(trajectories, k, height):
    x, y = make_cells(trajectories)
    order, node = tree.build(x, y, height, k)
    area = tree.compute_areas(node[:, 2], x.shape[1], height)
    passed, kept, cost = tree.find_best_configuration(node, area, k)
    members, offset, depth = tree.assign(x, y, order, node, passed, kept)
    return {
        "x": x, "y": y, "order": order, "node": node, "area": area, "passed": passed, "kept": kept, "cost": cost,
        "members": members, "offset": offset, "depth": depth,
    }  # fmt: skip


def is_mixed(found):
    """Some are kept between root and leaves, or at several kinds of node."""
    node, used = found["node"], found["kept"] > 0
    leaves = (node[:, 3] < 0) & (node[:, 4] < 0)
    return not (used[1:].sum() == 0 or (leaves | ~used).all())


def test_the_optimised_cost_is_that_of_the_plain_algorithm_on_the_binary_us_tree():
    rng, mixed, runs = random.Random(SEED), 0, 500
    for _ in range(runs):
        instants, height = rng.randint(1, 3), rng.randint(1, 4)
        trajectories, k = draw_instance(rng, instants=instants, height=height)
        found = solve(trajectories, k, height)
        plain = oracle.grow_tree(trajectories, oracle.list_binary_steps(instants, height), height)
        assert found["cost"] == oracle.find_optimum(plain, k)
        mixed += is_mixed(found)
    assert mixed >= runs / 2


def test_the_optimised_cost_is_that_of_brute_force_over_all_policies():
    rng = random.Random(SEED + 1)
    for _ in range(80):
        instants, height = rng.randint(1, 2), rng.randint(1, 3)
        trajectories, k = draw_instance(rng, most=8, instants=instants, height=height)
        plain = oracle.grow_tree(trajectories, oracle.list_binary_steps(instants, height), height)
        best = oracle.find_best_partition(len(trajectories), k, oracle.make_node_area(plain))
        assert solve(trajectories, k, height)["cost"] == best


def test_the_best_uniform_policy_costs_at_most_l_times_the_best_quad_cloak_policy():
    rng = random.Random(SEED + 2)
    for _ in range(60):
        instants, height = rng.randint(1, 3), rng.randint(1, 3)
        trajectories, k = draw_instance(rng, most=7, instants=instants, height=height)
        uniform = oracle.find_optimum(oracle.grow_tree(trajectories, oracle.list_u_steps(instants, height), height), k)
        best = oracle.find_best_partition(len(trajectories), k, oracle.make_quad_cloak_area(trajectories, height))
        assert best <= uniform <= instants * best
        assert solve(trajectories, k, height)["cost"] <= uniform


def test_the_us_tree_is_never_dearer_than_the_u_tree_nor_the_binary_one_than_the_u_tree():
    rng = random.Random(SEED + 3)
    for _ in range(80):
        instants, height = rng.randint(1, 3), rng.randint(1, 3)
        trajectories, k = draw_instance(rng, most=14, instants=instants, height=height)
        u, us, binary = (
            oracle.find_optimum(oracle.grow_tree(trajectories, steps(instants, height), height), k)
            for steps in (oracle.list_u_steps, oracle.list_us_steps, oracle.list_binary_steps)
        )
        assert us <= u
        assert binary <= u


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("no limit", lambda k: lambda d, h: d),
        ("the paper's Lemma 7", lambda k: lambda d, h: k * (h + 1)),
        ("one less", lambda k: lambda d, h: k * (h + 1) - 1),
        ("the limit the kernel uses", lambda k: lambda d, h: (k - 1) * (h + 1)),
    ],
)
def test_pruning_compressing_and_limiting_what_is_passed_up_leave_the_cost_as_it_is(name, most):
    rng = random.Random(SEED + 4)
    for _ in range(80):
        instants, height = rng.randint(1, 3), rng.randint(1, 3)
        trajectories, k = draw_instance(rng, instants=instants, height=height)
        full = oracle.grow_tree(trajectories, oracle.list_binary_steps(instants, height), height)
        small = oracle.compress_chain(oracle.prune_tree(full, k))
        assert oracle.find_optimum(full, k) == oracle.find_optimum(small, k, most(k)), name


def test_the_tree_is_the_pruned_and_compressed_binary_us_tree():
    rng = random.Random(SEED + 5)
    for _ in range(100):
        instants, height = rng.randint(1, 3), rng.randint(1, 4)
        trajectories, k = draw_instance(rng, instants=instants, height=height)
        found = solve(trajectories, k, height)
        full = oracle.grow_tree(trajectories, oracle.list_binary_steps(instants, height), height)
        expected = oracle.compress_chain(oracle.prune_tree(oracle.compress_chain(full), k))
        large = [(sorted(n["members"]), n["area"]) for n in oracle.iter_nodes(expected) if len(n["members"]) >= k]
        made = [
            (sorted(found["order"][lo:hi].tolist()), area)
            for (lo, hi, *_), area in zip(found["node"].tolist(), found["area"].tolist(), strict=True)
        ]
        assert made == large


def test_the_policy_costs_what_the_configuration_costs_and_each_bundle_lies_in_its_node():
    rng = random.Random(SEED + 6)
    for _ in range(200):
        instants, height = rng.randint(1, 3), rng.randint(1, 4)
        trajectories, k = draw_instance(rng, instants=instants, height=height)
        found = solve(trajectories, k, height)
        members, offset = found["members"], found["offset"]
        size = np.diff(offset)
        assert sorted(members.tolist()) == list(range(len(trajectories)))
        assert (size >= k).all()
        assert (size * tree.compute_areas(found["depth"], instants, height)).sum() == found["cost"]
        first = members[offset[:-1]]
        box = tree.compute_quadrants(found["x"][first], found["y"][first], found["depth"], height)
        area = ((box[..., 2] - box[..., 0]) * (box[..., 3] - box[..., 1])).sum(axis=1)
        assert (size * area).sum() == found["cost"]
        mbr = tree.bound_bundles(found["x"], found["y"], members, offset)
        assert (mbr[..., :2] >= box[..., :2]).all()
        assert (mbr[..., 2:] <= box[..., 2:]).all()


def test_only_trajectories_that_share_every_cell_form_a_bundle_of_2k_or_more():
    rng, large = random.Random(SEED + 7), 0
    for _ in range(200):
        trajectories, k = draw_instance(rng, most=60)
        found = solve(trajectories, k, 4)
        for group in np.split(found["members"], found["offset"][1:-1]):
            if len(group) >= 2 * k:
                large += 1
                assert len({tuple(trajectories[m]) for m in group}) == 1
    assert large > 10


def test_those_farthest_from_the_median_are_passed_up():
    # Five at one place and a sixth in its quadrant; two strays far away need company to become three.
    trajectories = [[(0, 0)]] * 5 + [[(1, 1)]] + [[(7, 7)], [(6, 7)]]
    found = solve(trajectories, 3, 3)
    groups = np.split(found["members"], found["offset"][1:-1])
    assert found["cost"] == oracle.find_optimum(oracle.grow_tree(trajectories, oracle.list_binary_steps(1, 3), 3), 3)
    assert any({5, 6, 7} <= set(g.tolist()) for g in groups)


@pytest.mark.stress
def test_more_instants_than_fit_a_word_give_the_same_tree():
    rng = random.Random(SEED + 8)
    for instants in (63, 64, 65, 130):
        trajectories, k = draw_instance(rng, most=12, instants=instants, height=1)
        late = [[trajectories[0][0]] * (instants - 1) + [t[0]] for t in trajectories]
        for some in (trajectories, late):
            assert solve(some, k, 1)["cost"] == oracle.find_optimum(oracle.compress_chain(make_plain_tree(some, 1)), k)


def make_plain_tree(trajectories, height):
    return oracle.grow_tree(trajectories, oracle.list_binary_steps(len(trajectories[0]), height), height)


def test_thirty_levels_and_wild_outliers_neither_overflow_nor_stretch_the_others():
    far = 2**30 - 1
    trajectories = [[(i % 3, i // 3)] * 30 for i in range(6)] + [[(far, far)] * 30, [(0, far)] * 30, [(far, 0)] * 30]
    found = solve(trajectories, 3, 30)
    assert np.isfinite(found["cost"])
    assert found["cost"] == 3 * 30 * 4.0**30 + oracle.find_optimum(make_plain_tree(trajectories[:6], 3), 3)
    groups = sorted(sorted(g.tolist()) for g in np.split(found["members"], found["offset"][1:-1]))
    assert groups[-1] == [6, 7, 8]


def test_everyone_in_one_cell_is_one_leaf():
    found = solve([[(0, 0)] * 4] * 7, 3, 0)
    assert found["node"].tolist() == [[0, 7, 0, -1, -1, 0]]
    assert found["cost"] == 7 * 4


def test_a_leaf_below_k_passes_everything_up():
    row = oracle.compute_traj_anon({"members": [0, 1], "area": 4, "children": []}, 3)
    assert row == {2: 0}
    found = solve([[(0, 0)], [(0, 1)], [(3, 3)], [(3, 2)]], 3, 2)
    assert found["kept"].tolist() == [4]


def test_words_have_one_bit_of_each_of_up_to_64_instants():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 16, (2, 3, 130), dtype=np.int32)
    order = np.array([2, 0, 1], np.int32)
    strings = tree._Strings(x, y, order, np.zeros(3, np.uint64), order.copy(), np.zeros(3, np.uint64))
    for half in range(8):
        for chunk in range(3):
            tree._read_words(strings, 4, tree._Place(half, chunk, 63), 0, 3)
            cells = (y if half & 1 else x)[order, 64 * chunk : 64 * chunk + 64]
            bits = ["".join(str(value >> (3 - half // 2) & 1) for value in row).ljust(64, "0") for row in cells]
            assert [f"{word:064b}" for word in strings.word] == bits
