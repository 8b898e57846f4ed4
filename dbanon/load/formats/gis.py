"""Features of GeoJSON, GeoPackage and Shapefile: what a file of these says, checked before GDAL sees it.

Invariants: only a file of this machine is opened, by its real path, and only one that begins as one of the three kinds
does; GDAL runs in a separate process (`gis_reader`) with limits. No message quotes a value.
"""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from dbanon.base.errors import DataError
from dbanon.load import _columns, _crs
from dbanon.load.formats import gis_reader

MAX_FILE_BYTES = 512 * 1024**2
"""Coverage of a whole country takes some megabytes; GDAL takes several times the bytes of the file."""
LIMITS = {"memory_bytes": 4 * 1024**3, "output_bytes": 1024**3, "cpu_s": 300, "time_s": 900}
"""Limits of the process that reads a file. A GeoJSON of MAX_FILE_BYTES took 32 s of a processor and 1.4 GB."""

_FORMATS = "GeoJSON, GeoPackage or a Shapefile (.shp, with its .shx and .dbf)"
_TRACK_FORMAT = "GPX file"
_READER = Path(gis_reader.__file__)


@dataclass(frozen=True)
class Features:
    """What a layer holds: geometries as WKB, then texts or numbers, in parts; `crs` is EPSG:n, None for none."""

    parts: list[pa.RecordBatch]
    crs: str | None


def read_features(path: Path, *, layer: str | None, columns: Sequence[str] = (), look: bool = False) -> Features:
    """Read the geometries of a layer and some of its columns, or of a `look` the reference system alone.

    Raises `DataError` if the file is broken, exceeds a limit, holds a view, no such layer or column, or several layers
    of which none is named; if a GeoJSON names a reference system that GDAL does not know.
    """
    read, ended = _ask_reader([path], layer=layer or "", columns=list(columns), look=look)
    if ended or isinstance(read, dict):
        raise _make_fault(path, read, ended, layer=layer)
    about, parts = read
    definition = about.get(b"crs", b"").decode()
    crs = _crs.find_epsg(path.name, definition) if definition else None
    _crs.demand_system(path.name, json.loads(about.get(b"named", b"[]")), crs)
    return Features(parts, crs)


def read_track_points(paths: Sequence[Path]) -> list[pa.RecordBatch]:
    """Read the points of the tracks of GPX files: the number of the file, track and segment, time as text, and WKB.

    Raises `DataError` if a file is broken, has no such points, or they have no times; or if all exceed a limit.
    """
    read, ended = _ask_reader(paths, tracks=True)
    if ended or isinstance(read, dict):
        answer: dict[str, Any] = read if isinstance(read, dict) else {}
        raise _make_fault(paths[answer.get("file", 0)], read, ended, layer=None)
    return read[1]


def _ask_reader(
    paths: Sequence[Path], **options: Any
) -> tuple[tuple[dict[bytes, bytes], list[pa.RecordBatch]] | dict[str, Any], int]:
    """Have `gis_reader` read files; returns what it wrote, and its exit code."""
    for path in paths:
        _demand_plain_file(path)
    options |= {"files": [str(path.resolve()) for path in paths], "limits": LIMITS, "parent": os.getpid()}
    command, pipe = [sys.executable, "-I", str(_READER), json.dumps(options)], subprocess.PIPE
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.DEVNULL) as reader:
        try:
            with cast("io.BufferedReader", reader.stdout) as output:
                read = _read(output)
            ended = reader.wait()
        finally:
            reader.kill()  # does nothing unless this process was interrupted
    return read, ended


def _demand_plain_file(path: Path) -> None:
    place = path.resolve()
    if str(place).startswith("/vsi") or "!" in str(place) or place.suffix.lower() in (".zip", ".shz"):
        raise DataError(
            f"{path.name} must have a path that GDAL takes for a file. GDAL does not take a path that begins with "
            "/vsi, holds '!' or ends in .zip or .shz. Copy it to another place."
        )
    if place.stat().st_size > MAX_FILE_BYTES:
        raise DataError(
            f"{path.name} must have at most {MAX_FILE_BYTES // 1024**2} MB. Got more. Split it, or leave out "
            f"columns and rows that the dataset does not need."
        )


def _read(output: io.BufferedReader) -> tuple[dict[bytes, bytes], list[pa.RecordBatch]] | dict[str, Any]:
    """Receive the features part by part, or what `gis_reader` found wrong: nothing, if the kernel ended it."""
    try:
        if output.peek(1)[:1] == b"{":
            return cast("dict[str, Any]", json.load(output))
        with pa.ipc.open_stream(output) as stream:
            return stream.schema.metadata or {}, list(stream)
    except ValueError:
        return {}


def _make_fault(path: Path, read: object, ended: int, *, layer: str | None) -> DataError:
    """Say in one sentence what `gis_reader` found wrong. `ended` is its exit code, below 0 if a signal ended it."""
    answer: dict[str, Any] = read if isinstance(read, dict) else {}
    fault = "time" if ended in (-signal.SIGALRM, -signal.SIGXCPU) else answer.get("fault")
    kind = _TRACK_FORMAT if path.suffix.lower() == ".gpx" else _FORMATS
    has = _join_names(answer.get("names", []), answer.get("count", 0))
    return DataError(
        {
            "layer": f"{path.name} must have a layer '{layer}'. It has{has}. Name the right one.",
            "layers": f"One layer of {path.name} must be named. It has several{has}. Give one with --layer.",
            "none": f"{path.name} must have a layer of geometries. It has none. Check the file.",
            "column": f"{path.name} must have a column '{answer.get('missing')}'. It has{has}. Name the right one.",
            "nested": (
                f"Column '{answer.get('missing')}' of {path.name} must hold one value a feature. It holds lists. Take "
                f"them apart."
            ),
            "tracks": f"{path.name} must hold points of tracks. It holds none. Routes and single places have no times.",
            "times": f"{path.name} must have a time at each point of a track. It has none. Record the track with them.",
            "views": f"{path.name} must consist of tables. It has a view or a virtual table, which could be endless. "
            f"Export the layer to a new file.",
            "memory": f"{path.name} must fit into memory. It does not. Split it.",
            "time": (
                f"{path.name} must be read in {LIMITS['cpu_s']} s of a processor and {LIMITS['time_s']} s in all. It "
                f"takes longer. Export the layer to a new file, or split it."
            ),
            "output": (
                f"{path.name} must hold at most {LIMITS['output_bytes'] // 1024**2} MB of geometries and names. It "
                f"holds more. Split it, or leave out columns and rows that the dataset does not need."
            ),
            "drivers": "GDAL must be limited to one kind of files. This pyogrio cannot be. Install another version.",
        }.get(
            str(fault),
            f"{path.name} must be a whole {kind}. Got a file that breaks off or is of another kind. Check it.",
        )
    )


def _join_names(names: list[str], count: int) -> str:
    """List names that a file may have chosen, where they look like names."""
    shown = [name for name in names if _columns.is_name(name)]
    return ": " + ", ".join(shown) if shown else f" {count} others" if names else " none"
