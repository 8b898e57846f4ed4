"""The family semantic on a week of taxis at 1,999 cell towers: figures 6 to 10 of the paper again.

Each cab-day is a record (`--subject-per-day`); points of interest of six categories: food, religion, community,
finance, mail, health. Every run goes the whole way, from the table to a verified run, by the command line, on an
embedded server; side by side k-anonymity alone (GLOVE on cells), the paper's algorithm and `improve`. "reveals" is the
share of rows, "raw rev" that of fixes by their cells, with fewer categories than l or a divergence above t: what the
paper's adversary looks for; of k-anonymity alone, for the l and t of the others. Below, the distribution of the rows'
sizes and lengths.

``python benchmarks/semantic.py [side|k|l|t|exact]... [--days N]``; all parts, and the whole week side by side, by
default; the figures are of the first day. "exact" computes what every pair of the first day's records loses, instead of
what candidates lose nearly. It needs the files that lie beside the repository.
"""

import argparse
import csv
import dataclasses
import gzip
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import psycopg

from benchmarks._measure import dbanon
from dbanon import methods
from dbanon.attacks import attacker
from dbanon.methods.semantic import _groups
from dbanon.postgres import server
from dbanon.runs import reading

DATA = Path("/work/shared/data")
BOX = (-122.53, 37.58, -122.34, 37.85)
DAY_S, FIRST_S = 86_400, 1_212_390_000  # 2008-06-02, midnight in San Francisco
L, T = 6, 0.01
HEAD = (
    "kl_quarter", "kl_median", "kl_three_quarters", "space_m_mean", "space_m_median", "time_s_mean", "time_s_median",
)  # fmt: skip


def rows(name: str) -> Iterator[dict[str, str]]:
    path = DATA / "sf_pois" / name
    with gzip.open(path, "rt", encoding="utf-8") if name.endswith(".gz") else path.open(encoding="utf-8") as file:
        yield from csv.DictReader(file)


def points_of_interest() -> Iterator[tuple[str, str, str]]:
    """Longitude, latitude and category of all that has a position."""
    for row in rows("sf_food_businesses.csv.gz"):
        yield row["longitude"], row["latitude"], "food"
    groups = {"religion": "religion", "social_community": "community", "events": "community"}
    for row in rows("bayarea_osm_religion_community_events.csv.gz"):
        if row["group"] in groups:
            yield row["lon"], row["lat"], groups[row["group"]]
    kinds = {"post_box": "mail", "bank": "finance", "atm": "finance"}
    for row in rows("sf_osm_amenities.csv.gz"):
        if row["category"] in kinds:
            yield row["lon"], row["lat"], kinds[row["category"]]
    for row in rows("sf_health_care_facilities.csv"):
        yield row["lon"], row["lat"], "health"


def load(place: Path) -> None:
    pois, towers, box = place / "pois.csv", place / "towers.csv", ",".join(map(str, BOX))
    with pois.open("w") as file:
        print("x,y,category", file=file)
        for x, y, category in points_of_interest():
            if x and y and BOX[0] < float(x) < BOX[2] and BOX[1] < float(y) < BOX[3]:
                print(x, y, category, sep=",", file=file)
    with towers.open("w") as file, gzip.open(next((DATA / "sf_cell_towers").glob("*.csv.gz")), "rt") as given:
        print("x,y", file=file)
        for row in csv.DictReader(given):
            print(row["lon"], row["lat"], sep=",", file=file)
    week = str(next((DATA / "cabspotting").glob("cabs_*_08.parquet")))
    columns = ("--subject", "cab_id", "--time", "t", "--x", "lon", "--y", "lat")
    days = ("--subject-per-day", "--tz", "America/Los_Angeles", f"--bbox={box}")
    dbanon("load", "trajectories", week, "--dataset", "week", *columns, *days)
    dbanon("load", "stations", str(towers), "--dataset", "week")
    dbanon("load", "pois", str(pois), "--dataset", "week", "--category", "category")


def strict(run_id: int) -> dict[str, int | float]:
    """Attack a run as if it had promised L categories and a divergence of T: the figures of the attack."""
    with reading.open_reader(server.EmbeddedServer().target.url) as reader:
        evidence = reader.evidence(run_id)
    asked = dataclasses.replace(evidence, params={**evidence.params, "l": L, "t": T})
    return dict(attacker("dbanon.attacks.semantic").attack(asked).figures)


def sizes(run_id: int) -> np.ndarray:
    """Read the sides (of a square as large as the region) and the lengths of a run's rows: float64[2, c]."""
    with psycopg.connect(server.EmbeddedServer().target.url) as connection:
        connection.execute("SET enable_nestloop = off")  # the rows of a new run are not in the statistics yet
        rows = connection.execute(
            "SELECT sqrt(ST_Area(region)), extract(epoch FROM upper(period) - lower(period)) FROM dbanon.cloak "
            "WHERE run_id = %s",
            [run_id],
        ).fetchall()
    return np.array(rows, float).T


def distribution(run_id: int, beside: int) -> None:
    """Print the deciles of a run's rows, and by how much their distribution differs from that of another run's."""
    for name, values, others in zip(("space m", "time s"), sizes(run_id), sizes(beside), strict=True):
        deciles = " ".join(f"{one:.0f}" for one in np.quantile(values, np.linspace(0.1, 0.9, 9)))
        print(f"  {name} deciles  {deciles}   average deviation {deviation(values, others):.3f}", flush=True)


def deviation(some: np.ndarray, others: np.ndarray) -> float:
    """Average the difference of two distribution functions, over what 95 % of both stay below."""
    at = np.linspace(0, np.quantile(np.concatenate([some, others]), 0.95), 1000)
    shares = [np.searchsorted(np.sort(one), at, side="right") / len(one) for one in (some, others)]
    return float(np.abs(shares[0] - shares[1]).mean())


def run(what: str, days: int, beside: int | None = None, *, raw: bool = False, **params: object) -> int:
    """Run and print; the distribution is held against that of the run `beside`, by default its own."""
    words = [f"{name}={value}" for name, value in params.items()]
    if days < 7:
        words += [f"since={FIRST_S}", f"until={FIRST_S + days * DAY_S}"]
    asked = [part for word in words for part in ("-p", word)]
    cost = dbanon("--json", "run", "semantic", "--dataset", "week", "--seed", "1", *asked)
    told = json.loads(cost.printed.splitlines()[0])
    made, attacked, took = told["metrics"], told["verification"]["attacks"][0]["figures"], told["timings"]
    attacked = attacked if params["l"] else strict(told["run_id"])
    if raw:
        print(f"{'raw':<26}" + "".join(f"{made[f'raw_{name}']:>13.4g}" for name in HEAD))
    figures = "".join(f"{made[name]:>13.4g}" for name in HEAD)
    times = "".join(f"{took.get(f'{phase}_s', 0.0):>8.0f}" for phase in ("load", "compute", "write", "verify"))
    print(
        f"{what:<26}{figures}{attacked['raw_fixes_revealing_percent']:>8.1f}{attacked['revealing_percent']:>8.1f}"
        f"{made['groups']:>7.0f}{made['rows']:>9.0f}{made['suppressed_percent']:>7.2f}{times}{cost.cpu_s:>8.0f}"
        f"{cost.client_mb:>7.0f}{cost.server_mb:>7.0f} {told['status']}",
        flush=True,
    )
    number = int(told["run_id"])
    distribution(number, beside or number)
    return number


def exact() -> None:
    """Compare the pairs that are found among candidates, by losses that are nearly exact, with the paper's."""
    with reading.open_reader(server.EmbeddedServer().target.url) as reader:
        data, cells = reader.trajectories(1), reader.inputs(1, ["cells"])["cells"]  # the only dataset
    family = methods.method("semantic")
    params = family.parse({"k": 2, "l": L, "t": T, "since": FIRST_S, "until": FIRST_S + DAY_S, "improve": False})
    family.prepare("merge", params)
    few = _groups.ALL_PAIRS
    for what, _groups.ALL_PAIRS in (("candidates, nearly", few), ("all pairs, exactly", sys.maxsize)):
        began = time.perf_counter()
        made = family.anonymise(data, "merge", params, np.random.default_rng(1), cells=cells).metrics
        figures = "".join(f"{made[name]:>13.4g}" for name in HEAD)
        print(f"{what:<26}{figures}{made['groups']:>7.0f}{made['rows']:>9.0f}{time.perf_counter() - began:>8.0f} s")


def main(parts: list[str], days: int) -> None:
    heads = "".join(f"{name.replace('three_quarters', '3/4').replace('median', 'med'):>13}" for name in HEAD)
    print(f"{'':<26}{heads} raw rev reveals groups     rows supp %", end="")
    print("    load compute   write  verify   CPU s     MB srv MB")
    if "side" in parts:
        alone = run("k alone (GLOVE on cells)", days, raw=True, k=2, l=0, t="inf", improve="off")
        run("k alone, improve", days, alone, k=2, l=0, t="inf")
        run("k, l, t: the paper's", days, alone, k=2, l=L, t=T, improve="off")
        run("k, l, t: improve", days, alone, k=2, l=L, t=T)
    if "exact" in parts:
        exact()
    for part, values in (("k", (2, 3, 4, 5)), ("l", (4, 5, 6)), ("t", (0.1, 0.05, 0.01, 0.005, 0.001))):
        first = None
        for value in values if part in parts else ():
            params = {"k": 2, "l": L, "t": "inf" if part == "l" else T, part: value}
            what = ", ".join(f"{name} = {one}" for name, one in params.items())
            number = run(what, 1, first, improve="off", **params)
            first = first or number


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("parts", nargs="*", default=["side", "exact", "k", "l", "t"])
    options.add_argument("--days", type=int, default=7)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)  # the server's user has to find its way through
        os.environ["DBANON_HOME"] = str(Path(name) / "server")
        try:
            load(Path(name))
            main(given.parts, given.days)
        finally:
            server.EmbeddedServer().stop()
