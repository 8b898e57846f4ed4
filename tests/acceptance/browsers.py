"""Chromium, for tests of pages, and what axe objects to in them."""

from collections.abc import Iterator
from contextlib import contextmanager

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from tests.acceptance.conftest import CHROMIUM

# Without these it asks its makers' servers for updates.
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync")  # fmt: skip
WIDTHS, SCHEMES = (390, 768, 1280), ("light", "dark")


@contextmanager
def start() -> Iterator[Browser]:
    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield opened
        opened.close()


def find_violations(page: Page, scheme: str) -> list[str]:
    """Ask axe about a page in a scheme of colours; all but the first ask about colours alone, in which they differ."""
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    rules = {} if scheme == SCHEMES[0] else {"runOnly": ["color-contrast"]}
    found = Axe().run(page, options={"resultTypes": ["violations"], **rules}).response["violations"]
    return [f"{scheme}: {one['id']}: {one['nodes'][0]['html']}" for one in found]
