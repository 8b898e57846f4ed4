"""How near `dbanon plan` is to what a run takes: seconds, memory, rows and disk, said before and measured after.

Run with ``./dev bench benchmarks/plans.py [NAME]...``: a day and a week of San Francisco's taxis, if the files lie
beside the repository, a city and phone records. Each plan and each run is a process of its own on a server of its own.
Memory is that of the program; disk is what all tables grow by with the run and its release. Seconds are without
compilation.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import psycopg
from _measure import run_dbanon, run_private_server

import dbanon
from benchmarks.defaults import DAY, PEOPLE, make_clinics
from dbanon import schema
from dbanon.database import Database

TAXIS = Path(__file__).parents[2] / "shared" / "data" / "cabspotting"
CITY = {**PEOPLE["city"], "objects": 50_000}
PHONES = {**PEOPLE["phones"], "objects": 2_000}
WINDOWS = ("kte", "--algorithm", "k-merge", "-p", "k=5", "-p", "window_s=1800")
SENT = ("tp-aware", "-p", "k=20", "--allow-no-requests")


def make_city(database: Database, url: str) -> None:
    database.synth("city", start=f"{DAY}T00:00:00Z", pois=800, stations=60, **CITY)
    make_clinics(url)


def make_phones(database: Database, url: str) -> None:
    del url
    database.synth("phones", start=f"{DAY}T00:00:00Z", pois=800, stations=60, **PHONES)


def load_taxis(file: str) -> Callable[[Database, str], None]:
    def load(database: Database, url: str) -> None:
        del database
        columns = ("--subject", "cab_id", "--time", "t", "--x", "lon", "--y", "lat", "--drop-outliers")
        run_dbanon("load", "trajectories", str(TAXIS / file), "--dataset", "taxis", *columns, "--dsn", url)

    return load


WORLDS: dict[str, tuple[str, Callable[[Database, str], None], tuple[tuple[str, ...], ...]]] = {
    "city": (
        "city",
        make_city,
        (("tp-aware", "-p", "k=20"), ("mob",), ("sensitive-sites", "-p", "k=5", "-p", f"at={DAY}T00:30:00Z")),
    ),
    "phones": ("phones", make_phones, (("kte", "-p", "k=2"), ("semantic",))),
    "day": ("taxis", load_taxis("cabs_20080604.csv.gz"), (SENT, WINDOWS)),
    "week": ("taxis", load_taxis("cabs_20080602_08.parquet"), (SENT, WINDOWS)),
}


def measure_disk_mb(url: str) -> float:
    """Sum the sizes of all tables and indexes of schema dbanon, after what was deleted is gone."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM")
        query = "SELECT sum(pg_total_relation_size(oid)) / 1048576.0 FROM pg_class WHERE relkind = 'r'"
        [mb] = connection.execute(query + " AND relnamespace = 'dbanon'::regnamespace").fetchone()  # type: ignore[misc]
    return float(mb)


def measure_plan(url: str, dataset: str, words: tuple[str, ...]) -> tuple[float, dict[str, float], dict[str, float]]:
    """Plan and run a method; the seconds of the plan, what it said, and what the run took."""
    given = [words[0], "--dataset", dataset, *words[1:], "--json", "--dsn", url]
    planned = run_dbanon("plan", *given)
    said = {item: float(one["value"]) for item, one in json.loads(planned.printed)["plan"].items()}
    before = measure_disk_mb(url)
    run: dict[str, Any] = json.loads(run_dbanon("run", *given).printed)
    run_dbanon("publish", str(run["run_id"]), "benchmark", "--dsn", url)
    with psycopg.connect(url) as connection:
        [rows] = connection.execute("SELECT rows FROM published.releases").fetchone()  # type: ignore[misc]
    took = {
        "seconds": run["timings"]["total_s"] - run["timings"].get("compile_s", 0),
        "memory_mb": run["peak_rss_mb"],
        "rows": rows,
        "disk_mb": measure_disk_mb(url) - before,
    }
    run_dbanon("unpublish", "benchmark", "--dsn", url)
    return planned.seconds, said, took


def main(names: list[str]) -> None:
    print("| data | method | the plan, s | " + " | ".join(("seconds", "MB", "rows", "disk, MB")) + " | off by |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names:
        dataset, make, methods = WORLDS[name]
        for words in methods:
            with run_private_server() as (server, _):
                schema.upgrade(server.url)
                with dbanon.connect(server.url) as database:
                    make(database, server.url)
                plan_s, said, took = measure_plan(server.url, dataset, words)
            off = {item: said[item] / max(took[item], 1e-9) for item in took}
            pairs = " | ".join(f"{said[item]:,.1f} → {took[item]:,.1f}" for item in took)
            worst = max(off.values(), key=lambda one: max(one, 1 / one))
            print(f"| {name} | `{words[0]}` | {plan_s:.1f} | {pairs} | {worst:.2f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or [name for name in WORLDS if name not in ("day", "week") or TAXIS.is_dir()])
