"""Rows of all families: written from `Cloaks`, read as evidence, published, compared, described and taken back.

`tests.db.written` has them as docs/understand/ten-people.md does.
"""

import threading
from datetime import UTC, datetime

import numpy as np
import psycopg
import pytest
from psycopg import sql

from dbanon.base.cloaks import Cloaks, Hiding
from dbanon.postgres import arrow
from dbanon.runs import _rows
from tests.acceptance.workers import wait_until
from tests.db.methods import change_methods
from tests.db.written import (
    CONTRACTS,
    Contract,
    list_minutes,
    make_figures,
    make_k_merge,
    make_kte_hide,
    make_semantic,
    write,
)
from tests.facts import demand_named, expect_refusal
from tests.reading import collect_notices, read_value

every_contract = pytest.mark.parametrize("contract", CONTRACTS.values(), ids=CONTRACTS)
TABLES = ("region", "period", "record", "membership", "hiding", "atom")


@pytest.fixture
def ten(own: psycopg.Connection) -> psycopg.Connection:
    """The ten people, of whom nothing is published."""
    own.execute("DELETE FROM dbanon.run")
    return own


def count_tables(connection: psycopg.Connection, run: int) -> dict[str, int]:
    query = "SELECT count(*) FROM dbanon.{} WHERE run_id = %s"
    return {t: connection.execute(sql.SQL(query).format(sql.Identifier(t)), [run]).fetchone()[0] for t in TABLES}  # type: ignore[index]


ROWS = """SELECT record_id, seq, extract(epoch FROM lower(period))::bigint, extract(epoch FROM upper(period))::bigint,
    ARRAY[ST_XMin(region), ST_YMin(region), ST_XMax(region), ST_YMax(region)], crowd, subjects, extra::text
    FROM dbanon.cloak WHERE run_id = %s ORDER BY record_id, seq"""


def test_the_list_of_tables_is_what_these_tests_look_at(ten: psycopg.Connection) -> None:
    assert read_value(ten, "SELECT dbanon_internal.list_run_tables()") == list(TABLES)


@pytest.mark.many
@every_contract
def test_rows_come_back_through_the_view_as_they_were_written(ten: psycopg.Connection, contract: Contract) -> None:
    cloaks = contract.cloaks()
    rows = ten.execute(ROWS, [write(ten, contract)]).fetchall()
    assert [row[:2] for row in rows] == list(zip(cloaks.record_id.tolist(), cloaks.seq.tolist(), strict=True))
    assert [row[2:4] for row in rows] == list(zip(cloaks.start.tolist(), cloaks.end.tolist(), strict=True))
    assert [row[5:7] for row in rows] == list(zip(cloaks.crowd.tolist(), cloaks.subjects.tolist(), strict=True))
    extra = np.full(cloaks.rows, -1) if cloaks.extra is None else cloaks.extra
    assert [row[7] for row in rows] == [cloaks.extras[e] if e >= 0 else None for e in extra.tolist()]
    bounds = [[0, 0, 200, 100], [0, 0, 1000, 100]] * 2 if cloaks.regions.bounds is None else cloaks.bounds.tolist()
    assert [row[4] for row in rows] == bounds


def test_cells_are_united_to_a_valid_multipolygon(ten: psycopg.Connection) -> None:
    run = write(ten, CONTRACTS["areas"])
    rows = ten.execute(
        "SELECT cells, ST_IsValid(region), GeometryType(region), ST_NumGeometries(region), ST_Area(region),"
        " ST_SRID(region) FROM dbanon.region WHERE run_id = %s ORDER BY region_no",
        [run],
    ).fetchall()
    assert rows == [
        ([7, 8], True, "MULTIPOLYGON", 1, 20000, 32610),
        ([7, 8, 9, 12], True, "MULTIPOLYGON", 2, 40000, 32610),
    ]


def test_cells_of_another_dataset_are_refused(ten: psycopg.Connection) -> None:
    write(ten, CONTRACTS["areas"])
    ten.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('other', 32610, 1, 1)")
    ten.execute("UPDATE dbanon.cell SET dataset_id = (SELECT max(dataset_id) FROM dbanon.dataset) WHERE cell_id = 12")
    with pytest.raises(Exception, match="1 is not there") as caught:
        write(ten, CONTRACTS["areas"])
    assert getattr(caught.value, "sqlstate", None) == "DA009"


def list_stretches(start: np.ndarray | None, end: np.ndarray | None, count: int) -> list[list[float]]:
    if start is None or end is None:
        return [[np.nan] * count] * 2
    whole = start == end
    return [np.where(whole, np.nan, side).tolist() for side in (start, end)]


@pytest.mark.many
@every_contract
def test_evidence_is_as_compact_and_the_same_as_what_was_written(ten: psycopg.Connection, contract: Contract) -> None:
    cloaks, run = contract.cloaks(), write(ten, contract)
    with arrow.open_snapshot(ten) as snapshot:
        found = _rows.read(snapshot, run).fields
    assert found["place"] is None
    assert len(found["region_no"]) == len(cloaks.regions)
    for name, wanted in (
        ("record_id", np.arange(1, len(cloaks.offset))), ("offset", cloaks.offset), ("region", cloaks.region),
        ("period", cloaks.period), ("region_crowd", cloaks.regions.crowd), ("region_subjects", cloaks.regions.subjects),
        ("period_start_s", cloaks.periods[:, 0]), ("period_end_s", cloaks.periods[:, 1]),
        ("member_record", cloaks.member_record), ("member_trajectory", cloaks.member_trajectory),
    ):  # fmt: skip
        assert found[name].tolist() == wanted.tolist(), name
    assert found["region_rectangle"].all() == (cloaks.regions.bounds is not None)
    if cloaks.regions.bounds is not None:
        assert found["region_bounds"].tolist() == cloaks.regions.bounds.tolist()
    told = [found[name].tolist() for name in ("member_start_s", "member_end_s")]
    assert str(told) == str(list_stretches(cloaks.member_start, cloaks.member_end, len(cloaks.member_record)))
    if cloaks.hiding is None:
        assert (len(found["hiding_record"]), found["hiding_offset"].tolist()) == (0, [0])
        return
    for name in ("record", "offset", "other"):
        assert found[f"hiding_{name}"].tolist() == getattr(cloaks.hiding, name).tolist(), name
    told = [found[name].tolist() for name in ("hiding_start_s", "hiding_end_s")]
    assert str(told) == str(list_stretches(cloaks.hiding.start, cloaks.hiding.end, len(cloaks.hiding.record)))


# --- the digest -------------------------------------------------------------------------------------------------------

FIRST = {
    "region": "region_no = 1", "period": "period_no = 1", "record": "record_id = 1", "hiding": "record_id = 1",
    "membership": "trajectory_id = 100", "atom": "cell_id = 7",
}  # fmt: skip
CHANGED = {
    "bigint": "{} + 20", "integer": "{} + 20", "geometry": "ST_Translate({}, 1, 0)", "jsonb": "{} || '{{\"a\": 1}}'",
    "tstzrange": "tstzrange(lower({0}), coalesce(upper({0}), '2008-06-04') - interval '1 us')",
    "integer[]": "ARRAY[{0}[2], {0}[1]] || {0}[3:]", "bigint[]": "{} || 999::bigint",
}  # fmt: skip
"""Another value of a column, by its type: the smallest change that the table allows."""


def write_full_run(connection: psycopg.Connection) -> int:
    """Write a run that has something in every column: regions of cells, stretches, hiding sets and atoms."""
    cells, hidden = make_semantic(), make_kte_hide()
    cloaks = Cloaks(
        offset=cells.offset, region=cells.region, period=cells.period, regions=cells.regions, periods=cells.periods,
        member_record=hidden.member_record, member_trajectory=hidden.member_trajectory,
        member_start=hidden.member_start, member_end=hidden.member_end, hiding=hidden.hiding,
        atoms=cells.atoms, suppressed=cells.suppressed, metrics={},
    )  # fmt: skip
    return write(connection, CONTRACTS["areas"], cloaks)


def test_every_single_change_of_a_private_table_changes_the_digest(ten: psycopg.Connection) -> None:
    run = write_full_run(ten)
    other = write(ten, CONTRACTS["k-merge"])
    ten.execute("DELETE FROM dbanon.region WHERE run_id = %s", [other])
    ten.execute("DELETE FROM dbanon.period WHERE run_id = %s", [other])
    ten.execute("DELETE FROM dbanon.record WHERE run_id = %s", [other])
    digests = {digest_of(ten, run)}
    columns = ten.execute(
        "SELECT c.relname, a.attname, format_type(a.atttypid, NULL)"
        " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
        " WHERE c.relnamespace = 'dbanon'::regnamespace AND c.relname = ANY (%s) AND a.attnum > 0",
        [list(TABLES)],
    ).fetchall()
    assert len(columns) == 7 + 3 + 4 + 4 + 4 + 3
    changes = [(t, "run_id", str(other)) for t in TABLES]
    for table, column, kind in columns:
        other_value = CHANGED[kind.removeprefix("public.")].format(column)
        changes += [(table, column, f"{column} + 1" if column == "subjects" else other_value)] * (column != "run_id")
    changes += [(t, c, "NULL") for t, c in (("region", "cells"), ("region", "extra"), ("membership", "period"))]
    changes += [("hiding", "period", "NULL")]
    for table, column, changed in changes:
        with ten.transaction(force_rollback=True):
            # Triggers hold the tables together: here each value is changed by itself.
            ten.execute(f"ALTER TABLE dbanon.{table} DISABLE TRIGGER USER")
            done = ten.execute(
                f"UPDATE dbanon.{table} SET {column} = {changed} WHERE run_id = {run} AND {FIRST[table]}"
            )
            digest = digest_of(ten, run)
        assert (done.rowcount >= 1, digest in digests) == (True, False), (table, column, changed)
        digests |= {digest} if column != "run_id" else set()
    for table in TABLES:
        with ten.transaction(force_rollback=True):
            ten.execute(f"DELETE FROM dbanon.{table} WHERE run_id = {run} AND {FIRST[table]}")
            assert digest_of(ten, run) not in digests, table
    for table in ("membership", "hiding"):
        with ten.transaction(force_rollback=True):
            ten.execute(f"INSERT INTO dbanon.{table} SELECT * FROM dbanon.{table} WHERE run_id = {run} LIMIT 1")
            assert digest_of(ten, run) not in digests, table


def digest_of(connection: psycopg.Connection, run: object) -> bytes:
    digest = read_value(connection, "SELECT dbanon_internal.compute_run_digest(%s)", run)
    assert isinstance(digest, bytes)
    return digest


ROW = "INSERT INTO dbanon.{} VALUES (1, {})"
BROKEN = {
    "no area": ("region", "9, 'SRID=32610;LINESTRING(0 0, 1 1)', NULL, 1, 1"),
    "an infinite area": ("region", "9, ST_MakeEnvelope(0, 0, 'infinity', 1, 32610), NULL, 1, 1"),
    "no cells": ("region", "9, ST_MakeEnvelope(0, 0, 1, 1, 32610), '{}', 1, 1"),
    "a cell that is null": ("region", "9, ST_MakeEnvelope(0, 0, 1, 1, 32610), '{NULL}', 1, 1"),
    "nobody": ("region", "9, ST_MakeEnvelope(0, 0, 1, 1, 32610), NULL, 1, 0"),
    "no crowd": ("region", "9, ST_MakeEnvelope(0, 0, 1, 1, 32610), NULL, 0, 1"),
    "columns that are no object": ("region", "9, ST_MakeEnvelope(0, 0, 1, 1, 32610), NULL, 1, 1, '[]'"),
    "region 0": ("region", "0, ST_MakeEnvelope(0, 0, 1, 1, 32610), NULL, 1, 1"),
    "an empty period": ("period", "9, 'empty'"),
    "a closed period": ("period", "9, '[2008-06-04,2008-06-05]'"),
    "an endless period": ("period", "9, '[2008-06-04,)'"),
    "no rows": ("record", "9, '{}', '{}'"),
    "two lengths": ("record", "9, '{1,1}', '{1}'"),
    "a null period": ("record", "9, '{1,NULL}', '{1,1}'"),
    "a null region": ("record", "9, '{1,1}', '{1,NULL}'"),
    "two dimensions": ("record", "9, '{{1}}', '{{1}}'"),
    "rows from 2 on": ("record", "9, '[2:2]={1}', '[2:2]={1}'"),
    "a number below 0": ("record", "9, '{-1}', '{1}'"),
    "record 0": ("record", "0, '{1}', '{1}'"),
    "a member for no time": ("membership", "1, 100, 'empty'"),
    "hidden for no time": ("hiding", "1, 'empty', '{2}'"),
    "hidden among nobody": ("hiding", "1, NULL, '{}'"),
    "hidden among null": ("hiding", "1, NULL, '{NULL}'"),
    "an atom below 0": ("atom", "1, -1"),
}


@pytest.mark.many
@pytest.mark.parametrize(("table", "values"), BROKEN.values(), ids=BROKEN)
def test_what_a_row_can_never_be_is_refused(scratch: psycopg.Connection, table: str, values: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        scratch.execute(ROW.format(table, values))


@pytest.mark.parametrize(("periods", "regions"), [("{3}", "{1}"), ("{1}", "{4}"), ("{1,99}", "{1,1}")])
def test_a_record_names_regions_and_periods_of_its_run(scratch: psycopg.Connection, periods: str, regions: str) -> None:
    assert read_value(scratch, "SELECT max(region_no) FROM dbanon.region") == 3
    for statement in (
        "INSERT INTO dbanon.record VALUES (1, 9, %s, %s)",
        "UPDATE dbanon.record SET periods = %s, regions = %s",
    ):
        with pytest.raises(psycopg.Error) as caught, scratch.transaction():
            scratch.execute(statement, [periods, regions])
        assert caught.value.sqlstate == "DA009"


# --- the view ---------------------------------------------------------------------------------------------------------


def test_a_row_deleted_through_the_view_leaves_the_others_their_places(own: psycopg.Connection) -> None:
    own.execute("INSERT INTO dbanon.cloak SELECT 1, 1, 3, period, region, crowd, subjects FROM dbanon.cloak LIMIT 1")
    places = "SELECT array_agg(seq ORDER BY seq) FROM dbanon.cloak WHERE record_id = 1"
    assert read_value(own, places) == [1, 2, 3]
    own.execute("DELETE FROM dbanon.cloak WHERE (record_id, seq) = (1, 2)")
    assert read_value(own, places) == [1, 3]
    with arrow.open_snapshot(own) as snapshot:
        found = _rows.read(snapshot, 1).fields
    assert found["offset"].tolist() == [0, 2, 4]
    by_record = dict(zip(found["record_id"].tolist(), np.split(found["place"], [2]), strict=True))
    assert {record: places.tolist() for record, places in by_record.items()} == {1: [1, 3], 2: [1, 2]}
    own.execute("DELETE FROM dbanon.cloak WHERE record_id = 1")
    assert read_value(own, "SELECT array_agg(record_id) FROM dbanon.record") == [2]
    own.execute("UPDATE dbanon.cloak SET seq = 7, record_id = 5 WHERE (record_id, seq) = (2, 2)")
    assert own.execute("SELECT record_id, seq FROM dbanon.cloak ORDER BY 1, 2").fetchall() == [(2, 1), (5, 7)]


def test_two_rows_of_one_place_are_refused(scratch: psycopg.Connection) -> None:
    for statement in (
        "INSERT INTO dbanon.cloak SELECT * FROM dbanon.cloak",
        "UPDATE dbanon.cloak SET seq = 1",
        "UPDATE dbanon.cloak SET record_id = 1",
    ):
        with pytest.raises(psycopg.errors.UniqueViolation), scratch.transaction():
            scratch.execute(statement)


INSERTED = """INSERT INTO dbanon.cloak
    SELECT 1, 1, {}, period, region, crowd, subjects FROM dbanon.cloak WHERE (record_id, seq) = (2, 1)"""
GROWN = "UPDATE dbanon.cloak SET crowd = crowd + 1 WHERE (record_id, seq) = (1, 1)"


@pytest.mark.many
@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    ("statements", "sqlstate", "rows"),
    [
        ((INSERTED.format(3), INSERTED.format(4)), None, [1, 2, 3, 4]),
        ((GROWN, "DELETE FROM dbanon.cloak WHERE (record_id, seq, crowd) = (1, 1, 5)"), "40001", [1, 2]),
        ((GROWN, INSERTED.format(3)), None, [1, 2, 3]),
        (("DELETE FROM dbanon.cloak WHERE record_id = 1", GROWN), "40001", None),
    ],
)
def test_two_who_write_rows_of_one_record_lose_none(
    connection: psycopg.Connection,
    database: str,
    statements: tuple[str, str],
    sqlstate: str | None,
    rows: list[int] | None,
) -> None:
    raised: list[str | None] = []

    def write_second(other: psycopg.Connection) -> None:
        try:
            other.execute(statements[1])
            raised.append(None)
        except psycopg.Error as error:
            raised.append(error.sqlstate)

    with psycopg.connect(database, autocommit=True) as other, psycopg.connect(database) as one:
        one.execute(statements[0])
        writer = threading.Thread(target=write_second, args=[other])
        writer.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
        wait_until(lambda: bool(raised) or read_value(connection, waiting, other.info.backend_pid) == 1)
        one.commit()
        writer.join()
    assert raised == [sqlstate]
    assert read_value(connection, "SELECT array_agg(seq ORDER BY seq) FROM dbanon.cloak WHERE record_id = 1") == rows


def test_undoing_a_change_leaves_what_was_there(scratch: psycopg.Connection) -> None:
    before = read_value(scratch, "SELECT dbanon_internal.compute_run_digest(1)")
    day = "period = tstzrange(lower(period) {0} interval '1 day', upper(period) {0} interval '1 day')"
    for change in ("crowd = crowd {} 1", "region = ST_Translate(region, {}1, 0)", day, "seq = seq {} 10"):
        scratch.execute("UPDATE dbanon.cloak SET " + change.format("+"))
        assert read_value(scratch, "SELECT dbanon_internal.compute_run_digest(1)") != before, change
        scratch.execute("UPDATE dbanon.cloak SET " + change.format("-"))
        assert read_value(scratch, "SELECT dbanon_internal.compute_run_digest(1)") == before, change


READ_OTHERWISE = {
    "another default": "columns = jsonb_set(columns, '{0,default}', '\"true\"')",
    "another type": "columns = jsonb_set(columns, '{0,sql_type}', '\"text\"')",
    "another column": """columns = columns || '{"name": "more", "sql_type": "text", "default": "", "comment": ""}'""",
    "another region type": "region_type = 'MultiPolygon'",
    "hidden otherwise": """traits = traits || CASE traits ->> 'hidden_by'
        WHEN 'record' THEN '{"hidden_by": "region"}'::jsonb ELSE '{"hidden_by": "record"}' END""",
    "standing otherwise": """algorithms = jsonb_set(
        algorithms, '{0,stands_alone}', to_jsonb(NOT (algorithms #>> '{0,stands_alone}')::boolean))""",
    "another secret": """traits = traits || '{"hides": "sender"}'""",
    "positions of another age": """traits = traits || '{"instant": "k", "oldest": "k"}'""",
}


@pytest.mark.many
@pytest.mark.parametrize("change", READ_OTHERWISE.values(), ids=READ_OTHERWISE)
def test_rows_that_would_be_read_otherwise_than_they_were_verified_are_not_published(
    ten: psycopg.Connection, change: str
) -> None:
    run = write(ten, CONTRACTS["objects"])
    change_methods(ten, f"UPDATE dbanon.method SET {change} WHERE name = 'objects'")
    with expect_refusal("DA005"):
        ten.execute("SELECT dbanon.publish(%s, 'made')", [run])


def test_words_about_a_method_may_change(ten: psycopg.Connection) -> None:
    run = write(ten, CONTRACTS["objects"])
    change_methods(
        ten,
        "UPDATE dbanon.method SET summary = 'other', columns = jsonb_set(columns, '{0,comment}', '\"other\"'),"
        """ traits = traits || '{"reasons": {"too_few": "other"}}' WHERE name = 'objects'""",
    )
    assert read_value(ten, "SELECT dbanon.publish(%s, 'made')", run) == 20


# --- from release to nothing ------------------------------------------------------------------------------------------


@pytest.mark.many
@every_contract
def test_it_is_published_with_the_key_first_and_its_own_region_type(
    ten: psycopg.Connection, contract: Contract
) -> None:
    cloaks, run = contract.cloaks(), write(ten, contract)
    assert read_value(ten, "SELECT dbanon.publish(%s, 'made')", run) == cloaks.rows
    columns = ten.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'published.made'::regclass"
        " AND attnum > 0 ORDER BY attnum"
    ).fetchall()
    own = [contract.column[:2]] if contract.column else []
    assert columns == [
        ("cloak_id", "bigint"), ("record_id", "bigint"), ("seq", "integer"),
        ("region", f"geometry({contract.region_type},32610)"), ("crowd", "integer"), ("subjects", "integer"),
        ("valid_from", "timestamp with time zone"), ("valid_to", "timestamp with time zone"), *own,
    ]  # fmt: skip
    shown = "SELECT seq, {}, ST_AsText({}), crowd, subjects FROM {} ORDER BY 1, 2, 3, 4, 5"
    several = "ST_Multi(region)" if contract.region_type == "MultiPolygon" else "region"
    assert (
        ten.execute(shown.format("tstzrange(valid_from, valid_to)", "region", "published.made")).fetchall()
        == ten.execute(shown.format("period", several, "dbanon.cloak WHERE run_id = %s"), [run]).fetchall()
    )
    keys = "SELECT array_agg(cloak_id ORDER BY record_id, seq) FROM published.made"
    assert read_value(ten, keys) == list(range(1, cloaks.rows + 1))


SPOKEN_OF = """
WITH person AS (
    SELECT DISTINCT tra.subject, dbanon_internal.hash_person(dbanon_internal.find_dataset_key(1), tra.subject) AS code
    FROM dbanon.trajectory tra WHERE tra.dataset_id = 1
), said AS (
    SELECT gro.period, true AS together,
        ARRAY(SELECT person.subject FROM person WHERE person.code = ANY (gro.people) ORDER BY 1) AS subjects
    FROM dbanon.grouping gro WHERE gro.release_id = -1
    UNION ALL
    SELECT ele.period, false, array_agg(person.subject ORDER BY person.subject)
    FROM dbanon.exposure exp JOIN person ON person.code = exp.person CROSS JOIN LATERAL unnest(exp.period) ele (period)
    WHERE exp.release_id = -1 GROUP BY ele.period
)
SELECT to_char(lower(said.period) AT TIME ZONE 'UTC', 'HH24:MI-')
    || to_char(upper(said.period) AT TIME ZONE 'UTC', 'HH24:MI'), said.together, said.subjects
FROM said ORDER BY 1, 2 DESC, 3
"""


def list_spoken_of(connection: psycopg.Connection, run: int) -> list[tuple[str, bool, list[str]]]:
    """Of whom a run speaks: when, whether together in a group, who."""
    with connection.transaction(force_rollback=True):
        connection.execute("SELECT dbanon_internal.store_groups(%s, -1)", [run])
        return [tuple(row) for row in connection.execute(SPOKEN_OF).fetchall()]  # type: ignore[misc]


FIRST_FIVE, LAST_FIVE, ALL = ([f"p{i}" for i in people] for people in (range(5), range(5, 10), range(10)))
GROUPS = {
    "bundles": [("08:00-08:02", True, FIRST_FIVE), ("08:00-08:02", True, LAST_FIVE)],
    "sites": [("08:00-08:01", True, FIRST_FIVE), ("08:00-08:01", False, LAST_FIVE)],
    "k-merge": [("08:00-08:05", True, ["p0", "p1"])],
    "kte-hide": [("08:00-08:05", False, ["p0", "p1", "p2"])],
    "objects": [("08:00-08:02", False, ALL)],
    "areas": [("08:00-09:00", False, ["p0", "p1"])],
}


@pytest.mark.many
@every_contract
def test_its_groups_are_known_and_the_same_ones_again_tell_nothing(ten: psycopg.Connection, contract: Contract) -> None:
    run, again = write(ten, contract), write(ten, contract)
    assert list_spoken_of(ten, run) == GROUPS[contract.name]
    ten.execute("SELECT dbanon.publish(%s, 'first')", [run])
    measured = ten.execute("SELECT relation, below, releases FROM dbanon.measure_overlap(%s)", [again]).fetchone()
    assert measured == ("same", 0, ["first"])
    said = collect_notices(ten)
    assert read_value(ten, "SELECT dbanon.publish(%s, 'second')", again) == contract.cloaks().rows
    demand_named(next(sentence for sentence in said if "same" in sentence), "first")


def test_what_stands_alone_is_refused_beside_others_that_speak_of_its_people(ten: psycopg.Connection) -> None:
    ten.execute("SELECT dbanon.publish(%s, 'first')", [write(ten, CONTRACTS["k-merge"])])
    crossing = write(ten, CONTRACTS["kte-hide"])
    measured = ten.execute("SELECT relation, below > 0 FROM dbanon.measure_overlap(%s)", [crossing]).fetchone()
    assert measured == ("overlapping", True)
    with expect_refusal("DA010"):
        ten.execute("SELECT dbanon.publish(%s, 'second')", [crossing])


def make_rings(step: int) -> Cloaks:
    """Ten records in one region, each hidden among those `step` and twice `step` later: sets that overlap."""
    cloaks, record = make_kte_hide(), np.arange(1, 11)
    start = cloaks.start[0]
    others = (record[:, None] - 1 + step * np.array([1, 2])) % 10 + 1
    return Cloaks.from_rows(
        record_id=record, start=np.full(10, start), end=np.full(10, start + 60),
        bounds=np.tile([0.0, 0.0, 100.0, 100.0], (10, 1)), crowd=np.full(10, 3), subjects=np.ones(10, np.int64),
        member_record=record, member_trajectory=record + 99,
        hiding=Hiding(record=record, offset=np.arange(0, 21, 2), other=others.ravel()),
        suppressed=cloaks.suppressed, metrics={},
    )  # fmt: skip


def test_other_hiding_sets_that_overlap_are_refused(ten: psycopg.Connection) -> None:
    contract = CONTRACTS["kte-hide"]
    first, other = (write(ten, contract, make_rings(step)) for step in (1, 4))
    ten.execute("SELECT dbanon.publish(%s, 'first')", [first])
    with expect_refusal("DA010"):
        ten.execute("SELECT dbanon.publish(%s, 'second')", [other])


def test_a_run_with_a_record_without_members_is_not_published(ten: psycopg.Connection) -> None:
    nobody = make_k_merge()
    first = nobody.member_record == 1
    members = {"member_record": nobody.member_record[first], "member_trajectory": nobody.member_trajectory[first]}
    for contract in (CONTRACTS["k-merge"], CONTRACTS["areas"]):
        with expect_refusal("DA005"):
            ten.execute(
                "SELECT dbanon.publish(%s, 'made')", [write(ten, contract, Cloaks(**{**vars(nobody), **members}))]
            )


@pytest.mark.many
@every_contract
def test_its_card_tells_hours_reasons_rows_and_time(ten: psycopg.Connection, contract: Contract) -> None:
    cloaks, run = contract.cloaks(), write(ten, contract)
    ten.execute("SELECT dbanon.publish(%s, 'made')", [run])
    card = read_value(ten, "SELECT dbanon.release_card('made')")
    assert isinstance(card, dict)
    assert card["left_out"]["in_all"] == {"subjects": {"too_few": 3}}
    assert card["left_out"]["by_hour"] == cloaks.suppressed["by_hour"]
    assert card["rows"] == cloaks.rows
    told = [datetime.fromisoformat(card["period"][side]).astimezone(UTC).timestamp() for side in ("since", "until")]
    assert told == [cloaks.periods.min(), cloaks.periods.max()]


@pytest.mark.many
@every_contract
def test_forgetting_a_person_takes_the_run_and_all_it_wrote(ten: psycopg.Connection, contract: Contract) -> None:
    run = write(ten, contract)
    written = count_tables(ten, run)
    assert all(written[table] for table in TABLES if table not in {"hiding", "atom"})
    assert bool(written["hiding"]) == (contract.cloaks().hiding is not None)
    assert bool(written["atom"]) == (contract.cloaks().atoms is not None)
    ten.execute("SELECT dbanon.forget_subject('ten', 'p0')")
    assert set(count_tables(ten, run).values()) == {0}


@pytest.mark.many
@every_contract
def test_dropping_it_takes_all_it_wrote_and_counts_rows(ten: psycopg.Connection, contract: Contract) -> None:
    run = write(ten, contract)
    assert read_value(ten, "SELECT dbanon.drop_run(%s)", run) == contract.cloaks().rows
    assert set(count_tables(ten, run).values()) == {0}


# --- many rows --------------------------------------------------------------------------------------------------------


@pytest.mark.stress
@pytest.mark.parametrize("hidden_by", ["record", "region", "alone"])
def test_many_rows_without_statistics_are_joined_all_at_once(ten: psycopg.Connection, hidden_by: str) -> None:
    """Joined row by row, 20,000 records with a region each take minutes."""
    people = np.arange(20_000)
    ten.execute(
        "INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path)"
        " SELECT 1000 + i, 1, 'q' || i, ST_SetSRID(ST_MakePointM(i, 0, %s), 32610) FROM generate_series(0, 19999) i",
        [int(list_minutes((0, 1))[0, 0])],
    )
    bounds = np.column_stack([people, people * 0, people + 1, people * 0 + 1]).astype(float)
    start, end = np.repeat(list_minutes((0, 1)), len(people), axis=0).T
    cloaks = Cloaks.from_rows(
        record_id=people + 1, start=start, end=end, bounds=bounds, crowd=np.full(len(people), 2),
        subjects=np.ones(len(people), int), member_record=people + 1, member_trajectory=people + 1000,
        hiding=Hiding(record=people + 1, offset=np.arange(len(people) + 1), other=(people ^ 1) + 1),
        **make_figures(),
    )  # fmt: skip
    alone = hidden_by == "alone"
    contract = Contract(
        name=f"many-{hidden_by}",
        k=1,
        cloaks=lambda: cloaks,
        hidden_by="record" if alone else hidden_by,
        stands_alone=alone,
    )
    for name in ("first", "second"):
        run = write(ten, contract)
        ten.execute("SET statement_timeout = '30s'")
        assert read_value(ten, "SELECT dbanon.publish(%s, %s)", run, name) == len(people)
        ten.execute("RESET statement_timeout")
