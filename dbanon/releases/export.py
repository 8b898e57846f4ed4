"""Writes releases to files: GeoParquet, GeoPackage, FlatGeobuf and CSV, row by row as they come from the server.

A file is written in a directory of its own beside the place it is for, and moved there when it is whole: what was there
before is replaced by all of it, or stays. The promise of the release is in the file's metadata, or in one beside it.
"""

import errno
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from dbanon.base.errors import DataError, DbanonError, ParameterError
from dbanon.base.progress import Progress, silent
from dbanon.postgres.connection import Connection
from dbanon.releases import published

if TYPE_CHECKING:
    import geopandas

_DRIVERS = {".gpkg": "GPKG", ".fgb": "FlatGeobuf"}


def write(
    connection: Connection,
    name: str,
    file: Path,
    *,
    where: str | None = None,
    params: published.Params | None = None,
    progress: Progress = silent,
) -> int:
    """Write a release, or those of its rows that meet a condition, to a file of the kind that its suffix names.

    Arguments, errors and the number returned are those of `dbanon.database.Database.export`.
    """
    writer = _WRITERS.get(file.suffix.lower())
    if writer is None:
        raise ParameterError(
            f"The file's name must end in {', '.join(_WRITERS)}. Got {file.name!r}; choose the format by the ending."
        )
    form: Literal["WKB", "WKT"] = "WKT" if writer is _write_csv else "WKB"
    with whole(file) as part, published.opened(connection, name, where=where, params=params, region=form) as rows:
        counted = _Counted(rows.batches, progress)
        try:
            writer(part, rows, pa.RecordBatchReader.from_batches(rows.schema, counted))
        except Exception:
            # Libraries in C wrap what happened while they asked for more rows.
            if counted.error is not None:
                raise counted.error from None
            raise
    return counted.rows


def write_text(file: Path, text: str, *, private: bool = False) -> None:
    """Write a text as a file, whole or not at all; a `private` one only its owner may read."""
    with whole(file) as part:
        part.touch(0o600 if private else 0o666)
        part.write_text(text, encoding="utf-8")


def frame(
    connection: Connection, name: str, *, where: str | None = None, params: published.Params | None = None
) -> "geopandas.GeoDataFrame":
    """Read a release, or those of its rows that meet a condition, as a frame.

    Arguments and errors are those of `dbanon.database.Database.read`; and a `DbanonError` if geopandas is not there.
    """
    try:
        import geopandas
    except ImportError:
        raise DbanonError("geopandas must be installed. Got none; run `pip install 'dbanon[geo]'`.") from None
    with published.opened(connection, name, where=where, params=params) as rows:
        table = pa.Table.from_batches(rows.batches, rows.schema)
    columns = table.to_pandas()
    columns["region"] = geopandas.GeoSeries.from_wkb(columns["region"], crs=rows.crs)
    made = geopandas.GeoDataFrame(columns, geometry="region")
    made.attrs = {"release": rows.name, "promise": rows.promise}
    return made


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


@contextmanager
def whole(file: Path) -> Iterator[Path]:
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
            f"The file must be writable in {file.parent}, with room for it. Got: {_said(error)}; nothing was kept."
        ) from error


def _said(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def _write_parquet(part: Path, rows: published.Rows, reader: pa.RecordBatchReader) -> None:
    """Write GeoParquet 1.1: WKB, and the columns and their reference system as JSON in the metadata of the file."""
    region = {
        "encoding": "WKB",
        "geometry_types": [rows.geometry_type],
        "crs": rows.crs.to_json_dict(),
        "edges": "planar",
    }
    geo = {"version": "1.1.0", "primary_column": "region", "columns": {"region": region}}
    about = {"geo": json.dumps(geo), "title": rows.name, "description": rows.promise}
    with pq.ParquetWriter(part, rows.schema.with_metadata(about), compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch)


def _write_csv(part: Path, rows: published.Rows, reader: pa.RecordBatchReader) -> None:
    """Write CSV with the region as WKT, and the promise as a text file beside it."""
    part.with_name(f"{part.name}.txt").write_text(f"{rows.promise}\n", encoding="utf-8")
    with pacsv.CSVWriter(part, rows.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)


def _write_layer(part: Path, rows: published.Rows, reader: pa.RecordBatchReader) -> None:
    """Write the one layer of a GeoPackage or a FlatGeobuf, with a spatial index."""
    import pyogrio

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
            crs=rows.crs.to_wkt(),
            layer_options=about,
        )
    except (pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError) as error:
        raise OSError("GDAL could not write it") from error


_WRITERS: dict[str, Callable[[Path, published.Rows, Any], None]] = {
    ".parquet": _write_parquet,
    ".gpkg": _write_layer,
    ".fgb": _write_layer,
    ".csv": _write_csv,
}
