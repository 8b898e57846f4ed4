"""Rows made by hand on which functions for analysts could go wrong: periods that reach beyond the span."""

from typing import Any

import psycopg
import pytest

from tests.db.test_concurrency import start_statement

# Two people alike, of whom rows say: in the west from 8:00 to 8:10, in the east from 8:10 to 8:20; for both, some time.
RUN = """
INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('two', 32610, 1, 60);
INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path)
SELECT i, d.dataset_id, 'p' || i, ST_SetSRID(ST_MakeLine(ST_MakePointM(5, 5, 1212566460),
                                                         ST_MakePointM(105, 5, 1212567060)), 32610)
FROM dbanon.dataset d, generate_series(1, 2) i WHERE d.name = 'two';
INSERT INTO dbanon.run (dataset_id, dataset_revision, method, algorithm, params, seed, status)
SELECT dataset_id, revision, 'kte', 'k-merge', '{"k": 2}', 1, 'verified' FROM dbanon.dataset WHERE name = 'two';
INSERT INTO dbanon.cloak (run_id, record_id, seq, period, region, crowd, subjects)
SELECT 1, r, s, tstzrange(t, t + interval '10 min'), ST_MakeEnvelope(100 * s - 100, 0, 100 * s - 90, 10, 32610), 2, 1
FROM generate_series(1, 2) r, generate_series(1, 2) s,
    LATERAL (SELECT timestamptz '2008-06-04 07:50:00+00' + s * interval '10 min' AS t) p;
INSERT INTO dbanon.membership (run_id, record_id, trajectory_id)
SELECT 1, r, i FROM generate_series(1, 2) r, generate_series(1, 2) i;
INSERT INTO dbanon.verification (run_id, attack, passed, digest)
SELECT 1, 'kte', true, dbanon_internal.compute_run_digest(1);
"""
ZONES = """
CREATE TEMPORARY TABLE zones AS SELECT * FROM (VALUES ('west', ST_MakeEnvelope(-1, -1, 50, 50, 32610)),
    ('east', ST_MakeEnvelope(60, -1, 150, 50, 32610))) z (zone, shape)
"""
FLOWS = """SELECT origin || ' to ' || destination, at_least, at_most
    FROM published.flows('published.two', 'zones', 'zone', %s)"""
LINE = "ST_SetSRID(ST_MakeLine(ST_MakePoint(55, -99), ST_MakePoint(55, 99)), 32610)"  # west is left of it


@pytest.fixture
def two(connection: psycopg.Connection) -> psycopg.Connection:
    connection.execute(RUN)
    connection.execute("SELECT dbanon.publish(1, 'two')")
    connection.execute(ZONES)
    return connection


def format_span(since: str, until: str) -> str:
    return f"[2008-06-04 {since}Z,2008-06-04 {until}Z)"


def read_bounds(connection: psycopg.Connection, query: str, *params: str) -> dict[str, tuple[Any, ...]]:
    return {what: tuple(found) for what, *found in connection.execute(query, params).fetchall()}  # type: ignore[arg-type]


def test_a_row_that_reaches_beyond_the_span_may_have_no_fix_in_it(two: psycopg.Connection) -> None:
    assert read_bounds(two, FLOWS, format_span("08:00", "08:20")) == {"west to east": (2, 2)}
    # The first fix may be in the east as well: that in the west may have been before 8:05.
    assert read_bounds(two, FLOWS, format_span("08:05", "08:20")) == {"west to east": (0, 2), "east to east": (0, 2)}
    assert read_bounds(two, FLOWS, format_span("08:00", "08:15")) == {"west to west": (0, 2), "west to east": (0, 2)}
    assert read_bounds(two, FLOWS, format_span("08:05", "08:15")) == {
        f"{origin} to {end}": (0, 2) for origin in ("west", "east") for end in ("west", "east")
    }
    assert read_bounds(two, FLOWS, format_span("08:11", "08:15")) == {"east to east": (0, 2)}


def test_a_crossing_is_certain_where_both_rows_lie_within_the_span(two: psycopg.Connection) -> None:
    crossings = f"SELECT * FROM published.crossings('published.two', {LINE}, %s)"
    assert read_bounds(two, crossings, format_span("08:00", "08:20")) == {
        "left to right": (2, 2, 2),
        "right to left": (0, 0, 0),
    }
    assert read_bounds(two, crossings, format_span("08:01", "08:20")) == {
        "left to right": (0, 2, 2),
        "right to left": (0, 0, 0),
    }
    assert read_bounds(two, crossings, format_span("08:00", "08:10")) == {
        "left to right": (0, 0, 0),
        "right to left": (0, 0, 0),
    }


def test_people_may_cross_within_one_row_to_and_fro(two: psycopg.Connection) -> None:
    crossings = f"SELECT * FROM published.crossings('published.two', ST_Translate({LINE}, -50, 0), %s)"
    assert read_bounds(two, crossings, format_span("08:00", "08:10")) == {
        "left to right": (0, 0, 2),
        "right to left": (0, 0, 2),
    }


def test_a_count_is_certain_where_the_row_lies_within_the_span(two: psycopg.Connection) -> None:
    count = "published.count_inside('published.two', shape, during => %s) c"
    query = f"SELECT 'people', at_least, expected, at_most FROM zones, LATERAL {count} WHERE zone = 'west'"
    assert read_bounds(two, query, format_span("08:00", "08:10")) == {"people": (2, 2, 2)}
    assert read_bounds(two, query, format_span("08:05", "08:20")) == {"people": (0, 1, 2)}
    assert read_bounds(two, query, format_span("08:10", "08:20")) == {"people": (0, 0, 0)}


def test_a_density_splits_each_record_over_its_rows(two: psycopg.Connection) -> None:
    query = (
        "SELECT ST_XMin(cell)::int::text, at_least, expected, at_most FROM published.density('published.two', 50, %s)"
    )
    assert read_bounds(two, query, format_span("08:00", "08:20")) == {"0": (2, 1, 2), "100": (2, 1, 2)}
    assert read_bounds(two, query, format_span("08:05", "08:10")) == {"0": (0, 2, 2)}


@pytest.mark.parametrize("cell_m", [7, 50, 500])
def test_a_density_in_a_box_is_that_of_everywhere_in_the_squares_of_the_box(
    two: psycopg.Connection, cell_m: float
) -> None:
    query = """SELECT d.hour, ST_XMin(d.cell), ST_YMin(d.cell), d.at_least, d.expected, d.at_most
        FROM published_inner.density_of(published.about('published.two'), 'published.two', %s, %s, true, true,
            NULL, {}) d"""
    box = "ST_MakeEnvelope(28, 10, 130, 42, 32610)"
    during = format_span("08:00", "08:20")
    met = f"{query.format('NULL')} WHERE ST_Area(ST_Intersection(d.cell, {box})) > 0"
    found = two.execute(query.format(box), [cell_m, during]).fetchall()
    assert found == two.execute(met, [cell_m, during]).fetchall()
    assert found


def test_an_area_may_be_empty_or_measured_and_a_region_null(two: psycopg.Connection) -> None:
    share = "SELECT DISTINCT published.expected_inside({}, {}) FROM published.two WHERE seq = 1"
    half = "ST_MakeEnvelope(5, -9, 50, 50, 32610)"
    for region, area, expected in (
        ("region", half, 0.5),
        ("region", f"ST_Force3DM({half})", 0.5),
        ("region", f"ST_Force4D({half})", 0.5),
        ("region", "ST_GeomFromText('POLYGON EMPTY', 32610)", 0),
        ("region", "ST_MakeEnvelope(10, 10, 20, 20, 32610)", 0),
        ("NULL", half, None),
    ):
        assert two.execute(share.format(region, area)).fetchall() == [(expected,)]  # type: ignore[arg-type]
    crossings = f"SELECT * FROM published.crossings('published.two', ST_Force3DM({LINE}), %s)"
    assert read_bounds(two, crossings, format_span("08:00", "08:20")) == {
        "left to right": (2, 2, 2),
        "right to left": (0, 0, 0),
    }


def test_of_rectangles_as_much_is_covered_as_of_other_shapes(connection: psycopg.Connection) -> None:
    boxes = "ST_MakeEnvelope(x, y, x + 1 + (7 * random())::int, y + 1 + (7 * random())::int, 32610)"
    found = connection.execute(f"""SELECT count(*) FILTER (WHERE shape = 1), count(*) FILTER (WHERE shape = 0),
            max(abs(rectangle - shape)), bool_and((rectangle = 1) = (shape = 1))
        FROM (SELECT published_inner.covered_rectangle(published_inner.find_rectangle(a.geom),
                  published_inner.find_rectangle(b.geom)) AS rectangle,
              published_inner.covered_share(a.geom, b.geom) AS shape
              FROM (SELECT {boxes} AS geom FROM generate_series(0, 8) x, generate_series(0, 8) y) a,
                  (SELECT {boxes} AS geom FROM generate_series(0, 8) x, generate_series(0, 8) y) b) both_ways""")
    [(all_of_it, none, off, alike)] = found.fetchall()
    assert min(all_of_it, none) > 100
    assert off < 1e-12
    assert alike


def test_operators_of_a_readers_path_change_no_share(two: psycopg.Connection) -> None:
    two.execute("CREATE SCHEMA mine")
    for n, (operator, argument, result) in enumerate(
        (("/", "float8", "float8"), ("=", "float8", "bool"), ("=", "int", "bool"))
    ):
        two.execute(f"CREATE FUNCTION mine.f{n}({argument}, {argument}) RETURNS {result} RETURN NULL::{result}")  # type: ignore[call-overload]
        two.execute(
            f"CREATE OPERATOR mine.{operator} (leftarg = {argument}, rightarg = {argument}, function = mine.f{n})"
        )  # type: ignore[call-overload]
    two.execute("SET search_path = mine, pg_catalog, public")
    half = "SELECT published.expected_inside(region, ST_MakeEnvelope(5, -9, 50, 50, 32610)) FROM published.two LIMIT 1"
    assert two.execute(half).fetchall() == [(0.5,)]


def test_a_line_in_another_system_may_reach_round_the_world(two: psycopg.Connection) -> None:
    [(lon,)] = two.execute(
        "SELECT ST_X(p) FROM ST_Transform(ST_SetSRID(ST_MakePoint(55, 5), 32610), 4326) p"
    ).fetchall()
    crossings = "SELECT * FROM published.crossings('published.two', ST_GeomFromText('LINESTRING({}, {})', 4326), %s)"
    within = format_span("08:00", "08:20")
    for reach in (0.01, 90, 500):
        north, east = (
            crossings.format(f"{lon} {-reach}", f"{lon} {reach}"),
            crossings.format(f"{-reach} 1", f"{reach} 1"),
        )
        assert read_bounds(two, north, within) == {"left to right": (2, 2, 2), "right to left": (0, 0, 0)}
        assert read_bounds(two, east, within) == {"left to right": (0, 0, 0), "right to left": (0, 0, 0)}


REPLACE = "SELECT dbanon.publish(1, 'two', replace => true, allow_overlap => true, reason => 'two made up people')"


@pytest.mark.parametrize("change", [REPLACE, "SELECT dbanon.unpublish('two')"], ids=["replaced", "withdrawn"])
def test_an_answer_is_not_of_a_release_that_went_while_it_was_asked(database: str, change: str) -> None:
    area = "ST_MakeEnvelope(0, 0, 50, 50, 32610)"
    count = f"SELECT at_least FROM published.count_inside('published.two', {area}, during => '(,)')"
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(RUN)
        owner.execute("SELECT dbanon.publish(1, 'two')")
        with owner.transaction():
            owner.execute(change)  # type: ignore[call-overload]
            thread, found = start_statement(database, count)
            thread.join(0.5)
            assert thread.is_alive()
        thread.join(10)
    assert found == ["DA001"]


def test_a_release_stays_while_an_answer_is_made(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as owner, psycopg.connect(database) as reader:
        owner.execute(RUN)
        owner.execute("SELECT dbanon.publish(1, 'two')")
        reader.execute("SELECT published.about('published.two')")
        thread, _ = start_statement(database, "SELECT dbanon.unpublish('two')")
        thread.join(0.5)
        assert thread.is_alive()
        reader.rollback()
        thread.join(10)


PHASES = {
    "all of a person": ("2008-06-04 08:00Z", "2008-06-05 09:00Z", None, None, 0),
    "the first window": ("2008-06-04 07:00Z", "2008-06-04 07:01Z", 1800, None, 0),
    "the third window": ("2008-06-04 08:00Z", "2008-06-04 08:01Z", 1800, None, 2),
    "all of a person in the second part": ("2008-12-01 08:00Z", "2008-12-02 09:00Z", None, None, 0),
    "the third window of the second part": ("2008-12-01 08:00Z", "2008-12-01 08:01Z", 1800, None, 2),
    "a day to its last moment": ("2008-06-04 07:00Z", "2008-06-05 07:00Z", None, "America/Los_Angeles", 14034),
    "two days": ("2008-06-04 07:00Z", "2008-06-05 07:00:01Z", None, "America/Los_Angeles", None),
    "two days of another zone": ("2008-06-04 07:00Z", "2008-06-05 07:00Z", None, "Europe/Berlin", None),
    "a day that begins twice": ("2008-11-02 02:00Z", "2008-11-02 03:00Z", None, "America/St_Johns", None),
    "a day after its second beginning": ("2008-11-02 04:00Z", "2008-11-02 05:00Z", None, "America/St_Johns", 14185),
}


@pytest.mark.parametrize(("since", "until", "window_s", "day_zone", "phase"), PHASES.values(), ids=PHASES)
def test_a_row_is_of_a_window_or_of_the_day_that_it_lies_in(
    *,
    connection: psycopg.Connection,
    since: str,
    until: str,
    window_s: int | None,
    day_zone: str | None,
    phase: int | None,
) -> None:
    [found] = connection.execute(
        "SELECT published_inner.phase_of(l, %s, %s) FROM jsonb_populate_record(NULL::published.releases,"
        " jsonb_build_object('starts', ARRAY['2008-06-04 07:00Z', '2008-12-01 07:00Z'],"
        " 'window_s', %s::int, 'day_zone', %s::text)) l",
        [since, until, window_s, day_zone],
    ).fetchone()  # type: ignore[misc]
    part = 2 if since > "2008-12" else 1
    assert found == (None if phase is None else (part << 32) + phase)
