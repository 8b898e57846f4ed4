"""Writes SVG: elements, colours, and a figure with its title and description.

Text is escaped by `markupsafe`: a `str` is text, only a `Markup` is markup. Colours are classes, so that a page's style
sheet has light, dark and paper in one place (`STYLE`). Orange is what is private, blue what is published, everywhere.
"""

from typing import Any

from markupsafe import Markup, escape

FIGURE_WIDTH = 360
"""Units across a figure: its text of 11 units is 11 pixels on a phone."""

_COLOURS = """--good:#13702b;--warn:#8a5300;
--published:#0b62a8;--published-wash:#a9cdea;--private:#b3470f;--private-wash:#f7d3b8;
--class-0:#dbeaf7;--class-1:#a9cdea;--class-2:#6ca7d8;--class-3:#2c7cbd;--class-4:#0b4a82"""
"""Of light and of paper."""

STYLE = (
    f"""
:root{{--ink:#1a1d21;--soft:#525a67;--line:#d5dae1;--paper:#fff;--wash:#f4f7fb;--gone:#7d8592;{_COLOURS}}}
@media (prefers-color-scheme:dark){{:root{{--ink:#eceff3;--soft:#a9b3c1;--line:#3a424e;--paper:#14171b;--wash:#1c2127;
--gone:#8a95a5;--good:#69cf85;--warn:#f0b04a;--published:#6db4ee;--published-wash:#1f4a6e;--private:#ff9d5c;
--private-wash:#6b3a17;--class-0:#1d3c57;--class-1:#27587f;--class-2:#347bb0;--class-3:#58a3dc;--class-4:#a3d3f8}}}}
@media print{{:root{{--ink:#000;--soft:#444;--line:#bbb;--paper:#fff;--wash:#fff;--gone:#777;{_COLOURS}}}}}
"""
    + """svg text{font:11px Arial,Helvetica,sans-serif;fill:var(--ink);font-variant-numeric:tabular-nums}
svg text.soft{fill:var(--soft)}svg text.strong{font-weight:bold}
svg text.private{fill:var(--private);font-weight:bold}svg text.published{fill:var(--published);font-weight:bold}
svg text.halo{paint-order:stroke;stroke:var(--paper);stroke-width:3px;stroke-linejoin:round}
.published{fill:var(--published)}.published-wash{fill:var(--published-wash)}
.private{fill:var(--private)}.private-wash{fill:var(--private-wash)}.gone{fill:var(--gone)}.paper{fill:var(--paper)}
.wash{fill:var(--wash)}.ink{stroke:var(--ink);fill:none}.line{stroke:var(--line);fill:none}
.line-published{stroke:var(--published);fill:none}.line-private{stroke:var(--private);fill:none}
.class-0{fill:var(--class-0)}.class-1{fill:var(--class-1)}.class-2{fill:var(--class-2)}.class-3{fill:var(--class-3)}
.class-4{fill:var(--class-4)}
.region{fill:var(--published);fill-opacity:.14;stroke:var(--published);stroke-opacity:.7;
vector-effect:non-scaling-stroke}
.streets{fill:none;stroke:var(--soft);stroke-opacity:.5;stroke-width:3}
.region.marked{fill-opacity:.3;stroke:var(--ink);stroke-opacity:1;stroke-width:2}
.dots{fill:none;stroke-linecap:round;vector-effect:non-scaling-stroke}
.dots.private{stroke:var(--private);fill:none}.dots.marked{stroke:var(--ink)}
"""
)
"""Colours of light, dark and paper, and the classes of marks."""


def make_element(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """Make an element: numbers to two decimals, ``class_`` and ``stroke_width`` as they are written in SVG."""
    given = Markup("").join(
        Markup(' {}="{}"').format(
            key.rstrip("_").replace("_", "-"), format_number(value) if _is_number(value) else value
        )
        for key, value in attributes.items()
        if value is not None
    )
    inner = Markup("").join(escape(child) for child in children)
    return Markup("<{0}{1}>{2}</{0}>").format(name, given, inner)


def format_number(value: float) -> str:
    """Write a coordinate: two decimals at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def make_figure(
    name: str, title: str, description: str, *children: Any, height: float, width: float = FIGURE_WIDTH
) -> Markup:
    """Make a figure: `name` is its own on the page, `title` and `description` say in words what it shows."""
    return make_element(
        "svg",
        make_element("title", title, id=f"{name}-title"),
        make_element("desc", description, id=f"{name}-desc"),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {format_number(width)} {format_number(height)}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )
