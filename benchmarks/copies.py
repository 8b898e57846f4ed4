"""What loads and verifications notice where people are in the data under two names, and what they take strangers for.

Run with ``./dev bench benchmarks/copies.py``. Parts: `loads` inserts keyed hashes as a load would, and asks which are
recognised; `changes` loads 60 walkers twice each, runs `tp-aware` and counts; `strangers` runs methods in memory on
people of whom none is in the data twice: walkers, the generator's city and phones, and the taxis beside the repository.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow.parquet
from pyproj import Transformer

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks._measure import run_private_server
from benchmarks._pickups import DATA, SRID
from dbanon import load, methods, schema
from dbanon.attacks import together
from dbanon.base.trajectory import Trajectories
from dbanon.database import open_database
from dbanon.options.generating import Plan
from dbanon.options.loading import LoadingTrajectories
from dbanon.synth import Scenario
from dbanon.synth._source import read_network
from tests.contract.evidence import make_quasi_identifiers, store_cloaks
from tests.walkers import COPIES, copy_walks, draw_walk, list_rows, make_trajectories

WEEK = DATA / "cabspotting" / "cabs_20080602_08.parquet"
MONDAY_S = 1_212_390_000  # 2008-06-02 00:00 in San Francisco
SEEDS, RUNS, OF = 5, 50, 20

# ---- loads -----------------------------------------------------------------------------------------------------------

CODES = """
INSERT INTO dbanon.fix_code (dataset_id, person, code, trajectory_id)
SELECT %s, pair.code %% 60 * 10 + pair.name, pair.code, 1
FROM unnest(%s::bigint[], %s::bigint[]) pair (code, name)
"""


def measure_loads() -> None:
    """Print from which share of the triples on people with equally many names are recognised, in 19 of 20 draws."""
    print("\n| triples of the dataset | two names share | three names share |\n|---|---|---|")
    with run_private_server() as (server, _):
        schema.upgrade(server.url)
        with psycopg.connect(server.url) as connection:
            known = connection.execute(
                "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('a', 32610, 1, 1) RETURNING dataset_id"
            ).fetchone()
            for triples in (1_600, 6_400, 64_000, 640_000):
                shares = [find_least_share(connection, known[0], triples, names) for names in (2, 3)]
                print(f"| {triples:,} | {' | '.join(shares)} |", flush=True)
            connection.rollback()


def find_least_share(connection: psycopg.Connection[Any], dataset: int, triples: int, names: int) -> str:
    for percent in (*range(5, 30), *range(30, 100, 5), 100):
        draws = (np.random.default_rng([triples, names, seed]) for seed in range(OF))
        hits = sum(is_found(connection, dataset, draw_names(rng, triples, names, percent / 100)) for rng in draws)
        if hits >= OF - 1:
            return f"{percent} %"
    return "not found"


def draw_names(rng: np.random.Generator, triples: int, names: int, share: float) -> tuple[list[int], list[int]]:
    """Draw the codes that a load keeps, each once for every name it is under: several for a share of them."""
    code = rng.choice(1 << 60, rng.binomial(triples, 1 / 64))
    times = np.where(rng.random(len(code)) < share, names, 1)
    return np.repeat(code, times).tolist(), [name for own in times.tolist() for name in range(own)]


def is_found(connection: psycopg.Connection[Any], dataset: int, codes: tuple[list[int], list[int]]) -> bool:
    """Whether a dataset with these codes, under these names, is recognised as one in which people have several."""
    connection.execute("DELETE FROM dbanon.fix_code")
    connection.execute(CODES, [dataset, *codes])
    return bool(connection.execute("SELECT count(*) FROM dbanon_internal.find_copies(%s)", [dataset]).fetchone()[0])


# ---- changes ---------------------------------------------------------------------------------------------------------


def measure_changes(asked: list[str]) -> None:
    """Print, for each change that a second name's fixes went through, what is left to hash, and who notices."""
    columns = ("triples shared", "loads that notice", "runs that notice", "names together, least", "rows of one person")
    print(f"\n| the second name's fixes | {' | '.join(columns)} |\n|{'---|' * 6}")
    with run_private_server() as (server, folder):
        schema.upgrade(server.url)
        for kind in asked or COPIES:
            one = [measure_change(server.url, folder, kind, seed) for seed in range(SEEDS)]
            shared, at_load, at_run, least, alone = (list(column) for column in zip(*one, strict=True))
            noticed = f"{sum(at_load)} of {SEEDS} | {sum(at_run)} of {SEEDS}"
            line = f"{np.mean(shared):.0%} | {noticed} | {min(least):.0%} | {np.mean(alone):.0%}"
            print(f"| {kind} | {line} |", flush=True)


def measure_change(url: str, folder: Path, kind: str, seed: int) -> tuple[float, bool, bool, float, float]:
    rng, dataset = np.random.default_rng(seed), f"{kind} {seed}"
    walks = copy_walks(rng, [draw_walk(rng) for _ in range(60)], kind)
    rows = list_rows(walks)
    file = folder / "walks.csv"
    file.write_text("subject,time,x,y\n" + "\n".join(rows) + "\n")
    options = LoadingTrajectories(dataset=dataset, crs="EPSG:32610", srid=32610, grid_m=0.1)
    with psycopg.connect(url, autocommit=True) as connection:
        told = load.load_trajectories(connection, [file], options).notices
    with open_database(url) as database:
        done = database.run("tp-aware", dataset=dataset, params={"k": 2, "instants": 20})
        figures = done.verdict.figures
        members = database.connection.execute(
            "SELECT record_id, array_agg(DISTINCT substr(subject, 2)::int %% 60) FROM dbanon.membership"
            " JOIN dbanon.trajectory USING (trajectory_id) WHERE run_id = %s GROUP BY 1", [done.run_id],
        ).fetchall()  # fmt: skip
    return (
        count_shared_triples(walks),
        any("several names" in notice for notice in told),
        figures["names_together"] >= 0.2 * figures["names_compared"],
        figures["names_together"] / figures["names_compared"],
        float(np.mean([len(people) == 1 for _, people in members])),
    )


def count_shared_triples(walks: list[Any]) -> float:
    """The share of the first names' triples of fixes, as whole seconds and metres, that the second ones have too."""
    sides: list[set[Any]] = [set(), set()]
    for number, walk in enumerate(walks):
        fixes = [tuple(fix) for fix in np.round(np.column_stack(walk)).astype(int).tolist()]
        sides[number >= len(walks) // 2].update(zip(fixes, fixes[1:], fixes[2:], strict=False))
    return len(sides[0] & sides[1]) / max(len(sides[0]), 1)


# ---- strangers -------------------------------------------------------------------------------------------------------


def measure_strangers() -> None:
    """Print how many of 50 runs on people of whom nobody is there twice count names, and how many at most."""
    together.prepare()
    print("\n| people | method | runs | that count any | most names together | names compared, median | s a run |")
    print("|---|---|---|---|---|---|---|")
    for what, family, algorithm, given, data in list_strangers():
        figures, seconds = zip(*(judge(one, family, algorithm, given) for one in data), strict=True)
        named, compared = ([one[figure] for one in figures] for figure in ("names_together", "names_compared"))
        counted = f"{len(figures)} | {sum(number > 0 for number in named)} | {max(named)} | {np.median(compared):.0f}"
        print(
            f"| {what} | {family} {algorithm or ''} k = {given['k']} | {counted} | {np.mean(seconds):.2f} |", flush=True
        )


def list_strangers() -> Iterator[tuple[str, str, str | None, dict[str, Any], Iterator[Trajectories]]]:
    seeds, evening = range(RUNS), {"instants": 30, "step_s": 60}
    day = {"calls_per_day": 30, "instants": 1440, "start": "2026-01-05T00:00:00Z", "stations": 40}
    for k in (2, 5, 20):
        given = {"k": k, **evening}
        yield "walkers, 120", "tp-aware", None, given, (draw_walkers(seed) for seed in seeds)
        yield "city, 1,000 x 30", "tp-aware", None, given, (generate(1000, seed, instants=30) for seed in seeds)
        yield "city, 300 x 120", "tp-aware", None, given, (generate(300, seed, instants=120) for seed in seeds)
        if WEEK.is_file():
            yield "taxis, 3 hours", "tp-aware", None, given, (read_taxis(at, 3) for at in seeds)
    yield "city, 1,000 x 30", "mob", None, {"k": 3, "align": "exact"}, (generate(1000, s, instants=30) for s in seeds)
    phones, rare = "phones at towers, 300", {"k": 5, "step_s": 600, "instants": 24, "max_gap_s": 7200}
    yield phones, "tp-aware", None, rare, (generate(300, seed, **day) for seed in seeds)
    for algorithm in ("k-merge", "kte-hide"):
        yield phones, "kte", algorithm, {"k": 2}, (generate(300, seed, **day) for seed in seeds)


def judge(data: Trajectories, name: str, algorithm: str | None, given: dict[str, Any]) -> tuple[dict[str, int], float]:
    """Count the names that travel together in a run, and the seconds that this takes."""
    family = methods.find_method(name)
    chosen, params = family.find_algorithm(algorithm).name, family.parse(given, algorithm)
    inputs = {"quasi_identifiers": make_quasi_identifiers(data)} if "quasi_identifiers" in family.reads else {}
    cloaks = family.anonymise(data, chosen, params, np.random.default_rng(0), **inputs)
    evidence = store_cloaks(family, chosen, params, data, cloaks)
    began = time.perf_counter()
    figures = together.count_names(evidence, *together.list_groups(evidence))
    return figures, time.perf_counter() - began


def draw_walkers(seed: int) -> Trajectories:
    rng = np.random.default_rng(seed)
    return make_trajectories([draw_walk(rng) for _ in range(120)])


def generate(people: int, seed: int, **options: Any) -> Trajectories:
    plan = Plan(objects=people, seed=seed, **options)
    fixes = Scenario.from_plan(plan, read_network(plan)).make_objects(np.arange(people)).fixes
    return make_paths(np.repeat(np.arange(people), np.diff(fixes.offset)), *fixes.xym.T[[2, 0, 1]])


def read_taxis(part: int, hours: int) -> Trajectories:
    """Read the taxis of some hours, the parts of a week in their order."""
    begin = MONDAY_S + part * hours * 3600
    within = [("t", ">=", begin), ("t", "<", begin + hours * 3600), ("lat", ">", 36), ("lat", "<", 39)]
    table = pyarrow.parquet.read_table(WEEK, columns=["cab_id", "t", "lat", "lon"], filters=within)
    x, y = Transformer.from_crs(4326, SRID, always_xy=True).transform(table["lon"].to_numpy(), table["lat"].to_numpy())
    cab = np.unique(np.array(table["cab_id"].to_pylist()), return_inverse=True)[1]
    return make_paths(cab, table["t"].to_numpy().astype(float), x, y)


def make_paths(who: Any, t: Any, x: Any, y: Any) -> Trajectories:
    """One trajectory a person, one fix a second."""
    order = np.lexsort((t, who))
    who, t, x, y = (column[order] for column in (who, t, x, y))
    kept = np.append(True, (np.diff(who) != 0) | (np.diff(t) > 0))
    number, first = np.unique(who[kept], return_index=True)
    return Trajectories(
        trajectory_id=np.arange(len(number)), subject=np.arange(len(number)), offset=np.append(first, kept.sum()),
        t=t[kept], x=x[kept], y=y[kept], srid=SRID, grid_m=1.0, grid_s=1,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=("loads", "changes", "strangers"))
    parser.add_argument("--kind", nargs="*", default=[], help="of `changes`")
    asked = parser.parse_args()
    changes = partial(measure_changes, asked.kind)
    for part, measure in (("loads", measure_loads), ("changes", changes), ("strangers", measure_strangers)):
        if asked.part in (None, part):
            measure()


if __name__ == "__main__":
    main()
