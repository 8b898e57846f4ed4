"""The rows of a group: periods that hold a fix of each member and together lose least.

Of all ways to cut the fixes of a group, in order of time, into stretches that each hold a fix of every member, it finds
the one of the least cost: the sum over the stretches of fixes times loss. The loss is that of section III-B, of a fix
that by itself takes no time and no space: each of both parts up to its full loss. Fixes of one slot are never parted.

A stretch that could be cut in two such stretches never costs less than both: neither has more fixes, time or atoms. So,
as in k-merge (`dbanon.methods.kte`), let c(j) be the last slot i for which the slots i to j hold every member: a
stretch of the optimum that ends with slot j starts with a slot i, c(c(j) - 1) < i <= c(j).
"""

from typing import Any, NamedTuple

import numpy as np

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Bool, Float, Int, Int32, freeze_arrays
from dbanon.methods.semantic._losses import Scale, Track


class _Fixes(NamedTuple):
    """The fixes of a group, and where each slot begins."""

    area: Int  # [a]: of each atom
    slot: Int  # [m]
    atom: Int32  # [m]
    order: Int  # [m]: fixes by slot
    first: Int  # [c + 1]: slot j has the fixes ``order[first[j]:first[j + 1]]``


class _Met(NamedTuple):
    """Where atoms were met, as long as c(j) stays."""

    held: Int  # [a], by atom: c(j), where a slot from there to j has it
    passed: Int  # [a], by atom: c(j), where a slot before it has it
    new: Bool  # [m], by place in `order`, of slots before c(j): whether no slot between has its atom


def cut_rows(area: Int, scale: Scale, offset: Int, slot: Int, atom: Int32) -> Track:
    """Cut the fixes of a group into the rows that lose least.

    Parameters
    ----------
    area : int64[a]
        Of each atom, square millimetres.
    offset : int64[n + 1]
        The fixes of member i are those from ``offset[i]`` to ``offset[i + 1]``, at least one.
    slot : int64[m]
        Ascending within a member.
    atom : int32[m]

    Returns
    -------
    Track
        Rows from their first fix to their last. Of equally cheap ones those that start latest, decided from the last
        to the first; the order of members does not matter.

    Notes
    -----
    O(L) time a fix at worst, where L is the longest run of fixes of one member among others'; hardly any where members
    alternate. Memory: 100 bytes a fix.
    """
    # Sorted here, since to compile a sort takes two seconds.
    track: Track = _cut_rows(area, scale, offset, slot, atom, np.argsort(slot, kind="stable"))
    return freeze_arrays(track)


@compile_kernel
def _cut_rows(area: Int, scale: Scale, offset: Int, slot: Int, atom: Int32, order: Int) -> Any:
    first, complete = _find_slots(offset, slot, order)
    fixes, count = _Fixes(area, slot, atom, order, first), len(first) - 1
    cost, since = np.zeros(count + 1), np.zeros(count, np.int64)  # cost[j + 1]: the least up to slot j
    least = np.zeros(count + 1)  # of the costs before the starts up to each
    met = _Met(np.full(len(area), -1), np.full(len(area), -1), np.zeros(len(slot), np.bool_))
    c, high, low, ready, own = -1, 0, 0, -1, np.int64(0)
    # Kept true: costs up to slots before j are the least there are, which depends on no later slot.
    for j in range(count):
        if complete[j] < 0:
            continue
        if ready < 0:
            ready = j
        if complete[j] != c:
            c = complete[j]
            before = complete[c - 1] if c else -1
            # Where nothing complete ends before c(j), all slots up to j are one stretch.
            low, high = (max(before, ready) + 1, c) if before >= 0 else (0, 0)
            own = np.int64(0)
            for i in range(high, j + 1):
                own += _hold(fixes, i, c, met.held)
            _look_back(fixes, low, high, c, met)
            least[low] = cost[low]
            for i in range(low + 1, high + 1):
                least[i] = min(least[i - 1], cost[i])
        else:
            own += _hold(fixes, j, c, met.held)
        # Starts after c(j) lack a member.
        cost[j + 1], since[j] = _find_best_start(fixes, scale, met, j, low, high, own, cost, least)
    return _build_track(fixes, since)


@compile_kernel
def _find_best_start(
    fixes: _Fixes, scale: Scale, met: _Met, j: int, low: int, high: int, own: Any, cost: Float, least: Float
) -> Any:
    """Find the start from `high` back to `low` with which all slots up to j cost least, and what they cost.

    `high` is c(j), or all up to j is one stretch; `own` is the area of the atoms of slots c(j) to j.
    """
    area, slot, atom, order, first = fixes
    held, _, new = met
    best, start, covered = np.inf, high, own
    for i in range(high, low - 1, -1):
        # Kept true: `covered` is the area of the atoms of slots i to j.
        if i < high:
            for at in range(first[i], first[i + 1]):
                if new[at] and held[atom[order[at]]] != high:
                    covered += area[atom[order[at]]]
        span = slot[order[first[j]]] + 1 - slot[order[first[i]]]
        loss = scale.weight_time * min(span / scale.span, 1.0)
        loss += (1 - scale.weight_time) * min(covered / scale.area, 1.0)
        loss *= first[j + 1] - first[i]
        # A stretch that starts earlier has more fixes, time and atoms, so it loses no less.
        if loss + least[i] >= best:
            break
        if loss + cost[i] < best:
            best, start = loss + cost[i], i
    return best, start


@compile_kernel
def _find_slots(offset: Int, slot: Int, order: Int) -> tuple[Int, Int]:
    """Find where each slot begins in `order`, int64[c + 1], and c(j), int64[c]: -1 where a member has no fix yet."""
    member = np.empty(len(slot), np.int64)
    for i in range(len(offset) - 1):
        member[offset[i] : offset[i + 1]] = i
    first, complete = np.empty(len(slot) + 1, np.int64), np.empty(len(slot), np.int64)
    last, count = np.full(len(offset) - 1, -1), 0
    for at in range(len(order)):
        if at == 0 or slot[order[at]] != slot[order[at - 1]]:
            first[count] = at
            count += 1
        last[member[order[at]]] = count - 1
        complete[count - 1] = last.min()
    first[count] = len(order)
    return first[: count + 1], complete[:count]


@compile_kernel
def _hold(fixes: _Fixes, j: int, mark: int, held: Int) -> Any:
    """Mark the atoms of a slot; give the area of those that were not marked."""
    area, _, atom, order, first = fixes
    added = np.int64(0)
    for at in range(first[j], first[j + 1]):
        here = atom[order[at]]
        if held[here] != mark:
            held[here] = mark
            added += area[here]
    return added


@compile_kernel
def _look_back(fixes: _Fixes, low: int, high: int, mark: int, met: _Met) -> None:
    """Say of each fix of the slots before `high`, back to `low`, whether its atom comes up for the first time there."""
    atom, order, first, passed, new = fixes.atom, fixes.order, fixes.first, met.passed, met.new
    for i in range(high - 1, low - 1, -1):
        for at in range(first[i], first[i + 1]):
            here = atom[order[at]]
            new[at] = passed[here] != mark
            passed[here] = mark


@compile_kernel
def _build_track(fixes: _Fixes, since: Int) -> Track:
    """Follow the stretches back from the last slot, and write them from the first."""
    _, slot, atom, order, first = fixes
    count, j = 0, len(since) - 1
    while j >= 0:
        count, j = count + 1, since[j] - 1
    start, end, ends = np.empty(count, np.int64), np.empty(count, np.int64), np.zeros(count + 1, np.int64)
    atoms, kept = np.empty(len(atom), np.int32), 0
    bounds, j = np.empty((count, 2), np.int64), len(since) - 1
    for row in range(count - 1, -1, -1):
        bounds[row, 0], bounds[row, 1] = since[j], j
        j = since[j] - 1
    for row in range(count):
        low, high = first[bounds[row, 0]], first[bounds[row, 1] + 1]
        start[row], end[row] = slot[order[low]], slot[order[high - 1]] + 1
        for i in range(low, high):
            # Kept true: the atoms of this row so far ascend from `ends[row]` on, each once.
            here, at, above = atom[order[i]], ends[row], kept
            while at < above:
                middle = (at + above) // 2
                at, above = (middle + 1, above) if atoms[middle] < here else (at, middle)
            if at == kept or atoms[at] != here:
                for later in range(kept, at, -1):
                    atoms[later] = atoms[later - 1]
                atoms[at] = here
                kept += 1
        ends[row + 1] = kept
    return Track(start, end, ends, atoms[:kept].copy())
