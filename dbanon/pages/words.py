"""Writes figures in words: numbers, shares, times and lengths as people read them."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from dbanon.pages.charts import format_metres as to_metres
from dbanon.pages.disclosure import Shown, Truth
from dbanon.results.described import Described
from dbanon.results.figures import Evaluation, Figure

_NUMBER_WORDS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


def spell_number(number: int) -> str:
    """Write a whole number as a word up to twelve."""
    return _NUMBER_WORDS[number] if 0 <= number < len(_NUMBER_WORDS) else f"{number:,}"


def insert_k(sentence: str, k: int | None) -> str:
    """Put the value of k into a promise."""
    if k is None:
        return sentence
    less = re.sub(r"\bk - 1\b", spell_number(k - 1), sentence)
    return re.sub(r"\bk\b", spell_number(k), less)


def format_length(metres: float) -> str:
    """Write a length with two digits that count."""
    if metres < 1000:
        return f"{float(f'{metres:.2g}'):,.0f} m"
    return f"{float(f'{metres:.2g}') / 1000:,.3g} km"


def format_usable_resolution(figures: Sequence[Figure], asked: str | None = None) -> str:
    """Write the usable resolution of an evaluation with its interval, or that it is over the widest side."""
    resolutions = [one for one in figures if one.name == "usable_resolution_m" and asked in (None, one.asked)]
    if not resolutions or resolutions[0].value is None:
        return "–"
    widest = max((one.side_m for one in figures if one.side_m is not None), default=0)

    def format_side(value: float) -> str:
        return f"over {to_metres(widest)}" if math.isinf(value) else to_metres(value)

    usable = resolutions[0]
    if usable.low is None or usable.high is None:
        return format_side(resolutions[0].value)
    return f"{format_side(resolutions[0].value)} [{format_side(usable.low)} to {format_side(usable.high)}]"


def describe_crowd(record: Described, exact: float) -> tuple[str, str] | None:
    """Say how many people a row hides that is not exact; None unless an attack confirmed it for all of these."""
    if record.k is None or not record.clauses or record.held < len(record.clauses):
        return None
    return f"{record.k} or more", "people hidden by each other row" if exact else "people hidden by a row"


def format_duration(seconds: float) -> str:
    """Write a time span in the largest unit that fits."""
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.3g} s"


def format_moment(time: datetime | None) -> str:
    """Write a moment to the minute, with its zone."""
    return "-" if time is None else f"{time:%-d %B %Y, %H:%M} {time.tzname()}"


def format_span(since: datetime | None, until: datetime | None) -> str:
    """Write a period; if it lies within a day, the day is written once."""
    if since is None or until is None:
        return "no rows"
    last = until - timedelta(microseconds=1)
    if since.date() == last.date():
        end = "24:00" if until.date() != since.date() else f"{until:%H:%M}"
        return f"{since:%A %-d %B %Y, %H:%M} to {end} {until.tzname()}"
    return f"{format_moment(since)} to {format_moment(until)}"


def join_names(names: Sequence[str], last: str = "and") -> str:
    """Join names to a list for a sentence."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}" if names else ""


def format_settings(parameters: Mapping[str, Any]) -> str:
    """Write the parameters of a run; there is no seed among them."""
    return ", ".join(f"{name} {value}" for name, value in parameters.items() if value is not None)


class Blocks:
    """Blocks of pages about one release or run; `truth` and `evaluation` are for private pages alone."""

    def __init__(
        self,
        record: Described,
        shown: Shown,
        zone: ZoneInfo,
        *,
        truth: Truth | None,
        evaluation: Evaluation | None,
        unmeasured: str = "",
        chosen: Sequence[str] = (),
    ) -> None:
        self.record, self.shown, self.zone = record, shown, zone
        self.truth, self.evaluation, self.unmeasured, self.chosen = truth, evaluation, unmeasured, chosen


def localise(time: datetime | None, zone: ZoneInfo) -> datetime | None:
    """Bring a time into a zone; None stays None."""
    return None if time is None else time.astimezone(zone)
