"""The three ways in lead to one state; the extension's dumps are whole, and dropping it drops only its installer."""

import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import psycopg
import pytest

from dbanon import schema
from dbanon.base.errors import SchemaMismatch
from dbanon.schema import _text
from dbanon.testing import database_url, logins
from tests.acceptance.commands import call, demand_done
from tests.clients import find_client
from tests.db import nights
from tests.db.parts import publish_part, run_of
from tests.db.ten_people import CONFIRM
from tests.facts import demand_named, expect_refusal
from tests.hints import tries
from tests.upgrade.alive import ALLOWED, REFUSED, restore_old_dump
from tests.upgrade.extension_files import Folder, build, place_files
from tests.upgrade.test_script import install_script as run_script
from tests.upgrade.test_upgrade import GOLDEN, read_listing

if TYPE_CHECKING:
    from dbanon.postgres.server import Target

Empty = Callable[..., str]

NEXT = "99.0.0"
REVISION = '''"""A made-up one, with a column, and a function with another signature."""
revision = "9000"
down_revision = "0008"
SCRIPT = """
ALTER TABLE dbanon.dataset ADD COLUMN note text;
DROP FUNCTION dbanon.measure_overlap(bigint);
"""
'''
MADE_UP = """-- A made-up function.
CREATE OR REPLACE FUNCTION dbanon_internal.made_up() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'SELECT 42';
"""
STATE = """
WITH ours AS (SELECT nsp.* FROM pg_namespace nsp WHERE nsp.nspname ~ '^(dbanon|dbanon_internal|published(_inner)?)$'),
relation AS (SELECT cla.* FROM pg_class cla JOIN ours ON ours.oid = cla.relnamespace),
thing (kind, name, owner, acl) AS (
    SELECT 'relation', rel.oid::regclass::text, rel.relowner,
        coalesce(rel.relacl, acldefault(CASE rel.relkind WHEN 'S' THEN 's'::"char" ELSE 'r' END, rel.relowner))
    FROM relation rel WHERE rel.relkind IN ('r', 'v', 'S', 'p')
    UNION ALL SELECT 'column', format('%s.%s', rel.oid::regclass, att.attname), rel.relowner, att.attacl
    FROM pg_attribute att JOIN relation rel ON rel.oid = att.attrelid WHERE att.attacl IS NOT NULL
    UNION ALL
    SELECT 'function', pro.oid::regprocedure::text, pro.proowner, coalesce(pro.proacl, acldefault('f', pro.proowner))
    FROM pg_proc pro JOIN ours ON ours.oid = pro.pronamespace
    UNION ALL SELECT 'schema', ours.nspname, ours.nspowner, ours.nspacl FROM ours
    UNION ALL SELECT 'trigger', format('%s %s %s', tri.tgrelid::regclass, tri.tgname, tri.tgenabled), NULL, NULL
    FROM pg_trigger tri JOIN relation rel ON rel.oid = tri.tgrelid WHERE NOT tri.tgisinternal
    UNION ALL SELECT 'index', pg_get_indexdef(rel.oid), NULL, NULL FROM relation rel WHERE rel.relkind IN ('i', 'I')
)
SELECT thing.kind, thing.name, thing.owner::regrole::text, ARRAY(SELECT ele::text FROM unnest(thing.acl) ele ORDER BY 1)
FROM thing ORDER BY 1, 2
"""
SUPERUSERS = """
SELECT p.oid::regprocedure::text
FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE p.prosecdef AND r.rolsuper AND n.nspname ~ '^(dbanon|published)'
"""


@pytest.fixture
def folder(dbanon_server: "Target", dbanon_template: str) -> Iterator[Folder]:
    """The server's folder of extensions, with the files of this version."""
    with place_files(dbanon_server.url, build().files(build().VERSION, [])) as made:
        yield made


@pytest.fixture
def before(dbanon_server: "Target", dbanon_template: str, empty: Empty) -> str:
    """URL of a database of the last version before there were three ways."""
    url = empty()
    restore_old_dump(url)
    return url


def create_and_install(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION dbanon CASCADE")
        query = "SELECT dbanon_setup.install(share_roles => true)"
        assert connection.execute(query).fetchone() == (schema.EXPECTED_REVISION,)


WAYS: dict[str, Callable[[str], object]] = {
    "upgrade": lambda url: schema.upgrade(url, share_roles=True),
    "script": lambda url: run_script(url, schema.write_script(share_roles=True)),
    "extension": create_and_install,
}


@pytest.fixture
def extended(before: str, folder: Folder) -> str:
    """URL of that database after the extension has upgraded it."""
    create_and_install(before)
    verify(before)
    with psycopg.connect(before, autocommit=True) as connection:
        connection.execute(CONFIRM)
    return before


def read_state(url: str) -> dict[str, object]:
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path = pg_catalog")
        tables = connection.execute(
            "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relkind = 'r'"
            " AND c.relnamespace IN ('dbanon'::regnamespace, 'published'::regnamespace) ORDER BY 1"
        ).fetchall()
        found: dict[str, object] = {
            name: connection.execute(
                f"SELECT count(*), md5(string_agg(t::text, chr(10) ORDER BY t::text)) FROM {name} t"  # type: ignore[arg-type]
            ).fetchone()
            for (name,) in tables
        }
        found["rights"] = connection.execute(STATE).fetchall()
        found["keys"] = connection.execute("SELECT name, key FROM dbanon.population ORDER BY 1").fetchall()
        found["key"] = connection.execute("SELECT key FROM dbanon.installation").fetchall()
        found["releases"] = connection.execute("SELECT * FROM published.releases ORDER BY 1").fetchall()
        assert connection.execute(SUPERUSERS).fetchall() == []
    return found


def dump_database(url: str) -> bytes:
    return subprocess.run([*find_client("pg_dump", url), "-Fc", "-d", url], check=True, stdout=subprocess.PIPE).stdout


def restore_dump(dumped: bytes, url: str) -> str:
    done = subprocess.run([*find_client("pg_restore", url), "-d", url], input=dumped, capture_output=True, check=False)
    return done.stderr.decode()


def verify(url: str) -> None:
    """Add a verdict to each of before, with the digest that this version makes, as `dbanon verify` does."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO dbanon.verification (run_id, attack, passed, figures, clauses, digest)"
            " SELECT run_id, attack, passed, figures, clauses, dbanon_internal.compute_run_digest(run_id)"
            " FROM dbanon.verification"
        )


def judge(url: str) -> None:
    """Demand that a copy refuses what the original refuses, once it is said that nothing was published since."""
    with psycopg.connect(url, autocommit=True) as connection:
        with expect_refusal("DA020", "restore"):
            connection.execute("SELECT dbanon.publish(%s, 'free')", [ALLOWED])
        connection.execute(CONFIRM)
        with expect_refusal("DA010", "first"):
            connection.execute("SELECT dbanon.publish(%s, 'halves')", [REFUSED])
        assert connection.execute("SELECT dbanon.publish(%s, 'free')", [ALLOWED]).fetchone() == (4,)
        assert publish_part(connection, run_of(connection, 69), "grown") == 4
        assert nights.take_step(connection) in ("waiting", "compute")


@contextmanager
def keep_reading(url: str) -> Iterator[None]:
    """Read a release as an analyst all the while; fails if one reading does."""
    ended = threading.Event()
    said: list[object] = []

    def read() -> None:
        try:
            with psycopg.connect(url, autocommit=True) as analyst:
                while not ended.is_set():
                    said.append(analyst.execute("SELECT count(*) FROM published.first").fetchone())
        except psycopg.Error as error:
            said.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        ended.set()
        reader.join()
    assert set(said) == {(4,)}


def demand_later_refusals(url: str) -> None:
    """Releases whose digests are of an earlier version show the latest verification of their runs."""
    with psycopg.connect(url, autocommit=True) as connection, connection.transaction(force_rollback=True):
        connection.execute("UPDATE dbanon.verification SET passed = false WHERE NOT outdated")
        passed = "dbanon.release_card(name) -> 'attack' ->> 'passed'"
        live = f"SELECT DISTINCT {passed} FROM dbanon.release WHERE withdrawn_at IS NULL"
        assert connection.execute(live).fetchall() == [("false",)]


@tries("Extension dbanon stays, which holds the installer alone")
@pytest.mark.parametrize("way", WAYS)
def test_each_way_upgrades_what_is_alive_to_the_golden_schema_while_analysts_read(
    before: str, folder: Folder, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(before) as connection:
        rows = "SELECT l.name, l.run_id, l.groups_sum, l.withdrawn_at FROM dbanon.release l ORDER BY l.release_id"
        kept = connection.execute(rows).fetchall()
    # A role is given by its name, since the old version has another helper that says it.
    with logins(before) as login, keep_reading(login("dbanon_analyst")):
        WAYS[way](before)
    # A dump writes `(a AND b) AND c` as `a AND b AND c`.
    texts = (GOLDEN / "schema.txt").read_text(), read_listing(before)
    golden, found = (re.sub(r"[()]", "", text).splitlines() for text in texts)
    assert [line for line in golden if line not in found] == []
    more = re.compile(r"\b(dbanon\.(release_\d+|withdrawn\$|series_)|published\.(first|grown)\b)")
    assert [line for line in found if line not in golden and not more.search(line)] == []
    assert schema.is_current(before)
    with psycopg.connect(before) as connection:
        assert connection.execute(rows).fetchall() == kept
        assert connection.execute(SUPERUSERS).fetchall() == []
        owners = (
            "SELECT DISTINCT p.proowner::regrole::text FROM pg_proc p WHERE p.pronamespace = 'dbanon'::regnamespace"
        )
        assert connection.execute(owners).fetchall() == [("dbanon_admin",)]
    with monkeypatch.context() as older:
        older.setattr(schema, "EXPECTED_REVISION", "0004")  # a program of before
        demand_named(call(before, "worker").sentence, "0004", _text.EXPECTED_REVISION, "newer dbanon")
    with psycopg.connect(before, autocommit=True) as connection, connection.transaction(force_rollback=True):
        connection.execute(CONFIRM)
        with expect_refusal("DA005", "verified by an earlier", f"dbanon.verify_run({ALLOWED})"):
            connection.execute("SELECT dbanon.publish(%s, 'free')", [ALLOWED])
    verify(before)
    judge(before)
    demand_later_refusals(before)
    done = demand_done(call(before, "db", "uninstall", "--yes"))
    drops = re.findall(r"`(DROP EXTENSION \w+)`", done.stderr)
    assert len(drops) == (way == "extension")
    with psycopg.connect(before) as connection:
        for statement in drops:
            connection.execute(statement)
        assert connection.execute("SELECT to_regnamespace('dbanon'), to_regnamespace('published')").fetchone() == (
            None,
            None,
        )


def test_a_dump_is_whole_on_a_server_with_the_files_and_on_one_without(
    extended: str, empty: Empty, folder: Folder
) -> None:
    with psycopg.connect(extended, autocommit=True) as connection, expect_refusal("DA010", "first"):
        connection.execute("SELECT dbanon.publish(%s, 'halves')", [REFUSED])
    original, dumped = read_state(extended), dump_database(extended)
    with_files, without = empty(), empty()
    assert restore_dump(dumped, with_files) == ""
    folder.clear()
    said = restore_dump(dumped, without)
    assert said.count("could not execute query") == 2  # CREATE and COMMENT ON EXTENSION dbanon
    assert "errors ignored on restore: 2" in said
    folder.write(build().files(build().VERSION, []))
    for copy, way in ((with_files, "extension"), (without, "script")):
        assert read_state(copy) == original
        if way == "extension":
            with psycopg.connect(copy, autocommit=True) as connection:
                connection.execute("SELECT dbanon_setup.install(share_roles => true)")
        else:
            run_script(copy, schema.write_script(share_roles=True))
        # A copy has an OID of its own; nothing else is new.
        assert {name for name, value in read_state(copy).items() if value != original[name]} == {"dbanon.installation"}
        judge(copy)


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Files of a made-up next version: a column, a function, a changed signature."""
    for name in ("migrations", "sql"):
        shutil.copytree(_text.locate_folder(name), tmp_path / name)
    (tmp_path / "migrations" / "versions" / "9000_next.py").write_text(REVISION)
    (tmp_path / "sql" / "11_made_up.sql").write_text(MADE_UP)
    for file in (tmp_path / "sql").rglob("*.sql"):
        text = file.read_text().replace("measure_overlap(bigint)", "measure_overlap(bigint, text)")
        text = text.replace(
            "FUNCTION dbanon.measure_overlap(run_id bigint)",
            "FUNCTION dbanon.measure_overlap(run_id bigint, beside text DEFAULT NULL)",
        )
        file.write_text(text)
    with monkeypatch.context() as patch:
        patch.setattr(_text, "locate_folder", lambda name: tmp_path / name)
        patch.setattr(_text, "EXPECTED_REVISION", "9000")
        made: dict[str, str] = build().files(NEXT, [build().VERSION])
    return made


def test_an_update_to_the_next_version_keeps_all_and_older_programs_refuse_it(
    extended: str, folder: Folder, next_version: dict[str, str]
) -> None:
    original = read_state(extended)
    folder.write(next_version)
    with psycopg.connect(extended, autocommit=True) as connection:
        connection.execute("ALTER EXTENSION dbanon UPDATE")
        assert read_state(extended) == original  # the installer alone is another one
        with logins(extended) as login, keep_reading(login("analyst")):
            assert connection.execute("SELECT dbanon_setup.install()").fetchone() == ("9000",)
        after = read_state(extended)
        # The column, the comment of the revision's table, the mark, and the rights of what is new; no other row.
        assert {name for name in original if original[name] != after[name]} == {
            "dbanon.alembic_version",
            "dbanon.dataset",
            "dbanon.installation",
            "rights",
        }
        assert connection.execute("SELECT note FROM dbanon.dataset LIMIT 1").fetchone() == (None,)
        assert connection.execute("SELECT dbanon_internal.is_forked()").fetchone() == (False,)
        assert connection.execute("SELECT dbanon_internal.made_up()").fetchone() == (42,)
        assert connection.execute("SELECT count(*) FROM dbanon.measure_overlap(%s, 'x')", [REFUSED]).fetchone() == (1,)
        with expect_refusal("DA010", "first"):
            connection.execute("SELECT dbanon.publish(%s, 'halves')", [REFUSED])
        assert connection.execute("SELECT dbanon.publish(%s, 'free')", [ALLOWED]).fetchone() == (4,)
        with expect_refusal(SchemaMismatch, "9000", schema.EXPECTED_REVISION, "newer dbanon"):
            schema.demand_revision(connection)
    done = call(extended, "worker")
    assert done.code != 0
    demand_named(done.sentence, "9000", schema.EXPECTED_REVISION, "newer dbanon")


@pytest.mark.stress
def test_a_dump_that_meets_newer_files_has_its_own_tables_until_they_are_installed(
    extended: str, empty: Empty, folder: Folder, next_version: dict[str, str]
) -> None:
    original, dumped, copy = read_state(extended), dump_database(extended), empty()
    folder.clear()
    folder.write(next_version)
    assert restore_dump(dumped, copy) == ""
    assert read_state(copy) == original
    with psycopg.connect(copy, autocommit=True) as connection:
        query = "SELECT extversion FROM pg_extension WHERE extname = 'dbanon'"
        assert connection.execute(query).fetchone() == (NEXT,)
        with expect_refusal("DA021", "share_roles"):
            connection.execute("SELECT dbanon_setup.install()")
        assert connection.execute("SELECT dbanon_setup.install(share_roles => true)").fetchone() == ("9000",)
    judge(copy)


def test_dropping_the_extension_drops_its_installer_and_nothing_else(extended: str) -> None:
    original = read_state(extended)
    with psycopg.connect(extended, autocommit=True) as connection:
        connection.execute("DROP EXTENSION dbanon CASCADE")
        assert connection.execute("SELECT to_regnamespace('dbanon_setup')").fetchone() == (None,)
        assert read_state(extended) == original
        with expect_refusal("DA010", "first"):
            connection.execute("SELECT dbanon.publish(%s, 'halves')", [REFUSED])


def test_an_owner_who_is_no_superuser_installs_but_creates_no_extension(
    folder: Folder, empty: Empty, user: str
) -> None:
    url = empty(user)
    own = database_url(url, user=user, password=user)
    with psycopg.connect(url, autocommit=True) as superuser, psycopg.connect(own, autocommit=True) as owner:
        superuser.execute("CREATE EXTENSION postgis")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            owner.execute("CREATE EXTENSION dbanon")
        superuser.execute("CREATE EXTENSION dbanon")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            owner.execute("CREATE FUNCTION dbanon_setup.install() RETURNS text LANGUAGE sql AS 'SELECT 1'")
        owner.execute("SELECT dbanon_setup.install(share_roles => true)")
        assert superuser.execute(SUPERUSERS).fetchall() == []
    assert read_listing(url) == (GOLDEN / "schema.txt").read_text()
    assert schema.is_current(own)


def test_a_schema_that_another_login_made_is_refused(folder: Folder, empty: Empty, user: str) -> None:
    with psycopg.connect(empty(user), autocommit=True) as superuser:
        superuser.execute(f"SET ROLE {user}")  # type: ignore[arg-type]
        superuser.execute("CREATE SCHEMA dbanon_setup")
        superuser.execute("RESET ROLE")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="dbanon_setup is not a member"):
            superuser.execute("CREATE EXTENSION dbanon CASCADE")


def test_what_another_login_has_put_into_the_database_is_not_read(folder: Folder, empty: Empty, user: str) -> None:
    with psycopg.connect(empty(user), autocommit=True) as superuser:
        for name in ("a@b", "a%b"):
            statements = f'CREATE SCHEMA "{name}"; CREATE EXTENSION postgis SCHEMA "{name}"; CREATE EXTENSION dbanon'
            superuser.execute(statements.encode())
            with expect_refusal("DA001", "PostGIS", f"'{name}'"):
                superuser.execute("SELECT dbanon_setup.install()")
            superuser.execute("DROP EXTENSION postgis CASCADE")
        superuser.execute("CREATE EXTENSION dbanon CASCADE")
        superuser.execute(f"SET ROLE {user}")  # type: ignore[arg-type]
        superuser.execute(
            "CREATE SCHEMA dbanon; CREATE TABLE dbanon.seen (login text);"
            "CREATE FUNCTION dbanon.see() RETURNS text LANGUAGE sql AS"
            " $$ INSERT INTO dbanon.seen SELECT current_user; SELECT 'put_there' $$;"
            "CREATE VIEW dbanon.installation AS SELECT dbanon.see() AS role_prefix"
        )
        superuser.execute("RESET ROLE")
        row = superuser.execute("SELECT dbanon_setup.script()").fetchone()
        assert row is not None
        assert "put_there" not in row[0]
        with expect_refusal("DA023", "dbanon's own") as refused:
            superuser.execute("SELECT dbanon_setup.install()")
        assert cast("psycopg.Error", refused.value).diag.message_detail == "Nothing was changed."
        assert superuser.execute("SELECT count(*) FROM dbanon.seen").fetchone() == (0,)


@pytest.mark.stress
def test_what_ends_half_way_or_meets_a_newer_revision_leaves_a_sentence_and_nothing_else(
    folder: Folder, empty: Empty, prefixes: list[str]
) -> None:
    with psycopg.connect(empty(), autocommit=True) as connection:
        connection.execute('CREATE SCHEMA "Geo data"; CREATE EXTENSION postgis SCHEMA "Geo data"')
        connection.execute("CREATE EXTENSION dbanon")
        connection.execute(
            "CREATE FUNCTION public.no() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'no'; END$$;"
            "CREATE EVENT TRIGGER no ON ddl_command_start WHEN TAG IN ('CREATE TRIGGER') EXECUTE FUNCTION public.no()"
        )
        install = f"SELECT dbanon_setup.install('{prefixes[0]}')"
        with pytest.raises(psycopg.errors.RaiseException) as ended:
            connection.execute(install)  # type: ignore[arg-type]
        assert len(str(ended.value)) < 1000  # not the text that was run
        connection.execute("DROP EVENT TRIGGER no")
        query = f"SELECT to_regnamespace('dbanon'), to_regrole('{prefixes[0]}_admin')"
        assert connection.execute(query).fetchone() == (None, None)  # type: ignore[arg-type]
        with expect_refusal("DA001", "prefix"):
            connection.execute("SELECT dbanon_setup.install('pg_x')")
        connection.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        with expect_refusal("DA023", "serializable", "READ COMMITTED"):
            connection.execute(install)  # type: ignore[arg-type]
        connection.execute("ROLLBACK")
        for statement in (install, "SELECT dbanon_setup.install()"):  # which keeps the prefix
            connection.execute(statement)  # type: ignore[arg-type]
        connection.execute("UPDATE dbanon.alembic_version SET version_num = '9999'")
        with expect_refusal("DA022", "9999", "newer dbanon"):
            connection.execute("SELECT dbanon_setup.install()")
