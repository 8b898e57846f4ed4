"""Fixtures of dbanon's own tests: short names for those of `dbanon.testing`, real logins, and the session's seed."""

import os
import secrets
from collections.abc import Callable, Iterator

import hypothesis
import hypothesis.core
import numpy as np
import psycopg
import pytest

from dbanon.testing import logins

# Left in the environment for the processes of pytest-xdist: all have the same.
SEED = int(os.environ.get("DBANON_TEST_SEED") or secrets.randbelow(2**31))
os.environ["DBANON_TEST_SEED"] = str(SEED)


def pytest_addoption(parser: pytest.Parser) -> None:
    told = "run also what is marked stress: it kills, fills disks or memory, or waits"
    parser.addoption("--all", action="store_true", help=told)


def pytest_configure(config: pytest.Config) -> None:
    # What a test says of its own cases stays; of the others --all tries as many as Hypothesis does by default.
    hypothesis.settings.register_profile("some", max_examples=25)
    if not config.getoption("--all"):
        hypothesis.settings.load_profile("some")
    if config.getoption("--hypothesis-seed", None) is None:
        hypothesis.core.global_force_seed = SEED


def pytest_report_header(config: pytest.Config) -> str:
    given = config.getoption("--hypothesis-seed", None)
    server = os.environ.get("DBANON_TEST_SERVER") or (
        "DBANON_TEST_DSN" if os.environ.get("DBANON_TEST_DSN") else "auto"
    )
    return f"seed: {SEED} (DBANON_TEST_SEED), hypothesis {given or SEED}; test server: {server}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "dbanon_server" in getattr(item, "fixturenames", ()):
            item.add_marker("db")
    if not config.getoption("--all"):
        stress = [item for item in items if item.get_closest_marker("stress")]
        config.hook.pytest_deselected(items=stress)
        items[:] = [item for item in items if item not in stress]


@pytest.fixture
def cases(pytestconfig: pytest.Config) -> Callable[[int], range]:
    """``cases(60)`` numbers the random cases that a test tries: 60 with --all, else a quarter of them."""
    share = 1 if pytestconfig.getoption("--all") else 4
    return lambda count: range(-(-count // share))


@pytest.fixture
def seed() -> int:
    """The seed of the session, printed in the header."""
    return SEED


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """A fresh generator from the session's seed."""
    return np.random.default_rng(seed)


@pytest.fixture
def database(dbanon_database: str) -> str:
    """URL of a fresh migrated database."""
    return dbanon_database


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection]:
    """Autocommit connection of the owner to `database`."""
    with psycopg.connect(database, autocommit=True) as opened:
        yield opened


@pytest.fixture
def login(database: str) -> Iterator[Callable[[str], str]]:
    """``login("dbanon_analyst")`` is the URL of a new user that is a member of the role and nothing else."""
    with logins(database) as make:
        yield make
