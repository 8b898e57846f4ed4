"""Draws quasi-identifiers: at which instants an adversary is taken to know where each object is.

Objects are linked in a graph, and linked ones share instants: section 6.2 of Yarovoy, Bonchi, Lakshmanan, Wang
(Anonymizing Moving Objects, 2009). Like journeys, they depend on nothing but the plan and the number of their object.
"""

from dataclasses import dataclass

import numpy as np

from dbanon.synth._journeys import Fixes, Int, hash_uniform

_SIZE, _PARENT, _ORDER = range(2**62, 2**62 + 3)  # no object has such a number


@dataclass(frozen=True)
class Known:
    """Quasi-identifiers: the number of the object and unix seconds, sorted."""

    number: Int
    t: Int


def draw_quasi_identifiers(
    fixes: Fixes,
    seed: int,
    *,
    kind: str,
    size: int,
    overlap: int,
    objects: int,
    start_s: int,
    step_s: int,
    instants: int,
) -> Known:
    """Draw the quasi-identifiers of some objects.

    Parameters
    ----------
    fixes : Fixes
        Every object at every instant at which it is there, one after the other.
    kind : str
        One of `dbanon.options.generating.Links`.
    size : int
        Most instants of an object; each has twice `overlap` or more, but for those of which it is there at fewer.
    overlap : int
        How many instants linked objects share, where both are there.
    objects : int
        How many there are in all, from which a random one is linked.
    start_s, step_s, instants : int
        When fixes were recorded.
    """
    number = fixes.number
    linked = kind != "disjoint"
    least = min(size, max(1, 2 * overlap)) if linked else 1
    wanted = _draw_sizes(seed, number, least, size)
    row = np.arange(len(number))[:, None]
    flags = np.zeros((len(number), instants), bool)
    if linked:
        shared = min(overlap, size // 2)
        # Of any other one it has the first instants in that one's own order, too, unless it is away then.
        parent = np.floor(hash_uniform(seed, np.full(len(number), _PARENT), number) * objects).astype(np.int64)
        own = np.arange(instants) < (wanted - shared)[:, None]
        flags[row, _shuffle_instants(seed, number, instants)] = own
        flags[row, _shuffle_instants(seed, parent, instants)[:, :shared]] = True
    else:
        sizes = _draw_sizes(seed, np.arange(number.max(initial=-1) + 1), least, size)
        begin = np.cumsum(sizes)[number] - sizes[number]
        flags[row, (begin[:, None] + np.arange(instants)) % instants] = np.arange(instants) < wanted[:, None]
    early = np.round((fixes.xym[fixes.offset[:-1], 2] - start_s) / step_s).astype(np.int64)[:, None]
    late = early + np.diff(fixes.offset)[:, None] - 1
    flags &= (np.arange(instants) >= early) & (np.arange(instants) <= late)
    nothing = ~flags.any(axis=1)
    flags[nothing, early[nothing, 0]] = True
    which, instant = np.nonzero(flags)
    return Known(number[which], start_s + step_s * instant)


def _draw_sizes(seed: int, number: Int, least: int, most: int) -> Int:
    drawn = hash_uniform(seed, np.full(len(number), _SIZE), number)
    return least + np.floor(drawn * (most - least + 1)).astype(np.int64)


def _shuffle_instants(seed: int, number: Int, instants: int) -> Int:
    """Order all instants at random, for each object in its own way: int64[n, instants]."""
    shape = (len(number), instants)
    parts = (np.broadcast_to(part, shape).ravel() for part in (_ORDER, number[:, None], np.arange(instants)))
    return np.asarray(hash_uniform(seed, *parts).reshape(shape).argsort(axis=1))
