"""``docs/administrators/managed.md``, carried out by the logins it names, on imitated servers."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from dbanon import schema
from tests.acceptance import workers
from tests.acceptance.commands import call, demand_done
from tests.clients import find_client
from tests.facts import demand_named, expect_refusal
from tests.pages import ROOT, split
from tests.upgrade import imitations
from tests.upgrade.imitations import Managed, Provider

if TYPE_CHECKING:
    from dbanon.postgres.server import Target

PAGE = ROOT / "docs" / "administrators" / "managed.md"
OWNER = "geo_owner"  # of the page, for the login of a provider
LOGINS = ("olga", "wanda", "anna")
_DSN = re.compile(r'"(host=[^"]*)"')
_LEFT = """
SELECT format('schema %s', nspname) FROM pg_namespace WHERE nspname ~ '^(dbanon(_internal)?|published(_inner)?)$'
UNION ALL SELECT format('role %s', rolname) FROM pg_roles WHERE rolname ~ '^dbanon_'
UNION ALL SELECT format('right of PUBLIC %s', defaclobjtype) FROM pg_default_acl
"""
_DEFINERS = """
SELECT DISTINCT r.rolname, r.rolsuper FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname ~ '^(dbanon(_internal)?|published(_inner)?)$' AND p.prosecdef
"""

providers = pytest.mark.parametrize("provider", imitations.PROVIDERS, ids=lambda provider: provider.column)


@pytest.fixture(scope="module")
def target() -> Iterator["Target"]:
    with imitations.run_server() as made:
        yield made


def list_sections() -> dict[str, list[tuple[str, str]]]:
    """Give the blocks of the page by the heading they are below: the kind of each, and its text."""
    found: dict[str, list[tuple[str, str]]] = {}
    for heading, text in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        found[heading] = split(text)
    return found


class Reader:
    """Reads the page and does what it says, with the login of a provider for `OWNER`."""

    def __init__(self, managed: Managed, folder: Path) -> None:
        self.managed, self.folder, self.database = managed, folder, "postgres"
        self.told = ""  # by psql and by commands

    def do(self, *headings: str) -> None:
        for heading in headings:
            for kind, text in list_sections()[heading]:
                if kind == "sh":
                    for command in text.replace("\\\n", " ").splitlines():
                        self.command(command)
                elif kind.startswith("sql "):
                    self.type(kind.split()[-1], text)

    def type(self, login: str, text: str) -> list[list[tuple[object, ...]]]:
        """Type statements as a login, each a transaction; gives the rows of each that has some."""
        rows = []
        login = self.find_login(login)
        for line in filter(None, map(str.strip, text.replace("\\connect geo\n", "\\connect geo;\n").split(";\n"))):
            if line == "\\connect geo":
                self.database = "geo"
                self._provide()
                continue
            postgis = line.startswith("CREATE EXTENSION postgis") and self.managed.provider.admin_creates_postgis
            url = self.managed.url(self.managed.provider.superuser if postgis else login, self.database)
            with psycopg.connect(url, autocommit=True) as connection:
                done = connection.execute(line.encode())
                if done.description:
                    rows.append(done.fetchall())
        return rows

    def _provide(self) -> None:
        if self.managed.provider.within:
            url = self.managed.url(self.managed.provider.superuser, self.database)
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(self.managed.provider.within.encode())

    def command(self, command: str) -> None:
        words, _, file = command.partition(" > ")
        program, *arguments = shlex.split(_DSN.sub(lambda dsn: shlex.quote(self.reached(dsn[1])), words))
        if program == "psql":
            arguments = [str(self.folder / word) if word == "dbanon.sql" else word for word in arguments]
            run = [*find_client("psql", self.managed.first), "-X", "-q", *arguments]
            done = subprocess.run(run, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stdout) == (0, ""), done.stderr
            self.told += done.stderr
            return
        url = arguments[1] if arguments[0] == "--dsn" else ""
        said = demand_done(call(url, *(arguments[2:] if url else arguments)))
        self.told += said.stderr
        if file:
            (self.folder / file).write_text(said.stdout)

    def reached(self, dsn: str) -> str:
        """Put the imitation's address into a connection string; its TLS is not imitated."""
        words = psycopg.conninfo.conninfo_to_dict(dsn)
        return self.managed.url(self.find_login(str(words["user"])), str(words["dbname"]))

    def find_login(self, name: str) -> str:
        return self.managed.provider.admin if name == OWNER else name

    def worker(self) -> str:
        """Give the connection of the worker, which the page starts."""
        [(_, text)] = list_sections()["Start a worker"]
        [dsn] = _DSN.findall(text)
        assert text.replace(f'"{dsn}"', "") == "DBANON_DSN= dbanon worker\n"
        return self.reached(dsn)


INSTALLING = ("Install dbanon", "Make the logins")


def list_headings(provider: Provider) -> tuple[str, ...]:
    where = "on a colleague's server" if provider is imitations.PLAIN else "at a provider"
    return (f"Make the database {where}", *INSTALLING)


def test_each_block_of_the_page_is_below_a_heading_whose_blocks_are_typed() -> None:
    blocks = {heading: found for heading, found in list_sections().items() if found}
    typed = {heading for provider in imitations.PROVIDERS for heading in list_headings(provider)}
    assert {*blocks} == {*typed, "Find your column", "Start a worker", "Check", "Without CREATEROLE"}
    kinds = {kind for found in blocks.values() for kind, _ in found}
    assert {kind for kind in kinds if not kind.startswith("sql ")} <= {"sh", "text"}  # text has words to replace


def test_the_table_of_the_page_has_the_login_of_each_provider() -> None:
    rows = re.findall(r"^\|(.*)\|$", PAGE.read_text().partition("## Find your column")[2], re.MULTILINE)
    columns, _, logins = ([cell.strip(" `") for cell in row.split("|")[1:]] for row in rows[:3])
    expected = {provider.column: provider.admin for provider in imitations.PROVIDERS}
    assert dict(zip(columns, logins, strict=True)) == expected


@providers
def test_the_page_is_carried_out_as_written(target: "Target", provider: Provider, tmp_path: Path) -> None:
    with imitations.imitate_provider(target, provider) as managed:
        reader = Reader(managed, tmp_path)
        reader.do(*list_headings(provider))
        assert schema.is_current(managed.look("geo"))
        with psycopg.connect(managed.look("geo"), autocommit=True) as look:
            assert look.execute(_DEFINERS).fetchall() == [("dbanon_admin", False)]
            [ends_sessions] = (
                look.execute("SELECT pg_has_role('dbanon_admin', 'pg_signal_backend', 'MEMBER')").fetchone() or ()
            )
        assert (provider is imitations.PLAIN) <= ends_sessions
        assert reader.told.count("no member of pg_signal_backend") == (0 if ends_sessions else 2)
        demand_forbidden(managed)
        remove(managed)


@pytest.mark.many
@providers
def test_a_worker_needs_nothing_but_a_login(target: "Target", provider: Provider, tmp_path: Path) -> None:
    with imitations.imitate_provider(target, provider) as managed:
        reader = Reader(managed, tmp_path)
        reader.do(*list_headings(provider))
        olga = managed.url("olga", "geo")
        city = ("synth", "--dataset", "city", "--objects", "40", "--blocks", "4", "--instants", "5")
        assert call(olga, *city).code == 0
        with psycopg.connect(managed.look("geo"), autocommit=True) as look:
            query = "SELECT m.roleid::regrole::text FROM pg_auth_members m WHERE m.member = 'wanda'::regrole"
            assert look.execute(query).fetchall() == [("dbanon_worker",)]
        with workers.keep_up(reader.worker(), tmp_path / "log"):
            [(_, text)] = list_sections()["Check"]
            [seen, health] = reader.type("olga", text)
            assert (len(seen), health) == (1, [])
            demand_done(call(olga, "run", "tp-aware", "--dataset", "city", "-p", "k=5", "--publish", "city_k5"))
        with psycopg.connect(managed.url("anna", "geo"), autocommit=True) as anna:
            assert anna.execute("SELECT count(*) > 0, min(crowd) >= 5 FROM published.city_k5").fetchone() == (
                True,
                True,
            )
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                anna.execute("SELECT * FROM dbanon.trajectory")
        remove(managed)


def demand_forbidden(managed: Managed) -> None:
    """Demand that the imitation refuses what a managed server does; and a login that gives a wrong password."""
    provider = managed.provider
    with psycopg.connect(managed.url(provider.admin, "geo"), autocommit=True) as admin:
        for statement in (*imitations.FORBIDDEN, *provider.also_forbidden):
            typed = statement.format(superuser=provider.superuser, admin=provider.admin)
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.RaiseException)):
                admin.execute(typed.encode())
        assert admin.execute("SELECT pg_has_role('pg_read_all_settings', 'MEMBER')").fetchone() == (False,)
    wrong = Managed(provider, managed.first, {"wanda": "another"})
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(wrong.url("wanda", "geo"))


def remove(managed: Managed) -> None:
    """Remove dbanon as its owner, which leaves nothing."""
    admin = managed.url(managed.provider.admin, "geo")
    with psycopg.connect(admin, autocommit=True) as connection:
        for login in LOGINS:
            connection.execute(f"DROP ROLE {login}".encode())
    done = call(admin, "db", "uninstall", "--yes")
    assert (done.code, "stays" in done.stderr) == (0, False), done.stderr
    with psycopg.connect(managed.look("geo"), autocommit=True) as look:
        assert look.execute(_LEFT).fetchall() == []


def test_a_database_that_a_console_made_serves_as_well(target: "Target", tmp_path: Path) -> None:
    with imitations.imitate_provider(target, imitations.CLOUD_SQL) as managed:
        with psycopg.connect(managed.first, autocommit=True) as first:
            first.execute("CREATE DATABASE geo OWNER cloudsqlsuperuser")
        reader = Reader(managed, tmp_path)
        [(login, text)] = list_sections()["Make the database at a provider"]
        reader.type(login.removeprefix("sql "), text.removeprefix("CREATE DATABASE geo;\n"))
        reader.do(*INSTALLING)
        assert schema.is_current(managed.look("geo"))
        with psycopg.connect(managed.look("geo"), autocommit=True) as first:
            first.execute("ALTER SCHEMA postgis OWNER TO postgres")
        refused = call(managed.url("postgres", "geo"), "db", "upgrade")
        assert refused.code == 1
        [remedy] = re.findall("`(.*?)`", refused.sentence)
        reader.type("postgres", remedy)
        reader.do("Install dbanon")
        remove(managed)


def test_an_owner_without_createrole_installs_with_roles_that_a_superuser_made(
    target: "Target", tmp_path: Path
) -> None:
    with imitations.imitate_provider(target, imitations.PLAIN) as managed:
        reader = Reader(managed, tmp_path)
        reader.do(list_headings(imitations.PLAIN)[0])
        with psycopg.connect(managed.look("geo"), autocommit=True) as first:
            first.execute("ALTER ROLE geo_owner NOCREATEROLE; REVOKE pg_signal_backend FROM geo_owner")
        reader.do("Without CREATEROLE", "Install dbanon")
        assert schema.is_current(managed.look("geo"))
        [(_, text)] = list_sections()["Make the logins"]
        reader.type("dba", text)
        olga = managed.url("olga", "geo")
        assert call(olga, "datasets").code == 0
        done = call(managed.url("geo_owner", "geo"), "db", "uninstall", "--yes")
        assert done.code == 0
        assert "dbanon_admin stays" in done.stderr, done


def test_on_aurora_an_installation_says_what_keeps_it_from_publishing(
    database: str, connection: psycopg.Connection, run: int
) -> None:
    connection.execute(imitations.AURORA_WAL.encode())
    said: list[str] = []
    schema.upgrade(database, share_roles=True, say=said.append)
    demand_named("\n".join(said), "dbanon_admin", "`dbanon check`")
    with expect_refusal("DA020") as refused:
        connection.execute("SELECT dbanon.publish(%s, 'ten')", [run])
    demand_named(refused.value.diag.message_detail or "", "wal_level")
    demand_named(refused.value.diag.message_hint or "", "rds.logical_replication")
    [(remedy,)] = connection.execute("SELECT remedy FROM dbanon.health WHERE about = 'history'").fetchall()
    demand_named(remedy, "rds.logical_replication")
