"""The page on what is done every night, done as it says: from the table to the analyst's query in the morning."""

import json
import re
import secrets
from collections.abc import Iterator
from contextlib import chdir, suppress
from pathlib import Path

import psycopg
import pytest

from dbanon.testing import database_url
from tests import pages
from tests.acceptance import workers
from tests.acceptance.commands import call

pytestmark = pytest.mark.db
PAGE = "docs/administrators/every-night.md"
TABLE = "CREATE TABLE public.gps (cab text, ts timestamptz, lon float8, lat float8)"  # that of the set-up
ROWS = """
INSERT INTO public.gps
SELECT 'c' || i, t, 8.2 + 0.0005 * i + 0.001 * sin(extract(epoch FROM t) / 3000 + i), 53.1 + 0.0005 * i
FROM (SELECT date_trunc('day', now() AT TIME ZONE 'Europe/Berlin') AT TIME ZONE 'Europe/Berlin' AS midnight) m
CROSS JOIN generate_series(1, 8) i
CROSS JOIN LATERAL generate_series(midnight - interval '50 hours', now(), '4 minutes') t
"""
BY_HAND = "sql"  # which tests/acceptance/test_administrator.py types
SECTIONS = {text: kind for kind, text in pages.split((pages.ROOT / PAGE).read_text()) if kind != BY_HAND}
KINDS = {*(f"sql {of}" for of in ("dba", "nina", "anna", "cron", "change")), "console nina", "console git", "toml"}


@pytest.fixture
def names(database: str) -> Iterator[dict[str, str]]:
    """Roles belong to the whole server: names of this test's own."""
    made = {name: f"dbanon_{name}_{secrets.token_hex(3)}" for name in ("nina", "anna")}
    yield made
    with psycopg.connect(database, autocommit=True) as connection:
        for role in made.values():
            with suppress(psycopg.errors.UndefinedObject):
                connection.execute(f"DROP OWNED BY {role} CASCADE")
                connection.execute(f"DROP ROLE {role}")


def read_statements(kind: str, names: dict[str, str]) -> list[str]:
    text = "\n".join(block for block, of in SECTIONS.items() if of == f"sql {kind}")
    for name, own in names.items():
        text = re.sub(rf"\b{name}\b", own, text)
    return [statement for statement in re.split(r";\n", text) if statement.strip()]


def list_commands(of: str) -> list[tuple[list[str], list[str]]]:
    """Give the words of each command that nina types, and the lines shown below it."""
    typed = [pair for text, kind in SECTIONS.items() if kind == f"console {of}" for pair in pages.split_typed(text)]
    return [(command.split(), shown) for command, shown in typed]


def test_every_block_of_the_page_is_of_a_kind_that_is_typed() -> None:
    assert {*SECTIONS.values()} == KINDS


def test_the_page_has_fewer_than_850_words() -> None:
    assert len((pages.ROOT / PAGE).read_text().split()) < 850


def test_a_table_is_published_every_night_as_the_page_says(
    database: str, names: dict[str, str], tmp_path: Path
) -> None:
    with psycopg.connect(database, autocommit=True) as dba:
        dba.execute(TABLE)
        for statement in read_statements("dba", names):
            dba.execute(statement)  # type: ignore[arg-type]
        dba.execute(ROWS)
        dba.execute(f"CREATE ROLE {names['anna']} LOGIN IN ROLE dbanon_analyst PASSWORD 'change me'")  # type: ignore[arg-type]
        nina = database_url(database, user=names["nina"], password="change me")
        (worker_typed, _), (check, shown) = list_commands("nina")
        with psycopg.connect(nina, autocommit=True) as owner:
            *_, plan = [owner.execute(statement) for statement in read_statements("nina", names)]  # type: ignore[arg-type]
            assert plan.rowcount == 3
        with workers.keep_up(nina, tmp_path / "log", *worker_typed[2:], "--log", "json") as worker:

            def is_done() -> bool:
                return dba.execute("SELECT FROM dbanon.jobs WHERE state = 'idle' AND next_at > now()").rowcount == 1

            workers.wait_until(is_done, 240)
            checked = call(nina, *check[1:])
            assert (checked.code, checked.stdout.splitlines()) == (0, shown)
        said = [json.loads(line) for line in worker.said().splitlines()]
        assert all(line.keys() <= workers.FIELDS for line in said)
        assert [line["state"] for line in said if line["event"] == "job"][-1] == "done"
        # What pg_cron and the timer call finds nothing left to do, and no error.
        [statement] = re.findall(r"'(CALL [^']*)'", read_statements("cron", names)[0])
        with psycopg.connect(nina, autocommit=True) as owner:
            assert owner.execute(statement).fetchone() == (0, 0)
            owner.execute(read_statements("change", names)[0])  # type: ignore[arg-type]
            assert owner.execute("SELECT extract(hour FROM wait)::int FROM dbanon.jobs").fetchone() == (2,)
        (tmp_path / "jobs.toml").write_text(next(text for text, kind in SECTIONS.items() if kind == "toml"))
        [(words, shown)] = list_commands("git")
        with chdir(tmp_path):
            assert call(nina, *words[1:]).stdout.splitlines() == shown
            assert call(nina, *words[1:-1]).stdout.splitlines() == shown[:-1]
    anna = database_url(database, user=names["anna"], password="change me")
    with psycopg.connect(anna) as analyst:
        parts, mornings = [analyst.execute(statement).fetchall() for statement in read_statements("anna", names)]  # type: ignore[arg-type]
    assert len(parts) in (1, 2)  # in the first hour after midnight the day before is not due yet
    assert len(mornings) == len(parts)
    assert all(least <= low <= expected <= high <= most <= 8 for _, least, expected, most, low, high, *_ in mornings)
