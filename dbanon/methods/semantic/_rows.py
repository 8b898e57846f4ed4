"""From trajectories and cells to rows, what is left out of them, and how fine they are."""

# ruff: noqa: PLR0917 - what rows are made of

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.base.cloaks import Cloaks, Regions, by_hour
from dbanon.base.errors import InfeasibleError
from dbanon.base.trajectory import Cells, Float, Int, Trajectories
from dbanon.methods.kernels import align
from dbanon.methods.kernels.considered import considered, kept
from dbanon.methods.kernels.order import run_order
from dbanon.methods.semantic import Parameters, _graph, _groups, _losses, _points
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


ALGORITHMS: dict[str, Callable[[Units, Cells, Parameters, float], tuple[list[Any], Rows]]] = {}
"""What takes the place of `_groups`, by name: benchmarks/papers/semantic adds the paper's."""


def publish(data: Trajectories, params: Parameters, rng: np.random.Generator, cells: Cells) -> Cloaks:
    """Merge trajectories of cells; see `dbanon.methods.semantic.anonymise`."""
    rank = run_order(data, rng)
    known = _graph.graph(cells, params)
    cell = cells.fix_cell[kept("semantic", data, params.since, params.until)]
    data = considered("semantic", data, params.since, params.until)
    align.demand_sane_times(data)
    units = _points.units(data, cell, rank, params.gap_s, params.min_cells) if data.fixes else None
    people = len(np.unique(units.subject)) if units else 0
    if units is None or people < params.k:
        raise InfeasibleError(
            f"A run of semantic must have at least k = {params.k} subjects with fixes in {params.min_cells} or more "
            f"cells. Got {people}; choose a lower k or min_cells, another since or until, or load cells where "
            "trajectories are."
        )
    scale = _losses.scale(params, data.grid_s)
    seeds = rng.integers(0, 1 << 62, len(units)) if params.improve else None
    if "merge" in ALGORITHMS:
        groups, rows = ALGORITHMS["merge"](units, cells, params, data.grid_s)
    else:
        groups = _groups.groups(units, known, scale, params.k, improve=seeds)
        rows = _flat(groups)
    rows = _fine(rows, cells, params, data.grid_s)
    if not len(rows.start):
        raise InfeasibleError(
            "A run of semantic must leave some rows to publish. All are longer than suppress_span_s or larger than "
            "suppress_area_km2; raise them."
        )
    return cloaks(data, cells, params, units, groups, rows)


def prepare(params: Parameters) -> None:
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
        overlap_m2=0.0,
    )
    data = Trajectories(
        trajectory_id=np.arange(people),
        subject=np.arange(people),
        offset=np.arange(people + 1) * fixes,
        t=np.tile(np.arange(fixes) * 60.0, people) + np.repeat(np.arange(people) * 7.0, fixes),
        x=np.zeros(people * fixes),
        y=np.zeros(people * fixes),
        srid=0,
        grid_m=1.0,
        grid_s=1,
    )
    few = dataclasses.replace(
        params, k=min(params.k, 3), l=min(params.l, 2), since=None, until=None, min_cells=1, suppress_span_s=None,
        suppress_area_km2=None,
    )  # fmt: skip
    publish(data, few, np.random.default_rng(0), cells)
    units = _points.units(data, cells.fix_cell, np.arange(people), few.gap_s, 1)
    _groups.prepare(units, _graph.graph(cells, few), _losses.scale(few, 1))


# ---- rows ------------------------------------------------------------------------------------------------------------


def _flat(groups: list[Group]) -> Rows:
    """Put the rows of all groups in one place, each distinct region once."""
    tracks = [group.rows for group in groups]
    number: dict[bytes, int] = {}
    region: list[int] = []
    cells: list[NDArray[np.int32]] = []
    for track in tracks:
        for low, high in zip(track.offset[:-1].tolist(), track.offset[1:].tolist(), strict=True):
            own = track.cell[low:high]
            at = number.setdefault(own.tobytes(), len(number))
            if at == len(cells):
                cells.append(own)
            region.append(at)
    return Rows(
        offset=np.concatenate([[0], np.cumsum([len(track) for track in tracks])]).astype(np.int64),
        start=np.concatenate([track.start for track in tracks]),
        end=np.concatenate([track.end for track in tracks]),
        region=np.array(region, np.int64),
        cell_offset=np.concatenate([[0], np.cumsum([len(own) for own in cells])]).astype(np.int64),
        cell=np.concatenate(cells).astype(np.int64),
    )


def _fine(rows: Rows, cells: Cells, params: Parameters, grid_s: int) -> Rows:
    """Leave out the rows that are longer or larger than the run allows."""
    span_s = (rows.end - rows.start) * grid_s
    own = np.rint(cells.area_m2 * _graph.MM2).astype(np.int64)  # whole numbers: the same sum in whatever order
    area = np.add.reduceat(own[rows.cell], rows.cell_offset[:-1])[rows.region] / _graph.MM2
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


def _group_of(units: Units, groups: list[Group]) -> Int:
    """Give the group of each unit."""
    own = np.full(len(units), -1, np.int64)
    for number, group in enumerate(groups):
        own[group.units] = number
    return own


def _row_of(units: Units, group: Int, rows: Rows, slot: Int) -> Int:
    """Find the row of its group that holds each fix: int64[m]; -1 where none does."""
    low = int(rows.start.min(initial=0))
    wide = int(max(rows.end.max(initial=0), slot.max(initial=0) + 1)) - low + 1
    begins = np.repeat(np.arange(len(rows.offset) - 1), np.diff(rows.offset)) * wide + rows.start - low
    own = np.where(units.of_fix >= 0, group[units.of_fix], -1)
    at = np.searchsorted(begins, own * wide + slot - low, side="right") - 1
    there = (own >= 0) & (at >= 0)
    there[there] &= (begins[at[there]] // wide == own[there]) & (slot[there] < rows.end[at[there]])
    return np.where(there, at, -1)


def cloaks(
    data: Trajectories, cells: Cells, params: Parameters, units: Units, groups: list[Group], rows: Rows
) -> Cloaks:
    """Make a record of each unit, with the rows of its group."""
    group = _group_of(units, groups)
    slot = np.floor(data.t / data.grid_s).astype(np.int64)
    state = units.state.copy()
    state[(state == PUBLISHED) & (_row_of(units, group, rows, slot) < 0)] = COARSE
    people = np.array([len(one.people) for one in groups], np.int64)
    length = np.diff(rows.offset)
    published = np.flatnonzero(length > 0)
    of_record = np.repeat(published, [len(groups[number].units) for number in published])
    row = _ranges(rows.offset[of_record], length[of_record])
    crowd = np.repeat(people, length)
    pair, region = np.unique(np.stack([rows.region, crowd]), axis=1, return_inverse=True)
    period, when = np.unique(np.stack([rows.start, rows.end], axis=1), axis=0, return_inverse=True)
    region, when = region.reshape(-1), when.reshape(-1)
    size = np.diff(rows.cell_offset)[pair[0]]
    number = (_counts(rows, cells) > 0).sum(axis=1)[pair[0]]
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
            cell=cells.cell_id[rows.cell[_ranges(rows.cell_offset[pair[0]], size)]],
            extra=extra.reshape(-1).astype(np.int32),
            extras=tuple(f'{{"categories": {one}}}' for one in distinct.tolist()),
        ),
        periods=period * data.grid_s,
        member_record=np.repeat(np.arange(1, len(of_record) + 1), members),
        member_trajectory=data.trajectory_id[order[_ranges(first[of_record], members)]],
        suppressed=_suppressed(data, slot, state),
        metrics=_metrics(cells, params, data.grid_s, units, rows, row, state, len(published)),
    )


def _ranges(first: Int, length: Int) -> Int:
    """Number the items of ranges, one range after another."""
    ends = np.cumsum(length)
    return np.repeat(first - (ends - length), length) + np.arange(ends[-1] if len(ends) else 0)


def _suppressed(data: Trajectories, slot: Int, state: NDArray[np.uint8]) -> dict[str, Any]:
    """Count the fixes left out by reason, and the people, in all and by hour, of whom none is published."""
    person = np.repeat(data.subject, np.diff(data.offset))
    order = np.lexsort((data.t, person))
    _, first = np.unique(person[order], return_index=True)
    out = _reasons(state[order], first)
    hour = slot * data.grid_s // 3600
    order = np.lexsort((data.t, person, hour))
    hours, visit = hour[order], person[order]
    begins = np.flatnonzero(np.diff(hours, prepend=hours[:1] - 1) | np.diff(visit, prepend=visit[:1] - 1))
    there, at = np.unique(hours[begins], return_inverse=True)
    by_reason = _reasons(state[order], begins)
    counted = [np.bincount(at[by_reason == code], minlength=len(there)) for code in range(len(STATES))]
    return {
        "fixes": {name: int((state == code).sum()) for code, name in enumerate(STATES) if code},
        "subjects": {name: int((out == code).sum()) for code, name in enumerate(STATES) if code},
        "by_hour": by_hour(
            there * 3600,
            np.bincount(at, minlength=len(there)),
            counted[PUBLISHED],
            {name: counted[code] for code, name in enumerate(STATES) if code},
        ),
    }


def _reasons(state: NDArray[np.uint8], first: Int) -> NDArray[np.uint8]:
    """Say of each stretch of fixes whether one is published, else what became of the first."""
    return np.where(np.logical_or.reduceat(state == PUBLISHED, first), PUBLISHED, state[first])


# ---- figures ---------------------------------------------------------------------------------------------------------


def _counts(rows: Rows, cells: Cells) -> Int:
    """Count the points of interest of each region: int64[r, q]."""
    return np.asarray(np.add.reduceat(cells.pois[rows.cell], rows.cell_offset[:-1], axis=0))


def divergences(count: Int, total: Int) -> Float:
    """Kullback-Leibler divergence of the city's shares from those of regions, in nats; infinite without any point.

    Parameters
    ----------
    count : int64[r, q]
    total : int64[q]
    """
    number = count.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = count / number[:, None]
        terms = np.where(count > 0, share * np.log(share / (total / total.sum())), 0.0)
    return np.where(number > 0, terms.sum(axis=1), np.inf)


def _metrics(
    cells: Cells, params: Parameters, grid_s: int, units: Units, rows: Rows, row: Int, state: NDArray[np.uint8],
    groups: int,
) -> dict[str, float]:  # fmt: skip
    """Measure how fine rows are, and what they say of places, beside the points they are made of."""
    count, total = _counts(rows, cells), cells.pois.sum(axis=0)
    area = np.add.reduceat(cells.area_m2[rows.cell], rows.cell_offset[:-1])
    span_s = (rows.end - rows.start) * grid_s
    region, apart = rows.region[row], divergences(count, total)
    raw = divergences(cells.pois, total)[units.region]
    reveals = ((count > 0).sum(axis=1) < params.l) | (apart > params.t + 1e-9)
    raw_reveals = ((cells.pois > 0).sum(axis=1)[units.region] < params.l) | (raw > params.t + 1e-9)
    side = np.sqrt(area)[region]
    return {
        "groups": groups,
        "rows": len(row),
        "points": len(units.start),
        "suppressed_percent": 100 * float((state != PUBLISHED).mean()),
        **_spread("raw_kl", raw[np.isfinite(raw)]),
        **_spread("kl", apart[region][np.isfinite(apart[region])]),
        "raw_without_pois_percent": 100 * float(np.isinf(raw).mean()),
        "without_pois_percent": 100 * float(np.isinf(apart[region]).mean()),
        "raw_revealing_percent": 100 * float(raw_reveals.mean()),
        "revealing_percent": 100 * float(reveals[region].mean()),
        **_spread("raw_space_m", np.sqrt(cells.area_m2)[units.region]),
        **_spread("space_m", side),
        **_spread("raw_time_s", (units.end - units.start) * grid_s),
        **_spread("time_s", span_s[row]),
        "median_cloak_side_m": float(np.median(side)),
    }


def _spread(name: str, values: Any) -> dict[str, float]:
    if not len(values):
        return {}
    quarter, half, three = np.quantile(values, [0.25, 0.5, 0.75])
    figures = {"mean": values.mean(), "quarter": quarter, "median": half, "three_quarters": three}
    return {f"{name}_{figure}": float(value) for figure, value in figures.items()}
