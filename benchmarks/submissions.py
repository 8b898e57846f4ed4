"""A thousand submissions of tiny runs from several sessions to a worker that does two at once: how fast they go.

As `pgbench` would, each session submits one run after the other with `dbanon.submit_run`.
Takes the number of submissions, if not 1,000.
"""

import statistics
import sys
import threading
import time
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks._measure import run_private_server
from dbanon import schema
from dbanon.database import open_database
from tests import wholeness
from tests.acceptance import workers

SESSIONS, WORKERS = 8, 2


def main(submissions: int) -> None:
    with run_private_server() as (server, directory):
        url = server.url
        schema.upgrade(url)
        with open_database(url) as database:
            database.synth("tiny", objects=20, blocks=4, instants=5)
        with workers.keep_up(url, directory / "log", "--jobs", str(WORKERS), count=WORKERS) as worker:
            measure(url, submissions)
            workers.stop(worker)
        with psycopg.connect(url, autocommit=True) as connection:
            print(f"broken rules: {wholeness.find_broken(connection)}")


def measure(url: str, submissions: int) -> None:
    took: list[float] = []
    began = time.monotonic()
    threads = [threading.Thread(target=submit, args=(url, submissions // SESSIONS, took)) for _ in range(SESSIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    submitted = time.monotonic() - began
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute("SELECT count(*) FROM dbanon.run WHERE todo IS NOT NULL").fetchone() != (0,):
            time.sleep(0.1)
        seconds = time.monotonic() - began
        statuses = connection.execute("SELECT status, count(*) FROM dbanon.runs GROUP BY 1 ORDER BY 1").fetchall()
        waited = connection.execute(
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY w), max(w) FROM "
            "(SELECT extract(epoch FROM finished_at - started_at)::float8 AS w FROM dbanon.run) s"
        ).fetchone()
    each = 1e3 * statistics.median(took)
    print(f"{len(took)} submissions by {SESSIONS} sessions in {submitted:.1f} s, each {each:.1f} ms")
    print(f"done by {WORKERS} processes in {seconds:.1f} s ({len(took) / seconds:.1f} a second): {dict(statuses)}")
    print(f"a run takes {waited[0]:.3f} s in the median, at most {waited[1]:.2f} s")


def submit(url: str, count: int, took: list[float]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(count):
            began = time.monotonic()
            connection.execute("SELECT dbanon.submit_run('tiny', 'tp-aware', '{\"k\": 3, \"instants\": 5}')")
            took.append(time.monotonic() - began)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
