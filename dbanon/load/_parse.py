"""What the cells of a column mean: numbers, times, texts.

A cell that cannot be read is null in the result, for the caller to count; no Python object is made for a cell, and no
message quotes one.
"""

import functools
import itertools
from collections.abc import Callable
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from numpy.typing import NDArray

from dbanon.base.errors import DataError, ParameterError

FIRST_S, LAST_S = -62_135_596_800.0, 1e11
"""Unix seconds of the first and the last time that is read as one: the years 1 and 5138."""

LATEST_MEDIAN_S = 4_102_444_800.0
"""The year 2100: a file whose typical time is later holds no unix times."""

MAX_SUBJECT_BYTES = 1000

MAX_SHOWN_BYTES = 1000
"""Characters of a cell that are kept in the quarantine."""

TIME_UNITS = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (np.inf, 1e9))
"""Numbers below the first are so many to a second: seconds, milliseconds, microseconds, nanoseconds since 1970."""

_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(?i:nan|inf|infinity)$"
_DATE = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_ISO = r"^" + _DATE + r"([ T]([01][0-9]|2[0-3])(:?[0-5][0-9](:?[0-5][0-9](\.[0-9]{1,9})?)?)?)?"
_ZONE = r"([zZ]|[+-][0-9]{2}(:?[0-9]{2})?)$"


def demand_zone(tz: str | None) -> None:
    """Raise `ParameterError` if there is no time zone of this name."""
    try:
        if tz is not None:
            ZoneInfo(tz)  # Arrow takes +02:00, too
            pc.assume_timezone(pa.array([0], pa.timestamp("us")), tz)  # and not all that others know
    except (ZoneInfoNotFoundError, pa.ArrowException, ValueError, OSError):
        raise ParameterError(
            f"The time zone must be a name such as Europe/Berlin or UTC. Got {tz!r}. Change --tz."
        ) from None


def _read_by_value(read: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Array], pa.Array]:
    """Have a column that refers to a dictionary read by the values of that or by its rows, of which there are fewer."""

    @functools.wraps(read)
    def read_either(column: pa.Array) -> pa.Array:
        if not pa.types.is_dictionary(column.type):
            return read(column)
        if len(column.dictionary) > len(column):
            return read(column.cast(pa.string()))
        return read(column.dictionary).take(column.indices)

    return read_either


@_read_by_value
def parse_numbers(column: pa.Array) -> pa.Array:
    """Cells as float64; null where they are no numbers (NaN and infinities are)."""
    if not pa.types.is_string(column.type):
        return column.cast(pa.float64(), safe=False) if is_number(column.type) else pa.nulls(len(column), pa.float64())
    try:
        return column.cast(pa.float64())
    except pa.ArrowInvalid:
        trimmed = pc.utf8_trim_whitespace(column)
        looks_right = pc.match_substring_regex(trimmed, _NUMBER)
        return _cast_or_null(_keep_only(trimmed, looks_right), pa.float64())


@_read_by_value
def parse_texts(column: pa.Array) -> pa.Array:
    """Cells as text without surrounding blanks; null where nothing is left."""
    if pa.types.is_floating(column.type):  # pandas makes floats of whole numbers where one is missing
        column = _keep_only(column, pc.is_finite(column))
    # One name in two spellings of Unicode would count as two people.
    trimmed = pc.utf8_normalize(pc.utf8_trim_whitespace(column.cast(pa.string())), form="NFC")
    return _keep_only(trimmed, pc.not_equal(trimmed, ""))


def replace_nul(column: pa.Array) -> pa.Array:
    """Texts that PostgreSQL takes: a zero byte, which it does not, becomes another character that no name may have."""
    return pc.replace_substring(column, "\0", "\1")


class Times:
    """Reads the column of times of one file, batch by batch.

    `tz`: zone of times that name none; the earlier of two where clocks are set back.

    Numbers are taken to be of one unit, decided by the median of the first of them: a stray huge number among seconds
    is a wrong time, not a right one in another unit.
    """

    def __init__(self, tz: str | None) -> None:
        self._tz = tz
        self._per_second: float | None = None

    def convert_to_unix_s(self, column: pa.Array) -> pa.Array:
        """Cells (text, numbers or timestamps) as unix seconds; null where they are neither a number nor ISO 8601.

        Null too where clocks were set forward and the time of day was left out.

        Raises
        ------
        ParameterError
            If a time names no zone and there is none for all of them.
        DataError
            If the numbers cannot be times since 1970 in any unit.
        """
        if pa.types.is_dictionary(column.type):
            column = column.cast(pa.string())
        if pa.types.is_date(column.type):
            column = column.cast(pa.timestamp("us"))
        if pa.types.is_timestamp(column.type):
            return _convert_timestamps(column, self._tz)
        counted = parse_numbers(column)
        unit = self._guess_unit(counted)
        seconds = pc.divide(counted, unit)
        if unit > 1:  # what is too small for the unit was counted in another
            seconds = pc.if_else(pc.less(pc.abs(counted), find_least(unit)), LAST_S, seconds)
        if pa.types.is_string(column.type) and counted.null_count:
            words = _keep_only(pc.utf8_trim_whitespace(column), pc.is_null(counted))
            seconds = pc.coalesce(seconds, _parse_iso(words, self._tz))
        return seconds

    def _guess_unit(self, counted: pa.Array) -> float:
        if self._per_second is not None:
            return self._per_second
        sizes = np.abs(np.asarray(counted.to_numpy(zero_copy_only=False), np.float64))
        sizes = sizes[np.isfinite(sizes)]
        if not len(sizes):
            return 1.0
        self._per_second = count_per_second(float(np.median(sizes)))
        return self._per_second


def count_per_second(size: float) -> float:
    """How many units make a second, by the size of a typical number of them since 1970.

    Raises `DataError` if that would be beyond the year 2100.
    """
    unit = next(unit for limit, unit in TIME_UNITS if size < limit)
    if size / unit > LATEST_MEDIAN_S:
        raise DataError(
            "Times must be ISO 8601, or a unix time in seconds, ms, µs or ns. Got numbers that would lie beyond the "
            "year 2100. If they are dates written as YYYYMMDDhhmmss, write them as ISO 8601."
        )
    return unit


def find_least(unit: float) -> float:
    """The least number that is read in a unit."""
    return next(limit for (limit, _), (_, finer) in itertools.pairwise(TIME_UNITS) if finer == unit)


def is_too_long(subject: pa.Array) -> NDArray[np.bool_]:
    """Where subjects have more bytes than an index can hold."""
    length = pc.fill_null(pc.binary_length(subject), 0)
    return np.asarray(length.to_numpy(zero_copy_only=False)) > MAX_SUBJECT_BYTES


def has_control(name: pa.Array) -> NDArray[np.bool_]:
    """Where names have control characters, which a terminal obeys."""
    data = np.frombuffer(name.buffers()[2] or b"", np.uint8)
    if not ((data < 0x20) | (data == 0x7F) | (data == 0xC2)).any():  # the first bytes of all of them; six times as fast
        return np.zeros(len(name), np.bool_)
    found = pc.fill_null(pc.match_substring_regex(name, r"\p{Cc}"), False)
    return np.asarray(found.to_numpy(zero_copy_only=False))


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def format_json(columns: dict[str, pa.Array]) -> pa.Array:
    """Rows as JSON objects of texts, by the names of their columns: WKB as WKT, nulls as null, long texts cut."""
    pieces: list[pa.Array | pa.Scalar] = []
    for name, column in columns.items():
        lead = "{" if not pieces else ", "
        pieces += [pa.scalar(f"{lead}{_quote_name(name)}: "), _quote_column(_shorten_shown(column))]
    return pc.binary_join_element_wise(*pieces, pa.scalar("}"), pa.scalar(""))


@_read_by_value
def _shorten_shown(column: pa.Array) -> pa.Array:
    if pa.types.is_binary(column.type):  # a geometry
        shapes = shapely.from_wkb(np.asarray(column.to_numpy(zero_copy_only=False), object), on_invalid="ignore")
        column = pa.array(np.asarray(shapely.to_wkt(shapes), object), pa.string())
    return pc.utf8_slice_codeunits(column.cast(pa.string()), 0, MAX_SHOWN_BYTES)


def _quote_name(name: str) -> str:
    return str(_quote_column(pa.array([name]))[0].as_py())


def _quote_column(column: pa.Array) -> pa.Array:
    """JSON strings; control characters, which a table of positions has no use for, become blanks."""
    safe = pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), '"', '\\"')
    safe = pc.replace_substring_regex(safe, r"[\x00-\x1f]", " ")
    return pc.fill_null(pc.binary_join_element_wise(pa.scalar('"'), safe, pa.scalar('"'), pa.scalar("")), "null")


def _convert_timestamps(column: pa.Array, tz: str | None) -> pa.Array:
    per_second = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[column.type.unit]
    seconds = pc.divide(column.cast(pa.int64()).cast(pa.float64(), safe=False), per_second)
    if column.type.tz:
        return seconds
    sane = pc.and_(pc.greater_equal(seconds, FIRST_S), pc.less(seconds, LAST_S))  # others overflow in microseconds
    local = _localise(_keep_only(column, sane).cast(pa.timestamp("us"), safe=False), tz)
    return pc.if_else(pc.fill_null(sane, True), _count_since_1970(local), seconds)


def _parse_iso(column: pa.Array, tz: str | None) -> pa.Array:
    zoned = pc.match_substring_regex(column, _ISO + _ZONE)
    naive = pc.match_substring_regex(column, _ISO + "$")
    # Arrow wants at most six decimals and a capital Z.
    column = pc.replace_substring_regex(column, r"(\.[0-9]{6})[0-9]+", r"\1")
    column = pc.replace_substring_regex(column, "z$", "Z")
    aware = _count_since_1970(_cast_or_null(_keep_only(column, zoned), pa.timestamp("us", "UTC")))
    local = _keep_only(column, naive)
    if local.null_count == len(local):
        return aware
    return pc.coalesce(aware, _count_since_1970(_localise(_cast_or_null(local, pa.timestamp("us")), tz)))


def _localise(column: pa.Array, tz: str | None) -> pa.Array:
    if tz is None and column.null_count < len(column):
        raise ParameterError(
            "Times must name their zone, be unix seconds, or come with one for all of them. Got a time without a "
            "zone. Give the zone, for example --tz UTC."
        )
    there = pc.assume_timezone(column, tz or "UTC", ambiguous="earliest", nonexistent="earliest")
    return _keep_only(there, pc.equal(pc.local_timestamp(there), column))


def _count_since_1970(column: pa.Array) -> pa.Array:
    return pc.divide(column.cast(pa.int64()).cast(pa.float64(), safe=False), 1e6)


def _cast_or_null(column: pa.Array, to: pa.DataType) -> pa.Array:
    """Cast, with null for every cell that fails; those are found by halving, so a few cost little."""
    try:
        return column.cast(to)
    except pa.ArrowInvalid:
        if len(column) == 1:
            return pa.nulls(1, to)
    half = len(column) // 2
    return pa.concat_arrays([_cast_or_null(column[:half], to), _cast_or_null(column[half:], to)])


def _keep_only(column: pa.Array, keep: pa.Array) -> pa.Array:
    return pc.if_else(pc.fill_null(keep, False), column, pa.scalar(None, column.type))
