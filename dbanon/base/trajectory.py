"""Frozen ragged arrays: the data that crosses layers, and their checks.

`Trajectories` and the inputs that a family names (`Requests`, `Sites`, `QuasiIdentifiers`, `Cells`) go into a method
(`dbanon.base.cloaks.Cloaks` comes out of it). All arrays are read-only, so a method cannot change what the attack
will be held against. Positions are true positions in the dataset's SRID; a method snaps them to cells of its grid by
``floor(coordinate / grid_m)`` (origin 0), times to slots by ``floor(seconds / grid_s)`` (from 1970 UTC).
"""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dbanon.base.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

Int = NDArray[np.int64]
Int32 = NDArray[np.int32]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
Arrays = TypeVar("Arrays", bound=tuple[NDArray[Any], ...])


def _is_finite(values: Float) -> bool:
    """Whether all are: the extremes of an array decide it, and take no memory."""
    return not values.size or bool(np.isfinite(values.min()) and np.isfinite(values.max()))


def freeze(instance: object) -> None:
    """Make the arrays of a frozen record read-only."""
    for item in fields(instance):  # type: ignore[arg-type]
        value = getattr(instance, item.name)
        if isinstance(value, np.ndarray) and value.flags.writeable:
            view = value.view()
            view.flags.writeable = False
            object.__setattr__(instance, item.name, view)


def freeze_arrays(arrays: Arrays) -> Arrays:
    """Make the given arrays read-only, in place, and return them. Numba compiles a kernel again for writable ones."""
    for values in arrays:
        values.flags.writeable = False
    return arrays


@dataclass(frozen=True, kw_only=True, eq=False)
class Trajectories:
    """Every trajectory of one dataset, sorted by trajectory id; fixes of one trajectory by strictly increasing time.

    Attributes
    ----------
    trajectory_id : int64[n]
        Strictly increasing database keys.
    subject : int64[n]
        Code 0..s-1 of the subject of each trajectory; one subject may have several.
    offset : int64[n + 1]
        Fixes of trajectory i are ``[offset[i], offset[i + 1])``; each has at least one.
    t : float64[m]
        Unix seconds.
    x, y : float64[m]
        Metres in the dataset's SRID.
    grid_m : float
        Side of the dataset's space cells in metres.
    grid_s : int
        Length of the dataset's time slots in seconds.
    subject_names : pyarrow.StringArray, optional
        Name of each subject, by its code; where there is none, its code is its name.
    day : int64[n], optional
        Days since 1970 of the day each trajectory is of, where each day of a subject is a record of its own.
    """

    trajectory_id: Int
    subject: Int
    offset: Int
    t: Float
    x: Float
    y: Float
    srid: int
    grid_m: float
    grid_s: int
    subject_names: "pa.StringArray | None" = None
    day: Int | None = None

    def __post_init__(self) -> None:
        n, m = len(self.trajectory_id), len(self.t)
        if self.day is not None and len(self.day) != n:
            raise DataError("Every trajectory must be of a day, or none. This is a defect of the read.")
        if len(self.subject) != n or len(self.offset) != n + 1 or len(self.x) != m or len(self.y) != m:
            raise DataError("The arrays of a set of trajectories must have matching lengths. Got different ones.")
        if n and (self.offset[0] != 0 or self.offset[-1] != m or (np.diff(self.offset) < 1).any()):
            raise DataError("Every trajectory must have at least one fix. Got an empty one.")
        if not (_is_finite(self.t) and _is_finite(self.x) and _is_finite(self.y)):
            raise DataError("Every fix must have a finite time and position. Got NaN or infinity.")
        if (np.diff(self.trajectory_id) <= 0).any():
            raise DataError("Trajectories must be sorted by distinct ids. Got them unsorted or twice.")
        if m and n:
            late = self.t[1:] <= self.t[:-1]
            late[self.offset[1:-1] - 1] = False
            if late.any():
                raise DataError("Times within a trajectory must strictly increase. Got duplicate or unsorted times.")
        freeze(self)

    @cached_property
    def subjects(self) -> int:
        """Number of distinct subjects."""
        return int(np.unique(self.subject).size)

    @property
    def fixes(self) -> int:
        """Number of fixes."""
        return len(self.t)


@dataclass(frozen=True, kw_only=True, eq=False)
class Requests:
    """LBS requests of one dataset, in any order.

    Attributes
    ----------
    subject : int64[r]
        The sender, in the codes of the `Trajectories` they go with; -1 where the sender has no trajectory.
    t : float64[r]
        Unix seconds.
    content : int64[r]
        Index into `contents`.
    contents : tuple of str
        The distinct requests as normalised JSON objects (PostgreSQL's ``jsonb::text``), sorted.
    """

    subject: Int
    t: Float
    content: Int
    contents: tuple[str, ...]

    def __post_init__(self) -> None:
        freeze(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sites:
    """Sensitive sites of one dataset, and the shapes of subjects that are more than a point; both by ascending id.

    Of a shape only its bounding rectangle counts: xmin, ymin, xmax, ymax in metres. That of a point has no extent.

    Attributes
    ----------
    site_id : int64[m]
        Strictly increasing database keys.
    site_bounds : float64[m, 4]
    shape_trajectory : int64[s]
        Trajectory ids, strictly increasing, of the trajectories (of one fix) that have a shape.
    shape_bounds : float64[s, 4]
    """

    site_id: Int
    site_bounds: Float
    shape_trajectory: Int
    shape_bounds: Float

    def __post_init__(self) -> None:
        for ids, bounds in ((self.site_id, self.site_bounds), (self.shape_trajectory, self.shape_bounds)):
            if bounds.shape != (len(ids), 4):
                raise DataError("Every site and shape must come with four bounds. This is a defect of the read.")
            if not _is_finite(bounds):
                raise DataError("Every site and shape must have finite coordinates. Got NaN or infinity.")
            if (np.diff(ids) <= 0).any():
                raise DataError("Sites and shapes must be sorted by distinct ids. Got them unsorted or twice.")
        freeze(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class QuasiIdentifiers:
    """One named set of quasi-identifier times of a dataset, sorted by (subject, time), each once.

    Attributes
    ----------
    subject : int64[q]
        In the codes of the `Trajectories` they go with; -1 where the subject has no trajectory.
    t : float64[q]
        Unix seconds.
    """

    subject: Int
    t: Float

    def __post_init__(self) -> None:
        if len(self.subject) != len(self.t) or not _is_finite(self.t):
            raise DataError("Quasi-identifiers must have people and finite times. This is a defect of the read.")
        later = (np.diff(self.subject) > 0) | ((np.diff(self.subject) == 0) & (np.diff(self.t) > 0))
        if not later.all():
            raise DataError("Quasi-identifiers must be sorted by person and time. Got them unsorted or twice.")
        freeze(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """Cells of one dataset, such as the coverage of base stations, and what lies in them.

    A point of interest or a fix on an edge that cells share belongs to the one with the least id.

    Attributes
    ----------
    cell_id : int64[c]
        Strictly increasing database keys.
    area_m2 : float64[c]
    categories : tuple of str
        Of the points of interest inside any cell, sorted.
    pois : int64[c, q]
        How many points of interest of each category a cell holds.
    neighbours : int64[e, 2]
        Indices of the cells that share an edge, not only a corner: the lesser first, sorted, each pair once.
    fix_cell : int64[m]
        Index of the cell that holds each fix of the `Trajectories` they go with, in their order; -1 outside all cells.
    overlap_m2 : float
        How much the cells cover more than once; less than a square metre counts as nothing.
    atom : int64[c], optional
        The atom that a release of the same people gave each cell, -1 where none did; None where no cell has one.
    bounds : float64[c, 4], optional
        xmin, ymin, xmax, ymax of each cell; without them no figure tells how long regions are.
    """

    cell_id: Int
    area_m2: Float
    categories: tuple[str, ...]
    pois: Int
    neighbours: Int
    fix_cell: Int
    overlap_m2: float = 0.0
    atom: Int | None = None
    bounds: Float | None = None

    def __post_init__(self) -> None:
        c = len(self.cell_id)
        shapes = (len(self.area_m2), *self.pois.shape, self.neighbours.shape[1:])
        if shapes != (c, c, len(self.categories), (2,)):
            raise DataError("Cells must come with areas, counts and pairs. This is a defect of the read.")
        if (np.diff(self.cell_id) <= 0).any():
            raise DataError("Cells must be sorted by distinct ids. Got them unsorted or twice.")
        if self.atom is not None and len(self.atom) != c:
            raise DataError("Each cell must come with its atom or none. This is a defect of the read.")
        freeze(self)
