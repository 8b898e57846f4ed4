"""How long a load takes and how much memory it needs, from a file and from a table, and beside a plain one.

Run with ``./dev bench benchmarks/loads.py``; numbers of fixes as arguments, 1,000,000 and 10,000,000 by default. The
plain side is what a careful script would do: rows read one by one, inserted in batches with twins left out, lines made
at the end. It is measured on the first million rows of the last file, against dbanon on the same rows. With
``frames`` as the first argument the same fixes, 2,000,000 or another number, are loaded from files and from
tables in memory; the arguments after that choose among the sources. With ``again`` rows that are known are loaded with
``mode => 'new'``, and with ``rejected`` rows of which a third cannot be kept, with this checkout and with each other
whose directory is named, by turns.
"""

import csv
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from _measure import measure_server_cpu_s, run_dbanon, run_private_server, run_python

from dbanon import schema
from dbanon.database import open_database

SEED, FIXES_EACH, PART = 20080604, 200, 1_000_000
PLAIN_ROWS = 1_000_000


def write(path: Path, fixes: int) -> None:
    """Write a file of random walks in one town, one fix a minute, 200 a subject; one in 10,000 lies at sea."""
    rng = np.random.default_rng(SEED)
    schema = pa.schema([("subject", pa.string()), ("time", pa.int64()), ("x", pa.float64()), ("y", pa.float64())])
    with pacsv.CSVWriter(path, schema) as writer:
        for start in range(0, fixes, PART):
            number = np.arange(start, min(start + PART, fixes))
            walk = rng.normal(0, 2e-4, (2, len(number))).cumsum(axis=1)
            x, y = np.abs((walk + 0.1) % 0.4 - 0.2) + np.array([[-122.5], [37.7]])
            x = np.where(rng.random(len(number)) < 1e-4, x - 20, x)
            subject = pc.binary_join_element_wise("u", pa.array(number // FIXES_EACH).cast(pa.string()), "")
            t = 1_212_562_800 + number % FIXES_EACH * 60
            writer.write_table(pa.table([subject, t, np.round(x, 6), np.round(y, 6)], schema=schema))


def load_plainly(path: Path) -> float:
    """Load the first rows as a script would, without the checks that need all fixes together; seconds."""
    began = time.perf_counter()
    with open_database() as database, path.open(newline="") as file:
        connection = database.connection
        with connection.transaction(force_rollback=True), connection.cursor() as cursor:
            cursor.execute("SET LOCAL search_path = pg_catalog, public, pg_temp")
            cursor.execute("CREATE TEMP TABLE plain (subject text, t float8, place geometry, UNIQUE (subject, t))")
            rows = itertools.islice(csv.DictReader(file), PLAIN_ROWS)
            cursor.executemany(
                "INSERT INTO plain VALUES (%s, %s, ST_Transform(ST_SetSRID(ST_MakePoint(%s, %s), 4326), 32610)) "
                "ON CONFLICT DO NOTHING",
                ((row["subject"], float(row["time"]), float(row["x"]), float(row["y"])) for row in rows),
            )
            cursor.execute(
                "SELECT subject, ST_MakeLine(ST_MakePointM(ST_X(place), ST_Y(place), t) ORDER BY t) "
                "FROM plain GROUP BY subject"
            )
    return time.perf_counter() - began


def copy_first_rows(path: Path, directory: Path) -> Path:
    """Copy the rows that the plain side is measured on."""
    short = directory / "short.csv"
    with path.open() as source:
        short.write_text("".join(itertools.islice(source, PLAIN_ROWS + 1)))
    return short


IN_MEMORY = """
import sys
import pyarrow as pa
import pyarrow.parquet as pq
import dbanon
file = pq.ParquetFile(sys.argv[1])
frame = {
    "pyarrow": lambda: file.read(),
    "pandas": lambda: file.read().to_pandas(),
    "stream": lambda: pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches()),
}[sys.argv[2]]()
with dbanon.connect() as database:
    database.load_trajectories(frame, dataset=sys.argv[3])
"""


def compare_frames(fixes: int, sources: Sequence[str]) -> None:
    """Load the same fixes from files and from memory; the memory of the client has the table in it."""
    run_dbanon("db", "up")
    print(
        f"{'fixes':>12} {'from':>8} {'seconds':>8} {'client CPU':>11} {'server CPU':>11} {'client MB':>10} "
        f"{'server MB':>10}"
    )
    with tempfile.TemporaryDirectory() as name:
        path, packed = Path(name) / "fixes.csv", Path(name) / "fixes.parquet"
        write(path, fixes)
        pq.write_table(pacsv.read_csv(path), packed)
        for source in sources or ("csv", "parquet", "pyarrow", "pandas", "stream"):
            before = measure_server_cpu_s()
            if source in ("csv", "parquet"):
                cost = run_dbanon("load", "trajectories", str(path.with_suffix(f".{source}")), "--dataset", "frames")
            else:
                cost = run_python("-c", IN_MEMORY, str(packed), source, "frames")
            server_s = measure_server_cpu_s() - before
            print(
                f"{fixes:>12,} {source:>8} {cost.seconds:>8.1f} {cost.cpu_s:>11.1f} {server_s:>11.1f} "
                f"{cost.client_mb:>10.0f} {cost.server_mb:>10.0f}"
            )
            with open_database() as database:
                database.connection.execute("DELETE FROM dbanon.dataset WHERE name = 'frames'")


PATHS = """
CREATE TABLE public.gps AS
    SELECT 'c' || c AS cab, to_timestamp(1767571200 + f * 60 + c %% 60) AS ts,
        8.2 + (c * 37 + f * 11) %% 1000 * 1e-4 AS lon, 53.1 + (c * 91 + f * 17) %% 1000 * 1e-4 AS lat
    FROM generate_series(0, %(fixes)s - 1) f, generate_series(1, %(people)s) c;
CREATE INDEX ON public.gps (ts)
"""
AGAIN = """
SELECT rows_read, rows_kept, known FROM dbanon.import_trajectories('public.gps', dataset => 'd', subject => 'cab',
    time_column => 'ts', x => 'lon', y => 'lat', mode => 'new', since => to_timestamp(%s))
"""


REJECTED = """
CREATE TABLE public.gps_bad AS
    SELECT CASE WHEN n % 12 = 0 THEN NULL ELSE cab END AS cab, CASE WHEN n % 12 = 3 THEN NULL ELSE ts END AS ts,
        CASE WHEN n % 12 = 6 THEN 'NaN' ELSE lon END AS lon, CASE WHEN n % 12 = 9 THEN 91 ELSE lat END AS lat
    FROM (SELECT *, row_number() OVER () AS n FROM public.gps) numbered
"""
LOAD_REJECTED = """
SELECT rows_read, rows_kept FROM dbanon.import_trajectories('public.gps_bad', dataset => %s, subject => 'cab',
    time_column => 'ts', x => 'lon', y => 'lat')
"""


def compare_checkouts(job: str, others: Sequence[str]) -> None:
    """Run a job of this program with the package of each checkout, each twice."""
    columns = {
        "again": f"{'people':>7} {'fixes each':>11} {'known':>8} {'load s':>7} {'again s':>20} {'CPU s':>20}",
        "rejected": f"{'read':>9} {'kept':>9} {'seconds':>34} {'CPU s':>34}",
    }
    print(f"{'checkout':>12} {columns[job]}")
    for place in [*others, str(Path(__file__).parents[1])] * 2:
        cost = run_python(__file__, f"{job}_here", environment={"PYTHONPATH": place})
        print(cost.printed, end="", flush=True)


def load_rejected(people: int, fixes: int) -> None:
    """Load the same rows five times, of which four twelfths cannot be kept; CPU is the session's."""
    with run_private_server() as (server, _):
        schema.upgrade(server.url)
        with psycopg.connect(server.url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
            connection.execute(PATHS, {"people": people, "fixes": fixes})
            connection.execute(REJECTED)
            costs = [time_statement(connection, LOAD_REJECTED, [f"bad {number}"]) for number in range(5)]
    (read, kept), _, _ = costs[0]
    wall, used = ("".join(f"{cost[column]:>7.2f}" for cost in costs) for column in (1, 2))
    place = Path(schema.__file__).parents[2].name
    print(f"{place:>12} {read:>9,} {kept:>9,} {wall} {used}", flush=True)


def time_statement(
    connection: psycopg.Connection, statement: str, parameters: Sequence[object] | None = None
) -> tuple[tuple, float, float]:
    """Execute a statement of one row; the row, seconds and the session's seconds of CPU."""
    began, cpu = time.perf_counter(), read_cpu_s(connection)
    row = connection.execute(statement, parameters).fetchone()
    return row, time.perf_counter() - began, read_cpu_s(connection) - cpu


def load_again(people: int, fixes: int, last: int) -> None:
    """Load one path a person, and then three times the last fixes of each, which are known; CPU is the session's."""
    with run_private_server() as (server, _):
        schema.upgrade(server.url)
        with psycopg.connect(server.url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
            connection.execute(PATHS, {"people": people, "fixes": fixes})
            times = (0, *[1767571200 + (fixes - last) * 60] * 3)
            (_, load_s, _), *costs = [time_statement(connection, AGAIN, [since]) for since in times]
    row = costs[-1][0]
    if row != (people * last, 0, people * last):
        raise SystemExit(f"rows were not known: {row}")
    wall, used = ("".join(f"{cost[column]:>7.2f}" for cost in costs) for column in (1, 2))
    place = Path(schema.__file__).parents[2].name
    print(f"{place:>12} {people:>7,} {fixes:>11,} {people * last:>8,} {load_s:>7.1f} {wall} {used}", flush=True)


def read_cpu_s(connection: psycopg.Connection) -> float:
    fields = Path(f"/proc/{connection.info.backend_pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    if sys.argv[1:2] in (["again"], ["rejected"]):
        compare_checkouts(sys.argv[1], sys.argv[2:])
        return
    if sys.argv[1:2] == ["rejected_here"]:
        load_rejected(2_000, 300)
        return
    if sys.argv[1:2] == ["again_here"]:
        load_again(10_000, 220, 21)
        load_again(20, 100_000, 20)
        return
    if sys.argv[1:2] == ["frames"]:
        compare_frames(int((sys.argv[2:] or ["2000000"])[0]), sys.argv[3:])
        return
    sizes = [int(number) for number in sys.argv[1:]] or [1_000_000, 10_000_000]
    run_dbanon("db", "up")
    print(f"{'fixes':>12} {'from':>6} {'seconds':>9} {'us a fix':>9} {'client MB':>10} {'server MB':>10}")
    with tempfile.TemporaryDirectory() as name:
        for fixes in sizes:
            path, dataset = Path(name) / "fixes.csv", f"loads_{fixes}"
            write(path, fixes)
            cost = run_dbanon("load", "trajectories", str(path), "--dataset", dataset)
            show(fixes, "file", cost)
            with open_database() as database:
                database.connection.execute(
                    "CREATE TABLE public.loads_gps AS "
                    "SELECT f.subject, f.t, public.ST_Transform(f.position, 4326) AS place "
                    "FROM dbanon.fix f JOIN dbanon.dataset USING (dataset_id) WHERE name = %s",
                    [dataset],
                )
            columns = ["--subject", "subject", "--time", "t", "--geom", "place"]
            show(fixes, "table", run_dbanon("import", "public.loads_gps", "--dataset", dataset, "--replace", *columns))
            with open_database() as database:
                database.connection.execute("DROP TABLE public.loads_gps")
                database.connection.execute("DELETE FROM dbanon.dataset WHERE name = %s", [dataset])
        compare(copy_first_rows(path, Path(name)))


def show(fixes: int, source: str, cost) -> None:
    us = 1e6 * cost.seconds / fixes
    print(f"{fixes:>12,} {source:>6} {cost.seconds:>9.1f} {us:>9.1f} {cost.client_mb:>10.0f} {cost.server_mb:>10.0f}")


def compare(path: Path) -> None:
    slow_s = load_plainly(path)
    began = time.perf_counter()
    with open_database() as database:
        database.load_trajectories([path], dataset="loads_short")
        fast_s = time.perf_counter() - began
        database.connection.execute("DELETE FROM dbanon.dataset WHERE name = 'loads_short'")
    print(
        f"\n{PLAIN_ROWS:,} fixes, a plain script against dbanon: {slow_s:.1f} s, {fast_s:.1f} s, {slow_s / fast_s:.0f}x"
    )


if __name__ == "__main__":
    main()
