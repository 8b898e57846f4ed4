"""Functions that other processes find by their names: tasks for tests, and processes that share them."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numba

from dbanon.base import cores, tasks
from dbanon.base.tasks import Processes


def compute_square(number: int) -> int:
    return number * number


def find_pid() -> int:
    return os.getpid()


def count_task_threads(directory: str, home: int, number: int) -> int:
    """Give how many threads a task may use where there are so many cores; `home` waits for another."""
    if os.getpid() != home:
        numba.config.NUMBA_NUM_THREADS = number
        (Path(directory) / "threads").touch()
    wait_until(lambda: list(Path(directory).iterdir()))
    return cores.count_threads()


def pause(number: int) -> int:
    time.sleep(0.005)
    return number


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it does not come to hold"
        time.sleep(0.01)


def wait_for_others(directory: str, count: int) -> int:
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


def end_while_sending(home: int, number: int) -> bytes:
    """Have the process that does it killed, but for `home`, when it has sent half of the result."""

    def send(self: Connection, message: bytes) -> None:
        os.write(self.fileno(), message[: len(message) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    if os.getpid() != home:
        Connection._send = send
    return bytes(number)


def end_once(directory: str, number: int) -> int:
    """Kill the process that does task 3, the first time."""
    mark = Path(directory) / "ended"
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def hang_once(directory: str, number: int) -> int:
    """Do not end the first time, until all is over."""
    mark = Path(directory) / "hangs"
    if number == 0 and not mark.exists():
        mark.touch()
        wait_until((Path(directory) / "over").exists)
    return number


def end(_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail_from(least: int, number: int) -> int:
    if number >= least:
        raise ArithmeticError(number)
    return number


def fail(_name: str, number: int) -> None:
    raise ArithmeticError(number)


def fail_elsewhere(directory: str, home: int) -> None:
    """Fail, but for `home`, which waits until another has failed."""
    if os.getpid() != home:
        (Path(directory) / "failed").touch()
        raise ArithmeticError
    wait_until(lambda: list(Path(directory).iterdir()))


def give(number: int) -> Callable[[], int]:
    return lambda: number


def call(function: Callable[[], int]) -> int:
    return function()


def begin_and_stay(directory: str, number: int) -> int:
    """Note that it has begun, and do not end."""
    (Path(directory) / f"{os.getpid()}").touch()
    wait_until(lambda: False)
    return number


def hold_run(marks: str) -> None:
    """Be the process that has a run, which does not end."""
    multiprocessing.set_forkserver_preload(["numba", "pytest"])
    numba.config.NUMBA_NUM_THREADS = 2
    tasks._WORTH_S = 0
    Processes().map(begin_and_stay, [(marks, number) for number in range(4)])


@contextmanager
def start_processes(function: Callable[..., Any], *arguments: Any, count: int = 1) -> Iterator[list[BaseProcess]]:
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
