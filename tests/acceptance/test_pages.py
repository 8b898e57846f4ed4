"""The programs of the pages for developers, run as their readers would run them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dbanon import testing
from dbanon.server import Target
from tests import pages

pytestmark = pytest.mark.db
TESTING = "docs/testing.md"


def python(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command, words = [sys.executable, "-W", "error", *arguments], {**os.environ, **environment}
    return subprocess.run(command, cwd=folder, env=words, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(("kind", "runner"), [("pytest", ("-m", "pytest", "-q")), ("unittest", ())])
def test_the_tests_of_the_testing_page_pass(
    dbanon_server: Target, tmp_path: Path, kind: str, runner: tuple[str, ...]
) -> None:
    [(_, program)] = pages.blocks(TESTING, f"python {kind}")
    (tmp_path / "test_releases.py").write_text(program)
    done = python(tmp_path, *runner, "test_releases.py", DBANON_TEST_DSN=dbanon_server.url, DBANON_TEST_SERVER="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout or "Ran 1 test" in done.stderr


def test_the_testing_page_names_every_fixture_and_function() -> None:
    page = (pages.ROOT / TESTING).read_text()
    assert [name for name in testing.__all__ if f"`{name}" not in page] == []
