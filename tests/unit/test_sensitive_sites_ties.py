"""What ties reveal: every placement of four people on a line, weighed by an adversary that knows the algorithm.

The adversary knows that one of the four stands on the site, whose row each row is, and how it was made, but not the
order of the run. All placements are equally likely beforehand; so are all orders.
"""

import dataclasses
import itertools

import numpy as np
import pyarrow as pa
import pytest

from dbanon.methods.sensitive_sites import _rows
from tests.unit import small_worlds
from tests.unit.sensitive_sites_runs import list_rows, make_sites, make_subjects, run

PEOPLE, CELLS, CLINIC, K = 4, 6, 2, 2
IDS = tuple(range(PEOPLE))
ORDERS = list(itertools.permutations(IDS))
PLACEMENTS = [p for p in itertools.product(range(CELLS), repeat=PEOPLE) if p.count(CLINIC) == 1]
ALGORITHMS = {"bk": ("bk", {}), "bk without improve": ("bk", {"improve": False}), "mk": ("mk", {})}


def publish_placement(placement, algorithm, params):
    """What the adversary reads of each person: from where to where, and whether cloaked."""
    told = list_rows(
        run(make_subjects([(x, 0) for x in placement]), make_sites([(CLINIC, 0)]), algorithm, k=K, **params)
    )
    return tuple((bounds[0], bounds[2], cloaked) for _, (bounds, _, cloaked) in sorted(told.items()))


def compute_posteriors(outputs, orders):
    """By output: how likely it is that each person is the one on the site.

    `outputs` are those of the order of ids. A person of another order is another person in this one: nothing but the
    order distinguishes people.
    """
    worlds = (
        (tuple(output[person] for person in order), {order.index(placement.index(CLINIC)): 1})
        for placement, output in outputs.items()
        for order in orders
    )
    return small_worlds.compute_posteriors(worlds)[0]


@pytest.fixture
def by_id(monkeypatch):
    """The order of the run is that of ids."""
    monkeypatch.setattr(_rows, "rank_subjects", lambda data, _: np.arange(len(data.subject)))


@pytest.fixture(params=ALGORITHMS)
def name(request):
    return request.param


@pytest.mark.stress
@pytest.mark.many
def test_no_output_ties_the_site_to_one_person_above_one_kth_but_with_an_order_by_id_it_does(name, by_id):
    outputs = {placement: publish_placement(placement, *ALGORITHMS.get(name, (name, {}))) for placement in PLACEMENTS}
    hidden = compute_posteriors(outputs, ORDERS)
    assert max(max(each.values()) for each in hidden.values()) == 1 / K
    known = compute_posteriors(outputs, [IDS])
    assert max(max(each.values()) for each in known.values()) == 1
    assert sum(max(each.values()) > 1 / K for each in known.values()) >= 24
    if name == "bk":
        ann, bob, cid, dot = (0.0, 1.0, False), (2.0, 4.0, True), (3.0, 4.0, False), (2.0, 4.0, True)
        assert known[ann, bob, cid, dot] == {3: 1}
        assert hidden[ann, bob, cid, dot] == {1: 0.5, 3: 0.5}


@pytest.fixture(params=["bk", "mk"])
def algorithm(request):
    return request.param


def name_subjects(points, names):
    return dataclasses.replace(make_subjects(points), subject_names=pa.array(names, pa.string()))


def test_who_is_hidden_depends_on_places_names_and_seed_and_not_on_ids_and_codes(algorithm, rng):
    """So a person who is called something else is hidden as that other one would be.

    `compute_posteriors` relies on it.
    """
    outcomes = set()
    for seed in range(20):
        points, places = rng.integers(0, 4, (14, 2)).tolist(), rng.integers(0, 4, (2, 2)).tolist()
        names, found = [f"person {i}" for i in range(14)], []
        for shuffled in (range(14), rng.permutation(14).tolist()):
            data = name_subjects([points[i] for i in shuffled], [names[i] for i in shuffled])
            cloaks = run(data, make_sites(places), algorithm, seed=seed)
            who = (names[shuffled[t]] for t in (cloaks.member_trajectory - 5) // 3)
            found.append(sorted(zip(who, cloaks.bounds.tolist(), cloaks.crowd.tolist(), strict=True)))
        assert found[0] == found[1]
        outcomes.add(str(found[0]))
    assert len(outcomes) == 20


def test_of_three_at_one_place_the_seed_chooses_two_and_others_elsewhere_do_not_change_its_choice(algorithm):
    chosen = []
    for seed in range(40):
        told = []
        for more in ([], [(40, 0), (40, 0)]):
            points = [(0, 0), (3, 0), (3, 0), (3, 0), *more]
            data = name_subjects(points, ["Ann", "Bob", "Cid", "Dot", "Eve", "Fay"][: len(points)])
            told.append(
                [row[2] for _, row in sorted(list_rows(run(data, make_sites([(4, 0)]), algorithm, seed=seed)).items())]
            )
        assert told[0] == told[1][:4]
        chosen.append(told[0])
    assert all(sum(each) == K and not each[0] for each in chosen)
    assert all(15 < sum(hidden) < 38 for hidden in list(zip(*chosen, strict=True))[1:])
