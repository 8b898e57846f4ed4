"""Sensitive sites out of a file into the staging tables; SQL functions reproject them and store what is new.

All of it happens in one transaction, into a dataset that exists; a row is either a site or in ``dbanon.quarantine``
with a reason. What is stored is the geometry itself, of which methods take the bounding rectangle.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from numpy.typing import NDArray
from psycopg.types.json import Jsonb

from dbanon._progress import Progress, silent
from dbanon.connection import errors_translated
from dbanon.errors import ParameterError
from dbanon.load import _bbox, _files, _parse, _staging, _trajectories

Connection = psycopg.Connection[Any]
Shapes = NDArray[np.object_]

_OPTIONS = "--x, --y, --name or --geom"
_CURVED = "(?i)curve|circularstring|surface"


@dataclass(frozen=True, kw_only=True)
class SiteColumns:
    """Which column of a file holds what: positions in `x` and `y`, so called where not said, or shapes in `geom`."""

    x: str | None = None
    y: str | None = None
    name: str | None = None
    geom: str | None = None

    def check(self) -> None:
        """Raise `ParameterError` if there are two places for a site, or one column is to be two things."""
        if self.geom is not None and (self.x is not None or self.y is not None):
            raise ParameterError(
                "A site must have either a shape or x and y. Got columns of both; give --geom, or --x and --y."
            )
        _trajectories.check_differ(self.names(), "position and name")
        if self.geom is None:
            _trajectories.refuse_names_of_each_other(*self.position())

    def position(self) -> tuple[str, str]:
        """Name the columns of x and y, where there is no shape."""
        return self.x or "x", self.y or "y"

    def names(self) -> list[str]:
        """Name the columns to read from a file."""
        place = self.position() if self.geom is None else (self.geom,)
        return [*place, *([] if self.name is None else [self.name])]

    def staged(self) -> dict[str, str]:
        """Name, for each column of a file, the staged column that tells what was read from it."""
        told = ("x", "y", "name") if self.geom is None else ("place", "name")
        return dict(zip(self.names(), told, strict=False))

    @property
    def check_which(self) -> str:
        """What to do where no row is usable."""
        what = "columns --x and --y name" if self.geom is None else "column --geom names"
        return f"Check which {what}, --crs and --bbox."

    @property
    def remedy(self) -> str:
        """What to do where x and y are the wrong way round."""
        if self.geom is None:
            return _trajectories.swapped_columns(*self.position())
        return f"The shapes of column '{self.geom}' have them the other way round; write them with x first."


def load_sites(
    connection: Connection,
    file: Path,
    *,
    dataset: str,
    columns: SiteColumns | None = None,
    crs: str = "EPSG:4326",
    bbox: _bbox.Box | None = None,
    drop_outliers: bool = False,
    replace: bool = False,
    progress: Progress | None = None,
) -> _staging.LoadReport:
    """Load one sensitive site a row from a CSV (also gzipped) or Parquet file; adds to those the dataset has.

    Parameters
    ----------
    connection : psycopg.Connection
    file : Path
    dataset : str
        One that exists, with the trajectories of those who are to be protected.
    columns : SiteColumns, optional
    crs : str
        Reference system of the file.
    bbox : tuple of float, optional
        Least x, least y, greatest x, greatest y, in units of the file; sites whose middle lies outside are left out.
    drop_outliers : bool
        Leave out sites far outside where the trajectories are, and not only count them.
    replace : bool
        Delete the sites that are there first.
    progress : callable, optional

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
    columns, progress = columns or SiteColumns(), progress or silent
    columns.check()
    with (
        errors_translated(),
        connection.transaction(),
        _staging.telling(connection, progress) as notices,
    ):
        begun = connection.execute(
            "SELECT geographic FROM dbanon_internal.begin_sites(%s, %s, %s::float8[])",
            [dataset, crs, bbox and [float(side) for side in bbox]],
        ).fetchone()
        (geographic,) = cast("tuple[bool]", begun)
        staging = _staged(connection, file, columns, geographic=geographic, bbox=bbox, progress=progress)
        done = connection.execute(
            "SELECT rows_kept, quarantined, far, (dbanon_internal.known_dataset(%(dataset)s)).srid "
            "FROM dbanon_internal.finish_sites("
            "%(dataset)s, %(crs)s, %(drop)s, %(replace)s, %(source)s, %(read)s, %(cells)s, %(swap)s, %(none)s)",
            {
                "dataset": dataset,
                "crs": crs,
                "drop": drop_outliers,
                "replace": replace,
                "source": str(file),
                "read": sum(staging.read),
                "cells": Jsonb(staging.cells),
                "swap": columns.remedy,
                "none": staging.remedy,
            },
        ).fetchone()
        kept, quarantined, far, srid = cast("tuple[int, dict[str, int], int, int]", done)
        progress("storing sites", kept, kept)
    return _staging.LoadReport(
        dataset=dataset,
        kind="sites",
        source=[str(file)],
        read=sum(staging.read),
        kept=kept,
        quarantined=dict(sorted(quarantined.items())),
        trajectories=0,
        subjects=0,
        srid=srid,
        far={"far-position": far} if far else {},
        notices=tuple(notices),
    )


def _staged(
    connection: Connection,
    file: Path,
    columns: SiteColumns,
    *,
    geographic: bool,
    bbox: _bbox.Box | None,
    progress: Progress,
) -> _staging.Staging:
    """Read the file into the staging tables."""
    staging = _staging.Staging(
        connection, "file, line, name, x, y, shape", columns.staged(), remedy=columns.check_which
    )
    rows = 0
    for batch in _trajectories.tracked(file, columns.names(), progress, options=_OPTIONS):
        _stage_batch(staging, batch, columns, bbox, geographic=geographic)
        rows += len(batch)
    staging.read.append(rows)
    return staging


def _stage_batch(
    staging: _staging.Staging, batch: _files.Batch, columns: SiteColumns, bbox: _bbox.Box | None, *, geographic: bool
) -> None:
    name = pa.nulls(len(batch), pa.string())
    if columns.name is not None:
        name = _parse.texts(batch.columns[columns.name])
    if columns.geom is None:
        x, y = (_parse.numbers(batch.columns[column]) for column in columns.position())
        shape = pa.nulls(len(batch), pa.binary())
    else:
        x, y, shape = _shapes(batch.columns[columns.geom], geographic=geographic)
    reasons = _staging.Reasons(len(batch))
    reasons.mark("control-characters", _parse.has_control(name))
    _trajectories.mark_positions(reasons, x, y, bbox, geographic=geographic)
    staging.reject(batch, reasons)
    keep = pa.array(reasons.kept)
    line = batch.line.to_numpy()[reasons.kept].astype(np.int64)
    staging.stage(
        [
            np.zeros(len(line), np.int32),
            line,
            name.filter(keep),
            _staging.floats(x.filter(keep)),
            _staging.floats(y.filter(keep)),
            shape.filter(keep),
        ]
    )


def _shapes(column: pa.Array, *, geographic: bool) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Read shapes from WKT: x and y of the middle of their bounds, and WKB.

    Null where a cell holds no shape, or one without a point; NaN where a coordinate is not finite.
    """
    texts = _parse.texts(column)
    # Shapely reads a curve only to fail on it later, inside a collection, or at once.
    texts = pc.if_else(pc.match_substring_regex(texts, _CURVED), pa.scalar(None, pa.string()), texts)
    with np.errstate(all="ignore"):  # numbers beyond those of a double
        shapes = shapely.from_wkt(np.asarray(texts.to_numpy(zero_copy_only=False), object), on_invalid="ignore")
        shapes = shapely.force_2d(shapes)
        x, y = _middles(shapes, geographic=geographic)
    corners, owner = shapely.get_coordinates(shapes, return_index=True)
    wild = owner[~np.isfinite(corners).all(axis=1)]
    x[wild] = y[wild] = np.nan
    none = shapely.is_missing(shapes) | shapely.is_empty(shapes)
    return pa.array(x, mask=none), pa.array(y, mask=none), pa.array(shapely.to_wkb(shapes), pa.binary())


def _middles(shapes: Shapes, *, geographic: bool) -> tuple[_bbox.Float, _bbox.Float]:
    """Find the middles of the bounds of shapes; across the antimeridian, the short way round."""
    west, south, east, north = shapely.bounds(shapes).T
    if geographic:
        wide = east - west > 180
        turned = shapely.transform(shapes[wide], lambda places: places + np.where(places < 0, 360, 0) * [1, 0])
        west[wide], east[wide] = shapely.bounds(turned)[:, [0, 2]].T
    x, y = (west + east) / 2, (south + north) / 2
    if geographic:
        x -= np.where((x > 180) & (west <= 180), 360, 0) - np.where((x < -180) & (east >= -180), 360, 0)
    return x, y
