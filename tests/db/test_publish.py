"""The gate: what it lets through, what it refuses, and that what was let through stays."""

import itertools
import re
from collections.abc import Callable

import psycopg
import pytest
from psycopg.types.json import Jsonb

from dbanon.methods import METHODS
from dbanon.schema import _text
from tests.db.methods import change_methods
from tests.facts import demand_named
from tests.reading import collect_notices, read_value

Verify = Callable[..., None]


@pytest.fixture
def connection(scratch: psycopg.Connection) -> psycopg.Connection:
    """Nothing here commits."""
    return scratch


@pytest.fixture
def run(scratch: psycopg.Connection) -> int:
    """The run is there already."""
    return 1


def publish(connection: psycopg.Connection, name: str = "ten", run: int = 1) -> object:
    return read_value(connection, "SELECT dbanon.publish(%s, %s)", run, name)


def catch_refusal(connection: psycopg.Connection, statement: str, *params: object) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        connection.execute(statement, params)
    assert caught.value.sqlstate is not None
    assert caught.value.sqlstate.startswith("DA"), caught.value
    assert caught.value.diag.message_detail
    assert caught.value.diag.message_hint
    return caught.value


def name_own_table(connection: psycopg.Connection) -> str:
    return str(read_value(connection, "SELECT 'dbanon.release_' || max(release_id) FROM dbanon.release"))


def write_another_run(connection: psycopg.Connection) -> object:
    return read_value(
        connection,
        "INSERT INTO dbanon.run (dataset_id, method, algorithm) VALUES (1, 'tp-aware', 'traj-anon') RETURNING run_id",
    )


def list_copies(connection: psycopg.Connection) -> list[tuple[object, ...]]:
    return connection.execute(
        "SELECT seq, ST_AsText(region), crowd, subjects, valid_from, valid_to, requests FROM published.ten"
        " ORDER BY ST_XMin(region), seq"
    ).fetchall()


# --- what comes out ---------------------------------------------------------------------------------------------------


def test_a_verified_run_becomes_a_view_of_the_same_rows(connection: psycopg.Connection, run: int) -> None:
    assert publish(connection) == 4
    stored = connection.execute(
        "SELECT seq, ST_AsText(region), crowd, subjects, lower(period), upper(period),"
        " coalesce(extra -> 'requests', '[]') FROM dbanon.cloak ORDER BY ST_XMin(region), seq"
    ).fetchall()
    assert list_copies(connection) == stored
    assert connection.execute(
        "SELECT name, run_id, rows, digest = dbanon_internal.compute_run_digest(1) FROM dbanon.release"
    ).fetchall() == [("ten", 1, 4, True)]


def test_the_server_has_statistics_of_a_large_run_when_it_is_published(own: psycopg.Connection) -> None:
    own.execute("UPDATE dbanon.run SET rows = 100001")
    known = "SELECT count(*) FROM pg_stats WHERE schemaname = 'dbanon' AND tablename = 'membership'"
    assert read_value(own, known) == 0
    assert publish(own) == 4
    assert read_value(own, known) != 0


def test_the_longest_row_is_one_of_those_published(own: psycopg.Connection, verify: Verify) -> None:
    period = "[4714-11-24 00:00+00 BC, 2009-01-01 00:00+00)"
    own.execute("INSERT INTO dbanon.period (run_id, period_no, period) VALUES (1, 99, %s)", [period])
    verify(own)
    publish(own)
    assert read_value(own, "SELECT longest_s FROM dbanon.release") == 60


def test_no_row_is_looked_for_before_the_first_time_of_its_part(connection: psycopg.Connection, run: int) -> None:
    first = """
        SELECT extract(epoch FROM published_inner.first_from(
            jsonb_populate_record(NULL::published.releases,
                jsonb_build_object('longest_s', %s::float8, 'starts', ARRAY[p.start])),
            tstzrange(p.start + '300 s', NULL)) - p.start)
        FROM (VALUES ('2008-06-04 08:00Z'::timestamptz), ('4714-11-24 00:00:00+00 BC')) p (start)
    """
    for longest_s, after_s in ((60, 240), (86400, 0), (2e11, 0), (None, 0)):
        assert connection.execute(first, [longest_s]).fetchall() == [(after_s,), (after_s,)]


def test_the_view_has_the_fixed_columns_first_and_then_the_methods_own(
    connection: psycopg.Connection, run: int
) -> None:
    publish(connection)
    columns = connection.execute(
        "SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = 'published.ten'::regclass AND attnum > 0 ORDER BY attnum"
    ).fetchall()
    assert [row[0] for row in columns] == [
        "cloak_id bigint",
        "record_id bigint",
        "seq integer",
        "region geometry(Polygon,32610)",
        "crowd integer",
        "subjects integer",
        "valid_from timestamp with time zone",
        "valid_to timestamp with time zone",
        "requests jsonb",
    ]


def test_the_view_selects_everything_without_a_condition(connection: psycopg.Connection, run: int) -> None:
    for replace in (False, True):
        connection.execute("SELECT dbanon.publish(1, 'ten', replace => %s)", [replace])
        definition = str(read_value(connection, "SELECT pg_get_viewdef('published.ten'::regclass)"))
        assert "WHERE" not in definition
        assert re.search(r"FROM ONLY (dbanon\.)?release_\d+;", definition)


def test_the_releases_table_is_indexed_by_space_time_and_key(connection: psycopg.Connection, run: int) -> None:
    publish(connection)
    rows = connection.execute(
        "SELECT indexdef FROM pg_indexes WHERE tablename LIKE 'release\\_%' AND tablename <> 'release'"
    )
    text = " ".join(row[0] for row in rows)
    for part in ("gist (region)", "(cloak_id)", "(record_id, seq)", "(valid_from, valid_to)"):
        assert part in text
    assert "brin (tstzrange(valid_from, valid_to))" in text  # one of each range takes as long as all others together


def test_comments_tell_the_guarantee_and_k_but_no_seed(connection: psycopg.Connection, run: int) -> None:
    publish(connection)
    claim = str(read_value(connection, "SELECT obj_description('published.ten'::regclass, 'pg_class')"))
    assert "At least k people" in claim
    assert "k is 5" in claim
    bare = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'published.ten'::regclass AND attnum > 0"
    assert read_value(connection, bare + " AND col_description(attrelid, attnum) IS NULL") == 0
    assert read_value(connection, "SELECT count(*) FROM pg_description WHERE description LIKE '%%424242%%'") == 0


def test_rows_are_numbered_from_one_and_stored_as_what_is_published_orders_them(
    connection: psycopg.Connection, run: int
) -> None:
    publish(connection)
    query = f"SELECT record_id, seq, cloak_id FROM {name_own_table(connection)} ORDER BY "
    rows = connection.execute(query + "ctid").fetchall()
    assert rows == connection.execute(query + "valid_from, cloak_id").fetchall()
    assert sorted(rows) == [(1, 1, 1), (1, 2, 2), (2, 1, 3), (2, 2, 4)]


def test_the_numbering_differs_from_release_to_release(connection: psycopg.Connection, run: int) -> None:
    firsts = set()
    for number in itertools.takewhile(lambda _: len(firsts) < 2, range(40)):
        publish(connection, f"r{number}")
        firsts.add(read_value(connection, f"SELECT ST_XMin(region) FROM published.r{number} WHERE cloak_id = 1"))
    assert firsts == {0.0, 70.0}


@pytest.mark.many
@pytest.mark.parametrize(
    ("figure", "sentence"),
    [(f, text) for family in METHODS.values() for f, text in family.notices.items() if f != "left_out"],
)
def test_a_notice_says_what_the_attack_counted_that_somebody_should_know(
    own: psycopg.Connection, figure: str, sentence: str
) -> None:
    notices = collect_notices(own)
    publish(own, "silent")
    assert notices == []
    own.execute("SELECT dbanon.unpublish('silent')")
    notice = Jsonb({"notices": {figure: sentence}})
    change_methods(own, "UPDATE dbanon.method SET traits = traits || %s WHERE name = 'tp-aware'", [notice])
    figures = dict.fromkeys([figure, *re.findall(r"{(\w+)}", sentence)], 3)
    own.execute("UPDATE dbanon.verification SET figures = %s", [Jsonb(figures)])
    publish(own, "three")
    assert len(notices) == 2
    demand_named(str(notices[0]), "same", "silent (withdrawn)")
    assert notices[1] == re.sub(r"{\w+}", "3", sentence % 3)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_run_that_does_not_exist_is_refused(connection: psycopg.Connection) -> None:
    assert catch_refusal(connection, "SELECT dbanon.publish(99, 'ten')").sqlstate == "DA001"
    assert catch_refusal(connection, "SELECT dbanon.publish(NULL, 'ten')").sqlstate == "DA001"


@pytest.mark.many
@pytest.mark.parametrize("status", ["queued", "running", "computed", "refused", "failed", "cancelled"])
def test_only_verified_runs_are_published(connection: psycopg.Connection, run: int, status: str) -> None:
    connection.execute("UPDATE dbanon.run SET status = %s", [status])
    error = catch_refusal(connection, "SELECT dbanon.publish(1, 'ten')")
    assert error.sqlstate == "DA004"
    demand_named(str(error.diag.message_primary), "verified", "run 1", status)


def test_a_run_without_a_verification_is_refused(own: psycopg.Connection) -> None:
    own.execute("DELETE FROM dbanon.verification")
    assert catch_refusal(own, "SELECT dbanon.publish(1, 'ten')").sqlstate == "DA004"


def test_the_latest_verification_counts(own: psycopg.Connection, verify: Verify) -> None:
    verify(own, passed=False)
    assert catch_refusal(own, "SELECT dbanon.publish(1, 'ten')").sqlstate == "DA004"
    verify(own)
    assert publish(own) == 4


def test_a_verification_by_another_attack_does_not_count(own: psycopg.Connection) -> None:
    own.execute("UPDATE dbanon.verification SET attack = 'gentle'")
    assert catch_refusal(own, "SELECT dbanon.publish(1, 'ten')").sqlstate == "DA004"


def test_a_run_of_an_algorithm_that_left_the_registry_stays_refused(own: psycopg.Connection, verify: Verify) -> None:
    entry = '[{"name": "older", "summary": "s", "stands_alone": false}]'
    change_methods(
        own, "UPDATE dbanon.method SET algorithms = algorithms || %s::jsonb WHERE name = 'tp-aware'", [entry]
    )
    own.execute("UPDATE dbanon.run SET algorithm = 'older'")
    verify(own)
    assert publish(own, "while_it_is_known") == 4
    change_methods(own, _text._format_method(METHODS["tp-aware"]))
    verify(own)
    error = catch_refusal(own, "SELECT dbanon.publish(1, 'ten')")
    assert error.sqlstate == "DA004"
    demand_named(str(error.diag.message_primary), "registry", "tp-aware", "Run 1", "older")


TAMPERINGS = {
    "a cloak moved": "UPDATE dbanon.cloak SET region = ST_Translate(region, 1, 0) WHERE (record_id, seq) = (1, 1)",
    "a period shortened": "UPDATE dbanon.cloak SET period = tstzrange(lower(period), upper(period) - interval '1 us')"
    " WHERE (record_id, seq) = (2, 2)",
    "a cloak dropped": "DELETE FROM dbanon.cloak WHERE (record_id, seq) = (2, 2)",
    "a crowd raised": "UPDATE dbanon.cloak SET crowd = 6 WHERE (record_id, seq) = (1, 1)",
    "subjects lowered": "UPDATE dbanon.cloak SET subjects = 4 WHERE (record_id, seq) = (1, 1)",
    "a request invented": """UPDATE dbanon.cloak SET extra = '{"requests": [{"poi": "bar"}]}' WHERE record_id = 2""",
    "a request dropped": "UPDATE dbanon.cloak SET extra = NULL",
    "two rows swapped": "UPDATE dbanon.cloak c SET extra = o.extra FROM dbanon.cloak o"
    " WHERE c.record_id = 1 AND o.record_id = 1 AND o.seq = 3 - c.seq",
    "a row invented": "INSERT INTO dbanon.cloak SELECT run_id, 3, seq, period, region, crowd, subjects, extra"
    " FROM dbanon.cloak WHERE record_id = 1",
    "a member dropped": "DELETE FROM dbanon.membership WHERE trajectory_id = 104",
    "a member doubled": "INSERT INTO dbanon.membership SELECT * FROM dbanon.membership WHERE trajectory_id = 104",
    "a member in two bundles": "INSERT INTO dbanon.membership VALUES (1, 2, 104, NULL)",
    "a member for a stretch": "UPDATE dbanon.membership SET period = '[2008-06-04,2008-06-05)' WHERE record_id = 2",
    "two members exchanged": "UPDATE dbanon.membership SET trajectory_id = 209 - trajectory_id"
    " WHERE trajectory_id IN (104, 105)",
    "k lowered": """UPDATE dbanon.run SET params = params || '{"k": 4}'""",
    "a fix moved": "UPDATE dbanon.trajectory SET path = ST_Translate(path, 1, 0) WHERE trajectory_id = 104",
    "a trajectory loaded": "INSERT INTO dbanon.trajectory (dataset_id, subject, path)"
    " VALUES (1, 'late', 'SRID=32610;POINT M (1 1 1)')",
    "a subject renamed": "UPDATE dbanon.trajectory SET subject = 'p1' WHERE trajectory_id = 104",
    "a request loaded": "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content)"
    " VALUES (1, 'p1', now(), '{}')",
    "the grid changed": "UPDATE dbanon.dataset SET grid_m = 2",
}


@pytest.mark.many
@pytest.mark.parametrize("statement", TAMPERINGS.values(), ids=TAMPERINGS.keys())
def test_any_change_since_the_verification_is_refused(own: psycopg.Connection, statement: str) -> None:
    own.execute(statement)
    error = catch_refusal(own, "SELECT dbanon.publish(1, 'ten')")
    assert error.sqlstate == "DA005"
    loaded = "SELECT r.dataset_revision <> d.revision FROM dbanon.run r JOIN dbanon.dataset d USING (dataset_id)"
    changed = own.execute(loaded).fetchone() == (True,)
    demand_named(str(error.diag.message_hint), "CALL dbanon.anonymize" if changed else "SELECT dbanon.verify_run(1)")
    assert read_value(own, "SELECT count(*) FROM dbanon.release") == 0


def test_undoing_a_change_of_rows_makes_the_verdict_good_again(own: psycopg.Connection) -> None:
    own.execute("UPDATE dbanon.cloak SET crowd = crowd + 1")
    own.execute("UPDATE dbanon.cloak SET crowd = crowd - 1")
    assert publish(own) == 4


def test_a_name_is_free_again_only_after_withdrawal(connection: psycopg.Connection, run: int) -> None:
    publish(connection)
    assert catch_refusal(connection, "SELECT dbanon.publish(1, 'ten')").sqlstate == "DA003"
    connection.execute("SELECT dbanon.unpublish('ten')")
    assert publish(connection) == 4


def test_a_foreign_object_in_published_is_never_replaced(connection: psycopg.Connection, run: int) -> None:
    connection.execute("CREATE TABLE published.ten (a integer)")
    assert catch_refusal(connection, "SELECT dbanon.publish(1, 'ten')").sqlstate == "DA003"


# --- the digest -------------------------------------------------------------------------------------------------------


@pytest.mark.many
@pytest.mark.parametrize(
    "setting",
    [
        "TimeZone = 'Pacific/Kiritimati'",
        "DateStyle = 'German, DMY'",
        "bytea_output = 'escape'",
        "client_encoding = 'LATIN1'",
        "search_path = 'public, dbanon'",
        "extra_float_digits = -10",
        "IntervalStyle = 'sql_standard'",
        "enable_sort = off",
        "enable_indexscan = off",
        "enable_hashagg = off",
    ],
)
def test_the_digest_does_not_depend_on_settings(connection: psycopg.Connection, run: int, setting: str) -> None:
    connection.execute("""UPDATE dbanon.cloak SET extra = '{"requests": [{"poi": "Zoë", "n": 1.50}]}' WHERE seq = 1""")
    before = read_value(connection, "SELECT dbanon_internal.compute_run_digest(1)")
    connection.execute(f"SET {setting}")
    assert read_value(connection, "SELECT dbanon_internal.compute_run_digest(1)") == before


def test_the_digest_does_not_depend_on_the_order_rows_lie_in(connection: psycopg.Connection, run: int) -> None:
    before = read_value(connection, "SELECT dbanon_internal.compute_run_digest(1)")
    connection.execute("UPDATE dbanon.membership SET record_id = record_id WHERE trajectory_id % 2 = 0")
    connection.execute("UPDATE dbanon.cloak SET crowd = crowd WHERE seq = 1")
    assert read_value(connection, "SELECT dbanon_internal.compute_run_digest(1)") == before


def test_the_digest_of_no_run_is_null_and_of_an_empty_one_is_not(connection: psycopg.Connection, run: int) -> None:
    assert read_value(connection, "SELECT dbanon_internal.compute_run_digest(99)") is None
    connection.execute("DELETE FROM dbanon.cloak")
    connection.execute("DELETE FROM dbanon.membership")
    assert len(bytes(read_value(connection, "SELECT dbanon_internal.compute_run_digest(1)"))) == 32  # type: ignore[call-overload]


# --- what stays -------------------------------------------------------------------------------------------------------


@pytest.mark.many
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {table} SET crowd = 9",
        "DELETE FROM {table}",
        "INSERT INTO {table} SELECT * FROM {table}",
        "TRUNCATE {table}",
        "UPDATE published.ten SET crowd = 9",
        "DELETE FROM dbanon.release",
        "UPDATE dbanon.release SET name = 'other'",
        "UPDATE dbanon.release SET digest = ''",
        "TRUNCATE dbanon.release CASCADE",
        "UPDATE dbanon.release SET overlap = '{}'",
        "UPDATE dbanon.release SET overlap_reason = 'somebody said so'",
        "DELETE FROM dbanon.grouping",
        "TRUNCATE dbanon.grouping",
    ],
)
def test_a_release_is_never_changed(connection: psycopg.Connection, run: int, statement: str) -> None:
    publish(connection)
    connection.execute("SET CONSTRAINTS ALL IMMEDIATE")  # as at its commit
    statement = statement.replace("{table}", name_own_table(connection))
    assert catch_refusal(connection, statement).sqlstate == "DA006"


@pytest.mark.many
@pytest.mark.parametrize("withdrawn", [False, True])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE dbanon.cloak SET crowd = 9 WHERE seq = 1",
        "DELETE FROM dbanon.cloak",
        "INSERT INTO dbanon.cloak SELECT run_id, 3, seq, period, region, crowd, subjects FROM dbanon.cloak"
        " WHERE record_id = 1",
        "UPDATE dbanon.region SET crowd = 9",
        "DELETE FROM dbanon.period",
        "UPDATE dbanon.record SET regions = periods",
        "INSERT INTO dbanon.hiding VALUES (1, 1, NULL, '{2}')",
        "INSERT INTO dbanon.atom VALUES (1, 1, 0)",
        "TRUNCATE dbanon.region",
        "TRUNCATE dbanon.period",
        "TRUNCATE dbanon.record",
        "TRUNCATE dbanon.hiding",
        "UPDATE dbanon.membership SET record_id = 2",
        "DELETE FROM dbanon.membership WHERE record_id = 2",
        "INSERT INTO dbanon.membership VALUES (1, 1, 105, NULL)",
        "TRUNCATE dbanon.membership",
        "UPDATE dbanon.run SET params = '{}'",
        "UPDATE dbanon.run SET seed = 1",
    ],
)
def test_what_was_ever_published_keeps_its_grouping(
    connection: psycopg.Connection, run: int, statement: str, withdrawn: bool
) -> None:
    publish(connection)
    if withdrawn:
        connection.execute("SELECT dbanon.unpublish('ten')")
    assert catch_refusal(connection, statement).sqlstate == "DA007"


@pytest.mark.parametrize("withdrawn", [False, True])
def test_in_a_dataset_that_was_ever_published_nobody_takes_another_name(
    own: psycopg.Connection, verify: Verify, withdrawn: bool
) -> None:
    rename = "UPDATE dbanon.trajectory SET subject = %s WHERE trajectory_id = 104"
    own.execute(rename, ["p4b"])
    own.execute(rename, ["p4"])
    verify(own)
    publish(own)
    if withdrawn:
        own.execute("SELECT dbanon.unpublish('ten')")
    assert catch_refusal(own, rename, "p4b").sqlstate == "DA007"
    own.execute(rename, ["p4"])  # the name it has
    own.execute(
        "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('eleven', 32610, 1, 60);"
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path)"
        " SELECT max(dataset_id), 'new', 'SRID=32610;POINT M (1 1 1)' FROM dbanon.dataset;"
        "UPDATE dbanon.trajectory SET subject = 'newer' WHERE subject = 'new'"  # nothing of that was published
    )
    away = "UPDATE dbanon.trajectory SET dataset_id = (SELECT max(dataset_id) FROM dbanon.dataset)"
    assert catch_refusal(own, away).sqlstate == "DA007"


def test_rows_cannot_be_moved_into_a_released_run(connection: psycopg.Connection, run: int) -> None:
    publish(connection)
    other = write_another_run(connection)
    connection.execute("INSERT INTO dbanon.membership VALUES (%s, 1, 100, NULL)", [other])
    error = catch_refusal(connection, "UPDATE dbanon.membership SET run_id = 1 WHERE run_id = %s", other)
    assert error.sqlstate == "DA007"


def test_a_released_run_cannot_be_deleted_nor_its_dataset(connection: psycopg.Connection, run: int) -> None:
    publish(connection)
    connection.execute("SELECT dbanon.unpublish('ten')")
    for table in ("run", "dataset"):
        with pytest.raises(psycopg.errors.IntegrityError), connection.transaction():
            connection.execute(f"DELETE FROM dbanon.{table}")


def test_other_runs_can_be_written_beside_a_released_one(connection: psycopg.Connection, run: int) -> None:
    publish(connection)
    other = write_another_run(connection)
    copy = "INSERT INTO dbanon.membership SELECT %s, record_id, trajectory_id, period FROM dbanon.membership"
    connection.execute(copy, [other])
    connection.execute("DELETE FROM dbanon.run WHERE run_id = %s", [other])
    assert read_value(connection, "SELECT count(*) FROM dbanon.membership") == 10


# --- withdrawal -------------------------------------------------------------------------------------------------------


def test_withdrawal_drops_the_rows_and_keeps_the_record_of_it(connection: psycopg.Connection, run: int) -> None:
    publish(connection)
    table = name_own_table(connection)
    assert read_value(connection, "SELECT dbanon.unpublish('ten')") == 1
    assert read_value(connection, "SELECT to_regclass('published.ten')") is None
    assert read_value(connection, "SELECT to_regclass(%s)", table) is None
    row = connection.execute("SELECT withdrawn_at IS NOT NULL, withdrawn_by = session_user, name FROM dbanon.release")
    assert row.fetchone() == (True, True, "ten")
    assert read_value(connection, "SELECT count(*) FROM dbanon.membership") == 10


def test_withdrawing_twice_says_there_is_none(connection: psycopg.Connection, run: int) -> None:
    publish(connection)
    connection.execute("SELECT dbanon.unpublish('ten')")
    assert catch_refusal(connection, "SELECT dbanon.unpublish('ten')").sqlstate == "DA001"
    assert catch_refusal(connection, "UPDATE dbanon.release SET withdrawn_at = now()").sqlstate == "DA006"


def test_views_on_a_release_do_not_hold_up_its_withdrawal(connection: psycopg.Connection, run: int) -> None:
    publish(connection)
    connection.execute("CREATE VIEW public.mine AS SELECT * FROM published.ten")
    connection.execute("SELECT dbanon.unpublish('ten')")
    assert read_value(connection, "SELECT to_regclass('public.mine')") is None


# --- the dead ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["running", "computed"])
def test_a_run_nobody_holds_is_failed_without_rows(connection: psycopg.Connection, run: int, status: str) -> None:
    connection.execute("UPDATE dbanon.run SET status = %s, todo = 'compute', worker = 'w', attempts = 3", [status])
    assert read_value(connection, "SELECT dbanon_internal.reap_runs()") == 1
    row = connection.execute("SELECT status, finished_at IS NOT NULL, error FROM dbanon.run").fetchone()
    assert row[:2] == ("failed", True)
    demand_named(row[2], "process", "start another run")
    assert read_value(connection, "SELECT count(*) FROM dbanon.cloak") == 0
    assert read_value(connection, "SELECT count(*) FROM dbanon.membership") == 0


@pytest.mark.many
@pytest.mark.parametrize("status", ["queued", "verified", "refused", "failed", "cancelled"])
def test_runs_that_wait_or_are_done_are_left_alone(connection: psycopg.Connection, run: int, status: str) -> None:
    connection.execute("UPDATE dbanon.run SET status = %s", [status])
    assert read_value(connection, "SELECT dbanon_internal.reap_runs()") == 0
    assert read_value(connection, "SELECT status FROM dbanon.run") == status
