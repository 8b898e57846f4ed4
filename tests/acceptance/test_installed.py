"""The wheel as people install programs: by uv and by pipx, without any extra."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dbanon import schema
from tests import pages
from tests.without_parts import list_absent

pytestmark = pytest.mark.stress

ROOT = Path(__file__).parents[2]
UV = ("uv", "tool", "install", "--compile-bytecode")  # as pip does, which makes it larger
PIPX = ("pipx", "install")
MAX_BYTES = 150_000_000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Make the wheel as docs/administrators/install.md says, with the builder that is here."""
    directory = tmp_path_factory.mktemp("wheel")
    [(_, block)] = pages.list_blocks("docs/administrators/install.md", "sh wheel")
    make, install = map(shlex.split, block.splitlines())
    assert (make[:2], make[-1]) == (["pip", "wheel"], ".")
    options = [str(directory / word) if word == "dist" else word for word in make[1:]]
    command = [sys.executable, "-m", *make[:1], *options, "--no-build-isolation"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    built = directory / install[-1].removesuffix("[all]")
    assert built.is_file(), done.stdout
    return str(built)


@pytest.mark.parametrize("install", [UV, PIPX], ids=lambda command: command[0])
def test_a_small_environment_of_its_own_has_every_command(
    install: tuple[str, ...], wheel: str, dbanon_database: str, tmp_path: Path
) -> None:
    made, programs = tmp_path / "made", tmp_path / "programs"
    environment = {
        "UV_TOOL_DIR": str(made), "UV_TOOL_BIN_DIR": str(programs),
        "PIPX_HOME": str(made), "PIPX_BIN_DIR": str(programs), "PIPX_MAN_DIR": str(tmp_path / "man"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }  # fmt: skip

    def run(*command: str) -> str:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, **environment}
        )
        assert done.returncode == 0, f"{command}: is there no {install[0]}, or no registry?\n{done.stderr}"
        return done.stdout

    run(*install, "--python", sys.executable, wheel)
    [settings] = made.rglob("dbanon/pyvenv.cfg")
    installed = list(settings.parent.rglob("*"))
    assert not set(list_absent()) & {file.name for file in installed if file.parent.name == "site-packages"}
    assert sum(file.lstat().st_size for file in installed) < MAX_BYTES
    program = str(programs / "dbanon")
    assert "Usage" in run(program, "--help")
    assert run(program, "db", "script") == schema.write_script()
    assert "published_at" in run(program, "--dsn", dbanon_database, "releases")
