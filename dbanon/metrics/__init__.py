"""Measures the utility of published rows: pure functions of true positions and of answers from the rows.

`METRICS` lists all figures. Command line, pages and the reference are made from it, so a figure has its formula, unit
and source in one place. A question asks for the number of people in a square at a time: a is the true answer, e the
expected one, l and u are its bounds, and n is the number of all people.
"""

from dataclasses import dataclass
from typing import Literal

Better = Literal["less", "more"]
Group = Literal["top", "counts", "field", "outside"]

GROUPS: dict[Group, str] = {
    "top": "The main figures",
    "counts": "How far counts are off",
    "field": "Figures of the papers",
    "outside": "Attacks outside of any promise",
}


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A figure that can be measured.

    Attributes
    ----------
    name : str
        As in `Figure.name`.
    title : str
        Two or three words, for the head of a column.
    formula : str
        On one line, in the letters of this module's docstring.
    unit : {"share", "m", "s", "people", "bits", ""}
        A share is shown as a percentage; "" is a number between -1 and 1.
    better : {"less", "more"} or None
        Whether smaller or greater values are good; None if neither is.
    plain : str
        Its meaning, for people who have read no paper.
    source : str
        The publication that defines it.
    group : {"top", "counts", "field", "outside"}
    """

    name: str
    title: str
    formula: str
    unit: str
    better: Better | None
    plain: str
    source: str = "dbanon"
    group: Group


_ADATRACE = (
    "Gursoy, Liu, Truex, Yu, Wei: Utility-Aware Synthesis of Differentially Private and Attack-Resilient Location"
    " Traces, CCS 2018"
)
_LDPTRACE = "Du, Hu, Zhang, Fang, Chen, Zheng, Gao: LDPTrace, PVLDB 16(8), 2023"
_UNICITY = "de Montjoye, Hidalgo, Verleysen, Blondel: Unique in the Crowd, Scientific Reports 3, 1376, 2013"


def _make_quantiles(name: str, title: str, unit: str, what: str) -> list[Metric]:
    return [
        Metric(
            name=f"{name}_{share}",
            title=f"{title}, {words}",
            formula=f"{share} % quantile of the {what}, weighted by people and time",
            unit=unit,
            better="less",
            plain=f"{share} % of the published time of people is in rows where the {what} is at most this.",
            group="top",
        )
        for share, words in ((10, "small"), (50, "median"), (90, "large"))
    ]


def _make_unicity(points: int) -> Metric:
    known = ("one", "two", "three", "four", "five", "six")[points - 1]
    return Metric(
        name=f"unicity_{points}",
        title=f"Unique by {points}",
        formula=f"share of people with p random cells and slots that no other person has, p = {points}",
        unit="share",
        better=None,
        plain=(
            f"The share of people in the raw data that are alone with any {known} of their places and times, taken "
            f"at random."
        ),
        source=_UNICITY,
        group="outside",
    )


_ALL_METRICS = (
    Metric(
        name="published_share",
        title="Published",
        formula="people x periods that are published / people x periods in the data",
        unit="share",
        better="more",
        plain="How much of the data is published. The rest is left out.",
        group="top",
    ),
    Metric(
        name="usable_resolution_m",
        title="Usable resolution",
        formula="least side from which on count_error <= 0.2, interpolated in log(side)",
        unit="m",
        better="less",
        plain="Ask about squares of this side or larger, and the error of counts is at most 20 %.",
        group="top",
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
        group="top",
    ),
    Metric(
        name="coverage",
        title="Coverage",
        formula="share of questions with l <= a <= u",
        unit="share",
        better="more",
        plain="How often the true count lies within the bounds: always for dbanon's rows, or there is a defect. The "
        "questions are a sample. `dbanon verify` attacks every row.",
        group="counts",
    ),
    Metric(
        name="count_error",
        title="Count error",
        formula="sum |e - a| / sum a",
        unit="share",
        better="less",
        plain="How far expected counts are off, as a share of the people there are.",
        source="dbanon. It is the relative L1 error, summed before it is divided, so that empty squares count, too.",
        group="counts",
    ),
    Metric(
        name="bias",
        title="Bias",
        formula="sum (e - a) / sum a",
        unit="share",
        better=None,
        plain="Whether expected counts are too high (above 0) or too low (below 0) on the whole.",
        group="counts",
    ),
    Metric(
        name="bounds_width",
        title="Width of bounds",
        formula="mean (u - l)",
        unit="people",
        better="less",
        plain="How many people lie between the least and the most that an answer allows.",
        group="counts",
    ),
    Metric(
        name="bounds_width_share",
        title="Width of bounds, relative",
        formula="sum (u - l) / sum a",
        unit="share",
        better="less",
        plain="The width of the bounds as a share of the people there are.",
        group="counts",
    ),
    Metric(
        name="query_error",
        title="Query error",
        formula="mean (|e - a| / max(a, 0.01 n))",
        unit="share",
        better="less",
        plain=(
            "The error that papers report. It divides by at least one person in a hundred, and so looks best where"
            " squares are small and counts are worst: read the count error first."
        ),
        source=f"{_ADATRACE} (n points there), {_LDPTRACE}",
        group="field",
    ),
    Metric(
        name="density_jsd",
        title="Density",
        formula="JSD, base 2, of the shares of people a cell, mean over hours",
        unit="bits",
        better="less",
        plain="How far the map of people by hour is from the true one: 0 is the same map, 1 has nothing in common.",
        source=f"{_ADATRACE}, base 2 after Lin: Divergence Measures Based on the Shannon Entropy, 1991",
        group="field",
    ),
    Metric(
        name="trip_jsd",
        title="Trips",
        formula="JSD, base 2, of the shares of people by cells of origin and destination",
        unit="bits",
        better="less",
        plain="How far the table of origins and destinations is from the true one: 0 is the same, 1 the worst.",
        source=f"{_ADATRACE} (trip error)",
        group="field",
    ),
    Metric(
        name="length_jsd",
        title="Lengths",
        formula="JSD, base 2, of the lengths of tracks in 20 buckets with open ends",
        unit="bits",
        better="less",
        plain="How far the distances that people travel are from the true ones: 0 is the same, 1 the worst.",
        source=f"{_ADATRACE} (length error, with buckets that leave the longest tracks out)",
        group="field",
    ),
    Metric(
        name="diameter_jsd",
        title="Diameters",
        formula="JSD, base 2, of the greatest distance within each track, in 20 buckets with open ends",
        unit="bits",
        better="less",
        plain="How far the areas that people roam are from the true ones: 0 is the same, 1 the worst.",
        source=f"{_ADATRACE} (diameter error)",
        group="field",
    ),
    Metric(
        name="pattern_f1",
        title="Patterns found",
        formula="F1 of the 100 most frequent sequences of 2 to 5 cells",
        unit="share",
        better="more",
        plain="The overlap of the hundred most common ways through the cells with the hundred most common true ones.",
        source=f"{_ADATRACE} (FP F1 similarity), {_LDPTRACE}",
        group="field",
    ),
    Metric(
        name="pattern_support",
        title="Patterns, support",
        formula="mean |e - a| / a over the 100 most frequent true sequences",
        unit="share",
        better="less",
        plain="How far the numbers of people on the most common ways are off.",
        source=f"{_ADATRACE} (FP average relative error)",
        group="field",
    ),
    Metric(
        name="location_tau_b",
        title="Order of cells",
        formula="Kendall's tau-b of people a cell, over cells that have people in either",
        unit="",
        better="more",
        plain="Whether the busy cells are the same: 1 is the same order, 0 no relation, -1 the reverse.",
        source=f"Kendall: The Treatment of Ties in Ranking Problems, Biometrika 33(3), 1945, {_ADATRACE}",
        group="field",
    ),
    Metric(
        name="flow_error",
        title="Flow error",
        formula="sum |e - a| / sum a over pairs of zones",
        unit="share",
        better="less",
        plain="How far counts of people from zone to zone are off, as a share of the people there are.",
        group="field",
    ),
    Metric(
        name="dwell_error",
        title="Dwell error",
        formula="sum |e - a| / sum a over classes of time",
        unit="share",
        better="less",
        plain="How far the times that people stay in an area are off, as a share of the people there are.",
        group="field",
    ),
    *(_make_unicity(points) for points in range(1, 7)),
    Metric(
        name="linked_nearest",
        title="Linked by the nearest",
        formula="mean over people of (1 / `subjects` if the nearest row is theirs, otherwise 0)",
        unit="share",
        better="less",
        plain=(
            "An adversary with the whole true way of a person takes the published one that is nearest. This is how "
            "often that finds the person. No promise is about so much knowledge."
        ),
        source=(
            "Domingo-Ferrer, Trujillo-Rasua: Microaggregation- and Permutation-Based Anonymization of Movement Data,"
            " Information Sciences 208, 2012 (record linkage by distance)"
        ),
        group="outside",
    ),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL_METRICS}
"""All figures by name, in the order in which they are shown."""
