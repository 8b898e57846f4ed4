"""GenAG as the paper prints it: the nearest candidates of each subject, found by a threshold.

Algorithm 1 of Yarovoy, Bonchi, Lakshmanan, Wang: Anonymizing Moving Objects: How to Hide a MOB in a Crowd?, EDBT 2009.
It finds the same lists as `dbanon.methods.mob._gen_ag.find_nearest`, which looks at all candidates. It is no algorithm
of a run: a benchmark times the two searches beside each other.
"""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.base import cores
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Int
from dbanon.methods.mob import _gen_ag
from dbanon.methods.mob._gen_ag import INFINITE_SUM, Asking, Heap, Objects, sort_heap, take_one
from dbanon.methods.mob._positions import Positions


def find_nearest_by_threshold(
    positions: Positions, place: Int, who: Int, number: int, among: NDArray[np.bool_]
) -> NDArray[np.int32]:
    """Find the nearest by the paper's Algorithm 1: best positions in lists sorted by place, one list an instant.

    Departs from the paper in its threshold. As printed, the threshold is the deviation at the end "seen last" of the
    stretch of each list that has been seen. Once random accesses have moved the other end, a nearer candidate may still
    be unseen. Here the threshold is the deviation of the nearer of the next unseen above and below.

    Notes
    -----
    Parameters and result are those of `dbanon.methods.mob._gen_ag.find_nearest`. Holds the lists, of 8 or 12 m T bytes,
    and 4 m bytes for each thread.
    """
    order = _gen_ag.order_candidates(positions, among)
    column, instants = _gen_ag.number_columns(positions, who)
    lists = sort_lists(positions, place, order, instants)
    subjects = _gen_ag.gather_subjects(positions, place, who, column)
    nearest = _gen_ag.Nearest.make_empty(len(who), number)
    objects = Objects(positions.there, positions.own, place)

    def task(low: int, high: int) -> None:
        _search_by_threshold(objects, *subjects, order, *lists, *nearest, low, high)

    cores.share_work(np.diff(subjects.since) * len(order), task, _gen_ag.MIN_ADDITIONS_PER_THREAD)
    return nearest.find_rows(order)


def sort_lists(
    positions: Positions, place: Int, order: Int, instants: Int
) -> tuple[NDArray[np.int32], NDArray[np.integer], Int]:
    """Sort candidates by place at each instant: which, where, and how many are present; the others come after these."""
    shape = (len(instants), len(order))
    listed, where, present = np.empty(shape, np.int32), np.empty(shape, place.dtype), np.empty(len(instants), np.int64)

    def task(low: int, high: int) -> None:
        for column in range(low, high):
            t = instants[column]
            there = (positions.there[order, t >> 6] >> np.uint64(t & 63)) & np.uint64(1)
            listed[column] = np.lexsort((place[order, t], there == 0))
            where[column] = place[order[listed[column]], t]
            present[column] = there.sum()

    cores.share_work(np.full(len(instants), len(order)), task, _gen_ag.MIN_ADDITIONS_PER_THREAD >> 6)
    return listed, where, present


@compile_kernel
def _search_by_threshold(
    objects: Objects, who: Any, since: Any, when: Any, line: Any, here: Any, order: Any, listed: Any,
    where: Any, present: Any, total: Any, which: Any, low: Any, high: Any,
) -> None:  # fmt: skip
    seen = np.full(len(order), -1, np.int32)  # by which subject last, in any list
    above, below = np.empty(len(listed), np.int64), np.empty(len(listed), np.int64)
    for w in range(low, high):
        mine, lists = here[since[w] : since[w + 1]], line[since[w] : since[w + 1]]
        asking, heap = Asking(who[w], when[since[w] : since[w + 1]], mine), Heap(total[w], which[w])
        for at in range(len(lists)):
            below[at] = np.searchsorted(where[lists[at], : present[lists[at]]], mine[at])
            above[at] = below[at] - 1
        threshold = np.int64(0)
        # No unseen candidate is nearer than the threshold; one as far as the furthest taken may precede it in order.
        while threshold <= total[w, 0] and threshold != INFINITE_SUM:
            for at in range(len(lists)):
                one = lists[at]
                # Sorted access at the nearer end; both are at the next unseen, wherever random accesses have been.
                up, down = _move_ends(listed[one], where[one], present[one], seen, w, mine[at], above, below, at)
                if min(up, down) < INFINITE_SUM:
                    index = listed[one, above[at] if up <= down else below[at]]
                    seen[index] = w
                    take_one(objects, asking, order[index], index, heap)
            threshold = np.int64(0)
            for at in range(len(lists)):
                one = lists[at]
                up, down = _move_ends(listed[one], where[one], present[one], seen, w, mine[at], above, below, at)
                if min(up, down) == INFINITE_SUM:  # candidates present at all own instants are in every list
                    threshold = np.int64(INFINITE_SUM)
                    break
                threshold += min(up, down)
        sort_heap(heap)


@compile_kernel
def _move_ends(
    listed: Any, where: Any, present: Any, seen: Any, w: Any, mine: Any, above: Any, below: Any, at: Any
) -> Any:
    """Move both ends of the seen stretch of a list to the next unseen.

    The deviations there are `INFINITE_SUM` past the list.
    """
    while above[at] >= 0 and seen[listed[above[at]]] == w:
        above[at] -= 1
    while below[at] < present and seen[listed[below[at]]] == w:
        below[at] += 1
    up, down = np.int64(INFINITE_SUM), np.int64(INFINITE_SUM)
    if above[at] >= 0:
        up = np.int64(mine) - np.int64(where[above[at]])
    if below[at] < present:
        down = np.int64(where[below[at]]) - np.int64(mine)
    return up, down
