"""SQL in what the server says, as the command line writes it; what both say in the same words; lost connections."""

import ast
import re
from pathlib import Path

import psycopg
import pytest

from dbanon.base.errors import SchemaMismatch, StoreError
from dbanon.postgres.sqlstate import adapt_to_command_line, is_passing, translate


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("Type: SELECT dbanon.cancel_run(7).", "Type: `dbanon cancel 7`."),
        ("Type: SELECT * FROM dbanon.runs.", "Type: `dbanon runs`."),
        ("Type: SELECT * FROM dbanon.runs WHERE run_id = 7.", "Type: `dbanon runs`."),
        ("Type: SELECT dbanon.unpublish('cabs').", "Type: `dbanon unpublish cabs`."),
        ("Type: CALL dbanon.anonymize(...).", "Type: `dbanon run`."),
        (
            "Type: SELECT * FROM dbanon.import_trajectories(..., mode => 'replace').",
            "Type: `dbanon load trajectories --replace`.",
        ),
        ("Name them: columns => ARRAY['poi', 'radius'].", "Name them: --columns poi,radius."),
        ("Name them: readers => ARRAY['auditors', 'Board'].", "Name them: --readers auditors --readers Board."),
        ("Or allow_overlap => true with reason => '...'.", "Or --allow-overlap with --reason."),
        (r"Add reason => E'in c:\\data, it''s ours'.", r"""Add --reason 'in c:\data, it'"'"'s ours'."""),
        (
            "End them: SELECT dbanon.unpublish('cabs', end_readers => true).",
            "End them: `dbanon unpublish cabs --end-readers`.",
        ),
        (
            "SELECT dbanon.publish(7, 'cabs', replace => true, allow_overlap => true, "
            "reason => 'read by Ann''s group (two), no others', end_readers => true).",
            "`dbanon publish 7 cabs --replace --allow-overlap "
            """--reason 'read by Ann'"'"'s group (two), no others' --end-readers`.""",
        ),
        ("Read it: SELECT * FROM dbanon.audit.", "Read it: SELECT * FROM dbanon.audit."),
    ],
)
def test_sql_is_written_as_the_command_line_does(said: str, written: str) -> None:
    assert adapt_to_command_line(said) == written


@pytest.mark.parametrize("missing", ["InvalidSchemaName", "UndefinedTable", "UndefinedFunction", "UndefinedObject"])
def test_where_schema_or_roles_are_missing_the_error_says_what_makes_them(missing: str) -> None:
    error = translate(getattr(psycopg.errors, missing)('role "dbanon_operator" does not exist'))
    assert isinstance(error, SchemaMismatch)
    assert "`dbanon db upgrade`" in str(error)


ROOT = Path(__file__).parents[2]
FOR_THE_COMMAND_LINE = re.compile(r"`dbanon |(?<![\w-])--[a-z]|(?<![\w-])-p ")


def list_sentences(file: Path) -> list[str]:
    """All texts of a program that are not its documentation."""
    tree = ast.parse(file.read_text())
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docs = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, documented)}
    return [text for text in texts if text not in docs]


# What a run ends with is stored once, for psql and the command line: docs/developers/decisions/runs.md says why.
@pytest.mark.parametrize("package", ["methods", "attacks", "base/trajectory.py", "runs/pipeline.py"])
def test_what_a_run_ends_with_is_right_in_psql_and_on_the_command_line(package: str) -> None:
    found = ROOT / "dbanon" / package
    files = sorted(found.glob("*.py")) if found.is_dir() else [found]
    assert files
    assert [text for file in files for text in list_sentences(file) if FOR_THE_COMMAND_LINE.search(text)] == []


# What installs and upgrades is run by `dbanon db upgrade`, or made by `dbanon db script`: there are no functions yet.
_OF_AN_UPGRADE = ("00_before", "95_after")
_FUNCTIONS = sorted(file for file in (ROOT / "sql").rglob("*.sql") if file.parent.name not in _OF_AN_UPGRADE)


@pytest.mark.parametrize("file", _FUNCTIONS, ids=lambda file: file.name)
def test_the_database_never_speaks_in_options_of_the_command_line(file: Path) -> None:
    code = re.sub(r"^COMMENT ON .*?';$|--\s.*?$|--$", "", file.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert FOR_THE_COMMAND_LINE.findall(code) == []


# ---- connections: no driver tells the SQLSTATE of one that was not to be had -----------------------------------------

_SOCKET = 'connection to server on socket "/run/.s.PGSQL.5432" failed: '
_HOST = 'connection to server at "10.0.0.1", port 5432 failed: '


@pytest.mark.parametrize(
    ("words", "state", "fact"),
    [
        (_SOCKET + 'FATAL:  database "nodb" does not exist', "3D000", 'database "nodb" does not exist.'),
        (_HOST + 'FATAL:  role "terminator" does not exist', "28000", 'role "terminator" does not exist.'),
        (_HOST + 'FATAL:  no pg_hba.conf entry for host "10.0.0.2", user "u", database "d"', "28000", '"10.0.0.2"'),
        (_HOST + 'FATAL:  Peer authentication failed for user "u"', "28000", 'failed for user "u".'),
        (_HOST + 'FATAL:  password authentication failed for user "u"', "28P01", 'failed for user "u".'),
        (_HOST + "fe_sendauth: no password supplied", "28P01", "password"),
        (_SOCKET + "FATAL:  sorry, too many clients already", "53300", "sorry, too many clients already."),
        (
            _SOCKET + "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute",
            "53300",
            "reserved for roles with the SUPERUSER attribute.",
        ),
        (_SOCKET + 'FATAL:  too many connections for database "d"', "53300", 'for database "d".'),
        (_HOST + "FATAL:  Datenbank »nodb« existiert nicht", "08004", "Datenbank »nodb« existiert nicht."),
        (_HOST + "ВАЖНО:  извините, уже слишком много клиентов", "08004", "извините, уже слишком много клиентов."),
        (_HOST + "FATAL:  lured \x1b[2Jaway", "08004", "lured ?[2Jaway."),
        (_SOCKET + "FATAL:  the database system is starting up", "57P03", "starting"),
        (_HOST + "could not connect\n" + _SOCKET + 'FATAL:  database "b" does not exist', "3D000", '"b"'),
        (_HOST + "Connection refused\n\tIs the server running on that host?", "08001", "--dsn"),
        (_HOST + "Connection timed out", "08001", "--dsn"),
        (_SOCKET + "Resource temporarily unavailable", "08001", "--dsn"),
        ("could not receive data from server: Connection reset by peer", "08006", "lost"),
        ("no connection to the server", "08006", "lost"),
        ("SSL connection has been closed unexpectedly", "08006", "lost"),
        ("the connection is closed", "08006", "lost"),
    ],
)
def test_a_connection_that_is_not_to_be_had_passes_and_its_reason_is_named(words: str, state: str, fact: str) -> None:
    told = translate(psycopg.OperationalError(f"connection failed: {words}"))
    assert isinstance(told, StoreError)
    assert (told.sqlstate, is_passing(told)) == (state, True)
    assert fact in str(told)


@pytest.mark.parametrize("state", ["42501", "53100", "53200", "22023", "57014", "25006", None])
def test_what_will_not_pass_is_not_tried_again(state: str | None) -> None:
    told = translate(psycopg.errors.lookup(state)("Not so.") if state else psycopg.ProgrammingError("Not so."))
    assert isinstance(told, StoreError)
    assert not is_passing(told)
    assert "Not so" not in str(told)


def test_a_pooler_that_finds_no_connection_for_a_statement_says_why() -> None:
    told = translate(psycopg.errors.TooManyConnections("sorry, too many clients already\nDETAIL:  secret"))
    assert isinstance(told, StoreError)
    assert (told.sqlstate, is_passing(told)) == ("53300", True)
    assert "too many clients" in str(told)
    assert "secret" not in str(told)
