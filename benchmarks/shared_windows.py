"""What it costs to share the windows of a run among processes, by several engines.

Run with ``./dev bench benchmarks/shared_windows.py [--rounds N] [--kills N]``. Each round runs each engine in a process
of its own, one after the other. CPU seconds are of that process and of all that it has started. Where other programs
use the machine, only these can be compared. With `--kills` it kills helpers while they send results, and counts the
calls that hang.

With ``--people N`` it compares one process of one thread with a Dask scheduler and two processes of one thread each on
this machine, for each kind of task, with so many people or fewer, and kills one of them at work.
"""

import argparse
import hashlib
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import distributed
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import k_merge, mob
from dbanon.base import cores, tasks
from dbanon.base.cloaks import Cloaks
from dbanon.base.tasks import SERIAL_TASKS, Processes, Tasks
from dbanon.base.trajectory import Trajectories
from dbanon.methods import METHODS
from dbanon.worker.cluster import Cluster

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
    print(*figures, median([mb for mb in seen if mb] or [0]), digest_cloaks(cloaks[-1]))


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


# ---- a cluster on this machine ---------------------------------------------------------------------------------------


def make_works(people: int) -> dict[str, tuple[str, str, dict[str, Any], Trajectories, dict[str, Any]]]:
    """Make what each kind of task is measured with: family, algorithm, parameters, people, and what else it reads."""
    objects, known = mob.make_objects(people // 5, mob.SIZE, mob.INSTANTS)
    exact = {"k": 10, "align": "exact", "step_s": mob.STEP_S}
    return {
        "`tp-aware`, windows": (
            "tp-aware", "traj-anon", {"k": 10, "instants": INSTANTS, "start": 0}, make_walks(people), {},
        ),
        "`k-merge`, windows": ("kte", "k-merge", {"k": 5, "window_s": 1800}, k_merge.make_windows(people // 10, 8), {}),
        "`k-merge`, blocks and pairs": ("kte", "k-merge", {"k": 2}, k_merge.make_phones(people // 5), {}),
        "`mob`, candidates": ("mob", "symmetric", exact, objects, {"quasi_identifiers": known}),
    }  # fmt: skip


@contextmanager
def start_cluster() -> Iterator[tuple[Cluster, list[subprocess.Popen[bytes]]]]:
    """Start a scheduler and two processes of one thread each, as an operator does."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        free.close()
        dask = [sys.executable, "-m", "dask"]
        quiet: dict[str, Any] = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        port = address.rpartition(":")[2]
        started = [
            subprocess.Popen([*dask, "scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"], **quiet)
        ]
        one = ["worker", address, "--nworkers", "1", "--nthreads", "1", "--no-dashboard", "--no-nanny"]
        try:
            started += [subprocess.Popen([*dask, *one], **quiet) for _ in range(2)]
            with distributed.Client(address, timeout=60, set_as_default=False) as client:
                client.wait_for_workers(2, timeout=60)
            yield Cluster(address), started[1:]
        finally:
            for process in started:
                process.kill()
                process.wait()


@dataclass
class Timed:
    """`Tasks` that others do, and the seconds of them all."""

    others: Tasks
    seconds: float = 0.0

    def map(self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], *, threads: int = 1) -> list[Any]:
        """Do tasks, each on one core."""
        began = time.perf_counter()
        try:
            return self.others.map(function, arguments, threads=threads)
        finally:
            self.seconds += time.perf_counter() - began


def measure_cluster(people: int) -> None:
    """Compare one process of one thread with the cluster, for each kind of task; then kill a process at work."""
    print("| tasks | one process, s (all) | two of a cluster, s (all) | times as fast (all) |\n|---|---|---|---|")
    with start_cluster() as (cluster, processes):
        for name, (method, algorithm, given, data, also) in make_works(people).items():
            family = METHODS[method]
            params = family.parse(given, algorithm)
            family.prepare(algorithm, params)
            made, took = [], []
            for shared, rounds in ((SERIAL_TASKS, 1), (cluster, 2)):  # first, processes read what they need
                for _ in range(rounds):
                    began, timed, rng = time.perf_counter(), Timed(shared), np.random.default_rng(0)
                    with cores.limit_threads(1):
                        made.append(family.anonymise(data, algorithm, params, rng, tasks=timed, **also))
                    seconds = np.array([timed.seconds, time.perf_counter() - began])
                took.append(seconds)
            if len({digest_cloaks(cloaks) for cloaks in made}) > 1:
                raise SystemExit(f"{name}: the cluster computed other rows.")
            pairs = [*took, took[0] / took[1]]
            print(f"| {name} | " + " | ".join(f"{one:.2f} ({whole:.2f})" for one, whole in pairs) + " |", flush=True)
        threading.Timer(2, processes[0].kill).start()
        began = time.perf_counter()
        done = cluster.map(keep_busy, [(20_000_000,)] * BUSY_TASKS)
        took_s = time.perf_counter() - began
    if done != [keep_busy(20_000_000)] * BUSY_TASKS:
        raise SystemExit("A task that was lost with its process was not done again.")
    print(f"{BUSY_TASKS} tasks of one core, one of two processes killed after 2 s: all done in {took_s:.1f} s")


def digest_cloaks(cloaks: Cloaks) -> str:
    return hashlib.sha256(cloaks.bounds.tobytes() + cloaks.member_record.tobytes()).hexdigest()[:12]


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
        measure_cluster(options.people)
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
