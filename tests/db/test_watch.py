"""A long computation is interrupted when the run is cancelled or its lock is lost, and given up if it does not heed."""

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from dbanon.base.progress import Display, report_nothing
from dbanon.database import open_database
from dbanon.options.publishing import Submitting
from dbanon.postgres.connection import connect
from dbanon.runs import pipeline, queue, stored, watch
from dbanon.runs.watch import Watch
from tests.looks import count_looks, look_on
from tests.unit.test_progress import Terminal


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch, interruptible: None) -> None:
    """Look and lose patience soon."""
    monkeypatch.setattr(watch, "LOOK_S", 0.05)
    monkeypatch.setattr(watch, "PATIENCE_S", 0.2)


@pytest.fixture
def holder(database: str, run: int) -> Iterator[psycopg.Connection]:
    with connect(database) as opened:
        yield opened


@pytest.fixture
def claim(connection: psycopg.Connection, holder: psycopg.Connection) -> queue.Claim:
    queue.submit_run(connection, "tp-aware", Submitting(dataset="ten", params={"k": 5}, seed=1))
    taken = queue.claim_run(holder, "here")
    assert taken is not None
    return taken


def fail_if_computed() -> None:
    time.sleep(20)
    pytest.fail("the computation went on")


def test_a_lost_connection_interrupts_a_long_computation(
    connection: psycopg.Connection, holder: psycopg.Connection, claim: queue.Claim
) -> None:
    given_up: list[bool] = []
    watch = Watch(holder, claim, report_nothing, give_up=lambda: given_up.append(True))
    connection.execute("SELECT pg_terminate_backend(%s)", [holder.info.backend_pid])
    with pytest.raises(KeyboardInterrupt), watch:
        fail_if_computed()
    assert (watch.why, given_up) == ("lost", [])


def test_a_computation_that_does_not_heed_its_interruption_is_given_up(
    connection: psycopg.Connection, holder: psycopg.Connection, claim: queue.Claim
) -> None:
    heard: list[int] = []
    given_up = threading.Event()
    signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    with Watch(holder, claim, report_nothing, give_up=given_up.set) as watch:
        queue.cancel_run(connection, claim.run_id)
        given_up.wait(20)
        assert given_up.is_set()
    assert (watch.why, heard) == ("cancel", [signal.SIGINT])


def test_work_that_ends_in_time_is_not_given_up(
    connection: psycopg.Connection, holder: psycopg.Connection, claim: queue.Claim
) -> None:
    given_up = threading.Event()
    queue.cancel_run(connection, claim.run_id)
    watch = Watch(holder, claim, report_nothing, give_up=given_up.set)
    with pytest.raises(KeyboardInterrupt), watch:
        fail_if_computed()
    assert not watch._thread.is_alive()  # who could still give up
    assert not given_up.is_set()


def test_a_run_whose_verdict_has_just_been_recorded_is_not_taken_for_lost(
    database: str, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending, looks = pipeline._Run._make_result, count_looks(monkeypatch)

    def late(self: pipeline._Run, *verdict: Any, **known: Any) -> stored.RunResult:
        look_on(looks)
        return ending(self, *verdict, **known)

    monkeypatch.setattr(pipeline._Run, "_make_result", late)
    with open_database(database) as opened:
        done = opened.run("tp-aware", dataset="ten", params={"k": 5})
        assert done.status == "verified"
        assert opened.verify(done.run_id).status == "verified"


def test_a_bar_ends_with_what_is_taken_and_with_the_database(database: str, holder: psycopg.Connection) -> None:
    with open_database(database) as opened:
        bar = opened.progress = Display(Terminal())
        bar("waiting", 0, None)
        assert opened.run_next(holder, "worker") is None
        assert bar._bar is None
        bar("waiting", 0, None)
    assert bar._bar is None
