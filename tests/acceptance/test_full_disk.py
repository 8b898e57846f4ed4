"""A disk that runs full ends a command in one sentence, leaves nothing half there, and does no harm once there is room.

The database lies in a tablespace on a tmpfs of a few megabytes. Where it cannot be mounted, and once more in any case,
triggers raise what the server raises when a write finds no room.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from dbanon import schema, synth
from dbanon.database import open_database
from dbanon.postgres.server import EmbeddedServer
from dbanon.testing import database_url
from tests import wholeness
from tests.acceptance.commands import call, demand_done, shift_rows
from tests.facts import demand_refused

pytestmark = pytest.mark.stress

COMMANDS = {
    "load": ("load", "trajectories", "{trajectories}", "--dataset", "second", "--x", "lon", "--y", "lat"),
    "requests": ("load", "requests", "{requests}", "--dataset", "city", "--columns", "poi"),
    "run": ("run", "tp-aware", "--dataset", "city", "-p", "k=3"),
    "publish": ("publish", "1", "brimful"),
}


class SmallDisk:
    """A tablespace on a tmpfs, filled up by one file."""

    def __init__(self, server: EmbeddedServer, place: Path) -> None:
        self.place, self.filler = place, place / "filler"
        place.mkdir()
        owner = server.data.stat()
        size = f"size=64m,mode=0700,uid={owner.st_uid},gid={owner.st_gid}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "dbanon", str(place)], check=True, capture_output=True)
        (place / "space").mkdir(mode=0o700)
        shutil.chown(place / "space", owner.st_uid, owner.st_gid)

    def make(self, connection: psycopg.Connection, template: str) -> str:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{self.place / 'space'}'")
        connection.execute(f"CREATE DATABASE on_small TEMPLATE {template} TABLESPACE small")
        return "on_small"

    def fill(self, url: str, left_kb: int) -> None:
        with suppress(OSError), self.filler.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        size = self.filler.stat().st_size
        with self.filler.open("r+b") as file:
            file.truncate(max(size - left_kb * 1024, 0))

    def free(self, url: str) -> None:
        self.filler.unlink()

    def close(self) -> None:
        subprocess.run(["umount", "-l", str(self.place)], check=True)


class WordOfTheServer:
    """Triggers that raise SQLSTATE 53100 instead of writing."""

    FUNCTION = """CREATE FUNCTION public.no_room() RETURNS {} LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$"""
    TABLES = ("dbanon.trajectory", "dbanon.request", "dbanon.membership")

    def make(self, connection: psycopg.Connection, template: str) -> str:
        connection.execute(f"CREATE DATABASE on_words TEMPLATE {template}")
        return "on_words"

    def fill(self, url: str, left_kb: int) -> None:
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute(self.FUNCTION.format("trigger"))
            for table in self.TABLES:
                owner.execute(f"CREATE TRIGGER no_room AFTER INSERT ON {table} EXECUTE FUNCTION public.no_room()")
            owner.execute(self.FUNCTION.format("event_trigger").replace("no_room", "no_table"))
            tags = "('CREATE VIEW')"  # of publish: after its table was made and filled
            owner.execute(
                f"CREATE EVENT TRIGGER no_room ON ddl_command_end WHEN TAG IN {tags} EXECUTE FUNCTION public.no_table()"
            )

    def free(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute(
                "DROP EVENT TRIGGER no_room; DROP FUNCTION public.no_table; DROP FUNCTION public.no_room CASCADE"
            )

    def close(self) -> None:
        """Nothing to take away."""


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="dbanon-test-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def own_server(directory: Path, city_files: tuple[Path, Path]) -> Iterator[EmbeddedServer]:
    """A server whose database dbanon holds the city and a verified run."""
    server = EmbeddedServer(directory / "home", settings={"fsync": "off", "full_page_writes": "off"})
    try:
        schema.upgrade(server.start().url)
        with open_database(server.url) as database:
            database.load_trajectories([city_files[0]], dataset="city", **synth.CSV_COLUMNS)
            database.load_requests(city_files[1], dataset="city", columns=["poi"])
            database.run("tp-aware", dataset="city", params={"k": 5}).require_verified()
        yield server
    finally:
        server.stop()


@pytest.fixture(params=["a small tmpfs", "the word of the server"])
def disk(
    request: pytest.FixtureRequest, own_server: EmbeddedServer, directory: Path
) -> Iterator[tuple[SmallDisk | WordOfTheServer, str]]:
    """A disk that can be filled, and the URL of a copy of the city on it."""
    made: SmallDisk | WordOfTheServer = WordOfTheServer()
    if request.param == "a small tmpfs":
        with suppress(subprocess.CalledProcessError, OSError):  # not root, or a container that may not mount
            made = SmallDisk(own_server, directory / f"disk-{len(list(directory.iterdir()))}")
    with psycopg.connect(database_url(own_server.url, dbname="postgres"), autocommit=True) as connection:
        name = made.make(connection, "dbanon")
        try:
            yield made, database_url(own_server.url, dbname=name)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
            connection.execute("DROP TABLESPACE IF EXISTS small")
            made.close()


@pytest.mark.parametrize("left_kb", [0, 300])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_one_sentence_and_leaves_nothing_half_there(
    disk: tuple[SmallDisk | WordOfTheServer, str], city_files: tuple[Path, Path], command: str, left_kb: int
) -> None:
    small, url = disk
    words = [word.format(trajectories=city_files[0], requests=shift_rows(city_files[1])) for word in COMMANDS[command]]
    small.fill(url, left_kb)

    done = call(url, *words)

    demand_refused(done, 1, "disk")
    small.free(url)
    with psycopg.connect(url, autocommit=True) as connection:
        assert call(url, "runs").code == 0
        assert wholeness.find_broken(connection) == []
        assert connection.execute("SELECT count(*) FROM dbanon.load").fetchone() == (2,)
        demand_done(call(url, *words))
        assert wholeness.find_broken(connection) == []
