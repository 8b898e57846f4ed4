"""Two sessions at once: publishing, writing, loading and reaping never miss each other."""

import threading

import psycopg
import pytest

from tests.reading import read_value


def start_statement(url: str, statement: str) -> tuple[threading.Thread, list[object]]:
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
        thread, found = start_statement(database, "SELECT dbanon.publish(1, 'ten')")
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


# Run 2 has the same people at the same time as run 1, in other bundles.
_CROSSING = """
INSERT INTO dbanon.run (dataset_id, dataset_revision, method, algorithm, params, seed, status)
SELECT dataset_id, dataset_revision, method, algorithm, params, seed, status FROM dbanon.run;
INSERT INTO dbanon.cloak SELECT 2, record_id, seq, period, region, crowd, subjects, extra FROM dbanon.cloak;
INSERT INTO dbanon.membership SELECT 2, 1 + trajectory_id % 2, trajectory_id, period FROM dbanon.membership;
INSERT INTO dbanon.verification (run_id, attack, passed, digest)
    VALUES (2, 'tp-aware', true, dbanon_internal.compute_run_digest(2));
"""


def test_two_who_publish_at_once_do_not_miss_each_other(
    database: str, connection: psycopg.Connection, run: int
) -> None:
    connection.execute(_CROSSING)
    with psycopg.connect(database) as first:
        first.execute("SELECT dbanon.publish(1, 'one')")
        thread, found = start_statement(database, "SELECT dbanon.publish(2, 'two')")
        thread.join(0.3)
        assert thread.is_alive()
        first.commit()
    thread.join(10)
    assert found == ["DA010"]


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_who_looked_before_another_published_does_not_miss_it(
    database: str, connection: psycopg.Connection, run: int, isolation: str
) -> None:
    connection.execute(_CROSSING)
    with psycopg.connect(database) as second:
        second.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
        second.execute("SELECT count(*) FROM dbanon.release")
        connection.execute("SELECT dbanon.publish(1, 'one')")
        with pytest.raises(psycopg.Error) as caught:
            second.execute("SELECT dbanon.publish(2, 'two')")
    assert caught.value.sqlstate == ("DA010" if isolation == "READ COMMITTED" else "DA015")


@pytest.mark.many
@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize(
    "change", ["UPDATE dbanon.cloak SET crowd = 6", "DELETE FROM dbanon.membership", "DELETE FROM dbanon.trajectory"]
)
def test_nobody_publishes_a_state_that_is_over(
    database: str, connection: psycopg.Connection, run: int, isolation: str, change: str
) -> None:
    with psycopg.connect(database) as second:
        second.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
        second.execute("SELECT count(*) FROM dbanon.cloak, dbanon.membership, dbanon.trajectory")
        connection.execute(change)
        with pytest.raises(psycopg.Error) as caught:
            second.execute("SELECT dbanon.publish(1, 'ten')")
    assert caught.value.sqlstate == ("DA005" if isolation == "READ COMMITTED" else "DA015")


def test_an_analyst_sees_the_old_or_the_new_release_never_neither(
    database: str, connection: psycopg.Connection, run: int
) -> None:
    connection.execute("SELECT dbanon.publish(1, 'ten')")
    for number in range(4):
        with psycopg.connect(database) as publisher:
            publisher.execute("SELECT dbanon.publish(1, 'ten', replace => true)")
            thread, found = start_statement(database, "SELECT count(*) FROM published.ten")
            thread.join(0.1)
            assert thread.is_alive()
            publisher.rollback() if number % 2 else publisher.commit()
        thread.join(10)
        assert found == [(4,)]


def test_a_run_held_by_another_session_or_this_one_is_left_alone(
    database: str, connection: psycopg.Connection, run: int
) -> None:
    with psycopg.connect(database, autocommit=True) as holder:
        holder.execute(
            "UPDATE dbanon.run SET status = 'running', todo = 'compute', worker = 'w',"
            " held_by = dbanon_internal.hold_lock()"
        )
        assert read_value(connection, "SELECT dbanon_internal.reap_runs()") == 0
        assert read_value(holder, "SELECT dbanon_internal.reap_runs()") == 0
        holder.execute("SELECT pg_advisory_unlock_all()")
    assert read_value(connection, "SELECT dbanon_internal.reap_runs()") == 1
