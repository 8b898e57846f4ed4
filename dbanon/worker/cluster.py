"""Does the tasks of a run on a Dask cluster.

Tasks carry true positions, so every machine of the cluster must be trusted, and what they send one another be
encrypted. Dask does a task again whose process was lost, up to its own limit
(``distributed.scheduler.allowed-failures``). Nothing of a task is logged: Dask has written the arguments of one that
fails into its log, so they travel in an object that does not show them.
"""

import asyncio
import importlib.metadata
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from dbanon.base import cores, parts
from dbanon.base.errors import DataError, StoreError, counted
from dbanon.base.tasks import share

T = TypeVar("T")

_ANSWER_S = 10  # for the scheduler to answer
_AHEAD = 2  # tasks handed to the cluster for each of its threads: none of them waits for the next one to come


class Cluster:
    """`dbanon.base.tasks.Tasks` on a Dask cluster.

    Parameters
    ----------
    address : str
        Of its scheduler, such as ``tls://host:8786``; the certificates are named by Dask's own configuration.

    Raises
    ------
    DbanonError
        If the part ``dbanon[dask]`` is missing.
    """

    def __init__(self, address: str) -> None:
        parts.demand("dask", what="--scheduler")
        self._address = address

    def check(self, say: Callable[[str], None]) -> None:
        """Connect once, and say how many processes there are now.

        Raises
        ------
        StoreError
            If the scheduler does not answer.
        """
        with self._connected() as client:
            number = len(client.nthreads())
        say(f"the tasks of runs go to {self._address}, with {counted(number, 'process', 'processes')} now")
        if not self._address.startswith("tls://"):
            say("tasks carry true positions, and this address does not encrypt them; use tls:// beyond this machine")

    def map(self, function: Callable[..., T], arguments: Iterable[tuple[Any, ...]], *, threads: int = 1) -> list[T]:
        """Do tasks on the cluster, a single one here; see `dbanon.base.tasks.Tasks`.

        Raises
        ------
        StoreError
            If the scheduler is gone, which is worth another try, or a task was lost too often.
        """
        del threads  # a task has one core on a cluster, which has many
        return share(lambda several: self._spread(function, several), function, arguments)

    def readers(self, threads: int = 1) -> int:
        """Count the threads of the cluster; see `dbanon.base.tasks.Tasks`."""
        del threads
        with self._connected() as client:
            return sum(client.nthreads().values())

    def _spread(self, function: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> list[T]:
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        version = importlib.metadata.version("dbanon")
        results: list[T] = []
        waiting: deque[Any] = deque()
        with self._connected() as client:
            try:
                for each in arguments:
                    waiting.append(client.submit(_do, _Task(version, function, each), pure=False))
                    if len(waiting) > _AHEAD * max(1, sum(client.nthreads().values())):
                        results.append(waiting.popleft().result())
                while waiting:
                    results.append(waiting.popleft().result())
            except FutureCancelledError:  # by the client, which has lost its connection
                raise self._gone() from None
            except KilledWorker:
                raise StoreError(
                    "A task was lost with each process of the cluster that did it, and Dask gave it up. Nothing was "
                    "written; look why those processes ended, and run it again."
                ) from None
            finally:
                with suppress(Exception):
                    client.cancel(list(waiting), force=True)
        return results

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        import dask
        from distributed import Client

        # A client that finds no scheduler cannot be closed for 20 s, so one is made only where one answers.
        try:
            asyncio.run(_ask(self._address))
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            raise self._gone() from error
        # What a task needs is sent with it: spread over the cluster in advance, it could be lost with a process.
        sent_with_tasks = {"distributed.admin.large-graph-warning-threshold": "1TiB"}
        with (
            dask.config.set(sent_with_tasks),
            Client(self._address, timeout=_ANSWER_S, set_as_default=False) as client,
        ):
            yield client

    def _gone(self) -> StoreError:
        return StoreError(
            f"The scheduler at {self._address} gave no answer in {_ANSWER_S} s, or was lost. Nothing was written; "
            "check that it is up, and the certificates in Dask's configuration.",
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


def _do(task: _Task) -> Any:
    """Do a task, in a process of the cluster, which uses a core for each of its threads."""
    here = importlib.metadata.version("dbanon")
    if here != task.version:
        raise DataError(
            f"Every process of the cluster must have dbanon {task.version}. Got {here}; install the same everywhere."
        )
    with cores.at_most(1):
        return task.function(*task.arguments)
