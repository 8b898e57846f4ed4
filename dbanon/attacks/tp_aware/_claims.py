"""Reads the parameters of a tp-aware run and its counts of what it left out, without any of the method's code."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dbanon.attacks import Evidence
from dbanon.attacks.shared.claims import (
    Hours,
    choice,
    considered_slots,
    count,
    demand_sane,
    get,
    in_slots,
    integer,
    length_m,
    moment,
    must,
    read_hours,
    reasons,
)
from dbanon.attacks.shared.replay import Timetable, slots
from dbanon.trajectory import Trajectories

_MOST_WINDOWS = 10_000_000
_COUNTS = ("instants", "seen", "present", "published")
_MALFORMED = (
    "What the run left out must be whole counts by reason and by window, each window of the timetable once; it is not."
)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The run's parameters, made sense of with the data: `cell_m` is the side of a cell."""

    k: int
    align: str
    max_gap_s: int
    cell_m: float
    min_contents: int
    timetable: Timetable


@dataclass(frozen=True, kw_only=True)
class Stated:
    """``run.suppressed``: subject-windows by reason, counts by window and hour, requests left out by reason."""

    subjects: Mapping[str, int]
    windows: Mapping[int, tuple[int, int, int, int]]
    hours: Hours
    requests: Mapping[str, int]


def read_rules(evidence: Evidence) -> Rules:
    """Make sense of the parameters and the data they go with.

    Raises
    ------
    UndecidableError
        If a parameter is missing or absurd, or there is nothing to attack.
    """
    demand_sane(evidence)
    params, data = evidence.params, evidence.trajectories
    length = integer(params, "instants", 1)
    step = in_slots(integer(params, "step_s", 1), "step_s", data.grid_s)
    since, until = considered_slots(params, data.grid_s)
    align, gap_s = choice(params, "align", ("last", "exact", "linear")), integer(params, "max_gap_s", 0)
    end = int(slots(data.t.max(keepdims=True), data.grid_s)[0]) + step
    if until is not None:
        end = min(end, until)  # every row ends before it
    first = _first(params, data, since)
    if first is None:
        first = _of_the_data(data, step, end, gap_s if align == "last" else None)
    must(since is None or first >= since, "The first instant must not lie before 'since'; it does.")
    instants = (end - first) // step
    must(instants > 0, "The first instant must not lie after the data; it does.")
    timetable = Timetable(grid_s=data.grid_s, first=first, step=step, count=instants, length=min(length, instants))
    must(timetable.windows <= _MOST_WINDOWS, f"A run must have {_MOST_WINDOWS} windows at most; it has more.")
    choice(params, "cloak", ("mbr", "quadrant"))
    return Rules(
        k=integer(params, "k", 2),
        align=align,
        max_gap_s=gap_s,
        cell_m=_cell_m(params, data.grid_m),
        min_contents=integer(params, "min_contents", 1),
        timetable=timetable,
    )


def _first(params: Mapping[str, Any], data: Trajectories, since: int | None) -> int | None:
    """Find the slot of the first instant if a parameter gives it."""
    if get(params, "start") is not None:
        return in_slots(moment(params, "start"), "start", data.grid_s)
    return since


def _of_the_data(data: Trajectories, step: int, end: int, gap_s: int | None) -> int:
    """Find the first instant from the data: a multiple of `step` slots, `gap_s` after the first slot if one ends then.

    `end` is the slot before which the last instant must end.
    """
    begin = int(slots(data.t.min(keepdims=True), data.grid_s)[0])
    if gap_s is not None:
        late = -(-(begin * data.grid_s + gap_s) // (step * data.grid_s)) * step
        if late + step <= end:
            return late
    return begin // step * step


def _cell_m(params: Mapping[str, Any], grid_m: float) -> float:
    value = length_m(params, "min_cloak_m")
    if value is None:
        return grid_m
    return float(max(1, math.ceil(value / grid_m - 1e-9)) * grid_m)


def read_stated(suppressed: Mapping[str, Any], timetable: Timetable) -> Stated:
    """Make sense of what the run says it left out.

    Raises
    ------
    UndecidableError
        If it is not what the method writes.
    """
    must(isinstance(suppressed, Mapping), _MALFORMED)
    windows: dict[int, tuple[int, int, int, int]] = {}
    listed = suppressed.get("windows")
    must(isinstance(listed, list | tuple), _MALFORMED)
    for entry in listed or ():
        must(isinstance(entry, Mapping), _MALFORMED)
        since_s = count(entry, "start", _MALFORMED, minimum=None) - timetable.first * timetable.grid_s
        index, rest = divmod(since_s, timetable.length * timetable.step_s)
        must(rest == 0 and 0 <= index < timetable.windows and index not in windows, _MALFORMED)
        instants, seen, present, published = (count(entry, name, _MALFORMED) for name in _COUNTS)
        windows[index] = (instants, seen, present, published)
    return Stated(
        subjects=reasons(suppressed, "subjects", _MALFORMED),
        windows=windows,
        hours=read_hours(suppressed),
        requests=reasons(suppressed, "requests", _MALFORMED) if "requests" in suppressed else {},
    )
