"""`dbanon plan --choose` proposes what fits a dataset, and what it proposes is run as it is printed."""

import math
import shlex
from pathlib import Path

import psycopg
import pytest

from dbanon.database import open_database
from tests.acceptance import workers
from tests.acceptance.commands import call, demand_done, read_json
from tests.db.methods import require_requests
from tests.facts import demand_refused
from tests.hints import tries

pytestmark = pytest.mark.db
START_S = 1_212_566_400


def load(url: str, file: Path, name: str, *options: str, people: int = 12, step_s: int = 60) -> None:
    """Load people who walk side by side for an hour."""
    rows = [
        f"p{one},{START_S + step_s * n},{8.2 + 0.001 * one},{53.1 + 0.0001 * n}"
        for one in range(people)
        for n in range(1 + 3600 // step_s)
    ]
    file.write_text("\n".join(["subject,time,x,y", *rows]) + "\n")
    demand_done(call(url, "load", "trajectories", str(file), "--dataset", name, *options))


def take_command(shown: str, method: str) -> list[str]:
    """The command that is proposed for a method."""
    [command] = [line for line in shown.splitlines() if line.startswith(f"  dbanon run {method} ")]
    return shlex.split(command)[1:]


@pytest.mark.many
@pytest.mark.parametrize(
    ("name", "grids", "release"),
    [
        ('"Fleet 2026"."Trip Log"', (7, 37), "fleet_2026_trip_log_k5"),
        ("2026", (120, 0.1), "release_k5"),
        ("select", (900, 250), "select_k5"),
        ("it's" + 20 * " long", (60, 1), "it_s" + 6 * "_long" + "_l_k5"),
    ],
)
def test_what_is_proposed_runs_as_printed(
    database: str, tmp_path: Path, name: str, grids: tuple[int, float], release: str
) -> None:
    grid_s, grid_m = grids
    load(database, tmp_path / "fixes.csv", name, "--grid-s", str(grid_s), "--grid-m", str(grid_m))
    shown = demand_done(call(database, "plan", "--choose", "--dataset", name)).stdout
    assert "12 people, 1 day, " in shown
    assert "0 requests" in shown
    assert "0% left out" in shown
    [proposed] = read_json(call(database, "--json", "plan", "--choose", "--dataset", name))["choices"]
    params = proposed["params"]
    assert (proposed["method"], proposed["algorithm"], params["k"]) == ("kte", "k-merge", 5)
    assert (params.get("grid_s", 60) % grid_s, params.get("grid_s", 60) - 60 < grid_s) == (0, True)
    assert params["window_s"] >= 1800 > params["window_s"] - params.get("grid_s", 60)
    assert math.isclose(math.remainder(params.get("grid_m", 100), grid_m), 0, abs_tol=1e-9)
    demand_done(call(database, *take_command(shown, "kte")))
    with open_database(database) as opened:
        assert [row["name"] for row in opened.releases()] == [release]
        assert opened.choose(name)[0].publish_as == f"{release}_2"
        opened.unpublish(release)
    with workers.keep_up(database, tmp_path / "log"), psycopg.connect(database, autocommit=True) as connection:
        workers.wait_until(lambda: workers.count_workers(database) == 1)
        connection.execute(proposed["statement"])


def test_what_each_method_costs_is_measured_on_a_sample_if_it_suffices(database: str, tmp_path: Path) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        require_requests(owner)
    load(database, tmp_path / "fixes.csv", "d", people=40)
    asked = tmp_path / "requests.csv"
    asked.write_text(f"subject,time,poi\np1,{START_S + 600},bar\n")
    demand_done(call(database, "load", "requests", str(asked), "--dataset", "d", "--columns", "poi"))
    places = tmp_path / "sites.csv"
    places.write_text("x,y\n8.2,53.1\n8.21,53.1\n8.22,53.1\n")
    demand_done(call(database, "load", "sites", str(places), "--dataset", "d"))
    with open_database(database) as opened:
        whole, few = opened.choose("d"), opened.choose("d", sample=10)
        methods = ["sensitive-sites", "tp-aware", "kte"]
        assert [one.method for one in whole] == [one.method for one in few] == methods
        assert all("left out" in one.cost and "counts" in one.cost for one in whole)
        assert ["10 people drawn" in one.cost for one in few] == [False, True, True]
        assert "not measured: too few" in few[0].cost
        assert opened.choose("d", sample=2)[2].cost == few[0].cost
        assert len(opened.runs()) == 0
    shown = demand_done(call(database, "plan", "--choose", "--dataset", "d")).stdout
    for method in methods:
        demand_done(
            call(database, *[word for word in take_command(shown, method) if word not in ("--publish", "d_k5")])
        )


def test_a_sweep_of_what_promises_nothing_is_refused(database: str, tmp_path: Path) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        require_requests(owner)
    load(database, tmp_path / "fixes.csv", "d")
    words = ("sweep", "tp-aware", "--dataset", "d", "-p", "k=2,5", "--sample", "10")
    demand_refused(call(database, *words), 3, "'d'", "no requests", "--allow-no-requests")
    demand_done(call(database, *words, "--allow-no-requests"))


@tries("Name a method, or add --choose")
def test_a_plan_is_of_one_method_or_of_the_choice(database: str, tmp_path: Path) -> None:
    load(database, tmp_path / "fixes.csv", "alone", people=4)
    demand_refused(call(database, "plan", "--choose", "--dataset", "alone"), 3, "'alone'", "4 people", "0 requests")
    load(database, tmp_path / "fixes.csv", "five", people=5)
    words = ("plan", "--dataset", "five")
    demand_refused(call(database, *words), 2, "--choose")
    for added in ("--choose", "kte"):
        demand_done(call(database, *words, added))
    demand_refused(call(database, "plan", "kte", "--choose", "--dataset", "alone"), 2, "--choose")
    demand_refused(call(database, "plan", "--choose", "--dataset", "nothing"), 2, "'nothing'", "'alone'")
