"""A database with a live release survives pg_dump and restore: view, digest, gate and grants."""

import secrets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from dbanon import schema
from dbanon.testing import database_url

Verify = Callable[..., None]


def program(name: str) -> str:
    """Find a client program at least as new as the server: the newest there is."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    return str(found[-1]) if found else name


@pytest.fixture
def restored(database: str, connection: psycopg.Connection, run: int, tmp_path: Path) -> Iterator[psycopg.Connection]:
    connection.execute("SELECT dbanon.publish(1, 'ten')")
    target, name = tmp_path / "dump", f"dbanon_restored_{secrets.token_hex(4)}"
    subprocess.run([program("pg_dump"), "-Fc", "-d", database, "-f", target], check=True)
    connection.execute(f"CREATE DATABASE {name}")
    try:
        url = database_url(database, dbname=name)
        subprocess.run([program("pg_restore"), "--exit-on-error", "-d", url, target], check=True)
        with psycopg.connect(url, autocommit=True) as opened:
            yield opened
    finally:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_restored_release_is_the_same_and_still_guarded(
    connection: psycopg.Connection, restored: psycopg.Connection, verify: Verify, login: Callable[[str], str]
) -> None:
    query = "SELECT * FROM published.ten ORDER BY cloak_id"
    assert restored.execute(query).fetchall() == connection.execute(query).fetchall()
    for query in (
        "SELECT dbanon.run_digest(1)",
        "SELECT digest = dbanon.run_digest(1) FROM dbanon.verification",
        "SELECT revision FROM dbanon.dataset",
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
    assert restored.execute("SELECT dbanon.publish(1, 'again')").fetchone() == (4,)
    restored.execute("SELECT dbanon.unpublish('ten')")
    schema.check(restored)
    lines = restored.execute("SELECT action FROM dbanon.audit ORDER BY audit_id").fetchall()
    assert [action for (action,) in lines] == [
        "create",
        "change",
        "change",
        "submit",
        "verify",
        "publish",
        "verify",
        "publish",
        "unpublish",
    ]
    with pytest.raises(psycopg.Error, match="must only grow"):
        restored.execute("DELETE FROM dbanon.audit")


def test_a_restored_database_is_upgraded_without_a_change(restored: psycopg.Connection, database: str) -> None:
    query = (Path(__file__).parents[1] / "golden" / "catalog.sql").read_text()
    restored.execute("SET search_path = pg_catalog")
    before = restored.execute(query).fetchall()
    schema.upgrade(database_url(database, dbname=restored.info.dbname), share_roles=True)
    assert restored.execute(query).fetchall() == before
    assert restored.execute("SELECT count(*) FROM published.ten").fetchone() == (4,)


def test_a_member_of_the_admin_role_dumps_all_of_it(login: Callable[[str], str]) -> None:
    command = [program("pg_dump"), "--schema=dbanon", "--schema=published", "-d", login("dbanon_admin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "CREATE TABLE dbanon.audit" in done.stdout
