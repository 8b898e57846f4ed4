"""Writes SVG: elements, colours, and a figure with its title and description.

Text is escaped by `markupsafe`: a `str` is text, only a `Markup` is markup. Colours are classes, so that a page's style
sheet has light, dark and paper in one place (`STYLE`). Orange is what is private, blue what is published, everywhere.
"""

from typing import Any

from markupsafe import Markup, escape

WIDTH = 360
"""Units across a figure: its text of 11 units is 11 pixels on a phone."""

STYLE = """
:root{--ink:#1a1d21;--soft:#5a6270;--line:#d5dae1;--paper:#fff;--wash:#f4f7fb;--gone:#8b93a1;--good:#13702b;--warn:#8a5300;
--published:#0b62a8;--published-wash:#a9cdea;--private:#b3470f;--private-wash:#f7d3b8}
@media (prefers-color-scheme:dark){:root{--ink:#eceff3;--soft:#a9b3c1;--line:#3a424e;--paper:#14171b;--wash:#1c2127;
--gone:#778292;--good:#69cf85;--warn:#f0b04a;
--published:#6db4ee;--published-wash:#1f4a6e;--private:#ff9d5c;--private-wash:#6b3a17}}
@media print{:root{--ink:#000;--soft:#444;--line:#bbb;--paper:#fff;--wash:#fff;--gone:#777;--good:#13702b;
--warn:#8a5300;--published:#0b62a8;--published-wash:#a9cdea;--private:#b3470f;--private-wash:#f7d3b8}}
svg text{font:11px Arial,Helvetica,sans-serif;fill:var(--ink);font-variant-numeric:tabular-nums}
"""


def element(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """Make an element: numbers to two decimals, ``class_`` and ``stroke_width`` as they are written in SVG."""
    given = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), number(value) if _is_number(value) else value)
        for key, value in attributes.items()
        if value is not None
    )
    inner = Markup("").join(escape(child) for child in children)
    return Markup("<{0}{1}>{2}</{0}>").format(name, given, inner)


def number(value: float) -> str:
    """Write a coordinate: two decimals at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def figure(name: str, title: str, description: str, *children: Any, height: float, width: float = WIDTH) -> Markup:
    """Make a figure: `name` is its own on the page, `title` and `description` say in words what it shows."""
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", description, id=f"{name}-desc"),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {number(width)} {number(height)}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )
