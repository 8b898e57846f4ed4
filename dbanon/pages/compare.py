"""Makes the page of two releases or runs side by side; those of different promises are not ranked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

from markupsafe import Markup

from dbanon.base.described import Described
from dbanon.base.errors import format_count
from dbanon.pages import frame, maps, words
from dbanon.pages.drawn import sizes
from dbanon.pages.shown import Shown


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


def page(one: Side, other: Side, zone: ZoneInfo) -> str:
    """Make the page, from nothing but what the pages for files of the two show."""
    sides = {"A": one, "B": other}
    names = [side.record.name for side in sides.values()]
    same = one.promised == other.promised
    around = frame.Frame(
        title=f"{names[0]} beside {names[1]}",
        band="To choose between two. Shows no true position.",
        head="to choose between two",
        foot=f"{names[0]} beside {names[1]}",
    )
    lead = (
        "Both keep the same promise. The differences are below."
        if same
        else "They promise different things: neither is better by a figure of this page."
    )
    about = [f"{letter}: {side.record.name}" for letter, side in sides.items()]
    return frame.document(
        around,
        frame.header(f"{names[0]} beside {names[1]}", lead, *about),
        frame.section("The two promises", frame.columns(*(_promise(letter, side) for letter, side in sides.items()))),
        frame.section("Figures", frame.table(["figure", "A", "B"], _rows(list(sides.values()), zone))),
        frame.section(
            "Rows at one moment", frame.columns(*(_map(letter, side, zone) for letter, side in sides.items()))
        ),
        frame.section("Regions", frame.columns(*(_sizes(letter, side) for letter, side in sides.items()))),
        frame.section("Strengths and costs", frame.columns(*_advice(one, other))),
    )


def _promise(letter: str, side: Side) -> Markup:
    record = side.record
    k = f", k = {record.k}" if record.k is not None else ""
    return frame.card(f"{letter}: {record.method}{k}", words.with_k(record.promise, record.k), record.rows_are)


def _rows(sides: Sequence[Side], zone: ZoneInfo) -> list[list[str]]:
    records, shown = [side.record for side in sides], [side.shown for side in sides]
    held = [f"{r.held} of {len(r.clauses)}" for r in records]
    times = [words.span(*(None if t is None else t.astimezone(zone) for t in (r.since, r.until))) for r in records]
    settings = [frame.isolate(words.settings(r.parameters) or "-") for r in records]
    return [
        ["clauses that hold", *held],
        ["people hidden by a row", *(_hides(side) for side in sides)],
        ["published", *(_published(r) for r in records)],
        ["rows", *(f"{r.rows or 0:,}" for r in records)],
        ["half of the regions under", *(words.length(s.sides[1]) if len(s.sides) == 3 else "-" for s in shown)],
        ["nine tenths under", *(words.length(s.sides[2]) if len(s.sides) == 3 else "-" for s in shown)],
        ["in exact rows", *(words.percent(s.exact) for s in shown)],
        ["time", *times],
        ["parameters", *settings],
    ]


def _hides(side: Side) -> str:
    hides = words.hides(side.record, side.shown.exact)
    return (hides[0] + (", but for exact rows" if side.shown.exact else "")) if hides else "-"


def _published(record: Described) -> str:
    if record.percent_left_out is None:
        return f"left out of the people and times seen: {record.said_left_out}"
    return f"{100 - record.percent_left_out} % of all people and times seen"


def _map(letter: str, side: Side, zone: ZoneInfo) -> Markup:
    moment, window = side.shown.moment, side.shown.window
    if moment is None or window is None:
        return frame.card(letter, "There are no rows that hide people, so there is nothing to draw.")
    at = f"{moment.at.astimezone(zone):%H:%M}"
    drawn = maps.panel(
        f"map-{letter.lower()}",
        f"{letter} at {at}",
        f"Drawn of rows that hold at {at} and hide people: {moment.said}.",
        window,
        maps.backdrop(side.shown.lines, side.shown.areas),
        maps.regions(moment.regions),
    )
    return frame.picture(
        drawn,
        f"{letter}: {side.record.name} at {at}, {moment.said} of {format_count(moment.rows, 'row')} that hide people.",
        class_="map",
    )


def _sizes(letter: str, side: Side) -> Markup:
    if not side.shown.sizes:
        return frame.card(letter, "There are no rows that hide people.")
    drawn = sizes(f"sizes-{letter.lower()}", f"{letter}: how large the regions are", side.shown)
    return frame.picture(drawn, f"{letter}: share of people and time. The last bar is open.")


def _advice(one: Side, other: Side) -> list[Markup]:
    both = one.record.dataset is not None and one.record.dataset == other.record.dataset
    cards = []
    if both:
        cards.append(
            frame.card(
                "Publish one of the two",
                "Both are of the same people. Where they speak of the same time, a reader of both may find fewer "
                "than k people for a row. dbanon measures that before it publishes the second, and refuses.",
            )
        )
    cards.append(
        frame.card(
            "How far off answers are",
            "This page has no figure that was held against true positions. dbanon evaluate measures that for each, "
            "with the same questions.",
        )
    )
    return cards
