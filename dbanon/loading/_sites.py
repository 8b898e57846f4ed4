"""Sensitive sites out of a file: stage, reproject, compare with where the users are, store what is new.

All of it happens in one transaction, into a dataset that exists; a row is either a site or in ``dbanon.quarantine``
with a reason. What is stored is the geometry itself, of which methods take the bounding rectangle.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from numpy.typing import NDArray
from psycopg import sql

from dbanon import _arrow, store
from dbanon._progress import Progress, silent
from dbanon.errors import ParameterError
from dbanon.loading import _boxes, _cells, _crs, _datasets, _files, _from_files, _staging, _survey

Connection = psycopg.Connection[Any]
Shapes = NDArray[np.object_]

_OPTIONS = "--x, --y, --name or --geom"
_CURVED = "(?i)curve|circularstring|surface"
_GIVEN = "ST_SetSRID(coalesce(shape, ST_MakePoint(x, y)), {source})"
_BOUNDS = ", ".join(f"round({side}(Box3D(geom)) * 1000)" for side in ("ST_XMin", "ST_YMin", "ST_XMax", "ST_YMax"))


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
        _from_files.check_differ(self.names(), "position and name")
        if self.geom is None and _survey.mean_each_other(*self.position()):
            raise _survey.swapped_axes(self.remedy)

    def position(self) -> tuple[str, str]:
        """Name the columns of x and y, where there is no shape."""
        return self.x or "x", self.y or "y"

    def names(self) -> list[str]:
        """Name the columns to read from a file."""
        place = self.position() if self.geom is None else (self.geom,)
        return [*place, *([] if self.name is None else [self.name])]

    def staged(self) -> dict[str, str]:
        """Write, for each column of a file, the expression of what was read from it."""
        told = ("x", "y", "name") if self.geom is None else ("ST_AsText(shape)", "name")
        return dict(zip(self.names(), told, strict=False))

    @property
    def check_which(self) -> str:
        """What to do where no row is usable."""
        what = "columns --x and --y name" if self.geom is None else "column --geom names"
        return f"check which {what}, --crs and --bbox"

    @property
    def remedy(self) -> str:
        """What to do where x and y are the wrong way round."""
        if self.geom is None:
            return _from_files.swapped_columns(*self.position())
        return f"The shapes of column '{self.geom}' have them the other way round; write them with x first."


def load_sites(
    connection: Connection,
    file: Path,
    *,
    dataset: str,
    columns: SiteColumns | None = None,
    crs: str = "EPSG:4326",
    bbox: _boxes.Box | None = None,
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
    _boxes.check(bbox)
    with store.errors_translated(), connection.transaction():
        connection.execute(_arrow.POSTGIS_PATH)
        _datasets.lock(connection, dataset)
        known = store.dataset_row(connection, dataset)
        source = _crs.named(connection, crs)
        _boxes.check_crossing(bbox, source)
        staging = _staged(connection, file, columns, crs=source, bbox=bbox, progress=progress)
        progress("placing sites", 0, None)
        _place(staging, source, known, drop=drop_outliers)
        _survey.refuse_swapped(staging, columns.remedy)
        staging.demand_some()
        progress("storing sites", 0, None)
        far = _insert(staging, known.dataset_id, replace=replace)
        staging.demand_some()
        quarantined, kept = _staging.write_load(staging, known.dataset_id, "sites", [str(file)])
        progress("storing sites", kept, kept)
    return _staging.LoadReport(
        dataset=dataset,
        kind="sites",
        source=[str(file)],
        read=sum(staging.read),
        kept=kept,
        quarantined=quarantined,
        trajectories=0,
        subjects=0,
        srid=known.srid,
        far={_survey.FAR_POSITION: far} if far else {},
        notices=_notices(far),
    )


def _notices(far: int) -> tuple[str, ...]:
    if not far:
        return ()
    sites, rectangles, them = f"{far:,} sites lie", "were kept, though their rectangles", "them"
    if far == 1:
        sites, rectangles, them = "1 site lies", "was kept, though its rectangle", "it"
    return (
        f"Notice: {sites} far outside where the trajectories are and {rectangles} would reach from there to the users; "
        f"load with --drop-outliers to leave {them} out, or keep to an area with --bbox.",
    )


# ---- reading ---------------------------------------------------------------------------------------------------------


def _staged(
    connection: Connection,
    file: Path,
    columns: SiteColumns,
    *,
    crs: _crs.Crs,
    bbox: _boxes.Box | None,
    progress: Progress,
) -> _staging.Staging:
    """Read the file into the staging tables, and see that there is something to go on with."""
    staging = _staging.Staging(
        connection, "file, line, name, x, y, shape", columns.staged(), remedy=columns.check_which
    )
    staging.create("file int, line bigint, name text, x float8, y float8, shape geometry, geom geometry, reason text")
    rows = 0
    for batch in _from_files.tracked(file, columns.names(), progress, options=_OPTIONS):
        _stage_batch(staging, batch, columns, crs, bbox)
        rows += len(batch)
    staging.read.append(rows)
    _survey.refuse_swapped(staging, columns.remedy)
    staging.demand_some()
    return staging


def _stage_batch(
    staging: _staging.Staging, batch: _files.Batch, columns: SiteColumns, crs: _crs.Crs, bbox: _boxes.Box | None
) -> None:
    name = pa.nulls(len(batch), pa.string())
    if columns.name is not None:
        name = _cells.texts(batch.columns[columns.name])
    if columns.geom is None:
        x, y = (_cells.numbers(batch.columns[column]) for column in columns.position())
        shape = pa.nulls(len(batch), pa.binary())
    else:
        x, y, shape = _shapes(batch.columns[columns.geom], geographic=crs.geographic)
    reasons = _staging.Reasons(len(batch))
    _from_files.mark_positions(reasons, x, y, crs, bbox)
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
    texts = _cells.texts(column)
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


def _middles(shapes: Shapes, *, geographic: bool) -> tuple[_boxes.Float, _boxes.Float]:
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


# ---- in the database -------------------------------------------------------------------------------------------------


def _place(staging: _staging.Staging, source: _crs.Crs, known: store.DatasetRow, *, drop: bool) -> None:
    """Reproject the staged sites; reject those that cannot be, have swapped axes or, if asked to, lie far outside.

    The others that lie far outside keep it as their reason.
    """
    connection = staging.connection
    reach = _survey.reach(connection, known.dataset_id)
    given = sql.SQL(_GIVEN).format(source=source.srid)
    with _crs.moving(connection):
        statement = sql.SQL("UPDATE dbanon_staged SET geom = pg_temp.dbanon_moved({}, {})")
        connection.execute(statement.format(given, known.srid))
        statement = sql.SQL(
            "UPDATE dbanon_staged SET reason = CASE WHEN {near_mirrored} THEN {swapped} "
            "WHEN geom IS NULL THEN 'position-out-of-range' ELSE {far} END WHERE ({near}) IS NOT TRUE"
        )
        mirrored = sql.SQL("pg_temp.dbanon_moved(ST_FlipCoordinates({}), {})").format(given, known.srid)
        connection.execute(
            statement.format(
                near=_within(sql.Identifier("geom"), reach),
                near_mirrored=_within(mirrored, reach),
                swapped=sql.Literal(_survey.SWAPPED),
                far=sql.Literal(_survey.FAR_POSITION),
            )
        )
    leaving = sql.SQL("reason IS NOT NULL") if drop else sql.SQL("reason <> {}").format(_survey.FAR_POSITION)
    staging.leave_out(leaving, sql.SQL("reason"))


def _within(geometry: sql.Composable, reach: tuple[_survey.Span, _survey.Span]) -> sql.Composed:
    """Write that the bounds of a geometry lie within spans of x and y."""
    (west, east), (south, north) = reach
    return sql.SQL(
        "(SELECT ST_XMin(b) >= {west} AND ST_XMax(b) <= {east} AND ST_YMin(b) >= {south} AND ST_YMax(b) <= {north} "
        "FROM (SELECT Box3D({geometry}) AS b) box)"
    ).format(geometry=geometry, west=west, east=east, south=south, north=north)


def _insert(staging: _staging.Staging, dataset_id: int, *, replace: bool) -> int:
    """Store the staged sites that the dataset has not got; returns how many of them lie far outside."""
    connection = staging.connection
    if replace:
        connection.execute("DELETE FROM dbanon.site WHERE dataset_id = %s", [dataset_id])
    statement = sql.SQL(
        """line IN (
            SELECT line FROM (
                SELECT line, row_number() OVER (PARTITION BY name, {bounds} ORDER BY line NULLS FIRST) AS nth
                FROM (SELECT NULL::bigint AS line, name, geom FROM dbanon.site WHERE dataset_id = {dataset}
                      UNION ALL SELECT line, name, geom FROM dbanon_staged) every) numbered
            WHERE nth > 1)"""
    )
    there = statement.format(bounds=sql.SQL(_BOUNDS), dataset=dataset_id)
    staging.leave_out(there, sql.SQL("'duplicate-site'"))
    statement = sql.SQL(
        "INSERT INTO dbanon.site (dataset_id, name, geom) SELECT {}, name, geom FROM dbanon_staged ORDER BY line"
    )
    connection.execute(statement.format(dataset_id))
    return int((connection.execute("SELECT count(reason) FROM dbanon_staged").fetchone() or [0])[0])
