"""Rectangles of cells: subjects, sites, and what hides them.

Both ends are inside: one cell has ``x0 == x1``. Indices are relative to a root common to the run, so that they fit
int32; areas and squared distances are exact in int64.
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d, minimum_filter1d

from dbanon.base.trajectory import Int, Int32, freeze_arrays


class Boxes(NamedTuple):
    """Rectangles of cells, column by column, read-only: least and greatest cell on each axis, both inside."""

    x0: Int32  # [n], as all of them
    y0: Int32
    x1: Int32
    y1: Int32

    @classmethod
    def from_array(cls, sides: NDArray[np.integer]) -> Self:
        """Make them of an array ``[n, 4]`` of x0, y0, x1, y1."""
        return freeze_arrays(cls(*(np.array(column, np.int32) for column in np.asarray(sides).T)))

    def take(self, which: Int) -> "Boxes":
        """Choose rows, in the order of `which`."""
        return freeze_arrays(Boxes(*(column[which] for column in self)))

    def join(self, other: "Boxes") -> "Boxes":
        """Bound each together with the one at the same place in `other`."""
        low, high = map(np.minimum, self[:2], other[:2]), map(np.maximum, self[2:], other[2:])
        return freeze_arrays(Boxes(*low, *high))

    def bound_windows(self, k: int) -> "Boxes":
        """Bound every k that follow one another, in linear time: n - k + 1 boxes."""
        whole = slice(0, len(self.x0) - k + 1)
        # The filters are centred; with this origin the i-th window is that of subjects i to i + k - 1.
        low = (minimum_filter1d(side, k, origin=-(k // 2))[whole] for side in self[:2])
        high = (maximum_filter1d(side, k, origin=-(k // 2))[whole] for side in self[2:])
        return freeze_arrays(Boxes(*low, *high))

    def count_cells(self) -> Int:
        """Cells in each: int64[n]."""
        return (self.x1.astype(np.int64) - self.x0 + 1) * (self.y1.astype(np.int64) - self.y0 + 1)
