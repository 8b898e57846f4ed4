"""Finds the cell that each fix lies in."""

import numpy as np
import shapely

from dbanon.base.trajectory import Int, Trajectories
from dbanon.postgres import arrow


def find_fix_cells(snapshot: arrow.Snapshot, dataset_id: int, data: Trajectories) -> Int:
    """Find the index of the cell of each fix, -1 outside all."""
    own = snapshot.postgis
    query = f"""SELECT {own}.ST_AsBinary(geom, 'NDR') AS shape FROM ONLY dbanon.cell
        WHERE dataset_id = {int(dataset_id)} ORDER BY cell_id"""
    polygons = shapely.from_wkb(arrow.read_table(snapshot, query)["shape"].to_numpy())
    shapely.prepare(polygons)
    order = np.argsort(data.x)
    x, y = data.x[order], data.y[order]
    sorted_cells = np.full(len(order), -1, np.int64)
    # An index that is asked once for each fix takes ten times as long: here each cell asks for the fixes around it.
    for cell, (polygon, (west, south, east, north)) in enumerate(zip(polygons, shapely.bounds(polygons), strict=True)):
        low, high = np.searchsorted(x, west, "left"), np.searchsorted(x, east, "right")
        near = low + np.flatnonzero((y[low:high] >= south) & (y[low:high] <= north) & (sorted_cells[low:high] < 0))
        sorted_cells[near[shapely.intersects_xy(polygon, x[near], y[near])]] = cell
    cells = np.empty_like(sorted_cells)
    cells[order] = sorted_cells
    return cells
