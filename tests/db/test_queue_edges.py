"""The queue of runs at its edges: locks that outlive their holder, wishes to cancel, verifications, what is audited."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import errors

from dbanon.options.publishing import Submitting
from dbanon.postgres.connection import connect
from dbanon.runs import queue, stored
from tests.facts import expect_refusal
from tests.reading import read_value

from .test_queue import open_worker, read_run

Login = Callable[[str], str]


def submit_test_run(connection: psycopg.Connection) -> int:
    return queue.submit_run(connection, "tp-aware", Submitting(dataset="ten", params={"k": 5}))


def claim_test_run(connection: psycopg.Connection, run_id: int) -> queue.Claim:
    claim = queue.claim_run(connection, "w")
    assert claim is not None
    assert claim.run_id == run_id
    return claim


# ---- who takes which run ---------------------------------------------------------------------------------------------


def test_a_lock_that_outlives_its_work_is_in_nobodys_way(
    connection: psycopg.Connection, database: str, run: int
) -> None:
    first = submit_test_run(connection)
    with connect(database) as finishing:
        queue.requeue_run(connection, claim_test_run(finishing, first))  # it lets the lock go a moment later
        again = claim_test_run(connection, first)
        assert (again.attempt, queue.watch_run(connection, again, None, 0, None)) == (2, "go on")
        queue.set_status(connection, again, "cancelled")
        assert read_value(connection, "SELECT dbanon.drop_run(%s)", first) == 0


def test_a_run_that_is_given_up_keeps_what_ended_its_last_attempt(
    connection: psycopg.Connection, database: str, run: int
) -> None:
    first = submit_test_run(connection)
    connection.execute("UPDATE dbanon.run SET most_attempts = 1 WHERE run_id = %s", [first])
    with open_worker(connection, database) as dying:
        queue.note_error(dying, claim_test_run(dying, first), "It was this.")
    assert read_value(connection, "SELECT dbanon_internal.reap_runs()") == 1
    assert read_run(connection, first, "status, error") == ("failed", "It was this.")


def test_reaping_waits_for_nobody(connection: psycopg.Connection, database: str, run: int) -> None:
    waiting = submit_test_run(connection)
    with open_worker(connection, database) as dying:
        claim_test_run(dying, waiting)
    connection.execute("SET statement_timeout = '5s'")
    with psycopg.connect(database) as other:
        other.execute("SELECT FROM dbanon.run WHERE run_id = %s FOR UPDATE", [waiting])
        assert queue.reap_runs(connection) == 0
    assert queue.reap_runs(connection) == 1


def find_seed(connection: psycopg.Connection, params: dict[str, object], dataset: str = "ten") -> int:
    seed = stored.find_run(
        connection, queue.submit_run(connection, "tp-aware", Submitting(dataset=dataset, params=params))
    ).seed
    assert seed is not None
    return seed


def test_a_run_without_a_seed_gets_the_same_as_the_same_run_had_and_another_has_another(
    connection: psycopg.Connection, run: int
) -> None:
    seed = find_seed(connection, {"k": 5})
    for same in ({}, {"k": "5"}, {"k": 5.0, "cloak": "mbr", "start": None}):
        assert find_seed(connection, same) == seed
    others = [find_seed(connection, {"k": 5, **more}) for more in ({"cloak": "quadrant"}, {"start": 60}, {"since": 60})]
    assert len({seed, *others}) == 4


def test_seeds_that_are_made_depend_on_the_key_of_the_population_and_use_63_bits(
    connection: psycopg.Connection, run: int
) -> None:
    seeds = [find_seed(connection, {"k": k}) for k in range(2, 42)]
    assert len(set(seeds)) == 40
    assert 2**62 < max(seeds) < 2**63
    connection.execute("INSERT INTO dbanon.population (name) VALUES ('other')")
    connection.execute(
        "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s, population_id)"
        " SELECT d.name || p.name, srid, grid_m, grid_s, p.population_id FROM dbanon.dataset d, dbanon.population p"
    )
    of_others = [find_seed(connection, {"k": 2}, name) for name in ("tendefault", "tenother")]
    assert len({*of_others, seeds[0]}) == 3
    connection.execute("UPDATE dbanon.population SET key = sha256('another') WHERE name = 'default'")
    assert find_seed(connection, {"k": 2}) != seeds[0]


def test_an_empty_dataset_and_an_unknown_time_have_a_seed(connection: psycopg.Connection, run: int) -> None:
    connection.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('empty', 32610, 1, 60)")
    assert find_seed(connection, {}, "empty") >= 0


def test_neither_operators_nor_workers_read_the_key_or_make_a_seed(
    connection: psycopg.Connection, login: Login, run: int
) -> None:
    for role in ("dbanon_operator", "dbanon_worker"):
        for query in (
            "TABLE dbanon.population",
            "SELECT dbanon_internal.make_default_seed(1, 'tp-aware', 'traj-anon', '{}')",
        ):
            with psycopg.connect(login(role)) as user, pytest.raises(errors.InsufficientPrivilege):
                user.execute(query)


# ---- cancelling ------------------------------------------------------------------------------------------------------


@pytest.mark.many
@pytest.mark.parametrize("status", ["running", "computed", "verified", "refused"])
def test_a_run_that_somebody_cancelled_does_not_move_on(
    connection: psycopg.Connection, database: str, run: int, status: str
) -> None:
    waiting = submit_test_run(connection)
    with connect(database) as session:
        claim = claim_test_run(session, waiting)
        assert queue.cancel_run(connection, waiting) == "being cancelled"
        with expect_refusal(queue.CancelledError, "run", connection.info.user, "cancelled"):
            queue.set_status(session, claim, status)
        assert read_run(connection, waiting) == ("running", "being cancelled")
        queue.set_status(session, claim, "cancelled")
    assert read_run(connection, waiting) == ("cancelled", None)


@pytest.mark.parametrize("taken", [False, True])
def test_another_verification_forgets_that_the_last_was_cancelled(
    connection: psycopg.Connection, database: str, run: int, taken: bool
) -> None:
    queue.ask_verification(connection, run)
    with connect(database) as session:
        if taken:
            claim = claim_test_run(session, run)
            assert queue.cancel_run(connection, run) == "being cancelled"
            assert queue.watch_run(session, claim, None, 0, None) == "cancel"
            queue.set_status(session, claim, None)
            queue.unlock(session, claim)
        else:
            assert queue.cancel_run(connection, run) == "verified"
        queue.ask_verification(connection, run)
        again = claim_test_run(session, run)
        assert queue.watch_run(session, again, None, 0, None) == "go on"
        queue.set_status(session, again, "verified")
    asked = "SELECT cancel_requested_at, cancel_requested_by FROM dbanon.run WHERE run_id = 1"
    assert connection.execute(asked).fetchone() == (None, None)


def test_a_run_without_attempts_left_is_verified_in_up_to_three_more(
    connection: psycopg.Connection, database: str, run: int
) -> None:
    connection.execute("UPDATE dbanon.run SET attempts = 3, most_attempts = 3")
    queue.ask_verification(connection, run)
    for attempt in (4, 5, 6):
        with open_worker(connection, database) as session:
            assert claim_test_run(session, run).attempt == attempt
        assert queue.reap_runs(connection) == 1
    assert queue.claim_run(connection, "w") is None
    queue.ask_verification(connection, run)
    assert claim_test_run(connection, run).attempt == 7


# ---- the audit -------------------------------------------------------------------------------------------------------


@contextmanager
def collect_lines(connection: psycopg.Connection) -> Iterator[list[tuple[object, ...]]]:
    """Collect what the block adds to the audit: action, run, login."""
    since = read_value(connection, "SELECT coalesce(max(audit_id), 0) FROM dbanon.audit")
    added: list[tuple[object, ...]] = []
    yield added
    query = "SELECT action, run_id, login FROM dbanon.audit WHERE audit_id > %s ORDER BY audit_id"
    added += connection.execute(query, [since]).fetchall()


@pytest.mark.many
@pytest.mark.parametrize("what", ["a waiting run", "a running one", "a waiting verification", "a running one's"])
def test_cancelling_leaves_one_line_with_the_login(
    connection: psycopg.Connection, database: str, login: Login, run: int, what: str
) -> None:
    if "verification" in what or what.endswith("'s"):
        run_id = run
        queue.ask_verification(connection, run)
    else:
        run_id = submit_test_run(connection)
    with connect(database) as session, connect(login("dbanon_operator")) as operator:
        claim = claim_test_run(session, run_id) if "running" in what else None
        with collect_lines(connection) as added:
            queue.cancel_run(operator, run_id)
            if claim is not None:
                queue.cancel_run(operator, run_id)  # has no more to say
                queue.set_status(session, claim, "cancelled" if claim.todo == "compute" else None)
        assert added == [("cancel", run_id, operator.info.user)]
        asked = "SELECT cancel_requested_by FROM dbanon.run WHERE run_id = %s"
        assert read_value(connection, asked, run_id) == operator.info.user


def test_asking_for_a_verification_leaves_one_line_with_the_login(
    connection: psycopg.Connection, database: str, login: Login, run: int
) -> None:
    with connect(database) as session, connect(login("dbanon_operator")) as operator:
        for _ in range(2):  # the second after a cancelled one
            with collect_lines(connection) as added:
                queue.ask_verification(operator, run)
            assert added == [("reverify", run, operator.info.user)]
            claim = claim_test_run(session, run)
            queue.requeue_run(session, claim)
            queue.unlock(session, claim)
            queue.cancel_run(connection, run)


# ---- dbanon.anonymize ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "lonely"),
    [
        ("replace => true", "replace"),
        (
            "allow_overlap => true, reason => 'one team reads both'",
            "allow_overlap",
        ),
    ],
)
def test_how_to_publish_is_refused_without_a_name_to_publish_under(
    connection: psycopg.Connection, database: str, run: int, options: str, lonely: str
) -> None:
    with open_worker(connection, database) as session:
        queue.register_worker(session, "here 1")
        connection.execute("SET statement_timeout = '10s'")  # nobody will do the run
        with expect_refusal("DA011", lonely, "name of a release", "publish_as => "):
            connection.execute(f"CALL dbanon.anonymize('ten', 'tp-aware', {options})")
    assert read_value(connection, "SELECT count(*) FROM dbanon.run") == 1
