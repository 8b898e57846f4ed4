"""Releases that grow: one view, a part a run; what a part must be; readers who are in nobody's way."""

import itertools
import re
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from dbanon.base.background import run_in_background
from dbanon.base.cloaks import Cloaks
from dbanon.base.errors import ParameterError, StoreError, VerificationFailed
from dbanon.base.progress import report_nothing
from dbanon.cli.report import format_evaluation
from dbanon.evaluation import evaluating
from dbanon.methods import METHODS
from dbanon.options.evaluating import Evaluating
from dbanon.options.reporting import Reporting
from dbanon.postgres.server import Target
from dbanon.releases import published
from dbanon.reports import reporting
from dbanon.testing import cloned_database, shared_database
from tests import here
from tests.db.methods import change_methods, require_requests
from tests.db.parts import find_day, publish_part, run_of
from tests.db.ten_people import CONFIRM
from tests.db.written import CONTRACTS, VERIFIED, write
from tests.facts import expect_refusal
from tests.reading import COUNT_INSIDE, collect_notices, read_column, read_value

Login = Callable[[str], str]
COUNT = "SELECT count(*) FROM published.ten"
KEYS = """SELECT count(*), count(DISTINCT cloak_id), count(DISTINCT (record_id, seq)), max(cloak_id), max(record_id)
    FROM published.ten"""
WAITING = f"pg_stat_activity WHERE wait_event_type = 'Lock' AND {here.SESSIONS}"
KEPT = """INSERT INTO dbanon.evaluation
        (run_id, dataset_id, dataset_revision, method, algorithm, params, against, queries, seed, figures, run_figures,
        notes)
    SELECT run_id, dataset_id, dataset_revision, method, algorithm, params, 'published', 100, 1, f, '{}', '{}'
    FROM dbanon.run, (VALUES (%s::bigint, %s::jsonb)) v (n, f) WHERE run_id = n"""
EVERYWHERE = "ST_MakeEnvelope(-1000, -1000, 1000, 1000, 32610)"
TABLES = "SELECT relation::text FROM dbanon_internal.list_series_tables(1) ORDER BY bounds"


@pytest.fixture(scope="module")
def grown_template(dbanon_server: Target, ten_template: str) -> Iterator[str]:
    """Name of a database with a release of three days, to be cloned: a third of the time of publishing them again."""

    def fill(url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            for number in (0, 1, 3):
                assert publish_part(connection, run_of(connection, number)) == 4

    with shared_database(dbanon_server, "grown", fill, template=ten_template) as name:
        yield name


@pytest.fixture
def database(request: pytest.FixtureRequest, dbanon_server: Target, ten_template: str) -> Iterator[str]:
    is_grown = "grown" in request.fixturenames
    with cloned_database(dbanon_server, request.getfixturevalue("grown_template") if is_grown else ten_template) as url:
        if is_grown:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(CONFIRM)
        yield url


@pytest.fixture
def own(connection: psycopg.Connection, run: int) -> psycopg.Connection:
    """Connection to a database with the run of the ten people."""
    return connection


@pytest.fixture
def grown(own: psycopg.Connection) -> psycopg.Connection:
    """Connection to a database with a release of three days, of which the third follows a gap of one."""
    return own


@pytest.fixture
def operator(own: psycopg.Connection, login: Login) -> Iterator[psycopg.Connection]:
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as opened:
        opened.execute("SET statement_timeout = '20s'")
        yield opened


@pytest.fixture
def reader(grown: psycopg.Connection, login: Login) -> Iterator[psycopg.Connection]:
    """An analyst in the middle of a transaction that has read all of the release."""
    with psycopg.connect(login("dbanon_analyst")) as opened:
        assert read_value(opened, COUNT) == 12
        yield opened


# --- one view ---------------------------------------------------------------------------------------------------------


def test_keys_are_unique_over_parts_and_exact_in_javascript(grown: psycopg.Connection) -> None:
    rows, cloaks, places, *greatest = grown.execute(KEYS).fetchone() or ()
    assert (rows, cloaks, places) == (12, 12, 12)
    assert all(1 << 32 < key < 1 << 53 for key in greatest)
    prefixes = read_column(grown, "SELECT prefix FROM dbanon.release ORDER BY release_id")
    assert len({*prefixes}) == 3
    assert read_column(grown, "SELECT DISTINCT cloak_id >> 32 FROM published.ten ORDER BY 1") == sorted(prefixes)


def test_prefixes_are_in_no_order(own: psycopg.Connection) -> None:
    drawn = read_column(own, "SELECT dbanon_internal.draw_prefix(0) FROM generate_series(1, 2000)")
    assert min(drawn) < 60_000
    assert max(drawn) > 990_000
    rising = sum(a < b for a, b in itertools.pairwise(drawn))
    assert 850 < rising < 1150


def test_no_constraint_tells_every_login_which_keys_or_times_a_part_has(
    grown: psycopg.Connection, login: Login
) -> None:
    """Folded ones neither; the bounds of partitions are another matter, which the planner needs."""
    grown.execute("SELECT dbanon.fold_release('ten', '2008-07-01Z')")
    with psycopg.connect(login("dbanon_analyst")) as analyst:
        told = read_column(
            analyst,
            "SELECT conname FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid"
            " WHERE c.relname ~ '^(release|series)_[0-9]+$' AND k.contype = 'c'",
        )
    assert told == []


def test_a_reader_is_shown_one_release_with_its_parts(grown: psycopg.Connection) -> None:
    shown = grown.execute("SELECT name, k, rows, parts, starts, ends, since, until FROM published.releases").fetchall()
    starts = [find_day(n) + timedelta(hours=8) for n in (0, 1, 3)]
    ends = [start + timedelta(minutes=2) for start in starts]
    assert shown == [("ten", 5, 12, 3, starts, ends, starts[0], ends[-1])]
    parts = grown.execute("SELECT name, since, until, k, rows, percent_left_out FROM published.parts ORDER BY since")
    assert parts.fetchall() == [("ten", a, b, 5, 4, None) for a, b in zip(starts, ends, strict=True)]
    assert read_value(grown, "SELECT count(*) FROM published.columns WHERE name = 'ten'") == 9


def test_the_time_of_a_part_is_published_as_far_as_its_bounds_and_that_of_a_release_as_far_as_its_rows(
    own: psycopg.Connection,
) -> None:
    # Rows are from 8:00 to 8:02.
    periods = "SELECT lower(p), upper(p) FROM dbanon_internal.list_published_periods(1) p ORDER BY p"
    own.execute("SELECT dbanon.publish(%s, 'alone')", [run_of(own, 2)])
    rows = (find_day(2) + timedelta(hours=8), find_day(2) + timedelta(hours=8, minutes=2))
    assert own.execute(periods).fetchall() == [rows]
    publish_part(own, run_of(own, 0))
    assert own.execute(periods).fetchall() == [(find_day(0), find_day(1)), rows]
    # What reaches beyond is no part, so no time of rows is missing.
    with expect_refusal("DA011", "bounds"):
        publish_part(own, run_of(own, 1, later=timedelta(days=1, hours=15, minutes=59)))
    own.execute("SELECT dbanon.unpublish_part('ten', %s)", [find_day(0)])
    assert own.execute(periods).fetchall() == [(find_day(0), find_day(1)), rows]


def test_a_release_of_one_run_is_one_part(own: psycopg.Connection) -> None:
    own.execute("SELECT dbanon.publish(1, 'ten')")
    assert (
        read_value(own, "SELECT (parts, starts, ends) = (1, ARRAY[since], ARRAY[until]) FROM published.releases")
        is True
    )
    assert read_value(own, "SELECT count(*) FROM published.parts") == 1


def test_the_comment_gives_k_and_shares_from_least_to_greatest_part(own: psycopg.Connection) -> None:
    said = "SELECT obj_description('published.ten'::regclass)"
    publish_part(own, run_of(own, 0, left_out=10))
    assert "Left out of all that was seen: 50 %." in read_value(own, said)
    publish_part(own, run_of(own, 1, left_out=30))
    publish_part(own, run_of(own, 2, left_out=4, k=4))
    assert "Here k is 4 to 5 by part." in read_value(own, said)
    assert "Left out of all that was seen: 29 % to 75 % by part." in read_value(own, said)
    publish_part(own, run_of(own, 3, left_out=1))
    assert "seen: fewer than 5, or none to 75 % by part." in read_value(own, said)
    assert read_column(own, "SELECT percent_left_out FROM published.parts ORDER BY since") == [50, 75, 29, None]
    own.execute("SELECT dbanon.unpublish_part('ten', %s)", [find_day(3)])
    own.execute("SELECT dbanon.unpublish_part('ten', %s)", [find_day(1)])
    assert "Left out of all that was seen: 29 % to 50 % by part." in read_value(own, said)
    assert read_value(own, "SELECT k FROM published.releases") == 4


def test_the_comment_says_in_how_many_parts_nothing_is_hidden(own: psycopg.Connection) -> None:
    said = "SELECT split_part(obj_description('published.ten'::regclass), 'Against: ', 1)"
    without = METHODS["tp-aware"].requires.without
    require_requests(own)
    # A part's run, how many requests its attack counted, and what the readers are told then.
    for number, requests, told in (
        (0, 1, ""),
        (1, 0, f" In 1 part of 2: {without}"),
        (2, 0, f" In 2 parts of 3: {without}"),
    ):
        run = run_of(own, number)
        own.execute(
            "UPDATE dbanon.verification SET figures = figures || %s WHERE run_id = %s",
            [Jsonb({"requests": requests}), run],
        )
        publish_part(own, run)
        assert read_value(own, said).partition(" Here k is 5.")[2].strip("\n") == told
    own.execute("SELECT dbanon.unpublish_part('ten', %s)", [find_day(0)])
    assert read_value(own, said).partition(" Here k is 5.")[2].strip("\n") == f" {without}"


# --- what a part must be ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "state", "facts"),
    [
        ({"step_s": 30}, "DA011", ("step_s", "60", "30")),
        ({"instants": 3}, "DA011", ("window", "120", "180")),
        ({"until": None}, "DA011", ("bounds", "since and until")),
        ({"since": None}, "DA011", ("bounds",)),
        ({"until": find_day(2).timestamp() + 28_860}, "DA003", ("a part from",)),
        ({"later": timedelta(hours=39, minutes=59)}, "DA011", ("in its bounds",)),
        ({"later": timedelta(days=2, seconds=7)}, "DA011", ("whole steps", "60")),
    ],
)
def test_a_part_that_does_not_fit_is_refused_and_nothing_is_done(
    own: psycopg.Connection, params: dict[str, Any], state: str, facts: tuple[str, ...]
) -> None:
    publish_part(own, run_of(own, 0))
    publish_part(own, run_of(own, 3))
    run = run_of(own, 2, **params) if state != "DA003" else run_of(own, 2, until=find_day(4).timestamp())
    before = _read_state(own)
    with expect_refusal(state, *facts):
        publish_part(own, run)
    assert _read_state(own) == before


def _read_state(connection: psycopg.Connection[Any]) -> list[Any]:
    relations = "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'dbanon'::regnamespace ORDER BY oid"
    return [
        read_column(connection, relations),
        read_value(connection, COUNT),
        read_value(connection, "SELECT count(*) FROM dbanon.release"),
        read_value(connection, "SELECT count(*) FROM dbanon.grouping"),
        read_value(connection, "SELECT obj_description('published.ten'::regclass)"),
    ]


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ("UPDATE dbanon.run SET algorithm = 'other' WHERE run_id = 3", "algorithm"),
        ("UPDATE dbanon.run SET dataset_id = 2 WHERE run_id = 3", "SRID"),
        ("UPDATE dbanon.dataset SET srid = 32610, grid_m = 5 WHERE dataset_id = 2; "
         "UPDATE dbanon.run SET dataset_id = 2 WHERE run_id = 3", "grid"),
        ("UPDATE dbanon.method SET columns = '[]'", "columns"),
    ],
)  # fmt: skip
def test_a_part_has_algorithm_system_grid_and_columns_of_the_others(
    own: psycopg.Connection, change: str, fact: str
) -> None:
    publish_part(own, run_of(own, 0))
    own.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('other', 32611, 1, 60)")
    run = run_of(own, 1)
    assert run == 3
    change_methods(own, change)
    with expect_refusal("DA011", fact):
        own.execute("SELECT dbanon_internal.prepare_part(3, 'ten', NULL)")


def test_a_name_either_grows_or_does_not(own: psycopg.Connection) -> None:
    own.execute("SELECT dbanon.publish(1, 'plain')")
    publish_part(own, run_of(own, 1))
    other = run_of(own, 2)
    with expect_refusal("DA003", "plain"):
        publish_part(own, other, "plain")
    for statement in ("dbanon.publish(3, 'ten')", "dbanon.publish(3, 'ten', replace => true)"):
        with expect_refusal("DA003", "ten", "grow => true"):
            own.execute(f"SELECT {statement}")
    with expect_refusal("DA011", "replace => true", "grow => true"):
        publish_part(own, other, "ten", ", replace => true")
    with expect_refusal("DA002", "parts"):
        publish_part(own, other, "parts")
    assert read_value(own, "SELECT count(*) FROM dbanon.release") == 2


def test_a_part_keeps_the_readers_of_the_first(own: psycopg.Connection, login: Login) -> None:
    own.execute("DROP ROLE IF EXISTS part_readers; CREATE ROLE part_readers")
    try:
        publish_part(own, run_of(own, 0), rest=", readers => ARRAY['part_readers']")
        with expect_refusal("DA011", "readers", "all analysts"):
            publish_part(own, run_of(own, 1), rest=", readers => ARRAY['dbanon_analyst']")
        publish_part(own, run_of(own, 2))
        assert read_value(own, "SELECT array_agg(DISTINCT readers[1]) FROM dbanon.release") == ["part_readers"]
        with psycopg.connect(login("part_readers"), autocommit=True) as one:
            assert read_value(one, COUNT) == 8
            assert read_value(one, "SELECT count(*) FROM published.parts") == 2
        with psycopg.connect(login("dbanon_analyst"), autocommit=True) as other:
            assert read_value(other, "SELECT count(*) FROM published.parts") == 0
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                other.execute(COUNT)
    finally:
        own.execute("SELECT dbanon.unpublish('ten')")
        own.execute("DROP OWNED BY part_readers; DROP ROLE part_readers")


def test_a_greater_or_lower_k_is_let_in_and_said(own: psycopg.Connection) -> None:
    said = collect_notices(own)
    publish_part(own, run_of(own, 0))
    assert not any("keep k" in sentence for sentence in said)
    publish_part(own, run_of(own, 1, k=4))
    assert any("k = 5" in sentence for sentence in said)


def test_each_part_is_compared_with_all_others(own: psycopg.Connection) -> None:
    """A part of times that another release speaks of differently is refused as any release is."""
    publish_part(own, run_of(own, 0))
    run = run_of(own, 1, later=timedelta(days=1))
    own.execute(
        "UPDATE dbanon.membership SET record_id = 3 - record_id WHERE run_id = %s AND trajectory_id IN (100, 105)",
        [run],
    )
    own.execute(
        "INSERT INTO dbanon.verification (run_id, attack, passed, digest)"
        " VALUES (%s, 'tp-aware', true, dbanon_internal.compute_run_digest(%s))", [run, run],
    )  # fmt: skip
    publish_part(own, run)
    same_day = run_of(own, 1)
    with expect_refusal("DA010"):
        own.execute("SELECT dbanon.publish(%s, 'other')", [same_day])
    own.execute("SELECT dbanon.unpublish_part('ten', %s)", [find_day(1)])
    with expect_refusal("DA010"):
        publish_part(own, same_day)


# --- what analysts are answered ---------------------------------------------------------------------------------------


def test_people_of_two_parts_may_be_the_same(grown: psycopg.Connection) -> None:
    inside = f"{COUNT_INSIDE}('published.ten', {EVERYWHERE}, during => %s)"
    assert grown.execute(inside, ["[2008-06-04,2008-06-04 12:00)"]).fetchone() == (10, 10, 10)
    assert grown.execute(inside, ["[2008-06-04,2008-06-06)"]).fetchone() == (10, 10, 20)
    assert grown.execute(inside, ["[2008-06-04,2008-06-10)"]).fetchone() == (10, 10, 30)


def test_a_span_in_a_gap_is_refused_and_one_over_a_gap_is_said(grown: psycopg.Connection) -> None:
    said = collect_notices(grown)
    inside = f"{COUNT_INSIDE}('published.ten', {EVERYWHERE}, during => %s)"
    with expect_refusal("DA011", "no part"):
        grown.execute(inside, ["[2008-06-06 10:00Z,2008-06-06 12:00Z)"])
    with expect_refusal("DA011", "no part"):
        grown.execute(f"SELECT published.count_inside('published.ten', {EVERYWHERE}, '2008-06-06 10:00Z'::timestamptz)")
    grown.execute(inside, ["[2008-06-04 08:00Z,2008-06-04 08:02Z)"])
    assert said == []
    grown.execute(inside, ["[2008-06-04 08:00Z,2008-06-05 08:01Z)"])
    assert ["no part for a time" in one for one in said] == [True, False]
    assert "in this span: 2" in said[1]
    assert read_value(grown, "SELECT length(published.tile(0, 0, 0, 'ten', '2008-06-06 10:00Z'))") == 0
    assert read_value(grown, "SELECT length(published.tile(0, 0, 0, 'ten', '2008-06-05 08:00Z'))") > 0


@pytest.mark.parametrize(
    ("name", "said"),
    [("nosuch", "'nosuch'"), ("published.nosuch", "'published.nosuch'"), ("", "''"), ("a\nb", "'a?b'")],
)
def test_a_tile_of_a_release_that_is_not_there_is_refused_by_its_name(
    grown: psycopg.Connection, name: str, said: str
) -> None:
    for call in ("tile(0, 0, 0, %s)", "tile_query(0, 0, 0, json_build_object('release', %s::text))"):
        with expect_refusal("DA001", said):
            grown.execute(f"SELECT published.{call}", [name])


def test_a_mean_over_a_gap_is_that_of_the_times_spoken_of(grown: psycopg.Connection) -> None:
    dense = "SELECT sum(expected) FROM published.density('published.ten', 1e6, '[2008-06-04,2008-06-10)'{})"
    assert read_value(grown, dense.format("")) == pytest.approx(10)
    hours = "SELECT hour, expected FROM published.density('published.ten', 1e7, '[2008-06-04,2008-06-10)', true)"
    by_hour: dict[Any, float] = {}
    for hour, expected in grown.execute(hours).fetchall():
        by_hour[hour] = by_hour.get(hour, 0) + expected
    assert by_hour == {find_day(n) + timedelta(hours=8): pytest.approx(10) for n in (0, 1, 3)}


QUERIES = [
    f"{COUNT_INSIDE}('published.ten', {EVERYWHERE}, during => '[2008-06-05 08:00Z,2008-06-05 08:01Z)')",
    "SELECT count(*) FROM published.density('published.ten', 100, '[2008-06-05 08:00Z,2008-06-05 08:01Z)')",
    f"SELECT * FROM published.dwell('published.ten', {EVERYWHERE}, '[2008-06-05 08:00Z,2008-06-05 08:01Z)')",
    "SELECT * FROM published.crossings('published.ten', ST_SetSRID('LINESTRING(60 0, 60 99)'::geometry, 32610), "
    "'[2008-06-05 08:00Z,2008-06-05 08:02Z)')",
    f"SELECT * FROM published.requests_inside('published.ten', {EVERYWHERE}, '[2008-06-05 08:00Z,2008-06-05 08:01Z)')",
    "SELECT * FROM published.flows('published.ten', 'zones', 'z', '[2008-06-05 08:00Z,2008-06-05 08:02Z)')",
    "SELECT length(published.tile(0, 0, 0, 'ten', '2008-06-05 08:00Z'))",
    "SELECT * FROM published.ten WHERE valid_from BETWEEN '2008-06-05 08:00Z' AND '2008-06-05 09:00Z'",
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_question_about_a_day_locks_the_part_of_that_day_and_at_most_the_last(
    grown: psycopg.Connection, login: Login, query: str
) -> None:
    with psycopg.connect(login("dbanon_analyst")) as analyst:
        analyst.execute(f"CREATE TEMPORARY TABLE zones AS SELECT 'all' AS z, {EVERYWHERE} AS g")  # type: ignore[arg-type]
        analyst.execute(query)  # type: ignore[arg-type]
        locked = read_column(
            grown,
            f"SELECT DISTINCT relation::regclass::text FROM pg_locks WHERE pid = {analyst.info.backend_pid}"
            " AND locktype = 'relation' AND relation IN (SELECT relation FROM dbanon_internal.list_series_tables(1))",
        )
    tables = read_column(grown, TABLES)
    assert tables[1] in locked
    assert tables[0] not in locked


# --- readers and parts ------------------------------------------------------------------------------------------------


def test_a_reader_delays_no_part_and_no_part_disturbs_a_reader(
    grown: psycopg.Connection, reader: psycopg.Connection, operator: psycopg.Connection
) -> None:
    run = run_of(grown, 4)
    operator.execute("SET lock_timeout = '1s'")
    assert publish_part(operator, run) == 4
    assert read_value(reader, COUNT) == 16  # read committed: in the next statement
    reader.rollback()
    reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    assert read_value(reader, COUNT) == 16
    run = run_of(grown, 5)
    assert publish_part(operator, run) == 4
    assert read_value(reader, COUNT) == 16
    assert read_value(reader, "SELECT parts FROM published.releases") == 4
    reader.rollback()
    assert read_value(reader, COUNT) == 20


def test_a_reader_who_tries_to_grant_delays_no_part(
    grown: psycopg.Connection, reader: psycopg.Connection, operator: psycopg.Connection
) -> None:
    reader.execute("GRANT SELECT ON published.ten TO dbanon_analyst")
    assert publish_part(operator, run_of(grown, 4)) == 4


def test_a_part_is_withdrawn_beside_its_readers_and_its_table_goes_when_they_have_gone(
    grown: psycopg.Connection, reader: psycopg.Connection, operator: psycopg.Connection
) -> None:
    tables = read_column(grown, TABLES)
    assert read_value(operator, "SELECT dbanon.unpublish_part('ten', %s)", find_day(1)) == 3
    assert read_value(reader, COUNT) == 8
    assert read_value(reader, "SELECT array_length(starts, 1) FROM published.releases") == 2
    assert read_column(grown, TABLES) == tables
    with expect_refusal("DA013", "was withdrawn"):
        publish_part(operator, 3)
    reader.commit()
    operator.execute("SELECT dbanon.clear_withdrawn()")
    assert read_column(grown, TABLES) == [tables[0], tables[2]]
    assert publish_part(operator, 3) == 4
    assert read_value(grown, COUNT) == 12


def test_a_time_without_a_part_and_a_name_without_parts_cannot_be_withdrawn(grown: psycopg.Connection) -> None:
    with expect_refusal("DA001", "none at"):
        grown.execute("SELECT dbanon.unpublish_part('ten', %s)", [find_day(2)])
    with expect_refusal("DA001", "none at"):
        grown.execute("SELECT dbanon.unpublish_part('ten', NULL)")
    with expect_refusal("DA001", "nothing"):
        grown.execute("SELECT dbanon.unpublish_part('nothing', %s)", [find_day(2)])
    grown.execute("SELECT dbanon.publish(1, 'plain')")
    with expect_refusal("DA001", "plain", "dbanon.unpublish"):
        grown.execute("SELECT dbanon.unpublish_part('plain', %s)", [find_day(0)])
    assert read_value(grown, COUNT) == 12


def test_a_release_whose_parts_are_all_withdrawn_is_empty_and_grows_again(grown: psycopg.Connection) -> None:
    for number in (0, 1, 3):
        grown.execute("SELECT dbanon.unpublish_part('ten', %s)", [find_day(number)])
    assert grown.execute("SELECT name, rows, parts, since, starts FROM published.releases").fetchall() == [
        ("ten", 0, 0, None, None)
    ]
    counted = f"{COUNT_INSIDE}('published.ten', {EVERYWHERE}, during => '[2008-06-04,2008-06-10)')"
    assert grown.execute(counted).fetchone() == (0, 0, 0)  # type: ignore[arg-type]
    publish_part(grown, 4)
    assert read_value(grown, COUNT) == 4
    grown.execute("SELECT dbanon.unpublish_part('ten', %s)", [find_day(3)])
    assert read_value(grown, "SELECT dbanon.unpublish('ten')") == 4
    assert read_value(grown, "SELECT to_regclass('published.ten')") is None


def test_all_of_it_is_withdrawn_as_any_release(grown: psycopg.Connection) -> None:
    assert read_value(grown, "SELECT dbanon.unpublish('ten')") == 4
    assert read_value(grown, "SELECT count(*) FROM dbanon.release WHERE withdrawn_at IS NULL") == 0
    left = "SELECT count(*) FROM pg_class WHERE relname ~ '^(release_[0-9]+|series_[0-9]+|withdrawn.*)$'"
    assert read_value(grown, left) == 0
    grown.execute("SELECT dbanon.publish(1, 'ten')")
    assert read_value(grown, COUNT) == 4


def test_a_withdrawal_waits_for_a_reader_or_ends_it(
    grown: psycopg.Connection, reader: psycopg.Connection, operator: psycopg.Connection
) -> None:
    grown.execute(
        "ALTER FUNCTION dbanon_internal.execute_exclusively(text, bigint, boolean) SET lock_timeout = '200ms'"
    )
    with expect_refusal("DA013", "in use by", reader.info.user):
        operator.execute("SELECT dbanon.unpublish('ten')")
    assert read_value(reader, COUNT) == 12
    operator.execute("SELECT dbanon.unpublish('ten', end_readers => true)")
    with pytest.raises(psycopg.OperationalError):
        reader.execute(COUNT)
    assert read_value(grown, "SELECT count(*) FROM pg_class WHERE relname ~ '^(release_|series_)[0-9]+$'") == 0


def test_two_sessions_grow_one_after_the_other(grown: psycopg.Connection, login: Login) -> None:
    runs = [run_of(grown, 4), run_of(grown, 4), run_of(grown, 5)]
    with psycopg.connect(login("dbanon_operator")) as first:
        publish_part(first, runs[0])
        with (
            psycopg.connect(login("dbanon_operator"), autocommit=True) as second,
            psycopg.connect(login("dbanon_operator"), autocommit=True) as third,
        ):
            same, other = (
                run_in_background(publish_part, second, runs[1]),
                run_in_background(publish_part, third, runs[2]),
            )
            _wait_for(grown, f"SELECT count(*) = 2 FROM {WAITING}")
            first.commit()
            with expect_refusal("DA003", "a part from"):
                same.result(20)
            assert other.result(20) == 4
    assert read_value(grown, COUNT) == 20


def test_two_sessions_begin_one_release(own: psycopg.Connection, login: Login) -> None:
    runs = [run_of(own, 0), run_of(own, 1)]
    with psycopg.connect(login("dbanon_operator")) as first:
        publish_part(first, runs[0])
        with psycopg.connect(login("dbanon_operator"), autocommit=True) as second:
            other = run_in_background(publish_part, second, runs[1])
            _wait_for(own, f"SELECT count(*) = 1 FROM {WAITING}")
            first.commit()
            assert other.result(20) == 4
    assert read_value(own, "SELECT parts FROM published.releases") == 2


def _wait_for(connection: psycopg.Connection[Any], condition: str) -> None:
    for _ in range(2000):
        if read_value(connection, condition):
            return
        threading.Event().wait(0.01)
    raise AssertionError(condition)


def test_a_publication_that_is_killed_leaves_nothing(
    grown: psycopg.Connection, database: str, operator: psycopg.Connection
) -> None:
    run, before = run_of(grown, 4), _read_state(grown)
    with psycopg.connect(database) as other:
        other.execute("LOCK TABLE dbanon.release IN SHARE ROW EXCLUSIVE MODE")  # it has copied its rows by then
        growing = run_in_background(publish_part, operator, run)
        _wait_for(grown, f"SELECT count(*) = 1 FROM {WAITING}")
        grown.execute("SELECT pg_terminate_backend(%s)", [operator.info.backend_pid])
        with pytest.raises(psycopg.OperationalError):
            growing.result(20)
    assert _read_state(grown) == before
    assert publish_part(grown, run) == 4


@pytest.mark.stress
def test_a_year_of_parts_leaves_room_for_twenty_sessions(own: psycopg.Connection, login: Login) -> None:
    """Folded by month, as a job does it: the month that goes on has a table a day.

    Of each other month three days do, which leave one table. A server as it is installed has room for 64 locks of each
    of 122 processes.
    """
    numbers = [n for n in range(-34, 361) if find_day(n).day <= 3 or find_day(n) >= find_day(361 - 31)]  # from 1 May on
    for number in numbers:
        publish_part(own, run_of(own, number))
        if find_day(number).day == 1:
            own.execute("SELECT dbanon.fold_release('ten', %s)", [find_day(number)])
    assert 40 < len(read_column(own, TABLES)) < 45
    assert read_value(own, "SELECT parts FROM published.releases") == len(numbers)
    with ExitStack() as stack:
        sessions = [stack.enter_context(psycopg.connect(login("dbanon_analyst"))) for _ in range(20)]
        for session in sessions:
            assert read_value(session, COUNT) == 4 * len(numbers)
            assert read_value(
                session, "SELECT count(*) FROM published.ten WHERE region && ST_MakeEnvelope(0, 0, 10, 10, 32610)"
            ) == 2 * len(numbers)
        run_id = run_of(own, 361)
        with own.transaction():
            assert publish_part(own, run_id) == 4
            held = f"SELECT count(*) FROM pg_locks WHERE NOT fastpath AND {here.LOCKS}"
            assert 4_000 < read_value(own, held) < 64 * 122


# --- guards -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["dbanon.series_1", "part"])
@pytest.mark.parametrize(
    "change", ["DELETE FROM {}", "UPDATE {} SET crowd = 1", "TRUNCATE {}", "INSERT INTO {} SELECT * FROM {} LIMIT 1"]
)
def test_nobody_changes_a_part(grown: psycopg.Connection, relation: str, change: str) -> None:
    name = read_column(grown, TABLES)[0] if relation == "part" else relation
    with expect_refusal("DA006"):
        grown.execute(change.replace("{}", name))  # type: ignore[arg-type]
    assert read_value(grown, COUNT) == 12


def test_of_a_folded_table_only_rows_of_withdrawn_parts_are_deleted(grown: psycopg.Connection) -> None:
    grown.execute("SELECT dbanon.fold_release('ten', '2008-07-01Z')")
    grown.execute("SELECT dbanon.unpublish_part('ten', %s)", [find_day(0)])
    folded = read_column(grown, TABLES)[0]
    for condition in ("true", f"valid_from < '{find_day(2)}'"):
        with expect_refusal("DA006"):
            grown.execute(f"DELETE FROM {folded} WHERE {condition}")  # type: ignore[arg-type]
    assert read_value(grown, COUNT) == 8


@pytest.mark.parametrize(
    "change", ["UPDATE dbanon.series SET name = 'x'", "DELETE FROM dbanon.series", "TRUNCATE dbanon.series CASCADE"]
)
def test_what_parts_are_held_to_stays(grown: psycopg.Connection, change: str) -> None:
    with expect_refusal("DA006"):
        grown.execute(change)  # type: ignore[arg-type]
    grown.execute("SELECT dbanon.unpublish('ten')")
    with expect_refusal("DA006"):
        grown.execute("UPDATE dbanon.series SET withdrawn_at = NULL, withdrawn_by = NULL")


# --- folding ----------------------------------------------------------------------------------------------------------


def test_whole_months_become_one_table_of_the_same_rows_and_gaps_stay_open(own: psycopg.Connection) -> None:
    days = [0, 1, 2, 4, 5, 26, 27, 28]  # from 4 June on: a gap at 3, and two days of July
    for number in days:
        publish_part(own, run_of(own, number))
    rows = "SELECT array_agg(t::text ORDER BY cloak_id) FROM published.ten t"
    before = read_value(own, rows)
    assert read_value(own, "SELECT dbanon.fold_release('ten', '2008-06-30Z')") == 0
    assert read_value(own, "SELECT dbanon.fold_release('ten', '2008-07-15Z')") == 5
    assert read_value(own, rows) == before
    bounds = own.execute(
        "SELECT lower(bounds), upper(bounds) FROM dbanon_internal.list_series_tables(1) ORDER BY 1"
    ).fetchall()
    assert bounds == [
        (find_day(0), find_day(3)),
        (find_day(4), find_day(6)),
        (find_day(26), find_day(27)),
        (find_day(27), find_day(28)),
        (find_day(28), find_day(29)),
    ]
    assert read_value(own, "SELECT dbanon.fold_release('ten', '2008-07-15Z')") == 0
    assert publish_part(own, run_of(own, 3)) == 4
    assert read_value(own, "SELECT dbanon.fold_release('ten', '2008-08-01Z')") == 5
    assert len(read_column(own, TABLES)) == 3
    assert read_value(own, "SELECT parts FROM published.releases") == 9
    own.execute("SELECT dbanon.unpublish_part('ten', %s)", [find_day(4)])
    assert read_value(own, COUNT) == 32
    with expect_refusal("DA013", "folded"):
        publish_part(own, run_of(own, 4))


def test_a_release_that_is_read_is_not_folded_and_stays_as_it_is(
    grown: psycopg.Connection, reader: psycopg.Connection, operator: psycopg.Connection
) -> None:
    before = _read_state(grown)
    with expect_refusal("DA013", "in use by", reader.info.user):
        operator.execute("SELECT dbanon.fold_release('ten', '2008-07-01Z')")
    assert _read_state(grown) == before
    reader.commit()
    assert read_value(operator, "SELECT dbanon.fold_release('ten', '2008-07-01Z')") == 2


@pytest.mark.parametrize("before", ["NULL", "'infinity'"])
def test_a_release_is_folded_before_a_time(grown: psycopg.Connection, before: str) -> None:
    with expect_refusal("DA011"):
        grown.execute(f"SELECT dbanon.fold_release('ten', {before})")  # type: ignore[arg-type]
    with expect_refusal("DA001", "nothing"):
        grown.execute("SELECT dbanon.fold_release('nothing', '2008-07-01Z')")


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_who_forgets_a_subject_is_told_of_a_release_once(grown: psycopg.Connection) -> None:
    said = collect_notices(grown)
    run_without = run_of(grown, 5)
    grown.execute("DELETE FROM dbanon.membership WHERE run_id = %s AND trajectory_id = 100", [run_without])
    grown.execute(
        "INSERT INTO dbanon.verification (run_id, attack, passed, digest)"
        " VALUES (%s, 'tp-aware', true, dbanon_internal.compute_run_digest(%s))", [run_without, run_without],
    )  # fmt: skip
    publish_part(grown, run_without)
    said.clear()
    grown.execute("SELECT dbanon.forget_subject('ten', 'p0')")
    [sentence] = [one for one in said if "live release" in one]
    assert "1 live release was" in sentence
    assert "ten (3 of 4 parts)" in sentence
    withdraw = sentence[sentence.index("SELECT dbanon.unpublish_part") :].split(". ")[0]
    grown.execute(withdraw)  # type: ignore[arg-type]
    assert read_value(grown, COUNT) == 4


def test_who_forgets_a_time_is_told_of_a_release_once_and_in_short(grown: psycopg.Connection) -> None:
    said = collect_notices(grown)
    grown.execute("SELECT dbanon.forget_before('ten', %s)", [find_day(2)])
    [sentence] = [one for one in said if "Live releases" in one]
    assert "ten (2 of 3 parts)" in sentence
    said.clear()
    grown.execute("SELECT dbanon.forget_before('ten', %s)", [find_day(4)])
    assert [one for one in said if "Live releases" in one] == []
    withdraw = sentence[sentence.index("SELECT dbanon.unpublish_part") :].removesuffix(".")
    assert "ANY" not in withdraw
    grown.execute(withdraw)  # type: ignore[arg-type]
    assert read_value(grown, COUNT) == 4


def test_a_dataset_with_a_live_part_is_not_dropped(grown: psycopg.Connection) -> None:
    with expect_refusal("DA007", "ten (3 of 3 parts)", "dbanon.unpublish('ten')"):
        grown.execute("SELECT dbanon.drop_dataset('ten')")
    assert read_value(grown, "SELECT live_releases FROM dbanon.datasets") == 1


def test_the_card_is_that_of_the_last_part(grown: psycopg.Connection) -> None:
    card = read_value(grown, "SELECT dbanon.release_card('ten')")
    assert card["part"] == {
        "since": find_day(3).isoformat(), "until": find_day(4).isoformat(), "live_parts": 3,
    }  # fmt: skip
    assert read_value(grown, "SELECT dbanon.release_card('ten', 1) -> 'part' ->> 'since'") == find_day(0).isoformat()
    assert datetime.fromisoformat(card["part"]["since"]).tzinfo is not None
    assert datetime.fromisoformat(card["part"]["since"]).astimezone(UTC) == find_day(3)


# --- every family -----------------------------------------------------------------------------------------------------

TRAITS: dict[str, dict[str, Any]] = {
    "bundles": {"holds": "instant", "every": "step_s", "window": "instants"},
    "sites": {"holds": "instant", "instant": "at"},
    "k-merge": {"holds": "some time"},
    "kte-hide": {"holds": "some time"},
    "objects": {"holds": "instant", "every": "step_s"},
    "areas": {"holds": "some time"},
}


def shift_cloaks(cloaks: Cloaks, days: int) -> Cloaks:
    """Move what a run writes to another day."""
    s, hiding = 86_400 * days, cloaks.hiding
    return replace(
        cloaks,
        periods=cloaks.periods + s,
        member_start=None if cloaks.member_start is None else cloaks.member_start + s,
        member_end=None if cloaks.member_end is None else cloaks.member_end + s,
        hiding=hiding and replace(hiding, start=hiding.start + s, end=hiding.end + s),
    )


@pytest.mark.parametrize("name", CONTRACTS)
def test_what_analysts_are_answered_over_parts_holds_for_every_family(own: psycopg.Connection, name: str) -> None:
    """The same people on two days: at least and at most hold them, and at least is that of one day."""
    runs = []
    for number in (0, 1):
        runs.append(write(own, CONTRACTS[name], shift_cloaks(CONTRACTS[name].cloaks(), number)))
        params = {
            "since": find_day(number).timestamp(),
            "until": find_day(number + 1).timestamp(),
            "step_s": 60,
            "instants": 2,
        }
        change_methods(
            own, "UPDATE dbanon.method SET traits = traits || %s WHERE name = %s", [Jsonb(TRAITS[name]), name]
        )
        own.execute("UPDATE dbanon.run SET params = params || %s WHERE run_id = %s", [Jsonb(params), runs[-1]])
        own.execute(VERIFIED, [runs[-1], runs[-1]])
        publish_part(own, runs[-1], "two_days")
    people = read_value(
        own, "SELECT count(DISTINCT trajectory_id) FROM dbanon.membership WHERE run_id = ANY (%s)", runs
    )
    count = f"SELECT at_least, at_most FROM published.count_inside('published.two_days', {EVERYWHERE}, during => %s)"
    whole, one = "[2008-06-04,2008-06-06)", "[2008-06-04,2008-06-05)"
    [(low, high)], [(day_low, day_high)] = (own.execute(count, [span]).fetchall() for span in (whole, one))
    assert low <= people <= high
    assert (low, high) == (day_low, 2 * day_high)
    dense = "SELECT sum(at_least), sum(expected), sum(at_most) FROM published.density('published.two_days', 1e7, %s)"
    low, expected, high = own.execute(dense, [whole]).fetchone() or ()
    assert low <= people <= high
    assert expected == pytest.approx(read_value(own, "SELECT count(DISTINCT record_id) FROM published.two_days")
                                     if TRAITS[name]["holds"] == "some time" else people)  # fmt: skip
    if name == "sites":  # of one moment each
        return
    own.execute(f"CREATE TEMPORARY TABLE zones AS SELECT 'all' AS z, {EVERYWHERE} AS g")  # type: ignore[arg-type]
    flows = "SELECT at_least, at_most FROM published.flows('published.two_days', 'zones', 'z', %s)"
    [(low, high)] = own.execute(flows, [whole]).fetchall()
    assert low <= people <= high
    assert (low, high) == (day_low, 2 * day_high)


# --- its page ---------------------------------------------------------------------------------------------------------


def test_a_release_that_grows_has_one_page_of_its_newest_part_and_a_line_for_each(
    grown: psycopg.Connection, login: Login
) -> None:
    with psycopg.connect(login("dbanon_analyst"), autocommit=True) as analyst:
        shown = reporting.report(analyst, "ten", Reporting(audience="analysts"))
    known = reporting.report(grown, "ten", Reporting())
    for html in (shown, known):
        rows = re.findall(r'<tr><th scope="row">([^<]*)</th><td class="number" data-name="k">', html)
        assert len(rows) == 3
        assert "12 rows" in html
    grown.execute("SELECT dbanon.unpublish_part('ten', %s)", [find_day(3)])
    assert "8 rows" in reporting.report(grown, "ten", Reporting(audience="analysts"))
    assert "withdrawn" in reporting.report(grown, "ten", Reporting())


def test_a_page_draws_for_the_k_of_the_newest_part_and_says_of_which_part_its_figures_are(
    own: psycopg.Connection, login: Login
) -> None:
    """The view promises the least k of all parts; the newest promises more, and may not be drawn for fewer."""
    for number, k in ((0, 2), (1, 4)):
        publish_part(own, run_of(own, number, k=k))
    with psycopg.connect(login("dbanon_analyst"), autocommit=True) as analyst:
        shown = reporting.report(analyst, "ten", Reporting(audience="analysts"))
    known = reporting.report(own, "ten", Reporting())
    assert "k = 2" in shown
    assert "k = 4" in known
    for html in (shown, known):
        assert "hide 4 or more" in html
        assert "the share left out, are of the newest" in html
    assert "its k, its clauses" in known
    assert "its k, its clauses" not in shown


def test_no_page_is_made_of_a_release_that_changes_between_its_record_and_its_lock(
    grown: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    become = published.become_analyst

    def withdraw_first(connection: psycopg.Connection, name: str) -> None:
        with psycopg.connect(grown.info.dsn, password=grown.info.password, autocommit=True) as administrator:
            administrator.execute("SELECT dbanon.unpublish_part('ten', %s)", [find_day(3)])
        become(connection, name)

    monkeypatch.setattr(published, "become_analyst", withdraw_first)
    with pytest.raises(StoreError, match="Release ten changed"):
        reporting.report(grown, "ten", Reporting())


def test_the_private_page_is_of_the_newest_part_whose_data_are_there_and_names_the_others(
    grown: psycopg.Connection,
) -> None:
    asked: list[float] = []

    def find_positions(run_id: int, at: float, group: Collection[int]) -> list[tuple[float, float, bool]]:
        asked.append(at)
        return evaluating.find_positions(grown, run_id, at, group)

    private = reporting.Private(
        choose_part=partial(evaluating.choose_part, grown), find_positions=find_positions, evaluate=lambda run_id: None
    )
    first, second, newest = read_column(grown, "SELECT run_id FROM dbanon.release ORDER BY lower(bounds)")
    grown.execute("ALTER TABLE dbanon.run DISABLE TRIGGER USER")
    for number, side in ((first, "1.2 km"), (newest, "3.4 km")):
        grown.execute(KEPT, [number, Jsonb([{"name": "usable_resolution_m", "value": 1000 * float(side[:3])}])])
    for gone, run_id, others in (
        ([], newest, "`dbanon evaluate ten`"),
        ([newest, first], second, f"changed since or were forgotten: {newest}, {first}."),
    ):
        grown.execute("UPDATE dbanon.run SET dataset_revision = -1 WHERE run_id = ANY (%s)", [gone])
        html = reporting.report(grown, "ten", Reporting(with_truth=True), private)
        assert f"Release ten has 3 parts. This is that of run {run_id}." in html
        assert others in html
        lines = re.findall(r'data-name="usable resolution">([^<]*)<', html)
        assert lines == ["3.4 km", "not known", "1.2 km"]
        assert f", run {run_id}" in html
        noted = "SELECT run_id FROM dbanon.audit WHERE action = 'page' ORDER BY audit_id DESC LIMIT 1"
        assert read_value(grown, noted) == run_id
        span = "SELECT span @> to_timestamp(%s) FROM dbanon.release WHERE run_id = %s"
        assert read_value(grown, span, asked.pop(), run_id)


def test_an_evaluation_names_parts_whose_data_are_gone_and_the_run_of_one_that_is_wrong(
    grown: psycopg.Connection, database: str
) -> None:
    first, second, newest = read_column(grown, "SELECT run_id FROM dbanon.release ORDER BY lower(bounds)")
    asked, moved = Evaluating(queries=100), "UPDATE dbanon.region SET region = ST_Translate(region, %s, 0)"
    grown.execute("ALTER TABLE dbanon.run DISABLE TRIGGER USER")
    grown.execute("ALTER TABLE dbanon.region DISABLE TRIGGER USER")
    grown.execute("UPDATE dbanon.run SET dataset_revision = -1 WHERE run_id IN (%s, %s)", [second, newest])
    grown.execute(moved, [100_000])
    with pytest.raises(VerificationFailed, match=f"run {first} "):
        evaluating.evaluate(grown, database, "ten", asked, report_nothing)
    grown.execute(moved, [-100_000])
    grown.execute(KEPT, [newest, Jsonb([{"name": "usable_resolution_m", "value": 3400.0}])])
    measured = evaluating.evaluate(grown, database, "ten", asked, report_nothing)
    assert (measured.run_id, measured.period) == (first, (find_day(0), find_day(1)))
    assert [(one.run_id, one.period) for one in measured.others] == [(newest, (find_day(3), find_day(4)))]
    assert f"or were forgotten: {newest}, {second}." in measured.notes[1]
    told = format_evaluation(measured)
    assert re.search(rf"^ *{newest}  .* not known  3.4 km  .*Measured before", told, re.MULTILINE)
    assert read_column(grown, "SELECT run_id FROM dbanon.evaluation ORDER BY evaluation_id") == [newest, first]
    grown.execute("UPDATE dbanon.run SET dataset_revision = -1 WHERE run_id = %s", [first])
    with pytest.raises(ParameterError, match=f"The data of run {newest} changed"):
        evaluating.evaluate(grown, database, "ten", asked, report_nothing)
