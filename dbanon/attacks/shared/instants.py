"""Shared by the attacks on families whose rows are about instants: which instants a run has."""

from collections.abc import Mapping
from typing import Any

from dbanon.attacks.shared import run_statements as run
from dbanon.attacks.shared.replay import Timetable, find_end_slots
from dbanon.base.trajectory import Trajectories


def build_timetable(params: Mapping[str, Any], data: Trajectories, length: int) -> Timetable:
    """Lay out the instants of a run anew, in windows of `length` instants, or fewer where there are fewer.

    Parameters
    ----------
    params : mapping
        The run's.
    data : Trajectories
        With a fix at least, and none at or after the run's `until`.

    Raises `UndecidableError` if a parameter is missing or absurd, or there is no instant.
    """
    step = run.count_slots(run.read_integer(params, "step_s", 1), "step_s", data.grid_s)
    since, until = run.read_considered_slots(params, data.grid_s)
    align = run.read_choice(params, "align", ("last", "exact", "linear"))
    gap_s = run.read_integer(params, "max_gap_s", 0)
    end = find_end_slots(data)[1] + step
    if until is not None:
        end = min(end, until)  # every row ends before it
    first = _read_first_slot(params, data, since)
    if first is None:
        first = _derive_first_slot(data, step, end, gap_s if align == "last" else None)
    run.demand(since is None or first >= since, "The first instant must not lie before 'since'. It does.")
    instants = (end - first) // step
    run.demand(instants > 0, "The first instant must not lie after the data. It does.")
    return Timetable(grid_s=data.grid_s, first=first, step=step, count=instants, length=min(length, instants))


def _read_first_slot(params: Mapping[str, Any], data: Trajectories, since: int | None) -> int | None:
    """Find the slot of the first instant if a parameter gives it."""
    if run.read_parameter(params, "start") is not None:
        return run.count_slots(run.read_moment(params, "start"), "start", data.grid_s)
    return since


def _derive_first_slot(data: Trajectories, step: int, end: int, gap_s: int | None) -> int:
    """Find the first instant from the data: a multiple of `step` slots, `gap_s` after the first slot if one ends then.

    `end` is the slot before which the last instant must end.
    """
    begin, _ = find_end_slots(data)
    if gap_s is not None:
        # Rounded up: subjects with a fix every `gap_s` have one by then, and are not absent from the first instants.
        late = -(-(begin * data.grid_s + gap_s) // (step * data.grid_s)) * step
        if late + step <= end:
            return late
    return begin // step * step
