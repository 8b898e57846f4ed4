"""The commands of the pages on loading, typed in their order, print what the pages show: taxis of San Francisco."""

from pathlib import Path

import geopandas
import psycopg
import pytest
import shapely

from tests import pages
from tests.acceptance.commands import run_typed

from .conftest import REAL_DATA

pytestmark = [pytest.mark.db, pytest.mark.stress]
GROWS = """
CREATE TABLE public.gps (cab text, ts timestamptz, lon float8, lat float8);
INSERT INTO public.gps VALUES ('x', '2008-06-05 08:00Z', -122.42, 37.77);
"""
AREA = "POLYGON ((-122.52 37.70, -122.35 37.70, -122.35 37.84, -122.52 37.84, -122.52 37.70))"


def test_the_commands_of_the_pages_on_loading_print_what_they_show(database: str, tmp_path: Path) -> None:
    for file in REAL_DATA.glob("*/*[!t]"):  # without the notes on sources
        (tmp_path / file.name).symlink_to(file)
    area = geopandas.GeoDataFrame({"station": ["all"]}, geometry=[shapely.from_wkt(AREA)], crs="EPSG:4326")
    area.to_file(tmp_path / "coverage.gpkg", driver="GPKG")
    (tmp_path / "sightings.csv").write_text("cab_id,seen_at\n0,2008-06-04T08:00:00Z\n")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(GROWS)
    for page in ("load", "load-places"):
        for _, block in pages.list_blocks(f"docs/administrators/{page}.md", "console"):
            for command, shown in pages.split_typed(block):
                done = run_typed(database, tmp_path, command)
                assert done.code == 0, command + done.stderr
                table, *notices = "\n".join(shown).split("\nNotice: ")
                lines = [*table.splitlines(), *(f"Notice: {' '.join(notice.split())}" for notice in notices)]
                assert pages.find_missing(lines, done.stdout + done.stderr) == [], command + done.stdout + done.stderr
