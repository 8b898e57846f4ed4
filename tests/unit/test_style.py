"""The classes of a style: exact rows apart, all others in ranges without gaps, of about as many rows each."""

from xml.etree import ElementTree

import hypothesis.strategies as st
from hypothesis import given

from dbanon.releases.style import Range, cut_ranges, write_qml


def test_a_few_crowds_are_a_class_each_and_exact_rows_one_of_their_own() -> None:
    assert cut_ranges([(1, 500), (4, 10), (9, 3)]) == [Range(1, 1), Range(4, 4), Range(9, 9)]
    assert [one.label for one in cut_ranges([(1, 2), (5, 1)])] == ["exact: crowd 1, hides no one", "crowd 5"]


def test_many_crowds_are_divided_by_their_rows() -> None:
    found = cut_ranges([(crowd, 10) for crowd in range(5, 25)])
    assert found == [Range(5, 8), Range(9, 12), Range(13, 16), Range(17, 20), Range(21, 24)]
    assert found[0].label == "crowd 5 to 8"


@given(st.dictionaries(st.integers(1, 500), st.integers(1, 10**6), min_size=1))
def test_each_crowd_is_in_one_class_and_each_class_has_a_symbol(rows: dict[int, int]) -> None:
    crowds = sorted(rows.items())
    found = cut_ranges(crowds)
    assert [sum(one.low <= crowd <= one.high for one in found) for crowd in rows] == [1] * len(rows)
    hiding = [one for one in found if one.low > 1]
    assert len(hiding) == min(5, len([crowd for crowd in rows if crowd > 1]))
    style = ElementTree.fromstring(write_qml(crowds).partition("\n")[2])
    named = [one.get("symbol") for one in style.iter("range")]
    assert named == [one.get("name") for one in style.findall("renderer-v2/symbols/symbol")]
    colours = [one.get("value") for one in style.iter("Option") if one.get("name") == "color"]
    assert len(set(colours)) == len(found)
