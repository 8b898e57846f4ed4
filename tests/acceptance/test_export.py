"""Releases as files and frames, read with an analyst's login, and what is left where that fails: nothing."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import geopandas
import pandas as pd
import psycopg
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pyogrio
import pytest
import shapely

from dbanon.base import errors
from dbanon.database import Database, open_database
from dbanon.postgres import arrow
from dbanon.postgres.server import Target
from dbanon.testing import cloned_database, logins
from tests.acceptance.commands import call, demand_done, heed_signals, read_json, start, wait_for_end
from tests.facts import demand_named, demand_refused, expect_refusal

FIRST = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384));"
LIMITED = f"{FIRST} from dbanon.cli.main import main; main(sys.argv[1:])"
MEASURED = """
import atexit, sys
from dbanon.base import memory
from dbanon.cli.main import main
atexit.register(lambda: print(memory.measure_peak_mb()))
main(sys.argv[1:])"""
SLOW = ("--where", "pg_sleep(0.05) IS NOT NULL")
LARGE = """
    CREATE TABLE dbanon.release_999 AS SELECT i AS cloak_id, i / 30 AS record_id, (i % 30)::integer AS seq,
        tstzrange(t, t + interval '1 min') AS period,
        ST_MakeEnvelope(x, 0, x + 50, 70, 32632)::geometry(Polygon, 32632) AS region,
        5 AS crowd, 5 AS subjects, t AS valid_from, t + interval '1 min' AS valid_to, '[1]'::jsonb AS requests
    FROM generate_series(1::bigint, {rows}) i,
        LATERAL (SELECT timestamptz '2026-01-05 08:00Z' + i % 30 * interval '1 min' AS t, 440000 + i % 9999 AS x) p;
    CREATE VIEW published.large AS SELECT * FROM dbanon.release_999; COMMENT ON VIEW published.large IS 'Rows: many'"""
SUFFIXES = (".parquet", ".gpkg", ".fgb", ".csv", ".geojson")


@pytest.fixture
def analyst(anna: str) -> Iterator[Database]:
    with open_database(anna) as database:
        yield database


def read_view(url: str, name: str) -> tuple[pd.DataFrame, str]:
    """The view as psycopg reads it, with the region as WKB, and its promise."""
    with psycopg.connect(url) as connection:
        found = connection.execute(f"SELECT *, ST_AsBinary(region) AS wkb FROM published.{name} ORDER BY cloak_id")
        names = [column.name for column in found.description or ()]
        rows = pd.DataFrame(found.fetchall(), columns=names)
        promise = connection.execute(f"SELECT obj_description('published.{name}'::regclass)").fetchone()
    rows["region"] = shapely.from_wkb(rows.pop("wkb").map(bytes))
    return rows.drop(columns="period", errors="ignore"), promise[0] if promise else ""


def read_back(file: Path) -> tuple[pd.DataFrame, str]:
    """Read a file as its readers do, and the promise in it."""
    match file.suffix:
        case ".parquet":
            rows, about = geopandas.read_parquet(file), pq.read_schema(file).metadata
            promise = about[b"description"].decode()
        case ".csv":
            rows, promise = pacsv.read_csv(file).to_pandas(), file.with_name(f"{file.name}.txt").read_text()[:-1]
            rows["region"] = shapely.from_wkt(rows["region"])
        case ".geojson":
            told = json.loads(file.read_text())
            found = [
                {**one["properties"], "region": shapely.geometry.shape(one["geometry"])} for one in told["features"]
            ]
            rows, promise = pd.DataFrame(found), told["description"]
        case _:
            rows, promise = geopandas.read_file(file), pyogrio.read_info(file)["layer_metadata"]["DESCRIPTION"]
            rows = rows.rename_geometry("region").sort_values("cloak_id").reset_index(drop=True)
    return pd.DataFrame(rows), promise


def demand_same(found: pd.DataFrame, expected: pd.DataFrame, *, in_degrees: bool = False) -> None:
    assert set(found.columns) == set(expected.columns)
    assert len(found) == len(expected)
    for name in expected.columns:
        values, wanted = found[name], expected[name]
        if name == "region" and in_degrees:
            metres = geopandas.GeoSeries(values.to_list(), crs=4326).to_crs(32632).to_numpy()
            assert (shapely.hausdorff_distance(metres, wanted.to_numpy()) < 0.02).all()
        elif name == "region":
            assert shapely.equals_exact(values.to_numpy(), wanted.to_numpy()).all()
        elif name == "requests":
            assert [json.loads(one) if isinstance(one, str) else one for one in values] == list(wanted)
        elif name.startswith("valid_"):
            assert (pd.to_datetime(values, utc=True) == pd.to_datetime(wanted, utc=True)).all()
        else:
            assert values.to_list() == wanted.to_list()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", ["city_k5", "city_sites"])
def test_a_file_holds_the_rows_of_the_view_and_its_promise(
    anna: str, city: str, tmp_path: Path, name: str, suffix: str
) -> None:
    file = tmp_path / f"release{suffix}"
    done = demand_done(call(anna, "export", name, str(file), "--json"))
    expected, promise = read_view(city, name)
    assert read_json(done) == {"release": name, "file": str(file), "rows": len(expected)}
    found, said = read_back(file)
    demand_same(found, expected, in_degrees=suffix == ".geojson")
    assert promise.startswith("Rows: ")
    assert said == promise
    beside = {f"{file.name}.txt"} if suffix == ".csv" else set()
    assert {one.name for one in tmp_path.iterdir()} == {file.name} | beside


def test_a_frame_holds_the_rows_of_the_view_and_its_promise(analyst: Database, city: str) -> None:
    frame = analyst.read("city_sites")
    expected, promise = read_view(city, "city_sites")
    demand_same(pd.DataFrame(frame), expected)
    assert list(frame.columns) == list(expected.columns)
    assert frame.crs.to_epsg() == 32632
    holds = {"holds": "instant", "step_s": None, "guest_presence": 0, "srid": 32632}
    assert frame.attrs == {"release": "city_sites", "promise": promise, **holds}


def test_a_frame_of_all_columns_goes_to_parquet_and_json(city: str, tmp_path: Path) -> None:
    with psycopg.connect(city) as connection:
        found = connection.execute("SELECT * FROM published.city_k5")
        rows = pd.DataFrame(found.fetchall(), columns=[column.name for column in found.description or ()])
    rows.to_parquet(tmp_path / "all.parquet")
    assert (
        len(json.loads(rows.to_json(date_format="iso")))
        == len(pq.read_schema(tmp_path / "all.parquet").names)
        == len(rows.columns)
    )


def test_the_files_name_the_reference_system_and_the_type_of_their_regions(analyst: Database, tmp_path: Path) -> None:
    for suffix in SUFFIXES[:3]:
        analyst.export("city_k5", tmp_path / f"release{suffix}")
    for suffix in SUFFIXES[1:3]:
        info = pyogrio.read_info(tmp_path / f"release{suffix}")
        assert (info["crs"], info["geometry_type"], info["layer_name"] != "") == ("EPSG:32632", "Polygon", True)
    geo = json.loads(pq.read_schema(tmp_path / "release.parquet").metadata[b"geo"])
    assert geo["version"] == "1.1.0"
    assert geo["columns"][geo["primary_column"]]["crs"]["id"] == {"authority": "EPSG", "code": 32632}
    assert geo["columns"]["region"]["geometry_types"] == ["Polygon"]


def test_conditions_take_values_and_the_functions_of_postgis(analyst: Database, city: str, tmp_path: Path) -> None:
    rows = read_view(city, "city_k5")[0]
    large = rows[rows["crowd"] > 5]
    assert len(analyst.read("city_k5", where="crowd > %s", params=[5])) == len(large) > 0
    assert len(analyst.read("city_k5", where="crowd > %(k)s -- or so", params={"k": 5})) == len(large)
    assert len(analyst.read("city_k5", where="crowd % 2 = 0")) == sum(rows["crowd"] % 2 == 0)
    box = shapely.box(*rows["region"][0].bounds)
    near = "ST_Intersects(region, ST_GeomFromText(%s, 32632)) AND region && ST_GeomFromText(%s, 32632)"
    assert 0 < len(analyst.read("city_k5", where=near, params=[box.wkt] * 2)) < len(rows)
    assert analyst.export("city_k5", tmp_path / "few.csv", where="seq = 1 OR seq = 2") == sum(rows["seq"] <= 2)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_rows_are_a_file_too(analyst: Database, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"none{suffix}"
    assert analyst.export("city_k5", file, where="false") == 0
    assert len(read_back(file)[0]) == 0
    assert list(analyst.read("city_k5", where="false").columns) == list(analyst.read("city_k5").columns)


REFUSED = {
    "absent": ("city_k6", (), "city_k6", "city_k5"),
    "a list of releases": ("left_out", (), "left_out"),
    "a name with quotes": ("city_k5; DROP", (), "DROP"),
    "no such column": ("city_k5", ("--where", "crwd > 5"), "crwd"),
    "brackets alone": ("city_k5", ("--where", "()"), ")"),
    "two statements": ("city_k5", ("--where", "true); RESET ROLE; SELECT (1"), ";"),
    "a division by zero": ("city_k5", ("--where", "1 / (cloak_id - 7) <> 1"), "22012"),
    "a private table": ("city_k5", ("--where", "EXISTS (SELECT FROM dbanon.fix)"), "dbanon"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("user", ["anna", "city"])
def test_what_may_not_be_read_leaves_no_file(
    request: pytest.FixtureRequest, user: str, tmp_path: Path, case: str
) -> None:
    name, options, *facts = REFUSED[case]
    done = call(request.getfixturevalue(user), "export", name, str(tmp_path / "it.gpkg"), *options)
    demand_refused(done, 2, *facts)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_ending_place_or_number_of_values_is_refused(analyst: Database, tmp_path: Path) -> None:
    with pytest.raises(errors.ParameterError, match=r"it\.shp"):
        analyst.export("city_k5", tmp_path / "it.shp")
    with pytest.raises(errors.DataError, match="No such file"):
        analyst.export("city_k5", tmp_path / "absent" / "it.gpkg")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(errors.DataError, match="directory"):
        analyst.export("city_k5", tmp_path / "folder.csv")
    for values in ([1, 2], [], {"k": 1}):
        with pytest.raises(errors.ParameterError, match="placeholder"):
            analyst.read("city_k5", where="crowd > %s", params=values)
    with pytest.raises(errors.ParameterError, match="where"):
        analyst.read("city_k5", params=[5])
    assert [one.name for one in tmp_path.iterdir()] == ["folder.csv"]


def test_a_reader_of_a_role_reads_its_release_and_an_analyst_does_not(
    dbanon_server: Target, city_template: tuple[str, int], tmp_path: Path
) -> None:
    with cloned_database(dbanon_server, city_template[0]) as url, logins(url) as login:
        carl, anna = login("pg_monitor"), login("analyst")  # any role will do
        with open_database(url) as owner:
            owner.publish(city_template[1], "for_few", readers=["pg_monitor"])
            assert len(owner.read("for_few")) > 0
        assert call(carl, "export", "for_few", str(tmp_path / "few.csv")).code == 0
        demand_refused(call(anna, "export", "for_few", str(tmp_path / "it.csv")), 2, "for_few")
        with open_database(url) as owner, open_database(anna) as reader:
            owner.unpublish("for_few")
            owner.publish(city_template[1], "for_all")
            assert len(reader.read("for_all")) > 0
            owner.unpublish("for_all")
            with pytest.raises(errors.ParameterError, match="for_all"):
                reader.read("for_all")


def test_an_analyst_can_do_nothing_else_with_dbanon(anna: str) -> None:
    for words in (("runs",), ("releases",), ("card", "city_k5"), ("unpublish", "city_k5"), ("datasets",)):
        assert call(anna, *words).code == 1, words


@pytest.mark.stress
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_without_room_what_was_there_stays_and_nothing_half_is_left(anna: str, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"release{suffix}"
    file.write_text("as it was")
    command = [sys.executable, "-c", LIMITED, "--dsn", anna, "export", "city_k5", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    demand_named(done.stderr, tmp_path, "room")
    assert "Traceback" not in done.stderr
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [(file.name, "as it was")]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_error_of_the_server_amid_the_rows_is_reported_as_such(
    analyst: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(arrow, "_BATCH_BYTES", 20_000)
    with expect_refusal(errors.ParameterError, "22012"):
        analyst.export("city_k5", tmp_path / f"release{suffix}", where="1 / (cloak_id - 800) <> 1")
    assert list(tmp_path.iterdir()) == []
    assert len(analyst.read("city_k5")) > 800


@pytest.mark.stress
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("batch", [20_000, 1 << 22])
def test_an_interrupted_export_leaves_nothing(anna: str, city: str, tmp_path: Path, suffix: str, batch: int) -> None:
    program = (
        "import sys; from dbanon.cli.main import main; from dbanon.postgres import arrow; "
        f"arrow._BATCH_BYTES = {batch}; main(sys.argv[1:])"
    )
    words = ["--dsn", anna, "export", "city_k5", str(tmp_path / f"release{suffix}"), *SLOW]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_signals,  # noqa: PLW1509 - there are no threads here
    )
    wait_for_rows(city, tmp_path)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert (process.returncode, "Traceback" in said, said.count("dbanon: ")) == (130, False, 1), said
    assert list(tmp_path.iterdir()) == []


def wait_for_rows(url: str, folder: Path) -> None:
    """Wait until a slow export is being read, and its file begun."""
    with psycopg.connect(url, autocommit=True) as connection:
        reading = "SELECT FROM pg_stat_activity WHERE query LIKE 'COPY%pg_sleep%' AND datname = current_database()"
        while not (connection.execute(reading).fetchall() and list(folder.iterdir())):
            time.sleep(0.05)


@pytest.mark.stress
def test_a_release_that_is_withdrawn_amid_its_rows_leaves_nothing(
    dbanon_server: Target, city_template: tuple[str, int], tmp_path: Path
) -> None:
    with cloned_database(dbanon_server, city_template[0]) as url, logins(url) as login:
        with open_database(url) as owner:
            owner.publish(city_template[1], "brief")
            process = start(login("analyst"), "export", "brief", str(tmp_path / "brief.gpkg"), *SLOW)
            wait_for_rows(url, tmp_path)
            owner.unpublish("brief", end_readers=True)
        demand_refused(wait_for_end(process), 1, "lost")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.stress
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_memory_hardly_grows_with_the_rows(database: str, tmp_path: Path, suffix: str) -> None:
    peak = []
    for rows in (20_000, 200_000):
        with psycopg.connect(database, autocommit=True) as owner:
            owner.execute("DROP TABLE IF EXISTS dbanon.release_999 CASCADE")
            owner.execute(LARGE.format(rows=rows))
        command = [sys.executable, "-c", MEASURED, "--dsn", database, "export", "large", str(tmp_path / f"it{suffix}")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peak.append(float(done.stdout.split()[-1]))
    assert peak[1] < peak[0] + 100, peak  # megabytes: FlatGeobuf's index takes most, and a million rows stay below 1 GB
