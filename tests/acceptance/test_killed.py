"""Killed at any stage, a command leaves what it worked on whole or not at all, and the next command works.

``benchmarks/kill.py`` does the same at random moments, and kills the server too.
"""

import time
from pathlib import Path

import psycopg
import pytest

from tests import wholeness
from tests.acceptance.commands import STAGES, call, hold_up, list_waiting
from tests.facts import demand_named

pytestmark = [pytest.mark.db, pytest.mark.stress]


@pytest.fixture
def released_city(city_url: str) -> str:
    """URL of a database with a loaded city, and its verified run released as city_k5."""
    assert call(city_url, "publish", "1", "city_k5").code == 0
    return city_url


@pytest.mark.parametrize("stage", STAGES)
def test_a_killed_command_leaves_nothing_or_all(released_city: str, city_files: tuple[Path, Path], stage: str) -> None:
    with hold_up(released_city, STAGES[stage], city_files) as process:
        process.kill()
        process.communicate()
    with psycopg.connect(released_city, autocommit=True) as connection:
        wholeness.wait_until_alone(connection)
        assert call(released_city, "runs").code == 0  # the next command fails the run that died
        assert wholeness.find_broken(connection) == []
        again = call(released_city, *STAGES[stage].words(city_files))
        assert again.code in STAGES[stage].again, again.stderr
        assert wholeness.find_broken(connection) == []


def test_a_killed_run_is_failed_by_the_next_command_and_says_why(
    released_city: str, city_files: tuple[Path, Path]
) -> None:
    with hold_up(released_city, STAGES["a run attacking"], city_files) as process:
        process.kill()
        process.communicate()
    with psycopg.connect(released_city, autocommit=True) as connection:
        wholeness.wait_until_alone(connection)
        assert wholeness.find_broken(connection) != []  # computed, with rows, and without anybody to go on
        listed = call(released_city, "runs")
        demand_named(listed.stdout, "process", "start another run")
        assert wholeness.find_broken(connection) == []


def test_the_server_gives_up_the_statement_of_a_killed_command_by_itself(
    released_city: str, city_files: tuple[Path, Path]
) -> None:
    with hold_up(released_city, STAGES["a load making trajectories"], city_files) as process:
        process.kill()
        process.communicate()
        with psycopg.connect(released_city, autocommit=True) as observer:
            deadline = time.monotonic() + 30
            while list_waiting(observer):
                assert time.monotonic() < deadline
                time.sleep(0.05)
