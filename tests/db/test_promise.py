"""What a release says of itself: to analysts in comments, to administrators on its card and in dbanon.releases."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from dbanon.attacks import import_attacker
from dbanon.cli import report
from dbanon.methods import METHODS, describe
from dbanon.postgres.programs import find_binaries
from dbanon.postgres.server import format_uri
from tests import pages
from tests.db.methods import change_methods
from tests.facts import demand_named, expect_refusal
from tests.reading import read_value

Login = Callable[[str], str]

# Two windows of two instants at 07:00 and 08:00 UTC; in the first three of ten were absent, the second had four of six.
SUPPRESSED = {
    "subjects": {"absent_at_some_instant": 5, "window_below_k": 4},
    "requests": {"sender_not_published": 1, "outside_windows": 0},
    "windows": [
        {"start": 1212562800, "instants": 2, "seen": 13, "present": 10, "published": 10},
        {"start": 1212566400, "instants": 2, "seen": 6, "present": 4, "published": 0},
    ],
    "by_hour": [
        {
            "hour": "2008-06-04T07:00Z",
            "seen": 13,
            "published": 10,
            "left_out": {"absent_at_some_instant": 3, "window_below_k": 0},
        },
        {
            "hour": "2008-06-04T08:00Z",
            "seen": 6,
            "published": 0,
            "left_out": {"absent_at_some_instant": 2, "window_below_k": 4},
        },
    ],
}
FIGURES = {"seen": 19, "requests": 100, "smallest_crowd": 5}
CLAUSES = [{"name": "size", "passed": True, "violations": 0, "sentence": "Every record must hide 5."}]


def prepare(
    connection: psycopg.Connection, suppressed: dict[str, Any] = SUPPRESSED, figures: dict[str, Any] = FIGURES
) -> None:
    """Make run 1 say what it left out, verify it so, and publish it as ``ten``."""
    connection.execute("UPDATE dbanon.run SET suppressed = %s, program_version = '0.1.0'", [Jsonb(suppressed)])
    connection.execute(
        "INSERT INTO dbanon.verification (run_id, attack, passed, digest, figures, clauses)"
        " SELECT 1, 'tp-aware', true, dbanon_internal.compute_run_digest(1), %s, %s",
        [Jsonb(figures), Jsonb(CLAUSES)],
    )
    connection.execute("SELECT dbanon.publish(1, 'ten')")


def read_comments(connection: psycopg.Connection) -> dict[str, str]:
    """The comments of published.ten by column; that of the view under an empty name."""
    rows = connection.execute(
        "SELECT coalesce(a.attname, ''), d.description FROM pg_description d"
        " LEFT JOIN pg_attribute a ON a.attrelid = d.objoid AND a.attnum = d.objsubid AND d.objsubid > 0"
        " WHERE d.objoid = 'published.ten'::regclass AND d.classoid = 'pg_class'::regclass"
    )
    return dict(rows.fetchall())


def read_promise(connection: psycopg.Connection) -> dict[str, str]:
    """The lines of the view's comment by their first word."""
    return dict(line.split(": ", 1) for line in read_comments(connection)[""].splitlines() if ": " in line)


# --- comments ---------------------------------------------------------------------------------------------------------


def test_the_comment_of_a_view_says_rows_promise_adversary_units_and_what_to_sum(own: psycopg.Connection) -> None:
    prepare(own)
    lines = read_promise(own)
    family = METHODS["tp-aware"]
    made = "Made with tp-aware (traj-anon) by dbanon 0.1.0. Method"
    assert list(lines) == ["Rows", "Promise", "Against", "Places", "Left out", "Counting", made]
    assert lines["Rows"] == family.row_meaning
    assert lines["Promise"].startswith(family.guarantee)
    demand_named(lines["Promise"].removeprefix(family.guarantee), "k is 5")
    assert lines["Against"] == family.adversary
    demand_named(lines["Places"], "SRID 32610", "grid of 1 m", "grid of 60 s")
    demand_named(lines["Counting"], "subjects", "crowd", "Never add it up")
    assert lines[made] == f"{family.paper}."


def test_every_column_has_a_comment_and_units_are_told_where_they_are(own: psycopg.Connection) -> None:
    prepare(own)
    told = read_comments(own)
    columns = own.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'published.ten'::regclass AND attnum > 0"
    ).fetchall()
    assert set(told) == {"", *(name for (name,) in columns)}
    demand_named(told["region"], "metres", "SRID 32610", "grid of 1 m")
    demand_named(told["valid_from"], "grid of 60 s", "time zone")
    demand_named(told["crowd"], "Never add it up")
    demand_named(told["subjects"], "add it up")
    assert told["requests"] == METHODS["tp-aware"].columns[0].comment


def test_what_was_left_out_is_told_as_a_share(own: psycopg.Connection) -> None:
    prepare(own)
    told = read_promise(own)["Left out"]
    assert told.startswith(METHODS["tp-aware"].left_out)
    demand_named(told, "seen: 47 %.")  # 9 of 19


@pytest.mark.many
@pytest.mark.parametrize("count", range(5))
def test_counts_below_k_cannot_be_told_apart(own: psycopg.Connection, count: int) -> None:
    left_out = {**SUPPRESSED, "subjects": {"absent_at_some_instant": count}, "requests": {"outside_windows": count}}
    prepare(own, left_out)
    told = read_promise(own)["Left out"]
    demand_named(told, "seen: fewer than 5", "requests: fewer than 5")
    assert "%" not in told


@pytest.mark.many
@pytest.mark.parametrize(
    ("total", "left_out", "k", "told"),
    [
        (1000, 70, 5, "7 %"),
        (1000, 71, 5, "7 %"),
        (1000, 76, 5, "8 %"),
        (10**9, 5, 5, "1 %"),
        (10, 10, 5, "100 %"),
        (10, 5, 5, "50 %"),
        (10, 4, 5, "fewer than 5, or none"),
        (None, 0, 5, "fewer than 5, or none"),
        (None, 5, 5, None),
        (10, 5, None, "50 %"),
    ],
)
def test_shares_are_rounded_to_the_nearest_percent(
    own: psycopg.Connection, total: int | None, left_out: int, k: int | None, told: str | None
) -> None:
    assert read_value(own, "SELECT dbanon_internal.describe_share(%s, %s, %s)", total, left_out, k) == told


def test_without_figures_of_the_attack_no_share_is_made_up(own: psycopg.Connection) -> None:
    prepare(own, figures={})
    told = read_promise(own)["Left out"]
    assert told.startswith(METHODS["tp-aware"].left_out)
    assert "seen:" not in told
    demand_named(told, "requests: fewer than 5")


def test_comments_hold_no_seed_run_dataset_or_subject(own: psycopg.Connection) -> None:
    own.execute("UPDATE dbanon.dataset SET name = 'very-private'")
    prepare(own)
    told = " ".join(read_comments(own).values())
    assert "424242" not in told
    assert "very-private" not in told
    assert not re.search(r"\bp\d\b|\brun\b|pharmacy", told)
    allowed = {"5", "32610", "1", "60", "1970", "47", "0.1.0", "2012"}
    assert set(re.findall(r"\d[\d.]*\d|\d", told)) <= allowed


def test_an_upgrade_renews_the_comments_of_live_releases(connection: psycopg.Connection, run: int) -> None:
    from dbanon import schema

    prepare(connection)
    before = read_comments(connection)
    connection.execute("COMMENT ON VIEW published.ten IS 'old'")
    connection.execute("SELECT dbanon.publish(1, 'gone')")
    connection.execute("SELECT dbanon.unpublish('gone')")
    schema.upgrade(_make_url(connection), share_roles=True)
    assert read_comments(connection) == before


def _make_url(connection: psycopg.Connection) -> str:
    from dbanon.postgres.server import format_uri

    return format_uri({**connection.info.get_parameters(), "password": connection.info.password or ""})


# --- the card ---------------------------------------------------------------------------------------------------------


def read_card(connection: psycopg.Connection, name: str = "ten") -> dict[str, Any]:
    told = read_value(connection, "SELECT dbanon.release_card(%s)", name)
    assert isinstance(told, dict)
    return told


ALGORITHMS = [(family.name, one.name) for family in METHODS.values() for one in family.algorithms]


@pytest.mark.parametrize(("name", "algorithm"), [*ALGORITHMS, ("kte", "of an earlier version")])
def test_an_algorithm_has_the_promise_of_its_family_or_one_of_its_own(
    connection: psycopg.Connection, name: str, algorithm: str
) -> None:
    query = "SELECT dbanon_internal.find_promise(m, %s) FROM dbanon.method m WHERE name = %s"
    assert read_value(connection, query, algorithm, name) == METHODS[name].find_promise(algorithm)
    assert (METHODS[name].find_promise(algorithm) == METHODS[name].guarantee) == (algorithm != "k-merge")


def test_a_card_tells_method_promise_attack_rows_and_period(own: psycopg.Connection) -> None:
    prepare(own)
    told = read_card(own)
    family = METHODS["tp-aware"]
    assert (told["release"], told["live"], told["dataset"]) == ("ten", True, "ten")
    assert (told["method"], told["algorithm"], told["k"]) == ("tp-aware", "traj-anon", 5)
    assert told["parameters"] == {"k": 5, "step_s": 60, "instants": 2}
    assert (told["promise"], told["adversary"], told["paper"]) == (family.guarantee, family.adversary, family.paper)
    attack = told["attack"]
    assert (attack["name"], attack["passed"]) == ("tp-aware", True)
    [size] = [clause for clause in import_attacker(family.attack).attack.clauses if clause.name == "size"]
    assert attack["clauses"] == [{**CLAUSES[0], "plain": size.plain, "test": size.test}]
    assert attack["figures"] == FIGURES
    assert attack["left_open"].keys() == {"singling out", "linkability", "inference"}
    assert (told["rows"], told["srid"], told["grid_m"], told["grid_s"]) == (4, 32610, 1, 60)
    assert told["period"] == {"since": "2008-06-04T08:00:00+00:00", "until": "2008-06-04T08:02:00+00:00"}
    assert told["published_by"] == read_value(own, "SELECT session_user")
    assert (told["withdrawn_at"], told["withdrawn_by"], told["overlap_reason"]) == (None, None, None)
    assert told["program_version"] == "0.1.0"


def test_a_card_counts_what_was_left_out_by_hour_and_reason(own: psycopg.Connection) -> None:
    prepare(own)
    left_out = read_card(own)["left_out"]
    assert left_out["reasons"] == METHODS["tp-aware"].reasons
    assert left_out["in_all"] == {name: SUPPRESSED[name] for name in ("subjects", "requests")}
    assert left_out["by_hour"] == SUPPRESSED["by_hour"]
    assert [(hour["hour"], hour["seen"]) for hour in left_out["by_hour"]] == [
        ("2008-06-04T07:00Z", 13),
        ("2008-06-04T08:00Z", 6),
    ]


def test_a_card_never_holds_the_seed(own: psycopg.Connection) -> None:
    prepare(own)
    assert "424242" not in json.dumps(read_card(own))


def test_the_card_is_of_the_live_release_else_of_the_latest_withdrawn_one(own: psycopg.Connection) -> None:
    prepare(own)
    own.execute("SELECT dbanon.unpublish('ten')")
    told = read_card(own)
    assert told["live"] is False
    assert told["withdrawn_by"] == read_value(own, "SELECT session_user")
    assert told["period"]["since"] == "2008-06-04T08:00:00+00:00"
    own.execute("INSERT INTO dbanon.release (name, run_id, digest, rows) VALUES ('ten', 1, '', 7)")
    assert (read_card(own)["live"], read_card(own)["rows"]) == (True, 7)
    own.execute(
        "UPDATE dbanon.release SET withdrawn_at = withdrawn + interval '1 s', withdrawn_by = 'x'"
        " FROM (SELECT max(withdrawn_at) FROM dbanon.release) m (withdrawn) WHERE withdrawn_at IS NULL"
    )
    assert read_card(own)["rows"] == 7


def test_each_release_of_a_name_has_its_card(own: psycopg.Connection) -> None:
    prepare(own)
    own.execute("SELECT dbanon.publish(1, 'ten', replace => true), dbanon.publish(1, 'more')")
    query = "SELECT release_id, name, live, published_at FROM dbanon.releases"
    rows = own.execute(query).fetchall()
    assert sorted((name, live) for _, name, live, _ in rows) == [("more", True), ("ten", False), ("ten", True)]
    for release_id, name, live, _ in rows:
        told = read_value(own, "SELECT dbanon.release_card(%s, release_id => %s)", name, release_id)
        assert (told["release_id"], told["release"], told["live"]) == (release_id, name, live)
    assert read_card(own)["release_id"] == max(row[0] for row in rows if row[1] == "ten")


def test_a_release_of_another_name_has_no_card_under_this(own: psycopg.Connection) -> None:
    prepare(own)
    release_id = read_value(own, "SELECT release_id FROM dbanon.releases")
    for name, wanted in (("more", release_id), ("ten", release_id + 1)):
        with expect_refusal("DA001", f"'{name}'", wanted), own.transaction():
            own.execute("SELECT dbanon.release_card(%s, %s)", [name, wanted])


def test_the_verdict_on_a_card_is_of_what_was_published(own: psycopg.Connection) -> None:
    prepare(own)
    own.execute("DELETE FROM dbanon.request")
    own.execute(
        "INSERT INTO dbanon.verification (run_id, attack, passed, digest)"
        " VALUES (1, 'tp-aware', false, dbanon_internal.compute_run_digest(1))"
    )
    assert read_card(own)["attack"]["passed"] is True
    own.execute(
        "INSERT INTO dbanon.verification (run_id, attack, passed, digest)"
        " SELECT 1, 'tp-aware', false, digest FROM dbanon.release"
    )
    assert read_card(own)["attack"]["passed"] is False


def test_another_attack_does_not_speak_for_a_release(own: psycopg.Connection) -> None:
    prepare(own)
    own.execute(
        "INSERT INTO dbanon.verification (run_id, attack, passed, digest)"
        " SELECT 1, 'gentle', true, digest FROM dbanon.release"
    )
    assert read_card(own)["attack"]["figures"] == FIGURES


@pytest.mark.parametrize("name", ["never", None, "x" * 99])
def test_a_release_that_never_was_has_no_card(own: psycopg.Connection, name: str | None) -> None:
    prepare(own)
    with expect_refusal("DA001", "release", "NULL" if name is None else f"'{name[:57]}"):
        own.execute("SELECT dbanon.release_card(%s)", [name])


def test_a_card_reads_as_text(own: psycopg.Connection) -> None:
    prepare(own)
    text = report.format_card(read_card(own))
    for words in (
        "Promise: At least k people",
        "Adversary: A reader knows",
        "size    holds",
        "parameter k",
        "32610",
    ):
        assert words in text
    assert re.search(r"2008-06-04T08:00Z +window_below_k +4", text)
    assert re.search(r"in all +absent_at_some_instant +5", text)


LONGEST = """
UPDATE dbanon.method m
SET guarantee = l.guarantee, adversary = l.adversary, row_meaning = l.row_meaning, paper = l.paper
FROM (SELECT (SELECT guarantee FROM dbanon.method ORDER BY length(guarantee) DESC LIMIT 1),
             (SELECT adversary FROM dbanon.method ORDER BY length(adversary) DESC LIMIT 1),
             (SELECT row_meaning FROM dbanon.method ORDER BY length(row_meaning) DESC LIMIT 1),
             (SELECT paper FROM dbanon.method ORDER BY length(paper) DESC LIMIT 1)) l
WHERE m.name = 'tp-aware'
"""


def test_a_card_fits_a_screen_of_psql_as_the_administrators_page_asks_for_it(own: psycopg.Connection) -> None:
    parameters = {parameter["name"]: parameter["default"] for parameter in describe(METHODS["tp-aware"])}
    own.execute("UPDATE dbanon.run SET params = %s", [Jsonb({**parameters, "k": 5})])
    prepare(own)
    change_methods(own, LONGEST)
    page = "docs/administrators/run-and-publish.md"
    typed = [block for _, block in pages.list_blocks(page, "sql") if "release_card" in block]
    words = {name: str(getattr(own.info, name)) for name in ("host", "port", "dbname", "user", "password")}
    command = [find_binaries().bindir / "psql", "-X", "-P", "columns=100", format_uri(words)]
    done = subprocess.run(command, input=typed[0].replace("taxi_k5", "ten"), capture_output=True, text=True, check=True)
    screens = re.split(r"^\(\d+ rows?\)$", done.stdout, flags=re.MULTILINE)
    facts, clauses = screens[0].splitlines()[1:], screens[1]  # after what \pset answers
    assert len(facts) <= 40
    assert max(map(len, facts)) <= 100
    for words in ("promise", "adversary", "published_by", "tp-aware", "k "):
        assert f" {words}" in screens[0]
    assert re.search(r"size +\| t +\| +0", clauses)


def test_a_method_without_a_paper_has_none_on_its_card(own: psycopg.Connection) -> None:
    prepare(own)
    assert "Paper: " in report.format_card(read_card(own))
    change_methods(own, "UPDATE dbanon.method SET paper = ''")
    assert read_card(own)["paper"] is None
    assert "Paper" not in report.format_card(read_card(own))


# --- who reads what ---------------------------------------------------------------------------------------------------


@pytest.fixture
def published(connection: psycopg.Connection, run: int) -> psycopg.Connection:
    prepare(connection)
    return connection


@pytest.fixture(params=["dbanon_operator", "dbanon_worker"])
def reader(published: psycopg.Connection, login: Login, request: pytest.FixtureRequest) -> Iterator[psycopg.Connection]:
    with psycopg.connect(login(request.param), autocommit=True) as opened:
        yield opened


def test_operators_and_workers_read_cards_and_the_list_of_releases(reader: psycopg.Connection) -> None:
    assert read_card(reader)["rows"] == 4
    cursor = reader.execute("SELECT * FROM dbanon.releases")
    assert [column.name for column in cursor.description or ()] == [
        *("release_id", "name", "live", "run_id", "dataset", "method", "algorithm", "k", "rows"),
        *("published_at", "published_by", "withdrawn_at", "withdrawn_by", "overlap", "overlap_reason"),
        *("readers", "bounds", "percent_left_out", "longer_side_m", "count_error"),
    ]
    assert [row[1:9] for row in cursor] == [("ten", True, 1, "ten", "tp-aware", "traj-anon", 5, 4)]


def test_analysts_read_the_comments_and_no_card(published: psycopg.Connection, login: Login) -> None:
    with psycopg.connect(login("dbanon_analyst"), autocommit=True) as analyst:
        demand_named(read_comments(analyst)[""], "k is 5")
        for statement in ("SELECT dbanon.release_card('ten')", "SELECT * FROM dbanon.releases"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                analyst.execute(statement)


def test_withdrawn_releases_stay_in_the_list(own: psycopg.Connection) -> None:
    prepare(own)
    own.execute("SELECT dbanon.unpublish('ten')")
    row = own.execute("SELECT live, withdrawn_at IS NULL, withdrawn_by = session_user FROM dbanon.releases").fetchone()
    assert row == (False, False, True)
