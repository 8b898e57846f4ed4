"""Writes releases to files, row by row as they come from the server.

A file is written in a directory of its own beside the place it is for, and moved there when it is whole: what was there
before is replaced by all of it, or stays. The promise of the release is in the file's metadata, or in one beside it.
CSV and GeoJSON are what the server makes of the rows; `dbanon.releases.frames` makes all else, with Arrow.
"""

import errno
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from psycopg import sql

from dbanon.base import extras
from dbanon.base.errors import DataError, ParameterError
from dbanon.base.progress import Progress, report_nothing
from dbanon.postgres.connection import Connection, make_sql
from dbanon.releases import published

_ARROW_SUFFIXES = (".parquet", ".gpkg", ".fgb")
_SERVER_SUFFIXES = (".csv", ".geojson")
_ROWS_PER_REPORT = 10_000  # rows between two reports of progress


def write(
    connection: Connection,
    name: str,
    file: Path,
    *,
    where: str | None = None,
    params: published.Params | None = None,
    progress: Progress = report_nothing,
) -> int:
    """Write a release, or those of its rows that meet a condition, to a file of the kind that its suffix names.

    Arguments, errors and the number returned are those of `dbanon.database.Database.export`.
    """
    suffix = file.suffix.lower()
    if suffix in _ARROW_SUFFIXES:
        extras.demand("files")
        from dbanon.releases import frames

        with (
            write_atomically(file) as part,
            published.open_rows(connection, name, "Arrow", where=where, params=params) as rows,
        ):
            return frames.write(part, rows, progress)
    if suffix not in _SERVER_SUFFIXES:
        endings = ", ".join((*_ARROW_SUFFIXES, *_SERVER_SUFFIXES))
        raise ParameterError(
            f"The file's name must end in {endings}. Got {file.name!r}. Choose the format by the ending."
        )
    form: published.Form = "CSV" if suffix == ".csv" else "GeoJSON"
    with (
        write_atomically(file) as part,
        published.open_rows(connection, name, form, where=where, params=params) as rows,
    ):
        return (_write_csv if form == "CSV" else _write_geojson)(part, rows, progress)


def write_text(file: Path, text: str, *, private: bool = False) -> None:
    """Write a text as a file, whole or not at all; a `private` one only its owner may read."""
    with write_atomically(file) as part:
        part.touch(0o600 if private else 0o666)
        part.write_text(text, encoding="utf-8")


@contextmanager
def write_atomically(file: Path) -> Iterator[Path]:
    """Give a place to write a file; what is there after the block is moved to where it belongs, unless it failed."""
    try:
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, "")
        with tempfile.TemporaryDirectory(prefix=f".{file.name}-", dir=file.parent) as folder:
            part = Path(folder) / file.name
            yield part
            for made in sorted(Path(folder).iterdir(), reverse=True):  # what lies beside a file comes before it
                made.replace(file.with_name(made.name))
    except OSError as error:
        raise DataError(
            f"The file must be writable in {file.parent}, with room for it. Got: {_describe_os_error(error)}. "
            f"Nothing was kept."
        ) from error


def _describe_os_error(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def _write_csv(part: Path, rows: published.Rows, progress: Progress) -> int:
    """Write CSV with the region as WKT, texts in quotes, and the promise as a text file beside it."""
    part.with_name(f"{part.name}.txt").write_text(f"{rows.promise}\n", encoding="utf-8")
    quoted = sql.SQL(", ").join(map(sql.Identifier, rows.texts))
    copy = sql.SQL("COPY ({}) TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE ({}))").format(make_sql(rows.query), quoted)
    with part.open("wb") as file:
        return _copy_rows(rows, copy, file, progress)


def _write_geojson(part: Path, rows: published.Rows, progress: Progress) -> int:
    """Write GeoJSON (RFC 7946), a feature a line; name and promise are members of the collection."""
    about = {"type": "FeatureCollection", "name": rows.name, "description": rows.promise, "features": []}
    # No text of JSON has these two letters as they are, so that the server quotes nothing.
    form = "FORMAT csv, DELIMITER E'\\x01', QUOTE E'\\x02'"
    copy = sql.SQL("COPY ({}) TO STDOUT ({})").format(make_sql(rows.query), make_sql(form))
    with part.open("wb") as file:
        file.write(json.dumps(about, ensure_ascii=False).removesuffix("]}").encode() + b"\n")
        begin = file.tell()
        count = _copy_rows(rows, copy, file, progress)
        file.write(b"]}\n")
        if count:
            file.seek(begin)
            file.write(b" ")  # over the comma before the first feature
    return count


def _copy_rows(rows: published.Rows, copy: sql.Composed, file: BinaryIO, progress: Progress) -> int:
    """Write what a COPY of the rows gives; returns how many there were."""
    with rows.connection.cursor() as cursor:
        with cursor.copy(copy) as blocks:
            for number, block in enumerate(blocks):
                if number % _ROWS_PER_REPORT == 0:
                    progress("writing rows", number, None)
                file.write(block)
        return cursor.rowcount
