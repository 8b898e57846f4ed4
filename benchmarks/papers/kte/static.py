"""Static generalisation: every sample snapped to one coarse slot and cell, alike with others or not.

Zang, Bolot: Anonymization of location data does not work, MobiCom 2011; de Montjoye and others: Unique in the Crowd,
2013. It does not reach k for all subjects, and those it does not reach are left out.
"""

from itertools import pairwise

import numpy as np

from dbanon.base.trajectory import Int
from dbanon.methods.kte._samples import Merged, Samples

LEVELS = {"2h-4km": (2 * 3600, 4_000.0), "4h-10km": (4 * 3600, 10_000.0), "8h-20km": (8 * 3600, 20_000.0)}
"""Seconds and metres of each level, as the paper has them."""


def group_statically(samples: Samples, k: int, level_s: int, level_m: float) -> tuple[Int, Merged, float]:
    """Group subjects whose generalised trajectories are identical.

    Parameters
    ----------
    samples : Samples
    k : int
    level_s, level_m : int, float
        Taken to the nearest whole slots and cells.

    Returns
    -------
    group : int64[s]
        Number of the group of each subject, in the order of the generalised trajectories; -1 where fewer than k
        subjects share one.
    merged : Merged
        One record a group, one row a coarse slot: the rectangle of all the coarse cells in it.
    success : float
        Share of subjects that are in a group; 0 where there is none.
    """
    slots, cells = count_per_coarse(samples, level_s, level_m)
    offset, slot, x, y = _generalise(samples, slots, cells)
    alike = _number_alike(offset, slot, x, y)
    count = np.bincount(alike, minlength=1)
    number = np.where(count >= k, np.cumsum(count >= k) - 1, -1)
    group = number[alike] if len(alike) else np.zeros(0, np.int64)
    first = np.unique(group, return_index=True)[1][int((group < 0).any()) :]  # the first subject of each group
    merged = _make_rows(offset, (slot, x, y), first, slots=slots, cells=cells)
    return group, merged, float((group >= 0).mean()) if len(group) else 0.0


def count_per_coarse(samples: Samples, level_s: int, level_m: float) -> tuple[int, int]:
    """Slots and cells of the samples that a coarse one spans, at least one."""
    return max(1, round(level_s / samples.grid_s)), max(1, round(level_m / samples.grid_m))


def _generalise(samples: Samples, slots: int, cells: int) -> tuple[Int, Int, Int, Int]:
    """Coarse samples, each once a subject, sorted by slot, x and y: offset, slot, x, y."""
    subject = np.repeat(np.arange(len(samples.subject)), np.diff(samples.offset))
    columns = subject, samples.slot // slots, samples.x // cells, samples.y // cells
    order = np.lexsort(columns[::-1])
    table = np.column_stack(columns)[order]
    new = np.ones(len(table), bool)
    new[1:] = (table[1:] != table[:-1]).any(1)
    subject, slot, x, y = table[new].T
    return np.searchsorted(subject, np.arange(len(samples.subject) + 1)), slot, x, y


def _number_alike(offset: Int, slot: Int, x: Int, y: Int) -> Int:
    """Number of each subject's generalised trajectory: equal ones have equal numbers, from 0."""
    table = np.column_stack([slot, x, y])
    # Whole contents are compared, a bytes object a subject: nothing rests on a hash.
    contents = [table[low:high].tobytes() for low, high in pairwise(offset.tolist())]
    order = {content: number for number, content in enumerate(sorted(set(contents)))}
    return np.array([order[content] for content in contents], np.int64)


def _make_rows(offset: Int, coarse: tuple[Int, Int, Int], subjects: Int, *, slots: int, cells: int) -> Merged:
    """One row a coarse slot of each of the subjects, in slots and cells of the samples."""
    slot, x, y = coarse
    size = offset[subjects + 1] - offset[subjects]
    begin = np.cumsum(size) - size
    which = np.arange(int(size.sum())) + np.repeat(offset[subjects] - begin, size)
    record, slot, x, y = np.repeat(np.arange(len(subjects)), size), slot[which], x[which], y[which]
    new = np.ones(len(which), bool)
    new[1:] = (record[1:] != record[:-1]) | (slot[1:] != slot[:-1])
    at = np.flatnonzero(new)
    corners = [np.minimum.reduceat(v, at) * cells if len(at) else v for v in (x, y)]
    far = [np.maximum.reduceat(v, at) * cells + cells - 1 if len(at) else v for v in (x, y)]
    return Merged(
        offset=np.searchsorted(record[at], np.arange(len(subjects) + 1)), first=slot[at] * slots,
        last=slot[at] * slots + slots - 1, box=np.column_stack([*corners, *far]),
    )  # fmt: skip
