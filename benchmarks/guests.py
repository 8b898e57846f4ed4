"""What guests bring `tp-aware` on a day of taxis, and how many regions of it and other methods are slivers.

Run with ``./dev bench benchmarks/guests.py``; in memory, from the taxis beside the repository: 2008-06-04 in San
Francisco, half hours. A pick-up is a request of its cab. A sliver is a region ten times as long as wide, or longer.
`sensitive-sites` hides the pick-ups near 75 places of health care; of `mob`, four times of each cab are known.

With ``worlds``: a day and a week of taxis, a city and phone records, k = 5, by `tp-aware` without and with guests,
and by `k-merge` in records of all days and in half hours.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.csv

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import _pickups, k_merge, returning, senders
from benchmarks._data import NETWORK
from dbanon.base.cloaks import Cloaks
from dbanon.base.errors import InfeasibleError
from dbanon.base.trajectory import QuasiIdentifiers, Sites, Trajectories
from dbanon.methods import METHODS
from dbanon.synth import Plan, Scenario, read_network

KS = 2, 5, 20


def describe(cloaks: Cloaks) -> list[float]:
    """Give shares published of half hours and of requests, mean area, median longer side, and the share of slivers."""
    wide, high = (cloaks.bounds[:, 2:] - cloaks.bounds[:, :2]).T
    long = np.maximum(wide, high)
    figures = cloaks.metrics
    return [
        100 * figures["published_share"],
        100 * figures["requests_published"] / figures["requests_total"],
        float((wide * high).mean()) / 1e6,
        float(np.median(long)),
        measure_slivers(cloaks.bounds),
    ]


def measure_slivers(bounds: np.ndarray) -> float:
    wide, high = (bounds[:, 2:] - bounds[:, :2]).T
    return 100 * float((np.maximum(wide, high) > 10 * np.minimum(wide, high)).mean())


def print_other_methods(data: Trajectories) -> None:
    rng, none = np.random.default_rng(1), np.empty(0, np.int64)
    table = pyarrow.csv.read_csv(_pickups.HEALTH)
    sites = _pickups.convert_to_metres(table)
    sites = sites[rng.choice(len(sites), min(75, len(sites)), replace=False)]
    places = Sites(
        site_id=np.arange(len(sites)), site_bounds=np.hstack([sites, sites]), shape_trajectory=none,
        shape_bounds=np.empty((0, 4)),
    )  # fmt: skip
    people = _pickups.make_subjects(_pickups.convert_to_metres(_pickups.read_events("P")))
    family = METHODS["sensitive-sites"]
    for algorithm in ("bk", "mk"):
        for k in (5, 20):
            params = family.parse({"k": k}, algorithm)
            cloaks = family.anonymise(people, algorithm, params, np.random.default_rng(0), sites=places)
            hidden = np.unique(cloaks.bounds[cloaks.crowd > 1], axis=0)
            print(f"sensitive-sites {algorithm} k = {k}: {measure_slivers(hidden):.1f} % of {len(hidden)} regions")
    family, cabs = METHODS["mob"], data.subjects
    known = QuasiIdentifiers(
        subject=np.repeat(np.arange(cabs), 4),
        t=np.concatenate([np.sort(rng.choice(24, 4, replace=False)) * 3600.0 + senders.BEGIN_S for _ in range(cabs)]),
    )
    for k in (2, 5):
        params = family.parse({"k": k})
        cloaks = family.anonymise(data, "symmetric", params, np.random.default_rng(0), quasi_identifiers=known)
        hidden = np.unique(np.column_stack([cloaks.start, cloaks.bounds])[cloaks.crowd > 1], axis=0)[:, 1:]
        print(f"mob k = {k}: {measure_slivers(hidden):.1f} % of {len(hidden)} regions")


def make_city(people: int) -> Trajectories:
    """Two hours of people of whom a third are there at some minutes only."""
    plan = Plan(objects=people, instants=120, seed=2017, whole_share=0.67, requests_per_subject=0, **NETWORK)
    fixes = Scenario.from_plan(plan, read_network(plan)).make_objects(np.arange(people)).fixes
    who = np.arange(people)
    x, y, t = fixes.xym.T.copy()
    return Trajectories(
        trajectory_id=who, subject=who, offset=fixes.offset, t=t, x=x, y=y, srid=32610, grid_m=1.0, grid_s=1
    )


def list_worlds() -> Iterator[tuple[str, Trajectories]]:
    yield "taxis, a day", k_merge.read_cabs()
    yield "taxis, a week", returning.read_week()
    yield "city, 2 hours", make_city(2000)
    yield "phones, a day", k_merge.make_phones(2000)


def print_worlds() -> None:
    print(f"{'':<14}{'':<28}{'left out %':>10} {'side m':>7} {'rows':>10} {'s':>6}")
    for world, data in list_worlds():
        for method, algorithm, given in (
            ("tp-aware", "traj-anon", {"guests": False}),
            ("tp-aware", "traj-anon", {}),
            ("kte", "k-merge", {}),
            ("kte", "k-merge", {"window_s": 1800}),
        ):
            family, began = METHODS[method], time.perf_counter()
            params = family.parse({"k": 5, **given}, algorithm)
            said = f"{world:<14}{f'{algorithm} {given or str()}':<28}"
            try:
                cloaks = family.anonymise(data, algorithm, params, np.random.default_rng(0))
            except InfeasibleError:
                print(f"{said} publishes nothing")
                continue
            took, long = time.perf_counter() - began, (cloaks.bounds[:, 2:] - cloaks.bounds[:, :2]).max(axis=1)
            hours = cloaks.suppressed["by_hour"]
            seen, published = (sum(hour[what] for hour in hours) for what in ("seen", "published"))
            out = 100 - 100 * published / seen
            print(f"{said}{out:>10.1f} {np.median(long):>7,.0f} {cloaks.rows:>10,} {took:>6.1f}", flush=True)


def main() -> None:
    if sys.argv[1:] == ["worlds"]:
        print_worlds()
        return
    if not senders.CABS.is_file():
        print("The taxi data do not lie beside the repository; there is nothing to measure.")
        return
    senders.BEGIN_S, senders.END_S = 1212562800, 1212562800 + 24 * 3600
    data, code = senders.read_taxis()
    requests = senders.read_sent(code)
    print(f"{len(data.t):,} fixes of {len(code)} cabs, {len(requests.t):,} requests")
    print(f"{'k':>2} {'guests':<6} {'half hours %':>12} {'requests %':>10} {'km²':>7} {'side m':>7} {'slivers %':>9}")
    for k in KS:
        for guests in (False, True):
            share, sent, area, side, slivers = describe(senders.run(data, requests, k=k, guests=guests))
            print(f"{k:>2} {guests!s:<6} {share:>12.1f} {sent:>10.1f} {area:>7.2f} {side:>7,.0f} {slivers:>9.1f}")
    print_other_methods(data)


if __name__ == "__main__":
    main()
