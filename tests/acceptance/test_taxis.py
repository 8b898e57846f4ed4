"""San Francisco taxis of one day, pick-ups as requests: all windows of 30 one-minute instants."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dbanon.database import Database, open_database
from dbanon.load import Columns
from tests import pages

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


@pytest.mark.stress
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


@pytest.mark.stress
def test_the_tutorial_ends_as_it_shows_up_to_the_refusal_of_a_second_release(database: str, tmp_path: Path) -> None:
    for data in (CABS, PICK_UPS):
        (tmp_path / data.name).symlink_to(data)
    with psycopg.connect(database) as connection:
        connection.execute("ALTER TABLE dbanon.run ALTER run_id RESTART WITH 2")  # the first one is the demo's
    environment = {**os.environ, "DBANON_DSN": database, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    typed = [pair for _, block in pages.blocks("docs/tutorial.md", "console") for pair in pages.typed(block)]
    refusal = next(i for i, (command, _) in enumerate(typed) if command.startswith("dbanon publish"))
    for i, (command, shown) in enumerate(typed[: refusal + 1]):
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == (5 if i == refusal else 0), command + done.stderr
        lines = [" ".join(shown)] if i == refusal else shown  # the page breaks the refusal into lines
        assert pages.missing(lines, done.stdout + done.stderr) == [], done.stdout + done.stderr
