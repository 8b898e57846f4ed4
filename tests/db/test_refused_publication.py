"""What is kept of a publication that was refused: what dbanon itself saw, and no word of the operator's."""

from collections.abc import Callable

import psycopg
import pytest

from dbanon import releases
from dbanon.base.errors import DbanonError, ParameterError
from dbanon.options.publishing import Publishing
from dbanon.postgres.connection import translate_errors
from tests.facts import demand_named, expect_refusal

TRY = "SELECT state FROM dbanon_internal.try_publish(%s, %s, false, false, %s, false, %s, false)"
KEPT = """SELECT r.publish_error, (
    SELECT array_agg(ARRAY[a.login, a.release, a.detail::text])
    FROM dbanon.audit a WHERE a.action = 'publish_refused' AND a.run_id = r.run_id) FROM dbanon.runs r"""
WORDS = "Anna Miller of 3 Elm Street was at the clinic\x1b]0;"


@pytest.mark.many
@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ((WORDS, None, None), (None, "DA002")),
        (("ten", WORDS, None), ("ten", "DA002")),
        (("ten", None, [WORDS]), ("ten", "DA011")),
        ((None, None, None), (None, "DA002")),
    ],
    ids=["name", "reason", "reader", "no name"],
)
def test_nothing_that_an_operator_writes_into_a_refused_publication_is_kept(
    connection: psycopg.Connection,
    run: int,
    login: Callable[[str], str],
    asked: tuple[str | None, str | None, list[str] | None],
    kept: tuple[str | None, str],
) -> None:
    release, state = kept
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as operator:
        assert operator.execute(TRY, [run, *asked]).fetchone() == (state,)
        row = operator.execute(KEPT).fetchone()
        assert row is not None
        demand_named(row[0], state, *([release] if release else []))
        assert row[1] == [[operator.info.user, release, f'{{"sqlstate": "{state}"}}']]
        assert not any(word in f"{row}" for word in ("Anna", "Elm", "\x1b"))
        operator.execute(TRY, [99, "ten", None, None])  # there is no such run
        assert operator.execute("SELECT dbanon.publish(1, 'ten')").fetchone() == (4,)
        assert operator.execute("SELECT publish_error FROM dbanon.runs").fetchone() == (None,)
    count = connection.execute("SELECT count(*) FROM dbanon.audit WHERE action = 'publish_refused'").fetchone()
    assert count == (1,)


def test_only_a_publication_that_was_tried_and_refused_is_noted(
    connection: psycopg.Connection, run: int, login: Callable[[str], str]
) -> None:
    """Nobody may note by hand; and what is tried and works is published."""
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as operator:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            operator.execute("SELECT dbanon_internal.note_refusal(1, 'ten', 'DA010', 'Anna was at the clinic')")
        assert operator.execute(TRY, [run, "ten", None, None]).fetchone() == (None,)
        assert operator.execute("SELECT count(*) FROM published.ten").fetchone() == (4,)
    assert connection.execute(KEPT).fetchall() == [(None, None)]


@pytest.mark.parametrize("role", ["dbanon_analyst", "dbanon_worker"])
def test_who_may_not_publish_notes_nothing(run: int, login: Callable[[str], str], role: str) -> None:
    with psycopg.connect(login(role)) as other, pytest.raises(psycopg.errors.InsufficientPrivilege):
        other.execute(TRY, [run, "ten", None, None])


def test_a_refusal_is_noted_in_the_sentence_of_dbanon_and_never_in_that_of_the_server(
    connection: psycopg.Connection, run: int
) -> None:
    connection.execute("SELECT dbanon.publish(1, 'ten')")
    with expect_refusal(ParameterError, "'ten'", "already"), translate_errors():
        releases.publish(connection, run, "ten", Publishing())
    row = connection.execute("SELECT publish_error FROM dbanon.runs").fetchone()
    demand_named(row and row[0], "ten", "already")
    connection.execute(
        "CREATE OR REPLACE FUNCTION dbanon_internal.describe_release(release_id bigint) RETURNS void "
        "LANGUAGE plpgsql AS $$ BEGIN PERFORM 'p-7.x'::integer; END $$"
    )
    with pytest.raises(DbanonError), translate_errors():
        releases.publish(connection, run, "more", Publishing())
    row = connection.execute("SELECT publish_error FROM dbanon.runs").fetchone()
    demand_named(row and row[0], "more", "22P02")
    assert "p-7.x" not in f"{row}"


def test_a_refusal_that_cannot_be_noted_is_the_error_that_is_shown(connection: psycopg.Connection, run: int) -> None:
    """Another session has the run's row: only the audit gets its line."""
    connection.execute(
        "ALTER FUNCTION dbanon_internal.note_refusal(bigint, text, text, text) SET lock_timeout = '50ms'"
    )
    connection.execute("SELECT dbanon.publish(1, 'ten')")
    with psycopg.connect(connection.info.dsn, password=connection.info.password) as other:
        other.execute("UPDATE dbanon.run SET error = error")
        with expect_refusal(ParameterError, "'ten'", "already"), translate_errors():
            releases.publish(connection, run, "ten", Publishing())
    row = connection.execute(KEPT).fetchone()
    assert row is not None
    assert (row[0], row[1][0][2]) == (None, '{"sqlstate": "DA003"}')
