"""Counts of what makes a text hard to read, by the rules of CONTRIBUTING.md."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from math import ceil
from pathlib import Path

import click
import typer

from dbanon.cli.main import app
from tests.golden import reasons as why
from tests.golden.sentences import list_sentences as said_by_source

ROOT = Path(__file__).parents[1]

MAX_WORDS = 35
"""Words; a sentence of more is too long."""

OLD_WORDS = (
    *("save", "anew", "beside", "besides", "else", "hence", "thus", "lest", "whence", "amid", "upon", "thereof"),
    *("therein", "wherein", "whoever", "whosoever", "somebody", "anybody", "everybody", "nobody"),
)

PATTERNS = {
    "semicolons": r";",
    "who": r"\b(?:who|whom|whose)\b",
    "what": r"\bwhat\b",
    "old words": rf"\b(?<!thing )(?:{'|'.join(OLD_WORDS)})\b",
    "subjects": r"(?<![-{_.])\b(?:subjects?(?! to\b|\w)|individuals?)\b",
}

PER_1000_WORDS = {"semicolons": 2.4, "who": 1.0, "what": 1.7, "old words": 0.5, "subjects": 0.0}
"""As the eight projects have them that the rules of CONTRIBUTING.md were measured beside; a person has one name."""

BAD_START = re.compile(r"(?:Who|Whom|Whose|What|Of|Those)\b")

SENTENCES = {
    "long": lambda sentence: len(sentence.split()) > MAX_WORDS,
    "two semicolons": lambda sentence: sentence.count(";") > 1,
    "bad starts": lambda sentence: bool(BAD_START.match(sentence)),
}

PER_100_SENTENCES = {"long": 1.0, "two semicolons": 1.0, "bad starts": 1.0}

HARD_TERMS = (
    *("anonymity set", "atom", "bundle", "cloak", "digest", "equivalence class", "hiding set", "quadrant"),
    *("quasi-identifier", "settle time", "usable resolution"),
)
"""Terms of the glossary that no reader knows from elsewhere in this meaning."""


# --- texts


def extract_prose(markdown: str) -> str:
    """Return the prose of a page: without code, tables, headings, pictures, targets of links and bad examples."""
    text = re.sub(r"^```.*?^```|^\|.*?$|^#.*?$|^ {4,}\S.*?$|^- Bad: .*?$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)|<[^>\n]+>", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"[*_]", "", re.sub(r"`[^`]*`", "X", text))


def split(text: str) -> list[str]:
    """Take a text apart into sentences of three words or more; items of a list and paragraphs are separate."""
    parts = (" ".join(part.split()) for part in re.split(r"\n\s*\n|^\s*(?:[-*]|\d+\.) ", text, flags=re.MULTILINE))
    found = (sentence for part in parts for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z\"'(])", part))
    return [sentence for sentence in found if len(sentence.split()) > 2]


def read_comments() -> dict[str, str]:
    """Return the comment of each object of `dbanon` and `published`, as the files of sql/ have it."""
    pattern = r"COMMENT ON [A-Z ]+ ((?:dbanon|published)\.\w[^']*?) IS\s+((?:'(?:[^']|'')*'\s*)+);"
    files = sorted((ROOT / "sql").rglob("*.sql"))
    found = (match for file in files for match in re.finditer(pattern, file.read_text()))
    return {match[1]: _unquote(match[2]) for match in found}


def _unquote(quoted: str) -> str:
    return "".join(re.findall(r"'((?:[^']|'')*)'", quoted)).replace("''", "'")


def list_helps() -> dict[str, str]:
    """Return the help of each command and option of the command line."""
    return dict(_iter_helps(typer.main.get_command(app), "dbanon"))


def _iter_helps(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    yield name, command.help or ""
    for parameter in command.params:
        yield f"{name} {'/'.join(parameter.opts)}", getattr(parameter, "help", None) or ""
    for inner in getattr(command, "commands", {}).values():
        yield from _iter_helps(inner, f"{name} {inner.name}")


def list_messages() -> dict[str, str]:
    """Return each sentence that a user meets in errors, hints, notices and promises, by its source and place."""
    return {f"{path} {n}": line for path, lines in said_by_source().items() for n, line in enumerate(lines, 1)}


def reasons() -> dict[str, str]:
    """Return why rows are left out, and the introductions to these lists."""
    heads = {
        "head": why.HEAD,
        "head of counts": why.COUNTED_HEAD,
        "head of runs": why.RUN_HEAD,
        "settings": why.SETTINGS_HEAD,
    }
    return {**heads, **why.QUARANTINED, **why.COUNTED}


def extract_said(text: str) -> str:
    """Return a comment or message without what is no prose: names in quotes, names of arguments, statements of SQL."""
    text = re.sub(r"^(Arguments|Returns|Raises|Example):", r"\n\n\1:", text, flags=re.MULTILINE)
    text = re.sub(r"^- \w+: ", "- ", text, flags=re.MULTILINE)
    text = re.sub(r"@[\w.]+@|`[^`]*`|'[\w.=-]+'", "X", text)
    return re.sub(r"\b(?:SELECT|CALL|GRANT|REVOKE|ALTER|CREATE|DROP|UPDATE|DELETE|WITH) [^\n]*", "X", text)


# --- counts


def count(texts: Iterable[str]) -> Counter[str]:
    """Count the offences of each kind."""
    return Counter(kind for text in texts for kind, _ in find_offences(text))


def find_offences(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind of each offence, and the sentence that it is in; for each of several in a sentence."""
    for sentence in split(text):
        yield from ((kind, sentence) for kind, test in SENTENCES.items() if test(sentence))
        for kind, pattern in PATTERNS.items():
            yield from ((kind, sentence) for _ in re.findall(pattern, sentence, re.IGNORECASE))


def count_allowed(kind: str, texts: Iterable[str]) -> int:
    """Return how many offences of a kind comparable projects have in as much text."""
    texts = list(texts)
    if kind in SENTENCES:
        return ceil(PER_100_SENTENCES[kind] * sum(len(split(text)) for text in texts) / 100)
    return ceil(PER_1000_WORDS[kind] * sum(len(text.split()) for text in texts) / 1000)


def find_unexplained(markdown: str) -> list[str]:
    """Return the hard terms that a page neither puts in bold nor links to the glossary where it first uses them."""
    text = re.sub(r"^```.*?^```|^#.*?$|`[^`\n]*`", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return [term for term in HARD_TERMS if not _is_explained(term, text)]


def _is_explained(term: str, text: str) -> bool:
    word = term.replace(" ", r"\s+")
    first = re.search(rf"(?<![\w-]){word}(?:s|es)?\b", text, re.IGNORECASE)
    shown = rf"\*\*[^*]*{word}[^*]*\*\*|\[[^\]]*{word}[^\]]*\]\([^)]*glossary\.md[^)]*\)"
    paragraphs = [part for part in re.split(r"\n\s*\n", text) if first and first[0] in part]
    return not paragraphs or bool(re.search(shown, paragraphs[0], re.IGNORECASE))
