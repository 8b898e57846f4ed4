"""KNN against sorting all subjects, by hand, and under the tests of the product's algorithms."""

import random

import numpy as np
import pytest

import benchmarks.papers.sensitive_sites  # noqa: F401 - adds knn
from benchmarks.papers.sensitive_sites import nearest_subjects
from dbanon.base.errors import InfeasibleError
from dbanon.methods.sensitive_sites._boxes import Boxes
from tests.facts import expect_refusal
from tests.papers import oracles_sensitive_sites as oracle
from tests.unit.oracles_sensitive_sites import group_by_bk, measure_area
from tests.unit.sensitive_sites_instances import draw_instance
from tests.unit.sensitive_sites_runs import list_rows, make_sites, make_subjects, run
from tests.unit.test_sensitive_sites import (  # noqa: F401 - the same tests, of knn
    test_degenerate_places_are_no_trouble,
    test_exactly_k_subjects_a_site_leave_one_solution_for_bk_and_mk_may_do_with_fewer_than_2k_minus_1,
    test_no_site_is_bad_data,
    test_whoever_stands_on_a_site_is_hidden_with_it,
)
from tests.unit.test_sensitive_sites_rows import (  # noqa: F401
    test_metrics_are_in_square_metres_and_percent_of_the_whole,
)

SEED = 20080611


@pytest.fixture
def algorithm():
    return "knn"


def test_figure_2_knn_depends_on_the_order_of_sites_and_bk_does_not():
    """In (a) s1 takes u3 and u4, which s2 needs more; in (b) it has u1 and u2."""
    subjects = [(0, 1, 0, 1), (0, 3, 0, 3), (6, 1, 6, 1), (6, 3, 6, 3)]
    s1, s2 = (4, 2, 4, 2), (9, 2, 9, 2)

    def cost(site_of):
        groups = [[u for u, s in zip(subjects, site_of, strict=True) if s == which] for which in (0, 1)]
        return measure_area([*groups[0], s1]) + measure_area([*groups[1], s2])

    assert oracle.assign_by_knn(subjects, [s1, s2], 2, [0, 1]) == [1, 1, 0, 0]
    assert oracle.assign_by_knn(subjects, [s1, s2], 2, [1, 0]) == [0, 0, 1, 1]
    starts, best = group_by_bk(subjects, [s1, s2], 2)
    assert (starts, best) == ([0, 2], cost([0, 0, 1, 1]))
    assert best < cost([1, 1, 0, 0])


def test_knn_takes_the_first_of_equally_near_subjects_and_leaves_the_rest():
    subjects = [(1, 0, 1, 0), (0, 1, 0, 1), (2, 1, 2, 1), (9, 9, 9, 9)]
    assert oracle.assign_by_knn(subjects, [(1, 1, 1, 1)], 2, [0]) == [0, 0, -1, -1]


@pytest.mark.parametrize("shapes", [False, True])
def test_knn_takes_the_same_subjects_as_sorting_them_all(shapes):
    rng = random.Random(SEED)
    for _ in range(300):
        subjects, sites, k = draw_instance(rng, subjects=(1, 30), sites=(1, 6), shapes=shapes)
        rng.shuffle(subjects)
        order = rng.sample(range(len(sites)), len(sites))
        site = nearest_subjects.take(Boxes.from_array(subjects), Boxes.from_array(sites), k, np.array(order, np.int64))
        assert site.dtype == np.int32
        assert site.tolist() == oracle.assign_by_knn(subjects, sites, k, order), (subjects, sites, k, order)


def test_knn_compares_large_distances_exactly():
    """Squares past 2^53 that differ by one; float64 would take them for equal, and the first of them."""
    far = 2**27
    subjects = [(far, 1, far, 1), (far, 0, far, 0)]
    assert oracle.assign_by_knn(subjects, [(0, 0, 0, 0)], 1, [0]) == [-1, 0]
    site = nearest_subjects.take(Boxes.from_array(subjects), Boxes.from_array([(0, 0, 0, 0)]), 1, np.array([0]))
    assert site.tolist() == [-1, 0]


def test_knn_draws_the_order_of_the_sites():
    both = make_sites([(3, 0), (4, 0)])
    assert (
        len(
            {str(list_rows(run(make_subjects([(x, 0) for x in (3, 4, 6, 7)]), both, "knn", seed=s))) for s in range(20)}
        )
        == 2
    )


def test_too_few_subjects_are_infeasible():
    with expect_refusal(InfeasibleError, "knn", "k = 2", "2 sites", "4 in all", 3):
        run(make_subjects([(0, 0), (1, 1), (2, 2)]), make_sites([(0, 0), (1, 1)]), "knn")
