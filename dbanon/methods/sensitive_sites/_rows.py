"""From subjects and sites to rows: who is hidden with which site, and what is published for it."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dbanon.base.cloaks import Cloaks, count_by_hour, summarise_sides
from dbanon.base.errors import DataError, InfeasibleError, ParameterError, format_count
from dbanon.base.trajectory import Int, Int32, Sites, Trajectories
from dbanon.methods.kernels import align
from dbanon.methods.kernels.in_run_time import select_in_run_time
from dbanon.methods.kernels.order import rank_subjects
from dbanon.methods.sensitive_sites import Parameters, _bichromatic, _guards, _improve, _monochromatic, _snapshot
from dbanon.methods.sensitive_sites._boxes import Boxes

_CLOAKED_JSON = '{"cloaked": true}'
_MAX_COST = 2**62


def compute_cloaks(
    data: Trajectories, params: Parameters, rng: np.random.Generator, algorithm: str, sites: Sites
) -> Cloaks:
    """Hide k subjects with each site; see `dbanon.methods.sensitive_sites.anonymise`."""
    rank = rank_subjects(data, rng)
    data = select_in_run_time("sensitive-sites", data, params.since, params.until)
    _demand_within(params)
    align.demand_sane_times(data)
    data = _snapshot.select_hour(data, params.at, params.max_gap_s)
    seen = _snapshot.find_subjects(data, sites, params.at, params.max_gap_s)
    scene = _snapshot.arrange(data, sites, seen, rank)
    if scene.domain * len(scene.sites.x0) > _MAX_COST:
        raise DataError(
            f"People and sites must span fewer than 2^62 cells, times sites. They span {scene.domain:.3g}. Keep wild "
            f"positions out when loading, or load with a coarser grid_m."
        )
    return _make_cloaks(data, scene, seen, ALGORITHMS[algorithm](scene, params, rng))


def _demand_within(params: Parameters) -> None:
    """Raise `ParameterError` where the rows would lie outside the time considered."""
    early = params.at is not None and params.since is not None and params.at < params.since
    late = params.at is not None and params.until is not None and params.at >= params.until
    if early or late:
        raise ParameterError(
            "The 'at' parameter of sensitive-sites must not lie before 'since', and must lie before 'until'. "
            f"Got {params.at}, {params.since} and {params.until}."
        )


def prepare(params: Parameters, algorithm: str) -> None:
    """Hide a dozen made-up subjects: what is compiled is what a run needs, for its types."""
    count = 12 if params.at is None else 24  # at an instant, subjects may have several trajectories
    data = Trajectories(
        trajectory_id=np.arange(count), subject=np.arange(count) % 12, offset=np.arange(count + 1), t=np.zeros(count),
        x=np.arange(float(count)) % 5, y=np.arange(float(count)), srid=0, grid_m=1.0, grid_s=1,
    )  # fmt: skip
    sites = Sites(
        site_id=np.arange(2),
        site_bounds=np.array([[3.0, 3, 3, 3], [2, 30, 2, 30]]),
        shape_trajectory=np.empty(0, np.int64),
        shape_bounds=np.empty((0, 4)),
    )
    few = dataclasses.replace(params, k=2, at=None if params.at is None else 0, since=None, until=None)
    compute_cloaks(data, few, np.random.default_rng(0), algorithm, sites)


# ---- algorithms: who is hidden with which site -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """What is published, row by row: whose, which cells (both ends inside), how many it hides, and whether."""

    subject: Int
    region: Int  # [r, 4]
    crowd: Int
    hidden: Any  # bool[r]
    metrics: dict[str, Any]


def _compute_bk(scene: _snapshot.Scene, params: Parameters, _rng: np.random.Generator) -> Rows:
    demand_subjects(scene, params.k, "bk")
    subjects, sites, k = scene.subjects, scene.sites, params.k
    start = _bichromatic.find_best_starts(subjects, sites, k)
    plain = _assign_sites(scene, start[:, None] + np.arange(k))
    if not params.improve:
        return make_rows(scene, params, plain)
    # The search only goes downhill, so it begins with the smaller of the two mappings.
    other = _monochromatic.choose_windows(subjects, sites, k)
    if other is not None and _compute_cost(scene, other, k) < _compute_cost(scene, start, k):
        start = other
    members = _improve.improve(subjects, sites, start[:, None] + np.arange(k))
    return make_rows(scene, params, _assign_sites(scene, members), plain)


def _compute_mk(scene: _snapshot.Scene, params: Parameters, rng: np.random.Generator) -> Rows:
    offset = _monochromatic.partition(scene.subjects, params.k)
    groups, m = len(offset) - 1, len(scene.sites.x0)
    if groups < m:
        raise InfeasibleError(
            f"mk must make a group of k = {params.k} people or more for {format_count(m, 'site')}. It made {groups} of "
            f"{format_count(len(scene.subjects.x0), 'person', 'people')}. Lower k, leave out sites, or use another "
            "algorithm."
        )
    # Line 7 of Figure 6: where sites fit a group equally well, a random one gets it, hence the permutation.
    chosen = _monochromatic.assign(scene.subjects, scene.sites, offset, rng.permutation(m))
    site_of_group = np.full(groups, -1, np.int32)
    site_of_group[chosen] = np.arange(m, dtype=np.int32)
    return make_rows(scene, params, np.repeat(site_of_group, np.diff(offset)))


ALGORITHMS: dict[str, Callable[[_snapshot.Scene, Parameters, np.random.Generator], Rows]] = {
    "bk": _compute_bk,
    "mk": _compute_mk,
}


def demand_subjects(scene: _snapshot.Scene, k: int, algorithm: str) -> None:
    m, n = len(scene.sites.x0), len(scene.subjects.x0)
    if n < k * m:
        away = f" {scene.absent} more have no position at that instant: choose another, or raise max_gap_s."
        raise InfeasibleError(
            f"{algorithm} must have k = {k} separate people for each of {format_count(m, 'site')}, {k * m} in all. Got "
            f"{n}.{away if scene.absent else ''} Lower k, leave out sites, or load more people."
        )


def _compute_cost(scene: _snapshot.Scene, start: Int, k: int) -> int:
    """Total area where each site has the k subjects from `start` on."""
    return int(scene.subjects.bound_windows(k).take(start).join(scene.sites).count_cells().sum())


def _assign_sites(scene: _snapshot.Scene, members: Int) -> Int32:
    site = np.full(len(scene.subjects.x0), -1, np.int32)
    site[members.ravel()] = np.repeat(np.arange(len(members), dtype=np.int32), members.shape[1])
    return site


# ---- from a mapping to rows ------------------------------------------------------------------------------------------


def make_rows(scene: _snapshot.Scene, params: Parameters, site: Int32, plain: Int32 | None = None) -> Rows:
    """Guard a mapping, and publish each subject once: with the rectangle of its site, or as it is.

    Parameters
    ----------
    site : int32[n]
        The site of each subject, -1 for those without.
    plain : int32[n], optional
        What an improved mapping is measured against, because guards may make the worse of the better.
    """
    chosen = _guard_mapping(scene, site, params)
    before = None if plain is None else _guard_mapping(scene, plain, params)
    if before is not None and before.ggc_percent < chosen.ggc_percent:
        chosen = before
    site, box, hidden = chosen.site, chosen.box, chosen.site >= 0
    metrics = compute_metrics(scene, box, hidden)
    metrics["ggc_before_guards_percent"] = chosen.ggc_before_percent
    metrics["added_by_guards"] = chosen.added
    if before is not None:
        metrics["bk_ggc_percent"] = before.ggc_percent
    region, crowd = stack_cells(scene.subjects), np.ones(len(site), np.int64)
    # All of a site's subjects get one rectangle (Definition 2), so a reader of the rows cannot distinguish them.
    region[hidden] = stack_cells(box)[site[hidden]]
    crowd[hidden] = _count_crowds(box, np.bincount(site[hidden], minlength=len(box.x0)))[site[hidden]]
    return Rows(subject=np.arange(len(site)), region=region, crowd=crowd, hidden=hidden, metrics=metrics)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Guarded:
    """A mapping after its guards: each subject's site, the sites' rectangles, what it costs now and did before."""

    site: Int32
    box: Boxes
    ggc_percent: float
    ggc_before_percent: float
    added: int


def _guard_mapping(scene: _snapshot.Scene, site: Int32, params: Parameters) -> _Guarded:
    subjects, sites = scene.subjects, scene.sites
    after = _guards.add(
        subjects,
        sites,
        scene.site_rank,
        site,
        guard_m=params.guard_m,
        cell_m=scene.cell_m,
        guard_inside=params.guard_inside,
    )
    box = _guards.bound_sites(subjects, sites, after)
    return _Guarded(
        site=after,
        box=box,
        ggc_percent=_compute_ggc(box, scene),
        ggc_before_percent=_compute_ggc(_guards.bound_sites(subjects, sites, site), scene),
        added=int((after >= 0).sum() - (site >= 0).sum()),
    )


def _make_cloaks(data: Trajectories, scene: _snapshot.Scene, seen: _snapshot.Seen, rows: Rows) -> Cloaks:
    trajectory = scene.trajectory[rows.subject]
    # Records by trajectory, not by curve or site: their numbers say nothing of who is hidden with which.
    order = np.argsort(trajectory, kind="stable")
    count = len(order)
    record = np.arange(1, count + 1)
    bounds = (rows.region + np.tile(scene.root, 2) + np.array([0, 0, 1, 1])) * data.grid_m
    left_out = {"absent_at_instant": seen.absent} if seen.absent else {}
    people = len(scene.subjects.x0)
    return Cloaks.from_rows(
        record_id=record,
        start=np.full(count, seen.start, np.int64),
        end=np.full(count, seen.end, np.int64),
        bounds=bounds[order],
        crowd=rows.crowd[order].astype(np.int32),
        subjects=np.ones(count, np.int32),
        member_record=record,
        member_trajectory=data.trajectory_id[trajectory[order]],
        suppressed={
            "subjects": left_out,
            "by_hour": count_by_hour(
                np.array([seen.start]),
                np.array([people + seen.absent]),
                np.array([people]),
                {reason: np.array([number]) for reason, number in left_out.items()},
            ),
        },
        metrics=rows.metrics,
        extra=np.where(rows.hidden[order], 0, -1),
        extras=(_CLOAKED_JSON,),
    )


def _count_crowds(box: Boxes, subjects: Int) -> Int:
    """Count the subjects hidden in rectangles exactly like each site's."""
    same = np.unique(stack_cells(box), axis=0, return_inverse=True)[1].ravel()
    return np.bincount(same, weights=subjects)[same].astype(np.int64)


def stack_cells(boxes: Boxes) -> Int:
    """Give the first and last cells of rectangles: int64[r, 4]."""
    return np.column_stack(boxes).astype(np.int64)


def _compute_ggc(box: Boxes, scene: _snapshot.Scene) -> float:
    """Equation (9): the sum of areas in percent of the bounding box of subjects and sites."""
    return 100 * int(box.count_cells().sum()) / scene.domain


def compute_metrics(scene: _snapshot.Scene, box: Boxes, hidden: Any) -> dict[str, Any]:
    """Measure the rectangles of sites; `hidden` says which subjects are in one."""
    area = box.count_cells() * scene.cell_m**2
    return {
        "subjects": len(scene.subjects.x0),
        "sites": len(scene.sites.x0),
        "subjects_cloaked": int(hidden.sum()),
        "subjects_left_exact": int(len(hidden) - hidden.sum()),
        "ggc_percent": _compute_ggc(box, scene),
        **summarise_sides((box.x1 - box.x0 + 1) * scene.cell_m, (box.y1 - box.y0 + 1) * scene.cell_m),
        "gc_median_m2": float(np.median(area)),
        "gc_mean_m2": float(area.mean()),
        "gc_largest_m2": float(area.max()),
        "narrowest_side_m": int(np.minimum(box.x1 - box.x0, box.y1 - box.y0).min() + 1) * scene.cell_m,
        "domain_m2": scene.domain * scene.cell_m**2,
    }
