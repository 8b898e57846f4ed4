"""Generating into PostGIS: rows that pass the tables' own checks, modes, and nothing left after an error."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from shapely import MultiPoint

from dbanon import load, synth
from dbanon.base.errors import DataError, ParameterError, StoreError
from dbanon.database import Database, open_database
from dbanon.options.generating import Generating, Plan
from dbanon.options.loading import LoadingTrajectories
from dbanon.postgres import binary_copy
from dbanon.synth import Scenario, _places, _utm
from dbanon.synth._source import read_network
from tests.facts import expect_refusal

ROWS = "SELECT subject, ST_AsEWKB(path) FROM dbanon.trajectory WHERE dataset_id = {} ORDER BY subject"
SENT = "SELECT subject, sent_at, content FROM dbanon.request WHERE dataset_id = {} ORDER BY 1, 2, 3"


@pytest.fixture
def opened(database: str) -> Iterator[Database]:
    with open_database(database) as one:
        one.connection.execute("SET search_path = pg_catalog, public")  # for what the tests ask of PostGIS
        yield one


def fetch_rows(opened: Database, query: str, dataset: int = 1) -> list[tuple[Any, ...]]:
    return opened.connection.execute(query.format(dataset)).fetchall()


def count_tables(opened: Database) -> list[int]:
    tables = ("dataset", "trajectory", "request", "load")
    return [opened.connection.execute(f"SELECT count(*) FROM dbanon.{name}").fetchone()[0] for name in tables]


def test_what_is_generated_is_stored_as_it_was_made(opened: Database) -> None:
    report = opened.synth("d", objects=50, seed=4)
    plan = Plan(objects=50, seed=4)
    fixes, sent, _ = Scenario.from_plan(plan, read_network(plan)).make_objects(np.arange(50))
    stored = fetch_rows(
        opened,
        "SELECT subject, x, y, t, srid FROM (SELECT subject, ST_SRID(path) AS srid, (ST_DumpPoints(path)).geom g "
        "FROM dbanon.trajectory) p, LATERAL (SELECT ST_X(g) AS x, ST_Y(g) AS y, ST_M(g) AS t) c ORDER BY subject, t",
    )
    np.testing.assert_array_equal([row[1:4] for row in stored], fixes.xym)
    assert [row[0] for row in stored] == [f"s{n + 1:07d}" for n in np.repeat(fixes.number, np.diff(fixes.offset))]
    assert {row[4] for row in stored} == {32632} == {report.srid}
    requests = fetch_rows(
        opened, "SELECT subject, extract(epoch FROM sent_at)::int, content->>'poi' FROM dbanon.request"
    )
    assert sorted(requests) == sorted(
        (f"s{n + 1:07d}", t, synth.POIS[poi])
        for n, t, poi in zip(sent.number.tolist(), sent.t.tolist(), sent.poi.tolist(), strict=True)
    )
    assert (report.trajectories, report.fixes, report.requests) == (50, len(fixes.xym), len(sent.number))


def test_every_path_is_a_valid_trajectory_and_one_fix_is_a_point(opened: Database) -> None:
    opened.synth("d", objects=200, instants=5, whole_share=0)
    kinds = fetch_rows(
        opened,
        "SELECT GeometryType(path), min(ST_NPoints(path)), max(ST_NPoints(path)) FROM dbanon.trajectory GROUP BY 1",
    )
    assert sorted(kinds) == [("LINESTRINGM", 2, 5), ("POINTM", 1, 1)]
    valid = "SELECT bool_and(ST_IsValidTrajectory(path)) FROM dbanon.trajectory WHERE ST_NPoints(path) > 1"
    assert fetch_rows(opened, valid) == [(True,)]


def test_each_kind_has_its_row_of_the_load_with_its_source(opened: Database) -> None:
    report = opened.synth("d", objects=20, seed=9, grid_m=5, grid_s=60)
    loads = fetch_rows(
        opened, "SELECT kind, source, rows_read, rows_kept, quarantined FROM dbanon.load ORDER BY load_id"
    )
    assert [row[0] for row in loads] == ["trajectories", "requests"]
    assert [row[2:] for row in loads] == [(n, n, {}) for n in (report.fixes, report.requests)]
    assert all(row[1].startswith("synth seed=9, network=city, objects=20,") for row in loads)
    assert fetch_rows(opened, "SELECT name, grid_m, grid_s FROM dbanon.dataset") == [("d", 5, 60)]
    opened.synth("quiet", objects=5, requests_per_subject=0)
    assert count_tables(opened) == [2, 25, report.requests, 3]


def test_quasi_identifiers_are_stored_as_they_were_made_and_replaced(opened: Database) -> None:
    chosen = {"objects": 50, "seed": 4, "quasi_identifiers": "random", "quasi_identifier_size": 6}
    query = "SELECT subject, extract(epoch FROM at)::bigint FROM dbanon.quasi_identifier WHERE set_name = 'default'"
    for mode in ("create", "replace"):
        report = opened.synth("d", mode=mode, **chosen)
        plan = Plan(**chosen)
        known = Scenario.from_plan(plan, read_network(plan)).make_objects(np.arange(50)).known
        expected = [(f"s{n + 1:07d}", t) for n, t in zip(known.number.tolist(), known.t.tolist(), strict=True)]
        assert sorted(fetch_rows(opened, query)) == expected
        assert report.quasi_identifiers == len(expected) > 50
    opened.synth("d", mode="replace", objects=20)
    assert fetch_rows(opened, query) == []
    kinds = fetch_rows(opened, "SELECT kind, rows_kept FROM dbanon.load WHERE kind NOT IN ('trajectories', 'requests')")
    assert kinds == [("quasi-identifiers", len(expected))] * 2


def test_places_are_stored_with_a_cell_for_each_station_and_every_fix_in_one(opened: Database) -> None:
    plan = Plan(objects=50, seed=4, pois=900, stations=60)
    made = Scenario.from_plan(plan, read_network(plan)).places
    report = opened.synth("d", objects=50, seed=4, pois=900, stations=60)
    assert (report.pois, report.stations) == (900, 60)
    counts = dict(fetch_rows(opened, "SELECT category, count(*) FROM dbanon.poi WHERE dataset_id = {} GROUP BY 1"))
    expected = np.bincount(made.category, minlength=len(_places.CATEGORIES))
    assert counts == dict(zip(_places.CATEGORIES, expected.tolist(), strict=True))
    assert fetch_rows(opened, "SELECT overlap_m2, gaps, pieces FROM dbanon_internal.measure_cell_faults({})") == [
        (0, 0, 1)
    ]
    assert fetch_rows(opened, "SELECT dbanon_internal.count_outside_cells({})") == [(0,)]
    for places in (made.pois, made.stations):
        lying = (
            "SELECT count(*), count(DISTINCT c.cell_id) FROM ST_Dump(ST_GeomFromText(%s, 32632)) p "
            "JOIN dbanon.cell c ON ST_Contains(c.geom, p.geom)"
        )
        found = opened.connection.execute(lying, [MultiPoint(places).wkt]).fetchone()
        assert found == (len(places), 60)
    loads = fetch_rows(opened, "SELECT kind, source, rows_read, rows_kept FROM dbanon.load ORDER BY load_id")
    assert [row[0] for row in loads] == ["trajectories", "requests", "pois", "stations"]
    assert [row[2:] for row in loads[2:]] == [(900, 900), (60, 60)]
    assert {row[1] for row in loads} == {loads[0][1]}
    assert "pois=900, stations=60" in loads[0][1]


def test_places_are_stored_once_and_go_when_they_are_replaced(opened: Database) -> None:
    left = "SELECT (SELECT count(*) FROM dbanon.poi), (SELECT count(*) FROM dbanon.cell)"
    for mode, pois, kept in (("create", 0, 0), ("append", 100, 100), ("append", 100, 0)):
        assert opened.synth("d", objects=20, pois=pois, stations=10, mode=mode).pois == kept
    assert fetch_rows(opened, left) == [(100, 10)]
    opened.synth("d", objects=20, stations=7, mode="replace")
    assert fetch_rows(opened, left) == [(0, 7)]


def test_a_run_on_generated_data_is_verified(opened: Database) -> None:
    opened.synth("d", objects=300, seed=1)
    assert opened.run("tp-aware", dataset="d", params={"k": 5}, seed=1).status == "verified"


def test_added_in_parts_it_is_the_same_as_made_at_once(opened: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    opened.synth("whole", objects=70, seed=3)
    monkeypatch.setattr(synth, "BATCH_FIXES", 100)
    opened.synth("parts", objects=50, seed=3)
    opened.synth("parts", objects=20, seed=3, mode="append")
    assert fetch_rows(opened, ROWS, 1) == fetch_rows(opened, ROWS, 2)
    common = SENT.replace("ORDER", "AND content->>'poi' NOT LIKE '% %' ORDER")
    assert fetch_rows(opened, common, 1) == fetch_rows(opened, common, 2)
    rare = "SELECT count(*) FROM dbanon.request WHERE dataset_id = {} AND content->>'poi' LIKE '% %'"
    assert fetch_rows(opened, rare, 2) == [(len(synth._requests.RARE_POIS),)]


def test_replacing_leaves_nothing_of_what_was_there(opened: Database) -> None:
    opened.synth("d", objects=70, seed=3)
    opened.synth("d", objects=10, seed=5, mode="replace", lon=-122.4, lat=37.7)
    fresh = opened.synth("fresh", objects=10, seed=5, lon=-122.4, lat=37.7)
    assert fetch_rows(opened, ROWS, 1) == fetch_rows(opened, ROWS, 2)
    assert fetch_rows(opened, SENT, 1) == fetch_rows(opened, SENT, 2)
    assert fetch_rows(opened, "SELECT DISTINCT srid FROM dbanon.dataset") == [(fresh.srid,)] == [(32610,)]


@pytest.mark.many
@pytest.mark.parametrize(
    ("dataset", "options", "facts"),
    [
        ("d", {}, ("'d'", "already")),
        ("e", {"mode": "append"}, ("'e'",)),
        ("e", {"mode": "replace"}, ("'e'",)),
        ("d", {"mode": "append", "lon": -122.0, "lat": 37.0}, ("'d'", "SRID 32632", 32610)),
        ("d", {"mode": "append", "grid_m": 7}, ("'d'", "grid_m 1", 7)),
        ("e", {"grid_m": -1}, ("--grid-m", -1)),
        (" ", {}, ("name", 200)),
        ("e", {"objects": 0}, ("--objects", 0)),
    ],
)
def test_a_dataset_that_does_not_fit_is_refused_and_nothing_changes(
    opened: Database, dataset: str, options: dict[str, Any], facts: tuple[object, ...]
) -> None:
    opened.synth("d", objects=5)
    before = count_tables(opened)
    with expect_refusal(ParameterError, *facts):
        opened.synth(dataset, **{"objects": 5, **options})
    assert count_tables(opened) == before


def test_a_network_in_no_metric_reference_system_is_refused(opened: Database, tmp_path: Path) -> None:
    (tmp_path / "n").write_text("id,x,y\n1,5,40\n2,5.1,40\n")
    (tmp_path / "e").write_text("from,to\n1,2\n")
    files = {"nodes": tmp_path / "n", "edges": tmp_path / "e"}
    for srid, fact in ((4326, "SRID 4326"), (999999, "spatial_ref_sys")):
        with expect_refusal(ParameterError, fact):
            opened.synth("d", srid=srid, **files)
    with expect_refusal(DataError, "missing", "exist"):
        opened.synth("d", nodes=tmp_path / "missing", edges=tmp_path / "e")
    assert count_tables(opened) == [0, 0, 0, 0]


def test_a_server_lost_in_the_middle_leaves_nothing(
    opened: Database, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synth, "BATCH_FIXES", 600)
    seen = []

    def stop(stage: str, done: int, total: int | None) -> None:
        seen.append(done)
        if done >= 60:
            with psycopg.connect(database, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s)", [opened.connection.info.backend_pid])

    opened.progress = stop
    with pytest.raises(StoreError):
        opened.synth("d", objects=200)
    assert max(seen) >= 60
    with open_database(database) as again:
        assert count_tables(again) == [0, 0, 0, 0]


def test_an_error_in_the_middle_of_a_replacement_keeps_what_was_there(
    opened: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.synth("d", objects=30, seed=3)
    before = fetch_rows(opened, ROWS), fetch_rows(opened, SENT), count_tables(opened)
    monkeypatch.setattr(synth, "BATCH_FIXES", 600)

    def stop(stage: str, done: int, total: int | None) -> None:
        if done >= 40:
            raise KeyboardInterrupt

    opened.progress = stop
    with pytest.raises(KeyboardInterrupt):
        opened.synth("d", objects=200, seed=5, mode="replace")
    assert (fetch_rows(opened, ROWS), fetch_rows(opened, SENT), count_tables(opened)) == before


def test_utm_agrees_with_postgis_to_a_micrometre(opened: Database, rng: np.random.Generator) -> None:
    lon, lat = rng.uniform(-180, 180, 200), rng.uniform(-79, 83, 200)
    for east, north in zip(lon.tolist(), lat.tolist(), strict=True):
        srid = _utm.find_zone(east, north)
        query = "SELECT ST_X(p), ST_Y(p) FROM ST_Transform(ST_SetSRID(ST_MakePoint(%s, %s), 4326), %s) p"
        theirs = opened.connection.execute(query, [east, north, srid]).fetchone()
        ours = _utm.to_metres(np.array([east]), np.array([north]), srid)
        assert (ours[0][0], ours[1][0]) == pytest.approx(theirs, abs=1e-6)


def test_paths_are_the_bytes_that_postgis_writes(opened: Database) -> None:
    xym = np.array([[1.5, -2, 10], [3, 4, 20.5], [5, 6, 7], [0, 0, 1], [1, 1, 2], [2, 2, 3]])
    made = binary_copy.encode_paths(xym, np.array([0, 2, 3, 6]), 32610).to_pylist()
    texts = ["LINESTRING M (1.5 -2 10,3 4 20.5)", "POINT M (5 6 7)", "LINESTRING M (0 0 1,1 1 2,2 2 3)"]
    query = "SELECT ST_AsEWKB(ST_GeomFromText(%s, 32610), 'NDR')"
    assert made == [opened.connection.execute(query, [text]).fetchone()[0] for text in texts]


def test_invented_people_are_not_added_to_real_ones(connection: psycopg.Connection, tmp_path: Path) -> None:
    file = tmp_path / "real.csv"
    file.write_text("subject,time,x,y\nanna,0,8.2,53.14\n")
    load.load_trajectories(connection, [file], LoadingTrajectories(time_unit="s", dataset="real", srid=32632))
    with expect_refusal(ParameterError, "generated", "real"):
        synth.fill_dataset(connection, "real", Generating(objects=5, mode="append"))
    assert connection.execute("SELECT count(*) FROM dbanon.trajectory").fetchone() == (1,)
