"""Generated movement data: a small city, objects that move along its streets, and requests they send.

In the manner of Brinkhoff: objects of several classes follow shortest paths of a street network, each at its own speed
but never above the limit of the street. Any network given as nodes and edges will do; `city` makes a small one. All
randomness comes from the generator given, so the same seed gives the same files. Coordinates are metres in the city's
own plane until `write_csv` places it on the Earth. Nobody and no place in the data is real.

Source: Thomas Brinkhoff, A Framework for Generating Network-Based Moving Objects, GeoInformatica 6(2), 2002.
"""

import csv
import heapq
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import DataError, ParameterError

Int = NDArray[np.int64]
Float = NDArray[np.float64]

STREET_LIMITS_MPS = (14.0, 8.5, 5.5)
"""Highest speed on each class of street, m/s: main road, street, lane."""

MAIN_ROAD_EVERY = 4
MEAN_PAUSE_S = 180.0
SLOWEST_SHARE = 0.7
EARTH_RADIUS_M = 6_371_000.0

CSV_COLUMNS = {"subject": "subject", "time": "time", "x": "lon", "y": "lat"}
"""The columns of ``trajectories.csv`` by the names that `dbanon.load.Columns` has for them."""

DEMO_START_S = 1_767_600_000
"""2026-01-05 08:00 UTC."""


@dataclass(frozen=True, kw_only=True)
class ObjectClass:
    """A kind of moving object: its name, its highest speed in m/s, and its share of all objects."""

    name: str
    top_mps: float
    share: float


OBJECT_CLASSES = (
    ObjectClass(name="car", top_mps=14.0, share=0.5),
    ObjectClass(name="bicycle", top_mps=5.0, share=0.25),
    ObjectClass(name="pedestrian", top_mps=1.5, share=0.25),
)

POI_CATEGORIES = ("restaurant", "pharmacy", "supermarket", "fuel", "parking", "cinema", "school", "bank")

DISTRICTS = {
    "centre": (30, 10, 5, 1, 25, 12, 2, 15),
    "station": (20, 8, 12, 5, 35, 5, 5, 10),
    "hospital": (10, 45, 15, 5, 15, 1, 4, 5),
    "university": (25, 8, 20, 3, 8, 14, 20, 2),
    "suburb": (8, 10, 35, 25, 2, 3, 15, 2),
}
"""How often each of `POI_CATEGORIES` is asked for in each district, in percent."""

RARE_POIS = ("falconry shop", "harpsichord tuner", "fencing coach")
"""Each is asked for once: a value that only one subject ever uses identifies by itself, and a demo should show it."""


@dataclass(frozen=True, eq=False)
class Network:
    """A street network; every street may be used both ways.

    Attributes
    ----------
    x, y : float64[n]
        Nodes, metres.
    edge_from, edge_to : int64[e]
        The two nodes of each street.
    edge_class : int64[e]
        Index into `STREET_LIMITS_MPS`.
    """

    x: Float
    y: Float
    edge_from: Int
    edge_to: Int
    edge_class: Int

    @property
    def length_m(self) -> Float:
        """Length of each street in metres, float64[e]."""
        dx = self.x[self.edge_to] - self.x[self.edge_from]
        dy = self.y[self.edge_to] - self.y[self.edge_from]
        return np.asarray(np.hypot(dx, dy), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Fixes:
    """Positions of generated objects, sorted by (subject, t).

    Attributes
    ----------
    subject : int64[m]
        0..objects-1.
    t : int64[m]
        Unix seconds.
    x, y : float64[m]
        Metres.
    kind : int64[objects]
        Index into `OBJECT_CLASSES` of each subject.
    """

    subject: Int
    t: Int
    x: Float
    y: Float
    kind: Int


@dataclass(frozen=True, eq=False)
class SentRequests:
    """Generated requests, sorted by (t, subject): who sent them, when (unix seconds), and the point of interest."""

    subject: Int
    t: Int
    poi: NDArray[np.str_]


def city(rng: np.random.Generator, blocks: int = 16, block_m: float = 120.0) -> Network:
    """Make a small connected city: a crooked grid with main roads, some diagonals and some missing streets.

    Parameters
    ----------
    rng : numpy.random.Generator
    blocks : int
        Blocks along each side; there are ``(blocks + 1) ** 2`` crossings.
    block_m : float
        Mean side of a block in metres.
    """
    if blocks < 1 or not block_m > 0:
        raise ParameterError(f"A city must have blocks >= 1 with sides above 0 m. Got {blocks} of {block_m:g} m.")
    side = blocks + 1
    row, column = np.divmod(np.arange(side * side, dtype=np.int64), side)
    x = (column + rng.uniform(-0.15, 0.15, side * side)) * block_m
    y = (row + rng.uniform(-0.15, 0.15, side * side)) * block_m
    edge_from, edge_to, edge_class = _streets(row, column, side, rng)
    missing = (edge_class > 0) & (rng.random(len(edge_class)) < 0.12)
    keep = _keep_connected(side * side, edge_from, edge_to, ~missing)
    return Network(x, y, edge_from[keep], edge_to[keep], edge_class[keep])


def movements(
    network: Network,
    rng: np.random.Generator,
    *,
    objects: int,
    instants: int,
    step_s: int,
    start_s: int,
    whole_share: float = 0.8,
) -> Fixes:
    """Let objects move through a network from one random crossing to the next, and record where they are.

    Parameters
    ----------
    network : Network
        Must be connected.
    rng : numpy.random.Generator
    objects : int
        How many; each is one subject.
    instants : int
        Positions are recorded at ``start_s + i * step_s`` for i < instants.
    step_s : int
    start_s : int
        Unix seconds.
    whole_share : float
        Probability that an object is there from the first instant to the last; the others appear late, leave early,
        or both.

    Raises
    ------
    ParameterError
        If a count or the step is below 1.
    DataError
        If a journey needs a crossing that no street leads to.

    Notes
    -----
    One shortest path (Dijkstra) a journey: O(e log n) at worst, and it stops at the destination.
    """
    if min(objects, instants, step_s) < 1:
        raise ParameterError(
            f"The number of objects and instants and the step must be >= 1. Got {objects}, {instants} and {step_s} s."
        )
    routers = [_Router(network, kind.top_mps) for kind in OBJECT_CLASSES]
    attraction = _attraction(network)
    kinds = rng.choice(len(OBJECT_CLASSES), size=objects, p=[kind.share for kind in OBJECT_CLASSES])
    subject, t, x, y = [], [], [], []
    for number, kind in enumerate(kinds):
        first, last = _presence(rng, instants, whole_share)
        seconds = np.arange(first, last + 1, dtype=np.int64) * step_s
        clock, nodes = _journeys(routers[kind], attraction, rng, float(seconds[0]), float(seconds[-1]))
        subject.append(np.full(len(seconds), number, dtype=np.int64))
        t.append(start_s + seconds)
        x.append(np.interp(seconds, clock, network.x[nodes]))
        y.append(np.interp(seconds, clock, network.y[nodes]))
    return Fixes(np.concatenate(subject), np.concatenate(t), np.concatenate(x), np.concatenate(y), kinds)


def requests(fixes: Fixes, rng: np.random.Generator, *, step_s: int, per_subject: float = 2.0) -> SentRequests:
    """Let subjects ask for points of interest; what they ask for depends on the district they are in.

    Parameters
    ----------
    fixes : Fixes
        Must hold at least one fix.
    rng : numpy.random.Generator
    step_s : int
        A request is sent at a whole second less than ``step_s`` after one of its sender's fixes.
    per_subject : float
        Mean number of requests of a subject; each of `RARE_POIS` is asked for once besides.
    """
    if not len(fixes.subject):
        raise ParameterError("Requests need somebody to send them. Got no fixes; generate movements first.")
    common = int(rng.poisson(per_subject * len(np.unique(fixes.subject))))
    at = rng.integers(len(fixes.subject), size=common + len(RARE_POIS))
    poi = np.concatenate([_wishes(_district(fixes)[at[:common]], rng), np.array(RARE_POIS)])
    t = fixes.t[at] + rng.integers(step_s, size=len(at))
    order = np.lexsort((poi, fixes.subject[at], t))
    return SentRequests(fixes.subject[at][order], t[order], poi[order])


def write_csv(
    directory: Path, fixes: Fixes, sent: SentRequests, *, lon: float = 8.2, lat: float = 53.14
) -> tuple[Path, Path]:
    """Write ``trajectories.csv`` (subject, time, lon, lat) and ``requests.csv`` (subject, time, poi).

    Parameters
    ----------
    directory : Path
        Made if it is not there; files of these names are replaced.
    fixes : Fixes
    sent : SentRequests
    lon, lat : float
        Where the origin of the city's plane is put, degrees WGS 84. Metres become degrees as on a sphere, one scale an
        axis (equirectangular): lengths are off by less than 0.5 percent, enough for places that do not exist.

    Returns
    -------
    tuple of Path
        The two files.
    """
    directory.mkdir(parents=True, exist_ok=True)
    trajectories, queries = directory / "trajectories.csv", directory / "requests.csv"
    longitude = lon + np.degrees(fixes.x / (EARTH_RADIUS_M * math.cos(math.radians(lat))))
    latitude = lat + np.degrees(fixes.y / EARTH_RADIUS_M)
    rows = zip(_names(fixes.subject), _iso(fixes.t), longitude.tolist(), latitude.tolist(), strict=True)
    # Seven decimals of a degree are about a centimetre.
    positions = ((name, time, f"{east:.7f}", f"{north:.7f}") for name, time, east, north in rows)
    with trajectories.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([tuple(CSV_COLUMNS.values()), *positions])
    wishes = zip(_names(sent.subject), _iso(sent.t), sent.poi.tolist(), strict=True)
    with queries.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("subject", "time", "poi"), *wishes])
    return trajectories, queries


def write_demo(directory: Path, seed: int = 1) -> tuple[Path, Path]:
    """Write the demo's two files: half an hour of 300 subjects in the built-in city, one position a minute.

    Parameters
    ----------
    directory : Path
    seed : int

    Returns
    -------
    tuple of Path
        ``trajectories.csv`` and ``requests.csv``.
    """
    rng = np.random.default_rng(seed)
    fixes = movements(city(rng), rng, objects=300, instants=30, step_s=60, start_s=DEMO_START_S)
    return write_csv(directory, fixes, requests(fixes, rng, step_s=60))


def _names(subject: Int) -> list[str]:
    return [f"s{number:04d}" for number in subject.tolist()]


def _iso(t: Int) -> list[str]:
    text: list[str] = np.datetime_as_string(t.astype("datetime64[s]"), timezone="UTC").tolist()
    return text


def _streets(row: Int, column: Int, side: int, rng: np.random.Generator) -> tuple[Int, Int, Int]:
    """List every street the city might have: along rows, along columns, and one diagonal in some blocks."""
    node = np.arange(side * side, dtype=np.int64)
    east, north = node[column < side - 1], node[row < side - 1]
    corner = node[(column < side - 1) & (row < side - 1)]
    corner = corner[rng.random(len(corner)) < 0.08]
    lane_east, lane_north = rng.random(len(east)) < 0.25, rng.random(len(north)) < 0.25
    class_east = np.where(row[east] % MAIN_ROAD_EVERY == 0, 0, 1 + lane_east)
    class_north = np.where(column[north] % MAIN_ROAD_EVERY == 0, 0, 1 + lane_north)
    edge_from = np.concatenate([east, north, corner])
    edge_to = np.concatenate([east + 1, north + side, corner + side + 1])
    edge_class = np.concatenate([class_east, class_north, np.ones(len(corner))]).astype(np.int64)
    return edge_from, edge_to, edge_class


def _keep_connected(nodes: int, edge_from: Int, edge_to: Int, wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Add to the wanted streets those unwanted ones that join two parts of the city (union-find)."""
    parent = list(range(nodes))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    keep = wanted.copy()
    for edge in np.argsort(~wanted, kind="stable").tolist():
        a, b = root(int(edge_from[edge])), root(int(edge_to[edge]))
        if a != b:
            parent[a] = b
            keep[edge] = True
    return keep


def _attraction(network: Network) -> Float:
    """Give each crossing the chance to be a destination; the middle of the city draws more than its rim."""
    middle_x, middle_y = (network.x.min() + network.x.max()) / 2, (network.y.min() + network.y.max()) / 2
    reach = max(float(np.ptp(network.x)), float(np.ptp(network.y)), 1.0) / 4
    weight = 0.1 + np.exp(-((network.x - middle_x) ** 2 + (network.y - middle_y) ** 2) / (2 * reach**2))
    return np.asarray(weight / weight.sum(), dtype=np.float64)


def _presence(rng: np.random.Generator, instants: int, whole_share: float) -> tuple[int, int]:
    """Draw the first and last instant at which an object is there."""
    if rng.random() < whole_share:
        return 0, instants - 1
    a, b = rng.integers(instants, size=2).tolist()
    return min(a, b), max(a, b)


class _Router:
    """Quickest paths through a network for one class of object, in seconds at its highest speed."""

    def __init__(self, network: Network, top_mps: float) -> None:
        limit = np.minimum(np.array(STREET_LIMITS_MPS)[network.edge_class], top_mps)
        self._streets: list[list[tuple[int, float]]] = [[] for _ in range(len(network.x))]
        ends = zip(network.edge_from.tolist(), network.edge_to.tolist(), strict=True)
        for (a, b), seconds in zip(ends, (network.length_m / limit).tolist(), strict=True):
            self._streets[a].append((b, seconds))
            self._streets[b].append((a, seconds))

    def path(self, source: int, target: int) -> tuple[list[int], list[float]]:
        """Return the crossings after the source up to the target, and the seconds to each (Dijkstra)."""
        reached, before = {source: 0.0}, {source: source}
        queue = [(0.0, source)]
        while queue:
            seconds, node = heapq.heappop(queue)
            if node == target:
                return _way_back(reached, before, target)
            if seconds > reached[node]:
                continue
            for other, length in self._streets[node]:
                arrival = seconds + length
                if arrival < reached.get(other, math.inf):
                    reached[other], before[other] = arrival, node
                    heapq.heappush(queue, (arrival, other))
        raise DataError("Every crossing of the street network must be reachable. Got separate parts; use one of them.")


def _way_back(reached: dict[int, float], before: dict[int, int], target: int) -> tuple[list[int], list[float]]:
    nodes = []
    while before[target] != target:
        nodes.append(target)
        target = before[target]
    nodes.reverse()
    return nodes, [reached[node] for node in nodes]


def _journeys(
    router: _Router, attraction: Float, rng: np.random.Generator, start: float, end: float
) -> tuple[list[float], list[int]]:
    """Chain journeys and pauses until `end`; return when (increasing) the object is at which crossing."""
    pace = rng.uniform(SLOWEST_SHARE, 1.0)
    # Setting out earlier puts the object somewhere along a street, not at a crossing, when it is first seen.
    now = start - rng.uniform(0.0, 2 * MEAN_PAUSE_S)
    here = int(rng.choice(len(attraction), p=attraction))
    clock, nodes = [now], [here]
    while now <= end:
        there = int(rng.choice(len(attraction), p=attraction))
        passed, seconds = router.path(here, there)
        clock += [now + at / pace for at in seconds]
        nodes += passed
        now = clock[-1] + 1.0 + float(rng.exponential(MEAN_PAUSE_S))
        here = there
        clock.append(now)
        nodes.append(here)
    return clock, nodes


def _district(fixes: Fixes) -> Int:
    """Find the district of each fix: the centre, or the quarter of the city it is in."""
    across = 2 * (fixes.x - fixes.x.min()) / max(float(np.ptp(fixes.x)), 1.0) - 1
    up = 2 * (fixes.y - fixes.y.min()) / max(float(np.ptp(fixes.y)), 1.0) - 1
    quarter = 1 + (across > 0) + 2 * (up > 0)
    return np.where(np.hypot(across, up) < 0.35, 0, quarter).astype(np.int64)


def _wishes(district: Int, rng: np.random.Generator) -> NDArray[np.str_]:
    share = np.array(list(DISTRICTS.values()), dtype=np.float64)
    reach = np.cumsum(share / share.sum(axis=1, keepdims=True), axis=1)
    # The last bound may fall short of 1 by rounding; what is above the others is the last category.
    choice = (rng.random(len(district))[:, None] >= reach[district, :-1]).sum(axis=1)
    return np.asarray(np.array(POI_CATEGORIES)[choice], dtype=np.str_)
