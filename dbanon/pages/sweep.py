"""Makes the page of a sweep: the effect of each parameter, the front, and the setting to publish.

Errors were computed from true positions, so the page is private.
"""

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from dbanon.base.errors import format_count
from dbanon.pages import charts, layout, maps, words
from dbanon.pages.charts import Axis, Line, draw_text, format_metres
from dbanon.pages.svg import FIGURE_WIDTH, make_element, make_figure
from dbanon.results.figures import ASKED_WORDS, Figure, format_percent
from dbanon.results.sweep import Setting, Sweep, find_lines

_MAX_LINES = 12


def make_page(sweep: Sweep, *, version: str = "") -> str:
    """Make the page of a sweep."""
    around = layout.Heading(
        title=f"Sweep of {sweep.method} over {sweep.dataset}",
        band=Markup("PRIVATE: shows errors against the true data. For operators of the dataset {}.").format(
            layout.isolate(sweep.dataset)
        ),
        head="errors against the true data",
        foot=f"dbanon {version}: {sweep.method} ({sweep.algorithm}) on {sweep.dataset}",
        private=True,
    )
    compared = [one for one in sweep.settings if one.error is not None and one.share is not None]
    blocks = [
        *_write_answer(sweep),
        *(_draw_figures(sweep, compared) if compared else ()),
        _write_grid(sweep),
        _write_commands(sweep),
    ]
    return layout.make_document(around, _write_header(sweep), *blocks)


def _write_header(sweep: Sweep) -> Markup:
    several = list(dict.fromkeys(name for one in sweep.settings for name in one.varied))
    which = " and ".join(several) or "setting"
    people = format_count(sweep.people, "person", "people") + (" drawn at random" if sweep.sample else "")
    lead = Markup("{} of {} ({}) on {} of {}, each computed, attacked and asked the same questions. {}").format(
        format_count(len(sweep.settings), "setting"), sweep.method, sweep.algorithm, people,
        layout.isolate(sweep.dataset), "Nothing was published.",
    )  # fmt: skip
    return layout.make_header(f"Which {which}? A sweep over {sweep.dataset}", lead, sweep.hides)


def _write_answer(sweep: Sweep) -> Iterator[Markup]:
    """Write the findings."""
    pairs = [sweep.sentences[i : i + 2] for i in range(0, len(sweep.sentences), 2)]
    effects = [" ".join(pair) for pair in pairs] or ["No two settings could be compared."]
    paragraphs = [Markup("<p>{}</p>").format(one) for one in (*effects, *_note_coverage(sweep), *sweep.notes)]
    yield layout.make_section("Effect of each parameter", *paragraphs)
    chosen = sweep.chosen
    if chosen is None:
        why = f"meets all wants{_list_wants(sweep)} and can be published" if sweep.wants else "can be published"
        yield layout.make_section("No setting is chosen", layout.make_card("Reason", f"No setting {why}."))
        return
    facts: list[layout.Fact] = [
        (chosen.name, "the setting", ""),
        (_write_percent(chosen.share), "of people and times published", ""),
        (_write_error(chosen.error), f"counts in {sweep.squares} are off", "private"),
        (_write_usable(chosen), "usable resolution", "private"),
    ]
    which = f"meet all wants{_list_wants(sweep)} and can be published" if sweep.wants else "can be published"
    lead = (
        f"The sweep kept the settings that {which}, and among these the ones with the strongest promise. Of "
        "these it chose the setting with the least upper end of the interval of the count error."
    )
    yield layout.make_section("The chosen setting", layout.make_fact_list(facts), lead=lead)


def _note_coverage(sweep: Sweep) -> Iterator[str]:
    count = sum(sweep.queries for one in sweep.settings for name in one.figures if name.startswith("count_error_"))
    if count:
        yield f"The true count lay between at_least and at_most in all of {format_count(count, 'answer')}."


def _list_wants(sweep: Sweep) -> str:
    return f" ({', '.join(map(str, sweep.wants))})" if sweep.wants else ""


# ---- figures ---------------------------------------------------------------------------------------------------------


def _draw_figures(sweep: Sweep, compared: Sequence[Setting]) -> Iterator[Markup]:
    yield _draw_minutes(sweep)
    names = list(compared[0].varied)
    right = [_draw_limits(compared)]
    cost = next((name for name in names if name in compared[0].promise and _is_numeric(compared, name)), None)
    if cost is not None:
        right.append(_draw_cost(sweep, compared, cost))
    caption = (
        "Filled: on the (Pareto) front, where no other of its promise is as good in both figures and better in one. "
        "Hollow: not on the front. Ringed: the chosen one of those that can be published. Lines join settings that "
        "differ in one parameter."
    )
    left = layout.make_picture(_draw_net(sweep, compared, names), caption)
    yield layout.make_section("Gains and losses", layout.make_wide_columns(left, *right), note=sweep.method)


def _draw_minutes(sweep: Sweep) -> Markup:
    """Draw the same minute at a few settings, which says more than a curve."""
    drawn = [one for one in sweep.settings if one.minute is not None]
    alike = [one for one in drawn if sweep.chosen is not None and _differs_in_promise(one, sweep.chosen)]
    shown = (alike if len(alike) > 1 else drawn)[:4]
    if not shown or shown[0].minute is None:
        reason = (
            "Maps show only settings that were computed in the same call. These were measured earlier, and their rows "
            "are not kept with their figures."
        )
        return layout.make_section("No maps of one minute", Markup('<p class="small soft">{}</p>').format(reason))
    first = shown[0].minute
    when = datetime.fromtimestamp(first.at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    window = maps.Window(**dict(zip(("x0", "y0", "x1", "y1"), first.window, strict=True)))
    figures = [_draw_minute(place, one, window) for place, one in enumerate(shown)]
    beside = Markup(
        '<div class="columns" style="grid-template-columns:repeat(auto-fit,minmax(min(240px,100%),1fr))">{}</div>'
    )
    lead = f"{when}. Each region hides as many people as its setting promises, or more."
    return layout.make_section(
        "The same minute at several settings", beside.format(Markup("").join(figures)), lead=lead
    )


def _differs_in_promise(one: Setting, chosen: Setting) -> bool:
    """Whether a setting differs from the chosen one in its promise alone."""
    return all(value == chosen.varied[name] for name, value in one.varied.items() if name not in one.promise)


def _draw_minute(place: int, one: Setting, window: maps.Window) -> Markup:
    paths = one.minute.paths if one.minute is not None else ()
    about = f"{one.name}: {format_count(len(paths), 'region')} as they would be published."
    drawn = maps.draw_map(f"minute-{place}", f"One minute at {one.name}", about, window, maps.draw_regions(paths))
    half, error = one.find_figure("region_side_m_50"), _write_error(one.error)
    sides = f", half of people's time in regions under {format_metres(half.value)}" if half and half.value else ""
    rows = format_count(one.minute.rows if one.minute is not None else 0, "row")
    if one.minute is not None and len(paths) < one.minute.rows:
        rows += f" (drawn: {len(paths):,})"
    template = Markup("{}: {}{}. Counts are off by {}.")
    caption = template.format(Markup("<b>{}</b>").format(one.name), rows, sides, error)
    return layout.make_picture(drawn, caption, class_="map")


def _draw_net(sweep: Sweep, compared: Sequence[Setting], names: Sequence[str]) -> Markup:
    """Draw share against error: each setting a dot, joined to its neighbours by one parameter each."""
    worst = 100 * max(_find_error(one) for one in compared)
    x = charts.make_axis(worst, unit=" %", name=f"counts in {sweep.squares} are off by: worse to the right")
    plot = charts.Plot(x=x, y=_make_share_axis(compared), top=38, right=FIGURE_WIDTH - 22, bottom=214)
    drawn = [*plot.draw_frame(), draw_text(2, 12, "published: better above", class_="soft")]
    for place, name in enumerate(names):
        for line in find_lines(compared, name):
            way = plot.write_path((100 * _find_error(one), 100 * (one.share or 0)) for one in line)
            dash = None if place == 0 else "3 3"
            drawn.append(
                make_element("path", d=way, class_="line-published", stroke_opacity=0.5, stroke_dasharray=dash)
            )
    above, beside = _name_settings(compared, names)
    for one in compared:
        at = plot.locate_x(100 * _find_error(one)), plot.locate_y(100 * (one.share or 0))
        drawn += _draw_setting(one, *at, above.get(id(one)), beside.get(id(one)))
    about = "; ".join(
        f"{one.name}: {_write_percent(one.share)} published, {_write_error(one.error)} off" for one in compared
    )
    return make_figure("net", "Share published against error", about, *drawn, height=plot.height)


def _make_share_axis(compared: Sequence[Setting]) -> Axis:
    """Make an axis of the shares that settings publish, between whole tens."""
    shares = [100 * (one.share or 0) for one in compared]
    low, high = math.floor(min(shares) / 10) * 10, math.ceil(max(shares) / 10) * 10
    low, high = (low, high) if high > low else (max(low - 10, 0), low + 10)
    step = 10 if high - low <= 50 else 20
    return Axis(low=low, high=high, ticks=[(v, f"{v} %") for v in range(low, high + 1, step)])


def _draw_setting(one: Setting, across: float, up: float, above: str | None, beside: str | None) -> Iterator[Markup]:
    """Draw the dot of a setting, ringed if it is chosen, with its names above and beside it."""
    if one.chosen:
        yield make_element("circle", cx=across, cy=up, r=9, class_="ink", stroke_width=1.5)
    colour = "published" if one.is_on_front else "paper"
    yield make_element("circle", cx=across, cy=up, r=4.5, class_=colour, stroke="var(--published)", stroke_width=1.6)
    if above:
        yield draw_text(across, up - 11, above, anchor="end" if across > FIGURE_WIDTH - 40 else "middle", class_="halo")
    if beside and across > FIGURE_WIDTH - 90:  # no room to the right of it
        yield draw_text(across, up + 20, beside, anchor="end", class_="halo")
    elif beside:
        yield draw_text(across + 13, up + 4, beside, class_="halo")


def _name_settings(compared: Sequence[Setting], names: Sequence[str]) -> tuple[dict[int, str], dict[int, str]]:
    """Name settings above their dots and beside them: of two parameters, the columns by one and the rows by the other.

    Of one parameter or more than two, each setting has its name while they are few.
    """
    if len(names) != 2:
        return ({id(one): one.name for one in compared} if len(compared) <= 6 else {}), {}
    first, second = names
    top = max(compared, key=lambda one: one.share or 0).varied[second]
    above = {id(one): f"{first} {one.varied[first]}" for one in compared if one.varied[second] == top}
    ends = [max(line, key=_find_error) for line in find_lines(compared, first)]
    return above, {id(one): f"{second} {one.varied[second]}" for one in ends}


def _draw_limits(compared: Sequence[Setting]) -> Markup:
    """Draw the share published and the reasons for the rest, once for all settings in which these are equal."""
    alike: dict[tuple[Any, ...], list[Setting]] = {}
    for one in compared:
        alike.setdefault((round(one.share or 0, 3), *one.limits), []).append(one)
    groups = sorted(alike.values(), key=lambda group: -(group[0].share or 0))[:_MAX_LINES]
    drawn: list[Markup] = []
    texts: list[str] = []
    for place, group in enumerate(groups):
        share, y = group[0].share or 0, place * 34 + 2
        label, width = _name_common(group), FIGURE_WIDTH - 12
        reasons = ", ".join(
            f"{_write_percent(part)} {_write_reason(reason)}" for reason, part in group[0].limits.items()
        )
        texts.append(f"{label}: {_write_percent(share)} published" + (f"; {reasons}" if reasons else ""))
        drawn += [
            draw_text(4, y + 11, f"{label}: {_write_percent(share)} published", class_="strong"),
            make_element(
                "rect", x=4, y=y + 15, width=width, height=12, fill="url(#limits-hatch)", stroke="var(--gone)"
            ),
            make_element("rect", x=4, y=y + 15, width=max(width * share, 1), height=12, class_="published"),
        ]
    title, height = "People and times published and left out", len(groups) * 34 + 4
    picture = make_figure("limits", title, "; ".join(texts), charts.define_hatching("limits"), *drawn, height=height)
    caption = "Hatched: left out. " + ". ".join(texts) + "."
    free = [name for name in compared[0].varied if all(_has_one_share(line) for line in find_lines(compared, name))]
    if free and len(groups) > 1:
        caption += f" No share is lost to {' or '.join(free)}."
    return layout.make_block("Limits of the share", layout.make_picture(picture, caption))


def _name_common(group: Sequence[Setting]) -> str:
    """Name the values that settings have in common."""
    common = dict(group[0].varied)
    for one in group:
        common = {name: value for name, value in common.items() if one.varied.get(name) == value}
    return ", ".join(f"{name} {value}" for name, value in common.items()) or (
        "all settings" if len(group) > 1 else group[0].name
    )


def _has_one_share(line: Sequence[Setting]) -> bool:
    shares = [one.share or 0 for one in line]
    return max(shares) - min(shares) < 0.005


def _write_reason(reason: str) -> str:
    return reason.replace("_", " ")


def _draw_cost(sweep: Sweep, compared: Sequence[Setting], name: str) -> Markup:
    """Draw the cost of a promise: error by its parameter, a line for each of the other values."""
    values = sorted({float(one.varied[name]) for one in compared})
    ticks = [(value, f"{value:g}") for value in values]
    x = Axis(low=min(values), high=max(values), ticks=ticks, is_log=min(values) > 0, name=name)
    lines = []
    for place, line in enumerate(find_lines(compared, name)[:_MAX_LINES]):
        points = [charts.make_point(float(one.varied[name]), one.error) for one in line if one.error is not None]
        others = ", ".join(f"{n} {v}" for n, v in line[0].varied.items() if n != name) or sweep.method
        lines.append(Line(name=others, points=points, kind="private", dashed=place > 0))
    y = charts.make_axis(max(high for line in lines for *_, high in line.points), unit=" %", steps=3)
    about = f"How far counts in {sweep.squares} are off by {name}, with intervals (90 %)."
    return layout.make_block(
        f"The cost of {name}",
        layout.make_picture(charts.draw_lines("cost", f"Error by {name}", about, lines, x=x, y=y), about),
    )


def _is_numeric(compared: Sequence[Setting], name: str) -> bool:
    values = [one.varied[name] for one in compared]
    return len(set(values)) > 1 and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


# ---- tables ----------------------------------------------------------------------------------------------------------


def _write_grid(sweep: Sweep) -> Markup:
    """List all settings; each promise has its own front."""
    worst = max((_find_error(one) for one in sweep.settings if one.error is not None), default=1) or 1
    short = sweep.squares.removeprefix("squares of ")
    head = [
        "setting",
        "published",
        *(f"off {when}, {short}" for when in ASKED_WORDS.values()),
        "usable resolution",
        "rows",
        "may be published",
        "limited by",
    ]
    table = layout.make_table(head, [_write_row(one, worst) for one in sweep.settings], numbers=(1, 2, 3, 4, 5))
    questions = f"{format_count(sweep.queries, 'question')} of each kind"
    note = (
        f"● on the front of its promise. Each setting was asked {questions} at random places and times, about "
        f"{sweep.squares}, and about others. The error of counts is the sum of differences as a share of the sum of "
        "true counts of published people, with its 90 % interval in brackets. Usable resolution: the side from which "
        "on counts are off by at most 20 %."
    )
    return layout.make_section("All settings", table, Markup('<p class="small soft">{}</p>').format(note))


def _write_row(one: Setting, worst: float) -> list[Any]:
    name = Markup("{}{}{}").format("● " if one.is_on_front else "", one.name, " (chosen)" if one.chosen else "")
    if one.outcome != "verified":
        return [name, "–", "–", "–", "–", "–", "no", Markup('<b class="warn">{}</b>').format(one.reason or one.outcome)]
    limits = ", ".join(f"{_write_percent(part)} {_write_reason(reason)}" for reason, part in one.limits.items())
    cells: list[Any] = [name, _draw_bar(_write_percent(one.share), one.share or 0, "published-wash")]
    for asked in ASKED_WORDS:
        error = one.find_figure("count_error", side_m=one.side_m, asked=asked)
        value = error.value if error and error.value is not None else None
        cells.append("–" if value is None else _draw_bar(_write_error(error), value / worst, "private-wash"))
    cells += [_write_usable(one), f"{one.run.get('rows', 0):,}", _write_publishable(one)]
    return [*cells, limits or "nothing"]


def _write_publishable(one: Setting) -> str:
    overlap = one.run.get("overlap")
    if overlap is None:
        return "not measured"
    if not overlap.get("below"):
        return "yes"
    beside = ", ".join(overlap.get("releases") or ()) or "earlier releases"
    return f"no: together with {beside} {overlap.get('smallest_crowd')} of {overlap.get('k')} are left"


def _draw_bar(text: str, share: float, class_: str) -> Markup:
    """Write a value over a bar of its share of the greatest."""
    width = f"{min(max(share, 0), 1) * 100:.0f}%"
    style = f"display:block;padding:0 4px;background:linear-gradient(90deg,var(--{class_}) {width},transparent {width})"
    return Markup('<span style="{}">{}</span>').format(style, text)


def _write_commands(sweep: Sweep) -> Markup:
    lines = [sweep.write_sweep_command()]
    if sweep.chosen is not None:
        lines.append(sweep.write_command(sweep.chosen))
    note = (
        Markup("<p>{}</p>").format(
            "The second command computes the chosen setting again, with the same groups and figures, and publishes it."
        )
        if sweep.chosen is not None
        else Markup("")
    )
    return layout.make_section("Make it again", layout.make_code_block("\n".join(lines)), note)


# ---- words -----------------------------------------------------------------------------------------------------------


def _find_error(one: Setting) -> float:
    return one.error.value if one.error is not None and one.error.value is not None else 0.0


def _write_percent(share: float | None) -> str:
    return "–" if share is None else format_percent(share)


def _write_error(error: Figure | None) -> str:
    if error is None or error.value is None:
        return "–"
    if error.low is None or error.high is None:
        return f"{error.value * 100:.0f} %"
    return f"{error.value * 100:.0f} % [{error.low * 100:.0f}–{error.high * 100:.0f}]"


def _write_usable(one: Setting) -> str:
    return words.format_usable_resolution(list(one.figures.values()))
