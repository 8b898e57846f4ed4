"""Two commands at once: both come to their end, or one is told in a sentence why it may not."""

import time
from pathlib import Path

import psycopg
import pytest

from tests import wholeness
from tests.acceptance.commands import STAGES, Done, Stage, call, hold_up, list_waiting, shift_rows, start, wait_for_end
from tests.facts import demand_refused

pytestmark = [pytest.mark.db, pytest.mark.stress]

LOAD = STAGES["a load with its rows staged"]
APPEND = Stage((*LOAD.arguments, "--append"), "dbanon.trajectory")
SITES = Stage(STAGES["a load storing sites"].arguments[:-1], "dbanon.site")  # without --replace


def run_at_once(url: str, stage: Stage, files: tuple[Path, Path], *second: str) -> list[Done]:
    """Hold a command up at a stage until the second waits too or has ended."""
    with hold_up(url, stage, files) as first, psycopg.connect(url, autocommit=True) as observer:
        other = start(url, *second)
        deadline = time.monotonic() + 60
        while len(list_waiting(observer)) < 2 and other.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    return [wait_for_end(first), wait_for_end(other)]


def test_of_two_loads_that_create_one_dataset_one_is_refused(city_url: str, city_files: tuple[Path, Path]) -> None:
    first, second = run_at_once(city_url, LOAD, city_files, *LOAD.words(city_files))
    assert first.code == 0
    demand_refused(second, 2, "'second'", "already")
    check(city_url, loads=3)


def test_two_loads_that_add_to_one_dataset_wait_for_each_other(city_url: str, city_files: tuple[Path, Path]) -> None:
    assert call(city_url, *LOAD.words(city_files)).code == 0
    soon, latest = ((shift_rows(city_files[0], hours), city_files[1]) for hours in (1, 2))
    first, second = run_at_once(city_url, APPEND, soon, *APPEND.words(latest))
    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    check(city_url, loads=5)


def test_of_two_loads_of_the_same_sites_the_second_finds_them_there(
    city_url: str, city_files: tuple[Path, Path]
) -> None:
    first, second = run_at_once(city_url, SITES, city_files, *SITES.words(city_files))
    assert (first.code, second.code) == (0, 3), first.stderr + second.stderr
    demand_refused(second, second.code, "10 duplicate-site")
    check(city_url, loads=3)


def test_two_runs_on_one_dataset_do_not_disturb_each_other(city_url: str, city_files: tuple[Path, Path]) -> None:
    run = STAGES["a run writing cloaks"]
    named = run.words(city_files)[:-1]
    first, second = run_at_once(city_url, run, city_files, *named, "by_other")
    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    check(city_url, runs=3)


def test_of_two_runs_that_publish_under_one_name_one_stays_verified(
    city_url: str, city_files: tuple[Path, Path]
) -> None:
    run = STAGES["a run publishing"]
    first, second = run_at_once(city_url, run, city_files, *run.words(city_files))
    assert (first.code, second.code) == (0, 2), first.stderr + second.stderr
    demand_refused(second, 2, "'by_run'", "already", "dbanon publish 3 NAME")
    check(city_url, runs=3)


def test_a_load_into_the_dataset_of_a_run_has_the_run_refused(city_url: str, city_files: tuple[Path, Path]) -> None:
    run = STAGES["a run writing members"]
    more = city_files[1].with_name("requests_more.csv")  # within the time of the run
    more.write_text(city_files[1].read_text().replace("Z,", "Z,another "))
    load = ("load", "requests", str(more), "--dataset", "city", "--columns", "poi")
    first, second = run_at_once(city_url, run, city_files, *load)
    assert (first.code, second.code) == (5, 0), first.stderr + second.stderr
    assert call(city_url, "publish", "2", "stale").code == 5
    check(city_url, loads=3)


def check(url: str, *, loads: int | None = None, runs: int | None = None) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        wholeness.wait_until_alone(connection)
        assert wholeness.find_broken(connection) == []
        counted = connection.execute(
            "SELECT (SELECT count(*) FROM dbanon.load), (SELECT count(*) FROM dbanon.run WHERE status = 'verified')"
        ).fetchone()
    assert counted is not None
    assert loads in (None, counted[0])
    assert runs in (None, counted[1])
