"""One run computed by several processes: the same rows, and every run ends with the right status whatever is killed."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import distributed
import psycopg
import pytest

import dbanon
from dbanon.postgres.server import Target
from dbanon.testing import shared_database
from tests.acceptance import workers
from tests.acceptance.commands import call
from tests.acceptance.workers import check_whole, read_run, wait_until
from tests.clones import clone_of
from tests.facts import demand_refused
from tests.reading import read_value

pytestmark = pytest.mark.stress

# The city twice, beside itself; a window for each of its instants.
CROWD = """CREATE TABLE public.crowd AS
    SELECT subject || '-' || n AS subject, t, ST_Translate(position, 300 * n, 200 * n) AS position
    FROM public.gps, generate_series(1, 2) AS n"""
IMPORT = """SELECT * FROM dbanon.import_trajectories('public.crowd', dataset => 'crowd', subject => 'subject',
    time_column => 't', geom => 'position')"""
ALONE_RUN = 2  # the run that one process has computed
SUBMIT = "SELECT dbanon.submit_run('crowd', 'tp-aware', '{\"k\": 7, \"instants\": 1}')"
FEW = "SELECT dbanon.submit_run('city', 'tp-aware', '{\"k\": 5, \"instants\": 30}')"
# Seconds instead of milliseconds: time to do something meanwhile. Two helpers a run, on whatever machine.
SLOW = {"NUMBA_DISABLE_JIT": "1", "NUMBA_NUM_THREADS": "3"}


@pytest.fixture(scope="module")
def crowd_template(dbanon_server: Target, city_template: tuple[str, int]) -> Iterator[str]:
    """Name of a database with the crowd, whose run ALONE_RUN one process has computed."""

    def fill(url: str) -> None:
        with psycopg.connect(url) as connection:
            connection.execute(CROWD)
            connection.execute(IMPORT)
        with dbanon.connect(url) as database:
            alone = database.run("tp-aware", dataset="crowd", params={"k": 7, "instants": 1})
            assert (alone.run_id, alone.status) == (ALONE_RUN, "verified")

    with shared_database(dbanon_server, "crowd", fill, template=city_template[0]) as name:
        yield name


city_url = clone_of("crowd_template")


@pytest.fixture
def city(city_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(city_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "worker.log"


def submit_run(city: psycopg.Connection, submit: str = SUBMIT) -> int:
    return read_value(city, submit)


def hash_rows(city: psycopg.Connection, run_id: int) -> bytes:
    """Hash all rows and members of a run."""
    told = "SELECT rows > 500, dbanon_internal.compute_run_digest(run_id) FROM dbanon.run WHERE run_id = %s"
    some, digest = city.execute(told, [run_id]).fetchone() or (False, b"")
    assert some
    return digest


def list_helpers(run: int) -> list[int]:
    """List the processes that help the process with a run; another one has started them."""
    return [
        pid
        for server in workers.list_children(run, b"forkserver")
        for pid in workers.list_children(server, b"forkserver")
    ]


def has_all_helpers(city: psycopg.Connection, run_id: int) -> bool:
    """Whether the process with a run has all its helpers."""
    return read_run(city, run_id) == ("running",) and len(list_helpers(find_holder(city, run_id))) == 2


def find_holder(city: psycopg.Connection, run_id: int) -> int:
    return int(read_value(city, "SELECT worker FROM dbanon.run WHERE run_id = %s", run_id).split()[-1])


def has_processes(pids: list[int]) -> bool:
    return any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_helpers_compute_a_run_and_the_rows_are_those_of_one_process(
    city_url: str, city: psycopg.Connection, log: Path
) -> None:
    with workers.keep_up(city_url, log, environment=SLOW) as worker:
        shared = submit_run(city)
        wait_until(lambda: has_all_helpers(city, shared), 120, worker)
        process = find_holder(city, shared)
        wait_until(lambda: read_run(city, shared) == ("verified",), 120, worker)
        assert list_helpers(process) == []
        assert workers.stop(worker) == 0
    assert hash_rows(city, shared) == hash_rows(city, ALONE_RUN)
    check_whole(city)


def test_runs_at_the_same_time_have_helpers_of_their_own(city_url: str, city: psycopg.Connection, log: Path) -> None:
    environment = {**SLOW, "NUMBA_NUM_THREADS": "6"}
    with workers.keep_up(city_url, log, "--jobs", "2", count=2, environment=environment) as worker:
        first, second = submit_run(city), submit_run(city)
        wait_until(lambda: has_all_helpers(city, first) and has_all_helpers(city, second), 120, worker)
        wait_until(lambda: read_run(city, first) == read_run(city, second) == ("verified",), 120, worker)
        workers.stop(worker)
    assert hash_rows(city, first) == hash_rows(city, second)


@pytest.mark.parametrize("killed", ["helper", "holder"])
def test_a_run_is_done_whichever_of_its_processes_is_killed(
    city_url: str, city: psycopg.Connection, log: Path, killed: str
) -> None:
    with workers.keep_up(city_url, log, environment=SLOW) as worker:
        run = submit_run(city)
        wait_until(lambda: has_all_helpers(city, run), 120, worker)
        process = find_holder(city, run)
        others = list_helpers(process)
        os.kill(process if killed == "holder" else others[0], signal.SIGKILL)
        wait_until(lambda: not has_processes(others if killed == "holder" else others[:1]), 30, worker)
        wait_until(lambda: read_run(city, run) == ("verified",), 120, worker)
        assert read_run(city, run, "attempts") == (1 if killed == "helper" else 2,)
        assert (process in worker.children()) == (killed == "helper")
        assert workers.stop(worker) == 0
    assert hash_rows(city, run) == hash_rows(city, ALONE_RUN)
    check_whole(city)


def test_a_cancelled_run_ends_in_all_of_its_processes(city_url: str, city: psycopg.Connection, log: Path) -> None:
    with workers.keep_up(city_url, log, environment=SLOW) as worker:
        run = submit_run(city)
        wait_until(lambda: has_all_helpers(city, run), 120, worker)
        process = find_holder(city, run)
        interrupted = [process, *list_helpers(process)]
        city.execute("SELECT dbanon.cancel_run(%s)", [run])
        wait_until(lambda: read_run(city, run) == ("cancelled",), 30, worker)
        wait_until(lambda: not has_processes(interrupted) and worker.children(), 30, worker)
        following = submit_run(city, FEW)
        wait_until(lambda: read_run(city, following) == ("verified",), 120, worker)
        assert workers.stop(worker) == 0
    check_whole(city)


@pytest.mark.parametrize("end", ["stop", "kill the supervisor"])
def test_no_process_is_left_of_a_worker_that_ends_in_the_middle(
    city_url: str, city: psycopg.Connection, log: Path, end: str
) -> None:
    with workers.keep_up(city_url, log, "--grace-s", "0", environment=SLOW) as worker:
        run = submit_run(city)
        wait_until(lambda: has_all_helpers(city, run), 120, worker)
        process = find_holder(city, run)
        processes = [process, *workers.list_children(process), *list_helpers(process)]
        assert len(processes) == 4  # with the one that starts helpers
        if end == "stop":
            assert workers.stop(worker) == 0
        else:
            worker.process.kill()
        wait_until(lambda: not has_processes(processes), 120, worker)
        assert read_run(city, run) == ("queued",)
        city.execute("SELECT dbanon.cancel_run(%s)", [run])
    check_whole(city)


# ---- a cluster -------------------------------------------------------------------------------------------------------


def test_a_cluster_does_the_tasks_of_a_worker(city_url: str, city: psycopg.Connection, log: Path) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
        )
        address = cluster.scheduler_address
        worker = stack.enter_context(workers.keep_up(city_url, log, "--scheduler", address))
        run = submit_run(city)
        wait_until(lambda: read_run(city, run) == ("verified",), 120, worker)
        assert "2 processes" in worker.said()
        assert "true positions" in worker.said()
        assert "do" in cluster.scheduler.task_prefixes
        assert workers.stop(worker) == 0
    assert hash_rows(city, run) == hash_rows(city, ALONE_RUN)
    check_whole(city)


def test_a_worker_needs_a_scheduler_that_answers(city_url: str) -> None:
    demand_refused(call(city_url, "worker", "--scheduler", "nowhere"), 1, "nowhere", "scheduler")
