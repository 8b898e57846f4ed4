"""Points of interest, cells, requests and quasi-identifiers out of tables, by SQL alone."""

import difflib
import random
from collections.abc import Iterator

import numpy as np
import psycopg
import pytest
from psycopg import sql

from dbanon import _sqlstate, load
from dbanon.errors import DataError, ParameterError, StoreError
from dbanon.loading import _staging
from dbanon.testing import database_url

POIS = "SELECT * FROM dbanon.import_pois('public.shops', dataset => 'town', category => 'kind'"
CELLS = "SELECT * FROM dbanon.import_cells('public.areas', dataset => 'town'"
CALLS = "SELECT * FROM dbanon.import_requests('public.calls', dataset => 'town', columns => ARRAY['poi', 'radius']"
SIGHTINGS = "SELECT * FROM dbanon.import_quasi_identifiers('public.seen', dataset => 'town'"
SQUARE = "POLYGON((8.2 53.1,8.21 53.1,8.21 53.11,8.2 53.11,8.2 53.1))"


@pytest.fixture
def connection(scratch: psycopg.Connection) -> psycopg.Connection:
    """Nothing here commits, unless a test asks for a database of its own."""
    return scratch


@pytest.fixture
def town(connection: psycopg.Connection) -> psycopg.Connection:
    """A dataset in SRID 32632 of 400 people within 5 km of (8.2, 53.1)."""
    return settle(connection)


def settle(connection: psycopg.Connection) -> psycopg.Connection:
    connection.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('town', 32632, 1, 1)")
    connection.execute(
        "INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path) SELECT 1000 + i, dataset_id, 's', ST_SetSRID("
        "ST_MakePointM(441000 + i * 37 % 10000, 5879000 + i * 91 % 10000, 0), 32632) "
        "FROM dbanon.dataset, generate_series(1, 400) i WHERE name = 'town'"
    )
    return connection


def table(connection, name, columns, rows):
    connection.execute(f"CREATE TABLE public.{name} ({columns})")
    marks = ", ".join(["%s"] * (columns.count(",") + 1))
    with connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO public.{name} VALUES ({marks})", rows)


def shops(connection, *rows):
    table(connection, "shops", "kind text, geom geometry", [(kind, g and f"SRID=4326;{g}") for kind, g in rows])


def areas(connection, *rows):
    table(connection, "areas", "station text, geom geometry", [(name, g and f"SRID=4326;{g}") for name, g in rows])


def calls(connection, *rows):
    table(connection, "calls", "subject text, time float8, poi text, radius text", rows)


def seen(connection, *rows, kind="float8"):
    table(connection, "seen", f"subject text, time {kind}", rows)


def call(connection, statement, more=""):
    """Import, and return rows read, rows kept, and what was left out."""
    found = connection.execute(f"{statement}{more})").fetchall()
    assert len(found) == 1
    return found[0][1:]


def refused(connection, statement, more=""):
    """Import, and return what the command line would make of the error; nothing is stored."""
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        connection.execute(f"{statement}{more})")
    assert caught.value.diag.message_detail
    assert caught.value.diag.message_hint
    return _sqlstate.translated(caught.value)


def everything(connection, query):
    return connection.execute(query).fetchall()


def left_out(connection):
    query = "SELECT line, reason FROM dbanon.quarantine JOIN dbanon.load USING (load_id) ORDER BY load_id, line"
    return everything(connection, query)


def quarantined(connection):
    return [reason for _, reason in left_out(connection)]


# ---- places ----------------------------------------------------------------------------------------------------------


def test_pois_are_stored_where_postgis_puts_them_and_recorded(town):
    revision = "SELECT revision FROM dbanon.dataset WHERE name = 'town'"
    before = everything(town, revision)[0][0]
    shops(
        town, ("  cafe\t", "POINT(8.2 53.1)"), ("bar", "POINT Z (8.21 53.1 4)"), ("park", SQUARE), (None, "POINT(8 53)")
    )
    assert call(town, POIS) == (4, 3, {"missing-category": 1})
    stored = everything(
        town,
        "SELECT category, ST_Equals(p.geom, ST_Force2D(ST_Transform(s.geom, 32632))), ST_NDims(p.geom), ST_SRID(p.geom) "
        "FROM dbanon.poi p JOIN public.shops s ON btrim(s.kind, E' \\t') = category ORDER BY poi_id",
    )
    assert stored == [("cafe", True, 2, 32632), ("bar", True, 2, 32632), ("park", True, 2, 32632)]
    record = everything(town, "SELECT kind, source, rows_read, rows_kept, quarantined, loaded_by FROM dbanon.load")
    assert record == [("pois", "table public.shops", 4, 3, {"missing-category": 1}, town.info.user)]
    assert everything(town, "SELECT line, reason, content FROM dbanon.quarantine") == [
        (4, "missing-category", {"geom": "POINT(8 53)"})
    ]
    assert everything(town, revision)[0][0] == before + 1


@pytest.mark.parametrize(
    ("kind", "geom", "reason"),
    [
        (None, "SRID=4326;POINT(8.2 53.1)", "missing-category"),
        ("\u3000 \t", "SRID=4326;POINT(8.2 53.1)", "missing-category"),
        ("cafe", "SRID=25832;POINT(8.2 53.1)", "other-reference-system"),
        ("cafe", None, "unparsable-position"),
        ("cafe", "SRID=4326;POINT EMPTY", "unparsable-position"),
        ("cafe", "SRID=4326;POLYGON EMPTY", "unparsable-position"),
        ("cafe", "SRID=4326;CIRCULARSTRING(8.2 53.1, 8.3 53.1, 8.2 53.2)", "unparsable-position"),
        ("cafe", "SRID=4326;GEOMETRYCOLLECTION(POINT(8.2 53.1))", "unparsable-position"),
        ("cafe", "SRID=4326;POINT(8.2 NaN)", "non-finite-position"),
        ("cafe", "SRID=4326;POINT(-1e999 53.1)", "non-finite-position"),
        ("cafe", "SRID=4326;LINESTRING(8.2 53.1, 8.21 NaN, 8.22 53.1)", "non-finite-position"),
        ("cafe", "SRID=4326;MULTIPOINT(8.2 53.1, 1e999 53.1)", "non-finite-position"),
        ("cafe", "SRID=4326;POINT(53.1 98.2)", "swapped-axes"),
        ("cafe", "SRID=4326;POINT(53.1 8.2)", "swapped-axes"),
        ("cafe", "SRID=4326;POINT(188.2 53.1)", "position-out-of-range"),
        ("cafe", "SRID=4326;POINT(188.2 -98)", "position-out-of-range"),
        ("cafe", "SRID=4326;LINESTRING(8.2 53.1, 8.2 120)", "position-out-of-range"),
        ("caf\u00e9", "SRID=4326;POINT(8.25 53.15)", "duplicate-poi"),
        ("cafe\u0301 ", "SRID=4326;POINT(8.250000001 53.15)", "duplicate-poi"),
    ],
)
def test_every_poi_that_cannot_be_used_is_kept_aside_with_a_reason(town, kind, geom, reason):
    assert reason in _staging.REASONS
    good = [("caf\u00e9", "SRID=4326;POINT(8.25 53.15)"), ("bar", "POINT(8.25 53.15)")]
    table(town, "shops", "kind text, geom geometry", [*good, (kind, geom)])
    assert call(town, POIS) == (3, 2, {reason: 1})
    assert left_out(town) == [(3, reason)]
    assert everything(town, "SELECT category FROM dbanon.poi ORDER BY poi_id") == [("caf\u00e9",), ("bar",)]


@pytest.mark.parametrize(
    ("geom", "reason"),
    [
        ("SRID=25832;" + SQUARE, "other-reference-system"),
        (None, "unparsable-position"),
        ("SRID=4326;MULTIPOLYGON EMPTY", "unparsable-position"),
        ("SRID=4326;POINT(8.2 53.1)", "not-a-polygon"),
        ("SRID=4326;LINESTRING(8.2 53.1, 8.3 53.2)", "not-a-polygon"),
        ("SRID=4326;GEOMETRYCOLLECTION(" + SQUARE + ")", "not-a-polygon"),
        ("SRID=4326;CURVEPOLYGON(CIRCULARSTRING(8.2 53.1, 8.3 53.2, 8.2 53.1))", "not-a-polygon"),
        ("SRID=4326;POLYGON((8.2 53.1, 8.21 53.1, 8.205 NaN, 8.21 53.11, 8.2 53.1))", "non-finite-position"),
        ("SRID=4326;POLYGON((53.1 8.2, 53.1 8.21, 53.11 8.21, 53.1 8.2))", "swapped-axes"),
        ("SRID=4326;POLYGON((8.2 53.1, 8.21 53.1, 8.21 95, 8.2 53.1))", "position-out-of-range"),
        ("SRID=4326;POLYGON((8.2 53.1, 8.21 53.11, 8.21 53.1, 8.2 53.11, 8.2 53.1))", "invalid-polygon"),
        ("SRID=4326;POLYGON((8.2 53.1, 8.21 53.1, 8.2 53.1, 8.2 53.1))", "invalid-polygon"),
        ("SRID=4326;MULTIPOLYGON(((8.2 53.1, 8.21 53.1, 8.21 53.11, 8.2 53.1)), ((8.2 53.1, 8.21 53.1, 8.21 53.11, 8.2 53.1)))",
         "invalid-polygon"),
        ("SRID=4326;POLYGON((8.21 53.1, 8.21 53.11, 8.2 53.11, 8.2 53.1, 8.21 53.1))", "duplicate-cell"),
    ],
)  # fmt: skip
def test_every_cell_that_cannot_be_used_is_kept_aside_with_a_reason(town, geom, reason):
    assert reason in _staging.REASONS
    heard: list[psycopg.errors.Diagnostic] = []
    town.add_notice_handler(heard.append)
    table(town, "areas", "geom geometry", [("SRID=4326;" + SQUARE,), (geom,)])
    assert call(town, CELLS) == (2, 1, {reason: 1})
    assert left_out(town) == [(2, reason)]
    assert everything(town, "SELECT name, GeometryType(geom), ST_SRID(geom) FROM dbanon.cell") == [
        (None, "POLYGON", 32632)
    ]
    assert heard == []  # PostGIS would say where a polygon crosses itself


def test_cells_are_stored_with_their_names_in_whole(town):
    hole = "MULTIPOLYGON(((8.2 53.1,8.3 53.1,8.3 53.2,8.2 53.1),(8.22 53.11,8.28 53.11,8.28 53.15,8.22 53.11)),((9 53,9.1 53,9 53.1,9 53)))"
    areas(town, ("north ", SQUARE), ("", hole), ("north", SQUARE.replace("8.2 ", "8.19 ")))
    assert call(town, CELLS, ", name => 'station'") == (3, 3, {})
    stored = everything(
        town,
        "SELECT c.name, ST_OrderingEquals(c.geom, ST_Transform(a.geom, 32632)) FROM dbanon.cell c "
        "JOIN public.areas a ON ST_Equals(c.geom, ST_Transform(a.geom, 32632)) ORDER BY cell_id",
    )
    assert stored == [("north", True), (None, True), ("north", True)]


def test_two_cells_in_one_rectangle_are_two(town):
    half = "POLYGON((8.2 53.1,8.21 53.1,8.21 53.11,8.2 53.1))"
    other = "POLYGON((8.2 53.1,8.21 53.11,8.2 53.11,8.2 53.1))"
    areas(town, ("a", half), ("a", other), ("b", half), ("a", other))
    assert call(town, CELLS, ", name => 'station'") == (4, 3, {"duplicate-cell": 1})
    assert left_out(town) == [(4, "duplicate-cell")]


def test_what_is_there_already_adds_nothing_and_what_is_new_is_added(town):
    shops(town, ("cafe", "POINT(8.2 53.1)"), ("bar", "POINT(8.2 53.1)"))
    call(town, POIS)
    again = refused(town, POIS)
    assert isinstance(again, DataError)
    assert str(again) == (
        "What is added must be new. The dataset has something for each of the 2 rows (2 duplicate-poi). It was loaded before."
    )
    assert everything(town, "SELECT count(*) FROM dbanon.load") == [(1,)]
    town.execute("INSERT INTO public.shops VALUES ('cafe', 'SRID=4326;POINT(8.2001 53.1)')")
    assert call(town, POIS) == (3, 1, {"duplicate-poi": 2})
    assert everything(town, "SELECT category, count(*) FROM dbanon.poi GROUP BY 1 ORDER BY 1") == [
        ("bar", 1),
        ("cafe", 2),
    ]


def test_replacing_deletes_those_of_this_dataset_alone(town):
    town.execute(
        "INSERT INTO dbanon.poi (dataset_id, category, geom) SELECT dataset_id, 'old', ST_SetSRID(ST_MakePoint(1, 1), srid) "
        "FROM dbanon.dataset"
    )
    town.execute(
        "INSERT INTO dbanon.cell (dataset_id, name, geom) SELECT dataset_id, 'old', ST_MakeEnvelope(0, 0, 1, 1, srid) "
        "FROM dbanon.dataset"
    )
    shops(town, ("cafe", "POINT(8.2 53.1)"))
    areas(town, ("new", SQUARE))
    call(town, POIS, ", replace => true")
    call(town, POIS, ", replace => true")
    call(town, CELLS, ", name => 'station', replace => true")
    assert everything(
        town, "SELECT name, category FROM dbanon.poi JOIN dbanon.dataset USING (dataset_id) ORDER BY 1"
    ) == [
        ("ten", "old"),
        ("town", "cafe"),
    ]
    assert everything(
        town, "SELECT d.name, c.name FROM dbanon.cell c JOIN dbanon.dataset d USING (dataset_id) ORDER BY 1"
    ) == [
        ("ten", "old"),
        ("town", "new"),
    ]


def test_a_replacement_of_which_nothing_is_usable_leaves_what_is_there(town):
    shops(town, ("cafe", "POINT(8.2 53.1)"))
    call(town, POIS)
    town.execute("UPDATE public.shops SET kind = NULL")
    assert str(refused(town, POIS, ", replace => true")) == (
        "At least one row must be usable. Got 1 row, none usable (1 missing-category). Check which columns are named, and crs."
    )
    assert everything(town, "SELECT category FROM dbanon.poi") == [("cafe",)]


def test_an_empty_table_is_nothing_usable(town):
    shops(town)
    assert str(refused(town, POIS)) == (
        "At least one row must be usable. Got 0 rows, none usable. Check which columns are named, and crs."
    )


@pytest.mark.parametrize("given", ["POINT(53.1 8.2)", "POINT(53.1 98.2)"])
def test_axes_that_are_swapped_in_most_rows_are_refused(town, given):
    shops(town, ("cafe", given), ("bar", given), ("cafe", "POINT(8.2 53.1)"))
    error = refused(town, POIS)
    assert isinstance(error, ParameterError)
    assert str(error) == (
        "x must be the longitude or easting and y the latitude or northing. The geometries of column 'geom' have them the "
        "other way round; swap them in a view, with ST_FlipCoordinates, and import that."
    )


def test_places_far_from_the_trajectories_are_kept(town):
    shops(town, ("cafe", "POINT(11 48)"))
    assert call(town, POIS) == (1, 1, {})


def test_without_trajectories_only_the_projection_decides(town):
    town.execute("DELETE FROM dbanon.trajectory")
    shops(town, ("cafe", "POINT(53.1 8.2)"), ("cafe", "POINT(8.2 89.99)"), ("bar", "LINESTRING(8 53, 8 120)"))
    assert call(town, POIS) == (3, 2, {"swapped-axes": 1})


def test_the_reference_system_may_be_given_where_geometries_name_none(town):
    table(town, "shops", "kind text, geom geometry", [("cafe", "POINT(446436.316 5883693.844)")])
    error = refused(town, POIS)
    assert isinstance(error, DataError)
    assert str(error) == (
        "The geometries in 'geom' must name their reference system. Theirs is 0. "
        "Name it, for example crs => 'EPSG:4326', or set it with ST_SetSRID."
    )
    assert call(town, POIS, ", crs => 'EPSG:25832'") == (1, 1, {})
    assert everything(town, "SELECT ST_X(ST_Transform(geom, 4326))::numeric(9, 6)::float8 FROM dbanon.poi") == [(8.2,)]


def test_a_geography_is_a_geometry(town):
    town.execute("CREATE TABLE public.shops AS SELECT 1 AS kind, 'POINT(8.2 53.1)'::geography AS geom")
    assert call(town, POIS) == (1, 1, {})
    assert everything(town, "SELECT category, ST_SRID(geom) FROM dbanon.poi") == [("1", 32632)]


def test_columns_and_tables_may_be_called_anything(town):
    town.execute(
        """CREATE TABLE public."Öde %s 'x"" y" AS SELECT 'a'::text AS "kind ""%s'", ST_GeomFromText('POINT(8.2 53.1)', 4326) AS "% L" """
    )
    statement = "SELECT rows_kept FROM dbanon.import_pois(%s, 'town', category => %s, geom => %s)"  # a literal of regclass is quoted as SQL is
    names = ["""public."Öde %s 'x"" y" """, "kind \"%s'", "% L"]
    assert town.execute(statement, names).fetchall() == [(1,)]
    assert everything(town, "SELECT source FROM dbanon.load") == [("""table public."Öde %s 'x"" y\"""",)]


def test_shapes_across_the_antimeridian_have_their_middle_the_short_way_round(connection):
    connection.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('town', 32601, 1, 1)")
    connection.execute(
        "INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path) SELECT 1000, dataset_id, 's', ST_Force3DM(ST_Transform("
        "ST_SetSRID(ST_MakePoint(-179.9, -17), 4326), 32601), 0) FROM dbanon.dataset WHERE name = 'town'"
    )
    shops(connection, ("reef", "LINESTRING(179.99 -17, -179.99 -17)"), ("reef", "POINT(-179.95 -17)"))
    assert call(connection, POIS) == (2, 2, {})


# ---- requests and quasi-identifiers ----------------------------------------------------------------------------------

EVENTS = [
    ("a", "1212562800", "pharmacy", "5"),
    ("a", "1212562800", "pharmacy", "5"),
    ("  a\u00a0", "1212562801.5", " pharmacy ", None),
    ("caf\u00e9", "1212562802", "x", " "),
    ("cafe\u0301", "1212562803", "e\u0301", "1"),
    (None, "1212562800", "x", "1"),
    (" \t", "1212562800", "x", "1"),
    ("x" * 1001, "1212562800", "x", "1"),
    ("\u00e4" * 501, "1212562800", "x", "1"),
    ("a", None, "x", "1"),
    ("a", "NaN", "x", "1"),
    ("a", "-Infinity", "x", "1"),
    ("a", "1e12", "x", "1"),
    ("a", "-1e12", "x", "1"),
    ("a", "1212562800", None, " "),
    ("\u00e4" * 500, "1212562800", "x", "1"),
]


def test_requests_of_a_table_are_those_of_a_file_of_the_same_rows(database, tmp_path):
    with psycopg.connect(database, autocommit=True) as own:
        settle(own)
        calls(own, *EVENTS)
        path = tmp_path / "calls.csv"
        path.write_text("subject,time,poi,radius\n" + "".join(",".join(c or "" for c in row) + "\n" for row in EVENTS))
        query = "SELECT subject, sent_at, content FROM dbanon.request ORDER BY request_id"
        read, kept, reasons = call(own, CALLS)
        stored = everything(own, query)
        own.execute("DELETE FROM dbanon.request")
        report = load.load_requests(own, path, dataset="town", columns=("poi", "radius"))
        assert (report.read, report.kept, report.quarantined) == (read, kept, reasons)
        assert everything(own, query) == stored
        lines = left_out(own)
        half = len(lines) // 2
        assert [(line + 1, reason) for line, reason in lines[:half]] == lines[half:]
        assert len(reasons) == 6
        assert stored[2][0] == "a"
        assert stored[2][2] == {"poi": "pharmacy"}


def test_requests_that_are_there_already_add_nothing(town):
    calls(town, *EVENTS[:2])
    assert call(town, CALLS) == (2, 2, {})
    town.execute(
        "INSERT INTO public.calls VALUES ('a', 1212562800, 'pharmacy', '6'), ('b', 1212562800, 'pharmacy', '5')"
    )
    assert call(town, CALLS) == (4, 2, {"duplicate-request": 2})
    assert "It was loaded before." in str(refused(town, CALLS))
    content = "SELECT content FROM dbanon.quarantine WHERE reason = 'duplicate-request' LIMIT 1"
    told = everything(town, content)[0][0]
    assert told == {"subject": "a", "time": "1212562800", "poi": "pharmacy", "radius": "5"}


def test_a_request_may_have_more_columns_than_a_function_arguments(town):
    names = [f"c{i}" for i in range(120)]
    town.execute(
        f"CREATE TABLE public.wide AS SELECT 'a' AS subject, 0 AS time, {', '.join(f'{i} AS {n}' for i, n in enumerate(names))}"
    )
    town.execute("SELECT dbanon.import_requests('public.wide', 'town', %s)", [[*names, "c0"]])
    content = everything(town, "SELECT content FROM dbanon.request WHERE subject = 'a'")[0][0]
    assert content == {name: str(i) for i, name in enumerate(names)}


def test_quasi_identifiers_are_stored_and_recorded(town):
    seen(town, ("a", 1212562800), ("a", 1212562860), (" a", 1212562800), ("b", 1212562800), (None, 0), ("b", None))
    assert call(town, SIGHTINGS) == (
        6,
        3,
        {"missing-subject": 1, "unparsable-time": 1, "duplicate-quasi-identifier": 1},
    )
    stored = everything(
        town, "SELECT subject, extract(epoch FROM at)::float8 FROM dbanon.quasi_identifier ORDER BY 1, 2"
    )
    assert stored == [("a", 1212562800.0), ("a", 1212562860.0), ("b", 1212562800.0)]
    assert everything(town, "SELECT kind, source FROM dbanon.load") == [("quasi-identifiers", "table public.seen")]
    content = "SELECT content FROM dbanon.quarantine WHERE reason = 'duplicate-quasi-identifier'"
    assert everything(town, content) == [({"subject": " a", "time": "1212562800"},)]


def test_quasi_identifiers_are_added_once_or_replaced(town):
    seen(town, ("a", 1212562800), ("b", 1212562800))
    call(town, SIGHTINGS)
    assert str(refused(town, SIGHTINGS)).startswith("What is added must be new.")
    town.execute("INSERT INTO public.seen VALUES ('c', 1212562800)")
    assert call(town, SIGHTINGS) == (3, 1, {"duplicate-quasi-identifier": 2})
    assert call(town, SIGHTINGS, ", replace => true") == (3, 3, {})
    assert everything(town, "SELECT count(*) FROM dbanon.quasi_identifier") == [(3,)]


# ---- times -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "given", "tz", "seconds"),
    [
        ("timestamptz", "2008-06-04 07:00:00.25+00", None, 1212562800.25),
        ("timestamp", "2008-06-04 09:00:00", "Europe/Berlin", 1212562800.0),
        ("date", "2008-06-04", "UTC", 1212537600.0),
        ("timestamp", "2008-10-26 02:30:00", "Europe/Berlin", 1224981000.0),
        ("bigint", "1212562800000", None, 1212562800.0),
        ("bigint", "1212562800000000000", None, 1212562800.0),
        ("numeric", "1212562800.125", None, 1212562800.125),
        ("real", "1024", None, 1024.0),
        ("smallint", "-5", None, -5.0),
    ],
)
def test_times_are_read_as_from_other_sources(town, kind, given, tz, seconds):
    town.execute("SET LOCAL TimeZone = 'Asia/Kathmandu'")
    seen(town, ("a", given), kind=kind)
    call(town, SIGHTINGS, f", tz => '{tz}'" if tz else "")
    assert everything(town, "SELECT extract(epoch FROM at)::float8 FROM dbanon.quasi_identifier") == [(seconds,)]


@pytest.mark.parametrize(
    ("kind", "given", "reason"),
    [
        ("timestamp", "2008-03-30 02:30:00", "unparsable-time"),
        ("timestamp", "infinity", "non-finite-time"),
        ("timestamptz", "-infinity", "non-finite-time"),
        ("date", "infinity", "non-finite-time"),
        ("timestamp", "9999-01-01", "time-out-of-range"),
        ("timestamptz", "0005-01-01 BC", "time-out-of-range"),
        ("numeric", "1e400", "time-out-of-range"),
        ("numeric", "NaN", "non-finite-time"),
    ],
)
def test_times_that_are_none_are_kept_aside(town, kind, given, reason):
    seen(town, ("a", "2008-06-04" if kind != "numeric" else "5"), ("a", given), kind=kind)
    assert call(town, SIGHTINGS, ", tz => 'Europe/Berlin'") == (2, 1, {reason: 1})


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "family", "sentence"),
    [
        (
            POIS.replace("town", "twon"),
            ParameterError,
            "The dataset must exist. There is none named 'twon'. Did you mean 'town'?",
        ),
        (
            POIS.replace("town", "xyz"),
            ParameterError,
            "The dataset must exist. There is none named 'xyz'. Load one with `dbanon load trajectories`.",
        ),
        (
            POIS.replace("'kind'", "'knid'"),
            DataError,
            "public.shops must have a column 'knid'. It has: kind, geom, at. Name the right one.",
        ),
        (
            POIS.replace("'kind'", "'geom'"),
            ParameterError,
            "The columns of category and geometry must differ. Got 'geom' twice. Name each as it is called.",
        ),
        (
            POIS.replace("'kind'", "NULL"),
            ParameterError,
            "The columns of category and geometry must be named. Got NULL for one of them. Name each as it is called.",
        ),
        (
            POIS + ", geom => 'at'",
            DataError,
            "Column 'at' must be a geometry. It is date. Make points in a view, with "
            "ST_SetSRID(ST_MakePoint(lon, lat), 4326), and import that.",
        ),
        (
            POIS + ", crs => 'EPSG:99'",
            ParameterError,
            "The reference system must be one of PostGIS's spatial_ref_sys. Got 'EPSG:99'. Give one such as EPSG:4326.",
        ),
        (
            POIS.replace("'public.shops'", "'public.shops_pkey'"),
            DataError,
            "The source of an import must be a table or a view. Got something else. "
            "Name it with its schema, such as public.gps.",
        ),
        (
            POIS.replace("'public.shops'", "NULL"),
            DataError,
            "The source of an import must be a table or a view. Got NULL. Name it with its schema, such as public.gps.",
        ),
        (
            "SELECT * FROM dbanon.import_pois('public.broken', dataset => 'town', category => 'kind'",
            DataError,
            "The table must be readable to its last row. Reading public.broken stopped with SQLSTATE 22012. "
            "Select all of it in psql to see why.",
        ),
        (
            "SELECT * FROM dbanon.import_requests('public.shops', 'town', '{}', 'kind', 'at'",
            ParameterError,
            "A request must have at least one column. Got none. Name them, for example columns => ARRAY['poi', 'radius'].",
        ),
        (
            "SELECT * FROM dbanon.import_requests('public.shops', 'town', '{at}', 'kind', 'at'",
            ParameterError,
            "The content of a request must not name who sent it or when. Got column 'at'. Leave it out of columns.",
        ),
        (
            "SELECT * FROM dbanon.import_requests('public.shops', 'town', '{geom}', 'kind', 'at'",
            ParameterError,
            "Times must name their zone, or come with one for all of them. Column 'at' is date. "
            "Give the zone, for example tz => 'UTC'.",
        ),
        (
            "SELECT * FROM dbanon.import_requests('public.shops', 'town', '{geom}', 'kind', 'at', 'UTC+2'",
            ParameterError,
            "The time zone must be a name such as Europe/Berlin or UTC. Got 'UTC+2'. Name another, for example tz => 'UTC'.",
        ),
        (
            "SELECT * FROM dbanon.import_quasi_identifiers('public.shops', 'town', 'at', 'kind'",
            DataError,
            "Column 'kind' must be a timestamp, a date or a number of unix seconds. It is text. "
            "Cast it in a view and import that.",
        ),
        (
            "SELECT * FROM dbanon.import_quasi_identifiers('public.shops', 'town', 'at', 'at'",
            ParameterError,
            "The columns of subject and time must differ. Got 'at' twice. Name each as it is called.",
        ),
        (
            "SELECT * FROM dbanon.import_quasi_identifiers('public.blurred', 'town'",
            DataError,
            "Column 'subject' must tell one subject from another byte by byte. Its type takes different spellings for the "
            "same. Bring them into one in a view, with lower(x)::text, and import it.",
        ),
        (
            "SELECT * FROM dbanon.import_quasi_identifiers('public.digits', 'town'",
            DataError,
            "Times must be unix seconds or milliseconds, or timestamps. Got numbers that would lie beyond the year 2100. "
            "If they are dates written as YYYYMMDDhhmmss, make timestamps of them in a view.",
        ),
    ],
)  # fmt: skip
def test_every_refusal_is_one_sentence_and_what_to_do(town, statement, family, sentence):
    town.execute("CREATE TABLE public.shops (kind text PRIMARY KEY, geom geometry, at date)")
    town.execute("INSERT INTO public.shops VALUES ('cafe', 'SRID=4326;POINT(8.2 53.1)', '2008-06-04')")
    town.execute(
        "CREATE VIEW public.broken AS SELECT kind || 1 / length(left(kind, 0)) AS kind, geom FROM public.shops"
    )
    town.execute("CREATE COLLATION public.blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    town.execute("CREATE TABLE public.blurred (subject text COLLATE public.blind, time int)")
    town.execute("CREATE VIEW public.digits AS SELECT 'a' AS subject, 20080604090000 AS time")
    error = refused(town, statement)
    assert type(error) is family
    assert str(error) == sentence


@pytest.fixture
def operator(database, login) -> Iterator[psycopg.Connection]:
    """An operator who may read table public.shops, in a database with the dataset town; `owner` made them."""
    with psycopg.connect(database, autocommit=True) as owner:
        settle(owner)
        shops(owner, ("cafe", "POINT(8.2 53.1)"), ("bar", "POINT(8.2 53.1)"))
        areas(owner, ("north", SQUARE))
        calls(owner, EVENTS[0])
        seen(owner, ("a", 1212562800))
        owner.execute("CREATE TABLE public.secret AS TABLE public.shops")
        owner.execute("CREATE SCHEMA hidden")
        owner.execute("CREATE TABLE hidden.shops AS TABLE public.shops")
        url = login("dbanon_operator")
        grant = "GRANT SELECT ON public.shops, public.areas, public.calls, public.seen, hidden.shops TO dbanon_operator"
        owner.execute(grant)
        owner.execute("GRANT SELECT (kind) ON public.secret TO dbanon_operator")
    with psycopg.connect(url, autocommit=True) as opened:
        yield opened


def test_an_operator_imports_with_rights_of_its_own(operator):
    for statement in (POIS, CELLS, CALLS, SIGHTINGS):
        assert call(operator, statement)[1] >= 1
    assert everything(operator, "SELECT DISTINCT loaded_by = session_user FROM dbanon.load") == [(True,)]
    for statement in (POIS, CELLS, SIGHTINGS):
        call(operator, statement, ", replace => true")


@pytest.mark.parametrize("source", ["public.secret", "hidden"])
def test_a_table_that_the_login_may_not_read_is_not_read(database, operator, source):
    if source == "hidden":
        with psycopg.connect(database) as owner:
            found = owner.execute("SELECT 'hidden.shops'::regclass::oid").fetchone()
        assert found
        statement, name = POIS.replace("'public.shops'", str(found[0])), "hidden.shops"
    else:
        statement, name = POIS.replace("public.shops", source), source
    error = refused(operator, statement)
    assert isinstance(error, StoreError)
    assert str(error) == (
        f"The login must be allowed to read the table. It may not read {name}. Grant it SELECT, and USAGE on the schema."
    )


def test_row_level_security_that_hides_rows_is_refused(database, operator):
    with psycopg.connect(database) as owner:
        owner.execute("ALTER TABLE public.shops ENABLE ROW LEVEL SECURITY")
    error = refused(operator, POIS)
    assert isinstance(error, DataError)
    assert str(error) == (
        "The table must be read whole. Row-level security keeps rows of public.shops from this login. "
        "Import it as a login that sees all of them."
    )


@pytest.mark.parametrize("role", ["dbanon_worker", "dbanon_analyst"])
def test_workers_and_analysts_import_nothing(operator, login, role):
    with psycopg.connect(login(role), autocommit=True) as opened:
        for statement in (POIS, CELLS, CALLS, SIGHTINGS):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                call(opened, statement)


def test_a_worker_reads_what_was_imported(operator, login):
    with psycopg.connect(login("dbanon_worker"), autocommit=True) as opened:
        for name in ("poi", "cell", "quasi_identifier"):
            opened.execute(sql.SQL("SELECT * FROM dbanon.{}").format(sql.Identifier(name)))
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                opened.execute(sql.SQL("DELETE FROM dbanon.{}").format(sql.Identifier(name)))


def test_one_load_into_a_dataset_waits_for_another(operator):
    with psycopg.connect(database_url(operator.info.dsn, password=operator.info.password)) as other:
        operator.execute("SET lock_timeout = '50ms'")
        other.execute("SELECT dbanon.lock_dataset('town')")
        for statement in (POIS, CELLS, CALLS, SIGHTINGS):
            with pytest.raises(psycopg.errors.LockNotAvailable):
                call(operator, statement)


# ---- what keeps the tables true --------------------------------------------------------------------------------------


def test_several_imports_may_be_of_one_transaction(town):
    shops(town, ("cafe", "POINT(8.2 53.1)"), (None, "POINT(8.2 53.1)"))
    seen(town, ("a", 5), (None, 5))
    for _ in range(2):
        call(town, POIS, ", replace => true")
        call(town, SIGHTINGS, ", replace => true")
    assert left_out(town) == [(2, "missing-category"), (2, "missing-subject")] * 2


def test_temporary_tables_and_views_may_be_imported(town):
    town.execute(
        "CREATE TEMP VIEW mine AS SELECT 'cafe'::text AS kind, ST_GeomFromText('POINT(8.2 53.1)', 4326) AS geom"
    )
    assert call(town, POIS.replace("public.shops", "mine")) == (1, 1, {})


@pytest.mark.parametrize(
    "values",
    [
        "poi (dataset_id, category, geom) SELECT {}, 'cafe', ST_SetSRID(ST_MakePoint(1, 1), {})",
        "cell (dataset_id, geom) SELECT {}, ST_MakeEnvelope(0, 0, 1, 1, {})",
        "quasi_identifier (dataset_id, subject, at) SELECT {}, 'a', to_timestamp({})",
    ],
)
def test_the_tables_are_guarded_as_those_of_sites_are(town, values):
    ((dataset, revision),) = everything(town, "SELECT dataset_id, revision FROM dbanon.dataset WHERE name = 'town'")
    name = values.split()[0]
    town.execute("DELETE FROM dbanon.trajectory WHERE dataset_id = %s", [dataset])
    town.execute("INSERT INTO dbanon." + values.format(dataset, 32632))
    town.execute(f"UPDATE dbanon.{name} SET dataset_id = dataset_id")
    query = "SELECT revision FROM dbanon.dataset WHERE name = 'town'"
    assert everything(town, query) == [(revision + 3,)]
    with pytest.raises(psycopg.Error) as caught, town.transaction():
        town.execute("INSERT INTO dbanon." + values.format(-1, 32632))
    assert caught.value.sqlstate == "DA009"
    if name != "quasi_identifier":
        for statement in (
            "INSERT INTO dbanon." + values.format(dataset, 25832),
            f"UPDATE dbanon.dataset SET srid = 25832 WHERE dataset_id = {dataset}",
        ):
            with pytest.raises(psycopg.Error) as caught, town.transaction():
                town.execute(statement)
            assert caught.value.sqlstate == "DA008"
    town.execute("DELETE FROM dbanon.dataset WHERE dataset_id = %s", [dataset])
    assert everything(town, f"SELECT count(*) FROM dbanon.{name}") == [(0,)]


# ---- what imports share ----------------------------------------------------------------------------------------------


def test_what_may_have_been_meant_is_what_difflib_says(connection):
    draw = random.Random(7)
    words = ["".join(draw.choice("abc\u00e9 ") for _ in range(draw.randrange(12))) for _ in range(60)]
    pairs = connection.execute(
        "SELECT a, b, dbanon.likeness(a, b) FROM unnest(%s::text[]) a, unnest(%s::text[]) b", [words[:30], words[30:]]
    ).fetchall()
    for a, b, ratio in pairs:
        assert ratio == pytest.approx(difflib.SequenceMatcher(None, a, b).ratio(), abs=1e-12)
    for word in words[:30]:
        near = difflib.get_close_matches(word, sorted(set(words[30:])), n=1)
        found = connection.execute("SELECT dbanon.nearest(%s, %s)", [word, words[30:]]).fetchone()
        assert found == (near[0] if near else None,)


def test_the_reach_of_a_dataset_is_three_times_the_extent_of_most_of_it(connection):
    connection.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('town', 32632, 1, 1)")
    ((dataset,),) = everything(connection, "SELECT dataset_id FROM dbanon.dataset WHERE name = 'town'")
    query = f"SELECT * FROM dbanon.reach({dataset})"
    assert everything(connection, query) == [(-np.inf, np.inf, -np.inf, np.inf)]
    x, y = np.random.default_rng(3).uniform(0, 20000, (2, 300)).round()
    x[0] = 9e6
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path) VALUES (%s, %s, 's', "
            "ST_SetSRID(ST_MakePointM(%s, %s, 0), 32632))",
            [(1000 + i, dataset, *place) for i, place in enumerate(zip(x.tolist(), y.tolist(), strict=True))],
        )
    places = np.unique(np.round(np.column_stack([x, y]) / 100), axis=0) * 100
    cut = int((0.02 + 1 / len(places)) * len(places))
    spans = []
    for axis in np.sort(places, axis=0).T:
        low, high = axis[cut], axis[len(axis) - 1 - cut]
        spans += [low - 3 * (high - low), high + 3 * (high - low)]
    assert everything(connection, query) == [tuple(spans)]
