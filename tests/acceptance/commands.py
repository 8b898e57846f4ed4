"""Commands as users type them: in this process, in one of their own, or held up at a stage of their work."""

import csv
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from dbanon.cli.main import main

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def sentence(self) -> str:
        """The one sentence of a command that failed, without ``dbanon:``; there must be exactly one."""
        assert "Traceback" not in self.stderr, self.stderr
        said = [line for line in self.stderr.splitlines() if line.startswith("dbanon: ")]
        assert len(said) == 1, self.stderr
        assert self.stderr.rstrip().endswith(said[0]), self.stderr
        assert said[0].endswith((".", ";", "?", "'")), said[0]
        return said[0].removeprefix("dbanon: ")


def call(url: str, *arguments: str) -> Done:
    """Run a command in this process: a second faster than in one of its own."""
    stdout, stderr = io.StringIO(), io.StringIO()
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        with redirect_stdout(stdout), redirect_stderr(stderr), pytest.raises(SystemExit) as ended:
            main(["--dsn", url, *arguments])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert isinstance(ended.value.code, int)
    return Done(ended.value.code, stdout.getvalue(), stderr.getvalue())


def demand_done(told: Done) -> Done:
    assert told.code == 0, told.stderr
    return told


def run_typed(url: str, folder: Path, command: str) -> Done:
    """Run a command of a page in a folder: one of dbanon's in this process, anything else in bash."""
    words = shlex.split(command.replace("\\\n", " "))
    if words[0] == "dbanon" and words[1:3] != ["db", "psql"] and not re.search(r"[|<>;&$*]", command):
        with chdir(folder):
            return call(url, *words[1:])
    environment = {**os.environ, "DBANON_DSN": url, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)


def read_json(done: Done) -> dict[str, object]:
    """What ``--json`` printed: exactly one object."""
    told = json.loads(done.stdout)
    assert isinstance(told, dict)
    return told


def start(url: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a command in a process of its own."""
    command = [sys.executable, "-m", "dbanon", "--dsn", url, *arguments]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_signals,  # noqa: PLW1509 - there are no threads here
    )


def heed_signals() -> None:
    """Heed signals that whoever runs the tests may have had ignored, as nohup does."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def wait_for_end(process: subprocess.Popen[str], seconds: float = 60) -> Done:
    """Wait for a started command."""
    try:
        stdout, stderr = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return Done(process.returncode, stdout, stderr)


def shift_rows(file: Path, hours: int = 1) -> Path:
    """The same rows some hours later, since what is there already adds nothing."""
    shifted = file.with_name(f"{file.stem}_{hours}_later.csv")
    shifted.write_text(file.read_text().replace("T08:", f"T{8 + hours:02}:"))
    return shifted


def write_sites(trajectories: Path) -> Path:
    """Ten sensitive sites where the first ten trajectories of a file begin."""
    made = trajectories.with_name("sites.csv")
    rows = list(csv.DictReader(trajectories.read_text().splitlines()))
    first = list({row["subject"]: (row["subject"], row["lon"], row["lat"]) for row in reversed(rows)}.values())
    made.write_text("name,lon,lat\n" + "".join(",".join(row) + "\n" for row in first[-10:]))
    return made


@dataclass(frozen=True)
class Stage:
    """A moment of a command's work at which the lock of another session holds it up.

    Attributes
    ----------
    arguments : tuple of str
        ``{trajectories}``, ``{requests}`` and ``{sites}`` stand for files.
    table, mode : str
        What the other session locks: ``SHARE`` lets the command read and keeps it from writing.
    again : set of int
        Exit codes of the same command once more, after it was killed at this moment and the lock released: also 2
        where the server may finish the one statement it is in, unless it first has something to tell the dead client.
    """

    arguments: tuple[str, ...]
    table: str
    mode: str = "SHARE"
    again: frozenset[int] = frozenset({0})

    def words(self, files: tuple[Path, Path]) -> list[str]:
        named = {"trajectories": files[0], "requests": shift_rows(files[1]), "sites": write_sites(files[0])}
        return [word.format(**named) for word in self.arguments]


_LOAD = ("load", "trajectories", "{trajectories}", "--dataset", "second", "--x", "lon", "--y", "lat")
_REQUESTS = ("load", "requests", "{requests}", "--dataset", "city", "--columns", "poi")
_SITES = ("load", "sites", "{sites}", "--dataset", "city", "--x", "lon", "--y", "lat", "--name", "name", "--replace")
_IMPORT = ("import", "public.gps", "--dataset", "second", "--subject", "subject", "--time", "t", "--geom", "position")
_SYNTH = ("synth", "--dataset", "second", "--objects", "40", "--blocks", "4")
_RUN = ("run", "tp-aware", "--dataset", "city", "-p", "k=5", "--publish", "by_run")

_MAYBE_FINISHED = frozenset({0, 2})

STAGES = {
    "a load before it reads": Stage(_LOAD, "dbanon.dataset", "ACCESS EXCLUSIVE"),
    "a load with its rows staged": Stage(_LOAD, "dbanon.dataset"),
    "a load making trajectories": Stage(_LOAD, "dbanon.trajectory"),
    "a load writing its record": Stage(_LOAD, "dbanon.quarantine"),
    "an import reading": Stage(_IMPORT, "public.gps", "ACCESS EXCLUSIVE"),
    "an import making trajectories": Stage(_IMPORT, "dbanon.trajectory"),
    "a synth storing trajectories": Stage(_SYNTH, "dbanon.trajectory"),
    "a load storing requests": Stage(_REQUESTS, "dbanon.request"),
    "a load storing sites": Stage(_SITES, "dbanon.site"),
    "a load of sites writing its record": Stage(_SITES, "dbanon.quarantine"),
    "a run that starts": Stage(_RUN, "dbanon.run"),
    "a run reading": Stage(_RUN, "dbanon.trajectory", "ACCESS EXCLUSIVE"),
    "a run writing cloaks": Stage(_RUN, "dbanon.cloak"),
    "a run writing members": Stage(_RUN, "dbanon.membership"),
    "a run attacking": Stage(_RUN, "dbanon.verification"),
    "a run publishing": Stage(_RUN, "dbanon.release", again=_MAYBE_FINISHED),
    "verify": Stage(("verify", "1"), "dbanon.verification"),
    "publish": Stage(("publish", "1", "by_publish"), "dbanon.release", again=_MAYBE_FINISHED),
    "unpublish": Stage(("unpublish", "city_k5"), "dbanon.release", again=_MAYBE_FINISHED),
}


@contextmanager
def hold_up(url: str, stage: Stage, files: tuple[Path, Path]) -> Iterator[subprocess.Popen[str]]:
    """Start a command and hold it up at a stage for the length of the block."""
    # The lock goes with its session, whether the block lets it go or the server did.
    with suppress(psycopg.OperationalError), psycopg.connect(url) as holder:
        holder.execute(f"LOCK TABLE {stage.table} IN {stage.mode} MODE")
        process = start(url, *stage.words(files))
        with psycopg.connect(url, autocommit=True) as observer:
            deadline = time.monotonic() + 60
            while not list_waiting(observer):
                assert process.poll() is None, wait_for_end(process).stderr
                assert time.monotonic() < deadline
                time.sleep(0.01)
        yield process
        holder.rollback()


def list_waiting(observer: psycopg.Connection) -> list[tuple[int, str]]:
    """Process ids and statements of the sessions that wait for a lock."""
    return observer.execute(
        "SELECT pid, query FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    ).fetchall()
