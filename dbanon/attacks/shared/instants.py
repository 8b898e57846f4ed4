"""Shared by the attacks on families whose rows are about instants: which instants a run has."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dbanon.attacks.shared.apart import find_ends
from dbanon.attacks.shared.claims import choice, considered_slots, get, in_slots, integer, moment, must
from dbanon.attacks.shared.replay import Timetable, slots
from dbanon.base.trajectory import Trajectories


def timetable(params: Mapping[str, Any], data: Trajectories, length: int) -> Timetable:
    """Lay out the instants of a run anew, in windows of `length` instants, or fewer where there are fewer.

    Parameters
    ----------
    params : mapping
        The run's.
    data : Trajectories
        With a fix at least, and none at or after the run's `until`.

    Raises
    ------
    UndecidableError
        If a parameter is missing or absurd, or there is no instant.
    """
    step = in_slots(integer(params, "step_s", 1), "step_s", data.grid_s)
    since, until = considered_slots(params, data.grid_s)
    align, gap_s = choice(params, "align", ("last", "exact", "linear")), integer(params, "max_gap_s", 0)
    end = int(slots(np.array(find_ends(data)), data.grid_s)[1]) + step
    if until is not None:
        end = min(end, until)  # every row ends before it
    first = _first(params, data, since)
    if first is None:
        first = _of_the_data(data, step, end, gap_s if align == "last" else None)
    must(since is None or first >= since, "The first instant must not lie before 'since'. It does.")
    instants = (end - first) // step
    must(instants > 0, "The first instant must not lie after the data. It does.")
    return Timetable(grid_s=data.grid_s, first=first, step=step, count=instants, length=min(length, instants))


def _first(params: Mapping[str, Any], data: Trajectories, since: int | None) -> int | None:
    """Find the slot of the first instant if a parameter gives it."""
    if get(params, "start") is not None:
        return in_slots(moment(params, "start"), "start", data.grid_s)
    return since


def _of_the_data(data: Trajectories, step: int, end: int, gap_s: int | None) -> int:
    """Find the first instant from the data: a multiple of `step` slots, `gap_s` after the first slot if one ends then.

    `end` is the slot before which the last instant must end.
    """
    begin = int(slots(np.array(find_ends(data)), data.grid_s)[0])
    if gap_s is not None:
        # Rounded up: subjects with a fix every `gap_s` have one by then, and are not absent from the first instants.
        late = -(-(begin * data.grid_s + gap_s) // (step * data.grid_s)) * step
        if late + step <= end:
            return late
    return begin // step * step
