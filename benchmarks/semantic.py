"""The family semantic and the paper's own algorithm: figures 6 to 10 of the paper, and what regions tell of places.

On a week of taxis at 1,999 cell towers, each cab-day a record (`--subject-per-day`), with points of interest of six
categories: food, religion, community, finance, mail, health. The paper's algorithm is that of
`benchmarks.papers.semantic`, and the family's beside it. Every case is a process of its own, and computes in memory:
seconds begin with the data and end with cloaks, and the peak is that of the process meanwhile, with its input.

``python benchmarks/semantic.py [side|k|l|t|exact|table|week]... [--days N]``; all parts but "exact" by default.
side, k, l, t: the figures, on the first day. "reveals" is the share of rows, "raw rev" that of fixes by their cells,
with fewer categories than l or a divergence above t: what the paper's adversary looks for; of k-anonymity alone
(l = 0, t = inf: GLOVE on cells), for the l and t of the others. Below, the distribution of the rows' sizes and lengths.
exact: what every pair of records loses, instead of what candidates lose nearly, by the paper's algorithm.
table: what `benchmarks._semantic` measures on taxis (17 to 20 h), a generated city and its phone records (three days).
week: the whole week from the table to the verdict of the attack, by the command line.

It needs the files that lie beside the repository.
"""

import argparse
import contextlib
import csv
import dataclasses
import gzip
import importlib
import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import psycopg

from benchmarks._measure import run_dbanon, run_python
from dbanon import methods
from dbanon.base import memory
from dbanon.base.cloaks import Cloaks
from dbanon.base.errors import InfeasibleError
from dbanon.base.trajectory import Cells, Trajectories
from dbanon.methods.kernels import in_run_time
from dbanon.postgres import server
from dbanon.runs import reading

DATA = Path(__file__).parents[2] / "shared" / "data"
BOX = (-122.53, 37.58, -122.34, 37.85)
DAY_S, FIRST_S = 86_400, 1_212_390_000  # 2008-06-02, midnight in San Francisco
L, T = 6, 0.01
PAPER, OURS = "paper", "atoms"  # the second is the family's algorithm
SETTINGS = (2, 3, 0.1), (2, 6, 0.01), (5, 3, 0.1), (2, 2, 0.2)
PHASES = "load", "compute", "write", "verify"
COLUMNS = {
    "classes": "classes", "classes_fail": "fail", "places": "places", "places_one_cell_percent": "1 cell %",
    "places_fail_percent": "fail %", "replayed_percent": "replay %", "right_percent": "right %",
    "chance_percent": "chance %", "one_cell_percent": "atom 1 %", "largest_percent": "most %",
    "side_m_median": "side m", "side_m_mean": "mean m", "theta": "theta", "span_s_median": "span s", "rows": "rows",
    "suppressed_percent": "supp %", "seconds": "seconds", "peak_mb": "MB",
}  # fmt: skip
# Fmt: skip.
HEAD = "kl_quarter", "kl_median", "kl_three_quarters", "space_m_mean", "space_m_median", "time_s_mean", "time_s_median"


def read_rows(name: str) -> Iterator[dict[str, str]]:
    path = DATA / "sf_pois" / name
    with gzip.open(path, "rt", encoding="utf-8") if name.endswith(".gz") else path.open(encoding="utf-8") as file:
        yield from csv.DictReader(file)


def read_points_of_interest() -> Iterator[tuple[str, str, str]]:
    """Longitude, latitude and category of all that has a position."""
    for row in read_rows("sf_food_businesses.csv.gz"):
        yield row["longitude"], row["latitude"], "food"
    groups = {"religion": "religion", "social_community": "community", "events": "community"}
    for row in read_rows("bayarea_osm_religion_community_events.csv.gz"):
        if row["group"] in groups:
            yield row["lon"], row["lat"], groups[row["group"]]
    kinds = {"post_box": "mail", "bank": "finance", "atm": "finance"}
    for row in read_rows("sf_osm_amenities.csv.gz"):
        if row["category"] in kinds:
            yield row["lon"], row["lat"], kinds[row["category"]]
    for row in read_rows("sf_health_care_facilities.csv"):
        yield row["lon"], row["lat"], "health"


def load(place: Path) -> None:
    pois, towers, box = place / "pois.csv", place / "towers.csv", ",".join(map(str, BOX))
    with pois.open("w") as file:
        print("x,y,category", file=file)
        for x, y, category in read_points_of_interest():
            if x and y and BOX[0] < float(x) < BOX[2] and BOX[1] < float(y) < BOX[3]:
                print(x, y, category, sep=",", file=file)
    with towers.open("w") as file, gzip.open(next((DATA / "sf_cell_towers").glob("*.csv.gz")), "rt") as given:
        print("x,y", file=file)
        for row in csv.DictReader(given):
            print(row["lon"], row["lat"], sep=",", file=file)
    week = str(next((DATA / "cabspotting").glob("cabs_*_08.parquet")))
    columns = ("--subject", "cab_id", "--time", "t", "--x", "lon", "--y", "lat")
    days = ("--subject-per-day", "--tz", "America/Los_Angeles", f"--bbox={box}")
    run_dbanon("load", "trajectories", week, "--dataset", "week", *columns, *days)
    run_dbanon("load", "stations", str(towers), "--dataset", "week")
    run_dbanon("load", "pois", str(pois), "--dataset", "week", "--category", "category")


def save_inputs(place: Path, dataset: str, since: int | None = None, until: int | None = None) -> Path:
    """Write the trajectories and the cells of a dataset where a case finds them."""
    with psycopg.connect(server.EmbeddedServer().target.url) as connection:
        [number] = connection.execute("SELECT dataset_id FROM dbanon.dataset WHERE name = %s", [dataset]).fetchone()
    with reading.open_reader(server.EmbeddedServer().target.url) as reader:
        data, cells = reader.read_trajectories(number), reader.read_inputs(number, ["cells"])["cells"]
    fixes = in_run_time.mark_in_run_time("semantic", data, since, until)
    taken = in_run_time.select_fixes(data, fixes), dataclasses.replace(cells, fix_cell=cells.fix_cell[fixes])
    file = place / f"{dataset} {since} {until}"
    file.write_bytes(pickle.dumps(taken))
    return file


# ---- a case: a process of its own ------------------------------------------------------------------------------------


def measure_case(file: str, whose: str, asked: str, kind: str) -> None:
    """Compute cloaks in memory and measure them; print figures, and write distributions beside the data."""
    data, cells = pickle.loads(Path(file).read_bytes())
    if whose == PAPER:
        importlib.import_module("benchmarks.papers.semantic")
    family, name = methods.find_method("semantic"), "merge" if whose == PAPER else OURS
    given = json.loads(asked)
    if all_pairs := given.pop("all_pairs", False):
        importlib.import_module("benchmarks.papers.semantic.greedy").ALL_PAIRS = sys.maxsize
    params = family.parse(given)

    def compute(data: Trajectories, cells: Cells) -> Cloaks:
        return family.anonymise(data, name, params, np.random.default_rng(1), cells=cells)

    if not all_pairs:  # kernels are compiled, or read from their cache, for all that many people need
        few = np.arange(data.fixes) < data.offset[min(80, len(data.offset) - 1)]
        with contextlib.suppress(InfeasibleError):
            compute(in_run_time.select_fixes(data, few), dataclasses.replace(cells, fix_cell=cells.fix_cell[few]))
    memory.forget_peak()
    began = time.perf_counter()
    cloaks = compute(data, cells)
    cost = {"seconds": time.perf_counter() - began, "peak_mb": memory.measure_peak_mb()}
    from benchmarks import _semantic  # only now: it brings the paper's algorithm along

    if kind == "table":
        print(json.dumps(cost | _semantic.measure_all(cloaks, data, cells, params)))
        return
    release = _semantic.Release.from_cloaks(cloaks, data, cells, params)
    np.savez(f"{file}.npz", **_semantic.collect_distributions(release))
    asked_of = (params.l, params.t) if params.l else (L, T)
    left_out = 100 * float((release.fix_row < 0).mean())
    groups = len(np.unique(cloaks.member_trajectory[np.flatnonzero(np.diff(cloaks.member_record, prepend=0))]))
    counts = {"groups": groups, "rows": cloaks.rows, "suppressed_percent": left_out}
    print(json.dumps(cost | _semantic.count_revealing(release, *asked_of) | counts))


def measure(file: Path, whose: str, kind: str, **params: object) -> dict[str, float]:
    """Do a case in a process of its own."""
    told = run_python(__file__, "case", str(file), whose, json.dumps(params), kind).printed
    return dict(json.loads(told.splitlines()[-1]))


# ---- figures 6 to 10 -------------------------------------------------------------------------------------------------

Distributions = dict[str, np.ndarray]


def format_line(what: str, rows: Distributions, prefix: str = "") -> str:
    """Give quarters of the divergence, where there is one, and means and medians of sides and lengths."""
    kl = rows[f"{prefix}kl"]
    figures = list(np.quantile(kl[np.isfinite(kl)], [0.25, 0.5, 0.75]))
    for name in ("space_m", "time_s"):
        values = rows[prefix + name]
        figures += [values.mean(), np.median(values)]
    return f"{what:<34}" + "".join(f"{one:>13.4g}" for one in figures)


def compute_and_print(
    file: Path, what: str, whose: str, beside: Distributions | None = None, **params: object
) -> Distributions:
    """Compute and print; the distributions are held against others, or their own."""
    made = measure(file, whose, "figures", **params)
    rows = dict(np.load(f"{file}.npz"))
    if beside is None:
        print(format_line("raw", rows, "raw_"))
    print(
        format_line(f"{what}, {whose}", rows) + f"{made['raw_reveals_percent']:>8.1f}{made['reveals_percent']:>8.1f}"
        f"{made['groups']:>7.0f}{made['rows']:>9.0f}{made['suppressed_percent']:>7.2f}{made['seconds']:>9.1f}"
        f"{made['peak_mb']:>8.0f}",
        flush=True,
    )
    for name in ("space_m", "time_s"):
        values, others = rows[name], (beside or rows)[name]
        deciles = " ".join(f"{one:.0f}" for one in np.quantile(values, np.linspace(0.1, 0.9, 9)))
        print(f"  {name} deciles  {deciles}   average deviation {measure_deviation(values, others):.3f}", flush=True)
    return rows


def measure_deviation(some: np.ndarray, others: np.ndarray) -> float:
    """Average the difference of two distribution functions, over what 95 % of both stay below."""
    at = np.linspace(0, np.quantile(np.concatenate([some, others]), 0.95), 1000)
    shares = [np.searchsorted(np.sort(one), at, side="right") / len(one) for one in (some, others)]
    return float(np.abs(shares[0] - shares[1]).mean())


def print_figures(parts: list[str], file: Path) -> None:
    heads = "".join(f"{name.replace('three_quarters', '3/4').replace('median', 'med'):>13}" for name in HEAD)
    print(f"{'':<34}{heads} raw rev reveals groups     rows supp %  seconds      MB")
    if "side" in parts:
        alone = compute_and_print(file, "k alone", PAPER, k=2, l=0, t="inf")  # GLOVE on cells
        compute_and_print(file, "k alone", OURS, alone, k=2, l=0, t="inf")
        compute_and_print(file, "k, l, t", PAPER, alone, k=2, l=L, t=T)
        compute_and_print(file, "k, l, t", OURS, alone, k=2, l=L, t=T)
    if "exact" in parts:
        beside = compute_and_print(file, "candidates, nearly", PAPER, k=2, l=L, t=T)
        compute_and_print(file, "all pairs, exactly", PAPER, beside, k=2, l=L, t=T, all_pairs=True)
    for part, values in (("k", (2, 3, 4, 5)), ("l", (4, 5, 6)), ("t", (0.1, 0.05, 0.01, 0.005, 0.001))):
        first = None
        for value in values if part in parts else ():
            params = {"k": 2, "l": L, "t": "inf" if part == "l" else T, part: value}
            what = ", ".join(f"{name} = {one}" for name, one in params.items())
            for whose in (PAPER, OURS):
                rows = compute_and_print(file, what, whose, first, **params)
                first = first or rows


# ---- what places are left, and the week ------------------------------------------------------------------------------


def print_table(files: dict[str, Path]) -> None:
    """Print what both algorithms tell of places, and lose, on every data set at every setting."""
    print(f"{'':<30}" + "".join(f"{head:>9}" for head in COLUMNS.values()))
    for name, file in files.items():
        for k, l, t in SETTINGS:  # noqa: E741 - the paper's name
            for whose in (PAPER, OURS):
                made = measure(file, whose, "table", k=k, l=l, t=t)
                values = "".join(f"{made[column]:>9.4g}" if column in made else f"{'':>9}" for column in COLUMNS)
                print(f"{f'{name} ({k}, {l}, {t}) {whose}':<30}{values}", flush=True)


def run_week() -> None:
    """Go from the table to the verdict with the whole week, by the command line."""
    asked = [part for word in ("k=2", "l=3", "t=0.1") for part in ("-p", word)]
    cost = run_dbanon("--json", "run", "semantic", "--dataset", "week", "--seed", "1", *asked)
    told = json.loads(cost.printed.splitlines()[0])
    times = ", ".join(f"{name} {told['timings'].get(f'{name}_s', 0.0):.0f}" for name in PHASES)
    print(
        f"the week, {OURS}: {cost.seconds:.0f} s ({times}; {cost.cpu_s:.0f} s of CPU), {cost.client_mb:.0f} MB and "
        f"{cost.server_mb:.0f} MB in the server, {told['metrics']['rows']} rows, {told['status']}"
    )


def main(place: Path, parts: list[str], days: int) -> None:
    if {"side", "exact", "k", "l", "t", "table", "week"} & set(parts):
        load(place)
    if {"side", "exact", "k", "l", "t"} & set(parts):
        print_figures(parts, save_inputs(place, "week", FIRST_S, FIRST_S + days * DAY_S))
    if "table" in parts:
        many = ("--objects", "200", "--pois", "4000", "--stations", "150")
        run_dbanon("synth", "--dataset", "city", *many, "--instants", "60")
        calls = ("--instants", str(3 * 1440), "--start", "2026-01-05T00:00:00Z", "--calls-per-day", "20")
        run_dbanon("synth", "--dataset", "phones", *many, *calls)
        evening = FIRST_S + 17 * 3600
        files = {"taxis": save_inputs(place, "week", evening, evening + 3 * 3600)}
        print_table(files | {name: save_inputs(place, name) for name in ("city", "phones")})
    if "week" in parts:
        run_week()


if __name__ == "__main__":
    if sys.argv[1:2] == ["case"]:
        measure_case(*sys.argv[2:])
        raise SystemExit
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("parts", nargs="*", default=["side", "k", "l", "t", "table", "week"])
    options.add_argument("--days", type=int, default=1)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)  # the server's user has to find its way through
        os.environ["DBANON_HOME"] = str(Path(name) / "server")
        try:
            main(Path(name), given.parts, given.days)
        finally:
            server.EmbeddedServer().stop()
