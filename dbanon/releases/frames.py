"""Reads releases as frames, and writes them as GeoParquet, GeoPackage and FlatGeobuf: by Arrow, batch by batch."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path

import geopandas
import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio
import pyproj

from dbanon.base.errors import DataError
from dbanon.base.progress import Progress
from dbanon.pages import dcat
from dbanon.postgres import arrow
from dbanon.postgres.connection import Connection
from dbanon.releases import published

_DRIVERS = {".gpkg": "GPKG", ".fgb": "FlatGeobuf"}


def write(part: Path, rows: published.Rows, progress: Progress) -> int:
    """Write rows to a file of the kind that its suffix names, with the release's card; returns how many there were."""
    known = published.describe(rows.connection, rows.name)  # before rows come on this connection
    card = {"dcat": json.dumps(dcat.make_document(known[0]))} if known else {}
    with _read_arrow(rows) as (schema, batches):
        counted = _Counted(batches, progress)
        try:
            handed_on = pa.RecordBatchReader.from_batches(schema, counted)
            (_write_parquet if part.suffix.lower() == ".parquet" else _write_layer)(part, rows, card, handed_on)
        except Exception:
            # Libraries in C wrap what happened while they asked for more rows.
            if counted.error is not None:
                raise counted.error from None
            raise
    return counted.rows


def build_frame(
    connection: Connection, name: str, *, where: str | None = None, params: published.Params | None = None
) -> geopandas.GeoDataFrame:
    """Read a release, or those of its rows that meet a condition, as a frame.

    Arguments and errors are those of `dbanon.database.Database.read`.
    """
    with (
        published.open_rows(connection, name, "Arrow", where=where, params=params) as rows,
        _read_arrow(rows) as (schema, batches),
    ):
        table, crs = pa.Table.from_batches(batches, schema), _describe_crs(rows)
    columns = table.to_pandas()
    columns["region"] = geopandas.GeoSeries.from_wkb(columns["region"], crs=crs)
    made = geopandas.GeoDataFrame(columns, geometry="region")
    made.attrs = {"release": rows.name, "promise": rows.promise, **rows.holds}
    return made


def read_file(file: Path) -> geopandas.GeoDataFrame:
    """Read the GeoParquet file of a release as the frame that `build_frame` makes; raises `DataError` for others."""
    try:
        about, made = pq.read_schema(file).metadata, geopandas.read_parquet(file)
        made.attrs = {"release": about[b"title"].decode(), **json.loads(about[b"holds"])}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DataError(
            f"The file must be one that `dbanon export NAME FILE.parquet` wrote. Got {file.name}, which is not."
        ) from error
    return made


@contextmanager
def _read_arrow(rows: published.Rows) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Have the rows as batches of some megabytes each, and their schema."""
    with closing(arrow.read_batches(arrow.Snapshot(rows.connection, rows.postgis), rows.query)) as batches:
        first = next(batches)
        yield first.schema, chain([first], batches)


def _describe_crs(rows: published.Rows) -> pyproj.CRS:
    authority, code, text = rows.crs
    try:
        return pyproj.CRS.from_authority(authority, code)
    except pyproj.exceptions.CRSError:  # one that an administrator has put there
        return pyproj.CRS.from_wkt(text)


class _Counted:
    """Batches as they are handed on: how many rows there were, and what went wrong on the way."""

    def __init__(self, batches: Iterator[pa.RecordBatch], progress: Progress) -> None:
        self._batches, self._progress = batches, progress
        self.rows = 0
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._batches:
                self._progress("writing rows", self.rows, None)
                yield batch
                self.rows += len(batch)
        except BaseException as error:
            self.error = error
            raise


def _write_parquet(part: Path, rows: published.Rows, card: dict[str, str], reader: pa.RecordBatchReader) -> None:
    """Write GeoParquet 1.1: WKB, and the columns and their reference system as JSON in the metadata of the file."""
    region = {
        "encoding": "WKB",
        "geometry_types": [rows.geometry_type],
        "crs": _describe_crs(rows).to_json_dict(),
        "edges": "planar",
    }
    geo = {"version": "1.1.0", "primary_column": "region", "columns": {"region": region}}
    about = {"geo": json.dumps(geo), "title": rows.name, "description": rows.promise, "holds": json.dumps(rows.holds)}
    with pq.ParquetWriter(part, reader.schema.with_metadata(about | card), compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch)


def _write_layer(part: Path, rows: published.Rows, card: dict[str, str], reader: pa.RecordBatchReader) -> None:
    """Write the one layer of a GeoPackage or a FlatGeobuf, with a spatial index."""
    driver, about = _DRIVERS[part.suffix.lower()], {"DESCRIPTION": rows.promise}
    about |= {"IDENTIFIER": rows.name, "GEOMETRY_NAME": "region"} if driver == "GPKG" else {"TITLE": rows.name}
    try:
        pyogrio.write_arrow(
            reader,
            part,
            layer=rows.name,
            driver=driver,
            geometry_name="region",
            geometry_type=rows.geometry_type,
            crs=_describe_crs(rows).to_wkt(),
            layer_options=about,
            layer_metadata=card,
        )
    except (pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError) as error:
        raise OSError("GDAL could not write it") from error
