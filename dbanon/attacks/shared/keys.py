"""Sets of integer keys as sorted arrays."""

import numpy as np

from dbanon.trajectory import Int


def distinct(values: Int) -> Int:
    """Sort and keep one of each; `np.unique` hashes first, which takes ten times as long for millions."""
    values = np.sort(values)
    return np.asarray(values[np.diff(values, prepend=values[:1] - 1) != 0])


def find(sorted_ids: Int, ids: Int) -> Int:
    """Index of each id in a sorted, non-empty array; -1 where it is not in it."""
    at = np.minimum(np.searchsorted(sorted_ids, ids), len(sorted_ids) - 1)
    return np.where(sorted_ids[at] == ids, at, -1)
