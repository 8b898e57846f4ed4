"""The queue under fire, a few times; ``benchmarks/queue_under_fire.py`` does it a hundred times."""

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbanon import testing
from dbanon.database import open_database
from dbanon.postgres.server import EmbeddedServer
from tests.acceptance.chaos import Attempt

pytestmark = pytest.mark.stress

SEED = int(os.environ.get("DBANON_TEST_SEED", random.SystemRandom().randrange(2**32)))


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    directory = Path(tempfile.mkdtemp(prefix="dbanon-chaos-", dir=testing._find_memory_directory()))
    directory.chmod(0o711)
    server = EmbeddedServer(directory / "home")
    try:
        server.start()
        from dbanon import schema

        schema.upgrade(server.target.url)
        with open_database(server.target.url) as database:
            database.synth("city", objects=300)
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.mark.parametrize("number", range(2))
def test_whatever_happens_to_workers_and_server_every_run_ends_right(
    server: EmbeddedServer, tmp_path: Path, number: int
) -> None:
    print(f"seed {SEED}")
    Attempt(server, random.Random(SEED + number), tmp_path / "log", number).play()
