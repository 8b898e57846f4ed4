"""PostgreSQL's own client programs, as new as the server of the tests."""

import os
import shutil
import tempfile

import psycopg
import pytest

from dbanon import testing
from dbanon.postgres.programs import find_installations


def find_client(name: str, url: str) -> list[str]:
    """Command of a client program as new as the server: of this machine, else of the image the server comes from."""
    with psycopg.connect(url) as connection:
        wanted = connection.info.server_version // 10000
    found = [item.bindir / name for item in find_installations() if item.major >= wanted]
    if found:
        return [str(found[0])]
    if shutil.which("docker") is None or os.environ.get("DBANON_TEST_SERVER") == "embedded":
        pytest.skip(f"no {name} of PostgreSQL {wanted} on this machine")
    files = f"{tempfile.gettempdir()}:{tempfile.gettempdir()}"
    command = ["docker", "run", "--rm", "-i", "--network", "host", "--volume", files, "--entrypoint", name]
    return [*command, testing.image_name()]
