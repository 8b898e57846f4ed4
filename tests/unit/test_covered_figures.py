"""Every figure of the README and of the families' pages is compared with what makes it.

A page is taken apart into blocks of code, rows of tables, and sentences. One of these holds for each that has a figure:

- a test types the command of its block and compares all that is printed (`TYPED`);
- a test reads the row or sentence and computes it (`COMPUTED`);
- a benchmark makes it (`MEASURED`): all figures of a row stand in one line of its stored results, and those of a
  sentence within three paragraphs. `tests/acceptance/test_benchmarked_figures.py` runs benchmarks again;
- it is a constant of the code (`CONSTANTS`).

A figure is a number that does not say what was asked, and numbers nothing (`_ASKED`).
"""

import importlib
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.pages import ROOT, split, split_typed

FAMILIES = ("kte", "mob", "semantic", "sensitive-sites", "tp-aware")
PAGES = ("README.md", *(f"docs/methods/{family}{kind}.md" for family in FAMILIES for kind in ("", "-inside")))
TYPED = {
    "README.md": "acceptance/test_readme.py::test_the_readme_shows_what_its_commands_print",
    **{f"docs/methods/{one}.md": "acceptance/test_method_pages.py::test_the_commands_of_a_page" for one in FAMILIES},
}
"""The test that types the blocks of a page and compares all figures."""
COMPUTED = {
    "README.md": {
        r"^!\[": "acceptance/test_readme.py::test_the_text_of_the_picture_of_the_readme",
        r"^(Of the people published|With those left)": "acceptance/test_readme.py::test_the_readme_shows_what",
        r"^counts in squares": "acceptance/test_readme.py::test_who_may_use_it_is_what_it_costs",
        r"^A \[day of|^\| (half|counts)": "acceptance/test_taxis.py::test_the_figures_of_taxis_are_those_that",
        r"^\| run and attack": "acceptance/test_taxis.py::test_the_seconds_of_the_readme_are_those_of_the_results",
        r"\(6 minutes\)": "unit/test_docs.py::test_the_readme_says_how_long_the_limits_take",
    },
    "docs/methods/kte.md": {
        r"\babove 0\.50|^\| (three|four) people on": "unit/test_kte_posterior.py::test_the_page_tells_what_a_replay",
    },
    "docs/methods/mob.md": {
        r"\babove 0\.50|^\| (three|two) at the first": "unit/test_mob_posterior.py::test_the_page_tells_what_a_replay",
    },
}
"""The test that computes a row or a sentence, by how that reads."""
MEASURED = {
    "docs/methods/kte.md": ("results/kte_hide.md", "results/kte_cabs.md", "results/k_merge.md", "results/windows.md"),
    "docs/methods/mob.md": ("results/mob.md", "results/guests.md"),
    "docs/methods/semantic.md": ("results/semantic.md",),
    "docs/methods/sensitive-sites.md": ("results/sensitive_sites.md", "results/guests.md"),
    "docs/methods/tp-aware.md": (
        *("results/tp_aware.md", "results/senders.md", "results/guests.md", "results/windows.md", "RESULTS.md"),
    ),
}
"""Files of benchmarks/ that have the figures of a page."""
CONSTANTS = {
    ("docs/methods/kte-inside.md", "1,500"): "kte._pairs.MAX_TABULATED_SUBJECTS",
    ("docs/methods/kte-inside.md", "4,096"): "kte._blocks.MAX_BLOCK_SUBJECTS",
    ("docs/methods/kte-inside.md", "1,000"): "kte._hide._clusters.MAX_ALL_PAIRS_SUBJECTS",
    ("docs/methods/kte-inside.md", "300"): "kte._hide._draw.MAX_PART_PEOPLE",
    ("docs/methods/mob-inside.md", "4,096"): "mob._improve._OBJECTS_PER_BLOCK",
    ("docs/methods/sensitive-sites-inside.md", "1,000"): "sensitive_sites._improve.CANDIDATES_PER_SITE",
    ("docs/methods/sensitive-sites-inside.md", "0.5"): "sensitive_sites._improve.MIN_GAIN_SHARE",
    ("docs/methods/semantic-inside.md", "1.2"): "sql/70_methods/semantic.sql: 0.0012",
    ("docs/methods/semantic.md", "50"): "dbanon/attacks/semantic/_atoms.py: _MAX_LISTED_ATOMS = 50",
    ("docs/methods/tp-aware.md", "100,000"): "tp_aware._bundles.MAX_WINDOWS",
    ("docs/methods/tp-aware.md", "10,000"): "dbanon/methods/tp_aware/__init__.py: maximum=10_000",
    ("docs/methods/tp-aware.md", "30"): "sql/60_releases/16_nights.sql: new_release, name, 30)",
}
"""A name of `dbanon.methods`, or a file and what stands in it."""
NUMBER = re.compile(r"(?<![\w.^,])(\d+(?:,\d{3})*(?:\.\d+)?)(?![\w^])(?: ?(%|km|GB|minutes?|million))?")
_UNITS = {"km": 0.001, "GB": 0.001, "minute": 1 / 60, "minutes": 1 / 60, "%": 100, "million": 1e-6}
"""What a page may multiply a result by: metres, megabytes, seconds and shares."""
_ASKED = re.compile(
    r"`[^`]*`(?: [=+] [\d.]+)?|\]\([^)]*\)"  # code, what it is set to, and links
    r"|\b(?:Algorithms?|Figures?|Lemma|Definition|Lines?|lines?) \d+(?:(?:-| and |, )\d+)*"
    r"|\b\d+:\d\d\b|\bk = \d+|\b\d?k [-+] \d|^\d+\. |\bVersion [\d.]+|Python [\d.]+|PostgreSQL \d+ to \d+|PostGIS \d"
)
COPIES = {
    "noise of 0.1, 0.3, 3 m": ("noise of 0.1 m", "noise of 0.3 m", "noise of 3 m"),
    "5 decimals, 10 m": ("degrees with 5 decimals", "rounded to 10 m"),
    "0.6 m, 1 s off": ("0.6 m to the east", "1 s later"),
    "every second, three of four": ("every second fix, from the first", "every fourth fix missing"),
    "15, 30 % lost": ("15 % lost at random", "30 % lost at random"),
    "1 h later": ("1 h later",),
}
"""The rows of the table of near copies in security.md, and the rows of results/copies.md that each puts together."""
_DEFINING = ("Example", "Promise", "Privacy claim", "Adversary", "Alignment", "References")
_COMPARED = ("Published rows", "Parameters")
"""Sections by the numbers of an example, and those that `test_figures` and `test_docs` compare."""


Figure = tuple[str, str]
"""A number, and its unit if that is one of `_UNITS`."""


def list_claims(page: str) -> Iterator[tuple[str, str, list[Figure]]]:
    """List the rows and sentences of a page that have figures: the section, the text, and the figures."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    for part in re.split(r"^## ", text, flags=re.MULTILINE):
        section, _, body = part.partition("\n")
        rows = re.findall(r"^\|.*$", body, re.MULTILINE)
        blocks = re.split(r"\n\s*\n|\n(?=- )", re.sub(r"^[|#].*$", "", body, flags=re.MULTILINE))
        sentences = [s for block in blocks for s in re.split(r"(?<=[.:;]) (?=[A-Z`*\[])", " ".join(block.split()))]
        for claim in [*rows, *(re.sub(r"^- (\*\*[^*]*\*\* )?", "", one) for one in sentences)]:
            figures = NUMBER.findall(_ASKED.sub(" ", claim))
            if figures and section not in (*_DEFINING, *_COMPARED):
                yield section, claim, figures


def has_all(text: str, figures: list[Figure]) -> bool:
    """Whether a text has each of these figures, perhaps not rounded or in another unit, each by a number of its own."""
    exact = [float(number.replace(",", "")) for number, _ in NUMBER.findall(text)]
    for number, unit in figures:
        shown, half = float(number.replace(",", "")), 0.5 * 10.0 ** -len(number.partition(".")[2]) + 1e-9
        units = (1.0, _UNITS.get(unit, 1.0))
        near = [one for one in exact if any(abs(shown - one * factor) <= half for factor in units)]
        if not near:
            return False
        exact.remove(min(near, key=lambda one: abs(one - shown)))
    return True


@cache
def read_results(name: str) -> tuple[list[str], list[str]]:
    """Read stored results: as lines, and as paragraphs with their neighbours."""
    text = (ROOT / "benchmarks" / name).read_text()
    blocks = ["", *text.split("\n\n"), ""]
    return text.splitlines(), ["\n".join(three) for three in zip(blocks, blocks[1:], blocks[2:], strict=False)]


def is_measured(page: str, claim: str, figures: list[Figure]) -> bool:
    """Whether the figures of a row stand in a line of stored results, or those of a sentence in three paragraphs."""
    results = (read_results(name)[not claim.startswith("|")] for name in MEASURED.get(page, ()))
    return any(has_all(piece, figures) for pieces in results for piece in pieces)


@pytest.mark.parametrize("page", PAGES)
def test_every_figure_of_a_page_is_compared_with_what_makes_it(page: str) -> None:
    commands = "\n".join(block for kind, block in split((ROOT / page).read_text()) if kind == "console")
    open_ = []
    for section, claim, figures in list_claims(page):
        left = [figure for figure in figures if (page, figure[0]) not in CONSTANTS]
        if section == "Run":
            left = [figure for figure in left if not has_all(commands, [figure])]
        computed = any(re.search(how, claim) for how in COMPUTED.get(page, {}))
        if left and not computed and not is_measured(page, claim, left):
            open_.append((claim, left))
    assert open_ == []


def test_a_measured_figure_that_is_changed_is_mostly_noticed() -> None:
    noticed = []
    for page in MEASURED:
        for section, claim, figures in list_claims(page):
            if section == "Run" or not is_measured(page, claim, figures):
                continue
            for at, (number, unit) in enumerate(figures):
                whole, decimals = float(number.replace(",", "")), len(number.partition(".")[2])
                other = f"{1.13 * whole + (not decimals):.{decimals}f}"
                noticed.append(not is_measured(page, claim, [*figures[:at], (other, unit), *figures[at + 1 :]]))
    assert len(noticed) > 150
    assert sum(noticed) > 0.8 * len(noticed)


@pytest.mark.parametrize("page", PAGES)
def test_a_block_of_output_is_below_its_command_and_typed_by_a_test(page: str) -> None:
    blocks = [(kind, block) for kind, block in split((ROOT / page).read_text()) if re.search(r"\d", block)]
    assert {kind for kind, _ in blocks} <= {"console", "python", "sh", "sh worker", "sql", "sql table"}
    shown = [(command, lines) for kind, block in blocks if kind == "console" for command, lines in split_typed(block)]
    assert all(command for command, _ in shown)
    assert not shown or page in TYPED


@pytest.mark.parametrize("test", sorted({*TYPED.values(), *(one for of in COMPUTED.values() for one in of.values())}))
def test_the_test_that_compares_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert len(re.findall(rf"^def {name}\w*\(", (ROOT / "tests" / file).read_text(), re.MULTILINE)) == 1


@pytest.mark.parametrize(("page", "figure"), CONSTANTS)
def test_a_constant_is_that_of_the_code(page: str, figure: str) -> None:
    place, said = CONSTANTS[page, figure], float(figure.replace(",", ""))
    file, _, text = place.partition(": ")
    if text:
        assert text in (ROOT / file).read_text()
        found = {float(number.replace("_", "")) for number in re.findall(r"\b\d[\d_.]*", text)}
    else:
        module, _, name = f"dbanon.methods.{place}".rpartition(".")
        found = {getattr(importlib.import_module(module), name)}
    assert said in {factor * one for one in found for factor in (1, 100, 1000)}  # percent, and millimetres


def join_same(cells: list[str]) -> str:
    """Name one value for several cells that have it, or each."""
    return ", ".join(cells if len(set(cells)) > 1 else cells[:1])


def test_the_tables_of_near_copies_are_those_of_the_results() -> None:
    lines = read_results("results/copies.md")[0]
    measured = {label: cells for label, *cells in (line.strip("| ").split(" | ") for line in lines if "|" in line)}
    rows = []
    for label, cases in COPIES.items():
        shares, loads, runs, *_ = zip(*(measured[case] for case in cases), strict=True)
        loads_seen, runs_seen = ([cell.removesuffix(" of 5") for cell in cells] for cells in (loads, runs))
        each = " each" if len(cases) > 1 and len(set(runs_seen)) == 1 else ""
        share = ", ".join(cell.removesuffix("%") for cell in shares)
        rows.append(f"| {label} | {share} % | {join_same(loads_seen)}; {join_same(runs_seen)}{each} |")
    page = (ROOT / "docs/administrators/security.md").read_text()
    section = page.partition("## Names and copies")[2].partition("\n## ")[0]
    by_size, by_case = re.findall(r"^\|[-|]+\n((?:\|.*\n)+)", section, re.MULTILINE)
    assert by_case.splitlines() == rows
    assert len(by_size.splitlines()) == 3
    assert set(by_size.splitlines()) <= set(lines)


@pytest.mark.parametrize(
    ("page", "heading", "results", "rows", "column"),
    [
        ("administrators/scale.md", "Seconds, memory and disk", ("results/plans.md", "RESULTS.md"), 9, 2),
        ("understand/choose.md", "Choose `window_s`", ("results/tutorial.md",), 4, 3),
        ("understand/comparison.md", "One attack", ("results/peers.md",), 7, 1),
    ],
)
def test_a_table_of_costs_and_parameters_has_measured_figures(
    page: str, heading: str, results: tuple[str, ...], rows: int, column: int
) -> None:
    """From this column on, all figures of a row stand together in stored results."""
    section = (ROOT / "docs" / page).read_text().partition(f"\n## {heading}")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| .+", section, re.MULTILINE)[1:]
    assert len(lines) == rows
    pieces = [piece for name in results for kind in read_results(name) for piece in kind]
    for line in lines:
        figures = NUMBER.findall(" ".join(line.split(" | ")[column:]))
        assert figures
        assert any(has_all(piece, figures) for piece in pieces), line
