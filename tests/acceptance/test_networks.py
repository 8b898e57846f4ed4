"""The street networks of San Francisco and Oldenburg, generated on, cloaked and attacked."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from dbanon.database import Database, open_database

from .conftest import REAL_DATA

pytestmark = pytest.mark.db
STREETS, OLDENBURG = REAL_DATA / "sf_streets", REAL_DATA / "oldenburg"

NETWORKS = {
    "san-francisco": {"nodes": STREETS / "nodes.csv.gz", "edges": STREETS / "edges.csv.gz"},
    "oldenburg": {"nodes": OLDENBURG / "oldenburgGen_node.txt", "edges": OLDENBURG / "oldenburgGen_edge.txt"},
    "oldenburg-lengths": {"nodes": OLDENBURG / "OL.cnode", "edges": OLDENBURG / "OL.cedge"},
}


@pytest.fixture
def opened(database: str) -> Iterator[Database]:
    with open_database(database) as one:
        yield one


@pytest.mark.stress
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("san-francisco", (9_366, 15_568, 35, 32610)),
        ("oldenburg", (6_105, 7_035, 0, 32632)),
        ("oldenburg-lengths", (6_105, 7_035, 0, 32632)),
    ],
)
def test_a_real_network_is_read_whole_and_a_run_on_it_is_verified(
    opened: Database, name: str, expected: tuple[int, ...]
) -> None:
    options: dict[str, Any] = {**NETWORKS[name], "destinations": 100}
    report = opened.synth("d", objects=1000, whole_share=1, **options)
    assert (report.nodes, report.edges, report.left_out, report.srid) == expected
    assert (report.trajectories, report.fixes) == (1000, 30_000)
    result = opened.run("tp-aware", dataset="d", params={"k": 10})
    assert result.status == "verified"
    assert result.metrics["published_share"] == 1
    asked = opened.connection.execute("SELECT count(DISTINCT content) FROM dbanon.request").fetchone()
    assert asked == (11,)


def test_objects_of_san_francisco_are_in_san_francisco(opened: Database) -> None:
    opened.synth("d", objects=200, destinations=50, **NETWORKS["san-francisco"])
    box = "ST_Transform(ST_MakeEnvelope(-122.513, 37.706, -122.357, 37.833, 4326), 32610)"
    with psycopg.connect(opened.target.url) as connection:
        inside = connection.execute(f"SELECT bool_and(ST_Within(path, {box})) FROM dbanon.trajectory").fetchone()
    assert inside == (True,)
