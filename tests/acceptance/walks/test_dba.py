"""A database administrator with psql walks from the README to a first release, with the commands of `dba.md` alone.

The home directory, the working directory and the servers are new. The programs are those of the environment that runs
the tests, so the commands that install them are not typed; tests/acceptance/test_installed.py and the images do that.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbanon.postgres.server import ROLE, SERVER_VARIABLES, EmbeddedServer, format_uri
from tests import pages
from tests.acceptance import terminal as terminals
from tests.acceptance.terminal import Terminal

WALK = "tests/acceptance/walks/dba.md"
README, TUTORIAL, SET_UP = "README.md", "docs/tutorial.md", "docs/administrators/set-up.md"
UNSYNCED = {"fsync": "off"}


def list_steps() -> dict[str, list[tuple[str, str]]]:
    """Give the blocks of the walk by the page that they are taken from."""
    parts = re.split(r"^## (.+)\n", (pages.ROOT / WALK).read_text(), flags=re.MULTILINE)[1:]
    return {page: pages.split(text) for page, text in zip(parts[::2], parts[1::2], strict=True)}


def list_commands(blocks: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Give each command of the blocks with the kind of its block."""
    return [
        (kind, command)
        for kind, block in blocks
        for command in ([command for command, _ in pages.split_typed(block)] if kind == "console" else [block])
    ]


@pytest.mark.parametrize("page", list_steps())
def test_each_command_of_the_walk_stands_on_the_page_that_it_names(page: str) -> None:
    there = list_commands(pages.split((pages.ROOT / page).read_text()))
    assert [command for command in list_commands(list_steps()[page]) if command not in there] == []
    if page in (README, TUTORIAL):
        assert list_commands(list_steps()[page]) == there


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
    terminal.follow(README, terminals.adapt_to_environment)
    terminal.must(terminals.join_worker_and_psql(README))
    terminal.environment = {**terminal.environment, "DBANON_HOME": str(home / "tutorial")}
    terminal.follow(TUTORIAL)
    for typed in terminal.typed:
        typed.hold()
    set_up_and_release(terminal, EmbeddedServer(home / "server"))


def set_up_and_release(terminal: Terminal, server: EmbeddedServer) -> None:
    """Prepare a database on a server of the administrator's; there the operator does what the README shows."""
    socket = server.url.partition("host=")[2].partition("&")[0].replace("%2F", "/")

    def url(user: str, database: str = "geo") -> str:
        return format_uri({"user": ROLE if user == "postgres" else user, "dbname": database, "host": socket})

    def psql(user: str, text: str) -> str:
        return terminal.must(f"psql -X -A -t -v ON_ERROR_STOP=1 '{url(user)}' <<'END'\n{text}END\n")

    def here(command: str) -> str:
        named = command.replace("--host server --username postgres", f"--host '{socket}' --username {ROLE}")
        return re.sub(r"postgresql://(\w+)@server/(\w+)", lambda found: f"'{url(*found.groups())}'", named)

    [(_, table)] = pages.list_blocks(README, "sql table")
    [(_, four)] = pages.list_blocks(README, "sql")
    (_, database), (_, logins), (_, worker), (_, check) = list_steps()[SET_UP]
    terminal.must(here(database))
    psql("postgres", table)
    psql("postgres", logins)
    ask = f"psql -X -A -t -c 'SELECT count(*) FROM dbanon.workers' '{url('postgres')}'"
    up = f"until {ask} | grep -qv '^0'; do sleep 0.2; done"
    reading = "SELECT valid_from"
    read = next(statement for statement in four.split(";\n") if statement.startswith(reading))
    script = f"{here(worker).rstrip()} > worker.log 2>&1 &\ntrap 'kill $!; wait' EXIT\n{up}\n"
    for user, text in (("olga", check), ("olga", four.partition(reading)[0]), ("anna", f"{read};\n")):
        script += f"echo '--- {user}'; psql -X -A -t -v ON_ERROR_STOP=1 '{url(user)}' <<'END'\n{text}END\n"
    *_, release = terminal.must(script).split("--- anna\n")
    assert len(release.splitlines()) == 3
