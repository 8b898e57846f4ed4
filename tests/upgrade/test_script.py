"""The script that psql runs leaves what an upgrade leaves, and refuses in a sentence, with nothing changed."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from dbanon import schema, testing
from dbanon.base.errors import ParameterError
from dbanon.postgres.server import EmbeddedServer
from dbanon.schema import _text
from dbanon.testing import database_url
from tests.acceptance.commands import call
from tests.clients import find_client
from tests.facts import demand_named, expect_refusal
from tests.hints import find_quoted, tries
from tests.upgrade.test_uninstall import read_state

Empty = Callable[..., str]

_DATA = """
SELECT (SELECT array_agg(v.version_num) FROM dbanon.alembic_version v),
    (SELECT jsonb_agg(to_jsonb(m) ORDER BY m.name) FROM dbanon.method m),
    (SELECT jsonb_agg(to_jsonb(c) ORDER BY c.object, c.grantee) FROM dbanon.changed_right c),
    (SELECT to_jsonb(i) - ARRAY['key', 'database_oid', 'mark', 'published_from'] FROM dbanon.installation i),
    dbanon_internal.is_marked() AND NOT dbanon_internal.is_forked(),
    (SELECT jsonb_agg(to_jsonb(p) - 'key') FROM dbanon.population p)
"""


def run_psql(url: str, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a text as the page says, unless other options are given."""
    command = [
        *find_client("psql", url),
        "-X",
        "-q",
        *(options or ("-v", "ON_ERROR_STOP=1", "-1")),
        "-d",
        url,
        "-f",
        "-",
    ]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def install_script(url: str, text: str) -> str:
    """Run a text that must succeed; returns what was said."""
    done = run_psql(url, text)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return done.stderr


def demand_refusal(url: str, text: str, *facts: str) -> str:
    """Demand that psql ends with one error that names the facts, and that nothing was changed; returns what it said."""
    before = read_state(url)
    done = run_psql(url, text)
    assert (done.returncode, done.stderr.count("ERROR: ")) == (3, 1), done.stderr
    said = done.stderr.partition("CONTEXT")[0]
    demand_named(said, *facts)
    assert read_state(url) == before
    return said


def find_options(text: str) -> list[list[str]]:
    """The options with values that a hint proposes."""
    return [
        [name, value.strip("'")] for name, value in re.findall(r"(--[a-z-]+) ('[^']*'|\w+)", text.partition("HINT:")[2])
    ]


def dump_schema(url: str) -> str:
    """The schema with its rights and comments, without what differs from dump to dump and from table to table.

    The first is the mark of pg_dump against restoring on an untrusted server. The second is the version of a column,
    which servers keep from 15.20 and 17.12 on: their own pg_dump leaves it out, an older one does not know it.
    """
    command = [*find_client("pg_dump", url), "--schema-only", "-d", url]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return re.sub(r"(?m)^(\\(un)?restrict .*|ALTER TABLE ONLY .* SET \(pg_attver=\d+\);)$\n*", "", done.stdout)


def read_data(url: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(_DATA).fetchone()


def read_keys(url: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        query = "SELECT i.key, p.key FROM dbanon.installation i, dbanon.population p"
        return connection.execute(query).fetchall()


def test_a_script_leaves_what_an_upgrade_leaves(empty: Empty, prefixes: list[str]) -> None:
    # Roles of their own: which logins the notices name must not depend on other tests.
    prefix, scripted, upgraded = prefixes[0], empty(), empty()
    said: list[str] = []
    schema.upgrade(upgraded, role_prefix=prefix, share_roles=True, restrict_public=True, say=said.append)
    told = install_script(scripted, schema.write_script(role_prefix=prefix, share_roles=True, restrict_public=True))
    assert dump_schema(scripted).splitlines() == dump_schema(upgraded).splitlines()
    assert read_state(scripted)[0] == read_state(upgraded)[0]
    assert read_data(scripted) == read_data(upgraded)
    assert schema.is_current(scripted)
    for line in said:
        assert line.removesuffix(" --verbose names them.") in told
    # Each database draws keys of its own, and keeps them: the script again changes nothing.
    before = dump_schema(scripted), read_state(scripted), read_data(scripted), read_keys(scripted)
    assert before[3] != read_keys(upgraded)
    install_script(scripted, schema.write_script(role_prefix=prefix, since=schema.EXPECTED_REVISION))
    assert (dump_schema(scripted), read_state(scripted), read_data(scripted), read_keys(scripted)) == before


@tries(
    "Make it with --postgis-schema", "Make it with --role-prefix %s. Or", "let the same logins in with --share-roles"
)  # fmt: skip
def test_an_owner_who_is_no_superuser_runs_a_script_and_loads(empty: Empty, user: str, prefixes: list[str]) -> None:
    prefix, url = prefixes[0], empty(owner=user)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA "Geo data"; CREATE EXTENSION postgis SCHEMA "Geo data"')
        connection.execute(f'ALTER SCHEMA "Geo data" OWNER TO {user}')
    owner = database_url(url, user=user, password=user)
    said = demand_refusal(owner, schema.write_script(role_prefix=prefix), '"Geo data"', "public", "--postgis-schema")
    [place] = find_options(said)
    assert place[1] == "Geo data"
    told = install_script(owner, call("", "db", "script", "--role-prefix", prefix, *place).stdout)
    demand_named(told, "--restrict-public", "restrict_public => true")
    assert call(url, "db", "upgrade").code == 0  # which keeps the roles and the schema
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"SET ROLE {prefix}_operator")
        connection.execute(
            """
            INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('d', 32610, 1, 1);
            INSERT INTO dbanon.trajectory (dataset_id, subject, path)
                VALUES (1, 's', 'SRID=32610;LINESTRING M (1 1 60, 2 2 120)'::"Geo data".geometry)
            """
        )
        assert connection.execute("SELECT count(*) FROM dbanon.fix").fetchone() == (2,)
    # Made for other roles than the database has, it is refused; of another database the roles are.
    text = schema.write_script(postgis_schema="Geo data", share_roles=True)
    for words in find_options(demand_refusal(owner, text, f"{prefix}_*", f"--role-prefix {prefix}")):
        install_script(url, call("", "db", "script", *words, *place, "--share-roles").stdout)
        install_script(url, call("", "db", "script", "--role-prefix", prefix, *place, "--share-roles").stdout)
    other = empty(owner=user)
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION postgis")
        database = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    said = demand_refusal(
        (there := database_url(other, user=user, password=user)),
        schema.write_script(role_prefix=prefix),
        f"Database {database}",
        "--share-roles",
    )
    for words in (["--role-prefix", prefixes[1]], ["--role-prefix", prefix, "--share-roles"]):
        assert set(words[::2]) <= {*re.findall("--[a-z-]+", said)}
        with psycopg.connect(there) as connection, connection.transaction(force_rollback=True):
            connection.execute(call("", "db", "script", *words).stdout.encode())


@tries("members of @admin@ read and change all that is in the other database")
def test_an_owner_is_sent_to_roles_of_its_own_and_not_into_those_of_another(
    empty: Empty, user: str, prefixes: list[str]
) -> None:
    """From 16 on, who may make roles does not have those that others made, and is not to ask for them."""
    theirs, own = empty(), empty(owner=user)
    schema.upgrade(theirs, role_prefix=prefixes[0])
    with psycopg.connect(own, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION postgis")
    owner, database = database_url(own, user=user, password=user), psycopg.conninfo.conninfo_to_dict(theirs)["dbname"]
    said = demand_refusal(owner, schema.write_script(role_prefix=prefixes[0]), database, "--role-prefix NAME")
    [[option, _]] = find_options(said)
    demand_named(install_script(owner, call("", "db", "script", option, prefixes[1]).stdout), "--restrict-public")


@tries(
    "Run `CREATE EXTENSION postgis` in this database", "have a superuser run `ALTER ROLE %I CREATEROLE`",
    "or run `GRANT CREATE ON DATABASE", "Run `GRANT TEMPORARY ON DATABASE",
    "Have `GRANT EXECUTE ON FUNCTION pg_control_system()",
)  # fmt: skip
def test_a_login_that_may_not_do_it_is_told_what_it_lacks(empty: Empty, user: str, prefixes: list[str]) -> None:
    url = empty(owner=user)
    owner, text = database_url(url, user=user, password=user), schema.write_script(role_prefix=prefixes[0])
    with psycopg.connect(url, autocommit=True) as connection:
        database = connection.info.dbname
        for spoil, *facts in (
            ("SELECT", "postgis", "`CREATE EXTENSION postgis`", "superuser"),
            (f"ALTER ROLE {user} NOCREATEROLE", f"{prefixes[0]}_admin", f"`ALTER ROLE {user} CREATEROLE`"),
            (f"ALTER DATABASE {database} OWNER TO CURRENT_USER", f"`GRANT CREATE ON DATABASE {database} TO {user}`"),
            (
                f"REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC",
                f"`GRANT TEMPORARY ON DATABASE {database} TO {user}`",
            ),
            ("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC", "pg_control_system()", "TO PUBLIC"),
        ):
            connection.execute(spoil.encode())
            [statement] = find_quoted(demand_refusal(owner, text, *facts))
            connection.execute(statement.encode())
        with psycopg.connect(owner) as opened:
            opened.execute(text.encode())  # nothing is lacking now
            opened.rollback()
        connection.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    told = install_script(url, text)  # a superuser may read it, and the admin role may not
    demand_named(told, f"{prefixes[0]}_admin", "`dbanon check`", "dbanon.health")


def test_sessions_in_the_way_of_a_script_are_named(empty: Empty, monkeypatch: pytest.MonkeyPatch) -> None:
    url = empty()
    install_script(url, schema.write_script(share_roles=True))
    monkeypatch.setattr(_text, "LOCK_WAIT_S", 0.3)
    text = schema.write_script(share_roles=True)
    for statement in (
        "LOCK TABLE dbanon.trajectory IN ROW EXCLUSIVE MODE",
        "SELECT count(*) FROM dbanon.runs",
        "SELECT count(*) FROM published.releases",
    ):
        with psycopg.connect(url) as other:
            other.execute(statement.encode())
            demand_refusal(url, text, "in use", "300ms", f"(process {other.info.backend_pid})", "End that transaction")
    with psycopg.connect(url) as other:
        other.execute("SET ROLE dbanon_admin; CREATE TABLE dbanon.release_7 (); COMMIT")
        other.execute("LOCK TABLE dbanon.release_7 IN ROW EXCLUSIVE MODE; SELECT count(*) FROM dbanon.trajectory")
        install_script(url, text)


@tries(
    "Delete all it holds, with", "Restore a whole dump into an empty database", "Make the script with an earlier --from"
)
@pytest.mark.parametrize(
    ("revision", "options", "facts"),
    [
        ("", {}, ("no tables", "DROP SCHEMA")),
        ("9999", {}, ("9999", schema.EXPECTED_REVISION, "newer dbanon")),
        ("0003", {}, ("0003", "`dbanon db uninstall`")),
        (None, {"since": schema.EXPECTED_REVISION}, (schema.EXPECTED_REVISION, "--from")),
    ],
)
def test_a_revision_that_the_script_does_not_begin_with_is_refused(
    empty: Empty, revision: str | None, options: dict[str, str], facts: tuple[str, ...]
) -> None:
    url = empty()
    with psycopg.connect(url, autocommit=True) as connection:
        if revision is not None:
            connection.execute(
                "CREATE SCHEMA dbanon; CREATE TABLE dbanon.alembic_version (version_num varchar(32));"
                "CREATE SCHEMA dbanon_internal; CREATE SCHEMA published; CREATE TABLE dbanon.run ()"
            )
        if revision:
            connection.execute("INSERT INTO dbanon.alembic_version VALUES (%s)", [revision])
        said = demand_refusal(url, schema.write_script(share_roles=True, **options), *facts)
        for statement in find_quoted(said)[:1]:
            connection.execute(statement.encode())
    if revision != "9999":  # which another program brings
        install_script(url, schema.write_script(share_roles=True))


@tries("all that `dbanon db upgrade` does, as one text")
def test_the_command_at_the_head_of_the_text_runs_it(empty: Empty) -> None:
    url, text = empty(), schema.write_script(share_roles=True)
    [command] = re.findall(r"^-- +psql (.*) -f dbanon\.sql DATABASE$", text, re.MULTILINE)
    done = run_psql(url, text, *command.split())
    assert done.returncode == 0, done.stderr
    assert schema.is_current(url)


@pytest.mark.parametrize("way", [("-v", "ON_ERROR_STOP=0"), ("-v", "ON_ERROR_STOP=1")])
def test_statements_that_are_no_transaction_change_nothing(empty: Empty, way: tuple[str, ...]) -> None:
    url = empty()
    before = read_state(url)
    done = run_psql(url, schema.write_script(share_roles=True), *way)
    demand_named(
        done.stderr.partition("ERROR:")[2].partition("CONTEXT")[0], "one transaction", "psql -X -v ON_ERROR_STOP=1 -1"
    )
    assert read_state(url) == before


def test_a_client_that_sends_the_text_as_one_piece_installs_it(empty: Empty) -> None:
    """As pgAdmin does; the server makes it one transaction."""
    url, text = empty(), schema.write_script(share_roles=True)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(text.encode())
        assert connection.execute("SHOW default_transaction_read_only").fetchone() == ("off",)
    assert schema.is_current(url)


def test_a_login_whose_transactions_only_read_is_refused(empty: Empty) -> None:
    url = empty()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET default_transaction_read_only = on")
    demand_refusal(url, schema.write_script(share_roles=True), "may write", "default_transaction_read_only", "primary")


def test_an_error_in_a_transaction_that_goes_on_leaves_nothing(empty: Empty) -> None:
    url = empty()
    before = read_state(url)
    done = run_psql(url, schema.write_script(since=schema.EXPECTED_REVISION, share_roles=True), "-1")
    demand_named(done.stderr.partition("CONTEXT")[0], schema.EXPECTED_REVISION, "--from")
    assert read_state(url) == before


_PLANTED = """
CREATE SCHEMA dbanon CREATE TABLE installation (one text, role_prefix text, database_oid oid, server_identifier text)
    CREATE VIEW alembic_version AS SELECT '0004' AS version_num;
CREATE FUNCTION dbanon.run() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'Planted'; RETURN NULL; END $$;
CREATE TRIGGER planted BEFORE INSERT ON dbanon.installation EXECUTE FUNCTION dbanon.run()
"""


@pytest.mark.parametrize("stop", ["0", "1"])
@pytest.mark.parametrize("begun", ["", "BEGIN;\n", "BEGIN;\nSAVEPOINT a;\n"])
def test_a_client_that_goes_on_after_errors_installs_nothing_and_runs_nothing_planted(
    empty: Empty, user: str, begun: str, stop: str
) -> None:
    url = empty(owner=user)
    with psycopg.connect(database_url(url, user=user, password=user), autocommit=True) as planter:
        planter.execute(_PLANTED)
    before, text = read_state(url), schema.write_script(share_roles=True)
    on = "\\set ON_ERROR_ROLLBACK on\n"
    ways = (text,) if not begun else (f"{begun}{on}{text}\nCOMMIT;\n", f"{on}{begun}{text}\nCOMMIT;\n")
    for sent in ways:
        for options in (("-v", f"ON_ERROR_STOP={stop}"), ("-v", f"ON_ERROR_STOP={stop}", "-1")):
            done = run_psql(url, sent, *options)
            assert done.returncode in ((3,) if stop == "1" else (0, 2)), done.stderr
            assert "Planted" not in done.stderr
            assert read_state(url) == before
            demand_named(done.stderr.partition("CONTEXT")[0], "ERROR")


def test_a_session_that_was_refused_writes_as_before(empty: Empty) -> None:
    with psycopg.connect(empty(), autocommit=True) as connection:
        before = connection.execute("SHOW ALL").fetchall()
        with expect_refusal("DA023", "psql -X"):
            for section in _text.build_sections(_text.Asked()):
                connection.execute(section.encode())
        connection.execute("CREATE TABLE mine ()")
        after = connection.execute("SHOW ALL").fetchall()  # with those of PL/pgSQL, which was not loaded before
        assert set(before) - set(after) == set()


def test_a_client_with_savepoints_is_told_how_to_run_it(empty: Empty) -> None:
    done = run_psql(empty(), f"\\set ON_ERROR_ROLLBACK on\n{schema.write_script()}", "-v", "ON_ERROR_STOP=1", "-1")
    demand_named(done.stderr.partition("CONTEXT")[0], "ON_ERROR_ROLLBACK", "psql -X")


def test_a_database_in_another_encoding_is_refused(empty: Empty) -> None:
    url = empty()
    with psycopg.connect(url, autocommit=True) as connection:
        name = connection.info.dbname
        for encoding in ("LATIN1", "SQL_ASCII"):
            connection.execute(
                f"CREATE DATABASE {name}_{encoding} TEMPLATE template0 ENCODING {encoding} LOCALE 'C'".encode()
            )
            demand_refusal(
                database_url(url, dbname=f"{name}_{encoding}".lower()), schema.write_script(), encoding, "'UTF8'"
            )


def test_tables_without_a_revision_are_refused(empty: Empty, prefixes: list[str]) -> None:
    url, text = empty(), schema.write_script(role_prefix=prefixes[0])
    install_script(url, text)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM dbanon.alembic_version")
        demand_refusal(url, text, "revision", "whole dump", "DROP SCHEMA")
        connection.execute("DROP TABLE dbanon.alembic_version")
    demand_refusal(url, text, "revision", "whole dump", "DROP SCHEMA")


def test_a_login_with_every_check_of_plpgsql_installs_it(empty: Empty) -> None:
    url = empty()
    with psycopg.connect(url, autocommit=True) as connection:
        for check in ("extra_errors", "extra_warnings"):
            connection.execute(f"ALTER DATABASE {connection.info.dbname} SET plpgsql.{check} = 'all'".encode())
    assert "shadows" not in install_script(url, schema.write_script(share_roles=True))


_HALF_WAY = """SELECT FROM pg_stat_activity
    WHERE query LIKE 'SELECT %half-way%' AND datname = current_database() AND pid <> pg_backend_pid()"""


@contextmanager
def run_half(url: str, text: str) -> Iterator[subprocess.Popen[str]]:
    """A psql that has run half of the text, and is gone with its session when the block ends."""
    place = text.index("-- ---- sql/40_runs")
    command = [*find_client("psql", url), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-1", "-d", url, "-f", "-"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe, text=True) as process:
        assert process.stdin is not None
        process.stdin.write(f"{text[:place]}\nSELECT 'half-way' FROM pg_catalog.pg_sleep(600);\n")
        process.stdin.flush()
        with psycopg.connect(url, autocommit=True) as connection:
            while connection.execute(_HALF_WAY).rowcount == 0:
                assert process.poll() is None
            yield process
            process.wait()
            with suppress(psycopg.OperationalError):  # the server is gone, too
                while connection.execute(_HALF_WAY).rowcount:  # client_connection_check_interval ends it
                    pass
    assert process.returncode != 0


def test_a_script_whose_session_is_ended_half_way_leaves_nothing(empty: Empty, prefixes: list[str]) -> None:
    url = empty()
    before = read_state(url)
    text = schema.write_script(role_prefix=prefixes[0])
    with run_half(url, text) as process, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_HALF_WAY.replace("SELECT FROM", "SELECT pg_terminate_backend(pid) FROM").encode())
        assert process.stderr is not None
        demand_named(process.stderr.read(), "terminating connection")
    assert read_state(url) == before
    install_script(url, text)


@pytest.mark.stress
def test_a_script_whose_psql_or_server_is_killed_leaves_nothing() -> None:
    directory = Path(tempfile.mkdtemp(prefix="dbanon-test-", dir=testing._find_memory_directory()))
    directory.chmod(0o711)
    server = EmbeddedServer(directory / "home", settings={"jit": "off"})
    try:
        url, text = server.start().url, schema.write_script()
        before = read_state(url)
        with run_half(url, text) as process:
            process.kill()
        assert read_state(url) == before
        with run_half(url, text):
            server._demand(server._run_pg_ctl("stop", "-m", "immediate"), "pg_ctl stop")
        server.start()
        assert read_state(url) == before
        install_script(url, text)
    finally:
        server.stop()
        shutil.rmtree(directory)


_NEXT = '''"""A made-up one."""
revision = "9000"
down_revision = "0008"
SCRIPT = """
ALTER TABLE dbanon.dataset ADD COLUMN colour text NOT NULL DEFAULT 'it''s green';
SELECT count(*) FROM dbanon.dataset;  -- any statement may stand here
"""
'''


def test_the_script_of_a_later_revision_brings_only_what_is_new(
    database: str, connection: psycopg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(_text.locate_folder("migrations"), tmp_path / "migrations")
    (tmp_path / "migrations" / "versions" / "9000_next.py").write_text(_NEXT)
    find, earlier = _text.locate_folder, schema.write_script(share_roles=True)
    monkeypatch.setattr(_text, "locate_folder", lambda name: tmp_path / name if name == "migrations" else find(name))
    monkeypatch.setattr(_text, "EXPECTED_REVISION", "9000")
    connection.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('d', 32610, 1, 1)")
    before = read_keys(database)
    later = schema.write_script(share_roles=True, since="0004")
    assert "CREATE TABLE dbanon.trajectory" not in later
    for _ in range(2):
        install_script(database, later)
        assert connection.execute("SELECT name, colour FROM dbanon.dataset").fetchall() == [("d", "it's green")]
        assert connection.execute("SELECT version_num FROM dbanon.alembic_version").fetchall() == [("9000",)]
    install_script(database, schema.write_script(share_roles=True))  # the whole one finds by itself what is missing
    assert read_keys(database) == before
    demand_refusal(database, earlier, "9000", "newer dbanon")
    whole = schema.write_script()
    assert whole.index("CREATE TABLE dbanon.trajectory") < whole.index("ADD COLUMN colour")


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        (("--from", "12"), "--from"),
        (("--role-prefix", "a-b"), "--role-prefix"),
        (("--postgis-schema", "a$$; DROP"), "PostGIS"),
        (("--postgis-schema", 'a"b'), "PostGIS"),
        (("--postgis-schema", "a%b"), "PostGIS"),
    ],
)
def test_what_cannot_be_asked_is_refused_without_a_server(options: tuple[str, ...], fact: str) -> None:
    done = call("postgresql://nobody@/nowhere?host=/nowhere", "db", "script", *options)
    assert (done.code, done.stdout) == (2, "")
    demand_named(done.sentence, fact)


def test_a_script_from_a_revision_has_no_tables_of_it() -> None:
    whole, later = schema.write_script(), schema.write_script(since=schema.EXPECTED_REVISION)
    assert "CREATE TABLE dbanon.trajectory" in whole
    assert "CREATE TABLE dbanon.trajectory" not in later
    assert later.splitlines()[-100:] == whole.splitlines()[-100:]


def test_every_mark_is_filled_in_and_every_section_has_a_heading() -> None:
    text = schema.write_script()
    assert re.findall(r"@\w+@", text) == []
    files = sorted((Path(schema.__file__).parents[2] / "sql").rglob("*.sql"))
    assert len(re.findall(r"(?m)^-- ---- sql/", text)) == len(files)
    for file in files:
        assert file.read_text().startswith("-- "), file


def test_scripts_alike_are_the_same_to_the_letter() -> None:
    assert schema.write_script() == schema.write_script()
    with pytest.raises(ParameterError):
        schema.write_script(role_prefix="pg_x")
