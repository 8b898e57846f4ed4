"""The gate holds whatever else is done in the same statement, transaction or snapshot: attacks by real logins."""

import secrets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psycopg
import pytest
from psycopg import errors, sql

from dbanon import schema
from dbanon.postgres.server import Target, parse
from dbanon.runs import reading
from dbanon.testing import cloned_database, database_url
from tests.clients import find_client
from tests.db.ten_people import CONFIRM
from tests.facts import expect_refusal
from tests.reading import read_value

Login = Callable[[str], str]
Verify = Callable[..., None]
Change = tuple[str, str, list[str]]

# Run 2 has the same people at the same time as run 1, in other bundles: together they leave two of five.
CROSSING = """
INSERT INTO dbanon.run (dataset_id, dataset_revision, method, algorithm, params, seed, status)
SELECT dataset_id, dataset_revision, method, algorithm, params, seed, status FROM dbanon.run;
INSERT INTO dbanon.cloak SELECT 2, record_id, seq, period, region, crowd, subjects, extra FROM dbanon.cloak;
INSERT INTO dbanon.membership SELECT 2, 1 + trajectory_id % 2, trajectory_id, period FROM dbanon.membership;
INSERT INTO dbanon.verification (run_id, attack, passed, digest)
    VALUES (2, 'tp-aware', true, dbanon_internal.compute_run_digest(2));
"""
PUBLISH = "SELECT dbanon.publish(2, 'second')"
ADDED = "(dataset_id, subject, path) VALUES (1, 'late', 'SRID=32610;POINT M (1 1 1)')"
SQUARE = "ST_MakeEnvelope(0, 0, 9, 9, 32610)"


def run_together(connection: psycopg.Connection, *statements: str) -> None:
    with connection.transaction():
        for statement in statements:
            connection.execute(statement)


def find_sqlstate(connection: psycopg.Connection, *statements: str) -> str | None:
    """Run statements in one transaction; returns how it was refused."""
    try:
        run_together(connection, *statements)
    except psycopg.Error as error:
        return error.sqlstate
    return None


def list_releases(connection: psycopg.Connection) -> list[tuple[object, ...]]:
    return connection.execute("SELECT name, (overlap ->> 'below')::int FROM dbanon.release ORDER BY 1").fetchall()


@pytest.fixture(scope="module")
def crossed(dbanon_server: Target, ten_template: str) -> Iterator[str]:
    """Name of a database with a release and a verified run that crosses it, to be cloned."""
    with cloned_database(dbanon_server, ten_template) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(CROSSING)
            connection.execute("SELECT dbanon.publish(1, 'first')")
        yield parse(url)["dbname"]


@pytest.fixture
def database(request: pytest.FixtureRequest, dbanon_server: Target, ten_template: str) -> Iterator[str]:
    template = request.getfixturevalue("crossed") if "crossing" in request.fixturenames else ten_template
    with cloned_database(dbanon_server, template) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(CONFIRM)
        yield url


@pytest.fixture
def crossing(connection: psycopg.Connection) -> psycopg.Connection:
    """The owner's connection to such a database."""
    return connection


@pytest.fixture
def operator(crossing: psycopg.Connection, login: Login) -> Iterator[psycopg.Connection]:
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as opened:
        opened.execute("SET search_path = public")
        yield opened


@pytest.fixture
def both(crossing: psycopg.Connection, operator: psycopg.Connection) -> psycopg.Connection:
    """An operator who is a worker as well."""
    crossing.execute(sql.SQL("GRANT dbanon_worker TO {}").format(sql.Identifier(operator.info.user)))
    return operator


# --- the same transaction -------------------------------------------------------------------------------------------

GONE = "DELETE FROM dbanon.trajectory WHERE dataset_id = 1"
ONE_STATEMENT = {
    "people taken away": f"WITH gone AS (DELETE FROM dbanon.trajectory WHERE dataset_id = 1 RETURNING 1) {PUBLISH}"
    " FROM (SELECT count(*) FROM gone) g",
    "taken away before and after": f"DELETE FROM dbanon.trajectory WHERE ({PUBLISH}) > 0",
    "taken away row by row, in the midst of which it publishes": "DELETE FROM dbanon.trajectory"
    " WHERE CASE trajectory_id WHEN 105 THEN dbanon.publish(2, 'second') ELSE 1 END > 0",
    "renamed": "WITH u AS (UPDATE dbanon.trajectory SET path = ST_Translate(path, 9, 9) RETURNING 1) "
    f"{PUBLISH} FROM (SELECT count(*) FROM u) g",
    "loaded": f"WITH n AS (INSERT INTO dbanon.trajectory {ADDED} RETURNING 1) {PUBLISH} FROM n",
    "never reached": f"WITH gone AS (DELETE FROM dbanon.trajectory WHERE false RETURNING 1) {PUBLISH}",
    "merged": "MERGE INTO dbanon.trajectory t USING (SELECT dbanon.publish(2, 'second')) p ON t.dataset_id = 1"
    " WHEN MATCHED THEN DELETE",
    "requests": f"WITH gone AS (DELETE FROM dbanon.request RETURNING 1) {PUBLISH} FROM (SELECT count(*) FROM gone) g",
    "in a block of code": f"DO $$ BEGIN {GONE}; PERFORM dbanon.publish(2, 'second'); END $$",
    "in a block that catches": f"DO $$ BEGIN BEGIN {GONE}; EXCEPTION WHEN OTHERS THEN NULL; END;"
    " PERFORM dbanon.publish(2, 'second'); END $$",
}


@pytest.mark.many
@pytest.mark.parametrize("statement", ONE_STATEMENT.values(), ids=ONE_STATEMENT.keys())
def test_no_statement_changes_data_and_publishes(
    crossing: psycopg.Connection, operator: psycopg.Connection, statement: str
) -> None:
    assert find_sqlstate(operator, PUBLISH) == "DA010"
    assert find_sqlstate(operator, statement) == "DA015"
    assert list_releases(crossing) == [("first", None)]
    assert read_value(crossing, "SELECT count(*) FROM dbanon.trajectory") == 10
    assert find_sqlstate(operator, PUBLISH) == "DA010"


BY_OPERATORS = {
    "trajectory": [GONE],
    "trajectory, nothing of it": ["DELETE FROM dbanon.trajectory WHERE false"],
    "trajectory, kept from a savepoint": ["SAVEPOINT a", GONE, "RELEASE a"],
    "trajectory, by an import": [
        "CREATE TEMP TABLE gps AS SELECT 'p1' AS s, now() AS t, ST_SetSRID(ST_MakePoint(0, 0), 32610) AS g",
        "SELECT * FROM dbanon.import_trajectories('pg_temp.gps', dataset => 'ten', subject => 's',"
        " time_column => 't', geom => 'g', mode => 'append')",
    ],
    "trajectory, by forgetting": ["SELECT dbanon.forget_subject('ten', 'p9')"],
    "trajectory, by its age": ["SELECT dbanon.forget_before('ten', '2008-06-04 08:00:30Z')"],
    "trajectory, by a cursor": [
        "DECLARE c CURSOR FOR SELECT * FROM dbanon.trajectory FOR UPDATE",
        "FETCH c",
        "DELETE FROM dbanon.trajectory WHERE CURRENT OF c",
    ],
    "trajectory, by a trigger": [
        "CREATE TEMP TABLE t (a int)",
        f"CREATE FUNCTION pg_temp.f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {GONE}; RETURN NEW; END $$",
        "CREATE TRIGGER f AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION pg_temp.f()",
        "INSERT INTO t VALUES (1)",
    ],
    "trajectory, locked": ["LOCK TABLE dbanon.trajectory IN EXCLUSIVE MODE"],
    "request": ["DELETE FROM dbanon.request"],
    "site": [f"INSERT INTO dbanon.site (dataset_id, geom) VALUES (1, {SQUARE})"],
    "poi": [f"INSERT INTO dbanon.poi (dataset_id, category, geom) VALUES (1, 'x', {SQUARE})"],
    "cell": [f"INSERT INTO dbanon.cell (dataset_id, geom) VALUES (1, {SQUARE})"],
    "quasi_identifier": ["INSERT INTO dbanon.quasi_identifier (dataset_id, subject, at) VALUES (1, 'p1', now())"],
}
BY_BOTH = {
    "record": ["UPDATE dbanon.cloak SET crowd = crowd WHERE run_id = 2"],
    "region": ["UPDATE dbanon.region SET crowd = crowd WHERE run_id = 2"],
    "period": ["DELETE FROM dbanon.period WHERE run_id = 2"],
    "hiding": ["INSERT INTO dbanon.hiding VALUES (2, 1, NULL, '{2}')"],
    "atom": ["INSERT INTO dbanon.atom VALUES (2, 1, 0)"],
    "membership": ["DELETE FROM dbanon.membership WHERE run_id = 2"],
    "verification": [
        "INSERT INTO dbanon.verification (run_id, attack, passed, digest)"
        " VALUES (2, 'tp-aware', true, dbanon_internal.compute_run_digest(2))"
    ],
}
BY_ADMINS = {
    "trajectory, emptied": ["TRUNCATE dbanon.trajectory"],
    "trajectory, a trigger off": ["ALTER TABLE dbanon.trajectory DISABLE TRIGGER guard_subject"],
    "method": ["ALTER TABLE dbanon.method DISABLE TRIGGER guard_rows", "UPDATE dbanon.method SET summary = 'x'"],
}
CHANGES: list[Change] = [
    *(("operator", name, way) for name, way in BY_OPERATORS.items()),
    *(("both", name, way) for name, way in BY_BOTH.items()),
    *(("admin", name, way) for name, way in BY_ADMINS.items()),
]


@pytest.mark.many
@pytest.mark.parametrize("change", CHANGES, ids=[c[1] for c in CHANGES])
def test_no_transaction_changes_anything_and_publishes(
    crossing: psycopg.Connection, both: psycopg.Connection, login: Login, change: Change
) -> None:
    who, what, statements = change
    publish = "SELECT dbanon.publish(2, 'second', allow_overlap => true, reason => 'read by nobody else')"
    with psycopg.connect(login("dbanon_admin"), autocommit=True) as admin:
        admin.execute("SET search_path = public")
        session = admin if who == "admin" else both
        with pytest.raises(psycopg.Error, match=rf"dbanon\.{what.partition(',')[0]}\b") as caught:
            run_together(session, *statements, publish)
        assert caught.value.sqlstate == "DA015"
        assert list_releases(crossing) == [("first", None)]
        assert find_sqlstate(session, publish) is None


def test_a_cursor_that_publishes_at_the_commit_is_refused(
    crossing: psycopg.Connection, operator: psycopg.Connection
) -> None:
    assert find_sqlstate(operator, f"DECLARE c CURSOR WITH HOLD FOR {PUBLISH}", GONE) == "DA015"
    assert find_sqlstate(operator, f"DECLARE c CURSOR FOR {PUBLISH}", GONE, "FETCH c") == "DA015"
    assert list_releases(crossing) == [("first", None)]


def test_what_was_undone_keeps_nobody_from_publishing(
    crossing: psycopg.Connection, operator: psycopg.Connection
) -> None:
    caught = f"DO $$ BEGIN {GONE}; PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END $$"
    again = "SELECT dbanon.publish(1, 'again')"
    assert (
        find_sqlstate(operator, "SAVEPOINT a", GONE, "ROLLBACK TO a", caught, "SELECT FROM dbanon.trajectory", again)
        is None
    )
    assert list_releases(crossing) == [("again", 0), ("first", None)]


def test_two_publications_of_one_transaction_see_each_other(
    crossing: psycopg.Connection, operator: psycopg.Connection
) -> None:
    assert find_sqlstate(operator, "SELECT dbanon.publish(1, 'a')", "SELECT dbanon.publish(1, 'b')") is None
    crossing.execute("DELETE FROM dbanon.request; SELECT 1")
    assert find_sqlstate(operator, "SELECT dbanon.publish(1, 'c')") == "DA005"


@pytest.mark.parametrize("kind", ["STABLE", "IMMUTABLE", "VOLATILE PARALLEL SAFE"])
def test_a_function_that_says_it_changes_nothing_publishes_nothing(
    crossing: psycopg.Connection, operator: psycopg.Connection, kind: str
) -> None:
    operator.execute(f"CREATE FUNCTION pg_temp.f() RETURNS bigint LANGUAGE sql {kind} AS $$ {PUBLISH} $$")
    forced = "debug_parallel_query" if operator.info.server_version >= 160000 else "force_parallel_mode"
    operator.execute(f"SET {forced} = on")
    assert find_sqlstate(operator, "SELECT pg_temp.f()") in ("DA010", "25000")  # a parallel process may write nothing
    assert find_sqlstate(operator, GONE, "SELECT pg_temp.f()") in ("DA015", "25000")
    assert find_sqlstate(operator, "DELETE FROM dbanon.trajectory WHERE pg_temp.f() > 0") == "DA015"
    assert list_releases(crossing) == [("first", None)]


# --- the names ------------------------------------------------------------------------------------------------------

UNSEEN = "ALTER TABLE dbanon.trajectory DISABLE TRIGGER USER; {}; ALTER TABLE dbanon.trajectory ENABLE TRIGGER USER"
NAMES = {
    "renamed": "UPDATE dbanon.trajectory SET subject = 'new ' || subject",
    "two exchanged": "UPDATE dbanon.trajectory SET subject = CASE subject WHEN 'p1' THEN 'p6' ELSE 'p1' END"
    " WHERE subject IN ('p1', 'p6')",
    "taken away": "DELETE FROM dbanon.trajectory WHERE trajectory_id = 104",
    "of another dataset": "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('x', 32610, 1, 60);"
    "UPDATE dbanon.trajectory SET dataset_id = 2 WHERE trajectory_id = 104",
}


@pytest.mark.many
@pytest.mark.parametrize("change", NAMES.values(), ids=NAMES.keys())
def test_the_names_that_will_be_recorded_are_part_of_what_was_verified(
    connection: psycopg.Connection, run: int, change: str
) -> None:
    before = read_value(connection, "SELECT revision FROM dbanon.dataset WHERE dataset_id = 1")
    connection.execute(UNSEEN.format(change))
    assert read_value(connection, "SELECT revision FROM dbanon.dataset WHERE dataset_id = 1") == before
    assert find_sqlstate(connection, "SELECT dbanon.publish(1, 'ten')") == "DA005"


@pytest.mark.many
@pytest.mark.parametrize(
    ("change", "unknown"),
    [
        (GONE, ("0 records", "10 of 10 members")),
        ("DELETE FROM dbanon.trajectory WHERE trajectory_id = 104", ("0 records", "1 of 10 members")),
        (NAMES["of another dataset"], ("0 records", "1 of 10 members")),
        ("DELETE FROM dbanon.membership WHERE record_id = 2", ("1 record", "0 of 5 members")),
    ],
)
def test_who_is_hidden_with_whom_is_known_of_all_members_or_nothing_is_published(
    connection: psycopg.Connection, run: int, verify: Verify, change: str, unknown: tuple[str, str]
) -> None:
    connection.execute(change)
    verify(connection)  # a worker that looks at nothing
    with expect_refusal("DA005", "run 1", *unknown):
        connection.execute("SELECT dbanon.publish(1, 'ten')")
    assert find_sqlstate(connection, "SELECT * FROM dbanon_internal.find_run_groups(1)") == "DA005"
    assert list_releases(connection) == []


def test_a_run_given_to_another_dataset_is_not_what_was_verified(
    connection: psycopg.Connection, both: psycopg.Connection
) -> None:
    both.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('x', 32610, 1, 60)")
    changes = "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) VALUES (2, 'p1', now(), '{}')"
    while both.execute("SELECT count(DISTINCT revision) FROM dbanon.dataset").fetchone() == (2,):
        both.execute(changes)
    connection.execute("UPDATE dbanon.run SET dataset_id = 2 WHERE run_id = 2")
    assert find_sqlstate(both, PUBLISH) == "DA005"


# --- children -------------------------------------------------------------------------------------------------------

TABLES = (
    *("dataset", "trajectory", "load", "quarantine", "request", "site", "poi", "cell", "quasi_identifier", "method"),
    *(
        "run",
        "region",
        "period",
        "record",
        "membership",
        "hiding",
        "atom",
        "verification",
        "release",
        "grouping",
        "exposure",
        "asked",
        "series",
        "published_cell",
        "published_atom",
        "population",
        "audit",
    ),
)
READ = (
    "SELECT dbanon_internal.compute_run_digest(r) FROM generate_series(1, 2) r",
    "SELECT * FROM dbanon_internal.gather_region_evidence(2) ORDER BY 1",
    "SELECT * FROM dbanon_internal.gather_period_evidence(2) ORDER BY 1",
    "SELECT * FROM dbanon_internal.gather_record_evidence(2) ORDER BY 1",
    "SELECT * FROM dbanon_internal.gather_hiding_evidence(2) ORDER BY 1",
    "SELECT * FROM dbanon_internal.gather_atom_evidence(2) ORDER BY 1",
    "SELECT * FROM dbanon_internal.find_stored_atoms(1, 0, 1) ORDER BY 1",
    "SELECT * FROM dbanon.cloak ORDER BY run_id, record_id, seq",
    "SELECT * FROM dbanon_internal.read_region_blocks(2)",
    "SELECT * FROM dbanon_internal.read_membership_blocks(2)",
    "SELECT * FROM dbanon_internal.read_name_blocks(2)",
    "SELECT * FROM dbanon_internal.find_run_groups(2) ORDER BY people",
    "SELECT * FROM dbanon.measure_overlap(2)",
    "SELECT * FROM dbanon.fix ORDER BY trajectory_id, seq",
    "SELECT * FROM published.first ORDER BY cloak_id",
    "SELECT item, value FROM dbanon.plan_run('ten', 'tp-aware', '{\"k\": 2}') WHERE item IN ('subjects', 'requests')",
)


def read_by_the_program(url: str) -> list[object]:
    """What a run computes on and what an attack is given, as lists that can be compared."""
    with reading.open_reader(url) as reader:
        inputs = reader.read_inputs(1, ("requests", "sites")).values()
        found = (reader.read_trajectories(1), *inputs, reader.read_evidence(2)[0])
        return [[np.asarray(part).tolist() for part in vars(item).values() if np.ndim(part)] for item in found]


def test_children_of_tables_add_nobody(database: str, crossing: psycopg.Connection, login: Login) -> None:
    crossing.execute(f"INSERT INTO dbanon.site (dataset_id, geom) VALUES (1, {SQUARE})")
    crossing.execute("UPDATE dbanon.verification SET digest = dbanon_internal.compute_run_digest(run_id)")
    before = [crossing.execute(query).fetchall() for query in READ]
    computed = read_by_the_program(database)
    with psycopg.connect(login("dbanon_admin"), autocommit=True) as admin:
        own = read_value(admin, "SELECT 'release_' || release_id FROM dbanon.release")
        for table in (*TABLES, own):
            admin.execute(f"CREATE TABLE dbanon.child_of_{table} () INHERITS (dbanon.{table})")
            given = read_value(
                admin,
                "SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute WHERE attnum > 0 AND attgenerated = ''"
                f" AND NOT attisdropped AND attrelid = 'dbanon.{table}'::regclass",
            )
            admin.execute(f"INSERT INTO dbanon.child_of_{table} ({given}) SELECT {given} FROM ONLY dbanon.{table}")
        # People who would fill the groups up, and a release that has shown the same before.
        admin.execute(
            "INSERT INTO dbanon.child_of_trajectory SELECT 200 + trajectory_id, dataset_id, 'more ' || subject, path,"
            " shape FROM ONLY dbanon.trajectory"
        )
        admin.execute(
            "INSERT INTO dbanon.child_of_membership SELECT run_id, record_id, 200 + trajectory_id, period"
            " FROM ONLY dbanon.membership"
        )
        admin.execute("INSERT INTO dbanon.child_of_grouping SELECT 1, g.* FROM dbanon_internal.find_run_groups(2) g")
    for query, found in zip(READ, before, strict=True):
        assert crossing.execute(query).fetchall() == found, query
    assert str(read_by_the_program(database)) == str(computed)  # NaN is no number, but one text
    assert find_sqlstate(crossing, PUBLISH) == "DA010"
    assert read_value(crossing, "SELECT dbanon.publish(1, 'again')") == 4
    assert read_value(crossing, "SELECT count(*) FROM published.again") == 4
    assert read_value(crossing, "SELECT count(*) FROM ONLY dbanon.grouping") == 4


def test_nobody_but_the_owner_makes_children(both: psycopg.Connection) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        both.execute("CREATE TEMP TABLE child () INHERITS (dbanon.trajectory)")


# --- a superuser who calls himself a replica ------------------------------------------------------------------------

GUARDED = {
    "DELETE FROM dbanon.release": "DA006",
    "UPDATE dbanon.release SET name = 'x'": "DA006",
    "UPDATE dbanon.release_1 SET crowd = 1": "DA006",
    "INSERT INTO dbanon.release_1 SELECT * FROM dbanon.release_1": "DA006",
    "TRUNCATE dbanon.release_1": "DA006",
    "DELETE FROM dbanon.grouping": "DA006",
    "UPDATE dbanon.grouping SET people = '{7}'": "DA006",
    "INSERT INTO dbanon.exposure VALUES (1, 7, '{[2008-06-04, 2008-06-05)}')": "DA006",
    "DELETE FROM dbanon.exposure": "DA006",
    "UPDATE dbanon.population SET key = sha256('another')": "DA006",
    "DELETE FROM dbanon.installation": "DA006",
    "TRUNCATE dbanon.fix_code": "DA006",
    "UPDATE dbanon.region SET crowd = 9 WHERE run_id = 1": "DA007",
    "UPDATE dbanon.record SET regions = regions WHERE run_id = 1": "DA007",
    "TRUNCATE dbanon.period": "DA007",
    "INSERT INTO dbanon.hiding VALUES (1, 1, NULL, '{2}')": "DA007",
    "INSERT INTO dbanon.atom VALUES (1, 1, 0)": "DA007",
    "DELETE FROM dbanon.membership WHERE run_id = 1": "DA007",
    "UPDATE dbanon.run SET seed = 1 WHERE run_id = 1": "DA007",
    "UPDATE dbanon.trajectory SET subject = 'x'": "DA007",
    "DELETE FROM dbanon.audit": "DA006",
}


@pytest.mark.many
@pytest.mark.parametrize("statement", GUARDED)
def test_guards_hold_in_a_session_that_is_a_replica(crossing: psycopg.Connection, statement: str) -> None:
    crossing.execute("SET session_replication_role = replica")
    assert find_sqlstate(crossing, statement) == GUARDED[statement]


TRIGGERS = """SELECT array_agg(format('%s %s %s', c.relname, t.tgname, t.tgenabled) ORDER BY c.relname, t.tgname)
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE c.relnamespace = 'dbanon'::regnamespace AND NOT t.tgisinternal"""


def test_a_replica_raises_revisions_and_leaves_lines(crossing: psycopg.Connection) -> None:
    lines = "SELECT array_agg(action ORDER BY audit_id) FROM dbanon.audit WHERE audit_id > {}"
    last = read_value(crossing, "SELECT max(audit_id) FROM dbanon.audit")
    crossing.execute("SET session_replication_role = replica")
    crossing.execute("SELECT dbanon.publish(1, 'again')")
    crossing.execute("UPDATE dbanon.trajectory SET path = ST_Translate(path, 1, 0)")
    assert read_value(crossing, lines.format(last)) == ["publish", "change"]
    assert find_sqlstate(crossing, "SELECT dbanon.publish(1, 'third')") == "DA005"


def test_every_trigger_is_always_on(crossing: psycopg.Connection) -> None:
    found = crossing.execute(
        "SELECT c.relname, t.tgname, t.tgenabled FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
        " WHERE c.relnamespace = 'dbanon'::regnamespace AND c.relkind <> 'v' AND NOT t.tgisinternal"
    ).fetchall()
    assert len(found) > 60
    assert {(name, trigger) for name, trigger, enabled in found if enabled != "A"} == set()
    assert ("release_1", "refuse_change", "A") in [(n, t, e) for n, t, e in found]


def test_an_upgrade_puts_triggers_right_that_were_switched_on_by_hand(
    database: str, crossing: psycopg.Connection
) -> None:
    before = read_value(crossing, TRIGGERS)
    for table in (*TABLES, "release_1"):
        crossing.execute(f"ALTER TABLE dbanon.{table} DISABLE TRIGGER USER, ENABLE TRIGGER USER")
    assert read_value(crossing, TRIGGERS) != before
    schema.upgrade(database, share_roles=True)
    assert read_value(crossing, TRIGGERS) == before


@pytest.mark.many
@pytest.mark.parametrize("table", ["region", "period", "record", "membership", "hiding", "atom"])
@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_nothing_is_emptied_on_a_snapshot_that_misses_a_release(
    crossing: psycopg.Connection, login: Login, table: str, level: str
) -> None:
    crossing.execute("SELECT dbanon.unpublish('first')")
    with psycopg.connect(login("dbanon_admin")) as admin:
        admin.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        admin.execute("SELECT FROM dbanon.run")
        crossing.execute("SELECT dbanon.publish(1, 'late')")
        with pytest.raises(psycopg.Error) as caught:
            admin.execute(f"TRUNCATE dbanon.{table}")
    assert caught.value.sqlstate == "DA015"


# --- a restore ------------------------------------------------------------------------------------------------------


@pytest.mark.stress
@pytest.mark.parametrize("way", [[], ["--jobs=2"], ["--disable-triggers"]], ids=str)
def test_a_restored_database_has_all_guards_on(
    database: str, crossing: psycopg.Connection, login: Login, tmp_path: Path, way: list[str]
) -> None:
    name, dumped = f"dbanon_restored_{secrets.token_hex(4)}", tmp_path / "dump"
    url = database_url(database, dbname=name)
    subprocess.run([*find_client("pg_dump", database), "-Fc", "-d", database, "-f", dumped], check=True)
    crossing.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        subprocess.run([*find_client("pg_restore", database), "--exit-on-error", *way, "-d", url, dumped], check=True)
        with psycopg.connect(url, autocommit=True) as restored:
            assert read_value(restored, TRIGGERS) == read_value(crossing, TRIGGERS)
            restored.execute(CONFIRM)
            assert read_value(restored, "SELECT dbanon.publish(1, 'again')") == 4
            assert find_sqlstate(restored, PUBLISH) == "DA010"
            restored.execute("SET session_replication_role = replica")
            assert {statement: find_sqlstate(restored, statement) for statement in GUARDED} == GUARDED
    finally:
        crossing.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def test_a_publication_waits_for_a_load_for_a_bounded_time(
    database: str, connection: psycopg.Connection, run: int, login: Login
) -> None:
    connection.execute(
        "ALTER FUNCTION dbanon.publish(bigint, text, boolean, boolean, text, boolean, text[], boolean)"
        " SET lock_timeout = '200ms'"
    )
    with psycopg.connect(login("operator")) as loading, psycopg.connect(login("operator"), autocommit=True) as operator:
        loading.execute("DELETE FROM dbanon.request WHERE subject = 'p0'")
        assert find_sqlstate(operator, "SELECT dbanon.publish(1, 'ten')") == "DA013"


def test_what_a_release_says_of_its_grid_stays(connection: psycopg.Connection, run: int) -> None:
    connection.execute("SELECT dbanon.publish(1, 'ten')")
    for column in ("grid_m = 100", "grid_s = 3600"):
        assert find_sqlstate(connection, f"UPDATE dbanon.dataset SET {column}") == "DA007"


def test_what_a_release_says_of_its_program_is_verified(connection: psycopg.Connection, run: int) -> None:
    assert find_sqlstate(connection, "UPDATE dbanon.run SET program_version = 'home of p7: 12, 7'") == "23514"
    connection.execute("UPDATE dbanon.run SET program_version = '9.9'")
    assert find_sqlstate(connection, "SELECT dbanon.publish(1, 'ten')") == "DA005"


def test_no_channel_stops_the_queue(login: Login) -> None:
    with psycopg.connect(login("worker"), autocommit=True) as worker:
        query = "INSERT INTO dbanon.worker (name, channel, held_by) VALUES ('x', '', dbanon_internal.hold_lock())"
        assert find_sqlstate(worker, query) == "23514"
