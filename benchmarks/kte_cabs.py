"""A day of San Francisco's taxis, k = 2: from table to published release with k-merge, beside glove on the same input.

484,789 fixes of 500 cabs; commands are processes of their own, on an embedded server of its own (what was published
once cannot be deleted again). Cold: with an empty Numba cache. `glove` is no algorithm of a run. A process of its own
reads what a run reads, computes it with the seed of the run, and attacks it, all in memory: it writes nothing. "rest"
is what a process does apart from the phases: a command starts, and publishes.

What is covered is counted here, not by the attack: every fix must lie in a row of the records of its trajectory. SQL
counts it for `k-merge`, NumPy for `glove`.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import benchmarks.papers.kte  # noqa: F401 - adds glove
from benchmarks._measure import Cost, measure_server_cpu_s, run_dbanon, run_python
from dbanon.base.cloaks import Cloaks
from dbanon.base.trajectory import Trajectories
from dbanon.database import Database, open_database
from dbanon.methods import METHODS
from dbanon.postgres import server

CABS = Path(__file__).parents[2] / "shared" / "data" / "cabspotting" / "cabs_20080604.csv.gz"
DATASET = "cabs"
PHASES = ("load", "compile", "compute", "write", "verify")
SEED, K = 2017, 2

ROWS = """CREATE TEMPORARY TABLE own AS
SELECT c.run_id, c.record_id, lower(c.period) AS since, upper(c.period) AS until, c.region, c.crowd
FROM dbanon.cloak c WHERE c.run_id = ANY (%(runs)s);
CREATE INDEX ON own (run_id, record_id, since);
ANALYZE own"""
# Rows of a record do not overlap: that which holds a fix is the last that began before it. Members of a group have a
# record each, of which all are members, so a fix has several.
COVERED = """SELECT count(*), count(*) FILTER (WHERE covered) FROM (
    SELECT coalesce(bool_and(o.until > f.t AND ST_Covers(o.region, f.position)), false) AS covered
    FROM dbanon.fix f
    LEFT JOIN dbanon.membership m ON m.run_id = %(run)s AND m.trajectory_id = f.trajectory_id
    LEFT JOIN LATERAL (SELECT o.until, o.region FROM own o
                       WHERE o.run_id = m.run_id AND o.record_id = m.record_id AND o.since <= f.t
                       ORDER BY o.since DESC LIMIT 1) o ON true
    GROUP BY f.trajectory_id, f.seq) each"""
SPANS = """SELECT count(*), min(o.crowd),
    percentile_cont(0.5) WITHIN GROUP (ORDER BY ST_Distance(ST_Point(ST_XMin(o.region), ST_YMin(o.region)),
                                                            ST_Point(ST_XMax(o.region), ST_YMax(o.region)))),
    percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM o.until - o.since)),
    avg(extract(epoch FROM o.until - o.since))
FROM own o WHERE o.run_id = %(run)s"""


def print_cost(what: str, cost: Cost, server_s: float, timings: dict[str, float]) -> None:
    phases = [timings.get(f"{phase}_s", 0.0) for phase in PHASES]
    cells = "".join(f"{seconds:>9.1f}" for seconds in (*phases, cost.seconds - sum(phases), cost.seconds))
    memory = f"{cost.client_mb:>8.0f}{cost.server_mb:>8.0f}"
    print(f"{what:<14}{cells}{cost.cpu_s:>9.1f}{server_s:>9.1f}{memory}", flush=True)


def run_command(what: str, *words: str, cache: str | None = None, program: Any = run_dbanon) -> dict[str, Any]:
    began = measure_server_cpu_s()
    cost = program(*words, environment={"NUMBA_CACHE_DIR": cache} if cache else None)
    told = json.loads(cost.printed)
    print_cost(what, cost, measure_server_cpu_s() - began, told.get("timings", {}))
    return dict(told)


def compute_in_memory(algorithm: str) -> dict[str, Any]:
    """Compute what is no algorithm of a run, and attack it as the groups that it makes, those of k-merge."""
    from dbanon.runs import reading
    from tests.contract.evidence import attack_cloaks

    family = METHODS["kte"]
    params = family.parse({"k": K}, "k-merge")
    times = [time.perf_counter()]
    with open_database() as database, reading.open_reader(database.target.url) as reader:
        query = "SELECT dataset_id FROM dbanon.dataset WHERE name = %s"
        data = reader.read_trajectories(database.connection.execute(query, [DATASET]).fetchone()[0])
    times.append(time.perf_counter())
    family.prepare(algorithm, params)
    times.append(time.perf_counter())
    cloaks = family.anonymise(data, algorithm, params, np.random.default_rng(SEED))
    times.append(time.perf_counter())
    verdict = attack_cloaks(family, "k-merge", params, data, cloaks)
    times.append(time.perf_counter())
    phases = ("load_s", "compile_s", "compute_s", "verify_s")
    return {
        "status": "verified" if verdict.passed else "refused", "suppressed": cloaks.suppressed,
        "timings": dict(zip(phases, np.diff(times).tolist(), strict=True)),
        "covered": count_covered(data, cloaks), "spans": measure_spans(cloaks),
    }  # fmt: skip


def count_covered(data: Trajectories, cloaks: Cloaks) -> tuple[int, int]:
    """Count the fixes, and those that a row holds in each record of their trajectory."""
    first = np.searchsorted(cloaks.record_id, np.arange(cloaks.record_id[-1] + 2))
    members = np.searchsorted(data.trajectory_id, cloaks.member_trajectory)
    held = np.zeros(data.fixes, np.int64)
    for record, member in zip(cloaks.member_record, members, strict=True):
        rows, fixes = slice(*first[[record, record + 1]]), slice(*data.offset[[member, member + 1]])
        t, x, y = data.t[fixes], data.x[fixes], data.y[fixes]
        last = np.searchsorted(cloaks.start[rows], t, side="right") - 1
        x0, y0, x1, y1 = cloaks.bounds[rows][last].T
        inside = (x0 <= x) & (x <= x1) & (y0 <= y) & (y <= y1)
        held[fixes] += (last >= 0) & (t < cloaks.end[rows][last]) & inside
    records = np.repeat(np.bincount(members, minlength=len(data.trajectory_id)), np.diff(data.offset))
    return data.fixes, int(((held == records) & (records > 0)).sum())


def measure_spans(cloaks: Cloaks) -> tuple[float, ...]:
    """Count rows and their smallest crowd; measure their diagonals and periods as `SPANS` does."""
    sides, period = cloaks.bounds[:, 2:] - cloaks.bounds[:, :2], cloaks.end - cloaks.start
    figures = np.median(np.hypot(*sides.T)), np.median(period), period.mean()
    return len(period), int(cloaks.crowd.min()), *map(float, figures)


def add_stored(database: Database, told: dict[str, Any]) -> dict[str, Any]:
    """Add what SQL finds in the stored rows of a run."""
    run = {"run": told["run_id"]}
    rows = [database.connection.execute(query, run).fetchone() for query in (COVERED, SPANS)]
    return {**told, "covered": rows[0], "spans": rows[1]}


def report(told: dict[str, Any], name: str) -> None:
    fixes, covered = told["covered"]
    rows, crowd, diagonal, median_s, mean_s = told["spans"]
    left_out = sum(told["suppressed"]["samples"].values())
    print(
        f"{name:<9}{told['status']:>10}{fixes:>9,}{covered:>9,}{left_out:>9,}{crowd:>7}{rows:>9,}{diagonal:>11,.0f}"
        f"{median_s:>9.0f}{mean_s:>9.0f}"
    )


def measure(cache: str) -> None:
    with open_database():
        pass  # the server and its schema are there before anything is timed
    heads = "".join(f"{name:>9}" for name in (*PHASES, "rest", "seconds", "its CPU", "srv CPU"))
    print(f"{'':<14}{heads}{'MB':>8}{'srv MB':>8}")
    file = ("--dataset", DATASET, "--subject", "cab_id", "--time", "t", "--x", "lon", "--y", "lat", "--drop-outliers")
    loaded = run_command("file to table", "--json", "load", "trajectories", str(CABS), *file)
    words = ("--json", "run", "kte", "--dataset", DATASET, "-p", f"k={K}", "--seed", str(SEED), "--algorithm")
    run_command("k-merge cold", *words, "k-merge", "--publish", "cabs_cold", cache=cache)
    merged = run_command("k-merge", *words, "k-merge", "--publish", "cabs_k2", cache=cache)
    glove = run_command("glove", __file__, "glove", cache=cache, program=run_python)
    print(f"\n{loaded['read']:,} fixes read, {loaded['kept']:,} in the table; a row a person")
    names = ("status", "fixes", "covered", "left out", "crowd", "rows", "median m", "med. s", "mean s")
    widths = (10, 9, 9, 9, 7, 9, 11, 9, 9)
    print(f"{'':<9}" + "".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True)))
    with open_database() as database:
        database.connection.execute("SET search_path = pg_catalog, public")
        for statement in ROWS.split(";"):
            runs = {"runs": [merged["run_id"]]}
            database.connection.execute(statement, runs if "%(" in statement else None)
        report(add_stored(database, merged), "k-merge")
        report(glove, "glove")
        published = database.connection.execute("SELECT count(*) FROM published.cabs_k2").fetchone()[0]
        print(f"published.cabs_k2 has {published:,} rows")


def main() -> None:
    if sys.argv[1:]:
        print(json.dumps(compute_in_memory(sys.argv[1])))
        return
    if not CABS.is_file():
        print("The taxi data do not lie beside the repository; there is nothing to measure.")
        return
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        directory.chmod(0o755)  # the server's user has to find its way through
        os.environ["DBANON_HOME"] = str(directory / "server")
        try:
            measure(str(directory / "cache"))
        finally:
            server.EmbeddedServer().stop()


if __name__ == "__main__":
    main()
