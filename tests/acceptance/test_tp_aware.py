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


def test_guests_are_published_beside_k_others_and_not_where_requests_explain_presence(
    database: str, login: Callable[[str], str]
) -> None:
    words = ("-p", f"k={K}", "-p", "instants=20", "-p", "max_gap_s=120", "--json")
    with psycopg.connect(database, autocommit=True) as admin:
        # People ask every few minutes, whether they are seen then or not.
        admin.execute("DELETE FROM dbanon.request")
        admin.execute(
            "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content)"
            " SELECT dataset_id, subject, generate_series(min(t), max(t), '8 minutes'), '{\"poi\": 1}'"
            " FROM (SELECT dataset_id, subject, min(t) OVER () AS first, max(t) OVER () AS last FROM dbanon.fix) f"
            " CROSS JOIN LATERAL (VALUES (first), (last)) v (t) GROUP BY dataset_id, subject"
        )
        admin.execute("UPDATE dbanon.dataset SET revision = revision + 1")
        told = json.loads(demand_done(call(database, "run", "tp-aware", "--dataset", "town", *words)).stdout)
        suppressed, metrics, notices = read_run(admin, told)
        assert (told["status"], suppressed["guests"], metrics["guests"] > 0, notices) == ("verified", "on", True, False)
        rows = "SELECT bool_or(subjects > crowd), min(crowd) >= %s FROM dbanon.cloak WHERE run_id = %s"
        assert admin.execute(rows, [K, told["run_id"]]).fetchone() == (True, True)
        stays = "SELECT count(*) FROM dbanon.membership WHERE run_id = %s AND period IS NOT NULL"
        assert admin.execute(stays, [told["run_id"]]).fetchone()[0] >= metrics["guests"]
        # A log of requests alone is like call records: people are there because they ask.
        admin.execute("DELETE FROM dbanon.request")
        admin.execute(
            "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content)"
            " SELECT dataset_id, subject, t, '{\"poi\": 1}'"
            " FROM dbanon.fix"
        )
        admin.execute("UPDATE dbanon.dataset SET revision = revision + 1")
        told = json.loads(demand_done(call(database, "run", "tp-aware", "--dataset", "town", *words)).stdout)
        suppressed, metrics, notices = read_run(admin, told)
        assert (told["status"], metrics["guests"], notices) == ("verified", 0, True)
        assert suppressed["guests"] != "on"


def read_run(admin: psycopg.Connection, told: dict) -> tuple[dict, dict, bool]:
    """What a run stored, and whether it says that guests were not let in."""
    query = "SELECT suppressed, metrics FROM dbanon.run WHERE run_id = %s"
    figures = "SELECT (figures ->> 'guests_refused')::int > 0 FROM dbanon.verification WHERE run_id = %s"
    run = told["run_id"]
    return *admin.execute(query, [run]).fetchone(), admin.execute(figures, [run]).fetchone()[0]
