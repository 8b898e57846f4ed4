"""Whether the data of a run fit into the memory of this machine, and its rows onto the disk of a server here."""

import math
import shutil
from pathlib import Path

from dbanon.base import memory
from dbanon.base.errors import DataError
from dbanon.postgres.connection import Connection, fetch_value


def demand_room(connection: Connection, run_id: int) -> None:
    """Raise `DataError` where a run cannot fit, before it reads anything."""
    free = {"memory": memory.measure_free_mb(), "disk": _measure_free_disk_mb(connection)}
    # To count fixes takes seconds where there are very many, so only where they may not fit.
    if fetch_value(connection, "SELECT pg_table_size('dbanon.trajectory') / 1048576.0") < min(free.values()):
        return
    needed = fetch_value(connection, "SELECT dbanon_internal.estimate_room(%s)", [run_id])
    for what, least in needed.items():
        if least is not None and least > free[what]:
            raise DataError(
                f"A run must fit into the {what} of its machine. This one takes about {least:,.0f} MB, and "
                f"{free[what]:,.0f} MB are free. Run it on a larger machine, or on fewer people."
            )


def _measure_free_disk_mb(connection: Connection) -> float:
    """Measure what is free where the server has its files, if this machine has them and the login may know."""
    row = connection.execute("SELECT setting FROM pg_settings WHERE name = 'data_directory'").fetchone()
    return shutil.disk_usage(row[0]).free / 2**20 if row and Path(row[0]).is_dir() else math.inf
