"""Reads a geographic file in a separate process: ``python -I _gis_reader.py FILE LAYER COLUMN``.

Invariants: GDAL has three drivers, none of which follows an address, and no more memory than `MOST_BYTES`; what it does
to a hostile file, it does to this process. Standard output holds the features as an Arrow stream (``wkb`` and
``label``; of the schema, ``crs`` is what GDAL found and ``named`` what a GeoJSON's members name), or one JSON object
that says what is wrong. Imports nothing of dbanon, so that it starts quickly.
"""

import json
import os
import re
import resource
import sys
import warnings
from pathlib import Path
from typing import Any, NoReturn

DRIVERS = {"GeoJSON", "GPKG", "ESRI Shapefile"}
MOST_BYTES = 4 * 1024**3

_OBJECTS = {"FeatureCollection", "Feature", "GeometryCollection", "Point", "MultiPoint", "LineString"}
_OBJECTS |= {"MultiLineString", "Polygon", "MultiPolygon"}


def _stop(fault: str, **facts: Any) -> NoReturn:
    print(json.dumps({"fault": fault, **facts}))
    sys.exit(3)


def _gdal() -> Any:
    """Import pyogrio with no other drivers than `DRIVERS`."""
    import pyogrio
    from pyogrio import _ogr

    others = sorted(set(pyogrio.list_drivers()) - DRIVERS)
    pyogrio.set_gdal_config_options({"GDAL_SKIP": ",".join(others), "OGR_SQLITE_LOAD_EXTENSIONS": "NO"})
    _ogr._register_drivers()
    if not set(pyogrio.list_drivers()) <= DRIVERS:
        _stop("drivers")
    return pyogrio


def _layer(pyogrio: Any, path: str, wanted: str) -> str:
    """Name the layer to read: the one named, else the only one that holds geometries."""
    layers = [str(name) for name, kind in pyogrio.list_layers(path) if kind is not None]
    if wanted and wanted not in layers:
        _stop("layer", layers=layers)
    if not wanted and len(layers) != 1:
        _stop("layers" if layers else "none", layers=layers)
    return wanted or layers[0]


def _named(path: str) -> list[str | None]:
    """List the reference systems that the objects of a GeoJSON name; None for no name, such as a link or null."""
    text = Path(path).read_bytes()
    # Few files have the member; the others need not be parsed twice. An escape may spell it, too.
    if not text.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{") or not re.search(rb'"crs"|\\u00', text):
        return []
    named: set[str | None] = set()

    def keep(found: dict[str, Any]) -> dict[str, Any]:
        if "crs" in found and str(found.get("type")) in _OBJECTS:
            match found["crs"]:
                case {"type": "name", "properties": {"name": str(name)}}:
                    named.add(name)
                case _:
                    named.add(None)
        return {key: found[key] for key in ("type", "name", "properties") if isinstance(found.get(key), str | dict)}

    json.loads(text.decode("utf-8-sig", "replace"), object_hook=keep)
    return list(named)


def main(path: str, wanted: str, column: str) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    pyogrio, named = _gdal(), _named(path)
    layer = _layer(pyogrio, path, wanted)
    fields = [str(name) for name in pyogrio.read_info(path, layer=layer)["fields"]]
    if column and column not in fields:
        _stop("column", columns=fields)
    meta, features = pyogrio.raw.read_arrow(path, layer=layer, columns=[column] if column else [])
    # What holds the geometries is named by the file, where it is named at all.
    geometry = next((name for name in features.column_names if name == meta.get("geometry_name")), "wkb_geometry")
    wkb = features[geometry].cast(pa.binary())
    label = pc.cast(features[column], pa.string()) if column else pa.nulls(len(wkb), pa.string())
    about = {"crs": meta.get("crs") or "", "named": json.dumps(named)}
    table = pa.table({"wkb": wkb, "label": label}).replace_schema_metadata(about)
    with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as stream:
        stream.write_table(table, max_chunksize=10_000)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ["CPL_DEBUG"] = "OFF"
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    try:
        main(*sys.argv[1:4])
    except MemoryError:
        _stop("memory")
    except Exception as error:
        _stop("memory" if "memory" in str(error).lower() else "broken")
