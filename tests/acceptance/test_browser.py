"""Pages in a real browser: they load nothing, fit every width, can be read aloud and printed; where Chromium is."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from itertools import pairwise, product
from pathlib import Path
from zoneinfo import ZoneInfo

import pypdf
import pytest
from playwright.sync_api import Browser

from dbanon.database import open_database
from dbanon.evaluation import evaluating
from dbanon.options.reporting import Reporting
from dbanon.pages import release, sweep
from dbanon.pages.disclosure import Moment, Shown
from dbanon.pages.maps import Window
from dbanon.reports import reporting
from dbanon.results.described import Described
from dbanon.results.figures import Evaluation
from tests.acceptance import browsers
from tests.acceptance.browsers import SCHEMES, WIDTHS
from tests.sweeps import GRID, make_sweep

pytestmark = pytest.mark.db

HOSTILE = '</title><script>document.title = "taken"</script>]]>"\'&\u202e\u2066' + "x" * 200
MEASURE = """() => ({
    over: document.documentElement.scrollWidth - innerWidth,
    scripts: document.scripts.length,
    small: Math.min(...[...document.querySelectorAll('svg text')].filter(t => t.getClientRects().length)
        .map(t => parseFloat(getComputedStyle(t).fontSize) * Math.hypot(t.getScreenCTM().a, t.getScreenCTM().b)), 99),
    unnamed: [...document.querySelectorAll('svg')].filter(s => s.getAttribute('role') !== 'img'
        || !s.querySelector('title')?.textContent || !s.querySelector('desc')?.textContent).length,
    twice: [...document.querySelectorAll('[id]')].map(e => e.id).filter((id, i, all) => all.indexOf(id) !== i),
    headings: [...document.querySelectorAll('h1,h2,h3')].map(h => +h.tagName[1]),
})"""


@dataclass(frozen=True)
class Opened:
    """A page, and what a browser found in it."""

    name: str
    private: bool
    title: str
    measured: dict[tuple[int, str], dict[str, object]]
    requests: list[str]
    said: list[str]
    violations: list[str]
    pdf: pypdf.PdfReader | None
    html: str


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsers.start() as started:
        yield started


def open_page(browser: Browser, file: Path, *, schemes: Sequence[str] = SCHEMES, printed: bool = True) -> Opened:
    requests: list[str] = []
    said: list[str] = []
    measured = {}
    context = browser.new_context(offline=True, bypass_csp=False)
    page = context.new_page()
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(file.as_uri())
    title = page.title()
    for width, scheme in product(WIDTHS, schemes):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        measured[width, scheme] = page.evaluate(MEASURE)
    page.emulate_media(color_scheme="light")
    pdf = pypdf.PdfReader(BytesIO(page.pdf(prefer_css_page_size=True, print_background=True))) if printed else None
    context.close()
    context = browser.new_context(bypass_csp=True)  # axe is a script, which the page forbids
    page = context.new_page()
    page.goto(file.as_uri())
    violations = [found for scheme in schemes for found in browsers.find_violations(page, scheme)]
    context.close()
    private, html = "PRIVATE" in file.name, file.read_text()
    return Opened(file.stem, private, title, measured, requests, said, violations, pdf, html)


@pytest.fixture(scope="module")
def opened(browser: Browser, city: str, measured: Evaluation, tmp_path_factory: pytest.TempPathFactory) -> list[Opened]:
    folder = tmp_path_factory.mktemp("pages")
    with open_database(city) as database:
        database.report("city_k5", output=folder / "file.html")
        database.report("city_k5", audience="analysts", output=folder / "analysts.html")
        database.compare("city_k5", "city_sites", output=folder / "compare.html")
        connection = database.connection
        private = reporting.Private(
            choose_part=partial(evaluating.choose_part, connection),
            find_positions=partial(evaluating.find_positions, connection),
            evaluate=lambda run_id: measured,
        )
        html = reporting.report(connection, "city_k5", Reporting(with_truth=True), private)
    (folder / "truth-PRIVATE.html").write_text(html)
    (folder / "sweep-PRIVATE.html").write_text(sweep.make_page(make_sweep(*GRID)))
    return [open_page(browser, file) for file in sorted(folder.iterdir())]


def test_pages_load_nothing_and_say_nothing(opened: list[Opened]) -> None:
    for page in opened:
        assert len(page.requests) == 1, page.name
        assert page.said == [], page.name
        assert page.title.startswith("[PRIVATE] ") == page.private
        assert len(page.html.encode()) < 300_000
        assert not re.search(r"(?:src|href)=", page.html)


def test_pages_fit_every_width_in_light_and_dark_with_texts_that_can_be_read(opened: list[Opened]) -> None:
    for page in opened:
        for at, found in page.measured.items():
            assert found["over"] <= 0, (page.name, at)
            assert found["small"] >= 10.99, (page.name, at)
            assert found["scripts"] == 0


def test_every_picture_is_told_in_words_and_headings_are_in_order(opened: list[Opened]) -> None:
    for page in opened:
        found = page.measured[1280, "light"]
        assert (found["unnamed"], found["twice"]) == (0, []), page.name
        levels = found["headings"]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels)), (page.name, levels)
        assert page.violations == [], page.name


def test_printed_pages_are_a4_and_none_is_empty_and_private_ones_say_so(opened: list[Opened]) -> None:
    for page in opened:
        assert page.pdf is not None
        assert 1 <= len(page.pdf.pages) <= 8, page.name
        for number, sheet in enumerate(page.pdf.pages, 1):
            assert [round(float(side)) for side in (sheet.mediabox.width, sheet.mediabox.height)] == [595, 842]
            text = sheet.extract_text()
            assert len(text.split()) > 25, (page.name, number)
            assert ("PRIVATE" in text) == page.private, (page.name, number)
            assert f"{number} of {len(page.pdf.pages)}" in text


def test_names_and_texts_of_users_are_text(browser: Browser, city: str, tmp_path: Path) -> None:
    with open_database(city) as database:
        card = database.card("city_k5")
    card |= {
        "release": HOSTILE,
        "dataset": HOSTILE,
        "readers": [HOSTILE],
        "overlap_reason": HOSTILE,
        "promise": HOSTILE,
    }
    card["attack"] |= {"checked_by": HOSTILE}
    card["left_out"] |= {"meaning": HOSTILE}
    window = Window(x0=0, y0=0, x1=3600, y1=3600)
    record = replace(Described.from_card(card), columns=((HOSTILE, HOSTILE),))
    shown = Shown(k=5, window=window, moment=Moment(at=record.since, regions=["M0 0h9v9h-9z"], rows=1))
    for audience in ("file", "operators"):
        file = tmp_path / f"{audience}{'-PRIVATE' * (audience == 'operators')}.html"
        file.write_text(release.make_page(record, shown, audience, ZoneInfo("UTC")))
        page = open_page(browser, file, schemes=["light"], printed=False)
        assert (page.said, len(page.requests), page.violations) == ([], 1, [])
        assert "taken" not in page.title.split()[:1]
        assert HOSTILE[:40] in page.title
        for at, found in page.measured.items():
            assert (found["over"] <= 0, found["scripts"]) == (True, 0), (audience, at)
