"""Measures the utility of published rows: pure functions of true positions and of answers from the rows.

`dbanon.evaluation` asks the rows and finds the truth.

`METRICS` lists all figures. Command line, pages and the reference are made from it, so a figure has its formula and
unit in one place. A question asks for the number of people in a square at a time: a is the true answer, e the expected
one, and l and u are its bounds.
"""

from dataclasses import dataclass
from typing import Literal

Better = Literal["less", "more"]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A figure that can be measured."""

    name: str  # as in `Figure.name`
    title: str  # two or three words, for the head of a column
    formula: str  # on one line, in the letters of this module's docstring
    unit: str  # {"share", "m", "s", "people", "times"}: a share is shown as a percentage
    better: Better | None  # whether smaller or greater values are good; None if neither is
    plain: str  # its meaning


def _make_quantiles(name: str, title: str, unit: str, what: str) -> list[Metric]:
    return [
        Metric(
            name=f"{name}_{share}",
            title=f"{title}, {words}",
            formula=f"{share} % quantile of the {what}, weighted by people and time",
            unit=unit,
            better="less",
            plain=f"{share} % of the published time of people is in rows where the {what} is at most this.",
        )
        for share, words in ((10, "small"), (50, "median"), (90, "large"))
    ]


_ALL_METRICS = (
    Metric(
        name="published_share",
        title="Published",
        formula="people x periods that are published / people x periods in the data",
        unit="share",
        better="more",
        plain="How much of the data is published. The rest is left out.",
    ),
    Metric(
        name="usable_resolution_m",
        title="Usable resolution",
        formula="least side from which on count_error <= 0.2, interpolated in log(side)",
        unit="m",
        better="less",
        plain="Ask about squares of this side or larger, and the error of counts is at most 20 %.",
    ),
    *_make_quantiles("region_side_m", "Longer side of region", "m", "longer side of the region's bounding rectangle"),
    *_make_quantiles("region_time_s", "Time of a row", "s", "length of the period"),
    Metric(
        name="requests_published",
        title="Requests published",
        formula="requests that rows carry / requests in the data",
        unit="share",
        better="more",
        plain="How many of the requests that people sent are published.",
    ),
    Metric(
        name="coverage",
        title="Coverage",
        formula="share of questions with l <= a <= u",
        unit="share",
        better="more",
        plain="How often the true count lies within the bounds: always for dbanon's rows, or there is a defect. The "
        "questions are a sample. `dbanon verify` attacks every row.",
    ),
    Metric(
        name="count_error",
        title="Count error",
        formula="sum |e - a| / sum a",
        unit="share",
        better="less",
        plain="How far expected counts are off, as a share of the people there are. It is summed before it is divided, "
        "so that empty squares count, too.",
    ),
    Metric(
        name="bias",
        title="Bias",
        formula="sum (e - a) / sum a",
        unit="share",
        better=None,
        plain="Whether expected counts are too high (above 0) or too low (below 0) on the whole.",
    ),
    Metric(
        name="interval_factor",
        title="Factor of intervals",
        formula="least of 0.7, 1, 1.5, 2, 3, 6 by which 1.645 deviations hold nine in ten true counts",
        unit="times",
        better="less",
        plain="By how much the intervals of answers are widened. A release that is published afterwards shows it.",
    ),
    Metric(
        name="interval_coverage",
        title="Coverage of intervals",
        formula="share of questions with low <= a <= high",
        unit="share",
        better=None,
        plain="How often the true count lies within the interval of an answer: meant to be nine in ten.",
    ),
    Metric(
        name="bounds_width",
        title="Width of bounds",
        formula="mean (u - l)",
        unit="people",
        better="less",
        plain="How many people lie between the least and the most that an answer allows.",
    ),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL_METRICS}
"""All figures by name, in the order in which they are shown."""
