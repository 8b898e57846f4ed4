"""What can be loaded, and its rows in batches: files, folders of tracks, and tables in memory that speak Arrow.

A source is asked for columns by name and knows nothing of what they mean. Which kind a file is, its content says.
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from dbanon.base.errors import DataError, ParameterError
from dbanon.load import _arrow, _files, _geometry, _mf_json, _names, _tracks
from dbanon.load._files import Batch
from dbanon.load._given import Table


@dataclass(frozen=True)
class Wanted:
    """How columns are to be read: the options that name them, those with line breaks, and the one of geometries."""

    options: str
    may_break: Collection[str] = ()
    geometry: str | None = None


class Source(Protocol):
    """Rows to load: `name` stands in sentences, `recorded` in ``dbanon.load``; `size` in bytes, None if not known."""

    @property
    def name(self) -> str: ...
    @property
    def recorded(self) -> str: ...
    @property
    def size(self) -> int | None: ...
    @property
    def geometries(self) -> _geometry.Geometries: ...
    def read_batches(self, names: Sequence[str], wanted: Wanted) -> Iterator[Batch]:
        """Read columns; raises `DataError` where one is missing, or no row is there."""


@dataclass(frozen=True)
class File:
    """A CSV or Parquet file; `tracks` and `mf_json` read files of fixes of other kinds."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def recorded(self) -> str:
        return str(self.path)

    @property
    def size(self) -> int | None:
        return self.path.stat().st_size

    @cached_property
    def geometries(self) -> _geometry.Geometries:
        schema = _files.read_parquet_schema(self.path)
        return _geometry.Geometries({}) if schema is None else _geometry.find_geometries(schema)

    def read_batches(self, names: Sequence[str], wanted: Wanted) -> Iterator[Batch]:
        return _files.read_batches(
            self.path, names, options=wanted.options, may_break=wanted.may_break, geometry=wanted.geometry
        )


@dataclass(frozen=True)
class FixesFile(File):
    """A file or folder of fixes that is no table: `_tracks` or `_mf_json` reads it, as columns of fixed names."""

    reader: Callable[[Path, Sequence[str], str], Iterator[Batch]]

    @cached_property
    def geometries(self) -> _geometry.Geometries:
        return _geometry.Geometries({})

    @property
    def size(self) -> int | None:
        return self.path.stat().st_size if self.path.is_file() else None

    def read_batches(self, names: Sequence[str], wanted: Wanted) -> Iterator[Batch]:
        return self.reader(self.path, list(dict.fromkeys(names)), wanted.options)


class Frame:
    """A table in memory, whose rows are read once: its stream may have no more than one way through."""

    size = None

    def __init__(self, given: Any) -> None:
        kind = type(given)
        self.name = self.recorded = f"{kind.__module__.partition('.')[0].lstrip('_')}.{kind.__name__}"
        primary = getattr(given, "active_geometry_name", None)
        try:
            # A frame of GeoPandas fails, or tells nothing of its geometries, unless it is asked in its own way.
            told = given.to_arrow(index=False) if hasattr(kind, "active_geometry_name") else given
            self._reader = pa.RecordBatchReader.from_stream(told)
        except Exception:  # whatever its maker raises
            raise DataError(
                f"{self.name} must be a table that Arrow can hold, and be open. Got one that hands out no rows. Keep "
                f"the columns that are needed, each of one type."
            ) from None
        self.geometries = _geometry.find_geometries(self._reader.schema, primary)

    def read_batches(self, names: Sequence[str], wanted: Wanted) -> Iterator[Batch]:
        _names.demand_columns(self.name, self._reader.schema.names, names, wanted.options)
        names = list(dict.fromkeys(names))
        read = _arrow.select_columns(self.name, self._read_rows(), names, geometry=wanted.geometry)
        parts = ((dict(zip(names, part, strict=True)), 0) for part in read)
        yield from _files.number_rows(self.name, parts, "rows to load (a stream that was read before has none left)")

    def _read_rows(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._reader
        except (pa.ArrowException, OSError):
            raise DataError(
                f"{self.name} must be readable to its last row. Its stream stopped. Read it whole by itself to see why."
            ) from None


def open_table(given: Table) -> File | Frame:
    """Take a table: a CSV or Parquet file, or a table in memory.

    Raises `ParameterError` for what is neither, and `DataError` for a table in memory that hands out no rows.
    """
    if hasattr(given, "__arrow_c_stream__"):
        return Frame(given)
    if isinstance(given, str | os.PathLike):
        return File(Path(given))
    raise ParameterError(
        f"A source must be the path of a file, or a table with __arrow_c_stream__: a frame of pandas, polars or "
        f"GeoPandas, a relation of DuckDB, a table of pyarrow. Got {type(given).__name__}."
    )


def open_fixes(given: Table) -> Source:
    """Take a table as `open_table` does, or tracks: a GPX or PLT file, a folder of them, or MF-JSON."""
    taken = open_table(given)
    if isinstance(taken, File):
        if _tracks.are_tracks(taken.path):
            return FixesFile(taken.path, _tracks.read_batches)
        if _mf_json.is_json(taken.path):
            return FixesFile(taken.path, _mf_json.read_batches)
    return taken
