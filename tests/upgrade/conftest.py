"""Databases without anything in them, and a login that owns one and is no superuser."""

import secrets
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from dbanon.testing import database_url
from tests import here
from tests.db.conftest import database, run, ten_template, verify

if TYPE_CHECKING:
    from dbanon.postgres.server import Target

__all__ = ["database", "empty", "run", "ten_template", "user", "verify"]


def drop_all(server: psycopg.Connection) -> None:
    """Drop all databases that `empty` made, and what is in them of roles to be dropped."""
    names = server.execute(f"SELECT datname FROM pg_database WHERE datname ~ '^dbanon_empty_{here.ROLES}'").fetchall()
    for (name,) in names:
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def empty(dbanon_server: "Target") -> Iterator[Callable[..., str]]:
    """Make databases without anything in them."""
    names: list[str] = []
    with psycopg.connect(dbanon_server.url, autocommit=True) as server:

        def make(owner: str | None = None) -> str:
            names.append(f"dbanon_empty_{here.ROLES}{secrets.token_hex(4)}")
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(names[-1]))
            server.execute(statement)
            if owner:
                change = sql.SQL("ALTER DATABASE {} OWNER TO {}")
                server.execute(change.format(sql.Identifier(names[-1]), sql.Identifier(owner)))
            return database_url(dbanon_server.url, dbname=names[-1])

        yield make
        drop_all(server)


@pytest.fixture
def prefixes(dbanon_server: "Target", empty: Callable[..., str]) -> Iterator[list[str]]:
    """Three prefixes that no other test uses; their roles are dropped."""
    names = [here.ROLES + secrets.token_hex(4) for _ in range(3)]
    yield names
    with psycopg.connect(dbanon_server.url, autocommit=True) as server:
        drop_all(server)
        for name in names:
            for role in ("admin", "operator", "worker", "analyst"):
                server.execute(f"DROP ROLE IF EXISTS {name}_{role}")


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
        drop_all(server)
        server.execute(f"DROP ROLE {name}")
