"""GenAG: the paper's threshold search beside looking at all pairs sixteen at a time, on objects in Oldenburg's streets.

The nearest 15 (k = 16) of each object, whose own instants are drawn at random of 400. The threshold search is timed on
a sample of the objects, and its seconds are multiplied up; its lists, which all share, are timed apart. Seconds are of
CPU, one core: the cores of a machine share the work. A pair is an object and a candidate.

``python benchmarks/gen_ag.py [OBJECTS...]``; on the built-in city where Oldenburg's files do not lie beside the
repository.
"""

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.papers.mob import find_nearest_by_threshold, sort_lists
from dbanon.base import memory
from dbanon.base.trajectory import QuasiIdentifiers, Trajectories
from dbanon.methods.mob import Parameters, _gen_ag, _positions
from dbanon.options.generating import Plan
from dbanon.synth import Scenario
from dbanon.synth._source import read_network

OLDENBURG = Path(__file__).parents[2] / "shared" / "data" / "oldenburg"
FILES = {name: OLDENBURG / f"oldenburgGen_{name[:-1]}.txt" for name in ("nodes", "edges")}
SEED = 2009
INSTANTS, STEP_S = 400, 10
CLOSEST_COUNT = 15
SAMPLED_OBJECTS = 200
BATCH_OBJECTS = 10_000


def make_positions(objects: int, whole_share: float) -> _positions.Positions:
    """Aligned cells of 1 m, of objects whose quasi-identifiers are all instants at which they are."""
    plan = Plan(
        objects=objects, instants=INSTANTS, step_s=STEP_S, start=0, whole_share=whole_share, seed=SEED,
        requests_per_subject=0, **(FILES if OLDENBURG.is_dir() else {}),
    )  # fmt: skip
    scenario = Scenario.from_plan(plan, read_network(plan))
    made = [
        scenario.make_objects(np.arange(first, min(first + BATCH_OBJECTS, objects)))[0]
        for first in range(0, objects, BATCH_OBJECTS)
    ]
    offset = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(one.offset) for one in made]))])
    x, y, t = np.concatenate([one.xym for one in made]).T.copy()
    data = Trajectories(
        trajectory_id=np.arange(objects), subject=np.arange(objects), offset=offset, t=t, x=x, y=y, srid=32632,
        grid_m=1.0, grid_s=1,
    )  # fmt: skip
    everything = QuasiIdentifiers(subject=np.repeat(np.arange(objects), np.diff(offset)), t=t)
    rank = np.random.default_rng(SEED).permutation(objects)
    positions, _ = _positions.find(data, Parameters(step_s=STEP_S, max_gap_s=STEP_S), rank, everything)
    return positions


def draw_known(whole: _positions.Positions, most: int) -> _positions.Positions:
    """The same with 1 to `most` own instants for each, at random."""
    rng = np.random.default_rng(SEED)
    there = _positions.unpack_presence(whole)
    chance = np.where(there, rng.random(there.shape), 2)
    wanted = np.minimum(rng.integers(1, most + 1, len(there)), there.sum(axis=1))
    least = np.take_along_axis(np.sort(chance, axis=1), (wanted - 1)[:, None], axis=1)
    own = chance <= least
    owner, instant = np.nonzero(own)
    return _positions.Positions(**{
        **vars(whole), "own": _positions._pack_words(own), "instant": instant.astype(np.int32),
        "offset": np.searchsorted(owner, np.arange(len(own) + 1)),
    })  # fmt: skip


def measure(of: _positions.Positions, share: float) -> None:
    place = _positions.number_places(of)
    who, among = np.flatnonzero(np.diff(of.offset)), np.ones(len(of.subject), bool)
    sample = who[:: max(1, len(who) // SAMPLED_OBJECTS)]
    _gen_ag.find_nearest(of, place, who[:2], CLOSEST_COUNT, among)  # compiled
    find_nearest_by_threshold(of, place, who[:2], CLOSEST_COUNT, among)
    began, used = time.perf_counter(), time.process_time()
    fast = _gen_ag.find_nearest(of, place, who, CLOSEST_COUNT, among)
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - used
    order, asked = _gen_ag.order_candidates(of, among), _gen_ag.number_columns(of, who)[1]
    used = time.process_time()
    sort_lists(of, place, order, asked)
    lists_s = time.process_time() - used
    used = time.process_time()
    plain = find_nearest_by_threshold(of, place, sample, CLOSEST_COUNT, among)
    searched_s = max(time.process_time() - used - lists_s, 0) / len(sample) * len(who)
    same = bool((plain == fast[:: max(1, len(who) // SAMPLED_OBJECTS)]).all())
    pairs_ns = cpu_s / len(who) / len(among) * 1e9
    print(
        f"{len(who):>8,}{share:>7.0%}{np.diff(of.offset).mean():>7.1f}{lists_s:>9.1f}{searched_s:>11.0f}{cpu_s:>9.1f}"
        f"{seconds:>9.1f}{pairs_ns:>9.2f}{(searched_s + lists_s) / cpu_s:>8.0f}{memory.measure_peak_mb():>9.0f}   "
        f"{same}",
        flush=True,
    )


def main() -> None:
    print(f"threshold: lists and search (of {SAMPLED_OBJECTS}, multiplied up); all pairs: CPU s, seconds, ns a pair")
    heads = ("whole", "mean p", "lists s", "search s", "all s", "wall s", "ns", "ratio", "peak MB")
    print(
        f"{'n':>8}" + "".join(f"{h:>{w}}" for h, w in zip(heads, (7, 7, 9, 11, 9, 9, 9, 8, 9), strict=True)) + "   same"
    )
    for objects in [int(word) for word in sys.argv[1:]] or [5_000, 20_000]:
        for share in (1.0, 0.8):
            whole = make_positions(objects, share)
            for most in (10, 40, 200) if share == 1 else (40,):
                measure(draw_known(whole, most), share)


if __name__ == "__main__":
    main()
