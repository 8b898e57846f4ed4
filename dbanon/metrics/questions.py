"""Draws questions at random, and counts the true answers: people in a square at a moment, or during ten minutes."""

from collections.abc import Iterator, Sequence
from itertools import pairwise, starmap
from typing import Any

import numpy as np

from dbanon.base import cores
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Float, Int
from dbanon.results.figures import SIDES_M, Movements, Questions, choose_sides

_POSITIONS_PER_PART = 1_000_000  # positions that a thread counts at a time, and a few more

_COMPARED_SIDE_M = 2000.0


def choose_compared_side(questions: Questions) -> float:
    """Choose the squares by which settings are compared: half as wide as the widest that were asked, at most 2 km."""
    return min(float(questions.side_m.max()) / 2, _COMPARED_SIDE_M)


def note_sides(questions: Questions) -> tuple[str, ...]:
    """Note the sides that were asked, if not all of `SIDES_M`."""
    sides = tuple(np.unique(questions.side_m).tolist())
    if not sides or sides == SIDES_M:
        return ()
    others = ", ".join(f"{side:g}" for side in sides[:-1])
    return (
        "Squares wider than half of the city hold nearly all people, and say nothing: dbanon asked about sides of "
        f"{others} and {sides[-1]:g} m.",
    )


def draw_questions(
    rng: np.random.Generator,
    *,
    box: tuple[float, float, float, float],
    moments: Float,
    spans: Float,
    sides_m: Sequence[float] | None = None,
    queries: int = 400,
) -> Questions:
    """Draw squares at random places and times: `queries` of each side at moments, and as many during spans.

    Each question has a moment or span of its own, drawn from all that are given. So the questions of a side are drawn
    independently, which `dbanon.metrics.counts.measure_counts` requires.

    Parameters
    ----------
    box : tuple of float
        xmin, ymin, xmax, ymax in metres: centres of squares are uniform in it.
    moments : float64[m]
        Unix seconds: all moments that can be asked about.
    spans : float64[s, 2]
        Since and until, in unix seconds.
    sides_m : sequence of float, optional
        By default those that fit the box.
    """
    times = [np.column_stack([moments, moments]), np.reshape(spans, (-1, 2))]
    kinds = [(side, choice) for side in (sides_m or choose_sides(box)) for choice in times if len(choice)]
    low, high = np.array(box[:2]), np.array(box[2:])
    side = np.repeat([float(side) for side, _ in kinds], queries)
    centre = low + (high - low) * rng.random((len(side), 2))
    when = [choice[rng.integers(len(choice), size=queries)] for _, choice in kinds]
    since, until = np.concatenate([np.empty((0, 2)), *when]).T
    return Questions(
        side_m=side, x=centre[:, 0] - side / 2, y=centre[:, 1] - side / 2, since=since.copy(), until=until.copy()
    )


def count_true_answers(movements: Movements, questions: Questions) -> Float:
    """Count the distinct people in each square at its time: float64[q].

    Squares are closed, as areas are for the functions of `published`. A position counts at its moment, and in a span
    from its start up to but without its end.

    Positions are taken in parts that hold all positions of their people. Those of a part are sorted by time, so that
    those at a question's time lie together: memory is for a part, never for people x questions.
    """
    order = np.lexsort((questions.until, questions.since))
    sides = questions.side_m[order]
    squares = (questions.x[order], questions.x[order] + sides, questions.y[order], questions.y[order] + sides)
    times = _Times(questions.since[order], questions.until[order])

    def count(part: slice) -> Int:
        counts = np.zeros(len(order), np.int64)
        slot = times.find_slots(movements.t[part])
        in_time = np.argsort(slot, kind="stable")
        columns = [values[part][in_time] for values in (movements.person, movements.x, movements.y)]
        for asked, first, last in times.iter_groups(slot[in_time]):
            person, x, y = _sort_by_person([values[first:last] for values in columns])
            left, right, bottom, top = (edges[asked] for edges in squares)
            _count(person, x, y, left, right, bottom, top, counts[asked])
        return counts

    answers = np.empty(len(order))
    answers[order] = sum(cores.map_each(count, _cut_parts(movements.person)), np.zeros(len(order), np.int64))
    return answers


class _Times:
    """The times of questions, in their order by since and until, and the slots of time that make up each of them.

    All times at which a question begins or ends cut time into slots: slot 2 b + 1 is time b alone, slot 2 b + 2 the
    time between it and the next one. A moment is one slot; a span is all slots from its start to before its end.
    """

    def __init__(self, since: Float, until: Float) -> None:
        self._bounds = np.unique(np.concatenate([since, until]))
        low, high = (2 * np.searchsorted(self._bounds, ends) + 1 for ends in (since, until))
        high = np.where(since == until, low + 1, high)
        self._begin = np.flatnonzero(np.append(True, (np.diff(low) != 0) | (np.diff(high) != 0))[: len(since)])
        self._low, self._high, self._questions = low[self._begin], high[self._begin], len(since)

    def find_slots(self, t: Float) -> Int:
        """Find the slot of each time; two bytes are used if they suffice, since NumPy sorts them ten times as fast."""
        above = np.searchsorted(self._bounds, t, side="right")
        exactly = np.append(np.nan, self._bounds)[above] == t
        slots: Int = (2 * above - exactly).astype(np.uint16 if 2 * len(self._bounds) < 2**16 else np.int64)
        return slots

    def iter_groups(self, slot: Int) -> Iterator[tuple[slice, int, int]]:
        """Give the questions of each time, and the range of positions at that time; `slot` ascends."""
        first, last = np.searchsorted(slot, self._low), np.searchsorted(slot, self._high)
        ends = np.append(self._begin[1:], self._questions)
        for group in np.flatnonzero(last > first).tolist():
            yield slice(int(self._begin[group]), int(ends[group])), int(first[group]), int(last[group])


def _cut_parts(person: Int) -> Iterator[slice]:
    """Cut positions into parts of about a million, each with all positions of its people."""
    cuts = np.unique(np.searchsorted(person, person[::_POSITIONS_PER_PART]))
    return starmap(slice, pairwise([*cuts.tolist(), len(person)]))


def _sort_by_person(columns: list[Any]) -> list[Any]:
    person = columns[0]
    if (person[1:] >= person[:-1]).all():
        return columns
    order = np.argsort(person, kind="stable")
    return [values[order] for values in columns]


@compile_kernel
def _count(  # noqa: PLR0917 - Numba kernels take arrays by position
    person: Any, x: Any, y: Any, left: Any, right: Any, bottom: Any, top: Any, counts: Any
) -> None:
    """Count people by square; positions are in the order of people, and a person may have several."""
    are_once = True
    for i in range(1, len(person)):
        are_once &= person[i] != person[i - 1]
    for q in range(len(counts)):
        number = 0
        if are_once:  # without a branch, for the processor does four at once
            for i in range(len(person)):
                number += (left[q] <= x[i]) & (x[i] <= right[q]) & (bottom[q] <= y[i]) & (y[i] <= top[q])
        else:
            last = -1
            for i in range(len(person)):
                inside = left[q] <= x[i] <= right[q] and bottom[q] <= y[i] <= top[q]
                if inside and (number == 0 or person[i] != person[last]):
                    number += 1
                    last = i
        counts[q] += number
