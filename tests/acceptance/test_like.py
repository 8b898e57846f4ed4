"""``dbanon synth --like`` and its fixture: who may draw people like those of a release, into what, and its name."""

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from dbanon.base.errors import ParameterError
from dbanon.database import Database
from tests.acceptance.commands import call, demand_done, read_json
from tests.facts import demand_named, demand_refused, expect_refusal
from tests.hints import tries

MARK = "drawn from {}, not for analysis"


def read_rows(url: str, query: str) -> list[tuple]:
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchall()


def count_published(url: str, name: str) -> tuple[int, int]:
    """Count the people and rows' people of a release."""
    sums = f"SELECT record_id, max(subjects) AS people, sum(subjects) AS fixes FROM published.{name} GROUP BY record_id"
    return read_rows(url, f"SELECT sum(people)::bigint, sum(fixes)::bigint FROM ({sums}) r")[0]


@tries("which is not.")
@pytest.mark.parametrize("name", ["city_k5", "city_sites"])
def test_an_analyst_draws_a_file_of_a_release_or_of_its_export(city: str, anna: str, tmp_path: Path, name: str) -> None:
    told = read_json(demand_done(call(anna, "synth", "--like", name, "--seed", "3", "--csv", str(tmp_path), "--json")))
    [file] = map(Path, told["files"])
    assert file.name == f"{MARK.format(name)}.csv".replace(",", "").replace(" ", "-")
    assert (told["trajectories"], told["fixes"], told["srid"]) == (*count_published(city, name), 32632)
    head, first, *_ = file.read_text().splitlines()
    assert head == "subject,time,lon,lat"
    assert first.startswith("person_000001,2026-01-05T08:")
    demand_done(call(anna, "export", name, str(tmp_path / "r.parquet")))
    nowhere = "host=/nowhere"  # a file needs no server
    again = ("synth", "--like", str(tmp_path / "r.parquet"), "--seed", "3", "--csv", str(tmp_path / "again"))
    demand_done(call(nowhere, *again))
    assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()
    demand_refused(call(nowhere, *again), 2, "--replace", "--csv")
    demand_done(call(nowhere, *again, "--replace"))
    demand_refused(call(nowhere, "synth", "--like", str(file), "--csv", str(tmp_path)), 3, file.name)


@tries("which is a population by itself")
def test_a_dataset_like_a_release_is_in_a_population_of_its_own(verified_city: tuple[Database, int]) -> None:
    database, run = verified_city
    database.publish(run, "city_k5")
    made = database.synth("copy", like="city_k5", grid_s=60)
    [row] = database.datasets("copy")
    assert (row["subjects"], row["fixes"]) == (made.trajectories, made.fixes)
    assert row["population"] == f"copy, {MARK.format('city_k5')}"
    [(source, kept)] = database.connection.execute("SELECT source, rows_kept FROM dbanon.load WHERE load_id > 2")
    demand_named(source, "drawn-from-city_k5-not-for-analysis.csv")
    assert kept == made.fixes
    told = demand_done(call(database.target.url, "synth", "--like", "city_k5", "--dataset", "other", "--seed", "2"))
    demand_named(told.stdout, MARK.format("city_k5"), "other")
    for options in ({"population": "p"}, {"mode": "replace"}, {"mode": "append"}):
        with expect_refusal(ParameterError, "--population", "--append", "--replace"):
            database.synth("copy", like="city_k5", **options)
    with expect_refusal(ParameterError, "--blocks"):
        database.synth("third", like="city_k5", blocks=4)
    run = database.run("tp-aware", dataset="copy", params={"k": 5, "instants": 10}, allow_no_requests=True)
    run.require_verified()
    assert run.metrics["subjects_published"] > 0


def test_who_may_not_load_makes_no_dataset_and_who_may_not_read_no_file(anna: str, tmp_path: Path) -> None:
    demand_refused(call(anna, "synth", "--like", "city_k5", "--dataset", "mine"), 1, "dbanon_operator")
    demand_refused(call(anna, "synth", "--like", "city_9", "--csv", str(tmp_path)), 2, "city_9", "city_k5")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.stress
def test_a_database_of_a_test_has_people_like_a_release_of_another(
    anna: str, tmp_path: Path, release_like: Callable[..., str]
) -> None:
    demand_done(call(anna, "export", "city_k5", str(tmp_path / "city_k5.parquet")))
    people = "SELECT subject, ST_AsText(path) FROM dbanon.trajectory ORDER BY subject"
    one, other = release_like(tmp_path / "city_k5.parquet"), release_like("city_k5", dsn=anna)
    assert one != other
    assert read_rows(one, people) == read_rows(other, people) != []
    assert read_rows(release_like("city_k5", dsn=anna, seed=2), people) != read_rows(one, people)
