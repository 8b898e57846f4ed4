"""Hiding sets of all windows: drawn within clusters of the same history, or among all with samples in the same epochs.

A window's people are parted by their epochs, then by the clusters they were in. Those in too small a part, or without
a hiding set in it, are drawn with all such people of the same epochs; with `join` set, with another part where these
are too few or have hidden each other already. Those still left fail, and the caller suppresses them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.base.progress import Progress
from dbanon.base.trajectory import Bool, Float, Int
from dbanon.methods.kte import _k_merge
from dbanon.methods.kte._hide import _cycles
from dbanon.methods.kte._hide._epochs import EpochSamples
from dbanon.methods.kte._hide._windows import Presence, cut_at_medians

MAX_PART_PEOPLE = 300  # the costs of all its pairs are computed

Failed = list[tuple[int, Int]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Rules:
    """The parameters of a run that hiding sets are drawn by, and the order of its subjects."""

    k: int
    # Whether another may return a whole epoch after the window in which it was one. The first of a set never does, nor
    # was it there before: so in no epoch outside a window do all records of those who picked a subject carry it.
    may_return: bool
    joins_leftovers: bool  # whether people left over join other parts
    rank: Int  # [s]


class Drawing:
    """The hiding sets drawn so far.

    `others` (int32[s, w, d]): of each subject in each window, or -1.
    """

    def __init__(self, runs: EpochSamples, rules: Rules, costs: dict[bytes, NDArray[np.float32]]) -> None:
        self.runs, self.rules = runs, rules
        self.others = np.full((runs.subjects, runs.windows, rules.k - 1), -1, np.int32)
        self._place = np.full(runs.subjects, -1, np.int32)
        self._costs = costs

    def draw(self, presence: Presence, history: Int, progress: Progress) -> Failed:
        """Draw all windows in order; give those who found no hiding set."""
        failed: Failed = []
        for window in range(self.runs.windows):
            for alike in presence.group_alike(window):
                left = self._draw_alike(presence, alike, window, history)
                if len(left):
                    failed.append((window, left))
            progress("hiding sets", window + 1, self.runs.windows)
        return failed

    def _draw_alike(self, presence: Presence, alike: Int, window: int, history: Int) -> Int:
        k, epochs = self.rules.k, window + np.flatnonzero(presence.kept[alike[0], window : window + self.runs.window])
        alike = alike[np.argsort(self.rules.rank[alike])]
        # Algorithm 2, line 8: parts have the same sequence of clusters over the window.
        labels = history[alike][:, epochs]
        _, part_of = np.unique(labels, axis=0, return_inverse=True)
        part_of = part_of.ravel()
        size = np.bincount(part_of)
        pool, drawn = [alike[size[part_of] < k]], []
        for number in np.flatnonzero(size >= k):
            for some in self._split_members(alike[part_of == number], epochs):
                left = self._draw_sets(some, epochs, window)
                pool.append(left)
                drawn.append(np.setdiff1d(some, left))
        left = np.concatenate(pool)
        # The paper leaves small parts out (line 16); clusters only make merges cheap, so their people try all others
        # first.
        if len(left) >= k:
            some_parts = self._split_members(left[np.argsort(self.rules.rank[left])], epochs)
            again = [self._draw_sets(some, epochs, window) for some in some_parts]
            drawn += [np.setdiff1d(some, out) for some, out in zip(some_parts, again, strict=True)]
            left = np.concatenate(again)
        return self._join(left, drawn, epochs, window) if self.rules.joins_leftovers and len(left) else left

    def _join(self, left: Int, drawn: list[Int], epochs: Int, window: int) -> Int:
        """Draw parts again with those left, the parts nearest to them first."""
        drawn = [some for some in drawn if len(some)]
        place = self._gather_places(left, epochs).mean(axis=0)
        away = [float(np.square(self._gather_places(some, epochs).mean(axis=0) - place).sum()) for some in drawn]
        for number in np.argsort(away, kind="stable")[:5]:
            before = self.others[drawn[number], window].copy()
            some = np.concatenate([drawn[number], left])
            some = some[np.argsort(self.rules.rank[some])]
            self.others[some, window] = -1
            out = self._draw_sets(some, epochs, window)
            # Taken only if all of the part stay hidden and some of those left become so: those left only get fewer.
            if len(np.setdiff1d(out, left)) or len(out) >= len(left):
                self.others[some, window] = -1
                self.others[drawn[number], window] = before
                continue
            left = np.intersect1d(left, out)
            if not len(left):
                break
        return left

    def _gather_places(self, members: Int, epochs: Int) -> Float:
        place: Float = self.runs.place[self.runs.at[members][:, epochs]].reshape(len(members), -1)
        return place

    def _split_members(self, members: Int, epochs: Int) -> list[Int]:
        if len(members) <= MAX_PART_PEOPLE:
            return [members]
        return [members[some] for some in cut_at_medians(self._gather_places(members, epochs), MAX_PART_PEOPLE)]

    def _draw_sets(self, members: Int, epochs: Int, window: int) -> Int:
        """Draw hiding sets among members; give those who stay without."""
        begun = members
        while len(members) >= self.rules.k:
            cost = self._compute_cost(members, epochs)
            first, later = self._find_allowed(members, window)
            # Lines 10-14. Where line 16 would leave all of the part out, only some of those blocked go, and the rest
            # try again.
            chosen, blocked = _cycles.find_covers(cost, first, later, self.rules.k)
            if chosen is not None:
                self.others[members, window] = members[chosen]
                return np.setdiff1d(begun, members)
            # Those with the fewest allowed pairs go first, a quarter at a time.
            degree = np.minimum(first.sum(axis=0), first.sum(axis=1))
            worst = np.flatnonzero(blocked)
            worst = worst[np.argsort(degree[worst], kind="stable")][: -(-len(worst) // 4)]
            members = np.delete(members, worst)
        return begun

    def _compute_cost(self, members: Int, epochs: Int) -> NDArray[np.float32]:
        """Cost of merging each pair in all epochs of the window: float32[n, n]."""
        key = len(epochs).to_bytes(4, "big") + epochs.tobytes() + members.tobytes()
        if key not in self._costs:
            runs, total = self.runs, np.zeros((len(members), len(members)))
            one, other = np.triu_indices(len(members), 1)
            for epoch in epochs:
                at = runs.at[members, epoch]
                a, b = at[one], at[other]
                cost = _k_merge.compute_pair_costs(runs.samples, runs.begin[a], runs.end[a], runs.begin[b], runs.end[b])
                total[one, other] += cost
            self._costs[key] = (total + total.T).astype(np.float32)
        return self._costs[key]

    def _find_allowed(self, members: Int, window: int) -> tuple[Bool, Bool]:
        """Give pairs of owner and other not used before, and those that may be another time."""
        n = len(members)
        self._place[members] = np.arange(n)
        first = ~np.eye(n, dtype=bool)
        # The reuse constraint (Section III-E, remark 2): an other hides an owner in one window only.
        _forbid(first, self.others[members].reshape(n, -1), self._place)
        later = first
        if self.rules.may_return and self.rules.k > 2:
            later = ~np.eye(n, dtype=bool)
            near = slice(max(0, window - self.runs.window), window + self.runs.window + 1)
            _forbid(later, self.others[members][:, near].reshape(n, -1), self._place)
            _forbid(later, self.others[members][:, :, 0], self._place)
        self._place[members] = -1
        return first, later


def _forbid(allowed: Bool, used: NDArray[np.int32], place: NDArray[np.int32]) -> None:
    at = np.where(used >= 0, place[used], -1)
    owner, _ = np.nonzero(at >= 0)
    allowed[owner, at[at >= 0]] = False
