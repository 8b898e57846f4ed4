"""Questions at random, and what is true: how many people were in a square at a moment, or during ten minutes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dbanon.base.figures import Movements, Questions
from dbanon.base.kernels import kernel
from dbanon.base.trajectory import Float, Int

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
    counts = np.zeros(len(order), np.int64)
    if len(order) and len(movements.t):
        _count(
            *(movements.person, movements.t, movements.x, movements.y, _by_person(movements.person)),
            *(key[0][begin], key[1][begin], key[2][begin], np.append(begin, len(order))),
            *(questions.x[order], questions.y[order], counts, np.full(len(order), -1, np.int64)),
            float((until - since).max()),
        )
    answers = np.empty(len(order))
    answers[order] = counts
    return answers


def _by_person(person: Int) -> Int:
    """Order positions by person; empty if they are in order."""
    in_order = bool((person[1:] >= person[:-1]).all())
    return np.empty(0, np.int64) if in_order else np.argsort(person, kind="stable")


@kernel
def _count(  # noqa: PLR0917 - Numba has no keywords
    person: Any, t: Any, x: Any, y: Any, order: Any,
    since: Any, until: Any, side: Any, begin: Any, left: Any, bottom: Any, counts: Any, last: Any, longest: Any,
) -> None:  # fmt: skip
    """Count people by question; questions [begin[g], begin[g + 1]) have one time and side, and ascend by `left`."""
    for i in range(len(t)):
        p = order[i] if len(order) else i
        first = np.searchsorted(since, t[p] - longest)
        for g in range(first, len(since)):
            if since[g] > t[p]:  # groups ascend by the time at which they begin
                break
            if t[p] >= until[g] and t[p] != since[g]:
                continue
            # The square [left, left + side] may hold x[p] from left = x[p] - side on; a hair less, for rounding.
            q = begin[g] + np.searchsorted(left[begin[g] : begin[g + 1]], x[p] - side[g] - 1e-6)
            while q < begin[g + 1] and left[q] <= x[p]:
                inside = x[p] <= left[q] + side[g] and bottom[q] <= y[p] <= bottom[q] + side[g]
                if inside and last[q] != person[p]:
                    last[q] = person[p]
                    counts[q] += 1
                q += 1
