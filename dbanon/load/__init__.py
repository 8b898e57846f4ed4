"""From files and tables to trajectories: stage, sort out, reproject, store; in one transaction.

Places, requests and quasi-identifiers go the way of tables (`_tables`). What reads files and tables in memory needs the
part ``dbanon[files]``, and is imported when it is first asked for.

Invariants: a row of a source is either part of what is stored or in ``dbanon.quarantine`` with a reason, never neither
and never both; fixes of a subject that contradict each other are decided by their order in the source; what is staged
is judged, made into lines and reprojected by SQL functions (``sql/20_load``), which read tables by themselves. No
message holds a coordinate or a subject.
"""

import importlib
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from dbanon.base import extras
from dbanon.base.errors import DataError, choose_one
from dbanon.base.progress import Progress, report_nothing
from dbanon.load._columns import ArrowStream, Table
from dbanon.load._load_report import LOAD_COLUMNS, LoadReport, collect_notices, report
from dbanon.load.datasets import LOADING_RECORD
from dbanon.options.loading import ImportingTrajectories, name_as_sql
from dbanon.postgres.connection import PIN_PATH, Connection, make_jsonb, translate_errors

if TYPE_CHECKING:
    from dbanon.load._tables import load_places, load_quasi_identifiers, load_requests, store_places
    from dbanon.load._trajectories import load_trajectories

__all__ = [
    "ArrowStream",
    "LoadReport",
    "Table",
    "import_trajectories",
    "load_places",
    "load_quasi_identifiers",
    "load_requests",
    "load_trajectories",
    "store_places",
]

_MODULES = {
    "load_places": "_tables",
    "load_quasi_identifiers": "_tables",
    "load_requests": "_tables",
    "load_trajectories": "_trajectories",
    "store_places": "_tables",
}
"""By function, the module that has it, which imports Arrow."""
_IMPORT_QUERY = f"SELECT {LOAD_COLUMNS} FROM dbanon_internal.import_fixes(%(table)s::oid, {LOADING_RECORD})"


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    extras.demand("files")
    return getattr(importlib.import_module(f"dbanon.load.{_MODULES[name]}"), name)


def import_trajectories(
    connection: Connection, table: str, options: ImportingTrajectories, progress: Progress = report_nothing
) -> LoadReport:
    """Load one fix a row from a table or view of the same database, without leaving the server.

    Table and errors are those of `dbanon.database.datasets.Datasets.import_trajectories`.
    """
    with translate_errors(), connection.transaction(), collect_notices(connection, progress) as notices:
        arguments = {"table": _find_table(connection, table), "asked": make_jsonb(name_as_sql(vars(options)))}
        with connection.cursor(row_factory=dict_row) as cursor:
            loads = cursor.execute(_IMPORT_QUERY, arguments).fetchall()
        query = "SELECT source FROM dbanon.load WHERE load_id = %s"
        sources = [row[0] for row in connection.execute(query, [loads[0]["load_id"]])]
        progress("making trajectories", loads[0]["trajectories"], loads[0]["trajectories"])
    return report(options.dataset, sources, loads, notices)


def _find_table(connection: Connection, table: str) -> int:
    """Look a table or view up by its name, along the login's own path; the SQL functions take it by its OID.

    Raises `DataError` if there is none, naming those with positions.
    """
    # As SQL reads it, then as the catalogue has it: "AIS Data 2024" and "public.AIS Data 2024" need no further quotes.
    quoted = [sql.Identifier(*parts).as_string() for parts in ([table], table.split(".", 1))]
    for name in (table, *quoted):
        oid = _look_up(connection, name)
        if oid is not None:
            return oid
    raise DataError(f"The table to import must exist. There is no '{table}'. {_make_hint(connection)}")


def _look_up(connection: Connection, name: str) -> int | None:
    try:
        with connection.transaction():
            # Nothing but the name is looked up along that path: this function and this type are named in full.
            connection.execute("SET LOCAL search_path TO DEFAULT")
            row = connection.execute("SELECT pg_catalog.to_regclass(%s)::pg_catalog.oid", [name]).fetchone()
            connection.execute(PIN_PATH)
    except (psycopg.ProgrammingError, psycopg.NotSupportedError):  # it is no name
        return None
    return None if row is None else row[0]


def _make_hint(connection: Connection) -> str:
    known = [
        row[0]
        for row in connection.execute(
            "SELECT DISTINCT format('%I.%I', n.nspname, c.relname) FROM pg_attribute a "
            "JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
            "JOIN pg_type t ON t.oid = a.atttypid "
            "WHERE t.typname IN ('geometry', 'geography') AND c.relkind IN ('r', 'p', 'v', 'm', 'f') "
            "AND n.nspname NOT IN ('dbanon', 'published') ORDER BY 1 LIMIT 1000"
        )
    ]
    return choose_one(known) or "Name it with its schema, such as public.gps."
