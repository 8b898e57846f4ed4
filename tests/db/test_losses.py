"""What a load lost is said: more than 5 percent of the rows in one reason, and one instant for all rows."""

import re
from pathlib import Path

import pytest

from dbanon import load
from dbanon.base.errors import DataError
from dbanon.options.loading import (
    LoadingCells,
    LoadingPois,
    LoadingQuasiIdentifiers,
    LoadingRequests,
    LoadingSites,
    LoadingStations,
    LoadingTrajectories,
)
from tests.facts import demand_named, expect_refusal
from tests.golden import reasons

HEAD = "subject,time,x,y\n"


def _load(connection, *paths, **options):
    return load.load_trajectories(connection, list(paths), LoadingTrajectories(**{"dataset": "d", **options}))


def _make_rows(n, bad=0, wrong="x"):
    """Write rows of which some have no time that can be read."""
    return "".join(f"a{i},{wrong if i < bad else 1212562800 + i},{-122.4 + i * 1e-4:.4f},37.7\n" for i in range(n))


def _fetch_lost(connection, notices):
    """Execute the queries of notices; returns the rows of each by reason."""
    found = {}
    for text in notices:
        query = re.search(r"SELECT line, content FROM dbanon\.quarantine .* LIMIT 10$", text)
        if query:
            found[re.search(r"reason = '([a-z-]+)'", text)[1]] = connection.execute(query[0]).fetchall()
    return found


@pytest.fixture
def import_table(connection):
    """Call an import in SQL; returns the notices."""

    def call(statement):
        heard = []

        def hear(said):
            heard.append(said.message_primary)

        connection.add_notice_handler(hear)
        connection.execute(statement)
        connection.remove_notice_handler(hear)
        return heard

    return call


TABLE = """CREATE TABLE public.gps AS SELECT 'a' || i AS subject,
    CASE WHEN i > {} THEN timestamptz '2026-01-05 00:00+00' + i * interval '1 min' END AS time,
    ST_SetSRID(ST_MakePoint(8 + i * 1e-4, 53), 4326) AS geom, 'bank' AS poi FROM generate_series(1, 100) i"""


@pytest.mark.parametrize(("bad", "said"), [(0, False), (5, False), (6, True)])
def test_above_five_percent_a_notice_of_a_file_says_causes_and_shows_rows(connection, write, bad, said):
    report = _load(connection, write(HEAD + _make_rows(100, bad)))
    assert report.quarantined == ({"unparsable-time": bad} if bad else {})
    found = _fetch_lost(connection, report.notices)
    assert found.keys() == ({"unparsable-time"} if said else set())
    if said:
        assert len(found["unparsable-time"]) == bad
        assert any(
            f"Notice: {bad} of 100 rows became unparsable-time. Usual causes: " in text for text in report.notices
        )


@pytest.mark.parametrize(("bad", "said"), [(5, False), (6, True)])
@pytest.mark.parametrize("call", ["trajectories", "requests", "quasi_identifiers"])
def test_above_five_percent_a_notice_of_a_table_says_causes_and_shows_rows(connection, import_table, call, bad, said):
    connection.execute(TABLE.format(bad))
    if call != "trajectories":
        connection.execute("CREATE VIEW public.fine AS SELECT * FROM public.gps WHERE time IS NOT NULL")
        connection.execute("SELECT dbanon.import_trajectories('public.fine', 'd')")
    more = ", columns => ARRAY['poi']" if call == "requests" else ""
    notices = import_table(f"SELECT dbanon.import_{call}('public.gps', dataset => 'd'{more})")
    found = _fetch_lost(connection, notices)
    assert {reason: len(rows) for reason, rows in found.items()} == ({"unparsable-time": bad} if said else {})


@pytest.mark.parametrize(("bad", "said"), [(5, False), (6, True)])
@pytest.mark.parametrize("kind", ["requests", "quasi-identifiers"])
def test_above_five_percent_of_what_belongs_to_people_is_said(connection, write, kind, bad, said):
    _load(connection, write(HEAD + _make_rows(100)))
    path = write(HEAD + _make_rows(100, bad), "events.csv")
    report = (
        load.load_requests(connection, path, LoadingRequests(dataset="d", columns=["x"]))
        if kind == "requests"
        else load.load_quasi_identifiers(connection, path, LoadingQuasiIdentifiers(dataset="d"))
    )
    assert report.quarantined == {"unparsable-time": bad}
    assert _fetch_lost(connection, report.notices).keys() == ({"unparsable-time"} if said else set())


@pytest.mark.parametrize(("bad", "said"), [(5, False), (6, True)])
@pytest.mark.parametrize("asked", [LoadingSites, LoadingPois, LoadingStations])
def test_above_five_percent_of_places_is_said(connection, write, asked, bad, said):
    _load(connection, write(HEAD + _make_rows(100)))
    places = "".join(f"n,{'' if i < bad else f'{-122.4 + i * 1e-3:.4f}'},37.7{i:02}\n" for i in range(100))
    more = {"category": "name"} if asked is LoadingPois else {"name": "name"}
    report = load.load_places(connection, write("name,x,y\n" + places, "places.csv"), asked(dataset="d", **more))
    assert report.quarantined == {"missing-position": bad}
    assert _fetch_lost(connection, report.notices).keys() == ({"missing-position"} if said else set())


def test_the_source_that_lost_most_is_shown(connection, write):
    fine = write(HEAD + _make_rows(1000), "fine.csv")
    bad = write(HEAD + "".join(f"b{i},{'x' if i else 1212562800},-122.4,37.8\n" for i in range(9)), "bad.csv")
    report = _load(connection, fine, bad)
    assert len(_fetch_lost(connection, report.notices)["unparsable-time"]) == 8
    assert any("8 of 9 rows" in text for text in report.notices)


def test_a_table_of_two_reference_systems_is_said(connection, import_table):
    connection.execute(
        "CREATE TABLE public.gps AS SELECT 'a' || i % 4 AS subject, to_timestamp(1212562800 + i) AS time, "
        "CASE WHEN i > 18 THEN ST_SetSRID(ST_MakePoint(500000, 5800000), 32633) "
        "ELSE ST_SetSRID(ST_MakePoint(13 + i * 1e-3, 52), 4326) END AS geom FROM generate_series(1, 24) i"
    )
    notices = import_table("SELECT dbanon.import_trajectories('public.gps', 'd')")
    assert len(_fetch_lost(connection, notices)["other-reference-system"]) == 6
    demand_named("\n".join(notices), "6 of 24", "ST_Transform")


def test_milliseconds_among_seconds_are_said(connection, write):
    rows = "".join(f"a,{(1212562800 + i) * (1000 if i < 8 else 1)},{-122.4 + i * 1e-4:.4f},37.7\n" for i in range(20))
    report = _load(connection, write(HEAD + rows))
    assert len(_fetch_lost(connection, report.notices)["time-out-of-range"]) == 8
    demand_named("\n".join(report.notices), "8 of 20", "milliseconds")


def test_times_that_lost_digits_are_said(connection, write):
    rows = "a,1.71E+12,12.60,55.60\na,1.71E+12,12.61,55.60\na,1.71E+12,12.62,55.60\nb,1.71E+12,12.60,55.61\n"
    report = _load(connection, write(HEAD + rows))
    assert len(_fetch_lost(connection, report.notices)["contradicting-fix"]) == 2
    assert any("All 2 rows" in text and "one instant" in text for text in report.notices)
    assert "1.71" not in " ".join(report.notices)


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        ("a,1212562800,-122.4,37.7\nb,1212562800,-122.5,37.7\n", {}, True),
        ("a,1212562800,-122.4,37.7\nb,1212562800,-122.5,37.7\n", {"subject": "-"}, False),
        ("a,1212562800,-122.4,37.7\nb,1212562801,-122.5,37.7\n", {}, False),
        ("a,1212562800,-122.4,37.7\n", {}, False),
    ],
)
def test_one_instant_for_all_rows_is_said(connection, write, rows, options, said):
    report = _load(connection, write(HEAD + rows), **options)
    assert any("one instant" in text for text in report.notices) is said
    if not options:
        for name, more in (("import_requests", ", columns => ARRAY['poi']"), ("import_quasi_identifiers", "")):
            connection.execute("DROP TABLE IF EXISTS public.seen")
            connection.execute(
                "CREATE TABLE public.seen AS SELECT fix.subject, t AS time, 'p' AS poi FROM dbanon.fix "
                "JOIN dbanon.trajectory USING (trajectory_id)"
            )
            heard = []
            connection.add_notice_handler(lambda one, heard=heard: heard.append(one.message_primary))
            connection.execute(f"SELECT dbanon.{name}('public.seen', dataset => 'd'{more})")
            assert any("one instant" in text for text in heard) is said


def test_each_reason_of_a_quarantine_has_causes():
    text = (Path(__file__).parents[2] / "sql" / "20_load" / "10_dataset.sql").read_text()
    causes = set(re.findall(r"\('([a-z-]+)', '", text.split("FUNCTION dbanon_internal.describe_losses")[1]))
    others = {name for name in reasons.QUARANTINED if name.startswith("duplicate-")}
    assert others - {"duplicate-station"} == reasons.QUARANTINED.keys() - causes
    assert causes <= reasons.QUARANTINED.keys() | reasons.COUNTED.keys()


# ---- positions that are not there ------------------------------------------------------------------------------------


def _count(connection):
    return dict(connection.execute("SELECT line, reason FROM dbanon.quarantine ORDER BY line").fetchall())


def test_positions_of_a_file_that_are_not_there_are_no_unparsable_ones(connection, write):
    rows = ["", ",", "12;60,55.6", "NA,55.6", " ,55.6", "12.6,", "x,", "nan,55.6"]
    text = "".join(f"b,{1212562900 + i},{row or ','}\n" for i, row in enumerate(rows))
    _load(connection, write(HEAD + "a,1212562800,12.6,55.6\n" + text))
    missing, unparsable = "missing-position", "unparsable-position"
    assert [*_count(connection).values()] == [missing, missing, unparsable, *[missing] * 4, "non-finite-position"]


def test_positions_of_a_table_that_are_not_there_are_missing(connection):
    connection.execute(
        "CREATE TABLE public.gps AS SELECT 'a' AS subject, to_timestamp(1212562800 + i) AS time, (ARRAY["
        "ST_MakePoint(8, 53), ST_MakePoint(8, 53.1), NULL, 'POINT EMPTY', 'LINESTRING EMPTY'])[i] AS geom, "
        "(ARRAY[8, NULL, 9, 'NaN', 8.1])[i]::float8 AS x, (ARRAY[53, 52, NULL, 53, 53.1])[i] AS y "
        "FROM generate_series(1, 5) i"
    )
    connection.execute("SELECT dbanon.import_trajectories('public.gps', 'd', crs => 'EPSG:4326')")
    assert _count(connection) == {3: "missing-position", 4: "missing-position", 5: "missing-position"}
    connection.execute("DELETE FROM dbanon.quarantine")
    connection.execute("SELECT dbanon.import_trajectories('public.gps', 'e', x => 'x', y => 'y')")
    assert _count(connection) == {2: "missing-position", 3: "missing-position", 4: "non-finite-position"}


@pytest.mark.parametrize("kind", ["sites", "cells"])
def test_shapes_that_are_not_there_are_missing(connection, write, kind):
    _load(connection, write(HEAD + _make_rows(3)))
    shape = '"POLYGON((-122.4 37.7, -122.3 37.7, -122.3 37.8, -122.4 37.7))"'
    path = write(f"name,geom\na,{shape}\nb,\nc,CIRCULARSTRING(0 0)\nd,POINT EMPTY\n", "shapes.csv")
    asked = (LoadingSites if kind == "sites" else LoadingCells)(dataset="d", geom="geom")
    load.load_places(connection, path, asked)
    assert _count(connection) == {3: "missing-position", 4: "unparsable-position", 5: "missing-position"}
    connection.execute("DELETE FROM dbanon.quarantine")
    connection.execute(
        "CREATE TABLE public.shapes AS SELECT geom FROM dbanon.cell UNION ALL SELECT geom FROM dbanon.site"
    )
    connection.execute("INSERT INTO public.shapes VALUES (NULL), ('POLYGON EMPTY')")
    connection.execute(
        "SELECT dbanon.import_sites('public.shapes', dataset => 'd', crs => 'EPSG:32610', replace => true)"
    )
    assert list(_count(connection).values()) == ["missing-position"] * 2


def test_a_feature_without_a_geometry_is_missing(connection, write):
    _load(connection, write(HEAD + _make_rows(3)))
    places = ['{"type": "Point", "coordinates": [-122.4, 37.7]}', "null"]
    features = ", ".join(f'{{"type": "Feature", "properties": {{}}, "geometry": {place}}}' for place in places)
    path = write(f'{{"type": "FeatureCollection", "features": [{features}]}}', "sites.geojson")
    load.load_places(connection, path, LoadingSites(dataset="d"))
    assert _count(connection) == {2: "missing-position"}


# ---- one cell too many -----------------------------------------------------------------------------------------------


def _refuse(connection, path, *named):
    with expect_refusal(DataError, *named) as refused:
        _load(connection, path)
    return str(refused.value)


@pytest.mark.parametrize("extra", [",", ",7"])
@pytest.mark.parametrize("rows", [1, 3, 30000])
def test_a_cell_too_many_in_each_row_asks_for_a_name_in_the_header(connection, write, rows, extra):
    lines = "".join(f"{line}{extra}\n" for line in _make_rows(rows).splitlines())
    said = _refuse(connection, write(HEAD + lines), "Line 2 has 5 cells", "has 4", "missing column in the header")
    assert "remove" not in said
    # The remedy, done.
    assert _load(connection, write("subject,time,x,y,more\n" + lines)).kept == rows


def test_a_cell_too_few_in_each_row_asks_for_a_name_less(connection, write):
    said = _refuse(connection, write("subject,time,x,y,more\n" + _make_rows(3)), "Line 2 has 4 cells", "has 5", "name")
    assert "Correct or remove it" not in said
    assert _load(connection, write(HEAD + _make_rows(3))).kept == 3


def test_a_cell_too_many_in_one_row_is_to_be_corrected_or_removed(connection, write):
    lines = _make_rows(3).splitlines()
    lines[0] += ",7"
    _refuse(connection, write(HEAD + "\n".join(lines)), "Line 2 has 5 cells", "Correct or remove it")
