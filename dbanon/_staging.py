"""Temporary tables of a load, and the record it leaves: what was kept, and what was left out by reason.

Usable rows go to ``dbanon_staged``, the others to ``dbanon_rejected``; both end with the transaction.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import psycopg
import pyarrow as pa
from numpy.typing import NDArray
from psycopg import sql

from dbanon import _files, binary_copy, store
from dbanon.errors import DataError

Connection = psycopg.Connection[Any]


@dataclass
class Staging:
    """Temporary tables of one load: ``dbanon_staged`` holds usable rows, ``dbanon_rejected`` the others."""

    connection: Connection
    columns: str
    read: list[int] = field(default_factory=list)

    def create(self, columns: str) -> None:
        self.connection.execute(sql.SQL(cast("Any", f"CREATE TEMP TABLE dbanon_staged ({columns}) ON COMMIT DROP")))
        self.connection.execute(
            "CREATE TEMP TABLE dbanon_rejected (file int, line bigint, reason text, content jsonb) ON COMMIT DROP"
        )

    def stage(self, rows: Sequence[binary_copy.Column]) -> None:
        with store.copying(self.connection, f"dbanon_staged ({self.columns})") as copy:
            copy.write(memoryview(binary_copy.rows(rows)))

    def reject(self, batch: _files.Batch, reasons: "Reasons") -> None:
        """Keep the rows that cannot be used, with their cells as they were read."""
        bad = np.flatnonzero(reasons.code)
        if not len(bad):
            return
        cells = {
            name: column.take(pa.array(bad)).cast(pa.string()).to_pylist() for name, column in batch.columns.items()
        }
        content = [json.dumps(dict(zip(cells, row, strict=True))) for row in zip(*cells.values(), strict=True)]
        reason = pa.array([reasons.names[code] for code in reasons.code[bad]])
        rows = [
            np.full(len(bad), len(self.read), np.int32),
            batch.line.to_numpy()[bad].astype(np.int64),
            reason,
            binary_copy.jsonb(pa.array(content, pa.string())),
        ]
        with store.copying(self.connection, "dbanon_rejected (file, line, reason, content)") as copy:
            copy.write(memoryview(binary_copy.rows(rows)))


class Reasons:
    """The first reason found against each row of a batch; code 0 is none."""

    def __init__(self, rows: int) -> None:
        self.code = np.zeros(rows, np.int16)
        self.names = ["kept"]

    def mark(self, name: str, bad: NDArray[np.bool_]) -> None:
        """Give a reason to the bad rows that have none."""
        self.names.append(name)
        self.code[(self.code == 0) & bad] = len(self.names) - 1

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


def demand_some(staging: Staging) -> None:
    """Raise `DataError` if nothing is left to store, with the reasons counted."""
    if staging.connection.execute("SELECT 1 FROM dbanon_staged LIMIT 1").fetchone():
        return
    counted = staging.connection.execute("SELECT reason, count(*) FROM dbanon_rejected GROUP BY reason ORDER BY reason")
    told = ", ".join(f"{n} {reason}" for reason, n in counted)
    raise DataError(
        f"At least one row must be usable. Got {sum(staging.read)} rows, none usable ({told}); check which columns are "
        "named, --crs and the times."
    )


def write_load(staging: Staging, dataset_id: int, kind: str, files: Sequence[Path]) -> tuple[dict[str, int], int]:
    """Write a row of ``dbanon.load`` for each file and the quarantine; returns rows left out by reason, and kept."""
    total: dict[str, int] = {}
    kept = 0
    for number, path in enumerate(files):
        counted = staging.connection.execute(
            "SELECT reason, count(*) FROM dbanon_rejected WHERE file = %s GROUP BY reason ORDER BY reason", [number]
        ).fetchall()
        usable = staging.read[number] - sum(n for _, n in counted)
        row = staging.connection.execute(
            "INSERT INTO dbanon.load (dataset_id, kind, source, rows_read, rows_kept, quarantined) "
            "VALUES (%s, %s, %s, %s, %s, %s) RETURNING load_id",
            [dataset_id, kind, str(path), staging.read[number], usable, json.dumps(dict(counted))],
        ).fetchone()
        staging.connection.execute(
            "INSERT INTO dbanon.quarantine (load_id, line, reason, content) "
            "SELECT %s, line, reason, content FROM dbanon_rejected WHERE file = %s ORDER BY line",
            [cast("tuple[int]", row)[0], number],
        )
        kept += usable
        for reason, n in counted:
            total[reason] = total.get(reason, 0) + n
    return total, kept
