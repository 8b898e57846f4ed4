"""Roles are the server's: their names are chosen for each database, and a copy of one chooses again."""

import re
import subprocess
from collections.abc import Callable

import psycopg
import pytest

from dbanon import schema
from dbanon.base.errors import ParameterError, StoreError
from dbanon.schema import _roles, _text
from dbanon.testing import database_url
from tests.acceptance.commands import call
from tests.clients import find_client
from tests.db.conftest import RUN, VERIFY
from tests.db.parts import run_of
from tests.db.test_dump_restore import dump_database
from tests.facts import expect_refusal
from tests.hints import find_quoted, tries

Empty = Callable[..., str]


def add_login(url: str, role: str) -> str:
    """Make a login that is a member of the role; returns its URL. Its name is that of the role and ``_login``."""
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"DROP ROLE IF EXISTS {role}_login; CREATE ROLE {role}_login LOGIN PASSWORD 'x' IN ROLE {role}")
    return database_url(url, user=f"{role}_login", password="x")


def drop_login(url: str, role: str) -> None:
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"DROP ROLE {role}_login")


def may_read(url: str, table: str) -> bool:
    with psycopg.connect(url, autocommit=True) as connection:
        try:
            connection.execute(f"SELECT * FROM {table} LIMIT 1")
        except psycopg.errors.InsufficientPrivilege:
            return False
    return True


@pytest.mark.stress
def test_an_operator_of_one_database_reads_nothing_of_another(empty: Empty, prefixes: list[str]) -> None:
    here, there = empty(), empty()
    schema.upgrade(here, role_prefix=prefixes[0])
    schema.upgrade(there, role_prefix=prefixes[1])
    operator = add_login(here, f"{prefixes[0]}_operator")
    try:
        assert may_read(operator, "dbanon.trajectory")
        elsewhere = {"dbname": psycopg.conninfo.conninfo_to_dict(there)["dbname"]}
        assert not may_read(database_url(operator, **elsewhere), "dbanon.trajectory")
    finally:
        drop_login(here, f"{prefixes[0]}_operator")


@pytest.mark.stress
def test_roles_that_another_database_uses_are_not_taken_unasked(empty: Empty, prefixes: list[str]) -> None:
    prefix = prefixes[0]
    first, second = empty(), empty()
    schema.upgrade(first, role_prefix=prefix)
    add_login(first, f"{prefix}_operator")
    try:
        done = call(second, "db", "upgrade", "--role-prefix", prefix)
        assert done.code == 2
        for fact in (f"{prefix}_operator_login ({prefix}_operator)", "--role-prefix", "--share-roles"):
            assert fact in done.sentence
        assert str(psycopg.conninfo.conninfo_to_dict(first)["dbname"]) in done.sentence
        assert call(second, "db", "upgrade", "--role-prefix", prefix, "--share-roles").code == 0
        assert call(second, "db", "upgrade").code == 0  # the choice is kept
    finally:
        drop_login(first, f"{prefix}_operator")


@tries("Choose other names with --role-prefix, or, if it was made for this")
def test_roles_left_by_a_dropped_database_let_their_members_in_only_if_asked(empty: Empty, prefixes: list[str]) -> None:
    prefix, url = prefixes[0], empty()
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {prefix}_analyst")
        with expect_refusal(ParameterError, "--role-prefix", f"COMMENT ON ROLE {prefix}_analyst IS") as caught:
            schema.upgrade(url, role_prefix=prefix)
        [comment] = find_quoted(str(caught.value))
        owner.execute(comment.encode())
    add_login(url, f"{prefix}_analyst")
    try:
        with pytest.raises(ParameterError, match=f"{prefix}_analyst_login"):
            schema.upgrade(url, role_prefix=prefix)
        schema.upgrade(url, role_prefix=prefix, share_roles=True)
    finally:
        drop_login(url, f"{prefix}_analyst")


def test_roles_that_another_session_holds_are_not_waited_for_forever(
    empty: Empty, prefixes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another session makes the roles, changes the admin role, or grants one."""
    monkeypatch.setattr(_text, "LOCK_WAIT_S", 0.3)
    prefix, url = prefixes[0], empty()
    roles = _roles.list_names(prefix)
    with psycopg.connect(url, autocommit=True) as owner, psycopg.connect(url) as other:
        process = f"(process {other.info.backend_pid})"
        other.execute(f"CREATE ROLE {roles[0]}")
        with expect_refusal(StoreError, f"{prefix}_*", process):
            schema.upgrade(url, role_prefix=prefix)
        other.rollback()
        for role, purpose in zip(roles, _roles.PURPOSES.values(), strict=True):
            owner.execute(f"CREATE ROLE {role}; COMMENT ON ROLE {role} IS 'dbanon: {purpose}'")
        for statement in (f"ALTER ROLE {prefix}_admin NOLOGIN", f"GRANT {prefix}_analyst TO {prefix}_operator"):
            other.execute(statement)
            with expect_refusal(StoreError, f"{prefix}_*", process):
                schema.upgrade(url, role_prefix=prefix)
            other.rollback()
    assert schema.upgrade(url, role_prefix=prefix) == schema.EXPECTED_REVISION


def test_a_membership_that_another_session_grants_is_not_waited_for_forever(
    empty: Empty, user: str, prefixes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The login is dropped after the roles, whose memberships it granted."""
    monkeypatch.setattr(_text, "LOCK_WAIT_S", 0.3)
    prefix, url = prefixes[0], empty(user)
    own = database_url(url, user=user, password=user)
    with psycopg.connect(url) as other, psycopg.connect(own, autocommit=True) as owner:
        other.execute("CREATE EXTENSION postgis")
        other.commit()
        for role, purpose in zip(_roles.list_names(prefix), _roles.PURPOSES.values(), strict=True):
            owner.execute(f"CREATE ROLE {role}; COMMENT ON ROLE {role} IS 'dbanon: {purpose}'")
        other.execute(f"GRANT {prefix}_admin TO {user}")
        with expect_refusal(StoreError, f"{prefix}_*", f"(process {other.info.backend_pid})"):
            schema.upgrade(own, role_prefix=prefix)
        other.rollback()
    assert schema.upgrade(own, role_prefix=prefix) == schema.EXPECTED_REVISION


@pytest.mark.many
@tries("Choose another with --role-prefix")
def test_another_prefix_is_chosen_as_proposed(empty: Empty, prefixes: list[str]) -> None:
    url = empty()
    [option] = re.findall(r"--[a-z-]+", call(url, "db", "upgrade", "--role-prefix", "Dbanon").sentence)
    assert call(url, "db", "upgrade", option, prefixes[0]).code == 0


@pytest.mark.parametrize("prefix", ["", "Dbanon", "1a", "a-b", "a;DROP", "x" * 41])
def test_a_prefix_must_be_a_plain_name(empty: Empty, prefix: str) -> None:
    with pytest.raises(ParameterError, match="--role-prefix"):
        schema.upgrade(empty(), role_prefix=prefix)


def list_rights(url: str, pattern: str) -> list[str]:
    """Every right in the database of roles of that name, and what they own."""
    query = """
        SELECT format('%%s %%s %%s', pg_describe_object(s.classid, s.objid, s.objsubid), s.deptype, s.refobjid::regrole)
        FROM pg_shdepend s JOIN pg_database d ON d.datname = current_database()
        WHERE s.refclassid = 'pg_authid'::regclass AND s.refobjid::regrole::text ~ %s
            AND (s.dbid = d.oid OR s.classid = 'pg_database'::regclass AND s.objid = d.oid) ORDER BY 1
    """
    with psycopg.connect(url, autocommit=True) as connection:
        return [line for (line,) in connection.execute(query, [pattern])]


@pytest.fixture(params=[(), ("--no-owner",)], ids=["as dumped", "owned by who restores"])
def restored(
    connection: psycopg.Connection, run: int, database: str, empty: Empty, request: pytest.FixtureRequest
) -> str:
    """URL of a restored copy of a database with a live release."""
    connection.execute("SELECT dbanon.publish(1, 'ten')")
    url = empty()
    restore = [*find_client("pg_restore", url), "--exit-on-error", *request.param, "-d", url]
    subprocess.run(restore, check=True, input=dump_database(database))
    return url


@pytest.mark.stress
def test_a_dump_restored_beside_the_original_moves_to_roles_of_its_own(
    restored: str, empty: Empty, prefixes: list[str]
) -> None:
    url = restored
    assert list_rights(url, "^dbanon_")
    with pytest.raises(ParameterError, match="--share-roles"):
        schema.upgrade(url)
    schema.upgrade(url, role_prefix=prefixes[0])
    assert list_rights(url, "^dbanon_") == []
    moved = [re.sub(rf"{prefixes[0]}_", "dbanon_", line) for line in list_rights(url, f"^{prefixes[0]}_")]
    fresh = empty()
    schema.upgrade(fresh, share_roles=True, restrict_public=True)
    expected = set(list_rights(fresh, "^dbanon_"))
    release = re.compile(r"release_1|published\.ten|database dbanon_empty|extension|default")
    assert {line for line in moved if not release.search(line)} == {
        line for line in expected if not release.search(line)
    }
    analyst = add_login(url, f"{prefixes[0]}_analyst")
    try:
        assert may_read(analyst, "published.ten")
        assert not may_read(analyst, "dbanon.trajectory")
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute(f"SET ROLE {prefixes[0]}_operator")
            owner.execute("SELECT dbanon.unpublish('ten')")
    finally:
        drop_login(url, f"{prefixes[0]}_analyst")


def test_an_upgrade_gives_the_right_to_end_sessions_where_it_may(empty: Empty, prefixes: list[str]) -> None:
    url, admin = empty(), f"{prefixes[0]}_admin"
    schema.upgrade(url, role_prefix=prefixes[0])
    with psycopg.connect(url, autocommit=True) as owner:
        has = f"SELECT pg_has_role('{admin}', 'pg_signal_backend', 'USAGE')"
        assert owner.execute(has).fetchone() == (True,)
        owner.execute(f"REVOKE pg_signal_backend FROM {admin}")
        try:
            schema.upgrade(add_login(url, admin))  # goes on without
            assert owner.execute(has).fetchone() == (False,)
        finally:
            drop_login(url, admin)
        schema.upgrade(url)
        assert owner.execute(has).fetchone() == (True,)


def test_an_upgrade_offers_limits_for_logins_that_only_read_releases(empty: Empty, prefixes: list[str]) -> None:
    url, prefix = empty(), prefixes[0]
    schema.upgrade(url, role_prefix=prefix)
    roles = [f"{prefix}_{role}" for role in ("analyst", "operator")]

    def offered() -> list[str]:
        said: list[str] = []
        schema.upgrade(url, say=said.append)
        return [statement for line in said for statement in re.findall(r"`(ALTER ROLE [^`]*)`", line)]

    assert offered() == []
    for role in roles:
        add_login(url, role)
    try:
        statements = offered()
        assert [statement.split("=")[0] for statement in statements] == [
            f"ALTER ROLE {prefix}_analyst_login SET {name} " for name in ("statement_timeout", "temp_file_limit")
        ]
        for statement in statements:
            with psycopg.connect(url, autocommit=True) as owner:
                owner.execute(statement)
            assert statement not in offered()
        assert offered() == []
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute(f"ALTER ROLE {prefix}_analyst_login SET temp_file_limit = -1")  # which is no limit
            assert offered() == statements[1:]
            owner.execute(f"ALTER ROLE {prefix}_analyst_login RESET ALL")
            owner.execute("ALTER SYSTEM SET statement_timeout = '4min'")
            owner.execute("SELECT pg_reload_conf()")
            try:
                while owner.execute("SHOW statement_timeout").fetchone() != ("4min",):
                    pass
                assert offered() == statements[1:]  # 5 minutes would be more than what holds for all
            finally:
                owner.execute("ALTER SYSTEM RESET statement_timeout")
                owner.execute("SELECT pg_reload_conf()")
    finally:
        for role in roles:
            drop_login(url, role)


def test_a_dump_restored_where_the_roles_were_missing_is_mended_by_one_upgrade(
    empty: Empty, prefixes: list[str]
) -> None:
    url, copied = empty(), empty()
    schema.upgrade(url, share_roles=True)
    single, other = f"{prefixes[0]}_admin", f"{prefixes[0]}_analyst"  # which the fixture drops
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {single}; CREATE ROLE {other}")
        connection.execute(RUN)
        connection.execute(VERIFY, [True])
        connection.execute("SELECT dbanon.publish(1, 'ten')")
        connection.execute(f"SELECT dbanon.publish(%s, 'few', readers => ARRAY['{single}'])", [run_of(connection, 40)])
        connection.execute("REVOKE SELECT ON published.ten FROM dbanon_analyst")
    roles = ["dbanon_analyst", "dbanon_operator", single, other]

    def readers(of: str) -> list[tuple[str, str]]:
        query = """
            SELECT r.rolname, c.relname FROM pg_class c, pg_roles r
            WHERE c.relnamespace = 'published'::regnamespace AND c.relname IN ('ten', 'few', 'releases')
                AND r.rolname = ANY (%s) AND has_table_privilege(r.oid, c.oid, 'SELECT')
                AND has_schema_privilege(r.oid, 'published', 'USAGE') ORDER BY 1, 2
        """
        with psycopg.connect(of) as reader:
            return reader.execute(query, [roles]).fetchall()

    schema.upgrade(url)
    assert ("dbanon_analyst", "ten") not in readers(url)  # what was taken by hand stays taken
    restore = [*find_client("pg_restore", url), "--exit-on-error", "--no-owner", "--no-privileges", "-d", copied]
    subprocess.run(restore, check=True, input=dump_database(url))
    assert readers(copied) == []
    schema.upgrade(copied, share_roles=True)
    assert readers(copied) == sorted(
        [
            *((role, name) for role in ("dbanon_analyst", "dbanon_operator") for name in ("releases", "ten")),
            ("dbanon_operator", "few"),
            (single, "few"),
            (single, "releases"),
        ]
    )
