"""Charts, maps and the heads of pages: what is drawn, what is escaped, and colours that can be told apart."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from dbanon.pages import charts, layout, maps, svg

HOSTILE = '</style><script>alert("x")</script>]]>&\'"\u202e\u2066' + "x" * 200
SCHEMES = ("light", "dark", "print")


def read_palette(scheme: str) -> dict[str, str]:
    """Read the variables of a scheme of `svg.STYLE`; dark and print change those of light."""
    own = {"light": "", "dark": "@media (prefers-color-scheme:dark){", "print": "@media print{"}[scheme]
    blocks = [r":root\{([^}]*)\}", re.escape(own) + r":root\{([^}]*)\}"]
    found: dict[str, str] = {}
    for block in blocks if own else blocks[:1]:
        match = re.search(block, svg.STYLE)
        assert match is not None
        found |= dict(re.findall(r"--([a-z0-9-]+):(#[0-9a-f]{3,6})", match[1]))
    return found


def compute_luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def compute_contrast(one: str, other: str) -> float:
    dark, light = sorted((compute_luminance(one), compute_luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_texts_and_marks_stand_out_from_paper_and_classes_from_one_another(scheme: str) -> None:
    colour = read_palette(scheme)
    for name in ("ink", "soft", "good", "warn"):
        for ground in ("paper", "wash"):
            assert compute_contrast(colour[name], colour[ground]) >= 5.3, (name, ground)
    for name in ("published", "private", "gone"):
        assert compute_contrast(colour[name], colour["paper"]) >= 3.6, name
    for name in ("published", "private"):  # texts of these colours
        assert compute_contrast(colour[name], colour["paper"]) >= 5.3, name
    assert compute_contrast(colour["ink"], colour["class-0"]) >= 5.8
    classes = [colour[f"class-{level}"] for level in range(5)]
    steps = [compute_contrast(one, other) for one, other in pairwise(classes)]
    assert all(1.3 <= step <= 2.1 for step in steps), steps
    assert [compute_luminance(c) for c in classes] == sorted(map(compute_luminance, classes), reverse=scheme != "dark")


def draw_charts(text: str = "x") -> list[Markup]:
    window = maps.Window(x0=0, y0=0, x1=3600, y1=3600)
    axis = charts.make_axis(100, unit=" %", name=text)
    return [
        charts.draw_bars("a", text, text, [charts.Bar(label=text, value=3, text=text)]),
        charts.draw_histogram("b", text, text, [(100, 200, 0.3), (200, 400, 0.7)], mark=(150, text)),
        charts.draw_ranges("c", text, text, [charts.Range(label=text, low=1, high=9, dot=4, true=5, text=text)], axis),
        charts.draw_lines("d", text, text, [charts.Line(name=text, points=[(1, 20, 10, 30)])], x=axis, y=axis),
        maps.draw_map(
            "e", text, text, window, maps.draw_dots([(5, 5)], marked=True), maps.draw_regions([text]), private=True
        ),
        maps.draw_map("f", text, text, window, maps.draw_cells({0: text})),
    ]


@given(st.one_of(st.just(HOSTILE), st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=40)))
def test_whatever_text_comes_is_text_in_a_figure(text: str) -> None:
    for place, figure in enumerate(draw_charts(text)):
        root = ET.fromstring(re.sub("[\ufffe\uffff]", "?", figure))  # no XML has these two
        assert {one.tag.split("}")[1] for one in root.iter()} <= {
            *("svg", "title", "desc", "text", "rect", "path", "circle", "g"),
        }
        assert (root[0].tag.endswith("title"), root[1].tag.endswith("desc")) == (True, True)
        assert root.attrib["aria-labelledby"] == f"{'abcdef'[place]}-title {'abcdef'[place]}-desc"


def test_charts_of_the_truth_are_marked_and_drawn_in_its_colour() -> None:
    axis = charts.make_axis(100, name="x")
    line = charts.Line(name="x", points=[(1, 20, 10, 30)], kind="private")
    for chart in (
        charts.draw_ranges("c", "x", "x", [charts.Range(label="x", low=1, high=9, true=5)], axis, private=True),
        charts.draw_lines("d", "x", "x", [line], x=axis, y=axis, private=True),
    ):
        assert ">PRIVATE</text>" in chart
    assert 'class="line-private"' in chart
    assert "PRIVATE" not in charts.draw_lines("d", "x", "x", [line], x=axis, y=axis)


class _Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_hostile_name_is_text_everywhere_on_a_page() -> None:
    around = layout.Heading(title=HOSTILE, band=HOSTILE, head=HOSTILE, foot=HOSTILE, private=True)
    blocks = [
        layout.make_section(
            HOSTILE, layout.make_table([HOSTILE, "b"], [[HOSTILE, HOSTILE]], caption=HOSTILE), note=HOSTILE
        ),
        layout.make_columns(
            layout.make_card(HOSTILE, HOSTILE), layout.make_block(HOSTILE, layout.make_code_block(HOSTILE))
        ),
        layout.make_fact_list([(HOSTILE, HOSTILE, True)]),
        *(layout.make_picture(figure, HOSTILE) for figure in draw_charts(HOSTILE)),
    ]
    html = layout.make_document(around, layout.make_header(HOSTILE, HOSTILE, HOSTILE), *blocks)
    seen = _Seen()
    seen.feed(html)
    assert "script" not in seen.tags
    assert seen.tags.count("style") == 1
    assert HOSTILE in seen.text
    assert html.count("\u202e") == html.count("\u2066")


def read_style_string(css: str) -> str:
    """Read a string of a style sheet as a browser does: one space after an escape belongs to the escape."""
    return re.sub(r"\\([0-9a-f]{1,6})\s?", lambda found: chr(int(found[1], 16)), css)


@pytest.mark.parametrize("title", ["été (2) / a & b", 'a" b', "(a) b1", "x\\ c", "published.x: what"])
def test_the_margin_of_a_printed_page_says_the_title_as_it_is(title: str) -> None:
    around = layout.Heading(title=title, band="b", head=title, foot="f")
    html = layout.make_document(around, layout.make_header("x", "y", "z"))
    margins = re.findall(r'content:"([^"]*)"', html)
    assert [read_style_string(css) for css in margins[:2]] == [title, title]


def test_direction_marks_of_a_name_turn_nothing_around_it() -> None:
    marks = "\u202e\u2066\u2069\u200f"
    name = f"a{marks}b"
    around = layout.Heading(title=name, band=layout.isolate(name), head=name, foot=name)
    html = layout.make_document(
        around,
        layout.make_header(name, layout.isolate(name), layout.make_code_name(name)),
        layout.make_code_block(name),
    )
    assert not set(marks) & set(html)
    assert "a\\u202e\\u2066\\u2069\\u200fb" in html
    assert layout.isolate("שלום 5") == "<bdi>שלום 5</bdi>"


def test_a_page_forbids_what_it_does_not_need_and_says_when_it_is_private() -> None:
    for private in (False, True):
        around = layout.Heading(
            title="x", band="For operators.", head="of cabs", foot="made by dbanon", private=private
        )
        html = layout.make_document(around, layout.make_header("x", "y", "z"))
        assert f'http-equiv="Content-Security-Policy" content="{layout.POLICY}"' in html.replace("&#39;", "'")
        assert ("<title>[PRIVATE] x</title>" in html) == private
        assert ("PRIVATE" in html) == private
        assert "http://" not in html
        assert "https://" not in html


def test_a_single_person_far_off_does_not_stretch_a_map() -> None:
    town = [(x * 500.0, y * 500.0, 10.0) for x in range(10) for y in range(8)]
    window = maps.find_least_window([*town, (90_000.0, 2_000.0, 1.0)], 500)
    assert window == maps.Window(x0=0, y0=0, x1=5000, y1=4000)
    assert maps.find_least_window([], 500) is None
    assert maps.find_least_window([(0.0, 0.0, 0.0)], 500) is None
    alone = maps.find_least_window([(0.0, 0.0, 3.0)], 500)
    assert alone is not None
    assert alone.x1 - alone.x0 == 500


def test_axes_end_at_round_numbers_and_hold_all_values() -> None:
    assert [said for _, said in charts.make_axis(97, unit=" %").ticks] == ["0", "25 %", "50 %", "75 %", "100 %"]
    assert charts.make_axis(0).high > 0
    for high in (0.3, 7, 99, 1234, 5e6):
        assert charts.make_axis(high).high >= high
    log = charts.make_length_axis(200, 20_000)
    assert log.find_share(200) == 0
    assert log.find_share(2000) == pytest.approx(0.5)
    assert log.find_share(1e9) == 1
    assert [charts.format_metres(m) for m in (250, 1800, 12_000)] == ["250 m", "1.8 km", "12 km"]
