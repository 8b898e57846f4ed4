"""The headlines of RESULTS.md: from table to verified run, publishing, withdrawing, at this commit and an older one.

``python benchmarks/headlines.py COMMIT [--people N] [--rounds N]``: people on the streets of San Francisco at 30
instants, two requests each, k = 50. Each commit has its own server and the same people; commits take turns, on a quiet
machine. CPU is that of the client and of all processes of the server.

Beside them stands what no program can go below here: the bytes that a phase reads or writes, at the speed of this disk
(a file as large as the run's rows, written with fsync and read without the cache); and one pass over all positions.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks._data import NETWORK
from benchmarks._measure import Cost, measure_server_cpu_s, run_dbanon
from dbanon.options.generating import Plan

ROOT = Path(__file__).resolve().parents[1]
INSTANTS, K, VIEW = 30, 50, "headline"
PHASES = ("load_s", "compute_s", "write_s", "verify_s")
CHUNK = 1 << 24
WARM_PEOPLE = 2000
WINDOW = "-p", f"start={Plan().start_s}", "-p", f"instants={INSTANTS}"
TABLES = {
    "read": "SELECT sum(pg_column_size(t.*)) FROM dbanon.trajectory t",
    "requests": "SELECT sum(pg_column_size(r.*)) FROM dbanon.request r",
    "run": "SELECT (SELECT sum(pg_column_size(g.*)) FROM dbanon.region g) + "
    "(SELECT sum(pg_column_size(m.*)) FROM dbanon.membership m) + "
    "(SELECT sum(pg_column_size(c.*)) FROM dbanon.record c)",
    "release": f"SELECT sum(pg_column_size(r.*)) FROM published.{VIEW} r",
}


class Version:
    """A commit with a server of its own."""

    def __init__(self, name: str, tree: Path, home: Path) -> None:
        self.name, self.tree = name, tree
        self.environment = {"PYTHONPATH": str(tree), "DBANON_HOME": str(home)}

    def call(self, *words: str) -> tuple[Cost, float]:
        """Run a command of this commit; its cost, and the seconds of CPU of both sides."""
        os.environ.update(self.environment)  # the sampler looks for the server there
        os.chdir(self.tree)  # the first place where a module is looked for
        before = measure_server_cpu_s()
        cost = run_dbanon(*words, environment=self.environment)
        return cost, cost.cpu_s + measure_server_cpu_s() - before

    def ask(self, query: str) -> str:
        """The one value of a query."""
        return self.call("db", "psql", "-Atc", query)[0].printed.strip()

    def fill(self, dataset: str, people: int) -> None:
        """Generate people who are all there at each instant."""
        files = [word for name, file in NETWORK.items() for word in (f"--{name}", str(file))]
        sizes = {"objects": people, "instants": INSTANTS, "whole-share": 1.0, "requests-per-subject": 2, "seed": 1}
        numbers = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
        self.call("synth", "--dataset", dataset, *numbers, *files)

    def run(self, dataset: str) -> tuple[Cost, float]:
        """Compute, write and attack groups: the same each time, or a later one could not be published."""
        return self.call("run", "tp-aware", "--dataset", dataset, "-p", f"k={K}", *WINDOW, "--seed", "1", "--json")

    def measure(self, dataset: str) -> dict[str, tuple[float, float | None, float]]:
        """Seconds, CPU and MB (client's for the run, server's for a release) of each step and phase."""
        ran, run_cpu_s = self.run(dataset)
        told = json.loads(ran.printed)
        published, publish_cpu_s = self.call("publish", str(told["run_id"]), VIEW)
        self.bytes = {what: int(self.ask(query)) for what, query in TABLES.items()}
        self.rows = int(self.ask(f"SELECT count(*) FROM published.{VIEW}"))
        start = self.call("db", "psql", "-Atc", "SELECT 1")[0].seconds
        withdrawn, _ = self.call("db", "psql", "-Atc", f"SELECT dbanon.unpublish('{VIEW}')")
        return {
            "table to verified": (ran.seconds, run_cpu_s, ran.client_mb),
            **{phase.removesuffix("_s"): (told["timings"][phase], None, ran.client_mb) for phase in PHASES},
            "publish": (published.seconds, publish_cpu_s, published.server_mb),
            "withdraw": (withdrawn.seconds - start, None, withdrawn.server_mb),
        }


def measure_disk(place: Path, size: int) -> tuple[float, float]:
    """Bytes a second that this disk writes and reads, of a file of so many bytes."""
    file, content = place / "bytes", os.urandom(CHUNK)
    began = time.perf_counter()
    with file.open("wb", buffering=0) as out:
        for _ in range(0, size, CHUNK):
            out.write(content)
        os.fsync(out.fileno())
    wrote = time.perf_counter() - began
    descriptor = os.open(file, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    began = time.perf_counter()
    while os.read(descriptor, CHUNK):
        pass
    read = time.perf_counter() - began
    os.close(descriptor)
    whole = file.stat().st_size
    file.unlink()
    return whole / wrote, whole / read


def measure_pass(people: int) -> float:
    """Seconds of one pass over both coordinates of all positions: the bounds of groups of K."""
    x, y = np.random.default_rng(0).random((2, people // K * K, INSTANTS))
    began = time.perf_counter()
    for axis in (x, y):
        groups = axis.reshape(-1, K, INSTANTS)
        groups.min(axis=1), groups.max(axis=1)
    return time.perf_counter() - began


def print_row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("commit")
    options.add_argument("--people", type=int, default=2_000_000)
    options.add_argument("--rounds", type=int, default=2)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as named:
        place = Path(named)
        place.chmod(0o755)  # servers' users have to find their way through
        tree = place / "old"
        subprocess.run(["git", "worktree", "add", "--detach", tree, given.commit], cwd=ROOT, check=True)
        versions = [Version(given.commit, tree, place / "home-old"), Version("now", ROOT, place / "home-new")]
        try:
            measure_all(versions, place, given.people, given.rounds)
        finally:
            for version in versions:
                version.call("db", "down")
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


def measure_all(versions: list[Version], place: Path, people: int, rounds: int) -> None:
    for version in versions:
        version.fill("few", WARM_PEOPLE)
        version.run("few")  # compiles
        version.fill("many", people)
    for version in versions:  # or the server would tidy up beside the measurement
        version.ask("VACUUM (ANALYZE) dbanon.trajectory, dbanon.request")
        version.ask("CHECKPOINT")
    print(f"\n{people:,} people x {INSTANTS} instants, k = {K}\n")
    print_row("what", "commit", *("s (CPU s)" for _ in range(rounds)), "MB")
    print("|---" * (rounds + 3) + "|")
    taken = [[version.measure("many") for version in versions] for _ in range(rounds)]
    for what in taken[0][0]:
        for number, version in enumerate(versions):
            seen = [once[number][what] for once in taken]
            told = (f"{s:.1f}" + ("" if cpu_s is None else f" ({cpu_s:.0f})") for s, cpu_s, _ in seen)
            print_row(what, version.name, *told, f"{max(mb for *_, mb in seen):,.0f}" if seen[0][2] else "")
    now = versions[-1]
    writes, reads = measure_disk(place, now.bytes["run"])
    size = now.bytes
    print(f"\n{now.rows:,} rows; this disk writes {writes / 1e6:,.0f} and reads {reads / 1e6:,.0f} MB/s\n")
    print_row("limit", "MB", "s")
    print("|---|---|---|")
    for what, moved, rate in (
        ("read data", size["read"] + size["requests"], reads),
        ("write a run's rows", size["run"], writes),
        ("read them for the attack, and the data again", size["run"] + size["read"] + size["requests"], reads),
        ("publish: read a run's rows and write the release's", size["run"] + size["release"], min(writes, reads)),
    ):
        print_row(what, f"{moved / 1e6:,.0f}", f"{moved / rate:.1f}")
    print_row("one pass over positions", f"{people * INSTANTS * 16 / 1e6:,.0f}", f"{measure_pass(people):.1f}")


if __name__ == "__main__":
    main()
