"""Blocks of subjects who are near one another: cut along planes, and a second time along others.

Each block is grouped by itself, so groups at a border are worse than they need be. The second cut puts most of them,
whole, into the middle of a block. Invariant: each subject, or each group, is in one block of each cut.
"""

import numpy as np

from dbanon.base.trajectory import Float, Int
from dbanon.methods.kte import _near
from dbanon.methods.kte._samples import Samples

MAX_BLOCK_SUBJECTS = 4096  # more would take longer each, fewer leave more at the borders
_TIME_BINS = 4


def locate_subjects(samples: Samples, order: Int) -> Float:
    """Where subjects are in each quarter of the time, and how active: float64[n, 9]."""
    signature = _near.compute_signatures(samples, _TIME_BINS)[order].astype(np.float64)
    return np.hstack([signature[:, 0], signature[:, 1], signature[:, 2].mean(axis=1, keepdims=True)])


def cut(place: Float, most: int, whole: int) -> list[Int]:
    """Cut into blocks of at most so many, across the widest spread each time; all but one are multiples of `whole`.

    Of equal places the lesser number comes first. Each block is in ascending order.
    """
    blocks, todo = [], [np.arange(len(place))]
    while todo:
        some = todo.pop()
        if len(some) < max(most + 1, 2 * whole):
            blocks.append(np.sort(some))
            continue
        axis = np.argmax(place[some].std(axis=0))
        some = some[np.argsort(place[some, axis], kind="stable")]
        half = len(some) // (2 * whole) * whole
        todo += [some[half:], some[:half]]
    return blocks


def turn_places(place: Float) -> Float:
    """Turn places by 45 degrees in each plane, so that the next cut runs across the borders of the first."""
    x, y, other = place[:, :_TIME_BINS], place[:, _TIME_BINS : 2 * _TIME_BINS], place[:, 2 * _TIME_BINS :]
    return np.hstack([(x + y) / np.sqrt(2), (x - y) / np.sqrt(2), other])
