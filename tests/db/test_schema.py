"""The schema is what the golden listing says, on a fresh database, and stays so when the files are applied again."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg import errors, sql

from dbanon import schema
from dbanon.errors import SchemaMismatch, StoreError
from dbanon.methods import METHODS

GOLDEN = Path(__file__).parents[1] / "golden"


def listing(connection: psycopg.Connection) -> str:
    with connection.transaction():
        connection.execute("SET LOCAL search_path = pg_catalog")
        rows = connection.execute((GOLDEN / "catalog.sql").read_text()).fetchall()
    return "".join(f"{row[0]}\n" for row in rows)


@pytest.fixture
def dataset(connection: psycopg.Connection) -> int:
    row = connection.execute(
        "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('d', 32610, 1, 1) RETURNING dataset_id"
    ).fetchone()
    assert row
    return int(row[0])


def add_point(connection: psycopg.Connection, dataset: int, path: str = "SRID=32610;POINT M (1 1 1)") -> None:
    connection.execute(
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path) VALUES (%s, 's', %s)", [dataset, path]
    )


def revision(connection: psycopg.Connection, dataset: int) -> int:
    row = connection.execute("SELECT revision FROM dbanon.dataset WHERE dataset_id = %s", [dataset]).fetchone()
    assert row
    return int(row[0])


def test_a_fresh_upgrade_gives_the_golden_schema(connection: psycopg.Connection) -> None:
    found = listing(connection)
    if os.environ.get("DBANON_WRITE_GOLDEN"):
        (GOLDEN / "schema.txt").write_text(found)
    assert found == (GOLDEN / "schema.txt").read_text(), "run with DBANON_WRITE_GOLDEN=1 if the change is meant"


def test_applying_everything_again_changes_nothing(database: str, connection: psycopg.Connection) -> None:
    before = listing(connection)
    assert schema.upgrade(database) == schema.EXPECTED_REVISION
    assert listing(connection) == before


def test_two_upgrades_at_once_both_succeed(database: str) -> None:
    found: list[object] = []

    def work() -> None:
        try:
            found.append(schema.upgrade(database))
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [schema.EXPECTED_REVISION] * 2


def test_every_function_table_and_column_has_a_comment(connection: psycopg.Connection) -> None:
    bare = connection.execute(
        """
        SELECT oid::regprocedure::text FROM pg_proc
        WHERE pronamespace = 'dbanon'::regnamespace AND obj_description(oid, 'pg_proc') IS NULL
        UNION ALL
        SELECT format('%s.%s', c.relname, a.attname)
        FROM pg_class c CROSS JOIN LATERAL (
            SELECT attnum, attname FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 UNION SELECT 0, '') a
        WHERE c.relnamespace = 'dbanon'::regnamespace AND c.relkind IN ('r', 'v')
            AND CASE a.attnum WHEN 0 THEN obj_description(c.oid, 'pg_class')
                              ELSE col_description(c.oid, a.attnum) END IS NULL
        """
    ).fetchall()
    assert bare == []


def test_function_comments_say_what_goes_in_and_out(connection: psycopg.Connection) -> None:
    rows = connection.execute(
        "SELECT proname, obj_description(oid, 'pg_proc') FROM pg_proc WHERE pronamespace = 'dbanon'::regnamespace"
    ).fetchall()
    missing = [
        (name, word)
        for name, text in rows
        for word in ("Takes:", "Returns:", "Raises:", "Example:")
        if word not in text
    ]
    assert missing == []


def test_no_function_has_an_overload(connection: psycopg.Connection) -> None:
    rows = connection.execute(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'dbanon'::regnamespace GROUP BY proname HAVING count(*) > 1"
    ).fetchall()
    assert rows == []


def test_security_definer_functions_pin_their_search_path(connection: psycopg.Connection) -> None:
    rows = connection.execute(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'dbanon'::regnamespace AND prosecdef"
        " AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)"
    ).fetchall()
    assert rows == []


def test_security_definer_functions_do_not_run_as_a_superuser(connection: psycopg.Connection) -> None:
    rows = connection.execute(
        "SELECT DISTINCT r.rolname, r.rolsuper FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner"
        " WHERE p.pronamespace = 'dbanon'::regnamespace"
    ).fetchall()
    assert rows == [("dbanon_admin", False)]


def test_the_models_match_the_catalog(connection: psycopg.Connection) -> None:
    from sqlalchemy.dialects import postgresql

    from dbanon.models import Base

    dialect = postgresql.dialect()
    modelled = {
        (table.name, column.name): (column.type.compile(dialect=dialect).lower().split("(")[0], column.nullable)
        for table in Base.metadata.tables.values()
        for column in table.columns
    }
    rows = connection.execute(
        "SELECT c.relname, a.attname, replace(format_type(a.atttypid, NULL), 'integer', 'bigint'), NOT a.attnotnull"
        " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0"
        " WHERE c.relnamespace = 'dbanon'::regnamespace AND c.relkind = 'r' AND c.relname <> 'alembic_version'"
    ).fetchall()
    assert modelled == {(table, column): (kind, nullable) for table, column, kind, nullable in rows}


def test_every_method_of_the_registry_is_in_the_database(connection: psycopg.Connection) -> None:
    rows = dict(connection.execute("SELECT name, attack FROM dbanon.method").fetchall())
    assert rows == {method.name: method.attack for method in METHODS.values()}


def test_check_accepts_a_current_schema(database: str, connection: psycopg.Connection) -> None:
    schema.check(connection)
    assert schema.is_current(database)


def test_check_says_what_to_run_for_an_empty_database(connection: psycopg.Connection) -> None:
    connection.execute("DROP SCHEMA dbanon CASCADE")
    with pytest.raises(SchemaMismatch, match=r"and this database has none; run `dbanon db upgrade`\."):
        schema.check(connection)


@pytest.mark.parametrize(("found", "remedy"), [("0000", "run `dbanon db upgrade`"), ("9999", "install a newer dbanon")])
def test_check_names_both_revisions(connection: psycopg.Connection, found: str, remedy: str) -> None:
    connection.execute("UPDATE dbanon.alembic_version SET version_num = %s", [found])
    with pytest.raises(SchemaMismatch) as caught:
        schema.check(connection)
    wanted = f"Schema dbanon is at revision {found} and this program needs {schema.EXPECTED_REVISION}; {remedy}."
    assert str(caught.value) == wanted


def test_upgrading_a_newer_schema_is_refused(database: str, connection: psycopg.Connection) -> None:
    connection.execute("UPDATE dbanon.alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaMismatch, match="newer dbanon"):
        schema.upgrade(database)


def test_a_broken_sql_file_rolls_everything_back(
    database: str, connection: psycopg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = listing(connection)
    (tmp_path / "10_fine.sql").write_text("CREATE TABLE dbanon.left_behind ();")
    (tmp_path / "20_broken.sql").write_text("SELECT nonsense;")
    find = schema._folder
    monkeypatch.setattr(schema, "_folder", lambda name: tmp_path if name == "sql" else find(name))
    with pytest.raises(StoreError, match="nonsense"):
        schema.upgrade(database)
    assert listing(connection) == before


def test_a_login_without_rights_is_told_who_may_upgrade(
    connection: psycopg.Connection, login: Callable[[str], str]
) -> None:
    with pytest.raises(StoreError, match="member of dbanon_admin"):
        schema.upgrade(login("dbanon_operator"))


def test_a_member_of_the_admin_role_may_upgrade(login: Callable[[str], str]) -> None:
    assert schema.upgrade(login("dbanon_admin")) == schema.EXPECTED_REVISION


def test_loading_and_removing_raise_the_revision(connection: psycopg.Connection, dataset: int) -> None:
    seen = [revision(connection, dataset)]
    for statement in (
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path)"
        " SELECT {}, 's', ST_SetSRID(ST_MakePointM(1, 1, 1), 32610) FROM generate_series(1, 3)",
        "UPDATE dbanon.trajectory SET subject = 't' WHERE dataset_id = {}",
        "DELETE FROM dbanon.trajectory WHERE dataset_id = {}",
        "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) VALUES ({}, 's', now(), '{{}}')",
        "UPDATE dbanon.request SET subject = 't' WHERE dataset_id = {}",
        "DELETE FROM dbanon.request WHERE dataset_id = {}",
    ):
        connection.execute(sql.SQL(statement).format(sql.Literal(dataset)))
        seen.append(revision(connection, dataset))
    connection.execute("TRUNCATE dbanon.request")
    seen.append(revision(connection, dataset))
    assert seen == list(range(8))


def test_a_load_leaves_the_revision_of_other_datasets(connection: psycopg.Connection, dataset: int) -> None:
    connection.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('other', 32610, 1, 1)")
    add_point(connection, dataset)
    connection.execute("DELETE FROM dbanon.trajectory WHERE dataset_id = -1")
    assert revision(connection, dataset) == 1
    assert revision(connection, dataset + 1) == 0


@pytest.mark.parametrize(
    "path",
    [
        "SRID=32610;POINT(1 1)",
        "SRID=32610;POINT Z (1 1 1)",
        "SRID=32610;POINT ZM (1 1 1 1)",
        "SRID=32610;LINESTRING(1 1, 2 2)",
        "SRID=32610;LINESTRING M (1 1 5, 2 2 5)",
        "SRID=32610;LINESTRING M (1 1 5, 2 2 4)",
        "SRID=32610;LINESTRING M EMPTY",
        "SRID=32610;POINT M EMPTY",
        "SRID=32610;MULTIPOINT M (1 1 1)",
    ],
)
def test_only_points_and_lines_with_rising_times_are_paths(
    connection: psycopg.Connection, dataset: int, path: str
) -> None:
    with pytest.raises(errors.CheckViolation):
        add_point(connection, dataset, path)


def test_a_path_in_another_srid_is_refused(connection: psycopg.Connection, dataset: int) -> None:
    with pytest.raises(psycopg.Error) as caught:
        add_point(connection, dataset, "SRID=4326;POINT M (1 1 1)")
    assert caught.value.sqlstate == "DA008"


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path) VALUES (77, 's', 'SRID=32610;POINT M (1 1 1)')",
        "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) VALUES (77, 's', now(), '{}')",
        "INSERT INTO dbanon.membership (run_id, record_id, trajectory_id) VALUES (77, 1, 1)",
        "INSERT INTO dbanon.cloak VALUES (77, 1, 1, '[2008-06-04,2008-06-05)', ST_MakeEnvelope(0, 0, 1, 1), 1, 1)",
    ],
)
def test_rows_of_something_that_is_not_there_are_refused(connection: psycopg.Connection, statement: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(statement)
    assert caught.value.sqlstate == "DA009"


@pytest.mark.parametrize(
    "change",
    [
        "period = 'empty'",
        "period = '[2008-06-04,2008-06-05]'",
        "period = '(2008-06-04,2008-06-05)'",
        "period = '[2008-06-04,)'",
        "period = '[-infinity,2008-06-05)'",
        "period = '[2008-06-04,infinity)'",
        "region = ST_GeomFromText('POLYGON EMPTY', 32610)",
        "region = ST_GeomFromText('LINESTRING(0 0, 1 1)', 32610)",
        "region = ST_GeomFromText('POINT(0 0)', 32610)",
        "region = ST_MakeEnvelope(0, 0, 0, 1, 32610)",
        "region = ST_MakeEnvelope(0, 0, 'infinity', 1, 32610)",
        "region = ST_MakeEnvelope(0, 0, 'nan', 1, 32610)",
        "crowd = 0",
        "subjects = 0",
        "subjects = 6",
        "extra = '[]'",
        "extra = 'null'",
        "seq = 0",
        "record_id = 0",
    ],
)
def test_a_cloak_is_finite_half_open_and_never_empty(connection: psycopg.Connection, run: int, change: str) -> None:
    with pytest.raises(errors.CheckViolation):
        connection.execute(f"UPDATE dbanon.cloak SET {change} WHERE record_id = 1 AND seq = 1")


def test_fix_takes_lines_and_points_apart(connection: psycopg.Connection, dataset: int) -> None:
    add_point(connection, dataset, "SRID=32610;POINT M (1 2 3.5)")
    add_point(connection, dataset, "SRID=32610;LINESTRING M (1 2 60, 3 4 120)")
    rows = connection.execute(
        "SELECT seq, extract(epoch FROM t)::float8, ST_AsEWKT(position) FROM dbanon.fix ORDER BY trajectory_id, seq"
    ).fetchall()
    assert rows == [
        (1, 3.5, "SRID=32610;POINT(1 2)"),
        (1, 60.0, "SRID=32610;POINT(1 2)"),
        (2, 120.0, "SRID=32610;POINT(3 4)"),
    ]


def test_deleting_a_dataset_takes_its_rows_along(connection: psycopg.Connection, dataset: int) -> None:
    add_point(connection, dataset)
    connection.execute(
        "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) VALUES (%s, 's', now(), '{}')", [dataset]
    )
    connection.execute("DELETE FROM dbanon.dataset")
    left = connection.execute("SELECT (SELECT count(*) FROM dbanon.trajectory) + (SELECT count(*) FROM dbanon.request)")
    assert left.fetchone() == (0,)


def test_deleting_a_run_takes_its_rows_along(connection: psycopg.Connection, run: int) -> None:
    connection.execute("DELETE FROM dbanon.run")
    left = connection.execute("SELECT (SELECT count(*) FROM dbanon.cloak) + (SELECT count(*) FROM dbanon.membership)")
    assert left.fetchone() == (0,)


def test_evidence_gives_the_stored_rows_as_numbers(connection: psycopg.Connection, run: int) -> None:
    row = connection.execute("SELECT * FROM dbanon.cloak_evidence(1) WHERE record_id = 2 AND seq = 1")
    assert row.fetchone() == (2, 1, 1212566400.0, 1212566460.0, 70.0, 0.0, 110.0, 90.0, True, 32610, 5, 5, 0)
    members = connection.execute("SELECT * FROM dbanon.membership_evidence(1) ORDER BY 1, 2").fetchall()
    assert members == [(1 + i // 5, 100 + i, True) for i in range(10)]
    requests = connection.execute("SELECT * FROM dbanon.request_evidence(1) ORDER BY 1 DESC, 4").fetchall()
    assert requests == [
        (True, 1, 1, None, None, '{"poi": "pharmacy"}'),
        (False, None, None, "p0", 1212566430.0, '{"poi": "pharmacy"}'),
        (False, None, None, "p3", 1212566430.0, '{"poi": "pharmacy"}'),
    ]


@pytest.mark.parametrize(
    ("region", "rectangle"),
    [
        ("ST_MakeEnvelope(0, 0, 5, 7, 32610)", True),
        ("ST_Reverse(ST_MakeEnvelope(0, 0, 5, 7, 32610))", True),
        ("ST_GeomFromText('POLYGON((5 7, 0 7, 0 0, 5 0, 5 7))', 32610)", True),
        ("ST_GeomFromText('POLYGON((0 0, 0 7, 5 7, 5 0.001, 0 0))', 32610)", False),
        ("ST_GeomFromText('POLYGON((0 0, 0 7, 2 7, 5 7, 5 0, 0 0))', 32610)", False),
        ("ST_GeomFromText('POLYGON((0 0, 0 7, 5 7, 5 0, 0 0), (1 1, 1 2, 2 2, 1 1))', 32610)", False),
        ("ST_GeomFromText('POLYGON((0 0, 2 3, 5 0, 2 7, 0 0))', 32610)", False),
        ("ST_Multi(ST_MakeEnvelope(0, 0, 5, 7, 32610))", False),
        ("ST_Force3D(ST_MakeEnvelope(0, 0, 5, 7, 32610))", False),
        ("ST_Collect(ST_MakeEnvelope(0, 0, 5, 7, 32610), ST_MakePoint(9, 9))", False),
    ],
)
def test_a_rectangle_is_exactly_its_own_envelope(
    connection: psycopg.Connection, run: int, region: str, rectangle: bool
) -> None:
    if "Collect" in region:
        region = region.replace("ST_MakePoint(9, 9)", "ST_SetSRID(ST_MakePoint(9, 9), 32610)")
    connection.execute(f"UPDATE dbanon.cloak SET region = {region} WHERE record_id = 1 AND seq = 1")
    row = connection.execute("SELECT rectangle FROM dbanon.cloak_evidence(1) WHERE record_id = 1 AND seq = 1")
    assert row.fetchone() == (rectangle,)


def test_keys_of_extra_that_no_column_takes_are_counted(connection: psycopg.Connection, run: int) -> None:
    connection.execute("""UPDATE dbanon.cloak SET extra = '{"requests": [], "subject": "p0", "n": 1}' WHERE seq = 1""")
    rows = connection.execute("SELECT seq, other_keys FROM dbanon.cloak_evidence(1) ORDER BY record_id, seq").fetchall()
    assert rows == [(1, 2), (2, 0)] * 2


@pytest.mark.parametrize("value", ['{"poi": "pharmacy"}', '"pharmacy"', "null", "1"])
def test_requests_that_are_no_array_look_like_no_request(connection: psycopg.Connection, run: int, value: str) -> None:
    connection.execute(
        """UPDATE dbanon.cloak SET extra = jsonb_build_object('requests', %s::jsonb) WHERE (record_id, seq) = (1, 1)""",
        [value],
    )
    rows = connection.execute("SELECT content FROM dbanon.request_evidence(1) WHERE published").fetchall()
    assert rows == [(f"[{value}]",)]


def test_evidence_functions_are_inlined(connection: psycopg.Connection, run: int) -> None:
    for name in ("cloak_evidence", "membership_evidence", "request_evidence"):
        plan = connection.execute(f"EXPLAIN SELECT * FROM dbanon.{name}(1)").fetchall()
        assert not any("Function Scan on " + name in line[0] for line in plan), name
