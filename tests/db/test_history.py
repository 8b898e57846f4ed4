"""A database that went back in time publishes nothing until an administrator has said what was published since."""

import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from dbanon import schema, testing
from dbanon.postgres.programs import find_binaries, find_installations
from dbanon.postgres.server import EmbeddedServer, format_uri, parse
from dbanon.testing import cloned_database, database_url
from tests.acceptance.commands import call
from tests.db.conftest import RUN, VERIFY
from tests.db.ten_people import CONFIRM
from tests.facts import demand_named, demand_refused, expect_refusal, read_words
from tests.reading import collect_notices, read_value

if TYPE_CHECKING:
    from dbanon.postgres.server import Target

AGAIN = "SELECT dbanon.publish(1, 'again')"
EIGHT = {"since": "2008-06-04T08:00Z", "until": "2008-06-04T08:02Z"}
ENTER = "SELECT dbanon.confirm_history(%s, 'as the log has it')"
ALLOWED = "SELECT dbanon.publish(1, 'again', allow_overlap => true, reason => 'everybody has agreed')"


def confirm(connection: psycopg.Connection, *lost: object) -> int:
    return int(read_value(connection, ENTER, json.dumps(lost)))


@pytest.fixture
def line(own: psycopg.Connection) -> dict[str, Any]:
    """What the server's log says of a publication in `own`."""
    said = collect_notices(own)
    own.execute("SET client_min_messages = log")
    own.execute("SELECT dbanon.publish(1, 'ten')")
    lines = [text for text in said if "published" in text]
    assert len(lines) == 1
    return dict(json.loads(lines[0].removeprefix("dbanon: published ")))


@pytest.fixture
def copy(own: psycopg.Connection, line: dict[str, Any], dbanon_server: "Target") -> Iterator[psycopg.Connection]:
    """A copy of a database that has published."""
    name = own.info.dbname
    own.close()
    with cloned_database(dbanon_server, name) as url, psycopg.connect(url, autocommit=True) as opened:
        yield opened


def test_a_publication_that_is_undone_leaves_no_line(own: psycopg.Connection) -> None:
    said = collect_notices(own)
    own.execute("SET client_min_messages = log")
    with own.transaction():
        with own.transaction(force_rollback=True):
            own.execute("SELECT dbanon.publish(1, 'undone')")
        own.execute("SELECT dbanon.publish(1, 'ten')")
        assert not [text for text in said if "dbanon: published" in text]
    assert [json.loads(text[18:])["name"] for text in said if text.startswith("dbanon: published")] == ["ten"]


def test_a_copy_of_what_published_computes_and_measures_but_publishes_nothing(copy: psycopg.Connection) -> None:
    copy.execute("SELECT dbanon.submit_run('ten', 'tp-aware', '{\"k\": 5}')")
    assert copy.execute("SELECT relation FROM dbanon.measure_overlap(1)").fetchone() == ("same",)
    with expect_refusal("DA020", "restore", "failover") as caught:
        copy.execute(AGAIN)
    demand_named(
        read_words(caught.value),
        "confirm_history",
        "timeline 1",
        *re.findall(r"database \d+", read_words(caught.value)),
    )
    assert copy.execute("SELECT count(*) FROM dbanon.releases").fetchone() == (1,)


def test_one_statement_that_nothing_was_published_opens_it_again(copy: psycopg.Connection) -> None:
    assert copy.execute(CONFIRM).fetchone() == (0,)
    assert copy.execute(AGAIN).fetchone() == (4,)
    action, detail = copy.execute(
        "SELECT action, detail FROM dbanon.audit WHERE action = 'confirm_history'"
    ).fetchall()[0]
    assert (action, detail["lost"], detail["reason"]) == ("confirm_history", 0, "a copy of a test")
    assert detail["was"] != detail["is"]


def test_a_copy_of_what_never_published_publishes_unasked(own: psycopg.Connection, dbanon_server: "Target") -> None:
    name = own.info.dbname
    own.close()
    with cloned_database(dbanon_server, name) as url, psycopg.connect(url, autocommit=True) as opened:
        assert opened.execute(AGAIN).fetchone() == (4,)


def test_a_line_of_the_log_says_what_was_published_and_nothing_of_people(line: dict[str, Any]) -> None:
    assert line.keys() == {"from", "release_id", "name", "population", "dataset", "since", "until", "reach_s", "digest"}
    assert (line["name"], line["release_id"], line["population"], line["dataset"]) == ("ten", 1, "default", "ten")
    assert (line["since"], line["until"]) == ("2008-06-04T08:00:00+00:00", "2008-06-04T08:02:00+00:00")
    assert re.fullmatch("[0-9a-f]{64}", line["digest"])
    assert re.fullmatch(r"server \d+, database \d+, timeline \d+", line["from"])


def test_a_line_of_the_log_given_back_is_a_release_to_everybody_of_everybody(
    copy: psycopg.Connection, line: dict[str, Any]
) -> None:
    """The very same groups are refused too: of what was published only the line is known."""
    assert confirm(copy, line) == 1
    with expect_refusal("DA010", "ten (lost)", "10 people"):
        copy.execute(AGAIN)
    assert copy.execute("SELECT smallest_crowd, people FROM dbanon.measure_overlap(1)").fetchone() == (0, 10)
    assert copy.execute(ALLOWED).fetchone() == (4,)
    assert copy.execute("SELECT overlap_reason FROM dbanon.releases WHERE name = 'again'").fetchone() == (
        "everybody has agreed",
    )


@pytest.mark.parametrize(
    ("lost", "met"),
    [
        ({}, True),
        ({"since": "2008-06-04T08:01:59Z", "until": "2008-06-05Z"}, True),
        ({"since": "2008-06-04T08:02Z", "until": "2008-06-05Z", "reach_s": 0}, False),
        ({"since": "2008-06-04T08:02Z", "until": "2008-06-05Z", "reach_s": 1}, True),
        ({"since": "2008-06-04T08:16Z", "until": "2008-06-05Z"}, True),
        ({"since": "2008-06-04T08:17Z", "until": "2008-06-05Z"}, False),
        ({"population": "others"}, False),
        ({"since": None, "until": None}, False),
    ],
)
def test_what_is_within_the_time_and_the_reach_of_a_lost_release_is_refused(
    copy: psycopg.Connection, lost: dict[str, Any], met: bool
) -> None:
    """Where no reach is given, it is the time that people may stay."""
    copy.execute("SELECT dbanon_internal.find_or_add_population('others')")
    confirm(copy, {"population": "default", **EIGHT, **lost})
    if met:
        with expect_refusal("DA010", "lost (lost)"):
            copy.execute(AGAIN)
    else:
        assert copy.execute(AGAIN).fetchone() == (4,)


def test_a_lost_release_without_a_population_counts_for_every_one(copy: psycopg.Connection) -> None:
    """Whose people it showed is not known, so a dataset of any of them is held against it."""
    copy.execute("SELECT dbanon.unpublish('ten')")
    copy.execute("SELECT dbanon_internal.find_or_add_population('others')")
    assert confirm(copy, EIGHT) == 2
    entered = copy.execute(
        "SELECT p.name FROM dbanon.release l JOIN dbanon.population p USING (population_id) ORDER BY 1"
    ).fetchall()
    assert entered == [("default",), ("others",)]
    with expect_refusal("DA010", "lost (lost)"):
        copy.execute(AGAIN)


def test_a_population_that_does_not_exist_is_refused_and_not_made(copy: psycopg.Connection) -> None:
    with expect_refusal("DA001", "defualt"):
        confirm(copy, {**EIGHT, "population": "defualt"})
    with expect_refusal("DA020"):
        copy.execute(AGAIN)
    assert copy.execute("SELECT count(*) FROM dbanon.population").fetchone() == (1,)


def test_people_who_were_loaded_after_the_restore_are_among_everybody(copy: psycopg.Connection) -> None:
    """A plan says so before anything is computed, and a dataset cannot leave the population."""
    copy.execute("SELECT dbanon.unpublish('ten')")
    confirm(copy, EIGHT)
    copy.execute(
        "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('new', 32610, 1, 60);"
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path)"
        " SELECT 2, 'new ' || i,"
        " ST_SetSRID(ST_MakeLine(ST_MakePointM(i, 0, 1212566400), ST_MakePointM(i, 9, 1212566460)), 32610)"
        " FROM generate_series(1, 6) i"
    )
    plan = {item: (value, note) for item, value, note in copy.execute(
        "SELECT item, value, note FROM dbanon.plan_run('new', 'tp-aware', '{\"k\": 5}') p (item, value, exact, note)"
    ).fetchall()}  # fmt: skip
    assert plan["people_published"] == (6, "lost (lost)")
    with expect_refusal("DA011", "new", "default"):
        copy.execute(
            "UPDATE dbanon.dataset SET population_id = dbanon_internal.find_or_add_population('else')"
            " WHERE name = 'new'"
        )


def test_a_lost_release_is_listed_audited_and_kept_and_has_no_card(
    copy: psycopg.Connection, dbanon_server: "Target"
) -> None:
    confirm(copy, {**EIGHT, "name": "night"})
    query = "SELECT name, live, run_id, dataset FROM dbanon.releases WHERE run_id IS NULL"
    assert copy.execute(query).fetchone() == ("night", False, None, None)
    assert copy.execute(
        "SELECT release, detail ->> 'population' FROM dbanon.audit WHERE action = 'lose'"
    ).fetchone() == (
        "night",
        "default",
    )
    assert copy.execute("SELECT count(*) FROM published.releases WHERE name = 'night'").fetchone() == (0,)
    with expect_refusal("DA001", "night"):
        copy.execute("SELECT dbanon.release_card('night')")
    with expect_refusal("DA006", "dbanon.release"):
        copy.execute("DELETE FROM dbanon.release WHERE run_id IS NULL")
    assert call(database_url(dbanon_server.url, dbname=copy.info.dbname), "releases").code == 0


def test_the_command_line_names_the_statement(copy: psycopg.Connection, dbanon_server: "Target") -> None:
    done = call(database_url(dbanon_server.url, dbname=copy.info.dbname), "publish", "1", "again")
    demand_refused(done, 1, "confirm_history('[]', 'why that is certain')")


@pytest.mark.parametrize(
    ("published", "code"),
    [
        ('{"since": "2008-06-04Z", "until": "2008-06-05Z"}', "DA011"),
        ('[{"since": "2008-06-04Z"}]', "DA011"),
        ('[{"since": "2008-06-04Z", "until": "2008-06-05Z", "reach": 9}]', "DA011"),
        ('[{"since": "soon", "until": "2008-06-05Z"}]', "DA011"),
        ('[{"since": "2008-06-05Z", "until": "2008-06-04Z"}]', "DA011"),
        ('[{"since": "2008-06-05Z", "until": "2008-06-05Z"}]', "DA011"),
        ('[{"since": "2008-06-04Z", "until": "infinity"}]', "DA011"),
        ('[{"since": "2008-06-04Z", "until": null}]', "DA011"),
        ('[{"since": "2008-06-04Z", "until": "2008-06-05Z", "reach_s": -1}]', "DA011"),
        ('[{"since": "2008-06-04Z", "until": "2008-06-05Z", "reach_s": "NaN"}]', "DA011"),
        ('[{"since": "2008-06-04Z", "until": "2008-06-05Z", "digest": "xyz"}]', "DA011"),
        ('[{"since": "2008-06-04Z", "until": "2008-06-05Z", "name": "Not A Name"}]', "DA002"),
        ("[7]", "DA011"),
        (None, "DA011"),
    ],
)
def test_what_cannot_have_been_published_is_refused_and_nothing_is_entered(
    copy: psycopg.Connection, published: str | None, code: str
) -> None:
    with expect_refusal(code):
        copy.execute(ENTER, [published])
    with expect_refusal("DA020"):
        copy.execute(AGAIN)
    assert copy.execute("SELECT count(*) FROM dbanon.release WHERE run_id IS NULL").fetchone() == (0,)


def test_a_history_is_confirmed_for_a_reason_by_administrators_alone(
    copy: psycopg.Connection, dbanon_server: "Target"
) -> None:
    with expect_refusal("DA002", "reason", "1 word"):
        copy.execute("SELECT dbanon.confirm_history('[]', 'because')")
    for role, sqlstate in (("dbanon_operator", "42501"), ("dbanon_worker", "42501"), ("dbanon_admin", None)):
        with copy.transaction(force_rollback=True):
            copy.execute(f"SET LOCAL ROLE {role}")  # type: ignore[arg-type]
            if sqlstate is None:
                assert copy.execute(CONFIRM).fetchone() == (0,)
            else:
                with expect_refusal(sqlstate):
                    copy.execute(CONFIRM)


def test_where_the_server_is_not_to_be_told_nothing_is_published(own: psycopg.Connection) -> None:
    """As on servers that others manage; the sentence says what to grant."""
    own.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    with expect_refusal("DA020", "dbanon_admin", "pg_control_system()"):
        own.execute(AGAIN)
    assert own.execute("SELECT dbanon_internal.is_forked()").fetchone() == (None,)
    own.execute("GRANT EXECUTE ON FUNCTION pg_control_system() TO dbanon_admin")
    assert own.execute(AGAIN).fetchone() == (4,)


def test_another_server_with_the_same_tables_passes_only_where_it_never_recovered(own: psycopg.Connection) -> None:
    """As pg_upgrade leaves it; a server that crashed before it empties the table that tells."""
    own.execute("SELECT dbanon.publish(1, 'ten')")
    own.execute(
        "UPDATE dbanon.installation SET published_from = regexp_replace(published_from, 'server .*?,', 'server 1,')"
    )
    own.execute("UPDATE dbanon.unbroken SET place = (SELECT published_from FROM dbanon.installation)")
    own.execute("SELECT dbanon_internal.write_mark(NULL)")
    forked = "SELECT dbanon_internal.is_forked()"
    assert own.execute(forked).fetchone() == (False,)
    own.execute("CREATE FUNCTION pg_catalog.aurora_version() RETURNS text RETURN '15'")
    assert own.execute(forked).fetchone() == (True,)
    own.execute("DROP FUNCTION pg_catalog.aurora_version()")
    own.execute("TRUNCATE dbanon.unbroken")
    assert own.execute(forked).fetchone() == (True,)


def test_a_login_without_rights_on_the_schema_hears_nothing_of_it(
    copy: psycopg.Connection, login: Callable[[str], str]
) -> None:
    with (
        psycopg.connect(database_url(login("dbanon_analyst"), dbname=copy.info.dbname)) as analyst,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        analyst.execute("SELECT dbanon_internal.is_forked()")


# --- a failover


@pytest.fixture
def primary() -> Iterator[EmbeddedServer]:
    """A server of the test's own that has published."""
    directory = Path(tempfile.mkdtemp(prefix="dbanon-test-", dir=testing._find_memory_directory()))
    directory.chmod(0o711)
    server = EmbeddedServer(directory / "home", settings={"fsync": "off"})
    try:
        schema.upgrade(server.start().url)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(RUN)
            connection.execute(VERIFY, [True])
            connection.execute("SELECT dbanon.publish(1, 'ten')")
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory)


@contextmanager
def run_standby(primary: EmbeddedServer) -> Iterator[tuple[str, Callable[[str], None]]]:
    """Have a standby up: yields its URL, and what gives it a command of pg_ctl."""
    bindir, data = find_binaries().bindir, primary.home / "standby"
    words = parse(primary.url)
    place = ["-h", words["host"], "-p", words["port"], "-U", words["user"]]

    def run(*command: str) -> None:
        done = primary._run([str(bindir / command[0]), *command[1:]])
        assert done.returncode == 0, done.stderr

    def pg_ctl(*command: str) -> None:
        run("pg_ctl", *command, "-w", "-D", str(data), "-l", str(primary.log.parent / "standby.log"))

    primary._make_private(data)
    run("pg_basebackup", "-R", "-X", "stream", "-c", "fast", "-D", str(data), *place)
    pg_ctl("start", "-o", f"-c port=5433 -c unix_socket_directories={words['host']} -c listen_addresses=")
    try:
        yield format_uri({**words, "port": "5433"}), pg_ctl
    finally:
        pg_ctl("stop", "-m", "immediate")


@pytest.mark.stress
@pytest.mark.skipif(
    not any(item.has_postgis for item in find_installations()), reason="no PostgreSQL programs with PostGIS"
)
def test_a_standby_that_was_promoted_asks_at_once_and_its_primary_never(primary: EmbeddedServer) -> None:
    """Before the first checkpoint of the new timeline, of which the control file does not know yet."""
    with run_standby(primary) as (url, pg_ctl):
        assert call(url, "check").code == 0
        pg_ctl("promote")
        with psycopg.connect(url, autocommit=True) as promoted:
            with expect_refusal("DA020", "timeline 1", "timeline 2"):
                promoted.execute(AGAIN)
            refused_check = call(url, "check")
            assert refused_check.code == 2, refused_check
            promoted.execute(CONFIRM)
            assert promoted.execute(AGAIN).fetchone() == (4,)
    with psycopg.connect(primary.url, autocommit=True) as connection:
        assert connection.execute(AGAIN).fetchone() == (4,)
    assert len(re.findall("dbanon: published {", primary.log.read_text())) == 2


def upgrade_server(server: EmbeddedServer) -> None:
    """Replace the cluster of a server that is stopped by what pg_upgrade makes of it, and start that."""
    bindir = find_binaries().bindir
    old, building, work = (server.home / name for name in ("data.old", "building", "work"))
    shutil.rmtree(old, ignore_errors=True)
    server.data.rename(old)
    server._make_private(building)
    server._make_private(work)

    def run(*command: str | Path) -> None:
        done = server._run([str(word) for word in command])
        assert done.returncode == 0, done.stdout + done.stderr

    run(bindir / "initdb", "-D", building, "-U", "dbanon", "--encoding=UTF8", "--auth-local=trust", "--locale=C.UTF-8")
    programs = ("-b", bindir, "-B", bindir, "-d", old, "-D", building, "-U", "dbanon", "-s", server._socket_directory)
    run("env", "-C", work, bindir / "pg_upgrade", *programs)
    building.rename(server.data)
    server.start()


def crash(server: EmbeddedServer) -> None:
    pid = server._find_postmaster()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while server._find_postmaster() is not None:
        pass
    server.start()


@pytest.mark.stress
@pytest.mark.skipif(
    not any(item.has_postgis for item in find_installations()), reason="no PostgreSQL programs with PostGIS"
)
def test_neither_a_crash_nor_pg_upgrade_alarms_anybody(primary: EmbeddedServer) -> None:
    """Also one after the other, if there is an upgrade or a publication between them."""
    crash(primary)
    assert call(primary.url, "check").code == 0
    assert call(primary.url, "db", "upgrade").code == 0
    for name in ("second", "third"):
        primary.stop()
        upgrade_server(primary)
        assert call(primary.url, "check").code == 0
        with psycopg.connect(primary.url, autocommit=True) as connection:
            assert connection.execute("SELECT dbanon.publish(1, %s)", [name]).fetchone() == (4,)


@pytest.mark.stress
@pytest.mark.skipif(
    not any(item.has_postgis for item in find_installations()), reason="no PostgreSQL programs with PostGIS"
)
def test_pg_upgrade_hides_no_rewind_and_no_promotion(primary: EmbeddedServer) -> None:
    """The timeline begins at 1 again. A table that recovery empties tells."""
    with run_standby(primary) as (_, pg_ctl):
        pg_ctl("promote")
    primary.stop()
    shutil.rmtree(primary.data)
    (primary.home / "standby").rename(primary.data)
    primary.start()
    primary.stop()
    upgrade_server(primary)
    with psycopg.connect(primary.url, autocommit=True) as connection, expect_refusal("DA020", "timeline 1"):
        connection.execute(AGAIN)
