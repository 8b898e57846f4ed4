"""Small worlds of moving objects, plain and as arrays.

A world is (where, own, rank): of each object the cell at each instant at which it is present, as a dict; the set of its
own instants; its place in the run's order.
"""

import numpy as np

from dbanon.methods.kernels import align
from dbanon.methods.mob._positions import Positions, number_places


def make_positions(where, own, rank, instants):
    """The arrays of a world."""
    n = len(where)
    x, y = np.zeros((2, n, instants), np.int32)
    there, known = np.zeros((2, n, instants), bool)
    for i in range(n):
        known[i, list(own[i])] = True
        for t, cell in where[i].items():
            (x[i, t], y[i, t]), there[i, t] = cell, True
    owner, instant = np.nonzero(known)
    return Positions(
        subject=10 + np.arange(n),
        rank=np.asarray(rank),
        x=x,
        y=y,
        there=pack_flags(there),
        own=pack_flags(known),
        offset=np.searchsorted(owner, np.arange(n + 1)),
        instant=instant.astype(np.int32),
        instants=align.Instants(start=0, step_s=1, count=instants, mode=align.EXACT, max_gap_s=1),
        origin=(0, 0),
    )


def pack_flags(flags):
    """bool[n, T] as words."""
    words = np.zeros((len(flags), -(-flags.shape[1] // 64)), np.uint64)
    for i, t in zip(*np.nonzero(flags), strict=True):
        words[i, t // 64] |= np.uint64(1 << int(t) % 64)
    return words


def draw_world(rng, n, instants, *, side, absent=0.0, blank=0.2, most=3, jump=1):
    """Walkers on a square of cells, some of them absent at times, some without own instants."""
    where, own = [], []
    for _ in range(n):
        x, y, cells = rng.randrange(side), rng.randrange(side), {}
        for t in range(instants):
            x = min(max(x + rng.randint(-jump, jump), 0), side - 1)
            y = min(max(y + rng.randint(-jump, jump), 0), side - 1)
            if rng.random() >= absent:
                cells[t] = x, y
        cells = cells or {rng.randrange(instants): (x, y)}
        where.append(cells)
        number = 0 if rng.random() < blank else rng.randint(1, most)
        own.append(set(rng.sample(sorted(cells), min(number, len(cells)))))
    rank = rng.sample(range(3 * n), n)
    return where, own, rank


def locate_on_curve(positions):
    """The places of a world, as a list of dicts too."""
    place = number_places(positions)
    return place, [dict(enumerate(row)) for row in place.tolist()]
