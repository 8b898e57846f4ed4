"""Reads a geographic file in a separate process: ``python -I _gis_reader.py FILE LAYER COLUMN``.

Invariants: GDAL has three drivers, none of which follows an address, and no more memory than `MOST_BYTES`; what it does
to a hostile file, it does to this process. Standard output holds the features as an Arrow stream (``wkb`` and
``label``), or one JSON object that says what is wrong. Imports nothing of dbanon, so that it starts quickly.
"""

import json
import os
import resource
import sys
import warnings
from typing import Any, NoReturn

DRIVERS = {"GeoJSON", "GPKG", "ESRI Shapefile"}
MOST_BYTES = 4 * 1024**3


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


def main(path: str, wanted: str, column: str) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    pyogrio = _gdal()
    layer = _layer(pyogrio, path, wanted)
    fields = [str(name) for name in pyogrio.read_info(path, layer=layer)["fields"]]
    if column and column not in fields:
        _stop("column", columns=fields)
    meta, features = pyogrio.raw.read_arrow(path, layer=layer, columns=[column] if column else [])
    # What holds the geometries is named by the file, where it is named at all.
    geometry = next((name for name in features.column_names if name == meta.get("geometry_name")), "wkb_geometry")
    wkb = features[geometry].cast(pa.binary())
    label = pc.cast(features[column], pa.string()) if column else pa.nulls(len(wkb), pa.string())
    table = pa.table({"wkb": wkb, "label": label}).replace_schema_metadata({"crs": meta.get("crs") or ""})
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
