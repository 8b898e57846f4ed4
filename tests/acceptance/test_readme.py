"""The README and the tutorial, typed as a newcomer would, and the page for analysts on what they made."""

import os
import re
import secrets
import shlex
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
from tests.acceptance import terminal as terminals
from tests.acceptance.terminal import SHELL, Terminal, Typed

pytestmark = pytest.mark.db
README, TUTORIAL, ANALYST = "README.md", "docs/tutorial.md", "docs/analysts/analyst.md"
PSQL = ("psql", "-X", "-v", "ON_ERROR_STOP=1")


@dataclass
class Session:
    """A terminal in a folder, with a database of its own; `typed` are the commands of its pages."""

    url: str
    folder: Path
    typed: list[Typed] = field(default_factory=list)

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
    """All that the tutorial does is done."""
    folder, made = tmp_path_factory.mktemp("tutorial"), f"dbanon_anna_{secrets.token_hex(4)}"
    with cloned_database(dbanon_server, dbanon_template) as url, logins(url) as login:
        anna = login("analyst")

        def change(command: str) -> str:
            own = command.replace('"$(dbanon db url --user anna)"', shlex.quote(anna))
            return own.replace("CREATE ROLE anna", f"CREATE ROLE {made}")

        terminal = Terminal(folder, {"DBANON_DSN": url})
        try:
            terminal.follow(TUTORIAL, change)
            yield Session(url, folder, terminal.typed)
        finally:
            terminal.must(f"dbanon db psql -c 'DROP ROLE IF EXISTS {made}'")


@pytest.fixture
def as_analyst(session: Session) -> Iterator[Callable[..., str]]:
    """Run a program with the URL of an analyst's login as its last argument."""
    with logins(session.url) as login:
        url = login("analyst")
        yield lambda *command, text: session.run(*command, url, text=text)


@pytest.mark.stress
def test_the_tutorial_shows_what_its_commands_print(session: Session) -> None:
    assert session.typed
    for typed in session.typed:
        typed.hold()


@pytest.fixture(scope="module")
def readme(dbanon_server: Target, dbanon_template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """All that the README does is done."""
    with cloned_database(dbanon_server, dbanon_template) as url:
        terminal = Terminal(tmp_path_factory.mktemp("readme"), {"DBANON_DSN": url})
        terminal.follow(README, terminals.in_the_environment)
        terminal.must(terminals.worker_and_psql(README))
        yield Session(url, terminal.folder, terminal.typed)


@pytest.mark.stress
def test_the_readme_shows_what_its_commands_print_and_its_four_statements_run(readme: Session) -> None:
    assert readme.typed
    for typed in readme.typed:
        typed.hold()
    with psycopg.connect(readme.url) as connection:
        published = "SELECT name, withdrawn_at IS NULL FROM dbanon.release ORDER BY name"
        assert connection.execute(published).fetchall() == [("demo_k5", True), ("friday_k5", False)]


@pytest.mark.stress
def test_the_true_answer_of_the_readme_is_true_and_within_its_bounds(readme: Session) -> None:
    page = (pages.ROOT / README).read_text()
    [(envelope, at)] = re.findall(r"(ST_MakeEnvelope\(.+?\)), at => '(.+?)'", page)
    [(least, most)] = re.findall(r"^ +(\d+) \| +\d+ \| +(\d+)$", page, re.MULTILINE)
    [said] = re.findall(r"The private data say (\d+)\.", page)
    true = f"""
        SELECT count(*)
        FROM dbanon.fix f JOIN dbanon.membership m USING (trajectory_id) JOIN dbanon.release l USING (run_id)
        WHERE l.name = 'demo_k5' AND f.t = %s AND ST_Intersects(f.position, {envelope})
    """
    with psycopg.connect(readme.url) as connection:
        assert connection.execute(true, [at]).fetchone() == (int(said),)  # type: ignore[arg-type]
    assert int(least) <= int(said) <= int(most)


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
    page = (pages.ROOT / README).read_text()
    printed = [
        line for _, block in pages.blocks(README, "console") for _, lines in pages.typed(block) for line in lines
    ]
    assert len(page.split()) - sum(len(line.split()) for line in printed) <= 950
    assert len(page.partition("```sh")[0].split()) <= 200
    doors = [line for line in page.splitlines() if line.startswith("| **")]
    assert len(doors) == 3
    assert all("](" in door for door in doors)


def test_the_text_of_the_picture_of_the_readme_is_that_of_the_picture() -> None:
    [said] = re.findall(r"!\[(.+?)\]\(docs/readme.svg\)", (pages.ROOT / README).read_text())
    [drawn] = re.findall(r"<desc[^>]*>(.+?)</desc>", (pages.ROOT / "docs" / "readme.svg").read_text())
    assert re.findall(r"\d+", said)
    assert [figure for figure in re.findall(r"\d+", said) if figure not in re.findall(r"\d+", drawn)] == []
