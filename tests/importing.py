"""Small tables to import in SQL, and what came of it."""

import re
from pathlib import Path

import psycopg
import pytest

from dbanon.postgres import sqlstate

_SOURCES = sorted((Path(__file__).parents[1] / "sql" / "20_load").glob("*.sql"))
_WORDS = {word for path in _SOURCES for word in re.findall(r"'([a-z]+(?:-[a-z]+)+)'", path.read_text())}
REASONS = _WORDS - {"quasi-identifiers"} | {"known", "late", "forgotten"}
"""Why a row may be left out: every reason that the SQL of loads gives."""

POIS = "SELECT * FROM dbanon.import_pois('public.shops', dataset => 'town', category => 'kind'"
CELLS = "SELECT * FROM dbanon.import_cells('public.areas', dataset => 'town'"
CALLS = "SELECT * FROM dbanon.import_requests('public.calls', dataset => 'town', columns => ARRAY['poi', 'radius']"
SIGHTINGS = "SELECT * FROM dbanon.import_quasi_identifiers('public.seen', dataset => 'town'"
SQUARE = "POLYGON((8.2 53.1,8.21 53.1,8.21 53.11,8.2 53.11,8.2 53.1))"


def settle(connection: psycopg.Connection) -> psycopg.Connection:
    connection.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('town', 32632, 1, 1)")
    connection.execute(
        "INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path) SELECT 1000 + i, "
        "dataset_id, 's', ST_SetSRID("
        "ST_MakePointM(441000 + i * 37 % 10000, 5879000 + i * 91 % 10000, 0), 32632) "
        "FROM dbanon.dataset, generate_series(1, 400) i WHERE name = 'town'"
    )
    return connection


def record_release(connection: psycopg.Connection, dataset: str) -> None:
    """Record a release of a dataset, without rows: the fact that there was one."""
    connection.execute(
        "WITH run AS (INSERT INTO dbanon.run (dataset_id, method, algorithm) "
        "SELECT dataset_id, 'tp-aware', 'traj-anon' FROM dbanon.dataset WHERE name = %s RETURNING run_id) "
        "INSERT INTO dbanon.release (name, run_id, digest, rows) SELECT 'r' || run_id, run_id, '', 0 FROM run",
        [dataset],
    )


def make_table(connection, name, columns, rows):
    connection.execute(f"CREATE TABLE public.{name} ({columns})")
    marks = ", ".join(["%s"] * (columns.count(",") + 1))
    with connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO public.{name} VALUES ({marks})", rows)


def make_shops(connection, *rows):
    make_table(connection, "shops", "kind text, geom geometry", [(kind, g and f"SRID=4326;{g}") for kind, g in rows])


def make_areas(connection, *rows):
    make_table(connection, "areas", "station text, geom geometry", [(name, g and f"SRID=4326;{g}") for name, g in rows])


def make_calls(connection, *rows):
    make_table(connection, "calls", "subject text, time float8, poi text, radius text", rows)


def make_seen(connection, *rows, kind="float8"):
    make_table(connection, "seen", f"subject text, time {kind}", rows)


def call(connection, statement, more=""):
    """Import, and return rows read, rows kept, and what was left out."""
    found = connection.execute(f"{statement}{more})").fetchall()
    assert len(found) == 1
    return found[0][1:4]


def catch_refusal(connection, statement, more=""):
    """Import, and return what the command line would make of the error; nothing is stored."""
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        connection.execute(f"{statement}{more})")
    assert caught.value.diag.message_detail
    assert caught.value.diag.message_hint
    return sqlstate.translate(caught.value)


def fetch_everything(connection, query):
    return connection.execute(query).fetchall()


def list_left_out(connection):
    query = "SELECT line, reason FROM dbanon.quarantine JOIN dbanon.load USING (load_id) ORDER BY load_id, line"
    return fetch_everything(connection, query)


def list_quarantined(connection):
    return [reason for _, reason in list_left_out(connection)]
