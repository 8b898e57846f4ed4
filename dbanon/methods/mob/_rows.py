"""From trajectories to rows: who is hidden with whom, and what is published of it."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.base.cloaks import Cloaks, Hiding, Regions, count_by_hour
from dbanon.base.errors import DataError, InfeasibleError
from dbanon.base.kernels import compile_kernel
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.base.trajectory import Bool, Int, QuasiIdentifiers, Trajectories
from dbanon.methods.kernels import align
from dbanon.methods.kernels.in_run_time import select_in_run_time
from dbanon.methods.kernels.instants import is_in_own_time
from dbanon.methods.kernels.order import rank_subjects
from dbanon.methods.mob import Parameters, _classes, _improve, _links, _positions, _sets
from dbanon.methods.mob._classes import Classes
from dbanon.methods.mob._positions import Dropped, Positions
from dbanon.methods.mob._sets import Sets


@dataclass(frozen=True, eq=False)
class _Run:
    """Who is hidden with whom, and what of the data that was found from.

    `data`: with the fixes before `since` that give positions.
    """

    data: Trajectories
    params: Parameters
    positions: Positions
    dropped: Dropped
    sets: Sets
    classes: Classes


def compute_cloaks(
    data: Trajectories,
    params: Parameters,
    rng: np.random.Generator,
    algorithm: str,
    quasi_identifiers: QuasiIdentifiers,
    *,
    tasks: Tasks = SERIAL_TASKS,
) -> Cloaks:
    """Hide objects; see `dbanon.methods.mob.anonymise`."""
    rank = rank_subjects(data, rng)
    data = select_in_run_time("mob", data, params.since, params.until, start=params.start, before_s=params.max_gap_s)
    if not data.fixes:
        raise DataError(
            "The time that a run of mob considers must hold a fix. It holds none. Set start, since and until within "
            "the data."
        )
    quasi_identifiers = _select_in_run_time(quasi_identifiers, data, params)
    positions, dropped = _positions.find(data, params, rank, quasi_identifiers)
    _demand_enough(positions, params)
    sets = ALGORITHMS[algorithm](positions, _positions.number_places(positions), params, tasks)
    if not sets.kept.any() or (params.qid_only and not sets.when.any()):
        raise InfeasibleError(
            f"A run of mob must leave some people to publish. With k = {params.k} all of the "
            f"{len(positions.subject)} that are seen are left out, as too few are present at the same instants. "
            f"Choose a lower k or fewer quasi-identifiers, or raise max_gap_s."
        )
    classes = _classes.build_classes(positions, sets)
    return _make_cloaks(_Run(data, params, positions, dropped, sets, classes))


def _select_in_run_time(known: QuasiIdentifiers, data: Trajectories, params: Parameters) -> QuasiIdentifiers:
    """Keep the quasi-identifiers of the run's own time."""
    own = is_in_own_time(known.t, data, params)
    return known if own.all() else QuasiIdentifiers(subject=known.subject[own], t=known.t[own])


def prepare(params: Parameters, algorithm: str) -> None:
    """Publish a dozen made-up people: what is compiled is what a run needs, for its types."""
    people, fixes = 13, 4  # of two trajectories each; one is left over by groups of three
    path = np.arange(2 * people)
    data = Trajectories(
        trajectory_id=path, subject=path % people, offset=np.arange(2 * people + 1) * fixes,
        t=(np.repeat(path // people, fixes) + np.tile(np.arange(fixes) * 2, 2 * people)) * np.float64(params.step_s),
        x=np.repeat(path % people * 30.0, fixes), y=np.tile(np.arange(fixes) * 20.0, 2 * people), srid=0, grid_m=1.0,
        grid_s=1,
    )  # fmt: skip
    known = QuasiIdentifiers(subject=np.arange(people - 2), t=np.arange(people - 2) % 3 * np.float64(params.step_s))
    few = dataclasses.replace(params, k=3, start=0, since=None, until=None)
    compute_cloaks(data, few, np.random.default_rng(0), algorithm, known)
    positions, _ = _positions.find(data, few, np.arange(people), known)
    place, kept = _positions.number_places(positions), np.ones(people, bool)
    _sets.prepare(positions, place)
    _links.choose_partners(positions, place, few.k, kept, np.flatnonzero(np.diff(positions.offset)))


def _draw_symmetric(positions: Positions, place: Int, params: Parameters, tasks: Tasks = SERIAL_TASKS) -> Sets:
    plain = _sets.draw_symmetric(positions, place, params.k, tasks)
    return _improve.improve_sets(positions, place, params.k, plain, tasks) if params.improve else plain


def _draw_extreme_union(positions: Positions, place: Int, params: Parameters, tasks: Tasks = SERIAL_TASKS) -> Sets:
    return _sets.draw_extreme_union(positions, place, params.k, tasks)


ALGORITHMS: dict[str, Callable[..., Sets]] = {"symmetric": _draw_symmetric, "extreme-union": _draw_extreme_union}


def _demand_enough(positions: Positions, params: Parameters) -> None:
    if len(positions.subject) < params.k:
        raise InfeasibleError(
            f"A run of mob must have at least k = {params.k} people with a position. Got {len(positions.subject)}. "
            f"Choose a lower k, or another since or until."
        )
    if not len(positions.instant):
        raise DataError(
            "At least one quasi-identifier must be of an instant at which its person has a position. None is. Load "
            "times within the data, or choose another qid_set."
        )


# ---- rows ------------------------------------------------------------------------------------------------------------


def _make_cloaks(run: _Run) -> Cloaks:
    positions = run.positions
    there = _positions.unpack_presence(positions)
    # Nobody is in a class where it is absent (the invariant of `_sets`), so rows of classes need not ask for presence.
    shown = (run.classes.of >= 0 if run.params.qid_only else there) & run.sets.kept[:, None]
    published = np.asarray(shown.any(axis=1))
    who = np.flatnonzero(published)
    # Records in the run's order, a keyed hash: their numbers say nothing of whose they are.
    who = who[np.argsort(positions.rank[who])]
    offset = np.concatenate([[0], np.cumsum(shown[who].sum(axis=1))])
    region, instant, regions = _number_regions(run, shown, who, offset)
    periods, period = _list_periods(positions.instants, instant)
    member_record, member_trajectory = _list_members(run.data, positions, who)
    return Cloaks(
        offset=offset,
        region=region,
        period=period,
        regions=regions,
        periods=periods,
        member_record=member_record,
        member_trajectory=member_trajectory,
        hiding=_make_hiding(run.sets, who),
        suppressed=_count_suppressed(run, published, there),
        metrics=_compute_metrics(run, len(region)),
    )


def _number_regions(
    run: _Run, shown: Bool, who: Int, offset: Int
) -> tuple[NDArray[np.int32], NDArray[np.int32], Regions]:
    """Number the region of every row: those of classes first, then the distinct cells that are published exactly.

    Returns
    -------
    region, instant : int32[c]
    """
    positions, classes = run.positions, len(run.classes.size)
    instant, region = np.empty((2, int(offset[-1])), np.int32)
    cell = np.empty(len(region), np.int64)
    width = int(positions.x.max()) + 1
    _fill(positions.x, positions.y, run.classes.of, shown, who, offset, width, instant, region, cell)
    exact = region < 0
    # Regions of classes keep the numbers of the classes; exact cells come after them.
    # An exact row of several people at one cell has one region, whose crowd stays 1: each row stands for its own
    # person.
    cells, number = np.unique(cell[exact], return_inverse=True)
    region[exact] = number + classes
    x, y = cells % width, cells // width
    box = np.concatenate([run.classes.box, np.stack([x, y, x, y], axis=1)]) + np.array([*positions.origin] * 2)
    return (
        region,
        instant,
        Regions(
            crowd=np.concatenate([run.classes.size, np.ones(len(cells), np.int32)]),
            subjects=np.ones(len(box), np.int32),
            bounds=(box + np.array([0, 0, 1, 1])) * run.data.grid_m,
            extra=np.where(np.arange(len(box)) < classes, 0, -1).astype(np.int32),
            extras=('{"cloaked": true}',),
        ),
    )


@compile_kernel
def _fill(
    x: Any, y: Any, of: Any, shown: Any, who: Any, offset: Any, width: Any, instant: Any, row_of: Any, cell: Any
) -> None:  # fmt: skip
    """Write of each row its instant, its class, and the number of its cell."""
    # Algorithm 4, line 7: D*(O, t) is lub(C), the rectangle of class of[O, t]. Where that is -1 it stays D(O, t), the
    # cell. Kept true: `row` is where the next instant of record r goes.
    for r in range(len(who)):
        i, row = who[r], offset[r]
        for t in range(shown.shape[1]):
            if shown[i, t]:
                instant[row] = t
                row_of[row] = of[i, t]
                cell[row] = np.int64(y[i, t]) * width + x[i, t]
                row += 1


def _list_periods(when: align.Instants, instant: NDArray[np.int32]) -> tuple[Int, NDArray[np.unsignedinteger[Any]]]:
    """Give the periods of the instants that rows are of, and the index of each row's."""
    used = np.bincount(instant, minlength=when.count) > 0
    start = when.start + np.flatnonzero(used) * when.step_s
    number = (np.cumsum(used) - 1).astype(np.min_scalar_type(len(start) - 1))
    return np.stack([start, start + when.step_s], axis=1), number[instant]


def _list_members(data: Trajectories, positions: Positions, who: Int) -> tuple[Int, Int]:
    """List the considered trajectories of each record's subject: record and trajectory id, sorted."""
    record = np.full(int(data.subject.max()) + 1, -1, np.int64)
    record[positions.subject[who]] = np.arange(len(who))
    of = record[data.subject]
    order = np.argsort(of, kind="stable")
    order = order[of[order] >= 0]
    return of[order] + 1, data.trajectory_id[order]


def _make_hiding(sets: Sets, who: Int) -> Hiding:
    """Give the hiding sets of records by record."""
    length = np.diff(sets.offset)
    record = np.full(len(length), -1, np.int64)
    record[who] = np.arange(len(who))
    owner = who[length[who] > 0]
    ends = np.concatenate([[0], np.cumsum(length[owner])])
    at = np.repeat(sets.offset[:-1][owner] - ends[:-1], length[owner]) + np.arange(ends[-1])
    return Hiding(record=record[owner] + 1, offset=ends, other=record[sets.other[at]] + 1)


def _count_suppressed(run: _Run, published: Bool, there: Bool) -> dict[str, Any]:
    """Count what is left out: subjects and quasi-identifiers by reason, and subjects by hour."""
    kept, when = run.sets.kept, run.positions.instants
    out = {"few_partners": ~kept, "never_generalised": kept & ~published}
    hour = (when.start + np.arange(when.count) * when.step_s) // 3600
    first = np.flatnonzero(np.diff(hour, prepend=hour[0] - 1))
    seen = np.logical_or.reduceat(there, first, axis=1)
    left_out = {reason: seen[which].sum(axis=0) for reason, which in out.items()}
    subjects = {reason: int(which.sum()) for reason, which in out.items()}
    return {
        "subjects": {"never_seen": len(np.setdiff1d(run.data.subject, run.positions.subject)), **subjects},
        "quasi_identifiers": dataclasses.asdict(run.dropped),
        "by_hour": count_by_hour(hour[first] * 3600, seen.sum(axis=0), seen[published].sum(axis=0), left_out),
    }


def _compute_metrics(run: _Run, rows: int) -> dict[str, float]:
    positions = run.positions
    return {
        "subjects": len(positions.subject),
        "instants": positions.instants.count,
        "quasi_identifiers": len(positions.instant),
        "rows": rows,
        **_classes.measure_classes(run.classes, rows, run.params.k, run.data.grid_m),
    }
