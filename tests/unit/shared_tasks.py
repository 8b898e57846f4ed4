"""Functions that other processes find by their names: tasks for tests, and the processes that help with them."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from dbanon.methods.kernels import cores
from dbanon.worker._pool import Pool

FORSAKEN = 75


def square(number: int) -> int:
    return number * number


def threads(_: int) -> int:
    return cores.count()


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it does not come to hold"
        time.sleep(0.01)


def meet(directory: str, count: int) -> int:
    """Wait until so many processes do tasks at once; returns which one this is."""
    (Path(directory) / str(os.getpid())).touch()
    wait_until(lambda: len(list(Path(directory).iterdir())) >= count)
    return os.getpid()


def end_elsewhere(directory: str, home: int, number: int) -> int:
    """Kill the process that does it, but for `home`, which waits until another was killed."""
    if os.getpid() != home:
        (Path(directory) / str(number)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    wait_until(lambda: list(Path(directory).iterdir()))
    return number


def end_once(directory: str, number: int) -> int:
    """Kill the process that does task 3, the first time."""
    mark = Path(directory) / "ended"
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def end(_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail_from(least: int, number: int) -> int:
    if number >= least:
        raise ArithmeticError(number)
    return number


def go_on(directory: str, number: int) -> int:
    """Note that it has begun, and do not end."""
    (Path(directory) / f"{os.getpid()}").touch()
    wait_until(lambda: False)
    return number


def help_for_ever(directory: str, processes: int) -> None:
    pool = Pool(Path(directory), processes)
    while True:
        if not pool.help(lambda: os._exit(FORSAKEN)):
            time.sleep(0.01)


def hold(directory: str, marks: str) -> None:
    """Be the process that has a run, which does not end."""
    Pool(Path(directory), 2).map(go_on, [(marks, number) for number in range(4)])


@contextmanager
def started(function: Callable[..., Any], *arguments: Any, count: int = 1) -> Iterator[list[BaseProcess]]:
    """Have processes that call a function for the length of the block."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=function, args=arguments) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield list(processes)
    finally:
        for process in processes:
            process.kill()
            process.join()
            process.close()
