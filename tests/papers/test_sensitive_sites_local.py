"""The Local algorithm against its four nested sweeps, and against figure 5 by hand."""

import random

import pytest

import benchmarks.papers.sensitive_sites  # noqa: F401 - adds local
from benchmarks.papers.sensitive_sites import local
from dbanon.base.errors import InfeasibleError
from dbanon.methods.sensitive_sites._boxes import Boxes
from tests.facts import expect_refusal
from tests.papers import oracles_sensitive_sites as oracle
from tests.unit.oracles_sensitive_sites import measure_area
from tests.unit.sensitive_sites_runs import make_sites, make_subjects, run
from tests.unit.test_sensitive_sites_rows import list_rows

SEED = 20070801


def make_cells(*points):
    return [(x, y, x, y) for x, y in points]


def cover(subjects, sites, k):
    site, subject = local.cover(Boxes.from_array(subjects), Boxes.from_array(sites), k)
    return list(zip(site.tolist(), subject.tolist(), strict=True))


def draw_boxes(rng, number, side, *, line=False, shapes=False):
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
        subjects = draw_boxes(rng, rng.randint(1, 9), side, line=line, shapes=shapes)
        sites = draw_boxes(rng, rng.randint(1, 5), side, line=line, shapes=shapes)
        k = rng.randint(1, 3)
        assert cover(subjects, sites, k) == oracle.cover_by_local(subjects, sites, k)[0], (subjects, sites, k)


@pytest.mark.stress
@pytest.mark.parametrize("shapes", [False, True])
def test_pairs_are_those_of_the_nested_sweeps_where_boxes_hold_many_sites(shapes):
    rng = random.Random(SEED)
    for _ in range(12):
        side, k = rng.choice([6, 12, 100]), rng.randint(1, 3)
        sites = draw_boxes(rng, rng.randint(8, 14), side, shapes=shapes)
        subjects = draw_boxes(rng, k * len(sites), side, shapes=shapes)
        assert cover(subjects, sites, k) == oracle.cover_by_local(subjects, sites, k)[0], (subjects, sites, k)


def test_figure_5a_the_best_of_all_sweeps_is_the_candidate_box():
    u, s1, s2, s3, s4 = make_cells((4, 4), (0, 7), (3, 0), (6, 5), (5, 6))
    sites = [s1, s2, s3, s4]
    # With north at 6, east at 5 covers s4 with 6 cells, east at 6 also s3 with 9: 4.5 a site. Everything is 14 a site.
    assert oracle.find_candidate_box(u, sites, range(4)) == (4.5, 9, (4, 4, 6, 6))
    assert cover([u], sites, 1) == [(2, 0), (3, 0)]


def test_figure_5c_skewed_boxes_are_chosen_and_make_a_large_region():
    site = make_cells((10, 10))
    subjects = make_cells((12, 12), (8, 8), (10, 16), (17, 10))
    assert cover(subjects, site, 2) == [(0, 2), (0, 3)]
    assert measure_area([subjects[2], subjects[3], *site]) == 56
    assert measure_area([subjects[0], subjects[1], *site]) == 25


def test_of_equal_coverage_the_smaller_box_is_taken_and_a_spent_subject_does_not_come_back():
    assert cover(make_cells((5, 5)), make_cells((6, 5), (8, 5)), 1) == [(0, 0)]  # 2 cells for one site, or 4 for two


def test_of_equal_boxes_the_one_further_west_is_taken():
    assert cover(make_cells((5, 5)), make_cells((5, 3), (3, 5)), 1) == [(1, 0)]


def test_of_equal_subjects_the_first_is_taken():
    assert cover(make_cells((3, 0), (1, 0), (1, 0)), make_cells((2, 0)), 1) == [(0, 0)]


def test_subjects_are_shared_among_sites():
    assert cover(make_cells((1, 1), (9, 9)), make_cells((1, 1), (1, 1)), 1) == [(0, 0), (1, 0)]


def test_a_site_gets_no_more_than_k_subjects_and_all_of_them_if_there_are_k_times_as_many_subjects_as_sites():
    rng = random.Random(SEED)
    for _ in range(20):
        k, m = rng.randint(1, 5), rng.randint(1, 20)
        subjects, sites = draw_boxes(rng, k * m, 50), draw_boxes(rng, m, 50)
        pairs = cover(subjects, sites, k)
        assert pairs == sorted(set(pairs))
        assert [site for site, _ in pairs] == [site for site in range(m) for _ in range(k)]


def test_without_sites_nobody_is_chosen():
    site, subject = local.cover(Boxes.from_array(make_cells((1, 1))), Boxes.from_array(make_cells((1, 1))).take([]), 2)
    assert len(site) == len(subject) == 0


# ---- rows ------------------------------------------------------------------------------------------------------------

SHARED = make_subjects([(0, 1), (1, 0), (50, 51), (51, 50), (90, 90)])
THREE = make_sites([(0, 0), (0, 0), (50, 50)])


@pytest.mark.parametrize(
    ("algorithm", "regions", "crowd"),
    [
        ("local", ([0, 0, 2, 2], [0, 0, 2, 2], [50, 50, 52, 52], [50, 50, 52, 52]), 2),
        ("local-2-by-2", ([0, 0, 1, 2], [0, 0, 2, 1], [50, 50, 51, 52], [50, 50, 52, 51]), 1),
    ],
)
def test_local_writes_a_row_for_each_site_of_a_subject_and_one_for_who_has_none(algorithm, regions, crowd):
    """Two sites at one place share two subjects; the third has two of its own, and the last subject none."""
    cloaks = run(SHARED, THREE, algorithm)
    assert list_rows(cloaks) == [
        (5, regions[0], crowd, True),
        (5, regions[0], crowd, True),
        (8, regions[1], crowd, True),
        (8, regions[1], crowd, True),
        (11, regions[2], crowd, True),
        (14, regions[3], crowd, True),
        (17, [90, 90, 91, 91], 1, False),
    ]
    told = {
        name: cloaks.metrics[name]
        for name in ("subjects", "subjects_cloaked", "subjects_left_exact", "shared_subjects")
    }
    assert told == {"subjects": 5, "subjects_cloaked": 4, "subjects_left_exact": 1, "shared_subjects": 2}


@pytest.mark.parametrize("algorithm", ["local", "local-2-by-2"])
def test_too_few_subjects_are_infeasible(algorithm):
    with expect_refusal(InfeasibleError, "local", "k = 2", "2 sites", "for 0", "1 subject"):
        run(make_subjects([(0, 0)]), make_sites([(0, 0), (1, 1)]), algorithm)
