"""A dataset that is loaded into: whose turn it is, whether it may be, and its row; the SQL functions decide.

Invariant: no other session loads into the dataset until the transaction that claimed it ends.
"""

from collections.abc import Mapping
from typing import Any, cast

from psycopg.rows import class_row

from dbanon.base.dataset import DatasetRow
from dbanon.options.loading import name_as_sql
from dbanon.postgres.connection import Connection, make_jsonb

LOADING_RECORD = "jsonb_populate_record(NULL::dbanon_internal.loading, %(asked)s)"
"""What a load was asked for, as the SQL functions take it; what that has no attribute for is left out."""


def claim(connection: Connection, options: Mapping[str, Any]) -> DatasetRow | None:
    """Keep others from loading into the dataset until the transaction ends, and check that the mode fits it.

    One that exists gets the population and settle time named. Whole subjects are loaded, which have names.

    Parameters
    ----------
    options : mapping
        Options of `dbanon.options.loading.LoadingTrajectories`: dataset, mode, grid_m, grid_s, population, settle_s.

    Returns
    -------
    DatasetRow or None
        As it is; None where it is to be created.

    Raises
    ------
    ParameterError
        If it exists and should not, or the other way round, is on another grid, is cut into days, has subjects without
        names, or has releases and would be replaced or change its population;
        for what no dataset can be called or have for a grid.
    """
    with connection.cursor(row_factory=class_row(DatasetRow)) as cursor:
        return cursor.execute(
            f"SELECT dataset_id, name, srid, grid_m, grid_s, revision "
            f"FROM dbanon_internal.claim_dataset({LOADING_RECORD}, '') WHERE dataset_id IS NOT NULL",
            {"asked": make_jsonb(name_as_sql(options))},
        ).fetchone()


def write(connection: Connection, options: Mapping[str, Any], srid: int) -> int:
    """Create the dataset, or empty it of trajectories and runs if it is replaced; returns its key.

    What else was loaded into it stays. Options are those of `claim`. Raises `ParameterError` if it has sites, and would
    change its reference system.
    """
    row = connection.execute(
        f"SELECT dataset_id FROM dbanon_internal.write_dataset({LOADING_RECORD}, %(srid)s::integer)",
        {"asked": make_jsonb(name_as_sql(options)), "srid": srid},
    ).fetchone()
    return int(cast("tuple[int]", row)[0])
