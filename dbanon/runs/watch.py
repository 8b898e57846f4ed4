"""Watches a run from a thread: reports progress, and interrupts the work if the run is cancelled or its lock lost.

A worker that stops interrupts it too. The thread uses the connection that holds the lock, so what keeps it from asking
has taken the lock as well.
"""

import signal
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, Self

import psycopg

from dbanon.base.progress import Progress
from dbanon.runs import queue

Why = Literal["cancel", "lost", "stop"]

LOOK_S = 0.5
PATIENCE_S = 2.0
"""How long an interrupted computation may take to stop; a compiled kernel does not stop at all."""


class Watch:
    """Context manager around the work on a claimed run.

    Parameters
    ----------
    connection : psycopg.Connection
        Holds the run's lock; used by nothing else meanwhile.
    progress : callable
        Called with what the work reports.
    stopping : threading.Event, optional
        Set when the worker shall stop.
    give_up : callable, optional
        Called in the thread if the work does not stop when interrupted.
    """

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        claim: queue.Claim,
        progress: Progress,
        *,
        stopping: threading.Event | None = None,
        give_up: Callable[[], None] | None = None,
    ) -> None:
        self.why: Why | None = None  # why the work was interrupted
        self.error: psycopg.Error | None = None  # how the lock was lost, where its connection was
        self.for_worker = stopping is not None  # so no user can press Ctrl-C
        self._connection, self._claim, self._tell = connection, claim, progress
        self._stopping, self._give_up = stopping or threading.Event(), give_up
        self._stage: tuple[str | None, int, int | None] = (None, 0, None)
        self._over, self._ending = threading.Event(), threading.Lock()
        self._main = threading.current_thread() is threading.main_thread()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.settle()
        finally:  # also if it was interrupted in this very moment
            self._over.set()
        self._thread.join()

    def settle(self) -> None:
        """Look no more: the verdict is recorded, and what becomes of the run from now on is another's concern."""
        with self._ending:
            self._over.set()

    def pause(self, seconds: float) -> None:
        """Keep a worker from taking the next run at once; not one that shall stop."""
        if self.for_worker:
            self._stopping.wait(seconds)

    def note_progress(self, stage: str, done: int, total: int | None) -> None:
        """Note how far the work is; interrupts it here if a signal could not."""
        if self.why is not None and not self._over.is_set():
            raise KeyboardInterrupt
        self._stage = (stage, done, total)
        self._tell(stage, done, total)

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            why = self._find_why()
            if why is not None:
                self._interrupt(why)
                if not self._over.wait(PATIENCE_S) and self._give_up is not None:
                    self._give_up()
                return

    def _find_why(self) -> Why | None:
        if self._stopping.is_set():
            return "stop"
        try:
            answer = queue.watch_run(self._connection, self._claim, *self._stage)
        except psycopg.Error as error:
            self.error = error
            return "lost"
        if answer == "cancel":
            return "cancel"
        return "lost" if answer == "lost" else None

    def _interrupt(self, why: Why) -> None:
        with self._ending:
            if self._over.is_set():
                return
            self.why = why
            if self._main and signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, signal.SIG_DFL):
                # A real signal, and not a flag: it also ends a wait for the server.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
