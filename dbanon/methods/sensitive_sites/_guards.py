"""Hides further subjects with a site's k: those who stand on it, and those whose exact place a guard forbids."""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from typing import Any

import numpy as np

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Int
from dbanon.methods.sensitive_sites._boxes import Boxes, Int32

_INFINITE_DISTANCE = np.int64(2**62)
_NEARER_FACTOR = 1 - 1e-13  # three cells of 0.3 m are not nearer than 0.9 m, whatever float64 makes of it


def bound_sites(subjects: Boxes, sites: Boxes, site: Int32) -> Boxes:
    """Bound each site and its subjects; `site` gives the site of each subject, or -1."""
    hidden = np.flatnonzero(site >= 0)
    low = [side.copy() for side in (sites.x0, sites.y0)]
    high = [side.copy() for side in (sites.x1, sites.y1)]
    for bound, side in zip(low, (subjects.x0, subjects.y0), strict=True):
        np.minimum.at(bound, site[hidden], side[hidden])
    for bound, side in zip(high, (subjects.x1, subjects.y1), strict=True):
        np.maximum.at(bound, site[hidden], side[hidden])
    return Boxes(x0=low[0], y0=low[1], x1=high[0], y1=high[1])


def add(
    subjects: Boxes, sites: Boxes, site_rank: Int, site: Int32, *, guard_m: float, cell_m: float, guard_inside: bool
) -> Int32:
    """Add subjects that no site has, until none is left who must not be published as they are.

    Parameters
    ----------
    site_rank : int64[m]
        Decides between sites equally near: the lowest.
    site : int32[n]
        Site of each subject, or -1.
    guard_m : float
        Subjects nearer than this to a site are added; those at distance 0 always.
    cell_m : float
        Side of a cell.
    guard_inside : bool
        Whether those whose cells meet a site's rectangle are added; it grows by them, so this is repeated.

    Returns
    -------
    int32[n]
        Site of each subject; one claimed by several sites is with the nearest.
    """
    by_x = np.argsort(subjects.x0, kind="stable")
    ordered, mine = subjects.take(by_x), site[by_x]
    widest = int((subjects.x1 - subjects.x0).max(initial=0))
    # Each round adds subjects until none is claimed: a site's rectangle grows by those it got, and may meet others.
    while True:
        box = bound_sites(ordered, sites, mine)
        nearest, claimed = np.full(len(mine), _INFINITE_DISTANCE, np.int64), np.full(len(mine), -1, np.int32)
        _claim(
            *ordered.columns, widest, mine, *sites.columns, *box.columns, site_rank, guard_m, cell_m, guard_inside,
            nearest, claimed,
        )  # fmt: skip
        new = claimed >= 0
        if not new.any():
            break
        mine[new] = claimed[new]
    found = np.empty_like(site)
    found[by_x] = mine
    return found


@compile_kernel
def _claim(
    x0: Any, y0: Any, x1: Any, y1: Any, widest: Any, mine: Any, sx0: Any, sy0: Any, sx1: Any, sy1: Any, bx0: Any,
    by0: Any, bx1: Any, by1: Any, rank: Any, guard_m: Any, cell_m: Any, inside: Any, nearest: Any, claimed: Any,
) -> None:  # fmt: skip
    """Let each site claim subjects; of those by x0 only a strip is looked at."""
    # In whole cells, rounded up: a strip too wide costs time, one too narrow would miss subjects.
    margin = np.int64(np.ceil(guard_m / cell_m))
    for s in range(len(sx0)):
        left, right = np.int64(sx0[s]) - margin, np.int64(sx1[s]) + margin
        if inside:
            left, right = min(left, np.int64(bx0[s])), max(right, np.int64(bx1[s]))
        for u in range(np.searchsorted(x0, left - widest), len(x0)):
            if x0[u] > right:
                break
            if mine[u] >= 0:
                continue
            dx = max(np.int64(0), np.int64(x0[u]) - sx1[s], np.int64(sx0[s]) - x1[u])
            dy = max(np.int64(0), np.int64(y0[u]) - sy1[s], np.int64(sy0[s]) - y1[u])
            # Squared distance: on each axis between the nearer sides, 0 where they overlap; exact, as it is below 2^62.
            away = dx * dx + dy * dy
            meets = inside and x0[u] <= bx1[s] and x1[u] >= bx0[s] and y0[u] <= by1[s] and y1[u] >= by0[s]
            if not (away == 0 or np.sqrt(np.float64(away)) * cell_m < guard_m * _NEARER_FACTOR or meets):
                continue
            # Whatever the order of the sites: the nearest one, of equally near ones that of the lowest rank.
            known = claimed[u]
            if away < nearest[u] or (away == nearest[u] and rank[s] < rank[known]):
                nearest[u], claimed[u] = away, s
