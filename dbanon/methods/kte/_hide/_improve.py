"""Finer samples at the same guarantee: hiding sets of a window are chosen anew by what the final merge costs.

Not in the paper. A record's final merge depends on its own hiding sets alone. So with all other windows fixed, the best
way to hand the others that some owners of a window have to these owners is an assignment: linear, solved exactly. What
they have is one of the ways: the cost never rises, each subject stays picked as often, and none is suppressed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial import cKDTree

from dbanon.base.progress import Progress
from dbanon.base.trajectory import Int
from dbanon.methods.kte import _k_merge
from dbanon.methods.kte._hide._draw import Rules
from dbanon.methods.kte._hide._epochs import EpochSamples
from dbanon.methods.kte._hide._windows import Presence, cut_at_medians

SWEEPS = 2
NEAREST_OTHERS = 12  # others that an owner may take over, beside its own
MAX_ASSIGNED_OWNERS = 400  # owners of one assignment at most


@dataclass(frozen=True, kw_only=True, eq=False)
class _Choice:
    """Owners who share out their others, and which of these each may have."""

    owner: Int
    other: Int
    by: Int  # place in `owner` of each pair
    which: Int  # place in `other`
    epochs: Int


def improve(
    runs: EpochSamples, presence: Presence, others: NDArray[np.int32], rules: Rules, progress: Progress
) -> None:
    """Exchange others between owners of a window, window by window, in place.

    `others` (int32[s, w, k - 1]) are changed.
    """
    steps = SWEEPS * runs.windows
    for step in range(steps):
        window = step % runs.windows
        for cover in range(rules.k - 1):
            _improve_window(runs, presence, others, window, cover, rules=rules)
        progress("improvement", step + 1, steps)


def _improve_window(
    runs: EpochSamples, presence: Presence, others: NDArray[np.int32], window: int, cover: int, *, rules: Rules
) -> None:
    choices: list[_Choice] = []
    for some in presence.group_alike(window):
        alike = some[np.argsort(rules.rank[some])]
        epochs = window + np.flatnonzero(presence.kept[alike[0], window : window + runs.window])
        place = runs.place[runs.at[alike][:, epochs]].reshape(len(alike), -1)
        for part in cut_at_medians(place, MAX_ASSIGNED_OWNERS):
            choices.append(_make_choice(runs, others, alike[part], epochs, at=(window, cover), rules=rules))
    cost = _compute_costs(runs, others, window, cover, choices)
    for choice, costs in zip(choices, cost, strict=True):
        matrix = np.full((len(choice.owner), len(choice.other)), np.inf)
        matrix[choice.by, choice.which] = costs
        _, match = linear_sum_assignment(matrix)
        # What each owner has stands on the diagonal, so an assignment exists and the least costs no more.
        before, after = np.trace(matrix), matrix[np.arange(len(match)), match].sum()
        if after < before:
            others[choice.owner, window, cover] = choice.other[match]


def _make_choice(
    runs: EpochSamples, others: NDArray[np.int32], owner: Int, epochs: Int, *, at: tuple[int, int], rules: Rules
) -> _Choice:
    """Give each owner the nearest of all their others, but those it may not have."""
    window, cover = at
    n, other = len(owner), others[owner, window, cover].astype(np.int64)
    place = runs.place[runs.at[np.concatenate([owner, other])][:, epochs]].reshape(2 * n, -1)
    count = min(NEAREST_OTHERS, n)
    _, near = cKDTree(place[n:]).query(place[:n], count)
    by, which = np.repeat(np.arange(n), count), near.reshape(-1)
    mine, theirs = owner[by], other[which]
    # A pair is used once: in this window, or in another. Where others may return, only uses near by forbid it.
    uses = others[mine] == theirs[:, None, None]
    uses[:, window, cover] = False
    forbidden = uses.any(axis=(1, 2))
    if rules.may_return and cover > 0:
        near_by = uses[:, max(0, window - runs.window) : window + runs.window + 1].any(axis=(1, 2))
        forbidden = near_by | uses[:, :, 0].any(axis=1)
    fine = (mine != theirs) & ~forbidden & (by != which)
    own = np.arange(n)
    return _Choice(
        owner=owner, other=other, epochs=epochs,
        by=np.concatenate([by[fine], own]), which=np.concatenate([which[fine], own]),
    )  # fmt: skip


def _compute_costs(
    runs: EpochSamples, others: NDArray[np.int32], window: int, cover: int, choices: list[_Choice]
) -> list[Int]:
    """Cost of the final merge of every owner with every other it may have, over the epochs of the window."""
    tables, pairs = [], []
    for number, choice in enumerate(choices):
        for epoch in choice.epochs:
            fixed = list_inputs(runs, others, choice.owner, int(epoch), (window, cover))
            tables.append(np.column_stack([fixed[choice.by], runs.at[choice.other[choice.which], epoch]]))
            pairs.append(np.full(len(choice.by), number))
    if not tables:
        return []
    table = np.concatenate(tables)
    offset, run = make_ragged(table)
    cost = _k_merge.compute_costs(runs.samples, offset, runs.begin[run], runs.end[run])
    # Add up the epochs of each choice.
    cuts = np.cumsum([len(some) for some in pairs])[:-1]
    parts, sums = np.split(cost, cuts), []
    at = 0
    for choice in choices:
        sums.append(np.sum(parts[at : at + len(choice.epochs)], axis=0))
        at += len(choice.epochs)
    return sums


def list_inputs(
    runs: EpochSamples, others: NDArray[np.int32], owner: Int, epoch: int, without: tuple[int, int] | None = None
) -> Int:
    """Give the runs merged in the records of owners in an epoch, -1 for none: int64[n, 1 + windows * others]."""
    # Algorithm 2, line 19: the hiding sets of all windows that hold the epoch.
    windows = np.arange(epoch - runs.window + 1, epoch + 1)
    there = (windows >= 0) & (windows < runs.windows)
    some = np.full((len(owner), runs.window, others.shape[2]), -1, np.int64)
    some[:, there] = others[owner][:, windows[there]]
    if without is not None:
        some[:, without[0] - windows[0], without[1]] = -1
    flat = some.reshape(len(owner), runs.window * others.shape[2])
    merged = np.where(flat >= 0, runs.at[flat, epoch], -1)
    return np.column_stack([runs.at[owner, epoch], merged]).astype(np.int64)


def make_ragged(table: Int) -> tuple[Int, Int]:
    """Turn rows padded with -1 into offsets and values."""
    there = table >= 0
    return np.concatenate([[0], np.cumsum(there.sum(axis=1))]), table[there]
