"""Questions at random, and what is true: how many people were in a square at a moment, or during ten minutes."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dbanon.base import cores
from dbanon.base.figures import Movements, Questions
from dbanon.base.kernels import kernel
from dbanon.base.trajectory import Float, Int

_PART = 1_000_000  # positions that a thread counts at a time

SIDES_M = (500.0, 1000.0, 2000.0, 4000.0, 8000.0)


def draw_questions(
    rng: np.random.Generator,
    *,
    window: tuple[float, float, float, float],
    moments: Float,
    spans: Float,
    sides_m: Sequence[float] = SIDES_M,
    queries: int = 400,
    about_moments: bool,
) -> Questions:
    """Draw squares at random places and times: `queries` of each side at moments, and as many during spans.

    Each question has a moment or span of its own, drawn from all that are given. So the questions of a side are drawn
    independently, which is what `count_figures` takes for granted.

    Parameters
    ----------
    window : tuple of float
        xmin, ymin, xmax, ymax in metres: centres of squares are uniform in it.
    moments : float64[m]
        Unix seconds; all that can be asked about, not a few.
    spans : float64[s, 2]
        Since and until, in unix seconds.
    about_moments : bool
        Whether the rows hold at moments; otherwise only spans are asked about.
    """
    times = [np.column_stack([moments, moments])] * about_moments + [np.reshape(spans, (-1, 2))]
    asked = [(side, choice) for side in sides_m for choice in times if len(choice)]
    low, high = np.array(window[:2]), np.array(window[2:])
    side = np.repeat([float(side) for side, _ in asked], queries)
    centre = low + (high - low) * rng.random((len(side), 2))
    when = [choice[rng.integers(len(choice), size=queries)] for _, choice in asked]
    since, until = np.concatenate([np.empty((0, 2)), *when]).T
    return Questions(
        side_m=side, x=centre[:, 0] - side / 2, y=centre[:, 1] - side / 2, since=since.copy(), until=until.copy()
    )


def true_counts(movements: Movements, questions: Questions) -> Float:
    """Count the distinct people in each square at its time: float64[q].

    Squares are closed, as areas are for the functions of `published`. A position counts at its moment, and in a span
    from its start up to but without its end.

    Positions are read once, person by person, and each question remembers whom it counted last: no memory for people x
    questions. Questions of one time and side are sorted by x, so a position looks only at squares that it may be in.
    """
    since, until = questions.since, questions.until
    order = np.lexsort((questions.x, questions.side_m, until, since))
    key = np.stack([since, until, questions.side_m])[:, order]
    begin = np.flatnonzero(np.append(True, (np.diff(key) != 0).any(axis=0))[: len(order)])
    groups = (key[0][begin], key[1][begin], key[2][begin], np.append(begin, len(order)))
    positions = (movements.person, movements.t, movements.x, movements.y, _by_person(movements.person))
    squares, longest = (questions.x[order], questions.y[order]), float((until - since).max(initial=0))

    def count(part: tuple[int, int]) -> Int:
        counts, last = np.zeros(len(order), np.int64), np.full(len(order), -1, np.int64)
        _count(*part, *positions, *groups, *squares, longest, counts, last)
        return counts

    ends = [*range(0, len(movements.t), _PART), len(movements.t)]
    answers = np.empty(len(order))
    answers[order] = sum(cores.each(count, pairwise(ends)), np.zeros(len(order), np.int64))
    return answers


def _by_person(person: Int) -> Int:
    """Order positions by person; empty if they are in order."""
    in_order = bool((person[1:] >= person[:-1]).all())
    return np.empty(0, np.int64) if in_order else np.argsort(person, kind="stable")


@kernel
def _count(  # noqa: PLR0917 - Numba kernels take arrays by position
    start: Any, stop: Any, person: Any, t: Any, x: Any, y: Any, order: Any,
    since: Any, until: Any, side: Any, begin: Any, left: Any, bottom: Any, longest: Any, counts: Any, last: Any,
) -> None:  # fmt: skip
    """Count people by question; questions [begin[g], begin[g + 1]) have one time and side, and ascend by `left`.

    A person whose positions begin within [start, stop) is counted whole, and no other: parts add up.
    """
    i = start
    while _goes_on(person, order, i):
        i += 1
    while i < stop or _goes_on(person, order, i):
        p = order[i] if len(order) else i
        # Groups ascend by the time at which they begin, and none lasts longer than `longest`.
        g = _first(since, t[p] - longest, 0, len(since))
        while g < len(since) and since[g] <= t[p]:
            if t[p] < until[g] or t[p] == since[g]:
                # The square [left, left + side] may hold x from left = x - side on; a hair less, for rounding.
                q = _first(left, x[p] - side[g] - 1e-6, begin[g], begin[g + 1])
                while q < begin[g + 1] and left[q] <= x[p]:
                    within = x[p] <= left[q] + side[g] and bottom[q] <= y[p] <= bottom[q] + side[g]
                    if within and last[q] != person[p]:
                        last[q] = person[p]
                        counts[q] += 1
                    q += 1
            g += 1
        i += 1


@kernel
def _goes_on(person: Any, order: Any, i: Any) -> Any:
    """Whether the i-th position is of the person whose position is before it."""
    if i == 0 or i >= len(person):
        return False
    if len(order):
        return person[order[i]] == person[order[i - 1]]
    return person[i] == person[i - 1]


@kernel
def _first(ascending: Any, value: Any, low: Any, high: Any) -> Any:
    """Find the first of [low, high) that is not below a value."""
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low
