"""Does the tasks of a run: in this process, or shared among several processes of this machine.

The process that has a run works on its tasks in a thread. Where they take long, it sends others to helpers, each
through a pipe of its own, and collects the results. Invariant: what does not come back through that pipe, for whatever
reason, is done by the process that has the run. So the results are complete and in the order of the tasks whichever
helper is killed, and no task can end one process after the other. Helpers live as long as one call of `Processes.map`.
"""

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from itertools import chain, islice, starmap
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from multiprocessing.process import BaseProcess
from typing import Any, Generic, Protocol, TypeVar, cast

from dbanon.base import cores
from dbanon.base.background import run_in_background

T = TypeVar("T")
_Task = tuple[Any, ...]  # its arguments

_WORTH_S = 3.0  # more than a helper takes to start and to load kernels: tasks done sooner are all done here
_BATCH_SHARE = 0.05  # of the tasks that were done here in that time, sent to a helper at once


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
            Of each task; drawn, possibly in another thread, when the task is about to be handed out, so that few are
            held at a time. All that a task needs of the data is in its tuple, which is pickled.
        threads : int, optional
            How many cores a task keeps busy by itself: on one machine, so many fewer tasks are done at a time.

        Raises what the first task, in their order, that failed has raised.
        """


class SerialTasks:
    """`Tasks` done in this process, one after the other."""

    def map(self, function: Callable[..., T], arguments: Iterable[tuple[Any, ...]], *, threads: int = 1) -> list[T]:
        """Do them in their order; each has all threads."""
        del threads
        return list(starmap(function, arguments))


SERIAL_TASKS: Tasks = SerialTasks()
"""Does tasks in this process."""


def share_tasks(
    spread: Callable[[Iterable[tuple[Any, ...]]], list[T]],
    function: Callable[..., T],
    arguments: Iterable[tuple[Any, ...]],
) -> list[T]:
    """Have `spread` do several tasks; a single one is done here, where its data are, with all cores."""
    rest = iter(arguments)
    first = list(islice(rest, 2))
    return SERIAL_TASKS.map(function, first) if len(first) < 2 else spread(chain(first, rest))


class Processes:
    """`Tasks` shared among processes of this machine, where they take more than three seconds.

    The helpers import the program that uses this, so ``if __name__ == "__main__":`` must guard what it does.

    Parameters
    ----------
    runs : int
        Runs that go at once on this machine. Each is done by as many processes as there are cores for it, fewer if a
        task keeps several cores busy. The threads of these processes are as many as the machine has cores.
    """

    def __init__(self, runs: int = 1) -> None:
        self._runs = runs

    def map(self, function: Callable[..., T], arguments: Iterable[tuple[Any, ...]], *, threads: int = 1) -> list[T]:
        """Do tasks here, and in helpers if they take long; see `Tasks`."""
        processes = cores.count_threads() // self._runs // threads
        if processes < 2:
            return SERIAL_TASKS.map(function, arguments)
        return share_tasks(lambda several: _Work(function, several, processes).collect_results(), function, arguments)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Batch(Generic[T]):
    """Tasks that one process does one after the other, and what will come of them."""

    tasks: list[_Task] = field(default_factory=list)
    future: Future[list[T]] = field(default_factory=Future)


class _Work(Generic[T]):
    """The tasks of one call of `Processes.map`.

    A failure ends the drawing. Tasks are drawn in order, and what was drawn is done, so the first one to fail is the
    same whatever process does which.
    """

    def __init__(self, function: Callable[..., T], arguments: Iterable[_Task], processes: int) -> None:
        self._function, self._arguments = function, iter(arguments)
        self._cores, self._threads, self._most = (
            cores.count_threads(),
            cores.count_threads() // processes,
            processes - 1,
        )
        self._drawing = threading.Lock()
        self._futures: list[Future[list[T]]] = []  # of batches, in the order in which they were drawn
        self._undrawn: Exception | None = None  # why no more tasks could be drawn
        self._over = False  # no more are drawn
        self._helpers: dict[Connection[Any, Any], BaseProcess] = {}
        self._idle: list[Connection[Any, Any]] = []
        self._busy: dict[Connection[Any, Any], _Batch[T]] = {}

    def collect_results(self) -> list[T]:
        """Do all tasks; returns their results in order."""
        here = run_in_background(copy_context().run, self._work_here)
        try:
            wait([here], _WORTH_S)
            size = 1 + int(len(self._futures) * _BATCH_SHARE)
            while batch := self._draw(size):
                self._hand_out(batch)
            while self._busy:
                self._collect()
            here.result()
        finally:
            self._over = True
            for helper in self._helpers.values():
                _end_helper(helper)
        results = [result for future in self._futures for result in future.result()]
        if self._undrawn is not None:
            raise self._undrawn
        return results

    def _work_here(self) -> None:
        """Do tasks one after the other, in a thread; with all cores while there are no helpers."""
        while batch := self._draw(1):
            with cores.limit_threads(self._threads if self._helpers else self._cores):
                self._settle(batch, *_do_tasks(self._function, batch.tasks))

    def _draw(self, most: int) -> "_Batch[T] | None":
        """Draw the next tasks: none once one has failed."""
        batch: _Batch[T] = _Batch()
        with self._drawing:
            if self._over:
                return None
            try:
                for task in islice(self._arguments, most):
                    batch.tasks.append(task)  # and not `extend`: what was drawn before a failure is kept
            except Exception as error:
                self._over, self._undrawn = True, error
            if not batch.tasks:
                return None
            self._futures.append(batch.future)
        return batch

    def _hand_out(self, batch: "_Batch[T]") -> None:
        """Give tasks to a helper, once one is free; do them here where there can be none."""
        while not (self._idle or self._start_helper()) and self._busy:
            self._collect()
        if not self._idle:
            self._settle(batch, *_do_tasks(self._function, batch.tasks))
            return
        helper = self._idle.pop()
        self._busy[helper] = batch
        try:
            # In a thread: the pipe takes little at a time, and a helper reads only when it has started. If it is
            # killed meanwhile, nothing comes back, which `_collect` sees. The highest protocol keeps arrays read-only:
            # kernels for others would be compiled.
            run_in_background(helper.send_bytes, pickle.dumps((self._function, batch.tasks), pickle.HIGHEST_PROTOCOL))
        except Exception:  # what cannot be pickled
            self._lose(helper)

    def _start_helper(self) -> bool:
        """Start a helper; returns whether there may be another, and is."""
        if len(self._helpers) >= self._most:
            return False
        context = multiprocessing.get_context("forkserver")  # a fork would copy locks of threads in whatever state
        here, there = context.Pipe()
        helper = context.Process(target=_help_with_tasks, args=(there, self._threads), daemon=True)
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
        """Wait until at least one helper has done its tasks, or is gone."""
        for helper in cast("list[Connection[Any, Any]]", wait_for_any(list(self._busy))):
            try:
                results, error = helper.recv()
            except Exception:  # it was killed, perhaps while it sent, or what it sent cannot be read
                self._lose(helper)
            else:
                self._idle.append(helper)
                self._settle(self._busy.pop(helper), results, error)

    def _lose(self, helper: "Connection[Any, Any]") -> None:
        """Do here what a lost helper was to do, and go on with one fewer: memory may be short."""
        batch = self._busy.pop(helper)
        _end_helper(self._helpers.pop(helper))
        self._most -= 1
        self._settle(batch, *_do_tasks(self._function, batch.tasks))

    def _settle(self, batch: "_Batch[T]", results: list[T], error: Exception | None) -> None:
        if error is None:
            batch.future.set_result(results)
        else:
            self._over = True
            batch.future.set_exception(error)


def _end_helper(helper: BaseProcess) -> None:
    if helper.is_alive():  # if not, its number may be that of another process by now
        helper.kill()
    helper.join()


def _do_tasks(function: Callable[..., T], tasks: list[_Task]) -> tuple[list[T], Exception | None]:
    """Do tasks; returns their results, or what the first one that failed has raised."""
    try:
        return list(starmap(function, tasks)), None
    except Exception as error:
        return [], error


# ---- in a helper -----------------------------------------------------------------------------------------------------


def _help_with_tasks(connection: "Connection[Any, Any]", threads: int) -> None:
    """Do the tasks that come, until the process that sends them is gone or kills this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that has the run
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with cores.limit_threads(threads), suppress(Exception):  # which a log would show with a value of the task
        while True:
            results, error = _do_tasks(*connection.recv())
            if error is not None:  # its traceback is not sent with it
                lines = traceback.format_tb(error.__traceback__)
                error.add_note(f"Process {os.getpid()}, traceback:\n{''.join(lines)}")
            connection.send((results, error))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
