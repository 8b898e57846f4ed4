"""From files and tables to trajectories: stage, sort out, reproject, store; in one transaction.

Places, requests and quasi-identifiers go the way of tables (`_tables`).

Invariants: a row of a source is either part of what is stored or in ``dbanon.quarantine`` with a reason, never neither
and never both; fixes of a subject that contradict each other are decided by their order in the source; what is staged
is judged, made into lines and reprojected by SQL functions (``sql/20_load``), which read tables by themselves. No
message holds a coordinate or a subject.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from dbanon.base.errors import DataError, choose_one
from dbanon.base.progress import Progress, silent
from dbanon.load import _parse, _staging, _trajectories, datasets
from dbanon.load._bbox import Box
from dbanon.load._staging import LoadReport
from dbanon.load._tables import PlaceColumns, load_places, load_quasi_identifiers, load_requests, store_places
from dbanon.load._trajectories import Columns, Files
from dbanon.load.datasets import Mode
from dbanon.postgres.connection import PIN_PATH, errors_translated

__all__ = [
    "Box",
    "Columns",
    "LoadReport",
    "Options",
    "PlaceColumns",
    "TableColumns",
    "import_trajectories",
    "load_places",
    "load_quasi_identifiers",
    "load_requests",
    "load_trajectories",
    "store_places",
]

Connection = psycopg.Connection[Any]


@dataclass(frozen=True, kw_only=True)
class TableColumns:
    """Which column of a table holds what; `geom` is a point or shape, `trip` separates a subject's trajectories."""

    subject: str
    time: str
    geom: str
    trip: str | None = None


@dataclass(frozen=True, kw_only=True)
class Options:
    """How trajectories are loaded; the SQL functions check it.

    Attributes
    ----------
    dataset : str
    crs : str, optional
        Reference system of x and y in the source; EPSG:4326 for files, the table's own for tables.
    srid : int, optional
        Projected metric reference system of the dataset; the UTM zone of the data's median by default.
    grid_m, grid_s
        The dataset's grid in metres and seconds; with ``append`` anything but the defaults must match.
    mode : {"create", "append", "replace"}
    tz : str, optional
        Zone of times that name none.
    split_gap_s : float, optional
        A subject's fixes are cut into trajectories where more seconds lie between two of them.
    bbox : tuple of float, optional
        Least x, least y, greatest x, greatest y, in units of the source; what lies outside is left out.
    drop_outliers : bool
        Leave out what lies far outside the rest, in place or time, and not only count it.
    subject_per_day : bool
        Cut subjects at each midnight of `tz`, UTC unless given: each day is a separate record, of the same person.
    population : str, optional
        Within it a subject's name means one person in all datasets; made when first named, ``default`` unless given.
    settle_s : int, optional
        How many seconds a person may stay where a snapshot shows them; 900 unless given. The greatest of a population
        counts.
    """

    dataset: str
    crs: str | None = None
    srid: int | None = None
    grid_m: float = 1.0
    grid_s: int = 1
    mode: Mode = "create"
    tz: str | None = None
    split_gap_s: float | None = None
    bbox: Box | None = None
    drop_outliers: bool = False
    subject_per_day: bool = False
    population: str | None = None
    settle_s: int | None = None

    def arguments(self) -> dict[str, Any]:
        """Name them as the SQL functions do."""
        return {
            **vars(self),
            "srid": None if self.srid is None else min(self.srid, 2**31 - 1),  # a larger one exists as little
            "settle_s": datasets.fitting(self.settle_s),
            "bbox": None if self.bbox is None else [float(side) for side in self.bbox],
            "day_zone": (self.tz or "UTC") if self.subject_per_day else None,
        }


# ---- trajectories ----------------------------------------------------------------------------------------------------

_BEGIN = """SELECT geographic, first_number FROM dbanon_internal.begin_load(
    %(dataset)s, %(mode)s, %(crs)s, %(srid)s::integer, %(grid_m)s::float8, %(grid_s)s::float8, %(split_gap_s)s::float8,
    %(bbox)s::float8[], %(day_zone)s, %(population)s, %(settle_s)s::integer, %(alone)s)"""
_JUDGE = "SELECT dbanon_internal.judge_suspects(0, %(geographic)s, %(bbox)s::float8[])"
_MADE = """rows_kept, quarantined, trajectories, subjects, days, far, first_time AT TIME ZONE 'UTC' AS first_time,
    last_time AT TIME ZONE 'UTC' AS last_time"""
_FINISH = f"""SELECT load_id, file_rows AS rows_read, target AS srid, {_MADE} FROM dbanon_internal.finish_load(
    %(dataset)s, %(mode)s, %(crs)s, %(srid)s::integer, %(grid_m)s::float8, %(grid_s)s::integer, %(split_gap_s)s::float8,
    %(drop_outliers)s, %(sources)s, %(read)s::bigint[], %(cells)s, %(alone)s, %(swap)s, %(none)s, %(day_zone)s,
    %(population)s, %(settle_s)s::integer)"""
_IMPORT = f"""SELECT load_id, rows_read, srid, {_MADE} FROM dbanon.import_trajectories(
    %(table)s::oid, %(dataset)s, %(subject)s, %(time)s, %(geom)s, %(trip)s, %(crs)s, %(srid)s::integer,
    %(grid_m)s::float8, least(%(grid_s)s::numeric, 2147483647)::integer, %(mode)s, %(split_gap_s)s::float8, %(tz)s,
    %(bbox)s::float8[], %(drop_outliers)s, %(subject_per_day)s, %(population)s, %(settle_s)s::integer)"""


def load_trajectories(
    connection: Connection,
    files: Sequence[Path],
    options: Options,
    *,
    columns: Columns | None = None,
    progress: Progress | None = None,
) -> LoadReport:
    """Load one fix a row from CSV (also gzipped) or Parquet files.

    Parameters
    ----------
    connection : psycopg.Connection
    files : sequence of Path
        In the order that decides between contradicting fixes.
    options : Options
    columns : Columns, optional
        Subject ``-`` makes every row a separate subject.
    progress : callable, optional
        Called with a stage, what is done and the total or None.

    Returns
    -------
    LoadReport

    Raises
    ------
    ParameterError
        For names, modes and reference systems that cannot be used, and for x and y that are the wrong way round.
    DataError
        If a file is no table or no row is usable; nothing is stored then.
    """
    columns, progress = columns or Columns(), progress or silent
    _parse.check_zone(options.tz)
    _trajectories.check_files(files)
    columns.check()
    _trajectories.refuse_names_of_each_other(columns.x, columns.y)
    source = Files(tuple(files), columns, options.tz, options.bbox)
    arguments = {
        **options.arguments(),
        "crs": options.crs or "EPSG:4326",
        "alone": columns.subject == _trajectories.ITS_OWN,
    }
    with errors_translated(), connection.transaction(), _staging.notices_of(connection, progress) as notices:
        connection.execute("SELECT dbanon_internal.check_days(%s, %s)", [columns.subject, options.subject_per_day])
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
    return _report(options.dataset, source.sources, loads, notices)


def import_trajectories(
    connection: Connection,
    table: str,
    options: Options,
    *,
    columns: TableColumns,
    progress: Progress | None = None,
) -> LoadReport:
    """Load one fix a row from a table or view of the same database, without leaving the server.

    Parameters
    ----------
    connection : psycopg.Connection
    table : str
        As in SQL, with its schema where the search path does not lead to it.
    options : Options
    columns : TableColumns
        Subject ``-`` makes every row a separate subject.
    progress : callable, optional

    Returns
    -------
    LoadReport

    Raises
    ------
    ParameterError, DataError
        As for `load_trajectories`, and for columns of the wrong type.
    StoreError
        If the login may not read the table.
    """
    progress = progress or silent
    arguments = {**options.arguments(), **vars(columns)}
    with errors_translated(), connection.transaction(), _staging.notices_of(connection, progress) as notices:
        arguments["table"] = _found(connection, table)
        with connection.cursor(row_factory=dict_row) as cursor:
            loads = cursor.execute(_IMPORT, arguments).fetchall()
        query = "SELECT source FROM dbanon.load WHERE load_id = %s"
        sources = [row[0] for row in connection.execute(query, [loads[0]["load_id"]])]
        progress("making trajectories", loads[0]["trajectories"], loads[0]["trajectories"])
    return _report(options.dataset, sources, loads, notices)


def _report(dataset: str, sources: list[str], loads: Sequence[Mapping[str, Any]], notices: Sequence[str]) -> LoadReport:
    """Report what became of trajectories: `loads` has a row for each source."""
    quarantined, kept = _staging.totals([(load["rows_kept"], load["quarantined"]) for load in loads])
    made = loads[0]
    first, last = (cast("datetime", made[name]).replace(tzinfo=UTC) for name in ("first_time", "last_time"))
    return LoadReport(
        dataset=dataset,
        kind="trajectories",
        load_id=made["load_id"],
        source=sources,
        read=sum(load["rows_read"] for load in loads),
        kept=kept,
        quarantined=quarantined,
        trajectories=made["trajectories"],
        subjects=made["subjects"],
        days=made["days"],
        srid=made["srid"],
        far=dict(sorted(made["far"].items())),
        first_time=first,
        last_time=last,
        notices=tuple(notices),
    )


def _found(connection: Connection, table: str) -> int:
    """Look a table or view up by its name, along the login's own path; the SQL functions take it by its OID.

    Raises
    ------
    DataError
        If there is none, naming those with positions.
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
