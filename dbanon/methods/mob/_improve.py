"""Hiding sets that lose less information than those of Algorithm 3, at the same guarantee.

Objects are put into disjoint groups of k that hide one another: everybody's set is the rest of its group. A group is
generalised at the union of its members' own instants, so those are grouped whose own instants coincide, and who are
near one another at them. Invariant: all members of a group are present at all own instants of all of them.

Not in the paper: Yarovoy, Bonchi, Lakshmanan, Wang: Anonymizing Moving Objects: How to Hide a MOB in a Crowd?, EDBT
2009, whose sets overlap, so that at most instants most classes grow together to one of half the city.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.base import cores
from dbanon.base.kernels import compile_kernel
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.base.trajectory import Bool, Float, Int, Int32
from dbanon.methods.mob._classes import build_classes, compute_information_loss
from dbanon.methods.mob._links import _count_bits, choose_partners, prune_links
from dbanon.methods.mob._positions import Positions, Words
from dbanon.methods.mob._sets import Remaining, Sets, _can_join

HALF_PERIMETER_PRICE = 0.5
"""What a rectangle of half the city's perimeter costs, beside a loss of at most 1: regions must stay useful."""

_OBJECTS_PER_BLOCK = 4096  # objects that are grouped among themselves
_RUN_SEGMENTS = 8  # of the run, in which the place of an object is its mean
_COARSE_UNITS_ACROSS = 1 << 12  # the longer side of the city, in units of coarse places
_MAX_ROUNDS = 3  # of grouping those left over
_CANDIDATE_GROUPS, _EXACT_EXCHANGES = 4, 3  # groups looked at for an exchange, and exchanges computed exactly
_FEATURE_WEIGHTS = ((1.0, 0.25), (0.5, 0.5))
"""How much own instants and places count where passes of exchanges cut groups into blocks."""
_COVERED_CREDIT = 0.5  # of an own instant that is covered: it would cost about as much in another group
_RESTRICTION_PRICE = 0.1  # own instants' worth of an instant at which an object lets nobody else of a group be known
_MIN_GAIN = 1e-6  # of an exchange: less may be nothing but rounding
_MIN_COMPARISONS_PER_THREAD = 1 << 16


class _Facts(NamedTuple):
    """What kernels read of all objects, and prices."""

    own: Words
    there: Words
    x: Int32
    y: Int32
    place: Int32  # of _Coarse
    price: float  # of a cell of half a rectangle's perimeter
    nearness: float  # of a unit of a coarse place outside those of a group, at one instant


class _State(NamedTuple):
    """The groups of a block."""

    member: Int  # [groups, k]
    union: Words  # [groups, W] own instants of any member
    once: Words  # [groups, W] of one member only
    least: Int32  # [groups, 2 segments] coarse rectangles
    most: Int32
    covered: Int  # [groups] instants of the union
    cost: Float  # [groups]
    box: Int32  # [4, T] for computing it: least x, greatest x, least y, greatest y


class _Tried(NamedTuple):
    """Where a member may be exchanged, the most promising first: infinite scores come after all."""

    group: Int  # [_CANDIDATE_GROUPS]: -1 for none
    fit: Float  # [_CANDIDATE_GROUPS]: what the member would bring there
    pair: Int  # [_EXACT_EXCHANGES, 2]: a group and a member of it; -1 for none
    promise: Float  # [_EXACT_EXCHANGES]: by how much the unions change


class _Block(NamedTuple):
    """Objects that are grouped among themselves."""

    own: Words  # [b, W]
    there: Words  # [b, W]
    place: Int32  # [b, 2 segments]
    length: Int  # [b]: own instants


class _Open(NamedTuple):
    """A group that is being formed."""

    union: Words  # [W]: the own instants of those taken
    common: Words  # [W]: where all of them are present
    least: Int32  # [2 segments]: their coarse rectangles
    most: Int32


class _Coarse(NamedTuple):
    """What blocks are cut by, and candidates compared by before rectangles are computed."""

    own: NDArray[np.float32]  # [n, segments] shares of the own instants in each, of the most that anybody has
    there: NDArray[np.float32]  # [n, segments] shares of the instants of each at which an object is present
    place: Int32  # [n, 2 segments] mean x of each, then mean y


def improve_sets(positions: Positions, place: Int, k: int, plain: Sets, tasks: Tasks = SERIAL_TASKS) -> Sets:
    """Find sets of a lower information loss than those of Algorithm 3, or give back the same.

    Parameters
    ----------
    place : int64[n, T]
        Along the Hilbert curve.
    plain : Sets
        Of `draw_symmetric`. The same objects are published.

    Returns
    -------
    Sets
        Symmetric as `plain`. Who fits no group is linked with single others. If these lose more, the sets of `plain`,
        without the links that neither object needs.

    Notes
    -----
    Objects are grouped in blocks of some thousands, which threads share; the result does not depend on the threads.
    Takes O(n (B W + T k)) steps for blocks of B objects and W words of instants, and holds 1 KB an object at most.
    """
    group = form_groups(positions, k, plain.kept)
    chosen = np.repeat(np.arange(len(plain.kept)), np.diff(plain.offset)), plain.other.astype(np.int64)
    links = _link_groups(positions, place, k, plain.kept, group, tasks=tasks), chosen
    variants = [
        _make_sets(positions, place, k, plain.kept, *prune_links(positions, k, plain.kept, *pairs)) for pairs in links
    ]
    return min(variants, key=lambda sets: _compute_loss(positions, sets))


def form_groups(positions: Positions, k: int, kept: Bool) -> Int:
    """Give the group of each object, -1 for those in none: disjoint groups of k to 2k - 1 objects with own instants."""
    who = np.flatnonzero(kept & (np.diff(positions.offset) > 0))
    # From here on groups cannot depend on rows that are published exactly.
    positions = _drop_exact_rows(positions, kept)
    coarse = _coarsen_places(positions)
    facts = _collect_facts(positions, coarse)
    member = _gather_groups(positions, coarse, facts, who, k)
    for own, at in _FEATURE_WEIGHTS:
        _exchange(facts, _compute_features(coarse, own, at), member)
    group = np.full(len(kept), -1)
    group[member] = np.arange(len(member))[:, None]
    rest = who[group[who] < 0]
    if len(member) and len(rest):
        rest = rest[np.argsort(positions.rank[rest])]
        group[rest] = _join_all(facts, member, rest)
    return group


def _drop_exact_rows(positions: Positions, kept: Bool) -> Positions:
    """Take objects as absent wherever nobody who is kept has an own instant.

    All are published exactly there: if groups depended on these rows, a reader who has seen them could run the
    algorithm and find which of a group's records is whose more often than one time in k.
    """
    return replace(positions, there=positions.there & np.bitwise_or.reduce(positions.own[kept], axis=0))


def _link_groups(positions: Positions, place: Int, k: int, kept: Bool, group: Int, *, tasks: Tasks) -> tuple[Int, Int]:
    """Link all members of a group, and those in none with whom they find."""
    owner, other = _list_pairs(group)
    asks = np.diff(positions.offset) > 0
    loose = np.flatnonzero((group < 0) & kept & asks)
    one, two = choose_partners(positions, place, k, kept, loose[np.argsort(positions.rank[loose])], tasks=tasks)
    back = asks[two]
    return np.concatenate([owner, one, two[back]]), np.concatenate([other, two, one[back]])


def _make_sets(positions: Positions, place: Int, k: int, kept: Bool, owner: Int, other: Int) -> Sets:
    left = Remaining(positions)
    left.kept[:] = kept
    return left.make_sets(place, k, owner.astype(np.int32), other.astype(np.int32), positions.own)


def _list_pairs(group: Int) -> tuple[Int, Int]:
    """List all ordered pairs of two members of a group."""
    by_group = np.argsort(group, kind="stable")
    by_group = by_group[np.searchsorted(group[by_group], 0) :]
    size = np.bincount(group[by_group])
    first, each = np.cumsum(size) - size, size[group[by_group]]
    owner = np.repeat(by_group, each)
    other = by_group[
        np.repeat(first[group[by_group]], each) + np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
    ]
    return owner[owner != other], other[owner != other]


def _compute_loss(positions: Positions, sets: Sets) -> float:
    return compute_information_loss(build_classes(positions, sets), positions.x.size)


# ---- what is compared ------------------------------------------------------------------------------------------------


def _coarsen_places(positions: Positions) -> _Coarse:
    n, count = positions.x.shape
    cuts = np.linspace(0, count, _RUN_SEGMENTS + 1).astype(np.int64)
    own, there = np.zeros((2, n, _RUN_SEGMENTS), np.float32)
    coarse = _Coarse(own, there, np.zeros((n, 2 * _RUN_SEGMENTS), np.int32))
    scale = _COARSE_UNITS_ACROSS / (1 + max(int(positions.x.max(initial=0)), int(positions.y.max(initial=0))))

    def run_range(low: int, high: int) -> None:
        _average(positions.x, positions.y, positions.there, cuts, scale, coarse, low, high)

    cores.share_work(np.full(n, count), run_range, _MIN_COMPARISONS_PER_THREAD)
    owner = np.repeat(np.arange(n), np.diff(positions.offset))
    np.add.at(own, (owner, np.searchsorted(cuts, positions.instant, side="right") - 1), 1)
    most = np.float32(max(int(np.diff(positions.offset).max(initial=1)), 1))
    return coarse._replace(own=np.asarray(own / most, np.float32))


def _compute_features(coarse: _Coarse, own: float, at: float) -> NDArray[np.float32]:
    total = coarse.own.sum(axis=1, keepdims=True)
    parts = [
        np.float32(own) * total,
        np.float32(own) * coarse.own,
        coarse.there,
        np.float32(at / _COARSE_UNITS_ACROSS) * coarse.place,
    ]
    return np.concatenate(parts, axis=1).astype(np.float32)


def _cut_blocks(features: NDArray[np.float32], most: int) -> list[Int]:
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


def _collect_facts(positions: Positions, coarse: _Coarse) -> _Facts:
    half_perimeter = int(positions.x.max(initial=0)) + int(positions.y.max(initial=0)) + 2
    return _Facts(
        positions.own, positions.there, positions.x, positions.y, coarse.place,
        HALF_PERIMETER_PRICE / half_perimeter, HALF_PERIMETER_PRICE / (2 * _RUN_SEGMENTS * _COARSE_UNITS_ACROSS),
    )  # fmt: skip


# ---- grouping --------------------------------------------------------------------------------------------------------


def _gather_groups(positions: Positions, coarse: _Coarse, facts: _Facts, who: Int, k: int) -> Int:
    """Put objects into groups of k, block by block; those left over among themselves, as long as groups come of it."""
    groups = [np.empty((0, k), np.int64)]
    length, features = np.diff(positions.offset), _compute_features(coarse, 1.0, 0.5)
    label = np.full(len(length), -1)
    for _ in range(_MAX_ROUNDS):
        # Longest first: they choose among most. Ties in the run's order.
        who = who[np.lexsort((positions.rank[who], -length[who]))]
        blocks = [who[block] for block in _cut_blocks(features[who], max(_OBJECTS_PER_BLOCK, 2 * k))]
        _share(blocks, lambda rows: _gather(facts, rows, k, label))
        for rows in blocks:
            grouped = rows[label[rows] >= 0]
            groups.append(grouped[np.argsort(label[grouped], kind="stable")].reshape(-1, k))
        left = who[label[who] < 0]
        if len(left) in {0, len(who)}:
            break
        who = left
    return np.concatenate(groups)


def _exchange(facts: _Facts, features: NDArray[np.float32], member: Int) -> None:
    """Exchange members of groups that are alike, wherever that costs less."""
    groups, k = member.shape
    mean = np.zeros((groups, features.shape[1]), np.float32)
    for column in member.T:
        mean += features[column]

    def swap(block: Int) -> None:
        mine = member[block]
        _swap(facts, mine)
        member[block] = mine

    _share(_cut_blocks(mean / np.float32(k), max(_OBJECTS_PER_BLOCK // k, 2)), swap)


def _share(blocks: list[Int], task: Callable[[Int], None]) -> None:
    def do_some(low: int, high: int) -> None:
        for block in blocks[low:high]:
            task(block)

    cores.share_work(np.array([len(block) ** 2 for block in blocks]), do_some, _MIN_COMPARISONS_PER_THREAD)


# ---- kernels ---------------------------------------------------------------------------------------------------------


@compile_kernel
def _average(x: Int32, y: Int32, there: Words, cuts: Int, scale: float, coarse: _Coarse, low: int, high: int) -> None:
    """Average the places of each segment; where an object is absent from all of one, those of the whole run."""
    at, segments = coarse.place, len(cuts) - 1
    for i in range(low, high):
        all_x, all_y, all_count = 0.0, 0.0, 0
        for segment in range(segments):
            sum_x, sum_y, count = 0.0, 0.0, 0
            for t in range(cuts[segment], cuts[segment + 1]):
                if (there[i, t >> 6] >> np.uint64(t & 63)) & np.uint64(1):
                    sum_x += x[i, t]
                    sum_y += y[i, t]
                    count += 1
            coarse.there[i, segment] = count / max(cuts[segment + 1] - cuts[segment], 1)
            all_x, all_y, all_count = all_x + sum_x, all_y + sum_y, all_count + count
            at[i, segment] = np.int32(scale * sum_x / count) if count else np.int32(-1)
            at[i, segments + segment] = np.int32(scale * sum_y / count) if count else np.int32(-1)
        for segment in range(segments):
            if at[i, segment] < 0 and all_count:
                at[i, segment] = np.int32(scale * all_x / all_count)
                at[i, segments + segment] = np.int32(scale * all_y / all_count)


@compile_kernel
def _count(words: Words) -> np.int64:
    total = np.int64(0)
    for word in words:
        total += _count_bits(word)
    return total


@compile_kernel
def _count_new(own: Words, union: Words) -> np.int64:
    """Count the instants of `own` that are not in the union."""
    total = np.int64(0)
    for word in range(len(own)):
        total += _count_bits(own[word] & ~union[word])
    return total


@compile_kernel
def _measure_growth(place: Int32, least: Int32, most: Int32) -> Any:
    """Sum by how much a coarse place lies outside the coarse rectangles of a group."""
    total = np.int32(0)
    for column in range(len(place)):
        total += max(least[column] - place[column], np.int32(0)) + max(place[column] - most[column], np.int32(0))
    return total


@compile_kernel
def _gather(facts: _Facts, rows: Int, k: int, label: Int) -> None:
    """Form groups of k: the first of those left, then who costs least beside those taken; label the members."""
    length, left, groups = np.empty(len(rows), np.int64), np.arange(len(rows)), 0
    block = _Block(facts.own[rows], facts.there[rows], facts.place[rows], length)
    for p in range(len(rows)):
        length[p] = _count(block.own[p])
    taken, spot, instants = np.empty(k, np.int64), np.empty(k, np.int64), facts.x.shape[1]
    # Each turn groups k objects or leaves the first one over, so this ends. Between turns no entry of `left` is -1.
    while len(left) >= k:
        # The longest first: it chooses among most.
        seed = left[0]
        at = block.place[seed]
        group = _Open(block.own[seed].copy(), block.there[seed].copy(), at.copy(), at.copy())
        # As many instants as a group of such objects comes to if own instants are independent.
        reach = instants * (1 - (1 - length[seed] / instants) ** k)
        taken[0], size = seed, 1
        # Kept true: all taken are present at the union of their own instants (`_can_join` takes nobody else): the
        # invariant of the module.
        while size < k:
            best = _find_cheapest(block, group, left, facts.nearness * reach)
            if best < 0:
                break
            j = left[best]
            taken[size], spot[size], left[best] = j, best, -1
            size += 1
            _admit(group, block.own[j], block.there[j], block.place[j])
        if size == k:
            for one in taken:
                label[rows[one]] = groups
            groups += 1
            left[0] = -1
            left = left[left >= 0]
        else:
            # Nobody else fits: the others go back to their places, and the first is left over.
            for p in range(1, size):
                left[spot[p]] = taken[p]
            left = left[1:]


@compile_kernel
def _admit(group: _Open, own: Words, there: Words, place: Int32) -> None:
    for word in range(len(own)):
        group.union[word] |= own[word]
        group.common[word] &= there[word]
    _widen(place, group.least, group.most)


@compile_kernel
def _find_cheapest(block: _Block, group: _Open, left: Int, nearness: float) -> Any:
    """Find the place in `left` of who costs a group least, -1 if nobody fits."""
    own, there, place, length = block
    union, common, least, most = group
    best, lowest = np.int64(-1), np.inf
    # Strictly less below: of equal costs the first in `left`, which has more own instants or comes first in the run's
    # order.
    for p in range(1, len(left)):
        j = left[p]
        if j < 0 or not _can_join(there[j], own[j], union, common):
            continue
        # What j covers of its own instants would cost as much in a group of its like.
        cost = _count_new(own[j], union) - _COVERED_CREDIT * length[j]
        cost += nearness * _measure_growth(place[j], least, most)
        cost += _RESTRICTION_PRICE * _count_new(common, there[j])
        if cost < lowest:
            best, lowest = np.int64(p), cost
    return best


@compile_kernel
def _swap(facts: _Facts, member: Int) -> None:
    """Try to exchange each member of each group with one of a few groups that seem to suit it."""
    groups, k = member.shape
    state = _build_state(facts, member)
    tried = _Tried(
        np.empty(_CANDIDATE_GROUPS, np.int64), np.empty(_CANDIDATE_GROUPS),
        np.empty((_EXACT_EXCHANGES, 2), np.int64), np.empty(_EXACT_EXCHANGES),
    )  # fmt: skip
    for g in range(groups):
        for m in range(k):
            _find_suitable(facts, state, member[g, m], g, tried)
            _find_promising(facts, state, g, m, tried)
            h, o = _find_best_exchange(facts, state, g, m, tried)
            # Both cost less than before, so neither costs infinity: all members stay present at all own instants.
            if h >= 0:
                member[g, m], member[h, o] = member[h, o], member[g, m]
                _describe(facts, state, g)
                _describe(facts, state, h)


@compile_kernel
def _find_suitable(facts: _Facts, state: _State, i: int, g: int, tried: _Tried) -> None:
    """Find the groups except g to which i would bring least."""
    tried.fit[:], tried.group[:] = np.inf, -1
    # Kept true, as in `_find_promising` and `_find_room`: group[at] has the score fit[at], the least first, and -1
    # comes after all.
    for h in range(len(state.union)):
        if h != g:
            grown = _measure_growth(facts.place[i], state.least[h], state.most[h])
            score = _count_new(facts.own[i], state.union[h]) + facts.nearness * state.covered[h] * grown
            at = _insert_score(tried.fit, score)
            if at >= 0:
                tried.group[at + 1 :] = tried.group[at:-1].copy()
                tried.group[at] = h


@compile_kernel
def _find_promising(facts: _Facts, state: _State, g: int, m: int, tried: _Tried) -> None:
    """Find the exchanges of a member of g with one of a few groups by which the unions shrink most."""
    pair, i = tried.pair, state.member[g, m]
    tried.promise[:], pair[:] = np.inf, -1
    for h in tried.group:
        if h < 0:
            break
        grown = state.covered[h] * _measure_growth(facts.place[i], state.least[h], state.most[h])
        for o in range(state.member.shape[1]):
            j = state.member[h, o]
            change = -state.covered[g] - state.covered[h]
            for word in range(facts.own.shape[1]):
                mine, others = facts.own[i, word], facts.own[j, word]
                # The unions without i and without j: what they alone have goes.
                change += _count_bits(state.union[h, word] & ~(state.once[h, word] & others) | mine)
                change += _count_bits(state.union[g, word] & ~(state.once[g, word] & mine) | others)
            away = grown + state.covered[g] * _measure_growth(facts.place[j], state.least[g], state.most[g])
            at = _insert_score(tried.promise, change + facts.nearness * away)
            if at >= 0:
                pair[at + 1 :] = pair[at:-1].copy()
                pair[at, 0], pair[at, 1] = h, o


@compile_kernel
def _find_best_exchange(facts: _Facts, state: _State, g: int, m: int, tried: _Tried) -> Any:
    """Compute the cost of exchanges; the group and the member of the best, or -1 where none costs less than before."""
    best, other, lowest = np.int64(-1), np.int64(-1), -_MIN_GAIN
    for c in range(len(tried.pair)):
        h, o = tried.pair[c]
        if h < 0:
            break
        # What the scores have only guessed: the loss of all instants, infinite where the exchange breaks presence.
        with_i, with_j = state.member[h].copy(), state.member[g].copy()
        with_i[o], with_j[m] = state.member[g, m], state.member[h, o]
        change = _compute_cost(facts, with_i, state.box) + _compute_cost(facts, with_j, state.box)
        change = change - state.cost[g] - state.cost[h]
        if change < lowest:
            best, other, lowest = h, o, change
    return best, other


@compile_kernel
def _build_state(facts: _Facts, member: Int) -> _State:
    groups, words, columns = len(member), facts.own.shape[1], facts.place.shape[1]
    state = _State(
        member, np.empty((groups, words), np.uint64), np.empty((groups, words), np.uint64),
        np.empty((groups, columns), np.int32), np.empty((groups, columns), np.int32),
        np.empty(groups, np.int64), np.empty(groups, np.float64), np.empty((4, facts.x.shape[1]), np.int32),
    )  # fmt: skip
    for g in range(groups):
        _describe(facts, state, g)
    return state


@compile_kernel
def _describe(facts: _Facts, state: _State, g: int) -> None:
    """Bring the state of a group up to date with its members."""
    members, union, once = state.member[g], state.union[g], state.once[g]
    least, most = state.least[g], state.most[g]
    union[:], once[:] = 0, 0
    least[:], most[:] = facts.place[members[0]], facts.place[members[0]]
    for i in members:
        for word in range(len(union)):
            mine = facts.own[i, word]
            # Kept true: `union` are the own instants of the members so far, `once` those of exactly one of them.
            once[word] = (once[word] & ~mine) | (mine & ~union[word])
            union[word] |= mine
        _widen(facts.place[i], least, most)
    state.covered[g] = _count(union)
    state.cost[g] = _compute_cost(facts, members, state.box)


@compile_kernel
def _insert_score(scores: Float, score: float) -> int:
    """Insert into a short ascending list, after equal ones; where, or -1 if it is no less than the last."""
    at = len(scores) - 1
    if score >= scores[at]:
        return -1
    while at and scores[at - 1] > score:
        scores[at] = scores[at - 1]
        at -= 1
    scores[at] = score
    return at


@compile_kernel
def _compute_cost(facts: _Facts, members: Int, box: Int32) -> float:
    """Sum over all members and instants of the union what is lost there, and the price of the rectangle.

    Infinite where not all members are present at all instants of the union.
    """
    x, y, total = facts.x, facts.y, 0.0
    # At instants outside the union members may be absent; whatever is in the rectangle there, it does not count.
    first = members[0]
    box[0], box[1], box[2], box[3] = x[first], x[first], y[first], y[first]
    for i in members[1:]:
        _widen(x[i], box[0], box[1])
        _widen(y[i], box[2], box[3])
    for word in range(facts.own.shape[1]):
        union, common = np.uint64(0), ~np.uint64(0)
        for i in members:
            union |= facts.own[i, word]
            common &= facts.there[i, word]
        if union & ~common:
            return np.inf
        for t in range(64 * word, min(64 * word + 64, x.shape[1])):
            if (union >> np.uint64(t & 63)) & np.uint64(1):
                wide, high = np.int64(box[1, t]) - box[0, t] + 1, np.int64(box[3, t]) - box[2, t] + 1
                total += 1 - 1 / (np.float64(wide) * high) + facts.price * (wide + high)
    return total * len(members)


@compile_kernel
def _widen(along: Int32, least: Int32, most: Int32) -> None:
    for at in range(len(along)):
        least[at] = min(least[at], along[at])
        most[at] = max(most[at], along[at])


@compile_kernel
def _join_all(facts: _Facts, member: Int, rest: Int) -> Int:
    """Let each of `rest` join a group of fewer than 2k where it costs least of those that seem to suit it, -1: none."""
    groups, k = member.shape
    longer, size = np.full((groups, 2 * k - 1), -1, np.int64), np.full(groups, k)
    longer[:, :k] = member
    state, common = _build_state(facts, member), facts.there[member[:, 0]]
    for g in range(groups):
        for i in member[g]:
            common[g] &= facts.there[i]
    joined = np.full(len(rest), -1)
    # Kept true: `common` and the state are those of the groups as they are now, except `once`, which only exchanges
    # read. No group gets 2k members: it could be parted into two of k, which lose no more.
    fit, few = np.empty(_EXACT_EXCHANGES), np.empty(_EXACT_EXCHANGES, np.int64)
    for r in range(len(rest)):
        i = rest[r]
        _find_room(facts, state, common, size, 2 * k - 1, i, few, fit)
        best, lowest = -1, np.inf
        for h in few:
            if h >= 0:
                longer[h, size[h]] = i
                change = _compute_cost(facts, longer[h, : size[h] + 1], state.box) - state.cost[h]
                if change < lowest:
                    best, lowest = int(h), change
        joined[r] = best
        if best >= 0:
            longer[best, size[best]] = i
            size[best] += 1
            common[best] &= facts.there[i]
            state.cost[best] += lowest
            state.union[best] |= facts.own[i]
            state.covered[best] = _count(state.union[best])
            _widen(facts.place[i], state.least[best], state.most[best])
    return joined


@compile_kernel
def _find_room(facts: _Facts, state: _State, common: Words, size: Int, most: int, i: int, few: Int, fit: Float) -> None:
    """Find the groups that have room for i, by presence too, and where it would cost least."""
    fit[:], few[:] = np.inf, -1
    for g in range(len(size)):
        if size[g] < most and _can_join(facts.there[i], facts.own[i], state.union[g], common[g]):
            grown = _measure_growth(facts.place[i], state.least[g], state.most[g])
            score = _count_new(facts.own[i], state.union[g]) + facts.nearness * state.covered[g] * grown
            # One more is generalised at the instants covered before, and all of them, with i, at those that i brings.
            at = _insert_score(fit, state.covered[g] + (size[g] + 1) * score)
            if at >= 0:
                few[at + 1 :] = few[at:-1].copy()
                few[at] = g
