"""Subjects of two groups exchanged, or moved from one larger than k, while that makes the merges of both cheaper."""

from typing import Any, NamedTuple

import numpy as np

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Float, Int
from dbanon.methods.kte import _k_merge
from dbanon.methods.kte._pairs import Pairs, compute_cost, recall_cost, sum_costs

_MAX_TRIED_EXCHANGES = 3  # exchanges of a subject whose merges are computed
_MAX_ROUNDS = 30


class _State(NamedTuple):
    """Groups as they are, and when what was last tried."""

    group: Int  # [n]
    inside: Float  # [n]: sum of the costs of pairs of a subject and the others of its group
    members: Int  # [g, c]: of which the first size[g] count
    size: Int  # [g]
    cost: Int  # [g]: of merging it
    home: Int  # [g]: exchanges of groups of one home were tried before
    changed: Int  # [g]: when it was changed last
    seen: Int  # [n]: when exchanges of a subject were tried last; -1 for never
    tried: Int  # [n, _MAX_TRIED_EXCHANGES]: with whom; -1 for nobody
    best: Float  # [_MAX_TRIED_EXCHANGES]: scratch, as all that follows
    proposed: Int  # [_MAX_TRIED_EXCHANGES, 2]
    here: Int  # [c]
    there: Int  # [c]
    begin: Int  # [c]
    end: Int  # [c]
    merging: _k_merge.Scratch


def improve(table: Pairs, near: Int, k: int, members: Int, size: Int, home: Int) -> None:
    """Exchange in place while that gains.

    Parameters
    ----------
    near : int64[n, c]
        With whose groups exchanges of each subject are tried.
    members : int64[g, c]
        Of each group, of which the first size[g] count; with room for all who are in groups of more than k.
    home : int64[g]
        Groups between which exchanges are tried, though neither has changed, are those of different homes.

    Notes
    -----
    One subject after the other, in the run's order: the exchanges that sums of costs of pairs favour are merged for
    good measure, the most promising first, and the first that gains is made. The sum of all costs falls in whole
    numbers, so this would end without a limit too.
    """
    n, wide = len(near), members.shape[1]
    longest = int(np.sort(table.end - table.begin)[-wide:].sum())
    group = np.empty(n, np.int64)
    inside = np.arange(wide) < size[:, None]
    group[members[inside]] = np.nonzero(inside)[0]
    state = _State(
        group=group, inside=np.zeros(n), members=members, size=size, cost=np.zeros(len(size), np.int64), home=home,
        changed=np.zeros(len(size), np.int64), seen=np.full(n, -1), tried=np.full((n, _MAX_TRIED_EXCHANGES), -1),
        best=np.empty(_MAX_TRIED_EXCHANGES), proposed=np.empty((_MAX_TRIED_EXCHANGES, 2), np.int64),
        here=np.empty(wide, np.int64), there=np.empty(wide, np.int64), begin=np.empty(wide, np.int64),
        end=np.empty(wide, np.int64), merging=_k_merge.make_scratch(longest, wide),
    )  # fmt: skip
    _exchange(table, near, k, state, _MAX_ROUNDS)


@compile_kernel
def _exchange(table: Pairs, near: Int, k: int, state: _State, rounds: int) -> None:
    for g in range(len(state.size)):
        _update_group(table, state, g, _compute_merge_cost(table, state, state.members[g], state.size[g]))
    now = 0
    for _ in range(rounds):
        before = now
        for one in range(len(near)):
            _propose(table, near, k, state, one)
            state.seen[one] = now
            now += _try(table, state, one, now)
        if now == before:
            break


@compile_kernel
def _compute_merge_cost(table: Pairs, state: _State, members: Int, size: int) -> Any:
    """Cost of merging the first of some members."""
    for m in range(size):
        state.begin[m], state.end[m] = table.begin[members[m]], table.end[members[m]]
    n = _k_merge.write_rows(table.samples, state.begin[:size], state.end[:size], state.merging)
    return _k_merge.cut(state.merging, n, False)


@compile_kernel
def _update_group(table: Pairs, state: _State, g: int, cost: int) -> None:
    """Put down what follows from the members of a group."""
    state.cost[g] = cost
    for m in range(state.size[g]):
        one = state.members[g, m]
        state.group[one] = g
        state.inside[one] = sum_costs(table, state.members[g], state.size[g], one, -1)


@compile_kernel
def _propose(table: Pairs, near: Int, k: int, state: _State, one: int) -> None:
    """Write the exchanges of a subject that promise most by the sums of costs of pairs; -1 where there are fewer."""
    best, proposed, g = state.best, state.proposed, state.group[one]
    for place in range(len(best)):
        best[place], proposed[place, 0], proposed[place, 1] = np.inf, -1, -1
    seen, here, size_here, known = state.seen[one], state.members[g], state.size[g], table.costs
    # Sums over pairs stand for the costs of merges here, because a merge for each exchange would take too long.
    leaving = state.inside[one]
    for at in range(near.shape[1]):
        h = state.group[near[one, at]]
        # What was tried when both groups were as they are now is not tried again.
        changed = max(state.changed[g], state.changed[h])
        tried = changed <= seen or (changed == 0 and state.home[g] == state.home[h])
        if h == g or tried or _has_nearer_member(state.group, near[one], at):
            continue
        there, size_there = state.members[h], state.size[h]
        arriving = sum_costs(table, there, size_there, one, -1)
        # A group of k never loses a member without getting another.
        if size_here > k:
            _keep(best, proposed, arriving / size_there - leaving / (size_here - 1), one, -2 - h)
        for m in range(size_there):
            other = there[m]
            delta = (arriving - recall_cost(known, one, other) - state.inside[other]) / size_there - leaving / size_here
            # Costs are not negative, so a sum that is too large already need not be completed.
            for i in range(size_here):
                if delta >= best[-1]:
                    break
                if here[i] != one:
                    cost = recall_cost(known, here[i], other)
                    delta += (cost if cost >= 0 else compute_cost(table, here[i], other)) / size_here
            _keep(best, proposed, delta, one, other)


@compile_kernel
def _has_nearer_member(group: Int, near: Int, at: int) -> bool:
    """Whether a nearer one is of the same group."""
    has_nearer = False
    for before in range(at):
        has_nearer |= group[near[before]] == group[near[at]]
    return has_nearer


@compile_kernel
def _keep(best: Float, proposed: Int, delta: float, one: int, other: int) -> None:
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


@compile_kernel
def _try(table: Pairs, state: _State, one: int, now: int) -> int:
    """Merge what is proposed for a subject, and make the first exchange that gains; 1 if there is one."""
    g = state.group[one]
    for place in range(len(state.best)):
        other = state.proposed[place, 1]
        state.tried[one, place] = other
        if state.proposed[place, 0] < 0:
            continue
        # -2 - the group that the subject goes to, or who takes its place.
        h = state.group[other] if other >= 0 else -2 - other
        if other >= 0 and state.seen[other] >= max(state.changed[g], state.changed[h], 0):
            again = False
            for i in range(len(state.best)):
                again = again or state.tried[other, i] == one
            if again:
                continue
        size_here = _replace_member(state.members[g], state.size[g], one, other, state.here)
        size_there = _replace_member(state.members[h], state.size[h], other, one, state.there)
        cost_here = _compute_merge_cost(table, state, state.here, size_here)
        cost_there = _compute_merge_cost(table, state, state.there, size_there)
        if cost_here + cost_there < state.cost[g] + state.cost[h]:
            for m in range(len(state.here)):
                state.members[g, m], state.members[h, m] = state.here[m], state.there[m]
            state.size[g], state.size[h] = size_here, size_there
            state.changed[g] = state.changed[h] = now + 1
            _update_group(table, state, g, cost_here)
            _update_group(table, state, h, cost_there)
            return 1
    return 0


@compile_kernel
def _replace_member(members: Int, size: int, out: int, new: int, after: Int) -> int:
    """Write the members after one went out and another came (negative: nobody), ascending; their number."""
    n = 0
    for m in range(size):
        if members[m] != out:
            after[n] = members[m]
            n += 1
    if new >= 0:
        place = n
        while place > 0 and after[place - 1] > new:
            after[place] = after[place - 1]
            place -= 1
        after[place] = new
        n += 1
    return n
