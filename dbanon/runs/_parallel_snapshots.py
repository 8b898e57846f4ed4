"""Reads in further sessions what one snapshot sees, so that several tables come at once.

Invariant: what they read is the state that the snapshot's own session sees, or an error.
"""

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

import psycopg

from dbanon.base.background import run_in_background
from dbanon.base.errors import StoreError
from dbanon.postgres import arrow, sqlstate
from dbanon.postgres.connection import Session, connect

T = TypeVar("T")

_PATIENCE_S = 2.0  # for the server to take a request to cancel


class SnapshotSessions:
    """Further sessions of a snapshot, which must stay open."""

    def __init__(self, snapshot: arrow.Snapshot, url: str) -> None:
        self._snapshot, self._url = snapshot, url
        self._begun: list[tuple[Session, Future[object]]] = []

    def __call__(self, read: Callable[[arrow.Snapshot], T]) -> "Future[T]":
        """Read in a thread and a session of its own; here and now where the server gives no more connections.

        Its ``.result()`` raises what the reading raised: a lost connection, too.
        """
        try:
            session = connect(self._url)
        except StoreError as error:
            if error.sqlstate != sqlstate.TOO_MANY:
                raise
            done: Future[T] = Future()
            done.set_result(read(self._snapshot))
            return done
        future = run_in_background(_read, session, arrow.export_snapshot(self._snapshot), read)
        self._begun.append((session, future))  # type: ignore[arg-type]
        return future

    def cancel(self) -> None:
        """Have the server end what is still being read: nobody waits for it any more."""
        for session, future in self._begun:
            if not future.done():
                with suppress(psycopg.Error):
                    session.cancel_safe(timeout=_PATIENCE_S)


def _read(session: Session, name: str, read: Callable[[arrow.Snapshot], T]) -> T:
    with session, arrow.open_snapshot(session, name) as snapshot:
        return read(snapshot)
