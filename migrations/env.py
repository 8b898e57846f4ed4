"""Runs the revisions, then every file of ``sql/``, in one transaction, as the role that owns everything.

The caller hands over an open connection in a separate transaction (``config.attributes["connection"]``), which has
become the admin role and has the search_path ``pg_catalog, pg_temp``; the folder of SQL files (``"sql"``); and what is
filled in for the marks in revisions and files (``"marks"``). A broken revision or file rolls everything back.
"""

import re
from pathlib import Path

from alembic import context
from sqlalchemy import Connection


def run() -> None:
    connection: Connection = context.config.attributes["connection"]
    marks: dict[str, str] = context.config.attributes["marks"]
    folder: Path = context.config.attributes["sql"]

    def script(text: str) -> None:
        """Execute SQL text with the raw driver cursor (``text()`` would read ``:=`` as a bind)."""
        with connection.connection.cursor() as cursor:
            cursor.execute(re.sub("|".join(marks), lambda mark: marks[mark[0]], text))

    # Revisions reach it this way: they import nothing.
    context.config.attributes["script"] = script
    context.configure(connection=connection, version_table_schema="dbanon", transaction_per_migration=False)
    with context.begin_transaction():
        context.run_migrations()
    for file in sorted(folder.rglob("*.sql")):
        script(file.read_text(encoding="utf-8"))


run()
