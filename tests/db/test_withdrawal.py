"""Releases that are taken back or replaced, by real logins: who did it, what goes, and who is in the way."""

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager

import psycopg
import pytest

from dbanon._background import in_background

Login = Callable[[str], str]

REPLACE = "SELECT dbanon.publish(1, 'ten', replace => true)"
UNPUBLISH = "SELECT dbanon.unpublish('ten')"
STATE = """SELECT array_agg((l.release_id, l.name, l.withdrawn_at, l.withdrawn_by)::text ORDER BY l.release_id),
    (SELECT count(*) FROM dbanon.audit), to_regclass('published.ten')::oid,
    (SELECT array_agg(c.relname ORDER BY c.relname) FROM pg_class c WHERE c.relname ~ '^release_[0-9]+$')
    FROM dbanon.release l"""


def value(connection: psycopg.Connection, query: str) -> object:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


@pytest.fixture
def operator(connection: psycopg.Connection, run: int, login: Login) -> Iterator[psycopg.Connection]:
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as opened:
        opened.execute("SET statement_timeout = '20s'")
        yield opened


@pytest.fixture
def reader(login: Login, operator: psycopg.Connection) -> Iterator[psycopg.Connection]:
    """An analyst in the middle of a transaction that has read the release."""
    operator.execute("SELECT dbanon.publish(1, 'ten')")
    with psycopg.connect(login("dbanon_analyst")) as opened:
        assert value(opened, "SELECT count(*) FROM published.ten") == 4
        yield opened


def test_a_replaced_release_is_withdrawn_by_the_login_and_its_rows_are_gone(
    connection: psycopg.Connection, operator: psycopg.Connection
) -> None:
    operator.execute("SELECT dbanon.publish(1, 'ten')")
    (old,) = connection.execute("SELECT release_id FROM dbanon.release").fetchone() or (None,)
    assert value(connection, f"SELECT to_regclass('dbanon.release_{old}') IS NOT NULL") is True
    operator.execute(REPLACE)
    rows = connection.execute("SELECT withdrawn_by, withdrawn_at IS NULL FROM dbanon.release ORDER BY release_id")
    assert rows.fetchall() == [(operator.info.user, False), (None, True)]
    assert value(connection, f"SELECT to_regclass('dbanon.release_{old}')") is None
    assert value(connection, "SELECT count(*) FROM published.ten") == 4


def test_a_release_that_is_being_read_is_not_withdrawn_and_the_reader_is_named(
    connection: psycopg.Connection, operator: psycopg.Connection, reader: psycopg.Connection
) -> None:
    before = connection.execute(STATE).fetchone()
    began = time.monotonic()
    with pytest.raises(psycopg.Error, match=rf"is being read by {reader.info.user} \(") as caught:
        operator.execute(UNPUBLISH)
    assert caught.value.sqlstate == "DA013"
    assert time.monotonic() - began < 15
    assert connection.execute(STATE).fetchone() == before
    assert value(reader, "SELECT count(*) FROM published.ten") == 4
    reader.commit()
    assert value(operator, UNPUBLISH) == 1
    assert value(connection, "SELECT to_regclass('published.ten')") is None


def test_a_release_that_is_being_read_is_not_replaced_and_the_reader_is_named(
    connection: psycopg.Connection, operator: psycopg.Connection, reader: psycopg.Connection
) -> None:
    connection.execute("ALTER FUNCTION dbanon.take_view(text) SET lock_timeout = '200ms'")
    before = connection.execute(STATE).fetchone()
    with pytest.raises(psycopg.Error, match=rf"is being read by .*{reader.info.user} \(") as caught:
        operator.execute(REPLACE)
    assert caught.value.sqlstate == "DA013"
    assert connection.execute(STATE).fetchone() == before
    assert value(reader, "SELECT count(*) FROM published.ten") == 4
    reader.commit()
    assert value(operator, REPLACE) == 4


@pytest.mark.parametrize("statement", [UNPUBLISH, REPLACE])
def test_the_reader_in_the_way_is_named_once_and_nobody_else(
    connection: psycopg.Connection, operator: psycopg.Connection, reader: psycopg.Connection, statement: str
) -> None:
    connection.execute("ALTER FUNCTION dbanon.take_view(text) SET lock_timeout = '200ms'")
    with pytest.raises(psycopg.Error) as caught:
        operator.execute(statement)
    who = rf"{reader.info.user} \(process {reader.info.backend_pid}\)"
    assert re.search(rf"is being read by {who}\.$", caught.value.diag.message_primary or "")


def test_what_a_reader_made_of_a_release_does_not_keep_it_for_ever(
    connection: psycopg.Connection, operator: psycopg.Connection, reader: psycopg.Connection
) -> None:
    for step in ("take_view", "drop_view"):
        connection.execute(f"ALTER FUNCTION dbanon.{step}(text) SET lock_timeout = '200ms'")
    reader.execute("CREATE TEMP VIEW mine AS SELECT * FROM published.ten")
    reader.commit()
    reader.execute("COMMENT ON VIEW mine IS 'held, and the release itself is not'")
    before = connection.execute(STATE).fetchone()
    with pytest.raises(psycopg.Error, match=rf"is being read by {reader.info.user} \(") as caught:
        operator.execute(UNPUBLISH)
    assert caught.value.sqlstate == "DA013"
    assert connection.execute(STATE).fetchone() == before
    reader.commit()
    assert value(operator, UNPUBLISH) == 1


@contextmanager
def meanwhile(login: psycopg.Connection, statement: str) -> Iterator[Future[object]]:
    """Begin a statement that has to wait for what the block does."""
    done = in_background(value, login, statement)
    time.sleep(0.5)
    assert not done.done()
    yield done
    wait([done], timeout=10)


def test_a_withdrawal_waits_for_the_publication_that_replaces_it(
    connection: psycopg.Connection, operator: psycopg.Connection, login: Login
) -> None:
    operator.execute("SELECT dbanon.publish(1, 'ten')")
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as other:
        operator.execute("BEGIN")
        operator.execute(REPLACE)
        with meanwhile(other, UNPUBLISH) as withdrawn:
            operator.execute("COMMIT")
        assert withdrawn.result() == 1
    assert value(connection, "SELECT bool_and(withdrawn_at IS NOT NULL) FROM dbanon.release") is True
    assert value(connection, "SELECT to_regclass('published.ten')") is None


def test_nobody_is_renamed_while_a_release_is_being_published(operator: psycopg.Connection, login: Login) -> None:
    rename = "UPDATE dbanon.trajectory SET subject = 'other' WHERE subject = 'p0' RETURNING 1"
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as other:
        operator.execute("BEGIN")
        operator.execute("SELECT dbanon.publish(1, 'ten')")
        with meanwhile(other, rename) as renamed:
            operator.execute("COMMIT")
        with pytest.raises(psycopg.Error, match="must keep their names"):
            renamed.result()


def test_a_name_of_something_else_is_taken(connection: psycopg.Connection, operator: psycopg.Connection) -> None:
    connection.execute("CREATE DOMAIN published.ten AS text")
    with pytest.raises(psycopg.Error, match="which is no release") as caught:
        operator.execute("SELECT dbanon.publish(1, 'ten')")
    assert caught.value.sqlstate == "DA003"


def test_a_login_that_has_all_names_quoted_publishes_replaces_and_withdraws(
    connection: psycopg.Connection, operator: psycopg.Connection
) -> None:
    operator.execute("SET quote_all_identifiers = on")
    assert value(operator, "SELECT dbanon.publish(1, 'ten')") == 4
    connection.execute("CREATE VIEW public.mine AS SELECT * FROM published.ten")
    assert value(operator, REPLACE) == 4
    assert value(connection, "SELECT count(*) FROM public.mine") == 4
    assert value(operator, "SELECT dbanon.release_card('ten') ->> 'release'") == "ten"
    assert value(operator, UNPUBLISH) == 1
    with pytest.raises(psycopg.Error) as caught:
        operator.execute("SELECT dbanon.publish(1, 'select')")
    assert caught.value.sqlstate == "DA002"
