"""Measures three first walks: words that are read, commands that are typed, and seconds of the machine.

A DBA walks to a release of an own table, an analyst to an answer that may be trusted, a tester to a passing test, each
by the pages that tests/acceptance/walks follow. Words and commands are counted on the pages, and the seconds are those
of the test that types them on an embedded server: ``python benchmarks/walks.py [--no-run]``.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from _measure import run_python

from tests import pages

README, INDEX, INSTALL = "README.md", "docs/index.md", "docs/administrators/install.md"
TUTORIAL, SET_UP = "docs/tutorial.md", "docs/administrators/set-up.md"
READING, FILES = "docs/analysts/read-a-release.md", "docs/analysts/files.md"
QUESTIONS, TRUST = "docs/analysts/ten-questions.md", "docs/analysts/trust-answers.md"
TESTING = "docs/developers/testing.md"
NOT_TYPED = ("text", "sh wheel")  # answers, and what carries the program to other machines
SECONDS = re.compile(r"^([\d.]+)s call .*::(?:test_the_walk_needs|test_a_stranger_with)", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """A page, or what stands before a heading of it."""

    page: str
    until: str = ""

    def read(self) -> str:
        """Give the text."""
        text = (pages.ROOT / self.page).read_text(encoding="utf-8")
        assert self.until in text, self
        return text.partition(self.until)[0] if self.until else text

    def count_words(self) -> int:
        """Count as ``./dev measure`` does."""
        return len(self.read().split())

    def count_commands(self) -> int:
        """Count what a reader types."""
        return sum(count_typed(kind, block) for kind, block in pages.split(self.read()) if kind not in NOT_TYPED)


@dataclass(frozen=True)
class Walk:
    """What is read and typed until the first result, and in all."""

    result: str
    test: str
    read: tuple[Part, ...]
    read_in_all: tuple[Part, ...]
    typed: tuple[Part, ...]
    typed_in_all: tuple[Part, ...]


START = (Part(README), Part(INSTALL), Part(SET_UP))
RELEASE = Part(READING, "\n## Make the two releases")
TESTED = Part(TESTING, "\n## Fixtures")
WALKS = {
    "DBA": Walk(
        "a release of an own table", "test_dba.py",
        START, (*START, Part(TUTORIAL)), START[1:], (*START, Part(TUTORIAL)),
    ),
    "analyst": Walk(
        "an answer that may be trusted", "test_analyst.py",
        (Part(README), RELEASE), (Part(README), RELEASE, Part(FILES), Part(QUESTIONS), Part(TRUST)),
        (RELEASE,), (RELEASE, Part(FILES)),
    ),
    "tester": Walk(
        "a passing test", "test_tester.py",
        (Part(README), Part(INDEX), Part(INSTALL), TESTED), (Part(README), Part(INDEX), Part(INSTALL), Part(TESTING)),
        (TESTED,), (Part(TESTING),),
    ),
}  # fmt: skip


def count_typed(kind: str, block: str) -> int:
    """Count the commands or statements of a block; a program of Python is one."""
    if kind == "console":
        return len(list(pages.split_typed(block)))
    if kind.startswith("sql"):
        return len(re.findall(r";$|^\\|\\gset$", block, re.MULTILINE))
    if kind.startswith("python"):
        return 1
    return len([line for line in re.sub(r"(\\|\|)\n", " ", block).splitlines() if line.strip()])


def measure(walk: Walk) -> Iterator[str]:
    """Give the cells of a row."""
    yield walk.result
    for parts in (walk.read, walk.read_in_all):
        yield f"{sum(part.count_words() for part in parts):,}"
    for parts in (walk.typed, walk.typed_in_all):
        yield f"{sum(part.count_commands() for part in parts)}"
    if "--no-run" in sys.argv:
        return
    file = Path("tests", "acceptance", "walks", walk.test)
    options = ("-q", "-n", "0", "--stress", "--durations=0", "--durations-min=0.1")
    cost = run_python("-m", "pytest", *options, str(file), environment={"DBANON_TEST_SERVER": "embedded"})
    [seconds] = SECONDS.findall(cost.printed)
    yield f"{float(seconds):.0f}"


def main() -> None:
    print("Words before the first command of the README:", len(Part(README, "```sh").read().split()))
    print("| who | first result | words before it | in all | commands before it | in all | s |")
    print("|---|---|---|---|---|---|---|")
    for who, walk in WALKS.items():
        print(f"| {who} | {' | '.join(measure(walk))} |", flush=True)


if __name__ == "__main__":
    main()
