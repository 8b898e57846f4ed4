"""Pairs of subjects exchanged until the sum of their costs can hardly be less."""

from typing import NamedTuple

import numpy as np

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Bool, Float, Int
from dbanon.methods.kte._pairs import Pairs, compute_cost, is_among, recall_cost

KICKS_PER_SUBJECT = 40  # where all pairs are known
_PARTNERS_BY_STEP = (10, 5, 3)  # partners tried at each step of a chain


class _Matching(NamedTuple):
    """Pairs as they are, and scratch."""

    near: Int  # [n, c]
    mate: Int  # [n]
    active: Bool  # [n]
    best: Int  # [8]: the chain of greatest gain from a subject: whose pairs are parted, one after the other
    chain: Int  # [8]: the chain that is tried
    tried: Int  # [4]: partners tried at each of its steps
    gained: Float  # [4]: by each of its steps, before it is closed


def improve(table: Pairs, near: Int, mate: Int, active: Bool, rng: np.random.Generator | None) -> None:
    """Improve a matching in place by alternating chains, and where all costs are known by chance disturbances of it.

    Parameters
    ----------
    near : int64[n, c]
        Others who are cheap to merge with each, the cheapest first.
    mate : int64[n]
        The partner of each, -1 for none.
    active : bool[n]
        From whom chains are tried at first; changed in place.
    rng : numpy.random.Generator or None
        For the disturbances; none where the pairs were disturbed before.

    Notes
    -----
    After Lin and Kernighan, An effective heuristic algorithm for the travelling-salesman problem, 1973: up to four
    pairs are parted and joined anew, each step costing less than was gained before it. Whole costs: every exchange
    lowers their sum, so this ends.
    """
    chains = np.empty((2, 8), np.int64)
    matching = _Matching(near, mate, active, chains[0], chains[1], np.empty(4, np.int64), np.empty(4))
    _exchange(table, matching)
    if rng is not None and table.is_complete and near.shape[1] and (mate >= 0).sum() > 6:
        draws = rng.integers(1 << 62, size=(KICKS_PER_SUBJECT * len(mate), 4))
        _disturb(table, matching, draws, mate.copy())


@compile_kernel
def _exchange(table: Pairs, matching: _Matching) -> float:
    """Exchange until no chain from an active subject gains; the whole gain."""
    mate, active, e, whole, again = matching.mate, matching.active, matching.best, 0.0, True
    while again:
        again = False
        for t1 in range(len(mate)):
            if not active[t1]:
                continue
            # A subject without a gaining chain is passed over until an exchange gives it another partner.
            active[t1] = False
            gain, length = _find_chain(table, matching, t1)
            if gain <= 0:
                continue
            again = True
            whole += gain
            # The chain e: pairs (e0, e1), (e2, e3)... are parted; (e1, e2), ..., (last, e0) are joined.
            for i in range(1, length, 2):
                a, b = e[i], e[(i + 1) % length]
                mate[a], mate[b] = b, a
                active[a] = active[b] = True
    return whole


@compile_kernel
def _find_chain(table: Pairs, matching: _Matching, one: int) -> tuple[float, int]:
    """Write the chain of greatest gain from a subject; its gain and length."""
    near, mate, _, best, chain, tried, gained = matching
    known = table.costs
    gain, length, depth = 0.0, 0, 0
    tried[0] = 0
    chain[0], chain[1], gained[0] = one, mate[one], np.float64(recall_cost(known, one, mate[one]))
    if gained[0] < 0:
        gained[0] = compute_cost(table, one, mate[one])
    while depth >= 0:
        if depth == len(_PARTNERS_BY_STEP) or tried[depth] >= min(_PARTNERS_BY_STEP[depth], near.shape[1]):
            depth -= 1
            continue
        last, end = chain[2 * depth + 1], 2 * depth + 2
        other = near[last, tried[depth]]
        tried[depth] += 1
        # Kept true: what is gained before the chain is closed is positive; those further away would lose it too.
        cost = recall_cost(known, last, other)
        left = gained[depth] - (cost if cost >= 0 else compute_cost(table, last, other))
        if left <= 0:
            tried[depth] = near.shape[1]
            continue
        # A chain takes each subject once, so what it parts and joins are pairs again.
        if mate[other] < 0 or is_among(chain, end, other):
            continue
        depth += 1
        chain[end], chain[end + 1] = other, mate[other]
        cost = recall_cost(known, other, mate[other])
        gained[depth] = left + (cost if cost >= 0 else compute_cost(table, other, mate[other]))
        cost = recall_cost(known, mate[other], one)
        closed = gained[depth] - (cost if cost >= 0 else compute_cost(table, mate[other], one))
        if closed > gain:
            gain, length = closed, end + 2
            for i in range(length):
                best[i] = chain[i]
        tried[depth] = 0
    return gain, length


@compile_kernel
def _disturb(table: Pairs, matching: _Matching, draws: Int, kept: Int) -> None:
    """Join three pairs that are near one another anew by chance, exchange, and keep what is no worse."""
    near, mate, active, known, n = matching.near, matching.mate, matching.active, table.costs, len(kept)
    for kick in range(len(draws)):
        t1 = draws[kick, 0] % n
        t2 = mate[t1]
        if t2 < 0:
            continue
        t3 = near[t2, draws[kick, 1] % min(_PARTNERS_BY_STEP[0], near.shape[1])]
        t4 = mate[t3]
        if t4 < 0 or t3 == t1:
            continue
        t5 = near[t4, draws[kick, 2] % min(_PARTNERS_BY_STEP[0], near.shape[1])]
        t6 = mate[t5]
        if t6 < 0 or t5 in (t1, t2, t3):
            continue
        # All costs are known here.
        gain = 0.0 + recall_cost(known, t1, t2) + recall_cost(known, t3, t4) + recall_cost(known, t5, t6)
        gain -= 0.0 + recall_cost(known, t2, t3) + recall_cost(known, t4, t5) + recall_cost(known, t6, t1)
        mate[t2], mate[t3], mate[t4], mate[t5], mate[t6], mate[t1] = t3, t2, t5, t4, t1, t6
        for t in (t1, t2, t3, t4, t5, t6):
            active[t] = True
        gain += _exchange(table, matching)
        better = gain >= 0
        for i in range(n):  # Numba compiles texts for an array that is assigned to a slice: it may not fit
            kept[i] = mate[i] if better else kept[i]
            mate[i] = kept[i]
