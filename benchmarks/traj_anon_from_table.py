"""Where the time and the memory of a run go, from table to verified run, in a cold process and a warm one.

Run with ``./dev bench benchmarks/traj_anon_from_table.py`` for 10,000, 50,000 and 200,000 trajectories, or with other
sizes as ``.venv/bin/python benchmarks/traj_anon_from_table.py 2000000``. With ``--keep`` the data stay for next time.
Cold: a process of its own with an empty Numba cache. Warm: the same once more. ``load_s`` runs beside compiling, and
``compile_s`` is what had to be waited for after it. The server's memory is that of all its processes while the run
lasts: private pages, and all pages with shared ones counted once (Pss); known for the embedded server alone.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from _data import drop, fill

from dbanon import pipeline, server

PHASES = ("load_s", "compile_s", "compute_s", "write_s", "verify_s", "total_s")


class Watch(threading.Thread):
    """Samples the memory of a process and its children until told to stop."""

    def __init__(self, root: int | None) -> None:
        super().__init__(daemon=True)
        self.root, self.private_mb, self.pss_mb = root, 0.0, 0.0
        self._stop_asked = threading.Event()

    def run(self) -> None:
        """Sample every 50 ms."""
        while self.root is not None and not self._stop_asked.wait(0.05):
            sizes = [self._sizes(pid) for pid in (self.root, *self._children(self.root))]
            self.private_mb = max(self.private_mb, sum(private for private, _ in sizes))
            self.pss_mb = max(self.pss_mb, sum(pss for _, pss in sizes))

    def stop(self) -> None:
        """Sample no more; the peaks are in `private_mb` and `pss_mb`."""
        self._stop_asked.set()
        self.join()

    @staticmethod
    def _children(pid: int) -> list[int]:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    @staticmethod
    def _sizes(pid: int) -> tuple[float, float]:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:  # it has gone
            return 0.0, 0.0
        kb = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
        return (kb["Private_Clean"] + kb["Private_Dirty"]) / 1024, kb["Pss"] / 1024


def postmaster(target: server.Target) -> int | None:
    """Process id of the embedded server."""
    if not target.embedded:
        return None
    return int((server.EmbeddedServer().status().home / "data/postmaster.pid").read_text().split()[0])


def run(name: str, cache: str, root: int | None) -> dict[str, float]:
    command = [sys.executable, "-m", "dbanon", "run", "tp-aware", "--dataset", name, "-p", "k=50", "--json"]
    watch = Watch(root)
    watch.start()
    began = os.times().elapsed
    process = subprocess.Popen(
        command,
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    result = json.loads(process.stdout.read())
    _, _, usage = os.wait4(process.pid, 0)
    wall = os.times().elapsed - began
    watch.stop()
    assert result["status"] == "verified", result
    return {
        **result["timings"],
        "wall_s": wall,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "client_mb": usage.ru_maxrss / 1024,
        "server_mb": watch.private_mb,
        "pss_mb": watch.pss_mb,
    }


def main(sizes: list[int], *, keep: bool) -> None:
    database = pipeline.open_database()
    filled = {n: fill(database.connection, n) for n in sizes}
    print("tp-aware, traj-anon, 30 instants, k = 50: from table to verified run; seconds and peak MB")
    heads = "".join(f"{phase:>10}" for phase in PHASES)
    print(f"{'n':>9} {'':<5}{'process':>9}{'its CPU':>9}{heads} {'client':>8} {'server':>8} {'with shared':>12}")
    for n, (name, _) in filled.items():
        with tempfile.TemporaryDirectory() as cache:
            for how in ("cold", "warm"):
                found = run(name, cache, postmaster(database.target))
                spent = "".join(f"{found[phase]:>10.2f}" for phase in PHASES)
                memory = f"{found['client_mb']:>8.0f} {found['server_mb']:>8.0f} {found['pss_mb']:>12.0f}"
                print(f"{n:>9} {how:<5}{found['wall_s']:>9.2f}{found['cpu_s']:>9.2f}{spent} {memory}", flush=True)
    if not keep:
        drop(database.connection, [dataset for _, dataset in filled.values()])


if __name__ == "__main__":
    main([int(n) for n in sys.argv[1:] if n != "--keep"] or [10_000, 50_000, 200_000], keep="--keep" in sys.argv)
