"""Writes text for people to a terminal, which interprets none of it."""

import sys


def make_visible(text: str, *, keeps_line_ends: bool = False) -> str:
    """Replace characters without a glyph by their numbers, so that no terminal interprets them.

    Control characters, separators, direction marks and bytes that are not text, and unless `keeps_line_ends` line ends.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or (keeps_line_ends and c == "\n") else ascii(c)[1:-1] for c in text)


def print_out(text: str) -> None:
    """Print text to stdout; all output except JSON goes through here."""
    print(make_visible(text, keeps_line_ends=True))


def replace_stderr_line(say: str) -> None:
    """Write one line to stderr."""
    print(make_visible(say), file=sys.stderr, flush=True)
