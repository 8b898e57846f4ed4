"""What PostGIS finds of published polygons, held against loops over Shapely's geometries, and what the attack says."""

import json
from types import SimpleNamespace

import numpy as np
import psycopg
import pytest
import shapely
from psycopg import errors

from dbanon.attacks.semantic import attack
from dbanon.attacks.semantic._outlines import build_outlines
from dbanon.attacks.semantic.evidence import RegionEvidence
from dbanon.runs import reading
from tests.db.methods import change_methods
from tests.reading import read_value
from tests.unit.semantic_evidence import GRID_S, Release
from tests.unit.test_attack_semantic import MUTANTS, WORLDS, make_apart, make_grown, make_honest

_METHOD = """
INSERT INTO dbanon.method (name, summary, guarantee, region_type, attack, algorithms, columns, paper, adversary,
    row_meaning, left_out, parameters)
VALUES ('semantic', 's', 'g', 'MultiPolygon', 'dbanon.attacks.semantic',
    '[{"name": "atoms", "summary": "s"}]',
    '[{"name": "categories", "sql_type": "integer", "default": "0", "comment": "c"}]', 'p', 'a', 'r', 'l', '[]')
ON CONFLICT DO NOTHING
"""
_RUN = """
INSERT INTO dbanon.run (dataset_id, dataset_revision, method, algorithm, params, suppressed, status)
SELECT dataset_id, revision, 'semantic', 'atoms', %s, %s, 'running' FROM dbanon.dataset WHERE dataset_id = %s
RETURNING run_id
"""
# Of the region that was stored last.
_ROW = """
INSERT INTO dbanon.cloak (run_id, record_id, seq, period, region, crowd, subjects, extra)
SELECT g.run_id, %s, 1 + (SELECT count(*) FROM dbanon.cloak WHERE run_id = %s AND record_id = %s),
    tstzrange(to_timestamp(%s), to_timestamp(%s)), g.region, %s, g.subjects, g.extra
FROM dbanon.region g WHERE g.run_id = %s ORDER BY g.region_no DESC LIMIT 1
"""
_ALL = "(SELECT array_agg(region_no) FROM dbanon.region WHERE run_id = %s)"


def make_dataset(connection: psycopg.Connection) -> int:
    change_methods(connection, _METHOD)
    count = read_value(connection, "SELECT count(*) FROM dbanon.dataset")
    insert = "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES (%s, 32610, 1, %s) RETURNING dataset_id"
    return read_value(connection, insert, f"d{count}", GRID_S)


def make_run(connection: psycopg.Connection, dataset: int, params: object = None, suppressed: object = None) -> int:
    return read_value(connection, _RUN, json.dumps(params or {}), json.dumps(suppressed or {}), dataset)


def add_cells(connection: psycopg.Connection, dataset: int, shapes: list[shapely.Geometry]) -> list[int]:
    insert = "INSERT INTO dbanon.cell (dataset_id, geom) VALUES (%s, ST_GeomFromWKB(%s, 32610)) RETURNING cell_id"
    return [read_value(connection, insert, dataset, shape.wkb) for shape in shapes]


def add_pois(connection: psycopg.Connection, dataset: int, points: list[tuple[str, shapely.Point]]) -> None:
    insert = "INSERT INTO dbanon.poi (dataset_id, category, geom) VALUES (%s, %s, ST_GeomFromWKB(%s, 32610))"
    with connection.cursor() as cursor:
        cursor.executemany(insert, [(dataset, category, point.wkb) for category, point in points])


def add_unions(connection: psycopg.Connection, run: int, unions: list[list[int]], extra: str | None = None) -> None:
    first = read_value(connection, "SELECT coalesce(max(region_no), 0) FROM dbanon.region WHERE run_id = %s", run) + 1
    connection.execute(
        "SELECT dbanon_internal.add_cell_regions(%s, %s::integer[], %s::integer[], %s::bigint[], %s::integer[], "
        "%s::integer[], %s::jsonb[])",
        [
            run, list(range(first, first + len(unions))), [len(own) for own in unions],
            [cell for own in unions for cell in own], [2] * len(unions), [1] * len(unions), [extra] * len(unions),
        ],
    )  # fmt: skip


def add_polygons(connection: psycopg.Connection, run: int, shapes: list[shapely.Geometry]) -> None:
    for shape in shapes:
        connection.execute(
            "INSERT INTO dbanon.region (run_id, region_no, region, crowd, subjects) SELECT %s, "
            "coalesce(max(region_no), 0) + 1, ST_GeomFromWKB(%s, 32610), 2, 1 FROM dbanon.region WHERE run_id = %s",
            [run, shape.wkb, run],
        )


def read_stored(connection: psycopg.Connection, run: int) -> list[shapely.Geometry]:
    query = "SELECT ST_AsBinary(region) FROM dbanon.region WHERE run_id = %s ORDER BY region_no"
    return [shapely.from_wkb(bytes(row[0])) for row in connection.execute(query, [run])]


# A city at random.


def draw_voronoi(rng: np.random.Generator, count: int, side: float = 1000.0) -> list[shapely.Geometry]:
    points = shapely.MultiPoint(rng.uniform(0, side, (count, 2)))
    square = shapely.box(0, 0, side, side)
    found = shapely.voronoi_polygons(points, extend_to=square)
    return [shapely.intersection(cell, square) for cell in found.geoms]


def find_cells(connection: psycopg.Connection, run: int) -> tuple[dict[int, set[int]], set[int]]:
    """Ask PostGIS which cells each region holds, and which regions are split."""
    cells: dict[int, set[int]] = {}
    split = set()
    for region, cell, apart in connection.execute(
        f"SELECT * FROM dbanon_internal.gather_held_evidence(%s, {_ALL})", [run, run]
    ):
        cells.setdefault(region, set()).add(cell)
        split |= {region} if apart else set()
    return cells, split


def test_cells_are_those_that_loops_find(connection: psycopg.Connection, rng: np.random.Generator) -> None:
    cells = draw_voronoi(rng, 40)
    dataset, other = make_dataset(connection), make_dataset(connection)
    add_cells(connection, other, [shapely.box(0, 0, 1000, 1000)])
    ids = add_cells(connection, dataset, cells)
    run = make_run(connection, dataset)
    unions = [sorted(rng.choice(ids, rng.integers(1, 20), replace=False).tolist()) for _ in range(15)]
    add_unions(connection, run, [*unions, ids])
    large = max(cells, key=lambda cell: cell.area)  # nothing is left of some others
    odd = [shapely.Point(500, 500).buffer(300), shapely.box(-50, 0, 400, 400), large.buffer(-5), large.buffer(5)]
    odd.append(shapely.box(100, 100, 900, 900).difference(shapely.box(300, 300, 600, 600)))
    add_polygons(connection, run, odd)
    held, split = find_cells(connection, run)
    assert held == {
        number: {i for i, cell in zip(ids, cells, strict=True) if polygon.covers(cell.point_on_surface())}
        for number, polygon in enumerate(read_stored(connection, run), 1)
    }
    assert [held[number] for number in range(1, 17)] == [set(own) for own in [*unions, ids]]
    assert split == {17 + i for i in range(len(odd))}


def test_a_part_of_a_cell_is_not_paid_for_by_a_gap_between_cells(connection: psycopg.Connection) -> None:
    dataset = make_dataset(connection)
    gap, rest = shapely.box(140, 40, 160, 60), shapely.box(300, 0, 320, 20)
    ids = add_cells(connection, dataset, [shapely.box(0, 0, 100, 100) | rest, shapely.box(100, 0, 200, 100) - gap])
    run = make_run(connection, dataset)
    add_unions(connection, run, [ids])
    (honest,) = read_stored(connection, run)
    add_polygons(connection, run, [honest - rest | gap, honest - rest, honest | gap])
    assert find_cells(connection, run) == ({number: set(ids) for number in range(1, 5)}, {2, 3, 4})


def test_a_cell_must_not_cross_itself(connection: psycopg.Connection) -> None:
    bow_tie = shapely.Polygon([(0, 0), (100, 100), (100, 0), (0, 70)])
    with pytest.raises(errors.CheckViolation):
        add_cells(connection, make_dataset(connection), [bow_tie])


def find_whole(connection: psycopg.Connection, run: int) -> dict[int, list[int]]:
    """Give the regions that the attack takes as whole cells, with these, and asks no more about."""
    cells, regions = (
        {column: np.array([row[i] for row in rows], kind) for i, (column, kind) in enumerate(columns)}
        for columns, rows in (
            (
                [("cell_id", np.int64), ("outline", object)],
                connection.execute("SELECT * FROM dbanon_internal.gather_cell_evidence(%s)", [run]).fetchall(),
            ),
            (
                [("region_no", np.int64), ("outline", object), ("cells", object)],
                connection.execute("SELECT * FROM dbanon_internal.gather_outline_evidence(%s)", [run]).fetchall(),
            ),
        )
    )
    region_no, number, cell = build_outlines(cells, [regions])
    ids = np.split(cells["cell_id"][cell], np.cumsum(number))[:-1]
    return {int(no): of.tolist() for no, of in zip(region_no, ids, strict=True)}


def test_regions_of_cells_that_fit_are_known_by_their_edges(
    connection: psycopg.Connection, rng: np.random.Generator
) -> None:
    dataset = make_dataset(connection)
    ids = add_cells(connection, dataset, draw_voronoi(rng, 60))
    run = make_run(connection, dataset)
    unions = [sorted(rng.choice(ids, rng.integers(1, 50), replace=False).tolist()) for _ in range(30)]
    add_unions(connection, run, unions)
    assert find_whole(connection, run) == dict(enumerate(unions, 1))
    connection.execute("UPDATE dbanon.region SET region = ST_Reverse(region) WHERE region_no % 2 = 0")
    assert find_whole(connection, run) == dict(enumerate(unions, 1))
    connection.execute("UPDATE dbanon.region SET cells = NULL WHERE region_no = 1")
    connection.execute("UPDATE dbanon.region SET cells = cells || %s WHERE region_no = 2", [min(ids) - 1])
    assert sorted(find_whole(connection, run)) == list(range(3, 31))


# What is written.


def lay_misfitting(rng: np.random.Generator, amount: float, number: int = 5) -> list[shapely.Geometry]:
    """Lay squares whose corners, and middles of lower edges, lie off by up to half of an amount, each by itself."""
    cells = []
    for column in range(number):
        for row in range(number):
            ring = np.array([[0, 0], [50, 0], [100, 0], [100, 100], [0, 100]]) + np.array([column, row]) * 100
            cells.append(shapely.Polygon(ring + 5e-4 + rng.uniform(-amount / 2, amount / 2, ring.shape)))
    return cells


@pytest.mark.parametrize("amount", [0.0, 1e-9, 1e-6, 5e-4, 1e-3])
def test_cells_that_fit_to_the_millimetre_are_united_without_cracks(
    connection: psycopg.Connection, rng: np.random.Generator, amount: float
) -> None:
    dataset = make_dataset(connection)
    ids = add_cells(connection, dataset, lay_misfitting(rng, amount))
    run = make_run(connection, dataset)
    ring = [i for n, i in enumerate(ids) if n != 12]
    add_unions(connection, run, [ids, ids[:2], ids[:10], ring, [ids[0], ids[24]], ids[:1]])
    assert find_cells(connection, run)[1] == set()
    shapes = read_stored(connection, run)
    for shape, size, parts, holes in zip(
        shapes, [25, 2, 10, 24, 2, 1], [1, 1, 1, 1, 2, 1], [0, 0, 0, 1, 0, 0], strict=True
    ):
        assert isinstance(shape, shapely.MultiPolygon)
        assert shape.is_valid
        assert len(shape.geoms) == parts
        assert sum(len(part.interiors) for part in shape.geoms) == holes
        assert shape.area == pytest.approx(size * 10_000, abs=0.5)
    assert shapes[0].length == pytest.approx(2000, abs=0.05)
    polygons = (
        "SELECT several, valid, parts, holes, least_m2 FROM dbanon_internal.gather_polygon_evidence(%s)"
        " ORDER BY region_no"
    )
    for several, valid, parts, holes, least in connection.execute(polygons, [run]):
        assert several
        assert valid
        assert parts + holes <= 2
        assert least > 9_999


def test_unions_of_cells_that_misfit_by_a_millimetre_are_not_split(
    connection: psycopg.Connection, rng: np.random.Generator
) -> None:
    dataset = make_dataset(connection)
    cells = [
        shapely.transform(cell, lambda xy: xy + rng.uniform(-5e-4, 5e-4, (1, 2))) for cell in draw_voronoi(rng, 100)
    ]
    ids = add_cells(connection, dataset, cells)
    run = make_run(connection, dataset)
    unions = [rng.choice(ids, rng.integers(1, 50), replace=False).tolist() for _ in range(30)]
    add_unions(connection, run, [*unions, ids])
    assert find_cells(connection, run) == ({number: set(own) for number, own in enumerate([*unions, ids], 1)}, set())


def test_specks_of_cells_are_dropped_but_not_the_only_part(connection: psycopg.Connection) -> None:
    dataset = make_dataset(connection)
    pierced = shapely.box(0, 0, 10, 10).difference(shapely.box(4, 4, 4.9, 4.9))
    speck = shapely.MultiPolygon([shapely.box(20, 0, 30, 10), shapely.box(40, 0, 40.5, 1)])
    ids = add_cells(connection, dataset, [pierced, speck, shapely.box(60, 0, 60.5, 0.5)])
    run = make_run(connection, dataset)
    add_unions(connection, run, [[ids[0], ids[1]], [ids[2]]])
    assert [shape.area for shape in read_stored(connection, run)] == [200, 0.25]
    assert [len(shape.geoms) for shape in read_stored(connection, run)] == [2, 1]


ODD = [
    (shapely.box(0, 0, 10, 10), (False, True, 1, 0, 100.0)),
    (shapely.MultiPolygon([shapely.box(0, 0, 10, 10), shapely.box(20, 0, 20.5, 1)]), (True, True, 2, 0, 0.5)),
    (shapely.MultiPolygon([shapely.box(0, 0, 10, 10) - shapely.box(1, 1, 1.5, 2)]), (True, True, 1, 1, 0.5)),
    (shapely.MultiPolygon([shapely.box(0, 0, 10, 10), shapely.box(5, 0, 15, 10)]), (True, False, 2, 0, 100.0)),
    (shapely.GeometryCollection([shapely.box(0, 0, 10, 10)]), (False, False, 1, 0, 0.0)),
    (shapely.force_3d(shapely.MultiPolygon([shapely.box(0, 0, 10, 10)])), (False, False, 1, 0, 0.0)),
]


def test_what_is_no_plain_multipolygon_is_said_to_be_none(connection: psycopg.Connection) -> None:
    run = make_run(connection, make_dataset(connection))
    add_polygons(connection, run, [shape for shape, _ in ODD])
    columns = "several, valid, parts, holes, least_m2"
    said = connection.execute(
        f"SELECT {columns} FROM dbanon_internal.gather_polygon_evidence(%s) ORDER BY region_no", [run]
    )
    assert said.fetchall() == [expected for _, expected in ODD]
    connection.execute(f"SELECT * FROM dbanon_internal.gather_held_evidence(%s, {_ALL})", [run, run])
    assert connection.execute("SELECT * FROM dbanon_internal.gather_outline_evidence(%s)", [run]).fetchall() == []


@pytest.mark.parametrize(
    ("extra", "categories"),
    [
        (None, 0),
        ("{}", 0),
        ('{"categories": 7}', 7),
        ('{"categories": "7"}', -1),
        ('{"categories": 7.0}', -1),
        ('{"categories": 1e99}', -1),
        ('{"categories": null}', -1),
    ],
)
def test_categories_are_a_whole_number(connection: psycopg.Connection, extra: str | None, categories: int) -> None:
    dataset = make_dataset(connection)
    run = make_run(connection, dataset)
    add_unions(connection, run, [add_cells(connection, dataset, [shapely.box(0, 0, 10, 10)])], extra)
    assert (
        read_value(connection, "SELECT categories FROM dbanon_internal.gather_polygon_evidence(%s)", run) == categories
    )


def test_only_those_who_compute_may_ask(connection: psycopg.Connection, login) -> None:
    run = make_run(connection, make_dataset(connection))
    for call in (
        "gather_polygon_evidence(%s)",
        "gather_held_evidence(%s, '{1}')",
        "gather_outline_evidence(%s)",
        "gather_atom_evidence(%s)",
    ):
        query = f"SELECT * FROM dbanon_internal.{call}"
        for role in ("dbanon_operator", "dbanon_analyst"):
            with psycopg.connect(login(role)) as user, pytest.raises(errors.InsufficientPrivilege):
                user.execute(query, [run])
        with psycopg.connect(login("dbanon_worker")) as worker:
            assert worker.execute(query, [run]).fetchall() == []


# What the attack is given: a small world, written and read back.


def write_world(connection: psycopg.Connection, small: Release) -> int:
    """Write the data of a release and what is published of them; returns the run."""
    dataset, wide = make_dataset(connection), small.wide
    squares = [shapely.box(c % wide, c // wide, c % wide + 1, c // wide + 1) for c in range(len(small.pois))]
    squares = [shapely.transform(square, lambda xy: xy * 100) for square in squares]
    ids = add_cells(connection, dataset, squares)
    pois = [
        ("abcdef"[q], shapely.Point(c % wide * 100 + 10 + i, c // wide * 100 + 20 + q))
        for c, counts in enumerate(small.pois)
        for q, number in enumerate(counts)
        for i in range(number)
    ]
    add_pois(connection, dataset, pois)
    for path, (subject, _, fixes) in small.trips.items():
        at = [(-50.0, -50.0) if c is None else (c % wide * 100 + 50.0, c // wide * 100 + 50.0) for _, c in fixes]
        points = ", ".join(f"{x} {y} {t!r}" for (x, y), (t, _) in zip(at, fixes, strict=True))
        text = f"POINTM({points})" if len(fixes) == 1 else f"LINESTRINGM({points})"
        connection.execute(
            "INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path) "
            "VALUES (%s, %s, %s, ST_GeomFromText(%s, 32610))",
            [path, dataset, f"s{subject}", text],
        )
    run = make_run(connection, dataset, small.params, small.suppressed)
    for record in dict.fromkeys(row.record for row in small.rows):
        for row in [row for row in small.rows if row.record == record]:
            add_unions(connection, run, [[ids[c] for c in sorted(row.cells)]], f'{{"categories": {row.categories}}}')
            connection.execute(_ROW, [record, run, record, row.start, row.end, row.crowd, run])
    for record, path, _ in small.members:
        insert = "INSERT INTO dbanon.membership (run_id, record_id, trajectory_id) VALUES (%s, %s, %s)"
        connection.execute(insert, [run, record, path])
    with connection.cursor() as cursor:
        atoms = [(run, *of) for of in zip(ids, small.atoms, strict=True)]
        cursor.executemany("INSERT INTO dbanon.atom (run_id, cell_id, atom) VALUES (%s, %s, %s)", atoms)
    return run


@pytest.fixture
def read(database: str, monkeypatch: pytest.MonkeyPatch):
    """``read(run)`` is what the attack is given."""
    monkeypatch.setattr(reading.methods, "find_method", lambda _: SimpleNamespace(attack="dbanon.attacks.semantic"))

    def evidence(run: int) -> RegionEvidence:
        with reading.open_reader(database) as reader:
            return reader.read_evidence(run)[0]

    return evidence


def find_broken(evidence: RegionEvidence) -> set[str]:
    return {clause.name for clause in attack(evidence).clauses if not clause.passed}


@pytest.mark.parametrize("world", [world for world in WORLDS if world is not make_apart])
def test_what_is_read_back_is_what_was_written(connection: psycopg.Connection, read, world) -> None:
    small = world()
    evidence, expected = read(write_world(connection, small)), small.make_evidence()
    assert attack(evidence).passed
    assert attack(evidence).figures | {"regions": 0} == attack(expected).figures | {"regions": 0}
    assert (evidence.cells.pois == expected.cells.pois).all()
    assert (evidence.cells.neighbours == expected.cells.neighbours).all()
    assert (evidence.cells.fix_cell == expected.cells.fix_cell).all()
    assert (evidence.atom == expected.atom).all()
    assert not evidence.region_split.any()


def make_box(west: float, south: float, east: float, north: float) -> str:
    """Write a rectangle, as seen from the lower left corner of a region."""
    envelope = f"ST_MakeEnvelope({west}, {south}, {east}, {north}, 32610)"
    return f"ST_Translate({envelope}, ST_XMin(region), ST_YMin(region))"


ISLAND = "ST_MakeEnvelope(550, 150, 551, 151, 32610)"
NEEDLE = "ST_GeomFromText('POLYGON ((0 50, -30 50.005, 0 50.01, 0 50))', 32610)"
LAST_ATOM = "ST_MakeEnvelope(0, 200, 300, 300, 32610)"
# What a region is made, of nearly the same area and the same points in it: its outline alone gives it away.
FORGED = {
    "a hair": f"ST_Union(region, {make_box(-13, 20.998, 1, 21.002)})",
    "a keyhole": f"ST_Difference(region, {make_box(-1, 19.998, 17.5, 20.002)})",
    "a needle": f"ST_Union(region, ST_Translate({NEEDLE}, ST_XMin(region), ST_YMin(region)))",
    "a hole": f"ST_Difference(region, {make_box(60, 60, 61, 61)})",
    "a strip cut off": f"ST_Difference(region, {make_box(0, 0, 1, 0.002)})",
    "an island in another cell": f"ST_Union(region, {ISLAND})",
    "an island outside all cells": f"ST_Union(region, ST_Translate({ISLAND}, -900, -900))",
    "an island paid for by shaving": f"ST_Union(ST_Difference(region, {make_box(0, 0, 0.01, 100)}), {ISLAND})",
    "a piece moved out of it": f"ST_Union(ST_Difference(region, {make_box(60, 60, 80, 80)}), "
    f"{make_box(-520, 0, -500, 20)})",
}
TAMPERED = {
    "period": "UPDATE dbanon.cloak SET period = tstzrange(lower(period), upper(period) + interval '1 second')",
    "region": "UPDATE dbanon.cloak SET region = ST_Multi(ST_Buffer(region, 0.01, 'join=mitre'))",
    "region of another kind": "UPDATE dbanon.cloak SET region = ST_GeometryN(region, 1)",
    "region with a speck of a hole": "UPDATE dbanon.cloak "
    "SET region = ST_Multi(ST_Difference(region, ST_MakeEnvelope(310, 10, 310.9, 11, 32610)))",
    "region turned": "UPDATE dbanon.cloak SET region = ST_Multi(ST_Rotate(region, 0.05, ST_Centroid(region)))",
    "columns with other categories": """UPDATE dbanon.cloak SET extra = '{"categories": 3}' WHERE crowd = 2""",
    "members": "DELETE FROM dbanon.cloak WHERE record_id = (SELECT min(record_id) FROM dbanon.cloak)",
    "crowd in words": "UPDATE dbanon.cloak SET crowd = 3",
    "size": "UPDATE dbanon.run SET params = jsonb_set(params, '{k}', '3')",
    "covers": "UPDATE dbanon.trajectory SET path = ST_Translate(path, 300, 0) WHERE trajectory_id = 104",
    "diversity": "DELETE FROM dbanon.poi WHERE category = 'a' AND ST_X(geom) < 200",
    "closeness": "UPDATE dbanon.poi SET category = 'b' WHERE category = 'a' AND ST_X(geom) BETWEEN 10.5 AND 200",
    "left-out": "UPDATE dbanon.trajectory SET path = ST_Translate(path, -900, 0) WHERE trajectory_id = 103",
    "tight where a region has more atoms": f"UPDATE dbanon.cloak SET region = ST_Multi(ST_Union(region, {LAST_ATOM})) "
    "WHERE ST_XMin(region) = 300",
    "classes where a region has some cells of an atom": "UPDATE dbanon.cloak SET region = ST_Multi(ST_Difference("
    f"ST_Union(region, {LAST_ATOM}), ST_MakeEnvelope(100, 200, 200, 300, 32610))) WHERE ST_XMin(region) = 300",
    **{
        f"region with {what}": f"UPDATE dbanon.cloak SET region = ST_Multi({region})" for what, region in FORGED.items()
    },
}


@pytest.mark.parametrize("what", TAMPERED)
def test_rows_that_were_tampered_with_are_refused(connection: psycopg.Connection, read, what: str) -> None:
    run = write_world(connection, make_honest())
    assert find_broken(read(run)) == set()
    connection.execute(TAMPERED[what])
    evidence = read(run)
    assert what.split(maxsplit=1)[0] in find_broken(evidence)
    assert evidence.region_split.all() or what.removeprefix("region with ") not in FORGED


def test_atoms_that_are_not_stored_are_missed_where_they_count(connection: psycopg.Connection, read) -> None:
    runs = [write_world(connection, world()) for world in (make_honest, make_grown)]
    connection.execute(
        "DELETE FROM dbanon.atom WHERE cell_id = ANY (SELECT max(cell_id) FROM dbanon.atom GROUP BY run_id)"
    )
    assert [read(run).atom.tolist().count(-1) for run in runs] == [1, 1]
    assert [find_broken(read(run)) for run in runs] == [set(), {"decidable"}]


def test_more_corners_on_an_outline_change_nothing(connection: psycopg.Connection, read) -> None:
    run = write_world(connection, make_honest())
    connection.execute("UPDATE dbanon.region SET region = ST_Segmentize(region, 7.3)")
    assert find_whole(connection, run) == {}
    assert find_broken(read(run)) == set()


@pytest.mark.many
@pytest.mark.parametrize(
    "number", [i for i, (name, _) in enumerate(MUTANTS) if name in {"complete", "truth", "covers"}]
)
def test_changes_of_data_and_rows_are_caught_as_in_the_small(connection: psycopg.Connection, read, number: int) -> None:
    small = make_honest()
    clause, change = MUTANTS[number]
    change(small)
    assert find_broken(read(write_world(connection, small))) == {clause}
