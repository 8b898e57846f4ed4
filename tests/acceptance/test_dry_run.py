"""A dry run of a command says what the command then does, and changes nothing."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql

from dbanon.cli._shared import everywhere, open_to_try
from dbanon.postgres import server
from tests.acceptance.commands import Done, call, read_json
from tests.db.conftest import RUN, VERIFY
from tests.db.parts import run_of
from tests.facts import demand_refused
from tests.hints import tries
from tests.reading import read_value

pytestmark = pytest.mark.db
TABLES = """
SELECT cla.oid::regclass::text FROM pg_class cla
WHERE cla.relnamespace = 'dbanon'::regnamespace AND cla.relkind = 'r' ORDER BY 1
"""
SHOWN = """
SELECT nsp.nspname, nsp.nspacl::text, cla.relname, cla.relkind, cla.relacl::text, cla.relowner,
    obj_description(cla.oid, 'pg_class'), CASE cla.relkind WHEN 'v' THEN pg_get_viewdef(cla.oid) END,
    (SELECT array_agg((att.attname, att.atttypid, att.attacl::text, col_description(cla.oid, att.attnum))::text
                      ORDER BY att.attnum)
     FROM pg_attribute att WHERE att.attrelid = cla.oid AND att.attnum > 0)
FROM pg_class cla JOIN pg_namespace nsp ON nsp.oid = cla.relnamespace
WHERE nsp.nspname ~ '^(dbanon|published)' AND cla.relkind IN ('r', 'v', 'p', 'S') ORDER BY nsp.nspname, cla.relname
"""
PUBLISHED = ("publish", "1", "ten")
FORGET = ("forget", "--dataset", "ten", "--subject")


def read_state(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    """Everything that there is in the schemas: a digest of the rows of each table, and views, rights and comments."""
    state: dict[str, Any] = {"shown": connection.execute(SHOWN).fetchall()}
    for (table,) in connection.execute(TABLES).fetchall():
        query = sql.SQL("SELECT count(*), md5(string_agg(t::text, chr(10) ORDER BY t::text)) FROM ONLY {} t")
        state[table] = connection.execute(query.format(sql.SQL(table))).fetchone()
    return state


@pytest.fixture
def ten(database: str) -> Iterator[psycopg.Connection[Any]]:
    """Connection to a database with verified runs of ten people: the first of all of them, two more of a day each."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(RUN)
        connection.execute(VERIFY, [True])
        assert [run_of(connection, day) for day in range(2)] == [2, 3]
        yield connection


def read_lines(done: Done) -> tuple[list[str], list[str]]:
    return done.stdout.splitlines(), done.stderr.splitlines()


@pytest.mark.many
@pytest.mark.parametrize(
    ("before", "words", "code"),
    [
        ((), PUBLISHED, 0),
        ((PUBLISHED,), (*PUBLISHED, "--replace"), 0),
        ((), ("publish", "2", "days", "--grow"), 0),
        ((("publish", "2", "days", "--grow"),), ("publish", "3", "days", "--grow"), 0),
        ((PUBLISHED,), PUBLISHED, 2),
        ((), ("publish", "99", "ten"), 2),
        ((), ("publish", "1", "Ten"), 2),
        ((), (*PUBLISHED, "--readers", "nobody_of_this_name"), 2),
        ((PUBLISHED,), ("unpublish", "ten"), 0),
        ((("publish", "2", "days", "--grow"),), ("unpublish", "days", "--at", "2008-06-04T12:00Z"), 0),
        ((), ("unpublish", "ten"), 2),
        ((), (*FORGET, "p0"), 0),
        ((PUBLISHED,), (*FORGET, "p0", "--again"), 0),
        ((), (*FORGET, "nobody"), 2),
    ],
)
def test_a_dry_run_says_what_the_command_then_does_and_changes_nothing(
    ten: psycopg.Connection[Any],
    database: str,
    login: Callable[[str], str],
    *,
    before: tuple[tuple[str, ...], ...],
    words: tuple[str, ...],
    code: int,
) -> None:
    url = server.format_uri({**server.parse(login("dbanon_operator")), "dbname": server.parse(database)["dbname"]})
    assert all(call(url, *one).code == 0 for one in before)
    state = read_state(ten)

    tried = call(url, *words, "--dry-run")

    assert read_state(ten) == state
    told = json.loads(call(url, "--json", *words, "--dry-run").stdout)
    done = call(url, *words)
    assert (tried.code, done.code) == (code, code)
    out, err = read_lines(tried)
    assert code or "dry run" in out.pop()
    assert (out, err) == read_lines(done)
    assert told["dry_run"] is True if code == 0 else told["error"] == done.sentence
    assert read_state(ten) != state or code


def test_a_dry_run_is_refused_for_the_readers_that_the_command_would_be(
    ten: psycopg.Connection[Any], database: str
) -> None:
    call(database, *PUBLISHED)
    with psycopg.connect(database) as reader:
        reader.execute("SELECT FROM published.ten")
        state = read_state(ten)
        tried, done = call(database, "unpublish", "ten", "--dry-run"), call(database, "unpublish", "ten")
        demand_refused(tried, 1, reader.info.backend_pid)
        assert (done.code, done.sentence) == (tried.code, tried.sentence)
        assert read_state(ten) == state


@tries("A dry run must not end sessions")
@pytest.mark.parametrize("words", [(*PUBLISHED, "--replace"), ("unpublish", "ten")])
def test_a_dry_run_ends_no_session(ten: psycopg.Connection[Any], database: str, words: tuple[str, ...]) -> None:
    call(database, *PUBLISHED)
    with psycopg.connect(database) as reader:
        reader.execute("SELECT FROM published.ten")
        demand_refused(call(database, *words, "--dry-run", "--end-readers"), 2, "end-readers")
        reader.execute("SELECT FROM published.ten")
    assert call(database, *words, "--dry-run").code == 0
    assert read_value(ten, "SELECT count(*) FROM dbanon.release WHERE withdrawn_at IS NULL") == 1


@contextmanager
def connect_analyst(database: str, login: Callable[[str], str]) -> Iterator[psycopg.Connection[Any]]:
    target = {**server.parse(login("dbanon_analyst")), "dbname": server.parse(database)["dbname"]}
    with psycopg.connect(server.format_uri(target), autocommit=True) as analyst:
        yield analyst


def test_no_analyst_sees_the_release_of_a_dry_run(
    ten: psycopg.Connection[Any], database: str, login: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(everywhere, "dsn", database)
    seen = "SELECT to_regclass('published.ten') IS NOT NULL, EXISTS (SELECT FROM published.releases)"
    with connect_analyst(database, login) as analyst:
        with open_to_try(True) as tried:
            tried.publish(1, "ten")
            assert tried.releases()[0]["live"]
            assert analyst.execute(seen).fetchone() == (False, False)
            assert read_value(ten, "SELECT count(*) FROM dbanon.release") == 0
        assert analyst.execute(seen).fetchone() == (False, False)
        call(database, *PUBLISHED)
        assert analyst.execute(seen).fetchone() == (True, True)


def test_a_transaction_that_is_rolled_back_is_the_dry_run_of_sql(ten: psycopg.Connection[Any]) -> None:
    state = read_state(ten)
    with ten.transaction(force_rollback=True):
        assert read_value(ten, "SELECT dbanon.publish(1, 'ten')") == 4
        ten.execute("SELECT dbanon.unpublish('ten')")
    with ten.transaction(force_rollback=True):
        ten.execute("SELECT * FROM dbanon.forget_subject('ten', 'p0')")
    assert read_state(ten) == state
    assert "dry_run" not in read_json(call(ten.info.dsn, "--json", "releases"))
