"""Documents that are executed or held against the code, so that they cannot go stale."""

import re
import tomllib
from pathlib import Path

import pytest

from dbanon import methods
from tests.importing import REASONS

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "methods").glob("*.md"))
WRITTEN = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "sql-api.md"]  # which is generated
HEADINGS = [
    *("Privacy claim", "Adversary", "Algorithm", "Parameters", "Complexity"),
    *("Departures from the paper", "Example", "Known limits", "References"),
]


@pytest.mark.parametrize("family", methods.METHODS)
def test_every_family_has_a_page_with_the_fixed_headings(family: str) -> None:
    page = (ROOT / "docs" / "methods" / f"{family}.md").read_text()
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == HEADINGS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_example_of_a_method_page_runs(page: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, str(page), "exec"), {})


@pytest.mark.parametrize("family", methods.METHODS)
def test_a_method_page_names_every_parameter_with_its_default(family: str) -> None:
    page = (ROOT / "docs" / "methods" / f"{family}.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", page, re.MULTILINE))
    described = methods.describe(methods.method(family))
    assert list(rows) == [p["name"] for p in described]
    for parameter in described:
        if parameter["default"] is not None:
            assert parameter["default_text"] in rows[parameter["name"]]


def test_every_dependency_has_a_line_that_says_why() -> None:
    decisions = (ROOT / "docs" / "decisions.md").read_text()
    declared = re.findall(r'^    "([a-z0-9-]+(?:\[\w+\])?)>=', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert declared
    for name in declared:
        assert f"| `{name}` |" in decisions, name


@pytest.mark.parametrize("document", ["README.md", *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))])
def test_links_between_documents_lead_somewhere(document: str) -> None:
    path = ROOT / document
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", path.read_text()):
        page = path.parent / target if target else path
        assert page.exists(), target
        assert not anchor or anchor in anchors(page), f"{target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_every_page_is_linked_from_the_readme(page: Path) -> None:
    assert f"]({page.relative_to(ROOT)})" in (ROOT / "README.md").read_text()


def test_every_reason_to_leave_a_row_out_is_explained() -> None:
    page = (ROOT / "docs" / "howto" / "load.md").read_text()
    assert set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)) == REASONS


def test_the_picture_of_the_layers_is_the_enforced_one() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    drawn = [line[:31].split() for line in page.split("```")[1].strip().splitlines()]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [layers] = [c["layers"] for c in project["tool"]["importlinter"]["contracts"] if c["type"] == "layers"]
    enforced = [[name.removeprefix("dbanon.") for name in layer.split(" | ")] for layer in layers]
    assert [sorted(line) for line in drawn] == [sorted(line) for line in enforced]


def test_every_decision_says_what_was_rejected() -> None:
    page = (ROOT / "docs" / "decisions.md").read_text().partition("\n## Dependencies")[0]
    entries = re.findall(r"^\*\*(.+?)\*\*(.*?)(?=^\*\*|^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert entries
    assert [title for title, text in entries if "Rejected:" not in text] == []


@pytest.mark.parametrize("page", [*WRITTEN, ROOT / "README.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_a_page_names_the_actor(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"\b(?:whoever|somebody|anybody|everybody|who did what)\b", prose, re.IGNORECASE) == []


@pytest.mark.parametrize("page", ["decisions.md", "architecture.md"])
def test_a_page_on_the_code_names_only_what_is_there(page: str) -> None:
    files = [file for folder in ("dbanon", "sql", "migrations") for file in (ROOT / folder).rglob("*.[ps][yq]*")]
    code = "\n".join(file.read_text() for file in files if file.is_file() and file.suffix in (".py", ".sql"))
    text = (ROOT / "docs" / page).read_text()
    named = set(re.findall(r"`dbanon(?:_internal)?\.(\w+)", text))
    assert named
    assert [name for name in sorted(named) if not re.search(rf"\b{name}\b", code)] == []
    paths = set(re.findall(r"`((?:dbanon|sql|tests|migrations)/[\w./]*)`", text))
    assert paths
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
