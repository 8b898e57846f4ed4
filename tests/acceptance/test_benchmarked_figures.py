"""Benchmarks on taxis print the figures again that families' pages have from stored results, seconds apart."""

import re
import subprocess
import sys

import pytest

from tests.pages import ROOT
from tests.unit.test_covered_figures import NUMBER, has_all

PROGRAMS = {
    "tp-aware": ("results/senders.md", "senders.py"),
    "sensitive-sites": ("results/sensitive_sites.md", "sensitive_sites.py", "large", "once"),
}
"""Of a family's page: the stored results of a benchmark, and its command."""


def list_rows(family: str) -> list[str]:
    """List the rows of a page's tables that have figures, without cells of seconds."""
    text = (ROOT / "docs" / "methods" / f"{family}.md").read_text()
    rows = []
    for header, body in re.findall(r"^\|(.*)\|\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE):
        timed = ["second" in name for name in header.split("|")]
        cells = [line.strip("|").split("|") for line in body.splitlines()]
        rows += ["|".join(cell for cell, skip in zip(line, timed, strict=False) if not skip) for line in cells]
    return [row for row in rows if len(NUMBER.findall(row)) > 2]


def find_rows(text: str, rows: list[str]) -> list[str]:
    return [row for row in rows if any(has_all(line, NUMBER.findall(row)) for line in text.splitlines())]


@pytest.mark.stress
@pytest.mark.parametrize("family", PROGRAMS)
def test_a_benchmark_makes_the_figures_of_a_page_again(family: str) -> None:
    results, program, *words = PROGRAMS[family]
    rows = find_rows((ROOT / "benchmarks" / results).read_text(), list_rows(family))
    assert len(rows) > 3
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / program), *words],
        capture_output=True, text=True, check=True, timeout=1800,
    )  # fmt: skip
    assert set(rows) - set(find_rows(done.stdout, rows)) == set()
