"""What each published region is and holds: whole cells, and with each cell its points of interest.

PostGIS counts these anew, from the cells' polygons: a region has the points of whole cells, or is refused.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.attacks.semantic._run_statements import MM2_PER_M2, Rules
from dbanon.attacks.semantic.evidence import RegionEvidence
from dbanon.attacks.shared.keys import find, sort_distinct
from dbanon.base.trajectory import Bool, Cells, Float, Int

_SLIVER_M2 = 1.0
_MISFIT_M2 = 1.0  # by which a region's area may differ from that of its cells
_MISFIT_SHARE = 1e-6  # of the area, where that is more
_SLACK_NATS = 1e-9  # of comparisons with t


@dataclass(frozen=True, kw_only=True, eq=False)
class Regions:
    """What is found of each region."""

    # Region and cell of each cell that a region holds, sorted: region times the number of cells, plus the cell.
    key: Int  # [h]
    width: int  # number of cells
    low: Int  # [r + 1]: cells of region i are ``[low[i], low[i + 1])``
    cell: NDArray[np.int32]  # [h]: the cells of `key`
    # Whether it is a valid MultiPolygon of whole cells, in one piece or several, and small enough to be published.
    sound: Bool  # [r]
    told: Bool  # [r]: whether its row says how many categories there are, and nothing else
    categories: Int  # [r]
    kl: Float  # [r]: how far its points of interest are from the city's; infinite where there are none

    def hold(self, region: Int, cell: Int) -> Bool:
        """Say whether each region holds a cell."""
        if not len(self.key):
            return np.zeros(len(region), bool)
        return find(self.key, region * self.width + cell) >= 0


def measure_regions(evidence: RegionEvidence, rules: Rules) -> Regions:
    """Look at each region once."""
    cells, number = evidence.cells, len(evidence.region_no)
    width = len(cells.cell_id)
    key = sort_distinct(evidence.held_region * width + evidence.held_cell)
    region, cell = key // width, (key % width).astype(np.int32)
    low = np.searchsorted(region, np.arange(number + 1))
    pois = count_pois(region, cell, cells, number)
    own_mm2 = np.rint(cells.area_m2 * MM2_PER_M2).astype(np.int64)
    area_mm2 = np.zeros(number, np.int64)
    np.add.at(area_mm2, region, own_mm2[cell])
    area_m2 = area_mm2 / MM2_PER_M2
    sound = evidence.region_several & evidence.region_valid & (evidence.region_least_m2 >= _SLIVER_M2)
    sound |= _mark_small_regions(evidence, area_m2)
    misfit_m2 = np.abs(evidence.region_area_m2 - area_m2)
    whole = ~evidence.region_split & (misfit_m2 <= np.maximum(_MISFIT_M2, _MISFIT_SHARE * area_m2))
    sound &= whole & (np.diff(low) > 0) & (evidence.region_srid == evidence.trajectories.srid)
    categories = (pois > 0).sum(axis=1)
    return Regions(
        key=key,
        width=width,
        low=low,
        cell=cell,
        sound=sound & (area_m2 <= rules.largest_m2),
        told=(evidence.region_other_keys == 0) & (evidence.region_categories == categories),
        categories=categories,
        kl=measure_divergence(pois, cells.pois.sum(axis=0)),
    )


def _mark_small_regions(evidence: RegionEvidence, area_m2: Float) -> Bool:
    """Say which regions are less than a square metre themselves: one part without a hole is no sliver then."""
    alone = (evidence.region_parts == 1) & (evidence.region_holes == 0) & (area_m2 < _SLIVER_M2)
    return np.asarray(evidence.region_several & evidence.region_valid & alone)


def count_pois(region: Int, cell: NDArray[np.integer], cells: Cells, number: int) -> Int:
    """Count the points of interest of each region, or of each of other sets of cells, by category: int64[r, q]."""
    counts = [np.bincount(region, of_cells[cell], number) for of_cells in cells.pois.T]
    return np.stack(counts, axis=1).astype(np.int64) if counts else np.zeros((number, 0), np.int64)


def measure_divergence(pois: Int | Float, city: Int) -> Float:
    """Measure the Kullback-Leibler divergence (natural logarithm) of places from the city; infinite without any point.

    Parameters
    ----------
    pois : int64[r, q] or float64[r, q]
    city : int64[q]
    """
    total = pois.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = pois / total
        terms = np.where(pois > 0, share * np.log(share / (city / city.sum())), 0.0)
    return np.where(total[:, 0] > 0, terms.sum(axis=1), np.inf)


def mark_revealing(categories: Int, kl: Float, least: int, t: float) -> Bool:
    """Say which places tell a function: of fewer categories than `least`, or too far from the city."""
    return (categories < least) | is_far(kl, t)


def is_far(kl: Float, t: float) -> Bool:
    """Say which places are further from the city than t."""
    return kl > t + _SLACK_NATS
