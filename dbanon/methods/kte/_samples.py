"""Trajectories as samples of a grid: one ragged row a subject, or a subject and window, and what merging them gives."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dbanon.base.errors import DataError
from dbanon.base.trajectory import Int, Int32, Trajectories, freeze

# Slots (of a second: to 2106) and cells: a span of all slots and cells costs 2^61.
MAX_SLOT, MAX_CELL = 1 << 32, 1 << 26


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """The samples of subjects: each slot and cell once, whatever trajectories they were in.

    Cut into windows, those of a subject in a window stand for a subject.
    """

    subject: Int  # [s]: codes of the subjects, ascending, or ascending in each window
    offset: Int  # [s + 1]: samples of subject i are ``[offset[i], offset[i + 1])``, at least one, by slot, x and y
    slot: Int  # [m]: whole `grid_s` since 1970
    x: Int32  # [m]; x, y: indices of cells of `grid_m`
    y: Int32  # [m]
    grid_s: int
    grid_m: float
    window: Int | None = None  # [s]: whole `window_s` since 1970, ascending; both None where there are no windows
    window_s: int | None = None

    def __post_init__(self) -> None:
        freeze(self)

    @property
    def window_ends(self) -> Int:
        """Subjects of window i are ``[window_ends[i], window_ends[i + 1])``: int64[w + 1]."""
        window = np.zeros(len(self.subject), np.int64) if self.window is None else self.window
        return np.append(np.flatnonzero(np.diff(window, prepend=window[:1] - 1)), len(window))


@dataclass(frozen=True, kw_only=True, eq=False)
class Merged:
    """Generalised samples of records, in order of time; those of one record do not overlap."""

    offset: Int  # [g + 1]: those of record i are ``[offset[i], offset[i + 1])``
    first: Int  # [c]; first, last: the first and the last slot, both inside
    last: Int  # [c]
    box: Int  # [c, 4]: x0, y0, x1, y1 of cells, all inside

    def __post_init__(self) -> None:
        freeze(self)


def snap_fixes(data: Trajectories, grid_s: int, grid_m: float) -> Samples:
    """Snap every fix to its slot and cell.

    Raises `DataError` if fixes lie too far away to be counted in cells or slots.
    """
    subject = np.repeat(data.subject, np.diff(data.offset))
    columns = [np.floor(values / side) for values, side in ((data.t, grid_s), (data.x, grid_m), (data.y, grid_m))]
    if any(np.abs(v).max(initial=0) >= far for v, far in zip(columns, (MAX_SLOT, MAX_CELL, MAX_CELL), strict=True)):
        raise DataError(
            f"Fixes must lie within 2^32 slots of {grid_s} s and 2^26 cells of {grid_m:g} m. Some lie further away."
        )
    slot, x, y = columns[0].astype(np.int64), columns[1].astype(np.int32), columns[2].astype(np.int32)
    del columns
    if not _is_sorted(subject, slot):
        order = np.lexsort((y, x, slot, subject))
        subject, slot, x, y = subject[order], slot[order], x[order], y[order]
    # The paper has sets of samples (Section III-A): fixes of one slot and cell are one sample. Sorted, they are
    # neighbours.
    new = np.ones(len(slot), bool)
    new[1:] = False
    for values in (subject, slot, x, y):
        new[1:] |= np.asarray(values[1:] != values[:-1])
    subject, slot, x, y = subject[new], slot[new], x[new], y[new]
    codes, first = np.unique(subject, return_index=True)
    return Samples(
        subject=codes, offset=np.append(first, len(subject)), slot=slot, x=x, y=y, grid_s=grid_s, grid_m=grid_m
    )


def cut_windows(samples: Samples, window_s: int) -> Samples:
    """Cut the samples of each subject at multiples of `window_s`, which is one of `grid_s`; sorted by window."""
    owner = np.repeat(np.arange(len(samples.subject)), np.diff(samples.offset))
    window = samples.slot // (window_s // samples.grid_s)
    order = np.argsort(window, kind="stable")
    owner, window = owner[order], window[order]
    new = (np.diff(window, prepend=window[0] - 1) != 0) | (np.diff(owner, prepend=-1) != 0)
    first = np.flatnonzero(new)
    return replace(
        samples,
        subject=samples.subject[owner[first]],
        window=window[first],
        window_s=window_s,
        offset=np.append(first, len(order)),
        slot=samples.slot[order],
        x=samples.x[order],
        y=samples.y[order],
    )


def find_paths(data: Trajectories, samples: Samples) -> tuple[Int, Int]:
    """Find the indices of trajectories and of the subjects whose samples they have, window by window: int64[p] each."""
    if samples.window is None or samples.window_s is None:
        return np.arange(len(data.subject)), np.searchsorted(samples.subject, data.subject)
    path = np.repeat(np.arange(len(data.subject)), np.diff(data.offset))
    window = np.floor(data.t / samples.grid_s).astype(np.int64) // (samples.window_s // samples.grid_s)
    new = (np.diff(window, prepend=window[0] - 1) != 0) | (np.diff(path, prepend=-1) != 0)
    path, key, codes = path[new], window[new] - samples.window[0], int(data.subject.max()) + 1
    known = (samples.window - samples.window[0]) * codes + samples.subject
    return path, np.searchsorted(known, key * codes + data.subject[path])


def _is_sorted(subject: Int, slot: Int) -> bool:
    """Whether samples come by subject and then by slot, no two in one slot: as trajectories of seldom fixes do."""
    later = subject[1:] > subject[:-1]
    later |= (subject[1:] == subject[:-1]) & (slot[1:] > slot[:-1])
    return bool(later.all())


class Stretches(NamedTuple):
    """Some stretches of samples alone: what a task and kernels need of the data, and no names."""

    offset: Int  # [p + 1]: stretch i is ``[offset[i], offset[i + 1])``
    slot: Int
    x: Int32
    y: Int32


def take_stretches(samples: Samples | Stretches) -> Stretches:
    """Give all samples in the form that kernels take."""
    return Stretches(samples.offset, samples.slot, samples.x, samples.y)


def select_stretches(samples: Samples, begin: Int, end: Int) -> Stretches:
    """Take the stretches of samples from ``begin[i]`` to ``end[i]``, in that order."""
    length = end - begin
    offset = np.concatenate([[0], np.cumsum(length)])
    at = np.repeat(begin - offset[:-1], length) + np.arange(offset[-1])
    return Stretches(offset, samples.slot[at], samples.x[at], samples.y[at])
