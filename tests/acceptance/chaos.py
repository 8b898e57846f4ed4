"""Eight submissions to two workers while workers are killed, the server is stopped and runs are cancelled.

Whatever happens, afterwards nothing is half there, no run is lost, and every status is the right one.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg

from dbanon.base.background import run_in_background
from dbanon.postgres.server import EmbeddedServer
from tests import wholeness
from tests.acceptance import workers

SUBMISSIONS, WORKERS, EVENTS = 8, 2, 4
PATIENCE_S = 120
STATE = (
    "(SELECT run_id, status, todo, worker, held_by, attempts, cancel_requested_at, error FROM dbanon.run)",
    "dbanon.workers",
    "(SELECT pid, application_name, state, wait_event, query_start, left(query, 80) FROM pg_stat_activity)",
    "(SELECT pid, locktype, classid, objid, mode, granted FROM pg_locks WHERE locktype = 'advisory')",
)


class Attempt:
    """One try: what was done to whom.

    Parameters
    ----------
    server : EmbeddedServer
        With a dataset ``city``; is stopped and started.
    random : random.Random
    log : Path
        What the workers say.
    """

    def __init__(self, server: EmbeddedServer, random: random.Random, log: Path, number: int) -> None:
        self.server, self.random, self.log, self.number = server, random, log, number
        self.url = server.target.url
        self.cancelled: set[int] = set()
        self.runs: list[int] = []
        self.workers: list[workers.Worker] = []
        self.done: Counter[str] = Counter()

    def play(self) -> Counter[str]:
        """Go through all of it; returns how often what was done and how runs ended."""
        try:
            self._ensure_workers()
            workers.wait_until(lambda: workers.count_workers(self.url) == WORKERS, PATIENCE_S)
            self._submit()
            for moment in sorted(self.random.uniform(0, 3.0) for _ in range(EVENTS)):
                self._wait_for(moment)
                self._event()
            workers.wait_until(self._idle, PATIENCE_S, explain=self._state)
        finally:
            for worker in self.workers:
                workers.stop(worker, seconds=PATIENCE_S) if worker.process.poll() is None else None
        self._check()
        return self.done

    def _submit(self) -> None:
        """Submit: half in `submit_run`, half by somebody who waits and publishes."""
        self.began = time.monotonic()
        with psycopg.connect(self.url, autocommit=True) as connection:
            before = self._newest(connection)
            for i in range(SUBMISSIONS // 2):
                run_in_background(self._anonymize, f"try_{self.number}_{i}", 3 + i)
                connection.execute("SELECT dbanon.submit_run('city', 'tp-aware', %s)", [f'{{"k": {4 + i}}}'])
            # Not counted by their numbers: a server that is stopped at once skips some.
            workers.wait_until(lambda: len(self._since(connection, before)) == SUBMISSIONS, PATIENCE_S)
            self.runs = self._since(connection, before)

    def _anonymize(self, name: str, k: int) -> None:
        call = "CALL dbanon.anonymize('city', 'tp-aware', %s, publish_as => %s, allow_overlap => true, reason => %s)"
        with suppress(psycopg.Error), psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(call, [f'{{"k": {k}}}', name, "a trial of the queue on generated data"])

    def _newest(self, connection: psycopg.Connection) -> int:
        row = connection.execute("SELECT coalesce(max(run_id), 0) FROM dbanon.run").fetchone()
        return row[0] if row else 0

    def _since(self, connection: psycopg.Connection, before: int) -> list[int]:
        rows = connection.execute("SELECT run_id FROM dbanon.run WHERE run_id > %s ORDER BY run_id", [before])
        return [row[0] for row in rows]

    def _wait_for(self, moment: float) -> None:
        time.sleep(max(0.0, self.began + moment - time.monotonic()))

    def _event(self) -> None:
        events: list[Callable[[], None]] = [self._kill, self._kill_part, self._stop_server, self._cancel, self._restart]
        event = self.random.choice(events)
        self.done[event.__name__] += 1
        event()

    def _kill(self) -> None:
        workers.kill(self.random.choice(self.workers))

    def _kill_part(self) -> None:
        worker = self.random.choice(self.workers)
        for pid in self.random.sample([worker.process.pid, *worker.children()], 1):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _stop_server(self) -> None:
        mode = self.random.choice(["immediate", "fast"])
        self.server._run_pg_ctl("stop", "-m", mode)
        self.server.start()

    def _cancel(self) -> None:
        run_id = self.random.choice(self.runs)
        with suppress(psycopg.Error), psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SELECT dbanon.cancel_run(%s)", [run_id])
            self.cancelled.add(run_id)

    def _restart(self) -> None:
        worker = self.random.choice(self.workers)
        with suppress(ProcessLookupError):
            worker.process.terminate()
        self._ensure_workers()

    def _ensure_workers(self) -> None:
        self.workers = [w for w in self.workers if w.process.poll() is None]
        while len(self.workers) < WORKERS:
            self.workers.append(workers.start(self.url, self.log, "--grace-s", "1"))

    def _idle(self) -> bool:
        self._ensure_workers()  # again and again: some that were told to stop are about to
        with suppress(psycopg.OperationalError), psycopg.connect(self.url, autocommit=True) as connection:
            rows = connection.execute("SELECT count(*) FROM dbanon.run WHERE todo IS NOT NULL").fetchone()
            return rows == (0,)
        return False

    def _state(self) -> str:
        """Runs, workers and locks as they are, and what workers said."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            tables = [connection.execute(f"SELECT t::text FROM {table} t").fetchall() for table in STATE]  # type: ignore[arg-type]
        return "\n".join([*(row[0] for rows in tables for row in rows), str(dict(self.done)), self.log.read_text()])

    def _check(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            wholeness.wait_until_alone(connection, PATIENCE_S)
            connection.execute("SELECT dbanon_internal.reap_runs()")
            assert wholeness.find_broken(connection) == []
            rows = connection.execute(
                "SELECT run_id, status, attempts >= most_attempts, error FROM dbanon.run WHERE run_id = ANY (%s)",
                [self.runs],
            ).fetchall()
        assert [row[0] for row in sorted(rows)] == self.runs, "a run is lost"
        for run_id, status, given_up, error in rows:
            self.done[status] += 1
            expected = "cancelled" if run_id in self.cancelled else "failed" if given_up and error else "verified"
            assert status == expected, (run_id, status, error, self.log.read_text()[-2000:])
