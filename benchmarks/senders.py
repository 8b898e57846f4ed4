"""What tp-aware's promise leaves open, on an evening of taxis: the default start, linked requests, known senders.

Run with ``./dev bench benchmarks/senders.py``; in memory, from the taxis beside the repository. A pick-up of 2008-06-04
is a request of its cab for one of eight kinds of places, drawn with the shares of the generator's centre.
"""

import csv
import gzip
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from pyproj import Transformer

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks._pickups import DATA, SRID
from dbanon import methods
from dbanon.base.cloaks import Cloaks
from dbanon.base.trajectory import Requests, Trajectories
from dbanon.synth._requests import DISTRICTS, POI_CATEGORIES

CABS, EVENTS = (DATA / "cabspotting" / name for name in ("cabs_20080604.csv.gz", "pickups_dropoffs.csv.gz"))
BEGIN_S = 1212562800 + 18 * 3600  # 18:00 in San Francisco
END_S = BEGIN_S + 3 * 3600
FAMILY = methods.find_method("tp-aware")


def read_evening(file: Path) -> list[dict[str, str]]:
    with gzip.open(file, "rt", newline="") as source:
        return [row for row in csv.DictReader(source) if BEGIN_S <= float(row["t"]) < END_S]


def read_taxis() -> tuple[Trajectories, dict[str, int]]:
    """One trajectory a cab, cells of a metre; far positions left out."""
    fixes = [row for row in read_evening(CABS) if 36 < float(row["lat"]) < 39 and -124 < float(row["lon"]) < -120]
    code = {cab: number for number, cab in enumerate(sorted({row["cab_id"] for row in fixes}))}
    transform = Transformer.from_crs(4326, SRID, always_xy=True).transform
    x, y = transform([float(row["lon"]) for row in fixes], [float(row["lat"]) for row in fixes])
    rows = np.array([(code[row["cab_id"]], float(row["t"])) for row in fixes])
    table = np.unique(np.column_stack((rows, np.floor(x), np.floor(y))), axis=0)
    table = table[np.append(True, (np.diff(table[:, :2], axis=0) != 0).any(axis=1))]  # one fix a second
    cab = table[:, 0].astype(np.int64)
    offset = np.searchsorted(cab, np.arange(len(code) + 1))
    number, (t, x, y) = np.arange(len(code)), (table[:, column].copy() for column in (1, 2, 3))
    return Trajectories(
        trajectory_id=number, subject=number, offset=offset, t=t, x=x, y=y, srid=SRID, grid_m=1.0, grid_s=1
    ), code


def read_sent(code: dict[str, int]) -> Requests:
    rows = [row for row in read_evening(EVENTS) if row["event"] == "P"]
    share = np.array(DISTRICTS["centre"]) / sum(DISTRICTS["centre"])
    return Requests(
        subject=np.array([code.get(row["cab_id"], -1) for row in rows], np.int64),
        t=np.array([float(row["t"]) for row in rows]),
        content=np.random.default_rng(1).choice(len(share), len(rows), p=share),
        contents=tuple(f'{{"poi": "{kind}"}}' for kind in sorted(POI_CATEGORIES)),
    )


def run(data: Trajectories, requests: Requests, **given: Any) -> Cloaks:
    params = FAMILY.parse(given)
    return FAMILY.attach(
        FAMILY.anonymise(data, "traj-anon", params, np.random.default_rng(0)), data, params, requests=requests
    )


def list_bundles(cloaks: Cloaks) -> dict[int, dict[int, frozenset[int]]]:
    """The bundle of each cab by the start of each window."""
    bundles: dict[int, dict[int, frozenset[int]]] = {}
    for record, members in enumerate(
        np.split(cloaks.member_trajectory, np.cumsum(np.bincount(cloaks.member_record))[1:-1])
    ):
        own = frozenset(members.tolist())
        bundles.setdefault(int(cloaks.start[cloaks.offset[record]]), {}).update(dict.fromkeys(own, own))
    return bundles


def measure_linked(cloaks: Cloaks, windows: int, k: int) -> tuple[float, float]:
    """Shares of cabs left among fewer than k, and alone, by who intersects their bundles of successive windows."""
    parts = [own for _, own in sorted(list_bundles(cloaks).items())]
    left = [
        len(frozenset.intersection(*(part[cab] for part in run)))
        for run in zip(*(parts[at:] for at in range(windows)), strict=False)
        for cab in set.intersection(*(set(part) for part in run))
    ]
    return float(np.mean(np.array(left) < k)), float(np.mean(np.array(left) == 1))


def measure_alone(cloaks: Cloaks, requests: Requests) -> float:
    """The share of published requests that stand in a row of one content."""
    window = list_bundles(cloaks)
    starts, record = np.array(sorted(window)), {}
    for number, (begin, end) in enumerate(pairwise(cloaks.offset.tolist())):
        for cab in cloaks.member_trajectory[cloaks.member_record == number + 1].tolist():
            record[int(cloaks.start[begin]), cab] = (begin, end)
    single = []
    for cab, t in zip(requests.subject.tolist(), requests.t.tolist(), strict=True):
        at = np.searchsorted(starts, t, side="right") - 1
        begin, end = record.get((int(starts[at]), cab), (0, 0)) if at >= 0 else (0, 0)
        row = begin + int(np.searchsorted(cloaks.start[begin:end], t, side="right")) - 1
        if begin <= row < end and t < cloaks.end[row] and cloaks.extra[row] >= 0:
            single.append(cloaks.extras[cloaks.extra[row]].count('"poi"') == 1)
    return float(np.mean(single))


def main() -> None:
    if not CABS.is_file():
        print("The taxi data do not lie beside the repository; there is nothing to measure.")
        return
    data, code = read_taxis()
    requests = read_sent(code)
    print(
        f"{len(data.t):,} fixes of {len(code)} cabs in three hours, {len(requests.t):,} requests; windows of 30 minutes"
    )
    first = int(data.t.min() // 60 * 60)
    print(f"\n{'start, k = 5':<30}{'of subject-windows':>20}{'of requests':>14}{'median long m':>16}")
    for what, given in (("data's first slot", {"start": first}), ("max_gap_s later (default)", {})):
        metrics = run(data, requests, k=5, **given).metrics
        share = metrics["requests_published"] / metrics["requests_total"]
        print(f"{what:<30}{metrics['published_share']:>20.1%}{share:>14.1%}{metrics['longer_side_50_m']:>16.0f}")
    print(f"\n{'k':>3} {'windows linked':>16} {'below k':>10} {'one left':>10}")
    for k in (5, 10, 20):
        cloaks = run(data, requests, k=k)
        for windows in (2, 3):
            below, one = measure_linked(cloaks, windows, k)
            print(f"{k:>3} {windows:>16} {below:>10.0%} {one:>10.0%}")
    print("\nrows with requests: median side and minutes")
    heads = ("in a row of one content", "rows without", "requests lost", "rows", "side m", "minutes")
    print(f"\n{'k':>3} {'min_contents':>13}" + "".join(f"{head:>{len(head) + 3}}" for head in heads))
    for k in (3, 5, 10, 20):
        for least in (1, 2, 3):
            cloaks = run(data, requests, k=k, min_contents=least)
            lost = cloaks.suppressed["requests"].get("bundle_below_min_contents", 0)
            lost /= lost + cloaks.metrics["requests_published"]
            some = cloaks.extra >= 0
            side = np.sqrt((cloaks.bounds[some, 2:] - cloaks.bounds[some, :2]).prod(axis=1))
            minutes = (cloaks.end - cloaks.start)[some] / 60
            figures = (
                f"{measure_alone(cloaks, requests):.0%}",
                f"{1 - some.mean():.0%}",
                f"{lost:.1%}",
                f"{cloaks.rows:,}",
            )
            figures += (f"{np.median(side):,.0f}", f"{np.median(minutes):.0f}")
            shown = "".join(f"{value:>{len(head) + 3}}" for head, value in zip(heads, figures, strict=True))
            print(f"{k:>3} {least:>13}{shown}")


if __name__ == "__main__":
    main()
