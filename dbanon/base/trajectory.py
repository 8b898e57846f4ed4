"""Frozen ragged arrays: the data that crosses layers, and their checks.

`Trajectories` and the inputs that a family names (`Requests`, `Sites`, `QuasiIdentifiers`, `Cells`) go into a method
(`dbanon.base.cloaks.Cloaks` comes out of it). All arrays are read-only, so a method cannot change what the attack
will be held against. Positions are true positions in the dataset's SRID; a method snaps them to cells of its grid by
``floor(coordinate / grid_m)`` (origin 0), times to slots by ``floor(seconds / grid_s)`` (from 1970 UTC).
"""

from dataclasses import dataclass, field
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
    for name, value in list(vars(instance).items()):
        if isinstance(value, np.ndarray) and value.flags.writeable:
            view = value.view()
            view.flags.writeable = False
            object.__setattr__(instance, name, view)


def freeze_arrays(arrays: Arrays) -> Arrays:
    """Make the given arrays read-only, in place, and return them. Numba compiles a kernel again for writable ones."""
    for values in arrays:
        values.flags.writeable = False
    return arrays


(_NONE,) = freeze_arrays((np.empty(0),))


@dataclass(frozen=True, kw_only=True, eq=False)
class Trajectories:
    """Every trajectory of one dataset, sorted by trajectory id; fixes of one trajectory by strictly increasing time."""

    trajectory_id: Int  # int64[n]: strictly increasing database keys
    subject: Int  # int64[n]: code 0..s-1 of the subject of each trajectory; one subject may have several
    offset: Int  # int64[n + 1]: fixes of trajectory i are ``[offset[i], offset[i + 1])``; each has at least one
    # float64[m]: unix seconds. Given as those of one trajectory that all have, it is made when it is first asked for.
    t: Float
    x: Float  # float64[m]; x, y: metres in the dataset's SRID
    y: Float
    srid: int
    grid_m: float  # side of the dataset's space cells in metres
    grid_s: int  # length of the dataset's time slots in seconds
    # name of each subject, by its code; where there is none, its code is its name
    subject_names: "pa.StringArray | None" = None
    # int64[n]: days since 1970 of the day each trajectory is of, where each day of a subject is a record of its own
    day: Int | None = None
    is_spare: bool = False  # whether positions may go once they were used, since they can be read again
    times: Float = field(init=False, repr=False)  # `t` as it was given: fix f is at ``times[f % len(times)]``

    def __post_init__(self) -> None:
        n, m = len(self.trajectory_id), len(self.x)
        if self.day is not None and len(self.day) != n:
            raise DataError("Every trajectory must be of a day, or none. This is a defect of the read.")
        if len(self.subject) != n or len(self.offset) != n + 1 or len(self.y) != m:
            raise DataError("The arrays of a set of trajectories must have matching lengths. Got different ones.")
        if n and (self.offset[0] != 0 or self.offset[-1] != m or (np.diff(self.offset) < 1).any()):
            raise DataError("Every trajectory must have at least one fix. Got an empty one.")
        if not (_is_finite(self.t) and _is_finite(self.x) and _is_finite(self.y)):
            raise DataError("Every fix must have a finite time and position. Got NaN or infinity.")
        if (np.diff(self.trajectory_id) <= 0).any():
            raise DataError("Trajectories must be sorted by distinct ids. Got them unsorted or twice.")
        self._demand_order()
        freeze(self)

    def _demand_order(self) -> None:
        times, length = self.t, np.diff(self.offset)
        are_shared = len(times) < len(self.x) and bool((length == len(times)).all())
        if not are_shared and len(times) != len(self.x):
            raise DataError("The arrays of a set of trajectories must have matching lengths. Got different ones.")
        late = times[1:] <= times[:-1]
        if are_shared:
            object.__delattr__(self, "t")
        elif len(length):
            late[self.offset[1:-1] - 1] = False
        if late.any():
            raise DataError("Times within a trajectory must strictly increase. Got duplicate or unsorted times.")
        object.__setattr__(self, "times", times)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Make `t` where it was not given: nothing else is ever missing."""
            if name != "t":
                raise AttributeError(name)
            object.__setattr__(self, "t", *freeze_arrays((self.spread(self.times),)))
            return self.t

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Give each fix the value that `values` has for its time in `times`."""
        return values if len(values) == self.fixes else np.tile(values, len(self.subject))

    def forget(self, axis: str) -> Float:
        """Give back the memory of coordinates, ``x`` or ``y``, that nobody looks at any more: none is left."""
        object.__setattr__(self, axis, _NONE)
        return _NONE

    @cached_property
    def subjects(self) -> int:
        """Number of distinct subjects."""
        return int(np.unique(self.subject).size)

    @property
    def fixes(self) -> int:
        """Number of fixes."""
        return int(self.offset[-1])


@dataclass(frozen=True, kw_only=True, eq=False)
class Requests:
    """LBS requests of one dataset, in any order."""

    # int64[r]: the sender, in the codes of the `Trajectories` they go with; -1 where the sender has no trajectory
    subject: Int
    t: Float  # float64[r]: unix seconds
    content: Int  # int64[r]: index into `contents`
    contents: tuple[str, ...]  # the distinct requests as normalised JSON objects (PostgreSQL's ``jsonb::text``), sorted

    def __post_init__(self) -> None:
        freeze(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sites:
    """Sensitive sites of one dataset, and the shapes of subjects that are more than a point; both by ascending id.

    Of a shape only its bounding rectangle counts: xmin, ymin, xmax, ymax in metres. That of a point has no extent.
    """

    site_id: Int  # int64[m]: strictly increasing database keys
    site_bounds: Float  # float64[m, 4]
    # int64[s]: trajectory ids, strictly increasing, of the trajectories (of one fix) that have a shape
    shape_trajectory: Int
    shape_bounds: Float  # float64[s, 4]

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
    """One named set of quasi-identifier times of a dataset, sorted by (subject, time), each once."""

    subject: Int  # int64[q]: in the codes of the `Trajectories` they go with; -1 where the subject has no trajectory
    t: Float  # float64[q]: unix seconds

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
    """

    cell_id: Int  # int64[c]: strictly increasing database keys
    area_m2: Float  # float64[c]
    categories: tuple[str, ...]  # of the points of interest inside any cell, sorted
    pois: Int  # int64[c, q]: how many points of interest of each category a cell holds
    # int64[e, 2]: indices of the cells that share an edge, not only a corner: the lesser first, sorted, each pair once
    neighbours: Int
    # int64[m]: index of the cell that holds each fix of the `Trajectories` they go with, in their order; -1 outside all
    # cells
    fix_cell: Int
    overlap_m2: float = 0.0  # how much the cells cover more than once; less than a square metre counts as nothing
    # int64[c]: the atom that a release of the same people gave each cell, -1 where none did; None where no cell has
    # one.
    atom: Int | None = None
    # float64[c, 4]: xmin, ymin, xmax, ymax of each cell; without them no figure tells how long regions are
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
