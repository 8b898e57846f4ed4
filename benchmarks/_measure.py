"""What a command costs: seconds, and the peak memory of its process and of the server it uses."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dbanon import server

EVERY_S = 0.1


@dataclass(frozen=True)
class Cost:
    """Seconds of the whole process, peak MB of the client and of all server processes together, and what it printed."""

    seconds: float
    client_mb: float
    server_mb: float
    printed: str


def dbanon(*arguments: str, environment: Mapping[str, str] | None = None) -> Cost:
    """Run a command of dbanon in a process of its own.

    Memory of the server is that of the embedded one: private pages, and shared ones in equal parts (PSS), sampled ten
    times a second. It takes the rights of the server's user to read it.
    """
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "dbanon", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    watch = _Watch()
    watch.start()
    printed, said = process.communicate()
    seconds = time.perf_counter() - began
    watch.stop.set()
    watch.join()
    if process.returncode:
        raise SystemExit(f"dbanon {' '.join(arguments)} ended with {process.returncode}: {said}")
    return Cost(seconds, watch.client_mb(process.pid), watch.server_mb, printed)


class _Watch(threading.Thread):
    """Samples the memory of the server's processes and of this process's children until told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.server_mb = 0.0
        self._client: dict[int, float] = {}

    def run(self) -> None:
        while not self.stop.wait(EVERY_S):
            self.server_mb = max(self.server_mb, sum(_pss_mb(pid) for pid in _server_processes()))
            for pid in _children(os.getpid()):
                self._client[pid] = max(self._client.get(pid, 0.0), _field_mb(pid, "status", "VmHWM:"))

    def client_mb(self, pid: int) -> float:
        return self._client.get(pid, 0.0)


def _server_processes() -> list[int]:
    try:
        lines = (server.EmbeddedServer().data / "postmaster.pid").read_text().splitlines()
    except OSError:
        return []
    postmaster = int(lines[0])
    return [postmaster, *_children(postmaster)]


def _children(parent: int) -> list[int]:
    try:
        found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    except OSError:
        return []
    return [int(pid) for pid in found]


def _pss_mb(pid: int) -> float:
    return _field_mb(pid, "smaps_rollup", "Pss:")


def _field_mb(pid: int, file: str, field: str) -> float:
    try:
        for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) / 1024
    except (OSError, ValueError):
        pass
    return 0.0
