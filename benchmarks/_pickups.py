"""Pick-ups and drop-offs of San Francisco's taxis in a box around the city and its airport, and sites to hide from.

They lie beside the repository (``../shared/data``); where they do not, there is nothing to measure.
"""

import csv
import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from pyproj import Transformer

from dbanon.base.trajectory import Sites, Trajectories

DATA = Path(__file__).parents[2] / "shared" / "data"
EVENTS = DATA / "cabspotting" / "pickups_dropoffs.csv.gz"
HEALTH = DATA / "sf_pois" / "sf_health_care_facilities.csv"
WORSHIP = DATA / "sf_pois" / "bayarea_osm_religion_community_events.csv.gz"
BOX = (-122.53, 37.59, -122.35, 37.84)
SRID = 32610
Table = pa.Table


def read_events(kind: str) -> Table:
    """Read pick-ups (P) or drop-offs (D) in the box: cab_id, t, lat, lon."""
    table = pyarrow.csv.read_csv(EVENTS)
    lon, lat = table["lon"], table["lat"]
    inside = pc.and_(
        pc.and_(pc.greater(lon, BOX[0]), pc.less(lon, BOX[2])), pc.and_(pc.greater(lat, BOX[1]), pc.less(lat, BOX[3]))
    )
    return table.filter(pc.and_(pc.equal(table["event"], kind), inside))


def convert_to_metres(table: Table) -> np.ndarray:
    """Positions in UTM zone 10: float64[n, 2]."""
    transform = Transformer.from_crs(4326, SRID, always_xy=True).transform
    return np.column_stack(transform(table["lon"].to_numpy(), table["lat"].to_numpy()))


def make_subjects(positions: np.ndarray) -> Trajectories:
    """Each position a subject of its own."""
    n = len(positions)
    return Trajectories(
        trajectory_id=np.arange(n),
        subject=np.arange(n),
        offset=np.arange(n + 1),
        t=np.zeros(n),
        x=positions[:, 0].copy(),
        y=positions[:, 1].copy(),
        srid=SRID,
        grid_m=1.0,
        grid_s=1,
    )


def draw_sites(positions: np.ndarray, m: int, rng: np.random.Generator) -> Sites:
    """Draw sites among positions."""
    drawn = positions[rng.choice(len(positions), m, replace=False)]
    none = np.empty(0, np.int64)
    return Sites(
        site_id=np.arange(m), site_bounds=np.hstack([drawn, drawn]), shape_trajectory=none,
        shape_bounds=np.empty((0, 4)),
    )  # fmt: skip


def write_subjects(file: Path) -> int:
    """Write the pick-ups as a file to load; their number."""
    table = read_events("P")
    pyarrow.csv.write_csv(table.select(["t", "lon", "lat"]), file)
    return len(table)


def write_worship(file: Path) -> int:
    """Write San Francisco's places of worship as a file to load; their number."""
    with gzip.open(WORSHIP, "rt", newline="") as source, file.open("w", newline="") as target:
        rows = [r for r in csv.DictReader(source) if (r["group"], r["county"]) == ("religion", "san_francisco")]
        writer = csv.DictWriter(target, ["name", "lon", "lat"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return len(rows)


def write_drawn(file: Path, m: int, seed: int) -> None:
    """Write drop-offs drawn at random as a file of sites."""
    table = read_events("D")
    drawn = np.random.default_rng(seed).choice(len(table), m, replace=False)
    pyarrow.csv.write_csv(table.select(["lon", "lat"]).take(pa.array(np.sort(drawn))), file)
