"""A dataset that is loaded into: whose turn it is, whether it may be, and its row.

Invariant: nobody else loads into the dataset until the transaction that claimed it ends.
"""

from typing import Any, Literal, cast

import psycopg

from dbanon import store
from dbanon.errors import ParameterError

Connection = psycopg.Connection[Any]
Mode = Literal["create", "append", "replace"]

LARGEST_GRID_M, LARGEST_GRID_S = 1_000_000, 604_800


def check(name: str, mode: str, *, grid_m: float, grid_s: int) -> None:
    """Raise `ParameterError` for what no dataset can be called or have for a grid."""
    if not name.strip() or len(name) > 200 or not name.isprintable():
        raise ParameterError("A dataset must have a name of 1 to 200 characters. Got another; choose one such as cabs.")
    if mode not in ("create", "append", "replace"):
        raise ParameterError(f"The mode of a load must be create, append or replace. Got {mode!r}.")
    if not 0 < grid_m <= LARGEST_GRID_M:
        raise ParameterError(
            f"The space grid must be a number of metres above 0, and at most {LARGEST_GRID_M:,}. Got {grid_m!r}; "
            "change --grid-m."
        )
    if not (isinstance(grid_s, int) and 0 < grid_s <= LARGEST_GRID_S):
        raise ParameterError(
            f"The time grid must be a whole number of seconds above 0, and at most {LARGEST_GRID_S:,}. Got {grid_s!r}; "
            "change --grid-s."
        )


def claim(
    connection: Connection, name: str, mode: Mode, *, grid_m: float, grid_s: int, srid: int | None
) -> store.DatasetRow | None:
    """Keep others from loading into the dataset until the transaction ends, and check that the mode fits it.

    Returns
    -------
    DatasetRow or None
        As it is; None where it is to be created.

    Raises
    ------
    ParameterError
        If it exists and should not, or the other way round, is on another grid, or has releases and would be replaced.
    """
    lock(connection, name)
    exists = connection.execute("SELECT 1 FROM dbanon.dataset WHERE name = %s", [name]).fetchone()
    if mode == "create":
        if exists:
            raise ParameterError(
                f"A new dataset must have a new name. There is a '{name}' already; add to it with --append or replace "
                "its trajectories with --replace."
            )
        return None
    old = store.dataset_row(connection, name)
    if mode == "append":
        _check_matches(old, grid_m, grid_s, srid)
    else:
        _check_unreleased(connection, old)
    return old


def lock(connection: Connection, name: str) -> None:
    """Wait for other loads into a dataset of this name, and hold it until the transaction ends."""
    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('dbanon.load ' || %s, 0))", [name])


def write(
    connection: Connection,
    name: str,
    old: store.DatasetRow | None,
    mode: Mode,
    *,
    srid: int,
    grid_m: float,
    grid_s: int,
) -> int:
    """Create the dataset, or empty it of trajectories and runs if it is replaced; returns its key.

    Requests and sites stay.

    Raises
    ------
    ParameterError
        If it has sites, and would change its reference system.
    """
    if old is None:
        made = connection.execute(
            "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES (%s, %s, %s, %s) RETURNING dataset_id",
            [name, srid, grid_m, grid_s],
        ).fetchone()
        return int(cast("tuple[int]", made)[0])
    if mode == "replace":
        if srid != old.srid:
            _check_siteless(connection, old, srid)
        runs = "SELECT dbanon.drop_run(run_id) FROM dbanon.run WHERE dataset_id = %s ORDER BY run_id"
        connection.execute(runs, [old.dataset_id])
        connection.execute("DELETE FROM dbanon.trajectory WHERE dataset_id = %s", [old.dataset_id])
        if (srid, grid_m, grid_s) != (old.srid, old.grid_m, old.grid_s):
            connection.execute(
                "UPDATE dbanon.dataset SET srid = %s, grid_m = %s, grid_s = %s WHERE dataset_id = %s",
                [srid, grid_m, grid_s, old.dataset_id],
            )
    return old.dataset_id


def rows_before(connection: Connection, old: store.DatasetRow | None) -> int:
    """Rows ever read for a dataset: rows that are subjects of their own go on from there."""
    if old is None:
        return 0
    query = "SELECT coalesce(sum(rows_read), 0)::bigint FROM dbanon.load WHERE dataset_id = %s"
    return int((connection.execute(query, [old.dataset_id]).fetchone() or [0])[0])


def _check_matches(old: store.DatasetRow, grid_m: float, grid_s: int, srid: int | None) -> None:
    pairs = [("SRID", srid, None, old.srid), ("grid_m", grid_m, 1.0, old.grid_m), ("grid_s", grid_s, 1, old.grid_s)]
    for word, given, default, has in pairs:
        if given not in (default, has):
            raise ParameterError(
                f"What is added must be on the dataset's grid. '{old.name}' has {word} {has:g}. Got {given:g}; "
                "leave it out."
            )


def _check_unreleased(connection: Connection, old: store.DatasetRow) -> None:
    released = connection.execute(
        "SELECT count(*) FROM dbanon.release l JOIN dbanon.run r USING (run_id) WHERE r.dataset_id = %s",
        [old.dataset_id],
    ).fetchone()
    if released and released[0]:
        raise ParameterError(
            f"A dataset to replace must have no releases, since what was published stays known. '{old.name}' has "
            f"{released[0]}, withdrawn ones included; load into a new dataset."
        )


def _check_siteless(connection: Connection, old: store.DatasetRow, srid: int) -> None:
    sites = connection.execute("SELECT count(*) FROM dbanon.site WHERE dataset_id = %s", [old.dataset_id]).fetchone()
    if sites and sites[0]:
        raise ParameterError(
            f"A dataset must stay in the reference system of its sites. '{old.name}' has {sites[0]} in SRID {old.srid} "
            f"and would be in {srid}; give --srid {old.srid}, or load trajectories and sites into a new dataset."
        )
