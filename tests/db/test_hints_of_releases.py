# ruff: noqa: E501
"""What messages of runs, releases, jobs and questions propose, executed on the input that made them say so.

As tests/db/test_hints.py for loads.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from dbanon import schema
from dbanon.testing import cloned_database, database_url
from tests.acceptance import workers
from tests.db import nights, parts
from tests.db.methods import change_methods
from tests.db.test_composition import HALVES, LOW, Release, write_snapshot, write_verified
from tests.hints import accept_overlap, find_arguments, find_quoted, find_statements, hear, read_words, refuse, tries
from tests.reading import COUNT_INSIDE

if TYPE_CHECKING:
    from dbanon.postgres.server import Target

CALL = "CALL dbanon.anonymize('ten', 'tp-aware', '{\"k\": 5, \"step_s\": 60, \"instants\": 2}'%s)"
REASON = "reason => 'three words here'"


@pytest.fixture
def said(own: psycopg.Connection) -> list[str]:
    """What the server tells the session."""
    return hear(own)


@pytest.fixture
def other(own: psycopg.Connection, dbanon_server: "Target") -> Iterator[psycopg.Connection]:
    with psycopg.connect(find_url(own, dbanon_server)) as opened:
        yield opened


def find_url(connection: psycopg.Connection, server: "Target") -> str:
    return database_url(server.url, dbname=connection.info.dbname)


# ---- runs ------------------------------------------------------------------------------------------------------------


@tries(
    "Start one on any machine that reaches this server", "Name the release: publish_as", "Run another algorithm: CALL",
    "The dataset has changed since that run. Start another: CALL", "Run the method with the same parameters on",
)  # fmt: skip
def test_runs_are_started_as_proposed(own: psycopg.Connection, dbanon_server: "Target", tmp_path: Path) -> None:
    words = refuse(own, CALL % "")
    [submit] = re.findall(r"SELECT (dbanon\.\w+)\(\.\.\.\)", words)
    own.execute(f"SELECT {submit}('ten', 'tp-aware', '{{\"k\": 5}}')")
    own.execute("SELECT dbanon.cancel_run(2)")
    [command] = re.findall(r"dbanon (\w+)\.", words)
    assert command == "worker"
    with workers.keep_up(find_url(own, dbanon_server), tmp_path / "log"):
        words = refuse(own, CALL % f", allow_overlap => true, {REASON}")
        own.execute(CALL % f", allow_overlap => true, {REASON}, publish_as => {find_arguments(words)['publish_as']}")
        for number, (spoil, refused) in enumerate(
            [
                ("UPDATE dbanon.run SET algorithm = 'none' WHERE run_id = 1", "SELECT dbanon.publish(1, 'x')"),
                (
                    "UPDATE dbanon.run SET algorithm = 'traj-anon' WHERE run_id = 1;"
                    "INSERT INTO dbanon.trajectory (dataset_id, subject, path) SELECT 1, 'p10', path FROM dbanon.trajectory "
                    "WHERE trajectory_id = 103",
                    "SELECT dbanon.publish(1, 'x')",
                ),
                (
                    "DELETE FROM dbanon.membership WHERE run_id = 1 AND record_id = 1",
                    "SELECT dbanon.measure_overlap(1)",
                ),
                (
                    "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('all', 32610, 1, 60);"
                    "UPDATE dbanon.dataset SET sample_of = (SELECT max(dataset_id) FROM dbanon.dataset), tied_to = dbanon_internal.hold_lock() WHERE name = 'ten'",
                    "SELECT dbanon.publish(1, 'x')",
                ),
            ]
        ):
            own.execute(spoil)
            assert re.findall(r"CALL dbanon\.(\w+)\(\.\.\.\)", refuse(own, refused)) == ["anonymize"]
            own.execute("UPDATE dbanon.dataset SET sample_of = NULL, tied_to = NULL")
            own.execute(CALL % f", publish_as => 'again_{number}', allow_overlap => true, {REASON}")
    assert own.execute("SELECT count(*) FROM dbanon.releases WHERE live").fetchone() == (5,)


@tries("It goes on if you stop waiting")
def test_a_run_that_is_waited_for_is_cancelled_as_proposed(own: psycopg.Connection, other: psycopg.Connection) -> None:
    other.execute("SELECT dbanon_internal.register_worker('nobody')")
    other.commit()

    def cancel(told: psycopg.errors.Diagnostic) -> None:
        for statement in re.findall(r"SELECT dbanon\.cancel_run\(\d+\)", read_words(told)):
            other.execute(statement)
            other.commit()

    own.add_notice_handler(cancel)
    refuse(own, CALL % "")
    assert other.execute("SELECT status FROM dbanon.runs WHERE run_id = 2").fetchone() == ("cancelled",)


@tries("give each CALL a separate -c", "In psql, \\\\set AUTOCOMMIT on. Do not")
@pytest.mark.parametrize(
    ("call", "submit"),
    [(CALL % "", "SELECT dbanon.submit_run('ten', 'tp-aware', '{\"k\": 5}')"), ("CALL dbanon.run_jobs(wait => false)", "")],
)  # fmt: skip
def test_the_transaction_is_ended_before_a_call_as_proposed(own: psycopg.Connection, call: str, submit: str) -> None:
    own.execute("BEGIN")
    with pytest.raises(psycopg.Error) as caught, own.transaction():
        own.execute(call)
    words = read_words(caught.value.diag)
    assert [*submit.split("(")[:1]] == (re.findall(r"(SELECT dbanon\.submit_run)\(\.\.\.\)", words) or [""])
    if submit:
        own.execute(submit)
    [end] = re.findall("COMMIT(?= first)", words)
    own.execute(end)
    own.execute("SELECT dbanon_internal.register_worker('nobody')")
    own.execute("SET statement_timeout = '1s'")
    if submit:  # a run that nobody takes is waited for
        refuse(own, call, "57014")
    else:
        own.execute(call)


# ---- publications ----------------------------------------------------------------------------------------------------


@tries("Publish a run of another method: SELECT")
def test_the_methods_that_can_be_published_are_listed_as_proposed(own: psycopg.Connection) -> None:
    change_methods(
        own, "UPDATE dbanon.method SET traits = traits || '{\"hidden_by\": \"weather\"}' WHERE name = 'tp-aware'"
    )
    [query] = find_statements(refuse(own, "SELECT dbanon.publish(1, 'ten')"), "SELECT")
    assert own.execute(query).fetchall()


@tries("Publish the very same groups again")
def test_what_comes_near_a_release_is_published_otherwise_as_proposed(own: psycopg.Connection) -> None:
    own.execute("SELECT dbanon.publish(1, 'ten')")
    halves = write_verified(own, Release(2, HALVES))
    accept_overlap(own, f"SELECT dbanon.publish({halves}, 'halves')")
    own.execute("SELECT dbanon.publish(%s, 'same')", [parts.run_of(own, 0, since=None, until=None)])
    own.execute("SELECT dbanon.publish(%s, 'later')", [parts.run_of(own, 3)])


@tries("Say how long they stay when you append")
def test_it_is_said_how_long_people_stay_as_proposed(own: psycopg.Connection) -> None:
    own.execute("UPDATE dbanon.dataset SET settle_s = 0")
    words = accept_overlap(own, f"SELECT dbanon.publish({write_snapshot(own, LOW)}, 'places')")
    own.execute(
        "CREATE VIEW public.more AS SELECT 'p1' AS subject, timestamptz '2009-01-01Z' AS time, ST_SetSRID(ST_MakePoint(-121.5, 37), 4326) AS geom;"
        "SELECT dbanon.import_trajectories('public.more', 'ten', mode => 'append', "
        f"settle_s => {find_arguments(words)['settle_s']})"
    )
    own.execute("SELECT dbanon.publish(%s, 'places')", [write_snapshot(own, LOW)])


@tries("That one grows: publish the run as a part", "Run it for another time, or withdraw that part first")
def test_a_part_is_published_or_withdrawn_first_as_proposed(own: psycopg.Connection) -> None:
    parts.publish_part(own, parts.run_of(own, 0))
    words = refuse(own, f"SELECT dbanon.publish({parts.run_of(own, 1)}, 'ten')")
    own.execute(f"SELECT dbanon.publish(3, 'ten', grow => {find_arguments(words)['grow']})")
    again = f"SELECT dbanon.publish({parts.run_of(own, 1)}, 'ten', grow => true)"
    [withdraw] = find_statements(refuse(own, again), "SELECT")
    own.execute(withdraw)
    own.execute(again)


@tries("Withdraw a part with SELECT dbanon.unpublish_part", "List the parts: SELECT bounds FROM dbanon.releases")
def test_a_part_is_listed_and_withdrawn_as_proposed(own: psycopg.Connection) -> None:
    for number in (0, 1):
        parts.publish_part(own, parts.run_of(own, number))
    own.execute("SELECT dbanon.fold_release('ten', '2008-07-01Z')")
    [(table,)] = own.execute("SELECT DISTINCT relation::text FROM dbanon_internal.list_series_tables(1)").fetchall()
    [withdraw] = re.findall(r"SELECT dbanon\.\w+\(\.\.\.\)", refuse(own, f"DELETE FROM {table}"))
    [query] = find_statements(refuse(own, withdraw.replace("...", "'ten', '1999-01-01Z'")), "SELECT")
    [first, second] = own.execute(query).fetchall()
    own.execute(withdraw.replace("...", "'ten', %s"), [first[0].lower])
    assert own.execute(query).fetchall() == [second]


@tries(
    "Choose another, or drop that one. If it is a withdrawn release", "The next publication or withdrawal tries again"
)
def test_a_name_in_schema_published_becomes_free_as_proposed(
    own: psycopg.Connection, other: psycopg.Connection, said: list[str]
) -> None:
    own.execute("CREATE VIEW published.ten AS SELECT 1 AS one")
    assert "drop that one" in refuse(own, "SELECT dbanon.publish(1, 'ten')")
    own.execute("DROP VIEW published.ten")
    own.execute("SELECT dbanon.publish(1, 'ten')")
    other.execute("SELECT FROM published.ten")
    [unpublish] = find_statements(refuse(own, "SELECT dbanon.unpublish('ten')"), "SELECT")
    own.execute(unpublish)
    [clear] = find_statements(said[-1].partition("tries again, or ")[2], "SELECT")
    assert clear in refuse(own, "SELECT dbanon.publish(1, 'ten')")
    said.clear()
    own.execute(clear)
    assert "in use by" in said[-1]
    other.rollback()
    own.execute(clear)
    assert own.execute("SELECT to_regclass('published.ten')").fetchone() == (None,)
    own.execute("SELECT dbanon.publish(1, 'ten')")


@tries("Try again when its transaction has ended: SELECT")
@pytest.mark.parametrize("table", ["population", "run"])
def test_the_transaction_in_the_way_of_a_publication_is_found_as_proposed(
    own: psycopg.Connection, other: psycopg.Connection, table: str
) -> None:
    own.execute("ALTER FUNCTION dbanon.publish SET lock_timeout = '100ms'")
    other.execute(f"SELECT FROM dbanon.{table} FOR UPDATE")
    [query] = find_statements(refuse(own, "SELECT dbanon.publish(1, 'ten')"), "SELECT")
    found = own.execute(query.replace("*", "pid")).fetchall()
    assert (other.info.backend_pid,) in found
    other.rollback()
    own.execute("SELECT dbanon.publish(1, 'ten')")


@tries("made with this person's data and unchanged")
def test_releases_with_a_forgotten_person_are_withdrawn_as_proposed(own: psycopg.Connection, said: list[str]) -> None:
    own.execute("SELECT dbanon.publish(1, 'ten')")
    parts.publish_part(own, parts.run_of(own, 3), "grown")
    own.execute("SELECT dbanon.forget_subject('ten', 'p7')")
    [notice] = [text for text in said if "withdraw them" in text]
    for statement in re.findall(r"SELECT dbanon\.unpublish\w*\([^)]*\)", notice):
        own.execute(statement)
    assert own.execute("SELECT count(*) FROM dbanon.releases WHERE live").fetchone() == (0,)


# ---- another server --------------------------------------------------------------------------------------------------


@tries(
    "As a superuser: GRANT EXECUTE ON FUNCTION pg_control_system(), pg_control_checkpoint()",
    "Nothing can be published before role @admin@ can read",
)
@pytest.mark.parametrize("by_upgrade", [False, True])
def test_the_right_to_read_which_server_this_is_is_granted_as_proposed(
    own: psycopg.Connection, dbanon_server: "Target", by_upgrade: bool
) -> None:
    own.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    words = refuse(own, "SELECT dbanon.publish(1, 'ten')")
    if by_upgrade:
        told: list[str] = []
        schema.upgrade(find_url(own, dbanon_server), share_roles=True, say=told.append)
        [query] = [quoted for text in told for quoted in find_quoted(text) if "dbanon.health" in quoted]
        words = str(own.execute(query.replace("*", "remedy")).fetchone())
    [grant] = re.findall(r"GRANT EXECUTE ON FUNCTION [\w(), ]+ TO \w+", words)
    own.execute(grant)
    own.execute("SELECT dbanon.publish(1, 'ten')")


@tries('Look for "dbanon: published" in the log', "List the publications since then. If there are none: SELECT")
@pytest.mark.parametrize("by_health", [False, True])
def test_the_history_of_a_copy_is_confirmed_as_proposed(
    own: psycopg.Connection, dbanon_server: "Target", by_health: bool
) -> None:
    own.execute("SELECT dbanon.publish(1, 'ten')")
    name = own.info.dbname
    own.close()
    with cloned_database(dbanon_server, name) as url, psycopg.connect(url, autocommit=True) as copy:
        words = refuse(copy, "SELECT dbanon.publish(1, 'again')")
        if by_health:
            words = str(copy.execute("SELECT string_agg(remedy, '') FROM dbanon.health").fetchone())
        [statement] = re.findall(r"SELECT dbanon\.confirm_history\('\[\]', '[^']*'\)", words)
        copy.execute(statement)
        copy.execute("SELECT dbanon.publish(1, 'again')")


# ---- jobs ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def nina(own: psycopg.Connection, login: Callable[[str], str], dbanon_server: "Target") -> Iterator[psycopg.Connection]:
    """An operator of a database with the run, a source of three days and a job whose owner is gone."""
    nights.make_source(own)
    own.execute("CREATE ROLE gone_soon LOGIN IN ROLE dbanon_operator")
    nights.add(own, ", owner => 'gone_soon'")
    own.execute("DROP ROLE gone_soon")
    url = database_url(login("dbanon_operator"), dbname=own.info.dbname)
    with psycopg.connect(url, autocommit=True) as opened:
        yield opened


@tries("Call it as that login. If the role no longer exists", "Give it another: SELECT dbanon.add_job")
def test_a_job_without_an_owner_is_given_another_as_proposed(own: psycopg.Connection, nina: psycopg.Connection) -> None:
    words = refuse(nina, "SELECT dbanon.add_job('taxi', wait => '2 hours', replace => true)")
    assert re.findall(r"(\w+) => \.\.\.", words) == ["owner"]
    [(remedy,)] = own.execute("SELECT remedy FROM dbanon.health WHERE remedy LIKE 'Give it another%'").fetchall()
    change = remedy.partition(": ")[2].replace("(..., owner => ...", "('taxi', owner => session_user")
    nina.execute(change)
    assert own.execute("SELECT state FROM dbanon.jobs").fetchone() != ("orphaned",)


@tries("each minute: CALL dbanon.run_jobs()")
def test_a_job_that_no_session_runs_is_run_as_proposed(own: psycopg.Connection) -> None:
    nights.make_source(own)
    nights.add(own)
    own.execute("UPDATE dbanon.job SET created_at = '2009-01-01Z', looked_at = '2009-01-01Z'")
    [(remedy,)] = own.execute("SELECT remedy FROM dbanon.health WHERE remedy LIKE '%run_jobs%'").fetchall()
    own.execute("SET statement_timeout = '2s'")
    own.execute(re.findall("CALL .*", remedy)[0].replace("()", "(wait => false)"))
    assert own.execute("SELECT count(*) FROM dbanon.health WHERE remedy LIKE '%run_jobs%'").fetchone() == (0,)


@tries("List its periods: SELECT * FROM dbanon.job_runs")
def test_the_periods_of_a_job_are_listed_as_proposed(own: psycopg.Connection) -> None:
    nights.make_source(own)
    nights.add(own)
    query = "SELECT dbanon_internal.set_period(1, '[1999-01-01Z,1999-01-02Z)', '{\"state\": \"load\"}')"
    [listed] = find_statements(refuse(own, query), "SELECT")
    nights.take_step(own)
    assert len(own.execute(listed).fetchall()) == 1


@tries("Skip it: SELECT dbanon.steer_job")
def test_a_period_whose_data_were_forgotten_is_skipped_as_proposed(own: psycopg.Connection) -> None:
    nights.make_source(own)
    nights.add(own)
    assert nights.run_night(own) == "done"
    own.execute("SELECT dbanon.forget_before('taxi', %s)", [nights.find_day(1.5)])
    assert nights.take_step(own) == "held"
    [skip] = find_statements(str(nights.list_periods(own, "error")[-1]), "SELECT")
    own.execute(skip)
    assert nights.list_periods(own, "state")[-1] == "skipped"


@tries("Withdraw it, and try again: SELECT dbanon.unpublish")
def test_a_release_with_the_name_of_a_job_is_withdrawn_and_the_period_tried_again_as_proposed(
    own: psycopg.Connection,
) -> None:
    nights.make_source(own)
    nights.add(own)
    own.execute("SELECT dbanon.publish(1, 'taxi')")
    assert nights.run_night(own) == "held"
    for statement in re.findall(r"SELECT dbanon\.\w+\([^)]*\)", str(nights.list_periods(own, "error")[-1])):
        own.execute(statement)
    assert nights.run_night(own) == "done"


# ---- questions -------------------------------------------------------------------------------------------------------

ALL = "'[2008-06-04 07:00Z,2008-06-04 09:00Z)'"


@tries("ST_SetSRID names the coordinate system", "ST_MakeLine makes a line of two points")
def test_areas_and_lines_are_made_as_proposed(own: psycopg.Connection) -> None:
    own.execute("SELECT dbanon.publish(1, 'ten')")
    asked = f"{COUNT_INSIDE}('published.ten', %s, during => {ALL})"
    wrong = [
        "ST_MakeEnvelope(0, 0, 9, 9)", "ST_GeomFromText('POLYGON((0 0,9 9,9 0,0 9,0 0))', 32610)",
        "ST_SetSRID(ST_MakePoint(5, 5), 32610)",
    ]  # fmt: skip
    for area, more in zip(wrong, [", 32610", "", ", 9"], strict=True):
        functions = re.findall(r"ST_\w+", refuse(own, asked % area))
        assert len(functions) == 3
        assert own.execute(asked % f"{functions[wrong.index(area)]}({area}{more})").fetchone()
    asked = f"SELECT * FROM published.crossings('published.ten', %s, {ALL})"
    box, point = "ST_MakeEnvelope(0, 0, 9, 9, 32610)", wrong[2]
    line, boundary = re.findall(r"ST_\w+", refuse(own, asked % box))
    own.execute(asked % f"{boundary}({box})")
    refuse(own, asked % point)
    own.execute(asked % f"{line}({point}, ST_SetSRID(ST_MakePoint(9, 9), 32610))")


@tries("List its parts: SELECT since, until", "List the releases that have them: SELECT name FROM published.columns")
def test_the_parts_and_columns_that_answer_are_listed_as_proposed(own: psycopg.Connection) -> None:
    for number in (0, 3):
        parts.publish_part(own, parts.run_of(own, number))
    box = "ST_MakeEnvelope(0, 0, 9, 9, 32610)"
    asked = f"{COUNT_INSIDE}('published.ten', {box}, '%s')"
    [query] = find_statements(refuse(own, asked % "2008-06-05 20:00Z"), "SELECT")
    [(since, _), _] = own.execute(query).fetchall()
    assert own.execute(asked % since).fetchone()
    own.execute("SELECT dbanon.publish(%s, 'places')", [write_snapshot(own, LOW, at_s=86400 * 30)])
    asked = f"SELECT * FROM published.requests_inside('published.%s', {box}, {ALL})"
    there = asked.replace(ALL, "'[2008-07-04 08:00Z,2008-07-04 08:00:01Z)'") % "places"
    [query] = find_statements(refuse(own, there), "SELECT")
    assert own.execute(query).fetchall() == [("ten",)]
    assert own.execute(asked % "ten").fetchall()
