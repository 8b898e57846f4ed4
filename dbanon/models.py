"""Makes SQLAlchemy tables of releases, and of the other tables and views that a login may read.

Columns, types and comments come from the database's catalogue, read with the login's own rights, so a login finds here
what it may read and nothing else. No module of dbanon imports this one, because SQLAlchemy would slow every start.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import cast

import psycopg
from psycopg import sql
from sqlalchemy import Connection, Engine, MetaData, PrimaryKeyConstraint, Table, Text
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.exc import DBAPIError, NoSuchTableError

from dbanon.base import parts
from dbanon.base.errors import ParameterError, StoreError
from dbanon.postgres import sqlstate
from dbanon.postgres.connection import PIN_PATH, find_postgis_schema, translate_errors
from dbanon.releases import published

parts.demand("files", what="dbanon.models")
import geoalchemy2  # noqa: E402, F401 - by its import SQLAlchemy knows geometry

_KEY_COLUMN = "cloak_id"  # views have no keys in the catalogue; docs/developers/rows.md promises this one
# GeoAlchemy2 writes names into its queries without quotes. Ours need none; a view that was made by hand may.
_READABLE_QUERY = (
    "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = %s AND c.relkind IN ('r', 'v') AND c.relname ~ '^[a-z][a-z0-9_]*$'"
    " AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')"
)
_SCHEMAS = frozenset({"dbanon", "dbanon_internal", "dbanon_setup", "published"})
ischema_names.setdefault("dbanon.session", Text)  # a composite type, which SQLAlchemy does not know


def release(bind: Engine | Connection, name: str) -> Table:
    """Make the table of a release: geometry, range and array types, comments, and ``cloak_id`` as primary key.

    Parameters
    ----------
    bind : sqlalchemy.Engine or sqlalchemy.Connection
        With the driver psycopg 3; a connection is left as it was.

    Raises
    ------
    ParameterError
        If there is no such release that the login may read, or the driver is another.
    StoreError
        If the server does not answer or fails.
    """
    with _open_catalogue(bind) as (connection, session):
        published.lock(session, name)
        found = Table(name, MetaData(), schema="published", autoload_with=connection)
    _declare_key(found)
    return found


def reflect(bind: Engine | Connection) -> MetaData:
    """Make the tables of all that the login may read in the schemas ``dbanon`` and ``published``.

    They are ``.tables["published.releases"]`` and so on. A composite type comes as text.

    Parameters
    ----------
    bind : sqlalchemy.Engine or sqlalchemy.Connection
        With the driver psycopg 3; a connection is left as it was.

    Raises
    ------
    ParameterError
        If the driver is another.
    StoreError
        If the server does not answer or fails, or a table or view disappears while all are read.
    """
    found = MetaData()
    with _open_catalogue(bind) as (connection, session):
        for schema in ("dbanon", "published"):
            readable = {row[0] for row in session.execute(_READABLE_QUERY, [schema]).fetchall()}
            if readable:  # the server refuses SQLAlchemy's queries about a schema without rights on it
                # A function, since of a list SQLAlchemy would miss what has gone since.
                chosen = lambda name, _, readable=readable: name in readable  # noqa: E731
                found.reflect(connection, schema, views=True, only=chosen, resolve_fks=False)
    for table in found.tables.values():
        if table.schema == "published" and _KEY_COLUMN in table.c:
            _declare_key(table)
    return found


def include_name(name: str | None, kind: str, parents: Mapping[str, str | None]) -> bool:
    """Say for Alembic's ``include_name`` whether a schema or table may be yours: it is neither dbanon's nor PostGIS's.

    Parameters
    ----------
    name : str or None
        None is the default schema.
    kind : str
        ``schema``, ``table`` and so on.
    parents : mapping of str to str
        As Alembic gives it; it is not read.
    """
    return not ((kind == "schema" and name in _SCHEMAS) or (kind == "table" and name == "spatial_ref_sys"))


def _declare_key(table: Table) -> None:
    table.append_constraint(PrimaryKeyConstraint(table.c[_KEY_COLUMN]))


@contextmanager
def _open_catalogue(bind: Engine | Connection) -> Iterator[tuple[Connection, "psycopg.Connection"]]:
    """Have a connection, as SQLAlchemy's and as the driver's, on which PostGIS's types have names without a schema.

    SQLAlchemy knows a type by its name without a schema alone, and a login's own search path may lead past PostGIS. The
    path and all locks end with the block, which is a transaction or savepoint that is rolled back.
    """
    if bind.dialect.driver != "psycopg":
        raise ParameterError(
            f"The engine must use psycopg 3. Got {bind.dialect.driver}. Begin its URL with postgresql+psycopg://."
        )
    with _translate_errors(), bind.connect() if isinstance(bind, Engine) else nullcontext(bind) as connection:
        began = connection.in_transaction()
        session = cast("psycopg.Connection", connection.connection.driver_connection)
        try:
            with session.transaction(force_rollback=True):
                session.execute(PIN_PATH)
                path = sql.SQL("SET LOCAL search_path = pg_catalog, {}, pg_temp")
                session.execute(path.format(sql.Identifier(find_postgis_schema(session))))
                yield connection, session
        finally:
            if not began:
                connection.rollback()  # of what SQLAlchemy takes for a transaction; the server has none


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Let errors of the driver leave the block as errors of dbanon, also SQLAlchemy's own and those it has wrapped."""
    try:
        with translate_errors():
            yield
    except DBAPIError as error:
        raise sqlstate.translate(cast("psycopg.Error", error.orig)) from error
    except NoSuchTableError as error:  # `reflect` locks nothing
        raise StoreError(
            "A table or view disappeared while all were read, as when a release is withdrawn. Nothing was changed. "
            "Read them again."
        ) from error
