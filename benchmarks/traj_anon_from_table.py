"""Where the time and the memory of a run go, from table to verified run, in a cold process and a warm one.

Run with ``./dev bench benchmarks/traj_anon_from_table.py`` for 10,000, 50,000 and 200,000 trajectories, or with other
sizes as ``.venv/bin/python benchmarks/traj_anon_from_table.py 2000000``. With ``--keep`` the data stay for next time.
Cold: a process of its own with an empty Numba cache. Warm: the same once more. ``load_s`` runs beside compiling, and
``compile_s`` is what had to be waited for after it.
"""

import json
import sys
import tempfile

from _data import CITY, drop, fill
from _measure import dbanon

from dbanon.database import open_database
from dbanon.synth._options import MORNING_S

PHASES = ("load_s", "compile_s", "compute_s", "write_s", "verify_s", "total_s")


def main(sizes: list[int], *, keep: bool) -> None:
    names = []
    print(f"tp-aware, traj-anon, 30 instants, k = 50, 2 requests a subject, {CITY}: seconds and peak MB")
    heads = "".join(f"{phase:>10}" for phase in PHASES)
    print(f"{'n':>9} {'':<5}{'process':>9}{'its CPU':>9}{heads} {'client':>8} {'server':>8}")
    for n in sizes:
        with open_database() as database:
            names.append(fill(database, n))
        with tempfile.TemporaryDirectory() as cache:
            for how in ("cold", "warm"):
                start = f"start={MORNING_S}"  # all objects are there from the first instant on
                words = ["run", "tp-aware", "--dataset", names[-1], "-p", "k=50", "-p", start, "--json"]
                cost = dbanon(*words, environment={"NUMBA_CACHE_DIR": cache})
                timings = json.loads(cost.printed)["timings"]
                spent = "".join(f"{timings[phase]:>10.2f}" for phase in PHASES)
                memory = f"{cost.client_mb:>8.0f} {cost.server_mb:>8.0f}"
                print(f"{n:>9} {how:<5}{cost.seconds:>9.2f}{cost.cpu_s:>9.2f}{spent} {memory}", flush=True)
    if not keep:
        with open_database() as database:
            drop(database, names)


if __name__ == "__main__":
    main([int(n) for n in sys.argv[1:] if n != "--keep"] or [10_000, 50_000, 200_000], keep="--keep" in sys.argv)
