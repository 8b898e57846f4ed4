"""Temporary tables of a load, and the record it leaves: what was kept, and what was left out by reason.

Usable rows go to ``dbanon_staged``, the others to ``dbanon_rejected``; both end with the transaction, and
the SQL functions of a load go on with them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

import numpy as np
import psycopg
import pyarrow as pa
from numpy.typing import NDArray
from psycopg import sql
from psycopg.types.json import Jsonb

from dbanon import _sqlstate, binary_copy, writing
from dbanon._progress import Progress
from dbanon.load import _files, _parse

Connection = psycopg.Connection[Any]

REASONS = (
    "missing-category",
    "missing-subject",
    "subject-too-long",
    "control-characters",
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

_SAID = "DA018"  # SQLSTATE of what dbanon's own functions tell


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

    `cells` names, for each column of the source, the column that tells what was read from it, for the quarantine.
    `remedy` is what to do where no row is usable.
    """

    connection: Connection
    columns: str
    cells: Mapping[str, str] = field(default_factory=dict)
    read: list[int] = field(default_factory=list)
    remedy: str = "Check which columns are named, --crs, --bbox and the times."

    def stage(self, rows: Sequence[binary_copy.Column]) -> None:
        """Copy usable rows, column by column."""
        with writing.copying(self.connection, f"dbanon_staged ({self.columns})") as copy:
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
            binary_copy.jsonb(_parse.as_json({name: column.take(where) for name, column in batch.columns.items()})),
        ]
        with writing.copying(self.connection, "dbanon_rejected (file, line, reason, content)") as copy:
            copy.write(memoryview(binary_copy.rows(rows)))

    def content(self) -> sql.SQL:
        """Write the JSON of a staged row: the columns of the source and what was read from them."""
        row = self.connection.execute("SELECT dbanon_internal.staged_content(%s)", [Jsonb(self.cells)]).fetchone()
        return sql.SQL(cast("Any", cast("tuple[str]", row)[0]))

    def demand_some(self) -> None:
        """Raise `DataError` if nothing is left to store, with the reasons counted."""
        self.connection.execute("SELECT dbanon_internal.demand_some(%s, %s)", [sum(self.read), self.remedy])

    def write_load(self, dataset_id: int, kind: str, sources: Sequence[str]) -> tuple[dict[str, int], int]:
        """Write the record of each source and the quarantine; returns rows left out by reason, and kept."""
        return totals(
            self.connection.execute(
                "SELECT rows_kept, quarantined FROM dbanon_internal.write_load(%s, %s, %s, %s::bigint[])",
                [dataset_id, kind, list(sources), self.read],
            ).fetchall()
        )


def totals(loads: Sequence[tuple[int, Mapping[str, int]]]) -> tuple[dict[str, int], int]:
    """Add up, over the sources of a load, the rows left out by reason, and those kept."""
    left_out: Counter[str] = Counter()
    for _, quarantined in loads:
        left_out.update(quarantined)
    return dict(sorted(left_out.items())), sum(kept for kept, _ in loads)


@contextmanager
def telling(connection: Connection, progress: Progress) -> Iterator[list[str]]:
    """Pass on what the SQL functions of a load say, for a block in a transaction: stages to `progress`.

    Yields
    ------
    list of str
        Fills with their notices.
    """
    notices: list[str] = []

    def hear(said: psycopg.errors.Diagnostic) -> None:
        if said.sqlstate != _SAID:
            return
        text = _sqlstate.for_command_line(said.message_primary or "")
        if said.severity_nonlocalized == "NOTICE":
            notices.append(f"Notice: {text}")
        else:
            progress(text, 0, None)

    set_level = "SELECT set_config('client_min_messages', %s, true)"
    before = cast("tuple[str]", connection.execute("SHOW client_min_messages").fetchone())[0]
    connection.add_notice_handler(hear)
    try:
        connection.execute(set_level, ["debug1"])
        yield notices
        connection.execute(set_level, [before])
    finally:
        connection.remove_notice_handler(hear)


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
