"""Hostile names and values stay names and values."""

from collections.abc import Callable

import psycopg
import pytest

from tests.db.methods import change_methods


@pytest.fixture
def connection(scratch: psycopg.Connection) -> psycopg.Connection:
    """Nothing here commits."""
    return scratch


@pytest.fixture
def run(scratch: psycopg.Connection) -> int:
    """The run is there already."""
    return 1


HOSTILE = [
    "",
    "Ten",
    "1ten",
    "_ten",
    "ten-june",
    "ten june",
    "ten\n",
    "\nten",
    "zoë",
    "ｔen",
    "ten;drop table dbanon.run",
    'ten"; DROP TABLE dbanon.run; --',
    "ten'; DROP TABLE dbanon.run; --",
    "published.ten",
    "ten%I",
    "ten$1",
    "select",
    "user",
    "between",
    "releases",
    "columns",
    "left_out",
    "a" * 51,
    "a" * 5000,
]


@pytest.mark.many
@pytest.mark.parametrize("name", [*HOSTILE, None])
@pytest.mark.parametrize("call", ["dbanon.publish(1, %s)", "dbanon.unpublish(%s)"])
def test_a_name_that_would_need_quotes_is_refused(
    connection: psycopg.Connection, run: int, name: str | None, call: str
) -> None:
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        connection.execute(f"SELECT {call}", [name])
    assert caught.value.sqlstate == "DA002"
    assert len(str(caught.value.diag.message_primary)) < 300


@pytest.mark.many
@pytest.mark.parametrize("name", ["a", "ten_2", "a" * 50, "pg_ten", "name", "record_id"])
def test_plain_names_are_accepted(connection: psycopg.Connection, run: int, name: str) -> None:
    connection.execute("SELECT dbanon.publish(1, %s)", [name])
    assert connection.execute(f"SELECT count(*) FROM published.{name}").fetchone() == (4,)


NASTY = "'); DROP TABLE dbanon.run; --\"%I%L%s$$"


def test_texts_of_runs_and_methods_are_only_texts(own: psycopg.Connection, verify: Callable[..., None]) -> None:
    change_methods(
        own,
        "UPDATE dbanon.method SET guarantee = %(n)s, columns = jsonb_build_array(jsonb_build_object("
        "'name', %(n)s::text, 'sql_type', 'text', 'default', %(n)s::text, 'comment', %(n)s::text))",
        {"n": NASTY},
    )
    own.execute("UPDATE dbanon.run SET params = params || jsonb_build_object('cloak', %s::text)", [NASTY])
    verify(own)
    own.execute("SELECT dbanon.publish(1, 'ten')")
    row = own.execute("SELECT to_jsonb(t) -> %s FROM published.ten t LIMIT 1", [NASTY]).fetchone()
    assert row == (NASTY,)


@pytest.mark.many
@pytest.mark.parametrize(
    "kind", ["text); DROP TABLE dbanon.run; --", "text NOT NULL", "no_such_type", "text DEFAULT now()"]
)
def test_a_column_type_must_be_the_name_of_a_type(own: psycopg.Connection, kind: str) -> None:
    change_methods(
        own, "UPDATE dbanon.method SET columns = jsonb_set(columns, '{0,sql_type}', to_jsonb(%s::text))", [kind]
    )
    with pytest.raises(psycopg.Error), own.transaction():
        own.execute("SELECT dbanon.publish(1, 'ten')")
    assert own.execute("SELECT count(*) FROM dbanon.run").fetchone() == (1,)


def test_objects_of_the_caller_do_not_stand_in_for_those_of_the_gate(own: psycopg.Connection) -> None:
    own.execute("CREATE SCHEMA evil")
    own.execute("CREATE FUNCTION evil.sha256(bytea) RETURNS bytea LANGUAGE sql AS $$SELECT ''::bytea$$")
    own.execute("CREATE TABLE evil.run AS SELECT * FROM dbanon.run")
    own.execute("CREATE TEMP TABLE pg_class (relname name, relnamespace regnamespace)")
    own.execute("SET search_path = evil, pg_temp, pg_catalog, public")
    own.execute("DELETE FROM dbanon.membership WHERE trajectory_id = 104")
    with pytest.raises(psycopg.Error) as caught, own.transaction():
        own.execute("SELECT dbanon.publish(1, 'ten')")
    assert caught.value.sqlstate == "DA005"
