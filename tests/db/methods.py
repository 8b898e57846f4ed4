"""Writes the table of methods as an upgrade does."""

from typing import Any

import psycopg


def change_methods(connection: psycopg.Connection, statement: str, given: Any = None) -> None:
    """Run a statement on dbanon.method with its guard off, and store the digest of what it leaves."""
    with connection.transaction():
        connection.execute("ALTER TABLE dbanon.method DISABLE TRIGGER guard_rows")
        connection.execute(statement.encode(), given)
        connection.execute("ALTER TABLE dbanon.method ENABLE ALWAYS TRIGGER guard_rows")
        connection.execute("UPDATE dbanon.installation SET methods_digest = dbanon_internal.compute_methods_digest()")
        connection.execute("SELECT dbanon_internal.write_mark(NULL)")
