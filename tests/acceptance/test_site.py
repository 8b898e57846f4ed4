"""`./dev docs`: every page is on the site, with its pictures, and can be searched, heard, and read at every width."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.acceptance import browsers
from tests.acceptance.browsers import SCHEMES, WIDTHS
from tests.acceptance.conftest import CHROMIUM

ROOT = Path(__file__).parents[2]
MEASURE = r"""() => {
    const wide = [...document.querySelectorAll('article *')].filter(e => e.scrollWidth > e.clientWidth
        && getComputedStyle(e).overflowX !== 'visible');
    const broken = [], range = document.createRange();
    for (const cell of document.querySelectorAll('td, th')) {
        const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
        for (let text; text = texts.nextNode();) {
            for (const found of text.data.matchAll(/\d[\d.,]*(\s(%|[km]?m|m?s|[kMG]B|min|h)(?!\w))?/g)) {
                range.setStart(text, found.index);
                range.setEnd(text, found.index + found[0].length);
                if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1) broken.push(found[0]);
            }
        }
    }
    return {
        over: document.documentElement.scrollWidth - innerWidth,
        code: document.querySelectorAll('pre').length,
        cut: wide.filter(e => e.tagName === 'PRE').map(e => e.textContent.slice(0, 200)),
        stuck: wide.filter(e => e.tabIndex < 0 || getComputedStyle(e).overflowX !== 'auto').map(e => e.outerHTML),
        broken,
    };
}"""
"""What a page does at a width: by how much it is too wide, and its code that is cut; parts that scroll but not by the
keyboard; numbers in tables that stand in two lines."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning: 12 s of CPU."""
    folder = tmp_path_factory.mktemp("site")
    builder = [
        *(sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going"),
        *("-c", "docs", "-d", folder / "doctrees"),
    ]
    done = subprocess.run([*builder, ".", folder / "site"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "site"


@pytest.fixture
def chosen(site: Path, cases: Callable[[int], range]) -> list[Path]:
    """The quarter of all pages that the seed chooses, or all with --all."""
    pages = sorted(path for path in site.rglob("*.html") if not path.relative_to(site).parts[0].startswith("_"))
    return [pages[number] for number in cases(len(pages))]


@pytest.fixture
def page() -> Iterator[Page]:
    if not CHROMIUM.is_file():
        pytest.skip(f"needs {CHROMIUM}")
    with browsers.start() as started:
        yield started.new_page(viewport={"width": WIDTHS[0], "height": 900})


def test_every_page_is_on_the_site(site: Path) -> None:
    contents = (site / "docs" / "index.html").read_text()
    index = (site / "searchindex.js").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        path = page.relative_to(ROOT).with_suffix("")
        assert page.name == "index.md" or f'href="{path.relative_to("docs")}.html"' in contents
        assert f'"{path}"' in index
        built = (site / path).with_suffix(".html").read_text()
        pictures = re.findall(r"!\[[^]]*\]\((?:[^)]*/)?([\w-]+\.svg)\)", page.read_text())
        assert [picture for picture in pictures if f"_images/{picture}" not in built] == []
        outside = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', built)
        assert outside == []


def test_the_site_fits_every_width(site: Path, chosen: list[Path], page: Page) -> None:
    """Code of the widest lines fits a screen of 1,280 pixels; results of benchmarks have wider ones, which scroll."""
    code = 0
    for path in chosen:
        page.goto(path.as_uri())
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            found = page.evaluate(MEASURE)
            cut = found["cut"] if width == WIDTHS[-1] and path.parent.name != "results" else []
            assert (found["over"], cut, found["stuck"], found["broken"]) == (0, [], [], []), (path, width)
            code += found["code"]
    assert code


def test_axe_objects_to_no_page_of_the_site_in_light_and_dark(
    chosen: list[Path], page: Page, seed: int, pytestconfig: pytest.Config
) -> None:
    """Of the chosen pages a third, as a page takes 2 s of CPU: dark ones wide, since the contents stand beside them."""
    turn = 1 if pytestconfig.getoption("--all") else 3
    for path in chosen[seed % turn :: turn]:
        page.goto(path.as_uri())
        for scheme, width in zip(SCHEMES, (WIDTHS[0], WIDTHS[-1]), strict=True):
            page.set_viewport_size({"width": width, "height": 900})
            assert browsers.find_violations(page, scheme) == [], path
