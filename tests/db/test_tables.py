"""What the tables hold and refuse, and what views and evidence functions make of it."""

import math
import struct

import numpy as np
import psycopg
import pytest
from psycopg import errors, sql

from dbanon.postgres import arrow
from dbanon.runs import _blocks, _rows, reading, stored
from tests.facts import expect_refusal


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


def read_revision(connection: psycopg.Connection, dataset: int) -> int:
    row = connection.execute("SELECT revision FROM dbanon.dataset WHERE dataset_id = %s", [dataset]).fetchone()
    assert row
    return int(row[0])


def test_loading_and_removing_raise_the_revision(connection: psycopg.Connection, dataset: int) -> None:
    seen = [read_revision(connection, dataset)]
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
        seen.append(read_revision(connection, dataset))
    connection.execute("TRUNCATE dbanon.request")
    seen.append(read_revision(connection, dataset))
    assert seen == list(range(8))


def test_a_load_leaves_the_revision_of_other_datasets(connection: psycopg.Connection, dataset: int) -> None:
    before = read_revision(connection, 1)
    add_point(connection, dataset)
    connection.execute("DELETE FROM dbanon.trajectory WHERE dataset_id = -1")
    assert read_revision(connection, dataset) == 1
    assert read_revision(connection, 1) == before


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
    with expect_refusal("DA011", *facts):
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
    tables = connection.execute("SELECT unnest(dbanon_internal.list_run_tables())").fetchall()
    for (table,) in tables:
        assert connection.execute(
            sql.SQL("SELECT count(*) > 0 FROM dbanon.{}").format(sql.Identifier(table))
        ).fetchone() == (True,)
    connection.execute("DELETE FROM dbanon.run")
    connection.execute("DELETE FROM dbanon.dataset")
    for table in (*(name for (name,) in tables), "cloak", "verification", "trajectory", "request"):
        assert connection.execute(f"SELECT count(*) FROM dbanon.{table}").fetchone() == (0,), table


def _read_written(connection: psycopg.Connection) -> _rows.Written:
    return _rows.read(arrow.Snapshot(connection, "public"), 1)


def test_evidence_gives_the_stored_rows_as_numbers(connection: psycopg.Connection, run: int) -> None:
    connection.execute("INSERT INTO dbanon.hiding VALUES (1, 1, '[2008-06-04 08:00+00,2008-06-04 08:01+00)', '{2, 3}')")
    connection.execute("UPDATE dbanon.membership SET period = '[2008-06-04 08:00+00,)' WHERE trajectory_id = 109")
    found = _read_written(connection).fields
    last = np.argmax(found["region_bounds"][:, 0])
    assert found["region_bounds"][last].tolist() == [70.0, 0.0, 110.0, 90.0]
    columns = ("rectangle", "srid", "crowd", "subjects", "other_keys")
    assert [found[f"region_{name}"][last] for name in columns] == [True, 32610, 5, 5, 0]
    assert found["period_start_s"].tolist() == [1212566400.0, 1212566460.0]
    assert found["period_end_s"].tolist() == [1212566460.0, 1212566520.0]
    hidden = (1, 1212566400.0, 1212566460.0, [2, 3])
    assert tuple(found[f"hiding_{name}"].tolist() for name in ("record", "start_s", "end_s", "other")) == (
        *([one] for one in hidden[:3]), hidden[3]
    )  # fmt: skip
    members = [found[f"member_{name}"].tolist() for name in ("record", "trajectory", "start_s", "end_s")]
    assert str([*zip(*members, strict=True)]) == str([
        *((1 + i // 5, 100 + i, math.nan, math.nan) for i in range(9)), (2, 109, 1212566400.0, math.inf)
    ])  # fmt: skip


PERIODS = (
    "[2008-06-04 08:00:00.000001+00,2008-06-04 09:00+00)", "(,2008-06-04 09:00+00]", "(,)", "[infinity,)",
    "[-infinity,infinity)", "[0044-03-15 12:00+00 BC,2008-06-04 09:00+00)",
)  # fmt: skip


def test_the_periods_of_members_are_those_that_the_server_says(connection: psycopg.Connection, run: int) -> None:
    for trajectory, period in enumerate(PERIODS, 100):
        connection.execute("UPDATE dbanon.membership SET period = %s WHERE trajectory_id = %s", [period, trajectory])
    said = connection.execute("""SELECT coalesce(date_part('epoch', lower(period)), '-Infinity'),
        coalesce(date_part('epoch', upper(period)), 'Infinity')
        FROM dbanon.membership WHERE period IS NOT NULL ORDER BY trajectory_id""").fetchall()
    found = _read_written(connection).fields
    ends = np.column_stack([found["member_start_s"], found["member_end_s"]])[np.argsort(found["member_trajectory"])]
    assert ends[: len(PERIODS)].tolist() == [list(each) for each in said]
    assert np.isnan(ends[len(PERIODS) :]).all()


RECTANGLE = "ST_Reverse(ST_MakeEnvelope(0, 0, 5, 7, 32610))"
SHAPES = {
    RECTANGLE: True,
    "ST_SetSRID(ST_Reverse(ST_MakeEnvelope(0, 0, 5, 7)), 4326)": True,
    "ST_SetSRID(ST_Reverse(ST_MakeEnvelope(0, 0, 5, 7)), 0)": True,
    "ST_Reverse(ST_MakeEnvelope(-1e-300, 0, 5, 7, 32610))": True,
    "ST_MakeEnvelope(0, 0, 5, 7, 32610)": False,
    "ST_GeomFromText('POLYGON((5 7, 0 7, 0 0, 5 0, 5 7))', 32610)": False,
    "ST_GeomFromText('POLYGON((5 0, 5 7, 0 7, 0 0, 5 0))', 32610)": False,
    "ST_GeomFromText('POLYGON((0 0, 5 0, 5 7, 0.001 7, 0 0))', 32610)": False,
    "ST_GeomFromText('POLYGON((0 0, 5 0, 5 7, 0 6.999, 0 0))', 32610)": False,
    "ST_GeomFromText('POLYGON((0 0, 5 0.001, 5 7, 0 7, 0 0))', 32610)": False,
    "ST_GeomFromText('POLYGON((0 0, 0 7, 5 7, 5 0.001, 0 0))', 32610)": False,
    "ST_GeomFromText('POLYGON((0 0, 0 7, 2 7, 5 7, 5 0, 0 0))', 32610)": False,
    "ST_GeomFromText('POLYGON((0 0, 0 7, 5 7, 5 0, 0 0), (1 1, 1 2, 2 2, 1 1))', 32610)": False,
    "ST_GeomFromText('POLYGON((0 0, 2 3, 5 0, 2 7, 0 0))', 32610)": False,
    "ST_Multi(ST_MakeEnvelope(0, 0, 5, 7, 32610))": False,
    "ST_Force3D(ST_MakeEnvelope(0, 0, 5, 7, 32610))": False,
    "ST_Force3DM(ST_Reverse(ST_MakeEnvelope(0, 0, 5, 7, 32610)))": False,
    "ST_ForceCurve(ST_Reverse(ST_MakeEnvelope(0, 0, 5, 7, 32610)))": False,
    "ST_GeomFromText('TRIANGLE((0 0, 5 0, 5 7, 0 0))', 32610)": False,
    "ST_Collect(ST_MakeEnvelope(0, 0, 5, 7, 32610), ST_SetSRID(ST_MakePoint(9, 9), 32610))": False,
}


@pytest.mark.many
@pytest.mark.parametrize(("region", "rectangle"), SHAPES.items())
def test_a_rectangle_is_exactly_its_own_envelope(
    connection: psycopg.Connection, run: int, region: str, rectangle: bool
) -> None:
    """Whether the client reads it or PostGIS is asked, and whatever the other regions are."""
    connection.execute(f"UPDATE dbanon.cloak SET region = {region} WHERE record_id = 1 AND seq = 1")
    _demand_shapes(connection, rectangle)


def _demand_shapes(connection: psycopg.Connection, is_rectangle: bool) -> None:
    found = _read_written(connection).fields
    columns = ("no", "bounds", "rectangle", "srid")
    read = [*zip(*(found[f"region_{name}"].tolist() for name in columns), strict=True)]
    said = connection.execute(f"""SELECT region_no, ARRAY[xmin, ymin, xmax, ymax], rectangle, srid
        FROM dbanon_internal.gather_region_evidence(1) WHERE {SHOWN} ORDER BY 1""").fetchall()
    assert str(read) == str(said)
    assert [all(one[2] for one in read)] == [is_rectangle]


@pytest.mark.parametrize(
    "ring", ["NaN 0, 5 0, 5 7, NaN 7, NaN 0", "0 0, inf 0, inf 7, 0 7, 0 0", "0 0, 5 0, 5 0, 0 0, 0 0",
             "5 0, 0 0, 0 7, 5 7, 5 0", "-0 0, 5 0, 5 7, 0 7, -0 0"],
)  # fmt: skip
def test_a_ring_that_no_check_of_the_table_saw_is_what_postgis_says(
    connection: psycopg.Connection, run: int, ring: str
) -> None:
    connection.execute("ALTER TABLE dbanon.region DROP CONSTRAINT region_area_check")
    points = struct.pack("<10d", *(float(side) for side in ring.replace(",", "").split()))
    connection.execute("UPDATE dbanon.region SET region = ST_GeomFromEWKB(%s) WHERE region_no = 1", [HEADER + points])
    said = connection.execute(
        "SELECT rectangle FROM dbanon_internal.gather_region_evidence(1) WHERE region_no = 1"
    ).fetchone()
    _demand_shapes(connection, bool(said and said[0]))


HEADER = struct.pack("<BIIII", 1, 0x20000003, 32610, 1, 5)
SHOWN = "region_no IN (SELECT unnest(regions) FROM dbanon.record)"  # a change leaves the region it was made from


def test_keys_of_extra_that_no_column_takes_are_counted(connection: psycopg.Connection, run: int) -> None:
    connection.execute("""UPDATE dbanon.cloak SET extra = '{"requests": [], "subject": "p0", "n": 1}' WHERE seq = 1""")
    assert sorted(_read_written(connection).fields["region_other_keys"].tolist()) == [0, 0, 2, 2]


# Fmt: skip.
ODD = (
    "[]",
    "[1e5, -0.5, true]",
    '[{"a": {"b": [1, {"c": "\\"]}, {\\u00e9"}]}}, "x, y", [[], {}]]',
    '{"poi": "pharmacy"}',
    '"pharmacy"',
    "null",
    "1",
    f"[{'9' * 5000}]",
    '["[1, 2]"]',
)


@pytest.mark.parametrize("value", ODD)
def test_lists_of_extra_are_cut_as_the_server_cuts_them(connection: psycopg.Connection, run: int, value: str) -> None:
    """What is no list looks like no value of one."""
    connection.execute(
        "UPDATE dbanon.cloak SET extra = jsonb_build_object('a b', 1, 'requests', %s::jsonb, 'z', '\"') "
        "WHERE (record_id, seq) = (1, 1)", [value],
    )  # fmt: skip
    query = """SELECT ARRAY(SELECT e::text FROM jsonb_array_elements(CASE jsonb_typeof(extra -> 'requests')
        WHEN 'array' THEN extra -> 'requests' ELSE jsonb_build_array(jsonb_build_array(extra -> 'requests')) END) e)
        FROM dbanon.cloak WHERE (record_id, seq) = (1, 1)"""
    (said,) = connection.execute(query).fetchone() or ()
    (found,) = [_blocks.split_elements(one["requests"]) for one in _read_written(connection).extras if "z" in one]
    assert found == said


CHANGED = (
    "UPDATE dbanon.region SET crowd = crowd + 1 WHERE region_no = 1",
    "UPDATE dbanon.region SET extra = coalesce(extra, '{}') || '{\"é\": 1}' WHERE region_no = 2",
    "UPDATE dbanon.region SET cells = '{7}' WHERE region_no = 1",
    "UPDATE dbanon.region SET region = ST_Multi(region) WHERE region_no = 1",
    "UPDATE dbanon.region SET region_no = 2000000000 WHERE region_no = 1",
    "UPDATE dbanon.membership SET record_id = 9223372036854775807 WHERE trajectory_id = 100",
    "UPDATE dbanon.membership SET record_id = -9223372036854775808 WHERE trajectory_id = 100",
    "UPDATE dbanon.membership SET period = '[2008-06-04 08:00+00,)' WHERE trajectory_id = 100",
    "UPDATE dbanon.membership SET trajectory_id = 10000000 WHERE trajectory_id = 100",
    "UPDATE dbanon.trajectory SET subject = 'Zoë' WHERE trajectory_id = 103",
    "DELETE FROM dbanon.trajectory WHERE trajectory_id = 103",
    "DELETE FROM dbanon.region",
    "DELETE FROM dbanon.membership",
)


def test_the_digest_of_what_was_read_is_the_one_that_the_server_makes(connection: psycopg.Connection, run: int) -> None:
    digests, snapshot = [], arrow.Snapshot(connection, "public")
    for change in ("SELECT", *CHANGED):
        with connection.transaction(force_rollback=True):
            # Else the revision, which is in the digest, would change with a name.
            connection.execute("ALTER TABLE dbanon.trajectory DISABLE TRIGGER USER")
            connection.execute(change)
            paths, codes = reading.read_trajectories(snapshot, 1)
            members = _blocks.read_members(snapshot, run)
            names = _blocks.digest_names(members.trajectory, paths.trajectory_id, paths.subject, codes.texts)
            large = _blocks.read_regions(snapshot, run).digest + members.digest + names
            whole = stored.compute_digest(connection, run)
            assert stored.compute_digest(connection, run, large) == whole, change
            connection.execute("UPDATE dbanon.run SET rows = 1000000")  # a process a table
            assert stored.compute_digest(connection, run) == whole, change
            digests.append(whole)
    assert len(set(digests)) == len(digests)


def test_evidence_functions_are_inlined(connection: psycopg.Connection, run: int) -> None:
    for name in ("read_region_blocks", "read_membership_blocks", "read_name_blocks", "gather_region_evidence",
                 "gather_period_evidence", "gather_record_evidence", "gather_hiding_evidence"):  # fmt: skip
        plan = connection.execute(f"EXPLAIN SELECT * FROM dbanon_internal.{name}(1)").fetchall()
        assert not any("Function Scan on " + name in line[0] for line in plan), name
