"""What hints, errors and notices propose, how it is taken out of them, and which tests execute it.

`tries` names the sentences of tests/golden/sentences.txt whose proposals a test takes out of the message and executes.
``CANNOT`` of a test module has pieces of sentences whose proposals cannot be executed, and why.
"""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest

from tests.golden.sentences import ROOT, list_sentences, list_strings

Test = TypeVar("Test", bound=Callable[..., object])

PROPOSAL = re.compile(
    r"(?:SELECT|CALL) |CREATE |GRANT |ALTER |DROP |COMMIT|\w+ => |in a view|ST_\w+|`(?:dbanon|[A-Z]{4,}) [^`]*`|--[a-z]"
)


def tries(*pieces: str) -> Callable[[Test], Test]:
    """Say which sentences' proposals a test executes: each has one of the pieces, which are written out."""
    return lambda test: test


# ---- how a proposal is taken out of a message ------------------------------------------------------------------------


def read_words(said: psycopg.errors.Diagnostic) -> str:
    return " ".join(filter(None, (said.message_primary, said.message_detail, said.message_hint)))


def hear(connection: psycopg.Connection) -> list[str]:
    """A list to which all is added that the server tells the session."""
    heard: list[str] = []
    connection.add_notice_handler(lambda told: heard.append(read_words(told)))
    return heard


def refuse(connection: psycopg.Connection, statement: str, code: str = "DA") -> str:
    """Execute what fails, and return what the error says."""
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(statement)
    assert (caught.value.sqlstate or "").startswith(code), caught.value
    return read_words(caught.value.diag)


def accept_overlap(connection: psycopg.Connection, statement: str) -> str:
    """Refuse a publication, have it with the options that are proposed, take it back; returns what was said."""
    words = refuse(connection, statement)
    given = find_arguments(words)
    assert given["reason"] == "'...'"
    with connection.transaction(force_rollback=True):
        connection.execute(
            f"{statement[:-1]}, allow_overlap => {given['allow_overlap']}, reason => 'three words here')"
        )
    return words


def find_arguments(text: str) -> dict[str, str]:
    """The arguments with values that a message proposes."""
    return dict(re.findall(r"\b([a-z_]+) => ('(?:[^']|'')*'|ARRAY\[[^]]*\]|true|[\d.]+(?<!\.))", text))


def find_statements(text: str, begins: str) -> list[str]:
    """The statements that a message proposes; each ends with a full stop, or where the next sentence begins."""
    return [found.rstrip(". ") for found in re.findall(rf"{begins}(?:'(?:[^']|'')*'|[^';])*?(?=\.(?:\s|$)|;|$)", text)]


def find_quoted(text: str) -> list[str]:
    """What a message proposes in backticks."""
    return re.findall(r"`([^`]*)`", text)


# ---- what tests try --------------------------------------------------------------------------------------------------


def _read_marks() -> Iterator[tuple[str, str]]:
    for path in Path(__file__).parent.rglob("*.py"):
        if "@tries(" not in (source := path.read_text()):
            continue
        for node in ast.walk(ast.parse(source)):
            pieces: list[ast.expr | None] = []
            kind = ""
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "tries":
                kind, pieces = "tried", [*node.args]
            elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                if isinstance(target, ast.Name) and target.id == "CANNOT":
                    kind, pieces = "cannot", [*node.value.keys]
            yield from ((kind, ast.literal_eval(piece)) for piece in pieces if piece)


@cache
def list_marks(kind: str) -> list[str]:
    """The pieces of sentences that the tests say they have tried, or cannot be."""
    return [piece for found, piece in _read_marks() if found == kind]


def _list_help() -> set[str]:
    """The words of options: they say what there is, and stand in a call that makes an option or argument."""
    return {
        text.strip()
        for file in (ROOT / "dbanon").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and re.search(r"(?:Option|_option|_optional|Argument)\Z", ast.unparse(node.func))
        for text in list_strings(node)
    }


def list_untried(folder: str) -> list[str]:
    """The sentences of a folder with proposals that no test tries and of which none says why it cannot be."""
    known, words = list_marks("tried") + list_marks("cannot"), _list_help()
    texts = [text for path, lines in list_sentences().items() if path.startswith(folder) for text in lines]
    proposed = [text for text in texts if PROPOSAL.search(text) and text not in words]
    return [text for text in proposed if not any(piece in text for piece in known)]
