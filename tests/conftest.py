"""Fixtures of dbanon's own tests: short names for those of `dbanon.testing`, real logins, and the session's seed."""

import gc
import itertools
import os
import secrets
import signal
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from zlib import crc32

import hypothesis
import hypothesis.core
import numpy as np
import psycopg
import pytest

from dbanon import testing
from dbanon.postgres.server import Target
from dbanon.testing import logins, shared_database
from tests.db.methods import drop_requests

# Left in the environment for the processes of pytest-xdist: all have the same.
SEED = int(os.environ.get("DBANON_TEST_SEED") or secrets.randbelow(2**31))
os.environ["DBANON_TEST_SEED"] = str(SEED)
PAPERS = Path(__file__).parent / "papers"
REFERENCE_SYSTEMS = "srid IN (2227, 2263, 3857, 4326, 25832) OR srid BETWEEN 32601 AND 32760"
DATABASE = [Path(__file__).parent / name for name in ("db", "upgrade")]
ACCEPTANCE = Path(__file__).parent / "acceptance"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--stress", action="store_true", help="run also what kills, fills disks or memory, or waits")
    parser.addoption(
        "--all", action="store_true", help="run that, tests/papers, all of many cases alike and more random ones"
    )
    parser.addoption(
        "--stress-twelfth",
        action="store_true",
        help="run half of the modules of tests/acceptance, and what a twelfth of all have of that; the seed chooses",
    )
    parser.addoption("--quick", action="store_true", help="of tests with a database run an eighth: so if none is named")
    parser.addoption("--every", action="store_true", help="run them all though none is named")
    parser.addoption(
        "--database-eighth",
        type=int,
        choices=range(8),
        action="append",
        help="of tests/db and tests/upgrade run those marked stress, those of the embedded server, and an eighth",
    )


def pytest_configure(config: pytest.Config) -> None:
    # What a test says of its own cases stays; of the others --all tries as many as Hypothesis does by default.
    # A test is not timed: a busy machine may take any time for an example.
    hypothesis.settings.register_profile("all", deadline=None)
    hypothesis.settings.register_profile("some", deadline=None, max_examples=25)
    hypothesis.settings.load_profile("all" if config.getoption("--all") else "some")
    if config.getoption("--hypothesis-seed", None) is None:
        hypothesis.core.global_force_seed = SEED
    config.option.quick |= _is_quick(config)


def _is_quick(config: pytest.Config) -> bool:
    """Whether a part will do: nobody has named files or tests, or said how many of them."""
    said = ("--all", "--every", "--stress", "--stress-twelfth", "--database-eighth", "-k", "-m", "--last-failed")
    named = config.args_source is config.ArgsSource.ARGS
    return not named and not any(config.getoption(name, None) for name in said)


def pytest_report_header(config: pytest.Config) -> str:
    given = config.getoption("--hypothesis-seed", None)
    server = os.environ.get("DBANON_TEST_SERVER") or (
        "DBANON_TEST_DSN" if os.environ.get("DBANON_TEST_DSN") else "auto"
    )
    quick = "; of tests with a database an eighth (--every: all)" if config.option.quick else ""
    return f"seed: {SEED} (DBANON_TEST_SEED), hypothesis {given or SEED}; test server: {server}{quick}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among what is collected: looking takes a third of the time, and each process collects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Of tests/acceptance take a part by module, whose tests share what is dear to make."""
    if collection_path == PAPERS and not config.getoption("--all"):
        return True
    part = 12 if config.option.quick else 2 if config.getoption("--stress-twelfth") else 1
    if collection_path.match("acceptance/test_*.py") and config.args_source is not config.ArgsSource.ARGS:
        return collection_path not in _choose_modules(ACCEPTANCE.glob("test_*.py"), SEED, part) or None
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "dbanon_server" in getattr(item, "fixturenames", ()):
            item.add_marker("db")
        if item.path.parent == PAPERS:
            item.add_marker("papers")
    left_out = set()
    if not config.getoption("--all"):
        left_out |= _list_skipped_cases(items) | {item for item in items if item.get_closest_marker("papers")}
        if not config.getoption("--stress"):
            stress = [item for item in items if item.get_closest_marker("stress")]
            # What the seed chooses of many cases, and of tests with a database, does not depend on SEED // 32.
            kept = (
                _choose_modules((item.path for item in stress), SEED // 32, 12)
                if config.getoption("--stress-twelfth")
                else set()
            )
            left_out |= {item for item in stress if item.path not in kept}
    eighths = [0] if config.option.quick else config.getoption("--database-eighth")
    if eighths:
        left_out |= {item for item in items if _is_divided(item) and _number_eighth(item) not in eighths}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]
    items[:] = _sort_slow_first(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def _sort_slow_first(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """Let each process of pytest-xdist begin with modules that have tests marked stress: no long one is the last.

    A process is given one of `processes` equal parts of the list, and takes tests from the end of another's part when
    it has done its own.
    """
    slow = {item.path for item in items if item.get_closest_marker("stress")}
    first: list[list[pytest.Item]] = [[] for _ in range(processes)]
    modules = itertools.groupby([item for item in items if item.path in slow], lambda item: item.path)
    for number, (_, module) in enumerate(modules):
        first[number % processes] += module
    rest = iter([item for item in items if item.path not in slow])
    ordered: list[pytest.Item] = []
    for number, begun in enumerate(first):
        size = (len(items) - len(ordered)) // (processes - number)
        ordered += [*begun, *itertools.islice(rest, max(size - len(begun), 0))]
    return [*ordered, *rest]


def _is_divided(item: pytest.Item) -> bool:
    return item.path.parent in DATABASE and item.path.name != "test_server.py" and not item.get_closest_marker("stress")


def _number_eighth(item: pytest.Item) -> int:
    return (crc32(item.nodeid.encode()) + SEED // 4) % 8


def _choose_modules(files: Iterable[Path], turn: int, of: int) -> set[Path]:
    """Choose a part of these modules."""
    return set(sorted(set(files))[turn % of :: of])


def _list_skipped_cases(items: list[pytest.Item]) -> set[pytest.Item]:
    """Give three of four cases of each test marked many: those that stay go through the values of every parameter.

    Which stay depends on the session's seed, so that several sessions try them all.
    """
    number: Counter[str] = Counter()
    others = set()
    for item in items:
        if item.get_closest_marker("many"):
            test = item.nodeid.split("[")[0]
            turn, place = divmod(number[test], 4)
            number[test] += 1
            if place != (turn + SEED) % 4:
                others.add(item)
    return others


@pytest.fixture
def cases(pytestconfig: pytest.Config) -> Callable[[int], range]:
    """``cases(60)`` numbers the random cases to try: 60 with --all, else the quarter that the seed chooses."""

    def chosen(count: int) -> range:
        if pytestconfig.getoption("--all"):
            return range(count)
        quarter = -(-count // 4)
        first = min(SEED % 4 * quarter, count - quarter)
        return range(first, first + quarter)

    return chosen


@pytest.fixture
def seed() -> int:
    """The seed of the session, printed in the header."""
    return SEED


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """A fresh generator from the session's seed."""
    return np.random.default_rng(seed)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let an interrupt raise KeyboardInterrupt, also where the tests were started with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def short_search() -> Iterator[None]:
    """Atoms of `semantic` are searched for a tenth as long, for a module whose tests hold for any atoms."""
    from dbanon.methods.semantic import _partition

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_partition, "_MOVES_PER_CELL", _partition._MOVES_PER_CELL // 10)
        yield


@pytest.fixture(scope="session")
def dbanon_template(dbanon_server: Target, dbanon_template: str) -> Iterator[str]:
    """Name of a migrated database of half the size, with fewer reference systems, where tp-aware needs no request."""

    def cut(url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            drop_requests(connection)
            connection.execute(f"DELETE FROM spatial_ref_sys WHERE NOT ({REFERENCE_SYSTEMS})")
            connection.execute("VACUUM FULL ANALYZE")
        testing._close_to_sessions(url)

    with shared_database(dbanon_server, "small", cut, template=dbanon_template) as name:
        yield name


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
