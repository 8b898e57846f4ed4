"""Hiding sets that lose less information than those of Algorithm 3, at the same guarantee.

Objects are put into disjoint groups of k that hide one another: everybody's set is the rest of its group. A group is
generalised at the union of its members' own instants, so those are grouped whose own instants coincide, and who are
near one another at them. Invariant: all members of a group are present at all own instants of all of them.

Not in the paper: Yarovoy, Bonchi, Lakshmanan, Wang: Anonymizing Moving Objects: How to Hide a MOB in a Crowd?, EDBT
2009, whose sets overlap, so that at most instants most classes grow together to one of half the city.
"""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from dbanon.methods.kernels import cores
from dbanon.methods.mob._classes import classes, information_loss
from dbanon.methods.mob._positions import Positions, Words
from dbanon.methods.mob._sets import Left, Sets
from dbanon.trajectory import Int

PRICE = 0.5
"""What a rectangle of half the city's perimeter costs, beside a loss of at most 1: regions must stay useful."""

_BLOCK = 4096  # objects that are grouped among themselves
_SEGMENTS = 8  # of the run, in which the place of an object is its mean
_ACROSS = 1 << 12  # the longer side of the city, in units of coarse places
_ROUNDS = 3  # of grouping those left over
_FEW, _TRIED = 4, 3  # groups looked at for an exchange, and exchanges computed exactly
_WEIGHTS = ((1.0, 0.25), (0.25, 1.0), (0.5, 0.5), (1.0, 0.1))
"""How much own instants and places count where passes of exchanges cut groups into blocks."""
_CREDIT = 0.5  # of an own instant that is covered: it would cost about as much in another group
_LEAST = 1 << 20  # comparisons worth a thread

_kernel = numba.njit(cache=True, nogil=True, error_model="numpy")


class _Coarse(NamedTuple):
    """What blocks are cut by, and candidates compared by before rectangles are computed."""

    own: NDArray[np.float32]  # [n, segments] shares of the own instants in each, of the most that anybody has
    place: NDArray[np.int32]  # [n, 2 segments] mean x of each, then mean y


def improved(positions: Positions, place: NDArray[np.integer], k: int, plain: Sets) -> Sets:
    """Find sets of a lower information loss than those of Algorithm 3, or give back the same.

    Parameters
    ----------
    positions : Positions
    place : int32 or int64[n, T]
        Along the Hilbert curve.
    k : int
    plain : Sets
        Of `symmetric`. The same objects are published.

    Returns
    -------
    Sets
        Symmetric as `plain`. Who fits no group keeps the set it has in `plain`, and joins the sets of those.

    Notes
    -----
    Objects are grouped in blocks of some thousands, which threads share; the result does not depend on the threads.
    Takes O(n (B W + T k)) steps for blocks of B objects and W words of instants, and holds 1 KB an object at most.
    """
    group = groups(positions, k, plain.kept)
    found = _as_sets(positions, place, k, plain, group)
    if _loss(positions, found) < _loss(positions, plain):
        return found
    return plain


def groups(positions: Positions, k: int, kept: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Give the group of each object, -1 for those in none: disjoint groups of at least k objects with own instants."""
    who = np.flatnonzero(kept & (np.diff(positions.offset) > 0))
    coarse = _coarse(positions)
    member = _gathered(positions, coarse, who, k)
    for own, at in _WEIGHTS:
        _exchange(positions, coarse, member, own, at)
    group = np.full(len(kept), -1, np.int64)
    group[member] = np.arange(len(member))[:, None]
    _join(positions, coarse, member, who[group[who] < 0], group)
    return group


def _as_sets(
    positions: Positions, place: NDArray[np.integer], k: int, plain: Sets, group: NDArray[np.int64]
) -> Sets:
    """Make sets of groups; those in none take their sets of `plain`, and enter the sets of those in them."""
    owner, other = _pairs(group)
    asks = np.diff(positions.offset) > 0
    loose = (group < 0) & plain.kept & asks
    length = np.where(loose, np.diff(plain.offset), 0)
    one = np.repeat(np.arange(len(group)), length)
    two = plain.other[np.repeat(plain.offset[:-1] - np.cumsum(length) + length, length) + np.arange(length.sum())]
    back = asks[two] & ~loose[two]  # two of those in no group have one another anyway
    owner, other = np.concatenate([owner, one, two[back]]), np.concatenate([other, two, one[back]])
    left = Left(positions)
    left.kept[:] = plain.kept
    return left.sets(place, k, owner.astype(np.int32), other.astype(np.int32), positions.own)


def _pairs(group: NDArray[np.int64]) -> tuple[Int, Int]:
    """List all ordered pairs of two members of a group."""
    by_group = np.argsort(group, kind="stable")
    by_group = by_group[np.searchsorted(group[by_group], 0) :]
    size = np.bincount(group[by_group])
    first, each = np.cumsum(size) - size, size[group[by_group]]
    owner = np.repeat(by_group, each)
    other = by_group[np.repeat(first[group[by_group]], each) + np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)]
    return owner[owner != other], other[owner != other]


def _loss(positions: Positions, sets: Sets) -> float:
    return information_loss(positions, sets, classes(positions, sets))


# ---- what is compared ------------------------------------------------------------------------------------------------


def _coarse(positions: Positions) -> _Coarse:
    n, count = positions.x.shape
    cuts = np.linspace(0, count, _SEGMENTS + 1).astype(np.int64)
    own = np.zeros((n, _SEGMENTS), np.float32)
    at = np.zeros((n, 2 * _SEGMENTS), np.int32)
    scale = _ACROSS / (1 + max(int(positions.x.max(initial=0)), int(positions.y.max(initial=0))))

    def task(low: int, high: int) -> None:
        _average(positions.x, positions.y, positions.there, cuts, scale, at, low, high)

    cores.share(np.full(n, count), task, _LEAST)
    owner = np.repeat(np.arange(n), np.diff(positions.offset))
    np.add.at(own, (owner, np.searchsorted(cuts, positions.instant, side="right") - 1), 1)
    return _Coarse(own / max(int(np.diff(positions.offset).max(initial=1)), 1), at)


def _features(coarse: _Coarse, own: float, at: float) -> NDArray[np.float32]:
    total = coarse.own.sum(axis=1, keepdims=True)
    parts = [np.float32(own) * total, np.float32(own) * coarse.own, np.float32(at / _ACROSS) * coarse.place]
    return np.concatenate(parts, axis=1).astype(np.float32)


def _blocks(features: NDArray[np.float32], most: int) -> list[Int]:
    """Halve at the median of what varies most, until there are no more than `most` in a block."""
    done: list[Int] = []
    todo = [np.arange(len(features))]
    while todo:
        block = todo.pop()
        if len(block) <= most:
            done.append(block)
            continue
        column = features[block].var(axis=0).argmax()
        order = block[np.argsort(features[block, column], kind="stable")]
        todo += [np.sort(order[len(order) // 2 :]), np.sort(order[: len(order) // 2])]
    return done


def _gaps(positions: Positions) -> bool:
    """Say whether anybody is absent at an own instant of anybody."""
    known = np.bitwise_or.reduce(positions.own, axis=0)
    return bool((known & ~np.bitwise_and.reduce(positions.there, axis=0)).any())


def _price(positions: Positions) -> float:
    """Give the price of one cell of half a perimeter."""
    return PRICE / (int(positions.x.max(initial=0)) + int(positions.y.max(initial=0)) + 2)


# ---- grouping --------------------------------------------------------------------------------------------------------


def _gathered(positions: Positions, coarse: _Coarse, who: Int, k: int) -> NDArray[np.int64]:
    """Put objects into groups of k, block by block; those left over among themselves, as long as groups come of it."""
    found: list[NDArray[np.int64]] = []
    length = np.diff(positions.offset)
    for _ in range(_ROUNDS):
        if len(who) < k:
            break
        # Longest first: they choose among most. Ties in the run's order.
        who = who[np.lexsort((positions.rank[who], -length[who]))]
        blocks = _blocks(_features(coarse, 1.0, 0.5)[who], max(_BLOCK, 2 * k))
        label = np.full(len(positions.own), -1, np.int64)

        def task(low: int, high: int) -> None:
            for block in blocks[low:high]:  # noqa: B023 - called before the next turn
                _gather(
                    positions.own, positions.there, coarse.place, who[block], k, positions.x.shape[1],  # noqa: B023
                    PRICE / (2 * _SEGMENTS * _ACROSS), _CREDIT, label,  # noqa: B023
                )  # fmt: skip

        cores.share(np.array([len(block) ** 2 for block in blocks]), task, _LEAST)
        before = len(found)
        for block in blocks:
            rows = who[block]
            grouped = rows[label[rows] >= 0]
            if len(grouped):
                found.append(grouped[np.argsort(label[grouped], kind="stable")].reshape(-1, k))
        who = who[label[who] < 0]
        if len(found) == before:
            break
    return np.concatenate([np.empty((0, k), np.int64), *found])


def _exchange(positions: Positions, coarse: _Coarse, member: NDArray[np.int64], own: float, at: float) -> None:
    """Exchange members of groups that are alike, wherever that costs less."""
    if len(member) < 2:  # noqa: PLR2004
        return
    k = member.shape[1]
    features = _features(coarse, own, at)
    mean = sum((features[member[:, column]] for column in range(1, k)), features[member[:, 0]]) / np.float32(k)
    blocks = _blocks(np.asarray(mean, np.float32), max(_BLOCK // k, 2))
    gaps, price = _gaps(positions), _price(positions)

    def task(low: int, high: int) -> None:
        for block in blocks[low:high]:
            mine = member[block]
            _swap(
                positions.own, positions.there, positions.x, positions.y, coarse.place, mine, gaps, price,
                PRICE / (2 * _SEGMENTS * _ACROSS),
            )  # fmt: skip
            member[block] = mine

    cores.share(np.array([len(block) ** 2 * k for block in blocks]), task, _LEAST >> 4)


def _join(
    positions: Positions, coarse: _Coarse, member: NDArray[np.int64], rest: Int, group: NDArray[np.int64]
) -> None:
    """Have those left over join the groups where they cost least, of those of fewer than 2k members."""
    if not len(member) or not len(rest):
        return
    rest = rest[np.argsort(positions.rank[rest])]
    joined = _join_all(
        positions.own, positions.there, positions.x, positions.y, coarse.place, member, rest, _price(positions),
        PRICE / (2 * _SEGMENTS * _ACROSS),
    )  # fmt: skip
    group[rest] = joined


# ---- kernels ---------------------------------------------------------------------------------------------------------


@_kernel
def _average(x: Any, y: Any, there: Any, cuts: Any, scale: Any, at: Any, low: Any, high: Any) -> None:
    """Average the places of each segment; where an object is absent from all of one, those of the whole run."""
    segments = len(cuts) - 1
    for i in range(low, high):
        all_x, all_y, all_count = 0.0, 0.0, 0
        for segment in range(segments):
            sum_x, sum_y, count = 0.0, 0.0, 0
            for t in range(cuts[segment], cuts[segment + 1]):
                if (there[i, t >> 6] >> np.uint64(t & 63)) & np.uint64(1):
                    sum_x += x[i, t]
                    sum_y += y[i, t]
                    count += 1
            all_x, all_y, all_count = all_x + sum_x, all_y + sum_y, all_count + count
            at[i, segment] = np.int32(scale * sum_x / count) if count else np.int32(-1)
            at[i, segments + segment] = np.int32(scale * sum_y / count) if count else np.int32(-1)
        for segment in range(segments):
            if at[i, segment] < 0 and all_count:
                at[i, segment] = np.int32(scale * all_x / all_count)
                at[i, segments + segment] = np.int32(scale * all_y / all_count)


@numba.njit(inline="always", error_model="numpy")
def _bits(word: Any) -> Any:
    """Count the bits of a word, in a way that the compiler knows for one instruction."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@_kernel
def _count(words: Any) -> Any:
    total = np.int64(0)
    for word in words:
        total += _bits(word)
    return total


@_kernel
def _new(own: Any, union: Any) -> Any:
    """Count the instants of `own` that are not in the union."""
    total = np.int64(0)
    for word in range(len(own)):
        total += _bits(own[word] & ~union[word])
    return total


@_kernel
def _growth(place: Any, least: Any, most: Any) -> Any:
    """Sum by how much a coarse place lies outside the coarse rectangles of a group."""
    total = np.int32(0)
    for column in range(len(place)):
        total += max(least[column] - place[column], np.int32(0)) + max(place[column] - most[column], np.int32(0))
    return total


@_kernel
def _fits(own: Any, there: Any, union: Any, common: Any) -> Any:
    """Whether an object and all members of a group are present at the own instants of all."""
    for word in range(len(own)):  # noqa: SIM110 - quicker than a generator
        if (union[word] & ~there[word]) | (own[word] & ~common[word]):
            return False
    return True


@_kernel
def _gather(own: Any, there: Any, place: Any, rows: Any, k: Any, instants: Any, price: Any, credit: Any, label: Any) -> None:
    """Form groups of k: the first of those left, then whoever costs least beside those taken; label the members."""
    known, present, at = own[rows], there[rows], place[rows]
    length = np.empty(len(rows), np.int64)
    for p in range(len(rows)):
        length[p] = _count(known[p])
    left, taken, groups = np.arange(len(rows)), np.empty(k, np.int64), 0
    while len(left) >= k:
        seed = left[0]
        union, common, least, most = known[seed].copy(), present[seed].copy(), at[seed].copy(), at[seed].copy()
        # As many instants as a group of such objects comes to if own instants are independent.
        reach = instants * (1 - (1 - length[seed] / instants) ** k)
        taken[0], size = 0, 1
        while size < k:
            best, lowest = -1, np.inf
            for p in range(1, len(left)):
                j = left[p]
                if j < 0 or not _fits(known[j], present[j], union, common):
                    continue
                # Credit: what j covers of its own would cost as much in a group of its like.
                cost = (
                    _new(known[j], union) - credit * length[j] + price * reach * _growth(at[j], least, most)
                )
                if cost < lowest:
                    best, lowest = p, cost
            if best < 0:
                break
            j = left[best]
            taken[size], left[best] = j, -1
            size += 1
            union |= known[j]
            common &= present[j]
            least, most = np.minimum(least, at[j]), np.maximum(most, at[j])
        if size == k:
            taken[0] = seed
            for p in taken:
                label[rows[p]] = groups
            groups += 1
            left[0] = -1
            left = left[left >= 0]
        else:
            # Nobody else fits: the others go back, in their order, and the seed is left over.
            for p in range(1, size):
                left[np.searchsorted(_filled(left), taken[p])] = taken[p]
            left = left[1:]


@_kernel
def _filled(left: Any) -> Any:
    """Give each place that was taken the least number it may have held, so that the list is ascending."""
    filled = left.copy()
    for p in range(1, len(filled)):
        if filled[p] < 0:
            filled[p] = filled[p - 1] + 1
    return filled


@_kernel
def _swap(
    own: Any, there: Any, x: Any, y: Any, place: Any, member: Any, gaps: Any, price: Any, coarse_price: Any
) -> None:
    """Try to exchange each member of each group with one of a few groups that seem to suit it."""
    groups, k = member.shape
    words, columns, instants = own.shape[1], place.shape[1], x.shape[1]
    union, once = np.empty((groups, words), np.uint64), np.empty((groups, words), np.uint64)
    least, most = np.empty((groups, columns), np.int32), np.empty((groups, columns), np.int32)
    covered, cost = np.empty(groups, np.int64), np.empty(groups)
    box = np.empty((4, instants), np.int32)
    for g in range(groups):
        _describe(own, place, member[g], union[g], once[g], least[g], most[g])
        covered[g] = _count(union[g])
        cost[g] = _cost(x, y, member[g], union[g], price, box)
    few, fit = np.empty(_FEW, np.int64), np.empty(_FEW)
    pair, promise = np.empty((_TRIED, 2), np.int64), np.empty(_TRIED)
    without_i, without_j = np.empty(words, np.uint64), np.empty(words, np.uint64)
    with_i, with_j = np.empty(k, np.int64), np.empty(k, np.int64)
    for g in range(groups):
        for m in range(k):
            i = member[g, m]
            # The groups to which i would bring the least.
            fit[:] = np.inf
            few[:] = -1
            for h in range(groups):
                if h != g:
                    more = _new(own[i], union[h])
                    score = more + coarse_price * covered[h] * _growth(place[i], least[h], most[h])
                    _keep_least(fit, few, score, h)
            for word in range(words):
                without_i[word] = union[g, word] & ~(once[g, word] & own[i, word])
            # The exchanges by which the unions shrink most.
            promise[:] = np.inf
            pair[:] = -1
            for h in few:
                if h < 0:
                    continue
                for o in range(k):
                    j = member[h, o]
                    change = -covered[g] - covered[h]
                    for word in range(words):
                        without_j[word] = union[h, word] & ~(once[h, word] & own[j, word])
                        change += _bits(without_j[word] | own[i, word]) + _bits(without_i[word] | own[j, word])
                    score = change + coarse_price * (
                        covered[g] * _growth(place[j], least[g], most[g])
                        + covered[h] * _growth(place[i], least[h], most[h])
                    )
                    _keep_pair(promise, pair, score, h, o)
            best, lowest = -1, -1e-6
            for c in range(_TRIED):
                h, o = pair[c]
                if h < 0:
                    break
                change = _exchanged(own, there, x, y, member, g, m, h, o, gaps, price, with_i, with_j, box)
                change -= cost[g] + cost[h]
                if change < lowest:
                    best, lowest = c, change
            if best >= 0:
                h, o = pair[best]
                member[g, m], member[h, o] = member[h, o], i
                for touched in (g, h):
                    _describe(
                        own, place, member[touched], union[touched], once[touched], least[touched], most[touched]
                    )
                    covered[touched] = _count(union[touched])
                    cost[touched] = _cost(x, y, member[touched], union[touched], price, box)


@_kernel
def _describe(own: Any, place: Any, members: Any, union: Any, once: Any, least: Any, most: Any) -> None:
    """Find the own instants of a group, those that only one member has, and the coarse rectangles."""
    union[:] = own[members[0]]
    once[:] = own[members[0]]
    least[:] = place[members[0]]
    most[:] = place[members[0]]
    for i in members[1:]:
        for word in range(len(union)):
            once[word] = (once[word] & ~own[i, word]) | (own[i, word] & ~union[word])
            union[word] |= own[i, word]
        for column in range(len(least)):
            least[column] = min(least[column], place[i, column])
            most[column] = max(most[column], place[i, column])


@_kernel
def _keep_least(fit: Any, few: Any, score: Any, h: Any) -> None:
    """Insert into a short sorted list; of equal ones the earlier stays before."""
    at = len(fit) - 1
    if score >= fit[at]:
        return
    while at and fit[at - 1] > score:
        fit[at], few[at] = fit[at - 1], few[at - 1]
        at -= 1
    fit[at], few[at] = score, h


@_kernel
def _keep_pair(promise: Any, pair: Any, score: Any, h: Any, o: Any) -> None:
    at = len(promise) - 1
    if score >= promise[at]:
        return
    while at and promise[at - 1] > score:
        promise[at] = promise[at - 1]
        pair[at] = pair[at - 1]
        at -= 1
    promise[at] = score
    pair[at, 0], pair[at, 1] = h, o


@_kernel
def _exchanged(
    own: Any, there: Any, x: Any, y: Any, member: Any, g: Any, m: Any, h: Any, o: Any, gaps: Any, price: Any,
    with_i: Any, with_j: Any, box: Any,
) -> Any:  # fmt: skip
    """Cost of two groups after an exchange; infinite where members of one would not all be present."""
    with_j[:] = member[g]
    with_i[:] = member[h]
    with_j[m], with_i[o] = member[h, o], member[g, m]
    total = 0.0
    for members in (with_j, with_i):
        union, common = own[members[0]].copy(), there[members[0]].copy()
        for i in members[1:]:
            union |= own[i]
            common &= there[i]
        if gaps:
            for word in range(len(union)):
                if union[word] & ~common[word]:
                    return np.inf
        total += _cost(x, y, members, union, price, box)
    return total


@_kernel
def _cost(x: Any, y: Any, members: Any, union: Any, price: Any, box: Any) -> Any:
    """Sum over all members and instants of the union what is lost there, and the price of the rectangle."""
    # At instants outside the union members may be absent; whatever is in the rectangle there, it does not count.
    box[0], box[1], box[2], box[3] = x[members[0]], x[members[0]], y[members[0]], y[members[0]]
    for i in members[1:]:
        _widen(x[i], box[0], box[1])
        _widen(y[i], box[2], box[3])
    total = 0.0
    for t in range(x.shape[1]):
        if (union[t >> 6] >> np.uint64(t & 63)) & np.uint64(1):
            wide, high = np.int64(box[1, t]) - box[0, t] + 1, np.int64(box[3, t]) - box[2, t] + 1
            total += 1 - 1 / (np.float64(wide) * high) + price * (wide + high)
    return total * len(members)


@_kernel
def _widen(along: Any, least: Any, most: Any) -> None:
    for t in range(len(along)):
        least[t] = min(least[t], along[t])
        most[t] = max(most[t], along[t])


@_kernel
def _join_all(
    own: Any, there: Any, x: Any, y: Any, place: Any, member: Any, rest: Any, price: Any, coarse_price: Any
) -> Any:
    groups, k = member.shape
    longer, size = np.full((groups, 2 * k - 1), -1, np.int64), np.full(groups, k)
    longer[:, :k] = member
    words, columns = own.shape[1], place.shape[1]
    union, common = np.empty((groups, words), np.uint64), np.empty((groups, words), np.uint64)
    least, most = np.empty((groups, columns), np.int32), np.empty((groups, columns), np.int32)
    once, box = np.empty(words, np.uint64), np.empty((4, x.shape[1]), np.int32)
    for g in range(groups):
        _describe(own, place, member[g], union[g], once, least[g], most[g])
        common[g] = there[member[g, 0]]
        for i in member[g, 1:]:
            common[g] &= there[i]
    joined = np.full(len(rest), -1)
    fit, few = np.empty(_TRIED), np.empty(_TRIED, np.int64)
    for r in range(len(rest)):
        i = rest[r]
        fit[:] = np.inf
        few[:] = -1
        for g in range(groups):
            if size[g] < 2 * k - 1 and _fits(own[i], there[i], union[g], common[g]):
                covered = _count(union[g])
                score = covered + (size[g] + 1) * _new(own[i], union[g])
                score += coarse_price * covered * (size[g] + 1) * _growth(place[i], least[g], most[g])
                _keep_least(fit, few, score, g)
        best, lowest = -1, np.inf
        for g in few:
            if g >= 0:
                before = _cost(x, y, longer[g, : size[g]], union[g], price, box)
                longer[g, size[g]] = i
                change = _cost(x, y, longer[g, : size[g] + 1], union[g] | own[i], price, box) - before
                if change < lowest:
                    best, lowest = g, change
        if best >= 0:
            joined[r] = best
            longer[best, size[best]] = i
            size[best] += 1
            union[best] |= own[i]
            common[best] &= there[i]
            least[best], most[best] = np.minimum(least[best], place[i]), np.maximum(most[best], place[i])
    return joined
