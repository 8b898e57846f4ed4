"""What a login that may create in the database has put under dbanon's names is neither run nor believed."""

import secrets
from collections.abc import Callable

import psycopg
import pytest

from dbanon import schema
from dbanon.base.errors import ParameterError, SchemaMismatch, StoreError
from dbanon.schema import _roles, _text
from dbanon.testing import database_url
from tests import here
from tests.acceptance.commands import call
from tests.facts import demand_refused, expect_refusal
from tests.hints import tries

Empty = Callable[..., str]

# A cast is called wherever a value of the type is compared, whatever the search_path is.
_BAIT = """
CREATE SCHEMA h; CREATE TABLE h.called (login text); GRANT ALL ON h.called TO PUBLIC; GRANT USAGE ON SCHEMA h TO PUBLIC;
CREATE TYPE h.version AS ENUM ('0003', '0004');
CREATE FUNCTION h.evil(h.version) RETURNS text LANGUAGE sql AS $$
    INSERT INTO h.called VALUES (current_user); SELECT '0003'::text $$;
CREATE FUNCTION h.number(h.version) RETURNS oid LANGUAGE sql AS $$
    INSERT INTO h.called VALUES (current_user); SELECT 1::oid $$;
CREATE CAST (h.version AS text) WITH FUNCTION h.evil(h.version) AS IMPLICIT;
CREATE CAST (h.version AS oid) WITH FUNCTION h.number(h.version) AS IMPLICIT;
CREATE SCHEMA dbanon;
CREATE TABLE dbanon.alembic_version (version_num h.version);
CREATE TABLE dbanon.installation (role_prefix h.version, database_oid h.version, server_identifier bigint);
INSERT INTO dbanon.alembic_version VALUES ('0003');
INSERT INTO dbanon.installation VALUES ('0003', '0003', 1);
CREATE VIEW dbanon.release AS SELECT h.evil('0003') AS name, NULL::timestamptz AS withdrawn_at;
CREATE TABLE dbanon.changed_right (object text, grantee text);
INSERT INTO dbanon.changed_right VALUES ('pg_locks TO PUBLIC; CREATE ROLE planted; --', 'PUBLIC');
GRANT USAGE ON SCHEMA dbanon TO PUBLIC; GRANT ALL ON ALL TABLES IN SCHEMA dbanon TO PUBLIC;
"""


@pytest.mark.stress
@pytest.mark.parametrize("owns", [True, False], ids=["owner of the database", "may create in it"])
def test_nothing_planted_runs_with_the_rights_of_a_superuser(empty: Empty, user: str, owns: bool) -> None:
    url = empty(owner=user if owns else None)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"GRANT CREATE ON DATABASE {connection.info.dbname} TO {user}")
    with psycopg.connect(database_url(url, user=user, password=user), autocommit=True) as hostile:
        hostile.execute(_BAIT)
        with psycopg.connect(url) as connection, pytest.raises(SchemaMismatch):
            schema.demand_revision(connection)
        for words in (("runs",), ("db", "upgrade", "--share-roles"), ("db", "uninstall", "--yes")):
            done = call(url, *words)
            assert (words, done.code) == (words, 0 if "uninstall" in words else 1)
        assert hostile.execute("SELECT * FROM h.called").fetchall() == []
        assert hostile.execute("SELECT count(*) FROM pg_roles WHERE rolname = 'planted'").fetchone() == (0,)
        assert hostile.execute("SELECT to_regclass('dbanon.installation') IS NULL").fetchone() == (False,)


@pytest.mark.parametrize("name", ["dbanon", "dbanon_internal"])
def test_who_may_create_in_dbanons_schemas_is_refused(empty: Empty, user: str, name: str) -> None:
    url = empty()
    schema.upgrade(url, share_roles=True)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"GRANT CREATE ON SCHEMA {name} TO {user}")
        with pytest.raises(StoreError, match=f"right to create in schema {name} of {user}"):
            schema.upgrade(url)
        connection.execute(f"REVOKE CREATE ON SCHEMA {name} FROM {user}; CREATE DOMAIN {name}.odd AS text")
        connection.execute(f"ALTER DOMAIN {name}.odd OWNER TO {user}")
        with pytest.raises(StoreError, match=rf"{name}\.odd of {user}"):
            schema.upgrade(url)


@pytest.mark.parametrize("name", ["dbanon_internal", "published"])
def test_a_schema_of_another_program_stays_what_it_is(empty: Empty, name: str) -> None:
    url = empty()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}; CREATE TABLE {name}.pages (a int)")
        done = call(url, "db", "uninstall", "--yes")
        assert (done.code, done.stdout.startswith("Nothing")) == (0, True)
        with expect_refusal(StoreError, f"schema {name}", "already"):
            schema.upgrade(url, share_roles=True)
        assert connection.execute(f"SELECT count(*) FROM {name}.pages").fetchone() == (0,)


def test_a_helper_that_was_planted_beforehand_is_called_by_nobody(empty: Empty, user: str) -> None:
    url = empty()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"GRANT CREATE ON DATABASE {connection.info.dbname} TO {user}")
    with psycopg.connect(database_url(url, user=user, password=user), autocommit=True) as hostile:
        hostile.execute(
            "CREATE SCHEMA dbanon_internal; GRANT USAGE ON SCHEMA dbanon_internal TO PUBLIC;"
            "CREATE FUNCTION dbanon_internal.name_role(role text) RETURNS text LANGUAGE sql"
            " AS 'SELECT current_user::text'"
        )
        with pytest.raises(StoreError, match=f"schema dbanon_internal of {user}"):
            schema.upgrade(url, share_roles=True)
        assert call(url, "db", "uninstall", "--yes").code == 0
        assert hostile.execute("SELECT dbanon_internal.name_role('x')").fetchone() == (user,)
        hostile.execute("DROP SCHEMA dbanon_internal CASCADE")
    assert schema.upgrade(url, share_roles=True) == schema.EXPECTED_REVISION


@pytest.mark.many
@pytest.mark.parametrize("attribute", ["LOGIN", "SUPERUSER", "CREATEROLE", "BYPASSRLS"])
def test_a_role_of_other_people_is_no_role_of_dbanons(empty: Empty, attribute: str) -> None:
    url, prefix = empty(), here.ROLES + secrets.token_hex(4)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {prefix}_admin {attribute}")
        connection.execute(f"COMMENT ON ROLE {prefix}_admin IS 'dbanon: {_roles.PURPOSES['admin']}'")
        try:
            for share in (False, True):
                with pytest.raises(ParameterError, match=f"{prefix}_admin"):
                    schema.upgrade(url, role_prefix=prefix, share_roles=share)
        finally:
            connection.execute(f"DROP ROLE {prefix}_admin")


@pytest.mark.stress
def test_rights_that_a_superuser_took_are_given_back_by_one_or_not_at_all(empty: Empty, user: str) -> None:
    url = empty()
    everybody = "SELECT has_table_privilege('public', 'pg_locks', 'SELECT')"
    schema.upgrade(url, share_roles=True, restrict_public=True)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"GRANT dbanon_admin TO {user}")
        for words in (("upgrade", "--no-restrict-public"), ("uninstall", "--yes")):
            done = call(database_url(url, user=user, password=user), "db", *words)
            demand_refused(done, 1, "superuser")
        assert connection.execute(everybody).fetchone() == (False,)
        assert call(url, "db", "upgrade", "--no-restrict-public").code == 0
        assert connection.execute(everybody).fetchone() == (True,)


def test_a_copy_keeps_its_names_only_if_its_members_are_to_come_in(empty: Empty) -> None:
    """Restored with the OID of the original, which another server gave out as well."""
    url, prefix = empty(), here.ROLES + secrets.token_hex(4)
    schema.upgrade(url, role_prefix=prefix)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE dbanon.installation SET server_identifier = server_identifier + 1")
        connection.execute(f"CREATE ROLE {prefix}_anna IN ROLE {prefix}_operator")
        try:
            with pytest.raises(ParameterError, match=rf"{prefix}_anna \({prefix}_operator\)"):
                schema.upgrade(url)
        finally:
            connection.execute(f"DROP ROLE {prefix}_anna")
    assert schema.upgrade(url) == schema.EXPECTED_REVISION
    assert call(url, "db", "uninstall", "--yes").code == 0


def test_who_uses_dbanons_tables_is_named_in_time(empty: Empty, monkeypatch: pytest.MonkeyPatch) -> None:
    url = empty()
    schema.upgrade(url, share_roles=True)
    monkeypatch.setattr(_text, "LOCK_WAIT_S", 0.3)
    with psycopg.connect(url) as writer:
        writer.execute("LOCK TABLE dbanon.trajectory IN ROW EXCLUSIVE MODE")
        pid = writer.info.backend_pid
        for attempt in (lambda: schema.upgrade(url), lambda: schema.uninstall(url, lambda found: True)):
            with pytest.raises(StoreError, match=rf"{writer.info.user} \(process {pid}\)"):
                attempt()
    with psycopg.connect(url) as reader:  # who only reads keeps no upgrade waiting
        reader.execute("SELECT count(*) FROM dbanon.trajectory")
        assert schema.upgrade(url) == schema.EXPECTED_REVISION


def test_the_role_that_an_owner_gives_to_a_superuser_makes_nothing_trusted(empty: Empty, user: str) -> None:
    """``ALTER DATABASE ... SET role`` makes everybody's sessions begin as that role."""
    url = empty(owner=user)
    with psycopg.connect(database_url(url, user=user, password=user), autocommit=True) as hostile:
        hostile.execute(
            f"""
            CREATE SCHEMA h; CREATE TABLE h.called (login text);
            CREATE FUNCTION h.evil() RETURNS boolean LANGUAGE sql AS
                $$ INSERT INTO h.called VALUES (session_user); SELECT true $$;
            CREATE SCHEMA dbanon; CREATE TABLE dbanon.alembic_version (version_num text);
            INSERT INTO dbanon.alembic_version VALUES ('0004');
            ALTER TABLE dbanon.alembic_version ENABLE ROW LEVEL SECURITY;
            ALTER TABLE dbanon.alembic_version FORCE ROW LEVEL SECURITY;
            CREATE POLICY p ON dbanon.alembic_version USING (h.evil());
            ALTER DATABASE {hostile.info.dbname} SET role = '{user}'
            """
        )
        for words in (("runs",), ("db", "upgrade", "--share-roles"), ("db", "uninstall", "--yes")):
            call(url, *words)
        assert hostile.execute("SELECT * FROM h.called").fetchall() == []


def test_a_trigger_of_another_login_runs_in_no_upgrade(empty: Empty, user: str) -> None:
    url = empty()
    schema.upgrade(url, share_roles=True)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA h AUTHORIZATION {user}")
        connection.execute(f"GRANT USAGE ON SCHEMA dbanon TO {user}; GRANT TRIGGER ON dbanon.method TO {user}")
    with psycopg.connect(database_url(url, user=user, password=user), autocommit=True) as hostile:
        hostile.execute(
            "CREATE TABLE h.called (login text); GRANT ALL ON h.called TO PUBLIC; GRANT USAGE ON SCHEMA h TO PUBLIC;"
            "CREATE FUNCTION h.evil() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN INSERT INTO h.called VALUES (session_user); RETURN NEW; END $$;"
            "CREATE TRIGGER evil BEFORE INSERT OR UPDATE ON dbanon.method FOR EACH ROW EXECUTE FUNCTION h.evil()"
        )
        with pytest.raises(StoreError, match=rf"trigger evil on dbanon\.method, which calls h\.evil\(\) of {user}"):
            schema.upgrade(url)
        assert hostile.execute("SELECT * FROM h.called").fetchall() == []


# What each is, as the server names it, and how it is made. Calls in sql/ have literals that are integer and numeric.
_SHAPE = "RETURNS public.geometry LANGUAGE sql AS 'SELECT NULL::public.geometry'"
_PLANTED = {
    "aggregate public.st_union(integer)": "(SFUNC = pg_catalog.int4pl, STYPE = integer)",
    "function public.st_buffer(public.geometry,numeric,pg_catalog.text)": _SHAPE,
    "function public.st_expand(public.geometry,numeric)": _SHAPE,
    "function public.st_makeenvelope(integer,integer,integer,integer,integer)": _SHAPE,
    "function public.st_xmin(public.geometry)": _SHAPE,
    "operator public.&&(public.geometry,integer)": (
        "(LEFTARG = public.geometry, RIGHTARG = integer, FUNCTION = public.harmless)"
    ),
    "type public.st_ymin": "AS ENUM ('a')",
    "type public.words": "AS text CHECK (value <> '')",
}


@tries("Run `%s`, or move the things in use to another schema")
def test_what_was_planted_beside_postgis_before_the_right_was_revoked_is_refused(empty: Empty, user: str) -> None:
    """An overload with closer argument types would win over PostGIS's own function and run with the caller's rights."""
    url, member = empty(), "function public.st_expand(public.geometry,numeric)"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE EXTENSION postgis SCHEMA public; GRANT CREATE ON SCHEMA public TO {user}")
        with psycopg.connect(database_url(url, user=user, password=user), autocommit=True) as hostile:
            # What anybody may have there.
            hostile.execute(
                "CREATE FUNCTION public.harmless(geometry, integer) RETURNS boolean LANGUAGE sql AS 'SELECT true';"
                "CREATE TABLE public.st_area (a integer); CREATE TYPE public.mood AS ENUM ('good');"
                "CREATE DOMAIN public.share AS integer CHECK (value <= 100)"
            )
            for what, shape in _PLANTED.items():
                made = what.partition("(")[0] if what.startswith("operator") else what
                hostile.execute(f"CREATE {made.replace('type', 'domain') if 'CHECK' in shape else made} {shape}")
            connection.execute(f"REVOKE CREATE ON SCHEMA public FROM {user}")
            hostile.execute("ALTER DOMAIN public.words RENAME TO st_xmax")  # needs no right to create
            hostile.execute("ALTER DOMAIN public.st_xmax RENAME TO words")
        connection.execute(f"ALTER EXTENSION postgis ADD {member}")  # as the owner of any extension can
        with pytest.raises(StoreError, match="part of PostGIS") as caught:
            schema.upgrade(url, share_roles=True)
        named, _, hint = str(caught.value).partition("Got ")[2].partition(". Run `")
        assert named == ", ".join(f"{what} of {user}" for what in _PLANTED)
        connection.execute(f"ALTER EXTENSION postgis DROP {member}")
        connection.execute(hint.partition("`")[0])
    assert schema.upgrade(url, share_roles=True) == schema.EXPECTED_REVISION
