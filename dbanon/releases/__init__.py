"""Releases: checked, published, withdrawn and looked up; and subjects forgotten.

SQL functions do all of it; here they are called, and their errors and notices handed on.
Pages live in `dbanon.reports`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from psycopg import sql
from psycopg.rows import dict_row

from dbanon.base.errors import ParameterError
from dbanon.options.publishing import Publishing
from dbanon.pages import notebook
from dbanon.postgres.connection import Connection, collect_notices, fetch_value, find_postgis_schema, translate_errors
from dbanon.releases import published
from dbanon.results.described import read_clause


def demand_publishable(connection: Connection, name: str, options: Publishing) -> None:
    """Raise `ParameterError` if a run could not be made a release as it is asked; spares the run."""
    params = [name, options.replace, options.end_readers, _list_readers(options.readers), options.grow]
    fetch_value(connection, "SELECT dbanon_internal.demand_release_options(%s, %s, %s, %s, %s)", params)
    fetch_value(
        connection, "SELECT dbanon_internal.demand_override_reason(%s, %s)", [options.allow_overlap, options.reason]
    )


def publish(connection: Connection, run_id: int, name: str, options: Publishing) -> tuple[int, tuple[str, ...]]:
    """Publish a verified run; returns the number of rows and what the server has to say about them.

    A refusal is recorded in ``dbanon.runs`` and ``dbanon.audit``. The function that records it returns the error, and
    a second statement raises it: an error would undo the record.

    Raises `VerificationFailed` if the run is not verified, its rows changed since, or its overlap with earlier releases
    leaves too few people; `ParameterError` if there is no such run, or the name, the reason or a reader cannot be used.
    """
    with collect_notices(connection) as notices:
        overridden = [options.replace, options.allow_overlap, options.reason, options.end_readers]
        params = [run_id, name, *overridden, _list_readers(options.readers), options.grow]
        query = "SELECT * FROM dbanon_internal.try_publish(%s, %s, %s, %s, %s, %s, %s, %s)"
        rows, *refusal = cast("tuple[Any, ...]", connection.execute(query, params).fetchone())
        if refusal[0] is not None:
            connection.execute("SELECT dbanon_internal.raise_refusal(%s, %s, %s, %s)", refusal)
    return rows, tuple(notices)


def _list_readers(readers: Sequence[str] | None) -> list[str] | None:
    return None if readers is None else list(readers)


def unpublish(
    connection: Connection, name: str, *, end_readers: bool = False, at: str | datetime | None = None
) -> tuple[str, ...]:
    """Withdraw a release, or its part that holds the time `at`; returns the server's notices.

    Raises `ParameterError` if there is no such release or part, or if `end_readers` is given for a part.
    """
    if at is not None and end_readers:
        raise ParameterError(
            "Readers go on while a part is withdrawn, so end_readers must not be given. Got it. Leave it out."
        )
    with collect_notices(connection) as notices:
        if at is None:
            connection.execute("SELECT dbanon.unpublish(%s, %s)", [name, end_readers])
        else:
            connection.execute("SELECT dbanon.unpublish_part(%s, %s::timestamptz)", [name, at])
    return tuple(notices)


def read_first_rows(connection: Connection, name: str, limit: int) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Read the first rows of a release as an analyst would; geometries as WKT.

    Where the login may become the analysts' role it does for this query: from version 16 on, not every member may. Not
    where that role may not read the release.
    """
    with connection.transaction():
        published.become_analyst(connection, name)
        view = sql.Identifier("published", name)
        with connection.cursor() as cursor:
            cursor.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(view))
            names = [column.name for column in cursor.description or ()]
            as_text = sql.SQL("{}.ST_AsText(region, 1)").format(sql.Identifier(find_postgis_schema(connection)))
            chosen = [as_text if name == "region" else sql.Identifier(name) for name in names]
            query = sql.SQL("SELECT {} FROM {} ORDER BY cloak_id LIMIT {}")
            rows = cursor.execute(query.format(sql.SQL(", ").join(chosen), view, limit)).fetchall()
    return names, rows


class Card(dict[str, Any]):
    """What a release says of itself to administrators; a notebook shows its promise and how it was checked."""

    def _repr_html_(self) -> str:
        title = f"Release published.{self['release']}{'' if self['live'] else ', withdrawn'}"
        clauses = [read_clause(one) for one in self["attack"]["clauses"] or ()]
        return notebook.make_view(title, clauses, {name: self[name] for name in ("promise", "k", "rows")})


def read_card(connection: Connection, name: str) -> Card:
    """Look a release up, live or withdrawn: what it promises, what was attacked and left out, who and when.

    Raises `ParameterError` if there never was one of that name.
    """
    with translate_errors():
        row = connection.execute("SELECT dbanon.release_card(%s)", [name]).fetchone()
    return Card(cast("tuple[dict[str, Any]]", row)[0])


def list_releases(connection: Connection) -> list[dict[str, Any]]:
    """List all releases, withdrawn ones too, newest last."""
    with translate_errors(), connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute("SELECT * FROM dbanon.releases ORDER BY published_at, name").fetchall()


def forget_subject(
    connection: Connection, dataset: str, subject: str, *, again: bool = False
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Erase a subject from a dataset; returns what was erased, and what the server has to say about releases.

    Raises `ParameterError` if there is no such dataset, or nothing of that subject in it; `StoreError` if a run of the
    dataset is being worked on.
    """
    query = "SELECT what, rows FROM dbanon.forget_subject(%s, %s, %s)"
    with translate_errors(), collect_notices(connection) as notices:
        erased = dict(connection.execute(query, [dataset, subject, again]).fetchall())
    return erased, tuple(notices)


def remember_subject(connection: Connection, population: str, subject: str) -> bool:
    """Let loads bring a forgotten subject again; returns whether it was forgotten.

    Raises `ParameterError` if there is no such population.
    """
    with translate_errors():
        return bool(fetch_value(connection, "SELECT dbanon.remember_subject(%s, %s)", [population, subject]))
