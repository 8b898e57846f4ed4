"""Rows of CSV and Parquet files in batches of bounded size, and what their cells mean: numbers, times, subjects.

A file that is no table at all is an error. A cell that cannot be read is null in the result, for the caller to count;
no Python object is made for a cell. No message quotes a cell.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from dbanon.errors import DataError, ParameterError

BLOCK_BYTES = 4 * 1024**2
ROWS = 65_536

_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(?i:nan|inf|infinity)$"
_ISO = r"^[0-9]{4}-[01][0-9]-[0-3][0-9]([ T][0-2][0-9](:?[0-5][0-9](:?[0-5][0-9](\.[0-9]{1,9})?)?)?)?"
_ZONE = r"([zZ]|[+-][0-9]{2}(:?[0-9]{2})?)$"
_FIRST_S, _LAST_S = -62_135_596_800.0, 253_402_300_799.0  # years 1 to 9999


@dataclass(frozen=True)
class Batch:
    """Some rows of a file: the line of each (the header is line 1) and the columns asked for, as text or numbers."""

    line: pa.Array
    columns: dict[str, pa.Array]
    done_bytes: int

    def __len__(self) -> int:
        return len(self.line)


def batches(path: Path, names: Sequence[str]) -> Iterator[Batch]:
    """Read the named columns of a CSV (also gzipped) or Parquet file.

    Raises
    ------
    DataError
        If there is no such file, or it is empty, no table, cut off or lacks a column.
    """
    names = list(dict.fromkeys(names))
    first = 2
    for columns, done in _parts(path, names):
        rows = len(columns[0])
        yield Batch(pa.array(np.arange(first, first + rows)), dict(zip(names, columns, strict=True)), done)
        first += rows
    if first == 2:
        raise DataError(f"{path.name} must hold rows below its header. Got none; check the file.")


def check_zone(tz: str | None) -> None:
    """Raise `ParameterError` if there is no time zone of this name."""
    try:
        if tz is not None:
            ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ParameterError(f"The time zone must be a name such as Europe/Berlin or UTC. Got {tz!r}.") from None


def numbers(column: pa.Array) -> pa.Array:
    """Cells as float64; null where they are no numbers (NaN and infinities are)."""
    if not pa.types.is_string(column.type):
        return column.cast(pa.float64(), safe=False) if _is_number(column.type) else pa.nulls(len(column), pa.float64())
    try:
        return column.cast(pa.float64())
    except pa.ArrowInvalid:
        trimmed = pc.utf8_trim_whitespace(column)
        looks_right = pc.match_substring_regex(trimmed, _NUMBER)
        return _cast_or_null(_only(trimmed, looks_right), pa.float64())


def unix_seconds(column: pa.Array, tz: str | None) -> pa.Array:
    """Cells as unix seconds; null where they are neither a number nor ISO 8601, or not within the years 1 to 9999.

    Parameters
    ----------
    column : Arrow array
        Text, numbers (unix seconds) or timestamps.
    tz : str or None
        Zone of times that name none; the earlier of two where clocks are set back.

    Raises
    ------
    ParameterError
        If a time names no zone and `tz` is None.
    """
    if pa.types.is_timestamp(column.type):
        micro = column.cast(pa.timestamp("us", column.type.tz), safe=False)
        return _within_years(_since_1970(micro if column.type.tz else _localised(micro, tz)))
    seconds = numbers(column)
    if pa.types.is_string(column.type) and seconds.null_count:
        seconds = pc.coalesce(seconds, _iso_seconds(_only(pc.utf8_trim_whitespace(column), pc.is_null(seconds)), tz))
    return _within_years(seconds)


def texts(column: pa.Array) -> pa.Array:
    """Cells as text without surrounding blanks; null where nothing is left."""
    # One name in two spellings of Unicode would count as two people.
    trimmed = pc.utf8_normalize(pc.utf8_trim_whitespace(column.cast(pa.string())), form="NFC")
    return _only(trimmed, pc.not_equal(trimmed, ""))


# ---- cells -----------------------------------------------------------------------------------------------------------


def _iso_seconds(column: pa.Array, tz: str | None) -> pa.Array:
    zoned = pc.match_substring_regex(column, _ISO + _ZONE)
    naive = pc.match_substring_regex(column, _ISO + "$")
    # Arrow wants at most six decimals and a capital Z.
    column = pc.replace_substring_regex(column, r"(\.[0-9]{6})[0-9]+", r"\1")
    column = pc.replace_substring_regex(column, "z$", "Z")
    aware = _since_1970(_cast_or_null(_only(column, zoned), pa.timestamp("us", "UTC")))
    local = _only(column, naive)
    if local.null_count == len(local):
        return aware
    return pc.coalesce(aware, _since_1970(_localised(_cast_or_null(local, pa.timestamp("us")), tz)))


def _localised(column: pa.Array, tz: str | None) -> pa.Array:
    if tz is None and column.null_count < len(column):
        raise ParameterError(
            "Times must name their zone, be unix seconds, or come with one for all of them. Got a time without a zone; "
            "give the zone, for example --tz UTC."
        )
    return pc.assume_timezone(column, tz or "UTC", ambiguous="earliest", nonexistent="earliest")


def _since_1970(column: pa.Array) -> pa.Array:
    return pc.divide(column.cast(pa.int64()).cast(pa.float64(), safe=False), 1e6)


def _within_years(seconds: pa.Array) -> pa.Array:
    """Null for finite times outside the years 1 to 9999; milliseconds are the usual cause."""
    inside = pc.and_(pc.greater_equal(seconds, _FIRST_S), pc.less_equal(seconds, _LAST_S))
    return _only(seconds, pc.or_(inside, pc.invert(pc.is_finite(seconds))))


def _cast_or_null(column: pa.Array, to: pa.DataType) -> pa.Array:
    """Cast, with null for every cell that fails; those are found by halving, so a few cost little."""
    try:
        return column.cast(to)
    except pa.ArrowInvalid:
        if len(column) == 1:
            return pa.nulls(1, to)
    half = len(column) // 2
    return pa.concat_arrays([_cast_or_null(column[:half], to), _cast_or_null(column[half:], to)])


def _only(column: pa.Array, keep: pa.Array) -> pa.Array:
    return pc.if_else(pc.fill_null(keep, False), column, pa.scalar(None, column.type))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _plain(column: pa.Array) -> pa.Array:
    """Undo dictionaries, and make text of all that is neither a number nor a time."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column if _is_number(column.type) or pa.types.is_timestamp(column.type) else column.cast(pa.string())


# ---- files -----------------------------------------------------------------------------------------------------------


def _parts(path: Path, names: list[str]) -> Iterator[tuple[list[pa.Array], int]]:
    with _readable(path):
        with path.open("rb") as raw:
            magic = raw.read(4)
        if not magic:
            raise DataError(f"{path.name} must be a CSV or Parquet file. Got an empty file.")
        yield from _parquet(path, names) if magic == b"PAR1" else _csv(path, names, zipped=magic[:2] == b"\x1f\x8b")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what the readers say of a broken file into one sentence that quotes nothing of it."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"The file to load must exist. There is no {path}; check its name.") from None
    except IsADirectoryError:
        raise DataError(f"The file to load must be a file. {path} is a directory; name the files in it.") from None
    except PermissionError:
        raise DataError(f"The file to load must be readable. {path} is not; check its permissions.") from None
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path.name} must be a whole CSV or Parquet file. {_complaint(str(error))}") from None


def _complaint(words: str) -> str:
    row = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", words)
    if row:
        return f"Line {row[1]} has {row[3]} cells where the header has {row[2]}; mend or remove it."
    if "UTF8" in words or "utf-8" in words:
        return "Got text that is not UTF-8; convert it, for example with iconv."
    if any(sign in words.lower() for sign in ("zlib", "gzip", "truncated", "inflate")):
        return "Got a damaged or cut off gzip file; copy it again."
    return "Got a file that breaks off or is of another kind; check it."


def _parquet(path: Path, names: list[str]) -> Iterator[tuple[list[pa.Array], int]]:
    with pq.ParquetFile(path) as file:
        _check_columns(path, file.schema_arrow.names, names)
        size, rows, done = path.stat().st_size, max(file.metadata.num_rows, 1), 0
        for batch in file.iter_batches(ROWS, columns=names):
            done += batch.num_rows
            yield [_plain(batch.column(name)) for name in names], size * done // rows


def _csv(path: Path, names: list[str], *, zipped: bool) -> Iterator[tuple[list[pa.Array], int]]:
    with _stream(path, zipped=zipped)[0] as stream:
        head = stream.read(65_536)
    _check_columns(path, _header(path, head), names)
    stream, file = _stream(path, zipped=zipped)
    with stream:
        reader = pacsv.open_csv(  # on one thread, because only then an error names its line
            stream,
            pacsv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
            pacsv.ParseOptions(newlines_in_values=True),
            pacsv.ConvertOptions(include_columns=names, column_types=dict.fromkeys(names, pa.string())),
        )
        for batch in reader:
            if batch.num_rows:
                yield batch.columns, file.tell()


def _stream(path: Path, *, zipped: bool) -> tuple[Any, Any]:
    """Open a file; returns the stream of its text, and the file whose position tells how far it was read."""
    file = pa.OSFile(str(path))
    return (pa.CompressedInputStream(file, "gzip") if zipped else file), file


def _header(path: Path, head: bytes) -> list[str]:
    if b"\0" in head:
        raise DataError(f"{path.name} must be a CSV or Parquet file. Got a binary file of another kind.")
    first = head.decode("utf-8-sig", "replace").lstrip("\r\n").splitlines()
    if not first:
        raise DataError(f"{path.name} must be a CSV or Parquet file. Got an empty file.")
    return next(csv.reader(first[:1]))


def _check_columns(path: Path, found: Sequence[str], wanted: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in found]
    if missing and any(re.match(r"\s*[+-]?\.?[0-9]", name) for name in found):
        raise DataError(
            f"The first line of {path.name} must name its columns. It holds values instead; put a header above them."
        )
    if missing:
        shown = ", ".join(found[:40])
        raise DataError(
            f"{path.name} must have a column '{missing[0]}'. It has: {shown}; name the right one (--subject, --time, "
            "--x, --y, --trip or --columns)."
        )
    twice = [name for name in wanted if list(found).count(name) > 1]
    if twice:
        raise DataError(f"{path.name} must have one column '{twice[0]}'. It has several; rename the others.")
