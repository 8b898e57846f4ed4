"""Reads geographic files in a separate process: ``python -I gis_reader.py ASKED``, of one JSON object.

Its members: ``files``; ``limits``; ``parent``, a process; ``tracks``, true for the points of GPX files, else ``layer``
and ``columns`` of the one file, and ``look``, true for its reference system alone. Invariants: GDAL has one driver,
which follows no address, and runs no query that a file contains. The kernel ends the process at its limits, and when
the parent ends. Standard output holds the features as an Arrow stream (``wkb`` and the columns; of the schema, ``crs``
is what GDAL found and ``named`` what a GeoJSON's members name; or the points), or one JSON object that says what is
wrong. Imports nothing of dbanon, so that it starts quickly.
"""

import ctypes
import json
import os
import re
import resource
import signal
import sqlite3
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

SQLITE, SHAPE = b"SQLite format 3\0", b"\0\0\x27\x0a"

_OBJECTS = {"FeatureCollection", "Feature", "GeometryCollection", "Point", "MultiPoint", "LineString"}
_OBJECTS |= {"MultiLineString", "Polygon", "MultiPolygon"}
_TABLES = re.compile(
    r"CREATE (?:TABLE|INDEX|UNIQUE INDEX|TRIGGER) "
    r"""|CREATE VIRTUAL TABLE (?:\w+|"(?:[^"]|"")*"|'(?:[^']|'')*') USING rtree *\(""",
    re.IGNORECASE,
)
"""Beginnings of the statements that a GeoPackage may consist of. SQLite itself writes them so."""
_LINES = re.compile(rb"\s*\x1e|\s*\{[^\n]*\}\s*\n\s*\{")
HEAD_BYTES = 65_536
"""Within these a first feature ends and a second begins, where each is on a line."""
MAX_NAMES = 40
"""Names of layers or columns that an error may list."""
_PR_SET_PDEATHSIG = 1


def _stop(fault: str, has: Sequence[str] = (), file: int = 0, missing: str = "") -> NoReturn:
    """Say what is wrong with which file, and what it has instead: the first names, and how many."""
    names = list(has[:MAX_NAMES])
    print(json.dumps({"fault": fault, "names": names, "count": len(has), "file": file, "missing": missing}))
    sys.exit(3)


def _limit_process(limits: dict[str, int], parent: int) -> None:
    """Tell the kernel to end this process at its limits, and when its parent ends."""
    for what, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, limits["cpu_s"]),
        (resource.RLIMIT_AS, limits["memory_bytes"]),
    ):
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    signal.alarm(limits["time_s"])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the kernel was told
        sys.exit(3)


def _find_driver(path: str) -> str:
    """Name the driver for what a file begins with."""
    with Path(path).open("rb") as file:
        head = file.read(HEAD_BYTES)
    if head.startswith((SQLITE, SHAPE)):
        return "GPKG" if head.startswith(SQLITE) else "ESRI Shapefile"
    return "GeoJSONSeq" if _LINES.match(head) else "GeoJSON"


def _demand_tables(path: str) -> None:
    """Refuse a GeoPackage with a view or a virtual table other than a spatial index.

    GDAL runs the query of every view when it lists the layers, also of a view that is no layer. A query may never end.
    """
    # GDAL applies changes that another program left beside the file, so the schema must be read with them.
    changed = any(Path(path + ending).exists() for ending in ("-wal", "-journal"))
    database = sqlite3.connect(f"file:{quote(path)}?mode=ro{'' if changed else '&immutable=1'}", uri=True)
    for (statement,) in database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"):
        if not _TABLES.match(statement):
            _stop("views")
    database.close()


def _open_gdal(driver: str) -> Any:
    """Import pyogrio with no other driver than this one."""
    import pyogrio
    from pyogrio import _ogr

    others = sorted(set(pyogrio.list_drivers()) - {driver})
    pyogrio.set_gdal_config_options({"GDAL_SKIP": ",".join(others), "OGR_SQLITE_LOAD_EXTENSIONS": "NO"})
    _ogr._register_drivers()
    if set(pyogrio.list_drivers()) != {driver}:
        _stop("drivers")
    return pyogrio


def _choose_layer(pyogrio: Any, path: str, wanted: str) -> str:
    """Name the layer to read: the one named, else the only one that holds geometries."""
    layers = [str(name) for name, kind in pyogrio.list_layers(path) if kind is not None]
    if wanted and wanted not in layers:
        _stop("layer", layers)
    if not wanted and len(layers) != 1:
        _stop("layers" if layers else "none", layers)
    return wanted or layers[0]


def _read_names(path: str) -> list[str | None]:
    """List the reference systems that the objects of a GeoJSON name; None for no name, such as a link or null."""
    text = Path(path).read_bytes()
    # Few files have the member; the others need not be parsed twice. An escape may spell it, too.
    if not re.search(rb'"crs"|\\u00', text):
        return []
    named: set[str | None] = set()

    def keep(members: dict[str, Any]) -> dict[str, Any]:
        if "crs" in members and str(members.get("type")) in _OBJECTS:
            match members["crs"]:
                case {"type": "name", "properties": {"name": str(name)}}:
                    named.add(name)
                case _:
                    named.add(None)
        return {key: members[key] for key in ("type", "name", "properties") if isinstance(members.get(key), str | dict)}

    json.loads(text.decode("utf-8-sig", "replace"), object_hook=keep)
    return list(named)


def main(path: str, wanted: str, columns: list[str], *, look: bool, most_bytes: int) -> None:
    """Write what is asked of one file as a stream of Arrow."""
    driver = _find_driver(path)
    if driver == "GPKG":
        _demand_tables(path)
    import pyarrow as pa

    pyogrio, named = _open_gdal(driver), _read_names(path) if driver == "GeoJSON" else []
    layer = _choose_layer(pyogrio, path, wanted)
    meta = pyogrio.read_info(path, layer=layer)
    fields = [str(name) for name in meta["fields"]]
    missing = next((name for name in columns if name not in fields), None)
    if missing is not None:
        _stop("column", fields, missing=missing)
    read = [pa.array([], pa.binary())]
    if not look:
        # Times as texts: GDAL has no zone for a column whose rows name several.
        meta, features = pyogrio.raw.read_arrow(path, layer=layer, columns=columns, datetime_as_string=True)
        if features.nbytes > most_bytes:
            _stop("output")
        # What holds the geometries is named by the file, where it is named at all.
        geometry = next((name for name in features.column_names if name == meta.get("geometry_name")), "wkb_geometry")
        nested = next((name for name in columns if pa.types.is_nested(features[name].type)), None)
        if nested is not None:
            _stop("nested", missing=nested)
        read = [features[geometry].cast(pa.binary()), *(_simplify(features[name]) for name in columns)]
    about = {"crs": meta.get("crs") or "", "named": json.dumps(named)}
    table = pa.table(read, names=["wkb", *columns][: len(read)]).replace_schema_metadata(about)
    with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as stream:
        stream.write_table(table, max_chunksize=10_000)


def _simplify(column: Any) -> Any:
    """Make texts of what is no number."""
    import pyarrow as pa

    return column if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) else column.cast(pa.string())


def write_track_points(files: Sequence[str], most_bytes: int) -> None:
    """Write the points of tracks in GPX files as streams of Arrow."""
    import pyarrow as pa

    pyogrio, parts = _open_gdal("GPX"), []
    for number, file in enumerate(files):
        try:
            columns = ["track_fid", "track_seg_id", "time"]
            meta, points = pyogrio.raw.read_arrow(file, layer="track_points", columns=columns, datetime_as_string=True)
        except MemoryError:
            raise
        except Exception:
            _stop("broken", file=number)
        if not len(points):
            _stop("tracks", file=number)
        if points["time"].null_count == len(points):
            _stop("times", file=number)
        wkb = points[meta.get("geometry_name") or "wkb_geometry"].cast(pa.binary())
        counted = [pa.array([number] * len(points), pa.int32()), points["track_fid"], points["track_seg_id"]]
        parts.append(pa.table([*counted, points["time"], wkb], names=["file", "track", "segment", "time", "wkb"]))
        if sum(part.nbytes for part in parts) > most_bytes:
            _stop("output", file=number)
    whole = pa.concat_tables(parts)
    with pa.ipc.new_stream(sys.stdout.buffer, whole.schema) as stream:
        stream.write_table(whole, max_chunksize=10_000)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ["CPL_DEBUG"] = "OFF"
    options = json.loads(sys.argv[1])
    most = options["limits"]["output_bytes"]
    try:
        _limit_process(options["limits"], options["parent"])
        if options.get("tracks"):
            write_track_points(options["files"], most)
        else:
            main(options["files"][0], options["layer"], options["columns"], look=options["look"], most_bytes=most)
    except MemoryError:
        _stop("memory")
    except Exception as error:
        _stop("memory" if re.search("memory|complex/large", str(error)) else "broken")
