"""Small random inputs for the algorithms of `semantic`: cities of a few cells, and subjects who move about in them.

Many are made to tie: equal areas, few slots, few points of interest, the same mix in several cells.
"""

# ruff: noqa: E741 - the names of the paper

import random
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple, TypeVar

import numpy as np

from dbanon.base.trajectory import Cells, Trajectories

_C = TypeVar("_C", bound="Case")


class Loss(NamedTuple):
    """Where the loss in time and in space is capped (theta^m), and the weight of time (omega_T)."""

    span_slots: float
    area_mm2: float
    weight_time: float


@dataclass(frozen=True, kw_only=True)
class Case:
    """What a run is given. Fixes of a unit are in the order of their slots, and every unit has some."""

    neighbours: dict[int, set[int]]
    area: list[int]
    pois: list[list[int]]
    l: int
    t: float
    k: int
    loss: Loss
    gap_slots: int
    subjects: list[int]
    slots: list[list[int]]
    cells: list[list[int]]

    @property
    def edges(self) -> list[tuple[int, int]]:
        return [(i, j) for i in sorted(self.neighbours) for j in sorted(self.neighbours[i]) if i < j]


def make_city(owner):
    """Neighbours and areas of cells that are made of unit squares: owner[y][x] is the cell of one."""
    neighbours = {cell: set() for row in owner for cell in row}
    area = [0] * len(neighbours)
    for y, row in enumerate(owner):
        for x, cell in enumerate(row):
            area[cell] += 1
            for other in row[x + 1 : x + 2] + [below[x] for below in owner[y + 1 : y + 2]]:
                if other != cell:
                    neighbours[cell].add(other)
                    neighbours[other].add(cell)
    return neighbours, area


def make_grid(width, height):
    """Squares in rows: neighbours and areas."""
    return make_city([[y * width + x for x in range(width)] for y in range(height)])


def draw_voronoi(rng, count, side=10):
    """Unit squares of a large one, each with its nearest of some sites: neighbours and areas, irregular and planar."""
    sites = [divmod(at, side) for at in rng.sample(range(side * side), count)]

    def nearest(x, y):
        return min(range(count), key=lambda i: ((sites[i][0] - x) ** 2 + (sites[i][1] - y) ** 2, i))

    return make_city([[nearest(x, y) for x in range(side)] for y in range(side)])


def draw_city(rng, most_cells=25):
    """Neighbours, areas in mm2, and points of interest, of 4 cells or more."""
    if rng.random() < 0.5:
        height = rng.randint(1, 5)
        width = rng.randint(-(-4 // height), most_cells // height)
        names = list(range(width * height))
        if rng.random() < 0.7:  # else least cells lie in one direction, and equal ways are chosen alike from both ends
            rng.shuffle(names)
        neighbours, area = make_city([names[y * width : (y + 1) * width] for y in range(height)])
    else:
        neighbours, area = draw_voronoi(rng, rng.randint(4, most_cells))
        if rng.random() < 0.3:
            area = [1] * len(area)
    scale = rng.choice([1, 1, 1000, 10**10])
    least, most = rng.choice([(1, 1), (1, 1), (1, 2), (1, 100)])
    area = [scale * a * rng.randint(least, most) for a in area]
    return neighbours, area, draw_pois(rng, len(area), rng.randint(2, 4))


def draw_pois(rng, cells, categories):
    """Counts by cell and category: sparse, of a few mixes, or rather alike."""
    kind, mix = rng.random(), [rng.choice([1, 1, 2, 5]) for _ in range(categories)]
    if kind < 0.35:
        made = [[int(rng.random() < 0.3) for _ in mix] for _ in range(cells)]
    elif kind < 0.6:
        mixes = [[rng.choice([0, 0, 1, m]) for m in mix] for _ in range(2)] + [mix]
        made = [list(rng.choice(mixes)) for _ in range(cells)]
    else:
        made = [[rng.randint(0, 4 * m) for m in mix] for _ in range(cells)]
    if rng.random() < 0.2:  # a category the city lacks
        made = [[0, *row[1:]] for row in made]
    return made


def draw_fixes(rng, neighbours, most, steps):
    """Slots and cells of a walk from cell to cell that may stay, jump, or be in two cells in one slot."""
    slot, cell = rng.choice([0, 0, rng.randrange(1 + 3 * max(steps))]), rng.choice(sorted(neighbours))
    slots, cells = [], []
    for _ in range(rng.randint(1, most)):
        slots.append(slot)
        cells.append(cell)
        slot += rng.choice(steps)
        chance = rng.random()
        if chance > 0.9:
            cell = rng.choice(sorted(neighbours))
        elif chance > 0.3 and neighbours[cell]:
            cell = rng.choice(sorted(neighbours[cell]))
    return slots, cells


def draw_companion(rng, neighbours, slots, cells):
    """The fixes of a companion: now and then a slot later, in a cell nearby, or missing."""
    made = []
    for slot, cell in zip(slots, cells, strict=True):
        if not made or rng.random() > 0.1:
            near = rng.choice(sorted(neighbours[cell])) if rng.random() < 0.3 else cell
            made.append((slot + (rng.random() < 0.2), near))
    made.sort(key=lambda fix: fix[0])
    return [slot for slot, _ in made], [cell for _, cell in made]


def draw_walks(rng, neighbours, units, most):
    """Slots and cells of units: each alone, several who do the same, or companions, who keep many rows when merged."""
    steps, kind = rng.choice([(1,), (0, 1), (1, 2), (0, 1, 5, 20), (1, 3, 60)]), rng.random()
    if kind < 0.4:
        return [draw_fixes(rng, neighbours, most, steps) for _ in range(units)]
    leaders = [draw_fixes(rng, neighbours, most, steps) for _ in range(rng.randint(1, 3))]
    if kind < 0.5:
        return [rng.choice(leaders) for _ in range(units)]
    return [draw_companion(rng, neighbours, *rng.choice(leaders)) for _ in range(units)]


def draw_case(seed, most_units=8, most_cells=25, most_points=8):
    """The case of a seed, whatever the machine: 3 to 8 units, 4 to 25 cells, 2 to 4 categories, 1 to 8 points each."""
    rng = random.Random(seed)
    neighbours, area, pois = draw_city(rng, most_cells)
    there = sum(any(column) for column in zip(*pois, strict=True))
    units = rng.randint(3, most_units)
    subjects = list(range(units))
    if rng.random() < 0.3:  # several days of a subject
        subjects = [rng.randrange(units) for _ in subjects]
    walks = draw_walks(rng, neighbours, units, rng.choice([2, most_points, most_points]))
    l, t = rng.randint(0, there), rng.choice([inf, 0.5, 0.2, 0.1, 0.02, 0.0])
    if rng.random() < 0.3 or not there:  # k alone
        l, t = 0, inf
    return Case(
        neighbours=neighbours,
        area=area,
        pois=pois,
        l=l,
        t=t,
        k=min(rng.choice([1, 2, 2, 3, 3, 4]), len(set(subjects))),
        loss=Loss(
            span_slots=rng.choice([1, 10, 61.5, 480]),
            area_mm2=float(sum(area) // rng.choice([1, 1, 4, 20]) or 1),
            weight_time=rng.choice([0.5, 0.5, 0.3, 0.0, 1.0]),
        ),
        gap_slots=rng.choice([0, 1, 5, 30]),
        subjects=subjects,
        slots=[slots for slots, _ in walks],
        cells=[cells for _, cells in walks],
    )


# ---- as the package takes them --------------------------------------------------------------------------------------


def make_cells(case: Case) -> Cells:
    return Cells(
        cell_id=10 + 3 * np.arange(len(case.area)),
        area_m2=np.array(case.area) / 1e6,
        categories=tuple("abcd"[: len(case.pois[0])]),
        pois=np.array(case.pois, np.int64),
        neighbours=np.array(case.edges, np.int64).reshape(-1, 2),
        fix_cell=np.concatenate(case.cells),
    )


def make_data(case: Case) -> Trajectories:
    """One trajectory a unit, all of one subject on different days; two fixes of a slot are parts of it apart."""
    slots = [np.array(slots, float) for slots in case.slots]
    t = [slot + np.arange(len(slot)) / (2 * len(slot)) for slot in slots]
    offset = np.concatenate([[0], np.cumsum([len(slot) for slot in slots])])
    return Trajectories(
        trajectory_id=np.arange(len(slots)), subject=np.array(case.subjects), offset=offset, t=np.concatenate(t),
        x=np.zeros(offset[-1]), y=np.zeros(offset[-1]), srid=0, grid_m=1.0, grid_s=1, day=np.arange(len(slots)),
    )  # fmt: skip


def list_in_order(case: _C) -> _C:
    """The units of a case by subject, as the order of a run has them."""
    order = sorted(range(len(case.subjects)), key=lambda unit: (case.subjects[unit], unit))
    taken = {name: [getattr(case, name)[unit] for unit in order] for name in ("subjects", "slots", "cells")}
    return replace(case, **taken)
