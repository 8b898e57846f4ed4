"""What it costs to share the windows of a run among processes, by several engines.

Run with ``./dev bench benchmarks/shared_windows.py [--rounds N] [--kills N]``. Each round runs each engine in a process
of its own, one after the other. CPU seconds are of that process and of all that it has started. Where other programs
use the machine, only these can be compared. With `--kills` it kills helpers while they send results, and counts the
calls that hang.

With ``--people N`` it attacks a run of so many people on a server of its own: in one process of one thread, of two, and
in two processes of one thread each, which read for themselves. Then it measures each task of the computation and of the
attack alone (CPU seconds of client and server, bytes), and replays the schedule for 1, 2, 4 and 8 machines.
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
from benchmarks._data import CITY, fill
from benchmarks._measure import run_private_server
from dbanon.attacks import import_attacker
from dbanon.base import cores, memory, tasks
from dbanon.base.cloaks import Cloaks
from dbanon.base.tasks import HERE, Processes, Tasks
from dbanon.base.trajectory import Trajectories
from dbanon.database import open_database
from dbanon.methods import METHODS
from dbanon.runs import parts, reading
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


def make_walks() -> Trajectories:
    """People who walk about in a city of 10 km, with a fix a minute."""
    rng = np.random.default_rng(SEED)
    length = WINDOWS * INSTANTS
    x, y = rng.uniform(0, 10_000, (2, PEOPLE, 1)) + rng.normal(0, 20, (2, PEOPLE, length)).cumsum(axis=2)
    return Trajectories(
        trajectory_id=np.arange(PEOPLE) + 1, subject=np.arange(PEOPLE), offset=length * np.arange(PEOPLE + 1),
        t=np.tile(60.0 * np.arange(length), PEOPLE), x=x.ravel(), y=y.ravel(), srid=32610, grid_m=1.0, grid_s=1,
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

        if name == "dask cluster":
            with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
                yield Cluster(cluster.scheduler_address)
            return

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
    found = [pid]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        found += [one for child in (thread / "children").read_text().split() for one in list_family(int(child))]
    return found


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
    found = {"executor": 0, "helpers": 0}
    tasks._WORTH_S = 0
    rng = random.Random(SEED)
    for name in list(found) * kills:
        going, killed, ended = threading.Event(), threading.Event(), threading.Event()
        threading.Thread(target=send_much, args=(name, going, killed, ended), daemon=True).start()
        going.wait()
        time.sleep(rng.random() / 10)
        os.kill(rng.choice(multiprocessing.active_children()).pid or 0, signal.SIGKILL)
        killed.set()
        found[name] += not ended.wait(60)
        for one in multiprocessing.active_children():
            one.kill()
    return found


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


# ---- the attack in parts ---------------------------------------------------------------------------------------------

NETWORK_BYTES_S, DELAY_S = 125e6, 0.002  # of a machine's line: 1 Gbit/s; there and back
SERVER_CORES = 8
MIN_PART_FIXES = 1 << 19  # of a part at least; a worker's have more
PARAMS = {"k": 50, "instants": 5}


@dataclass
class Measured:
    """`Tasks` that another machine would do, done here one after the other: what each costs."""

    readers_: int = 4
    # Client and server CPU s of each as the first one of a process and as a later one, and its bytes.
    tasks: list[tuple[tuple[float, float], tuple[float, float], int]] = field(default_factory=list)

    def count_readers(self, threads: int = 1) -> int:
        """Count readers: that many parts, twice, are cut."""
        del threads
        return self.readers_

    def map(self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], *, threads: int = 1) -> list[Any]:
        """Do tasks, on one core each."""
        del threads
        results = []
        for each in arguments:
            sent = pickle.dumps((function, each), pickle.HIGHEST_PROTOCOL)
            task, given = pickle.loads(sent)
            parts._prepared.clear()  # as in a process that does its first one
            costs = []
            for _ in range(2):
                before, server = time.process_time(), measure_server_cpu_s()
                result = call_on_one_core(task, given)
                costs.append((time.process_time() - before, measure_server_cpu_s() - server))
            self.tasks.append((costs[0], costs[1], len(sent) + len(pickle.dumps(result))))
            results.append(result)
        return results


def measure_server_cpu_s() -> float:
    """CPU seconds of the embedded server's sessions that have ended: of the postmaster's children."""
    pid = int((Path(os.environ["DBANON_HOME"]) / "data" / "postmaster.pid").read_text().split()[0])
    fields_ = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields_[13:15])) / os.sysconf("SC_CLK_TCK")


def judge_run(url: str, run_id: int, shared: Tasks) -> str:
    """Attack a run; a digest of the verdict."""
    parts._MIN_PART_FIXES = MIN_PART_FIXES
    attack = import_attacker("dbanon.attacks.tp_aware")
    with reading.open_reader(url) as reader:
        evidence, digest = reader.read_evidence(run_id, None, shared)
        verdict = attack.attack(evidence)
    return hashlib.sha256(repr(verdict).encode() + digest).hexdigest()[:12]


def verify(name: str, run_id: int) -> None:
    """Print seconds of an attack, CPU seconds of its processes and the server, peak memory here, and a digest."""
    url = os.environ["DBANON_DSN"]
    import_attacker("dbanon.attacks.tp_aware").prepare()  # type: ignore[attr-defined]
    with open_engine("dask cluster" if name == "two processes" else name) as shared:
        judge_run(url, run_id, shared)  # processes have started, and kernels are loaded
        memory.forget_peak()
        began, before, server = time.perf_counter(), measure_cpu_s(), measure_server_cpu_s()
        digest = judge_run(url, run_id, shared)
        seconds = time.perf_counter() - began
    print(seconds, measure_cpu_s() - before, measure_server_cpu_s() - server, memory.measure_peak_mb(), digest)


def measure_attack_in_parts(people: int, rounds: int) -> None:
    with run_private_server() as (own, directory):
        url = own.url
        os.environ["DBANON_HOME"] = str(directory / "home")
        with open_database() as database:
            dataset = fill(database, people)
            run_id = database.run("tp-aware", dataset=dataset, params=PARAMS).run_id
        os.environ["DBANON_DSN"] = url
        print(f"{people:,} people in {CITY}, 30 instants in 6 windows, k = 50; medians of {rounds} rounds")
        print(f"{'attack':24}{'s':>8}{'CPU s':>8}{'server':>8}{'MB':>7}  verdict")
        ways = {"one thread": ("here", 1), "two threads": ("here", 2), "two processes": ("two processes", 1)}
        lines: dict[str, list[list[str]]] = {way: [] for way in ways}
        for way in [*ways] * rounds:
            name, threads = ways[way]
            command = [sys.executable, __file__, "--verify", name, str(run_id)]
            environment = {**os.environ, "NUMBA_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
            told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
            lines[way].append(told.stdout.split()[-5:])
        for way, told in lines.items():
            seconds, cpu, server, mb = (median(float(one[column]) for one in told) for column in range(4))
            print(f"{way:24}{seconds:8.1f}{cpu:8.1f}{server:8.1f}{mb:7.0f}  {', '.join({one[4] for one in told})}")
        replay(url, run_id)


def replay(url: str, run_id: int) -> None:
    """Measure each task, and say how long so many machines would take if each did its share as measured."""
    import_attacker("dbanon.attacks.tp_aware").prepare()  # type: ignore[attr-defined]
    attack, windows = Measured(), Measured()
    with cores.limit_threads(1):
        before = time.process_time()
        judge_run(url, run_id, attack)
        own = time.process_time() - before - sum(first[0] + later[0] for first, later, _ in attack.tasks)
        family = METHODS["tp-aware"]
        with open_database() as database, reading.open_reader(url) as reader:
            dataset = database.connection.execute("SELECT dataset_id FROM dbanon.run WHERE run_id = %s", [run_id])
            data = reader.read_trajectories(dataset.fetchone()[0])  # type: ignore[index]
        params = family.parse(PARAMS)
        family.prepare("traj-anon", params)
        before = time.process_time()
        family.anonymise(data, "traj-anon", params, np.random.default_rng(0), tasks=windows)
        drawn = time.process_time() - before - sum(first[0] + later[0] for first, later, _ in windows.tasks)
    for what, measured, alone in (("attack", attack, own), ("windows", windows, drawn)):
        tasks_ = measured.tasks
        total, sent = sum(later[0] for _, later, _ in tasks_), sum(size for _, _, size in tasks_)
        print(f"\n{what}: {len(tasks_)} tasks of {total:.1f} CPU s, {sent / 1e6:.1f} MB; besides, {alone:.1f} s here")
        print("replayed from measured CPU seconds and bytes; not measured on so many machines:")
        once = alone + compute_makespan(tasks_, 1)
        for machines in (1, 2, 4, 8):
            seconds = alone + compute_makespan(tasks_, machines)
            print(f"{machines:3} machines {seconds:8.2f} s, {once / seconds:5.2f} times as fast")


def compute_makespan(tasks_: list[tuple[tuple[float, float], tuple[float, float], int]], machines: int) -> float:
    """Hand each task to the machine that is free first; bytes leave the leader one task after the other."""
    free, line = [0.0] * machines, 0.0
    for first, later, size in tasks_:
        line += size / NETWORK_BYTES_S
        at = min(range(machines), key=free.__getitem__)
        cpu, server = later if free[at] else first
        # A task waits for whichever is slower, the server's session or itself; sessions share the server's cores.
        free[at] = max(free[at], line) + DELAY_S + max(cpu, server * max(1, machines / SERVER_CORES))
    return max(free)


# ---- all of them -----------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--people", type=int, default=0)
    parser.add_argument("--engine")
    parser.add_argument("--verify", nargs=2)
    options = parser.parse_args()
    if options.engine:
        measure(options.engine)
    elif options.verify:
        verify(options.verify[0], int(options.verify[1]))
    elif options.people:
        measure_attack_in_parts(options.people, options.rounds)
    elif options.kills:
        found = ", ".join(f"{number} with {name}" for name, number in count_hangs(options.kills).items())
        print(f"of {options.kills} calls each, these hung after a helper was killed: {found}")
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
