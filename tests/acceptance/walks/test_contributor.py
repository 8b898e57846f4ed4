"""A contributor clones the repository and follows CONTRIBUTING.md: each command, and a change of SQL between them.

The packages are those of the environment that runs the tests, laid under a new one of the clone, so that nothing is
fetched. On a machine without one, `./dev` makes it.
"""

import hashlib
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests import pages

PAGE = "CONTRIBUTING.md"
WHOLE = "./dev test "
"""All tests: the run that this test is a part of."""


def list_commands() -> list[str]:
    """Give the lines of the page's blocks, in order."""
    blocks = pages.split((pages.ROOT / PAGE).read_text())
    assert {kind for kind, _ in blocks} == {"sh"}
    lines = [line for kind, block in blocks if kind == "sh" for line in block.splitlines()]
    return [line.partition("  #")[0].strip() for line in lines]


def lay_environment(clone: Path) -> None:
    """Make .venv in the clone: a new Python that finds the packages of this one, but not the package of this one."""
    made = clone / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True)
    [packages] = made.glob("lib/python*/site-packages")
    (packages / "tests.pth").write_text(f"{clone}\n{sysconfig.get_path('purelib')}\n")
    programs = Path(sys.executable).parent
    (made / "bin" / "ruff").symlink_to(programs / "ruff")
    for name in ("dbanon", "mypy", "lint-imports"):
        script = (programs / name).read_text().partition("\n")[2]
        (made / "bin" / name).write_text(f"#!{made}/bin/python\n{script}")
        (made / "bin" / name).chmod(0o755)
    digest = hashlib.sha256((clone / "pyproject.toml").read_bytes()).hexdigest()
    (made / "dev.stamp").write_text(f"{digest}  - {clone}\n")


@pytest.mark.stress  # lints and types the whole package, and runs tests of its own
def test_the_page_is_enough_for_a_first_change(tmp_path: Path) -> None:
    clone = tmp_path / "dbanon"
    subprocess.run(["git", "clone", "--quiet", pages.ROOT, clone], check=True)
    lay_environment(clone)
    words = {"GIT_AUTHOR_NAME": "Anna", "GIT_AUTHOR_EMAIL": "anna@example.org", "GIT_COMMITTER_NAME": "Anna"}
    words |= {"GIT_COMMITTER_EMAIL": "anna@example.org", "GIT_PAGER": "cat"}
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "DBANON_TEST_SEED"))}
    typed = [command for command in list_commands() if f"{command} " != WHOLE]
    assert WHOLE.strip() in list_commands()
    said = dict[str, str]()
    for command in typed:
        if "GOLDEN" in command:
            source = clone / "sql" / "60_releases" / "12_composition.sql"
            before, line, after = source.read_text().partition("- run_id: the number of the run.")
            assert line
            source.write_text(f"{before}- run_id: the number that the run has.{after}")
        done = subprocess.run(
            ["bash", "-c", command], cwd=clone, env={**kept, **words}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        said[command] = done.stdout
    assert "docs/reference/sql-" in said["git diff --stat"]
    assert "Explain readers of a release" in said[typed[-1]]
