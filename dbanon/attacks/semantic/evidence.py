"""What the attack on generalised regions looks at beside the rows: polygons, the cells they hold, and atoms."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dbanon.attacks import Evidence, Source
from dbanon.base.trajectory import Bool, Cells, Float, Int


@dataclass(frozen=True, kw_only=True, eq=False)
class RegionEvidence(Evidence):
    """What a run of generalised regions leaves: beside the rows, what PostGIS finds of the stored polygons."""

    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **Evidence.tables,
        "region": (
            *Evidence.tables["region"],
            *("several", "valid", "area_m2", "parts", "holes", "least_m2", "categories", "split"),
        ),
        "held": ("region", "cell"),
    }

    cells: Cells  # read anew from the database
    # bool[r]; region_several, region_valid: whether the region is a MultiPolygon of two dimensions, and whether it is
    # valid
    region_several: Bool
    region_valid: Bool
    region_area_m2: Float  # float64[r]
    region_parts: NDArray[np.integer]
    region_holes: NDArray[np.integer]
    region_least_m2: Float  # float64[r]: the least area of a part or hole
    # int[r]: how many categories the row says are in it; -1 where it says no number
    region_categories: NDArray[np.integer]
    region_split: Bool  # bool[r]: whether the region is not, to the millimetre, the union of the cells that it holds
    atom: Int  # int64[c]: the number of the atom that the run stored for each cell; -1 where it stored none
    # int64[h]; held_region, held_cell: which cells lie in which regions, by index: those that add up to the region,
    # else those of which a point on the surface is in it
    held_region: Int
    held_cell: Int


def read(evidence: Evidence, source: Source) -> RegionEvidence:
    """Read the cells and their atoms, what PostGIS finds of each polygon, and which cells lie in it."""
    from dbanon.attacks.semantic._outlines import build_outlines  # with Numba

    cells, atoms = source.read_inputs("cells")["cells"], source.read_table("gather_atom_evidence")
    atom = np.full(len(cells.cell_id), -1)
    known = np.isin(atoms["cell_id"], cells.cell_id)
    atom[np.searchsorted(cells.cell_id, atoms["cell_id"][known])] = atoms["atom"][known]
    polygons = source.read_table("gather_polygon_evidence")
    order = np.argsort(polygons["region_no"])
    chosen = order[np.searchsorted(polygons["region_no"][order], evidence.region_no)]
    outlines = source.read_batches("gather_outline_evidence") if len(cells.cell_id) else ()
    made, number, cell = build_outlines(source.read_table("gather_cell_evidence"), outlines)
    # What is not so simple is looked at as polygons, by two sessions at once.
    other = np.setdiff1d(polygons["region_no"], made)
    held = source.read_table_in_parts("gather_held_evidence", other[::2], other[1::2])
    region, of_made = evidence.find_regions(held["region_no"]), np.repeat(evidence.find_regions(made), number)
    holds, used = region >= 0, of_made >= 0
    columns = ("several", "valid", "area_m2", "parts", "holes", "least_m2", "categories")
    return evidence.extend(
        RegionEvidence,
        cells=cells,
        atom=atom,
        **{f"region_{name}": polygons[name][chosen] for name in columns},
        region_split=np.isin(np.arange(len(evidence.region_no)), region[held["split"]]),
        held_region=np.concatenate([of_made[used], region[holds]]),
        held_cell=np.concatenate([cell[used], np.searchsorted(cells.cell_id, held["cell_id"][holds])]),
    )
