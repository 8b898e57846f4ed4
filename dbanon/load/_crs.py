"""Which reference system a source names, as EPSG:n, and whether it is the one that was asked for."""

import re
from collections.abc import Collection, Mapping
from typing import Any

import pyproj

from dbanon.base.errors import DataError, ParameterError

DEGREES_CRS = "EPSG:4326"

_NAMED_SYSTEM = re.compile(
    r"(?i)(?:urn:(?:x-)?ogc:def:crs:|https?://www\.opengis\.net/def/crs/)?"
    r"(?P<who>EPSG|OGC|ESRI)[:/](?:[0-9.]*[:/])?(?P<code>\w+)"
)


def choose_system(called: str, own: str | None, crs: str | None) -> str:
    """Choose the reference system of a source: the one given, which is its own if it names one, else its own.

    Raises `ParameterError` if it names none and none is given, or another than the one given.
    """
    if own is None and crs is None:
        raise ParameterError(f"{called} must name its reference system. It does not. Give --crs, such as EPSG:4326.")
    # What is no system at all is refused where all are looked up: `dbanon_internal.demand_reference_system`.
    if own and crs and parse_number(own) != parse_number(crs):
        raise ParameterError(f"{called} is in {own}. Got --crs {crs}. Leave it out.")
    return (own or "") if crs is None else crs


def parse_number(crs: str) -> str:
    """Read the number in EPSG:n."""
    return crs.rpartition(":")[2].strip()


def demand_same(called: str, named: Collection[str], crs: str) -> None:
    """Refuse rows that name other reference systems than the one they are to be in, all as EPSG:n."""
    other = next((one for one in sorted(named) if parse_number(one) != parse_number(crs)), None)
    if other is not None and len(named) == 1:
        raise ParameterError(f"{called} is in {other}. Got {crs} for it. Give --crs {other}.")
    if other is not None:
        raise DataError(
            f"The positions of {called} must be in one reference system. They are in {len(named)}: "
            f"{', '.join(sorted(named))}. Reproject them to one."
        )


def demand_system(called: str, named: list[str | None], crs: str | None) -> None:
    """Refuse JSON whose `crs` members name another system than `crs`, which for GDAL is WGS 84 where it knows none."""
    if any(find_in_name(name) != crs for name in named):
        raise DataError(
            f"{called} must name in its member 'crs' a reference system that is known. Got another. Write it as "
            f"urn:ogc:def:crs:EPSG::n, or leave the member out for WGS 84."
        )


def find_in_name(name: str | None) -> str | None:
    """Find the system that a name such as ``urn:ogc:def:crs:EPSG::25832`` means; None for none that is known."""
    match = _NAMED_SYSTEM.fullmatch(name or "")
    code = _find_code(f"{match['who']}:{match['code']}".upper()) if match else None
    return None if code is None else f"EPSG:{code}"


def find_epsg(called: str, crs: str | Mapping[str, Any]) -> str:
    """Find the number of a reference system that is named or described, as text or PROJJSON."""
    code = _find_code(crs)
    if code is None:
        raise DataError(
            f"{called} must be in a reference system with an EPSG number. Got another. Reproject it, for example to "
            f"EPSG:4326."
        )
    return f"EPSG:{code}"


def _find_code(crs: str | Mapping[str, Any]) -> int | None:
    if isinstance(crs, str) and re.fullmatch(r"EPSG:\d{1,6}", crs):
        return int(crs.removeprefix("EPSG:"))
    described = crs.get("id") if isinstance(crs, Mapping) else None
    if crs == "OGC:CRS84" or described == {"authority": "OGC", "code": "CRS84"}:
        return 4326
    try:
        return pyproj.CRS.from_user_input(crs).to_epsg(min_confidence=70)
    except pyproj.exceptions.CRSError:
        return None
