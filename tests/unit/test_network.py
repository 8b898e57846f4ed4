"""Street networks: the built-in city, and networks from files, good and bad."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from dbanon.base.errors import DataError, ParameterError
from dbanon.synth import _network, _utm
from tests.facts import expect_refusal

NODES = "id,lon,lat\na,8.20,53.10\nb,8.21,53.10\nc,8.21,53.11\nd,9.0,53.5\ne,9.01,53.5\n"
EDGES = "from,to,length,class\na,b,700,3\nb,c,1200,0\nd,e,900,3\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A file of nodes and one of edges: three nodes in one part, two in another."""
    nodes, edges = tmp_path / "nodes.csv", tmp_path / "edges.csv"
    nodes.write_text(NODES)
    edges.write_text(EDGES)
    return nodes, edges


def find_reachable(network: _network.Network) -> int:
    """Nodes reached from the first, by spreading along edges until nothing changes."""
    reached = np.zeros(len(network.x), dtype=bool)
    reached[0] = True
    while True:
        before = reached.sum()
        linked = reached[network.edge_from] | reached[network.edge_to]
        reached[network.edge_from[linked]] = True
        reached[network.edge_to[linked]] = True
        if reached.sum() == before:
            return int(before)


# ---- the city


@pytest.mark.parametrize(("seed", "blocks"), [(0, 1), (1, 2), (2, 5), (3, 16), (4, 17)])
def test_every_crossing_of_a_city_can_be_reached(seed: int, blocks: int) -> None:
    network = _network.make_city(np.random.default_rng(seed), blocks=blocks)
    assert len(network.x) == (blocks + 1) ** 2
    assert find_reachable(network) == len(network.x)


def test_a_city_has_missing_streets_diagonals_and_every_class_of_street() -> None:
    network = _network.make_city(np.random.default_rng(7))
    side = 17
    step = np.abs(network.edge_to - network.edge_from)
    assert (step == side + 1).sum() >= 5
    assert (step != side + 1).sum() < 2 * side * (side - 1)
    assert set(np.round(network.limit_mps * 3.6)) == set(_network.CITY_LIMITS_KMH)


def test_a_city_lies_around_the_place_given() -> None:
    network = _network.make_city(np.random.default_rng(7), lon=-122.4, lat=-37.7)
    lon, lat = _utm.to_degrees(network.x, network.y, network.srid)
    assert network.srid == 32710
    assert (lon.min() + lon.max()) / 2 == pytest.approx(-122.4, abs=1e-3)
    assert (lat.min() + lat.max()) / 2 == pytest.approx(-37.7, abs=1e-3)
    assert 1900 < np.ptp(network.x) < 2100


@pytest.mark.parametrize("options", [{"blocks": 0}, {"blocks": 1001}, {"block_m": 0.0}])
def test_a_city_of_no_size_is_refused(options: dict) -> None:
    with expect_refusal(ParameterError, "1 to 1000 blocks", "--blocks"):
        _network.make_city(np.random.default_rng(0), **options)


@pytest.mark.parametrize("place", [{"lon": 181.0}, {"lat": 85.0}, {"lat": float("nan")}])
def test_a_place_off_the_earth_is_refused(place: dict) -> None:
    with expect_refusal(ParameterError, "longitude within 180", "--lon", "--lat"):
        _network.make_city(np.random.default_rng(0), **place)


# ---- degrees and metres


@pytest.mark.parametrize(
    ("lon", "lat", "srid", "east", "north"),
    [
        (9.0, 0.0, 32632, 500_000.0, 0.0),
        (8.2, 53.14, 32632, 446_486.0152, 5_888_143.4833),  # by PostGIS 3.3
        (-122.45, 37.76, 32610, 548_445.6653, 4_179_329.4545),
        (151.2, -33.9, 32756, 333_568.9411, 6_247_473.3368),
    ],
)
def test_places_have_their_utm_coordinates(lon: float, lat: float, srid: int, east: float, north: float) -> None:
    x, y = _utm.to_metres(np.array([lon]), np.array([lat]), srid)
    assert _utm.find_zone(lon, lat) == srid
    assert (x[0], y[0]) == pytest.approx((east, north), abs=0.001)


def test_degrees_become_metres_and_degrees_again(rng: np.random.Generator) -> None:
    lon, lat = rng.uniform(-3, 3, 1000) + 15, rng.uniform(-80, 84, 1000)
    for srid in (32633, 32733):
        back = _utm.to_degrees(*_utm.to_metres(lon, lat, srid), srid)
        np.testing.assert_allclose(back, (lon, lat), atol=1e-9)


# ---- files


def test_a_network_is_read_projected_and_its_largest_part_kept(files: tuple[Path, Path]) -> None:
    network = _network.read(*files)
    assert (len(network.x), len(network.edge_from), network.left_out, network.srid) == (3, 2, 2, 32632)
    lon, lat = _utm.to_degrees(network.x, network.y, network.srid)
    np.testing.assert_allclose(lon, [8.20, 8.21, 8.21], atol=1e-9)
    np.testing.assert_allclose(lat, [53.10, 53.10, 53.11], atol=1e-9)
    np.testing.assert_allclose(network.limit_mps * 3.6, [50, 110])
    np.testing.assert_allclose(network.length_m, [700, 1200])


def test_an_edge_is_never_shorter_than_the_distance_of_its_nodes(files: tuple[Path, Path]) -> None:
    files[1].write_text("from,to,length\na,b,1\nb,c,1200\nd,e,900\n")
    network = _network.read(*files)
    straight = np.hypot(np.diff(network.x), np.diff(network.y))
    np.testing.assert_allclose(network.length_m, [straight[0], 1200])
    assert straight[0] > 600


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        ("NODE;Longitude;Latitude\n1;8.2;53.1\n2;8.21;53.1\n", "U;V;length_m\n1;2;800\n"),
        ("node\tlon\tlat\r\n1\t8.2\t53.1\r\n2\t8.21\t53.1\r\n", "source\ttarget\r\n1\t2\r\n"),
        ('"id","lon","lat","name"\n1, 8.2 ,53.1,"x, y"\n2,8.21,53.1,z\n', "name,to,from\nroad,2, 1 \n"),
        ("\ufeffid,lon,lat\n1,8.2,53.1\n2,8.21,53.1\n", "from,to,limit_kmh\n1,2,30\n"),
    ],
)
def test_tables_of_many_forms_are_read(tmp_path: Path, nodes: str, edges: str) -> None:
    (tmp_path / "n").write_bytes(gzip.compress(nodes.encode()))
    (tmp_path / "e").write_bytes(edges.encode())
    network = _network.read(tmp_path / "n", tmp_path / "e")
    assert (network.edge_from.tolist(), network.edge_to.tolist(), network.srid) == ([0], [1], 32632)
    assert network.limit_mps[0] * 3.6 == pytest.approx(30 if "kmh" in edges else 50)


@pytest.mark.parametrize(
    ("nodes", "edges", "length", "kmh"),
    [
        ("0 10.5 20\n1 13.5 24\n2 -1e1 20\n", "0 0 1 7.5\n1 0 2 20.5\n", [7.5, 20.5], [50, 50]),
        (
            "0\t10.5\t20\t*\r\n1\t13.5\t24\t*\r\n2\t-10\t20\t*\r\n",
            "90\t0\t1\t6\t*\r\n91\t0\t2\t0\t*\r\n",
            [5, 20.5],
            [20, 110],
        ),
        ("  0   10.5  20\n  1   13.5  24\n  2   -10  20\n", " 0   0  1\n 1   0  2\n", [5, 20.5], [50, 50]),
    ],
)  # fmt: skip
def test_files_without_header_are_read_with_lengths_or_where_starred_with_classes(
    tmp_path: Path, nodes: str, edges: str, length: list[float], kmh: list[float]
) -> None:
    (tmp_path / "n").write_bytes(nodes.encode())
    (tmp_path / "e").write_bytes(edges.encode())
    network = _network.read(tmp_path / "n", tmp_path / "e")
    np.testing.assert_allclose(network.length_m, length)
    np.testing.assert_allclose(network.limit_mps * 3.6, kmh)
    middle = _utm.to_metres(np.array([_network.PLACE_DEGREES[0]]), np.array([_network.PLACE_DEGREES[1]]), 32632)
    assert network.extent[:2] == pytest.approx((middle[0][0], middle[1][0]))


def test_metres_stay_as_they_are_where_their_reference_system_is_given(tmp_path: Path) -> None:
    (tmp_path / "n").write_text("id,x,y\n1,500000,4000000\n2,500100,4000000\n")
    (tmp_path / "e").write_text("from,to\n1,2\n")
    network = _network.read(tmp_path / "n", tmp_path / "e", srid=25832)
    assert (network.srid, network.x.tolist(), network.y.tolist()) == (25832, [5e5, 500_100.0], [4e6, 4e6])


def test_limits_given_replace_those_of_the_classes(files: tuple[Path, Path]) -> None:
    network = _network.read(*files, limits_kmh={0: 80, 3: 25})
    np.testing.assert_allclose(network.limit_mps * 3.6, [25, 80])


@pytest.mark.parametrize("edges", ["from,to\na,b\n", "from,to,class,limit_kmh\na,b,0,30\n"])
def test_limits_given_for_edges_without_a_class_are_refused(files: tuple[Path, Path], edges: str) -> None:
    files[1].write_text(edges)
    with expect_refusal(ParameterError, "class", "edges.csv", "--limits"):
        _network.read(*files, limits_kmh={0: 80})


def test_the_classes_of_san_francisco_have_limits_of_their_own(files: tuple[Path, Path]) -> None:
    files[1].write_text("u,v,classcode\na,b,1\nb,c,5\nd,e,0\n")
    np.testing.assert_allclose(_network.read(*files).limit_mps * 3.6, [90, 40])


def test_a_network_in_degrees_may_be_projected_to_a_neighbouring_zone(files: tuple[Path, Path]) -> None:
    network = _network.read(*files, srid=32631)
    lon, _ = _utm.to_degrees(network.x, network.y, 32631)
    np.testing.assert_allclose(lon, [8.20, 8.21, 8.21], atol=1e-7)


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"srid": 25832}, ("32601 to 32660", "SRID 25832", "--srid")),
        ({"lon": 8.0}, ("network without one", "--lon", "--lat")),
    ],
)
def test_options_that_do_not_fit_degrees_are_refused(
    files: tuple[Path, Path], options: dict, facts: tuple[str, ...]
) -> None:
    with expect_refusal(ParameterError, *facts):
        _network.read(*files, **options)


def test_a_place_and_a_reference_system_are_one_too_many(tmp_path: Path) -> None:
    (tmp_path / "n").write_text("id,x,y\n1,0,0\n2,100,0\n")
    (tmp_path / "e").write_text("from,to\n1,2\n")
    with expect_refusal(ParameterError, "--srid", "--lon and --lat", "both"):
        _network.read(tmp_path / "n", tmp_path / "e", srid=25832, lat=50.0)


@pytest.mark.parametrize(
    ("which", "content", "facts"),
    [
        (0, b"", ("nodes.csv", "rows", "none")),
        (0, b"id,lon,lat\n", ("nodes.csv", "rows", "none")),
        (0, b"\x00\x01\x02\xff", ("nodes.csv", "text file")),
        (0, b"id,lon,lat\n\xff\xfe,1,2\n", ("nodes.csv", "text file")),
        (0, b"\x1f\x8b\x08cut off", ("nodes.csv", "text file")),
        (0, b"id,lon\na,8.2\n", ("nodes.csv", "'y'", "lat or latitude", "id, lon.")),
        (0, b"lon,lat\n8.2,53\n", ("nodes.csv", "'id'", "node", "lon, lat.")),
        (0, b"1 2\n2 3\n", ("nodes.csv", "'y'", "id, x.")),
        (0, b"id,lon,lat\na,east,53.1\n", ("'x'", "nodes.csv", "numbers", "text")),
        (0, b"id,lon,lat\na,,53.1\n", ("'x'", "nodes.csv", "numbers", "empty")),
        (0, b"id,lon,lat\na,8.2,nan\nb,inf,53\n", ("'x'", "nodes.csv", "finite", 1)),
        (0, b"id,lon,lat\na,8.2,nan\nb,8,53\n", ("'y'", "nodes.csv", "finite", 1)),
        (0, b"id,lon,lat\na,8.2,53.1\na,8.2,53.2\n", ("nodes.csv", "1 id.")),
        (0, b"id,lon,lat\na,8.2,53.1\nb,8.2\n", ("nodes.csv", "cells")),
        (0, b"id,lon,lat\na,53.1,98.2\nb,53.2,98.2\nc,53.2,98.2\nd,1,2\ne,1,2\n", ("180", "84", 3, "swap")),
        (1, b"", ("edges.csv", "rows", "none")),
        (1, b"from,to\n", ("edges.csv", "rows", "none")),
        (1, b"from,name\na,b\n", ("edges.csv", "'to'", "v or target", "from, name.")),
        (1, b"from,to\na,b\nb,x\ny,z\n", ("nodes.csv", "2 edges in edges.csv", "with another")),
        (1, b"from,to\na,a\n", ("two different nodes", "edges.csv", "none")),
        (1, b"from,to,length\na,b,long\n", ("'length'", "edges.csv", "numbers", "text")),
        (1, b"from,to,length\na,b,nan\n", ("'length'", "edges.csv", "finite", 1)),
        (1, b"from,to,class\na,b,7\nb,c,1.5\n", ("2 edges in edges.csv", "0, 1, 2, 3, 4, 5, 6.", "--limits")),
        (1, b"from,to,limit_kmh\na,b,0\nb,c,50\n", ("1 km/h", "1 edge of edges.csv")),
        (1, b"from,to\na,b\nb\n", ("edges.csv", "cells")),
    ],
)
def test_a_file_that_is_no_network_is_one_sentence(
    files: tuple[Path, Path], which: int, content: bytes, facts: tuple[object, ...]
) -> None:
    files[which].write_bytes(content)
    with expect_refusal(DataError, *facts) as caught:
        _network.read(*files)
    assert "53.1" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_directory_are_one_sentence(files: tuple[Path, Path], tmp_path: Path) -> None:
    with expect_refusal(DataError, "exist", "elsewhere.csv"):
        _network.read(tmp_path / "elsewhere.csv", files[1])
    with expect_refusal(DataError, tmp_path.name, "directory"):
        _network.read(files[0], tmp_path)
