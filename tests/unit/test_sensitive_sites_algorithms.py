"""The plain statements of the paper among themselves: its theorems, brute force, and its examples."""

import random
from itertools import pairwise

import pytest

from tests.unit import oracles_sensitive_sites as oracle
from tests.unit.sensitive_sites_instances import draw_instance, sort_along_curve

SEED = 20080609


def draw_on_line(rng, *, most):
    """Subjects and sites on the x axis in order, often at one place, k times as many subjects as sites or more."""
    k = rng.randint(1, 4)
    m = rng.randint(1, min(4, most // k))
    n = rng.randint(k * m, most)
    side = rng.choice([2, 5, 10, 40])
    subjects, sites = (sorted((x, 0, x, 0) for x in rng.choices(range(side), k=number)) for number in (n, m))
    return subjects, sites, k


def test_bk_in_one_dimension_is_the_best_of_all_mappings():
    """Theorems 1 to 3, and Algorithm BK."""
    rng = random.Random(SEED)
    for _ in range(600):
        subjects, sites, k = draw_on_line(rng, most=9)
        _, cost = oracle.group_by_bk(subjects, sites, k, oracle.measure_extent)
        assert cost == oracle.find_cheapest_mapping(subjects, sites, k), (subjects, sites, k)


def test_theorem_1_k_subjects_a_site_are_enough():
    rng = random.Random(SEED)
    for _ in range(200):
        subjects, sites, k = draw_on_line(rng, most=9)
        rng.shuffle(sites)
        exactly = oracle.find_cheapest_mapping(subjects, sites, k, exactly=True)
        assert exactly == oracle.find_cheapest_mapping(subjects, sites, k), (subjects, sites, k)


def test_on_a_line_extents_and_areas_have_the_same_solution():
    rng = random.Random(SEED)
    for _ in range(100):
        subjects, sites, k = draw_on_line(rng, most=12)
        starts, cost = oracle.group_by_bk(subjects, sites, k, oracle.measure_extent)
        assert oracle.group_by_bk(subjects, sites, k) == (starts, cost + len(sites))


@pytest.mark.parametrize("shapes", [False, True])
def test_bk_is_the_best_of_all_windows_in_order_and_the_lowest_of_the_best(shapes):
    rng = random.Random(SEED)
    for _ in range(250):
        subjects, sites, k = draw_instance(rng, subjects=(1, 11), sites=(1, 4), shapes=shapes)
        assert oracle.group_by_bk(subjects, sites, k) == oracle.find_cheapest_windows(subjects, sites, k), (
            subjects,
            sites,
            k,
        )


def test_bk_has_one_solution_where_every_subject_is_needed():
    rng = random.Random(SEED)
    for k in range(1, 6):
        subjects, sites, _ = draw_instance(rng, subjects=(3 * k, 3 * k), sites=(3, 3), k=k)
        assert oracle.group_by_bk(subjects, sites, k)[0] == [0, k, 2 * k]


def test_bk_is_not_the_best_mapping_in_the_plane():
    """Section 4.2 says so: one order of the plane cannot keep all that is near together."""
    subjects = sites = [(0, 0, 0, 0), (9, 9, 9, 9)]
    assert oracle.group_by_bk(subjects, sites, 1)[1] == 2
    assert oracle.group_by_bk(subjects, sites[::-1], 1)[1] == 200


def test_1danon_is_the_best_of_all_partitions_on_a_line():
    rng = random.Random(SEED)
    for _ in range(150):
        k, n = rng.randint(1, 3), rng.randint(1, 7)
        subjects = sorted((x, 0, x, 0) for x in rng.choices(range(rng.choice([2, 8, 40])), k=n))
        _, cost = oracle.group_by_one_d_anon(subjects, k, oracle.measure_extent)
        every = [sum(map(oracle.measure_extent, p)) for p in oracle.iter_partitions(subjects, k)]
        assert cost == min(every, default=0), (subjects, k)


def test_1danon_with_areas_is_the_best_of_all_consecutive_groups_and_its_last_ones_are_the_shortest():
    rng = random.Random(SEED)
    for _ in range(300):
        subjects, _, k = draw_instance(rng, subjects=(1, 12), sites=(1, 1))
        every = [
            (
                sum(oracle.measure_area(subjects[a:b]) for a, b in pairwise(offset)),
                [a - b for a, b in pairwise(offset)][::-1],
            )
            for offset in oracle.iter_consecutive(len(subjects), k)
        ]
        cost, sizes = max((-cost, sizes) for cost, sizes in every)
        offset, plain = oracle.group_by_one_d_anon(subjects, k)
        assert (-plain, [a - b for a, b in pairwise(offset)][::-1]) == (cost, sizes), (subjects, k)


def test_fewer_than_k_subjects_make_no_group():
    assert oracle.group_by_one_d_anon([(0, 0, 0, 0)] * 2, 3) == ([0], 0)


def test_mk_gives_every_site_a_group_of_its_own():
    rng = random.Random(SEED)
    for _ in range(200):
        subjects, sites, k = draw_instance(rng, subjects=(6, 20), sites=(1, 4), k=rng.randint(1, 2))
        offset, _ = oracle.group_by_one_d_anon(subjects, k)
        if len(offset) > len(sites):
            group = oracle.group_by_mk(subjects, sites, offset, rng.sample(range(len(sites)), len(sites)))
            assert len(set(group)) == len(sites)


FIGURE_7 = {
    "subjects": {"u1": (4, 2), "u2": (1, 1), "u3": (2, 9), "u4": (10, 11), "u5": (5, 10), "u6": (13, 6)},
    "sites": {"s1": (3, 4), "s2": (1, 6), "s3": (12, 8)},
}


def test_figure_7():
    """Groups {u2, u1}, {u3, u5}, {u4, u6}; s1 and s3 are output with the outer ones first, then s2 with the middle."""
    subjects, sites = ({n: (*p, *p) for n, p in FIGURE_7[which].items()} for which in ("subjects", "sites"))
    in_order = sorted(subjects, key=lambda u: oracle.locate_on_curve(*subjects[u][:2], 4))
    offset, _ = oracle.group_by_one_d_anon([subjects[u] for u in in_order], 2)
    groups = [in_order[a:b] for a, b in pairwise(offset)]
    assert groups == [["u2", "u1"], ["u3", "u5"], ["u4", "u6"]]
    for s, nearest in (("s1", 0), ("s2", 0), ("s3", 2)):
        areas = [oracle.measure_area([*(subjects[u] for u in g), sites[s]]) for g in groups]
        assert areas.index(min(areas)) == nearest
        assert areas.count(min(areas)) == 1
    given = [subjects[u] for u in in_order]
    assert oracle.group_by_mk(given, list(sites.values()), offset, [0, 1, 2]) == [0, 1, 2]
    # s2 loses to s1 even if it comes first: only ties are decided by priority.
    assert oracle.group_by_mk(given, [sites["s2"], sites["s1"]], offset, [0, 1]) == [1, 0]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_the_curve_visits_every_cell_and_neighbours_in_turn(order):
    side = 2**order
    cells = sorted(((x, y) for x in range(side) for y in range(side)), key=lambda c: oracle.locate_on_curve(*c, order))
    assert [oracle.locate_on_curve(*c, order) for c in cells] == list(range(side * side))
    assert all(abs(a - c) + abs(b - d) == 1 for (a, b), (c, d) in pairwise(cells))
    assert (cells[0], cells[-1]) == ((0, 0), (side - 1, 0))
    for start in range(0, side * side, 4):  # four in a row fill a square: what is near on the curve is near
        assert len({(x // 2, y // 2) for x, y in cells[start : start + 4]}) == 1


def test_instances_are_in_the_order_of_the_curve():
    rng = random.Random(SEED)
    subjects, sites, _ = draw_instance(rng, subjects=(20, 20), sites=(2, 4), k=2)
    assert subjects == sort_along_curve(subjects)
    assert sites == sort_along_curve(sites)
