"""Every sentence the program can say: errors, notices, hints, events and help, as they stand in the sources.

A sentence is a string with three words in a row in ``dbanon/**/*.py`` or ``sql/**/*.sql`` that is neither documentation
(a docstring, a ``COMMENT ON``) nor a statement of SQL. What is filled in when it is said stands as ``{}`` in those of
Python, as ``%`` or ``%s`` in those of SQL.

A test holds sentences.txt against the sources; ``DBANON_WRITE_GOLDEN=1`` writes it.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).with_name("sentences.txt")

_WORD = r"""['"(`]?(?:[A-Za-z][a-z'-]*|[a-z][\w.]*|\{\w*\}|%[sL]?)['")`]*[.;:]?"""
_WORDS = re.compile(rf"(?:(?<=\s)|(?<=^)){_WORD} {_WORD} {_WORD}(?=[\s,?!\u2014]|$)")
_STATEMENT = re.compile(
    r"\s*\(?\s*(?:SELECT|WITH|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|GRANT|REVOKE|COMMENT ON|SET|VIEW|TABLE|VALUES|"
    r"TRUNCATE|LOCK|COPY|CALL|DECLARE|FETCH|BEGIN|COMMIT|ROLLBACK|REASSIGN|DO|LISTEN|NOTIFY|CASE|FROM|WHERE|JOIN|AND|"
    r"OR|ORDER|GROUP|LIMIT|UNION|WHEN|ON|IS|NOT|NULL|ARRAY)\b(?!: )"
)
_PATTERN = re.compile(r"\^|\w+ IN \(|.*(?:\[\^|\\[Sd])")


def is_sentence(text: str) -> bool:
    """Whether a string is something to read, and neither a statement of SQL nor a pattern to match."""
    said = _WORDS.search(text) and len(re.findall(r"[A-Za-z][a-z'-]+", text)) >= 2
    return bool(said) and not _STATEMENT.match(text) and not _PATTERN.match(text)


# --- Python

_TEXTLESS = (ast.Name, ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)


def _read_text(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def list_strings(node: ast.AST) -> Iterator[str]:
    """All strings of a Python module in the order of the source; those within the braces of another come after it.

    Not docstrings, and others that stand alone.
    """
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        text = _read_text(node) if isinstance(node, ast.expr) else None
        if text is not None:
            yield text
        textless = (*_TEXTLESS, ast.Constant) if isinstance(node, ast.JoinedStr) else _TEXTLESS
        waiting += [one for one in [*ast.iter_child_nodes(node)][::-1] if not isinstance(one, textless)]


def list_python_sentences(source: str) -> list[str]:
    """The sentences of a Python module."""
    return [text for text in list_strings(ast.parse(source)) if is_sentence(text)]


# --- SQL

_TOKEN = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?\*/)"
    r"|(?P<string>[eE]?'(?:[^']|'')*'(?:\s*\n\s*'(?:[^']|'')*')*)"  # those on lines below go on with it
    r"|(?P<name>\"[^\"]*\")"
    r"|(?P<comment_on>\bCOMMENT ON\b[^']*?\bIS\s+(?:'(?:[^']|'')*'\s*(?:\n\s*)?)+;)"
    r"|(?P<end>;)",
    re.DOTALL,
)


def _unquote(token: str) -> str:
    return "".join(re.findall(r"'((?:[^']|'')*)'", token)).replace("''", "'")


def list_sql_sentences(source: str) -> list[str]:
    """The sentences of an SQL file, those in the bodies of its functions, too."""
    found = (_unquote(match["string"]) for match in _TOKEN.finditer(source) if match["string"])
    return [text for text in found if is_sentence(text)]


# --- all


def _format_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").strip()


@cache
def list_sentences() -> dict[str, list[str]]:
    """The sentences of each source by its path, each said once."""
    readers = {"dbanon/**/*.py": list_python_sentences, "sql/**/*.sql": list_sql_sentences}
    found = {}
    for pattern, read in readers.items():
        for path in sorted(ROOT.glob(pattern)):
            lines = list(dict.fromkeys(map(_format_line, read(path.read_text()))))
            if lines:
                found[str(path.relative_to(ROOT))] = lines
    return dict(sorted(found.items()))


def read_golden() -> str:
    """What sentences.txt holds: the path of each source, and its sentences below it."""
    return "\n".join(f"{path}\n" + "".join(f"  {line}\n" for line in lines) for path, lines in list_sentences().items())
