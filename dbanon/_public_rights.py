"""What PostgreSQL and PostGIS show to every login about private tables: listed, taken from PUBLIC, given back.

Locks show which backends work; counters are exact and move with every statement; PostGIS's functions on statistics and
indexes ask for no right on the table, and answer with its true extent and with estimates for any box. Other programs
use the same things, so nothing is taken unless an administrator asks for it, and what was taken is recorded.

All statements run in the caller's transaction, on a connection whose search_path is ``pg_catalog, pg_temp``.
"""

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from dbanon._roles import Names

Connection = psycopg.Connection[Any]

_THINGS = """
SELECT o.kind, o.name, o.privilege, pg_has_role(o.owner, 'USAGE') AS ours,
    EXISTS (SELECT FROM aclexplode(o.acl) x WHERE x.grantee = 0) AS public,
    EXISTS (SELECT FROM aclexplode(o.acl) x WHERE x.grantee = 'pg_monitor'::regrole) AS monitor
FROM (
    SELECT 'TABLE' AS kind, c.oid::regclass::text AS name, 'SELECT' AS privilege, c.relowner AS owner,
        coalesce(c.relacl, acldefault('r', c.relowner)) AS acl
    FROM pg_class c
    WHERE c.relnamespace = 'pg_catalog'::regnamespace
        AND (c.relname = 'pg_locks' OR c.relname ~
             '^pg_stat(io|_xact)?_((all|sys|user)_(tables|indexes|sequences|functions)|database(_conflicts)?)$')
    UNION ALL
    SELECT 'FUNCTION', p.oid::regprocedure::text, 'EXECUTE', p.proowner, coalesce(p.proacl, acldefault('f', p.proowner))
    FROM pg_proc p
    WHERE (p.pronamespace = 'pg_catalog'::regnamespace AND p.proname ~ '^pg_stat_get_(?!subscription)'
           AND oidvectortypes(p.proargtypes) = 'oid')
        OR p.oid = 'pg_lock_status()'::regprocedure
        OR (p.pronamespace = (SELECT e.extnamespace FROM pg_extension e WHERE e.extname = 'postgis') AND p.proname IN (
            '_postgis_stats', '_postgis_selectivity', '_postgis_join_selectivity', '_postgis_index_extent',
            'st_estimatedextent'))
) o
ORDER BY o.kind DESC, o.name
"""


@dataclass(frozen=True)
class Thing:
    """A view or function of the server's or of PostGIS's.

    Attributes
    ----------
    kind, name, privilege : str
        As in GRANT.
    ours : bool
        Whether the login may take and give the right.
    public, monitor : bool
        Whether PUBLIC, and the role ``pg_monitor``, have it.
    """

    kind: str
    name: str
    privilege: str
    ours: bool
    public: bool
    monitor: bool


def things(connection: Connection) -> list[Thing]:
    """List what shows something about private tables."""
    return [Thing(*row) for row in connection.execute(_THINGS).fetchall()]


def is_restricted(connection: Connection) -> bool:
    """Say whether an administrator has asked that these rights be taken from PUBLIC."""
    row = connection.execute("SELECT public_restricted FROM dbanon.installation").fetchone()
    return row is not None and row[0]


def restrict(connection: Connection, names: Names) -> list[Thing]:
    """Take the rights from PUBLIC and give them to those who run the server and to dbanon's roles; record both.

    Returns
    -------
    list of Thing
        What stays open, because the login may not take it.
    """
    left = []
    for thing in things(connection):
        if thing.public and not thing.ours:
            left.append(thing)
        elif thing.public:
            connection.execute(
                "INSERT INTO dbanon.taken_right (kind, object, privilege, monitor_had_it) VALUES (%s, %s, %s, %s)"
                " ON CONFLICT (kind, object) DO NOTHING",
                [thing.kind, thing.name, thing.privilege, thing.monitor],
            )
            _say(connection, "REVOKE", thing, "FROM PUBLIC")
        if thing.ours:
            for role in ("pg_monitor", names.admin, names.operator, names.worker):
                if not _has(connection, thing, role):
                    _say(connection, "GRANT", thing, "TO", role)
    return left


def give_back(connection: Connection, names: Names) -> None:
    """Give PUBLIC what was taken from it, and take it from those who were given it instead."""
    for kind, name, privilege, monitor in connection.execute(
        "DELETE FROM dbanon.taken_right RETURNING kind, object, privilege, monitor_had_it"
    ).fetchall():
        thing = Thing(kind, name, privilege, ours=True, public=False, monitor=monitor)
        _say(connection, "GRANT", thing, "TO PUBLIC")
        for role in (*(() if monitor else ("pg_monitor",)), names.admin, names.operator, names.worker):
            _say(connection, "REVOKE", thing, "FROM", role)


def _has(connection: Connection, thing: Thing, role: str) -> bool:
    check = "has_table_privilege" if thing.kind == "TABLE" else "has_function_privilege"
    query = sql.SQL("SELECT {}(%s, %s, %s)").format(sql.SQL(check))
    row = connection.execute(query, [role, thing.name, thing.privilege]).fetchone()
    return row is not None and bool(row[0])


def _say(connection: Connection, verb: str, thing: Thing, *whom: str) -> None:
    what = f"{verb} {thing.privilege} ON {thing.kind} {thing.name} {whom[0]}"  # names as the server quotes them
    connection.execute(sql.SQL(" ").join([sql.SQL(what), *map(sql.Identifier, whom[1:])]))
