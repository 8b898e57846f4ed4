"""The Hilbert curve against an independent library, and as the paper relies on it."""

import itertools
import random

import numpy as np
import pytest
from hilbertcurve.hilbertcurve import HilbertCurve

from dbanon.methods.kernels import hilbert

SEED = 1891


def list_symmetries(order):
    """The eight ways to turn and mirror a square of cells."""
    last = 2**order - 1
    for swap, left, down in itertools.product([False, True], repeat=3):
        yield lambda x, y, swap=swap, left=left, down=down: [
            last - a if mirrored else a for a, mirrored in zip((y, x) if swap else (x, y), (left, down), strict=True)
        ]


def find_alike(cells, order):
    """The symmetries under which the library numbers all cells as we do."""
    places = hilbert.number_cells(*np.array(cells, np.int64).T, order).tolist()
    curve = HilbertCurve(order, 2)
    return [
        number
        for number, turned in enumerate(list_symmetries(order))
        if curve.distances_from_points([turned(x, y) for x, y in cells]) == places
    ]


@pytest.mark.parametrize("order", range(1, 7))
def test_every_cell_has_the_place_that_an_independent_library_gives_it(order):
    """But for a symmetry of the square, one for the whole curve: which quarter it starts in is free."""
    cells = list(itertools.product(range(2**order), repeat=2))
    assert len(find_alike(cells, order)) == 1


@pytest.mark.parametrize("order", [9, 13, 15, 16, 24, 31])
def test_cells_of_large_curves_have_the_places_that_an_independent_library_gives_them(order):
    rng, last = random.Random(SEED + order), 2**order - 1
    cells = [(0, 0), (last, 0), (0, last), (last, last)]
    cells += [(rng.randint(0, last), rng.randint(0, last)) for _ in range(300)]
    assert len(find_alike(cells, order)) == 1


@pytest.mark.parametrize("order", range(1, 9))
def test_cells_that_follow_one_another_share_a_side(order):
    x, y = (axis.ravel() for axis in np.indices((2**order, 2**order)))
    along = np.argsort(hilbert.number_cells(x, y, order))
    assert (np.abs(np.diff(x[along])) + np.abs(np.diff(y[along])) == 1).all()
