"""Features of GeoJSON, GeoPackage and Shapefile: what a file of these says, checked before GDAL sees it.

Invariants: only a file of this machine is opened, by its real path, and only one that begins as one of the three kinds
does; GDAL runs in a separate process (`_gis_reader`) with limits. No message quotes a value.
"""

import io
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyproj

from dbanon.base.errors import DataError, ParameterError
from dbanon.load import _files, _gis_reader

MOST_FILE_BYTES = 512 * 1024**2
"""Coverage of a whole country takes some megabytes; GDAL takes several times the bytes of the file."""
LIMITS = {"memory_bytes": 4 * 1024**3, "output_bytes": 1024**3, "cpu_s": 300, "time_s": 900}
"""Limits of the process that reads a file. A GeoJSON of MOST_FILE_BYTES took 32 s of a processor and 1.4 GB."""

_KINDS = "GeoJSON, GeoPackage or a Shapefile (.shp, with .shx and .dbf beside it)"
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
    packed = head.startswith((_gis_reader.SQLITE, _gis_reader.SHAPE))
    return packed or head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def features(path: Path, *, layer: str | None, label: str | None) -> Features:
    """Read the geometries of a layer, and one of its columns.

    Raises `DataError` if the file is broken, exceeds a limit, holds a view, no such layer or column, or several layers
    of which none is named; if a GeoJSON names a reference system that GDAL does not know.
    """
    place = path.resolve()
    if str(place).startswith("/vsi") or "!" in str(place) or place.suffix.lower() in (".zip", ".shz"):
        raise DataError(
            f"{path.name} must have a path that GDAL takes for a file. One that begins with /vsi, holds '!' or ends in "
            ".zip or .shz is none; copy it to another place."
        )
    if place.stat().st_size > MOST_FILE_BYTES:
        raise DataError(
            f"{path.name} must have at most {MOST_FILE_BYTES // 1024**2} MB. Got more; split it, or leave out what the "
            "dataset does not need."
        )
    command = [sys.executable, "-I", str(_READER), str(place), layer or "", label or ""]
    command += [json.dumps(LIMITS), str(os.getpid())]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.DEVNULL) as reader:
        try:
            with cast("io.BufferedReader", reader.stdout) as output:
                read = _read(output)
            ended = reader.wait()
        finally:
            reader.kill()  # does nothing unless this process was interrupted
    if ended or isinstance(read, dict):
        raise _fault(path, read, ended, layer=layer, label=label)
    about, parts = read
    found = about.get(b"crs", b"").decode()
    crs = _epsg(path, found) if found else None
    _check_named(path, json.loads(about.get(b"named", b"[]")), crs)
    return Features(parts, crs)


def _read(output: io.BufferedReader) -> tuple[dict[bytes, bytes], list[pa.RecordBatch]] | dict[str, Any]:
    """Receive the features part by part, or what `_gis_reader` found wrong: nothing, if the kernel ended it."""
    try:
        if output.peek(1)[:1] == b"{":
            return cast("dict[str, Any]", json.load(output))
        with pa.ipc.open_stream(output) as stream:
            return stream.schema.metadata or {}, list(stream)
    except ValueError:
        return {}


def system(path: Path, found: str | None, given: str | None) -> str:
    """Choose the reference system of a file: the one given, which is its own if it names one, else its own.

    Raises `ParameterError` if it names none and none is given, or another than the one given.
    """
    if found is None and given is None:
        raise ParameterError(f"{path.name} must name its reference system. It does not; give --crs, such as EPSG:4326.")
    # What is no system at all is refused where all are looked up: `dbanon_internal.reference_system`.
    if found and given and _number(found) != _number(given):
        raise ParameterError(f"{path.name} is in {found}. Got --crs {given}; leave it out.")
    return (found or "") if given is None else given


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


def _fault(path: Path, read: object, ended: int, *, layer: str | None, label: str | None) -> DataError:
    """Say in one sentence what `_gis_reader` found wrong. `ended` is its exit code, below 0 if a signal ended it."""
    answer: dict[str, Any] = read if isinstance(read, dict) else {}
    fault = "time" if ended in (-signal.SIGALRM, -signal.SIGXCPU) else answer.get("fault")
    has = _names(answer.get("names", []), answer.get("count", 0))
    return DataError(
        {
            "layer": f"{path.name} must have a layer '{layer}'. It has{has}; name the right one.",
            "layers": f"One layer of {path.name} must be named. It has several{has}; give one with --layer.",
            "none": f"{path.name} must have a layer of geometries. It has none; check the file.",
            "column": f"{path.name} must have a column '{label}'. It has{has}; name the right one.",
            "views": f"{path.name} must consist of tables. It has a view or a virtual table, which could be endless; "
            "export the layer to a new file.",
            "memory": f"{path.name} must fit into memory. It does not; split it.",
            "time": f"{path.name} must be read in {LIMITS['cpu_s']} s of a processor and {LIMITS['time_s']} s in all. "
            "It takes longer; export the layer to a new file, or split it.",
            "output": f"{path.name} must hold at most {LIMITS['output_bytes'] // 1024**2} MB of geometries and names. "
            "It holds more; split it, or leave out what the dataset does not need.",
            "drivers": "GDAL must be limited to one kind of files. This pyogrio cannot be; install another version.",
        }.get(
            str(fault),
            f"{path.name} must be a whole {_KINDS}. Got a file that breaks off or is of another kind; check it.",
        )
    )


def _names(found: list[str], count: int) -> str:
    """List names that a file may have chosen, where they look like names."""
    shown = [name for name in found if _files.is_name(name)]
    return ": " + ", ".join(shown) if shown else f" {count} others" if found else " none"
