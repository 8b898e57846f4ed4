"""Measures how long each of the three ways in takes on an empty database.

With the start of psql or Python, and with PostGIS, on an embedded server of its own, whose folder of extensions must be
writable. Takes the number of tries, 5 if none is given; prints the median of each way, and the load of the machine.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks._measure import run_private_server
from dbanon.postgres.programs import find_binaries
from dbanon.testing import database_url
from tests.upgrade.extension_files import build, place_files

DBANON = [sys.executable, "-m", "dbanon"]
PSQL = [str(find_binaries().bindir / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1"]


def main(tries: int) -> None:
    with run_private_server() as (server, directory), place_files(server.url, build().files(build().VERSION, [])):
        compare(server.url, directory / "dbanon.sql", tries)


def compare(url: str, text: Path, tries: int) -> None:
    script = [*DBANON, "db", "script", "--share-roles"]
    text.write_bytes(subprocess.run(script, check=True, capture_output=True).stdout)
    ways: dict[str, list[list[str]]] = {
        "db upgrade": [[*DBANON, "--dsn", "URL", "db", "upgrade", "--share-roles"]],
        "script through psql": [[*PSQL, "-1", "-f", str(text), "URL"]],
        "CREATE EXTENSION and install()": [
            [*PSQL, "-c", "CREATE EXTENSION dbanon CASCADE", "URL"],
            [*PSQL, "-c", "SELECT dbanon_setup.install(share_roles => true)", "URL"],
        ],
    }
    took: dict[str, list[float]] = {way: [] for way in ways}
    again: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(tries):
        for way, commands in ways.items():
            name = f"{way.split()[0].lower()}_{number}"
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
            target = database_url(url, dbname=name)
            took[way].append(run(commands, target))
            again[way].append(run(commands[-1:], target))
    print(f"{tries} tries; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for way in ways:
        print(f"{way:32} {statistics.median(took[way]):6.1f} s   again {statistics.median(again[way]):6.1f} s")


def run(commands: list[list[str]], url: str) -> float:
    began = time.monotonic()
    for command in commands:
        words = [url if word == "URL" else word for word in command]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) == 2 else 5)
