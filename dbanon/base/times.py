"""How times are written that mean one instant, for files and tables alike.

The patterns are of what RE2 and PostgreSQL both understand, and stand in `dbanon_internal.read_written`, too:
`dbanon.schema` puts them there.
"""

import sys

_LEAP = "(?:0[48]|[2468][048]|[13579][26])"
_YEAR = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_DAYS = (
    "(?:0?[13578]|1[02]|jan|mar|may|jul|aug|oct|dec)-(?:0?[1-9]|[12][0-9]|3[01])",
    "(?:0?[469]|11|apr|jun|sep|nov)-(?:0?[1-9]|[12][0-9]|30)",
    "(?:0?2|feb)-(?:0?[1-9]|1[0-9]|2[0-8])",
)
_MINUTES = r":[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?"
_CLOCK = rf"(?:(?:[01]?[0-9]|2[0-3]){_MINUTES}|(?:0?[1-9]|1[0-2]){_MINUTES} *[ap]m)"
_ZONE = "(?:z|[+-](?:0[0-9]|1[0-5])(?::?[0-5][0-9])?)"

_DATE = f"(?:{_YEAR}-(?:{'|'.join(_DAYS)})|(?:[0-9]{{2}}{_LEAP}|{_LEAP}00)-(?:0?2|feb)-29)"

ISO = f"(?i)^{_DATE}(?:[t ] *{_CLOCK}(?: *{_ZONE})?)?$"
"""A time that exists: year, month (or its English name), day, and perhaps a clock of 24 or 12 hours, and a zone."""

ZONED = "(?i):.*[-+z]"
"""What of those names its zone."""

FORMS = (
    (r"^([0-9]{4})/([0-9]{1,2})/([0-9]{1,2})", r"\1-\2-\3"),
    (r"^([0-9]{4})-?([0-9]{2})-?([0-9]{2})[Tt ]([0-9]{2})([0-9]{2})([0-9]{2})", r"\1-\2-\3 \4:\5:\6"),
    (r"^([0-9]{4})-?([0-9]{2})-?([0-9]{2})[Tt ]([0-9]{2})([0-9]{2})", r"\1-\2-\3 \4:\5"),
    (r"(?i)^(?:[a-z]{3}, *)?([0-9]{1,2})[ -]+([a-z]{3})[ -]+([0-9]{4})", r"\3-\2-\1"),
    (r"^([^ Tt:]+)[Tt ] *([0-9]{1,2})([^0-9:].*)?$", r"\1 \2:00\3"),
    (r"(:[0-9]{2}),([0-9])", r"\1.\2"),
    (r"(\.[0-9]{6})[0-9]{1,3}", r"\1"),
    (r"(?i)(?: *[+-]00:?00)? *(?:utc|gmt)$", " Z"),
)
"""Patterns and what they become, one after the other, where a text is not `ISO` yet."""

FIRST_S, LAST_S = -62_135_596_800, 1e11
"""The years 1 and 5138: what lies before or from there on is no time."""

SKIPPED_S = -1e300
"""Stands for a time of an hour that clocks left out."""

EARLIEST_S, LATEST_S = 631_152_000, 4_102_444_800
"""1990 and 2100: numbers without a unit that would lie before or after are no unix times."""

ODD_NUMBERS = (
    (32_874, 73_051, "days since 1899-12-30", "time_unit => 'days'"),
    (19_900_101, 21_000_101, "dates written as YYYYMMDD", "time_format => '%Y%m%d'"),
    (199_001_010_000, 210_001_010_000, "times written as YYYYMMDDhhmm", "time_format => '%Y%m%d%H%M'"),
    (19_900_101_000_000, 21_000_101_000_000, "times written as YYYYMMDDhhmmss", "time_format => '%Y%m%d%H%M%S'"),
    (0, sys.float_info.max, "seconds, ms, µs or ns of another time", "time_unit => 's'"),
)
"""Bounds of such numbers, what they may be, and how to say so; the first counts."""
