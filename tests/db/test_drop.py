"""Runs that may be dropped, and those that may not."""

from collections.abc import Callable

import psycopg
import pytest

from tests.facts import demand_named

Login = Callable[[str], str]


def catch_refusal(connection: psycopg.Connection, run: int | None = 1) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("SELECT dbanon.drop_run(%s)", [run])
    assert caught.value.diag.message_detail
    assert caught.value.diag.message_hint
    return caught.value


def count_left(connection: psycopg.Connection) -> tuple[int, ...]:
    tables = ("run", "cloak", "membership", "verification")
    counts = ", ".join(f"(SELECT count(*) FROM dbanon.{table})" for table in tables)
    return tuple(connection.execute(f"SELECT {counts}").fetchone() or ())


def test_an_operator_drops_a_run_with_its_rows(connection: psycopg.Connection, operator: psycopg.Connection) -> None:
    connection.execute("INSERT INTO dbanon.run (dataset_id, method, algorithm) VALUES (1, 'tp-aware', 'traj-anon')")
    connection.execute("INSERT INTO dbanon.membership VALUES (2, 1, 100, NULL)")
    assert operator.execute("SELECT dbanon.drop_run(1)").fetchone() == (4,)
    assert count_left(connection) == (1, 0, 1, 0)


@pytest.mark.parametrize("run_id", [99, None])
def test_a_run_that_is_not_there_is_no_run(operator: psycopg.Connection, run_id: int | None) -> None:
    error = catch_refusal(operator, run_id)
    assert error.sqlstate == "DA001"
    demand_named(str(error.diag.message_primary), f"run {run_id or 'NULL'}")


_WITHDRAW = "SELECT dbanon.unpublish('again'); SELECT dbanon.unpublish('ten')."


@pytest.mark.parametrize(("withdrawn", "hint"), [(False, _WITHDRAW), (True, "withdrawn")])
def test_a_run_that_was_ever_published_stays(
    connection: psycopg.Connection, operator: psycopg.Connection, withdrawn: bool, hint: str
) -> None:
    for name in ("ten", "again"):
        operator.execute("SELECT dbanon.publish(1, %s)", [name])
        if withdrawn:
            operator.execute("SELECT dbanon.unpublish(%s)", [name])
    error = catch_refusal(operator)
    assert error.sqlstate == "DA007"
    demand_named(str(error.diag.message_primary), "run 1", "published")
    demand_named(str(error.diag.message_hint), hint)
    assert count_left(connection) == (1, 4, 10, 1)


@pytest.mark.parametrize("todo", ["compute", "verify"])
def test_a_run_in_the_queue_is_cancelled_first(
    connection: psycopg.Connection, operator: psycopg.Connection, todo: str
) -> None:
    connection.execute("UPDATE dbanon.run SET todo = %s", [todo])
    error = catch_refusal(operator)
    assert error.sqlstate == "DA013"
    demand_named(str(error.diag.message_primary), "run 1", "waiting")
    demand_named(str(error.diag.message_hint), "SELECT dbanon.cancel_run(1).")


@pytest.mark.stress
def test_a_run_that_somebody_works_on_is_cancelled_first(
    connection: psycopg.Connection, operator: psycopg.Connection, login: Login
) -> None:
    with psycopg.connect(login("dbanon_worker"), autocommit=True) as worker:
        worker.execute(
            "UPDATE dbanon.run SET todo = 'verify', worker = 'host 1', held_by = dbanon_internal.hold_lock()"
        )
        error = catch_refusal(operator)
        assert error.sqlstate == "DA013"
        demand_named(str(error.diag.message_primary), "run 1", "worked on")
        worker.execute("BEGIN")
        worker.execute(
            "UPDATE dbanon.run SET status = 'running'"
        )  # holds the run's row: nobody may have to wait for it
        operator.execute("SET statement_timeout = '5s'")
        assert catch_refusal(operator).sqlstate == "DA013"
        worker.execute("ROLLBACK")
        worker.execute("UPDATE dbanon.run SET todo = NULL, worker = NULL")
    operator.execute("SELECT dbanon.drop_run(1)")
    assert count_left(connection) == (0, 0, 0, 0)


def test_a_run_that_a_dead_worker_had_waits_for_the_next_one(
    connection: psycopg.Connection, operator: psycopg.Connection
) -> None:
    connection.execute("UPDATE dbanon.run SET worker = 'host 1', todo = 'compute'")
    assert catch_refusal(operator).sqlstate == "DA013"


def test_nobody_takes_a_run_while_it_is_dropped(connection: psycopg.Connection, operator: psycopg.Connection) -> None:
    operator.execute("BEGIN")
    operator.execute("SELECT dbanon.drop_run(1)")
    assert connection.execute("SELECT run_id FROM dbanon.run FOR UPDATE SKIP LOCKED").fetchall() == []
    operator.execute("ROLLBACK")
    assert count_left(connection) == (1, 4, 10, 1)


@pytest.mark.parametrize("role", ["dbanon_worker", "dbanon_analyst"])
def test_only_operators_drop(run: int, login: Login, role: str) -> None:
    with psycopg.connect(login(role), autocommit=True) as other, pytest.raises(psycopg.errors.InsufficientPrivilege):
        other.execute("SELECT dbanon.drop_run(1)")


def test_operators_delete_runs_in_no_other_way(operator: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        operator.execute("DELETE FROM dbanon.run")
