"""Random range queries on the rows of a run, held against loops."""

import json

import numpy as np
import psycopg
import pytest

_QUERIES = """
SELECT start_s, xmin, ymin, xmax, ymax, possibly, definitely FROM dbanon_internal.gather_query_evidence(%s)
ORDER BY start_s, xmin, ymin, xmax, ymax
"""
_DATASET = "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('d', 32610, %s, 60) RETURNING dataset_id"
_PATH = """
INSERT INTO dbanon.trajectory (dataset_id, subject, path)
SELECT %s, 'a', ST_SetSRID(ST_MakeLine(ST_MakePointM(%s, %s, 0), ST_MakePointM(%s, %s, 60)), 32610)
"""
_RUN = """
INSERT INTO dbanon.run (dataset_id, dataset_revision, method, algorithm, params, suppressed, status)
SELECT d.dataset_id, d.revision, m.name, m.algorithms -> 0 ->> 'name', '{}', '{}', 'running'
FROM dbanon.dataset d, dbanon.method m WHERE d.dataset_id = %s AND m.name = 'tp-aware'
RETURNING run_id
"""
_CLOAK = """
INSERT INTO dbanon.cloak (run_id, record_id, seq, period, region, crowd, subjects, extra)
VALUES (%s, %s, %s, tstzrange(to_timestamp(%s), to_timestamp(%s)),
    ST_Reverse(ST_MakeEnvelope(%s, %s, %s, %s, 32610)), 1, 1, %s)
"""


def read_value(connection: psycopg.Connection, query: str, *params: object) -> int:
    return connection.execute(query, params).fetchone()[0]


@pytest.mark.parametrize("grid_m", [0.1, 7.5])
def test_queries_find_what_loops_find(connection: psycopg.Connection, rng: np.random.Generator, grid_m: float) -> None:
    dataset = read_value(connection, _DATASET, grid_m)
    connection.execute(_PATH, [dataset, -50.2 * grid_m, -30.5 * grid_m, 50.5 * grid_m, 70.5 * grid_m])
    run, other = (read_value(connection, _RUN, dataset) for _ in range(2))
    rows = []
    for record in range(1, 40):
        for seq in range(1, 4):
            low = rng.integers([-51, -31], [50, 70])
            high = low + (rng.integers(1, 12, 2) if rng.random() < 0.6 else 1)
            start = 60.0 * int(rng.integers(0, 3)) + 180 * seq
            bounds = [float(side) * grid_m for side in (*low.tolist(), *high.tolist())]
            rows += [(start, low.tolist(), high.tolist())]
            extra = json.dumps({"cloaked": True}) if seq == 1 else None
            connection.execute(_CLOAK, [run, record, seq, start, start + 60, *bounds, extra])
    found = connection.execute(_QUERIES, [run]).fetchall()
    assert len(found) == 10_000
    assert len({query[1:5] for query in found}) == 100
    for start, *bounds, possibly, definitely in found:
        x0, y0, x1, y1 = (round(side / grid_m) for side in bounds)
        assert bounds == pytest.approx([side * grid_m for side in (x0, y0, x1, y1)])
        assert (0 < x1 - x0 <= 12, 0 < y1 - y0 <= 12) == (True, True)
        assert (x0 >= -51, y0 >= -31, x1 <= 62, y1 <= 82) == (True,) * 4
        now = [(low, high) for at, low, high in rows if at == start]
        overlapping = [(a, b) for a, b in now if a[0] < x1 and b[0] > x0 and a[1] < y1 and b[1] > y0]
        within = [(a, b) for a, b in overlapping if a[0] >= x0 and b[0] <= x1 and a[1] >= y0 and b[1] <= y1]
        assert (possibly, definitely) == (len(overlapping), len(within))
    assert sum(query[5] for query in found) > sum(query[6] for query in found) > 0
    assert connection.execute(_QUERIES, [run]).fetchall() == found
    assert connection.execute(_QUERIES, [other]).fetchall() == []
    connection.execute(_PATH, [dataset, 5e4 * grid_m, 5e4 * grid_m, 9e4 * grid_m, 9e4 * grid_m])  # of another evening
    assert connection.execute(_QUERIES, [run]).fetchall() == found
