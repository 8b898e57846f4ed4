"""Releases described, runs dropped and subjects forgotten on the command line and in Python."""

from collections.abc import Callable

import psycopg
import pytest

from dbanon.base.errors import ParameterError
from dbanon.database import Database
from dbanon.postgres import server
from tests.acceptance.commands import call, read_json
from tests.facts import demand_named, demand_refused, expect_refusal, is_named

pytestmark = pytest.mark.db


@pytest.fixture
def published(city_url: str) -> str:
    """URL of a city whose run 1 is published."""
    assert call(city_url, "publish", "1", "city_k5").code == 0
    return city_url


def find_subject(url: str) -> str:
    """A subject of the city that no other text holds."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "ALTER TABLE dbanon.trajectory DISABLE TRIGGER guard_subject;"
            "UPDATE dbanon.trajectory SET subject = 'Zoe 4711' WHERE trajectory_id = 1;"
            "ALTER TABLE dbanon.trajectory ENABLE TRIGGER guard_subject"
        )
    return "Zoe 4711"


def test_a_card_of_a_real_run_has_the_attack_clause_by_clause(published: str) -> None:
    told = read_json(call(published, "card", "city_k5", "--json"))
    attack = told["attack"]
    assert isinstance(attack, dict)
    assert attack["passed"] is True
    assert {"size", "covers", "left-out"} <= {clause["name"] for clause in attack["clauses"]}
    assert all(clause["passed"] and clause["violations"] == 0 for clause in attack["clauses"])
    left_out = told["left_out"]
    assert isinstance(left_out, dict)
    by_hour = sum(n for hour in left_out["by_hour"] for n in hour["left_out"].values())
    assert by_hour == sum(left_out["in_all"]["subjects"].values()) == attack["figures"]["suppressed"]
    text = call(published, "card", "city_k5").stdout
    assert "covers" in text
    demand_named(" ".join(text.split()), "promise:", "At least k people")


def test_a_view_tells_in_words_what_a_real_run_left_out(published: str) -> None:
    with psycopg.connect(published) as connection:
        row = connection.execute("SELECT obj_description('published.city_k5'::regclass, 'pg_class')").fetchone()
    assert row
    demand_named(row[0], "all that was seen: ", "all requests: ")


def test_releases_are_listed_withdrawn_or_not(published: str) -> None:
    assert call(published, "unpublish", "city_k5").code == 0
    listed = read_json(call(published, "releases", "--json"))["releases"]
    assert isinstance(listed, list)
    assert [(release["name"], release["live"], release["run_id"]) for release in listed] == [("city_k5", False, 1)]
    assert "city_k5" in call(published, "releases").stdout


def test_a_run_is_dropped_unless_it_was_published(city_url: str) -> None:
    with psycopg.connect(city_url, autocommit=True) as connection:
        connection.execute("INSERT INTO dbanon.run (dataset_id, method, algorithm) VALUES (1, 'tp-aware', 'traj-anon')")
    assert read_json(call(city_url, "drop", "2", "--json")) == {"run_id": 2, "rows_dropped": 0}
    assert call(city_url, "drop", "2").code == 2
    assert call(city_url, "publish", "1", "city_k5").code == 0
    done = call(city_url, "drop", "1")
    demand_refused(done, 1, "run 1", "published")


def test_a_subject_is_forgotten_and_what_it_was_called_is_not_repeated(published: str) -> None:
    name = find_subject(published)
    done = call(published, "forget", "--dataset", "city", "--subject", name, "--json")
    erased = read_json(done)["erased"]
    assert isinstance(erased, dict)
    assert erased["trajectories"] == 1
    demand_named(done.stderr, "1 live release", "city_k5")
    again = call(published, "forget", "--dataset", "city", "--subject", name)
    demand_refused(again, 2, "person", "city")
    for told in (done, again):
        assert "4711" not in told.stdout + told.stderr


def test_forgetting_is_told_as_a_table(published: str) -> None:
    done = call(published, "forget", "--dataset", "city", "--subject", find_subject(published))
    assert done.code == 0
    demand_named(done.stdout, "erased", "city")
    assert "4711" not in done.stdout + done.stderr


def test_the_same_from_python(published: str) -> None:
    with Database(server.Target(published, "test")) as database:
        assert database.card("city_k5")["live"] is True
        assert [release["name"] for release in database.releases()] == ["city_k5"]
        erased, notices = database.forget("city", find_subject(published))
        assert erased["trajectories"] == 1
        assert len(notices) == 1
        with expect_refusal(ParameterError, "run 99"):
            database.drop(99)
        with expect_refusal(ParameterError, "release", "'nothing'"):
            database.card("nothing")


@pytest.mark.stress
@pytest.mark.parametrize(
    ("command", "typed"),
    [
        (("unpublish", "city_k5"), "dbanon unpublish city_k5 --end-readers"),
        (("publish", "1", "city_k5", "--replace"), "dbanon publish 1 city_k5 --replace --end-readers"),
    ],
    ids=["withdrawn", "replaced"],
)
def test_readers_are_ended_as_the_refusal_says(
    published: str, login: Callable[[str], str], command: tuple[str, ...], typed: str
) -> None:
    url = server.format_uri({**server.parse(login("dbanon_analyst")), "dbname": server.parse(published)["dbname"]})
    with psycopg.connect(url) as reader:
        reader.execute("SELECT count(*) FROM published.city_k5")
        demand_refused(call(published, *command), 1, "city_k5", f"`{typed}`")
        done = call(published, *typed.split()[1:], "--json")
        assert done.code == 0
        said = "city_k5", f"{reader.info.user} (process {reader.info.backend_pid})"
        notices = read_json(done)["notices"]
        assert isinstance(notices, list)
        assert [notice for notice in notices if all(is_named(notice, fact) for fact in said)]
        demand_named(done.stderr, *said)
        with pytest.raises(psycopg.errors.AdminShutdown):
            reader.execute("SELECT 1")


@pytest.mark.stress
def test_a_replacement_that_was_refused_is_shown_with_its_run_until_it_succeeds(
    published: str, login: Callable[[str], str]
) -> None:
    url = server.format_uri({**server.parse(login("dbanon_analyst")), "dbname": server.parse(published)["dbname"]})
    query = "SELECT login, run_id, release, detail ->> 'sqlstate' FROM dbanon.audit WHERE action = 'publish_refused'"
    with psycopg.connect(url) as reader, psycopg.connect(published, autocommit=True) as connection:
        reader.execute("SELECT count(*) FROM published.city_k5")
        again = ("run", "tp-aware", "--dataset", "city", "-p", "k=5", "--publish", "city_k5", "--replace")
        assert call(published, *again).code == 1
        (_, run) = read_json(call(published, "runs", "--json"))["runs"]
        who = f"{reader.info.user} (process {reader.info.backend_pid})"
        assert (run["status"], run["error"], who in run["publish_error"]) == ("verified", None, True)
        assert who in call(published, "runs").stdout
        assert connection.execute(query).fetchall() == [(connection.info.user, run["run_id"], "city_k5", "DA013")]
        assert call(published, *again, "--end-readers").code == 0
        with pytest.raises(psycopg.errors.AdminShutdown):
            reader.execute("SELECT 1")
        assert call(published, "publish", str(run["run_id"]), "city_k5", "--replace").code == 0
        assert [row["publish_error"] for row in read_json(call(published, "runs", "--json"))["runs"]] == [None] * 3


def test_a_publication_on_the_command_line_that_replaces_nothing_ends_nobody(city_url: str) -> None:
    done = call(city_url, "publish", "1", "city_k5", "--end-readers")
    demand_refused(done, 2, "--end-readers", "--replace")
