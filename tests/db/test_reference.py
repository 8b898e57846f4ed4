"""docs/reference says what the database and the program say, and what it says is right."""

import os
import re
from pathlib import Path

import psycopg
import pytest

from tests.golden import reasons, reference
from tests.importing import REASONS

WRITE = "write it with DBANON_WRITE_GOLDEN=1 pytest -n 0 tests/db/test_reference.py"
PLACES = ("dbanon", "docker")


def test_the_pages_are_what_the_database_and_the_program_say(connection: psycopg.Connection) -> None:
    for page, found in reference.write_pages(connection).items():
        if os.environ.get("DBANON_WRITE_GOLDEN"):
            page.write_text(found)
        assert found == page.read_text(), f"docs/reference/{page.name} is stale; {WRITE}"


def test_every_page_of_the_reference_is_made(connection: psycopg.Connection) -> None:
    assert set(reference.write_pages(connection)) == set(reference.FOLDER.glob("*.md"))
    assert max(len(page.read_text().split()) for page in reference.FOLDER.glob("*.md")) < 8200


def test_a_heading_stands_once_on_its_page() -> None:
    """A link to the second of two would lead to the first."""
    found = {page.name: re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE) for page in reference.FOLDER.glob("*")}
    assert {page: [one for one in set(heads) if heads.count(one) > 1] for page, heads in found.items()} == {
        page: [] for page in found
    }


def test_a_comment_says_what_each_argument_and_column_is(connection: psycopg.Connection) -> None:
    for thing in (one for one in reference.read_things(connection) if one.callable and one.schema != "dbanon_internal"):
        if thing.is_for_users:
            assert list(thing.items("Arguments")) == [name for name, _, _ in thing.takes], thing.name
            columns = [name for name, _, _ in thing.gives]
            assert list(thing.items("Returns")) == columns, thing.name
        assert not re.search(r"@\w+\.\w+@", thing.comment), f"{thing.name} names an option that there is not"


def test_every_error_is_listed_and_a_public_function_says_that_it_raises_it(connection: psycopg.Connection) -> None:
    listed = reference.read_codes()
    assert list(listed)[:9] == [f"DA00{number}" for number in range(1, 10)]
    found = {
        (schema, name): set(re.findall(r"ERRCODE = '(DA\d{3})'", source))
        for schema, name, source in connection.execute(
            "SELECT pronamespace::regnamespace::text, proname, prosrc FROM pg_proc"
            " WHERE pronamespace::regnamespace::text ~ '^(dbanon|published)'"
        )
    }
    assert set().union(*found.values()) <= set(listed), "a function raises what the list in 10_guard.sql has not"
    things = reference.read_things(connection)
    said = {thing.name: reference.list_raised(thing.part("Raises")) for thing in things if thing.callable}
    assert {name: codes for (schema, name), codes in found.items() if schema == "dbanon" and codes - said[name]} == {}


def test_the_list_names_everything_and_no_helper(connection: psycopg.Connection) -> None:
    text = (reference.FOLDER / "sql.md").read_text()
    names = {
        (thing.name, reference.name_page(thing))
        for thing in reference.read_things(connection)
        if thing.schema == "dbanon"
    }
    assert [name for name, page in names if f"| [`{name}`]({page}.md#{name}) | " not in text] == []
    assert not any("dbanon_internal." in page.read_text() for page in reference.FOLDER.glob("sql*.md"))


def test_every_example_is_sql_that_the_database_understands(scratch: psycopg.Connection) -> None:
    wrong = []
    for thing in reference.read_things(scratch):
        if thing.example:
            try:
                with scratch.transaction(force_rollback=True):
                    scratch.execute("SET LOCAL statement_timeout = '5s'")
                    scratch.execute(thing.example)
            except psycopg.Error as error:
                if error.sqlstate in ("42601", "42883", "42703", "42725", "42804", "42846"):
                    wrong.append(f"{thing.name}: {error}")
    assert wrong == []


def test_every_reason_to_leave_a_row_out_is_explained() -> None:
    assert reasons.QUARANTINED.keys() | reasons.COUNTED.keys() == REASONS


def test_every_variable_that_is_read_is_on_the_page_of_settings() -> None:
    files = [path for place in PLACES for path in sorted((reference.ROOT / place).rglob("*")) if _is_text(path)]
    read = {name for path in files for name in re.findall(r"\bDBANON_[A-Z]+(?:_[A-Z]+)*\b", path.read_text())}
    page = (reference.FOLDER / "settings.md").read_text()
    assert set(re.findall(r"^\| `(DBANON_\w+)` ", page, re.MULTILINE)) == read


def _is_text(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("", []),
        ("run_id bigint, name text", ["run_id bigint", "name text"]),
        ("a numeric(3,1) DEFAULT 1, b text DEFAULT 'x, y'", ["a numeric(3,1) DEFAULT 1", "b text DEFAULT 'x, y'"]),
        ("a: Mapping[str, list[int, str]], b: int", ["a: Mapping[str, list[int, str]]", "b: int"]),
    ],
)
def test_arguments_are_split_at_their_own_commas(arguments: str, parts: list[str]) -> None:
    assert reference.split(arguments) == parts
