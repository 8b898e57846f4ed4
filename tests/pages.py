"""Blocks of code in the documents, which tests execute."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", re.MULTILINE)


def list_blocks(page: str, *kinds: str) -> list[tuple[str, str]]:
    """Return kind and text of each block of these kinds, in the order of the page."""
    found = [(kind, text) for kind, text in split((ROOT / page).read_text()) if kind in kinds]
    assert {kind for kind, _ in found} == set(kinds), f"{page} has no block of one of {kinds}"
    return found


def split(text: str) -> list[tuple[str, str]]:
    """Return kind and text of each block of a text."""
    return [(kind, re.sub(f"^{indent}", "", block, flags=re.MULTILINE)) for indent, kind, block in _BLOCK.findall(text)]


def split_walk(walk: str) -> dict[str, list[tuple[str, str]]]:
    """Give the blocks of a walk by the page that they are taken from."""
    parts = re.split(r"^## (.+)\n", (ROOT / walk).read_text(), flags=re.MULTILINE)[1:]
    return {page: split(text) for page, text in zip(parts[::2], parts[1::2], strict=True)}


def list_commands(blocks: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Give each command of some blocks with the kind of its block."""
    return [
        (kind, command)
        for kind, block in blocks
        for command in ([command for command, _ in split_typed(block)] if kind == "console" else [block])
    ]


def fill_in_times(statement: str) -> str:
    """Write a range of time into a statement, as Grafana, Metabase and Superset do in their own ways."""
    since, until = "2008-06-04T16:00:00Z", "2008-06-04T17:00:00Z"
    written = {
        **{"$__timeFrom()": f"'{since}'", "$__timeTo()": f"'{until}'"},
        **{"{{since}}": "date '2008-06-04'", "{{until}}": "date '2008-06-05'"},
        **{"{{ from_dttm }}": "2008-06-04 16:00:00", "{{ to_dttm }}": "2008-06-04 17:00:00"},
    }
    return re.sub("|".join(map(re.escape, written)), lambda found: written[found[0]], statement)


def split_typed(block: str) -> Iterator[tuple[str, list[str]]]:
    """Take a ``console`` block apart: each command with the lines shown below it."""
    command, shown = "", list[str]()
    for line in block.splitlines():
        if command and not _is_whole(command):
            command += f"\n{line}"
        elif line.startswith("$ "):
            if command:
                yield command, shown
            command, shown = line.removeprefix("$ "), []
        else:
            shown.append(line)
    yield command, shown


def _is_whole(command: str) -> bool:
    try:
        shlex.split(command)
    except ValueError:  # a quotation goes on in the next line
        return False
    return not command.endswith("\\")


def find_missing(shown: list[str], output: str, *, same_figures: bool = False) -> list[str]:
    """Return the lines shown that the output lacks; widths, and figures unless asked, may differ; ``...`` is any.

    A page may break a line of the output into several.
    """
    plain = _even_out if same_figures else _blank_figures
    lines, absent = [plain(line) for line in output.splitlines()], []
    left = [line for line in shown if line != "..."]
    while left:
        joined = (plain(" ".join(left[:count])) for count in range(1, len(left) + 1))
        found = [(count, line) for count, line in enumerate(joined, 1) if line in lines]
        if found:
            count, line = found[0]
            lines, left = lines[lines.index(line) + 1 :], left[count:]
        else:
            absent.append(left.pop(0))
    return absent


def _blank_figures(line: str) -> str:
    return _even_out(re.sub(r"\d[\d,.]*", "0", line))


def _even_out(line: str) -> str:
    return re.sub(r"-+", "-", re.sub(r"\s+", " ", line)).strip()
