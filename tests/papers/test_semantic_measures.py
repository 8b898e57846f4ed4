"""What benchmarks measure of releases of cells: on a hand-made one, and against the rows of random ones."""

import random

import numpy as np
import pytest

import benchmarks.papers.semantic  # noqa: F401
from benchmarks import _semantic
from dbanon.base.errors import InfeasibleError
from dbanon.base.trajectory import Cells
from dbanon.methods import METHODS
from dbanon.methods.semantic import Parameters
from tests.contract import test_methods_meet_their_attacks as meeting

CELLS = Cells(
    cell_id=np.arange(4) * 2,
    area_m2=np.full(4, 1e6),
    categories=("home", "shop"),
    pois=np.array([[1, 0], [1, 1], [0, 1], [2, 2]]),
    neighbours=np.array([[0, 1], [1, 2], [2, 3]]),
    fix_cell=np.array([0, 0, 0, 0, 1]),
)
PARAMS = Parameters(k=2, l=2, t=0.1)


def make_release(regions, row_region, fix_row):
    n = len(fix_row)
    return _semantic.Release(
        cells=CELLS, region=[np.array(one) for one in regions], row_region=np.array(row_region),
        span_s=np.full(len(row_region), 8 * 3600), copies=np.full(len(row_region), 2), fix_row=np.array(fix_row),
        fix_cell=CELLS.fix_cell[:n], subject=np.zeros(n, int), fix_stay=np.arange(n), stay_cell=CELLS.fix_cell[:n],
        stay_s=np.full(n, 4 * 3600),
    )  # fmt: skip


def test_cells_that_no_region_tells_apart_are_a_class():
    """0 has homes alone, 1 the city's mix, and 2 and 3, which are in the same regions, nearly."""
    made = make_release([[0, 1], [1, 2, 3]], [0, 1], [0, 1])
    assert _semantic.count_classes(made, PARAMS) == {"classes": 3, "classes_fail": 1}
    assert _semantic.count_classes(made, Parameters(k=2, l=0, t=0.5)) == {"classes": 3, "classes_fail": 1}  # of ln 2
    assert (
        _semantic.count_classes(make_release([[0, 1], [2, 3]], [0, 1], [0, 1]), Parameters(k=2, l=2, t=0.7))[
            "classes_fail"
        ]
        == 0
    )


def test_the_regions_of_a_place_to_which_somebody_returns_are_intersected():
    made = make_release([[0, 1], [0, 3]], [0, 1, 0, 1], [0, 1, 2, 3])
    assert _semantic.intersect_returns(made, PARAMS) == {
        "places": 1, "places_one_cell_percent": 100, "places_fail_percent": 100,
    }  # fmt: skip
    assert _semantic.intersect_returns(make_release([[0, 1], [0, 3]], [0, 1, 0], [0, 1, 2, -1]), PARAMS) == {
        "places": 0
    }


def test_a_fix_loses_what_its_row_has_more_than_its_stay():
    """4 of 8 hours and one of 25 km2 more, half of each."""
    made = _semantic.measure_losses(make_release([[0, 1]], [0], [0, -1]), PARAMS)
    assert made["theta"] == pytest.approx(0.5 * 4 / 8 + 0.5 / 25)
    assert (made["rows"], made["suppressed_percent"], made["side_m_mean"]) == (2, 50, 2**0.5 * 1000)


def test_a_region_that_grew_from_a_cell_is_replayed_and_one_of_two_atoms_is_not():
    """From 0 regions grow to 1; 0, 1 and 3 are not connected."""
    assert _semantic.replay(make_release([[0, 1]], [0], [0]), Parameters(k=2, l=2, t=np.inf)) == {
        "replayed_percent": 100, "right_percent": 100, "chance_percent": 50,
    }  # fmt: skip
    assert _semantic.replay(make_release([[0, 1, 3]], [0], [0]), PARAMS) == {"replayed_percent": 0}


def test_fixes_are_found_in_the_rows_of_their_groups():
    rng, family, found = random.Random(9), METHODS["semantic"], 0
    for _ in range(20):
        data, cells = meeting.attack_in_cells(rng)
        params = family.parse({"k": 2, "l": 2, "t": 0.5, "min_cells": rng.choice([1, 3]), "suppress_span_s": 600})
        try:
            cloaks = family.anonymise(data, "merge", params, np.random.default_rng(0), cells=cells)
        except InfeasibleError:
            continue
        made, found = _semantic.Release.from_cloaks(cloaks, data, cells, params), found + 1
        assert made.copies.sum() == cloaks.rows
        assert np.isin(cells.fix_cell >= 0, True).sum() == len(made.fix_row)
        assert (made.fix_row >= 0).sum() == data.fixes - sum(cloaks.suppressed["fixes"].values())
        for row, cell in zip(made.fix_row, made.fix_cell, strict=True):
            assert row < 0 or cell in made.region[made.row_region[row]]
    assert found > 10
