"""A worker as a monitoring system sees it: its log, its heartbeat, its answers, and what SIGHUP does."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dbanon.postgres import server
from tests import pages
from tests.acceptance import workers
from tests.acceptance.commands import Done, call, list_waiting
from tests.acceptance.workers import wait_until
from tests.db import nights
from tests.db.conftest import RUN
from tests.facts import demand_refused

pytestmark = pytest.mark.stress

SCHEDULES = """SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND query LIKE '%FROM dbanon.job_runs%' AND pid <> pg_backend_pid()"""
SUBMIT = "SELECT dbanon.submit_run('ten', 'tp-aware', '{\"k\": 5}')"


@pytest.fixture
def ten(connection: psycopg.Connection) -> psycopg.Connection:
    """Connection to a database with a verified run of ten people."""
    connection.execute(RUN)
    return connection


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "worker.log"


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def ask_status(port: int, path: str = "/readyz") -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def read_figures(port: int) -> dict[tuple[str, ...], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
        text = response.read().decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


def read_events(worker: workers.Worker) -> list[dict[str, object]]:
    return [json.loads(line) for line in worker.said().splitlines()]


def is_verified(ten: psycopg.Connection, run_id: int) -> bool:
    return ten.execute("SELECT status FROM dbanon.runs WHERE run_id = %s", [run_id]).fetchone() == ("verified",)


def test_log_heartbeat_and_figures_follow_a_run(
    database: str, ten: psycopg.Connection, log: Path, port: int, tmp_path: Path
) -> None:
    beat = tmp_path / "beat"
    [(_, typed)] = pages.list_blocks("docs/administrators/operate.md", "sh")
    typed = typed.replace("/run/dbanon/beat", str(beat)).replace(":9464", f":{port}")
    with workers.keep_up(database, log, *typed.split()[2:]) as worker:
        wait_until(lambda: ask_status(port) == 200, 60, worker)
        assert ask_status(port, "/healthz") == 200
        first = beat.stat().st_mtime_ns
        ten.execute(SUBMIT)
        wait_until(lambda: is_verified(ten, 2), 120, worker)
        wait_until(lambda: read_figures(port).get(("dbanon_runs", "verified")) == 2, 60, worker)
        shown = read_figures(port)
        assert (shown["dbanon_connected",], shown["dbanon_workers",], shown["dbanon_runs_waiting",]) == (1, 1, 0)
        assert shown["dbanon_history_forked",] == 0
        assert shown["dbanon_last_success_timestamp_seconds", "run"] > 0
        wait_until(lambda: beat.stat().st_mtime_ns > first, 60, worker)
        assert workers.stop(worker) == 0
    said = read_events(worker)
    assert all(line.keys() <= workers.FIELDS for line in said)
    done = [line for line in said if line["event"] in ("taken", "done")]
    assert [(line["event"], line["run_id"], line["step"], line["tries"]) for line in done] == [
        ("taken", 2, "compute", 1),
        ("done", 2, "compute", 1),
    ]
    assert done[1]["state"] == "verified"
    assert said[-1]["event"] == "down"
    assert "ten" not in worker.said()


def test_it_is_not_ready_while_its_connections_are_lost_and_is_again_afterwards(
    database: str, ten: psycopg.Connection, log: Path, port: int, tmp_path: Path
) -> None:
    beat = tmp_path / "beat"
    name = server.parse(database)["dbname"]
    elsewhere = server.format_uri({**server.parse(database), "dbname": "postgres"})
    options = ("--log", "json", "--heartbeat", str(beat), "--listen", f"127.0.0.1:{port}")
    with workers.keep_up(database, log, *options) as worker, psycopg.connect(elsewhere, autocommit=True) as other:
        wait_until(lambda: ask_status(port) == 200, 60, worker)
        other.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")  # type: ignore[arg-type]
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        wait_until(lambda: ask_status(port) == 503, 60, worker)
        stopped = beat.stat().st_mtime_ns
        assert ask_status(port, "/healthz") == 200
        wait_until(lambda: read_figures(port) == {("dbanon_connected",): 0}, 60, worker)
        assert beat.stat().st_mtime_ns == stopped
        other.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")  # type: ignore[arg-type]
        wait_until(lambda: ask_status(port) == 200, 60, worker)
        assert workers.stop(worker) == 0
    assert any(line["event"] == "connect" and line["level"] == "error" for line in read_events(worker))


def test_a_hang_up_in_the_middle_of_a_run_lets_it_end_and_connects_anew(
    database: str, ten: psycopg.Connection, log: Path, port: int
) -> None:
    options = ("--log", "json", "--listen", f"127.0.0.1:{port}", "--jobs", "2", "--schedule")
    with workers.keep_up(database, log, *options, count=2) as worker:
        before = set(worker.children())
        wait_until(lambda: ten.execute(SCHEDULES).rowcount == 1, 60, worker)
        schedule = ten.execute(SCHEDULES).fetchall()
        with psycopg.connect(database) as holder:
            holder.execute("LOCK TABLE dbanon.trajectory")
            ten.execute(SUBMIT)
            wait_until(lambda: len(list_waiting(ten)) == 1, 120, worker)
            worker.process.send_signal(signal.SIGHUP)
            wait_until(lambda: any(line["event"] == "reload" for line in read_events(worker)), 60, worker)
            wait_until(lambda: len(set(worker.children()) - before) == 1, 60, worker)  # the other, which had no run
            wait_until(lambda: ten.execute(SCHEDULES).fetchall() not in ([], schedule), 20, worker)
        wait_until(lambda: is_verified(ten, 2), 120, worker)
        wait_until(lambda: len(set(worker.children()) - before) == 2, 60, worker)
        wait_until(lambda: workers.count_workers(database) == 2 and ask_status(port) == 200, 60, worker)
        assert ten.execute("SELECT attempts FROM dbanon.run WHERE run_id = 2").fetchone() == (1,)
        assert workers.stop(worker) == 0


# 600 connections, each a byte every two seconds; those that are ended are renewed.
DRIBBLE = """
import selectors, socket, sys, time
port, count = int(sys.argv[1]), 600
looking, opened, at, told = selectors.DefaultSelector(), {}, 0.0, False
while True:
    for _ in range(min(50, count - len(opened))):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", port))
        looking.register(client, selectors.EVENT_READ)
        opened[client] = b"GET /metrics HTTP/1.1\\r\\nX: "
    if len(opened) == count and not told:
        told = True
        print("all", flush=True)
    due = time.time() - at > 2
    at = time.time() if due else at
    ended = [key.fileobj for key, _ in looking.select(0.05)]
    for client, more in list(opened.items()) if due or ended else ():
        try:
            if client not in ended:
                client.send(more if more else b"a")
                opened[client] = b""
                continue
        except BlockingIOError:
            continue
        except OSError:
            pass
        looking.unregister(client)
        del opened[client]
        client.close()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_it_goes_on_with_runs_and_jobs_while_600_clients_dribble(
    database: str, ten: psycopg.Connection, log: Path, port: int, number: int
) -> None:
    nights.make_source(ten)
    options = ("--log", "json", "--listen", f"127.0.0.1:{port}", "--schedule")
    command = [sys.executable, "-c", DRIBBLE, str(port)]
    with workers.keep_up(database, log, *options) as worker:
        resource.prlimit(worker.process.pid, resource.RLIMIT_NOFILE, (256, 256))
        wait_until(lambda: ask_status(port) == 200, 60, worker)
        with subprocess.Popen(command, stdout=subprocess.PIPE) as dribbling:
            try:
                assert dribbling.stdout is not None
                assert dribbling.stdout.readline() == b"all\n"
                began, used = time.monotonic(), measure_cpu(worker.process.pid)
                before = set(worker.children())
                nights.add(ten)
                worker.process.send_signal(signal.SIGHUP)
                wait_until(lambda: set(worker.children()) - before, 60, worker)
                wait_until(lambda: nights.list_periods(ten, "state")[:1] == ["done"], 120, worker)
                wait_until(lambda: time.monotonic() - began > 10)
                assert measure_cpu(worker.process.pid) - used < 0.1 * (time.monotonic() - began)
                dribbling.send_signal(number)
                wait_until(lambda: ask_status(port, "/healthz") == 200, 10, worker)
            finally:
                dribbling.kill()
        assert workers.stop(worker) == 0


def measure_cpu(pid: int) -> float:
    """Seconds of a core that a process has used by itself."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    ("option", "value"),
    [("--listen", "taken"), ("--listen", "nosuch.invalid:9464"), ("--heartbeat", "/proc/none/beat")],
)
def test_what_it_cannot_listen_at_or_write_to_is_refused_at_the_start(database: str, option: str, value: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = f"127.0.0.1:{taken.getsockname()[1]}" if value == "taken" else value
        done: Done = call(database, "worker", option, given)
    demand_refused(done, 2, option)
