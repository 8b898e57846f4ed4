"""The part of the data that a run considers."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.base.errors import ParameterError
from dbanon.base.trajectory import Trajectories


def select_in_run_time(
    method: str,
    data: Trajectories,
    since: int | None,
    until: int | None,
    *,
    start: int | None = None,
    before_s: int = 0,
) -> Trajectories:
    """Keep the fixes in the slots of a run's own time; nothing is copied where that has no bounds.

    Parameters and errors are those of `mark_in_run_time`.

    Trajectories of which nothing is left go; codes of subjects stay.
    """
    fixes = mark_in_run_time(method, data, since, until, start=start, before_s=before_s)
    return data if since is None and start is None and until is None else select_fixes(data, fixes)


def mark_in_run_time(
    method: str,
    data: Trajectories,
    since: int | None,
    until: int | None,
    *,
    start: int | None = None,
    before_s: int = 0,
) -> NDArray[np.bool_]:
    """Say which fixes are in the slots of a run's own time: bool[m].

    Parameters
    ----------
    method : str
        For the error.
    since, until : int, optional
        Unix seconds, multiples of the data's `grid_s`; the slot that begins at `until` is not kept.
    start : int, optional
        Of a run whose rows are about instants, the first of these: where `since` is not given, its time begins there.
    before_s : int
        How much older the fixes kept may be: they give positions at later instants.

    Raises `ParameterError` if any is no multiple of `grid_s`, or `until` not after `since`.
    """
    for name, value in (("since", since), ("until", until), ("start", start)):
        if value is not None and value % data.grid_s:
            raise ParameterError(
                f"The '{name}' parameter of {method} must be a multiple of the dataset's grid_s, {data.grid_s} s. "
                f"Got {value} instead."
            )
    if since is not None and until is not None and until <= since:
        raise ParameterError(f"The 'until' parameter of {method} must lie after 'since'. Got {until} and {since}.")
    fixes, begin = np.ones(len(data.times), bool), since if since is not None else start
    if begin is None and until is None:
        return data.spread(fixes)
    # By slots, as positions are found: a fix late in the slot before `until` still belongs to that slot. Bounds are
    # multiples of `grid_s`, so no slot is cut.
    slot = np.floor(data.times / data.grid_s)
    if begin is not None:
        fixes &= slot >= (begin - before_s) // data.grid_s
    if until is not None:
        fixes &= slot < until // data.grid_s
    return data.spread(fixes)


def select_fixes(data: Trajectories, kept: NDArray[np.bool_]) -> Trajectories:
    """Keep some fixes, and the trajectories that have any of them."""
    # Fixes kept before the begin of each trajectory: both the new offsets and, by their differences, the new lengths.
    left = np.concatenate([[0], np.cumsum(kept)])[data.offset]
    whole = np.diff(left) > 0
    return replace(
        data,
        trajectory_id=data.trajectory_id[whole],
        subject=data.subject[whole],
        offset=np.concatenate([left[:-1][whole], left[-1:]]),
        day=None if data.day is None else data.day[whole],
        t=data.t[kept],
        x=data.x[kept],
        y=data.y[kept],
    )
