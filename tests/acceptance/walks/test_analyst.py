"""An analyst's walk: the pages for analysts, typed in an empty folder with a login that has an analyst's rights alone.

`analyst.sh` lists the commands of the walk. `python -m tests.acceptance.walks.test_analyst` writes it from the
pages, and the test runs what it lists.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import psycopg
import pytest

from dbanon.postgres.server import Target, parse
from dbanon.testing import cloned_database, logins
from tests import pages
from tests.acceptance.commands import run_typed

pytestmark = pytest.mark.db
READING, FILES = "docs/analysts/read-a-release.md", "docs/analysts/files.md"
WALK = Path(__file__).with_name("analyst.sh")
WORDS, URL = "host=server dbname=geo user=anna", "postgresql://anna@server/geo"
PROGRAMS = {
    **{"sh": "", "sh ogr": "", "sql": f'psql -AtX -v ON_ERROR_STOP=1 "{WORDS}"'},
    **dict.fromkeys(("python", "python dbanon", "python sqlalchemy"), "python3 -"),
}
"""The program that reads a block of a kind; none for commands. The pages have no other kinds, but consoles."""
RELEASES = "\n## Make the two releases"
"""The part of the page for the operator, which the fixture types."""
QUESTIONS = "docs/analysts/ten-questions.md"  # which tests/acceptance/test_taxis.py asks
DASHBOARDS = "docs/analysts/dashboards.md"  # which tests/acceptance/test_dashboards.py asks
TRUST = "docs/analysts/trust-answers.md"  # on which there is nothing to type
PHONES = (
    "dbanon synth --dataset phones --objects 200 --instants 60 --pois 4000 --stations 150 --seed 3 --population phones",
    "dbanon run semantic --dataset phones -p k=2 -p l=6 -p t=0.05 --publish phones_k2",
)


@dataclass(frozen=True)
class Step:
    """What an analyst types at once; `shown` is what the page shows below a command."""

    kind: str
    command: str
    shown: list[str]


def list_steps() -> list[Step]:
    """List what the pages for analysts tell an analyst to type, in their order."""
    found = []
    for page in (READING, FILES):
        for kind, block in pages.split((pages.ROOT / page).read_text().partition(RELEASES)[0]):
            if kind == "console":
                found += [Step(kind, f"{command}\n", shown) for command, shown in pages.split_typed(block)]
            else:
                program = PROGRAMS[kind]
                found.append(Step(kind, f"{program} <<'END'\n{block}END\n" if program else block, []))
    return found


def walk() -> str:
    first = "# An analyst's walk through docs/analysts; written by python -m tests.acceptance.walks.test_analyst.\n"
    return first + "".join(f"\n{step.command}" for step in list_steps())


@dataclass(frozen=True)
class Stranger:
    """A login with the rights of an analyst, and an empty folder."""

    owner: str
    url: str
    folder: Path

    def type(self, command: str) -> str:
        """Run a command with nothing in the environment but programs and an empty home."""
        words = " ".join(f"{key}='{value}'" for key, value in parse(self.url).items())
        alchemy = self.url.replace("postgresql://", "postgresql+psycopg://")
        own = command.replace(WORDS, words).replace(URL.replace(":", "+psycopg:", 1), alchemy).replace(URL, self.url)
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(self.folder), "LANG": "C.UTF-8",
            "PGTZ": "UTC", "PYTHONWARNINGS": "error", "DBANON_DSN": self.url,
        }  # fmt: skip
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", own],
            cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, command + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def stranger(
    dbanon_server: Target, dbanon_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stranger]:
    """The two releases of the page are made as it says; and one of phones, for the atoms."""
    folder = tmp_path_factory.mktemp("administrator")
    with cloned_database(dbanon_server, dbanon_template) as url:
        [(kind, block)] = pages.split((pages.ROOT / READING).read_text().partition(RELEASES)[2])
        assert kind == "console"
        for command, shown in [*pages.split_typed(block), *((phones, []) for phones in PHONES)]:
            done = run_typed(url, folder, command)
            assert done.code == 0, command + done.stderr
            assert pages.find_missing(shown, done.stdout) == [], done.stdout
        with logins(url) as login:
            yield Stranger(url, login("analyst"), tmp_path_factory.mktemp("analyst"))


def test_every_page_for_analysts_is_walked_or_asked() -> None:
    there = {str(page.relative_to(pages.ROOT)) for page in (pages.ROOT / "docs" / "analysts").rglob("*.md")}
    assert there == {READING, FILES, QUESTIONS, DASHBOARDS, TRUST}
    assert pages.split((pages.ROOT / TRUST).read_text()) == []
    asked = pages.split((pages.ROOT / QUESTIONS).read_text())
    assert {kind for kind, _ in asked} == {"sql cabs", "text"}
    asked = pages.split((pages.ROOT / DASHBOARDS).read_text())
    assert {kind for kind, _ in asked} == {
        *("sql dashboard", "python dashboard", "sql grafana", "sql metabase", "sql superset")
    }


def test_the_analysts_walk_is_what_the_pages_say() -> None:
    assert WALK.read_text() == walk(), "write it again: python -m tests.acceptance.walks.test_analyst"


@pytest.mark.stress
def test_a_stranger_with_an_analysts_login_walks_the_pages_for_analysts(stranger: Stranger) -> None:
    shutil.copy(pages.ROOT / "docs" / "map.sql", stranger.folder)  # the page links it
    answers: dict[str, list[str]] = {}
    for step in list_steps():
        if step.kind == "sh ogr" and not shutil.which("ogr2ogr"):
            continue
        printed = stranger.type(step.command)
        assert pages.find_missing(step.shown, printed) == [], printed
        assert printed.strip() or step.kind in ("sh", "sh ogr"), step.command
        answers.setdefault(step.kind, []).append(printed)
    [frame], [plain], [tables] = answers["python dbanon"], answers["python"], answers["python sqlalchemy"]
    assert frame.split() == ["32632", "247", "Rows"]
    assert plain.split() == ["32632", "247"]
    assert [line[:16] for line in tables.splitlines()] == [f"2026-01-05 08:0{n}" for n in (5, 6, 7)]
    made = {"city_k5.html", "city_k5.gpkg", "early.csv", "city_k5.fgb", "city_k5.parquet", "map.svg"}
    made |= {"whole.gpkg", "hour.gpkg"} if shutil.which("ogr2ogr") else set()
    assert [name for name in sorted(made) if not (stranger.folder / name).stat().st_size] == []
    demand_map((stranger.folder / "map.svg").read_text())
    demand_columns_explained(stranger.owner)


def demand_map(drawn: str) -> None:
    for picture in (drawn, (pages.ROOT / "docs" / "map.svg").read_text()):
        shapes = [element.tag.rpartition("}")[2] for element in ElementTree.fromstring(picture)]
        assert shapes.count("path") == 3  # two groups and the scale
        assert shapes.count("circle") > 100


def demand_columns_explained(url: str) -> None:
    named = "SELECT string_agg(attname, ' ') FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
    page = (pages.ROOT / READING).read_text()
    with psycopg.connect(url) as connection:
        for release in ("published.city_k5", "published.city_0810"):
            row = connection.execute(named, [release]).fetchone()
            assert row is not None
            assert [name for name in row[0].split() if f"`{name}`" not in page] == []


if __name__ == "__main__":
    WALK.write_text(walk())
