"""The extension: dumps are whole, updates keep all, and dropping it drops nothing but its installer.

Needs the embedded server, and rights to write into its folder of extensions.
"""

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import psycopg
import pytest

from dbanon import schema
from dbanon.postgres.programs import find_binaries
from dbanon.postgres.server import parse
from dbanon.testing import database_url
from tests.clients import client
from tests.db import nights
from tests.db.conftest import RUN, VERIFY
from tests.db.parts import day, grow, run_of
from tests.db.ten_people import CONFIRM
from tests.db.test_composition import HALVES, Release, verified
from tests.facts import refusal

ROOT = Path(__file__).parents[2]
OLD, NEXT = "0.1.0", "0.1.1"
REVISION = """
ALTER TABLE dbanon.dataset ADD COLUMN note text;
-- A changed signature.
DROP FUNCTION dbanon.measure_overlap(bigint);
"""
STATE = """
WITH ours AS (SELECT n.* FROM pg_namespace n WHERE n.nspname IN ('dbanon', 'dbanon_internal', 'published')),
relation AS (SELECT c.* FROM pg_class c JOIN ours o ON o.oid = c.relnamespace),
thing (kind, name, owner, acl) AS (
    SELECT 'relation', r.oid::regclass::text, r.relowner,
        coalesce(r.relacl, acldefault(CASE r.relkind WHEN 'S' THEN 's'::"char" ELSE 'r' END, r.relowner))
    FROM relation r WHERE r.relkind IN ('r', 'v', 'S', 'p')
    UNION ALL SELECT 'column', format('%s.%s', r.oid::regclass, a.attname), r.relowner, a.attacl
    FROM pg_attribute a JOIN relation r ON r.oid = a.attrelid WHERE a.attacl IS NOT NULL
    UNION ALL SELECT 'function', p.oid::regprocedure::text, p.proowner, coalesce(p.proacl, acldefault('f', p.proowner))
    FROM pg_proc p JOIN ours o ON o.oid = p.pronamespace
    UNION ALL SELECT 'schema', o.nspname, o.nspowner, o.nspacl FROM ours o
    UNION ALL SELECT 'trigger', format('%s %s %s', t.tgrelid::regclass, t.tgname, t.tgenabled), NULL, NULL
    FROM pg_trigger t JOIN relation r ON r.oid = t.tgrelid WHERE NOT t.tgisinternal
    UNION ALL SELECT 'index', pg_get_indexdef(r.oid), NULL, NULL FROM relation r WHERE r.relkind IN ('i', 'I')
)
SELECT t.kind, t.name, t.owner::regrole::text, ARRAY(SELECT x::text FROM unnest(t.acl) x ORDER BY 1)
FROM thing t ORDER BY 1, 2
"""
SUPERUSERS = """
SELECT p.oid::regprocedure::text
FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE p.prosecdef AND r.rolsuper AND n.nspname IN ('dbanon', 'dbanon_internal', 'published', 'dbanon_setup')
"""


def built() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dbanon_extension_build", ROOT / "extension" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_next(folder: Path) -> None:
    """Write a made-up next version: a column, a function, a changed signature."""
    build = built()
    revisions = {**build.standin.revisions(), "0005": REVISION}
    body = build.standin.body().replace(
        "CREATE OR REPLACE FUNCTION dbanon.measure_overlap(run_id bigint)",
        "CREATE OR REPLACE FUNCTION dbanon.measure_overlap(run_id bigint, beside text DEFAULT NULL)",
    )
    body = body.replace("measure_overlap(bigint)", "measure_overlap(bigint, text)")
    body = (
        "CREATE OR REPLACE FUNCTION dbanon_internal.made_up() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE"
        " SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'SELECT 42';\n" + body
    )
    build.write(NEXT, build.members(build.standin.text(revisions, body), "0005"), [OLD], folder)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """The server's folder of extensions, with the files of two versions until the end."""
    config = find_binaries().bindir / "pg_config"
    shared = subprocess.run([config, "--sharedir"], check=True, capture_output=True, text=True).stdout.strip()
    target = Path(shared) / "extension"
    subprocess.run([sys.executable, ROOT / "extension" / "build.py", OLD, target], check=True)
    write_next(target)
    (target / "dbanon.control").write_text((ROOT / "extension" / "dbanon.control").read_text())
    yield target
    for file in target.glob("dbanon[.-]*"):
        file.unlink()


@pytest.fixture
def installed(folder: Path, empty: Callable[..., str]) -> str:
    """URL of a database made by the extension."""
    url = empty()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION dbanon CASCADE")
        assert connection.execute("SELECT dbanon_setup.install()").fetchone() == (schema.EXPECTED_REVISION,)
    return url


@pytest.fixture
def filled(installed: str) -> tuple[str, int, int]:
    """With live, withdrawn and growing releases, a job and a queue; and two runs: to be refused, to be published."""
    with psycopg.connect(installed, autocommit=True) as connection:
        connection.execute(RUN)
        connection.execute(VERIFY, [True])
        connection.execute("SELECT dbanon.publish(1, 'first')")
        for number in (40, 41, 67, 68):
            grow(connection, run_of(connection, number), "grown")
        connection.execute("SELECT dbanon.fold_release('grown', '2008-08-01Z')")
        with psycopg.connect(installed) as reader:
            reader.execute("SELECT count(*) FROM published.grown")
            connection.execute("SELECT dbanon.unpublish_part('grown', %s)", [day(68)])
        connection.execute("SELECT dbanon.publish(%s, 'gone')", [run_of(connection, 100)])
        connection.execute("SELECT dbanon.unpublish('gone')")
        nights.source(connection)
        nights.add(connection)
        assert [nights.step(connection) for _ in range(2)] == ["run", "compute"]
        halves = verified(connection, Release(2, HALVES))
        free = run_of(connection, 120)
        connection.execute("""SELECT dbanon.submit_run('ten', 'tp-aware', '{"k": 5, "step_s": 60, "instants": 2}')""")
        return installed, halves, free


def state(url: str) -> dict[str, object]:
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


def dump(url: str) -> bytes:
    return subprocess.run([*client("pg_dump", url), "-Fc", "-d", url], check=True, stdout=subprocess.PIPE).stdout


def restore(dumped: bytes, url: str) -> str:
    done = subprocess.run([*client("pg_restore", url), "-d", url], input=dumped, capture_output=True, check=False)
    return done.stderr.decode()


def judged(url: str, halves: int, free: int) -> None:
    """A copy refuses what the original refuses, once an administrator has said that nothing was published since."""
    with psycopg.connect(url, autocommit=True) as connection:
        with refusal("DA020", "restore"):
            connection.execute("SELECT dbanon.publish(%s, 'free')", [free])
        connection.execute(CONFIRM)
        with refusal("DA010", "first"):
            connection.execute("SELECT dbanon.publish(%s, 'halves')", [halves])
        assert connection.execute("SELECT dbanon.publish(%s, 'free')", [free]).fetchone() == (4,)
        assert nights.step(connection) in ("waiting", "compute")


def test_a_dump_is_whole_on_a_server_with_the_files_and_on_one_without(
    filled: tuple[str, int, int], empty: Callable[..., str], folder: Path
) -> None:
    url, halves, free = filled
    with psycopg.connect(url, autocommit=True) as connection, refusal("DA010", "first"):
        connection.execute("SELECT dbanon.publish(%s, 'halves')", [halves])
    before, dumped = state(url), dump(url)
    with_files, without = empty(), empty()
    assert restore(dumped, with_files) == ""
    control = folder / "dbanon.control"
    text = control.read_text()
    control.unlink()
    try:
        said = restore(dumped, without)
    finally:
        control.write_text(text)
    assert said.count("could not execute query") == 2  # CREATE and COMMENT ON EXTENSION dbanon
    assert "errors ignored on restore: 2" in said
    for copy in (with_files, without):
        assert state(copy) == before
        judged(copy, halves, free)


def test_an_update_to_the_next_version_keeps_all(
    filled: tuple[str, int, int], empty: Callable[..., str], folder: Path
) -> None:
    url, halves, free = filled
    before, dumped = state(url), dump(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER EXTENSION dbanon UPDATE TO '{NEXT}'")
        assert state(url) == before  # the installer alone is another one
        with psycopg.connect(url) as reader:  # its view stays readable
            rows = reader.execute("SELECT count(*) FROM published.first").fetchone()
            reader.commit()
            assert connection.execute("SELECT dbanon_setup.install()").fetchone() == ("0005",)
            assert reader.execute("SELECT count(*) FROM published.first").fetchone() == rows
        after = state(url)
        # The column, the comment of the revision's table, and the rights of what is new; no other row.
        assert {name for name in before if before[name] != after[name]} == {
            "dbanon.alembic_version",
            "dbanon.dataset",
            "rights",
        }
        assert connection.execute("SELECT note FROM dbanon.dataset LIMIT 1").fetchone() == (None,)
        assert connection.execute("SELECT dbanon_internal.made_up()").fetchone() == (42,)
        assert connection.execute("SELECT count(*) FROM dbanon.measure_overlap(%s, 'x')", [halves]).fetchone() == (1,)
        with refusal("DA010", "first"):
            connection.execute("SELECT dbanon.publish(%s, 'halves')", [halves])
        assert connection.execute("SELECT dbanon.publish(%s, 'free')", [free]).fetchone() == (4,)
    # A dump from before, on a server that has the newer files only: the tables are those of the dump until install().
    copy = empty()
    control = folder / "dbanon.control"
    text = control.read_text()
    control.write_text(text.replace(f"default_version = '{OLD}'", f"default_version = '{NEXT}'"))
    try:
        assert restore(dumped, copy) == ""
    finally:
        control.write_text(text)
    with psycopg.connect(copy, autocommit=True) as connection:
        query = "SELECT extversion FROM pg_extension WHERE extname = 'dbanon'"
        assert connection.execute(query).fetchone() == (NEXT,)
        assert state(copy) == before
        assert connection.execute("SELECT dbanon_setup.install()").fetchone() == ("0005",)
    judged(copy, halves, free)


def test_dropping_the_extension_drops_nothing_but_its_installer(filled: tuple[str, int, int]) -> None:
    url, halves, _ = filled
    before = state(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP EXTENSION dbanon CASCADE")
        assert connection.execute("SELECT to_regnamespace('dbanon_setup')").fetchone() == (None,)
        assert state(url) == before
        with refusal("DA010", "first"):
            connection.execute("SELECT dbanon.publish(%s, 'halves')", [halves])


def test_it_makes_what_an_upgrade_makes_and_programs_work_at_once(installed: str, empty: Callable[..., str]) -> None:
    query = (ROOT / "tests" / "golden" / "catalog.sql").read_text()
    upgraded = empty()
    schema.upgrade(upgraded, share_roles=True)
    found = []
    for url in (installed, upgraded):
        with psycopg.connect(url) as connection:
            connection.execute("SET search_path = pg_catalog")
            found.append(connection.execute(query).fetchall())
            schema.check(connection)
    assert found[0] == found[1]
    assert schema.is_current(installed)
    schema.upgrade(installed, share_roles=True)
    schema.uninstall(installed, lambda inventory: not inventory.built_on_it)
    with psycopg.connect(installed, autocommit=True) as connection:
        assert connection.execute("SELECT to_regnamespace('dbanon')").fetchone() == (None,)
        connection.execute("SELECT dbanon_setup.install()")


def test_an_owner_who_is_no_superuser_installs_but_creates_no_extension(
    folder: Path, empty: Callable[..., str], user: str
) -> None:
    url = empty(user)
    with psycopg.connect(url, autocommit=True) as superuser:
        superuser.execute("CREATE EXTENSION postgis")
        own = database_url(url, user=user, password=user, dbname=parse(url)["dbname"])
        with psycopg.connect(own, autocommit=True) as owner:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                owner.execute("CREATE EXTENSION dbanon")
            superuser.execute("CREATE EXTENSION dbanon")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                owner.execute("CREATE FUNCTION dbanon_setup.install() RETURNS text LANGUAGE sql AS 'SELECT 1'")
            owner.execute("SELECT dbanon_setup.install()")
        assert superuser.execute(SUPERUSERS).fetchall() == []


def test_a_schema_that_another_login_made_is_refused(folder: Path, empty: Callable[..., str], user: str) -> None:
    url = empty(user)
    with psycopg.connect(url, autocommit=True) as superuser:
        superuser.execute(f"SET ROLE {user}")  # type: ignore[arg-type]
        superuser.execute("CREATE SCHEMA dbanon_setup")
        superuser.execute("RESET ROLE")
        with pytest.raises(psycopg.errors.DuplicateSchema):
            superuser.execute("CREATE EXTENSION dbanon CASCADE")


def test_later_parts_grow_in_a_copy(filled: tuple[str, int, int], empty: Callable[..., str]) -> None:
    copy = empty()
    assert restore(dump(filled[0]), copy) == ""
    with psycopg.connect(copy, autocommit=True) as connection:
        connection.execute(CONFIRM)
        assert grow(connection, run_of(connection, 69), "grown") == 4
        assert grow(connection, run_of(connection, 68, later=timedelta(days=68)), "grown") == 4


def test_what_ends_half_way_or_meets_a_newer_revision_leaves_a_sentence_and_nothing_else(
    folder: Path, empty: Callable[..., str]
) -> None:
    with psycopg.connect(empty(), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION dbanon CASCADE")
        connection.execute(
            "CREATE FUNCTION public.no() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'no'; END$$;"
            "CREATE EVENT TRIGGER no ON ddl_command_start WHEN TAG IN ('CREATE TRIGGER') EXECUTE FUNCTION public.no()"
        )
        with pytest.raises(psycopg.errors.RaiseException) as ended:
            connection.execute("SELECT dbanon_setup.install('dbanon_half')")
        assert len(str(ended.value)) < 1000  # not the text that was run
        connection.execute("DROP EVENT TRIGGER no")
        query = "SELECT to_regnamespace('dbanon'), to_regrole('dbanon_half_admin')"
        assert connection.execute(query).fetchone() == (None, None)
        with refusal("DA001", "prefix"):
            connection.execute("SELECT dbanon_setup.install('pg_x')")
        connection.execute("SELECT dbanon_setup.install()")
        connection.execute("SELECT dbanon_setup.install()")
        connection.execute("UPDATE dbanon.alembic_version SET version_num = '9999'")
        with refusal("DA004", "newer"):
            connection.execute("SELECT dbanon_setup.install()")
