"""Reads what a mob run promised and left out, without any of the method's code."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dbanon.attacks.mob.evidence import ObjectEvidence
from dbanon.attacks.shared import run_statements as run
from dbanon.attacks.shared.instants import build_timetable
from dbanon.attacks.shared.keys import sort_distinct
from dbanon.attacks.shared.replay import Timetable, select_slots
from dbanon.base.trajectory import QuasiIdentifiers, Trajectories

FEW_PARTNERS, UNSEEN, EXACT = "few_partners", "never_seen", "never_generalised"
_MAX_POSITIONS = 400_000_000
_MAX_CELLS_APART = 1 << 30
_WINDOW_INSTANTS = 512  # instants found of a subject at a time
_MALFORMED = (
    "The run's counts of rows left out must be whole counts of people and of quasi-identifiers by reason, and of "
    "people by hour, and nothing else. They are not."
)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The run's parameters, made sense of with the data: `reach_m` is how far a person gets from instant to instant."""

    k: int
    is_symmetric: bool
    qid_only: bool
    align: str
    max_gap_s: int
    reach_m: float
    timetable: Timetable


@dataclass(frozen=True, kw_only=True)
class Stated:
    """``run.suppressed``: subjects by reason, times of quasi-identifiers by reason, subjects by hour."""

    subjects: Mapping[str, int]
    quasi_identifiers: Mapping[str, int]
    hours: run.Hours


def select_in_run_time(evidence: ObjectEvidence) -> ObjectEvidence:
    """Leave out what is not of the run's own time; positions may be `max_gap_s` older than that."""
    run.demand_sane(evidence)
    data = evidence.trajectories
    since, until = run.read_own_slots(evidence.params, data.grid_s)
    if since is not None or until is not None:
        gap_s = run.read_integer(evidence.params, "max_gap_s", 0)
        data = select_slots(data, None if since is None else (since * data.grid_s - gap_s) // data.grid_s, until)
        run.demand(
            len(data.trajectory_id) > 0, "The time the run considers must hold a fix to attack with. It holds none."
        )
    known = evidence.quasi_identifiers
    own = run.is_in_own_time(known.t, data, evidence.params)
    known = QuasiIdentifiers(subject=known.subject[own], t=known.t[own])
    return replace(evidence, trajectories=data, quasi_identifiers=known)


def read_rules(evidence: ObjectEvidence) -> Rules:
    """Make sense of the parameters and the considered data they go with.

    Raises `UndecidableError` if a parameter is missing or absurd, or the data are too large or too far apart.
    """
    params, data = evidence.params, evidence.trajectories
    times = build_timetable(params, data, _WINDOW_INSTANTS)
    times = times._replace(length=-(-times.count // times.windows))  # of windows about as long as one another
    _demand_few_positions(data, times)
    speed = run.read_parameter(params, "speed_m_s")
    is_speed = isinstance(speed, int | float) and not isinstance(speed, bool) and 0 <= speed <= run.LARGEST_NUMBER
    run.demand(is_speed, "The run's parameter 'speed_m_s' must be a speed in metres a second. It is not.")
    return Rules(
        k=run.read_integer(params, "k", 2),
        is_symmetric=evidence.algorithm == "symmetric",
        qid_only=run.read_switch(params, "qid_only"),
        align=run.read_choice(params, "align", ("last", "exact", "linear")),
        max_gap_s=run.read_integer(params, "max_gap_s", 0),
        reach_m=float(speed) * times.step_s,
        timetable=times,
    )


def _demand_few_positions(data: Trajectories, times: Timetable) -> None:
    run.demand(
        len(sort_distinct(data.subject)) * times.count <= _MAX_POSITIONS,
        f"The number of people times instants must be at most {_MAX_POSITIONS:,} to attack with. It is greater.",
    )


def demand_near(data: Trajectories) -> None:
    """Demand that all positions have small numbers of cells."""
    least, most = (np.array([end(data.x), end(data.y)]) / data.grid_m for end in (np.min, np.max))
    are_near = bool((np.maximum(-least, most) < 1 << 52).all() and (most - least < _MAX_CELLS_APART).all())
    run.demand(are_near, "Positions must lie within 2^30 cells of one another to attack with. They do not.")


def read_stated(suppressed: Mapping[str, Any]) -> Stated:
    """Make sense of what the run says it left out; raises `UndecidableError` if it is not what the method writes."""
    names = {"subjects", "quasi_identifiers", "by_hour"}
    run.demand(isinstance(suppressed, Mapping) and suppressed.keys() <= names, _MALFORMED)
    return Stated(
        subjects=run.read_reasons(suppressed, "subjects", _MALFORMED),
        quasi_identifiers=run.read_reasons(suppressed, "quasi_identifiers", _MALFORMED),
        hours=run.merge_reasons(run.read_hours(suppressed)),
    )
