"""Rectangles of cells: subjects, sites, and what hides them.

Both ends are inside: one cell has ``x0 == x1``. Indices are relative to a root common to the run, so that they fit
int32; areas and squared distances are exact in int64.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d, minimum_filter1d

from dbanon.base.trajectory import Int, freeze

Int32 = NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, eq=False)
class Boxes:
    """Rectangles of cells, column by column, read-only.

    `x0`, `y0`, `x1`, `y1` (int32[n]): least and greatest cell on each axis, both inside.
    """

    x0: Int32
    y0: Int32
    x1: Int32
    y1: Int32

    def __post_init__(self) -> None:
        freeze(self)

    def __len__(self) -> int:
        return len(self.x0)

    @classmethod
    def from_array(cls, sides: NDArray[np.integer]) -> Self:
        """Make them of an array ``[n, 4]`` of x0, y0, x1, y1."""
        x0, y0, x1, y1 = (np.ascontiguousarray(column, np.int32) for column in np.asarray(sides).T)
        return cls(x0=x0, y0=y0, x1=x1, y1=y1)

    @property
    def columns(self) -> tuple[Int32, Int32, Int32, Int32]:
        """The attributes in the order the kernels take them."""
        return self.x0, self.y0, self.x1, self.y1

    def take(self, which: Int) -> "Boxes":
        """Choose rows, in the order of `which`."""
        x0, y0, x1, y1 = (column[which] for column in self.columns)
        return Boxes(x0=x0, y0=y0, x1=x1, y1=y1)

    def join(self, other: "Boxes") -> "Boxes":
        """Bound each together with the one at the same place in `other`."""
        return Boxes(
            x0=np.minimum(self.x0, other.x0),
            y0=np.minimum(self.y0, other.y0),
            x1=np.maximum(self.x1, other.x1),
            y1=np.maximum(self.y1, other.y1),
        )

    def bound_windows(self, k: int) -> "Boxes":
        """Bound every k that follow one another, in linear time: n - k + 1 boxes."""
        whole = slice(0, len(self) - k + 1)
        # The filters are centred; with this origin the i-th window is that of subjects i to i + k - 1.
        x0, y0 = (minimum_filter1d(side, k, origin=-(k // 2))[whole] for side in (self.x0, self.y0))
        x1, y1 = (maximum_filter1d(side, k, origin=-(k // 2))[whole] for side in (self.x1, self.y1))
        return Boxes(x0=x0, y0=y0, x1=x1, y1=y1)

    def count_cells(self) -> Int:
        """Cells in each: int64[n]."""
        return (self.x1.astype(np.int64) - self.x0 + 1) * (self.y1.astype(np.int64) - self.y0 + 1)
