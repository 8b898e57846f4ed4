"""What a tp-aware run promised and what it says it left out, made sense of without any of the method's code.

What makes no sense raises `UndecidableError`, whose text is the sentence of the clause `decidable`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dbanon.attacks import Evidence
from dbanon.attacks._replay import Timetable, slots
from dbanon.trajectory import Trajectories

_LATEST_S = 1e12  # times beyond this are no unix seconds
_MOST_WINDOWS = 10_000_000
_COUNTS = ("instants", "seen", "present", "published")
_MALFORMED = (
    "What the run left out must be whole counts by reason and by window, each window of the timetable once; it is not."
)


class UndecidableError(Exception):
    """The evidence does not say what must hold; its text is the clause's sentence."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The run's parameters, made sense of with the data: `cell_m` is the side of a cell."""

    k: int
    align: str
    max_gap_s: int
    cell_m: float
    timetable: Timetable


@dataclass(frozen=True, kw_only=True)
class Stated:
    """``run.suppressed``: subject-windows by reason, counts by a window's start, requests left out (None: not said)."""

    subjects: Mapping[str, int]
    windows: Mapping[int, tuple[int, int, int, int]]
    requests: int | None


def _sane(evidence: Evidence) -> None:
    data = evidence.trajectories
    _must(len(data.trajectory_id) > 0, "The dataset must hold a trajectory to attack with; it holds none.")
    _must(len(evidence.cloak_record) > 0, "The run must hold a row to attack; it holds none.")
    grids = math.isfinite(data.grid_m) and data.grid_m > 0 and data.grid_s > 0
    _must(grids, "The dataset's grids must be positive; they are not.")
    times = max(-float(data.t.min()), float(data.t.max())) <= _LATEST_S
    _must(times, "Every time must be in unix seconds; some are too large to be.")


def _must(holds: bool, sentence: str) -> None:
    if not holds:
        raise UndecidableError(sentence)


def read_rules(evidence: Evidence) -> Rules:
    """Make sense of the parameters and the data they go with.

    Raises
    ------
    UndecidableError
        If a parameter is missing or absurd, or there is nothing to attack.
    """
    _sane(evidence)
    params, data = evidence.params, evidence.trajectories
    _must(isinstance(params, Mapping), "The run's parameters must be a JSON object; they are not.")
    length = _integer(params, "instants", 1)
    step = _slots(_integer(params, "step_s", 1), "step_s", data.grid_s)
    first = _slots(_start(params, data, step * data.grid_s), "start", data.grid_s)
    count = (int(slots(data.t.max(keepdims=True), data.grid_s)[0]) - first) // step + 1
    _must(count > 0, "The first instant must not lie after the data; it does.")
    timetable = Timetable(grid_s=data.grid_s, first=first, step=step, count=count, length=min(length, count))
    _must(timetable.windows <= _MOST_WINDOWS, f"A run must have {_MOST_WINDOWS} windows at most; it has more.")
    _choice(params, "cloak", ("mbr", "quadrant"))
    return Rules(
        k=_integer(params, "k", 2),
        align=_choice(params, "align", ("last", "exact", "linear")),
        max_gap_s=_integer(params, "max_gap_s", 0),
        cell_m=_cell_m(params, data.grid_m),
        timetable=timetable,
    )


def _get(params: Mapping[str, Any], name: str) -> Any:
    _must(name in params, f"The run must say its parameter '{name}'; it does not.")
    return params[name]


def _integer(params: Mapping[str, Any], name: str, minimum: int) -> int:
    value = _get(params, name)
    whole = isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= _LATEST_S
    _must(whole, f"The run's parameter '{name}' must be an integer >= {minimum}; it is not.")
    return int(value)


def _choice(params: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str:
    value = _get(params, name)
    known = isinstance(value, str) and value in choices
    _must(known, f"The run's parameter '{name}' must be one of {', '.join(choices)}; it is not.")
    return str(value)


def _slots(seconds: int, name: str, grid_s: int) -> int:
    _must(seconds % grid_s == 0, f"The run's parameter '{name}' must be a multiple of the dataset's grid_s; it is not.")
    return seconds // grid_s


def _start(params: Mapping[str, Any], data: Trajectories, step_s: int) -> int:
    value = _get(params, "start")
    if value is None:
        return math.floor(float(data.t.min()) / step_s) * step_s
    seconds = _unix_s(value)
    sane = seconds is not None and abs(seconds) <= _LATEST_S and seconds.is_integer()
    if seconds is None or not sane:
        raise UndecidableError("The run's parameter 'start' must be a time in whole seconds; it is not.")
    return int(seconds)


def _unix_s(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        pass
    except OverflowError:
        return None
    try:
        moment = datetime.fromisoformat(str(value).strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _cell_m(params: Mapping[str, Any], grid_m: float) -> float:
    value = _get(params, "min_cloak_m")
    if value is None:
        return grid_m
    number = isinstance(value, int | float) and not isinstance(value, bool)
    sane = number and 0 <= value <= _LATEST_S
    _must(sane, "The run's parameter 'min_cloak_m' must be a length in metres; it is not.")
    return float(max(1, math.ceil(float(value) / grid_m - 1e-9)) * grid_m)


def read_stated(suppressed: Mapping[str, Any], timetable: Timetable) -> Stated:
    """Make sense of what the run says it left out.

    Raises
    ------
    UndecidableError
        If it is not what the method writes.
    """
    _must(isinstance(suppressed, Mapping), _MALFORMED)
    windows: dict[int, tuple[int, int, int, int]] = {}
    listed = suppressed.get("windows")
    _must(isinstance(listed, list | tuple), _MALFORMED)
    for entry in listed or ():
        _must(isinstance(entry, Mapping), _MALFORMED)
        since_s = _count(entry, "start", minimum=None) - timetable.first * timetable.grid_s
        index, rest = divmod(since_s, timetable.length * timetable.step_s)
        _must(rest == 0 and 0 <= index < timetable.windows and index not in windows, _MALFORMED)
        instants, seen, present, published = (_count(entry, name) for name in _COUNTS)
        windows[index] = (instants, seen, present, published)
    requests = _reasons(suppressed, "requests") if "requests" in suppressed else None
    left_out = None if requests is None else sum(requests.values())
    return Stated(subjects=_reasons(suppressed, "subjects"), windows=windows, requests=left_out)


def _reasons(suppressed: Mapping[str, Any], what: str) -> dict[str, int]:
    counts = suppressed.get(what)
    if not isinstance(counts, Mapping):
        raise UndecidableError(_MALFORMED)
    return {str(reason): _count(counts, reason) for reason in counts}


def _count(entry: Mapping[str, Any], name: str, minimum: int | None = 0) -> int:
    value = entry.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or (minimum is not None and value < minimum):
        raise UndecidableError(_MALFORMED)
    return value
