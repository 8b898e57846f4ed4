"""The family tp-aware: the optimised Traj-anon against the printed one, and against what the paper compares it with.

``python benchmarks/tp_aware.py [PART]... [--limit SECONDS] [--sizes N,N]``; all parts by default:
plain: Algorithm 1 as printed (with k-summing) beside the optimised one, in the same process on the same data.
table: cost and time of every algorithm, with `improve` and without, for k = 5, 10 and 50.
figures: the paper's figures 9 to 14, k = 50: time and cost against number, lengths 10 and 30, and phases.
taxis: the same on a week of taxis, as many cabs as there are, a half and a quarter of them.
growth: how much longer ten times as many people take.
database: seconds and memory from table to verified run, in a cold process (an empty Numba cache) and a warm one; then
of publishing that run. For scale: ``database --sizes 2000000,10000000``.

People move on the streets of San Francisco, as in the paper: random samples of one set, as large as the largest size.
Each case is a process of its own. Seconds begin with trajectories in memory and end with cloaks; the peak is that of
the process until then. A case that takes more seconds of CPU than the limit is stopped, and its algorithm is not tried
with more people; nor where it would take more if they grew with their number alone. "verified" is the verdict of the
family's attack on the cloaks as evidence arrays, as `dbanon verify` has it on the stored rows: each of its clauses.
Costs are sums over people and instants of the area of the bounding rectangle, in m²; the bound is what no groups can be
below, as a sample of the people estimates it, with its standard error.
"""

import argparse
import dataclasses
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import benchmarks.papers.tp_aware  # noqa: F401 - adds bulk-dp, fast-tga, slow-tga and hilbert
from benchmarks._data import CITY, NETWORK, drop, fill
from benchmarks._measure import run_dbanon
from benchmarks.table2 import DAY_S, MIDNIGHT_S, SRID, TAXIS
from dbanon.base import memory
from dbanon.base.trajectory import Requests, Trajectories
from dbanon.methods import METHODS
from dbanon.options.generating import Plan
from dbanon.synth import Scenario
from dbanon.synth._source import read_network

SEED = 20120905
FAMILY = METHODS["tp-aware"]
ALONE = "without improve"
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "traj-anon": ("traj-anon", {}),
    ALONE: ("traj-anon", {"improve": False}),
    **{name: (name, {}) for name in ("bulk-dp", "fast-tga", "slow-tga", "hilbert")},
}
KS = 5, 10, 50
K, LENGTHS, STEP_S = 50, (10, 30), 60
BOTH = "traj-anon", ALONE, "hilbert"  # of which the paper shows both lengths
CHEAPEST = "traj-anon", ALONE, "slow-tga"
SIZES = {
    "table": [10_000, 50_000, 200_000],
    "figures": [10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000],
    "growth": [200_000, 2_000_000],
    "database": [10_000, 50_000, 200_000],
}
BATCH_SUBJECTS = 20_000
BOX = (-123.0, 37.0, -121.5, 38.5)  # beyond it a taxi's position is an error
SHARES = 4, 2, 1
PHASES = {"tree": "build", "configuration": "find_best_configuration", "policy": "assign"}
REST = "positions and cloaks"
VIEW = "benchmark"
DATABASE_PHASES = ("load_s", "compile_s", "compute_s", "write_s", "verify_s", "total_s")


# ---- the printed algorithm -------------------------------------------------------------------------------------------


def compare_plainly() -> None:
    from dbanon.methods.tp_aware import _binary_us_tree as tree
    from tests.unit import oracles_tp_aware as oracle

    instants, k, height = 5, 5, 8
    print(f"\noptimised against Algorithm 1 as printed, l = {instants}, k = {k}, walks on {2**height} cells a side\n")
    print_row("n", "plain s", "optimised s", "ratio", "same cost")
    print_rule(5)
    for n in (50, 100, 200, 400, 800):
        rng = np.random.default_rng(SEED)
        walk = rng.integers(0, 2**height, (n, 1, 2)) + rng.integers(-8, 9, (n, instants, 2)).cumsum(axis=1)
        cells = np.clip(walk, 0, 2**height - 1).astype(np.int32)
        x, y = (np.ascontiguousarray(cells[..., axis]) for axis in (0, 1))

        def optimised(x: np.ndarray = x, y: np.ndarray = y) -> float:
            _, node = tree.build(x, y, height, k)
            return float(tree.find_best_configuration(node, tree.compute_areas(node[:, 2], instants, height), k)[2])

        optimised()  # compiles
        began = time.perf_counter()
        cost = optimised()
        middle = time.perf_counter()
        trajectories = [[tuple(map(int, fix)) for fix in one] for one in cells]
        printed = oracle.find_optimum(
            oracle.grow_tree(trajectories, oracle.list_binary_steps(instants, height), height), k
        )
        slow_s, fast_s = time.perf_counter() - middle, middle - began
        print_row(n, f"{slow_s:.3f}", f"{fast_s:.5f}", f"{slow_s / fast_s:,.0f}", "yes" if printed == cost else "NO")


# ---- cases -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """So many of the people of some data, in windows of so many instants."""

    data: str
    people: int
    instants: int
    k: int
    way: str


@dataclass
class Cases:
    """Measures cases, each once, on data it keeps in files."""

    place: Path
    limit_s: float
    done: dict[Case, dict[str, Any] | None] = field(default_factory=dict)

    def measure(self, case: Case) -> dict[str, Any] | None:
        """Figures of a case; `None` where it was not tried, or was stopped."""
        if case not in self.done:
            self.done[case] = None if self._is_hopeless(case) else self._run(case)
        return self.done[case]

    def _is_hopeless(self, case: Case) -> bool:
        """Whether it would take too long by the time that fewer people took, or they took too long already."""
        fewer = [
            figures
            for other, figures in self.done.items()
            if other.people < case.people and dataclasses.replace(other, people=case.people) == case
        ]
        seconds = ((one["cpu_s"] / one["people"] if one else np.inf) for one in fewer)
        return any(each * case.people > self.limit_s for each in seconds)

    def _run(self, case: Case) -> dict[str, Any] | None:
        words = [sys.executable, __file__, "--case", json.dumps(dataclasses.asdict(case))]
        words += ["--place", str(self.place), "--limit", str(self.limit_s)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode == -signal.SIGPROF:
            return None
        if done.returncode:
            raise SystemExit(f"{case} failed: {done.stderr}")
        return json.loads(done.stdout)


def run_case(case: Case, place: Path, limit_s: float) -> dict[str, Any]:
    """Bundle people in one way, and attack what came out."""
    from dbanon.methods.tp_aware import _binary_us_tree as tree
    from tests.contract.evidence import attack_cloaks

    algorithm, options = WAYS[case.way]
    data, start = read_people(case, place)
    memory.forget_peak()  # that of the file of all people
    given = {"k": case.k, "instants": case.instants, "step_s": STEP_S, "start": start, **options}
    params = FAMILY.parse(given)
    FAMILY.prepare(algorithm, params)
    spent = {phase: time_function(tree, function) for phase, function in PHASES.items()}
    signal.setitimer(signal.ITIMER_PROF, limit_s)  # kills the process: kernels listen to nobody
    began, used = time.perf_counter(), time.process_time()
    cloaks = FAMILY.anonymise(data, algorithm, params, np.random.default_rng(0))
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - used
    signal.setitimer(signal.ITIMER_PROF, 0)
    peak_mb = memory.measure_peak_mb()
    none = Requests(subject=np.empty(0, np.int64), t=np.empty(0), content=np.empty(0, np.int64), contents=())
    joined = FAMILY.attach(cloaks, data, params, requests=none)
    verdict = attack_cloaks(FAMILY, algorithm, params, data, joined, given={"requests": none})
    phases = {phase: sum(parts) for phase, parts in spent.items()}
    return {
        "s": seconds, "cpu_s": cpu_s, "peak_mb": peak_mb, "people": case.people, "clauses": len(verdict.clauses),
        "broken": [clause.name for clause in verdict.clauses if not clause.passed],
        "phases": {**phases, REST: seconds - sum(phases.values())}, **cloaks.metrics,
    }  # fmt: skip


def time_function(module: Any, name: str) -> list[float]:
    """Have a module's function note how long each call takes."""
    function, spent = getattr(module, name), []

    def noted(*arguments: Any) -> Any:
        began = time.perf_counter()
        result = function(*arguments)
        spent.append(time.perf_counter() - began)
        return result

    setattr(module, name, noted)
    return spent


# ---- data ------------------------------------------------------------------------------------------------------------


def generate(place: Path, objects: int) -> None:
    """Write positions and times of objects on the streets, float64[objects, instants, 3]."""
    instants = max(LENGTHS)
    plan = Plan(
        objects=objects, instants=instants, step_s=STEP_S, whole_share=1.0, seed=1, requests_per_subject=0, **NETWORK
    )
    scenario = Scenario.from_plan(plan, read_network(plan))
    shape = (objects, instants, 3)
    written = np.lib.format.open_memmap(place / "network.npy", mode="w+", dtype=np.float64, shape=shape)
    for low in range(0, objects, BATCH_SUBJECTS):
        which = np.arange(low, min(low + BATCH_SUBJECTS, objects))
        written[which] = scenario.make_objects(which).fixes.xym.reshape(len(which), instants, 3)
    written.flush()


def read_taxis(place: Path) -> int:
    """Write the week's fixes by cab and time, float64[fixes, 4], a second of a cab's once; how many cabs there are."""
    import pyarrow.parquet
    from pyproj import Transformer

    table = pyarrow.parquet.read_table(TAXIS)
    cab, t, lon, lat = (table[name].to_numpy() for name in ("cab_id", "t", "lon", "lat"))
    inside = (lon >= BOX[0]) & (lat >= BOX[1]) & (lon <= BOX[2]) & (lat <= BOX[3])
    inside &= (t >= MIDNIGHT_S) & (t < MIDNIGHT_S + 7 * DAY_S)
    x, y = Transformer.from_crs(4326, SRID, always_xy=True).transform(lon[inside], lat[inside])
    cab = np.unique(cab[inside], return_inverse=True)[1]
    fixes = np.column_stack([cab, t[inside].astype(np.float64), x, y])
    fixes = fixes[np.lexsort((fixes[:, 1], fixes[:, 0]))]
    again = (np.diff(fixes[:, 0], prepend=-1) == 0) & (np.diff(fixes[:, 1], prepend=-1) == 0)
    np.save(place / "taxis.npy", fixes[~again])
    return int(cab.max()) + 1


def read_people(case: Case, place: Path) -> tuple[Trajectories, int | None]:
    """Read a random sample of the people of a case; when their windows begin."""
    whole = np.load(place / f"{case.data}.npy", mmap_mode="r")
    count = len(whole) if case.data == "network" else int(whole[-1, 0]) + 1
    who = np.sort(np.random.default_rng(SEED).permutation(count)[: case.people])
    number = np.arange(len(who))
    if case.data == "network":
        x, y, t = (np.ascontiguousarray(whole[who, : case.instants, part]).ravel() for part in range(3))
        offset, start = np.arange(len(who) + 1) * case.instants, Plan().start_s
    else:
        fixes = whole[np.isin(whole[:, 0], who)]
        t, x, y = (fixes[:, column].copy() for column in (1, 2, 3))
        offset, start = np.searchsorted(fixes[:, 0], [*who, count]), None
    data = Trajectories(
        trajectory_id=number, subject=number, offset=offset, t=t, x=x, y=y, srid=SRID, grid_m=1.0, grid_s=1
    )
    return data, start


# ---- what is printed -------------------------------------------------------------------------------------------------


def print_row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def print_rule(columns: int) -> None:
    print("|" + "---|" * columns)


def print_lines(cases: Cases, listed: Iterable[Case], also: str = "people", base: str = ALONE) -> None:
    """Print a line for each case, its cost beside that of Traj-anon alone."""
    print_row(
        also, "l", "k", "algorithm", "s", "CPU s", "peak MB", "groups", "cost m²", f"of {base}", "bound", "quadrants",
        "verified",
    )  # fmt: skip
    print_rule(13)
    for case in listed:
        head = f"{case.people:,}", case.instants, case.k, case.way
        row = cases.measure(case)
        if row is None:
            print_row(*head, f"> {cases.limit_s:.0f}", *[""] * 8)
            continue
        beside = cases.measure(dataclasses.replace(case, way=base))
        of = f"{row['mbr_cost_m2'] / beside['mbr_cost_m2']:.2f}" if beside else ""
        bound = f"{row['mbr_cost_bound_m2']:.2e} ± {row['mbr_cost_bound_error_m2']:.0e}"
        verified = f"{row['clauses']} clauses" if not row["broken"] else "BROKEN: " + ", ".join(row["broken"])
        print_row(
            *head, f"{row['s']:.2f}", f"{row['cpu_s']:.2f}", f"{row['peak_mb']:,.0f}", f"{row['bundles']:,}",
            f"{row['mbr_cost_m2']:.3e}", of, bound, f"{row['quadrant_cost_m2']:.3e}", verified,
        )  # fmt: skip


def print_table(cases: Cases, sizes: list[int]) -> None:
    print(f"\nevery algorithm on {CITY}, windows of {max(LENGTHS)} instants; the cheapest, of {min(LENGTHS)}\n")
    print_lines(cases, (Case("network", n, max(LENGTHS), k, way) for n in sizes for k in KS for way in WAYS))
    print_lines(cases, (Case("network", n, min(LENGTHS), k, way) for n in sizes for k in KS for way in CHEAPEST))


def list_figure_cases(data: str, sizes: list[int]) -> Iterable[Case]:
    for n in sizes:
        for length in LENGTHS:
            yield from (Case(data, n, length, K, way) for way in (WAYS if length == max(LENGTHS) else BOTH))


def list_phase_cases(data: str, sizes: list[int]) -> Iterable[Case]:
    return (case for case in list_figure_cases(data, sizes) if (case.way, case.instants) == (ALONE, max(LENGTHS)))


def print_figures(cases: Cases, sizes: list[int]) -> None:
    print(f"\nfigures 9 and 11 to 14 on {CITY}, k = {K}\n")
    print_lines(cases, list_figure_cases("network", sizes))
    print(f"\nfigure 10: seconds of each phase of Traj-anon (`improve` off), windows of {max(LENGTHS)} instants\n")
    print_row("people", *PHASES, REST)
    print_rule(len(PHASES) + 2)
    for case in list_phase_cases("network", sizes):
        row = cases.measure(case)
        if row:
            print_row(f"{case.people:,}", *(f"{s:.3f}" for s in row["phases"].values()))


def print_taxis(cases: Cases, cabs: int) -> None:
    sizes = [cabs // share for share in SHARES]
    print(f"\na week of taxis, {cabs} cabs\n")
    listed = [*list_figure_cases("taxis", sizes)]
    listed += [Case("taxis", cabs, max(LENGTHS), k, way) for k in KS if k != K for way in WAYS]
    print_lines(cases, listed, "cabs")


def print_growth(cases: Cases, sizes: list[int]) -> None:
    few, many = min(sizes), max(sizes)
    print(f"\nfrom {few:,} to {many:,} people, windows of {max(LENGTHS)} instants, k = {K}\n")
    print_row("algorithm", f"s of {few:,}", f"s of {many:,}", "grows")
    print_rule(4)
    for way in WAYS:
        rows = [cases.measure(Case("network", n, max(LENGTHS), K, way)) for n in (few, many)]
        told = [f"{one['s']:.2f}" if one else f"> {cases.limit_s:.0f}" for one in rows]
        ratio = f"{rows[1]['s'] / rows[0]['s']:.1f}-fold" if rows[0] and rows[1] else ""
        print_row(way, *told, ratio)


def measure_database(sizes: list[int]) -> None:
    from dbanon.database import open_database

    print(f"\nfrom table to verified run, {max(LENGTHS)} instants, k = {K}, 2 requests a subject, {CITY}\n")
    print_row("people", "", "process s", "its CPU", *DATABASE_PHASES, "client MB", "server MB")
    print_rule(12)
    for n in sizes:
        with open_database() as server:
            name = fill(server, n)
        with tempfile.TemporaryDirectory() as cache:
            for how in ("cold", "warm"):
                words = [
                    "run",
                    "tp-aware",
                    "--dataset",
                    name,
                    "-p",
                    f"k={K}",
                    "-p",
                    f"start={Plan().start_s}",
                    "--json",
                ]
                cost = run_dbanon(*words, environment={"NUMBA_CACHE_DIR": cache})
                told = json.loads(cost.printed)
                timings = told["timings"]
                spent = [cost.seconds, cost.cpu_s, *(timings[phase] for phase in DATABASE_PHASES)]
                memory = (f"{mb:,.0f}" for mb in (cost.client_mb, cost.server_mb))
                print_row(f"{n:,}", how, *(f"{s:.2f}" for s in spent), *memory)
        cost = run_dbanon("publish", str(told["run_id"]), VIEW)
        print_row(f"{n:,}", "publish", f"{cost.seconds:.2f}", f"{cost.cpu_s:.2f}", *7 * [""], f"{cost.server_mb:,.0f}")
        with open_database() as server:
            server.unpublish(VIEW)
            drop(server, [name])


def main() -> None:
    options = argparse.ArgumentParser()
    parts = ["plain", "table", "figures", "taxis", "growth", "database"]
    options.add_argument("parts", nargs="*", default=parts)
    options.add_argument("--limit", type=float, default=600)
    options.add_argument("--sizes", type=lambda text: sorted(map(int, text.split(","))))
    options.add_argument("--case")
    options.add_argument("--place", type=Path)
    given = options.parse_args()
    if given.case:
        print(json.dumps(run_case(Case(**json.loads(given.case)), given.place, given.limit)))
        return
    sizes = {part: given.sizes or usual for part, usual in SIZES.items()}
    with tempfile.TemporaryDirectory() as place:
        cases = Cases(Path(place), given.limit)
        most = max((max(sizes[part]) for part in given.parts if part in ("table", "figures", "growth")), default=0)
        if most:
            generate(cases.place, most)
        todo: dict[str, Callable[[], None]] = {
            "plain": compare_plainly,
            "table": lambda: print_table(cases, sizes["table"]),
            "figures": lambda: print_figures(cases, sizes["figures"]),
            "taxis": lambda: print_taxis(cases, read_taxis(cases.place)),
            "growth": lambda: print_growth(cases, sizes["growth"]),
            "database": lambda: measure_database(sizes["database"]),
        }
        for part in given.parts:
            todo[part]()


if __name__ == "__main__":
    main()
