"""The twenty questions of the page on dashboards: what its statements answer, beside what is true.

They ask San Francisco's taxis of a day in four releases, and their pick-ups, each of a person of its own, in a fifth.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import shapely
from psycopg.rows import dict_row

from benchmarks.answers import convert_to_metres
from dbanon.postgres.server import Target, parse
from dbanon.testing import cloned_database
from tests import pages
from tests.acceptance.analyst_taxis import ALL_TAXIS, PICK_UPS, START_S
from tests.acceptance.analyst_truth import Span, Truth
from tests.acceptance.taxi_questions import convert_clock, convert_clocks

PAGE = "docs/analysts/dashboards.md"
_QUESTION = re.compile(r"^-- (\d+)\. (.+\?)\n-- (.+?)\.(?:(?: |\n-- )True: (.+)\.)?\n((?:.+\n)*?.+;)$", re.MULTILINE)
MANY = 6  # rows from which on a comment has their number and a sum


def _write_pick_ups(folder: Path) -> None:
    ALL_TAXIS.write(folder)
    events = pacsv.read_csv(PICK_UPS)
    in_day = pc.equal(pc.floor(pc.divide(pc.subtract(events["t"], START_S), 86_400.0)), 0.0)
    found = events.filter(pc.and_(pc.equal(events["event"], "P"), in_day)).to_pylist()
    trips = [f"p{i},{one['t']},{one['lon']},{one['lat']}\n" for i, one in enumerate(found)]
    (folder / "trips.csv").write_text("subject,time,x,y\n" + "".join(trips))
    (folder / "requests.csv").write_text(f"subject,time,event\np0,{found[0]['t']},P\n")
    (folder / "known.csv").write_text(f"subject,time\np0,{found[0]['t']}\n")


TAXIS = replace(
    ALL_TAXIS,
    runs={
        "cabs_k5": ALL_TAXIS.runs["cabs_k5"],
        "cabs_mob": ALL_TAXIS.runs["mob"],
        "cabs_groups": ("kte", "--algorithm", "k-merge", "-p", "k=2", "-p", "window_s=1800"),
        "cabs_semantic": ALL_TAXIS.runs["semantic"],
    },
)
CLINICS = replace(
    ALL_TAXIS, name="pickups", write=_write_pick_ups, runs={"pickups_clinics": ("sensitive-sites", "-p", "k=5")}
)


@contextmanager
def published(server: Target, template: str, folder: Path) -> Iterator[Callable[[str], str]]:
    """Load the data; gives a function that publishes a release in a database of its own, once, and returns its URL."""
    with ExitStack() as databases:
        loaded = databases.enter_context(cloned_database(server, template))
        for place in (TAXIS, CLINICS):
            place.load(loaded, folder)

        @cache
        def publish(name: str) -> str:
            url = databases.enter_context(cloned_database(server, parse(loaded)["dbname"]))
            (TAXIS if name in TAXIS.runs else CLINICS).publish(url, name)
            return url

        yield publish


@dataclass(frozen=True)
class Question:
    """A statement of the page, and what the comments above it say of its answer and of the truth."""

    number: int
    asked: str
    said: str
    true: str
    statement: str

    @property
    def release(self) -> str:
        """The name of the release that it asks."""
        return str(re.findall(r"\b(?:cabs|pickups)_\w+", self.statement)[0])


def read_questions() -> list[Question]:
    found = _QUESTION.findall((pages.ROOT / PAGE).read_text())
    return [Question(int(number), *texts) for number, *texts in found]


def ask(analyst: psycopg.Connection, statement: str) -> list[dict[str, Any]]:
    return analyst.cursor(row_factory=dict_row).execute(statement).fetchall()


def list_figures(rows: list[dict[str, Any]]) -> list[float]:
    """All numbers of an answer, or of many rows how many there are and the sum of what they expect."""
    if len(rows) >= MANY:
        return [len(rows), sum(row["expected"] for row in rows)]
    return [float(cell) for row in rows for cell in row.values() if isinstance(cell, int | float | Decimal)]


# ---- what is true ----------------------------------------------------------------------------------------------------

Rows = list[dict[str, Any]]
DOWNTOWN, AIRPORT = (shapely.box(551_000, y, 555_000, y + 4_000) for y in (4_181_000, 4_161_000))
HOSPITAL = shapely.Point(552_460, 4_178_870).buffer(300)
BRIDGE = convert_to_metres((-122.375, 37.78), (-122.375, 37.83))
HOUR = convert_clocks("9:00", "10:00")


def _grid(columns: range, rows: range) -> dict[str, shapely.Geometry]:
    """Squares of 4 km, named as ST_SquareGrid counts them."""
    return {f"{i} {j}": shapely.box(4e3 * i, 4e3 * j, 4e3 * i + 4e3, 4e3 * j + 4e3) for i in columns for j in rows}


def _count(truth: Truth, hours: Iterable[int], area: shapely.Geometry = DOWNTOWN) -> list[int]:
    return [truth.at(convert_clock(f"{hour}:00")).inside(area).people() for hour in hours]


def _compare(cabs: Truth) -> list[float]:
    one, two = _count(cabs, (21, 22))
    return [one, two, two - one]


def _sum_flows(cabs: Truth) -> list[float]:
    zones = _grid(range(136, 139), range(1043, 1047))
    begins = [cabs.since + 3600 * hour for hour in range(24)]
    return [sum(sum(cabs.flows(zones, (since, since + 1800)).values()) for since in begins)]


def _list_origins(cabs: Truth, rows: Rows) -> list[float]:
    zones = {**_grid(range(136, 141), range(1043, 1049)), "downtown": DOWNTOWN}
    flows = cabs.flows(zones, convert_clocks("9:10", "9:30"))
    return [flows[row["origin"], "downtown"] for row in rows]


def _list_crossings(cabs: Truth) -> list[float]:
    windows = [cabs.crossings(BRIDGE, (since, since + 1800)) for since in np.arange(cabs.since, cabs.until, 1800)]
    in_day = [sum(window[way] for window in windows) for way in windows[0]]
    return [*cabs.crossings(BRIDGE, convert_clocks("9:05", "9:35")).values(), *in_day]


def _list_stays(cabs: Truth) -> list[int]:
    return [inside for _, _, inside in cabs.dwell(HOSPITAL, (cabs.since, cabs.until))]


def _list_busiest(cabs: Truth, rows: Rows) -> list[float]:
    cells = cabs.cells(500, (cabs.since, cabs.until))
    return [cells[int(row["x"]) // 500, int(row["y"]) // 500] for row in rows]


def _count_twice(truth: Truth, counted: Span, followed: Span) -> list[float]:
    both = truth.flows({"": DOWNTOWN}, followed)
    return [truth.during(counted).inside(DOWNTOWN).people(), both["", ""]]


TRUE: dict[int, Callable[[Truth, Rows], Iterable[float]]] = {
    1: lambda true, _: _count(true, [9]),
    2: lambda true, _: [sum(sum(_count(true, range(8, 20), area)) for area in (DOWNTOWN, AIRPORT))],
    3: lambda true, _: [sum(_count(true, range(1, 24), shapely.box(547e3, 4177e3, 556e3, 4186e3)))],
    4: lambda true, _: [len(true.positions.t)],
    5: lambda true, _: [true.positions.people()],
    6: lambda true, _: _compare(true),
    7: lambda true, _: [sum(true.requests_inside(area, HOUR).values()) for area in (DOWNTOWN, AIRPORT)],
    8: lambda true, _: _sum_flows(true),
    9: _list_origins,
    10: lambda true, _: _list_crossings(true),
    11: lambda true, _: [sum(minutes >= 10 for minutes in _list_stays(true))],
    12: lambda true, _: [sum(_list_stays(true))],
    13: _list_busiest,
    14: lambda true, _: [sum(true.cells(250, HOUR).values())],
    16: lambda true, _: [true.positions.inside(HOSPITAL).people()],
    17: lambda true, _: _count_twice(true, convert_clocks("9:00", "9:01"), HOUR),
    18: lambda true, _: _count_twice(true, convert_clocks("9:00", "9:10"), convert_clocks("9:00", "9:30")),
    19: lambda true, _: [true.during(HOUR).inside(area).people() for area in (DOWNTOWN, AIRPORT)],
}
"""What is true of each question whose comment says so, given the truth of its release and the rows of its answer."""
