"""The paper's algorithm in plain Python, to be read beside it: slow, and sharing nothing with `benchmarks.papers`.

Tu, Zhao, Xu, Li, Su, Jin: Beyond K-Anonymity: Protect Your Trajectory from Semantic Attack, SECON 2017: the loss of
section III-B, Algorithms 1 and 2, the merge of two trajectories and its reshaping of section IV-B.

A region is a frozenset of cells 0, 1, ...; areas are whole square millimetres; time is in slots, an end is outside. Of
two arguments the first is the paper's p_a or T_i. The order matters: where paths are equally cheap, a region made from
(a, b) need not be that from (b, a). Floating-point sums run from left to right, so that a kernel can repeat them.
"""

# ruff: noqa: E741, PLR0917 - the names and the order of the paper

import heapq
from bisect import bisect_left
from dataclasses import dataclass, field
from math import inf, log

from tests.unit import semantic_cases
from tests.unit.semantic_cases import Case

CLOSE = 1e-9  # by which a divergence may exceed t
DECIMALS = 12  # to which divergences are compared with each other


@dataclass
class Graph:
    """Cells: which share an edge, how large they are, points of interest by category; and what regions must hold."""

    neighbours: dict[int, set[int]]
    area: list[int]
    pois: list[list[int]]
    l: int
    t: float
    city: list[int] = field(init=False)
    merged: dict = field(init=False, default_factory=dict, repr=False)  # of pairs that came up before

    def __post_init__(self):
        self.city = count_pois(self, self.neighbours)


@dataclass(frozen=True, slots=True)
class Point:
    """A spatio-temporal point (t, d, l): [start, end) and a region."""

    start: int
    end: int
    region: frozenset


# ---- what is in a region (section III-A)


def count_pois(graph, cells):
    """Points of interest by category."""
    total = [0] * (len(graph.pois[0]) if graph.pois else 0)
    for cell in cells:
        total = [m + more for m, more in zip(total, graph.pois[cell], strict=True)]
    return total


def compute_divergence(graph, count):
    """KL divergence of a region's shares X from the city's Y, in nats. A category the city lacks gives no term."""
    if not sum(count):
        return inf
    total = 0.0
    for m, city in zip(count, graph.city, strict=True):
        if m:
            total += m / sum(count) * log((m / sum(count)) / (city / sum(graph.city)))
    return total


def compute_kl(graph, cells):
    return compute_divergence(graph, count_pois(graph, cells))


def count_categories(graph, cells):
    return sum(m > 0 for m in count_pois(graph, cells))


def measure_area(graph, cells):
    return sum(graph.area[cell] for cell in cells)


# ---- merging two points (Algorithm 1)


def list_around(graph, cells):
    """Cells that share an edge with a cell of a region and are not in it."""
    return {near for cell in cells for near in graph.neighbours[cell]} - set(cells)


def connect(graph, a, b):
    """Two regions and the cheapest path between them (line 2): Dijkstra from `a`, entering a cell costs its area."""
    if a & b or list_around(graph, a) & b:
        return frozenset(a | b)
    # Cells come off the heap by (area, cells, index), so what reaches a cell first is its least predecessor, and the
    # first cell beside `b` is the least end of a path.
    heap = [(graph.area[cell], 1, cell) for cell in list_around(graph, a)]
    heapq.heapify(heap)
    before = {cell: None for _, _, cell in heap}
    while True:
        far, hops, cell = heapq.heappop(heap)
        if graph.neighbours[cell] & b:
            break
        for near in graph.neighbours[cell] - a - before.keys():
            before[near] = cell
            heapq.heappush(heap, (far + graph.area[near], hops + 1, near))
    path = set()
    while cell is not None:
        path.add(cell)
        cell = before[cell]
    return frozenset(a | b | path)


def grow(graph, cells):
    """Add neighbours until a region has l categories (lines 3 to 8), then until its shares are t-close (9 to 14)."""
    cells, count = set(cells), count_pois(graph, cells)

    def with_cell(cell):
        return [m + more for m, more in zip(count, graph.pois[cell], strict=True)]

    def in_variety(cell):
        return -sum(m > 0 for m in with_cell(cell)), graph.area[cell], cell

    def in_closeness(cell):
        return round(compute_divergence(graph, with_cell(cell)), DECIMALS), graph.area[cell], cell

    while sum(m > 0 for m in count) < graph.l:
        best = min(list_around(graph, cells), key=in_variety)
        cells, count = cells | {best}, with_cell(best)
    while compute_divergence(graph, count) > graph.t + CLOSE:
        best = min(list_around(graph, cells), key=in_closeness)
        cells, count = cells | {best}, with_cell(best)
    return frozenset(cells)


def merge_regions(graph, a, b):
    """Algorithm 1 in space; with b = a, a region grown alone."""
    if (a, b) not in graph.merged:
        graph.merged[a, b] = grow(graph, connect(graph, a, b))
    return graph.merged[a, b]


def merge_points(graph, p, q):
    """Algorithm 1."""
    return Point(min(p.start, q.start), max(p.end, q.end), merge_regions(graph, p.region, q.region))


# ---- what a merge costs (section III-B)


def compute_theta(graph, loss, p, q, n_p, n_q):
    """Formula (1): loss of resolution of two points of groups of n_p and n_q people."""
    c = merge_points(graph, p, q)

    def mean_loss(whole, of_p, of_q):
        return ((whole - of_p) * n_p + (whole - of_q) * n_q) / (n_p + n_q)

    in_time = mean_loss(c.end - c.start, p.end - p.start, q.end - q.start) / loss.span_slots
    in_space = (
        mean_loss(measure_area(graph, c.region), measure_area(graph, p.region), measure_area(graph, q.region))
        / loss.area_mm2
    )
    return loss.weight_time * min(in_time, 1) + (1 - loss.weight_time) * min(in_space, 1)


def sort_walked_first(first, second, n_first, n_second):
    """The longer trajectory, whose points are walked, or the second of two of one length; the other; their people."""
    if len(first) > len(second):
        return first, second, n_first, n_second
    return second, first, n_second, n_first


def compute_cost(graph, loss, first, second, n_first, n_second):
    """C_ij of two trajectories in the run's order: mean over the longer of the least theta with the shorter."""
    walked, other, n_w, n_o = sort_walked_first(first, second, n_first, n_second)
    total = 0.0
    for p in walked:
        total += min(compute_theta(graph, loss, p, q, n_w, n_o) for q in other)
    return total / len(walked)


# ---- merging two trajectories (section IV-B)


def merge_trajectories(graph, loss, first, second, n_first, n_second, members_fixes):
    """One trajectory that generalises two in the run's order, for members with fixes in these slots."""
    walked, other, n_w, n_o = sort_walked_first(first, second, n_first, n_second)
    other, reached = list(other), set()
    for p in walked:
        # Earlier points of `walked` have already changed those of `other`.
        j = min(range(len(other)), key=lambda j, p=p: (compute_theta(graph, loss, p, other[j], n_w, n_o), j))
        other[j] = merge_points(graph, p, other[j])
        reached.add(j)
    merged = [other[j] for j in sorted(reached)]
    for q in [q for j, q in enumerate(other) if j not in reached]:
        j = min(range(len(merged)), key=lambda j, q=q: (compute_theta(graph, loss, q, merged[j], n_o, n_w), j))
        merged[j] = merge_points(graph, q, merged[j])
    return reshape_points(graph, merged, members_fixes)


def measure_size(graph, pieces):
    """Sum of period x area."""
    return sum((p.end - p.start) * measure_area(graph, p.region) for p in pieces)


def sort_points(points):
    return sorted(points, key=lambda p: (p.start, p.end, sorted(p.region)))


def part_points(graph, p, q):
    """Of two points that overlap, p first: before, both and after; or one for all, unless that is larger."""
    both = merge_regions(graph, p.region, q.region)
    low, high = min(p.end, q.end), max(p.end, q.end)
    last = p if p.end > q.end else q
    cut = [Point(p.start, q.start, p.region), Point(q.start, low, both), Point(low, high, last.region)]
    cut = [piece for piece in cut if piece.start < piece.end]
    one = [Point(p.start, high, both)]
    return cut if measure_size(graph, cut) < measure_size(graph, one) else one


def reshape_points(graph, points, members_fixes):
    """Part points that overlap in time; then merge pieces that lack a fix of a member with a neighbour.

    Ends: each turn of the first loop takes the overlap's slots off the sum of periods, each of the second one piece.
    """
    pieces, fixes = sort_points(points), [sorted(slots) for slots in members_fixes]
    # Sorted by start, two pieces overlap only if neighbours do.
    while (i := next((i for i in range(len(pieces) - 1) if pieces[i + 1].start < pieces[i].end), None)) is not None:
        pieces = sort_points([*pieces[:i], *part_points(graph, pieces[i], pieces[i + 1]), *pieces[i + 2 :]])

    def lacks(piece):
        return any(bisect_left(slots, piece.start) == bisect_left(slots, piece.end) for slots in fixes)

    def added(i):
        return measure_size(graph, [merge_points(graph, *pieces[i : i + 2])]) - measure_size(graph, pieces[i : i + 2])

    while (i := next((i for i, piece in enumerate(pieces) if lacks(piece)), None)) is not None:
        i = min((j for j in (i - 1, i) if 0 <= j < len(pieces) - 1), key=lambda j: (added(j), j))
        pieces[i : i + 2] = [merge_points(graph, *pieces[i : i + 2])]
    return pieces


# ---- merging all trajectories (Algorithm 2)


@dataclass(frozen=True)
class Group:
    units: tuple
    people: frozenset
    points: list


def merge_greedily(graph, loss, trajectories, subjects, fixes, k):
    """Merge trajectories, given in the run's order, into groups of at least k subjects: [(units, rows)], in that order.

    There must be k subjects. A merged trajectory takes its first's place, so a group's place is its least unit.
    """
    if k == 1:
        grown = [[merge_points(graph, p, p) for p in trajectory] for trajectory in trajectories]
        return [([u], reshape_points(graph, points, [fixes[u]])) for u, points in enumerate(grown)]
    groups = {u: Group((u,), frozenset([subjects[u]]), points) for u, points in enumerate(trajectories)}

    def price(i, j):
        a, b = groups[min(i, j)], groups[max(i, j)]
        return compute_cost(graph, loss, a.points, b.points, len(a.people), len(b.people))

    def merge(i, j):
        a, b = groups[min(i, j)], groups.pop(max(i, j))
        units, people = tuple(sorted(a.units + b.units)), a.people | b.people
        points = merge_trajectories(
            graph, loss, a.points, b.points, len(a.people), len(b.people), [fixes[u] for u in units]
        )
        groups[min(i, j)] = Group(units, people, points)

    def small(i):
        return len(groups[i].people) < k

    def strangers(i, j):
        return not groups[i].people & groups[j].people

    costs = {(i, j): price(i, j) for i in groups for j in groups if i < j and strangers(i, j)}
    while costs:
        i, j = min(costs, key=lambda pair: (costs[pair], pair))
        merge(i, j)
        costs = {pair: c for pair, c in costs.items() if not {i, j} & set(pair)}
        if small(i):
            others = [n for n in groups if n != i and small(n) and strangers(i, n)]
            costs |= {(min(i, n), max(i, n)): price(i, n) for n in others}
    # What is left may join units of its own subjects too: people are counted, and the cost is C_ij, not infinity.
    while len(groups) > 1 and (left := [i for i in sorted(groups) if small(i)]):
        i = left[0]
        merge(i, min(groups.keys() - {i}, key=lambda n: (price(i, n), n)))
    return [(list(groups[i].units), groups[i].points) for i in sorted(groups)]


# ---- points of fixes


def make_points(slots, cells, gap_slots):
    """Runs of one cell, broken where the next fix is over `gap_slots` later. Fixes of one slot keep their order."""
    runs = []
    for slot, cell in sorted(zip(slots, cells, strict=True), key=lambda fix: fix[0]):
        if runs and runs[-1][2] == cell and slot - runs[-1][1] <= gap_slots:
            runs[-1][1] = slot
        else:
            runs.append([slot, slot, cell])
    return [Point(first, last + 1, frozenset([cell])) for first, last, cell in runs]


# ---- the cases of the package, for it


class PaperCase(Case):
    """A case, with its graph and its trajectories."""

    @property
    def graph(self):
        return Graph(self.neighbours, self.area, self.pois, self.l, self.t)

    @property
    def trajectories(self):
        return [make_points(slots, cells, self.gap_slots) for slots, cells in zip(self.slots, self.cells, strict=True)]


def draw_case(seed):
    return PaperCase(**vars(semantic_cases.draw_case(seed)))
