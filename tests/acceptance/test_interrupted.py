"""Stopped from outside at a stage of its work, a command says one sentence, ends with its code, leaves nothing half.

From outside: Ctrl-C, SIGTERM, a session that an administrator ends, and a server that stops.
"""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from dbanon import synth, testing
from dbanon.base.background import run_in_background
from dbanon.cli._stopping import Stopping
from dbanon.database import open_database
from dbanon.postgres.server import EmbeddedServer, Target
from tests import wholeness
from tests.acceptance.commands import (
    SIGNALS,
    STAGES,
    Done,
    Stage,
    call,
    demand_done,
    hold_up,
    list_waiting,
    read_json,
    start,
    wait_for_end,
)
from tests.db.methods import drop_requests
from tests.facts import demand_named, demand_refused
from tests.reading import read_row

pytestmark = pytest.mark.stress

INTERRUPTED = ("interrupted", "undone", "run")
LOST = ("connection", "lost", "undone")
VERIFIED = ("run 2", "verified", "dbanon publish 2 NAME")
SOME = ("a load making trajectories", "a run reading", "a run attacking", "a run publishing", "publish")
MORE = (*SOME, "a load before it reads", "a load storing sites", "a run writing cloaks")


def find_last_run(connection: psycopg.Connection) -> tuple[int, str]:
    return read_row(connection, "SELECT run_id, status FROM dbanon.run ORDER BY run_id DESC LIMIT 1")


def check_whole(url: str, stage: str, files: tuple[Path, Path]) -> None:
    """Nothing is half there, also after the next command, and the same command works now."""
    with psycopg.connect(url, autocommit=True) as connection:
        wholeness.wait_until_alone(connection)
        assert call(url, "runs").code == 0
        assert wholeness.find_broken(connection) == []
        demand_done(call(url, *STAGES[stage].words(files)))
        assert wholeness.find_broken(connection) == []


def interrupt_command(
    url: str,
    stage: str,
    files: tuple[Path, Path],
    number: signal.Signals,
    *,
    then: Callable[[subprocess.Popen[str]], None] = lambda process: None,
) -> Done:
    with hold_up(url, STAGES[stage], files) as process, psycopg.connect(url, autocommit=True) as observer:
        held = list_waiting(observer)
        process.send_signal(number)
        # Cleaning up may need the table that is locked here: it is given back as soon as the statement is given up, or
        # where only the server's answer brings the process to see the signal.
        deadline = time.monotonic() + 0.5
        while list_waiting(observer) == held and time.monotonic() < deadline:
            time.sleep(0.01)
        told = run_in_background(then, process)
    done = wait_for_end(process)
    told.result()
    return done


@pytest.mark.many
@pytest.mark.parametrize("stage", SOME)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_command_in_one_sentence(
    city_url: str, city_files: tuple[Path, Path], stage: str, number: signal.Signals
) -> None:
    done = interrupt_command(city_url, stage, city_files, number)
    demand_refused(done, 128 + number, *INTERRUPTED)
    with psycopg.connect(city_url) as connection:
        if stage in ("a run reading", "a run attacking"):
            assert find_last_run(connection) == (2, "cancelled")
        elif stage == "a run publishing":
            assert find_last_run(connection) == (2, "verified")
    check_whole(city_url, stage, city_files)


READING = {
    "report": (("report", "city_k5", "-o", "{folder}/page.html"), "dbanon.release_1"),
    "compare": (("compare", "city_k5", "city_sites", "-o", "{folder}/x.html"), "dbanon.release_1"),
    "with truth": (("report", "city_k5", "--with-truth", "-o", "{folder}/page.html"), "dbanon.region"),
    "export": (("export", "city_k5", "{folder}/rows.csv"), "dbanon.release_1"),
    "evaluate": (("evaluate", "2"), "dbanon.region"),
    "verify": (("verify", "1"), "dbanon.region"),
    "plan": (("plan", "tp-aware", "--dataset", "city"), "dbanon.trajectory"),
    "sweep": (("sweep", "tp-aware", "--dataset", "city", "-p", "k=3,4"), "dbanon.trajectory"),
    "import": (STAGES["an import reading"].arguments, "public.gps"),
    "forget": (("forget", "--dataset", "city", "--subject", "s0000001"), "dbanon.trajectory"),
}


@pytest.mark.parametrize("name", READING)
def test_an_interrupted_command_cancels_its_statements(
    dbanon_server: Target, releases_template: str, city_files: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    words, table = READING[name]
    stage = Stage(tuple(word.replace("{folder}", str(tmp_path)) for word in words), table, "ACCESS EXCLUSIVE")
    with testing.cloned_database(dbanon_server, releases_template) as url, hold_up(url, stage, city_files) as process:
        process.send_signal(signal.SIGINT)
        assert wait_for_end(process, seconds=20).code == 130
        # The other session has its lock still. A statement that was not cancelled waits for it, client or not.
        with psycopg.connect(url, autocommit=True) as observer:
            assert list_waiting(observer) == []
    assert list(tmp_path.iterdir()) == []


def signal_until_ended(process: subprocess.Popen[str]) -> None:
    """Send a process that heeds its first signal one signal after the other until it has ended."""
    for number in itertools.cycle(SIGNALS):
        time.sleep(0.002)
        if process.poll() is not None:
            return
        process.send_signal(number)


@pytest.mark.many
@pytest.mark.parametrize("stage", ["a load making trajectories", "a run attacking", "a run publishing"])
@pytest.mark.parametrize("number", SIGNALS)
def test_signals_after_the_first_change_nothing(
    city_url: str, city_files: tuple[Path, Path], stage: str, number: signal.Signals
) -> None:
    done = interrupt_command(city_url, stage, city_files, number, then=signal_until_ended)
    demand_named(done.sentence, *INTERRUPTED)
    # Two that arrive before the program looks are heeded in the order of their numbers.
    assert done.code in {128 + each for each in SIGNALS if each <= number}
    if stage == "a run attacking":
        with psycopg.connect(city_url) as connection:
            assert find_last_run(connection) == (2, "cancelled")
    check_whole(city_url, stage, city_files)


def test_signals_while_a_method_is_compiled_end_a_run_once(
    city_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    process = start(city_url, "--json", "run", "tp-aware", "--dataset", "city")
    assert process.stderr is not None
    while "reading trajectories" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    time.sleep(0.05)  # of two that come at once, Python heeds the one with the lower number
    signal_until_ended(process)
    done = wait_for_end(process)
    demand_refused(done, 143, *INTERRUPTED)
    assert read_json(done) == {"error": done.sentence, "exit_code": 143}
    with psycopg.connect(city_url) as connection:
        assert find_last_run(connection) == (2, "cancelled")


@pytest.mark.parametrize("stage", MORE)
def test_a_session_that_is_ended_ends_the_command_in_one_sentence(
    city_url: str, city_files: tuple[Path, Path], stage: str
) -> None:
    with hold_up(city_url, STAGES[stage], city_files) as process:
        with psycopg.connect(city_url, autocommit=True) as administrator:
            for pid, _ in list_waiting(administrator):
                administrator.execute("SELECT pg_terminate_backend(%s)", [pid])
        done = wait_for_end(process)
    demand_refused(done, 1, *LOST, *(VERIFIED if stage == "a run publishing" else ()))
    check_whole(city_url, stage, city_files)


def test_ctrl_c_in_psql_cancels_its_statement_and_is_left_to_it(city_url: str) -> None:
    command = [sys.executable, "-m", "dbanon", "--dsn", city_url, "db", "psql", "-c", "SELECT pg_sleep(60)"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    with psycopg.connect(city_url, autocommit=True) as observer:
        deadline = time.monotonic() + 30
        asleep = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
        while not observer.execute(asleep).fetchone():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    done = wait_for_end(process, seconds=20)
    assert done.code == 1
    assert "canceling statement due to user request" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_signal_during_a_notice_interrupts_all_the_same(city_url: str, capfd: pytest.CaptureFixture[str]) -> None:
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    with psycopg.connect(city_url) as connection:
        connection.add_notice_handler(lambda _: signal.raise_signal(signal.SIGTERM))
        try:
            with pytest.raises(KeyboardInterrupt), Stopping() as stopping:
                connection.execute("DO $$ BEGIN RAISE NOTICE 'now'; PERFORM pg_sleep(20); END $$")
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    assert stopping.number == signal.SIGTERM
    assert capfd.readouterr().err == ""


# ---- a server that stops: one of its own -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own_server(city_files: tuple[Path, Path]) -> Iterator[EmbeddedServer]:
    """A server that may be stopped, with the city and a verified run."""
    directory = Path(tempfile.mkdtemp(prefix="dbanon-test-", dir=testing._find_memory_directory()))
    directory.chmod(0o711)
    server = EmbeddedServer(directory / "home", settings={"fsync": "off", "full_page_writes": "off"})
    try:
        with open_database(prepare_database(server)) as database:
            database.load_trajectories([city_files[0]], dataset="city", **synth.CSV_COLUMNS)
            database.load_requests(city_files[1], dataset="city", columns=["poi"])
            database.run("tp-aware", dataset="city", params={"k": 5}).require_verified()
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory)


def prepare_database(server: EmbeddedServer) -> str:
    url = server.start().url
    assert call(url, "db", "upgrade", "--share-roles").code == 0
    with psycopg.connect(url, autocommit=True) as connection:
        drop_requests(connection)  # else a run waits before it is one for what is read later, too
    return url


@pytest.mark.parametrize(("stage", "mode"), [*((stage, "immediate") for stage in SOME), ("a run attacking", "fast")])
def test_a_server_that_stops_ends_the_command_in_one_sentence(
    own_server: EmbeddedServer, city_files: tuple[Path, Path], stage: str, mode: str
) -> None:
    url = own_server.start().url
    with psycopg.connect(url, autocommit=True) as connection:
        before = find_last_run(connection)
    with hold_up(url, STAGES[stage], city_files) as process:
        own_server._run_pg_ctl("stop", "-m", mode, "-w")
        done = wait_for_end(process)
    demand_refused(done, 1, *LOST)

    demand_refused(call(url, "runs"), 1, "server", "--dsn")
    own_server.start()
    with psycopg.connect(url, autocommit=True) as connection:
        assert call(url, "runs").code == 0
        assert wholeness.find_broken(connection) == []
        run_id, status = find_last_run(connection)
        if stage in ("a run reading", "a run attacking"):
            assert status == "failed"
            assert call(url, "verify", str(run_id)).code == 2
        elif stage == "a run publishing":
            assert status == "verified"
        else:
            assert (run_id, status) == before
