"""The queue of runs: who submits, who takes, how a run moves on. The queue is the table ``dbanon.run``.

Invariant: a process that moves a run on names the attempt it belongs to, so that a worker which lost its lock
overwrites nothing of a later one.
"""

import importlib.metadata
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from dbanon.base.errors import ParameterError, StoreError
from dbanon.options.publishing import Submitting
from dbanon.postgres import sqlstate
from dbanon.postgres.connection import Connection, fetch_value, make_jsonb


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claimed run: what to do, and the attempt that fences its writes."""

    run_id: int
    lock_key: int
    attempt: int
    todo: str


def submit_run(connection: Connection, method: str, options: Submitting) -> int:
    """Queue a run and return its id; committed at once on an autocommit connection.

    Raises `ParameterError` for a dataset, method, algorithm or parameter there is not, or a value outside its limits,
    and `DataError` if the dataset lacks what the method hides.
    """
    if options.seed is not None and not 0 <= options.seed < 2**63:  # the server has no type for one that is larger
        raise ParameterError(
            f"The seed must be an integer >= 0 and < 2^63. Got {options.seed} instead. Choose another, or leave it out "
            f"to have one made."
        )
    arguments = [options.dataset, method, make_jsonb(options.params or {}), options.algorithm, options.seed]
    query = "SELECT dbanon.submit_run(%s, %s, %s, %s, %s, %s)"
    return cast("int", fetch_value(connection, query, [*arguments, options.allow_no_requests]))


_RUN_COLUMNS = ("dataset_revision", "metrics", "suppressed", "timings", "error", "error_kind", "peak_rss_mb", "rows")
_MARK_ASSIGNMENTS: dict[str, sql.SQL] = {
    "running": sql.SQL(", program_version = {}"),
    "computed": sql.SQL(""),
}
_END_ASSIGNMENTS = sql.SQL(
    ", finished_at = CASE todo WHEN 'compute' THEN clock_timestamp() ELSE finished_at END"
    ", todo = NULL, worker = NULL, stage = NULL, stage_done = NULL, stage_total = NULL"
)


def set_status(connection: Connection, claim: Claim, status: str | None, **columns: Any) -> None:
    """Move a claimed run on, and store what is known about it; None leaves the status and ends what was to do.

    Raises
    ------
    CancelledError
        If the run was cancelled, and `status` is another.
    StoreError
        If another process has the run: its lock was lost, or it has ended.
    """
    unknown = set(columns) - {*_RUN_COLUMNS, "data_digest"}
    if unknown:
        raise ValueError(f"no columns of a run: {sorted(unknown)}")
    values = {name: make_jsonb(value) if isinstance(value, Mapping) else value for name, value in columns.items()}
    assigned = sql.SQL("").join(sql.SQL(", {} = {}").format(sql.Identifier(n), sql.Placeholder(n)) for n in values)
    mark = _MARK_ASSIGNMENTS.get(status or "", _END_ASSIGNMENTS)
    statement = sql.SQL(
        "UPDATE dbanon.run SET status = coalesce(%(status)s, status){}{} "
        "WHERE run_id = %(run_id)s AND attempts = %(attempt)s AND worker IS NOT NULL "
        "AND (cancel_requested_at IS NULL OR coalesce(%(status)s, 'cancelled') IN ('cancelled', 'failed'))"
    ).format(assigned, mark.format(sql.Literal(importlib.metadata.version("dbanon"))))
    fence = {"status": status, "run_id": claim.run_id, "attempt": claim.attempt}
    if connection.execute(statement, {**fence, **values}).rowcount != 1:
        raise make_cancellation(connection, claim) or make_lost_error(claim.run_id)


class CancelledError(StoreError):
    """The run was cancelled; names the login that did it."""


def make_cancellation(connection: Connection, claim: Claim) -> CancelledError | None:
    """Make the error of a cancelled run; None if it was not cancelled."""
    login = fetch_value(
        connection,
        "SELECT cancel_requested_by FROM dbanon.run WHERE run_id = %s AND attempts = %s AND worker IS NOT NULL",
        [claim.run_id, claim.attempt],
    )
    return make_cancelled_error(login, claim.run_id) if login else None


def make_cancelled_error(login: str, run_id: int) -> CancelledError:
    """Make the error of a run that was cancelled by a login."""
    return CancelledError(f"Run {run_id} was cancelled by {login}.", sqlstate.CANCELLED)


def make_not_verified_error(connection: Connection, run_id: int) -> StoreError:
    """Make the error of a run whose verification did not finish."""
    login = fetch_value(connection, "SELECT cancel_requested_by FROM dbanon.run WHERE run_id = %s", [run_id])
    if login:
        return make_cancelled_error(login, run_id)
    return StoreError(
        f"The verification of run {run_id} did not finish, so its status is unchanged. Verify it again: "
        f"`dbanon verify {run_id}`."
    )


def read_dsn(connection: Connection, run_id: int) -> str | None:
    """Look up the replica that the job of a run names, if it is of one that does."""
    return cast(
        "str | None", fetch_value(connection, "SELECT read_dsn FROM dbanon.job_runs WHERE run_id = %s", [run_id])
    )


def lock_run(connection: Connection, claim: Claim) -> None:
    """Keep others from a run's row until the transaction ends."""
    connection.execute("SELECT FROM dbanon.run WHERE run_id = %s FOR UPDATE", [claim.run_id])


def make_lost_error(run_id: int) -> StoreError:
    """Make the error of a run that another process has taken over."""
    return StoreError(
        f"The lock on run {run_id} was lost, and this process writes nothing more for it. Another worker may go on "
        f"with it. See `dbanon runs`."
    )


@dataclass(frozen=True, kw_only=True)
class State:
    """How far a run is: what is still to do (None: nothing), and what is being done."""

    todo: str | None
    progress: str | None
    done: int
    total: int | None


def read_state(connection: Connection, run_id: int) -> State:
    """Look how far a run is; one that is not there has nothing left to do."""
    with connection.cursor(row_factory=class_row(State)) as cursor:
        state = cursor.execute(
            "SELECT todo, stage AS progress, coalesce(stage_done, 0) AS done, stage_total AS total "
            "FROM dbanon.run WHERE run_id = %s",
            [run_id],
        ).fetchone()
    return state or State(todo=None, progress=None, done=0, total=None)


def name_process(pid: int | None = None) -> str:
    """Name a process of this machine, by default this one, as the one that works on a run: host and process."""
    return f"{socket.gethostname()} {pid or os.getpid()}"


def make_no_run_error(run_id: int) -> ParameterError:
    """Make the error for a run that is not there."""
    return ParameterError(f"The run must exist. There is no run {run_id}. List the runs: `dbanon runs`.")


def make_no_worker_error() -> StoreError:
    """Make the error of a login that may not compute while no worker is up."""
    refused = sqlstate.make_error("42501")
    sentence = (
        f"{refused} Or let a worker compute it. None is up: start `dbanon worker` with a login that has dbanon_worker."
    )
    return StoreError(sentence, refused.sqlstate)


def claim_run(connection: Connection, worker: str, run_id: int | None = None) -> Claim | None:
    """Take the oldest run that waits, or a certain one; None if it does not wait.

    The session holds the lock of the run until `unlock`.
    """
    with connection.cursor(row_factory=class_row(Claim)) as cursor:
        return cursor.execute(
            "SELECT claimed_run AS run_id, lock_key, attempt, todo FROM dbanon_internal.claim_run(%s, %s)",
            [worker, run_id],
        ).fetchone()


def unlock(connection: Connection, claim: Claim) -> None:
    """Release a run's lock, which a lost connection has lost already."""
    with suppress(psycopg.Error):  # a lost connection has lost its locks
        connection.execute("SELECT pg_advisory_unlock(%s)", [claim.lock_key])


def watch_run(connection: Connection, claim: Claim, stage: str | None, done: int, total: int | None) -> str:
    """Write how far a run is; returns ``go on``, ``done``, ``cancel`` or ``lost``."""
    arguments = [claim.run_id, claim.attempt, stage, done, total]
    return cast("str", fetch_value(connection, "SELECT dbanon_internal.watch_run(%s, %s, %s, %s, %s)", arguments))


def note_error(connection: Connection, claim: Claim, error: str) -> None:
    """Write down what ended an attempt; if the run is not begun again, that is its error."""
    connection.execute(
        "UPDATE dbanon.run SET error = %s "
        "WHERE run_id = %s AND attempts = %s AND worker IS NOT NULL AND todo = 'compute'",
        [error, claim.run_id, claim.attempt],
    )


def requeue_run(connection: Connection, claim: Claim) -> None:
    """Give a run back to the queue."""
    connection.execute("SELECT dbanon_internal.requeue_run(%s, %s)", [claim.run_id, claim.attempt])


def ask_verification(connection: Connection, run_id: int) -> None:
    """Queue the attack on a run's stored rows."""
    connection.execute("SELECT dbanon.verify_run(%s)", [run_id])


def cancel_run(connection: Connection, run_id: int) -> str:
    """Ask for a run's end; returns its status, or ``being cancelled``."""
    return cast("str", fetch_value(connection, "SELECT dbanon.cancel_run(%s)", [run_id]))


def register_worker(connection: Connection, name: str) -> str:
    """Enter a worker, whose session holds its lock from now on; returns the channel it is woken on."""
    return cast("str", fetch_value(connection, "SELECT dbanon_internal.register_worker(%s)", [name]))


def has_worker(connection: Connection) -> bool:
    """Whether any worker is up."""
    return bool(fetch_value(connection, "SELECT EXISTS (SELECT FROM dbanon.workers)"))


def may_compute(connection: Connection) -> bool:
    """Whether the login may write cloaks and verdicts."""
    return bool(fetch_value(connection, "SELECT has_table_privilege('dbanon.cloak', 'INSERT')"))


def reap_runs(connection: Connection) -> int:
    """Requeue or fail every run whose worker's session has ended; returns how many."""
    return cast("int", fetch_value(connection, "SELECT dbanon_internal.reap_runs()"))
