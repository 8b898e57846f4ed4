"""k-merge: merges a second, beside the algorithm as printed; a day of taxis grouped by it; and phone records of many.

``python benchmarks/k_merge.py [PEOPLE...] [k=K]``: with numbers of people, days of phone records of so many instead
(those of ``dbanon synth --calls-per-day 30``), in blocks, and up to 30,000 people without blocks too, for k = 2 and 5
or K alone. With ``windows PEOPLE NUMBER...`` so many windows of half an hour of so many people, with a fix every ten
minutes, k = 5, and their attack.

The printed algorithm is that of tests/unit/oracles_kte.py, in Python, mended only so that it does not part samples of
one slot. Every group is checked to have k subjects, and every sample to lie in a row of its group.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.csv
from pyproj import Transformer

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks._data import NETWORK
from dbanon.base import memory
from dbanon.base.cloaks import Cloaks
from dbanon.base.trajectory import Trajectories
from dbanon.methods import METHODS
from dbanon.methods.kte import _blocks, _groups, _k_merge
from dbanon.methods.kte._samples import Merged, Samples, snap_fixes
from dbanon.synth import Plan, Scenario, read_network
from tests.unit import oracles_kte as oracle

CABS = Path(__file__).parents[2] / "shared" / "data" / "cabspotting" / "cabs_20080604.csv.gz"
SEED = 2017
PAIR_COUNT = 50_000


def make_walks(subjects: int, each: int, rng: np.random.Generator) -> Samples:
    """Random walks with as many samples each, at random times of a day."""
    slot = np.sort(rng.integers(0, 1440, (subjects, each)), axis=1)
    x, y = (np.cumsum(rng.integers(-2, 3, (subjects, each)), axis=1) for _ in range(2))
    return Samples(
        subject=np.arange(subjects), offset=np.arange(subjects + 1) * each, slot=slot.ravel(),
        x=x.ravel().astype(np.int32), y=y.ravel().astype(np.int32), grid_s=60, grid_m=100.0,
    )  # fmt: skip


def find_ends(data: Samples, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    return data.offset[a], data.offset[a + 1], data.offset[b], data.offset[b + 1]


def time_call(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and seconds of CPU of all threads, that a call takes once it is compiled."""
    began, used = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - began, time.process_time() - used


def print_merges_per_second() -> None:
    print(
        f"{PAIR_COUNT:,} merges of two random walks: costs alone, and whole, with rows; a second, and a second of CPU"
    )
    print("(two free cores give twice that). Beside them the printed algorithm on 3 of them, a second of CPU")
    heads = ("samples", "cost/s", "CPU", "merge/s", "CPU", "printed", "ratio")
    print("".join(f"{head:>9}" for head in heads) + "   same")
    rng = np.random.default_rng(SEED)
    for each in (75, 150, 300):
        data = make_walks(400, each, rng)
        a = rng.integers(0, 400, PAIR_COUNT)
        b = (a + rng.integers(1, 400, PAIR_COUNT)) % 400
        who, offset = np.column_stack([a, b]).ravel(), np.arange(0, 2 * PAIR_COUNT + 1, 2)
        begin, end = data.offset[who], data.offset[who + 1]
        _k_merge.merge(data, offset[:2], begin[:2], end[:2])
        costs = _k_merge.compute_pair_costs(data, *find_ends(data, a[:3], b[:3]))
        fast = [
            *time_call(lambda data=data, a=a, b=b: _k_merge.compute_pair_costs(data, *find_ends(data, a, b))),
            *time_call(lambda data=data, o=offset, begin=begin, end=end: _k_merge.merge(data, o, begin, end)),
        ]
        rows = [list(zip(*(part.tolist() for part in slice_columns(data, i)), strict=True)) for i in range(400)]
        used = time.process_time()
        plain = [oracle.merge_as_printed([rows[a[i]], rows[b[i]]])[0] for i in range(3)]
        plain_s = (time.process_time() - used) / 3
        figures = "".join(f"{PAIR_COUNT / seconds:>9,.0f}" for seconds in fast)
        ratio = plain_s * PAIR_COUNT / fast[1]
        same = plain == costs.tolist()
        print(f"{f'{each}+{each}':>9}{figures}{1 / plain_s:>9.2f}{ratio:>9,.0f}   {same}", flush=True)


def slice_columns(data: Samples, i: int) -> tuple[np.ndarray, ...]:
    part = slice(data.offset[i], data.offset[i + 1])
    return data.slot[part], data.x[part], data.y[part]


def print_turns() -> None:
    print("\none merge of two inputs that take turns, L samples each time, six times")
    rng = np.random.default_rng(SEED)
    for length in (1_000, 10_000):
        for name, most in (("at rest", 0), ("moving", 2)):
            slot = np.arange(6 * length).reshape(3, 2, length).transpose(1, 0, 2).ravel()
            x, y = (np.cumsum(rng.integers(-most, most + 1, 6 * length), dtype=np.int32) for _ in range(2))
            data = Samples(
                subject=np.arange(2), offset=np.array([0, 3, 6]) * length, slot=slot, x=x, y=y, grid_s=60, grid_m=100.0
            )
            began = time.perf_counter()
            _k_merge.compute_pair_costs(data, *find_ends(data, np.array([0]), np.array([1])))
            print(f"L = {length:>7,} {name:<8} {time.perf_counter() - began:>8.3f} s", flush=True)


def read_cabs() -> Trajectories:
    """Each cab's day as one trajectory, in UTM zone 10; of fixes at one time the first."""
    table = pyarrow.csv.read_csv(CABS).sort_by([("cab_id", "ascending"), ("t", "ascending")])
    code = pc.rank(table["cab_id"], tiebreaker="dense").to_numpy().astype(np.int64) - 1
    t = table["t"].to_numpy().astype(float)
    x, y = Transformer.from_crs(4326, 32610, always_xy=True).transform(table["lon"].to_numpy(), table["lat"].to_numpy())
    first = np.append(True, (np.diff(code) > 0) | (np.diff(t) > 0))
    code, t, x, y = (values[first] for values in (code, t, x, y))
    number = np.bincount(code)
    who = np.arange(len(number))
    return Trajectories(
        trajectory_id=who, subject=who, offset=np.concatenate([[0], np.cumsum(number)]), t=t, x=x, y=y, srid=32610,
        grid_m=1.0, grid_s=1,
    )  # fmt: skip


def print_grouping(title: str, data: Samples, sizes: tuple[int, ...]) -> None:
    n = len(data.subject)
    print(
        f"\n{title}: {n:,} subjects, {len(data.slot):,} samples; cells of {data.grid_m:g} m, slots of {data.grid_s} s"
    )
    print(f"{'k':>3} {'improve':>7} {'group s':>8} {'cpu s':>7} {'merge s':>8} {'cost':>13} {'rows':>9} "
          f"{'diagonal m':>11} {'minutes':>8} {'peak MB':>8}")  # fmt: skip
    for k in sizes:
        for improve in (False, True):
            rng = np.random.default_rng(SEED)
            began, cpu = time.perf_counter(), time.process_time()
            group = _groups.group(data, k, rng.permutation(n), rng, improve=improve)
            middle, cpu = time.perf_counter(), time.process_time() - cpu
            merged = merge_groups(data, group)
            ended = time.perf_counter()
            if np.bincount(group).min() < k or not is_covered(data, group, merged):
                raise SystemExit("A group is below k, or a sample is not covered.")
            spans = merged.box[:, 2:] - merged.box[:, :2] + 1
            slots = merged.last - merged.first + 1
            diagonal = np.median(np.hypot(*spans.T)) * data.grid_m
            print(
                f"{k:>3} {'on' if improve else 'off':>7} {middle - began:>8.1f} {cpu:>7.1f} {ended - middle:>8.2f} "
                f"{(slots * spans.sum(axis=1)).sum():>13,} {len(slots):>9,} {diagonal:>11,.0f} "
                f"{np.median(slots) * data.grid_s / 60:>8.1f} {memory.measure_peak_mb():>8,.0f}",
                flush=True,
            )


def merge_groups(data: Samples, group: np.ndarray) -> Merged:
    order = np.argsort(group, kind="stable")
    offset = np.concatenate([[0], np.cumsum(np.bincount(group))])
    return _k_merge.merge(data, offset, data.offset[order], data.offset[order + 1])


def is_covered(data: Samples, group: np.ndarray, merged: Merged) -> bool:
    """Whether every sample lies in a row of its subject's group."""
    of_sample = np.repeat(group, np.diff(data.offset))
    of_row = np.repeat(np.arange(len(merged.offset) - 1), np.diff(merged.offset))
    low = min(data.slot.min(), merged.first.min())
    wide = int(data.slot.max() - low) + 1
    row = np.searchsorted(of_row * wide + merged.first - low, of_sample * wide + data.slot - low, side="right") - 1
    x0, y0, x1, y1 = merged.box[row].T
    inside = (of_row[row] == of_sample) & (merged.last[row] >= data.slot)
    return bool((inside & (x0 <= data.x) & (data.x <= x1) & (y0 <= data.y) & (data.y <= y1)).all())


# ---- many people -----------------------------------------------------------------------------------------------------


def make_phones(people: int) -> Trajectories:
    """Generate a day of phone records of each."""
    plan = Plan(
        objects=people, calls_per_day=30, seed=SEED, instants=1440, start="2026-01-05T00:00:00Z", whole_share=1.0,
        requests_per_subject=0, **NETWORK,
    )  # fmt: skip
    scenario = Scenario.from_plan(plan, read_network(plan))
    made = [scenario.make_objects(np.arange(low, min(low + 700, people))).fixes for low in range(0, people, 700)]
    number = np.concatenate([np.diff(fixes.offset) for fixes in made])
    x, y, t = np.concatenate([fixes.xym for fixes in made]).T.copy()
    who = np.arange(people)
    return Trajectories(
        trajectory_id=who, subject=who, offset=np.concatenate([[0], np.cumsum(number)]), t=t, x=x, y=y, srid=32610,
        grid_m=1.0, grid_s=1,
    )  # fmt: skip


def group_many(people: int, sizes: list[int]) -> None:
    """Group days of phone records; up to 30,000 in one block too, which is the algorithm without blocks."""
    data = make_phones(people)
    known = snap_fixes(data, 60, 100.0)
    print(f"{people:,} people, {len(known.slot):,} samples")
    for k in sizes:
        costs = {}
        for most in (_blocks.MAX_BLOCK_SUBJECTS, people)[: 1 + (people <= 30_000)]:
            usual, _blocks.MAX_BLOCK_SUBJECTS = _blocks.MAX_BLOCK_SUBJECTS, most
            memory.forget_peak()
            began, used = time.perf_counter(), time.process_time()
            rng = np.random.default_rng(SEED)
            group = _groups.group(known, k, np.arange(people), rng)
            merged = _groups.merge_groups(known, group)
            took, cpu = time.perf_counter() - began, time.process_time() - used
            _blocks.MAX_BLOCK_SUBJECTS = usual
            if np.bincount(group).min() < k or not is_covered(known, group, merged):
                raise SystemExit("A group is below k, or a sample is not covered.")
            spans = merged.box[:, 2:] - merged.box[:, :2] + 1
            costs[most] = int(((merged.last - merged.first + 1) * spans.sum(axis=1)).sum())
            print(
                f"k = {k}, blocks of {most:>9,}: {took:>8.1f} s, {cpu:>8.1f} s of CPU, "
                f"{memory.measure_peak_mb():>7,.0f} MB, "
                f"cost {costs[most] / len(known.slot):>7.1f} a sample",
                flush=True,
            )
        if len(costs) > 1:
            print(f"blocks cost {100 * costs[_blocks.MAX_BLOCK_SUBJECTS] / costs[people] - 100:+.2f} %")


def make_windows(people: int, number: int) -> Trajectories:
    """Make walks that begin in a square with a hundred people a square kilometre."""
    rng, each = np.random.default_rng(SEED), 3 * number
    x, y = rng.uniform(0, 100 * np.sqrt(people), (2, people, 1)) + np.cumsum(
        rng.normal(0, 400, (2, people, each)), axis=2
    )
    who, t = np.arange(people), np.arange(each) * 600.0 + rng.integers(0, 600, (people, 1))
    return Trajectories(
        trajectory_id=who, subject=who, offset=np.arange(people + 1) * each, t=t.ravel(), x=x.ravel(), y=y.ravel(),
        srid=32610, grid_m=1.0, grid_s=1,
    )  # fmt: skip


def print_windows(people: int, number: int) -> None:
    family = METHODS["kte"]
    params = family.parse({"k": 5, "window_s": 1800}, "k-merge")
    data = make_windows(people, number)
    family.anonymise(make_windows(50, 1), "k-merge", params, np.random.default_rng(SEED))
    memory.free_memory()
    memory.forget_peak()
    made: list[Cloaks] = []
    took, used = time_call(lambda: made.append(family.anonymise(data, "k-merge", params, np.random.default_rng(SEED))))
    peak = memory.measure_peak_mb()
    [cloaks] = made
    print(
        f"{people:>9,} people x {number:>2} windows: {took:>8.1f} s, {used:>8.1f} s of CPU, {peak:>7,.0f} MB; "
        f"{len(cloaks.offset) - 1:,} records, {cloaks.rows:,} rows", flush=True,
    )  # fmt: skip


def main() -> None:
    if sys.argv[1:2] == ["windows"]:
        for number in map(int, sys.argv[3:]):
            print_windows(int(sys.argv[2]), number)
        return
    if sys.argv[1:]:
        sizes = [int(word.removeprefix("k=")) for word in sys.argv if word.startswith("k=")] or [2, 5]
        for people in [int(word) for word in sys.argv[1:] if not word.startswith("k=")]:
            group_many(people, sizes)
        return
    print_merges_per_second()
    print_turns()
    print_grouping("random walks", make_walks(10_000, 100, np.random.default_rng(SEED)), (2, 5))
    if CABS.is_file():
        print_grouping("a day of taxis", snap_fixes(read_cabs(), 60, 100.0), (2, 3, 5))
    else:
        print("The taxi data do not lie beside the repository; they are left out.")


if __name__ == "__main__":
    main()
