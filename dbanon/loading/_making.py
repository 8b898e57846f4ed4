"""From staged fixes to rows of ``dbanon.trajectory``: order, twins, lines and reprojection, all in PostGIS."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, LiteralString

import psycopg
from psycopg import sql

from dbanon.loading import _crs, _staging

Connection = psycopg.Connection[Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOST_FIXES = 100_000  # in one trajectory: PostGIS makes a line in memory, at 700 bytes a fix
SAME_PLACE_M = 0.001  # reprojected twice, a position may differ in its last bits
_MIDDLE: LiteralString = (
    "(ST_XMin(Box3D(o.place)) + ST_XMax(Box3D(o.place))) / 2, (ST_YMin(Box3D(o.place)) + ST_YMax(Box3D(o.place))) / 2"
)


@dataclass(frozen=True)
class Maker:
    """Turns staged fixes into trajectories; with `append`, next to those the dataset has already."""

    staging: _staging.Staging
    dataset_id: int
    source: int
    target: int
    split_gap_s: float | None
    append: bool

    MORE: ClassVar[LiteralString] = ""
    SAME: ClassVar[LiteralString] = "x = first_value(x) OVER twins AND y = first_value(y) OVER twins"

    @property
    def connection(self) -> Connection:
        """Where the staged fixes are."""
        return self.staging.connection

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

    def span(self) -> tuple[datetime, datetime]:
        """Find the first and the last time of what was made."""
        row = self.connection.execute("SELECT min(t), max(t) FROM dbanon_ordered WHERE kept").fetchone() or (0.0, 0.0)
        first, last = (_EPOCH + timedelta(seconds=seconds) for seconds in row)
        return first, last

    def _attempt(self) -> tuple[int, int]:
        self._order()
        if self.append:
            self._mark_stored()
        self._reject_twins()
        return self._insert()

    def _order(self) -> None:
        """Sort the fixes of each subject by time, and mark those that repeat or contradict an earlier row."""
        self.connection.execute("SET LOCAL work_mem = '256MB'")
        statement = sql.SQL(
            """
            CREATE TEMP TABLE dbanon_ordered ON COMMIT DROP AS
            SELECT file, line, subject, trip, t, x, y, nth = 1 AS kept, 0 AS part, {more}
                CASE WHEN nth = 1 THEN NULL
                     WHEN {same} THEN 'duplicate-fix'
                     ELSE 'contradicting-fix' END AS reason
            FROM (SELECT *, row_number() OVER (PARTITION BY subject, t ORDER BY file, line) AS nth
                  FROM dbanon_staged) numbered
            WINDOW twins AS (PARTITION BY subject, t ORDER BY file, line)"""
        )
        self.connection.execute(statement.format(more=sql.SQL(self.MORE), same=sql.SQL(self.SAME)))

    def _mark_stored(self) -> None:
        """Mark fixes of a subject and time that the dataset has already: the same file added twice adds nothing.

        Only trajectories that overlap in time with what is added are taken apart.
        """
        statement = sql.SQL(
            """
            WITH span AS MATERIALIZED (
                SELECT subject, min(t) AS low, max(t) AS high FROM dbanon_ordered WHERE kept GROUP BY subject),
            stored AS MATERIALIZED (
                SELECT s.subject, ST_M(p.geom) AS t, ST_Force2D(p.geom) AS place
                FROM span s
                JOIN dbanon.trajectory r ON r.dataset_id = {dataset} AND r.subject = s.subject
                CROSS JOIN LATERAL (
                    SELECT coalesce(ST_StartPoint(r.path), r.path) AS first,
                           coalesce(ST_EndPoint(r.path), r.path) AS last
                ) ends
                CROSS JOIN LATERAL ST_DumpPoints(r.path) p
                WHERE ST_M(ends.first) <= s.high AND ST_M(ends.last) >= s.low AND ST_M(p.geom) BETWEEN s.low AND s.high)
            UPDATE dbanon_ordered o
            SET kept = false, reason = CASE WHEN ST_DWithin({position}, stored.place, {same})
                THEN 'duplicate-fix' ELSE 'contradicting-fix' END
            FROM stored WHERE o.kept AND o.subject = stored.subject AND o.t = stored.t"""
        )
        self.connection.execute(statement.format(dataset=self.dataset_id, position=self._position(), same=SAME_PLACE_M))

    def _position(self) -> sql.Composable:
        """Write where a row `o` of ``dbanon_ordered`` is, in the dataset's reference system."""
        given = sql.SQL("ST_Transform(ST_SetSRID(ST_MakePoint(o.x, o.y), {}), {})")
        return given.format(self.source, self.target)

    def _reject_twins(self) -> None:
        statement = "INSERT INTO dbanon_rejected SELECT file, line, reason, {} FROM dbanon_ordered WHERE NOT kept"
        self.connection.execute(sql.SQL(statement).format(self.staging.content()))

    def _fixes(self) -> sql.Composable:
        """Name what lines are made of: the kept fixes, their parts numbered where gaps or their length cut them."""
        if self.split_gap_s is None and self._longest() <= MOST_FIXES:
            return sql.SQL("(SELECT * FROM dbanon_ordered WHERE kept)")
        gap = sql.SQL("'Infinity'") if self.split_gap_s is None else sql.Literal(self.split_gap_s)
        return sql.SQL(
            """(SELECT subject, trip, t, x, y,
                       count(*) FILTER (WHERE gap > {} OR nth % {} = 0)
                           OVER (PARTITION BY subject, trip ORDER BY t) AS part
                FROM (SELECT *, t - lag(t) OVER (PARTITION BY subject, trip ORDER BY t) AS gap,
                             row_number() OVER (PARTITION BY subject, trip ORDER BY t) - 1 AS nth
                      FROM dbanon_ordered WHERE kept) spaced)"""
        ).format(gap, MOST_FIXES)

    def _longest(self) -> int:
        """Count the fixes of the longest trajectory to be."""
        query = (
            "SELECT max(n) FROM (SELECT count(*) AS n FROM dbanon_ordered WHERE kept GROUP BY subject, trip) lengths"
        )
        return int((self.connection.execute(query).fetchone() or [0])[0] or 0)

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
        statement = sql.SQL(
            """
            WITH blocks AS MATERIALIZED (
                SELECT file, line / 1000 AS block FROM dbanon_staged GROUP BY file, line / 1000
                HAVING pg_temp.dbanon_moved(ST_SetSRID(ST_Collect(ST_MakePoint(x, y)), {source}), {target}) IS NULL),
            gone AS (
                DELETE FROM dbanon_staged s USING blocks b WHERE s.file = b.file AND s.line / 1000 = b.block
                    AND pg_temp.dbanon_moved(ST_SetSRID(ST_MakePoint(s.x, s.y), {source}), {target}) IS NULL
                RETURNING s.*)
            INSERT INTO dbanon_rejected SELECT file, line, 'position-out-of-range', {content} FROM gone"""
        )
        with _crs.moving(self.connection):
            self.connection.execute(
                statement.format(source=self.source, target=self.target, content=self.staging.content())
            )


@dataclass(frozen=True)
class ShapeMaker(Maker):
    """Turns rows of which some are lines or areas into trajectories of one fix, each at the middle of its rectangle.

    Staged rows have their geometry in `shape`, null for points; here they get `place`, its rectangle in the dataset's
    reference system. Source and target need not be parallel, so the middle is that of the rectangle stored.
    """

    MORE = "shape, place,"
    SAME = "place = first_value(place) OVER twins"

    def make(self) -> tuple[int, int]:
        """Make them all; returns the numbers of trajectories and subjects."""
        self._place()
        return self._attempt()

    def _place(self) -> None:
        """Find the rectangle of each row, and reject those that PROJ cannot place."""
        self.connection.execute("ALTER TABLE dbanon_staged ADD place geometry")
        statement = sql.SQL(
            "UPDATE dbanon_staged SET place = ST_Envelope(pg_temp.dbanon_moved("
            "ST_SetSRID(coalesce(shape, ST_MakePoint(x, y)), {}), {}))"
        )
        with _crs.moving(self.connection):
            self.connection.execute(statement.format(self.source, self.target))
        self.staging.leave_out(sql.SQL("place IS NULL"), sql.SQL("'position-out-of-range'"))

    def _position(self) -> sql.Composable:
        return sql.SQL("ST_SetSRID(ST_MakePoint({}), {})").format(sql.SQL(_MIDDLE), self.target)

    def _insert(self) -> tuple[int, int]:
        statement = sql.SQL(
            """
            WITH made AS (
                INSERT INTO dbanon.trajectory (dataset_id, subject, path, shape)
                SELECT {dataset}, subject, ST_SetSRID(ST_MakePointM({middle}, t), {target}),
                    CASE WHEN shape IS NOT NULL THEN place END
                FROM dbanon_ordered o WHERE kept ORDER BY subject, t
                RETURNING subject)
            SELECT count(*), count(DISTINCT subject) FROM made"""
        )
        row = self.connection.execute(
            statement.format(dataset=self.dataset_id, middle=sql.SQL(_MIDDLE), target=self.target)
        ).fetchone()
        return row or (0, 0)


class _OffTheMapError(Exception):
    """A reprojected path is not finite."""
