"""Calls in threads that nobody has to wait for."""

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from dbanon.base.background import run_in_background
from dbanon.synth import _compute_ahead as make_ahead


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    """An event that nobody sets before the test is over."""
    event = threading.Event()
    yield event
    event.set()


def test_the_result_of_a_call_is_waited_for() -> None:
    assert run_in_background(divmod, 7, 2).result() == (3, 1)


def test_an_exception_is_raised_where_the_result_is_waited_for() -> None:
    coming = run_in_background(divmod, 7, 0)
    with pytest.raises(ZeroDivisionError):
        coming.result()


def test_a_program_ends_without_its_calls() -> None:
    program = "import time; from dbanon.base.background import run_in_background; run_in_background(time.sleep, 600)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_making_ahead_gives_all_results_in_order() -> None:
    assert list(make_ahead(lambda i=i: i for i in range(5))) == [0, 1, 2, 3, 4]
    assert list(make_ahead([])) == []


def test_making_ahead_is_left_without_waiting(stuck: threading.Event) -> None:
    made = make_ahead([lambda: True, stuck.wait])
    assert next(made)
    made.close()
    assert not stuck.is_set()
