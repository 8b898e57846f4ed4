"""Which objects share a rectangle at which instant, and how much is lost by it.

Invariant: at every instant at which an object is generalised with its hiding set, all of them are in one class.

Yarovoy, Bonchi, Lakshmanan, Wang: Anonymizing Moving Objects: How to Hide a MOB in a Crowd?, EDBT 2009.
"""

from dataclasses import dataclass

import numpy as np

from dbanon.base import cores
from dbanon.base.cloaks import summarise_sides
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Float, Int32, freeze
from dbanon.methods.mob._positions import Positions
from dbanon.methods.mob._sets import Sets

# The paper's QID(O) are the own instants of object O, and T(O) those at which its set counts: `when`. For a class C,
# lub(C) is the least rectangle around it.
_MIN_POSITIONS_PER_THREAD = 1 << 20


@dataclass(frozen=True, kw_only=True, eq=False)
class Classes:
    """The equivalence classes of all instants, by instant, then rectangle."""

    of: Int32  # [n, T]: class of each object at each instant; -1 where it is published as it is, or absent
    box: Int32  # [c, 4]: least x, least y, greatest x, greatest y of each: cells of `Positions`, all inside
    instant: Int32  # [c]
    size: Int32  # [c]: number of objects

    def __post_init__(self) -> None:
        freeze(self)


def build_classes(positions: Positions, sets: Sets) -> Classes:
    """Generalise: at each instant, all sets that are in force and overlap become one class, and its least rectangle.

    Departs from Algorithm 5, which as printed asks of each member whether the instant is its own: that contradicts the
    paper's Figure 6. A set counts with all its members at every instant of its owner's ``sets.when``. Classes with the
    same rectangle at the same instant are made one, for readers cannot distinguish them.

    Takes O(n T + m T) steps at most, and little more than the pairs of an object in a set and an instant of it; holds
    4 n T bytes, the result, and 8 n a thread.
    """
    n, count = len(sets.kept), positions.instants.count
    of = np.full((n, count), -1, np.int32)
    parts: dict[int, Int32] = {}

    def join(low: int, high: int) -> None:
        parts[low] = _join(sets, positions.x, positions.y, of, low, high)

    cores.share_work(np.full(count, n), join, _MIN_POSITIONS_PER_THREAD)
    table = np.concatenate([parts[low] for low in sorted(parts)])
    box, instant, size = np.ascontiguousarray(table[:, :4]), table[:, 4].copy(), table[:, 5].copy()
    before = np.searchsorted(instant, np.arange(count)).astype(np.int32)

    def renumber(low: int, high: int) -> None:
        _renumber(of, before, low, high)

    cores.share_work(np.full(n, count), renumber, _MIN_POSITIONS_PER_THREAD)
    return Classes(of=of, box=box, instant=instant, size=size)


def compute_information_loss(classes: Classes, rows: int) -> float:
    """Average over rows, one for each published (object, instant) pair, of 1 - 1 / area in cells; 0 of exact ones."""
    return float((classes.size * (1 - 1 / _compute_area(classes))).sum() / max(rows, 1))


def measure_classes(classes: Classes, rows: int, k: int, cell_m: float) -> dict[str, float]:
    """Measure classes as the paper does: how much is lost, and how many are larger than they would have to be."""
    inside = (classes.size >= k) & (classes.size < 2 * k)
    return {
        "information_loss": compute_information_loss(classes, rows),
        "classes": len(classes.size),
        "median_class_size": float(np.median(classes.size)) if len(classes.size) else 0.0,
        "coverage_percent": 100 * float(inside.mean()) if len(classes.size) else 100.0,
        "generalised_percent": 100 * float(classes.size.sum()) / max(rows, 1),
        **summarise_sides(*((classes.box[:, 2:] - classes.box[:, :2] + 1) * cell_m).T),
    }


def _compute_area(classes: Classes) -> Float:
    wide = classes.box[:, 2:].astype(np.float64) - classes.box[:, :2] + 1
    return np.asarray(wide[:, 0] * wide[:, 1], np.float64)


@compile_kernel
def _join(sets: Sets, x: Int32, y: Int32, of: Int32, low: int, high: int) -> Int32:
    """Write to `of` the classes of instants low..high, those of each instant from 0; their box, instant and size."""
    n = len(of)
    parent, number = np.empty(n, np.int32), np.empty(n, np.int32)
    table, used = np.empty((n // 2 + 1, 6), np.int32), 0
    # Algorithm 4, lines 3 to 7, for each instant alone: classes, then the least rectangle of each.
    for t in range(low, high):
        if not _unite(sets, t, parent):
            continue
        # A class has two objects or more, so an instant has n // 2 classes at most.
        if len(table) < used + n // 2:
            longer = np.empty((2 * used + n // 2, 6), np.int32)
            longer[:used] = table[:used]
            table = longer
        roots = _enclose(parent, number, x, y, t, table[used:])
        place, distinct = _order(table[used : used + roots])
        table[used : used + distinct, 4] = t
        used += distinct
        for i in range(n):
            if number[parent[i]] >= 0:
                of[i, t] = place[number[parent[i]]]
    return table[:used].copy()


@compile_kernel
def _unite(sets: Sets, t: int, parent: Int32) -> bool:
    """Union all sets in force at an instant, path halving, the least member the root; say whether there are any."""
    offset, other, when, _ = sets
    word, bit, has_any = t >> 6, np.uint64(t & 63), False
    for i in range(len(parent)):
        # Line 1 of Algorithm 4: `when` is T(O). Algorithm 5 as printed asks whether t is in the QID of each member
        # instead.
        if (when[i, word] >> bit) & np.uint64(1) == 0:
            continue
        if not has_any:
            has_any = True
            for j in range(len(parent)):
                parent[j] = j
        root = _find(parent, i)
        for at in range(offset[i], offset[i + 1]):
            # Kept true: sets so far that share an object are in one class (Definition 4). The least member is its root,
            # so the classes do not depend on the order of sets.
            joined = _find(parent, other[at])
            if joined < root:
                parent[root] = joined
                root = joined
            else:
                parent[joined] = root
    return has_any


@compile_kernel
def _find(parent: Int32, i: int) -> np.int64:
    at = np.int64(i)
    while parent[at] != at:
        parent[at] = parent[parent[at]]
        at = np.int64(parent[at])
    return at


@compile_kernel
def _enclose(parent: Int32, number: Int32, x: Int32, y: Int32, t: int, table: Int32) -> int:
    """Let all parents be roots, and number the classes of two or more by root; box and size of each; how many."""
    roots = 0
    number[:] = -1
    for i in range(len(parent)):
        root = _find(parent, i)
        parent[i] = root
        if root == i:
            continue
        if number[root] < 0:
            number[root] = roots
            table[roots, 0] = table[roots, 2] = x[root, t]
            table[roots, 1] = table[roots, 3] = y[root, t]
            table[roots, 5] = 1
            roots += 1
        row = number[root]
        # Line 7 of Algorithm 4: lub(C).
        table[row, 0], table[row, 2] = min(table[row, 0], x[i, t]), max(table[row, 2], x[i, t])
        table[row, 1], table[row, 3] = min(table[row, 1], y[i, t]), max(table[row, 3], y[i, t])
        table[row, 5] += 1
    return roots


@compile_kernel
def _order(table: Int32) -> tuple[Int32, int]:
    """Sort classes by their boxes, those with the same made one; the place of each, and how many there are."""
    near = (table[:, 0].astype(np.int64) << 32) | table[:, 1]
    far = (table[:, 2].astype(np.int64) << 32) | table[:, 3]
    # Stable, by the lesser key first: in the end by all four sides. Numbers of classes follow places, not objects.
    order = np.argsort(far, kind="mergesort")
    order = order[np.argsort(near[order], kind="mergesort")]
    place, before = np.empty(len(table), np.int32), table.copy()
    last = -1
    for at in range(len(order)):
        i = order[at]
        if at and near[i] == near[order[at - 1]] and far[i] == far[order[at - 1]]:
            table[last, 5] += before[i, 5]
        else:
            last += 1
            table[last] = before[i]
        place[i] = last
    return place, last + 1


@compile_kernel
def _renumber(of: Int32, before: Int32, low: int, high: int) -> None:
    """Add to the classes of each instant how many those of earlier instants are."""
    for i in range(low, high):
        for t in range(of.shape[1]):
            if of[i, t] >= 0:
                of[i, t] += before[t]
