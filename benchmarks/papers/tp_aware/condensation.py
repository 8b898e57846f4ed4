"""Clusters of k trajectories around a first one, by the logarithms of the areas that hold them (fast and slow TGA).

Deutsch, Hull, Vyas, Zhao: Trajectory and Policy Aware Sender Anonymity in Location Based Services, 2012, section 5.2,
after Nergiz, Atzori, Saygin: Towards Trajectory Anonymization: a Generalization-Based Approach, SPRINGL 2008. The cost
of a cluster is the sum over the instants of the logarithm of the area, in cells, of the rectangle that holds its
members. Invariant: clusters are disjoint, hold all trajectories and k or more each.

A sum of logarithms is compared as the product of the areas, which has no rounding that depends on a machine's
logarithm: an int64 whose upper 20 bits are the product's exponent and whose lower 43 are its leading binary digits.
Areas and quotients that are equal give equal numbers.
"""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

import math
from typing import Any

import numpy as np

from dbanon.base.kernels import compile_kernel
from dbanon.methods.tp_aware import _binary_us_tree

_FACTORS_PER_CHUNK = 8  # areas of 2^60 cells whose product is a float64
_MANTISSA_STEPS = 2.0**43


def make_clusters(x: Any, y: Any, k: int, *, slow: bool) -> Any:
    """Take the first trajectory left with k - 1 more, until fewer than k are left.

    Parameters
    ----------
    x, y : int32[n, l]
        Cells; n >= k >= 2, l <= 10,000.
    k : int
    slow : bool
        Whether those are added, one after another, that let the cluster cost least (multi TGA); else those are whose
        distance to the first is least (fast TGA): the cost of the two.

    Returns
    -------
    int64[n]
        The cluster of each trajectory.

    Notes
    -----
    Equal costs: the lesser trajectory. The fewer than k left over join, one after another, the cluster whose cost they
    raise least, of equals the first one. O(n^2 l / k), and the members' costs that have to be computed again.
    """
    n, number = len(x), len(x) // k
    members, left, taken = np.empty(number * k, np.int32), np.arange(n, dtype=np.int32), np.zeros(n, np.bool_)
    heap = np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.int32)
    _gather(x, y, k, slow, left, taken, *heap, np.empty((x.shape[1], 4), np.int32), members)
    cluster = np.full(n, -1)
    cluster[members] = np.arange(len(members)) // k
    boxes = _binary_us_tree.bound_bundles(x, y, members, np.arange(0, len(members) + 1, k))
    boxes[..., 2:] -= 1
    _join(x, y, np.flatnonzero(cluster < 0), boxes, cluster)
    return cluster


@compile_kernel
def _gather(
    x: Any, y: Any, k: Any, slow: Any, left: Any, taken: Any, who: Any, cost: Any, stamp: Any, box: Any, members: Any
) -> None:
    """Write cluster after cluster into `members`."""
    waiting, done = len(left), 0
    # Kept true: left[:waiting] are in no cluster, ascending; members[:done] are `taken`, cluster by cluster.
    while waiting >= k:
        first = left[0]
        members[done] = first
        for j in range(x.shape[1]):
            box[j, 0] = box[j, 2] = x[first, j]
            box[j, 1] = box[j, 3] = y[first, j]
        heaped = waiting - 1
        for p in range(heaped):
            who[p] = left[p + 1]
            cost[p], stamp[p] = _compute_distance(x, y, who[p], first), 1
        for p in range(heaped // 2 - 1, -1, -1):
            _sink(cost, who, stamp, heaped, p)
        size = 1
        # Kept true: the heap's costs are those with the cluster when it had `stamp` members. It only grows, so they
        # are never more than today's, and a cost of today on top is the least of all.
        while size < k:
            if slow and stamp[0] < size:
                cost[0], stamp[0] = _compute_cost(x, y, who[0], box, False), size
                _sink(cost, who, stamp, heaped, 0)
                continue
            members[done + size] = who[0]
            if slow:
                _stretch(x, y, who[0], box)
            size += 1
            heaped -= 1
            cost[0], who[0], stamp[0] = cost[heaped], who[heaped], stamp[heaped]
            _sink(cost, who, stamp, heaped, 0)
        for p in range(done, done + k):
            taken[members[p]] = True
        done += k
        waiting = _drop(left, waiting, taken)


@compile_kernel
def _drop(left: Any, waiting: Any, taken: Any) -> Any:
    """Keep those of a list that are not taken, in their order; how many they are."""
    kept = 0
    for p in range(waiting):
        if not taken[left[p]]:
            left[kept] = left[p]
            kept += 1
    return kept


@compile_kernel
def _sink(cost: Any, who: Any, stamp: Any, size: Any, at: Any) -> None:
    """Let an entry of the heap sink to its place; the least cost is on top, of equals the lesser trajectory."""
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and _is_before(cost, who, below + 1, below):
            below += 1
        if not _is_before(cost, who, below, at):
            break
        cost[at], cost[below] = cost[below], cost[at]
        who[at], who[below] = who[below], who[at]
        stamp[at], stamp[below] = stamp[below], stamp[at]
        at = below


@compile_kernel
def _is_before(cost: Any, who: Any, a: Any, b: Any) -> Any:
    return cost[a] < cost[b] or (cost[a] == cost[b] and who[a] < who[b])


@compile_kernel
def _compute_distance(x: Any, y: Any, a: Any, b: Any) -> Any:
    """The product of the areas of the rectangles that hold two trajectories: their cost as a cluster, sooner."""
    one_x, one_y, two_x, two_y = x[a], y[a], x[b], y[b]
    exponent, product = 0, 1.0
    for first in range(0, len(one_x), _FACTORS_PER_CHUNK):
        for j in range(first, min(first + _FACTORS_PER_CHUNK, len(one_x))):
            wide = abs(np.float64(one_x[j]) - np.float64(two_x[j])) + 1.0
            high = abs(np.float64(one_y[j]) - np.float64(two_y[j])) + 1.0
            product *= wide * high
        product, more = math.frexp(product)
        exponent += more
    return _encode_number(exponent, product)


@compile_kernel
def _compute_cost(x: Any, y: Any, i: Any, box: Any, growth: Any) -> Any:
    """The product of the areas of the rectangles with a trajectory in them; with `growth`, over those without."""
    exponent, product = 0, 1.0
    for first in range(0, len(box), _FACTORS_PER_CHUNK):
        for j in range(first, min(first + _FACTORS_PER_CHUNK, len(box))):
            wide = max(box[j, 2], x[i, j]) - min(box[j, 0], x[i, j]) + 1.0
            high = max(box[j, 3], y[i, j]) - min(box[j, 1], y[i, j]) + 1.0
            area = wide * high
            if growth:
                area /= (box[j, 2] - box[j, 0] + 1.0) * (box[j, 3] - box[j, 1] + 1.0)
            product *= area
        product, more = math.frexp(product)
        exponent += more
    return _encode_number(exponent, product)


@compile_kernel
def _encode_number(exponent: Any, product: Any) -> Any:
    # Rounded: quotients that are equal may differ in the last of their 53 digits.
    return np.int64(exponent) * np.int64(_MANTISSA_STEPS) + np.int64(np.rint((2 * product - 1) * _MANTISSA_STEPS))


@compile_kernel
def _stretch(x: Any, y: Any, i: Any, box: Any) -> None:
    for j in range(len(box)):
        box[j, 0], box[j, 2] = min(box[j, 0], x[i, j]), max(box[j, 2], x[i, j])
        box[j, 1], box[j, 3] = min(box[j, 1], y[i, j]), max(box[j, 3], y[i, j])


@compile_kernel
def _join(x: Any, y: Any, rest: Any, boxes: Any, cluster: Any) -> None:
    """Put each of the rest into the cluster whose cost it raises least."""
    for p in range(len(rest)):
        best, least = 0, np.int64(0x7FFFFFFFFFFFFFFF)
        for c in range(len(boxes)):
            cost = _compute_cost(x, y, rest[p], boxes[c], True)
            if cost < least:
                best, least = c, cost
        cluster[rest[p]] = best
        _stretch(x, y, rest[p], boxes[best])
