"""Workers do what is queued, several at once, and whatever happens to them, every run ends with the right status."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from dbanon import worker as processes
from dbanon.database import open_database
from dbanon.postgres import server
from tests.acceptance import workers
from tests.acceptance.commands import call, list_waiting, read_json, start, wait_for_end
from tests.acceptance.workers import check_whole, read_run, wait_until
from tests.facts import demand_named, demand_refused, expect_refusal
from tests.hints import tries
from tests.reading import collect_notices, read_value

pytestmark = pytest.mark.stress

SUBMIT = "SELECT dbanon.submit_run('city', 'tp-aware', '{\"k\": 7}')"


@pytest.fixture
def city(city_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(city_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "worker.log"


@pytest.fixture
def operator_url(city_url: str, login: Callable[[str], str]) -> str:
    return server.format_uri({**server.parse(login("dbanon_operator")), "dbname": server.parse(city_url)["dbname"]})


def submit_run(city: psycopg.Connection) -> int:
    return read_value(city, SUBMIT)


@contextmanager
def hold_up_runs(url: str, table: str = "dbanon.cloak", mode: str = "SHARE") -> Iterator[None]:
    """Hold up every run that comes to write a table, or to read it, for the length of the block."""
    with suppress(psycopg.OperationalError), psycopg.connect(url) as holder:
        holder.execute(f"LOCK TABLE {table} IN {mode} MODE")
        yield
        holder.rollback()


def make_lock_check(city: psycopg.Connection, count: int = 1) -> Callable[[], bool]:
    return lambda: len(list_waiting(city)) == count


def test_anonymize_goes_the_whole_way_and_tells_how_far_it_is(
    city_url: str, city: psycopg.Connection, log: Path
) -> None:
    heard = collect_notices(city)
    with workers.keep_up(city_url, log) as worker:
        row = city.execute(
            "CALL dbanon.anonymize(dataset => 'city', method => 'tp-aware', params => '{\"k\": 7}', "
            "publish_as => 'city_k7', readers => ARRAY['pg_monitor'])"
        ).fetchone()
        assert row is not None
        assert row[:2] == (2, "verified")
        assert city.execute("SELECT count(*) FROM published.city_k7").fetchone() == (row[2],)
        assert read_run(city, 2, "status, rows, progress, releases") == ("verified", row[2], None, "city_k7")
        readers = city.execute("SELECT readers FROM dbanon.releases WHERE live AND name = 'city_k7'").fetchone()
        assert readers == (["pg_monitor"],)
        assert "SELECT dbanon.cancel_run(2) ends it." in heard[0]
        assert any(line.startswith("Run 2: ") for line in heard)
        assert any("SELECT dbanon.publish(2, 'city_k7', readers => ARRAY['pg_monitor'])" in line for line in heard)
        heard.clear()
        city.execute("CALL dbanon.anonymize('city', 'tp-aware', '{\"k\": 7, \"min_contents\": 1000}')")
        assert any("Run 3 leaves out more than half: 100 % of the requests" in line for line in heard)
        assert workers.stop(worker) == 0
        assert "run 2 (tp-aware, traj-anon): verified in" in worker.said()
        assert "Run 3 leaves out more than half" in worker.said()
    check_whole(city)


def test_anonymize_leaves_a_trace_of_what_it_could_not_publish_and_ends_readers_where_it_is_told_to(
    city_url: str, operator_url: str, city: psycopg.Connection, log: Path, login: Callable[[str], str]
) -> None:
    call_it = (
        "CALL dbanon.anonymize('city', 'tp-aware', '{\"k\": 7}', seed => 1, publish_as => 'night', replace => true%s)"
    )
    analyst = server.format_uri({**server.parse(login("dbanon_analyst")), "dbname": server.parse(city_url)["dbname"]})
    trace = "SELECT login, run_id, release, detail ->> 'sqlstate' FROM dbanon.audit WHERE action = 'publish_refused'"
    with workers.keep_up(city_url, log), psycopg.connect(operator_url, autocommit=True) as operator:
        operator.execute(call_it % "")
        with psycopg.connect(analyst) as reader:
            reader.execute("SELECT FROM published.night")
            with expect_refusal("DA013") as caught:
                operator.execute(call_it % "")
            who = f"{reader.info.user} (process {reader.info.backend_pid})"
            assert who in (caught.value.diag.message_primary or "")
            assert "end_readers => true" in (caught.value.diag.message_hint or "")
            (status, error, reason) = read_run(city, 3, "status, error, publish_error")
            assert (status, error) == ("verified", None)
            assert who in str(reason)
            assert city.execute(trace).fetchall() == [(operator.info.user, 3, "night", "DA013")]
            operator.execute(call_it % ", end_readers => true")
            with pytest.raises(psycopg.errors.AdminShutdown):
                reader.execute("SELECT 1")
        assert read_run(city, 4, "releases, publish_error") == ("night", None)
        operator.execute("SELECT dbanon.publish(3, 'night', replace => true)")
        assert read_run(city, 3, "releases, publish_error") == ("night", None)
        city.execute(
            "CREATE OR REPLACE FUNCTION dbanon_internal.describe_release(release_id bigint) RETURNS void "
            "LANGUAGE sql AS 'SELECT 1 / 0'"
        )
        with pytest.raises(psycopg.errors.DivisionByZero):
            operator.execute(call_it % "")
        assert city.execute(trace + " ORDER BY audit_id DESC").fetchall()[0] == (
            operator.info.user,
            5,
            "night",
            "22012",
        )
    check_whole(city)


def test_several_runs_go_at_once_on_several_workers(city_url: str, city: psycopg.Connection, log: Path) -> None:
    with workers.keep_up(city_url, log, "--jobs", "2", count=2), workers.keep_up(city_url, log, count=3):
        with hold_up_runs(city_url):
            runs = [submit_run(city) for _ in range(4)]
            wait_until(make_lock_check(city, 3))
            statuses = [read_run(city, run)[0] for run in runs]
            assert sorted(statuses) == ["queued", "running", "running", "running"]
        wait_until(lambda: all(read_run(city, run) == ("verified",) for run in runs))


def test_a_run_is_cancelled_in_the_middle_of_its_work(city_url: str, city: psycopg.Connection, log: Path) -> None:
    with workers.keep_up(city_url, log) as worker:
        with hold_up_runs(city_url):
            run = submit_run(city)
            wait_until(make_lock_check(city))
            interrupted = worker.children()
            assert city.execute("SELECT dbanon.cancel_run(%s)", [run]).fetchone() == ("being cancelled",)
            wait_until(lambda: read_run(city, run) == ("cancelled",), 10, worker)
            second = submit_run(city)  # the worker goes on with the next, in another process
        wait_until(lambda: read_run(city, second) == ("verified",), 30, worker)
        assert len(worker.children()) == 1
        assert worker.children() != interrupted
        demand_named(str(read_run(city, run, "error")[0]), f"run {run}", "cancelled", city.info.user)
        workers.stop(worker)
    check_whole(city)


@pytest.mark.stress
def test_a_killed_process_is_replaced_and_its_run_begun_again(
    city_url: str, city: psycopg.Connection, log: Path
) -> None:
    with workers.keep_up(city_url, log) as worker:
        with hold_up_runs(city_url):
            run = submit_run(city)
            wait_until(make_lock_check(city))
            (pid,) = worker.children()
            os.kill(pid, signal.SIGKILL)
            began = time.monotonic()
            wait_until(lambda: read_run(city, run) != ("running",), 10, worker)
        wait_until(lambda: read_run(city, run, "status, attempts") == ("verified", 2), 30, worker)
        assert time.monotonic() - began < 60
        workers.stop(worker)
    check_whole(city)


@pytest.mark.stress
def test_a_killed_worker_leaves_its_run_to_another(city_url: str, city: psycopg.Connection, log: Path) -> None:
    with workers.keep_up(city_url, log) as first, hold_up_runs(city_url):
        run = submit_run(city)
        wait_until(make_lock_check(city))
        workers.kill(first)
        wait_until(lambda: read_run(city, run, "status, progress") == ("queued", "waiting for a worker"))
    with workers.keep_up(city_url, log) as second:
        wait_until(lambda: read_run(city, run, "status, attempts") == ("verified", 2), 30, second)
        workers.stop(second)
    check_whole(city)


@pytest.mark.stress
def test_without_its_supervisor_a_process_finishes_and_ends(city_url: str, city: psycopg.Connection, log: Path) -> None:
    with workers.keep_up(city_url, log, "--grace-s", "30") as worker:
        with hold_up_runs(city_url):
            run = submit_run(city)
            wait_until(make_lock_check(city))
            worker.process.kill()
            time.sleep(1)
        wait_until(lambda: read_run(city, run, "status, attempts") == ("verified", 1), 30, worker)
        wait_until(lambda: workers.count_workers(city_url) == 0)
    check_whole(city)


@pytest.mark.stress
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_told_to_stop_finishes_what_it_does_or_gives_it_back(
    city_url: str, city: psycopg.Connection, log: Path, number: int
) -> None:
    with workers.keep_up(city_url, log, "--grace-s", "0.5") as worker, hold_up_runs(city_url):
        run = submit_run(city)
        wait_until(make_lock_check(city))
        assert workers.stop(worker, number) == 0
        assert read_run(city, run, "status, attempts") == ("queued", 1)
    with workers.keep_up(city_url, log) as worker:
        wait_until(lambda: read_run(city, run) == ("verified",), 30, worker)
        workers.stop(worker)
    check_whole(city)


@pytest.mark.stress
def test_a_worker_whose_lock_is_lost_stops_and_connects_again(
    city_url: str, city: psycopg.Connection, log: Path
) -> None:
    with workers.keep_up(city_url, log) as worker:
        with hold_up_runs(city_url):
            run = submit_run(city)
            wait_until(make_lock_check(city))
            city.execute(
                "SELECT pg_terminate_backend(l.pid) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.database = "
                "(SELECT oid FROM pg_database WHERE datname = current_database())"
            )
            wait_until(lambda: city.execute("SELECT dbanon_internal.reap_runs()").fetchone() == (1,), 10, worker)
        wait_until(lambda: read_run(city, run, "status, attempts") == ("verified", 2), 30, worker)
        workers.stop(worker)
    check_whole(city)


END_READER = """SELECT count(*) FILTER (WHERE {}(pid)) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND query ~ 'dbanon.trajectory|dbanon_internal.compute_run_digest'
    AND datname = current_database()"""


@pytest.mark.stress
@pytest.mark.parametrize("end", ["pg_terminate_backend", "pg_cancel_backend"])
def test_what_ends_the_reading_of_a_run_from_outside_has_it_begun_again(
    city_url: str, city: psycopg.Connection, log: Path, end: str
) -> None:
    with workers.keep_up(city_url, log) as worker:
        for run, ask, attempts in ((2, SUBMIT, 2), (1, "SELECT dbanon.verify_run(1)", 3)):
            statuses = set()
            with hold_up_runs(city_url, "dbanon.trajectory", "ACCESS EXCLUSIVE"):
                city.execute(ask)
                wait_until(make_lock_check(city), 30, worker)
                statuses.add(read_run(city, run))
                assert city.execute(END_READER.format(end)).fetchone() == (1,)
                wait_until(
                    lambda run=run, attempts=attempts: read_run(city, run, "attempts") == (attempts,), 30, worker
                )
                statuses.add(read_run(city, run))
            wait_until(lambda run=run: read_run(city, run, "progress") == (None,), 30, worker)
            assert read_run(city, run, "status, attempts, error") == ("verified", attempts, None)
            assert statuses == {("running",) if run == 2 else ("verified",)}
        workers.stop(worker)
    assert city.execute("SELECT count(*), bool_and(passed) FROM dbanon.verification").fetchone() == (3, True)
    check_whole(city)


def test_a_verification_is_done_by_a_worker(city_url: str, city: psycopg.Connection, log: Path) -> None:
    with workers.keep_up(city_url, log) as worker:
        city.execute("SELECT dbanon.verify_run(1)")
        wait_until(lambda: read_run(city, 1, "progress IS NULL") == (True,), 30, worker)
    assert city.execute("SELECT count(*), bool_and(passed) FROM dbanon.verification").fetchone() == (2, True)
    city.execute("UPDATE dbanon.cloak SET crowd = crowd + 1 WHERE record_id = 1")
    with workers.keep_up(city_url, log) as worker:
        city.execute("SELECT dbanon.verify_run(1)")
        wait_until(lambda: read_run(city, 1) == ("refused",), 30, worker)
    assert "[crowd]" in str(read_run(city, 1, "error")[0])


def test_what_is_wrong_with_a_run_is_its_error_and_the_worker_goes_on(
    city_url: str, city: psycopg.Connection, log: Path
) -> None:
    with workers.keep_up(city_url, log) as worker:
        with expect_refusal("DA016") as caught:
            city.execute("CALL dbanon.anonymize('city', 'tp-aware', '{\"k\": 5000}', publish_as => 'never')")
        sentence = str(caught.value.diag.message_primary)
        demand_named(sentence, "k = 5000")
        assert read_run(city, 2, "status, error") == ("failed", sentence)
        run = submit_run(city)
        wait_until(lambda: read_run(city, run) == ("verified",), 30, worker)


def test_a_worker_is_woken_by_a_submission(
    city_url: str, city: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_IDLE_S", 120.0)
    monkeypatch.setattr(processes._Process, "_look_after_parent", lambda _: None)
    process = processes._Process(processes.Settings(dsn=city_url, grace_s=0, parent=0))
    thread = threading.Thread(target=process.take_runs)
    thread.start()
    try:
        idle = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE state = 'idle' AND query ~ 'dbanon_internal.claim_run' AND datname = current_database()"
        )
        wait_until(lambda: city.execute(idle).fetchone() == (1,))
        run = submit_run(city)
        wait_until(lambda: read_run(city, run) == ("verified",))
    finally:
        process.stop(signal.SIGTERM, None)
        thread.join()


def test_a_worker_ends_when_the_schema_is_of_another_revision(
    city_url: str, city: psycopg.Connection, log: Path
) -> None:
    with workers.keep_up(city_url, log) as worker:
        city.execute("UPDATE dbanon.alembic_version SET version_num = '0002'")
        city.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            " AND datname = current_database()"
        )
        assert worker.process.wait(30) == 1
        said = worker.said()
    demand_named(said, "dbanon: ", "schema", "revision", "Start it again")
    assert "Traceback" not in said


# ---- logins with settings of their own -------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_anonymize_works_whatever_isolation_the_login_is_used_to(
    city_url: str, operator_url: str, city: psycopg.Connection, log: Path, level: str
) -> None:
    user = server.parse(operator_url)["user"]
    city.execute(f"ALTER ROLE {user} SET default_transaction_isolation = '{level}'")
    call_it = "CALL dbanon.anonymize('city', 'tp-aware', '{\"k\": 7}', publish_as => 'mine')"
    with workers.keep_up(city_url, log), psycopg.connect(operator_url, autocommit=True) as operator:
        assert operator.execute("SHOW transaction_isolation").fetchone() == (level,)
        with psycopg.connect(city_url) as other, futures.ThreadPoolExecutor() as pool:
            other.execute("UPDATE dbanon.dataset SET revision = revision")  # as who publishes another run of it
            called = pool.submit(lambda: operator.execute(call_it).fetchone())
            wait_until(make_lock_check(city))
            other.commit()
            row = called.result()
        assert row is not None
        assert row[:2] == (2, "verified")
        assert city.execute("SELECT count(*) FROM published.mine").fetchone() == (row[2],)
        assert operator.execute("SHOW transaction_isolation").fetchone() == (level,)


@pytest.mark.stress
def test_a_worker_waits_longer_than_its_login_may(
    city_url: str, city: psycopg.Connection, log: Path, login: Callable[[str], str]
) -> None:
    made = server.parse(login("dbanon_worker"))
    for setting in ("statement_timeout", "lock_timeout"):
        city.execute(f"ALTER ROLE {made['user']} SET {setting} = '300ms'")
    with workers.keep_up(server.format_uri({**made, "dbname": server.parse(city_url)["dbname"]}), log) as worker:
        for table, mode in (("dbanon.trajectory", "ACCESS EXCLUSIVE"), ("dbanon.cloak", "SHARE")):
            with hold_up_runs(city_url, table, mode):
                run = submit_run(city)
                wait_until(make_lock_check(city), 30, worker)
                time.sleep(1)
            wait_until(lambda run=run: read_run(city, run, "progress") == (None,), 30, worker)
            assert read_run(city, run, "status, attempts, error") == ("verified", 1, None)


# ---- the command line with a worker ----------------------------------------------------------------------------------


@tries("Or let a worker compute it. None is up")
def test_who_may_not_compute_lets_a_worker_do_it(
    city_url: str, operator_url: str, city: psycopg.Connection, log: Path
) -> None:
    said = call(operator_url, "run", "tp-aware", "--dataset", "city", "-p", "k=7").sentence
    assert re.findall(r"start `dbanon (\w+)`", said) == ["worker"]
    with workers.keep_up(city_url, log):
        done = call(
            operator_url, "--json", "run", "tp-aware", "--dataset", "city", "-p", "k=7", "--publish", "by_worker"
        )
        assert done.code == 0, done.stderr
        result = read_json(done)
        assert (result["status"], result["release"]) == ("verified", "by_worker")
        assert call(operator_url, "verify", "1").code == 0
        done = call(operator_url, "run", "tp-aware", "--dataset", "city", "-p", "k=5000")
        demand_refused(done, 4, "window", "k = ")
    assert read_run(city, 2, "submitted_by, rows IS NOT NULL")[1] is True


def test_whoever_stops_waiting_cancels_the_run(
    city_url: str, operator_url: str, city: psycopg.Connection, log: Path
) -> None:
    with workers.keep_up(city_url, log) as worker, hold_up_runs(city_url):
        process = start(operator_url, "run", "tp-aware", "--dataset", "city")
        wait_until(make_lock_check(city))
        process.send_signal(signal.SIGINT)
        assert wait_for_end(process).code == 130
        wait_until(lambda: read_run(city, 2) == ("cancelled",), 10, worker)


def test_an_interruption_in_the_middle_of_a_statement_still_cancels_the_run(
    city_url: str, city: psycopg.Connection
) -> None:
    def interrupt(*_: object) -> None:
        database.connection.pgconn.send_query(b"SELECT pg_sleep(2)")
        raise KeyboardInterrupt

    run_id = submit_run(city)
    with open_database(city_url) as database:
        database.progress = interrupt
        with pytest.raises(KeyboardInterrupt):
            database.wait(run_id)
    assert read_run(city, run_id) == ("cancelled",)


def test_a_run_of_a_command_is_cancelled_from_elsewhere(city_url: str, city: psycopg.Connection) -> None:
    with hold_up_runs(city_url):
        process = start(city_url, "run", "tp-aware", "--dataset", "city")
        wait_until(make_lock_check(city))
        assert call(city_url, "cancel", "2").stdout == "Run 2 is being cancelled.\n"
        done = wait_for_end(process)
    assert (done.code, read_run(city, 2)) == (1, ("cancelled",))
    demand_named(done.sentence, "cancelled")
    check_whole(city)


def test_submitting_returns_at_once_and_cancelling_a_waiting_run_ends_it(
    city_url: str, city: psycopg.Connection
) -> None:
    done = call(city_url, "--json", "submit", "tp-aware", "--dataset", "city", "-p", "k=7")
    assert read_json(done) == {"run_id": 2}
    assert read_run(city, 2) == ("queued",)
    assert call(city_url, "cancel", "2").stdout == "Run 2 is cancelled.\n"
    assert call(city_url, "cancel", "2").code == 1


def test_a_worker_needs_the_role_of_one(operator_url: str) -> None:
    done = call(operator_url, "worker")
    assert done.code == 1
    assert "dbanon_worker" in done.sentence
