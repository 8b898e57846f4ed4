"""What it costs to share the windows of a run among processes, by several engines.

Run with ``./dev bench benchmarks/shared_windows.py [--rounds N] [--kills N]``. Each round runs each engine in a process
of its own, one after the other. CPU seconds are of that process and of all that it has started. Where other programs
use the machine, only these can be compared. With `--kills` it kills helpers while they send results, and counts the
calls that hang.
"""

import argparse
import hashlib
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from dbanon.base import cores, tasks
from dbanon.base.tasks import HERE, Processes, Tasks
from dbanon.base.trajectory import Trajectories
from dbanon.methods import METHODS

PEOPLE, WINDOWS, INSTANTS, SEED = 50_000, 8, 30, 20120905
HELPERS = cores.count()
ENGINES = (
    "here",
    "worker",
    "helpers",
    "helpers at once",
    "executor, spawn",
    "executor, forkserver",
    "dask",
    "dask, tls",
)


def walks() -> Trajectories:
    """People who walk about in a city of 10 km, with a fix a minute."""
    rng = np.random.default_rng(SEED)
    length = WINDOWS * INSTANTS
    x, y = rng.uniform(0, 10_000, (2, PEOPLE, 1)) + rng.normal(0, 20, (2, PEOPLE, length)).cumsum(axis=2)
    return Trajectories(
        trajectory_id=np.arange(PEOPLE) + 1, subject=np.arange(PEOPLE), offset=length * np.arange(PEOPLE + 1),
        t=np.tile(60.0 * np.arange(length), PEOPLE), x=x.ravel(), y=y.ravel(), srid=32610, grid_m=1.0, grid_s=1,
    )  # fmt: skip


def nothing(number: int) -> int:
    return number


def much(number: int) -> bytes:
    return bytes(number)


def on_one_core(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    with cores.at_most(1):
        return function(*arguments)


class Futures:
    """`Tasks` on what gives futures, with few tasks under way."""

    def __init__(self, submit: Callable[..., Future[Any]]) -> None:
        self.submit = submit

    def map(self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], *, threads: int = 1) -> list[Any]:
        """Do tasks, each on one core."""
        results: list[Any] = []
        waiting: deque[Future[Any]] = deque()
        for each in arguments:
            waiting.append(self.submit(on_one_core, function, each))
            if len(waiting) > 2 * HELPERS:
                results.append(waiting.popleft().result())
        return results + [future.result() for future in waiting]


class Helpers(Processes):
    """Helpers for each core, although a window keeps several busy."""

    def map(self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], *, threads: int = 1) -> list[Any]:
        """Do tasks, each on one core."""
        return super().map(function, arguments)


@contextmanager
def engine(name: str) -> Iterator[Tasks]:
    if name == "here":
        yield HERE
    elif name == "worker":
        yield Processes()
    elif name.startswith("helpers"):
        multiprocessing.set_forkserver_preload(["numba"])
        tasks._WORTH_S = 0 if name.endswith("at once") else tasks._WORTH_S
        yield Helpers()
    elif name.startswith("executor"):
        multiprocessing.set_forkserver_preload(["numba"])
        with ProcessPoolExecutor(HELPERS, multiprocessing.get_context(name.split()[1])) as executor:
            yield Futures(executor.submit)
    else:
        import distributed
        from distributed.security import Security

        security = Security.temporary() if name.endswith("tls") else None
        options: dict[str, Any] = {"dashboard_address": None, "security": security}
        with (
            distributed.LocalCluster(n_workers=HELPERS, threads_per_worker=1, **options) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield Futures(lambda call, *arguments: client.submit(call, *arguments, pure=False))


# ---- one engine, in a process of its own -----------------------------------------------------------------------------


def family_of(pid: int) -> list[int]:
    """List a process and all below it."""
    found = [pid]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        found += [one for child in (thread / "children").read_text().split() for one in family_of(int(child))]
    return found


def cpu_s() -> float:
    """Sum the CPU seconds of this process and all below it, with those that have ended."""
    ticks = 0
    for pid in family_of(os.getpid()):
        ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def pss_mb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) // 1024


def watch(most: list[int], over: threading.Event) -> None:
    """Note the most memory that all processes below this one had."""
    while not over.wait(1):
        try:
            most.append(sum(pss_mb(pid) for pid in family_of(os.getpid())[1:]))
        except (OSError, StopIteration):  # one of them has just ended
            continue


def measure(name: str) -> None:
    """Print the seconds and CPU seconds of a start and of two runs, the helpers' memory, and a digest."""
    family, data = METHODS["tp-aware"], walks()
    params = family.parse({"k": 10, "instants": INSTANTS, "start": 0})
    family.prepare("traj-anon", params)
    figures: list[float] = []
    most, over = [0], threading.Event()
    began, before = time.perf_counter(), cpu_s()
    with engine(name) as shared:
        threading.Thread(target=watch, args=(most, over), daemon=True).start()
        shared.map(nothing, [(1,), (2,)])
        for _ in range(3):
            figures += [time.perf_counter() - began, cpu_s() - before]
            began, before = time.perf_counter(), cpu_s()
            cloaks = family.anonymise(data, "traj-anon", params, np.random.default_rng(0), tasks=shared)
        over.set()
    digest = hashlib.sha256(cloaks.bounds.tobytes() + cloaks.member_record.tobytes()).hexdigest()[:12]
    print(*figures, max(most), digest)


# ---- killed while they send ------------------------------------------------------------------------------------------


def hangs(kills: int, megabytes: int) -> tuple[int, int]:
    """Count the calls that do not end when a helper is killed while it sends: of the executor, and of `Processes`."""
    found = [0, 0]
    tasks._WORTH_S = 0
    for number in range(kills):
        for which, call in enumerate((by_executor, by_helpers)):
            done = threading.Event()
            threading.Thread(target=call, args=(megabytes << 20, done), daemon=True).start()
            time.sleep(1 + random.Random(number).random())
            victims = [one for one in multiprocessing.active_children() if one.is_alive()]
            os.kill(random.Random(number).choice(victims).pid or 0, signal.SIGKILL)
            found[which] += not done.wait(30)
            for one in multiprocessing.active_children():
                one.kill()
    return found[0], found[1]


def by_executor(size: int, done: threading.Event) -> None:
    executor = ProcessPoolExecutor(HELPERS, multiprocessing.get_context("forkserver"))
    wait([executor.submit(much, size) for _ in range(1000)])
    done.set()


def by_helpers(size: int, done: threading.Event) -> None:
    Processes().map(much, [(size,)] * 1000)
    done.set()


# ---- all of them -----------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--engine")
    options = parser.parse_args()
    if options.engine:
        measure(options.engine)
    elif options.kills:
        executor, helpers = hangs(options.kills, 4)
        print(f"{options.kills} helpers killed while they sent 4 MB: executor {executor} hang, helpers {helpers}")
        sys.stdout.flush()
        os._exit(0)  # without waiting for an executor that hangs
    else:
        compare(options.rounds)


def compare(rounds: int) -> None:
    print(f"{PEOPLE:,} people, {WINDOWS} windows of {INSTANTS} instants, k = 10; medians of {rounds} rounds")
    print(f"{'':22}{'start s':>8}{'CPU s':>7}{'first s':>9}{'CPU s':>7}{'again s':>9}{'CPU s':>7}{'MB':>6}  cloaks")
    lines: dict[str, list[list[str]]] = {name: [] for name in ENGINES}
    for _ in range(rounds):
        for name in ENGINES:
            command = [sys.executable, __file__, "--engine", name]
            told = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            lines[name].append(told.stdout.split())
    for name, told in lines.items():
        start, start_cpu, first, first_cpu, again, again_cpu, mb = (
            median(float(one[column]) for one in told) for column in range(7)
        )
        (digest,) = {one[7] for one in told}
        print(
            f"{name:22}{start:8.1f}{start_cpu:7.1f}{first:9.1f}{first_cpu:7.1f}{again:9.1f}{again_cpu:7.1f}{mb:6.0f}  "
            f"{digest}"
        )


if __name__ == "__main__":
    main()
