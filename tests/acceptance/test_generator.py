"""``dbanon synth`` as a user calls it: into a dataset and into files, and what it says when it cannot."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests import here
from tests.acceptance.commands import Done, call
from tests.facts import demand_refused

pytestmark = pytest.mark.db
Run = Callable[..., Done]


@pytest.fixture
def dbanon(database: str) -> Run:
    return partial(call, database)


@pytest.mark.stress
def test_a_generated_dataset_is_told_as_a_table_and_as_json(dbanon: Run) -> None:
    told = dbanon("synth", "--dataset", "town", "--objects", "60", "--seed", "5")
    assert told.code == 0, told.stderr
    assert "generated on city into dataset town" in told.stdout
    assert "trajectories" in told.stdout
    assert "generating trajectories" in told.stderr
    more = dbanon("synth", "--dataset", "town", "--objects", "40", "--append", "--json")
    assert more.code == 0, more.stderr
    value = json.loads(more.stdout)
    assert (value["dataset"], value["trajectories"], value["srid"], value["left_out"]) == ("town", 40, 32632, 0)
    ran = dbanon("run", "tp-aware", "--dataset", "town", "-p", "k=5", "--json")
    assert ran.code == 0, ran.stderr


def test_places_are_counted_and_their_files_can_be_loaded_as_the_guide_says(dbanon: Run, tmp_path: Path) -> None:
    options = ("--objects", "30", "--pois", "400", "--stations", "30")
    told = dbanon("synth", "--dataset", "town", *options)
    assert told.code == 0, told.stderr
    assert re.search(r"points of interest +400\n", told.stdout)
    assert re.search(r"base stations +30\n", told.stdout)
    city = tmp_path / "city"
    made = dbanon("synth", "--csv", str(city), *options, "--seed", "2", "--json")
    value = json.loads(made.stdout)
    assert (value["pois"], value["stations"], len(value["files"])) == (400, 30, 4)
    files = [str(city / f"{kind}.csv") for kind in ("trajectories", "pois", "stations")]
    for kind, file, *columns in (
        ("trajectories", files[0], "--x", "lon", "--y", "lat"),
        ("pois", files[1], "--category", "category"),
        ("stations", files[2]),
    ):
        loaded = dbanon("load", kind, file, "--dataset", "c", *columns, "--json")
        assert loaded.code == 0, loaded.stderr
        told_of = json.loads(loaded.stdout)
        assert told_of["kept"] == value["fixes" if kind == "trajectories" else kind]
        assert told_of["quarantined"] == {}


@pytest.mark.stress
def test_generated_files_can_be_loaded_as_the_readme_says(dbanon: Run, tmp_path: Path) -> None:
    made = dbanon("synth", "--csv", str(tmp_path / "city"), "--objects", "30", "--json")
    assert made.code == 0, made.stderr
    value = json.loads(made.stdout)
    trajectories, requests = value["files"]
    loaded = dbanon("load", "trajectories", trajectories, "--dataset", "c", "--x", "lon", "--y", "lat", "--json")
    assert json.loads(loaded.stdout)["kept"] == value["fixes"]
    loaded = dbanon("load", "requests", requests, "--dataset", "c", "--columns", "poi", "--json")
    assert json.loads(loaded.stdout)["kept"] == value["requests"]


def test_the_guide_names_only_options_that_are_there(dbanon: Run) -> None:
    page = (Path(__file__).parents[2] / "docs" / "administrators" / "generate.md").read_text()
    named = set(re.findall(r"--[a-z][a-z-]+", page)) - {"--publish", "--area", "--category", "--allow-no-requests"}
    there = set(re.findall(r"--[a-z][a-z-]+", dbanon("synth", "--help").stdout)) - {
        "--dsn",
        "--json",
        "--debug",
        "--help",
    }
    assert named <= there


@pytest.mark.many
@pytest.mark.parametrize(
    ("arguments", "code", "facts"),
    [
        ((), 2, ("--dataset NAME", "--csv DIR", "neither")),
        (("--dataset", "d", "--csv", "d"), 2, ("--dataset NAME", "--csv DIR", "both")),
        (("--dataset", "d", "--append", "--replace"), 2, ("--append", "--replace", "Choose one")),
        (("--csv", "d", "--append"), 2, ("--append", "--csv", "datasets")),
        (("--dataset", "d", "--objects", "many"), 2, ("--objects", "integer")),
        (("--dataset", "d", "--objects", "0"), 2, ("--objects", 1, 0)),
        (("--dataset", "d", "--start", "noon"), 2, ("start", "'noon'")),
        (("--dataset", "d", "--nodes", "n.csv"), 2, ("--nodes", "--edges")),
        (("--dataset", "d", "--nodes", "n.csv", "--edges", "e.csv"), 3, ("n.csv", "exist")),
        (("--dataset", "d", "--append"), 2, ("'d'",)),
    ],
)
def test_what_cannot_be_generated_is_one_sentence_with_its_exit_code(
    database: str, arguments: tuple[str, ...], code: int, facts: tuple[object, ...]
) -> None:
    done = call(database, "synth", *arguments)
    demand_refused(done, code, *facts)
    assert done.stdout == ""


@pytest.mark.stress
def test_killed_half_way_there_is_nothing(database: str) -> None:
    command = [sys.executable, "-m", "dbanon", "--dsn", database, "synth", "--dataset", "d", "--objects", "1000000"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        size = "SELECT pg_relation_size('dbanon.trajectory')"
        with psycopg.connect(database, autocommit=True) as connection:
            deadline = time.monotonic() + 120
            while not connection.execute(size).fetchone()[0] and time.monotonic() < deadline:
                time.sleep(0.05)
            os.kill(process.pid, signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
            # The server notices a while after the client is gone.
            busy = (
                "SELECT count(*) FROM pg_locks WHERE relation = 'dbanon.trajectory'::regclass"
                f" AND pid <> pg_backend_pid() AND {here.LOCKS}"
            )
            while connection.execute(busy).fetchone()[0] and time.monotonic() < deadline:
                time.sleep(0.05)
            for table in ("dataset", "trajectory", "request", "load"):
                assert connection.execute(f"SELECT count(*) FROM dbanon.{table}").fetchone()[0] == 0
