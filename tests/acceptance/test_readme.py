"""The commands of the README, in order, as a newcomer would type them; and the page for analysts, on what they made."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import psycopg
import pytest

from dbanon.postgres.server import Target
from dbanon.testing import cloned_database, logins
from tests import pages
from tests.acceptance import workers

pytestmark = pytest.mark.db
README, ANALYST = "README.md", "docs/analysts/analyst.md"
SHELL = ("bash", "-euo", "pipefail", "-c")
PSQL = ("psql", "-X", "-v", "ON_ERROR_STOP=1")


@dataclass
class Session:
    """A terminal in a folder, with a database of its own; `typed` is what was answered to each console command."""

    url: str
    folder: Path
    typed: list[tuple[list[str], str]] = field(default_factory=list)

    def run(self, *command: str, text: str | None = None) -> str:
        programs = Path(sys.executable).parent
        environment = {**os.environ, "DBANON_DSN": self.url, "PATH": f"{programs}:{os.environ['PATH']}", "PGTZ": "UTC"}
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def session(dbanon_server: Target, dbanon_template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """All that the README does in the shell is done."""
    with cloned_database(dbanon_server, dbanon_template) as url:
        session = Session(url, tmp_path_factory.mktemp("readme"))
        for kind, block in pages.blocks(README, "sh", "console"):
            if kind == "sh":
                session.run(*SHELL, block.replace(". .venv/bin/activate\n", ""))
            else:
                session.typed += [(shown, session.run(*SHELL, command)) for command, shown in pages.typed(block)]
        yield session


@pytest.fixture
def as_analyst(session: Session) -> Iterator[Callable[..., str]]:
    """Run a program with the URL of an analyst's login as its last argument."""
    with logins(session.url) as login:
        url = login("analyst")
        yield lambda *command, text: session.run(*command, url, text=text)


@pytest.mark.stress
def test_the_readme_shows_what_its_commands_print_and_its_programs_run(session: Session, tmp_path: Path) -> None:
    assert session.typed
    for shown, output in session.typed:
        assert pages.missing(shown, output) == [], output
    with workers.up(session.url, tmp_path / "log"):
        for _, block in pages.blocks(README, "sql worker", "sql"):
            session.run(*PSQL, session.url, text=block)
    [(_, program)] = pages.blocks(README, "python")
    assert session.run(sys.executable, "-W", "error", "-c", program).startswith("verified 0.")


@pytest.mark.stress
def test_an_analyst_can_do_all_that_the_analysts_page_shows(session: Session, as_analyst: Callable[..., str]) -> None:
    for _, block in pages.blocks(ANALYST, "sql"):
        answer = as_analyst(*PSQL, "-At", text=block)
        assert answer.strip(), block
    every_column_is_explained(session)
    the_program_reads_the_release(session, as_analyst)
    the_files_are_written_as_shown(as_analyst)
    the_frame_is_read(as_analyst)
    the_table_is_queried(as_analyst)
    the_map_is_that_of_the_page(as_analyst)


def every_column_is_explained(session: Session) -> None:
    named = "SELECT string_agg(attname, ' ') FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
    page = (pages.ROOT / ANALYST).read_text()
    with psycopg.connect(session.url) as connection:
        for release in ("published.city_k5", "published.city_0810"):
            row = connection.execute(named, [release]).fetchone()
            assert row is not None
            assert [name for name in row[0].split() if f"`{name}`" not in page] == []


def the_program_reads_the_release(session: Session, as_analyst: Callable[..., str]) -> None:
    [(_, program)] = pages.blocks(ANALYST, "python")
    url = "sys.argv[1].replace('postgresql://', 'postgresql+psycopg://')"
    change = f"import sys; exec(sys.stdin.read().replace('postgresql+psycopg://anna@server/geo', {url}))"
    printed = as_analyst(sys.executable, "-W", "error", "-c", change, text=program)
    srid, people, side_m = printed.split()
    assert (srid, people) == ("32632", "247")
    assert int(side_m) > 0
    assert (session.folder / "city_k5.parquet").stat().st_size > 0


def the_files_are_written_as_shown(as_analyst: Callable[..., str]) -> None:
    for _, block in pages.blocks(ANALYST, "console"):
        for command, shown in pages.typed(block):
            printed = as_analyst(*SHELL, f"export DBANON_DSN=$0; {command}", text="")
            assert pages.missing(shown, printed) == [], printed


def the_frame_is_read(as_analyst: Callable[..., str]) -> None:
    [(_, program)] = pages.blocks(ANALYST, "python dbanon")
    change = "import sys; exec(sys.stdin.read().replace('postgresql://anna@server/geo', sys.argv[1]))"
    printed = as_analyst(sys.executable, "-W", "error", "-c", change, text=program)
    assert printed.split() == ["32632", "247", "Rows"]


def the_table_is_queried(as_analyst: Callable[..., str]) -> None:
    [(_, program)] = pages.blocks(ANALYST, "python sqlalchemy")
    url = "sys.argv[1].replace('postgresql://', 'postgresql+psycopg://')"
    change = f"import sys; exec(sys.stdin.read().replace('postgresql+psycopg://anna@server/geo', {url}))"
    *minutes, frame = as_analyst(sys.executable, "-W", "error", "-c", change, text=program).splitlines()
    assert [line[:16] for line in minutes] == [f"2026-01-05 08:0{n}" for n in (5, 6, 7)]
    assert frame == "32632 247"


def the_map_is_that_of_the_page(as_analyst: Callable[..., str]) -> None:
    drawn = as_analyst(*PSQL, "-Atq", "-v", "release=city_0810", "-f", str(pages.ROOT / "docs" / "map.sql"), text="")
    for picture in (drawn, (pages.ROOT / "docs" / "map.svg").read_text()):
        shapes = [element.tag.rpartition("}")[2] for element in ElementTree.fromstring(picture)]
        assert shapes.count("path") == 3  # two groups and the scale
        assert shapes.count("circle") > 100


def test_the_readme_fits_its_length_and_opens_three_doors() -> None:
    lines = (pages.ROOT / README).read_text().splitlines()
    assert len(lines) < 180
    doors = [line for line in lines if line.startswith("| **")]
    assert len(doors) == 3
    assert all("](" in door for door in doors)
