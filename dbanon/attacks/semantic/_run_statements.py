"""Reads what a semantic run promised and left out, without any of the method's code."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dbanon.attacks.semantic.evidence import RegionEvidence
from dbanon.attacks.shared import run_statements as run

OUTSIDE, FEW, COARSE = "outside", "few_cells", "coarse"
REASONS = (OUTSIDE, FEW, COARSE)
MM2_PER_M2 = 1_000_000
"""Square millimetres in a square metre: areas are added up in whole ones, in any order the same."""
_MALFORMED = (
    "The run's counts of rows left out must be whole counts of fixes and of people by reason, and by hour, and "
    "nothing else. They are not."
)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The run's parameters, made sense of with the data; `since` and `until` are slots, None: no bound."""

    k: int  # k, l, t: the promise; t may be infinite
    l: int  # noqa: E741 - the paper's name
    t: float
    atom_l: int  # atom_l, atom_t: the promise to who replays the run; no more than l and t
    atom_t: float
    least_atoms: int  # in how many atoms a record must have been
    longest_s: float  # longest_s, largest_m2: what is longer or larger is left out; infinite where nothing is
    largest_m2: float
    since: int | None
    until: int | None

    @property
    def may_drop_rows(self) -> bool:
        """Whether rows may be left out."""
        return math.isfinite(self.longest_s) or math.isfinite(self.largest_m2)

    @property
    def grows(self) -> bool:
        """Whether atoms promise less than regions, which are grown by whole atoms then."""
        return (self.atom_l, self.atom_t) != (self.l, self.t)

    @property
    def asks_atoms(self) -> bool:
        """Whether rows alone do not say which atoms the run has."""
        return self.grows or self.least_atoms > 1


@dataclass(frozen=True, kw_only=True)
class Stated:
    """``run.suppressed``: fixes and subjects by reason, and subjects by hour."""

    fixes: Mapping[str, int]
    subjects: Mapping[str, int]
    hours: run.Hours


def read_rules(evidence: RegionEvidence) -> Rules:
    """Make sense of the parameters and of the data they go with.

    Raises `UndecidableError` if a parameter is missing or absurd, or cells and fixes do not go together.
    """
    run.demand_sane(evidence)
    params, data, cells = evidence.params, evidence.trajectories, evidence.cells
    run.demand(len(cells.cell_id) > 0, "The dataset must hold cells to attack with. It holds none.")
    run.demand(cells.overlap_m2 < 1, "Cells must not overlap. They do.")
    since, until = run.read_considered_slots(params, data.grid_s)
    l, t = run.read_integer(params, "l", 0), _read_limit(params, "t", endless="inf")  # noqa: E741 - the paper's name
    rules = Rules(
        k=run.read_integer(params, "k", 1),
        l=l,
        t=t,
        atom_l=l if run.read_parameter(params, "atom_l") is None else run.read_integer(params, "atom_l", 0),
        atom_t=t if run.read_parameter(params, "atom_t") is None else _read_limit(params, "atom_t", endless="inf"),
        least_atoms=run.read_integer(params, "min_cells", 1),
        longest_s=_read_limit(params, "suppress_span_s", endless=None),
        largest_m2=_read_limit(params, "suppress_area_km2", endless=None) * MM2_PER_M2,
        since=since,
        until=until,
    )
    run.demand(rules.atom_l <= l and rules.atom_t >= t, "Atoms must not promise more than regions do. They do.")
    are_stored = not rules.asks_atoms or bool((evidence.atom >= 0).all())
    run.demand(are_stored, "The run must say which atom each cell is in. It does not.")
    return rules


def _read_limit(params: Mapping[str, Any], name: str, *, endless: str | None) -> float:
    """Look up a number that is not negative; infinity where the parameter is as `endless`."""
    value = run.read_parameter(params, name)
    if value == endless:
        return math.inf
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= run.LARGEST_NUMBER
    run.demand(
        is_number, f"The run's parameter '{name}' must be a number >= 0 or say that there is no limit. It is not."
    )
    return float(value)


def read_stated(suppressed: Mapping[str, Any]) -> Stated:
    """Make sense of what the run says it left out; raises `UndecidableError` if it is not what the method writes."""
    run.demand(isinstance(suppressed, Mapping) and suppressed.keys() <= {"fixes", "subjects", "by_hour"}, _MALFORMED)
    fixes, subjects = (run.read_reasons(suppressed, what, _MALFORMED) for what in ("fixes", "subjects"))
    run.demand({*fixes, *subjects} <= set(REASONS), _MALFORMED)
    return Stated(fixes=fixes, subjects=subjects, hours=run.read_hours(suppressed))
