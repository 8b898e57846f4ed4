"""Geographic files that would hold a reader for ever, fill its memory or lie: each is refused in one sentence."""

import json
import os
import shutil
import sqlite3
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyogrio
import pytest
import shapely

from dbanon.base.errors import DataError
from dbanon.load.formats import gis
from tests.facts import expect_refusal

COUNT = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
ROWS = f"AS {COUNT} SELECT i AS fid, geom, name FROM n JOIN real_places"
SPIN = f"{ROWS} WHERE i < 0"
SLOW = "hex(zeroblob(5000)) LIKE '%0%0%0%0%0%1'"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GeoPackage as GDAL writes it: with triggers and a spatial index."""
    path = tmp_path_factory.mktemp("honest") / "places.gpkg"
    points = shapely.to_wkb(np.array([shapely.Point(8.2 + i, 53.1) for i in range(3)], object))
    pyogrio.raw.write(
        str(path), geometry=points, field_data=[np.array(["a", "b", "c"], object)], fields=["name"], layer="places",
        driver="GPKG", crs="EPSG:4326", geometry_type="Point",
    )  # fmt: skip
    return path


@pytest.fixture
def package(honest: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(honest, tmp_path / "places.gpkg"))


def _change(path: Path, *statements: str) -> None:
    changed = sqlite3.connect(path, isolation_level=None)
    for statement in ("PRAGMA synchronous = off", *statements):
        changed.execute(statement)
    changed.close()


def _rename(path: Path, table: str, new: str) -> None:
    """Rename a table without its triggers, which name it."""
    with sqlite3.connect(path) as opened:
        triggers = opened.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    opened.close()
    drops = [f'DROP TRIGGER "{name}"' for (name,) in triggers]
    _change(path, "PRAGMA legacy_alter_table = on", *drops, f"ALTER TABLE {table} RENAME TO {new}")


def _read(path: Path, label: str | None = "name") -> int:
    return sum(
        len(part) for part in gis.read_features(path, layer=None, columns=[] if label is None else [label]).parts
    )


# ---- GeoPackage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "view",
    [
        f"CREATE VIEW places {SPIN}",
        f"CREATE VIEW places {ROWS}",
        "CREATE VIEW places AS SELECT fid, geom, hex(zeroblob(400000000)) AS name FROM real_places",
        f'CREATE VIEW "PLACES" {SPIN}',
        f"CREATE VIEW [places] {SPIN}",
    ],
)
def test_a_layer_that_is_a_view_is_refused(package: Path, view: str) -> None:
    _rename(package, "places", "real_places")
    _change(package, view)
    with expect_refusal(DataError, "places.gpkg", "view"):
        _read(package)


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE VIEW other AS {COUNT} SELECT i FROM n WHERE i < 0",  # GDAL runs it although nothing names it
        "CREATE VIRTUAL TABLE words USING fts4(word)",
        'CREATE VIRTUAL TABLE "x USING rtree(" USING fts4(word)',
        'CREATE VIRTUAL TABLE "x"" USING rtree(" USING fts4(word)',
        "INSERT INTO sqlite_master VALUES ('table', 'far', 'far', 0,"
        " 'CREATE VIRTUAL TABLE far USING VirtualOGR(\"/vsicurl/http://127.0.0.1:9/x.geojson\")')",
        "INSERT INTO sqlite_master VALUES ('table', 'pages', 'pages', 0, 'CREATE VIRTUAL TABLE pages USING dbstat')",
        "INSERT INTO sqlite_master VALUES ('view', 'v', 'v', 0, 'create/**/view v AS SELECT 1')",
    ],
)
def test_what_a_geopackage_computes_is_refused_whether_or_not_it_is_a_layer(package: Path, statement: str) -> None:
    _change(package, "PRAGMA writable_schema = on", statement)
    with expect_refusal(DataError, "places.gpkg", "view"):
        _read(package)


@pytest.mark.parametrize("table", ["gpkg_contents", "gpkg_geometry_columns", "gpkg_spatial_ref_sys"])
def test_a_table_that_describes_layers_must_not_be_a_view(package: Path, table: str) -> None:
    _rename(package, table, "real_rows")
    _change(package, f"CREATE VIEW {table} AS {COUNT} SELECT r.* FROM n JOIN real_rows r WHERE i < 0")
    with expect_refusal(DataError, "places.gpkg", "view"):
        _read(package)


@pytest.mark.parametrize("page", [0, 2])
def test_a_view_that_calls_itself_a_table_is_refused(package: Path, page: int) -> None:
    _rename(package, "places", "real_places")
    update = f"UPDATE sqlite_master SET type = 'table', rootpage = {page} WHERE name = 'places'"
    _change(package, f"CREATE VIEW places {SPIN}", "PRAGMA writable_schema = on", update)
    with expect_refusal(DataError, "places.gpkg", "whole"):
        _read(package)


@pytest.mark.parametrize("hostile", [True, False])
def test_changes_that_lie_beside_a_geopackage_are_part_of_it(package: Path, tmp_path: Path, hostile: bool) -> None:
    opened = sqlite3.connect(package, isolation_level=None)
    opened.execute("PRAGMA journal_mode = wal")
    opened.execute(f"CREATE VIEW other AS {COUNT} SELECT i FROM n" if hostile else "CREATE TABLE more (x)")
    (tmp_path / "copy").mkdir()
    for ending in ("", "-wal"):
        shutil.copy(f"{package}{ending}", tmp_path / "copy")
    opened.close()
    copy = tmp_path / "copy" / package.name
    if hostile:
        with expect_refusal(DataError, "places.gpkg", "view"):
            _read(copy)
    else:
        assert _read(copy) == 3


def test_triggers_indexes_and_columns_that_are_computed_are_no_views(package: Path) -> None:
    _change(
        package,
        "CREATE TABLE notes (x UNIQUE)",
        "CREATE UNIQUE INDEX unique_notes ON notes (x)",
        "ALTER TABLE places ADD COLUMN loud TEXT GENERATED ALWAYS AS (upper(name)) VIRTUAL",
    )
    assert _read(package, "loud") == 3


def test_an_archive_that_begins_as_another_file_is_not_unpacked(package: Path, tmp_path: Path) -> None:
    for ending in ("zip", "shz", "SHZ"):
        with expect_refusal(DataError, f"places.{ending}"):
            _read(Path(shutil.copy(package, tmp_path / f"places.{ending}")))


# ---- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.stress
def test_a_file_that_takes_too_long_is_given_up(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gis.LIMITS, "cpu_s", 1)
    _change(package, f"ALTER TABLE places ADD COLUMN slow TEXT GENERATED ALWAYS AS ({SLOW}) VIRTUAL")
    with expect_refusal(DataError, "places.gpkg", "1 s"):
        _read(package, "slow")


@pytest.mark.stress
def test_a_file_that_waits_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gis.LIMITS, "time_s", 3)
    path = _write_shapefile(tmp_path)
    path.with_suffix(".dbf").unlink()
    os.mkfifo(path.with_suffix(".dbf"))
    with expect_refusal(DataError, "places.shp", "3 s"):
        _read(path)


def test_a_file_that_holds_too_much_is_refused(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 50_000
    _change(package, f"ALTER TABLE places ADD COLUMN big TEXT GENERATED ALWAYS AS (hex(zeroblob({size}))) VIRTUAL")
    monkeypatch.setitem(gis.LIMITS, "output_bytes", 5 * size)
    with expect_refusal(DataError, "places.gpkg", "MB"):
        _read(package, "big")


# ---- GeoJSON ---------------------------------------------------------------------------------------------------------


NESTING_DEPTH = 100_000
PLACE = '{"type": "FeatureCollection", %s"features": [{"type": "Feature", "properties": {"name": %s}, "geometry": %s}]}'


@pytest.mark.stress
@pytest.mark.parametrize(
    "text",
    [
        PLACE % ("", '"a"', '{"type": "Polygon", "coordinates": ' + "[" * NESTING_DEPTH + "]" * NESTING_DEPTH + "}"),
        PLACE
        % (
            '"crs": null, ',
            '"a"',
            '{"type": "Polygon", "coordinates": ' + "[" * NESTING_DEPTH + "]" * NESTING_DEPTH + "}",
        ),
        PLACE % ("", "[" * NESTING_DEPTH + "]" * NESTING_DEPTH, "null"),
        PLACE % ("", '"a"', '{"type": "GeometryCollection", "geometries": [' * NESTING_DEPTH + "]}" * NESTING_DEPTH),
        PLACE % ("", '"a"', '{"type": "Point", "coordinates": [1e309, 1]}'),
        PLACE % ("", '"a"', '{"type": "Point", "coordinates": [' + "9" * NESTING_DEPTH + ", 1]}"),
        '{"type": "FeatureCollection", "features": ' + "[" * NESTING_DEPTH,
    ],
    ids=["coordinates", "coordinates beside crs", "name", "collections", "infinite", "digits", "never closed"],
)
def test_geojson_of_no_sensible_depth_or_number_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "places.geojson").write_text(text)
    with expect_refusal(DataError, "places.geojson", "whole"):
        _read(tmp_path / "places.geojson")


@pytest.mark.stress
def test_a_geometry_that_is_too_large_is_refused_for_its_size(tmp_path: Path) -> None:
    line = json.dumps([[1, 2]] * 2_000_000)
    (tmp_path / "places.geojson").write_text(PLACE % ("", '"a"', f'{{"type": "LineString", "coordinates": {line}}}'))
    with expect_refusal(DataError, "places.geojson", "memory"):
        _read(tmp_path / "places.geojson")


# ---- Shapefile -------------------------------------------------------------------------------------------------------


def _put(path: Path, at: int, form: str, number: int) -> None:
    data = bytearray(path.read_bytes())
    struct.pack_into(form, data, at, number)
    path.write_bytes(data)


def _write_shapefile(folder: Path) -> Path:
    path = folder / "places.shp"
    square = shapely.to_wkb(np.array([shapely.box(8.2, 53.1, 8.3, 53.2)] * 3, object))
    pyogrio.raw.write(
        str(path), geometry=square, field_data=[np.array(["a", "b", "c"], object)], fields=["name"],
        driver="ESRI Shapefile", crs="EPSG:4326", geometry_type="Polygon",
    )  # fmt: skip
    return path


MAX_INT32, RECORD = 2**31 - 1, 100 + 8 + 128  # of three squares, the second one
LIES = {
    "the length of the file": (".shp", 24, ">i", MAX_INT32),
    "the length of a record": (".shp", RECORD + 4, ">i", MAX_INT32),
    "a length below nothing": (".shp", RECORD + 4, ">i", -5),
    "the parts of a shape": (".shp", RECORD + 8 + 36, "<i", MAX_INT32),
    "the corners of a shape": (".shp", RECORD + 8 + 40, "<i", MAX_INT32),
    "the length of the index": (".shx", 24, ">i", MAX_INT32),
    "where a record is": (".shx", 108, ">i", MAX_INT32 // 2),
    "the number of rows": (".dbf", 4, "<I", 2**32 - 1),
    "the length of a row": (".dbf", 10, "<H", 65535),
    "the length of a header": (".dbf", 8, "<H", 65535),
}


@pytest.mark.stress
@pytest.mark.parametrize("lie", LIES)
def test_a_shapefile_that_lies_is_refused_or_has_no_more_rows_than_there_are(tmp_path: Path, lie: str) -> None:
    path = _write_shapefile(tmp_path)
    ending, at, form, number = LIES[lie]
    _put(path.with_suffix(ending), at, form, number)
    with suppress(DataError):
        assert _read(path) <= 3
