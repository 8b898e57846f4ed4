"""The site that `./dev docs` builds with Sphinx: the pages as they stand, with docs/index.md as its navigation.

The source is the whole repository, so that links work as they do on a code host.
"""

import posixpath
import re
from typing import Any

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


def setup(app: Any) -> None:
    """Register what is above."""
    app.connect("source-read", navigation)
