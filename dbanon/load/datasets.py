"""A dataset that is loaded into: whose turn it is, whether it may be, and its row; the SQL functions decide.

Invariant: no other session loads into the dataset until the transaction that claimed it ends.
"""

from typing import Literal, cast

from psycopg.rows import class_row

from dbanon.connection import Connection
from dbanon.reading import DatasetRow

Mode = Literal["create", "append", "replace"]


def claim(
    connection: Connection, name: str, mode: Mode, *, grid_m: float, grid_s: int, srid: int | None
) -> DatasetRow | None:
    """Keep others from loading into the dataset until the transaction ends, and check that the mode fits it.

    Returns
    -------
    DatasetRow or None
        As it is; None where it is to be created.

    Raises
    ------
    ParameterError
        If it exists and should not, or the other way round, is on another grid, is cut into days, or has releases and
        would be replaced;
        for what no dataset can be called or have for a grid.
    """
    with connection.cursor(row_factory=class_row(DatasetRow)) as cursor:
        return cursor.execute(
            "SELECT dataset_id, name, srid, grid_m, grid_s, revision "
            "FROM dbanon_internal.claim_dataset(%s, %s, %s::float8, %s::float8, %s::integer, '') "
            "WHERE dataset_id IS NOT NULL",
            [name, mode, grid_m, grid_s, srid],
        ).fetchone()


def write(connection: Connection, name: str, mode: Mode, *, srid: int, grid_m: float, grid_s: int) -> int:
    """Create the dataset, or empty it of trajectories and runs if it is replaced; returns its key.

    What else was loaded into it stays.

    Raises
    ------
    ParameterError
        If it has sites, and would change its reference system.
    """
    row = connection.execute(
        "SELECT dbanon_internal.write_dataset(%s, %s, %s::integer, %s::float8, %s::integer)",
        [name, mode, srid, grid_m, grid_s],
    ).fetchone()
    return int(cast("tuple[int]", row)[0])
