"""Rows of CSV and Parquet files in batches of bounded size.

A file that is no table at all is an error, told in one sentence that quotes no cell.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from dbanon import _cells
from dbanon.errors import DataError

BLOCK_BYTES = 4 * 1024**2
ROWS = 65_536

_SEPARATORS = ",;\t|"


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


def _plain(path: Path, name: str, column: pa.Array) -> pa.Array:
    """Undo dictionaries, and make text of all that is neither a number nor a time."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_nested(column.type):
        raise DataError(
            f"Column '{name}' of {path.name} must hold single values. It holds lists; take them apart first."
        )
    if _cells.is_number(column.type) or pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return column
    return column.cast(pa.string())


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
            yield [_plain(path, name, batch.column(name)) for name in names], size * done // rows


def _csv(path: Path, names: list[str], *, zipped: bool) -> Iterator[tuple[list[pa.Array], int]]:
    with _stream(path, zipped=zipped)[0] as stream:
        head = stream.read(65_536)
    first = _first_line(path, head)
    separator = _separator(first, names)
    _check_columns(path, next(csv.reader([first], delimiter=separator)), names)
    stream, file = _stream(path, zipped=zipped)
    with stream:
        reader = pacsv.open_csv(  # on one thread, because only then an error names its line
            stream,
            pacsv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
            pacsv.ParseOptions(delimiter=separator, newlines_in_values=True),
            pacsv.ConvertOptions(include_columns=names, column_types=dict.fromkeys(names, pa.string())),
        )
        for batch in reader:
            if batch.num_rows:
                yield batch.columns, file.tell()


def _stream(path: Path, *, zipped: bool) -> tuple[Any, Any]:
    """Open a file; returns the stream of its text, and the file whose position tells how far it was read."""
    file = pa.OSFile(str(path))
    return (pa.CompressedInputStream(file, "gzip") if zipped else file), file


def _first_line(path: Path, head: bytes) -> str:
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(f"{path.name} must be UTF-8. Got UTF-16; convert it, for example with iconv.")
    if b"\0" in head:
        raise DataError(f"{path.name} must be a CSV or Parquet file. Got a binary file of another kind.")
    first = head.decode("utf-8-sig", "replace").lstrip("\r\n").splitlines()
    if not first:
        raise DataError(f"{path.name} must be a CSV or Parquet file. Got an empty file.")
    return first[0]


def _separator(first: str, names: Sequence[str]) -> str:
    """What separates the cells: the first of the usual signs that makes the wanted columns of the header."""
    fits = (sign for sign in _SEPARATORS if set(names) <= set(next(csv.reader([first], delimiter=sign))))
    return next(fits, ",")


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
