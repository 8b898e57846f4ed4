"""Does the tasks of a run on a Dask cluster.

Tasks carry true positions, so every machine of the cluster must be trusted, and what they send one another be
encrypted. Dask does a task again whose process was lost, up to its own limit
(``distributed.scheduler.allowed-failures``). A task whose machine is slow is begun on another one as well. Nothing of a
task is logged: Dask has written the arguments of one that fails into its log, so they travel in an object that does not
show them.
"""

import asyncio
import importlib.metadata
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast

from dbanon.base import cores, extras
from dbanon.base.errors import DataError, StoreError, format_count
from dbanon.base.tasks import share_tasks

T = TypeVar("T")

_ANSWER_S = 10  # for the scheduler to answer
_PATIENCE_S, _PATIENCE_FACTOR = 30.0, 4  # for the task that is waited for: so long, or so many times the longest so far
# Tasks handed to the cluster for each of its threads: none of them waits for the next one to come.
_TASKS_PER_THREAD = 2


class Cluster:
    """`dbanon.base.tasks.Tasks` on a Dask cluster.

    Parameters
    ----------
    address : str
        Of its scheduler, such as ``tls://host:8786``; the certificates are named by Dask's own configuration.

    Raises `DbanonError` if the part ``dbanon[dask]`` is missing.
    """

    def __init__(self, address: str) -> None:
        extras.demand("dask", what="--scheduler")
        self._address = address

    def announce_processes(self, say: Callable[[str], None]) -> None:
        """Connect once, and say how many processes there are now and what of the cluster an operator must know.

        Raises `StoreError` if the scheduler does not answer.
        """
        with self._open_client() as client, self._translate_losses():
            number = len(client.nthreads())
        say(f"the tasks of runs go to {self._address}, with {format_count(number, 'process', 'processes')} now")
        if not self._address.startswith("tls://"):
            say("tasks carry true positions, and this address does not encrypt them: use tls:// beyond this machine")

    def map(self, function: Callable[..., T], arguments: Iterable[tuple[Any, ...]], *, threads: int = 1) -> list[T]:
        """Do tasks on the cluster, a single one here; see `dbanon.base.tasks.Tasks`.

        Raises `StoreError` if the scheduler is gone, which is worth another try, or a task was lost too often.
        """
        del threads  # a task has one core on a cluster, which has many
        return share_tasks(lambda several: self._spread(function, several), function, arguments)

    def _spread(self, function: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> list[T]:
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError, FuturesCancelledError

        version = importlib.metadata.version("dbanon")
        results: list[T] = []
        waiting: deque[_Sent] = deque()
        longest_s = 0.0

        def collect() -> None:
            nonlocal longest_s
            result, took_s = waiting[0].wait_for_result(client, max(_PATIENCE_S, _PATIENCE_FACTOR * longest_s))
            longest_s = max(longest_s, took_s)
            results.append(result)
            waiting.popleft()

        with self._open_client() as client:
            try:
                for each in arguments:
                    waiting.append(_Sent(client, _Task(version, function, each)))
                    if len(waiting) > _TASKS_PER_THREAD * max(1, sum(client.nthreads().values())):
                        collect()
                while waiting:
                    collect()
            except (FutureCancelledError, FuturesCancelledError):  # by the client, which has lost its connection
                raise self._make_gone_error() from None
            except KilledWorker:
                raise StoreError(
                    "A task was lost with each process of the cluster that did it, and Dask gave it up. Nothing was "
                    "written. Find out why those processes ended, and run it again."
                ) from None
            finally:
                with suppress(Exception):
                    client.cancel([copy for sent in waiting for copy in sent.copies], force=True)
        return results

    @contextmanager
    def _open_client(self) -> Iterator[Any]:
        import dask
        from distributed import Client

        # A client that finds no scheduler cannot be closed for 20 s, so one is made only where one answers.
        try:
            asyncio.run(_ask(self._address))
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            raise self._make_gone_error() from error
        # What a task needs is sent with it: spread over the cluster in advance, it could be lost with a process.
        sent_with_tasks = {"distributed.admin.large-graph-warning-threshold": "1TiB"}
        with dask.config.set(sent_with_tasks), Client(self._address, timeout=_ANSWER_S, set_as_default=False) as client:
            yield client

    @contextmanager
    def _translate_losses(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError) as error:  # the scheduler is lost, or the client has noticed and is closed
            raise self._make_gone_error() from error

    def _make_gone_error(self) -> StoreError:
        return StoreError(
            f"The scheduler at {self._address} gave no answer in {_ANSWER_S} s, or was lost. Nothing was written. "
            f"Check that it is up, and the certificates in Dask's configuration.",
            "08006",  # worth another try
        )


async def _ask(address: str) -> None:
    """Connect to a scheduler, and let go again."""
    from distributed.comm import connect
    from distributed.security import Security

    comm = await connect(address, timeout=_ANSWER_S, **Security().get_connection_args("client"))
    await comm.close()


class _Task:
    """What is sent: a function, its arguments, and the version of this program, for the same results everywhere."""

    def __init__(self, version: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.version, self.function, self.arguments = version, function, arguments

    def __repr__(self) -> str:
        return "a task of dbanon"


class _Sent:
    """A task that was sent, and the copies of it that are being done: one, unless its machine is slow."""

    def __init__(self, client: Any, task: _Task) -> None:
        self.task, self.copies = task, [client.submit(_do, task, pure=False)]

    def wait_for_result(self, client: Any, patience_s: float) -> tuple[Any, float]:
        """Wait for the first copy, and how long it took; after some time, begin one more on another machine."""
        from distributed import wait

        while True:
            try:
                with client.as_current():
                    done = wait(self.copies, timeout=patience_s, return_when="FIRST_COMPLETED").done
            except TimeoutError:
                self._send_again(client)
            else:
                client.cancel([copy for copy in self.copies if copy not in done], force=True)
                return cast("tuple[Any, float]", next(copy for copy in self.copies if copy in done).result())

    def _send_again(self, client: Any) -> None:
        if len(self.copies) > 1:
            return
        keys = {copy.key for copy in self.copies}
        with suppress(OSError, RuntimeError):  # where the scheduler is lost, waiting ends with that
            busy = {process for process, doing in client.processing().items() if keys & {*doing}}
            others = [process for process in client.nthreads() if process not in busy]
            if busy and others:  # nobody has begun it where `busy` is empty
                self.copies.append(client.submit(_do, self.task, pure=False, workers=others))


def _do(task: _Task) -> tuple[Any, float]:
    """Do a task, in a process of the cluster, which uses a core for each of its threads; returns the seconds, too."""
    here = importlib.metadata.version("dbanon")
    if here != task.version:
        raise DataError(
            f"Every process of the cluster must have dbanon {task.version}. Got {here}. Install the same everywhere."
        )
    began = time.perf_counter()
    with cores.limit_threads(1):
        return task.function(*task.arguments), time.perf_counter() - began
