"""A subject that is forgotten: nothing of its name remains, and the releases others rely on stay."""

import unicodedata
from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.facts import demand_named
from tests.reading import collect_notices, read_value

Login = Callable[[str], str]
NAME = "Zoë Ångström-7"  # nothing else of a database holds it
EVERYTHING = {
    "trajectories": 1,
    "requests": 1,
    "quasi-identifiers": 1,
    "quarantined rows": 5,
    "names of sources": 1,
    "places in groups of releases": 2,
    "hashes of fixes": 2,
    "runs dropped": 1,
}

UNGUARDED, GUARDED = (
    "".join(f"ALTER TABLE dbanon.{table} {way} TRIGGER USER;" for table in ("grouping", "release", "fix_code"))
    for way in ("DISABLE", "ENABLE")
)
NO_GROUPING = f"{UNGUARDED} TRUNCATE dbanon.grouping; {GUARDED}"
# p0 becomes NAME; it is in run 1, which is published, and in 102, which is not; 103 is without it.
_EVERYWHERE = f"""
UPDATE dbanon.trajectory SET subject = '{NAME}' WHERE subject = 'p0';
UPDATE dbanon.request SET subject = '{NAME}' WHERE subject = 'p0';
INSERT INTO dbanon.verification (run_id, attack, passed, digest)
    SELECT 1, 'tp-aware', true, dbanon_internal.compute_run_digest(1);
COMMIT;
SELECT dbanon.publish(1, 'ten');
SELECT dbanon.publish(1, 'other');
SELECT dbanon.unpublish('other');
SET CONSTRAINTS ALL IMMEDIATE;
{UNGUARDED}
TRUNCATE dbanon.grouping;
INSERT INTO dbanon.grouping (release_id, period, people)
SELECT release_id, '[2008-06-04 08:00+00,2008-06-04 08:02+00)',
    ARRAY(SELECT dbanon_internal.hash_person(dbanon_internal.find_dataset_key(1), n) FROM unnest(s) n ORDER BY 1)
FROM dbanon.release, (VALUES (ARRAY['p1', 'p2', 'p3', 'p4', '{NAME}']), (ARRAY['p5', 'p6', 'p7', 'p8', 'p9'])) v (s);
UPDATE dbanon.release SET groups_sum = dbanon_internal.compute_groups_sum(release_id, 1);
TRUNCATE dbanon.fix_code;
{GUARDED}
INSERT INTO dbanon.run (run_id, dataset_id, method, algorithm, status) OVERRIDING SYSTEM VALUE
VALUES (102, 1, 'tp-aware', 'traj-anon', 'verified'), (103, 1, 'tp-aware', 'traj-anon', 'refused');
INSERT INTO dbanon.membership SELECT 102, record_id, trajectory_id FROM dbanon.membership WHERE run_id = 1;
INSERT INTO dbanon.membership SELECT 103, 1, trajectory_id FROM dbanon.membership WHERE run_id = 1 AND record_id = 2;
INSERT INTO dbanon.cloak SELECT 102, record_id, seq, period, region, crowd, subjects FROM dbanon.cloak WHERE run_id = 1;
INSERT INTO dbanon.quasi_identifier (dataset_id, subject, at) VALUES (1, '{NAME}', now()), (1, 'p1', now());
INSERT INTO dbanon.fix_code SELECT 1, dbanon_internal.hash_person(dbanon_internal.find_dataset_key(1), s), 64 * i
FROM unnest(ARRAY['{NAME}', 'p1']) s, generate_series(1, 2) i;
INSERT INTO dbanon.load (load_id, dataset_id, kind, source, rows_read, rows_kept) OVERRIDING SYSTEM VALUE
VALUES (901, 1, 'trajectories', '/data/{NAME}.csv', 9, 1), (902, 1, 'requests', '/data/r.csv', 9, 1);
INSERT INTO dbanon.quarantine (load_id, line, reason, content)
SELECT 901 + i % 2, i, 'bad', c FROM unnest(ARRAY[
    jsonb_build_object('subject', '{NAME}', 'time', 'x'), jsonb_build_object('subject', E' \\u2003{NAME}\\t'),
    jsonb_build_object('subject', normalize('{NAME}', NFD)), jsonb_build_object('trip', '{NAME}/morning'),
    jsonb_build_object('cells', jsonb_build_array('{NAME}')),
    jsonb_build_object('subject', '{NAME}7'), jsonb_build_object('subject', 'p1'), NULL]) WITH ORDINALITY AS r (c, i);
"""


def write_everywhere(connection: psycopg.Connection) -> None:
    connection.execute(_EVERYWHERE)  # type: ignore[arg-type]


@pytest.fixture
def full(connection: psycopg.Connection, run: int) -> psycopg.Connection:
    """Owner's connection to a database that has NAME wherever it can be."""
    write_everywhere(connection)
    return connection


@pytest.fixture
def operator(full: psycopg.Connection, login: Login) -> Iterator[psycopg.Connection]:
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as opened:
        yield opened


@pytest.fixture
def filled(own: psycopg.Connection) -> psycopg.Connection:
    """The same, in a database that is a copy."""
    write_everywhere(own)
    return own


def forget(connection: psycopg.Connection, subject: str = NAME, dataset: str = "ten") -> dict[str, int]:
    return dict(
        connection.execute("SELECT what, rows FROM dbanon.forget_subject(%s, %s)", [dataset, subject]).fetchall()
    )


def catch_refusal(connection: psycopg.Connection, subject: str | None, dataset: str | None = "ten") -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        connection.execute("SELECT dbanon.forget_subject(%s, %s)", [dataset, subject])
    assert caught.value.diag.message_detail
    assert caught.value.diag.message_hint
    return caught.value


def find_holding(connection: psycopg.Connection, name: str = NAME) -> list[str]:
    """Columns of schema dbanon, and of its statistics, that hold a name in any spelling."""
    columns = connection.execute(
        "SELECT c.oid::regclass::text, quote_ident(a.attname) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
        " WHERE c.relnamespace = 'dbanon'::regnamespace AND c.relkind IN ('r', 'v') AND a.attnum > 0"
        " AND a.atttypid IN ('text'::regtype, 'jsonb'::regtype, 'text[]'::regtype)"
    ).fetchall()
    assert len(columns) > 50
    told = "SELECT count(*) FROM {} x WHERE strpos(normalize(x.{}::text, NFC), %s) > 0"
    # Whoever is called Ångström7 is somebody else.
    found = [f"{t}.{c}" for t, c in columns if connection.execute(told.format(t, c), [name]).fetchone() != (0,)]  # type: ignore[arg-type]
    statistics = (
        "SELECT tablename FROM pg_stats s WHERE schemaname = 'dbanon' AND strpos(normalize(s::text, NFC), %s) > 0"
    )
    return found + [f"statistics of {row[0]}" for row in connection.execute(statistics, [name])]


# --- what goes --------------------------------------------------------------------------------------------------------


def test_an_operator_has_a_subject_forgotten_and_nothing_of_the_name_remains(
    full: psycopg.Connection, operator: psycopg.Connection
) -> None:
    full.execute("DELETE FROM dbanon.quarantine WHERE content ->> 'subject' = %s", [NAME + "7"])
    full.execute("ANALYZE")
    assert len(find_holding(full)) >= 8
    assert forget(operator) == EVERYTHING
    assert find_holding(full) == []


def test_the_counts_come_in_one_order(filled: psycopg.Connection) -> None:
    assert list(forget(filled)) == list(EVERYTHING)


@pytest.mark.parametrize("spelt", [unicodedata.normalize("NFD", NAME), f" \t{NAME}\u2003\n"])
def test_the_name_may_be_spelt_as_files_spell_it(filled: psycopg.Connection, spelt: str) -> None:
    assert forget(filled, spelt) == EVERYTHING


def test_everybody_else_stays(filled: psycopg.Connection) -> None:
    forget(filled)
    assert read_value(filled, "SELECT count(*) FROM dbanon.trajectory") == 9
    assert read_value(filled, "SELECT string_agg(subject, ',') FROM dbanon.request") == "p3"
    assert read_value(filled, "SELECT string_agg(subject, ',') FROM dbanon.quasi_identifier") == "p1"
    assert read_value(filled, "SELECT array_agg(line ORDER BY line) FROM dbanon.quarantine") == [6, 7, 8]
    assert read_value(filled, "SELECT array_agg(source ORDER BY load_id) FROM dbanon.load") == [
        "/data/forgotten.csv",
        "/data/r.csv",
    ]
    assert read_value(filled, "SELECT array_agg(run_id ORDER BY run_id) FROM dbanon.run") == [1, 103]


_ELSEWHERE = f"""
INSERT INTO dbanon.dataset (dataset_id, name, srid, grid_m, grid_s) OVERRIDING SYSTEM VALUE
VALUES (201, 'b', 32610, 1, 60);
INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) VALUES (201, '{NAME}', now(), '{{}}');
INSERT INTO dbanon.quasi_identifier (dataset_id, subject, at) VALUES (201, '{NAME}', now());
INSERT INTO dbanon.trajectory (dataset_id, subject, path) VALUES (201, '{NAME}', 'SRID=32610;POINT M (1 1 1)');
DELETE FROM dbanon.fix_code WHERE dataset_id = 201;
INSERT INTO dbanon.load (load_id, dataset_id, kind, source, rows_read, rows_kept) OVERRIDING SYSTEM VALUE
VALUES (911, 201, 'x', '{NAME}', 0, 0);
INSERT INTO dbanon.quarantine (load_id, reason, content) VALUES (911, 'bad', jsonb_build_object('subject', '{NAME}'));
INSERT INTO dbanon.run (run_id, dataset_id, method, algorithm) OVERRIDING SYSTEM VALUE
VALUES (202, 201, 'tp-aware', 'traj-anon');
INSERT INTO dbanon.grouping
VALUES (203, '[2008-06-04,2008-06-05)',
    ARRAY[dbanon_internal.hash_person(dbanon_internal.find_dataset_key(201), '{NAME}')]);
INSERT INTO dbanon.release (release_id, name, run_id, digest, rows, groups_sum) OVERRIDING SYSTEM VALUE
VALUES (203, 'b', 202, '', 0, dbanon_internal.compute_groups_sum(203, 201));
"""


def test_another_dataset_with_the_same_name_in_it_stays(filled: psycopg.Connection) -> None:
    filled.execute(_ELSEWHERE)  # type: ignore[arg-type]
    heard = collect_notices(filled)
    assert forget(filled) == {**EVERYTHING, "places in groups of releases": 0}
    assert len(heard) == 2
    demand_named(heard[0], "ten")
    demand_named(heard[1], "population", "b")
    there = {"quarantined rows": 1, "places in groups of releases": 3, "hashes of fixes": 0, "runs dropped": 0}
    assert forget(filled, dataset="b") == {**EVERYTHING, **there}


@pytest.mark.many
@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("p7", '{"a": "p7"}', True),
        ("p7", '{"a": " p7 "}', True),
        ("p7", '{"a": "p7_1"}', True),
        ("p7", '{"a": "(p7)"}', True),
        ("p7", '{"a": "p70"}', False),
        ("p7", '{"a": "xp7"}', False),
        ("p7", '{"a": "P7"}', False),
        ("p7", '{"p7": "x"}', False),
        ("7", '{"a": 7}', True),
        ("7", '{"a": "7"}', True),
        ("7", '{"a": "2008-06-7"}', False),
        ("a.c", '{"a": "a.c b"}', True),
        ("a.c", '{"a": "abc b"}', False),
        ("a\\d", '{"a": "x a\\\\d"}', True),
        ("[x", '{"a": "y [x"}', True),
        ("p7", '{"a": null, "b": true}', False),
    ],
)
def test_a_rejected_row_names_a_subject(own: psycopg.Connection, name: str, content: str, named: bool) -> None:
    row = own.execute("SELECT dbanon_internal.names_subject(%s, %s)", [content, name]).fetchone()
    assert row == (named,)


# --- what stays of releases -------------------------------------------------------------------------------------------


CODE = "SELECT dbanon_internal.hash_person(dbanon_internal.find_dataset_key(1), %s)"
CODES = "SELECT DISTINCT p FROM dbanon.grouping, unnest(people) p"


def test_groups_keep_their_sizes_and_one_random_code_takes_the_place_of_the_persons(
    filled: psycopg.Connection,
) -> None:
    before = {row[0] for row in filled.execute(CODES)}
    code = read_value(filled, CODE, NAME)
    forget(filled)
    after = {row[0] for row in filled.execute(CODES)}
    assert before - after == {code}
    assert len(after) == 10
    rows = filled.execute("SELECT cardinality(people), people FROM dbanon.grouping").fetchall()
    assert [size for size, _ in rows] == [5, 5, 5, 5]
    assert all(people == sorted(people) for _, people in rows)
    assert read_value(filled, "SELECT count(DISTINCT person) FROM dbanon.fix_code") == 1


def test_the_stand_in_differs_from_subject_to_subject(filled: psycopg.Connection) -> None:
    forget(filled)
    forget(filled, "p1")
    assert read_value(filled, f"SELECT count(*) FROM ({CODES}) c") == 10


def test_a_subject_of_another_dataset_of_the_population_too_stays_known_to_it(filled: psycopg.Connection) -> None:
    filled.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('b', 32610, 1, 60)")
    filled.execute(
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path)"
        " SELECT dataset_id, %s, 'SRID=32610;POINT M (1 1 1)' FROM dbanon.dataset WHERE name = 'b'",
        [NAME],
    )
    heard = collect_notices(filled)
    forget(filled)
    assert any("b." in notice and NAME not in notice for notice in heard)
    assert (read_value(filled, CODE, NAME),) in filled.execute(CODES).fetchall()
    forget(filled, dataset="b")
    assert (read_value(filled, CODE, NAME),) not in filled.execute(CODES).fetchall()


def test_a_name_is_one_person_in_a_population_but_where_rows_are_their_own_subjects(own: psycopg.Connection) -> None:
    own.execute("INSERT INTO dbanon.population (name) VALUES ('others')")
    own.execute(
        "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s, population_id, own_subjects)"
        " SELECT 'd' || i, 32610, 1, 1, 1 + i / 3, i % 2 = 1 FROM generate_series(1, 5) i"
    )
    query = (
        "SELECT dbanon_internal.hash_person(dbanon_internal.find_dataset_key(dataset_id), 'p0')"
        " FROM dbanon.dataset ORDER BY dataset_id"
    )
    ten, d1, d2, d3, d4, d5 = (row[0] for row in own.execute(query))
    assert ten == d2
    assert len({ten, d1, d3, d4, d5}) == 5


def test_live_releases_with_the_subject_are_named_and_stay(filled: psycopg.Connection) -> None:
    filled.execute(NO_GROUPING)  # the members of the run tell it too
    heard = collect_notices(filled)
    before = filled.execute("SELECT * FROM published.ten").fetchall()
    forget(filled)
    assert len(heard) == 1
    demand_named(heard[0], "1 live release", "ten")
    demand_named(heard[0], "SELECT dbanon.unpublish('ten')")
    assert "replace => true" in heard[0]
    assert NAME not in heard[0]
    assert filled.execute("SELECT * FROM published.ten").fetchall() == before


def test_a_release_is_named_also_where_the_trajectories_are_gone(filled: psycopg.Connection) -> None:
    filled.execute("DELETE FROM dbanon.trajectory WHERE subject = %s", [NAME])
    heard = collect_notices(filled)
    assert forget(filled) == {**EVERYTHING, "trajectories": 0, "runs dropped": 0}
    assert "ten" in heard[0]


def test_a_release_without_the_subject_is_not_named(filled: psycopg.Connection) -> None:
    filled.execute(NO_GROUPING)
    filled.execute(
        "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) VALUES (1, 'guest', now(), '{}')"
    )
    heard = collect_notices(filled)
    assert forget(filled, "guest")["requests"] == 1
    assert heard == []


def test_a_release_that_shows_the_subject_as_it_is_is_told_apart(own: psycopg.Connection) -> None:
    own.execute("UPDATE dbanon.cloak SET crowd = 1, subjects = 1 WHERE record_id = 2")
    own.execute("INSERT INTO dbanon.verification (run_id, attack, passed, digest)"
                    " SELECT 1, 'tp-aware', true, dbanon_internal.compute_run_digest(1)")  # fmt: skip
    own.execute("SELECT dbanon.publish(1, 'ten')")
    heard = collect_notices(own)
    forget(own, "p0")
    assert len(heard) == 1
    forget(own, "p9")
    demand_named(heard[2], "not hidden", "ten", "SELECT dbanon.unpublish('ten').")


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.many
@pytest.mark.parametrize(
    "subject",
    ["Nobody 4711", "p", "P1", "", None, "'" * 100_000, "([{" * 300],
    ids=["nobody", "part", "capital", "empty", "null", "quotes", "brackets"],
)
def test_a_subject_that_is_not_there_is_not_echoed(filled: psycopg.Connection, subject: str | None) -> None:
    error = catch_refusal(filled, subject)
    assert error.sqlstate == "DA001"
    assert "4711" not in f"{error} {error.diag.message_detail} {error.diag.message_hint} {error.diag.context}"
    assert read_value(filled, "SELECT count(*) FROM dbanon.audit WHERE action = 'forget'") == 0


@pytest.mark.parametrize("dataset", ["eleven", None])
def test_a_dataset_that_is_not_there_is_named(filled: psycopg.Connection, dataset: str | None) -> None:
    error = catch_refusal(filled, NAME, dataset)
    assert error.sqlstate == "DA001"
    assert (dataset or "NULL") in str(error)


@pytest.mark.parametrize("number", [1, 102, 103])
def test_nothing_is_forgotten_while_a_run_of_the_dataset_is_worked_on(
    full: psycopg.Connection, operator: psycopg.Connection, number: int
) -> None:
    work = (
        "UPDATE dbanon.run SET todo = 'verify', worker = 'host 1', held_by = dbanon_internal.hold_lock()"
        " WHERE run_id = %s"
    )
    full.execute(work, [number])
    error = catch_refusal(operator, NAME)
    assert error.sqlstate == "DA013"
    demand_named(str(error.diag.message_primary), f"run {number}", "worked on")
    demand_named(str(error.diag.message_hint), f"SELECT dbanon.cancel_run({number}).")
    full.execute("UPDATE dbanon.run SET todo = NULL, worker = NULL WHERE run_id = %s", [number])
    assert forget(operator) == EVERYTHING


def test_a_run_that_a_worker_took_and_has_not_locked_is_worked_on(filled: psycopg.Connection) -> None:
    filled.execute("UPDATE dbanon.run SET worker = 'host 1' WHERE run_id = 103")
    assert catch_refusal(filled, NAME).sqlstate == "DA013"


def test_runs_in_the_queue_stay_there(filled: psycopg.Connection) -> None:
    filled.execute(
        "INSERT INTO dbanon.run (dataset_id, method, algorithm, todo) VALUES (1, 'tp-aware', 'traj-anon', 'compute')"
    )
    forget(filled)
    assert read_value(filled, "SELECT count(*) FROM dbanon.run WHERE todo = 'compute'") == 1


def test_nobody_loads_submits_or_takes_a_run_meanwhile(full: psycopg.Connection, operator: psycopg.Connection) -> None:
    full.execute(
        "INSERT INTO dbanon.run (dataset_id, method, algorithm, todo) VALUES (1, 'tp-aware', 'traj-anon', 'compute')"
    )
    with operator.transaction():
        forget(operator)
        assert (
            full.execute("SELECT run_id FROM dbanon.run WHERE todo IS NOT NULL FOR UPDATE SKIP LOCKED").fetchall() == []
        )
        full.execute("SET lock_timeout = '20ms'")
        for statement in (
            "SELECT pg_advisory_lock(hashtextextended('dbanon.load ten', 0))",
            "INSERT INTO dbanon.run (dataset_id, method, algorithm) VALUES (1, 'tp-aware', 'traj-anon')",
            "UPDATE dbanon.dataset SET revision = revision",
        ):
            with pytest.raises(psycopg.errors.LockNotAvailable):
                full.execute(statement)  # type: ignore[arg-type]


@pytest.mark.parametrize("role", ["dbanon_worker", "dbanon_analyst"])
def test_only_operators_have_a_subject_forgotten(full: psycopg.Connection, login: Login, role: str) -> None:
    with psycopg.connect(login(role), autocommit=True) as other:
        for statement in (
            "SELECT dbanon.forget_subject('ten', 'p1')",
            "SELECT dbanon_internal.erase_subject(1, 'p1', 1, '{}', 2)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                other.execute(statement)  # type: ignore[arg-type]


# --- what is written down ---------------------------------------------------------------------------------------------


def test_the_audit_has_the_counts_and_no_name(full: psycopg.Connection, operator: psycopg.Connection) -> None:
    forget(operator)
    login_name = read_value(operator, "SELECT session_user")
    rows = full.execute("SELECT login, dataset, detail FROM dbanon.audit WHERE action = 'forget'").fetchall()
    assert rows == [(login_name, "ten", EVERYTHING)]


def test_forgetting_changes_the_revision_so_that_older_verdicts_are_known_to_be_old(filled: psycopg.Connection) -> None:
    before = read_value(filled, "SELECT revision FROM dbanon.dataset")
    forget(filled)
    assert read_value(filled, f"SELECT revision > {before} FROM dbanon.dataset") is True
