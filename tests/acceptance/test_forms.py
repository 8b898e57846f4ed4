"""Each line of the table of what can be loaded, with an example of each form that it names."""

import gzip
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import geopandas as gpd
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pytest
import shapely

from dbanon.database import open_database
from tests.acceptance.commands import call, read_json
from tests.importing import make_table
from tests.pages import ROOT

from .test_tracks import GPX, HEAD

pytestmark = pytest.mark.db
PAGE = ROOT / "docs/administrators/load.md"
START, PLACES = "2024-03-04T10:0", [shapely.Point(12.6 + i / 100, 55.6 + i / 100) for i in range(3)]
FIXES = pd.DataFrame(
    {
        "cab": ["a", "a", "b"],
        "t": [f"{START}{i}:05Z" for i in range(3)],
        "lon": [place.x for place in PLACES],
        "lat": [place.y for place in PLACES],
    }
)
GEO = gpd.GeoDataFrame(FIXES[["cab", "t"]], geometry=PLACES, crs="EPSG:4326")
MOVING = {
    "type": "MovingPoint", "coordinates": [[place.x, place.y] for place in PLACES],
    "datetimes": [f"{START}{i}:05+00" for i in range(3)], "interpolation": "Linear",
}  # fmt: skip
Make = Callable[[Path], Any]


def _write(name: str, text: str | bytes) -> Make:
    def write(folder: Path) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def _write_csv(name: str, texts: list[str] | None = None, **options: Any) -> Make:
    frame = FIXES if texts is None else FIXES[["cab", "t"]].assign(geom=texts)
    return _write(name, frame.to_csv(index=False, **options))


def _export(name: str, driver: str) -> Make:
    def export(folder: Path) -> Path:
        GEO.to_file(folder / name, driver=driver)
        return folder / name

    return export


def _save(frame: Any) -> Make:
    def save(folder: Path) -> Path:
        frame.to_parquet(folder / "a.parquet")
        return folder / "a.parquet"

    return save


def _write_folder(folder: Path) -> Path:
    points = "".join(f"{p.y},{p.x},0,0,0,2024-03-04,10:0{i}:05\n" for i, p in enumerate(PLACES[:1]))
    _write("top/ann/ann.plt", HEAD + points)(folder)
    _write("top/bob/bob.gpx", GPX)(folder)
    return folder / "top"


def _write_plt(folder: Path) -> Path:
    return _write("a.plt", HEAD + "".join(f"55.6,12.6,0,0,0,2024-03-04,10:0{i}:05\n" for i in range(3)))(folder)


TEXTS = ["POINT (12.6 55.6)", shapely.to_wkb(PLACES[1], hex=True), '{"type": "Point", "coordinates": [12.62, 55.62]}']
SRIDS = ["SRID=4326;POINT(12.6 55.6)"]
SRIDS += [shapely.to_wkb(shapely.set_srid(place, 4326), hex=True, include_srid=True) for place in PLACES[1:]]
FEATURE = {"type": "Feature", "properties": {"mmsi": 211}, "temporalGeometry": MOVING}
TRIP = ", ".join(f"POINT({p.x} {p.y})@{START}{i}:05+00" for i, p in enumerate(PLACES))
fixes = FIXES  # DuckDB finds it by its name
# The beginning of each line, and what makes an example of each form that it names.
EXAMPLES: dict[str, list[Make]] = {
    "CSV, also gzipped": [
        *(_write_csv(f"{i}.csv", sep=sign) for i, sign in enumerate(",;\t|")),
        _write_csv("commas.csv", sep=";", decimal=","),
        _write("a.csv.gz", gzip.compress(FIXES.to_csv(index=False).encode())),
    ],
    "CSV with WKT": [_write_csv("texts.csv", TEXTS), _write_csv("srids.csv", SRIDS)],
    "Parquet": [_save(FIXES)],
    "GeoParquet": [
        _save(GEO), _export("a.geojson", "GeoJSON"), _export("a.gpkg", "GPKG"), _export("a.shp", "ESRI Shapefile"),
    ],
    "MF-JSON, features": [_write("a.json", json.dumps({"type": "FeatureCollection", "features": [FEATURE]}))],
    "MF-JSON, one": [_write("ann.json", json.dumps(MOVING))],
    "GPX, PLT": [_write("a.gpx", GPX), _write_plt, _write_folder],
    "[frames]": [
        lambda _: FIXES, lambda _: FIXES.set_index(["cab", "t"]), lambda _: pl.from_pandas(FIXES), lambda _: GEO.join(
            FIXES[["lon", "lat"]]).set_index("t"), lambda _: duckdb.sql("SELECT * FROM fixes"),
        lambda _: pa.Table.from_pandas(FIXES),
    ],
    "a [table or view]": [lambda _: "gps"],
    "a table of MobilityDB": [lambda _: "trips"],
}  # fmt: skip


def _read_table() -> dict[str, str]:
    """The options of each line of the table, by its first cell."""
    lines = PAGE.read_text().partition("## What you can load")[2].partition("\n## ")[0].splitlines()
    cells = [re.split(r"(?<!\\)\|", line) for line in lines if line.startswith("|")][2:]
    return {source.strip(): options.strip(" `") for _, source, options, _ in cells}


def test_each_line_of_the_table_is_loaded_as_it_says(database: str, tmp_path: Path) -> None:
    table = _read_table()
    assert [next((key for key in EXAMPLES if line.startswith(key)), line) for line in table] == list(EXAMPLES)
    with psycopg.connect(database, autocommit=True) as connection:
        make_table(connection, "gps", "cab text, t timestamptz, lon float8, lat float8", FIXES.to_numpy().tolist())
        make_table(connection, "trips", "cab text, trip text", [("a", f"SRID=4326;[{TRIP}]")])
    for line, options in table.items():
        (key,) = (key for key in EXAMPLES if line.startswith(key))
        for number, make in enumerate(EXAMPLES[key]):
            given, dataset = make(tmp_path), f"{key} {number}"
            if key == "[frames]":
                with open_database(database) as opened:
                    kept = opened.load_trajectories(given, dataset=dataset, **eval(f"dict({options})")).kept
            else:
                command = ("import", given) if isinstance(given, str) else ("load", "trajectories", str(given))
                done = call(database, *command, "--dataset", dataset, *shlex.split(options), "--json")
                assert done.code == 0, line + done.stderr
                kept = read_json(done)["kept"]
            assert kept == (2 if key == "GPX, PLT" and number == 0 else 3), (line, number)
