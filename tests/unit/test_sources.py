"""What can be loaded, before a database sees it: tables in memory, geometries, tracks, moving features."""

import gzip
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import geopandas as gpd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from dbanon.base.errors import DataError, ParameterError
from dbanon.load import _geometry, _parse, _sources, _trajectories
from dbanon.load.formats import arrow
from dbanon.options.loading import LoadingTrajectories
from tests.facts import expect_refusal

PEOPLE = {"subject": ["a", "b"], "time": [0, 60], "x": [8.2, 8.3], "y": [53.1, 53.2]}
PLACES = [shapely.Point(8.2, 53.1), shapely.Point(8.3, 53.2)]
HEAD = "Geolife trajectory\nWGS 84\nAltitude is in Feet\nReserved 3\n0,2,255,My Track,0,0,2,8421376\n0\n"
POINT = "53.1,8.2,0,492,39744.12,2008-10-23,02:53:04\n"
GPX = '<?xml version="1.0"?><gpx version="1.1" creator="t" xmlns="http://www.topografix.com/GPX/1/1">{}</gpx>'
TRACK = '<trk><trkseg><trkpt lat="53.1" lon="8.2"><time>2008-10-23T02:53:04Z</time></trkpt></trkseg></trk>'
UNTIMED = '<trk><trkseg><trkpt lat="53.1" lon="8.2"/></trkseg></trk>'


def _read(given: Any, *names: str, geometry: str | None = None) -> dict[str, list[Any]]:
    wanted = _sources.Wanted("--x", geometry=geometry)
    parts = list(_sources.open_fixes(given).read_batches(names, wanted))
    return {name: [cell for part in parts for cell in part.columns[name].to_pylist()] for name in names}


def _list_points(wkb: Any) -> list[tuple[Any, Any]]:
    x, y = _geometry.read_points(pa.array(wkb, pa.binary()))
    return list(zip(x.to_pylist(), y.to_pylist(), strict=True))


def _prepare_fixes(*given: Any, **options: Any) -> _trajectories.Fixes:
    return _trajectories.prepare_fixes(list(given), LoadingTrajectories(dataset="d", **options))


# ---- tables in memory ------------------------------------------------------------------------------------------------

FRAMES = {
    "pyarrow table": lambda: pa.table(PEOPLE),
    "pyarrow batch": lambda: pa.RecordBatch.from_pydict(PEOPLE),
    "pyarrow reader": lambda: pa.table(PEOPLE).to_reader(),
    "pandas": lambda: pd.DataFrame(PEOPLE),
    "pandas categories": lambda: pd.DataFrame(PEOPLE).astype({"subject": "category"}),
    "polars": lambda: pl.DataFrame(PEOPLE),
    "polars categories": lambda: pl.DataFrame(PEOPLE, schema_overrides={"subject": pl.Categorical}),
    "views of texts": lambda: pa.table(PEOPLE | {"subject": pa.array(["a", "b"], pa.string_view())}),
    "categories of views": lambda: pa.table(
        PEOPLE
        | {
            "subject": pa.DictionaryArray.from_arrays(
                pa.array([0, 1], pa.uint32()), pa.array(["a", "b"], pa.string_view())
            )
        }
    ),
    "run-end encoded": lambda: pa.table(
        PEOPLE | {"subject": pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array(["a", "b"]))}
    ),
    "duckdb": lambda: duckdb.sql(
        "SELECT * FROM (VALUES ('a', 0, 8.2, 53.1), ('b', 60, 8.3, 53.2)) t (subject, time, x, y)"
    ),
}


@pytest.mark.parametrize("frame", FRAMES)
def test_a_table_in_memory_is_read_as_it_is(frame: str) -> None:
    read = _read(FRAMES[frame](), "subject", "time", "x", "y")
    assert {name: [str(cell) for cell in cells] for name, cells in read.items()} == {
        name: [str(cell) for cell in cells] for name, cells in PEOPLE.items()
    }


def test_lines_and_areas_are_told_from_points_and_from_other_bytes() -> None:
    shapes = [shapely.LineString([(0, 0), (1, 1)]), shapely.box(0, 0, 1, 1), shapely.LineString([(0, 0, 1), (1, 1, 1)])]
    written = [shapely.to_wkb(shape, byte_order=order) for order, shape in zip((0, 1, 1), shapes, strict=True)]
    assert _geometry.are_other_shapes(pa.array([*written, None], pa.binary()))
    for others in ([], [None], [*written, shapely.to_wkb(PLACES[0])], [b"what is this"], [*written, b"\7what"]):
        assert not _geometry.are_other_shapes(pa.array(others, pa.binary()))


def test_a_stream_is_read_batch_by_batch_and_cut_into_bounded_slices() -> None:
    schema = pa.schema([("x", pa.float64())])
    made = [0]

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(4):
            made[0] += 1
            yield pa.record_batch([np.zeros(arrow.ROWS_PER_SLICE + 1)], schema=schema)

    source = _sources.open_table(pa.RecordBatchReader.from_batches(schema, batches()))
    seen = []
    for batch in source.read_batches(["x"], _sources.Wanted("--x")):
        seen.append((len(batch), made[0]))
        assert batch.line[0].as_py() == 1 + sum(rows for rows, _ in seen[:-1])
    assert sum(rows for rows, _ in seen) == 4 * (arrow.ROWS_PER_SLICE + 1)
    assert max(rows for rows, _ in seen) <= arrow.ROWS_PER_SLICE + 1
    assert seen[0][1] < 4


def test_a_column_whose_encoding_changes_between_batches_is_read() -> None:
    shared = pa.array(["a", "a"]).dictionary_encode()
    table = pa.Table.from_batches(
        [pa.record_batch({"s": shared}), pa.record_batch({"s": pa.array(["b"]).dictionary_encode()})]
    )
    assert _read(table, "s") == {"s": ["a", "a", "b"]}


@pytest.mark.parametrize("given", [5, None, [1, 2], {"x": 1}, np.zeros(3)], ids=repr)
def test_what_is_neither_a_path_nor_a_table_is_told_what_may_be_given(given: Any) -> None:
    with expect_refusal(ParameterError, "__arrow_c_stream__", "pandas", "DuckDB", type(given).__name__):
        _sources.open_table(given)


def _make_failing() -> pa.RecordBatchReader:
    schema = pa.schema([("x", pa.float64())])

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([np.zeros(arrow.ROWS_PER_SLICE)], schema=schema)
        raise ValueError("ysolde was here")

    return pa.RecordBatchReader.from_batches(schema, batches())


def _read_before() -> pa.RecordBatchReader:
    reader = pa.table({"x": [1.0]}).to_reader()
    reader.read_all()
    return reader


REFUSED = {
    "empty": (lambda: pa.table({"x": pa.array([], "f8")}), ("pyarrow.Table", "none")),
    "without the column": (lambda: pd.DataFrame({"lon": [1.0]}), ("pandas.DataFrame", "'x'", "lon", "--x")),
    "structures": (lambda: pa.table({"x": [{"lon": 1.0}]}), ("pyarrow.Table", "'x'", "structures")),
    "lists": (lambda: pa.table({"x": [[1.0]]}), ("'x'", "lists")),
    "durations": (lambda: pa.table({"x": pa.array([1], pa.duration("s"))}), ("'x'", "duration[s]")),
    "texts that are none": (lambda: pa.table({"x": pa.array([b"\xff"]).view(pa.string())}), ("'x'", "UTF-8")),
    "objects of several kinds": (lambda: pd.DataFrame({"x": [1, "ysolde"]}), ("pandas.DataFrame", "one type")),
    "a stream that was read": (_read_before, ("pyarrow.RecordBatchReader", "none", "stream")),
    "a stream that breaks off": (_make_failing, ("pyarrow.RecordBatchReader", "last row")),
    "a column": (lambda: pa.chunked_array([[1.0]]), ("pyarrow.ChunkedArray", "table")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_table_in_memory_that_cannot_be_used_is_refused_in_one_sentence(case: str) -> None:
    make, facts = REFUSED[case]
    with expect_refusal(DataError, *facts) as refused:
        _read(make(), "x")
    assert "ysolde" not in str(refused.value)


# ---- geometries ------------------------------------------------------------------------------------------------------


def test_a_frames_geometry_is_its_position_in_its_own_system() -> None:
    frame = gpd.GeoDataFrame({"subject": ["a", "b"]}, geometry=PLACES, crs="EPSG:25832")
    fixes = _prepare_fixes(frame)
    assert (fixes.crs, fixes.cells) == ("EPSG:25832", {"subject": "subject", "time": "t", "geometry": "place"})
    assert _list_points(_read(frame, "geometry", geometry="geometry")["geometry"]) == [(8.2, 53.1), (8.3, 53.2)]


def test_x_and_y_count_where_they_are_named() -> None:
    frame = gpd.GeoDataFrame(PEOPLE, geometry=PLACES, crs="EPSG:25832")
    assert _prepare_fixes(frame, x="x", y="y").crs == "EPSG:4326"
    assert _prepare_fixes(frame).crs == "EPSG:25832"


@pytest.mark.parametrize("encoding", ["WKB", "geoarrow"])
def test_points_are_read_however_they_are_encoded(encoding: str) -> None:
    frame = gpd.GeoDataFrame({"a": [1, 2]}, geometry=PLACES, crs="EPSG:4326").to_arrow(geometry_encoding=encoding)
    assert _list_points(_read(frame, "geometry", geometry="geometry")["geometry"]) == [(8.2, 53.1), (8.3, 53.2)]


@pytest.mark.parametrize("encoding", ["WKB", "geoarrow"])
def test_points_of_geoparquet_are_read_in_their_system(tmp_path: Path, encoding: Any) -> None:
    path = tmp_path / "fixes.parquet"
    frame = gpd.GeoDataFrame(PEOPLE, geometry=PLACES, crs="EPSG:25832")
    frame.to_parquet(path, geometry_encoding=encoding, schema_version="1.1.0")
    assert _prepare_fixes(path).crs == "EPSG:25832"
    assert _list_points(_read(path, "geometry", geometry="geometry")["geometry"]) == [(8.2, 53.1), (8.3, 53.2)]


def test_geoparquet_without_a_system_is_in_degrees_and_with_null_in_none(tmp_path: Path) -> None:
    wkb = shapely.to_wkb(np.array(PLACES))
    for crs, facts in (({}, None), ({"crs": None}, "--crs")):
        geo = {"primary_column": "g", "columns": {"g": {"encoding": "WKB", **crs}}}
        table = pa.table({"subject": ["a", "b"], "g": wkb}).replace_schema_metadata({"geo": json.dumps(geo)})
        pq.write_table(table, tmp_path / "g.parquet")
        if facts is None:
            assert _prepare_fixes(tmp_path / "g.parquet").crs == "EPSG:4326"
        else:
            with expect_refusal(ParameterError, "g.parquet", facts):
                _prepare_fixes(tmp_path / "g.parquet")


def test_a_column_of_bytes_is_one_of_geometries_where_it_is_named() -> None:
    table = pa.table({"subject": ["a"], "time": [0], "spot": [shapely.to_wkb(PLACES[0])]})
    assert _prepare_fixes(table, geom="spot", crs="EPSG:4326").positions == (("spot",),)
    with expect_refusal(ParameterError, "--crs"):
        _prepare_fixes(table, geom="spot")


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("flavor", ["iso", "extended"])
@pytest.mark.parametrize("text", ["POINT (1 2)", "POINT Z (1 2 3)", "SRID=4326;POINT (1 2)"])
def test_points_are_read_in_every_form_of_wkb(order: Any, flavor: Any, text: str) -> None:
    srid, _, wkt = text.rpartition(";")
    shape = shapely.set_srid(shapely.from_wkt(wkt), 4326 if srid else 0)
    wkb = shapely.to_wkb(shape, byte_order=order, flavor=flavor, include_srid=bool(srid) and flavor == "extended")
    assert _list_points([wkb]) == [(1.0, 2.0)]


def test_what_is_no_point_is_null_beside_points_that_are() -> None:
    others = [shapely.to_wkb(shapely.from_wkt(text)) for text in ("POINT EMPTY", "LINESTRING (0 0, 1 1)")]
    point = shapely.to_wkb(PLACES[0])
    read = _list_points([None, b"", b"\x01\x01", *others, point, point[:-1], b"\x07" * 30])
    assert read == [(None, None)] * 5 + [(8.2, 53.1)] + [(None, None)] * 2
    ((x, y),) = _list_points([shapely.to_wkb(shapely.Point(1, float("nan")))])
    assert (x, np.isnan(y)) == (1.0, True)


def _make_two_geometries() -> gpd.GeoDataFrame:
    frame = gpd.GeoDataFrame({"subject": ["a"], "home": gpd.GeoSeries(PLACES[:1], crs="EPSG:4326")}, geometry="home")
    frame["work"] = gpd.GeoSeries(PLACES[:1], crs="EPSG:25832")
    return frame


def test_of_several_geometries_the_active_one_counts_or_the_one_named() -> None:
    assert _prepare_fixes(_make_two_geometries()).positions[0] == ("home",)
    assert _prepare_fixes(_make_two_geometries(), geom="work").crs == "EPSG:25832"
    with expect_refusal(ParameterError, "home, work", "--geom"):
        _prepare_fixes(_make_two_geometries().to_arrow())


def test_sources_in_several_systems_are_refused_together() -> None:
    metres = gpd.GeoDataFrame({"subject": ["a"]}, geometry=PLACES[:1], crs="EPSG:25832")
    with expect_refusal(ParameterError, "EPSG:25832", "EPSG:4326", "--append"):
        _prepare_fixes(metres, pa.table(PEOPLE))
    with expect_refusal(ParameterError, "EPSG:25832", "--crs EPSG:4326"):
        _prepare_fixes(metres, crs="EPSG:4326")


def test_a_system_without_a_number_and_a_place_that_is_two_things_are_refused() -> None:
    odd = gpd.GeoDataFrame({"a": [1]}, geometry=PLACES[:1], crs="+proj=laea +lat_0=50 +lon_0=8 +ellps=bessel")
    with expect_refusal(DataError, "geopandas.GeoDataFrame", "EPSG"):
        _prepare_fixes(odd)
    assert _prepare_fixes(odd, x="a", y="b").crs == "EPSG:4326"
    with expect_refusal(ParameterError, "--geom", "--x"):
        _prepare_fixes(pa.table(PEOPLE), geom="g", x="x")


# ---- tracks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("top", ["Geolife Trajectories 1.3", "Geolife Trajectories 1.3/Data", "one"])
def test_of_geolife_the_folder_names_the_person(tmp_path: Path, top: str) -> None:
    for person in ("000", "001"):
        folder = tmp_path / "Geolife Trajectories 1.3" / "Data" / person / "Trajectory"
        folder.mkdir(parents=True)
        (folder / "20081023025304.plt").write_text(HEAD + POINT)
        (folder.parent / "labels.txt").write_text("no track\n")
    named = tmp_path / top if top != "one" else folder / "20081023025304.plt"
    read = _read(named, "subject", "trip", "time", "x", "y")
    assert read["subject"] == (["001"] if top == "one" else ["000", "001"])
    assert {trip.rpartition("/")[2] for trip in read["trip"]} == {"20081023025304.plt"}
    assert (set(read["time"]), set(read["x"]), set(read["y"])) == ({"2008-10-23 02:53:04Z"}, {"8.2"}, {"53.1"})


def test_of_other_tracks_the_first_folder_names_the_person_and_else_the_file(tmp_path: Path) -> None:
    (tmp_path / "ann" / "2024").mkdir(parents=True)
    (tmp_path / "ann" / "2024" / "monday.gpx").write_text(GPX.format(TRACK))
    (tmp_path / "bob.GPX").write_text(GPX.format(TRACK + TRACK))
    (tmp_path / "._bob.gpx").write_text("what another system notes of it")
    read = _read(tmp_path, "subject", "trip", "time", "x", "y")
    assert read["subject"] == ["bob", "bob", "ann"]
    assert read["trip"] == ["bob.GPX/0/0", "bob.GPX/1/0", "ann/2024/monday.gpx/0/0"]
    assert (read["x"], set(read["time"])) == ([8.2] * 3, {"2008-10-23T02:53:04Z"})
    assert _read(tmp_path / "ann" / "2024" / "monday.gpx", "subject") == {"subject": ["monday"]}


TRACKS = {
    "a folder of nothing": ("", "", ("none", "0 other files")),
    "a folder of other files": ("a.csv", "subject\n", ("none", "1 other file")),
    "GPX without times": ("a.gpx", GPX.format(UNTIMED), ("a.gpx", "time")),
    "GPX without tracks": ("a.gpx", GPX.format('<wpt lat="1" lon="2"/>'), ("a.gpx", "points of tracks")),
    "GPX that breaks off": ("a.gpx", GPX.format(TRACK)[:-30], ("a.gpx", "whole GPX")),
    "an empty file": ("a.gpx", "", ("a.gpx", "GPX or PLT", "empty")),
    "PLT whose head is cut": ("a.plt", HEAD.partition("\n")[2] + POINT, ("a.plt", "six lines")),
    "PLT of a head": ("a.plt", HEAD, ("points of tracks", "none")),
    "PLT with a cell too few": ("a.plt", HEAD + POINT + "53.1,8.2\n", ("a.plt", "2 cells")),
    "no PLT": ("a.plt", "subject,time,x,y\n", ("a.plt", "PLT")),
}


@pytest.mark.many
@pytest.mark.parametrize("case", TRACKS)
def test_a_folder_or_track_that_cannot_be_used_is_refused_in_one_sentence(tmp_path: Path, case: str) -> None:
    name, text, facts = TRACKS[case]
    (tmp_path / "top").mkdir()
    if name:
        (tmp_path / "top" / name).write_text(text)
    with expect_refusal(DataError, *facts):
        _read(tmp_path / "top", "subject", "time")


def test_a_broken_file_among_many_is_named(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}.gpx").write_text(GPX.format(TRACK) if number != 2 else "<gpx>")
    with expect_refusal(DataError, "2.gpx"):
        _read(tmp_path, "subject")


def test_a_column_that_tracks_do_not_have_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.plt").write_text(HEAD + POINT)
    with expect_refusal(DataError, "'cab'", "subject, trip, time, x, y"):
        _read(tmp_path, "cab")


# ---- MF-JSON ---------------------------------------------------------------------------------------------------------


def _make_feature(subject: Any, datetimes: list[Any], coordinates: list[Any], **more: Any) -> dict[str, Any]:
    moving = {"type": "MovingPoint", "datetimes": datetimes, "coordinates": coordinates, "interpolation": "Linear"}
    return {"type": "Feature", "id": 7, "properties": {"cab": subject}, "temporalGeometry": moving, **more}


def _write_json(tmp_path: Path, *features: Any, **more: Any) -> Path:
    path = tmp_path / "moving.json"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features, **more}, indent=1))
    return path


ANN = _make_feature("ann", ["2011-07-14T22:01:01Z", "2011-07-14T22:01:02.5Z"], [[8.2, 53.1], [8.3, 53.2, 40]])


def test_each_moving_point_is_fixes_of_one_subject(tmp_path: Path) -> None:
    path = _write_json(tmp_path, ANN, _make_feature("bob", ["2011-07-14T22:01:01Z"], [[9, 54]]))
    assert _read(path, "cab", "time", "x", "y", "id") == {
        "cab": ["ann", "ann", "bob"],
        "time": ["2011-07-14T22:01:01Z", "2011-07-14T22:01:02.5Z", "2011-07-14T22:01:01Z"],
        "x": [8.2, 8.3, 9.0],
        "y": [53.1, 53.2, 54.0],
        "id": ["7", "7", "7"],
    }


def test_names_and_times_may_be_numbers_and_a_feature_stand_alone(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps(_make_feature(12, [1310680861000], [[8.2, 53.1]])))
    assert _read(path, "cab", "time") == {"cab": ["12"], "time": [1310680861000.0]}
    path.write_text(
        "".join(json.dumps(_make_feature(100, [1310680861000 + i], [[8.2, 53.1]])) + "\n" for i in range(2))
    )
    assert _read(path, "cab", "time") == {"cab": ["100"] * 2, "time": [1310680861000.0, 1310680861001.0]}


def test_a_name_is_the_features_own_or_else_the_property_of_that_name_and_an_array_is_read(tmp_path: Path) -> None:
    path = tmp_path / "moving.json"
    own, given = _make_feature(12, [1], [[1, 2]]), _make_feature("b", [2], [[3, 4]], properties={"id": "p", "cab": "b"})
    del given["id"]
    path.write_text(f" [{json.dumps(own)}, {json.dumps(given)}]")
    assert _read(path, "id", "time", "x") == {"id": ["7", "p"], "time": [1.0, 2.0], "x": [1.0, 3.0]}


def test_places_of_too_few_numbers_and_features_that_do_not_move_do_no_harm(tmp_path: Path) -> None:
    still = {"type": "Feature", "properties": {"cab": "c"}, "geometry": {"type": "Point", "coordinates": [1, 2]}}
    read = _read(_write_json(tmp_path, still, _make_feature("a", [1, 2, 3], [[1, 2], [3], None])), "cab", "x", "y")
    assert read == {"cab": ["a"] * 3, "x": [1.0, None, None], "y": [2.0, None, None]}


STILL = {"type": "Feature", "properties": {"cab": "a"}, "geometry": {"type": "Point", "coordinates": [1, 2]}}
NAMED = {"type": "Name", "properties": {"name": "urn:ogc:def:crs:EPSG::99999999"}}
JSONS = {
    "GeoJSON": ([STILL], {}, ("moving.json", "'x'", "cab")),
    "none": ([], {}, ("moving.json", "'cab'")),
    "nothing that moves": ([STILL | {"temporalGeometry": None}], {}, ("moving.json", "MovingPoint")),
    "another kind of motion": ([ANN | {"temporalGeometry": {"type": "MovingPolygon"}}], {}, ("MovingPoint",)),
    "a property that is not there": ([ANN | {"properties": {}}], {}, ("'cab'", "'id'")),
    "no names at all": ([ANN | {"id": None}], {}, ("'id'",)),
    "no fixes": ([_make_feature("a", [], [])], {}, ("fixes",)),
    "times without places": ([_make_feature("a", [1, 2], [[1, 2]])], {}, ("datetimes", "coordinates", "Number 1")),
    "an unknown system": ([ANN], {"crs": NAMED}, ("'crs'",)),
}


@pytest.mark.many
@pytest.mark.parametrize("case", JSONS)
def test_json_of_no_moving_points_is_refused_in_one_sentence(tmp_path: Path, case: str) -> None:
    features, more, facts = JSONS[case]
    with expect_refusal(DataError, *facts):
        _read(_write_json(tmp_path, *features, **more), "id" if case == "no names at all" else "cab", "x")


@pytest.mark.many
@pytest.mark.parametrize("text", ["{", '{"features": [1]}', '{"features": {"a": 1}}', "{}x", '{"type": 5}'])
def test_json_that_is_broken_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    with expect_refusal(DataError, "broken.json"):
        _read(path, "x")


# ---- positions as texts ----------------------------------------------------------------------------------------------


def _list_shapes(*cells: str | None) -> tuple[list[Any], frozenset[str]]:
    wkb, systems = _geometry.read_shapes(pa.array(cells, pa.string()))
    return [shape and shape.wkt for shape in shapely.from_wkb(wkb.to_pylist())], systems


EWKB = shapely.to_wkb(shapely.set_srid(shapely.Point(1, 2), 25832), hex=True, include_srid=True)
JSON_POINT = '{"type": "Point", "coordinates": [1, 2]%s}'
JSON_SYSTEM = ', "crs": {"type": "name", "properties": {"name": "EPSG:25832"}}'
POINT_TEXTS = {
    "WKT": ("POINT(1 2)", None),
    "WKT with height": ("Point Z (1 2 3)", None),
    "EWKT": (" srid=25832; POINT(1 2) ", "EPSG:25832"),
    "hexadecimal WKB": (shapely.to_wkb(shapely.Point(1, 2), hex=True), None),
    "hexadecimal EWKB": (EWKB, "EPSG:25832"),
    "small digits": (EWKB.lower(), "EPSG:25832"),
    "as COPY writes bytea": ("\\x" + EWKB, "EPSG:25832"),
    "GeoJSON": (JSON_POINT % "", None),
    "GeoJSON of ST_AsGeoJSON in another system": (JSON_POINT % JSON_SYSTEM, "EPSG:25832"),
}


@pytest.mark.parametrize("form", POINT_TEXTS)
def test_a_point_is_read_in_every_form_of_text(form: str) -> None:
    text, crs = POINT_TEXTS[form]
    assert _list_shapes(text, None) == (["POINT (1 2)", None], frozenset([crs] if crs else []))
    fixes = _prepare_fixes(pa.table({"cab": ["a"], "t": [0], "g": [text]}), subject="cab", time="t", geom="g")
    assert (fixes.crs, fixes.positions) == (crs or "EPSG:4326", (("g",),))


def test_texts_of_all_forms_stand_in_one_column_and_mistakes_are_null() -> None:
    mistakes = [
        "", " ", "?", "POINT(1)", "POINT(1,2)", "[[1, 2]]", "{", '{"type": "Point"}', EWKB[:-1], "0101", "12.6",
        "SRID=x;POINT(1 2)", "CIRCULARSTRING (0 0, 1 1, 2 0)",
    ]  # fmt: skip
    read, systems = _list_shapes(*(text for text, _ in POINT_TEXTS.values()), *mistakes, "LINESTRING (0 0, 1 1)")
    assert read == ["POINT (1 2)"] * 9 + [None] * len(mistakes) + ["LINESTRING (0 0, 1 1)"]
    assert systems == {"EPSG:25832"}
    assert _list_shapes() == ([], frozenset())


@pytest.mark.parametrize(
    "opened", ['{"type": "GeometryCollection", "geometries": [', "GEOMETRYCOLLECTION("], ids=["GeoJSON", "WKT"]
)
def test_collections_in_each_other_do_not_end_the_process(opened: str) -> None:
    assert _list_shapes(opened * 100_000) == ([None], frozenset())


def test_an_empty_first_cell_does_not_hide_what_a_column_holds(tmp_path: Path) -> None:
    table = pa.table({"cab": ["a", "a"], "t": ["0", "60"], "g": ["", "SRID=25832;POINT(1 2)"]})
    table.to_pandas().to_csv(tmp_path / "a.csv", index=False)
    for source in (table, tmp_path / "a.csv", pa.Table.from_batches(table.to_batches(1)).to_reader()):
        fixes = _prepare_fixes(source, subject="cab", time="t", geom="g")
        assert fixes.crs == "EPSG:25832"
        read = list(fixes.sources[0].read_batches(["g"], _sources.Wanted("--x")))
        assert [len(batch) for batch in read] == [2]  # the first was looked at, and is there still


@pytest.mark.parametrize(
    "text", ["point z (1 2 3)@1970-01-01", "SRID=4326;Interp=Step;[POINT(1 2)@1970-01-01]", f"{{[{EWKB}@1970-01-01]}}"]
)
def test_a_moving_point_of_a_frame_or_file_is_refused(text: str) -> None:
    with expect_refusal(DataError, "'g'", "tgeompoint", "dbanon import"):
        _prepare_fixes(pa.table({"subject": ["a"], "g": [text]}), geom="g")


def test_a_system_that_is_given_must_be_that_of_the_first_point() -> None:
    table = pa.table({"cab": ["a"], "t": [0], "g": [EWKB]})
    with expect_refusal(ParameterError, "EPSG:25832", "--crs EPSG:4326"):
        _prepare_fixes(table, subject="cab", time="t", geom="g", crs="EPSG:4326")


@pytest.mark.parametrize(
    ("separator", "cells", "read"),
    [
        (";", ["12,60", "-,5", " 1,5e3 ", "12.60", "7", "1.234,5", "1,2,3", "a,b"],
         ["12.60", "-.5", " 1.5e3 ", "12.60", "7", "1.234,5", "1,2,3", "a,b"]),
        ("\t", ["12,60"], ["12,60"]),
        (",", ['"12,60"'], ["12,60"]),
    ],
    ids=["semicolon", "tab", "comma"],
)  # fmt: skip
def test_a_comma_is_decimal_in_numbers_between_semicolons(
    tmp_path: Path, separator: str, cells: list[str], read: list[str]
) -> None:
    rows = [separator.join((cell, cell)) for cell in cells]
    (tmp_path / "a.csv").write_text("\n".join([separator.join("xn"), *rows]) + "\n")
    wanted = _sources.Wanted("--x", numbers=["x"])
    (batch,) = _sources.open_fixes(tmp_path / "a.csv").read_batches(["x", "n"], wanted)
    assert (batch.columns["x"].to_pylist(), batch.columns["n"].to_pylist()) == (read, [c.strip('"') for c in cells])


# ---- geographic files ------------------------------------------------------------------------------------------------

DRIVERS = {"fixes.gpkg": "GPKG", "fixes.shp": "ESRI Shapefile", "fixes.geojson": "GeoJSON", "lines.json": "GeoJSONSeq"}


def _make_points(crs: str = "EPSG:4326", **columns: Any) -> gpd.GeoDataFrame:
    held = {"cab": [7, 8], "t": ["2024-03-04T10:00:05Z", "2024-03-04T11:00:05.5+01:00"], **columns}
    return gpd.GeoDataFrame(held, geometry=PLACES, crs="EPSG:4326").to_crs(crs)


@pytest.mark.many
@pytest.mark.parametrize("name", DRIVERS)
def test_points_of_a_geographic_file_are_fixes_in_its_system(tmp_path: Path, name: str) -> None:
    crs = "EPSG:4326" if "json" in name else "EPSG:25832"
    _make_points(crs).to_file(tmp_path / name, driver=DRIVERS[name])
    assert _prepare_fixes(tmp_path / name, subject="cab", time="t").crs == crs
    read = _read(tmp_path / name, "cab", "t", "geometry", geometry="geometry")
    assert [round(x) for x, _ in _list_points(read["geometry"])] == ([8, 8] if crs == "EPSG:4326" else [446436, 453240])
    times = _parse.Times(None).convert_to_unix_s(pa.array(read["t"]))
    assert (read["cab"], times.to_pylist()) == ([7, 8], [1709546405.0, 1709546405.5])


def test_times_and_numbers_of_a_geographic_file_are_read(tmp_path: Path) -> None:
    when = pd.to_datetime([1709546405123, 1709546405000], unit="ms", utc=True)
    _make_points(t=when, s=[1709546405123, None]).to_file(tmp_path / "a.gpkg")
    assert _read(tmp_path / "a.gpkg", "t", "s") == {
        "t": ["2024-03-04T10:00:05.123Z", "2024-03-04T10:00:05Z"],
        "s": [1709546405123.0, None],
    }


def test_a_layer_is_chosen_by_its_name_and_only_where_there_are_layers(tmp_path: Path) -> None:
    for name, crs in (("one", "EPSG:4326"), ("two", "EPSG:25832")):
        _make_points(crs).to_file(tmp_path / "a.gpkg", layer=name)
    asked = {"subject": "cab", "time": "t"}
    assert _prepare_fixes(tmp_path / "a.gpkg", layer="two", **asked).crs == "EPSG:25832"
    with expect_refusal(DataError, "one, two", "--layer"):
        _prepare_fixes(tmp_path / "a.gpkg", **asked)
    for other in (pa.table(PEOPLE), tmp_path / "a.plt"):
        (tmp_path / "a.plt").write_text(HEAD + POINT)
        with expect_refusal(ParameterError, "--layer"):
            _prepare_fixes(other, layer="two")


def test_what_a_geographic_file_has_not_is_named(tmp_path: Path) -> None:
    _make_points(tags=[["a"], ["b"]]).to_file(tmp_path / "a.geojson")
    with expect_refusal(DataError, "'trip'", "cab, t"):
        _read(tmp_path / "a.geojson", "cab", "trip")
    with expect_refusal(DataError, "'tags'", "lists"):
        _read(tmp_path / "a.geojson", "tags")
    for options in ({"geom": "geom"}, {"x": "x"}):
        with expect_refusal(ParameterError, "--x, --y and --geom"):
            _prepare_fixes(tmp_path / "a.geojson", subject="cab", time="t", **options)


# ---- indexes of frames -----------------------------------------------------------------------------------------------


def _make_fifteen() -> dict[str, Any]:
    return {"id": [1] * 15, "t": pd.date_range("2024-03-04", periods=15, freq="min", tz="UTC")}


@pytest.mark.parametrize("geographic", [True, False])
@pytest.mark.parametrize("index", [["t"], ["id", "t"]], ids=str)
def test_an_index_with_a_name_is_a_column(geographic: bool, index: list[str]) -> None:
    plain = pd.DataFrame({**_make_fifteen(), "x": range(15), "y": range(15)})
    given = gpd.GeoDataFrame(plain, geometry=gpd.points_from_xy(plain["x"], plain["y"]), crs="EPSG:4326")
    read = _read((given if geographic else plain).set_index(index), "id", "t")
    assert (read["id"], len(set(read["t"]))) == ([1] * 15, 15)


def test_an_index_that_counts_is_a_column_if_it_has_a_name_and_no_second_one_is_made() -> None:
    for make in (pd.DataFrame, lambda held, index: gpd.GeoDataFrame(held, index=index, geometry=PLACES)):
        counted = make({"id": ["a", "b"]}, index=pd.RangeIndex(0, 120, 60, name="t"))
        assert _read(counted, "id", "t") == {"id": ["a", "b"], "t": [0, 60]}
        kept = make({"id": ["a", "b"], "t": [1, 2]}, index=None).set_index("t", drop=False)
        assert _read(kept, "t") == {"t": [1, 2]}


# ---- MovingPoints that stand alone -----------------------------------------------------------------------------------

BARE = {
    "type": "MovingPoint", "coordinates": [[12.6, 55.6], [12.61, 55.61]],
    "datetimes": ["2024-03-04T10:00:00+00", "2024-03-04T10:01:00+00"], "interpolation": "Linear",
}  # fmt: skip


PIECE = {name: BARE[name] for name in ("coordinates", "datetimes")}


def test_the_person_of_a_moving_point_alone_is_the_file(tmp_path: Path) -> None:
    (tmp_path / 'ann "x".json').write_text(json.dumps(BARE))
    assert _read(tmp_path / "ann \"x\".json", "subject", "time", "x") == {
        "subject": ['ann "x"'] * 2, "time": BARE["datetimes"], "x": [12.6, 12.61],
    }  # fmt: skip


def test_instants_and_sets_of_sequences_are_read_as_mobilitydb_writes_them(tmp_path: Path) -> None:
    one = {"type": "MovingPoint", "coordinates": [12.6, 55.6], "datetimes": "2024-03-04T10:00:00+00"}
    path = tmp_path / "a.json"
    for point, x, time in (
        (one, [12.6], ["2024-03-04T10:00:00+00"]),
        (one | {"datetimes": 5}, [12.6], [5.0]),
        ({"type": "MovingPoint", "sequences": [PIECE, PIECE]}, [12.6, 12.61] * 2, BARE["datetimes"] * 2),
    ):
        for written in (point, {"type": "Feature", "properties": {"subject": "a"}, "temporalGeometry": point}):
            path.write_text(json.dumps(written))
            assert _read(path, "subject", "time", "x") == {"subject": ["a"] * len(x), "time": time, "x": x}
    uneven = {"type": "MovingPoint", "sequences": [PIECE, PIECE | {"coordinates": [[1, 2]]}]}
    path.write_text(json.dumps({"features": [_make_feature("b", ["1"], [[1, 2]]), ANN | {"temporalGeometry": uneven}]}))
    with expect_refusal(DataError, "datetimes", "Number 2"):
        _read(path, "cab", "x")


def test_moving_points_alone_without_a_person_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(BARE))
    with expect_refusal(DataError, "a.json", "'cab'", "--subject"):
        _read(path, "cab", "time")
    for text in (f"{json.dumps(BARE)}\n{json.dumps(BARE)}\n", json.dumps([BARE])):
        path.write_text(text)
        with expect_refusal(DataError, "a.json", "temporalGeometry"):
            _read(path, "subject", "time")


# ---- other kinds of files --------------------------------------------------------------------------------------------

KML = (
    '<?xml version="1.0"?>\n<kml xmlns="http://www.opengis.net/kml/2.2" '
    'xmlns:gx="http://www.google.com/kml/ext/2.2"><Document><Placemark><gx:Track>'
    "<when>2024-03-04T10:00:05Z</when><gx:coord>12.6 55.6 0</gx:coord></gx:Track></Placemark></Document></kml>"
)
TCX = (
    '<?xml version="1.0"?><TrainingCenterDatabase xmlns="http://www.garmin.com/xmlschemas/TrainingCenterDatabase/v2">'
    '<Activities><Activity Sport="Running"><Id>2024-03-04T10:00:05Z</Id><Lap StartTime="2024-03-04T10:00:05Z"><Track>'
    "<Trackpoint><Time>2024-03-04T10:00:05Z</Time><Position><LatitudeDegrees>55.6</LatitudeDegrees><LongitudeDegrees>"
    "12.6</LongitudeDegrees></Position></Trackpoint></Track></Lap></Activity></Activities></TrainingCenterDatabase>"
)
NMEA = "$GPRMC,100005,A,5536.000,N,01236.000,E,000.0,000.0,040324,,*1B\n"
IGC = "AXXX001\nHFDTE040324\nB1000055536000N01236000EA0000000000\n"
OTHERS: dict[str, tuple[str | bytes, str]] = {
    "a.kml": (KML, "gpsbabel -i kml -f a.kml -o gpx -F a.gpx"),
    "wide.kml": (b"\xff\xfe" + KML.encode("utf-16-le"), "KML"),
    "b.csv": (KML, "gpsbabel -i kml -f b.csv -o gpx -F b.gpx"),
    "a.gpx": (KML, "KML"),
    "a.tcx": (TCX, "gpsbabel -i gtrnctr -f a.tcx -o gpx -F a.gpx"),
    "a.nmea": (NMEA, "gpsbabel -i nmea -f a.nmea -o gpx -F a.gpx"),
    "a.igc": (IGC, "gpsbabel -i igc -f a.igc -o gpx -F a.gpx"),
    "a.fit": (b"\x0e\x10\x43\x08\x78\0\0\0.FIT", "gpsbabel -i garmin_fit -f a.fit -o gpx -F a.gpx"),
    "a.rec": ('2024-03-04T10:00:05Z\t*                 \t{"_type":"location"}\n', "ocat"),
    "ais.txt": ("!AIVDM,1,1,,A,13u?etPv2;0n:dDPwUM1U1Cb069D,0*23\n", "AIS"),
    "Records.json": ('{"locations": [{"latitudeE7": 556000000, "longitudeE7": 126000000}]}', "longitudeE7 / 1e7"),
    "login.csv": ("\n<!DOCTYPE html>\n<html>", "login"),
    "page.csv": ("<html lang=en>", "login"),
    "feed.xml": ("<?xml version='1.0'?><rss>", "XML"),
    "a.pdf": (b"%PDF-1.4\n\xff", "PDF"),
    "a.xlsx": (b"PK\3\4\x14\0\6\0\x08\0\0\0!\0[Content_Types].xml", "workbook"),
    "a.xls": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "workbook"),
    "a.zip": (b"PK\3\4\x14\0\0\0\x08\0fixes.csv", "ZIP"),
    "a.csv.xz": (b"\xfd7zXZ\0", "packed"),
    "a.db": (b"SQLite format 3\0" + bytes(100), "SQLite"),
    "a.dump": (b"PGDMP\1\x0e", "dump"),
    "a.feather": (b"ARROW1\0\0", "binary table"),
    "rows.json": ('[{"id": 1}]', "JSON"),
    "rows.jsonl": ('{"id": 1}\n{"id": 2}\n', "JSON"),
    "notes.csv": ("# exported today\n# by nobody\nid,time,x,y\na,1,2,3\n", "Line 1 begins with #"),
    "sep.csv": ("sep=;\nid;time;x;y\na;1;2;3\n", "Line 1 begins with sep="),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_file_of_another_kind_is_named_by_what_it_begins_with(tmp_path: Path, name: str) -> None:
    text, fact = OTHERS[name]
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with expect_refusal(DataError, name, fact) as refused:
        _read(tmp_path / name, "subject")
    assert "CSV or Parquet file" not in str(refused.value)
    with expect_refusal(DataError, name) as refused:  # places and requests are read of tables alone
        list(_sources.open_table(tmp_path / name).read_batches(["subject"], _sources.Wanted("--x")))
    assert "CSV or Parquet file" not in str(refused.value)
    assert "gpsbabel" not in str(refused.value)


@pytest.mark.stress
@pytest.mark.parametrize("name", [name for name, (_, fact) in OTHERS.items() if "gpsbabel" in fact and name != "a.fit"])
@pytest.mark.skipif(shutil.which("gpsbabel") is None, reason="GPSBabel is not installed")
def test_the_command_that_a_refusal_names_makes_a_file_that_is_read(tmp_path: Path, name: str) -> None:
    text, command = OTHERS[name]
    (tmp_path / name).write_text(str(text))
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    read = _read(tmp_path / f"{Path(name).stem}.gpx", "subject", "time", "x", "y")
    assert read == {"subject": [name[0]], "time": ["2024-03-04T10:00:05Z"], "x": [12.6], "y": [55.6]}


@pytest.mark.parametrize(
    "content", [GPX.format(TRACK), KML, HEAD, '{"features": []}', "PAR1"], ids=lambda text: text[:9]
)
def test_a_packed_file_of_another_kind_is_to_be_unpacked(tmp_path: Path, content: str) -> None:
    (tmp_path / "my file.gz").write_bytes(gzip.compress(content.encode()))
    with expect_refusal(DataError, "my file.gz", "gunzip --keep 'my file.gz'"):
        _read(tmp_path / "my file.gz", "subject")


def test_a_header_may_begin_with_the_sign_of_comments_and_names_with_those_of_other_kinds(tmp_path: Path) -> None:
    for header in ("# Timestamp,x", "ORCID,x", "AREA,x", "PKW,x", "Obj,x"):
        (tmp_path / "a.csv").write_text(f"{header}\n1,2\nHOUSE,3\n")
        assert _read(tmp_path / "a.csv", header[:-2], "x") == {header[:-2]: ["1", "HOUSE"], "x": ["2", "3"]}
    with expect_refusal(DataError, "'id'", "has: x"):
        (tmp_path / "a.csv").write_text("# Timestamp,x\n1,2\n")
        _read(tmp_path / "a.csv", "id")


def test_tracks_are_told_by_their_content(tmp_path: Path) -> None:
    (tmp_path / "ann.xml").write_text(GPX.format(TRACK))
    (tmp_path / "bob.txt").write_text(HEAD + POINT)
    for name in ("ann.xml", "bob.txt"):
        assert _read(tmp_path / name, "subject") == {"subject": [name[:3]]}
        with expect_refusal(DataError, name, "dbanon load trajectories"):
            list(_sources.open_table(tmp_path / name).read_batches(["subject"], _sources.Wanted("--x")))
