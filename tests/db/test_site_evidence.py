"""What the attack at sensitive sites is given of the stored rows, and of rows that were tampered with."""

import dataclasses
import json

import numpy as np
import psycopg
import pytest

from dbanon.attacks.sensitive_sites import attack
from dbanon.attacks.sensitive_sites.evidence import SiteEvidence
from dbanon.postgres import arrow
from dbanon.runs import _rows, reading
from tests.db.methods import change_methods
from tests.reading import read_value
from tests.unit.attack_evidence import ROW
from tests.unit.site_evidence import SITE_PARAMS, SiteWorld, join_evidence

_METHOD = """
INSERT INTO dbanon.method (name, summary, guarantee, region_type, attack, algorithms, columns, paper, adversary,
    row_meaning, left_out, parameters)
VALUES (%s, 's', 'g', 'Polygon', %s, '[{"name": "bk", "summary": "s"}]',
    '[{"name": "cloaked", "sql_type": "boolean", "default": "false", "comment": "c"}]', 'p', 'a', 'r', 'l', '[]')
ON CONFLICT DO NOTHING
"""
_RUN = """
INSERT INTO dbanon.run (dataset_id, dataset_revision, method, algorithm, params, suppressed, status)
SELECT dataset_id, revision, 'sensitive-sites', 'bk', %s, %s, 'running' FROM dbanon.dataset WHERE dataset_id = %s
RETURNING run_id
"""
_CLOAK = """
INSERT INTO dbanon.cloak (run_id, record_id, seq, period, region, crowd, subjects, extra)
VALUES (%s, %s, 1, tstzrange(to_timestamp(%s), to_timestamp(%s)),
    ST_Reverse(ST_MakeEnvelope(%s, %s, %s, %s, 32610)), %s, 1, %s)
"""
_HIDDEN = '{"cloaked": true}'


def make_dataset(connection: psycopg.Connection, grid_m: float = 1.0, grid_s: int = 5) -> int:
    change_methods(connection, _METHOD, ["sensitive-sites", "sensitive-sites"])
    count = read_value(connection, "SELECT count(*) FROM dbanon.dataset")
    insert = "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES (%s, 32610, %s, %s) RETURNING dataset_id"
    return read_value(connection, insert, f"d{count}", grid_m, grid_s)


def make_run(connection: psycopg.Connection, dataset: int, params: object, suppressed: object = ()) -> int:
    return read_value(connection, _RUN, json.dumps(params), json.dumps(dict(suppressed)), dataset)


def add_rows(connection: psycopg.Connection, rows: list[tuple]) -> None:
    with connection.cursor() as cursor:
        cursor.executemany(_CLOAK, rows)


def add_sites(connection: psycopg.Connection, dataset: int, texts: list[str]) -> None:
    with connection.cursor() as cursor:
        insert = "INSERT INTO dbanon.site (dataset_id, geom) VALUES (%s, ST_GeomFromText(%s, 32610))"
        cursor.executemany(insert, [(dataset, text) for text in texts])


def test_regions_an_analyst_can_tell_apart_are_not_one(database: str, connection: psycopg.Connection) -> None:
    dataset = make_dataset(connection)
    add_sites(connection, dataset, ["POINT(1.5 1.5)"])
    run = make_run(connection, dataset, {})
    add_rows(connection, [(run, i, 0, 60, 0, 0, 3, 3, 3, _HIDDEN) for i in range(1, 5)])
    connection.execute("UPDATE dbanon.cloak SET region = ST_Reverse(region) WHERE record_id = 1")
    connection.execute(
        "UPDATE dbanon.cloak SET region = ST_Reverse(ST_MakeEnvelope(0, 0, 3, 3 + 1e-9, 32610)) WHERE record_id = 2"
    )
    assert sorted(read(database, run).pair_rows.tolist()) == [1, 1, 2]


@pytest.mark.many
@pytest.mark.parametrize(
    ("extra", "cloaked"),
    [
        (None, 0), ("{}", 0), ('{"cloaked": false}', 0), (_HIDDEN, 1), ('{"cloaked": "true"}', -1),
        ('{"cloaked": null}', -1), ('{"cloaked": 1}', -1), ('{"cloaked": [true]}', -1),
    ],
)  # fmt: skip
def test_cloaked_is_a_json_boolean_or_nothing(connection: psycopg.Connection, extra: str | None, cloaked: int) -> None:
    run = make_run(connection, make_dataset(connection), {})
    add_rows(connection, [(run, 1, 0, 60, 2, 1, 3, 2, 1, extra)])
    with arrow.open_snapshot(connection) as snapshot:
        assert _rows.read(snapshot, run).fields["region_other_keys"].tolist() == [0]
    said = "SELECT cloaked FROM dbanon_internal.gather_cloaked_evidence(%s)"
    assert (connection.execute(said, [run]).fetchall() or [(0,)]) == [(cloaked,)]


# What the attack is given: a small world, written and read back.


def make_world(**params: object) -> SiteWorld:
    cells = {
        0: (9, 9),
        1: (11, 10),
        2: (12, 12),
        3: (10, 10),
        4: (29, 8),
        5: (31, 11),
        6: (33, 10),
        7: (12, 9),
        8: (40, 9),
    }
    trips = {700 + s: (s, [(3.0 * s, 2.0 * x + 0.5, 2.0 * y + 1.9)]) for s, (x, y) in cells.items()}
    sites = {801: (20.5, 21.9, 20.5, 21.9), 802: (60.0, 20.0, 61.0, 20.5)}
    return SiteWorld(trips, sites, SITE_PARAMS | params, {708: (76.0, 18.0, 81.0, 19.0)})


def write_world(connection: psycopg.Connection, small: SiteWorld, evidence: SiteEvidence) -> int:
    """Write a world and what is published of it; returns the run."""
    dataset = make_dataset(connection, small.grid_m, small.grid_s)
    for trajectory, (subject, fixes) in small.trips.items():
        (t, x, y), shape = fixes[0], small.shapes.get(trajectory)
        insert = """INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path, shape)
            VALUES (%s, %s, %s, ST_SetSRID(ST_MakePointM(%s, %s, %s), 32610), ST_MakeEnvelope(%s, %s, %s, %s, 32610))"""
        connection.execute(insert, [trajectory, dataset, f"s{subject}", x, y, t, *(shape or [None] * 4)])
    for site, bounds in small.sites.items():
        insert = "INSERT INTO dbanon.site (site_id, dataset_id, geom) VALUES (%s, %s, ST_MakeLine(%s::text, %s::text))"
        corners = [f"SRID=32610;POINT({bounds[i]} {bounds[i + 1]})" for i in (0, 2)]
        connection.execute(insert, [site, dataset, *corners])
    run = make_run(connection, dataset, evidence.params, evidence.suppressed)
    hidden = [_HIDDEN if cloaked else None for cloaked in evidence.cloak_cloaked]
    columns = (evidence.cloak_record, evidence.cloak_start_s, evidence.cloak_end_s, *evidence.cloak_bounds.T)
    rows = zip(*(column.tolist() for column in (*columns, evidence.cloak_crowd)), hidden, strict=True)
    add_rows(connection, [(run, *row) for row in rows])
    members = zip(evidence.member_record.tolist(), evidence.member_trajectory.tolist(), strict=True)
    for record, trajectory in members:
        insert = "INSERT INTO dbanon.membership (run_id, record_id, trajectory_id) VALUES (%s, %s, %s)"
        connection.execute(insert, [run, record, trajectory])
    return run


def read(url: str, run: int) -> SiteEvidence:
    with reading.open_reader(url) as reader:
        evidence, _ = reader.read_evidence(run)
    assert isinstance(evidence, SiteEvidence)
    return evidence


def list_pairs(evidence: SiteEvidence) -> list[list]:
    columns = (evidence.pair_site, evidence.pair_cloaked, evidence.pair_rows, evidence.pair_squared)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


GROUPS = {801: [0, 1, 2, 3], 802: [4, 5, 6]}


@pytest.mark.parametrize("guard_m", [None, 3, 100])
def test_what_is_read_back_is_what_was_written(
    database: str, connection: psycopg.Connection, guard_m: float | None
) -> None:
    small = make_world(guard_m=guard_m)
    honest = small.make_evidence(GROUPS)
    evidence = read(database, write_world(connection, small, honest))
    assert list_pairs(evidence) == list_pairs(honest) == list_pairs(join_evidence(evidence))
    for name in ("site_id", "site_bounds", "shape_trajectory", "shape_bounds"):
        assert np.array_equal(getattr(evidence.sites, name), getattr(honest.sites, name)), name
    order, same = np.argsort(evidence.cloak_record), np.argsort(honest.cloak_record)
    for column in (*ROW, "cloaked"):
        found, wanted = (getattr(e, f"cloak_{column}") for e in (evidence, honest))
        assert np.array_equal(found[order], wanted[same]), column
    assert attack(evidence).passed == (guard_m != 100)
    assert attack(dataclasses.replace(honest, params=evidence.params)).passed == (guard_m != 100)


TAMPERED = {
    "nearest": "UPDATE dbanon.cloak SET extra = NULL, crowd = 1, "
    "region = ST_Reverse(ST_MakeEnvelope(20, 20, 22, 22, 32610))"
    " WHERE record_id = (SELECT record_id FROM dbanon.membership WHERE trajectory_id = 703)",
    "complete": "DELETE FROM dbanon.membership WHERE trajectory_id = 707",
    "size": "UPDATE dbanon.cloak SET region = ST_Expand(region, 2)"
    " WHERE record_id = (SELECT record_id FROM dbanon.membership WHERE trajectory_id = 705)",
    "own-rectangle": "UPDATE dbanon.site SET geom = ST_Translate(geom, 20, 0) WHERE site_id = 802",
    "members": "INSERT INTO dbanon.membership SELECT * FROM dbanon.membership WHERE trajectory_id = 705",
    "columns": """UPDATE dbanon.cloak SET extra = '{"cloaked": "true"}' WHERE crowd > 1""",
}


@pytest.mark.many
@pytest.mark.parametrize("clause", TAMPERED)
def test_rows_that_were_tampered_with_are_refused(database: str, connection: psycopg.Connection, clause: str) -> None:
    small = make_world()
    run = write_world(connection, small, small.make_evidence(GROUPS))
    assert attack(read(database, run)).passed
    connection.execute(TAMPERED[clause])
    verdict = attack(read(database, run))
    assert clause in {c.name for c in verdict.clauses if not c.passed}
