"""Jobs, as the database has them: added, listed, planned, run and steered by its functions."""

import json
import re
import tomllib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from dbanon.base.errors import DbanonError, ParameterError, StoreError
from dbanon.options import list_fields, make_record
from dbanon.options.loading import name_as_sql
from dbanon.options.scheduling import LOAD_FIELDS, AddingJob
from dbanon.postgres.connection import Connection, collect_notices, fetch_value, make_jsonb, translate_errors

OWN_LINE = re.compile(r'[^."(]*PL/pgSQL([^."(]*[^."(a-z0-9_])?dbanon\.run_jobs\(')
"""How a line of a context begins that names ``dbanon.run_jobs``, in the server's language. The first says who spoke."""


def add_job(connection: Connection, name: str, options: AddingJob) -> tuple[int, tuple[str, ...]]:
    """Add a job, or change one; returns its number and the server's notices."""
    if options.source is not None and fetch_value(connection, "SELECT to_regclass(%s)", [options.source]) is None:
        raise ParameterError(
            f"--source must name a table or view with its schema, such as public.gps. Got '{options.source[:60]}'."
        )
    said = {option.name: getattr(options, option.name) for option in list_fields(AddingJob)}
    given = {"name": name, **{word: _convert_option(word, value) for word, value in said.items() if value is not None}}
    given["load"] = make_jsonb(name_as_sql({word: given.pop(word) for word in LOAD_FIELDS if word in given}))
    arguments = (sql.SQL("{} => {}").format(sql.Identifier(word), sql.Placeholder(word)) for word in given)
    call = sql.SQL("SELECT dbanon.add_job({})").format(sql.SQL(", ").join(arguments))
    try:
        with collect_notices(connection) as notices:
            [made] = connection.execute(call, given).fetchone() or [None]
    except (psycopg.errors.InvalidDatetimeFormat, psycopg.errors.DatetimeFieldOverflow):
        raise ParameterError(
            "An interval of a job must be such as '1 day' or '6 hours'. Got something else. Correct it."
        ) from None
    return cast("int", made), tuple(notices)


def apply_jobs(connection: Connection, file: Path) -> tuple[dict[str, str], list[str], tuple[str, ...]]:
    """Add or change the jobs of a file, all or none; returns what became of each, the other jobs, and notices."""
    done: dict[str, str] = {}
    said: list[str] = []
    with connection.transaction():
        for name, asked in _read_tables(file).items():
            about = f"Job {name} is "
            try:
                with translate_errors():
                    notices = add_job(connection, name, _make_options(asked))[1]
            except DbanonError as error:
                error.args = (f"Job {name}: {error}", *error.args[1:])
                raise
            [*_, done[name]] = [one.removeprefix(about).rstrip(".") for one in notices if one.startswith(about)]
            said += [one for one in notices if not one.startswith(about)]
        others = [row["name"] for row in list_jobs(connection) if row["name"] not in done]
    return done, others, tuple(said)


def _read_tables(file: Path) -> dict[str, dict[str, Any]]:
    try:
        tables = (json if file.suffix == ".json" else tomllib).loads(file.read_text("utf-8-sig"))
        return {name: {**table} for name, table in {**tables}.items()}
    except (OSError, TypeError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ParameterError(
            "A file of jobs must be TOML, or JSON if its name ends in .json, with a table for each job. Got "
            f"{file}: {reason}. Correct it."
        ) from None


def _make_options(asked: dict[str, Any]) -> AddingJob:
    known: dict[str, Any] = {one.name: one.option for one in list_fields(AddingJob)}
    if unknown := sorted(asked.keys() - known):
        raise ParameterError(
            f"Its arguments must be those of `dbanon job add`, with underscores. Got '{unknown[0]}'. Correct it."
        )
    if "starts" in asked:  # in JSON a text, and in TOML perhaps without a zone
        asked["starts"] = known["starts"].parse(str(asked["starts"]))
    return make_record(AddingJob, {**asked, "replace": True})


def _convert_option(word: str, value: Any) -> Any:
    """Make of an option's value what the driver sends as the server's type for it."""
    if isinstance(value, Mapping):
        return make_jsonb(value)
    if word == "further":
        return Jsonb(value)
    return list(value) if isinstance(value, tuple) else value


def list_jobs(connection: Connection, name: str | None = None) -> list[dict[str, Any]]:
    """List the jobs; or the periods of one that have come."""
    query = (
        "SELECT * FROM dbanon.jobs ORDER BY name" if name is None else "SELECT * FROM dbanon.job_runs WHERE name = %s"
    )
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, None if name is None else [name]).fetchall()


def plan_job(connection: Connection, name: str, periods: int) -> list[dict[str, Any]]:
    """Say what a job would do with its next periods."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute("SELECT * FROM dbanon.plan_job(%s, %s)", [name, periods]).fetchall()


def run_jobs(connection: Connection, name: str | None, *, wait: bool, strict: bool) -> tuple[int, int, tuple[str, ...]]:
    """Take the steps that are due; returns their number, how many periods are held, and its notices.

    Words of functions outside dbanon, which notices and a COMMIT may have, are left out.
    """
    with collect_notices(connection, OWN_LINE) as notices:
        try:
            row = connection.execute("CALL dbanon.run_jobs(%s, %s, %s)", [name, wait, strict]).fetchone()
        except psycopg.Error as error:
            line = (error.diag.context or "").rpartition("\n")[2]  # at COMMIT it may be a trigger
            if error.sqlstate is None or (OWN_LINE.match(line) and not line.endswith("COMMIT")):
                raise
            raise StoreError(f"A step was refused (SQLSTATE {error.sqlstate}).", error.sqlstate) from None
    advanced, held = row or (0, 0)
    return advanced, held, tuple(notices)


def steer_job(connection: Connection, name: str, action: str, since: datetime | str | None, reason: str | None) -> int:
    """Pause, resume or remove a job, or retry or skip its periods. Returns how many jobs or periods it changed."""
    try:
        params = [name, action, since, reason]
        return cast("int", fetch_value(connection, "SELECT dbanon.steer_job(%s, %s, %s::timestamptz, %s)", params))
    except (psycopg.errors.InvalidDatetimeFormat, psycopg.errors.DatetimeFieldOverflow):
        raise ParameterError(
            "A period must be named by its beginning, such as 2026-11-20T00:00Z. Got something else. See its list."
        ) from None
