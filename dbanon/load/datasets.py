"""A dataset that is loaded into: whose turn it is, whether it may be, and its row; the SQL functions decide.

Invariant: no other session loads into the dataset until the transaction that claimed it ends.
"""

from dataclasses import dataclass
from typing import Literal, cast

from psycopg.rows import class_row

from dbanon.base.dataset import DatasetRow
from dbanon.postgres.connection import Connection

Mode = Literal["create", "append", "replace"]


@dataclass(frozen=True, kw_only=True)
class People:
    """Who is in a dataset: its population, and its settle time in seconds; None leaves what it has, or the default."""

    population: str | None = None
    settle_s: int | None = None


def fitting(number: int | None) -> int | None:
    """Bring a number within an integer of the server, which refuses those at its ends as it does those beyond."""
    return None if number is None else max(min(number, 2**31 - 1), -(2**31))


def claim(
    connection: Connection,
    name: str,
    mode: Mode,
    *,
    grid_m: float,
    grid_s: int,
    srid: int | None,
    people: People | None = None,
) -> DatasetRow | None:
    """Keep others from loading into the dataset until the transaction ends, and check that the mode fits it.

    One that exists gets the population and settle time named.

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
    people = people or People()
    with connection.cursor(row_factory=class_row(DatasetRow)) as cursor:
        return cursor.execute(
            "SELECT dataset_id, name, srid, grid_m, grid_s, revision "
            "FROM dbanon_internal.claim_dataset(%s, %s, %s::float8, %s::float8, %s::integer, '', "
            "%s, %s::integer, false) WHERE dataset_id IS NOT NULL",
            [name, mode, grid_m, grid_s, srid, people.population, fitting(people.settle_s)],
        ).fetchone()


def write(
    connection: Connection,
    name: str,
    mode: Mode,
    *,
    srid: int,
    grid_m: float,
    grid_s: int,
    people: People | None = None,
) -> int:
    """Create the dataset, or empty it of trajectories and runs if it is replaced; returns its key.

    What else was loaded into it stays.

    Raises
    ------
    ParameterError
        If it has sites, and would change its reference system.
    """
    people = people or People()
    row = connection.execute(
        "SELECT dbanon_internal.write_dataset("
        "%s, %s, %s::integer, %s::float8, %s::integer, NULL, %s, %s::integer, false)",
        [name, mode, srid, grid_m, grid_s, people.population, fitting(people.settle_s)],
    ).fetchone()
    return int(cast("tuple[int]", row)[0])
