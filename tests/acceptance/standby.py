"""A hot standby of an embedded server."""

from collections.abc import Mapping
from pathlib import Path

import psycopg

from dbanon.postgres import programs
from dbanon.postgres.server import EmbeddedServer


class Standby(EmbeddedServer):
    """A hot standby of another server, made by pg_basebackup."""

    def __init__(self, home: Path, primary: EmbeddedServer, settings: Mapping[str, str]) -> None:
        super().__init__(home, settings=settings)
        self.primary = primary

    def _create(self) -> None:
        building = self.home / "data.new"
        self._make_private(building)
        program = programs.find_binaries(self.primary._read_major()).bindir / "pg_basebackup"
        copy = [str(program), "-d", self.primary.url, "-D", str(building), "-c", "fast", "-R"]
        self._demand(self._run(copy), "pg_basebackup")
        building.rename(self.data)

    def promote(self) -> None:
        """Become a primary."""
        self._demand(self._run_pg_ctl("promote", "-w"), "pg_ctl promote")

    def go_another_way(self, statement: str) -> None:
        """Become a primary, run a statement, and become a standby of nobody."""
        self.promote()
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())
        self.stop()
        self._run(["touch", str(self.data / "standby.signal")])
        self.start()
