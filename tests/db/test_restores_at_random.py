"""Random histories of publications, dumps and restores in place: no lost day is published again, nothing else asks."""

import json
import random
from typing import TYPE_CHECKING

import psycopg
import pytest

from dbanon import schema
from dbanon.testing import database_url
from tests.conftest import SEED
from tests.db.parts import run_of
from tests.db.test_dump_restore import dump_database
from tests.db.test_restores import DROP, HARMLESS, STRAYS, restore
from tests.facts import expect_refusal

if TYPE_CHECKING:
    from dbanon.postgres.server import Target

STEPS = 8


class History:
    """A database, and what a reader knows whom no restore makes forget."""

    def __init__(self, connection: psycopg.Connection, url: str, draw: random.Random) -> None:
        self.connection, self.url, self.draw = connection, url, draw
        self.days = 1  # the next one that nobody has published
        self.known: dict[int, str] = {}  # each day that was published, and its line in the server's log
        self.lost: set[int] = set()
        self.dump: tuple[bytes, set[int], set[int]] | None = None
        connection.add_notice_handler(self._hear)
        connection.execute("SET client_min_messages = log")

    def _hear(self, notice: psycopg.errors.Diagnostic) -> None:
        head, _, line = (notice.message_primary or "").partition("dbanon: published ")
        if line and not head:
            self.known[int(json.loads(line)["name"].removeprefix("day_"))] = line

    def publish(self) -> None:
        run = run_of(self.connection, self.days)
        self.connection.execute("SELECT dbanon.publish(%s, %s)", [run, f"day_{self.days}"])
        assert self.days in self.known
        self.days += 1

    def keep(self) -> None:
        self.dump = dump_database(self.url), set(self.known), set(self.lost)

    def put_back(self) -> None:
        if self.dump is None:
            return
        dumped, known, lost = self.dump
        if self.draw.random() < 0.5:
            self.connection.execute(DROP)
            restore(self.url, dumped)
        else:
            restore(self.url, dumped, "--clean", "--if-exists", code=None)
        schema.upgrade(self.url, share_roles=True)
        self.connection.execute("SET client_min_messages = log")
        days = set(self.known) - known
        for day in self.draw.sample(sorted(days | {self.days}), 1):
            with expect_refusal("DA020"):
                self.connection.execute("SELECT dbanon.publish(%s, 'again')", [run_of(self.connection, day)])
        lines = "[{}]".format(", ".join(self.known[day] for day in sorted(days)))
        self.connection.execute("SELECT dbanon.confirm_history(%s, 'as the log has it')", [lines])
        for _, remedy in self.connection.execute(STRAYS).fetchall():
            self.connection.execute(remedy.partition(": ")[2])
        self.lost = lost | days

    def live_on(self) -> None:
        names = [name for name in HARMLESS if name in ("VACUUM FULL", "VACUUM FREEZE", "an upgrade", "a script")]
        HARMLESS[self.draw.choice(names)](self.connection, self.url)

    def try_a_known_day(self) -> None:
        """The same groups again are refused exactly where the day is lost."""
        if not self.known:
            return
        day = self.draw.choice(sorted(self.known))
        run = run_of(self.connection, day)
        with self.connection.transaction(force_rollback=True):
            if day in self.lost:
                with expect_refusal("DA010", f"day_{day} (lost)"):
                    self.connection.execute("SELECT dbanon.publish(%s, 'again')", [run])
            else:
                self.connection.execute("SELECT dbanon.publish(%s, 'again')", [run])


@pytest.mark.stress
@pytest.mark.parametrize("number", range(3))
def test_what_readers_know_is_never_published_anew_after_any_history(
    own: psycopg.Connection, dbanon_server: "Target", number: int
) -> None:
    draw = random.Random(f"{SEED} {number}")
    history = History(own, database_url(dbanon_server.url, dbname=own.info.dbname), draw)
    steps = [history.publish, history.publish, history.keep, history.put_back, history.put_back, history.live_on]
    for step in (history.publish, history.keep, history.publish, history.put_back, *draw.choices(steps, k=STEPS)):
        step()
        history.try_a_known_day()
    assert own.execute("SELECT level FROM dbanon.health").fetchall() == []
