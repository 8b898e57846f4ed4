"""Hides further subjects with a site's k: those who stand on it, and those whose exact place a guard forbids."""

from typing import NamedTuple

import numpy as np

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Int, Int32, freeze_arrays
from dbanon.methods.sensitive_sites._boxes import Boxes

_INFINITE_DISTANCE = np.int64(2**62)
_NEARER_FACTOR = 1 - 1e-13  # three cells of 0.3 m are not nearer than 0.9 m, whatever float64 makes of it


def bound_sites(subjects: Boxes, sites: Boxes, site: Int32) -> Boxes:
    """Bound each site and its subjects; `site` gives the site of each subject, or -1."""
    hidden = np.flatnonzero(site >= 0)
    box = Boxes(*(side.copy() for side in sites))
    for extreme, bound, side in zip((np.minimum, np.minimum, np.maximum, np.maximum), box, subjects, strict=True):
        extreme.at(bound, site[hidden], side[hidden])
    return freeze_arrays(box)


class _Guard(NamedTuple):
    """Who must not be published as they are."""

    guard_m: float  # subjects nearer than this to a site
    cell_m: float  # side of a cell
    inside: bool  # whether also those whose cells meet a site's rectangle


class _Claims(NamedTuple):
    """The nearest site that claims each subject."""

    site: Int32  # [n]: -1 for none
    away: Int  # [n]: squared distance in cells


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
        claims = _Claims(np.full(len(mine), -1, np.int32), np.full(len(mine), _INFINITE_DISTANCE, np.int64))
        _claim(ordered, mine, widest, sites, box, site_rank, _Guard(guard_m, cell_m, guard_inside), claims)
        new = claims.site >= 0
        if not new.any():
            break
        mine[new] = claims.site[new]
    site_of = np.empty_like(site)
    site_of[by_x] = mine
    return site_of


@compile_kernel
def _claim(
    subjects: Boxes, mine: Int32, widest: int, sites: Boxes, box: Boxes, rank: Int, guard: _Guard, claims: _Claims
) -> None:
    """Let each site claim subjects, who come by x0 and are as wide as `widest` at most."""
    x0, y0, x1, y1 = subjects
    # In whole cells, rounded up: a strip too wide costs time, one too narrow would miss subjects.
    margin = np.int64(np.ceil(guard.guard_m / guard.cell_m))
    for s in range(len(sites.x0)):
        left, right = np.int64(sites.x0[s]) - margin, np.int64(sites.x1[s]) + margin
        if guard.inside:
            left, right = min(left, np.int64(box.x0[s])), max(right, np.int64(box.x1[s]))
        # Who begins further left than by the widest subject ends before the strip; from `right` on all begin behind it.
        for u in range(np.searchsorted(x0, left - widest), len(mine)):
            if x0[u] > right:
                break
            if mine[u] >= 0:
                continue
            dx = max(np.int64(0), np.int64(x0[u]) - sites.x1[s], np.int64(sites.x0[s]) - x1[u])
            dy = max(np.int64(0), np.int64(y0[u]) - sites.y1[s], np.int64(sites.y0[s]) - y1[u])
            # Squared distance: on each axis between the nearer sides, 0 where they overlap; exact, as it is below 2^62.
            away = dx * dx + dy * dy
            meets = guard.inside and x0[u] <= box.x1[s] and x1[u] >= box.x0[s]
            meets = meets and y0[u] <= box.y1[s] and y1[u] >= box.y0[s]
            near = np.sqrt(np.float64(away)) * guard.cell_m < guard.guard_m * _NEARER_FACTOR
            if not (away == 0 or near or meets):
                continue
            # Whatever the order of the sites: the nearest one, of equally near ones that of the lowest rank.
            if away < claims.away[u] or (away == claims.away[u] and rank[s] < rank[claims.site[u]]):
                claims.away[u], claims.site[u] = away, s
