"""Reference systems as PostGIS knows them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from dbanon.errors import ParameterError

Connection = psycopg.Connection[Any]
WGS84 = 4326


@dataclass(frozen=True)
class Crs:
    """A reference system of PostGIS: degrees, projected metres, or neither.

    `meridian` is the longitude, in degrees, around which a projected one is true; None where it names none.
    """

    srid: int
    geographic: bool
    metric: bool
    meridian: float | None


def named(connection: Connection, name: str) -> Crs:
    """Look up a reference system by ``EPSG:n`` or a number.

    Raises
    ------
    ParameterError
        If PostGIS does not know it.
    """
    parts = re.fullmatch(r"(?:([A-Za-z]+):)?(\d{1,6})", name.strip())
    row = None
    if parts:
        row = connection.execute(
            "SELECT srid, proj4text ~ '[+]proj=longlat', "
            "       srtext ILIKE 'PROJCS%%' AND proj4text ~ '[+]units=m( |$)' AND proj4text !~ '[+]to_meter', "
            "       coalesce(substring(proj4text from '[+]lon_0=([-0-9.]+)')::float8, "
            "                6 * substring(proj4text from '[+]zone=([0-9]+)')::float8 - 183) "
            "FROM spatial_ref_sys WHERE auth_srid = %s AND auth_name = %s",
            [int(parts[2]), (parts[1] or "EPSG").upper()],
        ).fetchone()
    if row is None:
        raise ParameterError(
            f"The reference system must be one of PostGIS's spatial_ref_sys. Got {name!r}; give one such as EPSG:4326."
        )
    return Crs(*row)


def check_metric(found: Crs) -> None:
    """Raise `ParameterError` unless distances in the reference system are metres on a plane."""
    if not found.metric:
        raise ParameterError(
            f"A dataset must be in a projected reference system in metres. SRID {found.srid} is not; leave out --srid "
            "for the UTM zone of the data, or give one such as 32610."
        )


@contextmanager
def moving(connection: Connection) -> Iterator[None]:
    """Have a function ``pg_temp.dbanon_moved(geometry, srid)`` for the block: null for what cannot be reprojected."""
    connection.execute(
        """
        CREATE FUNCTION pg_temp.dbanon_moved(g geometry, target int) RETURNS geometry LANGUAGE plpgsql AS $$
        DECLARE
            moved geometry;
        BEGIN
            moved := ST_Transform(g, target);
            RETURN CASE WHEN ST_XMin(Box3D(moved)) > '-1e12' AND ST_YMin(Box3D(moved)) > '-1e12'
                         AND ST_XMax(Box3D(moved)) < 1e12 AND ST_YMax(Box3D(moved)) < 1e12 THEN moved END;
        EXCEPTION WHEN internal_error THEN
            RETURN NULL;
        END $$"""
    )
    yield
    connection.execute("DROP FUNCTION pg_temp.dbanon_moved")


def degrees_apart(lon: float, other: float) -> float:
    """How far two longitudes are apart, the short way round."""
    return abs((lon - other + 180) % 360 - 180)
