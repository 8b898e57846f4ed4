"""Views in notebooks and lines in a terminal: what they say, and that they escape."""

import io
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from dbanon.attacks import Clause, Verdict
from dbanon.base import console
from dbanon.base.cloaks import summarise_sides
from dbanon.base.figures import Figure
from dbanon.cli import report
from dbanon.pages import notebook
from dbanon.releases import Card
from dbanon.runs.stored import RunResult

NASTY = '<script>alert("1")</script> ]]> & \u202e'
SIDES = np.geomspace(10, 10_000, 1001)


def make_result(
    *, passed: bool = True, side_m: np.ndarray = SIDES, algorithm: str = "traj-anon", k: int | None = 5
) -> RunResult:
    clauses = tuple(
        Clause(name=name, passed=ok, violations=0 if ok else 3, sentence="s")
        for name, ok in (("size", True), ("covers", passed))
    )
    hours = [
        {"hour": f"2008-06-04T{hour:02}:00Z", "seen": 100, "published": 100 - out, "left_out": {"window_below_k": out}}
        for hour, out in ((8, 10), (9, 40), (10, 20))
    ]
    return RunResult(
        run_id=7,
        method="tp-aware",
        algorithm=algorithm,
        status="verified" if passed else "refused",
        metrics={"published_share": 0.72, **summarise_sides(side_m, side_m / 2)},
        verdict=Verdict(attack="tp-aware", passed=passed, figures={"seen": 300, "requests": 50}, clauses=clauses),
        suppressed={"subjects": {"absent_at_some_instant": 60, "window_below_k": 0}, "requests": {}, "by_hour": hours},
        k=k,
    )


CARD = Card(
    release="cabs_k5", live=True, k=5, rows=78405, method="tp-aware", algorithm="traj-anon", promise=f"Five. {NASTY}",
    period={"since": "2008-06-04T07:05:00+00:00", "until": None},
    attack={"clauses": [{"name": "size", "passed": True, "violations": 0}]},
    left_out={"in_all": {"subjects": {"few": 987654}}},
)  # fmt: skip
VIEWS = {
    "run": lambda: make_result(algorithm=NASTY)._repr_html_(),
    "refused": lambda: make_result(passed=False)._repr_html_(),
    "release": CARD._repr_html_,
}
every_view = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)


@every_view
def test_a_view_is_well_formed_and_shows_names_as_text(view) -> None:
    html = view()
    tree = ElementTree.fromstring(html)
    assert {one.tag for one in tree.iter()} <= {"div", "p", "b", "table", "tr", "th", "td"}
    assert len(html) < 3000


def test_a_view_says_what_holds_and_no_count_of_people() -> None:
    html = make_result()._repr_html_()
    assert "verified, 2 of 2 clauses hold" in html
    assert "72 %" in html
    assert "absent" not in html
    assert "refused, 1 of 2 clauses hold" in make_result(passed=False)._repr_html_()
    assert "not attacked" in notebook.make_view("Run 7", [], {})
    card = CARD._repr_html_()
    assert "published.cabs_k5" in card
    assert "987654" not in card.replace(",", "")


def test_neither_the_least_nor_the_greatest_region_is_a_figure() -> None:
    told = summarise_sides(np.array([1.0, *[50.0] * 100, 90_000.0]), np.full(102, 1.0))
    assert set(told.values()) == {50.0}


def test_a_terminal_shows_a_run_in_two_lines() -> None:
    second, third = report.draw_run(make_result()).splitlines()
    assert second == "left out     20 % of 300 subjects: absent_at_some_instant 60"
    assert third == "left out by hour  ▃█▅ 10 to 40 %"
    assert report.draw_sparkline([0, 0]) == "▁▁"
    assert (
        report.draw_run(make_result(), [Figure(name="usable_resolution_m", value=1916.0, low=1810.0, high=2000.0)])
        .splitlines()[2]
        .startswith("usable    1.92 km [1.81 km to 2 km]: in squares")
    )


class Terminal(io.StringIO):
    def __init__(self, encoding: str, *, tty: bool) -> None:
        super().__init__()
        self.named, self.tty = encoding, tty

    def isatty(self) -> bool:
        return self.tty

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.named


@pytest.mark.parametrize(
    ("encoding", "tty", "drawn"), [("utf-8", True, True), ("ascii", True, False), ("UTF-8", False, False)]
)
def test_pictures_are_drawn_only_on_a_terminal_that_shows_them(
    monkeypatch: pytest.MonkeyPatch, encoding: str, tty: bool, drawn: bool
) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal(encoding, tty=tty))
    assert console.can_draw() == drawn
    assert ("█" in report.format_run(make_result())) == drawn
