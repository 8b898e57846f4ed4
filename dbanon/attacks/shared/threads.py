"""Runs parts of an attack on all cores; what comes out depends on neither their number nor which part ends first."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


def count() -> int:
    """Give the number of threads Numba is configured to use (``NUMBA_NUM_THREADS``), by default one a core."""
    from numba import config  # slow to import, and needed by few commands

    return int(vars(config)["NUMBA_NUM_THREADS"])


def each(task: Callable[[T], U], parts: Iterable[T]) -> Iterator[U]:
    """Do all parts, and give what each gives, in the order of the parts; none is begun any more once one failed."""
    pool = ThreadPoolExecutor(count())
    try:
        yield from pool.map(task, parts)
    finally:
        pool.shutdown(cancel_futures=True)
