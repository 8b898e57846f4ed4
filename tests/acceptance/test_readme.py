"""The commands of the README, in order, as a newcomer would type them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance import workers

pytestmark = pytest.mark.db
README = (Path(__file__).parents[2] / "README.md").read_text()


def blocks(language: str) -> str:
    found = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found
    return "\n".join(found)


def test_the_commands_of_the_readme_run_in_order(database: str, tmp_path: Path) -> None:
    programs = str(Path(sys.executable).parent)
    environment = {**os.environ, "DBANON_DSN": database, "PATH": f"{programs}:{os.environ['PATH']}"}
    shell = blocks("sh").replace(". .venv/bin/activate\n", "")

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    typed = run("bash", "-euo", "pipefail", "-c", shell)
    assert typed.returncode == 0, typed.stderr
    assert "published.city_k5" in typed.stdout

    with workers.up(database, tmp_path / "log"):
        for kind in ("sql worker", "sql"):
            asked = run("psql", "-X", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", blocks(kind))
            assert asked.returncode == 0, asked.stderr

    python = run(sys.executable, "-W", "error", "-c", blocks("python"))
    assert python.returncode == 0, python.stderr
    assert python.stdout.startswith("verified 0.")
