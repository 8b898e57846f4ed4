"""Temporary tables of a load, and the record it leaves: what was kept, and what was left out by reason.

Usable rows go to ``dbanon_staged``, those in which something may be wrong to ``dbanon_suspect``; both end with the
transaction, and the SQL functions of a load judge and go on with them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

import numpy as np
import psycopg
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.base.progress import Progress
from dbanon.postgres import binary_copy, sqlstate
from dbanon.postgres.connection import Connection

_SAID = "DA018"  # SQLSTATE of the notices of dbanon's own functions


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """What a load read, kept, and left out by reason; `far` counts what lies far outside the rest and was kept.

    With `load_id` it can be taken back. `first_time` and `last_time` are those of the fixes kept: a wrong unit or zone
    shows there. `days` counts those of subjects, where they are cut. `left_out` counts by reason what has no copy in
    quarantine: `known` rows that were there already, `late` ones of published times (by period in `late_periods`),
    those of people who were `forgotten`, and others.
    """

    dataset: str
    kind: str
    load_id: int
    source: list[str]
    read: int
    kept: int
    quarantined: dict[str, int]
    trajectories: int
    subjects: int
    srid: int
    far: dict[str, int]
    left_out: dict[str, int] = field(default_factory=dict)
    late_periods: tuple[Mapping[str, Any], ...] = ()
    first_time: datetime | None = None
    last_time: datetime | None = None
    days: int | None = None
    notices: tuple[str, ...] = ()

    @property
    def known(self) -> int:
        """Rows that were there already."""
        return self.left_out.get("known", 0)

    @property
    def late(self) -> int:
        """New rows of times that are published."""
        return self.left_out.get("late", 0)

    @property
    def forgotten(self) -> int:
        """Rows of people who were forgotten."""
        return self.left_out.get("forgotten", 0)


@dataclass
class Staging:
    """Temporary tables of one load; `columns` are those of ``dbanon_staged``, `read` counts the rows of each source.

    `cells` names, for each column of the source, the column that holds what was read from it, for the quarantine.
    `remedy` is what to do where no row is usable.
    """

    connection: Connection
    columns: str
    cells: Mapping[str, str] = field(default_factory=dict)
    read: list[int] = field(default_factory=list)
    remedy: str = "Check which columns are named, --crs, --bbox and the times."

    def stage(self, rows: Sequence[binary_copy.Column]) -> None:
        """Copy usable rows, column by column."""
        with binary_copy.copying(self.connection, f"dbanon_staged ({self.columns})") as copy:
            copy.write(memoryview(binary_copy.rows(rows)))

    def suspect(self, rows: Sequence[binary_copy.Column]) -> None:
        """Copy rows in which something may be wrong, with their cells as they were read, column by column."""
        with binary_copy.copying(self.connection, "dbanon_suspect") as copy:
            copy.write(memoryview(binary_copy.rows(rows)))


def totals(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up, over the sources of a load, rows by reason."""
    total: Counter[str] = Counter()
    for of_one in counts:
        total.update(of_one)
    return dict(sorted(total.items()))


@contextmanager
def notices_of(connection: Connection, progress: Progress) -> Iterator[list[str]]:
    """Pass on what the SQL functions of a load say, for a block in a transaction: stages to `progress`.

    Yields a list that fills with their notices.
    """
    notices: list[str] = []

    def hear(said: psycopg.errors.Diagnostic) -> None:
        if said.sqlstate != _SAID:
            return
        text = sqlstate.for_command_line(said.message_primary or "")
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


def is_null(column: pa.Array) -> NDArray[np.bool_]:
    """Where a column is null."""
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))


def floats(column: pa.Array) -> NDArray[np.float64]:
    """A column as doubles; nulls are NaN."""
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
