"""The whole way with taxi pick-ups: load, run, verify, publish; each command a process of its own.

With San Francisco's health care sites and places of worship, then with 4,000 sites drawn at random among drop-offs. On
an embedded server of its own: what was published once cannot be deleted again. KNN is no algorithm of a run: it is
computed in memory, from what a run reads and with a run's seed, and is not attacked.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import shapely

sys.path.insert(0, str(Path(__file__).parents[1]))
import benchmarks.papers.sensitive_sites  # noqa: F401 - adds knn
from benchmarks import _pickups
from benchmarks._measure import Cost, run_dbanon
from dbanon.database import open_database
from dbanon.methods import METHODS
from dbanon.postgres import server
from dbanon.runs import reading

NAME = "benchmark pickups"
K, SEED = 20, 1


def load(file: Path, what: str, *options: str) -> Cost:
    cost = run_dbanon("--json", "load", what, str(file), "--dataset", NAME, "--x", "lon", "--y", "lat", *options)
    kept = json.loads(cost.printed)["kept"]
    print(f"load {what:<14} {kept:>9,} rows {cost.seconds:>6.1f} s {cost.client_mb:>6.0f} MB client", flush=True)
    return cost


def run(what: str, *options: str) -> None:
    cost = run_dbanon(
        "--json", "run", "sensitive-sites", "--dataset", NAME, "-p", f"k={K}", "--seed", f"{SEED}", *options
    )
    told = json.loads(cost.printed)
    metrics, timings = told["metrics"], told["timings"]
    seconds = "  ".join(f"{name.removesuffix('_s')} {value:.1f}" for name, value in timings.items())
    plain = f", bk alone {metrics['bk_ggc_percent']:.2f} %" if "bk_ggc_percent" in metrics else ""
    print(f"{what:<27} {told['status']}: GGC {metrics['ggc_percent']:.2f} %{plain}")
    print(
        f"    {seconds}; process {cost.seconds:.1f} s; client {cost.client_mb:.0f} MB, server {cost.server_mb:.0f} MB"
    )
    inside = told["verification"]["attacks"][0]["figures"]["exact_inside_rectangles"]
    cloaked, exact = metrics["subjects_cloaked"], metrics["subjects_left_exact"]
    print(f"    {cloaked:,} cloaked, {exact:,} exact, {inside:,} of them in a rectangle", flush=True)


def compute(what: str, algorithm: str) -> None:
    """Compute in memory what is no algorithm of a run."""
    family = METHODS["sensitive-sites"]
    params = family.parse({"k": K})
    family.prepare(algorithm, params)
    began = time.perf_counter()
    with open_database() as database, reading.open_reader(database.target.url) as reader:
        [number] = database.connection.execute(
            "SELECT dataset_id FROM dbanon.dataset WHERE name = %s", [NAME]
        ).fetchone()
        data, inputs = reader.read_trajectories(number), reader.read_inputs(number, family.reads)
    read = time.perf_counter()
    cloaks = family.anonymise(data, algorithm, params, np.random.default_rng(SEED), **inputs)
    ended = time.perf_counter()
    hidden = cloaks.extra >= 0
    rectangles = shapely.STRtree(shapely.box(*np.unique(cloaks.bounds[hidden], axis=0).T))
    middles = shapely.points((cloaks.bounds[~hidden, :2] + cloaks.bounds[~hidden, 2:]) / 2)
    inside = np.unique(rectangles.query(middles, predicate="intersects")[0])
    print(f"{what:<27} in memory: GGC {cloaks.metrics['ggc_percent']:.2f} %")
    print(f"    load {read - began:.1f}  compute {ended - read:.1f}")
    print(
        f"    {hidden.sum():,} cloaked, {(~hidden).sum():,} exact, {len(inside):,} of them in a rectangle", flush=True
    )


def main() -> None:
    if not _pickups.EVENTS.is_file():
        print("The taxi data do not lie beside the repository; there is nothing to measure.")
        return
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        directory.chmod(0o755)  # the server's subject has to find its way through
        os.environ["DBANON_HOME"] = str(directory / "server")
        try:
            measure(directory)
        finally:
            server.EmbeddedServer().stop()


def measure(directory: Path) -> None:
    subjects, worship, drawn = (directory / f"{name}.csv" for name in ("subjects", "worship", "drawn"))
    _pickups.write_subjects(subjects), _pickups.write_worship(worship), _pickups.write_drawn(drawn, 4_000, 1)
    load(subjects, "trajectories", "--subject", "-", "--time", "t")
    load(_pickups.HEALTH, "sites", "--name", "name")
    load(worship, "sites", "--name", "name")
    run("553 real sites, published", "--publish", "pickups")
    load(drawn, "sites", "--replace")
    for algorithm, options in (("bk", []), ("bk", ["-p", "improve=off"]), ("mk", [])):
        run(f"4,000 sites, {' '.join([algorithm, *options[1:]])}", "--algorithm", algorithm, *options)
    compute("4,000 sites, knn", "knn")


if __name__ == "__main__":
    main()
