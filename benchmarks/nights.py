"""What the load of one night costs when there are 7 nights before it, and when there are 700; and its publication.

A night is 200,000 fixes of 1,000 vehicles, loaded with ``mode => 'new'`` from a table with an index on its times. The
nights before are written straight into the dataset: as many trajectories as loads would have made, of fewer fixes each
unless ``--whole`` is given, since what is counted here is what a load reads of them.

With ``--people`` the nights of so many people are published instead, each of an hour, or of ``--hours``, in windows of
10 minutes: as a part of a release that grows, and before that as a release of its own, which is undone. The last one
has ``--earlier`` more releases before it, copies of what is kept of the first and of the same people.

With ``--windows N`` a table has a fix a minute of N vehicles, and `k-merge` publishes each night in windows of half an
hour: what the second night costs beside ``--earlier`` copies of the first, step by step, and what dbanon.releases says.
"""

import argparse
import contextlib
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks._measure import run_private_server
from dbanon import schema, synth
from dbanon.database import Database, open_database
from dbanon.options.generating import Generating

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

HOUR_S, NIGHTS = 3600, 3
CITY_M, SPEED_MPS = 12_000, 8
LOAD_NIGHT = """
SELECT rows_kept FROM dbanon.import_trajectories('public.gps', dataset => 'city', subject => 'cab', time_column => 'ts',
    x => 'x', y => 'y', mode => %s, since => to_timestamp(%s))
"""
# What the publication of a night leaves for the next ones, as if it had been published on days before: and withdrawn,
# or live as parts of the release that the first is a part of. Each part has its table, without rows.
COPIED = """
CREATE TEMP TABLE copied ON COMMIT DROP AS
    SELECT nextval(pg_get_serial_sequence('dbanon.release', 'release_id')) AS number, n * interval '1 day' AS ago,
        {live} AS live, rel.*
    FROM (SELECT * FROM dbanon.release ORDER BY release_id LIMIT 1) rel, generate_series(1, {earlier}) n;
INSERT INTO dbanon.grouping (release_id, period, people)
    SELECT cop.number, tstzrange(lower(gro.period) - cop.ago, upper(gro.period) - cop.ago), gro.people
    FROM copied cop JOIN dbanon.grouping gro USING (release_id);
INSERT INTO dbanon.asked (release_id, content, windows, present, met, people)
    SELECT cop.number, ask.content, ask.windows, ask.present, ask.met, ask.people
    FROM copied cop JOIN dbanon.asked ask USING (release_id);
INSERT INTO dbanon.release (release_id, name, run_id, digest, rows, span, reach, groups_sum, holds, step_s, window_s,
        series_id, bounds, prefix, extent, longest_s, withdrawn_at, withdrawn_by)
    OVERRIDING SYSTEM VALUE
    SELECT number, CASE WHEN live THEN name ELSE 'old_' || number END, run_id, digest, rows,
        tstzrange(lower(span) - ago, upper(span) - ago), reach,
        dbanon_internal.compute_groups_sum(number, (SELECT dataset_id FROM dbanon.run WHERE run.run_id = cop.run_id)),
        holds, step_s, window_s, CASE WHEN live THEN series_id END,
        CASE WHEN live THEN tstzrange(lower(bounds) - ago, upper(bounds) - ago) END,
        CASE WHEN live THEN (prefix + number) % 1048575 + 1 END, extent, longest_s,
        CASE WHEN NOT live THEN now() END, CASE WHEN NOT live THEN 'postgres' END
    FROM copied cop;
DO $$
DECLARE
    part record;
BEGIN
    FOR part IN SELECT cop.release_id, rel.series_id, rel.release_id AS own, lower(rel.bounds) AS since,
                    upper(rel.bounds) AS until
                FROM copied cop JOIN dbanon.release rel ON rel.release_id = cop.number WHERE cop.live LOOP
        EXECUTE format('CREATE TABLE dbanon.release_%s (LIKE dbanon.release_%s INCLUDING INDEXES)',
                       part.own, part.release_id);
        EXECUTE format('ALTER TABLE dbanon.series_%s ATTACH PARTITION dbanon.release_%s FOR VALUES FROM (%L) TO (%L)',
                       part.series_id, part.own, part.since, part.until);
    END LOOP;
END
$$;
SELECT dbanon_internal.write_mark(dbanon_internal.read_whereabouts())
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, nargs="+", default=[7, 700])
    parser.add_argument(
        "--whole", action="store_true", help="make the nights before of as many fixes as the one loaded"
    )
    parser.add_argument("--people", type=int, nargs="+", default=[])
    parser.add_argument("--hours", type=int, default=1)
    parser.add_argument("--earlier", type=int, default=300)
    parser.add_argument("--windows", type=int, metavar="N")
    asked = parser.parse_args()
    if asked.windows:
        measure_windows(asked.windows, asked.earlier)
        return
    if asked.people:
        print("| people | requests each | releases before | rows | alone s (CPU) | part s (CPU) | returning s (CPU) |")
        print("|---|---|---|---|---|---|---|")
        for people in asked.people:
            for requests in (0, 2):
                measure_publishing(people, asked.hours, requests, asked.earlier)
        return
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


def measure_publishing(people: int, hours: int, requests: int, earlier: int) -> None:
    """Publish the same night twice; nothing has analysed its rows, unless the server or the publication itself did."""
    with run_private_server() as (server, _):
        schema.upgrade(server.url)
        with open_database(server.url) as database:
            plan = Generating(
                objects=people, instants=60 * hours * NIGHTS + 1, seed=1, start=START_S, requests_per_subject=requests,
                whole_share=1.0,
            )  # fmt: skip
            synth.fill_dataset(database.connection, "city", plan)
            for night in range(NIGHTS):
                if night == NIGHTS - 1 and earlier:
                    with database.connection.transaction():
                        database.connection.execute(COPIED.format(earlier=earlier, live=False))  # type: ignore[arg-type]
                since = START_S + night * hours * HOUR_S
                figures = publish_night(database, since, since + hours * HOUR_S)
                print(f"| {people:,} | {requests} | {figures} |", flush=True)


def publish_night(database: Database, since: int, until: int) -> str:
    connection, params = database.connection, {"k": 5, "instants": 10, "since": since, "until": until}
    run = database.run("tp-aware", dataset="city", params=params).run_id
    [before] = fetch_one(connection, "SELECT count(*) FROM dbanon.release")
    with connection.transaction(force_rollback=True):
        alone = time_call(connection, "SELECT dbanon.publish(%s, 'probe')", [run])
    part = time_call(connection, "SELECT dbanon.publish(%s, 'nights', grow => true)", [run])
    count = "SELECT dbanon_internal.count_few_over_parts(%s, (SELECT max(release_id) FROM dbanon.release), 'nights')"
    returning = time_call(connection, count, [run])
    [rows] = fetch_one(connection, "SELECT rows FROM dbanon.release ORDER BY release_id DESC LIMIT 1")
    return f"{before} | {rows:,} | {alone} | {part} | {returning}"


def drive(vehicles: int, rng: np.random.Generator) -> np.ndarray:
    """Positions of vehicles that drive to and fro and wait, a minute each for two nights: [minutes, vehicles, 2]."""
    at, to = rng.uniform(0, CITY_M, (2, vehicles, 2))
    places = []
    for _ in range(2 * DAY_S // 60):
        way = to - at
        left = np.hypot(*way.T)
        at = at + way * np.minimum(1, 60 * SPEED_MPS / np.maximum(left, 1))[:, None]
        # One in ten of those who have arrived sets out again.
        out = (left < 1) & (rng.random(vehicles) < 0.1)
        to[out] = rng.normal(CITY_M / 2, CITY_M / 5, (int(out.sum()), 2))
        places.append(at)
    return np.array(places)


def measure_windows(vehicles: int, earlier: int) -> None:
    """Load, publish and measure two nights; print what each step of the second takes."""
    with run_private_server() as (server, _):
        schema.upgrade(server.url)
        with open_database(server.url) as database:
            connection, places = database.connection, drive(vehicles, np.random.default_rng(1))
            connection.execute("CREATE TABLE public.gps (cab text, ts timestamptz, x float8, y float8)")
            print(
                "| vehicles | parts before | load s (CPU) | run s (CPU) | of it compute s | attack s | publish s (CPU) "
                "| evaluate s (CPU) | all s (CPU) |"
            )
            print("|---|---|---|---|---|---|---|---|---|")
            for night in range(2):
                if night:
                    with connection.transaction():
                        connection.execute(COPIED.format(earlier=earlier, live=True))  # type: ignore[arg-type]
                first_s = START_S + night * DAY_S
                copy_night(connection, places[night * DAY_S // 60 :][: DAY_S // 60], first_s)
                figures = measure_night(database, first_s, "new" if night else "create")
                print(f"| {vehicles:,} | {earlier if night else 0} | {figures} |", flush=True)
            query = "SELECT bounds, rows, percent_left_out, longer_side_m, count_error FROM dbanon.releases WHERE live"
            print(*fetch_one(connection, f"{query} ORDER BY bounds DESC LIMIT 1"), sep=", ")


def copy_night(connection: psycopg.Connection[Any], places: np.ndarray, first_s: int) -> None:
    with connection.cursor() as cursor, cursor.copy("COPY public.gps FROM STDIN") as copy:
        for minute, row in enumerate(places):
            when = datetime.fromtimestamp(first_s + 60 * minute, UTC).isoformat()
            copy.write(
                "".join(
                    f"c{n}\t{when}\t{8.2 + x / 66_700:.6f}\t{53.1 + y / 111_200:.6f}\n" for n, (x, y) in enumerate(row)
                )
            )
    connection.execute("ANALYZE public.gps")


def measure_night(database: Database, first_s: int, mode: str) -> str:
    """Seconds of each step of a night and of all, with those of the CPU in this process and on the server."""
    connection = database.connection
    marks = [(time.perf_counter(), read_all_cpu_s(connection.info.backend_pid))]

    def end_step() -> None:
        marks.append((time.perf_counter(), read_all_cpu_s(connection.info.backend_pid)))

    fetch_one(connection, LOAD_NIGHT, [mode, first_s - DAY_S])
    end_step()
    params = {"k": 5, "window_s": 1800, "since": first_s, "until": first_s + DAY_S}
    run = database.run("kte", dataset="city", algorithm="k-merge", params=params)
    end_step()
    fetch_one(connection, "SELECT dbanon.publish(%s, 'nights', grow => true)", [run.run_id])
    end_step()
    database.evaluate(run.run_id)
    end_step()
    [timings] = fetch_one(connection, "SELECT timings FROM dbanon.run WHERE run_id = %s", [run.run_id])
    pairs = [*np.diff(marks, axis=0), np.subtract(marks[-1], marks[0])]
    load, whole, publish, evaluate, night = (f"{seconds:.1f} ({cpu:.1f})" for seconds, cpu in pairs)
    of_run = (f"{timings[name]:.1f}" for name in ("compute_s", "verify_s"))
    return " | ".join((load, whole, *of_run, publish, evaluate, night))


def read_all_cpu_s(backend: int) -> float:
    """CPU seconds so far of this process and its children, and of the server with all of its processes."""
    stats: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended
            fields = path.read_text().rpartition(")")[2].split()
            stats[int(path.parent.name)] = [int(fields[at]) for at in (1, 11, 12, 13, 14)]
    server = stats[backend][0]  # the parent, which counts those that ended
    ticks = sum(stats[server][1:]) + sum(sum(each[1:3]) for each in stats.values() if each[0] == server)
    return ticks / os.sysconf("SC_CLK_TCK") + sum(os.times()[:4])


def time_call(connection: psycopg.Connection[Any], query: str, given: Any) -> str:
    """Seconds of a statement, and of the CPU that the session's own process on the server used."""

    def read_cpu_s() -> float:
        fields = Path(f"/proc/{connection.info.backend_pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    began, cpu = time.perf_counter(), read_cpu_s()
    fetch_one(connection, query, given)
    return f"{time.perf_counter() - began:.1f} ({read_cpu_s() - cpu:.1f})"


def count_blocks(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    connection.execute("SELECT pg_stat_force_next_flush()")
    heap, toast = fetch_one(connection, READ)
    return int(heap), int(toast)


def fetch_one(connection: psycopg.Connection[Any], query: str, given: Any = None) -> Any:
    return connection.execute(query, given).fetchone()  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
