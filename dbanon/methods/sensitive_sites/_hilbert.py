"""Place of cells along the Hilbert curve.

D. Hilbert: Ueber die stetige Abbildung einer Linie auf ein Flaechenstueck, 1891; the bit-by-bit form is folklore.
"""

import numpy as np
from numpy.typing import NDArray

from dbanon.trajectory import Int

LARGEST_ORDER = 31
"""A place on a curve of this order still fits int64."""


def order_for(cells: int) -> int:
    """Give the least order of a curve whose square has so many cells a side."""
    return max(1, (cells - 1).bit_length())


def index(x: NDArray[np.integer], y: NDArray[np.integer], order: int) -> Int:
    """Number cells along the curve that fills the square of side 2^order from (0, 0) to (2^order - 1, 0).

    Parameters
    ----------
    x, y : int[n]
        Cells, 0 <= x, y < 2^order.
    order : int
        1 to `LARGEST_ORDER`.

    Returns
    -------
    int64[n]
        0 to 4^order - 1; cells whose numbers follow one another share a side.

    Notes
    -----
    O(n x order). From the greatest quadrant down: the quadrant's place among its four, then the cell within it as the
    curve there sees it, which is turned or mirrored in the first and the last.
    """
    x, y = np.array(x, np.int64), np.array(y, np.int64)
    place = np.zeros(len(x), np.int64)
    # Kept true: `place` is the number of the quadrant of side 2^(bit + 1) that holds the cell; the low bit + 1 bits of
    # x and y are the cell within it, in the orientation in which the curve runs there.
    for bit in range(order - 1, -1, -1):
        right, up = (x >> bit) & 1, (y >> bit) & 1
        place = (place << 2) | ((3 * right) ^ up)
        # The first quadrant (lower left) is transposed, the last (lower right) by the other diagonal.
        mirrored = (up == 0) & (right == 1)
        flip = np.where(mirrored, (1 << (bit + 1)) - 1, 0)
        x, y = x ^ flip, y ^ flip
        x, y = np.where(up == 0, y, x), np.where(up == 0, x, y)
    return place
