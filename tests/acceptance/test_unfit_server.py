"""Servers dbanon cannot work on: without PostGIS, without the right to add it, with an older or newer schema."""

import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dbanon.postgres import programs, server
from dbanon.postgres.server import Target
from dbanon.schema import EXPECTED_REVISION
from dbanon.testing import database_url
from tests.acceptance.commands import call, shift_rows
from tests.facts import demand_refused

NO_POSTGIS = ("PostGIS", "extension", "apt install postgresql-postgis")
NO_SCHEMA = (f"revision {EXPECTED_REVISION}", "none", "`dbanon db upgrade`")
COMMANDS = (
    ("load", "trajectories", "{trajectories}", "--dataset", "second", "--x", "lon", "--y", "lat"),
    ("load", "requests", "{requests}", "--dataset", "city", "--columns", "poi"),
    ("run", "tp-aware", "--dataset", "city"),
    ("verify", "1"),
    ("publish", "1", "mine"),
    ("unpublish", "mine"),
    ("runs",),
)

# ---- a PostgreSQL without PostGIS ------------------------------------------------------------------------------------


def make_without_postgis(place: Path) -> Path:
    """Make an installation of the PostgreSQL here that lacks PostGIS, and return its directory of programs.

    The server looks for its files relative to where its program is: copied programs and links to the rest, at the same
    places below another root, are an installation of their own.
    """

    def asked(what: str) -> Path:
        done = subprocess.run([str(bindir / "pg_config"), what], capture_output=True, text=True, check=True, cwd="/")
        return Path(done.stdout.strip())

    bindir = programs.find_binaries().bindir
    share, libraries = asked("--sharedir"), asked("--pkglibdir")

    def below(path: Path) -> Path:
        return place / path.relative_to("/")

    shutil.copytree(bindir, below(bindir))
    below(libraries).parent.mkdir(parents=True, exist_ok=True)
    below(libraries).symlink_to(libraries)
    (below(share) / "extension").mkdir(parents=True)
    for file in [*share.iterdir(), *(share / "extension").iterdir()]:
        if file.name != "extension" and not file.name.startswith("postgis"):
            below(file).symlink_to(file)
    return below(bindir)


@pytest.fixture(scope="module")
def bare_programs() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="dbanon-test-"))
    directory.chmod(0o755)
    yield make_without_postgis(directory)
    shutil.rmtree(directory)


@pytest.fixture
def only_bare_programs(bare_programs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This machine as if its only PostgreSQL had no PostGIS; a short directory for a server."""
    monkeypatch.setattr(programs, "_list_directories", lambda: iter([bare_programs]))
    return bare_programs


@pytest.mark.stress
def test_upgrading_a_server_without_postgis_says_what_to_install(
    only_bare_programs: Path, monkeypatch: pytest.MonkeyPatch, city_files: tuple[Path, Path]
) -> None:
    (found,) = programs.find_installations()
    monkeypatch.setattr(server, "find_binaries", lambda major=None: found)
    directory = Path(tempfile.mkdtemp(prefix="dbanon-test-"))
    directory.chmod(0o711)
    monkeypatch.setattr(server, "_CONTENT_SQL", server._CONTENT_SQL.replace("CREATE EXTENSION postgis;", ""))
    bare = server.EmbeddedServer(directory / "home", settings={"fsync": "off"})
    try:
        url = bare.start().url
        for _ in range(2):  # the first attempt left nothing that could hide it from the second
            done = call(url, "db", "upgrade", "--share-roles")
            demand_refused(done, 1, *NO_POSTGIS)
            assert done.stdout == ""
        for command in COMMANDS:
            words = [word.format(trajectories=city_files[0], requests=shift_rows(city_files[1])) for word in command]
            done = call(url, *words)
            demand_refused(done, 1, *NO_SCHEMA)
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'dbanon'").fetchone() == (0,)
            assert connection.execute("SELECT count(*) FROM pg_roles WHERE rolname LIKE 'dbanon_%'").fetchone() == (0,)
    finally:
        bare.stop()
        shutil.rmtree(directory)


def test_an_embedded_server_without_postgis_says_what_to_install(
    only_bare_programs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("DBANON_DSN", *server.SERVER_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DBANON_HOME", str(tmp_path / "home"))
    done = call("", "runs")
    demand_refused(done, 1, "embedded server", "PostGIS", "apt-get install postgresql-")
    assert not (tmp_path / "home").exists()


def test_a_login_that_may_not_add_postgis_is_told_who_may(dbanon_server: Target) -> None:
    name, user, password = (f"dbanon_bare_{secrets.token_hex(4)}" for _ in range(3))
    with psycopg.connect(dbanon_server.url, autocommit=True) as owner:
        owner.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        owner.execute(f"CREATE ROLE {user} LOGIN CREATEROLE PASSWORD '{password}'")
        owner.execute(f"GRANT ALL ON DATABASE {name} TO {user}")
        try:
            url = database_url(dbanon_server.url, dbname=name, user=user, password=password)
            done = call(url, "db", "upgrade", "--share-roles")
        finally:
            owner.execute(f"DROP DATABASE {name} WITH (FORCE)")
            owner.execute(f"DROP ROLE {user}")
    demand_refused(done, 1, "`CREATE EXTENSION postgis`", "superuser")


# ---- a schema of another age -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("revision", "remedy"), [("0000", "`dbanon db upgrade`"), ("9999", "newer dbanon")])
def test_every_command_refuses_a_schema_that_is_older_or_newer(
    city_url: str, city_files: tuple[Path, Path], revision: str, remedy: str
) -> None:
    with psycopg.connect(city_url, autocommit=True) as connection:
        connection.execute("UPDATE dbanon.alembic_version SET version_num = %s", [revision])
        before = connection.execute("SELECT count(*), max(run_id) FROM dbanon.run, dbanon.load").fetchone()
        for command in COMMANDS:
            words = [word.format(trajectories=city_files[0], requests=shift_rows(city_files[1])) for word in command]
            done = call(city_url, *words)
            demand_refused(done, 1, f"revision {revision}", EXPECTED_REVISION, remedy)
        assert connection.execute("SELECT count(*), max(run_id) FROM dbanon.run, dbanon.load").fetchone() == before


def test_upgrading_a_newer_schema_is_refused(city_url: str) -> None:
    with psycopg.connect(city_url, autocommit=True) as connection:
        connection.execute("UPDATE dbanon.alembic_version SET version_num = '9999'")
    done = call(city_url, "db", "upgrade", "--share-roles")
    demand_refused(done, 1, "revision 9999", EXPECTED_REVISION)
