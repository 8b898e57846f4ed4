"""Commands in an installation without parts: packages cannot be imported. Run as a program, by `run` alone.

The program imports what commands share once; each command is done by a child of it.
"""

import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from dbanon.base.extras import PACKAGES, Part
from tests.acceptance.commands import Done

ALSO: dict[Part, tuple[str, ...]] = {"files": ("pandas",), "compute": ("llvmlite",), "dask": ()}
"""What the packages of parts bring."""


class Blocked:
    """A finder of modules that lets no module of some packages be found."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = packages

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in self.packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def list_absent(*parts: Part) -> list[str]:
    """Name the packages that an installation with some parts does not have."""
    brought = {part: {*names, *ALSO[part]} for part, names in PACKAGES.items()}
    return sorted(set().union(*brought.values()) - set().union(*(brought[part] for part in parts)))


def run(commands: Sequence[Sequence[str]], *parts: Part, cwd: str | os.PathLike[str] | None = None) -> list[Done]:
    """Run commands one after another in an installation with some parts."""
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "tests.without_parts", json.dumps(list_absent(*parts))],
        input=json.dumps([list(command) for command in commands]), capture_output=True, text=True, check=False, cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [Done(*json.loads(line)) for line in done.stdout.splitlines()]


def _play(arguments: list[str]) -> tuple[int, str, str]:
    from dbanon.cli.main import main

    stdout, stderr, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(stdout), redirect_stderr(stderr):
        try:
            main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, stdout.getvalue(), stderr.getvalue()


def _run_in_child(arguments: list[str]) -> str:
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        with os.fdopen(write, "w", encoding="utf-8") as out:
            json.dump(_play(arguments), out)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as told:
        said = told.read()
    os.waitpid(child, 0)
    return said


if __name__ == "__main__":
    blocked = json.loads(sys.argv[1])
    assert not set(blocked) & set(sys.modules)
    sys.meta_path.insert(0, Blocked(blocked))  # type: ignore[arg-type]

    for command in json.load(sys.stdin):
        print(_run_in_child(command), flush=True)
