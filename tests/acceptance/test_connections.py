"""Connections a server does not give: the user is told its reason, and a run of a worker is begun again.

And servers that only read: a standby, and a primary that has become one.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from dbanon import schema, synth, testing
from dbanon.base.errors import StoreError
from dbanon.database import open_database
from dbanon.postgres.connection import connect, fetch_value
from dbanon.postgres.server import EmbeddedServer
from dbanon.runs import queue, reading
from dbanon.testing import database_url, logins
from tests import wholeness
from tests.acceptance import workers
from tests.acceptance.commands import call, read_json
from tests.acceptance.standby import Standby
from tests.acceptance.workers import wait_until
from tests.facts import demand_named, demand_refused, expect_refusal

SUBMIT = "SELECT dbanon.submit_run('city', 'tp-aware', '{\"k\": 7}')"
SETTINGS = {"fsync": "off", "max_connections": "12", "superuser_reserved_connections": "0", "max_wal_senders": "4"}


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="dbanon-test-", dir=testing._find_memory_directory()))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def own_server(directory: Path) -> Iterator[EmbeddedServer]:
    """A server for few connections."""
    server = EmbeddedServer(directory / "home", settings=SETTINGS)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def city_server(own_server: EmbeddedServer, city_files: tuple[Path, Path]) -> EmbeddedServer:
    """The same when its database holds the city."""
    schema.upgrade(own_server.url)
    with open_database(own_server.url) as database:
        database.load_trajectories([city_files[0]], dataset="city", **synth.CSV_COLUMNS)
        database.load_requests(city_files[1], dataset="city", columns=["poi"])
    return own_server


# ---- what the server says --------------------------------------------------------------------------------------------


@pytest.mark.many
@pytest.mark.parametrize(
    ("changed", "state", "said"),
    [
        ({"dbname": "nodb"}, "3D000", 'database "nodb"'),
        ({"user": "nobody"}, "28000", 'role "nobody" does not exist'),
        ({"user": "full"}, "53300", 'too many connections for role "full"'),
        ({"user": "nologin"}, "28000", 'role "nologin" is not permitted to log in'),
        (
            {"dbname": "closed"},
            "08004",
            'database "closed" is not currently accepting connections',
        ),
    ],
)
def test_who_is_refused_is_told_the_servers_reason(
    own_server: EmbeddedServer, changed: dict[str, str], state: str, said: str
) -> None:
    with psycopg.connect(own_server.url, autocommit=True) as connection:
        made = ("ROLE full LOGIN CONNECTION LIMIT 0", "ROLE nologin", "DATABASE closed ALLOW_CONNECTIONS false")
        for statement in made:
            with suppress(psycopg.errors.DuplicateObject, psycopg.errors.DuplicateDatabase):
                connection.execute(f"CREATE {statement}")
    url = database_url(own_server.url, **changed)
    done = call(url, "runs")
    demand_refused(done, 1, said)
    with expect_refusal(StoreError, said) as caught, reading.open_reader(url):
        pass
    assert caught.value.sqlstate == state


# ---- a run without a connection --------------------------------------------------------------------------------------


@contextmanager
def take_connections(server: EmbeddedServer) -> Iterator[None]:
    """Take all connections that are left, again and again until there is none for a while."""
    with ExitStack() as taken:
        refused = 0
        while refused < 20:
            try:
                taken.enter_context(psycopg.connect(server.url))
                refused = 0
            except psycopg.OperationalError:
                refused += 1
                time.sleep(0.01)
        yield


@pytest.mark.stress
@pytest.mark.parametrize("lasting", [False, True])
def test_a_run_without_a_connection_is_begun_again_up_to_three_times(
    city_server: EmbeddedServer, tmp_path: Path, lasting: bool
) -> None:
    seen = "SELECT status, attempts FROM dbanon.runs WHERE run_id = %s"
    with (
        workers.keep_up(city_server.url, tmp_path / "log") as worker,
        psycopg.connect(city_server.url, autocommit=True) as city,
    ):
        with take_connections(city_server):
            run = fetch_value(city, SUBMIT)
            wait_until(lambda: "too many clients" in worker.said(), 30, worker)
            if lasting:
                wait_until(lambda: city.execute(seen, [run]).fetchone() == ("failed", 3), 60, worker)
                error = str(fetch_value(city, "SELECT error FROM dbanon.runs WHERE run_id = %s", [run]))
                demand_named(error, "too many clients")
            else:
                assert fetch_value(city, "SELECT attempts FROM dbanon.run WHERE run_id = %s", [run]) == 1
        if not lasting:
            wait_until(lambda: city.execute(seen, [run]).fetchone() == ("verified", 2), 30, worker)
        workers.stop(worker)
        wholeness.wait_until_alone(city)
        assert wholeness.find_broken(city) == []


# ---- locks a server does not give ------------------------------------------------------------------------------------


@pytest.mark.stress
def test_dependents_beyond_what_the_server_can_lock_keep_no_release(city_server: EmbeddedServer) -> None:
    """A server for few connections has room for some 2,000 locks: the reader makes and drops 500 views at a time."""
    views = """DO $$ BEGIN FOR i IN {}..{} LOOP EXECUTE format({}, i); END LOOP; END $$"""
    steps = [(first, first + 499) for first in range(1, 3000, 500)]
    with open_database(city_server.url) as database, logins(city_server.url) as login:
        run_id = database.run("tp-aware", dataset="city", params={"k": 7}, seed=7).run_id
        rows, _ = database.publish(run_id, "city_k7")
        with psycopg.connect(login("analyst"), autocommit=True) as reader:
            for numbers in steps:
                reader.execute(views.format(*numbers, "'CREATE TEMP VIEW v%s AS SELECT seq FROM published.city_k7'"))
            said: list[str] = []
            with psycopg.connect(login("operator"), autocommit=True) as operator:
                operator.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
                assert fetch_value(operator, "SELECT dbanon.unpublish('city_k7')") == run_id
            assert any("memory" in notice for notice in said), said
            assert fetch_value(reader, "SELECT to_regclass('published.city_k7')") is None
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute("SELECT FROM v1")
            assert database.publish(run_id, "city_k7")[0] == rows
            for numbers in steps:
                reader.execute(views.format(*numbers, "'DROP VIEW v%s'"))


# ---- servers that only read ------------------------------------------------------------------------------------------


@pytest.mark.stress
def test_a_standby_lists_runs_and_sends_a_worker_away(city_server: EmbeddedServer, directory: Path) -> None:
    copy = Standby(directory / "copy", city_server, SETTINGS)
    try:
        url = copy.start().url
        with connect(city_server.url) as primary, connect(url) as reading:
            run = fetch_value(primary, SUBMIT)
            claim = queue.claim_run(primary, "host 1")
            assert claim is not None
            queue.register_worker(primary, "host 1")
            written = fetch_value(primary, "SELECT pg_current_wal_insert_lsn()")
            wait_until(lambda: fetch_value(reading, "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", [written]))
            for where in (city_server.url, url):  # its session is on the primary alone
                listed = read_json(call(where, "--json", "runs"))["runs"]
                assert [(r["run_id"], r["status"], r["worker"]) for r in listed][-1] == (run, "running", "host 1")
                assert workers.count_workers(where) == 1
            done = call(url, "worker")
            demand_refused(done, 1, "read-only")
            assert call(url, "releases").code == 0
            queue.set_status(primary, claim, "cancelled", error="It was made for a test.")
    finally:
        copy.stop()


@pytest.mark.stress
def test_a_worker_ends_when_its_server_becomes_a_standby(city_server: EmbeddedServer, tmp_path: Path) -> None:
    signal = city_server.data / "standby.signal"
    with workers.keep_up(city_server.url, tmp_path / "log") as worker:
        city_server.stop()
        city_server._run(["touch", str(signal)])
        try:
            city_server.start()
            assert worker.process.wait(60) == 1
        finally:
            city_server.stop()
            signal.unlink()
            city_server.start()
        demand_named(worker.said().splitlines()[-1], "read-only")
        assert "Traceback" not in worker.said()
