"""The embedded server for real: made once, then killed, raced, moved and refused."""

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dbanon.base.errors import StoreError
from dbanon.postgres.programs import find_binaries, find_installations
from dbanon.postgres.server import SERVER_VARIABLES, EmbeddedServer, run_psql
from dbanon.testing import logins
from tests.acceptance.commands import call, demand_done
from tests.facts import expect_refusal
from tests.reading import read_value

pytestmark = [
    pytest.mark.db,
    pytest.mark.skipif(
        not any(item.has_postgis for item in find_installations())
        and os.environ.get("DBANON_TEST_SERVER") != "embedded",
        reason="no PostgreSQL programs with PostGIS on this machine",
    ),
]
FORGETFUL = {"fsync": "off"}


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory that the server's user may enter, unlike pytest's own."""
    directory = Path(tempfile.mkdtemp(prefix="dbanon-test-"))
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[EmbeddedServer]:
    """One cluster for the module; each test finds it up or down."""
    embedded = EmbeddedServer(place / "home", settings=FORGETFUL)
    yield embedded
    embedded.stop()


def read_pid(server: EmbeddedServer) -> int:
    return int((server.data / "postmaster.pid").read_text().splitlines()[0])


def ask(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        return read_value(connection, query)


def wait_until_gone(pid: int) -> None:
    for _ in range(100):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)


@pytest.mark.stress
def test_a_first_start_makes_role_database_and_postgis(server: EmbeddedServer) -> None:
    target = server.start()
    assert target.embedded
    assert ask(target.url, "SELECT current_user || '@' || current_database()") == "dbanon@dbanon"
    assert str(ask(target.url, "SELECT postgis_version()"))[0] == "3"
    assert ask(target.url, "SELECT oid >= 16384 FROM pg_extension WHERE extname = 'postgis'")
    assert ask(target.url, "SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname='dbanon'") == "UTF8"


def test_tables_made_without_a_schema_are_not_among_the_private_ones(server: EmbeddedServer) -> None:
    url = server.start().url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS dbanon")
        connection.execute("CREATE TABLE gps (x int)")
        assert connection.execute("SELECT to_regclass('public.gps') IS NOT NULL").fetchone() == (True,)
        connection.execute("DROP TABLE public.gps")


def test_a_second_start_finds_it_running(server: EmbeddedServer) -> None:
    first = server.start()
    pid = read_pid(server)
    assert EmbeddedServer(server.home).start() == first
    assert read_pid(server) == pid
    assert server.status().running


def test_it_is_reachable_through_a_private_socket_only(server: EmbeddedServer) -> None:
    target = server.start()
    assert ask(target.url, "SHOW listen_addresses") == ""
    for directory in (server.data, server._socket_directory, server.log.parent):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_it_runs_as_an_unprivileged_user(server: EmbeddedServer) -> None:
    server.start()
    owner = Path(f"/proc/{read_pid(server)}").stat().st_uid
    assert owner != 0
    assert owner == server.data.stat().st_uid


def test_statements_and_their_data_stay_out_of_the_log(server: EmbeddedServer) -> None:
    target = server.start()
    with psycopg.connect(target.url) as connection, pytest.raises(psycopg.Error):
        connection.execute("SELECT 'p0-at-home'::integer")
    assert "p0-at-home" not in server.log.read_text()


def test_a_refused_change_of_what_is_known_of_releases_is_in_the_log(server: EmbeddedServer) -> None:
    target = server.start()
    with psycopg.connect(target.url, autocommit=True) as connection, pytest.raises(psycopg.Error):
        connection.execute("DO $$ BEGIN RAISE LOG 'dbanon: somebody was refused'; RAISE 'p0-at-home'; END $$")
    text = server.log.read_text()
    assert "dbanon: somebody was refused" in text
    assert "p0-at-home" not in text


def test_it_syncs_to_disk_unless_a_test_says_otherwise(place: Path) -> None:
    assert "fsync=on" in EmbeddedServer(place / "home")._format_options()


def test_stop_says_whether_it_was_up(server: EmbeddedServer) -> None:
    server.start()
    assert server.stop()
    assert not server.stop()
    assert not server.status().running


@pytest.mark.stress
def test_it_starts_again_after_being_killed(server: EmbeddedServer) -> None:
    with psycopg.connect(server.start().url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept AS SELECT 7 AS number")
        pid = read_pid(server)
        os.kill(pid, signal.SIGKILL)  # its backend lives on for a moment and holds the shared memory
        wait_until_gone(pid)
        assert ask(server.start().url, "SELECT number FROM kept") == 7


def test_a_process_id_that_somebody_else_has_now_is_no_server(server: EmbeddedServer) -> None:
    server.start()
    content = (server.data / "postmaster.pid").read_text()
    server.stop()
    other = str(os.getpid())
    (server.data / "postmaster.pid").write_text("\n".join([other, *content.splitlines()[1:], ""]))
    assert not server.status().running
    assert ask(server.start().url, "SELECT 1") == 1


@pytest.mark.stress
def test_an_interrupted_creation_is_begun_again(place: Path) -> None:
    home = place / "interrupted"
    (home / "data.new/base").mkdir(parents=True)
    (home / "data.new/PG_VERSION").write_text("15\n")
    embedded = EmbeddedServer(home, settings=FORGETFUL)
    try:
        assert ask(embedded.start().url, "SELECT 1") == 1
        assert not (home / "data.new").exists()
    finally:
        embedded.stop()


def is_running(pid: int) -> bool:
    """Whether there is such a process that is not just waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.stress
def test_a_creation_that_was_killed_is_begun_again_and_leaves_no_server(place: Path) -> None:
    """Killed when database and extension are there, and its server up."""
    home = place / "killed"
    code = f"""if True:
        import os, signal
        from pathlib import Path
        from dbanon.postgres.server import EmbeddedServer
        demand = EmbeddedServer._demand
        def die(self, result, step):
            if step == "psql":
                os.kill(os.getpid(), signal.SIGKILL)
            demand(self, result, step)
        EmbeddedServer._demand = die
        EmbeddedServer(Path({str(home)!r})).start()
    """
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    embedded = EmbeddedServer(home, settings=FORGETFUL)
    left = int((home / "data.new/postmaster.pid").read_text().splitlines()[0])
    os.kill(left, 0)
    assert not embedded.status().running
    assert not embedded.data.exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(embedded.url)
    try:
        assert ask(embedded.start().url, "SELECT postgis_version()")
        deadline = time.monotonic() + 20
        while is_running(left):  # it removes its pid file, which a start waits for, shortly before it ends
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert [path.name for path in (home / "socket").iterdir() if "PGSQL.1" in path.name] == []
    finally:
        embedded.stop()


@pytest.mark.stress
def test_two_processes_that_start_it_at_once_get_the_same_server(place: Path) -> None:
    home = place / "raced"
    code = (
        "from pathlib import Path; from dbanon.postgres.server import *; "
        f"print(EmbeddedServer(Path({str(home)!r})).start().url)"
    )
    try:
        racers = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
        said = {racer.communicate(timeout=120)[0].strip() for racer in racers}
        assert len(said) == 1
        assert ask(said.pop(), "SELECT 1") == 1
    finally:
        EmbeddedServer(home).stop()


@pytest.mark.stress
def test_a_home_too_deep_for_a_socket_works(place: Path) -> None:
    embedded = EmbeddedServer(place / ("deep" * 30), settings=FORGETFUL)
    try:
        assert ask(embedded.start().url, "SELECT 1") == 1
        assert stat.S_IMODE(embedded._socket_directory.stat().st_mode) == 0o700
    finally:
        embedded.stop()
    assert not embedded._socket_directory.exists()


def test_a_short_socket_directory_that_is_a_link_is_refused(place: Path) -> None:
    embedded = EmbeddedServer(place / ("trap" * 30))
    embedded._socket_directory.symlink_to(place)
    try:
        with expect_refusal(StoreError, embedded._socket_directory, "0700"):
            embedded.start()
    finally:
        embedded._socket_directory.unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands the server to another user")
def test_a_directory_that_the_servers_user_cannot_enter_is_named(place: Path) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    with expect_refusal(StoreError, "enter", "chmod o+x") as caught:
        EmbeddedServer(closed / "home").start()
    assert f"Got {closed}." in str(caught.value)


@pytest.mark.stress
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_it_works_for_a_user_who_is_not_root(place: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    home = place / "nobody"
    home.mkdir(mode=0o700)
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    pid = os.fork()
    if pid == 0:  # a fork, because the interpreter itself may lie where nobody may look
        code = 1
        try:
            os.setgroups([])
            os.setgid(nobody.pw_gid)
            os.setuid(nobody.pw_uid)
            embedded = EmbeddedServer(home, settings=FORGETFUL)
            embedded.start()
            code = 0 if embedded.status().running and embedded.stop() else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert (home / "data").stat().st_uid == nobody.pw_uid


def test_a_server_that_cannot_start_says_why_in_a_sentence(place: Path) -> None:
    embedded = EmbeddedServer(place / "home", settings={"shared_buffers": "no"})
    embedded.stop()
    with expect_refusal(StoreError, "start", "invalid value for parameter"):
        embedded.start()


def test_psql_reaches_it_and_its_exit_code_comes_back(server: EmbeddedServer) -> None:
    url = server.start().url
    assert run_psql(url, ["-Xqc", "SELECT 1"]) == 0
    assert run_psql(url, ["-Xqc", "SELECT nonsense"]) == 1


def test_psql_names_no_function_that_an_error_passed_through(
    server: EmbeddedServer, capfd: pytest.CaptureFixture[str]
) -> None:
    raises = "DO $$ BEGIN RAISE EXCEPTION 'No.' USING HINT = 'Yes.'; END $$"
    assert run_psql(server.start().url, ["-Xqc", raises]) == 1
    assert capfd.readouterr().err.splitlines() == ["ERROR:  No.", "HINT:  Yes."]


@pytest.mark.stress
def test_its_url_is_that_of_a_database_with_the_schema_and_the_roles(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = EmbeddedServer(place / "new", settings=FORGETFUL)
    monkeypatch.setenv("DBANON_HOME", str(new.home))
    for name in ("DBANON_DSN", *SERVER_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    new.start()
    try:
        done = demand_done(call("", "db", "url"))
        assert ask(done.stdout.strip(), "SELECT to_regclass('dbanon.run') IS NOT NULL")
        assert ask(done.stdout.strip(), "SELECT count(*) FROM pg_roles WHERE rolname = 'dbanon_operator'") == 1
    finally:
        new.stop()


def test_the_chosen_programs_have_postgis() -> None:
    assert find_binaries().has_postgis


def test_each_test_has_a_database_of_its_own(database: str, connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE mine (x int)")
    assert ask(database, "SELECT to_regclass('dbanon.run') IS NOT NULL")


def test_the_next_test_does_not_see_it(connection: psycopg.Connection) -> None:
    row = connection.execute("SELECT to_regclass('mine')").fetchone()
    assert row == (None,)


def test_logins_are_members_of_their_role_and_nothing_else_and_go_with_what_they_own(
    database: str, connection: psycopg.Connection
) -> None:
    roles = "SELECT string_agg(r.rolname, ',') FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid "
    with logins(database) as make:
        url = make("analyst")
        assert ask(url, roles + "WHERE m.member = current_user::regrole") == "dbanon_analyst"
        user = ask(url, "SELECT current_user")
        connection.execute(f"CREATE SCHEMA mine; GRANT USAGE ON SCHEMA mine TO {user}")
        connection.execute(f"CREATE TABLE public.mine (x int); ALTER TABLE public.mine OWNER TO {user}")
        assert ask(make("pg_monitor"), roles + "WHERE m.member = current_user::regrole") == "pg_monitor"
        open_still = psycopg.connect(url)
    with open_still, pytest.raises(psycopg.OperationalError):
        open_still.execute("SELECT 1")
    assert ask(database, f"SELECT count(*) FROM pg_roles WHERE rolname = '{user}'") == 0
    assert ask(database, "SELECT to_regclass('public.mine') IS NULL")
