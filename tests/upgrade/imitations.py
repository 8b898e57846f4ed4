"""Servers set up as managed ones are: a superuser whom only the provider knows, and a login that is less than one.

What a provider does inside of its own build of PostgreSQL is done here with roles, rights and event triggers, as
strictly as its documents say, and more strictly where they are silent. ``docs/administrators/managed.md`` says
which sentences rest on documents alone.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from dbanon.testing import database_url, running_server

if TYPE_CHECKING:
    from dbanon.postgres.server import Target

# Of what a superuser may and other logins may not: each must be refused to the login that a provider gives.
FORBIDDEN = (
    "SET session_replication_role = replica",
    "SET log_min_messages = panic",
    "SHOW data_directory",
    "SHOW hba_file",
    "SET ROLE {superuser}",
    "ALTER ROLE {admin} SUPERUSER",
    "ALTER SYSTEM SET work_mem = '8MB'",
    "COPY pg_class TO '/tmp/never'",
    "COPY pg_class TO PROGRAM 'true'",
    "SELECT pg_read_file('PG_VERSION')",
    "SELECT pg_reload_conf()",
    "CREATE EXTENSION file_fdw",
    "CREATE FUNCTION f() RETURNS int LANGUAGE c AS 'x'",
    "CREATE EVENT TRIGGER e ON ddl_command_start EXECUTE FUNCTION suppress_redundant_updates_trigger()",
)


@dataclass(frozen=True, kw_only=True)
class Provider:
    """A server whose superuser is another's.

    Attributes
    ----------
    column : str
        Head of its column in ``docs/administrators/managed.md``.
    superuser, admin : str
        The login of the provider, and the one that a customer is given.
    roles : str
        Makes the provider's roles and the customer's login, as the server's first superuser.
    admin_creates_postgis : bool
        Whether ``CREATE EXTENSION postgis`` of the customer's login is carried out by the provider's superuser.
    within : str
        What the provider does in each database, as its superuser.
    also_forbidden : tuple of str
        What is refused there beside `FORBIDDEN`.
    """

    column: str
    superuser: str
    admin: str
    roles: str
    admin_creates_postgis: bool = True
    within: str = ""
    also_forbidden: tuple[str, ...] = ()


# Where documents name memberships that read all settings (pg_monitor), the login here reads statistics alone.
RDS = Provider(
    column="Amazon RDS and Aurora",
    superuser="rdsadmin",
    admin="postgres",
    roles="""
        CREATE ROLE rdsadmin LOGIN SUPERUSER CREATEROLE CREATEDB REPLICATION BYPASSRLS PASSWORD {secret};
        CREATE ROLE rds_superuser;
        CREATE ROLE rds_password;
        CREATE ROLE rds_replication;
        GRANT pg_read_all_stats, pg_signal_backend, rds_password, rds_replication TO rds_superuser;
        CREATE ROLE postgres LOGIN CREATEROLE CREATEDB VALID UNTIL 'infinity' PASSWORD {password};
        GRANT rds_superuser TO postgres WITH ADMIN OPTION
    """,
)
# Aurora's functions on the write-ahead log fail unless the cluster replicates logically.
AURORA_WAL = """
    ALTER FUNCTION pg_catalog.pg_current_wal_lsn() RENAME TO pg_true_wal_lsn;
    CREATE FUNCTION pg_catalog.pg_current_wal_lsn() RETURNS pg_lsn LANGUAGE plpgsql AS
        $$BEGIN RAISE EXCEPTION 'wal_level must be set to ''logical''' USING ERRCODE = '55000'; END$$;
"""
CLOUD_SQL = Provider(
    column="Google Cloud SQL",
    superuser="cloudsqladmin",
    admin="postgres",
    roles="""
        CREATE ROLE cloudsqladmin LOGIN SUPERUSER CREATEROLE CREATEDB REPLICATION BYPASSRLS PASSWORD {secret};
        CREATE ROLE cloudsqlsuperuser CREATEROLE CREATEDB;
        GRANT pg_read_all_stats TO cloudsqlsuperuser;
        CREATE ROLE postgres LOGIN CREATEROLE CREATEDB PASSWORD {password};
        GRANT cloudsqlsuperuser TO postgres
    """,
)
AZURE = Provider(
    column="Azure, flexible server",
    superuser="azuresu",
    admin="azureadmin",
    roles="""
        CREATE ROLE azuresu LOGIN SUPERUSER CREATEROLE CREATEDB REPLICATION BYPASSRLS PASSWORD {secret};
        CREATE ROLE azure_pg_admin;
        CREATE ROLE azureadmin LOGIN CREATEROLE CREATEDB REPLICATION PASSWORD {password};
        GRANT azure_pg_admin TO azureadmin
    """,
    within="""
        DO $$BEGIN EXECUTE format('ALTER DATABASE %I SET azure.extensions = ''postgis''', current_database()); END$$;
        CREATE SCHEMA azure;
        CREATE FUNCTION azure.check_extension() RETURNS event_trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() c WHERE c.object_identity <> ALL (
                           string_to_array(current_setting('azure.extensions', true), ','))) THEN
                RAISE EXCEPTION 'extension is not allow-listed for "azure_pg_admin" users';
            END IF;
        END $$;
        CREATE EVENT TRIGGER allow_list ON ddl_command_end WHEN TAG IN ('CREATE EXTENSION')
            EXECUTE FUNCTION azure.check_extension()
    """,
    also_forbidden=("CREATE EXTENSION pg_trgm",),
)
PLAIN = Provider(
    column="a colleague's server",
    superuser="dba",
    admin="geo_owner",
    roles="CREATE ROLE dba LOGIN SUPERUSER PASSWORD {secret}",
    admin_creates_postgis=False,
)
AS_ON_PAGES = "change me"
PROVIDERS = (PLAIN, RDS, CLOUD_SQL, AZURE)


@contextmanager
def run_server() -> "Iterator[Target]":
    """Have a server of its own up: providers' roles have fixed names, and settings are the whole server's.

    Every login but the first superuser must give its password.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DBANON_TEST_DSN", raising=False)
        with running_server() as target:
            _demand_passwords(target.url)
            yield target


def _demand_passwords(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        first = connection.info.user
        lines = [f"local all {first} trust", "local all all scram-sha-256", "host all all all scram-sha-256"]
        [file] = connection.execute("SHOW hba_file").fetchone() or ("",)
        write = sql.SQL("COPY (SELECT unnest({}::text[])) TO {}").format(lines, file)
        connection.execute(write)
        connection.execute("SELECT pg_reload_conf()")
        while connection.execute("SELECT count(*) FROM pg_hba_file_rules").fetchone() != (len(lines),):
            pass


@dataclass
class Managed:
    """An imitated server, as its customer sees it."""

    provider: Provider
    first: str  # URL of the server's own superuser, for what the tests look at
    passwords: dict[str, str] = field(default_factory=dict)

    def url(self, login: str, database: str) -> str:
        return database_url(self.first, user=login, dbname=database, password=self.passwords.get(login, AS_ON_PAGES))

    def look(self, database: str) -> str:
        return database_url(self.first, dbname=database)


@contextmanager
def imitate_provider(target: "Target", provider: Provider) -> Iterator[Managed]:
    """Set a server up as a provider does, for the length of the block; nothing of it stays."""
    made = Managed(provider, target.url)
    with psycopg.connect(target.url, autocommit=True) as first:
        before = _list_names(first)
        secret, password = secrets.token_urlsafe(12), secrets.token_urlsafe(12)
        made.passwords[provider.superuser] = secret
        if "{password}" in provider.roles:
            made.passwords[provider.admin] = password
        first.execute(sql.SQL(provider.roles).format(secret=sql.Literal(secret), password=sql.Literal(password)))
        try:
            yield made
        finally:
            _drop(first, before)


def _list_names(first: psycopg.Connection) -> tuple[set[str], set[str]]:
    databases, roles = (
        {name for (name,) in first.execute(query)}
        for query in ("SELECT datname FROM pg_database", "SELECT rolname FROM pg_roles")
    )
    return databases, roles


def _drop(first: psycopg.Connection, before: tuple[set[str], set[str]]) -> None:
    """Drop what was not there before: what a database holds goes with it, and then nothing keeps its roles."""
    databases, roles = _list_names(first)
    for name in databases - before[0]:
        first.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
    for name in roles - before[1]:
        first.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(name)))
    for name in roles - before[1]:
        first.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))
