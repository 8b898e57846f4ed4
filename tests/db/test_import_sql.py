"""Imports as somebody in psql calls them: what they return, say and refuse, with whose rights, and what they leave."""

import re
from collections.abc import Callable
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from psycopg.rows import dict_row

from dbanon import load
from dbanon.options.loading import ImportingTrajectories, LoadingSites, LoadingTrajectories
from tests.facts import demand_named, expect_refusal
from tests.reading import collect_notices

CALL = "SELECT * FROM dbanon.import_trajectories('public.gps', dataset => 'd'{})"
SITES = "SELECT * FROM dbanon.import_sites('public.clinics', dataset => 'd', geom => 'place'{})"
POINT = "ST_SetSRID(ST_MakePoint(8.2, 53.1), 4326)"


@pytest.fixture
def gps(connection):
    """Make a table whose columns are called as the functions' defaults."""
    connection.execute(
        "CREATE TABLE public.gps AS SELECT i, format('s%s', i % 9) AS subject, 1e9 + 60.0 * (i / 9) AS \"time\", "
        "ST_SetSRID(ST_MakePoint(8.2 + i * 1e-3, 53.1), 4326) AS geom FROM generate_series(0, 89) i"
    )
    return connection


@pytest.fixture
def said(connection):
    """Collect what the server tells the session."""
    heard: list[str] = []
    connection.add_notice_handler(lambda told: heard.append(f"{told.severity}: {told.message_primary}"))
    return heard


def _catch_refusal(connection, statement):
    with pytest.raises(psycopg.Error) as refused:
        connection.execute(statement)
    told = refused.value.diag
    assert told.message_detail
    return told.sqlstate, told.message_primary, told.message_hint


def _import(connection, **arguments):
    more = "".join(f', "{name}" => {value}' for name, value in arguments.items())
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(CALL.format(more)).fetchall()


# ---- trajectories ----------------------------------------------------------------------------------------------------


def test_what_became_of_the_rows_is_one_row(gps, said):
    gps.execute("INSERT INTO gps SELECT 90, NULL, 1e9, geom FROM gps WHERE i = 1")
    gps.execute("INSERT INTO gps SELECT * FROM gps WHERE i = 2")
    gps.execute(f"INSERT INTO gps SELECT 91, 'far', 1e9, ST_Translate({POINT}, 5, 0)")
    gps.execute(f"INSERT INTO gps SELECT 92, 'late', 17e8, {POINT}")
    (row,) = _import(gps)
    assert (row.pop("first_time").timestamp(), row.pop("last_time").timestamp()) == (1e9, 17e8)
    assert row == {
        "load_id": 1,
        "rows_read": 94,
        "rows_kept": 92,
        "quarantined": {"missing-subject": 1, "duplicate-fix": 1},
        "days": None,
        "trajectories": 11,
        "subjects": 11,
        "srid": 32632,
        "far": {"far-position": 1, "far-time": 1},
        "known": 0,
        "late": 0,
        "forgotten": 0,
        "left_out": {},
        "late_periods": [],
    }
    position, moment = said
    demand_named(position, "NOTICE: ", "1 position", "kept", "drop_outliers => true", "bbox => ")
    demand_named(moment, "NOTICE: ", "1 time", "kept", "drop_outliers => true")
    assert gps.execute("SELECT source, rows_read, loaded_by = session_user FROM dbanon.load").fetchall() == [
        ("table public.gps", 94, True)
    ]


def test_the_command_line_says_the_same_in_its_own_words(gps):
    gps.execute(f"INSERT INTO gps SELECT 91, 'far', 1e9, ST_Translate({POINT}, 5, 0)")
    told = []
    asked = ImportingTrajectories(dataset="d", subject="subject", time="time", geom="geom")
    report = load.import_trajectories(gps, "gps", asked, lambda *stage: told.append(stage))
    (notice,) = report.notices
    demand_named(notice, "Notice: ", "1 position", "kept", "--drop-outliers", "--bbox")
    assert [done for _, *done in told] == [[0, None], [0, None], [0, None], [10, 10]]
    demand_named(told[0][0], "public.gps")
    demand_named(told[-1][0], "trajectories")
    assert gps.execute("SHOW client_min_messages").fetchone() == ("notice",)


@pytest.mark.many
@pytest.mark.parametrize(
    ("arguments", "code", "facts", "hint"),
    [
        ({"geom": "'place'"}, "DA012", ("public.gps", "'place'", "i, subject"), "name"),
        ({"subject": "NULL"}, "DA011", ("person, time and geometry", "NULL"), "name"),
        ({"subject": "'i'", "trip": "'-'"}, "DA011", ("subject", "'-'"), "column"),
        ({"tz": "'Mars'"}, "DA011", ("time zone", "'Mars'"), "tz => 'UTC'"),
        ({"crs": "'Mars'"}, "DA011", ("spatial_ref_sys", "'Mars'"), "EPSG:4326"),
        ({"srid": "4326"}, "DA011", ("projected", "metres", 4326), "UTM"),
        ({"grid_m": "'NaN'"}, "DA011", ("space grid", "NaN"), "grid_m => 1"),
        ({"grid_m": "1e7"}, "DA011", ("space grid", "1,000,000", 10000000), "grid_m => 1"),
        ({"grid_m": "NULL"}, "DA011", ("space grid", "NULL"), "grid_m => 1"),
        ({"grid_s": "0"}, "DA011", ("time grid", 0), "grid_s => 1"),
        ({"mode": "'add'"}, "DA011", ("create, append, replace or new", "'add'"), "four"),
        ({"mode": "NULL"}, "DA011", ("create, append, replace or new", "NULL"), "four"),
        ({"mode": "'append'"}, "DA001", ("dataset", "'d'"), "mode => 'append'"),
        ({"split_gap_s": "0"}, "DA011", ("gap", "above 0", "0."), "split_gap_s => 3600"),
        ({"split_gap_s": "'NaN'"}, "DA011", ("gap", "above 0", "NaN"), "split_gap_s => 3600"),
        ({"bbox": "'{0,0,1}'"}, "DA011", ("XMIN,YMIN,XMAX,YMAX",), "bbox => '{8,53,9,54}'"),
        ({"bbox": "'{0,0,1,NULL}'"}, "DA011", ("XMIN,YMIN,XMAX,YMAX",), "bbox => '{8,53,9,54}'"),
        ({"bbox": "'{{0,0,1,1}}'"}, "DA011", ("XMIN,YMIN,XMAX,YMAX",), "bbox => '{8,53,9,54}'"),
        ({"bbox": "'{0,0,1,1}'"}, "DA012", ("usable", "90 rows", "90 outside-bbox"), "bbox"),
        ({"geom": "'subject'", "subject": "'i'"}, "DA012", ("'subject'", "geometry", "text"), "ST_MakePoint(lon, lat)"),
        (
            {"time_column": "'subject'", "subject": "'i'"},
            "DA012",
            ("90 unparsable-time",),
            "written like A9. Give time_format",
        ),
    ],
)
def test_arguments_that_cannot_be_used_are_refused_in_words_of_sql(gps, arguments, code, facts, hint):
    more = "".join(f', "{name}" => {value}' for name, value in arguments.items())
    told = _catch_refusal(gps, CALL.format(more))
    assert told[0] == code
    demand_named(told[1], *facts)
    demand_named(told[2], hint)
    assert gps.execute("SELECT count(*) FROM dbanon.dataset").fetchone() == (0,)


COORDINATES = [
    ("lon numeric, lat numeric", ""),
    ('"Long" text, "Lat" text', ""),
    ("x real, y real", ", crs => 'EPSG:4326'"),
]


@pytest.mark.parametrize(("columns", "crs"), COORDINATES)
def test_the_hint_for_coordinates_and_for_texts_is_what_works(connection, columns, crs):
    connection.execute(f'CREATE TABLE public."My cabs" (cab text, ts text, {columns})')
    rows = "SELECT i, format('2026-01-05T08:00:0%sZ', i), 8 + i / 1000.0, 53 FROM generate_series(1, 9) i"
    connection.execute(f'INSERT INTO public."My cabs" {rows}')
    source, position = "My cabs", "geom => 'geom'"

    def statement():
        about = f"'public.\"{source}\"', time_column => 'ts', {position}"
        return f"SELECT rows_kept FROM dbanon.import_trajectories({about}, dataset => 'd', subject => 'cab'{crs})"

    code, _, hint = _catch_refusal(connection, statement())
    assert code == "DA012"
    position = re.search(r"x => '\w+', y => '\w+'", hint)[0]
    if "text" in columns:
        code, _, hint = _catch_refusal(connection, statement())
        assert code == "DA012"
        made, source = re.search(r'(CREATE VIEW public."(.+?)" .* FROM public."[^"]+")', hint).groups()
        connection.execute(made)
        x, y = re.findall(r"'(\w+_read)'", hint)
        position = f"x => '{x}', y => '{y}'"
    assert connection.execute(statement()).fetchone() == (9,)


@pytest.mark.many
@pytest.mark.parametrize("name", ["NULL", "''", "' '", "E'a\\nb'", "E'a\\u200bb'", "repeat('d', 201)"])
def test_a_dataset_needs_a_name_that_can_be_seen(gps, name):
    told = _catch_refusal(gps, f"SELECT * FROM dbanon.import_trajectories('public.gps', dataset => {name})")
    assert told[0] == "DA011"
    demand_named(told[1], "name", "1 to 200")


def test_a_dataset_that_is_there_is_added_to_or_replaced_by_name(gps):
    _import(gps)
    code, message, hint = _catch_refusal(gps, CALL.format(""))
    assert code == "DA011"
    demand_named(message, "'d'", "already")
    demand_named(hint, "mode => 'append'", "mode => 'replace'")
    code, message, _ = _catch_refusal(gps, CALL.format(", mode => 'append'"))
    assert code == "DA012"
    demand_named(message, "nothing to add", "90 rows")
    (row,) = _import(gps, mode="'replace'", split_gap_s="30", grid_m="5")
    assert row["trajectories"] == 90
    assert gps.execute("SELECT grid_m FROM dbanon.dataset").fetchall() == [(5,)]


def test_two_imports_may_be_of_one_transaction_and_it_decides(database, gps):
    with psycopg.connect(database) as outer:
        _import(outer)
        outer.execute("SELECT * FROM dbanon.import_trajectories('public.gps', 'e', mode => 'create')")
        assert outer.execute("SELECT count(*) FROM dbanon.trajectory").fetchone() == (18,)
        outer.rollback()
    assert gps.execute("SELECT count(*) FROM dbanon.dataset").fetchone() == (0,)


def test_an_import_leaves_neither_settings_nor_temporary_tables(gps):
    settings = "SELECT name, setting FROM pg_settings WHERE source IN ('session', 'client') ORDER BY name"
    before = gps.execute(settings).fetchall()
    _import(gps)
    assert gps.execute(settings).fetchall() == before
    assert gps.execute("SELECT count(*) FROM pg_class WHERE relname ~ '^dbanon_'").fetchone() == (0,)


def test_nobody_elses_objects_are_taken_for_ours(gps):
    gps.execute("CREATE SCHEMA evil")
    gps.execute(
        "CREATE FUNCTION evil.st_transform(geometry, int) RETURNS geometry LANGUAGE sql AS 'SELECT NULL::geometry'"
    )
    gps.execute("CREATE FUNCTION evil.round(float8) RETURNS float8 LANGUAGE sql AS 'SELECT 0::float8'")
    gps.execute("CREATE TABLE evil.dbanon_staged (a int); CREATE TEMP TABLE pg_class (a int)")
    gps.execute("SET search_path = evil, pg_temp, public, pg_catalog")
    (row,) = _import(gps)
    assert (row["rows_kept"], row["srid"]) == (90, 32632)


def test_a_loader_is_static_but_for_the_view_it_reads_through():
    for name in ("50_import", "60_import_places"):
        text = (Path(__file__).parents[2] / "sql" / "20_load" / f"{name}.sql").read_text()
        assert "EXECUTE" not in re.sub("--.*", "", text)


def test_what_is_said_of_each_row_is_put_into_the_statement(gps, said):
    gps.execute("LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_verbose = on")
    gps.execute("SET auto_explain.log_nested_statements = on; SET client_min_messages = log")
    gps.execute("ALTER TABLE gps ALTER time TYPE text USING to_timestamp(time)::timestamp::text, ADD trip text")
    _import(gps, tz="'Europe/Berlin'", trip="'trip'", bbox="'{8,53,9,54}'")
    [plan] = [line for line in said if "Insert on pg_temp.dbanon_staged" in line]
    plan = plan.partition("Insert on pg_temp.dbanon_staged")[2]
    called = set(re.findall(r"dbanon_internal\.(\w+)\(", plan))
    assert called <= {"report_rows", "is_endless", "find_middle_x"}  # once in 100,000 rows, and of shapes alone


def test_sources_of_other_types_are_imported_one_after_the_other_in_a_session(gps):
    gps.execute(
        "CREATE TABLE public.odd AS SELECT 'x' || i AS subject, to_timestamp(1e9 + i)::text AS time, 8.2 AS x, "
        "53 + i * 1e-3 AS y FROM generate_series(1, 5) i"
    )
    call = (
        "SELECT rows_kept FROM dbanon.import_trajectories("
        "'public.odd', dataset => 'odd', x => 'x', y => 'y', tz => 'UTC', mode => '{}')"
    )
    for mode, kind in (
        ("create", "text"),
        ("replace", "timestamptz USING time::timestamptz"),
        ("replace", "timestamp"),
        ("replace", "numeric USING extract(epoch FROM time)"),
    ):
        gps.execute(f"ALTER TABLE odd ALTER time TYPE {kind}")
        assert _import(gps, mode=f"'{mode}'")[0]["rows_kept"] == 90
        assert gps.execute(call.format(mode)).fetchone() == (5,)


def test_a_view_of_ours_that_somebody_else_made_in_the_session_is_not_read(gps, login):
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as operator:
        operator.execute("CREATE TEMP VIEW dbanon_source AS SELECT 1 AS evil")
        gps.execute("GRANT SELECT ON public.gps TO PUBLIC")
        assert _import(operator)[0]["rows_kept"] == 90  # its own, of another kind, made anew
        operator.execute("CREATE TEMP TABLE dbanon_source (evil integer)")
        with pytest.raises(psycopg.errors.WrongObjectType):
            _import(operator, mode="'append'")


def test_a_view_may_call_functions_that_name_postgis_by_the_search_path(connection):
    connection.execute(
        "CREATE FUNCTION public.place(x float8, y float8) RETURNS geometry LANGUAGE plpgsql AS "
        "'BEGIN RETURN ST_SetSRID(ST_MakePoint(x, y), 4326); END'"
    )
    connection.execute(
        "CREATE VIEW public.gps AS SELECT 'a' AS subject, 1e9 AS \"time\", public.place(8.2, 53.1) AS geom"
    )
    assert _import(connection)[0]["rows_kept"] == 1


def test_an_operator_imports_what_it_may_read_and_others_may_not(gps, login):
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as operator:
        code, message, hint = _catch_refusal(operator, CALL.format(""))
        assert code == "DA014"
        demand_named(message + hint, "public.gps", "GRANT SELECT")
        gps.execute("GRANT SELECT ON public.gps TO PUBLIC")
        assert _import(operator, drop_outliers="true")[0]["rows_kept"] == 90
    for role in ("dbanon_worker", "dbanon_analyst"):
        with (
            psycopg.connect(login(role), autocommit=True) as other,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            _import(other, mode="'append'")


def test_a_row_off_the_map_is_left_out_and_the_others_are_made_again(gps):
    gps.execute(f"INSERT INTO gps SELECT 90, 's1', 1e9 + 9999, ST_Translate({POINT}, 91, -53.1)")
    gps.execute(f"INSERT INTO gps SELECT 91, 's1', 1e9 + 9998, ST_Translate({POINT}, 0.01, 0)")
    (row,) = _import(gps, srid="32632")
    assert (row["quarantined"], row["rows_kept"], row["far"]) == ({"position-out-of-range": 1}, 91, {})
    assert gps.execute("SELECT line FROM dbanon.quarantine").fetchall() == [(91,)]


def test_twins_are_left_out_beside_a_row_off_the_map_and_no_message_has_their_time(gps):
    gps.execute(f"INSERT INTO gps SELECT 90, 's1', 1e9 + 9999, ST_Translate({POINT}, 91, -53.1)")
    for line, east in ((91, 0), (92, 0.01), (93, 0.01)):
        gps.execute(f"INSERT INTO gps SELECT {line}, 's1', 1e9 + 9998, ST_Translate({POINT}, {east}, 0)")
    said = collect_notices(gps)
    (row,) = _import(gps, srid="32632")
    assert row["quarantined"] == {"contradicting-fix": 2, "position-out-of-range": 1}
    assert row["rows_kept"] == 91
    assert "9998" not in "".join(said)


def test_rows_that_are_their_own_go_on_with_their_numbers(gps):
    for mode in ("'create'", "'append'"):
        _import(gps, subject="'-'", mode=mode)
        gps.execute('UPDATE gps SET "time" = "time" + 100000')
    subjects = "SELECT min(subject), max(subject), count(DISTINCT subject) FROM dbanon.trajectory"
    assert gps.execute(subjects).fetchone() == ("000000000001", "000000000180", 180)


# ---- sites -----------------------------------------------------------------------------------------------------------

SQUARE = "POLYGON ((100 100, 140 100, 140 130, 100 130, 100 100))"
ODD = [
    ("a", SQUARE, None),
    (" a ", SQUARE, "duplicate-site"),
    ("b", SQUARE, None),
    (None, "POINT Z (7 8 9)", None),
    ("  ", "POINT (7 8)", "duplicate-site"),
    ("e", "POINT EMPTY", "missing-position"),
    ("f", None, "missing-position"),
    ("g", "LINESTRING (1 1, 1e300 3)", "position-out-of-range"),
    ("h", "CURVEPOLYGON (CIRCULARSTRING (0 0, 4 0, 4 4, 0 4, 0 0))", "unparsable-position"),
    ("i", "GEOMETRYCOLLECTION (POINT (1 1), CIRCULARSTRING (1 1, 2 2, 3 1))", "unparsable-position"),
    ("j", "POINT (90000 500)", None),
    ("k", "LINESTRING (1.7e308 1, 1.6e308 1)", "non-finite-position"),
]


@pytest.fixture
def town(connection):
    """Make a dataset on a plane, 1 km wide and high, and an empty table of clinics."""
    connection.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('d', 32632, 1, 1)")
    connection.execute(
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path) "
        "VALUES (1, 'a', ST_GeomFromText('LINESTRING M (0 0 0, 1000 1000 1)', 32632))"
    )
    connection.execute("CREATE TABLE public.clinics (title text, place geometry)")
    return connection


def _make_clinics(connection, *rows, srid=32632):
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO public.clinics VALUES (%s, ST_SetSRID(ST_GeomFromText(%s), %s))",
            [(title, text, srid) for title, text in rows],
        )


def _read_stored(connection):
    return connection.execute("SELECT name, ST_AsText(geom) FROM dbanon.site ORDER BY site_id").fetchall()


def test_sites_are_stored_as_they_are_and_every_other_row_has_its_reason(town, said):
    _make_clinics(town, *(row[:2] for row in ODD))
    endless = "ST_SetSRID(ST_MakeLine(ARRAY[ST_MakePoint(1, 1), ST_MakePoint('{0}', 3), ST_MakePoint(4, 4)]), 32632)"
    for wild in ("NaN", "Infinity"):
        town.execute(f"INSERT INTO clinics SELECT 'k', {endless.format(wild)}")
    town.execute("INSERT INTO clinics VALUES ('l', 'SRID=3857;POINT (7 8)')")
    reasons = [*(reason for *_, reason in ODD), *["non-finite-position"] * 2, "other-reference-system"]
    load_id, rows_read, rows_kept, quarantined = town.execute(SITES.format(", name => 'title'")).fetchone()
    left_out = town.execute("SELECT line, reason FROM dbanon.quarantine ORDER BY line").fetchall()
    assert left_out == [(line, reason) for line, reason in enumerate(reasons, 1) if reason is not None]
    assert (load_id, rows_read, rows_kept) == (1, len(reasons), reasons.count(None))
    assert quarantined == {reason: reasons.count(reason) for reason in reasons if reason is not None}
    square = SQUARE.replace("N (", "N(").replace(", ", ",")
    assert _read_stored(town) == [("a", square), ("b", square), (None, "POINT(7 8)"), ("j", "POINT(90000 500)")]
    notice = said[-1]
    demand_named(notice, "NOTICE: ", "1 site", "kept", "drop_outliers => true", "bbox => ")
    told = town.execute("SELECT content FROM dbanon.quarantine WHERE line = 2").fetchone()
    assert told == ({"title": " a ", "place": square},)
    assert town.execute("SELECT kind, source FROM dbanon.load").fetchone() == ("sites", "table public.clinics")


@pytest.mark.many
@pytest.mark.parametrize("wild", ["\x01", "\t", "\n", "\x1b", "\x7f", "\x80", "\x9f"])
def test_names_with_control_characters_are_left_out_of_tables_as_of_files(connection, tmp_path, wild):
    rows = [("good", "t"), (f"wi{wild}ld", "t"), ("good", f"wi{wild}ld"), (f" {wild}wild", "t"), (f"wild{wild} ", "t")]
    connection.execute('CREATE TABLE public.gps (subject text, "time" float8, trip text, geom geometry)')
    for i, (subject, trip) in enumerate(rows):
        connection.execute(f"INSERT INTO gps VALUES (%s, {1_000_000_000 + 60 * i}, %s, {POINT})", [subject, trip])
    (row,) = _import(connection, trip="'trip'")
    names = [name for name, _ in rows]
    file = tmp_path / "gps.parquet"
    fixes = {"subject": names, "time": [1e9 + 60 * i for i in range(5)], "x": [8.2] * 5, "y": [53.1] * 5}
    pq.write_table(pa.table({**fixes, "trip": [trip for _, trip in rows]}), file)
    report = load.load_trajectories(connection, [file], LoadingTrajectories(dataset="f", trip="trip"))
    assert report.quarantined == row["quarantined"]
    assert report.quarantined["control-characters"] == (2 if wild.isspace() else 4)
    left_out = "SELECT line, reason FROM dbanon.quarantine JOIN dbanon.load USING (load_id) JOIN dbanon.dataset d "
    left_out += "USING (dataset_id) WHERE d.name = %s ORDER BY line"
    of_file = connection.execute(left_out, ["f"]).fetchall()
    assert connection.execute(left_out, ["d"]).fetchall() == [(line - 1, reason) for line, reason in of_file]


@pytest.mark.parametrize("wild", ["\x1b]0;pwned\x07", "a\tb", "a\u009bb"])
def test_sites_whose_names_have_control_characters_are_left_out_of_tables_as_of_files(town, tmp_path, wild):
    _make_clinics(town, ("good", "POINT (7 8)"), (wild, "POINT (9 8)"), (wild, "POINT EMPTY"))
    assert town.execute(SITES.format(", name => 'title'")).fetchone()[1:] == (3, 1, {"control-characters": 2})
    file = tmp_path / "sites.parquet"
    pq.write_table(pa.table({"name": ["good", wild], "x": [17.0, 9.0], "y": [8.0, 8.0]}), file)
    report = load.load_places(town, file, LoadingSites(dataset="d", name="name", crs="EPSG:32632"))
    assert (report.kept, report.quarantined) == (1, {"control-characters": 1})
    assert [name for name, _ in _read_stored(town)] == ["good", "good"]


def test_a_table_of_sites_and_a_file_of_the_same_give_the_same(town, tmp_path):
    rows = [(name, text) for name, text, _ in ODD if text is not None and "CIRC" not in text]
    path = tmp_path / "sites.csv"
    path.write_text("title,place\n" + "".join(f'{name or ""},"{text}"\n' for name, text in rows))
    asked = LoadingSites(dataset="d", name="title", geom="place", crs="EPSG:32632")
    report = load.load_places(town, path, asked)
    before = _read_stored(town)
    _make_clinics(town, *rows)
    row = town.execute(SITES.format(", name => 'title', replace => true")).fetchone()
    assert row[1:] == (report.read, report.kept, report.quarantined)
    assert _read_stored(town) == before
    again = _catch_refusal(town, SITES.format(", name => 'title'"))
    assert "none usable (6 duplicate-site, 1 missing-position, 1 non-finite-position, " in again[1]


def test_sites_are_reprojected_kept_to_a_box_and_left_out_where_far(town):
    _make_clinics(town, ("a", "POINT (8.2 53.1)"), ("b", "POINT (8.3 53.1)"), srid=4326)
    town.execute("DELETE FROM dbanon.trajectory")
    town.execute(
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path) SELECT 1, 'a', "
        "ST_Transform('SRID=4326;POINT M (8.2 53.1 0)'::geometry, 32632)"
    )
    row = town.execute(SITES.format(", bbox => '{8,53,8.25,54}'")).fetchone()
    assert row[2:] == (1, {"outside-bbox": 1})
    close = (
        "SELECT ST_DWithin(geom, ST_Transform('SRID=4326;POINT (8.2 53.1)'::geometry, 32632), 1e-6) FROM dbanon.site"
    )
    assert town.execute(close).fetchall() == [(True,)]
    row = town.execute(SITES.format(", drop_outliers => true, replace => true")).fetchone()
    assert row[2:] == (1, {"far-position": 1})


@pytest.mark.many
@pytest.mark.parametrize(
    ("statement", "code", "facts", "hint"),
    [
        (SITES.format(", name => 'place'"), "DA011", ("geometry and name", "'place'"), "name"),
        (SITES.format(", name => 'nme'"), "DA012", ("public.clinics", "'nme'", "title, place"), "name"),
        (
            SITES.replace("'place'", "'title'").format(""),
            "DA012",
            ("'title'", "geometry", "text"),
            "ST_MakePoint(lon, lat)",
        ),
        (SITES.replace("'d'", "'e'").format(""), "DA001", ("dataset", "'e'"), "'d'"),
        (SITES.format(", bbox => '{1,0,0,1}'"), "DA011", ("metres", "XMIN", "XMAX"), "exchange"),
        (SITES.format(", crs => 'EPSG:3857'"), "DA012", ("usable", "2 rows", "2 other-reference-system"), "crs"),
        (SITES.format(", bbox => '{0,0,9,9}'"), "DA012", ("usable", "2 rows", "2 outside-bbox"), "bbox"),
    ],
)
def test_sites_that_cannot_be_imported_are_refused_and_nothing_is_replaced(town, statement, code, facts, hint):
    _make_clinics(town, ("a", "POINT (70 80)"), ("b", "POINT (70 90)"))
    town.execute("INSERT INTO dbanon.site (dataset_id, name, geom) VALUES (1, 'old', 'SRID=32632;POINT (1 1)')")
    told = _catch_refusal(town, statement.removesuffix(")") + ", replace => true)")
    assert told[0] == code
    demand_named(told[1], *facts)
    demand_named(told[2], hint)
    assert _read_stored(town) == [("old", "POINT(1 1)")]


def test_sites_that_lie_among_the_users_only_with_x_and_y_exchanged_are_refused(town):
    town.execute("UPDATE dbanon.trajectory SET path = ST_Translate(path, 400000, 5000000)")
    _make_clinics(
        town, ("a", "POINT (5000100 400100)"), ("b", "POINT (5000200 400100)"), ("c", "POINT (400100 5000100)")
    )
    code, message, hint = _catch_refusal(town, SITES.format(""))
    assert code == "DA011"
    demand_named(message, "longitude", "latitude")
    demand_named(hint, "'place'", "ST_FlipCoordinates")
    assert _read_stored(town) == []


def test_an_operator_imports_sites_and_others_may_not(town, login):
    _make_clinics(town, ("a", "POINT (1 1)"))
    town.execute("GRANT SELECT ON public.clinics TO PUBLIC")
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as operator:
        assert operator.execute(SITES.format("")).fetchone()[2] == 1
    for role in ("dbanon_worker", "dbanon_analyst"):
        with (
            psycopg.connect(login(role), autocommit=True) as other,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            other.execute(SITES.format(""))


def test_a_cast_of_the_tables_owner_runs_in_no_import(
    connection: psycopg.Connection, login: Callable[[str], str]
) -> None:
    connection.execute("CREATE SCHEMA m; GRANT ALL ON SCHEMA m TO PUBLIC")
    with psycopg.connect(login("pg_read_all_settings"), autocommit=True) as owner:
        owner.execute(
            """
            CREATE TYPE m.who AS ENUM ('anna'); CREATE TABLE m.called (login text); GRANT ALL ON m.called TO PUBLIC;
            CREATE TABLE m.gps AS SELECT 'anna'::m.who AS subject, now() AS t, 'SRID=4326;POINT(8 53)'::geometry AS g;
            GRANT SELECT ON m.gps TO PUBLIC
            """
        )
        load = "SELECT * FROM dbanon.import_trajectories('m.gps', 'd', 'subject', 't', 'g')"
        with psycopg.connect(login("operator"), autocommit=True) as operator:
            owner.execute(
                "CREATE FUNCTION m.evil(m.who) RETURNS text LANGUAGE sql AS"
                " $$ INSERT INTO m.called VALUES (current_user); SELECT 'bob'::text $$;"
                "CREATE CAST (m.who AS text) WITH FUNCTION m.evil(m.who)"
            )
            with expect_refusal("DA012"):
                operator.execute(load)
            owner.execute(
                "DROP CAST (m.who AS text); CREATE TYPE pg_temp.x AS (a integer);"
                "CREATE FUNCTION pg_temp.f(geometry) RETURNS pg_temp.x LANGUAGE sql AS 'SELECT row(1)::pg_temp.x';"
                "CREATE CAST (geometry AS pg_temp.x) WITH FUNCTION pg_temp.f(geometry)"  # is in no import's way
            )
            operator.execute(load)  # written as the server writes it
        assert owner.execute("SELECT * FROM m.called").fetchall() == []
