"""The commands of the README, in order, as a newcomer would type them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dbanon.postgres.server import Target
from dbanon.testing import cloned_database
from tests import pages
from tests.acceptance import workers

pytestmark = pytest.mark.db
README = "README.md"
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


def test_the_readme_fits_its_length_and_opens_three_doors() -> None:
    lines = (pages.ROOT / README).read_text().splitlines()
    assert len(lines) < 180
    doors = [line for line in lines if line.startswith("| **")]
    assert len(doors) == 3
    assert all("](" in door for door in doors)
