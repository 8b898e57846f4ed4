"""Does every run end right, whatever happens to workers and server? A hundred tries, each of eight runs on two workers.

Workers are killed where they stand, the server is stopped, runs are cancelled, at random moments; see
``tests/acceptance/chaos.py``. On an embedded server of its own. Takes the number of tries and the seed; else 100 and 1.
"""

import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks._measure import run_private_server
from dbanon import schema
from dbanon.database import open_database
from dbanon.postgres.server import EmbeddedServer
from tests.acceptance.chaos import Attempt


def main(tries: int, seed: int) -> None:
    with run_private_server() as (server, directory):
        schema.upgrade(server.url)
        with open_database(server.url) as database:
            database.synth("city", objects=300)
        play(server, tries, seed, directory / "log")


def play(server: EmbeddedServer, tries: int, seed: int, log: Path) -> None:
    done: Counter[str] = Counter()
    began = time.monotonic()
    for number in range(tries):
        log.write_text("")
        done += Attempt(server, random.Random(f"{seed} {number}"), log, number).play()
        print(f"try {number + 1}: {dict(sorted(done.items()))}, {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:])) if len(sys.argv) == 3 else main(100, 1)
