"""Tables in memory and tracks are stored as the same fixes of a file would be; moving points come from tables alone."""

import json
from pathlib import Path
from typing import Any

import duckdb
import geopandas as gpd
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from dbanon import load
from dbanon.base.errors import DataError, ParameterError
from dbanon.options.loading import (
    ImportingTrajectories,
    LoadingCells,
    LoadingPois,
    LoadingQuasiIdentifiers,
    LoadingRequests,
    LoadingSites,
    LoadingTrajectories,
)
from tests.facts import demand_named, expect_refusal
from tests.hints import tries
from tests.importing import make_table, settle

Connection = psycopg.Connection[Any]
START_S = 1_212_566_400
FIXES = pa.table(
    {
        "subject": ["ann", "ann", "ann", "bob", None],
        "time": [START_S, START_S + 60, START_S + 60, START_S, START_S],
        "x": [8.2, 8.201, 8.201, 8.21, 8.2],
        "y": [53.1, 53.101, 53.101, 53.11, 53.1],
    }
)


def _load(connection: Connection, *given: Any, dataset: str = "d", **options: Any) -> load.LoadReport:
    return load.load_trajectories(
        connection, list(given), LoadingTrajectories(time_unit="s", dataset=dataset, **options)
    )


def _read_stored(connection: Connection, dataset: str = "d") -> list[Any]:
    query = (
        "SELECT subject, ST_AsText(path, 3) FROM dbanon.trajectory JOIN dbanon.dataset USING (dataset_id) "
        "WHERE name = %s ORDER BY trajectory_id"
    )
    return connection.execute(query, [dataset]).fetchall()


def _is_empty(connection: Connection) -> bool:
    tables = ("dataset", "trajectory", "load", "quarantine")
    counts = [connection.execute(f"SELECT count(*) FROM dbanon.{name}").fetchone() for name in tables]
    return counts == [(0,)] * 4


def _make_geo(**options: Any) -> gpd.GeoDataFrame:
    frame = FIXES.to_pandas()
    geometry = gpd.points_from_xy(frame["x"], frame["y"], crs="EPSG:4326")
    return gpd.GeoDataFrame(frame[["subject", "time"]], geometry=geometry, **options)


def test_the_same_fixes_are_stored_whatever_they_come_in(connection: Connection, tmp_path: Path) -> None:
    frame = FIXES.to_pandas()
    frame.to_csv(tmp_path / "fixes.csv", index=False)
    pq.write_table(FIXES, tmp_path / "fixes.parquet")
    _make_geo().to_parquet(tmp_path / "geo.parquet")
    seconds = pd.to_datetime(frame["time"], unit="s", utc=True)
    fixes = FIXES  # DuckDB finds it by its name
    sources = [
        tmp_path / "fixes.csv",
        tmp_path / "fixes.parquet",
        tmp_path / "geo.parquet",
        FIXES,
        FIXES.to_reader(),
        frame,
        frame.assign(time=seconds),
        _make_geo(),
        _make_geo().to_crs("EPSG:3857"),
        duckdb.sql("SELECT * FROM fixes"),
        pl.from_arrow(FIXES),
    ]
    assert fixes is FIXES
    for number, source in enumerate(sources):
        report = _load(connection, source, dataset=f"d{number}")
        assert (report.read, report.kept, report.quarantined) == (5, 3, {"duplicate-fix": 1, "missing-subject": 1})
        assert (report.subjects, report.srid) == (2, 32632)
        assert _read_stored(connection, f"d{number}") == _read_stored(connection, "d0")
    recorded = [row[0] for row in connection.execute("SELECT source FROM dbanon.load ORDER BY load_id")]
    assert recorded[3:] == [
        "pyarrow.Table", "pyarrow.RecordBatchReader", "pandas.DataFrame", "pandas.DataFrame", "geopandas.GeoDataFrame",
        "geopandas.GeoDataFrame", "duckdb.DuckDBPyRelation", "polars.DataFrame",
    ]  # fmt: skip
    cells = connection.execute(
        "SELECT line, reason, content FROM dbanon.quarantine "
        "WHERE load_id = (SELECT max(load_id) - 3 FROM dbanon.load) ORDER BY line"
    ).fetchall()
    assert [(line, reason) for line, reason, _ in cells] == [(3, "duplicate-fix"), (5, "missing-subject")]
    assert cells[1][2] == {"subject": None, "time": str(START_S), "geometry": "POINT (8.2 53.1)"}


def test_files_and_tables_in_memory_are_loaded_together(connection: Connection, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text(f"subject,time,x,y\ncid,{START_S},8.22,53.1\n")
    report = _load(connection, tmp_path / "more.csv", FIXES, _make_geo())
    assert (report.read, report.kept) == (11, 4)
    assert report.quarantined == {"duplicate-fix": 5, "missing-subject": 2}
    assert report.source == [str(tmp_path / "more.csv"), "pyarrow.Table", "geopandas.GeoDataFrame"]


@pytest.mark.parametrize(
    ("given", "options", "kind", "facts"),
    [
        (FIXES.slice(0, 0), {}, DataError, ("none",)),
        (FIXES.drop(["y"]), {}, DataError, ("pyarrow.Table", "'y'")),
        (FIXES.slice(4), {}, DataError, ("1 missing-subject",)),
        (_make_geo().set_crs(None, allow_override=True), {}, ParameterError, ("geopandas.GeoDataFrame", "--crs")),
        (_make_geo(), {"crs": "EPSG:25832"}, ParameterError, ("EPSG:4326", "--crs EPSG:25832")),
        (_make_geo().assign(geometry=shapely.box(8, 53, 8.1, 53.1)), {}, DataError, ("'geometry'", "points")),
        (FIXES, {"max_speed_kmh": 0.0}, ParameterError, ("speed", "above 0")),
        (FIXES, {"max_speed_kmh": float("nan")}, ParameterError, ("speed", "NaN")),
    ],
    ids=range(8),
)
def test_what_cannot_be_loaded_leaves_nothing(
    connection: Connection, given: Any, options: dict[str, Any], kind: type[Exception], facts: tuple[str, ...]
) -> None:
    with expect_refusal(kind, *facts):
        _load(connection, given, **options)
    assert _is_empty(connection)


def test_requests_quasi_identifiers_and_places_come_from_tables_in_memory(connection: Connection) -> None:
    town = settle(connection)
    people = pa.table({"subject": ["s", "s"], "time": [0, 60], "poi": ["bar", None]})
    asked = load.load_requests(town, people, LoadingRequests(time_unit="s", dataset="town", columns=["poi"]))
    assert (asked.kept, asked.quarantined, asked.source) == (1, {"empty-request": 1}, ["pyarrow.Table"])
    seen = load.load_quasi_identifiers(town, people.to_pandas(), LoadingQuasiIdentifiers(time_unit="s", dataset="town"))
    assert seen.kept == 2
    square = shapely.box(8.2, 53.1, 8.21, 53.11)
    places = gpd.GeoDataFrame({"kind": ["bar", "zoo"]}, geometry=[shapely.Point(8.2, 53.1), square], crs="EPSG:4326")
    report = load.load_places(town, places.to_crs("EPSG:25832"), LoadingSites(dataset="town", name="kind"))
    assert (report.kept, report.source) == (2, ["geopandas.GeoDataFrame"])
    assert load.load_places(town, places, LoadingPois(dataset="town", category="kind")).kept == 2
    assert load.load_places(town, places[1:], LoadingCells(dataset="town", name="kind")).kept == 1
    ((apart,),) = town.execute(
        "SELECT max(ST_HausdorffDistance(s.geom, p.geom)) FROM dbanon.site s JOIN dbanon.poi p ON s.name = p.category"
    )
    assert apart < 0.01
    with expect_refusal(ParameterError, "EPSG:4326", "--crs"):
        load.load_places(town, places, LoadingSites(dataset="town", crs="EPSG:3857"))


# ---- tracks and moving points ----------------------------------------------------------------------------------------

HEAD = "Geolife trajectory\nWGS 84\nAltitude is in Feet\nReserved 3\n0,2,255,My Track,0,0,2,8421376\n0\n"


def test_a_folder_of_tracks_is_one_source_and_its_files_may_be_trips(connection: Connection, tmp_path: Path) -> None:
    for person, lat in (("000", 39.98), ("001", 39.99)):
        folder = tmp_path / "Data" / person / "Trajectory"
        folder.mkdir(parents=True)
        for hour in (2, 3):
            points = [f"{lat},116.3{i},0,492,39744.1,2008-10-23,0{hour}:5{i}:04\n" for i in (5, 3, 4)]
            (folder / f"{hour}.plt").write_text(HEAD + "".join(points))
    report = _load(connection, tmp_path, trip="trip")
    assert (report.read, report.kept, report.subjects, report.trajectories) == (12, 12, 2, 4)
    assert (report.srid, report.source) == (32650, [str(tmp_path)])
    assert str(report.first_time) == "2008-10-23 02:53:04+00:00"
    with expect_refusal(ParameterError, "EPSG:4326", "--crs EPSG:4326"):
        _load(connection, tmp_path, dataset="e", crs="EPSG:32650")


def test_features_that_move_are_loaded_by_a_property(connection: Connection, tmp_path: Path) -> None:
    moving = {"type": "MovingPoint", "datetimes": [f"2008-06-04T08:0{i}:00Z" for i in (1, 0)]}
    moving["coordinates"] = [[8.2, 53.1], [8.201, 53.1]]
    features = [{"type": "Feature", "properties": {"cab": c}, "temporalGeometry": moving} for c in "ab"]
    (tmp_path / "cabs.json").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    report = _load(connection, tmp_path / "cabs.json", subject="cab")
    assert (report.read, report.kept, report.subjects) == (4, 4, 2)


HEX = shapely.to_wkb(shapely.set_srid(shapely.Point(8.201, 53.101), 4326), hex=True, include_srid=True)
MOVING = [
    ("ann", "SRID=4326;[POINT(8.2 53.1)@2008-06-04 08:00:00+00, POINT(8.201 53.101)@2008-06-04 10:01:00+02]"),
    ("ann", f"{{{HEX}@2008-06-04 08:01:00+00, {HEX}@2008-06-04 08:02:00.5+00}}"),
    ("bob", "SRID=4326;{[POINT Z (8.21 53.11 4)@2008-06-04 08:00:00+00], (POINT Z (8.22 53.11 4)@2008-06-04 00:00Z)}"),
    ("bob", "Interp=Step;[POINT(8.21 53.11)@2008-06-04 09:00+00,POINT(8.22 53.11)@2008-06-04 09:10+00]"),
    ("bob", "[POINT(8.21 53.11)@2008-06-04 08:00:00+00"),
    ("bob", "Interp=Cubic;[POINT(8.21 53.11)@2008-06-04 08:00:00+00]"),
    ("bob", "POINT(8.21 53.11)@2008-02-30"),
    ("bob", "POINT(8.21 53.11)@yesterday"),
    ("bob", None),
    ("bob", "POINT(nan 53.11)@2008-06-04 08:00:00+00"),
    ("bob", "POINT(8.21 99)@2008-06-04 08:00:00+00"),
    ("bob", "POINT(1 2 3 4 5)@2008-06-04 08:00:00+00"),
    ("bob", f"{HEX[:-2]}@2008-06-04 08:00:00+00"),
    (None, "POINT(8.21 53.11)@2008-06-04 12:00:00+00"),
]
LEFT_OUT = {"duplicate-fix": 1, "missing-subject": 1, "non-finite-position": 1, "swapped-axes": 1}
LEFT_OUT |= {"missing-position": 1, "unparsable-position": 6}


@tries("It holds MobilityDB's tgeompoint. Copy")
def test_moving_points_of_a_file_are_copied_into_a_table_as_proposed(connection: Connection, tmp_path: Path) -> None:
    csv = tmp_path / "ways.csv"
    pd.DataFrame([(*row, "red") for row in MOVING], columns=["vehicle", "trip", "colour"]).to_csv(csv, index=False)
    with expect_refusal(DataError, "ways.csv", "'trip'", "text", "--crs"):
        _load(connection, csv, subject="vehicle", geom="trip", tz="UTC")
    connection.execute("CREATE TABLE ways (vehicle text, trip text, colour text)")
    with connection.cursor().copy("COPY ways FROM stdin CSV HEADER") as copy:
        copy.write(csv.read_bytes())
    asked = ImportingTrajectories(dataset="d", subject="vehicle", time="time", geom="trip", tz="UTC")
    report = load.import_trajectories(connection, "ways", asked)
    assert (report.read, report.kept, report.quarantined) == (18, 7, LEFT_OUT)
    assert str(report.first_time) == "2008-06-04 00:00:00+00:00"
    lines = connection.execute("SELECT line FROM dbanon.quarantine ORDER BY line").fetchall()
    assert [line for (line,) in lines] == [3, *range(9, 19)]


SPACED = "  srid=4326; interp=stepwise; { [ POINT ( 1 2 ) @ 1970-01-01 ] , ( Point(3 4)@1970-01-02 ] } "
MISTAKES = [
    "", "[]", "POINT(1 2)", "@1970-01-01", "POINT(1)@1970-01-01", "POINT(a b)@1970-01-01", "POINT EMPTY@1970-01-01",
    "POINT(1 2)@1970-01-01]", "{[POINT(1 2)@1970-01-01}", "SRID=x;POINT(1 2)@1970-01-01", HEX[:-1] + "@1970-01-01",
    "[POINT(1 2)@1970-01-01 POINT(1 2)@1970-01-02]", "[POINT(1 2)@1970-01-01,]", "POINT(1 2)@1970-01-01; DROP",
    "{[POINT(1 2)@1970-01-01], POINT(1 2)@1970-01-02}", "[POINT(1 2)@1970-01-01, POINT(1 x)@1970-01-02]",
    f"{shapely.to_wkb(shapely.LineString([(0, 0), (1, 1)]), hex=True)}@1970-01-01",
]  # fmt: skip


def test_an_instant_without_a_zone_is_of_the_zone_that_is_named(connection: Connection) -> None:
    query = "SELECT t FROM dbanon_internal.read_moving_instants('POINT(1 2)@2008-06-04 08:00', 'Europe/Berlin')"
    assert connection.execute(query).fetchone() == (1212559200.0,)


def test_a_moving_point_with_a_mistake_is_one_fix_without_a_place(connection: Connection) -> None:
    query = "SELECT count(*), count(place) FROM unnest(%s::text[]) x, dbanon_internal.read_moving_instants(x, 'UTC')"
    assert connection.execute(query, [[SPACED]]).fetchone() == (2, 2)
    assert connection.execute(query, [MISTAKES]).fetchone() == (len(MISTAKES), 0)


def test_the_type_of_mobilitydb_is_read_by_its_output(connection: Connection) -> None:
    """A type of its name that holds text stands for it: what an import reads of the type is its output alone."""
    connection.execute(
        "CREATE TYPE public.tgeompoint; CREATE FUNCTION public.tgeompoint_in(cstring) RETURNS tgeompoint "
        "LANGUAGE internal IMMUTABLE STRICT AS 'textin';"
        "CREATE FUNCTION public.tgeompoint_out(tgeompoint) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT "
        "AS 'textout'; CREATE TYPE public.tgeompoint (INPUT = tgeompoint_in, OUTPUT = tgeompoint_out, LIKE = text)"
    )
    make_table(connection, "trips", "cab text, trip tgeompoint", MOVING[1:2])
    asked = ImportingTrajectories(dataset="d", subject="cab", time="time", geom="trip")
    assert load.import_trajectories(connection, "trips", asked).kept == 2


@pytest.mark.parametrize(
    ("text", "options", "kind", "facts"),
    [
        ("POINT(8.2 53.1)", {}, DataError, ("'trip'", "geometry", "text")),
        ("[POINT(8.2 53.1)@2008-06-04 08:00Z]", {}, DataError, ("'trip'", "reference system")),
        ("[POINT(8.2 53.1)@2008-06-04 08:00]", {"crs": "EPSG:4326"}, ParameterError, ("zone", "--tz")),
        ("[POINT(8.2 53.1)@2008-06-04 08:00Z", {"crs": "EPSG:4326"}, DataError, ("1 unparsable-position",)),
        ("SRID=4326;POINT(8.2 53.1)@2008-06-04 08:00Z", {"crs": "EPSG:25832"}, DataError, ("other-reference-system",)),
    ],
    ids=str,
)
def test_a_column_of_texts_that_do_not_move_is_refused(
    connection: Connection, text: str, options: dict[str, Any], kind: type[Exception], facts: tuple[str, ...]
) -> None:
    make_table(connection, "trips", "cab text, trip text", [("ann", text)])
    asked = ImportingTrajectories(dataset="d", subject="cab", time="time", geom="trip", **options)
    with expect_refusal(kind, *facts):
        load.import_trajectories(connection, "trips", asked)
    assert _is_empty(connection)


# ---- speed -----------------------------------------------------------------------------------------------------------


def _make_ride(*places: tuple[str, int, float]) -> pa.Table:
    """Rides along a parallel at 53 N, where a degree has 67 km: subject, minute, longitude."""
    subject, minute, x = zip(*places, strict=True)
    time = [START_S + 60 * m for m in minute]
    return pa.table({"subject": subject, "time": time, "x": x, "y": [53.0] * len(x)})


def _read_minutes(connection: Connection) -> list[Any]:
    query = "SELECT (extract(epoch FROM t)::bigint - %s) / 60 FROM dbanon.fix WHERE subject = 'a' ORDER BY t"
    return [int(row[0]) for row in connection.execute(query, [START_S])]


STEADY = [("a", m, 8 + m * 0.01) for m in range(10)]  # 40 km/h
FAST = {
    "nothing wild": (STEADY, []),
    "one fix that is wild by little": ([*STEADY[:4], ("a", 4, 8.065), *STEADY[5:]], [4]),
    "one wild fix": ([*STEADY[:4], ("a", 4, 8.2), *STEADY[5:]], [4]),
    "a wild first fix": ([("a", 0, 8.2), *STEADY[1:]], [0]),
    "a wild last fix": ([*STEADY[:9], ("a", 9, 8.2)], [9]),
    "wild fixes in a row, at one place": ([*STEADY[:4], ("a", 4, 8.2), ("a", 5, 8.201), *STEADY[6:]], [4, 5]),
    "wild fixes in a row, each elsewhere": ([*STEADY[:4], ("a", 4, 8.2), ("a", 5, 7.9), *STEADY[6:]], [4, 5]),
    "every other fix": ([("a", m, x + 0.1 * (m % 2) * (m < 8)) for _, m, x in STEADY], [1, 3, 5, 7]),
    "a phone that lags behind at the end": ([*STEADY[:8], ("a", 8, 8.2), ("a", 9, 8.201)], [8, 9]),
    "across the antimeridian": ([("a", m, (179.95 + m * 0.01 + 180) % 360 - 180) for m in range(10)], []),
}


@pytest.mark.parametrize("case", FAST)
@pytest.mark.parametrize("order", [1, -1])
def test_wild_fixes_are_counted_and_left_out_without_their_neighbours(
    connection: Connection, case: str, order: int
) -> None:
    places, wild = FAST[case]
    ride = _make_ride(*places[::order], ("b", 0, places[0][2]), ("b", 1, places[0][2]))
    report = _load(connection, ride, max_speed_kmh=100.0)
    assert (report.kept, report.far.get("too-fast", 0)) == (len(ride), len(wild))
    if wild:
        demand_named(" ".join(report.notices), len(wild), "100 km/h", "--drop-outliers")
    report = _load(connection, ride, max_speed_kmh=100.0, drop_outliers=True, mode="replace")
    assert (report.quarantined.get("too-fast", 0), report.far.get("too-fast", 0)) == (len(wild), 0)
    assert _read_minutes(connection) == [m for m in range(10) if m not in wild]


def test_many_wild_fixes_in_a_row_do_not_take_what_follows(connection: Connection) -> None:
    wild = [("a", m, 10.0 + m * 7 % 13) for m in range(10, 70)]
    later = [("a", m, 8 + m * 0.01) for m in range(70, 90)]
    report = _load(connection, _make_ride(*STEADY, *wild, *later), max_speed_kmh=100.0, drop_outliers=True)
    assert report.quarantined["too-fast"] == 60
    assert _read_minutes(connection) == [*range(10), *range(70, 90)]


def test_speeds_are_those_on_the_ground_whatever_the_reference_system(connection: Connection) -> None:
    ride = _make_ride(*[*STEADY[:4], ("a", 4, 8.06), *STEADY[5:]]).to_pandas()  # 120 km/h there and 40 back
    geometry = gpd.points_from_xy(ride["x"], ride["y"], crs="EPSG:4326").to_crs("EPSG:3857")
    frame = gpd.GeoDataFrame(ride[["subject", "time"]], geometry=geometry)
    assert _load(connection, frame, max_speed_kmh=130.0).far == {}
    assert _load(connection, frame, max_speed_kmh=70.0, dataset="e").far == {"too-fast": 1}


SEAMS = {
    "a wild first fix of the next load": ([9], [8.2]),
    "a wild fix alone in its load": ([], [8.2]),
    "wild fixes in a row": ([9], [8.2, 8.201, 7.9]),
    "nothing wild": ([9, 10], []),
}


@pytest.mark.parametrize("mode", ["append", "new"])
@pytest.mark.parametrize("case", SEAMS)
@pytest.mark.parametrize("order", [1, -1])
def test_speeds_over_the_seam_of_two_loads_are_those_within_one(
    connection: Connection, case: str, order: int, mode: str
) -> None:
    """The second load is of the time after the first, or before it."""
    good, wild = SEAMS[case]
    minutes = [5 + len(wild) + n for n in range(len(good))]
    second = [("a", 5 + n, x) for n, x in enumerate(wild)] + [("a", m, 8 + m * 0.01) for m in minutes]
    first, second = ([(s, order * m, x) for s, m, x in rows] for rows in (STEADY[:5], second))
    _load(connection, _make_ride(*first), max_speed_kmh=100.0)
    report = _load(connection, _make_ride(*second), max_speed_kmh=100.0, mode=mode)
    assert (report.kept, report.far.get("too-fast", 0)) == (len(second), len(wild))
    asked: dict[str, Any] = {"max_speed_kmh": 100.0, "drop_outliers": True, "dataset": "e"}
    _load(connection, _make_ride(*first), **asked)
    for n in range(2):  # what was left out is not taken when it comes again beside what is there
        report = _load(connection, _make_ride(*first, *second, ("b", n, 8.0)), mode=mode, **asked)
        assert sum(report.quarantined.get(reason, 0) for reason in ("too-fast", "far-position")) == len(wild)
    query = "SELECT count(*) FROM dbanon.fix JOIN dbanon.dataset USING (dataset_id) WHERE name = 'e' AND subject = 'a'"
    assert connection.execute(query).fetchone() == (5 + len(good),)


def test_rows_that_are_their_own_subjects_and_tables_have_speeds_as_well(connection: Connection) -> None:
    places = [*STEADY[:4], ("a", 4, 8.2), *STEADY[5:]]
    rows = [(s, START_S + 60 * m, f"SRID=4326;POINT({x} 53)") for s, m, x in places]
    make_table(connection, "rides", "subject text, t bigint, geom geometry", rows)
    asked: dict[str, Any] = {"time": "t", "geom": "geom", "max_speed_kmh": 100.0}
    for subject, far in (("subject", {"too-fast": 1}), ("-", {})):
        chosen = ImportingTrajectories(dataset=f"d{subject}", subject=subject, **asked)
        assert load.import_trajectories(connection, "rides", chosen).far == far
