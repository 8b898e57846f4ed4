"""Makes the page of two releases or runs side by side; those of different promises are not ranked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

from markupsafe import Markup

from dbanon.base.errors import format_count
from dbanon.pages import layout, maps, words
from dbanon.pages.disclosure import Shown
from dbanon.pages.map_section import draw_sizes
from dbanon.results.described import Described, count_verdicts
from dbanon.results.figures import format_percent


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two; `promise` has the parameters on which it depends what is promised."""

    record: Described
    shown: Shown
    promise: Mapping[str, Any] = field(default_factory=dict)

    @property
    def promised(self) -> tuple[Any, ...]:
        """What is equal for two that keep the same promise: also the clauses, which are those of the algorithm."""
        record = self.record
        return record.method, record.k, dict(self.promise), {clause.name for clause in record.clauses}


def make_page(one: Side, other: Side, zone: ZoneInfo) -> str:
    """Make the page, from nothing but what the pages for files of the two show."""
    sides = {"A": one, "B": other}
    names = [side.record.name for side in sides.values()]
    is_same = one.promised == other.promised
    around = layout.Heading(
        title=f"{names[0]} beside {names[1]}",
        band="To choose between two. Shows no true position.",
        head="to choose between two",
        foot=f"{names[0]} beside {names[1]}",
    )
    lead = (
        "Both keep the same promise. The differences are below."
        if is_same
        else "They promise different things, so neither is better by a figure of this page."
    )
    about = [f"{letter}: {side.record.name}" for letter, side in sides.items()]
    return layout.make_document(
        around,
        layout.make_header(f"{names[0]} beside {names[1]}", lead, *about),
        layout.make_section(
            "The two promises", layout.make_columns(*(_make_promise(letter, side) for letter, side in sides.items()))
        ),
        layout.make_section("Figures", layout.make_table(["figure", "A", "B"], _make_rows(list(sides.values()), zone))),
        layout.make_section(
            "Rows at one moment",
            layout.make_columns(*(_draw_map(letter, side, zone) for letter, side in sides.items())),
        ),
        layout.make_section(
            "Regions", layout.make_columns(*(_draw_sizes(letter, side) for letter, side in sides.items()))
        ),
        layout.make_section("Before you publish", layout.make_columns(*_make_advice(one, other))),
    )


def _make_promise(letter: str, side: Side) -> Markup:
    record = side.record
    k = f", k = {record.k}" if record.k is not None else ""
    return layout.make_card(f"{letter}: {record.method}{k}", words.insert_k(record.promise, record.k), record.rows_are)


def _make_rows(sides: Sequence[Side], zone: ZoneInfo) -> list[list[str]]:
    records, shown = [side.record for side in sides], [side.shown for side in sides]
    times = [
        words.format_span(*(None if t is None else t.astimezone(zone) for t in (r.since, r.until))) for r in records
    ]
    settings = [layout.isolate(words.format_settings(r.parameters) or "-") for r in records]
    return [
        ["clauses of the attack", *(" ".join(count_verdicts(r.clauses)) for r in records)],
        ["notices", *(str(len(r.notices)) for r in records)],
        ["people hidden by a row", *(_describe_crowd(side) for side in sides)],
        ["published", *(_describe_share(r) for r in records)],
        ["rows", *(f"{r.rows or 0:,}" for r in records)],
        ["longer side of the regions", *(_describe_sides(s) for s in shown)],
        ["in exact rows", *(format_percent(s.exact) for s in shown)],
        ["time", *times],
        ["parameters", *settings],
    ]


def _describe_crowd(side: Side) -> str:
    hides = words.describe_crowd(side.record, side.shown.exact)
    return (hides[0] + (", except exact rows" if side.shown.exact else "")) if hides else "-"


def _describe_sides(shown: Shown) -> str:
    sides = map(words.format_length, shown.sides[1:])
    return "half under {}, nine tenths under {}".format(*sides) if shown.sides else "-"


def _describe_share(record: Described) -> str:
    if record.percent_left_out is None:
        return f"left out of the people and times seen: {record.said_left_out}"
    return f"{100 - record.percent_left_out} % of all people and times seen"


def _draw_map(letter: str, side: Side, zone: ZoneInfo) -> Markup:
    moment, window = side.shown.moment, side.shown.window
    if moment is None or window is None:
        return layout.make_card(letter, "There are no rows that hide people, so there is nothing to draw.")
    at = f"{moment.at.astimezone(zone):%H:%M}"
    drawn = maps.draw_map(
        f"map-{letter.lower()}",
        f"{letter} at {at}",
        f"Drawn of rows that hold at {at} and hide people: {moment.said}.",
        window,
        maps.draw_regions(moment.regions),
    )
    return layout.make_picture(
        drawn,
        f"{letter}: {side.record.name} at {at}, {moment.said} of {format_count(moment.rows, 'row')} that hide people.",
        class_="map",
    )


def _draw_sizes(letter: str, side: Side) -> Markup:
    if not side.shown.sizes:
        return layout.make_card(letter, "There are no rows that hide people.")
    drawn = draw_sizes(f"sizes-{letter.lower()}", f"{letter}: how long the regions are", side.shown)
    return layout.make_picture(drawn, f"{letter}: share of people and time. The last bar is open.")


def _make_advice(one: Side, other: Side) -> list[Markup]:
    both = one.record.dataset is not None and one.record.dataset == other.record.dataset
    cards = []
    if both:
        cards.append(
            layout.make_card(
                "Publish one of the two",
                "Both are of the same people. Where they speak of the same time, a reader of both may find fewer "
                "than k people for a row. dbanon measures that before it publishes the second one. If fewer than k "
                "people are left, dbanon refuses.",
            )
        )
    cards.append(
        layout.make_card(
            "How far off answers are",
            "This page has no figure that was held against true positions. dbanon evaluate measures that for each, "
            "with the same questions.",
        )
    )
    return cards
