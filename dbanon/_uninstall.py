"""Removes all that dbanon made in a database: what it holds, what others built on it, every right it gave or took.

What other databases of the server use stays, and is named: roles belong to the server.
"""

from dataclasses import dataclass, field

from dbanon import _public_rights, _roles, store

# What goes with the schemas although it lies elsewhere. A view hangs on its rule, a rule belongs to its view.
_BUILT_ON = """
WITH RECURSIVE gone (classid, objid, objsubid) AS (
    SELECT 'pg_namespace'::regclass::oid, n.oid, 0 FROM pg_namespace n WHERE n.nspname = ANY (%(schemas)s)
    UNION
    SELECT m.classid, m.objid, m.objsubid
    FROM gone g
    CROSS JOIN LATERAL (
        SELECT d.classid, d.objid, d.objsubid FROM pg_depend d
        WHERE d.refclassid = g.classid AND d.refobjid = g.objid AND (g.objsubid = 0 OR d.refobjsubid = g.objsubid)
        UNION ALL
        SELECT 'pg_class'::regclass, w.ev_class, 0 FROM pg_rewrite w
        WHERE g.classid = 'pg_rewrite'::regclass AND w.oid = g.objid AND w.ev_type = '1'
    ) m
)
SELECT DISTINCT pg_describe_object(g.classid, g.objid, g.objsubid)
FROM gone g CROSS JOIN LATERAL pg_identify_object(g.classid, g.objid, g.objsubid) o
WHERE o.schema <> ALL (%(schemas)s || ARRAY['pg_toast']) AND o.type <> 'type' AND g.classid <> 'pg_rewrite'::regclass
ORDER BY 1
"""
_HELD = """
SELECT (SELECT count(*) FROM dbanon.dataset), (SELECT count(*) FROM dbanon.trajectory),
    (SELECT count(*) FROM dbanon.run),
    ARRAY(SELECT l.name FROM dbanon.release l WHERE l.withdrawn_at IS NULL ORDER BY l.name)
"""


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What an uninstall deletes.

    Attributes
    ----------
    datasets, trajectories, runs : int
    releases : list of str
        Live ones.
    built_on_it : list of str
        What others have made of dbanon's views and functions, as the server describes it.
    """

    datasets: int = 0
    trajectories: int = 0
    runs: int = 0
    releases: list[str] = field(default_factory=list)
    built_on_it: list[str] = field(default_factory=list)


def inventory(connection: store.Connection) -> Inventory | None:
    """List what an uninstall would delete; None if there is nothing of dbanon's."""
    present = "SELECT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = ANY (%s))"
    if not store.one(connection, present, [_roles.SCHEMAS]):
        return None
    built = [line for (line,) in connection.execute(_BUILT_ON, {"schemas": _roles.SCHEMAS})]
    if store.one(connection, "SELECT to_regclass('dbanon.release') IS NULL"):
        return Inventory(built_on_it=built)
    datasets, trajectories, runs, releases = connection.execute(_HELD).fetchone() or (0, 0, 0, [])
    return Inventory(datasets=datasets, trajectories=trajectories, runs=runs, releases=releases, built_on_it=built)


def remove(connection: store.Connection) -> dict[str, str]:
    """Delete it all, in the caller's transaction; returns the roles that stay, each with the reason."""
    before = _roles.recorded(connection)
    names = before[0] if before else _roles.Names(_roles.DEFAULT_PREFIX)
    if before:
        _public_rights.give_back(connection, names)
    connection.execute("SET LOCAL client_min_messages = warning")  # or every table is listed
    for schema in reversed(_roles.SCHEMAS):
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    _roles.revoke_rights(connection, names)
    return _roles.drop(connection, names)
