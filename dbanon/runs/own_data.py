"""The data of a run's own time, which its rows are made of and measured against, and the digest that knows them again.

What comes or goes outside of that time changes neither, so a release can be measured after the next load.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from dbanon.base.errors import ParameterError
from dbanon.base.trajectory import Bool, Int, Trajectories
from dbanon.methods.kernels.in_run_time import select_fixes
from dbanon.postgres import arrow
from dbanon.postgres.connection import fetch_value
from dbanon.runs import _blocks, reading, stored

_FIXES_AT_ONCE = 1 << 22


class ChangedError(ParameterError):
    """The data that a run was computed from are no longer there."""


def read_own(snapshot: arrow.Snapshot, row: stored.RunRow) -> Trajectories:
    """Read the data of a run's own time; raises `ChangedError` if they are not those that it was computed from."""
    query = """
        SELECT array[extract(epoch FROM lower(s.span)), extract(epoch FROM upper(s.span))]::bigint[]
        FROM dbanon_internal.find_run_span(%s) s (span)"""
    periods = np.array([fetch_value(snapshot.connection, query, [row.run_id])])
    whole = reading.read_dataset(snapshot, row.dataset_id)["revision"] == row.dataset_revision
    data, _ = reading.read_trajectories(snapshot, row.dataset_id)
    # An earlier version made no digest: then the whole dataset must be as it was.
    if not whole and (row.data_digest is None or digest_own(data, periods, row.params) != row.data_digest):
        raise ChangedError(
            f"A run must be evaluated against the data that it was computed from. The data of run {row.run_id} changed "
            f"since, or some of them were forgotten. Run it again."
        )
    own = select_fixes(data, _mark_own(data, periods, row.params))
    codes, subject = np.unique(own.subject, return_inverse=True)
    return replace(own, subject=subject, subject_names=own.subject_names and own.subject_names.take(codes))


def digest_own(data: Trajectories, periods: Int, params: Mapping[str, Any]) -> bytes:
    """Hash the fixes of a run's own time, their trajectories and the names of their people.

    `periods`: of its rows, begin and end in unix seconds, int64[n, 2]. `params`: of the run.
    """
    kept = _mark_own(data, periods, params)
    # `reduceat` makes whole numbers of all of `kept`, eight bytes each.
    number = np.diff(data.offset) if kept.all() else np.add.reduceat(kept, data.offset[:-1], dtype=np.int64)
    texts = pa.array(np.arange(data.subjects)).cast("string") if data.subject_names is None else data.subject_names
    names = _blocks.digest_names(data.trajectory_id[number > 0], data.trajectory_id, data.subject, texts)
    whole = hashlib.sha256(number[number > 0].tobytes() + names)
    for column in (data.times, data.x, data.y):
        for low in range(0, data.fixes, _FIXES_AT_ONCE):  # no copy of all
            some = kept[low : low + _FIXES_AT_ONCE]
            at: Any = slice(low, low + len(some))
            if len(column) < len(kept):
                at = np.arange(low, low + len(some)) % len(column)
            whole.update(column[at][some].data)
    return whole.digest()


def _mark_own(data: Trajectories, periods: Int, params: Mapping[str, Any]) -> Bool:
    """Say which fixes are in the slots of a run's own time: bool[m].

    Rows about instants are made of fixes up to `max_gap_s` older and, where positions are interpolated, as much newer,
    but of none from the run's `until` on. Rows in windows are of whole ones.
    """
    window_s = params.get("window_s") or 1
    periods = np.array([periods.min() // window_s, -(-periods.max() // window_s)]) * window_s
    gap = 0 if params.get("align") == "exact" else params.get("max_gap_s") or 0
    end = periods.max() + (gap if params.get("align") == "linear" else 0)
    end = min(end, params.get("until") or math.inf)
    slot = data.times / data.grid_s  # whole or not, it is below the same whole numbers
    return data.spread((slot >= (periods.min() - gap) // data.grid_s) & (slot < end // data.grid_s))
