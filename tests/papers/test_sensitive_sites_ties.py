"""What ties reveal of KNN and Local: the tests of the product's algorithms, and one of their own."""

import pytest

import benchmarks.papers.sensitive_sites  # noqa: F401 - adds knn and local
from tests.unit.sensitive_sites_runs import list_rows, make_sites, run
from tests.unit.test_sensitive_sites_ties import (  # noqa: F401 - the same tests, of knn and local
    by_id,
    name_subjects,
    test_no_output_ties_the_site_to_one_person_above_one_kth_but_with_an_order_by_id_it_does,
    test_of_three_at_one_place_the_seed_chooses_two_and_others_elsewhere_do_not_change_its_choice,
    test_who_is_hidden_depends_on_places_names_and_seed_and_not_on_ids_and_codes,
)


@pytest.fixture
def name():
    return "knn"


@pytest.fixture(params=["knn", "local"])
def algorithm(request):
    return request.param


def test_of_two_equally_near_on_either_side_the_seed_chooses(algorithm):
    data = name_subjects([(1, 0), (2, 0), (3, 0)], ["Ann", "Bob", "Cid"])
    chosen = [list_rows(run(data, make_sites([(2, 0)]), algorithm, seed=seed))[5][2] for seed in range(40)]
    assert 10 < sum(chosen) < 30
