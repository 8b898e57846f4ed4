"""A release in QGIS and in GDAL's programs, with an analyst's login; collected where both are installed."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pyogrio
import pytest

from dbanon.postgres.server import parse
from tests.acceptance.commands import call
from tests.pages import ROOT

INSTANT = ("2026-01-05T08:10:00Z", "2026-01-05T08:11:00Z")
EXACT = "#d62728"


def one(url: str, query: str) -> Any:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def run(*command: str) -> str:
    # QGIS compares times in the session's zone, and takes those of its controller for UTC.
    environment = {**os.environ, "PGTZ": "UTC"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["city_k5", "city_sites"])
def test_qgis_takes_the_view_as_it_is_and_the_style(anna: str, tmp_path: Path, name: str) -> None:
    style = tmp_path / "style.qml"
    assert call(anna, "style", name, "-o", str(style)).code == 0
    words = parse(anna)
    at = {key: words.get(key, "") for key in ("host", "port", "dbname", "user", "password")}
    asked = {"connection": at, "name": name, "style": str(style), "since": INSTANT[0], "until": INSTANT[1]}
    found = json.loads(run("/usr/bin/python3", str(ROOT / "tests" / "qgis_layer.py"), json.dumps(asked)))
    assert (found["valid"], found["key"], found["crs"]) == (True, ["cloak_id"], "EPSG:32632")
    assert found["comment"].startswith("Rows: ")
    assert found["rows"] == one(anna, f"SELECT count(*) FROM published.{name}")
    # Every row has a symbol; exact ones one of their own.
    assert (found["style"], found["unstyled"]) == (True, 0)
    crowds = one(anna, f"SELECT array_agg(DISTINCT crowd) FROM published.{name}")
    assert (found["ranges"][0][:2] == [1, 1]) == (1 in crowds)
    # The temporal controller shows the rows of the instant, and no others.
    assert found["temporal"] == [True, "valid_from", "valid_to"]
    within = f"valid_from < '{INSTANT[1]}' AND valid_to > '{INSTANT[0]}'"
    assert found["rows_in_span"] == one(anna, f"SELECT count(*) FROM published.{name} WHERE {within}") > 0
    colours = dict(found["drawn"])
    assert (EXACT in colours) == (1 in crowds)
    assert len(colours) > 2


@pytest.mark.parametrize(("driver", "file"), [("GPKG", "release.gpkg"), ("FlatGeobuf", "release.fgb")])
def test_ogr2ogr_copies_the_view(anna: str, tmp_path: Path, driver: str, file: str) -> None:
    words = " ".join(f"{key}='{value}'" for key, value in parse(anna).items())
    run("ogr2ogr", "-f", driver, str(tmp_path / file), f"PG:{words} schemas=published", "published.city_k5")
    info = pyogrio.read_info(tmp_path / file)
    assert info["features"] == one(anna, "SELECT count(*) FROM published.city_k5")
    assert info["crs"] == "EPSG:32632"


@pytest.mark.parametrize("suffix", [".gpkg", ".fgb"])
def test_older_gdal_and_qgis_read_what_was_exported(anna: str, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"release{suffix}"
    assert call(anna, "export", "city_k5", str(file)).code == 0
    told = run("ogrinfo", "-al", "-so", str(file))
    assert f"Feature Count: {one(anna, 'SELECT count(*) FROM published.city_k5')}" in told
    assert "Promise: " in told or suffix == ".fgb"
