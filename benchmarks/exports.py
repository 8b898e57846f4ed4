"""What it costs to export a release: seconds, and the memory of the command and of the server, by format.

Run with ``./dev bench benchmarks/exports.py``; other sizes as ``.venv/bin/python benchmarks/exports.py 1000000``.
The release is a table like that of a release of ``tp-aware``, with rectangles and requests. Plain: geopandas reads the
whole view by SQLAlchemy and writes it with `GeoDataFrame.to_file`, which is what the analysts' page would have one do.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _measure import run_dbanon

from dbanon.base import memory
from dbanon.database import open_database

ROW_COUNTS = (200_000, 1_000_000)
RELEASE = """
    CREATE TABLE dbanon.release_0 AS SELECT i AS cloak_id, i / 30 AS record_id, (i %% 30)::integer AS seq,
        public.ST_MakeEnvelope(x, y, x + 50, y + 70, 32632)::public.geometry(Polygon, 32632) AS region,
        5 AS crowd, 5 AS subjects, t AS valid_from, t + interval '1 min' AS valid_to,
        CASE i %% 5 WHEN 0 THEN '[{"poi": "pharmacy"}]'::jsonb ELSE '[]' END AS requests
    FROM generate_series(1::bigint, %s) i, LATERAL (SELECT
        timestamptz '2026-01-05 08:00:00Z' + i %% 30 * interval '1 min' AS t,
        440000 + i * 7919 %% 20000 AS x, 5880000 + i * 104729 %% 20000 AS y) p
"""
SHOWN = (
    "CREATE UNIQUE INDEX ON dbanon.release_0 (cloak_id)",
    "ANALYZE dbanon.release_0",
    "CREATE VIEW published.large AS SELECT * FROM dbanon.release_0",
    "COMMENT ON VIEW published.large IS 'Rows: many.'",
)


def export_plainly(url: str, file: str) -> None:
    import geopandas
    import sqlalchemy

    began = time.perf_counter()
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    query = "SELECT cloak_id, record_id, seq, region, crowd, subjects, valid_from, valid_to FROM published.large"
    geopandas.read_postgis(sqlalchemy.text(query), engine, geom_col="region").to_file(file)
    print(time.perf_counter() - began, memory.measure_peak_mb())


def main(sizes: list[int]) -> None:
    print(f"{'rows':>9}  {'format':<9} {'seconds':>8} {'command MB':>11} {'server MB':>10} {'file MB':>8}")
    with tempfile.TemporaryDirectory() as folder, open_database() as database:
        for rows in sizes:
            database.connection.execute("DROP TABLE IF EXISTS dbanon.release_0 CASCADE")
            database.connection.execute(RELEASE, [rows])
            for statement in SHOWN:
                database.connection.execute(statement)
            for suffix in ("parquet", "gpkg", "fgb", "csv"):
                file = Path(folder) / f"large.{suffix}"
                cost = run_dbanon("export", "large", str(file))
                memory = f"{cost.client_mb:>11.0f} {cost.server_mb:>10.0f}"
                print(f"{rows:>9}  {suffix:<9} {cost.seconds:>8.1f} {memory} {file.stat().st_size / 1e6:>8.0f}")
        command = [sys.executable, __file__, "plain", database.target.url, str(Path(folder) / "plain.gpkg")]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
        seconds, peak_mb = map(float, done.stdout.split())
        print(f"{sizes[-1]:>9}  {'gpkg, plain':<9} {seconds:>6.1f} {peak_mb:>11.0f}")
        database.connection.execute("DROP TABLE dbanon.release_0 CASCADE")


if __name__ == "__main__":
    if sys.argv[1:2] == ["plain"]:
        export_plainly(*sys.argv[2:])
    else:
        main([int(text) for text in sys.argv[1:]] or list(ROW_COUNTS))
