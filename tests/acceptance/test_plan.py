"""`dbanon plan` on a loaded city: what it foretells is what the run then reports."""

import pytest

from dbanon.database import Database
from tests.acceptance.commands import call, read_json
from tests.facts import demand_refused

pytestmark = pytest.mark.db


def test_a_plan_is_of_what_is_there_and_of_an_earlier_run(verified_city: tuple[Database, int]) -> None:
    database, earlier = verified_city
    plan = {i.item: i for i in database.plan("tp-aware", dataset="city", params={"k": "5", "guests": "off"})}
    result = database.run("tp-aware", dataset="city", params={"k": 5, "guests": False}, seed=7)
    query = "SELECT rows FROM dbanon.run WHERE run_id = %s"
    assert plan["rows"].value == database.connection.execute(query, [result.run_id]).fetchone()[0]
    assert plan["longer_side_50_m"].value == pytest.approx(result.metrics["longer_side_50_m"], abs=0.1)
    assert f"run {earlier} " in plan["seconds"].note


def test_a_plan_is_a_table_or_one_object_and_an_ending(city_url: str) -> None:
    words = ("plan", "tp-aware", "--dataset", "city", "-p", "k=5")
    shown = call(city_url, *words)
    assert shown.code == 0
    assert "about " in shown.stdout
    assert shown.stdout.splitlines()[-1].startswith("Exit code 0: ")
    plan = read_json(call(city_url, "--json", *words))["plan"]
    assert (plan["exit_code"]["value"], plan["exit_code"]["exact"]) == (0, False)
    assert plan["subjects"] == {"value": 300, "exact": True, "note": ""}
    missing = read_json(call(city_url, "--json", "plan", "sensitive-sites", "--dataset", "city"))["plan"]
    assert (missing["exit_code"]["value"], missing["sites"]["value"]) == (3, 0)


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (("tp-awar", "--dataset", "city"), ("'tp-awar'", "'tp-aware'")),
        (("tp-aware", "--dataset", "cit"), ("'cit'", "'city'")),
        (("tp-aware", "--dataset", "city", "-p", "k=1"), ("'k'", ">= 2", 1)),
    ],
)
def test_what_no_run_would_take_no_plan_takes(city_url: str, words: tuple[str, ...], facts: tuple[object, ...]) -> None:
    done = call(city_url, "plan", *words)
    demand_refused(done, 2, *facts)
