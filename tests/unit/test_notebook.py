"""Views in notebooks: what they say, and that they escape."""

from xml.etree import ElementTree

import numpy as np
import pytest

from dbanon.attacks import Clause, Verdict
from dbanon.base.cloaks import summarise_sides
from dbanon.pages import notebook
from dbanon.releases import Card
from dbanon.runs.stored import RunResult

NASTY = '<script>alert("1")</script> ]]> & \u202e'


def make_result(*, passed: bool = True, algorithm: str = "traj-anon") -> RunResult:
    clauses = tuple(
        Clause(name=name, passed=ok, violations=0 if ok else 3, sentence="s")
        for name, ok in (("size", True), ("covers", passed))
    )
    return RunResult(
        run_id=7,
        method="tp-aware",
        algorithm=algorithm,
        status="verified" if passed else "refused",
        metrics={"published_share": 0.72},
        verdict=Verdict(attack="tp-aware", passed=passed, figures={"seen": 300}, clauses=clauses),
        suppressed={"subjects": {"absent_at_some_instant": 60}},
        k=5,
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
