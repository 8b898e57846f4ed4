"""GenAG by threshold: the tests of the product's search, and what is wrong with the threshold as printed."""

import random

import pytest

from benchmarks.papers.mob import find_nearest_by_threshold
from tests.papers import oracles_mob as oracle
from tests.unit.oracles_mob_gen_ag import compute_deviation, find_nearest
from tests.unit.test_mob_gen_ag import (  # noqa: F401 - the same tests, of the search by threshold
    SEED,
    draw_instance,
    test_equal_sums_are_taken_in_the_order_of_the_run,
    test_nobody_is_found_among_nobody_and_for_nobody,
    test_presence_is_asked_of_both,
    test_sums_that_differ_by_one_are_told_apart_however_large,
    test_the_nearest_are_the_same_however_the_work_is_cut,
    test_the_nearest_are_those_of_an_exhaustive_search,
)


@pytest.fixture
def search():
    return find_nearest_by_threshold


def test_the_threshold_as_printed_misses_somebody_nearer_and_the_right_one_nobody():
    rng = random.Random(SEED)
    missed = 0
    for _ in range(500):
        place, own, rank, asking, _ = draw_instance(rng, most=12, instants=(2, 4), furthest=(60,))
        for subject in asking:
            number = rng.randint(1, 4)
            exact = find_nearest((place, own, rank), subject, number, range(len(place)))
            assert oracle.find_by_threshold((place, own, rank), subject, number, printed=False) == exact
            wrong = oracle.find_by_threshold((place, own, rank), subject, number, printed=True)
            sums = [[compute_deviation(place, own, subject, other) for other in one] for one in (exact, wrong)]
            missed += sums[0] != sums[1]
    assert missed > 10
