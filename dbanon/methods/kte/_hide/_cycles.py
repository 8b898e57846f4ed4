"""Hiding sets within a set of people: each has k - 1 distinct others and is an other of k - 1 distinct people.

That is k - 1 covers of the set by cycles in which everyone has different parents (Gramaglia et al., Algorithm 2, line
11), and the same as k - 1 assignments without a pair in common; by Koenig's theorem there are such if and only if some
choice of allowed pairs has everyone k - 1 times on either side. Greedy cycles come first; paths that free a place are
looked for where they end too early, until there is none: then there are no such covers.
"""

import numpy as np
from numpy.typing import NDArray

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Bool, Int


def find_covers(cost: NDArray[np.float32], first: Bool, later: Bool, k: int) -> tuple[NDArray[np.int32] | None, Bool]:
    """Find k - 1 covers of a set with distinct parents, cheap ones.

    Parameters
    ----------
    cost : float32[n, n]
        Of merging owner and other.
    first, later : bool[n, n]
        Pairs allowed in the first cover and in all others; none with itself.

    Returns
    -------
    int32[n, k - 1] or None
        The others of each; None where they were not found.
    bool[n]
        Whom a largest choice leaves without an other or an owner; none where covers were found.
    """
    n, chosen = len(cost), np.empty((len(cost), k - 1), np.int32)
    free = later.copy()
    for number in range(k - 1):
        allowed = first if number == 0 else free
        match = _find_cover(cost, allowed)
        if (match < 0).any():
            break
        chosen[:, number] = match
        # A parent serves an owner once: parents differ between the cycles of line 11.
        free[np.arange(n), match] = False
    else:
        return chosen, np.zeros(n, bool)
    # A largest matching of the first cover's pairs leaves a subject out, and any choice needs such a cover.
    if number == 0 and (k == 2 or first is not later):
        return None, _mark_uncovered(match, n)
    return _choose_covers(first, later, chosen, k)


def _choose_covers(
    first: Bool, later: Bool, chosen: NDArray[np.int32], k: int
) -> tuple[NDArray[np.int32] | None, Bool]:
    """Choose covers at once, after the first where it has pairs of its own."""
    # With pairs of its own, the first cover stays as drawn: covers that need another first one are not found.
    n, alone = len(first), int(first is not later)
    free = later.copy()
    if alone:
        free[np.arange(n), chosen[:, 0]] = False
    graph, blocked = _choose_regular_graph(free, k - 1 - alone)
    if blocked.any():
        return None, blocked
    for number in range(alone, k - 1):  # a regular graph falls apart into assignments
        match = _find_cover(np.zeros((n, n), np.float32), graph)
        chosen[:, number] = match
        graph[np.arange(n), match] = False
    return chosen, blocked


def _mark_uncovered(match: Int, n: int) -> Bool:
    """Say which own none or are owned by none."""
    left = match < 0
    taken = np.zeros(n, bool)
    taken[match[match >= 0]] = True
    return left | ~taken


@compile_kernel
def _find_cover(cost: NDArray[np.float32], allowed: Bool) -> Int:  # noqa: C901 - one recurrence
    """The other of each, -1 for none: greedy cycles, then as many as there can be."""
    # Not SciPy's `maximum_bipartite_matching`, which cannot begin with the cheap cycles: rows become a quarter wider.
    n = len(cost)
    match, owner = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    # Greedy cycles: from each to the cheapest that none has, and on from there until a cycle closes.
    for start in range(n):
        at = start
        while match[at] < 0:
            best = -1
            for other in range(n):
                if allowed[at, other] and owner[other] < 0 and (best < 0 or cost[at, other] < cost[at, best]):
                    best = other
            if best < 0:
                break
            match[at], owner[best] = best, at
            at = best
    # Hopcroft, Karp one path at a time: a free other is reached by taking others from those who have them.
    before, queue = np.empty(n, np.int64), np.empty(n, np.int64)
    for start in range(n):
        # Kept true: `match` and `owner` are inverse, and who has an other keeps one. A start without a path never gets
        # one, since later paths cannot reach those it reaches.
        if match[start] >= 0:
            continue
        before[:] = -1
        queue[0], head, tail, end = start, 0, 1, -1
        while head < tail and end < 0:
            at = queue[head]
            head += 1
            for other in range(n):
                if allowed[at, other] and before[other] < 0:
                    before[other] = at
                    if owner[other] < 0:
                        end = other
                        break
                    queue[tail] = owner[other]
                    tail += 1
        while end >= 0:
            at = before[end]
            earlier = match[at]
            match[at], owner[end] = end, at
            end = earlier
    return match


@compile_kernel
def _choose_regular_graph(allowed: Bool, degree: int) -> tuple[Bool, Bool]:  # noqa: C901 - one recurrence
    """Choose pairs so that everyone is `degree` times on either side; and who cannot be."""
    n = len(allowed)
    graph = np.zeros((n, n), np.bool_)
    out, into = np.zeros(n, np.int64), np.zeros(n, np.int64)
    by_owner, by_other, queue = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    for start in range(n):
        # Kept true: all are at most `degree` times on either side. A search without a free place shows that no choice
        # gives this owner more while earlier ones keep as many.
        while out[start] < degree:
            # From which owner an other was reached, and from which other an owner.
            by_owner[:], by_other[:] = -1, -1
            queue[0], head, tail, end = start, 0, 1, -1
            by_owner[start] = start
            # Unit flows: from owners along pairs not chosen, back along those chosen.
            while head < tail and end < 0:
                at = queue[head]
                head += 1
                for other in range(n):
                    if allowed[at, other] and not graph[at, other] and by_other[other] < 0:
                        by_other[other] = at
                        # A place that is free ends the search; a full one gives up one of its owners, who looks on.
                        if into[other] < degree:
                            end = other
                            break
                        for owner in range(n):
                            if graph[owner, other] and by_owner[owner] < 0:
                                by_owner[owner] = other
                                queue[tail] = owner
                                tail += 1
            if end < 0:
                break
            into[end] += 1
            out[start] += 1
            # Back along the path, what was chosen and what was not change places: only both ends have one more.
            while True:
                at = by_other[end]
                graph[at, end] = True
                if at == start:
                    break
                end = by_owner[at]
                graph[at, end] = False
    return graph, (out < degree) | (into < degree)
