"""What a load sees in all fixes together: wild ones, swapped axes, boxes, and what the dataset has already."""

import numpy as np
import pytest

from dbanon import load
from dbanon.base.errors import DataError, ParameterError
from dbanon.options.loading import LoadingTrajectories
from tests.facts import demand_named, expect_refusal

HEAD = "subject,time,x,y\n"
rng = np.random.default_rng(5)
TOWN = [f"s{i % 20},{i // 20 * 60},{8.2 + east:.6f},{53.1 + north:.6f}" for i, (east, north) in
        enumerate(rng.uniform(-0.05, 0.05, (400, 2)))]  # fmt: skip


@pytest.fixture
def write(tmp_path):
    def make(rows, name="fixes.csv", head=HEAD):
        path = tmp_path / name
        path.write_text(head + "\n".join(rows) + "\n")
        return path

    return make


def _load(connection, path, dataset="d", **options):
    return load.load_trajectories(connection, [path], LoadingTrajectories(time_unit="s", dataset=dataset, **options))


def _read_quarantine(connection):
    return connection.execute("SELECT line, reason FROM dbanon.quarantine ORDER BY line").fetchall()


def _measure_width_m(connection):
    return connection.execute("SELECT ST_XMax(e) - ST_XMin(e) FROM (SELECT ST_Extent(path) e FROM dbanon.trajectory) s")


# ---- far outside the rest --------------------------------------------------------------------------------------------


def test_a_wild_position_is_counted_and_kept_and_the_way_to_leave_it_out_is_named(connection, write):
    report = _load(connection, write([*TOWN, "s1,99999,20.5,53.1"]))
    assert (report.kept, report.far, report.quarantined) == (401, {"far-position": 1}, {})
    assert len(report.notices) == 1
    assert "--drop-outliers" in report.notices[0]
    assert "--bbox" in report.notices[0]


def test_dropped_wild_fixes_are_in_quarantine_and_stretch_nothing(connection, write):
    rows = [*TOWN, "s1,99999,20.5,53.1", "s2,99999,8.2,-30", "s3,1500000000,8.2,53.1"]
    report = _load(connection, write(rows), drop_outliers=True)
    assert report.quarantined == {"far-position": 2, "far-time": 1}
    assert (report.far, report.notices) == ({}, ())
    assert _read_quarantine(connection) == [(402, "far-position"), (403, "far-position"), (404, "far-time")]
    assert _measure_width_m(connection).fetchone()[0] < 10_000


def test_a_wild_fix_among_a_few_is_found(connection, write):
    report = _load(connection, write([*TOWN[:9], "s1,99999,20.5,53.1"]))
    assert report.far == {"far-position": 1}


@pytest.mark.parametrize("rows", [TOWN[:1], TOWN[:2], [f"a,{t},8.2,53.1" for t in range(50)]])
def test_one_fix_or_one_place_is_not_wild(connection, write, rows):
    assert _load(connection, write(rows)).far == {}


def test_a_second_town_with_a_share_of_the_fixes_is_no_outlier(connection, write):
    other = [f"t{i},{i},{13.4 + i / 100},52.5" for i in range(20)]
    assert _load(connection, write([*TOWN, *other])).far == {}


def test_a_single_jump_of_the_clock_is_told_as_one(connection, write):
    late = [f"s{i % 20},{1212562884 + i * 10},8.2,53.1" for i in range(300)]
    report = _load(connection, write([*late, "s1,0,8.2,53.1"]))
    (notice,) = report.notices
    demand_named(notice, "Notice: ", "1 time", "kept", "--drop-outliers")


def test_a_jump_of_the_clock_is_counted(connection, write):
    late = [f"s{i % 20},{1212562884 + i * 10},8.2,53.1" for i in range(300)]
    report = _load(connection, write([*late, "s1,0,8.2,53.1", "s2,1700000000,8.2,53.1"]))
    assert report.far == {"far-time": 2}
    demand_named(report.notices[0], "Notice: ", "2 times", "kept", "--drop-outliers")


def test_towns_on_the_antimeridian_are_one_town(connection, write):
    rows = [f"s{i},{i},{(179.95 + i / 1000 + 180) % 360 - 180:.4f},-17" for i in range(100)]
    report = _load(connection, write(rows))
    assert report.far == {}
    assert report.srid in (32701, 32760)
    assert _measure_width_m(connection).fetchone()[0] < 12_000


def test_a_few_usable_rows_among_many_are_enough(connection):
    with connection.transaction():
        connection.execute("SELECT dbanon_internal.make_staging('x float8, y float8')")
        connection.execute("INSERT INTO dbanon_rejected SELECT 0, i, 'missing-subject' FROM generate_series(1, 5000) i")
        connection.execute("INSERT INTO dbanon_staged SELECT 0, i, 0, i, 53.1 FROM generate_series(1, 3) i")
        (drawn,) = connection.execute("SELECT x FROM dbanon_internal.draw_sample(3, 10)").fetchone()
        assert drawn == [1, 2, 3]


def test_a_sample_is_drawn_of_many_rows_and_numbers_beyond_arithmetic_are_cut_off(connection):
    with connection.transaction():
        connection.execute("SELECT dbanon_internal.make_staging('x float8, y float8')")
        connection.execute(
            "INSERT INTO dbanon_staged SELECT 0, i, '5e-324', '1e308', '-1e308' FROM generate_series(1, 9000) i"
        )
        x, y, t = connection.execute("SELECT x, y, t FROM dbanon_internal.draw_sample(9000, 300)").fetchone()
    assert 200 < len(x) < 400
    assert (set(x), set(y), set(t)) == ({1e100}, {-1e100}, {0})


def test_far_positions_that_cannot_be_placed_are_not_counted_as_kept(connection, write):
    rows = [*TOWN, "s1,99999,99,0", "s1,99998,20.5,53.1"]
    report = _load(connection, write(rows), srid=32632)
    assert report.quarantined == {"position-out-of-range": 1}
    assert report.far == {"far-position": 1}


@pytest.mark.parametrize(("most", "parts"), [(7, [7, 7, 6]), (20, [20]), (19, [19, 1])])
def test_a_long_subject_is_cut_into_trajectories(connection, write, most, parts):
    _load(connection, write(TOWN))
    with connection.transaction():
        connection.execute(
            "CREATE TEMP TABLE dbanon_staged ON COMMIT DROP AS SELECT 'a' AS subject, NULL AS trip, t::float8, "
            "8.2 AS x, 53.1 AS y FROM generate_series(1, 20) t"
        )
        connection.execute(
            "SELECT dbanon_internal.insert_lines(NULL, dat, 4326, NULL, true, %s) FROM dbanon.dataset dat", [most]
        )
        query = "SELECT ST_NPoints(path) FROM dbanon.trajectory WHERE subject = 'a' ORDER BY first_s"
        assert [n for (n,) in connection.execute(query).fetchall()] == parts


def test_the_first_and_the_last_time_are_told(connection, write):
    report = _load(connection, write(["a,1212562800,8.2,53.1", "a,1212649199,8.2,53.1"]))
    told = (report.first_time.isoformat(), report.last_time.isoformat())
    assert told == ("2008-06-04T07:00:00+00:00", "2008-06-05T06:59:59+00:00")


def test_a_dataset_wider_than_its_zone_is_told_apart(connection, write):
    rows = [*TOWN, *(f"t{i},{i},{2 + i / 10},50" for i in range(300))]
    demand_named(_load(connection, write(rows)).notices[0], "6 degrees", "SRID", "%")


# ---- boxes -----------------------------------------------------------------------------------------------------------


def test_what_lies_outside_the_box_is_in_quarantine(connection, write):
    report = _load(connection, write([*TOWN, "s1,99999,20.5,53.1", "s1,0,53.1,8.2"]), bbox=(8, 53, 9, 54))
    assert report.quarantined == {"outside-bbox": 1, "swapped-axes": 1}
    assert report.far == {}


def test_a_box_may_cross_the_antimeridian(connection, write):
    rows = ["a,0,179.9,-17", "a,60,-179.9,-17", "b,0,0,-17"]
    assert _load(connection, write(rows), bbox=(179, -20, -179, -10)).quarantined == {"outside-bbox": 1}


def test_a_box_in_metres_does_not_cross_the_antimeridian(connection, write):
    with expect_refusal(ParameterError, "box in metres", "XMIN", "XMAX"):
        _load(connection, write(["a,0,440000,5900000"]), crs="EPSG:32632", bbox=(500000, 0, 400000, 6000000))


@pytest.mark.parametrize("box", [(0, 1, 1, 0), (0, 0, 1, float("nan")), (0, 0, float("inf"), 1)])
def test_a_box_that_is_none_is_refused(connection, write, box):
    with pytest.raises(ParameterError, match="--bbox"):
        _load(connection, write(TOWN), bbox=box)


# ---- swapped axes ----------------------------------------------------------------------------------------------------


def _swap_rows(rows):
    return [",".join([*row.split(",")[:2], *row.split(",")[:1:-1]]) for row in rows]


def _catch_refusal(connection, path, **options):
    with pytest.raises(ParameterError) as refused:
        _load(connection, path, **options)
    assert connection.execute("SELECT count(*) FROM dbanon.dataset").fetchone()[0] == options.get("left", 0)
    return str(refused.value)


def test_latitudes_beyond_90_degrees_are_longitudes(connection, write):
    rows = [f"s{i % 9},{i},37.7,-122.{i}" for i in range(100, 150)]
    demand_named(_catch_refusal(connection, write(rows)), "longitude", "latitude", "'x'", "'y'", "--x y --y x")


def test_columns_that_say_what_they_are_are_believed(connection, write):
    path = write(TOWN, head="subject,time,Lat,LON\n")
    assert "--x LON --y Lat" in _catch_refusal(connection, path, x="Lat", y="LON")


def test_swapped_axes_are_seen_by_the_reference_system_of_the_dataset(connection, write):
    assert "--x y --y x" in _catch_refusal(connection, write(_swap_rows(TOWN)), srid=32632)


def test_swapped_axes_are_seen_when_more_is_added(connection, write):
    _load(connection, write(TOWN))
    with pytest.raises(ParameterError, match="--x y --y x"):
        _load(connection, write(_swap_rows(TOWN)), mode="append")


def test_northings_before_eastings_are_seen(connection, write):
    rows = [f"s{i % 9},{i},{5900000 + i},{440000 + i}" for i in range(50)]
    assert "--x y --y x" in _catch_refusal(connection, write(rows), crs="EPSG:32632")
    assert _load(connection, write(_swap_rows(rows)), crs="EPSG:32632").srid == 32632


@pytest.mark.parametrize("wrong", [3, 40, 180])
def test_fixes_with_swapped_axes_are_left_out(connection, write, wrong):
    report = _load(connection, write([*_swap_rows(TOWN[:wrong]), *TOWN[wrong:]]))
    assert report.quarantined == {"swapped-axes": wrong}
    assert (report.far, len(report.notices), report.srid) == ({}, int(wrong > 20), 32632)


def test_one_file_of_several_with_swapped_axes_is_refused(connection, write):
    files = [write(TOWN[:300], "right.csv"), write(_swap_rows(TOWN[300:]), "wrong.csv")]
    with pytest.raises(ParameterError, match="--x y --y x"):
        load.load_trajectories(connection, files, LoadingTrajectories(time_unit="s", dataset="d"))


# ---- what the dataset has already ------------------------------------------------------------------------------------


def test_the_same_file_a_second_time_adds_nothing_and_says_so(connection, write):
    _load(connection, write(TOWN))
    with expect_refusal(DataError, "nothing to add"):
        _load(connection, write(TOWN), mode="append")
    assert connection.execute("SELECT count(*) FROM dbanon.load").fetchone() == (1,)


def test_added_fixes_that_are_there_or_contradict_those_there_are_left_out(connection, write):
    _load(connection, write(["a,0,8.2,53.1", "a,60,8.3,53.1", "b,0,8.2,53.2"]))
    rows = ["a,60,8.3,53.1", "a,0,8.25,53.1", "b,0,8.9,53.2", "b,0,8.2,53.2", "a,120,8.3,53.1", "c,0,8.2,53.1"]
    for options in ({}, {"split_gap_s": 3600}):  # with which twins are looked for from the start
        connection.execute("DELETE FROM dbanon.load WHERE load_id > 1; DELETE FROM dbanon.trajectory WHERE load_id > 1")
        report = _load(connection, write(rows), mode="append", **options)
        assert report.quarantined == {"duplicate-fix": 2, "contradicting-fix": 2}
        assert _read_quarantine(connection) == [
            (2, "duplicate-fix"), (3, "contradicting-fix"), (4, "contradicting-fix"), (5, "duplicate-fix")
        ]  # fmt: skip
    stored = connection.execute("SELECT subject, extract(epoch FROM t)::int FROM dbanon.fix ORDER BY 1, 2").fetchall()
    assert stored == [("a", 0), ("a", 60), ("a", 120), ("b", 0), ("c", 0)]


def test_replacing_does_not_mind_what_was_there(connection, write):
    _load(connection, write(TOWN))
    assert _load(connection, write(TOWN), mode="replace").kept == len(TOWN)
