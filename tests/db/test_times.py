"""How times are written: files and tables are read by one rule, and what is wrong is said without quoting a cell."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dbanon import load
from dbanon.base.errors import DataError, ParameterError
from dbanon.options.loading import (
    ImportingTrajectories,
    LoadingQuasiIdentifiers,
    LoadingRequests,
    LoadingTrajectories,
)
from tests.facts import demand_named

COLUMNS = {"subject": "cab", "time": "t", "x": "lon", "y": "lat"}
RIGHT = 1709546405.0  # 2024-03-04 10:00:05 UTC
BERLIN = ZoneInfo("Europe/Berlin")
READ = (
    "2024-03-04 10:00:05 UTC", "2024/03/04 10:00:05 GMT", "20240304T100005Z", "2024-03-04T10:00:05,000Z",
    "2024-03-04 12:00:05+02", "Mon, 04 Mar 2024 10:00:05 +0000", "4 Mar 2024 10:00:05 GMT", "2024-03-04 10:00:05 AM Z",
    "2024/3/4 10:00:05 am UTC", "2024-03-04 10:00:05 +0000 UTC", "2024-03-04t10:00:05.000000000z", "1709546405",
    "1.709546405e9", "  2024-03-04T10:00:05Z ",
)  # fmt: skip
UNREAD = (
    "04/03/2024 10:00:05", "03/04/2024 10:00:05 AM", "20240304", "2024-02-30 10:00:05Z", "2023-02-29T00:00:00Z",
    "2024-03-04 13:00:05 PM", "2024-03-04 24:00:00Z", "0000-03-04 10:00:05Z", "2024-03-04 10:00:05 EST", "yesterday",
    "1709546405000000000000000000", "2024-03-04 10:00:60Z", "10:00:05", "",
)  # fmt: skip


def _write(cells):
    return [("c" + str(number), cell, 12.6 + number * 1e-4, 55.6) for number, cell in enumerate(cells)]


def _load_file(connection, tmp_path, rows, **options):
    path = tmp_path / "gps.csv"
    path.write_text("cab,t,lon,lat\n" + "".join(f'{cab},"{cell}",{x},{y}\n' for cab, cell, x, y in rows))
    return load.load_trajectories(connection, [path], LoadingTrajectories(dataset="file", **COLUMNS | options))


def _import_table(connection, _, rows, kind="text", **options):
    connection.execute(f"CREATE TABLE public.gps (cab text, t {kind}, lon float8, lat float8)")
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO public.gps VALUES (%s, %s, %s, %s)", rows)
    return load.import_trajectories(connection, "gps", ImportingTrajectories(dataset="table", **COLUMNS | options))


def _read_times(connection):
    found = connection.execute(
        "SELECT subject, public.ST_M(one.geom) FROM dbanon.trajectory, public.ST_DumpPoints(path) one"
    )
    return sorted((subject, round(t, 3)) for subject, t in found)


@pytest.fixture(params=[_load_file, _import_table])
def way(request, connection, tmp_path):
    """Load rows from a file, or import them from a table."""

    def read(rows, **options):
        return request.param(connection, tmp_path, rows, **options)

    return read


def test_texts_that_mean_one_instant_are_read_and_others_are_not_guessed(way, connection):
    report = way(_write(READ + UNREAD), tz="UTC", grid_m=0.1)
    assert report.kept == len(READ)
    assert {t for _, t in _read_times(connection)} == {RIGHT}
    assert sum(report.quarantined.values()) == len(UNREAD)
    assert set(report.quarantined) == {"unparsable-time", "time-out-of-range"}


@pytest.mark.parametrize(
    ("written", "shape"),
    [("04/03/2024 10:00:05", "99/99/9999 99:99:99"), ("Größe 7 ł|", "AAAAA 9 A|"), ("x" * 50, "A" * 40)],
)
def test_the_shape_of_the_first_cell_is_said_and_never_a_cell(way, written, shape):
    with pytest.raises(DataError) as refused:
        way(_write([written] * 3), tz="UTC")
    demand_named(str(refused.value), "3 unparsable-time", f"written like {shape}. ", "--time-format")
    assert not re.search("04/03|Gr", str(refused.value))


@pytest.mark.parametrize(
    ("form", "cell"),
    [
        ("%d/%m/%Y %H:%M:%S", "04/03/2024 10:00:05"), ("%m/%d/%Y %I:%M:%S %p", "3/4/2024 10:00:05 AM"),
        ("%d.%m.%y %H:%M:%S", "4.3.24 10:00:05"), ("%Y%m%d%H%M%S", "20240304100005"),
        ("%A, %d %B %Y at %H.%M.%S,%f%%", "Monday, 4 March 2024 at 10.00.05,000%"),
        ("%Y-%d-%m %H:%M:%S", "2024-04-03 10:00:05"),
        ("%d/%b/%Y:%H:%M:%S %z", "04/Mar/2024:12:00:05 +0200"),
    ],
)  # fmt: skip
def test_a_format_says_what_texts_mean(way, connection, form, cell):
    way(_write([cell, cell, cell]), tz="UTC", time_format=form)
    assert {t for _, t in _read_times(connection)} == {RIGHT}


def test_numbers_are_read_by_a_format_too_and_dates_that_do_not_exist_are_not_moved(way, connection):
    report = way(_write(["20240304100005", "20240231100005"]), tz="UTC", time_format="%Y%m%d%H%M%S")
    assert (report.kept, report.quarantined) == (1, {"unparsable-time": 1})


def test_a_column_of_numbers_is_read_by_a_format(connection):
    _import_table(connection, None, _write([20240304100005]), kind="bigint", tz="UTC", time_format="%Y%m%d%H%M%S")
    assert {t for _, t in _read_times(connection)} == {RIGHT}


@pytest.mark.parametrize(
    "form",
    [
        "%d/%m %H:%M",
        "%d/%m/%Y %S",
        "%d/%m/%Y %I:%M",
        "%d/%m/%Y %Q",
        "%Y %y-%m-%d",
        "%d/%m/%Y %",
        "",
        "%Y-%m-%d %H:%M %p",
    ],
)
def test_a_format_that_leaves_a_part_open_is_refused(way, form):
    with pytest.raises(ParameterError) as refused:
        way(_write(["x"]), tz="UTC", time_format=form)
    demand_named(str(refused.value), "time_format", "strptime", "--time-format '%d/%m/%Y %H:%M:%S'")


def test_a_format_and_a_unit_exclude_each_other(way):
    with pytest.raises(ParameterError, match="unit"):
        way(_write(["1709546405"]), time_format="%Y%m%d", time_unit="s")


@pytest.mark.parametrize(
    ("numbers", "named", "remedy"),
    [
        ([45355.4167245, 45355.4174190, 45355.41], "days since 1899-12-30", {"time_unit": "days"}),
        ([20240304100005, 20240304100105, 20240304100205], "YYYYMMDDhhmmss", {"time_format": "%Y%m%d%H%M%S"}),
        ([631151999, 631151999, 631151998], "seconds", {"time_unit": "s"}),
        ([4102444800, 4102444800, 4102444801], "seconds", {"time_unit": "s", "allow_future": True}),
    ],
)
@pytest.mark.parametrize("kind", ["text", "numeric"])
def test_numbers_of_another_time_are_refused_with_a_remedy_that_works(
    connection, tmp_path, *, numbers, named, remedy, kind
):
    rows = _write(numbers)
    for read in (_load_file, _import_table):
        with pytest.raises(DataError) as refused, connection.transaction():
            read(connection, tmp_path, rows, tz="UTC", **({"kind": kind} if read is _import_table else {}))
        option, value = next(iter(remedy.items()))
        demand_named(str(refused.value), "1990", "2100", named, f"--{option.replace('_', '-')} {value}")
        assert read(connection, tmp_path, rows, tz="UTC", **remedy).kept == 3


def test_single_numbers_of_another_time_go_to_quarantine_on_both_sides(way):
    report = way(_write([631152000, 4102444799, 1709546405, 1709546405, 631151999, 4102444800]), allow_future=True)
    assert (report.kept, report.quarantined) == (4, {"time-out-of-range": 2})


def test_a_number_too_small_for_a_double_is_of_another_time(way):
    assert way(_write([RIGHT] * 3 + ["1e-400", "-1e-400"])).quarantined == {"time-out-of-range": 2}


def test_zones_that_no_clock_has_are_none(way):
    report = way(_write(["2024-03-04 10:00:05Z", "2024-03-04 10:00:05+16:00", "2024-03-04 10:00:05-1600"]))
    assert report.quarantined == {"unparsable-time": 2}


@pytest.mark.parametrize(("unit", "cell"), [("days", "45355,4167245"), (None, "1709546405,0"), ("s", "1709546405,0")])
def test_numbers_with_a_decimal_comma_are_read_beside_semicolons(connection, tmp_path, unit, cell):
    path = tmp_path / "gps.csv"
    path.write_text(f"cab;t;lon;lat\na;{cell};12,6;55,6\nb;{cell};12,61;55,61\n")
    load.load_trajectories(connection, [path], LoadingTrajectories(dataset="d", time_unit=unit, **COLUMNS))
    assert _read_times(connection) == [("a", RIGHT), ("b", RIGHT)]
    asked = LoadingRequests(dataset="d", subject="cab", time="t", time_unit=unit, columns=["lon"])
    assert load.load_requests(connection, path, asked).kept == 2


def test_since_and_until_hold_for_texts(connection):
    rows = _write([f"2024/03/0{day} 10:00:05" for day in range(1, 7)] + ["soon"])
    bounds = {"since": datetime(2024, 3, 3, tzinfo=UTC), "until": datetime(2024, 3, 5, 10, 0, 5, tzinfo=UTC)}
    report = _import_table(connection, None, rows, tz="UTC", **bounds)
    assert (report.kept, report.quarantined) == (2, {"unparsable-time": 1})


def test_a_text_without_a_zone_needs_one(way):
    with pytest.raises(ParameterError, match="--tz UTC"):
        way(_write(["2024-03-04 10:00:05 UTC", "2024-03-04 10:00:05"]))


# ---- the hour that comes twice ---------------------------------------------------------------------------------------


def _write_night(people, minutes, step=1, start=0):
    begin = datetime(2024, 10, 26, 22, tzinfo=UTC)
    return [
        (
            f"b{who}", f"{(begin + timedelta(minutes=m)).astimezone(BERLIN):%Y-%m-%d %H:%M:%S}", 13.4 + m * 4e-4,
            52.5 + who * 2e-3,
        )
        for m in range(start, minutes, step) for who in range(people)
    ]  # fmt: skip


def _count_hours(connection):
    hours = [int(t // 3600 - 1729980000 // 3600) for _, t in _read_times(connection)]
    return [hours.count(hour) for hour in range(5)]


@pytest.mark.parametrize("newest_first", [False, True])
def test_rows_that_step_back_by_the_hour_are_of_the_second(way, connection, newest_first):
    rows = _write_night(6, 300)
    report = way(rows[::-1] if newest_first else rows, tz="Europe/Berlin")
    assert (_count_hours(connection), report.quarantined) == ([360] * 5, {})
    assert not [notice for notice in report.notices if "twice" in notice]


# A day or minute at the end looks like a zone, and numbers are none of texts or timestamps.
@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("%H:%M:%S %d-%m-%Y", "text"), ("%Y-%m-%d %H-%M-%S", "text"), ("%Y%m%d%H%M%S", "bigint"),
        ("%Y%m%d%H%M%S", "double precision"), ("%Y%m%d%H%M%S", "numeric(20,2)"),
    ],
)  # fmt: skip
def test_both_hours_are_there_in_each_format(connection, tmp_path, form, kind):
    rows = [(who, f"{datetime.fromisoformat(at):{form}}", x, y) for who, at, x, y in _write_night(3, 300)]
    options = {"tz": "Europe/Berlin", "time_format": form}
    report = _import_table(connection, None, rows, kind=kind, **options)
    assert (_count_hours(connection), report.quarantined) == ([180] * 5, {})
    connection.execute(
        "SELECT dbanon.import_requests('public.gps', 'table', '{lon}', 'cab', 't', tz => 'Europe/Berlin', "
        "time_format => %s)",
        [form],
    )
    asked = "SELECT count(*) FROM dbanon.request GROUP BY date_trunc('hour', sent_at)"
    assert connection.execute(asked).fetchall() == [(180,)] * 5
    connection.execute("DELETE FROM dbanon.trajectory")
    _load_file(connection, tmp_path, rows, **options)
    assert _count_hours(connection) == [180] * 5


@pytest.mark.parametrize("kind", ["text", "timestamp"])
def test_windows_within_the_two_hours_lose_no_row(connection, kind):
    connection.execute(f"CREATE TABLE public.gps (cab text, t {kind}, lon float8, lat float8)")
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO public.gps VALUES (%s, %s, %s, %s)", _write_night(2, 300))
    for part in range(10):
        since = datetime(2024, 10, 26, 22, tzinfo=UTC) + part * timedelta(minutes=30)
        window = {"since": since, "until": since + timedelta(minutes=30), "mode": "append" if part else "create"}
        asked = ImportingTrajectories(dataset="table", tz="Europe/Berlin", **COLUMNS | window)
        load.import_trajectories(connection, "gps", asked)
    assert _count_hours(connection) == [120] * 5


def test_a_table_of_timestamps_has_both_hours_too(connection):
    _import_table(connection, None, _write_night(3, 300), kind="timestamp", tz="Europe/Berlin")
    assert _count_hours(connection) == [180] * 5


def test_neighbours_decide_who_is_only_there_in_one_of_the_two(way, connection):
    way(
        _write_night(2, 300, step=5, start=190) + [("c" + c, *r) for c, *r in _write_night(1, 180, step=5)],
        tz="Europe/Berlin",
    )
    found = _read_times(connection)
    assert {int(t // 3600) - 480550 for who, t in found if who.startswith("b")} == {3, 4}
    assert {int(t // 3600) - 480550 for who, t in found if who.startswith("c")} == {0, 1, 2}


def test_rows_that_nothing_decides_are_the_first_and_said(way, connection):
    report = way(_write_night(1, 231, step=10, start=190), tz="Europe/Berlin")
    assert _count_hours(connection) == [0, 0, 5, 0, 0]
    assert [notice for notice in report.notices if "twice in Europe/Berlin" in notice and ": 5 rows." in notice]


def test_times_with_a_zone_are_not_moved(way, connection):
    cells = [f"2024-10-27T00:{minute:02d}:00Z" for minute in (10, 50, 10, 50)]
    way([("a", cell, 13.4, 52.5) for cell in cells], tz="Europe/Berlin")
    assert _count_hours(connection)[3:] == [0, 0]


def test_an_hour_that_never_comes_is_unparsable_and_said(way):
    cells = ["2024-03-31 01:59:59", "2024-03-31 02:00:00", "2024-03-31 02:59:59", "2024-03-31 03:00:00"]
    report = way(_write(cells), tz="Europe/Berlin")
    assert (report.kept, report.quarantined) == (2, {"unparsable-time": 2})
    assert [notice for notice in report.notices if "Europe/Berlin left out" in notice and ": 2 rows." in notice]


# ---- requests and quasi-identifiers ----------------------------------------------------------------------------------


def test_requests_and_quasi_identifiers_are_read_alike(connection, tmp_path):
    _import_table(connection, None, _write(["2024-03-04 10:00:05 UTC"]))
    path, options = (
        tmp_path / "asked.csv",
        {"dataset": "table", "tz": "Europe/Berlin", "time_format": "%d/%m/%Y %H:%M:%S"},
    )
    steps = ["01:50", "02:00", "02:30", "02:00", "02:30", "03:00"]
    path.write_text("who,at,what\n" + "".join(f"a,27/10/2024 {step}:00,{n}\n" for n, step in enumerate(steps)))
    named = {"subject": "who", "time": "at"}
    load.load_requests(connection, path, LoadingRequests(columns=["what"], **named, **options))
    load.load_quasi_identifiers(connection, path, LoadingQuasiIdentifiers(**named, **options))
    right = [datetime(2024, 10, 26, 23, 50, tzinfo=UTC) + timedelta(minutes=m) for m in (0, 10, 40, 70, 100, 130)]
    for column, table in (("sent_at", "request"), ("at", "quasi_identifier")):
        found = connection.execute(f"SELECT {column} FROM dbanon.{table} ORDER BY 1").fetchall()
        assert [at for (at,) in found] == right
    with pytest.raises(DataError) as refused:
        load.load_requests(connection, path, LoadingRequests(columns=["what"], **named, dataset="table", tz="UTC"))
    demand_named(str(refused.value), "99/99/9999 99:99:99")
    connection.execute("CREATE TABLE public.calls AS SELECT 'b' AS who, '27/10/2024 02:30:00' AS at, 'x' AS what")
    with pytest.raises(psycopg.Error, match="none usable"), connection.transaction():
        connection.execute("SELECT dbanon.import_requests('public.calls', 'table', '{what}', 'who', 'at', tz => 'UTC')")
    connection.execute(
        "SELECT dbanon.import_requests('public.calls', 'table', '{what}', 'who', 'at', tz => 'UTC', "
        "time_format => '%d/%m/%Y %H:%M:%S')"
    )


# ---- every form ------------------------------------------------------------------------------------------------------

FORMS = (
    "%Y-%m-%d %H:%M:%S.%f UTC", "%Y-%m-%dT%H:%M:%S,%fZ", "%Y/%m/%d %H:%M:%S.%f GMT", "%Y%m%dT%H%M%SZ",
    "%Y%m%d %H%M%S.%f+0000", "%a, %d %b %Y %H:%M:%S +0000",
    "%Y-%m-%d %I:%M:%S.%f %p +00:00", "%d-%b-%Y %H:%M:%S UTC", "%Y-%m-%dT%H:%MZ",
)  # fmt: skip
_INSTANTS = st.datetimes(datetime(1900, 1, 1), datetime(2900, 1, 1))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(_INSTANTS, st.sampled_from(FORMS)), min_size=1, max_size=30))
def test_an_instant_in_any_form_is_the_same_in_files_and_tables(connection, tmp_path, drawn):
    rows = _write([f"{at:{form}}" for at, form in drawn])
    right = [datetime.strptime(f"{at:{form}}", form).replace(tzinfo=UTC).timestamp() for at, form in drawn]
    for read in (_load_file, _import_table):
        with connection.transaction(force_rollback=True):
            read(connection, tmp_path, rows, allow_future=True)
            found = dict(_read_times(connection))
        assert [found[f"c{number}"] for number in range(len(rows))] == pytest.approx(right, abs=0.002)
