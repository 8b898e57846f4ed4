"""The commands of the families' pages end and print as the pages show, to the digit."""

from pathlib import Path

import pytest

from dbanon.methods import METHODS
from tests import pages
from tests.acceptance.commands import run_typed

pytestmark = pytest.mark.db


@pytest.mark.parametrize("family", METHODS)
def test_the_commands_of_a_page_end_as_it_shows(database: str, tmp_path: Path, family: str) -> None:
    for _, block in pages.list_blocks(f"docs/methods/{family}.md", "console"):
        for command, shown in pages.split_typed(block):
            done = run_typed(database, tmp_path, command)
            assert done.code == 0, command + done.stderr
            assert pages.find_missing(shown, done.stdout + done.stderr, same_figures=True) == [], (
                done.stdout + done.stderr
            )
