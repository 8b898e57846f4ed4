"""From trajectories to bundles: who is in each window, and the cloaks of its groups."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.cloaks import Cloaks, by_hour
from dbanon.errors import DataError, InfeasibleError
from dbanon.methods import HERE, Tasks
from dbanon.methods.kernels import align
from dbanon.methods.kernels.considered import considered
from dbanon.methods.kernels.instants import instants
from dbanon.methods.tp_aware import Parameters, _binary_us_tree
from dbanon.trajectory import Float, Int, Trajectories

MOST_WINDOWS = 100_000
MOST_LEVELS = 30


def publish(data: Trajectories, params: Parameters, algorithm: str, tasks: Tasks = HERE) -> Cloaks:
    """Bundle the subjects of every window; see `dbanon.methods.tp_aware.anonymise`."""
    cell_m = _cell_m(params, data.grid_m)
    data = considered("tp-aware", data, params.since, params.until, before_s=params.max_gap_s)
    align.demand_sane_times(data)
    line = align.merge(data)
    surveys = _surveys(line, _windows(data, params), cell_m, params.k)
    most = max((s.present for s in surveys), default=0)
    if most < params.k:
        found = f"Got at most {most}. Lower k, shorten instants or raise max_gap_s."
        none = "No subject is at all instants of any. Shorten instants, raise max_gap_s or set start within the data."
        raise InfeasibleError(
            f"At least one window must hold k = {params.k} subjects at all its instants. {found if most else none}"
        )
    published = [s for s in surveys if s.present >= params.k]
    root = _root(published)
    plan = _Plan(data=data, line=line, params=params, cell_m=cell_m, root=root)
    groups = tasks.map(_group, ((algorithm, params, *plan.cells(s), root[2]) for s in published))
    windows = [_publish(plan, s.instants, s.who, g) for s, g in zip(published, groups, strict=True)]
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
    publish(data, dataclasses.replace(params, since=None, until=None), algorithm)


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


@dataclass(frozen=True, kw_only=True, eq=False)
class _Bundles:
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

    def cells(self, survey: _Survey) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Cells of the present subjects at the instants of a window, relative to the root."""
        return align.cells(self.line, survey.instants, survey.who, self.cell_m, self.root[:2])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Groups:
    """What a task returns: the bundles of its window in the order of their first members, in cells of the root."""

    members: NDArray[np.int32]
    offset: Int
    box: Int  # [r, l, 4], half-open
    quadrant_cost: float
    mbr_cost: float


def _traj_anon(x: Any, y: Any, levels: int, k: int) -> _Bundles:
    order, node = _binary_us_tree.build(x, y, levels, k)
    area = _binary_us_tree.areas(node[:, 2], x.shape[1], levels)
    passed, kept, cost = _binary_us_tree.best_configuration(node, area, k)
    members, offset, depth = _binary_us_tree.assign(x, y, order, node, passed, kept)
    first = members[offset[:-1]]
    box = _binary_us_tree.quadrants(x[first], y[first], depth, levels)
    return _Bundles(members=members, offset=offset, quadrants=box, quadrant_cost=float(cost))


ALGORITHMS: dict[str, Callable[[Any, Any, int, int], _Bundles]] = {"traj-anon": _traj_anon}


def _cell_m(params: Parameters, grid_m: float) -> float:
    if params.min_cloak_m is None:
        return grid_m
    # 1.1 / 0.1 is a little more than 11 in float64 and must not become 12.
    return max(1, math.ceil(params.min_cloak_m / grid_m - 1e-9)) * grid_m


def _windows(data: Trajectories, params: Parameters) -> list[align.Instants]:
    if not data.fixes:
        return []
    whole = instants("tp-aware", data, params)
    windows = -(-whole.count // params.instants)
    if windows > MOST_WINDOWS:
        raise DataError(
            f"The data must span at most {MOST_WINDOWS} windows of {params.instants} instants. Got {windows}. "
            "Remove fixes at wild times, or raise step_s or instants."
        )
    return [
        dataclasses.replace(
            whole, start=whole.start + first * params.step_s, count=min(params.instants, whole.count - first)
        )
        for first in range(0, whole.count, params.instants)
    ]


def _surveys(line: align.Timeline, windows: list[align.Instants], cell_m: float, k: int) -> list[_Survey]:
    if not windows:
        return []
    reached = align.reached(line, windows)
    return [_survey(line, w, cell_m, k) if r else _unseen(w) for w, r in zip(windows, reached, strict=True)]


def _survey(line: align.Timeline, instants: align.Instants, cell_m: float, k: int) -> _Survey:
    found, who, extent = align.survey(line, instants, cell_m)
    kept = who if len(who) >= k else who[:0].copy()
    return _Survey(instants=instants, seen=int((found > 0).sum()), present=len(who), who=kept, extent=extent)


def _unseen(instants: align.Instants) -> _Survey:
    return _Survey(instants=instants, seen=0, present=0, who=np.empty(0, np.int32), extent=np.empty(0))


def _root(published: list[_Survey]) -> tuple[float, float, int]:
    """The run's one root: the least cell of all who may be published, and H of the square of 2^H cells over them."""
    extent = np.array([s.extent for s in published])
    x, y = extent[:, :2].min(axis=0)
    side = float((extent[:, 2:].max(axis=0) - (x, y)).max()) + 1
    if side > 2**MOST_LEVELS:
        raise DataError(
            f"Positions must lie within 2^{MOST_LEVELS} cells of one another. Got {side:.3g} cells. "
            "Keep wild fixes out when loading, or raise min_cloak_m."
        )
    return float(x), float(y), (int(side) - 1).bit_length()


def _group(algorithm: str, params: Parameters, x: Any, y: Any, levels: int) -> _Groups:
    """Bundle one window whose present subjects are k or more: a task, which needs nothing else of the data."""
    found = ALGORITHMS[algorithm](x, y, levels, params.k)
    rank, members, offset = _by_first_member(found.members, found.offset)
    tight = _binary_us_tree.boxes(x, y, members, offset)
    return _Groups(
        members=members,
        offset=offset,
        box=tight if params.cloak == "mbr" else found.quadrants[rank],
        quadrant_cost=found.quadrant_cost,
        mbr_cost=float((_cells_in(tight).sum(axis=1) * np.diff(offset)).sum()),
    )


def _publish(plan: _Plan, instants: align.Instants, present: NDArray[np.int32], groups: _Groups) -> _Window:
    """Make the cloaks of one window from its bundles, in metres and with the trajectories of their members."""
    line = plan.line
    row, trajectory = align.suppliers(line, instants, present)
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
    )


def _cells_in(box: NDArray[np.int32]) -> Float:
    sides = box[..., 2:].astype(np.float64) - box[..., :2]
    return sides[..., 0] * sides[..., 1]


def _by_first_member(members: NDArray[np.int32], offset: Int) -> tuple[Int, NDArray[np.int32], Int]:
    """Sort bundles by their least member and members within them; the bundles' old places come first."""
    size = np.diff(offset)
    least = np.minimum.reduceat(members, offset[:-1])
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
    return Cloaks.of_rows(
        record_id=record,
        start=start,
        end=start + step,
        bounds=bounds,
        crowd=np.repeat(crowd, length),
        subjects=np.repeat(crowd, length),
        member_record=np.concatenate([w.member_bundle + b + 1 for w, b in zip(windows, before, strict=True)]),
        member_trajectory=np.concatenate([w.member_trajectory for w in windows]),
        suppressed=_suppressed(surveys, k),
        metrics=_metrics(windows, surveys, k, crowd, bounds),
    )


def _suppressed(surveys: list[_Survey], k: int) -> dict[str, Any]:
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
        "by_hour": by_hour(
            np.array([s.instants.start for s in surveys]),
            np.array([s.seen for s in surveys]),
            np.array([s.present if s.present >= k else 0 for s in surveys]),
            {
                "absent_at_some_instant": np.array([s.seen - s.present for s in surveys]),
                "window_below_k": np.array([s.present if s.present < k else 0 for s in surveys]),
            },
        ),
    }


def _metrics(
    windows: list[_Window], surveys: list[_Survey], k: int, crowd: NDArray[np.int32], bounds: Float
) -> dict[str, Any]:
    seen = sum(s.seen for s in surveys)
    published = sum(s.present for s in surveys if s.present >= k)
    side = np.sqrt((bounds[:, 2] - bounds[:, 0]) * (bounds[:, 3] - bounds[:, 1]))
    return {
        "windows": len(surveys),
        "windows_published": len(windows),
        "bundles": len(crowd),
        "subjects_published": _distinct(windows),
        "subject_windows_seen": seen,
        "subject_windows_present": sum(s.present for s in surveys),
        "subject_windows_published": published,
        "published_share": published / seen,
        "quadrant_cost_m2": math.fsum(w.quadrant_cost_m2 for w in windows),
        "mbr_cost_m2": math.fsum(w.mbr_cost_m2 for w in windows),
        "median_cloak_side_m": float(np.median(side)),
        "smallest_crowd": int(crowd.min()),
    }


def _distinct(windows: list[_Window]) -> int:
    """Count the subjects of any window; each window has its own in ascending order."""
    found = np.zeros(1 + max(int(w.subjects[-1]) for w in windows), bool)
    for w in windows:
        found[w.subjects] = True
    return int(found.sum())
