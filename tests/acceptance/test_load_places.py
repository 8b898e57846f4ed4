"""Places, stations, cells, requests and quasi-identifiers out of files of every kind, and of none."""

import json
import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
import pyogrio
import pytest
import shapely

from dbanon.database import open_database
from dbanon.load.formats import gis
from dbanon.postgres.server import Target
from dbanon.testing import cloned_database
from tests.acceptance.commands import Done, call, read_json, start, wait_for_end
from tests.acceptance.samples import START_S
from tests.clones import clone_of
from tests.facts import demand_refused

pytestmark = pytest.mark.db

WEST, SOUTH = 8.2, 53.1
SECRET = "ysolde"


def _make_square(i: int, side: float = 0.01) -> shapely.Polygon:
    return shapely.box(WEST + i * side, SOUTH, WEST + (i + 1) * side, SOUTH + side)


SQUARES = [_make_square(i) for i in range(3)]
POINTS = [shapely.Point(WEST + i * 0.01, SOUTH + i * i * 0.001) for i in range(6)]


def _write(path: Path, shapes: list[shapely.Geometry], *, crs: str | None = "EPSG:4326") -> Path:
    """Write shapes with a name each, in the kind of file that the path's suffix stands for."""
    driver = {".geojson": "GeoJSON", ".gpkg": "GPKG", ".shp": "ESRI Shapefile"}[path.suffix]
    names = np.array([f"{SECRET}{i}" for i in range(len(shapes))], object)
    pyogrio.raw.write(
        str(path), geometry=shapely.to_wkb(np.array(shapes, object)), field_data=[names], fields=["name"],
        driver=driver, crs=crs or "EPSG:4326", geometry_type=shapes[0].geom_type,
    )  # fmt: skip
    if crs is None:
        path.with_suffix(".prj").unlink()
    return path


def _write_geojson(path: Path, *geometries: object) -> Path:
    features = [{"type": "Feature", "properties": {"name": SECRET}, "geometry": geometry} for geometry in geometries]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


@pytest.fixture(scope="module")
def town_name(dbanon_server: Target, dbanon_template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Name of a database whose dataset 'town' has 400 people around the squares."""
    with cloned_database(dbanon_server, dbanon_template) as url:
        path = tmp_path_factory.mktemp("town") / "town.csv"
        where = np.random.default_rng(5).uniform((8.15, 53.05), (8.25, 53.15), (400, 2))
        rows = (f"s{i},{START_S},{x:.6f},{y:.6f}\n" for i, (x, y) in enumerate(where))
        path.write_text("subject,time,x,y\n" + "".join(rows))
        with open_database(url) as database:
            database.load_trajectories([path], dataset="town")
        yield psycopg.conninfo.conninfo_to_dict(url)["dbname"]


town = clone_of("town_name")


unchanged = clone_of("town_name", scope="module")
"""A database that commands refuse to change, for all of them."""


def _load(url: str, kind: str, path: Path, *options: str) -> Done:
    return call(url, "--json", "load", kind, str(path), "--dataset", "town", *options)


def _fetch_rows(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchall()


# ---- what is stored --------------------------------------------------------------------------------------------------


@pytest.mark.stress
@pytest.mark.many
@pytest.mark.parametrize("suffix", [".geojson", ".gpkg", ".shp"])
def test_cells_of_every_kind_of_file_are_stored_as_given(town: str, tmp_path: Path, suffix: str) -> None:
    done = _load(town, "cells", _write(tmp_path / f"cells{suffix}", [*SQUARES, SQUARES[0]]), "--name", "name")
    assert done.code == 0, done.stderr
    told = read_json(done)
    assert (told["read"], told["kept"], told["quarantined"]) == (4, 4, {})
    assert "overlap" in done.stderr  # the first square is there twice, under two names
    found = _fetch_rows(town, "SELECT name, round(ST_Area(geom)) FROM dbanon.cell ORDER BY cell_id")
    assert [name for name, _ in found] == [f"{SECRET}{i}" for i in range(4)]
    assert _fetch_rows(town, "SELECT source, kind, rows_kept FROM dbanon.load ORDER BY load_id DESC LIMIT 1") == [
        (str(tmp_path / f"cells{suffix}"), "cells", 4)
    ]


def test_cells_in_another_reference_system_are_reprojected(town: str, tmp_path: Path) -> None:
    square = shapely.box(446000, 5884000, 447000, 5885000)
    assert _load(town, "cells", _write(tmp_path / "metres.gpkg", [square], crs="EPSG:32632")).code == 0
    bare = _write(tmp_path / "bare.shp", [shapely.box(448000, 5884000, 449000, 5885000)], crs=None)
    assert _load(town, "cells", bare, "--crs", "EPSG:32632").code == 0
    assert _fetch_rows(town, "SELECT round(ST_Area(geom)) FROM dbanon.cell") == [(1e6,), (1e6,)]


@pytest.mark.stress
def test_a_layer_is_chosen_by_its_name(town: str, tmp_path: Path) -> None:
    path = tmp_path / "two.gpkg"
    for layer, shapes in (("cells", SQUARES), ("masts", POINTS)):
        pyogrio.raw.write(
            str(path), geometry=shapely.to_wkb(np.array(shapes, object)), field_data=[], fields=[], layer=layer,
            driver="GPKG", crs="EPSG:4326", geometry_type=shapes[0].geom_type, append=path.exists(),
        )  # fmt: skip
    refused = _load(town, "cells", path)
    assert refused.code == 3
    assert "cells, masts" in refused.sentence
    assert _load(town, "cells", path, "--layer", "cells").code == 0
    assert read_json(_load(town, "stations", path, "--layer", "masts", "--replace"))["kept"] == 6


def test_stations_of_a_table_and_of_a_geographic_file_make_the_same_cells(town: str, tmp_path: Path) -> None:
    csv = tmp_path / "masts.csv"
    csv.write_text("lon,lat,mast\n" + "".join(f"{p.x},{p.y},m{i}\n" for i, p in enumerate(POINTS)))
    assert _load(town, "stations", csv, "--x", "lon", "--y", "lat", "--name", "mast").code == 0
    query = "SELECT ST_AsText(ST_Normalize(geom)) FROM dbanon.cell ORDER BY 1"
    first = _fetch_rows(town, query)
    done = _load(town, "stations", _write(tmp_path / "masts.geojson", POINTS), "--replace")
    assert "in no cell" in done.stderr
    assert _fetch_rows(town, query) == first
    assert len(first) == 6


def test_stations_far_from_the_trajectories_are_reported_and_left_out_when_asked(town: str, tmp_path: Path) -> None:
    path = tmp_path / "masts.csv"
    path.write_text("x,y\n8.2,53.1\n8.21,53.11\n8.19,53.09\n8.2,-52.5\n10,-70\n")
    done = _load(town, "stations", path)
    assert (read_json(done)["kept"], read_json(done)["far"]) == (5, {"far-position": 2})
    assert "2 stations lie" in done.stderr
    assert "--drop-outliers" in done.stderr
    told = read_json(_load(town, "stations", path, "--replace", "--drop-outliers"))
    assert (told["kept"], told["far"], told["quarantined"]) == (3, {}, {"far-position": 2})


@pytest.mark.stress
def test_stations_divide_the_area_of_a_file(town: str, tmp_path: Path) -> None:
    area = _write(tmp_path / "area.gpkg", SQUARES[:2])
    done = _load(town, "stations", _write(tmp_path / "masts.gpkg", POINTS[:3]), "--area", str(area))
    assert done.code == 0, done.stderr
    sums = _fetch_rows(
        town,
        "SELECT round(sum(ST_Area(geom))), "
        "(SELECT round(ST_Area(ST_Transform(ST_MakeEnvelope(8.2, 53.1, 8.22, 53.11, 4326), 32632)))) FROM dbanon.cell",
    )
    assert sums[0][0] == sums[0][1]


@pytest.mark.stress
def test_points_of_interest_and_sites_come_from_geographic_files_too(town: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "places.geojson", POINTS)
    assert read_json(_load(town, "pois", path, "--category", "name"))["kept"] == 6
    assert read_json(_load(town, "sites", path, "--name", "name"))["kept"] == 6
    csv = tmp_path / "places.csv"
    csv.write_text("x,y,kind\n8.21,53.11,shop\n8.22,53.12,\n8.21,53.11,shop\n")
    told = read_json(_load(town, "pois", csv, "--category", "kind"))
    assert (told["kept"], told["quarantined"]) == (1, {"missing-category": 1, "duplicate-poi": 1})
    left = "SELECT line, content FROM dbanon.quarantine JOIN dbanon.load USING (load_id) WHERE kind = 'pois' ORDER BY 1"
    assert _fetch_rows(town, left) == [
        (3, {"x": "8.22", "y": "53.12", "kind": ""}),
        (4, {"x": "8.21", "y": "53.11", "kind": "shop"}),
    ]


def test_a_geometry_that_cannot_be_used_is_kept_aside_with_its_number(town: str, tmp_path: Path) -> None:
    ring = [[8.2, 53.1], [8.21, 53.1], [8.21, 53.11], [8.2, 53.1]]
    cases = {
        None: "missing-position",
        "empty": "missing-position",
        "point": "not-a-polygon",
        "bow": "invalid-polygon",
        "far": "position-out-of-range",
        "axes": "swapped-axes",
    }
    shapes = {
        "empty": {"type": "Polygon", "coordinates": []},
        "point": {"type": "Point", "coordinates": [8.2, 53.1]},
        "bow": {
            "type": "Polygon",
            "coordinates": [[[8.2, 53.1], [8.21, 53.11], [8.21, 53.1], [8.2, 53.11], [8.2, 53.1]]],
        },
        "far": {"type": "Polygon", "coordinates": [[[x + 300, y] for x, y in ring]]},
        "axes": {"type": "Polygon", "coordinates": [[[y, x] for x, y in ring]]},
    }
    good = {"type": "Polygon", "coordinates": [ring]}
    squares = [json.loads(shapely.to_geojson(square)) for square in SQUARES]
    path = _write_geojson(tmp_path / "mixed.geojson", good, *squares, *(shapes.get(str(case)) for case in cases))
    told = read_json(_load(town, "cells", path))
    assert told["kept"] == 4
    assert _fetch_rows(town, "SELECT line, reason FROM dbanon.quarantine ORDER BY line") == list(
        enumerate(cases.values(), 5)
    )


def test_quasi_identifiers_go_into_sets(town: str, tmp_path: Path) -> None:
    path, seen = tmp_path / "seen.csv", (("s1", 0), ("s1", 60), ("s2", 0), ("s1", 0), ("", 0))
    path.write_text("subject,time\n" + "".join(f"{who},{START_S + s}\n" for who, s in seen))
    told = read_json(_load(town, "quasi-identifiers", path))
    assert (told["kept"], told["subjects"], told["quarantined"]) == (
        3, 2, {"duplicate-quasi-identifier": 1, "missing-subject": 1}
    )  # fmt: skip
    assert read_json(_load(town, "quasi-identifiers", path, "--set", "cameras"))["kept"] == 3
    path.write_text("who,at\ns3,2008-06-04T08:00:00Z\n")
    options = ("--subject", "who", "--time", "at", "--set", "cameras", "--replace")
    assert read_json(_load(town, "quasi-identifiers", path, *options))["kept"] == 1
    assert _fetch_rows(town, "SELECT set_name, count(*) FROM dbanon.quasi_identifier GROUP BY 1 ORDER BY 1") == [
        ("cameras", 1),
        ("default", 3),
    ]


# ---- what is refused -------------------------------------------------------------------------------------------------


def _make_plain_database(path: Path) -> None:
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE places (x)")


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that no cells can be loaded from."""
    folder = tmp_path_factory.mktemp("bad")
    whole = _write(folder / "whole.geojson", SQUARES).read_bytes()
    (folder / "cut.geojson").write_bytes(whole[: len(whole) // 2])
    (folder / "open.geojson").write_bytes(whole.rstrip()[:-1])
    (folder / "object.json").write_text('{"a": 1}')
    (folder / "topology.json").write_text('{"type": "Topology", "objects": {}, "arcs": []}')
    (folder / "nothing.geojson").write_text('{"type": "FeatureCollection", "features": []}')
    (folder / "binary.gpkg").write_bytes(bytes(range(256)) * 40)
    (folder / "empty.gpkg").write_bytes(b"")
    _make_plain_database(folder / "plain.gpkg")
    packed = _write(folder / "whole.gpkg", SQUARES).read_bytes()
    (folder / "cut.gpkg").write_bytes(packed[:6000])
    (folder / "alone.shp").write_bytes(_write(folder / "whole.shp", SQUARES).read_bytes())
    (folder / "archive.zip").write_bytes(b"PK\x03\x04" + bytes(200))
    (folder / "remote.vrt").write_text("<OGRVRTDataSource><OGRVRTLayer name='a'/></OGRVRTDataSource>")
    _write(folder / "points.geojson", POINTS)
    _write(folder / "bare.shp", SQUARES, crs=None)
    _write(folder / "local.gpkg", SQUARES, crs="+proj=tmerc +lat_0=53.17 +lon_0=8.13 +k=1.07 +ellps=bessel +units=m")
    _write_geojson(folder / "null.geojson", None, {"type": "Polygon", "coordinates": []})
    (folder / "wrong!.geojson").write_bytes(whole)
    (folder / "table.csv").write_text("name,x\na,1\n")
    return folder


@pytest.mark.stress
@pytest.mark.parametrize(
    "case",
    [
        ("missing.geojson", (), 3, "missing.geojson"),
        (".", (), 3, "directory"),
        ("cut.geojson", (), 3, "cut.geojson"),
        ("open.geojson", (), 3, "open.geojson"),
        ("object.json", (), 3, "object.json"),
        ("topology.json", (), 3, "topology.json"),
        ("nothing.geojson", (), 3, "0 rows"),
        ("binary.gpkg", (), 3, "binary.gpkg"),
        ("empty.gpkg", (), 3, "empty"),
        ("plain.gpkg", (), 3, "plain.gpkg"),
        ("cut.gpkg", (), 3, "cut.gpkg"),
        ("alone.shp", (), 3, "alone.shp"),
        ("archive.zip", (), 3, "archive.zip"),
        ("remote.vrt", (), 3, "remote.vrt"),
        ("points.geojson", (), 3, "6 not-a-polygon"),
        ("null.geojson", (), 3, "2 missing-position"),
        ("wrong!.geojson", (), 3, "'!'"),
        ("table.csv", (), 3, "'geom'"),
        ("local.gpkg", (), 3, "EPSG"),
        ("bare.shp", (), 2, "--crs"),
        ("bare.shp", ("--crs", "EPSG:99999"), 2, "EPSG:99999"),
        ("whole.gpkg", ("--crs", "EPSG:32632"), 2, "EPSG:4326"),
        ("whole.gpkg", ("--layer", "others"), 3, "whole"),
        ("whole.gpkg", ("--name", "mast"), 3, "'mast'"),
        ("whole.gpkg", ("--geom", "shape"), 2, "--geom"),
        ("table.csv", ("--layer", "a"), 2, "--layer"),
    ],
)  # fmt: skip
def test_files_that_hold_no_cells_are_refused_in_one_sentence(
    unchanged: str, bad: Path, case: tuple[str, tuple[str, ...], int, str]
) -> None:
    name, options, code, fact = case
    done = _load(unchanged, "cells", bad / name, *options)
    assert done.code == code, done.stderr
    assert fact in done.sentence
    assert SECRET not in done.stderr
    assert "53.1" not in done.stderr.replace("53.17", "")
    assert _fetch_rows(unchanged, "SELECT count(*) FROM dbanon.cell") == [(0,)]


def _make_crs(name: object) -> dict[str, object]:
    return {"type": "name", "properties": {"name": name}}


@pytest.mark.many
@pytest.mark.parametrize(
    ("crs", "code"),
    [
        (_make_crs("urn:ogc:def:crs:EPSG::999999"), 3),
        (_make_crs("EPSG:rubbish"), 3),
        (_make_crs(7), 3),
        ({"type": "name", "properties": "EPSG:4326"}, 3),
        ({"type": "link", "properties": {"href": "http://127.0.0.1:9/crs"}}, 3),
        ("EPSG:4326", 3),
        (None, 3),
        (_make_crs("urn:ogc:def:crs:OGC:1.3:CRS84"), 0),
        (_make_crs("urn:ogc:def:crs:EPSG::4326"), 0),
    ],
)
def test_a_reference_system_that_a_geojson_names_must_be_known(
    town: str, tmp_path: Path, crs: object, code: int
) -> None:
    features = _write_geojson(
        tmp_path / "named.geojson", *(json.loads(shapely.to_geojson(square)) for square in SQUARES)
    )
    features.write_text(json.dumps(json.loads(features.read_text()) | {"crs": crs}))
    done = _load(town, "cells", features)
    assert done.code == code, done.stderr
    assert not code or ("'crs'" in done.sentence and "named.geojson" in done.sentence)


def test_a_reference_system_that_a_feature_names_counts_too(unchanged: str, tmp_path: Path) -> None:
    path = _write_geojson(tmp_path / "named.geojson", json.loads(shapely.to_geojson(SQUARES[0])))
    collection = json.loads(path.read_text())
    collection["features"][0]["crs"] = _make_crs("EPSG:32632")
    path.write_text(json.dumps(collection))
    done = _load(unchanged, "cells", path)
    assert (done.code, "'crs'" in done.sentence) == (3, True)


@pytest.mark.many
@pytest.mark.parametrize(
    "name", ["/vsicurl/http://127.0.0.1:9/x.geojson", "http://127.0.0.1:9/x.geojson", "GPKG:x.gpkg"]
)
@pytest.mark.parametrize("kind", ["cells", "stations", "sites", "pois"])
def test_addresses_are_names_of_files_that_are_not_there(unchanged: str, kind: str, name: str) -> None:
    options = ("--category", "kind") if kind == "pois" else ()
    done = call(unchanged, "load", kind, name, "--dataset", "town", *options)
    assert done.code == 3
    assert "exist" in done.sentence


def test_a_geographic_file_that_is_too_large_is_refused_before_it_is_read(
    unchanged: str, bad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gis, "MAX_FILE_BYTES", 100)
    done = _load(unchanged, "cells", bad / "whole.gpkg")
    assert (done.code, "MB" in done.sentence) == (3, True)


def _open_writer(pipe: Path) -> int | None:
    """Open a pipe to write, if a process reads it. It waits for what is written until all that was opened is closed."""
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # nobody reads it
        return None


@pytest.mark.stress
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_process_that_reads_a_file_ends_with_the_load(unchanged: str, tmp_path: Path, number: int) -> None:
    path = _write(tmp_path / "waits.shp", SQUARES)
    pipe = path.with_suffix(".dbf")
    pipe.unlink()
    os.mkfifo(pipe)
    process = start(unchanged, "load", "cells", str(path), "--dataset", "town")
    deadline = time.monotonic() + 60
    while (writer := _open_writer(pipe)) is None:
        assert process.poll() is None, wait_for_end(process).stderr
        assert time.monotonic() < deadline
        time.sleep(0.01)
    try:
        process.send_signal(number)
        done = wait_for_end(process)
        assert done.code == (-number if number == signal.SIGKILL else 128 + number)
        assert number == signal.SIGKILL or "undone" in done.sentence
        deadline = time.monotonic() + 30
        while (other := _open_writer(pipe)) is not None:
            os.close(other)
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        os.close(writer)


def test_a_geopackage_with_a_view_is_refused_before_it_is_asked(unchanged: str, bad: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(bad / "whole.gpkg", tmp_path / "view.gpkg"))
    with sqlite3.connect(path) as changed:
        changed.execute("CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i FROM n")
    changed.close()
    demand_refused(_load(unchanged, "cells", path), 3, "view.gpkg", "view")


@pytest.mark.many
@pytest.mark.parametrize(
    "case",
    [
        ("stations", "x,y\n", (), 3, "header"),
        ("stations", "x,y\nnan,1\n", (), 3, "1 non-finite-position"),
        ("stations", "x,y\n53.1,8.2\n53.2,8.2\n", (), 2, "--x y --y x"),
        ("stations", "x,y\n8.2,53.1\n", ("--area", "table.csv"), 3, "table.csv"),
        ("stations", "x,y\n8.2,53.1\n", ("--area", "nothing.geojson"), 3, "nothing.geojson"),
        ("stations", "x,y\n8.2,53.1\n", ("--area", "points.geojson"), 3, "points.geojson"),
        ("stations", "x,y\n9.9,53.1\n", ("--area", "whole.gpkg"), 3, "1 station"),
        ("stations", "x,y\n8.2,53.1\n", ("--x", "lon"), 3, "'lon'"),
        ("pois", "x,y\n8.2,53.1\n", ("--category", "kind"), 3, "'kind'"),
        ("pois", "x,y,kind\n8.2,53.1,\n", ("--category", "kind"), 3, "1 missing-category"),
        ("pois", "x,y,kind\n8.2,53.1,a\n", ("--category", "x"), 2, "'x'"),
        ("pois", "x,y,kind\n8.2,53.1,a\n", (), 2, "--category"),
        ("quasi-identifiers", "subject,time\ns1,never\n", (), 3, "1 unparsable-time"),
        ("quasi-identifiers", "subject,time\ns1,2008-06-04 08:00\n", (), 2, "--tz"),
        ("quasi-identifiers", "subject,time\ns1,1212566400\n", ("--set", " "), 2, "' '"),
        ("quasi-identifiers", "subject,time\ns1,1212566400\n", ("--set", "a\x1b"), 2, "visible characters"),
        ("quasi-identifiers", "subject,time\ns1,1212566400\n", ("--set", "a\u202eb"), 2, "'a?b'"),
        ("cells", "x,y\n8.2,53.1\n", (), 3, "right one (--name or --geom)"),
        ("stations", "x,y\n8.2,53.1\n", ("--area", "nowhere.gpkg"), 3, "must exist. There is no nowhere.gpkg"),
        ("stations", "x,y\n8.2,53.1\n", ("--area", "."), 3, "directory"),
        ("quasi-identifiers", "subject,time\ns1,1212566400\n", ("--time", "subject"), 2, "'subject'"),
        ("quasi-identifiers", "subject,time\ns1,1212566400\n", ("--subject", "who"), 3, "'who'"),
        ("cells", 'geom\n"POLYGON ((8.2 53.1, 8.3"\n', (), 3, "1 unparsable-position"),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_used_are_refused_in_one_sentence(
    unchanged: str, bad: Path, tmp_path: Path, case: tuple[str, str, tuple[str, ...], int, str]
) -> None:
    kind, rows, options, code, fact = case
    path = tmp_path / "rows.csv"
    path.write_text(rows)
    done = _load(unchanged, kind, path, *(str(bad / word) if (bad / word).is_file() else word for word in options))
    assert done.code == code, done.stderr
    assert fact in done.sentence if fact != "--category" else fact in done.stderr
    assert _fetch_rows(unchanged, "SELECT count(*) FROM dbanon.load WHERE kind <> 'trajectories'") == [(0,)]


@pytest.mark.many
@pytest.mark.parametrize("kind", ["cells", "stations", "pois", "quasi-identifiers"])
def test_a_dataset_that_is_not_there_is_named(unchanged: str, bad: Path, kind: str) -> None:
    options = ("--category", "name") if kind == "pois" else ()
    done = call(unchanged, "load", kind, str(bad / "whole.gpkg"), "--dataset", "twon", *options)
    assert (done.code, "'twon'" in done.sentence) == (2, True)
