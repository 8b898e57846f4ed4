"""What it costs to share the windows of a run among processes, by several engines.

Run with ``./dev bench benchmarks/shared_windows.py [--rounds N] [--kills N]``. Each round runs each engine in a process
of its own, one after the other. CPU seconds are of that process and of all that it has started. Where other programs
use the machine, only these can be compared. With `--kills` it kills helpers while they send results, and counts the
calls that hang.

With ``--people N`` it measures each window of so many people alone (CPU seconds, bytes), and replays the schedule for
1, 2, 4 and 8 machines.
"""

import argparse
import hashlib
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from dbanon.base import cores, tasks
from dbanon.base.cloaks import Cloaks
from dbanon.base.tasks import SERIAL_TASKS, Processes, Tasks
from dbanon.base.trajectory import Trajectories
from dbanon.methods import METHODS

PEOPLE, WINDOWS, INSTANTS, SEED = 50_000, 8, 30, 20120905
BUSY_TASKS = 24  # tasks that keep one core busy for half a second or more
HELPERS = cores.count_threads()
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


def make_walks(people: int = PEOPLE) -> Trajectories:
    """People who walk about in a city of 10 km, with a fix a minute."""
    rng = np.random.default_rng(SEED)
    length = WINDOWS * INSTANTS
    x, y = rng.uniform(0, 10_000, (2, people, 1)) + rng.normal(0, 20, (2, people, length)).cumsum(axis=2)
    return Trajectories(
        trajectory_id=np.arange(people) + 1, subject=np.arange(people), offset=length * np.arange(people + 1),
        t=np.tile(60.0 * np.arange(length), people), x=x.ravel(), y=y.ravel(), srid=32610, grid_m=1.0, grid_s=1,
    )  # fmt: skip


def do_nothing(number: int) -> int:
    return number


def keep_busy(number: int) -> int:
    return sum(n & 3 for n in range(number))


def return_bytes(number: int) -> bytes:
    return bytes(number)


def call_on_one_core(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    with cores.limit_threads(1):
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
            waiting.append(self.submit(call_on_one_core, function, each))
            if len(waiting) > 2 * HELPERS:
                results.append(waiting.popleft().result())
        return results + [future.result() for future in waiting]


class Helpers(Processes):
    """Helpers for each core, although a window keeps several busy."""

    def map(self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], *, threads: int = 1) -> list[Any]:
        """Do tasks, each on one core."""
        return super().map(function, arguments)


@contextmanager
def open_engine(name: str) -> Iterator[Tasks]:
    if name == "here":
        yield SERIAL_TASKS
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


def list_family(pid: int) -> list[int]:
    """List a process and all below it."""
    pids = [pid]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        pids += [one for child in (thread / "children").read_text().split() for one in list_family(int(child))]
    return pids


def measure_cpu_s() -> float:
    """Sum the CPU seconds of this process and all below it, with those that have ended."""
    ticks = 0
    for pid in list_family(os.getpid()):
        ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measure_pss_mb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) // 1024


def watch(seen: list[int], over: threading.Event) -> None:
    """Note again and again how much memory all processes below this one have."""
    while not over.wait(1):
        try:
            seen.append(sum(measure_pss_mb(pid) for pid in list_family(os.getpid())[1:]))
        except (OSError, StopIteration):  # one of them has just ended
            continue


def measure(name: str) -> None:
    """Print the seconds and CPU seconds of each step, the helpers' memory, and a digest of the cloaks."""
    family, data = METHODS["tp-aware"], make_walks()
    params = family.parse({"k": 10, "instants": INSTANTS, "start": 0})
    family.prepare("traj-anon", params)
    figures: list[float] = []
    cloaks: list[Cloaks] = []

    def compute() -> None:
        cloaks.append(family.anonymise(data, "traj-anon", params, np.random.default_rng(0), tasks=shared))

    def work() -> None:
        shared.map(keep_busy, [(20_000_000,)] * BUSY_TASKS)

    seen: list[int] = []
    over = threading.Event()
    began, before = time.perf_counter(), measure_cpu_s()
    with open_engine(name) as shared:
        threading.Thread(target=watch, args=(seen, over), daemon=True).start()
        shared.map(do_nothing, [(1,), (2,)])
        for step in (compute, compute, work):
            figures += [time.perf_counter() - began, measure_cpu_s() - before]
            began, before = time.perf_counter(), measure_cpu_s()
            step()
        figures += [time.perf_counter() - began, measure_cpu_s() - before]
        over.set()
    digest = hashlib.sha256(cloaks[-1].bounds.tobytes() + cloaks[-1].member_record.tobytes()).hexdigest()[:12]
    print(*figures, median([mb for mb in seen if mb] or [0]), digest)


# ---- killed while they send ------------------------------------------------------------------------------------------


def count_hangs(kills: int) -> dict[str, int]:
    """Count the calls that do not end when a helper is killed while it sends."""
    hangs = {"executor": 0, "helpers": 0}
    tasks._WORTH_S = 0
    rng = random.Random(SEED)
    for name in list(hangs) * kills:
        going, killed, ended = threading.Event(), threading.Event(), threading.Event()
        threading.Thread(target=send_much, args=(name, going, killed, ended), daemon=True).start()
        going.wait()
        time.sleep(rng.random() / 10)
        os.kill(rng.choice(multiprocessing.active_children()).pid or 0, signal.SIGKILL)
        killed.set()
        hangs[name] += not ended.wait(60)
        for one in multiprocessing.active_children():
            one.kill()
    return hangs


def send_much(name: str, going: threading.Event, killed: threading.Event, ended: threading.Event) -> None:
    """Have two helpers send megabytes until one is killed; only then a few more."""

    def sizes() -> Iterator[tuple[int]]:
        for number in range(1000):
            yield (1 << 20,)
            if number == 30:
                going.set()
            if killed.is_set():
                return

    with suppress(BrokenProcessPool):
        if name == "helpers":
            Processes().map(return_bytes, sizes())
        else:
            executor = ProcessPoolExecutor(HELPERS, multiprocessing.get_context("forkserver"))
            Futures(executor.submit).map(return_bytes, sizes())
    ended.set()


# ---- many machines, replayed -----------------------------------------------------------------------------------------

NETWORK_BYTES_S, DELAY_S = 125e6, 0.002  # of a machine's line: 1 Gbit/s; there and back


@dataclass
class Measured:
    """`Tasks` that another machine would do, done here one after the other: what each costs."""

    tasks: list[tuple[float, int]] = field(default_factory=list)  # CPU s and bytes of each

    def map(self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], *, threads: int = 1) -> list[Any]:
        """Do tasks, on one core each."""
        results = []
        for each in arguments:
            sent = pickle.dumps((function, each), pickle.HIGHEST_PROTOCOL)
            before = time.process_time()
            results.append(call_on_one_core(*pickle.loads(sent)))
            self.tasks.append((time.process_time() - before, len(sent) + len(pickle.dumps(results[-1]))))
        return results


def replay(people: int) -> None:
    """Measure each task, and say how long so many machines would take if each did its share as measured."""
    family, data, windows = METHODS["tp-aware"], make_walks(people), Measured()
    params = family.parse({"k": 50, "instants": INSTANTS, "start": 0})
    family.prepare("traj-anon", params)
    with cores.limit_threads(1):
        before = time.process_time()
        family.anonymise(data, "traj-anon", params, np.random.default_rng(0), tasks=windows)
        alone = time.process_time() - before - sum(cpu_s for cpu_s, _ in windows.tasks)
    total, sent = (sum(column) for column in zip(*windows.tasks, strict=True))
    print(f"{people:,} people, {WINDOWS} windows of {INSTANTS} instants, k = 50")
    print(f"{len(windows.tasks)} tasks of {total:.1f} CPU s, {sent / 1e6:.1f} MB; besides, {alone:.1f} s here")
    print("replayed from measured CPU seconds and bytes; not measured on so many machines:")
    once = alone + compute_makespan(windows.tasks, 1)
    for machines in (1, 2, 4, 8):
        seconds = alone + compute_makespan(windows.tasks, machines)
        print(f"{machines:3} machines {seconds:8.2f} s, {once / seconds:5.2f} times as fast")


def compute_makespan(measured: list[tuple[float, int]], machines: int) -> float:
    """Hand each task to the machine that is free first; bytes leave the leader one task after the other."""
    free, line = [0.0] * machines, 0.0
    for cpu_s, size in measured:
        line += size / NETWORK_BYTES_S
        at = min(range(machines), key=free.__getitem__)
        free[at] = max(free[at], line) + DELAY_S + cpu_s
    return max(free)


# ---- all of them -----------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--people", type=int, default=0)
    parser.add_argument("--engine")
    options = parser.parse_args()
    if options.engine:
        measure(options.engine)
    elif options.people:
        replay(options.people)
    elif options.kills:
        counts = ", ".join(f"{number} with {name}" for name, number in count_hangs(options.kills).items())
        print(f"of {options.kills} calls each, these hung after a helper was killed: {counts}")
        sys.stdout.flush()
        os._exit(0)  # without waiting for an executor that hangs
    else:
        compare(options.rounds)


def compare(rounds: int) -> None:
    print(f"{PEOPLE:,} people, {WINDOWS} windows of {INSTANTS} instants, k = 10, and {BUSY_TASKS} tasks of one core")
    print(f"medians of {rounds} rounds")
    pairs = "".join(f"{what + ' s':>10}{'CPU s':>7}" for what in ("start", "windows", "again", "one core"))
    print(f"{'':20}{pairs}{'MB':>6}  cloaks")
    lines: dict[str, list[list[str]]] = {name: [] for name in ENGINES}
    for _ in range(rounds):
        for name in ENGINES:
            command = [sys.executable, __file__, "--engine", name]
            told = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            lines[name].append(told.stdout.split())
    for name, told in lines.items():
        *seconds, mb = (median(float(one[column]) for one in told) for column in range(9))
        figures = "".join(f"{s:10.1f}{cpu:7.1f}" for s, cpu in zip(seconds[::2], seconds[1::2], strict=True))
        (digest,) = {one[9] for one in told}
        print(f"{name:20}{figures}{mb:6.0f}  {digest}")


if __name__ == "__main__":
    main()
