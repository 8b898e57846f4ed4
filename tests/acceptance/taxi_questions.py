"""The ten questions of the page for analysts: what it shows, what is true, and what the queries it warns of would give.

The truth is that of `analyst_truth`: aligned positions of the people whom the release publishes.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import psycopg
import shapely

from tests import pages
from tests.acceptance.analyst_truth import Span, Truth

PAGE = "docs/analysts/ten-questions.md"
_VAN_NESS = "LINESTRING(-122.423 37.760, -122.423 37.810)"
SRID, CELL_M = 32610, 1000
CITY = ZoneInfo("America/Los_Angeles")
_QUESTION = re.compile(
    r"^## (\d+)\. .*?^```sql cabs\n(.*?)^```\n\n^```text\n(.*?)^```\n\n"
    r"(?:^\*True:\* (.*?)\n\n)?\*Wrong:\* (.*?)\n(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
Table = list[dict[str, str]]


@dataclass(frozen=True)
class Question:
    number: int
    query: str
    shown: list[str]
    true: list[str]
    wrong: list[str]


def read_questions() -> list[Question]:
    """Take the page apart; figures that are wrong are bold there, and true ones in a last column, or said below."""
    found = []
    for number, query, shown, true, wrong in _QUESTION.findall((pages.ROOT / PAGE).read_text()):
        lines = shown.splitlines()
        truth = re.findall(r"\d[\d,.]*\b", true)
        if not true:
            lines, (title, _, *truth) = _split_last_column(lines)
            assert title == "true"
        found.append(Question(int(number), query, lines, truth, re.findall(r"\*\*(.+?)\*\*", wrong)))
    return found


def _split_last_column(lines: list[str]) -> tuple[list[str], list[str]]:
    """Split what psql prints from a column beside it."""
    parted = [line.rpartition("+" if line.startswith("-") else "|") for line in lines]
    return [printed.rstrip() for printed, _, _ in parted], [cell.strip() for _, _, cell in parted]


def set_up() -> str:
    """Return the block before the questions: the time zone, and the districts in a temporary table."""
    return pages.list_blocks(PAGE, "sql cabs")[0][1]


def read_table(printed: list[str]) -> Table:
    """Read what psql prints."""
    cells = [[cell.strip() for cell in line.split("|")] for line in printed]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def is_near(shown: str, figure: float) -> bool:
    """Whether a figure is the one shown, rounded as that is."""
    digits = shown.replace(",", "")
    return abs(float(digits) - figure) <= 0.5 * 10.0 ** -len(digits.partition(".")[2]) + 1e-9


def convert_clock(clock: str) -> float:
    hour, minute = map(int, clock.split(":"))
    return datetime(2008, 6, 4, hour, minute, tzinfo=CITY).timestamp()


def convert_clocks(since: str, until: str) -> Span:
    return convert_clock(since), convert_clock(until)


class Taxis:
    """The truth of the taxis, asked in the places of the page."""

    def __init__(self, truth: Truth, asked: psycopg.Connection) -> None:
        """Look up the places in a session in which `set_up` was run."""
        self.truth, self.asked = truth, asked
        self.districts = {
            str(name): self._shape(f"SELECT area FROM district WHERE name = '{name}'")
            for (name,) in asked.execute("SELECT name FROM district").fetchall()
        }

    def _shape(self, query: str) -> shapely.Geometry:
        row = self.asked.execute(
            f"SELECT ST_AsBinary(ST_Transform(ST_Segmentize(({query}), 0.0005), {SRID}))"  # type: ignore[arg-type]
        ).fetchone()
        assert row is not None
        return shapely.from_wkb(row[0])

    def inside(self, district: str, since: str, until: str) -> float:
        """How many people there are in a district, on average over the instants of a span."""
        found = self.truth.during(convert_clocks(since, until)).inside(self.districts[district])
        return len(found.t) / ((convert_clock(until) - convert_clock(since)) / self.truth.step_s)

    def seen(self, district: str, since: str, until: str) -> int:
        return self.truth.during(convert_clocks(since, until)).inside(self.districts[district]).people()

    def cells(self, since: str, until: str) -> dict[tuple[int, int], float]:
        """The same in each square."""
        return self.truth.cells(CELL_M, convert_clocks(since, until))

    def cell(self, lon: str, lat: str) -> tuple[int, int]:
        point = self._shape(f"SELECT 'SRID=4326;POINT({lon} {lat})'::geometry")
        return int(point.x // CELL_M), int(point.y // CELL_M)

    # ---- the questions: a true figure for each row shown -------------------------------------------------------------

    def density(self, shown: Table) -> list[float]:
        square = self.cell("-122.4075", "37.788")
        return [self.cells(row["hour"][:5], f"{int(row['hour'][:2]) + 1}:00")[square] for row in shown]

    def flows(self, shown: Table) -> list[float]:
        flows = self.truth.flows(self.districts, convert_clocks("9:05", "9:35"))
        return [flows[row["origin"], row["destination"]] for row in shown]

    def crossings(self, shown: Table) -> list[float]:
        line = shapely.get_coordinates(self._shape(f"SELECT 'SRID=4326;{_VAN_NESS}'::geometry"))
        crossed = self.truth.crossings(line, convert_clocks("9:05", "9:35"))
        return [crossed[row["direction"]] for row in shown]

    def people(self, shown: Table) -> list[float]:
        return [self.seen("downtown", "9:00", "9:01"), self.seen("downtown", "9:00", "10:00")]

    def dwelling(self, shown: Table) -> list[float]:
        stays = self.truth.dwell(self.districts["airport"], (self.truth.since, self.truth.until))
        stayed = np.array([inside for _, _, inside in stays])
        return [float((stayed >= int(row["minutes"])).sum()) for row in shown]

    def busiest(self, shown: Table) -> list[float]:
        cells = self.cells("18:00", "19:00")
        return [cells[self.cell(row["lon"], row["lat"])] for row in shown]

    def speeds(self, shown: Table) -> list[float]:
        ways = np.concatenate([np.hypot(np.diff(t.x), np.diff(t.y)) for t in self.truth.tracks])
        return [ways.mean() / self.truth.step_s * 3.6, 100 * (ways == 0).mean()]

    def hours(self, shown: Table) -> list[float]:
        return [self.inside("downtown", row["hour"][:5], f"{int(row['hour'][:2]) + 1}:00") for row in shown]

    def requests(self, shown: Table) -> list[float]:
        sent = [
            self.truth.requests_inside(self.districts[row["name"]], convert_clocks("9:00", "10:00")) for row in shown
        ]
        return [found[row["request"]] for found, row in zip(sent, shown, strict=True)]

    def drawn(self, shown: Table) -> list[float]:
        squares = self.asked.execute(
            "SELECT ST_XMin(cell), ST_YMin(cell) FROM published.density('published.cabs_k5', 1000,"
            " '[2008-06-04 09:00, 2008-06-04 10:00)')"
            " WHERE ST_AsMVTGeom(ST_Transform(cell, 3857), ST_TileEnvelope(12, 655, 1583)) IS NOT NULL"
        ).fetchall()
        cells = self.cells("9:00", "10:00")
        return [sum(cells.get((x // CELL_M, y // CELL_M), 0) for x, y in squares)]

    def error_of_expected(self) -> tuple[float, float]:
        """How far expected counts in the districts at the full hours are off, and the true ones, on average."""
        true, told = [], []
        for name in self.districts:
            for hour in range(1, 24):
                true.append(self.seen(name, f"{hour}:00", f"{hour}:01"))
                [(expected,)] = self.asked.execute(
                    "SELECT expected FROM district, published.count_inside('published.cabs_k5', area, at => %s)"
                    " WHERE name = %s",
                    [f"2008-06-04 {hour}:00", name],
                ).fetchall()
                told.append(expected)
        return float(np.abs(np.subtract(true, told)).mean()), float(np.mean(true))


TRUE: list[Callable[[Taxis, Table], list[float]]] = [
    *(Taxis.density, Taxis.flows, Taxis.crossings, Taxis.people, Taxis.dwelling),
    *(Taxis.busiest, Taxis.speeds, Taxis.hours, Taxis.requests, Taxis.drawn),
]

# What the page warns of, by the number of the question.
_CENTRES = """
    WITH middle AS (SELECT record_id, seq, subjects, valid_from, ST_Transform(ST_Centroid(region), 4326) AS place
                    FROM published.cabs_k5 WHERE valid_from >= '2008-06-04 09:05' AND valid_from < '2008-06-04 09:35')
"""
_FROM_9_TO_10 = "valid_from >= '2008-06-04 09:00' AND valid_from < '2008-06-04 10:00'"
WRONG = {
    1: "SELECT sum(subjects) FROM published.cabs_k5, ST_Centroid(region) AS c,"
    " ST_Transform('SRID=4326;POINT(-122.4075 37.788)'::geometry, 32610) AS p"
    " WHERE floor(ST_X(c) / 1000) = floor(ST_X(p) / 1000) AND floor(ST_Y(c) / 1000) = floor(ST_Y(p) / 1000)"
    f" AND {_FROM_9_TO_10}",
    2: f"{_CENTRES} SELECT sum(a.subjects) FROM middle a JOIN middle b USING (record_id), district o, district d"
    " WHERE a.valid_from = '2008-06-04 09:05' AND b.valid_from = '2008-06-04 09:34' AND o.name = 'downtown'"
    " AND d.name = 'south' AND ST_Covers(o.area, a.place) AND ST_Covers(d.area, b.place)",
    3: f"""{_CENTRES}, crossing AS (
            SELECT DISTINCT a.record_id, a.subjects, ST_X(a.place) < -122.423 AS eastwards
            FROM middle a JOIN middle b ON b.record_id = a.record_id AND b.seq = a.seq + 1
            WHERE (ST_X(a.place) < -122.423) <> (ST_X(b.place) < -122.423)
                AND ST_Intersects(ST_MakeLine(a.place, b.place), 'SRID=4326;{_VAN_NESS}'))
        SELECT sum(subjects) FILTER (WHERE eastwards), sum(subjects) FILTER (WHERE NOT eastwards) FROM crossing""",
    4: "SELECT sum(subjects) FROM published.cabs_k5, district WHERE name = 'downtown'"
    f" AND ST_Intersects(region, ST_Transform(area, 32610)) AND {_FROM_9_TO_10}",
    5: """
        WITH stay AS (SELECT max(subjects) AS subjects,
                          count(*) FILTER (WHERE ST_Covers(area, ST_Transform(ST_Centroid(region), 4326))) AS minutes
                      FROM published.cabs_k5, district WHERE name = 'airport' GROUP BY record_id)
        SELECT sum(subjects) FILTER (WHERE minutes >= 1), sum(subjects) FILTER (WHERE minutes >= 10),
            sum(subjects) FILTER (WHERE minutes >= 20), sum(subjects) FILTER (WHERE minutes >= 30) FROM stay""",
    9: "SELECT sum(subjects) FILTER (WHERE touched), sum(subjects) FILTER (WHERE once) FROM ("
    " SELECT subjects, ST_Intersects(region, ST_Transform(area, 32610)) AS touched, name = 'airport' AS once"
    f' FROM published.cabs_k5, district WHERE requests @> \'[{{"event": "P"}}]\' AND {_FROM_9_TO_10}) AS asked',
    10: f"SELECT count(*) FROM published.cabs_k5 WHERE {_FROM_9_TO_10}",
}
