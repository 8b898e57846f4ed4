"""Does anything half-done survive a kill? Commands are killed at random moments, and what is left is checked in SQL.

Run with ``./dev bench benchmarks/kill.py``; ``DBANON_KILLS`` is the number of tries (200), ``DBANON_TEST_SEED`` the
seed. An embedded server of its own is used. Each try starts one command, waits for a moment drawn uniformly either
from its usual duration or from one of its stages after the start, and kills: the command (SIGKILL, or SIGTERM and
SIGINT, which it may answer), a backend of the server, or the whole server. Then the next command must work, every rule
of ``tests/wholeness.py`` must hold, and a command that could still speak must have said one sentence. Ends with 1 if
not.
"""

import itertools
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))
from dbanon.cli.report import format_table
from dbanon.postgres.server import EmbeddedServer
from tests import wholeness

TRIES = int(os.environ.get("DBANON_KILLS") or 200)
SEED = int(os.environ.get("DBANON_TEST_SEED") or secrets.randbelow(2**31))
START_S = 1_767_600_000
SUBJECTS, INSTANTS, BAD_ROWS, REQUESTS = 3000, 30, 40, 20_000
VICTIMS = {"command": 10, "command, SIGTERM": 2, "command, SIGINT": 2, "backend": 3, "server": 3}
"""Who is killed, and how often in 20 tries."""
ENDED = "ended before"


@dataclass(frozen=True)
class Verb:
    """A command to kill; `count` is a query whose result grows by what the command brings about."""

    name: str
    arguments: tuple[str, ...]
    count: str


LOADS = "SELECT count(*) FROM dbanon.load"
RUNS = """SELECT (SELECT count(*) FROM dbanon.run WHERE status = 'verified')
    + (SELECT count(*) FROM dbanon.release WHERE run_id > 1)"""
GPS = ("public.gps", "--subject", "subject", "--time", "t", "--geom", "position")
# {n} is the number of the try; {fixes}, {later} (of other times) and {requests} are files, {live} some live release.
VERBS = (
    Verb("load", ("load", "trajectories", "{fixes}", "--dataset", "new_{n}"), LOADS),
    Verb("run --publish", ("run", "tp-aware", "--dataset", "base", "-p", "k=20", "--publish", "run_{n}"), RUNS),
    Verb("publish", ("publish", "1", "again_{n}"), "SELECT count(*) FROM dbanon.release"),
    Verb("load --append", ("load", "trajectories", "{later}", "--dataset", "grown", "--append"), LOADS),
    Verb("run", ("run", "tp-aware", "--dataset", "base", "-p", "k=40"), RUNS),
    Verb("unpublish", ("unpublish", "{live}"), "SELECT count(*) FROM dbanon.release WHERE withdrawn_at IS NOT NULL"),
    Verb("load --replace", ("load", "trajectories", "{fixes}", "--dataset", "replaced", "--replace"), LOADS),
    Verb("load requests", ("load", "requests", "{requests}", "--dataset", "grown", "--columns", "poi"), LOADS),
    Verb("import", ("import", *GPS, "--dataset", "new_import_{n}"), LOADS),
    Verb("synth", ("synth", "--dataset", "new_synth_{n}", "--objects", "5000", "--blocks", "8"), LOADS),
    Verb("verify", ("verify", "1"), "SELECT count(*) FROM dbanon.verification WHERE run_id = 1"),
)


@dataclass
class Watched:
    """A running command, and when it came to which stage (seconds since its start)."""

    process: subprocess.Popen[str]
    began: float = field(default_factory=time.monotonic)
    lines: list[str] = field(default_factory=list)
    stages: list[tuple[str, float]] = field(default_factory=lambda: [("starting", 0.0)])

    def listen(self) -> None:
        """Note each line it says on stderr, until it ends."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())
            self.stages.append((_stage(line), time.monotonic() - self.began))

    def wait_for(self, stage: str | None, seconds: float) -> None:
        """Sleep until `seconds` after the stage began (None: after the start), or until the command ends."""
        while self.process.poll() is None:
            since = [at for name, at in self.stages if stage in (None, name)]
            if since and time.monotonic() - self.began >= since[0] + seconds:
                return
            time.sleep(0.002)


def _stage(line: str) -> str:
    if line.startswith("dbanon: "):
        return "ending"
    return "connected" if line.startswith("embedded") else " ".join(line.split()[: 2 if "cloaks" in line else 1])


class Harness:
    """One embedded server, and commands on it."""

    def __init__(self, place: Path, rng: random.Random) -> None:
        self.rng = rng
        self.server = EmbeddedServer(place / "home")
        self.files = write_files(place, np.random.default_rng(rng.randrange(2**32)))
        named = ("DBANON_DSN", "PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGSERVICE")
        kept = {key: value for key, value in os.environ.items() if key not in named}
        self.environment = {**kept, "DBANON_HOME": str(self.server.home)}
        self.laps = 0
        self.usual: dict[str, list[tuple[str, float, float]]] = {}

    def start(self, *arguments: str) -> tuple[Watched, threading.Thread]:
        """Start a command, and a thread that listens to it."""
        command = [sys.executable, "-m", "dbanon", *arguments]
        process = subprocess.Popen(
            command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        watched = Watched(process)
        listener = threading.Thread(target=watched.listen)
        listener.start()
        return watched, listener

    def finish(self, *arguments: str) -> Watched:
        """Run a command that must work."""
        watched, listener = self.start(*arguments)
        watched.process.wait()
        listener.join()
        watched.stages.append(("end", time.monotonic() - watched.began))
        if watched.process.returncode:
            raise SystemExit(f"{' '.join(arguments)} must work. It said: {watched.lines}")
        return watched

    def connect(self) -> psycopg.Connection:
        """Connect as soon as the server is up again."""
        deadline = time.monotonic() + 60
        while True:
            try:
                return psycopg.connect(self.server.start().url, autocommit=True)
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def prepare(self) -> None:
        """Load what the commands need, and measure how long each usually takes in each stage."""
        for dataset in ("base", "grown", "replaced"):
            self.finish("load", "trajectories", self.files["fixes"], "--dataset", dataset)
        self.finish("load", "requests", self.files["requests"], "--dataset", "base", "--columns", "poi")
        self.finish("run", "tp-aware", "--dataset", "base", "-p", "k=20", "--publish", "first")
        with self.connect() as connection:
            connection.execute(
                "CREATE TABLE public.gps AS SELECT subject, t, position FROM dbanon.fix "
                "WHERE dataset_id = (SELECT dataset_id FROM dbanon.dataset WHERE name = 'base')"
            )
        for verb in VERBS:
            stages = self.finish(*self.fill_arguments(verb, "usual")).stages
            self.usual[verb.name] = [(a[0], a[1], b[1]) for a, b in itertools.pairwise(stages)]

    def fill_arguments(self, verb: Verb, n: object) -> list[str]:
        """Fill in the arguments of a command."""
        live = ""
        if "{live}" in verb.arguments:
            with self.connect() as connection:
                query = "SELECT name FROM dbanon.release WHERE withdrawn_at IS NULL ORDER BY release_id DESC LIMIT 1"
                live = (connection.execute(query).fetchone() or ["none"])[0]
        if "{later}" in verb.arguments:
            self.laps += 1
            write_fixes(Path(self.files["later"]), np.random.default_rng(self.laps), START_S + 86_400 * self.laps)
        return [word.format(n=n, live=live, **self.files) for word in verb.arguments]

    def kill_one(self, verb: Verb, n: int) -> tuple[str, str, str, list[str]]:
        """Kill one command; returns the stage it was in, who was killed, what is there, and what is wrong."""
        with self.connect() as connection:
            before = wholeness.count(connection, verb.count)
        victim = self.rng.choices([*VICTIMS], [*VICTIMS.values()])[0]
        watched, listener = self.start(*self.fill_arguments(verb, n))
        usual = self.usual[verb.name]
        stage, since, until = self.rng.choice([*usual[1:], (None, 0.0, usual[-1][2])])
        watched.wait_for(stage, self.rng.uniform(0, until - since))
        reached = watched.stages[-1][0] if watched.process.poll() is None else ENDED
        if not self.kill(victim, watched):
            victim = "command"
            watched.process.kill()
        watched.process.wait()
        listener.join()
        wrong = self.check(verb, watched)
        with self.connect() as connection:
            gained = wholeness.count(connection, verb.count) - before
            wrong += wholeness.find_broken(connection)
            connection.execute("DELETE FROM dbanon.dataset WHERE name LIKE 'new%'")
        return reached, victim, "there" if gained else "nothing", wrong

    def kill(self, victim: str, watched: Watched) -> bool:
        """Kill somebody; returns whether there was anybody, for a command that has only begun has no backend."""
        if victim.startswith("command"):
            name = victim.partition(", ")[2] or "SIGKILL"
            watched.process.send_signal(signal.Signals[name])
            return True
        with suppress(psycopg.OperationalError, OSError):
            pid = self.server._find_postmaster()
            if victim == "backend":
                with psycopg.connect(self.server.url) as connection:
                    query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> %s"
                    others = connection.execute(query, [connection.info.backend_pid]).fetchall()
                pid = self.rng.choice(others)[0] if others else None
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    def check(self, verb: Verb, watched: Watched) -> list[str]:
        """Wait until the server is alone, run the next command, and look at what the killed one said."""
        with self.connect() as connection:
            wholeness.wait_until_alone(connection, 60)
        self.finish("runs")
        code, said = watched.process.returncode, [line for line in watched.lines if line.startswith("dbanon: ")]
        if any("/dbanon/" in line for line in watched.lines if line.startswith('  File "')):
            return [f"{verb.name} ended with a traceback: {watched.lines}"]
        if (code > 0 and len(said) != 1) or (code == 0 and said):
            return [f"{verb.name} ended with {code} and said {said}"]
        return []


def write_files(place: Path, rng: np.random.Generator) -> dict[str, str]:
    """Write the files that the commands name, but for those that are written anew for each try."""
    files = {name: place / f"{name}.csv" for name in ("fixes", "later", "requests")}
    write_fixes(files["fixes"], rng, START_S)
    with files["requests"].open("w") as file:
        file.write("subject,time,poi\n")
        sent = zip(rng.integers(SUBJECTS, size=REQUESTS), rng.integers(60 * INSTANTS, size=REQUESTS), strict=True)
        file.writelines(f"s{s},{START_S + t},kind {t % 9}\n" for s, t in sent)
    return {name: str(path) for name, path in files.items()}


def write_fixes(path: Path, rng: np.random.Generator, start_s: int) -> None:
    """Random walks of a few thousand subjects, with some unusable rows among them."""
    walks = rng.normal(0, 0.002, (SUBJECTS, INSTANTS, 2)).cumsum(axis=1) + rng.uniform(0, 0.1, (SUBJECTS, 1, 2))
    with path.open("w") as file:
        file.write("subject,time,x,y\n")
        for s in range(SUBJECTS):
            file.writelines(
                f"s{s},{start_s + 60 * t},{8.2 + x:.6f},{53.1 + y:.6f}\n" for t, (x, y) in enumerate(walks[s])
            )
        file.writelines(f"s{s},never,8.2,53.1\n" for s in range(BAD_ROWS))


def main() -> int:
    print(f"seed {SEED}, {TRIES} tries", flush=True)
    place = Path(tempfile.mkdtemp(prefix="dbanon-kill-"))
    place.chmod(0o711)
    harness = Harness(place, random.Random(SEED))
    stages: Counter[tuple[str, str, str]] = Counter()
    victims: Counter[tuple[str, str]] = Counter()
    failures = []
    try:
        harness.prepare()
        for n in itertools.count():
            if sum(victims.values()) == TRIES:
                break
            verb = VERBS[n % len(VERBS)]
            reached, victim, left, wrong = harness.kill_one(verb, n)
            failures += [f"try {n}, {verb.name}, {reached}, {victim} killed: {what}" for what in wrong]
            if wrong:
                print(failures[-1], flush=True)
            if reached == ENDED:  # it was quicker than usual: another try
                continue
            stages[verb.name, reached, left] += 1
            victims[victim, left] += 1
    finally:
        harness.server.stop()
        shutil.rmtree(place, ignore_errors=True)
    show(stages, victims)
    print(f"\n{TRIES} tries, {len(failures)} half states or wrong words")
    return 1 if failures else 0


def show(stages: Counter[tuple[str, str, str]], victims: Counter[tuple[str, str]]) -> None:
    order = [verb.name for verb in VERBS]
    pairs = sorted({key[:2] for key in stages}, key=lambda pair: (order.index(pair[0]), pair[1]))
    rows = [[*pair, stages[*pair, "nothing"], stages[*pair, "there"]] for pair in pairs]
    print(format_table(["command", "killed while", "nothing of it there", "all of it there"], rows))
    print()
    rows = [[victim, victims[victim, "nothing"], victims[victim, "there"]] for victim in VICTIMS]
    print(format_table(["killed", "nothing there", "all there"], rows))


if __name__ == "__main__":
    sys.exit(main())
