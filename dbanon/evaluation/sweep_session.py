"""Ties the runs and samples of a sweep to its session, with which they end.

Invariant: after the session has ended for any reason, `queue.reap_runs` of the next process deletes them.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import cast

import psycopg

from dbanon.postgres.connection import Connection, connect, connect_to_hold, fetch_value, translate_errors
from dbanon.runs import queue


@contextmanager
def open_session(lock_url: str, url: str) -> Iterator[int]:
    """Open a session to tie runs and samples to, and give the key of its lock; at the end they are deleted."""
    with translate_errors(), connect_to_hold(lock_url) as holder:
        holder.execute("SET idle_session_timeout = 0")  # it waits while settings are computed
        lock_key = cast("int", fetch_value(holder, "SELECT (dbanon_internal.hold_lock()).lock_key"))
        try:
            yield lock_key
        finally:
            # On a separate connection: an interrupted one may still be in the middle of a statement.
            with suppress(psycopg.Error):
                holder.execute("SELECT pg_advisory_unlock_all()")
                with connect(url) as fresh:
                    queue.reap_runs(fresh)


def tie_run(connection: Connection, run_id: int, lock_key: int) -> None:
    """Tie a run that was submitted in this transaction."""
    connection.execute("SELECT dbanon_internal.tie_run(%s, %s)", [run_id, lock_key])


def sample_people(connection: Connection, dataset: str, people: int, lock_key: int) -> str:
    """Copy some people of a dataset, drawn at random, into one that is tied; returns its name.

    Raises `ParameterError` if there is no such dataset, or it does not have more people.
    """
    query = "SELECT dbanon_internal.sample_people(%s, %s, %s)"
    return cast("str", fetch_value(connection, query, [dataset, people, lock_key]))
