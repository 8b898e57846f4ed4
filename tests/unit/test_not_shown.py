"""What no page for others shows: a card has values that may be on none of them, and pages are searched for these."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from dbanon.pages import compare, disclosure, release
from dbanon.pages.maps import Window
from dbanon.results.described import Described

K, ZONE, SINCE = 5, ZoneInfo("UTC"), datetime(2026, 1, 5, 8, tzinfo=UTC)
SECRETS = {
    "a seed": 770_001,
    "the number of a person left out by a reason": 770_002,
    "how many were seen in an hour": 770_004,
    "a figure of the attack": 770_005,
    "people whom another release shows": 770_006,
    "a figure held against the truth": 770_007,
    "a page made before": "f00df00d",
    "a person": "taxi-4711",
    "what somebody asked for": "a clinic",
}
HOUR = "2026-01-05T08:00:00+00:00", "2026-01-05T09:00:00+00:00"


def make_card() -> dict[str, Any]:
    """The card of a release as SQL makes it, and more that a later one might have; its secrets are `SECRETS`."""
    secret = SECRETS.get
    clause = {
        "name": "size",
        "passed": True,
        "violations": 0,
        "sentence": "It holds; broken by 0 rows.",
        "test": "attack",
    }
    few = {"name": "covers", "passed": False, "violations": 2,
           "sentence": "It holds; broken by 2 of 2,623 rows.", "test": "attack"}  # fmt: skip
    return {
        "release": "x", "release_id": 3, "live": True, "dataset": "d", "run_id": 1, "method": "tp-aware",
        "algorithm": "traj-anon", "parameters": {"k": K}, "promise": "k.", "k": K, "adversary": "", "rows_are": "",
        "holds": "instant", "rows": 90, "srid": 32610, "period": dict(zip(("since", "until"), HOUR, strict=True)),
        "seed": secret("a seed"), "subjects": [secret("a person")], "requests": [secret("what somebody asked for")],
        "attack": {
            "clauses": [clause, few], "left_open": {}, "notices": [], "checked_at": HOUR[1],
            "checked_by": "op", "digest": "00",
            "passed": True, "changed": None, "outdated": False, "figures": {"seen": secret("a figure of the attack")},
        },
        "left_out": {
            "meaning": "People are left out.", "reasons": {"few": "Too few"},
            "in_all": {"subjects": {"few": secret("the number of a person left out by a reason")}},
            "by_hour": [{"hour": HOUR[0], "seen": secret("how many were seen in an hour"),
                         "left_out": {"few": 3}}],
            "joined": [{"since": HOUR[0], "until": HOUR[1], "percent": 29}],
            "shares": {"subjects": {"share": "29 %", "reasons": {"few": "fewer than 5, or none"}}},
        },
        "percent_left_out": 29, "paper": None, "readers": None, "program_version": "1", "versions": {}, "parts": [],
        "published_at": HOUR[1], "published_by": "op", "box": None, "withdrawn_at": None, "withdrawn_by": None,
        "overlap_reason": None, "policy": None, "overlap": {
            "relation": "same", "within_a_day": {"shown_here": secret("people whom another release shows")},
            "copies": [secret("a person")],
        },
        "evaluation": {"figures": {"count_error": secret("a figure held against the truth")}},
        "pages": [{"digest": secret("a page made before")}],
    }  # fmt: skip


def make_picture(**more: Any) -> disclosure.Shown:
    moment = disclosure.Moment(at=SINCE, regions=["M0 0h9v9h-9z"], rows=7)
    hours = [(SINCE, {1: "M0 0h9v9h-9z"})]
    given = {"window": Window(x0=0, y0=0, x1=3600, y1=3600), "moment": moment, "hours": hours, "cell_m": 500}
    return disclosure.Shown(k=K, **{**given, **more})


def make_analyst_page(record: Described, drawn: disclosure.Shown) -> str:
    return release.make_page(replace(record, run_id=None, dataset=None), drawn, "analysts", ZONE)


PAGES: dict[str, Callable[[Described, disclosure.Shown], str]] = {
    "file": lambda record, drawn: release.make_page(record, drawn, "file", ZONE),
    "analysts": make_analyst_page,
    "compare": lambda record, drawn: compare.make_page(*2 * [compare.Side(record=record, shown=drawn)], ZONE),
}
every_page = pytest.mark.parametrize("made", PAGES.values(), ids=PAGES)


def read_words(html: str) -> str:
    """All that a page says, without its style; the descriptions of its figures too."""
    body = re.sub(r' d="[^"]*"| class="[^"]*"| id="[^"]*"', "", html.partition("</head>")[2])
    return unescape(re.sub(r"</?[a-z][^>]*>", " ", body)).replace(",", "")


@every_page
def test_no_page_for_others_has_a_seed_a_person_a_request_a_small_count_or_what_was_held_against_the_truth(
    made: Callable[[Described, disclosure.Shown], str],
) -> None:
    text = read_words(made(Described.from_card(make_card()), make_picture()))
    for what, secret in SECRETS.items():
        assert str(secret) not in text, what
    assert "2623" not in text
    assert not re.search(r"\b[1-4] (?:people|persons?|subjects?)\b", text)


@every_page
def test_small_counts_change_no_page_for_others(made: Callable[[Described, disclosure.Shown], str]) -> None:
    """Of each a page is made twice, with one person and with four: the same."""
    pages = set()
    for count in (1, 4):
        changed = make_card()
        changed["attack"]["clauses"][1] |= {"violations": count, "sentence": f"It holds; broken by {count} rows."}
        changed["left_out"]["in_all"]["subjects"]["few"] = count
        changed["left_out"]["by_hour"][0]["left_out"]["few"] = count
        changed["overlap"]["within_a_day"]["shown_here"] = count
        pages.add(made(Described.from_card(changed), make_picture()))
    assert len(pages) == 1


def test_hours_with_few_left_out_are_on_the_page_as_sql_joined_them() -> None:
    joined = make_card()
    joined["left_out"]["by_hour"] *= 3
    html = PAGES["file"](Described.from_card(joined), make_picture())
    drawn = html.partition('id="left-out-title"')[2].partition("</svg>")[0]
    assert drawn.count('class="gone"') == 1
    assert "29 %" in drawn


def test_no_region_is_marked_as_that_of_a_group() -> None:
    moment = disclosure.Moment(at=SINCE, regions=["M0 0h9v9h-9z"], rows=7, marked=0)
    for audience in ("file", "analysts"):
        with pytest.raises(ValueError, match="private"):
            PAGES[audience](Described.from_card(make_card()), make_picture(moment=moment))
    assert "region marked" in release.make_page(
        Described.from_card(make_card()), make_picture(moment=moment), "operators", ZONE
    )
    assert 'class="region marked"' not in PAGES["compare"](
        Described.from_card(make_card()), make_picture(moment=moment)
    )


@every_page
def test_where_rows_are_exact_no_map_has_a_tint_of_fewer_than_k(
    made: Callable[[Described, disclosure.Shown], str],
) -> None:
    html = made(Described.from_card(make_card()), make_picture(exact=0.3))
    assert 'class="class-0"' not in html
    assert "fewer than 5 people" not in html


@every_page
def test_neither_the_least_nor_the_greatest_region_is_on_a_page(
    made: Callable[[Described, disclosure.Shown], str],
) -> None:
    usual = [disclosure.Bin(disclosure.BIN_FACTOR**n, disclosure.BIN_FACTOR ** (n + 1), 9, 9) for n in range(20, 30)]
    pages = set()
    for least, greatest in ((3.0, 70_000.0), (7.0, 90_000.0)):
        ends = [disclosure.Bin(least, least + 1, 0.01, 1), *usual, disclosure.Bin(greatest, greatest + 9, 0.01, 1)]
        sizes = disclosure.make_bars(disclosure.join_bins(ends, K))
        drawn = make_picture(sizes=sizes, sides=disclosure.compute_quantiles(ends))
        pages.add(made(Described.from_card(make_card()), drawn))
    assert len(pages) == 1
