"""What people are shown, without a database."""

from dataclasses import replace

import pytest

from dbanon.base.console import make_visible
from dbanon.base.errors import format_count
from dbanon.cli.report import LINE_WIDTH, format_method, format_methods, format_table
from dbanon.methods import METHODS, Method, describe


def test_a_table_has_a_line_for_each_row_whatever_the_names_hold() -> None:
    assert format_table(["a\nb"], [["c\r\nd\x1b[2J"], ["\u202e\x9b\udcff"]]).splitlines() == [
        r"a\nb",
        "-" * 16,
        r"c\r\nd\x1b[2J",
        r"\u202e\x9b\udcff",
    ]


def test_what_has_a_picture_is_shown_as_it_is() -> None:
    text = "été 東京 🚕 \\x1b"
    assert make_visible(text) == text
    assert make_visible(f"{text}\n\t", keeps_line_ends=True) == f"{text}\n\\t"


def test_a_count_is_written_with_its_noun() -> None:
    assert [format_count(n, "row") for n in (0, 1, 1200)] == ["0 rows", "1 row", "1,200 rows"]
    assert [format_count(n, "person is", "people are") for n in (1, 2)] == ["1 person is", "2 people are"]


def test_the_methods_fit_a_terminal_and_a_screen() -> None:
    lines = format_methods((family, describe(family)) for family in METHODS.values()).splitlines()
    assert max(map(len, lines)) <= LINE_WIDTH
    assert len(lines) < 24
    assert [line.split()[0] for line in lines if line.split()[:1] and line.split()[0] in METHODS] == list(METHODS)


@pytest.mark.parametrize("family", METHODS.values(), ids=list(METHODS))
def test_one_method_shows_all_of_itself_in_the_width_of_a_terminal(family: Method) -> None:
    text = format_method(family, describe(family))
    lines = text.splitlines()
    assert max(map(len, lines)) <= LINE_WIDTH
    shown = {line.split()[0] for line in lines if line.strip()}
    assert {a.name for a in family.algorithms} | {p["name"] for p in describe(family)} <= shown
    assert "Paper: " in text
    assert "Paper:" not in format_method(replace(family, paper=""), describe(family))
