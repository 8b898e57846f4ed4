"""What papers compare with keeps the contract of methods: the checks of every algorithm, and those of its adversary."""

import collections
import contextlib
import dataclasses
import functools
import random
import re
from pathlib import Path

import numpy as np
import pytest

import benchmarks.papers.kte
import benchmarks.papers.semantic
import benchmarks.papers.sensitive_sites
import benchmarks.papers.tp_aware  # noqa: F401
from dbanon.base.errors import DataError, InfeasibleError
from dbanon.methods import METHODS, Algorithm
from dbanon.methods.kte import _rows
from dbanon.methods.semantic import _rows as semantic_rows
from dbanon.methods.tp_aware import _bundles
from tests.contract import test_methods as every
from tests.contract import test_methods_meet_their_attacks as meeting

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
TP_AWARE = ("bulk-dp", "fast-tga", "slow-tga", "hilbert")
ALGORITHMS = {"kte": ("glove",), "sensitive-sites": ("knn",), "semantic": ("merge",), "tp-aware": TP_AWARE}
CONTRACT = [
    every.test_k_holds_in_distinct_subjects,
    every.test_people_have_a_record_each_day_only_where_the_family_says_so,
    every.test_the_same_data_parameters_and_seed_give_the_same_cloaks,
    every.test_input_and_output_are_read_only,
    every.test_global_random_state_is_neither_read_nor_changed,
    functools.partial(every.test_fewer_than_k_subjects_are_infeasible_or_left_exact, n=every.K - 1),
    every.test_exactly_k_subjects_are_enough,
    every.test_everyone_at_one_point_is_one_cell,
    every.test_ties_are_broken_the_same_way_every_time,
    functools.partial(
        every.test_moving_everything_by_whole_cells_moves_the_cloaks_and_changes_nothing_else, right=-3, up=7
    ),
    every.test_duplicate_times_across_trajectories_of_a_subject_count_as_one_person,
    every.test_what_is_left_out_is_counted_by_reason,
    every.test_errors_are_the_programs_own_even_for_absurd_but_valid_parameters,
]


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: getattr(check, "func", check).__name__)
@pytest.mark.parametrize(("name", "algorithm"), [(name, one) for name, all in ALGORITHMS.items() for one in all])
def test_an_algorithm_keeps_the_contract(check, name, algorithm):
    family = METHODS[name]
    knowing = (*family.algorithms, Algorithm(name=algorithm, summary="not in the registry"))
    check(family=dataclasses.replace(family, algorithms=knowing), algorithm=algorithm)


@pytest.mark.parametrize("align", ["last", "exact", "linear"])
@pytest.mark.parametrize("cloak", ["mbr", "quadrant"])
@pytest.mark.parametrize("algorithm", TP_AWARE)
def test_the_tp_aware_adversary_finds_nothing_to_object_to(cases, algorithm, align, cloak):
    meeting.test_the_tp_aware_adversary_finds_nothing_to_object_to(cases, algorithm, align, cloak)


def list_verdicts(algorithm, count):
    """Attack what an algorithm makes of random towns as groups are attacked, those of `k-merge`."""
    rng = random.Random(algorithm)
    found = (meeting.attack_generalised(rng, algorithm, known="k-merge") for _ in range(count))
    return [verdict for verdict in found if verdict is not None]


def test_the_adversary_of_kte_finds_nothing_to_object_to_in_groups_of_glove():
    found = list_verdicts("glove", 60)
    assert len(found) >= 15
    assert all(verdict.passed for verdict in found)


def test_the_adversary_of_kte_finds_the_samples_that_w4m_makes_up():
    found = list_verdicts("w4m", 30)
    assert found
    assert not any(verdict.passed for verdict in found)
    assert "truth" in {clause.name for verdict in found for clause in verdict.clauses if not clause.passed}


def test_static_hides_those_it_publishes_and_leaves_others_out():
    found = list_verdicts("static", 30)
    assert found
    # k-merge, as which it is attacked, would publish all of them.
    assert {clause.name for verdict in found for clause in verdict.clauses if not clause.passed} == {"left-out"}
    assert sum(verdict.figures["published"] for verdict in found) < sum(v.figures["subjects"] for v in found) / 2


def make_merged(count):
    """Give the paper's cloaks of random towns over cells, each with what it was made of."""
    rng, family = random.Random(count), METHODS["semantic"]
    for _ in range(count):
        data, cells = meeting.attack_in_cells(rng)
        params = family.parse({"k": 2, "l": rng.randint(0, 3), "t": rng.choice(["inf", 0.5, 0.05])})
        with contextlib.suppress(InfeasibleError):
            yield params, data, cells, family.anonymise(data, "merge", params, np.random.default_rng(0), cells=cells)


def test_the_adversary_of_semantic_tells_cells_from_one_another_by_the_regions_of_merge():
    broken, family = collections.Counter(), METHODS["semantic"]
    for params, data, cells, cloaks in make_merged(30):
        verdict = meeting.verify_cloaks(family, "merge", params, data, cloaks, given={"cells": cells})
        broken.update(clause.name for clause in verdict.clauses if not clause.passed)
    assert broken.keys() == {"classes", "tight"}


def test_merge_must_have_cells_that_touch():
    data, cells = meeting.attack_in_cells(random.Random(1))
    touching = cells.neighbours[(cells.neighbours > 0).all(axis=1)]  # the first with none
    family, apart = METHODS["semantic"], dataclasses.replace(cells, neighbours=touching)
    params = family.parse({"k": 2, "l": 0, "t": "inf"})
    with pytest.raises(DataError, match="connected"):
        family.anonymise(data, "merge", params, np.random.default_rng(0), cells=apart)


@pytest.mark.parametrize(
    ("name", "table"),
    [("kte", _rows.ALGORITHMS), ("semantic", semantic_rows.ALGORITHMS), ("tp-aware", _bundles.ALGORITHMS)],
)
def test_the_page_lists_what_a_package_adds_to_a_family_and_the_registry_does_not_know_it(name, table):
    listed = set(re.findall(rf"^\| `([\w-]+)` \| `{name}` \|", PAGE, re.MULTILINE))
    assert listed
    assert listed == table.keys() - {algorithm.name for algorithm in METHODS[name].algorithms}
