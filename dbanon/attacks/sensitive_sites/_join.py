"""Joins published rows with sensitive sites, as Definition 1 does: who an adversary finds nearest to each.

Every site's rectangle holds it, so the least distance is 0 or the attack refuses. Nobody further away has to be looked
for, except exact rows that the guard keeps away. Invariant: every pair that counts is found, because the tree is asked
for a cell more than the guard reaches, and whole numbers of cells decide.
"""

from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from dbanon.attacks import Evidence
from dbanon.attacks.shared.keys import sort_distinct
from dbanon.attacks.shared.replay import join_ranges
from dbanon.base.trajectory import Bool, Float, Int, Sites

_ENDLESS_CELLS = 1e300
_FARTHEST_M = 1e12
"""No guard reaches further: beyond it a run's parameter is a mistake, which the attack refuses."""


def join(evidence: Evidence, hidden: Bool, sites: Sites) -> dict[str, NDArray[Any]]:
    """Find the pairs of `SiteEvidence`: its columns by name. `hidden`: of each region, whether it is no exact place."""
    grid_m, guard_m = evidence.trajectories.grid_m, _read_guard_m(evidence.params.get("guard_m"))
    # The first site stands for all in its cells: there may be thousands, and as many rectangles that hold them.
    cells, first = np.unique(np.floor(sites.site_bounds / grid_m), axis=0, return_index=True)
    sides = np.rint(evidence.region_bounds / grid_m) - np.array([0, 0, 1, 1])
    region, site = _find_near(sides, np.where(hidden, 0, guard_m / grid_m + 1), cells)
    # How many cells lie from one rectangle to the other.
    own, other = sides[region], cells[site]
    apart = np.maximum(0, np.maximum(own[:, :2] - other[:, 2:], other[:, :2] - own[:, 2:]))
    squared = (apart * apart).sum(axis=1)
    met = (squared == 0) | (~hidden[region] & (np.sqrt(squared) * grid_m < guard_m))
    of, pair, rows = _count_shown_rows(evidence, hidden, region[met])
    return {
        "pair_site": sites.site_id[first[site[met][pair]]],
        "pair_cloaked": hidden[of],
        "pair_rows": rows,
        "pair_squared": squared[met][pair],
    }


def _read_guard_m(given: object) -> float:
    """Read the run's guard as far as it is a length: `read_rules` refuses others."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        return 0.0
    return float(min(max(given, 0), _FARTHEST_M))


def _find_near(sides: Float, reach: Float, cells: Float) -> tuple[Int, Int]:
    """Find pairs of regions and sites whose rectangles meet, the former's with so many cells around it."""
    known = np.flatnonzero(~np.isnan(sides).any(axis=1))
    around = sides[known] + np.array([-1, -1, 1, 1]) * reach[known, None]
    tree = shapely.STRtree(shapely.box(*cells.T))
    region, site = tree.query(shapely.box(*np.clip(around, -_ENDLESS_CELLS, _ENDLESS_CELLS).T))
    return known[region], site


def _count_shown_rows(evidence: Evidence, hidden: Bool, region: Int) -> tuple[Int, Int, Int]:
    """Count the rows that show the regions of some pairs: of each, one of these regions, its pair, and how many.

    What an analyst can distinguish is not shared: rows are counted together whose region has the same bytes, if they
    are of one period. A region that is not its own envelope is refused, and counts by itself.
    """
    few = sort_distinct(region)
    odd = np.where(evidence.region_rectangle[few], -1, few)
    bits = np.ascontiguousarray(evidence.region_bounds[few]).view(np.int64)
    told = np.column_stack([bits, evidence.region_srid[few], hidden[few], odd])
    _, one, kind = np.unique(told, axis=0, return_index=True, return_inverse=True)
    kind_of = np.full(len(evidence.region_no), -1)
    kind_of[few] = kind.ravel()
    _, when = np.unique(np.column_stack([evidence.period_start_s, evidence.period_end_s]), axis=0, return_inverse=True)
    shown = np.flatnonzero(kind_of[evidence.region] >= 0)
    periods = max(len(evidence.period_start_s), 1)
    told_at, rows = np.unique(
        kind_of[evidence.region[shown]] * periods + when.ravel()[evidence.period[shown]], return_counts=True
    )
    # Pairs of one of the regions that are alike stand for those of all.
    pair = np.flatnonzero(region == few[one][kind_of[region]])
    first = np.searchsorted(told_at, kind_of[region[pair]] * periods)
    number = np.searchsorted(told_at, (kind_of[region[pair]] + 1) * periods) - first
    pair = np.repeat(pair, number)
    return region[pair], pair, rows[join_ranges(first, number)]
