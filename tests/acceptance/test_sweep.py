"""Sweeps over the generated city: rows, files, resumption, what is wanted, samples; and nothing that remains."""

import csv
import io
import re
import stat
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path

import psycopg
import pytest

from dbanon.base.errors import DataError, ParameterError
from dbanon.database import Database, open_database
from dbanon.postgres.server import Target
from dbanon.testing import cloned_database, logins
from tests.acceptance.commands import call, demand_done, read_json, run_typed
from tests.facts import demand_refused
from tests.hints import tries

pytestmark = pytest.mark.db

WORDS = (
    "sweep",
    "tp-aware",
    "--dataset",
    "city",
    "-p",
    "k=5,301",
    "-p",
    "instants=10,25",
    "-p",
    "guests=off",
    "--queries",
    "100",
)
ASKED = {"dataset": "city", "params": {"k": [5, 301], "instants": [10, 25], "guests": [False]}, "queries": 100}
COUNTS = ("dataset", "trajectory", "run", "cloak", "verification", "release")


def count_tables(url: str) -> dict[str, int]:
    with psycopg.connect(url) as connection:
        query = ", ".join(f"(SELECT count(*) FROM dbanon.{table})" for table in COUNTS)
        return dict(zip(COUNTS, connection.execute(f"SELECT {query}").fetchone() or (), strict=True))


def count_runs(url: str) -> int:
    """How many runs were ever submitted."""
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT count(*) FROM dbanon.audit WHERE action = 'submit'").fetchone()[0]


@pytest.fixture(scope="module")
def swept(dbanon_server: Target, city_template: tuple[str, int]) -> Iterator[str]:
    """URL of a city over which a sweep was begun, interrupted in its second setting, and made again."""
    with cloned_database(dbanon_server, city_template[0]) as url:
        before, earlier = count_tables(url), count_runs(url)
        with open_database(url) as database:

            def interrupt(stage: str, done: int, total: int | None) -> None:
                if stage.startswith("setting 2 of 4 (k 5, instants 25)") and "writing" in stage:
                    raise KeyboardInterrupt

            database.progress = interrupt
            with pytest.raises(KeyboardInterrupt):
                database.sweep("tp-aware", **ASKED)
            assert count_tables(url) == before
            assert count_runs(url) == earlier + 2
        with open_database(url) as database:
            found = database.sweep("tp-aware", **ASKED)
        assert [one.is_earlier for one in found.settings] == [True, False, False, False]
        assert [one.minute is None for one in found.settings] == [True, False, True, True]
        assert count_runs(url) == earlier + 5
        assert count_tables(url) == before
        yield url


@pytest.fixture
def database(swept: str) -> Iterator[Database]:
    with open_database(swept) as opened:
        yield opened


def test_each_combination_is_a_row_and_one_that_cannot_be_says_why(database: Database) -> None:
    found = database.sweep("tp-aware", **ASKED)
    assert [dict(one.params) for one in found.settings] == [
        {"k": k, "instants": instants, "guests": False} for k in (5, 301) for instants in (10, 25)
    ]
    assert [one.outcome for one in found.settings] == ["verified"] * 2 + ["impossible"] * 2
    assert all("k = 301" in (one.reason or "") for one in found.settings[2:])
    short, long = found.settings[:2]
    assert short.share > long.share > 0.5
    assert short.find_value("coverage") == 1
    assert short.run["overlap"]["below"] == 0
    assert short.limits.keys() == {"absent_at_some_instant"}
    assert len(found.frame()) == 4
    assert found.chosen is short
    assert any("instants = 10 to 25" in sentence for sentence in found.sentences)


@tries("dbanon sweep {} --dataset {} --algorithm {}")
def test_a_sweep_writes_a_page_or_a_table_for_its_owner_alone(swept: str, tmp_path: Path) -> None:
    already = count_runs(swept)
    html, table = tmp_path / "sweep.html", tmp_path / "sweep.csv"
    done = demand_done(call(swept, *WORDS, "-o", str(html), "--want", "published_share>=0.5"))
    assert re.search(r"dbanon run tp-aware --dataset city .*-p k=5 -p instants=10\b.* --publish NAME", done.stdout)
    told = read_json(call(swept, "--json", *WORDS, "-o", str(table)))
    assert len(told["settings"]) == 4
    assert count_runs(swept) == already
    assert [stat.S_IMODE(file.stat().st_mode) for file in (html, table)] == [0o600] * 2
    assert "<title>[PRIVATE]" in html.read_text()
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert [row["outcome"] for row in rows] == [one["outcome"] for one in told["settings"]]
    [command] = re.findall(r"dbanon sweep [^<\n]*", unescape(html.read_text()))
    table.unlink()
    html.unlink()
    assert run_typed(swept, tmp_path, command).code == 0
    assert html.exists()
    assert count_runs(swept) == already


def test_what_is_wanted_decides_which_setting_is_chosen(database: Database) -> None:
    assert database.sweep("tp-aware", **ASKED, want=["published_share<=0.85"]).chosen.varied == {"k": 5, "instants": 25}
    assert database.sweep("tp-aware", **ASKED, want=["windows>=2", "published_share>=0.999"]).chosen is None


def test_the_chosen_setting_published_has_the_figures_that_the_sweep_said(swept: str, database: Database) -> None:
    chosen = database.sweep("tp-aware", **ASKED).chosen
    made = database.run("tp-aware", dataset="city", params=chosen.params, publish="city_chosen")
    assert made.rows_published == chosen.run["rows"]
    found = database.evaluate(made.run_id, queries=100)
    # The server sums in any order.
    told, said = (
        [(one.name, one.side_m, one.asked, f"{one.value:.9g}") for one in measured.figures if one.value is not None]
        for measured in (found, chosen.evaluation)
    )
    assert told == said


def test_a_sample_is_measured_under_its_own_number_and_nothing_of_it_stays(swept: str, database: Database) -> None:
    before = count_tables(swept)
    asked = {"dataset": "city", "params": {"k": 5, "instants": 10}, "queries": 100, "sample": 100}
    with pytest.raises(ParameterError, match="sample"):
        database.sweep("tp-aware", **asked, keep=True)
    found = database.sweep("tp-aware", **asked)
    one = found.settings[0]
    assert (one.outcome, one.publishable, found.people) == ("verified", None, 100)
    assert "100 people drawn at random" in found.notes[0]
    assert count_tables(swept) == before
    assert database.sweep("tp-aware", **asked).settings[0].is_earlier


def test_a_sweep_ends_where_its_data_change_and_keeps_no_figures_of_both(
    dbanon_server: Target, city_template: tuple[str, int], tmp_path: Path
) -> None:
    file = tmp_path / "late.csv"
    file.write_text("id,t,lon,lat\nlate,2026-01-05T08:00:00Z,8.2,53.1\n", encoding="utf-8")
    columns = {"subject": "id", "time": "t", "x": "lon", "y": "lat"}
    with cloned_database(dbanon_server, city_template[0]) as url, open_database(url) as database:

        def load(stage: str, done: int, total: int | None) -> None:
            if "asking questions" in stage and done == 0:
                with open_database(url) as another:
                    another.load_trajectories([file], dataset="city", mode="append", **columns)

        database.progress = load
        with pytest.raises(DataError, match="during a sweep"):
            database.sweep("tp-aware", dataset="city", params={"k": [5, 301], "instants": 10}, queries=100)
        assert database.connection.execute("SELECT count(*) FROM dbanon.evaluation").fetchone() == (0,)


@pytest.mark.parametrize(
    ("words", "code", "facts"),
    [
        (("tp-awar", "--dataset", "city", "-p", "k=5"), 2, ("'tp-awar'", "'tp-aware'")),
        (("tp-aware", "--dataset", "cit", "-p", "k=5"), 2, ("'cit'", "'city'")),
        (("tp-aware", "--dataset", "city", "-p", "k=5,1"), 2, ("'k'", ">= 2", 1)),
        (("tp-aware", "--dataset", "city", "-p", "k=5,,6"), 2, ("'k'", "k=2,5,10")),
        (("tp-aware", "--dataset", "city", "-p", "k=5", "--want", "much"), 2, ("'much'", "published_share>=0.9")),
        ((*WORDS[1:], "--want", "no_such_figure>=1"), 2, ("'no_such_figure'",)),
        ((*WORDS[1:], "-o", "sweep.pdf"), 2, ("sweep.pdf", ".html", ".csv")),
        ((*WORDS[1:], "--sample", "300"), 2, (300,)),
    ],
)
def test_what_no_sweep_takes_is_one_sentence(
    swept: str, words: tuple[str, ...], code: int, facts: tuple[object, ...]
) -> None:
    before = count_tables(swept)
    done = call(swept, "sweep", *words)
    demand_refused(done, code, *facts)
    assert count_tables(swept) == before


def test_a_login_that_may_not_compute_or_not_submit_sweeps_nothing(swept: str) -> None:
    with logins(swept) as login:
        make: Callable[[str], str] = login
        for role in ("dbanon_operator", "dbanon_analyst"):
            done = call(make(role), *WORDS)
            assert done.code == 1, done.stderr
            assert done.sentence
