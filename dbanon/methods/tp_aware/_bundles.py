"""From trajectories to bundles: who is in each window, and the cloaks of its groups."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.base import cores
from dbanon.base.cloaks import Cloaks, count_by_hour, summarise_sides
from dbanon.base.errors import DataError, InfeasibleError, format_count
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.base.trajectory import Float, Int, Int32, Trajectories
from dbanon.methods.kernels import align
from dbanon.methods.kernels.in_run_time import select_in_run_time
from dbanon.methods.kernels.instants import list_instants
from dbanon.methods.tp_aware import Parameters, _binary_us_tree, _blocks, _bound, _guests, _improve

MAX_WINDOWS = 100_000
MAX_LEVELS = 30

_MIN_POSITIONS_FOR_THREADS = 1 << 14
_THREADS_PER_WINDOW = 4  # that a window with so many positions keeps busy: a seventh of its work is done by one


def compute_cloaks(data: Trajectories, params: Parameters, algorithm: str, tasks: Tasks = SERIAL_TASKS) -> Cloaks:
    """Bundle the subjects of every window; see `dbanon.methods.tp_aware.anonymise`."""
    cell_m = _choose_cell_m(params, data.grid_m)
    data = select_in_run_time("tp-aware", data, params.since, params.until, before_s=params.max_gap_s)
    align.demand_sane_times(data)
    line = align.merge(data)
    surveys = _survey_windows(line, _list_windows(data, params), cell_m, params)
    most = max((s.present for s in surveys), default=0)
    if most < params.k:
        fault = f"Got at most {most}. Lower k, shorten instants or raise max_gap_s."
        none = "No person is at all instants of any. Shorten instants, raise max_gap_s or set start within the data."
        raise InfeasibleError(
            f"At least one window must hold k = {params.k} people at all its instants. {fault if most else none}"
        )
    # Fewer than k present: k-summing (Definition 5) passes all of them up, and the root may pass up none
    # (Definition 3).
    published = [s for s in surveys if s.present >= params.k]
    root = _find_root(published)
    plan = _Plan(data=data, line=line, params=params, cell_m=cell_m, root=root)
    del line  # `plan` gives its positions back
    # Drawn over all windows before they are shared out, so the bound does not depend on who computes which.
    sampled = _bound.draw_sample(np.array([s.present for s in published]))
    cells = plan.list_cells(published, sampled)
    threads = _THREADS_PER_WINDOW if most * params.instants >= _MIN_POSITIONS_FOR_THREADS else 1
    groups = tasks.map(_group, ((algorithm, params, window) for window in cells), threads=threads)
    windows = [_make_window(plan, s, g) for s, g in zip(published, groups, strict=True)]
    return _gather(windows, surveys, params)


def prepare(params: Parameters, algorithm: str) -> None:
    """Bundle four made-up subjects and a guest: what is compiled is what a run needs, for its types."""
    step = max(1, params.step_s // 2)
    data = Trajectories(
        trajectory_id=np.arange(13), subject=np.append(np.arange(12) % 4, 4), offset=np.append(2 * np.arange(13), 25),
        t=np.append(np.repeat(np.arange(12) % 3, 2) * 0.25 + np.tile([0.0, 2.0 * step], 12), 2.0 * step),
        x=np.arange(25.0), y=np.arange(25.0) % 5, srid=0, grid_m=1.0, grid_s=1,
    )  # fmt: skip
    params = dataclasses.replace(params, k=2, step_s=2 * step, instants=2, start=0, min_cloak_m=None)
    compute_cloaks(data, dataclasses.replace(params, since=None, until=None), algorithm)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Survey:
    """Who is in a window: counts, and of those present (`who`, empty below k) the least and greatest cells.

    `guests` are those who may be one, or none.
    """

    instants: align.Instants
    seen: int
    present: int
    who: NDArray[np.int32]
    extent: Float
    guests: Int32


@dataclass(frozen=True, kw_only=True, eq=False)
class _Window:
    """One published window: its bundles in the order of their first members."""

    instants: align.Instants
    bounds: Float  # [r, l, 4], metres
    crowd: NDArray[np.int32]  # [r]
    guests: NDArray[np.int32]  # [r]
    member_bundle: Int
    member_trajectory: Int
    member_start: Int  # of guests the instants at which they are present; 0 and 0 for others
    member_end: Int
    subjects: Int
    costs_m2: Float  # of quadrants, of rectangles, and of these before they were improved
    least_m2: Float  # of the cloaks of the subjects sampled here


@dataclass(frozen=True, kw_only=True, eq=False)
class Bundles:
    """What an algorithm returns: groups of rows of the window, and the tree's cloaks for them.

    `quadrants` are half-open cells ``[r, l, 4]``, `quadrant_cost` their total area over the members.
    """

    members: NDArray[np.int32]
    offset: Int
    quadrants: Int
    quadrant_cost: float


@dataclass(kw_only=True, eq=False)
class _Plan:
    """What all windows of a run share."""

    data: Trajectories
    line: align.Timeline
    params: Parameters
    cell_m: float
    root: tuple[float, float, int]

    def list_cells(self, surveys: list[_Survey], sampled: list[Int]) -> Iterator["_Cells"]:
        """Find the cells of each window; those of the last use positions up, unless there may be guests."""
        is_spare = self.data.is_spare and not any(len(survey.guests) for survey in surveys)
        for survey, few in zip(surveys, sampled, strict=True):
            guests = self.find_guest_cells(survey)
            x, y = (self.find_cells(survey, axis, is_spare and survey is surveys[-1]) for axis in ("x", "y"))
            yield _Cells(x, y, self.root[2], few, *guests)
            del x, y  # before those of the next are found

    def find_cells(self, survey: _Survey, axis: str, is_last: bool) -> Int32:
        along, least = getattr(self.line, axis), self.root["xy".index(axis)]
        cells = align.compute_cells(self.line, along, survey.instants, survey.who, self.cell_m, least)
        if is_last:
            gone: dict[str, Any] = {axis: self.data.forget(axis)}
            self.line = self.line._replace(**gone)
        return cells

    def find_guest_cells(self, survey: _Survey) -> tuple[Int32, Int32]:
        """Cells of those who may be guests, `_guests.ABSENT` where there is no position."""
        cells = []
        for own, least in zip(
            align.compute_positions(self.line, survey.instants, survey.guests), self.root, strict=False
        ):
            cell = np.floor(own / self.cell_m) - least
            # Who is so far away is not there at all: it joins nobody.
            cell[(np.abs(cell) > _guests.MAX_DISTANCE).any(axis=1)] = np.nan
            cells.append(cell)
        there = ~np.isnan(cells[0] + cells[1])
        x, y = (np.where(there, cell, _guests.ABSENT).astype(np.int32) for cell in cells)
        return x, y


class _Cells(NamedTuple):
    """Where the present subjects of a window are, in cells of a root of 2^levels, and whose least areas are asked."""

    x: NDArray[np.int32]  # [n, l]
    y: NDArray[np.int32]
    levels: int
    sampled: Int
    guest_x: NDArray[np.int32]  # [g, l]: of those who may be guests
    guest_y: NDArray[np.int32]


class _Grouped(NamedTuple):
    """Groups of rows of a window in the order of their first members, and where they were before."""

    rank: Int
    members: NDArray[np.int32]
    offset: Int
    tight: NDArray[np.int32]  # [r, l, 4], cells
    cost: float  # of `tight`, in cells


@dataclass(frozen=True, kw_only=True, eq=False)
class _Groups:
    """What a task returns: the bundles of its window in the order of their first members, in cells of the root."""

    members: NDArray[np.int32]
    offset: Int
    box: NDArray[np.integer]  # [r, l, 4], half-open
    costs: Float  # of quadrants, of rectangles, and of these before they were improved
    least: Float  # of the cloaks of the subjects sampled here
    home: Int  # [g]: the bundle of each who may be a guest, or -1


def _compute_traj_anon(x: Any, y: Any, levels: int, k: int) -> Bundles:
    # Section 4.2: the tree, its cheapest k-summing configuration, and one of the policies of that. By Lemma 1 all of
    # these cost the same.
    order, node = _binary_us_tree.build(x, y, levels, k)
    area = _binary_us_tree.compute_areas(node[:, 2], x.shape[1], levels)
    passed, kept, cost = _binary_us_tree.find_best_configuration(node, area, k)
    members, offset, depth = _binary_us_tree.assign(x, y, order, node, passed, kept)
    # A node is one sequence of quadrants, so any member of a bundle gives it.
    first = members[offset[:-1]]
    box = _binary_us_tree.compute_quadrants(x[first], y[first], depth, levels)
    return Bundles(members=members, offset=offset, quadrants=box, quadrant_cost=float(cost))


_Algorithm = Callable[[Any, Any, int, int], Bundles]

ALGORITHMS: dict[str, _Algorithm] = {"traj-anon": _compute_traj_anon}


def _choose_cell_m(params: Parameters, grid_m: float) -> float:
    if params.min_cloak_m is None:
        return grid_m
    # 1.1 / 0.1 is a little more than 11 in float64 and must not become 12.
    return max(1, math.ceil(params.min_cloak_m / grid_m - 1e-9)) * grid_m


def _list_windows(data: Trajectories, params: Parameters) -> list[align.Instants]:
    if not data.fixes:
        return []
    whole = list_instants("tp-aware", data, params)
    windows = -(-whole.count // params.instants)
    if windows > MAX_WINDOWS:
        raise DataError(
            f"The data must span at most {MAX_WINDOWS} windows of {format_count(params.instants, 'instant')}. Got "
            f"{windows}. Remove fixes at wild times, or raise step_s or instants."
        )
    return [
        whole._replace(start=whole.start + first * params.step_s, count=min(params.instants, whole.count - first))
        for first in range(0, whole.count, params.instants)
    ]


def _survey_windows(
    line: align.Timeline, windows: list[align.Instants], cell_m: float, params: Parameters
) -> list[_Survey]:
    if not windows:
        return []
    reached = align.find_reached_windows(line, windows)
    return [_survey(line, w, cell_m, params) if r else _make_unseen(w) for w, r in zip(windows, reached, strict=True)]


def _survey(line: align.Timeline, instants: align.Instants, cell_m: float, params: Parameters) -> _Survey:
    count, who, extent = align.survey(line, instants, cell_m)
    seen, feasible = int((count > 0).sum()), len(who) >= params.k
    # A quadrant would have to become another one.
    invites = params.guests and params.cloak == "mbr" and feasible and len(who) < seen
    guests = np.flatnonzero((count > 0) & (count < instants.count)) if invites else np.empty(0)
    return _Survey(
        instants=instants,
        seen=seen,
        present=len(who),
        who=who if feasible else who[:0].copy(),
        extent=extent,
        guests=guests.astype(np.int32),
    )


def _make_unseen(instants: align.Instants) -> _Survey:
    none = np.empty(0, np.int32)
    return _Survey(instants=instants, seen=0, present=0, who=none, extent=np.empty(0), guests=none)


def _find_root(published: list[_Survey]) -> tuple[float, float, int]:
    """The run's one root: the least cell of all who may be published, and H of the square of 2^H cells over them."""
    extent = np.array([s.extent for s in published])
    x, y = extent[:, :2].min(axis=0)
    side = float((extent[:, 2:].max(axis=0) - (x, y)).max()) + 1
    if side > 2**MAX_LEVELS:
        raise DataError(
            f"Positions must lie within 2^{MAX_LEVELS} cells of one another. They span {side:.3g}. "
            "Keep wild fixes out when loading, or raise min_cloak_m."
        )
    return float(x), float(y), (int(side) - 1).bit_length()


def _group(algorithm: str, params: Parameters, cells: _Cells) -> _Groups:
    """Bundle one window whose present subjects are k or more: a task, which needs nothing else of the data."""
    improve = params.improve and params.cloak == "mbr" and algorithm == "traj-anon"
    bundles, ways, least = _bundle(ALGORITHMS[algorithm], cells, params.k, improve)
    # Both ways follow from trajectories and parameters alone, so choosing the cheaper says nothing of requests
    # (Example 11). The policy's own way comes first and stays where both cost the same.
    rank, members, offset, tight, cost = min(ways, key=lambda way: way.cost)
    home = np.empty(0, np.int64)
    if len(cells.guest_x):
        home = _guests.join(tight, cells.guest_x, cells.guest_y, float(np.median(count_cells(tight))))
    return _Groups(
        members=members,
        offset=offset,
        box=tight if params.cloak == "mbr" else bundles.quadrants[rank],
        costs=np.array([bundles.quadrant_cost, cost, ways[0].cost]),
        least=least,
        home=home,
    )


def _make_window(plan: _Plan, survey: _Survey, groups: _Groups) -> _Window:
    """Make the cloaks of one window from its bundles, in metres and with the trajectories of their members."""
    line, instants, present = plan.line, survey.instants, survey.who
    row, trajectory = align.list_suppliers(line, instants, present)
    crowd = np.diff(groups.offset)
    bundle_of = np.empty(len(present), np.int64)
    bundle_of[groups.members] = np.repeat(np.arange(len(crowd)), crowd)
    guests, home = survey.guests[groups.home >= 0], groups.home[groups.home >= 0]
    none = np.zeros(len(row), np.int64)
    parts = [(bundle_of[row], trajectory, none, none), _list_guest_stretches(line, instants, guests, home)]
    bundle, supplier, start, end = parts[0] if not len(guests) else map(np.concatenate, zip(*parts, strict=True))
    member_trajectory = plan.data.trajectory_id[supplier]
    keys = (member_trajectory, bundle)
    by_record = np.lexsort((start, *keys) if len(guests) else keys)
    return _Window(
        instants=instants,
        bounds=(groups.box + np.tile(plan.root[:2], 2)) * plan.cell_m,
        crowd=crowd.astype(np.int32),
        guests=np.bincount(home, minlength=len(crowd)).astype(np.int32),
        member_bundle=bundle[by_record],
        member_trajectory=member_trajectory[by_record],
        member_start=start[by_record],
        member_end=end[by_record],
        subjects=line.subject[np.union1d(present, guests)] if len(guests) else line.subject[present],
        costs_m2=groups.costs * plan.cell_m**2,
        least_m2=groups.least * plan.cell_m**2,
    )


def _list_guest_stretches(
    line: align.Timeline, instants: align.Instants, guests: Int32, home: Int
) -> tuple[Int, Int32, Int, Int]:
    """List when guests are present: bundle, trajectory that gives a position, start and end in unix seconds."""
    supplied, trajectory = align.list_suppliers(line, instants, guests)
    there = ~np.isnan(align.compute_positions(line, instants, guests)[0])
    # Each trajectory of a guest has all stretches of the guest.
    row, begin, end = _guests.list_stretches(there[supplied])
    start_s, end_s = (instants.start + at * instants.step_s for at in (begin, end))
    return home[supplied[row]], trajectory[row], start_s, end_s


def _bundle(algorithm: _Algorithm, cells: _Cells, k: int, improve: bool) -> tuple[Bundles, list[_Grouped], Float]:
    """Find the algorithm's bundles, the groups to choose from, its own first, and the least areas of a sample.

    All of it at once, on all threads: the algorithm and the bound are a call each, the improvement is one a block.
    """
    x, y, levels, sampled = cells[:4]
    order, ends = _blocks.cut(x, y, _blocks.compute_min_block(k))
    better = np.empty_like(order)
    calls: list[Callable[[], Any]] = [
        lambda: algorithm(x, y, levels, k),
        lambda: _bound.find_least_areas(x, y, order, ends, k, sampled),
    ]
    if improve:
        # Each block writes to its own part of `better`, so the calls may run at once.
        calls += _improve.plan_grouping(x, y, order, ends, k, better)
    bundles, least, *_ = cores.run_together(calls, x.size, _MIN_POSITIONS_FOR_THREADS)
    ways = [_measure_groups(x, y, bundles.members, bundles.offset)]
    if improve:
        ways.append(_measure_groups(x, y, better, _improve.find_begins(ends, k)))
    return bundles, ways, least


def _measure_groups(x: Any, y: Any, members: NDArray[np.int32], offset: Int) -> _Grouped:
    rank, members, offset = _sort_bundles(members, offset)
    tight = _binary_us_tree.bound_bundles(x, y, members, offset)
    cost = float((count_cells(tight).sum(axis=1) * np.diff(offset)).sum())
    return _Grouped(rank, members, offset, tight, cost)


def count_cells(box: NDArray[np.int32]) -> Float:
    sides = box[..., 2:].astype(np.float64) - box[..., :2]
    return sides[..., 0] * sides[..., 1]


def _sort_bundles(members: NDArray[np.int32], offset: Int) -> tuple[Int, NDArray[np.int32], Int]:
    """Sort bundles by their least member and members within them; the bundles' old places come first."""
    size = np.diff(offset)
    least = np.minimum.reduceat(members, offset[:-1])
    # Bundles are disjoint: least members differ, and there is one order. Records follow it, so they do not show the
    # tree's.
    rank = np.argsort(least)
    place = np.empty_like(rank)
    place[rank] = np.arange(len(rank))
    members = members[np.lexsort((members, np.repeat(place, size)))]
    return rank, members, np.concatenate([[0], np.cumsum(size[rank])]).astype(np.int64)


def _gather(windows: list[_Window], surveys: list[_Survey], params: Parameters) -> Cloaks:
    """Put windows together: rows, members, what was left out, and figures."""
    bundles = np.array([len(w.crowd) for w in windows])
    count = np.array([w.instants.count for w in windows])
    before = np.cumsum(bundles) - bundles
    length = np.repeat(count, bundles)
    rows = int(length.sum())
    record = np.repeat(np.arange(1, len(length) + 1), length)
    seq = np.arange(rows) - np.repeat(np.cumsum(length) - length, length)
    step = windows[0].instants.step_s
    start = np.repeat(np.repeat([w.instants.start for w in windows], bundles), length) + seq * step
    crowd, guests = (np.concatenate([getattr(w, name) for w in windows]) for name in ("crowd", "guests"))
    joined = np.zeros(len(surveys), np.int64)
    joined[[s.present >= params.k for s in surveys]] = [w.guests.sum() for w in windows]
    bounds = np.concatenate([w.bounds.reshape(-1, 4) for w in windows])
    return Cloaks.from_rows(
        record_id=record,
        start=start,
        end=start + step,
        bounds=bounds,
        crowd=np.repeat(crowd, length),
        subjects=np.repeat(crowd + guests, length),
        member_record=np.concatenate([w.member_bundle + b + 1 for w, b in zip(windows, before, strict=True)]),
        member_trajectory=np.concatenate([w.member_trajectory for w in windows]),
        suppressed=_count_suppressed(surveys, joined, params.k) | {"guests": "on" if params.guests else "off"},
        metrics=_compute_metrics(windows, surveys, params.k, crowd, bounds),
        member_start=np.concatenate([w.member_start for w in windows]) if guests.any() else None,
        member_end=np.concatenate([w.member_end for w in windows]) if guests.any() else None,
    )


def _measure_presence(windows: list[_Window]) -> float:
    """Give the share of instants of their windows at which guests are present: what analysts' functions expect."""
    length_s = [w.instants.count * w.instants.step_s for w in windows]
    entries = [len(np.unique(w.member_trajectory[w.member_end > w.member_start])) for w in windows]
    present_s = sum(int((w.member_end - w.member_start).sum()) for w in windows)
    return present_s / max(float(np.dot(length_s, entries)), 1.0)


def _count_suppressed(surveys: list[_Survey], joined: Int, k: int) -> dict[str, Any]:
    seen, present = (np.array([getattr(s, name) for s in surveys], np.int64) for name in ("seen", "present"))
    published = np.where(present >= k, present + joined, 0)
    left_out = {"absent_at_some_instant": seen - present - joined, "window_below_k": np.where(present < k, present, 0)}
    return {
        "subjects": {reason: int(number.sum()) for reason, number in left_out.items()},
        "windows": [
            {"start": at.start, "instants": at.count, "seen": there, "present": whole, "published": number}
            for at, there, whole, number in zip(
                (s.instants for s in surveys), seen.tolist(), present.tolist(), published.tolist(), strict=True
            )
        ],
        "by_hour": count_by_hour(np.array([s.instants.start for s in surveys]), seen, published, left_out),
    }


def _compute_metrics(
    windows: list[_Window], surveys: list[_Survey], k: int, crowd: NDArray[np.int32], bounds: Float
) -> dict[str, Any]:
    seen = sum(s.seen for s in surveys)
    present = sum(s.present for s in surveys if s.present >= k)
    published = present + sum(int(w.guests.sum()) for w in windows)
    costs_m2 = [math.fsum(costs) for costs in zip(*(w.costs_m2 for w in windows), strict=True)]
    bound_m2, error_m2 = _bound.estimate_sum(np.concatenate([w.least_m2 for w in windows]), present)
    return {
        "windows": len(surveys),
        "windows_published": len(windows),
        "bundles": len(crowd),
        "subjects_published": _count_distinct(windows),
        "subject_windows_seen": seen,
        "subject_windows_present": sum(s.present for s in surveys),
        "subject_windows_published": published,
        "published_share": published / seen,
        "quadrant_cost_m2": costs_m2[0],
        "mbr_cost_m2": costs_m2[1],
        "unimproved_mbr_cost_m2": costs_m2[2],
        "mbr_cost_bound_m2": bound_m2,
        "mbr_cost_bound_error_m2": error_m2,
        **summarise_sides(*(bounds[:, 2:] - bounds[:, :2]).T),
        "smallest_crowd": int(crowd.min()),
        "guests": published - present,
        "guest_presence": _measure_presence(windows),
    }


def _count_distinct(windows: list[_Window]) -> int:
    """Count the subjects of any window; each window has its own in ascending order."""
    is_present = np.zeros(1 + max(int(w.subjects[-1]) for w in windows), bool)
    for w in windows:
        is_present[w.subjects] = True
    return int(is_present.sum())
