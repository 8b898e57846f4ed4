"""The Local algorithm against its four nested sweeps, and against figure 5 by hand."""

import random

import pytest

from dbanon.methods.sensitive_sites import _local
from dbanon.methods.sensitive_sites._boxes import Boxes
from tests.unit import oracles_sensitive_sites as oracle

SEED = 20070801


def cells(*points):
    return [(x, y, x, y) for x, y in points]


def cover(users, sites, k):
    site, user = _local.cover(Boxes.of(users), Boxes.of(sites), k)
    return list(zip(site.tolist(), user.tolist(), strict=True))


def drawn(rng, number, side, *, line=False, shapes=False):
    """Boxes that often share rows, columns and cells."""
    out = []
    for _ in range(number):
        x, y = rng.randrange(side), 0 if line else rng.randrange(side)
        wide, high = (rng.randrange(3), rng.randrange(3)) if shapes else (0, 0)
        out.append((x, y, x + wide, y + high))
    return out


@pytest.mark.parametrize("shapes", [False, True])
@pytest.mark.parametrize("line", [False, True])
def test_pairs_are_those_of_the_nested_sweeps(shapes, line):
    rng = random.Random(SEED)
    for _ in range(250):
        side = rng.choice([1, 2, 4, 8, 30])
        users = drawn(rng, rng.randint(1, 9), side, line=line, shapes=shapes)
        sites = drawn(rng, rng.randint(1, 5), side, line=line, shapes=shapes)
        k = rng.randint(1, 3)
        assert cover(users, sites, k) == oracle.local_plain(users, sites, k)[0], (users, sites, k)


@pytest.mark.stress
@pytest.mark.parametrize("shapes", [False, True])
def test_pairs_are_those_of_the_nested_sweeps_where_boxes_hold_many_sites(shapes):
    rng = random.Random(SEED)
    for _ in range(12):
        side, k = rng.choice([6, 12, 100]), rng.randint(1, 3)
        sites = drawn(rng, rng.randint(8, 14), side, shapes=shapes)
        users = drawn(rng, k * len(sites), side, shapes=shapes)
        assert cover(users, sites, k) == oracle.local_plain(users, sites, k)[0], (users, sites, k)


def test_figure_5a_the_best_of_all_sweeps_is_the_candidate_box():
    u, s1, s2, s3, s4 = cells((4, 4), (0, 7), (3, 0), (6, 5), (5, 6))
    sites = [s1, s2, s3, s4]
    # With north at 6, east at 5 covers s4 with 6 cells, east at 6 also s3 with 9: 4.5 a site. Everything is 14 a site.
    coverage, area, box = oracle.candidate_box(u, sites, range(4))
    assert (coverage, area, box) == (4.5, 9, (4, 4, 6, 6))
    assert cover([u], sites, 1) == [(2, 0), (3, 0)]


def test_figure_5c_skewed_boxes_are_chosen_and_make_a_large_region():
    site = cells((10, 10))
    users = cells((12, 12), (8, 8), (10, 16), (17, 10))
    assert cover(users, site, 2) == [(0, 2), (0, 3)]
    assert oracle.area([users[2], users[3], *site]) == 56
    assert oracle.area([users[0], users[1], *site]) == 25


def test_of_equal_coverage_the_smaller_box_is_taken_and_a_spent_user_does_not_come_back():
    assert cover(cells((5, 5)), cells((6, 5), (8, 5)), 1) == [(0, 0)]  # 2 cells for one site, or 4 for two


def test_of_equal_boxes_the_one_further_west_is_taken():
    assert cover(cells((5, 5)), cells((5, 3), (3, 5)), 1) == [(1, 0)]


def test_of_equal_users_the_first_is_taken():
    assert cover(cells((3, 0), (1, 0), (1, 0)), cells((2, 0)), 1) == [(0, 0)]


def test_users_are_shared_among_sites():
    assert cover(cells((1, 1), (9, 9)), cells((1, 1), (1, 1)), 1) == [(0, 0), (1, 0)]


def test_a_site_gets_no_more_than_k_users_and_all_of_them_if_there_are_k_times_as_many_users_as_sites():
    rng = random.Random(SEED)
    for _ in range(20):
        k, m = rng.randint(1, 5), rng.randint(1, 20)
        users, sites = drawn(rng, k * m, 50), drawn(rng, m, 50)
        pairs = cover(users, sites, k)
        assert pairs == sorted(set(pairs))
        assert [site for site, _ in pairs] == [site for site in range(m) for _ in range(k)]


def test_without_sites_nobody_is_chosen():
    site, user = _local.cover(Boxes.of(cells((1, 1))), Boxes.of(cells((1, 1))).take([]), 2)
    assert len(site) == len(user) == 0
