"""How many threads kernels use, and shares of work for them; results do not depend on either."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from dbanon.base.trajectory import Int

T = TypeVar("T")
U = TypeVar("U")

_SHARES_PER_THREAD = 8  # so that none is left waiting for another's last
_most: ContextVar[int | None] = ContextVar("most", default=None)


def count_threads() -> int:
    """Give the number of threads Numba is configured to use (``NUMBA_NUM_THREADS``), by default one a core."""
    from numba import config  # slow to import, and needed by few commands

    threads = int(vars(config)["NUMBA_NUM_THREADS"])
    return min(threads, _most.get() or threads)


@contextmanager
def limit_threads(threads: int) -> Iterator[None]:
    """Let what the block calls use fewer threads, because other processes use the other cores."""
    token = _most.set(max(1, threads))
    try:
        yield
    finally:
        _most.reset(token)


def share_work(work: "Int", task: Callable[[int, int], None], least: int) -> None:
    """Call `task` with ranges of items that take about equal work, on all threads.

    Parameters
    ----------
    work : int64[n]
        How much each item takes.
    task : callable
        Does the items from the first number up to the second, releases the interpreter, and writes to places of theirs
        alone.
    least : int
        Work below which a thread is not worth its while.
    """
    import numpy as np  # slow to import

    n = len(work)
    if not n:
        return
    done = np.cumsum(work)
    shares = int(min(n, count_threads() * _SHARES_PER_THREAD, done[-1] // least + 1))
    if shares == 1:
        task(0, n)
        return
    # Cut where the sum of work passes equal parts, rather than at equal numbers of items, whose work differs widely.
    cuts = np.searchsorted(done, done[-1] * np.arange(1, shares) // shares, side="right")
    cuts = np.unique(np.concatenate([[0], cuts, [n]])).tolist()
    for _ in map_each(lambda part: task(*part), pairwise(cuts)):
        pass


def run_together(calls: list[Callable[[], T]], work: int, least: int) -> list[T]:
    """Call functions that release the interpreter, on all threads where it is worth it, and give what they return.

    They are begun in their order. `work` is how much all take, `least` below which threads are not worth their while.
    """
    if work < least:
        return [call() for call in calls]
    return list(map_each(lambda call: call(), calls))


def map_each(task: Callable[[U], T], parts: Iterable[U]) -> Iterator[T]:
    """Do all parts on all threads, and give what each gives, in their order; none is begun once one has failed.

    A part uses as many threads as its caller may: `limit_threads` holds in it too.
    """
    pool = ThreadPoolExecutor(count_threads())
    try:
        yield from pool.map(lambda part: part[0].run(task, part[1]), [(copy_context(), part) for part in parts])
    finally:
        pool.shutdown(cancel_futures=True)
