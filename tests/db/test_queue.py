"""The queue of runs in SQL: who submits, takes, watches, cancels, and what becomes of the runs of the dead."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from dbanon.base.errors import ParameterError, StoreError
from dbanon.options.publishing import Submitting
from dbanon.postgres.connection import connect, translate_errors
from dbanon.runs import queue, stored
from tests.facts import demand_named, expect_refusal

LOST = ("lock", "run 2", "lost")


@pytest.fixture
def waiting(connection: psycopg.Connection, run: int) -> int:
    """A run that waits, beside a verified one."""
    return queue.submit_run(connection, "tp-aware", Submitting(dataset="ten", params={"k": 5}))


@pytest.fixture
def other(database: str) -> Iterator[psycopg.Connection]:
    with connect(database) as opened:
        yield opened


@contextmanager
def open_worker(connection: psycopg.Connection, database: str) -> Iterator[psycopg.Connection]:
    """A session that goes away: the server lets its locks go a moment after the client has closed it."""
    with connect(database) as opened:
        pid = opened.info.backend_pid
        yield opened
    alive = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
    while connection.execute(alive, [pid]).fetchone() != (0,):
        time.sleep(0.005)


def read_run(
    connection: psycopg.Connection, run_id: int, columns: str = "status, progress"
) -> tuple[object, ...] | None:
    return connection.execute(f"SELECT {columns} FROM dbanon.runs WHERE run_id = %s", [run_id]).fetchone()


def count_rows(connection: psycopg.Connection, run_id: int) -> int:
    counted = connection.execute(
        "SELECT (SELECT count(*) FROM dbanon.cloak WHERE run_id = %(r)s)"
        " + (SELECT count(*) FROM dbanon.membership WHERE run_id = %(r)s)",
        {"r": run_id},
    ).fetchone()
    return counted[0] if counted else -1


def add_rows(connection: psycopg.Connection, run_id: int) -> None:
    connection.execute(
        "INSERT INTO dbanon.cloak SELECT %s, record_id, seq, period, region, crowd, subjects, extra"
        " FROM dbanon.cloak WHERE run_id = 1",
        [run_id],
    )


def test_a_submission_waits_with_all_its_parameters_and_a_seed(connection: psycopg.Connection, waiting: int) -> None:
    assert read_run(connection, waiting) == ("queued", "waiting for a worker")
    row = stored.find_run(connection, waiting)
    assert (row.params["k"], row.params["instants"], row.params["cloak"]) == (5, 30, "mbr")
    assert row.seed is not None
    assert 0 <= row.seed < 2**63
    assert read_run(connection, waiting, "submitted_by = session_user, rows, worker") == (True, None, None)


def test_what_cannot_run_is_not_queued(connection: psycopg.Connection, run: int) -> None:
    for arguments, facts in (
        (("tem", "tp-aware", None, {}, None), ("'tem'", "'ten'")),
        (("ten", "tp-awar", None, {}, None), ("'tp-awar'", "'tp-aware'")),
        (("ten", "tp-aware", "no", {}, None), ("algorithm of tp-aware", "'no'")),
        (("ten", "tp-aware", None, {"k": 1}, None), ("'k'", ">= 2", 1)),
        (("ten", "tp-aware", None, {}, -1), ("seed", ">= 0", -1)),
    ):
        dataset, method, algorithm, params, seed = arguments
        with expect_refusal(ParameterError, *facts), translate_errors():
            queue.submit_run(
                connection, method, Submitting(dataset=dataset, algorithm=algorithm, params=params, seed=seed)
            )
    assert connection.execute("SELECT count(*) FROM dbanon.run").fetchone() == (1,)


def test_two_workers_never_take_the_same_run(
    connection: psycopg.Connection, other: psycopg.Connection, waiting: int
) -> None:
    second = queue.submit_run(connection, "tp-aware", Submitting(dataset="ten", seed=1))
    with connection.transaction():
        first = queue.claim_run(connection, "a")
        assert first is not None
        taken = queue.claim_run(other, "b")  # while the first has not committed
    assert taken is not None
    assert (first.run_id, first.attempt, first.todo, taken.run_id) == (waiting, 1, "compute", second)
    assert queue.claim_run(other, "b") is None
    assert read_run(connection, waiting, "status, progress, worker") == ("running", "starting", "a")


def test_progress_is_shown_and_does_not_wait_for_who_writes(
    connection: psycopg.Connection, other: psycopg.Connection, waiting: int
) -> None:
    claim = queue.claim_run(connection, "a")
    assert claim is not None
    assert queue.watch_run(connection, claim, "writing cloaks", 25, 100) == "go on"
    assert read_run(connection, waiting) == ("running", "writing cloaks 25 %")
    with other.transaction():
        other.execute("SELECT FROM dbanon.run FOR SHARE")
        connection.execute("SET statement_timeout = '5s'")
        assert queue.watch_run(connection, claim, "writing cloaks", 50, 100) == "go on"
    assert read_run(connection, waiting) == ("running", "writing cloaks 25 %")


def test_a_waiting_run_is_cancelled_at_once_and_a_running_one_is_asked_to_end(
    connection: psycopg.Connection, other: psycopg.Connection, waiting: int
) -> None:
    second = queue.submit_run(connection, "tp-aware", Submitting(dataset="ten", seed=1))
    assert queue.cancel_run(connection, second) == "cancelled"
    status, error, user = read_run(connection, second, "status, error, session_user::text")
    assert status == "cancelled"
    demand_named(error, "run", user, "cancelled")
    claim = queue.claim_run(other, "a")
    assert claim is not None
    assert queue.cancel_run(connection, waiting) == "being cancelled"
    assert read_run(connection, waiting) == ("running", "being cancelled")
    assert queue.watch_run(other, claim, None, 0, None) == "cancel"
    with expect_refusal(StoreError, "cancel", "run 1", "verified"), translate_errors():
        queue.cancel_run(connection, 1)
    demand_named(
        catch_failure(connection, "SELECT dbanon.cancel_run(1)").message_hint or "", "SELECT dbanon.drop_run(1)"
    )
    with expect_refusal(ParameterError, "run 99"), translate_errors():
        queue.cancel_run(connection, 99)


@pytest.mark.parametrize(("cancelled", "status"), [(False, "queued"), (True, "cancelled")])
def test_a_run_whose_worker_went_away_is_begun_again_or_cancelled(
    connection: psycopg.Connection, database: str, waiting: int, cancelled: bool, status: str
) -> None:
    with open_worker(connection, database) as session:
        claim = queue.claim_run(session, "a")
        assert claim is not None
        add_rows(connection, waiting)
        assert queue.reap_runs(connection) == 0
        if cancelled:
            queue.cancel_run(connection, waiting)
    assert read_run(connection, waiting, "status, worker") == (status, None)  # before anybody has reaped it
    assert queue.reap_runs(connection) == 1
    assert (count_rows(connection, waiting), read_run(connection, waiting, "status, worker")) == (0, (status, None))
    with expect_refusal(StoreError, *LOST):
        queue.set_status(connection, claim, "verified")


def test_after_three_attempts_a_run_is_failed(connection: psycopg.Connection, database: str, waiting: int) -> None:
    for attempt in (1, 2, 3):
        with open_worker(connection, database) as session:
            claim = queue.claim_run(session, "a")
            assert claim is not None
            assert claim.attempt == attempt
        queue.reap_runs(connection)
    status, progress, error = read_run(connection, waiting, "status, progress, error")
    assert (status, progress) == ("failed", None)
    demand_named(error, "process", "start another run")
    assert queue.claim_run(connection, "a") is None


def test_a_run_that_its_own_command_took_is_failed_at_once(
    connection: psycopg.Connection, database: str, waiting: int
) -> None:
    with open_worker(connection, database) as session:
        assert queue.claim_run(session, "a", waiting) is not None
    assert read_run(connection, waiting, "status") == ("failed",)
    queue.reap_runs(connection)
    assert read_run(connection, waiting, "status") == ("failed",)


def test_a_worker_that_lost_its_lock_writes_nothing(
    connection: psycopg.Connection, database: str, other: psycopg.Connection, waiting: int
) -> None:
    with open_worker(connection, database) as session:
        stale = queue.claim_run(session, "a")
    queue.reap_runs(connection)
    fresh = queue.claim_run(other, "b")
    assert stale is not None
    assert fresh is not None
    assert queue.watch_run(connection, stale, "x", 1, 2) == "lost"
    for status in ("running", "computed", "verified", "failed", None):
        with expect_refusal(StoreError, *LOST):
            queue.set_status(connection, stale, status)
    queue.requeue_run(connection, stale)
    assert read_run(connection, waiting, "status, worker, progress") == ("running", "b", "starting")
    queue.set_status(other, fresh, "computed", rows=4)
    assert read_run(connection, waiting, "status, rows") == ("computed", 4)


def test_a_run_given_back_loses_no_attempt(connection: psycopg.Connection, waiting: int) -> None:
    for _ in range(5):
        claim = queue.claim_run(connection, "a")
        assert claim is not None
        add_rows(connection, waiting)
        queue.requeue_run(connection, claim)
        queue.unlock(connection, claim)
        assert count_rows(connection, waiting) == 0
    assert read_run(connection, waiting, "status, started_at") == ("queued", None)


def test_a_verification_is_queued_and_keeps_rows_and_status_whatever_happens(
    connection: psycopg.Connection, database: str, run: int
) -> None:
    queue.ask_verification(connection, run)
    with expect_refusal(StoreError, "run 1", "verified"), translate_errors():
        queue.ask_verification(connection, run)
    assert queue.cancel_run(connection, run) == "verified"
    queue.ask_verification(connection, run)
    before = count_rows(connection, run)
    for attempt in (1, 2, 3):
        with open_worker(connection, database) as session:
            claim = queue.claim_run(session, "a")
            assert claim is not None
            assert (claim.todo, claim.attempt) == ("verify", attempt)
        assert read_run(connection, run, "status") == ("verified",)
        queue.reap_runs(connection)
    assert queue.claim_run(connection, "a") is None
    assert count_rows(connection, run) == before
    status, progress, error = read_run(connection, run, "status, progress, error")
    assert (status, progress) == ("verified", None)
    demand_named(error, "last verification")


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_only_what_was_computed_is_verified(connection: psycopg.Connection, run: int, status: str) -> None:
    connection.execute("UPDATE dbanon.run SET status = %s", [status])
    with expect_refusal(ParameterError, "run 1", "computed", status), translate_errors():
        queue.ask_verification(connection, run)


def test_workers_are_woken_on_channels_of_their_own_and_forgotten_when_gone(
    connection: psycopg.Connection, database: str, run: int
) -> None:
    with open_worker(connection, database) as session:
        channel = queue.register_worker(session, "here 1")
        assert int(channel.removeprefix("dbanon_"), 16) > 2**90
        assert connection.execute("SELECT name, run_id FROM dbanon.workers").fetchall() == [("here 1", None)]
        session.execute(f'LISTEN "{channel}"')
        run_id = queue.submit_run(connection, "tp-aware", Submitting(dataset="ten", seed=1))
        (notify,) = session.notifies(timeout=5, stop_after=1)
        assert (notify.channel, notify.payload) == (channel, "")
        assert queue.claim_run(session, "here 1") is not None
        assert connection.execute("SELECT run_id FROM dbanon.workers").fetchall() == [(run_id,)]
    assert not queue.has_worker(connection)
    queue.reap_runs(connection)
    assert connection.execute("SELECT count(*) FROM dbanon.worker").fetchone() == (0,)


# ---- dbanon.anonymize ------------------------------------------------------------------------------------------------


CALL = "CALL dbanon.anonymize(dataset => 'ten', method => 'tp-aware', params => '{\"k\": 5}', publish_as => 'mine')"


def catch_failure(connection: psycopg.Connection, statement: str) -> psycopg.errors.Diagnostic:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(statement)
    return caught.value.diag


def test_without_a_worker_nothing_is_submitted(connection: psycopg.Connection, run: int) -> None:
    told = catch_failure(connection, CALL)
    assert told.sqlstate == "DA017"
    demand_named(told.message_primary or "", "worker", "none")
    demand_named(told.message_hint or "", "dbanon worker", "dbanon.submit_run")
    assert connection.execute("SELECT count(*) FROM dbanon.run").fetchone() == (1,)


def test_in_a_transaction_block_nothing_is_submitted(connection: psycopg.Connection, run: int) -> None:
    for begin, call in (("BEGIN", CALL), ("SELECT 1", "BEGIN; " + CALL)):  # in messages of their own, and in one
        connection.execute(begin)
        told = catch_failure(connection, call)
        connection.execute("ROLLBACK")
        assert told.sqlstate == "DA015"
        demand_named(told.message_hint or "", "COMMIT", "\\set AUTOCOMMIT on", "dbanon.submit_run")


@pytest.mark.parametrize("binary", [False, True])
def test_the_extended_protocol_is_no_transaction_block(connection: psycopg.Connection, run: int, binary: bool) -> None:
    with expect_refusal("DA017"):
        connection.execute("CALL dbanon.anonymize('ten', %s)", ["tp-aware"], binary=binary)


@pytest.mark.many
@pytest.mark.parametrize(
    ("changed", "state"),
    [
        (("'mine'", "'Mine'"), "DA002"),
        (("'mine'", "'taken'"), "DA003"),
        (("5}", "1}"), "DA011"),
        (("tp-aware", "tp-awar"), "DA011"),
        (("'ten'", "'tem'"), "DA001"),
        (("tp-aware'", "tp-aware', algorithm => 'unheard-of'"), "DA011"),
    ],
)
def test_what_would_fail_later_fails_first(
    connection: psycopg.Connection, database: str, run: int, changed: tuple[str, str], state: str
) -> None:
    connection.execute("SELECT dbanon.publish(1, 'taken')")
    with open_worker(connection, database) as session:
        queue.register_worker(session, "here 1")
        assert catch_failure(connection, CALL.replace(*changed)).sqlstate == state
    assert connection.execute("SELECT count(*) FROM dbanon.run").fetchone() == (1,)


def test_an_operator_submits_watches_and_cancels_and_a_worker_takes(
    connection: psycopg.Connection, run: int, login: Callable[[str], str]
) -> None:
    with connect(login("dbanon_operator")) as operator, connect(login("dbanon_worker")) as session:
        run_id = queue.submit_run(operator, "tp-aware", Submitting(dataset="ten", seed=1))
        claim = queue.claim_run(session, "w")
        assert claim is not None
        assert queue.watch_run(session, claim, "computing", 0, None) == "go on"
        assert read_run(operator, run_id) == ("running", "computing")
        assert queue.cancel_run(operator, run_id) == "being cancelled"
        for call in ("claim_run('me')", "watch_run(2, 1)", "requeue_run(2, 1)", "wake_workers()"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                operator.execute(f"SELECT dbanon_internal.{call}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            operator.execute("INSERT INTO dbanon.run (dataset_id, method, algorithm) VALUES (1, 'tp-aware', 'x')")
