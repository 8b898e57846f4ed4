"""From staged fixes to rows of ``dbanon.trajectory``: order, twins, lines and reprojection, all in PostGIS."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from dbanon.errors import ParameterError

Connection = psycopg.Connection[Any]
_WGS84 = 4326


@dataclass(frozen=True)
class Crs:
    """A reference system of PostGIS: degrees, projected metres, or neither."""

    srid: int
    geographic: bool
    metric: bool


def crs(connection: Connection, name: str) -> Crs:
    """Look up a reference system by ``EPSG:n`` or a number.

    Raises
    ------
    ParameterError
        If PostGIS does not know it.
    """
    parts = re.fullmatch(r"(?:([A-Za-z]+):)?(\d{1,6})", name.strip())
    row = None
    if parts:
        row = connection.execute(
            "SELECT srid, proj4text ~ '[+]proj=longlat', "
            "       srtext ILIKE 'PROJCS%%' AND proj4text ~ '[+]units=m( |$)' AND proj4text !~ '[+]to_meter' "
            "FROM spatial_ref_sys WHERE auth_srid = %s AND auth_name = %s",
            [int(parts[2]), (parts[1] or "EPSG").upper()],
        ).fetchone()
    if row is None:
        raise ParameterError(
            f"The reference system must be one of PostGIS's spatial_ref_sys. Got {name!r}; give one such as EPSG:4326."
        )
    return Crs(*row)


def check_metric(found: Crs) -> None:
    """Raise `ParameterError` unless distances in the reference system are metres on a plane."""
    if not found.metric:
        raise ParameterError(
            f"A dataset must be in a projected reference system in metres. SRID {found.srid} is not; leave out --srid "
            "for the UTM zone of the data, or give one such as 32610."
        )


def utm_zone(connection: Connection, source: Crs) -> int:
    """SRID of the UTM zone that holds the median of 100,000 staged positions evenly drawn from the files."""
    query = """
        SELECT ST_X(p), ST_Y(p) FROM (
            SELECT ST_Transform(ST_SetSRID(ST_MakePoint(
                percentile_disc(0.5) WITHIN GROUP (ORDER BY x),
                percentile_disc(0.5) WITHIN GROUP (ORDER BY y)), %s), %s) AS p
            FROM (SELECT x, y, row_number() OVER () AS nth, greatest(count(*) OVER () / 100000, 1) AS step
                  FROM dbanon_staged) s
            WHERE nth %% step = 0) m"""
    try:
        with connection.transaction():
            lon, lat = connection.execute(query, [source.srid, _WGS84]).fetchone() or (0.0, 0.0)
    except psycopg.errors.InternalError:
        raise ParameterError(
            f"Positions must be in the reference system of the file. Their median is outside SRID {source.srid}; give "
            "the right --crs, or --srid for the dataset's own."
        ) from None
    return (32600 if lat >= 0 else 32700) + min(int((lon + 180) // 6) + 1, 60)


@dataclass(frozen=True)
class Maker:
    """Turns staged fixes into trajectories; `columns` maps the file's columns to those of the staging table."""

    connection: Connection
    dataset_id: int
    columns: Mapping[str, str]
    source: int
    target: int
    split_gap_s: float | None

    def make(self) -> tuple[int, int]:
        """Make them all; returns the numbers of trajectories and subjects.

        Whole lines are reprojected at once, ten times as fast as single fixes. PROJ refuses a line for one fix it
        cannot place: then the fixes that did it are found and left out, and the work is done again.
        """
        try:
            with self.connection.transaction():
                return self._attempt()
        except (psycopg.errors.InternalError, _OffTheMapError):
            self._reject_off_the_map()
            return self._attempt()

    def _attempt(self) -> tuple[int, int]:
        self._order()
        self._reject_twins()
        return self._insert()

    def _order(self) -> None:
        """Sort the fixes of each subject by time, and mark those that repeat or contradict an earlier row."""
        self.connection.execute("SET LOCAL work_mem = '256MB'")
        self.connection.execute(
            """
            CREATE TEMP TABLE dbanon_ordered ON COMMIT DROP AS
            SELECT file, line, subject, trip, t, x, y, nth = 1 AS kept, 0 AS part,
                CASE WHEN nth = 1 THEN NULL
                     WHEN x = first_value(x) OVER twins AND y = first_value(y) OVER twins THEN 'duplicate-fix'
                     ELSE 'contradicting-fix' END AS reason
            FROM (SELECT *, row_number() OVER (PARTITION BY subject, t ORDER BY file, line) AS nth
                  FROM dbanon_staged) numbered
            WINDOW twins AS (PARTITION BY subject, t ORDER BY file, line)"""
        )

    def _reject_twins(self) -> None:
        statement = "INSERT INTO dbanon_rejected SELECT file, line, reason, {} FROM dbanon_ordered WHERE NOT kept"
        self.connection.execute(sql.SQL(statement).format(self._content()))

    def _content(self) -> sql.Composed:
        """Build the JSON of a staged row: the columns of the file and what was read from them."""
        pairs = [
            sql.SQL("{}::text, {}::text").format(sql.Literal(name), sql.Identifier(staged))
            for name, staged in self.columns.items()
        ]
        return sql.SQL("jsonb_build_object({})").format(sql.SQL(", ").join(pairs))

    def _fixes(self) -> sql.Composable:
        """Name what lines are made of: the kept fixes, their parts numbered where gaps cut them."""
        if self.split_gap_s is None:
            return sql.SQL("(SELECT * FROM dbanon_ordered WHERE kept)")
        return sql.SQL(
            """(SELECT subject, trip, t, x, y,
                       count(*) FILTER (WHERE gap > {}) OVER (PARTITION BY subject, trip ORDER BY t) AS part
                FROM (SELECT *, t - lag(t) OVER (PARTITION BY subject, trip ORDER BY t) AS gap
                      FROM dbanon_ordered WHERE kept) spaced)"""
        ).format(self.split_gap_s)

    def _insert(self) -> tuple[int, int]:
        statement = sql.SQL(
            """
            WITH made AS (
                INSERT INTO dbanon.trajectory (dataset_id, subject, path)
                SELECT {dataset}, subject, CASE ST_NPoints(line) WHEN 1 THEN ST_StartPoint(line) ELSE line END
                FROM (SELECT subject, trip, part, ST_Transform(ST_SetSRID(
                          ST_MakeLine(ST_MakePointM(x, y, t) ORDER BY t), {source}), {target}) AS line
                      FROM {fixes} fixes GROUP BY subject, trip, part) lines
                ORDER BY subject, trip, part
                RETURNING subject, path)
            SELECT count(*), count(DISTINCT subject), count(*) FILTER (WHERE NOT (
                ST_XMin(Box3D(path)) > '-1e12' AND ST_YMin(Box3D(path)) > '-1e12'
                AND ST_XMax(Box3D(path)) < 1e12 AND ST_YMax(Box3D(path)) < 1e12))
            FROM made"""
        ).format(dataset=self.dataset_id, source=self.source, target=self.target, fixes=self._fixes())
        row = self.connection.execute(statement).fetchone()
        trajectories, subjects, off_the_map = row or (0, 0, 0)
        if off_the_map:
            raise _OffTheMapError
        return trajectories, subjects

    def _reject_off_the_map(self) -> None:
        """Find the fixes that PROJ cannot place: by thousands first, one by one only where a thousand failed."""
        self.connection.execute(
            """
            CREATE FUNCTION pg_temp.dbanon_placed(g geometry, target int) RETURNS boolean LANGUAGE plpgsql AS $$
            DECLARE placed geometry;
            BEGIN
                placed := ST_Transform(g, target);
                RETURN ST_XMin(Box3D(placed)) > '-1e12' AND ST_YMin(Box3D(placed)) > '-1e12'
                    AND ST_XMax(Box3D(placed)) < 1e12 AND ST_YMax(Box3D(placed)) < 1e12;
            EXCEPTION WHEN internal_error THEN
                RETURN false;
            END $$"""
        )
        statement = sql.SQL(
            """
            WITH blocks AS MATERIALIZED (
                SELECT file, line / 1000 AS block FROM dbanon_staged GROUP BY file, line / 1000
                HAVING NOT pg_temp.dbanon_placed(ST_SetSRID(ST_Collect(ST_MakePoint(x, y)), {source}), {target})),
            gone AS (
                DELETE FROM dbanon_staged s USING blocks b WHERE s.file = b.file AND s.line / 1000 = b.block
                    AND NOT pg_temp.dbanon_placed(ST_SetSRID(ST_MakePoint(s.x, s.y), {source}), {target})
                RETURNING s.*)
            INSERT INTO dbanon_rejected SELECT file, line, 'position-out-of-range', {content} FROM gone"""
        )
        self.connection.execute(statement.format(source=self.source, target=self.target, content=self._content()))
        self.connection.execute("DROP FUNCTION pg_temp.dbanon_placed")


class _OffTheMapError(Exception):
    """A reprojected path is not finite."""
