"""Boxes that a load keeps to, in units of the source; one in degrees may cross the antimeridian."""

import numpy as np
from numpy.typing import NDArray

from dbanon.options.loading import Box

Float = NDArray[np.float64]


def is_inside(x: Float, y: Float, bbox: Box) -> NDArray[np.bool_]:
    """Where positions lie in a box; one whose least x is the greater crosses the antimeridian."""
    west, south, east, north = bbox
    across = (x >= west) & (x <= east) if west <= east else (x >= west) | (x <= east)
    return np.asarray(across & (y >= south) & (y <= north))
