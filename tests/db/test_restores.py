"""Each way in which people put a database back is noticed, and what only looks like one is not."""

import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING

import psycopg
import pytest

from dbanon import schema
from dbanon.schema import _text
from dbanon.testing import cloned_database, database_url
from tests.acceptance.commands import call
from tests.clients import find_client
from tests.db.parts import publish_part, run_of
from tests.db.ten_people import CONFIRM
from tests.db.test_dump_restore import dump_database, restore_dump
from tests.facts import demand_named, expect_refusal, read_words

if TYPE_CHECKING:
    from dbanon.postgres.server import Target

FIRST, LOST, AGAIN = (f"SELECT dbanon.publish(1, '{name}')" for name in ("first", "lost", "again"))
DROP = "DROP SCHEMA published, published_inner, dbanon, dbanon_internal CASCADE"
STRAYS = "SELECT about, remedy FROM dbanon.health WHERE about = 'history' AND remedy LIKE '%DROP%'"


@pytest.fixture
def url(own: psycopg.Connection, dbanon_server: "Target") -> str:
    return database_url(dbanon_server.url, dbname=own.info.dbname)


def restore(url: str, dumped: bytes, *options: str, code: int | None = 0) -> None:
    done = subprocess.run([*find_client("pg_restore", url), *options, "-d", url], input=dumped, check=False)
    assert code is None or done.returncode == code


def demand_noticed(connection: psycopg.Connection, url: str) -> None:
    assert call(url, "check").code == 2
    with expect_refusal("DA020", "confirm_history"):
        connection.execute(AGAIN)
    connection.execute(CONFIRM)


def demand_unnoticed(connection: psycopg.Connection, url: str) -> None:
    assert call(url, "check").code == 0
    assert connection.execute(AGAIN).fetchone() == (4,)


# --- what is noticed


@pytest.mark.parametrize("published", [FIRST, None], ids=["after the first publication", "before it"])
def test_a_dump_restored_into_the_same_database_is_noticed_until_its_history_is_confirmed(
    own: psycopg.Connection, url: str, published: str | None
) -> None:
    if published:
        own.execute(published.encode())
    dumped = dump_database(url)
    own.execute(LOST)
    own.execute(DROP)
    restore(url, dumped)
    schema.upgrade(url, share_roles=True)
    demand_noticed(own, url)
    demand_unnoticed(own, url)


def test_the_same_of_one_that_was_never_published_from_may_be_copied_within_its_server(
    own: psycopg.Connection, url: str, dbanon_server: "Target"
) -> None:
    """As a template, but not by a dump."""
    with restore_dump(dump_database(url), url) as restored, psycopg.connect(restored, autocommit=True) as opened:
        demand_noticed(opened, restored)
    name = own.info.dbname
    own.close()
    with cloned_database(dbanon_server, name) as copied, psycopg.connect(copied, autocommit=True) as opened:
        demand_unnoticed(opened, copied)


@pytest.fixture
def cleaned(own: psycopg.Connection, url: str) -> psycopg.Connection:
    """A database over which an older state was restored."""
    own.execute(FIRST)
    own.execute("CREATE VIEW published.mine AS SELECT count(*) FROM published.first")
    dumped = dump_database(url)
    own.execute(LOST)
    restore(url, dumped, "--clean", "--if-exists", code=1)
    schema.upgrade(url, share_roles=True)
    return own


def test_rows_of_a_release_that_a_cleaning_restore_leaves_stop_publication_until_they_are_dropped(
    cleaned: psycopg.Connection, url: str
) -> None:
    assert cleaned.execute("SELECT name FROM dbanon.releases").fetchall() == [("first",)]
    assert cleaned.execute("SELECT count(*) FROM published.lost").fetchone() == (4,)
    demand_noticed(cleaned, url)
    with expect_refusal("DA020", "dbanon.release_2", "published.lost") as caught:
        cleaned.execute(AGAIN)
    assert "mine" not in read_words(caught.value)
    done = call(url, "check")
    assert done.code == 2
    demand_named(done.stdout, "dbanon.release_2", "published.lost")
    ((_, remedy),) = cleaned.execute(STRAYS).fetchall()
    cleaned.execute(remedy.partition(": ")[2])
    demand_unnoticed(cleaned, url)
    assert cleaned.execute("SELECT * FROM published.mine").fetchone() == (4,)


def test_a_part_that_a_cleaning_restore_leaves_is_dropped_and_what_is_folded_stays(
    own: psycopg.Connection, url: str
) -> None:
    """Somebody's view keeps the table of all parts from being dropped, and with it the part that was lost."""
    for number in (0, 1):
        publish_part(own, run_of(own, number))
    own.execute("SELECT dbanon.fold_release('ten', '2008-07-01Z')")
    dumped = dump_database(url)
    publish_part(own, run_of(own, 2))
    own.execute("CREATE SCHEMA elsewhere CREATE VIEW mine AS SELECT count(*) FROM dbanon.series_1")
    restore(url, dumped, "--clean", "--if-exists", code=1)
    schema.upgrade(url, share_roles=True)
    own.execute(CONFIRM)
    ((_, remedy),) = own.execute(STRAYS).fetchall()
    assert remedy.partition(": ")[2] == "DROP TABLE dbanon.release_4 CASCADE"
    own.execute(remedy.partition(": ")[2])
    assert own.execute(STRAYS).fetchall() == []
    assert own.execute("SELECT count FROM elsewhere.mine").fetchone() == (8,)


def test_a_database_under_the_name_of_another_is_noticed_by_its_rows(own: psycopg.Connection, url: str) -> None:
    """Restored into a new database, which then takes the name of the first."""
    own.execute(FIRST)
    name = own.info.dbname
    with restore_dump(dump_database(url), database_url(url, dbname="postgres")) as new:
        schema.upgrade(new, share_roles=True)
        own.execute(LOST)
        own.close()
        took = psycopg.conninfo.conninfo_to_dict(new)["dbname"]
        with psycopg.connect(database_url(url, dbname="postgres"), autocommit=True) as server:
            for old, other in ((name, f"{name}_before"), (took, name)):
                server.execute(f"ALTER DATABASE {old} RENAME TO {other}".encode())
            try:
                with psycopg.connect(url, autocommit=True) as opened:
                    demand_noticed(opened, url)
            finally:
                for old, other in ((name, took), (f"{name}_before", name)):
                    server.execute(f"ALTER DATABASE {old} RENAME TO {other}".encode())


def test_a_copy_by_template_is_noticed(own: psycopg.Connection, dbanon_server: "Target") -> None:
    own.execute(FIRST)
    name = own.info.dbname
    own.close()
    with cloned_database(dbanon_server, name) as copied, psycopg.connect(copied, autocommit=True) as opened:
        demand_noticed(opened, copied)


@pytest.mark.parametrize("emptied", [True, False], ids=["its row is taken away", "its row stays"])
def test_data_restored_into_tables_that_are_there_are_noticed(own: psycopg.Connection, url: str, emptied: bool) -> None:
    own.execute(FIRST)
    dumped = dump_database(url)
    own.execute(LOST)
    own.execute(DROP)
    schema.upgrade(url, share_roles=True)
    if emptied:
        own.execute("DELETE FROM dbanon.installation")
    own.execute("DELETE FROM dbanon.population")
    restore(url, dumped, "--data-only", "--disable-triggers", code=1)
    assert own.execute("SELECT name FROM dbanon.releases").fetchall() == [("first",)]
    schema.upgrade(url, share_roles=True)
    demand_noticed(own, url)


# --- what is not


def test_an_installation_as_new_has_nothing_to_compare_with(own: psycopg.Connection, url: str) -> None:
    own.execute(FIRST)
    own.execute(DROP)
    schema.upgrade(url, share_roles=True)
    assert call(url, "check").code == 0
    assert own.execute("SELECT count(*) FROM dbanon.releases").fetchone() == (0,)


def rename(connection: psycopg.Connection, url: str) -> None:
    name = connection.info.dbname
    connection.close()
    with psycopg.connect(database_url(url, dbname="postgres"), autocommit=True) as server:
        server.execute(f"ALTER DATABASE {name} RENAME TO {name}_renamed".encode())
        renamed = database_url(url, dbname=f"{name}_renamed")
        try:
            with psycopg.connect(renamed, autocommit=True) as opened:
                demand_unnoticed(opened, renamed)
        finally:
            server.execute(f"ALTER DATABASE {name}_renamed RENAME TO {name}".encode())


def publish_after_a_savepoint(connection: psycopg.Connection, _: str) -> None:
    """The row then has the number of the savepoint, not that of the transaction."""
    with connection.transaction(), connection.transaction():
        connection.execute("SELECT dbanon.publish(1, 'inside')")
        connection.execute("SAVEPOINT undone; SELECT dbanon.publish(1, 'undone'); ROLLBACK TO SAVEPOINT undone")


def upgrade_by_script(connection: psycopg.Connection, _: str) -> None:
    connection.execute(b"BEGIN;" + schema.write_script(share_roles=True).encode() + b"COMMIT")


def upgrade_with_a_table_written_again(connection: psycopg.Connection, _: str) -> None:
    """A later revision may change the type of a column."""
    with connection.transaction():
        for section in _text.build_sections(_text.Asked(share_roles=True)):
            connection.execute(section.encode())
            if "05_revisions" in section[:60]:
                connection.execute("ALTER TABLE dbanon.installation ALTER COLUMN server_identifier TYPE numeric")
                connection.execute("ALTER TABLE dbanon.installation ALTER COLUMN server_identifier TYPE bigint")


HARMLESS: dict[str, Callable[[psycopg.Connection, str], object]] = {
    "VACUUM FULL": lambda connection, _: connection.execute("VACUUM FULL dbanon.installation"),
    "VACUUM FREEZE": lambda connection, _: connection.execute("VACUUM FREEZE dbanon.installation"),
    "an upgrade": lambda _, url: schema.upgrade(url, share_roles=True),
    "a script": upgrade_by_script,
    "a table written again": upgrade_with_a_table_written_again,
    "a savepoint": publish_after_a_savepoint,
    "a withdrawal": lambda connection, _: connection.execute("SELECT dbanon.unpublish('first')"),
    "a view over a live release": lambda connection, _: connection.execute(
        "CREATE VIEW published.mine AS SELECT * FROM dbanon.release_1; GRANT SELECT ON published.mine TO PUBLIC"
    ),
}


@pytest.mark.parametrize("happens", HARMLESS.values(), ids=HARMLESS)
def test_what_restores_nothing_alarms_nobody(
    own: psycopg.Connection, url: str, happens: Callable[[psycopg.Connection, str], object]
) -> None:
    own.execute(FIRST)
    happens(own, url)
    demand_unnoticed(own, url)


def test_a_database_that_is_renamed_stays_itself(own: psycopg.Connection, url: str) -> None:
    own.execute(FIRST)
    rename(own, url)


def test_an_upgrade_opens_nothing_that_was_restored(own: psycopg.Connection, url: str) -> None:
    own.execute(FIRST)
    own.execute("UPDATE dbanon.installation SET role_prefix = role_prefix")
    upgrade_with_a_table_written_again(own, url)
    schema.upgrade(url, share_roles=True)
    demand_noticed(own, url)


def test_an_operator_who_owns_nothing_marks_what_is_published(
    own: psycopg.Connection, url: str, login: Callable[[str], str]
) -> None:
    with psycopg.connect(database_url(login("dbanon_operator"), dbname=own.info.dbname), autocommit=True) as operator:
        before = own.execute("SELECT mark FROM dbanon.installation").fetchone()
        operator.execute(FIRST)
        assert own.execute("SELECT mark FROM dbanon.installation").fetchone() != before
        demand_unnoticed(own, url)
        for statement in ("SELECT dbanon_internal.write_mark('x')", "SELECT * FROM dbanon.unbroken"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                operator.execute(statement)
