"""The paper's figures 12 to 16 on taxi pick-ups: time and GGC of BK, MK, KNN and Local, and what `improve` adds to BK.

KNN and Local are of `benchmarks.papers.sensitive_sites`.

Subjects are pick-ups, sites are drawn at random among drop-offs. Times are of the whole computation in memory (curve,
algorithm, guards, rows), compiled code at hand, the median of three. "to bk" and "to less" compare bk+improve with bk
and with the cheaper of bk and mk; 2-by-2 sums a rectangle for each subject and site, k times as many.
``./dev bench benchmarks/sensitive_sites.py`` runs all; parts (plain, large, small) can be named after it with Python,
and ``once`` for one run each instead of three.
"""

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import benchmarks.papers.sensitive_sites  # noqa: F401 - adds knn and local
from benchmarks import _pickups
from dbanon import methods
from dbanon.base import memory
from dbanon.base.trajectory import Sites, Trajectories
from dbanon.methods.kernels import hilbert
from dbanon.methods.sensitive_sites import _bichromatic
from dbanon.methods.sensitive_sites._boxes import Boxes
from tests.unit import oracles_sensitive_sites as oracle

SEED = 2008
RUNS = 1 if "once" in sys.argv else 3
FAMILY = methods.find_method("sensitive-sites")
Run = tuple[float, float]


def run(data: Trajectories, places: Sites, algorithm: str, k: int, **params: object) -> Run:
    """Seconds, the median of the runs, and GGC in percent."""
    chosen = FAMILY.parse({"k": k, **params})
    seconds = []
    for _ in range(RUNS):
        began = time.perf_counter()
        cloaks = FAMILY.anonymise(data, algorithm, chosen, np.random.default_rng(SEED), sites=places)
        seconds.append(time.perf_counter() - began)
    return sorted(seconds)[RUNS // 2], cloaks.metrics["ggc_percent"]


def compare_with_paper() -> None:
    """BK against its pseudocode with full matrices, in Python, on cells in the order of the curve."""
    print("bk against the paper's matrices in Python: k = 5, a square of 2,048 cells")
    print(f"{'n':>6} {'m':>5} {'plain s':>9} {'fast s':>9} {'ratio':>8}   same groups")
    rng = np.random.default_rng(SEED)
    for n, m in ((500, 20), (1_000, 40), (2_000, 80)):
        subjects, sites = (sort_cells(rng.integers(0, 2048, (count, 2))) for count in (n, m))
        _bichromatic.find_best_starts(Boxes.from_array(subjects), Boxes.from_array(sites), 5)
        began = time.perf_counter()
        slow, _ = oracle.group_by_bk(subjects.tolist(), sites.tolist(), 5)
        middle = time.perf_counter()
        fast = _bichromatic.find_best_starts(Boxes.from_array(subjects), Boxes.from_array(sites), 5)
        ended = time.perf_counter()
        slow_s, fast_s = middle - began, ended - middle
        same = bool((fast == np.asarray(slow)).all())
        print(f"{n:>6} {m:>5} {slow_s:>9.2f} {fast_s:>9.5f} {slow_s / fast_s:>8.0f}   {same}")


def sort_cells(cells: np.ndarray) -> np.ndarray:
    """Cells along the curve as rectangles: int64[n, 4]."""
    order = np.argsort(hilbert.number_cells(cells[:, 0], cells[:, 1], 11), kind="stable")
    return np.hstack([cells[order], cells[order]])


ALGORITHMS = {"bk": {"improve": False}, "mk": {}, "knn": {}, "bk+improve": {}}
HEADER = "".join(f"{f'{name} s':>14}{'GGC %':>9}" for name in ALGORITHMS) + f"{'to bk':>8}{'to less':>9}"


def compare(data: Trajectories, places: Sites, k: int) -> str:
    runs = {name: run(data, places, name.split("+")[0], k, **params) for name, params in ALGORITHMS.items()}
    improved, bk, mk = (runs[name][1] for name in ("bk+improve", "bk", "mk"))
    changed = f"{100 * improved / bk - 100:>+7.0f}%{100 * improved / min(bk, mk) - 100:>+8.0f}%"
    return "".join(f"{s:>14.2f}{ggc:>9.3f}" for s, ggc in runs.values()) + changed


def print_large(positions: np.ndarray, drops: np.ndarray) -> None:
    """Figures 14, 15 and 16: every m and K, sites that are others' places and sites that are subjects', and every n."""
    data = _pickups.make_subjects(positions)
    print(f"\nfigures 14 and 15: {len(positions):,} subjects, m sites, K")
    print(f"{'m':>6} {'K':>4}{HEADER}")
    for m in (500, 1_000, 2_000, 4_000):
        places = _pickups.draw_sites(drops, m, np.random.default_rng(SEED + m))
        for k in (5, 20, 50):
            print(f"{m:>6} {k:>4}{compare(data, places, k)}", flush=True)
    print("\nas the paper draws them: sites among the subjects' own positions, K = 20")
    print(f"{'m':>6}{HEADER}")
    for m in (500, 1_000, 2_000, 4_000):
        places = _pickups.draw_sites(positions, m, np.random.default_rng(SEED + m))
        print(f"{m:>6}{compare(data, places, 20)}", flush=True)
    print("\nfigure 16: n subjects, 2,000 sites, K = 20")
    print(f"{'n':>8}{HEADER}")
    rng = np.random.default_rng(SEED)
    places = _pickups.draw_sites(drops, 2_000, np.random.default_rng(SEED + 2_000))
    for n in (100_000, 200_000, 300_000, 400_000, len(positions)):
        some = _pickups.make_subjects(positions[rng.choice(len(positions), n, replace=False)])
        print(f"{n:>8}{compare(some, places, 20)}", flush=True)
    print(f"peak memory so far: {memory.measure_peak_mb():,.0f} MB")


def print_small(positions: np.ndarray, drops: np.ndarray) -> None:
    """Figures 12 and 13: 10,000 subjects, with Local in its secure format and as 2-by-2 published it."""
    data = _pickups.make_subjects(positions[np.random.default_rng(SEED).choice(len(positions), 10_000, replace=False)])
    header = f"{HEADER}{'local s':>9}{'GGC %':>9}{'2-by-2 %':>10}"
    print(f"\nfigure 12: 10,000 subjects, m sites, K = 5\n{'m':>6}{header}")
    for m in (50, 100, 150, 200):
        places = _pickups.draw_sites(drops, m, np.random.default_rng(SEED + m))
        print(f"{m:>6}{compare(data, places, 5)}{measure_local(data, places, 5)}", flush=True)
    print(f"\nfigure 13: 10,000 subjects, 200 sites, K\n{'K':>6}{header}")
    places = _pickups.draw_sites(drops, 200, np.random.default_rng(SEED + 200))
    for k in (2, 5, 10, 20):
        print(f"{k:>6}{compare(data, places, k)}{measure_local(data, places, k)}", flush=True)


def measure_local(data: Trajectories, places: Sites, k: int) -> str:
    seconds, secure = run(data, places, "local", k)
    _, open_format = run(data, places, "local-2-by-2", k)
    return f"{seconds:>9.3f}{secure:>9.3f}{open_format:>10.3f}"


def main(parts: list[str]) -> None:
    for algorithm in ("bk", "mk", "knn", "local"):
        FAMILY.prepare(algorithm, FAMILY.parse({}))
    if "plain" in parts:
        compare_with_paper()
    if not _pickups.EVENTS.is_file():
        print("The taxi data do not lie beside the repository; the figures are left out.")
        return
    positions, drops = (_pickups.convert_to_metres(_pickups.read_events(kind)) for kind in "PD")
    if "large" in parts:
        print_large(positions, drops)
    if "small" in parts:
        print_small(positions, drops)


if __name__ == "__main__":
    main(sys.argv[1:] or ["plain", "large", "small"])
