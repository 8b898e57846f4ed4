"""The command line of a user: the whole way, exit codes, one sentence on stderr, one JSON object on stdout."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from typer.main import get_command

from dbanon.cli._shared import app
from dbanon.postgres.server import Target
from tests.acceptance.commands import call, demand_done
from tests.facts import demand_named, demand_refused

pytestmark = pytest.mark.db
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def dbanon(database: str) -> Run:
    def call(*arguments: str, dsn: str = database) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "dbanon", "--dsn", dsn, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    return call


@pytest.mark.stress
def test_the_whole_way_from_files_to_rows_an_analyst_reads(
    dbanon: Run, city_files: tuple[Path, Path], login: Callable[[str], str]
) -> None:
    trajectories, requests = map(str, city_files)
    loaded = dbanon("load", "trajectories", trajectories, "--dataset", "city", "--x", "lon", "--y", "lat", "--json")
    assert loaded.returncode == 0, loaded.stderr
    assert json.loads(loaded.stdout)["kept"] > 0
    assert dbanon("load", "requests", requests, "--dataset", "city", "--columns", "poi").returncode == 0

    ran = dbanon("run", "tp-aware", "--dataset", "city", "-p", "k=5", "--seed", "3", "--publish", "city_k5", "--json")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert {"run_id", "method", "algorithm", "status", "metrics", "timings", "suppressed", "peak_rss_mb"} <= set(told)
    assert told["verification"]["passed"] is True
    assert set(told["timings"]) == {"load_s", "compile_s", "compute_s", "write_s", "verify_s", "total_s"}

    with psycopg.connect(login("dbanon_analyst")) as analyst:
        cursor = analyst.execute("SELECT * FROM published.city_k5 ORDER BY cloak_id")
        assert [c.name for c in cursor.description] == [
            *("cloak_id", "record_id", "seq", "region", "crowd", "subjects"),
            *("valid_from", "valid_to", "requests"),
        ]
        assert len(cursor.fetchall()) == told["rows_published"]

    again = dbanon("verify", str(told["run_id"]))
    assert again.returncode == 0, again.stderr
    assert dbanon("unpublish", "city_k5").returncode == 0
    assert dbanon("publish", str(told["run_id"]), "city_again").returncode == 0
    listed = json.loads(dbanon("runs", "--json").stdout)
    assert [run["status"] for run in listed["runs"]] == ["verified"]


@pytest.mark.stress
def test_with_min_contents_every_set_an_analyst_reads_has_so_many_contents_or_none(
    database: str, city_files: tuple[Path, Path], login: Callable[[str], str]
) -> None:
    trajectories, requests = map(str, city_files)
    columns = ("--x", "lon", "--y", "lat")
    assert call(database, "load", "trajectories", trajectories, "--dataset", "city", *columns).code == 0
    assert call(database, "load", "requests", requests, "--dataset", "city", "--columns", "poi").code == 0
    words = ("-p", "k=5", "-p", "min_contents=3", "-p", "instants=10", "--publish", "city_c3", "--json")
    ran = demand_done(call(database, "run", "tp-aware", "--dataset", "city", *words))
    told = json.loads(ran.stdout)
    unsent = told["suppressed"]["requests"]
    assert unsent["bundle_below_min_contents"] > 0
    assert told["metrics"]["requests_published"] + sum(unsent.values()) == told["metrics"]["requests_total"]
    with psycopg.connect(login("dbanon_analyst")) as analyst:
        sizes, longest = analyst.execute(
            "SELECT array_agg(DISTINCT n ORDER BY n), max(valid_to - valid_from) "
            "FROM published.city_c3, LATERAL (SELECT jsonb_array_length(requests) AS n) s"
        ).fetchone()
        assert sizes[:2] == [0, 3]
        assert longest.total_seconds() > 60
        gaps = analyst.execute(
            "SELECT count(*) FROM (SELECT valid_from - lag(valid_to) OVER (PARTITION BY record_id ORDER BY seq) AS gap "
            "FROM published.city_c3) g WHERE gap <> '0'"
        ).fetchone()
        assert gaps == (0,)
    card = call(database, "card", "city_c3")
    assert card.code == 0
    demand_named(card.stdout, "bundle_below_min_contents")
    assert call(database, "verify", str(told["run_id"])).code == 0


def test_an_error_leaves_a_process_with_its_exit_code_and_one_sentence(dbanon: Run) -> None:
    done = dbanon("run", "tp-aware", "--dataset", "x", "-p", "k=1")
    assert done.returncode == 2
    assert done.stdout == ""
    assert len([line for line in done.stderr.splitlines() if line.startswith("dbanon: ")]) == 1
    demand_named(done.stderr, "'k'", ">= 2", 1)


def test_fewer_than_k_subjects_is_infeasible_and_says_how_many_there_are(database: str, tmp_path: Path) -> None:
    few = tmp_path / "few.csv"
    few.write_text(
        "subject,time,x,y\n" + "".join(f"s{i},{1_767_571_200 + 60 * t},8.2,53.1\n" for i in range(3) for t in range(3))
    )
    assert call(database, "load", "trajectories", str(few), "--dataset", "few").code == 0
    done = call(database, "run", "tp-aware", "--dataset", "few", "-p", "k=5")
    assert done.code == 4, done.stderr
    assert "3" in done.stderr
    assert "s1" not in done.stderr
    status = json.loads(call(database, "runs", "--json").stdout)["runs"][0]
    assert status["status"] == "failed"
    assert status["error"] in done.stderr


@pytest.mark.stress
def test_a_refused_run_ends_with_5_and_is_not_published(dbanon: Run, city_url: str) -> None:
    with psycopg.connect(city_url, autocommit=True) as connection:
        connection.execute("DELETE FROM dbanon.membership WHERE record_id = 1")
    done = dbanon("verify", "1", dsn=city_url)
    assert done.returncode == 5, done.stderr
    assert "crowd" in done.stderr
    assert dbanon("publish", "1", "refused", dsn=city_url).returncode == 5


@pytest.mark.parametrize("number", ["0", "x", str(2**63)])
def test_the_number_of_a_run_is_described_to_people(number: str) -> None:
    done = call("", "verify", number)
    assert done.code == 2
    demand_named(done.stderr, "number of a run", "`dbanon runs`")
    help_of = call("", "verify", "--help").stdout
    assert not re.search(r"range|<=|\d{5}", help_of), help_of


def test_a_schema_that_is_missing_says_what_to_run(dbanon_server: Target) -> None:
    demand_refused(call(str(dbanon_server.url), "runs"), 1, "dbanon db upgrade")


def test_an_unreachable_server_is_one_sentence(tmp_path: Path) -> None:
    demand_refused(call(f"postgresql:///nothing?host={tmp_path}", "runs"), 1, "server")


def test_help_names_every_command_in_its_section() -> None:
    done = demand_done(call("", "--help"))
    parts = dict(part.split(":\n", 1) for part in done.stdout.split("\n\n") if ":\n" in part)
    sections = {title: [line.split()[0] for line in text.splitlines()] for title, text in parts.items()}
    assert list(sections) == ["Options", "Data", "Runs", "Releases", "Every night", "Server"]
    del sections["Options"]
    listed = [name for names in sections.values() for name in names]
    assert sorted(listed) == sorted(name for name, command in get_command(app).commands.items() if not command.hidden)
