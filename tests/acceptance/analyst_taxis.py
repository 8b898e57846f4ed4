"""San Francisco's taxis of 2008-06-04, published by every family: some of them in a morning, or all of the day.

Pick-ups are requests, hospitals are sensitive sites; an adversary knows each taxi at up to ten of its own times.
"""

import csv
import gzip
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from benchmarks.semantic import BOX, DATA, read_points_of_interest
from tests.acceptance.analyst_places import Place

CABS = DATA / "cabspotting" / "cabs_20080604.csv.gz"
PICK_UPS = DATA / "cabspotting" / "pickups_dropoffs.csv.gz"
HOSPITALS = DATA / "sf_pois" / "sf_health_care_facilities.csv"
TOWERS = DATA / "sf_cell_towers" / "cell_towers_san_francisco.csv.gz"
CORNER, SIDE_M = np.array([542_000.0, 4_173_000.0]), 12_000
TIME_TEMPLATE = "2008-06-04T{}:00Z"
START_S = 1_212_562_800  # 07:00 UTC, midnight there
SOME_TIME = ("-p", "k=2", "-p", "tau_s=1800", "-p", "leak_s=1800")
SEMANTIC = ("semantic", "-p", "k=2", "-p", "l=6", "-p", "t=0.01")


def write(folder: Path, since: float, until: float, every: int = 1) -> None:
    """Write the files of taxis between two times: one of `every` so many of them, and as few of others."""
    fixes = pacsv.read_csv(CABS)
    fixes = fixes.filter(_select_fixes(fixes, every, since, until)).select(["cab_id", "t", "lon", "lat"])
    pick_ups = pacsv.read_csv(PICK_UPS)
    pick_ups = pick_ups.filter(pc.and_(_select_fixes(pick_ups, every, since, until), pc.equal(pick_ups["event"], "P")))
    pacsv.write_csv(fixes.rename_columns(["subject", "time", "x", "y"]), folder / "trips.csv")
    pick_ups = pick_ups.select(["cab_id", "t", "event"]).rename_columns(["subject", "time", "event"])
    pacsv.write_csv(pick_ups, folder / "requests.csv")

    rng = np.random.default_rng(18)
    cab, t = fixes["cab_id"].to_numpy(), fixes["t"].to_numpy()
    known = [(one, rng.choice(t[cab == one], rng.integers(1, 11))) for one in np.unique(cab)]
    rows = {
        "known": ["subject,time", *(f"{one},{second}" for one, times in known for second in np.unique(times))],
        "sites": [
            "name,x,y",
            *(f"{row['uid']},{row['lon']},{row['lat']}" for row in _read_rows(HOSPITALS)[:: 2 * every]),
        ],
        "stations": ["x,y", *(f"{row['lon']},{row['lat']}" for row in _read_rows(TOWERS)[::every])],
        "pois": ["category,x,y", *(f"{kind},{x},{y}" for x, y, kind in read_points_of_interest() if _is_in_box(x, y))],
    }
    for name, lines in rows.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def _select_fixes(table: pa.Table, every: int, since: float, until: float) -> np.ndarray:
    cab, t = table["cab_id"].to_numpy(), table["t"].to_numpy()
    return pa.array((cab % every == 0) & (t >= since) & (t < until))


def _read_rows(file: Path) -> list[dict[str, str]]:
    opened: Callable = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def _is_in_box(x: str, y: str) -> bool:
    return bool(x and y) and BOX[0] < float(x) < BOX[2] and BOX[1] < float(y) < BOX[3]


def _list_runs(at: str) -> dict[str, tuple[str, ...]]:
    return {
        "sites": ("sensitive-sites", "-p", "k=5", "-p", f"at={TIME_TEMPLATE.format(at)}"),
        "mob": ("mob", "-p", "k=5", "-p", "qid_only=off"),
        "kte": ("kte", *SOME_TIME),
        "kte_groups": ("kte", "--algorithm", "k-merge", "-p", "k=2"),
        "semantic": SEMANTIC,
    }


SOME_TAXIS = Place(
    "taxis", 4326, "event", partial(write, since=START_S + 8 * 3600, until=START_S + 11 * 3600, every=6),
    CORNER, SIDE_M,
    {"tp": ("tp-aware", "-p", "k=5"), **_list_runs("16:30")},
)  # fmt: skip
ALL_TAXIS = Place(
    "cabs", 4326, "event", partial(write, since=START_S, until=START_S + 24 * 3600), CORNER, SIDE_M,
    {"cabs_k5": ("tp-aware", "-p", "k=5"), "cabs_k20": ("tp-aware", "-p", "k=20"), **_list_runs("17:30")},
)  # fmt: skip
