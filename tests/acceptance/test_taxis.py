"""San Francisco taxis of one day, pick-ups as requests: all windows of 30 one-minute instants."""

from collections.abc import Iterator

import psycopg
import pytest

from dbanon.database import Database, open_database
from dbanon.load import Columns

from .conftest import REAL_DATA

pytestmark = pytest.mark.db
CABS = REAL_DATA / "cabspotting" / "cabs_20080604.csv.gz"
PICK_UPS = REAL_DATA / "cabspotting" / "pickups_dropoffs.csv.gz"


@pytest.fixture
def taxis(database: str) -> Iterator[Database]:
    with open_database(database) as opened:
        columns = Columns(subject="cab_id", time="t", x="lon", y="lat")
        loaded = opened.load_trajectories([CABS], dataset="taxi", columns=columns, drop_outliers=True)
        assert (loaded.read, loaded.quarantined, loaded.far) == (484_789, {"far-position": 3}, {})
        opened.load_requests(PICK_UPS, dataset="taxi", subject="cab_id", time="t", columns=["event"])
        yield opened


def test_a_day_of_taxis_is_verified_at_k_5_and_20_published_and_read_by_an_analyst(taxis: Database, login) -> None:
    five = taxis.run("tp-aware", dataset="taxi", params={"k": 5}, publish="taxi_k5")
    twenty = taxis.run("tp-aware", dataset="taxi", params={"k": 20})

    assert five.status == twenty.status == "verified"
    assert five.metrics["published_share"] >= 0.71
    assert five.metrics["windows"] == 48
    with psycopg.connect(login("dbanon_analyst")) as analyst:
        rows, smallest, wrong = analyst.execute(
            "SELECT count(*), min(crowd), count(*) FILTER (WHERE subjects <> crowd) FROM published.taxi_k5"
        ).fetchone()
    assert rows == five.rows_published
    assert smallest >= 5
    assert wrong == 0
