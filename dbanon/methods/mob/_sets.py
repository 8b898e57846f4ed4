"""Which objects hide each object, and at which instants it is generalised with them.

Invariant: two objects hide one another only where each is present at all own instants of the other, and each published
object either has k - 1 others or no own instants. Those who find fewer are left out, and the sets are drawn from those
left, until all find enough.

Yarovoy, Bonchi, Lakshmanan, Wang: Anonymizing Moving Objects: How to Hide a MOB in a Crowd?, EDBT 2009.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.base import cores
from dbanon.base.kernels import compile_kernel
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.base.trajectory import Bool, Int, Int32, freeze_arrays
from dbanon.methods.mob._gen_ag import find_nearest
from dbanon.methods.mob._positions import Positions, Words

# The paper's O is an object and QID(O) its own instants. AG(O) and HS(O) are its hiding set by Algorithms 2 and 3, and
# T(O) is its `when`. The slack is how many others it lacks.
REASONS = ("few_partners",)

_CANDIDATES_PER_K = 16  # times k candidates are found by vectors before all that fit are looked at
_MIN_DEVIATIONS_PER_THREAD = 1 << 22


Draw = Callable[[Int, Bool], Int32]
"""Finds the k - 1 partners of some objects among those left, padded with -1."""


class Sets(NamedTuple):
    """The hiding set of each object, in rows of `Positions`; read-only."""

    offset: Int  # [n + 1]
    # Who hides object i: ``other[offset[i]:offset[i + 1]]``, i itself not among them, in the run's order. None of
    # objects without own instants and of suppressed ones.
    other: Int32  # [m]
    # At which instants each is generalised with its set, T(O) in the paper, as bits like ``Positions.own``.
    when: Words  # [n, W]
    kept: Bool  # [n]: who is published


class _Objects(NamedTuple):
    """What `Positions` say of all objects, and where they are along the curve."""

    offset: Int  # [n + 1]
    instant: Int32
    there: Words
    own: Words
    place: Int  # [n, T]

    @classmethod
    def collect(cls, positions: Positions, place: Int) -> "_Objects":
        return cls(positions.offset, positions.instant, positions.there, positions.own, place)


class _Candidates(NamedTuple):
    """Objects who may be taken, with their own rows of words, side by side."""

    row: Int  # [m], in the run's order
    own: Words  # [m, W]
    there: Words  # [m, W]


def draw_symmetric(positions: Positions, place: Int, k: int, tasks: Tasks = SERIAL_TASKS) -> Sets:
    """Hide objects by one another, each at its own instants: Algorithm 3.

    Departs from the paper where it leaves things open: objects are visited in the run's order, partners are present
    both ways and distinct from those whom symmetry has brought before, and who has enough of these looks for no more.

    `place` (int64[n, T]): along the Hilbert curve.

    The k - 1 nearest of each object are enough, whatever symmetry has brought: of those, as many are new as are wanted.
    """
    left = Remaining(positions)
    partners = left.draw(k, lambda who, kept: find_nearest(positions, place, who, k - 1, kept, tasks=tasks))
    visited = left.order[left.kept[left.order] & left.asks[left.order]]
    owner, other = _visit(visited, partners)
    # Lines 8 to 10 of Algorithm 3, for objects with a QID: one without has no instant at which its own set would count.
    back = left.asks[other]
    owner, other = np.concatenate([owner, other[back]]), np.concatenate([other, owner[back]])
    return left.make_sets(place, k, owner, other, positions.own.copy())


def draw_extreme_union(positions: Positions, place: Int, k: int, tasks: Tasks = SERIAL_TASKS) -> Sets:
    """Hide each object among its k - 1 nearest, at the own instants of all of them: Algorithm 2.

    Departs from the paper where objects are absent at instants: those who cannot be present with all taken before at
    all instants of the union are passed over.

    `place` (int64[n, T]): along the Hilbert curve.
    """
    left = Remaining(positions)
    partners = left.draw(
        k, lambda who, kept: _pick_compatible(positions, place, who, k, kept, order=left.order, tasks=tasks)
    )
    owner = np.flatnonzero(left.kept & left.asks)
    when = positions.own.copy()
    for column in partners[owner].T:
        # Lines 4 and 5 of Algorithm 2: T(O) is the union of the own instants of AG(O).
        when[owner] |= positions.own[column]
    return left.make_sets(place, k, np.repeat(owner, k - 1).astype(np.int32), partners[owner].ravel(), when)


def prepare(positions: Positions, place: Int) -> None:
    """Compile what is needed only where objects have gaps, or few of them lack own instants."""
    none, own = np.zeros(0, np.int64), positions.own.copy()
    objects = _Objects.collect(positions, place)
    _fit_rest(objects, none, _Candidates(none, own, own), np.zeros((0, 1), np.int32), 0, 0)
    _find_nearest_owner(objects, own, none, np.int64(0))


class Remaining:
    """Who is left to be published, while sets are drawn."""

    def __init__(self, positions: Positions) -> None:
        self.positions = positions
        self.order = np.argsort(positions.rank)  # [n]: rows of `positions` in the run's order
        self.asks = np.diff(positions.offset) > 0  # [n]: who has own instants
        self.kept = np.ones(len(self.asks), bool)  # [n]: who is left

    def draw(self, k: int, draw: Draw) -> Int32:
        """Find partners of all who ask, and leave out who finds too few, until all are found among those left.

        Who loses none of its partners would draw them again, and is not asked again.
        """
        partners = np.full((len(self.asks), k - 1), -1, np.int32)
        who = np.flatnonzero(self.asks)
        # Kept true: all left who are not in `who` have k - 1 partners, who are left too. Objects only leave, so this
        # ends.
        while len(who):
            partners[who] = draw(who, self.kept)
            self.kept[who[partners[who, -1] < 0]] = False
            who = np.flatnonzero(self.asks & self.kept)
            who = who[~self.kept[partners[who]].all(axis=1)]
        return partners

    def make_sets(self, place: Int, k: int, owner: Int32, other: Int32, when: Words) -> Sets:
        """Make sets of pairs; where fewer than k objects lack own instants, have each of these serve in one.

        Else the record of one that serves in none would be known to belong to one of these few. Those who can serve in
        none are left out; sets need not be drawn again, for they are in none.
        """
        blank = self.kept & ~self.asks
        if 0 < blank.sum() < k:
            idle = blank.copy()
            idle[other] = False
            owners, objects = self.order[(self.kept & self.asks)[self.order]], _Objects.collect(self.positions, place)
            for one in self.order[idle[self.order]]:
                served = _find_nearest_owner(objects, when, owners, one)
                if served < 0:
                    self.kept[one] = False
                else:
                    owner, other = np.append(owner, np.int32(served)), np.append(other, np.int32(one))
        n = len(self.order)
        turn = np.empty(n, np.int64)
        turn[self.order] = np.arange(n)
        pair = np.sort(owner * np.int64(n) + turn[other])
        sets = Sets(
            offset=np.searchsorted(pair, np.arange(n + 1) * n),
            other=self.order[pair % n].astype(np.int32),
            when=np.where((self.kept & self.asks)[:, None], when, np.uint64(0)),
            kept=self.kept,
        )
        return freeze_arrays(sets)


def _pick_compatible(
    positions: Positions, place: Int, who: Int, k: int, kept: Bool, *, order: Int, tasks: Tasks
) -> Int32:
    """Take by rising sum whom all taken before can be present with: among few candidates, if need be all."""
    taken = np.full((len(who), k - 1), -1, np.int32)
    short = np.arange(len(who))
    for number in (k - 1, min(_CANDIDATES_PER_K * k, len(kept))):
        if len(short):
            candidates = find_nearest(positions, place, who[short], number, kept, tasks=tasks)
            taken[short] = _take_fitting(positions.there, positions.own, who[short], candidates, k - 1)
            short = short[(taken[short, -1] < 0) & (candidates[:, -1] >= 0)]
    among, partners = order[kept[order]], taken[short]
    rest = _Candidates(among, positions.own[among], positions.there[among])

    def run_range(low: int, high: int) -> None:
        _fit_rest(_Objects.collect(positions, place), who[short], rest, partners, low, high)

    cores.share_work(np.full(len(short), len(among)), run_range, _MIN_DEVIATIONS_PER_THREAD)
    taken[short] = partners
    return taken


# ---- kernels ---------------------------------------------------------------------------------------------------------


@compile_kernel
def _visit(visited: Int, partners: Int32) -> tuple[Int32, Int32]:
    """Algorithm 3, lines 5 to 10: who chose, and whom. HS(i) are those whom i chose, and those who chose i."""
    n, wanted = partners.shape
    room = len(visited) * wanted
    chooser, chosen = np.empty(room, np.int32), np.empty(room, np.int32)
    # Those who chose i, as a list: last[i], before[last[i]] and so on.
    last, before, times = np.full(n, -1), np.empty(room, np.int64), np.zeros(n, np.int64)
    inside, used = np.full(n, -1), 0
    for i in visited:
        # Before its visit i has made no choice. Its slack is negative where more than k - 1 chose it.
        slack = wanted - times[i]
        if slack <= 0:
            continue
        at = last[i]
        while at >= 0:
            inside[chooser[at]] = i
            at = before[at]
        # Line 7, top-slack. Only k - 1 - slack objects chose i, so of its k - 1 nearest at least `slack` are new.
        for j in partners[i]:
            if slack == 0:
                break
            if inside[j] == i:
                continue
            chooser[used], chosen[used], before[used] = i, j, last[j]
            last[j] = used
            times[j] += 1
            used += 1
            slack -= 1
    return chooser[:used].copy(), chosen[:used].copy()


@compile_kernel
def _take_fitting(there: Words, own: Words, who: Int, candidates: Int32, wanted: int) -> Int32:
    taken = np.full((len(who), wanted), -1, np.int32)
    for w in range(len(who)):
        # Kept true by `_fit`: all taken are present at `union`, and `common` is where all of them are present.
        union, common = own[who[w]].copy(), there[who[w]].copy()
        _fit(there, own, candidates[w], union, common, taken[w])
    return taken


@compile_kernel
def _fit(there: Words, own: Words, candidates: NDArray[np.integer], union: Words, common: Words, taken: Int32) -> None:
    """Take the first candidates who can be present with all taken before at all own instants of all of them.

    The union of the own instants of those taken, and the instants at which all of them are present, are kept.
    """
    filled = 0
    for j in taken:
        filled += j >= 0
    for j in candidates:
        if j < 0 or filled == len(taken):
            break
        if _can_join(there[j], own[j], union, common):
            taken[filled] = j
            filled += 1
            union |= own[j]
            common &= there[j]


@compile_kernel
def _can_join(there: Words, own: Words, union: Words, common: Words) -> bool:
    """Whether one is present at the instants of the union, and all the others at its own."""
    for word in range(len(union)):  # noqa: SIM110 - quicker than a generator
        if (union[word] & ~there[word]) | (own[word] & ~common[word]):
            return False
    return True


@compile_kernel
def _fit_rest(objects: _Objects, who: Int, candidates: _Candidates, taken: Int32, low: int, high: int) -> None:
    """Take more of all, by rising sum, then in the run's order, which the candidates have.

    Who did not fit those taken when its turn came fits them no better now: those taken of the nearest stay first, and
    deviations are summed of those alone who fit all of these.
    """
    own, there = objects.own, objects.there
    among, own_of, there_of = candidates
    total, index = np.empty(len(among), np.int64), np.empty(len(among), np.int64)
    for w in range(low, high):
        i, used = who[w], 0
        union, common = own[i].copy(), there[i].copy()
        for j in taken[w]:
            if j >= 0:
                union |= own[j]
                common &= there[j]
        for at in range(len(among)):
            j = among[at]
            fits = _can_join(there_of[at], own_of[at], union, common)
            if fits and j != i and not _is_among(taken[w], j):
                total[used], index[used] = _sum_deviations(objects, i, j), j
                used += 1
        _fit(there, own, index[np.argsort(total[:used], kind="mergesort")], union, common, taken[w])


@compile_kernel
def _is_among(taken: Int32, j: int) -> bool:
    for one in taken:  # noqa: SIM110 - quicker than a generator
        if one == j:
            return True
    return False


@compile_kernel
def _sum_deviations(objects: _Objects, i: int, j: Any) -> np.int64:
    """Sum the deviations along the curve at the own instants of i."""
    place, instant, total = objects.place, objects.instant, np.int64(0)
    for at in range(objects.offset[i], objects.offset[i + 1]):
        t = instant[at]
        total += abs(np.int64(place[i, t]) - np.int64(place[j, t]))
    return total


@compile_kernel
def _find_nearest_owner(objects: _Objects, when: Words, owners: Int, one: Any) -> np.int64:
    """Find the owner that `one` deviates least from, of those at whose instants it is present; -1 where none is."""
    there, best, least = objects.there, np.int64(-1), np.int64(0)
    for i in owners:
        fits = True
        for word in range(when.shape[1]):
            fits = fits and when[i, word] & ~there[one, word] == 0
        if fits:
            total = _sum_deviations(objects, i, one)
            # Strictly less: of equal sums the owner that comes first in the run's order.
            if best < 0 or total < least:
                best, least = i, total
    return best
