"""Shares the tasks of a run among the processes of a worker: the one that has the run hands them out, idle ones help.

The process that has a run listens on a socket in the worker's own directory, and works on its tasks itself. An idle
process looks into that directory, asks for a task, and returns what comes of it. Invariant: a task that was handed out
and did not come back, for whatever reason, is done by the process that has the run. So the results are complete and in
the order of the tasks whichever helper is killed, and no task can end one process after the other.
"""

import os
import socket
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any, Generic, TypeVar

from dbanon.methods import share
from dbanon.methods.kernels import cores

T = TypeVar("T")
_Task = tuple[int, tuple[Any, ...]]

_LOOK_S = 0.2  # between two looks whether the tasks are done, or the process that has the run is gone


class Pool:
    """`dbanon.methods.Tasks` of one process of a worker.

    Parameters
    ----------
    directory : Path
        Of the worker; the sockets in it are those of its processes, and no other user may enter it.
    processes : int
        Of the worker: a task uses as many threads as there are cores for each of them.
    """

    def __init__(self, directory: Path, processes: int) -> None:
        self._directory, self._processes = directory, processes

    def map(self, function: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> list[T]:
        """Do tasks together with the processes of the worker that are idle; see `dbanon.methods.Tasks`."""

        def spread(several: Iterable[tuple[Any, ...]]) -> list[T]:
            work = _Work(function, several)
            with self._listening(work), self._own_share():
                return work.results()

        return share(spread, function, arguments)

    @contextmanager
    def _listening(self, work: "_Work[T]") -> Iterator[None]:
        """Hand out tasks to processes that ask for one, in threads, for the length of the block."""
        path = self._directory / str(os.getpid())
        path.unlink(missing_ok=True)  # of a killed process that had the same number
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(str(path))
        except FileNotFoundError:  # the directory went with the supervisor, or was cleared away: nobody can ask
            listener.close()
            yield
            return
        listener.listen()
        over = threading.Event()
        threading.Thread(target=_answer, args=(listener, work, over), daemon=True).start()
        try:
            yield
        finally:
            over.set()
            path.unlink(missing_ok=True)

    def _own_share(self) -> AbstractContextManager[None]:
        return cores.at_most(cores.count() // self._processes)

    def help(self, forsaken: Callable[[], None]) -> bool:
        """Do one task of another process of the worker, if there is any; returns whether there was.

        Parameters
        ----------
        forsaken : callable
            Called in a thread if the other process goes while the task is done: nothing waits for its result.
        """
        for path in self._sockets():
            with suppress(OSError, EOFError), Client(str(path), "AF_UNIX") as asked:
                task = asked.recv()
                if task is not None:
                    with self._own_share(), _watched(asked, forsaken):
                        result, error = _done(*task)
                    if error is not None:  # its traceback is not sent with it
                        lines = traceback.format_tb(error.__traceback__)
                        error.add_note(f"Process {os.getpid()}, traceback:\n{''.join(lines)}")
                    asked.send((result, error))
                    return True
        return False

    def _sockets(self) -> list[Path]:
        try:
            return list(self._directory.iterdir())
        except FileNotFoundError:  # see `_listening`
            return []


@contextmanager
def _watched(connection: "Connection[Any, Any]", forsaken: Callable[[], None]) -> Iterator[None]:
    """Call `forsaken` if the other side, which sends nothing in the block, closes the connection in it."""
    over = threading.Event()

    def look() -> None:
        with suppress(OSError):  # closed on this side, after the block
            while not over.is_set():
                if connection.poll(_LOOK_S) and not over.is_set():
                    forsaken()
                    return

    threading.Thread(target=look, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _done(function: Callable[..., T], arguments: tuple[Any, ...]) -> tuple[T | None, Exception | None]:
    """Call a function; returns its result or what it raised."""
    try:
        return function(*arguments), None
    except Exception as error:
        return None, error


def _answer(listener: socket.socket, work: "_Work[T]", over: threading.Event) -> None:
    """Start for each process that asks a thread that hands it a task; closes the listener at the end."""
    listener.settimeout(_LOOK_S)
    with listener:
        while not over.is_set():
            with suppress(TimeoutError):
                connection = Connection(listener.accept()[0].detach())
                threading.Thread(target=work.hand_out, args=(connection,), daemon=True).start()


class _Work(Generic[T]):
    """The tasks of one call of `Pool.map`.

    A failure ends the drawing. Tasks are drawn in order, and what was drawn is done, so the first one to fail is the
    same whatever process does which.
    """

    def __init__(self, function: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> None:
        self._function = function
        self._arguments = iter(arguments)
        self._drawing = threading.Lock()
        self._drawn = 0
        self._changed = threading.Condition()  # guards what follows
        self._away = 0  # tasks that are handed out, or are about to be
        self._lost: list[_Task] = []
        self._results: dict[int, Any] = {}
        self._errors: dict[int, Exception] = {}

    def results(self) -> list[T]:
        """Do the tasks that no other process does; returns the results of all in order."""
        while (task := self._next()) is not None:
            self._keep(task, *_done(self._function, task[1]))
        if self._errors:
            raise self._errors[min(self._errors)]
        return [self._results[number] for number in range(self._drawn)]

    def _next(self) -> _Task | None:
        """Take a task that was lost, or draw one; waits for those that are away, which may be lost yet."""
        with self._changed:
            if self._lost:
                return self._lost.pop()
        task = self._draw()
        if task is not None:
            return task
        with self._changed:
            self._changed.wait_for(lambda: self._lost or not self._away)
            return self._lost.pop() if self._lost else None

    def hand_out(self, connection: "Connection[Any, Any]") -> None:
        """Send a task through a connection, or None where none is left, and keep what comes back."""
        with connection, self._one_away():
            task = self._draw()
            try:
                connection.send(task and (self._function, task[1]))
                if task is not None:
                    self._keep(task, *connection.recv())
            except Exception:  # the process was killed, or what it sent cannot be read
                if task is not None:
                    self._lost.append(task)

    @contextmanager
    def _one_away(self) -> Iterator[None]:
        """Have the process that waits for the end know that a task may still come back."""
        with self._changed:
            self._away += 1
        try:
            yield
        finally:
            with self._changed:
                self._away -= 1
                self._changed.notify()

    def _draw(self) -> _Task | None:
        with self._drawing:
            if self._errors:
                return None
            number = self._drawn
            try:
                arguments = next(self._arguments, None)
            except Exception as error:
                self._errors[number] = error
                return None
            if arguments is None:
                return None
            self._drawn += 1
            return number, arguments

    def _keep(self, task: _Task, result: T | None, error: Exception | None) -> None:
        if error is None:
            self._results[task[0]] = result
        else:
            self._errors[task[0]] = error
