# ruff: noqa: E501
"""Each command and option that a message of the command line proposes is tried on the input that made it say so.

As tests/db/test_hints.py for statements and arguments: `tries` names the sentences.
"""

import gzip
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import geopandas as gpd
import pyogrio
import pytest
import shapely

from dbanon.postgres.server import Target
from dbanon.testing import cloned_database
from tests.acceptance.commands import call
from tests.hints import tries

pytestmark = [pytest.mark.db, pytest.mark.stress]  # hundreds of processes, each of which starts anew

CANNOT = {
    "Check which columns are named, --crs, --bbox and the times": "what is wrong is not known",
    "One column of {} must be the position": "of tables in memory: GeoParquet says which one is",
}
"""Pieces of sentences of loads whose proposals cannot be executed, and why."""
HEAD, START = "subject,time,x,y\n", 1_767_600_000
ROWS = "".join(f"s{i % 8},{START + i // 8 * 60},{8.2 + i % 8 * 1e-3},{53.1 + i % 8 * 1e-3}\n" for i in range(80))
COLUMNS = ("--subject", "subject", "--time", "time", "--x", "x", "--y", "y")
SQUARE = shapely.box(8.2, 53.1, 8.21, 53.11)
FEATURE = {"type": "Feature", "properties": {"name": "a"}, "geometry": json.loads(shapely.to_geojson(SQUARE))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("remedies")
    (made / "good.csv").write_text(HEAD + ROWS)
    (made / "lat_lon.csv").write_text((HEAD + ROWS).replace("x,y", "lon,lat", 1))
    (made / "naive.csv").write_text(f"{HEAD}a,2026-01-05 08:00:00,8.2,53.1\n")
    (made / "long.csv").write_text(HEAD + ROWS.replace("\n", ",1\n"))
    (made / "clinics.csv").write_text("x,y,name,shape,other\n8.2,53.1,a,POINT(8.2 53.1),x\n")
    (made / "clinics.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [FEATURE]}))
    for file, layer in (("layers.gpkg", "one"), ("layers.gpkg", "two"), ("bare.shp", "bare")):
        pyogrio.raw.write(
            str(made / file), geometry=shapely.to_wkb([SQUARE]), field_data=[], fields=[], crs="EPSG:4326",
            geometry_type="Polygon", layer=layer, append=layer == "two",
        )  # fmt: skip
    (made / "bare.prj").unlink()
    return made


@pytest.fixture
def town(dbanon_server: Target, dbanon_template: str, folder: Path) -> Iterator[str]:
    """URL of a database with the dataset 'town'."""
    with cloned_database(dbanon_server, dbanon_template) as url:
        assert call(url, *load(folder, "good.csv", "town")).code == 0
        yield url


def load(folder: Path, file: str, dataset: str, *more: str) -> list[str]:
    return ["load", "trajectories", str(folder / file), "--dataset", dataset, *COLUMNS, *more]


def sites(folder: Path, file: str, *more: str) -> list[str]:
    return ["load", "sites", str(folder / file), "--dataset", "town", *more]


def find_options(text: str) -> list[tuple[str, str]]:
    """The options that a sentence proposes, and their values."""
    return re.findall(r"(--[a-z-]+\b)(?: (?!must|names?\b|or\b|and\b)([\w:/<>-]+))?", text)


def change(words: list[str], **options: str | None) -> list[str]:
    """The same command with other options; None leaves one out."""
    left = list(words)
    for option, value in options.items():
        name = f"--{option.replace('_', '-')}"
        if name in left:
            place = left.index(name)
            del left[place : place + 2]
        if value is not None:
            left += [name, value]
    return left


def fail(url: str, words: list[str]) -> str:
    done = call(url, *words)
    assert done.code != 0
    return done.sentence


def succeed(url: str, words: list[str]) -> None:
    done = call(url, *words)
    assert (done.code, done.stderr.count("dbanon: ")) == (0, 0), done.stderr


@tries("Change --tz", "for example --tz UTC")
def test_the_zone_that_is_proposed_is_taken(town: str, folder: Path) -> None:
    said = fail(town, load(folder, "naive.csv", "d"))
    [(_, zone)] = find_options(said)
    succeed(town, load(folder, "naive.csv", "d", "--tz", zone))
    said = fail(town, load(folder, "naive.csv", "e", "--tz", "Mars"))
    for number, name in enumerate(re.findall(r"such as (\S+) or (\w+)", said)[0]):
        succeed(town, load(folder, "naive.csv", f"e{number}", "--tz", name))


@tries("are the other way round. Give --x")
def test_columns_that_are_exchanged_are_named_as_proposed(town: str, folder: Path) -> None:
    words = change(load(folder, "lat_lon.csv", "d"), x="lat", y="lon")
    found = dict(find_options(fail(town, words)))
    succeed(town, change(words, x=found["--x"], y=found["--y"]))


@tries("A place must have either a shape or x and y")
def test_a_place_is_given_once_as_proposed(town: str, folder: Path) -> None:
    words = sites(folder, "clinics.csv", "--geom", "shape", "--x", "x", "--y", "y")
    assert {"--geom", "--x", "--y"} <= {name for name, _ in find_options(fail(town, words))}
    succeed(town, change(words, geom=None))
    succeed(town, [*change(words, x=None, y=None), "--replace"])


@tries("Check which column --geom names", "Check which columns --x and --y name")
def test_other_columns_of_places_are_named_as_proposed(town: str, folder: Path) -> None:
    words = sites(folder, "clinics.csv", "--geom", "other")
    assert "--geom" in fail(town, words)
    succeed(town, change(words, geom="shape"))
    words = sites(folder, "clinics.csv", "--replace", "--x", "other", "--y", "y")
    assert "--x" in fail(town, words)
    succeed(town, change(words, x="x"))


@tries("must name its reference system. It does not. Give --crs", "is in {}. Got --crs {}. Leave it out")
def test_a_reference_system_is_given_or_left_out_as_proposed(town: str, folder: Path) -> None:
    words = sites(folder, "bare.shp")
    [crs] = re.findall(r"--crs, such as ([\w:]+)", fail(town, words))
    succeed(town, change(words, crs=crs))
    words = sites(folder, "layers.gpkg", "--layer", "one", "--crs", "EPSG:25832", "--replace")
    assert "--crs" in fail(town, words)
    succeed(town, change(words, crs=None))


@tries("Give one with --layer", "Only a geographic file has layers")
def test_a_layer_is_named_or_left_out_as_proposed(town: str, folder: Path) -> None:
    words = sites(folder, "layers.gpkg")
    assert "--layer" in fail(town, words)
    succeed(town, change(words, layer="one"))
    words = sites(folder, "clinics.csv", "--x", "x", "--y", "y", "--layer", "one")
    assert "--layer" in fail(town, words)
    succeed(town, change(words, layer=None))


@tries("holds its own geometries. Got columns for them")
def test_columns_beside_geometries_are_left_out_as_proposed(town: str, folder: Path) -> None:
    words = sites(folder, "clinics.geojson", "--x", "x", "--y", "y")
    assert {"--x", "--y", "--geom"} <= {name for name, _ in find_options(fail(town, words))}
    succeed(town, change(words, x=None, y=None))


@tries("A box must be four numbers", "--since and --until must be ISO 8601")
def test_a_box_and_a_time_are_written_as_proposed(town: str, folder: Path) -> None:
    words = load(folder, "good.csv", "d", "--bbox", "1,2")
    assert "XMIN,YMIN,XMAX,YMAX" in fail(town, words)
    succeed(town, change(words, bbox="8,53,9,54"))
    words = load(folder, "good.csv", "e", "--since", "yesterday")
    [time] = re.findall(r"like (\S+Z)", fail(town, words))
    succeed(town, change(words, since=time))


@tries("To make it, leave out mode")
@pytest.mark.parametrize("mode", ["--replace", "--append"])
def test_a_dataset_that_is_not_there_is_made_as_proposed(town: str, folder: Path, mode: str) -> None:
    words = load(folder, "good.csv", "d", mode)
    assert (mode, "") in find_options(fail(town, words))
    succeed(town, [word for word in words if word != mode])


@tries("Name the missing column in the header")
def test_a_header_that_is_too_short_is_corrected_as_proposed(town: str, folder: Path) -> None:
    words = load(folder, "long.csv", "d")
    assert "header" in fail(town, words)
    (folder / "longer.csv").write_text((folder / "long.csv").read_text().replace("x,y", "x,y,more", 1))
    succeed(town, load(folder, "longer.csv", "d"))


@tries("Run `dbanon db upgrade`")
def test_a_database_without_a_schema_is_upgraded_as_proposed(dbanon_server: Target) -> None:
    with cloned_database(dbanon_server, "template1") as url:
        [command] = re.findall(r"`dbanon ([^`]*)`", fail(url, ["datasets"]))
        assert call(url, *command.split(), "--share-roles").code == 0
        succeed(url, ["datasets"])


@tries("List the runs: `dbanon runs`", "A release must be live to be measured by its name")
@pytest.mark.parametrize("words", [["verify", "99"], ["evaluate", "99"], ["evaluate", "none"], ["cancel", "99"]])
def test_the_command_that_lists_is_a_command(town: str, words: list[str]) -> None:
    [command] = re.findall(r"`dbanon ([^`]*)`", fail(town, words))
    succeed(town, command.split())


@tries("Load one with SELECT", "Load one with `dbanon load trajectories`")
def test_a_first_dataset_is_loaded_as_proposed(dbanon_server: Target, dbanon_template: str, folder: Path) -> None:
    with cloned_database(dbanon_server, dbanon_template) as url:
        for words in (sites(folder, "clinics.csv", "--x", "x", "--y", "y"), ["run", "tp-aware", "--dataset", "none"]):
            assert re.findall(r"`dbanon ([^`]*)`", fail(url, words)) == ["load trajectories"], words
        succeed(url, load(folder, "good.csv", "d"))


@tries("Dropping a dataset must be confirmed")
def test_a_dataset_is_dropped_with_the_option_that_is_proposed(town: str) -> None:
    [(option, _)] = find_options(fail(town, ["drop-dataset", "town"]))
    succeed(town, ["drop-dataset", "town", option])


@tries("must be GeoJSON, GeoPackage or a Shapefile. Got none of them", "must hold only valid polygons")
@pytest.mark.parametrize("area", ["good.csv", "bow.geojson"])
def test_another_area_of_stations_is_named_as_proposed(town: str, folder: Path, area: str) -> None:
    bow = shapely.Polygon([(8.1, 53), (8.4, 53.2), (8.4, 53), (8.1, 53.2)])
    feature = FEATURE | {"geometry": json.loads(shapely.to_geojson(bow))}
    (folder / "bow.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    (folder / "masts.csv").write_text("x,y,name\n8.202,53.102,a\n8.204,53.104,b\n8.206,53.102,c\n")
    words = [
        "load",
        "stations",
        str(folder / "masts.csv"),
        "--dataset",
        "town",
        "--x",
        "x",
        "--y",
        "y",
        "--name",
        "name",
    ]
    words += ["--area", str(folder / area)]
    assert ("--area", "") in find_options(fail(town, words))
    succeed(town, change(words, area=str(folder / "clinics.geojson")))


@tries("must be in one reference system")
def test_frames_of_other_systems_are_loaded_as_proposed(town: str, folder: Path) -> None:
    points = gpd.points_from_xy([8.2, 8.21], [53.1, 53.11], crs="EPSG:4326")
    frame = gpd.GeoDataFrame({"subject": ["a", "b"], "time": [START, START]}, geometry=points)
    frame.to_parquet(folder / "degrees.parquet")
    frame.to_crs("EPSG:32632").assign(time=START + 600).to_parquet(folder / "metres.parquet")
    both = change(load(folder, "degrees.parquet", "e"), x=None, y=None)
    both.insert(3, str(folder / "metres.parquet"))
    assert "--append" in dict(find_options(fail(town, both)))
    succeed(town, [word for word in both if "metres" not in word])
    succeed(town, [*(word for word in both if "degrees" not in word), "--append"])


NETWORK = {
    "nodes.csv": "id,x,y\n0,500000,5900000\n1,500500,5900000\n2,500500,5900500\n",
    "edges.csv": "source,target\n0,1\n1,2\n2,0\n",
    "slow.csv": "source,target,limit_kmh\n0,1,50\n1,2,50\n2,0,0.5\n",
    "degrees.csv": "id,lon,lat\n0,8.2,53.1\n1,8.21,53.1\n2,8.21,53.11\n",
    "classes.csv": "source,target,class\n0,1,0\n1,2,1\n2,0,1\n",
}
METRES = ("--nodes", "nodes.csv", "--edges", "edges.csv")
DEGREES = ("--nodes", "degrees.csv", "--edges", "classes.csv")
SYNTH = ["synth", "--objects", "3", "--instants", "3"]


@tries(
    "Either --dataset NAME or --csv DIR", "are for datasets. Got one with --csv", "Got --quasi-identifiers with --calls-per-day",
    "Give both --nodes and --edges", "may have --srid or --limits", "Files are overwritten only with --replace",
    "A city must have 1 to 1000 blocks", "A place must have a longitude within 180",
    "--quasi-identifier-overlap must be", "in the years 1 to 9999", "The files must be writable in", "in degrees, from a UTM zone",
    "given only for a network without one", "Either --srid or --lon and --lat", "can be projected to a UTM zone",
    "Limits by class are for edges", "Correct them, or leave out the column", "Give the limits of all, such as --limits",
)  # fmt: skip
@pytest.mark.parametrize(
    ("wrong", "named", "right"),
    [
        (["--csv", "DIR", "--dataset", "g"], ["--dataset", "--csv"], ["--dataset", "g"]),
        (["--csv", "DIR", "--grid-m", "2"], ["--grid-m"], ["--csv", "DIR"]),
        (["--csv", "DIR", "--quasi-identifiers", "random", "--calls-per-day", "5"], ["--calls-per-day"], ["--csv", "DIR"]),
        (["--csv", "DIR", "--nodes", "nodes.csv"], ["--nodes", "--edges"], ["--csv", "DIR"]),
        (["--csv", "DIR", "--srid", "32632"], ["--srid", "--lon", "--lat"], ["--csv", "DIR", "--lon", "8", "--lat", "53"]),
        (["--csv", "FULL"], ["--csv", "--replace"], ["--csv", "FULL", "--replace"]),
        (["--csv", "DIR", "--blocks", "0"], ["--blocks"], ["--csv", "DIR", "--blocks", "9"]),
        (["--csv", "DIR", "--lon", "200", "--lat", "53"], ["--lon", "--lat"], ["--csv", "DIR", "--lon", "8", "--lat", "53"]),
        (["--csv", "DIR", "--quasi-identifier-overlap", "9"], ["--quasi-identifier-overlap"], ["--csv", "DIR"]),
        (["--csv", "DIR", "--start", "9999-12-31T23:59:00Z"], ["--start", "--step-s"], ["--csv", "DIR"]),
        (["--csv", "/proc/none"], ["--csv"], ["--csv", "DIR"]),
        (["--csv", "DIR", *METRES, "--srid", "3035"], ["--srid"], ["--csv", "DIR", *METRES]),
        (["--csv", "DIR", *METRES, "--srid", "32632", "--lon", "8"], ["--srid", "--lon", "--lat"], ["--csv", "DIR", *METRES, "--srid", "32632"]),
        (["--csv", "DIR", *DEGREES, "--lon", "8"], ["--lon", "--lat"], ["--csv", "DIR", *DEGREES]),
        (["--csv", "DIR", *DEGREES, "--srid", "3857"], ["--srid"], ["--csv", "DIR", *DEGREES]),
        (["--csv", "DIR", *METRES, "--limits", "0=50"], ["--limits"], ["--csv", "DIR", *METRES]),
        (["--csv", "DIR", *METRES[:2], "--edges", "slow.csv"], [], ["--csv", "DIR", *METRES]),
        (["--csv", "DIR", *DEGREES, "--limits", "0=50"], ["--limits"], ["--csv", "DIR", *DEGREES, "--limits", "0=110,1=80"]),
    ],
)  # fmt: skip
def test_options_of_generated_data_are_changed_as_proposed(
    town: str, tmp_path: Path, wrong: list[str], named: list[str], right: list[str]
) -> None:
    folders = {"DIR": str(tmp_path / "new"), "FULL": str(tmp_path / "full")}
    for name, text in NETWORK.items():
        folders[name] = str(tmp_path / name)
        (tmp_path / name).write_text(text)
    succeed(town, [*SYNTH, "--csv", folders["FULL"]])
    said = fail(town, [*SYNTH, *(folders.get(word, word) for word in wrong)])
    assert set(named) <= {name for name, _ in find_options(said)}
    assert set(re.findall(r"such as --[a-z]+ ([\d=,]+)", said)) <= set(right)
    succeed(town, [*SYNTH, *(folders.get(word, word) for word in right)])


@tries(
    "must be a CSV file if it is packed", "must be a table. Got a track", "{} is in {}. Got {} for it. Give --crs",
    "It is a MovingPoint alone",
)  # fmt: skip
def test_files_of_other_kinds_are_loaded_as_proposed(town: str, folder: Path, tmp_path: Path) -> None:
    packed = tmp_path / "clinics.geojson.gz"
    packed.write_bytes(gzip.compress((folder / "clinics.geojson").read_bytes()))
    [command] = re.findall(r"`(gunzip [^`]*)`", fail(town, sites(tmp_path, packed.name)))
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    succeed(town, sites(tmp_path, packed.stem))
    track = tmp_path / "a.gpx"
    points = "".join(f'<trkpt lon="8.2" lat="53.{i}"><time>2026-01-05T08:0{i}:00Z</time></trkpt>' for i in range(3))
    track.write_text(f'<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>{points}</trkseg></trk></gpx>')
    [command] = re.findall(
        r"`dbanon ([^`]*)`", fail(town, ["load", "requests", str(track), "--dataset", "town", "--columns", "poi"])
    )
    words = [*command.split(), str(track), "--dataset", "track", "--crs", "EPSG:25832"]
    succeed(town, change(words, crs=dict(find_options(fail(town, words)))["--crs"]))
    moving = {"type": "MovingPoint", "datetimes": ["2026-01-05T08:00:00Z"], "coordinates": [[8.2, 53.1]]}
    (tmp_path / "a.json").write_text(json.dumps(moving))
    for option in ("subject", "trip"):
        words = ["load", "trajectories", str(tmp_path / "a.json"), "--dataset", option, f"--{option}", "cab"]
        assert (f"--{option}", "") in find_options(fail(town, words))
        succeed(town, change(words, **{option: None}))
