"""From files and tables to trajectories: stage, sort out, reproject, store; in one transaction.

Places, requests and quasi-identifiers go the way of tables (`_tables`).

Invariants: a row of a source is either part of what is stored or in ``dbanon.quarantine`` with a reason, never neither
and never both; fixes of a subject that contradict each other are decided by their order in the source; what is staged
is judged, made into lines and reprojected by SQL functions (``sql/20_load``), which read tables by themselves. No
message holds a coordinate or a subject.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from dbanon.base.errors import DataError, choose_one
from dbanon.base.progress import Progress, silent
from dbanon.load import _parse, _staging, _trajectories
from dbanon.load._staging import LoadReport
from dbanon.load._tables import load_places, load_quasi_identifiers, load_requests, store_places
from dbanon.load._trajectories import Files
from dbanon.load.datasets import ASKED
from dbanon.options.loading import ImportingTrajectories, LoadingTrajectories
from dbanon.postgres.connection import PIN_PATH, Connection, errors_translated, jsonb

__all__ = [
    "LoadReport",
    "import_trajectories",
    "load_places",
    "load_quasi_identifiers",
    "load_requests",
    "load_trajectories",
    "store_places",
]


# ---- trajectories ----------------------------------------------------------------------------------------------------

_BEGIN = f"SELECT geographic, first_number FROM dbanon_internal.begin_load({ASKED})"
_JUDGE = f"SELECT dbanon_internal.judge_suspects({ASKED}, %(geographic)s)"
_MADE = """load_id, file_rows AS rows_read, rows_kept, quarantined, trajectories, subjects, days, far, target AS srid,
    first_time AT TIME ZONE 'UTC' AS first_time, last_time AT TIME ZONE 'UTC' AS last_time, left_out, late_periods"""
_FINISH = f"""SELECT {_MADE} FROM dbanon_internal.finish_load(
    {ASKED}, %(sources)s, %(read)s::bigint[], %(cells)s, %(swap)s, %(none)s)"""
_IMPORT = f"SELECT {_MADE} FROM dbanon_internal.import_fixes(%(table)s::oid, {ASKED})"


def load_trajectories(
    connection: Connection, files: Sequence[Path], asked: LoadingTrajectories, progress: Progress = silent
) -> LoadReport:
    """Load one fix a row from CSV (also gzipped) or Parquet files.

    Order of files and errors are those of `dbanon.database.datasets.Datasets.load_trajectories`.
    """
    _parse.check_zone(asked.tz)
    _trajectories.check_files(files)
    _trajectories.check_columns(asked)
    source = Files(tuple(files), asked)
    arguments: dict[str, Any] = {"asked": jsonb(vars(asked))}
    with errors_translated(), connection.transaction(), _staging.notices_of(connection, progress) as notices:
        begun = connection.execute(_BEGIN, arguments).fetchone()
        geographic, first = cast("tuple[bool, int]", begun)
        staging = _staging.Staging(connection, "file, line, subject, trip, t, x, y", source.cells)
        source.stage(staging, progress, geographic=geographic, first=first)
        connection.execute(_JUDGE, arguments | {"geographic": geographic})
        arguments |= {
            "sources": source.sources,
            "read": staging.read,
            "cells": Jsonb(staging.cells),
            "swap": source.remedy,
            "none": staging.remedy,
        }
        with connection.cursor(row_factory=dict_row) as cursor:
            loads = cursor.execute(_FINISH, arguments).fetchall()
        progress("making trajectories", loads[0]["trajectories"], loads[0]["trajectories"])
    return _report(asked.dataset, source.sources, loads, notices)


def import_trajectories(
    connection: Connection, table: str, asked: ImportingTrajectories, progress: Progress = silent
) -> LoadReport:
    """Load one fix a row from a table or view of the same database, without leaving the server.

    Table and errors are those of `dbanon.database.datasets.Datasets.import_trajectories`.
    """
    with errors_translated(), connection.transaction(), _staging.notices_of(connection, progress) as notices:
        arguments = {"table": _found(connection, table), "asked": jsonb(vars(asked))}
        with connection.cursor(row_factory=dict_row) as cursor:
            loads = cursor.execute(_IMPORT, arguments).fetchall()
        query = "SELECT source FROM dbanon.load WHERE load_id = %s"
        sources = [row[0] for row in connection.execute(query, [loads[0]["load_id"]])]
        progress("making trajectories", loads[0]["trajectories"], loads[0]["trajectories"])
    return _report(asked.dataset, sources, loads, notices)


def _report(dataset: str, sources: list[str], loads: Sequence[Mapping[str, Any]], notices: Sequence[str]) -> LoadReport:
    """Report what became of trajectories: `loads` has a row for each source."""
    made = loads[0]
    first, last = (_utc(made[name]) for name in ("first_time", "last_time"))
    return LoadReport(
        dataset=dataset,
        kind="trajectories",
        load_id=made["load_id"],
        source=sources,
        read=sum(load["rows_read"] for load in loads),
        kept=sum(load["rows_kept"] for load in loads),
        quarantined=_staging.totals(load["quarantined"] for load in loads),
        left_out=_staging.totals(load["left_out"] for load in loads),
        late_periods=tuple(made["late_periods"]),
        trajectories=made["trajectories"],
        subjects=made["subjects"],
        days=made["days"],
        srid=made["srid"],
        far=dict(sorted(made["far"].items())),
        first_time=first,
        last_time=last,
        notices=tuple(notices),
    )


def _utc(time: datetime | None) -> datetime | None:
    return None if time is None else time.replace(tzinfo=UTC)


def _found(connection: Connection, table: str) -> int:
    """Look a table or view up by its name, along the login's own path; the SQL functions take it by its OID.

    Raises `DataError` if there is none, naming those with positions.
    """
    row = None
    try:
        with connection.transaction():
            # Nothing but the name is looked up along that path: this function and this type are named in full.
            connection.execute("SET LOCAL search_path TO DEFAULT")
            row = connection.execute("SELECT pg_catalog.to_regclass(%s)::pg_catalog.oid", [table]).fetchone()
            connection.execute(PIN_PATH)
    except (psycopg.ProgrammingError, psycopg.NotSupportedError):  # it is no name
        pass
    if row is None or row[0] is None:
        raise DataError(f"The table to import must exist. There is no '{table}'. {_hint(connection)}")
    return int(row[0])


def _hint(connection: Connection) -> str:
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
