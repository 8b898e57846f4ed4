"""Reads the parameters of a kte run and its counts of what it left out, without any of the method's code."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dbanon.attacks import Evidence
from dbanon.attacks.shared.run_statements import (
    Hours,
    demand,
    merge_reasons,
    read_choice,
    read_hours,
    read_integer,
    read_length_m,
    read_moment,
    read_parameter,
    read_reasons,
    read_switch,
)
from dbanon.base.trajectory import Trajectories

HIDE = "kte-hide"
MERGE = "k-merge"

_MALFORMED = (
    "The run's counts of rows left out must be whole counts of samples and of people by reason, and by hour, and "
    "nothing else. They are not."
)
_REASON_PATTERN = re.compile(r"[a-z][a-z_]{0,39}")
_MAX_SLOTS, _MAX_CELLS = 1 << 32, 1 << 26  # slots (of a second: to 2106) and cells, as many as a run may have


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The run's parameters, made sense of with the data."""

    k: int
    grid_s: int  # grid_s, grid_m: sides of a slot and of a cell, multiples of the dataset's
    grid_m: float
    leak: int  # slots of an epoch; 0 where groups are published
    window: int  # epochs of a window of tau + leak; 0 where groups are published
    apart: int  # slots of a window that has groups of its own; 0 where there is one for the whole time
    reuse: str  # ``never`` or ``apart``

    @property
    def hides(self) -> bool:
        """Whether each subject has a record, hidden in sets that overlap."""
        return self.window > 0


@dataclass(frozen=True, kw_only=True)
class Stated:
    """``run.suppressed``: samples and subjects by reason, and subjects by hour (all reasons in one: ``left_out``)."""

    samples: Mapping[str, int]
    subjects: Mapping[str, int]
    hours: Hours


def read_rules(evidence: Evidence) -> Rules:
    """Make sense of the parameters and the data they go with.

    Raises `UndecidableError` if a parameter is missing or absurd.
    """
    params, data = evidence.params, evidence.trajectories
    grid_s, grid_m = read_integer(params, "grid_s", 1), _read_grid_m(params, data.grid_m)
    demand(
        grid_s % data.grid_s == 0, "The run's parameter 'grid_s' must be a multiple of the dataset's grid_s. It is not."
    )
    k, leak, window, reuse = read_integer(params, "k", 2), 0, 0, "never"
    if evidence.algorithm == HIDE:
        leak_s, tau_s = read_integer(params, "leak_s", 1), read_integer(params, "tau_s", 1)
        demand(leak_s % grid_s == 0, "The run's parameter 'leak_s' must be a multiple of 'grid_s'. It is not.")
        demand(tau_s % leak_s == 0, "The run's parameter 'tau_s' must be a multiple of 'leak_s'. It is not.")
        leak, window = leak_s // grid_s, tau_s // leak_s + 1
        reuse = read_choice(params, "reuse", ("never", "apart"))
        read_switch(params, "improve")
    apart = _read_window_s(params, grid_s) // grid_s
    demand(
        not apart or evidence.algorithm == MERGE, "The run's parameter 'window_s' must go with k-merge. It does not."
    )
    return Rules(k=k, grid_s=grid_s, grid_m=grid_m, leak=leak, window=window, apart=apart, reuse=reuse)


def _read_window_s(params: Mapping[str, Any], grid_s: int) -> int:
    """Look up the seconds of a window, which begins and ends no run; 0 where there are none."""
    if read_parameter(params, "window_s") is None:
        return 0
    window_s = read_integer(params, "window_s", 1)
    demand(window_s % grid_s == 0, "The run's parameter 'window_s' must be a multiple of 'grid_s'. It is not.")
    for name in ("since", "until"):
        is_edge = read_parameter(params, name) is None or read_moment(params, name) % window_s == 0
        demand(is_edge, f"The run's parameter '{name}' must be a multiple of 'window_s'. It is not.")
    return window_s


def _read_grid_m(params: Mapping[str, Any], grid_m: float) -> float:
    value = read_length_m(params, "grid_m")
    times = round(value / grid_m) if value else 0
    is_multiple = value is not None and times >= 1 and abs(value / grid_m - times) <= 1e-9
    demand(is_multiple, "The run's parameter 'grid_m' must be a multiple of the dataset's grid_m. It is not.")
    return float(value or 0)


def demand_near(data: Trajectories, grid_s: int, grid_m: float) -> None:
    """Demand that the slots and cells of all fixes can be numbered."""
    for values, side, far in ((data.t, grid_s, _MAX_SLOTS), (data.x, grid_m, _MAX_CELLS), (data.y, grid_m, _MAX_CELLS)):
        are_near = max(-float(values.min()), float(values.max())) / side < far
        demand(are_near, "Every fix must lie within 2^32 slots of 1970 and 2^26 cells of the origin. Some do not.")


def read_stated(suppressed: Mapping[str, Any]) -> Stated:
    """Make sense of what the run says it left out; raises `UndecidableError` if it is not what the method writes."""
    demand(isinstance(suppressed, Mapping) and suppressed.keys() == {"samples", "subjects", "by_hour"}, _MALFORMED)
    samples, subjects = (read_reasons(suppressed, what, _MALFORMED) for what in ("samples", "subjects"))
    hours = read_hours(suppressed)
    reasons = {name.removeprefix("left_out ") for counts in hours.values() for name in counts if " " in name}
    # A reason is shown to readers: a word, and not who it was.
    demand(all(_REASON_PATTERN.fullmatch(reason) for reason in {*samples, *subjects, *reasons}), _MALFORMED)
    return Stated(samples=samples, subjects=subjects, hours=merge_reasons(hours))
