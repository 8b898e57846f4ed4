"""The commands about jobs, and the verbs of Python that they call."""

import re
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from dbanon.base.errors import ParameterError
from dbanon.database import open_database
from dbanon.postgres.server import parse
from tests.acceptance.commands import call, read_json
from tests.acceptance.workers import keep_up
from tests.db.conftest import RUN, VERIFY
from tests.db.nights import compute, make_source
from tests.db.parts import run_of
from tests.facts import demand_refused
from tests.hints import tries

pytestmark = pytest.mark.db
ADD = (
    "job add taxi --source public.gps --method tp-aware --subject cab --time ts --x lon --y lat -p k=3 "
    "--starts 2008-06-01T00:00:00Z"
)
FIRST = "2008-06-01T00:00Z"


@pytest.fixture
def gps(database: str) -> str:
    """URL of a database with a source of three days."""
    with psycopg.connect(database, autocommit=True) as connection:
        make_source(connection)
    return database


def test_a_job_is_added_planned_run_and_listed(gps: str) -> None:
    assert read_json(call(gps, "--json", *ADD.split()))["name"] == "taxi"
    plan = read_json(call(gps, "--json", "job", "plan", "taxi", "--periods", "2"))["periods"]
    assert [row["at_source"] for row in plan] == [144, 144]  # type: ignore[attr-defined]
    assert read_json(call(gps, "--json", "job", "run", "--no-wait"))["advanced"] == 2
    [period] = read_json(call(gps, "--json", "job", "list", "taxi"))["periods"]  # type: ignore[misc]
    assert period["state"] == "compute"
    [job] = read_json(call(gps, "--json", "job", "list"))["jobs"]  # type: ignore[misc]
    assert (job["name"], job["method"], job["held"]) == ("taxi", "tp-aware", 0)


def test_a_job_is_paused_resumed_decided_about_and_removed(gps: str) -> None:
    call(gps, *ADD.split())
    for words in (
        ("pause", "taxi"),
        ("resume", "taxi"),
        ("skip", "taxi", FIRST, "--reason", "the receivers were broken"),
        ("retry", "taxi", FIRST),
        ("remove", "taxi"),
    ):
        done = call(gps, "--json", "job", *words)
        assert read_json(done)["changed"] == 1, words


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        ([*ADD.split(), "--every", "soon"], ["interval"]),
        ([*ADD.split(), "--every", "0"], ["every"]),
        ([*ADD.split(), "--tz", "Mars/Olympus"], ["zone"]),
        ([*ADD.split(), "--further", "{"], ["JSON"]),
        ([*ADD.split(), "--limit", "seen=few"], ["number"]),
        ([*ADD.split(), "--max-tries", "0"], ["max-tries"]),
        ([*ADD.split(), "--on-held", "shrug"], ["on-held", "go_on"]),
        (["job", "add", "taxi", "--replace", "--wait", "2 hours"], ["source"]),
        ([word.replace("public.gps", "nowhere") for word in ADD.split()], ["nowhere", "source"]),
        (["job", "skip", "none", "--reason", "there is no such job"], ["none"]),
        (["job", "retry", "none", "yesterday night"], ["period"]),
    ],
)
def test_what_cannot_be_asked_of_a_job_is_one_sentence(gps: str, words: list[str], facts: list[str]) -> None:
    demand_refused(call(gps, *words), 2, *facts)


def test_a_job_is_changed_by_what_is_given_alone(gps: str) -> None:
    call(gps, *ADD.split(), "--keep-data", "30 days", "--limit", "seen=99", "--grid-m", "5")
    query = "SELECT to_jsonb(j) FROM dbanon.job j"
    with psycopg.connect(gps, autocommit=True) as connection:
        [[before]] = connection.execute(query).fetchall()
        read_json(call(gps, "--json", *["job", "add", "taxi", "--replace", "--wait"], "2 hours", "--grid-m", "1"))
        [[after]] = connection.execute(query).fetchall()
    assert before["load"] == {"subject": "cab", "time_column": "ts", "x": "lon", "y": "lat", "grid_m": 5}
    assert {name: after[name] for name in after if after[name] != before[name]} == {
        "wait": "02:00:00",
        "load": {**before["load"], "grid_m": 1},
    }


def test_held_periods_are_an_error_of_a_run_of_jobs_that_is_to_be_strict(gps: str) -> None:
    call(gps, *ADD.split())
    call(gps, "job", "run", "--no-wait")
    with psycopg.connect(gps, autocommit=True) as connection:
        compute(connection, "refused")
    assert call(gps, "job", "run", "--no-wait").code == 0
    demand_refused(call(gps, "job", "run", "--no-wait", "--strict"), 1, "1 period is held")


def test_a_run_is_published_as_a_part_and_the_part_is_withdrawn(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(RUN)
        connection.execute(VERIFY, [True])
        first, second = (str(run_of(connection, number)) for number in range(2))
    of_the_second = ("--at", "2008-06-05T12:00Z")
    for words, code in (
        (("publish", first, "ten", "--grow"), 0),
        (("publish", second, "ten", "--grow"), 0),
        (("publish", second, "ten", "--grow"), 2),
        (("publish", second, "other", "--grow", "--replace"), 2),
        (("publish", "1", "ten", "--grow"), 2),
        (("unpublish", "ten", "--at", "yesterday"), 2),
        (("unpublish", "ten", *of_the_second), 0),
        (("unpublish", "ten", *of_the_second), 2),
        (("unpublish", "other", *of_the_second), 2),
        (("publish", second, "ten", "--grow"), 0),
        (("unpublish", "ten"), 0),
        (("unpublish", "ten", *of_the_second), 2),
    ):
        done = call(database, *words)
        assert done.code == code, (words, done)
        if code:
            assert done.sentence


def test_python_has_the_same_verbs(gps: str) -> None:
    with open_database(gps) as database:
        job_id, notices = database.add_job(
            "taxi", source="public.gps", method="tp-aware", subject="cab", time="ts", x="lon", y="lat", params={"k": 3},
            limits={"requests_of_few_over_parts": 5}, readers=("dbanon_analyst",), at_least=0.25,
        )  # fmt: skip
        assert job_id == 1
        assert notices
        assert len(database.plan_job("taxi", 3)) == 3
        assert database.run_jobs(wait=False)[:2] == (2, 0)
        assert database.steer_job("taxi", "pause") == 1
        assert [row["state"] for row in database.jobs()] == ["paused"]
        with pytest.raises(ParameterError):
            database.steer_job("taxi", "dance")


@tries("The login of a worker with --schedule must have")
def test_a_worker_with_a_schedule_needs_an_operators_login(
    gps: str, login: Callable[[str], str], tmp_path: Path
) -> None:
    url = login("dbanon_worker")
    done = call(url, "worker", "--schedule")
    demand_refused(done, 1, "dbanon_operator")
    [role] = re.findall(r"the role (\w+)", done.sentence)
    with psycopg.connect(gps, autocommit=True) as owner:
        owner.execute(f"GRANT {role} TO {parse(url)['user']}")
    with keep_up(url, tmp_path / "log", "--schedule"):
        pass
