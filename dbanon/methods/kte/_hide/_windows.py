"""Who can be hidden in a window: people who publish samples in exactly the same epochs of it, by which all is merged.

Invariant of `close`: in every window, people with the same epochs are none or at least k, and so are the records that
say nothing. Suppression changes who is present, so all windows are formed again until nothing changes; this ends, as
presence only shrinks.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dbanon.base.trajectory import Int
from dbanon.methods.kte._hide._epochs import EpochSamples

REASONS = "few_alike", "silence"
KEPT = -1


class Presence:
    """Who still publishes samples in which epoch, and why others no longer do."""

    def __init__(self, runs: EpochSamples) -> None:
        self.kept = runs.at >= 0  # [s, e]
        self.reason = np.full(self.kept.shape, KEPT, np.int8)  # [s, e]: index into `REASONS`, or `KEPT`
        self._window = runs.window
        self._number = np.where(self.kept, (runs.end - runs.begin)[runs.at], 0)

    def suppress(self, subjects: Int, window: int, reason: int) -> None:
        """Leave out what subjects publish in a window."""
        epochs = slice(window, window + self._window)
        kept, why = self.kept[subjects, epochs], self.reason[subjects, epochs]
        self.reason[subjects, epochs] = np.where(kept, reason, why)
        self.kept[subjects, epochs] = False

    def count_samples(self, window: int) -> Int:
        """Count the samples that each subject publishes in a window."""
        epochs = slice(window, window + self._window)
        number: Int = np.where(self.kept[:, epochs], self._number[:, epochs], 0).sum(axis=1)
        return number

    def count_suppressed(self) -> int:
        """Count the samples left out."""
        return int(self._number[~self.kept].sum())

    def group_alike(self, window: int) -> Iterator[Int]:
        """Give those with samples in the same epochs of a window."""
        part = self.kept[:, window : window + self._window]
        active = np.flatnonzero(part.any(axis=1))
        if not len(active):
            return
        what = np.packbits(part[active], axis=1)
        order = np.lexsort(what.T)
        new = (what[order[1:]] != what[order[:-1]]).any(axis=1)
        yield from np.split(active[order], np.flatnonzero(new) + 1)


def close(presence: Presence, windows: int, k: int, rank: Int) -> None:
    """Suppress who cannot be hidden, whatever the hiding sets, until all others could be.

    Parameters
    ----------
    presence : Presence
        Is changed.
    rank : int64[s]
        Whom to suppress among those with equally few samples.
    """
    changed = True
    while changed:
        # Every failure of a pass is collected before anything is suppressed.
        # Fewer than k with the same epochs: by whatever choice of others, a record would say nothing where they are.
        few = [(w, some) for w in range(windows) for some in presence.group_alike(w) if len(some) < k]
        for window, some in few:
            presence.suppress(some, window, 0)
        silent = [_suppress_silent(presence, window, k, rank) for window in range(windows)]
        changed = bool(few) or any(silent)


def _suppress_silent(presence: Presence, window: int, k: int, rank: Int) -> bool:
    """Suppress those with the fewest samples until k records say nothing in a window, if any does."""
    number = presence.count_samples(window)
    silent = int((presence.kept.any(axis=1) & (number == 0)).sum())
    active = np.flatnonzero(number)
    if not 0 < silent < k or not len(active):
        return False
    # A person left out here becomes silent here. One without samples elsewhere has no record, so the next pass takes
    # another.
    cheap = np.lexsort((rank[active], number[active]))[: k - silent]
    presence.suppress(active[cheap], window, 1)
    return True


def cut_at_medians(place: NDArray[np.float64], most: int) -> list[Int]:
    """Cut points into parts of at most `most` at medians of their widest coordinate; equal ones by their order."""
    waiting, done = [np.arange(len(place))], []
    while waiting:
        some = waiting.pop()
        if len(some) <= most:
            done.append(np.sort(some))
            continue
        wide = int(np.argmax(np.ptp(place[some], axis=0)))
        order = some[np.argsort(place[some, wide], kind="stable")]
        waiting += [order[len(order) // 2 :], order[: len(order) // 2]]
    return done
