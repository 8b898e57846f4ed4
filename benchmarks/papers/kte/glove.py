"""GLOVE: the two groups of subjects that stretch each other least are merged, until every group has k.

Gramaglia, Fiore: Hiding Mobile Traffic Fingerprints with GLOVE, CoNEXT 2015. The samples of a group are generalised
samples that do not overlap; every one of them holds a fix of every member.
"""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from dbanon.base import cores
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Float, Int
from dbanon.methods.kte._samples import Merged, Samples

MAX_STRETCH_M = 20_000.0  # phi max in space: a stretch counts as 1 from here
MAX_STRETCH_S = 28_800.0  # phi max in time
PARTNERS_KEPT = 32  # cheapest partners of a group; the row is computed again when they are all gone
PAIRS_PER_BLOCK = 1 << 23  # costs of pairs in memory at a time
SAMPLES_PER_HULL = 8  # samples, one after the other, whose common hull is looked at before they are


def group_by_glove(samples: Samples, k: int, rank: Int) -> tuple[Int, Merged]:
    """Group subjects by the stretch it takes to merge them, the cheapest pair first.

    Parameters
    ----------
    samples : Samples
    k : int
    rank : int64[codes]
        Place of each subject, by its code, in the run's order: it decides between equal costs.

    Returns
    -------
    group : int64[s]
        Number of the group of each subject, by the least rank of its members; -1 for all where there are fewer than k.
    merged : Merged
        One record a group.

    Notes
    -----
    Exact: at each step the pair merged is the cheapest of all pairs of groups below k. Takes O(s^2) stretches, each of
    a few comparisons a sample, for samples far apart in time cannot be cheap; no cost of a pair is kept but the
    `PARTNERS_KEPT` least of a group, so memory is O(s).

    Departures: samples of a subject in one slot are one from the start; of two groups with as many samples, the one
    with the lesser rank counts as the longer; and a reshaped piece that holds no fix of a member is merged with the
    neighbour it costs least. The last subjects, fewer than k, join the cheapest group.
    """
    order = np.argsort(rank[samples.subject], kind="stable")
    if len(order) < k:
        none = np.zeros(0, np.int64)
        empty = Merged(offset=np.zeros(1, np.int64), first=none, last=none, box=np.zeros((0, 4), np.int64))
        return np.full(len(order), -1, np.int64), empty
    groups = _Groups.from_samples(samples, order)
    groups.merge_until(k)
    groups.join_leftover(k)
    final = groups.list_final()
    group = np.full(len(order), -1, np.int64)
    for number, one in enumerate(final):
        group[groups.members[one]] = number
    ranges = [groups.list_pieces(one) for one in final]
    pieces = np.concatenate(ranges, axis=1)
    offset = np.cumsum([0, *(part.shape[1] for part in ranges)])
    return group, Merged(offset=offset, first=pieces[0], last=pieces[1], box=pieces[2:].T.copy())


@dataclass(kw_only=True, eq=False)
class _Groups:
    """Groups, those of one subject first; a group that is merged is gone and a new one stands for it.

    `pool` has a column a piece: first and last slot, x0, y0, x1, y1. Those of one group do not overlap, and come in
    order of time.
    """

    samples: Samples
    pool: Int  # [6, 2 m]
    begin: Int  # [2 s]
    end: Int  # [2 s]
    size: Int  # [2 s] subjects of a group; 0 where it is gone or not yet there
    key: Int  # [2 s] least rank of its subjects
    members: list[Int]  # positions in `samples`
    cost: Float  # [2 s, REMEMBERED] ascending, infinity where there is no other
    other: Int  # [2 s, REMEMBERED]

    @classmethod
    def from_samples(cls, samples: Samples, order: Int) -> "_Groups":
        """Make a group of every subject."""
        s = len(order)
        # A merged group has no more pieces than the least any member had, for each holds a fix of all. So a group and
        # all that it was made of have fewer, beyond those of its subjects, than these: 2 m columns are enough.
        pool = np.empty((6, 2 * len(samples.slot)), np.int64)
        begin, end, size, key = (np.zeros(2 * s, np.int64) for _ in range(4))
        _sort_by_slot(samples.offset, samples.slot, samples.x, samples.y, order, pool, begin, end)
        size[:s], key[:s] = 1, np.arange(s)
        cost = np.full((2 * s, PARTNERS_KEPT), np.inf)
        other = np.full((2 * s, PARTNERS_KEPT), -1, np.int64)
        members = [order[i : i + 1] for i in range(s)]
        return cls(
            samples=samples, pool=pool, begin=begin, end=end, size=size, key=key, members=members, cost=cost,
            other=other,
        )  # fmt: skip

    @property
    def scale(self) -> tuple[float, float]:
        """What a slot and a cell of stretch cost."""
        return _scale(self.samples)

    def list_pieces(self, one: int) -> Int:
        """First, last, x0, y0, x1, y1 of a group's generalised samples: int64[6, c]."""
        return np.asarray(self.pool[:, self.begin[one] : self.end[one]])

    def list_final(self) -> list[int]:
        """Groups that are there, by the least rank of their members."""
        there = np.flatnonzero(self.size)
        return [int(one) for one in there[np.argsort(self.key[there])]]

    def merge_until(self, k: int) -> None:
        """Merge the cheapest pair of groups below k until there is at most one such group."""
        self._compute_all_pairs()
        # Kept true: of any pair of groups below k, the later one remembers the other, or a cheaper one that is
        # below k; else its row is computed again. So the cheapest pair remembered is the cheapest of all.
        while len(below := np.flatnonzero((self.size > 0) & (self.size < k))) > 1:
            while (stale := _choose(below, self.size, k, self.key, self.cost, self.other))[0] < 0:
                self._recompute_row(stale[1], below)
            new = self._merge(*stale)
            if self.size[new] < k:
                self._recompute_row(new, np.flatnonzero((self.size > 0) & (self.size < k)))

    def join_leftover(self, k: int) -> None:
        """Merge the last group below k, if there is one, with the group it costs least."""
        for left in np.flatnonzero((self.size > 0) & (self.size < k)).tolist():
            others = np.flatnonzero(self.size >= k)
            cost = self._compute_row(left, others)
            self._merge(left, int(others[np.lexsort((self.key[others], cost))[0]]))

    def _merge(self, a: int, b: int) -> int:
        """Merge two groups; returns the new one."""
        new, start = len(self.members), int(self.end.max())
        pieces = merge_pieces(
            self.samples, self.list_pieces(a), self.list_pieces(b), self.members[a], self.members[b],
            a_first=bool(self.key[a] < self.key[b]),
        )  # fmt: skip
        self.begin[new], self.end[new] = start, start + pieces.shape[1]
        self.pool[:, start : self.end[new]] = pieces
        self.members.append(np.concatenate([self.members[a], self.members[b]]))
        self.size[new], self.key[new] = self.size[a] + self.size[b], min(self.key[a], self.key[b])
        self.size[a] = self.size[b] = 0
        return new

    def _compute_row(self, one: int, others: Int) -> Float:
        """Stretches between a group and others."""
        cost = np.empty((1, len(others)))
        parts = [part for part in np.array_split(np.arange(len(others)), cores.count_threads()) if len(part)]

        def work(part: Int) -> None:
            out = cost[:, part[0] : part[-1] + 1]
            _compute_stretches(
                self.pool, self.begin, self.end, self.size, self.key, *self.scale, one, others[part], out[0]
            )

        with ThreadPoolExecutor(max(1, len(parts))) as pool:
            list(pool.map(work, parts))
        return np.asarray(cost[0])

    def _recompute_row(self, one: int, among: Int) -> None:
        """Compute the row of a group again."""
        others = among[among != one]
        cost = self._compute_row(one, others)
        self.cost[one], self.other[one] = np.inf, -1
        cheapest = np.lexsort((self.key[others], cost))[:PARTNERS_KEPT]
        self.cost[one, : len(cheapest)], self.other[one, : len(cheapest)] = cost[cheapest], others[cheapest]

    def _compute_all_pairs(self) -> None:
        """Compute all pairs of subjects once each, some rows at a time."""
        s = len(self.members)
        for low, high in _cut_blocks(s):
            block = np.full((high - low, s), np.inf)

            def work(part: Int, block: Float = block, low: int = low) -> None:
                for one in part:  # only with those after it: each pair once
                    others = np.arange(one + 1, s)
                    _compute_stretches(
                        self.pool, self.begin, self.end, self.size, self.key, *self.scale, one, others,
                        block[one - low, one + 1 :],
                    )  # fmt: skip

            with ThreadPoolExecutor(cores.count_threads()) as pool:
                list(pool.map(work, np.array_split(np.arange(low, high), 64 * cores.count_threads())))
            _remember(block, low, self.key, self.cost, self.other)


def _cut_blocks(s: int) -> Iterator[tuple[int, int]]:
    rows = max(1, PAIRS_PER_BLOCK // max(s, 1))
    for low in range(0, s, rows):
        yield low, min(low + rows, s)


def _scale(samples: Samples) -> tuple[float, float]:
    return samples.grid_s / MAX_STRETCH_S / 2, samples.grid_m / MAX_STRETCH_M / 2


def merge_pieces(samples: Samples, a: Int, b: Int, members_a: Int, members_b: Int, *, a_first: bool) -> Int:
    """Merge the generalised samples of two groups into ones that do not overlap.

    Parameters
    ----------
    samples : Samples
        Whose fixes every generalised sample must hold.
    a, b : int64[6, c]
        First and last slots, x0, y0, x1, y1.
    members_a, members_b : int64[n]
        Positions in `samples`.
    a_first : bool
        Whether a comes before b in the run's order: of two of one length it then counts as the longer.

    Returns
    -------
    int64[6, c]
    """
    if b.shape[1] > a.shape[1] or (b.shape[1] == a.shape[1] and not a_first):
        a, b, members_a, members_b = b, a, members_b, members_a
    by_slot, by_cell = _scale(samples)
    matched = _match(a, len(members_a), b, len(members_b), by_slot, by_cell)
    everyone = np.concatenate([members_a, members_b])
    return np.asarray(_complete(_reshape(matched), samples.offset, samples.slot, everyone, by_slot, by_cell))


@compile_kernel
def _sort_by_slot(offset: Any, slot: Any, x: Any, y: Any, order: Any, pool: Any, begin: Any, end: Any) -> None:
    """Put the samples of each subject, those of one slot as one, into the pool."""
    c = 0
    for one in range(len(order)):
        begin[one] = c
        for i in range(offset[order[one]], offset[order[one] + 1]):
            if c > begin[one] and pool[0, c - 1] == slot[i]:
                pool[2, c - 1], pool[3, c - 1] = min(pool[2, c - 1], x[i]), min(pool[3, c - 1], y[i])
                pool[4, c - 1], pool[5, c - 1] = max(pool[4, c - 1], x[i]), max(pool[5, c - 1], y[i])
                continue
            pool[0, c] = pool[1, c] = slot[i]
            pool[2, c] = pool[4, c] = x[i]
            pool[3, c] = pool[5, c] = y[i]
            c += 1
        end[one] = c


@compile_kernel
def _compute_time_stretch(a: Any, i: Any, na: Any, b: Any, j: Any, nb: Any, by_slot: Any) -> Any:
    """Half of min(phi_t / 8 h, 1): how far the periods of two samples are stretched to the common one.

    phi is the mean over all na + nb subjects, by which `by_slot` is divided.
    """
    common = max(a[1, i], b[1, j]) - min(a[0, i], b[0, j])
    stretch = na * (common - (a[1, i] - a[0, i])) + nb * (common - (b[1, j] - b[0, j]))
    return min(stretch * by_slot, 0.5)


@compile_kernel
def _compute_space_stretch(a: Any, i: Any, na: Any, b: Any, j: Any, nb: Any, by_cell: Any) -> Any:
    """Half of min(phi_s / 20 km, 1): how far the boxes are stretched, along x and along y together."""
    common = max(a[4, i], b[4, j]) - min(a[2, i], b[2, j]) + max(a[5, i], b[5, j]) - min(a[3, i], b[3, j])
    mine, theirs = a[4, i] - a[2, i] + a[5, i] - a[3, i], b[4, j] - b[2, j] + b[5, j] - b[3, j]
    return min((na * (common - mine) + nb * (common - theirs)) * by_cell, 0.5)


@compile_kernel
def _stretch_to(into: Any, m: Any, piece: Any, j: Any) -> None:
    """Stretch a sample to hold another."""
    for low in (0, 2, 3):
        into[low, m] = min(into[low, m], piece[low, j])
    for high in (1, 4, 5):
        into[high, m] = max(into[high, m], piece[high, j])


@compile_kernel
def _measure_gap(low: Any, high: Any, other_low: Any, other_high: Any) -> Any:
    """How far two intervals are apart; 0 where they meet."""
    return max(low - other_high, other_low - high, 0)


@compile_kernel
def _bound_in_time(a: Any, i: Any, runs: Any, r: Any, n: Any, by_slot: Any) -> Any:
    """No sample of the run costs less than this in time: both are stretched over the gap at least."""
    return min(n * _measure_gap(a[0, i], a[1, i], runs[0, r], runs[1, r]) * by_slot, 0.5)


@compile_kernel
def _bound_in_space(a: Any, i: Any, runs: Any, r: Any, n: Any, by_cell: Any) -> Any:
    """No sample of the run costs less than this in space."""
    gap = _measure_gap(a[2, i], a[4, i], runs[2, r], runs[4, r]) + _measure_gap(
        a[3, i], a[5, i], runs[3, r], runs[5, r]
    )
    return min(n * gap * by_cell, 0.5)


@compile_kernel
def _make_hulls(b: Any) -> Any:
    """Hulls of `SAMPLES_PER_HULL` samples each, in order of time: first, last, x0, y0, x1, y1."""
    runs = np.empty((6, (b.shape[1] + SAMPLES_PER_HULL - 1) // SAMPLES_PER_HULL), np.int64)
    for r in range(runs.shape[1]):
        runs[:, r] = b[:, r * SAMPLES_PER_HULL]
        for j in range(r * SAMPLES_PER_HULL + 1, min((r + 1) * SAMPLES_PER_HULL, b.shape[1])):
            _stretch_to(runs, r, b, j)
    return runs


@compile_kernel
def _search_hull(
    a: Any, i: Any, na: Any, b: Any, nb: Any, runs: Any, r: Any, by_slot: Any, by_cell: Any, best: Any, index: Any,
) -> Any:  # fmt: skip
    """Look at the samples of a run, unless none of them can be as cheap as the best."""
    if _bound_in_time(a, i, runs, r, na + nb, by_slot) + _bound_in_space(a, i, runs, r, na + nb, by_cell) > best:
        return best, index
    for j in range(r * SAMPLES_PER_HULL, min((r + 1) * SAMPLES_PER_HULL, b.shape[1])):
        cost = _compute_time_stretch(a, i, na, b, j, nb, by_slot) + _compute_space_stretch(a, i, na, b, j, nb, by_cell)
        if cost < best or (cost == best and j < index):
            best, index = cost, j
    return best, index


@compile_kernel
def _find_cheapest(
    a: Any, i: Any, na: Any, b: Any, nb: Any, runs: Any, near: Any, hint: Any, by_slot: Any, by_cell: Any,
) -> Any:  # fmt: skip
    """Find the least cost of sample i of a with one of b, and the earliest sample of b that has it.

    `near` is the run to begin with, `hint` a sample that may be cheap. Away from `near` the gap in time only grows:
    beyond a run that costs too much in time alone no run is looked at.
    """
    best, index = (
        _compute_time_stretch(a, i, na, b, hint, nb, by_slot) + _compute_space_stretch(a, i, na, b, hint, nb, by_cell),
        hint,
    )
    for r in range(near, runs.shape[1]):
        if r > near and _bound_in_time(a, i, runs, r, na + nb, by_slot) > best:
            break
        best, index = _search_hull(a, i, na, b, nb, runs, r, by_slot, by_cell, best, index)
    for r in range(near - 1, -1, -1):
        if _bound_in_time(a, i, runs, r, na + nb, by_slot) > best:
            break
        best, index = _search_hull(a, i, na, b, nb, runs, r, by_slot, by_cell, best, index)
    return best, index


@compile_kernel
def _stretch(a: Any, na: Any, b: Any, nb: Any, by_slot: Any, by_cell: Any) -> Any:
    """Mean over the samples of a, the longer, of the least cost with one of b; also which of b each chose."""
    by_slot, by_cell = by_slot / (na + nb), by_cell / (na + nb)
    runs, chosen = _make_hulls(b), np.empty(a.shape[1], np.int64)
    total, near, hint = 0.0, 0, 0
    for i in range(a.shape[1]):
        while near + 1 < runs.shape[1] and runs[1, near] < a[1, i]:
            near += 1
        cost, hint = _find_cheapest(a, i, na, b, nb, runs, near, hint, by_slot, by_cell)
        total += cost
        chosen[i] = hint
    return total / a.shape[1], chosen


@compile_kernel
def _compute_stretches(
    pool: Any, begin: Any, end: Any, size: Any, key: Any, by_slot: Any, by_cell: Any, one: Any, others: Any, out: Any,
) -> None:  # fmt: skip
    """Stretch of a group with each of others."""
    for place in range(len(others)):
        a, b = one, others[place]
        long, short = end[a] - begin[a], end[b] - begin[b]
        if short > long or (short == long and key[b] < key[a]):
            a, b = b, a
        mine, theirs = pool[:, begin[a] : end[a]], pool[:, begin[b] : end[b]]
        out[place] = _stretch(mine, size[a], theirs, size[b], by_slot, by_cell)[0]


@compile_kernel
def _remember(block: Any, low: Any, key: Any, cost: Any, other: Any) -> None:
    """Insert the pairs of a block of rows into the lists of both, sorted by (cost, key)."""
    most = cost.shape[1]
    for row in range(block.shape[0]):
        for column in range(low + row + 1, block.shape[1]):
            for turn in range(2):
                one, two = (low + row, column) if turn == 0 else (column, low + row)
                price, at = block[row, column], most - 1
                if price > cost[one, at] or (price == cost[one, at] and key[two] > key[other[one, at]]):
                    continue
                while at > 0 and (
                    cost[one, at - 1] > price or (cost[one, at - 1] == price and key[other[one, at - 1]] > key[two])
                ):
                    cost[one, at], other[one, at] = cost[one, at - 1], other[one, at - 1]
                    at -= 1
                cost[one, at], other[one, at] = price, two


@compile_kernel
def _choose(below: Any, size: Any, k: Any, key: Any, cost: Any, other: Any) -> Any:
    """Choose the cheapest remembered pair by (cost, lesser key, greater key); (-1, group) where one remembers none."""
    best, a, b = np.inf, -1, -1
    for one in below:
        at = 0
        while at < cost.shape[1] and other[one, at] >= 0 and not 0 < size[other[one, at]] < k:
            at += 1
        if at == cost.shape[1] or other[one, at] < 0:
            return -1, one
        two, price = other[one, at], cost[one, at]
        if price > best:
            continue
        low, high = (one, two) if key[one] < key[two] else (two, one)
        if price < best or key[low] < key[a] or (key[low] == key[a] and key[high] < key[b]):
            best, a, b = price, low, high
    return a, b


@compile_kernel
def _match(a: Any, na: Any, b: Any, nb: Any, by_slot: Any, by_cell: Any) -> Any:
    """Merge each sample of a, the longer, into its cheapest of b, and those of b left over into the cheapest merged."""
    into, taken, chosen = b.copy(), np.zeros(b.shape[1], np.bool_), _stretch(a, na, b, nb, by_slot, by_cell)[1]
    for i in range(a.shape[1]):
        _stretch_to(into, chosen[i], a, i)
        taken[chosen[i]] = True
    merged = np.ascontiguousarray(into[:, taken])
    grown, by_slot, by_cell = merged.copy(), by_slot / (na + nb + nb), by_cell / (na + nb + nb)
    for j in np.flatnonzero(~taken):
        best, index = np.inf, -1
        for m in range(merged.shape[1]):
            time = _compute_time_stretch(b, j, nb, merged, m, na + nb, by_slot)
            cost = time + _compute_space_stretch(b, j, nb, merged, m, na + nb, by_cell)
            if cost < best:
                best, index = cost, m
        _stretch_to(grown, index, b, j)
    return grown


@compile_kernel
def _reshape(merged: Any) -> Any:
    """Cut time where a sample begins or ends; what lies in several samples takes the box of all."""
    cuts = np.unique(np.concatenate((merged[0], merged[1] + 1)))
    pieces = np.empty((6, len(cuts) - 1), np.int64)
    pieces[0], pieces[1] = cuts[:-1], cuts[1:] - 1
    used = np.zeros(len(cuts) - 1, np.bool_)
    for m in range(merged.shape[1]):
        for p in range(np.searchsorted(cuts, merged[0, m]), np.searchsorted(cuts, merged[1, m] + 1)):
            if not used[p]:
                pieces[2:, p], used[p] = merged[2:, m], True
            pieces[2, p], pieces[3, p] = min(pieces[2, p], merged[2, m]), min(pieces[3, p], merged[3, m])
            pieces[4, p], pieces[5, p] = max(pieces[4, p], merged[4, m]), max(pieces[5, p], merged[5, m])
    return np.ascontiguousarray(pieces[:, used])


@compile_kernel
def _has_all(first: Any, last: Any, offset: Any, slot: Any, members: Any) -> Any:
    """Whether every member has a fix in the slots from first to last."""
    for one in members:
        own = slot[offset[one] : offset[one + 1]]
        at = np.searchsorted(own, first)
        if at == len(own) or own[at] > last:
            return False
    return True


@compile_kernel
def _complete(pieces: Any, offset: Any, slot: Any, members: Any, by_slot: Any, by_cell: Any) -> Any:
    """Merge every piece that holds no fix of a member with the neighbour it costs least, the earlier of equals."""
    by_slot, by_cell = by_slot / 2, by_cell / 2
    done, p = 0, 0  # pieces [0, done) hold a fix of everyone; p is the next, and [p, ...) as they were
    while p < pieces.shape[1]:
        if _has_all(pieces[0, p], pieces[1, p], offset, slot, members):
            pieces[:, done] = pieces[:, p]
            done, p = done + 1, p + 1
            continue
        before = after = np.inf
        if done:
            before = _compute_time_stretch(pieces, p, 1, pieces, done - 1, 1, by_slot)
            before += _compute_space_stretch(pieces, p, 1, pieces, done - 1, 1, by_cell)
        if p + 1 < pieces.shape[1]:
            after = _compute_time_stretch(pieces, p, 1, pieces, p + 1, 1, by_slot)
            after += _compute_space_stretch(pieces, p, 1, pieces, p + 1, 1, by_cell)
        if done and before <= after:
            _stretch_to(pieces, done - 1, pieces, p)
        else:
            _stretch_to(pieces, p + 1, pieces, p)
        p += 1
    return pieces[:, :done].copy()
