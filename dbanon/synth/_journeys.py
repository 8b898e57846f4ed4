"""Moves objects through a street network, in the manner of Brinkhoff: quickest paths, and positions over time.

Every object draws from a separate stream of random numbers, made from the seed and its number by hashing. So what an
object does depends on nothing but the network, the plan and its number: not on how many are made at once, or where.

Destinations are a limited number of places, drawn once for all objects. For each of them and each kind of object one
tree of quickest paths (Dijkstra's, by SciPy) says at every node which edge to take; to walk is to follow it.

What of Brinkhoff is here: classes of objects with a highest speed each, classes of edges with one each, the lesser of
the two counting; quickest paths; objects that appear and disappear over time; starts spread over the nodes (his
network-based approach). What is left out: traffic density (full edges slow nothing down) and external objects such as
bad weather, both of which change speeds during a journey, and therefore finding a path anew on the way; preferred
lengths of routes (those on foot choose the nearest of several destinations instead); reporting with a probability
(every object is seen at every instant at which it is there).

Source: Thomas Brinkhoff, A Framework for Generating Network-Based Moving Objects, GeoInformatica 6(2), 2002.
"""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from dbanon.base.kernels import compile_kernel
from dbanon.synth._network import Network

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ObjectClass:
    """A kind of moving object."""

    name: str
    top_mps: float  # highest speed, m/s
    share: float  # of all objects
    # It goes to the nearest of so many destinations drawn: pedestrians do not cross the whole city for a pharmacy.
    choices: int


OBJECT_CLASSES = (
    ObjectClass(name="car", top_mps=36.0, share=0.5, choices=1),
    ObjectClass(name="bus", top_mps=14.0, share=0.05, choices=1),
    ObjectClass(name="bicycle", top_mps=5.0, share=0.2, choices=2),
    ObjectClass(name="pedestrian", top_mps=1.5, share=0.25, choices=5),
)

MEAN_PAUSE_S = 180.0
"""Mean length of the pause between two journeys."""

SLOWEST_SHARE = 0.7
"""An object moves at this share of the allowed speed at least; each has its own pace."""

BEFORE_S = 600.0
"""Objects that are there from the first instant set out up to so much earlier, and are then somewhere on their way."""

LEAVING_SHARE = 0.5
"""Chance that an object that is not there throughout disappears at a destination."""

HOPS_BYTES = 512 * 1024**2
"""Memory that the trees of quickest paths may take; on a very large network there are fewer destinations then."""

_DISTANCES_BYTES = 16 * 1024**2


@dataclass(frozen=True, eq=False)
class Routes:
    """The quickest way from every node to every destination, for each class of object."""

    x: Float  # [n]; x, y: nodes, metres
    y: Float  # [n]
    first: Int  # [n + 1]: edges that leave node v are first[v]..first[v + 1]
    to: NDArray[np.int32]  # [2 e]: where each edge leads
    seconds: Float  # [classes, 2 e]: to pass an edge at the highest speed allowed
    tree: Int  # [classes]: which trees are those of a class: classes whose quickest paths are the same share them
    # Which of the edges that leave a node is the next on the way to a destination.
    hop: NDArray[Any]  # uint8 or uint16[trees, d, n]
    destination: NDArray[np.int32]  # [d]: nodes
    reach: Float  # [d]: chance of a destination or one before it


@dataclass(frozen=True, kw_only=True)
class Timetable:
    """When positions are recorded, and how many objects are there throughout."""

    start_s: int  # unix seconds of the first instant
    instants: int
    step_s: int
    # Chance that an object is there from the first instant to the last; the others appear late, leave early, or both.
    whole_share: float = 0.8


@dataclass(frozen=True, eq=False)
class Fixes:
    """Positions of generated objects, in the order of their numbers, and in time for each."""

    number: Int  # [objects]
    kind: NDArray[np.int8]  # [objects]: index into `OBJECT_CLASSES`
    offset: Int  # [objects + 1]: fixes of object i are offset[i]..offset[i + 1]; at least one
    xym: Float  # [m, 3]: metres, metres, unix seconds


# ---- routes ----------------------------------------------------------------------------------------------------------


def find_routes(network: Network, attraction: Float, destinations: int, rng: np.random.Generator) -> Routes:
    """Find the quickest ways to destinations drawn by attraction.

    Parameters
    ----------
    attraction : float64[n]
        Chance of each node to be drawn; the sum is 1.
    destinations : int
        How many are drawn; one that is drawn again counts double. Fewer where `HOPS_BYTES` does not suffice.

    Notes
    -----
    One run of Dijkstra's algorithm for each destination and each group of classes with the same ways.
    """
    first, to, edge = _list_edges(network)
    tops = np.array([kind.top_mps for kind in OBJECT_CLASSES])
    speed = np.minimum(network.limit_mps, tops[:, None])
    seconds = np.ascontiguousarray((network.length_m / speed)[:, edge])
    # Ways are the same where speeds are in proportion, as they are for all that are slower than any limit.
    relative, tree = np.unique(np.round(speed / speed.max(axis=1, keepdims=True), 12), axis=0, return_inverse=True)
    degree = int(np.diff(first).max())
    kind = np.min_scalar_type(degree - 1)
    room = max(16, HOPS_BYTES // (len(relative) * len(network.x) * kind.itemsize))
    drawn = rng.choice(len(network.x), size=min(destinations, room), p=attraction)
    destination, times = np.unique(drawn, return_counts=True)
    # The index among a node's edges is enough, a byte on most networks: no other table is as large.
    hop = np.empty((len(relative), len(destination), len(network.x)), dtype=kind)
    for number in range(len(relative)):
        _fill_tree(hop[number], first, to, seconds[int(np.argmax(tree.ravel() == number))], destination)
    return Routes(
        x=network.x,
        y=network.y,
        first=first,
        to=to,
        seconds=seconds,
        tree=tree.ravel().astype(np.int64),
        hop=hop,
        destination=destination.astype(np.int32),
        reach=np.cumsum(times) / times.sum(),
    )


def _list_edges(network: Network) -> tuple[Int, NDArray[np.int32], Int]:
    """List the edges that leave each node, both ways; returns first, to, and the edge of the network each is."""
    source = np.concatenate([network.edge_from, network.edge_to])
    to = np.concatenate([network.edge_to, network.edge_from])
    order = np.lexsort((to, source))
    first = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=len(network.x)))]).astype(np.int64)
    return first, to[order], order % len(network.edge_from)


def _fill_tree(hop: NDArray[Any], first: Int, to: NDArray[np.int32], seconds: Float, destination: Int) -> None:
    """Write into hop[d, n] which edge to take at each node on the quickest way to each destination."""
    # Edges may be used both ways, so times to a destination are times from it: one run of Dijkstra's for each.
    graph = sparse.csr_array(_keep_quickest(first, to, seconds), shape=(len(first) - 1,) * 2)
    at_once = max(1, _DISTANCES_BYTES // (8 * graph.shape[0]))
    for start in range(0, len(destination), at_once):
        part = slice(start, start + at_once)
        away = np.atleast_2d(csgraph.dijkstra(graph, indices=destination[part]))
        _fill_next_edges(first, to, seconds, away, hop[part])


def _keep_quickest(first: Int, to: NDArray[np.int32], seconds: Float) -> Any:
    """Drop the slower ones of parallel edges, which a sparse matrix would add up; returns (values, columns, rows)."""
    source = np.repeat(np.arange(len(first) - 1), np.diff(first))
    order = np.lexsort((seconds, to, source))
    pair = source[order] * np.int64(len(first) - 1) + to[order]
    keep = order[np.concatenate([[True], np.diff(pair) > 0])]
    counted = np.concatenate([[0], np.cumsum(np.bincount(source[keep], minlength=len(first) - 1))])
    return seconds[keep], to[keep], counted.astype(np.int32)


@compile_kernel
def _fill_next_edges(first: Any, to: Any, seconds: Any, away: Any, hop: Any) -> None:
    """At each node, the first edge after which the way to the destination is the quickest."""
    for d in range(away.shape[0]):
        for v in range(away.shape[1]):
            # Bellman's equation: the next edge is one after which the whole way is the quickest; of equals the first.
            best, chosen = np.inf, 0
            for e in range(first[v], first[v + 1]):
                whole = seconds[e] + away[d, to[e]]
                if whole < best:
                    best, chosen = whole, e - first[v]
            hop[d, v] = chosen


# ---- random streams --------------------------------------------------------------------------------------------------

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_BY_30, _BY_27, _BY_31, _BY_11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_TO_UNIT = 2.0**-53


def _mix(z: Any) -> Any:
    """Hash 64 bits (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014: SplitMix64)."""
    z = (z ^ (z >> _BY_30)) * _MIX_1
    z = (z ^ (z >> _BY_27)) * _MIX_2
    return z ^ (z >> _BY_31)


def hash_uniform(seed: int, *parts: Int) -> Float:
    """Uniform numbers in [0, 1) that depend on the seed and whole numbers alone.

    `parts` (int64[n]): as many as are needed to distinguish the numbers: an object's, a request's.
    """
    # Each part is hashed into the state of those before it, plus one, so that a part of 0 changes it too.
    state = _mix(np.full(len(parts[0]), seed, dtype=np.uint64) + _GOLDEN)
    for part in parts:
        state = _mix(state + _GOLDEN * (part.astype(np.uint64) + np.uint64(1)))
    return np.asarray((state >> _BY_11) * _TO_UNIT, dtype=np.float64)


_mixed = compile_kernel(_mix)


@compile_kernel
def _draw_uniform(state: Any) -> Any:
    """Draw a number in [0, 1) from a stream, whose state is one element."""
    state[0] += _GOLDEN
    return (_mixed(state[0]) >> _BY_11) * _TO_UNIT


# ---- walking ---------------------------------------------------------------------------------------------------------


def walk(ways: Routes, timetable: Timetable, seed: int, numbers: Int) -> Fixes:
    """Let objects move, and record where they are.

    `numbers` (int64[objects]): numbers of the objects; each does the same whichever others are made with it.

    O(edges passed): a step along a way is a look at a table.
    """
    share = np.cumsum([kind.share for kind in OBJECT_CLASSES])
    choices = np.array([kind.choices for kind in OBJECT_CLASSES])
    kind = np.empty(len(numbers), dtype=np.int8)
    offset = np.zeros(len(numbers) + 1, dtype=np.int64)
    xym = np.empty((len(numbers) * timetable.instants, 3))
    _walk(
        (ways.x, ways.y, ways.first, ways.to, ways.seconds, ways.tree, ways.hop, ways.destination, ways.reach),
        (share / share[-1], choices),
        (float(timetable.start_s), timetable.instants, float(timetable.step_s), timetable.whole_share),
        np.uint64(seed),
        numbers,
        (kind, offset, xym),
    )
    return Fixes(numbers, kind, offset, xym[: offset[-1]])


@compile_kernel
def _draw_destination(ways: Any, here: Any, choices: Any, state: Any) -> Any:
    """Draw destinations, and take the one nearest as the crow flies."""
    x, y, destination, reach = ways[0], ways[1], ways[7], ways[8]
    chosen, best = 0, np.inf
    for _ in range(choices):
        d = min(np.searchsorted(reach, _draw_uniform(state), side="right"), len(reach) - 1)
        v = destination[d]
        away = (x[v] - x[here]) ** 2 + (y[v] - y[here]) ** 2
        if away < best:
            chosen, best = d, away
    return chosen


@compile_kernel
def _walk(ways: Any, classes: Any, times: Any, seed: Any, numbers: Any, out: Any) -> None:
    x, y, first, to, seconds, tree, hop, destination, _ = ways
    share, choices = classes
    start, instants, step, whole_share = times
    kinds, offset, xym = out
    # The order of draws is part of the result: kind, pace, whether it stays, when, where; and journey by journey the
    # destination, whether it leaves there, and the pause.
    state = np.empty(1, np.uint64)
    for row in range(len(numbers)):
        state[0] = _mixed(_mixed(seed + _GOLDEN) + _GOLDEN * (np.uint64(numbers[row]) + np.uint64(1)))
        kind = min(np.searchsorted(share, _draw_uniform(state), side="right"), len(share) - 1)
        pace = SLOWEST_SHARE + (1.0 - SLOWEST_SHARE) * _draw_uniform(state)
        whole = _draw_uniform(state) < whole_share
        last = (instants - 1) * step
        # Half as long again, so that some of those who leave early were there from the first instant.
        now = -BEFORE_S * _draw_uniform(state) if whole else last * (1.5 * _draw_uniform(state) - 0.5)
        here = min(int(_draw_uniform(state) * len(x)), len(x) - 1)
        begin = i = max(0, int(np.ceil(now / step)))
        m = offset[row]
        # Kept true: the object is at node `here` at time `now`, and instants before i are done; i * step >= now.
        while i < instants:
            d = _draw_destination(ways, here, choices[kind], state)
            # An edge at a time; instants that fall on it are interpolated, the one at its end belongs to the next edge.
            while here != destination[d] and i < instants:
                e = first[here] + hop[tree[kind], d, here]
                there, duration = to[e], seconds[kind, e] / pace
                while i < instants and i * step < now + duration:
                    part = (i * step - now) / duration
                    xym[m, 0] = x[here] + (x[there] - x[here]) * part
                    xym[m, 1] = y[here] + (y[there] - y[here]) * part
                    xym[m, 2] = start + i * step
                    i, m = i + 1, m + 1
                here, now = there, now + duration
            # Not before its first fix: every object has one at least.
            if not whole and i > begin and _draw_uniform(state) < LEAVING_SHARE:
                break
            # An exponential pause, and a second, so that time passes even where the destination is the node it is at.
            now += 1.0 - MEAN_PAUSE_S * np.log(1.0 - _draw_uniform(state))
            while i < instants and i * step < now:
                xym[m, 0], xym[m, 1], xym[m, 2] = x[here], y[here], start + i * step
                i, m = i + 1, m + 1
        kinds[row], offset[row + 1] = kind, m
