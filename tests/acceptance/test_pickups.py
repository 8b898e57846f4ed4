"""Where San Francisco's taxis picked passengers up, near clinics and places of worship: every eighth of a month's."""

from collections.abc import Callable
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pytest

from dbanon.database import Database, open_database

from .conftest import REAL_DATA

pytestmark = pytest.mark.db
PICK_UPS = REAL_DATA / "cabspotting" / "pickups_dropoffs.csv.gz"
HEALTH_CARE = REAL_DATA / "sf_pois" / "sf_health_care_facilities.csv"
COMMUNITY = REAL_DATA / "sf_pois" / "bayarea_osm_religion_community_events.csv.gz"
CITY = (-122.53, 37.59, -122.35, 37.84)
NAMED = {"x": "lon", "y": "lat", "name": "name"}
K = 20


def load_pick_ups(database: Database, folder: Path) -> int:
    """Load every eighth pick-up, each a subject of its own; how many lie in the city."""
    events = pacsv.read_csv(PICK_UPS)
    sample = events.filter(pc.equal(events["event"], "P")).take(pa.array(range(0, 463_905, 8)))
    pacsv.write_csv(sample, folder / "pickups.csv")
    columns = {"subject": "-", "time": "t", "x": "lon", "y": "lat"}
    loaded = database.load_trajectories([folder / "pickups.csv"], dataset="taxi", **columns, bbox=CITY)
    assert loaded.read == 57_989
    assert set(loaded.quarantined) == {"outside-bbox"}
    return loaded.kept


def load_sites(database: Database, folder: Path) -> int:
    """Load the clinics and hospitals, then the places of worship; how many sites that makes."""
    clinics = database.load_sites(HEALTH_CARE, dataset="taxi", **NAMED)
    assert clinics.read == 78
    places = pacsv.read_csv(COMMUNITY)
    worship = pc.and_(pc.equal(places["group"], "religion"), pc.equal(places["county"], "san_francisco"))
    pacsv.write_csv(places.filter(worship).select(["name", "lon", "lat"]), folder / "worship.csv")
    churches = database.load_sites(folder / "worship.csv", dataset="taxi", **NAMED)
    assert churches.read == 475
    return clinics.kept + churches.kept


@pytest.mark.stress
def test_pick_ups_near_clinics_and_churches_are_verified_published_and_read_by_an_analyst(
    database: str, tmp_path: Path, login: Callable[[str], str]
) -> None:
    with open_database(database) as opened:
        people = load_pick_ups(opened, tmp_path)
        sites = load_sites(opened, tmp_path)
        assert (people, sites) == (57_876, 553)
        run = opened.run("sensitive-sites", dataset="taxi", params={"k": K}, seed=1, publish="pickups")

    assert run.status == "verified"
    assert run.metrics["sites"] == sites
    assert run.metrics["ggc_percent"] < run.metrics["bk_ggc_percent"]
    assert run.verdict.figures["sites_with_own_rectangle"] == sites
    with psycopg.connect(login("dbanon_analyst")) as analyst:
        rows, subjects, cloaked, smallest, wrong = analyst.execute(
            "SELECT count(*), sum(subjects), count(*) FILTER (WHERE cloaked), min(crowd) FILTER (WHERE cloaked), "
            "count(*) FILTER (WHERE NOT cloaked AND crowd <> 1) FROM published.pickups"
        ).fetchone()
    assert (rows, subjects, wrong) == (people, people, 0)
    assert K * sites <= cloaked < people
    assert smallest >= K
