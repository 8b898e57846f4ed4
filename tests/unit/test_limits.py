"""What methods and attacks refuse as too large or too far: the last that is taken, and one more."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dbanon.attacks.kte import _run_statements as kte_rules
from dbanon.attacks.kte import _windows
from dbanon.attacks.mob import _run_statements as mob_rules
from dbanon.attacks.mob import _search
from dbanon.attacks.mob._rows import Own, Positions, Shown
from dbanon.attacks.semantic import _regions, _units
from dbanon.attacks.semantic import _run_statements as semantic_rules
from dbanon.attacks.shared import run_statements
from dbanon.attacks.shared.rectangles import FURTHEST_CELL, find_region_cells
from dbanon.attacks.shared.replay import Timetable, select_slots
from dbanon.attacks.tp_aware import _run_statements as tp_aware_rules
from dbanon.base.errors import DataError
from dbanon.base.trajectory import Sites
from dbanon.methods import METHODS
from dbanon.methods.kernels import align
from dbanon.methods.kte import _samples
from dbanon.methods.mob import _positions
from dbanon.methods.tp_aware import _bundles
from tests.unit import attack_evidence, test_attack_semantic


def make_data(*fixes):
    """A trajectory of each fix, in cells of a metre and slots of a second."""
    trips = {number: (number, [fix]) for number, fix in enumerate(fixes)}
    return attack_evidence.make_trajectories(trips, grid_m=1.0, grid_s=1)


def hide_near_sites(side, count):
    """Hide two people near each of `count` sites, of whom one is in the far corner of a square of cells."""
    data = make_data(*[(0, 0, 0)] * (2 * count - 1), (0, side - 1, side - 1))
    sites = Sites(
        site_id=np.arange(count), site_bounds=np.zeros((count, 4)),
        shape_trajectory=np.empty(0, np.int64), shape_bounds=np.empty((0, 4)),
    )  # fmt: skip
    family = METHODS["sensitive-sites"]
    family.anonymise(data, "bk", family.parse({"k": 2}), np.random.default_rng(0), sites=sites)


def list_windows(instants):
    params = METHODS["tp-aware"].parse({"k": 2, "instants": 2, "start": 0, "step_s": 1})
    _bundles._list_windows(make_data((0, 0, 0), (instants - 1, 0, 0)), params)


def make_evidence(*fixes):
    """Evidence of a run of windows of three instants, and of data with such fixes."""
    params = attack_evidence.PARAMS | {"start": 0, "step_s": 1}
    world = attack_evidence.World({i: (i, [(0, 0, 0)]) for i in range(3)}, params, grid_m=1.0, grid_s=1)
    return replace(world.make_evidence({0: [(1, [0, 1, 2])]}), trajectories=make_data(*fixes))


def find_units(slots):
    """Find the units of data that begin before 1970."""
    run = test_attack_semantic.make_honest()
    rules = semantic_rules.read_rules(run.make_evidence())
    run.trips[101] = (1, 0, [(-86_400.0, 0), ((slots - 1440) * 60.0 - 1, 1)])
    _units.find_units(run.make_evidence(), np.array(run.atoms), rules)


def lay_windows(epochs, leak=1):
    rules = SimpleNamespace(leak=leak, window=2)
    _windows.build_timetable(SimpleNamespace(slot=np.array([0, epochs - 1])), rules)


LIMITS = {
    "instants of tp-aware": (_bundles.MAX_WINDOWS * 2, list_windows),
    "cells of tp-aware": (
        2**30,
        lambda n: _bundles._find_root([SimpleNamespace(extent=np.array([5.0, 0.0, 4.0 + n, 3.0]))]),
    ),
    "people of mob": (
        _positions.MAX_POSITIONS // 8,
        lambda n: _positions._demand_instants(n, align.Instants(0, 1, 8, align.EXACT, 1)),
    ),
    "cells of mob": (2**30 - 1, lambda n: _positions._demand_near(make_data((0, -5, 0), (0, n - 5, 0)))),
    "slots of kte": (2**32 - 1, lambda n: _samples.snap_fixes(make_data((n, 0, 0), (-n, 0, 0)), 1, 1.0)),
    "cells of kte": (2**26 - 1, lambda n: _samples.snap_fixes(make_data((0, n, 0), (0, 0, -n)), 1, 1.0)),
    "cells of sensitive-sites": (2**30, lambda n: hide_near_sites(n, 1)),
    "cells times sites of sensitive-sites": (4, lambda n: hide_near_sites(2**30, n)),
    "instants attacked of tp-aware": (
        tp_aware_rules._MAX_WINDOWS * 3,
        lambda n: tp_aware_rules.read_rules(make_evidence((0, 0, 0), (n - 1, 0, 0))),
    ),
    "seconds after 1970 of all": (10**12, lambda n: run_statements.demand_sane(make_evidence((n, 0, 0)))),
    "seconds before 1970 of all": (10**12, lambda n: run_statements.demand_sane(make_evidence((-n, 0, 0)))),
    "whole numbers of parameters": (10**12, lambda n: run_statements.read_integer({"k": n}, "k", 2)),
    "lengths of parameters": (10**12, lambda n: run_statements.read_length_m({"grid_m": n}, "grid_m")),
    "instants attacked of mob": (
        mob_rules._MAX_POSITIONS // 2,
        lambda n: mob_rules._demand_few_positions(
            make_data((0, 0, 0), (9, 0, 0)), Timetable(grid_s=1, first=0, step=1, count=n, length=1)
        ),
    ),
    "cells attacked of mob": (2**30 - 1, lambda n: mob_rules.demand_near(make_data((0, 0, -9), (0, 0, n - 9)))),
    "cells from the origin of mob": (2**52 - 1, lambda n: mob_rules.demand_near(make_data((0, -n, n), (0, -n, n)))),
    "slots attacked of kte": (2**32 - 1, lambda n: kte_rules.demand_near(make_data((-n, 0, 0), (n, 0, 0)), 1, 1.0)),
    "cells attacked of kte": (2**26 - 1, lambda n: kte_rules.demand_near(make_data((0, -n, 0), (0, 0, n)), 1, 1.0)),
    "epochs attacked of kte": (_windows._MAX_WINDOWS - 1, lay_windows),
    "slots of an epoch of kte": (_windows._MAX_LEAK_SLOTS, lambda n: lay_windows(5, leak=n)),
    "slots attacked of semantic": (2**40, find_units),
}


@pytest.mark.parametrize("name", LIMITS)
def test_the_largest_is_taken_and_one_more_is_refused(name):
    largest, take = LIMITS[name]
    take(largest)
    with pytest.raises((DataError, run_statements.UndecidableError)):
        take(largest + 1)


@pytest.mark.parametrize(
    "grid", [{"grid_m": n} for n in (0.0, -1.0, np.nan, np.inf)] + [{"grid_s": n} for n in (0, -1)]
)
def test_grids_that_are_no_positive_numbers_are_refused_by_all_attacks(grid):
    evidence = make_evidence((0, 0, 0))
    run_statements.demand_sane(evidence)
    with pytest.raises(run_statements.UndecidableError):
        run_statements.demand_sane(replace(evidence, trajectories=replace(evidence.trajectories, **grid)))


def test_a_region_below_a_square_metre_is_sound_as_one_part_without_a_hole():
    area_m2 = np.array([0.5, 0.5, 0.5, 1.0, 0.5, 0.5])
    evidence = SimpleNamespace(
        region_parts=np.array([1, 2, 1, 1, 1, 1]), region_holes=np.array([0, 0, 1, 0, 0, 0]),
        region_several=np.array([True] * 4 + [False, True]), region_valid=np.array([True] * 5 + [False]),
    )  # fmt: skip
    assert _regions._mark_small_regions(evidence, area_m2).tolist() == [True] + [False] * 5


def search_for_first(holds):
    """Find the records that the first person fits, who is known in one cell always; which rows hold it: bool[n, T]."""
    n, times = holds.shape
    where = np.zeros((n, times), np.int32)
    shown = Shown(
        region=(~holds).astype(np.int32), box=np.array([[0] * 4, [9] * 4], np.int32), sound=np.ones(2, bool),
        cloaked=np.zeros(2, np.int8), crowd=np.ones(2, np.int32), subjects=np.ones(2, np.int32),
        published=np.ones(n, bool), owner=np.arange(n), key=np.arange(n), faults=0, off_time=0,
    )  # fmt: skip
    own = Own(np.append(0, np.full(n, times)), np.arange(times, dtype=np.int32))
    scene = _search.Scene(Positions(np.arange(n), where, where, (0, 0)), shown, own)
    return _search.search(scene, np.array([0])).tolist()


def test_records_of_a_person_are_looked_for_until_there_are_enough():
    for n in (_search.MAX_EDGES - 1, _search.MAX_EDGES, _search.MAX_EDGES + 1):
        assert search_for_first(np.ones((n, 1), bool)) == list(range(min(n, _search.MAX_EDGES)))
    for n, found in ((_search.MAX_CANDIDATES, [_search.MAX_CANDIDATES - 1]), (_search.MAX_CANDIDATES + 1, [])):
        who = np.arange(2 * n - 1)  # the last of those who would do at one instant does at the other
        assert search_for_first(np.stack([who < n, who >= n - 1], axis=1)) == found


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_region_has_cells_up_to_the_furthest_that_float64_counts(sign):
    last = sign * (FURTHEST_CELL - 1.0)
    sides = [sorted((last - sign, last)), sorted((last, last + sign))]
    bounds = np.array([[low, 0.0, high, 1.0] for low, high in sides])
    for along in (bounds, bounds[:, [1, 0, 3, 2]]):
        assert find_region_cells(along, 1.0)[1].tolist() == [True, False]


def test_days_stay_with_trajectories_of_which_a_single_fix_is_in_the_time():
    trips = {1: (0, [(0, 0, 0), (1, 0, 0), (5, 0, 0)]), 2: (0, [(9, 0, 0)])}
    data = replace(attack_evidence.make_trajectories(trips, grid_s=1), day=np.array([3, 4]))
    for first, end, days in ((None, 1, [3]), (5, None, [3, 4]), (9, None, [4]), (0, 9, [3]), (10, None, [])):
        chosen = select_slots(data, first, end)
        assert chosen.day.tolist() == days
        assert len(chosen.trajectory_id) == len(chosen.subject) == len(chosen.offset) - 1 == len(days)
