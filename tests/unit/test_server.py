"""Connection strings, labels, places and error sentences of `dbanon.postgres.server`, without starting anything."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.engine import make_url

from dbanon import testing
from dbanon.base.errors import ParameterError, StoreError
from dbanon.postgres import programs, server
from dbanon.postgres.server import (
    MAX_SOCKET_PATH_BYTES,
    EmbeddedServer,
    find_default_home,
    format_uri,
    make_target,
    parse,
    resolve,
)
from tests.facts import expect_refusal

VARIABLES = ("DBANON_DSN", "DBANON_HOME", *server.SERVER_VARIABLES, "PGUSER", "PGPASSWORD")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://ann:s%40cret@db.example:5433/geo",
        "postgres://ann:s%40cret@db.example:5433/geo",
        "postgresql+psycopg://ann:s%40cret@db.example:5433/geo",
        "postgresql+psycopg2://ann:s%40cret@db.example:5433/geo",
        "host=db.example port=5433 user=ann password=s@cret dbname=geo",
    ],
)
def test_every_accepted_form_names_the_same_server(dsn: str) -> None:
    words = {"host": "db.example", "port": "5433", "user": "ann", "password": "s@cret", "dbname": "geo"}
    target = resolve(dsn)
    assert conninfo_to_dict(target.url) == words
    assert target == resolve("postgresql://ann:s%40cret@db.example:5433/geo")
    assert not target.embedded


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://ann:hunter2@db/geo",
        "postgresql://db/geo?password=hunter2&user=ann",
        "host=db user=ann password=hunter2 sslpassword=hunter2",
        "service=x password=hunter2",
        "postgresql+psycopg://ann:hunter2@/geo?host=/run/pg",
    ],
)
def test_a_label_never_holds_a_password(dsn: str) -> None:
    assert "hunter2" not in make_target(dsn).label
    assert "hunter2" in make_target(dsn).url


@pytest.mark.parametrize(
    "dsn", ["host=db password=hunter2 'x", "hunter2", "mysql://ann:hunter2@db/x", "nonsense=hunter2"]
)
def test_a_string_that_is_no_database_is_refused_without_being_repeated(dsn: str) -> None:
    with expect_refusal(ParameterError, "URI", "service=NAME") as caught:
        make_target(dsn)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_the_option_beats_the_variable_and_the_variable_beats_libpq(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "third")
    assert "third" in resolve(None).label
    monkeypatch.setenv("DBANON_DSN", "host=second")
    assert "second" in resolve(None).label
    assert "first" in resolve("host=first").label


@pytest.mark.parametrize("name", server.SERVER_VARIABLES)
def test_any_variable_that_names_a_server_keeps_the_embedded_one_down(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmbeddedServer, "start", lambda self: pytest.fail("started"))
    monkeypatch.setenv(name, "5432")
    assert not resolve(None).embedded


def test_a_service_stays_a_service() -> None:
    assert conninfo_to_dict(make_target("service=cabs").url) == {"service": "cabs"}
    assert "service cabs" in make_target("service=cabs").label


def test_several_hosts_of_a_sqlalchemy_url_become_those_of_libpq() -> None:
    words = parse("postgresql+psycopg://u@/d?host=a:1&host=b:2&options=-c+x%3Dy")
    assert words == {"user": "u", "dbname": "d", "host": "a,b", "port": "1,2", "options": "-c x=y"}


def test_an_ipv6_host_survives() -> None:
    assert conninfo_to_dict(make_target("postgresql://u@[::1]:55/d").url)["host"] == "::1"


@pytest.mark.parametrize(
    "words", [{"password": "a b/?&%+'"}, {"user": "o'b @:", "password": "%"}, {"dbname": "a/b?c=d e"}]
)
def test_special_characters_survive_libpq_and_sqlalchemy(words: dict[str, str]) -> None:
    text = format_uri({"host": "db", **words})
    assert conninfo_to_dict(text) == {"host": "db", **words}
    parsed = make_url(text)
    assert (parsed.username or "") == words.get("user", "")
    assert (parsed.password or parsed.query.get("password", "")) == words.get("password", "")
    assert (parsed.database or "") == words.get("dbname", "")


def test_the_home_is_the_variable_else_the_users_data_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_DATA_HOME", "/data/of/user")
    assert find_default_home() == Path("/data/of/user/dbanon")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert find_default_home() == Path("/var/lib/dbanon")
    monkeypatch.setenv("DBANON_HOME", "/else/where")
    assert find_default_home() == Path("/else/where")


@pytest.mark.parametrize("home", ["/srv/" + "x" * 90, "/srv/" + "é" * 45, "/srv/a b", "/srv/a,b"])
def test_a_path_that_no_socket_can_have_is_replaced_by_a_short_one(home: str) -> None:
    embedded = EmbeddedServer(Path(home))
    assert embedded._socket_directory.parent == Path("/tmp")
    assert len(os.fsencode(embedded._socket)) <= MAX_SOCKET_PATH_BYTES
    assert embedded._socket_directory != EmbeddedServer(Path(home + "2"))._socket_directory


def test_the_longest_path_that_fits_is_kept() -> None:
    rest = len("/socket/.s.PGSQL.5432")
    fits = Path("/" + "x" * (MAX_SOCKET_PATH_BYTES - rest - 1))
    assert EmbeddedServer(fits)._socket_directory == fits / "socket"
    assert EmbeddedServer(Path(f"{fits}x"))._socket_directory != Path(f"{fits}x/socket")


def test_status_of_nothing_makes_nothing(tmp_path: Path) -> None:
    status = EmbeddedServer(tmp_path / "home").status()
    assert (status.running, status.version) == (False, None)
    assert not EmbeddedServer(tmp_path / "home").stop()
    assert not (tmp_path / "home").exists()


def make_installation(directory: Path, version: str, *, with_postgis: bool) -> Path:
    bindir, shared = directory / version / "bin", directory / version / "share"
    bindir.mkdir(parents=True)
    (shared / "extension").mkdir(parents=True)
    if with_postgis:
        (shared / "extension/postgis.control").touch()
    for name, said in (
        ("postgres", f"postgres (PostgreSQL) {version}"),
        ("pg_config", shared),
        ("initdb", ""),
        ("pg_ctl", ""),
        ("psql", ""),
    ):
        (bindir / name).write_text(f"#!/bin/sh\necho '{said}'\n")
        (bindir / name).chmod(0o755)
    return bindir


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without PostgreSQL but what a test puts into this directory."""
    monkeypatch.setattr(programs, "_BINARY_PATTERNS", (f"{tmp_path}/*/bin",))
    monkeypatch.setattr(programs.shutil, "which", lambda name: None)
    return tmp_path


def test_the_newest_installation_with_postgis_is_taken(machine: Path) -> None:
    make_installation(machine, "15.2", with_postgis=True)
    best = make_installation(machine, "16.1", with_postgis=True)
    make_installation(machine, "17.0", with_postgis=False)
    assert programs.find_binaries().bindir == best
    assert programs.find_binaries(15).major == 15


def test_missing_postgis_is_named_with_its_package(machine: Path) -> None:
    make_installation(machine, "16.1", with_postgis=False)
    with pytest.raises(StoreError, match="apt-get install postgresql-16-postgis-3"):
        EmbeddedServer(machine / "home").start()
    assert not (machine / "home").exists()


@pytest.mark.parametrize("version", [None, "14.19"])
def test_a_missing_or_too_old_server_is_named_with_its_packages(machine: Path, version: str | None) -> None:
    if version:
        make_installation(machine, version, with_postgis=True)
    with expect_refusal(StoreError, "PostgreSQL 15 or later", "PostGIS", "none", "postgresql-postgis"):
        programs.find_binaries()


def test_the_programs_of_an_existing_cluster_are_asked_for_by_version(machine: Path) -> None:
    make_installation(machine, "16.1", with_postgis=True)
    with expect_refusal(StoreError, "PostgreSQL 15", "postgresql-15-postgis-3"):
        programs.find_binaries(15)


def test_a_working_directory_that_is_gone_hides_no_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = programs.find_installations()
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert programs.find_installations() == before


def test_importing_the_module_brings_no_driver_and_no_mapper() -> None:
    heavy = ("sqlalchemy", "psycopg", "docker", "numpy")
    code = f"import sys, dbanon.postgres.server, dbanon.testing; print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_servers_and_logins_can_be_had_without_pytest() -> None:
    code = "import sys; sys.modules['pytest'] = None; from dbanon.testing import logins, postgis_container"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_image_is_known_by_what_it_is_made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("DBANON_TEST_IMAGE", "DBANON_TEST_BASE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(testing, "_BUILD_CONTEXT", tmp_path)
    (tmp_path / "Dockerfile").write_text("FROM a")
    names = [testing.image_name(), testing.image_name()]
    (tmp_path / "Dockerfile").write_text("FROM b")
    names.append(testing.image_name())
    monkeypatch.setenv("DBANON_TEST_BASE", "debian:trixie-slim")
    names.append(testing.image_name())
    assert names[0] == names[1]
    assert len(set(names)) == 3
    monkeypatch.setenv("DBANON_TEST_IMAGE", "mine")
    assert testing.image_name() == "mine"
