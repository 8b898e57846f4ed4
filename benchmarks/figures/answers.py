"""What a file answers: by rows in a temporary table, which the functions for analysts are asked about, or by points.

Cells and zones are squares of a grid from 0; people are as expected.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from benchmarks.figures.files import Rectangles, Tracks
from dbanon.base.progress import report_nothing
from dbanon.base.trajectory import Bool, Float, Int
from dbanon.evaluation.measurement import ASKED_ROWS, Box, ask_rows
from dbanon.metrics.questions import count_true_answers
from dbanon.postgres import arrow
from dbanon.postgres.connection import Connection, fetch_value
from dbanon.results.figures import Answers, Questions

Span = tuple[float, float]
Counted = tuple[Int, Float]
"""Keys int64[n, 2], and people float64[n]."""

_MAX_ZONES = 400  # each pair is compared
_MIN_SIDE_M = 0.001  # least side of a rectangle, because shares are divided by its area
_ZONES_PER_ROW = 1 << 31  # zones are numbered row by row
_NO_ZONE = np.iinfo(np.int64).min


class Told(Protocol):
    """Answers about people, whatever they are made from."""

    def answer_counts(self, questions: Questions) -> Answers:
        """Answer how many people were in squares."""

    def answer_density(self, side_m: float, span: Span) -> Counted:
        """Answer how many people were in each cell."""

    def answer_trips(self, side_m: float, box: Box, span: Span) -> Counted:
        """Answer how many people went from one zone to another, by the numbers that `number_zones` gives them."""


@dataclass(frozen=True, kw_only=True)
class Points:
    """Points of a file, each of which stands for one person: they are their own bounds."""

    tracks: Tracks

    def answer_counts(self, questions: Questions) -> Answers:  # noqa: D102 - as `Told` has it
        counted = count_true_answers(self.tracks, questions)
        return Answers(at_least=counted, expected=counted, at_most=counted)

    def answer_density(self, side_m: float, span: Span) -> Counted:  # noqa: D102
        return count_density(self.tracks, side_m, span)

    def answer_trips(self, side_m: float, box: Box, span: Span) -> Counted:  # noqa: D102
        return count_trips(self.tracks, side_m, box, span)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows in the temporary table, of which `literal` is what published.releases would say, as the server reads it."""

    session: Connection
    literal: str
    postgis: str

    @classmethod
    def write(cls, snapshot: arrow.Snapshot, srid: int, told: Rectangles) -> "Table":
        """Put rectangles into the temporary table, as rows that hold at some time."""
        session = snapshot.connection
        session.execute("SELECT dbanon_internal.begin_asking(NULL)")
        low, high = told.bounds[:, :2], np.maximum(told.bounds[:, 2:], told.bounds[:, :2] + _MIN_SIDE_M)
        until = np.maximum(told.until, told.since + 1)
        envelope = f"{snapshot.postgis}.ST_MakeEnvelope(r.xmin, r.ymin, r.xmax, r.ymax, %s)"
        arrays = (told.record, told.since, until, *low.T, *high.T, told.subjects)
        session.execute(
            "INSERT INTO pg_temp.asked_rows "
            "SELECT r.record, row_number() OVER (PARTITION BY r.record ORDER BY r.since), "
            f"{envelope}, r.subjects, r.subjects, "
            "to_timestamp(r.since), to_timestamp(r.until) FROM unnest(%s::bigint[], %s::float8[], %s::float8[], "
            "%s::float8[], %s::float8[], %s::float8[], %s::float8[], %s::integer[]) "
            "r (record, since, until, xmin, ymin, xmax, ymax, subjects)",
            [srid, *(array.tolist() for array in arrays)],
        )
        session.execute("SELECT dbanon_internal.finish_asked()")
        box = [*low.min(axis=0).tolist(), *high.max(axis=0).tolist()]
        literal = fetch_value(
            session,
            "SELECT (ROW('the file', NULL, NULL, NULL, t.since, t.until, %s, %s, 'some time', NULL, NULL, NULL, "
            "%s::float8[], 1, ARRAY[t.since], ARRAY[t.until], NULL, 0, NULL, 1)::published.releases)::text "
            "FROM (SELECT to_timestamp(%s) AS since, to_timestamp(%s) AS until) t",
            [srid, len(until), box, float(told.since.min()), float(until.max())],
        )
        return cls(session=session, literal=str(literal), postgis=snapshot.postgis)

    def answer_counts(self, questions: Questions) -> Answers:
        """Ask ``published.count_inside`` one question after the other."""
        return ask_rows(self.session, self.literal, ASKED_ROWS, questions, report_nothing)

    def answer_density(self, side_m: float, span: Span) -> Counted:
        """Ask ``published.density``."""
        corner = (
            "floor(({0}.st_xmin(d.cell) + %s / 2) / %s)::bigint, floor(({0}.st_ymin(d.cell) + %s / 2) / %s)::bigint"
        )
        columns = f"{corner.format(self.postgis)}, d.expected"
        return self._call_function(
            columns, "density_of", "%s, {}, false, true, NULL, NULL", span, first=[side_m] * 4, given=[side_m]
        )

    def answer_trips(self, side_m: float, box: Box, span: Span) -> Counted:
        """Ask ``published.flows_between`` of the squares."""
        i, j = (axis.ravel().tolist() for axis in np.meshgrid(*_list_zones(side_m, box)))
        zones = (
            f"SELECT array_agg((z.i * %s + z.j)::text), array_agg({self.postgis}.st_makeenvelope("
            "z.i * %s, z.j * %s, (z.i + 1) * %s, (z.j + 1) * %s, (%s::published.releases).srid)) "
            "FROM unnest(%s::bigint[], %s::bigint[]) z (i, j)"
        )
        given = [_ZONES_PER_ROW, *[side_m] * 4, self.literal, i, j]
        names, areas = self.session.execute(zones, given).fetchall()[0]
        columns = "d.origin::bigint, d.destination::bigint, d.expected"
        more = f"%s::text[], %s::{self.postgis}.geometry[], {{}}, false, NULL"
        return self._call_function(columns, "flows_of", more, span, given=[names, areas])

    def _call_function(
        self, columns: str, name: str, more: str, span: Span, *, first: Sequence[Any] = (), given: Sequence[Any] = ()
    ) -> Counted:
        """Call an inner function of schema published: two whole numbers and a real one of each of its rows."""
        during = "tstzrange(to_timestamp(%s), to_timestamp(%s))"
        call = f"published_inner.{name}(%s::published.releases, {ASKED_ROWS}, {more.format(during)})"
        rows = self.session.execute(f"SELECT {columns} FROM {call} d", [*first, self.literal, *given, *span]).fetchall()
        table = np.array(rows, np.float64).reshape(-1, 3)
        return table[:, :2].astype(np.int64), table[:, 2]


def count_density(tracks: Tracks, side_m: float, span: Span) -> Counted:
    """Count the people in each cell, each once."""
    then = _is_within(tracks, span)
    where = np.column_stack([np.floor(axis[then] / side_m) for axis in (tracks.x, tracks.y)]).astype(np.int64)
    once = np.unique(np.column_stack([where, tracks.person[then]]), axis=0)
    cells, people = np.unique(once[:, :2], axis=0, return_counts=True)
    return cells, people.astype(np.float64)


def count_trips(tracks: Tracks, side_m: float, box: Box, span: Span) -> Counted:
    """Count people by the zones of the first and the last position of a track; those outside of all are left out."""
    then = np.flatnonzero(_is_within(tracks, span))
    change = np.flatnonzero(np.diff(tracks.person[then], prepend=-1, append=-1))
    ends = then[change[:-1]], then[change[1:] - 1]
    pair = np.column_stack([number_zones(tracks.x[end], tracks.y[end], side_m, box) for end in ends])
    pairs, people = np.unique(pair[(pair != _NO_ZONE).all(axis=1)], axis=0, return_counts=True)
    return pairs, people.astype(np.float64)


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


def _is_within(tracks: Tracks, span: Span) -> Bool:
    then: Bool = (tracks.t >= span[0]) & (tracks.t < span[1])
    return then
