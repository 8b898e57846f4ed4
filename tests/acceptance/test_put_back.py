"""A dump put back into the same database: a lost night is not published again in another form."""

import random
import subprocess
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.commands import call, demand_done
from tests.clients import find_client
from tests.facts import demand_refused

pytestmark = pytest.mark.db
RUN = ("run", "tp-aware", "--dataset", "r", "-p", "instants=10", "--allow-no-requests")
LOST = (*RUN, "-p", "since=2008-06-04T08:10Z", "-p", "until=2008-06-04T08:40Z")
DROP = "DROP SCHEMA published, published_inner, dbanon, dbanon_internal CASCADE"


@pytest.fixture
def walkers(tmp_path: Path) -> Path:
    """Sixty people who walk about for 40 minutes."""
    draw = random.Random(7)
    file = tmp_path / "r.csv"
    lines = ["subject,time,x,y"]
    for person in range(60):
        lon, lat = 8.2 + draw.random() / 20, 53.1 + draw.random() / 20
        for minute in range(41):
            lon, lat = lon + draw.uniform(-1, 1) / 1000, lat + draw.uniform(-1, 1) / 1000
            lines.append(f"p{person:03},2008-06-04T08:{minute:02}:00Z,{lon:.6f},{lat:.6f}")
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize("cleans", [False, True], ids=["schemas dropped", "--clean"])
def test_a_lost_night_is_not_published_again(database: str, walkers: Path, cleans: bool) -> None:
    demand_done(call(database, "load", "trajectories", str(walkers), "--dataset", "r"))
    demand_done(call(database, *RUN, "-p", "k=5", "-p", "until=2008-06-04T08:10Z", "--publish", "first"))
    dump = [*find_client("pg_dump", database), "-Fc", "-d", database]
    dumped = subprocess.run(dump, check=True, stdout=subprocess.PIPE).stdout
    assert call(database, *LOST, "-p", "k=5", "--publish", "lost").code == 0
    if not cleans:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(DROP)
    options = ("--clean", "--if-exists") if cleans else ()
    back = subprocess.run([*find_client("pg_restore", database), *options, "-d", database], input=dumped, check=False)
    assert back.returncode == int(cleans)
    assert call(database, "db", "upgrade", "--share-roles").code == 0
    assert call(database, "check").code == 2
    again = call(database, *LOST, "-p", "k=7", "--publish", "again")
    demand_refused(again, 1, "confirm_history")
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT name FROM dbanon.releases").fetchall() == [("first",)]
