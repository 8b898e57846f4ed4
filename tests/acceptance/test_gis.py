"""A release in QGIS and in GDAL's programs, with an analyst's login; collected where both are installed."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyogrio
import pytest

from dbanon.database import open_database
from dbanon.postgres.server import parse
from dbanon.testing import logins
from tests.acceptance.commands import call
from tests.pages import ROOT

INSTANT = ("2026-01-05T08:10:00Z", "2026-01-05T08:11:00Z")


def fetch_one(url: str, query: str) -> Any:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


# QGIS compares times in the session's zone, and takes those of its controller for UTC.
ENVIRONMENT = {**os.environ, "PGTZ": "UTC"}


def split_connection(url: str) -> dict[str, str]:
    words = parse(url)
    return {key: words.get(key, "") for key in ("host", "port", "dbname", "user", "password")}


def run(*command: str) -> str:
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["city_k5", "city_sites"])
def test_qgis_takes_the_view_as_it_is_and_shows_an_instant(anna: str, name: str) -> None:
    asked = {"connection": split_connection(anna), "name": name, "since": INSTANT[0], "until": INSTANT[1]}
    found = json.loads(run("/usr/bin/python3", str(ROOT / "tests" / "qgis_layer.py"), json.dumps(asked)))
    assert (found["valid"], found["key"], found["crs"]) == (True, ["cloak_id"], "EPSG:32632")
    assert found["comment"].startswith("Rows: ")
    assert found["rows"] == fetch_one(anna, f"SELECT count(*) FROM published.{name}")
    # The temporal controller, set as the page says, shows the rows of the instant and no others.
    within = f"valid_from < '{INSTANT[1]}' AND valid_to > '{INSTANT[0]}'"
    assert found["rows_in_span"] == fetch_one(anna, f"SELECT count(*) FROM published.{name} WHERE {within}") > 0
    assert len(found["drawn"]) > 1


def name_source(url: str) -> str:
    words = " ".join(f"{key}='{value}'" for key, value in parse(url).items())
    return f"PG:{words} schemas=published"


@pytest.mark.parametrize(("driver", "file"), [("GPKG", "release.gpkg"), ("FlatGeobuf", "release.fgb")])
def test_ogr2ogr_copies_the_view(anna: str, tmp_path: Path, driver: str, file: str) -> None:
    run("ogr2ogr", "-f", driver, str(tmp_path / file), name_source(anna), "published.city_k5")
    info = pyogrio.read_info(tmp_path / file)
    assert info["features"] == fetch_one(anna, "SELECT count(*) FROM published.city_k5")
    assert info["crs"] == "EPSG:32632"


@pytest.mark.parametrize("suffix", [".gpkg", ".fgb"])
def test_older_gdal_and_qgis_read_what_was_exported(anna: str, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"release{suffix}"
    assert call(anna, "export", "city_k5", str(file)).code == 0
    told = run("ogrinfo", "-al", "-so", str(file))
    assert f"Feature Count: {fetch_one(anna, 'SELECT count(*) FROM published.city_k5')}" in told
    assert "Promise: " in told or suffix == ".fgb"


@pytest.fixture
def growing(city_url: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """URL of an analyst's login to a release of one part, and what publishes the next one."""

    def publish(**span: str) -> object:
        with open_database(city_url) as database:
            done = database.run("tp-aware", dataset="city", params={"k": 5, "instants": 5, **span}, seed=1)
            return database.publish(done.run_id, "city_grows", grow=True)

    publish(since="2026-01-05T08:00:00Z", until="2026-01-05T08:15:00Z")
    with logins(city_url) as login:
        yield login("analyst"), lambda: publish(since="2026-01-05T08:15:00Z", until="2026-01-05T08:30:00Z")


def test_qgis_shows_a_new_part_of_a_release_when_the_layer_is_reloaded(
    growing: tuple[str, Callable[[], object]],
) -> None:
    anna, grow = growing
    asked = json.dumps({"connection": split_connection(anna), "name": "city_grows", "growing": True})
    with subprocess.Popen(
        ["/usr/bin/python3", str(ROOT / "tests" / "qgis_layer.py"), asked],
        env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as qgis:  # fmt: skip
        assert qgis.stdin
        assert qgis.stdout
        first = json.loads(qgis.stdout.readline())
        assert first == {"valid": True, "rows": count(anna), "read": count(anna), "last": "2026-01-05T08:14:00Z"}
        grow()  # while QGIS is reading
        qgis.stdin.write("go on\n")
        qgis.stdin.flush()
        then = json.loads(qgis.stdout.readline())
    assert then.pop("rest") == first["rows"] - 1  # what it was reading, it has read to the end
    assert then == {"valid": True, "rows": count(anna), "read": count(anna), "last": "2026-01-05T08:29:00Z"}
    assert then["rows"] > first["rows"]


def test_ogr2ogr_copies_a_release_as_far_as_it_has_grown(
    growing: tuple[str, Callable[[], object]], tmp_path: Path
) -> None:
    anna, grow = growing
    file = tmp_path / "grows.gpkg"
    for again in (False, True):
        if again:
            grow()
        run("ogr2ogr", "-f", "GPKG", "-overwrite", str(file), name_source(anna), "published.city_grows")
        info = pyogrio.read_info(file)
        assert (info["features"], info["crs"]) == (count(anna), "EPSG:32632")
        frame = pyogrio.read_dataframe(file)
        assert frame["cloak_id"].is_unique
        assert str(frame["valid_from"].max()) == f"2026-01-05 08:{29 if again else 14}:00+00:00"
    # One of the parts alone, by its time.
    since = ("-where", "valid_from >= '2026-01-05 08:15Z'")
    run("ogr2ogr", "-f", "GPKG", "-overwrite", str(file), name_source(anna), "published.city_grows", *since)
    newer = fetch_one(anna, "SELECT rows FROM published.parts WHERE name = 'city_grows' ORDER BY since DESC LIMIT 1")
    assert pyogrio.read_info(file)["features"] == newer


def count(url: str) -> int:
    return int(fetch_one(url, "SELECT count(*) FROM published.city_grows"))
