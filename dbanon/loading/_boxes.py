"""Boxes that a load keeps to, in units of the source; one in degrees may cross the antimeridian."""

import math

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import ParameterError
from dbanon.loading import _crs

Box = tuple[float, float, float, float]
Float = NDArray[np.float64]


def check(bbox: Box | None) -> None:
    """Raise `ParameterError` for what is no box in any reference system."""
    if bbox is not None and not (all(map(math.isfinite, bbox)) and bbox[1] < bbox[3]):
        raise ParameterError(
            "A box must be XMIN,YMIN,XMAX,YMAX with YMIN below YMAX, in units of the source. Got another; "
            "change --bbox."
        )


def check_crossing(bbox: Box | None, crs: _crs.Crs) -> None:
    """Raise `ParameterError` for a box that would cross an antimeridian where there is none."""
    if bbox is not None and bbox[0] >= bbox[2] and not crs.geographic:
        raise ParameterError(
            "A box in metres must have XMIN below XMAX; only one in degrees can cross the antimeridian. Got another; "
            "change --bbox."
        )


def inside(x: Float, y: Float, bbox: Box) -> NDArray[np.bool_]:
    """Where positions lie in a box; one whose least x is the greater crosses the antimeridian."""
    west, south, east, north = bbox
    across = (x >= west) & (x <= east) if west <= east else (x >= west) | (x <= east)
    return np.asarray(across & (y >= south) & (y <= north))
