"""What a query finds and what the server says beside, for tests."""

from typing import Any

import psycopg

COUNT_INSIDE = "SELECT at_least, expected, at_most FROM published.count_inside"


def read_row(connection: psycopg.Connection[Any], query: str, *params: object) -> tuple[Any, ...]:
    """Read the first row: there is one."""
    (row,) = connection.execute(query, params or None).fetchmany(1)  # type: ignore[arg-type]
    return row


def read_value(connection: psycopg.Connection[Any], query: str, *params: object) -> Any:
    """Read the first value of the first row."""
    return read_row(connection, query, *params)[0]


def read_column(connection: psycopg.Connection[Any], query: str, *params: object) -> list[Any]:
    """Read the one value of each row."""
    return [found for (found,) in connection.execute(query, params or None).fetchall()]  # type: ignore[arg-type]


def collect_notices(connection: psycopg.Connection[Any]) -> list[str]:
    """Give a list to which is added what the server tells the session from now on."""
    heard: list[str] = []
    connection.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
    return heard
