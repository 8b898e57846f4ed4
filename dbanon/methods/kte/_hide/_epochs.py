"""The samples of subjects cut at epochs, and which subjects have any in which: all that hiding is decided on.

An epoch is `leak_s` long and begins at a multiple of it since 1970. Epochs are numbered from the first that has
samples; a longer stretch without any than a window counts as long as a window, so that numbers stay few and no two
windows that are apart come nearer. Windows reach beyond both ends of the data, so that as many of them hold the first
and the last epoch as any other: else who knows a moment there would find records that agree for a whole window.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dbanon.base.trajectory import Float, Int, freeze
from dbanon.methods.kte._samples import Samples


@dataclass(frozen=True, kw_only=True, eq=False)
class EpochSamples:
    """The samples of one subject in one epoch, for each that has any; by subject and epoch."""

    samples: Samples
    subject: Int  # [r]: position of the subject in `samples`
    epoch: Int  # [r]: number of the epoch
    begin: Int  # [r]; begin, end: its samples
    end: Int  # [r]
    per: int  # slots of an epoch
    window: int  # epochs of a window: those of tau and one, or all where there are fewer
    started: Int  # [e]: whole `leak_s` since 1970 at which each epoch begins

    def __post_init__(self) -> None:
        freeze(self)

    @property
    def subjects(self) -> int:
        """Number of subjects."""
        return len(self.samples.subject)

    @property
    def epochs(self) -> int:
        """Number of epochs."""
        return len(self.started)

    @property
    def windows(self) -> int:
        """Number of windows: one begins with each epoch after which there are enough."""
        return self.epochs - self.window + 1 if self.epochs else 0

    @cached_property
    def at(self) -> NDArray[np.int32]:
        """The run of each subject in each epoch, or -1: int32[s, e]."""
        at = np.full((self.subjects, self.epochs), -1, np.int32)
        at[self.subject, self.epoch] = np.arange(len(self.subject))
        return at

    @cached_property
    def place(self) -> Float:
        """Mean x, y and time of each run, by which the nearest are found: float64[r, 3].

        Time is that within the epoch, in units in which runs differ half as much by it as by place.
        """
        if not len(self.subject):
            return np.empty((0, 3))
        number = self.end - self.begin
        per = self.samples.slot[self.begin] - self.samples.slot[self.begin] % self.per
        columns = [
            np.add.reduceat(c, self.begin, dtype=np.int64) / number
            for c in (self.samples.x, self.samples.y, self.samples.slot)
        ]
        place = np.column_stack(columns)
        place[:, 2] -= per
        across, along = float(np.hypot(*place[:, :2].std(axis=0))), float(place[:, 2].std())
        place[:, 2] *= across / along / 2 if along > 0 and across > 0 else 1
        return place


def cut(samples: Samples, leak_s: int, tau_s: int) -> EpochSamples:
    """Cut the samples of every subject at epochs."""
    per = leak_s // samples.grid_s
    subject = np.repeat(np.arange(len(samples.subject)), np.diff(samples.offset))
    epoch = samples.slot // per
    # Samples are in order of subject and slot, so those of one run are neighbours (Algorithm 2, line 2).
    new = np.ones(len(epoch), bool)
    new[1:] = (subject[1:] != subject[:-1]) | (epoch[1:] != epoch[:-1])
    begin = np.flatnonzero(new)
    distinct, number = np.unique(epoch[begin], return_inverse=True)
    window = tau_s // leak_s + 1
    # No subject has samples in the epochs of a long gap: as many are kept as keep windows on its sides apart.
    apart = np.minimum(np.diff(distinct), window + 1)
    place = np.concatenate([[0], np.cumsum(apart)])[: len(distinct)]
    # Where one window holds everything, there is nothing beyond it to learn.
    beyond = window - 1 if len(place) and place[-1] >= window else 0
    place += beyond
    epochs = int(place[-1]) + 1 + beyond if len(place) else 0
    started, empty = np.zeros(epochs, np.int64), np.ones(epochs, bool)
    started[place], empty[place] = distinct, False
    # Epochs of a gap come right before its end: a window that reaches beyond one begins where it truly does.
    for at in np.flatnonzero(empty)[::-1]:
        started[at] = started[at + 1] - 1 if at + beyond < epochs else distinct[-1] + at - place[-1]
    return EpochSamples(
        samples=samples, subject=subject[begin], epoch=place[number], begin=begin,
        end=np.append(begin, len(epoch))[1:], per=per, window=min(window, epochs), started=started,
    )  # fmt: skip
