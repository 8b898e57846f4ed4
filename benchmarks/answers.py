"""What the analysts' functions answer about a day of taxis, beside a query by hand and the truth, in every release.

San Francisco's taxis of 2008-06-04 are published by every family. Each question is asked as an analyst's login; the
truth is that of the tests (``tests/acceptance/analyst_truth.py``): of the people and positions that the release is
about. The query by hand takes centroids, or all that intersects, and sums rows.

The second table is of `expected` at a hundred random squares of the city and times (of densities and flows: all cells
and pairs of ten hours): the mean of what it is off and, in brackets, by how much it is too great, in percent of the
mean truth; and how often the truth lay outside the bounds. Where rows hold at some time, the expected density is that
of each cab's one split over its fixes.

``./dev bench benchmarks/answers.py``; single releases can be named after it with Python. It needs the files that lie
beside the repository.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import psycopg
import shapely
from pyproj import Transformer

from dbanon import testing
from dbanon.postgres import server
from tests.acceptance import analyst_truth
from tests.acceptance.analyst_places import SRID
from tests.acceptance.analyst_taxis import ALL_TAXIS, CABS, START_S
from tests.acceptance.analyst_truth import Span, Truth

MOMENT_S = START_S + 10.5 * 3600  # 17:30 UTC
HOUR_S = (START_S + 10 * 3600, START_S + 11 * 3600)
CELL_M, DISTRICT_M = 1_000.0, 3_000
QUESTIONS_EACH = 100
DISTRICTS = {
    f"{i} {j}": shapely.box(*(np.array([i, j, i + 1, j + 1]) * DISTRICT_M))
    for i in range(180, 186)
    for j in range(1388, 1396)
}


def convert_to_metres(*degrees: tuple[float, float]) -> np.ndarray:
    return np.array([Transformer.from_crs(4326, SRID, always_xy=True).transform(*point) for point in degrees])


DOWNTOWN = shapely.box(*convert_to_metres((-122.416, 37.783), (-122.394, 37.800)).ravel())
AIRPORT = shapely.Point(convert_to_metres((-122.386, 37.617))[0]).buffer(1_500)
LINE = convert_to_metres((-122.4246, 37.8065), (-122.4180, 37.7715), (-122.4075, 37.7690))  # Van Ness Avenue, and on


@dataclass(frozen=True)
class Answer:
    """Numbers; how many other cells or pairs there were, and how many of them had the truth outside their bounds."""

    question: str
    naive: float
    at_least: float | None = None
    expected: float | None = None
    at_most: float | None = None
    true: float | None = None
    others: int = 0
    outside: int = 0

    @property
    def within(self) -> bool:
        """Whether the truth lies within the bounds."""
        return self.at_least - 1e-6 <= self.true <= self.at_most + 1e-6  # type: ignore[operator]


@dataclass(frozen=True)
class Asking:
    """An analyst's session, the release it asks about, and what is true of it."""

    analyst: psycopg.Connection
    name: str
    truth: Truth

    def ask_rows(self, query: str, **params: object) -> list[tuple]:
        """Ask a query in which RELEASE and AREA stand for the release and `area`, by default downtown."""
        given = {
            "area": DOWNTOWN.wkt,
            "hour": format_span(HOUR_S),
            "moment": format_time(MOMENT_S),
            "srid": SRID,
            **params,
        }
        query = query.replace("AREA", "ST_GeomFromText(%(area)s, %(srid)s)").replace(
            "RELEASE", f"published.{self.name}"
        )
        return self.analyst.execute(query, given).fetchall()  # type: ignore[arg-type]

    def ask_number(self, query: str, **params: object) -> float:
        """Ask for a single number, 0 where there is none."""
        return float(self.ask_rows(query, **params)[0][0] or 0)


def format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def format_span(span: Span) -> str:
    return f"[{format_time(span[0])},{format_time(span[1])})"


# ---- the questions ---------------------------------------------------------------------------------------------------


def ask_count_at_moment(asking: Asking) -> Iterator[Answer]:
    naive = """SELECT count(*) FROM RELEASE
        WHERE tstzrange(valid_from, valid_to) @> %(moment)s::timestamptz AND ST_Intersects(ST_Centroid(region), AREA)"""
    asked = "SELECT at_least, expected, at_most FROM published.count_inside('RELEASE', AREA, at => %(moment)s)"
    question, by_hand = "cabs downtown at 10:30", asking.ask_number(naive)
    yield Answer(question, by_hand, *asking.ask_rows(asked)[0], asking.truth.at(MOMENT_S).inside(DOWNTOWN).people())


def ask_count_over_hour(asking: Asking) -> Iterator[Answer]:
    naive = """SELECT sum(subjects) FROM RELEASE
        WHERE tstzrange(valid_from, valid_to) && %(hour)s AND ST_Intersects(region, AREA)"""
    asked = "SELECT at_least, expected, at_most FROM published.count_inside('RELEASE', AREA, during => %(hour)s)"
    question, by_hand = "cabs downtown from 10 to 11", asking.ask_number(naive)
    yield Answer(question, by_hand, *asking.ask_rows(asked)[0], asking.truth.during(HOUR_S).inside(DOWNTOWN).people())


def ask_density(asking: Asking) -> Iterator[Answer]:
    bounds = read_density(asking, HOUR_S)
    true = asking.truth.cells(CELL_M, HOUR_S)
    cell = max(true, key=lambda one: true[one])
    naive = """SELECT sum(subjects) FILTER (WHERE ST_Intersects(ST_Centroid(region), AREA))::float8
        / count(DISTINCT valid_from) FROM RELEASE WHERE tstzrange(valid_from, valid_to) && %(hour)s"""
    by_hand = asking.ask_number(naive, area=shapely.box(*(np.array([*cell, cell[0] + 1, cell[1] + 1]) * CELL_M)).wkt)
    yield Answer("cabs in the busiest km²", by_hand, *bounds[cell], true[cell], *count_others(bounds, true, cell))


def count_others(bounds: Mapping, true: Mapping, but: object) -> tuple[int, int]:
    """Count the answers, but one, and those of them that have the truth outside their bounds."""
    rest = [Answer("", 0, *bounds.get(one, (0, 0, 0)), true.get(one, 0)) for one in true | bounds if one != but]
    return len(rest), sum(not answer.within for answer in rest)


def read_density(asking: Asking, span: Span) -> dict[tuple[int, int], list[float]]:
    query = """SELECT ST_XMin(cell), ST_YMin(cell), at_least, expected, at_most
        FROM published.density('RELEASE', %(cell_m)s, %(span)s)"""
    rows = asking.ask_rows(query, cell_m=CELL_M, span=format_span(span))
    return {(round(x / CELL_M), round(y / CELL_M)): bounds for x, y, *bounds in rows}


def ask_flows(asking: Asking) -> Iterator[Answer]:
    bounds, true = read_flows(asking, HOUR_S), asking.truth.flows(DISTRICTS, HOUR_S)
    pair = max((one for one in true if one[0] != one[1]), key=lambda one: true[one])
    naive = """WITH place AS (SELECT DISTINCT ON (record_id) record_id, ST_Centroid(first_value(region) OVER o) AS a,
            ST_Centroid(region) AS b FROM RELEASE WHERE tstzrange(valid_from, valid_to) && %(hour)s
            WINDOW o AS (PARTITION BY record_id ORDER BY seq) ORDER BY record_id, seq DESC)
        SELECT count(*) FROM place p
        JOIN districts f ON ST_Intersects(f.shape, p.a) JOIN districts t ON ST_Intersects(t.shape, p.b)
        WHERE (f.district, t.district) = (%(origin)s, %(destination)s)"""
    by_hand = asking.ask_number(naive, origin=pair[0], destination=pair[1])
    yield Answer(
        "the greatest flow of two districts", by_hand, *bounds[pair], true[pair], *count_others(bounds, true, pair)
    )


def read_flows(asking: Asking, span: Span) -> dict[tuple[str, str], list[float]]:
    query = "SELECT * FROM published.flows('RELEASE', 'districts', 'district', %(span)s)"
    return {
        (origin, destination): bounds for origin, destination, *bounds in asking.ask_rows(query, span=format_span(span))
    }


def ask_crossings(asking: Asking) -> Iterator[Answer]:
    naive = """WITH place AS (SELECT subjects, ST_Centroid(region) AS b,
            lag(ST_Centroid(region)) OVER (PARTITION BY record_id ORDER BY seq) AS a
            FROM RELEASE WHERE tstzrange(valid_from, valid_to) && %(hour)s)
        SELECT sum(subjects) FROM place WHERE ST_LineCrossingDirection(AREA, ST_MakeLine(a, b)) = %(sign)s"""
    line = shapely.LineString(LINE).wkt
    rows = asking.ask_rows("SELECT * FROM published.crossings('RELEASE', AREA, %(hour)s) ORDER BY direction", area=line)
    true = asking.truth.crossings(LINE, HOUR_S)
    for (direction, low, expected, high), sign, way in zip(rows, (1, -1), ("west", "east"), strict=True):
        by_hand = asking.ask_number(naive, area=line, sign=sign)
        yield Answer(f"cabs that crossed Van Ness, {way}wards", by_hand, low, expected, high, true[direction])


def ask_dwell(asking: Asking) -> Iterator[Answer]:
    naive = """SELECT count(*) FROM RELEASE
        WHERE tstzrange(valid_from, valid_to) && %(hour)s AND ST_Intersects(ST_Centroid(region), AREA)"""
    by_hand = asking.ask_number(naive, area=AIRPORT.wkt)
    yield Answer("cab-minutes at the airport", by_hand, *read_dwell(asking, AIRPORT, HOUR_S))


def read_dwell(asking: Asking, area: shapely.Geometry, span: Span) -> tuple[float, ...]:
    """Minutes of all records, each for every person it stands for, and the truth of them."""
    query = """SELECT coalesce(sum(subjects * surely), 0)::float8, coalesce(sum(subjects * expectedly), 0)::float8,
        coalesce(sum(subjects * possibly), 0)::float8 FROM published.dwell('RELEASE', AREA, %(span)s)"""
    [told] = asking.ask_rows(query, area=area.wkt, span=format_span(span))
    return (*told, sum(inside for _, _, inside in asking.truth.dwell(area, span)))


def ask_requests(asking: Asking) -> Iterator[Answer]:
    asked = """SELECT coalesce(sum(at_least), 0)::float8, NULL, coalesce(sum(at_most), 0)::float8
        FROM published.requests_inside('RELEASE', AREA, %(hour)s)"""  # one content alone: a pick-up
    [bounds] = asking.ask_rows(asked)
    naive = """SELECT sum(jsonb_array_length(requests)) FROM RELEASE
        WHERE tstzrange(valid_from, valid_to) && %(hour)s AND ST_Intersects(region, AREA)"""
    true = sum(asking.truth.requests_inside(DOWNTOWN, HOUR_S).values())
    yield Answer("cabs that picked people up downtown", asking.ask_number(naive), *bounds, true)


QUESTIONS = (ask_count_at_moment, ask_count_over_hour, ask_density, ask_flows, ask_crossings, ask_dwell, ask_requests)


def format_figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:,.1f}"


def ask_all(asking: Asking, refusals: dict[str, int]) -> None:
    for question in QUESTIONS:
        try:
            for one in question(asking):
                numbers = " | ".join(map(format_figure, (one.naive, one.at_least, one.expected, one.at_most, one.true)))
                within = "yes" if one.within else "NO"
                within += f"; {one.others - one.outside:,} of {one.others:,} others too" if one.others else ""
                print(f"| {asking.name} | {one.question} | {numbers} | {within} |", flush=True)
        except psycopg.Error as refusal:
            if refusal.sqlstate != "DA011":
                raise
            said = (refusal.diag.message_primary or "").replace(asking.name, "It")
            mark = refusals.setdefault(said, len(refusals) + 1)
            print(f"| {asking.name} | {question.__name__.replace('_', ' ')} | | refused ({mark}) | | | | |", flush=True)


# ---- how far `expected` is off ---------------------------------------------------------------------------------------


def draw_area(rng: np.random.Generator) -> shapely.Geometry:
    """A square of one to four kilometres somewhere in the city."""
    (x, y), half = ALL_TAXIS.corner + rng.uniform(0, ALL_TAXIS.side_m, 2), rng.uniform(500, 2_000)
    return shapely.box(x - half, y - half, x + half, y + half)


def draw_hour(rng: np.random.Generator, truth: Truth) -> Span:
    begin = rng.uniform(truth.since, max(truth.since, truth.until - 3600))
    return float(round(begin)), min(float(round(begin)) + 3600, truth.until)


def spread(truth: Truth, span: Span) -> dict[tuple[int, int], float]:
    """What `ask_density` expects: the mean number, or, where rows hold at some time, each person's one by its fixes."""
    if not truth.some_time:
        return truth.cells(CELL_M, span)
    movements = truth.during(span)
    weight = 1 / np.bincount(movements.person)[movements.person]
    cells: dict[tuple[int, int], float] = {}
    for i, j, one in zip(movements.x // CELL_M, movements.y // CELL_M, weight, strict=True):
        cells[int(i), int(j)] = cells.get((int(i), int(j)), 0) + one
    return cells


Drawn = Iterator[
    tuple[float, float, float, float]
]  # at_least, expected, at_most, truth: of one random question or cell


def draw_moments(asking: Asking, rng: np.random.Generator) -> Drawn:
    for _ in range(QUESTIONS_EACH):
        area, at = draw_area(rng), round(rng.uniform(asking.truth.since, asking.truth.until - 1))
        query = "SELECT at_least, expected, at_most FROM published.count_inside('RELEASE', AREA, at => %(at)s)"
        yield *asking.ask_rows(query, area=area.wkt, at=format_time(at))[0], asking.truth.at(at).inside(area).people()


def draw_hours(asking: Asking, rng: np.random.Generator) -> Drawn:
    for _ in range(QUESTIONS_EACH):
        area, span = draw_area(rng), draw_hour(rng, asking.truth)
        query = "SELECT at_least, expected, at_most FROM published.count_inside('RELEASE', AREA, during => %(span)s)"
        true = asking.truth.during(span).inside(area).people()
        yield *asking.ask_rows(query, area=area.wkt, span=format_span(span))[0], true


def draw_densities(asking: Asking, rng: np.random.Generator) -> Drawn:
    for _ in range(QUESTIONS_EACH // 10):
        span = draw_hour(rng, asking.truth)
        bounds, true, seen = read_density(asking, span), spread(asking.truth, span), asking.truth.cells(CELL_M, span)
        for cell in true | bounds:
            low, expected, high = bounds.get(cell, (0, 0, 0))
            inside = low - 1e-6 <= seen.get(cell, 0) <= high + 1e-6
            yield 0 if inside else np.inf, expected, np.inf, true.get(cell, 0)


def draw_flows(asking: Asking, rng: np.random.Generator) -> Drawn:
    for _ in range(QUESTIONS_EACH // 10):
        span = draw_hour(rng, asking.truth)
        bounds, true = read_flows(asking, span), asking.truth.flows(DISTRICTS, span)
        for pair in true | bounds:
            yield *bounds.get(pair, (0, 0, 0)), true[pair]  # type: ignore[misc]


def draw_stays(asking: Asking, rng: np.random.Generator) -> Drawn:
    for _ in range(QUESTIONS_EACH):
        yield read_dwell(asking, draw_area(rng), draw_hour(rng, asking.truth))  # type: ignore[misc]


DRAWN: Mapping[str, Callable[[Asking, np.random.Generator], Drawn]] = {
    "count at a moment": draw_moments,
    "count over an hour": draw_hours,
    "density of an hour": draw_densities,
    "flows of an hour": draw_flows,
    "dwell in an hour": draw_stays,
}


def format_errors(asking: Asking) -> str:
    """Draw questions of each function; give the errors of `expected` and where the truth was outside the bounds."""
    cells, answers, outside = [], 0, 0
    for draw in DRAWN.values():
        try:
            low, expected, high, true = np.array(list(draw(asking, np.random.default_rng(18))), float).T
        except psycopg.Error as refusal:
            if refusal.sqlstate != "DA011":
                raise
            cells.append("")
            continue
        off, all_true = expected - true, true.sum()
        cells.append(f"{np.abs(off).sum() / all_true:.0%} ({off.sum() / all_true:+.0%})")
        answers += len(true)
        outside += int(((low > true + 1e-6) | (true > high + 1e-6)).sum())
    return f"| {asking.name} | {' | '.join(cells)} | {outside} of {answers:,} |"


# ---- all of it -------------------------------------------------------------------------------------------------------


def main(names: list[str]) -> None:
    if not CABS.is_file():
        print("The taxi data do not lie beside the repository; there is nothing to ask about.")
        return
    refusals: dict[str, int] = {}
    print("| release | question | by hand | at least | expected | at most | truth | within |\n|" + "---|" * 8)
    with (
        testing.running_server() as target,
        testing.template_database(target) as empty,
        testing.cloned_database(target, empty) as loaded,
        tempfile.TemporaryDirectory() as folder,
    ):
        ALL_TAXIS.load(loaded, Path(folder))
        lines = [
            publish_and_ask(target, server.parse(loaded)["dbname"], name, refusals) for name in names or ALL_TAXIS.runs
        ]
    for said, mark in refusals.items():
        print(f"\n({mark}) {said}")
    print(f"\n| release | {' | '.join(DRAWN)} | outside |\n|" + "---|" * (len(DRAWN) + 2))
    print("\n".join(lines))
    print()
    for name, (family, *options) in ALL_TAXIS.runs.items():
        print(f"* {name}: {family} {' '.join(word for word in options if word != '-p')}")


def publish_and_ask(target: server.Target, loaded: str, name: str, refusals: dict[str, int]) -> str:
    """Publish a release in a database of its own, where it is compared with no other; give the line of its errors."""
    with testing.cloned_database(target, loaded) as url:
        ALL_TAXIS.publish(url, name)
        with testing.logins(url) as login, psycopg.connect(login("dbanon_analyst"), autocommit=True) as analyst:
            analyst.execute("CREATE TEMPORARY TABLE districts (district text, shape geometry)")
            for district, shape in DISTRICTS.items():
                analyst.execute(
                    "INSERT INTO districts VALUES (%s, ST_GeomFromText(%s, %s))", [district, shape.wkt, SRID]
                )
            asking = Asking(analyst, name, analyst_truth.read(url, [1]))
            ask_all(asking, refusals)
            return format_errors(asking)


if __name__ == "__main__":
    main(sys.argv[1:])
