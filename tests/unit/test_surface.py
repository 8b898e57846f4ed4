"""The surface of a release: its likelihood against enumeration, its bytes, its cells, and what it makes of a town."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.metrics import surface as surfaces
from dbanon.metrics.surface import Rows, Surface, make_surface


def make_rows(bounds, crowd, *, subjects=None, seconds=60.0, each=1):
    """Rows with a region of their own each, `each` to a record, one after the other."""
    n = len(bounds)
    start = np.arange(n, dtype=float) % each * 60
    return Rows(
        np.asarray(bounds, float), np.asarray(crowd), np.asarray(crowd if subjects is None else subjects),
        np.arange(0, n + 1, each), np.arange(n), start, start + seconds,
    )  # fmt: skip


def find_cells(surface: Surface) -> np.ndarray:
    """Intensities by row and column."""
    sums = surface.sums.reshape(surface.rows + 1, surface.columns + 1)
    return np.diff(np.diff(sums, axis=0), axis=1)


def enumerate_people(intensity, crowd):
    """Share of people in each cell, of all ways in which so many people can have a whole raster as least rectangle."""
    rows, columns = intensity.shape
    places, found, total = [*product(range(rows), range(columns))], np.zeros_like(intensity), 0.0
    for way in product(places, repeat=crowd):
        ys, xs = zip(*way, strict=True)
        if (min(ys), max(ys), min(xs), max(xs)) == (0, rows - 1, 0, columns - 1):
            chance = float(np.prod([intensity[place] for place in way]))
            total += chance
            for place in way:
                found[place] += chance / crowd
    return found / total


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 2), (2, 1), (2, 2), (1, 4), (3, 3), (4, 3)])
@pytest.mark.parametrize("crowd", [2, 3, 4])
def test_a_row_spreads_its_people_as_all_ways_to_fill_its_rectangle_do(rows, columns, crowd):
    intensity = np.random.default_rng(rows + 7 * columns).uniform(0.2, 3, (rows, columns))
    sums = np.zeros((rows + 1, columns + 1))
    sums[1:, 1:] = np.cumsum(np.cumsum(intensity, axis=0), axis=1)
    change = np.zeros_like(sums)
    surfaces._spread(sums, np.array([[0, 0, columns, rows]]), np.array([crowd]), np.ones(1), change)
    people = intensity * np.cumsum(np.cumsum(change, axis=0), axis=1)[:-1, :-1]
    np.testing.assert_allclose(people, enumerate_people(intensity, crowd), atol=1e-9)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), crowd=st.integers(1, 30), number=st.integers(1, 40))
def test_neither_order_nor_joining_of_rows_changes_a_byte(seed, crowd, number):
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 5000, (number, 2))
    bounds = np.hstack([low, low + rng.integers(0, 3000, (number, 2))]).astype(float)
    people = rng.integers(1, crowd + 1, number)
    made, order = make_surface(make_rows(bounds, people)), rng.permutation(number)
    assert made is not None
    mixed = make_surface(make_rows(bounds[order], people[order]))
    half = make_surface(make_rows(np.vstack([bounds, bounds]), np.tile(people, 2), seconds=30.0))
    for other in (mixed, half):
        assert other is not None
        assert made[:-1] == other[:-1]
        assert made.sums.tobytes() == other.sums.tobytes()
    assert abs(find_cells(made).sum() / surfaces.TOTAL - 1) < 2**-7
    assert (find_cells(made) >= 0).all()


def test_intensities_have_few_digits():
    rng = np.random.default_rng(3)
    low = rng.uniform(0, 9000, (500, 2))
    made = make_surface(make_rows(np.hstack([low, low + rng.uniform(0, 2000, (500, 2))]), np.full(500, 5)))
    assert made is not None
    cells = find_cells(made)[find_cells(made) > 0]
    assert all(int(cell) % 2 ** max(int(cell).bit_length() - surfaces.BITS, 0) == 0 for cell in cells)


def test_no_rows_have_no_surface_and_a_point_has_one_cell():
    assert make_surface(make_rows(np.empty((0, 4)), np.empty(0, int))) is None
    made = make_surface(make_rows([[5.0, 5.0, 5.0, 5.0]], [1]))
    assert made is not None
    assert (made.columns, made.rows, made.speed_mps) == (1, 1, 0.0)


@pytest.mark.parametrize(
    ("side", "wide", "cell_m"), [(2500, 50_000, 125.0), (100, 2000, 3.90625), (2500, 5_000_000, 8000.0)]
)
def test_cells_are_a_share_of_regions_and_not_too_many(side, wide, cell_m):
    made = make_surface(make_rows([[0, 0, side, side], [wide - side, wide - side, wide, wide]], [5, 5]))
    assert made is not None
    assert made.cell_m == cell_m
    assert (made.columns + 1) * (made.rows + 1) <= surfaces.MAX_CELLS
    assert made.left == made.bottom == 0


def test_edges_that_move_say_how_fast_people_are():
    boxes = [[9.0 * 60 * n, 0, 1000 + 9.0 * 60 * n, 1000] for n in range(4)]
    made = make_surface(make_rows(boxes, [5] * 4, each=4))
    assert made is not None
    assert made.speed_mps == round(np.pi / 2 * 9.0 / 2, 1)


def test_the_surface_of_groups_shows_two_streets():
    """People on two streets that cross: cells of the streets get several times what cells beside them get."""
    rng, at = np.random.default_rng(1), []
    for _ in range(3000):
        along = rng.uniform(0, 4000, 2)
        at.append(
            (along[0], 2000 + rng.uniform(0, 50)) if rng.random() < 0.5 else (2000 + rng.uniform(0, 50), along[1])
        )
    people = np.array(at)
    bounds = []
    for start in range(0, 3000, 3):
        near = people[np.argsort(np.hypot(*(people - people[start]).T))[:5]]
        bounds.append([*near.min(axis=0), *near.max(axis=0)])
    wide = np.array(bounds) + rng.uniform(0, 600, (1000, 1)) * np.array([-1, -1, 1, 1])
    made = make_surface(make_rows(np.vstack([bounds, wide]), np.full(2000, 5)))
    assert made is not None
    cells, side = find_cells(made), made.cell_m
    x, y = (
        (first + np.arange(number)) * side for first, number in ((made.left, made.columns), (made.bottom, made.rows))
    )
    street = ((x[None] > 2000 - side) & (x[None] < 2050)) | ((y[:, None] > 2000 - side) & (y[:, None] < 2050))
    assert cells[street].mean() > 5 * cells[~street].mean()
