"""From trajectories to bundles: who is in each window, and the cloaks of its groups."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.base import cores
from dbanon.base.cloaks import Cloaks, count_by_hour, summarise_sides
from dbanon.base.errors import DataError, InfeasibleError, format_count
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.base.trajectory import Float, Int, Trajectories
from dbanon.methods.kernels import align
from dbanon.methods.kernels.in_run_time import select_in_run_time
from dbanon.methods.kernels.instants import list_instants
from dbanon.methods.tp_aware import Parameters, _binary_us_tree, _blocks, _bound, _improve

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
    surveys = _survey_windows(line, _list_windows(data, params), cell_m, params.k)
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
    # Drawn over all windows before they are shared out, so the bound does not depend on who computes which.
    sampled = _bound.draw_sample(np.array([s.present for s in published]))
    cells = (plan.find_cells(s, few) for s, few in zip(published, sampled, strict=True))
    threads = _THREADS_PER_WINDOW if most * params.instants >= _MIN_POSITIONS_FOR_THREADS else 1
    groups = tasks.map(_group, ((algorithm, params, window) for window in cells), threads=threads)
    windows = [_make_window(plan, s.instants, s.who, g) for s, g in zip(published, groups, strict=True)]
    return _gather(windows, surveys, params.k)


def prepare(params: Parameters, algorithm: str) -> None:
    """Bundle four made-up subjects of three trajectories: what is compiled is what a run needs, for its types."""
    step = max(1, params.step_s // 2)
    data = Trajectories(
        trajectory_id=np.arange(12),
        subject=np.arange(12) % 4,
        offset=2 * np.arange(13),
        t=np.repeat(np.arange(12) % 3, 2) * 0.25 + np.tile([0.0, step], 12),
        x=np.arange(24.0),
        y=np.arange(24.0) % 5,
        srid=0,
        grid_m=1.0,
        grid_s=1,
    )
    params = dataclasses.replace(params, k=2, step_s=2 * step, instants=2, start=0, min_cloak_m=None)
    compute_cloaks(data, dataclasses.replace(params, since=None, until=None), algorithm)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Survey:
    """Who is in a window: counts, and of those present (`who`, empty below k) the least and greatest cells."""

    instants: align.Instants
    seen: int
    present: int
    who: NDArray[np.int32]
    extent: Float


@dataclass(frozen=True, kw_only=True, eq=False)
class _Window:
    """One published window: its bundles in the order of their first members."""

    instants: align.Instants
    bounds: Float  # [r, l, 4], metres
    crowd: NDArray[np.int32]  # [r]
    member_bundle: Int
    member_trajectory: Int
    subjects: Int
    quadrant_cost_m2: float
    mbr_cost_m2: float
    unimproved_mbr_cost_m2: float
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


@dataclass(frozen=True, kw_only=True, eq=False)
class _Plan:
    """What all windows of a run share."""

    data: Trajectories
    line: align.Timeline
    params: Parameters
    cell_m: float
    root: tuple[float, float, int]

    def find_cells(self, survey: _Survey, sampled: Int) -> "_Cells":
        x, y = align.compute_cells(self.line, survey.instants, survey.who, self.cell_m, self.root[:2])
        return _Cells(x, y, self.root[2], sampled)


class _Cells(NamedTuple):
    """Where the present subjects of a window are, in cells of a root of 2^levels, and whose least areas are asked."""

    x: NDArray[np.int32]  # [n, l]
    y: NDArray[np.int32]
    levels: int
    sampled: Int


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
    quadrant_cost: float
    mbr_cost: float
    unimproved_mbr_cost: float
    least: Float  # of the cloaks of the subjects sampled here


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


def _survey_windows(line: align.Timeline, windows: list[align.Instants], cell_m: float, k: int) -> list[_Survey]:
    if not windows:
        return []
    reached = align.find_reached_windows(line, windows)
    return [_survey(line, w, cell_m, k) if r else _make_unseen(w) for w, r in zip(windows, reached, strict=True)]


def _survey(line: align.Timeline, instants: align.Instants, cell_m: float, k: int) -> _Survey:
    count, who, extent = align.survey(line, instants, cell_m)
    kept = who if len(who) >= k else who[:0].copy()
    return _Survey(instants=instants, seen=int((count > 0).sum()), present=len(who), who=kept, extent=extent)


def _make_unseen(instants: align.Instants) -> _Survey:
    return _Survey(instants=instants, seen=0, present=0, who=np.empty(0, np.int32), extent=np.empty(0))


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
    return _Groups(
        members=members,
        offset=offset,
        box=tight if params.cloak == "mbr" else bundles.quadrants[rank],
        quadrant_cost=bundles.quadrant_cost,
        mbr_cost=cost,
        unimproved_mbr_cost=ways[0].cost,
        least=least,
    )


def _make_window(plan: _Plan, instants: align.Instants, present: NDArray[np.int32], groups: _Groups) -> _Window:
    """Make the cloaks of one window from its bundles, in metres and with the trajectories of their members."""
    line = plan.line
    row, trajectory = align.list_suppliers(line, instants, present)
    crowd = np.diff(groups.offset)
    bundle_of = np.empty(len(present), np.int64)
    bundle_of[groups.members] = np.repeat(np.arange(len(crowd)), crowd)
    member_bundle, member_trajectory = bundle_of[row], plan.data.trajectory_id[trajectory]
    by_record = np.lexsort((member_trajectory, member_bundle))
    return _Window(
        instants=instants,
        bounds=(groups.box + np.tile(plan.root[:2], 2)) * plan.cell_m,
        crowd=crowd.astype(np.int32),
        member_bundle=member_bundle[by_record],
        member_trajectory=member_trajectory[by_record],
        subjects=line.subject[present],
        quadrant_cost_m2=groups.quadrant_cost * plan.cell_m**2,
        mbr_cost_m2=groups.mbr_cost * plan.cell_m**2,
        unimproved_mbr_cost_m2=groups.unimproved_mbr_cost * plan.cell_m**2,
        least_m2=groups.least * plan.cell_m**2,
    )


def _bundle(algorithm: _Algorithm, cells: _Cells, k: int, improve: bool) -> tuple[Bundles, list[_Grouped], Float]:
    """Find the algorithm's bundles, the groups to choose from, its own first, and the least areas of a sample.

    All of it at once, on all threads: the algorithm and the bound are a call each, the improvement is one a block.
    """
    x, y, levels, sampled = cells
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


def _gather(windows: list[_Window], surveys: list[_Survey], k: int) -> Cloaks:
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
    crowd = np.concatenate([w.crowd for w in windows])
    bounds = np.concatenate([w.bounds.reshape(-1, 4) for w in windows])
    return Cloaks.from_rows(
        record_id=record,
        start=start,
        end=start + step,
        bounds=bounds,
        crowd=np.repeat(crowd, length),
        subjects=np.repeat(crowd, length),
        member_record=np.concatenate([w.member_bundle + b + 1 for w, b in zip(windows, before, strict=True)]),
        member_trajectory=np.concatenate([w.member_trajectory for w in windows]),
        suppressed=_count_suppressed(surveys, k),
        metrics=_compute_metrics(windows, surveys, k, crowd, bounds),
    )


def _count_suppressed(surveys: list[_Survey], k: int) -> dict[str, Any]:
    return {
        "subjects": {
            "absent_at_some_instant": sum(s.seen - s.present for s in surveys),
            "window_below_k": sum(s.present for s in surveys if s.present < k),
        },
        "windows": [
            {
                "start": s.instants.start,
                "instants": s.instants.count,
                "seen": s.seen,
                "present": s.present,
                "published": s.present if s.present >= k else 0,
            }
            for s in surveys
        ],
        "by_hour": count_by_hour(
            np.array([s.instants.start for s in surveys]),
            np.array([s.seen for s in surveys]),
            np.array([s.present if s.present >= k else 0 for s in surveys]),
            {
                "absent_at_some_instant": np.array([s.seen - s.present for s in surveys]),
                "window_below_k": np.array([s.present if s.present < k else 0 for s in surveys]),
            },
        ),
    }


def _compute_metrics(
    windows: list[_Window], surveys: list[_Survey], k: int, crowd: NDArray[np.int32], bounds: Float
) -> dict[str, Any]:
    seen = sum(s.seen for s in surveys)
    published = sum(s.present for s in surveys if s.present >= k)
    bound_m2, error_m2 = _bound.estimate_sum(np.concatenate([w.least_m2 for w in windows]), published)
    return {
        "windows": len(surveys),
        "windows_published": len(windows),
        "bundles": len(crowd),
        "subjects_published": _count_distinct(windows),
        "subject_windows_seen": seen,
        "subject_windows_present": sum(s.present for s in surveys),
        "subject_windows_published": published,
        "published_share": published / seen,
        "quadrant_cost_m2": math.fsum(w.quadrant_cost_m2 for w in windows),
        "mbr_cost_m2": math.fsum(w.mbr_cost_m2 for w in windows),
        "unimproved_mbr_cost_m2": math.fsum(w.unimproved_mbr_cost_m2 for w in windows),
        "mbr_cost_bound_m2": bound_m2,
        "mbr_cost_bound_error_m2": error_m2,
        **summarise_sides(*(bounds[:, 2:] - bounds[:, :2]).T),
        "smallest_crowd": int(crowd.min()),
    }


def _count_distinct(windows: list[_Window]) -> int:
    """Count the subjects of any window; each window has its own in ascending order."""
    is_present = np.zeros(1 + max(int(w.subjects[-1]) for w in windows), bool)
    for w in windows:
        is_present[w.subjects] = True
    return int(is_present.sum())
