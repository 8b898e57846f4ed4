"""What `dbanon check` says and ends with, and the figures that a worker shows."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import psycopg
import pytest

from dbanon.testing import database_url
from tests.acceptance.commands import Done, call, read_json
from tests.facts import demand_named

if TYPE_CHECKING:
    from dbanon.postgres.server import Target

SUBMIT = "SELECT dbanon.submit_run('ten', 'tp-aware', '{\"k\": 5}')"


@pytest.fixture
def check(own: psycopg.Connection, dbanon_server: "Target") -> Callable[[], Done]:
    """Run the command on the test's own database."""
    url = database_url(dbanon_server.url, dbname=own.info.dbname)
    return lambda: call(url, "check")


def list_found(connection: psycopg.Connection) -> list[tuple[int, str]]:
    return connection.execute("SELECT level, about FROM dbanon.health ORDER BY level").fetchall()


def test_nothing_is_wrong_where_nothing_waits(own: psycopg.Connection, check: Callable[[], Done]) -> None:
    assert list_found(own) == []
    done = check()
    assert (done.code, done.stdout.count("\n")) == (0, 1)


def test_a_run_that_waits_while_no_worker_is_up_is_held_up(own: psycopg.Connection, check: Callable[[], Done]) -> None:
    own.execute(SUBMIT)
    done = check()
    assert (done.code, done.stdout.count("\n")) == (2, 1)
    demand_named(done.stdout, "1 run", "dbanon worker")


def test_so_is_a_run_whose_worker_is_dead(own: psycopg.Connection, dbanon_server: "Target") -> None:
    own.execute(SUBMIT)
    with psycopg.connect(database_url(dbanon_server.url, dbname=own.info.dbname), autocommit=True) as holder:
        holder.execute("SELECT dbanon_internal.register_worker('w 1')")
        holder.execute("SELECT FROM dbanon_internal.claim_run('w 1')")
        assert list_found(own) == []
    while own.execute("SELECT count(*) FROM dbanon.workers").fetchone() != (0,):
        pass
    assert list_found(own) == [(2, "runs")]


def test_a_run_that_waits_for_an_hour_beside_a_worker_is_late(
    own: psycopg.Connection, check: Callable[[], Done]
) -> None:
    own.execute("SELECT dbanon_internal.register_worker('w 1')")
    own.execute(SUBMIT)
    assert check().code == 0
    own.execute("UPDATE dbanon.run SET created_at = now() - interval '61 min' WHERE run_id > 1")
    done = check()
    assert done.code == 1
    demand_named(done.stdout, "hour", "Start more of them")


def test_a_forked_history_is_held_up_and_one_that_cannot_be_told_cannot_be_told(
    own: psycopg.Connection, check: Callable[[], Done]
) -> None:
    own.execute("SELECT dbanon.publish(1, 'ten')")
    assert check().code == 0
    own.execute("UPDATE dbanon.installation SET published_from = 'server 1, database 2, timeline 3'")
    own.execute("SELECT dbanon_internal.write_mark(NULL)")
    own.execute(SUBMIT)
    done = check()
    assert (done.code, done.stdout.count("\n")) == (2, 2)
    demand_named(done.stdout, "confirm_history('[]', 'why that is certain')")
    own.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    done = check()
    assert done.code == 3
    demand_named(done.stdout, "pg_control_system()", "dbanon worker")


def test_the_worst_of_the_findings_decides_in_json_too(own: psycopg.Connection, dbanon_server: "Target") -> None:
    own.execute(SUBMIT)
    done = call(database_url(dbanon_server.url, dbname=own.info.dbname), "--json", "check")
    said = read_json(done)
    assert (done.code, said["level"]) == (2, 2)
    assert said["findings"][0].keys() == {"level", "about", "what", "since", "remedy"}


def test_what_cannot_be_asked_cannot_be_told(
    own: psycopg.Connection, dbanon_server: "Target", login: Callable[[str], str]
) -> None:
    done = call("postgresql://nobody@127.0.0.1:1/none", "check")
    assert (done.code, done.stdout.count("\n")) == (3, 1)
    reader = database_url(login("dbanon_analyst"), dbname=own.info.dbname)
    assert call(reader, "check").code == 3
    for role in ("dbanon_operator", "dbanon_worker"):
        assert call(database_url(login(role), dbname=own.info.dbname), "check").code == 0
    own.execute("UPDATE dbanon.alembic_version SET version_num = '0003'")
    assert call(database_url(dbanon_server.url, dbname=own.info.dbname), "check").code == 3


def test_figures_count_processes_and_runs_and_neither_rows_nor_people(own: psycopg.Connection) -> None:
    def figures() -> dict[tuple[str, str | None], float]:
        query = "SELECT name, coalesce(labels ->> 'status', labels ->> 'of'), value FROM dbanon_internal.list_vitals()"
        return {(name, label): value for name, label, value in own.execute(query)}

    states = ("queued", "running", "computed", "verified", "refused", "failed", "cancelled")
    before = figures()
    assert before == {
        ("workers", None): 0,
        ("runs_waiting", None): 0,
        ("history_forked", None): 0,
        **{("runs", state): float(state == "verified") for state in states},
    }
    own.execute("UPDATE dbanon.run SET finished_at = '2026-01-01Z'")
    own.execute("SELECT dbanon_internal.register_worker('w 1')")
    own.execute("SELECT dbanon.publish(1, 'ten')")
    own.execute(SUBMIT)
    after = figures()
    assert (after["workers", None], after["runs_waiting", None], after["runs", "queued"]) == (1, 1, 1)
    assert after["last_success_timestamp_seconds", "run"] == 1767225600
    assert after["last_success_timestamp_seconds", "publication"] > 1767225600
    own.execute("UPDATE dbanon.installation SET published_from = 'server 1, database 2, timeline 3'")
    own.execute("SELECT dbanon_internal.write_mark(NULL)")
    assert figures()["history_forked", None] == 1
    own.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    assert ("history_forked", None) not in figures()
