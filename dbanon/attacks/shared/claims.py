"""Shared by the attacks: checked access to a run's parameters and counts, and making verdicts.

What makes no sense raises `UndecidableError`, whose text is the sentence of the clause `decidable`.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dbanon.attacks import Clause, Evidence, Verdict

LATEST = 1e12  # times beyond this are no unix seconds, and no parameter is larger


class UndecidableError(Exception):
    """The evidence does not say what must hold; its text is the clause's sentence."""


def must(holds: bool, sentence: str) -> None:
    """Raise `UndecidableError` with a sentence unless a condition holds."""
    if not holds:
        raise UndecidableError(sentence)


def demand_sane(evidence: Evidence) -> None:
    """Demand data and rows, and times and grids to compute with."""
    data = evidence.trajectories
    must(len(data.trajectory_id) > 0, "The dataset must hold a trajectory to attack with; it holds none.")
    must(len(evidence.cloak_record) > 0, "The run must hold a row to attack; it holds none.")
    grids = math.isfinite(data.grid_m) and data.grid_m > 0 and data.grid_s > 0
    must(grids, "The dataset's grids must be positive; they are not.")
    times = max(-float(data.t.min()), float(data.t.max())) <= LATEST
    must(times, "Every time must be in unix seconds; some are too large to be.")
    must(isinstance(evidence.params, Mapping), "The run's parameters must be a JSON object; they are not.")


def get(params: Mapping[str, Any], name: str) -> Any:
    """Look up a parameter, which must be stored even where it is left at its default."""
    must(name in params, f"The run must say its parameter '{name}'; it does not.")
    return params[name]


def integer(params: Mapping[str, Any], name: str, minimum: int) -> int:
    """Look up a whole number."""
    value = get(params, name)
    whole = isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= LATEST
    must(whole, f"The run's parameter '{name}' must be an integer >= {minimum}; it is not.")
    return int(value)


def length_m(params: Mapping[str, Any], name: str) -> float | None:
    """Look up a length in metres, or null."""
    value = get(params, name)
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    must(number and 0 <= value <= LATEST, f"The run's parameter '{name}' must be a length in metres; it is not.")
    return float(value)


def switch(params: Mapping[str, Any], name: str) -> bool:
    """Look up a JSON boolean."""
    value = get(params, name)
    must(isinstance(value, bool), f"The run's parameter '{name}' must be true or false; it is not.")
    return bool(value)


def choice(params: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str:
    """Look up one of several texts."""
    value = get(params, name)
    known = isinstance(value, str) and value in choices
    must(known, f"The run's parameter '{name}' must be one of {', '.join(choices)}; it is not.")
    return str(value)


def moment(params: Mapping[str, Any], name: str) -> int:
    """Look up a time: unix seconds or ISO 8601, as whole unix seconds."""
    seconds = _unix_s(get(params, name))
    if seconds is None or not abs(seconds) <= LATEST or not seconds.is_integer():
        raise UndecidableError(f"The run's parameter '{name}' must be a time in whole seconds; it is not.")
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
        read = datetime.fromisoformat(str(value).strip())
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def in_slots(seconds: int, name: str, grid_s: int) -> int:
    """Count the slots of a parameter in seconds."""
    must(seconds % grid_s == 0, f"The run's parameter '{name}' must be a multiple of the dataset's grid_s; it is not.")
    return seconds // grid_s


def reasons(suppressed: Mapping[str, Any], what: str, otherwise: str) -> dict[str, int]:
    """Look up counts by reason; `otherwise` is the sentence if they are none."""
    counts = suppressed.get(what)
    if not isinstance(counts, Mapping):
        raise UndecidableError(otherwise)
    return {str(reason): count(counts, reason, otherwise) for reason in counts}


def count(entry: Mapping[str, Any], name: str, otherwise: str, *, minimum: int | None = 0) -> int:
    """Look up a whole number that JSON may hold as 3.0; `otherwise` is the sentence if it is none."""
    value = entry.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or (minimum is not None and value < minimum):
        raise UndecidableError(otherwise)
    return value


def undecided(attack: str, doubt: UndecidableError) -> Verdict:
    """Refuse what could not be decided."""
    clause = Clause(name="decidable", passed=False, violations=1, sentence=str(doubt))
    return Verdict(attack=attack, passed=False, figures={}, clauses=(clause,))


def decided(
    attack: str,
    sentences: Mapping[str, tuple[str, str]],
    broken: Mapping[str, int],
    figures: Mapping[str, int | float],
    k: int,
) -> Verdict:
    """Make a verdict of what must hold (in words, with ``{k}``), what is counted that breaks it, and how many do."""
    clauses = tuple(
        Clause(
            name=name,
            passed=broken[name] == 0,
            violations=broken[name],
            sentence=f"{words.format(k=k)}; broken by {broken[name]} {what}.",
        )
        for name, (words, what) in sentences.items()
    )
    return Verdict(attack=attack, passed=all(c.passed for c in clauses), figures=figures, clauses=clauses)
