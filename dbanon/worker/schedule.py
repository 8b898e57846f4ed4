"""Lets a worker take the steps of its login's jobs when they are due: ``dbanon worker --schedule``.

A thread of the supervisor calls ``dbanon.run_jobs`` on a connection of its own, and does not wait for runs, which the
worker's processes compute. It may die at any moment: each step is a transaction, and any other session of the same
login goes on with the next.
"""

import json
import threading

import psycopg

from dbanon.base.errors import DbanonError, StoreError
from dbanon.database import Database, open_database
from dbanon.postgres import sqlstate
from dbanon.postgres.connection import Connection, fetch_value
from dbanon.runs.jobs import OWN_LINE
from dbanon.worker.events import Log, choose_quotable

_LOOK_S = 30.0  # between two looks at what is due
_SOON_S = 1.0  # while a run is being computed
_RECONNECT_S = 5.0  # before it connects again
_COMPUTING_QUERY = "SELECT EXISTS (SELECT FROM dbanon.job_runs r WHERE r.state IN ('compute', 'evaluate'))"


def demand_operator(connection: Connection) -> None:
    """Raise `StoreError` where the login may not load and publish."""
    if not fetch_value(
        connection, "SELECT has_function_privilege('dbanon.steer_job(text,text,timestamptz,text)', 'EXECUTE')"
    ):
        raise StoreError(
            "The login of a worker with --schedule must have the role dbanon_operator (or that of this database's "
            "own prefix). This one does not. Grant it that role."
        )


class Schedule:
    """Takes steps of jobs while a ``with`` block lasts.

    Parameters
    ----------
    dsn : str or None
        See `dbanon.connect`.
    log : Log
    grace_s : float
        How long a step may go on at the end of the block; then it is undone.
    """

    def __init__(self, dsn: str | None, log: Log, *, grace_s: float) -> None:
        self._dsn, self._log, self._grace_s = dsn, log, grace_s
        self._over, self._again = threading.Event(), threading.Event()
        self._database: Database | None = None
        self._thread = threading.Thread(target=self._run_due, daemon=True)

    def __enter__(self) -> "Schedule":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._again.set()
        self._thread.join(self._grace_s)
        if self._thread.is_alive() and self._database is not None:
            self._database.connection.cancel()
            self._thread.join(1)

    def reload(self) -> None:
        """Connect afresh when the step under way is done."""
        self._again.set()

    def _run_due(self) -> None:
        while not self._over.is_set():
            try:
                with open_database(self._dsn) as database:
                    self._database = database
                    database.connection.add_notice_handler(self._tell)
                    self._again.clear()
                    while not (self._over.is_set() or self._again.is_set()):
                        database.run_jobs(wait=False)
                        busy = fetch_value(database.connection, _COMPUTING_QUERY)
                        self._again.wait(_SOON_S if busy else _LOOK_S)
            except (DbanonError, psycopg.Error, OSError) as error:
                if not self._over.is_set():
                    failed = _explain_failure(error)
                    self._log.write_failure("schedule", f"jobs: {failed}", failed, seconds=_RECONNECT_S)
                    self._over.wait(_RECONNECT_S)

    def _tell(self, notice: psycopg.errors.Diagnostic) -> None:
        """Log a step that ``dbanon.run_jobs`` has taken, and no notice that a source raises."""
        if not OWN_LINE.match(notice.context or ""):
            return
        step = json.loads(notice.message_detail or "{}")
        state, code, error = step["state"], step.get("sqlstate"), step.pop("error", None)
        self._log.write_event(
            "job", f"job {step['job']}, {step['period']}, {step['step']}: {error or state}",
            level="error" if state == "held" else "warning" if code else "info",
            sentence=error if code is None else choose_quotable(code, error), **step,
        )  # fmt: skip


def _explain_failure(error: DbanonError | psycopg.Error | OSError) -> DbanonError:
    if isinstance(error, OSError):
        return DbanonError(f"The machine lacks something: {error.strerror}.")
    return error if isinstance(error, DbanonError) else sqlstate.translate(error)
