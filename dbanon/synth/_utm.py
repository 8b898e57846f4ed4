"""Converts degrees to metres and back in the UTM zones of WGS 84, for whole arrays.

PostGIS reprojects what is loaded; this is for code that may have no database. Both use PROJ.
"""

import functools

import numpy as np
import pyproj
from numpy.typing import NDArray

Float = NDArray[np.float64]


def find_zone(lon: float, lat: float) -> int:
    """SRID of the UTM zone of a place given in degrees."""
    return (32600 if lat >= 0 else 32700) + min(int((lon + 180) // 6) + 1, 60)


def is_zone(srid: int) -> bool:
    """Whether an SRID is a UTM zone on WGS 84."""
    return srid // 100 in (326, 327) and 1 <= srid % 100 <= 60


def to_metres(lon: Float, lat: Float, srid: int) -> tuple[Float, Float]:
    """Eastings and northings of places given in degrees, in the zone `srid`."""
    x, y = _make_transformer(srid).transform(lon, lat)
    return np.asarray(x, np.float64), np.asarray(y, np.float64)


def to_degrees(x: Float, y: Float, srid: int) -> tuple[Float, Float]:
    """Longitudes and latitudes of eastings and northings in the zone `srid`."""
    lon, lat = _make_transformer(srid).transform(x, y, direction="INVERSE")
    return np.asarray(lon, np.float64), np.asarray(lat, np.float64)


@functools.cache
def _make_transformer(srid: int) -> pyproj.Transformer:
    return pyproj.Transformer.from_crs("EPSG:4326", f"EPSG:{srid}", always_xy=True)
