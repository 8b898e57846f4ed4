"""Workers as processes of their own, for tests of what becomes of runs whatever happens to them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psycopg

from tests import wholeness
from tests.reading import read_row

FIELDS = {
    "at", "level", "event", "worker", "job", "period", "step", "state", "run_id", "seconds", "tries", "sqlstate",
    "sentence",
}  # fmt: skip


@dataclass
class Worker:
    """A worker that is up: the supervisor's process, and what it says."""

    process: subprocess.Popen[bytes]
    log: Path

    def children(self) -> list[int]:
        """Process ids of those that do the runs; the supervisor's other child only tracks resources."""
        return list_children(self.process.pid, b"spawn_main")

    def said(self) -> str:
        return self.log.read_text()


def read_run(city: psycopg.Connection, run_id: int, columns: str = "status") -> tuple[object, ...]:
    return read_row(city, f"SELECT {columns} FROM dbanon.runs WHERE run_id = %s", run_id)


def check_whole(city: psycopg.Connection) -> None:
    wholeness.wait_until_alone(city)
    city.execute("SELECT dbanon_internal.reap_runs()")
    assert wholeness.find_broken(city) == []


def list_children(pid: int, command: bytes = b"") -> list[int]:
    """Process ids of a process's children whose command line has `command` in it."""
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():  # which is the parent, as Linux tells it
            found += [int(child) for child in (thread / "children").read_text().split()]
    return [child for child in found if command in _read_command(child)]


def _read_command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def start(url: str, log: Path, *options: str, environment: dict[str, str] | None = None) -> Worker:
    """Start ``dbanon worker`` and return at once."""
    with log.open("ab") as stream:
        process = _start_worker(url, stream, options, {**os.environ, **(environment or {})})
    return Worker(process, log)


def _start_worker(
    url: str, stream: IO[bytes], options: tuple[str, ...], env: dict[str, str]
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "dbanon", "--dsn", url, "worker", *options]
    return subprocess.Popen(command, stdout=stream, stderr=stream, stdin=subprocess.DEVNULL, env=env)


def kill(worker: Worker) -> None:
    """Kill supervisor and processes where they stand, as a machine does that loses its power."""
    pids = worker.children()
    worker.process.kill()
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    worker.process.wait()


def stop(worker: Worker, number: int = signal.SIGTERM, seconds: float = 60) -> int:
    """Stop a worker as an administrator does; returns its exit code."""
    worker.process.send_signal(number)
    return worker.process.wait(seconds)


@contextmanager
def keep_up(url: str, log: Path, *options: str, count: int = 1, **more: dict[str, str]) -> Iterator[Worker]:
    """Have a worker up for the length of the block, known to the database as `count` processes."""
    worker = start(url, log, *options, **more)
    try:
        wait_until(lambda: count_workers(url) >= count, 60, worker)
        yield worker
    finally:
        if worker.process.poll() is None:
            kill(worker)


def count_workers(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SELECT pg_catalog.count(*) FROM dbanon.workers").fetchone()
    return row[0] if row else 0


def wait_until(
    holds: Callable[[], object],
    seconds: float = 30,
    worker: Worker | None = None,
    explain: Callable[[], str] = lambda: "it does not come to hold",
) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, worker.said() if worker else explain()
        time.sleep(0.05)
