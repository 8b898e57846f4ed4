"""Reads what a sensitive-sites run promised and left out, and derives from the data where every subject was."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dbanon.attacks.sensitive_sites.evidence import SiteEvidence
from dbanon.attacks.shared import run_statements as run
from dbanon.attacks.shared.keys import find, sort_distinct
from dbanon.attacks.shared.rectangles import FURTHEST_CELL, find_cells
from dbanon.attacks.shared.replay import Timetable, find_end_slots, number_slots, replay
from dbanon.base.trajectory import Bool, Float, Int, Trajectories

_MALFORMED = (
    "The run's counts of rows left out must be whole counts of people by reason and hour, and nothing else. They are "
    "not."
)
_TOO_FAR = "Every coordinate must be so small that its cell can be numbered exactly. Some are not."
_MALFORMED_SHAPES = "Every shape must belong to a trajectory of one fix. Some do not."
ABSENT = "absent_at_instant"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The run's parameters, made sense of with the data: `at` is a slot, None if each subject has one fix."""

    k: int
    at: int | None
    max_gap_s: int
    guard_m: float
    guard_inside: bool


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Where every subject is, and when that is."""

    subject: Int  # [u]: codes of the subjects seen in the hour of the snapshot or with a position in it, ascending
    there: Bool  # [u]: whether the subject has a position
    cells: Int  # [u, 4]: arbitrary where it has none
    supplier: Int  # [u]: index of the trajectory (into ``Trajectories.trajectory_id``) that supplies the position
    start_s: int  # start_s, end_s: the period, in unix seconds
    end_s: int


def read_rules(evidence: SiteEvidence) -> Rules:
    """Make sense of the parameters and the data they go with.

    Raises `UndecidableError` if a parameter is missing or absurd, or data and pairs do not go together.
    """
    run.demand_sane(evidence)
    params, data, sites = evidence.params, evidence.trajectories, evidence.sites
    run.demand(len(sites.site_id) > 0, "The dataset must hold a sensitive site to attack at. It holds none.")
    run.demand(bool((find(data.trajectory_id, sites.shape_trajectory) >= 0).all()), _MALFORMED_SHAPES)
    run.demand(_is_near(sites.site_bounds, data.grid_m) and _is_near(sites.shape_bounds, data.grid_m), _TOO_FAR)
    _demand_pairs(evidence)
    at = run.read_parameter(params, "at")
    at = None if at is None else run.count_slots(run.read_moment(params, "at"), "at", data.grid_s)
    since, until = run.read_considered_slots(params, data.grid_s)
    is_within = at is None or ((since is None or at >= since) and (until is None or at < until))
    run.demand(is_within, "The instant 'at' must lie in the time from 'since' to 'until'. It does not.")
    return Rules(
        k=run.read_integer(params, "k", 2),
        at=at,
        max_gap_s=run.read_integer(params, "max_gap_s", 0),
        guard_m=run.read_length_m(params, "guard_m") or 0.0,
        guard_inside=run.read_switch(params, "guard_inside"),
    )


def _is_near(metres: Float, grid_m: float) -> bool:
    return not metres.size or max(-float(metres.min()), float(metres.max())) / grid_m < FURTHEST_CELL


def _demand_pairs(evidence: SiteEvidence) -> None:
    cells = find_cells(evidence.sites.site_bounds, evidence.trajectories.grid_m)
    # Sites come by id, so the first in its cells is the one that the join was asked for.
    first = np.unique(cells, axis=0, return_index=True)[1]
    are_first = bool(np.isin(evidence.pair_site, evidence.sites.site_id[first]).all())
    run.demand(
        are_first,
        "Every pair of the spatial join must have a site of the dataset, the first in its cells. Some do not.",
    )
    are_counted = bool((evidence.pair_rows >= 1).all() and (evidence.pair_squared >= 0).all())
    run.demand(are_counted, "Every pair of the spatial join must have rows and a distance. Some do not.")


def read_stated(suppressed: Mapping[str, object]) -> tuple[dict[str, int], run.Hours]:
    """Make sense of what the run says it left out: subjects by reason, and by hour.

    Raises `UndecidableError` if it is not what the method writes.
    """
    run.demand(isinstance(suppressed, Mapping) and suppressed.keys() <= {"subjects", "by_hour"}, _MALFORMED)
    stated = run.read_reasons(suppressed, "subjects", _MALFORMED) if "subjects" in suppressed else {}
    return stated, run.read_hours(suppressed)


def find_snapshot(evidence: SiteEvidence, in_run_time: Trajectories, rules: Rules) -> Snapshot:
    """Find where every subject is: in the slot `at`, or at the only fix; `in_run_time`: those of the run's time.

    Raises `UndecidableError` if cells cannot be numbered, a shape is of several fixes, or subjects have several.
    """
    every, data, shapes = evidence.trajectories, in_run_time, evidence.sites
    run.demand(_is_near(every.x, every.grid_m) and _is_near(every.y, every.grid_m), _TOO_FAR)
    own = find(every.trajectory_id, shapes.shape_trajectory)
    run.demand(bool((np.diff(every.offset)[own] == 1).all()), _MALFORMED_SHAPES)
    if rules.at is None:
        are_single = bool((np.bincount(data.subject, weights=np.diff(data.offset)) <= 1).all())
        run.demand(are_single, "Without 'at' every person must have exactly one fix. Some have more.")
        supplier = np.argsort(data.subject, kind="stable")  # fixes are numbered as trajectories are
        subject, there = data.subject[supplier], np.ones(len(supplier), dtype=bool)
        x, y, (first, last) = data.x[supplier], data.y[supplier], find_end_slots(data)
    else:
        subject, there, supplier, x, y = _find_subjects_at(data, rules.at, rules.max_gap_s)
        first = last = rules.at
    cells = find_cells(np.stack((x, y, x, y), axis=1), data.grid_m)
    # A subject with a shape is represented by its rectangle (section 2.1), not by the cell of its fix.
    shape = np.full(len(data.trajectory_id), -1)
    known = find(data.trajectory_id, shapes.shape_trajectory)  # -1: of a trajectory outside the run's time
    shape[known[known >= 0]] = np.flatnonzero(known >= 0)
    shaped = np.flatnonzero(there & (shape[supplier] >= 0))
    cells[shaped] = find_cells(shapes.shape_bounds[shape[supplier[shaped]]], data.grid_m)
    return Snapshot(
        subject=subject,
        there=there,
        cells=cells,
        supplier=supplier,
        start_s=first * data.grid_s,
        end_s=(last + 1) * data.grid_s,
    )


def _find_subjects_at(data: Trajectories, at: int, max_gap_s: int) -> tuple[Int, Bool, Int, Float, Float]:
    """Give each subject, whether it has a `last` fix at a slot, whose trajectory's by index, and where."""
    # Whose other fixes are of another hour (UTC) is not looked for.
    hour = at * data.grid_s // 3600 * 3600
    slot_s = number_slots(data.t, data.grid_s) * data.grid_s
    looked = (slot_s >= min(hour, at * data.grid_s - max_gap_s)) & (slot_s < hour + 3600)
    subject = sort_distinct(data.subject[np.repeat(np.arange(len(data.subject)), np.diff(data.offset))[looked]])
    there, supplier = np.zeros(len(subject), dtype=bool), np.zeros(len(subject), dtype=np.int64)
    x, y = np.zeros((2, len(subject)))
    instant = Timetable(grid_s=data.grid_s, first=at, step=1, count=1, length=1)
    for sighting in replay(data, instant, "last", max_gap_s):
        seen = sighting.there[:, 0]  # who has a position is one of those looked for
        who = np.searchsorted(subject, sighting.subject[seen])
        there[who], supplier[who] = True, sighting.before[seen, 0]
        x[who], y[who] = sighting.x[seen, 0], sighting.y[seen, 0]
    return subject, there, supplier, x, y
