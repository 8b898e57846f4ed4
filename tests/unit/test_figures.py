"""The figures of the families' pages are what their script draws, and can be read by all."""

import re
from xml.etree import ElementTree

import pytest

from dbanon import methods
from docs import figures
from tests.db.oracle import Rule
from tests.db.ten_people import make_bundles
from tests.pages import ROOT
from tests.unit.test_docs import read_section

FOLDER = ROOT / "docs" / "methods"


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    return {family: draw() for family, draw in figures.FAMILIES.items()}


@pytest.mark.parametrize("family", methods.METHODS)
def test_a_familys_figure_is_what_the_script_draws_of_its_own_code(drawn: dict[str, str], family: str) -> None:
    assert drawn[family] == (FOLDER / f"{family}.svg").read_text(), "write it again: python docs/figures.py"
    page = (FOLDER / f"{family}.md").read_text()
    assert f"]({family}.svg)" in page.partition("## Example")[0]


@pytest.mark.parametrize("family", methods.METHODS)
def test_the_rows_of_a_familys_page_are_those_of_its_figure(family: str) -> None:
    assert f"\n\n{figures.format_table(family)}\n" in read_section(FOLDER / f"{family}.md", "Published rows")


@pytest.mark.parametrize("family", methods.METHODS)
def test_a_familys_figure_has_the_three_signs_and_says_in_words_what_it_shows(
    drawn: dict[str, str], family: str
) -> None:
    figure = ElementTree.fromstring(drawn[family])
    texts = ["".join(one.itertext()) for one in figure.iter() if one.tag.endswith("text")]
    assert texts[-3:] == ["true, and private", "published", "known to the adversary"]
    marks = {one.get("class") for one in figure.iter()}
    assert marks & {"private"}
    assert marks & {"told", "told-area"}
    assert marks & {"known"}
    [title, description] = [one.text for one in figure[:2]]
    assert title
    assert len(description or "") > 100
    sizes = re.findall(r"font:(\d+)px", drawn[family])
    assert min(map(int, sizes)) >= 11
    assert "prefers-color-scheme:dark" in drawn[family]


@pytest.mark.parametrize("family", methods.METHODS)
def test_nothing_of_a_familys_figure_lies_outside_it(drawn: dict[str, str], family: str) -> None:
    figure = ElementTree.fromstring(drawn[family])
    low, _, wide, high = map(float, figure.get("viewBox", "").split())
    for one in figure.iter():
        if one.tag.endswith("text"):
            x, letters = float(one.get("x", 0)), 5.3 * len("".join(one.itertext()))
            left = {"middle": x - letters / 2, "end": x - letters}.get(one.get("text-anchor", ""), x)
            assert left >= low
            assert left + letters <= low + wide
            assert float(one.get("y", 0)) < high


def test_the_figure_of_two_releases_is_drawn_by_the_script_and_shows_what_the_rule_refuses() -> None:
    written = ROOT / "docs" / "understand" / "releases-together.svg"
    assert figures.draw_two_releases() == written.read_text(), "write it again: python docs/figures.py"
    assert f"]({written.name})" in written.with_suffix(".md").read_text().partition("\n## ")[0]
    first, second = (make_bundles(5, *groups) for groups in figures.TWICE)
    assert Rule().judge(second, [first])[:2] == (True, 1)
    # In the figure as in the groups, one person is in both rectangles, and each rectangle has five.
    boxes = [[figures.STANDING[one] for one in groups[0]] for groups in figures.TWICE]
    inside = [
        {
            person
            for person, (x, y) in enumerate(figures.STANDING)
            if min(xs) <= x <= max(xs) and min(ys) <= y <= max(ys)
        }
        for xs, ys in (zip(*box, strict=True) for box in boxes)
    ]
    assert inside == [set(groups[0]) for groups in figures.TWICE]
