"""Reads datasets from a streaming replica, when it has replayed what a run needs; all that is of runs is the primary's.

Invariant: a snapshot of the replica sees all that was committed on the primary before it was asked for. The primary
commits a transaction with a number, and the replica replays in the order of commits, so where that number has come all
before it has. A copy that has left the history of the primary lacks the key that was drawn when the run was claimed.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg

from dbanon.base.errors import ParameterError, StoreError
from dbanon.base.progress import Progress
from dbanon.options.reading import Reading
from dbanon.postgres import server, sqlstate
from dbanon.postgres.connection import Connection, Session, connect, fetch_value
from dbanon.runs import queue

if TYPE_CHECKING:
    from dbanon.postgres import arrow

STAGE = "waiting for the replica"
_LOOK_S = 0.1
# Which database of which server this is: a replica's are those of its primary.
_IDENTITY_QUERY = (
    "SELECT s.system_identifier, d.oid FROM pg_control_system() s, pg_database d WHERE d.datname = current_database()"
)
# A number that the server has not come to yet is an error to pg_xact_status.
_REPLAYED_QUERY = (
    "SELECT CASE WHEN n < pg_snapshot_xmax(pg_current_snapshot()) THEN pg_xact_status(n) = 'committed' END "
    "FROM (SELECT %s::xid8) written (n)"
)
# A server that was promoted while it was waited for gives none.
_KEY_QUERY = "SELECT (held_by).lock_key FROM dbanon.run WHERE run_id = %s AND pg_is_in_recovery()"
_AGE_QUERY = "SELECT extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::bigint"


def demand_replica(primary: Connection, options: Reading) -> None:
    """Raise `ParameterError` or `StoreError` if a replica is asked for that cannot be read."""
    dsn = options.read_dsn or os.environ.get("DBANON_READ_DSN")
    if dsn:
        _open(primary, dsn).close()


@contextmanager
def open_snapshot(
    primary: Connection, options: Reading, claim: queue.Claim, progress: Progress
) -> Iterator["arrow.Snapshot | None"]:
    """Have a snapshot of the replica that a job names, or is asked for; None where there is none to be read from.

    Parameters
    ----------
    primary : psycopg.Connection
        Outside of a transaction.
    claim : Claim
        The run that is for.

    Raises `ParameterError` if the server is no replica of this database; `StoreError` if it does not answer, lags
    behind for too long, or ends the reading.
    """
    dsn = _complete_dsn(primary, options, claim)
    if not dsn:
        yield None
        return
    from dbanon.postgres import arrow  # with Arrow: a worker has this module before it demands that part

    number = fetch_value(primary, "SELECT pg_current_xact_id()::text")
    with _open(primary, dsn) as connection:
        _wait(connection, number, options.read_wait_s, progress)
        with arrow.open_snapshot(connection) as snapshot, _name_server(connection):
            key = fetch_value(connection, _KEY_QUERY, [claim.run_id])
            if key != claim.lock_key:
                raise _make_stranger_error("one that has left the history of the primary")
            yield snapshot


def is_asked(primary: Connection, options: Reading, claim: queue.Claim) -> bool:
    """Whether datasets are read from a replica."""
    return bool(_complete_dsn(primary, options, claim))


def _complete_dsn(primary: Connection, options: Reading, claim: queue.Claim) -> str | None:
    return queue.read_dsn(primary, claim.run_id) or options.read_dsn or os.environ.get("DBANON_READ_DSN")


def _open(primary: Connection, dsn: str) -> Session:
    """Open a connection to a replica of the primary's database."""
    try:
        connection = connect(server.make_target(dsn).url)
    except StoreError as error:
        sentence = f"The replica that --read-dsn names was not reached. {error}"
        raise StoreError(sentence, error.sqlstate) from None
    try:
        _demand_replica(connection, primary)
    except BaseException:
        connection.close()
        raise
    return connection


def _demand_replica(connection: Session, primary: Connection) -> None:
    if connection.pooled:  # the next transaction might be on another server
        raise _make_stranger_error("a pooler")
    if not fetch_value(connection, "SELECT pg_is_in_recovery()"):
        raise _make_stranger_error("a server that accepts writing")
    if connection.execute(_IDENTITY_QUERY).fetchone() != primary.execute(_IDENTITY_QUERY).fetchone():
        raise _make_stranger_error("another database, or that of another server")


def _make_stranger_error(got: str) -> ParameterError:
    return ParameterError(
        f"--read-dsn must name a streaming replica of the database that runs are in. Got {got}. Name a replica of "
        "this server, or leave the option out."
    )


def _wait(connection: Connection, number: Any, wait_s: int, progress: Progress) -> None:
    """Wait until the replica has replayed the transaction of a number."""
    began = time.monotonic()
    while not fetch_value(connection, _REPLAYED_QUERY, [number]):
        waited = int(time.monotonic() - began)
        progress(STAGE, min(waited, wait_s), wait_s)
        if waited >= wait_s:
            age = fetch_value(connection, _AGE_QUERY)
            state = "It has replayed nothing yet" if age is None else f"It shows the state of {age:,} s ago"
            raise StoreError(
                f"The replica must have replayed within {wait_s:,} s the data that the run reads. {state}, and "
                f"nothing was kept. See whether its replay is paused, give --read-wait, or read from the primary."
            )
        time.sleep(_LOOK_S)


@contextmanager
def _name_server(connection: Connection) -> Iterator[None]:
    """Name the replica in the error that ended its session or a statement of it."""
    try:
        yield
    except (psycopg.Error, StoreError) as error:
        failure = sqlstate.translate(error) if isinstance(error, psycopg.Error) else error
        if not (isinstance(failure, StoreError) and sqlstate.is_passing(failure)) or _can_continue(connection):
            raise
        message = (
            "The replica ended the reading, because its replay had waited for it too long. Nothing was kept. Run it "
            "again, and set hot_standby_feedback or a longer max_standby_streaming_delay there."
            if failure.sqlstate == sqlstate.CHANGED
            else "The connection to the replica was lost. Nothing was kept. Run it again."
        )
        raise StoreError(message, failure.sqlstate) from error


def _can_continue(connection: Connection) -> bool:
    """Whether a transaction can go on."""
    try:
        connection.execute("SELECT")
    except psycopg.Error:
        return False
    return True
