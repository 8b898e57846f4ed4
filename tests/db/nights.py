"""A source with a row an hour of each cab, a job for it, and runs that are computed by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from tests.reading import read_value

FIRST = datetime(2008, 6, 1, tzinfo=UTC)
ADD = """
SELECT dbanon.add_job(%(name)s, %(source)s, load => '{"subject": "cab", "time_column": "ts", "x": "lon", "y": "lat"}',
    method => 'tp-aware', params => '{"k": 3, "step_s": 3600}', allow_no_requests => trueREST)
"""
ROWS = """
INSERT INTO public.gps SELECT 'c' || i, t, 8.2 + 0.001 * i, 53.1
FROM generate_series(1, %s) i, generate_series(%s::timestamptz, %s::timestamptz - interval '1 second', '1 hour') t
"""
COMPUTED = """
WITH run AS (
    SELECT run.*, to_timestamp((run.params ->> 'since')::float8) AS since FROM dbanon.run run WHERE run.run_id = %(run)s
), paths AS (
    SELECT tra.subject, min(tra.trajectory_id) AS trajectory_id
    FROM dbanon.trajectory tra JOIN run USING (dataset_id) GROUP BY 1
), member AS (
    INSERT INTO dbanon.membership (run_id, record_id, trajectory_id) SELECT %(run)s, 1, trajectory_id FROM paths
)
INSERT INTO dbanon.cloak (run_id, record_id, seq, period, region, crowd, subjects)
SELECT run.run_id, 1, 1, tstzrange(since, since + interval '1 hour'),
    ST_SetSRID(ST_Reverse(ST_MakeEnvelope(0, 0, 10, 10)), dat.srid), people.n, people.n
FROM run JOIN dbanon.dataset dat USING (dataset_id) CROSS JOIN (SELECT count(*) AS n FROM paths) people
"""
ENDED = """
UPDATE dbanon.run r
SET status = %(status)s, error = %(error)s, error_kind = %(kind)s, todo = NULL, dataset_revision = d.revision
FROM dbanon.dataset d WHERE d.dataset_id = r.dataset_id AND r.run_id = %(run)s
"""
VERDICT = """
INSERT INTO dbanon.verification (run_id, attack, passed, figures, digest)
VALUES (%(run)s, 'tp-aware', true, '{"seen": 6}', dbanon_internal.compute_run_digest(%(run)s))
"""


def find_day(number: float) -> datetime:
    return FIRST + timedelta(days=number)


def make_source(connection: psycopg.Connection[Any], days: float = 3, cabs: int = 6) -> None:
    """Make public.gps, with rows from a day before the first period on."""
    connection.execute("CREATE TABLE public.gps (cab text, ts timestamptz, lon float8, lat float8)")
    connection.execute("GRANT SELECT ON public.gps TO PUBLIC")
    insert_rows(connection, -1, days, cabs)


def insert_rows(connection: psycopg.Connection[Any], since: float, until: float, cabs: int = 6) -> None:
    connection.execute(ROWS, [cabs, find_day(since), find_day(until)])


def add(connection: psycopg.Connection[Any], rest: str = "", name: str = "taxi", source: str = "public.gps") -> None:
    first = "" if "starts =>" in rest else f", starts => '{FIRST}'"
    connection.execute(ADD.replace("REST", first + rest), {"name": name, "source": source})  # type: ignore[arg-type]


def take_step(connection: psycopg.Connection[Any], name: str = "taxi") -> str:
    """Take one step of a job; returns the state of its period after it, or that there was nothing to do."""
    query = "SELECT dbanon_internal.advance_job(job_id) FROM dbanon.job WHERE name = %s AND removed_at IS NULL"
    return str(read_value(connection, query, name)["state"])


def compute(
    connection: psycopg.Connection[Any], status: str = "verified", error: str | None = None, kind: str | None = None
) -> int:
    """End the run that waits as a worker would; returns its number."""
    run = int(read_value(connection, "SELECT max(run_id) FROM dbanon.run WHERE todo IS NOT NULL"))
    about = {"run": run, "status": status, "error": error, "kind": kind}
    if status == "verified":
        connection.execute(COMPUTED, about)
    connection.execute(ENDED, about)
    if status == "verified":
        connection.execute(VERDICT, about)
    return run


def compute_period(connection: psycopg.Connection[Any], *ended: str) -> int:
    """Let a period be loaded and its run be queued, and end that as a worker would; returns its number."""
    assert [take_step(connection), take_step(connection)] == ["run", "compute"]
    return compute(connection, *ended)


def run_night(connection: psycopg.Connection[Any], name: str = "taxi") -> str:
    """Let a period go its whole way; returns the state in which it ends."""
    said = ""
    while (came := take_step(connection, name)) not in ("idle", "done", "skipped", "held"):
        if came == "waiting":
            compute(connection)
        assert said != came or came == "waiting", f"nothing but {came}"
        said = came
    return came


def let_try_again(connection: psycopg.Connection[Any]) -> None:
    """Let the time come at which a step is tried again."""
    connection.execute("UPDATE dbanon.job_period SET next_at = clock_timestamp()")


def list_periods(connection: psycopg.Connection[Any], columns: str = "since, state", name: str = "taxi") -> list[Any]:
    query = f"SELECT {columns} FROM dbanon.job_runs WHERE name = %s ORDER BY since"
    found = connection.execute(query, [name]).fetchall()  # type: ignore[arg-type]
    return [row[0] if len(row) == 1 else row for row in found]
