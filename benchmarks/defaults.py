"""What a run of each method family costs with its defaults, from the table to the verdict, beside other checkouts.

Run with ``./dev bench benchmarks/defaults.py DIRECTORY ...``: the package of this checkout and of each other whose
directory is named, run by run by turns, each on a server of its own with the same people. Seconds are of the whole
run, CPU that of the process that computes and attacks, both medians; the first run of each, which compiles, is not
counted.
"""

import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg
from _measure import run_private_server

import dbanon
from dbanon import schema

DAY = "2026-02-05"
PEOPLE = {
    "city": {"objects": 20_000, "instants": 60, "quasi_identifiers": "random", "seed": 3},
    "phones": {"objects": 1_000, "instants": 1440, "calls_per_day": 40, "seed": 4},
}
RUNS = {
    "tp-aware": ("city", {"k": 20}),
    "kte": ("phones", {"k": 2}),
    "mob": ("city", {}),
    "sensitive-sites": ("city", {"k": 5, "at": f"{DAY}T00:30:00Z"}),
    "semantic": ("phones", {}),
}
REPEATS = 7


def serve() -> None:
    """Make people on a server of one's own, then run each family that is named in a line, and print what it cost."""
    with run_private_server() as (server, _):
        schema.upgrade(server.url)
        with dbanon.connect(server.url) as database:
            for dataset, options in PEOPLE.items():
                database.synth(dataset, start=f"{DAY}T00:00:00Z", pois=800, stations=60, **options)
            make_clinics(server.url)
            for seed, line in enumerate(sys.stdin):
                dataset, parameters = RUNS[line.strip()]
                began, cpu = time.perf_counter(), time.process_time()
                database.run(line.strip(), dataset=dataset, seed=seed, params=parameters)
                print("cost", time.perf_counter() - began, time.process_time() - cpu, flush=True)


def ask(process: subprocess.Popen, method: str) -> tuple[float, float]:
    """Have a process run a family once; seconds and its seconds of CPU."""
    print(method, file=process.stdin, flush=True)
    for line in process.stdout:
        if line.startswith("cost"):
            wall, cpu = map(float, line.split()[1:])
            return wall, cpu
    raise SystemExit(f"the run of {method} failed")


def make_clinics(url: str) -> None:
    """Load 25 sensitive sites, anywhere in the city."""
    with psycopg.connect(url, autocommit=True) as connection:
        extent = "SELECT public.ST_Extent(path) AS e, min(public.ST_SRID(path)) FROM dbanon.trajectory"
        sides = "public.ST_XMin(e), public.ST_YMin(e), public.ST_XMax(e), public.ST_YMax(e), min"
        west, south, east, north, srid = connection.execute(f"SELECT {sides} FROM ({extent}) all_paths").fetchone()
        connection.execute("CREATE TABLE public.clinics (name text, geom public.geometry)")
        drawn = random.Random(1)
        for number in range(25):
            place = (f"c{number}", drawn.uniform(west, east), drawn.uniform(south, north), srid)
            connection.execute(
                "INSERT INTO public.clinics VALUES (%s, public.ST_SetSRID(public.ST_MakePoint(%s, %s), %s))", place
            )
        connection.execute("SELECT * FROM dbanon.import_sites('public.clinics', 'city', name => 'name')")


def main(others: Sequence[str]) -> None:
    if others == ["here"]:
        serve()
        return
    places = [*others, str(Path(__file__).parents[1])]
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [
        subprocess.Popen([sys.executable, __file__, "here"], env={**os.environ, "PYTHONPATH": place}, **pipe)
        for place in places
    ]
    print(f"{'':>16}" + "".join(f"{Path(place).name:>16} CPU s" for place in places))
    for method in RUNS:
        costs = [[ask(process, method) for process in processes] for _ in range(REPEATS + 1)][1:]
        columns = [[statistics.median(column) for column in zip(*of, strict=True)] for of in zip(*costs, strict=True)]
        print(f"{method:>16}" + "".join(f"{wall:>16.2f}{cpu:>6.2f}" for wall, cpu in columns), flush=True)
    for process in processes:
        process.communicate()


if __name__ == "__main__":
    main(sys.argv[1:])
