"""Locks and channels of the queue against a login that sees all locks of the server from another database."""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from dbanon.options.publishing import Submitting
from dbanon.postgres.connection import connect
from dbanon.runs import queue
from dbanon.testing import database_url
from tests.reading import read_value

from .test_queue import open_worker, read_run
from .test_queue_edges import claim_test_run, submit_test_run

Login = Callable[[str], str]

KEYS = """SELECT DISTINCT (l.classid::bigint << 32) | l.objid::bigint
    FROM pg_locks l JOIN pg_database d ON d.oid = l.database
    WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND d.datname = %s AND l.pid <> ALL (%s)"""


class Thief:
    """An analyst who reads the server's locks in the database postgres, and takes them in dbanon's."""

    def __init__(self, url: str) -> None:
        self.here = psycopg.connect(url, autocommit=True)
        self.elsewhere = psycopg.connect(database_url(url, dbname="postgres"), autocommit=True)
        self.pid = self.here.info.backend_pid

    def sees(self) -> list[int]:
        found = self.elsewhere.execute(KEYS, [self.here.info.dbname, [self.pid]]).fetchall()
        return [key for (key,) in found]

    def take(self, keys: list[int]) -> None:
        for key in keys:
            assert read_value(self.here, "SELECT pg_try_advisory_lock(%s)", key) is True


@pytest.fixture
def thief(login: Login) -> Iterator[Thief]:
    made = Thief(login("dbanon_analyst"))
    yield made
    made.here.close()
    made.elsewhere.close()


def test_the_keys_of_a_dead_worker_are_worth_nothing(
    connection: psycopg.Connection, database: str, run: int, login: Login, thief: Thief
) -> None:
    taken = submit_test_run(connection)
    with open_worker(connection, login("dbanon_worker")) as dying:
        queue.register_worker(dying, "host 1")
        claim_test_run(dying, taken)
        keys = thief.sees()
        assert len(keys) == 2
    thief.take(keys)
    for address in ("dbanon_operator", "dbanon_worker"):
        with connect(login(address)) as other:
            assert read_run(other, taken, "status, progress, worker") == ("queued", "waiting for a worker", None)
            assert not queue.has_worker(other)
    assert queue.reap_runs(connection) == 1
    assert read_value(connection, "SELECT count(*) FROM dbanon.worker") == 0
    with connect(login("dbanon_worker")) as second:
        assert claim_test_run(second, taken).attempt == 2
        assert read_run(connection, taken, "status") == ("running",)


def test_who_holds_the_key_of_a_run_in_the_queue_keeps_nobody_from_it(
    connection: psycopg.Connection, run: int, login: Login, thief: Thief
) -> None:
    waiting = submit_test_run(connection)
    with connect(login("dbanon_worker")) as first:
        first.execute("SET statement_timeout = '10s'")
        claim = claim_test_run(first, waiting)
        (key,) = thief.sees()
        assert key == claim.lock_key
        queue.requeue_run(first, claim)
        queue.unlock(first, claim)
        thief.take([key])
        again = claim_test_run(first, waiting)
        assert again.lock_key != key
        assert queue.reap_runs(connection) == 0


def test_a_process_number_that_was_given_out_anew_is_another_session(
    connection: psycopg.Connection, database: str, run: int, login: Login, thief: Thief
) -> None:
    with connect(database) as holder:
        claim = claim_test_run(holder, submit_test_run(connection))
        held = "SELECT dbanon_internal.is_held(held_by) FROM dbanon.run WHERE run_id = %s"
        assert read_value(connection, held, claim.run_id) is True
        queue.unlock(holder, claim)
        thief.take([claim.lock_key])
        connection.execute("UPDATE dbanon.run SET held_by.pid = %s WHERE run_id = %s", [thief.pid, claim.run_id])
        assert read_value(connection, held, claim.run_id) is False
        with connect(login("dbanon_operator")) as other:  # may not see when others' sessions began
            assert read_value(other, held, claim.run_id) is False
        thief.here.execute("SELECT pg_advisory_unlock_all()")
        holder.execute("SELECT pg_advisory_lock(%s)", [claim.lock_key])
        back = "UPDATE dbanon.run SET held_by.pid = %s, held_by.started_at = {} WHERE run_id = %s"
        for start, same in (("(held_by).started_at", True), ("NULL", True), ("now()", False)):
            connection.execute(back.format(start), [holder.info.backend_pid, claim.run_id])
            assert read_value(connection, held, claim.run_id) is same
        with connect(login("dbanon_operator")) as other:
            assert read_value(other, held, claim.run_id) is True


def test_a_lock_of_the_same_key_in_another_database_does_not_count(
    connection: psycopg.Connection, database: str
) -> None:
    with psycopg.connect(database_url(database, dbname="postgres"), autocommit=True) as elsewhere:
        held = """SELECT dbanon_internal.is_held((7, pid, usesysid, backend_start)::dbanon.session)
            FROM pg_stat_activity WHERE pid = %s"""
        elsewhere.execute("SELECT pg_advisory_lock(7)")
        assert read_value(connection, held, elsewhere.info.backend_pid) is False
        connection.execute("SELECT pg_advisory_lock(7)")
        assert read_value(connection, held, connection.info.backend_pid) is True


def test_a_worker_that_came_during_a_transaction_is_seen_in_it(
    connection: psycopg.Connection, database: str, run: int
) -> None:
    """Whoever has looked at the sessions before is shown the same ones until the transaction ends."""
    waiting = submit_test_run(connection)
    with psycopg.connect(database) as earlier:
        earlier.execute("SELECT count(*) FROM pg_stat_activity")
        with connect(database) as holder:
            claim = claim_test_run(holder, waiting)
            assert read_value(earlier, "SELECT dbanon_internal.reap_runs()") == 0
            assert read_run(earlier, claim.run_id) == ("running", "starting")


def test_nobody_can_read_or_infer_the_channel_of_a_worker(
    connection: psycopg.Connection, run: int, login: Login, thief: Thief
) -> None:
    with connect(login("dbanon_worker")) as up, connect(login("dbanon_worker")) as second:
        channel = queue.register_worker(up, "host 1")
        up.execute(f"LISTEN {channel}")
        for key in thief.sees():
            thief.here.execute(f'LISTEN "dbanon_{key}"')
        with connect(login("dbanon_operator")) as operator:
            for curious in (operator, second, thief.here):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    curious.execute("SELECT channel FROM dbanon.worker")
            queue.submit_run(operator, "tp-aware", Submitting(dataset="ten", params={"k": 5}))
        assert [notify.channel for notify in up.notifies(timeout=5, stop_after=1)] == [channel]
        assert list(thief.here.notifies(timeout=0.1)) == []
        read = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE %s"
        assert read_value(thief.elsewhere, read, f"%{channel[:20]}%") == 0


def test_on_a_server_that_only_reads_runs_are_listed_and_not_reaped(
    connection: psycopg.Connection, database: str, run: int
) -> None:
    waiting = submit_test_run(connection)
    with open_worker(connection, database) as dying:
        claim_test_run(dying, waiting)
    connection.execute("SET default_transaction_read_only = on")
    assert queue.reap_runs(connection) == 0
    assert read_run(connection, waiting, "status") == ("queued",)
    connection.execute("SET default_transaction_read_only = off")
    assert queue.reap_runs(connection) == 1
