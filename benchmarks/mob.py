"""The family mob on objects in Oldenburg's streets: figures 7 and 8 of the paper again, each case in its own process.

400 instants, quasi-identifiers `random` of 1 to SIZE instants, all objects there all the time, cells of 1 m. Part
`known` moves them to few instants, the same for all objects: at the others nobody is known. Losses, classes and sides
are those of `dbanon.methods.mob`; possibly and definitely inside are the paper's distortions, of 100 random rectangles
(sides up to a tenth of the city's) at each of 100 random instants. Seconds begin with aligned positions and end with
classes; GenAG and `improve` use all cores. The peak is that of the whole process.

``python benchmarks/mob.py [objects|k|size|known]... [--most OBJECTS]``; the first three and 150,000 objects by
default. On the built-in city where Oldenburg's files do not lie beside the repository.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from dbanon.base import memory
from dbanon.base.trajectory import QuasiIdentifiers, Trajectories
from dbanon.methods import METHODS
from dbanon.methods.mob import _classes, _positions, _rows
from dbanon.options.generating import Plan
from dbanon.synth import Scenario
from dbanon.synth._source import read_network

OLDENBURG = Path(__file__).parents[2] / "shared" / "data" / "oldenburg"
FILES = {name: OLDENBURG / f"oldenburgGen_{name[:-1]}.txt" for name in ("nodes", "edges")}
SEED = 2009
INSTANTS, STEP_S = 400, 60
BATCH_OBJECTS = 2500
QUERY_COUNT = 100
WAYS = {
    "improve": ("symmetric", {}),
    "symmetric": ("symmetric", {"improve": False}),
    "extreme-union": ("extreme-union", {}),
}
K, SIZE = 16, 40


def make_objects(objects: int, size: int, instants: int) -> tuple[Trajectories, QuasiIdentifiers]:
    """Make objects in Oldenburg and their quasi-identifiers, at some instants alone."""
    plan = Plan(
        objects=objects, instants=INSTANTS, step_s=STEP_S, whole_share=1.0, seed=SEED, requests_per_subject=0,
        quasi_identifiers="random", quasi_identifier_size=size, **(FILES if OLDENBURG.is_dir() else {}),
    )  # fmt: skip
    scenario = Scenario.from_plan(plan, read_network(plan))
    made = [
        scenario.make_objects(np.arange(low, min(low + BATCH_OBJECTS, objects)))
        for low in range(0, objects, BATCH_OBJECTS)
    ]
    x, y, t = np.concatenate([one.fixes.xym for one in made]).T.copy()
    number, known = (np.concatenate([getattr(one.known, name) for one in made]) for name in ("number", "t"))
    lengths = np.concatenate([np.diff(one.fixes.offset) for one in made])
    data = Trajectories(
        trajectory_id=np.arange(objects), subject=np.arange(objects), offset=np.append(0, np.cumsum(lengths)),
        t=t, x=x, y=y, srid=scenario.network.srid, grid_m=1.0, grid_s=1,
    )  # fmt: skip
    apart_s = INSTANTS // instants * STEP_S
    number, known = np.unique([number, t.min() + (known - t.min()) // apart_s * apart_s], axis=1)
    return data, QuasiIdentifiers(subject=number.astype(np.int64), t=known)


def measure_distortions(positions: _positions.Positions, classes: _classes.Classes) -> tuple[float, float]:
    """Compare counts of what is published in random rectangles at random instants with those of the objects."""
    rng = np.random.default_rng(SEED)
    extent = np.array([positions.x.max() + 1, positions.y.max() + 1])
    side = 1 + np.floor(rng.random((QUERY_COUNT, 2)) * 0.1 * extent)
    low = np.floor(rng.random((QUERY_COUNT, 2)) * (extent - side + 1))
    off = []
    for t in rng.integers(0, positions.x.shape[1], QUERY_COUNT):
        x, y, of = positions.x[:, t], positions.y[:, t], classes.of[:, t]
        exact = np.stack([x, y, x, y])
        box = np.where(of >= 0, classes.box[of].T, exact) if len(classes.box) else exact
        for (x0, y0), (x1, y1) in zip(low, low + side - 1, strict=True):
            inside = int(((x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)).sum())
            possibly = int(((box[0] <= x1) & (box[2] >= x0) & (box[1] <= y1) & (box[3] >= y0)).sum())
            definitely = int(((box[0] >= x0) & (box[2] <= x1) & (box[1] >= y0) & (box[3] <= y1)).sum())
            off.append((abs(inside - possibly) / max(possibly, 1), abs(inside - definitely) / max(inside, 1)))
    possibly_off, definitely_off = np.mean(off, axis=0).tolist()
    return possibly_off, definitely_off


def measure_case(objects: int, k: int, size: int, instants: int, way: str) -> dict[str, float]:
    """Hide objects in one way."""
    algorithm, options = WAYS[way]
    family = METHODS["mob"]
    params = family.parse({"k": k, "align": "exact", "step_s": STEP_S, **options}, algorithm)
    family.prepare(algorithm, params)
    data, known = make_objects(objects, size, instants)
    rank = np.random.default_rng(SEED).permutation(objects)
    positions, _ = _positions.find(data, params, rank, known)
    data_rows = data.fixes
    del data
    began, used = time.perf_counter(), time.process_time()
    sets = _rows.ALGORITHMS[algorithm](positions, _positions.number_places(positions), params)
    classes = _classes.build_classes(positions, sets)
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - used
    peak_mb = memory.measure_peak_mb()
    possibly, definitely = measure_distortions(positions, classes)
    figures = _classes.measure_classes(classes, data_rows, k, 1.0)
    return {"s": seconds, "cpu_s": cpu_s, "peak_mb": peak_mb, "possibly": possibly, "definitely": definitely, **figures}


def list_cases(parts: list[str], most: int) -> list[tuple[int, int, int, int]]:
    listed = {
        "objects": [(n * most // 150_000, K, SIZE, INSTANTS) for n in (50_000, 100_000, 150_000)],
        "k": [(most // 3, k, SIZE, INSTANTS) for k in (2, 4, 8, 16, 32)],
        "size": [(most // 3, K, size, INSTANTS) for size in (20, 40, 100, 200)],
        "known": [(most // 3, K, SIZE, instants) for instants in (INSTANTS, 40, 10, 4, 1)],
    }
    return [one for part in parts for one in listed[part]]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("parts", nargs="*", default=["objects", "k", "size"])
    options.add_argument("--most", type=int, default=150_000)
    options.add_argument("--case", nargs=5)
    given = options.parse_args()
    if given.case:
        print(json.dumps(measure_case(*map(int, given.case[:4]), given.case[4])))
        return
    print(
        " objects   k size known way              loss %  long m   classes median cover %       s   CPU s peak MB "
        "possibly definitely"
    )
    for objects, k, size, instants in dict.fromkeys(list_cases(given.parts, given.most)):
        for way in WAYS:
            command = [sys.executable, __file__, "--case", *map(str, (objects, k, size, instants)), way]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{objects:>8,}{k:>4}{size:>5}{instants:>6} {way:<14} {done.stderr.splitlines()[-1]}", flush=True)
                continue
            m = json.loads(done.stdout)
            print(
                f"{objects:>8,}{k:>4}{size:>5}{instants:>6} {way:<14}{100 * m['information_loss']:>9.2f}"
                f"{m['longer_side_50_m']:>8,.0f}{m['classes']:>10,}{m['median_class_size']:>7,.0f}"
                f"{m['coverage_percent']:>8.1f}{m['s']:>8.1f}{m['cpu_s']:>8.1f}{m['peak_mb']:>8,.0f}"
                f"{m['possibly']:>9.3f}{m['definitely']:>11.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
