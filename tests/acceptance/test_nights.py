"""Nights of a job with kills of its processes, at each step and at random: nothing is lost or done twice."""

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from dbanon import testing
from dbanon.postgres import programs
from dbanon.postgres.server import EmbeddedServer
from tests import wholeness
from tests.acceptance import workers
from tests.db import nights
from tests.db.methods import drop_requests

pytestmark = pytest.mark.stress
NIGHTS, KILLS, PATIENCE_S = 14, 12, 240
SOURCE = """
CREATE TABLE public.gps AS
SELECT 'c' || i AS cab, t AS ts, 8.2 + 0.0005 * i + 0.001 * sin(extract(epoch FROM t) / 3000 + i) AS lon, 53.1 AS lat
FROM generate_series(1, 8) i, generate_series(timestamptz '2008-05-31Z', '2008-06-15 06:00Z', '10 minutes') t;
CREATE INDEX ON public.gps (ts);
SELECT dbanon.add_job('taxi', 'public.gps', load => '{"subject": "cab", "time_column": "ts", "x": "lon", "y": "lat"}',
    method => 'tp-aware', params => '{"k": 3, "step_s": 600, "max_gap_s": 900}', starts => '2008-06-01Z',
    retry => '1 second', max_tries => 1000)
"""
STATES = "SELECT state, count(*) FROM dbanon.job_runs GROUP BY state ORDER BY state"
MISSING = """
SELECT count(*) FROM (SELECT cab, ts FROM public.gps WHERE ts < '2008-06-15Z') g
FULL JOIN (SELECT subject, t, count(*) AS n FROM dbanon.fix GROUP BY 1, 2) f ON f.subject = g.cab AND f.t = g.ts
WHERE f.n IS DISTINCT FROM 1 OR g.cab IS NULL
"""

# Each step of a period: the state after it, and the loads, runs and parts there are before it.
STEPS = {
    "load": ("run", (0, 0, 0)),
    "run": ("compute", (1, 0, 0)),
    "compute": ("publish", (1, 1, 0)),
    "publish": ("retain", (1, 1, 0)),
    "retain": ("done", (1, 1, 1)),
}


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    directory = Path(tempfile.mkdtemp(prefix="dbanon-nights-", dir=testing._find_memory_directory()))
    directory.chmod(0o711)
    server = EmbeddedServer(directory / "home")
    try:
        server.start()
        from dbanon import schema

        schema.upgrade(server.target.url)
        with psycopg.connect(server.target.url, autocommit=True) as connection:
            drop_requests(connection)
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


class Nights:
    """A job with a worker, and what is done to them.

    Parameters
    ----------
    options : str
        Of the worker.
    calls : bool
        Whether psql calls ``dbanon.run_jobs`` again and again, as pg_cron does each minute.
    """

    def __init__(self, server: EmbeddedServer, log: Path, *options: str, with_calls: bool) -> None:
        self.server, self.log, self.options, self.calls = server, log, options, with_calls
        self.url = server.target.url
        self.random = random.Random(int(os.environ["DBANON_TEST_SEED"]))
        self.runners: list[subprocess.Popen[bytes]] = []
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(SOURCE)
        self.worker = workers.start(self.url, log, "--grace-s", "1", *options)

    def play(self) -> None:
        kills: list[Callable[[], None]] = [self._kill_worker, self._kill_server, self._kill_runner]
        try:
            for number in range(KILLS):
                until = time.monotonic() + self.random.uniform(0.2, 2)
                while time.monotonic() < until:
                    self._go_on()
                    time.sleep(0.2)
                kills[number % len(kills)]()
            workers.wait_until(self._done, PATIENCE_S, explain=self._state)
        finally:
            workers.stop(self.worker) if self.worker.process.poll() is None else None
            for runner in self.runners:
                runner.wait(60)

    def _go_on(self) -> None:
        """Start again what was killed, as init systems and timers do."""
        if self.worker.process.poll() is not None:
            self.worker = workers.start(self.url, self.log, "--grace-s", "1", *self.options)
        self.runners = [runner for runner in self.runners if runner.poll() is None]
        if self.calls and len(self.runners) < 2:
            psql = programs.find_binaries().bindir / "psql"
            call = "CALL dbanon.run_jobs(strict => true)"
            with self.log.open("ab") as log:
                made = subprocess.Popen([psql, "-X", "-q", "-d", self.url, "-c", call], stdout=log, stderr=log)
            self.runners.append(made)

    def _kill_worker(self) -> None:
        workers.kill(self.worker)

    def _kill_runner(self) -> None:
        """Kill the server process that takes steps, as the server itself sees it, or the client that called it."""
        if self.runners and self.random.random() < 0.5:
            self.random.choice(self.runners).kill()
            return
        with suppress(psycopg.OperationalError), psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend((held_by).pid) FROM dbanon.job WHERE held_by IS NOT NULL")

    def _kill_server(self) -> None:
        pid = self.server._find_postmaster()
        assert pid
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.5)  # for its processes to notice
        self.server.start()

    def _done(self) -> bool:
        self._go_on()
        with suppress(psycopg.OperationalError), psycopg.connect(self.url, autocommit=True) as connection:
            return dict(connection.execute(STATES).fetchall()).get("done") == NIGHTS
        return False

    def _state(self) -> str:
        with psycopg.connect(self.url, autocommit=True) as connection:
            rows = connection.execute("SELECT r::text FROM dbanon.job_runs r").fetchall()
        return "\n".join([*(row[0] for row in rows), self.log.read_text()[-3000:]])


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_at_each_step_of_a_period_leaves_one_load_one_run_and_one_part(
    server: EmbeddedServer, moment: str
) -> None:
    """Before its step reads anything, or after it has done all, and has yet to commit."""
    with psycopg.connect(server.target.url, autocommit=True) as connection:
        nights.make_source(connection, days=1)
        nights.add(connection)
        assert nights.take_step(connection) == "load"  # the source has no row from after the period yet
        nights.insert_rows(connection, 1, 1.1)
        nights.let_try_again(connection)
    for state, (after, there) in STEPS.items():
        with psycopg.connect(server.target.url, autocommit=True) as connection:
            if state == "compute":
                nights.compute(connection)
        kill_the_runner(server, "EXCLUSIVE" if moment == "before" else "SHARE")
        with psycopg.connect(server.target.url, autocommit=True) as connection:
            assert (nights.list_periods(connection, "state"), count_made(connection)) == ([state], there)
            assert nights.take_step(connection) == after
    with psycopg.connect(server.target.url, autocommit=True) as connection:
        assert nights.take_step(connection) == "load"  # of the next period, which waits
        assert (nights.list_periods(connection, "state"), count_made(connection)) == (["done", "load"], (1, 1, 1))
        assert nights.read_value(connection, "SELECT sum(rows_kept) FROM dbanon.load") == 2 * 24 * 6
        assert wholeness.find_broken(connection) == []


def kill_the_runner(server: EmbeddedServer, mode: str) -> None:
    """Kill the server process that takes the next step, once it waits for a lock on the periods' table.

    Others than EXCLUSIVE let it read the period, so that it waits only to write what has become of it.
    """
    psql = programs.find_binaries().bindir / "psql"
    call = [psql, "-X", "-q", "-d", server.target.url, "-c", "CALL dbanon.run_jobs(wait => false)"]
    waiting = "SELECT pid FROM pg_locks WHERE relation = 'dbanon.job_period'::regclass AND NOT granted"
    with suppress(psycopg.OperationalError), psycopg.connect(server.target.url) as holder:
        holder.execute(f"LOCK TABLE dbanon.job_period IN {mode} MODE")  # type: ignore[arg-type]
        runner = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        workers.wait_until(lambda: holder.execute(waiting).rowcount == 1)
        os.kill(nights.read_value(holder, waiting), signal.SIGKILL)
        assert runner.wait(60) != 0
        workers.wait_until(lambda: holder.execute("SELECT 1") is None)  # until the server ends all sessions
    workers.wait_until(lambda: is_up(server.target.url))


def is_up(url: str) -> bool:
    with suppress(psycopg.OperationalError), psycopg.connect(url):
        return True
    return False


def count_made(connection: psycopg.Connection) -> tuple[int, ...]:
    return tuple(
        nights.read_value(connection, f"SELECT count(*) FROM dbanon.{table}") for table in ("load", "run", "release")
    )


def test_fourteen_nights_with_kills_leave_fourteen_of_each(server: EmbeddedServer, tmp_path: Path) -> None:
    Nights(server, tmp_path / "log", "--schedule", with_calls=False).play()
    check(server.target.url)


def test_fourteen_nights_that_psql_calls_each_minute_leave_fourteen_of_each(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    Nights(server, tmp_path / "log", with_calls=True).play()
    check(server.target.url)


def check(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        wholeness.wait_until_alone(connection, 60)
        connection.execute("SELECT dbanon_internal.reap_runs()")
        assert wholeness.find_broken(connection) == []

        def count(what: str) -> int:
            row = connection.execute(f"SELECT count(*) FROM {what}").fetchone()  # type: ignore[arg-type]
            return int(row[0]) if row else -1

        assert count("dbanon.job_runs WHERE state = 'done' AND cardinality(load_ids) = 1") == NIGHTS
        assert count("dbanon.job_runs") == NIGHTS + 1  # the next one waits for rows from after it
        assert count("dbanon.load") == NIGHTS
        assert count("published.parts WHERE name = 'taxi'") == NIGHTS
        assert count("dbanon.release") == NIGHTS
        assert count("(SELECT DISTINCT date_trunc('day', since) FROM published.parts) d") == NIGHTS
        row = connection.execute(MISSING).fetchone()
        assert row == (0,)
