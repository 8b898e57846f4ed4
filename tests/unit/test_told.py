"""What pages say of a release: what it promises, what was left out, what it was held against, how it is made again."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from zoneinfo import ZoneInfo

import pytest

from dbanon.cli import demo
from dbanon.pages import compare, disclosure, release
from dbanon.results.described import ClauseFound, Described, LeftOut, count_verdicts, name_verdict

K = 5
HOLDS = ClauseFound(name="size", passed=True, violations=0, sentence="", plain="It holds.", test="attack")


def make_described(**more: object) -> Described:
    since = datetime(2026, 1, 5, 8, tzinfo=UTC)
    given = {
        "name": "published.x", "release": "x", "run_id": 1, "dataset": "d", "method": "tp-aware", "promise": "",
        "algorithm": "traj-anon", "adversary": "", "rows_are": "", "k": K, "holds": "instant", "rows": 9,
        "since": since, "until": since, "srid": 32610, "clauses": (), "left_open": {}, "left_out": LeftOut(meaning=""),
    }  # fmt: skip
    return Described(**{**given, **more})  # type: ignore[arg-type]


def make_file_page(exact: float = 0, **more: object) -> str:
    return unescape(
        release.make_page(make_described(**more), disclosure.Shown(k=K, exact=exact), "file", ZoneInfo("UTC"))
    )


def list_tiles(html: str) -> list[str]:
    return [re.sub("<[^>]+>", " ", tile) for tile in re.findall("<li[^>]*><b>.*?</li>", html)]


@pytest.mark.parametrize("other", [{"k": K + 1}, {"method": "kte"}, {"promise": {"instants": 9}}])
def test_two_that_do_not_promise_the_same_are_not_said_to(other: dict[str, object]) -> None:
    promise = other.get("promise", {"instants": 5})
    about = {name: value for name, value in other.items() if name != "promise"}
    sides = [
        compare.Side(record=make_described(), shown=disclosure.Shown(k=K), promise={"instants": 5}),
        compare.Side(record=make_described(**about), shown=disclosure.Shown(k=K), promise=promise),  # type: ignore[arg-type]
    ]
    html = compare.make_page(sides[0], sides[1], ZoneInfo("UTC"))
    assert "Both keep the same promise" not in html
    assert "neither is better" in html


@pytest.mark.parametrize(("minutes", "said"), [(25, "25 min"), (30, "30 min"), (90, "30 min")])
def test_a_record_lasts_no_longer_than_there_are_rows(minutes: int, said: str) -> None:
    since = datetime(2026, 1, 5, 8, 5, tzinfo=UTC)
    html = make_file_page(since=since, until=since + timedelta(minutes=minutes), window_s=1800)
    assert re.findall(r">(\d+ min)<", html) == [said]


@pytest.mark.parametrize(
    ("share", "said"), [("fewer than 5, or none", "fewer than 5, or none"), (None, "not known"), ("7 %", "7 %")]
)
def test_what_was_not_counted_is_not_said_to_be_few(share: str | None, said: str) -> None:
    left_out = LeftOut(meaning="", shares={"subjects": {"share": share, "reasons": {}}})
    assert make_described(left_out=left_out).said_left_out == said
    assert ("fewer than" in make_file_page(left_out=left_out)) == (share is not None and "fewer" in share)
    assert "or not counted" in make_described().said_left_out


def find_found(html: str) -> str:
    """What the recorded intruder found, in words."""
    return re.sub("<[^>]+>", "", html.partition("<b>Found:</b>")[2].partition("</p>")[0]).strip()


def test_a_clause_over_nothing_does_not_hold_and_is_counted_apart() -> None:
    idle = replace(HOLDS, name="requests-sent", tested=False, test="inference")
    html = make_file_page(clauses=(HOLDS, idle))
    assert any("1 of 1" in tile and "nothing to test in 1" in tile for tile in list_tiles(html))
    [row] = re.findall('<tr><th scope="row"><code><bdi>requests-sent.*?</tr>', html)
    assert "nothing to test" in row
    assert ">holds<" not in row
    assert "2 of 2" not in html
    assert "1 clause with nothing to test" in find_found(html)
    assert find_found(make_file_page(clauses=(HOLDS,))) == "nothing."


def test_a_clause_over_nothing_that_is_broken_is_broken() -> None:
    assert name_verdict(replace(HOLDS, passed=False, tested=False)) == "BROKEN"
    number, said = count_verdicts([HOLDS, replace(HOLDS, passed=False, tested=False)])
    assert (number, said) == ("1 of 2", "hold")


def test_readers_are_told_what_is_not_broken_and_not_what_was_tested() -> None:
    record = make_described(clauses=(replace(HOLDS, tested=None),))
    html = release.make_page(record, disclosure.Shown(k=K), "analysts", ZoneInfo("UTC"))
    assert any("not broken" in tile for tile in list_tiles(html))
    assert "holds" not in html


def test_each_notice_of_a_run_stands_under_left_open_and_keeps_nothing_away() -> None:
    html = make_file_page(clauses=(HOLDS,), notices=("Any notice: fewer than 5.",))
    tests = html.partition("The three tests")[2].partition("</section>")[0]
    assert "Any notice: fewer than 5." in tests
    assert "1 notice" in find_found(html)
    assert "nothing" not in find_found(html)


def test_the_first_figure_is_what_is_exposed_most() -> None:
    html = make_file_page(exact=0.98, clauses=(HOLDS,))
    first, *others = list_tiles(html)
    assert "98 %" in first
    assert any("5 or more" in tile for tile in others)
    assert "98 %" in find_found(html)


def test_a_record_lasts_no_longer_than_the_rows() -> None:
    since = datetime(2026, 1, 5, 8, tzinfo=UTC)
    tiles = list_tiles(make_file_page(window_s=1800, since=since, until=since + timedelta(minutes=25)))
    assert any("25 min" in tile for tile in tiles)
    assert not any("30 min" in tile for tile in tiles)


@pytest.mark.parametrize(
    ("overlap", "said"),
    [
        ({}, "weakens the promise"),
        ({"relation": "same", "below": 0, "smallest_crowd": 5}, "same candidates"),
        ({"relation": "overlapping", "below": 0, "smallest_crowd": 5}, "people remain"),
        ({"relation": "overlapping", "below": 3, "smallest_crowd": 1}, "fewer candidates"),
        ({"within_a_day": {"shown_here": 1}}, "Within a day"),
        ({"classes": 2}, "without l categories"),
        ({"other_cells": ["x"]}, "other cells"),
        ({"fewer_cells": ["x"]}, "these cells and more"),
        ({"copies": ["x"]}, "under other names"),
        ({"settle_s": 0}, "settle time"),
    ],
)
def test_each_finding_beside_other_releases_is_said(overlap: dict[str, object], said: str) -> None:
    html = make_file_page(overlap=overlap)
    assert said in html
    assert ("rows of the same time" in html) == (overlap.get("relation") == "overlapping" and not overlap["below"])


def test_the_command_that_makes_it_again_is_quoted_and_replaces_what_is_live() -> None:
    html = make_file_page(dataset="my data; rm", parameters={"k": 5, "exact": True, "none": None})
    command = "dbanon run tp-aware --dataset 'my data; rm' --algorithm traj-anon -p k=5 -p exact=true"
    assert f"{command} --publish x --replace" in html
    assert f"{command}\n" in make_file_page(release=None, dataset="my data; rm", parameters={"k": 5, "exact": True})


@pytest.mark.parametrize(
    "given",
    [
        {"dataset": "מוניות"},
        {"dataset": "מוניות", "overlap": {}, "overlap_reason": "מוניות"},
        {"readers": ["מוניות"]},
        {"parameters": {"since": "מוניות"}},
        {"columns": [("מוניות", "מוניות")]},
        {"clauses": [HOLDS], "checked_at": datetime(2026, 1, 5, tzinfo=UTC), "checked_by": "מוניות"},
    ],
    ids=lambda given: list(given)[-1],
)
def test_names_and_texts_of_users_turn_no_text_around_them(given: dict[str, object]) -> None:
    """In a paragraph a name that is read from right to left would take the numbers and signs beside it with it."""
    record = make_described(**given)
    for audience in ("file", "operators", "analysts"):
        html = release.make_page(record, disclosure.Shown(k=K), audience, ZoneInfo("UTC"))  # type: ignore[arg-type]
        body = re.sub(r"<pre>.*?</pre>", "", html.partition("<body>")[2], flags=re.DOTALL)
        assert body.count("מוניות") == len(re.findall(r"<bdi>(?:since )?מוניות</bdi>", body))


def test_of_too_many_regions_small_and_large_ones_are_drawn() -> None:
    paths = [f"{place:04}" for place in range(1000)]
    assert disclosure.sample_paths(paths, 400, 10_000)[:3] == ["0000", "0002", "0005"]
    few = disclosure.sample_paths(paths, 400, 1000)
    assert (len(few), few[0], few[-1]) == (200, "0000", "0995")
    assert disclosure.sample_paths(paths[:3], 400, 1000) == paths[:3]
    assert disclosure.sample_paths(["x" * 2000], 400, 1000) == disclosure.sample_paths([], 400, 1000) == []
    moment = disclosure.Moment(at=datetime(2026, 1, 5, tzinfo=UTC), regions=few, rows=1000, undrawn=800)
    assert moment.said == "200 of 1,000 regions"


def test_a_demo_in_which_no_clause_broke_says_so() -> None:
    said = demo._format_gate(demo.Gate(clauses=(), verify="v", publish="p"))
    assert "no clause broke" in said
    assert "the clause size broke" in demo._format_gate(demo.Gate(clauses=("size",), verify="v", publish="p"))
