"""What is told to analysts: by rows in a temporary table, or by points.

Cells and zones are squares of a grid from 0; people are as expected.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dbanon.base.figures import Answers, Movements, Questions
from dbanon.base.progress import Progress
from dbanon.base.trajectory import Bool, Float, Int
from dbanon.metrics.questions import count_true_answers
from dbanon.postgres.connection import Connection

Span = tuple[float, float]
Box = tuple[float, float, float, float]
Counted = tuple[Int, Float]
"""Keys int64[n, 2], and people float64[n]."""

SPAN_S = 600.0
"""How long the spans last that are asked about."""
_ROWS_VIEW = "'pg_temp.asked_rows'"
_HALF_VIEW = "'pg_temp.asked_half'"
_QUESTIONS_PER_STATEMENT = 100  # so that progress is shown and Ctrl-C is heard
_MAX_ZONES = 400  # each pair is compared


class Told(Protocol):
    """Answers about people, whatever they are made from."""

    def answer_counts(self, questions: Questions, progress: Progress) -> Answers:
        """Answer how many people were in squares."""

    def answer_density(self, side_m: float, span: Span) -> Counted:
        """Answer how many people were in each cell."""

    def answer_trips(self, side_m: float, box: Box, span: Span) -> Counted:
        """Answer how many people went from one zone to another, by the numbers that `number_zones` gives them."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows in the temporary table, of which `said` is what published.releases would say, as the server reads it."""

    session: Connection
    said: str
    postgis: str

    def answer_counts(self, questions: Questions, progress: Progress) -> Answers:
        """Ask ``published.count_inside`` one question after the other."""
        return self._ask(_ROWS_VIEW, questions, progress)

    def answer_counts_of_half(self, questions: Questions, one_in: int, progress: Progress) -> Answers:
        """Ask every other one of the records, which are one in so many."""
        self.session.execute(
            "CREATE TEMPORARY VIEW asked_half AS "
            f"SELECT * FROM pg_temp.asked_rows r WHERE r.record_id / {int(one_in)} % 2 = 0"
        )
        return self._ask(_HALF_VIEW, questions, progress)

    def _ask(self, relation: str, questions: Questions, progress: Progress) -> Answers:
        query = f"SELECT q.* FROM dbanon_internal.ask_rows(%s::published.releases, {relation}, %s, %s, %s, %s, %s) q"
        arrays = (questions.x, questions.y, questions.side_m, questions.since, questions.until)
        told: list[Any] = []
        for first in range(0, len(questions.x), _QUESTIONS_PER_STATEMENT):
            progress("asking questions", first, len(questions.x))
            some = [array[first : first + _QUESTIONS_PER_STATEMENT].tolist() for array in arrays]
            told += self.session.execute(query, [self.said, *some]).fetchall()
        at_least, expected, at_most = np.array(told).T
        return Answers(at_least=at_least, expected=expected, at_most=at_most)

    def answer_density(self, side_m: float, span: Span) -> Counted:
        """Ask ``published.density``."""
        corner = "floor((st_xmin(d.cell) + %s / 2) / %s)::bigint, floor((st_ymin(d.cell) + %s / 2) / %s)::bigint"
        return self._call_function(
            f"{corner}, d.expected", "density_of", "%s, {}, false, NULL", span, first=[side_m] * 4, given=[side_m]
        )

    def answer_trips(self, side_m: float, box: Box, span: Span) -> Counted:
        """Ask ``published.flows`` of a temporary table of zones."""
        self.session.execute("DROP TABLE IF EXISTS pg_temp.asked_zones")
        i, j = (axis.ravel().tolist() for axis in np.meshgrid(*_list_zones(side_m, box)))
        self.session.execute(
            "CREATE TEMPORARY TABLE asked_zones ON COMMIT DROP AS SELECT z.i * %s + z.j AS zone, st_makeenvelope("
            "z.i * %s, z.j * %s, (z.i + 1) * %s, (z.j + 1) * %s, (%s::published.releases).srid) AS area "
            "FROM unnest(%s::bigint[], %s::bigint[]) z (i, j)".replace(
                "st_makeenvelope", self._qualify("st_makeenvelope")
            ),
            [_ZONES_PER_ROW, *[side_m] * 4, self.said, i, j],
        )
        columns = "d.origin::bigint, d.destination::bigint, d.expected"
        return self._call_function(columns, "flows_of", "'pg_temp.asked_zones', 'zone', {}", span, given=[])

    def answer_dwell(self, square: Box, span: Span) -> tuple[Float, Float]:
        """Ask ``published.dwell``: of each record its people, and at how many instants they are expected inside."""
        area = f"{self._qualify('st_makeenvelope')}(%s, %s, %s, %s, (%s::published.releases).srid)"
        given = [*square, self.said]
        keys, values = self._call_function("d.subjects, 0, d.expectedly", "dwell_of", area + ", {}", span, given=given)
        return keys[:, 0].astype(np.float64), values

    def _call_function(
        self, columns: str, name: str, more: str, span: Span, *, first: Sequence[Any] = (), given: list[Any]
    ) -> Counted:
        """Call an inner function of schema published: two whole numbers and a real one of each of its rows."""
        for function in ("st_xmin", "st_ymin"):
            columns = columns.replace(function, self._qualify(function))
        during = "tstzrange(to_timestamp(%s), to_timestamp(%s))"
        call = f"published.{name}(%s::published.releases, {_ROWS_VIEW}, {more.format(during)})"
        found = self.session.execute(
            f"SELECT {columns} FROM {call} d",
            [*first, self.said, *given, *span],
        ).fetchall()
        table = np.array(found, np.float64).reshape(-1, 3)
        return table[:, :2].astype(np.int64), table[:, 2]

    def _qualify(self, function: str) -> str:
        return f"{self.postgis}.{function}"


@dataclass(frozen=True, kw_only=True)
class Points:
    """Points of another program, each of which stands for one person: they are their own bounds."""

    movements: Movements

    def answer_counts(self, questions: Questions, progress: Progress) -> Answers:
        progress("asking questions", 0, None)
        counted = count_true_answers(self.movements, questions)
        return Answers(at_least=counted, expected=counted, at_most=counted)

    def answer_density(self, side_m: float, span: Span) -> Counted:
        return count_density(self.movements, side_m, span)

    def answer_trips(self, side_m: float, box: Box, span: Span) -> Counted:
        return count_trips(self.movements, side_m, box, span)


def count_density(moved: Movements, side_m: float, span: Span) -> Counted:
    """Count the people in each cell, each once."""
    then = _is_within(moved, span)
    where = np.column_stack([np.floor(axis[then] / side_m) for axis in (moved.x, moved.y)]).astype(np.int64)
    once = np.unique(np.column_stack([where, moved.person[then]]), axis=0)
    cells, people = np.unique(once[:, :2], axis=0, return_counts=True)
    return cells, people.astype(np.float64)


def count_trips(moved: Movements, side_m: float, box: Box, span: Span) -> Counted:
    """Count people by the zones of the first and the last position of a track; those outside of all are left out."""
    then = np.flatnonzero(_is_within(moved, span))
    then = then[np.lexsort((moved.t[then], moved.track[then]))]
    change = np.flatnonzero(np.diff(moved.track[then], prepend=-1, append=-1))
    first, last = then[change[:-1]], then[change[1:] - 1]
    at_first, at_last = (
        number_zones(moved.x[first], moved.y[first], side_m, box),
        number_zones(moved.x[last], moved.y[last], side_m, box),
    )
    inside = (at_first != _NO_ZONE) & (at_last != _NO_ZONE)
    once = np.unique(np.column_stack([at_first, at_last, moved.person[first]])[inside], axis=0)
    pairs, people = np.unique(once[:, :2], axis=0, return_counts=True)
    return pairs, people.astype(np.float64)


def measure_stays(moved: Movements, square: Box, span: Span) -> Float:
    """Count at how many instants each track was in a square, for those that were there at all: float64[], by track."""
    xmin, ymin, xmax, ymax = square
    inside = _is_within(moved, span) & (moved.x >= xmin) & (moved.x <= xmax) & (moved.y >= ymin) & (moved.y <= ymax)
    return np.unique(moved.track[inside], return_counts=True)[1].astype(np.float64)


_ZONES_PER_ROW = 1 << 31  # zones are numbered row by row
_NO_ZONE = np.iinfo(np.int64).min


def number_zones(x: Float, y: Float, side_m: float, box: Box) -> Int:
    """Number the zones of places in metres, the least int64 where a zone does not meet the box."""
    i, j = (np.floor(axis / side_m).astype(np.int64) for axis in (x, y))
    inside: Bool = np.ones(len(i), np.bool_)
    for axis, known in zip((i, j), _list_zones(side_m, box), strict=True):
        inside &= (axis >= known[0]) & (axis <= known[-1])
    return np.where(inside, i * _ZONES_PER_ROW + j, _NO_ZONE)


def compute_zone_side(box: Box, side_m: float) -> float:
    """Give the side of zones in metres: the one asked for, doubled until there are few enough."""
    while np.prod([len(axis) for axis in _list_zones(side_m, box)]) > _MAX_ZONES:
        side_m *= 2
    return side_m


def _list_zones(side_m: float, box: Box) -> tuple[Int, Int]:
    columns, rows = (
        np.arange(np.floor(low / side_m), np.floor(high / side_m) + 1).astype(np.int64)
        for low, high in ((box[0], box[2]), (box[1], box[3]))
    )
    return columns, rows


def _is_within(moved: Movements, span: Span) -> Bool:
    then: Bool = (moved.t >= span[0]) & (moved.t < span[1])
    return then
