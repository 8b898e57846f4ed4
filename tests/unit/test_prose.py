"""All that users read keeps to CONTRIBUTING.md, as far as a program can count."""

import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests import prose
from tests.prose import ROOT

OUTSIDE = ("README.md", "CONTRIBUTING.md", "SECURITY.md")  # of docs/
FOLDERS = ("administrators", "analysts", "methods", "understand")
WITH_TERMS = (*OUTSIDE, "docs/tutorial.md", *(f"docs/{folder}/" for folder in FOLDERS))
FOR_USERS = (*WITH_TERMS, "docs/index.md", "docs/reference/")  # these pages are long enough without links
GLOSSARY = "docs/understand/glossary.md"  # it explains the terms, and names the words that code and papers have
OTHERS = {
    "comments": prose.read_comments,
    "help texts": prose.list_helps,
    "messages": prose.list_messages,
    "reasons": prose.reasons,
}
MADE = "<!-- Made by"  # what follows in a page is made of `OTHERS`, which are counted as such
KINDS = (*prose.SENTENCES, *prose.PATTERNS)


@cache
def read_texts() -> dict[str, list[str]]:
    """Give all texts by the page or the kind of text they are of; read when a test asks."""
    pages = [*OUTSIDE, *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
    found = {page: [prose.extract_prose((ROOT / page).read_text().partition(MADE)[0])] for page in pages}
    return found | {name: [prose.extract_said(text) for text in give().values()] for name, give in OTHERS.items()}


def list_page_kinds(page: str, kinds: list[str]) -> list[str]:
    """Return the kinds that are counted in a page: a person may be called a subject where code is spoken of."""
    is_for_users = page in OTHERS or (page.startswith(FOR_USERS) and page != GLOSSARY)
    return [kind for kind in kinds if is_for_users or kind != "subjects"]


@cache
def find_offences() -> dict[tuple[str, str], int]:
    """Give the offences that are more than comparable projects have."""
    counts = {name: prose.count(them) for name, them in read_texts().items()}
    above = {
        (name, kind): counts[name][kind]
        for name, them in read_texts().items()
        for kind in list_page_kinds(name, [*KINDS])
        if counts[name][kind] > prose.count_allowed(kind, them)
    }
    return above | {(page, "unexplained terms"): len(terms) for page, terms in iter_page_terms() if terms}


def iter_page_terms() -> Iterator[tuple[str, list[str]]]:
    """Yield the pages for users with the hard terms that they do not explain."""
    pages = [page for page in read_texts() if page.startswith(WITH_TERMS) and page != GLOSSARY]
    yield from ((page, prose.find_unexplained((ROOT / page).read_text())) for page in pages)


@pytest.mark.parametrize("kind", [*KINDS, "unexplained terms"])
def test_no_text_is_harder_to_read_than_those_of_comparable_projects(kind: str) -> None:
    over = {name: number for (name, of), number in find_offences().items() if of == kind}
    said = {name: [line for of, line in _list_offences(name) if of == kind] for name in over}
    assert over == {}, f"mend some of {said}"


def _list_offences(name: str) -> list[tuple[str, str]]:
    if name not in dict(iter_page_terms()):
        return [offence for text in read_texts()[name] for offence in prose.find_offences(text)]
    terms = [("unexplained terms", term) for term in prose.find_unexplained((ROOT / name).read_text())]
    return [offence for text in read_texts()[name] for offence in prose.find_offences(text)] + terms


def test_hard_terms_are_in_the_glossary() -> None:
    page = (ROOT / GLOSSARY).read_text()
    entries = " ".join(re.findall(r"^## (.+)$", page, re.MULTILINE)).lower()
    assert [term for term in prose.HARD_TERMS if term not in entries] == []


# ---- the counters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Those who read it know whose it is.", ["bad starts", "who", "who"]),
        ("It waits; it ends; you read it.", ["two semicolons", "semicolons", "semicolons"]),
        ("Take all rows save those of Ann.", ["old words"]),
        ("Each subject is hidden. It is subject to change.", ["subjects"]),
        (f"It is {'very ' * 34}long.", ["long"]),
        ("At least five people may have been there.", []),
    ],
)
def test_an_offence_is_counted(text: str, kinds: list[str]) -> None:
    assert [kind for kind, _ in prose.find_offences(text)] == kinds


def test_code_tables_headings_and_statements_are_no_prose() -> None:
    page = "# What is it; who?\n\n```sql\nSELECT 1; SELECT 2;\n```\n\n| what | who; |\n\nRead [it](what.md) `who`.\n"
    assert prose.split(prose.extract_prose(page)) == ["Read it X."]
    assert prose.extract_said("List them: SELECT a FROM b; SELECT c FROM d") == "List them: X"


def test_items_of_a_list_are_sentences() -> None:
    assert prose.split("Use it if:\n\n- you have rows,\n- you need them. Do not wait.\n") == [
        *("Use it if:", "you have rows,", "you need them.", "Do not wait."),
    ]


def test_a_term_is_explained_in_bold_or_by_a_link() -> None:
    page = "# Bundles\n\nA **bundle** is a group. It has `cloak` and [atoms](glossary.md).\n\nIts cloaks are many.\n"
    assert prose.find_unexplained(page) == ["cloak"]


def test_comments_help_texts_and_messages_are_found() -> None:
    assert len(prose.read_comments()) > 400
    assert "published.releases" in prose.read_comments()
    assert len(prose.list_helps()) > 100
    assert len(prose.list_messages()) > 1000
    assert "read-again" in prose.reasons()
