"""Place of cells along the Hilbert curve.

D. Hilbert: Ueber die stetige Abbildung einer Linie auf ein Flaechenstueck, 1891; the bit-by-bit form is folklore.
"""

import numpy as np
from numpy.typing import NDArray

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Int


def choose_order(cells: int) -> int:
    """Give the least order of a curve whose square has so many cells a side."""
    return max(1, (cells - 1).bit_length())


def number_cells(x: NDArray[np.integer], y: NDArray[np.integer], order: int) -> Int:
    """Number cells along the curve that fills the square of side 2^order from (0, 0) to (2^order - 1, 0).

    Parameters
    ----------
    x, y : int of any shape
        Cells, 0 <= x, y < 2^order.
    order : int
        1 to 31.

    Returns
    -------
    int64 of that shape
        0 to 4^order - 1; cells whose numbers follow one another share a side.

    Notes
    -----
    O(n x order).
    """
    place = np.empty(x.shape, np.int64)
    _number_cells(np.ravel(x), np.ravel(y), order, place.reshape(-1))
    return place


@compile_kernel
def _number_cells(all_x: NDArray[np.integer], all_y: NDArray[np.integer], order: int, out: Int) -> None:
    for i in range(len(out)):
        x, y = np.int64(all_x[i]), np.int64(all_y[i])
        place = np.int64(0)
        # From the greatest quadrant down. Kept true: `place` is the number of the quadrant of side 2^(bit + 1) that
        # holds the cell; the low bit + 1 bits of x and y are the cell in it, in the orientation the curve has there.
        for bit in range(order - 1, -1, -1):
            right, up = (x >> bit) & 1, (y >> bit) & 1
            place = (place << 2) | ((3 * right) ^ up)
            if up == 0:
                # The first quadrant (lower left) is transposed, the last (lower right) by the other diagonal.
                if right == 1:
                    flip = (np.int64(1) << (bit + 1)) - 1
                    x, y = x ^ flip, y ^ flip
                x, y = y, x
        out[i] = place
