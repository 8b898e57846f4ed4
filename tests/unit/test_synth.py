import csv

import numpy as np
import pytest

from dbanon import synth
from dbanon.errors import DataError, ParameterError

START = 1_767_600_000
STEP = 60


@pytest.fixture(scope="module")
def network():
    return synth.city(np.random.default_rng(7))


@pytest.fixture(scope="module")
def fixes(network):
    rng = np.random.default_rng(8)
    return synth.movements(network, rng, objects=120, instants=30, step_s=STEP, start_s=START)


def reachable(network):
    """Crossings reached from the first, by spreading along streets until nothing changes."""
    reached = np.zeros(len(network.x), dtype=bool)
    reached[0] = True
    while True:
        before = reached.sum()
        linked = reached[network.edge_from] | reached[network.edge_to]
        reached[network.edge_from[linked]] = True
        reached[network.edge_to[linked]] = True
        if reached.sum() == before:
            return before


def distance_to_streets(network, x, y):
    ax, ay = network.x[network.edge_from], network.y[network.edge_from]
    dx, dy = network.x[network.edge_to] - ax, network.y[network.edge_to] - ay
    along = ((x[:, None] - ax) * dx + (y[:, None] - ay) * dy) / (dx**2 + dy**2)
    along = np.clip(along, 0, 1)
    return np.hypot(x[:, None] - ax - along * dx, y[:, None] - ay - along * dy).min(axis=1)


def generate(seed, directory):
    rng = np.random.default_rng(seed)
    network = synth.city(rng, blocks=6)
    fixes = synth.movements(network, rng, objects=20, instants=10, step_s=STEP, start_s=START)
    return synth.write_csv(directory, fixes, synth.requests(fixes, rng, step_s=STEP))


def test_the_same_seed_gives_the_same_files(tmp_path):
    one, two, other = generate(3, tmp_path / "one"), generate(3, tmp_path / "two"), generate(4, tmp_path / "other")
    assert [file.read_bytes() for file in one] == [file.read_bytes() for file in two]
    assert one[0].read_bytes() != other[0].read_bytes()


@pytest.mark.parametrize(("seed", "blocks"), [(0, 1), (1, 2), (2, 5), (3, 16), (4, 17)])
def test_every_crossing_of_a_city_can_be_reached(seed, blocks):
    network = synth.city(np.random.default_rng(seed), blocks=blocks)
    assert len(network.x) == (blocks + 1) ** 2
    assert reachable(network) == len(network.x)


def test_a_city_has_missing_streets_diagonals_and_every_class_of_street(network):
    side = 17
    step = np.abs(network.edge_to - network.edge_from)
    assert (step == side + 1).sum() >= 5
    assert (step != side + 1).sum() < 2 * side * (side - 1)
    assert set(network.edge_class.tolist()) == set(range(len(synth.STREET_LIMITS_MPS)))


def test_positions_lie_on_streets(network, fixes):
    assert distance_to_streets(network, fixes.x, fixes.y).max() < 1e-6


def test_objects_are_not_only_at_crossings(network, fixes):
    nearest = np.hypot(fixes.x[:, None] - network.x, fixes.y[:, None] - network.y).min(axis=1)
    assert (nearest > 1).mean() > 0.2


def test_no_object_is_faster_than_its_class(fixes):
    same = np.diff(fixes.subject) == 0
    speed = np.hypot(np.diff(fixes.x), np.diff(fixes.y))[same] / np.diff(fixes.t)[same]
    top = np.array([kind.top_mps for kind in synth.OBJECT_CLASSES])[fixes.kind[fixes.subject[1:][same]]]
    assert (speed <= top + 1e-9).all()
    assert speed.max() > synth.OBJECT_CLASSES[1].top_mps, "some car must be faster than a bicycle may be"


def test_no_car_is_faster_than_the_street_allows():
    slow = synth.Network(np.array([0.0, 10_000.0]), np.zeros(2), np.array([0]), np.array([1]), np.array([2]))
    moved = synth.movements(slow, np.random.default_rng(0), objects=20, instants=30, step_s=STEP, start_s=0)
    same = np.diff(moved.subject) == 0
    speed = np.abs(np.diff(moved.x))[same] / STEP
    assert 0 < speed.max() <= synth.STREET_LIMITS_MPS[2] + 1e-9


def test_some_subjects_are_there_throughout_and_several_only_for_a_part(fixes):
    seen = np.bincount(fixes.subject, minlength=120)
    assert (seen >= 1).all()
    assert (seen == 30).sum() > 60
    assert 5 <= (seen < 30).sum() < 60


def test_fixes_are_sorted_and_a_step_apart(fixes):
    same = np.diff(fixes.subject) == 0
    assert (np.diff(fixes.subject) >= 0).all()
    assert (np.diff(fixes.t)[same] == STEP).all()
    assert fixes.t.min() >= START
    assert fixes.t.max() < START + 30 * STEP


def test_the_quickest_path_is_found_by_time_not_by_length():
    # From 0 to 2 straight along a lane (5.5 m/s), or by a longer main road (14 m/s) over 1.
    network = synth.Network(
        np.array([0.0, 500.0, 1000.0]),
        np.array([0.0, 400.0, 0.0]),
        np.array([0, 0, 1]),
        np.array([2, 1, 2]),
        np.array([2, 0, 0]),
    )
    assert synth._Router(network, 14.0).path(0, 2)[0] == [1, 2]
    assert synth._Router(network, 1.5).path(0, 2)[0] == [2]


def test_shortest_paths_equal_those_of_floyd_and_warshall():
    network = synth.city(np.random.default_rng(5), blocks=4)
    n = len(network.x)
    seconds = network.length_m / np.minimum(np.array(synth.STREET_LIMITS_MPS)[network.edge_class], 14.0)
    table = np.full((n, n), np.inf)
    np.fill_diagonal(table, 0)
    table[network.edge_from, network.edge_to] = table[network.edge_to, network.edge_from] = seconds
    for middle in range(n):
        table = np.minimum(table, table[:, [middle]] + table[[middle], :])
    router = synth._Router(network, 14.0)
    found = [[(router.path(a, b)[1] or [0.0])[-1] for b in range(n)] for a in range(n)]
    np.testing.assert_allclose(found, table)


def test_requests_are_sent_while_their_sender_is_there_and_rare_ones_once(fixes):
    sent = synth.requests(fixes, np.random.default_rng(9), step_s=STEP)
    there = set(zip(fixes.subject.tolist(), fixes.t.tolist(), strict=True))
    slot = START + (sent.t - START) // STEP * STEP
    assert set(zip(sent.subject.tolist(), slot.tolist(), strict=True)) <= there
    assert (np.diff(sent.t) >= 0).all()
    values, counts = np.unique(sent.poi, return_counts=True)
    by_value = dict(zip(values.tolist(), counts.tolist(), strict=True))
    assert [by_value.pop(rare) for rare in synth.RARE_POIS] == [1, 1, 1]
    assert set(by_value) == set(synth.POI_CATEGORIES)
    assert len(sent.poi) == pytest.approx(240, rel=0.3)


def test_districts_ask_for_different_things(fixes):
    rng = np.random.default_rng(1)
    district = synth._district(fixes)
    assert set(district.tolist()) == set(range(len(synth.DISTRICTS)))
    hospital = list(synth.DISTRICTS).index("hospital")
    wishes = {place: synth._wishes(np.full(2000, place), rng) for place in (0, hospital)}
    assert (wishes[hospital] == "pharmacy").mean() > 0.35
    assert (wishes[0] == "pharmacy").mean() < 0.2


def test_every_district_gives_one_share_to_each_category():
    assert all(len(share) == len(synth.POI_CATEGORIES) for share in synth.DISTRICTS.values())
    assert sum(kind.share for kind in synth.OBJECT_CLASSES) == pytest.approx(1)


def test_files_hold_one_row_a_fix_near_oldenburg_with_lengths_kept(tmp_path, fixes):
    sent = synth.requests(fixes, np.random.default_rng(9), step_s=STEP)
    trajectories, queries = synth.write_csv(tmp_path / "new", fixes, sent)
    with trajectories.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["subject", "time", "lon", "lat"] == list(synth.CSV_COLUMNS.values())
    assert len(rows) == len(fixes.t)
    assert rows[0]["time"].startswith("2026-01-05T08:")
    assert rows[0]["time"].endswith("Z")
    lon, lat = np.array([[float(row["lon"]), float(row["lat"])] for row in rows]).T
    assert 8.19 < lon.min() < lon.max() < 8.24
    assert 53.13 < lat.min() < lat.max() < 53.16
    metres_per_degree = np.pi / 180 * synth.EARTH_RADIUS_M
    assert np.ptp(lat) * metres_per_degree == pytest.approx(np.ptp(fixes.y), abs=0.05)
    assert np.ptp(lon) * metres_per_degree * np.cos(np.radians(53.14)) == pytest.approx(np.ptp(fixes.x), abs=0.05)
    assert queries.read_text().splitlines()[0] == "subject,time,poi"
    assert len(queries.read_text().splitlines()) == len(sent.t) + 1


def test_the_demo_is_half_an_hour_of_300_subjects(tmp_path):
    trajectories, queries = synth.write_demo(tmp_path)
    with trajectories.open(newline="") as file:
        rows = list(csv.DictReader(file))
    times = {row["time"] for row in rows}
    assert len({row["subject"] for row in rows}) == 300
    assert (min(times), max(times), len(times)) == ("2026-01-05T08:00:00Z", "2026-01-05T08:29:00Z", 30)
    assert set(synth.RARE_POIS) <= {line.rpartition(",")[2] for line in queries.read_text().splitlines()}


def test_a_network_in_separate_parts_is_refused():
    parts = synth.Network(
        np.array([0.0, 100.0, 500.0, 600.0]), np.zeros(4), np.array([0, 2]), np.array([1, 3]), np.array([0, 0])
    )
    with pytest.raises(DataError, match="Every crossing of the street network must be reachable"):
        synth.movements(parts, np.random.default_rng(0), objects=20, instants=30, step_s=STEP, start_s=0)


def test_counts_below_one_are_refused(network):
    with pytest.raises(ParameterError, match="blocks >= 1"):
        synth.city(np.random.default_rng(0), blocks=0)
    with pytest.raises(ParameterError, match=r"must be >= 1\. Got 0, 5 and 60 s"):
        synth.movements(network, np.random.default_rng(0), objects=0, instants=5, step_s=STEP, start_s=0)
