"""Folders of tracks and moving features as they are typed, and what the page on loads says of them."""

import json
import shlex
from pathlib import Path

import psycopg
import pytest

from tests import pages
from tests.acceptance.commands import call, demand_done, read_json
from tests.facts import demand_refused

pytestmark = pytest.mark.db
PAGE = "docs/administrators/load-formats.md"
HEAD = "Geolife trajectory\nWGS 84\nAltitude is in Feet\nReserved 3\n0,2,255,My Track,0,0,2,8421376\n0\n"
GPX = (
    '<?xml version="1.0"?><gpx version="1.1" creator="t" xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>'
    '<trkpt lat="53.1415" lon="8.2173"><time>2026-01-05T08:00:00Z</time></trkpt>'
    '<trkpt lat="53.1420" lon="8.2180"><time>2026-01-05T08:01:00Z</time></trkpt></trkseg></trk></gpx>'
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the page names."""
    for person in ("000", "001"):
        place = tmp_path / "Geolife Trajectories 1.3" / "Data" / person / "Trajectory"
        place.mkdir(parents=True)
        for day in (23, 24):
            (place / f"{day}.plt").write_text(HEAD + f"39.98,116.31,0,492,39744.1,2008-10-{day},02:53:04\n")
    (tmp_path / "Geolife Trajectories 1.3" / "User Guide-1.3.pdf").write_bytes(b"%PDF")
    for name in ("ann.gpx", "bob.gpx"):
        (tmp_path / name).write_text(GPX)
    moving = {"type": "MovingPoint", "datetimes": ["2026-01-05T08:00:00Z"], "coordinates": [[8.2173, 53.1415]]}
    ship = {"type": "Feature", "properties": {"mmsi": 211}, "temporalGeometry": moving}
    (tmp_path / "ships.json").write_text(json.dumps({"type": "FeatureCollection", "features": [ship]}))
    (tmp_path / "trips.csv").write_text("vehicle,trip\n1,[POINT(8.2173 53.1415)@2026-01-05 08:00:00+00]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_of_the_page_load_what_it_says(database: str, folder: Path) -> None:
    [block] = [text for _, text in pages.list_blocks(PAGE, "console") if "Geolife" in text]
    told = []
    for command, _ in pages.split_typed(block):
        done = demand_done(call(database, *shlex.split(command)[1:], "--json"))
        told.append(read_json(done))
    assert [(one["read"], one["kept"], one["subjects"], one["trajectories"]) for one in told] == [
        (4, 4, 2, 4), (4, 4, 2, 2), (1, 1, 1, 1),
    ]  # fmt: skip
    with psycopg.connect(database) as connection:
        query = (
            "SELECT DISTINCT name, subject FROM dbanon.trajectory JOIN dbanon.dataset USING (dataset_id) ORDER BY 1, 2"
        )
        assert connection.execute(query).fetchall() == [
            ("geolife", "000"), ("geolife", "001"), ("ships", "211"), ("walks", "ann"), ("walks", "bob"),
        ]  # fmt: skip


def test_fast_fixes_are_counted_in_the_table_and_left_out(database: str, folder: Path) -> None:
    (folder / "ann.gpx").write_text(GPX.replace("8.2180", "8.9180"))
    arguments = ("load", "trajectories", "ann.gpx", "--dataset", "d", "--max-speed-kmh", "200")
    done = call(database, *arguments)
    assert (done.code, "kept: too-fast" in done.stdout, "--drop-outliers" in done.stderr) == (0, True, True)
    told = read_json(call(database, *arguments, "--replace", "--drop-outliers", "--json"))
    assert (told["quarantined"], told["far"]) == ({"too-fast": 1}, {})


@pytest.mark.parametrize(
    ("arguments", "code", "facts"),
    [
        (("empty",), 3, (".gpx or .plt", "none")),
        (("cut.plt",), 3, ("cut.plt", "six lines")),
        (("untimed.gpx",), 3, ("untimed.gpx", "time")),
        (("still.json",), 3, ("still.json", "'subject'")),
        (("ships.json",), 3, ("'subject'", "--subject")),
        (("ann.gpx", "--subject", "cab"), 3, ("ann.gpx", "'cab'")),
        (("ann.gpx", "--crs", "EPSG:25832"), 2, ("ann.gpx", "EPSG:4326")),
        (("ann.gpx", "ann.gpx"), 2, ("ann.gpx", "once")),
        (("ann.gpx", "--geom", "g", "--x", "x"), 2, ("--geom", "--x")),
        (("trips.csv", "--subject", "vehicle", "--geom", "vehicle"), 2, ("'vehicle'",)),
        (("trips.csv", "--subject", "vehicle", "--geom", "trip"), 3, ("trips.csv", "'trip'", "tgeompoint")),
        (("ann.gpx", "--max-speed-kmh", "0"), 2, ("speed", "above 0")),
        (("ann.gpx", "--max-speed-kmh", "fast"), 2, ("--max-speed-kmh",)),
        (("missing.gpx",), 3, ("missing.gpx", "exist")),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else None,
)
def test_what_is_wrong_is_said_in_one_sentence_and_nothing_is_left(
    database: str, folder: Path, arguments: tuple[str, ...], code: int, facts: tuple[str, ...]
) -> None:
    (folder / "empty").mkdir()
    (folder / "cut.plt").write_text("53.1415,8.2173,0,492,39744.1,2008-10-23,02:53:04\n")
    (folder / "untimed.gpx").write_text(
        GPX.replace("<time>2026-01-05T08:00:00Z</time>", "")
        .replace(":01:00Z", "")
        .replace("<time>2026-01-05T08</time>", "")
    )
    (folder / "still.json").write_text('{"type": "Feature", "geometry": {"type": "Point", "coordinates": [8.2, 53.1]}}')
    done = call(database, "load", "trajectories", *arguments, "--dataset", "d")
    demand_refused(done, code, *facts)
    assert not [secret for secret in ("8.2173", "53.1415") if secret in done.stderr]
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM dbanon.dataset").fetchone() == (0,)


@pytest.mark.parametrize(("more", "kept"), [((), 1), (("--null", ""), 3), (("--null", "NULL,nan"), 2)])
def test_the_words_for_no_person_are_an_option(database: str, folder: Path, more: tuple[str, ...], kept: int) -> None:
    rows = "".join(f"{name},2026-01-05T08:0{i}:00Z,8.2,53.1\n" for i, name in enumerate(("NA", "NULL", "a", "")))
    (folder / "people.csv").write_text(f"subject,time,x,y\n{rows}")
    done = demand_done(call(database, "load", "trajectories", "people.csv", "--dataset", "people", *more, "--json"))
    assert (read_json(done)["kept"], read_json(done)["quarantined"]) == (kept, {"missing-subject": 4 - kept})
