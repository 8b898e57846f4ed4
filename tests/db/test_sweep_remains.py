"""What a sweep makes besides figures goes with its session: runs that are tied to it, and samples, never published."""

from collections.abc import Callable

import psycopg
import pytest

from dbanon.evaluation import sweep_session
from dbanon.runs import queue
from tests.facts import demand_named, expect_refusal

Login = Callable[[str], str]
SUBMIT = "SELECT dbanon.submit_run('ten', 'tp-aware', '{\"k\": 2}')"


def count_tables(connection: psycopg.Connection) -> dict[str, int]:
    """How much there is of data and of what runs wrote."""
    tables = ("dataset", "trajectory", "request", "quasi_identifier", "site", "poi", "cell", "run", "cloak", "fix_code")
    query = ", ".join(f"(SELECT count(*) FROM dbanon.{table})" for table in tables)
    return dict(zip(tables, connection.execute(f"SELECT {query}").fetchone() or (), strict=True))


def submit_run(connection: psycopg.Connection, holder: int, dataset: str = "ten") -> int:
    with connection.transaction():
        run = connection.execute(SUBMIT.replace("'ten'", "%s"), [dataset]).fetchone()[0]
        sweep_session.tie_run(connection, run, holder)
    return run


def test_runs_and_samples_go_when_the_session_of_their_sweep_ends(database: str, run: int) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        before = count_tables(connection)
        with sweep_session.open_session(database, database) as holder:
            sample = sweep_session.sample_people(connection, "ten", 4, holder)
            submit_run(connection, holder)
            submit_run(connection, holder, sample)
            during = count_tables(connection)
            assert (during["dataset"], during["run"]) == (before["dataset"] + 1, before["run"] + 2)
            assert during["fix_code"] == before["fix_code"]
            queue.reap_runs(connection)
            assert count_tables(connection) == during
        assert count_tables(connection) == before


def test_what_a_killed_session_leaves_goes_when_anybody_looks(database: str, run: int) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        before = count_tables(connection)
        killed = psycopg.connect(database, autocommit=True)
        holder = killed.execute("SELECT (dbanon_internal.hold_lock()).lock_key").fetchone()[0]
        sweep_session.sample_people(connection, "ten", 4, holder)
        submit_run(connection, holder)
        connection.execute("SELECT pg_terminate_backend(%s, 10000)", [killed.info.backend_pid])
        killed.close()
        queue.reap_runs(connection)
        assert count_tables(connection) == before
        with expect_refusal("DA013"):
            submit_run(connection, holder)
        assert count_tables(connection) == before


def test_a_run_that_was_published_meanwhile_stays(database: str, run: int) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        with sweep_session.open_session(database, database) as holder:
            connection.execute(
                "UPDATE dbanon.run SET tied_to = dbanon_internal.find_holder(%s) WHERE run_id = %s", [holder, run]
            )
            connection.execute("SELECT dbanon.publish(%s, 'ten')", [run])
        assert connection.execute("SELECT count(*) FROM published.ten").fetchone() != (0,)
        assert connection.execute("SELECT run_id FROM dbanon.run").fetchall() == [(run,)]


def test_a_sample_has_the_same_people_each_time_with_all_that_is_theirs_and_all_places(database: str, run: int) -> None:
    people = "SELECT array_agg(DISTINCT t.subject ORDER BY t.subject) FROM dbanon.trajectory t JOIN dbanon.dataset d " \
        "USING (dataset_id) WHERE d.name = %s"  # fmt: skip
    with (
        psycopg.connect(database, autocommit=True) as connection,
        sweep_session.open_session(database, database) as holder,
    ):
        connection.execute(
            "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) "
            "SELECT dataset_id, subject, to_timestamp(first_s), '{}' FROM dbanon.trajectory WHERE dataset_id = 1; "
            "INSERT INTO dbanon.site (dataset_id, geom) SELECT dataset_id, ST_Force2D(ST_StartPoint(path)) "
            "FROM dbanon.trajectory WHERE dataset_id = 1"
        )
        for wrong in (1, 10, 11, None):
            with expect_refusal("DA011") as refused:
                sweep_session.sample_people(connection, "ten", wrong, holder)  # type: ignore[arg-type]
            demand_named(str(refused.value.diag.message_primary), 10)
        places = count_tables(connection)["site"]
        first, again = (sweep_session.sample_people(connection, "ten", 4, holder) for _ in range(2))
        drawn = connection.execute(people, [first]).fetchone()[0]
        assert len(drawn) == 4
        assert connection.execute(people, [again]).fetchone() == (drawn,)
        assert count_tables(connection)["site"] == 3 * places
        senders = connection.execute(
            "SELECT DISTINCT q.subject FROM dbanon.request q JOIN dbanon.dataset d USING (dataset_id) "
            "WHERE d.name = %s ORDER BY 1",
            [first],
        )
        assert [row[0] for row in senders] == drawn


def test_a_run_of_a_sample_is_never_published(database: str, run: int) -> None:
    with (
        psycopg.connect(database, autocommit=True) as connection,
        sweep_session.open_session(database, database) as holder,
    ):
        sample = sweep_session.sample_people(connection, "ten", 4, holder)
        made = submit_run(connection, holder, sample)
        connection.execute("UPDATE dbanon.run SET status = 'verified', todo = NULL WHERE run_id = %s", [made])
        with expect_refusal("DA004") as refused:
            connection.execute("SELECT dbanon.publish(%s, 'part_of_ten')", [made])
        demand_named(str(refused.value.diag.message_primary), "sample", f"run {made}")


def test_whoever_is_forgotten_is_in_no_sample_either(database: str, run: int) -> None:
    with (
        psycopg.connect(database, autocommit=True) as connection,
        sweep_session.open_session(database, database) as holder,
    ):
        sample = sweep_session.sample_people(connection, "ten", 9, holder)
        who = connection.execute(
            "SELECT subject FROM dbanon.trajectory ORDER BY trajectory_id DESC LIMIT 1"
        ).fetchone()[0]
        connection.execute("SELECT dbanon.forget_subject('ten', %s)", [who])
        assert connection.execute("SELECT count(*) FROM dbanon.dataset WHERE name = %s", [sample]).fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM dbanon.trajectory WHERE subject = %s", [who]).fetchone() == (0,)


def test_a_login_ties_only_what_it_submitted(database: str, run: int, login: Login) -> None:
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as operator:
        with (
            sweep_session.open_session(database, database) as holder,
            psycopg.connect(database, autocommit=True) as owner,
        ):
            waiting = owner.execute(SUBMIT).fetchone()[0]
            with expect_refusal("DA013"):
                sweep_session.tie_run(operator, waiting, holder)
            mine = submit_run(operator, holder)
        assert operator.execute(
            "SELECT count(*) FROM dbanon.run WHERE run_id IN (%s, %s)", [waiting, mine]
        ).fetchone() == (1,)
    with psycopg.connect(login("dbanon_analyst"), autocommit=True) as analyst, pytest.raises(psycopg.Error):
        sweep_session.sample_people(analyst, "ten", 4, 1)
