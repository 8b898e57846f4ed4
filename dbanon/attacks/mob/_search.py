"""Says which records a person fits, and finds all: from the own instant with the fewest rows that hold it on.

Dropping what is found beyond a cap can only make the attack refuse, never pass.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dbanon.attacks.mob._rows import Own, Positions, Shown, map_parts
from dbanon.attacks.shared.replay import join_ranges
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Bool, Int, Int32

PAIRS_PER_PART = 1 << 16  # looked at together

MAX_EDGES = 1024
"""Of a person: the first that are found."""

MAX_CANDIDATES = 1 << 18
"""Candidates of a person."""


class Scene(NamedTuple):
    """Who was where, what is shown, and what is known of whom."""

    at: Positions
    found: Shown
    own: Own


class _Index(NamedTuple):
    """The rows of an instant by region."""

    row: Int  # [m]: subjects whose records have a row, by region: those of region g are ``row[first[g]:first[g + 1]]``
    first: Int  # [g + 1]
    wide: Int  # [w]: indices of the regions of several cells
    wide_box: Int32  # [w, 4]
    single: Int  # [s]: indices of the regions of one cell, by `single_key`, that cell as a number
    single_key: Int  # [s]


def mark_fits(scene: Scene, person: Int, owner: Int) -> Bool:
    """Say of pairs whether the person fits the owner's record."""
    fits = map_parts(len(person), PAIRS_PER_PART, lambda low, high: _fit(scene, person[low:high], owner[low:high]))
    return np.concatenate([np.empty(0, bool), *fits])


@compile_kernel
def _fit(scene: Scene, person: Int, owner: Int) -> Bool:
    fit = np.empty(len(person), np.bool_)
    for pair in range(len(person)):
        fit[pair] = _fits(scene, person[pair], owner[pair])
    return fit


def search(scene: Scene, wanted: Int) -> Int:
    """Find the records that each of some persons with own instants fits, as sorted ``person * n + owner``."""
    at, found, own, times = scene.at, scene.found, scene.own, scene.at.x.shape[1]
    number = np.diff(own.offset)[wanted]
    person = np.repeat(wanted, number)
    instant = own.instant[join_ranges(own.offset[wanted], number)].astype(np.int64)
    order, cut = _sort_by_instant(instant, times)

    def count(t: int) -> Int:
        who = person[order[cut[t] : cut[t + 1]]]
        return _count_rows_holding(_index_rows(found, t), at.x[who, t], at.y[who, t])

    rows = np.empty(len(order), np.int64)
    rows[order] = _map_instants(cut, count)
    # The instant with the fewest rows of each person, the first of several.
    least = np.lexsort((instant, rows, person))
    least = least[np.diff(person[least], prepend=-1) != 0]
    by_pivot, cut_pivot = _sort_by_instant(instant[least], times)

    # Each person is looked for at that instant alone: whatever it fits must hold it there as well.
    def gather(t: int) -> Int:
        who = person[least[by_pivot[cut_pivot[t] : cut_pivot[t + 1]]]]
        return _find_records(scene, _index_rows(found, t), who, t)

    return np.sort(_map_instants(cut_pivot, gather))


def _sort_by_instant(instant: Int, times: int) -> tuple[Int, Int]:
    """Sort by instant: the order, and where each instant begins in it."""
    order = np.argsort(instant, kind="stable")
    return order, np.searchsorted(instant[order], np.arange(times + 1))


def _map_instants(cut: Int, task: Callable[[int], Int]) -> Int:
    """Do a task for each instant that has any work, and join what it gives."""
    some = np.flatnonzero(np.diff(cut))
    found = map_parts(len(some), 1, lambda low, _: task(int(some[low])))
    return np.concatenate([np.empty(0, np.int64), *found])


def _index_rows(found: Shown, t: int) -> _Index:
    column = found.region[:, t]
    # Regions of one cell, which may be as many as people, are found by that cell; only the wider ones are gone through.
    row = np.flatnonzero(found.published & (column >= 0))
    row = row[np.argsort(column[row], kind="stable")]
    region = column[row]
    first = np.flatnonzero(np.diff(region, prepend=-1) != 0)
    box = found.box[region[first]]
    alone = (box[:, 0] == box[:, 2]) & (box[:, 1] == box[:, 3])
    key = _encode_cells(box[alone, 0].astype(np.int64), box[alone, 1].astype(np.int64))
    order = np.argsort(key, kind="stable")
    return _Index(
        row=row,
        first=np.append(first, len(row)),
        wide=np.flatnonzero(~alone),
        wide_box=np.ascontiguousarray(box[~alone]),
        single=np.flatnonzero(alone)[order],
        single_key=key[order],
    )


def _encode_cells(x: Int, y: Int) -> Int:
    # A person's y is from 0 to 2^30 + 1 (`demand_near`) and a region's from -2 to 2^31 - 1 (`_find_boxes`): they differ
    # by less than 2^31, so where their keys are equal, x and y are.
    return (x << 31) + y


@compile_kernel
def _fits(scene: Scene, i: int, j: int) -> bool:
    """Whether the record of j holds i at each instant that is known of i."""
    offset, instant = scene.own
    x, y, region, box = scene.at.x, scene.at.y, scene.found.region, scene.found.box
    for q in range(offset[i], offset[i + 1]):
        t = instant[q]
        r = region[j, t]
        if r < 0 or not (box[r, 0] <= x[i, t] <= box[r, 2] and box[r, 1] <= y[i, t] <= box[r, 3]):
            return False
    return True


@compile_kernel
def _find_holding(index: _Index, x: int, y: int, holding: Int) -> int:
    """Write the regions that hold a cell; say how many there are."""
    _, _, wide, wide_box, single, single_key = index
    number = 0
    # Each region is wide or single, and none stands twice: there is room for all.
    for g in range(len(wide)):
        if wide_box[g, 0] <= x <= wide_box[g, 2] and wide_box[g, 1] <= y <= wide_box[g, 3]:
            holding[number] = wide[g]
            number += 1
    key = (np.int64(x) << 31) + y
    at = np.searchsorted(single_key, key)
    while at < len(single) and single_key[at] == key:
        holding[number] = single[at]
        number += 1
        at += 1
    return number


@compile_kernel
def _count_rows_holding(index: _Index, x: Int32, y: Int32) -> Int:
    """Count the rows of an instant that hold each cell."""
    first, rows, holding = index.first, np.zeros(len(x), np.int64), np.empty(len(index.first), np.int64)
    for p in range(len(x)):
        for h in range(_find_holding(index, x[p], y[p], holding)):
            rows[p] += first[holding[h] + 1] - first[holding[h]]
    return rows


@compile_kernel
def _find_records(scene: Scene, index: _Index, who: Int, t: int) -> Int:
    """Find the records that persons fit, as ``person * n + owner``, by the rows of one of their own instants."""
    x, y, row, first = scene.at.x, scene.at.y, index.row, index.first
    edges = [np.int64(0) for _ in range(0)]
    holding = np.empty(len(first), np.int64)
    for i in who:
        found, looked_at = 0, 0
        # Of the records whose rows of this instant hold the person, those that do at all its other instants.
        for h in range(_find_holding(index, x[i, t], y[i, t], holding)):
            for j in row[first[holding[h]] : first[holding[h] + 1]]:
                # Leaves this region; each later one is left at its first record.
                if found == MAX_EDGES or looked_at == MAX_CANDIDATES:
                    break
                looked_at += 1
                if _fits(scene, i, j):
                    edges.append(i * len(x) + j)
                    found += 1
    result = np.empty(len(edges), np.int64)
    for at in range(len(edges)):
        result[at] = edges[at]
    return result
