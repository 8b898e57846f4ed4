"""From trajectories to rows: which samples are merged in which records, and what is published of it."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dbanon.base.cloaks import Cloaks, Hiding, count_by_hour, summarise_sides
from dbanon.base.errors import InfeasibleError, ParameterError, format_count
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.base.trajectory import Bool, Int, Trajectories
from dbanon.methods.kernels import align
from dbanon.methods.kernels.in_run_time import select_in_run_time
from dbanon.methods.kernels.order import rank_subjects
from dbanon.methods.kte import Parameters, _groups, _hide
from dbanon.methods.kte._samples import Merged, Samples, cut_windows, find_paths, snap_fixes


@dataclass(frozen=True, kw_only=True, eq=False)
class Published:
    """What an algorithm publishes."""

    group: Int  # [s]: index of the group of each subject (and window), who may be one alone; -1 for those without
    merged: Merged  # by group
    crowd: Int  # [g]
    records: Int  # [g]: how many records, all alike, each group has
    suppressed: Mapping[str, Any]  # as `Cloaks.suppressed`
    hiding: Hiding | None = None


def compute_cloaks(
    data: Trajectories, params: Parameters, rng: np.random.Generator, algorithm: str, tasks: Tasks = SERIAL_TASKS
) -> Cloaks:
    """Generalise trajectories; see `dbanon.methods.kte.anonymise`."""
    _demand_multiples(params, data)
    rank = rank_subjects(data, rng)
    data = select_in_run_time("kte", data, params.since, params.until)
    align.demand_sane_times(data)
    if data.subjects < params.k:
        raise InfeasibleError(
            f"A run of kte must have at least k = {params.k} people with fixes. Got {data.subjects}. Choose a lower "
            f"k, or another since or until."
        )
    known = snap_fixes(data, params.grid_s, params.grid_m)
    known = cut_windows(known, params.window_s) if params.window_s else known
    result = ALGORITHMS[algorithm](known, params, rank, rng, tasks)
    if not len(result.merged.first):
        raise InfeasibleError(
            f"A run of kte must leave some people to publish. With {algorithm} and k = {params.k} all of the "
            f"{format_count(data.subjects, 'person', 'people')} are left out. Choose a lower k, a longer "
            f"{'leak_s' if algorithm == 'kte-hide' else 'window_s'}, or another algorithm."
        )
    return _make_cloaks(data, known, result)


def prepare(params: Parameters, algorithm: str) -> None:
    """Publish a dozen made-up people: what is compiled is what a run needs, for its types."""
    people, fixes = 13, 8  # one is left over by groups of two or three
    data = Trajectories(
        trajectory_id=np.arange(people),
        subject=np.arange(people),
        offset=np.arange(people + 1) * fixes,
        t=np.tile(np.arange(fixes) * 60.0, people) + np.repeat(np.arange(people) * 7.0, fixes),
        x=np.repeat(np.arange(people) * 30.0, fixes),
        y=np.tile(np.arange(fixes) * 20.0, people),
        srid=0,
        grid_m=1.0,
        grid_s=1,
    )
    few = dataclasses.replace(
        params,
        k=min(params.k, 3),
        tau_s=600,
        leak_s=600,
        grid_s=60,
        grid_m=100.0,
        window_s=None,
        since=None,
        until=None,
    )
    compute_cloaks(data, few, np.random.default_rng(0), algorithm)
    if algorithm == "k-merge":
        _groups.prepare(snap_fixes(data, few.grid_s, few.grid_m), few.k)


def _demand_multiples(params: Parameters, data: Trajectories) -> None:
    """Raise `ParameterError` where a grid or time is not a multiple of the one that it is counted in."""
    demanded: list[tuple[str, float, str, float]] = [("grid_s", params.grid_s, "the dataset's grid_s", data.grid_s)]
    demanded += [("grid_m", params.grid_m, "the dataset's grid_m", data.grid_m)]
    for name in ("since", "until"):
        time = getattr(params, name)
        demanded += [(name, time, "grid_s", params.grid_s)] if time is not None else []
    for name, value, what, unit in demanded:
        times = round(value / unit)
        if abs(value / unit - times) > 1e-9 or (times < 1 and name not in ("since", "until")):
            raise ParameterError(
                f"The '{name}' parameter of kte must be a multiple of {what}, {unit:.12g}. Got {value:.12g} instead."
            )


# ---- algorithms ------------------------------------------------------------------------------------------------------


def _compute_k_merge(
    known: Samples, params: Parameters, rank: Int, rng: np.random.Generator, tasks: Tasks
) -> Published:
    group = _groups.group(known, params.k, rank, rng, improve=params.improve, tasks=tasks)
    return describe_groups(known, group, _groups.merge_groups(known, group, tasks))


def describe_groups(known: Samples, group: Int, merged: Merged, reason: str = "window_below_k") -> Published:
    """Publish one record a member, all of a group alike; the others are left out for one reason."""
    crowd = np.bincount(group[group >= 0], minlength=len(merged.offset) - 1)
    lost = np.diff(known.offset)[group < 0]
    suppressed = {
        "samples": {reason: int(lost.sum())},
        "subjects": {reason: len(lost)},
        "by_hour": count_people(known, group < 0, reason),
    }
    return Published(group=group, merged=merged, crowd=crowd, records=crowd, suppressed=suppressed)


def count_people(known: Samples, out: Bool, reason: str) -> list[dict[str, Any]]:
    """Count people once in each window, or for the whole time from its first slot with samples."""
    ends = known.window_ends
    first = np.array([known.slot.min()]) * known.grid_s
    start_s = first if known.window is None else known.window[ends[:-1]] * (known.window_s or 0)
    seen, lost = np.diff(ends), np.add.reduceat(out, ends[:-1], dtype=np.int64)
    return count_by_hour(start_s, seen, seen - lost, {reason: lost})


def _compute_kte_hide(
    known: Samples, params: Parameters, rank: Int, rng: np.random.Generator, tasks: Tasks
) -> Published:
    hidden = _hide.hide(known, params, rank, rng, tasks=tasks)
    published = np.flatnonzero(np.diff(hidden.merged.offset) > 0)
    published = published[np.argsort(rank[known.subject[published]])]
    record = np.full(len(known.subject), -1, np.int64)
    record[published] = np.arange(len(published))
    order = np.lexsort((hidden.start_s, record[hidden.owner]))
    sets, others = _select_sets(hidden.other_offset, record[hidden.other] + 1, order)
    hiding = Hiding(
        record=record[hidden.owner][order] + 1,
        offset=sets,
        other=others,
        start=hidden.start_s[order],
        end=hidden.end_s[order],
    )
    return Published(
        group=record,
        merged=select_records(hidden.merged, published),
        crowd=np.full(len(published), params.k),
        records=np.ones(len(published), np.int64),
        suppressed=_count_suppressed(hidden, record, params.leak_s),
        hiding=hiding,
    )


def _count_suppressed(hidden: _hide.Hidden, record: Int, leak_s: int) -> dict[str, Any]:
    """Count samples and people left out by reason, and people by epoch."""
    length = hidden.run_end - hidden.run_begin
    # Not the epochs in which nobody is: one wild time makes millions of them.
    started, epoch = np.unique(hidden.run_epoch, return_inverse=True)
    epochs, kept = len(started), hidden.kept
    out = {name: ~kept & (hidden.reason == number) for number, name in enumerate(_hide.REASONS)}
    silent = record < 0
    # A subject of whom nothing is published counts under the reason for its first samples.
    begin = np.searchsorted(hidden.run_subject, np.flatnonzero(silent))
    return {
        "samples": {name: int(length[which].sum()) for name, which in out.items()},
        "subjects": {name: int(which[begin].sum()) for name, which in out.items()},
        "by_hour": count_by_hour(
            started * leak_s,
            np.bincount(epoch, minlength=epochs),
            np.bincount(epoch[kept], minlength=epochs),
            {name: np.bincount(epoch[which], minlength=epochs) for name, which in out.items()},
        ),
    }


ALGORITHMS: dict[str, Callable[[Samples, Parameters, Int, np.random.Generator, Tasks], Published]] = {
    "kte-hide": _compute_kte_hide,
    "k-merge": _compute_k_merge,
}


# ---- rows ------------------------------------------------------------------------------------------------------------


def select_records(merged: Merged, records: Int) -> Merged:
    """Put records in another order, or leave some out."""
    offset, rows = _select_sets(merged.offset, np.arange(len(merged.first)), records)
    return Merged(offset=offset, first=merged.first[rows], last=merged.last[rows], box=merged.box[rows])


def _select_sets(offset: Int, values: Int, order: Int) -> tuple[Int, Int]:
    """Put the parts of a ragged array in another order, or leave some out."""
    length = np.diff(offset)[order]
    ends = np.concatenate([[0], np.cumsum(length)])
    at = np.repeat(offset[:-1][order] - ends[:-1], length) + np.arange(ends[-1])
    return ends, values[at]


def _make_cloaks(data: Trajectories, known: Samples, result: Published) -> Cloaks:
    """Make rows of what is published."""
    group = np.repeat(np.arange(len(result.records)), result.records)
    merged = select_records(result.merged, group)
    row = np.repeat(np.arange(len(group)), np.diff(merged.offset))
    path, subject = find_paths(data, known)
    own = result.group[subject]
    order = np.lexsort((data.trajectory_id[path], own))
    order = order[own[order] >= 0]
    # Each record of a group has all trajectories of the group.
    paths = np.searchsorted(own[order], np.arange(len(result.records) + 1))
    members, trajectory = _select_sets(paths, data.trajectory_id[path[order]], group)
    box = merged.box + np.array([0, 0, 1, 1])
    return Cloaks.from_rows(
        record_id=row + 1,
        start=merged.first * known.grid_s,
        end=(merged.last + 1) * known.grid_s,
        bounds=box * known.grid_m,
        crowd=result.crowd[group][row],
        subjects=np.ones(len(row), np.int64),
        member_record=np.repeat(np.arange(len(group)), np.diff(members)) + 1,
        member_trajectory=trajectory,
        hiding=result.hiding,
        suppressed=result.suppressed,
        metrics=_compute_metrics(known, result, merged, box),
    )


def _compute_metrics(known: Samples, result: Published, merged: Merged, box: Int) -> dict[str, float]:
    """Measure the granularity of rows (space: the sum of both spans, as in the paper), and what is left out."""
    wide, high = (box[:, 2:] - box[:, :2]).T * known.grid_m
    long_s = (merged.last - merged.first + 1) * known.grid_s
    lost = sum(result.suppressed["samples"].values())
    return {
        "records": len(merged.offset) - 1,
        "rows": len(box),
        "samples": len(known.slot),
        "suppressed_percent": 100 * lost / len(known.slot),
        **_summarise_values("space_m", wide + high),
        **_summarise_values("time_s", long_s),
        **summarise_sides(wide, high),
        "median_diagonal_m": float(np.median(np.hypot(wide, high))),
    }


def _summarise_values(name: str, values: Any) -> dict[str, float]:
    quarter, half, three = np.quantile(values, [0.25, 0.5, 0.75])
    figures = {"mean": values.mean(), "quarter": quarter, "median": half, "three_quarters": three}
    return {f"{name}_{figure}": float(value) for figure, value in figures.items()}
