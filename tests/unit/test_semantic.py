"""The kernels of semantic against the plain algorithm, on random cities and walks."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dbanon.base.trajectory import Cells, Trajectories
from dbanon.methods.semantic import Parameters, _graph, _groups, _points, _regions, _tracks
from dbanon.methods.semantic._losses import Scale
from tests.unit import plain_semantic as plain
from tests.unit.semantic_cases import Case, case_at_random


def cells_of(case: Case) -> Cells:
    return Cells(
        cell_id=np.arange(len(case.area)),
        area_m2=np.array(case.area) / 1e6,
        categories=tuple("abcd"[: len(case.pois[0])]),
        pois=np.array(case.pois, np.int64),
        neighbours=np.array(case.edges, np.int64).reshape(-1, 2),
        fix_cell=np.concatenate(case.cells),
    )


def data_of(case: Case) -> Trajectories:
    """One trajectory a unit, all of one subject on different days; two fixes of a slot are parts of it apart."""
    slots = [np.array(slots, float) for slots in case.slots]
    t = [slot + np.arange(len(slot)) / (2 * len(slot)) for slot in slots]
    offset = np.concatenate([[0], np.cumsum([len(slot) for slot in slots])])
    return Trajectories(
        trajectory_id=np.arange(len(slots)), subject=np.array(case.subjects), offset=offset, t=np.concatenate(t),
        x=np.zeros(offset[-1]), y=np.zeros(offset[-1]), srid=0, grid_m=1.0, grid_s=1, day=np.arange(len(slots)),
    )  # fmt: skip


def in_order(case: Case) -> Case:
    """The units of a case by subject, as the order of a run has them."""
    order = sorted(range(len(case.subjects)), key=lambda unit: (case.subjects[unit], unit))
    taken = {name: [getattr(case, name)[unit] for unit in order] for name in ("subjects", "slots", "cells")}
    return replace(case, **taken)


def computed(case: Case, *, improve: bool = False) -> list[tuple[list[int], list[plain.Point]]]:
    """What the kernels make of a case, in the terms of the plain algorithm."""
    graph = _graph.graph(cells_of(case), Parameters(k=case.k, l=case.l, t=case.t))
    rank = np.arange(max(case.subjects) + 1)
    units = _points.units(data_of(case), np.concatenate(case.cells), rank, case.gap_slots, 1)
    found = _groups.groups(
        units,
        graph,
        Scale(case.loss.weight_time, case.loss.span_slots, case.loss.area_mm2),
        case.k,
        improve=np.random.default_rng(1).integers(0, 1 << 62, len(units)) if improve else None,
    )
    made = []
    for group in found:
        track = group.track
        regions = [
            frozenset(track.cell[a:b].tolist()) for a, b in zip(track.offset[:-1], track.offset[1:], strict=True)
        ]
        rows = zip(track.start.tolist(), track.end.tolist(), regions, strict=True)
        made.append((sorted(group.units), [plain.Point(*row) for row in rows]))
    return made


@pytest.mark.parametrize("low", range(0, 400, 100))
def test_groups_and_rows_are_those_of_the_plain_algorithm(low):
    for seed in range(low, low + 100):
        case = in_order(case_at_random(seed))
        due = plain.greedy(case.graph, case.loss, case.trajectories, case.subjects, case.slots, case.k)
        assert computed(case) == due, seed


def test_improved_rows_hold_the_same_fixes_in_no_longer_periods_and_no_larger_regions():
    smaller = 0
    for seed in range(150):
        case = in_order(case_at_random(seed))
        graph = case.graph
        for (units, rows), (same_units, improved) in zip(computed(case), computed(case, improve=True), strict=True):
            assert units == same_units
            for row, better in zip(rows, improved, strict=True):
                assert row.start <= better.start < better.end <= row.end
                assert plain.area(graph, better.region) <= plain.area(graph, row.region)
                for unit in units:
                    fixes = zip(case.slots[unit], case.cells[unit], strict=True)
                    held = {c for s, c in fixes if row.start <= s < row.end}
                    assert held <= better.region
                assert plain.categories(graph, better.region) >= case.l
                assert plain.kl(graph, better.region) <= case.t + plain.CLOSE
                assert in_one_piece(graph, better.region)
                smaller += plain.area(graph, better.region) < plain.area(graph, row.region)
    assert smaller > 25


def in_one_piece(graph: plain.Graph, region: frozenset[int]) -> bool:
    reached = set(sorted(region)[:1])
    while more := plain.around(graph, reached) & region:
        reached |= more
    return reached == region


def test_cells_that_a_smaller_region_does_not_need_seldom_hold_fixes():
    telling = 0
    for seed in range(300):
        case = in_order(case_at_random(seed))
        graph = case.graph
        for (units, rows), (_, improved) in zip(computed(case), computed(case, improve=True), strict=True):
            for row, better in zip(rows, improved, strict=True):
                if better.region == row.region or (case.l == 0 and case.t == math.inf):
                    continue
                held = {
                    cell for unit in units for slot, cell in zip(case.slots[unit], case.cells[unit], strict=True)
                    if row.start <= slot < row.end
                }  # fmt: skip
                rest = {cell: better.region - {cell} for cell in better.region}
                spare = {
                    cell for cell, others in rest.items() if others and in_one_piece(graph, others)
                    and plain.categories(graph, others) >= case.l and plain.kl(graph, others) <= case.t + plain.CLOSE
                }  # fmt: skip
                assert 3 * len(spare & held) <= len(spare - held)
                telling += bool(spare & held)
    assert telling > 2


def test_of_many_units_pairs_are_looked_for_among_candidates_and_all_are_grouped(monkeypatch):
    monkeypatch.setattr(_groups, "ALL_PAIRS", 3)
    monkeypatch.setattr(_groups, "CANDIDATES", 2)
    for seed in range(60):
        case = in_order(case_at_random(seed))
        found = computed(case)
        assert sorted(unit for units, _ in found for unit in units) == list(range(len(case.subjects)))
        assert all(len({case.subjects[unit] for unit in units}) >= case.k for units, _ in found)


def test_pools_that_get_full_change_nothing(monkeypatch):
    enlarged, calls = _regions.enlarged, []
    monkeypatch.setattr(_regions, "enlarged", lambda pool: calls.append(pool) or enlarged(pool))
    cases = [in_order(case_at_random(seed)) for seed in range(40)]
    due = [computed(case) for case in cases]
    assert not calls
    for name in ("_REGIONS", "_CELLS", "_PAIRS"):
        monkeypatch.setattr(_tracks, name, 4)
    assert [computed(case) for case in cases] == due
    assert len(calls) > 40
