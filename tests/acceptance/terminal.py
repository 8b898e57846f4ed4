"""A terminal in a folder, in which tests type what a page shows, and hold the answers against it."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests import pages

SHELL = ("bash", "-euo", "pipefail", "-c")


def _keep_command(command: str) -> str:
    return command


@dataclass(frozen=True)
class Typed:
    """A command of a page: what the page shows below it, how it ended, and all that it printed."""

    command: str
    shown: list[str]
    code: int
    printed: str

    @property
    def expected(self) -> int:
        """The exit code that goes with what the page shows."""
        refused = any(line.startswith("dbanon: ") or "BROKEN" in line for line in self.shown)
        return 5 if refused else int(any(line.startswith("ERROR: ") for line in self.shown))

    def hold(self) -> None:
        """Demand that the command did what the page shows."""
        assert self.code == self.expected, f"{self.command}\n{self.printed}"
        assert pages.find_missing(self.shown, self.printed, same_figures=True) == [], f"{self.command}\n{self.printed}"


@dataclass
class Terminal:
    """A folder, and what is added to the environment there."""

    folder: Path
    environment: Mapping[str, str]
    typed: list[Typed] = field(default_factory=list)

    def run(self, script: str) -> tuple[int, str]:
        """Run a script; returns its exit code and all that it printed."""
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PGTZ": "UTC"}
        done = subprocess.run(
            (*SHELL, script),
            cwd=self.folder,
            env={**environment, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=600,
            check=False,
        )
        return done.returncode, done.stdout

    def run_well(self, script: str) -> str:
        """Run a script that must succeed."""
        code, printed = self.run(script)
        assert code == 0, f"{script}\n{printed}"
        return printed

    def follow(self, page: str, change: Callable[[str], str] = _keep_command, *others: str) -> None:
        """Type the commands of a page in order, and keep how each ended; `change` adapts a command to this machine.

        Each block of the page must be of the kind ``sh`` or ``console``, or of one of `others`, which the caller types.
        """
        blocks = pages.list_blocks(page, "sh", "console", *others)
        assert blocks == pages.split((pages.ROOT / page).read_text())
        for kind, block in blocks:
            if kind in others:
                continue
            commands = pages.split_typed(block) if kind == "console" else [(block, list[str]())]
            for command, shown in commands:
                code, printed = self.run(change(command))
                self.typed.append(Typed(command, shown, code, printed))
                assert code == self.typed[-1].expected, f"{command}\n{printed}"


WITH_WORKER = ("sh worker", "sql table", "sql")
"""The kinds of blocks that `join_worker_and_psql` types."""


def adapt_to_environment(command: str) -> str:
    """Leave out the commands of a page that make an environment with dbanon, in which tests are already."""
    if command == "./dev demo\n":
        return "dbanon demo --no-page"
    return command.replace(". .venv/bin/activate", "true")


def join_worker_and_psql(page: str) -> str:
    """Make one script of the blocks that start a worker and psql, and type statements there."""
    [(_, start)] = pages.list_blocks(page, "sh worker")
    statements = "".join(block for _, block in pages.list_blocks(page, "sql table", "sql"))
    started = start.replace("dbanon worker &\n", "dbanon worker > worker.log 2>&1 &\ntrap 'kill $!; wait' EXIT\n")
    assert started != start
    head, psql, nothing = started.partition("dbanon db psql\n")
    assert (psql, nothing) == ("dbanon db psql\n", "")
    up = "until dbanon db psql -Atc 'SELECT count(*) FROM dbanon.workers' | grep -qv '^0'; do sleep 0.2; done\n"
    return f"{head}{up}dbanon db psql -v ON_ERROR_STOP=1 <<'END'\n{statements}END\n"
