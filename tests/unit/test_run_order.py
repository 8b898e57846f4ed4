"""The order of a run: a keyed hash of the subjects' names, whatever their codes and rows."""

import dataclasses

import numpy as np
import pyarrow as pa

from dbanon.methods.kernels.order import rank_subjects
from tests.unit.sensitive_sites_runs import make_subjects

NAMES = ["Ann", "Bob", "Cid", "Dot", "Eve", "", "Zoë", "the same, but longer than eight bytes", "10", "9"]


def sort_names(names, seed=3):
    """The names in the order of a run."""
    data = dataclasses.replace(make_subjects([(0, 0)] * len(names)), subject_names=pa.array(names, pa.string()))
    rank = rank_subjects(data, np.random.default_rng(seed))
    assert sorted(rank.tolist()) == list(range(len(names)))
    return [names[code] for code in np.argsort(rank)]


def test_one_seed_is_one_order_and_another_is_another():
    assert sort_names(NAMES) == sort_names(NAMES)
    assert len({tuple(sort_names(NAMES, seed)) for seed in range(50)}) == 50


def test_other_codes_and_one_name_more_or_less_leave_the_order_of_the_others():
    whole = sort_names(NAMES)
    assert sort_names(NAMES[::-1]) == whole
    for name in NAMES:
        assert sort_names([other for other in NAMES if other != name]) == [other for other in whole if other != name]


def test_every_name_comes_first_about_as_often_as_any_other():
    first = [sort_names(NAMES[:4], seed)[0] for seed in range(4000)]
    assert all(900 < first.count(name) < 1100 for name in NAMES[:4])


def test_where_there_are_no_names_codes_are_names():
    data = make_subjects([(0, 0)] * 4, subject=[3, 0, 0, 1])
    rank = rank_subjects(data, np.random.default_rng(3))
    assert [str(code) for code in np.argsort(rank)] == sort_names(["0", "1", "2", "3"])


def test_an_empty_dataset_has_an_empty_order():
    assert rank_subjects(make_subjects([]), np.random.default_rng(3)).tolist() == []
