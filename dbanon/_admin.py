"""What administrators look up and take back: releases and their cards, runs dropped, subjects forgotten.

Everything is done by SQL functions; here they are called, and their errors and notices handed on.
"""

from typing import Any, cast

from psycopg.rows import dict_row

from dbanon import store


def release_card(connection: store.Connection, name: str) -> dict[str, Any]:
    """Look a release up, live or withdrawn: what it promises, what was attacked and left out, who and when.

    Raises
    ------
    ParameterError
        If there never was one of that name.
    """
    with store.errors_translated():
        row = connection.execute("SELECT dbanon.release_card(%s)", [name]).fetchone()
    return cast("tuple[dict[str, Any]]", row)[0]


def list_releases(connection: store.Connection) -> list[dict[str, Any]]:
    """List all releases, withdrawn ones too, newest last."""
    with store.errors_translated(), connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute("SELECT * FROM dbanon.releases ORDER BY published_at, name").fetchall()


def drop_run(connection: store.Connection, run_id: int) -> int:
    """Delete a run that was never published and that nobody works on; returns how many cloaks went.

    Raises
    ------
    ParameterError
        If there is no such run.
    StoreError
        If it was published, or is being worked on.
    """
    with store.errors_translated():
        row = connection.execute("SELECT dbanon.drop_run(%s)", [run_id]).fetchone()
    return cast("tuple[int]", row)[0]


def forget_subject(connection: store.Connection, dataset: str, subject: str) -> tuple[dict[str, int], tuple[str, ...]]:
    """Erase a subject from a dataset; returns what was erased, and what the server has to say about releases.

    Raises
    ------
    ParameterError
        If there is no such dataset, or nothing of that subject in it.
    StoreError
        If a run of the dataset is being worked on.
    """
    query = "SELECT what, rows FROM dbanon.forget_subject(%s, %s)"
    with store.errors_translated(), store.heard(connection) as notices:
        erased = dict(connection.execute(query, [dataset, subject]).fetchall())
    return erased, tuple(notices)
