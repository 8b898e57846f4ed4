"""Shared by the attacks: checked access to a run's parameters and counts.

What makes no sense raises `UndecidableError`, whose text is the sentence of the clause `decidable`.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from dbanon.attacks import Evidence, Kind
from dbanon.attacks.shared.replay import find_end_slots, select_slots
from dbanon.base.trajectory import Bool, Float, Int, Trajectories

_MALFORMED_HOURS = "The run's counts of people left out by hour must be whole, each hour once. They are not."
LARGEST_NUMBER = 1e12  # times beyond this are no unix seconds, and no parameter is larger


class UndecidableError(Exception):
    """The evidence does not say what must hold; its text is the clause's sentence."""


def demand(holds: bool, sentence: str) -> None:
    """Raise `UndecidableError` with a sentence unless a condition holds."""
    if not holds:
        raise UndecidableError(sentence)


def demand_sane(evidence: Evidence) -> None:
    """Demand data and rows, and times and grids to compute with."""
    data = evidence.trajectories
    demand(len(data.trajectory_id) > 0, "The dataset must hold a trajectory to attack with. It holds none.")
    demand(evidence.rows > 0, "The run must hold a row to attack. It holds none.")
    demand(bool((np.diff(evidence.offset) > 0).all()), "Every record must have a row. Some have none.")
    are_positive = math.isfinite(data.grid_m) and data.grid_m > 0 and data.grid_s > 0
    demand(are_positive, "The dataset's grids must be positive. They are not.")
    are_unix_s = max(-float(data.times.min()), float(data.times.max())) <= LARGEST_NUMBER
    demand(are_unix_s, "Every time must be in unix seconds. Some are too large to be.")
    demand(isinstance(evidence.params, Mapping), "The run's parameters must be a JSON object. They are not.")


def read_parameter(params: Mapping[str, Any], name: str) -> Any:
    """Look up a parameter, which must be stored even where it is left at its default."""
    demand(name in params, f"The run must say its parameter '{name}'. It does not.")
    return params[name]


def read_integer(params: Mapping[str, Any], name: str, minimum: int) -> int:
    """Look up a whole number."""
    value = read_parameter(params, name)
    is_whole = isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= LARGEST_NUMBER
    demand(is_whole, f"The run's parameter '{name}' must be an integer >= {minimum}. It is not.")
    return int(value)


def read_length_m(params: Mapping[str, Any], name: str) -> float | None:
    """Look up a length in metres, or null."""
    value = read_parameter(params, name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    demand(
        is_number and 0 <= value <= LARGEST_NUMBER,
        f"The run's parameter '{name}' must be a length in metres. It is not.",
    )
    return float(value)


def read_switch(params: Mapping[str, Any], name: str) -> bool:
    """Look up a JSON boolean."""
    value = read_parameter(params, name)
    demand(isinstance(value, bool), f"The run's parameter '{name}' must be true or false. It is not.")
    return bool(value)


def read_choice(params: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str:
    """Look up one of several texts."""
    value = read_parameter(params, name)
    is_known = isinstance(value, str) and value in choices
    demand(is_known, f"The run's parameter '{name}' must be one of {', '.join(choices)}. It is not.")
    return str(value)


def read_moment(params: Mapping[str, Any], name: str) -> int:
    """Look up a time: unix seconds or ISO 8601, as whole unix seconds."""
    seconds = _parse_unix_s(read_parameter(params, name))
    if seconds is None or not abs(seconds) <= LARGEST_NUMBER or not seconds.is_integer():
        raise UndecidableError(f"The run's parameter '{name}' must be a time in whole seconds. It is not.")
    return int(seconds)


def _parse_unix_s(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        pass
    except OverflowError:
        return None
    try:
        read = datetime.fromisoformat(str(value).strip())
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def count_slots(seconds: int, name: str, grid_s: int) -> int:
    """Count the slots of a parameter in seconds."""
    demand(
        seconds % grid_s == 0, f"The run's parameter '{name}' must be a multiple of the dataset's grid_s. It is not."
    )
    return seconds // grid_s


def read_considered_slots(params: Mapping[str, Any], grid_s: int) -> tuple[int | None, int | None]:
    """Look up the slots from which (`since`) and before which (`until`) a run considers the data; None: all."""
    since, until = (
        None if read_parameter(params, name) is None else count_slots(read_moment(params, name), name, grid_s)
        for name in ("since", "until")
    )
    return since, until


def read_own_slots(params: Mapping[str, Any], grid_s: int) -> tuple[int | None, int | None]:
    """Look up the slots of the own time of a run about instants: it begins at `start` where `since` is not given."""
    since, until = read_considered_slots(params, grid_s)
    if since is None and read_parameter(params, "start") is not None:
        since = count_slots(read_moment(params, "start"), "start", grid_s)
    return since, until


def is_in_own_time(t: Float, data: Trajectories, params: Mapping[str, Any]) -> Bool:
    """Say which times lie in the own time of a run about instants: bool[n].

    Without `since` and `start` it begins with the first fix, without `until` it ends a step after the last one's slot.
    """
    first, end = read_own_slots(params, data.grid_s)
    known, latest = find_end_slots(data)
    begin_s = (known if first is None else first) * data.grid_s
    end_s = latest * data.grid_s + read_integer(params, "step_s", 1) if end is None else end * data.grid_s
    return (t >= begin_s) & (t < end_s)


def select_in_run_time(evidence: Kind, *, cuts_at_since: bool = True) -> Kind:
    """Leave out the data beyond the run's `until` and, unless that is False, the data from before its `since`."""
    demand_sane(evidence)
    data = evidence.trajectories
    first, end = read_considered_slots(evidence.params, data.grid_s)
    if end is None and (first is None or not cuts_at_since):
        return evidence
    data = select_slots(data, first if cuts_at_since else None, end)
    demand(len(data.trajectory_id) > 0, "The time the run considers must hold a fix to attack with. It holds none.")
    return replace(evidence, trajectories=data)


def read_reasons(suppressed: Mapping[str, Any], what: str, otherwise: str) -> dict[str, int]:
    """Look up counts by reason; `otherwise` is the sentence if they are none."""
    counts = suppressed.get(what)
    if not isinstance(counts, Mapping):
        raise UndecidableError(otherwise)
    return {str(reason): read_count(counts, reason, otherwise) for reason in counts}


def read_count(entry: Mapping[str, Any], name: str, otherwise: str, *, minimum: int | None = 0) -> int:
    """Look up a whole number that JSON may hold as 3.0; `otherwise` is the sentence if it is none."""
    value = entry.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or (minimum is not None and value < minimum):
        raise UndecidableError(otherwise)
    return value


Hours = Mapping[str, Mapping[str, int]]
"""Counts by hour ("2008-06-04T08:00Z") and name: ``seen``, ``published``, ``left_out <reason>``; none is zero."""


def read_hours(suppressed: Mapping[str, Any]) -> Hours:
    """Look up what a run says it left out by hour.

    Raises `UndecidableError` if it is no list of whole counts by distinct hours.
    """
    listed = suppressed.get("by_hour", [])
    demand(isinstance(listed, list | tuple), _MALFORMED_HOURS)
    stated: dict[str, dict[str, int]] = {}
    for entry in listed or ():
        demand(
            isinstance(entry, Mapping) and isinstance(entry.get("hour"), str) and entry["hour"] not in stated,
            _MALFORMED_HOURS,
        )
        counts = {name: read_count(entry, name, _MALFORMED_HOURS) for name in ("seen", "published")}
        left_out = read_reasons(entry, "left_out", _MALFORMED_HOURS)
        stated[entry["hour"]] = _drop_zeros(
            {**counts, **{f"left_out {name}": number for name, number in left_out.items()}}
        )
    return stated


def merge_reasons(stated: Hours) -> Hours:
    """Add up what was left out for all reasons, as ``left_out``: the rows do not show why a subject was left out."""
    summed: dict[str, dict[str, int]] = {}
    for hour, counts in stated.items():
        summed[hour] = {name: number for name, number in counts.items() if not name.startswith("left_out ")}
        if left_out := sum(number for name, number in counts.items() if name.startswith("left_out ")):
            summed[hour]["left_out"] = left_out
    return summed


def count_misstated_hours(stated: Hours, start_s: Int, actual: Mapping[str, Int]) -> int:
    """Count the hours of which a run says something else than the data do.

    Parameters
    ----------
    start_s : int64[w]
        When each window begins.
    actual : mapping of int64[w]
        How many there were in it, by the names of `Hours`.
    """
    hours, of = np.unique(start_s // 3600, return_inverse=True)
    names = np.datetime_as_string((hours * 60).astype("datetime64[m]")).tolist()
    totals = {name: np.bincount(of, counts, len(hours)).astype(np.int64).tolist() for name, counts in actual.items()}
    due = {
        f"{hour}Z": _drop_zeros({name: total[at] for name, total in totals.items()}) for at, hour in enumerate(names)
    }
    return sum(due.get(hour, {}) != stated.get(hour, {}) for hour in due.keys() | stated.keys())


def _drop_zeros(counts: Mapping[str, int]) -> dict[str, int]:
    """Drop what is zero: it need not be listed."""
    return {name: number for name, number in counts.items() if number}
