"""The README and the tutorial, typed as a newcomer would."""

import re
import secrets
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from dbanon.postgres.server import Target
from dbanon.testing import cloned_database, logins
from tests import pages
from tests.acceptance import terminal as terminals
from tests.acceptance.terminal import Terminal, Typed

pytestmark = pytest.mark.db
README, TUTORIAL = "README.md", "docs/tutorial.md"


@dataclass(frozen=True)
class Session:
    """A database of its own in which a page was followed, and the commands of the page."""

    url: str
    typed: list[Typed]


@pytest.fixture(scope="module")
def tutorial(
    dbanon_server: Target, dbanon_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Session]:
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
            yield Session(url, terminal.typed)
        finally:
            terminal.run_well(f"dbanon db psql -c 'DROP ROLE IF EXISTS {made}'")


@pytest.mark.stress
def test_the_tutorial_shows_what_its_commands_print(tutorial: Session) -> None:
    assert tutorial.typed
    for typed in tutorial.typed:
        typed.hold()


@pytest.fixture(scope="module")
def readme(dbanon_server: Target, dbanon_template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """All that the README does is done."""
    with cloned_database(dbanon_server, dbanon_template) as url:
        terminal = Terminal(tmp_path_factory.mktemp("readme"), {"DBANON_DSN": url})
        terminal.follow(README, terminals.adapt_to_environment, *terminals.WITH_WORKER)
        terminal.run_well(terminals.join_worker_and_psql(README))
        yield Session(url, terminal.typed)


def test_the_readme_shows_what_its_commands_print_and_what_is_true(readme: Session) -> None:
    assert readme.typed
    for typed in readme.typed:
        typed.hold()
    with psycopg.connect(readme.url) as connection:
        published = "SELECT name, withdrawn_at IS NULL FROM dbanon.release ORDER BY name"
        assert connection.execute(published).fetchall() == [("demo_k5", True), ("taxi_k5", False)]

    page = (pages.ROOT / README).read_text()
    [(envelope, at)] = re.findall(r"(ST_MakeEnvelope\(.+?\)),\s+at => '(.+?)'", page)
    [(least, most)] = re.findall(r"^ +(\d+) \| +\d+ \| +(\d+)$", page, re.MULTILINE)
    [said] = re.findall(r"Of the people published, (\d+) were there, .+? With those left out: (\d+)\.", page)
    true = f"""
        SELECT count(*) FILTER (WHERE published), count(*)
        FROM (SELECT DISTINCT ON (f.trajectory_id) f.position, EXISTS (
                  SELECT FROM dbanon.membership m JOIN dbanon.release l USING (run_id)
                  WHERE l.name = 'demo_k5' AND m.trajectory_id = f.trajectory_id) AS published
              FROM dbanon.fix f JOIN dbanon.dataset d USING (dataset_id)
              WHERE d.name = 'demo' AND f.t BETWEEN %(at)s::timestamptz - interval '5 minutes' AND %(at)s
              ORDER BY f.trajectory_id, f.t DESC) last
        WHERE ST_Intersects(last.position, {envelope})
    """  # the last fix of five minutes, by which `last` places people
    with psycopg.connect(readme.url) as connection:
        assert connection.execute(true, {"at": at}).fetchone() == tuple(map(int, said))  # type: ignore[arg-type]
    assert int(least) <= int(said[0]) <= int(most)


def test_who_may_use_it_is_what_it_costs() -> None:
    page = (pages.ROOT / README).read_text()
    assert "- counts in squares of 2 km may be off by a fifth" in page
    [cells] = re.findall(r"^\| counts over ten minutes in 2 km off by ((?:\| \d+ % )+)", page, re.MULTILINE)
    with_k_5 = [int(figure) for figure in re.findall(r"\d+", cells)][::2]
    assert [round(figure / 20) for figure in with_k_5] == [1, 1]


def test_the_readme_fits_its_length_and_opens_three_doors() -> None:
    page = (pages.ROOT / README).read_text()
    assert len(page.split()) <= 900
    assert len(page.partition("```sh")[0].split()) <= 200
    doors = [line for line in page.splitlines() if line.startswith("- **")]
    assert len(doors) == 3
    assert all("](" in door for door in doors)


def test_the_text_of_the_picture_of_the_readme_is_that_of_the_picture() -> None:
    [said] = re.findall(r"!\[(.+?)\]\(docs/readme.svg\)", (pages.ROOT / README).read_text())
    [drawn] = re.findall(r"<desc[^>]*>(.+?)</desc>", (pages.ROOT / "docs" / "readme.svg").read_text())
    assert re.findall(r"\d+", said)
    assert [figure for figure in re.findall(r"\d+", said) if figure not in re.findall(r"\d+", drawn)] == []
