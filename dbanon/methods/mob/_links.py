"""Whom objects that fit no group hide among, and which links between objects are not needed.

A link is a pair of objects that hide one another: at each own instant of either both are generalised, and that is what
it costs. Of an object without own instants, the link is only of the one it hides.
"""

from typing import Any

import numba
import numpy as np

from dbanon.base.kernels import compile_kernel
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.base.trajectory import Bool, Int, Int32
from dbanon.methods.mob._gen_ag import find_nearest
from dbanon.methods.mob._positions import Positions, Words

_CHOICES_PER_K = 2  # the nearest objects, from which partners are chosen


def choose_partners(
    positions: Positions, place: Int, k: int, kept: Bool, who: Int, *, tasks: Tasks = SERIAL_TASKS
) -> tuple[Int, Int]:
    """Choose partners for some objects: near ones whose own instants suit, first those who want partners themselves.

    Parameters
    ----------
    place : int64[n, T]
        Along the Hilbert curve.
    kept : bool[n]
        Who may be a partner. Those who are not in `who` want none.
    who : int64[w]
        In the run's order. Each finds k - 1 among `kept`.

    Returns
    -------
    one, other : int64[m]
        Each link once.
    """
    if not len(who):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    choice = find_nearest(positions, place, who, min(_CHOICES_PER_K * k, len(kept)), kept, tasks=tasks)
    wanted = np.zeros(len(kept), np.int64)
    wanted[who] = k - 1
    pairs = np.empty((len(who) * (k - 1), 2), np.int64)
    return _link(who, choice, positions.own, wanted, pairs)


def prune_links(positions: Positions, k: int, kept: Bool, owner: Int, other: Int) -> tuple[Int, Int]:
    """Drop links that neither object needs to have k - 1, the most costly first.

    Those of objects without own instants stay where fewer than k of these are left: each must hide somebody.

    Parameters
    ----------
    kept : bool[n]
    owner, other : int[m]
        Who is hidden by whom: links of two objects with own instants in both directions.

    Returns
    -------
    owner, other : int64[m']
    """
    asks = np.diff(positions.offset) > 0
    degree = np.bincount(owner, minlength=len(asks))
    once = (owner < other) | ~asks[other]
    one, two = owner[once].astype(np.int64), other[once].astype(np.int64)
    cost = np.bitwise_count(positions.own[one] ^ positions.own[two]).sum(axis=1, dtype=np.int64)
    low, high = np.sort(np.stack([positions.rank[one], positions.rank[two]]), axis=0)
    order = np.lexsort((high, low, -cost))
    one, two = one[order], two[order]
    needed = _mark_needed(one, two, asks, degree, k)
    if (kept & ~asks).sum() < k:
        needed |= ~asks[two]
    one, two = one[needed], two[needed]
    back = asks[two]
    return np.concatenate([one, two[back]]), np.concatenate([two, one[back]])


@compile_kernel
def _link(who: Int, choice: Int32, own: Words, wanted: Int, pairs: Int) -> tuple[Int, Int]:
    words, count = own.shape[1], np.int64(0)
    # The links of each object, as a list: pair c stands as entry 2 c in the list of its first object and as 2 c + 1 in
    # that of its second, so the other one of entry `at` is pairs[at >> 1, 1 - (at & 1)].
    head, follows = np.full(len(wanted), -1), np.empty(2 * len(pairs), np.int64)
    by = np.full(len(wanted), -1)  # by[j] is i where j is linked with i already
    price = np.empty(choice.shape[1], np.float64)
    for w in range(len(who)):
        i = who[w]
        # Kept true: wanted[j] is how many links j still lacks, for all j; negative where more chose j than it wanted.
        at = head[i]
        while at >= 0:
            by[pairs[at >> 1, 1 - (at & 1)]] = i
            at = follows[at]
        for c in range(len(price)):
            j = choice[w, c]
            price[c] = np.inf
            if j < 0 or by[j] == i:
                continue
            instants = np.int64(0)
            for word in range(words):
                instants += _count_bits(own[i, word] ^ own[j, word])
            # A link that both want stands for two.
            price[c] = instants / 2 if wanted[j] > 0 else instants
        # There is always one to take: the choice of a kept object holds k - 1 or more (`Left.draw`), and for each of
        # them that has no price, being linked with i already, i wants one less.
        while wanted[i] > 0:
            cheapest = np.argmin(price)
            j = choice[w, cheapest]
            price[cheapest] = np.inf
            pairs[count, 0], pairs[count, 1] = i, j
            follows[2 * count], head[i] = head[i], 2 * count
            follows[2 * count + 1], head[j] = head[j], 2 * count + 1
            count += 1
            wanted[i] -= 1
            wanted[j] -= 1
    return pairs[:count, 0].copy(), pairs[:count, 1].copy()


@numba.njit(inline="always", error_model="numpy")
def _count_bits(word: Any) -> Any:
    """Count the bits of a word, in a way that the compiler knows for one instruction."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@compile_kernel
def _mark_needed(one: Int, two: Int, asks: Bool, degree: Int, k: int) -> Bool:
    """Say of each link, in order, whether either of its objects would have too few without it."""
    needed = np.ones(len(one), np.bool_)
    for at in range(len(one)):
        i, j = one[at], two[at]
        # Kept true: degree is that of the links not dropped, and k - 1 or more of all who ask.
        if degree[i] >= k and (not asks[j] or degree[j] >= k):
            needed[at] = False
            degree[i] -= 1
            if asks[j]:
                degree[j] -= 1
    return needed
