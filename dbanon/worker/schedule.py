"""Lets a worker take the steps of its login's jobs when they are due: ``dbanon worker --schedule``.

A thread of the supervisor calls ``dbanon.run_jobs`` on a connection of its own, and does not wait for runs, which the
worker's processes compute. It may die at any moment: each step is a transaction, and any other session of the same
login goes on with the next.
"""

import threading
from datetime import datetime
from typing import Any

import psycopg
from psycopg.rows import dict_row

from dbanon.base.errors import DbanonError, StoreError
from dbanon.database import Database, open_database
from dbanon.postgres.connection import Connection, one
from dbanon.worker.events import Log, quotable

_LOOK_S = 30.0  # between two looks at what is due
_SOON_S = 1.0  # while a run is being computed
_AGAIN_S = 5.0  # before it connects again


def demand_operator(connection: Connection) -> None:
    """Raise `StoreError` where the login may not load and publish."""
    if not one(connection, "SELECT has_function_privilege('dbanon.steer_job(text,text,timestamptz,text)', 'EXECUTE')"):
        raise StoreError(
            "The login of a worker with --schedule must have the role dbanon_operator (or that of this database's own "
            "prefix). This one does not; GRANT it."
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
        self._over = threading.Event()
        self._database: Database | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> "Schedule":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(self._grace_s)
        if self._thread.is_alive() and self._database is not None:
            self._database.connection.cancel()
            self._thread.join(1)

    def _work(self) -> None:
        while not self._over.is_set():
            try:
                with open_database(self._dsn) as database:
                    self._database = database
                    since = one(database.connection, "SELECT clock_timestamp()")
                    while not self._over.is_set():
                        database.run_jobs(wait=False)
                        since, busy = self._tell(database.connection, since)
                        self._over.wait(_SOON_S if busy else _LOOK_S)
            except (DbanonError, psycopg.Error) as error:
                if not self._over.is_set():
                    failed = error if isinstance(error, DbanonError) else StoreError(str(error), error.sqlstate)
                    self._log.failure("schedule", f"jobs: {failed}", failed, seconds=_AGAIN_S)
                    self._over.wait(_AGAIN_S)

    def _tell(self, connection: Connection, since: datetime) -> tuple[datetime, bool]:
        """Log what has become of periods since a time; returns the time of the last, and whether a run is computed."""
        query = (
            "SELECT r.name, r.since, r.state, r.tries, r.run_id, r.sqlstate, r.error, r.changed_at "
            "FROM dbanon.job_runs r WHERE r.changed_at > %s OR r.state = 'compute' ORDER BY r.changed_at"
        )
        with connection.cursor(row_factory=dict_row) as cursor:
            rows: list[dict[str, Any]] = cursor.execute(query, [since]).fetchall()
        for row in rows:
            if row["changed_at"] > since:
                period = row["since"].isoformat()
                said = f": {row['error']}" if row["error"] else ""
                self._log.event(
                    "job", f"job {row['name']}, {period}: {row['state']}{said}", job=row["name"], period=period,
                    level="error" if row["state"] == "held" else "warning" if row["sqlstate"] else "info",
                    state=row["state"], tries=row["tries"], run_id=row["run_id"], sqlstate=row["sqlstate"],
                    sentence=row["error"] if row["sqlstate"] is None else quotable(row["sqlstate"], row["error"]),
                )  # fmt: skip
        return max([since, *(row["changed_at"] for row in rows)]), any(row["state"] == "compute" for row in rows)
