"""Whoever does something leaves one line in dbanon.audit, and nobody takes it back."""

from collections.abc import Callable

import psycopg
import pytest
from psycopg import errors

from tests.facts import expect_refusal

Login = Callable[[str], str]

LINES = "SELECT action, dataset, run_id, release, detail FROM dbanon.audit WHERE audit_id > %s ORDER BY audit_id"

# Statement, who gives it, and the line it must leave, after those of the verified run of ten people.
PARAMS = {
    **{"k": 7, "align": "last", "cloak": "mbr", "start": None, "step_s": 60, "improve": True, "guests": True},
    **{"instants": 30, "max_gap_s": 300, "min_cloak_m": None, "min_contents": 1, "since": None, "until": None},
}
ACTIONS = [
    (
        "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('new', 32610, 1, 60)",
        "dbanon_operator",
        ("create", "new", None, None, {"srid": 32610, "grid_m": 1, "grid_s": 60}),
    ),
    (
        "UPDATE dbanon.dataset SET grid_m = 5 WHERE name = 'ten'",
        "dbanon_operator",
        (
            "regrid",
            "ten",
            None,
            None,
            {
                "srid": 32610,
                "grid_m": 5,
                "grid_s": 60,
                "was": {"dataset": "ten", "srid": 32610, "grid_m": 1, "grid_s": 60},
            },
        ),
    ),
    (
        """SELECT dbanon.submit_run('ten', 'tp-aware', '{"k": 7}', seed => 31337)""",
        "dbanon_operator",
        ("submit", "ten", 2, None, {"method": "tp-aware", "algorithm": "traj-anon", "params": PARAMS}),
    ),
    (
        "UPDATE dbanon.run SET cancel_requested_at = now(), cancel_requested_by = session_user",
        "dbanon_worker",
        ("cancel", "ten", 1, None, {"status": "verified"}),
    ),
    (
        "INSERT INTO dbanon.verification (run_id, attack, passed, figures, digest)"
        """ VALUES (1, 'tp-aware', false, '{"groups_below_k": 1}', '')""",
        "dbanon_worker",
        ("verify", "ten", 1, None, {"attack": "tp-aware", "passed": False}),
    ),
    ("SELECT dbanon.publish(1, 'more')", "dbanon_operator", ("publish", "ten", 1, "more", {"rows": 4})),
]

# A load of an event, and of one that cannot be used, from a file that is called after a person.
LOAD = """
DO $$
DECLARE
    n CONSTANT bigint := dbanon_internal.begin_record(1, 'requests', ARRAY['/home/anna/p3.csv', '/home/anna/p4.csv']);
BEGIN
    INSERT INTO dbanon.request (dataset_id, load_id, subject, sent_at, content) VALUES (1, n, 'p3', now(), '{}');
    INSERT INTO dbanon.quarantine (load_id, line, reason, content) VALUES (n + 1, 1, 'bad-time-p3', '{}');
    PERFORM dbanon_internal.count_record(n, ARRAY[1, 1]);
END
$$
"""


def find_last_line(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT coalesce(max(audit_id), 0) FROM dbanon.audit").fetchone()
    assert row
    return int(row[0])


@pytest.mark.many
@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(("statement", "role", "line"), ACTIONS, ids=[line[0] for _, _, line in ACTIONS])
def test_an_action_leaves_its_one_line(
    connection: psycopg.Connection, login: Login, statement: str, role: str, line: tuple[object, ...]
) -> None:
    before = find_last_line(connection)
    with psycopg.connect(login(role), autocommit=True) as somebody:
        somebody.execute(statement)
        user = somebody.info.user
    assert connection.execute(LINES, [before]).fetchall() == [line]
    row = connection.execute("SELECT login, now() - at < '1 min' FROM dbanon.audit ORDER BY audit_id DESC").fetchone()
    assert row == (user, True)


@pytest.mark.usefixtures("run")
def test_a_load_is_recorded_by_what_counts_it(connection: psycopg.Connection, login: Login) -> None:
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as somebody:
        somebody.execute(LOAD)
        user = somebody.info.user
    told = [
        {"load_id": number, "kind": "requests", "rows_read": 1, "rows_kept": kept} for number, kept in ((1, 1), (2, 0))
    ]
    lines = connection.execute(
        "SELECT login, dataset, detail FROM dbanon.audit WHERE action = 'load' ORDER BY audit_id"
    )
    assert lines.fetchall() == [(user, "ten", detail) for detail in told]
    loads = connection.execute("SELECT load_id, part_of, rows_kept, quarantined FROM dbanon.load ORDER BY load_id")
    assert loads.fetchall() == [(1, None, 1, {}), (2, 1, 0, {"bad-time-p3": 1})]


FORGED = {
    "INSERT INTO dbanon.load (dataset_id, kind, source, rows_read, rows_kept) VALUES (1, 'pois', 'f', 9, 9)": "42501",
    LOAD.replace("ARRAY[1, 1]", "ARRAY[999999, 1]"): "DA012",
    LOAD.replace("ARRAY[1, 1]", "ARRAY[1, 0]"): "DA012",
    LOAD.replace("ARRAY[1, 1]", "ARRAY[2]"): "DA012",
    LOAD.replace("(1, n, 'p3'", "(1, NULL, 'p3'"): "DA012",
    LOAD.replace("'requests', ARRAY", "'words of mine', ARRAY"): "DA011",
    LOAD + ";SELECT dbanon_internal.count_record(max(load_id), '{7}') FROM dbanon.load": "DA001",
}


@pytest.mark.usefixtures("run")
def test_a_load_that_was_not_is_not_recorded(connection: psycopg.Connection, login: Login) -> None:
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as somebody:
        for statement, state in FORGED.items():
            with expect_refusal(state):
                somebody.execute(statement)
        somebody.execute("SELECT dbanon_internal.begin_record(1, 'requests', ARRAY['never.csv'])")
        with expect_refusal("DA001"):  # in another transaction than the one that began it
            somebody.execute("SELECT dbanon_internal.count_record(max(load_id), '{0}') FROM dbanon.load")
        somebody.execute(
            "SELECT dbanon_internal.count_record(dbanon_internal.begin_record(1, 'sites', ARRAY['none.csv']), '{0}')"
        )
    assert connection.execute("SELECT count(*) FROM dbanon.audit WHERE action = 'load'").fetchone() == (0,)
    assert connection.execute("SELECT source, rows_read FROM dbanon.load").fetchall() == [("never.csv", 0)]


def test_withdrawing_dropping_and_deleting_leave_a_line_each(connection: psycopg.Connection, run: int) -> None:
    connection.execute("SELECT dbanon.publish(1, 'ten')")
    connection.execute(
        "INSERT INTO dbanon.run (dataset_id, method, algorithm, status)"
        " SELECT 1, 'tp-aware', 'traj-anon', 'failed' FROM generate_series(1, 3)"
    )
    connection.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('old', 32610, 1, 60)")
    connection.execute(
        "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) SELECT max(dataset_id), 'p3', now(), '{}'"
        " FROM dbanon.dataset"
    )
    before = find_last_line(connection)
    connection.execute("SELECT dbanon.unpublish('ten')")
    connection.execute("DELETE FROM dbanon.run WHERE status = 'failed'")
    connection.execute("DELETE FROM dbanon.dataset WHERE name = 'old'")
    dropped = {"method": "tp-aware", "algorithm": "traj-anon", "status": "failed"}
    lines = connection.execute(LINES, [before]).fetchall()
    (gone,) = [line for line in lines[4:-1] if line[0] == "change"]  # what the dataset held goes with it
    assert (gone[4]["table"], gone[4]["statement"], gone[4]["rows"]) == ("request", "DELETE", 1)
    assert [line for line in lines if line[0] != "change"] == [
        ("unpublish", "ten", 1, "ten", {}),
        *(("drop", "ten", key, None, dropped) for key in (2, 3, 4)),
        ("delete", "old", None, None, {}),
    ]


def test_a_release_that_overlaps_others_says_so_and_why(connection: psycopg.Connection, run: int) -> None:
    connection.execute(
        "INSERT INTO dbanon.release (name, run_id, digest, rows, overlap, overlap_reason)"
        """ VALUES ('ten', 1, '', 4, '{"crowd": 2, "k": 5}', 'the same people agreed')"""
    )
    row = connection.execute("SELECT detail FROM dbanon.audit WHERE action = 'publish'").fetchone()
    assert row == ({"rows": 4, "overlap": {"crowd": 2, "k": 5}, "overlap_reason": "the same people agreed"},)


def test_progress_of_a_run_and_a_second_wish_to_cancel_it_leave_no_line(
    connection: psycopg.Connection, run: int
) -> None:
    connection.execute("UPDATE dbanon.run SET cancel_requested_at = now()")
    before = find_last_line(connection)
    connection.execute("UPDATE dbanon.run SET cancel_requested_at = clock_timestamp()")
    connection.execute("UPDATE dbanon.run SET stage_done = 5, status = 'cancelled'")
    connection.execute("UPDATE dbanon.dataset SET revision = revision + 1")
    assert find_last_line(connection) == before


def test_what_is_undone_leaves_no_line(connection: psycopg.Connection, run: int) -> None:
    before = find_last_line(connection)
    with connection.transaction(force_rollback=True):
        connection.execute("SELECT dbanon.publish(1, 'ten')")
    assert find_last_line(connection) == before


def test_the_audit_holds_no_subject_no_seed_and_no_file(
    connection: psycopg.Connection, run: int, verify: Callable[..., None]
) -> None:
    connection.execute(LOAD)
    for statement, _, line in ACTIONS:
        if line[0] == "publish":
            verify(connection)
        connection.execute(statement)
    row = connection.execute("SELECT string_agg(a::text, '|') FROM dbanon.audit a").fetchone()
    assert row
    assert "publish" in row[0]
    for secret in ("p3", "anna", "31337", "424242", "pharmacy"):
        assert secret not in row[0]


# ---- what was loaded, changed by hand --------------------------------------------------------------------------------

ADD = "INSERT INTO dbanon.trajectory (dataset_id, subject, path) VALUES (1, 'p3', 'SRID=32610;POINT M (7 7 7)')"
MOVE = "UPDATE dbanon.trajectory SET path = ST_Translate(path, 1, 0) WHERE trajectory_id = 103"
REMOVE = "DELETE FROM dbanon.trajectory WHERE subject = 'p3'"
CHANGED = "SELECT login, detail FROM dbanon.audit WHERE action = 'change' ORDER BY audit_id"


def list_changes(connection: psycopg.Connection, operator: psycopg.Connection) -> list[tuple[str, str]]:
    """Tables that the operator changed by statements of their own, and how."""
    lines = connection.execute(CHANGED).fetchall()
    return [(told["table"], told["statement"]) for user, told in lines if user == operator.info.user]


@pytest.mark.parametrize("statement", [ADD, MOVE, REMOVE])
def test_a_change_by_hand_leaves_one_line_a_statement(
    connection: psycopg.Connection, operator: psycopg.Connection, statement: str
) -> None:
    before = [ADD] if statement == REMOVE else []  # what changes nothing leaves no line
    line = ("trajectory", statement.split(maxsplit=1)[0])
    operator.execute(statement)
    assert list_changes(connection, operator) == [line]
    with operator.transaction():
        for again in [*before, statement] * 3:
            operator.execute(again)
    assert list_changes(connection, operator).count(line) == 4
    with operator.transaction(force_rollback=True):
        for again in [*before, statement]:
            operator.execute(again)
    assert list_changes(connection, operator).count(line) == 4
    query = "SELECT DISTINCT detail ->> 'transaction' FROM dbanon.audit WHERE action = 'change' AND login = %s"
    assert len(connection.execute(query, [operator.info.user]).fetchall()) == 2


QUARANTINE = "INSERT INTO dbanon.quarantine (load_id, line, reason, content) VALUES (1, 2, 'bad-time', '{}')"
OTHER = """
INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('other', 32610, 1, 60);
INSERT INTO dbanon.trajectory (dataset_id, subject, path) SELECT 2, 'o' || i, 'SRID=32610;POINT M (7 7 7)'
FROM generate_series(1, 3) i
"""


def list_counts(connection: psycopg.Connection, operator: psycopg.Connection) -> list[tuple[str, str, str, int]]:
    """Statement, table, dataset and rows of every line that the operator's changes left."""
    query = "SELECT login, dataset, detail FROM dbanon.audit WHERE action = 'change' ORDER BY audit_id"
    return [
        (told["statement"], told["table"], dataset, told["rows"])
        for user, dataset, told in connection.execute(query)
        if user == operator.info.user
    ]


@pytest.mark.many
@pytest.mark.parametrize(
    ("statements", "told"),
    [
        (["DELETE FROM dbanon.trajectory WHERE subject < 'p3'"], [("DELETE", "other", 3), ("DELETE", "ten", 3)]),
        ([ADD, MOVE, ADD], [("INSERT", "ten", 1), ("UPDATE", "ten", 1), ("INSERT", "ten", 1)]),
        (["UPDATE dbanon.trajectory SET shape = NULL"], [("UPDATE", "other", 3), ("UPDATE", "ten", 10)]),
        (
            ["UPDATE dbanon.trajectory SET dataset_id = 1 WHERE subject = 'o1'"],
            [("UPDATE", "other", 1), ("UPDATE", "ten", 1)],
        ),
        ([ADD, "SAVEPOINT a", ADD, "ROLLBACK TO a", "SAVEPOINT b", ADD, "RELEASE b"], [("INSERT", "ten", 1)] * 2),
        (["UPDATE dbanon.trajectory SET shape = NULL WHERE false"], []),
    ],
    ids=["two datasets", "one after the other", "all of two datasets", "from one to another", "savepoints", "no row"],
)
def test_a_change_by_hand_tells_datasets_and_rows(
    connection: psycopg.Connection,
    operator: psycopg.Connection,
    statements: list[str],
    told: list[tuple[str, str, int]],
) -> None:
    connection.execute(OTHER)
    with operator.transaction():
        for statement in statements:
            operator.execute(statement)
    lines = list_counts(connection, operator)
    assert lines == [(statement, "trajectory", dataset, rows) for statement, dataset, rows in told]


def test_rows_put_into_quarantine_by_hand_are_told(
    connection: psycopg.Connection, operator: psycopg.Connection
) -> None:
    connection.execute(OTHER)
    operator.execute("SELECT dbanon_internal.begin_record(2, 'requests', ARRAY['f'])")
    with operator.transaction():
        for _ in range(2):
            operator.execute(QUARANTINE)
    assert list_counts(connection, operator) == [("INSERT", "quarantine", "other", 1)] * 2


def test_everything_an_operator_may_write_leaves_a_line(connection: psycopg.Connection, login: Login) -> None:
    """A right that is granted later needs its trigger; what only functions write needs none."""
    with psycopg.connect(login("dbanon_operator")) as somebody:
        written = somebody.execute(
            "SELECT c.oid, c.relname, w.way FROM pg_class c, unnest(ARRAY['INSERT', 'UPDATE', 'DELETE']) w (way)"
            " WHERE c.relnamespace = 'dbanon'::regnamespace AND c.relkind IN ('r', 'v') AND CASE w.way"
            " WHEN 'DELETE' THEN has_table_privilege(c.oid, w.way) ELSE has_any_column_privilege(c.oid, w.way) END"
        ).fetchall()
    bits = {"INSERT": 4, "DELETE": 8, "UPDATE": 16}
    assert len(written) > 20
    for oid, table, way in written:
        query = (
            "SELECT count(*) FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid"
            " WHERE t.tgrelid = %s AND t.tgtype & %s > 0 AND p.proname ~ '^audit_'"
        )
        assert connection.execute(query, [oid, bits[way]]).fetchone() == (1,), f"{way} on {table} leaves no line"


def test_every_way_of_changing_by_hand_within_a_transaction_is_told(
    connection: psycopg.Connection, operator: psycopg.Connection
) -> None:
    with operator.transaction():
        for statement in (ADD, MOVE, REMOVE, "DELETE FROM dbanon.request", ADD):
            operator.execute(statement)
    told = [("trajectory", way) for way in ("INSERT", "UPDATE", "DELETE")]
    assert list_changes(connection, operator) == [*told, ("request", "DELETE"), told[0]]


def test_a_load_and_a_forgetting_are_told_by_table_too(
    connection: psycopg.Connection, operator: psycopg.Connection
) -> None:
    connection.execute(
        "CREATE TABLE public.gps AS SELECT 'g' || i AS who, timestamptz '2008-06-04 08:00+00' + j * interval '1 min'"
        " AS t, ST_SetSRID(ST_MakePoint(-122.4 + i * 0.001, 37.7 + j * 0.0001), 4326) AS at"
        " FROM generate_series(1, 5) i, generate_series(0, 5) j; GRANT SELECT ON public.gps TO PUBLIC"
    )
    operator.execute(
        "SELECT dbanon.import_trajectories('public.gps', 'gps', subject => 'who', time_column => 't', geom => 'at')"
    )
    assert connection.execute("SELECT count(*) > 0 FROM dbanon.trajectory WHERE subject ~ '^g'").fetchone() == (True,)
    assert list_counts(connection, operator) == [("INSERT", "trajectory", "gps", 5)]
    operator.execute("SELECT dbanon.forget_subject('ten', 'p3')")
    assert set(list_counts(connection, operator)[1:]) == {
        ("DELETE", table, "ten", 1) for table in ("trajectory", "request")
    }


def test_what_a_load_leaves_out_is_one_line(connection: psycopg.Connection, operator: psycopg.Connection) -> None:
    connection.execute(
        "CREATE TABLE public.calls AS SELECT CASE WHEN i > 4 THEN 'p' || i END AS subject, 1212566400 + i AS time,"
        " 'cafe' AS poi FROM generate_series(1, 20) i; GRANT SELECT ON public.calls TO PUBLIC"
    )
    operator.execute("SELECT dbanon.import_requests('public.calls', dataset => 'ten', columns => ARRAY['poi'])")
    assert sorted(list_counts(connection, operator)) == [
        ("INSERT", "quarantine", "ten", 4),
        ("INSERT", "request", "ten", 16),
    ]


def test_of_two_transactions_of_one_login_at_once_both_are_told(
    connection: psycopg.Connection, operator: psycopg.Connection
) -> None:
    with psycopg.connect(operator.info.dsn, password=operator.info.password) as first:
        first.execute("SELECT now()")  # begun before the other
        operator.execute(MOVE)
        first.execute(MOVE)
        first.commit()
    assert list_changes(connection, operator) == [("trajectory", "UPDATE")] * 2


@pytest.mark.parametrize(
    "disguise",
    [
        "DO $do$ BEGIN {} /*\nPL/pgSQL function dbanon_internal.finish_load */; END $do$",
        'CREATE FUNCTION pg_temp."\nPL/pgSQL function dbanon.x"() RETURNS void LANGUAGE plpgsql AS'
        ' $do$ BEGIN {}; END $do$; SELECT pg_temp."\nPL/pgSQL function dbanon.x"()',
    ],
    ids=["a comment", "a name"],
)
def test_a_change_by_hand_cannot_look_like_one_of_ours(
    connection: psycopg.Connection, operator: psycopg.Connection, disguise: str
) -> None:
    operator.execute(disguise.format(MOVE))
    assert list_changes(connection, operator) == [("trajectory", "UPDATE")]


CHANGES = [
    "UPDATE dbanon.audit SET login = 'x'",
    "UPDATE dbanon.audit SET detail = '{}'",
    "DELETE FROM dbanon.audit",
    "TRUNCATE dbanon.audit",
]


@pytest.mark.many
@pytest.mark.parametrize("change", CHANGES)
def test_nobody_takes_a_line_back(connection: psycopg.Connection, run: int, login: Login, change: str) -> None:
    for role in ("dbanon_operator", "dbanon_worker", "dbanon_analyst"):
        with psycopg.connect(login(role), autocommit=True) as somebody, pytest.raises(errors.InsufficientPrivilege):
            somebody.execute(change)
    with psycopg.connect(login("dbanon_admin"), autocommit=True) as admin:
        demand_refusal(admin, change)
    demand_refusal(connection, change)
    connection.execute("SET session_replication_role = replica")
    demand_refusal(connection, change)


def demand_refusal(connection: psycopg.Connection, change: str) -> None:
    with expect_refusal("DA006", "dbanon.audit"):
        connection.execute(change)


@pytest.mark.parametrize("role", ["dbanon_operator", "dbanon_worker"])
def test_only_the_owner_writes_a_line_by_hand(connection: psycopg.Connection, login: Login, role: str) -> None:
    with psycopg.connect(login(role), autocommit=True) as somebody, pytest.raises(errors.InsufficientPrivilege):
        somebody.execute("INSERT INTO dbanon.audit (action) VALUES ('publish')")


def test_operators_and_admins_read_it_and_nobody_else(connection: psycopg.Connection, run: int, login: Login) -> None:
    for role in ("dbanon_operator", "dbanon_admin"):
        with psycopg.connect(login(role)) as somebody:
            assert somebody.execute("SELECT count(*) > 0 FROM dbanon.audit").fetchone() == (True,)
    for role in ("dbanon_worker", "dbanon_analyst"):
        with psycopg.connect(login(role)) as somebody, pytest.raises(errors.InsufficientPrivilege):
            somebody.execute("SELECT FROM dbanon.audit")


def test_a_role_taken_on_for_a_while_does_not_hide_the_login(
    connection: psycopg.Connection, run: int, login: Login
) -> None:
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as somebody:
        somebody.execute("SET ROLE dbanon_operator")
        somebody.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('new', 32610, 1, 60)")
        user = somebody.info.user
    row = connection.execute("SELECT login FROM dbanon.audit ORDER BY audit_id DESC").fetchone()
    assert row == (user,)
