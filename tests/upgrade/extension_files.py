"""Puts the extension's files where the server of the tests looks for them: on this machine, or in its container."""

import fcntl
import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType

import psycopg
import pytest

from dbanon.postgres.server import parse

ROOT = Path(__file__).parents[2]


@cache
def build() -> ModuleType:
    """Import extension/build.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("dbanon_extension_build", ROOT / "extension" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Folder:
    """The server's folder of extensions."""

    def __init__(self, url: str) -> None:
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT setting FROM pg_config WHERE name = 'SHAREDIR'").fetchone()
        assert row is not None
        self.path = Path(row[0]) / "extension"
        words = parse(url)
        self.here = words.get("host", "/").startswith("/")
        if not self.here:
            command = ["docker", "ps", "--quiet", "--filter", f"publish={words['port']}"]
            self.container = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
            if not self.container:
                pytest.skip("no files can be put onto the server that DBANON_TEST_DSN names")
        elif not os.access(self.path, os.W_OK):
            pytest.skip(f"this user may not write into {self.path}")

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            if self.here:
                (self.path / name).write_text(text, encoding="utf-8")
            else:
                self._run(f"cat > {self.path}/{name}", text)

    def kept(self) -> dict[str, str]:
        """Files of an extension that is installed on this machine."""
        return {file.name: file.read_text(encoding="utf-8") for file in self.path.glob("dbanon[.-]*") if self.here}

    def clear(self, pattern: str = "dbanon[.-]*") -> None:
        if self.here:
            for file in self.path.glob(pattern):
                file.unlink()
        else:
            self._run(f"rm -f {self.path}/{pattern}")

    def _run(self, script: str, text: str = "") -> None:
        command = ["docker", "exec", "--interactive", "--user", "root", self.container, "sh", "-c", script]
        subprocess.run(command, check=True, input=text.encode())


@contextmanager
def place_files(url: str, files: dict[str, str]) -> Iterator[Folder]:
    """Have files there, which other processes that test on this machine would see, too: one after the other."""
    with (Path(tempfile.gettempdir()) / "dbanon-extension.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = Folder(url)
        kept = folder.kept()
        try:
            folder.clear()
            folder.write(files)
            yield folder
        finally:
            folder.clear()
            folder.write(kept)
