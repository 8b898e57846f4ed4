"""How much faster the optimised Traj-anon is than Algorithm 1 as the paper prints it, and how both grow with the data.

Run with ``./dev bench``. The plain side is the tests' oracle (Algorithm 1 with k-summing on the materialised binary
US-tree, in Python), run in the same process on the same data, and the costs of both are held against each other.
"""

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from dbanon import _memory, methods
from dbanon.methods.tp_aware import _binary_us_tree as tree
from dbanon.trajectory import Trajectories
from tests.unit import oracles_tp_aware as oracle

SEED = 20120905


def walks(n: int, instants: int, side: int, step: int) -> np.ndarray:
    """Random walks of n subjects on a square of cells: int32[n, instants, 2]."""
    rng = np.random.default_rng(SEED)
    start = rng.integers(0, side, (n, 1, 2))
    return np.clip(start + rng.integers(-step, step + 1, (n, instants, 2)).cumsum(axis=1), 0, side - 1).astype(np.int32)


def fast(x: np.ndarray, y: np.ndarray, height: int, k: int) -> float:
    _, node = tree.build(x, y, height, k)
    return float(tree.best_configuration(node, tree.areas(node[:, 2], x.shape[1], height), k)[2])


def plain(cells: np.ndarray, height: int, k: int) -> float:
    instants = cells.shape[1]
    trajectories = [[tuple(map(int, fix)) for fix in one] for one in cells]
    return float(oracle.optimum(oracle.grow(trajectories, oracle.binary_steps(instants, height), height), k))


def against_the_paper() -> None:
    print("optimised against Algorithm 1 as printed, l = 5, k = 5, a square of 256 cells")
    print(f"{'n':>6} {'plain s':>10} {'fast s':>10} {'ratio':>10}   same cost")
    warm = walks(50, 5, 256, 8)
    fast(np.ascontiguousarray(warm[..., 0]), np.ascontiguousarray(warm[..., 1]), 8, 5)
    for n in (100, 200, 400, 800):
        cells = walks(n, 5, 256, 8)
        x, y = np.ascontiguousarray(cells[..., 0]), np.ascontiguousarray(cells[..., 1])
        began = time.perf_counter()
        slow_cost = plain(cells, 8, 5)
        middle = time.perf_counter()
        fast_cost = fast(x, y, 8, 5)
        ended = time.perf_counter()
        slow_s, fast_s = middle - began, ended - middle
        print(f"{n:>6} {slow_s:>10.3f} {fast_s:>10.5f} {slow_s / fast_s:>10.0f}   {slow_cost == fast_cost}")


def growth() -> None:
    print("\nthe whole method in memory, alignment to rectangles: l = 30, k = 50, a square of 20 km")
    print(f"{'n':>8} {'seconds':>10} {'us a trajectory':>16} {'peak MB so far':>15} {'mean side m':>12}")
    family = methods.method("tp-aware")
    params = family.parse({"k": 50, "start": 0})
    for n in (2_000, 10_000, 50_000, 200_000):
        cells = walks(n, 30, 2000, 20)
        data = Trajectories(
            trajectory_id=np.arange(n),
            subject=np.arange(n),
            offset=np.arange(n + 1) * 30,
            t=np.tile(np.arange(30) * 60.0, n),
            x=cells[..., 0].ravel() * 10.0,
            y=cells[..., 1].ravel() * 10.0,
            srid=32610,
            grid_m=10.0,
            grid_s=1,
        )
        began = time.perf_counter()
        cloaks = family.anonymise(data, "traj-anon", params, np.random.default_rng(SEED))
        seconds = time.perf_counter() - began
        peak = _memory.peak_mb()
        side = (cloaks.metrics["mbr_cost_m2"] / (30 * n)) ** 0.5
        print(f"{n:>8} {seconds:>10.2f} {1e6 * seconds / n:>16.1f} {peak:>15.0f} {side:>12.0f}")


if __name__ == "__main__":
    against_the_paper()
    growth()
