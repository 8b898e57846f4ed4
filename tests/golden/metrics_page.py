"""The page docs/reference/metrics.md, made from the list of metrics.

A test holds the page against the list; ``DBANON_WRITE_GOLDEN=1`` writes it.
"""

from collections.abc import Iterator
from pathlib import Path

from dbanon.metrics import GROUPS, METRICS, Metric

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"

INTRODUCTION = """\
# Metrics

Every figure that dbanon measures of a run, or of another program's output: its name, its formula, how to read it,
and where the definition is from. `tests/golden/metrics_page.py` makes this page from `METRICS` in
`dbanon/metrics/__init__.py`.

A question asks how many people were in a square, at a moment or during ten minutes. In the formulas `a` is the
true answer, `e` the expected one, `l` and `u` are the least and the most that the release allows, and `n` is how
many people there are. JSD is the Jensen-Shannon divergence.

- **Sides.** Figures of counts are measured for squares of 500 m, 1, 2, 4 and 8 km, but for none wider than half of
  the window's shorter side: such a square holds nearly all people, whatever is published. Where fewer than three of
  these are left, smaller ones are asked too, halved from 500 m down to 31 m until there are five; a note names the
  sides. `dbanon sweep` compares settings by squares half as wide as the widest that were asked, 2 km at most. A
  square has its centre anywhere in the window, so many squares are empty; sums are taken before they are divided.
- **Intervals.** `low` and `high` are the ends of a 90 % interval. Ask fewer than 400 questions a side, and the
  interval is too wide to choose a setting by: on a day of taxis 80 questions said 19 % where 27 % was true.
- **Moments.** A question draws its moment from all moments that rows have, not from a few. The interval is
  therefore right when questions are resampled one by one.
- **Windows.** Where groups are formed anew each window, as in `tp-aware`, nothing joins the records of one window
  to those of the next. Of a span that crosses windows, `expected` is that of the window with the most people, since
  the same people may be in the others: it is too low, and `bias` over ten minutes is below 0.
- **The truth** is that of the people and times which are published, or with `--against all` that of all the data. Of
  `kte` and `semantic` it is the fixes that rows cover.
- **What coverage does not show.** The questions are a sample: a wrong row that no question meets changes nothing.
  Of `kte` and `semantic`, the truth changes together with a row that was moved. `dbanon verify` attacks every row,
  and coverage is no replacement for it.
"""

UNITS = {
    "share": "a share, shown in %",
    "m": "metres",
    "s": "seconds",
    "people": "people",
    "bits": "0 to 1",
    "": "-1 to 1",
}
BETTER = {"less": "less is better", "more": "more is better", None: "neither way is better"}


def page() -> str:
    """Write the page: a section for each group, a piece for each metric."""
    parts = [INTRODUCTION]
    for group, title in GROUPS.items():
        parts.append(f"## {title}\n")
        parts += [part for metric in METRICS.values() if metric.group == group for part in _metric(metric)]
    return "\n".join(parts)


def _metric(metric: Metric) -> Iterator[str]:
    yield f"### {metric.title}\n"
    yield f"`{metric.name}`: {UNITS[metric.unit]}; {BETTER[metric.better]}.\n"
    yield f"    {metric.formula}\n"
    yield f"{metric.plain}\n"
    yield f"Source: {metric.source.rstrip('.')}.\n"
