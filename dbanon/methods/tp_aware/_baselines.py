"""The algorithms that the paper compares Traj-anon with, as groups of trajectories.

Deutsch, Hull, Vyas, Zhao: Trajectory and Policy Aware Sender Anonymity in Location Based Services, 2012, section 5.2.
Each takes cells ``int32[n, l]``, the height of their root and k, and returns `members` int32[n], group by group, and
`offset` int64[R + 1]. Invariant: every trajectory is in one group of k or more.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dbanon.methods.tp_aware import _binary_us_tree, _condensation, _hilbert


def _bulk_dp(x: Any, y: Any, levels: int, k: int) -> Any:
    """Group as the optimum of the first snapshot does: the tree of one instant."""
    x, y = (np.ascontiguousarray(v[:, :1]) for v in (x, y))
    order, node = _binary_us_tree.build(x, y, levels, k)
    area = _binary_us_tree.areas(node[:, 2], 1, levels)
    passed, kept, _ = _binary_us_tree.best_configuration(node, area, k)
    members, offset, _ = _binary_us_tree.assign(x, y, order, node, passed, kept)
    return members, offset


def _fast_tga(x: Any, y: Any, levels: int, k: int) -> Any:
    return _listed(_condensation.clusters(x, y, k, slow=False))


def _slow_tga(x: Any, y: Any, levels: int, k: int) -> Any:
    return _listed(_condensation.clusters(x, y, k, slow=True))


def _by_hilbert(x: Any, y: Any, levels: int, k: int) -> Any:
    return _listed(_hilbert.group(x, y, levels, k))


def _listed(group: Any) -> Any:
    """List the members of numbered groups."""
    members = np.argsort(group, kind="stable").astype(np.int32)
    first = np.flatnonzero(np.diff(group[members], prepend=-1))
    return members, np.append(first, len(members)).astype(np.int64)


GROUPS: dict[str, Callable[[Any, Any, int, int], Any]] = {
    "bulk-dp": _bulk_dp,
    "fast-tga": _fast_tga,
    "slow-tga": _slow_tga,
    "hilbert": _by_hilbert,
}
