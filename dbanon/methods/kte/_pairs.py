"""Costs of merging two subjects, computed once: all of them where they are few, else those that are asked for.

In 32 bits, of which 24 count: enough to compare, and half of the memory.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Int
from dbanon.methods.kte import _k_merge
from dbanon.methods.kte._samples import Stretches

MAX_TABULATED_SUBJECTS = 1_500  # all pairs of more subjects are computed when asked for
MAX_TABULATED_SAMPLES = 10**9  # also where merging all pairs would read more samples than this


class Pairs(NamedTuple):
    """What kernels need to cost a pair. Subjects are numbered in the run's order."""

    costs: NDArray[np.float32]  # [n * (n - 1) / 2]: by the greater of two and the lesser; -1 where it is not known
    is_complete: bool  # whether all are known
    samples: Stretches
    begin: Int  # [n] samples of each subject
    end: Int
    scratch: _k_merge.Scratch


def build_pairs(samples: Stretches, most: int) -> Pairs:
    """Prepare the costs of pairs of subjects, in the run's order; compute all at once for up to `most` subjects."""
    n = len(samples.offset) - 1
    begin, end = samples.offset[:-1].copy(), samples.offset[1:].copy()
    lengths = np.sort(end - begin)
    is_complete = n <= most and (n - 1) * int(lengths.sum()) <= MAX_TABULATED_SAMPLES
    # Memory grows with the square of a block alone.
    table = Pairs(
        np.full(n * (n - 1) // 2, np.float32(-1)), is_complete, samples, begin, end,
        _k_merge.make_scratch(int(lengths[-2:].sum()), 0),
    )  # fmt: skip
    if is_complete:
        look_up(table, *np.tril_indices(n, -1))
    return table


def look_up(table: Pairs, a: Int, b: Int) -> NDArray[np.float32]:
    """Cost of pairs (a[i], b[i]); what is not known is computed on all threads and remembered."""
    # A pair has one place whichever comes first; the merge's cost does not depend on the order of inputs.
    greater = np.maximum(a, b)
    place = greater * (greater - 1) // 2 + np.minimum(a, b)
    new, first = np.unique(place[table.costs[place] < 0], return_index=True)
    a, b = (who[table.costs[place] < 0][first] for who in (a, b))
    # Only the merges are shared among threads. The table is read and written by one at a time.
    ends = (table.begin[a], table.end[a], table.begin[b], table.end[b])
    table.costs[new] = _k_merge.compute_pair_costs(table.samples, *ends)
    costs: NDArray[np.float32] = table.costs[place]
    return costs


@compile_kernel
def recall_cost(costs: NDArray[np.float32], a: int, b: int) -> Any:
    """Cost of a pair; negative if it is not known."""
    greater = max(a, b)
    return costs[greater * (greater - 1) // 2 + min(a, b)]


@compile_kernel
def compute_cost(table: Pairs, a: int, b: int) -> Any:
    """Compute and remember the cost of a pair; call it only if it is not known: the call takes longer than a recall."""
    ends = (table.begin[a], table.end[a], table.begin[b], table.end[b])
    n = _k_merge.write_rows_of_two(table.samples, *ends, table.scratch.rows)
    cost = np.float32(_k_merge.cut(table.scratch, n, False))
    greater = max(a, b)
    table.costs[greater * (greater - 1) // 2 + min(a, b)] = cost
    return cost


@compile_kernel
def sum_costs(table: Pairs, members: Int, size: int, one: int, without: int) -> float:
    """Sum of the costs of pairs of one and the first of some members, but itself and another."""
    costs, known = 0.0, table.costs
    for m in range(size):
        if members[m] != without and members[m] != one:
            cost = recall_cost(known, members[m], one)
            costs += cost if cost >= 0 else compute_cost(table, members[m], one)
    return costs


@compile_kernel
def is_among(who: Int, number: int, one: int) -> bool:
    """Whether one is among the first of an array."""
    is_there = False
    for i in range(number):
        is_there |= who[i] == one
    return is_there
