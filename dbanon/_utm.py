"""Degrees to metres and back: the zones of UTM on WGS 84, for whole arrays.

Krüger's series to the fourth order in the third flattening: within a zone it agrees with PostGIS to a micrometre.
PostGIS reprojects what is loaded; here there may be no database.

Source: Charles F. F. Karney, Transverse Mercator with an accuracy of a few nanometers, Journal of Geodesy 85(8), 2011,
equations 7 to 11, 35 and 36.
"""

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Complex = NDArray[np.complex128]

_FLATTENING = 1 / 298.257223563
_N = _FLATTENING / (2 - _FLATTENING)
_E = np.sqrt(_FLATTENING * (2 - _FLATTENING))
_RADIUS_M = 0.9996 * 6_378_137.0 / (1 + _N) * (1 + _N**2 / 4 + _N**4 / 64)
_EAST_M, _SOUTH_M = 500_000.0, 10_000_000.0

_FORWARD = (
    _N / 2 - 2 / 3 * _N**2 + 5 / 16 * _N**3 + 41 / 180 * _N**4,
    13 / 48 * _N**2 - 3 / 5 * _N**3 + 557 / 1440 * _N**4,
    61 / 240 * _N**3 - 103 / 140 * _N**4,
    49561 / 161280 * _N**4,
)
_BACK = (
    _N / 2 - 2 / 3 * _N**2 + 37 / 96 * _N**3 - 1 / 360 * _N**4,
    1 / 48 * _N**2 + 1 / 15 * _N**3 - 437 / 1440 * _N**4,
    17 / 480 * _N**3 - 37 / 840 * _N**4,
    4397 / 161280 * _N**4,
)
_LATITUDE = (
    2 * _N - 2 / 3 * _N**2 - 2 * _N**3 + 116 / 45 * _N**4,
    7 / 3 * _N**2 - 8 / 5 * _N**3 - 227 / 45 * _N**4,
    56 / 15 * _N**3 - 136 / 35 * _N**4,
    4279 / 630 * _N**4,
)


def zone(lon: float, lat: float) -> int:
    """SRID of the UTM zone of a place given in degrees."""
    return (32600 if lat >= 0 else 32700) + min(int((lon + 180) // 6) + 1, 60)


def is_zone(srid: int) -> bool:
    """Whether an SRID is a UTM zone on WGS 84."""
    return srid // 100 in (326, 327) and 1 <= srid % 100 <= 60


def metres(lon: Float, lat: Float, srid: int) -> tuple[Float, Float]:
    """Eastings and northings of places given in degrees, in the zone `srid`."""
    phi, turn = np.radians(lat), np.radians(lon - _meridian(srid))
    t = np.sinh(np.arctanh(np.sin(phi)) - _E * np.arctanh(_E * np.sin(phi)))
    xi = np.arctan2(t, np.cos(turn))
    eta = np.arcsinh(np.sin(turn) / np.hypot(t, np.cos(turn)))
    zeta = xi + 1j * eta
    zeta = zeta + _series(_FORWARD, zeta)
    return _EAST_M + _RADIUS_M * zeta.imag, _south(srid) + _RADIUS_M * zeta.real


def degrees(x: Float, y: Float, srid: int) -> tuple[Float, Float]:
    """Longitudes and latitudes of eastings and northings in the zone `srid`."""
    zeta = (y - _south(srid)) / _RADIUS_M + 1j * ((x - _EAST_M) / _RADIUS_M)
    zeta = zeta - _series(_BACK, zeta)
    chi = np.arcsin(np.sin(zeta.real) / np.cosh(zeta.imag)).astype(np.complex128)
    phi = (chi + _series(_LATITUDE, chi)).real
    turn = np.arctan2(np.sinh(zeta.imag), np.cos(zeta.real))
    return np.asarray(_meridian(srid) + np.degrees(turn)), np.degrees(phi)


def _series(coefficients: tuple[float, ...], angle: Complex) -> Complex:
    terms = [c * np.sin(2 * (j + 1) * angle) for j, c in enumerate(coefficients)]
    return np.asarray(sum(terms), dtype=np.complex128)


def _meridian(srid: int) -> float:
    return (srid % 100) * 6.0 - 183.0


def _south(srid: int) -> float:
    return _SOUTH_M if srid // 100 == 327 else 0.0
