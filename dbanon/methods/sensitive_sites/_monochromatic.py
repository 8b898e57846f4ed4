"""MK: subjects cut along a curve into groups of k to 2 k - 1 at the least total area, which sites then choose among.

Krishnamachari, Ghinita, Kalnis: Privacy-Preserving Publication of User Locations in the Proximity of Sensitive Sites,
SSDBM 2008, section 3 (figure 6, with 1DAnon of Ghinita, Karras, Kalnis, Mamoulis, VLDB 2007).
"""

from typing import NamedTuple

import numpy as np

from dbanon.base import cores
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Bool, Int, Int32, freeze_arrays
from dbanon.methods.sensitive_sites._boxes import Boxes

REMEMBERED_GROUPS = 32
_INFINITE_COST = np.int64(2**62)


def partition(subjects: Boxes, k: int) -> Int:
    """Cut subjects into groups of k to 2 k - 1 consecutive ones, so that the sum of the groups' areas is least.

    Parameters
    ----------
    subjects : Boxes
        In the order of the curve.

    Returns
    -------
    int64[g + 1]
        Group i holds the subjects ``[offset[i], offset[i + 1])``; of equal costs the shortest last group. There is no
        group where there are fewer than k subjects.

    Notes
    -----
    O(n k) time.
    """
    if len(subjects.x0) < k:
        return np.zeros(1, np.int64)
    cost, size = np.full(len(subjects.x0) + 1, _INFINITE_COST, np.int64), np.zeros(len(subjects.x0) + 1, np.int32)
    _partition(subjects, k, cost, size)
    # Back from the last subject, group by group.
    ends = [len(subjects.x0)]
    while ends[-1]:
        ends.append(ends[-1] - int(size[ends[-1]]))
    return np.array(ends[::-1], np.int64)


def assign(subjects: Boxes, sites: Boxes, offset: Int, priority: Int) -> Int:
    """Give every site its group, in stages: each site chooses the group that fits it best, then each group one site.

    Parameters
    ----------
    offset : int64[g + 1]
        Groups from `partition`, at least as many as sites.
    priority : int64[m]
        Distinct numbers; of the sites that fit a group equally well it takes the one with the lowest. The paper says
        "a random site": draw them.

    Returns
    -------
    int64[m]
        Group of each site; of groups that fit a site equally well it wants the lowest.

    Notes
    -----
    A stage serves at least one site, and mostly more than half of those left. A site looks through all g groups once,
    and again when the `REMEMBERED_GROUPS` that fitted best are taken: O(m g) time, times m / `REMEMBERED_GROUPS` at
    worst.
    """
    boxes, taken = _bound_groups(subjects, offset), np.zeros(len(offset) - 1, np.bool_)
    group, left = np.full(len(sites.x0), -1, np.int64), np.arange(len(sites.x0))
    preferences = _Preferences.make_empty(len(sites.x0))
    while len(left):
        preferences.renew(boxes, sites, left, taken)
        wanted, area = preferences.find_first(left)
        # Lines 5 to 7: of the sites that want a group, the one of least area gets it. A stage serves one site at least.
        order = np.lexsort((priority[left], area, wanted))
        served = order[np.flatnonzero(np.diff(wanted[order], prepend=-1))]
        group[left[served]] = wanted[served]
        taken[wanted[served]] = True
        left = np.delete(left, served)
    return group


class _Preferences(NamedTuple):
    """The groups that fit each site best, the best first, and how many of them were taken by others."""

    group: Int  # [m, REMEMBERED_GROUPS]
    area: Int  # [m, REMEMBERED_GROUPS]
    place: Int  # [m]

    @classmethod
    def make_empty(cls, sites: int) -> "_Preferences":
        """Begin with nothing remembered."""
        shape = sites, REMEMBERED_GROUPS
        return cls(np.empty(shape, np.int64), np.empty(shape, np.int64), np.full(sites, REMEMBERED_GROUPS))

    def renew(self, groups: Boxes, sites: Boxes, left: Int, taken: Bool) -> None:
        """Go on to the best group that is not taken, for each of the sites left."""
        parts = [part for part in np.array_split(left, cores.count_threads()) if len(part)]

        list(cores.map_each(lambda part: _renew(groups, sites, part, taken, self), parts))

    def find_first(self, left: Int) -> tuple[Int, Int]:
        """Give the group each site wants, and the area it takes with it."""
        return self.group[left, self.place[left]], self.area[left, self.place[left]]


def choose_windows(subjects: Boxes, sites: Boxes, k: int) -> Int | None:
    """Give every site k consecutive subjects, disjoint, out of MK's groups: those it takes the least area with.

    Returns int64[m] or None: index of the first subject of each; None where there are fewer groups than sites.
    """
    offset = partition(subjects, k)
    if len(offset) <= len(sites.x0):
        return None
    group = assign(subjects, sites, offset, np.arange(len(sites.x0)))
    start, spans = offset[group].copy(), subjects.bound_windows(k)
    least = spans.take(start).join(sites).count_cells()
    for shift in range(1, k):  # a group has 2 k - 1 subjects at most
        other = np.minimum(offset[group] + shift, offset[group + 1] - k)
        area = spans.take(other).join(sites).count_cells()
        start, least = np.where(area < least, other, start), np.minimum(area, least)
    return start


def _bound_groups(subjects: Boxes, offset: Int) -> Boxes:
    first = offset[:-1]
    low = (np.minimum.reduceat(side, first) for side in subjects[:2])
    high = (np.maximum.reduceat(side, first) for side in subjects[2:])
    return freeze_arrays(Boxes(*low, *high))


@compile_kernel
def _partition(subjects: Boxes, k: int, cost: Int, size: Int32) -> None:
    """cost[i] is the least for the first i subjects, size[i] that of the last group among them."""
    x0, y0, x1, y1 = subjects
    cost[0] = 0
    # 1DAnon with areas (section 3): cost[i] = min over k <= g < 2 k of cost[i - g] + area of subjects [i - g, i).
    for i in range(k, len(x0) + 1):
        left, bottom, right, top = x0[i - 1], y0[i - 1], x1[i - 1], y1[i - 1]
        for g in range(1, min(2 * k, i + 1)):
            u = i - g
            left, bottom = min(left, x0[u]), min(bottom, y0[u])
            right, top = max(right, x1[u]), max(top, y1[u])
            if g >= k and cost[u] < _INFINITE_COST:
                total = cost[u] + (np.int64(right) - left + 1) * (np.int64(top) - bottom + 1)
                if total < cost[i]:
                    cost[i] = total
                    size[i] = g


@compile_kernel
def _renew(groups: Boxes, sites: Boxes, left: Int, taken: Bool, preferences: _Preferences) -> None:
    """Remembered groups come by (area, index); no group that was free when they were looked for is better."""
    group, area, place = preferences
    most = group.shape[1]
    # Line 4 for the sites of a part; each writes the rows of its sites alone, so threads share nothing they write.
    for s in left:
        while place[s] < most and taken[group[s, place[s]]]:
            place[s] += 1
        if place[s] < most:
            continue
        filled, place[s] = 0, 0
        for g in range(len(taken)):  # in int32 as long as it fits: twice as many at a time
            wide = np.int64(np.int32(max(groups.x1[g], sites.x1[s]) - min(groups.x0[g], sites.x0[s]))) + 1
            high = np.int64(np.int32(max(groups.y1[g], sites.y1[s]) - min(groups.y0[g], sites.y0[s]))) + 1
            if taken[g] or (filled == most and wide * high >= area[s, most - 1]):
                continue
            filled = min(filled + 1, most)
            # Insert by area; > keeps the lower group first among equals.
            at = filled - 1
            while at > 0 and area[s, at - 1] > wide * high:
                area[s, at], group[s, at] = area[s, at - 1], group[s, at - 1]
                at -= 1
            area[s, at], group[s, at] = wide * high, g
