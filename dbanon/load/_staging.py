"""Temporary tables of a load from files and tables in memory.

Usable rows go to ``dbanon_staged``, those in which something may be wrong to ``dbanon_suspect``; both end with the
transaction, and the SQL functions of a load judge and go on with them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.postgres import binary_copy
from dbanon.postgres.connection import Connection


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
        with binary_copy.open_copy(self.connection, f"dbanon_staged ({self.columns})") as copy:
            copy.write(memoryview(binary_copy.encode_rows(rows)))

    def stage_suspects(self, rows: Sequence[binary_copy.Column]) -> None:
        """Copy rows in which something may be wrong, with their cells as they were read, column by column."""
        with binary_copy.open_copy(self.connection, "dbanon_suspect") as copy:
            copy.write(memoryview(binary_copy.encode_rows(rows)))


def is_null(column: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))


def convert_to_floats(column: pa.Array) -> NDArray[np.float64]:
    """A column as doubles; nulls are NaN."""
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
