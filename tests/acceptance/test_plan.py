"""`dbanon plan` on a loaded city: what it foretells is what the run then reports."""

import pytest

from dbanon.database import Database
from tests.acceptance.commands import call, json_of
from tests.facts import names, refused

pytestmark = pytest.mark.db


def test_what_is_planned_is_what_a_run_reports(verified_city: tuple[Database, int]) -> None:
    database, earlier = verified_city
    plan = {i.item: i for i in database.plan("tp-aware", dataset="city", params={"k": "7", "instants": 10})}
    result = database.run("tp-aware", dataset="city", params={"k": 7, "instants": 10})
    counted = {name: value for name, value in result.metrics.items() if name in plan}
    counted |= result.suppressed["subjects"] | result.suppressed["requests"]
    assert len(counted) == 9
    assert {name: plan[name].value for name in counted} == counted
    rows = database.connection.execute(
        "SELECT count(*) FROM dbanon.cloak WHERE run_id = %s", [result.run_id]
    ).fetchone()[0]
    assert plan["rows"].value == pytest.approx(rows, rel=0.2)
    assert plan["seconds"].note.startswith(f"by run {earlier}, ")


def test_a_plan_is_a_table_or_one_object_and_an_ending(city_url: str) -> None:
    words = ("plan", "tp-aware", "--dataset", "city", "-p", "k=5")
    shown = call(city_url, *words)
    assert shown.code == 0
    assert "all of them" in shown.stdout
    assert "about " in shown.stdout
    ending = shown.stdout.splitlines()[-1].removeprefix("Exit code 0: ")
    names(ending, "computed", "attacked")
    plan = json_of(call(city_url, "--json", *words))["plan"]
    assert plan["exit_code"] == {"value": 0, "exact": True, "note": ending}
    assert plan["subjects"] == {"value": 300, "exact": True, "note": ""}


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
    refused(done, 2, *facts)
