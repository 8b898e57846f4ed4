"""The programs of the pages for developers, and the recipes for several releases, run as their readers would."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dbanon import testing
from dbanon.base import errors
from dbanon.database import Database
from dbanon.postgres.server import Target
from tests import pages
from tests.acceptance.commands import run_typed

pytestmark = pytest.mark.db
TESTING, API = "docs/developers/testing.md", "docs/reference/python.md"
RECIPES = "docs/administrators/several-releases.md"
DATA = ("docs/administrators/generate.md", "docs/administrators/load-formats.md")
REFUSED = 5  # the exit code


def run_python(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command, words = [sys.executable, "-W", "error", *arguments], {**os.environ, **environment}
    return subprocess.run(command, cwd=folder, env=words, capture_output=True, text=True, timeout=300, check=False)


def run_tests(folder: Path, server: Target, *runner: str) -> str:
    for kind in ("pytest", "unittest"):
        [(_, program)] = pages.list_blocks(TESTING, f"python {kind}")
        (folder / f"test_with_{kind}.py").write_text(program)
    done = run_python(folder, *runner, DBANON_TEST_DSN=server.url, DBANON_TEST_SERVER="")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.stress
def test_the_tests_of_the_testing_page_pass(dbanon_server: Target, tmp_path: Path) -> None:
    assert "2 passed" in run_tests(tmp_path, dbanon_server, "-m", "pytest", "-q")


@pytest.mark.stress
def test_the_tests_of_the_testing_page_need_no_pytest(dbanon_server: Target, tmp_path: Path) -> None:
    absent = "import sys; sys.modules['pytest'] = None; import unittest; unittest.main('test_with_unittest')"
    assert "Ran 1 test" in run_tests(tmp_path, dbanon_server, "-c", absent)


def test_the_testing_page_names_every_fixture_and_function() -> None:
    page = (pages.ROOT / TESTING).read_text()
    assert [name for name in testing.__all__ if f"`{name}" not in page] == []


@pytest.mark.stress
def test_the_programs_of_the_python_page_and_of_the_pages_on_data_run(database: str, tmp_path: Path) -> None:
    program = "\n".join(text for page in (API, *DATA) for _, text in pages.list_blocks(page, "python"))
    done = run_python(tmp_path, "-c", program, DBANON_DSN=database)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("2 ") and "'k'" in line]  # the exit code


@pytest.mark.stress
def test_the_commands_of_the_page_on_generated_data_run(database: str, tmp_path: Path) -> None:
    write_streets(tmp_path, 30)
    for _, block in pages.list_blocks(DATA[0], "sh"):
        for command in block.replace("\\\n", "").splitlines():
            done = run_typed(database, tmp_path, command)
            assert done.code == 0, command + done.stderr


def write_streets(folder: Path, size: int) -> None:
    """Write the two files of a network: crossings in squares of some 100 m."""
    nodes = [f"{i * size + j},{8.2 + i * 0.0015},{53.1 + j * 0.0009}" for i in range(size) for j in range(size)]
    east = [f"{n},{n + size},101,3" for n in range(size * (size - 1))]
    north = [f"{n},{n + 1},101,3" for n in range(size * size) if (n + 1) % size]
    (folder / "nodes.csv").write_text("\n".join(["id,lon,lat", *nodes]) + "\n")
    (folder / "edges.csv").write_text("\n".join(["from,to,length,class", *east, *north]) + "\n")


@pytest.mark.stress
def test_the_program_of_the_python_page_has_the_types_it_shows(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("\n".join(text for _, text in pages.list_blocks(API, "python")))
    done = run_python(tmp_path, "-m", "mypy", "--strict", "program.py")
    assert done.returncode == 0, done.stdout


def test_the_python_page_names_every_verb_and_every_error() -> None:
    page = (pages.ROOT / API).read_text()
    verbs = [name for name, _ in inspect.getmembers(Database, inspect.isfunction) if not name.startswith("_")]
    assert [name for name in verbs if f"\n### Database.{name}\n" not in page] == []
    page = (pages.ROOT / "docs/reference/errors.md").read_text()
    for kind in errors.DbanonError.__subclasses__():
        assert f"\n| `{kind.__name__}` | {kind.exit_code} |" in page


@pytest.mark.stress
def test_the_recipes_for_several_releases_end_as_their_page_says(database: str, tmp_path: Path) -> None:
    for kind, block in pages.list_blocks(RECIPES, "console", "console refused"):
        for command, shown in pages.split_typed(block):
            done = run_typed(database, tmp_path, command)
            assert done.code == (REFUSED if kind == "console refused" else 0), command + done.stderr
            assert pages.find_missing(shown, done.stdout + done.stderr) == [], done.stdout + done.stderr
