"""Brings a database to the schema this program needs, and says when it is not there.

Decides where the revisions and SQL files are, who may run them, and in what transaction: extension, roles, revisions,
``sql/`` files and the table of methods are one transaction under one advisory lock, so that a broken upgrade leaves
nothing behind and two at once do no harm. The tables are in ``migrations/``, what can be replaced is in ``sql/``.
"""

import hashlib
import importlib.metadata
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from dbanon import _connection
from dbanon.errors import SchemaMismatch, StoreError
from dbanon.methods import METHODS, Method, describe

if TYPE_CHECKING:
    import sqlalchemy

EXPECTED_REVISION = "0004"

_UPGRADE_LOCK = 0x6462616E << 32 | 0xFFFFFFFF
_OLDEST_SERVER = 130000
_INSTALLED = Path(__file__).parent
_REPOSITORY = _INSTALLED.parent


def check(connection: psycopg.Connection) -> None:
    """Hold the revision of the schema against the one this program needs.

    Raises
    ------
    SchemaMismatch
        If the schema is missing, older or newer.
    """
    row = connection.execute("SELECT to_regclass('dbanon.alembic_version') IS NOT NULL").fetchone()
    if row is None or not row[0]:
        raise SchemaMismatch(
            f"Schema dbanon must be at revision {EXPECTED_REVISION} and this database has none; "
            "run `dbanon db upgrade`."
        )
    found = connection.execute("SELECT version_num FROM dbanon.alembic_version").fetchone()
    revision = found[0] if found else None
    if revision == EXPECTED_REVISION:
        return
    remedy = "run `dbanon db upgrade`" if (revision or "") < EXPECTED_REVISION else "install a newer dbanon"
    raise SchemaMismatch(
        f"Schema dbanon is at revision {revision} and this program needs {EXPECTED_REVISION}; {remedy}."
    )


def is_current(url: str) -> bool:
    """Say whether `upgrade` would change nothing: same program, revision, SQL files and methods."""
    with _connection.connect(url) as connection:
        row = connection.execute("SELECT obj_description(to_regclass('dbanon.alembic_version'), 'pg_class')").fetchone()
    return row is not None and row[0] == _stamp()


def upgrade(url: str) -> str:
    """Make or upgrade the schema in one transaction; safe to repeat and to run twice at once.

    Parameters
    ----------
    url : str
        libpq URI or key=value string of a login that is a superuser, or that may create roles and schemas in a database
        that has PostGIS.

    Returns
    -------
    str
        The revision the database is at.

    Raises
    ------
    StoreError
        If the server is too old, has no PostGIS, or the login may not do it.
    SchemaMismatch
        If the database is at a revision this program does not know.
    """
    # Imported here: every other command is faster without them.
    import sqlalchemy
    from sqlalchemy.exc import DBAPIError

    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=sqlalchemy.NullPool
    )
    try:
        with engine.begin() as connection:
            _prepare(connection)
            _migrate(connection)
            _sync_methods(connection)
            _describe_releases(connection)
            connection.exec_driver_sql(f"COMMENT ON TABLE dbanon.alembic_version IS '{_stamp()}'")
    except DBAPIError as error:
        raise _failure(error.orig) from error
    except psycopg.Error as error:
        raise _failure(error) from error
    finally:
        engine.dispose()
    return EXPECTED_REVISION


def statistics_are_open(url: str) -> bool:
    """Say whether every login of the database may read locks, and counters and estimates of the private tables.

    An upgrade takes them from PUBLIC where its login may do that: ``sql/00_server.sql``.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT has_table_privilege('public', 'pg_catalog.pg_stat_all_tables', 'SELECT')"
            " OR has_table_privilege('public', 'pg_catalog.pg_locks', 'SELECT') OR EXISTS ("
            "SELECT FROM pg_catalog.pg_proc p WHERE has_function_privilege('public', p.oid, 'EXECUTE') AND p.proname IN"
            " ('pg_stat_get_live_tuples', '_postgis_stats', '_postgis_index_extent', 'st_estimatedextent'))"
        ).fetchone()
    return row is not None and bool(row[0])


def operators_read_releases(url: str) -> bool:
    """Say whether operators may read what analysts may; an upgrade grants it where its login may."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SELECT pg_has_role('dbanon_operator', 'dbanon_analyst', 'MEMBER')").fetchone()
    return row is not None and bool(row[0])


def _prepare(connection: "sqlalchemy.Connection") -> None:
    connection.exec_driver_sql("SET LOCAL client_min_messages = warning")
    version = int(connection.exec_driver_sql("SELECT current_setting('server_version_num')").scalar_one())
    if version < _OLDEST_SERVER:
        raise StoreError(
            f"The server must be PostgreSQL 13 or later. Got version {version // 10000}. Move to a newer server."
        )
    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (_UPGRADE_LOCK,))
    found = "SELECT count(*) FROM pg_extension WHERE extname = 'postgis'"
    if not connection.exec_driver_sql(found).scalar_one():
        _create_postgis(connection)
    _demand_closed_schema(connection)


def _demand_closed_schema(connection: "sqlalchemy.Connection") -> None:
    """Refuse a schema of PostGIS's in which everybody may create: before version 15 that is the default of public."""
    row = connection.exec_driver_sql(
        "SELECT quote_ident(n.nspname), has_schema_privilege('public', n.oid, 'CREATE') FROM pg_extension e "
        "JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'postgis'"
    ).one()
    if row[1]:
        raise StoreError(
            "Only trusted roles may create in the schema PostGIS lives in, or others could put functions in the place "
            f"of its own. Everybody may in {row[0]}; run `REVOKE CREATE ON SCHEMA {row[0]} FROM PUBLIC`."
        )


def _create_postgis(connection: "sqlalchemy.Connection") -> None:
    try:
        connection.exec_driver_sql("CREATE EXTENSION postgis")
    except Exception as error:
        cause = getattr(error, "orig", error)
        if isinstance(cause, psycopg.errors.InsufficientPrivilege):
            raise StoreError(
                "Extension postgis must be in the database. This login may not create it. "
                "Run `CREATE EXTENSION postgis` in this database as a superuser.",
                cause.sqlstate,
            ) from error
        if isinstance(cause, psycopg.errors.FeatureNotSupported | psycopg.errors.UndefinedFile):
            raise StoreError(
                "PostGIS must be installed on the server. Its extension was not found there. "
                "Install PostGIS on the server's machine (on Debian: apt install postgresql-postgis).",
                cause.sqlstate,
            ) from error
        raise


def _migrate(connection: "sqlalchemy.Connection") -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    logging.getLogger("alembic").setLevel(logging.WARNING)
    config = Config()
    config.set_main_option("script_location", str(_folder("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["sql"] = _folder("sql")
    config.attributes["version"] = _version()
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise SchemaMismatch(
            f"Schema dbanon must be at a revision this program knows (up to {EXPECTED_REVISION}). "
            "Got another one. Install a newer dbanon."
        ) from error


def _folder(name: str) -> Path:
    """Find the migrations or SQL files: inside an installed package, else at the top of the repository."""
    packed = _INSTALLED / f"_{name}"
    return packed if packed.is_dir() else _REPOSITORY / name


def _version() -> str:
    return importlib.metadata.version("dbanon")


def _stamp() -> str:
    """Describe what an upgrade leaves, as the comment of the table that holds the revision.

    The methods go in as source, because every command asks for the stamp and their modules are slow to import.
    """
    files = [*sorted(_folder("sql").glob("*.sql")), *sorted((_INSTALLED / "methods").glob("*.py"))]
    content = [_version().encode(), *(file.read_bytes() for file in files)]
    whole = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in content)).hexdigest()
    return f"The revision of schema dbanon, {EXPECTED_REVISION}; its SQL files and methods: {whole}."


def _sync_methods(connection: "sqlalchemy.Connection") -> None:
    for method in METHODS.values():
        connection.exec_driver_sql(
            "INSERT INTO dbanon.method (name, summary, guarantee, region_type, attack, algorithms, columns,"
            " paper, parameters, adversary, row_meaning, left_out)"
            " VALUES (%(name)s, %(summary)s, %(guarantee)s, %(region_type)s, %(attack)s, %(algorithms)s, %(columns)s,"
            " %(paper)s, %(parameters)s, %(adversary)s, %(row_meaning)s, %(left_out)s)"
            " ON CONFLICT (name) DO UPDATE SET summary = excluded.summary, guarantee = excluded.guarantee,"
            " region_type = excluded.region_type, attack = excluded.attack, algorithms = excluded.algorithms,"
            " columns = excluded.columns, paper = excluded.paper, parameters = excluded.parameters,"
            " adversary = excluded.adversary, row_meaning = excluded.row_meaning, left_out = excluded.left_out",
            _row(method),
        )


def _describe_releases(connection: "sqlalchemy.Connection") -> None:
    """Let live releases say what this version says of releases; after the methods, whose words they use."""
    connection.exec_driver_sql(
        "SELECT dbanon.describe_release(l.release_id) FROM dbanon.release l"
        " WHERE l.withdrawn_at IS NULL AND to_regclass(format('published.%%I', l.name)) IS NOT NULL"
    )


def _row(method: Method) -> dict[str, str]:
    algorithms = [
        {"name": a.name, "summary": a.summary, "comparison_only": a.comparison_only} for a in method.algorithms
    ]
    columns = [
        {"name": c.name, "sql_type": c.sql_type, "default": c.default, "comment": c.comment} for c in method.columns
    ]
    return {
        "name": method.name,
        "summary": method.summary,
        "guarantee": method.guarantee,
        "region_type": "Polygon",
        "attack": method.attack,
        "algorithms": json.dumps(algorithms),
        "columns": json.dumps(columns),
        "paper": method.paper,
        "parameters": json.dumps(describe(method)),
        "adversary": method.adversary,
        "row_meaning": method.row_meaning,
        "left_out": method.left_out,
    }


def _failure(error: BaseException | None) -> StoreError:
    sqlstate = getattr(error, "sqlstate", None)
    said = str(error).strip().splitlines()[0] if error and str(error).strip() else type(error).__name__
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return StoreError(
            f"The login that upgrades must be a superuser or a member of dbanon_admin. The server said: {said}. "
            "Run `dbanon db upgrade` as such a login.",
            sqlstate,
        )
    return StoreError(
        f"The upgrade must run through, and was undone. The server said: {said}. Mend that and repeat.", sqlstate
    )
