"""The generator as a whole, without a database: plans, requests by district, files, and that a seed says it all."""

import ast
import csv
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import Voronoi, cKDTree

from dbanon import synth
from dbanon.base.errors import DataError, ParameterError
from dbanon.base.progress import report_nothing
from dbanon.options.generating import Plan, _parse_limits_kmh
from dbanon.synth import Made, Scenario, _journeys, _network, _places, _requests, _utm
from dbanon.synth._requests import DISTRICTS, POI_CATEGORIES, POIS, RARE_POIS
from dbanon.synth._source import describe_source, read_network
from tests.facts import expect_refusal

ROOT = Path(__file__).parents[2]


def read_rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    plan = Plan(objects=400, seed=7)
    return Scenario.from_plan(plan, read_network(plan))


@pytest.fixture(scope="module")
def made(scenario: Scenario) -> Made:
    return scenario.make_objects(np.arange(400))


# ---- plans


def _plan(start: str = "2026-01-05T08:00:00Z", limits: str | None = None, **fields: object) -> Plan:
    """Make a plan as the command line does."""
    return Plan(start=start, limits_kmh=None if limits is None else _parse_limits_kmh(limits), **fields)


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"objects": 0}, ("--objects", 1, 0)),
        ({"instants": 0}, ("--instants", 1, 0)),
        ({"step_s": 0}, ("--step-s", 1, 0)),
        ({"seed": -1}, ("--seed", -1)),
        ({"seed": 2**63}, ("--seed", 2**63)),
        ({"destinations": 0}, ("--destinations", 0)),
        ({"whole_share": 1.5}, ("--whole-share", "0 to 1", 1.5)),
        ({"whole_share": float("nan")}, ("--whole-share", "nan")),
        ({"requests_per_subject": -1}, ("--requests-per-subject", -1)),
        ({"calls_per_day": -1}, ("--calls-per-day", -1)),
        ({"quasi_identifiers": "ring"}, ("--quasi-identifiers", "random", "disjoint", "'ring'")),
        ({"quasi_identifiers": "random", "calls_per_day": 30}, ("--quasi-identifiers", "--calls-per-day")),
        ({"quasi_identifier_size": 0}, ("--quasi-identifier-size", 1, 0)),
        ({"quasi_identifier_overlap": 6}, ("--quasi-identifier-overlap", "0 to 5", 6)),
        ({"pois": -1}, ("--pois", "0 to 1,000,000", -1)),
        ({"stations": 100_001}, ("--stations", "0 to 100,000", 100_001)),
        ({"start": "253402300700", "instants": 10}, ("1 to 9999", "--start", "--step-s")),
        ({"start": "yesterday"}, ("2026-01-05T08:00:00Z", "'yesterday'")),
        ({"start": "2026-01-05T08:00:00"}, ("zone", "'2026-01-05T08:00:00'")),
        ({"nodes": Path("n")}, ("two files", "--nodes", "--edges")),
        ({"srid": 32632}, ("network from files", "--srid")),
        ({"limits": "0=50"}, ("network from files", "--limits")),
        ({"limits": "fast"}, ("0=110,1=80", "'fast'")),
        ({"limits": "0=nan"}, ("0=110,1=80", "'0=nan'")),
        ({"limits": "0=0.5"}, ("0=110,1=80", "'0=0.5'")),
    ],
)
def test_a_plan_that_cannot_be_is_one_sentence(options: dict, facts: tuple) -> None:
    with expect_refusal(ParameterError, *facts) as caught:
        _plan(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("start", ["1767600000", 1_767_600_000, "2026-01-05T08:00:00Z", "2026-01-05 09:00+01:00"])
def test_a_start_may_be_unix_seconds_or_a_time_with_a_zone(start: str | int) -> None:
    assert Plan(start=start).start_s == 1_767_600_000


def test_benchmarks_ask_for_what_the_generator_has() -> None:
    calls = [node for file in (ROOT / "benchmarks").glob("*.py") for node in ast.walk(ast.parse(file.read_text()))]
    plans = [call for call in calls if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Plan"]
    asked = {option.arg for plan in plans for option in plan.keywords if option.arg}
    assert {"objects", "start"} <= asked <= {field.name for field in fields(Plan)}


def test_the_source_of_a_load_names_all_that_rows_depend_on() -> None:
    plan = Plan(objects=5, seed=3)
    told = describe_source(plan, read_network(plan), 2)
    placed = describe_source(Plan(lon=9.5, lat=50), read_network(plan), 0)
    assert "lon=9.5, lat=50" in placed
    assert "srid" not in placed
    for word in ("seed=3", "network=city", "blocks=16", "objects=5", "first=2", "instants=30", "destinations=1000"):
        assert word in told


# ---- requests


def test_requests_are_sent_while_their_sender_is_there_and_rare_ones_once(
    made: tuple[_journeys.Fixes, _requests.Sent],
) -> None:
    fixes, sent, _ = made
    number = np.repeat(fixes.number, np.diff(fixes.offset))
    there = set(zip(number.tolist(), fixes.xym[:, 2].astype(int).tolist(), strict=True))
    start = Plan().start_s
    slot = start + (sent.t - start) // 60 * 60
    assert set(zip(sent.number.tolist(), slot.tolist(), strict=True)) <= there
    counts = np.bincount(sent.poi, minlength=len(POIS))
    assert counts[len(POI_CATEGORIES) :].tolist() == [1] * len(RARE_POIS)
    assert counts.min() >= 1
    assert len(sent.poi) == pytest.approx(800, rel=0.15)
    assert len(np.unique((sent.t - start) % 60)) > 40


def test_requests_do_not_depend_on_which_objects_are_made_together(
    scenario: Scenario, made: tuple[_journeys.Fixes, _requests.Sent]
) -> None:
    parts = [scenario.make_objects(part)[1] for part in np.split(np.arange(400), [1, 250])]
    together = sorted(zip(made[1].number.tolist(), made[1].t.tolist(), made[1].poi.tolist(), strict=True))
    apart = [
        row for part in parts for row in zip(part.number.tolist(), part.t.tolist(), part.poi.tolist(), strict=True)
    ]
    assert sorted(apart) == together


@pytest.mark.parametrize("mean", [0.3, 2.0, 50.0, 1000.0])
def test_the_number_of_requests_is_poisson(mean: float) -> None:
    count = _requests.draw_poisson(_journeys.hash_uniform(1, np.arange(50_000)), mean)
    assert count.mean() == pytest.approx(mean, rel=0.03)
    assert count.var() == pytest.approx(mean, rel=0.05)


def test_no_requests_are_none_at_all() -> None:
    plan = Plan(objects=20, requests_per_subject=0)
    assert len(Scenario.from_plan(plan, read_network(plan)).make_objects(np.arange(20))[1].number) == 0


def test_districts_ask_for_different_things() -> None:
    uniform = _journeys.hash_uniform(1, np.arange(20_000))
    for name, share in DISTRICTS.items():
        drawn = _requests.choose_by_share(np.tile(np.array(share, float), (20_000, 1)), uniform)
        asked = np.bincount(drawn, minlength=len(share)) / 20_000
        np.testing.assert_allclose(asked, np.array(share) / sum(share), atol=0.02, err_msg=name)


def test_every_district_gives_one_share_to_each_category() -> None:
    assert all(len(share) == len(POI_CATEGORIES) for share in DISTRICTS.values())
    assert len(DISTRICTS) == len(_requests._DISTRICT_MIDDLES) + 1 == len(_requests._DISTRICT_RADII) + 1


def test_a_city_has_all_districts_its_centre_in_the_middle_and_draws_people_there(scenario: Scenario) -> None:
    network = scenario.network
    district = scenario.districts.find_district(network.x, network.y)
    assert set(district.tolist()) == set(range(len(DISTRICTS)))
    middle = np.array(network.extent[:2])
    assert scenario.districts.find_district(*(middle[:, None])).tolist() == [0]
    draw = scenario.districts.compute_attraction(network.x, network.y)
    assert draw.sum() == pytest.approx(1)
    assert draw[district == 0].mean() > 2 * draw[district == len(DISTRICTS) - 1].mean()


def test_what_is_asked_depends_on_where_the_sender_is() -> None:
    plan = Plan(objects=3000, seed=1, requests_per_subject=4)
    scenario = Scenario.from_plan(plan, read_network(plan))
    fixes, sent, _ = scenario.make_objects(np.arange(3000))
    number = np.repeat(fixes.number, np.diff(fixes.offset))
    at = np.searchsorted(number * 10**6 + (fixes.xym[:, 2] - plan.start_s).astype(int) // 60,
                         sent.number * 10**6 + (sent.t - plan.start_s) // 60)  # fmt: skip
    district = scenario.districts.find_district(fixes.xym[at, 0], fixes.xym[at, 1])
    hospital = list(DISTRICTS).index("hospital")
    pharmacy = sent.poi == POI_CATEGORIES.index("pharmacy")
    assert pharmacy[district == hospital].mean() > 0.35
    assert pharmacy[district == 0].mean() < 0.2


# ---- places


def make_places(network: _network.Network, seed: int = 1, *, pois: int = 4000, stations: int = 150) -> _places.Places:
    return _places.Places.from_network(
        network, _requests.Districts.from_network(network), seed, pois=pois, stations=stations
    )


def test_districts_have_different_places_and_all_have_every_category(scenario: Scenario) -> None:
    made = make_places(scenario.network)
    district = scenario.districts.find_district(made.pois[:, 0], made.pois[:, 1])
    counts = np.array([np.bincount(made.category[district == d], minlength=9) for d in range(len(DISTRICTS))])
    assert counts.min() >= 1
    city = counts.sum(axis=0) / counts.sum()
    share = counts / counts.sum(axis=1, keepdims=True)
    assert (np.sum(share * np.log(share / city), axis=1) > 0.1).all()
    assert 0.005 < city[_places.CATEGORIES.index("clinic")] < 0.05
    assert share[:, -1].argmax() == list(DISTRICTS).index("hospital")


def test_any_cell_of_the_built_in_city_grows_to_a_mix_like_the_citys_within_a_quarter_of_it(scenario: Scenario) -> None:
    made = make_places(scenario.network)
    counts = np.zeros((150, 9))
    np.add.at(counts, (cKDTree(made.stations).query(made.pois)[1], made.category), 1)
    assert 0.1 < ((counts > 0).sum(axis=1) < 6).mean() < 0.5
    alone = [_compute_divergence(cell, counts.sum(axis=0)) for cell in counts]
    assert np.quantile(alone, 0.25) > 0.2  # they do tell something
    beside: dict[int, set[int]] = {cell: set() for cell in range(150)}
    for one, other in Voronoi(made.stations).ridge_points.tolist():
        beside[one].add(other)
        beside[other].add(one)
    for first in range(150):
        region, mix = {first}, counts[first]
        while (mix > 0).sum() < 6 or _compute_divergence(mix, counts.sum(axis=0)) > 0.05:
            near = set.union(*(beside[cell] for cell in region)) - region
            region.add(min(near, key=lambda cell: _compute_divergence(mix + counts[cell], counts.sum(axis=0))))
            mix = counts[[*region]].sum(axis=0)
        assert len(region) < 150 / 4


def _compute_divergence(mix: np.ndarray, city: np.ndarray) -> float:
    share, whole = (mix / mix.sum())[mix > 0], (city / city.sum())[mix > 0]
    return float(np.sum(share * np.log(share / whole)))


def test_places_are_apart_in_the_city_and_stations_stand_closest_where_people_go(scenario: Scenario) -> None:
    network, made = scenario.network, make_places(scenario.network)
    for at, least in ((made.pois, 0.4), (made.stations, 12)):
        assert (network.bounds[:2] <= at.min(axis=0)).all()
        assert (at.max(axis=0) <= network.bounds[2:]).all()
        assert cKDTree(at).query(at, 2)[0][:, 1].min() > least
    nearest = cKDTree(made.stations).query(made.stations, 2)[0][:, 1]
    district = scenario.districts.find_district(made.stations[:, 0], made.stations[:, 1])
    assert nearest[district == 0].mean() < 0.8 * nearest[district == len(DISTRICTS) - 1].mean()


def test_places_depend_on_the_network_and_the_seed_and_neither_on_objects_nor_on_each_other(scenario: Scenario) -> None:
    made = make_places(scenario.network, 7)
    plan = Plan(objects=3, instants=5, seed=7, pois=4000, stations=150)
    again = Scenario.from_plan(plan, read_network(plan)).places
    for name in ("pois", "category", "stations"):
        assert np.array_equal(getattr(made, name), getattr(again, name))
    assert np.array_equal(make_places(scenario.network, 7, stations=0).pois, made.pois)
    assert np.array_equal(make_places(scenario.network, 7, pois=0).stations, made.stations)
    assert not np.array_equal(make_places(scenario.network, 8).stations, made.stations)


@pytest.mark.parametrize("ends", [([0.0, 900.0], [0.0, 0.0]), ([0.0, 900.0], [0.0, 900.0]), ([0.0, 0.02], [0.0, 0.0])])
def test_a_single_street_has_as_many_places_as_there_is_room_for(ends: tuple[list[float], list[float]]) -> None:
    x, y = map(np.array, ends)
    one = np.array([0], np.int32), np.array([1], np.int32)
    street = _network._make_network("street", x, y, *one, limit_mps=np.array([10.0]), srid=32632)
    made = make_places(street, pois=500, stations=50)
    room = np.hypot(*(x[1], y[1])) > 1
    assert (len(made.pois), len(made.stations)) == ((500, 50) if room else (1, 1))
    assert len(np.unique(made.pois, axis=0)) == len(made.pois)


# ---- files


def test_files_hold_one_row_a_fix_in_the_city(tmp_path: Path) -> None:
    report = synth.write_files(tmp_path / "new", Plan(objects=50, seed=2), progress=report_nothing)
    fixes, wishes = (read_rows(Path(file)) for file in report.files)
    assert list(fixes[0]) == ["subject", "time", "lon", "lat"] == list(synth.CSV_COLUMNS.values())
    assert (len(fixes), len(wishes)) == (report.fixes, report.requests)
    assert len({row["subject"] for row in fixes}) == report.trajectories == 50
    assert fixes[0]["subject"] == "s0000001"
    lon, lat = np.array([[float(row["lon"]), float(row["lat"])] for row in fixes]).T
    x, y = _utm.to_metres(lon, lat, report.srid)
    plan = Plan(objects=50, seed=2)
    true = Scenario.from_plan(plan, read_network(plan)).make_objects(np.arange(50))[0].xym
    np.testing.assert_allclose(np.column_stack([x, y]), true[:, :2], atol=0.01)
    assert fixes[0]["time"] == "2026-01-05T08:00:00Z"
    assert {row["poi"] for row in wishes} <= set(POIS)
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == ["requests.csv", "trajectories.csv"]


def test_the_same_seed_gives_the_same_files_whatever_the_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def generate(name: str, seed: int) -> list[bytes]:
        report = synth.write_files(tmp_path / name, Plan(objects=60, instants=10, seed=seed), progress=report_nothing)
        return [Path(file).read_bytes().split() for file in report.files]

    one, other = generate("one", 3), generate("other", 4)
    monkeypatch.setattr(synth, "BATCH_FIXES", 70)
    again = generate("again", 3)
    assert one[0] == again[0]
    assert sorted(one[1]) == sorted(again[1])
    assert one[0] != other[0]


def test_places_are_written_once_in_the_columns_that_loads_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synth, "BATCH_FIXES", 70)
    plan = Plan(objects=20, instants=10, pois=300, stations=20)
    report = synth.write_files(tmp_path, plan, progress=report_nothing)
    assert [Path(file).name for file in report.files] == [
        "trajectories.csv", "requests.csv", "pois.csv", "stations.csv",
    ]  # fmt: skip
    pois, stations = (read_rows(Path(file)) for file in report.files[2:])
    assert (len(pois), len(stations)) == (report.pois, report.stations) == (300, 20)
    assert (list(pois[0]), list(stations[0])) == (["x", "y", "category"], ["x", "y"])
    made = Scenario.from_plan(plan, read_network(plan)).places
    assert [row["category"] for row in pois] == [_places.CATEGORIES[c] for c in made.category]
    degrees = (np.array([float(row[axis]) for row in stations]) for axis in "xy")
    np.testing.assert_allclose(np.column_stack(_utm.to_metres(*degrees, report.srid)), made.stations, atol=0.02)


@pytest.mark.stress
def test_the_number_of_threads_changes_nothing(tmp_path: Path) -> None:
    found = []
    for threads in ("1", "2"):
        command = [sys.executable, "-m", "dbanon", "synth", "--csv", str(tmp_path / threads), "--objects", "40"]
        environment = {**os.environ, "NUMBA_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, env=environment, capture_output=True, check=True)
        found.append([(tmp_path / threads / name).read_bytes() for name in ("trajectories.csv", "requests.csv")])
    assert found[0] == found[1]


def test_half_a_file_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trajectories.csv").write_text("what was there before")

    def fail(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(synth, "_append_csv", fail)
    with pytest.raises(KeyboardInterrupt):
        synth.write_files(tmp_path, Plan(objects=5), replace=True, progress=report_nothing)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["what was there before"]


def test_files_that_are_there_are_not_overwritten_unasked(tmp_path: Path) -> None:
    (tmp_path / "requests.csv").write_text("somebody's work")
    with expect_refusal(ParameterError, "requests.csv", "already", "--csv", "--replace"):
        synth.write_files(tmp_path, Plan(objects=5), progress=report_nothing)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["somebody's work"]
    synth.write_files(tmp_path, Plan(objects=5), replace=True, progress=report_nothing)
    assert "poi" in (tmp_path / "requests.csv").read_text()


def test_a_directory_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with expect_refusal(DataError, "writable", "taken"):
        synth.write_files(tmp_path / "taken", Plan(objects=5), progress=report_nothing)


def test_files_in_degrees_need_a_zone(tmp_path: Path) -> None:
    (tmp_path / "n").write_text("id,x,y\n1,500000,4000000\n2,500100,4000000\n")
    (tmp_path / "e").write_text("from,to\n1,2\n")
    plan = Plan(objects=5, nodes=tmp_path / "n", edges=tmp_path / "e", srid=25832)
    with expect_refusal(ParameterError, "SRID 25832", "UTM"):
        synth.write_files(tmp_path, plan, progress=report_nothing)


def test_the_demo_is_half_an_hour_of_300_subjects(tmp_path: Path) -> None:
    trajectories, queries = synth.write_demo(tmp_path)
    fixes = read_rows(trajectories)
    times = {row["time"] for row in fixes}
    assert len({row["subject"] for row in fixes}) == 300
    assert (min(times), max(times), len(times)) == ("2026-01-05T08:00:00Z", "2026-01-05T08:29:00Z", 30)
    assert set(RARE_POIS) <= {row["poi"] for row in read_rows(queries)}


def test_memory_is_bounded_by_batches_not_by_objects() -> None:
    plan = Plan(objects=10**6, instants=1000)
    sizes = [len(numbers) for _, numbers in zip(range(5), synth._yield_numbers(plan, 0), strict=False)]
    assert sizes == [synth.BATCH_FIXES // 1000] * 5
    assert len(next(synth._yield_numbers(Plan(instants=10**6), 0))) == 1


def test_a_network_in_one_street_has_a_centre_and_requests() -> None:
    x, y = np.array([0.0, 900.0]), np.zeros(2)
    street = _network._make_network(
        "street", x, y, np.array([0], np.int32), np.array([1], np.int32), limit_mps=np.array([10.0]), srid=32632
    )
    scenario = Scenario.from_plan(Plan(objects=20), street)
    fixes, sent, _ = scenario.make_objects(np.arange(20))
    assert np.isfinite(fixes.xym).all()
    assert len(sent.number) > 10


# --- phone records ----------------------------------------------------------------------------------------------------


def make_day(objects: int, **options: float) -> tuple[Scenario, _journeys.Fixes, _journeys.Fixes]:
    plan = Plan(objects=objects, instants=1440, start=1_767_571_200, calls_per_day=30, **options)  # midnight
    scenario = Scenario.from_plan(plan, read_network(plan))
    every = replace(plan, calls_per_day=None)
    walked = replace(scenario, plan=every).make_objects(np.arange(objects)).fixes
    return scenario, walked, scenario.make_objects(np.arange(objects))[0]


def test_calls_are_made_in_bursts_by_day_while_people_are_there() -> None:
    _, walked, calls = make_day(400)
    assert (np.diff(calls.offset) >= 1).all()
    whole = np.diff(walked.offset) == 1440
    assert 24 < np.diff(calls.offset)[whole].mean() < 36
    owner = np.repeat(np.arange(400), np.diff(calls.offset))
    there = {(o, t) for o, t in zip(np.repeat(np.arange(400), np.diff(walked.offset)), walked.xym[:, 2], strict=True)}
    assert there.issuperset(zip(owner, calls.xym[:, 2], strict=True))
    hours = np.bincount((calls.xym[:, 2] // 3600 % 24).astype(int), minlength=24)
    assert hours[2:5].sum() * 20 < hours[16:19].sum()
    same = np.diff(owner) == 0
    assert (np.diff(calls.xym[:, 2])[same] > 0).all()
    assert (np.diff(calls.xym[:, 2])[same] == 60).mean() > 0.5


def test_calls_are_placed_at_the_nearest_of_a_few_towers() -> None:
    _, walked, calls = make_day(100)
    towers = np.unique(calls.xym[:, :2], axis=0)
    assert 5 < len(towers) < 40
    where = {(o, t): xy for o, t, *xy in zip(np.repeat(np.arange(100), np.diff(walked.offset)), walked.xym[:, 2],
                                             walked.xym[:, 0], walked.xym[:, 1], strict=True)}  # fmt: skip
    owner = np.repeat(np.arange(100), np.diff(calls.offset))
    true = np.array([where[o, t] for o, t in zip(owner, calls.xym[:, 2], strict=True)])
    nearest = towers[np.argmin(((true[:, None] - towers) ** 2).sum(axis=2), axis=1)]
    assert np.array_equal(nearest, calls.xym[:, :2])


def test_calls_are_placed_at_the_base_stations_where_there_are_some() -> None:
    scenario, _, calls = make_day(100, stations=40)
    at = {tuple(xy) for xy in calls.xym[:, :2].tolist()}
    assert 20 < len(at) <= 40
    assert at <= {tuple(xy) for xy in scenario.places.stations.tolist()}


def test_phone_records_do_not_depend_on_which_objects_are_made_together() -> None:
    scenario, _, calls = make_day(50)
    alone = scenario.make_objects(np.array([17]))[0]
    assert np.array_equal(alone.xym, calls.xym[calls.offset[17] : calls.offset[18]])


# ---- quasi-identifiers


def make_known(kind: str, *, objects: int = 300, instants: int = 60, part: int = 300) -> dict:
    """Generate quasi-identifiers in parts: the instants of each object, beside those at which it is there."""
    plan = Plan(
        objects=objects, instants=instants, seed=7, quasi_identifiers=kind, quasi_identifier_size=12,
        quasi_identifier_overlap=3, requests_per_subject=0, blocks=6, destinations=20,
    )  # fmt: skip
    scenario, found = Scenario.from_plan(plan, read_network(plan)), {}
    for low in range(0, objects, part):
        made = scenario.make_objects(np.arange(low, min(low + part, objects)))
        there = np.split((made.fixes.xym[:, 2].astype(int) - plan.start_s) // plan.step_s, made.fixes.offset[1:-1])
        for number, instants_there in zip(made.fixes.number.tolist(), there, strict=True):
            own = made.known.t[made.known.number == number]
            found[number] = ({*((own - plan.start_s) // plan.step_s).tolist()}, {*instants_there.tolist()})
    return found


@pytest.mark.parametrize("kind", ["random", "disjoint"])
def test_quasi_identifiers_are_of_instants_at_which_their_object_is_there(kind: str) -> None:
    found = make_known(kind)
    sizes = [len(own) for own, _ in found.values()]
    assert all(own and own <= there for own, there in found.values())
    assert max(sizes) == 12
    assert make_known(kind, part=70) == found  # by their numbers alone
    whole = [len(own) for own, there in found.values() if len(there) == 60]
    assert min(whole) >= (1 if kind == "disjoint" else 3)  # what is borrowed may be one's own already


def test_disjoint_quasi_identifiers_share_nothing_while_instants_last() -> None:
    found = [own for own, there in make_known("disjoint", objects=40, instants=600).values() if len(there) == 600]
    assert len(set().union(*found)) == sum(map(len, found))


def test_any_object_may_be_linked_with_any_other_at_random() -> None:
    found = {i: own for i, (own, there) in make_known("random", instants=2000).items() if len(there) == 2000}
    shared = [len(found[i] & found[j]) for i in found for j in found if i < j]
    assert 0.5 * len(found) < sum(s >= 3 for s in shared) < 1.5 * len(found)
