"""Temporary tables of a load, and the record it leaves: what was kept, and what was left out by reason.

Usable rows go to ``dbanon_staged``, the others to ``dbanon_rejected``; both end with the transaction.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

import numpy as np
import psycopg
import pyarrow as pa
from numpy.typing import NDArray
from psycopg import sql

from dbanon import binary_copy, store
from dbanon.errors import DataError
from dbanon.loading import _cells, _files

Connection = psycopg.Connection[Any]

REASONS = (
    "missing-category",
    "missing-subject",
    "subject-too-long",
    "unparsable-time",
    "non-finite-time",
    "time-out-of-range",
    "other-reference-system",
    "unparsable-position",
    "not-a-polygon",
    "non-finite-position",
    "swapped-axes",
    "position-out-of-range",
    "invalid-polygon",
    "outside-bbox",
    "far-position",
    "far-time",
    "duplicate-fix",
    "contradicting-fix",
    "empty-request",
    "duplicate-request",
    "duplicate-site",
    "duplicate-poi",
    "duplicate-cell",
    "duplicate-quasi-identifier",
)
"""Why a row may be left out, in the order in which they are looked for; docs/howto/load.md explains them."""

_THERE_ALREADY = {"duplicate-fix", "contradicting-fix", "duplicate-request", "duplicate-site"}


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """What a load read, kept, and left out by reason; `far` counts what lies far outside the rest and was kept.

    `first_time` and `last_time` are those of the fixes kept: a wrong unit or zone shows there.
    """

    dataset: str
    kind: str
    source: list[str]
    read: int
    kept: int
    quarantined: dict[str, int]
    trajectories: int
    subjects: int
    srid: int
    far: dict[str, int]
    first_time: datetime | None = None
    last_time: datetime | None = None
    notices: tuple[str, ...] = ()


@dataclass
class Staging:
    """Temporary tables of one load; `columns` are those of ``dbanon_staged``, `read` counts the rows of each source.

    `cells` names, for each column of the source, the expression that tells what was read from it, for the quarantine.
    `remedy` is what to do where no row is usable.
    `shapes` counts the rows that hold a line or an area; where there are any, they have it in a column `shape`.
    """

    connection: Connection
    columns: str
    cells: Mapping[str, str] = field(default_factory=dict)
    read: list[int] = field(default_factory=list)
    shapes: int = 0
    remedy: str = "check which columns are named, --crs, --bbox and the times"

    def create(self, columns: str) -> None:
        """Make the tables, that of the usable rows with these columns and their types."""
        self.connection.execute(sql.SQL(cast("Any", f"CREATE TEMP TABLE dbanon_staged ({columns}) ON COMMIT DROP")))
        self.connection.execute(
            "CREATE TEMP TABLE dbanon_rejected (file int, line bigint, reason text, content jsonb) ON COMMIT DROP"
        )

    def stage(self, rows: Sequence[binary_copy.Column]) -> None:
        """Copy usable rows, column by column."""
        with store.copying(self.connection, f"dbanon_staged ({self.columns})") as copy:
            copy.write(memoryview(binary_copy.rows(rows)))

    def reject(self, batch: _files.Batch, reasons: "Reasons") -> None:
        """Keep the rows that cannot be used, with their cells as they were read."""
        bad = np.flatnonzero(reasons.code)
        if not len(bad):
            return
        where = pa.array(bad)
        rows = [
            np.full(len(bad), len(self.read), np.int32),
            batch.line.to_numpy()[bad].astype(np.int64),
            reasons.names(bad),
            binary_copy.jsonb(_cells.as_json({name: column.take(where) for name, column in batch.columns.items()})),
        ]
        with store.copying(self.connection, "dbanon_rejected (file, line, reason, content)") as copy:
            copy.write(memoryview(binary_copy.rows(rows)))

    def leave_out(self, condition: sql.Composable, reason: sql.Composable) -> None:
        """Reject staged rows on a condition, for the reason that an expression gives."""
        statement = sql.SQL(
            "WITH gone AS (DELETE FROM dbanon_staged WHERE {} RETURNING *) "
            "INSERT INTO dbanon_rejected SELECT file, line, {}, {} FROM gone"
        )
        self.connection.execute(statement.format(condition, reason, self.content()))

    def content(self) -> sql.Composed:
        """Build the JSON of a staged row: the columns of the source and what was read from them."""
        pairs = [
            sql.SQL("{}::text, ({})::text").format(sql.Literal(name), sql.SQL(cast("Any", expression)))
            for name, expression in self.cells.items()
        ]
        return sql.SQL("jsonb_build_object({})").format(sql.SQL(", ").join(pairs))

    def rejected(self) -> dict[str, int]:
        """Count what was left out, by reason."""
        query = "SELECT reason, count(*) FROM dbanon_rejected GROUP BY reason ORDER BY reason"
        return dict(self.connection.execute(query).fetchall())

    def usable(self) -> int:
        """Count the rows that nothing was found against so far."""
        return sum(self.read) - sum(self.rejected().values())

    def demand_some(self) -> None:
        """Raise `DataError` if nothing is left to store, with the reasons counted."""
        if self.usable():
            return
        rejected = self.rejected()
        read = sum(self.read)
        each, rows = ("its row", "1 row") if read == 1 else (f"each of the {read} rows", f"{read} rows")
        told = ", ".join(f"{n} {reason}" for reason, n in rejected.items())
        if set(rejected) <= _THERE_ALREADY and rejected:
            raise DataError(
                f"What is added must be new. The dataset has something for {each} ({told}); it was loaded before."
            )
        raise DataError(f"At least one row must be usable. Got {rows}, none usable ({told}); {self.remedy}.")


class Reasons:
    """The first reason found against each row of a batch; code 0 is none."""

    def __init__(self, rows: int) -> None:
        self.code = np.zeros(rows, np.int16)

    def mark(self, name: str, bad: NDArray[np.bool_]) -> None:
        """Give a reason to the bad rows that have none."""
        self.code[(self.code == 0) & bad] = REASONS.index(name) + 1

    def names(self, rows: NDArray[np.intp]) -> pa.Array:
        """Name the reasons against some bad rows."""
        return pa.array(REASONS).take(pa.array(self.code[rows] - 1))

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Rows that nothing was found against."""
        return np.asarray(self.code == 0)


def is_null(column: pa.Array) -> NDArray[np.bool_]:
    """Where a column is null."""
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))


def floats(column: pa.Array) -> NDArray[np.float64]:
    """A column as doubles; nulls are NaN."""
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def write_load(staging: Staging, dataset_id: int, kind: str, sources: Sequence[str]) -> tuple[dict[str, int], int]:
    """Write a row of ``dbanon.load`` for each source and the quarantine; returns rows left out by reason, and kept."""
    for number, source in enumerate(sources):
        counted = staging.connection.execute(
            "SELECT reason, count(*) FROM dbanon_rejected WHERE file = %s GROUP BY reason ORDER BY reason", [number]
        ).fetchall()
        usable = staging.read[number] - sum(n for _, n in counted)
        row = staging.connection.execute(
            "INSERT INTO dbanon.load (dataset_id, kind, source, rows_read, rows_kept, quarantined) "
            "VALUES (%s, %s, %s, %s, %s, %s) RETURNING load_id",
            [dataset_id, kind, source, staging.read[number], usable, json.dumps(dict(counted))],
        ).fetchone()
        staging.connection.execute(
            "INSERT INTO dbanon.quarantine (load_id, line, reason, content) "
            "SELECT %s, line, reason, content FROM dbanon_rejected WHERE file = %s ORDER BY line",
            [cast("tuple[int]", row)[0], number],
        )
    rejected = staging.rejected()
    return rejected, sum(staging.read) - sum(rejected.values())
