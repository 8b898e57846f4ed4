"""What the analysts' functions answer about a day of taxis, beside a query by hand and the truth, in every release.

San Francisco's taxis of 2008-06-04 are published by every family. Each question is asked as an analyst's login; the
truth is that of the tests (``tests/acceptance/analyst_truth.py``): of the people and positions that the release is
about. The query by hand takes centroids, or all that intersects, and sums rows. The second table is of `expected` at a
hundred random areas and times, and how often the truth lay outside the bounds there. ``./dev bench
benchmarks/answers.py``; single releases can be named after it with Python. It needs the files that lie beside the
repository.
"""

import os
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

from dbanon import server
from dbanon.database import open_database
from dbanon.testing import logins
from tests.acceptance import analyst_truth
from tests.acceptance.analyst_places import SRID, Place
from tests.acceptance.analyst_taxis import ALL_TAXIS, CABS, START
from tests.acceptance.analyst_truth import DIRECTIONS, Span, Truth

MOMENT = START + 10.5 * 3600  # 17:30 UTC
HOUR = (START + 10 * 3600, START + 11 * 3600)
CELL_M, DISTRICT_M = 1_000.0, 3_000
ASKED = 100
DISTRICTS = {
    f"{i} {j}": shapely.box(*(np.array([i, j, i + 1, j + 1]) * DISTRICT_M))
    for i in range(180, 186)
    for j in range(1388, 1396)
}


def metres(*degrees: tuple[float, float]) -> np.ndarray:
    return np.array([Transformer.from_crs(4326, SRID, always_xy=True).transform(*point) for point in degrees])


DOWNTOWN = shapely.box(*metres((-122.416, 37.783), (-122.394, 37.800)).ravel())
AIRPORT = shapely.Point(metres((-122.386, 37.617))[0]).buffer(1_500)
LINE = metres((-122.4246, 37.8065), (-122.4180, 37.7715), (-122.4075, 37.7690))  # Van Ness Avenue, and on


@dataclass(frozen=True)
class Answer:
    """Numbers, or why there are none; how many more of the same question there were, all of them within."""

    question: str
    naive: float
    at_least: float | None = None
    expected: float | None = None
    at_most: float | None = None
    true: float | None = None
    others: int = 0
    refusal: str = ""

    @property
    def within(self) -> bool:
        return self.at_least - 1e-6 <= self.true <= self.at_most + 1e-6  # type: ignore[operator]


@dataclass(frozen=True)
class Asking:
    """An analyst's session, the release it asks about, and what is true of it."""

    analyst: psycopg.Connection
    name: str
    truth: Truth

    def rows(self, query: str, **params: object) -> list[tuple]:
        given = {"area": DOWNTOWN.wkt, "hour": spelled(HOUR), "moment": text(MOMENT), "srid": SRID, **params}
        query = query.replace("AREA", "ST_GeomFromText(%(area)s, %(srid)s)").replace(
            "RELEASE", f"published.{self.name}"
        )
        return self.analyst.execute(query, given).fetchall()  # type: ignore[arg-type]

    def number(self, query: str, **params: object) -> float:
        return float(self.rows(query, **params)[0][0] or 0)


def text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def spelled(span: Span) -> str:
    return f"[{text(span[0])},{text(span[1])})"


# ---- the questions ---------------------------------------------------------------------------------------------------


def at_a_moment(asking: Asking) -> Iterator[Answer]:
    naive = "SELECT count(*) FROM RELEASE WHERE period @> %(moment)s::timestamptz AND ST_Intersects(ST_Centroid(region), AREA)"
    asked = "SELECT * FROM published.count_inside('RELEASE', AREA, at => %(moment)s)"
    question, by_hand = "cabs downtown at 10:30", asking.number(naive)
    yield Answer(question, by_hand, *asking.rows(asked)[0], asking.truth.at(MOMENT).inside(DOWNTOWN).people())


def over_an_hour(asking: Asking) -> Iterator[Answer]:
    naive = "SELECT sum(subjects) FROM RELEASE WHERE period && %(hour)s AND ST_Intersects(region, AREA)"
    asked = "SELECT * FROM published.count_inside('RELEASE', AREA, during => %(hour)s)"
    question, by_hand = "cabs downtown from 10 to 11", asking.number(naive)
    yield Answer(question, by_hand, *asking.rows(asked)[0], asking.truth.during(HOUR).inside(DOWNTOWN).people())


def density(asking: Asking) -> Iterator[Answer]:
    found = told_density(asking, HOUR)
    true = asking.truth.cells(CELL_M, HOUR)
    cell = max(true, key=lambda one: true[one])
    naive = """SELECT sum(subjects) FILTER (WHERE ST_Intersects(ST_Centroid(region), AREA))::float8
        / count(DISTINCT valid_from) FROM RELEASE WHERE period && %(hour)s"""
    by_hand = asking.number(naive, area=shapely.box(*(np.array([*cell, cell[0] + 1, cell[1] + 1]) * CELL_M)).wkt)
    answers = {one: Answer("", 0, *found.get(one, (0, 0, 0)), true.get(one, 0)) for one in true | found}
    others = sum(answer.within for answer in answers.values())
    assert others == len(answers), "a cell lies outside its bounds"
    yield Answer("cabs in the busiest km², on average", by_hand, *found[cell], true[cell], others - 1)


def told_density(asking: Asking, span: Span) -> dict[tuple[int, int], list[float]]:
    query = """SELECT ST_XMin(cell), ST_YMin(cell), at_least, expected, at_most
        FROM published.density('RELEASE', %(cell_m)s, %(span)s)"""
    found = asking.rows(query, cell_m=CELL_M, span=spelled(span))
    return {(round(x / CELL_M), round(y / CELL_M)): bounds for x, y, *bounds in found}


def flows(asking: Asking) -> Iterator[Answer]:
    found, true = told_flows(asking, HOUR), asking.truth.flows(DISTRICTS, HOUR)
    answers = {one: Answer("", 0, *found.get(one, (0, 0, 0)), true[one]) for one in true | found}
    assert all(answer.within for answer in answers.values()), "a flow lies outside its bounds"
    pair = max((one for one in true if one[0] != one[1]), key=lambda one: true[one], default=None)
    naive = """WITH place AS (SELECT DISTINCT ON (record_id) record_id, ST_Centroid(first_value(region) OVER o) AS a,
            ST_Centroid(region) AS b FROM RELEASE WHERE period && %(hour)s
            WINDOW o AS (PARTITION BY record_id ORDER BY seq) ORDER BY record_id, seq DESC)
        SELECT count(*) FROM place p JOIN districts f ON ST_Intersects(f.shape, p.a) JOIN districts t ON ST_Intersects(t.shape, p.b)
        WHERE (f.district, t.district) = (%(origin)s, %(destination)s)"""
    by_hand = asking.number(naive, origin=pair and pair[0], destination=pair and pair[1])
    bounds = found[pair] if pair else (0, 0, 0)
    yield Answer("the greatest flow of two districts", by_hand, *bounds, true[pair], len(answers) - 1)


def told_flows(asking: Asking, span: Span) -> dict[tuple[str, str], list[float]]:
    query = "SELECT * FROM published.flows('RELEASE', 'districts', 'district', %(span)s)"
    return {(origin, destination): bounds for origin, destination, *bounds in asking.rows(query, span=spelled(span))}


def crossings(asking: Asking) -> Iterator[Answer]:
    naive = """WITH place AS (SELECT subjects, ST_Centroid(region) AS b,
            lag(ST_Centroid(region)) OVER (PARTITION BY record_id ORDER BY seq) AS a FROM RELEASE WHERE period && %(hour)s)
        SELECT sum(subjects) FROM place WHERE ST_LineCrossingDirection(AREA, ST_MakeLine(a, b)) = %(sign)s"""
    line = shapely.LineString(LINE).wkt
    found = asking.rows("SELECT * FROM published.crossings('RELEASE', AREA, %(hour)s) ORDER BY direction", area=line)
    true = asking.truth.crossings(LINE, HOUR)
    for (direction, low, high), sign, way in zip(found, (1, -1), ("west", "east"), strict=True):
        by_hand = asking.number(naive, area=line, sign=sign)
        yield Answer(f"cabs that crossed Van Ness, {way}wards", by_hand, low, None, high, true[direction])


def dwell(asking: Asking) -> Iterator[Answer]:
    naive = "SELECT count(*) FROM RELEASE WHERE period && %(hour)s AND ST_Intersects(ST_Centroid(region), AREA)"
    by_hand = asking.number(naive, area=AIRPORT.wkt)
    yield Answer("cab-minutes at the airport", by_hand, *told_dwell(asking, AIRPORT, HOUR))


def told_dwell(asking: Asking, area: shapely.Geometry, span: Span) -> tuple[float, ...]:
    """Minutes of all records, each for every person it stands for, and the truth of them."""
    query = """SELECT coalesce(sum(subjects * surely), 0)::float8, coalesce(sum(subjects * expectedly), 0)::float8,
        coalesce(sum(subjects * possibly), 0)::float8 FROM published.dwell('RELEASE', AREA, %(span)s)"""
    [told] = asking.rows(query, area=area.wkt, span=spelled(span))
    return (*told, sum(inside for _, _, inside in asking.truth.dwell(area, span)))


def requests(asking: Asking) -> Iterator[Answer]:
    asked = """SELECT coalesce(sum(at_least), 0)::float8, NULL, coalesce(sum(at_most), 0)::float8
        FROM published.requests_inside('RELEASE', AREA, %(hour)s)"""  # one content alone: a pick-up
    [bounds] = asking.rows(asked)
    naive = """SELECT sum(jsonb_array_length(requests)) FROM RELEASE
        WHERE period && %(hour)s AND ST_Intersects(region, AREA)"""
    true = sum(asking.truth.requests_inside(DOWNTOWN, HOUR).values())
    yield Answer("cabs that picked people up downtown", asking.number(naive), *bounds, true)


QUESTIONS = (at_a_moment, over_an_hour, density, flows, crossings, dwell, requests)


def printed(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:,.1f}"


def ask_all(asking: Asking, refusals: dict[str, int]) -> None:
    for question in QUESTIONS:
        try:
            for one in question(asking):
                numbers = " | ".join(map(printed, (one.naive, one.at_least, one.expected, one.at_most, one.true)))
                within = ("yes" if one.within else "NO") + (f", as {one.others} others" if one.others else "")
                print(f"| {asking.name} | {one.question} | {numbers} | {within} |", flush=True)
        except psycopg.Error as refusal:
            if refusal.sqlstate != "DA011":
                raise
            said = (refusal.diag.message_primary or "").replace(asking.name, "It")
            mark = refusals.setdefault(said, len(refusals) + 1)
            print(f"| {asking.name} | {question.__name__.replace('_', ' ')} | | refused ({mark}) | | | | |", flush=True)


# ---- how far `expected` is off ---------------------------------------------------------------------------------------


def random_area(rng: np.random.Generator) -> shapely.Geometry:
    """A square of one to four kilometres somewhere in the city."""
    (x, y), half = ALL_TAXIS.corner + rng.uniform(0, ALL_TAXIS.side_m, 2), rng.uniform(500, 2_000)
    return shapely.box(x - half, y - half, x + half, y + half)


def random_hour(rng: np.random.Generator, truth: Truth) -> Span:
    begin = rng.uniform(truth.since, max(truth.since, truth.until - 3600))
    return float(round(begin)), min(float(round(begin)) + 3600, truth.until)


def spread(truth: Truth, span: Span) -> dict[tuple[int, int], float]:
    """What `density` expects: the mean number, or, where rows hold at some time, each person's one by its fixes."""
    if not truth.some_time:
        return truth.cells(CELL_M, span)
    found = truth.during(span)
    weight = 1 / np.bincount(found.person)[found.person]
    cells: dict[tuple[int, int], float] = {}
    for i, j, one in zip(found.x // CELL_M, found.y // CELL_M, weight, strict=True):
        cells[int(i), int(j)] = cells.get((int(i), int(j)), 0) + one
    return cells


Drawn = Iterator[
    tuple[float, float, float, float]
]  # at_least, expected, at_most, truth: of one random question or cell


def moments(asking: Asking, rng: np.random.Generator) -> Drawn:
    for _ in range(ASKED):
        area, at = random_area(rng), round(rng.uniform(asking.truth.since, asking.truth.until - 1))
        query = "SELECT * FROM published.count_inside('RELEASE', AREA, at => %(at)s)"
        yield *asking.rows(query, area=area.wkt, at=text(at))[0], asking.truth.at(at).inside(area).people()


def hours(asking: Asking, rng: np.random.Generator) -> Drawn:
    for _ in range(ASKED):
        area, span = random_area(rng), random_hour(rng, asking.truth)
        query = "SELECT * FROM published.count_inside('RELEASE', AREA, during => %(span)s)"
        true = asking.truth.during(span).inside(area).people()
        yield *asking.rows(query, area=area.wkt, span=spelled(span))[0], true


def densities(asking: Asking, rng: np.random.Generator) -> Drawn:
    for _ in range(ASKED // 10):
        span = random_hour(rng, asking.truth)
        found, true, seen = told_density(asking, span), spread(asking.truth, span), asking.truth.cells(CELL_M, span)
        for cell in true | found:
            low, expected, high = found.get(cell, (0, 0, 0))
            inside = low - 1e-6 <= seen.get(cell, 0) <= high + 1e-6
            yield 0 if inside else np.inf, expected, np.inf, true.get(cell, 0)


def all_flows(asking: Asking, rng: np.random.Generator) -> Drawn:
    for _ in range(ASKED // 10):
        span = random_hour(rng, asking.truth)
        found, true = told_flows(asking, span), asking.truth.flows(DISTRICTS, span)
        for pair in true | found:
            yield *found.get(pair, (0, 0, 0)), true[pair]  # type: ignore[misc]


def stays(asking: Asking, rng: np.random.Generator) -> Drawn:
    for _ in range(ASKED):
        yield told_dwell(asking, random_area(rng), random_hour(rng, asking.truth))  # type: ignore[misc]


DRAWN: Mapping[str, Callable[[Asking, np.random.Generator], Drawn]] = {
    "count at a moment": moments,
    "count over an hour": hours,
    "density of an hour": densities,
    "flows of an hour": all_flows,
    "dwell in an hour": stays,
}


def errors(asking: Asking) -> None:
    for function, draw in DRAWN.items():
        try:
            low, expected, high, true = np.array(list(draw(asking, np.random.default_rng(18))), float).T
        except psycopg.Error as refusal:
            if refusal.sqlstate != "DA011":
                raise
            continue
        off = expected - true
        outside = int(((low > true + 1e-6) | (true > high + 1e-6)).sum())
        mean, error, bias = true.mean(), np.abs(off).sum() / true.sum(), off.sum() / true.sum()
        print(
            f"| {asking.name} | {function} | {len(true):,} | {mean:,.2f} | {error:.0%} | {bias:+.0%} | {outside} |",
            flush=True,
        )


# ---- all of it -------------------------------------------------------------------------------------------------------


def asked(url: str, place: Place, names: list[str]) -> None:
    with logins(url) as login, psycopg.connect(login("dbanon_analyst"), autocommit=True) as analyst:
        analyst.execute("CREATE TEMPORARY TABLE districts (district text, shape geometry)")
        for name, shape in DISTRICTS.items():
            analyst.execute("INSERT INTO districts VALUES (%s, ST_GeomFromText(%s, %s))", [name, shape.wkt, SRID])
        numbers = {name: number for number, name in enumerate(place.runs, 1)}
        all_asked = [Asking(analyst, name, analyst_truth.read(url, numbers[name])) for name in names]
        refusals: dict[str, int] = {}
        print("| release | question | by hand | at least | expected | at most | truth | within |\n|" + "---|" * 8)
        for asking in all_asked:
            ask_all(asking, refusals)
        for said, mark in refusals.items():
            print(f"\n({mark}) {said}")
        print("\n| release | function | answers | mean truth | error | bias | outside |\n|" + "---|" * 7)
        for asking in all_asked:
            errors(asking)


def publish_and_ask(folder: Path, names: list[str]) -> None:
    with open_database() as database:
        url = database.target.url
    ALL_TAXIS.load(url, folder)
    ALL_TAXIS.publish_all(url)
    for name, (family, *options) in ALL_TAXIS.runs.items():
        print(f"* {name}: {family} {' '.join(word for word in options if word != '-p')}")
    print(flush=True)
    asked(url, ALL_TAXIS, names or list(ALL_TAXIS.runs))


def main(names: list[str]) -> None:
    if not CABS.is_file():
        print("The taxi data do not lie beside the repository; there is nothing to ask about.")
        return
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)  # the server's user has to find its way through
        os.environ["DBANON_HOME"] = str(Path(place) / "server")
        try:
            publish_and_ask(Path(place), names)
        finally:
            server.EmbeddedServer().stop()


if __name__ == "__main__":
    main(sys.argv[1:])
