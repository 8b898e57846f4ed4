"""The four roles of a database: their names, their members, and what they own.

Roles belong to the server, not to the database, so their names are chosen at a database's first upgrade, and recorded
in it with its OID and its server's identifier. A copy of it (restored, cloned) has others: its first upgrade chooses
anew, or the members of the original's roles would have their rights in the copy as well.

A database may hold what a hostile login has put there under dbanon's names. So nothing in dbanon's schemas is read
before the catalogs have shown who owns it: a superuser, the caller, or an admin role of dbanon's (`TRUSTED`).

All statements run in the caller's transaction, on a connection whose search_path is ``pg_catalog, pg_temp``.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from dbanon.base.errors import ParameterError, StoreError
from dbanon.postgres.connection import Connection, as_is, one

DEFAULT_PREFIX = "dbanon"
PURPOSES = {
    "admin": "owns everything dbanon makes; members may upgrade",
    "operator": "may load data, submit runs, publish, unpublish and read the releases",
    "worker": "computes and verifies: alone writes cloaks, members and verdicts",
    "analyst": "may read the views in schema published and call its functions, nothing else",
}
SCHEMAS = ["dbanon", "dbanon_internal", "published"]

# Whether role r may own what a superuser reads or runs. Only superusers and makers of roles write a role's comment.
TRUSTED = f"""(r.rolsuper OR r.rolname = current_user AND current_user = session_user OR NOT r.rolcanlogin
    AND shobj_description(r.oid, 'pg_authid') = 'dbanon: {PURPOSES["admin"]}')"""

# Everything in the schemas, whatever it is, with its owner; and every role that may create there.
_OWNERS = f"""
WITH ours AS (SELECT n.oid, n.nspname, n.nspowner, n.nspacl FROM pg_namespace n WHERE n.nspname = ANY (%(schemas)s)),
thing (classid, objid, owner) AS (
    SELECT 'pg_namespace'::regclass, o.oid, o.nspowner FROM ours o
    UNION ALL SELECT 'pg_class'::regclass, c.oid, c.relowner FROM pg_class c JOIN ours o ON o.oid = c.relnamespace
        WHERE c.relkind NOT IN ('i', 'I', 't', 'c')
    UNION ALL SELECT 'pg_proc'::regclass, p.oid, p.proowner FROM pg_proc p JOIN ours o ON o.oid = p.pronamespace
    UNION ALL SELECT 'pg_type'::regclass, y.oid, y.typowner FROM pg_type y JOIN ours o ON o.oid = y.typnamespace
        LEFT JOIN pg_class c ON c.oid = y.typrelid WHERE y.typelem = 0 AND coalesce(c.relkind, 'c') = 'c'
    UNION ALL SELECT 'pg_operator'::regclass, x.oid, x.oprowner FROM pg_operator x JOIN ours o ON o.oid = x.oprnamespace
)
SELECT i.type, i.identity, r.rolname, {TRUSTED}, t.classid = 'pg_class'::regclass AND i.type = 'sequence'
FROM thing t CROSS JOIN LATERAL pg_identify_object(t.classid, t.objid, 0) i JOIN pg_roles r ON r.oid = t.owner
UNION ALL
-- The functions of triggers, which an upgrade calls when it writes to their tables.
SELECT 'trigger', format('%%I on %%s, which calls %%s', g.tgname, g.tgrelid::regclass, g.tgfoid::regprocedure),
    r.rolname, {TRUSTED}, true
FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid JOIN ours o ON o.oid = c.relnamespace
JOIN pg_proc p ON p.oid = g.tgfoid JOIN pg_roles r ON r.oid = p.proowner
WHERE NOT g.tgisinternal
UNION ALL
SELECT 'right to create in schema', quote_ident(o.nspname), coalesce(r.rolname, 'PUBLIC'),
    coalesce({TRUSTED}, false), true
FROM ours o CROSS JOIN LATERAL aclexplode(o.nspacl) x LEFT JOIN pg_roles r ON r.oid = x.grantee
WHERE x.privilege_type = 'CREATE'
"""

_RIGHTS = """
SELECT o.kind, o.name, o.part, x.privilege_type, x.is_grantable, r.rolname
FROM (
    SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind, c.oid::regclass::text AS name,
        NULL::name AS part, c.relacl AS acl
    FROM pg_class c WHERE c.relacl IS NOT NULL
    UNION ALL
    SELECT 'TABLE', a.attrelid::regclass::text, a.attname, a.attacl FROM pg_attribute a WHERE a.attacl IS NOT NULL
    UNION ALL
    SELECT 'ROUTINE', p.oid::regprocedure::text, NULL, p.proacl FROM pg_proc p WHERE p.proacl IS NOT NULL
    UNION ALL
    SELECT 'SCHEMA', quote_ident(n.nspname), NULL, n.nspacl FROM pg_namespace n WHERE n.nspacl IS NOT NULL
    UNION ALL
    SELECT 'DATABASE', quote_ident(d.datname), NULL, d.datacl FROM pg_database d WHERE d.datname = current_database()
) o
CROSS JOIN LATERAL aclexplode(o.acl) x
JOIN pg_roles r ON r.oid = x.grantee
WHERE r.rolname = ANY (%(roles)s)
"""

_MEMBERS = """
WITH RECURSIVE inside (role, member) AS (
    SELECT r.rolname, m.member FROM pg_roles r JOIN pg_auth_members m ON m.roleid = r.oid
    WHERE r.rolname = ANY (%(roles)s)
    UNION
    SELECT i.role, m.member
    FROM inside i JOIN pg_auth_members m ON m.roleid = i.member
    WHERE i.member::regrole::text <> ALL (%(roles)s)
)
SELECT r.rolname, string_agg(i.role, ', ' ORDER BY i.role)
FROM inside i JOIN pg_roles r ON r.oid = i.member
WHERE NOT r.rolsuper AND r.rolname <> ALL (%(roles)s || ARRAY[current_user, session_user])
GROUP BY r.rolname ORDER BY r.rolname
"""

_ELSEWHERE = """
SELECT DISTINCT d.datname
FROM pg_shdepend s JOIN pg_roles r ON r.oid = s.refobjid
JOIN pg_database d ON d.oid = s.dbid OR s.classid = 'pg_database'::regclass AND d.oid = s.objid
WHERE s.refclassid = 'pg_authid'::regclass AND r.rolname = ANY (%(roles)s) AND d.datname <> current_database()
ORDER BY d.datname
"""


@dataclass(frozen=True)
class Names:
    """The roles of one prefix."""

    prefix: str

    @property
    def admin(self) -> str:
        return f"{self.prefix}_admin"

    @property
    def operator(self) -> str:
        return f"{self.prefix}_operator"

    @property
    def worker(self) -> str:
        return f"{self.prefix}_worker"

    @property
    def analyst(self) -> str:
        return f"{self.prefix}_analyst"

    @property
    def all(self) -> list[str]:
        return [f"{self.prefix}_{role}" for role in PURPOSES]


READER_LIMITS = {"statement_timeout": "5min", "temp_file_limit": "2GB"}
_UNLIMITED = """
SELECT quote_ident(r.rolname), array_agg(l.name ORDER BY l.name)
FROM pg_roles r CROSS JOIN unnest(%(limits)s::text[]) l (name)
WHERE r.rolcanlogin AND NOT r.rolsuper
    AND EXISTS (
        SELECT FROM pg_roles o WHERE pg_has_role(r.oid, o.oid, 'MEMBER') AND (o.rolname = %(analyst)s OR o.rolname IN (
            SELECT unnest(e.readers) FROM dbanon.release e WHERE e.withdrawn_at IS NULL)))
    AND NOT EXISTS (
        SELECT FROM pg_roles o WHERE pg_has_role(r.oid, o.oid, 'MEMBER') AND o.rolname = ANY (%(names)s)
            AND o.rolname <> %(analyst)s)
    -- What holds for the login: what is set nearest to it, otherwise what the server starts sessions with.
    AND coalesce(
        (SELECT split_part(c.setting, '=', 2)
         FROM pg_db_role_setting s CROSS JOIN unnest(s.setconfig) c (setting)
         WHERE s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
             AND s.setrole IN (0, r.oid) AND starts_with(c.setting, l.name || '=')
         ORDER BY s.setrole = 0, s.setdatabase = 0 LIMIT 1),
        (SELECT g.reset_val FROM pg_settings g WHERE g.name = l.name)) ~ '^(0|-1)[a-z]*$'
GROUP BY r.rolname ORDER BY r.rolname
"""


def is_there(connection: Connection, table: str) -> bool:
    """Whether dbanon's schema has a table of that name that may be read: what is planted there is not dbanon's."""
    query = f"""
        SELECT EXISTS (
            SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_roles r ON r.oid = c.relowner
            WHERE n.nspname = 'dbanon' AND c.relname = %s AND c.relkind = 'r' AND {TRUSTED})
    """
    return bool(ask(connection, query, table))


def recorded(connection: Connection) -> tuple[Names, bool] | None:
    """Return the names recorded in this database, and whether they are its own: a copy has them from its original."""
    if not is_there(connection, "installation"):
        return None
    row = connection.execute(
        "SELECT i.role_prefix, i.database_oid = d.oid AND i.server_identifier = s.system_identifier"
        " FROM dbanon.installation i, pg_database d, pg_control_system() s WHERE d.datname = current_database()"
    ).fetchone()
    return (Names(_checked(row[0])), row[1]) if row else None


def choose(connection: Connection, prefix: str | None, *, share: bool) -> Names:
    """Decide on the names for this database, and make the roles that are missing.

    Raises `ParameterError` if the prefix cannot be one, or if its roles are not dbanon's, or would let in members who
    were given them for another database.
    """
    before = recorded(connection)
    names = Names(_checked(prefix)) if prefix is not None else before[0] if before else Names(DEFAULT_PREFIX)
    chosen = before is not None and before[1] and names == before[0]
    _create(connection, names)
    if not chosen:
        # Of two first upgrades at once (of two databases) the second waits here for the first, and then sees its roles.
        _take_turn(connection, names)
        if not share:
            _demand_unshared(connection, names)
    return names


def _checked(prefix: str) -> str:
    if re.fullmatch(r"(?!pg_)[a-z][a-z0-9_]{0,39}", prefix):
        return prefix
    raise ParameterError(
        "A role prefix must be lower-case letters, digits and underscores, start with a letter, not with pg_, and have "
        f"at most 40 characters. Got {prefix[:60]!r}; choose another with --role-prefix."
    )


def _create(connection: Connection, names: Names) -> None:
    """Make the roles that are missing, and refuse those that dbanon did not make."""
    for role, purpose in PURPOSES.items():
        name, comment = f"{names.prefix}_{role}", f"dbanon: {purpose}"
        if not ask(connection, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = %s)", name):
            # Another database's upgrade may be making it at this moment.
            with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation), connection.transaction():
                _run(connection, "CREATE ROLE {} NOLOGIN", name)
                statement = sql.SQL("COMMENT ON ROLE {} IS {}")
                connection.execute(statement.format(sql.Identifier(name), sql.Literal(comment)))
        if not _is_plain(connection, name):
            raise ParameterError(
                "A role of dbanon's must be its own: it cannot log in, has no attributes, and a comment says what it "
                f"is for. Role {name} is another one. Choose other names with --role-prefix, or, if it was made for "
                f"this, have a superuser run `COMMENT ON ROLE {name} IS '{comment}'`."
            )


def _is_plain(connection: Connection, name: str) -> bool:
    """Whether a role is one of dbanon's and nothing else; true of one that is not there."""
    found = connection.execute(
        "SELECT NOT (rolcanlogin OR rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls)"
        " AND shobj_description(oid, 'pg_authid') = ANY (%s) FROM pg_roles WHERE rolname = %s",
        [[f"dbanon: {purpose}" for purpose in PURPOSES.values()], name],
    ).fetchone()
    return found is None or bool(found[0])


def _take_turn(connection: Connection, names: Names) -> None:
    """Write the row of the admin role, which all databases share; a login that may not do that goes on."""
    for _ in range(10):
        with suppress(psycopg.errors.InternalError_):  # "tuple concurrently updated": the other one has committed
            with suppress(psycopg.errors.InsufficientPrivilege), connection.transaction():
                _run(connection, "ALTER ROLE {} NOLOGIN", names.admin)
            return


def _demand_unshared(connection: Connection, names: Names) -> None:
    roles = {"roles": names.all}
    databases = [name for (name,) in connection.execute(_ELSEWHERE, roles)]
    members = [f"{member} ({role})" for member, role in connection.execute(_MEMBERS, roles)]
    if databases or members:
        there = f"Roles {names.prefix}_* are on this server already"
        used = f"Database {', '.join(databases)} of this server uses {names.prefix}_*" if databases else there
        raise ParameterError(
            "The roles of a database must not let in logins that were granted them for another one. "
            f"{used}; members: {', '.join(members) or 'none yet'}. Choose other names with --role-prefix NAME, or let "
            "the same logins in with --share-roles."
        )


def postgis_schema(connection: Connection) -> str:
    """Name the schema that PostGIS lives in."""
    query = "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = %s"
    return str(ask(connection, query, "postgis"))


def become_admin(connection: Connection, names: Names) -> None:
    """Give the roles what they need outside of dbanon's schemas, make the schemas, and go on as the admin role.

    All objects belong to that role, which is no superuser: so the SECURITY DEFINER functions do not run as one.
    """
    # From version 16 on, a role that makes another is its member, but may not become it.
    become = "MEMBER" if connection.info.server_version < 160000 else "SET"
    if not ask(connection, "SELECT pg_has_role(%s, %s)", names.admin, become):
        connection.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(sql.Identifier(names.admin)))
    postgis, database = postgis_schema(connection), ask(connection, "SELECT current_database()")
    for role in names.all:
        if not ask(connection, "SELECT has_schema_privilege(%s, %s, 'USAGE')", role, postgis):
            _run(connection, "GRANT USAGE ON SCHEMA {} TO {}", postgis, role)
        temporary = ask(connection, "SELECT has_database_privilege(%s, %s, 'TEMPORARY')", role, database)
        if role != names.analyst and not temporary:
            _run(connection, "GRANT TEMPORARY ON DATABASE {} TO {}", database, role)
    # Operators see what analysts see. And the admin ends the sessions of those who read a release that is withdrawn.
    _grant_role(connection, names.analyst, names.operator)
    _grant_role(connection, "pg_signal_backend", names.admin)
    before = recorded(connection)
    for schema in SCHEMAS:
        # Of a database upgraded before, one may be missing: a dump of some schemas, or an older program.
        if before is None or ask(connection, "SELECT to_regnamespace(%s) IS NULL", schema):
            _run(connection, "CREATE SCHEMA {} AUTHORIZATION {}", schema, names.admin)
    if before is not None:
        _take_over(connection, names)
        if before[0] != names:
            _move_rights(connection, before[0], names)
    _run(connection, "SET LOCAL ROLE {}", names.admin)


def record(connection: Connection, names: Names) -> None:
    """Record the names of this database's roles."""
    connection.execute(
        "INSERT INTO dbanon.installation (role_prefix, database_oid, server_identifier)"
        " SELECT %s, d.oid, s.system_identifier FROM pg_database d, pg_control_system() s"
        " WHERE d.datname = current_database()"
        " ON CONFLICT (one) DO UPDATE SET role_prefix = excluded.role_prefix, database_oid = excluded.database_oid,"
        " server_identifier = excluded.server_identifier",
        [names.prefix],
    )


def operators_read_releases(connection: Connection, names: Names) -> bool:
    """Check whether operators may read what analysts may; an upgrade grants it where its login may."""
    return bool(ask(connection, "SELECT pg_has_role(%s, %s, 'MEMBER')", names.operator, names.analyst))


def unlimited_readers(connection: Connection, names: Names) -> list[tuple[str, list[str]]]:
    """List the logins that only read releases, each with those settings of `READER_LIMITS` that it lacks.

    A role's settings hold for its own login and not for its members, so dbanon_analyst itself can carry none.
    """
    return connection.execute(
        _UNLIMITED, {"names": names.all, "analyst": names.analyst, "limits": list(READER_LIMITS)}
    ).fetchall()


def revoke_rights(connection: Connection, names: Names) -> None:
    """Take from the roles what they may do in this database."""
    for statement in _rights(connection, names, "REVOKE {} ON {} FROM {} CASCADE"):
        connection.execute(statement)


def rights_left(connection: Connection, names: Names) -> int:
    """Count what the roles still own or may use in this database: given by others, or of a kind that is not moved."""
    query = """
        SELECT count(*) FROM pg_shdepend s JOIN pg_roles r ON r.oid = s.refobjid
        JOIN pg_database d ON d.datname = current_database() AND d.oid = s.dbid
        WHERE s.refclassid = 'pg_authid'::regclass AND r.rolname = ANY (%s)
    """
    return int(ask(connection, query, names.all))


def drop(connection: Connection, names: Names) -> dict[str, str]:
    """Drop the roles; returns those that stay, each with the reason."""
    stay = {}
    for role in names.all:
        databases = [name for (name,) in connection.execute(_ELSEWHERE, {"roles": [role]})]
        if databases:
            stay[role] = f"used by database {', '.join(databases)}"
        elif not _is_plain(connection, role):
            stay[role] = "not one that dbanon made"
        if role in stay:
            continue
        try:
            with connection.transaction():
                _run(connection, "DROP ROLE IF EXISTS {}", role)
        except psycopg.errors.DependentObjectsStillExist:
            stay[role] = "owns or may use other things on this server"
        except psycopg.errors.InsufficientPrivilege:
            stay[role] = "this login may not drop it"
    return stay


def _grant_role(connection: Connection, role: str, member: str) -> None:
    if not ask(connection, "SELECT pg_has_role(%s, %s, 'MEMBER')", member, role):
        # Not every login may; or the upgrade of another database has just done it.
        with suppress(psycopg.errors.InsufficientPrivilege, psycopg.errors.UniqueViolation), connection.transaction():
            _run(connection, "GRANT {} TO {}", role, member)


def demand_own_schemas(connection: Connection) -> None:
    """Refuse schemas of dbanon's names in which anything is, or may be put, that others control.

    Raises
    ------
    StoreError
        Naming it and whose it is.
    """
    for kind, name, owner, trusted, _ in connection.execute(_OWNERS, {"schemas": SCHEMAS}).fetchall():
        if not trusted:
            raise StoreError(
                f"The schemas {', '.join(SCHEMAS)} must be dbanon's own: what others own there would run with the "
                f"rights of the login that upgrades. Got {kind} {name} of {owner}. Nothing was changed; remove it."
            )
    found = "SELECT string_agg(n.nspname, ', ') FROM pg_namespace n WHERE n.nspname = ANY (%s)"
    schemas = ask(connection, found, SCHEMAS)
    if schemas and not (is_there(connection, "installation") or is_there(connection, "alembic_version")):
        raise StoreError(
            f"The schemas {', '.join(SCHEMAS)} must be dbanon's own. Schema {schemas} is in this database already "
            "and was made by something else. Nothing was changed; rename it, or give dbanon another database."
        )


def _take_over(connection: Connection, names: Names) -> None:
    """Make the admin role the owner of all that is in dbanon's schemas.

    In a restored database another role may be: that of the original, or the login that restored it.
    """
    for kind, name, owner, _, follows in connection.execute(_OWNERS, {"schemas": SCHEMAS}).fetchall():
        if owner != names.admin and not follows:  # a sequence follows its table
            change = sql.SQL("ALTER {} {} OWNER TO {}")
            connection.execute(change.format(sql.SQL(kind), sql.SQL(name), sql.Identifier(names.admin)))


def _move_rights(connection: Connection, before: Names, names: Names) -> None:
    """Give the new roles what the old ones may do in this database, and take it from those."""
    given = list(_rights(connection, before, "GRANT {} ON {} TO {}", names))
    revoke_rights(connection, before)
    for statement in given:
        connection.execute(statement)


def _rights(connection: Connection, of: Names, statement: str, to: Names | None = None) -> Iterator[sql.Composed]:
    """Write a statement for each right that the roles of `of` have in this database; of `to` instead, if given."""
    for kind, name, part, privilege, grantable, role in connection.execute(_RIGHTS, {"roles": of.all}).fetchall():
        what = sql.Composed([sql.SQL(privilege)])
        if part is not None:
            what += sql.SQL(" ({})").format(sql.Identifier(part))
        grantee = role if to is None else f"{to.prefix}{role.removeprefix(of.prefix)}"
        composed = sql.SQL(statement).format(what, sql.SQL(f"{kind} {name}"), sql.Identifier(grantee))
        yield composed + sql.SQL(" WITH GRANT OPTION" if grantable and to is not None else "")


def ask(connection: Connection, query: str, *parameters: object) -> Any:
    """Run a query and return the first column of its first row, or None."""
    return one(connection, query, list(parameters))


def _run(connection: Connection, statement: str, *names: str) -> None:
    connection.execute(as_is(statement).format(*map(sql.Identifier, names)))
