"""Features of GeoJSON, GeoPackage and Shapefile: what a file of these says, checked before GDAL sees it.

Invariants: only a file of this machine is opened, by its real path, and only one that begins as one of the three kinds
does; GDAL runs in a separate process (`_gis_reader`). No message quotes a value.
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyproj

from dbanon.errors import DataError, ParameterError
from dbanon.load import _files, _gis_reader

MOST_FILE_BYTES = 512 * 1024**2
"""Coverage of a whole country takes some megabytes; GDAL takes several times the bytes of the file."""

_KINDS = "GeoJSON, GeoPackage or a Shapefile (.shp, with .shx and .dbf beside it)"
_SQLITE, _SHAPE = b"SQLite format 3\0", b"\0\0\x27\x0a"
_NAMED = re.compile(
    r"(?i)(?:urn:(?:x-)?ogc:def:crs:|https?://www\.opengis\.net/def/crs/)?"
    r"(?P<who>EPSG|OGC|ESRI)[:/](?:[0-9.]*[:/])?(?P<code>\w+)"
)
_READER = Path(_gis_reader.__file__)


@dataclass(frozen=True)
class Features:
    """What a layer holds: geometries as WKB and a column as text, in parts; `crs` is EPSG:n, None for none."""

    parts: list[pa.RecordBatch]
    crs: str | None


def is_gis(path: Path) -> bool:
    """Whether a file begins as GeoJSON, GeoPackage or Shapefile do; False too where it cannot be read."""
    try:
        # Files of the system that wait for what comes call themselves empty; reading from them might never end.
        if not path.is_file() or not path.stat().st_size:
            return False
        with path.open("rb") as file:
            head = file.read(1024)
    except OSError:
        return False
    return head.startswith((_SQLITE, _SHAPE)) or head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def features(path: Path, *, layer: str | None, label: str | None) -> Features:
    """Read the geometries of a layer, and one of its columns.

    Raises
    ------
    DataError
        If the file is broken, too large, holds no such layer or column, or several layers of which none is named; if
        a GeoJSON names a reference system that GDAL does not know.
    """
    place = path.resolve()
    if str(place).startswith("/vsi") or "!" in str(place) or place.suffix.lower() == ".zip":
        raise DataError(
            f"{path.name} must have a path that GDAL takes for a file. One that begins with /vsi, holds '!' or ends in "
            ".zip is none; copy it to another place."
        )
    if place.stat().st_size > MOST_FILE_BYTES:
        raise DataError(
            f"{path.name} must have at most {MOST_FILE_BYTES // 1024**2} MB. Got more; split it, or leave out what the "
            "dataset does not need."
        )
    command = [sys.executable, "-I", str(_READER), str(place), layer or "", label or ""]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        raise _fault(path, done.stdout, layer=layer, label=label)
    with pa.ipc.open_stream(done.stdout) as stream:
        about = stream.schema.metadata or {}
        found = about.get(b"crs", b"").decode()
        crs = _epsg(path, found) if found else None
        _check_named(path, json.loads(about.get(b"named", b"[]")), crs)
        return Features(list(stream), crs)


def system(path: Path, found: str | None, given: str | None) -> str:
    """Choose the reference system of a file, EPSG:n: its own, else the one given.

    Raises
    ------
    ParameterError
        If it names none and none is given, or another than the one given.
    """
    if found is None and given is None:
        raise ParameterError(f"{path.name} must name its reference system. It does not; give --crs, such as EPSG:4326.")
    if found is not None and given is not None and _number(found) != _number(given):
        raise ParameterError(f"{path.name} is in {found}. Got --crs {given}; leave it out.")
    return found or given or ""


def _number(crs: str) -> str:
    return crs.rpartition(":")[2].strip()


def _check_named(path: Path, named: list[str | None], crs: str | None) -> None:
    """Refuse a GeoJSON whose `crs` members name another system than GDAL found, which takes WGS 84 for an unknown."""
    for name in named:
        found = _NAMED.fullmatch(name or "")
        code = _code(f"{found['who']}:{found['code']}".upper()) if found else None
        if code is None or f"EPSG:{code}" != crs:
            raise DataError(
                f"{path.name} must name in its member 'crs' a reference system that is known. Got another; write it as "
                "urn:ogc:def:crs:EPSG::n, or leave the member out for WGS 84."
            )


def _epsg(path: Path, crs: str) -> str:
    """Find the number of a reference system that GDAL names or describes."""
    code = _code(crs)
    if code is None:
        raise DataError(
            f"{path.name} must be in a reference system with an EPSG number. Got another; reproject it, for example to "
            "EPSG:4326."
        )
    return f"EPSG:{code}"


def _code(crs: str) -> int | None:
    if re.fullmatch(r"EPSG:\d{1,6}", crs):
        return int(crs.removeprefix("EPSG:"))
    try:
        return 4326 if crs == "OGC:CRS84" else pyproj.CRS.from_user_input(crs).to_epsg(min_confidence=70)
    except pyproj.exceptions.CRSError:
        return None


def _fault(path: Path, said: bytes, *, layer: str | None, label: str | None) -> DataError:
    """Say in one sentence what `_gis_reader` found wrong; a process that was ended said nothing."""
    try:
        answer: dict[str, Any] = json.loads(said)
    except ValueError:
        answer = {"fault": "broken"}
    layers, columns = _names(answer.get("layers", [])), _names(answer.get("columns", []))
    return DataError(
        {
            "layer": f"{path.name} must have a layer '{layer}'. It has{layers}; name the right one.",
            "layers": f"One layer of {path.name} must be named. It has several{layers}; give one with --layer.",
            "none": f"{path.name} must have a layer of geometries. It has none; check the file.",
            "column": f"{path.name} must have a column '{label}'. It has{columns}; name the right one.",
            "memory": f"{path.name} must fit into memory. It does not; split it.",
            "drivers": "GDAL must be limited to three kinds of files. This pyogrio cannot be; install another version.",
        }.get(
            str(answer.get("fault")),
            f"{path.name} must be a whole {_KINDS}. Got a file that breaks off or is of another kind; check it.",
        )
    )


def _names(found: list[str]) -> str:
    """List names that a file may have chosen, where they look like names."""
    shown = [name for name in found if _files.is_name(name)][:40]
    return ": " + ", ".join(shown) if shown else f" {len(found)} others" if found else " none"
