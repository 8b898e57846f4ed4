"""What is listed once: functions people call, tables that triggers and grants follow."""

import re
from pathlib import Path

import psycopg

from tests.golden import reference
from tests.reading import read_column, read_value

SQL = Path(__file__).parents[2] / "sql"

_COLUMN = """
SELECT array_agg(c.relname::text ORDER BY c.relname) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = 'dbanon'::regnamespace AND c.relkind = 'r' AND a.attname = %s AND c.relname <> ALL (%s)
"""
_TRIGGERS = """
SELECT array_agg(p.proname::text ORDER BY p.proname) FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = format('dbanon.%%I', %s::text)::regclass AND t.tgtype & 1 = 0 AND t.tgenabled = 'A'
"""
_RIGHTS = """
SELECT string_agg(x.privilege, ' ') FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) x (privilege)
WHERE has_table_privilege(%s, format('dbanon.%%I', %s::text), x.privilege)
"""


def read_list(connection: psycopg.Connection, name: str) -> list[str]:
    found = read_value(connection, f"SELECT dbanon_internal.{name}()")
    assert isinstance(found, list)
    return found


def test_every_table_of_loaded_data_or_of_runs_is_in_its_list(connection: psycopg.Connection) -> None:
    others = ["dataset", "fix_code", "load", "run", "verification", "evaluation", "release", "audit", "job_period"]
    others.append("signature")  # which a foreign key ties to its run
    for column, name in (("dataset_id", "list_data_tables"), ("run_id", "list_run_tables")):
        assert read_value(connection, _COLUMN, column, others) == sorted(read_list(connection, name))


def test_tables_in_the_lists_have_their_triggers_and_rights(connection: psycopg.Connection) -> None:
    every = "SELECT INSERT UPDATE DELETE"
    for table in read_list(connection, "list_data_tables"):
        own = ["code_fixes"] * 4 if table == "trajectory" else []
        own += ["guard_forgotten"] * 2 if table in ("trajectory", "request", "quasi_identifier") else []
        assert read_value(connection, _TRIGGERS, table) == ["audit_rows"] * 4 + ["bump_revision"] * 4 + own
        assert read_value(connection, _RIGHTS, "dbanon_operator", table) == every
        assert read_value(connection, _RIGHTS, "dbanon_worker", table) == "SELECT"
    for table in read_list(connection, "list_run_tables"):
        assert read_value(connection, _TRIGGERS, table) == ["guard_run_rows"] * 4
        assert read_value(connection, _RIGHTS, "dbanon_operator", table) is None
        assert read_value(connection, _RIGHTS, "dbanon_worker", table) == every


def test_triggers_are_made_in_one_file_and_on_the_tables_of_releases() -> None:
    files = {file.name for file in SQL.rglob("*.sql") if re.search("CREATE[A-Z ]* TRIGGER ", file.read_text())}
    assert files == {"85_triggers.sql", "22_series.sql"}


def test_schema_dbanon_has_the_functions_that_people_call_and_no_other(connection: psycopg.Connection) -> None:
    public = {name for names in reference.GROUPS.values() for name in names}
    found = [thing for thing in reference.read_things(connection) if thing.callable]
    assert {thing.name for thing in found if thing.schema == "dbanon"} <= public
    assert not {thing.name for thing in found if thing.schema in ("dbanon_internal", "published_inner")} & public
    assert {thing.schema for thing in found} == {"dbanon", "dbanon_internal", "published", "published_inner"}


def test_schema_published_has_the_functions_on_its_page_and_no_other(
    connection: psycopg.Connection,
) -> None:
    listed = read_column(connection, "SELECT proname FROM pg_proc WHERE pronamespace = 'published'::regnamespace")
    page = (reference.FOLDER / "sql-analysts.md").read_text()
    assert sorted(listed) == sorted(re.findall(r"^## (\w+)$", page, re.MULTILINE))


def test_helpers_lie_where_analysts_reach_nothing(connection: psycopg.Connection) -> None:
    for role, may in (("operator", True), ("worker", True), ("analyst", False)):
        query = "SELECT has_schema_privilege(%s, 'dbanon_internal', 'USAGE')"
        assert read_value(connection, query, f"dbanon_{role}") is may
