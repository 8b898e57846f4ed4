"""Draws a public table under the maps of a page, and runs no code of its owner with the rights of the caller.

PostgreSQL evaluates more of a table than is read: the functions of a view or a policy, and, while it plans, constant
parts of the expressions of indexes, constraints, statistics and partitions, also of every partition and child. All
of it must belong to roles that could do as much without it. To take a role first would not help: a function takes it
back. The table is locked before it is looked at. Only the owner of its schema could give its name to another then.
"""

import secrets
from collections.abc import Mapping
from contextlib import suppress

import psycopg
from psycopg import sql

from dbanon.base.errors import ParameterError
from dbanon.pages.maps import UNITS_ACROSS
from dbanon.postgres.connection import Connection, fetch_value, find_postgis_schema, make_sql
from dbanon.releases import published

_MAX_BYTES = 60_000
MAX_POINTS = 400_000
"""The slowest table of as many points takes less than 10 s (`benchmarks/backdrops.py`), in which nothing stops it."""

_BAD_NAME = (psycopg.DataError, psycopg.NotSupportedError, psycopg.ProgrammingError)  # NUL; other databases; no table
_TABLE_QUERY = """
    SELECT quote_ident(att.attname)
    FROM pg_class cla JOIN pg_namespace nsp ON nsp.oid = cla.relnamespace
    JOIN pg_attribute att ON att.attrelid = cla.oid AND att.attnum > 0 AND NOT att.attisdropped
        AND att.atttypid = to_regtype(%(geometry)s)
    WHERE cla.oid = to_regclass(%(table)s) AND cla.relkind IN ('r', 'p', 'v', 'm', 'f') AND cla.relpersistence <> 't'
        AND nsp.nspname NOT IN ('dbanon', 'dbanon_internal', 'published')
        AND has_table_privilege(cla.oid, 'SELECT') AND has_table_privilege(%(readers)s, cla.oid, 'SELECT')
        AND has_schema_privilege(%(readers)s, nsp.oid, 'USAGE')
    ORDER BY att.attnum LIMIT 1
"""
# The owner of a schema renames it, and makes another of its name: so that one is trusted too. That of public belongs to
# the database's owner. The owner of PostGIS has written all that draws.
_FLAW_QUERY = """
    WITH RECURSIVE trusted (role) AS (
        SELECT rol.oid FROM pg_roles rol
        WHERE rol.rolsuper OR rol.oid = (SELECT nsp.nspowner FROM pg_namespace nsp WHERE nsp.nspname = 'dbanon')
            -- The login, whatever role or authorization the session has taken since.
            OR rol.oid = (SELECT act.usesysid FROM pg_stat_activity act WHERE act.pid = pg_backend_pid())
    ), part (rel) AS (
        SELECT to_regclass(%(table)s)::oid
        UNION SELECT inh.inhrelid FROM part JOIN pg_inherits inh ON inh.inhparent = part.rel
    ), used (classid, objid) AS (
        SELECT 'pg_class'::regclass, part.rel FROM part
        UNION SELECT 'pg_class'::regclass, ind.indexrelid FROM part JOIN pg_index ind ON ind.indrelid = part.rel
        UNION SELECT 'pg_constraint'::regclass, con.oid FROM part JOIN pg_constraint con ON con.conrelid = part.rel
        UNION SELECT 'pg_statistic_ext'::regclass, sta.oid FROM part
            JOIN pg_statistic_ext sta ON sta.stxrelid = part.rel
        -- Operators and types run only functions that they depend on. No type of a column is called.
        UNION SELECT dep.refclassid, dep.refobjid
        FROM used JOIN pg_depend dep ON dep.classid = used.classid AND dep.objid = used.objid AND dep.objsubid = 0
        WHERE dep.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass)
    ), found (place, said, owner) AS (
        SELECT CASE WHEN cla.relkind NOT IN ('r', 'p', 'm') THEN 1 WHEN cla.relrowsecurity THEN 2 ELSE 3 END,
            cla.oid::regclass::text, cla.relowner
        FROM part JOIN pg_class cla ON cla.oid = part.rel
        UNION ALL SELECT 4, pro.oid::regprocedure::text, pro.proowner FROM used JOIN pg_proc pro ON pro.oid = used.objid
        WHERE used.classid = 'pg_proc'::regclass
        UNION ALL SELECT 5, 'its schema', nsp.nspowner
        FROM pg_class cla JOIN pg_namespace nsp ON nsp.oid = cla.relnamespace WHERE cla.oid = to_regclass(%(table)s)
    )
    SELECT fou.said || CASE fou.place WHEN 1 THEN ' is a view or a foreign table' WHEN 2 THEN ' has row level security'
            ELSE ' belongs to another' END, quote_ident(pg_get_userbyid(fou.owner))
    FROM found fou
    WHERE fou.place < 3 OR fou.owner NOT IN (
        SELECT tru.role FROM trusted tru
        UNION SELECT typ.typowner FROM pg_type typ WHERE typ.oid = to_regtype(%(geometry)s) AND fou.place = 4
        UNION SELECT dat.datdba FROM pg_database dat WHERE dat.datname = current_database() AND fou.place = 5
        UNION SELECT rol.oid FROM pg_roles rol WHERE rol.rolname = 'pg_database_owner' AND fou.place = 5)
    ORDER BY fou.place, fou.said LIMIT 1
"""
# Without GEOS, but to join lines: it takes a time that grows with the square of the points, and hears no cancellation.
# So shapes are cut by half-planes, with x and then y as their elevation; areas lie on each other and are not united.
_PATHS_QUERY = """
    WITH box AS (SELECT {p}.ST_MakeEnvelope(%(x0)s, %(y0)s, %(x1)s, %(y1)s, %(srid)s) AS shape
    ), near AS NOT MATERIALIZED (
        SELECT tab.{column} AS shape FROM {table} tab, box
        WHERE tab.{column} OPERATOR({p}.&&)
            {p}.ST_Transform(box.shape, coalesce(nullif({p}.ST_SRID(tab.{column}), 0), %(srid)s))
    ), counted AS (SELECT coalesce(sum({p}.ST_NPoints(near.shape)), 0)::bigint AS points FROM near
    ), moved AS (
        SELECT {p}.ST_Scale({p}.ST_Translate({p}.ST_Force2D(
            CASE WHEN {p}.ST_SRID(near.shape) IN (0, %(srid)s) THEN {p}.ST_SetSRID(near.shape, %(srid)s)
            ELSE {p}.ST_Transform(near.shape, %(srid)s) END), %(x)s, %(y)s), %(by)s, %(by)s) AS shape
        FROM near WHERE (SELECT counted.points FROM counted) <= %(most)s
    ), cut AS (
        SELECT {p}.ST_Force2D({p}.ST_LocateBetweenElevations({p}.ST_Affine({p}.ST_LocateBetweenElevations({p}.ST_Affine(
            {p}.ST_Force3D(moved.shape), 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0), 0, %(wide)s),
            1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0), -%(high)s, 0)) AS shape
        FROM moved
    ), drawn AS MATERIALIZED (
        SELECT {p}.ST_LineMerge({p}.ST_CollectionExtract({p}.ST_Collect(cut.shape), 2)) AS lines,
            {p}.ST_ForcePolygonCCW({p}.ST_CollectionExtract({p}.ST_Collect(cut.shape), 3)) AS areas
        FROM cut
    ), path AS (
        SELECT grid.m,
            {p}.ST_AsSVG({p}.ST_SimplifyVW({p}.ST_SnapToGrid(drawn.lines, grid.m), 4 * grid.m ^ 2), 1, 0) AS lines,
            {p}.ST_AsSVG({p}.ST_SimplifyVW({p}.ST_SnapToGrid(drawn.areas, grid.m), 4 * grid.m ^ 2), 1, 0) AS areas
        FROM drawn CROSS JOIN unnest(ARRAY[3, 8, 20, 50]) grid (m)
    )
    SELECT (SELECT counted.points FROM counted), small.lines, small.areas
    FROM (VALUES (1)) one (row) LEFT JOIN LATERAL (
        SELECT coalesce(path.lines, '') AS lines, coalesce(path.areas, '') AS areas FROM path
        WHERE length(concat(path.lines, path.areas)) <= %(bytes)s ORDER BY path.m LIMIT 1) small ON true
"""


def draw(connection: Connection, scaled: Mapping[str, float], srid: int, table: str) -> tuple[str, str]:
    """Draw a public table of lines and areas under a map: paths of its lines and of its areas, simplified and clipped.

    Every page calls the table public. So `ParameterError` is raised unless every analyst may read it and its column of
    geometries. A login that knows no analysts' role must name a table that everyone may read. `scaled` is what
    `pictured.scale_to_window` gives.
    """
    drawn, column = _find_public_table(connection, table)
    _demand_harmless(connection, drawn, column)
    names = {"table": drawn, "column": column, "p": sql.Identifier(find_postgis_schema(connection)).as_string()}
    query = sql.SQL(_PATHS_QUERY).format(**{name: make_sql(text.replace("%", "%%")) for name, text in names.items()})
    size = {"wide": UNITS_ACROSS, "high": (scaled["y1"] - scaled["y0"]) * scaled["by"]}
    given = {"srid": srid, "most": MAX_POINTS, "bytes": _MAX_BYTES, **size, **scaled}
    try:
        [(points, lines, areas)] = connection.execute(query, given).fetchall()
    except psycopg.InternalError:
        raise ParameterError(
            f"The backdrop must have lines or areas that PostGIS can cut and bring to SRID {srid}. Got {table!r} "
            f"with other shapes. Name another."
        ) from None
    if points > MAX_POINTS or lines is None:
        found = f"{points:,} points" if points > MAX_POINTS else f"more than {_MAX_BYTES // 1000} kB of lines"
        raise ParameterError(
            f"The backdrop must be small enough for a page, with at most {MAX_POINTS:,} points in the map. "
            f"Got {table!r} with {found}. Name a table of main streets only."
        )
    return lines, areas


def _find_public_table(connection: Connection, table: str) -> tuple[str, str]:
    """Lock a table that every analyst may read; returns it and its column of geometries, both as SQL names them."""
    given = {"readers": published.name_analysts(connection), "geometry": _name_geometry(connection)}
    column = None
    with suppress(*_BAD_NAME), connection.transaction():
        found = fetch_value(connection, "SELECT pg_catalog.to_regclass(%s)::text", [table])
        if found is not None:
            # LOCK TABLE takes no materialized view. This locks what it names, and evaluates nothing.
            name = sql.Identifier(f"dbanon_{secrets.token_hex(8)}")
            connection.execute(sql.SQL("PREPARE {} AS SELECT FROM {}").format(name, make_sql(found)))
            connection.execute(sql.SQL("DEALLOCATE {}").format(name))
            column = fetch_value(connection, _TABLE_QUERY, {"table": found, **given})
    if column is None:
        raise ParameterError(
            f"The backdrop must be a table of lines or areas that all analysts may read, and none of dbanon's own. "
            f"Got {table!r}. Name one such as public.streets."
        )
    return found, column


def _demand_harmless(connection: Connection, table: str, column: str) -> None:
    """Raise `ParameterError`, with a way to copy it, if reading a table may run code of a role that is not trusted."""
    given = {"table": table, "geometry": _name_geometry(connection)}
    row = connection.execute(_FLAW_QUERY, given).fetchone()
    if row is not None:
        flaw, owner = row
        rows = f"SELECT {column} FROM {table}"
        raise ParameterError(
            f"A backdrop must be a table without row level security, and this login, dbanon's owner or a superuser "
            f"must own all of it. Got {table!r}: {flaw}. Let {owner} fill a table of yours: CREATE TABLE "
            f"public.backdrop AS {rows} WITH NO DATA; GRANT SELECT ON public.backdrop TO PUBLIC; GRANT INSERT ON "
            f"public.backdrop TO {owner}; and as {owner}: INSERT INTO public.backdrop {rows}."
        )


def _name_geometry(connection: Connection) -> str:
    return sql.Identifier(find_postgis_schema(connection), "geometry").as_string()
