"""How much sooner a run of several windows is computed where idle processes of a worker help.

Run with ``./dev bench benchmarks/shared_windows.py``. Seconds of the clock, and of the processor in each process: where
other programs use the machine, only these say how the work was divided.
"""

import hashlib
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from dbanon.base.trajectory import Trajectories
from dbanon.methods import METHODS
from dbanon.worker._pool import Pool

PEOPLE, WINDOWS, INSTANTS, SEED = 50_000, 8, 30, 20120905


def walks() -> Trajectories:
    """People who walk about in a city of 10 km, with a fix a minute."""
    rng = np.random.default_rng(SEED)
    length = WINDOWS * INSTANTS
    x, y = rng.uniform(0, 10_000, (2, PEOPLE, 1)) + rng.normal(0, 20, (2, PEOPLE, length)).cumsum(axis=2)
    return Trajectories(
        trajectory_id=np.arange(PEOPLE) + 1, subject=np.arange(PEOPLE), offset=length * np.arange(PEOPLE + 1),
        t=np.tile(60.0 * np.arange(length), PEOPLE), x=x.ravel(), y=y.ravel(), srid=32610, grid_m=1.0, grid_s=1,
    )  # fmt: skip


def help_for_ever(directory: str, processes: int) -> None:
    pool = Pool(Path(directory), processes)
    while True:
        if not pool.help(lambda: os._exit(0)):
            time.sleep(0.01)


def cpu_s(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    family, data = METHODS["tp-aware"], walks()
    params = family.parse({"k": 10, "instants": INSTANTS, "start": 0})
    family.prepare("traj-anon", params)
    context = multiprocessing.get_context("spawn")
    print(f"{PEOPLE:,} people, {WINDOWS} windows of {INSTANTS} instants, k = 10")
    for processes in (1, 2):
        with tempfile.TemporaryDirectory() as directory:
            helpers = [context.Process(target=help_for_ever, args=(directory, processes)) for _ in range(processes - 1)]
            for helper in helpers:
                helper.start()
            pids = [os.getpid(), *(helper.pid for helper in helpers)]
            pool = Pool(Path(directory), processes)
            for _ in range(2):  # the first call loads the kernels in the helpers
                before, began = [cpu_s(pid) for pid in pids], time.perf_counter()
                cloaks = family.anonymise(data, "traj-anon", params, np.random.default_rng(0), tasks=pool)
                seconds = time.perf_counter() - began
                used = [cpu_s(pid) - then for pid, then in zip(pids, before, strict=True)]
            for helper in helpers:
                helper.kill()
                helper.join()
        digest = hashlib.sha256(cloaks.bounds.tobytes() + cloaks.member_record.tobytes()).hexdigest()[:12]
        cpu = ", ".join(f"{one:.1f}" for one in used)
        print(f"{processes} processes: {seconds:.1f} s, of the processor {cpu} s; cloaks {digest}")


if __name__ == "__main__":
    main()
