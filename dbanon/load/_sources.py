"""What can be loaded, and its rows in batches: files, folders of tracks, and tables in memory that speak Arrow.

A source is asked for columns by name and knows nothing of what they mean. Which kind a file is, its content says.
"""

import itertools
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from dbanon.base.errors import DataError, ParameterError
from dbanon.load import _columns, _geometry
from dbanon.load._columns import Table
from dbanon.load.formats import arrow, gis, kinds, mf_json, tabular, tracks
from dbanon.load.formats.tabular import Batch
from dbanon.options.loading import LoadingPlaces, LoadingTrajectories


@dataclass(frozen=True)
class Wanted:
    """How columns are to be read: the options that name them, those with line breaks, of geometries and of numbers."""

    option_names: str
    may_break: Collection[str] = ()
    geometry: str | None = None
    numbers: Collection[str] = ()


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

    def read_first(self, name: str, wanted: Wanted) -> Any:
        """Look at the first cell of a column that holds something; None if there is none."""


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
        schema = tabular.read_parquet_schema(self.path)
        return _geometry.Geometries({}) if schema is None else _geometry.find_geometries(schema)

    def read_batches(self, names: Sequence[str], wanted: Wanted) -> Iterator[Batch]:
        return tabular.read_batches(
            self.path, names, option_names=wanted.option_names, may_break=wanted.may_break, geometry=wanted.geometry,
            numbers=wanted.numbers,
        )  # fmt: skip

    def read_first(self, name: str, wanted: Wanted) -> Any:
        cells = (_find_first(batch.columns[name]) for batch in self.read_batches([name], wanted))
        return next((cell for cell in cells if cell is not None), None)


@dataclass(frozen=True)
class FixesFile(File):
    """A file or folder of fixes that is no table: `tracks` or `mf_json` reads it, as columns of fixed names."""

    reader: Callable[[Path, Sequence[str], str], Iterator[Batch]]

    @cached_property
    def geometries(self) -> _geometry.Geometries:
        return _geometry.Geometries({})

    @property
    def size(self) -> int | None:
        return self.path.stat().st_size if self.path.is_file() else None

    def read_batches(self, names: Sequence[str], wanted: Wanted) -> Iterator[Batch]:
        return self.reader(self.path, list(dict.fromkeys(names)), wanted.option_names)


@dataclass(frozen=True)
class Layer(File):
    """The points of GeoJSON, a GeoPackage or a Shapefile, which are its column ``geometry``; `layer` chooses one."""

    layer: str | None = None

    @cached_property
    def geometries(self) -> _geometry.Geometries:
        crs = gis.read_features(self.path, layer=self.layer, look=True).crs
        return _geometry.Geometries({"geometry": _geometry.Geometry("geometry", crs)}, ("geometry",))

    def read_batches(self, names: Sequence[str], wanted: Wanted) -> Iterator[Batch]:
        columns = list(dict.fromkeys(name for name in names if name != "geometry"))
        parts = gis.read_features(self.path, layer=self.layer, columns=columns).parts
        read = ((dict(zip(["geometry", *columns], part.columns, strict=True)), 0) for part in parts)
        yield from tabular.number_rows(self.name, read, "features")


class Frame:
    """A table in memory, whose rows are read once: its stream may have no more than one way through."""

    size = None

    def __init__(self, table: Any) -> None:
        kind = type(table)
        self.name = self.recorded = f"{kind.__module__.partition('.')[0].lstrip('_')}.{kind.__name__}"
        primary = getattr(table, "active_geometry_name", None)
        try:
            # A frame of GeoPandas fails, or tells nothing of its geometries, unless it is asked in its own way. An
            # index with a name may be asked for as a column; Arrow leaves out one that only counts.
            index = any(name is not None for name in getattr(getattr(table, "index", None), "names", ()))
            if hasattr(kind, "active_geometry_name"):
                table = table.to_arrow(index=index)
            elif index and kind.__module__.partition(".")[0] == "pandas":
                table = pa.Table.from_pandas(table, preserve_index=True)
            self._reader = pa.RecordBatchReader.from_stream(table)
            self._rows = self._read_rows()
        except Exception:  # whatever its maker raises
            raise DataError(
                f"{self.name} must be a table that Arrow can hold, and be open. Got one that hands out no rows. Keep "
                f"the columns that are needed, each of one type."
            ) from None
        self.geometries = _geometry.find_geometries(self._reader.schema, primary)

    def read_batches(self, names: Sequence[str], wanted: Wanted) -> Iterator[Batch]:
        _columns.demand_columns(self.name, self._reader.schema.names, names, wanted.option_names)
        names = list(dict.fromkeys(names))
        read = arrow.select_columns(self.name, self._rows, names, geometry=wanted.geometry)
        parts = ((dict(zip(names, part, strict=True)), 0) for part in read)
        yield from tabular.number_rows(self.name, parts, "rows to load (a stream that was read before has none left)")

    def read_first(self, name: str, wanted: Wanted) -> Any:
        _columns.demand_columns(self.name, self._reader.schema.names, [name], wanted.option_names)
        held, cell = [], None
        for batch in self._rows:
            held.append(batch)
            cell = _find_first(batch[name])
            if cell is not None:
                break
        self._rows = itertools.chain(held, self._rows)
        return cell

    def _read_rows(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._reader
        except (pa.ArrowException, OSError):
            raise DataError(
                f"{self.name} must be readable to its last row. Its stream stopped. Read it whole by itself to see why."
            ) from None


def open_table(table: Table) -> File | Frame:
    """Take a table: a CSV or Parquet file, or a table in memory.

    Raises `ParameterError` for what is neither, and `DataError` for a table in memory that hands out no rows.
    """
    if hasattr(table, "__arrow_c_stream__"):
        return Frame(table)
    if isinstance(table, str | os.PathLike):
        return File(Path(table))
    raise ParameterError(
        f"A source must be the path of a file, or a table with __arrow_c_stream__: a frame of pandas, polars or "
        f"GeoPandas, a relation of DuckDB, a table of pyarrow. Got {type(table).__name__}."
    )


def open_fixes(table: Table, layer: str | None = None) -> Source:
    """Take a table as `open_table` does, tracks, MF-JSON, or points of a geographic file, of which `layer` chooses."""
    taken = open_table(table)
    if isinstance(taken, File):
        path, head = taken.path, kinds.read_head(taken.path)
        if kinds.is_json(head) and mf_json.has_motion(path):
            taken = FixesFile(path, mf_json.read_batches)
        elif kinds.is_gis(head) and (b'"Feature' in head or b'"features"' in head or not kinds.is_json(head)):
            return Layer(path, layer)
        elif tracks.are_tracks(path):
            taken = FixesFile(path, tracks.read_batches)
        else:
            kinds.demand_known(path, head, fixes=True)
    demand_no_layer(taken, layer)
    return taken


def demand_no_layer(source: Source, layer: str | None) -> None:
    """Raise `ParameterError` for a layer of what is not geographic."""
    if layer is not None:
        raise ParameterError(f"Only a geographic file has layers. Got --layer for {source.name}. Leave it out.")


def demand_no_position(label: str, options: LoadingTrajectories | LoadingPlaces) -> None:
    """Raise `ParameterError` for columns of positions of what has its own."""
    if (options.x, options.y, options.geom) != (None, None, None):
        raise ParameterError(f"{label} holds its own geometries. Got columns for them. Leave out --x, --y and --geom.")


def find_position(source: Source, name: str | None, wanted: Wanted) -> _geometry.Geometry | None:
    """Find the column of this name that holds geometries or texts of them, or without a name the one declared.

    The system is the one that the first cell names, where nothing else says it. Refuses texts of moving points.
    """
    position = source.geometries.choose_column(source.name, name)
    if name is None or (position is not None and position.described is not None):
        return position
    first = source.read_first(name, wanted)
    if position is None and re.match(r"(?i)[\w\s=;{\[(]*?(?:POINT[ ZM]*\([^()@]*\)|[0-9A-F]{42})\s*@", str(first)):
        raise DataError(
            f"Column '{name}' of {source.name} must hold one position a row. It holds MobilityDB's tgeompoint. Copy "
            f"the rows into a table with the same columns, each of type text. Run `dbanon import` on it with the same "
            f"options, and with --crs if the texts name no SRID."
        )
    _, systems = _geometry.read_shapes(pa.array([first], pa.binary() if position else pa.string()))
    return _geometry.Geometry(name, next(iter(systems), None), is_text=position is None)


def _find_first(column: pa.Array) -> Any:
    """The first cell that holds something, bytes or text."""
    cells = column.drop_null()
    if len(cells) and not pa.types.is_binary(cells.type):
        cells = cells.cast(pa.string())
        cells = cells.filter(pc.not_equal(pc.utf8_trim_whitespace(cells), ""))
    return cells[0].as_py() if len(cells) else None
