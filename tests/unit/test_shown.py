"""What pages for others show is about k people or more, and never the least, the greatest or the fullest."""

import math
import re
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.attacks import import_attacker
from dbanon.base.errors import format_count
from dbanon.methods import METHODS, Method
from dbanon.pages import compare, disclosure, release, words
from dbanon.pages.maps import Window
from dbanon.results.described import ClauseFound, Described, LeftOut, Part
from dbanon.results.figures import Figure, round_percent

K = 5


def make_bins(people: list[int]) -> list[disclosure.Bin]:
    """Bins of factors of `disclosure.BIN_FACTOR`, a unit of weight for each person."""
    edges = [disclosure.BIN_FACTOR**n for n in range(len(people) + 1)]
    return [disclosure.Bin(edges[n], edges[n + 1], float(p), float(p)) for n, p in enumerate(people)]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=40), st.integers(2, 20))
def test_no_bin_is_of_fewer_than_k_people_and_the_last_is_open(people: list[int], k: int) -> None:
    made = disclosure.join_bins(make_bins(people), k)
    if sum(people) < k:
        assert made == []
        return
    assert all(one.people >= k for one in made)
    assert sum(one.people for one in made) == sum(people)
    assert sum(one.weight for one in made) == sum(people)
    assert math.isinf(made[-1].until)


def test_the_region_of_one_group_far_off_is_in_a_last_bin_that_begins_where_the_others_end() -> None:
    usual = make_bins([100] * 10)
    far = disclosure.Bin(disclosure.BIN_FACTOR**60, disclosure.BIN_FACTOR**61, 5, 5)
    made = disclosure.join_bins([*usual, far], K)
    assert made[-1].since == usual[-1].until
    assert far.since not in [one.since for one in made]


def test_the_least_region_is_not_where_the_bars_begin() -> None:
    small = disclosure.Bin(1.0, disclosure.BIN_FACTOR, 5, 5)
    usual = [one._replace(since=one.since * 100, until=one.until * 100) for one in make_bins([100] * 10)]
    made = disclosure.join_bins([small, *usual], K)
    assert made[0].since == usual[0].since


@given(st.dictionaries(st.integers(K, 500), st.integers(1, 300), min_size=1, max_size=40))
def test_the_fullest_group_is_in_an_open_bar(rows: dict[int, int]) -> None:
    crowds = [(crowd, float(n), float(n * crowd)) for crowd, n in sorted(rows.items())]
    bars = disclosure.make_crowd_bars(crowds, K)
    assert sum(share for _, share in bars) == pytest.approx(1)
    assert bars[-1][0].endswith(" or more")
    fewer = {n for crowd in rows if crowd < max(rows) for n in (crowd, crowd + 1, 2 * crowd, 2 * crowd + 1)}
    assert int(bars[-1][0].split()[0]) <= max({K, *fewer})


def test_the_last_bar_of_crowds_begins_where_the_others_end() -> None:
    assert [word for word, _ in disclosure.make_crowd_bars([(5, 98, 500), (6, 1, 60), (9, 1, 9)], K)] == [
        "5 people",
        "6 or more",
    ]
    assert [word for word, _ in disclosure.make_crowd_bars([(5, 98, 500), (400, 2, 400)], K)] == [
        "5 to 9",
        "10 or more",
    ]
    assert disclosure.make_crowd_bars([(5, 1, 4)], K) == []


def test_cells_of_fewer_than_k_have_one_tint_or_none() -> None:
    window = Window(x0=0, y0=0, x1=3600, y1=3600)
    cells = [(0.0, 0.0, 0.1), (600.0, 0.0, 4.9), (1200.0, 0.0, 5.0), (1800.0, 0.0, 79.0), (9000.0, 0.0, 50.0)]
    drawn = disclosure.draw_squares(cells, 600, window, K, tints_few=True)
    assert {level: path.count("M") for level, path in drawn.items()} == {0: 2, 1: 1, 4: 1}
    assert 0 not in disclosure.draw_squares(cells, 600, window, K, tints_few=False)
    assert disclosure.name_levels(K) == ["fewer than 5", "5 to 10", "10 to 20", "20 to 40", "40 and more"]
    assert [disclosure.find_level(people, K) for people in (0, 4.99, 5, 9.99, 10, 40, 1e6)] == [0, 0, 1, 1, 2, 4, 4]


def test_no_question_is_shown_to_which_the_rows_tell_fewer_than_k_people() -> None:
    told = [
        disclosure.Question("a", 0, 4.9, 90),
        disclosure.Question("b", 2, 5, 9),
        disclosure.Question("c", 9, 20, 30),
    ]
    assert [one.label for one in disclosure.select_questions(told, K)] == ["c", "b"]


def test_quantiles_are_read_off_bins() -> None:
    low, half, high = disclosure.compute_quantiles(make_bins([10] * 20))
    assert low < half < high
    assert half == pytest.approx(disclosure.BIN_FACTOR**10)


def test_figures_are_said_as_people_read_them() -> None:
    promise = "An adversary finds at least k subjects, or k - 1 others; asking 'k' ."
    assert words.insert_k(promise, 5).startswith("An adversary finds at least five subjects, or four others")
    assert words.insert_k(promise, None) == promise
    assert [round_percent(share) for share in (0, 0.001, 0.5, 0.999, 1)] == [0, 1, 50, 99, 100]
    assert [words.format_length(m) for m in (0.9, 183, 1_834, 74_000)] == ["1 m", "180 m", "1.8 km", "74 km"]
    assert [words.format_duration(s) for s in (5, 600, 7_200, 172_800)] == ["5 s", "10 min", "2 h", "2 d"]


@pytest.mark.parametrize("family", METHODS.values(), ids=list(METHODS))
def test_every_family_has_a_page_for_each_audience_that_asks_only_what_its_rows_answer(family: Method) -> None:
    since, until = datetime(2026, 1, 5, 8, tzinfo=UTC), datetime(2026, 1, 5, 9, tzinfo=UTC)
    record = Described(
        name="published.x", release="x", run_id=1, dataset="d", method=family.name, promise="", adversary="",
        rows_are="", k=K, holds=family.holds, rows=9, since=since, until=until, srid=32610, clauses=(), left_open={},
        left_out=LeftOut(meaning=""),
    )  # fmt: skip
    drawn = disclosure.Shown(
        k=K,
        window=Window(x0=0, y0=0, x1=3600, y1=3600),
        moment=disclosure.Moment(at=since, regions=["M0 0h9v9h-9z"], rows=9),
    )
    zone = ZoneInfo("UTC")
    assert release.make_page(record, drawn, "file", zone).endswith("</html>\n")
    analysts = unescape(release.make_page(record, drawn, "analysts", zone))
    assert ("at => '" in analysts) == ("at a moment" in analysts) == (family.holds == "instant")
    for align, said in (("last", "last known"), ("linear", "between the fix"), ("exact", "a fix at that time")):
        truth = disclosure.Truth(places=[(1, 1)], people=1, align=align)
        private = release.make_page(record, drawn, "operators", zone, truth=truth, parts=["One of two."])
        assert said in private
        assert "One of two." in private
    with pytest.raises(ValueError, match="private"):
        release.make_page(record, drawn, "file", zone, parts=["One of two."])
    figures = [Figure(name="usable_resolution_m", value=900.0)]
    part = Part(since=since, until=since, k=5, rows=9, percent_left_out=None, figures=figures)
    with pytest.raises(ValueError, match="private"):
        release.make_page(replace(record, parts=[part]), drawn, "file", zone)
    side = compare.Side(record=record, shown=drawn)
    assert "Both keep the same promise" in compare.make_page(side, side, zone)


def make_described(**changed: Any) -> Described:
    since, until = datetime(2026, 1, 5, 8, tzinfo=UTC), datetime(2026, 1, 5, 9, tzinfo=UTC)
    record = Described(
        name="run 1", release=None, run_id=1, dataset="d", method="tp-aware", promise="", adversary="", rows_are="",
        k=K, holds="instant", rows=9, since=since, until=until, srid=32610, left_open={},
        clauses=(make_clause("size"), make_clause("covers")), left_out=LeftOut(meaning=""),
    )  # fmt: skip
    return replace(record, **changed)


def make_clause(name: str, violations: int = 0, by: str = "") -> ClauseFound:
    sentence = f"It must hold; broken by {by or format_count(violations, 'row')}."
    return ClauseFound(
        name=name,
        passed=not violations,
        violations=violations,
        sentence=sentence,
        plain="It holds.",
        test="singling out",
    )


def make_file_page(record: Described, **drawn: Any) -> str:
    return unescape(release.make_page(record, disclosure.Shown(k=K, **drawn), "file", ZoneInfo("UTC")))


def test_where_rows_are_exact_or_a_clause_is_broken_no_page_says_that_every_row_hides_k_people() -> None:
    bare = "people hidden by a row<"
    assert bare in make_file_page(make_described())
    html = make_file_page(make_described(), exact=0.4)
    assert bare not in html
    [tile, *_] = re.findall('<li class="warn-fact"><b>(.*?)</b>', html)
    assert tile == "40 %"
    assert html.index('warn-fact"><b>') < html.index("<b>5 or more<")
    broken = make_described(clauses=(make_clause("size", 9), make_clause("covers")))
    assert "people hidden by a row" not in make_file_page(broken)
    side = compare.Side(record=make_described(), shown=disclosure.Shown(k=K, exact=0.4))
    assert "5 or more, except exact rows" in compare.make_page(side, side, ZoneInfo("UTC"))


def test_a_run_that_was_not_attacked_is_not_said_to_have_been() -> None:
    html = make_file_page(make_described(clauses=()))
    for said in ("0 of 0", "Found:</b> nothing", "people hidden by a row"):
        assert said not in html
    assert "Not attacked" in html


def test_a_clause_broken_by_fewer_than_k_does_not_say_by_how_many() -> None:
    clauses = (
        make_clause("size", 1),
        make_clause("covers", 2, "2 of 2,623 records"),
        make_clause("region", 17),
        make_clause("crowd"),
    )
    html = make_file_page(make_described(clauses=clauses))
    assert html.count("fewer than 5</td>") == 2
    assert "1 row<" not in html
    assert "2,623" not in html
    assert "17 rows" in html
    assert "0 rows" in html


def test_the_last_bar_is_as_wide_wherever_the_greatest_group_is_and_no_other_bar_is_cut() -> None:
    usual = make_bins([100] * 10)
    far = [disclosure.Bin(disclosure.BIN_FACTOR**n, disclosure.BIN_FACTOR ** (n + 1), 5, 5) for n in (11, 60)]
    assert (
        len({tuple(end for _, end, _ in disclosure.make_bars(disclosure.join_bins([*usual, one], K))) for one in far})
        == 1
    )
    wide = [
        disclosure.Bin(1, disclosure.BIN_FACTOR**5, 10, 10),
        disclosure.Bin(disclosure.BIN_FACTOR**5, math.inf, 10, 10),
    ]
    assert [bar[:2] for bar in disclosure.make_bars(wide)] == [
        (1, disclosure.BIN_FACTOR**5),
        (disclosure.BIN_FACTOR**5, disclosure.BIN_FACTOR**7),
    ]


def test_the_page_for_analysts_counts_only_clauses_asked_of_every_algorithm() -> None:
    family = import_attacker(METHODS["kte"].attack).attack
    assert len(family.of_all) < len(family.clauses)
    assert not any(clause.algorithms for clause in family.of_all)
    assert {"decidable", "members", "crowd"} <= {clause.name for clause in family.of_all}
