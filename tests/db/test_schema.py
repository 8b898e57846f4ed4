"""The schema is what the golden listing says, on a fresh database, and stays so when the files are applied again."""

import json
import os
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from dbanon import schema
from dbanon.attacks import import_attacker, overlapping_records
from dbanon.base.errors import SchemaMismatch, StoreError
from dbanon.methods import METHODS
from dbanon.schema import _text
from tests.facts import expect_refusal

GOLDEN = Path(__file__).parents[1] / "golden"


def read_listing(connection: psycopg.Connection) -> str:
    with connection.transaction():
        connection.execute("SET LOCAL search_path = pg_catalog")
        rows = connection.execute((GOLDEN / "catalog.sql").read_text()).fetchall()
    return "".join(f"{row[0]}\n" for row in rows)


def test_a_fresh_upgrade_gives_the_golden_schema(connection: psycopg.Connection) -> None:
    found = read_listing(connection)
    if os.environ.get("DBANON_WRITE_GOLDEN"):
        (GOLDEN / "schema.txt").write_text(found)
    assert found == (GOLDEN / "schema.txt").read_text(), "run with DBANON_WRITE_GOLDEN=1 if the change is meant"


def test_applying_everything_again_changes_nothing(database: str, connection: psycopg.Connection) -> None:
    before = read_listing(connection)
    assert schema.upgrade(database, share_roles=True) == schema.EXPECTED_REVISION
    assert read_listing(connection) == before


def test_two_upgrades_at_once_both_succeed(database: str) -> None:
    found: list[object] = []

    def work() -> None:
        try:
            found.append(schema.upgrade(database, share_roles=True))
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [schema.EXPECTED_REVISION] * 2


def test_every_function_table_and_column_has_a_comment(connection: psycopg.Connection) -> None:
    bare = connection.execute(
        """
        SELECT oid::regprocedure::text FROM pg_proc
        WHERE pronamespace::regnamespace::text ~ '^dbanon' AND obj_description(oid, 'pg_proc') IS NULL
        UNION ALL
        SELECT format('%s.%s', c.relname, a.attname)
        FROM pg_class c CROSS JOIN LATERAL (
            SELECT attnum, attname FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 UNION SELECT 0, '') a
        WHERE c.relnamespace IN ('dbanon'::regnamespace, 'published'::regnamespace) AND c.relkind IN ('r', 'v')
            AND CASE a.attnum WHEN 0 THEN obj_description(c.oid, 'pg_class')
                              ELSE col_description(c.oid, a.attnum) END IS NULL
        """
    ).fetchall()
    assert bare == []


def test_comments_of_public_functions_say_what_goes_in_and_out(connection: psycopg.Connection) -> None:
    rows = connection.execute(
        "SELECT proname, obj_description(oid, 'pg_proc') FROM pg_proc WHERE pronamespace = 'dbanon'::regnamespace"
    ).fetchall()
    words = ("Arguments:", "Returns:", "Raises:", "Example:")
    assert len(rows) > 15
    assert [(name, word) for name, text in rows for word in words if word not in text] == []


def test_comments_of_helpers_are_one_sentence_and_one_on_errors(connection: psycopg.Connection) -> None:
    rows = connection.execute(
        "SELECT proname, obj_description(oid, 'pg_proc') FROM pg_proc"
        " WHERE pronamespace = 'dbanon_internal'::regnamespace"
    ).fetchall()
    purposes = [(name, re.split(r"(?<=\.)\s+Raises\s+an\s+error\s", text)[0]) for name, text in rows]
    assert [
        name for name, text in purposes if not re.fullmatch(r"(?s)[^a-z].*\.", text) or re.search(r"\.\s+[A-Z]", text)
    ] == []


def test_no_function_has_an_overload(connection: psycopg.Connection) -> None:
    rows = connection.execute(
        "SELECT proname FROM pg_proc WHERE pronamespace::regnamespace::text ~ '^dbanon'"
        " GROUP BY proname HAVING count(*) > 1"
    ).fetchall()
    assert rows == []


def test_security_definer_functions_pin_their_search_path(connection: psycopg.Connection) -> None:
    rows = connection.execute(
        "SELECT proname FROM pg_proc WHERE pronamespace::regnamespace::text ~ '^dbanon' AND prosecdef"
        " AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)"
    ).fetchall()
    assert rows == []


def test_security_definer_functions_do_not_run_as_a_superuser(connection: psycopg.Connection) -> None:
    rows = connection.execute(
        "SELECT DISTINCT r.rolname, r.rolsuper FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner"
        " WHERE p.pronamespace::regnamespace::text ~ '^dbanon'"
    ).fetchall()
    assert rows == [("dbanon_admin", False)]


def test_every_method_of_the_registry_is_in_the_database(connection: psycopg.Connection) -> None:
    rows = dict(connection.execute("SELECT name, traits FROM dbanon.method").fetchall())
    words = {name: {key: traits.pop(key) for key in ("clauses", "left_open")} for name, traits in rows.items()}
    expected = {method.name: json.loads(json.dumps(method.traits)) for method in METHODS.values()}
    expected["tp-aware"].pop("requires")  # tests/conftest.py drops it
    assert rows == expected
    for method in METHODS.values():
        attack = import_attacker(method.attack).attack
        clauses = (*attack.clauses, *overlapping_records.CLAUSES)
        known = {clause.name: {"plain": clause.plain, "test": clause.test} for clause in clauses}
        assert words[method.name] == {"clauses": known, "left_open": dict(attack.left_open)}


def test_check_accepts_a_current_schema(database: str, connection: psycopg.Connection) -> None:
    schema.demand_revision(connection)
    assert schema.is_current(database)


def test_check_says_what_to_run_for_an_empty_database(connection: psycopg.Connection) -> None:
    connection.execute("DROP SCHEMA dbanon CASCADE")
    with expect_refusal(SchemaMismatch, schema.EXPECTED_REVISION, "none", "`dbanon db upgrade`"):
        schema.demand_revision(connection)


@pytest.mark.parametrize(("found", "remedy"), [("0000", "`dbanon db upgrade`"), ("9999", "newer dbanon")])
def test_check_names_both_revisions(connection: psycopg.Connection, found: str, remedy: str) -> None:
    connection.execute("UPDATE dbanon.alembic_version SET version_num = %s", [found])
    with expect_refusal(SchemaMismatch, f"revision {found}", schema.EXPECTED_REVISION, remedy):
        schema.demand_revision(connection)


def test_upgrading_a_newer_schema_is_refused(database: str, connection: psycopg.Connection) -> None:
    connection.execute("UPDATE dbanon.alembic_version SET version_num = '9999'")
    with expect_refusal(SchemaMismatch, "revision 9999", schema.EXPECTED_REVISION, "newer dbanon"):
        schema.upgrade(database, share_roles=True)


def test_a_broken_sql_file_rolls_everything_back(
    database: str, connection: psycopg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_listing(connection)
    shutil.copytree(_text.locate_folder("sql"), tmp_path / "sql")
    (tmp_path / "sql" / "06_fine.sql").write_text("CREATE TABLE dbanon.left_behind ();")
    (tmp_path / "sql" / "07_broken.sql").write_text("SELECT nonsense;")
    find = _text.locate_folder
    monkeypatch.setattr(_text, "locate_folder", lambda name: tmp_path / "sql" if name == "sql" else find(name))
    with pytest.raises(StoreError, match="nonsense"):
        schema.upgrade(database, share_roles=True)
    assert read_listing(connection) == before


def test_a_login_without_rights_is_told_who_may_upgrade(
    connection: psycopg.Connection, login: Callable[[str], str]
) -> None:
    with expect_refusal(StoreError, "superuser", "dbanon_admin", "`dbanon db upgrade`"):
        schema.upgrade(login("dbanon_operator"), share_roles=True)


def test_a_member_of_the_admin_role_may_upgrade(login: Callable[[str], str]) -> None:
    assert schema.upgrade(login("dbanon_admin"), share_roles=True) == schema.EXPECTED_REVISION
