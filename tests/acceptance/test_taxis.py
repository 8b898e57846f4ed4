"""San Francisco taxis of one day, pick-ups as requests: the tutorial, and the ten questions for analysts."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from dbanon.postgres.server import Target
from dbanon.testing import cloned_database, logins
from tests import pages
from tests.acceptance import analyst_truth as truths
from tests.acceptance import taxi_questions as asking
from tests.acceptance.commands import Done, as_typed

from .conftest import REAL_DATA

pytestmark = pytest.mark.db
CABS = REAL_DATA / "cabspotting" / "cabs_20080604.csv.gz"
PICK_UPS = REAL_DATA / "cabspotting" / "pickups_dropoffs.csv.gz"


@dataclass(frozen=True)
class Tutorial:
    """A database in which the tutorial was followed, and what each command showed and did."""

    url: str
    done: list[tuple[list[str], str, Done]]


@pytest.fixture(scope="module")
def tutorial(
    dbanon_server: Target, dbanon_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tutorial]:
    """The tutorial is done up to the refusal of a second release."""
    folder = tmp_path_factory.mktemp("tutorial")
    for data in (CABS, PICK_UPS):
        (folder / data.name).symlink_to(data)
    with cloned_database(dbanon_server, dbanon_template) as url:
        shown = pages.blocks("docs/administrators/taxis.md", "console")
        typed = [pair for _, block in shown for pair in pages.typed(block)]
        refusal = next(i for i, (command, _) in enumerate(typed) if command.startswith("dbanon publish"))
        done = [(shown, command, as_typed(url, folder, command)) for command, shown in typed[: refusal + 1]]
        yield Tutorial(url, done)


@pytest.mark.stress
def test_the_tutorial_ends_as_it_shows_up_to_the_refusal_of_a_second_release(tutorial: Tutorial) -> None:
    for i, (shown, command, done) in enumerate(tutorial.done, 1 - len(tutorial.done)):
        assert done.code == (0 if i else 5), command + done.stderr
        lines = shown if i else [" ".join(shown)]  # the page breaks the refusal into lines
        assert pages.missing(lines, done.stdout + done.stderr) == [], done.stdout + done.stderr


@pytest.fixture(scope="module")
def analyst(tutorial: Tutorial) -> Iterator[str]:
    """URL of a login that may read the release of the tutorial and nothing else."""
    with logins(tutorial.url) as login:
        yield login("dbanon_analyst")


@pytest.fixture(scope="module")
def taxis_asked(tutorial: Tutorial, analyst: str) -> Iterator[asking.Taxis]:
    """What is true of the cabs of the release, which is of run 1."""
    with psycopg.connect(analyst, autocommit=True) as connection:
        connection.execute(asking.set_up())  # type: ignore[arg-type]
        yield asking.Taxis(truths.read(tutorial.url, [1]), connection)


def near(shown: str, figure: float) -> bool:
    """Whether a figure is the one shown, rounded as that is."""
    digits = shown.replace(",", "")
    return abs(float(digits) - figure) <= 0.5 * 10.0 ** -len(digits.partition(".")[2]) + 1e-9


@pytest.mark.stress
def test_the_ten_questions_of_the_analysts_page_are_answered_as_it_shows(analyst: str) -> None:
    asked = asking.questions()
    assert [question.number for question in asked] == list(range(1, 11))
    script = "\n\\echo ====\n".join([f"\\pset footer off\n{asking.set_up()}", *(question.query for question in asked)])
    done = subprocess.run(
        ["psql", "-Xq", "-v", "ON_ERROR_STOP=1", analyst],
        input=script, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    answers = [[line.rstrip() for line in part.splitlines() if line] for part in done.stdout.split("====\n")[1:]]
    assert answers == [question.shown for question in asked]


@pytest.mark.stress
def test_the_true_answers_of_the_analysts_page_are_true_and_within_its_bounds(taxis_asked: asking.Taxis) -> None:
    for question, true in zip(asking.questions(), asking.TRUE, strict=True):
        shown = asking.table(question.shown)
        figures = true(taxis_asked, shown)
        assert len(figures) == len(question.true), question
        assert all(map(near, question.true, figures)), (question.number, figures)
        for row, figure in zip(shown, figures, strict=False):
            if "at_least" in row:
                assert float(row["at_least"]) <= figure <= float(row["at_most"]), question
    error = re.search(
        r"off by ([\d.]+) cabs on average,\s+where ([\d.]+)\s+are true", (pages.ROOT / asking.PAGE).read_text()
    )
    assert error
    assert all(map(near, error.groups(), taxis_asked.error_of_expected())), taxis_asked.error_of_expected()


@pytest.mark.stress
def test_the_queries_that_the_analysts_page_warns_of_are_as_wrong_as_it_says(taxis_asked: asking.Taxis) -> None:
    for question in asking.questions():
        wrong = taxis_asked.asked.execute(asking.WRONG[question.number]).fetchone() if question.wrong else ()
        assert [f"{figure:,}" for figure in wrong or ()] == question.wrong, question.number
