"""What the paper compares Traj-anon with, as algorithms of the family tp-aware.

Deutsch, Hull, Vyas, Zhao: Trajectory and Policy Aware Sender Anonymity in Location Based Services, 2012, section 5.2.
A function of `GROUPS` takes cells ``int32[n, l]``, the height of their root and k. It returns `members` int32[n], group
by group, and `offset` int64[R + 1]. Invariant: every trajectory is in one group of k or more.

The paper leaves choices open. Its random first subject is the first one left, because the adversary knows the groups
anyway. Areas are one cell at least, and the first of equals is taken. The fewer than k at the end of both TGA each join
the group that they make least more expensive. The curve of `hilbert` separates all cells, by fours if a sum would not
fit 63 bits.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.papers.tp_aware import condensation, hilbert
from dbanon.methods.tp_aware import _binary_us_tree, _bundles


def _group_by_bulk_dp(x: Any, y: Any, levels: int, k: int) -> Any:
    """Group as the optimum of the first snapshot does: the tree of one instant."""
    x, y = (np.ascontiguousarray(v[:, :1]) for v in (x, y))
    order, node = _binary_us_tree.build(x, y, levels, k)
    area = _binary_us_tree.compute_areas(node[:, 2], 1, levels)
    passed, kept, _ = _binary_us_tree.find_best_configuration(node, area, k)
    members, offset, _ = _binary_us_tree.assign(x, y, order, node, passed, kept)
    return members, offset


def _group_by_fast_tga(x: Any, y: Any, levels: int, k: int) -> Any:
    return _list_members(condensation.make_clusters(x, y, k, slow=False))


def _group_by_slow_tga(x: Any, y: Any, levels: int, k: int) -> Any:
    return _list_members(condensation.make_clusters(x, y, k, slow=True))


def _group_by_hilbert(x: Any, y: Any, levels: int, k: int) -> Any:
    return _list_members(hilbert.group(x, y, levels, k))


def _list_members(group: Any) -> Any:
    """List the members of numbered groups."""
    members = np.argsort(group, kind="stable").astype(np.int32)
    first = np.flatnonzero(np.diff(group[members], prepend=-1))
    return members, np.append(first, len(members)).astype(np.int64)


GROUPS: dict[str, Callable[[Any, Any, int, int], Any]] = {
    "bulk-dp": _group_by_bulk_dp,
    "fast-tga": _group_by_fast_tga,
    "slow-tga": _group_by_slow_tga,
    "hilbert": _group_by_hilbert,
}


def _make_bundles(group: Callable[[Any, Any, int, int], Any], x: Any, y: Any, levels: int, k: int) -> _bundles.Bundles:
    """Give groups the smallest quadrants that hold them."""
    members, offset = group(x, y, levels, k)
    box = find_smallest_quadrants(_binary_us_tree.bound_bundles(x, y, members, offset))
    cost = (_bundles.count_cells(box).sum(axis=1) * np.diff(offset)).sum()
    return _bundles.Bundles(members=members, offset=offset, quadrants=box, quadrant_cost=float(cost))


def find_smallest_quadrants(tight: Any) -> Any:
    """Find the smallest (semi-)quadrants that hold rectangles: half-open int64[..., 4] in cells, of each its own."""
    low, last = tight[..., :2].astype(np.int64), tight[..., 2:].astype(np.int64) - 1
    bits = np.frexp((low ^ last).astype(np.float64))[1].astype(np.int64)  # the low bits in which corners differ
    high = bits.max(axis=-1)
    # x is halved first: a semi-quadrant is half as wide as it is high.
    wide = np.where(bits[..., 0] < high, high - 1, high)
    bits = np.stack([wide, high], axis=-1)
    corner = low >> bits << bits
    return np.concatenate([corner, corner + (np.int64(1) << bits)], axis=-1)


_bundles.ALGORITHMS.update({name: functools.partial(_make_bundles, group) for name, group in GROUPS.items()})
