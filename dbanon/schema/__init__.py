"""Brings a database to the schema this program needs, checks that it is there, and removes it.

Decides where the revisions and SQL files are, who may run them, and in what transaction: extension, roles, revisions,
``sql/`` files and the table of methods are one transaction under one advisory lock, so that a broken upgrade leaves
nothing behind and two at once do no harm. The tables are in ``migrations/``, what can be replaced is in ``sql/``.

An upgrade runs with the rights of a superuser in a database that other logins create in. So the search_path is
``pg_catalog, pg_temp`` before any other statement: no function or operator of theirs is ever found.
"""

import dataclasses
import hashlib
import importlib.metadata
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from dbanon.base.errors import SchemaMismatch, StoreError, counted
from dbanon.postgres.connection import Connection, connect, errors_translated
from dbanon.schema import _public_rights, _roles, _uninstall

if TYPE_CHECKING:
    import sqlalchemy

    from dbanon.methods import Method

Inventory = _uninstall.Inventory
EXPECTED_REVISION = "0004"

_OLDEST_REVISION = "0004"  # what was before the first release is loaded anew
_UPGRADE_LOCK = 0x6462616E << 32 | 0xFFFFFFFF
_LOCK_WAIT_S = 30.0
_LOCK_TIMEOUT = f"SET LOCAL lock_timeout = '{_LOCK_WAIT_S:.0f}s'"
_OLDEST_SERVER = 150000
_MOST_NAMED = 3
_INSTALLED = Path(__file__).parents[1]
_REPOSITORY = _INSTALLED.parent


def check(connection: psycopg.Connection) -> None:
    """Check that the schema is at the revision this program needs.

    Raises `SchemaMismatch` if the schema is missing, older or newer.
    """
    revision = _revision(connection)
    if revision is None:
        raise SchemaMismatch(
            f"Schema dbanon must be at revision {EXPECTED_REVISION} and this database has none; "
            "run `dbanon db upgrade`."
        )
    if revision != EXPECTED_REVISION:
        remedy = "run `dbanon db upgrade`" if revision < EXPECTED_REVISION else "install a newer dbanon"
        raise SchemaMismatch(
            f"Schema dbanon is at revision {revision} and this program needs {EXPECTED_REVISION}; {remedy}."
        )


def is_open(connection: psycopg.Connection) -> bool:
    """Whether the login may use the schema ``dbanon``, which readers of releases may not, or there is none."""
    query = "SELECT pg_catalog.has_schema_privilege(pg_catalog.to_regnamespace('dbanon')::oid, 'USAGE') IS NOT FALSE"
    row = connection.execute(query).fetchone()
    return row is not None and bool(row[0])


def _revision(connection: psycopg.Connection) -> str | None:
    """Read the revision, unless its table is not dbanon's own: what another login has put there is not read."""
    if not _roles.is_there(connection, "alembic_version"):
        return None
    found = connection.execute("SELECT version_num FROM dbanon.alembic_version").fetchone()
    return found[0] if found else None


def is_current(url: str) -> bool:
    """Check whether `upgrade` would change nothing: same program, revision, SQL files and methods."""
    with connect(url) as connection:
        row = connection.execute("SELECT obj_description(to_regclass('dbanon.alembic_version'), 'pg_class')").fetchone()
    return row is not None and row[0] == _stamp()


def upgrade_embedded(url: str) -> None:
    """Upgrade the embedded server where it has not what this program needs: unasked, as no other server is."""
    if not is_current(url):
        upgrade(url, restrict_public=True)


def upgrade_new(url: str) -> None:
    """Upgrade the embedded server if it has no roles of dbanon's yet: an administrator may be moving its database."""
    with connect(url) as connection:
        is_new = _roles.ask(connection, "SELECT to_regrole(%s) IS NULL", _roles.Names(_roles.DEFAULT_PREFIX).analyst)
    if is_new:
        upgrade(url, restrict_public=True)


def upgrade(
    url: str,
    *,
    role_prefix: str | None = None,
    share_roles: bool = False,
    restrict_public: bool | None = None,
    say: Callable[[str], None] = lambda line: None,
    verbose: bool = False,
) -> str:
    """Make or upgrade the schema in one transaction; safe to repeat and to run twice at once.

    Parameters
    ----------
    url : str
        libpq URI or key=value string of a login that is a superuser, or that may create roles and schemas in a database
        that has PostGIS.
    role_prefix : str, optional
        The roles are called ``<prefix>_admin`` and so on. The first upgrade of a database chooses (``dbanon`` if None),
        later ones keep it.
    share_roles : bool
        Let in the members that roles of these names have already.
    restrict_public : bool, optional
        Revoke from PUBLIC what shows something about private tables or writes large objects, or grant it again; None
        keeps what was chosen.
    say : callable
        Called with a line for what was taken from PUBLIC, and for what could not be done.
    verbose : bool
        Name each view and function that was taken.

    Returns
    -------
    str
        The revision the database is at.

    Raises
    ------
    ParameterError
        If the roles are those of another database and were not to be shared.
    StoreError
        If the server is too old, has no PostGIS, or the login may not do it.
    SchemaMismatch
        If the database is at a revision this program cannot begin with.
    """
    # Imported here: every other command is faster without them.
    import sqlalchemy
    from sqlalchemy.exc import DBAPIError

    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: _open(url), poolclass=sqlalchemy.NullPool
    )
    try:
        with engine.begin() as wrapped:
            connection: Connection = wrapped.connection.driver_connection  # type: ignore[assignment]
            before, names = _prepare(connection, role_prefix, share=share_roles)
            _migrate(wrapped, connection, names)
            _roles.record(connection, names)
            _sync_methods(connection)
            _describe_releases(connection)
            comment = sql.SQL("COMMENT ON TABLE dbanon.alembic_version IS {}")
            connection.execute(comment.format(sql.Literal(_stamp())))
            restricted = _settle_choice(connection, restrict_public)
            _offer_limits(connection, names, say)
            connection.execute("RESET ROLE")
            _settle_public(connection, names, *restricted, say=say, verbose=verbose)
            left = _roles.rights_left(connection, before) if before and before != names else 0
            if before and left:
                say(f"Roles {before.prefix}_* own or may still use {counted(left, 'other thing')} in this database.")
            if not _roles.operators_read_releases(connection, names):
                say(
                    "Operators may not read the releases: this login may not grant that. Run "
                    f"`GRANT {names.analyst} TO {names.operator}` as a superuser."
                )
    except (DBAPIError, psycopg.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(cause, psycopg.errors.LockNotAvailable):
            with connect(url) as connection:
                raise _in_use(connection) from error
        raise _failure(cause) from error
    finally:
        engine.dispose()
    return EXPECTED_REVISION


def uninstall(url: str, confirm: Callable[[_uninstall.Inventory], bool]) -> dict[str, str] | None:
    """Remove everything dbanon made in the database, and give every right back.

    Parameters
    ----------
    url : str
        Of a login that may upgrade.
    confirm : callable
        Given what will be deleted; nothing is, unless it returns True.

    Returns
    -------
    dict or None
        The roles that stay, each with the reason; None if nothing was removed.

    Raises
    ------
    StoreError
        If the login may not do it, another session uses what is to be deleted, or more has been built on it meanwhile.
    """
    with errors_translated(), _open(url) as connection:
        found = _uninstall.inventory(connection)
        connection.rollback()
        if found is None or not confirm(found):
            return None
        try:
            connection.execute(_LOCK_TIMEOUT)
            _wait_for_turn(connection)
            now = _uninstall.inventory(connection)
            if now is None or set(now.built_on_it) - set(found.built_on_it):
                raise StoreError(
                    "Another session changed the database after what is to be deleted was listed, so nothing was "
                    "deleted. Run it again."
                )
            return _uninstall.remove(connection)
        except psycopg.errors.LockNotAvailable as error:
            connection.rollback()
            raise _in_use(connection) from error


def _in_use(connection: Connection) -> StoreError:
    """Name the sessions that hold something of dbanon's."""
    holders = _roles.ask(
        connection,
        "SELECT string_agg(DISTINCT format('%%s (process %%s)', s.usename, s.pid), ', ') FROM pg_locks l"
        " JOIN pg_stat_activity s ON s.pid = l.pid JOIN pg_class c ON c.oid = l.relation"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ANY (%s) AND l.pid <> pg_backend_pid()",
        _roles.SCHEMAS,
    )
    return StoreError(
        f"dbanon's tables were in use for {_LOCK_WAIT_S:.0f} s by {holders or 'a session that has ended'}. Nothing was "
        "changed; end that transaction and run it again.",
        "55P03",
    )


def _open(url: str) -> Connection:
    connection = connect(url)
    # The owner of a database decides as which role sessions begin there: not those of a superuser.
    if _roles.ask(connection, "SELECT rolsuper FROM pg_roles WHERE rolname = session_user"):
        connection.execute("SET ROLE NONE")
    connection.autocommit = False
    return connection


def _prepare(
    connection: Connection, role_prefix: str | None, *, share: bool
) -> tuple[_roles.Names | None, _roles.Names]:
    """Do what comes before the revisions, and become the role that owns everything; returns old and new names."""
    connection.execute("SET LOCAL client_min_messages = warning")
    version = connection.info.server_version
    if version < _OLDEST_SERVER:
        raise StoreError(
            f"The server must be PostgreSQL {_OLDEST_SERVER // 10000} or later. Got version {version // 10000}. "
            "Move to a newer server."
        )
    connection.execute(_LOCK_TIMEOUT)
    _wait_for_turn(connection)
    _roles.demand_own_schemas(connection)
    _demand_upgradable(connection)
    before = _roles.recorded(connection)
    names = _roles.choose(connection, role_prefix, share=share)
    if not connection.execute("SELECT FROM pg_extension WHERE extname = 'postgis'").rowcount:
        _demand_closed_schema(connection, "public", names)
        _create_postgis(connection)
    _demand_closed_schema(connection, _roles.postgis_schema(connection), names)
    _roles.become_admin(connection, names)
    return before[0] if before else None, names


def _wait_for_turn(connection: Connection) -> None:
    """Lock out other upgrades and removals until the transaction ends; any login can take the lock, so wait briefly."""
    until = time.monotonic() + _LOCK_WAIT_S
    while not _roles.ask(connection, "SELECT pg_try_advisory_xact_lock(%s)", _UPGRADE_LOCK):
        if time.monotonic() > until:
            holders = _roles.ask(
                connection,
                "SELECT string_agg(format('%%s (process %%s)', s.usename, l.pid), ', ') FROM pg_locks l"
                " LEFT JOIN pg_stat_activity s ON s.pid = l.pid"
                " WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1"
                " AND (l.classid::bigint << 32) | l.objid::bigint = %s AND l.database ="
                " (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())",
                _UPGRADE_LOCK,
            )
            raise StoreError(
                f"Another upgrade of this database did not end within {_LOCK_WAIT_S:.0f} s, and nothing was changed. "
                f"Its lock is held by {holders or 'a session that has just ended'}; end that session, or run it again."
            )
        time.sleep(0.1)


def _demand_upgradable(connection: Connection) -> None:
    revision = _revision(connection)
    if revision is not None and revision < _OLDEST_REVISION:
        raise SchemaMismatch(
            f"Schema dbanon is at revision {revision}, of a program before the first release, and cannot be upgraded. "
            "Run `dbanon db uninstall`, which deletes all it holds, then `dbanon db upgrade`, and load the data anew."
        )
    if revision is not None and revision > EXPECTED_REVISION:
        raise SchemaMismatch(
            f"Schema dbanon is at revision {revision} and this program knows those up to {EXPECTED_REVISION}; "
            "install a newer dbanon."
        )


def _demand_closed_schema(connection: Connection, schema: str, names: _roles.Names) -> None:
    """Refuse a schema for PostGIS in which others may put functions beside its own, or own it."""
    rows = connection.execute(
        """
        SELECT coalesce(quote_ident(r.rolname), 'PUBLIC'), r.oid = n.nspowner, quote_ident(n.nspname)
        FROM pg_namespace n JOIN pg_database d ON d.datname = current_database()
        CROSS JOIN LATERAL (
            SELECT x.grantee FROM aclexplode(n.nspacl) x WHERE x.privilege_type = 'CREATE' UNION SELECT n.nspowner) g
        LEFT JOIN pg_roles r ON r.oid = g.grantee
        WHERE n.nspname = %s AND (r.oid IS NULL OR NOT r.rolsuper AND r.oid <> d.datdba
            AND r.rolname NOT IN ('pg_database_owner', %s))
        ORDER BY 1
        """,
        [schema, names.admin],
    ).fetchall()
    if rows:
        schema = rows[0][2]
        others = ", ".join(name for name, owns, _ in rows if not owns)
        owner = "".join(f"`ALTER SCHEMA {schema} OWNER TO pg_database_owner`" for _, owns, _ in rows if owns)
        revoke = f"`REVOKE CREATE ON SCHEMA {schema} FROM {others}`" if others else ""
        raise StoreError(
            f"Only superusers, the database's owner and {names.admin} may create in the schema of PostGIS, or other "
            f"logins could shadow its functions. In {schema} {', '.join(name for name, *_ in rows)} may as "
            f"well; run {' and '.join(filter(None, (owner, revoke)))}."
        )


def _settle_choice(connection: Connection, wanted: bool | None) -> tuple[bool, bool]:
    """Record whether rights are to be taken from PUBLIC; returns what was chosen before, and what is now."""
    before = _public_rights.is_restricted(connection)
    restricted = before if wanted is None else wanted
    connection.execute("UPDATE dbanon.installation SET public_restricted = %s", [restricted])
    return before, restricted


def _settle_public(
    connection: Connection,
    names: _roles.Names,
    before: bool,
    restricted: bool,
    *,
    say: Callable[[str], None],
    verbose: bool,
) -> None:
    """Take from PUBLIC the rights that analysts do not need, or give them back, as the administrator has chosen."""
    if restricted and not before:
        going = [thing for thing in _public_rights.things(connection) if thing.public and thing.ours]
        views, functions = ([thing.name for thing in going if thing.kind == kind] for kind in ("TABLE", "FUNCTION"))
        if going:
            say(
                f"Taken from PUBLIC, and given to pg_monitor and dbanon's roles: {counted(len(views), 'view')} and "
                f"{counted(len(functions), 'function')} that show locks, counters and estimates"
                f"{': ' + ', '.join(views + functions) if verbose else '; --verbose names them'}."
            )
    left: list[_public_rights.Thing] = []
    if restricted:
        left = _public_rights.restrict(connection, names)
    elif before:
        _public_rights.give_back(connection, names)
    if left:
        say(
            "The server's locks, counters and large objects and PostGIS's estimates "
            f"({counted(len(left), 'view or function', 'views and functions')}) stay open to every login: this one "
            "may not take them from PUBLIC. Upgrade once as a superuser, or see docs/limitations.md."
        )
    elif not restricted:
        say(
            "Every login of this database can read the server's locks and counters and PostGIS's estimates, and write "
            "large objects: see docs/limitations.md. In a database of dbanon's own, `dbanon db upgrade "
            "--restrict-public` takes these rights away."
        )


def _offer_limits(connection: Connection, names: _roles.Names, say: Callable[[str], None]) -> None:
    """Say how to limit the time and the temporary files of logins that only read releases."""
    unlimited = _roles.unlimited_readers(connection, names)
    statements = [
        f"`ALTER ROLE {login} SET {name} = '{_roles.READER_LIMITS[name]}'`"
        for login, lacking in unlimited[:_MOST_NAMED]
        for name in lacking
    ]
    if statements:
        further = len(unlimited) - _MOST_NAMED
        more = f", and the same for {counted(further, 'more login')}" if further > 0 else ""
        say(
            "Some logins that read releases may compute for any time, or fill the disk with temporary files. A "
            f"superuser can limit them: {', '.join(statements)}{more}."
        )


def _create_postgis(connection: Connection) -> None:
    try:
        connection.execute("CREATE EXTENSION postgis SCHEMA public")
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidSchemaName) as error:
        raise StoreError(
            "Extension postgis must be in the database. This login may not create it, or there is no schema public. "
            "Run `CREATE EXTENSION postgis` in this database as a superuser.",
            error.sqlstate,
        ) from error
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile) as error:
        raise StoreError(
            "PostGIS must be installed on the server. Its extension was not found there. "
            "Install PostGIS on the server's machine (on Debian: apt install postgresql-postgis).",
            error.sqlstate,
        ) from error


def _migrate(wrapped: "sqlalchemy.Connection", connection: Connection, names: _roles.Names) -> None:
    from alembic import command
    from alembic.config import Config

    logging.getLogger("alembic").setLevel(logging.WARNING)
    config = Config()
    config.set_main_option("script_location", str(_folder("migrations")).replace("%", "%%"))
    config.attributes["connection"] = wrapped
    config.attributes["sql"] = _folder("sql")
    postgis = _roles.postgis_schema(connection)
    config.attributes["marks"] = {
        "@postgis@": sql.Identifier(postgis).as_string(connection),
        "@version_text@": sql.Literal(_version()).as_string(connection),
        "@prefix@": names.prefix,
        **{f"@{role}@": f"{names.prefix}_{role}" for role in _roles.PURPOSES},
    }
    command.upgrade(config, "head")


def _folder(name: str) -> Path:
    """Find the migrations or SQL files: inside an installed package, else at the top of the repository."""
    packed = _INSTALLED / f"_{name}"
    return packed if packed.is_dir() else _REPOSITORY / name


def _version() -> str:
    return importlib.metadata.version("dbanon")


def _stamp() -> str:
    """Describe what an upgrade leaves, as the comment of the table that holds the revision.

    The methods and attacks go in as source: every command asks for the stamp, and their modules are slow to import.
    """
    packages = (_INSTALLED / "methods", _INSTALLED / "attacks")
    sources = [file for package in packages for file in sorted(package.rglob("*.py"))]
    files = [*sorted(_folder("sql").rglob("*.sql")), *sources]
    content = [_version().encode(), *(file.read_bytes() for file in files)]
    whole = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in content)).hexdigest()
    return f"The revision of schema dbanon, {EXPECTED_REVISION}; its SQL files, methods and attacks: {whole}."


def _sync_methods(connection: Connection) -> None:
    from dbanon.methods import METHODS  # with NumPy, which is slow to import

    for method in METHODS.values():
        row = _row(method)
        names = [sql.Identifier(name) for name in row]
        query = sql.SQL("INSERT INTO dbanon.method ({}) VALUES ({}) ON CONFLICT (name) DO UPDATE SET {}").format(
            sql.SQL(", ").join(names),
            sql.SQL(", ").join(map(sql.Placeholder, row)),
            sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(name) for name in names),
        )
        connection.execute(query, row)


def _describe_releases(connection: Connection) -> None:
    """Describe live releases anew, in this version's words; after the methods, whose texts are in them."""
    connection.execute(
        "SELECT dbanon_internal.describe_release(max(l.release_id)) FROM dbanon.release l"
        " WHERE l.withdrawn_at IS NULL AND to_regclass(format('published.%I', l.name)) IS NOT NULL GROUP BY l.name"
    )


def _row(method: "Method") -> dict[str, str]:
    from dbanon.methods import describe

    algorithms = [dataclasses.asdict(a) for a in method.algorithms]
    columns = [
        {"name": c.name, "sql_type": c.sql_type, "default": c.default, "comment": c.comment} for c in method.columns
    ]
    return {
        "name": method.name,
        "summary": method.summary,
        "guarantee": method.guarantee,
        "region_type": method.region_type,
        "attack": method.name,
        "algorithms": json.dumps(algorithms),
        "columns": json.dumps(columns),
        "paper": method.paper,
        "parameters": json.dumps(describe(method)),
        "adversary": method.adversary,
        "row_meaning": method.row_meaning,
        "left_out": method.left_out,
        "traits": json.dumps({**method.traits, **_words(method)}),
    }


def _words(method: "Method") -> dict[str, Any]:
    """Give the plain words of a family's clauses by name, the test that each is of, and what each test leaves open."""
    from dbanon import attacks
    from dbanon.attacks import once

    attack = attacks.attacker(method.attack).attack
    known = (*attack.clauses, *once.CLAUSES)
    clauses = {clause.name: {"plain": clause.plain, "test": clause.test} for clause in known}
    return {"clauses": clauses, "left_open": dict(attack.left_open)}


def _failure(error: BaseException | None) -> StoreError:
    sqlstate = getattr(error, "sqlstate", None)
    said = str(error).strip().splitlines()[0] if error and str(error).strip() else type(error).__name__
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return StoreError(
            "The login that upgrades must be a superuser or a member of the admin role (dbanon_admin, unless another "
            f"prefix was chosen). The server said: {said}. Run `dbanon db upgrade` as such a login.",
            sqlstate,
        )
    return StoreError(
        f"The upgrade failed and was undone. The server said: {said}. Correct that and run it again.", sqlstate
    )
