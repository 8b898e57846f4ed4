"""The page's way back from an upgrade, and a dump that is restored on a server without dbanon's roles."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from dbanon import schema
from dbanon.testing import database_url, logins
from tests.clients import find_client
from tests.db.ten_people import CONFIRM
from tests.facts import expect_refusal
from tests.upgrade import imitations
from tests.upgrade.alive import ALLOWED, REFUSED, restore_old_dump
from tests.upgrade.test_extension import dump_database, judge, read_state, restore_dump, verify
from tests.upgrade.test_script import install_script as run_script

Empty = Callable[..., str]

PAGE = (Path(__file__).parents[2] / "docs" / "administrators" / "dump-upgrade-remove.md").read_text()
_REVISION = "SELECT version_num FROM dbanon.alembic_version"
_RELEASES = "SELECT name, live FROM dbanon.releases WHERE run_id IS NOT NULL ORDER BY release_id"


@pytest.mark.stress
def test_the_way_back_is_the_dump_from_before_the_upgrade(dbanon_template: str, empty: Empty) -> None:
    """All but one step: after the restore it is today's program that upgrades, and not the earlier one."""
    geo, geo_before = empty(), empty()
    restore_old_dump(geo)
    before = dump_database(geo)
    with psycopg.connect(geo, autocommit=True) as connection:
        kept = connection.execute(_RELEASES).fetchall()
    run_script(geo, schema.write_script(share_roles=True))
    verify(geo)
    with psycopg.connect(geo, autocommit=True) as connection:
        connection.execute(CONFIRM)
        time = str(connection.execute("SELECT now()").fetchone()[0])  # type: ignore[index]
        connection.execute("SELECT dbanon.publish(%s, 'free')", [ALLOWED])
        [query] = re.findall(r"^ *(SELECT jsonb_agg\(.*?);", PAGE, re.MULTILINE | re.DOTALL)
        query, times = re.subn(r"'[\d: Z-]+'", f"'{time}'", query)
        assert times == 1
        [published] = connection.execute(query).fetchone() or (None,)
        assert [item["name"] for item in published] == ["free"]

    subprocess.run(
        [*find_client("pg_restore", geo_before), "--exit-on-error", "-d", geo_before], check=True, input=before
    )
    with psycopg.connect(geo_before, autocommit=True) as connection:
        assert connection.execute(_REVISION).fetchone() == ("0004",)
        assert connection.execute(_RELEASES).fetchall() == kept
    schema.upgrade(geo_before, share_roles=True)
    verify(geo_before)
    names = [psycopg.conninfo.conninfo_to_dict(url)["dbname"] for url in (geo, geo_before)]
    with psycopg.connect(database_url(geo, dbname="postgres"), autocommit=True) as server:
        server.execute(f"ALTER DATABASE {names[0]} RENAME TO {names[0]}_after".encode())
        server.execute(f"ALTER DATABASE {names[1]} RENAME TO {names[0]}".encode())

    with psycopg.connect(geo, autocommit=True) as connection:
        assert connection.execute(_RELEASES).fetchall() == kept
        with expect_refusal("DA020", "restore"):
            connection.execute("SELECT dbanon.publish(%s, 'free')", [ALLOWED])
        history = [psycopg.types.json.Jsonb(published), "the upgrade was taken back"]
        assert connection.execute("SELECT dbanon.confirm_history(%s, %s)", history).fetchone() == (1,)
        for run, other in ((ALLOWED, "free"), (REFUSED, "first")):
            with expect_refusal("DA010", other):
                connection.execute("SELECT dbanon.publish(%s, 'again')", [run])
    with logins(geo) as login, psycopg.connect(login("analyst")) as analyst:
        assert analyst.execute("SELECT count(*) FROM published.first").fetchone() == (4,)


@pytest.mark.stress
def test_a_dump_restored_on_a_server_without_the_roles_is_whole_after_the_script(
    dbanon_template: str, empty: Empty
) -> None:
    url = empty()
    restore_old_dump(url)
    run_script(url, schema.write_script(share_roles=True))
    verify(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(CONFIRM)
    original, dumped = read_state(url), dump_database(url)
    with imitations.run_server() as other:
        with psycopg.connect(other.url, autocommit=True) as server:
            server.execute("CREATE DATABASE geo TEMPLATE template0")
            roles = server.execute(r"SELECT FROM pg_roles WHERE rolname LIKE 'dbanon\_%'").fetchall()
            assert roles == []
        copy = database_url(other.url, dbname="geo")
        said = restore_dump(dumped, copy)
        assert 'role "dbanon_admin" does not exist' in said
        run_script(copy, schema.write_script())
        found = read_state(copy)
        assert {name for name in original if found[name] != original[name]} == {"dbanon.installation"}
        judge(copy)
        with psycopg.connect(other.url, autocommit=True) as server:
            for statement in re.findall(r"`(DROP (?:DATABASE|ROLE) [^`]+)`", PAGE):
                server.execute(statement.encode())
            left = server.execute(r"SELECT datname FROM pg_database WHERE datname = 'geo'").fetchall()
            left += server.execute(r"SELECT rolname FROM pg_roles WHERE rolname LIKE 'dbanon\_%'").fetchall()
            assert left == []
