"""Upgrades from nothing, in every state a database may be in, end at the golden schema."""

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from dbanon import schema
from dbanon.errors import StoreError
from dbanon.testing import database_url
from tests.acceptance.commands import call

if TYPE_CHECKING:
    from dbanon.server import Target

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def empty(dbanon_server: "Target") -> Iterator[Callable[..., str]]:
    """Make databases without anything in them."""
    names: list[str] = []
    with psycopg.connect(dbanon_server.url, autocommit=True) as server:

        def make(owner: str | None = None) -> str:
            names.append(f"dbanon_empty_{secrets.token_hex(4)}")
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(names[-1]))
            server.execute(statement)
            if owner:
                change = sql.SQL("ALTER DATABASE {} OWNER TO {}")
                server.execute(change.format(sql.Identifier(names[-1]), sql.Identifier(owner)))
            return database_url(dbanon_server.url, dbname=names[-1])

        yield make
        for name in names:
            server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def user(dbanon_server: "Target", dbanon_template: str, empty: Callable[..., str]) -> Iterator[str]:
    """A login that may create roles and is no superuser; its password is its name. The template brings the roles."""
    name = f"dbanon_user_{secrets.token_hex(4)}"
    with psycopg.connect(dbanon_server.url, autocommit=True) as server:
        server.execute(f"CREATE ROLE {name} LOGIN CREATEROLE PASSWORD '{name}'")
        if server.info.server_version >= 160000:  # there, creating roles does not let one grant those of others
            server.execute(f"GRANT dbanon_admin TO {name}")
        yield name
        server.execute(f"REVOKE dbanon_admin FROM {name} CASCADE")
        owned = server.execute("SELECT datname FROM pg_database WHERE pg_get_userbyid(datdba) = %s", [name]).fetchall()
        for (database,) in owned:
            server.execute(f"DROP DATABASE {database} WITH (FORCE)")
        server.execute(f"DROP ROLE {name}")


def listing(url: str) -> str:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path = pg_catalog")
        return "".join(f"{row[0]}\n" for row in connection.execute((GOLDEN / "catalog.sql").read_text()).fetchall())


def test_an_empty_database_gets_the_extension_and_the_golden_schema(empty: Callable[..., str]) -> None:
    url = empty()
    assert not schema.is_current(url)
    assert schema.upgrade(url) == schema.EXPECTED_REVISION
    assert schema.is_current(url)
    assert listing(url) == (GOLDEN / "schema.txt").read_text()


def test_postgis_may_live_in_a_schema_of_its_own(empty: Callable[..., str]) -> None:
    url = empty()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA "Geo data"; CREATE EXTENSION postgis SCHEMA "Geo data"')
        schema.upgrade(url)
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
                VALUES (1, 'tp-aware', true, dbanon.run_digest(1));
            """
        )
        assert connection.execute("SELECT count(*) FROM dbanon.fix").fetchone() == (2,)
        assert connection.execute("SELECT rectangle FROM dbanon.cloak_evidence(1)").fetchone() == (True,)
        assert connection.execute("SELECT dbanon.publish(1, 'one')").fetchone() == (1,)
        connection.execute("SET ROLE dbanon_analyst")
        assert connection.execute('SELECT "Geo data".ST_Area(region) FROM published.one').fetchone() == (1.0,)


def test_the_owner_of_a_database_with_postgis_may_upgrade_it(empty: Callable[..., str], user: str) -> None:
    url = empty(owner=user)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION postgis")
    assert schema.upgrade(database_url(url, user=user, password=user)) == schema.EXPECTED_REVISION
    assert listing(url) == (GOLDEN / "schema.txt").read_text()


def test_an_owner_who_made_the_roles_and_is_no_superuser_plays_the_demo(empty: Callable[..., str], user: str) -> None:
    url = empty(owner=user)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION postgis")
        if connection.info.server_version >= 160000:  # what who makes a role gets: neither its rights nor to become it
            roles = "dbanon_admin, dbanon_operator, dbanon_worker, dbanon_analyst"
            connection.execute(f"GRANT {roles} TO {user} WITH ADMIN TRUE, INHERIT FALSE, SET FALSE")
    owner = database_url(url, user=user, password=user)
    assert call(owner, "db", "upgrade").code == 0
    done = call(owner, "demo")
    assert (done.code, "POLYGON" in done.stdout) == (0, True), done.stderr


def test_who_may_not_take_the_counters_from_everybody_is_told_what_stays_open(
    empty: Callable[..., str], user: str
) -> None:
    url = empty(owner=user)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION postgis")
    owner = database_url(url, user=user, password=user)
    done = call(owner, "db", "upgrade")
    assert (done.code, schema.statistics_are_open(url)) == (0, True)
    assert "stay open to every login" in done.stderr
    done = call(url, "db", "upgrade")
    assert (done.code, schema.statistics_are_open(url)) == (0, False)
    assert "stay readable" not in done.stderr
    assert "stay readable" not in call(owner, "db", "upgrade").stderr
    assert not schema.statistics_are_open(url)


def test_operators_of_an_earlier_database_read_its_releases_once_it_is_upgraded(
    empty: Callable[..., str], user: str
) -> None:
    url = empty()
    schema.upgrade(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER ROLE {user} NOCREATEROLE; GRANT dbanon_admin TO {user}")
        connection.execute("REVOKE dbanon_analyst FROM dbanon_operator")
    told = "`GRANT dbanon_analyst TO dbanon_operator` as a superuser."
    try:
        done = call(database_url(url, user=user, password=user), "db", "upgrade")
        assert (done.code, schema.operators_read_releases(url)) == (0, False)
        assert told in done.stderr
    finally:  # roles are the whole server's
        done = call(url, "db", "upgrade")
    assert (done.code, schema.operators_read_releases(url)) == (0, True)
    assert told not in done.stderr


def test_an_upgrade_writes_no_right_of_the_servers_anew(empty: Callable[..., str]) -> None:
    url = empty()
    rights = """SELECT oid, xmin, proacl::text FROM pg_proc WHERE proname ~ '^(pg_stat_get_|_postgis_|st_estimated)'
        UNION ALL SELECT oid, xmin, relacl::text FROM pg_class WHERE relname ~ '^pg_stat' ORDER BY 1"""
    with psycopg.connect(url, autocommit=True) as connection:
        schema.upgrade(url)
        before = connection.execute(rights).fetchall()
        schema.upgrade(url)
        assert connection.execute(rights).fetchall() == before


def test_who_may_not_create_the_extension_is_told_the_command(empty: Callable[..., str], user: str) -> None:
    url = empty(owner=user)
    with pytest.raises(StoreError, match="Run `CREATE EXTENSION postgis` in this database as a superuser"):
        schema.upgrade(database_url(url, user=user, password=user))
    assert not schema.is_current(url)


def test_a_server_that_does_not_answer_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        schema.upgrade(f"postgresql://x@/x?host={tmp_path}")
    assert "\n" not in str(caught.value)


def test_the_expected_revision_is_the_newest_there_is() -> None:
    names = [file.name for file in (Path(schema.__file__).parents[1] / "migrations" / "versions").glob("[0-9]*.py")]
    assert max(names).split("_")[0] == schema.EXPECTED_REVISION


def test_migrations_import_nothing_of_dbanon() -> None:
    for file in (Path(schema.__file__).parents[1] / "migrations").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert "import dbanon" not in text
        assert "from dbanon" not in text


def test_a_server_that_is_too_old_is_refused(empty: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert schema._OLDEST_SERVER == 150000
    url = empty()
    with psycopg.connect(url) as connection:
        version = connection.info.server_version
    monkeypatch.setattr(schema, "_OLDEST_SERVER", version + 1)
    with pytest.raises(StoreError, match=f"Got version {version // 10000}"):
        schema.upgrade(url)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'dbanon'").fetchone() == (0,)
