"""`dbanon plan` on a loaded city: what it foretells is what the run then reports."""

from importlib import import_module
from unittest.mock import patch

import pytest

from dbanon.base.errors import DataError
from dbanon.database import Database, open_database
from dbanon.runs import room
from tests.acceptance.commands import call, read_json
from tests.clones import clone_of
from tests.db.methods import require_requests
from tests.facts import demand_refused

pytestmark = pytest.mark.db

own_city = clone_of("releases_template")


def test_a_plan_is_of_what_is_there_and_of_an_earlier_run(verified_city: tuple[Database, int]) -> None:
    database, earlier = verified_city
    plan = {i.item: i for i in database.plan("tp-aware", dataset="city", params={"k": "5", "guests": "off"})}
    result = database.run("tp-aware", dataset="city", params={"k": 5, "guests": False}, seed=7)
    query = "SELECT rows FROM dbanon.run WHERE run_id = %s"
    assert plan["rows"].value == database.connection.execute(query, [result.run_id]).fetchone()[0]
    assert plan["longer_side_50_m"].value == pytest.approx(result.metrics["longer_side_50_m"], abs=0.1)
    assert f"run {earlier} " in plan["seconds"].note


def test_what_a_run_takes_is_measured_once_on_some_people_of_the_dataset(own_city: str) -> None:
    """Nothing but the figures stays, and a change of the data makes them anew."""
    left = (
        "SELECT (SELECT count(*) FROM dbanon.run), (SELECT count(*) FROM dbanon.dataset),"
        " (SELECT count(*) FROM dbanon.evaluation WHERE run_figures ? 'needs')"
    )
    with (
        open_database(own_city) as database,
        patch.object(import_module("dbanon.database.sweeping"), "_FEW_PEOPLE", 200),
    ):
        runs, datasets, _ = database.connection.execute(left).fetchone()
        plan = {one.item: one for one in database.plan("kte", dataset="city", algorithm="k-merge", params={"k": 2})}
        assert {"rows", "seconds", "memory_mb", "disk_mb"} <= plan.keys()
        assert plan["seconds"].note.startswith("by 200 people on ")
        assert database.connection.execute(left).fetchone() == (runs, datasets, 1)
        result = database.run("kte", dataset="city", algorithm="k-merge", params={"k": 2}, seed=7)
        [real] = database.connection.execute("SELECT dbanon_internal.measure_needs(%s)", [result.run_id]).fetchone()
        assert plan["rows"].value == pytest.approx(real["rows"], rel=0.2)
        assert plan["disk_mb"].value == pytest.approx(real["disk_mb"], rel=0.3)
        database.plan("kte", dataset="city", algorithm="k-merge", params={"k": 2})
        assert database.connection.execute(left).fetchone() == (runs + 1, datasets, 1)
        database.plan("kte", dataset="city", algorithm="k-merge", params={"k": 400})  # more than there are
        assert database.connection.execute(left).fetchone() == (runs + 1, datasets, 1)
        few = database.plan("kte", dataset="city", algorithm="kte-hide", params={"k": 100})  # more than a part has
        assert "seconds" not in {one.item for one in few}
        assert database.connection.execute(left).fetchone() == (runs + 1, datasets, 1)


def test_a_plan_may_do_without_requests(own_city: str) -> None:
    with open_database(own_city) as database:
        database.synth("quiet", objects=60, instants=4, requests_per_subject=0, seed=1)
        require_requests(database.connection)
        for allowed in (False, True):
            *plan, ending = database.plan("tp-aware", dataset="quiet", params={"k": 4}, allow_no_requests=allowed)
            assert ending.value == (0 if allowed else 3)
            notes = {one.item: one.note for one in plan}
            assert ("seconds" in notes) is allowed
        assert notes["seconds"].startswith("by all people on ")


@pytest.mark.parametrize("what", ["memory", "disk"])
def test_a_run_that_cannot_fit_says_so_before_it_reads(own_city: str, what: str) -> None:
    with open_database(own_city) as database:
        database.plan("kte", dataset="city", algorithm="k-merge", params={"k": 2})
        free = (
            patch.object(room.memory, "measure_free_mb", return_value=0.0)
            if what == "memory"
            else patch.object(room, "_measure_free_disk_mb", return_value=0.0)
        )
        with free, pytest.raises(DataError, match=f"fit into the {what} of its machine"):
            database.run("kte", dataset="city", algorithm="k-merge", params={"k": 2})
        [stages] = database.connection.execute(
            "SELECT array_agg(dataset_revision) FROM dbanon.run WHERE status = 'failed'"
        ).fetchone()
        assert stages == [None]
        database.run("kte", dataset="city", algorithm="k-merge", params={"k": 2})


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
