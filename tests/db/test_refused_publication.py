"""What is kept of a publication that was refused: true, short, and nothing that harms who reads it."""

from collections.abc import Callable

import psycopg
import pytest

from dbanon import releases
from dbanon.connection import errors_translated
from dbanon.errors import ParameterError
from tests.facts import names, refusal

NOTE = "SELECT dbanon_internal.note_refusal(%s, %s, %s, %s)"
KEPT = """SELECT r.publish_error, (
    SELECT array_agg(ARRAY[a.login, a.release, a.detail ->> 'sqlstate', a.detail ->> 'error'])
    FROM dbanon.audit a WHERE a.action = 'publish_refused' AND a.run_id = r.run_id) FROM dbanon.runs r"""


@pytest.mark.many
@pytest.mark.parametrize(
    ("noted", "kept"),
    [
        (("ten", "DA013", "It is being read."), ("It is being read.", "ten", "DA013")),
        (("ten", "DA013", "\x1b]0;\x9b\x7fmine\x07\n"), ("]0;  mine", "ten", "DA013")),
        (("ten", "DA013", "x" * 5000), ("x" * 1000, "ten", "DA013")),
        (("x\x1b", "DA002", "No."), ("No.", None, "DA002")),
        ((None, None, None), ("SQLSTATE", None, None)),
        (
            ("ten", "22P02", "invalid input: p-7.x"),
            ("SQLSTATE 22P02", "ten", "22P02"),
        ),
    ],
    ids=["plain", "escapes", "long", "no name", "nothing", "the server's own"],
)
def test_what_an_operator_notes_is_kept_in_its_own_name_and_cannot_harm_a_terminal(
    connection: psycopg.Connection,
    run: int,
    login: Callable[[str], str],
    noted: tuple[str | None, ...],
    kept: tuple[str, str | None, str | None],
) -> None:
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as operator:
        operator.execute(NOTE, [run, *noted])
        row = operator.execute(KEPT).fetchone()
        assert row is not None
        said, name, _ = kept
        names(row[0], said, *([name] if name else []))
        assert not set("7x") & set(row[0].replace(said, ""))  # nothing else of what was noted
        assert row[1][0][:3] == [operator.info.user, *kept[1:]]
        assert not set(row[0] + row[1][0][3]) & set("\x1b\x07\x9b\x7f\n")
        operator.execute(NOTE, [99, "ten", "DA013", "There is no such run."])
        assert operator.execute("SELECT dbanon.publish(1, 'ten')").fetchone() == (4,)
        assert operator.execute("SELECT publish_error FROM dbanon.runs").fetchone() == (None,)
    count = connection.execute("SELECT count(*) FROM dbanon.audit WHERE action = 'publish_refused'").fetchone()
    assert count == (1,)


@pytest.mark.parametrize("role", ["dbanon_analyst", "dbanon_worker"])
def test_who_may_not_publish_notes_nothing(run: int, login: Callable[[str], str], role: str) -> None:
    with psycopg.connect(login(role)) as other, pytest.raises(psycopg.errors.InsufficientPrivilege):
        other.execute(NOTE, [run, "ten", "DA013", "No."])


def test_a_refusal_that_cannot_be_noted_is_the_error_that_is_shown(connection: psycopg.Connection, run: int) -> None:
    """Another session has the run's row: only the audit gets its line."""
    connection.execute(
        "ALTER FUNCTION dbanon_internal.note_refusal(bigint, text, text, text) SET lock_timeout = '50ms'"
    )
    connection.execute("SELECT dbanon.publish(1, 'ten')")
    with psycopg.connect(connection.info.dsn, password=connection.info.password) as other:
        other.execute("UPDATE dbanon.run SET error = error")
        with refusal(ParameterError, "'ten'", "already"), errors_translated():
            releases.publish(connection, run, "ten")
    row = connection.execute(KEPT).fetchone()
    assert row is not None
    assert (row[0], row[1][0][2]) == (None, "DA003")
    connection.execute("DROP FUNCTION dbanon_internal.note_refusal(bigint, text, text, text)")
    with refusal(ParameterError, "'ten'", "already"), errors_translated():
        releases.publish(connection, run, "ten")
