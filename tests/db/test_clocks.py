"""Wrong clocks: rows of the future, what a night reads after one, and rows that were rejected before and come again."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from dbanon import load
from dbanon.base.errors import DataError
from dbanon.options.loading import LoadingQuasiIdentifiers, LoadingRequests, LoadingTrajectories
from dbanon.postgres import sqlstate
from tests.db.nights import add, find_day, list_periods, make_source, run_night
from tests.facts import demand_named
from tests.reading import read_value

CALL = "dbanon.import_trajectories('public.fast', 'd', 'cab', 'ts', x => 'lon', y => 'lat'{})"
CALLS = {
    "trajectories": CALL,
    "requests": "dbanon.import_requests('public.fast', 'd', ARRAY['lat'], 'cab', 'ts'{})",
    "quasi-identifiers": "dbanon.import_quasi_identifiers('public.fast', 'd', 'cab', 'ts'{})",
}
NIGHT = """
INSERT INTO public.fast SELECT 'c' || m, day + j * interval '1 min', 13.4 + j * .0001, 52.5 + m * .01
FROM generate_series(1, 40) m, generate_series(0, 59) j,
    (SELECT date_trunc('hour', now()) - %s * interval '1 day' AS day) d
"""
CLOCK = "INSERT INTO public.fast VALUES ('c1', date_trunc('hour', now()) + %s::interval, 13.401, 52.51)"
STORED = "SELECT count(*) FROM dbanon.fix"


@pytest.fixture
def fast(connection: psycopg.Connection) -> psycopg.Connection:
    """A source of 40 cabs, to which each night adds an hour; the first is six days ago."""
    connection.execute("CREATE TABLE public.fast (cab text, ts timestamptz, lon float8, lat float8)")
    connection.execute(NIGHT, [6])
    return connection


def take(connection: psycopg.Connection, call: str = CALL, **arguments: str) -> dict[str, Any]:
    more = "".join(f", {name} => {value}" for name, value in arguments.items())
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(f"SELECT * FROM {call.format(more)}").fetchone()  # type: ignore[arg-type]
    assert row is not None
    return row


def take_new(connection: psycopg.Connection, call: str = CALL, **arguments: str) -> dict[str, Any]:
    return take(connection, call, **{"mode": "'new'"} | arguments)


def let_time_come(connection: psycopg.Connection, days: int = 4) -> None:
    """Move what is of the future, in the source and in the quarantine, as if so many days had passed."""
    ago = f"- interval '{days} days'"
    connection.execute(f"UPDATE public.fast SET ts = ts {ago} WHERE ts > now()")  # type: ignore[arg-type]
    connection.execute(f"UPDATE dbanon.quarantine SET at = at {ago} WHERE at > now()")  # type: ignore[arg-type]


def list_quarantine(connection: psycopg.Connection) -> list[tuple[Any, ...]]:
    return connection.execute("SELECT load_id, reason FROM dbanon.quarantine ORDER BY 1, 2").fetchall()


# ---- nights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ahead", "first", "forget"),
    [
        ("3 days", {}, False),
        ("12 years", {}, False),
        ("-50 hours", {}, False),  # a replay: far from the rest, and not of the future
        ("3 days", {"allow_future": "true"}, False),
        ("12 years", {"allow_future": "true"}, True),
        ("3 days", {"allow_future": "true"}, True),
    ],
)
def test_each_night_has_all_its_rows_whatever_one_clock_said(
    fast: psycopg.Connection, ahead: str, first: dict[str, str], forget: bool
) -> None:
    """`forget`: as loads of earlier versions are recorded, without their newest time."""
    fast.execute(CLOCK, [ahead])
    take(fast, **first)
    if forget:
        fast.execute("UPDATE dbanon.load SET newest = NULL")
    before = read_value(fast, STORED)
    for night in (5, 4, 3, 2, 1):
        fast.execute(NIGHT, [night])
        row = take_new(fast)
        assert (row["rows_kept"], row["late"]) == (2400, 0)
    assert read_value(fast, STORED) == before + 5 * 2400


def test_nights_are_whole_although_each_path_has_a_time_of_the_future(fast: psycopg.Connection) -> None:
    for days in (1, 2):
        fast.execute("INSERT INTO fast SELECT cab, ts + %s * interval '9 days', lon, lat FROM fast", [days])
    take(fast, allow_future="true")
    fast.execute("UPDATE dbanon.load SET newest = NULL")
    fast.execute(NIGHT, [5])
    assert take_new(fast)["rows_kept"] == 2400


@pytest.mark.parametrize("ahead", ["3 days", "25 hours", "23 hours"])
def test_in_a_replay_a_clock_that_is_a_day_ahead_hides_no_rows(fast: psycopg.Connection, ahead: str) -> None:
    """Five days long, so that nothing of the week after is far from the rest."""
    fast.execute("DELETE FROM fast")
    for night in (905, 904, 903, 902, 901):
        fast.execute(NIGHT, [night])
    fast.execute("INSERT INTO fast SELECT 'c1', max(ts) + %s::interval, 13.401, 52.51 FROM fast", [ahead])
    take(fast)
    fast.execute(NIGHT, [900])
    assert take_new(fast)["rows_kept"] == 2400


def test_what_was_replaced_says_no_more_where_a_night_begins(fast: psycopg.Connection) -> None:
    fast.execute(NIGHT, [1])
    take(fast)
    take(fast, mode="'replace'", until="now() - interval '5 days'")
    assert take_new(fast)["rows_kept"] == 2400


@pytest.mark.parametrize("kind", ["requests", "quasi-identifiers"])
def test_events_of_a_night_come_whatever_one_clock_said(fast: psycopg.Connection, kind: str) -> None:
    take(fast)
    fast.execute(CLOCK, ["12 years"])
    take(fast, CALLS[kind], allow_future="true")
    for night in (5, 4):
        fast.execute(NIGHT, [night])
        assert take_new(fast, CALLS[kind])["rows_kept"] == 2400


# ---- rows of the future ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["create", "append", "replace", "new"])
def test_rows_are_of_the_future_an_hour_after_the_clock_of_the_server(fast: psycopg.Connection, mode: str) -> None:
    if mode in ("append", "replace"):
        take(fast)
    fast.execute("DELETE FROM fast")
    fast.execute(
        "INSERT INTO fast SELECT 'd' || n, now() + interval '1 hour' + n * interval '1 second', 13.4, 52.5 "
        "FROM generate_series(-2, 2) n"
    )
    row = take(fast, mode=f"'{mode}'")
    assert (row["rows_kept"], row["quarantined"]) == (3, {"future-time": 2})
    (content,) = fast.execute("SELECT content ->> 'cab' FROM dbanon.quarantine ORDER BY at").fetchall()[-1]
    assert content == "d2"
    row = take(fast, mode="'new'", allow_future="true")
    assert (row["rows_kept"], row["known"], row["quarantined"]) == (2, 3, {})
    assert list_quarantine(fast) == []


@pytest.mark.parametrize("kind", ["requests", "quasi-identifiers"])
@pytest.mark.parametrize("mode", ["append", "new"])
def test_events_of_the_future_go_to_quarantine_too(fast: psycopg.Connection, kind: str, mode: str) -> None:
    take(fast)
    fast.execute(CLOCK, ["3 days"])
    row = take(fast, CALLS[kind], mode=f"'{mode}'")
    assert (row["rows_kept"], row["quarantined"]) == (2400, {"future-time": 1})
    assert take(fast, CALLS[kind], mode=f"'{mode}'", allow_future="true", since="now()")["rows_kept"] == 1


def test_files_obey_the_same_rule(connection: psycopg.Connection, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    times = [now - timedelta(days=1), now + timedelta(minutes=55), now + timedelta(minutes=65)]
    (file := tmp_path / "f.csv").write_text(
        "subject,time,x,y,poi\n" + "".join(f"c{n},{t.isoformat()},8.2,53.1,bank\n" for n, t in enumerate(times))
    )
    report = load.load_trajectories(connection, [file], LoadingTrajectories(dataset="d"))
    assert (report.kept, report.quarantined) == (2, {"future-time": 1})
    demand_named(" ".join(report.notices), "future", "--allow-future", 1)
    calls = load.load_requests(connection, file, LoadingRequests(dataset="d", columns=["poi"]))
    seen = load.load_quasi_identifiers(connection, file, LoadingQuasiIdentifiers(dataset="d"))
    assert [(some.kept, some.quarantined) for some in (calls, seen)] == [(2, {"future-time": 1})] * 2
    for asked in (LoadingTrajectories(dataset="e", allow_future=True), LoadingTrajectories(dataset="d", mode="new")):
        report = load.load_trajectories(connection, [file], asked)
        assert (report.kept, report.read) == ((3, 3) if asked.allow_future else (0, 3))
    connection.execute("UPDATE dbanon.quarantine SET at = at - interval '1 day'")
    (later := tmp_path / "f.csv").write_text(file.read_text().replace(times[2].isoformat(), "2030-01-01T00:00Z"))
    assert load.load_trajectories(connection, [later], asked).quarantined == {"future-time": 1}


def test_a_source_of_the_future_alone_is_refused_and_the_remedy_loads_it(fast: psycopg.Connection) -> None:
    fast.execute("UPDATE fast SET ts = ts + interval '9 days'")
    with pytest.raises(psycopg.Error) as caught, fast.transaction():
        take(fast)
    said = str(sqlstate.translate(caught.value))
    assert isinstance(sqlstate.translate(caught.value), DataError)
    demand_named(said, "2400 future-time", "--allow-future")
    assert take(fast, allow_future="true")["rows_kept"] == 2400


@pytest.mark.parametrize("mode", ["new", "append"])
@pytest.mark.parametrize("kind", CALLS)
def test_a_row_once_of_the_future_stays_rejected_when_its_time_comes_until_somebody_names_it(
    fast: psycopg.Connection, kind: str, mode: str
) -> None:
    fast.execute(CLOCK, ["3 days"])
    take(fast)
    if kind != "trajectories":
        take(fast, CALLS[kind])
    let_time_come(fast)
    for night in range(2):
        fast.execute(
            "INSERT INTO fast VALUES ('c2', now() - interval '9 h' + %s * interval '1 s', 13.4, 52.5)", [night]
        )
        row = take(fast, CALLS[kind], mode=f"'{mode}'")
        assert (row["rows_kept"], row["quarantined"]["future-time"]) == (1, 1)
    for named in ({"since": "now() - interval '2 days'"}, {"until": "now()"}, {"allow_future": "true"}):
        with fast.transaction(force_rollback=True):
            row = take(fast, CALLS[kind], mode=f"'{mode}'", **named)
            assert (row["rows_kept"], row["quarantined"].get("future-time")) == (1, None)


def test_a_row_whose_clock_was_mended_at_the_source_is_loaded(fast: psycopg.Connection) -> None:
    fast.execute(CLOCK, ["3 days"])
    take(fast)
    fast.execute("UPDATE fast SET ts = ts - interval '5 days' WHERE ts > now()")
    assert take_new(fast)["rows_kept"] == 1


# ---- late, and rejected before ---------------------------------------------------------------------------------------


def reject_some(connection: psycopg.Connection) -> dict[str, Any]:
    """Load a fix that is too fast and one of the future, and publish the time of both."""
    connection.execute("UPDATE fast SET lat = lat + 1 WHERE cab = 'c7' AND lon = 13.4 + 20 * .0001")
    connection.execute(CLOCK, ["3 days"])
    row = take(connection, max_speed_kmh="300", drop_outliers="true")
    assert row["quarantined"] == {"too-fast": 1, "future-time": 1}
    let_time_come(connection)
    connection.execute(
        "WITH run AS (INSERT INTO dbanon.run (dataset_id, method, algorithm) "
        "SELECT dataset_id, 'tp-aware', 'traj-anon' FROM dbanon.dataset RETURNING run_id) "
        "INSERT INTO dbanon.release (name, run_id, digest, rows, span) "
        "SELECT 'r', run_id, '', 0, tstzrange(now() - interval '9 days', now()) FROM run"
    )
    return row


def test_rows_that_were_rejected_before_their_time_was_published_are_not_late(fast: psycopg.Connection) -> None:
    reject_some(fast)
    for _ in range(3):
        row = take_new(fast, max_speed_kmh="300", drop_outliers="true")
        assert (row["rows_kept"], row["known"], row["late"]) == (0, 2399, 0)
        assert row["quarantined"] == {"too-fast": 1, "future-time": 1}
    assert list_quarantine(fast) == [(4, "future-time"), (4, "too-fast")]
    contents = fast.execute("SELECT content ->> 'cab' FROM dbanon.quarantine ORDER BY 1").fetchall()
    assert contents == [("c1",), ("c7",)]
    fast.execute("INSERT INTO fast SELECT cab, ts + interval '7 s', lon, lat FROM fast WHERE cab = 'c9' LIMIT 1")
    assert take_new(fast)["late"] == 1


def test_a_quarantined_row_stays_until_a_load_judges_it_anew(fast: psycopg.Connection) -> None:
    reject_some(fast)
    kept = list_quarantine(fast)
    take_new(fast, filter="'cab <> ''c7'' AND ts < now() - interval ''5 days'''")
    assert list_quarantine(fast) == kept
    fast.execute("ALTER TABLE fast ADD driver text DEFAULT 'Zoe'")
    take_new(fast, CALL.replace("'cab'", "'driver'"), filter="'cab = ''c7'''")
    assert list_quarantine(fast)[: len(kept)] == kept
    take_new(fast, filter="'cab = ''c7'''")
    assert (1, "too-fast") not in list_quarantine(fast)
    assert read_value(fast, "SELECT left_out FROM dbanon.load WHERE load_id = 1") == {"read-again": 1}


# ---- jobs ------------------------------------------------------------------------------------------------------------


def test_a_job_publishes_each_night_although_a_clock_is_wrong(connection: psycopg.Connection) -> None:
    make_source(connection, 5)
    connection.execute(
        "INSERT INTO public.gps SELECT 'c1', t, 8.3, 53.1 FROM unnest(ARRAY[%s, now() + interval '3 days', "
        "'2038-01-01']::timestamptz[]) t",
        [find_day(2.51)],
    )
    connection.execute(  # so wide that a jump is not far
        "INSERT INTO public.gps SELECT 'w', ts, 8.2, 53.1 + extract(epoch FROM ts - %s) / 4e5 FROM public.gps "
        "WHERE cab = 'c1' AND lon = 8.201",
        [find_day(0)],
    )
    connection.execute("UPDATE public.gps SET lat = 53.9 WHERE cab = 'c2' AND ts = %s", [find_day(0.5)])
    add(connection)
    connection.execute('UPDATE dbanon.job SET load = load || \'{"max_speed_kmh": 50, "drop_outliers": true}\'')
    assert [run_night(connection) for _ in range(5)] == ["done"] * 4 + ["idle"]
    assert list_periods(connection, "state, late")[:4] == [("done", 0)] * 4
    assert read_value(connection, "SELECT count(*) FROM dbanon.quarantine WHERE reason = 'too-fast'") == 1
    assert not read_value(
        connection, "SELECT count(*) FROM dbanon.health WHERE about = 'job taxi' AND what ~ 'omitted'"
    )
