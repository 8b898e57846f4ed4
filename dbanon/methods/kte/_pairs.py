"""Costs of merging two subjects, computed once: all of them where they are few, else those that are asked for."""

from typing import Any, NamedTuple

import numpy as np

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Float, Int
from dbanon.methods.kte import _k_merge
from dbanon.methods.kte._samples import Stretches

MAX_TABULATED_SUBJECTS = 1_500  # all pairs of more subjects are computed when asked for
MAX_TABULATED_SAMPLES = 10**9  # also where merging all pairs would read more samples than this
_SLOTS_PER_SUBJECT = 256  # of the table of remembered costs, for each subject


class Pairs(NamedTuple):
    """What kernels need to cost a pair. Subjects are numbered in the run's order.

    `all` is a matrix, or has no entry; `keys` and `values` are a table by open addressing, keys -1 where it is free.
    """

    all: Float  # [n, n] or [0, 0]
    keys: Int
    values: Float
    samples: Stretches
    begin: Int  # [n] samples of each subject
    end: Int
    scratch: _k_merge.Scratch


def build_pairs(samples: Stretches, most: int) -> Pairs:
    """Prepare the costs of pairs of subjects, in the run's order; compute all at once for up to `most` subjects."""
    n = len(samples.offset) - 1
    begin, end = samples.offset[:-1].copy(), samples.offset[1:].copy()
    lengths = np.sort(end - begin)
    tabulated = n <= most and (n - 1) * int(lengths.sum()) <= MAX_TABULATED_SAMPLES
    size = 1 if tabulated else 1 << int(n * _SLOTS_PER_SUBJECT - 1).bit_length()
    made = Pairs(
        all=np.empty((0, 0)), keys=np.full(size, -1), values=np.empty(size), samples=samples, begin=begin, end=end,
        scratch=_k_merge.make_scratch(int(lengths[-2:].sum()), 0),
    )  # fmt: skip
    if not tabulated:
        return made
    a, b = np.triu_indices(n, 1)
    matrix = np.zeros((n, n))
    matrix[a, b] = _k_merge.compute_pair_costs(samples, begin[a], end[a], begin[b], end[b])
    matrix += matrix.T
    return made._replace(all=matrix)


def look_up(samples: Stretches, table: Pairs, a: Int, b: Int) -> Float:
    """Cost of pairs (a[i], b[i]); what is not known is computed on all threads and remembered."""
    if len(table.all):
        return np.asarray(table.all[a, b], np.float64)
    low, high = np.minimum(a, b), np.maximum(a, b)
    # A pair has one key whichever comes first; the merge's cost does not depend on the order of inputs.
    key = np.unique(low * len(table.begin) + high)
    # Only the merges are shared among threads. The table is read and written by one at a time, here and in
    # `compute_cost`: two could take the same free place.
    costs = np.empty(len(key))
    _recall(table.keys, table.values, key, costs)
    new = key[np.isnan(costs)]
    first, second = new // len(table.begin), new % len(table.begin)
    ends = (table.begin[first], table.end[first], table.begin[second], table.end[second])
    costs[np.isnan(costs)] = cost = _k_merge.compute_pair_costs(samples, *ends)
    _remember_all(table.keys, table.values, new, cost)
    return np.asarray(costs[np.searchsorted(key, low * len(table.begin) + high)], np.float64)


@compile_kernel
def compute_cost(table: Pairs, a: int, b: int) -> Any:
    """Cost of a pair, computed here and remembered if it was not known."""
    if len(table.all):
        return table.all[a, b]
    key = min(a, b) * len(table.begin) + max(a, b)
    place = _find_place(table.keys, key)
    if place >= 0 and table.keys[place] == key:
        return table.values[place]
    ends = (table.begin[a], table.end[a], table.begin[b], table.end[b])
    n = _k_merge.write_rows_of_two(table.samples, *ends, table.scratch.rows)
    value = np.float64(_k_merge.cut(table.scratch, n))
    if place >= 0:
        table.keys[place], table.values[place] = key, value
    return value


@compile_kernel
def sum_costs(table: Pairs, members: Int, size: int, one: int, without: int) -> float:
    """Sum of the costs of pairs of one and the first of some members, but itself and another."""
    costs = 0.0
    for m in range(size):
        if members[m] != without and members[m] != one:
            costs += compute_cost(table, members[m], one)
    return costs


@compile_kernel
def is_among(who: Int, number: int, one: int) -> bool:
    """Whether one is among the first of an array."""
    is_there = False
    for i in range(number):
        is_there |= who[i] == one
    return is_there


@compile_kernel
def _find_place(keys: Int, key: int) -> Any:
    """Where a key is or may be put; -1 where there is no room near its place."""
    mask = np.uint64(len(keys) - 1)
    # Fibonacci hashing: the high bits of a product with 2^64 / golden ratio.
    at = (np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)
    # Keys are never removed, so a key lies before the first free place. A cost without room is computed each time.
    for step in range(64):
        place = np.int64((at + np.uint64(step)) & mask)
        if keys[place] == -1 or keys[place] == key:
            return place
    return np.int64(-1)


@compile_kernel
def _recall(keys: Int, values: Float, key: Int, costs: Float) -> None:
    # Costs are whole numbers, never NaN, so NaN stands for those that are not known.
    for i in range(len(key)):
        place = _find_place(keys, key[i])
        costs[i] = values[place] if place >= 0 and keys[place] == key[i] else np.nan


@compile_kernel
def _remember_all(keys: Int, values: Float, key: Int, cost: Float) -> None:
    for i in range(len(key)):
        place = _find_place(keys, key[i])
        if place >= 0:
            keys[place], values[place] = key[i], cost[i]
