"""Writes cloaks and members by binary COPY, and refuses a run that would be too large before it writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql

from dbanon import binary_copy
from dbanon._progress import Progress, silent
from dbanon.connection import Connection, errors_translated
from dbanon.errors import StoreError
from dbanon.reading import DatasetRow
from dbanon.trajectory import Cloaks

LARGEST_RUN_BYTES = 50 * 1024**3
"""A run that would write more than this is refused before it writes."""

_CLOAK_BYTES = 260  # a row of dbanon.cloak without extra, and its place in the primary key
_MEMBER_BYTES = 90


def write_cloaks(
    connection: Connection, run_id: int, dataset: DatasetRow, cloaks: Cloaks, progress: Progress = silent
) -> None:
    """Write a run's cloaks and members by binary COPY, in the caller's transaction.

    Raises
    ------
    StoreError
        If they would take more than `LARGEST_RUN_BYTES`; nothing is written then.
    """
    _check_size(cloaks)
    with errors_translated():
        columns = "run_id, record_id, seq, period, region, crowd, subjects, extra"
        with copying(connection, f"dbanon.cloak ({columns})") as copy:
            extras = pa.array([*cloaks.extras, None], pa.string())
            for part in binary_copy.batches(len(cloaks.record_id)):
                copy.write(memoryview(binary_copy.rows(_cloak_rows(run_id, dataset.srid, cloaks, extras, part))))
                progress("writing cloaks", part.stop, len(cloaks.record_id))
        with copying(connection, "dbanon.membership (run_id, record_id, trajectory_id)") as copy:
            for part in binary_copy.batches(len(cloaks.member_record)):
                record, trajectory = cloaks.member_record[part], cloaks.member_trajectory[part]
                copy.write(memoryview(binary_copy.rows([np.full(len(record), run_id, np.int64), record, trajectory])))


@contextmanager
def copying(connection: Connection, target: str) -> Iterator[psycopg.Copy]:
    """Open a binary COPY into a table and columns named by the program; header and trailer are written here."""
    statement = sql.SQL(cast("Any", f"COPY {target} FROM STDIN (FORMAT binary)"))
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.write(binary_copy.HEADER)
        yield copy
        copy.write(binary_copy.TRAILER)


def _cloak_rows(run_id: int, srid: int, cloaks: Cloaks, extras: pa.Array, part: slice) -> list[binary_copy.Column]:
    record = np.asarray(cloaks.record_id[part], np.int64)
    none = len(extras) - 1
    extra = np.full(len(record), none)
    if cloaks.extra is not None:
        extra = np.where(cloaks.extra[part] < 0, none, cloaks.extra[part])
    return [
        np.full(len(record), run_id, np.int64),
        record,
        cloaks.seq[part].astype(np.int32),
        binary_copy.periods(cloaks.start[part], cloaks.end[part]),
        binary_copy.rectangles(cloaks.bounds[part], srid),
        cloaks.crowd[part].astype(np.int32),
        cloaks.subjects[part].astype(np.int32),
        binary_copy.jsonb(extras.take(pa.array(extra))),
    ]


def _check_size(cloaks: Cloaks) -> None:
    size = len(cloaks.record_id) * _CLOAK_BYTES + len(cloaks.member_record) * _MEMBER_BYTES
    if cloaks.extra is not None and cloaks.extras:
        length = np.array([len(text) for text in cloaks.extras], np.int64)
        size += int(length[cloaks.extra[cloaks.extra >= 0]].sum())
    if size > LARGEST_RUN_BYTES:
        raise StoreError(
            f"A run may write at most {LARGEST_RUN_BYTES / 1024**3:.0f} GB. This one would write "
            f"{size / 1024**3:.0f} GB in {len(cloaks.record_id)} cloaks; use fewer instants or a shorter time."
        )
