"""How far a load is, as other sessions see it while its transaction is open."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

import dbanon
from tests import pages
from tests.here import SESSIONS

ROWS = 200_001
# Its last row is read when nobody holds the lock.
GATED = f"""
CREATE TABLE public.fixes AS SELECT i, 's' || i % 99 AS cab, 1.7e9 + i AS ts, 8 + i * 1e-6 AS lon, 53 AS lat
FROM generate_series(1, {ROWS}) i;
CREATE VIEW public.gated AS SELECT cab, ts, lon + CASE WHEN i = {ROWS} THEN length(pg_advisory_xact_lock(7)::text)
ELSE 0 END AS lon, lat FROM public.fixes"""
CALL = """SELECT rows_kept FROM dbanon.import_trajectories('public.{}', dataset => 'd', subject => 'cab',
time_column => 'ts', x => 'lon', y => 'lat')"""


@pytest.fixture
def holder(connection: psycopg.Connection, database: str) -> Iterator[psycopg.Connection]:
    """Another session, which keeps an import of public.gated from its last row and all loads from trajectories."""
    connection.execute(GATED)
    with psycopg.connect(database) as opened:
        opened.execute("SELECT pg_advisory_xact_lock(7)")
        opened.execute("LOCK TABLE dbanon.trajectory IN SHARE MODE")
        yield opened


def read_shown(connection: psycopg.Connection) -> list[str]:
    """What the query of the page shows."""
    (query,) = (
        block for _, block in pages.list_blocks("docs/administrators/load.md", "sql") if "pg_stat_activity" in block
    )
    shown = connection.execute(query.rstrip().rstrip(";") + f" AND {SESSIONS}").fetchall()  # type: ignore[arg-type]
    return [text for row in shown for text in row if isinstance(text, str)]


def wait_for(connection: psycopg.Connection, pattern: str) -> None:
    for _ in range(400):
        if any(re.fullmatch(pattern, text) for text in read_shown(connection)):
            return
        time.sleep(0.05)
    raise AssertionError(f"never: {pattern}; there is {read_shown(connection)}")


def test_another_session_sees_stage_rows_and_seconds(
    connection: psycopg.Connection, database: str, holder: psycopg.Connection
) -> None:
    with psycopg.connect(database, application_name="mine") as session, ThreadPoolExecutor() as pool:
        read = pool.submit(lambda: session.execute(CALL.format("gated")).fetchone())
        wait_for(connection, r"dbanon: reading public\.gated, 200,000 rows, \d+ s")
        holder.execute("SELECT pg_advisory_unlock_all()")
        holder.rollback()
        assert read.result() == (ROWS,)
        assert session.execute("SHOW application_name").fetchone() == ("mine",)
        assert read_shown(connection) == []


def test_a_later_stage_and_files_are_shown_too_and_the_name_is_put_back(
    connection: psycopg.Connection, database: str, holder: psycopg.Connection, tmp_path: Path
) -> None:
    file = tmp_path / "fixes.csv"
    file.write_text("cab,ts,lon,lat\n" + "".join(f"s{i % 9},{1.7e9 + i},8,53\n" for i in range(1499)))
    columns = {"subject": "cab", "time": "ts", "x": "lon", "y": "lat"}
    with dbanon.connect(database) as db, ThreadPoolExecutor() as pool:
        read = pool.submit(lambda: db.load_trajectories(file, dataset="d", **columns))
        wait_for(connection, r"dbanon: making trajectories, 1,500 rows, \d+ s")
        holder.rollback()
        assert read.result().kept == 1499
        assert db.connection.execute("SHOW application_name").fetchone() == ("dbanon",)


def test_a_failed_load_puts_the_name_back(connection: psycopg.Connection) -> None:
    connection.execute("SET application_name = 'mine'")
    connection.execute(GATED)
    with pytest.raises(psycopg.Error):
        connection.execute(CALL.format("gated").replace("'cab'", "'nobody'"))
    assert connection.execute("SHOW application_name").fetchone() == ("mine",)


@pytest.mark.parametrize(
    ("done", "total", "said"),
    [
        (999, None, ""),
        (1000, None, "1,000 rows, "),
        (1_449_999, 2e6, "1,400,000 rows (72 %), "),
        (300_000, 2e5, "300,000 rows, "),
        (300_000, -1, "300,000 rows, "),
    ],
)
def test_rows_have_two_digits_and_percent_where_all_rows_were_estimated(
    connection: psycopg.Connection, done: int, total: float | None, said: str
) -> None:
    with connection.transaction():
        connection.execute("SELECT dbanon_internal.report_rows('reading public.gps', %s, %s)", [done, total])
        assert connection.execute("SHOW application_name").fetchone() == (f"dbanon: reading public.gps, {said}0 s",)
