"""The page on dashboards: each statement is sent alone, with an analyst's rights, and answers as the page says."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import psycopg
import pytest

from benchmarks import _dashboards as asking
from dbanon.postgres.server import Target
from dbanon.testing import logins
from tests import pages
from tests.acceptance import analyst_truth as truths
from tests.acceptance.taxi_questions import is_near

pytestmark = [pytest.mark.db, pytest.mark.stress]


@pytest.fixture(scope="module")
def publish(
    dbanon_server: Target, dbanon_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], str]]:
    with asking.published(dbanon_server, dbanon_template, tmp_path_factory.mktemp("taxis")) as publish:
        yield publish


def read_numbers(text: str) -> list[str]:
    return re.findall(r"-?\d{1,3}(?:,\d{3})*(?:\.\d+)?", text)


def test_each_statement_answers_alone_as_the_page_says(publish: Callable[[str], str]) -> None:
    questions = asking.read_questions()
    assert [question.number for question in questions] == list(range(1, 20))
    assert all(question.statement.count("\n") < 9 for question in questions)
    url = publish("cabs_k5")
    truth = truths.read(url, [1])
    # Other releases take minutes to publish: `./dev bench benchmarks/analyst.py questions` asks them.
    for question in [one for one in questions if one.release == "cabs_k5"]:
        with logins(url) as login, psycopg.connect(login("dbanon_analyst"), autocommit=True) as analyst:
            rows = asking.ask(analyst, question.statement)
        true = asking.TRUE[question.number](truth, rows) if question.true else []
        for said, figures in ((question.said, asking.list_figures(rows)), (question.true, list(true))):
            assert len(read_numbers(said)) == len(figures), question
            assert all(map(is_near, read_numbers(said), figures)), (question, figures)


@pytest.mark.parametrize(
    ("program", "rows", "columns"),
    [
        ("grafana", 7, ["time", "at_least", "expected", "at_most"]),
        ("metabase", 0, ["latitude", "longitude", "expected"]),
        ("superset", 0, ["geojson", "expected"]),
    ],
)
def test_a_statement_answers_with_the_times_that_its_program_writes(
    publish: Callable[[str], str], program: str, rows: int, columns: list[str]
) -> None:
    [(_, block)] = pages.list_blocks(asking.PAGE, f"sql {program}")
    with logins(publish("cabs_k5")) as login, psycopg.connect(login("dbanon_analyst"), autocommit=True) as analyst:
        analyst.execute("SET TIME ZONE 'UTC'")
        statement = pages.fill_in_times(block).strip().rstrip(";")  # a dataset of Superset stands within a SELECT
        found = asking.ask(analyst, f"SELECT * FROM ({statement}) AS virtual_table")
    assert [*found[0]] == columns
    assert len(found) == rows or len(found) > 100 > rows
    people = sum(row["expected"] for row in found) / (rows or 1)
    assert 150 < people < 500


def test_the_program_of_the_page_runs(publish: Callable[[str], str]) -> None:
    [(_, program)] = pages.list_blocks(asking.PAGE, "python dashboard")
    with logins(publish("cabs_k5")) as login:
        url = login("dbanon_analyst")
        for scheme in ("postgresql", "postgresql+psycopg"):
            program = program.replace(f'"{scheme}://anna@server/geo"', repr(url.replace("postgresql", scheme, 1)))
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert re.match(r"\d+ \(", done.stdout.splitlines()[-1])
