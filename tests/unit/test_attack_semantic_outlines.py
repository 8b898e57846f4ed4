"""Regions that are exactly the cells they are said to be made of, found by their edges, and forgeries that are not."""

import struct
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import shapely
from shapely.geometry.base import BaseGeometry

from dbanon.attacks.semantic._outlines import build_outlines

IDS = np.array([3, 5, 8, 13, 21, 34, 55, 89, 144])


def make_city(side: int = 3) -> list[BaseGeometry]:
    """Lay squares of 100 m in rows."""
    return [shapely.box(x, y, x + 100, y + 100) for y in range(0, 100 * side, 100) for x in range(0, 100 * side, 100)]


def draw_voronoi(rng: np.random.Generator, count: int) -> list[BaseGeometry]:
    square = shapely.box(0, 0, 1000, 1000)
    found = shapely.voronoi_polygons(shapely.MultiPoint(rng.uniform(0, 1000, (count, 2))), extend_to=square)
    return [shapely.intersection(cell, square) for cell in found.geoms]


def encode_wkb(shapes: Sequence[BaseGeometry]) -> np.ndarray:
    found = np.empty(len(shapes), object)
    found[:] = [shapely.to_wkb(shapely.orient_polygons(shape)) for shape in shapes]
    return found


def encode_ids(ids: Sequence[int]) -> bytes:
    """Give the elements of a ``bigint[]`` as the server sends them."""
    return b"".join(struct.pack(">iq", 8, i) for i in ids)


def find_outlines(
    cells: list[BaseGeometry], ids: np.ndarray, regions: list[tuple[BaseGeometry, list[int]]]
) -> dict[int, list[int]]:
    """Ask in batches of two regions; they are numbered from 1."""
    lists = np.empty(len(regions), object)
    lists[:] = [encode_ids(said) for _, said in regions]
    outlines = encode_wkb([shape for shape, _ in regions])
    batches = [
        {
            "region_no": np.arange(i, min(i + 2, len(regions))) + 1,
            "outline": outlines[i : i + 2],
            "cells": lists[i : i + 2],
        }
        for i in range(0, len(regions) + 1, 2)
    ]
    region_no, number, cell = build_outlines({"cell_id": ids, "outline": encode_wkb(cells)}, batches)
    of = np.split(ids[cell], np.cumsum(number)[:-1])
    return {int(no): own.tolist() for no, own in zip(region_no, of, strict=True)}


@pytest.mark.parametrize("count", [1, 2, 5, 40, 150])
def test_unions_of_cells_are_found_with_their_cells(rng: np.random.Generator, count: int) -> None:
    cells = draw_voronoi(rng, count)
    ids = np.sort(rng.choice(10 * count, len(cells), replace=False)) - count
    chosen = [rng.choice(len(cells), rng.integers(1, len(cells) + 1), replace=False) for _ in range(20)]
    regions = [(shapely.unary_union([cells[c] for c in own]), ids[own].tolist()) for own in chosen]
    assert find_outlines(cells, ids, regions) == {no: said for no, (_, said) in enumerate(regions, 1)}


def test_parts_and_holes_are_whole_cells_too() -> None:
    cells = make_city()
    ring = [c for c in range(9) if c != 4]
    corners = [0, 2, 6, 8]
    touching = [0, 4]
    regions = [(shapely.unary_union([cells[c] for c in own]), IDS[own].tolist()) for own in (ring, corners, touching)]
    assert sorted(find_outlines(cells, IDS, regions)) == [1, 2, 3]


def test_parts_in_holes_of_other_parts_are_whole_cells_too() -> None:
    cells, ids = make_city(5), np.arange(25)
    ring = [c for c in range(25) if c // 5 in {0, 4} or c % 5 in {0, 4}]
    own = sorted([*ring, 12])
    region = shapely.unary_union([cells[c] for c in own])
    assert (len(region.geoms), sum(len(part.interiors) for part in region.geoms)) == (2, 1)
    filled, pierced = (region, [*ids[own].tolist(), 7]), (shapely.unary_union([cells[c] for c in ring]), own)
    assert find_outlines(cells, ids, [(region, own), filled, pierced, (region, ring)]) == {1: own}


def move_shape(shape: BaseGeometry) -> BaseGeometry:
    points = shapely.get_coordinates(shape)
    points[1] = np.nextafter(points[1], 1000)
    points[-1] = points[0]
    return shapely.set_coordinates(shape, points)


FORGED: dict[str, Callable[[list[BaseGeometry]], tuple[BaseGeometry, list[int]]]] = {
    "a cell is said too many": lambda cells: (shapely.unary_union(cells[:2]), [3, 5, 8]),
    "a cell is not said": lambda cells: (shapely.unary_union(cells[:2]), [3]),
    "a cell is said twice": lambda cells: (shapely.unary_union(cells[:2]), [3, 5, 5]),
    "another cell is said": lambda cells: (shapely.unary_union(cells[:2]), [3, 8]),
    "a cell is said that is none": lambda cells: (shapely.unary_union(cells[:2]), [3, 4]),
    "no cell is said": lambda cells: (cells[0], []),
    "nothing is published": lambda _: (shapely.MultiPolygon(), [3]),
    "nothing at all": lambda _: (shapely.MultiPolygon(), []),
    "a corner is moved by the least there is": lambda cells: (move_shape(cells[4]), [21]),
    "a part lacks": lambda cells: (cells[0], [3, 144]),
    "a hole is filled": lambda cells: (shapely.box(0, 0, 300, 300), [3, 5, 8, 13, 34, 55, 89, 144]),
    "a hole is cut": lambda cells: (shapely.unary_union(cells) - shapely.box(140, 140, 160, 160), IDS.tolist()),
    "a piece is moved": lambda cells: (
        shapely.unary_union([cells[4] - shapely.box(140, 140, 160, 160), shapely.box(500, 0, 520, 20)]), [21],
    ),
    "a part is no cell": lambda cells: (shapely.MultiPolygon([cells[0], shapely.box(900, 0, 1000, 100)]), [3]),
    "a diagonal joins corners of a cell": lambda cells: (shapely.Polygon([(0, 0), (100, 0), (100, 100)]), [3]),
    "cells are laid over one another": lambda cells: (shapely.MultiPolygon([cells[0], cells[0]]), [3]),
}  # fmt: skip


@pytest.mark.parametrize("forgery", FORGED)
def test_what_is_not_exactly_its_cells_is_not_found(forgery: str) -> None:
    cells = make_city()
    honest = (shapely.unary_union(cells[3:5]), [13, 21])
    # Between honest ones: what is left of one region must not count with the next.
    assert find_outlines(cells, IDS, [honest, FORGED[forgery](cells), honest]) == {1: [13, 21], 3: [13, 21]}


def test_cells_that_meet_at_the_middle_of_an_edge_are_left_to_others() -> None:
    cells = [shapely.box(0, 0, 100, 200), shapely.box(100, 0, 200, 100), shapely.box(100, 100, 200, 200)]
    ids = np.array([1, 2, 3])
    regions = [(shapely.unary_union([cells[c - 1] for c in own]), own) for own in ([1], [2, 3], [1, 2])]
    assert sorted(find_outlines(cells, ids, regions)) == [1, 2]
    assert shapely.equals(regions[2][0], shapely.unary_union(cells[:2]))


def test_points_that_stand_twice_make_no_edge() -> None:
    doubled = shapely.Polygon([(0, 0), (100, 0), (100, 0), (100, 100), (0, 100), (0, 0)])
    assert find_outlines([doubled], np.array([1]), [(shapely.box(0, 0, 100, 100), [1])]) == {1: [1]}
