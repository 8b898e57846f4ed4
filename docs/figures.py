"""Draws the figures of the families' pages and of two releases, of ten people, and that of the README.

    python docs/figures.py            # writes docs/methods/FAMILY.svg and docs/understand/releases-together.svg
    python docs/figures.py --readme   # plays `dbanon demo`, too, and writes docs/readme.svg

The people are made up; the families' own code computes their groups and regions. Three signs mean the same in all
figures: a dot is true, a rectangle is published, and the adversary knows the place or way that a dashed line marks.
"""

import itertools
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from markupsafe import Markup

import dbanon
from dbanon import methods
from dbanon.base.cloaks import Cloaks
from dbanon.base.trajectory import Cells, QuasiIdentifiers, Requests, Sites, Trajectories
from dbanon.cli import demo
from dbanon.options.generating import Plan
from dbanon.pages import svg
from dbanon.synth import read_network

FOLDER = Path(__file__).parent / "methods"
EIGHT = 1_212_566_400
"""8:00 of one day, in unix seconds; a multiple of an hour."""
PIXELS = 540
"""Width of a figure on a page: its text of 11 units is 16 pixels high there, and 11 on a phone."""
STYLE = (
    svg.STYLE
    + """.told{fill:var(--published-wash);fill-opacity:.55;stroke:var(--published);stroke-width:1.5}
.told-area{fill:var(--published-wash);fill-opacity:.55}.told-edge{fill:none;stroke:var(--published);stroke-width:2}
.known{fill:none;stroke:var(--private);stroke-width:1.5;stroke-dasharray:4 3}
.known-wash{fill:var(--private-wash);fill-opacity:.4}.site{fill:var(--good)}
.way{fill:none;stroke:var(--private);stroke-width:1.5}.others{fill:none;stroke:var(--private);stroke-opacity:.35}
.place{fill:var(--ink)}.kind-0,.kind-1,.kind-2{fill:var(--line);stroke:var(--soft);stroke-width:.7}
.kind-1{fill:var(--wash)}.kind-2{fill:var(--paper)}
"""
)

# --- the signs


def draw_text(x: float, y: float, words: str, class_: str | None = None, anchor: str | None = None) -> Markup:
    return svg.make_element("text", words, x=x, y=y, class_=class_, text_anchor=anchor)


def mark_true(x: float, y: float, radius: float = 3.5) -> Markup:
    """Mark a true position."""
    return svg.make_element("circle", cx=x, cy=y, r=radius, class_="private")


def mark_published(x: float, y: float, wide: float, high: float, radius: float | None = None) -> Markup:
    """Mark a published region."""
    return svg.make_element("rect", x=x, y=y, width=wide, height=high, rx=radius, class_="told")


def mark_known(x: float, y: float, radius: float = 7) -> Markup:
    """Mark a position that the adversary knows."""
    return svg.make_element("circle", cx=x, cy=y, r=radius, class_="known")


def draw_line(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    return svg.make_element(
        "polyline", points=" ".join(f"{svg.format_number(x)},{svg.format_number(y)}" for x, y in points), class_=class_
    )


def explain_signs(y: float) -> list[Markup]:
    """Explain the three signs, the same below every figure."""
    return [
        draw_line([(0, y - 18), (360, y - 18)], "line"),
        mark_true(5, y - 4),
        draw_text(14, y, "true, and private"),
        mark_published(113, y - 9, 14, 10),
        draw_text(132, y, "published"),
        svg.make_element("rect", x=206, y=y - 9, width=14, height=10, class_="known"),
        draw_text(225, y, "known to the adversary"),
    ]


def compose_figure(
    name: str, title: str, description: str, parts: Sequence[Markup], says: Sequence[str], *, top: float
) -> str:
    """Put a figure together: `says` are the lines below it, of which the first, in blue, is about the rows."""
    lines = [draw_text(0, top + 16 * at, words, None if at else "published") for at, words in enumerate(says)]
    height = top + 16 * len(says) + 26
    drawn = svg.make_figure(
        name,
        title,
        description,
        svg.make_element("style", Markup(STYLE)),
        svg.make_element("rect", x=-8, y=-8, width=376, height=height + 16, style="fill:var(--paper)"),
        *parts,
        *lines,
        *explain_signs(height - 4),
        height=height,
    )
    # A figure that stands alone has a size of its own, and a margin on any paper.
    box = f'viewBox="0 0 360 {svg.format_number(height)}"'
    size = f'width="{PIXELS}" height="{round(PIXELS * (height + 16) / 376)}"'
    return str(drawn).replace(box, f'{size} viewBox="-8 -8 376 {svg.format_number(height + 16)}"') + "\n"


# --- the people


def make_people(times: Sequence[Sequence[float]], places: Sequence[Sequence[tuple[float, float]]]) -> Trajectories:
    """Make the ten people of docs/understand/ten-people.md, with times in minutes after 8:00 and places in metres."""
    xy = np.array([place for own in places for place in own], float)
    return Trajectories(
        trajectory_id=np.arange(100, 100 + len(times)),
        subject=np.arange(len(times)),
        offset=np.cumsum([0, *map(len, times)]),
        t=np.array([EIGHT + 60.0 * minute for own in times for minute in own]),
        x=xy[:, 0],
        y=xy[:, 1],
        srid=32610,
        grid_m=1.0,
        grid_s=60,
    )


def compute_cloaks(family: str, data: Trajectories, joined: dict[str, Any] | None = None, **given: Any) -> Cloaks:
    """Compute the rows of people by the family's own code; `given` are its inputs and parameters."""
    method = methods.find_method(family)
    inputs = {name: given.pop(name) for name in method.reads}
    algorithm = method.algorithms[0].name
    params = method.parse(given, algorithm)
    cloaks = method.anonymise(data, algorithm, params, np.random.default_rng(1), **inputs)
    return method.attach(cloaks, data, params, **joined) if joined else cloaks


# --- the families


def compute_tp_aware() -> tuple[list[list[tuple[float, float]]], Cloaks]:
    """Put ten people at three minutes into two bundles; one of them asks. Returns their places, too."""
    here = [(6, 30), (30, 20), (38, 42), (14, 36), (22, 54), (58, 80), (92, 66), (74, 98), (98, 86), (64, 95)]
    step = [(13, -3), (12, 2), (14, -6), (11, 4), (16, 2), (-12, -7), (-16, 4), (-9, -3), (-7, -10), (-18, 3)]
    places = [[(x + n * dx, y + n * dy) for n in range(3)] for (x, y), (dx, dy) in zip(here, step, strict=True)]
    data = make_people([range(3)] * 10, places)
    contents = ('{"poi": "pharmacy"}',)
    asked = Requests(subject=np.array([3]), t=np.array([EIGHT + 70.0]), content=np.array([0]), contents=contents)
    given = {"k": 5, "instants": 3, "step_s": 60, "start": EIGHT, "align": "exact"}
    return places, compute_cloaks("tp-aware", data, {"requests": asked}, **given)


def draw_tp_aware() -> str:
    """Draw three minutes of ten people in two bundles; one of them asks."""
    places, cloaks = compute_tp_aware()
    parts: list[Markup] = []
    for minute in range(3):
        left, top = 126 * minute, 16.0
        parts += [draw_text(left, 11, f"8:0{minute}", "soft")]
        parts += [svg.make_element("rect", x=left, y=top, width=108, height=108, class_="known")]
        at = cloaks.start == EIGHT + 60 * minute
        boxes = cloaks.bounds[at]
        parts += [mark_published(left + 2 + x0, top + 106 - y1, x1 - x0, y1 - y0) for x0, y0, x1, y1 in boxes.tolist()]
        asked_for = np.zeros(len(boxes), bool) if cloaks.extra is None else cloaks.extra[at] >= 0
        for x, y in (own[minute] for own in places):
            parts.append(mark_true(left + 2.5 + x, top + 105.5 - y))
        for box, has in zip(boxes.tolist(), asked_for.tolist(), strict=True):
            if has:
                x, y = places[3][minute]
                parts += [draw_text(left + x + 8, top + 117 - box[1], "“pharmacy”", "published")]
                parts += [draw_line([(left + x + 2.5, top + 109 - y), (left + x + 2.5, top + 121)], "way")]
                parts += [draw_text(left + x - 3, top + 131, "asks for a pharmacy", "private")]
    return compose_figure(
        "tp-aware",
        "tp-aware: five people stay together, and any of them may have asked",
        "Ten people at three minutes, in two rectangles of five. The same five share a rectangle at each minute. One "
        "rectangle says at 8:01 that someone asked for a pharmacy. It does not say which of its five people asked.",
        parts,
        (
            "Published: rectangles around the same five, and requests.",
            "The adversary knows where everyone is at each minute, and still",
            "finds five people who may have asked for the pharmacy.",
        ),
        top=170,
    )


CLINIC = (128.0, 70.0)
NEAR_CLINIC = (
    (30, 62), (118, 96), (150, 60), (104, 22), (148, 118), (214, 88), (232, 26), (262, 116), (312, 84), (286, 50),
)  # fmt: skip
"""The places of ten people."""


def compute_sensitive_sites() -> Cloaks:
    """Compute the rows of ten people and a clinic."""
    data = make_people([[0]] * 10, [[place] for place in NEAR_CLINIC])
    sites = Sites(
        site_id=np.array([1]),
        site_bounds=np.array([CLINIC * 2]),
        shape_trajectory=np.empty(0, np.int64),
        shape_bounds=np.empty((0, 4)),
    )
    return compute_cloaks("sensitive-sites", data, sites=sites, k=5)


def draw_sensitive_sites() -> str:
    """Draw ten people and a clinic; the five nearest people share a rectangle."""
    cloaks = compute_sensitive_sites()
    parts: list[Markup] = [svg.make_element("rect", x=0, y=0, width=360, height=136, class_="line")]
    crowds = {tuple(box): crowd for box, crowd in zip(cloaks.bounds.tolist(), cloaks.crowd.tolist(), strict=True)}
    for (x0, y0, x1, y1), crowd in crowds.items():
        if crowd > 1:
            parts += [
                mark_published(x0, 136 - y1, x1 - x0, y1 - y0),
                draw_text(x1 + 5, 136 - y1 + 11, f"{crowd} equal rows", "published"),
            ]
        else:
            parts += [mark_published(x0 - 5, 130 - y0, 11, 11), draw_text(x0 + 10, 139 - y0, "exact", "published")]
    parts += [mark_true(x + 0.5, 135.5 - y) for x, y in NEAR_CLINIC]
    x, y = CLINIC[0], 136 - CLINIC[1]
    parts += [
        svg.make_element("path", d=f"M{x - 3},{y - 9}h6v6h6v6h-6v6h-6v-6h-6v-6h6z", class_="site"),
        mark_known(x, y, 14),
    ]
    parts += [draw_text(x + 18, y - 6, "clinic")]
    return compose_figure(
        "sensitive-sites",
        "sensitive-sites: five people share the rectangle around a clinic",
        "Ten people at one instant, and a clinic. The five people near it are published with one rectangle that holds "
        "them and the clinic. Each of the five others is published exactly, as a square of one metre.",
        parts,
        (
            "Published: one rectangle five times, five exact places.",
            "The adversary looks for the person at the clinic in the rows",
            "nearest to it, and finds five that are all alike.",
        ),
        top=156,
    )


HOUR_COUNT = 6


def compute_kte() -> tuple[Trajectories, Cloaks]:
    """Compute the rows of ten people over six hours, each seen once an hour."""
    hours, rng = HOUR_COUNT, np.random.default_rng(7)
    times = [[60 * hour + int(rng.integers(2, 58)) for hour in range(hours)] for _ in range(10)]
    places = [[(float(rng.integers(0, 4000)), float(rng.integers(0, 4000))) for _ in range(hours)] for _ in range(10)]
    data = make_people(times, places)
    return data, compute_cloaks("kte", data, k=2, tau_s=3600, leak_s=3600, grid_s=60, grid_m=100)


def draw_kte() -> str:
    """Draw six hours of ten people: the records that fit the movements of one of them, hour by hour."""
    hours, (data, cloaks) = HOUR_COUNT, compute_kte()
    minutes = (data.t[: data.offset[1]] - EIGHT) / 60
    fits = {
        int(cloaks.member_trajectory[cloaks.member_record == record][0]) - 100: [
            _fits(cloaks, record, data, hour) for hour in range(hours)
        ]
        for record in range(1, 11)
    }
    order = sorted(fits, key=lambda one: (one > 0, [not fit for fit in fits[one]]))
    left, wide, high, known_hour = 74.0, 45.0, 15.0, 2
    parts = [draw_text(left + wide * hour, 11, f"{8 + hour}:00", "soft", "middle") for hour in range(hours + 1)]
    box = {"x": left + wide * known_hour, "y": 17, "width": wide, "height": 30 + high * 10}
    parts += [svg.make_element("rect", **box, class_="known-wash"), draw_text(0, 33, "Ann’s places", "private")]
    parts += [mark_true(left + wide * minute / 60, 29) for minute in minutes.tolist()]
    for at, one in enumerate(order):
        y = 45 + high * at
        parts += [draw_text(0, y + 9, f"record {at + 1}" if one else "Ann’s record", "soft" if one else None)]
        parts += [draw_line([(left, y + 5.5), (left + wide * hours, y + 5.5)], "line")]
        for begin, end in _find_stretches(fits[one]):
            parts.append(mark_published(left + wide * begin + 1, y, wide * (end - begin) - 2, 11, 5))
    found = sum(own[known_hour] for own in fits.values())
    return compose_figure(
        "kte",
        "kte: an adversary that followed Ann for an hour finds several records that fit, and they part soon after",
        "Six hours of ten people. For each of the ten published records a bar marks the hours in which it fits the "
        f"movements of Ann. In the hour that the adversary knows, {found} records fit. No record except "
        "Ann’s own fits for longer than two hours.",
        [*parts, svg.make_element("rect", **box, class_="known")],
        (
            "Published: ten records. Bars mark the hours that fit Ann.",
            f"The adversary knows her 10:00 to 11:00 (tau) and finds {found} that fit.",
            "All others part from her within an hour before or after (leak).",
        ),
        top=214,
    )


def _fits(cloaks: Cloaks, record: int, data: Trajectories, hour: int) -> bool:
    """Whether the rows of a record hold all positions of the first person in an hour."""
    rows = cloaks.record_id == record
    begin, end, box = cloaks.start[rows], cloaks.end[rows], cloaks.bounds[rows]
    mine = slice(int(data.offset[0]), int(data.offset[1]))
    seen = [
        ((begin <= t) & (t < end) & (box[:, 0] <= x) & (x < box[:, 2]) & (box[:, 1] <= y) & (y < box[:, 3])).any()
        for t, x, y in zip(data.t[mine], data.x[mine], data.y[mine], strict=True)
        if EIGHT + 3600 * hour <= t < EIGHT + 3600 * (hour + 1)
    ]
    return bool(seen) and all(seen)


def _find_stretches(flags: Sequence[bool]) -> list[tuple[int, int]]:
    """Find the begin and end of each stretch of set flags."""
    edges = np.flatnonzero(np.diff([0, *map(int, flags), 0]))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


MOB_WAYS = (
    ((95, 67), (320, 45)), ((45, 37), (210, 64)), ((146, 124), (276, 110)), ((142, 90), (285, 66)),
    ((19, 89), (275, 98)), ((36, 23), (224, 121)), ((37, 29), (310, 36)), ((35, 117), (246, 41)),
    ((91, 47), (259, 76)), ((58, 112), (268, 32)),
)  # fmt: skip
"""The first and the last position of ten people."""


KNOWN_AT = (2, 7)
"""The minutes at which an adversary may know one person."""


def compute_mob() -> tuple[list[list[tuple[int, int]]], Cloaks]:
    """Compute the rows of ten people over ten minutes; returns their ways, too."""
    minutes = 11
    ways = [
        [(round(x0 + (x1 - x0) * n / 10), round(y0 + (y1 - y0) * n / 10)) for n in range(minutes)]
        for (x0, y0), (x1, y1) in MOB_WAYS
    ]
    data = make_people([range(minutes)] * 10, ways)
    qid = QuasiIdentifiers(subject=np.zeros(2, np.int64), t=np.array([EIGHT + 60.0 * n for n in KNOWN_AT]))
    return ways, compute_cloaks("mob", data, quasi_identifiers=qid, k=3, start=EIGHT, step_s=60, align="exact")


def draw_mob() -> str:
    """Draw ten minutes of ten people; one of them is known at two of these."""
    ways, cloaks = compute_mob()
    top = 20.0
    parts = [svg.make_element("rect", x=0, y=top, width=360, height=140, class_="line")]
    parts += [draw_line([(x, top + 140 - y) for x, y in way], "others") for way in ways[1:]]
    parts += [draw_line([(x, top + 140 - y) for x, y in ways[0]], "way")]
    parts += [draw_text(ways[0][-1][0] + 5, top + 144 - ways[0][-1][1], "Ann", "private")]
    for n in KNOWN_AT:
        at = cloaks.start == EIGHT + 60 * n
        for x0, y0, x1, y1 in np.unique(cloaks.bounds[at], axis=0).tolist():
            parts.append(mark_published(x0, top + 140 - y1, x1 - x0, y1 - y0))
        inside = cloaks.member_trajectory[np.isin(cloaks.member_record, cloaks.record_id[at])] - 100
        parts += [mark_true(ways[one][n][0] + 0.5, top + 139.5 - ways[one][n][1]) for one in inside.tolist()]
        x, y = ways[0][n]
        parts += [mark_known(x + 0.5, top + 139.5 - y), draw_text(x, 13, f"known at 8:0{n}", "private", "middle")]
        parts += [draw_line([(x + 0.5, 17), (x + 0.5, top + 132.5 - y)], "known")]
    crowd = int(cloaks.crowd.min())
    return compose_figure(
        "mob",
        "mob: at the times when Ann may be known, three people share a rectangle",
        "The ways of ten people over ten minutes. Ann, marked by an orange way, may be known at two of them. At "
        f"both, the same {crowd} people share one rectangle.",
        parts,
        (
            f"Published: at both times, a rectangle that {crowd} people share.",
            f"The adversary saw Ann then and finds {crowd} records that may be hers.",
            "Ways between are published only with qid_only=off.",
        ),
        top=180,
    )


KINDS = ("shop", "clinic", "school")
POIS = (
    *((5, 0, 1), (0, 4, 1), (1, 0, 5), (4, 1, 0)),
    *((0, 1, 5), (5, 1, 0), (0, 5, 1), (1, 0, 4)),
    *((1, 4, 0), (0, 1, 4), (4, 0, 1), (1, 5, 0)),
)
"""Shops, clinics and schools in twelve cells: four a row, from below."""


EDGE, ACROSS, DOWN = 54, 4, 3
SPOTS = (
    ((40, 20), (100, 34)), ((30, 40), (92, 18)), ((150, 20), (205, 40)), ((140, 44), (190, 12)),
    ((20, 80), (60, 130)), ((36, 96), (70, 150)), ((120, 80), (180, 70)), ((130, 100), (170, 96)),
    ((140, 140), (200, 150)), ((120, 126), (190, 130)),
)  # fmt: skip
"""Two positions of each of ten people."""


def _find_corner(cell: int) -> tuple[float, float]:
    """Find the upper left corner of a cell."""
    return cell % ACROSS * float(EDGE), 18.0 + EDGE * (DOWN - 1 - cell // ACROSS)


def _make_cells(data: Trajectories) -> Cells:
    """Make the twelve cells; those with a common edge are neighbours."""
    index = np.arange(ACROSS * DOWN).reshape(DOWN, ACROSS)
    pairs = [*zip(index[:, :-1].ravel(), index[:, 1:].ravel(), strict=True)]
    pairs += [*zip(index[:-1].ravel(), index[1:].ravel(), strict=True)]
    return Cells(
        cell_id=index.ravel() + 1,
        area_m2=np.full(index.size, float(EDGE**2)),
        categories=KINDS,
        pois=np.array(POIS),
        neighbours=np.array(sorted(pairs)),
        fix_cell=(data.y // EDGE).astype(np.int64) * ACROSS + (data.x // EDGE).astype(np.int64),
    )


def _draw_shares(groups: dict[str, set[int]]) -> list[Markup]:
    """Draw the shares of kinds of places in groups of cells, by their names, and explain the kinds."""
    parts = [draw_text(232, 11, "kinds of places in")]
    for n, (name, cells) in enumerate(groups.items()):
        shares = np.sum([POIS[cell] for cell in sorted(cells)], axis=0)
        parts += [draw_text(232, 38 + 34 * n, name), *_draw_bar(232, 42 + 34 * n, shares / shares.sum())]
    for kind, (x, name) in enumerate(zip((232, 274, 318), KINDS, strict=True)):
        parts += [_draw_place(kind, x, 151), draw_text(x + 9, 156, name)]
    return parts


def compute_semantic() -> tuple[Cells, Cloaks]:
    """Compute the rows of ten people, seen twice in twelve cells of base stations."""
    data = make_people([[10 + 2 * one, 70 + 2 * one] for one in range(10)], SPOTS)
    cells = _make_cells(data)
    return cells, compute_cloaks("semantic", data, cells=cells, k=2, l=3, t=0.1)


def draw_semantic() -> str:
    """Draw ten people in twelve cells of base stations; most places in a cell are of one kind."""
    cells, cloaks = compute_semantic()
    visited = cloaks.regions
    assert visited.cell is not None
    assert visited.cell_offset is not None
    regions = [own - 1 for own in np.split(visited.cell, visited.cell_offset[1:-1])]
    everywhere = range(ACROSS * DOWN)
    parts = [
        svg.make_element("rect", x=x, y=y, width=EDGE, height=EDGE, class_="line")
        for x, y in map(_find_corner, everywhere)
    ]
    parts += [_draw_union([_find_corner(int(cell)) for cell in region], EDGE) for region in regions]
    for cell, counts in enumerate(POIS):
        x, y = _find_corner(cell)
        marks = [kind for kind, count in enumerate(counts) for _ in range(count)]
        parts += [_draw_place(kind, x + 5 + 7.4 * at, y + EDGE - 7) for at, kind in enumerate(marks)]
    bottom = 18.0 + EDGE * DOWN
    parts += [draw_line([(x, bottom - y) for x, y in SPOTS[0]], "known")]
    parts += [mark_true(x, bottom - y) for own in SPOTS for x, y in own]
    parts += [mark_known(x, bottom - y) for x, y in SPOTS[0]]
    parts += [draw_text(SPOTS[0][0][0] + 12, bottom - SPOTS[0][0][1] + 10, "Ann", "private halo")]
    parts += [draw_text(0, 11, "twelve cells, ten people seen twice")]
    first = int(cloaks.region[np.flatnonzero(cloaks.record_id == _find_record(cloaks, 100))[0]])
    own = set(regions[first].tolist())
    parts += _draw_shares({"the first cell": {int(cells.fix_cell[0])}, "its region": own, "the city": set(everywhere)})
    return compose_figure(
        "semantic",
        "semantic: cells are joined until they have about the city’s mix of places",
        "Twelve cells of base stations with shops, clinics and schools. Most places in a cell are of one kind, which "
        "would tell what its visitors did. Cells are joined to regions in which all three kinds are about as frequent "
        "as in the city, and two people have the same record.",
        parts,
        (
            "Published: joined cells, the same for two people.",
            "The adversary followed Ann and finds two equal records. They",
            "do not tell whether she was at a shop, a clinic or a school.",
        ),
        top=bottom + 22,
    )


def _find_record(cloaks: Cloaks, trajectory: int) -> int:
    return int(cloaks.member_record[cloaks.member_trajectory == trajectory][0])


def _draw_union(corners: Sequence[tuple[float, float]], edge: float) -> Markup:
    """Draw squares as one area, without their common edges."""
    sides: dict[tuple[tuple[float, float], tuple[float, float]], int] = {}
    for x, y in corners:
        around = [(x, y), (x + edge, y), (x + edge, y + edge), (x, y + edge)]
        for side in zip(around, [*around[1:], around[0]], strict=True):
            sides[min(side), max(side)] = sides.get((min(side), max(side)), 0) + 1
    areas = "".join(f"M{x:.0f},{y:.0f}h{edge}v{edge}h-{edge}z" for x, y in corners)
    outline = "".join(f"M{a:.0f},{b:.0f}L{c:.0f},{d:.0f}" for ((a, b), (c, d)), times in sides.items() if times == 1)
    return Markup("").join(
        [svg.make_element("path", d=areas, class_="told-area"), svg.make_element("path", d=outline, class_="told-edge")]
    )


def _draw_place(kind: int, x: float, y: float) -> Markup:
    """Draw a place of a kind: a shop, a clinic or a school."""
    paths = ("h5v5h-5z", "m2,0h1.6v2h2v1.6h-2v2h-1.6v-2h-2v-1.6h2z", "m2.8,0l2.8,5.4h-5.6z")
    return svg.make_element("path", d=f"M{svg.format_number(x)},{svg.format_number(y)}{paths[kind]}", class_="place")


def _draw_bar(x: float, y: float, shares: Any, wide: float = 126) -> list[Markup]:
    parts = []
    for kind, share in enumerate(shares.tolist()):
        parts.append(svg.make_element("rect", x=x, y=y, width=wide * share, height=12, class_=f"kind-{kind}"))
        parts += [_draw_place(kind, x + wide * share / 2 - 2.8, y + 3.3)] * (share > 0.08)
        x += wide * share
    return parts


# --- the rows

TABLES = {
    "tp-aware": (lambda: compute_tp_aware()[1], "requests", "[]"),
    "sensitive-sites": (compute_sensitive_sites, "cloaked", "false"),
    "kte": (lambda: compute_kte()[1], None, None),
    "mob": (lambda: compute_mob()[1], "cloaked", "false"),
    "semantic": (lambda: compute_semantic()[1], "categories", "0"),
}
"""How the rows of a figure are computed, and a family's own column with its default."""


def format_table(family: str, most: int = 4) -> str:
    """Write the first published rows of a family's figure, as a table of its page."""
    compute, own, default = TABLES[family]
    cloaks = compute()
    where = "cells" if cloaks.regions.bounds is None else "region"
    names = ["record_id", "seq", "valid_from", "valid_to", where, "crowd", "subjects", *([own] if own else [])]
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for row in range(min(most, cloaks.rows)):
        extra = {} if cloaks.extra is None or cloaks.extra[row] < 0 else json.loads(cloaks.extras[cloaks.extra[row]])
        begin, end = (
            f"{8 + m // 60}:{m % 60:02}" for m in ((cloaks.start[row] - EIGHT) // 60, (cloaks.end[row] - EIGHT) // 60)
        )
        values = [cloaks.record_id[row], cloaks.seq[row], begin, end, _format_region(cloaks, row)]
        values += [
            cloaks.crowd[row],
            cloaks.subjects[row],
            *([json.dumps(extra[own]) if own in extra else default] if own else []),
        ]
        lines.append(f"| {' | '.join(map(str, values))} |")
    return "\n".join(lines) + "\n"


def _format_region(cloaks: Cloaks, row: int) -> str:
    regions, number = cloaks.regions, cloaks.region[row]
    if regions.bounds is not None:
        return " ".join(f"{side:.0f}" for side in regions.bounds[number])
    assert regions.cell is not None
    assert regions.cell_offset is not None
    return ", ".join(map(str, regions.cell[regions.cell_offset[number] : regions.cell_offset[number + 1]]))


# --- two releases

TWICE = (((0, 1, 2, 3, 4), (5, 6, 7, 8, 9)), ((4, 5, 6, 7, 8), (9, 0, 1, 2, 3)))
"""The bundles of two releases; person 4 is the only one in the first bundle of both."""
STANDING = (
    (40, 40),
    (24, 104),
    (92, 128),
    (120, 52),
    (176, 88),
    (228, 120),
    (250, 36),
    (312, 60),
    (328, 132),
    (20, 10),
)
"""Positions of the ten people of two releases."""


def draw_two_releases() -> str:
    """Draw two bundles of five people, of two releases, that have one person in common."""
    top = 20.0

    def find_box(bundle: Sequence[int], margin: float) -> tuple[float, float, float, float]:
        xs, ys = zip(*(STANDING[one] for one in bundle), strict=True)
        return min(xs) - margin, top + min(ys) - margin, max(xs) - min(xs) + 2 * margin, max(ys) - min(ys) + 2 * margin

    (first, _), (second, _) = TWICE
    [anna] = set(first) & set(second)
    x, y = STANDING[anna]
    parts = [mark_published(*find_box(first, 10)), mark_published(*find_box(second, 10)), mark_known(x, top + y, 10)]
    parts += [mark_true(x, top + y) for x, y in STANDING]
    parts += [draw_text(x, top + y - 16, "Ann", "private halo", "middle")]
    parts += [draw_text(30, top + 166, "release A: five people", "published")]
    parts += [draw_text(338, top + 166, "release B: five people", "published", "end")]
    return compose_figure(
        "releases-together",
        "Two releases: only Ann is in both groups",
        "Ten people. Release A publishes a rectangle for a group of five, and release B one for another group of five. "
        "The rectangles overlap, and only Ann is in both groups.",
        parts,
        (
            "Published: each release hides Ann among five people.",
            "A reader of one release finds five candidates. A reader of both",
            "finds one, so dbanon refuses release B.",
        ),
        top=top + 190,
    )


# --- README


MINUTE = "2026-01-05T08:20:00Z"
SIDE, GAP = 320.0, 228.0
Box = tuple[float, float, float, float]
"""Left, top, width, height."""
SEEN = """
SELECT ST_X(position), ST_Y(position), subject FROM dbanon.fix JOIN dbanon.dataset USING (dataset_id)
WHERE name = 'demo' AND t = %s ORDER BY 1, 2
"""
ROWS = """
SELECT ST_XMin(region), ST_YMin(region), ST_XMax(region), ST_YMax(region),
    (SELECT array_agg(t.subject ORDER BY t.subject)
        FROM dbanon.membership m JOIN dbanon.trajectory t USING (trajectory_id)
        WHERE m.run_id = c.run_id AND m.record_id = c.record_id AND (m.period IS NULL OR m.period && c.period))
FROM dbanon.cloak c WHERE lower(period) = %s
    AND run_id = (SELECT max(run_id) FROM dbanon.release WHERE name = 'demo_k5')
ORDER BY 1, 2, 3, 4
"""


MIDDLE = (
    (104, "dbanon", "strong large"),
    (130, "groups five or more,", None),
    (148, "cloaks each group,", None),
    (172, "then attacks the rows", "strong"),
    (190, "as an adversary that", None),
    (208, "knows all positions", None),
    (236, "{0} of {0} hold", "strong large good"),
    (254, "or nothing is published", "soft"),
)
"""Texts between the two panels: height, words, class."""


def draw_readme(url: str, clauses: int) -> str:
    """Draw a minute of the demo's city, private and published, from a database in which `dbanon demo` was run.

    Parameters
    ----------
    url : str
    clauses : int
        How many clauses of the attack held.
    """
    with psycopg.connect(url) as connection:
        seen, rows = (connection.execute(query, [MINUTE]).fetchall() for query in (SEEN, ROWS))
    network = read_network(Plan(objects=1))
    x0, y0, x1, y1 = network.bounds
    scale = SIDE / max(x1 - x0, y1 - y0)

    def place_on_panel(x: float, y: float) -> tuple[float, float]:
        return (x - x0) * scale, (y1 - y) * scale

    place = {subject: place_on_panel(x, y) for x, y, subject in seen}
    # A guest's last fix may be of a minute before.
    people = [[place[subject] for subject in row[4] if subject in place] for row in rows]
    boxes = [
        (*place_on_panel(xmin, ymax), (xmax - xmin) * scale, (ymax - ymin) * scale)
        for xmin, ymin, xmax, ymax, _ in rows
    ]
    ends = zip(network.edge_from.tolist(), network.edge_to.tolist(), strict=True)
    ways = "".join(
        "M{:.0f},{:.0f}L{:.0f},{:.0f}".format(
            *place_on_panel(network.x[a], network.y[a]), *place_on_panel(network.x[b], network.y[b])
        )
        for a, b in ends
    )
    city = [
        svg.make_element("rect", width=SIDE, height=SIDE, class_="wash"),
        svg.make_element("path", d=ways, class_="line", stroke_width=1.2),
    ]
    private, published = _draw_panels(list(place.values()), people, boxes)
    parts = [
        svg.make_element("g", *city, *private),
        svg.make_element("g", *city, *published, transform=f"translate({SIDE + GAP:.0f})"),
    ]
    return _frame_panels(parts, len(seen), len(rows), clauses)


def _draw_panels(
    places: Sequence[tuple[float, float]], people: Sequence[Sequence[tuple[float, float]]], boxes: Sequence[Box]
) -> tuple[list[Markup], list[Markup]]:
    """Draw all places, and all rectangles; five people and their rectangle are marked in both."""
    chosen = _choose_clearest(boxes, people)
    left, top, wide, high = boxes[chosen]
    others = [one for one in places if one not in people[chosen]]
    private = [
        *(svg.make_element("circle", cx=x, cy=y, r=3, class_="private") for x, y in others),
        *(svg.make_element("circle", cx=x, cy=y, r=5, class_="private", style=RING) for x, y in people[chosen]),
        draw_text(left + wide + 9, top + high / 2 + 5, "these five …", "strong halo"),
    ]
    published = [
        *(svg.make_element("rect", x=x, y=y, width=w, height=h, class_="region") for x, y, w, h in boxes),
        svg.make_element("rect", x=left, y=top, width=wide, height=high, class_="region marked"),
        draw_text(left + wide + 9, top + high / 2 + 5, "… are this row", "strong halo"),
    ]
    return private, published


def _frame_panels(panels: Sequence[Markup], seen: int, rows: int, clauses: int) -> str:
    """Put words between and below the panels, and describe them."""
    arrow = "M{0},{2}h22m-8,-6l8,6l-8,6M{1},{2}h22m-8,-6l8,6l-8,6".format(SIDE + 6, SIDE + GAP - 29, SIDE / 2)
    drawn = svg.make_figure(
        "readme",
        "Private beside published, with the attack between",
        f"On the left, dots mark {seen} people of a generated city at twenty past eight. On the right, {rows} "
        "rectangles are published for that minute, and each hides five people or more. Five people and their rectangle "
        f"are marked on both sides. Between, dbanon groups, cloaks, and attacks the rows: {clauses} of {clauses} "
        "clauses hold. Otherwise dbanon would publish nothing.",
        svg.make_element("style", Markup(svg.STYLE + README_STYLE)),
        svg.make_element("rect", x=-10, y=-10, width=2 * SIDE + GAP + 20, height=SIDE + 68, style="fill:var(--paper)"),
        *panels,
        svg.make_element("rect", x=SIDE + 35, y=72, width=GAP - 70, height=196, rx=8, class_="ink", stroke_width=1.5),
        svg.make_element("path", d=arrow, class_="ink", stroke_width=1.5),
        *(draw_text(SIDE + GAP / 2, y, words.format(clauses), class_, "middle") for y, words, class_ in MIDDLE),
        draw_text(0, SIDE + 20, f"Private: the places of {seen} people", "private"),
        draw_text(0, SIDE + 38, "A generated city, at 8:20", "soft"),
        draw_text(SIDE + GAP, SIDE + 20, "Published: a row is a rectangle", "published"),
        draw_text(SIDE + GAP, SIDE + 38, "It hides five or more; any of them may have asked", "soft"),
        height=SIDE + 48,
        width=2 * SIDE + GAP,
    )
    box_of_all = f"-10 -10 {2 * SIDE + GAP + 20:.0f} {SIDE + 68:.0f}"
    return str(drawn).replace(f'viewBox="0 0 {2 * SIDE + GAP:.0f} {SIDE + 48:.0f}"', f'viewBox="{box_of_all}"') + "\n"


RING = "stroke:var(--ink);stroke-width:1.5"
README_STYLE = """svg text{font-size:13px}svg text.large{font-size:17px}svg text.good{fill:var(--good)}
.region{fill-opacity:.06}
"""


def _choose_clearest(boxes: Sequence[Box], people: Sequence[Sequence[tuple[float, float]]]) -> int:
    """Choose the least rectangle of five people whose dots do not overlap, with room for words."""

    def is_clear(n: int) -> bool:
        x, _, wide, high = boxes[n]
        apart = [math.dist(a, b) for a, b in itertools.combinations(people[n], 2)]
        return len(people[n]) == 5 and min(apart) > 9 and min(wide, high) > 20 and x + wide < SIDE - 100

    return min(filter(is_clear, range(len(boxes))), key=lambda n: (boxes[n][2] * boxes[n][3], n))


FAMILIES = {
    "tp-aware": draw_tp_aware,
    "sensitive-sites": draw_sensitive_sites,
    "kte": draw_kte,
    "mob": draw_mob,
    "semantic": draw_semantic,
}


def main() -> None:
    for family, drawn in FAMILIES.items():
        (FOLDER / f"{family}.svg").write_text(drawn())
    (FOLDER.parent / "understand" / "releases-together.svg").write_text(draw_two_releases())
    if "--readme" in sys.argv:
        with dbanon.connect() as database:
            shown = demo.play(database)
            (FOLDER.parent / "readme.svg").write_text(
                draw_readme(database.target.url, len(shown.result.verdict.clauses))
            )


if __name__ == "__main__":
    main()
