"""What the attack on generalised regions looks at beside the rows: the polygons, and which cells and PoIs they hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dbanon.attacks import Bool, Evidence, Source
from dbanon.attacks.semantic._outlines import made_of
from dbanon.trajectory import Cells, Float, Int


@dataclass(frozen=True, kw_only=True, eq=False)
class RegionEvidence(Evidence):
    """What a run of generalised regions leaves: beside the rows, what PostGIS finds of the polygons as they are stored.

    Attributes
    ----------
    cells : Cells
        Read anew from the database.
    region_several, region_valid : bool[r]
        Whether the region is a MultiPolygon of two dimensions, and whether it is valid.
    region_area_m2 : float64[r]
    region_parts, region_holes : int[r]
    region_least_m2 : float64[r]
        The least area of a part or hole.
    region_categories : int[r]
        How many categories the row says are in it; -1 where it says no number.
    held_region, held_cell : int64[h]
        Which cells lie in which regions, by index: those that add up to the region, else those of which a point on the
        surface is in it.
    held_complete : bool[h]
        Whether all points of interest of the cell are in the polygon; else those that are stand in `found_pois`.
    split_region : int64[s]
        Index of a region that holds a part of a cell, once a cell.
    found_region, found_category, found_pois : int64[f]
        How many points of interest of a category, by index, a region holds beside those of complete cells.
    """

    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **Evidence.tables,
        "region": (
            *Evidence.tables["region"],
            *("several", "valid", "area_m2", "parts", "holes", "least_m2", "categories"),
        ),
        "held": ("region", "cell", "complete"),
        "split": ("region",),
        "found": ("region", "category", "pois"),
    }

    cells: Cells
    region_several: Bool
    region_valid: Bool
    region_area_m2: Float
    region_parts: NDArray[np.integer]
    region_holes: NDArray[np.integer]
    region_least_m2: Float
    region_categories: NDArray[np.integer]
    held_region: Int
    held_cell: Int
    held_complete: Bool
    split_region: Int
    found_region: Int
    found_category: Int
    found_pois: Int


def read(evidence: Evidence, source: Source) -> RegionEvidence:
    """Read the cells, what PostGIS finds of each polygon, and which cells and points of interest lie in it."""
    cells = source.inputs("cells")["cells"]
    polygons = source.table("polygon_evidence")
    order = np.argsort(polygons["region_no"])
    chosen = order[np.searchsorted(polygons["region_no"][order], evidence.region_no)]
    outlines = source.batches("outline_evidence") if len(cells.cell_id) else ()
    made, number, cell = made_of(source.table("cell_evidence"), outlines)
    # What is not so simple is looked at as polygons, by two sessions at once.
    other = np.setdiff1d(polygons["region_no"], made)
    held = source.table("held_evidence", other[::2], other[1::2])
    region = evidence.regions(held["region_no"])
    used = (region >= 0) & (held["category"] == 0)
    holds = used & held["held"]
    of_made = np.repeat(evidence.regions(made), number)
    columns = ("several", "valid", "area_m2", "parts", "holes", "least_m2", "categories")
    return evidence.extended(
        RegionEvidence,
        cells=cells,
        **{f"region_{name}": polygons[name][chosen] for name in columns},
        held_region=np.concatenate([of_made[of_made >= 0], region[holds]]),
        held_cell=np.concatenate([cell[of_made >= 0], np.searchsorted(cells.cell_id, held["cell_id"][holds])]),
        # Points of interest go with the cells: what millimetres of an outline take in or cut off counts for nothing.
        held_complete=np.ones(int((of_made >= 0).sum()) + int(holds.sum()), bool),
        split_region=region[used & held["split"]],
        found_region=np.empty(0, np.int64),
        found_category=np.empty(0, np.int64),
        found_pois=np.empty(0, np.int64),
    )
