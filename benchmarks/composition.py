"""What publishing twice costs: k = 5, then k = 20, of the same taxis; and how long the measurement takes.

Run with ``./dev bench benchmarks/composition.py``, or with other numbers of subjects as
``.venv/bin/python benchmarks/composition.py 200000``. On an embedded server of its own: what was published once cannot
be deleted again. The second part writes rows in SQL: bundles of 50 over 30 instants, and an earlier release with the
same bundles, with halves of these, or with bundles that have at most one person in common with any of the new ones.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks._pickups import DATA
from dbanon import server
from dbanon.database import Database, open_database
from dbanon.errors import VerificationFailed
from dbanon.load import Columns

CABS = DATA / "cabspotting" / "cabs_20080604.csv.gz"
BUNDLE = 50
WHY = "both are read by one team, which has the raw data"

DATASET = """INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('made', 32610, 1, 60);
INSERT INTO dbanon.trajectory (dataset_id, subject, path)
SELECT d.dataset_id, format('subject %%s', i), p.path
FROM dbanon.dataset d, generate_series(0, %(n)s - 1) i,
    (SELECT ST_SetSRID(ST_MakeLine(ARRAY(SELECT ST_MakePointM(7 * t, t, 60 * t) FROM generate_series(0, 29) t)), 32610)
     AS path) p
WHERE d.name = 'made';
ANALYZE dbanon.trajectory"""
RUN = """INSERT INTO dbanon.run (dataset_id, method, algorithm, params, status)
SELECT d.dataset_id, 'tp-aware', 'traj-anon', jsonb_build_object('k', %(k)s::int), 'verified'
FROM dbanon.dataset d WHERE d.name = 'made' RETURNING run_id"""
ROWS = """INSERT INTO dbanon.region VALUES
    (%(run)s, 1, ST_Reverse(ST_MakeEnvelope(0, 0, 300, 30, 32610)), NULL, %(size)s, %(size)s, NULL);
INSERT INTO dbanon.period
SELECT %(run)s, t + 1, tstzrange(to_timestamp(60 * t), to_timestamp(60 * t + 60)) FROM generate_series(0, 29) t;
INSERT INTO dbanon.record
SELECT %(run)s, r, ARRAY(SELECT generate_series(1, 30)), array_fill(1, ARRAY[30])
FROM generate_series(1, %(n)s / %(size)s) r;
INSERT INTO dbanon.membership
SELECT %(run)s, 1 + CASE WHEN %(apart)s THEN i %% (%(n)s / %(size)s) ELSE i / %(size)s END, x.trajectory_id, NULL
FROM (SELECT t.trajectory_id, row_number() OVER (ORDER BY t.trajectory_id) - 1 AS i
      FROM dbanon.trajectory t JOIN dbanon.dataset d USING (dataset_id) WHERE d.name = 'made') x"""
RELEASE = """WITH l AS (INSERT INTO dbanon.release (name, run_id, digest, rows, overlap_reason, span, reach)
VALUES (%(name)s, %(run)s, '', 0, %(reason)s, dbanon_internal.run_span(%(run)s), '0') RETURNING release_id)
SELECT dbanon_internal.store_groups(%(run)s, l.release_id) FROM l"""


def taxis(database: Database) -> None:
    columns = Columns(subject="cab_id", time="t", x="lon", y="lat")
    database.load_trajectories([CABS], dataset="cabs", columns=columns, drop_outliers=True)
    for k in (5, 20):
        run = database.run("tp-aware", dataset="cabs", params={"k": k})
        try:
            rows, _ = database.publish(run.run_id, f"cabs_k{k}")
        except VerificationFailed as error:
            print(error)
            row = database.connection.execute("SELECT * FROM dbanon.measure_overlap(%s)", [run.run_id]).fetchone()
            print(f"measured: {row}")
            _, notices = database.publish(run.run_id, f"cabs_k{k}", allow_overlap=True, reason=WHY)
            print(*notices, sep="\n")
        else:
            print(f"k = {k}: {rows:,} rows published")
    query = "SELECT name, overlap, overlap_reason FROM dbanon.release ORDER BY release_id"
    for entry in database.connection.execute(query).fetchall():
        print("recorded:", *entry)


def cpu_s(database: Database) -> float:
    """Seconds of CPU that the session's server process has used; what helps it in parallel is not in it."""
    fields = Path(f"/proc/{database.connection.info.backend_pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(database: Database, what: str, statement: str, values: dict[str, object]) -> None:
    began, used = time.perf_counter(), cpu_s(database)
    with database.connection.cursor() as cursor:
        found = cursor.execute(statement, values).fetchone() if "measure" in statement else None
        if found is None:
            cursor.execute(statement, values)
    spent = f"{time.perf_counter() - began:>6.1f} s {cpu_s(database) - used:>6.1f} s CPU"
    print(f"{what:<42}{spent}  {found or ''}", flush=True)


def made(database: Database, n: int) -> None:
    print(f"\n{n:,} subjects in {n // BUNDLE:,} bundles of one window")

    database.connection.execute("SET search_path = pg_catalog, public")

    def write(k: int, size: int, *, apart: bool) -> int:
        run = database.connection.execute(RUN, {"k": k}).fetchone()[0]
        # Statements of a string are sent one by one: several at once take no parameters.
        for part in ROWS.split(";"):
            database.connection.execute(part, {"run": run, "n": n, "size": size, "apart": apart})
        return run

    for part in DATASET.split(";"):
        database.connection.execute(part, {"n": n} if "%(n)s" in part else None)
    new = write(BUNDLE, BUNDLE, apart=False)
    measure = "SELECT * FROM dbanon.measure_overlap(%(run)s)"
    timed(database, "no earlier release: measured", measure, {"run": new})
    for name, size, apart in (("same", BUNDLE, False), ("halves", BUNDLE // 2, False), ("apart", BUNDLE, True)):
        run = write(size, size, apart=apart)
        with database.connection.transaction(force_rollback=True):
            timed(
                database,
                f"grouping of the release '{name}' written",
                RELEASE,
                {"run": run, "name": name, "reason": None},
            )
            timed(database, f"measured against '{name}'", measure, {"run": new})


def main(n: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)  # the server's user has to find its way through
        os.environ["DBANON_HOME"] = str(Path(place) / "server")
        try:
            with open_database() as database:
                if CABS.is_file():
                    taxis(database)
                made(database, n)
        finally:
            server.EmbeddedServer().stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000)
