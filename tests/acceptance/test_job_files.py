"""Jobs that are kept in a file: of SQL for psql, or of TOML or JSON for ``dbanon job apply``."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dbanon.postgres import programs, server
from tests.acceptance.commands import Done, call, read_json
from tests.db.nights import make_source, run_night
from tests.facts import demand_named, demand_refused
from tests.hints import tries
from tests.reading import read_value

pytestmark = pytest.mark.db
SQL = """
SELECT dbanon.add_job('taxi', 'public.gps', load => '{"subject": "cab", "time_column": "ts", "x": "lon", "y": "lat"}',
    method => 'tp-aware', params => '{"k": 3, "step_s": 3600}', allow_no_requests => true,
    starts => '2008-06-01 00:00Z', every => '1 day', wait => '1 hour', replace => true);
"""
TOML = """
[taxi]
source = "public.gps"
subject = "cab"
time = "ts"
x = "lon"
y = "lat"
method = "tp-aware"
params = { k = 3, step_s = 3600 }
allow_no_requests = true
starts = 2008-06-01T00:00:00Z
every = "1 day"
wait = "1 hour"
"""
TABLE: dict[str, Any] = {
    "source": "public.gps",
    "subject": "cab",
    "time": "ts",
    "x": "lon",
    "y": "lat",
    "method": "tp-aware",
    "params": {"k": 3, "step_s": 3600},
    "allow_no_requests": True,
    "starts": "2008-06-01T00:00:00Z",
    "limits": {"requests_of_few_over_parts": 5},
    "further": [],
    "readers": ["dbanon_analyst"],
}
STATE = """
SELECT (SELECT jsonb_agg((to_jsonb(j), j.xmin::text)::text ORDER BY j.job_id) FROM dbanon.job j),
    (SELECT jsonb_agg(p ORDER BY p.job_id, p.period) FROM dbanon.job_period p),
    (SELECT jsonb_agg((s.name, s.state, s.next_at)::text ORDER BY s.name) FROM dbanon.jobs s),
    (SELECT count(*) FROM dbanon.audit)
"""


def read_job(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    return dict(read_value(connection, "SELECT to_jsonb(j) - '{looked_at,held_by}'::text[] FROM dbanon.job j"))


@pytest.fixture
def source(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as connection:
        make_source(connection)
        yield connection


@pytest.fixture
def nina(source: psycopg.Connection[Any], database: str, login: Callable[[str], str]) -> str:
    """URL of an operator, who owns the jobs."""
    return server.format_uri({**server.parse(login("dbanon_operator")), "dbname": server.parse(database)["dbname"]})


def run_psql(url: str, *arguments: str | Path) -> str:
    """Run psql on files; returns what the server said to it."""
    psql = programs.find_binaries().bindir / "psql"
    words = [psql, "--no-psqlrc", "-q", "-v", "ON_ERROR_STOP=1", *arguments, url]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture(params=["sql", "toml"])
def apply(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> Callable[[str, str], list[str]]:
    """``apply(old, new)`` applies the file with one text replaced by another; returns what became of its job."""
    text = SQL if request.param == "sql" else TOML

    def apply_file(old: str = "", new: str = "") -> list[str]:
        nonlocal text
        assert old in text
        text = text.replace(old, new) if old else text
        file = tmp_path / f"jobs.{request.param}"
        file.write_text(text)
        if request.param == "sql":
            said = run_psql(database, "-1", "-f", file)
            about = "NOTICE:  Job taxi is "
            return [line.partition(about)[2].rstrip(".") for line in said.splitlines() if about in line]
        return [line.partition(": ")[2] for line in call(database, "job", "apply", str(file)).stdout.splitlines()]

    return apply_file


def test_a_file_that_is_applied_twice_changes_nothing(
    source: psycopg.Connection[Any], apply: Callable[..., list[str]]
) -> None:
    assert apply() == ["added"]
    for night in ("no night", "done", "done"):
        assert night == "no night" or run_night(source) == night
        state = source.execute(STATE).fetchone()
        assert apply() == ["unchanged"]
        assert source.execute(STATE).fetchone() == state


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("1 hour", "2 hours", {"wait": "02:00:00"}),
        ("k = 3", "k = 4", {"params": {"k": 4, "step_s": 3600}}),
        ("1 day", "24 hours", {"every": "24:00:00"}),
    ],
)
def test_one_argument_that_changes_is_said_and_changes_alone(
    source: psycopg.Connection[Any],
    apply: Callable[..., list[str]],
    request: pytest.FixtureRequest,
    *,
    old: str,
    new: str,
    changed: dict[str, Any],
) -> None:
    if "sql" in request.node.callspec.id:
        old, new = (text.replace("k = ", '"k": ') for text in (old, new))
    apply()
    before, lines = read_job(source), read_value(source, "SELECT count(*) FROM dbanon.audit")
    assert apply(old, new) == [f"changed: {', '.join(changed)}"]
    after = read_job(source)
    assert {name: after[name] for name in after if after[name] != before[name]} == changed
    assert read_value(source, "SELECT count(*) FROM dbanon.audit") == lines + 1
    assert apply() == ["unchanged"]


def test_periods_are_kept_and_a_new_raster_follows_them_once(
    source: psycopg.Connection[Any], apply: Callable[..., list[str]]
) -> None:
    apply()
    assert run_night(source) == "done"
    assert apply("1 day", "12 hours") == ["changed: every, starts"]
    assert run_night(source) == "done"
    state = source.execute(STATE).fetchone()
    assert apply() == ["unchanged"]
    assert source.execute(STATE).fetchone() == state
    assert apply("2008-06-01", "2008-06-02") == ["unchanged"]  # that time has come already
    assert apply("2008-06-02", "2008-06-03") == ["changed: starts"]
    assert read_value(source, "SELECT array_agg(since::date ORDER BY since)::text FROM dbanon.job_runs") == (
        "{2008-06-01,2008-06-02}"
    )


def test_a_file_of_sql_is_tried_in_a_transaction(source: psycopg.Connection[Any], nina: str, tmp_path: Path) -> None:
    file = tmp_path / "jobs.sql"
    file.write_text(SQL)
    said = run_psql(nina, "-c", "BEGIN", "-f", file, "-c", "ROLLBACK")
    assert "Job taxi is added." in said
    assert read_value(source, "SELECT count(*) FROM dbanon.job") == 0


# ---- dbanon job apply


def write(folder: Path, tables: Any, name: str = "jobs.json") -> str:
    file = folder / name
    file.write_text(tables if isinstance(tables, str) else json.dumps(tables))
    return str(file)


def apply_json(url: str, *arguments: str) -> Done:
    return call(url, "--json", "job", "apply", *arguments)


def test_json_is_read_too_and_a_dry_run_says_the_same_and_changes_nothing(
    source: psycopg.Connection[Any], nina: str, tmp_path: Path
) -> None:
    file = write(tmp_path, {"taxi": TABLE, "bikes": {**TABLE, "dataset": "bikes"}})
    tried, done = (read_json(apply_json(nina, file, *words)) for words in (["--dry-run"], []))
    assert done["jobs"] == {"taxi": "added", "bikes": "added"}
    assert tried.pop("dry_run") is True
    assert tried == done
    state = source.execute(STATE).fetchone()
    file = write(tmp_path, {"bikes": {"wait": "3 hours", "at_least": 1, "params": {"k": 3}}})
    tried, done = (read_json(apply_json(nina, file, *words)) for words in (["--dry-run"], ["--dry-run"]))
    assert tried == done
    assert (done["jobs"], done["others"]) == ({"bikes": "changed: at_least, wait"}, ["taxi"])
    assert source.execute(STATE).fetchone() == state
    said = call(nina, "job", "apply", file).stdout.splitlines()
    assert said[0] == "bikes: changed: at_least, wait"
    demand_named(said[1], "taxi", "dbanon job remove")
    assert read_value(source, "SELECT count(*) FROM dbanon.jobs") == 2


@tries("Its arguments must be those of")
@pytest.mark.parametrize(
    ("wrong", "facts"),
    [
        ({"subjekt": "cab"}, ["subjekt", "dbanon job add"]),
        ({"load": {"subject": "cab"}}, ["load"]),
        ({"max_tries": "ten"}, ["max_tries", "str"]),
        ({"max_tries": 0}, ["max-tries"]),
        ({"params": "k=3"}, ["params", "str"]),
        ({"readers": "all"}, ["readers", "str"]),
        ({"source": "public.nowhere"}, ["source", "public.nowhere"]),
        ({"starts": "2008-06-01T00:00:00"}, ["zone"]),
        ({"every": "soon"}, ["interval"]),
        ({"every": "1 second"}, ["every", "1 minute"]),
        ({"method": "none"}, ["none"]),
        ({"on_held": "shrug"}, ["on-held", "go_on"]),
    ],
)
def test_what_is_wrong_in_a_file_is_one_sentence_and_no_job_of_it_is_added(
    source: psycopg.Connection[Any], nina: str, tmp_path: Path, wrong: dict[str, Any], facts: list[str]
) -> None:
    file = write(tmp_path, {"bikes": TABLE, "taxi": {**TABLE, **wrong}})
    for words in (["--dry-run"], []):
        demand_refused(call(nina, "job", "apply", file, *words), 2, "taxi", *facts)
    assert read_value(source, "SELECT count(*) FROM dbanon.job") == 0
    assert call(nina, "job", "apply", write(tmp_path, {"taxi": TABLE})).code == 0


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("[taxi\n", "jobs.toml"),
        ("wait = '1 hour'", "jobs.toml"),
        ("{", "jobs.json"),
        ("[]", "jobs.json"),
        ('{"taxi": []}', "jobs.json"),
        ("\udce4", "jobs.toml"),
        (None, "none.toml"),
    ],
)
def test_a_file_that_is_no_file_of_jobs_is_refused(nina: str, tmp_path: Path, text: str | None, name: str) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
    demand_refused(call(nina, "job", "apply", str(file)), 2, "TOML", file)
