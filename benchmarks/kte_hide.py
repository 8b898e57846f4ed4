"""kte-hide on generated phone records: time, memory, what is suppressed, granularity; candidates against all pairs.

Records of a day: calls and messages at the towers of a grid near homes and work, in bursts, few at night. tau = leak =
30 min, k = 2. "km" is the sum of the spans of a generalised sample, "min" its minutes: median and mean. Each runs once.
``python benchmarks/kte_hide.py [PEOPLE...]`` runs 1,000 and 10,000 people, or those named.
"""

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from dbanon import _memory
from dbanon.methods.kte import _samples
from dbanon.methods.kte._hide import Hidden, _clusters, hide
from dbanon.methods.kte._samples import Samples
from dbanon.trajectory import Trajectories

SEED = 2017
HOURS = np.array([1, 0.6, 0.4, 0.3, 0.3, 0.6, 2, 4, 6, 7, 8, 9, 9, 8, 7, 7, 8, 9, 10, 10, 8, 6, 4, 2])


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What `hide` is asked for."""

    k: int = 2
    tau_s: int = 1800
    leak_s: int = 1800
    clusters: int | None = None
    reuse: str = "never"
    consistency: str = "k-pick"
    improve: bool = True


def records(people: int, rng: np.random.Generator) -> Samples:
    """About 1 burst an hour by day, each of 1 to 4 events within minutes, at home, at work, or between."""
    side, apart = 20, 1000.0
    home, work = (rng.normal(side / 2, side / 5, (people, 2)).clip(0, side - 1) for _ in range(2))
    active = rng.gamma(2, 12, people)
    bursts = rng.poisson(active)
    who = np.repeat(np.arange(people), bursts)
    hour = rng.choice(24, len(who), p=HOURS / HOURS.sum())
    begin = hour * 3600 + rng.random(len(who)) * 3600
    at_work = (hour >= 9) & (hour < 17) & (rng.random(len(who)) < 0.8)
    tower = np.where(at_work[:, None], work[who], home[who])
    moving = rng.random(len(who)) < 0.2
    share = rng.random(len(who))[:, None]
    tower = np.where(moving[:, None], share * home[who] + (1 - share) * work[who], tower)
    events = rng.integers(1, 5, len(who))
    who, begin, tower = np.repeat(who, events), np.repeat(begin, events), np.repeat(tower, events, axis=0)
    t = np.minimum(86_399, np.floor(begin + rng.exponential(120, len(who))))
    x, y = (np.round(tower + rng.normal(0, 0.3, tower.shape)).clip(0, side - 1) * apart).T
    order = np.lexsort((t, who))
    who, t, x, y = who[order], t[order], x[order], y[order]
    new = np.ones(len(who), bool)
    new[1:] = (who[1:] != who[:-1]) | (t[1:] != t[:-1])
    who, t, x, y = who[new], t[new], x[new], y[new]
    codes, first = np.unique(who, return_index=True)
    data = Trajectories(
        trajectory_id=codes + 1, subject=codes, offset=np.append(first, len(who)), t=t + 1.5e9 // 86_400 * 86_400,
        x=x, y=y, srid=32630, grid_m=100.0, grid_s=60,
    )  # fmt: skip
    return _samples.samples(data, 60, 100.0)


def measure(samples: Samples, setting: Setting) -> tuple[str, Hidden]:
    people = int(samples.subject.max()) + 1
    rank = np.random.default_rng(SEED).permutation(people)
    began = time.perf_counter()
    hidden = hide(samples, setting, rank, np.random.default_rng(SEED))
    seconds = time.perf_counter() - began
    number = hidden.run_end - hidden.run_begin
    merged, box = hidden.merged, hidden.merged.box
    spatial = (box[:, 2] - box[:, 0] + box[:, 3] - box[:, 1] + 2) * samples.grid_m / 1000
    temporal = (merged.last - merged.first + 1) * samples.grid_s / 60
    left_out = 100 * number[~hidden.kept].sum() / number.sum()
    cost = (spatial * temporal).sum() / number[hidden.kept].sum()
    figures = f"{seconds:>8.1f} {_memory.peak_mb():>8,.0f} {left_out:>8.2f} {np.median(spatial):>8.2f}"
    figures += f" {spatial.mean():>8.2f} {np.median(temporal):>8.1f} {temporal.mean():>8.1f} {cost:>9.1f}"
    return figures, hidden


def main(sizes: list[int]) -> None:
    names = ("s", "MB", "out %", "km", "mean km", "min", "mean min", "km min/n")
    print(f"{'people':>7} {'samples':>9} {'':<22}" + " ".join(f"{name:>8}" for name in names))
    measure(records(60, np.random.default_rng(1)), Setting())  # compiles
    for people in sizes:
        samples = records(people, np.random.default_rng(SEED))
        plain = Setting(improve=False)
        runs = {"plain": plain, "improve": Setting()}
        if people <= 1000:
            runs |= {"full": replace(plain, consistency="full"), "k = 5": replace(plain, k=5),
                     "k = 5, improve": Setting(k=5), "k = 5, apart": replace(plain, k=5, reuse="apart")}  # fmt: skip
        for name, setting in runs.items():
            print(f"{people:>7} {len(samples.slot):>9,} {name:<22}{measure(samples, setting)[0]}", flush=True)
        if people <= 1000:
            for pairs in (10**9, 0):
                kept, _clusters.ALL_PAIRS = _clusters.ALL_PAIRS, pairs
                name = "plain, all pairs" if pairs else "plain, candidates"
                print(f"{people:>7} {len(samples.slot):>9,} {name:<22}{measure(samples, plain)[0]}", flush=True)
                _clusters.ALL_PAIRS = kept


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [1_000, 10_000])
