"""Two things at once around the end of a run: nobody waits for the wrong one, and each is told what became of it."""

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from dbanon.base.errors import StoreError
from dbanon.base.progress import report_nothing
from dbanon.database import open_database
from dbanon.postgres.connection import connect
from dbanon.runs import pipeline, queue, stored
from dbanon.runs.watch import Watch
from tests.facts import demand_named, expect_refusal
from tests.looks import count_looks, look_on
from tests.reading import read_value

from .test_queue import add_rows, open_worker, read_run
from .test_queue_edges import claim_test_run, submit_test_run


@pytest.fixture
def connection(connection: psycopg.Connection) -> psycopg.Connection:
    """Whoever has to wait here waits in vain."""
    connection.execute("SET statement_timeout = '10s'")
    return connection


@pytest.fixture
def dead(connection: psycopg.Connection, database: str, run: int) -> int:
    """A run whose own command went away: nobody begins it again."""
    with open_worker(connection, database) as session:
        with session.transaction():
            run_id = submit_test_run(session)
            assert queue.claim_run(session, "gone", run_id) is not None
        add_rows(session, run_id)
    return run_id


@pytest.fixture
def held_open(database: str) -> Iterator[psycopg.Connection]:
    """A session in a transaction that nobody ends, as psql's with AUTOCOMMIT off."""
    with psycopg.connect(database) as opened:
        yield opened
        opened.rollback()


def test_a_run_that_died_unnoticed_can_be_dropped(connection: psycopg.Connection, dead: int) -> None:
    assert read_run(connection, dead) == ("failed", None)
    assert read_value(connection, "SELECT dbanon.drop_run(%s)", dead) == 0  # its rows went with its worker


def test_a_run_that_died_unnoticed_keeps_nobody_from_being_forgotten(connection: psycopg.Connection, dead: int) -> None:
    connection.execute("SELECT dbanon.forget_subject('ten', 'p3')")
    assert read_run(connection, dead) == ("failed", None)


def test_who_asks_in_an_open_transaction_keeps_no_worker_waiting(
    connection: psycopg.Connection, database: str, held_open: psycopg.Connection, dead: int
) -> None:
    alive = submit_test_run(connection)
    claim = claim_test_run(connection, alive)
    with open_worker(connection, database) as gone:
        queue.register_worker(gone, "gone")
    held_open.execute("SELECT dbanon_internal.reap_runs()")
    held_open.execute("SELECT dbanon.verify_run(1)")
    assert queue.watch_run(connection, claim, "computing", 1, 2) == "go on"
    queue.set_status(connection, claim, "running")
    assert queue.reap_runs(connection) == 0
    with connect(database) as other:
        other.execute("SET statement_timeout = '10s'")
        assert queue.cancel_run(other, alive) == "being cancelled"


def test_a_run_that_somebody_reaps_in_an_open_transaction_is_shown_as_dead(
    connection: psycopg.Connection, held_open: psycopg.Connection, dead: int
) -> None:
    held_open.execute("SELECT dbanon_internal.reap_runs()")
    assert read_run(connection, dead) == ("failed", None)


def test_a_run_that_was_cancelled_does_not_go_back_to_the_queue(connection: psycopg.Connection, run: int) -> None:
    waiting = submit_test_run(connection)
    claim = claim_test_run(connection, waiting)
    queue.cancel_run(connection, waiting)
    queue.requeue_run(connection, claim)
    status, progress, error, user = read_run(connection, waiting, "status, progress, error, session_user::text")
    assert (status, progress) == ("cancelled", None)
    demand_named(error, "run", user, "cancelled")


def test_nobody_is_forgotten_on_an_old_snapshot(held_open: psycopg.Connection, run: int) -> None:
    held_open.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with expect_refusal("DA015", "erased", "read committed", "repeatable read"):
        held_open.execute("SELECT dbanon.forget_subject('ten', 'p3')")


def test_a_verification_that_was_cancelled_is_no_verdict(connection: psycopg.Connection, run: int) -> None:
    before = stored.find_last_verification(connection, run)
    assert before > 0
    queue.ask_verification(connection, run)
    assert queue.cancel_run(connection, run) == "verified"
    with expect_refusal(queue.CancelledError, "run", "cancelled"):
        stored.read_result(connection, run, after=before)
    assert stored.read_result(connection, run).status == "verified"


def test_a_verification_that_died_is_no_verdict(connection: psycopg.Connection, run: int) -> None:
    queue.ask_verification(connection, run)
    connection.execute("UPDATE dbanon.run SET todo = NULL")
    with expect_refusal(StoreError, f"run {run}", f"`dbanon verify {run}`"):
        stored.read_result(connection, run, after=stored.find_last_verification(connection, run))


def test_who_waits_and_loses_the_connection_is_told_that_the_run_goes_on(
    connection: psycopg.Connection, database: str, run: int
) -> None:
    waiting = submit_test_run(connection)
    with open_database(database) as opened:

        def lose(stage: str, done: int, total: int | None) -> None:
            connection.execute("SELECT pg_terminate_backend(%s)", [opened.connection.info.backend_pid])

        with expect_refusal(StoreError, f"run {waiting}", "connection", "lost", "goes on"):
            opened.progress = lose
            opened.wait(waiting)
    assert read_run(connection, waiting, "status") == ("queued",)


def test_another_verification_asked_for_at_the_end_disturbs_nobody(
    connection: psycopg.Connection, database: str, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending, looks = pipeline._Run._make_result, count_looks(monkeypatch)

    def late(self: pipeline._Run, *verdict: Any, **known: Any) -> stored.RunResult:
        queue.ask_verification(connection, self.claim.run_id)
        look_on(looks)
        return ending(self, *verdict, **known)

    monkeypatch.setattr(pipeline._Run, "_make_result", late)
    with open_database(database) as opened:
        assert opened.run("tp-aware", dataset="ten", params={"k": 5}, publish="mine").release == "mine"


def test_nobody_publishes_a_run_between_its_refusal_and_the_reason(
    connection: psycopg.Connection, database: str, monkeypatch: pytest.MonkeyPatch, run: int
) -> None:
    waited: list[str | None] = []

    def refusal(self: pipeline._Run, verdict: object) -> str:
        connection.execute("SET lock_timeout = '50ms'")
        with pytest.raises(psycopg.Error) as caught:
            connection.execute("UPDATE dbanon.run SET status = status WHERE run_id = %s", [self.claim.run_id])
        waited.append(caught.value.sqlstate)
        return "Refused."

    monkeypatch.setattr(pipeline._Run, "_describe_refusal", refusal)
    monkeypatch.setattr(pipeline._Run, "_judge", lambda *_: stored.Found(REFUSED, bytes(32)))
    with open_database(database) as opened:
        assert opened.verify(run).status == "refused"
    assert waited == ["55P03"]


REFUSED = pipeline.Verdict(attack="tp-aware", passed=False, figures={}, clauses=())


def test_a_watch_that_is_interrupted_at_its_end_gives_nothing_up(
    connection: psycopg.Connection, database: str, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Watch) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Watch, "settle", interrupted)
    given_up = threading.Event()
    claim = claim_test_run(connection, submit_test_run(connection))
    with connect(database) as holder:
        watch = Watch(holder, claim, report_nothing, give_up=given_up.set)
        with pytest.raises(KeyboardInterrupt), watch:
            pass
        assert watch._over.is_set()
        watch._thread.join(5)
    assert not given_up.is_set()
