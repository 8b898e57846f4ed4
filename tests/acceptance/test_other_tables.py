# ruff: noqa: E501
"""Tables as companies have them: the blocks of docs/administrators/other-tables.md and of set-up, typed."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from dbanon.postgres.server import Target
from dbanon.testing import cloned_database, database_url
from tests import pages
from tests.acceptance.commands import run_typed

pytestmark = pytest.mark.db

PAGE = "docs/administrators/other-tables.md"
# Partitioned by day, with keys to other tables, and with columns that dbanon has no use for.
PARTITIONED = """
CREATE TABLE public.vehicle (cab text PRIMARY KEY);
INSERT INTO public.vehicle SELECT 'c' || i FROM generate_series(0, 9) i;
CREATE TABLE public.gps (cab text REFERENCES public.vehicle, ts timestamptz, lon float8, lat float8, speed_kmh int,
    PRIMARY KEY (cab, ts)) PARTITION BY RANGE (ts);
CREATE TABLE public.gps_20260105 PARTITION OF public.gps FOR VALUES FROM ('2026-01-05') TO ('2026-01-06');
CREATE TABLE public.gps_20260106 PARTITION OF public.gps FOR VALUES FROM ('2026-01-06') TO ('2026-01-07');
INSERT INTO public.gps SELECT 'c' || i % 10, timestamptz '2026-01-05 20:00' + i * interval '1 min', 8.2 + i * 1e-5, 53.1, 30
FROM generate_series(0, 499) i;
"""
LOAD = """SELECT rows_read, rows_kept FROM dbanon.import_trajectories('public.gps', dataset => 'taxi', subject => 'cab',
    time_column => 'ts', x => 'lon', y => 'lat')"""


@pytest.fixture
def tracking(dbanon_server: Target, dbanon_template: str) -> Iterator[str]:
    """URL of another database, which holds the company's table."""
    with cloned_database(dbanon_server, dbanon_template) as url, psycopg.connect(url, autocommit=True) as owner:
        owner.execute("SET TimeZone = 'UTC'")
        owner.execute(PARTITIONED)
        yield url


def type_in(database: str, tracking: str, folder: Path, command: str) -> None:
    """Type commands of a page for these databases."""
    names = {name: database_url(url) for name, url in (("geo", database), ("tracking", tracking))}
    command = re.sub(r'"host=server dbname=(\w+) user=postgres"', lambda found: f"'{names[found[1]]}'", command)
    command = command.replace("--host server --username postgres ", "").replace(" tracking |", f" '{tracking}' |")
    done = run_typed(database, folder, "set -e -o pipefail\n" + re.sub(r" geo$", f" '{database}'", command.rstrip()))
    assert (done.code, done.stderr) == (0, "")


def load(database: str) -> tuple[int, int]:
    with psycopg.connect(database, autocommit=True) as owner:
        return owner.execute(LOAD).fetchone()  # type: ignore[return-value]


def test_a_partitioned_table_is_copied_by_the_pipe_of_set_up(database: str, tracking: str, tmp_path: Path) -> None:
    [block] = [text for _, text in pages.list_blocks("docs/administrators/set-up.md", "sh") if "pg_dump" in text]
    type_in(database, tracking, tmp_path, block)
    assert load(database) == (500, 500)


def test_some_columns_of_a_partitioned_table_are_copied(database: str, tracking: str, tmp_path: Path) -> None:
    [(_, block)] = pages.list_blocks(PAGE, "sh copy")
    type_in(database, tracking, tmp_path, block)
    assert load(database) == (500, 500)


def test_a_foreign_table_is_loaded_where_it_is(database: str, tracking: str) -> None:
    there = conninfo_to_dict(tracking)
    [(_, block)] = pages.list_blocks(PAGE, "sql foreign")
    block = block.replace("'server'", f"'{there['host']}'").replace("'5432'", f"'{there.get('port', 5432)}'")
    block = block.replace("'tracking'", f"'{there['dbname']}'").replace("'reader'", f"'{there['user']}'")
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(block.replace("olga", owner.info.user))  # type: ignore[arg-type]
    assert load(database) == (500, 500)
    with psycopg.connect(tracking, autocommit=True) as other:
        other.execute(
            "INSERT INTO public.gps SELECT cab, ts + interval '10 min', lon, lat FROM public.gps LIMIT 5 "
            "ON CONFLICT DO NOTHING"
        )
        more = other.execute("SELECT count(*) FROM public.gps").fetchone()
    with psycopg.connect(database, autocommit=True) as owner:
        again = owner.execute(LOAD.replace("'taxi'", "'taxi', mode => 'new'")).fetchone()
    assert more
    assert again
    assert again[1] == more[0] - 500


def test_call_records_are_placed_by_the_view_of_the_page(connection: psycopg.Connection) -> None:
    connection.execute("""
CREATE TABLE public.towers AS SELECT i AS cell_id, 8.2 + i * 0.01 AS lon, 53.1 AS lat FROM generate_series(1, 5) i;
CREATE TABLE public.calls AS SELECT 'p' || i % 7 AS caller, timestamptz '2026-01-05 08:00Z' + i * interval '1 min' AS called_at,
    1 + i % 6 AS cell_id FROM generate_series(0, 59) i;
""")
    [(_, block)] = pages.list_blocks(PAGE, "sql towers")
    view, imported = block.split(";\n", 1)
    connection.execute(view)  # type: ignore[arg-type]
    row = connection.execute(imported).fetchone()  # type: ignore[arg-type]
    assert row
    assert row[1:3] == (60, 50)
    assert sum(row[3].values()) == 10
    assert connection.execute("SELECT count(DISTINCT ST_AsText(position)) FROM dbanon.fix").fetchone() == (5,)


def test_the_words_of_the_page_keep_alembic_off_dbanon() -> None:
    [(_, block)] = pages.list_blocks(PAGE, "python alembic")
    given: dict[str, Any] = {}
    words = {"context": SimpleNamespace(configure=lambda **words: given.update(words))}
    exec(block, {**words, "connection": None, "target_metadata": None})
    ours, theirs = ["dbanon", "dbanon_internal", "dbanon_setup", "published", "published_inner"], [None, "shop"]
    assert [given["include_name"](name, "schema", {}) for name in (*ours, *theirs)] == 5 * [False] + 2 * [True]
    assert not given["include_name"]("spatial_ref_sys", "table", {})
