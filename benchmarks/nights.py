"""What the load of one night costs when there are 7 nights before it, and when there are 700.

A night is 200,000 fixes of 1,000 vehicles, loaded with ``mode => 'new'`` from a table with an index on its times. The
nights before are written straight into the dataset: as many trajectories as loads would have made, of fewer fixes each
unless ``--whole`` is given, since what is counted here is what a load reads of them.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks._measure import run_private_server
from dbanon import schema

CAB_COUNT, FIXES_PER_CAB, DAY_S = 1000, 200, 86400
START_S = 1704067200  # 2024-01-01
SOURCE = """
CREATE TABLE public.gps (cab text, ts timestamptz, lon float8, lat float8);
CREATE INDEX ON public.gps (ts);
"""
NIGHT = """
INSERT INTO public.gps
SELECT 'c' || c, to_timestamp(%(from)s + f * 430 + c %% 430), 8.2 + (c * 37 + f * 11) %% 1000 * 1e-4,
    53.1 + (c * 91 + f * 17) %% 1000 * 1e-4
FROM generate_series(1, %(cabs)s) c, generate_series(0, %(fixes)s - 1) f
"""
BEFORE = """
INSERT INTO dbanon.trajectory (dataset_id, subject, path)
SELECT d.dataset_id, 'c' || c, ST_SetSRID(ST_MakeLine(ARRAY(
    SELECT ST_MakePointM(441000 + (c * 37 + f * 11 + n) %% 10000, 5879000 + (c * 91 + f * 17) %% 10000,
        %(start)s + n * 86400 + f * 430 + c %% 430)
    FROM generate_series(0, %(fixes)s - 1) f ORDER BY f)), 32632)
FROM dbanon.dataset d, generate_series(1, %(cabs)s) c, generate_series(%(first)s, %(last)s - 1) n
"""
READ = """
SELECT coalesce(sum(heap_blks_read + heap_blks_hit), 0), coalesce(sum(toast_blks_read + toast_blks_hit), 0)
FROM pg_statio_all_tables WHERE schemaname = 'dbanon' AND relname = 'trajectory'
"""
LOAD = """
SELECT rows_read, rows_kept, known FROM dbanon.import_trajectories('public.gps', dataset => 'nights', subject => 'cab',
    time_column => 'ts', x => 'lon', y => 'lat', mode => 'new', since => to_timestamp(%s))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, nargs="+", default=[7, 700])
    parser.add_argument(
        "--whole", action="store_true", help="make the nights before of as many fixes as the one loaded"
    )
    asked = parser.parse_args()
    print("| nights before | trajectories | loaded | s | s again (all known) | heap blocks | toast blocks |")
    print("|---|---|---|---|---|---|---|")
    with run_private_server() as (server, _):
        schema.upgrade(server.url)
        with psycopg.connect(server.url, autocommit=True) as connection:
            measure(connection, asked.nights, FIXES_PER_CAB if asked.whole else 20)


def measure(connection: psycopg.Connection[Any], nights: list[int], fixes: int) -> None:
    connection.execute(SOURCE)
    connection.execute(NIGHT, {"from": START_S - DAY_S, "cabs": CAB_COUNT, "fixes": FIXES_PER_CAB})
    connection.execute(LOAD, [START_S - 2 * DAY_S])
    done = 0
    for before in nights:
        for first in range(done, before, 20):
            last = min(first + 20, before)
            connection.execute(
                BEFORE, {"start": START_S, "cabs": CAB_COUNT, "first": first, "last": last, "fixes": fixes}
            )
        connection.execute("TRUNCATE public.gps")
        night = START_S + before * DAY_S
        connection.execute(NIGHT, {"from": night, "cabs": CAB_COUNT, "fixes": FIXES_PER_CAB})
        connection.execute("VACUUM ANALYZE")
        [there] = fetch_one(connection, "SELECT count(*) FROM dbanon.trajectory")
        heap, toast = count_blocks(connection)
        began = time.perf_counter()
        _, kept, _ = fetch_one(connection, LOAD, [night - DAY_S])
        first_s = time.perf_counter() - began
        read = [after - earlier for after, earlier in zip(count_blocks(connection), (heap, toast), strict=True)]
        began = time.perf_counter()
        _, none, known = fetch_one(connection, LOAD, [night - DAY_S])
        again_s = time.perf_counter() - began
        if (kept, none, known) != (CAB_COUNT * FIXES_PER_CAB, 0, CAB_COUNT * FIXES_PER_CAB):
            raise SystemExit(f"a night was not loaded once: {(kept, none, known)}")
        print(
            f"| {before} | {there:,} | {kept:,} | {first_s:.1f} | {again_s:.1f} | {read[0]:,} | {read[1]:,} |",
            flush=True,
        )
        done = before + 1


def count_blocks(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    connection.execute("SELECT pg_stat_force_next_flush()")
    heap, toast = fetch_one(connection, READ)
    return int(heap), int(toast)


def fetch_one(connection: psycopg.Connection[Any], query: str, given: Any = None) -> Any:
    return connection.execute(query, given).fetchone()  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
