"""A tester of an application walks from the README to passing tests, with the commands of `tester.md` alone.

The folder and the server are new. The programs are those of the environment that runs these tests, so the command that
installs them is not typed; benchmarks/results/installing.md says what it takes.
"""

import pytest

from tests import pages
from tests.acceptance.terminal import Terminal

WALK = "tests/acceptance/walks/tester.md"
README, INDEX, INSTALL = "README.md", "docs/index.md", "docs/administrators/install.md"
TESTING = "docs/developers/testing.md"
MAX_WORDS = 2500  # a quarter of an hour


def test_each_command_of_the_walk_stands_on_the_page_that_it_names() -> None:
    steps = pages.split_walk(WALK)
    assert list(steps) == [README, INDEX, INSTALL, TESTING]
    assert steps[README] == steps[INDEX] == steps[INSTALL] == []
    assert steps[TESTING] == pages.split((pages.ROOT / TESTING).read_text())


def test_links_lead_from_the_first_page_to_the_last() -> None:
    for page, target in ((README, INDEX), (INDEX, "developers/testing.md"), (TESTING, "../administrators/install.md")):
        assert f"]({target}" in (pages.ROOT / page).read_text()


def test_the_pages_before_the_first_passing_test_are_short() -> None:
    assert sum(len((pages.ROOT / page).read_text().split()) for page in pages.split_walk(WALK)) <= MAX_WORDS


@pytest.fixture
def terminal(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of a person who has a machine with the programs of PostgreSQL, and names no server."""
    for name in ("DBANON_DSN", "DBANON_HOME", "DBANON_TEST_DSN", "PYTEST_ADDOPTS", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)
    return Terminal(tmp_path_factory.mktemp("application"), {"DBANON_TEST_SERVER": "embedded"})


@pytest.mark.stress
def test_the_walk_needs_nothing_that_its_pages_do_not_say(terminal: Terminal) -> None:
    said = list[str]()
    for kind, block in pages.split_walk(WALK)[TESTING]:
        if kind == "sh":
            said.append(terminal.run_well(block))
        elif kind.startswith("python"):
            (terminal.folder / block.partition("\n")[0].removeprefix("# ")).write_text(block)
    pytested, unittested = said
    assert "dbanon: tests run on " in pytested
    assert " 1 passed " in pytested
    assert unittested.endswith("OK\n")
