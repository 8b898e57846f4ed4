"""Fixes out of a table of the same database into the staging table, without leaving the server."""

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import psycopg
from psycopg import sql

from dbanon._progress import Progress
from dbanon.errors import DataError, ParameterError, StoreError
from dbanon.loading import _cells, _crs, _staging, _survey
from dbanon.loading._boxes import Box
from dbanon.loading._from_files import ITS_OWN, check_named

Connection = psycopg.Connection[Any]

_NUMBERS = ("smallint", "integer", "bigint", "numeric", "real", "double precision")
_NAIVE = ("timestamp without time zone", "date")
_ZONED = "timestamp with time zone"
BLANKS = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680"
    + "".join(map(chr, range(0x2000, 0x200B)))
    + "\u2028\u2029\u202f\u205f\u3000"
)
"""What is trimmed from texts, as Arrow does."""
_AS_POINT = "'POINT(' || x || ' ' || y || ')'"


@dataclass(frozen=True, kw_only=True)
class TableColumns:
    """Which column of a table holds what; `geom` is a point or shape, `trip` tells a subject's trajectories apart."""

    subject: str
    time: str
    geom: str
    trip: str | None = None

    def check(self) -> None:
        """Raise `ParameterError` if one column is to be two things, or no column but the subject's is its own."""
        check_named([self.subject, self.time, self.geom], self.trip, "subject, time and geometry")

    def names(self) -> list[str]:
        """The columns to read, each once."""
        named = [self.subject, self.time, self.geom, self.trip]
        return list(dict.fromkeys(n for n in named if n is not None and n != ITS_OWN))


@dataclass
class Table:
    """A table or view of fixes; `find` looks it up, before PostGIS's schema becomes the only one in sight."""

    name: str
    columns: TableColumns
    tz: str | None
    bbox: Box | None
    _oid: int = 0
    _qualified: str = ""
    _types: dict[str, str] = field(default_factory=dict)

    @property
    def sources(self) -> list[str]:
        """What the record of the load calls it."""
        return [f"table {self._qualified}"]

    @property
    def remedy(self) -> str:
        """What to do where x and y are the wrong way round."""
        return (
            f"The geometries of column '{self.columns.geom}' have them the other way round; swap them in a view, with "
            "ST_FlipCoordinates, and import that."
        )

    @property
    def cells(self) -> Mapping[str, str]:
        """For each column, the expression of what was read from it."""
        named = {self.columns.subject: "subject", self.columns.time: "t", self.columns.trip: "trip"}
        known = {name: staged for name, staged in named.items() if name is not None and name != ITS_OWN}
        return {**known, self.columns.geom: _AS_POINT}

    def find(self, connection: Connection) -> None:
        """Look the table and its columns up.

        Raises
        ------
        DataError
            If there is no such table or column, or a column is of another type.
        StoreError
            If the login may not read it.
        """
        row = None
        try:
            with connection.transaction():
                row = connection.execute(
                    "SELECT c.oid, format('%%I.%%I', n.nspname, c.relname), row_security_active(c.oid) "
                    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
                    "WHERE c.oid = to_regclass(%s) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
                    [self.name],
                ).fetchone()
        except (psycopg.ProgrammingError, psycopg.NotSupportedError):  # it is no name
            pass
        if row is None:
            raise DataError(
                f"The table to import must exist. There is no '{self.name}'. {_nearest(connection, self.name)}"
            )
        self._oid, self._qualified, filtered = row
        if filtered:
            raise DataError(
                f"The table must be read whole. Row-level security keeps rows of {self._qualified} from this login; "
                "import it as a login that sees all of them."
            )
        self._check_columns(connection)
        self._check_types()

    def _check_columns(self, connection: Connection) -> None:
        found = connection.execute(
            "SELECT a.attname, format_type(coalesce(nullif(t.typbasetype, 0), t.oid), NULL), "
            "       has_column_privilege(a.attrelid, a.attnum, 'SELECT'), coalesce(NOT c.collisdeterministic, false) "
            "FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
            "LEFT JOIN pg_collation c ON c.oid = a.attcollation "
            "WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            [self._oid],
        ).fetchall()
        self._types = {name: kind for name, kind, _, _ in found}
        blurred = {name for name, kind, _, loose in found if loose or kind.split(".")[-1] == "citext"}
        if self.columns.subject in blurred:
            raise DataError(
                f"Column '{self.columns.subject}' must tell one subject from another byte by byte. Its type takes "
                "different spellings for the same; bring them into one in a view, with lower(x)::text, and import it."
            )
        for name in self.columns.names():
            if name not in self._types:
                raise DataError(
                    f"{self._qualified} must have a column '{name}'. It has: {', '.join(self._types)}; name the right "
                    "one (--subject, --time, --geom or --trip)."
                )
        if not all(allowed for name, _, allowed, _ in found if name in self.columns.names()):
            raise StoreError(
                f"The login must be allowed to read the table. It may not read {self._qualified}; grant it SELECT.",
                "42501",
            )

    def _check_types(self) -> None:
        time = self._types[self.columns.time]
        if time not in (*_NUMBERS, *_NAIVE, _ZONED):
            raise DataError(
                f"Column '{self.columns.time}' must be a timestamp, a date or a number of unix seconds. It is {time}; "
                "cast it in a view and import that."
            )
        if time in _NAIVE and self.tz is None:
            raise ParameterError(
                f"Times must name their zone, or come with one for all of them. Column '{self.columns.time}' is "
                f"{time}; give the zone, for example --tz UTC."
            )
        if self._types[self.columns.geom].split(".")[-1] not in ("geometry", "geography"):
            raise DataError(
                f"Column '{self.columns.geom}' must be a geometry. It is {self._types[self.columns.geom]}; make points "
                "in a view, with ST_SetSRID(ST_MakePoint(lon, lat), 4326), and import that."
            )

    def crs(self, connection: Connection) -> str:
        """Name the reference system of the geometries.

        Raises
        ------
        DataError
            If they name none.
        """
        with self._reading():
            (srid,) = connection.execute(
                sql.SQL(
                    "SELECT ST_SRID(g) FROM (SELECT {}::geometry AS g FROM {}) s WHERE g IS NOT NULL LIMIT 1"
                ).format(sql.Identifier(self.columns.geom), self._relation()),
            ).fetchone() or (_crs.WGS84,)
        if not srid:
            raise DataError(
                f"The geometries in '{self.columns.geom}' must name their reference system. Theirs is 0; give --crs, "
                "such as EPSG:4326, or set it with ST_SetSRID."
            )
        return str(srid)

    def stage(self, staging: _staging.Staging, crs: _crs.Crs, first: int, progress: Progress) -> None:
        """Insert the usable rows into the staging table; rows that are their own subjects are numbered from `first`."""
        progress(f"reading {self._qualified}", 0, None)
        # Rows come in the order of the table, which decides between contradicting fixes.
        staging.connection.execute("SET LOCAL synchronize_seqscans = off")
        statement = sql.SQL(
            """
            INSERT INTO dbanon_staged (file, line, subject, trip, t, x, y, shape, reason, content)
            SELECT 0, line, subject, trip, t, x, y, CASE WHEN NOT is_point THEN raw_geom END, reason,
                CASE WHEN reason IS NOT NULL THEN jsonb_build_object({told}) END
            FROM (SELECT *, CASE {reasons} END AS reason
                  FROM (SELECT line, raw_subject, raw_time::text, raw_geom, raw_trip, {subject} AS subject,
                            {trip} AS trip, {time} AS t, is_point, ST_SRID(raw_geom) AS srid,
                            CASE WHEN is_point THEN ST_X(raw_geom) ELSE {x} END AS x,
                            CASE WHEN is_point THEN ST_Y(raw_geom)
                                 ELSE (ST_YMin(Box3D(raw_geom)) + ST_YMax(Box3D(raw_geom))) / 2 END AS y
                        FROM (SELECT row_number() OVER () AS line, *, GeometryType(raw_geom) LIKE 'POINT%' AS is_point
                              FROM (SELECT {columns} FROM {table}) raw) numbered OFFSET 0) meant OFFSET 0) judged"""
        ).format(
            reasons=self._reasons(crs),
            columns=self._raw(),
            table=self._relation(),
            subject=_text("raw_subject") if self.columns.subject != ITS_OWN else _numbered(first),
            trip=_text("raw_trip"),
            time=self._seconds(staging.connection),
            x=_middle_x(crs),
            told=self._told(),
        )
        staging.connection.execute("ALTER TABLE dbanon_staged ADD shape geometry, ADD reason text, ADD content jsonb")
        with self._reading():
            staging.read.append(staging.connection.execute(statement).rowcount)
        staging.connection.execute(
            "WITH bad AS (DELETE FROM dbanon_staged WHERE reason IS NOT NULL RETURNING *) "
            "INSERT INTO dbanon_rejected SELECT file, line, reason, content FROM bad"
        )
        staging.connection.execute("ALTER TABLE dbanon_staged DROP reason, DROP content")
        counted = staging.connection.execute("SELECT count(shape) FROM dbanon_staged")
        staging.shapes = int((counted.fetchone() or [0])[0])
        if staging.shapes:
            staging.cells = {**self.cells, self.columns.geom: f"coalesce(ST_AsText(shape), {_AS_POINT})"}
        else:
            staging.connection.execute("ALTER TABLE dbanon_staged DROP shape")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Say of errors that they come from the table, which may be a view of anything."""
        try:
            yield
        except (psycopg.ProgrammingError, psycopg.DataError) as error:
            raise DataError(
                f"The table must be readable to its last row. Reading {self._qualified} stopped with SQLSTATE "
                f"{error.sqlstate}; select all of it in psql to see why."
            ) from error

    def _relation(self) -> sql.SQL:
        return sql.SQL(cast("Any", self._qualified))  # quoted by format

    def _raw(self) -> sql.Composed:
        subject, trip = self.columns.subject, self.columns.trip
        named = {
            "raw_subject": sql.SQL("NULL::text") if subject == ITS_OWN else _as(subject, "text"),
            "raw_time": sql.Identifier(self.columns.time),
            "raw_geom": _as(self.columns.geom, "geometry"),
            "raw_trip": sql.SQL("NULL::text") if trip is None else _as(trip, "text"),
        }
        return sql.SQL(", ").join(
            sql.SQL("{} AS {}").format(expression, sql.Identifier(name)) for name, expression in named.items()
        )

    def _seconds(self, connection: Connection) -> sql.Composable:
        """Write the expression of a time in unix seconds."""
        kind = self._types[self.columns.time]
        if kind == _ZONED:
            return sql.SQL("extract(epoch FROM raw_time)::float8")
        if kind in _NAIVE:
            return _localised(str(self.tz))
        number = _number("raw_time", kind)
        with self._reading():
            row = connection.execute(
                sql.SQL(
                    "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY abs(t)) FROM (SELECT {} AS t "
                    "FROM (SELECT {} AS raw_time FROM {} LIMIT 100000) r) s WHERE abs(t) < 'Infinity'"
                ).format(number, sql.Identifier(self.columns.time), self._relation())
            ).fetchone()
        unit = _cells.per_second((row and row[0]) or 0.0)
        if unit == 1:
            return number
        # What is too small for the unit was counted in another.
        return sql.SQL("CASE WHEN abs({0}) < {1} THEN {2} ELSE {0} / {3} END").format(
            number, _cells.least(unit), _cells.LAST_S, unit
        )

    def _told(self) -> sql.Composed:
        """Build the JSON of a row that cannot be used, with its cells as they were read."""
        texts = {
            self.columns.subject: sql.SQL("raw_subject"),
            self.columns.time: sql.SQL("raw_time"),
            self.columns.geom: sql.SQL("ST_AsText(raw_geom)"),
            self.columns.trip: sql.SQL("raw_trip"),
        }
        return sql.SQL(", ").join(
            sql.SQL("{}::text, {}").format(sql.Literal(name), text)
            for name, text in texts.items()
            if name is not None and name != ITS_OWN
        )

    def _reasons(self, crs: _crs.Crs) -> sql.Composed:
        """Find the first reason against a row; `_from_files` has the same in NumPy."""
        wrong = {
            "missing-subject": sql.SQL("subject IS NULL"),
            "subject-too-long": sql.SQL("octet_length(subject) > {}").format(_cells.MOST_SUBJECT_BYTES),
            "unparsable-time": sql.SQL("t IS NULL"),
            "non-finite-time": sql.SQL("NOT abs(t) < 'Infinity'"),
            "time-out-of-range": sql.SQL("t < {} OR t >= {}").format(_cells.FIRST_S, _cells.LAST_S),
            "other-reference-system": sql.SQL("srid NOT IN (0, {})").format(crs.srid),
            "unparsable-position": sql.SQL("x IS NULL OR y IS NULL"),
            "non-finite-position": sql.SQL("NOT (abs(x) < 'Infinity' AND abs(y) < 'Infinity')"),
        }
        conditions: list[tuple[str, sql.Composable]] = list(wrong.items())
        if crs.geographic:
            conditions += [
                (_survey.SWAPPED, sql.SQL("abs(x) <= 90 AND abs(y) > 90 AND abs(y) <= 180")),
                ("position-out-of-range", sql.SQL("abs(x) > 180 OR abs(y) > 90")),
            ]
        if self.bbox is not None:
            outside = sql.SQL("NOT ({})").format(_inside("x", "y", self.bbox))
            swapped = sql.SQL("{} AND {}").format(outside, _inside("y", "x", self.bbox))
            conditions += [(_survey.SWAPPED, swapped), ("outside-bbox", outside)]
        return sql.SQL(" ").join(
            sql.SQL("WHEN {} THEN {}").format(test, sql.Literal(name)) for name, test in conditions
        )


def _as(column: str, kind: str) -> sql.Composed:
    return sql.SQL("{}::{}").format(sql.Identifier(column), sql.SQL(cast("Any", kind)))


def _number(column: str, kind: str) -> sql.Composed:
    """Make a double of any number; a numeric may be too large for one."""
    text = "{0}::float8"
    if kind == "numeric":
        special = "{0}::text IN ('NaN', 'Infinity', '-Infinity')"
        text = f"CASE WHEN abs({{0}}) < 1e300 OR {special} THEN {{0}}::float8 ELSE 1e300 END"
    return sql.SQL(cast("Any", f"({text})")).format(sql.Identifier(column))


def _middle_x(crs: _crs.Crs) -> sql.SQL:
    """Write the middle of a shape's least and greatest x; across the antimeridian, the short way round."""
    if not crs.geographic:
        return sql.SQL("(ST_XMin(Box3D(raw_geom)) + ST_XMax(Box3D(raw_geom))) / 2")
    return sql.SQL(
        """(SELECT CASE WHEN west + east > 360 AND west <= 180 THEN (west + east) / 2 - 360
                        WHEN west + east < -360 AND east >= -180 THEN (west + east) / 2 + 360
                        ELSE (west + east) / 2 END
            FROM (SELECT ST_XMin(b) AS west, ST_XMax(b) AS east
                  FROM (SELECT Box3D(CASE WHEN ST_XMax(Box3D(raw_geom)) - ST_XMin(Box3D(raw_geom)) > 180
                                          THEN ST_ShiftLongitude(raw_geom) ELSE raw_geom END) AS b) box) sides)"""
    )


def _localised(tz: str) -> sql.Composed:
    """Read a time of day in a zone as files are read: the earlier of two, and none where clocks were set forward."""
    there = sql.SQL("(raw_time::timestamp AT TIME ZONE {})").format(tz)
    earlier = [sql.SQL("({} - interval {})").format(there, gap) for gap in ("2 hours", "1 hour", "30 minutes", "0")]
    tried = [
        sql.SQL("CASE WHEN {0} AT TIME ZONE {1} = raw_time::timestamp THEN {0} END").format(moment, tz)
        for moment in earlier
    ]
    return sql.SQL(
        "CASE WHEN NOT isfinite(raw_time) THEN 'Infinity'::float8 "
        "WHEN raw_time < '0001-01-02' OR raw_time > '5138-01-01' THEN 1e300 "
        "ELSE extract(epoch FROM coalesce({}))::float8 END"
    ).format(sql.SQL(", ").join(tried))


def _text(column: str) -> sql.Composed:
    """Trim a text and bring it into one spelling: a name in two spellings of Unicode would count as two people."""
    return sql.SQL(
        "nullif(CASE WHEN octet_length({0}) = char_length({0}) THEN btrim({0}, {1}) "
        "ELSE normalize(btrim({0}, {1}), NFC) END, '')"
    ).format(sql.Identifier(column), BLANKS)


def _numbered(first: int) -> sql.Composed:
    return sql.SQL("lpad(({} + line - 1)::text, 12, '0')").format(first)


def _inside(x: str, y: str, bbox: Box) -> sql.Composed:
    west, south, east, north = bbox
    across = "({x} >= {west} AND {x} <= {east})" if west <= east else "({x} >= {west} OR {x} <= {east})"
    named = {"x": sql.Identifier(x), "y": sql.Identifier(y)}
    return sql.SQL(cast("Any", across + " AND {y} >= {south} AND {y} <= {north}")).format(
        **named, west=west, east=east, south=south, north=north
    )


def _nearest(connection: Connection, name: str) -> str:
    known = [
        row[0]
        for row in connection.execute(
            "SELECT DISTINCT format('%I.%I', f_table_schema, f_table_name) FROM geometry_columns "
            "WHERE f_table_schema NOT IN ('dbanon', 'published') ORDER BY 1 LIMIT 1000"
        )
    ]
    near = difflib.get_close_matches(name, [*known, *(k.split(".")[-1] for k in known)], n=1, cutoff=0.5)
    return f"Did you mean {near[0]}?" if near else "Name it with its schema, such as public.gps."
