"""Does the tasks of a run: in this process, or shared among several processes of this machine.

The process that has a run draws its tasks, sends each to a helper through a pipe of its own, and collects the results.
Invariant: what does not come back through that pipe, for whatever reason, is done by the process that has the run. So
the results are complete and in the order of the tasks whichever helper is killed, and no task can end one process
after the other. Helpers live as long as one call of `Processes.map`.
"""

import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import copy_context
from itertools import chain, islice, starmap
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from multiprocessing.process import BaseProcess
from typing import Any, Generic, Protocol, TypeVar, cast

from dbanon.base import cores
from dbanon.base.background import in_background

T = TypeVar("T")
_Arguments = tuple[Any, ...]

_WORTH_S = 2.0  # which helpers take to start and to load kernels: tasks that are done sooner are all done here


class Tasks(Protocol):
    """Does the tasks of a run: in this process, or shared among several; the results are the same."""

    def map(self, function: Callable[..., T], arguments: Iterable[tuple[Any, ...]], *, threads: int = 1) -> list[T]:
        """Call a function with each tuple of arguments; returns the results in the order of the tasks.

        Parameters
        ----------
        function : callable
            Of a module, by whose name another process finds it. Depends on its arguments alone. It may be called in
            another thread.
        arguments : iterable of tuple
            Of each task; drawn when the task is about to be handed out, so that few are held at a time. All that a
            task needs of the data is in its tuple, which is pickled.
        threads : int, optional
            How many cores a task keeps busy by itself: on one machine, so many fewer tasks are done at a time.

        Raises
        ------
        Exception
            What the first task, in their order, that failed has raised.
        """


class _Here:
    """`Tasks` done in this process, one after the other."""

    def map(self, function: Callable[..., T], arguments: Iterable[tuple[Any, ...]], *, threads: int = 1) -> list[T]:
        del threads  # it has all
        return list(starmap(function, arguments))


HERE: Tasks = _Here()
"""Does tasks in this process."""


def share(
    spread: Callable[[Iterable[tuple[Any, ...]]], list[T]],
    function: Callable[..., T],
    arguments: Iterable[tuple[Any, ...]],
) -> list[T]:
    """Have `spread` do several tasks; a single one is done here, where its data are, with all cores."""
    rest = iter(arguments)
    first = list(islice(rest, 2))
    return HERE.map(function, first) if len(first) < 2 else spread(chain(first, rest))


class Processes:
    """`Tasks` shared among processes of this machine, where they take more than two seconds.

    The helpers import the program that uses this, so ``if __name__ == "__main__":`` must guard what it does.

    Parameters
    ----------
    runs : int
        Runs that go at once on this machine. Each has as many helpers as there are cores for it, fewer if a task
        keeps several cores busy. The threads of its helpers together are one for each core of the machine.
    """

    def __init__(self, runs: int = 1) -> None:
        self._runs = runs

    def map(self, function: Callable[..., T], arguments: Iterable[tuple[Any, ...]], *, threads: int = 1) -> list[T]:
        """Do tasks here, and in helpers if they take long; see `Tasks`."""
        helpers = cores.count() // self._runs // threads
        if helpers < 2:
            return HERE.map(function, arguments)
        return share(lambda several: _Work(function, several, helpers).results(), function, arguments)


class _Work(Generic[T]):
    """The tasks of one call of `Processes.map`.

    A failure ends the drawing. Tasks are drawn in order, and what was drawn is done, so the first one to fail is the
    same whatever process does which.
    """

    def __init__(self, function: Callable[..., T], arguments: Iterable[_Arguments], helpers: int) -> None:
        self._function, self._arguments = function, iter(arguments)
        self._threads, self._most = cores.count() // helpers, helpers
        self._futures: list[Future[T]] = []  # one for each task that was drawn
        self._failed = False
        self._helpers: dict[Connection[Any, Any], BaseProcess] = {}
        self._idle: list[Connection[Any, Any]] = []
        self._busy: dict[Connection[Any, Any], tuple[_Arguments, Future[T]]] = {}

    def results(self) -> list[T]:
        """Do all tasks; returns their results in order."""
        try:
            self._begin_here()
            while (task := self._draw()) is not None:
                self._hand_out(task)
            while self._busy:
                self._collect()
        finally:
            for helper in self._helpers.values():
                _end(helper)
        return [future.result() for future in self._futures]

    def _begin_here(self) -> None:
        """Do tasks one after the other in a thread, as long as starting helpers would take."""
        until = time.monotonic() + _WORTH_S
        while (left := until - time.monotonic()) > 0 and (task := self._draw()) is not None:
            self._futures.append(in_background(copy_context().run, self._function, *task))
            done, _ = wait(self._futures[-1:], left)
            self._failed = any(future.exception() for future in done)

    def _draw(self) -> _Arguments | None:
        if self._failed:
            return None
        try:
            return next(self._arguments, None)
        except Exception as error:
            self._futures.append(Future())
            self._settle(self._futures[-1], None, error)
            return None

    def _hand_out(self, task: _Arguments) -> None:
        """Give a task to a helper, once one is free; do it here where there can be none."""
        future: Future[T] = Future()
        self._futures.append(future)
        while not (self._idle or self._start_helper()) and self._busy:
            self._collect()
        if not self._idle:
            self._settle(future, *_done(self._function, task))
            return
        helper = self._idle.pop()
        self._busy[helper] = task, future
        try:
            # In a thread: the pipe takes little at a time, and a helper reads only when it has started. If it is
            # killed meanwhile, nothing comes back, which `_collect` sees.
            in_background(helper.send_bytes, pickle.dumps((self._function, task), pickle.HIGHEST_PROTOCOL))
        except Exception:  # what cannot be pickled
            self._lose(helper)

    def _start_helper(self) -> bool:
        """Start a helper; returns whether there may be another, and is."""
        if len(self._helpers) >= self._most:
            return False
        context = multiprocessing.get_context("forkserver")  # a fork would copy locks of threads in whatever state
        here, there = context.Pipe()
        helper = context.Process(target=_help, args=(there, self._threads), daemon=True)
        try:
            helper.start()
        except (OSError, EOFError):  # the system gives no more processes
            self._most = len(self._helpers)
            return False
        finally:
            there.close()
        self._helpers[here] = helper
        self._idle.append(here)
        return True

    def _collect(self) -> None:
        """Wait until at least one helper has done its task, or is gone."""
        for helper in cast("list[Connection[Any, Any]]", wait_for_any(list(self._busy))):
            try:
                result, error = helper.recv()
            except Exception:  # it was killed, perhaps while it sent, or what it sent cannot be read
                self._lose(helper)
            else:
                self._idle.append(helper)
                self._settle(self._busy.pop(helper)[1], result, error)

    def _lose(self, helper: "Connection[Any, Any]") -> None:
        """Do here what a lost helper was to do, and go on with one fewer: memory may be short."""
        task, future = self._busy.pop(helper)
        _end(self._helpers.pop(helper))
        self._most -= 1
        self._settle(future, *_done(self._function, task))

    def _settle(self, future: Future[T], result: T | None, error: Exception | None) -> None:
        if error is None:
            future.set_result(result)  # type: ignore[arg-type]
        else:
            self._failed = True
            future.set_exception(error)


def _end(helper: BaseProcess) -> None:
    if helper.is_alive():  # if not, its number may be that of another process by now
        helper.kill()
    helper.join()


def _done(function: Callable[..., T], arguments: _Arguments) -> tuple[T | None, Exception | None]:
    """Call a function; returns its result or what it raised."""
    try:
        return function(*arguments), None
    except Exception as error:
        return None, error


# ---- in a helper -----------------------------------------------------------------------------------------------------


def _help(connection: "Connection[Any, Any]", threads: int) -> None:
    """Do the tasks that come, until the process that sends them is gone or kills this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that has the run
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with cores.at_most(threads), suppress(Exception):  # which a log would show with a value of the task
        while True:
            result, error = _done(*connection.recv())
            if error is not None:  # its traceback is not sent with it
                lines = traceback.format_tb(error.__traceback__)
                error.add_note(f"Process {os.getpid()}, traceback:\n{''.join(lines)}")
            connection.send((result, error))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
