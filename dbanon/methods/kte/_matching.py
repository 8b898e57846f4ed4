"""Pairs of subjects exchanged until the sum of their costs can hardly be less."""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from typing import Any

import numba
import numpy as np

from dbanon.methods.kte._pairs import Pairs
from dbanon.methods.kte._pairs import cost as _cost
from dbanon.trajectory import Int

_kernel = numba.njit(cache=True, nogil=True, error_model="numpy")

KICKS = 60  # for each subject, where all pairs are known
_FIRST, _SECOND, _THIRD = 10, 5, 3  # partners tried at each step of a chain


def improve(table: Pairs, near: Int, mate: Int, rng: np.random.Generator) -> None:
    """Improve a matching in place by alternating chains, and where all costs are known by chance disturbances of it.

    Parameters
    ----------
    table : Pairs
    near : int64[n, c]
        Others who are cheap to merge with each, the cheapest first.
    mate : int64[n]
        The partner of each, -1 for none.
    rng : numpy.random.Generator

    Notes
    -----
    After Lin and Kernighan, An effective heuristic algorithm for the travelling-salesman problem, 1973: up to four
    pairs are parted and joined anew, each step costing less than was gained before it. Whole costs: every exchange
    lowers their sum, so this ends.
    """
    active = mate >= 0
    _exchange(table, near, mate, active)
    if len(table.all) and near.shape[1] and (mate >= 0).sum() > 6:
        draws = rng.integers(1 << 62, size=(KICKS * len(mate), 4))
        _disturb(table, near, mate, active, draws)


@_kernel
def _exchange(table: Any, near: Any, mate: Any, active: Any) -> Any:
    """Exchange until no chain from an active subject gains; the whole gain. Names are t1, t2, ... as of Lin-Kernighan."""
    n, whole, again = len(mate), 0.0, True
    e = np.empty(8, np.int64)
    while again:
        again = False
        for t1 in range(n):
            if not active[t1]:
                continue
            active[t1] = False
            gain, length = _chain(table, near, mate, t1, e)
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


@_kernel
def _chain(table: Any, near: Any, mate: Any, t1: Any, best: Any) -> Any:
    """Find the chain of greatest gain from a subject: its gain and length."""
    gain, length, t2 = 0.0, 0, mate[t1]
    start = _cost(table, t1, t2)
    for i in range(min(_FIRST, near.shape[1])):
        t3 = near[t2, i]
        # Kept true: what was gained so far, before the chain is closed, is positive.
        one = start - _cost(table, t2, t3)
        if one <= 0:
            break
        t4 = mate[t3]
        if t4 < 0 or t3 == t1:
            continue
        one += _cost(table, t3, t4)
        closed = one - _cost(table, t4, t1)
        if closed > gain:
            gain, length = closed, 4
            best[0], best[1], best[2], best[3] = t1, t2, t3, t4
        for j in range(min(_SECOND, near.shape[1])):
            t5 = near[t4, j]
            two = one - _cost(table, t4, t5)
            if two <= 0:
                break
            t6 = mate[t5]
            if t6 < 0 or t5 in (t1, t2, t3):
                continue
            two += _cost(table, t5, t6)
            closed = two - _cost(table, t6, t1)
            if closed > gain:
                gain, length = closed, 6
                best[0], best[1], best[2], best[3], best[4], best[5] = t1, t2, t3, t4, t5, t6
            for h in range(min(_THIRD, near.shape[1])):
                t7 = near[t6, h]
                three = two - _cost(table, t6, t7)
                if three <= 0:
                    break
                t8 = mate[t7]
                if t8 < 0 or t7 in (t1, t2, t3, t4, t5):
                    continue
                closed = three + _cost(table, t7, t8) - _cost(table, t8, t1)
                if closed > gain:
                    gain, length = closed, 8
                    best[0], best[1], best[2], best[3] = t1, t2, t3, t4
                    best[4], best[5], best[6], best[7] = t5, t6, t7, t8
    return gain, length


@_kernel
def _disturb(table: Any, near: Any, mate: Any, active: Any, draws: Any) -> None:
    """Join three pairs that are near one another anew by chance, exchange, and keep what is no worse."""
    n, kept = len(mate), mate.copy()
    for kick in range(len(draws)):
        t1 = draws[kick, 0] % n
        t2 = mate[t1]
        if t2 < 0:
            continue
        t3 = near[t2, draws[kick, 1] % min(_FIRST, near.shape[1])]
        t4 = mate[t3]
        if t4 < 0 or t3 == t1:
            continue
        t5 = near[t4, draws[kick, 2] % min(_FIRST, near.shape[1])]
        t6 = mate[t5]
        if t6 < 0 or t5 in (t1, t2, t3):
            continue
        gain = _cost(table, t1, t2) + _cost(table, t3, t4) + _cost(table, t5, t6)
        gain -= _cost(table, t2, t3) + _cost(table, t4, t5) + _cost(table, t6, t1)
        mate[t2], mate[t3], mate[t4], mate[t5], mate[t6], mate[t1] = t3, t2, t5, t4, t1, t6
        for t in (t1, t2, t3, t4, t5, t6):
            active[t] = True
        gain += _exchange(table, near, mate, active)
        if gain >= 0:
            kept[:] = mate
        else:
            mate[:] = kept
