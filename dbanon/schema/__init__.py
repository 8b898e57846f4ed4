"""Installs dbanon in a database, or upgrades it there, checks that it is there, and removes it.

No table or function is written here. An upgrade is one text (`dbanon.schema._text`), made of ``sql/`` and
``migrations/``. psql can run it as well. This module runs it in one transaction under one advisory lock, so a broken
upgrade leaves nothing behind, and two upgrades at once do no harm. The text speaks to the user by the server's
notices, and refuses by its errors.

An upgrade runs with the rights of a superuser in a database that other logins create in. So the search_path is
``pg_catalog, pg_temp`` before any other statement, and what they own under PostGIS's names is refused.
"""

from collections.abc import Callable

import psycopg
from psycopg import sql

from dbanon.base.errors import SchemaMismatch, StoreError
from dbanon.postgres import sqlstate
from dbanon.postgres.connection import Connection, connect, fetch_value, find_postgis_schema, make_sql, translate_errors
from dbanon.schema import _roles, _text, _uninstall

Inventory = _uninstall.Inventory
EXPECTED_REVISION = _text.EXPECTED_REVISION


def demand_revision(connection: psycopg.Connection) -> None:
    """Raise `SchemaMismatch` unless the schema is at the revision that this program needs."""
    revision = _read_revision(connection)
    if revision is None:
        raise SchemaMismatch(
            f"Schema dbanon must be at revision {EXPECTED_REVISION} and this database has none. Run `dbanon db "
            f"upgrade`."
        )
    if revision != EXPECTED_REVISION:
        remedy = "Run `dbanon db upgrade`" if revision < EXPECTED_REVISION else "Install a newer dbanon"
        raise SchemaMismatch(
            f"Schema dbanon is at revision {revision} and this program needs {EXPECTED_REVISION}. {remedy}."
        )


def is_open(connection: psycopg.Connection) -> bool:
    """Whether the login may use the schema ``dbanon``, which readers of releases may not, or there is none."""
    query = "SELECT pg_catalog.has_schema_privilege(pg_catalog.to_regnamespace('dbanon')::oid, 'USAGE') IS NOT FALSE"
    row = connection.execute(query).fetchone()
    return row is not None and bool(row[0])


def _read_revision(connection: psycopg.Connection) -> str | None:
    """Read the revision, unless its table is not dbanon's own: what another login has put there is not read."""
    if not _roles.is_there(connection, "alembic_version"):
        return None
    row = connection.execute("SELECT version_num FROM dbanon.alembic_version").fetchone()
    return row[0] if row else None


def is_current(url: str) -> bool:
    """Check whether `upgrade` would change nothing: same program, revision, SQL files and methods."""
    with connect(url) as connection:
        row = connection.execute("SELECT obj_description(to_regclass('dbanon.alembic_version'), 'pg_class')").fetchone()
    return row is not None and row[0] == _text.compute_stamp()


def upgrade_embedded(url: str) -> None:
    """Upgrade the embedded server where it has not what this program needs: unasked, as no other server is."""
    if not is_current(url):
        upgrade(url, restrict_public=True)


def upgrade_new(url: str) -> None:
    """Upgrade the embedded server if it has no roles of dbanon's yet: an administrator may be moving its database."""
    with connect(url) as connection:
        is_new = fetch_value(connection, "SELECT to_regrole(%s) IS NULL", [f"{_roles.DEFAULT_PREFIX}_analyst"])
    if is_new:
        upgrade(url, restrict_public=True)


def write_script(
    *,
    role_prefix: str | None = None,
    share_roles: bool = False,
    restrict_public: bool | None = None,
    postgis_schema: str = "public",
    since: str | None = None,
) -> str:
    """Write all that `upgrade` does as one text, for psql; needs no server.

    Parameters
    ----------
    role_prefix, share_roles, restrict_public
        As of `upgrade`; a database whose roles have another prefix than ``dbanon`` is refused, unless it is given.
    postgis_schema : str
        The schema that PostGIS lives in, or is created in; a database that has it elsewhere is refused.
    since : str, optional
        The revision that the database has at least: its tables and those of earlier revisions are left out.

    Returns
    -------
    str
        SQL, to be run in one transaction.

    Raises `ParameterError` if the prefix or the schema of PostGIS cannot be one, or there is no such revision.
    """
    options = _text.Asked(
        prefix=_roles.DEFAULT_PREFIX if role_prefix is None else role_prefix,
        move_roles=role_prefix is not None,
        share_roles=share_roles,
        restrict_public=restrict_public,
        postgis=postgis_schema,
        since=since,
    )
    return "".join(_text.build_sections(options))


def make_installer(functions: str) -> str:
    """Fill the text of `write_script` into the functions of the extension.

    On the server they fill in what is left open.
    """
    return _text.make_installer(functions)


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

    Raises `ParameterError` if the roles are those of another database and were not to be shared; `StoreError` if the
    server is too old, has no PostGIS, or the login may not do it; `SchemaMismatch` if the database is at a revision
    this program cannot begin with.
    """

    def pass_on(notice: psycopg.errors.Diagnostic) -> None:
        if notice.sqlstate == sqlstate.OWN_NOTICE:
            more = notice.message_detail if verbose else "--verbose names them." if notice.message_detail else None
            say(" ".join(filter(None, (notice.message_primary, more))))

    try:
        with _open(url) as connection:
            options = _text.Asked(
                prefix=(_roles.read_recorded(connection) or _roles.DEFAULT_PREFIX)
                if role_prefix is None
                else role_prefix,
                move_roles=role_prefix is not None,
                share_roles=share_roles,
                restrict_public=restrict_public,
                postgis=find_postgis_schema(connection),
            )
            sections = list(_text.build_sections(options))
            connection.add_notice_handler(pass_on)
            with connection.transaction():
                for section in sections:
                    connection.execute(make_sql(section))
    except psycopg.Error as error:
        if (error.sqlstate or "").startswith("DA"):
            raise sqlstate.translate(error) from error
        raise _make_failure(error) from error
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

    Raises `StoreError` if the login may not do it, another session uses what is to be deleted, or more has been built
    on it meanwhile.
    """
    with translate_errors(), _open(url) as connection:
        connection.autocommit = False
        inventory = _uninstall.take_inventory(connection)
        connection.rollback()
        if inventory is None or not confirm(inventory):
            return None
        connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(f"{_text.LOCK_WAIT_S:g}s"))
        connection.execute(make_sql(_text.make_functions()))
        connection.execute("SELECT pg_temp.wait_for_turn()")
        now = _uninstall.take_inventory(connection)
        if now is None or set(now.built_on_it) - set(inventory.built_on_it):
            raise StoreError(
                "Another session changed the database after the list of things to delete was made, so nothing was "
                "deleted. Run it again."
            )
        try:
            with connection.transaction():
                return _uninstall.remove(connection)
        except psycopg.errors.LockNotAvailable:
            connection.execute("SELECT pg_temp.refuse_use()")
            raise


def has_installer(url: str) -> bool:
    """Whether the database has the extension dbanon, which is no part of what it installs."""
    with connect(url) as connection:
        return bool(fetch_value(connection, "SELECT EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'dbanon')"))


def _open(url: str) -> Connection:
    connection = connect(url)
    # The owner of a database decides as which role sessions begin there: not those of a superuser.
    if fetch_value(connection, "SELECT rolsuper FROM pg_roles WHERE rolname = session_user"):
        connection.execute("SET ROLE NONE")
    return connection


def _make_failure(error: psycopg.Error) -> StoreError:
    message = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return StoreError(
            "The login that upgrades must be a superuser or a member of the admin role (dbanon_admin, unless another "
            f"prefix was chosen). The server said: {message}. Run `dbanon db upgrade` as such a login.",
            error.sqlstate,
        )
    return StoreError(
        f"The upgrade failed and was undone. The server said: {message}. Correct that and run it again.", error.sqlstate
    )
