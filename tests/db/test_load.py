"""Loading: what becomes a trajectory, what is left out with which reason, and that a refused load leaves nothing."""

import gzip
import threading

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dbanon import load, releases
from dbanon.base.errors import DataError, ParameterError, StoreError
from dbanon.base.progress import report_nothing
from dbanon.options.loading import LoadingRequests, LoadingTrajectories
from dbanon.options.publishing import Publishing, Submitting
from dbanon.postgres.connection import connect
from dbanon.runs import queue, stored
from tests.facts import demand_named, expect_refusal

HEAD = "subject,time,x,y\n"
GOOD = HEAD + "a,0,-122.4,37.7\na,60,-122.41,37.71\nb,0,-122.5,37.8\n"


def _load(connection, *paths, dataset="d", progress=report_nothing, **options):
    chosen = LoadingTrajectories(time_unit="s", dataset=dataset, **options)
    return load.load_trajectories(connection, list(paths), chosen, progress)


def _fetch_all(connection, query, *params):
    return connection.execute(query, params).fetchall()


def _read_paths(connection):
    return _fetch_all(connection, "SELECT subject, ST_AsText(path, 0) FROM dbanon.trajectory ORDER BY trajectory_id")


def _read_quarantine(connection):
    return _fetch_all(connection, "SELECT line, reason FROM dbanon.quarantine ORDER BY quarantine_id")


def _count_stored(connection):
    tables = ("dataset", "trajectory", "load", "quarantine", "request")
    return [_fetch_all(connection, f"SELECT count(*) FROM dbanon.{t}")[0][0] for t in tables]


def test_one_subject_becomes_one_line_and_a_single_fix_a_point(connection, write):
    report = _load(connection, write(GOOD))
    assert (report.read, report.kept, report.quarantined) == (3, 3, {})
    assert (report.trajectories, report.subjects, report.srid) == (2, 2, 32610)
    kinds = _fetch_all(
        connection,
        "SELECT subject, GeometryType(path), ST_SRID(path), ST_M(ST_StartPoint(path)), ST_M(ST_EndPoint(path)) "
        "FROM dbanon.trajectory ORDER BY trajectory_id",
    )
    assert kinds[0] == ("a", "LINESTRINGM", 32610, 0.0, 60.0)
    assert kinds[1][:3] == ("b", "POINTM", 32610)
    assert _fetch_all(connection, "SELECT kind, rows_read, rows_kept, quarantined FROM dbanon.load") == [
        ("trajectories", 3, 3, {})
    ]


def test_positions_are_reprojected_as_postgis_does_it_fix_by_fix(connection, write):
    _load(connection, write(GOOD))
    ((off,),) = _fetch_all(
        connection,
        "SELECT max(ST_Distance(f.position, ST_Transform(ST_SetSRID(ST_MakePoint(v.x, v.y), 4326), 32610))) "
        "FROM dbanon.fix f JOIN (VALUES ('a', 0, -122.4, 37.7), ('a', 60, -122.41, 37.71), ('b', 0, -122.5, 37.8)) "
        "v(subject, t, x, y) ON v.subject = f.subject AND to_timestamp(v.t) = f.t HAVING count(*) = 3",
    )
    assert off < 1e-6


def test_fixes_are_ordered_by_time_whatever_their_order_in_the_files(connection, write):
    first = write(HEAD + "a,30,3,0\na,10,1,0\n", "one.csv")
    second = write(HEAD + "a,20,2,0\na,1,0,0\n", "two.csv")
    _load(connection, first, second, crs="EPSG:32610", srid=32610)
    assert _read_paths(connection) == [("a", "LINESTRING M (0 0 1,1 0 10,2 0 20,3 0 30)")]
    assert _fetch_all(connection, "SELECT source, rows_kept FROM dbanon.load ORDER BY load_id") == [
        (str(first), 2),
        (str(second), 2),
    ]


def test_every_reason_puts_a_row_in_quarantine_with_its_line_and_cells(connection, write):
    rows = [
        ("a,0,1,1", None),
        (",1,1,1", "missing-subject"),
        ("  ,1,1,1", "missing-subject"),
        ("y" * 1001 + ",0,1,1", "subject-too-long"),
        ("a\tb,0,1,1", "control-characters"),
        ("a\x85b,0,1,1", "control-characters"),
        ("a,noon,1,1", "unparsable-time"),
        ("a,,1,1", "unparsable-time"),
        ("a,inf,1,1", "non-finite-time"),
        ("a,2,east,1", "unparsable-position"),
        ("a,2,1,", "missing-position"),
        ("a,2,nan,1", "non-finite-position"),
        ("a,2,1,-Infinity", "non-finite-position"),
        ("a,2,180.1,1", "position-out-of-range"),
        ("a,2,1,-91", "swapped-axes"),
        ("a,2,100,-91", "position-out-of-range"),
        ("a,1e12,1,1", "time-out-of-range"),
        ("a,0,1,1", "duplicate-fix"),
        ("a,0.0,1.0,1.0", "duplicate-fix"),
        ("a,0,1,2", "contradicting-fix"),
        ("a,0,1,2", "contradicting-fix"),
        ("b,0,1,2", None),
    ]
    report = _load(connection, write(HEAD + "".join(row + "\n" for row, _ in rows)))
    expected = [(line, reason) for line, (_, reason) in enumerate(rows, 2) if reason]
    assert _read_quarantine(connection) == expected
    assert report.quarantined == {r: [e[1] for e in expected].count(r) for _, r in expected}
    assert (report.read, report.kept) == (22, 2)
    assert sum(report.quarantined.values()) + report.kept == report.read
    content = dict(_fetch_all(connection, "SELECT line, content FROM dbanon.quarantine"))
    assert content[8] == {"subject": "a", "time": "noon", "x": "1", "y": "1"}
    assert content[21] == {"subject": "a", "time": "0", "x": "1", "y": "2"}
    assert _fetch_all(connection, "SELECT quarantined FROM dbanon.load") == [(report.quarantined,)]


def test_the_first_of_contradicting_fixes_in_file_order_is_kept(connection, write):
    first, second = write(HEAD + "b,0,5,5\na,0,5,5\n", "one.csv"), write(HEAD + "a,0,6,6\na,1,7,7\n", "two.csv")
    _load(connection, first, second, crs="32610", srid=32610)
    assert _read_paths(connection) == [("a", "LINESTRING M (5 5 0,7 7 1)"), ("b", "POINT M (5 5 0)")]


def test_a_fix_that_cannot_be_reprojected_is_left_out_alone(connection, write):
    far = HEAD + "".join(f"s{i % 7},{i},{-122.4 - i * 1e-5},37.7\n" for i in range(3000)) + "s1,5000,-33,0\n"
    report = _load(connection, write(far))
    assert report.quarantined == {"position-out-of-range": 1}
    assert (report.kept, report.trajectories) == (3000, 7)
    assert _read_quarantine(connection) == [(3002, "position-out-of-range")]


def test_a_twin_of_a_fix_that_cannot_be_reprojected_is_kept(connection, write):
    report = _load(connection, write(GOOD + "b,60,-33,0\nb,60,-122.5,37.81\n"))
    assert report.quarantined == {"position-out-of-range": 1}
    assert report.kept == 4


def test_trips_and_gaps_cut_a_subject_into_trajectories(connection, write):
    path = write("s,t,e,n,ride\na,0,0,0,1\na,10,1,0,1\na,20,2,0,2\na,500,3,0,2\na,505,4,0,2\n")
    columns = {"subject": "s", "time": "t", "x": "e", "y": "n", "trip": "ride"}
    report = _load(connection, path, **columns, crs="32610", srid=32610, split_gap_s=100)
    assert (report.trajectories, report.subjects) == (3, 1)
    assert [text for _, text in _read_paths(connection)] == [
        "LINESTRING M (0 0 0,1 0 10)",
        "POINT M (2 0 20)",
        "LINESTRING M (3 0 500,4 0 505)",
    ]


def test_a_gap_as_long_as_the_limit_does_not_cut(connection, write):
    path = write(HEAD + "a,0,0,0\na,100,1,0\na,200.5,2,0\n")
    assert _load(connection, path, crs="32610", srid=32610, split_gap_s=100).trajectories == 2


def test_a_dash_makes_every_row_a_subject_of_its_own_also_when_appended(connection, write):
    path = write("time,x,y\n0,1,1\n0,1,1\nx,1,1\n0,2,2\n")
    assert _load(connection, path, subject="-").subjects == 3
    more = write("time,x,y\n1,1,1\n1,1,1\nx,1,1\n1,2,2\n", "more.csv")
    assert _load(connection, more, subject="-", mode="append").subjects == 3
    assert _fetch_all(connection, "SELECT count(DISTINCT subject), count(*) FROM dbanon.trajectory") == [(6, 6)]
    assert _read_quarantine(connection) == [(4, "unparsable-time")] * 2


METRES = {"crs": "EPSG:32610", "srid": 32610, "subject": "-"}
ROWS = "time,x,y\n0,1,1\n0,2,1\n0,3,1\n9,1,1\n"


@pytest.mark.parametrize("subject", ["subject", "-"])
def test_a_file_named_twice_is_refused_whatever_it_is_called(connection, write, tmp_path, subject):
    path, link = write(GOOD), tmp_path / "link.csv"
    link.symlink_to(path)
    for twice in (path, tmp_path / ".." / tmp_path.name / path.name, link):
        with expect_refusal(ParameterError, ".csv", "once"):
            _load(connection, path, write(ROWS, "other.csv"), twice, subject=subject)
    assert _count_stored(connection) == [0] * 5


@pytest.mark.many
@pytest.mark.parametrize(
    ("more", "facts"),
    [
        ("", None),
        ("0,1,1\n", ("1 row", "time and place")),
        ("0,1,1\n0,1.0,1e0\n0,2,1\n", ("3 rows", "time and place")),
        ("0,1.001,1\n1,1,1\n", None),
    ],
)
def test_rows_of_their_own_that_repeat_others_are_kept_and_counted(connection, write, more, facts):
    report = _load(connection, write(ROWS + more), **METRES)
    assert report.subjects == report.kept == 4 + more.count("\n")
    assert len(report.notices) == (facts is not None)
    for notice in report.notices:
        demand_named(notice, "Notice: ", *facts)


def test_named_subjects_at_one_place_get_no_notice(connection, write):
    assert _load(connection, write(HEAD + "a,0,1,1\nb,0,1,1\nb,1,1,1\n")).notices == ()


def test_rows_of_their_own_are_counted_among_what_is_added_and_what_is_there(connection, write):
    _load(connection, write(ROWS), **METRES)
    added = write("time,x,y\n0,1,1\n5,1,1\n5,1,1\n5,2,1\n", "more.csv")
    report = _load(connection, added, mode="append", **METRES)
    assert report.kept == 4
    demand_named(report.notices[0], "Notice: ", "2 rows", "time and place")


@pytest.mark.parametrize(
    ("rows", "again"), [("0,1,1\n0,2,1\n7,1,1\n7,2,1\n", "2 of the 4 rows"), ("9,1,1\n", "1 of the 1 row")]
)
def test_adding_rows_of_their_own_is_refused_if_half_are_there(connection, write, rows, again):
    _load(connection, write(ROWS), **METRES)
    before = _count_stored(connection)
    with expect_refusal(DataError, "new", again):
        _load(connection, write("time,x,y\n" + rows, "more.csv"), mode="append", **METRES)
    assert _count_stored(connection) == before


def test_one_row_of_its_own_is_compared_with_no_other_dataset(connection, write):
    row = write("time,x,y\n1,2,1\n")
    _load(connection, row, **METRES)
    assert _load(connection, row, dataset="other", **METRES).notices == ()


def test_replacing_rows_of_their_own_by_the_same_is_no_repetition(connection, write):
    path = write(ROWS)
    _load(connection, path, **METRES)
    assert _load(connection, path, mode="replace", **METRES).notices == ()


def test_the_same_rows_in_another_reference_system_are_there_already(connection, write):
    _load(connection, write("time,x,y\n0,-122.4,37.7\n"), subject="-")
    moved = _fetch_all(connection, "SELECT ST_X(path), ST_Y(path) FROM dbanon.trajectory")[0]
    with expect_refusal(DataError, "new"):
        _load(connection, write(f"time,x,y\n0,{moved[0]!r},{moved[1]!r}\n", "m.csv"), mode="append", **METRES)


def test_the_same_rows_as_csv_gzip_and_parquet_give_the_same_paths(connection, tmp_path, write):
    rng = np.random.default_rng(5)
    who, t = rng.integers(0, 5, 400), rng.permutation(400).astype(float)
    x, y = rng.uniform(-122.5, -122.3, 400), rng.uniform(37.7, 37.8, 400)
    text = HEAD + "".join(
        f"{s},{a!r},{b!r},{c!r}\n" for s, a, b, c in zip(who, t.tolist(), x.tolist(), y.tolist(), strict=True)
    )
    zipped = tmp_path / "fixes.csv.gz"
    zipped.write_bytes(gzip.compress(text.encode()))
    parquet = tmp_path / "fixes.parquet"
    stamps = pa.array((t * 1000).astype(np.int64)).cast(pa.timestamp("ms", "UTC"))
    pq.write_table(pa.table({"subject": who.astype(np.int16), "time": stamps, "x": x, "y": y}), parquet)
    for name, path in (("csv", write(text)), ("gzip", zipped), ("parquet", parquet)):
        _load(connection, path, dataset=name)
    assert _fetch_all(
        connection, "SELECT count(*), count(DISTINCT (subject, ST_AsBinary(path))) FROM dbanon.trajectory"
    ) == [(15, 5)]


def test_naive_times_are_read_in_the_zone_given(connection, write):
    path = write(HEAD + "a,2008-06-04T00:01:24,-122.4,37.7\n")
    with pytest.raises(ParameterError, match="--tz"):
        _load(connection, path)
    assert _count_stored(connection) == [0] * 5
    _load(connection, path, tz="America/Los_Angeles")
    assert _fetch_all(connection, "SELECT ST_M(path) FROM dbanon.trajectory") == [(1212562884.0,)]


@pytest.mark.parametrize(("lon", "lat", "srid"), [(13.4, 52.5, 32633), (151.2, -33.9, 32756), (179.99, 1, 32660)])
def test_the_default_srid_is_the_utm_zone_of_the_median(connection, write, lon, lat, srid):
    path = write(HEAD + f"a,0,{lon},{lat}\na,1,{lon},{lat}\na,2,{lon},{lat}\nb,0,-122,37\n")
    assert _load(connection, path).srid == srid


def test_the_default_srid_of_projected_positions_is_a_utm_zone_too(connection, write):
    assert _load(connection, write(HEAD + "a,0,1491636,6894701\n"), crs="EPSG:3857").srid == 32633


@pytest.mark.many
@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"srid": 4326}, "metres"),
        ({"srid": 2227}, "metres"),
        ({"srid": 999999}, "spatial_ref_sys"),
        ({"crs": "WGS84"}, "spatial_ref_sys"),
        ({"crs": "EPSG:4326; DROP TABLE dbanon.dataset"}, "spatial_ref_sys"),
        ({"mode": "append"}, "'d'"),
        ({"mode": "overwrite"}, "'overwrite'"),
        ({"grid_m": 0}, "space grid"),
        ({"grid_m": float("nan")}, "space grid"),
        ({"grid_s": 0}, "time grid"),
        ({"split_gap_s": -1}, "gap"),
        ({"tz": "Mars/Olympus"}, "zone"),
        ({"dataset": " "}, "name"),
    ],
)
def test_options_that_cannot_be_used_are_refused_and_nothing_is_stored(connection, write, options, word):
    with expect_refusal(ParameterError, word):
        _load(connection, write(GOOD), **options)
    assert _count_stored(connection) == [0] * 5


def test_a_load_without_files_is_refused(connection):
    with expect_refusal(ParameterError, "file", "none"):
        _load(connection)


@pytest.mark.many
@pytest.mark.parametrize("text", ["", HEAD, HEAD + "a,0,1\n", "subject,time,lon,lat\na,0,1,1\n"])
def test_a_second_file_that_is_no_table_undoes_the_first(connection, write, text):
    with pytest.raises(DataError) as refused:
        _load(connection, write(GOOD, "good.csv"), write(text))
    assert "122" not in str(refused.value)
    assert _count_stored(connection) == [0] * 5


def test_a_file_of_bad_rows_says_how_many_of_which_kind(connection, write):
    with expect_refusal(DataError, "3 rows", "1 missing-subject", "2 unparsable-time"):
        _load(connection, write(HEAD + "a,x,1,1\na,y,1,1\n,0,1,1\n"))


def test_only_fixes_off_the_map_are_nothing_usable(connection, write):
    with pytest.raises(DataError, match="position-out-of-range"):
        _load(connection, write(HEAD + "a,0,-33,0\n"), srid=32610)
    assert _count_stored(connection) == [0] * 5


def test_creating_a_dataset_twice_is_refused_with_the_two_ways_out(connection, write):
    _load(connection, write(GOOD))
    with pytest.raises(ParameterError, match=r"--append.*--replace"):
        _load(connection, write(GOOD))


def test_an_unknown_dataset_names_those_there_are(connection, write):
    _load(connection, write(GOOD), dataset="cabs")
    with expect_refusal(ParameterError, "'cab'", "'cabs'"):
        _load(connection, write(GOOD), dataset="cab", mode="append")


def test_appending_adds_on_the_datasets_own_grid(connection, write):
    _load(connection, write(GOOD), grid_m=10, grid_s=60)
    before = stored.find_dataset(connection, "d")
    _load(connection, write(HEAD + "c,0,13.4,52.5\n"), mode="append")
    after = stored.find_dataset(connection, "d")
    assert (after.srid, after.grid_m, after.grid_s) == (32610, 10, 60)
    assert after.revision > before.revision
    assert _fetch_all(connection, "SELECT count(*), count(DISTINCT ST_SRID(path)) FROM dbanon.trajectory") == [(3, 1)]
    for name, has, other in (("grid_m", 10, 5), ("grid_s", 60, 30), ("srid", 32610, 32611)):
        with expect_refusal(ParameterError, "'d'", f"{name.upper() if name == 'srid' else name} {has}", other):
            _load(connection, write(GOOD), mode="append", **{name: other})


def test_replacing_takes_the_old_trajectories_and_runs_away_and_keeps_requests(connection, write):
    _load(connection, write(GOOD))
    load.load_requests(
        connection, write("subject,time,poi\na,0,bank\n"), LoadingRequests(time_unit="s", dataset="d", columns=("poi",))
    )
    data = stored.find_dataset(connection, "d")
    queued = queue.submit_run(connection, "tp-aware", Submitting(dataset="d", algorithm="traj-anon", seed=1))
    with expect_refusal(StoreError, f"run {queued}", "waiting"):
        _load(connection, write(HEAD + "z,0,13.4,52.5\n"), mode="replace", grid_m=7)
    connection.execute("SELECT dbanon.cancel_run(%s)", [queued])
    _load(connection, write(HEAD + "z,0,13.4,52.5\n"), mode="replace", grid_m=7)
    after = stored.find_dataset(connection, "d")
    assert (after.dataset_id, after.srid, after.grid_m) == (data.dataset_id, 32633, 7)
    assert _fetch_all(connection, "SELECT subject FROM dbanon.trajectory") == [("z",)]
    assert _fetch_all(connection, "SELECT count(*) FROM dbanon.run") == [(0,)]
    assert _fetch_all(connection, "SELECT count(*) FROM dbanon.request") == [(1,)]


@pytest.mark.parametrize("withdrawn", [False, True])
def test_replacing_what_was_ever_published_is_refused(connection, run, write, withdrawn):
    releases.publish(connection, run, "ten_people", Publishing())
    if withdrawn:
        releases.unpublish(connection, "ten_people")
    with expect_refusal(ParameterError, "'ten'", "releases", 1):
        _load(connection, write(GOOD), dataset="ten", mode="replace")
    assert _fetch_all(connection, "SELECT count(*) FROM dbanon.trajectory") == [(10,)]


def test_two_loads_of_one_new_dataset_at_once_end_with_one(database, connection, write):
    path = write(HEAD + "".join(f"a,{i},-122.4,37.7\n" for i in range(5000)))
    ends = []

    def go():
        with connect(database) as own:
            try:
                ends.append(_load(own, path).kept)
            except ParameterError as error:
                ends.append(type(error))

    threads = [threading.Thread(target=go) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ends, key=str) == [5000, ParameterError]
    assert _fetch_all(connection, "SELECT count(*) FROM dbanon.load") == [(1,)]


@pytest.mark.stress
def test_a_load_whose_server_goes_away_half_way_leaves_nothing(database, connection, write):
    path = write(HEAD + "".join(f"a,{i},-122.4,37.7\n" for i in range(1000)))

    def cut(stage, done, total):
        if stage == "making trajectories":
            connection.execute("SELECT pg_terminate_backend(%s)", [own.info.backend_pid])

    own = connect(database)
    with own, expect_refusal(StoreError, "connection", "lost"):
        _load(own, path, progress=cut)
    assert _count_stored(connection) == [0] * 5


def test_an_operator_may_load_and_append_and_a_worker_may_not(connection, login, write):
    with connect(login("dbanon_operator")) as operator:
        assert _load(operator, write(GOOD + "a,0,-33,0\nb,x,1,1\n")).kept == 3
        assert _load(operator, write(HEAD + "c,0,-33,0\nc,1,-122.4,37.7\n"), mode="append").kept == 1
        load.load_requests(
            operator,
            write("subject,time,poi\na,0,bank\n"),
            LoadingRequests(time_unit="s", dataset="d", columns=("poi",)),
        )
    with connect(login("dbanon_worker")) as worker, pytest.raises(StoreError, match="rights"):
        _load(worker, write(GOOD), dataset="e")


def test_column_names_and_subjects_are_never_taken_for_sql(connection, write):
    odd = "a'); DROP TABLE dbanon.dataset; --"
    path = write(f'"{odd}","%s",x,y\n"{odd}",0,1,1\n"{odd}",0,1,1\n')
    report = _load(connection, path, dataset=odd, subject=odd, time="%s")
    assert report.quarantined == {"duplicate-fix": 1}
    assert _fetch_all(connection, "SELECT subject FROM dbanon.trajectory") == [(odd,)]
    assert _fetch_all(connection, "SELECT content FROM dbanon.quarantine") == [
        ({odd: odd, "%s": "0", "x": "1", "y": "1"},)
    ]
    requests = write(f'subject,time,"{odd}"\n{"x"},0,1\n')
    load.load_requests(connection, requests, LoadingRequests(time_unit="s", dataset=odd, columns=(odd,)))
    assert _fetch_all(connection, "SELECT content FROM dbanon.request") == [({odd: "1"},)]


def test_requests_become_name_value_objects_without_empty_cells(connection, write):
    _load(connection, write(GOOD))
    rows = "a,0,bank,\nb,99999999,,cheap\nnobody,5,shop,dear\n,5,shop,\na,noon,shop,\na,inf,shop,\na,5,, \n"
    report = load.load_requests(
        connection,
        write("subject,time,poi,price\n" + rows),
        LoadingRequests(time_unit="s", dataset="d", columns=("poi", "price")),
    )
    assert (report.kind, report.read, report.kept, report.subjects) == ("requests", 7, 3, 3)
    assert report.quarantined == {"missing-subject": 1, "unparsable-time": 1, "non-finite-time": 1, "empty-request": 1}
    assert _fetch_all(connection, "SELECT subject, extract(epoch FROM sent_at)::int, content FROM dbanon.request") == [
        ("a", 0, {"poi": "bank"}),
        ("b", 99999999, {"price": "cheap"}),
        ("nobody", 5, {"poi": "shop", "price": "dear"}),
    ]
    assert _read_quarantine(connection) == [
        (5, "missing-subject"),
        (6, "unparsable-time"),
        (7, "non-finite-time"),
        (8, "empty-request"),
    ]


def test_requests_that_are_there_already_are_not_added_again(connection, write):
    _load(connection, write(GOOD))
    rows = "subject,time,poi\na,0,bar\na,5,bar\nb,0,\n"
    asked = LoadingRequests(time_unit="s", dataset="d", columns=("poi",))
    assert load.load_requests(connection, write(rows, "one.csv"), asked).kept == 2
    with expect_refusal(DataError, "nothing to add"):
        load.load_requests(connection, write("subject,time,poi\na,0,bar\n", "two.csv"), asked)
    more = load.load_requests(connection, write(rows + "a,0,pub\n", "three.csv"), asked)
    assert more.quarantined == {"empty-request": 1, "duplicate-request": 2}
    assert _fetch_all(connection, "SELECT count(*) FROM dbanon.request") == [(3,)]
    told = "SELECT line, content FROM dbanon.quarantine WHERE reason = 'duplicate-request' ORDER BY line LIMIT 1"
    line, content = _fetch_all(connection, told)[0]
    assert line == 2
    assert content["poi"] == "bar"


def test_requests_need_a_dataset_a_column_and_a_usable_row(connection, write):
    path = write("subject,time,poi\na,x,bank\n", "requests.csv")
    with pytest.raises(ParameterError, match="dataset"):
        load.load_requests(connection, path, LoadingRequests(time_unit="s", dataset="none", columns=("poi",)))
    with pytest.raises(ParameterError, match="column"):
        load.load_requests(connection, path, LoadingRequests(time_unit="s", dataset="none", columns=()))
    _load(connection, write(GOOD))
    with pytest.raises(DataError, match="1 unparsable-time"):
        load.load_requests(connection, path, LoadingRequests(time_unit="s", dataset="d", columns=("poi",)))


def test_progress_counts_megabytes_up_to_the_size_of_the_file(connection, write):
    told = []
    path = write(GOOD)
    _load(connection, path, progress=lambda *stage: told.append(stage))
    assert told[:2] == [("reading fixes.csv, MB", 0, None), ("reading fixes.csv, MB", 1, 1)]
    assert told[-1] == ("making trajectories", 2, 2)


def test_a_connection_in_a_transaction_keeps_it(database, write):
    with psycopg.connect(database) as outer:
        outer.execute("SELECT 1")
        _load(outer, write(GOOD))
        outer.rollback()
        assert _fetch_all(outer, "SELECT count(*) FROM dbanon.dataset") == [(0,)]
