"""What a command costs: seconds, and the peak memory of its process and of the server it uses."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dbanon.postgres import server

SAMPLE_EVERY_S = 0.1


@contextmanager
def run_private_server() -> Iterator[tuple[server.EmbeddedServer, Path]]:
    """Have an embedded server of a benchmark's own, which runs, and a directory beside it that its user finds."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        directory.chmod(0o755)  # the server's user has to find its way through
        own = server.EmbeddedServer(directory / "home")
        try:
            own.start()
            yield own, directory
        finally:
            own.stop()


@dataclass(frozen=True)
class Cost:
    """Seconds of the whole process and of its CPU, peak MB of it and of all server processes, and what it printed."""

    seconds: float
    cpu_s: float
    client_mb: float
    server_mb: float
    printed: str


def run_dbanon(*arguments: str, environment: Mapping[str, str] | None = None) -> Cost:
    """Run a command of dbanon in a process of its own."""
    return run_python("-m", "dbanon", *arguments, environment=environment)


def run_python(*arguments: str, environment: Mapping[str, str] | None = None) -> Cost:
    """Run a program of Python in a process of its own.

    Memory of the server is that of the embedded one: private pages, and shared ones in equal parts (PSS), sampled ten
    times a second. It takes the rights of the server's user to read it.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began = time.perf_counter()
        command = [sys.executable, *arguments]
        process = subprocess.Popen(command, stdout=out, stderr=err, env={**os.environ, **(environment or {})})
        watch = _Watch(process.pid)
        watch.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        watch.stop.set()
        watch.join()
        out.seek(0), err.seek(0)
        if status:
            raise SystemExit(f"{' '.join(command)} failed: {err.read()}")
        return Cost(seconds, usage.ru_utime + usage.ru_stime, watch.client_mb, watch.server_mb, out.read())


class _Watch(threading.Thread):
    """Samples the memory of a process and of the server's until told to stop."""

    def __init__(self, client: int) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.client, self.client_mb, self.server_mb = client, 0.0, 0.0

    def run(self) -> None:
        while not self.stop.wait(SAMPLE_EVERY_S):
            self.client_mb = max(self.client_mb, _read_field_mb(self.client, "status", "VmHWM:"))
            total = sum(_read_field_mb(pid, "smaps_rollup", "Pss:") for pid in _list_server_processes())
            self.server_mb = max(self.server_mb, total)


def _list_server_processes() -> list[int]:
    try:
        postmaster = int((server.EmbeddedServer().data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    except OSError:
        return []
    return [postmaster, *map(int, children)]


def measure_server_cpu_s() -> float:
    """Seconds of CPU that the embedded server has used so far, in processes that are there or have ended."""
    used = 0
    for pid in _list_server_processes():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used += sum(map(int, fields[11:15]))  # its own, and that of children it has waited for
    return used / os.sysconf("SC_CLK_TCK")


def _read_field_mb(pid: int, file: str, field: str) -> float:
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:  # it has gone
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(field)), 0.0)
