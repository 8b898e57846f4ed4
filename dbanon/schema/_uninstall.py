"""Removes all that dbanon made in a database: what it holds, what others built on it, every right it gave or took.

Roles belong to the server: those that its other databases use stay, and are named. The session makes the functions of
``sql/00_before`` first, as an upgrade does.
"""

from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from dbanon.postgres.connection import Connection, fetch_value
from dbanon.schema import _roles

# What goes with the schemas although it lies elsewhere. A view hangs on its rule, a rule belongs to its view.
_BUILT_ON_QUERY = """
WITH RECURSIVE gone (classid, objid, objsubid) AS (
    SELECT 'pg_namespace'::regclass::oid, nsp.oid, 0 FROM pg_namespace nsp WHERE nsp.nspname = ANY (%(schemas)s)
    UNION
    SELECT more.classid, more.objid, more.objsubid
    FROM gone
    CROSS JOIN LATERAL (
        SELECT dep.classid, dep.objid, dep.objsubid FROM pg_depend dep
        WHERE dep.refclassid = gone.classid AND dep.refobjid = gone.objid
            AND (gone.objsubid = 0 OR dep.refobjsubid = gone.objsubid)
        UNION ALL
        SELECT 'pg_class'::regclass, rew.ev_class, 0 FROM pg_rewrite rew
        WHERE gone.classid = 'pg_rewrite'::regclass AND rew.oid = gone.objid AND rew.ev_type = '1'
    ) more
)
SELECT DISTINCT pg_describe_object(gone.classid, gone.objid, gone.objsubid)
FROM gone CROSS JOIN LATERAL pg_identify_object(gone.classid, gone.objid, gone.objsubid) ide
-- Some objects are in no schema by themselves; what they are on is in their identity.
WHERE coalesce(ide.schema <> ALL (%(schemas)s || ARRAY['pg_toast']),
               ide.identity !~ '(^|^for | on | for | of )"?(dbanon|dbanon_internal|published|published_inner)"?[.]'
               AND gone.classid <> 'pg_namespace'::regclass)
    AND (ide.type <> 'type' OR EXISTS (SELECT FROM pg_type typ WHERE typ.oid = gone.objid AND typ.typtype = 'd'))
    AND NOT EXISTS (SELECT FROM pg_rewrite rew
                    WHERE gone.classid = 'pg_rewrite'::regclass AND rew.oid = gone.objid AND rew.rulename = '_RETURN')
ORDER BY 1
"""
_PLANTED_QUERY = f"""
SELECT pg_describe_object('pg_class'::regclass, c.oid, 0)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_roles rol ON rol.oid = c.relowner
WHERE n.nspname = ANY (%(schemas)s) AND c.relkind IN ('r', 'v', 'm', 'p', 'f') AND NOT {_roles.TRUSTED}
UNION ALL
SELECT pg_describe_object('pg_proc'::regclass, p.oid, 0)
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_roles rol ON rol.oid = p.proowner
WHERE n.nspname = ANY (%(schemas)s) AND NOT {_roles.TRUSTED}
"""


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What an uninstall deletes."""

    datasets: int = 0
    trajectories: int = 0
    runs: int = 0
    releases: list[str] = field(default_factory=list)  # live ones
    # What others have made of dbanon's views and functions, or in its schemas, as the server describes it.
    built_on_it: list[str] = field(default_factory=list)


def take_inventory(connection: Connection) -> Inventory | None:
    """List what an uninstall would delete; None if there is nothing of dbanon's."""
    if not any(_roles.is_there(connection, table) for table in ("installation", "alembic_version")):
        return None
    schemas = {"schemas": _roles.SCHEMAS}
    counts = {table: _count(connection, table) for table in ("dataset", "trajectory", "run")}
    releases = []
    if _roles.is_there(connection, "release"):
        releases = [
            name
            for (name,) in connection.execute(
                "SELECT DISTINCT name FROM dbanon.release WHERE withdrawn_at IS NULL ORDER BY name"
            )
        ]
    return Inventory(
        datasets=counts["dataset"],
        trajectories=counts["trajectory"],
        runs=counts["run"],
        releases=releases,
        built_on_it=[
            line for query in (_BUILT_ON_QUERY, _PLANTED_QUERY) for (line,) in connection.execute(query, schemas)
        ],
    )


def _count(connection: Connection, table: str) -> int:
    if not _roles.is_there(connection, table):  # damaged, or planted
        return 0
    return int(fetch_value(connection, f"SELECT count(*) FROM dbanon.{table}"))


def remove(connection: Connection) -> dict[str, str]:
    """Delete it all, in the caller's transaction; returns the roles that stay, each with the reason."""
    before = _roles.read_recorded(connection)
    prefix = before or _roles.DEFAULT_PREFIX
    if before:
        connection.execute("SELECT pg_temp.give_back(%s)", [prefix])
    connection.execute("SET LOCAL client_min_messages = warning")  # or every table is listed
    for schema in reversed(_roles.SCHEMAS):
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    connection.execute("SELECT pg_temp.revoke_rights(%s)", [prefix])
    return _drop_roles(connection, prefix)


def _drop_roles(connection: Connection, prefix: str) -> dict[str, str]:
    stay = {}
    for role in _roles.list_names(prefix):
        databases = fetch_value(connection, "SELECT pg_temp.list_other_databases(ARRAY[%s])", [role])
        if databases:
            stay[role] = f"used by database {', '.join(databases)}"
        elif not fetch_value(connection, "SELECT pg_temp.is_plain(%s)", [role]):
            stay[role] = "not one that dbanon made"
        if role in stay:
            continue
        try:
            with connection.transaction():
                connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(role)))
        except psycopg.errors.DependentObjectsStillExist:
            stay[role] = "owns or may use other things on this server"
        except psycopg.errors.InsufficientPrivilege:
            stay[role] = "this login may not drop it"
    return stay
