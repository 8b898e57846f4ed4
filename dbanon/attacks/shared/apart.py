"""Trajectories whose fixes others read, each those of some people: what an attack has of them, and how it asks.

Where several machines verify a run, the process with the run reads ids, subjects and days. A function of a module that
needs fixes is called wherever the fixes of some people are (`call_where_fixes_are`). Invariant: `WithoutFixes` has no
times and no positions, so that nothing can be decided on fixes which are not there.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from dbanon.attacks import Evidence
from dbanon.base.trajectory import Int, Trajectories

T = TypeVar("T")
Bounds = tuple[int | None, int | None]

GIVEN = ("fix_cell",)
"""What of a dataset each part can be given: of `dbanon.base.trajectory.Cells`."""


class Ask(Protocol):
    """Has a function called with the evidence on some people at a time, of all of them, each once."""

    def __call__(
        self,
        look: Callable[..., T],
        arguments: tuple[Any, ...],
        bounds: Bounds,
        prepare: Callable[..., Any] | None,
        given: str | None,
    ) -> list[T]:
        """Give what the function returns about each part that has a fix within the bounds; parts are in no order.

        Parameters
        ----------
        look : callable
            Of a module. Called with the evidence on all trajectories of some people, the arguments, and what `prepare`
            gave. Rows and hiding sets are those of all, members those of these trajectories; without `prepare` there
            are none. Subjects have the codes that they have among all.
        bounds : (int or None, int or None)
            The slots from which, and before which, fixes count: see `dbanon.attacks.shared.replay.select_slots`.
        prepare : callable, optional
            Of a module. Called with the evidence on the rows alone, and the arguments; at times once for several parts.
        given : str, optional
            Among `GIVEN`: an array with a value for each fix, which the function is given last.
        """


@dataclass(frozen=True, kw_only=True, eq=False)
class WithoutFixes:
    """`Trajectories` without fixes; `find_ends` are the first and last time of any, in unix seconds.

    `read` reads here and now the few trajectories at some indices.
    """

    trajectory_id: Int
    subject: Int
    srid: int
    grid_m: float
    grid_s: int
    ends: tuple[float, float]
    ask: Ask
    read: Callable[[Int], Trajectories]
    day: Int | None = None
    bounds: Bounds = (None, None)

    def select_within(self, bounds: Bounds) -> "WithoutFixes":
        """Keep what `dbanon.attacks.shared.replay.select_slots` would keep."""
        found = self.ask(_survey, (), bounds, None, None)
        ids = np.sort(np.concatenate([np.empty(0, np.int64), *(ids for ids, _, _ in found)]))
        kept = np.isin(self.trajectory_id, ids, assume_unique=True)
        return replace(
            self,
            trajectory_id=self.trajectory_id[kept],
            subject=self.subject[kept],
            day=None if self.day is None else self.day[kept],
            ends=(min((first for _, first, _ in found), default=0.0), max((last for _, _, last in found), default=0.0)),
            bounds=bounds,
        )


def is_without_fixes(evidence: Evidence) -> bool:
    """Whether others have the fixes."""
    data: object = evidence.trajectories
    return isinstance(data, WithoutFixes)


def find_ends(data: Trajectories) -> tuple[float, float]:
    """Give the first and the last time of a fix; there is one."""
    apart: object = data
    return apart.ends if isinstance(apart, WithoutFixes) else (float(data.t.min()), float(data.t.max()))


def call_where_fixes_are(
    evidence: Evidence,
    look: Callable[..., T],
    *arguments: Any,
    prepare: Callable[..., Any] | None = None,
    given: str | None = None,
    here: tuple[Any, ...] = (),
) -> list[T]:
    """Call a function with the evidence where it is: as a whole here, or on some people at a time: see `Ask`.

    Parameters
    ----------
    here : tuple
        What the function is given after the arguments where all fixes are here, instead of what `prepare` makes and of
        what is `given`.
    """
    data: object = evidence.trajectories
    if isinstance(data, WithoutFixes):
        return data.ask(look, arguments, data.bounds, prepare, given)
    return [look(evidence, *arguments, *here)]


def _survey(evidence: Evidence) -> tuple[Int, float, float]:
    """Say which trajectories there are, and when the first and the last fix is."""
    return (evidence.trajectories.trajectory_id, *find_ends(evidence.trajectories))
