"""How a run may end: by the right logins, refused in its middle, published or not, interrupted."""

import dataclasses
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

from dbanon import attacks, methods, releases
from dbanon.attacks import tp_aware
from dbanon.base.errors import DataError, ParameterError, StoreError, VerificationFailed
from dbanon.database import Database, open_database
from dbanon.postgres import server
from dbanon.postgres.connection import connect_to_hold
from dbanon.runs import queue, reading, stored, writing
from tests.facts import demand_named, expect_refusal
from tests.hints import tries

from .commands import call
from .workers import wait_until

pytestmark = pytest.mark.db


def read_ending(database: Database) -> tuple[str, int, int]:
    """Status of the last run, and how many cloaks and members it has."""
    query = """SELECT r.status, (SELECT count(*) FROM dbanon.cloak c WHERE c.run_id = r.run_id),
        (SELECT count(*) FROM dbanon.membership m WHERE m.run_id = r.run_id)
        FROM dbanon.run r ORDER BY r.run_id DESC LIMIT 1"""
    return database.connection.execute(query).fetchone()


@pytest.fixture
def worker_url(city_url: str, database: str, login: Callable[[str], str]) -> str:
    """URL of a login that is a worker and nothing else, on the database of the city."""
    made = server.parse(login("dbanon_worker"))
    return server.format_uri({**made, "dbname": server.parse(city_url)["dbname"]})


def test_a_worker_without_other_rights_runs_and_verifies_and_may_not_publish(worker_url: str) -> None:
    with open_database(worker_url) as worker:
        run = worker.run("tp-aware", dataset="city", params={"k": 7})
        assert run.status == "verified"
        assert worker.verify(run.run_id).status == "verified"
        with pytest.raises(StoreError, match="rights"):
            worker.publish(run.run_id, "by_a_worker")


def test_a_login_that_is_worker_and_operator_runs_and_publishes_at_once(worker_url: str, city_url: str) -> None:
    with psycopg.connect(city_url, autocommit=True) as owner:
        user = sql.Identifier(server.parse(worker_url)["user"])
        owner.execute(sql.SQL("GRANT dbanon_operator TO {}").format(user))
    with open_database(worker_url) as both:
        assert both.run("tp-aware", dataset="city", publish="by_both").rows_published > 0


@pytest.mark.stress
@pytest.mark.parametrize(
    ("place", "step"),
    [
        (writing, "write_cloaks"),
        (reading.Reader, "read_inputs"),
        (reading.Reader, "read_evidence"),
    ],
)
def test_a_worker_may_be_idle_in_a_transaction_longer_than_its_login(
    worker_url: str, city_url: str, monkeypatch: pytest.MonkeyPatch, place: Any, step: str
) -> None:
    """Its connections are, while it makes sense of what it read and gets ready what it writes."""
    with psycopg.connect(city_url, autocommit=True) as owner:
        user = sql.Identifier(server.parse(worker_url)["user"])
        owner.execute(sql.SQL("ALTER ROLE {} SET idle_in_transaction_session_timeout = '200ms'").format(user))
    do = getattr(place, step)

    def slowly(*arguments: Any, **words: Any) -> Any:
        time.sleep(0.6)
        return do(*arguments, **words)

    monkeypatch.setattr(place, step, slowly)
    with open_database(worker_url) as worker:
        assert worker.run("tp-aware", dataset="city", params={"k": 7}).status == "verified"


def test_a_run_that_cannot_be_published_stays_verified(
    verified_city: tuple[Database, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, _ = verified_city
    monkeypatch.setattr(releases, "demand_publishable", lambda *_, **__: None)  # taken meanwhile
    database.publish(1, "taken")
    with expect_refusal(ParameterError, "free", "already"):
        database.run("tp-aware", dataset="city", publish="taken")
    assert read_ending(database)[0] == "verified"


def test_a_dataset_that_changes_during_a_run_fails_the_run_and_leaves_no_rows(
    verified_city: tuple[Database, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, _ = verified_city
    read = reading.Reader.read_trajectories

    def read_and_change(reader: reading.Reader, *given: int, **options: bool) -> object:
        data = read(reader, *given, **options)
        database.connection.execute("DELETE FROM dbanon.request WHERE request_id = 1")
        return data

    monkeypatch.setattr(reading.Reader, "read_trajectories", read_and_change)
    with expect_refusal(StoreError, "dataset", "run it again"):
        database.run("tp-aware", dataset="city")
    assert read_ending(database) == ("failed", 0, 0)


@pytest.mark.parametrize(("thrown", "status"), [(KeyboardInterrupt, "cancelled"), (StoreError, "failed")])
def test_a_run_that_ends_in_its_verification_leaves_no_rows(
    verified_city: tuple[Database, int],
    monkeypatch: pytest.MonkeyPatch,
    thrown: type[BaseException],
    status: str,
) -> None:
    database, _ = verified_city

    def gone(*_: object) -> object:
        raise thrown("gone")

    monkeypatch.setattr(reading.Reader, "read_evidence", gone)
    with pytest.raises(thrown):
        database.run("tp-aware", dataset="city")
    assert read_ending(database) == (status, 0, 0)
    with expect_refusal(ParameterError, "run 2", "computed", status):
        database.verify(2)


def test_a_run_interrupted_while_its_method_gets_ready_does_not_wait_for_that(
    verified_city: tuple[Database, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, _ = verified_city
    asked, stuck = threading.Event(), threading.Event()

    def prepare(*_: object) -> None:
        asked.set()
        stuck.wait(120)
        stuck.set()

    def interrupt(*_: object) -> None:
        asked.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr(methods.Method, "prepare", prepare)
    monkeypatch.setattr(reading.Reader, "read_inputs", interrupt)
    with pytest.raises(KeyboardInterrupt):
        database.run("tp-aware", dataset="city")
    waited = stuck.is_set()
    stuck.set()
    assert not waited
    assert read_ending(database) == ("cancelled", 0, 0)


def test_a_run_interrupted_again_while_it_is_cancelled_is_cancelled(
    verified_city: tuple[Database, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, _ = verified_city
    delete, told = stored.delete_rows, []

    def interrupted_once(connection: psycopg.Connection, run_id: int) -> None:
        told.append(run_id)
        if len(told) == 1:
            raise KeyboardInterrupt
        delete(connection, run_id)

    def cancelled(*_: object) -> object:
        raise psycopg.errors.QueryCanceled

    monkeypatch.setattr(stored, "delete_rows", interrupted_once)
    monkeypatch.setattr(reading.Reader, "read_evidence", cancelled)
    with pytest.raises(KeyboardInterrupt):
        database.run("tp-aware", dataset="city")
    assert read_ending(database) == ("cancelled", 0, 0)


def test_an_attack_that_breaks_down_is_a_refusal(
    verified_city: tuple[Database, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(evidence: attacks.Evidence) -> attacks.Verdict:
        raise ZeroDivisionError

    database, run_id = verified_city
    monkeypatch.setattr(tp_aware, "attack", breaks)
    result = database.verify(run_id)
    assert result.status == "refused"
    assert [c.name for c in result.verdict.clauses] == ["decidable"]
    with pytest.raises(VerificationFailed):
        database.publish(run_id, "undecided")


def test_an_attack_that_cannot_decide_says_why(
    verified_city: tuple[Database, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*_: object) -> attacks.Evidence:
        raise DataError("Every path must be a line of 3 fixes. Got 2.")

    database, run_id = verified_city
    monkeypatch.setattr(tp_aware, "read", cannot)
    clauses = database.verify(run_id).verdict.clauses
    assert [(c.name, c.passed, c.sentence) for c in clauses] == [
        ("decidable", False, "Every path must be a line of 3 fixes. Got 2.")
    ]


BROKEN = attacks.Clause(name="crowd", passed=False, violations=2, sentence="Two are too few.")
HELD = attacks.Clause(name="crowd", passed=True, violations=0, sentence="None is too few.")
UNSOUND: dict[str, attacks.Verdict | None] = {
    "without clauses": attacks.Verdict(attack="tp-aware", passed=True, figures={}, clauses=()),
    "against its clauses": attacks.Verdict(attack="tp-aware", passed=True, figures={}, clauses=(HELD, BROKEN)),
    "of a clause against its count": attacks.Verdict(
        attack="tp-aware", passed=True, figures={}, clauses=(dataclasses.replace(BROKEN, passed=True),)
    ),
    "of another attack": attacks.Verdict(attack="sensitive-sites", passed=True, figures={}, clauses=(HELD,)),
    "that cannot be stored": attacks.Verdict(
        attack="tp-aware", passed=True, figures={"mean": float("nan")}, clauses=(HELD,)
    ),
    "that is none": None,
}


@pytest.mark.many
@pytest.mark.parametrize("verdict", UNSOUND.values(), ids=UNSOUND)
def test_a_verdict_that_does_not_follow_from_clauses_is_a_refusal(
    verified_city: tuple[Database, int], monkeypatch: pytest.MonkeyPatch, verdict: attacks.Verdict | None
) -> None:
    database, run_id = verified_city
    monkeypatch.setattr(tp_aware, "attack", lambda _: verdict)
    result = database.verify(run_id)
    assert result.status == "refused"
    assert [(c.name, c.passed) for c in result.verdict.clauses] == [("decidable", False)]
    with pytest.raises(VerificationFailed):
        database.publish(run_id, "unsound")


def test_a_verdict_is_about_the_rows_as_they_were_before_the_attack(
    verified_city: tuple[Database, int], city_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, run_id = verified_city
    attack = tp_aware.attack

    def attack_while_somebody_writes(evidence: attacks.Evidence) -> attacks.Verdict:
        with psycopg.connect(city_url) as other:
            other.execute("UPDATE dbanon.cloak SET crowd = crowd + 1 WHERE (record_id, seq) = (1, 1)")
        return attack(evidence)

    monkeypatch.setattr(tp_aware, "attack", attack_while_somebody_writes)
    assert database.verify(run_id).status == "verified"
    with expect_refusal(VerificationFailed, f"run {run_id}", "changed") as caught:
        database.publish(run_id, "changed")
    assert isinstance(caught.value.__cause__, psycopg.Error)
    assert caught.value.__cause__.sqlstate == "DA005"


def test_a_verdict_is_not_stored_without_the_status(
    verified_city: tuple[Database, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, run_id = verified_city
    set_status = queue.set_status

    def fails_at_the_end(connection: psycopg.Connection, claim: queue.Claim, status: str | None, **told: Any) -> None:
        if status == "verified":
            raise StoreError("gone")
        set_status(connection, claim, status, **told)

    monkeypatch.setattr(queue, "set_status", fails_at_the_end)
    with pytest.raises(StoreError, match="gone"):
        database.verify(run_id)
    with pytest.raises(StoreError, match="gone"):
        database.run("tp-aware", dataset="city")
    verdicts = database.connection.execute("SELECT run_id, count(*) FROM dbanon.verification GROUP BY run_id")
    assert verdicts.fetchall() == [(run_id, 1)]
    assert read_ending(database) == ("failed", 0, 0)


@pytest.mark.usefixtures("interruptible")
def test_over_a_run_whose_lock_was_lost_nothing_is_written(
    verified_city: tuple[Database, int], city_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, _ = verified_city
    told = "SELECT status, todo, worker, attempts, error, finished_at FROM dbanon.run WHERE run_id = 2"
    before: list[tuple[object, ...] | None] = []

    with connect_to_hold(city_url) as holder:

        def attack(evidence: attacks.Evidence) -> attacks.Verdict:
            before.append(database.connection.execute(told).fetchone())
            database.connection.execute("SELECT pg_terminate_backend(%s)", [holder.info.backend_pid])
            time.sleep(30)
            raise AssertionError("the attack was not interrupted")

        monkeypatch.setattr(tp_aware, "attack", attack)
        database.submit("tp-aware", dataset="city")
        with pytest.raises((StoreError, KeyboardInterrupt)) as caught:
            database.run_next(holder, "here", stopping=threading.Event())
    demand_named(str(caught.value), "connection", "lost")
    assert before == [("computed", "compute", "here", 1, None, None)]
    assert database.connection.execute(told).fetchone() == before[0]
    wait_until(lambda: queue.reap_runs(database.connection) == 1)
    assert read_ending(database) == ("queued", 0, 0)


@tries("Run {} is verified: `dbanon publish {} NAME`")
def test_an_overlap_is_refused_by_a_run_too_and_allowed_for_a_reason(city_url: str) -> None:
    assert call(city_url, "publish", "1", "first").code == 0
    again = ("run", "tp-aware", "--dataset", "city", "-p", "k=20", "--publish", "first", "--replace")
    refused = call(city_url, *again)
    assert refused.code == 5
    demand_named(refused.sentence, "of 20", "run 2", "first", "dbanon publish 2 NAME")
    [publish] = re.findall(r"`dbanon (publish \d+) NAME`", refused.sentence)
    why = ("--allow-overlap", "--reason", "one team reads both")
    allowed = call(city_url, *publish.split(), "first", "--replace", *why)
    assert allowed.code == 0
    demand_named(allowed.stderr, "overridden", "first", 20)
    with psycopg.connect(city_url) as connection:
        rows = connection.execute("SELECT run_id, overlap_reason FROM dbanon.release ORDER BY release_id").fetchall()
    assert rows == [(1, None), (2, "one team reads both")]


@pytest.mark.many
@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"replace": True}, ("name", "--publish")),
        ({"reason": "one team reads both"}, ("name", "--publish")),
        ({"publish": "x", "allow_overlap": True}, ("reason", "three words", "0 words")),
        ({"publish": "x", "reason": "one team reads both"}, ("reason", "allow_overlap")),
    ],
)
def test_what_publishing_needs_is_asked_for_before_anything_is_computed(
    verified_city: tuple[Database, int], options: dict[str, Any], facts: tuple[str, ...]
) -> None:
    database, run_id = verified_city
    with expect_refusal(ParameterError, *facts):
        database.run("tp-aware", dataset="city", **options)
    assert [row["run_id"] for row in database.runs()] == [run_id]
