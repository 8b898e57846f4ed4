"""The stored hiding sets: whether each subject is picked often enough, by records that carry it, and when again.

A pick is (owner, other, window): the owner's record is merged with the other's samples in the window, so the other
hides in it.
"""

from dataclasses import dataclass

import numpy as np

from dbanon.attacks import Evidence
from dbanon.attacks.kte._run_statements import Rules
from dbanon.attacks.kte._windows import Scene, Speaking, Timetable, mark_fitting
from dbanon.attacks.shared.keys import find, sort_distinct
from dbanon.attacks.shared.run_statements import LARGEST_NUMBER
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Bool, Int


@dataclass(frozen=True, kw_only=True, eq=False)
class Picks:
    """Who is in whose hiding sets, each once, by `at` and owner."""

    owner: Int  # [p]; owner, other: subjects
    other: Int  # [p]
    window: Int  # [p]
    at: Int  # [p]: index into `Speaking` of the other in the window
    faults: int  # sets and others in them that are not as they should be, and pairs of `Speaking` without a set


@dataclass(frozen=True, kw_only=True, eq=False)
class Picked:
    """How many others hide each subject in each window, and how many picks break a rule."""

    # number, fitting: how many others picked each pair of `Speaking`, and of how many of these the record fits it.
    number: Int  # [q]
    fitting: Int  # [q]
    # reused, followed: picks that break the run's rule on partners, and those that break the promise of the leak.
    reused: int
    followed: int
    # chance, chance_epochs: pairs of `Speaking` that all who picked them fit in the epoch before the window, or in that
    # after it, too; and the most epochs, before and after together, in which they do so without a gap.
    chance: int
    chance_epochs: int


def read_picks(evidence: Evidence, scene: Scene, speaks: Speaking, times: Timetable, rules: Rules) -> Picks:
    """Read the hiding sets, and count what keeps them from being one of k - 1 others wherever a subject speaks."""
    owner, window = _find_owners(scene, evidence.hiding_record), _find_windows(evidence, times, rules)
    spoken = speaks.find(owner, window, times.count)
    spoken[(owner < 0) | (window < 0)] = -1
    sets, size = sort_distinct(spoken[spoken >= 0]), np.diff(evidence.hiding_offset)
    faults = int((size != rules.k - 1).sum())
    # One set for each subject and window with published samples: none of others, none twice, none missing.
    faults += (len(spoken) - len(sets)) + (len(speaks.key) - len(sets))
    of_set = np.repeat(np.arange(len(size)), size)
    other, owner, window = _find_owners(scene, evidence.hiding_other), owner[of_set], window[of_set]
    at = speaks.find(other, window, times.count)
    right = (spoken[of_set] >= 0) & (other >= 0) & (other != owner) & (at >= 0)
    order = np.lexsort((owner[right], at[right]))
    owner, other, window, at = (values[right][order] for values in (owner, other, window, at))
    new = np.ones(len(at), bool)
    new[1:] = (at[1:] != at[:-1]) | (owner[1:] != owner[:-1])
    owner, other, window, at = (values[new] for values in (owner, other, window, at))
    faults += len(right) - len(at)
    return Picks(owner=owner, other=other, window=window, at=at, faults=faults)


def _find_owners(scene: Scene, record_id: Int) -> Int:
    """Find whose records these are; -1 where it is not known."""
    subject = np.full(len(scene.stored.record_id), -1)
    published = np.flatnonzero(scene.record >= 0)
    subject[scene.record[published]] = published
    record = find(scene.stored.record_id, record_id)
    return np.where(record >= 0, subject[record], -1)


def _find_windows(evidence: Evidence, times: Timetable, rules: Rules) -> Int:
    """Find the window of each hiding set; -1 where its period is none."""
    start_s, end_s = evidence.hiding_start_s, evidence.hiding_end_s
    leak_s = rules.leak * rules.grid_s
    # The one window of fewer epochs than it has may be said to end with them.
    lengths = (rules.window * leak_s, min(rules.window, times.epochs) * leak_s)
    known = (np.abs(start_s) <= LARGEST_NUMBER) & ((end_s == start_s + lengths[0]) | (end_s == start_s + lengths[1]))
    start_s = np.where(known, start_s, 0.0)
    epoch = np.floor(start_s / leak_s).astype(np.int64)
    window = epoch - times.first
    return np.where(known & (epoch * leak_s == start_s) & (window >= 0) & (window < times.count), window, -1)


def examine_picks(scene: Scene, speaks: Speaking, chosen: Picks, times: Timetable, rules: Rules) -> Picked:
    """Look at who carries whom, and when again."""
    number = np.bincount(chosen.at, minlength=len(speaks.key))
    carried = mark_fitting(scene, chosen.other, scene.record[chosen.owner], chosen.window, times.window, times)
    order = np.lexsort((chosen.window, chosen.other, chosen.owner))
    owner, other, window = (values[order] for values in (chosen.owner, chosen.other, chosen.window))
    again = (owner[1:] == owner[:-1]) & (other[1:] == other[:-1])
    gap = np.diff(window)
    chance, chance_epochs = _count_chance_fits(scene, chosen, times)
    reused = again if rules.reuse == "never" else again & (gap <= times.window)
    return Picked(
        number=number,
        fitting=np.bincount(chosen.at[carried], minlength=len(speaks.key)),
        reused=int(reused.sum()),
        # A subject must not be in one record for longer than a window: the next one has to leave a gap.
        followed=int((again & (gap <= times.window)).sum()) + _count_returning_windows(chosen, order, again, times),
        chance=chance,
        chance_epochs=chance_epochs,
    )


def _count_returning_windows(chosen: Picks, order: Int, again: Bool, times: Timetable) -> int:
    """Count the windows of which all who picked a subject carry it again in one epoch outside."""
    if not len(order):
        return 0
    # Sorted by owner, other and window, so each pair (owner, other) is a range, and its windows ascend in it.
    number = np.append(0, np.cumsum(~again))
    pair = np.empty(len(order), np.int64)
    pair[order] = number
    pairs = np.searchsorted(number, np.arange(number[-1] + 2))
    groups = np.append(np.flatnonzero(np.diff(chosen.at, prepend=-1)), len(order))
    return _count_returning(groups, pair, pairs, chosen.window[order], chosen.window, times.window)


@compile_kernel
def _count_returning(groups: Int, pair: Int, pairs: Int, windows: Int, window: Int, length: int) -> int:
    """Of each group of picks of one subject in one window, look for an epoch in which all pairs have windows again."""
    returning = 0
    for group in range(len(groups) - 1):
        low, high = groups[group], groups[group + 1]
        mine = window[low]
        # Only the epochs of the owner that carries the subject least often have to be tried.
        least = pair[low]
        for i in range(low + 1, high):
            if pairs[pair[i] + 1] - pairs[pair[i]] < pairs[least + 1] - pairs[least]:
                least = pair[i]
        does_return = False
        if pairs[least + 1] - pairs[least] == 1:
            continue
        for w in range(pairs[least], pairs[least + 1]):
            for epoch in range(windows[w], windows[w] + length):
                if does_return or mine <= epoch < mine + length:
                    continue
                do_all_carry = True
                for i in range(low, high):
                    carries = False
                    for v in range(pairs[pair[i]], pairs[pair[i] + 1]):
                        carries |= windows[v] <= epoch < windows[v] + length
                    do_all_carry &= carries
                does_return |= do_all_carry
        returning += does_return
    return returning


def _count_chance_fits(scene: Scene, chosen: Picks, times: Timetable) -> tuple[int, int]:
    """Count the subjects and windows in which all who picked a subject fit it longer than they must.

    Returns
    -------
    number, longest : int
        Epochs that follow one another, before and after the window; each has a published sample of the subject.
    """
    epoch = scene.known.slot[scene.covered] // times.leak - times.first
    spoken = sort_distinct(scene.known.owner[scene.covered] * times.epochs + epoch)
    new = np.diff(chosen.at, prepend=-1) != 0
    group = np.cumsum(new) - 1
    longer = np.zeros(int(new.sum()), np.int64)
    for edge, step in ((chosen.window, -1), (chosen.window + times.window - 1, 1)):
        followed, beside = np.ones(len(longer), bool), edge
        # A group leaves at the first epoch without a sample or without a fit, so each turn adds to stretches without a
        # gap.
        while followed.any():
            some = np.flatnonzero(followed[group])
            beside = beside + step
            there = (beside[some] >= 0) & (beside[some] < times.epochs)
            there[there] = find(spoken, chosen.other[some][there] * times.epochs + beside[some][there]) >= 0
            at = some[there]
            there[there] = mark_fitting(scene, chosen.other[at], scene.record[chosen.owner[at]], beside[at], 1, times)
            followed[group[some[~there]]] = False
            longer += followed
    return int((longer > 0).sum()), int(longer.max(initial=0))
