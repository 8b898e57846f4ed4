"""What was measured of a run, or of another program's output, against the private data: the figures of an evaluation.

Made in `dbanon.metrics` and `dbanon.runs`, drawn in `dbanon.pages`. Which figures there are, with formula, unit and
source, is in `dbanon.metrics.METRICS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # `dbanon --help` does not wait for NumPy
    from dbanon.base.trajectory import Bool, Float, Int

Against = Literal["published", "all"]
"""Whom the truth is of: the people and times that a run publishes, or all there are in the data."""

Asked = Literal["moment", "span"]
"""Whether questions are about a moment, or about ten minutes."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured number: its metric, and of which questions.

    Attributes
    ----------
    name : str
        A key of `dbanon.metrics.METRICS`.
    value : float or None
        None where it cannot be said: no question had people. Of the usable resolution: the least side that was tried
        stands for itself and all below it, and infinite means that the greatest is not enough.
    low, high : float or None
        Ends of its 90 % interval; None where there is none. `high` is infinite where the greatest side that was tried
        is not enough.
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
    """Squares and times, each of which asks how many people were there then.

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
    """What is told to questions: float64[q] each; all three are equal for points."""

    at_least: "Float"
    expected: "Float"
    at_most: "Float"


@dataclass(frozen=True, kw_only=True, eq=False)
class Movements:
    """Positions in time: true ones, those of another program's points, or the centres of regions.

    Sorted by `track`, then `t`. A track is what a reader can follow: a record, and of true positions one person of it.

    Attributes
    ----------
    person : int64[n]
        Of true positions, the subject's code in the trajectories; of all others that of the track.
    track : int64[n]
    t, x, y : float64[n]
        Unix seconds, metres.
    weight : float64[n]
        How many people a position stands for: 1, or the `subjects` of a row.
    """

    person: "Int"
    track: "Int"
    t: "Float"
    x: "Float"
    y: "Float"
    weight: "Float"


@dataclass(frozen=True, kw_only=True, eq=False)
class Rectangles:
    """Rows that say of a record that it was in a rectangle for a time; sorted by record, then `since`.

    Attributes
    ----------
    record : int64[n]
        0, 1, 2, ... in the order in which the file names them.
    since, until : float64[n]
        Unix seconds; equal for a moment.
    bounds : float64[n, 4]
        xmin, ymin, xmax, ymax in metres.
    subjects : int64[n]
        How many people a row stands for; 1 without such a column.
    """

    record: "Int"
    since: "Float"
    until: "Float"
    bounds: "Float"
    subjects: "Int"

    @property
    def area_m2(self) -> "Float":
        """The area of each."""
        width, height = (self.bounds[:, 2:] - self.bounds[:, :2]).T
        areas: Float = width * height
        return areas

    @property
    def centres(self) -> Movements:
        """Where the middle of each is when it begins."""
        x, y = (self.bounds[:, :2] + self.bounds[:, 2:]).T / 2
        weight: Float = self.subjects.astype(float)
        return Movements(person=self.record, track=self.record, t=self.since, x=x, y=y, weight=weight)


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """The utility of a run's rows, or of another program's output.

    Attributes
    ----------
    run_id : int or None
        None of another program's output.
    source : str
        For people: ``run 7 (tp-aware, traj-anon)``, or the name of the file.
    dataset : str
    against : {"published", "all"}
    queries : int
        Questions of each size.
    seed : int
        Of the questions, not of the run.
    figures : tuple of Figure
    questions, true, answers
        All questions that were asked, how many people were there, what was told; private, and never stored.
    notes : tuple of str
        What a reader of the figures has to know: what was sampled, what could not be asked.
    run : mapping
        What is kept of the run when it is dropped.
    period : (datetime, datetime) or None
        Of a part of a release that grows: the time it takes.
    others : tuple of Evaluation
        Of a release that grows: its other live parts, the newest first. Of those whose data changed since, figures that
        were kept before.
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

    def figure(self, name: str, *, side_m: float | None = None, asked: Asked | None = None) -> Figure | None:
        """Look one up; None if it was not measured."""
        for one in self.figures:
            if one.name == name and side_m in (None, one.side_m) and asked in (None, one.asked):
                return one
        return None
