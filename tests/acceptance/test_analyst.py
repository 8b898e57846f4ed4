"""The truth lies within what analysts are answered: every function, every family, areas and times at random.

On a generated town and, where their data lie beside the repository, on taxis. The answers are those to a login that may
read the releases and nothing else; the truth is that of `analyst_truth`.
"""

import functools
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import psycopg
import pytest
import shapely

import dbanon
from dbanon.base.progress import report_nothing
from dbanon.cli import report
from dbanon.evaluation import evaluating
from dbanon.methods import METHODS
from dbanon.metrics.surface import Rows, make_surface
from dbanon.pages import words
from dbanon.postgres.server import Target
from dbanon.testing import database_url, logins, shared_database
from tests.acceptance import analyst_truth as truths
from tests.acceptance.analyst_places import SRID, Place
from tests.acceptance.analyst_taxis import CABS, SOME_TAXIS
from tests.acceptance.analyst_town import NIGHT_PEOPLE, NIGHTS, PEOPLE, START_S, TOWN, TOWN_IN_PARTS, VISITS, ZONE
from tests.acceptance.analyst_truth import Truth
from tests.facts import expect_refusal
from tests.hints import tries
from tests.reading import COUNT_INSIDE, collect_notices

pytestmark = pytest.mark.db

PLACES = {
    "town": TOWN,
    "nights": NIGHTS,
    "parts": TOWN_IN_PARTS,
    "visits": VISITS,
    **({"taxis": SOME_TAXIS} if CABS.is_file() else {}),
}
Cases = Callable[[int], range]
AREA = "ST_GeomFromText(%s, 32610)"


@dataclass(frozen=True)
class Opened:
    """A place whose releases are published, and an analyst's login to them, who has a temporary table of zones."""

    place: Place
    url: str
    analyst: psycopg.Connection
    zones: dict[str, shapely.Geometry]
    known: dict[str, Truth] = field(default_factory=dict)

    def truth(self, name: str) -> Truth:
        if name not in self.known:
            self.known[name] = truths.read(self.url, self.place.numbers(name))
        return self.known[name]

    def an_area(self, rng: np.random.Generator) -> shapely.Geometry:
        """A box, a triangle or two discs, of a sixtieth of the place to all of it."""
        x, y = self.place.corner + rng.uniform(0, self.place.side_m, 2)
        r = self.place.side_m / 60 * 2 ** rng.uniform(0, 6.5)
        kind = rng.integers(4)
        if kind == 0:
            return shapely.MultiPoint(np.array([x, y]) + rng.uniform(-2 * r, 2 * r, (3, 2))).convex_hull
        if kind == 1:
            return shapely.union(shapely.Point(x, y).buffer(r, 8), shapely.Point(x + 3 * r, y).buffer(r / 2, 8))
        return shapely.box(*np.round([x - r, y - r, x + r * rng.uniform(0.2, 2), y + r]))

    def a_line(self, rng: np.random.Generator) -> np.ndarray:
        """Two to seven points through the place, some of them a closed ring."""
        size = self.place.side_m * rng.choice([1 / 30, 1 / 10, 1 / 3, 1, 2])
        points = self.place.corner + rng.uniform(0, self.place.side_m, 2)
        points = points + rng.normal(0, size, (rng.integers(2, 8), 2))
        return np.vstack([points, points[:1]]) if len(points) > 2 and rng.random() < 0.3 else points


@pytest.fixture(scope="module")
def open_place(
    dbanon_server: Target, dbanon_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Opened]]:
    """Publish a place when it is first asked for, in a database that all tests here read."""
    with ExitStack() as stack:

        @functools.cache
        def opened(name: str) -> Opened:
            place = PLACES[name]

            def fill(url: str) -> None:
                place.load(url, tmp_path_factory.mktemp(name))
                place.publish_all(url)

            shared = shared_database(dbanon_server, f"place_{name}", fill, template=dbanon_template)
            url = database_url(dbanon_server.url, dbname=stack.enter_context(shared))
            login = stack.enter_context(logins(url))
            analyst = stack.enter_context(psycopg.connect(login("dbanon_analyst"), autocommit=True))
            return Opened(place, url, analyst, _make_zones(place, analyst))

        yield opened


def _make_zones(place: Place, analyst: psycopg.Connection) -> dict[str, shapely.Geometry]:
    """Make a temporary table of the quarters of a place, those around it, and a disc over its middle."""
    (x, y), half = place.corner, place.side_m / 2
    made = {
        f"{i}{j}": shapely.box(x + i * half, y + j * half, x + (i + 1) * half, y + (j + 1) * half)
        for i, j in itertools.product((-1, 0, 1, 2), repeat=2)
    }
    made["disc"] = shapely.Point(x + half, y + half).buffer(half)
    analyst.execute("CREATE TEMPORARY TABLE zones (zone text, shape geometry)")
    for zone, shape in made.items():
        analyst.execute(f"INSERT INTO zones VALUES (%s, {AREA})", [zone, shape.wkt])
    return made


@pytest.fixture
def opened(request: pytest.FixtureRequest, open_place: Callable[[str], Opened]) -> Opened:
    """Give the place that a test names, by default the town."""
    return open_place(getattr(request, "param", "town"))


@pytest.fixture
def database(opened: Opened) -> str:
    return opened.url


@pytest.fixture
def analyst(opened: Opened) -> psycopg.Connection:
    return opened.analyst


SOME_TIME = ("kte", "semantic", "visits")
SNAPSHOT = ("sensitive-sites",)


def parametrize_releases(
    *, but: tuple[str, ...] = (), places: tuple[str, ...] = tuple(PLACES), many: tuple[str, ...] = ()
) -> pytest.MarkDecorator:
    """Run a test for each release of each place, but those of some families; of those of places `many`, some."""
    listed = [
        pytest.param(
            place,
            name,
            id=f"{place}-{name}",
            marks=[*[pytest.mark.stress] * (place == "taxis"), *[pytest.mark.many] * (place in many)],
        )
        for place, of in PLACES.items()
        if place in places
        for name, (family, *_) in of.runs.items()
        if (name if name == "visits" else family) not in but
    ]
    return pytest.mark.parametrize(("opened", "name"), listed, indirect=["opened"])


def draw_span(rng: np.random.Generator, truth: Truth) -> tuple[float, float]:
    """From moments to the whole release, and beyond it."""
    since, until = np.sort(rng.uniform(truth.since - 300, truth.until + 300, 2))
    if rng.random() < 0.4:
        since = until - 10.0 ** rng.uniform(-2, 3)
    if not any(since < part_until and part_since < until for part_since, part_until in truth.spoken):
        return truth.since, truth.until
    return float(since), float(until)


def draw_moment(rng: np.random.Generator, truth: Truth) -> float:
    return float(rng.uniform(*truth.spoken[rng.integers(len(truth.spoken))]))


def format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def format_span(span: tuple[float, float]) -> str:
    return f"[{format_time(span[0])},{format_time(span[1])})"


def ask(analyst: psycopg.Connection, query: str, *params: object) -> list[tuple[Any, ...]]:
    return analyst.execute(query, params).fetchall()  # type: ignore[arg-type]


def round_span(span: tuple[float, float]) -> tuple[float, float]:
    """To microseconds, as the server has times."""
    low, high = (datetime.fromtimestamp(s, UTC).timestamp() for s in span)
    return low, high


def test_every_algorithm_whose_runs_are_published_is_asked() -> None:
    asked = {
        (family, options[1] if options[0] == "--algorithm" else METHODS[family].algorithms[0].name)
        for family, *options in TOWN.runs.values()
    }
    assert asked == {(method.name, algorithm.name) for method in METHODS.values() for algorithm in method.algorithms}


@parametrize_releases()
def test_rows_are_true_when_a_release_says_and_records_of_one_phase_are_of_different_people(
    opened: Opened, name: str
) -> None:
    [(holds, step_s)] = ask(opened.analyst, "SELECT holds, step_s FROM published.releases WHERE name = %s", name)
    groups = """
        SELECT t.subject, g.phase FROM dbanon.membership m JOIN dbanon.trajectory t USING (trajectory_id)
        JOIN (SELECT c.record_id, max(published_inner.phase_of(a, lower(c.period), upper(c.period))) AS phase,
                  (SELECT array_agg(o.trajectory_id ORDER BY 1) FROM dbanon.membership o
                   WHERE o.run_id = %(run)s AND o.record_id = c.record_id) AS members
              FROM dbanon_internal.describe_as_release(%(run)s) a, dbanon.cloak c WHERE c.run_id = %(run)s
              GROUP BY c.record_id) g USING (record_id)
        WHERE m.run_id = %(run)s AND m.period IS NULL AND g.phase IS NOT NULL
        GROUP BY t.subject, g.phase HAVING count(DISTINCT g.members) > 1
    """
    people = """
        SELECT bool_and(dbanon_internal.count_people(run_id, release_id) = dbanon_internal.count_people(run_id))
        FROM dbanon.release WHERE run_id = %(run)s"""
    for run in opened.place.numbers(name):
        assert truths.list_untrue(opened.url, run, holds, step_s) == []
        with psycopg.connect(opened.url) as owner:
            assert owner.execute(groups, {"run": run}).fetchall() == []
            assert owner.execute(people, {"run": run}).fetchall() == [(True,)]


@pytest.mark.parametrize("opened", ["visits"], indirect=True)
def test_people_who_came_one_after_the_other_are_not_said_to_be_there_at_a_moment(opened: Opened) -> None:
    """Nobody knows who of them was there at three o'clock."""
    with expect_refusal("DA011"):
        opened.analyst.execute(f"SELECT * FROM published.dwell('published.visits', {WORLD})")
    moment = f"{COUNT_INSIDE}('published.visits', {WORLD}, %s)"
    [(low, expected, high)] = ask(opened.analyst, moment, datetime.fromtimestamp(START_S + 10_800, UTC))
    assert (low, high) == (0, PEOPLE)
    assert expected < PEOPLE / 10
    hour = format_span((START_S + 10_800, START_S + 14_400))
    [(low, _, high)] = ask(
        opened.analyst,
        f"{COUNT_INSIDE}('published.visits', {WORLD}, during => %s)",
        hour,
    )
    assert (low, high) == (0, PEOPLE)


@parametrize_releases()
def test_counts_during_a_span_hold_the_truth(opened: Opened, rng: np.random.Generator, cases: Cases, name: str) -> None:
    truth = opened.truth(name)
    for _ in cases(60):
        area, span = opened.an_area(rng), round_span(draw_span(rng, truth))
        true = truth.during(span).inside(area).people()
        [(low, expected, high)] = ask(
            opened.analyst, f"{COUNT_INSIDE}(%s, {AREA}, during => %s)",
            f"published.{name}", area.wkt, format_span(span),
        )  # fmt: skip
        assert low <= true <= high, (area.wkt, span)
        assert low - 1e-6 <= expected <= high + 1e-6


@pytest.mark.parametrize("opened", ["nights"], indirect=True)
def test_people_with_a_record_each_day_count_once(opened: Opened) -> None:
    truth, analyst = opened.truth("semantic_days"), opened.analyst
    days = Counter(
        days.pop() if len(days) == 1 else None  # of a group of several days
        for _, days in ask(
            analyst,
            "SELECT record_id, array_agg(DISTINCT (t AT TIME ZONE %s)::date) FROM published.semantic_days"
            " CROSS JOIN LATERAL (VALUES (valid_from), (valid_to - interval '1 second')) v (t) GROUP BY record_id",
            ZONE,
        )
    )
    records, mixed = days.total(), days.pop(None, 0)
    assert len(truth.tracks) == records > 2 * NIGHT_PEOPLE
    assert 0 < mixed < records / 4
    people = {track.person for track in truth.tracks}
    [(low, expected, high)] = ask(
        analyst,
        f"{COUNT_INSIDE}('published.semantic_days', {WORLD}, during => {ALL})",
    )
    assert low == max(days.values())
    assert low <= expected <= high < records
    assert low <= len(people) <= high
    analyst.execute(f"CREATE TEMPORARY TABLE everywhere AS SELECT 'all' AS zone, {WORLD} AS shape")
    flow = (
        "SELECT at_least, expected, at_most FROM published.flows('published.semantic_days', 'everywhere', 'zone', {})"
    )
    assert ask(analyst, flow.format(ALL)) == [(low, records, records)]  # one each day
    middle = NIGHTS.corner[0] + NIGHTS.side_m / 2
    line = f"ST_GeomFromText('LINESTRING({middle} 0,{middle} 9000000)', {SRID})"
    crossed = ask(analyst, f"SELECT at_least FROM published.crossings('published.semantic_days', {line}, {ALL})")
    assert all(len(people) / 3 < least <= len(people) for (least,) in crossed)  # most of them, each day
    dense = "SELECT at_least, expected, at_most FROM published.density('published.semantic_days', 1e8, {})"
    assert ask(analyst, dense.format(ALL)) == [(low, records, records)]


@parametrize_releases()
def test_counts_at_a_moment_hold_the_truth(opened: Opened, rng: np.random.Generator, cases: Cases, name: str) -> None:
    truth = opened.truth(name)
    for _ in cases(40):
        area, at = opened.an_area(rng), round_span((draw_moment(rng, truth), 0))[0]
        true = truth.at(at).inside(area).people()
        [(low, expected, high)] = ask(
            opened.analyst, f"{COUNT_INSIDE}(%s, {AREA}, %s::timestamptz)",
            f"published.{name}", area.wkt, format_time(at),
        )  # fmt: skip
        assert low <= true <= high, (area.wkt, at)
        assert low - 1e-6 <= expected <= high + 1e-6


@parametrize_releases(many=("town", "taxis"))
def test_a_surface_is_made_again_from_the_rows_alone_to_the_byte(opened: Opened, name: str) -> None:
    query = """SELECT since, until, cell_m, left_column, bottom_row, columns, rows, speed_mps, sums
        FROM published.surfaces WHERE name = %s"""
    shown = ask(opened.analyst, query, name)
    method, *given = opened.place.runs[name]
    assert bool(shown) == (method not in ("semantic", "sensitive-sites") and "cloak=quadrant" not in given)
    for since, until, *surface in shown:
        rows = ask(
            opened.analyst,
            "SELECT ST_XMin(region), ST_YMin(region), ST_XMax(region), ST_YMax(region), crowd, subjects, record_id,"
            " extract(epoch FROM valid_from)::float8, extract(epoch FROM valid_to)::float8"
            f" FROM published.{name} WHERE valid_from >= %s AND valid_from < %s ORDER BY record_id, seq",
            since, until,
        )  # fmt: skip
        *bounds, crowd, subjects, record, start, end = np.array(rows, float).T
        offset = np.append(np.flatnonzero(np.append(True, np.diff(record) != 0)), len(record))
        people = crowd.astype(int), subjects.astype(int)
        made = make_surface(Rows(np.stack(bounds, axis=1), *people, offset, np.arange(len(rows)), start, end))
        assert made is not None
        assert [*made[:-1], made.sums.tolist()] == surface


@parametrize_releases(many=("town", "taxis"))
def test_an_interval_lies_within_the_bounds_and_a_difference_has_one(
    opened: Opened, rng: np.random.Generator, name: str
) -> None:
    truth = opened.truth(name)
    for _ in range(5):
        area, span, other = opened.an_area(rng), *(round_span(draw_span(rng, truth)) for _ in range(2))
        counts = []
        for during in (span, other):
            query = (
                f"SELECT at_least, expected, at_most, low, high FROM published.count_inside(%s, {AREA}, during => %s)"
            )
            [(least, expected, most, low, high)] = ask(
                opened.analyst, query, f"published.{name}", area.wkt, format_span(during)
            )
            assert least <= low <= expected <= high <= most
            counts.append(expected)
        query = f"SELECT * FROM published.compare_counts(%s, {AREA}, during => %s, other_during => %s)"
        given = f"published.{name}", area.wkt, format_span(span), format_span(other)
        [(one, two, difference, low, high)] = ask(opened.analyst, query, *given)
        assert (one, two) == pytest.approx(counts)
        assert low < difference < high
        assert difference == pytest.approx(two - one)


@parametrize_releases(places=("town", "taxis"), many=("town",))
def test_an_evaluation_of_a_run_asks_what_analysts_ask_and_knows_the_truth(
    opened: Opened, rng: np.random.Generator, name: str
) -> None:
    truth, [number] = opened.truth(name), opened.place.numbers(name)
    with dbanon.connect(opened.url) as database:
        database.progress = report_nothing
        measured = database.evaluate(number, queries=100)
    questions, answers = measured.questions, measured.answers
    assert questions is not None
    assert answers is not None
    assert measured.true is not None
    assert questions.moment.any()
    assert ((answers.at_least <= measured.true) & (measured.true <= answers.at_most)).all()
    coverage = {(one.side_m, one.asked): one.value for one in measured.figures if one.name == "coverage"}
    assert coverage == {(side, kind): 1.0 for side in np.unique(questions.side_m) for kind in ("moment", "span")}
    busy = np.flatnonzero(measured.true)
    for i in [*rng.choice(len(questions.x), 10, replace=False), *rng.choice(busy, 20)]:
        area = shapely.box(
            *(side[i] + reach for reach in (0, questions.side_m[i]) for side in (questions.x, questions.y))
        )
        since, until = questions.since[i], questions.until[i]
        then = truth.at(since) if questions.moment[i] else truth.during((since, until))
        assert then.inside(area).people() == measured.true[i]
        asked = f"at => '{format_time(since)}'" if questions.moment[i] else f"during => '{format_span((since, until))}'"
        [told] = ask(
            opened.analyst,
            f"{COUNT_INSIDE}('published.{name}', {AREA}, {asked})",
            area.wkt,
        )
        assert told == pytest.approx((answers.at_least[i], answers.expected[i], answers.at_most[i]))


@tries("Figures of the other parts are the last ones")
@pytest.mark.parametrize("opened", ["parts"], indirect=True)
def test_each_part_of_a_release_that_grows_is_evaluated_and_has_a_line(opened: Opened) -> None:
    name = next(iter(opened.place.runs))
    *others, newest = opened.place.numbers(name)
    stages: list[str] = []
    with dbanon.connect(opened.url) as database:
        database.progress = lambda stage, done, total: stages.append(stage)
        _, said, _ = evaluating.choose_part(database.connection, name)
        [(verb, named)] = re.findall(r"`dbanon (\w+) (\w+)`", " ".join(said))
        measured = getattr(database, verb)(named, queries=100)
        kept = "SELECT DISTINCT run_id FROM dbanon.evaluations WHERE run_id = ANY (%s)"
        assert len(database.connection.execute(kept, [opened.place.numbers(name)]).fetchall()) == 3
    assert measured.run_id == newest
    assert [one.run_id for one in measured.others] == others[::-1]
    for one, part in zip([measured, *measured.others], opened.place.parts[::-1], strict=True):
        assert one.period is not None
        assert tuple(end.timestamp() for end in one.period) == part
        assert {figure.value for figure in one.figures if figure.name == "coverage"} == {1.0}
        assert any(stage.startswith("part") and f"(run {one.run_id})" in stage for stage in stages)
    told = report.format_evaluation(measured)
    for one in measured.others:
        lines = [line for line in told.splitlines() if line.lstrip().startswith(f"{one.run_id} ")]
        assert any(words.format_usable_resolution(one.figures) in line for line in lines)
    assert [one["run_id"] for one in report.make_evaluation_json(measured)["others"]] == others[::-1]


SUMS = """SELECT sum(least(row.crowd, row.subjects) * met.s) / max(met.all_s),
    sum(row.subjects * met.s) / max(met.all_s), max(about.guest_presence)
FROM published.about('published.{0}') about
CROSS JOIN LATERAL published_inner.in_slots(about, %s::tstzrange) span
JOIN published.{0} row ON tstzrange(row.valid_from, row.valid_to) && span
CROSS JOIN LATERAL (SELECT
    greatest(extract(epoch FROM least(row.valid_to, upper(span)) - greatest(row.valid_from, lower(span))), 1e-6) AS s,
    greatest(published_inner.spoken_s(about, span), 1e-6) AS all_s) met"""
"""People in the rows of a span, averaged over its instants: without guests and with them; the presence of guests."""


@pytest.mark.parametrize("by_hour", [False, True])
@parametrize_releases()
def test_densities_hold_the_truth_and_sum_to_the_people(
    opened: Opened, rng: np.random.Generator, name: str, by_hour: bool
) -> None:
    truth = opened.truth(name)
    for side in opened.place.side_m * np.array([0.03, 0.13, 0.5926]):
        span = round_span(draw_span(rng, truth))
        found = ask(
            opened.analyst,
            "SELECT extract(epoch FROM hour)::float8, ST_XMin(cell), ST_YMin(cell), at_least, expected, at_most FROM"
            " published.density(%s, %s, %s, %s)", f"published.{name}", side, format_span(span), by_hour,
        )  # fmt: skip
        low, high = max(span[0], truth.since), min(span[1], truth.until)
        hours = [(h, max(low, h), min(high, h + 3600)) for h in np.arange(low // 3600 * 3600, high, 3600)]
        for hour, since, until in hours if by_hour else [(None, low, high)]:
            true = truth.cells(side, (since, until))
            told = {(round(x / side), round(y / side)): bounds for h, x, y, *bounds in found if h == hour}
            assert set(true) <= set(told)
            for cell, (at_least, expected, at_most) in told.items():
                assert at_least - 1e-6 <= true.get(cell, 0) <= at_most + 1e-6, (cell, span)
                assert -1e-9 <= expected <= at_most + 1e-6
            people = sum(true.values())
            if truth.some_time:
                [(people,)] = ask(
                    opened.analyst,
                    f"SELECT count(DISTINCT record_id) FROM published.{name}"
                    " WHERE tstzrange(valid_from, valid_to) && %s::tstzrange",
                    format_span((since, until)),
                )
            # Of guests only their presence in all of the release is told, in tenths: in a span it may be another.
            [(least, most, presence)] = ask(opened.analyst, SUMS.format(name), format_span((since, until)))
            total = sum(expected for _, expected, _ in told.values())
            if presence > 0:
                assert least - 1e-6 <= people <= most + 1e-6
                assert total == pytest.approx(least + presence * (most - least), rel=1e-6)
            else:
                assert total == pytest.approx(people, rel=1e-6)


@pytest.mark.filterwarnings("ignore")
@parametrize_releases(but=SNAPSHOT)
def test_flows_hold_the_truth(opened: Opened, rng: np.random.Generator, cases: Cases, name: str) -> None:
    truth = opened.truth(name)
    for _ in cases(20):
        span = round_span(draw_span(rng, truth))
        true = truth.flows(opened.zones, span)
        told = {
            (origin, destination): bounds
            for origin, destination, *bounds in ask(
                opened.analyst,
                "SELECT * FROM published.flows(%s, 'zones', 'zone', %s)",
                f"published.{name}",
                format_span(span),
            )
        }
        assert set(true) <= set(told)
        for pair, (low, expected, high) in told.items():
            assert low <= true[pair] <= high, (pair, span)
            assert low - 1e-6 <= expected <= high + 1e-6


def test_zones_in_arrays_are_answered_as_those_of_a_table(opened: Opened) -> None:
    names, areas = list(opened.zones), [shape.wkt for shape in opened.zones.values()]
    shapes = "ARRAY(SELECT ST_GeomFromText(w, 32610) FROM unnest(%s::text[]) w)"
    query = f"SELECT * FROM published.flows_between('published.tp', %s, {shapes}, %s)"
    found = ask(opened.analyst, query, names, areas, HALF_HOUR)
    assert found == ask(
        opened.analyst, f"SELECT * FROM published.flows('published.tp', 'zones', 'zone', '{HALF_HOUR}')"
    )
    assert found
    assert found == ask(opened.analyst, query, [*names, *names], [*areas, *areas], HALF_HOUR)  # of one name, one zone
    assert found != ask(opened.analyst, query[:-1] + ", even => true)", names, areas, HALF_HOUR)


@tries("Ask about one of them, or let count_inside")
@parametrize_releases(many=("town",))
def test_a_span_over_windows_is_noticed_and_counted_by_window(
    opened: Opened, rng: np.random.Generator, name: str
) -> None:
    spans = f"""
        SELECT w.since, w.span, count(DISTINCT published_inner.phase_of(a, r.valid_from, r.valid_to)),
            min(published_inner.phase_of(a, r.valid_from, r.valid_to))
        FROM published.about('published.{name}') a CROSS JOIN LATERAL published_inner.windows_of(a, %s) w
        LEFT JOIN published.{name} r ON tstzrange(r.valid_from, r.valid_to) <@ w.span GROUP BY 1, 2 ORDER BY 1"""
    windows = ask(opened.analyst, spans, EVER)
    phases = [phase for *_, phase in windows if phase is not None]
    assert len(phases) == len(set(phases))
    assert all(many <= 1 for _, _, many, _ in windows)
    area = opened.an_area(rng).wkt
    said = collect_notices(opened.analyst)
    counted = f"SELECT * FROM published.count_inside(%s, {AREA}, during => %s, by_window => %s)"
    one_by_one = ask(opened.analyst, counted, f"published.{name}", area, EVER, True)
    assert said == []
    assert [since for *_, since in one_by_one] == [since for since, *_ in windows]
    for answer, (_, span, *_) in itertools.islice(zip(one_by_one, windows, strict=True), 5):
        [(*alone, since)] = ask(opened.analyst, counted, f"published.{name}", area, span, False)
        assert (list(answer[:-1]), since) == (alone, None)
    [(least, *_, since)] = ask(opened.analyst, counted, f"published.{name}", area, EVER, False)
    assert since is None
    spans = [re.sub(r".*span: (\d+).*", r"\1", sentence) for sentence in said if "in this span" in sentence]
    assert spans == [str(len(windows))] * (len(windows) > 1)
    assert least == max(lower for lower, *_ in one_by_one)
    [(holds, steps)] = ask(opened.analyst, "SELECT holds, step_s FROM published.releases WHERE name = %s", name)
    asked = {"instant": f"stays(%s, {BOX}, '2 minutes', %s)", "some time": "density(%s, 9000, %s)"}[holds]
    if len(windows) > 1 and (steps or holds == "some time"):
        ask(opened.analyst, f"SELECT * FROM published.{asked}", f"published.{name}", EVER)
        assert sum("in this span" in sentence for sentence in said) == 2


@pytest.mark.parametrize("side_m", [700, 20])  # people of rectangles are summed from corner to corner, or by squares
@pytest.mark.parametrize("name", ["tp", "mob"])
def test_bounds_of_a_density_are_the_same_however_people_are_spread(opened: Opened, name: str, side_m: int) -> None:
    asked = "SELECT ST_XMin(cell), ST_YMin(cell), at_least, at_most FROM published.density(%s, %s, %s, even => %s)"
    span = HALF_HOUR if side_m > 100 else format_span((START_S + 900, START_S + 960))
    one, two = (np.array(ask(opened.analyst, asked, f"published.{name}", side_m, span, even)) for even in (True, False))
    assert one.shape == two.shape
    assert one == pytest.approx(two, abs=1e-9)


MASKED = {
    "count_inside": "expected, low, high FROM published.count_inside(%(name)s, {area}, during => %(span)s, {more})",
    "compare_counts": "expected, difference FROM published.compare_counts(%(name)s, {area}, during => %(span)s,"
    " other_area => {mask}, {more})",
    "density": "ST_XMin(cell), ST_YMin(cell), expected FROM published.density(%(name)s, 700, %(span)s, {more})",
    "flows": "expected FROM published.flows(%(name)s, 'zones', 'zone', %(span)s, {more})",
    "flows_between": "expected FROM published.flows_between(%(name)s, ARRAY['one'], ARRAY[{area}], %(span)s, {more})",
    "crossings": "expected FROM published.crossings(%(name)s, ST_Boundary({area}), %(span)s, {more})",
    "dwell": "expectedly FROM published.dwell(%(name)s, {area}, %(span)s, {more})",
    "stays": "expected FROM published.stays(%(name)s, {area}, '2 minutes', %(span)s, {more})",
    "person_minutes": "expected FROM published.person_minutes(%(name)s, {area}, %(span)s, {more})",
}


@pytest.mark.parametrize("asked", MASKED)
@pytest.mark.parametrize("name", ["tp", "kte_groups"])
def test_nobody_is_outside_a_mask_but_people_of_rows_outside(opened: Opened, name: str, asked: str) -> None:
    if (name, asked) in itertools.product(["kte_groups"], ["dwell", "stays", "person_minutes"]):
        name = "tp_joined"
    (x, y), side = opened.place.corner, opened.place.side_m
    west, east = (shapely.box(x + i * side / 2, y - side, x + (i + 1) * side / 2, y + 2 * side) for i in (0, 1))
    all_of_it = shapely.union(west.buffer(9 * side), shapely.Point(x, y).buffer(8 * side))

    def answer(mask: shapely.Geometry | None, area: shapely.Geometry = east) -> list[tuple[Any, ...]]:
        more = "mask => " + ("NULL" if mask is None else f"ST_GeomFromText('{mask.wkt}', 32610)")
        shapes = {"area": f"ST_GeomFromText('{area.wkt}', 32610)", "mask": f"ST_GeomFromText('{west.wkt}', 32610)"}
        query = "SELECT " + MASKED[asked].format(**shapes, more=more)
        return opened.analyst.execute(query, {"name": f"published.{name}", "span": HALF_HOUR}).fetchall()  # type: ignore[arg-type]

    assert np.array(answer(all_of_it)) == pytest.approx(np.array(answer(None)), abs=1e-3)
    said = collect_notices(opened.analyst)
    masked, unmasked = answer(west), answer(None)
    assert masked != unmasked
    beyond = f"""SELECT count(*) FROM published.{name}
        WHERE tstzrange(valid_from, valid_to) && %s AND NOT ST_Intersects(region, {AREA})"""
    [(rows,)] = ask(opened.analyst, beyond, HALF_HOUR, west.wkt)
    assert rows > 0
    assert {re.sub(r"\D", "", sentence) for sentence in said if "mask" in sentence} == {str(rows)}
    if asked == "person_minutes":
        total = sum(minutes for (minutes,) in answer(west, west) + masked)
        assert total == pytest.approx(sum(minutes for (minutes,) in answer(None, all_of_it)))
        assert masked < unmasked
        outside = f"""SELECT sum(subjects * extract(epoch FROM
            upper(met.span) - lower(met.span)) / 60)::float8 FROM published.{name}
            CROSS JOIN LATERAL (SELECT %s * tstzrange(valid_from, valid_to) AS span) met
            WHERE NOT isempty(met.span) AND NOT ST_Intersects(region, {AREA})"""
        assert np.array(masked) == pytest.approx(np.array(ask(opened.analyst, outside, HALF_HOUR, west.wkt)), rel=0.1)


@parametrize_releases(but=SNAPSHOT)
def test_crossings_hold_the_truth(opened: Opened, rng: np.random.Generator, cases: Cases, name: str) -> None:
    truth = opened.truth(name)
    for _ in cases(40):
        span, line = round_span(draw_span(rng, truth)), opened.a_line(rng)
        true = truth.crossings(line, span)
        told = ask(
            opened.analyst, f"SELECT * FROM published.crossings(%s, {AREA}, %s)",
            f"published.{name}", shapely.LineString(line).wkt, format_span(span),
        )  # fmt: skip
        assert {direction for direction, *_ in told} == set(true)
        for direction, low, expected, high in told:
            assert low <= true[direction] <= high, (direction, line, span)
            assert low - 1e-6 <= expected <= high + 1e-6


@parametrize_releases(but=(*SOME_TIME, *SNAPSHOT))
def test_dwelling_holds_the_truth(opened: Opened, rng: np.random.Generator, cases: Cases, name: str) -> None:
    truth = opened.truth(name)
    # Numbers of records are drawn anew at publication: records are known again by their rows.
    shape = "SELECT record_id, array_agg((period, ST_AsEWKB(region))::text ORDER BY period) FROM {} GROUP BY record_id"
    published = f"(SELECT *, tstzrange(valid_from, valid_to) AS period FROM published.{name}) c"
    shown = {tuple(rows): record for record, rows in ask(opened.analyst, shape.format(published))}
    with psycopg.connect(opened.url) as owner:
        number = {
            truths.number_part_record(part, record): shown[tuple(rows)]
            for part, run in enumerate(opened.place.numbers(name))
            for record, rows in ask(owner, shape.format(f"(SELECT * FROM dbanon.cloak WHERE run_id = {run}) c"))
        }
    alike = Counter(number.values())
    for _ in cases(25):
        area, span = opened.an_area(rng), round_span(draw_span(rng, truth))
        told = {
            record: bounds for record, *bounds in ask(
                opened.analyst,
                "SELECT DISTINCT ON (record_id) record_id, instants, surely, expectedly, possibly"
                f" FROM published.dwell(%s, {AREA}, %s) ORDER BY record_id, surely DESC, expectedly DESC",
                f"published.{name}", area.wkt, format_span(span),
            )
        }  # fmt: skip
        for record, there, inside in truth.dwell(area, span):
            instants, surely, expectedly, possibly = told.get(number[record], (there, 0, 0, 0))
            if alike[number[record]] == 1:
                assert there <= instants  # fewer only of a guest
                assert inside <= possibly, (area.wkt, span)
                assert surely <= inside or there < instants, (area.wkt, span)
            assert surely - 1e-6 <= expectedly <= possibly + 1e-6
        minutes, inside = 10 ** rng.uniform(-1, 1.3), np.array([0, *(inside for *_, inside in truth.dwell(area, span))])
        for question, true in (
            (
                f"stays(%s, {AREA}, make_interval(secs => {60 * minutes}), %s)",
                (inside * truth.step_s >= 60 * minutes).sum(),
            ),
            (f"person_minutes(%s, {AREA}, %s)", inside.sum() * truth.step_s / 60),
        ):
            asked = f"SELECT * FROM published.{question}"
            [(low, expected, high)] = ask(opened.analyst, asked, f"published.{name}", area.wkt, format_span(span))
            assert low <= true <= high, (question, area.wkt, span)
            assert low - 1e-6 <= expected <= high + 1e-6


@parametrize_releases(but=("sensitive-sites", "kte", "mob", "semantic", "visits"))
def test_requests_hold_the_truth(opened: Opened, rng: np.random.Generator, cases: Cases, name: str) -> None:
    truth = opened.truth(name)
    for _ in cases(40):
        area, span = opened.an_area(rng), round_span(draw_span(rng, truth))
        true = truth.requests_inside(area, span)
        told = {
            json.dumps(content): bounds for content, *bounds in ask(
                opened.analyst,
                f"SELECT request, at_least, at_most, weight FROM published.requests_inside(%s, {AREA}, %s)",
                f"published.{name}", area.wkt, format_span(span),
            )
        }  # fmt: skip
        assert set(true) <= set(told)
        for content, (low, high, weight) in told.items():
            assert low <= true.get(content, 0) <= high, (content, area.wkt, span)
            assert weight >= 0


# ---- bad input -------------------------------------------------------------------------------------------------------

WORLD = "ST_MakeEnvelope(-180, -90, 180, 90, 4326)"
EVER = "[-infinity,infinity)"
ALL = f"'{EVER}'"
HALF_HOUR = format_span((START_S, START_S + 1800))
# On no line of the grid: there, what is straight in one system and not in another would decide.
BOX = "ST_MakeEnvelope(550900.4, 4180900.4, 552100.6, 4182100.6, 32610)"


@pytest.mark.parametrize("name", TOWN.runs)
def test_an_area_in_another_system_is_transformed(analyst: psycopg.Connection, name: str) -> None:
    count = f"SELECT at_least, at_most FROM published.count_inside('published.{name}', {{}}, during => {ALL})"
    [here], [there] = ask(analyst, count.format(BOX)), ask(analyst, count.format(f"ST_Transform({BOX}, 4326)"))
    assert here == there
    [whole] = ask(analyst, f"SELECT count(DISTINCT record_id), sum(DISTINCT subjects) FROM published.{name}")
    for world in (WORLD, "ST_MakeEnvelope(-2e7, -2e7, 2e7, 2e7, 3857)", "ST_MakeEnvelope(-1e9, -1e9, 1e9, 1e9, 32610)"):
        [(low, high)] = ask(analyst, count.format(world))
        assert 0 < low <= high
        has_windows = name.startswith("tp") or name.endswith("windows")
        assert (low == high and low == whole[0]) or has_windows


@pytest.mark.parametrize("name", TOWN.runs)
def test_an_empty_area_and_one_far_away_have_no_people(analyst: psycopg.Connection, name: str) -> None:
    for area in ("ST_GeomFromText('POLYGON EMPTY', 32610)", "ST_GeomFromText('POLYGON EMPTY', 4326)",
                 "ST_MakeEnvelope(8, 53, 9, 54, 4326)", "ST_MakeEnvelope(0, 0, 9, 9, 32610)"):  # fmt: skip
        query = f"{COUNT_INSIDE}('published.{name}', {area}, during => {ALL})"
        assert ask(analyst, query) == [(0, 0, 0)]


REFUSED = {
    "invalid": "count_inside('published.tp', ST_GeomFromText('POLYGON((0 0,1 1,1 0,0 1,0 0))', 9), during => {all})",
    "without an SRID": "count_inside('published.tp', ST_MakeEnvelope(0, 0, 1, 1), during => {all})",
    "a POINT": "count_inside('published.tp', ST_SetSRID(ST_MakePoint(0, 0), 32610), during => {all})",
    "Got NULL": "count_inside('published.tp', NULL, during => {all})",
    "Got both": "count_inside('published.tp', {box}, now(), {all})",
    "Got none": "count_inside('published.tp', {box})",
    "given. Got both": "compare_counts('published.tp', {box}, NULL, {all}, other_at => now(), other_during => {all})",
    "must not be empty": "count_inside('published.tp', {box}, during => 'empty')",
    "1999": "count_inside('published.tp', {box}, '1999-01-01Z')",
    "some time of each period": "dwell('published.kte', {box})",
    "at least 0.001": "density('published.tp', 0, {all})",
    "Got 1e-300": "density('published.tp', 1e-300, {all})",
    "NaN": "density('published.tp', 'NaN', {all})",
    "cells in all": "density('published.tp', 0.01, {all})",
    "speaks of one moment": "crossings('published.sites_bk', ST_Boundary({box}), {all})",
    "one moment": "dwell('published.sites_mk', {box})",
    "kte_groups says only": "dwell('published.kte_groups', {box})",
    "a POLYGON": "crossings('published.tp', {box}, {all})",
    "Got a point": "crossings('published.tp', ST_GeomFromText('LINESTRING(1 1,1 1)', 32610), {all})",
    "no column requests": "requests_inside('published.mob', {box}, {all})",
    "and nothing": "flows('published.tp', 'zones', 'nothing', {all})",
    "pg_class, with 0": "flows('published.tp', 'pg_catalog.pg_class', 'relname', {all})",
    "Got names: 2, areas: 1": "flows_between('published.tp', ARRAY['a', 'b'], ARRAY[{box}], {all})",
    "Got a name that is NULL": "flows_between('published.tp', ARRAY['a', NULL], ARRAY[{box}, {box}], {all})",
    "Got names: 0": "flows_between('published.tp', '{{}}', NULL, {all})",
    "A flow": "flows('published.sites_mk', 'zones', 'zone', {all})",
    "Got -1/0/0": "tile(-1, 0, 0, 'mob')",
    "Got 2/0/4": 'tile_query(2, 0, 4, \'{{"release": "mob"}}\')',
    "Got NULL/0/0": "tile(NULL, 0, 0, 'mob')",
    "Got an empty one, or": "density('published.tp', 500, {all}, mask => ST_GeomFromText('POLYGON EMPTY', 32610))",
    "Got even": "count_inside('published.tp', {box}, during => {all}, mask => {box}, even => true)",
    "semantic, which has none": "count_inside('published.semantic', {box}, during => {all}, mask => {box})",
    "Got an empty": "crossings('published.tp', ST_Boundary({box}), {all}, 'SRID=32610;POLYGON EMPTY')",
    "a LINESTRING": "flows('published.tp', 'zones', 'zone', {all}, mask => ST_ExteriorRing({box}))",
    "Self-intersection": "dwell('published.tp', {box}, mask => 'SRID=32610;POLYGON((0 0,1 1,1 0,0 1,0 0))')",
    "999999": "count_inside('published.tp', {box}, during => {all}, mask => ST_SetSRID({box}, 999999))",
}


@pytest.mark.parametrize(("fact", "asked"), REFUSED.items(), ids=REFUSED)
def test_what_cannot_be_answered_is_refused_in_a_sentence(analyst: psycopg.Connection, fact: str, asked: str) -> None:
    with expect_refusal("DA011") as refusal:
        ask(analyst, f"SELECT * FROM published.{asked.format(all=ALL, box=BOX)}")
    assert fact in (refusal.value.diag.message_primary or "")


@tries("Ask without a mask.", "ST_Buffer makes an area of streets.")
def test_what_cannot_be_masked_is_asked_without_and_streets_are_made_an_area(analyst: psycopg.Connection) -> None:
    semantic, asked = f"published.count_inside('published.semantic', {BOX}, during => {ALL}{{}})", "SELECT * FROM {}"
    with expect_refusal("DA011"):
        ask(analyst, asked.format(semantic.format(f", mask => {BOX}")))
    assert len(ask(analyst, asked.format(semantic.format("")))) == 1
    streets = f"mask => ST_Buffer(ST_ExteriorRing({BOX}), 30)"
    [masked] = ask(analyst, f"{COUNT_INSIDE}('published.mob', {BOX}, during => {ALL}, {streets})")
    [unmasked] = ask(analyst, f"{COUNT_INSIDE}('published.mob', {BOX}, during => {ALL})")
    assert masked[::2] == unmasked[::2]
    assert masked != unmasked


def test_a_line_that_is_a_ring_or_empty_is_a_line(analyst: psycopg.Connection) -> None:
    crossed = "SELECT at_least, at_most FROM published.crossings('published.mob', {}, {})"
    [outwards, inwards] = ask(analyst, crossed.format(f"ST_Boundary({BOX})", ALL))
    assert 0 < outwards[0] <= outwards[1]
    assert 0 < inwards[0] <= inwards[1]
    assert ask(analyst, crossed.format("ST_GeomFromText('LINESTRING EMPTY', 32610)", ALL)) == [(0, 0)] * 2


def test_a_line_in_another_system_is_followed_within_a_centimetre_by_few_edges(analyst: psycopg.Connection) -> None:
    line = "ST_GeomFromText('LINESTRING(-122.43 37.767, -122.396 37.792)', 4326)"
    steps = f"ST_Transform(ST_Segmentize({line}, ST_Length({line}) / 1000), 32610)"
    crossed = f"SELECT * FROM published.crossings('published.mob', {{}}, {ALL})"
    found = ask(analyst, crossed.format(line))
    assert found == ask(analyst, crossed.format(steps))
    assert all(at_least > 0 for _, at_least, *_ in found)
    fitted = f"published_inner.fitted_line({line}, published.about('published.mob'))"
    [(points, all_points, apart)] = ask(
        analyst, f"SELECT ST_NPoints({fitted}), ST_NPoints({steps}), ST_HausdorffDistance({fitted}, {steps}, 0.01)"
    )
    assert points < all_points / 20
    assert apart < 0.011


def test_zones_that_share_a_border_in_another_system_do_not_overlap(analyst: psycopg.Connection) -> None:
    said = collect_notices(analyst)
    analyst.execute(
        "CREATE TEMPORARY TABLE adjoining AS SELECT i AS zone, ST_MakeEnvelope(-122.44 + 0.01 * i, 37.7 + 0.003 * i,"
        " -122.43 + 0.01 * i, 37.8, 4326) AS shape FROM generate_series(0, 4) AS i"
    )
    ask(analyst, "SELECT * FROM published.flows('published.mob', 'adjoining', 'zone', %s)", EVER)
    assert said == []


def test_zones_that_overlap_are_noticed(analyst: psycopg.Connection) -> None:
    said = collect_notices(analyst)
    ask(analyst, "SELECT * FROM published.flows('published.mob', 'zones', 'zone', %s)", EVER)
    assert [re.findall(r"\d+", sentence) for sentence in said] == [["4"]]


def test_a_release_that_is_for_others_or_was_withdrawn_a_moment_ago_is_none(
    analyst: psycopg.Connection, database: str
) -> None:
    counted = f"{COUNT_INSIDE}({{}}, {BOX}, during => {ALL})"
    with psycopg.connect(database, autocommit=True) as owner:
        ask(owner, "SELECT dbanon.publish(1, 'briefly', allow_overlap => true, reason => 'the people are made up')")
        [(oid,)] = ask(analyst, "SELECT 'published.briefly'::regclass::oid::bigint")
        [found], [alike] = ask(analyst, counted.format(oid)), ask(analyst, counted.format("'published.tp'"))
        assert found == pytest.approx(alike)
        surfaces = "SELECT count(*) FROM published.surfaces WHERE name = 'briefly'"
        assert ask(analyst, surfaces) == [(1,)]
        owner.execute("REVOKE SELECT ON published.briefly FROM dbanon_analyst")
        assert ask(analyst, surfaces) == [(0,)]
        for query in (counted.format("'published.briefly'"), "SELECT published.tile(0, 0, 0, 'briefly')"):
            with pytest.raises(psycopg.Error, match="one that you may read") as refusal:
                ask(analyst, query)
            assert refusal.value.sqlstate == "DA001"
        ask(owner, "SELECT dbanon.unpublish('briefly')")
        assert ask(owner, surfaces) == [(0,)]
    for other in (oid, "'published.releases'", "'pg_catalog.pg_class'", "NULL"):
        with pytest.raises(psycopg.Error, match="one that you may read") as refusal:
            ask(analyst, counted.format(other))
        assert refusal.value.sqlstate == "DA001"


def test_predicates_agree_with_counts(analyst: psycopg.Connection) -> None:
    for area in (BOX, f"ST_Transform({BOX}, 4326)"):
        [mine] = ask(
            analyst,
            f"SELECT sum(subjects) FILTER (WHERE published.definitely_inside(region, {area})),"
            f" sum(subjects * published.expected_inside(region, {area})),"
            f" sum(subjects) FILTER (WHERE published.possibly_inside(region, {area}))"
            " FROM published.mob WHERE valid_from = '2026-01-05 08:20Z'",
        )
        [theirs] = ask(
            analyst,
            f"{COUNT_INSIDE}('published.mob', {BOX}, '2026-01-05 08:20Z', even => true)",
        )
        assert tuple(map(float, mine)) == pytest.approx(tuple(map(float, theirs)), rel=1e-3)
        assert theirs[0] > 0


# ---- tiles, rights, indexes ------------------------------------------------------------------------------------------


def test_tiles_hold_the_rows_of_a_moment(analyst: psycopg.Connection) -> None:
    [(whole, asked, first)] = ask(
        analyst,
        "SELECT published.tile(0, 0, 0, 'mob', '2026-01-05 08:20Z'),"
        """ published.tile_query(0, 0, 0, '{"release": "published.mob", "at": "2026-01-05 08:20Z"}'),"""
        " published.tile(0, 0, 0, 'mob')",
    )
    assert whole == asked != first
    assert b"mob" in whole
    assert b"2026-01-05T08:20:00Z" in whole
    assert ask(
        analyst, "SELECT length(published.tile(9, 0, 0, 'mob')), length(published.tile(0, 0, 0, 'mob', 'infinity'))"
    ) == [(0, 0)]
    with pytest.raises(psycopg.Error, match="must be of a release"):
        ask(analyst, "SELECT published.tile(0, 0, 0, 'nothing')")


@pytest.mark.parametrize("name", TOWN.runs)
def test_every_column_of_a_release_has_a_meaning(analyst: psycopg.Connection, name: str) -> None:
    found = ask(analyst, "SELECT column_name, meaning FROM published.columns WHERE name = %s ORDER BY place", name)
    [(columns,)] = ask(
        analyst, f"SELECT array_agg(k) FROM published.{name} c, jsonb_object_keys(to_jsonb(c)) k LIMIT 1"
    )
    assert [column for column, _ in found][:1] == ["cloak_id"]
    assert {column for column, _ in found} == set(columns)
    assert all(meaning.endswith(".") for _, meaning in found)


def test_readers_of_a_single_release_may_ask_it(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as owner, logins(database) as login:
        owner.execute("CREATE ROLE analyst_of_one")
        try:
            ask(owner, "SELECT dbanon.publish(1, 'one', readers => ARRAY['analyst_of_one'], allow_overlap => true,"
                       " reason => 'the people are made up')")  # fmt: skip
            with psycopg.connect(login("analyst_of_one"), autocommit=True) as reader:
                counted = f"{COUNT_INSIDE}('published.{{}}', {BOX}, during => {ALL})"
                assert ask(reader, counted.format("one"))
                with pytest.raises(psycopg.Error, match="one that you may read"):
                    ask(reader, counted.format("tp"))
            ask(owner, "SELECT dbanon.unpublish('one')")
        finally:
            owner.execute("DROP ROLE analyst_of_one")  # fails where a right is left


CORNER = "ST_MakeEnvelope(550009, 4180009, 550010, 4180010, 32610)"
INDEXED = {
    "count_inside('published.mob', {box}, '2026-01-05 08:20Z')": "valid_from >",
    "count_inside('published.kte', {box}, during => '[2026-01-05 08:20Z,2026-01-05 08:21Z)')": "valid_to) &&",
    "count_inside('published.mob', {corner}, during => {all})": "region",
    "dwell('published.mob', {corner})": "region",
    "density('published.mob', 500, '[2026-01-05 08:20Z,2026-01-05 08:21Z)')": "valid_from >",
    "requests_inside('published.tp', {box}, '[2026-01-05 08:20Z,2026-01-05 08:21Z)')": "valid_from >",
    "tile(8, 40, 98, 'mob', '2026-01-05 08:20Z')": "valid_from >",
    "flows('published.mob', 'published.sites_bk', 'cloak_id', '[2026-01-05 08:20Z,2026-01-05 08:21Z)')": "valid_from >",
    "crossings('published.mob', ST_Boundary({box}), '[2026-01-05 08:20Z,2026-01-05 08:21Z)')": "valid_from >",
}


@pytest.mark.parametrize(("asked", "condition"), INDEXED.items(), ids=INDEXED)
def test_answers_come_by_index(database: str, asked: str, condition: str) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        plans = collect_notices(owner)
        for setting in ("auto_explain.log_min_duration = 0", "auto_explain.log_nested_statements = on",
                        "client_min_messages = log", "enable_seqscan = off"):  # fmt: skip
            ask_nothing = "LOAD 'auto_explain'; SET " + setting
            owner.execute(ask_nothing)  # type: ignore[call-overload]
        ask(owner, f"SELECT * FROM published.{asked.format(all=ALL, box=BOX, corner=CORNER)}")
        used = " ".join(line for plan in plans for line in plan.splitlines() if "Index Cond" in line)
        assert condition in used, plans


@pytest.mark.parametrize("name", ["tp", "kte", "mob"])
@pytest.mark.parametrize(
    "condition",
    ['requests @> \'[{"poi": "bar"}]\'', "tstzrange(valid_from, valid_to) @> '2026-01-05 08:20Z'::timestamptz"],
)
def test_requests_and_periods_are_found_by_index(database: str, name: str, condition: str) -> None:
    if name != "tp" and condition.startswith("requests"):
        name = "tp_joined"
    with psycopg.connect(database, autocommit=True) as owner:
        for setting in ("enable_seqscan", "enable_indexscan", "enable_indexonlyscan"):
            owner.execute(f"SET {setting} = off")  # type: ignore[call-overload]
        plan = ask(owner, f"EXPLAIN SELECT * FROM published.{name} WHERE {condition}")
        assert any("Index Cond" in line and condition.partition(" '")[0] in line for (line,) in plan), plan
