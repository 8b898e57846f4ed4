"""Groups of at least k subjects whose whole trajectories are cheap to merge: plain k-anonymity by k-merge.

Subjects are numbered here in the run's order, so that every tie (the lesser number) is decided by it. Costs of pairs
come from `_pairs`, candidates from all pairs where those are tabulated, else from `_near`.
"""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from typing import Any

import numpy as np

from dbanon.base.kernels import kernel
from dbanon.base.trajectory import Int
from dbanon.methods.kte import _k_merge, _matching, _near, _pairs
from dbanon.methods.kte._pairs import Pairs
from dbanon.methods.kte._pairs import among as _among
from dbanon.methods.kte._pairs import cost as _cost
from dbanon.methods.kte._samples import Samples

_NEAR = 16  # candidates, and as many again as the group has
_FEW = 256  # subjects left among whom all are candidates
_OTHERS = 8  # groups of candidates that an exchange is tried with
_TRIED = 3  # exchanges of a subject whose merges are computed in a round
_ROUNDS = 30


def group(samples: Samples, k: int, rank: Int, rng: np.random.Generator, *, improve: bool = True) -> Int:
    """Partition subjects into groups of at least k at small total cost of merging each.

    Parameters
    ----------
    rank : int64[codes]
        Place of each subject, by its code, in the run's order: it decides between equals.
    improve : bool
        Exchange subjects between groups after they are formed greedily.

    Returns
    -------
    int64[s]
        Number of the group of each subject, by the least rank of its members; -1 for all where there are fewer than k.

    Notes
    -----
    Greedy: of the pairs that are left, the cheapest, joined by those who add least in pairs, until it has k. The last
    subjects, fewer than k, join the groups they cost least. Exchanges: for k = 2, alternating chains of pairs; else,
    and for groups of more than k, subjects of two groups, where the merges of both become cheaper. O(s) costs of pairs
    and memory beyond `_pairs.ALL` subjects.
    """
    order = np.argsort(rank[samples.subject], kind="stable")
    n = len(order)
    groups = np.full(n, -1, np.int64)
    if n >= max(k, 1):
        numbered = _partition(_Work(samples, order, k, _pairs.ALL), rng, improve=improve)
        groups[order] = np.unique(_first_of(numbered), return_inverse=True)[1]
    return groups


def prepare(samples: Samples, k: int) -> None:
    """Compile what only very many subjects need: costs that are remembered, and the index."""
    order = np.arange(len(samples.subject))
    _near.nearest(_near.signatures(samples, order), k)
    for improve in (False, True):
        _partition(_Work(samples, order, k, 0), np.random.default_rng(0), improve=improve)


class _Work:
    """Subjects in the run's order, with the costs of pairs and, cheapest first, whom each is near."""

    def __init__(self, samples: Samples, order: Int, k: int, most: int) -> None:
        self.samples, self.order, self.k, self.n = samples, order, k, len(order)
        self.begin, self.end = samples.offset[:-1][order], samples.offset[1:][order]
        self.table: Pairs = _pairs.pairs(samples, order, most)
        self.wanted = min(_NEAR + k, self.n - 1)
        self.signature = None if len(self.table.all) else _near.signatures(samples, order)
        self.near = self.candidates(np.arange(self.n))[:, : self.wanted]

    def candidates(self, left: Int) -> Int:
        """Whom to merge each of some subjects with, among them, cheapest first: int64[len(left), c]."""
        number = len(left)
        if number <= _FEW or self.signature is None:
            near = np.broadcast_to(np.arange(number), (number, number))
            near = near[~np.eye(number, dtype=bool)].reshape(number, number - 1)
        else:
            near = _near.nearest(self.signature[left], self.wanted)
        one = np.repeat(left, near.shape[1])
        costs = _pairs.look_up(self.samples, self.table, one, left[near.ravel()]).reshape(near.shape)
        return np.asarray(left[np.take_along_axis(near, np.argsort(costs, axis=1, kind="stable"), axis=1)], np.int64)

    def costs(self, members: Int, size: Int) -> Int:
        """Cost of merging groups: members int64[g, c], of which the first size[g] count."""
        inside = np.arange(members.shape[1]) < size[:, None]
        who = members[inside]
        return _k_merge.costs(self.samples, np.concatenate([[0], np.cumsum(size)]), self.begin[who], self.end[who])


def _first_of(numbers: Int) -> Int:
    """The first place at which each number stands: equal for those of one group, ascending by least place."""
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    return np.asarray(first[inverse], np.int64)


def _partition(work: _Work, rng: np.random.Generator, *, improve: bool) -> Int:
    """Number of the group of each, in any order."""
    group = np.full(work.n, -1, np.int64)
    left, number, near = np.arange(work.n), 0, work.near
    if work.k == 1:
        return left
    # The paper merges groups drawn at random (Section IV-B); forming them is ours. Each pass forms one at least, since
    # its first pair has k - 1 near subjects who are all free: so this ends.
    while len(left) >= work.k:
        near = work.candidates(left)
        a, b = np.repeat(left, near.shape[1]), near.ravel()
        costs = _pairs.look_up(work.samples, work.table, a, b)
        # Each pair once, where either knows the other, the cheapest first.
        low, high = np.minimum(a, b), np.maximum(a, b)
        by_cost = np.lexsort((high, low, costs))
        wide = np.full((work.n, near.shape[1]), -1)
        wide[left] = near
        number = _grow(work.table, wide, low[by_cost], high[by_cost], work.k, number, group)
        left = np.flatnonzero(group < 0)
    if improve and work.k == 2:
        mate = _mates(group)
        _matching.improve(work.table, work.near, mate, rng)
        paired = np.flatnonzero(mate >= 0)
        group[paired] = np.minimum(paired, mate[paired])
        group[paired] = np.unique(group[paired], return_inverse=True)[1]
    # Fewer than k are left, who cannot hide one another.
    _join(work, left, group)
    if improve:
        members, size = _tabulated(group)
        members = _swap_all(work, members, size, np.ones(len(size), bool) if work.k > 2 else size > work.k)
        for i in range(len(size)):
            group[members[i, : size[i]]] = i
    return group


def _mates(group: Int) -> Int:
    """The other of each one's pair; -1 for those in none."""
    mate = np.full(len(group), -1, np.int64)
    order = np.argsort(group, kind="stable")
    order = order[group[order] >= 0]
    mate[order[::2]], mate[order[1::2]] = order[1::2], order[::2]
    return mate


def _tabulated(group: Int) -> tuple[Int, Int]:
    """Members of each group, in a row with room for others, and how many they are."""
    size = np.bincount(group)
    members = np.full((len(size), size.max()), -1, np.int64)
    order = np.argsort(group, kind="stable")
    members[np.arange(size.max()) < size[:, None]] = order
    return members, size


def _join(work: _Work, left: Int, group: Int) -> None:
    """Let those who are left, fewer than k, join the groups of their candidates that grow least by them."""
    # One after the other, in the run's order: each sees the groups as the earlier ones left them.
    for one in left:
        members, size = _tabulated(np.where(group < 0, group.max() + 1, group))
        members, size = members[:-1], size[:-1]  # the last row is of those in no group
        near = np.unique(group[work.near[one]])
        near = near[near >= 0] if (group[work.near[one]] >= 0).any() else np.arange(len(size))
        before = work.costs(members[near], size[near])
        wider = np.full((len(near), members.shape[1] + 1), -1)
        wider[:, :-1] = members[near]
        wider[np.arange(len(near)), size[near]] = one
        added = work.costs(wider, size[near] + 1) - before
        least = members[near, 0]  # of groups that grow as much, that of the first member
        group[one] = near[np.lexsort((least, added))[0]]


@kernel
def _grow(table: Any, near: Any, low: Any, high: Any, k: Any, number: Any, group: Any) -> Any:
    """Number groups of k, from the cheapest pairs on; the number of the next."""
    members = np.empty(k, np.int64)
    for pair in range(len(low)):
        if group[low[pair]] >= 0 or group[high[pair]] >= 0:
            continue
        members[0], members[1], size = low[pair], high[pair], 2
        while size < k:
            # Who is near a member and adds the least sum of pairs.
            best, by = np.inf, np.int64(-1)
            for m in range(size):
                for one in near[members[m]]:
                    if one < 0 or group[one] >= 0 or _among(members, size, one):
                        continue
                    added = _sum(table, members, size, one, -1)
                    if added < best or (added == best and one < by):
                        best, by = added, one
            if by < 0:
                break
            members[size] = by
            size += 1
        if size == k:
            group[members] = number
            number += 1
    return number


@kernel
def _sum(table: Any, members: Any, size: Any, one: Any, without: Any) -> Any:
    """Sum of the costs of pairs of one and the members, but one of them."""
    total = 0.0
    for m in range(size):
        if members[m] not in (without, one):
            total += _cost(table, members[m], one)
    return total


def _swap_all(work: _Work, members: Int, size: Int, changed: Any) -> Int:
    """Exchange subjects of two groups, or move one out of a group of more than k, while that makes merges cheaper.

    In rounds: the exchanges that sums of pairs favour are merged for good measure; then those that gain are made, the
    greatest gain first, where neither group was changed in the round. `changed` are the groups with which exchanges
    have not been tried. Returns the members; sizes are changed in place.
    """
    cost = work.costs(members, size)
    others = work.near[:, :_OTHERS]
    for _ in range(_ROUNDS):
        if size.max() == members.shape[1]:  # room for one that moves in
            members = np.hstack([members, np.full((len(size), 1), -1)])
        group = np.empty(work.n, np.int64)
        inside = np.arange(members.shape[1]) < size[:, None]
        group[members[inside]] = np.nonzero(inside)[0]
        proposed = np.full((work.n, _TRIED, 2), -1)
        _prefetch(work, others, group, members, size, changed)
        _propose(work.table, others, group, members, size, changed, work.k, proposed)
        tried = proposed.reshape(-1, 2)
        # The first is who leaves; the second who takes the place, or -2 - the group it goes to.
        tried = tried[tried[:, 0] >= 0]
        if not len(tried):
            break
        here = group[tried[:, 0]]
        moved = tried[:, 1] < 0
        there = np.where(moved, -2 - tried[:, 1], group[tried[:, 1]])
        after_here, size_here = _replaced(members, size, here, tried[:, 0], np.where(moved, -1, tried[:, 1]))
        after_there, size_there = _replaced(members, size, there, np.where(moved, -1, tried[:, 1]), tried[:, 0])
        cost_here, cost_there = work.costs(after_here, size_here), work.costs(after_there, size_there)
        # Exact for each exchange alone, and also for those made together, since no two of them change one group.
        gain = cost[here] + cost[there] - cost_here - cost_there
        # The sum of all costs falls in whole numbers with each exchange; exchanges between two unchanged groups were
        # weighed before.
        changed = np.zeros(len(size), bool)
        for i in np.argsort(-gain, kind="stable"):
            g, h = here[i], there[i]
            if gain[i] <= 0:
                break
            if changed[g] or changed[h]:
                continue
            changed[g] = changed[h] = True
            width = members.shape[1]
            members[g], members[h] = after_here[i, :width], after_there[i, :width]
            size[g], size[h], cost[g], cost[h] = size_here[i], size_there[i], cost_here[i], cost_there[i]
        if not changed.any():
            break
    return members


def _replaced(members: Int, size: Int, which: Int, out: Int, new: Int) -> tuple[Int, Int]:
    """Members and sizes of groups after one went out (-1: none) and another came (-1: none)."""
    after = np.hstack([members[which], np.full((len(which), 1), -1)])
    after[(after == out[:, None]) & (out >= 0)[:, None]] = -1
    after[:, -1] = new
    # Members first, in the order of their numbers, free places last.
    after = np.sort(np.where(after < 0, np.iinfo(np.int64).max, after), axis=1)
    return after, size[which] - (out >= 0) + (new >= 0)


def _prefetch(work: _Work, others: Int, group: Int, members: Int, size: Int, changed: Any) -> None:
    """Have the pairs of subjects with the groups near them costed on all threads."""
    if len(work.table.all):
        return
    there = group[others]
    one, place = np.nonzero((there != group[:, None]) & (changed[there] | changed[group][:, None]))
    who = members[there[one, place]]
    inside = np.arange(who.shape[1]) < size[there[one, place]][:, None]
    a, b = np.broadcast_to(one[:, None], who.shape)[inside], who[inside]
    _pairs.look_up(work.samples, work.table, a, b)


@kernel
def _propose(table: Any, near: Any, group: Any, members: Any, size: Any, changed: Any, k: Any, proposed: Any) -> None:
    """Write for each subject the exchanges that promise most by the sums of costs of pairs."""
    best = np.empty(proposed.shape[1])
    for one in range(len(near)):
        g = group[one]
        best[:] = np.inf
        # Sums over pairs stand for the costs of merges here, because a merge for each exchange would take too long.
        leaving = _sum(table, members[g], size[g], one, -1)
        for at in range(near.shape[1]):
            h = group[near[one, at]]
            if h == g or not (changed[g] or changed[h]):
                continue
            seen = False  # groups of nearer ones were tried
            for before in range(at):
                seen = seen or group[near[one, before]] == h
            if seen:
                continue
            arriving = _sum(table, members[h], size[h], one, -1)
            # A group of k never loses a member without getting another.
            if size[g] > k:
                _keep(best, proposed[one], arriving / size[h] - leaving / (size[g] - 1), one, -2 - h)
            for m in range(size[h]):
                other = members[h, m]
                delta = (arriving - _cost(table, one, other) - _sum(table, members[h], size[h], other, -1)) / size[h]
                delta += (_sum(table, members[g], size[g], other, one) - leaving) / size[g]
                _keep(best, proposed[one], delta, one, other)


@kernel
def _keep(best: Any, proposed: Any, delta: Any, one: Any, other: Any) -> None:
    """Insert an exchange among the best, least first; of equal ones the earlier stays."""
    place = len(best)
    while place > 0 and delta < best[place - 1]:
        place -= 1
        if place + 1 < len(best):
            best[place + 1] = best[place]
            proposed[place + 1, 0], proposed[place + 1, 1] = proposed[place, 0], proposed[place, 1]
    if place < len(best):
        best[place] = delta
        proposed[place, 0], proposed[place, 1] = one, other
