"""Further sessions of a snapshot: they see what it sees, and what ends one of them ends the reading."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from dbanon.base.errors import StoreError
from dbanon.base.progress import report_nothing
from dbanon.base.tasks import SERIAL_TASKS
from dbanon.database import open_database
from dbanon.options.reading import Reading
from dbanon.postgres import arrow, sqlstate
from dbanon.postgres.connection import connect
from dbanon.runs import _parallel_snapshots, _rows, pipeline, queue, reading, stored
from tests.facts import expect_refusal

OTHERS = (
    "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE query ~ 'pg_sleep' AND datname = current_database() AND pid <> pg_backend_pid() AND state = 'active'"
)
ASLEEP = OTHERS.replace(" FILTER (WHERE pg_terminate_backend(pid))", "")


def _find_pid(connection: psycopg.Connection, _: int) -> int:
    return connection.info.backend_pid


def _sleep(connection: psycopg.Connection, _: int) -> None:
    connection.execute("SELECT pg_catalog.pg_sleep(60)")


def _wait_until(connection: psycopg.Connection, query: str, value: int) -> None:
    began = time.monotonic()
    while connection.execute(query).fetchone() != (value,):
        assert time.monotonic() - began < 30
        time.sleep(0.05)


CHANGES = (
    "UPDATE dbanon.membership SET record_id = 2 WHERE trajectory_id = 100",
    "DELETE FROM dbanon.region WHERE region_no = 1",
    "UPDATE dbanon.trajectory SET subject = 'another' WHERE trajectory_id = 103",
    "UPDATE dbanon.run SET params = params || '{\"k\": 2}' WHERE run_id = 1",
)


@pytest.mark.parametrize("change", CHANGES)
def test_the_digest_is_of_the_rows_that_are_read_whatever_changes_meanwhile(
    database: str, run: int, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that commits after the snapshot is in neither, so that publishing, which computes it anew, refuses."""
    whole = arrow.read_paths

    def changed(*arguments: object) -> arrow.Paths:
        with psycopg.connect(database, autocommit=True) as other:  # rows may have been read, trajectories were not
            other.execute(change)
        return whole(*arguments)  # type: ignore[arg-type]

    with connect(database) as connection:
        before = stored.compute_digest(connection, run)
        monkeypatch.setattr(arrow, "read_paths", changed)
        with reading.open_reader(database) as reader:
            evidence, late = reader.read_evidence(run)
        after = stored.compute_digest(connection, run)
    assert late == before != after
    assert evidence.params["k"] == 5
    assert len(evidence.trajectories.trajectory_id) == 10
    assert sorted(evidence.member_record.tolist()) == [1] * 5 + [2] * 5
    assert len(evidence.region_no) == 3


def test_a_further_session_that_is_lost_ends_the_reading_like_the_first(database: str, run: int) -> None:
    def further(reader: reading.Reader) -> None:
        reader.call_beside(_sleep, run).result()

    def first(reader: reading.Reader) -> None:
        _sleep(reader._snapshot.connection, run)

    said = []
    for lost in (further, first):
        with psycopg.connect(database, autocommit=True) as other:
            ending = threading.Thread(target=_wait_until, args=(other, OTHERS, 1))
            ending.start()
            with expect_refusal(StoreError) as caught, reading.open_reader(database) as reader:
                lost(reader)
            ending.join()
        said.append((str(caught.value), caught.value.sqlstate))  # type: ignore[attr-defined]
    assert said[0] == said[1]
    assert sqlstate.is_passing(StoreError("", sqlstate=said[0][1]))


def test_a_lost_session_of_the_stored_rows_is_no_verdict(
    database: str, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_rows, "read", lambda snapshot, run_id: _sleep(snapshot.connection, run_id))
    with psycopg.connect(database, autocommit=True) as other:
        ending = threading.Thread(target=_wait_until, args=(other, OTHERS, 1))
        ending.start()
        claim = queue.Claim(run_id=run, lock_key=0, attempt=0, todo="verify")
        watch = SimpleNamespace(note_progress=report_nothing)
        with expect_refusal(StoreError):
            row = stored.find_run(other, run)
            pipeline._Run(other, database, claim, row, watch, options=Reading(), tasks=SERIAL_TASKS)._judge()  # type: ignore[arg-type]
        ending.join()


def test_what_nobody_waits_for_any_more_is_cancelled(database: str, run: int) -> None:
    with psycopg.connect(database, autocommit=True) as other:
        with reading.open_reader(database) as reader:
            coming = reader.call_beside(_sleep, run)
            _wait_until(other, ASLEEP, 1)
        assert isinstance(coming.exception(30), psycopg.errors.QueryCanceled)
        _wait_until(other, ASLEEP, 0)


def test_where_the_server_gives_no_more_connections_one_session_reads_all(
    database: str, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: str) -> None:
        raise StoreError("The server is full.", sqlstate=sqlstate.TOO_MANY)

    with reading.open_reader(database) as reader:
        whole, digest = reader.read_evidence(run)
        assert reader.call_beside(_find_pid, run).result() != reader._snapshot.connection.info.backend_pid
    monkeypatch.setattr(_parallel_snapshots, "connect", full)
    with reading.open_reader(database) as reader:
        assert reader.call_beside(_find_pid, run).result() == reader._snapshot.connection.info.backend_pid
        again, same = reader.read_evidence(run)
        assert (again.member_trajectory.tolist(), same) == (whole.member_trajectory.tolist(), digest)


def _fail(*_: object, **__: object) -> None:
    raise psycopg.errors.DiskFull("No space is left.")


@contextmanager
def _end_early_session(self: pipeline._Run, *arguments: Any) -> Iterator[reading.Early | None]:
    """Read early in a session that is ended during the write."""
    with EARLY(self, *arguments) as early:
        assert early is not None
        wait(early.coming)
        idle = "state = 'idle in transaction' AND datname = current_database()"
        ended = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {idle}"
        assert self.connection.execute(ended).fetchone() == (1,)
        yield early


EARLY = pipeline._Run._read_early
AWAY: dict[str, tuple[Any, str, Any]] = {
    "further connection": (reading, "open_reader", _fail),
    "first query": (reading.Reader, "read_early", _fail),
    "later query": (reading, "read_trajectories", _fail),
    "session": (pipeline._Run, "_read_early", _end_early_session),
}


@pytest.mark.parametrize("lost", AWAY)
def test_cloaks_are_written_and_attacked_though_nothing_can_be_read_meanwhile(
    database: str, run: int, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    read, write = pipeline._Run._read, pipeline._Run._write

    def then_lost(self: pipeline._Run, params: Any) -> Any:
        found = read(self, params)
        away.setattr(*AWAY[lost])
        return found

    def then_back(self: pipeline._Run, *cloaks: Any) -> None:
        time.sleep(0.1)  # a reading that was begun ends
        away.undo()
        write(self, *cloaks)

    monkeypatch.setattr(pipeline._Run, "_read", then_lost)
    monkeypatch.setattr(pipeline._Run, "_write", then_back)
    with open_database(database) as here, pytest.MonkeyPatch.context() as away:
        assert here.run("tp-aware", dataset="ten", params={"k": 5}).status == "verified"


def test_requests_that_are_read_beside_the_trajectories_are_the_same(database: str, run: int) -> None:
    found = []
    for begun in ([], ["requests"]):
        with reading.open_reader(database) as reader:
            reader.begin(1, begun)
            reader.read_inputs(1, [])
            requests = reader.read_inputs(1, ["requests"])["requests"]
        found.append((requests.subject.tolist(), requests.t.tolist(), requests.content.tolist(), requests.contents))
    assert found[0] == found[1]
    assert len(found[0][0]) == 2


@pytest.mark.parametrize("rows", [1, 200_000])
def test_a_query_that_fails_after_some_rows_ends_with_the_servers_error(database: str, rows: int) -> None:
    query = f"SELECT 1 / (i - {rows}) AS one, 'text' AS two FROM pg_catalog.generate_series(1, {rows + 5}) i"
    with connect(database) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero), arrow.open_snapshot(connection) as snapshot:
            arrow.read_table(snapshot, query)
        with arrow.open_snapshot(connection) as snapshot:  # the connection is as good as before
            assert arrow.read_table(snapshot, "SELECT 7 AS i")["i"].to_pylist() == [7]
