"""Fixes out of what is loaded, batch by batch, into the staging table; what cannot be used goes into quarantine."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from dbanon.base.errors import DataError, ParameterError
from dbanon.base.progress import Progress, report_nothing
from dbanon.base.times import FIRST_S, LAST_S, SKIPPED_S
from dbanon.load import _crs, _geometry, _parse, _sources, _staging
from dbanon.load._columns import Table
from dbanon.load._load_report import LOAD_COLUMNS, LoadReport, collect_notices, report
from dbanon.load.datasets import LOADING_RECORD
from dbanon.load.formats import tabular
from dbanon.options.loading import Box, LoadingTrajectories, name_as_sql
from dbanon.postgres import binary_copy
from dbanon.postgres.connection import Connection, make_jsonb, translate_errors

BYTES_PER_MB = 1024**2
_BEGIN_QUERY = f"""SELECT geographic, first_number, dbanon_internal.list_null_names({LOADING_RECORD}),
        dbanon_internal.find_last_time({LOADING_RECORD})
    FROM dbanon_internal.begin_load({LOADING_RECORD})"""
_JUDGE_QUERY = (
    f"SELECT dbanon_internal.judge_suspects({LOADING_RECORD}, %(geographic)s, %(places)s::text[], %(sources)s)"
)
_FINISH_QUERY = f"""SELECT {LOAD_COLUMNS} FROM dbanon_internal.finish_load(
    {LOADING_RECORD}, %(sources)s, %(read)s::bigint[], %(cells)s, %(swap)s, %(none)s)"""
_STAGED = "dbanon_staged (file, line, subject, trip, t, x, y, repeated)"
_REMEDY = "Check which columns are named, --crs, --bbox and the times."
"""What to do where no row is usable."""
OWN_SUBJECT = "-"
"""As the name of the subject column: every row is a separate subject."""
COLUMN_OPTIONS = "--subject, --time, --x, --y, --geom or --trip"
_LATITUDE_NAMES = {"lat", "latitude", "northing", "north"}
_LONGITUDE_NAMES = {"lon", "lng", "long", "longitude", "easting", "east"}


class _Begun(NamedTuple):
    """What the server says of a load that it began.

    Whether x and y are degrees, the number of the first row that is its own subject, the texts that are no name, and
    the unix second after which a time is of the future.
    """

    geographic: bool
    first: int
    nobody: pa.Array
    last_s: float


@dataclass(frozen=True)
class Fixes:
    """Sources of fixes, in the order that decides between contradicting ones, and their reference system.

    `positions` has the columns of each: those of x and y, or the one of geometries.
    """

    sources: tuple[_sources.Source, ...]
    positions: tuple[tuple[str, ...], ...]
    crs: str
    options: LoadingTrajectories

    @property
    def recorded(self) -> list[str]:
        """What the record of the load calls them."""
        return [source.recorded for source in self.sources]

    @property
    def remedy(self) -> str:
        """What to do where x and y are the wrong way round."""
        names = next((where for where in self.positions if len(where) == 2), None)
        if names is None:
            return f"The points of column '{self.positions[0][0]}' have them the other way round. Write x first."
        return describe_swap(*names)

    @property
    def cells(self) -> dict[str, str]:
        """For each column to read, each once, the column of the staging table."""
        return {name: staged for where in self.positions for name, staged in self._map_columns(where).items()}

    def _map_columns(self, where: tuple[str, ...]) -> dict[str, str]:
        options = self.options
        named = {options.subject: "subject", options.time: "t", options.trip: "trip"}
        named |= zip(where, ("x", "y") if len(where) == 2 else ("place",), strict=True)
        return {name: staged for name, staged in named.items() if name is not None and name != OWN_SUBJECT}

    def stage(
        self, connection: Connection, begun: _Begun, make_times: Callable[[], _parse.Times], progress: Progress
    ) -> list[int]:
        """Copy the rows into the staging tables; returns how many each source had."""
        counted: list[int] = []
        for source, where in zip(self.sources, self.positions, strict=True):
            times, rows, placed, shaped = make_times(), 0, False, False
            names = list(self._map_columns(where))
            packed = where[0] if where[0] in source.geometries.columns else None
            numbers = [self.options.time, *(where if len(where) == 2 else ())]
            wanted = _sources.Wanted(COLUMN_OPTIONS, geometry=packed, numbers=numbers)
            for batch in report_batches(source, names, wanted, progress):
                read = self._read(batch, where, times)
                _crs.demand_same(source.name, read.systems, self.crs)
                placed = placed or read.x.null_count < len(read.x)
                shaped = shaped or read.shaped
                self._stage_batch(connection, begun, read, file=len(counted), before=sum(counted) + rows)
                rows += len(read.line)
            if shaped and not placed:
                raise DataError(
                    f"Column '{where[0]}' of {source.name} must hold points. It holds lines or areas. Make "
                    f"each of their points a row with its time."
                )
            counted.append(rows)
        return counted

    def _read(self, batch: tabular.Batch, where: tuple[str, ...], times: _parse.Times) -> "_Rows":
        """Take rows for fixes."""
        systems, shaped = batch.systems, False
        if len(where) == 1:
            wkb, named = _geometry.read_shapes(batch.columns[where[0]])
            x, y = _geometry.read_points(wkb)
            systems, shaped = systems | named, _geometry.are_other_shapes(wkb)
        else:
            x, y = (_parse.parse_numbers(batch.columns[name]) for name in where)
        line = batch.line.to_numpy().astype(np.int64)
        t = times.convert_to_unix_s(batch.columns[self.options.time])
        if times.missing.any():
            t = pc.if_else(pa.array(times.missing), SKIPPED_S, t)
        return _Rows(line, t, x, y, times.repeated, batch.columns, systems, shaped)

    def _stage_batch(self, connection: Connection, begun: _Begun, rows: "_Rows", *, file: int, before: int) -> None:
        """Copy rows of a file; those that are their own subjects come after so many before them."""
        columns, named, size = rows.columns, self.options, len(rows.line)
        if named.subject == OWN_SUBJECT:
            subject = pc.utf8_lpad(pa.array(begun.first + before + np.arange(size)).cast(pa.string()), 12, "0")
        else:
            subject = _parse.parse_texts(columns[named.subject])
        trip = pa.nulls(size, pa.string()) if named.trip is None else _parse.parse_texts(columns[named.trip])
        fine = self._find_fine(begun, subject, trip, rows)
        keep, places, files = pa.array(fine), (rows.t, rows.x, rows.y), np.full(size, file, np.int32)
        numbers = [_staging.convert_to_floats(column.filter(keep)) for column in places]
        usable = [files[fine], rows.line[fine], subject.filter(keep), trip.filter(keep), *numbers, rows.repeated[fine]]
        _staging.copy_rows(connection, _STAGED, usable)
        if not fine.all():
            odd = pa.array(~fine)
            cells = _parse.format_json({name: column.filter(odd) for name, column in columns.items()})
            texts = [_parse.replace_nul(column.filter(odd)) for column in (subject, trip)]
            left = [column.filter(odd) for column in places]
            values = [binary_copy.mark_nulls(_staging.convert_to_floats(c), _staging.is_null(c)) for c in left]
            suspects = [files[~fine], rows.line[~fine], *texts, *values, binary_copy.encode_jsonb(cells)]
            _staging.copy_rows(connection, "dbanon_suspect", suspects)

    def _find_fine(self, begun: _Begun, subject: pa.Array, trip: pa.Array, rows: "_Rows") -> NDArray[np.bool_]:
        """Where nothing can be wrong; `dbanon_internal.judge_suspects` knows the reasons against the others."""
        time, east, north = (_staging.convert_to_floats(column) for column in (rows.t, rows.x, rows.y))
        greatest = np.finfo(np.float64).max
        most_x, most_y = (180.0, 90.0) if begun.geographic else (greatest, greatest)
        odd = np.asarray(pc.is_in(subject, begun.nobody).to_numpy(zero_copy_only=False))
        odd |= _staging.is_null(subject) | _parse.is_too_long(subject) | _parse.has_control(subject)
        odd |= _parse.has_control(trip) | ~((time >= FIRST_S) & (time < LAST_S) & (time <= begun.last_s))
        odd |= ~((np.abs(east) <= most_x) & (np.abs(north) <= most_y))
        if self.options.bbox is not None:
            odd |= ~_is_inside(east, north, self.options.bbox)
        return np.asarray(~odd)


@dataclass(frozen=True)
class _Rows:
    """Fixes with their numbers, the columns they were read from, the reference systems that these name.

    `shaped`: whether they hold geometries, and all of them are lines or areas.
    """

    line: NDArray[np.int64]
    t: pa.Array
    x: pa.Array
    y: pa.Array
    repeated: NDArray[np.bool_]
    columns: dict[str, pa.Array]
    systems: frozenset[str]
    shaped: bool = False


def prepare_fixes(tables: Sequence[Table], options: LoadingTrajectories) -> Fixes:
    """Look at what is to be loaded, at no row but a first: where positions are, and in which reference system.

    Raises `ParameterError` unless there are sources and each is another, for columns of which no fix can be made, and
    for reference systems that differ; `DataError` for a table in memory that hands out no rows, and for a reference
    system without a number.
    """
    if not tables:
        raise ParameterError("At least one file or table must be given. Got none. Name a CSV or Parquet file.")
    sources = tuple(_sources.open_fixes(one, options.layer) for one in tables)
    _demand_single_mentions(sources)
    positions, systems = zip(*(_choose_position(source, options) for source in sources), strict=True)
    for where in set(positions):
        _demand_columns(options, where)
    return Fixes(sources, positions, _choose_system(sources, systems), options)


def _demand_single_mentions(sources: Sequence[_sources.Source]) -> None:
    places = [os.path.realpath(source.path) for source in sources if isinstance(source, _sources.File)]
    twice = next((place for place in places if places.count(place) > 1), None)
    if twice is not None:
        name = next(s.name for s in sources if isinstance(s, _sources.File) and os.path.realpath(s.path) == twice)
        raise ParameterError(f"Each file must be named once. Got {name} more than once. Leave out the repetitions.")


def _choose_position(source: _sources.Source, options: LoadingTrajectories) -> tuple[tuple[str, ...], str]:
    """Find where the position of a source is, as asked for, else in its geometry, else in x and y; and its system."""
    demand_one_position(options.geom, options.x, options.y)
    if isinstance(source, _sources.Layer):
        _sources.demand_no_position(source.name, options)
    if options.x is None and options.y is None:
        geometry = options.geom if options.geom in source.geometries.columns else None
        position = _sources.find_position(source, options.geom, _sources.Wanted(COLUMN_OPTIONS, geometry=geometry))
        if position is not None:
            return (position.name,), position.choose_system(source.name, options.crs)
    return (options.x or "x", options.y or "y"), _crs.DEGREES_CRS if options.crs is None else options.crs


def _choose_system(sources: Sequence[_sources.Source], codes: Sequence[str]) -> str:
    """Find the one reference system of all sources."""
    systems = {crs: source.name for source, crs in zip(sources, codes, strict=True)}
    if len(systems) > 1:
        raise ParameterError(
            f"Files that are loaded together must be in one reference system. {' and '.join(systems.values())} are "
            f"in {' and '.join(systems)}. Load them one after the other, the later ones with --append."
        )
    return next(iter(systems))


def _demand_columns(options: LoadingTrajectories, where: tuple[str, ...]) -> None:
    """Raise `ParameterError` for columns of which no fix can be made.

    One column is to be two things, none but the subject's is `OWN_SUBJECT`, and x and y are not called like each other.
    """
    what = "x and y" if len(where) == 2 else "position"
    demand_different([options.subject, options.time, *where], f"person, time, {what}")
    if OWN_SUBJECT in (options.time, *where, options.trip):
        raise ParameterError(
            f"Only the 'subject' column can be '{OWN_SUBJECT}'. Got it for another column. Name that column."
        )
    if len(where) == 2:
        demand_unswapped(*where)


def demand_one_position(geom: str | None, x: str | None, y: str | None) -> None:
    """Raise `ParameterError` if there are to be two places in a row."""
    if geom is not None and (x is not None or y is not None):
        raise ParameterError(
            "A place must have either a shape or x and y. Got columns of both. Give --geom, or --x and --y."
        )


def demand_unswapped(x: str, y: str) -> None:
    """Raise `ParameterError` if the columns of x and y are called latitude and longitude, in this order."""
    if x.strip().lower() in _LATITUDE_NAMES and y.strip().lower() in _LONGITUDE_NAMES:
        raise ParameterError(
            f"x must be the longitude or easting and y the latitude or northing. {describe_swap(x, y)}"
        )


def describe_swap(x: str, y: str) -> str:
    """Say what to do where two columns of a file are the wrong way round."""
    return f"Columns '{x}' and '{y}' are the other way round. Give --x {y} --y {x}."


def demand_different(named: list[str], what: str) -> None:
    """Raise `ParameterError` if a column is named twice."""
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise ParameterError(f"The columns of {what} must differ. Got '{twice}' twice. Name each as it is called.")


def report_batches(
    source: _sources.Source, names: list[str], wanted: _sources.Wanted, progress: Progress
) -> Iterator[tabular.Batch]:
    """Read the batches of a source and report how much of it is done, in MB."""
    stage = f"reading {source.name}, MB"
    progress(stage, 0, None)
    done = 0
    for batch in source.read_batches(names, wanted):
        size = source.size
        done = batch.done_bytes or done + sum(column.nbytes for column in batch.columns.values())
        progress(stage, -(-done // BYTES_PER_MB), None if size is None else -(-size // BYTES_PER_MB))
        yield batch


def load_trajectories(
    connection: Connection, tables: Sequence[Table], options: LoadingTrajectories, progress: Progress = report_nothing
) -> LoadReport:
    """Load fixes from files and from tables in memory.

    Their order and errors are those of `dbanon.database.datasets.Datasets.load_trajectories`.
    """
    _parse.demand_zone(options.tz)
    source = prepare_fixes(tables, options)
    arguments: dict[str, Any] = {"asked": make_jsonb(name_as_sql(vars(options) | {"crs": source.crs}))}
    with translate_errors(), connection.transaction(), collect_notices(connection, progress) as notices:
        row = connection.execute(_BEGIN_QUERY, arguments).fetchone()
        geographic, first, nobody, last_s = cast("tuple[bool, int, list[str], float]", row)
        begun = _Begun(geographic, first, pa.array(nobody, pa.string()), last_s)
        counted = source.stage(connection, begun, _parse.ask_times(connection, options), progress)
        places = [name for name, staged in source.cells.items() if staged in ("x", "y", "place")]
        arguments |= {"sources": source.recorded}
        connection.execute(_JUDGE_QUERY, arguments | {"geographic": geographic, "places": places})
        arguments |= {"read": counted, "cells": Jsonb(source.cells), "swap": source.remedy, "none": _REMEDY}
        with connection.cursor(row_factory=dict_row) as cursor:
            loads = cursor.execute(_FINISH_QUERY, arguments).fetchall()
        progress("making trajectories", loads[0]["trajectories"], loads[0]["trajectories"])
    return report(options.dataset, source.recorded, loads, notices)


def _is_inside(x: NDArray[np.float64], y: NDArray[np.float64], bbox: Box) -> NDArray[np.bool_]:
    """Where positions lie in a box; one whose least x is the greater crosses the antimeridian."""
    west, south, east, north = bbox
    across = (x >= west) & (x <= east) if west <= east else (x >= west) | (x <= east)
    return np.asarray(across & (y >= south) & (y <= north))
