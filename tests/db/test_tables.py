"""What the tables hold and refuse, and what views and evidence functions make of it."""

import math

import psycopg
import pytest
from psycopg import errors, sql

from tests.facts import refusal


@pytest.fixture
def connection(scratch: psycopg.Connection) -> psycopg.Connection:
    """Nothing here commits."""
    return scratch


@pytest.fixture
def run(scratch: psycopg.Connection) -> int:
    """The run is there already."""
    return 1


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
    before = revision(connection, 1)
    add_point(connection, dataset)
    connection.execute("DELETE FROM dbanon.trajectory WHERE dataset_id = -1")
    assert revision(connection, dataset) == 1
    assert revision(connection, 1) == before


@pytest.mark.many
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
    with pytest.raises(errors.CheckViolation), connection.transaction():
        add_point(connection, dataset, path)


def test_a_path_in_another_srid_is_refused(connection: psycopg.Connection, dataset: int) -> None:
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        add_point(connection, dataset, "SRID=4326;POINT M (1 1 1)")
    assert caught.value.sqlstate == "DA008"


@pytest.mark.many
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path) VALUES (77, 's', 'SRID=32610;POINT M (1 1 1)')",
        "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) VALUES (77, 's', now(), '{}')",
        "INSERT INTO dbanon.membership (run_id, record_id, trajectory_id) VALUES (77, 1, 1)",
        "INSERT INTO dbanon.cloak VALUES (77, 1, 1, '[2008-06-04,2008-06-05)', ST_MakeEnvelope(0, 0, 1, 1), 1, 1)",
        "INSERT INTO dbanon.region VALUES (77, 1, ST_MakeEnvelope(0, 0, 1, 1), NULL, 1, 1)",
        "INSERT INTO dbanon.period VALUES (77, 1, '[2008-06-04,2008-06-05)')",
        "INSERT INTO dbanon.record VALUES (77, 1, '{1}', '{1}')",
        "INSERT INTO dbanon.hiding VALUES (77, 1, NULL, '{2}')",
        "INSERT INTO dbanon.atom VALUES (77, 1, 0)",
    ],
)
def test_rows_of_something_that_is_not_there_are_refused(connection: psycopg.Connection, statement: str) -> None:
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        connection.execute(statement)
    assert caught.value.sqlstate == "DA009"


@pytest.mark.many
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
    with pytest.raises(errors.CheckViolation), connection.transaction():
        connection.execute(f"UPDATE dbanon.cloak SET {change} WHERE record_id = 1 AND seq = 1")


@pytest.mark.many
@pytest.mark.parametrize(
    ("srid", "facts"),
    [
        (4326, ("projected", "metres", "SRID 4326")),
        (2263, ("projected", "metres", "SRID 2263")),  # feet
        (0, ("spatial_ref_sys", "EPSG:0")),
        (999999, ("spatial_ref_sys", "EPSG:999999")),
    ],
)
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('new', %s, 1, 1)",
        "UPDATE dbanon.dataset SET srid = %s WHERE name = 'd'",
    ],
)
@pytest.mark.usefixtures("dataset")
def test_a_dataset_is_in_metres_whoever_makes_it(
    connection: psycopg.Connection, statement: str, srid: int, facts: tuple[str, ...]
) -> None:
    connection.execute("SET LOCAL ROLE dbanon_operator")
    with refusal("DA011", *facts):
        connection.execute(statement, [srid])


def test_fix_takes_lines_and_points_apart(connection: psycopg.Connection, dataset: int) -> None:
    add_point(connection, dataset, "SRID=32610;POINT M (1 2 3.5)")
    add_point(connection, dataset, "SRID=32610;LINESTRING M (1 2 60, 3 4 120)")
    rows = connection.execute(
        "SELECT seq, extract(epoch FROM t)::float8, ST_AsEWKT(position) FROM dbanon.fix WHERE dataset_id = %s"
        " ORDER BY trajectory_id, seq",
        [dataset],
    ).fetchall()
    assert rows == [
        (1, 3.5, "SRID=32610;POINT(1 2)"),
        (1, 60.0, "SRID=32610;POINT(1 2)"),
        (2, 120.0, "SRID=32610;POINT(3 4)"),
    ]


def test_deleting_runs_and_datasets_takes_their_rows_along(connection: psycopg.Connection, run: int) -> None:
    connection.execute("INSERT INTO dbanon.hiding VALUES (1, 1, NULL, '{2}')")
    connection.execute("INSERT INTO dbanon.atom VALUES (1, 1, 0)")
    tables = connection.execute("SELECT unnest(dbanon_internal.run_tables())").fetchall()
    for (table,) in tables:
        assert connection.execute(
            sql.SQL("SELECT count(*) > 0 FROM dbanon.{}").format(sql.Identifier(table))
        ).fetchone() == (True,)
    connection.execute("DELETE FROM dbanon.run")
    connection.execute("DELETE FROM dbanon.dataset")
    for table in (*(name for (name,) in tables), "cloak", "verification", "trajectory", "request"):
        assert connection.execute(f"SELECT count(*) FROM dbanon.{table}").fetchone() == (0,), table


def test_evidence_gives_the_stored_rows_as_numbers(connection: psycopg.Connection, run: int) -> None:
    regions = connection.execute("SELECT * FROM dbanon_internal.region_evidence(1) ORDER BY xmin").fetchall()
    assert regions[-1][1:] == (70.0, 0.0, 110.0, 90.0, True, 32610, 5, 5, 0)
    periods = connection.execute("SELECT lower_s, upper_s FROM dbanon_internal.period_evidence(1) ORDER BY 1")
    assert periods.fetchall() == [(1212566400.0, 1212566460.0), (1212566460.0, 1212566520.0)]
    connection.execute("INSERT INTO dbanon.hiding VALUES (1, 1, '[2008-06-04 08:00+00,2008-06-04 08:01+00)', '{2, 3}')")
    hidden = connection.execute("SELECT * FROM dbanon_internal.hiding_evidence(1)").fetchall()
    element = bytes([0, 0, 0, 8, *bytes(7)])
    assert hidden == [(1, 1212566400.0, 1212566460.0, 2, element + b"\2" + element + b"\3")]
    connection.execute("UPDATE dbanon.membership SET period = '[2008-06-04 08:00+00,)' WHERE trajectory_id = 109")
    members = connection.execute("SELECT * FROM dbanon_internal.membership_evidence(1) ORDER BY 1, 2").fetchall()
    assert str(members) == str([
        *((1 + i // 5, 100 + i, math.nan, math.nan) for i in range(9)), (2, 109, 1212566400.0, math.inf)
    ])  # fmt: skip
    requests = connection.execute("SELECT * FROM dbanon_internal.request_evidence(1) ORDER BY 1 DESC, 3").fetchall()
    assert requests == [
        (True, 1, "", 0.0, '{"poi": "pharmacy"}'),
        (False, 0, "p0", 1212566430.0, '{"poi": "pharmacy"}'),
        (False, 0, "p3", 1212566430.0, '{"poi": "pharmacy"}'),
    ]


@pytest.mark.many
@pytest.mark.parametrize(
    ("region", "rectangle"),
    [
        ("ST_MakeEnvelope(0, 0, 5, 7, 32610)", False),
        ("ST_Reverse(ST_MakeEnvelope(0, 0, 5, 7, 32610))", True),
        ("ST_GeomFromText('POLYGON((5 7, 0 7, 0 0, 5 0, 5 7))', 32610)", False),
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
    row = connection.execute(
        "SELECT rectangle FROM dbanon_internal.region_evidence(1) e JOIN dbanon.record d ON d.regions[1] = e.region_no"
        " WHERE record_id = 1"
    )
    assert row.fetchone() == (rectangle,)


SHOWN = "region_no IN (SELECT unnest(regions) FROM dbanon.record)"  # a change leaves the region it was made from


def test_keys_of_extra_that_no_column_takes_are_counted(connection: psycopg.Connection, run: int) -> None:
    connection.execute("""UPDATE dbanon.cloak SET extra = '{"requests": [], "subject": "p0", "n": 1}' WHERE seq = 1""")
    query = f"SELECT other_keys FROM dbanon_internal.region_evidence(1) WHERE {SHOWN} ORDER BY 1"
    rows = connection.execute(query).fetchall()
    assert rows == [(0,), (0,), (2,), (2,)]


@pytest.mark.many
@pytest.mark.parametrize("value", ['{"poi": "pharmacy"}', '"pharmacy"', "null", "1"])
def test_requests_that_are_no_array_look_like_no_request(connection: psycopg.Connection, run: int, value: str) -> None:
    connection.execute(
        """UPDATE dbanon.cloak SET extra = jsonb_build_object('requests', %s::jsonb) WHERE (record_id, seq) = (1, 1)""",
        [value],
    )
    rows = connection.execute(f"SELECT content FROM dbanon_internal.request_evidence(1) WHERE {SHOWN}").fetchall()
    assert rows == [(f"[{value}]",)]


def test_evidence_functions_are_inlined(connection: psycopg.Connection, run: int) -> None:
    for name in ("region_evidence", "period_evidence", "record_evidence", "membership_evidence", "hiding_evidence",
                 "request_evidence"):  # fmt: skip
        plan = connection.execute(f"EXPLAIN SELECT * FROM dbanon_internal.{name}(1)").fetchall()
        assert not any("Function Scan on " + name in line[0] for line in plan), name
