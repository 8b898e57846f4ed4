"""The site that `./dev docs` builds with Sphinx: the pages as they stand, with docs/index.md as its navigation.

The source is the whole repository, so that links work as they do on a code host.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from docutils import nodes

project = "dbanon"
copyright = "the authors of dbanon, MIT licence"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "benchmarks/**.md"]
exclude_patterns = ["**/README.md"]  # of folders; the one above all is a page
myst_heading_anchors = 4
html_theme = "furo"
html_title = "dbanon"
html_copy_source = False
html_use_index = False  # it would be empty
suppress_warnings = ["misc.highlighting_failure", "toc.not_included"]  # psql's output inside of SQL; benchmarks/


def navigation(app: Any, page: str, source: list[str]) -> None:
    """Put the links of docs/index.md, section by section, into the site's navigation."""
    if page != root_doc:
        return
    for section in re.split(r"^## ", source[0], flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        paths = (posixpath.normpath(f"docs/{target}") for target in re.findall(r"\]\(([^)#:]+)\.md\)", text))
        tree = "\n".join(f"/{path}" for path in dict.fromkeys(paths))
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{tree}\n```\n"


UNIT = re.compile(r"(?<=\d) (?=(?:%|[km]?m|m?s|[kMG]B|min|h)(?!\w))")
ACCESSIBLE = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer': '<aside aria-label="This page" class="toc-drawer',
    # A wide block scrolls by itself, also with the keyboard: broken lines would tear the columns of psql's answers.
    "<pre>": '<pre tabindex="0" role="group" aria-label="Code">',
    '<div class="table-wrapper ': '<div tabindex="0" role="group" aria-label="Table" class="table-wrapper ',
    '<th class="head"><p></p></th>': '<td class="head"></td>',
    '<div id="search-results"></div>': '<h1>Search</h1><div id="search-results"><!-- filled by a script --></div>',
}
"""What the theme writes, and what screen readers and keyboards need instead. Applied twice, it changes nothing more."""


def keep_units(app: Any, document: nodes.document, page: str) -> None:
    """Let no browser break a line of a table between a number and its unit."""
    for entry in document.findall(nodes.entry):
        for text in list(entry.findall(nodes.Text)):
            text.parent.replace(text, nodes.Text(UNIT.sub("\N{NO-BREAK SPACE}", text)))


def make_accessible(app: Any, failure: Exception | None) -> None:
    """Mend the pages as built."""
    for page in Path(app.outdir).rglob("*.html") if failure is None else ():
        text = page.read_text("utf-8")
        for written, needed in ACCESSIBLE.items():
            text = text.replace(written, needed)
        page.write_text(text, "utf-8")


def setup(app: Any) -> None:
    """Register what is above."""
    app.connect("source-read", navigation)
    app.connect("doctree-resolved", keep_units)
    app.connect("build-finished", make_accessible)
