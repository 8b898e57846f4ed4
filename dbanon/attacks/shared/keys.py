"""Sets of integer keys as sorted arrays."""

import numpy as np

from dbanon.base.trajectory import Int


def sort_distinct(values: Int) -> Int:
    """Sort and keep one of each; `np.unique` hashes first, which takes ten times as long for millions."""
    values = np.sort(values)
    new = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return np.asarray(values[new])


def find(sorted_ids: Int, ids: Int) -> Int:
    """Index of each id in a sorted, non-empty array; -1 where it is not in it."""
    at = np.searchsorted(sorted_ids, ids)
    # An id above all lands on the last one, from which it differs.
    np.minimum(at, len(sorted_ids) - 1, out=at)
    at[sorted_ids[at] != ids] = -1
    return at
