"""Loads of what is new: what is known, late, of the future or chosen by a condition; and that little is read for it."""

import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from dbanon import load
from dbanon.base.errors import DataError, ParameterError
from dbanon.options.loading import LoadingQuasiIdentifiers, LoadingRequests, LoadingTrajectories
from dbanon.postgres import sqlstate
from tests.facts import demand_named, expect_refusal
from tests.reading import read_value

DAY_S = 86400
CALL = """SELECT * FROM dbanon.import_trajectories('public.gps', dataset => 'd', subject => 'cab', time_column => 'ts',
    x => 'lon', y => 'lat'{})"""
EVENTS = {
    "import_requests": (
        "request",
        "SELECT * FROM dbanon.import_requests('public.calls', 'd', ARRAY['poi'], 'cab', 'ts'{})",
    ),
    "import_quasi_identifiers": (
        "quasi_identifier",
        "SELECT * FROM dbanon.import_quasi_identifiers('public.calls', 'd', 'cab', 'ts'{})",
    ),
}


def drive(connection: psycopg.Connection, day: int, cabs: int = 10, fixes: int = 6, shift: int = 0) -> None:
    """Add a day of fixes to the source: one an hour of each cab, from midnight UTC."""
    connection.execute(
        "INSERT INTO public.gps SELECT 'c' || c, timestamptz '2026-01-05 00:00+00' + %s * interval '1 day' "
        "+ f * interval '1 hour' + %s * interval '1 second', 8.2 + c * 1e-3, 53.1 + f * 1e-3 "
        "FROM generate_series(1, %s) c, generate_series(0, %s) f",
        [day, shift, cabs, fixes - 1],
    )


@pytest.fixture
def gps(connection: psycopg.Connection) -> psycopg.Connection:
    """A source as a tracker leaves it, with one day of ten cabs."""
    connection.execute("CREATE TABLE public.gps (cab text, ts timestamptz, lon float8, lat float8)")
    connection.execute("CREATE INDEX ON public.gps (ts)")
    drive(connection, 0)
    return connection


@pytest.fixture
def said(connection: psycopg.Connection) -> list[str]:
    heard: list[str] = []
    connection.add_notice_handler(lambda told: heard.append(f"{told.severity}: {told.message_primary}"))
    return heard


def load_rows(connection: psycopg.Connection, statement: str = CALL, **arguments: str) -> dict[str, Any]:
    more = "".join(f', "{name}" => {value}' for name, value in arguments.items())
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(statement.format(more)).fetchone()  # type: ignore[arg-type]
    assert row is not None
    return row


def load_new(connection: psycopg.Connection, statement: str = CALL, **arguments: str) -> dict[str, Any]:
    return load_rows(connection, statement, **{"mode": "'new'"} | arguments)


def catch_refusal(connection: psycopg.Connection, **arguments: str) -> psycopg.Error:
    before = connection.execute("SELECT count(*) FROM dbanon.load").fetchone()
    with pytest.raises(psycopg.Error) as caught:
        load_rows(connection, **arguments)
    assert caught.value.diag.message_detail
    assert caught.value.diag.message_hint
    assert connection.execute("SELECT count(*) FROM dbanon.load").fetchone() == before
    return caught.value


def publish(connection: psycopg.Connection, first: str, last: str) -> None:
    """Record a release that speaks of a time."""
    connection.execute(
        "WITH run AS (INSERT INTO dbanon.run (dataset_id, method, algorithm) "
        "SELECT dataset_id, 'tp-aware', 'traj-anon' FROM dbanon.dataset WHERE name = 'd' RETURNING run_id) "
        "INSERT INTO dbanon.release (name, run_id, digest, rows, span) "
        "SELECT 'r' || run_id, run_id, '', 0, tstzrange(%s, %s) FROM run",
        [first, last],
    )


def count_fixes(connection: psycopg.Connection) -> int:
    return int(read_value(connection, "SELECT count(*) FROM dbanon.fix"))


# ---- night after night -----------------------------------------------------------------------------------------------


def test_the_first_load_of_new_rows_makes_the_dataset_and_the_next_adds_the_next_day(gps: psycopg.Connection) -> None:
    row = load_new(gps)
    assert (row["rows_read"], row["rows_kept"], row["known"], row["left_out"]) == (60, 60, 0, {})
    drive(gps, 1)
    row = load_new(gps)
    assert (row["rows_read"], row["rows_kept"], row["known"], row["quarantined"]) == (120, 60, 60, {})
    drive(gps, 2)
    row = load_new(gps)  # from a day before the last fix
    assert (row["rows_read"], row["rows_kept"], row["known"]) == (130, 60, 70)
    assert count_fixes(gps) == 180
    assert gps.execute("SELECT count(*) FROM dbanon.quarantine").fetchone() == (0,)


def test_that_there_is_nothing_new_is_a_notice_and_a_load_of_no_rows(gps: psycopg.Connection, said: list[str]) -> None:
    load_new(gps)
    said.clear()
    row = load_new(gps)
    assert (row["rows_kept"], row["known"], row["trajectories"], row["first_time"]) == (0, 60, 0, None)
    (notice,) = said
    demand_named(notice, "NOTICE: ", 60, "loaded before")
    assert gps.execute("SELECT rows_read, rows_kept, left_out FROM dbanon.load WHERE load_id = 2").fetchone() == (
        60,
        0,
        {"known": 60},
    )
    said.clear()
    gps.execute("TRUNCATE public.gps")
    assert load_new(gps)["rows_read"] == 0
    assert gps.execute("SELECT count(*) FROM dbanon.load").fetchone() == (3,)
    (notice,) = said
    demand_named(notice, "no rows of this time")


def test_late_rows_of_published_times_are_counted_by_period_and_those_between_are_loaded(
    gps: psycopg.Connection, said: list[str]
) -> None:
    for day in (1, 2):
        drive(gps, day)
    load_new(gps)
    publish(gps, "2026-01-05 00:00+00", "2026-01-06 00:00+00")
    publish(gps, "2026-01-07 00:00+00", "2026-01-08 00:00+00")
    gps.execute("UPDATE dbanon.release SET withdrawn_at = now(), withdrawn_by = 'x' WHERE run_id = 1")
    for day, cabs in ((0, 3), (1, 4), (2, 5)):
        drive(gps, day, cabs, 1, shift=60)
    said.clear()
    row = load_new(gps, since="'2026-01-05 00:00+00'")
    assert (row["rows_kept"], row["known"], row["late"], row["quarantined"]) == (4, 180, 8, {})
    periods = [(datetime.fromisoformat(p["since"]), p["rows"]) for p in row["late_periods"]]
    assert periods == [(datetime(2026, 1, 5, tzinfo=UTC), 3), (datetime(2026, 1, 7, tzinfo=UTC), 5)]
    demand_named("\n".join(said), "times that are published", 8)


def test_twins_of_a_published_time_are_late_whatever_other_rows_there_are(gps: psycopg.Connection) -> None:
    load_new(gps)
    publish(gps, "2026-01-05 00:00+00", "2026-01-06 00:00+00")
    gps.execute("INSERT INTO gps SELECT 'c8', '2026-01-05 10:00:30+00', x, 53.1 FROM unnest('{8.2,8.21}'::float8[]) x")
    row = load_new(gps, since="'2026-01-05 00:00+00'")
    assert (row["late"], row["quarantined"]) == (2, {})
    gps.execute("INSERT INTO gps SELECT 'c9', '2026-01-06 10:00:30+00', x, 53.1 FROM unnest('{8.2,8.21}'::float8[]) x")
    row = load_new(gps, since="'2026-01-05 00:00+00'")
    assert (row["late"], row["quarantined"], row["rows_kept"]) == (2, {"contradicting-fix": 1}, 1)


def test_rows_of_the_future_and_without_a_time_are_not_loaded(gps: psycopg.Connection) -> None:
    gps.execute("INSERT INTO gps SELECT 'c1', now() + interval '1 day', 8.2, 53.1")
    gps.execute("INSERT INTO gps SELECT 'c1', t, 8.2, 53.1 FROM unnest(ARRAY[NULL, 'infinity']::timestamptz[]) t")
    row = load_new(gps)
    assert (row["rows_kept"], row["left_out"], row["quarantined"]) == (60, {"no-time": 2}, {"future-time": 1})
    assert gps.execute("SELECT max(last_s) < extract(epoch FROM now()) FROM dbanon.trajectory").fetchone() == (True,)


def test_a_correction_at_the_source_is_quarantined_once_however_often_it_is_read(gps: psycopg.Connection) -> None:
    load_new(gps)
    gps.execute("UPDATE gps SET lon = lon + 0.01 WHERE cab = 'c1' AND ts = '2026-01-05 01:00+00'")
    gps.execute("INSERT INTO gps VALUES ('c2', '2026-01-05 02:30+00', 400, 53.1)")
    for _ in range(3):
        row = load_new(gps)
        assert (row["known"], row["quarantined"]) == (59, {"contradicting-fix": 1, "position-out-of-range": 1})
    assert gps.execute("SELECT load_id, reason FROM dbanon.quarantine ORDER BY reason").fetchall() == [
        (4, "contradicting-fix"),
        (4, "position-out-of-range"),
    ]
    # The books of the loads before stay balanced: what left their quarantine was read again.
    assert gps.execute("SELECT quarantined, left_out FROM dbanon.load WHERE load_id = 3").fetchone() == (
        {},
        {"known": 59, "read-again": 2},
    )


def test_times_outside_of_what_is_read_stay_in_quarantine(gps: psycopg.Connection) -> None:
    gps.execute("INSERT INTO gps VALUES ('c2', '2026-01-05 02:30+00', 400, 53.1)")
    load_new(gps)
    drive(gps, 5)
    load_new(gps, since="'2026-01-08 00:00+00'")
    assert gps.execute("SELECT load_id, at FROM dbanon.quarantine").fetchall() == [
        (1, datetime(2026, 1, 5, 2, 30, tzinfo=UTC))
    ]


# ---- what is chosen --------------------------------------------------------------------------------------------------


def test_a_filter_and_a_span_choose_rows_and_leave_no_word_of_the_filter_behind(gps: psycopg.Connection) -> None:
    drive(gps, 1)
    row = load_rows(
        gps, filter="'cab IN (''c1'', ''c2'') -- Zoe'", since="'2026-01-05 03:00+00'", until="'2026-01-06 02:00+00'"
    )
    assert (row["rows_read"], row["rows_kept"], row["subjects"]) == (10, 10, 2)
    for table in ("audit", "load", "quarantine"):
        assert gps.execute(f"SELECT count(*) FROM dbanon.{table} t WHERE t::text LIKE '%Zoe%'").fetchone() == (0,)


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        ("timestamp", "ts AT TIME ZONE 'Europe/Berlin'"),
        ("bigint", "extract(epoch FROM ts) * 1000"),
        ("integer", "extract(epoch FROM ts)"),
        ("numeric", "extract(epoch FROM ts) * 1e6"),
        ("float8", "extract(epoch FROM ts)"),
    ],
)
def test_a_span_stands_on_the_column_in_its_own_type_so_that_its_index_serves(
    gps: psycopg.Connection, kind: str, expression: str
) -> None:
    drive(gps, 1)
    gps.execute(f"CREATE TABLE public.own AS SELECT cab, ({expression})::{kind} AS ts, lon, lat FROM gps")
    gps.execute("CREATE INDEX ON public.own (ts)")
    row = load_rows(
        gps, CALL.replace("public.gps", "public.own"), tz="'Europe/Berlin'",
        since="'2026-01-05 03:00+00'", until="'2026-01-06 02:00+00'",
    )  # fmt: skip
    assert row["rows_kept"] == 50
    assert set(row["left_out"]) <= {"outside-period"}
    gps.execute("SET enable_seqscan = off")
    chosen = gps.execute(
        "SELECT dbanon_internal.build_chosen_rows('public.own', jsonb_build_object('ts', %s::text), "
        "CASE %s WHEN 'bigint' THEN 1e3 WHEN 'numeric' THEN 1e6 ELSE 1 END, "
        'jsonb_populate_record(NULL::dbanon_internal.loading, \'{"time_column": "ts", "tz": "Europe/Berlin", '
        '"since": "2026-01-05 03:00+00", "until": "2026-01-06 02:00+00"}\'))',
        [
            "timestamp without time zone" if kind == "timestamp" else "double precision" if kind == "float8" else kind,
            kind,
        ],
    ).fetchone()
    assert chosen is not None
    plan = "\n".join(line for (line,) in gps.execute(f"EXPLAIN SELECT * FROM {chosen[0]}").fetchall())
    assert "Index" in plan
    assert plan.count("Index Cond") == 2  # the span, and no time at all


def test_the_hour_that_comes_twice_is_read_whole_and_judged_as_time(connection: psycopg.Connection) -> None:
    connection.execute(
        "CREATE TABLE public.gps AS SELECT 'c' || c AS cab, "
        "timestamp '2025-10-26 00:00' + m * interval '30 min' AS ts, "
        "8.2 + c * 1e-3 AS lon, 53.1 AS lat FROM generate_series(1, 9) c, generate_series(0, 9) m"
    )
    # 02:00 in Berlin comes first at 00:00 UTC; rows of 02:00 and 02:30 are taken for the first.
    row = load_rows(connection, tz="'Europe/Berlin'", since="'2025-10-26 00:00+00'", until="'2025-10-26 01:00+00'")
    assert (row["rows_kept"], row["first_time"]) == (18, datetime(2025, 10, 26, 0, 0, tzinfo=UTC))
    assert row["left_out"]["outside-period"] == row["rows_read"] - 18


def test_the_unit_of_numbers_is_that_of_the_first_load_of_the_source(connection: psycopg.Connection) -> None:
    connection.execute(
        "CREATE TABLE public.gps AS SELECT 'c' || c AS cab, 1767571200000 + f * 60000::bigint AS ts, "
        "8.2 + c * 1e-3 AS lon, "
        "53.1 AS lat FROM generate_series(1, 9) c, generate_series(0, 9) f"
    )
    load_new(connection)
    assert connection.execute("SELECT units_per_s FROM dbanon.load").fetchone() == (1000,)
    connection.execute(
        "DELETE FROM gps; INSERT INTO gps SELECT 'c1', 2000000000000000 + f, 8.2, 53.1 FROM generate_series(1, 9) f"
    )
    error = catch_refusal(connection, mode="'new'")  # microseconds, in one night
    assert error.sqlstate == "DA012"
    demand_named(str(error), 9, "no-time")


def test_days_stay_days_in_later_loads_unless_another_unit_is_said(connection: psycopg.Connection) -> None:
    connection.execute(
        "CREATE TABLE public.gps AS SELECT 'c' || c AS cab, 46000 + f / 1440.0 AS ts, 8.2 + c * 1e-3 AS lon, "
        "53.1 AS lat FROM generate_series(1, 9) c, generate_series(0, 9) f"
    )
    load_new(connection, time_unit="'days'")
    connection.execute(
        "INSERT INTO gps SELECT 'c1', 49000 + f / 1440.0, 8.2, 53.1 FROM generate_series(0, 4) f"
    )  # in 2034
    row = load_rows(connection, mode="'new'", allow_future="true")
    assert (row["rows_kept"], row["last_time"]) == (5, datetime(2034, 2, 25, 0, 4, tzinfo=UTC))
    assert load_rows(connection, mode="'new'", time_unit="'s'", since="'1970-01-01'")["rows_kept"] == 95


@pytest.mark.parametrize("analysed", [1, 2])
def test_what_is_known_is_found_without_going_through_all_people_for_each(
    connection: psycopg.Connection, analysed: int
) -> None:
    """All paths end at one time, so the index of times tells nobody from another."""
    connection.execute(
        "CREATE TABLE public.gps AS SELECT 'c' || c AS cab, timestamptz '2026-01-05 00:00+00' + f * interval '1 min' "
        "AS ts, 8.2 + c * 1e-4 AS lon, 53.1 AS lat FROM generate_series(1, 400) c, generate_series(0, 9) f"
    )
    for number in range(1, 3):
        load_rows(connection, CALL.replace("'d'", f"'d{number}'"))
        if number == analysed:
            connection.execute("ANALYZE dbanon.trajectory")
    read = "SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'trajectory'"
    for options in ({}, {"max_speed_kmh": "200"}):
        with connection.transaction():
            before = connection.execute(read).fetchone() or (0,)
            row = load_new(connection, CALL.replace("'d'", "'d2'"), since="'2026-01-05 00:05+00'", **options)
            after = connection.execute(read).fetchone()
        assert row["known"] == 2000
        assert after is not None
        assert after[0] - before[0] < 10 * 400


def test_a_large_table_without_an_index_on_its_times_gets_a_notice(gps: psycopg.Connection, said: list[str]) -> None:
    gps.execute("CREATE TABLE public.heap AS SELECT g.*, repeat('x', 200) AS pad FROM gps g, generate_series(1, 700)")
    gps.execute("UPDATE public.heap SET ts = ts + random() * interval '30 min'")
    load_rows(gps, CALL.replace("public.gps", "public.heap"), until="now()")
    assert [notice for notice in said if "index" in notice and "heap" in notice]


# ---- x and y ---------------------------------------------------------------------------------------------------------


def test_columns_of_coordinates_are_degrees_unless_a_system_is_named(gps: psycopg.Connection) -> None:
    assert load_rows(gps)["srid"] == 32632
    gps.execute(
        "CREATE TABLE public.metres AS "
        "SELECT cab, ts, (441000 + 100 * lon)::numeric AS lon, 5879000::int AS lat FROM gps"
    )
    call = CALL.replace("public.gps", "public.metres").replace("'d'", "'m'")
    assert load_rows(gps, call, crs="'EPSG:32632'")["rows_kept"] == 60


def test_a_row_that_cannot_be_used_is_kept_in_quarantine_under_the_names_of_its_columns(
    gps: psycopg.Connection,
) -> None:
    gps.execute(
        "INSERT INTO gps VALUES ('c1', '2026-01-05 00:30+00', NULL, 53.1), ('c1', '2026-01-05 00:31+00', 8.2, 'NaN')"
    )
    assert load_rows(gps)["quarantined"] == {"missing-position": 1, "non-finite-position": 1}
    [(content,)] = gps.execute("SELECT content FROM dbanon.quarantine WHERE reason = 'non-finite-position'").fetchall()
    assert (set(content), content["lon"], content["lat"]) == ({"cab", "ts", "lon", "lat"}, "8.2", "NaN")


def test_a_table_without_points_is_told_of_its_columns_of_coordinates(gps: psycopg.Connection) -> None:
    with pytest.raises(psycopg.Error) as caught:
        gps.execute("SELECT dbanon.import_trajectories('public.gps', 'd', 'cab', 'ts')")
    demand_named(str(sqlstate.translate(caught.value)), "--x lon", "--y lat")


# ---- what is refused -------------------------------------------------------------------------------------------------

FILTERS = {
    "cab = ": "42601",
    "": "42601",
    "true) OR (": "42601",
    "true; DROP TABLE public.gps; --": "42601",
    "true); DROP TABLE public.gps; SELECT (1": "42601",
    "cab = 'c1') OR (true": "42601",
    "cab = 'c1') OR (true -- ": "42601",
    "true, true": "42804",
    "true AS kept": "42601",
    "nothing = 1": "42703",
    "cab": "42804",
    "count(*) > 1": "42803",
    "$1": "42P02",
}


@pytest.mark.parametrize("given", FILTERS)
def test_a_filter_that_is_no_condition_is_refused_without_its_text(gps: psycopg.Connection, given: str) -> None:
    error = catch_refusal(gps, filter="'" + given.replace("'", "''") + "'")
    assert error.sqlstate == "DA011"
    demand_named(str(error), "public.gps", FILTERS[given])
    assert given == "" or given not in str(sqlstate.translate(error))
    assert gps.execute("SELECT to_regclass('public.gps') IS NOT NULL").fetchone() == (True,)


def test_a_filter_that_fails_while_it_runs_stores_nothing(gps: psycopg.Connection) -> None:
    error = catch_refusal(gps, filter="'1 / (lon - lon)::int > 0'")
    assert error.sqlstate == "DA012"
    demand_named(str(error), "public.gps", "22012")


@pytest.mark.parametrize("given", ["random() < 0.5", "public.drawn(cab)", "cab IN (SELECT 'c' || (random() * 9)::int)"])
def test_a_filter_that_calls_a_volatile_function_is_refused(gps: psycopg.Connection, given: str) -> None:
    gps.execute("CREATE FUNCTION public.drawn(text) RETURNS boolean LANGUAGE sql AS 'SELECT true'")
    error = catch_refusal(gps, filter="'" + given.replace("'", "''") + "'")
    assert error.sqlstate == "DA011"
    demand_named(str(error), "volatile")


@pytest.mark.parametrize(
    "given", ["ts < now()", "cab IN (SELECT cab FROM public.gps)", "lon BETWEEN 8 AND 9 AND cab LIKE 'c%'"]
)
def test_a_filter_may_ask_other_tables_and_the_clock(gps: psycopg.Connection, given: str) -> None:
    assert load_rows(gps, filter="'" + given.replace("'", "''") + "'")["rows_kept"] == 60


@pytest.mark.parametrize(
    ("arguments", "code", "facts"),
    [
        ({"y": "NULL"}, "DA011", ("x without y",)),
        ({"x": "NULL"}, "DA011", ("y without x",)),
        ({"geom": "'lon'"}, "DA011", ("both",)),
        ({"x": "'lat'", "y": "'lon'"}, "DA011", ("x => 'lon', y => 'lat'",)),
        ({"x": "'cab'"}, "DA011", ("'cab'",)),
        ({"y": "'ts'"}, "DA011", ("'ts'",)),
        ({"since": "now()", "until": "now() - interval '1 day'"}, "DA011", ("since", "until")),
        ({"subject": "'-'", "mode": "'new'"}, "DA011", ("'-'",)),
        ({"mode": "'newest'"}, "DA011", ("'newest'", "new")),
    ],
    ids=str,
)
def test_what_cannot_be_asked_for_gets_a_sentence_and_stores_nothing(
    gps: psycopg.Connection, arguments: dict[str, str], code: str, facts: tuple[str, ...]
) -> None:
    given = {"subject": "'cab'", "time_column": "'ts'", "x": "'lon'", "y": "'lat'"} | arguments
    more = "".join(f', "{name}" => {value}' for name, value in given.items())
    with expect_refusal(code) as caught:
        gps.execute(f"SELECT dbanon.import_trajectories('public.gps', dataset => 'd'{more})")  # type: ignore[arg-type]
    demand_named(str(caught.value), *facts)


def test_a_source_that_lost_a_column_is_refused_and_the_dataset_stays(gps: psycopg.Connection) -> None:
    load_new(gps)
    gps.execute("ALTER TABLE gps DROP COLUMN lat")
    error = catch_refusal(gps, mode="'new'")
    assert error.sqlstate == "DA012"
    demand_named(str(error), "public.gps", "'lat'", "cab, ts, lon")
    assert count_fixes(gps) == 60


def test_coordinates_that_are_no_numbers_are_refused(gps: psycopg.Connection) -> None:
    gps.execute("ALTER TABLE gps ALTER lon TYPE text")
    error = catch_refusal(gps)
    assert error.sqlstate == "DA012"
    demand_named(str(error), "'lon'", "text")


# ---- files, requests, quasi-identifiers ------------------------------------------------------------------------------


def test_a_file_may_be_loaded_again_for_what_is_new(connection: psycopg.Connection, tmp_path: Path) -> None:
    def written(rows: int) -> list[Path]:
        lines = (f"c{i % 9},{1767571200 + i // 9},{8.2 + i % 9 / 100},53.1\n" for i in range(rows))
        (file := tmp_path / "f.csv").write_text("subject,time,x,y\n" + "".join(lines))
        return [file]

    asked = LoadingTrajectories(dataset="d", mode="new")
    assert load.load_trajectories(connection, written(90), asked).kept == 90
    report = load.load_trajectories(connection, written(99), asked)
    assert (report.read, report.kept, report.known, report.quarantined) == (99, 9, 90, {})
    report = load.load_trajectories(connection, written(99), asked)
    assert (report.kept, report.known, report.first_time) == (0, 99, None)
    demand_named(report.notices[0], 99, "loaded before")
    span = LoadingTrajectories(
        dataset="e", since=datetime(2026, 1, 5, 0, 0, 2, tzinfo=UTC), until=datetime(2026, 1, 5, 0, 0, 4, tzinfo=UTC)
    )
    report = load.load_trajectories(connection, written(99), span)
    assert (report.kept, report.left_out) == (18, {"outside-period": 81})


@pytest.mark.parametrize("function", EVENTS)
def test_requests_and_quasi_identifiers_know_what_is_there(
    gps: psycopg.Connection, said: list[str], function: str
) -> None:
    relation, call = EVENTS[function]
    load_rows(gps)
    gps.execute("CREATE TABLE public.calls AS SELECT cab, ts, 'bank' AS poi FROM gps")
    assert load_new(gps, call)["rows_kept"] == 60
    said.clear()
    row = load_new(gps, call)
    assert (row["rows_kept"], row["known"], row["quarantined"]) == (0, 60, {})
    demand_named(said[0], 60, "loaded before")
    publish(gps, "2026-01-05 00:00+00", "2026-01-06 00:00+00")
    gps.execute("INSERT INTO calls SELECT cab, ts + interval '7 s', 'bar' FROM gps WHERE cab = 'c1'")
    gps.execute("INSERT INTO calls SELECT 'c1', now() + interval '1 day', 'bar'")
    gps.execute("INSERT INTO calls SELECT 'c1', timestamptz '2026-01-06 00:00+00', 'bar'")
    row = load_new(gps, call, filter="'poi <> ''bank'''")
    assert (row["rows_read"], row["rows_kept"], row["late"], row["quarantined"]) == (8, 1, 6, {"future-time": 1})
    assert [p["rows"] for p in row["late_periods"]] == [6]
    assert gps.execute(f"SELECT count(*) FROM dbanon.{relation}").fetchone() == (61,)


def test_files_of_requests_and_quasi_identifiers_know_what_is_there(gps: psycopg.Connection, tmp_path: Path) -> None:
    load_rows(gps)
    (file := tmp_path / "f.csv").write_text("subject,time,poi\nc1,1767571200,bank\nc2,1767571260,bank\n")
    for _ in range(2):
        asked = LoadingRequests(dataset="d", columns=["poi"], mode="new", until=datetime(2026, 1, 5, 0, 1, tzinfo=UTC))
        calls = load.load_requests(gps, file, asked)
        seen = load.load_quasi_identifiers(gps, file, LoadingQuasiIdentifiers(dataset="d", mode="new"))
    assert (calls.read, calls.kept, calls.known, seen.kept, seen.known) == (1, 0, 1, 0, 2)


def test_to_replace_and_to_add_what_is_new_is_refused(gps: psycopg.Connection) -> None:
    load_rows(gps)
    with expect_refusal("DA011"):
        load_rows(gps, EVENTS["import_quasi_identifiers"][1].replace("calls", "gps"), mode="'new'", replace="true")
    with expect_refusal("DA011"):
        load_rows(gps, EVENTS["import_requests"][1].replace("calls", "gps").replace("poi", "lon"), mode="'replace'")


def test_a_time_that_was_forgotten_is_left_out_of_every_later_load(
    gps: psycopg.Connection, said: list[str], tmp_path: Path
) -> None:
    drive(gps, 1)
    load_new(gps)
    gps.execute("SELECT dbanon.forget_before('d', '2026-01-06 00:00+00')")
    gps.execute("SELECT dbanon.forget_before('d', '2026-01-05 12:00+00')")  # forgets no less
    said.clear()
    row = load_new(gps, since="'2026-01-01 00:00+00'")
    assert (row["rows_kept"], row["known"], row["left_out"]["forgotten-time"]) == (0, 60, 60)
    assert [notice for notice in said if "that time was forgotten" in notice]
    (file := tmp_path / "f.csv").write_text("subject,time,x,y\nc1,1767571200,8.2,53.1\n")
    with pytest.raises(DataError) as caught:
        load.load_trajectories(gps, [file], LoadingTrajectories(dataset="d", mode="append"))
    demand_named(str(caught.value), "forgotten-time")
    assert gps.execute("SELECT count(*) FROM dbanon.quarantine").fetchone() == (0,)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_known_and_what_contradicts_it_is_found_in_any_data(connection: psycopg.Connection, seed: int) -> None:
    """Each row is judged as a dictionary of what is stored would judge it, also at the ends of paths."""
    rng, step = random.Random(seed), [60.0, 1.0, 0.25][seed % 3]
    stored: dict[tuple[str, float], tuple[float, float]] = {}
    connection.execute("CREATE TABLE public.gps (cab text, ts float8, lon float8, lat float8)")
    for mode in ("create", "new", "append", "new"):
        rows = [
            (rng.choice("abcd"), 1767571200 + rng.randrange(300) * step, 8.2 + rng.randrange(9) * 1e-3, 53.1)
            for _ in range(60)
        ]
        for cab, t in rng.sample(sorted(stored), min(len(stored), 20)):
            lon, lat = stored[cab, t]
            rows.append((cab, t, lon, lat + rng.choice([0, 0, 0.8e-8, 1e-8, 1e-3])))  # a millimetre is 0.9e-8 degrees
        expected, added = Counter[str](), dict[tuple[str, float], tuple[float, float]]()
        for cab, t, lon, lat in rows:
            before = stored.get((cab, t))
            there = before or added.setdefault((cab, t), (lon, lat))
            near = there == (lon, lat) or (
                before == (lon, before[1]) and abs(before[1] - lat) < 0.9e-8 if before else False
            )
            repeated = "known" if mode == "new" else "duplicate-fix"
            expected[repeated if near else "contradicting-fix"] += 1
        expected[repeated] -= len(added)  # each stands for itself
        if stored and seed % 2:  # a place of a known time that the projection does not show
            rows.append((*next(iter(stored)), 99.2, 1.0))
            expected["position-out-of-range"] = 1
        connection.execute("TRUNCATE public.gps")
        with connection.cursor().copy("COPY public.gps FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        found = load_new(connection, mode=f"'{mode}'", split_gap_s=str(6 * step))
        assert found["rows_kept"] == len(added)
        assert Counter(found["quarantined"]) + Counter(found["left_out"]) == +expected
        stored |= added
    assert count_fixes(connection) == len(stored)


# ---- how much is read ------------------------------------------------------------------------------------------------


def test_a_load_reads_the_paths_of_the_subjects_and_times_that_it_adds_and_no_others(gps: psycopg.Connection) -> None:
    load_rows(gps)
    reads = (
        "SELECT coalesce(sum(heap_blks_read + heap_blks_hit + toast_blks_read + toast_blks_hit), 0) "
        "FROM pg_statio_all_tables WHERE relname = 'trajectory'"
    )

    def cost(day: int) -> int:
        drive(gps, day)
        gps.execute("SELECT pg_stat_force_next_flush()")
        [before] = gps.execute(reads).fetchone() or [0]
        load_new(gps)
        gps.execute("SELECT pg_stat_force_next_flush()")
        [after] = gps.execute(reads).fetchone() or [0]
        return int(after - before)

    few = cost(1)
    gps.execute(
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path) SELECT t.dataset_id, t.subject, "
        "ST_SetSRID(ST_MakeLine(ARRAY(SELECT ST_MakePointM(441000 + s, 5879000 + n, 1767571200 - n * 86400 + s) "
        "FROM generate_series(0, 199) s)), 32632) "
        "FROM (SELECT DISTINCT dataset_id, subject FROM dbanon.trajectory) t, generate_series(1, 300) n"
    )
    assert cost(2) < few + 200  # 3,000 paths of two pages each are more than 6,000


def test_naive_times_of_python_are_refused(connection: psycopg.Connection, tmp_path: Path) -> None:
    (file := tmp_path / "f.csv").write_text("subject,time,x,y\nc1,1767571200,8.2,53.1\n")
    asked = LoadingTrajectories(dataset="d", since=datetime(2026, 1, 5))
    with pytest.raises(ParameterError):
        load.load_trajectories(connection, [file], asked)
