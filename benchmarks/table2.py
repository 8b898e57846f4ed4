"""Table II of the k-merge paper again: random k-tuples merged by k-merge, statically, by W4M and by GLOVE.

On San Francisco's taxis, every fix snapped to the nearest base station as a phone's would be: a subject is a cab-day,
those of the week are laid on one day, and a tuple has no cab twice; then with about one sample an hour of each, as
many as the paper's subjects have. And on phone records of 10,000 people, as ``dbanon synth --calls-per-day 24`` makes
them, on the streets of San Francisco. Slots are a minute, cells 100 m. The taxis lie beside the repository
(``../shared/data``).

Time and space are means over the generalised samples a method gives: minutes, and km along x and along y together. W4M
gives points; its generalised samples are here what would hold the samples that it moves to one time, where they were.
Deleted and created are in percent of the samples there were. Static generalisation merges a sample if all others of
the tuple have one in the same coarse slot and cell. (The paper's success rates, such as 0.7 % of 100 tuples, cannot
count whole tuples.)
"""

import csv
import gzip
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet
from _data import NETWORK
from pyproj import Transformer
from scipy.spatial import cKDTree

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.papers.kte import glove, static, w4m
from dbanon.base.trajectory import Trajectories
from dbanon.methods.kte import _k_merge
from dbanon.methods.kte._samples import Merged, Samples, snap_fixes
from dbanon.options.generating import Plan
from dbanon.synth import Scenario
from dbanon.synth._source import read_network

DATA = Path(__file__).parents[2] / "shared" / "data"
TAXIS = DATA / "cabspotting" / "cabs_20080602_08.parquet"
TOWERS = DATA / "sf_cell_towers" / "cell_towers_san_francisco.csv.gz"
SRID = 32610
MIDNIGHT_S = 1_212_390_000  # 2008-06-02 00:00 in San Francisco
DAY_S = 86_400
GRID_S, GRID_M = 60, 100.0
TUPLE_COUNT = 100
SEED = 2017
PEOPLE, CALLS, AT_ONCE = 10_000, 24.0, 1_000


def read_base_stations() -> tuple[np.ndarray, np.ndarray]:
    """Positions in degrees and in metres: float64[n, 2] each, x first."""
    with gzip.open(TOWERS, "rt", newline="") as file:
        degrees = np.array([(float(row["lon"]), float(row["lat"])) for row in csv.DictReader(file)])
    metres = Transformer.from_crs(4326, SRID, always_xy=True).transform(degrees[:, 0], degrees[:, 1])
    return degrees, np.column_stack(metres)


def read_cab_days() -> tuple[Trajectories, np.ndarray]:
    """The week, a trajectory a cab-day, with times of the first day; the cab of each."""
    table = pyarrow.parquet.read_table(TAXIS)
    cab, t, lon, lat = (table[name].to_numpy() for name in ("cab_id", "t", "lon", "lat"))
    degrees, stations = read_base_stations()
    low, high = degrees.min(0), degrees.max(0)
    inside = (lon >= low[0]) & (lon <= high[0]) & (lat >= low[1]) & (lat <= high[1])
    day = (t - MIDNIGHT_S) // DAY_S
    inside &= (day >= 0) & (day < 7)
    cab, t, lon, lat, day = (values[inside] for values in (cab, t, lon, lat, day))
    order = np.lexsort((t, day, cab))
    cab, t, day = (values[order].astype(np.int64) for values in (cab, t, day))
    lon, lat = lon[order], lat[order]
    new = np.ones(len(t), bool)
    new[1:] = (np.diff(cab) != 0) | (np.diff(t) != 0)  # a cab's fixes of one second count once
    cab, t, lon, lat, day = (values[new] for values in (cab, t, lon, lat, day))
    positions = np.column_stack(Transformer.from_crs(4326, SRID, always_xy=True).transform(lon, lat))
    x, y = stations[cKDTree(stations).query(positions)[1]].T
    start = np.flatnonzero(np.diff(cab * 7 + day, prepend=-1))
    n = len(start)
    data = Trajectories(
        trajectory_id=np.arange(n), subject=np.arange(n), offset=np.append(start, len(t)),
        t=(t - day * DAY_S).astype(float), x=x.copy(), y=y.copy(), srid=SRID, grid_m=GRID_M, grid_s=GRID_S,
    )  # fmt: skip
    return data, cab[start]


def make_phone_records() -> Trajectories:
    """A day of people who call and write now and then. Some are made at a time: all their ways take much memory."""
    plan = Plan(
        objects=PEOPLE, instants=DAY_S // GRID_S, step_s=GRID_S, start=MIDNIGHT_S, seed=SEED, requests_per_subject=0,
        calls_per_day=CALLS, **NETWORK,
    )  # fmt: skip
    scenario = Scenario.from_plan(plan, read_network(plan))
    made = [scenario.make_objects(np.arange(low, low + AT_ONCE))[0] for low in range(0, PEOPLE, AT_ONCE)]
    number, xym = np.concatenate([part.number for part in made]), np.concatenate([part.xym for part in made])
    size = np.concatenate([np.diff(part.offset) for part in made])
    x, y, t = xym.T.copy()
    return Trajectories(
        trajectory_id=number, subject=number, offset=np.cumsum([0, *size]), t=t, x=x, y=y, srid=SRID, grid_m=GRID_M,
        grid_s=GRID_S,
    )  # fmt: skip


def take(whole: Samples, subjects: np.ndarray, kept: np.ndarray | None = None) -> Samples:
    """Give some subjects, in the order given; of their samples those `kept`."""
    parts = [np.arange(whole.offset[one], whole.offset[one + 1]) for one in subjects]
    if kept is not None:
        parts = [part[kept[part]] for part in parts]
    at = np.concatenate(parts)
    return replace(
        whole, subject=np.arange(len(subjects)), offset=np.cumsum([0, *map(len, parts)]), slot=whole.slot[at],
        x=whole.x[at], y=whole.y[at],
    )  # fmt: skip


def thin_samples(whole: Samples, rng: np.random.Generator) -> tuple[Samples, np.ndarray]:
    """Keep samples at random, 24 a subject in the mean; the subjects that have any."""
    kept = rng.random(len(whole.slot)) < 24 * len(whole.subject) / len(whole.slot)
    some = np.flatnonzero(np.add.reduceat(kept, whole.offset[:-1]))
    return take(whole, some, kept), some


def draw_tuples(person: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Draw positions of subjects, no person twice in a tuple: int64[TUPLES, k]."""
    people = np.unique(person)
    drawn = (rng.choice(people, k, replace=False) for _ in range(TUPLE_COUNT))
    return np.array([[rng.choice(np.flatnonzero(person == one)) for one in these] for these in drawn])


def measure_spans(merged: list[Merged]) -> list[float]:
    """Minutes and km, in the mean over all generalised samples."""
    slots = np.concatenate([one.last - one.first + 1 for one in merged])
    box = np.concatenate([one.box for one in merged])
    cells = box[:, 2] - box[:, 0] + 1 + box[:, 3] - box[:, 1] + 1
    return [float(slots.mean()) * GRID_S / 60, float(cells.mean()) * GRID_M / 1000]


def measure_k_merge(whole: Samples, drawn: np.ndarray) -> list[float]:
    who = drawn.ravel()
    offset = np.arange(0, len(who) + 1, drawn.shape[1])
    return measure_spans([_k_merge.merge(whole, offset, whole.offset[who], whole.offset[who + 1])])


def measure_static(whole: Samples, drawn: np.ndarray) -> list[float]:
    return [100 * measure_alike(whole, drawn, *level) for level in static.LEVELS.values()]


def measure_alike(whole: Samples, drawn: np.ndarray, level_s: int, level_m: float) -> float:
    """Share of samples in whose coarse slot and cell all of the tuple have one."""
    slots, cells = static.count_per_coarse(whole, level_s, level_m)
    coarse = np.column_stack([whole.slot // slots, whole.x // cells, whole.y // cells])
    merged = there = 0
    for who in drawn:
        parts = [coarse[whole.offset[one] : whole.offset[one + 1]] for one in who]
        places = [set(map(tuple, part.tolist())) for part in parts]
        common = set.intersection(*places)
        merged += sum(tuple(sample) in common for part in parts for sample in part.tolist())
        there += sum(map(len, parts))
    return merged / there


def measure_w4m(whole: Samples, drawn: np.ndarray) -> list[float]:
    """Deleted, created, minutes and km; the first of a tuple, which was drawn at random, is the pivot."""
    parts = [take(whole, who) for who in drawn]
    edited = [w4m.edit(part, [np.arange(len(part.subject))], w4m.DELTA_M) for part in parts]
    there = sum(len(part.slot) for part in parts)
    deleted, created = (sum(one.counts[name] for one in edited) for name in ("deleted", "created"))
    moved = [
        make_hulls(part, one.source.reshape(len(part.subject), -1)) for part, one in zip(parts, edited, strict=True)
    ]
    return [100 * deleted / there, 100 * created / there, *measure_spans(moved)]


def make_hulls(part: Samples, source: np.ndarray) -> Merged:
    """What holds the samples of each column, where they were; -1 is none."""
    columns = part.slot, part.x, part.y
    low = [np.where(source < 0, np.iinfo(np.int64).max, values[source]).min(0) for values in columns]
    high = [np.where(source < 0, np.iinfo(np.int64).min, values[source]).max(0) for values in columns]
    return Merged(
        offset=np.array([0, source.shape[1]]), first=low[0], last=high[0], box=np.column_stack(low[1:] + high[1:])
    )


def measure_glove(whole: Samples, drawn: np.ndarray) -> list[float]:
    k = drawn.shape[1]
    return measure_spans([glove.group_by_glove(take(whole, who), k, np.arange(k))[1] for who in drawn])


METHODS = {"k-merge": measure_k_merge, "static": measure_static, "w4m": measure_w4m, "glove": measure_glove}
HEADER = (
    f"{'':3}{'k-merge':^16}{'static, merged %':^24}{f'W4M, delta {w4m.DELTA_M:.0f} m':^32}{'GLOVE':^16}{'CPU s':^32}\n"
    f"{'k':>3}{'min':>8}{'km':>8}{'2h-4km':>8}{'4h-10km':>8}{'8h-20km':>8}{'del %':>8}{'new %':>8}{'min':>8}{'km':>8}"
    f"{'min':>8}{'km':>8}" + "".join(f"{name:>8}" for name in METHODS)
)


def print_table(title: str, whole: Samples, person: np.ndarray) -> None:
    size = np.diff(whole.offset)
    print(f"\n{title}: {len(size):,} subjects, {size.mean():,.0f} samples each in the mean; seeds {SEED} + k")
    shares = [f"{100 * static.group_statically(whole, 2, *level)[2]:.1f}" for level in static.LEVELS.values()]
    print(f"static generalisation leaves this % of all subjects alike with another: {', '.join(shares)}")
    print(HEADER)
    for k in (2, 5, 8):
        drawn = draw_tuples(person, k, np.random.default_rng(SEED + k))
        figures, seconds = [], []
        for method in METHODS.values():
            began = time.process_time()
            figures += method(whole, drawn)
            seconds.append(time.process_time() - began)
        cells = [f"{value:8.1f}" for value in figures]
        for place in (1, 8, 10):  # km
            cells[place] = f"{figures[place]:8.3f}"
        print(f"{k:>3}" + "".join(cells) + "".join(f"{value:8.2f}" for value in seconds), flush=True)


def main() -> None:
    phones = snap_fixes(make_phone_records(), GRID_S, GRID_M)
    few = np.arange(4)
    for method in METHODS.values():  # compiled before it is timed
        method(take(phones, few), np.array([few]))
    if TAXIS.is_file():
        data, cab = read_cab_days()
        whole = snap_fixes(data, GRID_S, GRID_M)
        print_table("the week's cab-days", whole, cab)
        sparse, some = thin_samples(whole, np.random.default_rng(SEED))
        print_table("the week's cab-days, a sample an hour", sparse, cab[some])
    else:
        print("The taxi data do not lie beside the repository; they are left out.")
    print_table("generated phone records", phones, phones.subject)


if __name__ == "__main__":
    main()
