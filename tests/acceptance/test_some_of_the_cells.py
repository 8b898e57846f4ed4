"""A run of some of the cells of an earlier release: what clinics are in a quarter of clinics, and in the whole city."""

from collections.abc import Callable

import numpy as np
import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.acceptance.commands import Done, call
from tests.facts import demand_refused

pytestmark = [pytest.mark.db, pytest.mark.usefixtures("short_search")]

SIDE = 12  # cells in a row, of 300 m
BLOCK = [SIDE * y + x for y in range(4, 8) for x in range(4, 8)]
PEOPLE = 40  # who live in the block
CATEGORIES = ("clinic", "bar", "shop", "school")
DAY_S = 86_400
START_S = 1_767_571_200
DATASET = """
INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s, population_id)
SELECT %s, 32610, 1, 60, population_id FROM dbanon.population WHERE name = 'default' RETURNING dataset_id
"""
CELL = """
INSERT INTO dbanon.cell (dataset_id, geom)
SELECT %s, ST_MakeEnvelope(x * 300, y * 300, x * 300 + 300, y * 300 + 300, 32610)
FROM unnest(%s::integer[]) n, LATERAL (SELECT n %% 12 AS x, n / 12 AS y) at
"""
POI = """
INSERT INTO dbanon.poi (dataset_id, category, geom)
SELECT %s, p ->> 0, ST_SetSRID(ST_MakePoint((p ->> 1)::float, (p ->> 2)::float), 32610) FROM jsonb_array_elements(%s) p
"""
TRAJECTORY = """
INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path)
SELECT 1000 * %s + %s, %s, %s, ST_SetSRID(ST_MakeLine(ARRAY(
    SELECT ST_MakePointM((f ->> 0)::float, (f ->> 1)::float, (f ->> 2)::float)
    FROM jsonb_array_elements(%s) WITH ORDINALITY e (f, n) ORDER BY n)), 32610)
"""


def place(cell: int, rng: np.random.Generator) -> tuple[float, float]:
    x, y = rng.uniform(5, 295, 2)
    return round(cell % SIDE * 300 + x), round(cell // SIDE * 300 + y)


def load_day(connection: psycopg.Connection, name: str, day: int, cells: list[int], pois: int) -> None:
    """Load a day of people who sleep in a cell of the block and are anywhere by day, with some cells of the city."""
    row = connection.execute(DATASET, [name]).fetchone()
    assert row is not None
    dataset, rng = row[0], np.random.default_rng(21)
    connection.execute(CELL, [dataset, cells])
    of_cell = {
        cell: [
            (CATEGORIES[rng.choice(4, p=[0.82, 0.06, 0.06, 0.06] if cell in BLOCK else [0.25] * 4)], *place(cell, rng))
            for _ in range(pois)
        ]
        for cell in range(SIDE**2)
    }
    connection.execute(POI, [dataset, Jsonb([poi for cell in cells for poi in of_cell[cell]])])
    moves = np.random.default_rng(day)
    for person in range(PEOPLE):
        home = BLOCK[person % len(BLOCK)]
        where = [home] * 8 + moves.integers(0, SIDE**2, 12).tolist() + [home] * 4
        fixes = [(*place(cell, moves), START_S + day * DAY_S + 3600 * hour) for hour, cell in enumerate(where)]
        connection.execute(TRAJECTORY, [dataset, person, dataset, f"p{person}", Jsonb(fixes)])


@pytest.fixture
def publish_both(database: str) -> Callable[[int, list[int]], Done]:
    """Publish a day of all cells, and then the next day with some of them."""

    def publish(pois: int, second: list[int]) -> Done:
        with psycopg.connect(database, autocommit=True) as owner:
            load_day(owner, "first", 0, list(range(SIDE**2)), pois)
            load_day(owner, "second", 1, second, pois)
        for dataset in ("first", "second"):
            options = ("-p", "k=2", "-p", "l=3", "-p", "t=0.1", "--seed", "7", "--publish", dataset)
            told = call(database, "run", "semantic", "--dataset", dataset, *options)
            assert dataset == "second" or told.code == 0, told.stderr
        return told

    return publish


@pytest.mark.parametrize("pois", [16, 120])
def test_a_block_of_clinics_alone_is_refused_after_the_city(
    publish_both: Callable[[int, list[int]], Done], pois: int
) -> None:
    demand_refused(publish_both(pois, BLOCK), 5, "first of dataset first")


@pytest.mark.parametrize("pois", [16, 120])
def test_the_whole_city_is_published_again(publish_both: Callable[[int, list[int]], Done], pois: int) -> None:
    told = publish_both(pois, list(range(SIDE**2)))
    assert told.code == 0, told.stderr
    assert "some of the cells" not in told.stderr
