"""Runs whose data are read from a streaming replica: the same rows and verdict, of a replica that has come so far."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dbanon import schema, synth, testing
from dbanon.base.errors import ParameterError, StoreError
from dbanon.database import Database, RunResult, open_database
from dbanon.options.reading import Reading
from dbanon.postgres import arrow
from dbanon.postgres.connection import connect_to_hold, fetch_value
from dbanon.postgres.server import EmbeddedServer, parse
from dbanon.runs import queue, replica
from dbanon.testing import database_url
from tests import wholeness
from tests.acceptance import commands
from tests.acceptance.commands import call
from tests.acceptance.pooler import run_pooler
from tests.acceptance.standby import Standby
from tests.acceptance.workers import wait_until
from tests.db import nights
from tests.facts import demand_named, demand_refused, expect_refusal
from tests.hints import tries
from tests.upgrade import test_script

SETTINGS = {"fsync": "off", "jit": "off", "max_standby_streaming_delay": "0"}
ASKED = {"dataset": "city", "params": {"k": 5}, "seed": 7}
ENDINGS = {
    "lost": ("SELECT pg_terminate_backend({pid})", False),
    "hot_standby_feedback": ("BEGIN; LOCK TABLE dbanon.dataset IN ACCESS EXCLUSIVE MODE; COMMIT", True),
}
NAMED = """SELECT dbanon.add_job('taxi', load => '{"read_dsn": "service=replica"}', replace => true)"""
TOWN = ("--objects", "60", "--instants", "30", "--quasi-identifiers", "random", "--pois", "3000", "--stations", "80")
FAMILIES: dict[str, dict[str, object]] = {
    "sensitive-sites": {"k": 4, "at": "2026-01-05T08:10:00Z"},
    "kte": {"k": 2},
    "mob": {"k": 2},
    "semantic": {"k": 2},
}
CONTENT = "SELECT dbanon_internal.compute_content_digest(%s)"
Meanwhile = Callable[[Callable[[psycopg.Connection], None]], None]


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="dbanon-test-", dir=testing._find_memory_directory()))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def primary(directory: Path, city_files: tuple[Path, Path]) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(directory / "home", settings=SETTINGS)
    try:
        schema.upgrade(server.start().url)
        with open_database(server.url) as database:
            database.load_trajectories([city_files[0]], dataset="city", **synth.CSV_COLUMNS)
            database.load_requests(city_files[1], dataset="city", columns=["poi"])
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def standby(directory: Path, primary: EmbeddedServer) -> Iterator[Standby]:
    server = Standby(directory / "copy", primary, SETTINGS)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def database(primary: EmbeddedServer) -> Iterator[Database]:
    with open_database(primary.url) as opened:
        yield opened
    with psycopg.connect(primary.url, autocommit=True) as connection:
        queue.reap_runs(connection)
        assert wholeness.find_broken(connection) == []


def resume(copy: psycopg.Connection) -> None:
    """Let the replay go on, which may cancel this very statement: it waits for no reader."""
    with suppress(psycopg.errors.SerializationFailure):
        copy.execute("SELECT pg_wal_replay_resume()")


@pytest.fixture
def copy(standby: Standby) -> Iterator[psycopg.Connection]:
    """A session of the replica; what it has paused goes on at the end."""
    with psycopg.connect(standby.url, autocommit=True) as opened:
        yield opened
        resume(opened)


@pytest.fixture(scope="module")
def plain(primary: EmbeddedServer) -> RunResult:
    """A run without the replica."""
    with open_database(primary.url) as database:
        return database.run("tp-aware", **ASKED)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Do something with the session that reads trajectories, just before it does."""
    read = arrow.read_paths

    def let(happen: Callable[[psycopg.Connection], None]) -> None:
        def paths(snapshot: arrow.Snapshot, dataset_id: int) -> arrow.Paths:
            happen(snapshot.connection)
            return read(snapshot, dataset_id)

        monkeypatch.setattr(arrow, "read_paths", paths)

    return let


def find_last_run(database: Database) -> dict[str, Any]:
    return database.runs()[-1]


def test_the_rows_and_the_verdict_are_those_of_a_run_without_it(
    database: Database, standby: Standby, plain: RunResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []
    fetch = arrow.read_batches

    def batches(snapshot: arrow.Snapshot, query: str) -> Any:
        asked.append((snapshot.connection.info.host, query))
        return fetch(snapshot, query)

    monkeypatch.setattr(arrow, "read_batches", batches)
    found = database.run("tp-aware", **ASKED, read_dsn=standby.url)
    again = database.verify(found.run_id, read_dsn=standby.url)

    assert found.status == again.status == "verified"
    assert again.verdict == found.verdict == plain.verdict
    contents = {fetch_value(database.connection, CONTENT, [run]) for run in (plain.run_id, found.run_id)}
    assert len(contents) == 1
    there = [query for host, query in asked if host == parse(standby.url)["host"]]
    here = [query for host, query in asked if host != parse(standby.url)["host"]]
    assert any("dbanon.trajectory" in query for query in there)
    assert not any("dbanon.trajectory" in query for query in here)
    assert any("gather_record_evidence" in query for query in here)
    assert any("dbanon.request " in query for query in there)
    assert not any("dbanon.request " in query for query in here)
    assert not any("_evidence" in query for query in there)
    assert not any("dbanon.run " in query for query in there)


@pytest.fixture(scope="module")
def town(primary: EmbeddedServer, city_files: tuple[Path, Path]) -> str:
    """A dataset with all that families read."""
    assert call(primary.url, "synth", "--dataset", "town", *TOWN).code == 0
    with open_database(primary.url) as database:
        database.load_sites(commands.write_sites(city_files[0]), dataset="town", x="lon", y="lat", name="name")
    return "town"


@pytest.mark.stress
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_stores_and_finds_the_same(
    database: Database, standby: Standby, town: str, meanwhile: Meanwhile, family: str
) -> None:
    asked = {"dataset": town, "params": FAMILIES[family], "seed": 7}
    plain, hosts = database.run(family, **asked), list[str]()
    meanwhile(lambda session: hosts.append(session.info.host))
    found = database.run(family, **asked, read_dsn=standby.url)
    again = database.verify(found.run_id, read_dsn=standby.url)
    assert found.status == again.status == plain.status == "verified"
    assert again.verdict == found.verdict == plain.verdict
    assert fetch_value(database.connection, CONTENT, [found.run_id]) == fetch_value(
        database.connection, CONTENT, [plain.run_id]
    )
    assert hosts == [parse(standby.url)["host"]] * 3  # the computation, its attack, and the second one


def test_a_replica_that_lags_is_waited_for(database: Database, standby: Standby, copy: psycopg.Connection) -> None:
    told: list[tuple[int, int | None]] = []
    copy.execute("SELECT pg_wal_replay_pause()")

    def tell(stage: str, done: int, total: int | None) -> None:
        if stage == replica.STAGE:
            told.append((done, total))
            if len(told) == 3:
                resume(copy)

    database.progress = tell
    assert database.run("tp-aware", **ASKED, read_dsn=standby.url, read_wait_s=50).status == "verified"
    assert told[:3] == [(0, 50)] * 3


@tries("The replica must have replayed within")
def test_a_replica_that_lags_for_too_long_is_refused(
    database: Database, standby: Standby, plain: RunResult, copy: psycopg.Connection
) -> None:
    copy.execute("SELECT pg_wal_replay_pause()")
    done = call(database.target.url, "verify", str(plain.run_id), "--read-dsn", standby.url, "--read-wait", "0")
    demand_refused(done, 1, "replayed", "0 s", "--read-wait")
    assert "waiting for the replica" in done.stderr
    assert (
        fetch_value(database.connection, "SELECT status FROM dbanon.run WHERE run_id = %s", [plain.run_id])
        == "verified"
    )
    with expect_refusal(StoreError, "replayed"):
        database.run("tp-aware", **ASKED, read_dsn=standby.url, read_wait_s=0)
    assert find_last_run(database)["status"] == "failed"
    [option] = re.findall(r"--[a-z-]+", done.sentence)
    resume(copy)
    again = ("verify", str(plain.run_id), "--read-dsn", standby.url, option, "60")
    assert call(database.target.url, *again).code == 0
    assert "from the primary" in done.sentence
    assert call(database.target.url, *again[:2]).code == 0


@tries("--read-dsn must name a streaming replica", "The replica that --read-dsn names was not reached")
def test_a_server_that_is_no_replica_of_this_one_is_refused(
    database: Database, primary: EmbeddedServer, standby: Standby
) -> None:
    other = database_url(standby.url, dbname="postgres")
    with run_pooler(standby.url) as pool:
        for dsn, got in ((primary.url, "accepts writing"), (other, "another database"), (pool.own_url, "pooler")):
            with expect_refusal(ParameterError, "--read-dsn", got):
                database.run("tp-aware", **ASKED, read_dsn=dsn)
            assert find_last_run(database)["status"] == "failed"
    done = call(primary.url, "worker", "--read-dsn", primary.url)
    demand_refused(done, 2, "--read-dsn", "accepts writing")
    done = call(primary.url, "run", "tp-aware", "--dataset", "city", "--read-dsn", "host=/nowhere dbname=dbanon")
    demand_refused(done, 1, "--read-dsn", "reached")
    [option] = re.findall(r"--[a-z]+-[a-z]+", done.sentence)
    for more in ((option, standby.url), ()):
        assert call(primary.url, "run", "tp-aware", "--dataset", "city", *more).code == 0


def test_the_script_that_installs_is_refused_at_a_replica(standby: Standby) -> None:
    # Its state is not compared: reading all of it may be cancelled, when what the primary has cleaned up comes.
    done = test_script.run_psql(standby.url, schema.write_script())
    assert (done.returncode, done.stderr.count("ERROR: ")) == (3, 1), done.stderr
    demand_named(done.stderr.partition("CONTEXT")[0], "may write", "primary")


@pytest.mark.stress
def test_a_replica_that_has_gone_another_way_is_refused(
    database: Database, directory: Path, primary: EmbeddedServer
) -> None:
    other = Standby(directory / "other", primary, SETTINGS)
    try:
        other.start()
        other.go_another_way("DO 'BEGIN FOR i IN 1..500 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END'")
        with expect_refusal(ParameterError, "--read-dsn", "left the history"):
            database.run("tp-aware", **ASKED, read_dsn=other.url)
    finally:
        other.stop()


@pytest.mark.stress
def test_a_replica_that_is_promoted_before_it_is_read_is_refused(
    database: Database, directory: Path, primary: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, wait = Standby(directory / "promoted", primary, SETTINGS), replica._wait

    def late(*given: Any) -> None:
        wait(*given)
        other.promote()

    monkeypatch.setattr(replica, "_wait", late)
    try:
        other.start()
        with expect_refusal(ParameterError, "--read-dsn", "left the history"):
            database.run("tp-aware", **ASKED, read_dsn=other.url)
    finally:
        other.stop()


def test_data_that_change_before_the_replica_is_read_are_no_evidence(
    database: Database, standby: Standby, plain: RunResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = replica._wait

    def late(*given: Any) -> None:
        database.connection.execute("UPDATE dbanon.dataset SET revision = revision + 1")
        wait(given[0], fetch_value(database.connection, "SELECT pg_current_xact_id()::text"), *given[2:])

    before = fetch_value(database.connection, "SELECT count(*) FROM dbanon.verification")
    monkeypatch.setattr(replica, "_wait", late)
    with expect_refusal(StoreError, "changed"):
        database.verify(plain.run_id, read_dsn=standby.url)
    assert fetch_value(database.connection, "SELECT count(*) FROM dbanon.verification") == before


@pytest.mark.parametrize("said", ENDINGS)
def test_a_replica_that_ends_the_reading_leaves_nothing_half(
    database: Database, standby: Standby, meanwhile: Meanwhile, said: str
) -> None:
    statement, on_primary = ENDINGS[said]

    def happen(session: psycopg.Connection) -> None:
        pid = session.info.backend_pid
        with psycopg.connect(database.target.url if on_primary else standby.url, autocommit=True) as other:
            other.execute(statement.format(pid=pid).encode())
        with psycopg.connect(standby.url, autocommit=True) as other:
            wait_until(lambda: not other.execute("SELECT FROM pg_stat_activity WHERE pid = %s", [pid]).fetchall())

    meanwhile(happen)
    with expect_refusal(StoreError, "replica", said):
        database.run("tp-aware", **ASKED, read_dsn=standby.url)
    assert find_last_run(database)["status"] == "failed"
    assert find_last_run(database)["rows"] is None


def test_a_job_names_the_replica_of_its_runs(
    database: Database, standby: Standby, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: Meanwhile
) -> None:
    services = tmp_path / "services"
    services.write_text("[replica]\n" + "".join(f"{name}={value}\n" for name, value in parse(standby.url).items()))
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    hosts: list[str] = []
    meanwhile(lambda session: hosts.append(session.info.host))
    with psycopg.connect(database.target.url, autocommit=True) as connection:
        nights.make_source(connection, days=1.1)
        nights.add(connection)
        connection.execute(NAMED)
        assert [nights.take_step(connection) for _ in range(3)] == ["run", "compute", "waiting"]
    with connect_to_hold(database.lock_url) as holder:
        database.run_next(holder, "host 1", options=Reading(read_dsn="host=/nowhere"))
    assert find_last_run(database)["status"] == "verified"
    assert hosts == [parse(standby.url)["host"]] * 2


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE dbanon.cloak SET region = public.ST_Translate(region, {}5000, 0) WHERE run_id = {run} AND seq = 3",
        "UPDATE dbanon.trajectory SET path = public.ST_Translate(path, {}5000, 0) WHERE trajectory_id = ("
        "SELECT min(trajectory_id) FROM dbanon.membership WHERE run_id = {run})",
    ],
)
def test_a_row_that_was_changed_on_the_primary_is_seen_by_the_attack(
    database: Database, standby: Standby, copy: psycopg.Connection, plain: RunResult, change: str
) -> None:
    copy.execute("SELECT pg_wal_replay_pause()")
    database.progress = lambda stage, *_: stage == replica.STAGE and resume(copy)
    assert database.connection.execute(change.format("", run=plain.run_id).encode()).rowcount
    verdict = database.verify(plain.run_id, read_dsn=standby.url).verdict
    assert "covers" in {clause.name for clause in verdict.clauses if not clause.passed}
    database.connection.execute(change.format("-", run=plain.run_id).encode())
    assert database.verify(plain.run_id, read_dsn=standby.url).status == "verified"
