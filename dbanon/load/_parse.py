"""What the cells of a column mean: numbers, times, texts.

A cell that cannot be read is null in the result, for the caller to count; no Python object is made for a cell, and no
message quotes one.
"""

import functools
from collections.abc import Callable, Sequence
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from numpy.typing import NDArray

from dbanon.base.errors import DataError, ParameterError
from dbanon.base.times import EARLIEST_S, FIRST_S, FORMS, ISO, LAST_S, LATEST_S, ODD_NUMBERS
from dbanon.options.loading import LoadingQuasiIdentifiers, LoadingRequests, LoadingTrajectories
from dbanon.postgres.connection import Connection
from dbanon.postgres.sqlstate import adapt_to_command_line

Forms = Sequence[tuple[str, str]]
MAX_SUBJECT_BYTES = 1000

MAX_SHOWN_BYTES = 1000
"""Characters of a cell that are kept in the quarantine."""

TIME_UNITS = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (np.inf, 1e9))
"""Numbers below the first are so many to a second: seconds, milliseconds, microseconds, nanoseconds since 1970."""

_UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_EXCEL_1970, _DAY_S = 25_569.0, 86_400.0  # days since 1899-12-30

_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(?i:nan|inf|infinity)$"
_DATE = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_ISO = r"^" + _DATE + r"([ T]([01][0-9]|2[0-3])(:?[0-5][0-9](:?[0-5][0-9](\.[0-9]{1,9})?)?)?)?"
_ZONE = r"([zZ]|[+-](0[0-9]|1[0-5])(:?[0-5][0-9])?)$"


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

    Parameters
    ----------
    tz : str, optional
        Zone of times that name none.
    forms : list of (pattern, ISO 8601 of its groups), optional
        One of them is that of a time; without, texts that mean one instant are read (`dbanon.base.times`).
    unit : str, optional
        Of numbers, such as ``ms``. Without, it is decided by the median of the first of them: a stray huge number among
        seconds is a wrong time, not a right one in another unit.

    Attributes
    ----------
    repeated, missing : array of bool
        Which cells of the last batch are of an hour that comes twice, and were read as the first of the two, and which
        are of an hour that clocks left out.
    """

    def __init__(self, tz: str | None, *, forms: Forms | None = None, unit: str | None = None) -> None:
        self._tz, self._forms, self._unit = tz, forms, unit
        self._per_second: float | None = None if unit is None else _UNITS.get(unit, 1 / _DAY_S)
        self.repeated = self.missing = np.zeros(0, np.bool_)

    def convert_to_unix_s(self, column: pa.Array) -> pa.Array:
        """Cells (text, numbers or timestamps) as unix seconds; null where they are no time.

        Null too where clocks were set forward and the time of day was left out.

        Raises `ParameterError` if a time names no zone and there is none for all of them; `DataError` if the numbers
        cannot be times since 1970 in any unit.
        """
        self.repeated = self.missing = np.zeros(len(column), np.bool_)
        if pa.types.is_dictionary(column.type):
            column = column.cast(pa.string())
        if pa.types.is_date(column.type):
            column = column.cast(pa.timestamp("us"))
        if pa.types.is_timestamp(column.type):
            return self._convert_timestamps(column)
        if self._forms is not None:
            if pa.types.is_floating(column.type):  # whole numbers where one is missing
                column = _keep_only(column, pc.is_finite(column)).cast(pa.int64(), safe=False)
            return self._read_in_forms(pc.utf8_trim_whitespace(column.cast(pa.string())), self._forms)
        counted = parse_numbers(column)
        seconds = self._count_seconds(counted, len(column) - column.null_count)
        if pa.types.is_string(column.type) and counted.null_count:
            words = _keep_only(pc.utf8_trim_whitespace(column), pc.is_null(counted))
            seconds = pc.coalesce(seconds, self._read_words(words))
        return seconds

    def _count_seconds(self, counted: pa.Array, cells: int) -> pa.Array:
        if self._per_second is None:
            self._per_second = self._guess_unit(counted, cells)
        if self._unit == "days":
            # Spreadsheets write seven decimals, of which the last is nine milliseconds.
            return pc.round(pc.multiply(pc.subtract(counted, _EXCEL_1970), _DAY_S), ndigits=2)
        seconds = pc.divide(counted, self._per_second or 1.0)
        if self._unit is not None:
            return seconds
        # What is out of bounds was counted in another unit, or is no time.
        odd = pc.or_(pc.less(pc.abs(seconds), EARLIEST_S), pc.greater_equal(pc.abs(seconds), LATEST_S))
        return pc.if_else(pc.and_(odd, pc.is_finite(seconds)), LAST_S, seconds)

    def _guess_unit(self, counted: pa.Array, cells: int) -> float | None:
        sizes = np.abs(np.asarray(counted.to_numpy(zero_copy_only=False), np.float64))
        sizes = sizes[np.isfinite(sizes)]
        if not len(sizes):
            return None
        if 2 * (len(counted) - counted.null_count) < cells:  # of texts that are rarely numbers those decide nothing
            return 1.0
        return count_per_second(float(np.median(sizes)))

    def _read_words(self, words: pa.Array) -> pa.Array:
        """Read texts that are no numbers: ISO 8601 quickly, and what else means one instant."""
        seconds = self._parse_iso(words)
        left = _keep_only(words, pc.and_(pc.is_null(seconds), pa.array(~self.missing)))
        if left.null_count == len(left):
            return seconds
        for form, iso in FORMS:
            left = pc.replace_substring_regex(left, form, iso)
        return pc.coalesce(seconds, self._parse_iso(_make_strict(left)))

    def _read_in_forms(self, words: pa.Array, forms: Forms) -> pa.Array:
        written = pa.nulls(len(words), pa.string())
        for form, iso in forms:
            fits = _keep_only(words, pc.match_substring_regex(words, form))
            written = pc.coalesce(written, pc.replace_substring_regex(fits, form, iso))
        return self._parse_iso(_make_strict(written))

    def _convert_timestamps(self, column: pa.Array) -> pa.Array:
        seconds = pc.divide(column.cast(pa.int64()).cast(pa.float64(), safe=False), _UNITS[column.type.unit])
        if column.type.tz:
            return seconds
        sane = pc.and_(pc.greater_equal(seconds, FIRST_S), pc.less(seconds, LAST_S))  # others overflow in microseconds
        local = self._localise(_keep_only(column, sane).cast(pa.timestamp("us"), safe=False))
        return pc.if_else(pc.fill_null(sane, True), _count_since_1970(local), seconds)

    def _parse_iso(self, column: pa.Array) -> pa.Array:
        zoned = pc.match_substring_regex(column, _ISO + _ZONE)
        naive = pc.match_substring_regex(column, _ISO + "$")
        # Arrow wants at most six decimals and a capital Z.
        column = pc.replace_substring_regex(column, r"(\.[0-9]{6})[0-9]+", r"\1")
        column = pc.replace_substring_regex(column, "z$", "Z")
        aware = _count_since_1970(_cast_or_null(_keep_only(column, zoned), pa.timestamp("us", "UTC")))
        local = _keep_only(column, naive)
        if local.null_count == len(local):
            return aware
        return pc.coalesce(aware, _count_since_1970(self._localise(_cast_or_null(local, pa.timestamp("us")))))

    def _localise(self, column: pa.Array) -> pa.Array:
        if self._tz is None and column.null_count < len(column):
            raise ParameterError(
                "Times must name their zone, be unix seconds, or come with one for all of them. Got a time without a "
                "zone. Give the zone, for example --tz UTC."
            )
        zone = self._tz or "UTC"
        try:
            return pc.assume_timezone(column, zone)
        except pa.ArrowInvalid:  # clocks were set in one of these hours
            pass
        there = pc.assume_timezone(column, zone, ambiguous="earliest", nonexistent="earliest")
        other = pc.assume_timezone(column, zone, ambiguous="latest", nonexistent="earliest")
        exists = pc.equal(pc.local_timestamp(there), column)
        self.repeated = self.repeated | _convert_to_mask(pc.not_equal(there, other))
        self.missing = self.missing | _convert_to_mask(pc.invert(exists))
        return _keep_only(there, exists)


def ask_times(
    connection: Connection, options: LoadingTrajectories | LoadingRequests | LoadingQuasiIdentifiers
) -> Callable[[], Times]:
    """Ask the server what a format of times means; returns what makes the reader of a file.

    Raises `ParameterError` for a format that leaves a part of a time open.
    """
    forms = None
    if options.time_format is not None:
        query = "SELECT form, iso FROM dbanon_internal.list_time_forms(%s)"
        forms = connection.execute(query, [options.time_format]).fetchall()
    return functools.partial(Times, options.tz, forms=forms, unit=options.time_unit)


def count_per_second(size: float) -> float:
    """How many units make a second, by the size of a typical number of them since 1970.

    Raises `DataError` if that would be before the year 1990 or beyond 2100.
    """
    unit = next(unit for limit, unit in TIME_UNITS if size < limit)
    if size / unit >= LATEST_S or size / unit < EARLIEST_S:
        means, remedy = max((low, means, remedy) for low, high, means, remedy in ODD_NUMBERS if low <= size <= high)[1:]
        raise DataError(
            f"Times that are numbers must be unix times in seconds, ms, µs or ns, from 1990 to 2100. Got numbers of "
            f"another time. If they are {means}, give {adapt_to_command_line(remedy)}."
        )
    return unit


def is_too_long(subject: pa.Array) -> NDArray[np.bool_]:
    """Where subjects have more bytes than an index can hold."""
    length = pc.fill_null(pc.binary_length(subject), 0)
    return np.asarray(length.to_numpy(zero_copy_only=False)) > MAX_SUBJECT_BYTES


def has_control(name: pa.Array) -> NDArray[np.bool_]:
    """Where names have control characters, which a terminal obeys."""
    data = np.frombuffer(name.buffers()[2] or b"", np.uint8)
    if not ((data < 0x20) | (data == 0x7F) | (data == 0xC2)).any():  # the first bytes of all of them; six times as fast
        return np.zeros(len(name), np.bool_)
    matches = pc.fill_null(pc.match_substring_regex(name, r"\p{Cc}"), False)
    return np.asarray(matches.to_numpy(zero_copy_only=False))


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


def _make_strict(column: pa.Array) -> pa.Array:
    """Write times of `dbanon.base.times.ISO` as Arrow reads them; null where they are none."""
    column = _keep_only(column, pc.match_substring_regex(column, ISO))

    def replace(pattern: str, by: str) -> None:
        nonlocal column
        column = pc.replace_substring_regex(column, pattern, by)

    if pc.any(pc.match_substring_regex(column, "(?i)^[0-9]+-[a-z]")).as_py():
        for number, name in enumerate(_MONTHS, 1):
            replace(f"(?i)-{name}-", f"-{number:02d}-")
    replace("-([0-9]-)", r"-0\1")
    replace("^([^-]*-[^-]*-)([0-9](?:[Tt ]|$))", r"\10\2")
    replace("^(.{10})[Tt ] *", r"\1 ")
    replace(" ([0-9]:)", r" 0\1")
    if pc.any(pc.match_substring_regex(column, "(?i)m")).as_py():
        replace("(?i) 12(:[0-9:.]+ *[ap]m)", r" 00\1")
        for hour in range(12):
            replace(f"(?i) {hour:02d}(:[0-9:.]+) *pm", rf" {hour + 12}\1")
        replace("(?i) *am", "")
    return pc.replace_substring_regex(column, "(:[0-9:.]+) +", r"\1")


def _convert_to_mask(column: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False))


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
