"""Importing from a table of the same database is loading from a file, without the file."""

import re

import psycopg
import pytest

from dbanon import load
from dbanon.base.errors import DataError, ParameterError, StoreError
from dbanon.options.loading import ImportingTrajectories, LoadingTrajectories
from dbanon.runs import reading, stored
from tests.facts import demand_named, expect_refusal

COLUMNS = {"subject": "cab", "time": "at", "geom": "place"}
ROWS = [
    ("a", "1212562800", "-122.4", "37.7"),
    ("a", "1212562860", "-122.41", "37.71"),
    ("  a ", "1212562860", "-122.41", "37.71"),
    ("a", "1212562860", "-122.5", "37.7"),
    (None, "1212562860", "-122.4", "37.7"),
    ("  ", "1212562860", "-122.4", "37.7"),
    ("b", None, "-122.4", "37.7"),
    ("b", "NaN", "-122.4", "37.7"),
    ("b", "Infinity", "-122.4", "37.7"),
    ("b", "1e12", "-122.4", "37.7"),
    ("b", "1212562860", None, "37.7"),
    ("b", "1212562860", "NaN", "37.7"),
    ("b", "1212562860", "-122.4", "-Infinity"),
    ("b", "1212562860", "37.7", "-122.4"),
    ("b", "1212562860", "-190", "37.7"),
    ("b", "1212562860", "-122.4", "37.9"),
    ("\xa0\u2003b\u3000", "1212562861", "-122.4", "37.7"),
    ("x" * 1001, "1212562861", "-122.4", "37.7"),
    ("Caf\u00e9", "1212562860", "-122.4", "37.7"),
    ("Cafe\u0301", "1212562920", "-122.4", "37.7"),
    *((f"s{i}", str(1212562800 + i), "-122.4", "37.7") for i in range(30)),
    ("b", "1212562890", "-100", "37.7"),
]


@pytest.fixture
def gps(connection):
    connection.execute("CREATE TABLE public.gps (cab text, at float8, place geometry)")
    insert = "INSERT INTO public.gps SELECT %s, %s::float8, ST_SetSRID(ST_MakePoint(%s::float8, %s::float8), 4326)"
    with connection.cursor() as cursor:
        cursor.executemany(insert, ROWS)
    return connection


def _import(connection, table="gps", dataset="d", **options):
    return load.import_trajectories(connection, table, ImportingTrajectories(dataset=dataset, **COLUMNS | options))


def _import_seconds(connection, **options):
    """Import numbers of seconds since 1970 that are too small to be told from others."""
    return _import(connection, **{"time_unit": "s"} | options)


def _read_outcome(connection, dataset):
    paths = connection.execute(
        "SELECT subject, ST_AsEWKT(path, 3) FROM dbanon.trajectory JOIN dbanon.dataset USING (dataset_id) "
        "WHERE name = %s ORDER BY trajectory_id",
        [dataset],
    ).fetchall()
    left_out = connection.execute(
        "SELECT line, reason FROM dbanon.quarantine JOIN dbanon.load USING (load_id) "
        "JOIN dbanon.dataset USING (dataset_id) WHERE name = %s ORDER BY line",
        [dataset],
    ).fetchall()
    return paths, left_out


@pytest.mark.many
@pytest.mark.parametrize(
    "options", [{}, {"drop_outliers": True}, {"bbox": (-123, 37, -122, 37.8)}, {"split_gap_s": 30}]
)
def test_a_table_and_a_file_of_the_same_rows_give_the_same(gps, tmp_path, options):
    path = tmp_path / "gps.csv"
    path.write_text("subject,time,x,y\n" + "".join(",".join(cell or "" for cell in row) + "\n" for row in ROWS))
    from_file = load.load_trajectories(gps, [path], LoadingTrajectories(dataset="file", **options))
    from_table = _import(gps, dataset="table", **options)
    for name in ("read", "kept", "quarantined", "trajectories", "subjects", "srid", "far"):
        assert getattr(from_table, name) == getattr(from_file, name), name
    told = [[re.sub(r"load_id = \d+", "", text) for text in one.notices] for one in (from_table, from_file)]
    assert told[0] == told[1]
    paths, left_out = _read_outcome(gps, "table")
    file_paths, file_left_out = _read_outcome(gps, "file")
    assert paths == file_paths
    assert [(line + 1, reason) for line, reason in left_out] == file_left_out
    assert len({reason for _, reason in left_out}) >= 9


def test_what_was_left_out_is_kept_as_it_was_read(gps):
    _import(gps)
    kept = gps.execute(
        "SELECT content FROM dbanon.quarantine WHERE reason = 'missing-subject' ORDER BY line"
    ).fetchall()
    assert kept[1][0] == {"cab": "  ", "at": "1212562860", "place": "POINT(-122.4 37.7)"}
    twin = gps.execute("SELECT content FROM dbanon.quarantine WHERE reason = 'duplicate-fix'").fetchone()
    assert twin[0] == {"cab": "a", "at": "1212562860", "place": "POINT(-122.41 37.71)"}


@pytest.mark.many
@pytest.mark.parametrize(
    ("expression", "tz"),
    [
        ("to_timestamp(at::float8)", None),
        ("at::bigint", None),
        ("(at * 1000)::bigint", None),
        ("to_timestamp(at::float8) AT TIME ZONE 'Europe/Berlin'", "Europe/Berlin"),
    ],
)
def test_times_may_be_timestamps_or_numbers(connection, expression, tz):
    connection.execute(
        f"CREATE VIEW public.gps AS SELECT 'a' AS cab, {expression} AS at, "
        "ST_SetSRID(ST_MakePoint(8, 53), 4326) AS place FROM generate_series(1212562800::numeric, 1212562900, 50) at"
    )
    assert _import(connection, tz=tz).kept == 3
    assert connection.execute("SELECT min(extract(epoch FROM t)) FROM dbanon.fix").fetchone() == (1212562800,)


def test_an_hour_that_happens_twice_is_the_first_of_the_two_as_in_a_file(connection):
    connection.execute(
        "CREATE TABLE public.gps AS SELECT 'a' AS cab, at, ST_SetSRID(ST_MakePoint(-122, 37), 4326) AS place "
        "FROM unnest("
        "ARRAY['2008-11-02 00:30', '2008-11-02 01:30', '2008-11-02 02:30', '2008-03-09 03:30']::timestamp[]) at"
    )
    _import(connection, tz="America/Los_Angeles")
    times = connection.execute("SELECT extract(epoch FROM t)::int FROM dbanon.fix ORDER BY 1").fetchall()
    assert [t for (t,) in times] == [1205058600, 1225611000, 1225614600, 1225621800]


def test_points_with_swapped_axes_are_refused_with_the_way_to_swap_them(connection):
    connection.execute(
        "CREATE TABLE public.gps AS SELECT 'a' AS cab, 1212562800 + i AS at, "
        "ST_SetSRID(ST_MakePoint(37.7, -122.4), 4326) AS place FROM generate_series(1, 9) i"
    )
    with expect_refusal(ParameterError, "'place'", "longitude", "latitude", "ST_FlipCoordinates"):
        _import(connection)


@pytest.mark.many
@pytest.mark.parametrize(
    ("zone", "expression", "expected"),
    [
        ("America/New_York", "timestamp '2023-03-12 02:30'", None),
        ("Australia/Lord_Howe", "timestamp '2023-04-02 01:45'", 1680360300),
        ("Australia/Lord_Howe", "timestamp '2023-04-02 02:10'", 1680363600),
        ("UTC", "date '5874897-01-01'", None),
        ("UTC", "timestamp '294276-12-31'", None),
        ("UTC", "timestamp '4713-01-01 BC'", None),
        ("UTC", "1e400::numeric", None),
        ("UTC", "1212562800::numeric", 1212562800),
    ],
)
def test_times_that_cannot_be_are_left_out_and_half_hours_are_minded(connection, zone, expression, expected):
    place = "ST_SetSRID(ST_MakePoint(8, 53), 4326) AS place"
    connection.execute(f"CREATE TABLE public.gps AS SELECT 'a' AS cab, {expression} AS at, {place}")
    if expected is None:
        with pytest.raises(DataError, match=r"usable|\b2100\b"):
            _import(connection, tz=zone)
    else:
        _import(connection, tz=zone)
        assert connection.execute("SELECT extract(epoch FROM t)::int FROM dbanon.fix").fetchone() == (expected,)


def test_points_of_another_reference_system_are_left_out_by_name(gps):
    gps.execute(
        "INSERT INTO public.gps SELECT 'z', 1212562860, ST_SetSRID(ST_MakePoint(1, 1), 3857) FROM generate_series(1, 3)"
    )
    assert _import(gps).quarantined["other-reference-system"] == 3


def test_a_table_with_row_level_security_is_not_read_in_part(gps, login):
    gps.execute("GRANT SELECT ON public.gps TO PUBLIC; ALTER TABLE public.gps ENABLE ROW LEVEL SECURITY")
    gps.execute("CREATE POLICY few ON public.gps USING (cab = 'a')")
    with (
        psycopg.connect(login("dbanon_operator"), autocommit=True) as operator,
        expect_refusal(DataError, "row-level security", "public.gps"),
    ):
        _import(operator)


def test_a_right_to_the_columns_is_enough(gps, login):
    gps.execute("ALTER TABLE public.gps ADD secret text; GRANT SELECT (cab, at, place) ON public.gps TO PUBLIC")
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as operator:
        assert _import(operator).subjects > 30


def test_geographies_trips_and_rows_that_are_their_own_subjects(connection):
    connection.execute(
        "CREATE TABLE public.gps AS SELECT 1212562800 + i AS at, i / 2 AS ride, "
        "ST_SetSRID(ST_MakePoint(8, 53), 4326)::geography AS place FROM generate_series(1, 6) i"
    )
    own = _import(connection, subject="-", time="at", geom="place")
    assert (own.subjects, own.trajectories) == (6, 6)
    trips = {"subject": "ride", "time": "at", "geom": "place", "trip": "ride"}
    assert _import(connection, **trips, dataset="trips").trajectories == 4


def test_names_are_quoted_and_looked_up_as_in_sql(connection):
    connection.execute('CREATE SCHEMA "my data"')
    connection.execute(
        'CREATE TABLE "my data"."GPS; x" AS SELECT 1 AS "sub""ject", now() AS "t i", '
        'ST_SetSRID(ST_MakePoint(8, 53), 4326) AS "G"'
    )
    columns = {"subject": 'sub"ject', "time": "t i", "geom": "G"}
    report = _import(connection, '"my data"."GPS; x"', **columns)
    assert (report.kept, report.source) == (1, ['table "my data"."GPS; x"'])


@pytest.mark.many
@pytest.mark.parametrize(
    ("table", "columns", "error", "facts"),
    [
        ("gsp", COLUMNS, DataError, ("'gsp'", "gps")),
        ("gps; DROP TABLE gps", COLUMNS, DataError, ("'gps; DROP TABLE gps'",)),
        (
            "gps",
            {"subject": "taxi", "time": "at", "geom": "place"},
            DataError,
            ("public.gps", "'taxi'", "cab, at, place"),
        ),
        ("gps", {"subject": "cab", "time": "cab", "geom": "place"}, ParameterError, ("columns", "'cab'")),
        (
            "gps",
            {"subject": "at", "time": "cab", "geom": "place"},
            DataError,
            ("unparsable-time", "written like A. ", "--time-format"),
        ),
        ("gps", {"subject": "place", "time": "at", "geom": "cab"}, DataError, ("'cab'", "geometry", "text")),
        ("gps", {"subject": "cab", "time": "-", "geom": "place"}, ParameterError, ("subject", "'-'")),
        ("a.b.c.d", COLUMNS, DataError, ("'a.b.c.d'",)),
        ("failing", COLUMNS, DataError, ("public.failing", "SQLSTATE 22012")),
        ("loose", COLUMNS, DataError, ("'cab'", "spellings")),
        ("void", COLUMNS, DataError, ("57 rows", "57 missing-position")),
        ("nowhere", COLUMNS, DataError, ("'place'", 0, "--crs EPSG:4326")),
        ("naive", COLUMNS, ParameterError, ("'at'", "timestamp", "--tz UTC")),
        ("empty", COLUMNS, DataError, ("0 rows", "usable")),
    ],
)
def test_a_table_that_cannot_be_imported_is_refused_and_leaves_nothing(gps, table, columns, error, facts):
    point = "ST_SetSRID(ST_MakePoint(8, 53), 4326)"
    gps.execute(
        "CREATE TABLE public.void AS SELECT 'a' AS cab, 1212562800 + i AS at, 'SRID=4326;POLYGON EMPTY'::geometry "
        "AS place FROM generate_series(1, 57) i"
    )
    gps.execute("CREATE TABLE public.nowhere AS SELECT cab, at, ST_MakePoint(8, 53) AS place FROM gps")
    gps.execute(f"CREATE TABLE public.naive AS SELECT cab, now()::timestamp AS at, {point} AS place FROM gps")
    gps.execute(
        f"CREATE VIEW public.failing AS SELECT cab, 1 / (at - at)::int AS at, {point} AS place FROM gps LIMIT 2"
    )
    gps.execute("CREATE COLLATION blurred (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    gps.execute("CREATE VIEW public.loose AS SELECT cab COLLATE blurred AS cab, at, place FROM gps")
    gps.execute("CREATE TABLE public.empty AS SELECT * FROM gps WHERE false")
    with expect_refusal(error, *facts):
        _import(gps, table, **columns)
    assert gps.execute("SELECT count(*) FROM dbanon.dataset").fetchone() == (0,)


def test_points_without_a_reference_system_take_the_one_given(connection):
    connection.execute("CREATE TABLE public.gps AS SELECT 'a' AS cab, 0 AS at, ST_MakePoint(8, 53) AS place")
    assert _import_seconds(connection, crs="EPSG:4326").srid == 32632


def test_an_operator_needs_the_right_to_read_the_table(gps, login):
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as operator:
        with pytest.raises(StoreError, match=r"GRANT SELECT ON public\.gps TO "):
            _import(operator)
        gps.execute("GRANT SELECT ON public.gps TO PUBLIC")
        assert _import(operator).subjects > 30


# ---- lines and areas -------------------------------------------------------------------------------------------------

FLAT = "CREATE TABLE public.gps (cab text, at float8, place geometry)"
TRIPS = {"subject": "cab", "time": "at", "geom": "place", "trip": "cab"}
SQUARE = "POLYGON ((100 100, 140 100, 140 130, 100 130, 100 100))"


@pytest.fixture
def areas(connection):
    """Make a table of people who are areas, in SRID 32632 where nothing else is said."""
    connection.execute(FLAT)

    def make(*rows, srid=32632):
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO public.gps VALUES (%s, %s, ST_GeomFromEWKT(%s))",
                [(cab, at, None if text is None else f"SRID={srid};{text}") for cab, at, text in rows],
            )
        return connection

    return make


def _read_shaped(connection):
    return connection.execute(
        "SELECT subject, ST_AsText(path, 3), ST_AsText(shape, 3) FROM dbanon.trajectory ORDER BY trajectory_id"
    ).fetchall()


def test_each_area_or_line_becomes_a_trajectory_of_one_fix_at_the_middle_of_its_rectangle(areas):
    connection = areas(
        ("a", 60, "POINT (7 8)"),
        ("a", 0, "POLYGON ((100 100, 140 100, 100 130, 100 100))"),
        ("b", 0, "LINESTRING Z (10 20 5, 30 5 5)"),
        ("c", 0, "MULTIPOINT ((1 2), (3 9))"),
        ("d", 0, "LINESTRING (5 5, 5 9)"),
    )
    report = _import_seconds(connection, srid=32632)
    assert (report.read, report.kept, report.trajectories, report.subjects) == (5, 5, 5, 4)
    (notice,) = report.notices
    demand_named(notice, "Notice: ", "4 rows", "lines or areas", "rectangle", "ST_DumpPoints")
    assert _read_shaped(connection) == [
        ("a", "POINT M (120 115 0)", "POLYGON((100 100,100 130,140 130,140 100,100 100))"),
        ("a", "POINT M (7 8 60)", None),
        ("b", "POINT M (20 12.5 0)", "POLYGON((10 5,10 20,30 20,30 5,10 5))"),
        ("c", "POINT M (2 5.5 0)", "POLYGON((1 2,1 9,3 9,3 2,1 2))"),
        ("d", "POINT M (5 7 0)", "LINESTRING(5 5,5 9)"),
    ]
    fixes = "SELECT count(*), count(DISTINCT t) FROM dbanon.fix"
    assert connection.execute(fixes).fetchone() == (5, 2)


def test_the_rectangle_is_that_of_the_reprojected_shape(areas):
    connection = areas(("a", 0, "POLYGON ((8 53, 8.2 53, 8.1 53.2, 8 53))"), ("b", 0, "POINT (8.1 53.1)"), srid=4326)
    assert _import_seconds(connection).srid == 32632
    off = connection.execute(
        "SELECT ST_Equals(shape, ST_Envelope(moved)), ST_Distance(path, ST_Centroid(shape)) < 1e-6, "
        "       ST_Distance(path, ST_Transform('SRID=4326;POINT (8.1 53.1)'::geometry, 32632)) > 1, ST_M(path) "
        "FROM dbanon.trajectory JOIN gps ON cab = subject, ST_Transform(place, 32632) moved WHERE subject = 'a'"
    ).fetchone()
    assert off == (True, True, True, 0)


def test_a_run_reads_the_sides_of_shapes(database, areas):
    connection = areas(("a", 0, SQUARE), ("b", 0, "POINT (7 8)"))
    _import_seconds(connection, srid=32632)
    with reading.open_reader(database) as reader:
        places = reader.read_inputs(stored.find_dataset(connection, "d").dataset_id, ["sites"])["sites"]
    assert places.shape_bounds.tolist() == [[100, 100, 140, 130]]
    (key,) = connection.execute("SELECT trajectory_id FROM dbanon.trajectory WHERE subject = 'a'").fetchone()
    assert places.shape_trajectory.tolist() == [key]


def test_areas_that_are_there_already_and_those_that_contradict_are_told_apart(areas):
    wider = "POLYGON ((90 100, 150 100, 150 130, 90 130, 90 100))"  # about the same middle
    connection = areas(
        ("a", 0, SQUARE), ("a", 0, SQUARE), ("a", 0, wider), ("a", 0, "POINT (120 115)"), ("a", 0, "POINT (1 1)"),
        ("a", 1, SQUARE),
    )  # fmt: skip
    report = _import_seconds(connection, srid=32632)
    assert report.quarantined == {"duplicate-fix": 1, "contradicting-fix": 3}
    told = connection.execute("SELECT content->>'place' FROM dbanon.quarantine ORDER BY line").fetchall()
    assert [text.split("(")[0] for (text,) in told] == ["POLYGON", "POLYGON", "POINT", "POINT"]
    with expect_refusal(DataError, "nothing to add"):
        _import_seconds(connection, srid=32632, mode="append")
    connection.execute("INSERT INTO gps SELECT 'z', at, place FROM gps LIMIT 1")
    more = _import_seconds(connection, srid=32632, mode="append")
    assert (more.kept, len(_read_shaped(connection))) == (1, 3)


def test_an_area_imported_again_in_degrees_is_the_same(areas):
    connection = areas(("a", 0, "POLYGON ((8 53, 8.2 53, 8.1 53.2, 8 53))"), srid=4326)
    _import_seconds(connection)
    connection.execute("UPDATE gps SET place = ST_Transform(place, 32632)")
    with expect_refusal(DataError, "(1 duplicate-fix)"):
        _import_seconds(connection, mode="append")


def test_areas_that_cannot_be_used_are_left_out_with_their_reason(areas):
    far = [(f"s{i}", 0, "LINESTRING (8 53, 8.1 53.1)") for i in range(20)]
    connection = areas(
        *far,
        ("a", 0, "POLYGON EMPTY"),
        ("a", 0, None),
        ("a", 0, "LINESTRING (8 53, 8.1 91)"),
        ("a", 0, "LINESTRING (53 8, 53.1 8.1)"),
        ("a", 0, "LINESTRING (20 53, 20.1 53)"),
        ("a", 0, "LINESTRING (7 53, 7.2 53)"),
        srid=4326,
    )
    middle = "ST_SetSRID(ST_MakeLine(ARRAY[ST_MakePoint(8, 53), ST_MakePoint('NaN', 53), ST_MakePoint(8, 53)]), 4326)"
    connection.execute(f"INSERT INTO gps VALUES ('a', 0, {middle})")
    for north in ("Infinity", "NaN"):
        endless = f"ST_SetSRID(ST_MakeLine(ST_MakePoint(8, 53), ST_MakePoint(8, '{north}')), 4326)"
        connection.execute(f"INSERT INTO gps VALUES ('a', 0, {endless})")
    report = _import_seconds(connection, bbox=(5, 50, 18, 60))
    assert report.quarantined == {"non-finite-position": 3, "outside-bbox": 2, "swapped-axes": 1, "missing-position": 2}
    assert report.kept == 21


def test_an_area_that_reaches_off_the_map_is_left_out_alone(areas):
    connection = areas(
        ("a", 0, "LINESTRING (8 53, 8.1 53)"), ("b", 0, "LINESTRING (8 85, 8 93)"), ("c", 0, "POINT (8 53)"), srid=4326
    )
    report = _import_seconds(connection, srid=32632)
    assert (report.quarantined, report.kept) == ({"position-out-of-range": 1}, 2)
    told = connection.execute("SELECT line, content->>'place' FROM dbanon.quarantine").fetchall()
    assert told == [(2, "LINESTRING(8 85,8 93)")]


def test_areas_across_the_antimeridian_lie_the_short_way_round(areas):
    connection = areas(
        ("split", 0, "MULTIPOINT ((179.99 -17), (-179.98 -17))"),
        ("beyond", 0, "LINESTRING (179.99 -17, 180.03 -17)"),
        ("before", 0, "LINESTRING (-179.99 -17, -180.03 -17)"),
        ("a", 0, "POINT (179.9 -17)"),
        srid=4326,
    )
    report = _import_seconds(connection, bbox=(179, -18, -179, -16))
    assert (report.kept, report.quarantined) == (4, {})
    assert connection.execute("SELECT max(ST_XMax(shape) - ST_XMin(shape)) < 5000 FROM dbanon.trajectory").fetchone()[0]


@pytest.mark.parametrize("options", [{"split_gap_s": 60}, TRIPS])
def test_areas_cannot_be_cut(areas, options):
    connection = areas(("a", 0, SQUARE))
    option = "--split-gap-s 60" if "split_gap_s" in options else "--trip cab"
    with expect_refusal(ParameterError, option, "lines or areas"):
        _import_seconds(connection, **options)
    assert connection.execute("SELECT count(*) FROM dbanon.dataset").fetchone() == (0,)


def test_a_table_of_points_gets_no_shapes_and_says_nothing_of_them(gps):
    assert "ST_DumpPoints" not in "".join(_import_seconds(gps).notices)
    assert gps.execute("SELECT count(shape) FROM dbanon.trajectory").fetchone() == (0,)


def test_rows_of_their_own_that_repeat_others_are_counted_shapes_by_their_rectangles(connection):
    connection.execute(
        "CREATE TABLE public.gps AS SELECT 0 AS at, ST_GeomFromText(wkt, 32632) AS place FROM (VALUES "
        "('POINT(5 5)'), ('POINT(5 5)'), ('LINESTRING(0 0, 10 10)'), ('LINESTRING(0 10, 10 0)'), "
        "('LINESTRING(1 1, 9 9)')) v(wkt)"
    )
    options = {"subject": "-", "srid": 32632}
    report = _import_seconds(connection, **options)
    assert report.kept == report.subjects == 5
    demand_named(report.notices[-1], "Notice: ", "2 rows", "time and place")
    with expect_refusal(DataError, "time and place", "5 of the 5 rows"):
        _import_seconds(connection, mode="append", **options)
