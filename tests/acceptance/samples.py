"""Small samples of files, about people whom no message may name."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

HEAD = "subject,time,x,y\n"
START_S = 1_212_566_400
# What no message may hold: who was where.
SECRETS = ("ysolde", "tristan", "8.2173", "53.1415")


def format_fixes(subjects: int, instants: int = 3, lon: str = "8.2173", lat: str = "53.1415") -> str:
    """Rows of people who all stand at one point."""
    rows = [f"ysolde{s},{START_S + 60 * t},{lon},{lat}" for s in range(subjects) for t in range(instants)]
    return "\n".join(rows) + "\n"


GOOD = HEAD + format_fixes(4)


def make_parquet(**columns: Any) -> bytes:
    """A Parquet file of three fixes, some of whose columns are replaced."""
    whole = {
        "subject": ["ysolde", "tristan", "ysolde"],
        "time": [START_S, START_S, START_S + 60.0],
        "x": [8.2173] * 3,
        "y": [53.1415] * 3,
    }
    file = io.BytesIO()
    pq.write_table(pa.table({**whole, **columns}), file)
    return file.getvalue()
