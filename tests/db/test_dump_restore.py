"""A database with a live release survives pg_dump and restore: view, digest, gate and grants."""

import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from dbanon import schema, testing
from dbanon.postgres.programs import find_binaries, find_installations, run_as
from dbanon.postgres.server import DATABASE, EmbeddedServer, lacks_postgis_in_dumps
from dbanon.testing import database_url
from tests.acceptance.commands import call, read_json
from tests.clients import find_client
from tests.db.parts import find_day, publish_part, run_of
from tests.db.ten_people import CONFIRM
from tests.db.written import CONTRACTS, write
from tests.facts import expect_refusal
from tests.hints import tries

if TYPE_CHECKING:
    from dbanon.postgres.server import Target

Verify = Callable[..., None]
PAGE = Path(__file__).parents[2] / "docs" / "administrators" / "dump-upgrade-remove.md"
embedded_only = pytest.mark.skipif(
    not any(item.has_postgis for item in find_installations()),
    reason="no PostgreSQL programs with PostGIS on this machine",
)


def dump_database(url: str) -> bytes:
    return subprocess.run([*find_client("pg_dump", url), "-Fc", "-d", url], check=True, stdout=subprocess.PIPE).stdout


@contextmanager
def restore_dump(dumped: bytes, url: str, first: str = "") -> Iterator[str]:
    """Restore into a new database of a server, after a statement; yields its URL."""
    name = f"dbanon_restored_{secrets.token_hex(4)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            target = database_url(url, dbname=name)
            with psycopg.connect(target, autocommit=True) as made:
                made.execute(first)  # type: ignore[arg-type]
            command = [*find_client("pg_restore", url), "--exit-on-error", "-d", target]
            subprocess.run(command, check=True, input=dumped)
            yield target
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def restored(database: str, connection: psycopg.Connection, run: int) -> Iterator[psycopg.Connection]:
    connection.execute("SELECT dbanon.publish(1, 'ten')")
    with restore_dump(dump_database(database), database) as url, psycopg.connect(url, autocommit=True) as opened:
        yield opened


def test_a_restored_release_is_the_same_and_still_guarded(
    connection: psycopg.Connection, restored: psycopg.Connection, verify: Verify, login: Callable[[str], str]
) -> None:
    query = "SELECT * FROM published.ten ORDER BY cloak_id"
    assert restored.execute(query).fetchall() == connection.execute(query).fetchall()
    for query in (
        "SELECT dbanon_internal.compute_run_digest(1)",
        "SELECT digest = dbanon_internal.compute_run_digest(1) FROM dbanon.verification",
        "SELECT revision FROM dbanon.dataset",
        "SELECT groups_sum, dbanon_internal.compute_groups_sum(release_id, 1) FROM dbanon.release",
        "SELECT obj_description('published.ten'::regclass)",
    ):
        assert restored.execute(query).fetchall() == connection.execute(query).fetchall()
    with psycopg.connect(database_url(login("dbanon_analyst"), dbname=restored.info.dbname)) as analyst:
        assert analyst.execute("SELECT count(*) FROM published.ten").fetchone() == (4,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            analyst.execute("SELECT * FROM dbanon.dataset")
    for statement in ("DELETE FROM dbanon.release_1", "DELETE FROM dbanon.cloak", "DELETE FROM dbanon.release"):
        with pytest.raises(psycopg.Error) as caught:
            restored.execute(statement)
        assert caught.value.sqlstate in ("DA006", "DA007")
    verify(restored)
    with expect_refusal("DA020", "restore"):
        restored.execute("SELECT dbanon.publish(1, 'again')")
    restored.execute(CONFIRM)
    assert restored.execute("SELECT dbanon.publish(1, 'again')").fetchone() == (4,)
    restored.execute("SELECT dbanon.unpublish('ten')")
    schema.demand_revision(restored)
    lines = restored.execute("SELECT action FROM dbanon.audit ORDER BY audit_id").fetchall()
    assert [action for (action,) in lines] == [
        "create",
        "change",
        "change",
        "submit",
        "verify",
        "publish",
        "verify",
        "confirm_history",
        "publish",
        "unpublish",
    ]
    with expect_refusal("DA006", "dbanon.audit", "DELETE"):
        restored.execute("DELETE FROM dbanon.audit")


@pytest.mark.stress
def test_rows_of_all_families_are_restored_as_they_were(database: str, own: psycopg.Connection) -> None:
    """Regions of cells, members for a stretch and hiding sets among them; and they are guarded as they were."""
    made = {name: write(own, contract) for name, contract in CONTRACTS.items()}
    with (
        restore_dump(dump_database(database_url(database, dbname=own.info.dbname)), database) as url,
        psycopg.connect(url, autocommit=True) as opened,
    ):
        for table in ("region", "period", "record", "membership", "hiding", "atom", "cloak"):
            query = f"SELECT count(*), md5(string_agg(t::text, chr(10) ORDER BY t::text)) FROM dbanon.{table} t"
            assert opened.execute(query).fetchone() == own.execute(query).fetchone(), table
        digests = "SELECT run_id, dbanon_internal.compute_run_digest(run_id) FROM dbanon.run ORDER BY 1"
        assert opened.execute(digests).fetchall() == own.execute(digests).fetchall()
        opened.execute(CONFIRM)
        for name, run in made.items():
            with opened.transaction(force_rollback=True):
                published = opened.execute("SELECT dbanon.publish(%s, 'made')", [run]).fetchone()
            assert published == (CONTRACTS[name].cloaks().rows,)
        opened.execute("SELECT dbanon.publish(%s, 'kept')", [made["areas"]])
        for table in ("cloak", "region", "record"):
            with expect_refusal("DA007"):
                opened.execute(f"DELETE FROM dbanon.{table} WHERE run_id = %s", [made["areas"]])


@pytest.mark.stress
def test_a_restored_database_is_upgraded_without_a_change(restored: psycopg.Connection, database: str) -> None:
    query = (Path(__file__).parents[1] / "golden" / "catalog.sql").read_text()
    restored.execute("SET search_path = pg_catalog")
    before = restored.execute(query).fetchall()
    schema.upgrade(database_url(database, dbname=restored.info.dbname), share_roles=True)
    assert restored.execute(query).fetchall() == before
    assert restored.execute("SELECT count(*) FROM published.ten").fetchone() == (4,)


def test_a_member_of_the_admin_role_dumps_all_of_it(login: Callable[[str], str]) -> None:
    url = login("dbanon_admin")
    command = [
        *find_client("pg_dump", url),
        "--schema=dbanon",
        "--schema=dbanon_internal",
        "--schema=published",
        "-d",
        url,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "CREATE TABLE dbanon.audit" in done.stdout


# --- the embedded server


@pytest.fixture
def embedded() -> Iterator[EmbeddedServer]:
    """An embedded server that is not yet made."""
    directory = Path(tempfile.mkdtemp(prefix="dbanon-test-", dir=testing._find_memory_directory()))
    directory.chmod(0o711)
    server = EmbeddedServer(directory / "home", settings={"fsync": "off"})
    yield server
    server.stop()
    shutil.rmtree(directory)


def play_demo(server: EmbeddedServer) -> None:
    schema.upgrade(server.start().url)
    assert call(server.url, "demo", "--no-page").code == 0


def read_rows(url: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT * FROM published.demo_k5 ORDER BY cloak_id").fetchall()


@pytest.mark.stress
@embedded_only
def test_a_dump_of_the_embedded_server_restores_there_and_on_another_server_and_publishes_again(
    embedded: EmbeddedServer, dbanon_server: "Target", dbanon_template: str
) -> None:
    play_demo(embedded)
    assert not lacks_postgis_in_dumps(embedded.url)
    dumped = dump_database(embedded.url)
    for server in (embedded.url, dbanon_server.url):
        with restore_dump(dumped, server) as url:
            assert read_rows(url) == read_rows(embedded.url) != []
            with psycopg.connect(url) as connection:
                connection.execute(CONFIRM)
            again = ("run", "tp-aware", "--dataset", "demo", "--seed", "1", "--publish", "again")
            done = call(url, "--json", *again, "-p", "k=5")
            assert (done.code, read_json(done)["status"]) == (0, "verified"), done.stderr
            assert call(url, "unpublish", "demo_k5").code == 0


def make_in_single_user_mode(server: EmbeddedServer) -> None:
    """Make the cluster as early versions did."""
    bindir = find_binaries().bindir
    server._make_home()
    server._make_private(server.data)
    run = [str(bindir / "initdb"), "-D", str(server.data), "-U", "dbanon", "--auth-local=trust", "--locale=C.UTF-8"]
    assert server._run(run).returncode == 0
    for database, statement in (("postgres", f"CREATE DATABASE {DATABASE}"), (DATABASE, "CREATE EXTENSION postgis")):
        command = [str(bindir / "postgres"), "--single", "-D", str(server.data), database]
        assert "ERROR" not in run_as(server._account, command, text=f"{statement}\n", home=server.home).stderr


@tries("A dump of this database lacks the extension postgis")
@pytest.mark.stress
@embedded_only
def test_a_server_made_in_single_user_mode_is_recognised_and_moved_as_the_page_says(
    embedded: EmbeddedServer, tmp_path: Path
) -> None:
    make_in_single_user_mode(embedded)
    play_demo(embedded)
    assert lacks_postgis_in_dumps(embedded.url)
    before = read_rows(embedded.url)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PG", "DBANON_"))}
    programs = f"{Path(sys.executable).parent}:{find_binaries().bindir}:{os.environ['PATH']}"
    environment |= {"DBANON_HOME": str(embedded.home), "PATH": programs}

    def bash(script: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "-euc", script]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)

    for command in ("up", "status", "upgrade"):
        said = bash(f"dbanon db {command}")
        assert (said.returncode, "CREATE EXTENSION postgis" in said.stderr) == (0, True), said.stderr
    [statement] = re.findall(r"run `(CREATE [^`]*)`", said.stderr)
    with restore_dump(dump_database(embedded.url), embedded.url, statement) as url:
        assert read_rows(url) == before
    section = PAGE.read_text().partition("## Dump and restore")[2]
    block = re.search(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert block is not None
    moved = bash(block[1])
    assert moved.returncode == 0, moved.stderr
    assert "CREATE EXTENSION" not in bash("dbanon db status").stderr
    assert read_rows(embedded.url) == before
    with restore_dump(dump_database(embedded.url), embedded.url) as url:
        assert read_rows(url) == before


def test_a_restored_release_grows_and_is_guarded_as_before(
    database: str, connection: psycopg.Connection, run: int, login: Callable[[str], str]
) -> None:
    """With a folded month, a part beside it, and one that was withdrawn while it was read: its table is still there."""
    for number in (0, 1, 27, 28):
        publish_part(connection, run_of(connection, number))
    connection.execute("SELECT dbanon.fold_release('ten', '2008-07-01Z')")
    with psycopg.connect(login("dbanon_analyst")) as reader:
        reader.execute("SELECT count(*) FROM published.ten")
        connection.execute("SELECT dbanon.unpublish_part('ten', %s)", [find_day(28)])
        dumped = dump_database(database)
    with restore_dump(dumped, database) as url, psycopg.connect(url, autocommit=True) as restored:
        for query in (
            "SELECT * FROM published.ten ORDER BY cloak_id",
            "SELECT relation::text, bounds FROM dbanon_internal.list_series_tables(1) ORDER BY bounds",
            "SELECT * FROM published.releases",
            "SELECT tgrelid::regclass::text, tgname, tgenabled FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1, 2",
            "SELECT obj_description('published.ten'::regclass)",
        ):
            assert restored.execute(query).fetchall() == connection.execute(query).fetchall()
        for relation in ("dbanon.series_1", "dbanon.release_5"):
            with expect_refusal("DA006"):
                restored.execute(f"DELETE FROM {relation}")
        schema.upgrade(url, share_roles=True)
        restored.execute(CONFIRM)
        assert publish_part(restored, run_of(restored, 29)) == 4
        assert publish_part(restored, run_of(restored, 28, later=timedelta(days=28))) == 4
        restored.execute("SELECT dbanon.unpublish_part('ten', %s)", [find_day(0)])
        with psycopg.connect(database_url(login("dbanon_analyst"), dbname=restored.info.dbname)) as analyst:
            assert analyst.execute("SELECT count(*) FROM published.ten").fetchone() == (16,)
