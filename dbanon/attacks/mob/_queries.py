"""How far counts of rows in random rectangles are from those of people: the paper's range query distortion."""

from typing import Any

import numpy as np

from dbanon.attacks.mob._rows import Positions
from dbanon.attacks.mob.evidence import ObjectEvidence
from dbanon.attacks.shared.rectangles import find_region_cells
from dbanon.attacks.shared.replay import Timetable
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Float, Int


def measure_distortion(evidence: ObjectEvidence, at: Positions, times: Timetable) -> dict[str, float]:
    """Compare what queries find in the rows with how many people were in the rectangle at the instant, on average.

    0/0 is 0, and anything else by 0 as if by 1.
    """
    instant = times.find_instant(evidence.query_start_s)
    cells, on_grid = find_region_cells(evidence.query_bounds, evidence.trajectories.grid_m)
    sane = (instant >= 0) & on_grid
    cells = (cells - np.array(at.origin * 2))[sane]
    inside = count_people_inside(at, instant[sane], cells)
    possibly, definitely = evidence.query_possibly[sane], evidence.query_definitely[sane]
    return {
        "possibly_inside_distortion": _compute_mean(np.abs(inside - possibly) / np.maximum(possibly, 1)),
        "definitely_inside_distortion": _compute_mean(np.abs(inside - definitely) / np.maximum(inside, 1)),
    }


def count_people_inside(at: Positions, instant: Int, cells: Int) -> Int:
    """Count who is where: int64[j].

    Parameters
    ----------
    instant : int64[j]
    cells : int64[j, 4]
        Least x, least y, greatest x, greatest y, counted from the positions' origin, all inside.
    """
    number = np.zeros(len(instant), np.int64)
    for t in np.unique(instant):
        # A column at a time, copied: positions lie by person, and each query reads all people of one instant.
        some = np.flatnonzero(instant == t)
        x, y = np.ascontiguousarray(at.x[:, t]), np.ascontiguousarray(at.y[:, t])
        number[some] = _count(x, y, np.ascontiguousarray(cells[some]))
    return number


@compile_kernel
def _count(x: Any, y: Any, cells: Any) -> Any:
    number = np.zeros(len(cells), np.int64)
    for q in range(len(cells)):
        x0, y0, x1, y1 = cells[q]
        for i in range(len(x)):
            number[q] += x[i] >= 0 and x0 <= x[i] <= x1 and y0 <= y[i] <= y1
    return number


def _compute_mean(values: Float) -> float:
    return float(values.mean()) if len(values) else 0.0
