"""Whatever is loaded beside trajectories: copied into ``pg_temp.dbanon_file`` for the imports of tables to judge.

Invariants: all rows of a file are copied, with the line and the cells as they were read; what is wrong with a row is
for ``dbanon.import_*`` to say, as of any other table. What cannot be read as a number, a time or a shape is null.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from numpy.typing import NDArray
from psycopg.rows import dict_row

from dbanon.base.errors import DataError, format_count
from dbanon.base.progress import Progress, report_nothing
from dbanon.load import _crs, _geometry, _parse, _sources, _staging, _trajectories
from dbanon.load._columns import Table
from dbanon.load._load_report import LoadReport, collect_notices
from dbanon.load.datasets import LOADING_RECORD
from dbanon.load.formats import gis, kinds, tabular
from dbanon.options.loading import (
    Box,
    LoadingCells,
    LoadingPlaces,
    LoadingQuasiIdentifiers,
    LoadingRequests,
    name_as_sql,
)
from dbanon.postgres import binary_copy
from dbanon.postgres.connection import Connection, make_jsonb, translate_errors

Rows = Iterator[list[binary_copy.Column]]
Shapes = NDArray[np.object_]

_POLYGON_TYPES = (3, 6)  # shapely's numbers of Polygon and MultiPolygon
_EARLIEST_S, _LATEST_S = -1.5e11, 2e11
"""Times beyond these are out of range all the same; timestamptz holds both."""


# ---- places ----------------------------------------------------------------------------------------------------------


def load_places(
    connection: Connection, table: Table, options: LoadingPlaces, progress: Progress = report_nothing
) -> LoadReport:
    """Load one place a row from a table (a file or in memory), or one a feature from a geographic file.

    Parameters
    ----------
    options : LoadingSites, LoadingPois, LoadingCells or LoadingStations
        Of its columns all count in a table, and `name` alone in a geographic file.

    Returns
    -------
    LoadReport
        `trajectories` and `subjects` are 0.

    Raises
    ------
    ParameterError
        For columns and reference systems that cannot be used, and for x and y that are the wrong way round.
    DataError
        If the file is no table or no row is usable and new; nothing is stored then.
    """
    kind = options.kind
    with translate_errors(), connection.transaction(), collect_notices(connection, progress) as notices:
        srid = _claim_dataset(connection, options.dataset)
        source = _sources.open_table(table)
        if isinstance(source, _sources.File) and kinds.is_gis(kinds.read_head(source.path)):
            rows, crs = _read_features(source.path, options)
            swap = "The shapes have y first. Write them with x first."
            _copy(connection, source.recorded, None, rows, swap, f"Check the file, {_describe_others(options)}.")
        else:
            _sources.demand_no_layer(source, options.layer)
            options, crs = _find_position(source, options)
            _copy(
                connection,
                source.recorded,
                None,
                _read_placed(source, options, crs, progress),
                *_list_remedies(options),
            )
        made = _import_places(
            connection, kind, dataset=options.dataset, crs=crs, replace=options.replace, bbox=options.bbox,
            drop_outliers=options.drop_outliers, area=None if options.area is None else _read_area(Path(options.area)),
        )  # fmt: skip
        progress(f"storing {kind}", made["rows_kept"], made["rows_kept"])
    far = {"far-position": made["far"]} if made["far"] else {}
    return _report(options.dataset, kind, source, made, srid=srid, far=far, notices=notices)


def store_places(
    connection: Connection,
    kind: str,
    at: NDArray[np.float64],
    *,
    label: pa.Array | None = None,
    source: str,
    dataset: str,
    srid: int,
    area: str | None = None,
) -> int:
    """Store places that were made, positions with labels, as if read from a file of the name `source`.

    `area`, as WKT, is what cells of stations divide among themselves. Returns how many places were kept.
    """
    known = [np.arange(1, len(at) + 1), binary_copy.encode_jsonb(pa.repeat("{}", len(at)))]
    label = pa.nulls(len(at), pa.string()) if label is None else label
    _copy(connection, source, None, iter([[*known, label, _geometry.encode_wkb(shapely.points(at))]]))
    made = _import_places(connection, kind, dataset=dataset, crs=f"EPSG:{srid}", area=area)
    return int(made["rows_kept"])


def _import_places(
    connection: Connection,
    kind: str,
    *,
    dataset: str,
    crs: str,
    replace: bool = False,
    bbox: Box | None = None,
    drop_outliers: bool = False,
    area: str | None = None,
) -> dict[str, Any]:
    """Import what was copied into ``pg_temp.dbanon_file``; `area` is a geometry as text."""
    return _import_table(
        connection,
        "dbanon_internal.import_places(%(kind)s, 'pg_temp.dbanon_file', %(dataset)s, 'label', 'geom', %(crs)s, "
        "%(replace)s, %(bbox)s::float8[], %(drop)s, %(area)s)",
        {
            "kind": kind,
            "dataset": dataset,
            "crs": crs,
            "replace": replace,
            "bbox": None if bbox is None else [float(side) for side in bbox],
            "drop": drop_outliers,
            "area": area,
        },
    )


def _describe_others(options: LoadingPlaces) -> str:
    """Name the options to check beside those of columns."""
    return "--crs and --bbox" if options.kind == "sites" else "and --crs"


def _find_position(source: _sources.Source, options: LoadingPlaces) -> tuple[LoadingPlaces, str]:
    """Find where the places of a table are: as asked for, else in its geometry; and in which reference system."""
    if options.x is None and options.y is None:
        position = source.geometries.choose_column(source.name, options.geom)
        name = options.geom or (position.name if position else "geom" if isinstance(options, LoadingCells) else None)
        position = _sources.find_position(source, name, _describe_reading(source, options, name))
        if position is not None:
            return dataclasses.replace(options, geom=position.name), position.choose_system(source.name, options.crs)
    return options, _crs.DEGREES_CRS if options.crs is None else options.crs


def _describe_reading(source: _sources.Source, options: LoadingPlaces, geom: str | None) -> _sources.Wanted:
    kind = options.kind
    option_names = f"{'' if kind == 'cells' else '--x, --y, '}{'--category' if kind == 'pois' else '--name'} or --geom"
    geometry = geom if geom in source.geometries.columns else None
    return _sources.Wanted(option_names, geometry=geometry, numbers=_name_position(options) if geom is None else ())


def _list_remedies(options: LoadingPlaces) -> tuple[str, str]:
    """What to do where x and y of a table are the wrong way round, and where no row is usable."""
    if options.geom is not None:
        swap = f"The shapes of column '{options.geom}' have y first. Write them with x first."
        return swap, f"Check which column --geom names, {_describe_others(options)}."
    return _trajectories.describe_swap(
        *_name_position(options)
    ), f"Check which columns --x and --y name, {_describe_others(options)}."


def _name_position(options: LoadingPlaces) -> tuple[str, str]:
    """Name the columns of x and y, where there is no shape."""
    return options.x or "x", options.y or "y"


def _choose_columns(options: LoadingPlaces) -> list[str]:
    """Name the columns to read from a table.

    Raises `ParameterError` if there are two places in a row, or one column is to be two things.
    """
    _trajectories.demand_one_position(options.geom, options.x, options.y)
    place = _name_position(options) if options.geom is None else (options.geom,)
    names = [*place, *([] if options.name is None else [options.name])]
    _trajectories.demand_different(names, "position and name")
    if options.geom is None:
        _trajectories.demand_unswapped(*_name_position(options))
    return names


def _read_placed(source: _sources.Source, options: LoadingPlaces, crs: str, progress: Progress) -> Rows:
    """Read places from the rows of a table."""
    names, wanted = _choose_columns(options), _describe_reading(source, options, options.geom)
    for batch in _trajectories.report_batches(source, names, wanted, progress):
        label = pa.nulls(len(batch), pa.string())
        if options.name is not None:
            label = _read_texts(batch, options.name)
        if options.geom is None:
            cells = [batch.columns[name] for name in _name_position(options)]
            geom = _mark_missing(_encode_points(*map(_parse.parse_numbers, cells)), *cells)
        else:
            wkb, systems = _geometry.read_shapes(batch.columns[options.geom])
            _crs.demand_same(source.name, systems, crs)
            geom = _mark_missing(_geometry.encode_wkb(_read_shapes(wkb)), batch.columns[options.geom])
        yield [*_read_known(batch), label, geom]


def _read_features(file: Path, options: LoadingPlaces) -> tuple[Rows, str]:
    """Read places from a geographic file; their lines are the numbers of its features."""
    _sources.demand_no_position(file.name, options)
    features = gis.read_features(file, layer=options.layer, columns=[] if options.name is None else [options.name])
    return _make_feature_rows(features.parts, options.name), _crs.choose_system(file.name, features.crs, options.crs)


def _make_feature_rows(parts: Sequence[pa.RecordBatch], name: str | None) -> Rows:
    first = 1
    for part in parts:
        shapes = _read_shapes(part.column(0))
        text = pa.array(np.asarray(shapely.to_wkt(shapes), object), pa.string())
        label = pa.nulls(len(part), pa.string()) if name is None else part.column(1)
        cells = {"geometry": text} if name is None else {name: label, "geometry": text}
        line = np.arange(first, first + len(part), dtype=np.int64)
        yield [
            line,
            binary_copy.encode_jsonb(_parse.format_json(cells)),
            _parse.replace_nul(_parse.parse_texts(label)),
            _mark_missing(_geometry.encode_wkb(shapes), part.column(0)),
        ]
        first += len(part)


def _read_area(file: Path) -> str:
    """Read the polygons of a geographic file as one, in hexadecimal EWKB.

    Raises `DataError` if there is no such file, or one of its features is no valid polygon.
    """
    tabular.demand_readable(file)
    features = gis.read_features(file, layer=None) if kinds.is_gis(kinds.read_head(file)) else None
    if features is None:
        raise DataError(f"{file.name} must be GeoJSON, GeoPackage or a Shapefile. Got none of them. Check --area.")
    crs = _crs.choose_system(file.name, features.crs, None)
    shapes = np.concatenate([np.empty(0, object), *(_read_shapes(part.column(0)) for part in features.parts)])
    if not len(shapes) or not (np.isin(shapely.get_type_id(shapes), _POLYGON_TYPES) & shapely.is_valid(shapes)).all():
        raise DataError(
            f"{file.name} must hold only valid polygons. Some of its {format_count(len(shapes), 'feature')} are not. "
            f"Check --area."
        )
    whole = shapely.set_srid(shapely.union_all(shapes), int(_crs.parse_number(crs)))
    return str(shapely.to_wkb(whole, hex=True, include_srid=True))


def _encode_points(x: pa.Array, y: pa.Array) -> pa.Array:
    """Points as WKB, null where a coordinate is null; what is no number is made infinite, since NaN means empty."""
    place = np.nan_to_num(
        np.column_stack([_staging.convert_to_floats(x), _staging.convert_to_floats(y)]),
        nan=np.inf,
        posinf=np.inf,
        neginf=-np.inf,
    )
    missing = _staging.is_null(x) | _staging.is_null(y)
    return pa.array(shapely.to_wkb(shapely.points(place)), pa.binary(), mask=missing)


def _mark_missing(places: pa.Array, *cells: pa.Array) -> pa.Array:
    """Have an empty point where one of the cells of a place is empty; what could not be read stays null."""
    for column in cells:
        missing = pc.is_null(column if pa.types.is_binary(column.type) else _parse.parse_texts(column))
        places = pc.if_else(missing, pa.scalar(shapely.to_wkb(shapely.Point()), pa.binary()), places)
    return places


def _read_shapes(column: pa.Array) -> Shapes:
    """Read WKB; None where it breaks a rule that PostGIS has, too, such as a ring that is not closed."""
    with np.errstate(all="ignore"):
        return np.asarray(
            shapely.from_wkb(np.asarray(column.to_numpy(zero_copy_only=False), object), on_invalid="ignore")
        )


# ---- who and when ----------------------------------------------------------------------------------------------------


def load_requests(
    connection: Connection, table: Table, options: LoadingRequests, progress: Progress = report_nothing
) -> LoadReport:
    """Load LBS requests; the named columns become a JSON object of name-value texts, without empty cells.

    Requests are kept whatever their time and sender: a run counts those it cannot use.

    Of the report `trajectories` is 0, `subjects` counts the senders.
    """
    _parse.demand_zone(options.tz)
    columns, named = list(options.columns), [options.subject, options.time]
    with translate_errors(), connection.transaction(), collect_notices(connection, progress) as notices:
        connection.execute("SELECT dbanon_internal.demand_request_columns(%s, %s, %s::text[])", [*named, columns])
        srid = _claim_dataset(connection, options.dataset)
        option_names = "--subject, --time or --columns"
        source = _sources.open_table(table)
        rows = _read_events(source, [*named, *columns], _parse.ask_times(connection, options)(), progress, option_names)
        _copy(connection, source.recorded, len(columns), rows, options.time)
        made = _import_table(
            connection,
            f"dbanon_internal.add_requests('pg_temp.dbanon_file', {LOADING_RECORD}, "
            "%(cells)s::text[], %(keys)s::text[])",
            {
                # The file was copied under columns of these names.
                "asked": make_jsonb(name_as_sql(vars(options) | {"subject": "subject", "time": "time"})),
                "cells": [f"cell_{i + 1}" for i in range(len(columns))],
                "keys": columns,
            },
        )
        progress("storing requests", made["rows_kept"], made["rows_kept"])
    return _report(options.dataset, "requests", source, made, srid=srid, notices=notices)


def load_quasi_identifiers(
    connection: Connection, table: Table, options: LoadingQuasiIdentifiers, progress: Progress = report_nothing
) -> LoadReport:
    """Load times at which an adversary may know where a subject was, one a row.

    Of the report `trajectories` is 0, `subjects` counts those who have one.
    """
    kind, named = "quasi-identifiers", [options.subject, options.time]
    _parse.demand_zone(options.tz)
    with translate_errors(), connection.transaction(), collect_notices(connection, progress) as notices:
        connection.execute("SELECT dbanon_internal.demand_different(%s::text[], 'person and time')", [named])
        srid = _claim_dataset(connection, options.dataset)
        source = _sources.open_table(table)
        rows = _read_events(source, named, _parse.ask_times(connection, options)(), progress, "--subject or --time")
        _copy(connection, source.recorded, 0, rows, options.time)
        made = _import_table(
            connection,
            "dbanon.import_quasi_identifiers('pg_temp.dbanon_file', %(dataset)s, set_name => %(set_name)s, "
            "replace => %(replace)s, mode => %(mode)s, since => %(since)s, until => %(until)s, tz => %(tz)s, "
            "time_format => %(time_format)s, time_unit => %(time_unit)s, nulls => %(nulls)s::text[], "
            "allow_future => %(allow_future)s)",
            vars(options) | {"nulls": None if options.nulls is None else list(options.nulls)},
        )
        progress(f"storing {kind}", made["rows_kept"], made["rows_kept"])
    return _report(options.dataset, kind, source, made, srid=srid, notices=notices)


def _read_events(
    source: _sources.Source, wanted: Sequence[str], times: _parse.Times, progress: Progress, option_names: str
) -> Rows:
    """Read the columns of subjects and times, and those of cells after them."""
    subject, time, *cells = wanted
    how = _sources.Wanted(option_names, cells, numbers=[time])
    for batch in _trajectories.report_batches(source, list(wanted), how, progress):
        at = _encode_timestamps(times.convert_to_unix_s(batch.columns[time]))
        repeated = times.repeated | times.missing  # the latter without a time
        yield [*_read_known(batch), _read_texts(batch, subject), at, repeated, *(_read_texts(batch, c) for c in cells)]


def _encode_timestamps(seconds: pa.Array) -> pa.Array:
    """Unix seconds as timestamptz; null where they are null, infinite where they are not finite."""
    t = _staging.convert_to_floats(seconds)
    finite = np.isfinite(t)
    at = binary_copy.encode_timestamps(np.clip(np.where(finite, t, 0), _EARLIEST_S, _LATEST_S))
    return binary_copy.mark_nulls(np.where(finite, at, np.iinfo(np.int64).max), _staging.is_null(seconds))


# ---- what they share -------------------------------------------------------------------------------------------------


def _claim_dataset(connection: Connection, dataset: str) -> int:
    """Keep others from loading into a dataset until the transaction ends; returns its SRID."""
    connection.execute("SELECT dbanon_internal.lock_dataset(%s)", [dataset])
    row = connection.execute("SELECT srid FROM dbanon_internal.demand_dataset(%s)", [dataset]).fetchone()
    return cast("tuple[int]", row)[0]


def _copy(connection: Connection, source: str, cells: int | None, rows: Rows, *remedies: str) -> None:
    """Copy rows of (line, content, ...) into ``pg_temp.dbanon_file``, for places or for events with so many cells."""
    connection.execute(
        "SELECT dbanon_internal.make_file(%s, %s::integer, %s, %s)", [source, cells, *(*remedies, None, None)[:2]]
    )
    for columns in rows:
        _staging.copy_rows(connection, "pg_temp.dbanon_file", columns)


def _read_texts(batch: tabular.Batch, name: str) -> pa.Array:
    return _parse.replace_nul(_parse.parse_texts(batch.columns[name]))


def _read_known(batch: tabular.Batch) -> list[binary_copy.Column]:
    """Number the rows of a batch, and keep their cells as they were read."""
    return [batch.line.to_numpy().astype(np.int64), binary_copy.encode_jsonb(_parse.format_json(batch.columns))]


def _import_table(connection: Connection, call: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Call an import; returns its row."""
    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute(cast("Any", f"SELECT * FROM {call}"), arguments)
        return cast("dict[str, Any]", cursor.fetchone())


def _report(
    dataset: str,
    kind: str,
    source: _sources.Source,
    made: Mapping[str, Any],
    *,
    srid: int,
    notices: Sequence[str],
    far: dict[str, int] | None = None,
) -> LoadReport:
    return LoadReport(
        dataset=dataset,
        kind=kind,
        load_id=made["load_id"],
        source=[source.recorded],
        read=made["rows_read"],
        kept=made["rows_kept"],
        quarantined=dict(sorted(made["quarantined"].items())),
        left_out=dict(sorted(made.get("left_out", {}).items())),
        late_periods=tuple(made.get("late_periods", ())),
        trajectories=0,
        subjects=made.get("subjects", 0),
        srid=srid,
        far=far or {},
        notices=tuple(notices),
    )
