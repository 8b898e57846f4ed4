"""Request logs by every algorithm of tp-aware: computed, attacked, published, read by an analyst."""

import json
from collections.abc import Callable, Iterator

import psycopg
import pytest

from dbanon.methods import METHODS
from dbanon.postgres.server import Target, parse
from dbanon.testing import cloned_database
from tests.acceptance.commands import call, demand_done
from tests.clones import clone_of

pytestmark = pytest.mark.db

K = 4


@pytest.fixture(scope="module")
def town_template(dbanon_server: Target, dbanon_template: str) -> Iterator[str]:
    with cloned_database(dbanon_server, dbanon_template) as url:
        demand_done(call(url, "synth", "--dataset", "town", "--objects", "150", "--instants", "40"))
        yield parse(url)["dbname"]


database = clone_of("town_template")


@pytest.mark.parametrize("cloak", ["mbr", "quadrant"])
@pytest.mark.parametrize("algorithm", [algorithm.name for algorithm in METHODS["tp-aware"].algorithms])
def test_every_algorithm_publishes_groups_of_k_that_withstand_the_adversary(
    database: str, login: Callable[[str], str], algorithm: str, cloak: str
) -> None:
    words = ("-p", f"k={K}", "-p", "instants=10", "-p", f"cloak={cloak}", "--publish", "town_log", "--json")
    ran = demand_done(call(database, "run", "tp-aware", "--dataset", "town", "--algorithm", algorithm, *words))
    told = json.loads(ran.stdout)
    assert (told["algorithm"], told["status"], told["verification"]["passed"]) == (algorithm, "verified", True)
    with psycopg.connect(login("dbanon_analyst")) as analyst:
        rows, least, asked = analyst.execute(
            "SELECT count(*), min(crowd), bool_or(requests <> '[]') FROM published.town_log"
        ).fetchone()
    assert (rows, asked) == (told["rows_published"], True)
    assert least == told["metrics"]["smallest_crowd"] >= K
