"""San Francisco's cell towers, points of interest and taxis, and the streets of Oldenburg as far as they are places."""

import gzip
import time
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from dbanon.database import open_database

from .conftest import REAL_DATA

pytestmark = pytest.mark.db
TOWERS = REAL_DATA / "sf_cell_towers" / "cell_towers_san_francisco.csv.gz"
AMENITIES = REAL_DATA / "sf_pois" / "sf_osm_amenities.csv.gz"
FOOD = REAL_DATA / "sf_pois" / "sf_food_businesses.csv.gz"
CABS = REAL_DATA / "cabspotting" / "cabs_20080604.csv.gz"
NODES = REAL_DATA / "oldenburg" / "OL.cnode"


@pytest.mark.stress
def test_towers_become_cells_that_tile_the_city_and_shops_lie_in_them(
    database: str, connection: psycopg.Connection
) -> None:
    with open_database(database) as opened:
        cabs = {"subject": "cab_id", "time": "t", "x": "lon", "y": "lat"}
        options = {"subject_per_day": True, "tz": "America/Los_Angeles", "drop_outliers": True}
        loaded = opened.load_trajectories([CABS], dataset="sf", **cabs, **options)
        assert (loaded.subjects, loaded.days) == (500, 500)
        begun = time.monotonic()
        towers = opened.load_stations(TOWERS, dataset="sf", x="lon", y="lat", name="cell")
        print(f"{towers.kept} cells of {towers.read} towers in {time.monotonic() - begun:.1f} s")
        assert set(towers.quarantined) <= {"duplicate-station"}
        assert towers.kept + sum(towers.quarantined.values()) == towers.read
        assert any("in no cell" in notice for notice in towers.notices)
        amenities = opened.load_pois(AMENITIES, dataset="sf", x="lon", y="lat", category="category")
        food = {"x": "longitude", "y": "latitude", "category": "TaxCode"}
        shops = opened.load_pois(FOOD, dataset="sf", **food)
    for report in (amenities, shops):
        assert report.kept + sum(report.quarantined.values()) == report.read
        assert report.kept > 0.5 * report.read
    n, area, united, invalid = connection.execute(
        "SELECT count(*), sum(ST_Area(geom)), ST_Area(ST_Union(geom)), count(*) FILTER (WHERE NOT ST_IsValid(geom)) "
        "FROM dbanon.cell"
    ).fetchone() or (0, 0, 0, 0)
    assert (n, invalid) == (towers.kept, 0)
    assert area == pytest.approx(united, rel=1e-12)
    inside, twice = connection.execute(
        "SELECT count(*) FILTER (WHERE n > 0), count(*) FILTER (WHERE n > 1) FROM (SELECT (SELECT count(*) "
        "FROM dbanon.cell c WHERE ST_Contains(c.geom, p.geom)) AS n FROM dbanon.poi p) counted"
    ).fetchone() or (0, 0)
    assert (inside > 0.9 * (amenities.kept + shops.kept), twice) == (True, 0)


@pytest.mark.stress
def test_crossings_of_oldenburg_may_be_stations(database: str, tmp_path: Path) -> None:
    """6,105 stations on the plane of the network: cells of many sizes, found by no geographic reference system."""
    lines = [line.split() for line in NODES.read_text().splitlines() if line.strip()]
    table = pa.table({"id": [n for n, _, _ in lines], "x": [x for _, x, _ in lines], "y": [y for _, _, y in lines]})
    pacsv.write_csv(table, tmp_path / "nodes.csv")
    with gzip.open(tmp_path / "fixes.csv.gz", "wt") as file:
        file.write("subject,time,x,y\n" + "".join(f"{n},1212566400,{x},{y}\n" for n, x, y in lines[:500]))
    plane = {"crs": "EPSG:32632"}
    with open_database(database) as opened:
        opened.load_trajectories([tmp_path / "fixes.csv.gz"], dataset="ol", srid=32632, **plane)
        begun = time.monotonic()
        made = opened.load_stations(tmp_path / "nodes.csv", dataset="ol", name="id", **plane)
        print(f"{made.kept} cells of {made.read} crossings in {time.monotonic() - begun:.1f} s")
    assert made.read == len(lines)
    assert made.kept + made.quarantined.get("duplicate-station", 0) == made.read
