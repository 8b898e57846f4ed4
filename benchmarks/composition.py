"""What publishing twice costs: k = 5, then k = 20, of the same taxis; and how long the measurement takes.

Run with ``./dev bench benchmarks/composition.py``, or with other numbers of subjects as
``.venv/bin/python benchmarks/composition.py 200000``. On an embedded server of its own: what was published once cannot
be deleted again. The second part writes rows in SQL: bundles of 50 over 30 instants, and an earlier release with the
same bundles, with halves of these, or with bundles that have at most one person in common with any of the new ones.
The third does so for a release that stands alone, of 150,000 objects at 400 instants, the last for the last of 24
hourly snapshots, whose people the others show.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks._pickups import DATA
from dbanon.base.errors import VerificationFailed
from dbanon.database import Database, open_database
from dbanon.postgres import server

CABS = DATA / "cabspotting" / "cabs_20080604.csv.gz"
BUNDLE_PEOPLE = 50
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
SELECT d.dataset_id, %(method)s, %(algorithm)s, jsonb_build_object('k', %(k)s::int), 'verified'
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
# The regions of a release that stands alone: so many places an instant, whose people change with the instant.
OBJECTS = """INSERT INTO dbanon.region
SELECT %(run)s, g, ST_MakeEnvelope(g, 0, g + 1, 1, 32610), NULL, 16, 16, NULL
FROM generate_series(1, %(places)s::int * %(instants)s) g;
INSERT INTO dbanon.period
SELECT %(run)s, t + 1, tstzrange(to_timestamp(60 * (t + %(first)s)), to_timestamp(60 * (t + 1 + %(first)s)))
FROM generate_series(0, %(instants)s - 1) t;
INSERT INTO dbanon.record
SELECT %(run)s, r, ARRAY(SELECT generate_series(1, %(instants)s)),
    ARRAY(SELECT %(places)s::int * t + (r + t * (r / %(places)s::int)) %% %(places)s::int + 1
          FROM generate_series(0, %(instants)s - 1) t)
FROM generate_series(1, %(n)s) r;
INSERT INTO dbanon.membership
SELECT %(run)s, row_number() OVER (ORDER BY t.trajectory_id), t.trajectory_id, NULL
FROM (SELECT t.trajectory_id FROM dbanon.trajectory t JOIN dbanon.dataset d USING (dataset_id) WHERE d.name = 'made'
      ORDER BY t.trajectory_id LIMIT %(n)s) t;
INSERT INTO dbanon.hiding
SELECT %(run)s, r, NULL, ARRAY(SELECT 1 + (r + o) %% %(n)s FROM generate_series(1, 15) o)
FROM generate_series(1, %(n)s) r"""
METHOD = """ALTER TABLE dbanon.method DISABLE TRIGGER guard_rows;
INSERT INTO dbanon.method (name, summary, guarantee, region_type, attack, algorithms, columns, traits)
VALUES ('alone', 's', 'At least k.', 'Polygon', 'attack',
    '[{"name": "a", "summary": "s", "stands_alone": true}]', '[]',
    '{"hides": "place", "hidden_by": "hiding", "instant": null,
      "oldest": null, "notices": {}, "totals": {}, "reasons": {}}')"""
# Each hour another sixth are hidden, by 20; the others are shown where they are, inside the region of these 20.
HOURS = (
    METHOD.replace("'alone'", "'hours'")
    .replace('"stands_alone": true', '"stands_alone": false')
    .replace('"hidden_by": "hiding", "instant": null', '"hidden_by": "region", "instant": "at"')
)
SNAPSHOT = """INSERT INTO dbanon.region
SELECT %(run)s, g, CASE WHEN g > %(n)s THEN ST_MakeEnvelope(20 * (g - %(n)s - 1), 0, 20 * (g - %(n)s), 1, 32610)
                        ELSE ST_MakeEnvelope(g - 1, 0, g, 1, 32610) END,
    NULL, CASE WHEN g > %(n)s THEN 20 ELSE 1 END, 1, NULL
FROM generate_series(1, %(n)s + %(n)s / 20) g;
INSERT INTO dbanon.period
SELECT %(run)s, 1, tstzrange(to_timestamp(3600 * %(hour)s), to_timestamp(3600 * %(hour)s + 1));
INSERT INTO dbanon.record
SELECT %(run)s, r, ARRAY[1], ARRAY[CASE WHEN (r - 1) / 20 %% 6 = %(hour)s %% 6 THEN %(n)s + 1 + (r - 1) / 20 ELSE r END]
FROM generate_series(1, %(n)s) r;
INSERT INTO dbanon.membership
SELECT %(run)s, row_number() OVER (ORDER BY t.trajectory_id), t.trajectory_id, NULL
FROM (SELECT t.trajectory_id FROM dbanon.trajectory t JOIN dbanon.dataset d USING (dataset_id) WHERE d.name = 'made'
      ORDER BY t.trajectory_id LIMIT %(n)s) t"""
STORE = "SELECT dbanon_internal.store_groups(%(run)s, 0)"
MEASURE = "SELECT * FROM dbanon_internal.describe_worst(%(run)s, 0)"
KEEP = "SELECT dbanon_internal.store_groups(%(run)s, %(release)s)"
RELEASE = """INSERT INTO dbanon.release
    (release_id, name, run_id, digest, rows, overlap_reason, groups_sum, span, reach, content) OVERRIDING SYSTEM VALUE
SELECT %(release)s, %(name)s, r.run_id, '', 0, %(reason)s,
    dbanon_internal.compute_groups_sum(%(release)s, r.dataset_id), dbanon_internal.find_run_span(r.run_id),
    dbanon_internal.compute_run_reach(r.run_id),
    CASE WHEN dbanon_internal.stands_alone(r.method, r.algorithm)
         THEN dbanon_internal.compute_content_digest(r.run_id) END
FROM dbanon.run r WHERE r.run_id = %(run)s"""


def publish_taxis(database: Database) -> None:
    database.load_trajectories([CABS], dataset="cabs", subject="cab_id", time="t", x="lon", y="lat", drop_outliers=True)
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


def measure_cpu_s(database: Database) -> float:
    """Seconds of CPU that the session's server process has used; what helps it in parallel is not in it."""
    fields = Path(f"/proc/{database.connection.info.backend_pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def time_statement(database: Database, what: str, statement: str, values: dict[str, object]) -> None:
    began, used = time.perf_counter(), measure_cpu_s(database)
    with database.connection.cursor() as cursor:
        row = cursor.execute(statement, values).fetchone() if statement == MEASURE or "measured" in statement else None
        if row is None:
            cursor.execute(statement, values)
    spent = f"{time.perf_counter() - began:>6.1f} s {measure_cpu_s(database) - used:>6.1f} s CPU"
    print(f"{what:<42}{spent}  {row or ''}", flush=True)


def measure_made(database: Database, n: int) -> None:
    print(f"\n{n:,} subjects in {n // BUNDLE_PEOPLE:,} bundles of one window", flush=True)

    def write(k: int, size: int, *, are_apart: bool) -> int:
        run = database.connection.execute(RUN, {"k": k, "method": "tp-aware", "algorithm": "traj-anon"}).fetchone()[0]
        execute(database, ROWS, {"run": run, "n": n, "size": size, "apart": are_apart})
        return run

    execute(database, DATASET, {"n": n})
    new = write(BUNDLE_PEOPLE, BUNDLE_PEOPLE, are_apart=False)
    sizes = {"same": BUNDLE_PEOPLE, "halves": BUNDLE_PEOPLE // 2, "fifths": BUNDLE_PEOPLE // 5}
    runs = {name: write(size, size, are_apart=False) for name, size in sizes.items()}
    runs["crossing"] = write(BUNDLE_PEOPLE, BUNDLE_PEOPLE, are_apart=True)
    with database.connection.transaction(force_rollback=True):
        time_statement(database, "its groups stored", STORE, {"run": new})
        for overridden in ((), ("halves",), ("halves", "fifths"), ("halves", "fifths", "crossing")):
            for name in runs if not overridden else ("same",):
                with database.connection.transaction(force_rollback=True):
                    make_release(database, runs[name], name, None)
                    for other in overridden:
                        make_release(database, runs[other], other, WHY)
                    beside = "".join(f", '{other}' overridden" for other in overridden)
                    time_statement(database, f"compared with '{name}'{beside}", MEASURE, {"run": new})


def measure_alone(database: Database, n: int, instants: int) -> None:
    """Measure a release that stands alone, of 1,000 regions an instant, against another, a later one and itself."""
    print(f"\n{n:,} subjects at {instants} instants in a release that stands alone", flush=True)
    execute(database, METHOD, {})

    def write(first: int) -> int:
        run = database.connection.execute(RUN, {"k": 16, "method": "alone", "algorithm": "a"}).fetchone()[0]
        execute(database, OBJECTS, {"run": run, "n": n, "instants": instants, "first": first, "places": 1000})
        return run

    new, other, apart = write(0), write(1), write(60 * instants + 1)
    with database.connection.transaction(force_rollback=True):
        time_statement(database, "who is spoken of when, stored", STORE, {"run": new})
        for name, run in (("another", other), ("one of a later time", apart), ("itself", new)):
            with database.connection.transaction(force_rollback=True):
                make_release(database, run, name, None)
                time_statement(database, f"compared with {name}", MEASURE, {"run": new})


def measure_hourly(database: Database, n: int, snapshots: int) -> None:
    """Measure a snapshot in which a sixth are hidden, by 20, against others of the same day that show them."""
    print(f"\n{n:,} subjects, a sixth of them hidden, in a snapshot after {snapshots} others", flush=True)
    execute(database, HOURS, {})
    runs = []
    for hour in range(snapshots + 1):
        params = {"k": 20, "method": "hours", "algorithm": "a"}
        runs.append(database.connection.execute(RUN, params).fetchone()[0])
        execute(database, SNAPSHOT, {"run": runs[-1], "n": n, "hour": hour})
    *earlier, new = runs
    with database.connection.transaction(force_rollback=True):
        for hour, run in enumerate(earlier):
            make_release(database, run, f"hour_{hour}", None)
        time_statement(database, "its groups stored", STORE, {"run": new})
        time_statement(database, "compared", MEASURE, {"run": new})
        nearby = "SELECT dbanon_internal.count_shown_within_a_day(%(run)s, 0) AS measured"
        time_statement(database, "within a day counted", nearby, {"run": new})


def execute(database: Database, statements: str, values: dict[str, object]) -> None:
    """Execute statements one by one: several at once take no parameters."""
    for part in statements.split(";"):
        database.connection.execute(part, values if "%(" in part else None)


def make_release(database: Database, run: int, name: str, reason: str | None) -> None:
    query = "SELECT nextval(pg_get_serial_sequence('dbanon.release', 'release_id'))"
    values = {"run": run, "name": name, "reason": reason, "release": database.connection.execute(query).fetchone()[0]}
    time_statement(database, f"groups of '{name}' stored", KEEP, values)  # a release that is there takes no more
    time_statement(database, f"'{name}' released", RELEASE, values)


def main(n: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)  # the server's user has to find its way through
        os.environ["DBANON_HOME"] = str(Path(place) / "server")
        try:
            with open_database() as database:
                if CABS.is_file():
                    publish_taxis(database)
                database.connection.execute("SET search_path = pg_catalog, public")
                measure_made(database, n)
                measure_alone(database, 3 * n // 40, 400)
                measure_hourly(database, n // 4, 23)
        finally:
            server.EmbeddedServer().stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000)
