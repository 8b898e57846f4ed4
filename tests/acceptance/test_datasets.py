"""Datasets on the command line and in Python: listed, a load taken back, what is old deleted, and dropped."""

from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from dbanon.base.errors import ParameterError
from dbanon.database import Database
from dbanon.postgres import server
from tests import wholeness
from tests.acceptance.commands import call, read_json
from tests.facts import demand_named, demand_refused, expect_refusal, is_named

pytestmark = pytest.mark.db


def find_broken(url: str) -> list[str]:
    with psycopg.connect(url, autocommit=True) as connection:
        return wholeness.find_broken(connection)


def list_datasets(url: str) -> list[dict[str, object]]:
    rows = read_json(call(url, "datasets", "--json"))["datasets"]
    assert isinstance(rows, list)
    return rows


def test_a_wrong_load_is_taken_back_by_the_number_it_printed(city_url: str, tmp_path: Path) -> None:
    [before] = list_datasets(city_url)
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("subject,time,lon,lat\nnobody,2026-01-05T08:00:00Z,8.2,53.1\nnobody,never,8.2,53.1\n")
    done = call(
        city_url, "load", "trajectories", str(wrong), "--dataset", "city", "--x", "lon", "--y", "lat", "--append"
    )
    assert done.code == 0
    [after] = list_datasets(city_url)
    number = str(after["last_load"])
    assert [line.split() for line in done.stdout.splitlines() if line.startswith("load ")] == [["load", number]]
    assert (after["subjects"], after["releases"]) == (int(str(before["subjects"])) + 1, 0)
    told = read_json(call(city_url, "drop-load", number, "--json"))
    assert told["load_id"] == int(number)
    erased = told["erased"]
    assert isinstance(erased, dict)
    assert {what: rows for what, rows in erased.items() if rows} == {"trajectories": 1, "quarantined rows": 1}
    assert list_datasets(city_url) == [before]
    demand_refused(call(city_url, "drop-load", number), 2, f"load {number}")
    assert find_broken(city_url) == []


def test_data_from_before_a_time_go_and_a_release_that_shows_them_is_named(city_url: str) -> None:
    assert call(city_url, "publish", "1", "city_k5").code == 0
    done = call(city_url, "forget-before", "city", "2026-01-05T08:10:00Z")
    assert done.code == 0
    demand_named(done.stdout, "trajectories cut", "fixes")
    demand_named(done.stderr, "city_k5", "`dbanon unpublish city_k5`")
    [row] = list_datasets(city_url)
    assert str(row["since"]) >= "2026-01-05T08:10:00"
    demand_named(call(city_url, "datasets").stdout, "city", "default", "2026-01-05 08:10:00")
    for time in ("2999-01-01T00:00:00Z", "yesterday", "infinity", "2026-01-05"):
        demand_refused(call(city_url, "forget-before", "city", time), 2, time.partition("-")[0])
    demand_refused(call(city_url, "forget-before", "town", "2026-01-05T08:10:00Z"), 2, "town", "`dbanon datasets`")


def test_a_dataset_is_dropped_when_it_is_confirmed_and_nothing_of_it_is_live(city_url: str) -> None:
    assert call(city_url, "publish", "1", "city_k5").code == 0
    demand_refused(call(city_url, "drop-dataset", "city"), 2, "--yes")
    demand_refused(call(city_url, "drop-dataset", "city", "--yes"), 1, "city_k5", "`dbanon unpublish city_k5`")
    assert call(city_url, "unpublish", "city_k5").code == 0
    card = read_json(call(city_url, "card", "city_k5", "--json"))
    told = read_json(call(city_url, "drop-dataset", "city", "--yes", "--json"))
    assert (told["dataset"], told["dropped"]) == ("city", True)
    assert list_datasets(city_url) == []
    assert read_json(call(city_url, "card", "city_k5", "--json")) == {**card, "dataset": "city (dropped 1)"}
    for command in ("run", "submit", "plan"):
        demand_refused(call(city_url, command, "tp-aware", "--dataset", "city", "-p", "k=5"), 2, "city")
    demand_refused(call(city_url, "verify", "1"), 2, "run 1")
    demand_refused(call(city_url, "drop-dataset", "city", "--yes"), 2, "city")
    assert find_broken(city_url) == []
    assert call(city_url, "synth", "--dataset", "city", "--objects", "20").code == 0
    assert [row["subjects"] for row in list_datasets(city_url)] == [20]
    assert find_broken(city_url) == []


def test_people_of_a_dataset_that_was_dropped_are_measured_when_they_are_loaded_again(
    city_url: str, city_files: tuple[Path, Path]
) -> None:
    assert call(city_url, "publish", "1", "city_k5").code == 0
    assert call(city_url, "unpublish", "city_k5").code == 0
    assert call(city_url, "drop-dataset", "city", "--yes").code == 0
    people = ("load", "trajectories", str(city_files[0]), "--dataset", "city", "--x", "lon", "--y", "lat")
    assert call(city_url, *people).code == 0
    run = ("run", "tp-aware", "--dataset", "city", "-p")
    demand_refused(call(city_url, *run, "k=6", "--publish", "city_k6"), 5, "city_k5", "withdrawn", "dropped 1", 6)
    done = call(city_url, *run, "k=5", "--publish", "city_again")
    assert done.code == 0
    demand_named(done.stderr, "same", "city_k5")


def test_the_question_is_asked_on_a_terminal(city_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    import typer

    asked: list[str] = []

    def answer(question: str, **_: object) -> bool:
        asked.append(question)
        return len(asked) > 1

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(typer, "confirm", answer)
    done = call(city_url, "drop-dataset", "city")
    assert done.code == 0
    demand_named(done.stderr, "city", "trajectories", "people")
    assert len(list_datasets(city_url)) == 1
    assert call(city_url, "drop-dataset", "city").code == 0
    assert list_datasets(city_url) == []
    assert len(asked) == 2


def test_the_same_from_python(city_url: str) -> None:
    with Database(server.Target(city_url, "test")) as database:
        [city] = database.datasets()
        assert database.datasets("town") == []
        erased, notices = database.forget_before("city", city["since"])
        assert (erased["fixes"], notices) == (0, ())
        with expect_refusal(ParameterError, "past"):
            database.forget_before("city", datetime(2999, 1, 1, tzinfo=UTC))
        with expect_refusal(ParameterError, "load 99"):
            database.drop_load(99)
        assert database.drop_load(city["last_load"])[0]["requests"] > 0
        assert database.drop_dataset("city")[0]["trajectories"] == city["trajectories"]
        assert not is_named(str(database.datasets()), "city")
