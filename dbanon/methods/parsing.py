"""What a parameter's value means, and how an error shows one.

Values are typed: texts that are numbers, switches or instants are for ``sql/10_core/40_registry.sql``, which checks
what users give before a run is queued and stores what it made of it. Invariant: what either stores, both take; a test
holds the two against each other.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

LATEST_S = 10**11
"""The year 5138: what lies beyond is no unix time."""

_MAX_CHARACTERS = 60
_BLANKS = " \t\r\n"
_MAX_MAGNITUDE = 1e300
"""Nearly the reach of float64, with some room."""
_HIDDEN_CHARACTERS = re.compile(
    r"[\x00-\x1f\x7f-\xa0\xad\u061c\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]"
)
"""What no name may have, since a reader cannot see it."""


def convert_value(about: Mapping[str, Any], value: Any) -> Any:
    """Convert a typed value to what a parameter holds; None for one that it must not be.

    Parameters
    ----------
    about : mapping
        The parameter's metadata.
    value : object
        A bool, int, float or str, or NumPy's. Infinity may be the text ``inf``, as which it is stored.

    Returns
    -------
    int, float, str or bool
        Instants as unix seconds.
    """
    if isinstance(value, np.generic):
        value = value.item()
    match about["type"]:
        case "switch":
            return value if isinstance(value, bool) else None
        case "choice":
            return value if isinstance(value, str) and value in about["choices"] else None
        case "name":
            return value if isinstance(value, str) and _is_name(value) else None
    return _convert_number(about, value)


def _convert_number(about: Mapping[str, Any], value: Any) -> int | float | None:
    if about["infinite"] and value in ("inf", math.inf):
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MAX_MAGNITUDE:
        return None
    is_instant = about["type"] == "instant"
    low, high = (-LATEST_S, LATEST_S) if is_instant else (about["minimum"], about["maximum"])
    if (low is not None and value < low) or (high is not None and value > high):
        return None
    if about["type"] == "number":
        return float(value)
    return int(value) if value == int(value) else None


def format_value(value: Any) -> str:
    """Show a value as Python writes it, at most 60 characters of it."""
    return quote_text(value) if isinstance(value, str) else _shorten(str(value))


def quote_text(text: str) -> str:
    """Put a text in quotes, hidden characters as question marks, at most 60 characters of it."""
    return f"'{_shorten(_HIDDEN_CHARACTERS.sub('?', text))}'"


def _is_name(text: str) -> bool:
    return 1 <= len(text) <= _MAX_CHARACTERS and not _HIDDEN_CHARACTERS.search(text) and text.strip(_BLANKS) == text


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 3] + "..."
