"""Two sessions at once: publishing, writing, loading and reaping never miss each other."""

import threading

import psycopg
import pytest


def value(connection: psycopg.Connection, query: str) -> object:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def in_background(url: str, statement: str) -> tuple[threading.Thread, list[object]]:
    found: list[object] = []

    def work() -> None:
        try:
            with psycopg.connect(url, autocommit=True) as other:
                cursor = other.execute(statement)
                found.append(cursor.fetchone() if cursor.description else cursor.rowcount)
        except psycopg.Error as error:
            found.append(error.sqlstate)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, found


@pytest.mark.parametrize(
    ("statement", "refusal"),
    [
        pytest.param("SELECT dbanon.publish(1, 'ten')", "DA003", id="who publishes under the same name"),
        pytest.param("DELETE FROM dbanon.membership WHERE trajectory_id = 104", "DA005", id="who writes the run"),
        pytest.param("DELETE FROM dbanon.request", "DA005", id="who loads"),
    ],
)
def test_publishing_waits_for_who_was_first_and_is_refused(
    database: str, run: int, statement: str, refusal: str
) -> None:
    with psycopg.connect(database) as first:
        first.execute(statement)
        thread, found = in_background(database, "SELECT dbanon.publish(1, 'ten')")
        thread.join(0.3)
        assert thread.is_alive()
        first.commit()
    thread.join(10)
    assert found == [refusal]


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_a_writer_that_comes_during_publishing_waits_and_is_refused(database: str, run: int, isolation: str) -> None:
    with psycopg.connect(database) as first, psycopg.connect(database) as second:
        second.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
        second.execute("SELECT count(*) FROM dbanon.release")  # an older snapshot, where there are snapshots
        first.execute("SELECT dbanon.publish(1, 'ten')")
        first.commit()
        with pytest.raises(psycopg.Error) as caught:
            second.execute("DELETE FROM dbanon.membership WHERE trajectory_id = 104")
    assert caught.value.sqlstate == ("DA007" if isolation == "READ COMMITTED" else "40001")


def test_a_run_held_by_another_session_or_this_one_is_left_alone(
    database: str, connection: psycopg.Connection, run: int
) -> None:
    connection.execute("UPDATE dbanon.run SET status = 'running', todo = 'compute', worker = 'w'")
    with psycopg.connect(database, autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock(dbanon.run_lock_key(1))")
        assert value(connection, "SELECT dbanon.reap_runs()") == 0
        assert value(holder, "SELECT dbanon.reap_runs()") == 0
        holder.execute("SELECT pg_advisory_unlock(dbanon.run_lock_key(1))")
    assert value(connection, "SELECT dbanon.reap_runs()") == 1
