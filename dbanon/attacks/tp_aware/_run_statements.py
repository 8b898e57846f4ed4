"""Reads the parameters of a tp-aware run and its counts of what it left out, without any of the method's code."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dbanon.attacks import Evidence
from dbanon.attacks.shared import run_statements as run
from dbanon.attacks.shared.instants import build_timetable
from dbanon.attacks.shared.replay import Timetable

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
    hours: run.Hours
    requests: Mapping[str, int]


def read_rules(evidence: Evidence) -> Rules:
    """Make sense of the parameters and the data they go with.

    Raises `UndecidableError` if a parameter is missing or absurd, or there is nothing to attack.
    """
    run.demand_sane(evidence)
    params, data = evidence.params, evidence.trajectories
    instants = build_timetable(params, data, run.read_integer(params, "instants", 1))
    run.demand(instants.windows <= _MAX_WINDOWS, f"A run must have {_MAX_WINDOWS} windows at most. It has more.")
    run.read_choice(params, "cloak", ("mbr", "quadrant"))
    return Rules(
        k=run.read_integer(params, "k", 2),
        align=run.read_choice(params, "align", ("last", "exact", "linear")),
        max_gap_s=run.read_integer(params, "max_gap_s", 0),
        cell_m=_read_cell_m(params, data.grid_m),
        min_contents=run.read_integer(params, "min_contents", 1),
        guests=_read_guests(evidence),
        timetable=instants,
    )


def _read_guests(evidence: Evidence) -> bool:
    """Say whether the run let guests join: where it was asked to, and presence does not follow requests."""
    run.demand(isinstance(evidence.suppressed, Mapping), _MALFORMED)
    asked, found = run.read_parameter(evidence.params, "guests"), evidence.suppressed.get("guests")
    run.demand(isinstance(asked, bool), "The run's parameter 'guests' must be on or off. It is not.")
    run.demand(found in GUESTS and (asked or found == "off"), "A run must say whether it let guests join. It does not.")
    return found == "on" and evidence.params["cloak"] == "mbr"


def _read_cell_m(params: Mapping[str, Any], grid_m: float) -> float:
    value = run.read_length_m(params, "min_cloak_m")
    if value is None:
        return grid_m
    return float(max(1, math.ceil(value / grid_m - 1e-9)) * grid_m)


def read_stated(suppressed: Mapping[str, Any], times: Timetable) -> Stated:
    """Make sense of what the run says it left out; raises `UndecidableError` if it is not what the method writes."""
    run.demand(isinstance(suppressed, Mapping), _MALFORMED)
    windows: dict[int, tuple[int, int, int, int]] = {}
    listed = suppressed.get("windows")
    run.demand(isinstance(listed, list | tuple), _MALFORMED)
    for entry in listed or ():
        run.demand(isinstance(entry, Mapping), _MALFORMED)
        since_s = run.read_count(entry, "start", _MALFORMED, minimum=None) - times.first * times.grid_s
        index, rest = divmod(since_s, times.length * times.step_s)
        run.demand(rest == 0 and 0 <= index < times.windows and index not in windows, _MALFORMED)
        instants, seen, present, published = (run.read_count(entry, name, _MALFORMED) for name in _COUNT_NAMES)
        windows[index] = (instants, seen, present, published)
    return Stated(
        subjects=run.read_reasons(suppressed, "subjects", _MALFORMED),
        windows=windows,
        hours=run.read_hours(suppressed),
        requests=run.read_reasons(suppressed, "requests", _MALFORMED) if "requests" in suppressed else {},
    )
