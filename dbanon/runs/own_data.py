"""The data of a run's own time: what its rows and the truth about them are made of, and a digest that knows it again.

What comes or goes outside of that time changes neither, so a release stays measurable after the next load.
"""

import hashlib
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.base.errors import ParameterError
from dbanon.base.trajectory import Float, Trajectories
from dbanon.methods.kernels.considered import select_fixes
from dbanon.postgres import arrow
from dbanon.postgres.connection import Connection, fetch_value
from dbanon.runs import _blocks, reading, stored

_FIXES_AT_ONCE = 1 << 22


class ChangedError(ParameterError):
    """The data that a run was computed from are no longer there."""


def demand_unchanged(connection: Connection, row: stored.RunRow) -> bool:
    """Whether a run's dataset is as it was as a whole; raises `ChangedError` if not, and nobody knows of what time."""
    query = "SELECT revision FROM dbanon.dataset WHERE dataset_id = %s"
    is_whole = bool(row.dataset_revision == fetch_value(connection, query, [row.dataset_id]))
    if not is_whole and row.data_digest is None:  # it was computed by an earlier version
        raise _make_changed_error(row.run_id)
    return is_whole


def _make_changed_error(run_id: int) -> ChangedError:
    return ChangedError(
        f"A run must be evaluated against the data that it was computed from. The data of run {run_id} changed since, "
        f"or some of them were forgotten. Run it again."
    )


def read_own(snapshot: arrow.Snapshot, row: stored.RunRow) -> Trajectories:
    """Read the data of a run's own time; raises `ChangedError` if they are not those that it was computed from."""
    is_whole = demand_unchanged(snapshot.connection, row)
    query = """
        SELECT array[extract(epoch FROM lower(s.span)), extract(epoch FROM upper(s.span))]::float8[]
        FROM dbanon_internal.find_run_span(%s) s (span)"""
    since, until = fetch_value(snapshot.connection, query, [row.run_id])
    data, _ = reading.read_trajectories(snapshot, row.dataset_id)
    if not is_whole and digest_own(data, since, until, row.params) != row.data_digest:
        raise _make_changed_error(row.run_id)
    own = select_fixes(data, mark_own(data, since, until, row.params))
    codes, subject = np.unique(own.subject, return_inverse=True)
    names = None if data.subject_names is None else data.subject_names.take(codes)
    return replace(own, subject=subject, subject_names=names)


def mark_own(data: Trajectories, since: float, until: float, params: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Say which fixes are of a run's own time: bool[m].

    Parameters
    ----------
    since, until : float
        The time of its rows, unix seconds.
    params : mapping
        Of the run: rows about instants are made of fixes up to `max_gap_s` before, and of later ones where positions
        are interpolated, but of none from its `until` on.
    """
    gap = 0 if params.get("align") == "exact" else params.get("max_gap_s") or 0
    after = gap if params.get("align") == "linear" else 0
    end = min(until + after, params.get("until") or math.inf)
    # By slots, as positions are found.
    first, last = (since - gap) // data.grid_s * data.grid_s, math.ceil(end / data.grid_s) * data.grid_s
    return (data.t >= first) & (data.t < last)


def digest_own(data: Trajectories, since: float, until: float, params: Mapping[str, Any]) -> bytes:
    """Hash the fixes of a run's own time, their trajectories and the names of their people.

    Parameters as of `mark_own`. What is not of that time changes nothing.
    """
    kept = mark_own(data, since, until, params)

    def hash_column(values: Float) -> bytes:
        whole = hashlib.sha256()
        for low in range(0, len(values), _FIXES_AT_ONCE):  # no copy of all
            some = slice(low, low + _FIXES_AT_ONCE)
            whole.update(values[some][kept[some]].data)
        return whole.digest()

    counts = np.add.reduceat(kept, data.offset[:-1], dtype=np.int64) if data.fixes else data.offset[:0]
    ids = data.trajectory_id[counts > 0]
    texts = data.subject_names if data.subject_names is not None else pa.array(np.arange(data.subjects)).cast("string")
    names = _blocks.digest_names(ids, data.trajectory_id, data.subject, texts)
    with ThreadPoolExecutor() as pool:
        columns = pool.map(hash_column, (data.t, data.x, data.y))
        return hashlib.sha256(counts[counts > 0].tobytes() + names + b"".join(columns)).digest()
