"""Lists rights that every login has and analysts do not need; revokes them from PUBLIC, and restores them.

Locks show which backends work; counters are exact and move with every statement; PostGIS's functions on statistics and
indexes ask for no right on the table, and answer with its true extent and with estimates for any box; large objects
fill the disk and stay. Other programs use the same things, so nothing is taken unless an administrator asks for it, and
what was taken is recorded.

All statements run in the caller's transaction, on a connection whose search_path is ``pg_catalog, pg_temp``.
"""

from dataclasses import dataclass

from psycopg import sql

from dbanon.base.errors import StoreError
from dbanon.postgres.connection import Connection
from dbanon.schema._roles import Names

_THINGS = """
SELECT o.kind, o.name, o.privilege, pg_has_role(o.owner, 'USAGE') AS ours,
    ARRAY(SELECT coalesce(r.rolname, 'PUBLIC')::text FROM aclexplode(o.acl) x LEFT JOIN pg_roles r ON r.oid = x.grantee
          WHERE x.privilege_type = o.privilege) AS grantees
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
        OR (p.pronamespace = 'pg_catalog'::regnamespace
            AND p.proname IN ('lo_creat', 'lo_create', 'lo_from_bytea', 'lo_put', 'lowrite'))
        OR (p.pronamespace = (SELECT e.extnamespace FROM pg_extension e WHERE e.extname = 'postgis') AND p.proname IN (
            '_postgis_stats', '_postgis_selectivity', '_postgis_join_selectivity', '_postgis_index_extent',
            'st_estimatedextent'))
) o
ORDER BY o.kind DESC, o.name
"""


@dataclass(frozen=True)
class Thing:
    """A view or function of the server's or of PostGIS's."""

    kind: str  # kind, name, privilege: as in GRANT
    name: str
    privilege: str
    ours: bool  # whether the login may take and give the right
    grantees: list[str]  # the roles it is granted to; ``PUBLIC`` is one

    @property
    def public(self) -> bool:
        return "PUBLIC" in self.grantees


def things(connection: Connection) -> list[Thing]:
    """List what shows something about private tables, or writes large objects."""
    return [Thing(*row) for row in connection.execute(_THINGS).fetchall()]


def is_restricted(connection: Connection) -> bool:
    """Check whether an administrator has asked that these rights be taken from PUBLIC."""
    row = connection.execute("SELECT public_restricted FROM dbanon.installation").fetchone()
    return row is not None and row[0]


def restrict(connection: Connection, names: Names) -> list[Thing]:
    """Take the rights from PUBLIC and give them to those who run the server and to dbanon's roles; record both.

    Returns what stays open, because the login may not take it.
    """
    instead = {"pg_monitor": "pg_monitor", "admin": names.admin, "operator": names.operator, "worker": names.worker}
    for thing in things(connection):
        if thing.public and thing.ours:
            _record(connection, thing, "PUBLIC")
            _change(connection, "REVOKE", thing, "FROM PUBLIC")
        for role, name in instead.items() if thing.ours else ():
            if name not in thing.grantees:
                _record(connection, thing, role)
                _change(connection, "GRANT", thing, "TO", name)
    return [thing for thing in things(connection) if thing.public]


def give_back(connection: Connection, names: Names) -> None:
    """Give PUBLIC what was taken from it, and take it from the roles that were given it instead.

    The recorded names are looked up among `things`, and no recorded text is run. Names that are gone are left out.
    Raises `StoreError` if the login may not give the rights back; nothing is changed then.
    """
    known = {thing.name: thing for thing in things(connection)}
    recorded = connection.execute("SELECT object, grantee FROM dbanon.changed_right ORDER BY 1, 2").fetchall()
    changed = [(known[name], grantee) for name, grantee in recorded if name in known]
    if any(not thing.ours for thing, _ in changed):
        raise StoreError(
            "Rights that a superuser took from PUBLIC must be given back by one. This login is none, and nothing was "
            "changed. Run it again as a superuser."
        )
    for thing, grantee in changed:
        if grantee == "PUBLIC":
            _change(connection, "GRANT", thing, "TO PUBLIC")
        else:
            role = grantee if grantee == "pg_monitor" else f"{names.prefix}_{grantee}"
            _change(connection, "REVOKE", thing, "FROM", role)
    connection.execute("DELETE FROM dbanon.changed_right")


def _record(connection: Connection, thing: Thing, grantee: str) -> None:
    connection.execute(
        "INSERT INTO dbanon.changed_right (object, grantee) VALUES (%s, %s) ON CONFLICT DO NOTHING",
        [thing.name, grantee],
    )


def _change(connection: Connection, verb: str, thing: Thing, preposition: str, *role: str) -> None:
    what = f"{verb} {thing.privilege} ON {thing.kind} {thing.name} {preposition}"  # names as the server quotes them
    connection.execute(sql.SQL(" ").join([sql.SQL(what), *map(sql.Identifier, role)]))
