"""The figures of an evaluation, which measures a run against the private data.

`dbanon.metrics` and `dbanon.runs` compute them, and `dbanon.pages` draws them. `dbanon.metrics.METRICS` lists all
figures with formula and unit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # `dbanon --help` does not wait for NumPy
    from dbanon.base.trajectory import Bool, Float, Int

Against = Literal["published", "all"]
"""The truth is that of the people and times that a run publishes, or of all people and times in the data."""

Asked = Literal["moment", "span"]
"""Whether questions are about a moment, or about ten minutes."""

ASKED_WORDS: dict[Asked, str] = {"moment": "at a moment", "span": "over ten minutes"}
"""The same in words."""

SIDES_M = (500.0, 1000.0, 2000.0, 4000.0, 8000.0)
"""The sides of the squares that questions are about, in a city that is wide enough."""

_LADDER_M = (31.25, 62.5, 125.0, 250.0, *SIDES_M)


def round_percent(share: float) -> int:
    """Round a share of 1 to the nearest whole percent; of a part, which is neither nothing nor all, 1 to 99.

    Ties go to even, so two shares that make a whole make 100. `compute_percent_left_out` of SQL does the same.
    """
    nearest = round(round(100 * share, 9))  # 100 * 0.575 is 57.49999999999999
    return min(max(nearest, 1), 99) if 0 < share < 1 else nearest


def choose_sides(box: tuple[float, float, float, float]) -> tuple[float, ...]:
    """Choose the sides of squares: at most half of the box's shorter side, as larger ones hold nearly all people.

    If fewer than three of `SIDES_M` are left, their halves, quarters and so on make up five. The two least of all are
    always asked.
    """
    reach = min(box[2] - box[0], box[3] - box[1]) / 2
    fit = tuple(side for side in _LADDER_M if side <= reach)
    usual = tuple(side for side in fit if side in SIDES_M)
    return usual if len(usual) >= 3 else max(fit[-5:], _LADDER_M[:2], key=len)


def format_percent(share: float) -> str:
    """Write a share of 1 in whole percent: 0 % means none, and 100 % means all."""
    return f"{round_percent(share)} %"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured number: its metric, and the questions that it was measured with.

    Attributes
    ----------
    name : str
        A key of `dbanon.metrics.METRICS`.
    value : float or None
        None if no question was about a place with people. For the usable resolution, the least side that was tried
        stands for itself and all smaller ones, and infinity means that the greatest side is not enough.
    low, high : float or None
        Ends of its 90 % interval, if it has one. `high` is infinite if the greatest side that was tried is not enough.
    side_m : float or None
        The side of the squares that were asked about.
    asked : {"moment", "span"} or None
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    side_m: float | None = None
    asked: Asked | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Questions:
    """Squares and times; each question asks for the number of people in a square at a time.

    Attributes
    ----------
    side_m, x, y : float64[q]
        The side of each square, and its lower left corner.
    since, until : float64[q]
        Unix seconds; the two are equal where the question is about a moment.
    """

    side_m: "Float"
    x: "Float"
    y: "Float"
    since: "Float"
    until: "Float"

    @property
    def moment(self) -> "Bool":
        """Which of them are about a moment."""
        moments: Bool = self.since == self.until
        return moments


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """The answers to questions: float64[q] each."""

    at_least: "Float"
    expected: "Float"
    at_most: "Float"
    deviation: "Float | None" = None  # how far off an expected number is, if people are where they are by chance


@dataclass(frozen=True, kw_only=True, eq=False)
class Movements:
    """True positions of people in time, by person and time.

    Attributes
    ----------
    person : int64[n]
        The subject's code in the trajectories.
    t, x, y : float64[n]
        Unix seconds, metres.
    """

    person: "Int"
    t: "Float"
    x: "Float"
    y: "Float"


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """The utility of a run's rows.

    Attributes
    ----------
    run_id : int or None
        None once the run was dropped.
    source : str
        For people: ``run 7 (METHOD, ALGORITHM)``.
    dataset : str
    against : {"published", "all"}
    queries : int
        Questions of each size.
    seed : int
        The seed of the questions, not of the run.
    figures : tuple of Figure
    questions, true, answers
        All questions that were asked, the true counts, and the published answers. They are private and never stored.
    notes : tuple of str
        Notes for a reader of the figures, such as that a sample was measured, or that questions were left out.
    run : mapping
        What is kept of the run when it is dropped.
    period : (datetime, datetime) or None
        Of a part of a release that grows: the time it takes.
    others : tuple of Evaluation
        The other live parts of a release that grows, the newest first. Parts whose data changed since have the figures
        that were kept before.
    """

    run_id: int | None
    source: str
    dataset: str
    against: Against
    queries: int
    seed: int
    figures: tuple[Figure, ...]
    questions: Questions | None = None
    true: "Float | None" = None
    answers: Answers | None = None
    notes: tuple[str, ...] = ()
    run: Mapping[str, Any] = field(default_factory=dict)
    period: tuple[datetime, datetime] | None = None
    others: "tuple[Evaluation, ...]" = ()

    def find_figure(self, name: str, *, side_m: float | None = None, asked: Asked | None = None) -> Figure | None:
        """Look one up; None if it was not measured."""
        for one in self.figures:
            if one.name == name and side_m in (None, one.side_m) and asked in (None, one.asked):
                return one
        return None
