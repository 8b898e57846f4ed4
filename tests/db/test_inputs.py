"""Inputs read by name, held against plain loops."""

import itertools

import numpy as np
import psycopg
import pytest
import shapely
from psycopg.types.json import Jsonb

from dbanon.base.errors import ParameterError
from dbanon.base.trajectory import Cells, QuasiIdentifiers, Requests, Sites
from dbanon.runs import reading

DATASET = "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES (%s, 32610, 1, 1) RETURNING dataset_id"


def make_dataset(connection, name="d"):
    return connection.execute(DATASET, [name]).fetchone()[0]


def add_cells(connection, dataset, polygons):
    for polygon in polygons:
        connection.execute(
            "INSERT INTO dbanon.cell (dataset_id, geom) VALUES (%s, ST_GeomFromText(%s, 32610))", [dataset, polygon.wkt]
        )


def add_pois(connection, dataset, pois):
    for category, shape in pois:
        connection.execute(
            "INSERT INTO dbanon.poi (dataset_id, category, geom) VALUES (%s, %s, ST_GeomFromText(%s, 32610))",
            [dataset, category, shape.wkt],
        )


def add_paths(connection, dataset, paths):
    for number, (subject, fixes) in enumerate(paths):
        points = ", ".join(f"{x} {y} {t}" for t, x, y in fixes)
        kind = "POINT" if len(fixes) == 1 else "LINESTRING"
        connection.execute(
            "INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path) "
            "VALUES (%s, %s, %s, ST_GeomFromText(%s, 32610))",
            [1000 * dataset + 7 * number, dataset, subject, f"{kind} M ({points})"],
        )


def read_inputs(url, dataset, *names, **params):
    with reading.open_reader(url) as reader:
        data = reader.read_trajectories(dataset)
        return data, reader.read_inputs(dataset, names, params)


def draw_tiles(rng, columns=5, rows=4):
    """Rectangles between uneven lines; some columns of rows of their own, so that edges meet edges in their middle."""
    cells = []
    across = np.cumsum(rng.integers(1, 9, columns + 1))
    for left, right in itertools.pairwise(across):
        up = np.cumsum(rng.integers(1, 9, rows + 1))
        cells += [(left, low, right, high) for low, high in itertools.pairwise(up)]
    return cells


def is_meeting(a, b):
    """Whether two rectangles share an edge."""
    wide = min(a[2], b[2]) - max(a[0], b[0])
    high = min(a[3], b[3]) - max(a[1], b[1])
    return (wide == 0 and high > 0) or (high == 0 and wide > 0)


def test_cells_are_those_of_plain_loops(database, connection, rng):
    boxes = draw_tiles(rng)
    spots = [(float(x), float(y)) for x, y in rng.integers(0, 45, (300, 2)) + rng.choice([0, 0.5], (300, 2))]
    for dataset in (make_dataset(connection, "other"), make_dataset(connection)):  # of the other nothing is seen
        add_cells(connection, dataset, [shapely.box(*box) for box in boxes])
        add_pois(connection, dataset, [("abc"[i % 3], shapely.Point(s)) for i, s in enumerate(spots[:200])])
        walks = [(f"s{i}", [(j, *spots[(i * 7 + j) % 300]) for j in range(i % 5 + 1)]) for i in range(40)]
        add_paths(connection, dataset, walks)
    data, found = read_inputs(database, dataset, "cells")
    cells = found["cells"]
    assert isinstance(cells, Cells)
    ids = [
        row[0]
        for row in connection.execute("SELECT cell_id FROM dbanon.cell WHERE dataset_id = %s ORDER BY 1", [dataset])
    ]
    assert cells.cell_id.tolist() == ids
    assert cells.area_m2.tolist() == [float((b[2] - b[0]) * (b[3] - b[1])) for b in boxes]
    assert cells.neighbours.tolist() == [
        [i, j] for i in range(len(boxes)) for j in range(i + 1, len(boxes)) if is_meeting(boxes[i], boxes[j])
    ]

    def holder(x, y):  # of several cells that share an edge or corner the first
        return next((i for i, b in enumerate(boxes) if b[0] <= x <= b[2] and b[1] <= y <= b[3]), -1)

    counts = np.zeros((len(boxes), 3), int)
    for i, spot in enumerate(spots[:200]):
        if holder(*spot) >= 0:
            counts[holder(*spot), i % 3] += 1
    assert cells.categories == ("a", "b", "c")
    assert cells.pois.tolist() == counts.tolist()
    assert cells.fix_cell.tolist() == [holder(x, y) for x, y in zip(data.x.tolist(), data.y.tolist(), strict=True)]
    assert -1 in cells.fix_cell


def test_coverage_of_stations_meets_where_they_are_nearest_to_one_another(database, connection, rng):
    from scipy.spatial import Delaunay

    points = rng.uniform(0, 1000, (60, 2))
    whole = shapely.voronoi_polygons(shapely.MultiPoint(points), extend_to=shapely.box(-5000, -5000, 6000, 6000))
    area = shapely.box(-4000, -4000, 5000, 5000)
    parts = sorted(whole.geoms, key=lambda p: next(i for i, q in enumerate(points) if p.contains(shapely.Point(q))))
    dataset = make_dataset(connection)
    add_cells(connection, dataset, [p.intersection(area) for p in parts])
    pairs = {tuple(pair) for pair in read_inputs(database, dataset, "cells")[1]["cells"].neighbours.tolist()}
    sides = {tuple(sorted(map(int, (s[i], s[i - 1])))) for s in Delaunay(points).simplices for i in range(3)}
    shared = {(i, j) for i, j in sides if parts[i].intersection(parts[j]).intersection(area).length > 0.01}
    assert shared <= pairs <= sides
    assert len(shared) > 100


def test_cells_that_meet_in_a_corner_or_hold_nothing_are_nobodys_neighbours(database, connection):
    dataset = make_dataset(connection)
    add_cells(connection, dataset, [shapely.box(0, 0, 1, 1), shapely.box(1, 1, 2, 2), shapely.box(9, 9, 10, 10)])
    cells = read_inputs(database, dataset, "cells")[1]["cells"]
    assert (cells.neighbours.shape, cells.categories, cells.pois.shape) == ((0, 2), (), (3, 0))


def test_a_point_of_interest_that_is_a_shape_counts_once(database, connection):
    dataset = make_dataset(connection)
    add_cells(connection, dataset, [shapely.box(0, 0, 1, 1), shapely.box(1, 0, 9, 1)])
    add_pois(connection, dataset, [("park", shapely.box(0.5, 0.2, 8, 0.8))])
    assert read_inputs(database, dataset, "cells")[1]["cells"].pois.sum() == 1


def test_quasi_identifiers_are_those_of_the_set_that_a_parameter_names(database, connection):
    dataset = make_dataset(connection)
    add_paths(connection, dataset, [("b", [(0, 0, 0)]), ("a", [(0, 0, 0)])])
    rows = [("b", 9, "default"), ("b", 5, "default"), ("b", 5, "default"), ("z", 1, "default"), ("a", 7, "day")]
    for subject, t, name in rows:
        connection.execute(
            "INSERT INTO dbanon.quasi_identifier (dataset_id, subject, at, set_name) "
            "VALUES (%s, %s, to_timestamp(%s), %s)",
            [dataset, subject, t, name],
        )
    found = read_inputs(database, dataset, "quasi_identifiers")[1]["quasi_identifiers"]
    assert isinstance(found, QuasiIdentifiers)
    assert (found.subject.tolist(), found.t.tolist()) == ([-1, 1, 1], [1, 5, 9])
    day = read_inputs(database, dataset, "quasi_identifiers", qid_set="day")[1]["quasi_identifiers"]
    assert (day.subject.tolist(), day.t.tolist()) == ([0], [7])
    with pytest.raises(ParameterError, match=r"'night'.*'day', 'default'"):
        read_inputs(database, dataset, "quasi_identifiers", qid_set="night")


@pytest.mark.many
@pytest.mark.parametrize("name", ["", " day", "x" * 61, "a\nb"])
def test_the_name_of_a_set_is_one_that_a_parameter_can_have(connection, name):
    dataset = make_dataset(connection)
    query = "INSERT INTO dbanon.quasi_identifier (dataset_id, subject, at, set_name) VALUES (%s, 'a', now(), %s)"
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute(query, [dataset, name])


def test_inputs_come_by_name_and_only_those_named(database, connection):
    dataset = make_dataset(connection)
    add_paths(connection, dataset, [("a", [(0, 0, 0)])])
    connection.execute(
        "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) VALUES (%s, 'a', to_timestamp(3), %s)",
        [dataset, Jsonb({"q": 1})],
    )
    found = read_inputs(database, dataset, "requests", "sites")[1]
    assert {name: type(value) for name, value in found.items()} == {"requests": Requests, "sites": Sites}
    assert (found["requests"].t.tolist(), found["sites"].site_id.tolist()) == ([3], [])
