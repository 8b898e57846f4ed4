"""Writes the table of methods as an upgrade does."""

from typing import Any

import psycopg

from dbanon.methods import METHODS
from dbanon.postgres.connection import make_jsonb


def change_methods(connection: psycopg.Connection, statement: str, given: Any = None) -> None:
    """Run a statement on dbanon.method with its guard off, and store the digest of what it leaves."""
    with connection.transaction():
        connection.execute("ALTER TABLE dbanon.method DISABLE TRIGGER guard_rows")
        connection.execute(statement.encode(), given)
        connection.execute("ALTER TABLE dbanon.method ENABLE ALWAYS TRIGGER guard_rows")
        connection.execute("UPDATE dbanon.installation SET methods_digest = dbanon_internal.compute_methods_digest()")
        connection.execute("SELECT dbanon_internal.write_mark(NULL)")


def drop_requests(connection: psycopg.Connection) -> None:
    """Let tp-aware run without requests, which most tests of it do not need."""
    change_methods(connection, "UPDATE dbanon.method SET traits = traits - 'requires' WHERE name = 'tp-aware'")


def require_requests(connection: psycopg.Connection) -> None:
    """Let tp-aware require what it does outside tests."""
    traits = METHODS["tp-aware"].traits
    change_methods(
        connection, "UPDATE dbanon.method SET traits = %s || traits WHERE name = 'tp-aware'",
        [make_jsonb({"requires": traits["requires"]})],
    )  # fmt: skip
