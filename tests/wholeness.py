"""What must hold of a database whatever was killed or ran out: each thing is there whole, or not at all.

Every entry counts what breaks one rule, in SQL that shares nothing with the program. The rules hold as soon as nobody
works on the database any more and one more command has run, which fails the runs that died.
"""

import time
from collections.abc import Iterator

import psycopg
from psycopg import sql

from tests.reading import read_value

_ENDED = "r.status IN ('verified', 'refused')"
_RELATION = "pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
_FIXES = "(SELECT coalesce(sum(ST_NPoints(t.path)), 0) FROM dbanon.trajectory t WHERE t.dataset_id = d.dataset_id)"
# A load that replaces leaves the entries of those before it: what is there is what the last few of them kept.
_KEPT = """(SELECT sum(l.rows_kept) OVER (ORDER BY l.load_id DESC) FROM dbanon.load l
            WHERE l.dataset_id = d.dataset_id AND l.dropped_at IS NULL
            AND l.kind NOT IN ('requests', 'sites', 'pois', 'cells', 'stations', 'quasi-identifiers')
            UNION ALL SELECT 0 WHERE d.dropped_at IS NOT NULL OR EXISTS (
                SELECT FROM dbanon.load l WHERE l.dataset_id = d.dataset_id AND l.dropped_at IS NOT NULL))"""
_SENT = """(SELECT coalesce(sum(l.rows_kept), 0) FROM dbanon.load l
            WHERE l.dataset_id = d.dataset_id AND l.dropped_at IS NULL AND l.kind = 'requests')"""
_PLACED = """(SELECT sum(l.rows_kept) OVER (ORDER BY l.load_id DESC) FROM dbanon.load l
              WHERE l.dataset_id = d.dataset_id AND l.dropped_at IS NULL AND l.kind = 'sites'
              UNION ALL SELECT 0 WHERE NOT EXISTS (
                  SELECT FROM dbanon.load l
                  WHERE l.dataset_id = d.dataset_id AND l.dropped_at IS NULL AND l.kind = 'sites'))"""

RULES = {
    "datasets that nothing was loaded into": """SELECT count(*) FROM dbanon.dataset d
        WHERE d.dropped_at IS NULL AND NOT EXISTS (SELECT FROM dbanon.load l WHERE l.dataset_id = d.dataset_id)""",
    "datasets with other fixes than their loads kept": f"""SELECT count(*) FROM dbanon.dataset d
        WHERE {_FIXES} NOT IN {_KEPT}""",
    "datasets with other requests than their loads kept": f"""SELECT count(*) FROM dbanon.dataset d
        WHERE {_SENT} <> (SELECT count(*) FROM dbanon.request q WHERE q.dataset_id = d.dataset_id)""",
    "datasets with other sites than their loads kept": f"""SELECT count(*) FROM dbanon.dataset d
        WHERE (SELECT count(*) FROM dbanon.site s WHERE s.dataset_id = d.dataset_id) NOT IN {_PLACED}""",
    "loads with rows neither kept nor in quarantine nor left out": """SELECT count(*) FROM dbanon.load l
        WHERE l.dropped_at IS NULL
        AND l.rows_read <> l.rows_kept + (SELECT count(*) FROM dbanon.quarantine q WHERE q.load_id = l.load_id)
            + (SELECT coalesce(sum(value::bigint), 0) FROM jsonb_each_text(l.left_out))""",
    "loads that count their quarantine otherwise": """SELECT count(*) FROM dbanon.load l
        WHERE l.dropped_at IS NULL AND (SELECT coalesce(sum(value::bigint), 0) FROM jsonb_each_text(l.quarantined))
        <> (SELECT count(*) FROM dbanon.quarantine q WHERE q.load_id = l.load_id)""",
    "trajectories of no dataset": """SELECT count(*) FROM dbanon.trajectory t
        WHERE NOT EXISTS (SELECT FROM dbanon.dataset d WHERE d.dataset_id = t.dataset_id)""",
    "requests of no dataset": """SELECT count(*) FROM dbanon.request q
        WHERE NOT EXISTS (SELECT FROM dbanon.dataset d WHERE d.dataset_id = q.dataset_id)""",
    "sites of no dataset": """SELECT count(*) FROM dbanon.site s
        WHERE NOT EXISTS (SELECT FROM dbanon.dataset d WHERE d.dataset_id = s.dataset_id)""",
    "runs that nobody computes": "SELECT count(*) FROM dbanon.run WHERE status IN ('queued', 'running', 'computed')",
    "runs that failed without a reason": """SELECT count(*) FROM dbanon.run
        WHERE status IN ('failed', 'cancelled') AND coalesce(error, '') = ''""",
    **{
        f"rows in {table} of runs that did not end": f"""SELECT count(*) FROM dbanon.{table} s
        WHERE NOT EXISTS (SELECT FROM dbanon.run r WHERE r.run_id = s.run_id AND {_ENDED})"""
        for table in ("region", "period", "record", "membership", "hiding", "atom")
    },
    "runs that ended without cloaks or members": f"""SELECT count(*) FROM dbanon.run r WHERE {_ENDED}
        AND NOT EXISTS (SELECT FROM dbanon.dataset d WHERE d.dataset_id = r.dataset_id AND d.dropped_at IS NOT NULL)
        AND NOT (EXISTS (SELECT FROM dbanon.cloak c WHERE c.run_id = r.run_id)
                 AND EXISTS (SELECT FROM dbanon.membership m WHERE m.run_id = r.run_id))""",
    "verified runs without a passed verification": """SELECT count(*) FROM dbanon.run r WHERE r.status = 'verified'
        AND NOT EXISTS (SELECT FROM dbanon.verification v WHERE v.run_id = r.run_id AND v.passed)""",
    "releases of runs that are not verified": """SELECT count(*) FROM dbanon.release l JOIN dbanon.run r USING (run_id)
        WHERE r.status <> 'verified'""",
    "live releases without their table or view": """SELECT count(*) FROM dbanon.release l
        WHERE l.withdrawn_at IS NULL AND (to_regclass(format('published.%I', l.name)) IS NULL OR NOT CASE
            WHEN l.series_id IS NULL THEN to_regclass(format('dbanon.release_%s', l.release_id)) IS NOT NULL
            ELSE EXISTS (
                SELECT FROM dbanon_internal.list_series_tables(l.series_id) s WHERE s.bounds @> l.bounds) END)""",
    "tables of no live release": f"""SELECT count(*) FROM {_RELATION}
        WHERE n.nspname = 'dbanon' AND c.relkind = 'r' AND c.relname ~ '^release_[0-9]' AND NOT EXISTS (
            SELECT FROM dbanon.release l
            WHERE l.withdrawn_at IS NULL AND CASE
                WHEN l.series_id IS NULL THEN c.relname = format('release_%s', l.release_id)
                ELSE EXISTS (SELECT FROM dbanon_internal.list_series_tables(l.series_id) s
                             WHERE s.relation = c.oid AND s.bounds @> l.bounds) END)""",
    "views of no live release": f"""SELECT count(*) FROM {_RELATION}
        WHERE n.nspname = 'published' AND c.relname <> ALL ('{{releases, parts, columns, left_out, surfaces, atoms}}')
            AND NOT EXISTS (SELECT FROM dbanon.release l WHERE l.withdrawn_at IS NULL AND l.name = c.relname)
            AND NOT EXISTS (SELECT FROM dbanon.series s WHERE s.withdrawn_at IS NULL AND s.name = c.relname)""",
    "temporary tables": "SELECT count(*) FROM pg_class WHERE relpersistence = 't'",
    "indexes that are not valid": "SELECT count(*) FROM pg_index WHERE NOT indisvalid",
    "advisory locks": """SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())""",
    "prepared transactions": "SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()",
}

_OTHERS = """SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""


def find_broken(connection: psycopg.Connection) -> list[str]:
    """Name every rule that does not hold, with how often it is broken; an empty list is the good answer."""
    counted = {rule: count(connection, query) for rule, query in RULES.items()}
    return [f"{times} {rule}" for rule, times in counted.items() if times] + list(_find_short_releases(connection))


def _find_short_releases(connection: psycopg.Connection) -> Iterator[str]:
    live = connection.execute(
        "SELECT name, release_id, run_id, rows, prefix FROM dbanon.release WHERE withdrawn_at IS NULL"
        " AND (series_id IS NOT NULL OR to_regclass(format('dbanon.release_%s', release_id)) IS NOT NULL)"
        " AND to_regclass(format('published.%I', name)) IS NOT NULL"
    )
    for name, release_id, run_id, rows, prefix in live.fetchall():
        shown = sql.SQL("{} WHERE cloak_id >> 32 = {}").format(sql.Identifier("published", name), prefix or 0)
        tables = [] if prefix else [sql.Identifier("dbanon", f"release_{release_id}")]
        found = [count(connection, sql.SQL("SELECT count(*) FROM {}").format(where)) for where in (shown, *tables)]
        cloaks = count(connection, sql.SQL("SELECT count(*) FROM dbanon.cloak WHERE run_id = {}").format(run_id))
        if {*found, cloaks} != {rows}:
            yield f"1 release with {found} of {rows} rows, of a run with {cloaks}"


def wait_until_alone(connection: psycopg.Connection, seconds: float = 30) -> None:
    """Wait until no other session is left on the database: the server notices a client's death a little later."""
    deadline = time.monotonic() + seconds
    while count(connection, _OTHERS):
        assert time.monotonic() < deadline, "sessions are left on the database"
        time.sleep(0.02)


def count(connection: psycopg.Connection, query: str | sql.Composed) -> int:
    """Return the one number a query gives."""
    return int(read_value(connection, query))
