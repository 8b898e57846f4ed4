"""Reads the parameters of a tp-aware run and its counts of what it left out, without any of the method's code."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dbanon.attacks import Evidence
from dbanon.attacks.shared.instants import build_timetable
from dbanon.attacks.shared.replay import Timetable
from dbanon.attacks.shared.run_statements import (
    Hours,
    demand,
    demand_sane,
    read_choice,
    read_count,
    read_hours,
    read_integer,
    read_length_m,
    read_parameter,
    read_reasons,
)

_MAX_WINDOWS = 10_000_000
GUESTS = ("on", "off", "asked", "unknown")
"""Guests join; were not wanted; presence follows requests; there is no evidence that it does not."""
_COUNT_NAMES = ("instants", "seen", "present", "published")
_MALFORMED = (
    "The run's counts of rows left out must be whole, by reason and by window, each window of the timetable "
    "once. They are not."
)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The run's parameters, made sense of with the data: `cell_m` is the side of a cell."""

    k: int
    align: str
    max_gap_s: int
    cell_m: float
    min_contents: int
    guests: bool
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

    Raises `UndecidableError` if a parameter is missing or absurd, or there is nothing to attack.
    """
    demand_sane(evidence)
    params, data = evidence.params, evidence.trajectories
    instants = build_timetable(params, data, read_integer(params, "instants", 1))
    demand(instants.windows <= _MAX_WINDOWS, f"A run must have {_MAX_WINDOWS} windows at most. It has more.")
    read_choice(params, "cloak", ("mbr", "quadrant"))
    return Rules(
        k=read_integer(params, "k", 2),
        align=read_choice(params, "align", ("last", "exact", "linear")),
        max_gap_s=read_integer(params, "max_gap_s", 0),
        cell_m=_read_cell_m(params, data.grid_m),
        min_contents=read_integer(params, "min_contents", 1),
        guests=_read_guests(evidence),
        timetable=instants,
    )


def _read_guests(evidence: Evidence) -> bool:
    """Say whether the run let guests join: where it was asked to, and presence does not follow requests."""
    demand(isinstance(evidence.suppressed, Mapping), _MALFORMED)
    asked, found = read_parameter(evidence.params, "guests"), evidence.suppressed.get("guests")
    demand(isinstance(asked, bool), "The run's parameter 'guests' must be on or off. It is not.")
    demand(found in GUESTS and (asked or found == "off"), "A run must say whether it let guests join. It does not.")
    return found == "on" and evidence.params["cloak"] == "mbr"


def _read_cell_m(params: Mapping[str, Any], grid_m: float) -> float:
    value = read_length_m(params, "min_cloak_m")
    if value is None:
        return grid_m
    return float(max(1, math.ceil(value / grid_m - 1e-9)) * grid_m)


def read_stated(suppressed: Mapping[str, Any], times: Timetable) -> Stated:
    """Make sense of what the run says it left out; raises `UndecidableError` if it is not what the method writes."""
    demand(isinstance(suppressed, Mapping), _MALFORMED)
    windows: dict[int, tuple[int, int, int, int]] = {}
    listed = suppressed.get("windows")
    demand(isinstance(listed, list | tuple), _MALFORMED)
    for entry in listed or ():
        demand(isinstance(entry, Mapping), _MALFORMED)
        since_s = read_count(entry, "start", _MALFORMED, minimum=None) - times.first * times.grid_s
        index, rest = divmod(since_s, times.length * times.step_s)
        demand(rest == 0 and 0 <= index < times.windows and index not in windows, _MALFORMED)
        instants, seen, present, published = (read_count(entry, name, _MALFORMED) for name in _COUNT_NAMES)
        windows[index] = (instants, seen, present, published)
    return Stated(
        subjects=read_reasons(suppressed, "subjects", _MALFORMED),
        windows=windows,
        hours=read_hours(suppressed),
        requests=read_reasons(suppressed, "requests", _MALFORMED) if "requests" in suppressed else {},
    )
