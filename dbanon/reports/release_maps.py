"""Reads what a page shows of a release's rows, with an analyst's rights; PostGIS draws the shapes.

All of it comes from the rows, by the functions that answer analysts. `dbanon.pages.disclosure` leaves out what no page
may show, and joins figures until they are about k people.
"""

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, LiteralString
from zoneinfo import ZoneInfo

from psycopg import sql

from dbanon.base.errors import ParameterError
from dbanon.pages import disclosure
from dbanon.pages.charts import format_metres
from dbanon.pages.maps import Window, find_least_window
from dbanon.postgres.connection import Connection, find_postgis_schema, make_sql
from dbanon.results.figures import choose_sides

MAX_REGIONS = 400
_MAX_PATH_BYTES = 60_000
_MAX_STREET_BYTES = 100_000
_QUESTION_COUNT = 36


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A relation with rows in the form of a release, and what is said of them."""

    about: sql.Composable  # a value of the type ``published.releases``
    relation: sql.Composable
    since: datetime  # since, until: of the rows that are shown: the newest part
    until: datetime
    srid: int
    k: int
    holds: str


def collect_shown(
    connection: Connection, rows: Rows, zone: ZoneInfo, *, shows_hours: bool = False, shows_questions: bool = False
) -> disclosure.Shown:
    """Read what pages for readers show of rows, hours and questions if asked for; an empty one where there are none."""
    reader = _Reader(connection, rows)
    window = reader.find_window()
    if window is None:
        return disclosure.Shown(k=rows.k, exact=reader.measure_exact())
    bins, crowds, exact = reader.bin_sizes(), reader.weigh_crowds(), reader.measure_exact()
    hidden = disclosure.join_bins(bins, rows.k)
    cell_m = _round(max((window.x1 - window.x0) / 14, 1))
    return disclosure.Shown(
        k=rows.k,
        window=window,
        moment=reader.draw_expected(reader.choose_moment(window), window, draws_all=not exact),
        hours=reader.draw_hours(window, cell_m, zone, tints_few=not exact) if shows_hours else (),
        cell_m=cell_m,
        sizes=disclosure.make_bars(hidden),
        sides=disclosure.compute_quantiles(bins) if hidden else (),
        crowds=disclosure.make_crowd_bars(crowds, rows.k),
        exact=exact,
        questions=reader.ask_questions(window, zone) if shows_questions else (),
        atoms=reader.draw_atoms(window),
    )


class _Reader:
    def __init__(self, connection: Connection, rows: Rows) -> None:
        self._connection, self._rows = connection, rows
        self._names: dict[str, sql.Composable] = {
            "about": rows.about,
            "relation": rows.relation,
            "path": build_path_query(connection),
            "named": sql.Literal(rows.relation.as_string(connection)),
            "p": sql.Identifier(find_postgis_schema(connection)),
        }
        self._params: dict[str, Any] = {"since": rows.since, "until": rows.until, "k": rows.k, "srid": rows.srid}

    def ask(self, query: LiteralString, **given: Any) -> list[Any]:
        """Run a query about the rows that are shown, and those of no other part."""
        text = sql.SQL(query).format(**self._names)
        return self._connection.execute(text, {**self._params, **given}).fetchall()

    def find_window(self) -> Window | None:
        """Find the least box with 95 % of the people and time in rows that hide people, spread over their boxes."""
        # Not of the extent: a single group somewhere off would make the squares larger.
        [(across_m,)] = self.ask(
            """
            SELECT greatest(high_x - low_x, high_y - low_y, side) FROM (
                SELECT percentile_cont(0.1) WITHIN GROUP (ORDER BY x) AS low_x,
                    percentile_cont(0.9) WITHIN GROUP (ORDER BY x) AS high_x,
                    percentile_cont(0.1) WITHIN GROUP (ORDER BY y) AS low_y,
                    percentile_cont(0.9) WITHIN GROUP (ORDER BY y) AS high_y,
                    percentile_cont(0.5) WITHIN GROUP (ORDER BY side) AS side
                FROM (SELECT ({p}.ST_XMin(c.region) + {p}.ST_XMax(c.region)) / 2 AS x,
                        ({p}.ST_YMin(c.region) + {p}.ST_YMax(c.region)) / 2 AS y, sqrt({p}.ST_Area(c.region)) AS side
                    FROM {relation} c
                    WHERE c.valid_from >= %(since)s AND c.valid_from < %(until)s AND c.crowd >= %(k)s) r) q
            """
        )
        if across_m is None:
            return None
        cell_m = _round(max(across_m / 20, 1))
        squares = self.ask(
            """
            SELECT floor((b.x0 + (b.x1 - b.x0) * (i + 0.5) / 8) / %(cell)s) * %(cell)s,
                floor((b.y0 + (b.y1 - b.y0) * (j + 0.5) / 8) / %(cell)s) * %(cell)s, sum(b.weight)
            FROM (SELECT {p}.ST_XMin(c.region) AS x0, {p}.ST_YMin(c.region) AS y0, {p}.ST_XMax(c.region) AS x1,
                    {p}.ST_YMax(c.region) AS y1,
                    sum(c.subjects * extract(epoch FROM c.valid_to - c.valid_from))::float8 AS weight
                FROM {relation} c WHERE c.valid_from >= %(since)s AND c.valid_from < %(until)s AND c.crowd >= %(k)s
                GROUP BY 1, 2, 3, 4) b, generate_series(0, 7) i, generate_series(0, 7) j
            GROUP BY 1, 2
            """,
            cell=cell_m,
        )
        return find_least_window(squares, cell_m)

    def _ask_cells(
        self, cell_m: float, since: datetime, until: datetime, within: Window, *, even: bool = False
    ) -> list[Any]:
        """Ask how many people are in the squares of a window hour by hour."""
        return self.ask(
            """
            SELECT d.hour, {p}.ST_XMin(d.cell), {p}.ST_YMin(d.cell), d.expected
            FROM published_inner.density_of({about}, {named}::regclass, %(cell)s, tstzrange(%(low)s, %(high)s),
                true, %(even)s, NULL, {p}.ST_MakeEnvelope(%(x0)s, %(y0)s, %(x1)s, %(y1)s, %(srid)s)) d
            """,
            cell=cell_m,
            low=since,
            high=until,
            even=even,
            **scale_to_window(within),
        )

    def draw_hours(self, window: Window, cell_m: float, zone: ZoneInfo, *, tints_few: bool) -> list[Any]:
        """Draw the last day of the rows hour by hour."""
        since = max(self._rows.since, self._rows.until - timedelta(days=1))
        hour = since.replace(minute=0, second=0, microsecond=0)
        cells: dict[datetime, list[Any]] = {}
        while hour < self._rows.until:
            cells[hour] = []
            hour += timedelta(hours=1)
        for at, *cell in self._ask_cells(cell_m, since, self._rows.until, window):
            cells[at].append(cell)
        return [
            (at.astimezone(zone), disclosure.draw_squares(squares, cell_m, window, self._rows.k, tints_few=tints_few))
            for at, squares in cells.items()
        ]

    def draw_expected(
        self, moment: disclosure.Moment | None, window: Window, *, draws_all: bool
    ) -> disclosure.Moment | None:
        """Add to a moment where its hour expects people, by the surface and evenly, in classes by the mean of the map.

        Squares of few people are drawn if `draws_all`; otherwise rows may be of single people, and nothing is added.
        """
        if moment is None or not draws_all:
            return moment
        hour = moment.at.replace(minute=0, second=0, microsecond=0)
        span = max(hour, self._rows.since), min(hour + timedelta(hours=1), self._rows.until)
        cell_m = _round(max((window.x1 - window.x0) / 50, 1))
        squares = (window.x1 - window.x0) * (window.y1 - window.y0) / cell_m**2
        drawn = []
        for even in (False, True):
            cells = [cell for _, *cell in self._ask_cells(cell_m, *span, window, even=even)]
            mean = sum(people for _, _, people in cells) / squares
            drawn.append(disclosure.draw_squares(cells, cell_m, window, mean, tints_few=False) if mean else {})
        return replace(moment, expected=drawn[0], even=drawn[1])

    def choose_moment(self, window: Window) -> disclosure.Moment | None:
        """Choose a time by a fixed rule, the median number of rows, and draw the regions that hide people then."""
        is_instant = self._rows.holds == "instant"
        times = self.ask(
            """
            SELECT CASE WHEN %(instant)s THEN c.valid_from ELSE date_bin('1 hour', c.valid_from, 'epoch') END AS at,
                count(*)
            FROM {relation} c WHERE c.valid_from >= %(since)s AND c.valid_from < %(until)s AND c.crowd >= %(k)s
            GROUP BY 1 ORDER BY 2, 1
            """,
            instant=is_instant,
        )
        if not times:
            return None
        at = times[(len(times) - 1) // 2][0]
        at = at if is_instant else min(at + timedelta(minutes=30), self._rows.until - timedelta(seconds=1))
        regions = self.ask(
            """
            SELECT {path}
            FROM {relation} clo
            WHERE clo.valid_from BETWEEN %(since)s AND %(at)s AND clo.valid_to > %(at)s AND clo.valid_from < %(until)s
                AND clo.crowd >= %(k)s
                AND {p}.ST_Intersects(clo.region, {p}.ST_MakeEnvelope(%(x0)s, %(y0)s, %(x1)s, %(y1)s, %(srid)s))
            ORDER BY {p}.ST_Area(clo.region) DESC, clo.record_id, clo.seq
            """,
            at=at,
            **scale_to_window(window),
        )
        holding = "c.valid_from <= %(at)s AND c.valid_to > %(at)s"
        [(rows,)] = self.ask(f"SELECT count(*) FROM {{relation}} c WHERE {holding} AND c.crowd >= %(k)s", at=at)
        # One row stands for one person in some families, and k rows have one region.
        paths = list(dict.fromkeys(path for (path,) in regions if path))
        drawn = disclosure.sample_paths(paths, MAX_REGIONS, _MAX_PATH_BYTES)
        return disclosure.Moment(at=at, regions=drawn, rows=rows, undrawn=len(paths) - len(drawn))

    def bin_sizes(self) -> list[disclosure.Bin]:
        """Bin the rows that hide people by the longer side of their region (`find_longer_sides`), at least 1 mm."""
        return [
            disclosure.Bin(disclosure.BIN_FACTOR**place, disclosure.BIN_FACTOR ** (place + 1), weight, people)
            for place, weight, people in self.ask(
                """
                SELECT b.place, sum(b.weight), sum(b.people) FROM (
                    SELECT floor(ln(greatest({p}.ST_XMax(c.region) - {p}.ST_XMin(c.region),
                            {p}.ST_YMax(c.region) - {p}.ST_YMin(c.region), 0.001)) / ln(1.25))::integer AS place,
                        max(c.subjects) AS people,
                        sum(c.subjects * extract(epoch FROM c.valid_to - c.valid_from))::float8 AS weight
                    FROM {relation} c WHERE c.valid_from >= %(since)s AND c.valid_from < %(until)s AND c.crowd >= %(k)s
                    GROUP BY 1, c.record_id) b
                GROUP BY 1 ORDER BY 1
                """
            )
        ]

    def weigh_crowds(self) -> list[tuple[int, float, float]]:
        """Weigh the rows that hide people by how many they hide."""
        return self.ask(
            """
            SELECT b.crowd, sum(b.weight), sum(b.people)::float8 FROM (
                SELECT c.crowd, max(c.subjects) AS people,
                    sum(c.subjects * extract(epoch FROM c.valid_to - c.valid_from))::float8 AS weight
                FROM {relation} c WHERE c.valid_from >= %(since)s AND c.valid_from < %(until)s AND c.crowd >= %(k)s
                GROUP BY 1, c.record_id) b
            GROUP BY 1 ORDER BY 1
            """
        )

    def measure_exact(self) -> float:
        """Say what share of people and time is in rows that hide nobody."""
        [(share,)] = self.ask(
            """
            SELECT coalesce(sum(w.weight) FILTER (WHERE w.crowd < %(k)s) / nullif(sum(w.weight), 0), 0)::float8
            FROM (SELECT c.crowd, c.subjects * extract(epoch FROM c.valid_to - c.valid_from) AS weight
                  FROM {relation} c WHERE c.valid_from >= %(since)s AND c.valid_from < %(until)s) w
            """
        )
        return float(share)

    def ask_questions(self, window: Window, zone: ZoneInfo) -> list[disclosure.Question]:
        """Ask how many people are in some squares of the window at some times, the same ones each time."""
        wide, high = window.x1 - window.x0, window.y1 - window.y0
        questions, sides = [], choose_sides((window.x0, window.y0, window.x1, window.y1))[1:4]
        for n in range(1, _QUESTION_COUNT + 1):
            side = sides[n // 3 % len(sides)]
            x, y = (
                low + (size - side) * _compute_halton(n, base)
                for low, size, base in ((window.x0, wide, 2), (window.y0, high, 3))
            )
            at = self._rows.since + (self._rows.until - self._rows.since) * _compute_halton(n, 5)
            is_span = self._rows.holds != "instant"
            [(least, expected, most)] = self.ask(
                """
                SELECT c.at_least, c.expected, c.at_most FROM published_inner.count_inside_of({about},
                    {named}::regclass, {p}.ST_MakeEnvelope(%(x0)s, %(y0)s, %(x1)s, %(y1)s, %(srid)s),
                    CASE WHEN NOT %(span)s THEN %(at)s::timestamptz END,
                    CASE WHEN %(span)s
                        THEN tstzrange(%(at)s::timestamptz, %(at)s::timestamptz + interval '10 minutes') END,
                    false, NULL) c
                """,
                **{"x0": x, "y0": y, "x1": x + side, "y1": y + side, "at": at, "span": is_span},
            )
            label = f"{format_metres(side)}, {at.astimezone(zone):%H:%M}"
            questions.append(disclosure.Question(label, least, expected, most))
        return disclosure.select_questions(questions, self._rows.k)

    def draw_atoms(self, window: Window) -> str:
        """Draw the atoms of a release that has them; they are public."""
        [(path,)] = self.ask(
            """
            SELECT {p}.ST_AsSVG({p}.ST_SnapToGrid({p}.ST_Scale({p}.ST_Translate(
                {p}.ST_SimplifyPreserveTopology({p}.ST_Collect(
                a.region), 3 / %(by)s), %(x)s, %(y)s), %(by)s, %(by)s), 1), 1, 0)
            FROM published.atoms a WHERE a.name = %(name)s AND a.since = %(since)s
                AND {p}.ST_Intersects(a.region, {p}.ST_MakeEnvelope(%(x0)s, %(y0)s, %(x1)s, %(y1)s, %(srid)s))
            """,
            name=self._rows.relation.as_string(self._connection).split(".")[-1].strip('"'),
            **scale_to_window(window),
        )
        return path or ""


def draw_streets(connection: Connection, table: str, window: Window, srid: int) -> str:
    """Draw the longest lines of a table as a path; raises `ParameterError` if it is none with one column of them."""
    postgis = find_postgis_schema(connection)
    columns = connection.execute(
        "SELECT att.attname, att.attrelid::regclass::text FROM pg_attribute att WHERE att.attrelid = to_regclass(%s) "
        "AND att.atttypid = to_regtype(%s) AND att.attnum > 0 AND NOT att.attisdropped",
        [table, f"{postgis}.geometry"],
    ).fetchall()
    if len(columns) != 1:
        raise ParameterError(
            f"Streets must be a table with one column of geometries. Got {table}, with {len(columns)}."
        )
    [(column, relation)] = columns
    query = sql.SQL(
        """
        SELECT coalesce(string_agg(far.path, ''), '')
        FROM (SELECT one.path, sum(length(one.path)) OVER (ORDER BY {p}.ST_Length(one.region) DESC, one.path) AS bytes
              FROM (SELECT clo.region, {path} AS path
                    FROM (SELECT {p}.ST_CollectionExtract({p}.ST_ClipByBox2D({p}.ST_Transform(tab.{column}, %(srid)s),
                              {p}.ST_MakeEnvelope(%(x0)s, %(y0)s, %(x1)s, %(y1)s, %(srid)s)::{p}.box2d), 2) AS region
                          FROM {relation} tab) clo
                    WHERE NOT {p}.ST_IsEmpty(clo.region)) one) far
        WHERE far.bytes <= %(most)s
        """
    ).format(
        p=sql.Identifier(postgis),
        path=build_path_query(connection),
        column=sql.Identifier(column),
        relation=make_sql(relation),
    )
    given = {"srid": srid, "most": _MAX_STREET_BYTES, **scale_to_window(window)}
    [(path,)] = connection.execute(query, given).fetchall()
    return str(path)


def build_path_query(connection: Connection) -> sql.Composable:
    """Write the path of the region ``clo.region`` in units of a window, whose values `scale_to_window` gives."""
    return sql.SQL(
        "{p}.ST_AsSVG({p}.ST_SnapToGrid({p}.ST_SimplifyPreserveTopology({p}.ST_Scale({p}.ST_Translate("
        "clo.region, %(x)s, %(y)s), %(by)s, %(by)s), 2), 1), 1, 0)"
    ).format(p=sql.Identifier(find_postgis_schema(connection)))


def scale_to_window(window: Window) -> dict[str, float]:
    """Give the parameters of `build_path_query` and the corners of a window, in metres, by name."""
    box = {"x0": window.x0, "y0": window.y0, "x1": window.x1, "y1": window.y1}
    return {**box, "x": -window.x0, "y": -window.y1, "by": 1 / window.unit_m}


def _compute_halton(n: int, base: int) -> float:
    """Give the n-th number of the van der Corput sequence: places that are spread evenly, the same ones each time."""
    part, scale = 0.0, 1.0
    while n:
        n, digit = divmod(n, base)
        scale /= base
        part += digit * scale
    return part


def _round(metres: float) -> float:
    """Give the least of 1, 2, 5, 10, ... metres that is not less."""
    size: float = 10 ** math.floor(math.log10(metres))
    return next(size * n for n in (1, 2, 5, 10) if size * n >= metres * (1 - 1e-9))
