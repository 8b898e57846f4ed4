"""Subjects at one instant, and sites, as rectangles of cells in the order of a Hilbert curve."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.base.errors import DataError, ParameterError, format_count
from dbanon.base.trajectory import Float, Int, Sites, Trajectories
from dbanon.methods.kernels import align, hilbert
from dbanon.methods.kernels.in_run_time import select_fixes
from dbanon.methods.sensitive_sites._boxes import Boxes

MAX_SIDE_CELLS = 2**30
"""Cells between any two subjects or sites, on either axis: differences then fit int32."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """Where subjects are in the snapshot."""

    trajectory: Int  # [n]: index, in the dataset, of the trajectory that supplies the position
    bounds: Float  # [n, 4]: metres; without extent where a subject is a point
    start: int  # start, end: the snapshot's period, unix seconds
    end: int
    absent: int  # subjects seen in the hour of the snapshot, without a position in it


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
    """What the algorithms work on."""

    subjects: Boxes  # subjects, sites: in the order of the curve, cells relative to `root`
    sites: Boxes
    trajectory: Int  # [n]: index, in the dataset, of each subject's trajectory
    by_rank: Int  # [n]: the subjects in the order of the run
    site_rank: Int  # [m]: place of each site in the order of the sites' ids
    root: Float  # [2]: the least cell of all
    cell_m: float  # side of a cell
    domain: int  # cells in the bounding box of subjects and sites
    absent: int  # as in `Seen`


def select_hour(data: Trajectories, at: int | None, max_gap_s: int) -> Trajectories:
    """Keep the fixes of the hour (UTC) of an instant, and those that give a position at it.

    Who is not seen in that hour is not left out of its snapshot: a dataset may hold many evenings.
    """
    if at is None:
        return data
    # Older fixes of up to `max_gap_s` may give a position. Later ones in the hour only say that the subject was seen.
    hour, slot = at // 3600 * 3600, np.floor(data.t / data.grid_s) * data.grid_s
    return select_fixes(data, (slot >= min(hour, at - max_gap_s)) & (slot < hour + 3600))


def find_subjects(data: Trajectories, sites: Sites, at: int | None, max_gap_s: int) -> Seen:
    """Find where subjects are: at an instant, or anywhere if each has one fix only.

    Raises `ParameterError` if a subject has several fixes and no instant is given, or it is no slot of the dataset.
    """
    if at is None:
        return _take_only_fixes(data, sites)
    if at % data.grid_s:
        raise ParameterError(
            f"The 'at' parameter of sensitive-sites must be a multiple of the dataset's grid_s, {data.grid_s} s. Got "
            f"another time. Choose the start of a slot."
        )
    line = align.merge(data)
    instant = align.Instants(start=at, step_s=data.grid_s, count=1, mode=align.LAST, max_gap_s=max_gap_s)
    count, _, _ = align.survey(line, instant, data.grid_m)
    who = np.flatnonzero(count).astype(np.int32)
    x, y = align.compute_positions(line, instant, who)
    trajectory = align.list_suppliers(line, instant, who)[1].astype(np.int64)
    return Seen(
        trajectory=trajectory,
        bounds=_bound_subjects(data, sites, trajectory, x[:, 0], y[:, 0]),
        start=at,
        end=at + data.grid_s,
        absent=len(line.subject) - len(who),
    )


def _take_only_fixes(data: Trajectories, sites: Sites) -> Seen:
    if data.fixes > data.subjects:
        raise ParameterError(
            f"Every person must have one fix, or the 'at' parameter must say at which instant to look. Got "
            f"{format_count(data.fixes, 'fix', 'fixes')} of {format_count(data.subjects, 'person', 'people')}. Give "
            "the 'at' "
            f"parameter."
        )
    first, last = (float(data.t.min()), float(data.t.max())) if data.fixes else (0.0, 0.0)
    start, slot = (int(np.floor(t / data.grid_s)) * data.grid_s for t in (first, last))
    trajectory = np.argsort(data.subject, kind="stable")
    bounds = _bound_subjects(data, sites, trajectory, data.x[trajectory], data.y[trajectory])
    return Seen(trajectory=trajectory, bounds=bounds, start=start, end=slot + data.grid_s, absent=0)


def _bound_subjects(data: Trajectories, sites: Sites, trajectory: Int, x: Float, y: Float) -> Float:
    """Bounds of subjects: of their shapes where they have one."""
    bounds = np.column_stack([x, y, x, y])
    ids = data.trajectory_id[trajectory]
    # A trajectory without a shape lands on that of another, from which its id differs.
    at = np.minimum(np.searchsorted(sites.shape_trajectory, ids), max(0, len(sites.shape_trajectory) - 1))
    if len(sites.shape_trajectory):
        shaped = sites.shape_trajectory[at] == ids
        bounds[shaped] = sites.shape_bounds[at[shaped]]
    return bounds


def arrange(data: Trajectories, sites: Sites, seen: Seen, rank: Int) -> Scene:
    """Snap subjects and sites to cells, and order both along the curve; on one cell by subjects' ranks or sites' ids.

    Parameters
    ----------
    rank : int64[s]
        Place of each subject in the order of the run: nothing else decides between subjects who stand on one cell.

    Raises `DataError` if there is no site, or subjects and sites lie too far apart.
    """
    if not len(sites.site_id):
        raise DataError("The dataset must have sensitive sites. Got none. Load some first.")
    of_subjects, of_sites = np.floor(seen.bounds / data.grid_m), np.floor(sites.site_bounds / data.grid_m)
    both = np.concatenate([of_subjects, of_sites])
    root, sides = both[:, :2].min(axis=0), both[:, 2:].max(axis=0) - both[:, :2].min(axis=0) + 1
    if sides.max() > MAX_SIDE_CELLS:
        raise DataError(
            f"People and sites must lie within 2^30 cells of one another. They span {sides.max():.3g}. Keep wild "
            f"ones out when loading trajectories and sites: drop outliers, or keep to a box."
        )
    order = hilbert.choose_order(int(sides.max()))
    # Relative to the least cell: int32 holds them, and a shift of all data by whole cells changes nothing.
    subject_cells, site_cells = (np.asarray(part - np.tile(root, 2), np.int64) for part in (of_subjects, of_sites))
    subject_rank = rank[data.subject[seen.trajectory]]
    # Figures 6 and 11 take subjects and sites in the order of the Hilbert curve.
    by_curve = _order_along_curve(subject_cells, subject_rank, order)
    site_by_curve = _order_along_curve(site_cells, sites.site_id, order)
    return Scene(
        subjects=Boxes.from_array(subject_cells[by_curve]),
        sites=Boxes.from_array(site_cells[site_by_curve]),
        trajectory=seen.trajectory[by_curve],
        by_rank=np.argsort(subject_rank[by_curve]),
        site_rank=site_by_curve,
        root=root,
        cell_m=data.grid_m,
        domain=int(sides[0]) * int(sides[1]),
        absent=seen.absent,
    )


def _order_along_curve(cells: Int, last: Int, order: int) -> NDArray[np.intp]:
    """Order rectangles by their middles on the least curve that separates all cells; on one cell by `last`."""
    x, y = (cells[:, 0] + cells[:, 2]) // 2, (cells[:, 1] + cells[:, 3]) // 2
    return np.lexsort((last, hilbert.number_cells(x, y, order)))
