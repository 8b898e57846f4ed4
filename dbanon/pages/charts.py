"""Draws charts: bars, columns, ranges and lines. Figures in, SVG out, with every value in words beside its mark."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from markupsafe import Markup

from dbanon.pages.svg import FIGURE_WIDTH, format_number, make_element, make_figure
from dbanon.results.figures import Figure

Kind = Literal["published", "published-wash", "private", "private-wash", "gone"]
Point = tuple[float, float, float, float]
"""x, y, and the interval of y from low to high."""

_ROW_HEIGHT_PX = 19
_LETTER_WIDTH_PX = 6.1  # width of a letter of 11 pixels, on average
_TOP_MARGIN_PX = 20  # above the plot of a chart with two axes, for texts of marks


@dataclass(frozen=True, kw_only=True)
class Axis:
    """The range of values along a chart, and the ticks that are written beside it."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    is_log: bool = False  # whether equal steps are equal factors
    name: str = ""  # name of the values, with their unit; written beside a horizontal axis

    def find_share(self, value: float) -> float:
        """Find the place of a value along the axis, from 0 to 1; values beyond an end are at that end."""
        low, high = (math.log(self.low), math.log(self.high)) if self.is_log else (self.low, self.high)
        offset = (math.log(max(value, self.low)) if self.is_log else value) - low
        return min(max(offset / ((high - low) or 1), 0.0), 1.0)


@dataclass(frozen=True, kw_only=True)
class Plot:
    """The area between two axes of a chart, and its axes of levels and values."""

    x: Axis
    y: Axis
    left: float = 40
    top: float = _TOP_MARGIN_PX
    right: float = FIGURE_WIDTH - 10
    bottom: float = 140

    @property
    def height(self) -> float:
        """Height of a figure with this plot and the texts below it."""
        return self.bottom + (36 if self.x.name else 21)

    def locate_x(self, value: float) -> float:
        """Find the place of a value of the horizontal axis."""
        return self.left + self.x.find_share(value) * (self.right - self.left)

    def locate_y(self, value: float) -> float:
        """Find the place of a value of the vertical axis."""
        return self.bottom - self.y.find_share(value) * (self.bottom - self.top)

    def write_path(self, places: Iterable[tuple[float, float]]) -> str:
        """Write the path that joins values in a line."""
        return "M" + "L".join(f"{format_number(self.locate_x(x))} {format_number(self.locate_y(y))}" for x, y in places)

    def draw_frame(self) -> list[Markup]:
        """Draw the levels and values of both axes."""
        levels = "".join(
            f"M{self.left:g} {format_number(self.locate_y(value))}H{format_number(self.right)}"
            for value, _ in self.y.ticks
        )
        drawn = [
            make_element("path", d=levels, class_="line"),
            *(
                draw_text(self.left - 5, self.locate_y(v) + 4, label, anchor="end", class_="soft")
                for v, label in self.y.ticks
            ),
        ]
        for at, label in ((self.locate_x(value), label) for value, label in self.x.ticks):
            anchor = "end" if at > FIGURE_WIDTH - 20 else "middle"
            drawn.append(draw_text(at, self.bottom + 15, label, anchor=anchor, class_="soft"))
        if self.x.name:
            middle = (self.left + self.right) / 2
            drawn.append(draw_text(middle, self.bottom + 30, self.x.name, anchor="middle", class_="soft"))
        return drawn


def make_axis(high: float, *, unit: str = "", name: str = "", steps: int = 4) -> Axis:
    """Make an axis from 0 to a round number at or above `high`."""
    rough = max(high, 1e-9) / steps
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * n for n in (1, 2, 2.5, 5, 10) if size * n >= rough * (1 - 1e-9))
    count = max(math.ceil(high / step - 1e-9), 1)
    ticks = [(step * i, f"{step * i:,.10g}{unit if i else ''}") for i in range(count + 1)]
    return Axis(low=0, high=step * count, ticks=ticks, name=name)


def format_metres(value: float) -> str:
    """Write a length: metres below one kilometre."""
    if value < 100:
        return f"{value:.3g} m"
    return f"{value:,.0f} m" if value < 1000 else f"{value / 1000:,.3g} km"


def make_length_axis(low: float, high: float, name: str = "") -> Axis:
    """Make an axis of lengths in metres, on which equal steps are equal factors."""
    low = min(low, high / 2)
    round_ones = [n * 10**e for e in range(-1, 8) for n in (1, 2, 5)]
    inside = [value for value in round_ones if low <= value <= high]
    every = max(1, math.ceil(len(inside) / 6))
    return Axis(low=low, high=high, ticks=[(v, format_metres(v)) for v in inside[::every]], is_log=True, name=name)


def draw_text(x: float, y: float, text: str, *, anchor: str = "start", class_: str | None = None) -> Markup:
    """Write a line of text at a place of a figure."""
    return make_element("text", text, x=x, y=y, text_anchor=None if anchor == "start" else anchor, class_=class_)


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One row of a bar chart: `draw_text` is its value in words."""

    label: str
    value: float
    text: str
    kind: Kind = "published"


def draw_bars(name: str, title: str, description: str, rows: Sequence[Bar], *, most: float | None = None) -> Markup:
    """Draw horizontal bars from 0; `most` is the value whose bar would fill the width."""
    start = 8 + _LETTER_WIDTH_PX * min(max((len(row.label) for row in rows), default=0), 24)
    room = FIGURE_WIDTH - start - 8 - _LETTER_WIDTH_PX * max((len(row.text) for row in rows), default=0)
    high = most or max((row.value for row in rows), default=0) or 1
    drawn: list[Markup] = []
    for place, row in enumerate(rows):
        y, width = place * _ROW_HEIGHT_PX + 3, max(room * row.value / high, 1)
        drawn += [
            draw_text(start - 6, y + 11, _shorten(row.label, 24), anchor="end"),
            make_element("rect", x=start, y=y, width=width, height=13, class_=row.kind),
            draw_text(start + width + 5, y + 11, row.text, class_="soft"),
        ]
    return make_figure(name, title, description, *drawn, height=len(rows) * _ROW_HEIGHT_PX + 6)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A column of a chart between two values of its horizontal axis; `below` lies under it and is part of its top."""

    since: float
    until: float
    value: float
    below: float = 0
    kind: Kind = "published"
    hatched: bool = False


def draw_columns(
    name: str,
    title: str,
    description: str,
    blocks: Sequence[Block],
    *,
    x: Axis,
    y: Axis,
    mark: tuple[float, str] | None = None,
) -> Markup:
    """Draw columns, as of a histogram; `mark` is a value of the horizontal axis that has a line and words."""
    plot = Plot(x=x, y=y)
    drawn = plot.draw_frame()
    if any(block.hatched for block in blocks):
        drawn.append(define_hatching(name))
    for block in blocks:
        left, end = plot.locate_x(block.since), plot.locate_x(block.until)
        top, foot = plot.locate_y(block.below + block.value), plot.locate_y(block.below)
        style = {"fill": f"url(#{name}-hatch)"} if block.hatched else {"class_": block.kind}
        size = {"width": max(end - left - 1, 0.5), "height": max(foot - top, 0)}
        drawn.append(make_element("rect", x=left + 0.5, y=top, **size, **style))
    if mark is not None:
        at = plot.locate_x(mark[0])
        late = at > FIGURE_WIDTH / 2
        drawn += [
            make_element(
                "path", d=f"M{format_number(at)} {_TOP_MARGIN_PX - 8}V{plot.bottom:g}", class_="ink", stroke_width=1.5
            ),
            draw_text(
                at + (-5 if late else 5),
                _TOP_MARGIN_PX - 3,
                mark[1],
                anchor="end" if late else "start",
                class_="strong halo",
            ),
        ]
    return make_figure(name, title, description, *drawn, height=plot.height)


def draw_histogram(
    name: str, title: str, description: str, shares: Sequence[tuple[float, float, float]], **how: Any
) -> Markup:
    """Draw shares of a length in metres by factors: (from, up to, share of 1), of which the last bin is open."""
    x = make_length_axis(shares[0][0], shares[-1][1], how.pop("axis", ""))
    y = make_axis(100 * max(share for _, _, share in shares), unit=" %", steps=3)
    blocks = [Block(since=since, until=until, value=100 * share) for since, until, share in shares]
    return draw_columns(name, title, description, blocks, x=x, y=y, **how)


@dataclass(frozen=True, kw_only=True)
class Range:
    """One row from `low` to `high`, with a dot, and on private charts the truth as a diamond."""

    label: str
    low: float
    high: float
    dot: float | None = None
    true: float | None = None
    text: str = ""
    kind: Kind = "published-wash"


def draw_ranges(
    name: str, title: str, description: str, rows: Sequence[Range], x: Axis, *, private: bool = False
) -> Markup:
    """Draw rows with bounds, such as answers, or figures with intervals; a `private` chart has a mark."""
    start = 8 + _LETTER_WIDTH_PX * min(max((len(row.label) for row in rows), default=0), 24)
    right = FIGURE_WIDTH - 14 - _LETTER_WIDTH_PX * max((len(row.text) for row in rows), default=0)
    bottom = len(rows) * _ROW_HEIGHT_PX + 4

    def place_value(value: float) -> float:
        return start + x.find_share(value) * (right - start)

    drawn: list[Markup] = [
        make_element(
            "path", d="".join(f"M{format_number(place_value(value))} 2V{bottom}" for value, _ in x.ticks), class_="line"
        )
    ]
    for place, row in enumerate(rows):
        y = place * _ROW_HEIGHT_PX + 12
        drawn += [
            draw_text(start - 6, y + 4, _shorten(row.label, 24), anchor="end"),
            make_element(
                "rect",
                x=place_value(row.low),
                y=y - 5,
                width=max(place_value(row.high) - place_value(row.low), 1),
                height=10,
                class_=row.kind,
            ),
        ]
        if row.dot is not None:
            drawn.append(make_element("circle", cx=place_value(row.dot), cy=y, r=4, class_="published"))
        if row.true is not None:
            d = f"M{format_number(place_value(row.true))} {y - 6}l6 6l-6 6l-6 -6z"
            drawn.append(make_element("path", d=d, class_="private", stroke="var(--paper)"))
        if row.text:
            drawn.append(draw_text(right + 10, y + 4, row.text, class_="soft"))
    drawn += [
        draw_text(place_value(value), bottom + 13, label, anchor="middle", class_="soft") for value, label in x.ticks
    ]
    if x.name:
        drawn.append(draw_text((start + right) / 2, bottom + 28, x.name, anchor="middle", class_="soft"))
    drawn += [_mark_private(bottom + 28)] if private else []
    return make_figure(name, title, description, *drawn, height=bottom + (34 if x.name else 19))


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line through points; of a point without an interval, low and high are equal to y."""

    name: str
    points: Sequence[Point]
    kind: Literal["published", "private"] = "published"
    dashed: bool = False


def make_point(x: float, measured: Figure) -> Point:
    """Make a point of a share with its interval, in percent."""
    value = measured.value or 0.0
    low, high = (value if end is None else end for end in (measured.low, measured.high))
    return x, 100 * value, 100 * low, 100 * high


def draw_lines(
    name: str,
    title: str,
    description: str,
    drawn_lines: Sequence[Line],
    *,
    x: Axis,
    y: Axis,
    level: tuple[float, str] | None = None,
    private: bool = False,
) -> Markup:
    """Draw lines with intervals, each named at its end; `level` is a vertical value that has a line and words.

    A `private` chart has a mark.
    """
    plot = Plot(
        x=x, y=y, right=FIGURE_WIDTH - 12 - _LETTER_WIDTH_PX * max((len(one.name) for one in drawn_lines), default=0)
    )
    drawn = plot.draw_frame()
    if level is not None:
        height, right = plot.locate_y(level[0]), format_number(plot.right)
        drawn += [
            make_element(
                "path", d=f"M{plot.left:g} {format_number(height)}H{right}", class_="ink", stroke_dasharray="2 3"
            ),
            draw_text(plot.right, height - 4, level[1], anchor="end", class_="strong halo"),
        ]
    last = -math.inf
    for one in sorted((one for one in drawn_lines if one.points), key=lambda one: -one.points[-1][1]):
        end, height = one.points[-1][:2]
        last = max(plot.locate_y(height) + 4, last + 13)  # names of lines that end together are put below each other
        drawn += [*_draw_line(plot, one), draw_text(plot.locate_x(end) + 8, last, one.name)]
    drawn += [_mark_private(plot.bottom + 30)] if private else []
    return make_figure(name, title, description, *drawn, height=plot.height)


def _draw_line(plot: Plot, line: Line) -> list[Markup]:
    """Draw a line, the intervals of its points, and the points."""
    way = plot.write_path((x, y) for x, y, _, _ in line.points)
    whiskers = "".join(plot.write_path([(x, low), (x, high)]) for x, _, low, high in line.points)
    dash = "5 3" if line.dashed else None
    dot = {"r": 3.5, "class_": "paper" if line.dashed else line.kind, "stroke": f"var(--{line.kind})"}
    return [
        make_element("path", d=way, class_=f"line-{line.kind}", stroke_width=1.8, stroke_dasharray=dash),
        make_element("path", d=whiskers, class_=f"line-{line.kind}"),
        *(
            make_element("circle", cx=plot.locate_x(x), cy=plot.locate_y(y), **dot, stroke_width=1.5)
            for x, y, _, _ in line.points
        ),
    ]


def _mark_private(y: float) -> Markup:
    """Mark a private chart, beside the name of its axis."""
    return draw_text(FIGURE_WIDTH - 8, y, "PRIVATE", anchor="end", class_="private halo")


def define_hatching(name: str) -> Markup:
    """Define the hatching that marks data left out; its id belongs to one figure."""
    stroke = make_element("path", d="M0 5L5 0", stroke="var(--gone)", stroke_width=1.4)
    return make_element("pattern", stroke, id=f"{name}-hatch", width=5, height=5, patternUnits="userSpaceOnUse")


def _shorten(label: str, most: int) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"
