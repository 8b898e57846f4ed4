"""Quickest ways against brute force, and what objects do on them: speeds, streets, presence, whatever the batch."""

import numpy as np
import pytest

from dbanon.synth import _journeys, _network
from dbanon.synth._journeys import OBJECT_CLASSES, Fixes, Routes, Timetable

CAR, PEDESTRIAN = 0, 3
SECONDS = Timetable(start_s=1_767_600_000, instants=400, step_s=1, whole_share=0.5)
MINUTES = Timetable(start_s=1_767_600_000, instants=30, step_s=60)


def make_network(x, y, edges, kmh, length=None) -> _network.Network:
    a, b = np.array(edges, dtype=np.int32).T
    x, y = np.array(x, dtype=float), np.array(y, dtype=float)
    return _network._make_network("test", x, y, a, b, limit_mps=np.array(kmh) / 3.6, srid=32632, length_m=length)


def make_routes(network: _network.Network, destinations: int = 1000, seed: int = 1) -> Routes:
    n = len(network.x)
    return _journeys.find_routes(network, np.full(n, 1 / n), destinations, np.random.default_rng(seed))


@pytest.fixture(scope="module")
def network() -> _network.Network:
    return _network.make_city(np.random.default_rng(7))


@pytest.fixture(scope="module")
def ways(network: _network.Network) -> Routes:
    return make_routes(network)


@pytest.fixture(scope="module")
def fixes(ways: Routes) -> Fixes:
    return _journeys.walk(ways, MINUTES, 8, np.arange(500))


def compute_floyd_warshall(network: _network.Network, top_mps: float) -> np.ndarray:
    n = len(network.x)
    seconds = network.length_m / np.minimum(network.limit_mps, top_mps)
    table = np.full((n, n), np.inf)
    np.fill_diagonal(table, 0)
    for a, b, s in zip(network.edge_from, network.edge_to, seconds, strict=True):
        table[a, b] = table[b, a] = min(table[a, b], s)
    for middle in range(n):
        table = np.minimum(table, table[:, [middle]] + table[[middle], :])
    return table


def follow_way(ways: Routes, kind: int, d: int, node: int) -> tuple[list[int], float]:
    """Nodes on the way from a node to a destination, and the seconds it takes."""
    nodes, seconds = [node], 0.0
    while nodes[-1] != ways.destination[d]:
        edge = ways.first[nodes[-1]] + int(ways.hop[ways.tree[kind], d, nodes[-1]])
        seconds += ways.seconds[kind, edge]
        nodes.append(int(ways.to[edge]))
        assert len(nodes) <= len(ways.x), "a way must not go in circles"
    return nodes, seconds


def measure_streets(network: _network.Network, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Distance of each position to each edge."""
    ax, ay = network.x[network.edge_from], network.y[network.edge_from]
    dx, dy = network.x[network.edge_to] - ax, network.y[network.edge_to] - ay
    along = np.clip(((x[:, None] - ax) * dx + (y[:, None] - ay) * dy) / (dx**2 + dy**2), 0, 1)
    return np.hypot(x[:, None] - ax - along * dx, y[:, None] - ay - along * dy)


def list_legs(fixes: Fixes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of consecutive fixes of one object: the index of the first, metres per second, and the object's class."""
    count = np.diff(fixes.offset)
    row = np.repeat(np.arange(len(count)), count)
    at = np.flatnonzero(np.diff(row) == 0)
    step = np.diff(fixes.xym, axis=0)[at]
    return at, np.hypot(step[:, 0], step[:, 1]) / step[:, 2], fixes.kind[row[at]]


# ---- ways


@pytest.mark.parametrize("kind", range(len(OBJECT_CLASSES)))
def test_the_quickest_ways_equal_those_of_floyd_and_warshall(kind: int) -> None:
    network = _network.make_city(np.random.default_rng(5), blocks=4)
    ways = make_routes(network)
    table = compute_floyd_warshall(network, OBJECT_CLASSES[kind].top_mps)
    found = [[follow_way(ways, kind, d, v)[1] for v in range(len(ways.x))] for d in range(len(ways.destination))]
    np.testing.assert_allclose(found, table[ways.destination])


def test_the_quickest_way_is_found_by_time_not_by_length() -> None:
    # From 0 to 2 straight along a lane, or by a longer main road over 1.
    network = make_network([0, 500, 1000], [0, 400, 0], [(0, 2), (0, 1), (1, 2)], [20, 50, 50])
    ways = make_routes(network)
    d = ways.destination.tolist().index(2)
    assert follow_way(ways, CAR, d, 0)[0] == [0, 1, 2]
    assert follow_way(ways, PEDESTRIAN, d, 0)[0] == [0, 2]


def test_of_parallel_edges_the_quickest_is_taken() -> None:
    length = np.array([5000.0, 1000.0, 3000.0])
    network = make_network([0, 1000], [0, 0], [(0, 1), (1, 0), (0, 1)], [130, 20, 100], length)
    ways = make_routes(network)
    d = ways.destination.tolist().index(1)
    assert follow_way(ways, CAR, d, 0)[1] == pytest.approx(3000 / (100 / 3.6))
    assert follow_way(ways, PEDESTRIAN, d, 0)[1] == pytest.approx(1000 / 1.5)


def test_classes_with_the_same_ways_share_their_trees(ways: Routes) -> None:
    slow = [i for i, kind in enumerate(OBJECT_CLASSES) if kind.top_mps <= 20 / 3.6]
    assert len(slow) == 2
    assert len(set(ways.tree[slow])) == 1
    assert ways.tree[CAR] != ways.tree[PEDESTRIAN]


def test_destinations_follow_attraction_and_fit_the_memory_given(monkeypatch: pytest.MonkeyPatch) -> None:
    network = _network.make_city(np.random.default_rng(5), blocks=9)
    draws = np.where(np.arange(100) < 50, 0.019, 0.001)
    ways = _journeys.find_routes(network, draws, 1000, np.random.default_rng(1))
    chance = np.diff(ways.reach, prepend=0)
    assert chance[ways.destination < 50].sum() == pytest.approx(0.95, abs=0.03)
    assert ways.reach[-1] == pytest.approx(1)
    monkeypatch.setattr(_journeys, "HOPS_BYTES", 1)
    assert len(_journeys.find_routes(network, draws, 1000, np.random.default_rng(1)).destination) <= 16


# ---- random streams


def test_hashed_numbers_are_uniform_and_differ_in_every_part() -> None:
    number = np.arange(100_000)
    one, other = _journeys.hash_uniform(1, number, number * 0), _journeys.hash_uniform(1, number, number * 0 + 1)
    assert 0 <= one.min() < one.max() < 1
    np.testing.assert_allclose(np.histogram(one, 20, (0, 1))[0], 5000, rtol=0.08)
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.02
    assert abs(np.corrcoef(one, _journeys.hash_uniform(2, number, number * 0))[0, 1]) < 0.02
    assert len(np.unique(np.concatenate([one, other]))) == 200_000


# ---- walking


def test_positions_lie_on_streets_and_not_only_at_crossings(network: _network.Network, fixes: Fixes) -> None:
    x, y = fixes.xym[::7, 0], fixes.xym[::7, 1]
    assert measure_streets(network, x, y).min(axis=1).max() < 1e-6
    nearest = np.hypot(x[:, None] - network.x, y[:, None] - network.y).min(axis=1)
    assert (nearest > 1).mean() > 0.2


def test_no_object_is_faster_than_its_class_and_cars_are_faster_than_bicycles(fixes: Fixes) -> None:
    _, speed, kind = list_legs(fixes)
    tops = np.array([kind.top_mps for kind in OBJECT_CLASSES])
    assert (speed <= tops[kind] + 1e-9).all()
    assert speed[kind == CAR].max() > OBJECT_CLASSES[2].top_mps


def test_no_object_is_faster_than_the_street_it_is_on(network: _network.Network, ways: Routes) -> None:
    fixes = _journeys.walk(ways, SECONDS, 9, np.arange(40))
    at, speed, kind = list_legs(fixes)
    on = measure_streets(network, fixes.xym[:, 0], fixes.xym[:, 1]) < 1e-6
    common = on[at] & on[at + 1]
    allowed = np.where(common, network.limit_mps, 0).max(axis=1)
    known = common.any(axis=1)
    assert known.mean() > 0.8
    tops = np.array([kind.top_mps for kind in OBJECT_CLASSES])
    assert (speed[known] <= np.minimum(allowed, tops[kind])[known] + 1e-5).all()
    pace = speed[known & (speed > 0)] / np.minimum(allowed, tops[kind])[known & (speed > 0)]
    assert np.median(pace) > _journeys.SLOWEST_SHARE


def test_between_two_nodes_an_object_drives_the_length_of_the_edge() -> None:
    length = np.array([10_000.0])
    ways = make_routes(make_network([0, 1000], [0, 0], [(0, 1)], [36], length))
    fixes = _journeys.walk(ways, MINUTES, 1, np.arange(50))
    _, speed, kind = list_legs(fixes)
    assert speed[kind == CAR].max() <= 1.0 + 1e-9  # 10 m/s along a winding road of ten times the distance
    assert speed[kind == CAR].max() > _journeys.SLOWEST_SHARE


def test_objects_there_throughout_have_every_instant_and_others_come_late_or_leave_early(fixes: Fixes) -> None:
    count = np.diff(fixes.offset)
    first, last = fixes.xym[fixes.offset[:-1], 2], fixes.xym[fixes.offset[1:] - 1, 2]
    end = MINUTES.start_s + 29 * 60
    assert count.min() >= 1
    assert 0.75 < (count == 30).mean() < 0.9
    assert (first > MINUTES.start_s).sum() > 20
    assert (last < end).sum() > 20
    assert (np.diff(fixes.xym[:, 2])[np.diff(np.repeat(np.arange(500), count)) == 0] == 60).all()
    assert (first >= MINUTES.start_s).all()
    assert (last <= end).all()


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_share_of_those_there_throughout_is_the_one_given(ways: Routes, share: float) -> None:
    times = Timetable(start_s=0, instants=20, step_s=60, whole_share=share)
    count = np.diff(_journeys.walk(ways, times, 3, np.arange(300)).offset)
    assert ((count == 20).all() and share == 1) or ((count < 20).mean() > 0.7 and share == 0)


def test_one_instant_is_one_fix_of_each_object(ways: Routes) -> None:
    fixes = _journeys.walk(ways, Timetable(start_s=5, instants=1, step_s=60, whole_share=0.5), 3, np.arange(100))
    assert (np.diff(fixes.offset) == 1).all()
    assert (fixes.xym[:, 2] == 5).all()


def test_an_object_does_the_same_whichever_others_are_made_with_it(ways: Routes) -> None:
    whole = _journeys.walk(ways, MINUTES, 8, np.arange(90))
    parts = [_journeys.walk(ways, MINUTES, 8, part) for part in np.split(np.arange(90), [1, 40, 41])]
    np.testing.assert_array_equal(np.concatenate([part.xym for part in parts]), whole.xym)
    np.testing.assert_array_equal(np.concatenate([np.diff(part.offset) for part in parts]), np.diff(whole.offset))
    other = _journeys.walk(ways, MINUTES, 9, np.arange(90))
    assert not np.array_equal(other.xym[:30], whole.xym[:30])


def test_classes_have_their_shares_and_those_on_foot_go_less_far(fixes: Fixes, ways: Routes) -> None:
    many = _journeys.walk(ways, MINUTES, 1, np.arange(5000))
    share = np.bincount(many.kind, minlength=len(OBJECT_CLASSES)) / 5000
    np.testing.assert_allclose(share, [kind.share for kind in OBJECT_CLASSES], atol=0.03)
    assert sum(kind.share for kind in OBJECT_CLASSES) == pytest.approx(1)


def test_each_class_walks_its_own_quickest_way() -> None:
    # From 0 to 2 straight along a lane, or by a longer main road over 1: quicker for cars alone.
    network = make_network([0, 500, 1000], [0, 400, 0], [(0, 2), (0, 1), (1, 2)], [20, 50, 50])
    fixes = _journeys.walk(make_routes(network), SECONDS, 3, np.arange(200))
    kind = np.repeat(fixes.kind, np.diff(fixes.offset))
    x, y = fixes.xym[:, 0], fixes.xym[:, 1]
    on_the_lane = (np.abs(y) < 1e-6) & (x > 1) & (x < 999)
    assert not on_the_lane[kind == CAR].any()
    assert on_the_lane[kind == PEDESTRIAN].any()


def test_objects_pause_where_they_arrive(ways: Routes) -> None:
    _, speed, kind = list_legs(_journeys.walk(ways, SECONDS, 4, np.arange(300)))
    standing = [(speed[kind == each] == 0).mean() for each in range(len(OBJECT_CLASSES))]
    assert all(0.02 < share < 0.9 for share in standing), standing
