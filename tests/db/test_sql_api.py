"""docs/reference/sql.md says what the database says, and what it says is right."""

import os
import re

import psycopg
import pytest

from tests.golden import sql_api

PAGE = sql_api.ROOT / "docs" / "reference" / "sql.md"


def test_the_page_is_what_the_database_says(connection: psycopg.Connection) -> None:
    found = sql_api.document(connection)
    if os.environ.get("DBANON_WRITE_GOLDEN"):
        PAGE.write_text(found)
    assert found == PAGE.read_text(), (
        "docs/reference/sql.md is stale; write it with DBANON_WRITE_GOLDEN=1 pytest tests/db/test_sql_api.py"
    )


def test_every_link_within_the_page_leads_somewhere() -> None:
    text = PAGE.read_text()
    anchors = [re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")) for title in re.findall(r"^#+ (.+)$", text, re.M)]
    assert len(set(anchors)) == len(anchors)
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= set(anchors)


def test_every_error_is_listed_and_a_public_function_says_that_it_raises_it(connection: psycopg.Connection) -> None:
    listed = sql_api.codes()
    assert list(listed)[:9] == [f"DA00{number}" for number in range(1, 10)]
    found = {
        (schema, name): set(re.findall(r"ERRCODE = '(DA\d{3})'", source))
        for schema, name, source in connection.execute(
            "SELECT pronamespace::regnamespace::text, proname, prosrc FROM pg_proc"
            " WHERE pronamespace::regnamespace::text ~ '^(dbanon|published)'"
        )
    }
    assert set().union(*found.values()) <= set(listed), "a function raises what the list in 10_guard.sql has not"
    said = {thing.name: sql_api.raised(thing.part("Raises")) for thing in sql_api.things(connection) if thing.callable}
    assert {name: codes for (schema, name), codes in found.items() if schema == "dbanon" and codes - said[name]} == {}


def test_the_page_is_about_what_people_call(connection: psycopg.Connection) -> None:
    """A list at the top names everything; helpers are in it nowhere."""
    text = PAGE.read_text()
    names = [thing.name for thing in sql_api.things(connection) if thing.schema == "dbanon"]
    top = text.split("## At a glance")[1].split("\n## ")[0]
    assert [name for name in names if f"| [`{name}`](#{name}) | " not in top] == []
    assert "dbanon_internal." not in text
    assert len(text.splitlines()) < 2400


def test_every_example_is_sql_that_the_database_understands(scratch: psycopg.Connection) -> None:
    wrong = []
    for thing in sql_api.things(scratch):
        if thing.example:
            try:
                with scratch.transaction(force_rollback=True):
                    scratch.execute("SET LOCAL statement_timeout = '5s'")
                    scratch.execute(thing.example)
            except psycopg.Error as error:
                if error.sqlstate in ("42601", "42883", "42703", "42725", "42804", "42846"):
                    wrong.append(f"{thing.name}: {error}")
    assert wrong == []


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("", []),
        ("run_id bigint, name text", ["run_id bigint", "name text"]),
        ("a numeric(3,1) DEFAULT 1, b text DEFAULT 'x, y'", ["a numeric(3,1) DEFAULT 1", "b text DEFAULT 'x, y'"]),
    ],
)
def test_arguments_are_split_at_their_own_commas(arguments: str, parts: list[str]) -> None:
    assert sql_api._split(arguments) == parts
