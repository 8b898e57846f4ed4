"""Moving objects from generated dataset to published release: what hiding, attacking and publishing them costs.

Objects in Oldenburg's streets, 400 instants, quasi-identifiers `random` of 1 to 40 instants, all objects there all the
time, cells of 1 m, k = 16. Once with all rows (`qid_only=off`), once with the generalised ones alone, each on an
embedded server of its own; commands are processes of their own. Stored: what the run takes with its indexes, in
regions (one a class, or a cell, and instant), records, memberships and hiding sets. Published: the release's rows, of
which readers may select. "rest" is what a command does beside the phases: it starts, prints, or publishes.

``python benchmarks/mob_published.py [OBJECTS]``; 150,000 by default, for which 60 GB of disk should be free. On the
built-in city where Oldenburg's files do not lie beside the repository.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks._measure import Cost, measure_server_cpu_s, run_dbanon
from benchmarks.mob import FILES, INSTANTS, OLDENBURG, SEED, SIZE, K
from dbanon.database import open_database
from dbanon.postgres import server

PHASES = ("routes", "making", "writing", "load", "compile", "compute", "write", "verify")
FLEET = (
    "--instants", str(INSTANTS), "--seed", str(SEED), "--whole-share", "1", "--requests-per-subject", "0",
    "--quasi-identifiers", "random", "--quasi-identifier-size", str(SIZE),
)  # fmt: skip
NETWORK = [word for name, file in FILES.items() for word in (f"--{name}", str(file))] if OLDENBURG.is_dir() else []
STORED = ("region", "period", "record", "membership", "hiding")


def run_and_print(what: str, words: tuple[str, ...]) -> dict[str, object]:
    began = measure_server_cpu_s()
    cost: Cost = run_dbanon("--json", *words)
    told = json.loads(cost.printed.splitlines()[0])
    phases = [told.get("timings", {}).get(f"{phase}_s", 0.0) for phase in PHASES]
    # Objects are made while others are written.
    rest = max(cost.seconds - (max(phases[1:3]) + phases[0] + sum(phases[3:])), 0)
    cells = "".join(f"{seconds:>9.1f}" for seconds in (*phases, rest, cost.seconds, cost.cpu_s))
    print(
        f"{what:<9}{cells}{measure_server_cpu_s() - began:>9.1f}{cost.client_mb:>8.0f}{cost.server_mb:>8.0f}",
        flush=True,
    )
    return dict(told)


def print_sizes() -> None:
    with open_database() as database:
        sizes = {
            name: database.connection.execute("SELECT pg_total_relation_size(%s)", [f"dbanon.{name}"]).fetchone()[0]
            for name in (*STORED, "trajectory", "quasi_identifier")
        }
        rows = database.connection.execute("SELECT count(*) FROM published.fleet").fetchone()[0]
        release = database.connection.execute(
            "SELECT pg_total_relation_size(format('dbanon.release_%s', release_id)) FROM dbanon.release"
        ).fetchone()[0]
    mb = {name: size / 2**20 for name, size in sizes.items()}
    print("MB: " + ", ".join(f"{name} {size:,.0f}" for name, size in mb.items()))
    print(
        f"published: {rows:,} rows, {release / 2**20:,.0f} MB, {release / max(rows, 1):.0f} bytes a row\n", flush=True
    )


def measure(objects: int, qid_only: bool) -> None:
    with open_database():
        pass  # the server and its schema are there before anything is timed
    heads = "".join(f"{name:>9}" for name in (*PHASES, "rest", "seconds", "its CPU", "srv CPU"))
    print(f"{objects:,} objects, {'generalised rows alone' if qid_only else 'all rows'}")
    print(f"{'':<9}{heads}{'MB':>8}{'srv MB':>8}")
    run_and_print("synth", ("synth", "--dataset", "fleet", "--objects", str(objects), *FLEET, *NETWORK))
    hide = ("run", "mob", "--dataset", "fleet", "--seed", str(SEED), "-p", f"k={K}", "-p", "align=exact")
    told = run_and_print("run", (*hide, *(() if qid_only else ("-p", "qid_only=off"))))
    run_and_print("publish", ("publish", str(told["run_id"]), "fleet"))
    attack = told["verification"]["attacks"][0]["figures"] if "verification" in told else {}
    figures = {**told["metrics"], **attack}
    names = ("information_loss", "generalised_percent", "classes", "median_class_size", "below_k_at_speed")
    print(f"status {told['status']}; " + ", ".join(f"{name} {figures[name]:,.2f}" for name in names if name in figures))
    print_sizes()


def main(objects: int) -> None:
    for qid_only in (False, True):
        with tempfile.TemporaryDirectory() as place:
            Path(place).chmod(0o755)  # the server's user has to find its way through
            os.environ["DBANON_HOME"] = str(Path(place) / "server")
            try:
                measure(objects, qid_only)
            finally:
                server.EmbeddedServer().stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 150_000)
