"""The kernels of the paper's semantic against the plain algorithm, on random cities and walks."""

import numpy as np
import pytest

from benchmarks.papers.semantic import greedy, growth, merger
from benchmarks.papers.semantic.loss import Scale
from dbanon.methods.semantic import Parameters, _graph, _points
from tests.papers import plain_semantic as plain
from tests.papers.plain_semantic import PaperCase, draw_case
from tests.unit.semantic_cases import list_in_order, make_cells, make_data


def compute_case(case: PaperCase) -> list[tuple[list[int], list[plain.Point]]]:
    """What the kernels make of a case, in the terms of the plain algorithm."""
    graph = _graph.build_graph(make_cells(case), Parameters(k=case.k, l=case.l, t=case.t))
    rank = np.arange(max(case.subjects) + 1)
    units = _points.build_units(make_data(case), np.concatenate(case.cells), rank, case.gap_slots, 1)
    scale = Scale(case.loss.weight_time, case.loss.span_slots, case.loss.area_mm2)
    made = []
    for group in greedy.merge_groups(units, graph, scale, case.k):
        track = group.track
        regions = [frozenset(own.tolist()) for own in np.split(track.cell, track.offset[1:-1])]
        rows = zip(track.start.tolist(), track.end.tolist(), regions, strict=True)
        made.append((sorted(group.units), [plain.Point(*row) for row in rows]))
    return made


@pytest.mark.parametrize("low", range(0, 400, 100))
def test_groups_and_rows_are_those_of_the_plain_algorithm(low):
    for seed in range(low, low + 100):
        case = list_in_order(draw_case(seed))
        due = plain.merge_greedily(case.graph, case.loss, case.trajectories, case.subjects, case.slots, case.k)
        assert compute_case(case) == due, seed


def test_of_many_units_pairs_are_looked_for_among_candidates_and_all_are_grouped(monkeypatch):
    monkeypatch.setattr(greedy, "MAX_ALL_PAIRS", 3)
    monkeypatch.setattr(greedy, "CANDIDATES_PER_UNIT", 2)
    for seed in range(60):
        case = list_in_order(draw_case(seed))
        found = compute_case(case)
        assert sorted(unit for units, _ in found for unit in units) == list(range(len(case.subjects)))
        assert all(len({case.subjects[unit] for unit in units}) >= case.k for units, _ in found)


def test_pools_that_get_full_change_nothing(monkeypatch):
    new, rooms = growth.make_pool, []
    cases = [list_in_order(draw_case(seed)) for seed in range(40)]
    due = [compute_case(case) for case in cases]

    def small(graph, room):
        rooms.append(room)
        made = new(graph, room)
        return made._replace(area=made.area[: len(graph.area) + room])

    monkeypatch.setattr(merger, "POOL_REGIONS", 4)
    monkeypatch.setattr(growth, "make_pool", small)
    assert [compute_case(case) for case in cases] == due
    assert max(rooms) > 4
