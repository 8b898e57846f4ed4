"""Verified runs of one day each, made by hand from the run of the ten people, for releases that grow."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from tests.reading import read_value

FIRST = datetime(2008, 6, 4, tzinfo=UTC)
RUN = """
INSERT INTO dbanon.run (dataset_id, dataset_revision, method, algorithm, params, seed, status, metrics, suppressed)
SELECT d.dataset_id, d.revision, r.method, r.algorithm, r.params || %(params)s, 424242, 'verified', r.metrics,
    %(suppressed)s
FROM dbanon.run r JOIN dbanon.dataset d USING (dataset_id) WHERE r.run_id = 1 RETURNING run_id
"""
ROWS = """
INSERT INTO dbanon.cloak (run_id, record_id, seq, period, region, crowd, subjects, extra)
SELECT %(run)s, record_id, seq, tstzrange(lower(period) + %(later)s, upper(period) + %(later)s), region, crowd,
    subjects, extra
FROM dbanon.cloak WHERE run_id = 1;
"""
MEMBERS = """
INSERT INTO dbanon.membership (run_id, record_id, trajectory_id)
SELECT %(run)s, record_id, trajectory_id FROM dbanon.membership WHERE run_id = 1
"""
VERDICT = """
INSERT INTO dbanon.verification (run_id, attack, passed, figures, digest)
SELECT %(run)s, 'tp-aware', true, %(figures)s, dbanon_internal.compute_run_digest(%(run)s)
"""


def find_day(number: int) -> datetime:
    return FIRST + timedelta(days=number)


def run_of(
    connection: psycopg.Connection[Any],
    number: int,
    *,
    later: timedelta | None = None,
    left_out: int = 0,
    **params: Any,
) -> int:
    """Write a verified run of a day, whose rows are those of run 1 at 8:00 of that day; returns its number.

    `later`: put its rows elsewhere. A parameter that is None is left out.
    """
    asked = {"since": find_day(number).timestamp(), "until": find_day(number + 1).timestamp(), **params}
    kept = {name: value for name, value in asked.items() if value is not None}
    suppressed = {"subjects": {"absent_at_some_instant": left_out}}
    row = connection.execute(RUN, {"params": Jsonb(kept), "suppressed": Jsonb(suppressed)}).fetchone()
    assert row is not None
    about = {
        "run": row[0],
        "later": timedelta(days=number) if later is None else later,
        "figures": Jsonb({"seen": 10 + left_out}),
    }
    for statement in (ROWS, MEMBERS, VERDICT):
        connection.execute(statement, about)  # type: ignore[arg-type]
    return int(row[0])


def publish_part(connection: psycopg.Connection[Any], run: int, name: str = "ten", rest: str = "") -> int:
    """Publish a run as a part; returns its rows."""
    return int(read_value(connection, f"SELECT dbanon.publish(%s, %s, grow => true{rest})", run, name))
