"""Documents that are executed or held against the code, so that they cannot go stale."""

import itertools
import re
import shlex
import tomllib
from functools import cache
from pathlib import Path

import pytest
import typer

from dbanon import methods
from dbanon.cli.main import app
from tests import pages
from tests.golden.reference import CODE_WIDTH
from tests.rights import RIGHTS

ROOT = Path(__file__).parents[2]
METHOD_PAGES = ROOT / "docs" / "methods"
DECISIONS = ROOT / "docs" / "developers" / "decisions"
WRITTEN = [page for page in sorted((ROOT / "docs").rglob("*.md")) if not page.name.startswith("sql")]  # from comments
PAGES_AT_ROOT = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
HEADINGS = {
    "": ["Example", "Promise", "Run", "Published rows", "Parameters", "Cost", "Known limits"],
    "-inside": ["Privacy claim", "Adversary", "Alignment", "Complexity", "Departures from the paper", "References"],
}
"""Of the two pages of a family: use it, and how it keeps its promise."""


@pytest.mark.parametrize("kind", HEADINGS)
@pytest.mark.parametrize("family", methods.METHODS)
def test_every_family_has_two_pages_with_the_fixed_headings(family: str, kind: str) -> None:
    page = (METHOD_PAGES / f"{family}{kind}.md").read_text()
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == HEADINGS[kind]
    other = {"": "-inside", "-inside": ""}[kind]
    assert f"]({family}{other}.md)" in page


@pytest.mark.parametrize("family", methods.METHODS)
def test_a_method_page_names_every_parameter_with_its_default(family: str) -> None:
    page = (METHOD_PAGES / f"{family}.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", page, re.MULTILINE))
    described = methods.describe(methods.find_method(family))
    assert list(rows) == [p["name"] for p in described]
    for parameter in described:
        if parameter["default"] is not None:
            assert parameter["default_text"] in rows[parameter["name"]]


def test_every_dependency_has_a_line_that_says_why() -> None:
    decisions = (DECISIONS / "dependencies.md").read_text()
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
        assert not anchor or anchor in list_anchors(page), f"{target}#{anchor}"


def list_anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_every_page_is_linked_from_the_contents() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / target).resolve() for target in re.findall(r"\]\(([^)#:]+)", index.read_text())}
    assert set((ROOT / "docs").rglob("*.md")) - {index} - linked == set()
    assert "](docs/index.md)" in (ROOT / "README.md").read_text()


def test_the_picture_of_the_layers_is_the_enforced_one() -> None:
    page = (ROOT / "docs" / "developers" / "architecture.md").read_text()
    drawn = [line[:45].split() for line in page.split("```")[1].strip().splitlines()]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [layers] = [c["layers"] for c in project["tool"]["importlinter"]["contracts"] if c["type"] == "layers"]
    enforced = [[name.removeprefix("dbanon.") for name in layer.split(" | ")] for layer in layers]
    assert [sorted(line) for line in drawn] == [sorted(line) for line in enforced]


@pytest.mark.parametrize("page", sorted(DECISIONS.glob("*.md")), ids=lambda page: page.name)
def test_every_decision_says_what_was_rejected(page: Path) -> None:
    text = page.read_text()
    entries = re.findall(r"^\*\*(.+?)\*\*(.*?)(?=^\*\*|^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert entries
    assert [title for title, decided in entries if "Rejected:" not in decided] == []


@pytest.mark.parametrize("page", [*WRITTEN, ROOT / "README.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_a_page_names_the_actor(page: Path) -> None:
    assert re.findall(r"\b(?:whoever|somebody|anybody|everybody|who did what)\b", read_prose(page), re.IGNORECASE) == []


@pytest.mark.parametrize("folder", ["developers/decisions/*.md", "developers/architecture.md", "administrators/*.md"])
def test_a_page_on_the_code_names_only_what_is_there(folder: str) -> None:
    files = [file for folder in ("dbanon", "sql", "migrations") for file in (ROOT / folder).rglob("*.[ps][yq]*")]
    code = "\n".join(file.read_text() for file in files if file.is_file() and file.suffix in (".py", ".sql"))
    text = "\n".join(page.read_text() for page in (ROOT / "docs").glob(folder))
    named = set(re.findall(r"`dbanon(?:_internal)?\.(\w+)", text))
    assert named
    assert [name for name in sorted(named) if not re.search(rf"\b{name}\b", code)] == []
    paths = set(re.findall(r"`((?:dbanon|sql|tests|migrations)/[\w./]*)`", text))
    assert paths
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", [*WRITTEN, ROOT / "README.md"], ids=lambda page: page.name)
def test_a_page_names_only_commands_and_options_that_there_are(page: Path) -> None:
    named = re.findall(r"`(dbanon [^`]+)`", read_prose(page))
    found = [re.sub(r"(--[\w-]+)$", r"\1 VALUE", command) for command in named]
    for kind, block in pages.split(page.read_text()):
        lines = block.replace("\\\n", " ").splitlines()
        found += [command for command, _ in pages.split_typed(block)] if kind == "console" else lines
    for command in found:
        if words := re.match(r"(?:\w+=\S+ )*dbanon (.+)", command, re.DOTALL):
            parse(shlex.split(words[1].replace("\\\n", " "), comments=True))


@cache
def make_program() -> typer.main.TyperGroup:
    return typer.main.get_group(app)


def parse(words: list[str]) -> None:
    """Take a command of dbanon apart; fails if there is no such command or option."""
    command, context = make_program(), None
    words = list(itertools.takewhile(lambda word: word not in ("|", ">", "&"), words))
    while words:
        context = command.context_class(command, parent=context, **command.context_settings)
        _, words, _ = command.make_parser(context).parse_args(words)
        if not words or not hasattr(command, "commands"):
            return
        name, *words = words
        assert name in command.commands
        command = command.commands[name]


@pytest.mark.parametrize("page", [*sorted((ROOT / "docs").rglob("*.md")), *PAGES_AT_ROOT], ids=lambda page: page.name)
def test_a_line_of_code_fits_the_site(page: Path) -> None:
    """At 1,280 pixels, as `tests/acceptance/test_site.py` measures; a list indents its code on the site, too."""
    blocks = re.findall(r"^( *)```.*\n((?:.*\n)*?)\1```$|^(    .*)", page.read_text(), re.MULTILINE)
    lines = [line for _, fenced, indented in blocks for line in (fenced or indented).splitlines()]
    assert [line for line in lines if len(line) > CODE_WIDTH] == []


def read_section(page: Path, heading: str) -> str:
    """Return the text below a heading of a page, up to the next of its level."""
    before, _, below = page.read_text().partition(f"# {heading}\n")
    level = len(before) - len(before.rstrip("#")) + 1
    return re.split(rf"^#{{2,{level}}} ", below, maxsplit=1, flags=re.MULTILINE)[0]


def read_prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


GLOSSARY, LIMITS = (ROOT / "docs" / "understand" / page for page in ("glossary.md", "limits.md"))
ADMINISTRATORS, ANALYSTS = (ROOT / "docs" / folder for folder in ("administrators", "analysts"))


def test_the_readme_says_how_long_the_limits_take() -> None:
    [minutes] = re.findall(r"\]\(docs/understand/limits\.md\) \((\d+) minutes\)", (ROOT / "README.md").read_text())
    words = len(LIMITS.read_text().split())
    assert abs(int(minutes) - words / 200) < 2


def test_no_page_for_users_is_longer_than_its_readers_take() -> None:
    """Five minutes for the README, six for the limits, ten for others; `test_dba.py` has an administrator's way."""
    most = {ROOT / "README.md": 900, LIMITS: 1200}
    folders = ("understand", "administrators", "analysts", "methods")
    found = [page for folder in folders for page in (ROOT / "docs" / folder).rglob("*.md")]
    words = {page: len(page.read_text().split()) for page in [*most, ROOT / "docs" / "tutorial.md", *found]}
    assert {page: number for page, number in words.items() if number > most.get(page, 2000)} == {}


def test_the_analyst_exports_the_rows_that_were_published() -> None:
    texts = [page.read_text() for page in (ANALYSTS / "read-a-release.md", ROOT / "docs" / "tutorial.md")]
    [published] = {rows for text in texts for rows in re.findall(r"Published ([\d,]+) rows as published.city_k5", text)}
    exported = re.findall(r"Wrote ([\d,]+) rows of published.city_k5 to (\S+)\.", (ANALYSTS / "files.md").read_text())
    assert exported[0] == (published, "city_k5.gpkg")
    assert all(int(rows.replace(",", "")) < int(published.replace(",", "")) for rows, _ in exported[1:])


def test_the_table_of_errors_has_whole_sentences() -> None:
    listed = (ROOT / "sql" / "10_core" / "10_guard.sql").read_text().partition("class DA:\n")[2].partition("\n\n")[0]
    said = " ".join(re.sub(r"^--\s*", "", line) for line in listed.splitlines())
    table = read_section(ROOT / "docs" / "reference" / "errors.md", "SQLSTATEs")
    for code, words in re.findall(r"(DA\d{3}) (.+?)(?= DA\d{3} |$)", said):
        assert f"| {code} | {words} |" in table


def test_the_glossary_has_one_entry_a_word_in_alphabetical_order() -> None:
    entries = re.findall(r"^## (.+)$", GLOSSARY.read_text(), re.MULTILINE)
    assert entries
    assert entries == sorted(set(entries), key=str.casefold)


def test_a_word_in_italics_in_the_glossary_and_the_limits_has_an_entry() -> None:
    entries = re.findall(r"^## (.+)$", GLOSSARY.read_text(), re.MULTILINE)
    for page in (GLOSSARY, LIMITS):
        words = re.findall(r"(?<!\*)\*(\w[\w -]*)\*(?!\*)", page.read_text())
        assert {make_singular(word) for word in words} - {make_singular(word) for word in entries} == {"italic"}


def test_the_protected_one_is_a_person() -> None:
    """Papers say user, object, unit or individual, which the glossary tells once; code says subject."""
    folders = ("understand", "analysts", "methods")
    pages = [page for folder in folders for page in sorted((ROOT / "docs" / folder).glob("*.md"))]
    assert pages
    code = r"`[^`]*`|^\|.*?$|^## (?:Person|Subjects?)\n\n.*?\n$|^## References\n.*?\Z"
    for page in pages:
        text = re.sub(code, "", read_prose(page), flags=re.MULTILINE | re.DOTALL)
        assert re.findall(r"\b(?:subjects?|users?|individuals?|moving objects?)\b", text, re.IGNORECASE) == [], page


def make_singular(word: str) -> str:
    return re.sub(r"s\b", "", word.lower())


@pytest.mark.parametrize("page", [*WRITTEN, ROOT / "README.md"], ids=lambda page: page.name)
def test_a_table_goes_on_after_the_line_below_its_head(page: Path) -> None:
    assert re.findall(r"^\|[-| ]+\|\n\n+\|.*", page.read_text(), re.MULTILINE) == []


@pytest.mark.parametrize("page", [*WRITTEN, ROOT / "README.md"], ids=lambda page: page.name)
def test_a_page_has_no_two_headings_of_the_same_words(page: Path) -> None:
    small = {"a", "from", "in", "of", "the", "to", "with"}
    found = re.findall(r"^#+ (.+)$", read_prose(page), re.MULTILINE)
    words = [tuple(word for word in heading.lower().split() if word not in small) for heading in found]
    assert [heading for heading in words if words.count(heading) > 1] == []


@pytest.mark.parametrize("page", [*WRITTEN, ROOT / "README.md"], ids=lambda page: page.name)
def test_what_a_load_prints_is_shown_with_its_number(page: Path) -> None:
    shown = re.findall(r"^(.*)\nrows read +[\d,]+$", page.read_text(), re.MULTILINE)
    assert [line for line in shown if not re.fullmatch(r"load +\d+", line)] == []


@pytest.mark.parametrize("page", ["tutorial.md", "administrators/taxis.md"])
def test_the_runs_of_a_page_are_numbered_from_one(page: str) -> None:
    runs = re.findall(r"^Run (\d+) \(", (ROOT / "docs" / page).read_text(), re.MULTILINE)
    assert runs == [str(n + 1) for n in range(len(runs))] != []


def test_the_limits_are_six_of_all_methods() -> None:
    found = re.findall(r"^\*\*(\d)\. .+?\.\*\*", read_section(LIMITS, "Limits of every method"), re.MULTILINE)
    assert found == ["1", "2", "3", "4", "5", "6"]


@pytest.mark.parametrize("family", methods.METHODS)
def test_the_limits_have_five_of_a_method_and_its_page_has_all(family: str) -> None:
    """The limits send their readers to the method's page for more, which does not send them back."""
    [heading] = re.findall(rf"^### (.+: `{family}`)$", LIMITS.read_text(), re.MULTILINE)
    limits = read_section(LIMITS, heading)
    assert len(re.findall(r"^- \*\*", limits, re.MULTILINE)) == 5
    assert f"](../methods/{family}.md#known-limits)" in limits
    known = read_section(METHOD_PAGES / f"{family}.md", "Known limits")
    assert "understand/limits.md" not in known


def test_the_page_on_security_names_tests_that_are_there() -> None:
    named = re.findall(
        r"`(?:tests/db/)?(test_\w+\.py)`", (ROOT / "docs" / "administrators" / "analyst-threats.md").read_text()
    )
    assert named
    assert [name for name in named if not (ROOT / "tests" / "db" / name).exists()] == []


def test_the_job_of_every_night_is_one_recipe() -> None:
    recipe = read_section(ADMINISTRATORS / "every-night.md", "Do it by hand")
    assert re.search(r"\bsince(?:=|\W+)2026-01-0[67]T00:00:00Z", recipe)
    assert not re.search(r"""\bstart["'=]""", recipe)
    together = (ROOT / "docs" / "understand" / "releases-together.md").read_text()
    assert "](../administrators/every-night.md)" in together.partition("\n## ")[0]
    assert not re.search(r"^#+ .*night", together, re.MULTILINE)


def test_the_page_for_administrators_says_what_an_operator_does_not_read() -> None:
    rights = RIGHTS.read_text()
    closed = re.findall(r"^(?:table|view) dbanon\.(\w+) +- +S", rights, re.MULTILINE)
    [said] = re.findall(
        r"does not read\s+(.+?):\s", read_section(ADMINISTRATORS / "set-up.md", "Make the logins"), re.DOTALL
    )
    assert sorted(name.removeprefix("dbanon.") for name in re.findall(r"`([\w.]+)`", said)) == sorted(closed)


def test_the_figures_that_help_to_choose_k_are_those_of_the_tested_pages() -> None:
    text = (ROOT / "docs" / "understand" / "choose.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (\d+) % \| (\d+) % \[(\d+) to (\d+)\] \| (.+?) \|$", text, re.MULTILINE)
    sweep = (ADMINISTRATORS / "compare-settings.md").read_text()
    for k, share, error, low, high, side in rows[:2]:
        shown = rf"k {k}, instants 30 +{share}% +{error}% \[{low}%, {high}%\] +"
        [sides] = re.findall(rf"{shown}(\S+ k?m) \[(\S+) k?m to (\S+) k?m\]", sweep)
        assert side == "{} [{} to {}]".format(*sides)
    k, share, *errors, side = rows[2]
    study = (ADMINISTRATORS / "taxis.md").read_text()
    *_, measured = re.findall(r"^2 km +at a moment +(\S+) % +(\S+) % to (\S+) %", study, re.MULTILINE)
    assert (k, share, side) == ("20", "99", "over 4 km")
    assert errors == [f"{float(figure):.0f}" for figure in measured]


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("analysts/dashboards.md", ("Grafana", "Metabase", "Superset", "Notebooks", "sums")),
        ("analysts/read-a-release.md", ("shape of a region",)),
        ("administrators/load.md", ("speed", "occupancy", "vehicle type")),
        ("administrators/scale.md", ("Seconds", "memory", "disk")),
        ("reference/errors.md", ("Symptom", "cause")),
        ("understand/choose.md", ("window_s", "instants", "step_s", "grid_m")),
    ],
)
def test_what_people_searched_for_stands_in_a_heading(page: str, words: tuple[str, ...]) -> None:
    headings = " ".join(re.findall(r"^#+ (.+)$", (ROOT / "docs" / page).read_text(), re.MULTILINE))
    assert [word for word in words if word not in headings] == []
