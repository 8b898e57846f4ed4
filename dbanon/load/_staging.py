"""Temporary tables of a load from files and tables in memory.

Usable rows go to ``dbanon_staged``, those in which something may be wrong to ``dbanon_suspect``; both end with the
transaction, and the SQL functions of a load judge and go on with them.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.postgres import binary_copy
from dbanon.postgres.connection import Connection


def copy_rows(connection: Connection, target: str, rows: Sequence[binary_copy.Column]) -> None:
    """Copy rows into a table, column by column."""
    with binary_copy.open_copy(connection, target) as copy:
        copy.write(memoryview(binary_copy.encode_rows(rows)))


def is_null(column: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))


def convert_to_floats(column: pa.Array) -> NDArray[np.float64]:
    """A column as doubles; nulls are NaN."""
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
