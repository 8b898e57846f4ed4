"""A database administrator with psql walks from the README to a first release, with the commands of `dba.md` alone.

The home directory, the working directory and the servers are new. The programs are those of the environment that runs
the tests, so the commands that install them are not typed; tests/acceptance/test_installed.py and the images do that.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dbanon.postgres.server import ROLE, SERVER_VARIABLES, EmbeddedServer, format_uri
from tests import pages
from tests.acceptance import terminal as terminals
from tests.acceptance.terminal import Terminal

WALK = "tests/acceptance/walks/dba.md"
README, TUTORIAL, SET_UP = "README.md", "docs/tutorial.md", "docs/administrators/set-up.md"
INSTALL, SCRIPT = "docs/administrators/install.md", "docs/administrators/script-and-extension.md"
MAX_WORDS = 3100  # a quarter of an hour
UNSYNCED = {"fsync": "off"}


@pytest.mark.parametrize("page", pages.split_walk(WALK))
def test_each_command_of_the_walk_stands_on_the_page_that_it_names(page: str) -> None:
    there = pages.list_blocks(page, "sh pip") if page == INSTALL else pages.split((pages.ROOT / page).read_text())
    assert pages.list_commands(pages.split_walk(WALK)[page]) == pages.list_commands(there)


def test_the_pages_before_the_first_release_of_an_own_table_are_short() -> None:
    assert sum(len((pages.ROOT / page).read_text().split()) for page in pages.split_walk(WALK)) <= MAX_WORDS


@pytest.fixture
def home() -> Iterator[Path]:
    """A home directory that the servers' user may enter; servers in it are stopped at the end."""
    made = Path(tempfile.mkdtemp(prefix="dbanon-walk-"))
    made.chmod(0o711)
    try:
        yield made
    finally:
        for name in ("private", "tutorial", "server"):
            EmbeddedServer(made / name).stop()
        shutil.rmtree(made)


@pytest.fixture
def terminal(home: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of a person who has nothing yet; for root the private server would lie in /var/lib."""
    for name in ("DBANON_DSN", *SERVER_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    opened = Terminal(home / "work", {"HOME": str(home), "DBANON_HOME": str(home / "private")})
    opened.folder.mkdir()
    return opened


@pytest.mark.stress
def test_the_walk_needs_nothing_that_its_pages_do_not_say(terminal: Terminal, home: Path) -> None:
    for name in ("private", "tutorial", "server"):
        EmbeddedServer(home / name, settings=UNSYNCED).start()
    terminal.follow(README, terminals.adapt_to_environment, *terminals.WITH_WORKER)
    terminal.run_well(terminals.join_worker_and_psql(README))
    terminal.environment = {**terminal.environment, "DBANON_HOME": str(home / "tutorial")}
    terminal.follow(TUTORIAL)
    for typed in terminal.typed:
        typed.hold()
    walk = OwnServer(terminal, EmbeddedServer(home / "server"))
    walk.make_table()
    walk.set_up_and_release()
    walk.install_again()


@dataclass(frozen=True)
class OwnServer:
    """A server of the administrator's, called `server` on the pages, whose superuser is `postgres` there."""

    terminal: Terminal
    server: EmbeddedServer

    def socket(self) -> str:
        return self.server.url.partition("host=")[2].partition("&")[0].replace("%2F", "/")

    def url(self, user: str, database: str = "geo") -> str:
        superuser = user in ("postgres", "owner")
        return format_uri({"user": ROLE if superuser else user, "dbname": database, "host": self.socket()})

    def here(self, command: str) -> str:
        """Adapt a command of a page."""
        named = command.replace("--host server --username postgres", f"--host '{self.socket()}' --username {ROLE}")
        named = re.sub(r'"host=server dbname=(\w+) user=(\w+)"', r"postgresql://\2@server/\1", named)
        return re.sub(r"postgresql://(\w+)@server/(\w+)", lambda found: f"'{self.url(*found.groups())}'", named)

    def psql(self, user: str, text: str, database: str = "geo") -> str:
        return f"psql -X -A -t -v ON_ERROR_STOP=1 '{self.url(user, database)}' <<'END'\n{text}END\n"

    def make_table(self) -> None:
        """Make the table that the administrator has, which is that of the README, in a database of its own."""
        [(_, table)] = pages.list_blocks(README, "sql table")
        self.terminal.run_well(self.here("createdb --host server --username postgres tracking"))
        self.terminal.run_well(self.psql("postgres", table, "tracking"))

    def set_up_and_release(self) -> None:
        """Type the blocks of the page; those after the worker's while it is up."""
        blocks = pages.split_walk(WALK)[SET_UP]
        worker = [kind for kind, _ in blocks].index("sh worker")
        for kind, text in blocks[:worker]:
            assert kind in ("sh", "sql superuser")
            self.terminal.run_well(self.here(text) if kind == "sh" else self.psql("postgres", text))
        ask = f"psql -X -A -t -c 'SELECT count(*) FROM dbanon.workers' '{self.url('postgres')}'"
        up = f"until {ask} | grep -qv '^0'; do sleep 0.2; done"
        script = f"{self.here(blocks[worker][1]).rstrip()} > worker.log 2>&1 &\ntrap 'kill $!; wait' EXIT\n{up}\n"
        readers = {"sql": "olga", "sql anna": "anna"}
        for kind, text in blocks[worker + 1 :]:
            script += f"echo '--- {readers[kind]}'\n{self.psql(readers[kind], text)}"
        *_, release = self.terminal.run_well(script).split("--- anna\n")
        assert len(release.splitlines()) == 3

    def install_again(self) -> None:
        """Run the script over what is installed, and install in a second and a third database."""
        for database in ("test", "geo2"):
            self.terminal.run_well(self.here(f"createdb --host server --username postgres {database}"))
        for _, block in pages.list_blocks(SCRIPT, "sh", "sh second"):
            self.terminal.run_well(self.here(block))
