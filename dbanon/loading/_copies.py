"""Rows that are subjects of their own and may be copies of one another: whom a copy hides, nobody hides.

Two rows of the same time and place may be two people, so none is left out; they are counted, and told. Rows are
compared as what is stored of them: the time, and the place or the bounds of a shape to the millimetre.
"""

from typing import Any

import psycopg
from psycopg import sql

from dbanon.errors import DataError

Connection = psycopg.Connection[Any]


def newest(connection: Connection) -> int:
    """Name the trajectory after which those of a load come."""
    row = connection.execute("SELECT max(trajectory_id) FROM dbanon.trajectory").fetchone()
    return int((row and row[0]) or 0)


def notices(connection: Connection, dataset_id: int, newest_before: int) -> tuple[str, ...]:
    """Say how many trajectories of a load, each a row, repeat the time and place of an earlier row of the dataset.

    Raises
    ------
    DataError
        If at least half of them repeat one that was there before the load.
    """
    added, again, twins = _counts(connection, dataset_id, newest_before)
    if again and 2 * again >= added:
        raise DataError(
            f"What is added must be new. The dataset has the time and place of {again:,} of the {added:,} rows, each "
            "of which would be one more person; leave out what was loaded before."
        )
    return _told(again + twins)


def _told(repeats: int) -> tuple[str, ...]:
    if not repeats:
        return ()
    rows, each = f"{repeats:,} rows repeat the time and place of others", "Each"
    copies = "they are copies of the same rows"
    if repeats == 1:
        rows, each, copies = "1 row repeats the time and place of another", "It", "it is a copy of the same row"
    return (
        f"Notice: {rows}. {each} is a person of its own here; if {copies}, people would hide among copies of "
        "themselves: load without them.",
    )


def _counts(connection: Connection, dataset_id: int, newest_before: int) -> tuple[int, int, int]:
    """Count the rows added, those among them that were there before, and those that only repeat another of the load.

    Rows that were added earlier may be fixes of a line; each counts as one.
    """
    statement = sql.SQL(
        """
        SELECT sum(added), coalesce(sum(added) FILTER (WHERE added < every), 0),
            coalesce(sum(added - 1) FILTER (WHERE added = every), 0)
        FROM (SELECT count(*) AS every, count(*) FILTER (WHERE is_new) AS added
              FROM (SELECT trajectory_id > {newest} AS is_new, ST_M(path) AS t, Box3D(coalesce(shape, path)) AS b
                    FROM dbanon.trajectory WHERE dataset_id = {dataset} AND ST_NPoints(path) = 1
                    UNION ALL
                    SELECT false, ST_M(p.geom), Box3D(p.geom)
                    FROM dbanon.trajectory r CROSS JOIN LATERAL ST_DumpPoints(r.path) p
                    WHERE dataset_id = {dataset} AND ST_NPoints(r.path) > 1 OFFSET 0) placed
              GROUP BY t, {bounds}) places
        WHERE added > 0"""
    )
    bounds = sql.SQL(
        "round(ST_XMin(b) * 1000), round(ST_YMin(b) * 1000), round(ST_XMax(b) * 1000), round(ST_YMax(b) * 1000)"
    )
    row = connection.execute(statement.format(newest=newest_before, dataset=dataset_id, bounds=bounds)).fetchone()
    added, again, twins = row or (0, 0, 0)
    return int(added), int(again), int(twins)
