"""Datasets listed, and what is taken out of them again: what is too old, a load, all of one.

SQL functions do all of it; here they are called, and their errors and notices handed on.
"""

from datetime import datetime
from typing import Any, cast

from psycopg.rows import dict_row

from dbanon.base.errors import ParameterError
from dbanon.postgres.connection import Connection, collect_notices, fetch_value, translate_errors

Erased = tuple[dict[str, int], tuple[str, ...]]
"""How many rows went, by what they were, and what the server has to say."""


def list_datasets(connection: Connection, name: str | None = None) -> list[dict[str, Any]]:
    """List the datasets, or the one of a name, each with how much is in it."""
    query = "SELECT * FROM dbanon.datasets WHERE %(name)s::text IS NULL OR name = %(name)s ORDER BY name"
    with translate_errors(), connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, {"name": name}).fetchall()


def drop_dataset(connection: Connection, name: str) -> Erased:
    """Delete a dataset.

    Raises `ParameterError` if there is none of that name; `StoreError` if a release of it is live, or a run of it is
    being worked on.
    """
    return _erase(connection, "SELECT what, rows FROM dbanon.drop_dataset(%s)", name)


def drop_load(connection: Connection, load_id: int) -> Erased:
    """Take a load back, and the unpublished runs that may have read it; what it replaced does not come back.

    Raises `ParameterError` if there is no such load, or it was taken back already; `StoreError` if a release of a run
    from after it is live, or a run of the dataset is being worked on.
    """
    return _erase(connection, "SELECT what, rows FROM dbanon.drop_load(%s)", load_id)


def forget_before(connection: Connection, dataset: str, before: datetime | str) -> Erased:
    """Delete what a dataset has from before a time, and the unpublished runs with any of it.

    Parameters
    ----------
    before : datetime or str
        In the past; as text ISO 8601 with a zone, or unix seconds.

    Raises `ParameterError` if there is no such dataset, or the time is none, or not in the past; `StoreError` if a run
    of the dataset is being worked on.
    """
    time = _parse_instant(connection, before) if isinstance(before, str) else before
    return _erase(connection, "SELECT what, rows FROM dbanon.forget_before(%s, %s)", dataset, time)


def _parse_instant(connection: Connection, text: str) -> datetime:
    with translate_errors():
        query = "SELECT to_timestamp(dbanon_internal.parse_instant(to_jsonb(%s::text)))"
        time = cast("datetime | None", fetch_value(connection, query, [text]))
    if time is None:
        raise ParameterError(
            f"The time before which data are forgotten must be ISO 8601 with a zone, or unix seconds. Got "
            f"'{text[:60]}'. Write it like 2026-01-05T00:00:00Z."
        )
    return time


def _erase(connection: Connection, query: str, *given: Any) -> Erased:
    with translate_errors(), collect_notices(connection) as notices:
        erased = dict(connection.execute(cast("Any", query), given).fetchall())
    return erased, tuple(notices)
