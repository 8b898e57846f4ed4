"""Draws maps of metres: true positions orange, published regions blue, cells by class, and a public table under them.

Shapes come as SVG paths, which PostGIS makes, in units of a window: `Window.unit_m` metres each, from its upper left
corner. A window shows the area of nearly all people; a single person must not stretch it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dbanon.pages.charts import draw_text, format_metres
from dbanon.pages.svg import FIGURE_WIDTH, format_number, make_element, make_figure

UNITS_ACROSS = 3600
"""Units across a window: a tenth of a pixel of a figure."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """A part of the plane, in metres of the data's coordinate system."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def unit_m(self) -> float:
        """Length of one unit of a path, in metres."""
        return (self.x1 - self.x0) / UNITS_ACROSS

    @property
    def height(self) -> float:
        """Height of a map that is `FIGURE_WIDTH` wide."""
        return FIGURE_WIDTH * (self.y1 - self.y0) / (self.x1 - self.x0)


def find_least_window(
    cells: Iterable[tuple[float, float, float]], side_m: float, *, share: float = 0.95
) -> Window | None:
    """Find the window of the cells that hold nearly all people; None if there are no people.

    It begins with the box of all cells, and drops the outermost row or column with the fewest people for its length,
    while `share` of the people stay. The rest is widened by `fit_window`.

    Parameters
    ----------
    cells : iterable of (x, y, people)
        Lower left corners of squares of `side_m` metres.
    """
    kept = [(x, y, people) for x, y, people in cells if people > 0]
    if not kept:
        return None
    room = (1 - share) * sum(people for _, _, people in kept)
    while True:
        xs, ys = {x for x, _, _ in kept}, {y for _, y, _ in kept}
        edges = [(0, min(xs)), (0, max(xs)), (1, min(ys)), (1, max(ys))]
        lost = []
        for dimension, at in edges:
            people = sum(cell[2] for cell in kept if cell[dimension] == at)
            length = max(ys) - min(ys) + side_m if dimension == 0 else max(xs) - min(xs) + side_m
            alone = len(xs if dimension == 0 else ys) == 1
            lost.append((people > room or alone, people / length, people, dimension, at))
        too_many, _, people, dimension, at = min(lost)
        if too_many:
            break
        room -= people
        kept = [cell for cell in kept if cell[dimension] != at]
    return fit_window(min(xs), min(ys), max(xs) + side_m, max(ys) + side_m)


def fit_window(x0: float, y0: float, x1: float, y1: float) -> Window:
    """Widen a box to the shape of a map: at most twice as wide as high, and hardly higher than wide."""
    wide, high = max(x1 - x0, (y1 - y0) / 1.1), max(y1 - y0, (x1 - x0) / 2)
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    return Window(x0=x - wide / 2, x1=x + wide / 2, y0=y - high / 2, y1=y + high / 2)


def draw_map(
    name: str,
    title: str,
    description: str,
    window: Window,
    *layers: Markup,
    has_bar: bool = True,
    private: bool = False,
) -> Markup:
    """Draw a map of its layers, the lowest first, and a bar of a round length; a `private` one has a mark."""
    scaled = make_element("g", *layers, transform=f"scale({format_number(FIGURE_WIDTH / UNITS_ACROSS)})")
    above = [
        *([_draw_scale_bar(window)] if has_bar else []),
        *([draw_text(FIGURE_WIDTH - 8, 16, "PRIVATE", anchor="end", class_="private halo")] if private else []),
    ]
    ground = make_element("rect", width=FIGURE_WIDTH, height=window.height, class_="wash")
    return make_figure(name, title, description, ground, scaled, *above, height=window.height)


def draw_regions(paths: Iterable[str], *, marked: int | None = None) -> Markup:
    """Draw published regions, one by one so that overlaps are darker; `marked` is the place of one."""
    drawn = [
        make_element("path", d=path, class_="region marked" if place == marked else "region")
        for place, path in enumerate(paths)
    ]
    return Markup("").join(drawn)


def draw_cells(paths: Mapping[int, str]) -> Markup:
    """Draw squares by class, 0 to 4: one path for all of a class."""
    return Markup("").join(
        make_element("path", d=path, class_=f"class-{level}") for level, path in sorted(paths.items())
    )


def draw_streets(path: str) -> Markup:
    """Draw lines of a public table, as one path in units of the window."""
    return make_element("path", d=path, class_="streets") if path else Markup("")


def draw_dots(places: Sequence[tuple[float, float]], *, size: float = 5, marked: bool = False) -> Markup:
    """Draw true positions, in units of the window, as one path."""
    d = "".join(f"M{format_number(x)} {format_number(y)}h0" for x, y in places)
    ring = make_element("path", d=d, class_="dots marked", stroke_width=size + 4) if marked else Markup("")
    return ring + make_element("path", d=d, class_="dots private", stroke_width=size)


def _draw_scale_bar(window: Window) -> Markup:
    """Draw a bar of about a quarter of the width."""
    most = (window.x1 - window.x0) / 4
    length = max(n * 10**e for e in range(-1, 8) for n in (1, 2, 5) if n * 10**e <= most or (n, e) == (1, -1))
    y, end = window.height - 10, 10 + FIGURE_WIDTH * length / (window.x1 - window.x0)
    return make_element(
        "path", d=f"M10 {format_number(y)}H{format_number(end)}", class_="ink", stroke_width=2
    ) + draw_text(10, y - 5, format_metres(length), class_="halo")
