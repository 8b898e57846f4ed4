"""From trajectories and cells to rows, what is left out of them, and how fine they are."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.base.cloaks import Atoms, Cloaks, Regions, count_by_hour, summarise_sides
from dbanon.base.errors import InfeasibleError, ParameterError
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.base.trajectory import Cells, Int, Trajectories
from dbanon.methods.kernels import align
from dbanon.methods.kernels.in_run_time import mark_in_run_time, select_in_run_time
from dbanon.methods.kernels.order import rank_subjects
from dbanon.methods.semantic import Parameters, _atoms, _graph, _groups, _losses, _points
from dbanon.methods.semantic._atoms import City
from dbanon.methods.semantic._groups import Group
from dbanon.methods.semantic._points import COARSE, PUBLISHED, STATES, Units


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """The rows of groups, each once."""

    offset: Int  # [g + 1]: rows of group i are ``[offset[i], offset[i + 1])``
    start: Int  # [c]; start, end: slots, half-open
    end: Int  # [c]
    region: Int  # [c]: index of the region
    cell_offset: Int  # [r + 1]: the cells of region i are ``cell[cell_offset[i]:cell_offset[i + 1]]``, ascending
    cell: Int  # []


@dataclass(frozen=True, kw_only=True, eq=False)
class Made:
    """What an algorithm makes."""

    units: Units
    groups: list[Group]
    rows: Rows
    atom: Int | None  # [c]: of each cell
    figures: Mapping[str, float]  # of atoms


def compute_cloaks(
    data: Trajectories,
    params: Parameters,
    rng: np.random.Generator,
    algorithm: str,
    cells: Cells,
    tasks: Tasks = SERIAL_TASKS,
) -> Cloaks:
    """Merge trajectories of atoms; see `dbanon.methods.semantic.anonymise`."""
    rank = rank_subjects(data, rng)
    cell = cells.fix_cell[mark_in_run_time("semantic", data, params.since, params.until)]
    data = select_in_run_time("semantic", data, params.since, params.until)
    align.demand_sane_times(data)
    made = ALGORITHMS[algorithm](data, cell, rank, params, cells, tasks)
    rows = _drop_coarse_rows(made.rows, cells, params, data.grid_s)
    if not len(rows.start):
        raise InfeasibleError(
            "A run of semantic must leave some rows to publish. All are longer than suppress_span_s or larger than "
            "suppress_area_km2. Raise them."
        )
    return _make_cloaks(data, cells, dataclasses.replace(made, rows=rows))


def collapse_fixes(data: Trajectories, place: Int, rank: Int, params: Parameters) -> Units:
    """Collapse fixes to stays; raises `InfeasibleError` if there are fewer than k people.

    `place` (int64[m]): the atom of each fix; -1 outside all cells.
    """
    units = _points.build_units(data, place, rank, params.gap_s, params.min_cells) if data.fixes else None
    people = len(np.unique(units.subject)) if units else 0
    if units is None or people < params.k:
        raise InfeasibleError(
            f"A run of semantic must have at least k = {params.k} people with fixes in {params.min_cells} or more "
            f"atoms. Got {people}. Choose a lower k or min_cells, another since or until, or load cells where "
            f"trajectories are."
        )
    return units


def _merge_by_atoms(data: Trajectories, cell: Int, rank: Int, params: Parameters, cells: Cells, tasks: Tasks) -> Made:
    _graph.build_graph(cells, params)  # the city must hold what regions are to have, too
    graph = _graph.build_graph(cells, _make_atom_params(params))
    city = _atoms.build_city(cells, graph, is_new=params.new_atoms)
    units = collapse_fixes(data, np.where(cell >= 0, city.atom[cell], -1), rank, params)
    groups = _groups.form_groups(units, city.area, _losses.make_scale(params, data.grid_s), params.k, tasks)
    return Made(
        units=units,
        groups=groups,
        rows=_flatten_rows(groups, city, params),
        atom=city.atom,
        figures=_atoms.measure_atoms(city, graph),
    )


def _make_atom_params(params: Parameters) -> Parameters:
    """Give the parameters with the l and t that an atom must have."""
    least = params.l if params.atom_l is None else params.atom_l
    most = params.t if params.atom_t is None else params.atom_t
    if least > params.l or most < params.t:
        raise ParameterError(
            "The atoms of a run of semantic must have at most l categories, and a divergence of at least t. "
            f"Got atom_l = {least} and atom_t = {most:g} with l = {params.l} and t = {params.t:g}."
        )
    return dataclasses.replace(params, l=least, t=most)


ALGORITHMS: dict[str, Callable[[Trajectories, Int, Int, Parameters, Cells, Tasks], Made]] = {"atoms": _merge_by_atoms}


def prepare(params: Parameters, algorithm: str) -> None:
    """Publish a dozen made-up people in a dozen cells: what is compiled is what a run needs, for its types."""
    side, people, fixes = 4, 7, 6
    number = np.arange(side * side)
    right, up = number[number % side < side - 1], number[:-side]
    cells = Cells(
        cell_id=number + 1,
        area_m2=np.full(side * side, 1e6),
        categories=("a", "b"),
        pois=np.stack([1 + number % 3, 1 + number // side], axis=1),
        neighbours=np.concatenate([np.stack([right, right + 1], axis=1), np.stack([up, up + side], axis=1)]),
        fix_cell=(np.repeat(np.arange(people) * 3, fixes) + np.tile(np.arange(fixes), people)) % (side * side),
    )
    data = Trajectories(
        trajectory_id=np.arange(people), subject=np.arange(people), offset=np.arange(people + 1) * fixes,
        t=np.tile(np.arange(fixes) * 60.0, people) + np.repeat(np.arange(people) * 7.0, fixes),
        x=np.zeros(people * fixes), y=np.zeros(people * fixes), srid=0, grid_m=1.0, grid_s=1,
    )  # fmt: skip
    few = dataclasses.replace(
        params, k=min(params.k, 3), l=min(params.l, 2), since=None, until=None, min_cells=1, suppress_span_s=None,
        suppress_area_km2=None,
    )  # fmt: skip
    compute_cloaks(data, few, np.random.default_rng(0), algorithm, cells)
    units = _points.build_units(data, cells.fix_cell, np.arange(people), few.gap_s, 1)
    _groups.prepare(units, np.rint(cells.area_m2 * _graph.MM2_PER_M2).astype(np.int64), _losses.make_scale(few, 1))


# ---- rows ------------------------------------------------------------------------------------------------------------


def _flatten_rows(groups: list[Group], city: City, params: Parameters) -> Rows:
    """Put the rows of all groups in one place, each distinct region once."""
    tracks = [group.track for group in groups]
    number: dict[bytes, int] = {}
    region: list[int] = []
    visited: list[NDArray[np.int32]] = []
    for track in tracks:
        for low, high in pairwise(track.first.tolist()):
            own = track.atom[low:high]
            at = number.setdefault(own.tobytes(), len(number))
            if at == len(visited):
                visited.append(own)
            region.append(at)
    cells = [city.list_cells(_atoms.grow_region(city, own, params)) for own in visited]
    return Rows(
        offset=np.concatenate([[0], np.cumsum([len(track.start) for track in tracks])]).astype(np.int64),
        start=np.concatenate([track.start for track in tracks]),
        end=np.concatenate([track.end for track in tracks]),
        region=np.array(region, np.int64),
        cell_offset=np.concatenate([[0], np.cumsum([len(own) for own in cells])]).astype(np.int64),
        cell=np.concatenate(cells),
    )


def _drop_coarse_rows(rows: Rows, cells: Cells, params: Parameters, grid_s: int) -> Rows:
    """Leave out the rows that are longer or larger than the run allows."""
    span_s = (rows.end - rows.start) * grid_s
    own = np.rint(cells.area_m2 * _graph.MM2_PER_M2).astype(np.int64)  # whole numbers: the same sum in whatever order
    area = np.add.reduceat(own[rows.cell], rows.cell_offset[:-1])[rows.region] / _graph.MM2_PER_M2
    kept = np.ones(len(span_s), bool)
    if params.suppress_span_s is not None:
        kept &= span_s <= params.suppress_span_s
    if params.suppress_area_km2 is not None:
        kept &= area <= params.suppress_area_km2 * 1e6
    if kept.all():
        return rows
    return dataclasses.replace(
        rows,
        offset=np.concatenate([[0], np.cumsum(kept)])[rows.offset],
        start=rows.start[kept],
        end=rows.end[kept],
        region=rows.region[kept],
    )


def _find_groups(units: Units, groups: list[Group]) -> Int:
    """Give the group of each unit."""
    own = np.full(len(units), -1, np.int64)
    for number, group in enumerate(groups):
        own[group.units] = number
    return own


def _find_rows(units: Units, group: Int, rows: Rows, slot: Int) -> Int:
    """Find the row of its group that holds each fix: int64[m]; -1 where none does."""
    low = int(rows.start.min(initial=0))
    wide = int(max(rows.end.max(initial=0), slot.max(initial=0) + 1)) - low + 1
    begins = np.repeat(np.arange(len(rows.offset) - 1), np.diff(rows.offset)) * wide + rows.start - low
    own = np.where(units.of_fix >= 0, group[units.of_fix], -1)
    at = np.searchsorted(begins, own * wide + slot - low, side="right") - 1
    there = (own >= 0) & (at >= 0)
    there[there] &= (begins[at[there]] // wide == own[there]) & (slot[there] < rows.end[at[there]])
    return np.where(there, at, -1)


def _make_cloaks(data: Trajectories, cells: Cells, made: Made) -> Cloaks:
    """Make a record of each unit, with the rows of its group."""
    units, groups, rows = made.units, made.groups, made.rows
    group = _find_groups(units, groups)
    slot = np.floor(data.t / data.grid_s).astype(np.int64)
    state = units.state.copy()
    state[(state == PUBLISHED) & (_find_rows(units, group, rows, slot) < 0)] = COARSE
    people = np.array([len(one.people) for one in groups], np.int64)
    length = np.diff(rows.offset)
    published = np.flatnonzero(length > 0)
    of_record = np.repeat(published, [len(groups[number].units) for number in published])
    row = _number_ranges(rows.offset[of_record], length[of_record])
    crowd = np.repeat(people, length)
    pair, region = np.unique(np.stack([rows.region, crowd]), axis=1, return_inverse=True)
    period, when = np.unique(np.stack([rows.start, rows.end], axis=1), axis=0, return_inverse=True)
    region, when = region.reshape(-1), when.reshape(-1)
    size = np.diff(rows.cell_offset)[pair[0]]
    number = (_count_pois(rows, cells) > 0).sum(axis=1)[pair[0]]
    distinct, extra = np.unique(number, return_inverse=True)
    own = np.where(units.of_trajectory >= 0, group[units.of_trajectory], -1)
    order = np.argsort(own, kind="stable")
    first = np.searchsorted(own[order], np.arange(len(groups) + 1))
    members = np.diff(first)[of_record]
    return Cloaks(
        offset=np.concatenate([[0], np.cumsum(length[of_record])]),
        region=region[row].astype(np.int32),
        period=when[row].astype(np.min_scalar_type(max(len(period) - 1, 0))),
        regions=Regions(
            crowd=pair[1].astype(np.int32),
            subjects=np.ones(len(size), np.int32),
            cell_offset=np.concatenate([[0], np.cumsum(size)]),
            cell=cells.cell_id[rows.cell[_number_ranges(rows.cell_offset[pair[0]], size)]],
            extra=extra.reshape(-1).astype(np.int32),
            extras=tuple(f'{{"categories": {one}}}' for one in distinct.tolist()),
        ),
        periods=period * data.grid_s,
        member_record=np.repeat(np.arange(1, len(of_record) + 1), members),
        member_trajectory=data.trajectory_id[order[_number_ranges(first[of_record], members)]],
        suppressed=_count_suppressed(data, slot, state),
        metrics=_compute_metrics(cells, data.grid_s, made, row, state, len(published)),
        atoms=None if made.atom is None else Atoms(cell=cells.cell_id, atom=made.atom),
    )


def _number_ranges(first: Int, length: Int) -> Int:
    """Number the items of ranges, one range after another."""
    ends = np.cumsum(length)
    return np.repeat(first - (ends - length), length) + np.arange(ends[-1] if len(ends) else 0)


def _count_suppressed(data: Trajectories, slot: Int, state: NDArray[np.uint8]) -> dict[str, Any]:
    """Count the fixes left out by reason, and the people, in all and by hour, of whom none is published."""
    person = np.repeat(data.subject, np.diff(data.offset))
    order = np.lexsort((data.t, person))
    _, first = np.unique(person[order], return_index=True)
    out = _find_reasons(state[order], first)
    hour = slot * data.grid_s // 3600
    order = np.lexsort((data.t, person, hour))
    hours, visit = hour[order], person[order]
    begins = np.flatnonzero(np.diff(hours, prepend=hours[:1] - 1) | np.diff(visit, prepend=visit[:1] - 1))
    there, at = np.unique(hours[begins], return_inverse=True)
    by_reason = _find_reasons(state[order], begins)
    counted = [np.bincount(at[by_reason == code], minlength=len(there)) for code in range(len(STATES))]
    return {
        "fixes": {name: int((state == code).sum()) for code, name in enumerate(STATES) if code},
        "subjects": {name: int((out == code).sum()) for code, name in enumerate(STATES) if code},
        "by_hour": count_by_hour(
            there * 3600,
            np.bincount(at, minlength=len(there)),
            counted[PUBLISHED],
            {name: counted[code] for code, name in enumerate(STATES) if code},
        ),
    }


def _find_reasons(state: NDArray[np.uint8], first: Int) -> NDArray[np.uint8]:
    """Say of each stretch of fixes whether one is published, else what became of the first."""
    return np.where(np.logical_or.reduceat(state == PUBLISHED, first), PUBLISHED, state[first])


# ---- figures ---------------------------------------------------------------------------------------------------------


def _count_pois(rows: Rows, cells: Cells) -> Int:
    """Count the points of interest of each region: int64[r, q]."""
    return np.asarray(np.add.reduceat(cells.pois[rows.cell], rows.cell_offset[:-1], axis=0))


def _compute_metrics(
    cells: Cells, grid_s: int, made: Made, row: Int, state: NDArray[np.uint8], groups: int
) -> dict[str, float]:
    """Measure how fine rows are, and how far what lies in them is from the city."""
    rows, region = made.rows, made.rows.region[row]
    apart = _atoms.compute_divergences(_count_pois(rows, cells), cells.pois.sum(axis=0))[region]
    area = np.add.reduceat(cells.area_m2[rows.cell], rows.cell_offset[:-1])[region]
    sides = {}
    if cells.bounds is not None:
        box, first = cells.bounds[rows.cell], rows.cell_offset[:-1]
        spans = np.maximum.reduceat(box[:, 2:], first) - np.minimum.reduceat(box[:, :2], first)
        sides = summarise_sides(*spans[region].T)
    return {
        "groups": groups,
        "rows": len(row),
        "points": len(made.units.start),
        **made.figures,
        "suppressed_percent": 100 * float((state != PUBLISHED).mean()),
        **_summarise_values("kl", apart[np.isfinite(apart)]),
        "without_pois_percent": 100 * float(np.isinf(apart).mean()),
        **_summarise_values("space_m", np.sqrt(area)),
        **_summarise_values("time_s", ((rows.end - rows.start) * grid_s)[row]),
        **sides,
    }


def _summarise_values(name: str, values: Any) -> dict[str, float]:
    if not len(values):
        return {}
    quarter, half, three = np.quantile(values, [0.25, 0.5, 0.75])
    figures = {"mean": values.mean(), "quarter": quarter, "median": half, "three_quarters": three}
    return {f"{name}_{figure}": float(value) for figure, value in figures.items()}
