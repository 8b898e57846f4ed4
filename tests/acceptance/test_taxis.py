"""San Francisco taxis of one day, pick-ups as requests: the case study, and the ten questions of the analysts' page."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from dbanon.postgres.server import Target
from dbanon.testing import cloned_database, logins
from tests import pages
from tests.acceptance import analyst_truth as truths
from tests.acceptance import taxi_questions as asking
from tests.acceptance.commands import Done, run_typed
from tests.acceptance.taxi_questions import is_near

from .conftest import REAL_DATA

pytestmark = pytest.mark.db
CABS = REAL_DATA / "cabspotting" / "cabs_20080604.csv.gz"
PAGE = "docs/administrators/taxis.md"
PICK_UPS = REAL_DATA / "cabspotting" / "pickups_dropoffs.csv.gz"


@dataclass(frozen=True)
class Study:
    """A database in which the case study was followed, and what each command showed and did."""

    url: str
    done: list[tuple[list[str], str, Done]]

    def printed(self, command: str) -> str:
        """What the one command that begins so printed."""
        [printed] = [done.stdout for _, typed, done in self.done if typed.startswith(command)]
        return printed


@pytest.fixture(scope="module")
def study(dbanon_server: Target, dbanon_template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """The case study is done."""
    folder = tmp_path_factory.mktemp("taxis")
    for data in (CABS, PICK_UPS):
        (folder / data.name).symlink_to(data)
    with cloned_database(dbanon_server, dbanon_template) as url:
        typed = [pair for _, block in pages.list_blocks(PAGE, "console") for pair in pages.split_typed(block)]
        yield Study(url, [(shown, command, run_typed(url, folder, command)) for command, shown in typed])


@pytest.mark.stress
def test_the_case_study_ends_as_it_shows_and_a_second_release_is_refused(study: Study) -> None:
    for shown, command, done in study.done:
        refused = command.startswith("dbanon publish")
        assert done.code == (5 if refused else 0), command + done.stderr
        assert pages.find_missing(shown, done.stdout + done.stderr) == [], done.stdout + done.stderr


@pytest.mark.stress
def test_a_sweep_ends_as_the_page_on_settings_shows(database: str, tmp_path: Path) -> None:
    """In a database without the release of the case study."""
    for data in (CABS, PICK_UPS):
        (tmp_path / data.name).symlink_to(data)
    typed = [pair for _, block in pages.list_blocks(PAGE, "console") for pair in pages.split_typed(block)]
    [(_, block)] = pages.list_blocks("docs/administrators/compare-settings.md", "console")
    [(sweep, shown)] = pages.split_typed(block)
    for command in (*(command for command, _ in typed[:3]), sweep):
        done = run_typed(database, tmp_path, command)
        assert done.code == 0, command + done.stderr
    printed = cut_after_rows(done.stdout)
    assert pages.find_missing(shown, printed) == [], done.stdout
    said, true = read_settings("\n".join(shown)), read_settings(printed)
    assert len(true) == 4
    for (*exact, error, _, _), (*measured, _, low, high) in zip(said, true, strict=True):
        assert exact == measured
        assert int(low) <= int(error) <= int(high)


def read_settings(table: str) -> list[tuple[str, ...]]:
    """Read the name, the share published, the rows and the error with its interval of each setting of a sweep."""
    line = r"^[* ] (k .+?)  +(\d+)% +(?=(\d+)% \[(\d+)%, (\d+)%\]).+? ([\d,]+)$"
    return [(name, share, rows, *error) for name, share, *error, rows in re.findall(line, table, re.MULTILINE)]


def cut_after_rows(printed: str) -> str:
    """Leave the columns after that of rows out of the table, as the page does."""
    lines = printed.partition("\n\n")[0].splitlines()
    [end] = [rule.end() for rule in re.finditer("-+", lines[1]) if lines[0][slice(*rule.span())].strip() == "rows"]
    return "\n".join(line[:end] for line in lines)


def read_figures() -> dict[str, list[str]]:
    """Read the table of the README that compares two methods with k = 5 and 20: the four figures of each line."""
    readme = (pages.ROOT / "README.md").read_text()
    [table] = re.findall(r"^\| \| `?kte`?, k = 5 .*\n\|[-|]+\n((?:\|.*\n)+)", readme, re.MULTILINE)
    cells = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    return {name: [re.sub(r" \S+$", "", figure) for figure in figures] for name, *figures in cells}


@pytest.mark.stress
def test_the_figures_of_taxis_are_those_that_evaluate_prints(study: Study) -> None:
    shown = read_figures()
    for at, asked in enumerate(("3", "4", "cabs_k5", "2")):
        printed = study.printed(f"dbanon evaluate {asked}")
        assert "400 questions of each size" in printed
        [published] = re.findall(r"^Published +([\d.]+) %", printed, re.MULTILINE)
        [side] = re.findall(r"^Longer side of region, median +([\d,]+) m", printed, re.MULTILINE)
        [low, high] = re.findall(r"^2 km +over ten minutes +[\d.]+ % +([\d.]+) % to ([\d.]+) %", printed, re.MULTILINE)[
            0
        ]
        assert is_near(shown["half hours of taxis published (the rest has gaps)"][at], float(published))
        assert abs(float(shown["half the regions are longer than"][at]) - float(side.replace(",", "")) / 1000) < 0.1
        assert float(low) <= float(shown["counts over ten minutes in 2 km off by"][at]) <= float(high)


@pytest.mark.stress
def test_the_seconds_of_the_readme_are_those_of_the_results() -> None:
    results = (pages.ROOT / "benchmarks" / "results" / "tutorial.md").read_text()
    measured = re.findall(r"^\| run [\w-]+, k = (?:5|20)\b[^|]*\| ([\d.]+) \|", results, re.MULTILINE)
    assert read_figures()["run and attack"] == measured


@pytest.fixture(scope="module")
def analyst(study: Study) -> Iterator[str]:
    """URL of a login that may read the release of the case study and nothing else."""
    with logins(study.url) as login:
        yield login("dbanon_analyst")


@pytest.fixture(scope="module")
def taxis_asked(study: Study, analyst: str) -> Iterator[asking.Taxis]:
    """What is true of the cabs of the release, which is of run 1."""
    with psycopg.connect(analyst, autocommit=True) as connection:
        connection.execute(asking.set_up())  # type: ignore[arg-type]
        yield asking.Taxis(truths.read(study.url, [1]), connection)


@pytest.mark.stress
def test_the_ten_questions_of_the_analysts_page_are_answered_as_it_shows(analyst: str) -> None:
    asked = asking.read_questions()
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
    for question, true in zip(asking.read_questions(), asking.TRUE, strict=True):
        shown = asking.read_table(question.shown)
        figures = true(taxis_asked, shown)
        assert len(figures) == len(question.true), question
        assert all(map(is_near, question.true, figures)), (question.number, figures)
        for row, figure in zip(shown, figures, strict=False):
            if "at_least" in row:
                assert float(row["at_least"]) <= figure <= float(row["at_most"]), question
    error = re.search(
        r"off by ([\d.]+) cabs on average,\s+where ([\d.]+)\s+are true", (pages.ROOT / asking.PAGE).read_text()
    )
    assert error
    assert all(map(is_near, error.groups(), taxis_asked.error_of_expected())), taxis_asked.error_of_expected()


@pytest.mark.stress
def test_the_queries_that_the_analysts_page_warns_of_are_as_wrong_as_it_says(taxis_asked: asking.Taxis) -> None:
    for question in asking.read_questions():
        wrong = taxis_asked.asked.execute(asking.WRONG[question.number]).fetchone() if question.wrong else ()
        assert [f"{figure:,}" for figure in wrong or ()] == question.wrong, question.number
