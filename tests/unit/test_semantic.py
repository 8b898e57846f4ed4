"""`semantic` on atoms: rows that lose least, groups of the paper's greedy, and nothing that depends on a cell."""

import dataclasses
import random
from dataclasses import replace
from itertools import pairwise, product
from math import inf

import numpy as np
import pytest

from dbanon.base.errors import InfeasibleError, ParameterError
from dbanon.base.tasks import SERIAL_TASKS
from dbanon.base.trajectory import Cells
from dbanon.methods import METHODS
from dbanon.methods.semantic import Parameters, _atoms, _graph, _groups, _optimum, _points
from dbanon.methods.semantic._losses import Scale
from tests.unit import plain_atoms as plain
from tests.unit.semantic_cases import Case, Loss, draw_case, list_in_order, make_cells, make_data

pytestmark = pytest.mark.usefixtures("short_search")

FAMILY = METHODS["semantic"]


def make_params(case: Case, **more: object) -> Parameters:
    return Parameters(
        k=case.k, l=case.l, t=case.t, gap_s=case.gap_slots, weight_time=case.loss.weight_time,
        full_loss_span_s=int(case.loss.span_slots) + 1, full_loss_area_km2=case.loss.area_mm2 / 1e12, **more,
    )  # fmt: skip


def list_fixes(rng: random.Random, case: Case) -> list[list[tuple[int, int]]]:
    """The fixes of each unit of a case: slot and place."""
    return [list(zip(slots, cells, strict=True)) for slots, cells in zip(case.slots, case.cells, strict=True)]


def scale_of(loss: Loss) -> Scale:
    """With the types that methods have, for which kernels are compiled already."""
    return Scale(loss.weight_time, float(loss.span_slots), float(loss.area_mm2))


def find_optimum(area, loss: Loss, members):
    fixes = [fix for own in members for fix in sorted(own, key=lambda fix: fix[0])]
    return _optimum.cut_rows(
        np.array(area, np.int64),
        scale_of(loss),
        np.concatenate([[0], np.cumsum([len(own) for own in members])]),
        np.array([slot for slot, _ in fixes], np.int64),
        np.array([atom for _, atom in fixes], np.int32),
    )


def list_rows(track):
    atoms = [frozenset(own.tolist()) for own in np.split(track.atom, track.first[1:-1])]
    return list(zip(track.start.tolist(), track.end.tolist(), atoms, strict=True))


def build_units(case: Case):
    """Give the units of a case as a run has them."""
    who = np.arange(max(case.subjects) + 1)
    return _points.build_units(make_data(case), np.concatenate(case.cells), who, case.gap_slots, 1)


def find_tracks(case: Case):
    return [plain.find_stays(*both, case.gap_slots) for both in zip(case.slots, case.cells, strict=True)]


@pytest.mark.many
@pytest.mark.parametrize("low", range(0, 400, 100))
def test_rows_are_the_cut_that_loses_least(low):
    for seed in range(low, low + 100):
        rng, case = random.Random(seed), draw_case(seed, most_points=12)
        members = list_fixes(rng, case)[: rng.randint(1, 4)]
        rows = list_rows(find_optimum(case.area, case.loss, members))
        cost = sum(plain.compute_row_cost(case.area, case.loss, members, start, end) for start, end, _ in rows)
        assert cost == pytest.approx(plain.find_least_cost(case.area, case.loss, members), abs=1e-9), seed
        assert all(end <= start for (_, end, _), (start, _, _) in pairwise(rows))
        held = [
            [(slot, atom) for own in members for slot, atom in own if start <= slot < end] for start, end, _ in rows
        ]
        assert sum(map(len, held)) == sum(map(len, members))
        for (start, end, atoms), fixes in zip(rows, held, strict=True):
            assert atoms == {atom for _, atom in fixes}
            assert (start, end) == (min(slot for slot, _ in fixes), max(slot for slot, _ in fixes) + 1)


def test_rows_do_not_depend_on_the_order_of_members():
    for seed in range(60):
        case = draw_case(seed)
        members = list_fixes(random.Random(seed), case)[:3]
        assert list_rows(find_optimum(case.area, case.loss, members)) == list_rows(
            find_optimum(case.area, case.loss, members[::-1])
        )


def test_groups_are_those_of_the_plain_algorithm(cases):
    for seed in cases(300):
        case = list_in_order(draw_case(seed))
        fixes = list_fixes(random.Random(seed), case)
        found = _groups.form_groups(build_units(case), np.array(case.area, np.int64), scale_of(case.loss), case.k)

        def merged(group, fixes=fixes, case=case):
            return list_rows(find_optimum(case.area, case.loss, [fixes[unit] for unit in group]))

        due = plain.merge_greedily(case.area, case.loss, find_tracks(case), case.subjects, case.k, merged)
        assert sorted(sorted(one.units) for one in found) == due, seed
        for group in found:
            assert list_rows(group.track) == merged(group.units), seed


def test_of_many_units_pairs_are_looked_for_among_candidates_and_all_are_grouped(cases, monkeypatch):
    monkeypatch.setattr(_groups, "MAX_ALL_PAIRS_GROUPS", 3)
    monkeypatch.setattr(_groups, "CANDIDATES_PER_UNIT", 2)
    for seed in cases(60):
        case = list_in_order(draw_case(seed))
        found = _groups.form_groups(build_units(case), np.array(case.area, np.int64), scale_of(case.loss), case.k)
        assert sorted(unit for one in found for unit in one.units) == list(range(len(case.subjects)))
        assert all(len({case.subjects[unit] for unit in one.units}) >= case.k for one in found)


def test_candidates_lose_as_little_as_the_best_of_all_others_of_other_people(cases, monkeypatch):
    """Trajectories of few points are compared by all of them, so the candidates are the very best."""
    monkeypatch.setattr(_groups, "CANDIDATES_PER_UNIT", 2)
    for seed in cases(60):
        case = list_in_order(draw_case(seed))
        scale = scale_of(case.loss)
        grouping = _groups._Grouping(build_units(case), np.array(case.area, np.int64), scale, 2, SERIAL_TASKS)
        tracks, everybody = find_tracks(case), range(len(case.subjects))
        lost = {
            (i, j): plain.merge_loss(case.area, case.loss, tracks[min(i, j)], tracks[max(i, j)], 1, 1)
            for i, j in product(everybody, repeat=2)
            if case.subjects[i] != case.subjects[j]
        }
        pairs = list(zip(*(side.tolist() for side in grouping.find_candidates(np.arange(len(tracks)))), strict=True))
        for i in everybody:
            least = sorted(loss for (one, _), loss in lost.items() if one == i)[:2]
            found = sorted(lost[i, a + b - i] for a, b in pairs if i in {a, b})
            assert found[: len(least)] == pytest.approx(least), seed
        assert all((a, b) in lost for a, b in pairs)
        assert len(pairs) <= 2 * len(everybody)


# ---- the whole family ------------------------------------------------------------------------------------------------


def compute_cloaks(case: Case, cells: Cells, **more: object):
    return FAMILY.anonymise(make_data(case), "atoms", make_params(case, **more), np.random.default_rng(3), cells=cells)


def test_fixes_that_move_within_their_atoms_change_nothing(cases):
    moved = 0
    for seed in cases(80):
        case, rng = draw_case(seed, most_cells=25), np.random.default_rng(seed)
        cells = make_cells(case)
        asked = {"atom_l": case.l // 2, "atom_t": 2 * case.t} if seed % 2 else {}
        asked |= {"suppress_span_s": 3} if seed % 5 == 0 else {}
        asked |= {"min_cells": 2} if seed % 3 == 0 else {}
        try:
            first = compute_cloaks(case, cells, **asked)
        except InfeasibleError:
            continue
        atom = first.atoms.atom
        others = np.array([rng.choice(np.flatnonzero(atom == atom[cell])) for cell in cells.fix_cell])
        moved += int((others != cells.fix_cell).sum())
        second = compute_cloaks(case, replace(cells, fix_cell=others), **asked)
        for field in dataclasses.fields(first):
            one, other = getattr(first, field.name), getattr(second, field.name)
            same = vars(one).keys() == vars(other).keys() if dataclasses.is_dataclass(one) else True
            assert same
            for a, b in (
                zip(vars(one).values(), vars(other).values(), strict=True)
                if dataclasses.is_dataclass(one)
                else [(one, other)]
            ):
                assert np.array_equal(a, b), (seed, field.name)
    assert moved > 2 * len(cases(80))


def test_a_region_is_the_atoms_that_its_fixes_are_in(cases):
    for seed in cases(50):
        case = draw_case(seed)
        cells = make_cells(case)
        cloaks = compute_cloaks(case, cells)
        atom = cloaks.atoms.atom
        for region in np.split(cloaks.regions.cell, cloaks.regions.cell_offset[1:-1]):
            held = np.flatnonzero(np.isin(cells.cell_id, region))
            assert np.array_equal(held, np.flatnonzero(np.isin(atom, atom[held])))
        assert np.array_equal(cloaks.atoms.cell, cells.cell_id)


def test_atoms_of_less_are_grown_to_what_is_asked_by_what_was_visited_alone(cases):
    grew = 0
    for seed in cases(200):
        case = draw_case(seed)
        if case.l == 0 and case.t == inf:
            continue
        cells = make_cells(case)
        cloaks = compute_cloaks(case, cells, atom_l=0, atom_t=inf)
        total = cells.pois.sum(axis=0)
        for region in np.split(cloaks.regions.cell, cloaks.regions.cell_offset[1:-1]):
            count = cells.pois[np.isin(cells.cell_id, region)].sum(axis=0)
            assert (count > 0).sum() >= case.l
            assert _atoms.compute_divergences(count[None], total)[0] <= case.t + 1e-9
        city = _atoms.build_city(cells, _graph.build_graph(cells, Parameters(l=0, t=inf)), is_new=False)
        assert len(city) == len(cells.cell_id)
        for one in range(len(city)):
            own = np.array([one])
            grew += len(_atoms.grow_region(city, own, make_params(case))) > 1
    assert grew > len(cases(200)) // 3


def test_atoms_that_were_published_are_taken_again_and_cut_anew_when_asked(cases):
    for seed in cases(30):
        case = draw_case(seed)
        cells = make_cells(case)
        whole = np.zeros(len(cells.cell_id), np.int64)
        assert not compute_cloaks(case, replace(cells, atom=whole)).atoms.atom.any()
        fresh = compute_cloaks(case, cells).atoms.atom
        assert np.array_equal(compute_cloaks(case, replace(cells, atom=whole), new_atoms=True).atoms.atom, fresh)
        assert np.array_equal(compute_cloaks(case, replace(cells, atom=fresh)).atoms.atom, fresh)


def test_atoms_must_not_promise_more_than_regions():
    case = draw_case(1)
    with pytest.raises(ParameterError, match="atom_l = 4"):
        compute_cloaks(replace(case, l=1, t=inf), make_cells(case), atom_l=4)
    with pytest.raises(ParameterError, match=r"atom_t = 0\.1 with l = 1 and t = 0\.5"):
        compute_cloaks(replace(case, l=1, t=0.5), make_cells(case), atom_t=0.1)


def test_a_region_on_an_island_is_grown_by_atoms_elsewhere():
    case = replace(
        draw_case(1), neighbours={0: {1}, 1: {0}, 2: {3}, 3: {2}}, area=[1, 1, 1, 1], l=3, t=inf, k=1,
        pois=[[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]], subjects=[0], slots=[[0, 1]], cells=[[0, 1]],
    )  # fmt: skip
    cloaks = compute_cloaks(case, make_cells(case), atom_l=1, atom_t=inf)
    assert cloaks.regions.cell[-1] in (16, 19)
    with pytest.raises(InfeasibleError, match="4 categories"):
        compute_cloaks(replace(case, l=4), make_cells(case), atom_l=1, atom_t=inf)


def test_fewer_than_k_subjects_are_told_what_to_do():
    case = draw_case(1)
    with pytest.raises(InfeasibleError, match="in 1 or more atoms"):
        compute_cloaks(replace(case, k=100), make_cells(case))
