"""What is known of releases stays as it was published: guards refuse changes; a keyed hash finds what they missed."""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from dbanon import schema
from dbanon.postgres.server import Target, parse
from dbanon.testing import cloned_database
from tests.acceptance.commands import call
from tests.db.methods import change_methods
from tests.db.ten_people import CONFIRM
from tests.db.test_gate import CROSSING, PUBLISH, find_sqlstate
from tests.facts import demand_named, expect_refusal
from tests.reading import read_value

Login = Callable[[str], str]

# Release 1 shows a person exactly as well, and fixes of a person are known.
STORED = """
INSERT INTO dbanon.exposure VALUES (1, 42, '{[2008-06-04 08:00+00, 2008-06-04 08:01+00)}');
INSERT INTO dbanon.fix_code VALUES (1, 42, 64);
"""
CODE = "dbanon_internal.hash_person(dbanon_internal.find_dataset_key(1), 'p0')"
OTHERS = "UPDATE dbanon.grouping SET people = ARRAY(SELECT x + 1 FROM unnest(people) x)"
REPLACED = (
    "UPDATE dbanon.grouping SET people = ARRAY(SELECT x FROM unnest(array_replace(people, {0}, {1})) x ORDER BY x)"
    " WHERE {0} = ANY (people)"
)
DRAWN = "dbanon_internal.make_stand_in()"


@pytest.fixture(scope="module")
def known(dbanon_server: Target, ten_template: str) -> Iterator[str]:
    """Name of a database with release 1 of ten people, and run 2 that leaves two of five, to be cloned."""
    with cloned_database(dbanon_server, ten_template) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(CROSSING)
            connection.execute(STORED)
            connection.execute("SELECT dbanon.publish(1, 'first')")
        yield parse(url)["dbname"]


@pytest.fixture
def database(dbanon_server: Target, known: str) -> Iterator[str]:
    with cloned_database(dbanon_server, known) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(CONFIRM)
        yield url


@pytest.fixture
def admin(connection: psycopg.Connection, login: Login) -> Iterator[psycopg.Connection]:
    """An administrator without superuser's rights, to whom the server's log is shown."""
    with psycopg.connect(login("dbanon_admin"), autocommit=True) as opened:
        opened.execute("SET client_min_messages = log")
        yield opened


CHANGES = {
    "grouping": [
        OTHERS,
        "UPDATE dbanon.grouping SET period = tstzrange(lower(period), upper(period) + interval '1 min')",
        "UPDATE dbanon.grouping SET release_id = 9",
        "INSERT INTO dbanon.grouping SELECT * FROM dbanon.grouping",
        "DELETE FROM dbanon.grouping",
        "TRUNCATE dbanon.grouping",
    ],
    "exposure": [
        "UPDATE dbanon.exposure SET person = person + 1",
        "INSERT INTO dbanon.exposure SELECT * FROM dbanon.exposure",
        "DELETE FROM dbanon.exposure",
        "TRUNCATE dbanon.exposure",
    ],
    "fix_code": [
        "UPDATE dbanon.fix_code SET person = person + 1",
        "DELETE FROM dbanon.fix_code",
        "TRUNCATE dbanon.fix_code",
    ],
    "population": [
        "UPDATE dbanon.population SET key = sha256('another')",
        "UPDATE dbanon.population SET population_id = 9",
        "DELETE FROM dbanon.population",
        "TRUNCATE dbanon.population CASCADE",
    ],
    "method": [
        'UPDATE dbanon.method SET traits = traits || \'{"hides": "weather"}\'',
        "INSERT INTO dbanon.method SELECT * FROM dbanon.method",
        "DELETE FROM dbanon.method",
        "TRUNCATE dbanon.method CASCADE",
    ],
    "installation": [
        "UPDATE dbanon.installation SET key = sha256('another')",
        "DELETE FROM dbanon.installation",
        "TRUNCATE dbanon.installation",
    ],
    "release": [
        "UPDATE dbanon.release SET groups_sum = 0",
        "UPDATE dbanon.release SET reach = '0', span = NULL",
        "DELETE FROM dbanon.release",
    ],
}


def test_nobody_changes_what_is_known_and_each_attempt_leaves_a_line_in_the_servers_log(
    connection: psycopg.Connection, admin: psycopg.Connection
) -> None:
    said: list[tuple[str | None, str | None]] = []
    for session in (admin, connection):
        session.execute("SET client_min_messages = log")
        session.add_notice_handler(lambda d: said.append((d.severity_nonlocalized, d.message_primary)))
        user = str(read_value(session, "SELECT session_user"))
        for table, statements in CHANGES.items():
            for statement in statements:
                said.clear()
                with expect_refusal("DA006", f"dbanon.{table}"), session.transaction():
                    session.execute(statement)  # type: ignore[arg-type]
                line = [text for severity, text in said if severity == "LOG"]
                assert len(line) == 1, statement
                demand_named(line[0] or "", user, statement.split(maxsplit=1)[0], f"dbanon.{table}")
    assert find_sqlstate(connection, PUBLISH) == "DA010"


def test_a_sum_changed_by_a_trigger_of_the_owner_leaves_a_line_in_the_servers_log(admin: psycopg.Connection) -> None:
    said: list[str | None] = []
    admin.execute("SET client_min_messages = log")
    admin.add_notice_handler(lambda d: said.append(d.message_primary))
    with admin.transaction(force_rollback=True):
        admin.execute(
            "CREATE TEMP TABLE lever (i int); CREATE FUNCTION pg_temp.pull() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN UPDATE dbanon.release SET groups_sum = groups_sum + 1; RETURN NULL; END'; "
            "CREATE TRIGGER pull AFTER INSERT ON lever FOR EACH ROW EXECUTE FUNCTION pg_temp.pull()"
        )
        admin.execute("INSERT INTO lever VALUES (1)")
        assert read_value(admin, AS_STORED) is False
    demand_named(" ".join(filter(None, said)), str(read_value(admin, "SELECT session_user")), "groups_sum")


UNSEEN = "ALTER TABLE dbanon.{0} DISABLE TRIGGER USER; {1}; ALTER TABLE dbanon.{0} ENABLE TRIGGER USER"


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("grouping", OTHERS),
        ("grouping", "UPDATE dbanon.grouping SET period = tstzrange(lower(period), upper(period) + interval '1 min')"),
        ("grouping", "INSERT INTO dbanon.grouping SELECT * FROM dbanon.grouping"),
        ("grouping", "DELETE FROM dbanon.grouping WHERE ctid IN (SELECT max(ctid) FROM dbanon.grouping)"),
        ("exposure", "DELETE FROM dbanon.exposure"),
        ("exposure", "UPDATE dbanon.exposure SET person = 43"),
        ("population", "UPDATE dbanon.population SET key = sha256('another')"),
        ("release", """UPDATE dbanon.release SET promise = promise || '{"hides": "weather"}'"""),
        ("release", """UPDATE dbanon.release SET promise = promise || '{"k": 2}'"""),
        ("release", """UPDATE dbanon.release SET promise = promise || '{"l": 0}'"""),
        ("release", "UPDATE dbanon.release SET span = tstzrange('2008-01-01Z', '2008-01-02Z')"),
        ("release", "UPDATE dbanon.release SET reach = '1 s'"),
        ("release", "UPDATE dbanon.release SET content = ''"),
        ("release", "UPDATE dbanon.release SET overlap_reason = 'read by nobody else'"),
    ],
)
def test_with_guards_switched_off_the_next_comparison_finds_what_was_changed(
    connection: psycopg.Connection, admin: psycopg.Connection, login: Login, table: str, change: str
) -> None:
    connection.execute("INSERT INTO dbanon.verification (run_id, attack, passed, digest)"
                       " SELECT 1, 'tp-aware', true, dbanon_internal.compute_run_digest(1)")  # fmt: skip
    admin.execute(UNSEEN.format(table, change))  # type: ignore[arg-type]
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as operator:
        for statement in (PUBLISH, "SELECT dbanon.measure_overlap(2)", "SELECT dbanon.publish(1, 'again')"):
            with expect_refusal("DA005", "first", "number 1", "dbanon.grouping"):
                operator.execute(statement)  # type: ignore[arg-type]
        allowed = "SELECT dbanon.publish(2, 'second', allow_overlap => true, reason => 'nobody reads both')"
        assert find_sqlstate(operator, allowed) == "DA005"


def test_what_was_changed_of_another_population_is_no_matter(
    connection: psycopg.Connection, admin: psycopg.Connection
) -> None:
    admin.execute(UNSEEN.format("release", "UPDATE dbanon.release SET content = ''"))  # type: ignore[arg-type]
    connection.execute(
        "INSERT INTO dbanon.population (name) VALUES ('elsewhere'); "
        "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s, population_id) "
        "SELECT 'other', 32610, 1, 60, population_id FROM dbanon.population WHERE name = 'elsewhere'"
    )
    run = read_value(
        connection,
        "INSERT INTO dbanon.run (dataset_id, dataset_revision, method, algorithm, params, seed, status) SELECT dataset_id, "
        "revision, 'tp-aware', 'traj-anon', '{}', 1, 'queued' FROM dbanon.dataset WHERE name = 'other' RETURNING run_id",
    )
    check = "SELECT dbanon_internal.demand_unchanged_groups({}, 9)"
    connection.execute(check.format(run))  # type: ignore[arg-type]
    assert find_sqlstate(connection, check.format(2)) == "DA005"


# ---- forgetting ------------------------------------------------------------------------------------------------------

AS_STORED = "SELECT groups_sum = dbanon_internal.compute_groups_sum(release_id, 1) FROM dbanon.release"


def test_forgetting_passes_is_told_and_carries_the_sum_on(connection: psycopg.Connection, login: Login) -> None:
    before = read_value(connection, "SELECT groups_sum FROM dbanon.release")
    connection.execute("INSERT INTO dbanon.fix_code SELECT 1, %s, 128", [read_value(connection, f"SELECT {CODE}")])
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as operator:
        operator.execute("SELECT dbanon.forget_subject('ten', 'p0')")
        user = operator.info.user
    assert read_value(connection, "SELECT groups_sum FROM dbanon.release") != before
    assert read_value(connection, AS_STORED) is True
    lines = connection.execute(
        "SELECT login, dataset, detail ->> 'statement', detail -> 'rows' FROM dbanon.audit"
        " WHERE action = 'change' AND detail ->> 'table' = 'grouping'"
    ).fetchall()
    assert lines == [(user, "ten", "UPDATE", 1)]
    for setting in ("forgotten", "drawn"):
        assert read_value(connection, f"SELECT current_setting('dbanon.{setting}', true)") in (None, "")
    connection.execute("SELECT dbanon.unpublish('first')")
    connection.execute("SELECT dbanon.drop_dataset('ten')")
    assert read_value(connection, AS_STORED) is True


@pytest.mark.parametrize(
    ("gone", "statement"),
    [
        (False, REPLACED.format(CODE, DRAWN)),
        (True, REPLACED.format(CODE.replace("p0", "p1"), DRAWN)),
        (True, REPLACED.format(CODE, CODE.replace("p0", "newcomer"))),
        (True, REPLACED.format(CODE, "7")),
        (True, f"UPDATE dbanon.grouping SET people = array_remove(people, {CODE})"),
        (True, "UPDATE dbanon.grouping SET people = '{7}'"),
        (True, "UPDATE dbanon.fix_code SET person = 7"),
        (True, "DELETE FROM dbanon.fix_code"),
    ],
    ids=[
        "still there",
        "another person",
        "by a person",
        "by a number of choice",
        "one fewer",
        "all",
        "codes",
        "codes of others",
    ],
)
def test_naming_a_person_lets_nothing_pass_but_the_forgetting_of_that_person(
    connection: psycopg.Connection, admin: psycopg.Connection, gone: bool, statement: str
) -> None:
    admin.execute("SET dbanon.forgotten = 'p0'")
    admin.execute("SELECT set_config('dbanon.drawn', gen_random_uuid()::text, false)")
    if gone:
        admin.execute("DELETE FROM dbanon.trajectory WHERE subject = 'p0'")
    assert find_sqlstate(admin, statement) == "DA006"
    if gone:
        assert find_sqlstate(admin, REPLACED.format(CODE, DRAWN)) is None
    assert read_value(connection, AS_STORED) is True


# ---- methods ---------------------------------------------------------------------------------------------------------

OTHER_SECRET = "UPDATE dbanon.method SET traits = traits || '{\"hides\": \"weather\"}' WHERE name = 'tp-aware'"


def test_methods_changed_with_guards_off_stop_publication_until_the_next_upgrade(
    connection: psycopg.Connection, admin: psycopg.Connection, login: Login, database: str
) -> None:
    refused = find_sqlstate(connection, PUBLISH)
    admin.execute(UNSEEN.format("method", OTHER_SECRET))  # type: ignore[arg-type]
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as operator:
        with expect_refusal("DA005", "dbanon.method", "Upgrade"):
            operator.execute(PUBLISH)  # type: ignore[arg-type]
        assert operator.execute("SELECT level FROM dbanon.health WHERE about = 'methods'").fetchall() == [(2,)]
        assert call(database, "check").code == 2
        assert call(database, "db", "upgrade", "--share-roles").code == 0
        assert call(database, "check").code == 0
        assert find_sqlstate(operator, PUBLISH) == refused == "DA010"


def test_a_release_keeps_what_it_promised_whatever_its_method_becomes(connection: psycopg.Connection) -> None:
    """Also where an upgrade changes it: the next run alone promises something else then."""
    query = "SELECT secret, k, alone FROM dbanon_internal.list_compared(2, 0) ORDER BY release_id"
    (new, old) = connection.execute(query).fetchall()
    measured = "SELECT below > 0, smallest_crowd, broken FROM dbanon.measure_overlap(2)"
    assert connection.execute(measured).fetchone() == (True, 2, ["run 2"])
    change_methods(connection, OTHER_SECRET)
    change_methods(connection, "UPDATE dbanon.method SET algorithms = '[]' WHERE name = 'tp-aware'")
    changed = connection.execute(query).fetchall()
    assert changed[1] == old == ("sender", 5, False)
    assert changed[0] != new


def test_releases_of_before_are_given_what_they_promise_by_the_upgrade(
    connection: psycopg.Connection, database: str
) -> None:
    """Lost ones, too."""
    query = "SELECT release_id, promise, promise_hash FROM dbanon.release ORDER BY 1"
    lost = '[{"since": "2009-06-04Z", "until": "2009-06-05Z"}]'
    connection.execute("SELECT dbanon.confirm_history(%s, 'as the log has it')", [lost])
    before = connection.execute(query).fetchall()
    assert before[1][1] == {"hides": "place", "alone": True}
    connection.execute("ALTER TABLE dbanon.release DISABLE TRIGGER USER")
    connection.execute("UPDATE dbanon.release SET promise = NULL, promise_hash = NULL")
    schema.upgrade(database, share_roles=True)
    assert connection.execute(query).fetchall() == before
    with expect_refusal("DA006"):
        connection.execute("UPDATE dbanon.release SET promise = NULL")
