"""What a parameter's value means, and how an error shows one.

Decides which texts and JSON values are numbers, switches and instants. Invariant: ``sql/10_core/40_registry.sql``
follows the same rules, and a test holds the two against each other.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np

LATEST_S = 10**11
"""The year 5138: what lies beyond is no unix time."""

_LONGEST = 60
_BLANKS = " \t\r\n"
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_LEAST, _GREATEST = Decimal("1e-300"), Decimal("1e300")  # nearly the reach of float64, with some room
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.0{1,6})?)?"
    r"(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"
)
_HIDDEN = re.compile(r"[\x00-\x1f\x7f-\xa0\xad\u061c\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]")
"""What no name may have, since a reader cannot see it."""
_INFINITE = ("inf", "infinity")
_SWITCH = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}


def plain(value: Any) -> Any:
    """Give a value as JSON has it: None, bool, Decimal, str, mapping or list."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | Decimal | str | Mapping | list):
        return value
    if isinstance(value, int | float):
        return _INFINITE[0] if value == float("inf") else Decimal(repr(value) if isinstance(value, float) else value)
    return list(value) if isinstance(value, tuple) else str(value)


def converted(about: Mapping[str, Any], value: Any) -> Any:
    """Convert a `plain` value to what a parameter holds; None for one that it must not be.

    Parameters
    ----------
    about : mapping
        The parameter's metadata.
    value : object
        From `plain`.

    Returns
    -------
    int, float, str or bool
        Instants as unix seconds.
    """
    match about["type"]:
        case "switch":
            return value if isinstance(value, bool) else _SWITCH.get(_stripped(value).lower())
        case "choice" | "name" as kind:
            known = isinstance(value, str) and (_is_name(value) if kind == "name" else value in about["choices"])
            return value if known else None
        case "instant":
            return _instant(value)
    endless = about["infinite"] and _stripped(value).lower() in _INFINITE
    number = Decimal("inf") if endless else _number(value)
    low, high = about["minimum"], None if endless else about["maximum"]
    if number is None or (low is not None and number < low) or (high is not None and number > high):
        return None
    return float(number) if about["type"] == "number" else _whole(number)


def shown(value: Any) -> str:
    """Show a `plain` value: as it was given, texts that are no numbers in quotes, at most 60 characters of it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return _cut(_stripped(value)) if _is_number(_stripped(value)) else quoted(value)
    if isinstance(value, Decimal):
        return _cut(_digits(value))
    return "an object" if isinstance(value, Mapping) else "a list"


def quoted(text: str) -> str:
    """Put a text in quotes, hidden characters as question marks, at most 60 characters of it."""
    return f"'{_cut(_HIDDEN.sub('?', text))}'"


def _is_name(text: str) -> bool:
    return 1 <= len(text) <= _LONGEST and not _HIDDEN.search(text) and _stripped(text) == text


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _digits(number: Decimal) -> str:
    """Write a number without exponent and without zeros at the end, as PostgreSQL writes a numeric."""
    if not number:
        return "0"
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _stripped(value: Any) -> str:
    return value.strip(_BLANKS) if isinstance(value, str) else ""


def _is_number(text: str) -> bool:
    return len(text) <= _LONGEST and _NUMBER.fullmatch(text) is not None


def _number(value: Any) -> Decimal | None:
    if isinstance(value, str) and _is_number(_stripped(value)):
        value = Decimal(_stripped(value))
    if not isinstance(value, Decimal) or not value.is_finite():
        return None
    return value if not value or _LEAST <= value.copy_abs() <= _GREATEST else None


def _whole(number: Decimal | None) -> int | None:
    return int(number) if number is not None and number == number.to_integral_value() else None


def _instant(value: Any) -> int | None:
    seconds = _whole(_number(value))
    if seconds is None and _INSTANT.fullmatch(_stripped(value)):
        try:
            seconds = int(datetime.fromisoformat(_stripped(value)).timestamp())
        except ValueError:  # the 30th of February
            return None
    return seconds if seconds is not None and abs(seconds) <= LATEST_S else None
