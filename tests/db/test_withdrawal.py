"""Releases that are taken back or replaced, by real logins: who did it, what goes, and who is in the way."""

import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from dbanon import schema, testing
from dbanon.base.background import run_in_background
from dbanon.postgres.server import EmbeddedServer, Target, parse
from dbanon.testing import cloned_database, database_url
from tests import here
from tests.db.conftest import RUN, VERIFY
from tests.db.methods import change_methods
from tests.facts import demand_named, expect_refusal
from tests.reading import read_row, read_value

Login = Callable[[str], str]

REPLACE = "SELECT dbanon.publish(1, 'ten', replace => true)"
UNPUBLISH = "SELECT dbanon.unpublish('ten')"
END_READERS = "SELECT dbanon.unpublish('ten', end_readers => true)"
REPLACE_AND_END = "SELECT dbanon.publish(1, 'ten', replace => true, end_readers => true)"
ENDED = "SELECT array_agg((release, run_id, login, detail)::text) FROM dbanon.audit WHERE action = 'end_readers'"
PATIENCE = """SELECT substring(s from '^lock_timeout=(.*)') FROM pg_proc, unnest(proconfig) s
WHERE oid = 'dbanon_internal.execute_exclusively(text, bigint, boolean)'::regprocedure AND s ~ '^lock_timeout='"""
IMPATIENT = "ALTER FUNCTION dbanon_internal.execute_exclusively(text, bigint, boolean) SET lock_timeout = '200ms'"
REMAINS = """SELECT count(*) FROM pg_class WHERE relnamespace = 'dbanon'::regnamespace
    AND relkind IN ('r', 'v') AND relname ~ '^(release_[0-9]+|withdrawn[$].*)$'"""
STATE = """SELECT array_agg((l.release_id, l.name, l.withdrawn_at, l.withdrawn_by)::text ORDER BY l.release_id),
    (SELECT count(*) FROM dbanon.audit), to_regclass('published.ten')::oid,
    (SELECT array_agg(c.relname ORDER BY c.relname) FROM pg_class c WHERE c.relname ~ '^release_[0-9]+$')
    FROM dbanon.release l"""


@pytest.fixture
def operator(connection: psycopg.Connection, run: int, login: Login) -> Iterator[psycopg.Connection]:
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as opened:
        opened.execute("SET statement_timeout = '20s'")
        yield opened


@pytest.fixture
def reader(login: Login, operator: psycopg.Connection) -> Iterator[psycopg.Connection]:
    """An analyst in the middle of a transaction that has read the release."""
    operator.execute("SELECT dbanon.publish(1, 'ten')")
    with psycopg.connect(login("dbanon_analyst")) as opened:
        assert read_value(opened, "SELECT count(*) FROM published.ten") == 4
        yield opened


def test_a_replaced_release_is_withdrawn_by_the_login_and_its_rows_are_gone(
    connection: psycopg.Connection, operator: psycopg.Connection
) -> None:
    operator.execute("SELECT dbanon.publish(1, 'ten')")
    (old,) = connection.execute("SELECT release_id FROM dbanon.release").fetchone() or (None,)
    assert read_value(connection, f"SELECT to_regclass('dbanon.release_{old}') IS NOT NULL") is True
    operator.execute(REPLACE)
    rows = connection.execute("SELECT withdrawn_by, withdrawn_at IS NULL FROM dbanon.release ORDER BY release_id")
    assert rows.fetchall() == [(operator.info.user, False), (None, True)]
    assert read_value(connection, f"SELECT to_regclass('dbanon.release_{old}')") is None
    assert read_value(connection, "SELECT count(*) FROM published.ten") == 4


@pytest.mark.parametrize(("statement", "given"), [(UNPUBLISH, 1), (REPLACE, 4)])
def test_a_release_that_is_being_read_is_not_taken_and_the_reader_alone_is_named_once(
    connection: psycopg.Connection, operator: psycopg.Connection, reader: psycopg.Connection, statement: str, given: int
) -> None:
    assert read_value(connection, PATIENCE) == "5s"
    connection.execute(IMPATIENT)
    before = read_row(connection, STATE)
    who = f"{reader.info.user} (process {reader.info.backend_pid})"
    with expect_refusal("DA013", "release ten", "in use by", who) as caught:
        operator.execute(statement)
    assert (caught.value.diag.message_primary or "").count("process") == 1
    assert read_row(connection, STATE) == before
    assert read_value(reader, "SELECT count(*) FROM published.ten") == 4
    reader.commit()
    assert read_value(operator, statement) == given
    assert read_value(connection, "SELECT to_regclass('published.ten') IS NULL") is (statement == UNPUBLISH)


def is_ended(reader: psycopg.Connection) -> bool:
    """Whether a session is gone."""
    try:
        reader.execute("SELECT 1")
    except psycopg.errors.AdminShutdown:
        return True
    return False


@contextmanager
def collect_notices(connection: psycopg.Connection) -> Iterator[list[str]]:
    """Notices of the block."""
    said: list[str] = []

    def keep(notice: psycopg.errors.Diagnostic) -> None:
        said.append(notice.message_primary or "")

    connection.add_notice_handler(keep)
    yield said
    connection.remove_notice_handler(keep)


@pytest.mark.parametrize("statement", [END_READERS, REPLACE_AND_END])
def test_an_idle_reader_is_ended_and_named_where_that_is_asked_for(
    connection: psycopg.Connection,
    operator: psycopg.Connection,
    reader: psycopg.Connection,
    login: Login,
    statement: str,
) -> None:
    with psycopg.connect(login("dbanon_analyst")) as other, psycopg.connect(login("dbanon_analyst")) as idle:
        operator.execute("SELECT dbanon.publish(1, 'other')")
        assert read_value(other, "SELECT count(*) FROM published.other") == 4  # in a transaction, as the reader is
        assert read_value(idle, "SELECT count(*) FROM published.ten") == 4
        idle.commit()
        began = time.monotonic()
        with collect_notices(operator) as said:
            operator.execute(statement)
        assert time.monotonic() - began < 4
        (told,) = [notice for notice in said if "process" in notice]
        demand_named(told, "ended", "ten", f"{reader.info.user} (process {reader.info.backend_pid})")
        assert told.count("process") == 1
        assert (is_ended(reader), is_ended(other), is_ended(idle)) == (True, False, False)
    assert read_value(connection, "SELECT to_regclass('published.ten') IS NULL") is (statement == END_READERS)
    assert (
        read_value(connection, "SELECT count(*) FROM dbanon.release WHERE name = 'ten' AND withdrawn_at IS NOT NULL")
        == 1
    )
    assert read_value(connection, ENDED) == [f'(ten,1,{operator.info.user},"{{""sessions"": 1}}")']


def test_readers_in_the_middle_of_a_query_and_those_who_come_meanwhile_do_not_keep_a_release(
    connection: psycopg.Connection, operator: psycopg.Connection, login: Login
) -> None:
    operator.execute("SELECT dbanon.publish(1, 'ten')")
    busy, stop = login("dbanon_analyst"), threading.Event()

    def read_on(url: str) -> str | None:
        while not stop.is_set():
            try:
                with psycopg.connect(url) as reader:
                    while not stop.is_set():
                        reader.execute("SELECT count(*), pg_sleep(0.02) FROM published.ten")
                        reader.commit()
            except (psycopg.errors.AdminShutdown, psycopg.OperationalError):
                continue  # and comes again
            except psycopg.Error as error:
                return error.sqlstate
        return None

    with psycopg.connect(login("dbanon_analyst"), autocommit=True) as slow:
        asked = run_in_background(read_value, slow, "SELECT count(pg_sleep(60)) FROM published.ten")
        others = [run_in_background(read_on, busy) for _ in range(4)]
        asleep = f"query ~ 'pg_sleep.* FROM published.ten' AND {here.SESSIONS}"
        wait_until(connection, f"SELECT count(*) = 5 FROM pg_stat_activity WHERE {asleep}")
        try:
            began = time.monotonic()
            assert read_value(operator, END_READERS) == 1
            assert time.monotonic() - began < 10
            assert [other.result(timeout=10) for other in others] == ["42P01"] * 4  # gone
            with pytest.raises(psycopg.errors.AdminShutdown):
                asked.result(timeout=10)
        finally:
            stop.set()
    assert read_value(connection, "SELECT to_regclass('published.ten')") is None


def test_who_comes_while_a_release_is_being_taken_waits_and_reads_what_replaces_it(
    connection: psycopg.Connection, operator: psycopg.Connection, reader: psycopg.Connection, login: Login
) -> None:
    with psycopg.connect(login("dbanon_analyst"), autocommit=True) as late:
        waiting = run_in_background(read_value, operator, REPLACE)  # gives the reader five seconds
        awaited = f"NOT granted AND mode = 'AccessExclusiveLock' AND {here.LOCKS}"
        wait_until(connection, f"SELECT count(*) > 0 FROM pg_locks WHERE {awaited}")
        with run_meanwhile(connection, late, "SELECT count(*) FROM published.ten") as read:
            reader.commit()
        assert waiting.result(timeout=10) == 4
        assert read.result() == 4


def ask_waiting(login: psycopg.Connection) -> str:
    """Write the question whether a session waits for a lock."""
    return f"SELECT EXISTS (SELECT FROM pg_locks WHERE pid = {login.info.backend_pid} AND NOT granted)"


def wait_until(connection: psycopg.Connection, question: str) -> None:
    """Wait until the answer is yes."""
    for _ in range(200):
        if read_value(connection, question) is True:
            return
        time.sleep(0.05)
    raise AssertionError(f"never true: {question}")


MINE = "dbanon_mine"  # a schema in which the analyst may create


@pytest.fixture
def builder(connection: psycopg.Connection, reader: psycopg.Connection) -> psycopg.Connection:
    """An analyst who may create in a schema, in no transaction."""
    connection.execute(f"CREATE SCHEMA {MINE}; GRANT ALL ON SCHEMA {MINE} TO {reader.info.user}")
    reader.execute(f"SET search_path = {MINE}, public")
    reader.commit()
    return reader


BUILT = {
    "view": ("CREATE VIEW mine AS SELECT * FROM published.ten", "COMMENT ON VIEW mine IS 'held'"),
    "temporary view": ("CREATE TEMP VIEW mine AS SELECT * FROM published.ten", "COMMENT ON VIEW mine IS 'held'"),
    "view of a view": (
        "CREATE VIEW one AS SELECT * FROM published.ten; CREATE TEMP VIEW mine AS SELECT seq FROM one",
        "COMMENT ON VIEW mine IS 'held'",
    ),
    "materialized view": (
        "CREATE MATERIALIZED VIEW mine AS SELECT * FROM published.ten",
        "SELECT FROM mine",
    ),
    "column": ("CREATE TABLE mine (a integer, kept published.ten)", "SELECT a FROM mine"),
    "column of arrays": ("CREATE TEMP TABLE mine (a integer, kept published.ten[])", "SELECT a FROM mine"),
    "like": ("CREATE TEMP TABLE mine (LIKE published.ten)", "SELECT FROM mine"),
    "function": (
        "CREATE FUNCTION mine(published.ten) RETURNS integer LANGUAGE sql AS 'SELECT 1'",
        "COMMENT ON FUNCTION mine IS 'held'",
    ),
    "domain": ("CREATE DOMAIN mine AS published.ten", "COMMENT ON DOMAIN mine IS 'held'"),
    "rule": (
        "CREATE TABLE mine (a integer); CREATE RULE r AS ON INSERT TO mine DO ALSO SELECT FROM published.ten",
        "SELECT FROM mine",
    ),
    "row policy": (  # does not hold for the owner of the table, who reads no release then
        """CREATE TEMP TABLE mine (a integer); ALTER TABLE mine ENABLE ROW LEVEL SECURITY;
        CREATE POLICY mine ON mine USING (EXISTS (SELECT FROM published.ten))""",
        "SELECT FROM mine",
    ),
    "cursor that outlives its transaction": (
        "DECLARE mine CURSOR WITH HOLD FOR SELECT * FROM published.ten; FETCH 1 FROM mine",
        "FETCH 1 FROM mine",
    ),
}


@pytest.mark.many
@pytest.mark.parametrize("statement", [UNPUBLISH, END_READERS, REPLACE, REPLACE_AND_END])
@pytest.mark.parametrize("built", BUILT.values(), ids=BUILT)
def test_what_was_made_of_a_release_keeps_nothing_however_it_is_held(
    connection: psycopg.Connection,
    operator: psycopg.Connection,
    builder: psycopg.Connection,
    built: tuple[str, str],
    statement: str,
) -> None:
    before, holding = built
    builder.execute(before)
    builder.commit()
    builder.execute(holding)
    began = time.monotonic()
    operator.execute(statement)
    assert time.monotonic() - began < 4
    assert not is_ended(builder)
    builder.commit()
    connection.execute("SELECT dbanon.clear_withdrawn()")
    if "replace" in statement:
        assert read_value(operator, "SELECT count(*) FROM published.ten") == 4
        assert read_value(connection, REMAINS) == 1
    else:
        assert read_value(connection, "SELECT to_regclass('published.ten')") is None
        assert read_value(connection, REMAINS) == 0


READING = {
    "its row type": "SELECT NULL::published.ten FROM published.ten",
    "row policy": """CREATE TEMP TABLE mine (a integer);
        ALTER TABLE mine ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
        CREATE POLICY mine ON mine USING (EXISTS (SELECT FROM published.ten)); COMMIT; BEGIN; SELECT FROM mine""",
    "lock": "LOCK TABLE published.ten IN ACCESS SHARE MODE",
    "lock by a view": """CREATE TEMP VIEW mine AS SELECT FROM published.ten; COMMIT; BEGIN;
        LOCK TABLE mine IN ACCESS SHARE MODE""",
    "cursor": "DECLARE mine CURSOR FOR SELECT * FROM published.ten; FETCH 1 FROM mine",
    "prepared statement": "PREPARE mine AS SELECT FROM published.ten; COMMIT; BEGIN; EXECUTE mine",
    "view made just now": "CREATE TEMP VIEW mine AS SELECT * FROM published.ten",
    "function": """CREATE FUNCTION pg_temp.mine() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM published.ten';
        COMMIT; BEGIN; SELECT pg_temp.mine()""",
    "savepoint": "SAVEPOINT one; SELECT FROM published.ten; SAVEPOINT two",
}


@pytest.mark.many
@pytest.mark.parametrize("statement", [END_READERS, REPLACE_AND_END])
@pytest.mark.parametrize("reading", READING.values(), ids=READING)
def test_who_reads_a_release_in_whatever_way_is_ended(
    connection: psycopg.Connection,
    operator: psycopg.Connection,
    reader: psycopg.Connection,
    reading: str,
    statement: str,
) -> None:
    reader.commit()
    reader.autocommit = True
    for part in ("BEGIN", *reading.split(";")):
        reader.execute(part)
    began = time.monotonic()
    operator.execute(statement)
    assert time.monotonic() - began < 4
    assert is_ended(reader)
    assert read_value(connection, "SELECT count(*) FROM dbanon.release WHERE withdrawn_at IS NOT NULL") == 1


def test_what_was_made_of_a_withdrawn_release_shows_nothing_and_its_name_is_free_for_other_columns(
    connection: psycopg.Connection,
    operator: psycopg.Connection,
    builder: psycopg.Connection,
    verify: Callable[..., None],
) -> None:
    """Also what a superuser made of it and gave to others."""
    connection.execute(f"CREATE VIEW {MINE}.given AS SELECT * FROM published.ten")
    connection.execute(f"GRANT SELECT ON {MINE}.given TO {builder.info.user}")
    assert read_value(builder, "SELECT count(*) FROM given") == 4
    builder.commit()
    with psycopg.connect(builder.info.dsn, password=builder.info.password) as other:
        gone = f"SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {other.info.backend_pid})"
        other.execute(f"CREATE TEMP VIEW mine AS SELECT FROM {MINE}.given")
        other.commit()
        other.execute("COMMENT ON VIEW mine IS 'held'")  # and so nothing of all this can be dropped
        with collect_notices(operator) as said:
            assert read_value(operator, UNPUBLISH) == 1
        assert any("(number 1)" in notice and "clear_withdrawn" in notice for notice in said)
        assert read_value(builder, "SELECT count(*) FROM given") == 0
        builder.commit()
        assert read_value(connection, REMAINS) == 1
        more = '{"name": "more", "sql_type": "integer", "default": "1", "comment": "x"}'
        change_methods(connection, "UPDATE dbanon.method SET columns = columns || %s::jsonb", [more])
        verify(connection)
        assert read_value(operator, "SELECT dbanon.publish(1, 'ten')") == 4
        assert read_value(builder, "SELECT count(*) FROM given") == 0
        builder.commit()
    wait_until(connection, gone)  # a session that has been closed holds its locks until its process has ended
    assert read_value(builder, "SELECT sum(more) FROM published.ten") == 4
    builder.commit()
    connection.execute("SELECT dbanon.clear_withdrawn()")
    assert read_value(connection, f"SELECT to_regclass('{MINE}.given')") is None


def test_a_login_that_was_dropped_reads_no_longer(
    connection: psycopg.Connection, operator: psycopg.Connection, database: str
) -> None:
    operator.execute("SELECT dbanon.publish(1, 'ten')")
    name = f"dbanon_gone_{secrets.token_hex(4)}"
    connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x' IN ROLE dbanon_analyst")
    with psycopg.connect(database_url(database, user=name, password="x")) as reader:
        reader.execute("SELECT FROM published.ten")
        connection.execute(f"DROP ROLE {name}")
        with collect_notices(operator) as said:
            assert read_value(operator, END_READERS) == 1
        (told,) = said
        demand_named(told, "ended", "ten", "login that was dropped", f"(process {reader.info.backend_pid})")
        assert is_ended(reader)


def test_a_reader_of_the_same_view_in_a_copy_of_the_database_is_left_alone(
    connection: psycopg.Connection, operator: psycopg.Connection, database: str, dbanon_server: Target
) -> None:
    operator.execute("SELECT dbanon.publish(1, 'ten')")
    operator.close()
    connection.close()
    with cloned_database(dbanon_server, parse(database)["dbname"]) as copy, psycopg.connect(copy) as reader:
        of_view = "SELECT 'published.ten'::regclass::oid"
        reader.execute("SELECT FROM published.ten")
        with psycopg.connect(database, autocommit=True) as owner, collect_notices(owner) as said:
            assert read_value(owner, of_view) == read_value(reader, of_view)
            assert read_value(owner, END_READERS) == 1
        assert said == []
        assert not is_ended(reader)


def test_a_superuser_who_reads_is_not_ended_by_a_replacement_and_nobody_else_is(
    operator: psycopg.Connection, reader: psycopg.Connection, database: str
) -> None:
    with psycopg.connect(database) as superuser:
        before = read_row(superuser, STATE)
        superuser.execute("SELECT FROM published.ten")
        with expect_refusal("DA013") as caught:
            operator.execute(REPLACE_AND_END)
        told = caught.value.diag
        assert f"{superuser.info.user} (process {superuser.info.backend_pid})" in (told.message_primary or "")
        assert f"SELECT pg_terminate_backend({superuser.info.backend_pid})" in (told.message_hint or "")
        assert read_row(superuser, STATE) == before
        assert not is_ended(reader)
        superuser.rollback()
        operator.execute(REPLACE_AND_END)
        assert is_ended(reader)
        assert not is_ended(superuser)


@pytest.mark.stress
def test_a_superuser_who_reads_delays_no_more_of_a_withdrawal_than_the_drop(
    connection: psycopg.Connection,
    operator: psycopg.Connection,
    reader: psycopg.Connection,
    login: Login,
    database: str,
) -> None:
    """Every grant is gone at once: on columns, to others than analysts, and what those passed on."""
    bob, carol = login("dbanon_worker"), login("dbanon_worker")
    names = [parse(url)["user"] for url in (bob, carol)]
    connection.execute(
        f"GRANT SELECT ON published.ten TO {names[0]} WITH GRANT OPTION; GRANT SELECT (seq) ON published.ten TO PUBLIC"
    )
    with psycopg.connect(bob, autocommit=True) as first:
        first.execute(f"GRANT SELECT ON published.ten TO {names[1]}")
    with psycopg.connect(database) as superuser, psycopg.connect(carol, autocommit=True) as second:
        assert read_value(second, "SELECT count(*) FROM published.ten") == 4
        superuser.execute("SELECT FROM published.ten")
        with collect_notices(operator) as said:
            assert read_value(operator, END_READERS) == 1
        who = f"{superuser.info.user} (process {superuser.info.backend_pid})"
        assert any("number 1" in notice and who in notice for notice in said)
        assert is_ended(reader)
        assert read_value(operator, "SELECT count(*) FROM dbanon.releases WHERE live") == 0
        for url in (login("dbanon_analyst"), bob, carol):
            with psycopg.connect(url, autocommit=True) as other, pytest.raises(psycopg.errors.InsufficientPrivilege):
                other.execute("SELECT count(seq) FROM published.ten")
        with expect_refusal("DA003"):  # its name is not free yet
            operator.execute("SELECT dbanon.publish(1, 'ten')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):  # the view's owner may not read its table any more
            superuser.execute("SELECT count(*) FROM published.ten")
        superuser.rollback()
        assert read_value(operator, "SELECT dbanon.publish(1, 'ten')") == 4
    assert read_value(connection, REMAINS) == 1
    assert read_value(connection, "SELECT array_agg(release_id) FROM dbanon.releases WHERE live") == [2]


def test_a_superuser_who_reads_the_table_of_a_release_keeps_that_alone(
    connection: psycopg.Connection, operator: psycopg.Connection, database: str
) -> None:
    operator.execute("SELECT dbanon.publish(1, 'ten')")
    with psycopg.connect(database) as superuser:
        superuser.execute("SELECT FROM dbanon.release_1")
        assert read_value(operator, UNPUBLISH) == 1
        assert read_value(connection, "SELECT to_regclass('published.ten')") is None
        assert read_value(connection, "SELECT to_regclass('dbanon.release_1') IS NOT NULL") is True
        superuser.commit()
    operator.execute("SELECT dbanon.clear_withdrawn()")
    assert read_value(connection, REMAINS) == 0


@pytest.mark.stress
def test_rows_go_though_what_was_built_on_a_release_stays(
    connection: psycopg.Connection,
    operator: psycopg.Connection,
    reader: psycopg.Connection,
    login: Login,
    database: str,
) -> None:
    with psycopg.connect(database) as superuser, psycopg.connect(login("dbanon_analyst")) as builder:
        builder.execute("CREATE TEMP VIEW mine AS SELECT * FROM published.ten")
        builder.commit()
        builder.execute("COMMENT ON VIEW mine IS 'held'")
        superuser.execute("SELECT FROM published.ten")
        assert read_value(operator, END_READERS) == 1
        assert is_ended(reader)
        superuser.commit()
        connection.execute("SELECT dbanon.clear_withdrawn()")
        assert read_value(connection, "SELECT to_regclass('dbanon.release_1')") is None
        assert read_value(connection, "SELECT to_regclass('published.ten')") is None
        assert read_value(connection, REMAINS) == 1
        assert not is_ended(builder)


def test_nothing_said_of_readers_ends_nobody(
    connection: psycopg.Connection, operator: psycopg.Connection, reader: psycopg.Connection
) -> None:
    connection.execute(IMPATIENT)
    with expect_refusal("DA013"):
        operator.execute("SELECT dbanon.unpublish('ten', end_readers => NULL)")
    assert not is_ended(reader)


@pytest.mark.stress
def test_without_the_right_to_end_sessions_a_refusal_says_which_and_a_withdrawal_takes_the_rights(
    connection: psycopg.Connection, operator: psycopg.Connection, reader: psycopg.Connection
) -> None:
    before = read_row(connection, STATE)
    who = f"{reader.info.user} (process {reader.info.backend_pid})"
    with connection.transaction(force_rollback=True):  # roles belong to the whole server
        connection.execute("REVOKE pg_signal_backend FROM dbanon_admin")
        connection.execute("SET LOCAL ROLE dbanon_operator")
        with pytest.raises(psycopg.Error) as caught, connection.transaction():
            connection.execute(REPLACE_AND_END)
        with collect_notices(connection) as said:
            assert read_value(connection, END_READERS) == 1
        assert any(who in notice for notice in said)
    told = caught.value.diag
    assert caught.value.sqlstate == "DA013"
    assert who in (told.message_primary or "")
    demand_named(told.message_hint or "", "pg_signal_backend")
    assert read_row(connection, STATE) == before
    assert not is_ended(reader)


@pytest.mark.stress
def test_forty_sessions_that_come_again_and_again_keep_no_release(
    connection: psycopg.Connection, operator: psycopg.Connection, login: Login
) -> None:
    """Each reads and leaves its transaction open; every other one queues for a stronger lock on the view first."""
    busy, stop = login("dbanon_analyst"), threading.Event()

    def come_again(greedy: bool) -> None:
        while not stop.is_set():
            with suppress(psycopg.OperationalError), psycopg.connect(busy) as reader:
                while not stop.is_set():
                    with suppress(psycopg.ProgrammingError):
                        if greedy:
                            with reader.transaction():
                                reader.execute("CREATE RULE mine AS ON INSERT TO published.ten DO NOTHING")
                        reader.execute("SELECT FROM published.ten")
                        reader.execute("SELECT pg_sleep(60)")
                    reader.rollback()

    holders = f"SELECT count(*) >= 20 FROM pg_locks WHERE relation = 'published.ten'::regclass AND {here.LOCKS}"
    threads = [run_in_background(come_again, number % 2 == 0) for number in range(40)]
    try:
        for _ in range(10):
            operator.execute("SELECT dbanon.publish(1, 'ten')")
            wait_until(connection, holders)
            began = time.monotonic()
            assert read_value(operator, END_READERS) == 1
            assert time.monotonic() - began < 6
            assert read_value(connection, "SELECT to_regclass('published.ten')") is None
            assert read_value(connection, REMAINS) == 0
    finally:
        stop.set()
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [parse(busy)["user"]]
        )
        wait(threads, timeout=20)


@pytest.mark.stress
def test_a_prepared_transaction_delays_no_more_of_a_withdrawal_than_the_drop() -> None:
    directory = Path(tempfile.mkdtemp(prefix="dbanon-test-", dir=testing._find_memory_directory()))
    directory.chmod(0o711)
    server = EmbeddedServer(directory / "home", settings={"fsync": "off", "max_prepared_transactions": "2"})
    try:
        url = server.start().url
        schema.upgrade(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(RUN)
            connection.execute(VERIFY, [True])
            connection.execute("SELECT dbanon.publish(1, 'ten')")
            connection.execute("CREATE ROLE anna LOGIN PASSWORD 'x' IN ROLE dbanon_analyst")
            with psycopg.connect(database_url(url, user="anna", password="x"), autocommit=True) as reader:
                reader.execute("BEGIN; SELECT FROM published.ten; PREPARE TRANSACTION 'kept'")
                with expect_refusal("DA013") as caught:
                    connection.execute(REPLACE_AND_END)
                assert "anna (prepared transaction 'kept')" in str(caught.value)
                assert "ROLLBACK PREPARED 'kept'" in str(caught.value)
                with collect_notices(connection) as said:
                    assert read_value(connection, END_READERS) == 1
                assert any("anna (prepared transaction 'kept')" in notice for notice in said)
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    reader.execute("SELECT FROM published.ten")
            connection.execute("ROLLBACK PREPARED 'kept'")
            assert read_value(connection, "SELECT dbanon.publish(1, 'ten')") == 4
            assert read_value(connection, REMAINS) == 1
    finally:
        server.stop()
        shutil.rmtree(directory)


@pytest.mark.parametrize("statement", [UNPUBLISH, REPLACE])
def test_the_hint_of_a_refusal_can_be_typed_as_it_is(
    connection: psycopg.Connection, operator: psycopg.Connection, reader: psycopg.Connection, statement: str
) -> None:
    connection.execute(IMPATIENT)
    with pytest.raises(psycopg.Error) as caught:
        operator.execute(statement)
    hint = caught.value.diag.message_hint or ""
    typed = {UNPUBLISH: END_READERS, REPLACE: REPLACE_AND_END}[statement]
    demand_named(hint, f": {typed}.")
    operator.execute(typed)
    assert is_ended(reader)


def test_a_publication_that_replaces_nothing_ends_nobody(operator: psycopg.Connection) -> None:
    with expect_refusal("DA011", "end_readers => true", "replace => true"):
        operator.execute("SELECT dbanon.publish(1, 'ten', end_readers => true)")


@pytest.mark.parametrize("role", ["dbanon_analyst", "dbanon_worker", "dbanon_operator"])
def test_nobody_ends_sessions_but_an_operator_who_takes_a_release(
    connection: psycopg.Connection, reader: psycopg.Connection, login: Login, role: str
) -> None:
    statements = [
        "SELECT dbanon_internal.execute_exclusively('LOCK TABLE published.ten', 1, true)",
        "SELECT dbanon_internal.hide_view('release_1', 'ten')",
        f"SELECT pg_terminate_backend({reader.info.backend_pid})",
        "SET ROLE pg_signal_backend",
    ]
    if role != "dbanon_operator":
        statements += [END_READERS, REPLACE_AND_END, "SELECT dbanon_internal.revoke_rights('published.ten')"]
    with psycopg.connect(login(role), autocommit=True) as somebody:
        for statement in statements:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                somebody.execute(statement)
    assert not is_ended(reader)
    assert read_value(connection, "SELECT to_regclass('published.ten') IS NOT NULL") is True


@contextmanager
def run_meanwhile(observer: psycopg.Connection, login: psycopg.Connection, statement: str) -> Iterator[Future[object]]:
    """Begin a statement that has to wait for what the block does."""
    done = run_in_background(read_value, login, statement)
    wait_until(observer, ask_waiting(login))
    yield done
    wait([done], timeout=10)


def test_a_withdrawal_waits_for_the_publication_that_replaces_it(
    connection: psycopg.Connection, operator: psycopg.Connection, login: Login
) -> None:
    operator.execute("SELECT dbanon.publish(1, 'ten')")
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as other:
        operator.execute("BEGIN")
        operator.execute(REPLACE)
        with run_meanwhile(connection, other, UNPUBLISH) as withdrawn:
            operator.execute("COMMIT")
        assert withdrawn.result() == 1
    assert read_value(connection, "SELECT bool_and(withdrawn_at IS NOT NULL) FROM dbanon.release") is True
    assert read_value(connection, "SELECT to_regclass('published.ten')") is None


def test_nobody_is_renamed_while_a_release_is_being_published(
    connection: psycopg.Connection, operator: psycopg.Connection, login: Login
) -> None:
    rename = "UPDATE dbanon.trajectory SET subject = 'other' WHERE subject = 'p0' RETURNING 1"
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as other:
        operator.execute("BEGIN")
        operator.execute("SELECT dbanon.publish(1, 'ten')")
        with run_meanwhile(connection, other, rename) as renamed:
            operator.execute("COMMIT")
        with expect_refusal("DA007", "people", "names"):
            renamed.result()


def test_a_name_of_something_else_is_taken(connection: psycopg.Connection, operator: psycopg.Connection) -> None:
    connection.execute("CREATE DOMAIN published.ten AS text")
    with expect_refusal("DA003", "'ten'", "no live release"):
        operator.execute("SELECT dbanon.publish(1, 'ten')")


def test_a_login_that_has_all_names_quoted_publishes_replaces_and_withdraws(
    connection: psycopg.Connection, operator: psycopg.Connection
) -> None:
    operator.execute("SET quote_all_identifiers = on")
    assert read_value(operator, "SELECT dbanon.publish(1, 'ten')") == 4
    connection.execute("CREATE VIEW public.mine AS SELECT * FROM published.ten")
    assert read_value(operator, REPLACE) == 4
    assert read_value(connection, "SELECT count(*) FROM public.mine") == 4
    assert read_value(operator, "SELECT dbanon.release_card('ten') ->> 'release'") == "ten"
    assert read_value(operator, UNPUBLISH) == 1
    with expect_refusal("DA002"):
        operator.execute("SELECT dbanon.publish(1, 'select')")


def test_who_publishes_in_an_open_transaction_is_named_to_those_who_wait(
    connection: psycopg.Connection, operator: psycopg.Connection, login: Login
) -> None:
    connection.execute("ALTER FUNCTION dbanon_internal.lock_releases() SET lock_timeout = '200ms'")
    operator.execute("BEGIN")
    operator.execute("SELECT dbanon.publish(1, 'ten')")
    with (
        psycopg.connect(login("dbanon_operator"), autocommit=True) as other,
        expect_refusal("DA013", f"{operator.info.user} (process {operator.info.backend_pid})"),
    ):
        other.execute(UNPUBLISH)
    operator.execute("COMMIT")


def test_two_who_wait_for_each_other_are_told_so(
    connection: psycopg.Connection, operator: psycopg.Connection, login: Login
) -> None:
    """The one has read what the other replaces, and waits for the other to be done."""
    operator.execute("SELECT dbanon.publish(1, 'ten')")
    operator.execute("BEGIN")
    operator.execute("SELECT count(*) FROM published.ten")
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as other:
        replacing = run_in_background(other.execute, REPLACE)
        wait_until(connection, ask_waiting(other))
        outcomes = []
        for ask in (lambda: operator.execute("SELECT dbanon.publish(1, 'another')"), replacing.result):
            try:
                ask()
                outcomes.append("done")
            except psycopg.Error as error:
                outcomes.append(error.sqlstate or "")
            if operator.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
                operator.execute("ROLLBACK")
    assert sorted(outcomes) == ["DA013", "done"]


def test_a_run_dropped_while_its_publication_waits_is_named(
    connection: psycopg.Connection, operator: psycopg.Connection, login: Login
) -> None:
    operator.execute("BEGIN")
    operator.execute("SELECT dbanon.drop_run(1)")
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as other:
        publishing = run_in_background(other.execute, "SELECT dbanon.publish(1, 'ten')")
        wait_until(connection, ask_waiting(other))
        operator.execute("COMMIT")
        with expect_refusal("DA001", "run 1"):
            publishing.result()


@pytest.mark.many
@pytest.mark.parametrize("statement", [END_READERS, REPLACE_AND_END], ids=["withdrawn", "replaced"])
@pytest.mark.parametrize(
    "opened",
    [
        "GRANT SELECT ON published.ten TO PUBLIC",
        "SAVEPOINT a; GRANT SELECT ON published.ten TO PUBLIC; RELEASE a",
        "GRANT USAGE ON TYPE published.ten TO PUBLIC",
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_an_open_grant_of_an_analyst_keeps_no_release(
    operator: psycopg.Connection, reader: psycopg.Connection, opened: str, statement: str
) -> None:
    """It grants nothing, and warns so; but it changes the view's row in the catalog until its transaction ends."""
    reader.commit()
    reader.execute(opened)
    operator.execute(statement)
    if statement is END_READERS:
        operator.execute("SELECT dbanon.publish(1, 'ten')")  # the name is free
    assert read_value(operator, "SELECT count(*) FROM published.ten") == 4
    assert is_ended(reader) or "TYPE" in opened  # a replacement leaves the row type as it is


def test_no_view_on_a_withdrawn_release_shows_a_row_whatever_it_is_called(
    connection: psycopg.Connection, operator: psycopg.Connection, login: Login
) -> None:
    operator.execute("SELECT dbanon.publish(1, 'ten')")
    connection.execute(
        "SET ROLE dbanon_admin; CREATE VIEW published.beside AS SELECT * FROM dbanon.release_1;"
        "GRANT SELECT ON published.beside TO dbanon_analyst; ALTER VIEW published.ten RENAME TO eleven; RESET ROLE"
    )
    with psycopg.connect(login("dbanon_analyst"), autocommit=True) as analyst:
        assert read_value(analyst, "SELECT count(*) FROM published.beside, published.eleven") == 16
        operator.execute(END_READERS)
        for view in ("beside", "eleven"):
            with pytest.raises(psycopg.Error) as caught:
                analyst.execute(f"SELECT * FROM published.{view}")
            assert caught.value.sqlstate in ("42501", "42P01")


@pytest.mark.stress
def test_an_upgrade_closes_what_could_not_be_dropped_yet(
    connection: psycopg.Connection, operator: psycopg.Connection, reader: psycopg.Connection, database: str
) -> None:
    """A restore without owners gives the new owner of the table all rights on it."""
    connection.execute(
        "ALTER FUNCTION dbanon_internal.execute_exclusively(text, bigint, boolean) SET lock_timeout = '200ms'"
    )
    with psycopg.connect(database) as superuser:
        superuser.execute("SELECT FROM published.ten")
        operator.execute(END_READERS)
        connection.execute("GRANT ALL ON dbanon.release_1 TO dbanon_admin")
        schema.upgrade(database, share_roles=True)
        assert (
            read_value(connection, "SELECT has_table_privilege('dbanon_admin', 'dbanon.release_1', 'SELECT')") is False
        )
    assert is_ended(reader)
