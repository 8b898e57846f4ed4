"""Sensitive sites: what is stored of a file, what is left out with which reason, and who may do it."""

import gzip

import numpy as np
import pandas as pd
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from dbanon import load
from dbanon.base.errors import DataError, ParameterError, StoreError
from dbanon.options.loading import LoadingSites, LoadingTrajectories
from dbanon.postgres.connection import connect
from dbanon.runs import reading, stored
from tests.facts import demand_named, expect_refusal

HEAD = "x,y,name\n"
CLINICS = HEAD + "8.21,53.11,clinic\n8.19,53.09,\n"
SHAPE = {"geom": "area", "name": "name"}
NAMED = {"name": "name"}
SQUARE = "POLYGON ((100 100, 140 100, 140 130, 100 130, 100 100))"


@pytest.fixture
def town(connection, write):
    """A dataset of 400 people within 5 km of (8.2, 53.1), in SRID 32632."""
    where = np.random.default_rng(5).uniform((8.15, 53.05), (8.25, 53.15), (400, 2))
    rows = "".join(f"s{i},0,{x:.6f},{y:.6f}\n" for i, (x, y) in enumerate(where))
    load.load_trajectories(
        connection, [write("subject,time,x,y\n" + rows, "town.csv")], LoadingTrajectories(time_unit="s", dataset="town")
    )
    return connection


@pytest.fixture
def plane(connection, write):
    """A dataset of four people in SRID 32632 whose coordinates are round: a square of 1,000 m."""
    rows = "subject,time,x,y\na,0,0,0\nb,0,1000,0\nc,0,1000,1000\nd,0,0,1000\n"
    load.load_trajectories(
        connection,
        [write(rows, "p.csv")],
        LoadingTrajectories(time_unit="s", dataset="town", crs="EPSG:32632", srid=32632),
    )
    return connection


def _load(connection, path, columns=NAMED, **options):
    return load.load_places(connection, path, LoadingSites(dataset="town", **columns, **options))


def _load_metres(connection, path, columns=NAMED, **options):
    return _load(connection, path, columns, crs="EPSG:32632", **options)


def _fetch_all(connection, query):
    return connection.execute(query).fetchall()


def _read_sites(connection):
    return _fetch_all(connection, "SELECT name, public.ST_AsText(geom, 3) FROM dbanon.site ORDER BY site_id")


def _read_quarantine(connection):
    return _fetch_all(
        connection,
        "SELECT line, reason FROM dbanon.quarantine JOIN dbanon.load USING (load_id) WHERE kind = 'sites' "
        "ORDER BY line",
    )


# ---- what is stored --------------------------------------------------------------------------------------------------


def test_sites_are_stored_where_postgis_puts_them_and_recorded(town, write):
    before = stored.find_dataset(town, "town").revision
    report = _load(town, write(CLINICS))
    assert (report.kind, report.read, report.kept, report.quarantined, report.far) == ("sites", 2, 2, {}, {})
    assert (report.srid, report.trajectories, report.subjects, report.notices) == (32632, 0, 0, ())
    assert stored.find_dataset(town, "town").revision > before
    off = _fetch_all(
        town,
        "SELECT s.name, ST_SRID(geom), "
        "       ST_Distance(geom, ST_Transform(ST_SetSRID(ST_MakePoint(v.x, v.y), 4326), 32632)) < 1e-6 "
        "FROM dbanon.site s JOIN (VALUES ('clinic', 8.21, 53.11), (NULL, 8.19, 53.09)) v(name, x, y) "
        "ON v.name IS NOT DISTINCT FROM s.name ORDER BY site_id",
    )
    assert off == [("clinic", 32632, True), (None, 32632, True)]
    assert _fetch_all(town, "SELECT kind, rows_read, rows_kept, quarantined FROM dbanon.load WHERE kind = 'sites'") == [
        ("sites", 2, 2, {})
    ]


def test_a_run_reads_the_bounds_of_what_was_loaded(database, plane, write):
    rows = f'name,area\nward,"{SQUARE}"\ndoor,POINT (7 8)\nfence,"LINESTRING (10 20, 30 5)"\n'
    _load_metres(plane, write(rows), SHAPE)
    with reading.open_reader(database) as reader:
        places = reader.read_inputs(stored.find_dataset(plane, "town").dataset_id, ["sites"])["sites"]
    assert places.site_bounds.tolist() == [[100, 100, 140, 130], [7, 8, 7, 8], [10, 5, 30, 20]]


def test_shapes_of_every_kind_are_kept_as_they_are_without_heights(plane, write):
    rows = (
        f'name,area\na,"{SQUARE}"\nb,POINT Z (1 2 3)\nc,"MULTIPOINT ((1 2), (3 4))"\n'
        'd,"GEOMETRYCOLLECTION (POINT (1 2), LINESTRING (5 5, 6 6))"\n'
    )
    assert _load_metres(plane, write(rows), SHAPE).kept == 4
    assert [text.split("(")[0] for _, text in _read_sites(plane)] == [
        "POLYGON",
        "POINT",
        "MULTIPOINT",
        "GEOMETRYCOLLECTION",
    ]


def test_the_same_sites_as_csv_gzip_parquet_and_wkt_are_the_same(town, tmp_path, write):
    _load(town, write(CLINICS))
    zipped, parquet = tmp_path / "sites.csv.gz", tmp_path / "sites.parquet"
    zipped.write_bytes(gzip.compress(CLINICS.encode()))
    pq.write_table(pa.table({"x": [8.21, 8.19], "y": [53.11, 53.09], "name": ["clinic", None]}), parquet)
    wkt = write("area,name\nPOINT (8.21 53.11), clinic \nPOINT (8.19 53.09),\n", "wkt.csv")
    for path, columns in ((zipped, NAMED), (parquet, NAMED), (wkt, SHAPE)):
        with expect_refusal(DataError, "nothing to add", "2 rows", "2 duplicate-site"):
            _load(town, path, columns)
    assert len(_read_sites(town)) == 2


def test_shapes_are_read_in_every_form_of_text_in_the_system_that_they_name(plane, write):
    square = shapely.set_srid(shapely.from_wkt(SQUARE), 32632)
    packed = shapely.to_wkb(square, hex=True, include_srid=True)
    system = '"crs": {"type": "name", "properties": {"name": "EPSG:32632"}}, '
    texts = [f"SRID=32632;{SQUARE}", packed, shapely.to_geojson(square).replace("{", "{" + system, 1)]
    for text in texts:
        frame = pd.DataFrame({"name": ["ward"], "area": [text]})
        path = write(frame.to_csv(index=False))
        with expect_refusal(ParameterError, "EPSG:32632", "--crs EPSG:4326"):
            _load(plane, path, SHAPE, crs="EPSG:4326")
        for given in (path, frame):
            assert _load(plane, given, SHAPE, replace=True).kept == 1
            assert _read_sites(plane) == [("ward", SQUARE.replace("POLYGON ", "POLYGON").replace(", ", ","))]
    with expect_refusal(DataError, "EPSG:25832, EPSG:32632"):
        _load(plane, pd.DataFrame({"name": ["a", "b"], "area": [texts[0], "SRID=25832;POINT(1 2)"]}), SHAPE)


def test_sites_between_semicolons_may_have_decimal_commas(town, write):
    assert _load(town, write("x;y;name\n8,21;53,11;clinic\n")).kept == 1


# ---- what is left out ------------------------------------------------------------------------------------------------


def test_every_reason_puts_a_row_in_quarantine_with_its_cells(town, write):
    rows = [
        ("8.21,53.11,clinic", None),
        ("east,53.11,a", "unparsable-position"),
        ("8.21,,a", "missing-position"),
        ("nan,53.11,a", "non-finite-position"),
        ("8.21,-inf,a", "non-finite-position"),
        ("53.11,8.21,a", "swapped-axes"),
        ("8.21,120,a", "swapped-axes"),
        ("200,53.11,a", "position-out-of-range"),
        ("-82,-5,a", "position-out-of-range"),
        ("8.21,53.11,clinic", "duplicate-site"),
        ("8.21,53.11,pharmacy", None),
        ("8.21,53.11,", None),
        ("8.21,53.11,  ", "duplicate-site"),
        ("8.21,53.110000001,clinic", "duplicate-site"),
        ("8.21,53.1101,clinic", None),
        ("13.4,52.5,far", None),
    ]
    report = _load(town, write(HEAD + "".join(f"{row}\n" for row, _ in rows)))
    assert _read_quarantine(town) == [(line, reason) for line, (_, reason) in enumerate(rows, 2) if reason is not None]
    assert (report.read, report.kept, report.far) == (16, 5, {"far-position": 1})
    content = _fetch_all(town, "SELECT content FROM dbanon.quarantine WHERE line IN (3, 7) ORDER BY line")
    assert content == [({"x": "east", "y": "53.11", "name": "a"},), ({"x": "53.11", "y": "8.21", "name": "a"},)]


def test_shapes_that_are_none_or_endless_are_left_out(plane, write):
    rows = [
        (f'"{SQUARE}"', None),
        ('"POLYGON ((0 0, 1 0, 1 1, 0 1))"', "unparsable-position"),
        ('"POLYGON ((0 0, 1 0"', "unparsable-position"),
        ("clinic", "unparsable-position"),
        ("5", "unparsable-position"),
        ("", "missing-position"),
        ("POINT EMPTY", "missing-position"),
        ("GEOMETRYCOLLECTION EMPTY", "missing-position"),
        ('"COMPOUNDCURVE((0 0, 1 1), CIRCULARSTRING(1 1, 2 2, 3 1))"', "unparsable-position"),
        ('"CurvePolygon((0 0, 1 0, 1 1, 0 0))"', "unparsable-position"),
        ('"CIRCULARSTRING Z (1 1 0, 2 2 0, 3 1 0)"', "unparsable-position"),
        ('"MULTICURVE((0 0, 1 1))"', "unparsable-position"),
        ('"MULTISURFACE(((0 0, 1 0, 1 1, 0 0)))"', "unparsable-position"),
        ('"GEOMETRYCOLLECTION(POINT(1 1), CIRCULARSTRING(1 1, 2 2, 3 1))"', "unparsable-position"),
        ("POINT (nan 3)", "non-finite-position"),
        ("POINT (1e400 3)", "non-finite-position"),
        ('"LINESTRING (1 1, 2 -1e400)"', "non-finite-position"),
        ('"LINESTRING (1.7e308 1, 1.6e308 1)"', "non-finite-position"),
        ('"LINESTRING (1 1, nan 3, 4 4)"', "non-finite-position"),
        ('"LINESTRING (1 1, inf 3)"', "non-finite-position"),
        ('"LINESTRING (5 5, 1e300 5)"', "position-out-of-range"),
    ]
    text = "area,name\n" + "".join(f"{row},{i}\n" for i, (row, _) in enumerate(rows))
    report = _load_metres(plane, write(text), SHAPE)
    assert _read_quarantine(plane) == [(line, reason) for line, (_, reason) in enumerate(rows, 2) if reason is not None]
    assert report.kept == 1
    told = "SELECT content->>'area' FROM dbanon.quarantine WHERE line IN (5, 22) ORDER BY line"
    assert _fetch_all(plane, told) == [("clinic",), ("LINESTRING (5 5, 1e300 5)",)]


def test_sites_outside_a_box_are_left_out_by_their_middle(plane, write):
    rows = 'area,name\nPOINT (10 10),a\n"LINESTRING (40 10, 62 10)",b\n"LINESTRING (40 10, 58 10)",c\n'
    report = _load_metres(plane, write(rows), SHAPE, bbox=(0, 0, 50, 50))
    assert (report.quarantined, [name for name, _ in _read_sites(plane)]) == ({"outside-bbox": 1}, ["a", "c"])


def test_across_the_antimeridian_the_short_way_round_is_meant(connection, write):
    load.load_trajectories(
        connection,
        [write("subject,time,x,y\na,0,179.9,-17\nb,0,-179.9,-17\nc,0,179.95,-17.1\n")],
        LoadingTrajectories(time_unit="s", dataset="town"),
    )
    rows = (
        'area,name\n"MULTIPOINT ((179.99 -17), (-179.98 -17))",split\n"LINESTRING (179.99 -17, 180.03 -17)",beyond\n'
        '"LINESTRING (-179.99 -17, -180.03 -17)",before\nPOINT (0 -17),far\nPOINT (180.5 -17),none\n'
    )
    report = _load(connection, write(rows), SHAPE, bbox=(179, -18, -179, -16))
    assert report.quarantined == {"outside-bbox": 1, "position-out-of-range": 1}
    widths = _fetch_all(
        connection, "SELECT name, ST_XMax(geom) - ST_XMin(geom) < 5000 FROM dbanon.site ORDER BY site_id"
    )
    assert widths == [("split", True), ("beyond", True), ("before", True)]
    assert report.far == {}


def test_sites_are_the_same_to_the_millimetre(plane, write):
    report = _load_metres(plane, write(HEAD + "5,5,a\n5.4,5,a\n5,5.002,a\n5.0004,5,a\n"))
    assert (report.kept, report.quarantined) == (3, {"duplicate-site": 1})


# ---- where the users are ---------------------------------------------------------------------------------------------


@pytest.mark.many
@pytest.mark.parametrize(("at", "far"), [((3990, 500), 0), ((4010, 500), 1), ((500, -2990), 0), ((500, -3010), 1)])
def test_far_is_further_from_the_users_than_three_times_their_extent(plane, write, at, far):
    report = _load_metres(plane, write(HEAD + f"{at[0]},{at[1]},a\n"))
    assert (report.kept, report.far) == (1, {"far-position": 1} if far else {})
    assert len(report.notices) == far
    for notice in report.notices:
        demand_named(notice, "Notice: ", "1 site", "kept", "--drop-outliers")


def test_a_shape_that_reaches_far_is_far_although_its_middle_is_not(plane, write):
    report = _load_metres(plane, write('area,name\n"LINESTRING (-9000 5, 10000 5)",a\n'), SHAPE)
    assert report.far == {"far-position": 1}
    assert "--drop-outliers" in report.notices[0]


def test_far_sites_are_left_out_when_asked_and_nothing_else_is_stored_if_all_are(plane, write):
    far = HEAD + "90000,500,far\n"
    report = _load_metres(plane, write(far + "5,5,near\n"), drop_outliers=True)
    assert (report.quarantined, report.far) == ({"far-position": 1}, {})
    with expect_refusal(DataError, "usable", "1 far-position"):
        _load_metres(plane, write(far), drop_outliers=True, replace=True)
    assert _read_sites(plane) == [("near", "POINT(5 5)")]


def test_one_wild_user_does_not_bring_far_sites_near(town, write):
    load.load_trajectories(
        town,
        [write("subject,time,x,y\nwild,0,20,53\n", "w.csv")],
        LoadingTrajectories(time_unit="s", dataset="town", mode="append"),
    )
    assert _load(town, write(HEAD + "14,53,a\n8.2,53.1,b\n")).far == {"far-position": 1}


@pytest.mark.parametrize(
    ("path", "shape"),
    [("LINESTRING M (0 0 1, 9000 1000 2)", None), ("POINT M (4500 500 1)", "LINESTRING (0 0, 9000 1000)")],
)
def test_trajectories_count_with_both_ends_and_shapes_with_their_sides(connection, path, shape):
    connection.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('town', 32632, 1, 1)")
    connection.execute(
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path, shape) "
        "VALUES (1, 'a', ST_GeomFromText(%s, 32632), ST_GeomFromText(%s, 32632))",
        [path, shape],
    )
    assert _fetch_all(connection, "SELECT * FROM dbanon_internal.find_trajectory_bounds(1)") == [
        (-27_000, 36_000, -3000, 4000)
    ]


def test_a_dataset_without_trajectories_takes_sites_and_calls_none_far(connection, write):
    connection.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('town', 32632, 1, 1)")
    assert _load(connection, write(CLINICS)).far == {}


def test_an_empty_reference_system_is_refused_whatever_is_loaded(town, write):
    feature = (
        '{"type": "Feature", "properties": {"name": "a"}, "geometry": {"type": "Point", "coordinates": [8.2, 53.1]}}'
    )
    rows = write("subject,time,x,y\na,0,8.2,53.1\n", "more.csv")
    said = set()
    for refused in (
        lambda: load.load_trajectories(town, [rows], LoadingTrajectories(time_unit="s", dataset="other", crs="")),
        lambda: _load(town, write(CLINICS), crs=""),
        lambda: _load(town, write(feature, "sites.geojson"), crs=""),
    ):
        with pytest.raises(ParameterError) as caught:
            refused()
        said.add(str(caught.value))
    demand_named(said.pop(), "spatial_ref_sys", "''", "EPSG:4326")
    assert not said


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:32632"])
def test_sites_that_lie_among_the_users_only_with_x_and_y_exchanged_are_refused(town, write, crs):
    x, y = (53.1, 8.2) if crs == "EPSG:4326" else (5884000, 446000)
    rows = write(HEAD + f"{x},{y},a\n{x},{y},b\n{y},{x},c\n")
    with expect_refusal(ParameterError, "longitude", "latitude", "'x'", "--x y --y x"):
        _load(town, rows, crs=crs)
    wkt = write(f'area,name\n"POINT ({x} {y})",a\n', "wkt.csv")
    with expect_refusal(ParameterError, "longitude", "latitude", "'area'", "x first"):
        _load(town, wkt, SHAPE, crs=crs)
    assert _read_sites(town) == []


# ---- again, instead, and together ------------------------------------------------------------------------------------


def test_adding_keeps_what_is_there_and_replacing_does_not(plane, write):
    first, second = write(HEAD + "1,1,a\n2,2,b\n", "one.csv"), write(HEAD + "2,2,b\n3,3,c\n", "two.csv")
    _load_metres(plane, first)
    assert _load_metres(plane, second).quarantined == {"duplicate-site": 1}
    assert [name for name, _ in _read_sites(plane)] == ["a", "b", "c"]
    assert _load_metres(plane, second, replace=True).quarantined == {}
    assert [name for name, _ in _read_sites(plane)] == ["b", "c"]


@pytest.mark.many
@pytest.mark.parametrize("rows", ["", "x,y,name\n", "x,y,name\nnowhere,1,a\n", "x,y\n1,1\n"])
def test_a_file_that_cannot_be_used_replaces_nothing(plane, write, rows):
    _load_metres(plane, write(HEAD + "1,1,a\n"))
    revision = stored.find_dataset(plane, "town").revision
    with pytest.raises(DataError):
        _load_metres(plane, write(rows), replace=True)
    assert _read_sites(plane) == [("a", "POINT(1 1)")]
    assert stored.find_dataset(plane, "town").revision == revision


def test_other_datasets_keep_their_sites_and_do_not_make_duplicates(plane, write):
    load.load_trajectories(
        plane,
        [write("subject,time,x,y\na,0,0,0\n", "o.csv")],
        LoadingTrajectories(time_unit="s", dataset="other", crs="EPSG:32632", srid=32632),
    )
    rows = write(HEAD + "1,1,a\n")
    load.load_places(plane, rows, LoadingSites(dataset="other", **NAMED, crs="EPSG:32632"))
    assert _load_metres(plane, rows).kept == _load_metres(plane, rows, replace=True).kept == 1
    assert _read_sites(plane) == [("a", "POINT(1 1)")] * 2


def test_replaced_trajectories_leave_the_sites_and_their_reference_system(town, write):
    _load(town, write(CLINICS))
    near, away = write("subject,time,x,y\nz,0,8.2,53.1\n", "n.csv"), write("subject,time,x,y\nz,0,13.4,52.5\n", "a.csv")
    load.load_trajectories(town, [near], LoadingTrajectories(time_unit="s", dataset="town", mode="replace", grid_m=7))
    with expect_refusal(ParameterError, "'town'", 2, "SRID 32632", 32633, "--srid 32632"):
        load.load_trajectories(town, [away], LoadingTrajectories(time_unit="s", dataset="town", mode="replace"))
    load.load_trajectories(town, [away], LoadingTrajectories(time_unit="s", dataset="town", mode="replace", srid=32632))
    assert len(_read_sites(town)) == 2
    assert _fetch_all(town, "SELECT DISTINCT subject, ST_SRID(path) FROM dbanon.trajectory") == [("z", 32632)]


def test_names_and_columns_are_never_taken_for_sql(plane, write):
    odd = "a'); DROP TABLE dbanon.site; --"
    path = write(f'"%s","{odd}",n\n1,1,"{odd}"\n1,1,"{odd}"\n')
    report = _load_metres(plane, path, {"x": "%s", "y": odd, "name": "n"})
    assert (report.quarantined, _read_sites(plane)) == ({"duplicate-site": 1}, [(odd, "POINT(1 1)")])
    assert _fetch_all(plane, "SELECT content FROM dbanon.quarantine") == [({"%s": "1", odd: "1", "n": odd},)]


def test_a_transaction_of_the_caller_decides(database, plane, write):
    with psycopg.connect(database) as outer:
        outer.execute("SELECT 1")
        _load_metres(outer, write(HEAD + "1,1,a\n"))
        outer.rollback()
    assert _read_sites(plane) == []


# ---- rights ----------------------------------------------------------------------------------------------------------


def test_an_operator_loads_sites_a_worker_reads_them_and_an_analyst_sees_nothing(plane, login, write):
    rows = write(HEAD + "1,1,a\n1,1,a\n2,nan,b\n")
    with connect(login("dbanon_operator")) as operator:
        assert _load_metres(operator, rows).kept == 1
        assert _load_metres(operator, rows, replace=True).kept == 1
    with connect(login("dbanon_worker")) as worker:
        assert _read_sites(worker) == [("a", "POINT(1 1)")]
        with pytest.raises(StoreError, match="rights"):
            _load_metres(worker, rows, replace=True)
        for statement in ("DELETE FROM dbanon.site", "UPDATE dbanon.site SET name = 'b'"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                worker.execute(statement)
    with connect(login("dbanon_analyst")) as analyst:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            analyst.execute("SELECT FROM dbanon.site")
        with pytest.raises(StoreError, match="rights"):
            _load_metres(analyst, rows)
    assert _read_sites(plane) == [("a", "POINT(1 1)")]
