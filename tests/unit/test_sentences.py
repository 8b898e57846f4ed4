"""What the program says stands in tests/golden/sentences.txt, and there alone: a sentence is mended with one diff."""

import ast
import os
import re
from pathlib import Path

import pytest

from tests.golden.sentences import (
    GOLDEN,
    ROOT,
    is_sentence,
    list_python_sentences,
    list_sentences,
    list_sql_sentences,
    list_strings,
    read_golden,
)
from tests.hints import list_marks

WORDS_IN_A_ROW = 6

PYTHON = '''
"""A docstring says what a module does."""

QUERY = "SELECT name FROM dbanon.dataset WHERE name = %s"

def refuse(k: int) -> None:
    """It says what a function does."""
    print("One line is"
          f" in two parts, {k:,} of them.")
    raise ValueError(f"The 'k' must be {'odd' if k else 'what it is here'}. Got {k} instead.")
'''

SQL = """
-- it's a comment that is not said
CREATE FUNCTION dbanon.refuse(k integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SELECT %I FROM dbanon.dataset', 'It is a ''name''.');
    RAISE EXCEPTION 'The k must be odd. '
        'Got % instead.', k USING ERRCODE = 'DA011', DETAIL = format('It was %s.', k), HINT = E'Don\\'t.';
END
$$;
COMMENT ON FUNCTION dbanon.refuse IS
'Refuses what is even. It''s a comment; takes k. Raises: DA011.';
"""


def test_the_sentences_are_those_of_the_golden_file() -> None:
    found = read_golden()
    if os.environ.get("DBANON_WRITE_GOLDEN"):
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text(), "run with DBANON_WRITE_GOLDEN=1 if the change is meant"


def test_what_is_said_is_found_in_python_and_neither_documentation_nor_queries() -> None:
    assert list_python_sentences(PYTHON) == [
        "One line is in two parts, {} of them.",
        "The 'k' must be {}. Got {} instead.",
        "what it is here",
    ]


def test_what_is_said_is_found_in_sql_and_neither_comments_nor_queries() -> None:
    assert list_sql_sentences(SQL) == ["It is a 'name'.", "The k must be odd. Got % instead.", "It was %s."]


@pytest.mark.parametrize("text", ["The run is lost.", "{} must hold rows. Got none.", "Run {} is {}.", "Do not ask."])
def test_three_words_are_a_sentence(text: str) -> None:
    assert is_sentence(text)


@pytest.mark.parametrize(
    "text",
    ["subject, time, x", "SELECT a FROM b", "x IN (SELECT y FROM z)", "^no such database", "published.{}", "{} of {}"],
)
def test_names_statements_and_patterns_are_none(text: str) -> None:
    assert not is_sentence(text)


@pytest.mark.parametrize(
    ("files", "raised"),
    [
        ("sql/**/*.sql", r"RAISE (?:EXCEPTION|NOTICE|WARNING) '((?:[^'\n]|'')+)"),
        ("dbanon/**/*.py", r"raise \w*(?:Error|Failed|Mismatch)\(\s*f?\"([^\"{]+)"),
    ],
)
def test_every_error_and_notice_that_is_raised_is_in_the_golden_file(files: str, raised: str) -> None:
    """Looked for in another way than the golden file is made."""
    said = {
        str(path.relative_to(ROOT)): [text.replace("''", "'").strip() for text in re.findall(raised, path.read_text())]
        for path in ROOT.glob(files)
    }
    known = list_sentences()
    missing = [text for path, texts in said.items() for text in texts if not _is_part(text, known.get(path, []))]
    assert [text for text in missing if is_sentence(text)] == []
    assert sum(map(len, said.values())) > 50


def _is_part(text: str, lines: list[str]) -> bool:
    return any(text in line for line in lines)


# ---- the other tests -------------------------------------------------------------------------------------------------


def list_word_runs(text: str) -> set[tuple[str, ...]]:
    """The words of a text, as many in a row as are too many; what is filled in is between two rows."""
    parts = re.split(r"\{\w*\}|%[sLI]?|[][()|]|\d[\d,.]*", text.replace("\\", ""))
    rows = (re.findall(r"[a-z_]+(?:['-][a-z]+)*", part.lower()) for part in parts)
    return {tuple(row[i : i + WORDS_IN_A_ROW]) for row in rows for i in range(len(row) - WORDS_IN_A_ROW + 1)}


def list_strings_of(test: Path) -> list[str]:
    """The strings of a test, without statements of SQL and without what it says itself."""
    return [
        text
        for text in list_strings(ast.parse(test.read_text()))
        if not re.match(r"\s*(?:SELECT|CALL|WITH|INSERT|UPDATE|DELETE)\b", text)
    ]


def test_no_other_test_repeats_a_sentence() -> None:
    """They assert codes and facts: tests/facts.py. `tries` alone names pieces: tests/hints.py."""
    pieces = {*list_marks("tried"), *list_marks("cannot")}
    known = {row: line for lines in list_sentences().values() for line in lines for row in list_word_runs(line)}
    tests = [test for test in (ROOT / "tests").rglob("*.py") if test.parent != GOLDEN.parent]
    repeated = {
        f"{test.relative_to(ROOT)}: {text}": known[row]
        for test in tests
        for text in list_strings_of(test)
        if text not in pieces
        for row in list_word_runs(text)
        if row in known
    }
    assert repeated == {}


def test_a_test_that_repeated_one_would_be_found() -> None:
    said = "The dataset must be there. It is not: {}; make it, or name one that is."
    assert list_word_runs(said) & list_word_runs(r"must be there\. It is not: x")
    assert not list_word_runs(said) & list_word_runs("must be there. It is 5")
