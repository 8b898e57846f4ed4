"""The truth lies within what analysts are answered: every function, every family, areas and times at random.

The answers are those to a login that may read the releases and nothing else; the truth is that of `analyst_truth`.
"""

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
import shapely

from dbanon.server import Target
from dbanon.testing import cloned_database, logins
from tests.acceptance import analyst_town as town
from tests.acceptance import analyst_truth as truths
from tests.acceptance.analyst_truth import Truth

pytestmark = pytest.mark.db

NAMES = list(town.RUNS)
SOME_TIME = [name for name in NAMES if name.startswith(("kte", "semantic"))]
SNAPSHOTS = [name for name in NAMES if name.startswith("sites")]
MOVING = [name for name in NAMES if name not in SNAPSHOTS]
AREA = "ST_GeomFromText(%s, 32610)"


@pytest.fixture(scope="module")
def database(dbanon_server: Target, dbanon_template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of one database for all tests here, with every release of the town."""
    with cloned_database(dbanon_server, dbanon_template) as url:
        town.load(url, tmp_path_factory.mktemp("town"))
        town.publish_all(url)
        yield url


@pytest.fixture(scope="module")
def analyst(database: str) -> Iterator[psycopg.Connection]:
    with logins(database) as login, psycopg.connect(login("dbanon_analyst"), autocommit=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def truth_of(database: str) -> Any:
    known: dict[str, Truth] = {}

    def look(name: str) -> Truth:
        if name not in known:
            known[name] = truths.read(database, NAMES.index(name) + 1)
        return known[name]

    return look


def an_area(rng: np.random.Generator) -> shapely.Geometry:
    """A box, a triangle or two discs, of a hundred metres to the whole town."""
    x, y = town.MIDDLE + rng.uniform(0, town.SIDE_M, 2)
    r = 50 * 2 ** rng.uniform(0, 6.5)
    kind = rng.integers(4)
    if kind == 0:
        return shapely.MultiPoint(rng.uniform(-2 * r, 2 * r, (3, 2)) + [x, y]).convex_hull
    if kind == 1:
        return shapely.union(shapely.Point(x, y).buffer(r, 8), shapely.Point(x + 3 * r, y).buffer(r / 2, 8))
    return shapely.box(*np.round([x - r, y - r, x + r * rng.uniform(0.2, 2), y + r]))


def a_span(rng: np.random.Generator, truth: Truth) -> tuple[float, float]:
    """From moments to the whole release, and beyond it."""
    since, until = np.sort(rng.uniform(truth.since - 300, truth.until + 300, 2))
    if rng.random() < 0.3:
        since = until - 10.0 ** rng.uniform(-2, 2)
    if until <= truth.since or since >= truth.until:
        return truth.since, truth.until
    return float(since), float(until)


def text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def spelled(span: tuple[float, float]) -> str:
    return f"[{text(span[0])},{text(span[1])})"


def exactly(span: str) -> str:
    return span


def greatest_and_all(tracks: list[truths.Track]) -> int:
    return len({track.person for track in tracks})


def ask(analyst: psycopg.Connection, query: str, *params: object) -> list[tuple[Any, ...]]:
    return analyst.execute(query, params).fetchall()  # type: ignore[arg-type]


def rounded(span: tuple[float, float]) -> tuple[float, float]:
    """To microseconds, as the server has times."""
    low, high = (datetime.fromtimestamp(s, UTC).timestamp() for s in span)
    return low, high


@pytest.mark.parametrize("name", NAMES)
def test_counts_during_a_span_hold_the_truth(
    analyst: psycopg.Connection, truth_of: Any, rng: np.random.Generator, name: str
) -> None:
    truth, tight = truth_of(name), Counter[str]()
    for _ in range(60):
        area, span = an_area(rng), rounded(a_span(rng, truth))
        true = len({t.person for t in truth.during(*span) if t.inside(area).any()})
        [(low, expected, high)] = ask(
            analyst, f"SELECT * FROM published.count_inside(%s, {AREA}, during => %s)",
            f"published.{name}", area.wkt, spelled(span),
        )  # fmt: skip
        assert low <= true <= high, (area.wkt, span)
        assert low - 1e-6 <= expected <= high + 1e-6
        tight.update(low=low > 0, high=high < town.PEOPLE)
    assert min(tight["low"], tight["high"]) > 3, "bounds that say nothing"


@pytest.mark.parametrize("name", [name for name in NAMES if name not in SOME_TIME])
def test_counts_at_a_moment_hold_the_truth(
    analyst: psycopg.Connection, truth_of: Any, rng: np.random.Generator, name: str
) -> None:
    truth = truth_of(name)
    for _ in range(40):
        area, at = an_area(rng), rounded((rng.uniform(truth.since, truth.until), 0))[0]
        low_t, high_t = truth.slots(at, at + 1e-6) if truth.step_s else (truth.since, truth.until)
        true = len({t.person for t in truth.during(low_t, high_t) if t.inside(area).any()})
        [(low, expected, high)] = ask(
            analyst, f"SELECT * FROM published.count_inside(%s, {AREA}, %s::timestamptz)",
            f"published.{name}", area.wkt, text(at),
        )  # fmt: skip
        assert low <= true <= high, (area.wkt, at)
        assert low - 1e-6 <= expected <= high + 1e-6


@pytest.mark.parametrize("by_hour", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_densities_hold_the_truth_and_sum_to_the_people(
    analyst: psycopg.Connection, truth_of: Any, rng: np.random.Generator, name: str, by_hour: bool
) -> None:
    truth = truth_of(name)
    for side in (90.0, 400.0, 1777.7):
        span = rounded(a_span(rng, truth))
        found = ask(
            analyst, "SELECT extract(epoch FROM hour)::float8, ST_XMin(cell), ST_YMin(cell), at_least, expected, at_most"
            " FROM published.density(%s, %s, %s, %s)", f"published.{name}", side, spelled(span), by_hour,
        )  # fmt: skip
        low, high = max(span[0], truth.since), min(span[1], truth.until)
        hours = [(h, max(low, h), min(high, h + 3600)) for h in np.arange(low // 3600 * 3600, high, 3600)]
        for hour, since, until in hours if by_hour else [(None, low, high)]:
            since_slot, until_slot = truth.slots(since, until)
            instants = (until_slot - since_slot) / truth.step_s if truth.step_s else 1
            true: Counter[tuple[int, int]] = Counter()
            people = 0.0
            for track in truth.during(since, until):
                cells = list(zip((track.x // side).tolist(), (track.y // side).tolist(), strict=True))
                if name in SOME_TIME:
                    true.update(set(cells))
                else:
                    true.update(cells)
                    people += len(cells) / instants
            told = {
                (round(x / side), round(y / side)): bounds for h, x, y, *bounds in found if h == hour
            }
            scale = 1 if name in SOME_TIME else instants
            assert set(true) <= set(told)
            for cell, (at_least, expected, at_most) in told.items():
                assert at_least - 1e-6 <= true[cell] / scale <= at_most + 1e-6, (cell, span)
                assert -1e-9 <= expected <= at_most + 1e-6
            if name in SOME_TIME:
                [(people,)] = ask(
                    analyst, f"SELECT count(DISTINCT record_id) FROM published.{name} WHERE period && %s::tstzrange",
                    spelled((since, until)),
                )  # fmt: skip
            assert sum(expected for _, expected, _ in told.values()) == pytest.approx(people)


@pytest.fixture(scope="module")
def zones(analyst: psycopg.Connection) -> dict[str, shapely.Geometry]:
    """A temporary table of four quarters of the town and a disc over all of them."""
    x, y = town.MIDDLE
    half = town.SIDE_M / 2
    made = {
        f"{i}{j}": shapely.box(x + i * half, y + j * half, x + (i + 1) * half, y + (j + 1) * half)
        for i, j in itertools.product((-1, 0, 1, 2), repeat=2)
    }
    made["disc"] = shapely.Point(x + half, y + half).buffer(half)
    analyst.execute("CREATE TEMPORARY TABLE zones (zone text, shape geometry)")
    for zone, shape in made.items():
        analyst.execute(f"INSERT INTO zones VALUES (%s, {AREA})", [zone, shape.wkt])
    return made


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MOVING)
def test_flows_hold_the_truth(
    analyst: psycopg.Connection, truth_of: Any, rng: np.random.Generator, zones: dict[str, shapely.Geometry], name: str
) -> None:
    truth, certain = truth_of(name), 0
    for _ in range(8):
        span = rounded(a_span(rng, truth))
        true: dict[tuple[str, str], set[str]] = {}
        for track in truth.during(*span):
            ends = [
                [zone for zone, shape in zones.items() if shapely.intersects_xy(shape, track.x[i], track.y[i])]
                for i in (0, -1)
            ]
            for pair in itertools.product(*ends):
                true.setdefault(pair, set()).add(track.person)
        told = {
            (origin, destination): bounds
            for origin, destination, *bounds in ask(
                analyst, "SELECT * FROM published.flows(%s, 'zones', 'zone', %s)", f"published.{name}", spelled(span)
            )
        }
        assert set(true) <= set(told)
        for pair, (low, expected, high) in told.items():
            assert low <= len(true.get(pair, ())) <= high, (pair, span)
            assert low - 1e-6 <= expected <= high + 1e-6
            certain += low
    assert certain > 0, "bounds that say nothing"


def a_line(rng: np.random.Generator) -> np.ndarray:
    """Two to seven points through the town, some of them a closed ring."""
    size = rng.choice([300, 1000, 3000, 6000])
    points = town.MIDDLE + rng.uniform(0, town.SIDE_M, 2) + rng.normal(0, size, (rng.integers(2, 8), 2))
    return np.vstack([points, points[:1]]) if len(points) > 2 and rng.random() < 0.3 else points


@pytest.mark.parametrize("name", MOVING)
def test_crossings_hold_the_truth(
    analyst: psycopg.Connection, truth_of: Any, rng: np.random.Generator, name: str
) -> None:
    truth, certain = truth_of(name), 0
    for _ in range(30):
        span, line = rounded(a_span(rng, truth)), a_line(rng)
        true: dict[str, set[str]] = {"left to right": set(), "right to left": set()}
        for track in truth.during(*span):
            for direction in truths.directions(track, line):
                true[direction].add(track.person)
        told = ask(
            analyst, f"SELECT * FROM published.crossings(%s, {AREA}, %s)",
            f"published.{name}", shapely.LineString(line).wkt, spelled(span),
        )  # fmt: skip
        assert {direction for direction, *_ in told} == set(true)
        for direction, low, high in told:
            assert low <= len(true[direction]) <= high, (direction, line, span)
            certain += low
    assert certain > 0 or name == "tp_quadrants", "bounds that say nothing"


@pytest.mark.parametrize("name", [name for name in MOVING if name not in SOME_TIME])
def test_dwelling_holds_the_truth(
    analyst: psycopg.Connection, database: str, truth_of: Any, rng: np.random.Generator, name: str
) -> None:
    truth = truth_of(name)
    # Numbers of records are drawn anew at publication: records are known again by their rows.
    shape = "SELECT record_id, array_agg((period, ST_AsEWKB(region))::text ORDER BY period) FROM {} GROUP BY record_id"
    shown = {tuple(rows): record for record, rows in ask(analyst, shape.format(f"published.{name}"))}
    with psycopg.connect(database) as owner:
        run = f"(SELECT * FROM dbanon.cloak WHERE run_id = {NAMES.index(name) + 1}) c"
        number = {record: shown[tuple(rows)] for record, rows in ask(owner, shape.format(run))}
    alike = Counter(number.values())
    for _ in range(25):
        area, span = an_area(rng), rounded(a_span(rng, truth))
        told = {
            record: bounds for record, *bounds in ask(
                analyst, f"SELECT record_id, instants, surely, expectedly, possibly FROM published.dwell(%s, {AREA}, %s)",
                f"published.{name}", area.wkt, spelled(span),
            )
        }  # fmt: skip
        for track in truth.during(*span):
            instants, surely, expectedly, possibly = told.get(number[track.record], (len(track.t), 0, 0, 0))
            if alike[number[track.record]] == 1:
                assert instants == len(track.t)
                assert surely <= track.inside(area).sum() <= possibly, (area.wkt, span)
            assert surely - 1e-6 <= expectedly <= possibly + 1e-6


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("tp")])
def test_requests_hold_the_truth(
    analyst: psycopg.Connection, truth_of: Any, rng: np.random.Generator, name: str
) -> None:
    truth, certain = truth_of(name), 0
    for _ in range(40):
        area, span = an_area(rng), rounded(a_span(rng, truth))
        low_t, high_t = truth.slots(max(span[0], truth.since), min(span[1], truth.until))
        true: dict[str, set[str]] = {}
        for sent in truth.requests:
            if low_t <= sent.t < high_t and shapely.intersects_xy(area, sent.x, sent.y):
                true.setdefault(sent.content, set()).add(sent.person)
        told = {
            json.dumps(content): bounds for content, *bounds in ask(
                analyst, f"SELECT request, at_least, at_most, weight FROM published.requests_inside(%s, {AREA}, %s)",
                f"published.{name}", area.wkt, spelled(span),
            )
        }  # fmt: skip
        assert set(true) <= set(told)
        for content, (low, high, weight) in told.items():
            assert low <= len(true.get(content, ())) <= high, (content, area.wkt, span)
            assert weight >= 0
            certain += low
    assert certain > 0, "bounds that say nothing"
