"""Blocks of near subjects of one window, for computations that compare subjects with one another.

Subjects are halved at the median of what they differ most in, an instant and an axis, until a block would become
smaller than wanted. Invariant: blocks follow from the positions alone; ties go by the subjects' order.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.base import cores
from dbanon.base.trajectory import Int

SAMPLED_INSTANTS = 8
"""Instants, evenly spread, by which subjects are compared first: areas are sums, and those of some instants a bound."""

_MIN_SUBJECTS_FOR_THREADS = 1 << 16
_SUBJECTS_PER_COPY = 1 << 14  # subjects at once
_SAMPLED_SUBJECTS = 2000  # of a block, about: by them is found what it differs most in


def compute_min_block(k: int) -> int:
    """Give the least size of a block: groups near its edge are larger, so there must be many in each."""
    return 2000 + 64 * k


def spread(instants: int) -> Int:
    """Put the instants in an order any first part of which is spread over the window: that of their bits reversed."""
    bits = (instants - 1).bit_length()
    return np.array(sorted(range(instants), key=lambda j: f"{j:0{bits}b}"[::-1]))


def copy_sampled_positions(x: Any, y: Any, who: NDArray[np.integer]) -> NDArray[np.int32]:
    """Copy where subjects are at the few instants: int32[2f, m], x before y, both by instant."""
    few = spread(x.shape[1])[:SAMPLED_INSTANTS]
    columns = np.empty((2 * len(few), len(who)), np.int32)
    for low in range(0, len(who), _SUBJECTS_PER_COPY):
        part = slice(low, low + _SUBJECTS_PER_COPY)
        columns[: len(few), part] = x[who[part]][:, few].T
        columns[len(few) :, part] = y[who[part]][:, few].T
    return columns


def cut(x: Any, y: Any, least: int) -> tuple[NDArray[np.int32], Int]:
    """Cut the subjects of a window into blocks.

    Parameters
    ----------
    x, y : int32[n, l]
        Cells.
    least : int
        Subjects in a block at least, if there are so many; fewer than twice as many are in each, and one more.

    Returns
    -------
    order : int32[n]
        Subjects, block by block.
    offset : int64[b + 1]

    Notes
    -----
    Takes O(n) for each halving, at the evenly spread instants alone.
    """
    blocks = [np.arange(len(x), dtype=np.int32)]
    columns = copy_sampled_positions(x, y, blocks[0])
    # Kept true: the blocks are disjoint, in order, and hold everybody; each round halves those that are too large.
    while max(map(len, blocks)) >= 2 * least:
        halves = cores.run_together(
            [partial(_halve, columns, block, least) for block in blocks], len(x), _MIN_SUBJECTS_FOR_THREADS
        )
        blocks = [half for pair in halves for half in pair]
    return np.concatenate(blocks), np.concatenate([[0], np.cumsum([len(block) for block in blocks])])


def _halve(columns: NDArray[np.int32], block: NDArray[np.int32], least: int) -> list[NDArray[np.int32]]:
    if len(block) < 2 * least:
        return [block]
    some = columns[:, block[:: len(block) // _SAMPLED_SUBJECTS + 1]]
    # Sums of halves of whole numbers, which float64 holds exactly: no rounding decides.
    spread_out = np.abs(some - np.median(some, axis=1, keepdims=True)).sum(axis=1)
    column = columns[int(spread_out.argmax())]
    # Distinct keys, so that the median is one subject, whatever the way it is found.
    key = (column[block].astype(np.int64) << 32) | block
    middle = len(block) // 2
    lower = key < np.partition(key, middle)[middle]
    return [block[lower], block[~lower]]
