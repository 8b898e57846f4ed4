"""Rows of CSV and Parquet files in batches of bounded size.

A file that is no table at all is an error, reported in one sentence that quotes no cell.
"""

import csv
import itertools
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from dbanon.base.errors import DataError, format_count
from dbanon.load import _columns
from dbanon.load.formats import kinds, parquet

BLOCK_BYTES = 4 * 1024**2
HEAD_BYTES = 65_536

_FILE_KINDS = {
    stat.S_IFDIR: "a directory. Name the files in it",
    stat.S_IFIFO: "a pipe. Write its data to a file first",
    stat.S_IFSOCK: "a socket. Write its data to a file first",
}
_SEPARATORS = ",;\t|"
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")


@dataclass(frozen=True)
class Batch:
    """Some rows of a source: the line of each (a file's header is line 1) and the columns asked for.

    These are texts, numbers, times or WKB. `systems` are the reference systems that the rows name, as EPSG:n.
    """

    line: pa.Array
    columns: dict[str, pa.Array]
    done_bytes: int
    systems: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.line)


def read_batches(
    path: Path,
    names: Sequence[str],
    *,
    option_names: str,
    may_break: Collection[str] = (),
    geometry: str | None = None,
    numbers: Collection[str] = (),
) -> Iterator[Batch]:
    """Read the named columns of a CSV (also gzipped) or Parquet file; `option_names` are those that name them.

    Of Parquet that of `geometry` becomes WKB. In CSV with semicolons `numbers` may have decimal commas. Raises
    `DataError` if there is no such file, or it is empty, no table, cut off or lacks a column; or if a cell holds a line
    break in a column that is not among `may_break`: a quote that was opened and not closed swallows whole rows.
    """
    names = list(dict.fromkeys(names))
    read = _read_parts(path, names, option_names, may_break=may_break, geometry=geometry, numbers=numbers)
    parts = ((dict(zip(names, columns, strict=True)), done) for columns, done in read)
    yield from number_rows(path.name, parts, "rows below its header", first=2)


def number_rows(
    called: str,
    parts: Iterator[tuple[dict[str, pa.Array], int]],
    held: str,
    *,
    first: int = 1,
    systems: frozenset[str] = frozenset(),
) -> Iterator[Batch]:
    """Make batches of parts of a source and how many bytes of it were read with each; its rows are numbered.

    Raises `DataError` if there is no row; `held` says what should be there.
    """
    line = first
    for columns, done in parts:
        rows = len(next(iter(columns.values())))
        yield Batch(pa.array(np.arange(line, line + rows)), columns, done, systems)
        line += rows
    if line == first:
        raise DataError(f"{called} must hold {held}. Got none. Check it.")


def _demand_single_lines(path: Path, name: str, column: pa.Array, first: int) -> None:
    broken = pc.or_(pc.match_substring(column, "\n"), pc.match_substring(column, "\r"))
    at = pc.index(broken, True).as_py()
    if at >= 0:
        raise DataError(
            f"A cell in column '{name}' of {path.name} must be on one line. The one of line {first + at} is not. A "
            "quote may be open there. Correct it."
        )


def _read_parts(
    path: Path,
    names: list[str],
    option_names: str,
    *,
    may_break: Collection[str],
    geometry: str | None,
    numbers: Collection[str],
) -> Iterator[tuple[list[pa.Array], int]]:
    with translate_read_errors(path):
        demand_file(path)
        head = kinds.read_head(path)
        if head.startswith(kinds.PARQUET):
            yield from _read_parquet(path, names, option_names, geometry)
        else:
            zipped = head.startswith(kinds.GZIP)
            yield from _read_csv(path, names, option_names, may_break=may_break, numbers=numbers, zipped=zipped)


def demand_readable(path: Path) -> None:
    """Refuse a path that names no file, or one that may not be read, as `DataError`."""
    with translate_read_errors(path):
        if _demand_regular(path):
            path.open("rb").close()


def _demand_regular(path: Path) -> int:
    """Return the bytes of a file; refuse what is no file, without opening it: reading from it might never end."""
    there = path.stat()
    if not stat.S_ISREG(there.st_mode):
        kind = _FILE_KINDS.get(stat.S_IFMT(there.st_mode), "a device. Name a file")
        raise DataError(f"The file to load must be a file. {path} is {kind}.")
    return there.st_size


def demand_file(path: Path, kind: str = "CSV or Parquet file") -> None:
    """Refuse what is no file with bytes in it, without opening it."""
    # Files of the system that wait for what comes, such as /proc/kmsg, call themselves empty.
    if not _demand_regular(path):
        raise DataError(f"{path.name} must be a {kind}. Got an empty file. Check its name, or write it again.")


@contextmanager
def translate_read_errors(path: Path, kind: str = "CSV or Parquet file") -> Iterator[None]:
    """Turn what the readers say of a broken file into one sentence that quotes nothing of it."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"The file to load must exist. There is no {path}. Check its name.") from None
    except PermissionError:
        raise DataError(f"The file to load must be readable. {path} is not. Check its permissions.") from None
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path.name} must be a whole {kind}. {_shorten_complaint(str(error), path)}") from None


def _shorten_complaint(words: str, path: Path | None = None) -> str:
    row = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", words)
    if row:
        wanted, got = int(row[2]), int(row[3])
        fault = f"Line {row[1]} has {format_count(got, 'cell')} where the header has {wanted}"
        if path is None or wanted in _count_cells(path):
            return f"{fault}. Correct or remove it."
        remedy = (
            "Name the missing column in the header" if got > wanted else "Remove the name without cells from the header"
        )
        return f"{fault}, and no row has {wanted}. {remedy}, or write the file again."
    if "UTF8" in words or "utf-8" in words:
        return "Got text that is not UTF-8. Convert it, for example with iconv."
    if any(sign in words.lower() for sign in ("zlib", "gzip", "truncated", "inflate")):
        return "Got a gzip file that is damaged or cut off. Copy it again."
    return "Got a file that breaks off or is of another kind. Check it."


def _count_cells(path: Path) -> set[int]:
    """Count the cells of the first rows of a CSV file below its header; returns the numbers that there are."""
    with _open_stream(path, zipped=kinds.read_head(path).startswith(kinds.GZIP))[0] as stream:
        head = stream.read(HEAD_BYTES)
    lines = [line for line in head.decode(errors="replace").splitlines() if line.strip()]
    rows = csv.reader(lines[: -1 if len(head) == HEAD_BYTES else None], delimiter=_guess_separator(lines[0], []))
    return {len(row) for row in itertools.islice(rows, 1, None)}


def read_parquet_schema(path: Path) -> pa.Schema | None:
    """Look at the columns of a Parquet file; None of another, or of one that cannot be read: that is said later."""
    try:
        return pq.read_schema(path) if kinds.read_head(path).startswith(kinds.PARQUET) else None
    except (pa.ArrowException, OSError):
        return None


def _read_parquet(
    path: Path, names: list[str], option_names: str, geometry: str | None
) -> Iterator[tuple[list[pa.Array], int]]:
    with pq.ParquetFile(path) as file:
        _columns.demand_columns(path.name, file.schema_arrow.names, names, option_names)
        size, rows = path.stat().st_size, max(file.metadata.num_rows, 1)
        for columns, done in parquet.survey_columns(path, file, names, geometry):
            yield columns, size * done // rows


def _read_csv(
    path: Path,
    names: list[str],
    option_names: str,
    *,
    may_break: Collection[str],
    numbers: Collection[str],
    zipped: bool,
) -> Iterator[tuple[list[pa.Array], int]]:
    with _open_stream(path, zipped=zipped)[0] as stream:
        head = stream.read(HEAD_BYTES)
    first = _read_first_line(path, head, zipped=zipped)
    if len(head) < HEAD_BYTES and not head.partition(first.encode())[2].strip():
        return  # a header alone, which Arrow would call broken
    separator = _guess_separator(first, names)
    header = next(csv.reader([first], delimiter=separator))
    if not set(names) <= set(header):
        _demand_header(path, first, head)
    _columns.demand_columns(path.name, header, names, option_names)
    commas = [name in numbers and separator == ";" for name in names]
    stream, file = _open_stream(path, zipped=zipped)
    with stream:
        reader = pacsv.open_csv(  # on one thread, because only then an error names its line
            stream,
            pacsv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
            pacsv.ParseOptions(delimiter=separator, newlines_in_values=True),
            pacsv.ConvertOptions(include_columns=names, column_types=dict.fromkeys(names, pa.string())),
        )
        line = 2
        for batch in reader:
            if batch.num_rows:
                for name, column in zip(names, batch.columns, strict=True):
                    if name not in may_break:
                        _demand_single_lines(path, name, column, line)
                read = zip(batch.columns, commas, strict=True)
                yield [_replace_comma(column) if comma else column for column, comma in read], file.tell()
                line += batch.num_rows


def _open_stream(path: Path, *, zipped: bool) -> tuple[Any, Any]:
    """Open a file; returns the stream of its text, and the file whose position is how far it was read."""
    file = pa.OSFile(str(path))
    return (pa.CompressedInputStream(file, "gzip") if zipped else file), file


def _replace_comma(column: pa.Array) -> pa.Array:
    """Write numbers that have a decimal comma with a point; other cells, and times without signs, stay as they are."""
    return pc.replace_substring_regex(column, r"^(\s*[+-]?[0-9]{0,13}),([0-9]+(?:[eE][+-]?[0-9]+)?\s*)$", r"\1.\2")


def _demand_header(path: Path, first: str, head: bytes) -> None:
    """Refuse a file that begins with lines of comments, which are not the header: it has as many cells as a row."""
    begins = re.match(r"#|(?i:sep=)", first)
    rows = [line for line in head.decode(errors="replace").splitlines() if line.strip()]
    other = next((row for row in rows if begins and not row.startswith(first[: begins.end()])), "")
    sign = max(_SEPARATORS, key=other.count)
    if begins and first.count(sign) != other.count(sign):
        raise DataError(
            f"{path.name} must begin with the names of its columns. Line 1 begins with {begins[0]}. Remove the lines "
            f"above the names."
        )


def _read_first_line(path: Path, head: bytes, *, zipped: bool) -> str:
    """Find the first line that is not blank, in a file that is text."""
    kinds.demand_known(path, head.removeprefix(b"\xef\xbb\xbf"), zipped=zipped)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or (b"\0" in head and _is_wide(head)):
        raise _make_not_utf_8_error(path)
    lines = (line for line in re.split(rb"\r\n|\r|\n", head.removeprefix(b"\xef\xbb\xbf")) if line.strip())
    header = next(lines, b"")
    if b"\0" in head or _CONTROL.search(header):
        raise DataError(f"{path.name} must be a CSV or Parquet file. Got a binary file of another kind. Convert it.")
    try:
        first = header.decode()
    except UnicodeDecodeError:
        raise _make_not_utf_8_error(path) from None
    if not first:
        raise DataError(
            f"{path.name} must be a CSV or Parquet file. Got an empty file. Check its name, or write it again."
        )
    return first


def _is_wide(head: bytes) -> bool:
    """Whether text of two bytes a character is likely: every other byte is zero."""
    half = len(head) // 2
    return half > 0 and max(head[0::2].count(0), head[1::2].count(0)) > 0.8 * half


def _make_not_utf_8_error(path: Path) -> DataError:
    return DataError(f"{path.name} must be a whole CSV or Parquet file. {_shorten_complaint('utf-8')}")


def _guess_separator(first: str, names: Sequence[str]) -> str:
    """What separates the cells: the sign that makes the wanted columns of the header, else the one that makes most."""
    columns = {sign: next(csv.reader([first], delimiter=sign)) for sign in _SEPARATORS}
    fits = (sign for sign, header in columns.items() if names and set(names) <= set(header))
    return next(fits, max(_SEPARATORS, key=lambda sign: len(columns[sign])))
