"""Through a pooler that gives every transaction another session, all works but for the connection that holds locks."""

import re
from pathlib import Path

import psycopg
import pytest

from dbanon.base.errors import ParameterError
from dbanon.postgres.connection import connect_to_hold
from tests import wholeness
from tests.acceptance import workers
from tests.acceptance.commands import call, demand_done, read_json, shift_rows
from tests.acceptance.pooler import run_pooler
from tests.facts import demand_refused, expect_refusal
from tests.hints import tries


@pytest.mark.stress
def test_commands_and_a_worker_work_through_a_pooler(
    city_url: str, city_files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBANON_LOCK_DSN", city_url)
    columns = ("--x", "lon", "--y", "lat")
    with run_pooler(city_url) as pool:
        url = pool.own_url
        commands = (
            ("load", "trajectories", str(city_files[0]), "--dataset", "second", *columns),
            ("load", "requests", str(shift_rows(city_files[1])), "--dataset", "second", "--columns", "poi"),
            ("import", "public.gps", "--dataset", "third", "--subject", "subject", "--time", "t", "--geom", "position"),
            ("plan", "tp-aware", "--dataset", "second"),
            ("run", "tp-aware", "--dataset", "second", "-p", "k=7", "--publish", "second_k7"),
            ("verify", "3"),  # the plan had a run to measure
            ("publish", "3", "second_k7", "--replace"),
            ("unpublish", "second_k7", "--dry-run"),
            ("unpublish", "second_k7"),
            ("runs",),
        )
        for command in commands:
            demand_done(call(url, *command))
        with workers.keep_up(url, tmp_path / "log", "--lock-dsn", city_url) as worker:
            with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
                call_it = (
                    "CALL dbanon.anonymize('third', 'tp-aware', publish_as => 'third_k5',"
                    " allow_overlap => true, reason => 'these are the same people')"
                )
                assert connection.execute(call_it).fetchone()[1] == "verified"
            assert read_json(call(url, "--json", "runs"))["runs"][-1]["status"] == "verified"
            workers.stop(worker)
        assert pool.transactions > 50
    with psycopg.connect(city_url, autocommit=True) as connection:
        wholeness.wait_until_alone(connection)
        assert wholeness.find_broken(connection) == []


@tries("The connection that holds a worker's locks must go straight")
def test_locks_are_not_held_through_a_pooler(city_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_pooler(city_url) as pool:
        with psycopg.connect(pool.own_url, autocommit=True, prepare_threshold=None) as connection:
            assert connection.info.backend_pid > 0  # made up, and no session's
        with expect_refusal(ParameterError, "pooler", "--lock-dsn"):
            connect_to_hold(pool.own_url)
        for command in (("worker",), ("run", "tp-aware", "--dataset", "city"), ("verify", "1")):
            done = call(pool.own_url, *command)
            demand_refused(done, 2, "pooler", "locks", "--lock-dsn", "DBANON_LOCK_DSN")
        with psycopg.connect(city_url) as connection:
            assert connection.execute("SELECT count(*) FROM dbanon.run").fetchone() == (1,)
        option, variable = re.findall(r"--[a-z-]+|DBANON_\w+", done.sentence)
        with workers.keep_up(pool.own_url, tmp_path / "log", option, city_url):
            pass
        monkeypatch.setenv(variable, city_url)
        assert call(pool.own_url, "verify", "1").code == 0
