"""Upgrades from nothing, in every state a database may be in, end at the golden schema; what cannot is refused."""

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from dbanon import schema
from dbanon.base.errors import SchemaMismatch, StoreError
from dbanon.schema import _text
from dbanon.testing import database_url
from tests.acceptance.commands import call, start
from tests.facts import demand_named, expect_refusal
from tests.hints import find_quoted, tries
from tests.upgrade.alive import restore_old_dump

GOLDEN = Path(__file__).parents[1] / "golden"


def read_listing(url: str) -> str:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path = pg_catalog")
        return "".join(f"{row[0]}\n" for row in connection.execute((GOLDEN / "catalog.sql").read_text()).fetchall())


def test_an_empty_database_gets_the_extension_and_the_golden_schema(empty: Callable[..., str]) -> None:
    url = empty()
    assert not schema.is_current(url)
    assert schema.upgrade(url, share_roles=True) == schema.EXPECTED_REVISION
    assert schema.is_current(url)
    assert read_listing(url) == (GOLDEN / "schema.txt").read_text()


def test_postgis_may_live_in_a_schema_of_its_own(empty: Callable[..., str]) -> None:
    url = empty()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA "Geo data"; CREATE EXTENSION postgis SCHEMA "Geo data"')
        schema.upgrade(url, share_roles=True)
        connection.execute(
            """
            INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('d', 32610, 1, 1);
            INSERT INTO dbanon.trajectory (dataset_id, subject, path)
                VALUES (1, 's', 'SRID=32610;LINESTRING M (1 1 60, 2 2 120)');
            INSERT INTO dbanon.run (dataset_id, method, algorithm, status)
                VALUES (1, 'tp-aware', 'traj-anon', 'verified');
            INSERT INTO dbanon.cloak VALUES (1, 1, 1, '[2008-06-04,2008-06-05)',
                "Geo data".ST_Reverse("Geo data".ST_MakeEnvelope(0, 0, 1, 1, 32610)), 1, 1);
            INSERT INTO dbanon.membership VALUES (1, 1, 1);
            INSERT INTO dbanon.verification (run_id, attack, passed, digest)
                VALUES (1, 'tp-aware', true, dbanon_internal.compute_run_digest(1));
            """
        )
        assert connection.execute("SELECT count(*) FROM dbanon.fix").fetchone() == (2,)
        assert connection.execute("SELECT rectangle FROM dbanon_internal.gather_region_evidence(1)").fetchone() == (
            True,
        )
        assert connection.execute("SELECT dbanon.publish(1, 'one')").fetchone() == (1,)
        connection.execute("SET ROLE dbanon_analyst")
        assert connection.execute('SELECT "Geo data".ST_Area(region) FROM published.one').fetchone() == (1.0,)


def test_the_owner_of_a_database_with_postgis_may_upgrade_it(empty: Callable[..., str], user: str) -> None:
    url = empty(owner=user)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION postgis")
    assert schema.upgrade(database_url(url, user=user, password=user), share_roles=True) == schema.EXPECTED_REVISION
    assert read_listing(url) == (GOLDEN / "schema.txt").read_text()


_HELPERS = "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'dbanon_internal'::regnamespace"


def test_old_helpers_are_dropped_where_all_of_them_go_to_other_roles(
    dbanon_template: str, empty: Callable[..., str], prefixes: list[str]
) -> None:
    moved, new = empty(), empty()
    restore_old_dump(moved)  # its roles are the template's; all its helpers get another owner
    for url in (moved, new):
        schema.upgrade(url, role_prefix=prefixes[0], share_roles=True)
    names = []
    for url in (moved, new):
        with psycopg.connect(url) as connection:
            connection.execute("SET search_path = pg_catalog")
            names.append(sorted(connection.execute(_HELPERS).fetchall()))
    assert names[0] == names[1] != []


def test_helpers_of_an_earlier_state_may_have_other_arguments_and_columns(empty: Callable[..., str]) -> None:
    url = empty()
    schema.upgrade(url, share_roles=True)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "DROP FUNCTION dbanon_internal.describe_losses, dbanon_internal.read_written, "
            "dbanon_internal.read_counted; "
            "CREATE FUNCTION dbanon_internal.describe_losses(drawn bigint) RETURNS integer LANGUAGE sql RETURN 1; "
            "CREATE FUNCTION dbanon_internal.read_counted(n double precision, units_per_s double precision, "
            "told boolean) RETURNS double precision LANGUAGE sql RETURN n; "
            "CREATE FUNCTION dbanon_internal.read_local(text) RETURNS double precision LANGUAGE sql "
            "RETURN dbanon_internal.read_counted(1, 1, true)"
        )
    schema.upgrade(url, share_roles=True)
    assert read_listing(url) == (GOLDEN / "schema.txt").read_text()


def test_what_uses_a_helper_that_is_gone_is_named_and_nothing_is_changed(empty: Callable[..., str]) -> None:
    url = empty()
    schema.upgrade(url, share_roles=True)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            """
            CREATE FUNCTION dbanon_internal.gone() RETURNS integer RETURN 1;
            CREATE FUNCTION dbanon_internal.gone_too() RETURNS integer RETURN dbanon_internal.gone();
            CREATE VIEW public.uses AS SELECT dbanon_internal.gone()
            """
        )
        helpers = set(connection.execute(_HELPERS).fetchall())
        with expect_refusal(StoreError, "dbanon_internal.gone()", "uses"):
            schema.upgrade(url)
        assert set(connection.execute(_HELPERS).fetchall()) == helpers
        connection.execute("DROP VIEW public.uses")
        schema.upgrade(url)
        left = set(connection.execute(_HELPERS).fetchall())
        assert helpers - left == {("dbanon_internal.gone()",), ("dbanon_internal.gone_too()",)}
        schema.upgrade(url)
        assert set(connection.execute(_HELPERS).fetchall()) == left


@pytest.mark.stress
def test_an_owner_who_made_the_roles_and_is_no_superuser_plays_the_demo(empty: Callable[..., str], user: str) -> None:
    url = empty(owner=user)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION postgis")
        if connection.info.server_version >= 160000:  # what who makes a role gets: neither its rights nor to become it
            roles = "dbanon_admin, dbanon_operator, dbanon_worker, dbanon_analyst"
            connection.execute(f"GRANT {roles} TO {user} WITH ADMIN TRUE, INHERIT FALSE, SET FALSE")
    owner = database_url(url, user=user, password=user)
    assert call(owner, "db", "upgrade", "--share-roles").code == 0
    done = call(owner, "demo", "--no-page")
    assert (done.code, "POLYGON" in done.stdout) == (0, True), done.stderr


@tries("Operators may not read the releases: this login may not grant that")
def test_operators_of_an_earlier_database_read_its_releases_once_it_is_upgraded(
    empty: Callable[..., str], user: str, prefixes: list[str]
) -> None:
    """Its roles are its own, since those of the whole server are granted by other upgrades meanwhile."""
    url, prefix = empty(), prefixes[0]
    schema.upgrade(url, role_prefix=prefix)
    reads = f"SELECT pg_has_role('{prefix}_operator', '{prefix}_analyst', 'MEMBER')".encode()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER ROLE {user} NOCREATEROLE; GRANT {prefix}_admin TO {user}")
        connection.execute(f"REVOKE {prefix}_analyst FROM {prefix}_operator")
        done = call(database_url(url, user=user, password=user), "db", "upgrade")
        assert (done.code, connection.execute(reads).fetchone()) == (0, (False,))
        [grant] = [told for told in find_quoted(done.stderr) if told.startswith("GRANT")]
        connection.execute(grant.encode())
        assert connection.execute(reads).fetchone() == (True,)
        connection.execute(f"REVOKE {prefix}_analyst FROM {prefix}_operator")
        done = call(url, "db", "upgrade")
        assert (done.code, connection.execute(reads).fetchone()) == (0, (True,))
        assert grant not in done.stderr


def test_who_may_not_create_the_extension_is_told_the_command(empty: Callable[..., str], user: str) -> None:
    url = empty(owner=user)
    with expect_refusal(StoreError, "`CREATE EXTENSION postgis`", "superuser"):
        schema.upgrade(database_url(url, user=user, password=user), share_roles=True)
    assert not schema.is_current(url)


def test_a_server_that_does_not_answer_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        schema.upgrade(f"postgresql://x@/x?host={tmp_path}", share_roles=True)
    assert "\n" not in str(caught.value)


def test_the_expected_revision_is_the_newest_there_is() -> None:
    names = [file.name for file in (Path(schema.__file__).parents[2] / "migrations" / "versions").glob("[0-9]*.py")]
    assert max(names).split("_")[0] == schema.EXPECTED_REVISION


def test_migrations_import_nothing_of_dbanon() -> None:
    for file in (Path(schema.__file__).parents[2] / "migrations").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert "import dbanon" not in text
        assert "from dbanon" not in text


def test_a_database_of_before_the_first_release_is_refused_and_the_way_out_works(empty: Callable[..., str]) -> None:
    url = empty()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE SCHEMA dbanon; CREATE SCHEMA published;"
            "CREATE TABLE dbanon.alembic_version (version_num varchar(32));"
            "INSERT INTO dbanon.alembic_version VALUES ('0003')"
        )
    with expect_refusal(SchemaMismatch, "0003", "`dbanon db uninstall`", "load the data again"):
        schema.upgrade(url, share_roles=True)
    assert call(url, "db", "uninstall", "--yes").code == 0
    assert schema.upgrade(url, share_roles=True) == schema.EXPECTED_REVISION


def test_who_keeps_the_lock_of_upgrades_is_named_in_time(
    empty: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_text, "LOCK_WAIT_S", 0.3)
    url = empty()
    with psycopg.connect(url) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [_text.UPGRADE_LOCK])
        with pytest.raises(StoreError, match=rf"{other.info.user} \(process {other.info.backend_pid}\)"):
            schema.upgrade(url, share_roles=True)


def test_only_tables_are_asked_for_the_revision(empty: Callable[..., str], user: str) -> None:
    """A view of that name would run its owner's functions with the rights of the caller."""
    url = empty(owner=user)
    with psycopg.connect(database_url(url, user=user, password=user), autocommit=True) as hostile:
        hostile.execute(
            "CREATE SCHEMA dbanon; CREATE TABLE dbanon.seen (login text);"
            "CREATE FUNCTION dbanon.see() RETURNS varchar LANGUAGE sql AS"
            " $$ INSERT INTO dbanon.seen SELECT current_user; SELECT '0004'::varchar $$;"
            "CREATE VIEW dbanon.alembic_version AS SELECT dbanon.see() AS version_num;"
            "CREATE VIEW dbanon.installation AS SELECT dbanon.see() AS role_prefix, 0::oid AS database_oid"
        )
        with psycopg.connect(url, autocommit=True) as connection, pytest.raises(SchemaMismatch):
            schema.demand_revision(connection)
        with pytest.raises(StoreError):
            schema.upgrade(url, share_roles=True)
        assert hostile.execute("SELECT count(*) FROM dbanon.seen").fetchone() == (0,)


def test_a_schema_that_belongs_to_another_login_is_refused(empty: Callable[..., str], user: str) -> None:
    url = empty()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA dbanon AUTHORIZATION {user}")
    with pytest.raises(StoreError, match=f"schema dbanon of {user}"):
        schema.upgrade(url, share_roles=True)


@pytest.mark.parametrize("postgis", ["public", "geo"])
def test_a_schema_of_postgis_in_which_a_login_may_create_is_refused_by_name(
    empty: Callable[..., str], user: str, postgis: str
) -> None:
    url = empty()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {postgis}; CREATE EXTENSION postgis SCHEMA {postgis}")
        connection.execute(f"GRANT CREATE ON SCHEMA {postgis} TO {user}")
        with pytest.raises(StoreError, match=f"REVOKE CREATE ON SCHEMA {postgis} FROM {user}`"):
            schema.upgrade(url, share_roles=True)
        connection.execute(f"REVOKE CREATE ON SCHEMA {postgis} FROM {user}; ALTER SCHEMA {postgis} OWNER TO {user}")
        with pytest.raises(StoreError, match=f"`ALTER SCHEMA {postgis} OWNER TO pg_database_owner`"):
            schema.upgrade(url, share_roles=True)
        connection.execute(f"ALTER SCHEMA {postgis} OWNER TO pg_database_owner")
    assert schema.upgrade(url, share_roles=True) == schema.EXPECTED_REVISION


# More specific than the variadic one of pg_catalog, so it would be chosen although pg_catalog is searched first.
_LURE = """
CREATE FUNCTION public.format(text, {}) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.called VALUES (session_user);
    RETURN pg_catalog.format($1, $2);
END $$
"""


def test_a_function_of_another_login_on_the_path_is_called_by_no_upgrade(empty: Callable[..., str], user: str) -> None:
    url = empty()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA geo; CREATE EXTENSION postgis SCHEMA geo")
        connection.execute(f"GRANT CREATE ON SCHEMA public TO {user}")
    with psycopg.connect(database_url(url, user=user, password=user), autocommit=True) as hostile:
        hostile.execute("CREATE TABLE public.called (login text); GRANT ALL ON public.called TO PUBLIC")
        for second in ("text", "name", "bigint"):
            hostile.execute(_LURE.format(second))
        schema.upgrade(url, share_roles=True, restrict_public=True)
        schema.upgrade(url)
        assert hostile.execute("SELECT * FROM public.called").fetchall() == []


def test_a_server_that_is_too_old_is_refused(empty: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert _text.OLDEST_SERVER == 150000
    url = empty()
    with psycopg.connect(url) as connection:
        version = connection.info.server_version
    monkeypatch.setattr(_text, "OLDEST_SERVER", version + 1)
    with expect_refusal(StoreError, "PostgreSQL", f"version {version // 10000}"):
        schema.upgrade(url)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'dbanon'").fetchone() == (0,)


@pytest.mark.stress
def test_a_worker_that_is_up_when_the_revision_changes_takes_no_run_and_ends(
    database: str, connection: psycopg.Connection, run: int
) -> None:
    worker = start(database, "worker")
    while connection.execute("SELECT count(*) FROM dbanon.workers").fetchone() == (0,):
        assert worker.poll() is None
    connection.execute("UPDATE dbanon.alembic_version SET version_num = '9999'")
    query = """SELECT dbanon.submit_run('ten', 'tp-aware', '{"k": 5, "step_s": 60, "instants": 2}')"""
    connection.execute(query)
    _, said = worker.communicate()
    assert worker.returncode == 1
    demand_named(said.splitlines()[-1], "worker ended", "revision")
    assert connection.execute("SELECT status FROM dbanon.run WHERE todo IS NOT NULL").fetchall() == [("queued",)]
