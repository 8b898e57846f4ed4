"""From fixes to points: stays in one place, and whose record they make. A place is an atom, or a cell."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.base.trajectory import Int, Trajectories, freeze

STATES = ("published", "outside", "few_cells", "coarse")
"""What becomes of a fix, by code."""
PUBLISHED, OUTSIDE, FEW_CELLS, COARSE = range(len(STATES))


@dataclass(frozen=True, kw_only=True, eq=False)
class Units:
    """What makes a record each: all trajectories of a subject or, where days are apart, all of one day."""

    subject: Int  # [u]: by the order of the run
    offset: Int  # [u + 1]: points of unit i are ``[offset[i], offset[i + 1])``, at least one
    start: Int  # [p]; start, end: slots, half-open; both ascend within a unit
    end: Int  # [p]
    place: NDArray[np.int32]  # [p]
    fix_offset: Int  # [u + 1]
    fix_slot: Int  # [f]: the slots of all fixes in some place, ascending within a unit
    fix_place: NDArray[np.int32]  # [f]
    of_trajectory: Int  # [n]: the unit of each trajectory; -1 where there is none
    of_fix: Int  # [m]: the unit of each fix of the data; -1 where it is not published
    state: NDArray[np.uint8]  # [m]: codes of `STATES`

    def __post_init__(self) -> None:
        freeze(self)

    def __len__(self) -> int:
        return len(self.subject)


def build_units(data: Trajectories, place: Int, rank: Int, gap_s: int, min_cells: int) -> Units:
    """Collapse the fixes of each subject, or of each of its days, to stays in one place.

    Parameters
    ----------
    place : int64[m]
        Of each fix; -1 outside all.
    rank : int64[s]
        The run's order of subjects, by code.
    gap_s : int
        A stay ends where the next fix is later than this.
    min_cells : int
        Units with fewer distinct places are left out.
    """
    day = data.day if data.day is not None else np.zeros(len(data.trajectory_id), np.int64)
    # Units come by the run's order and the day, so places of units decide later ties as the run's order does.
    key, of_trajectory = np.unique(np.stack([rank[data.subject], day]), axis=1, return_inverse=True)
    of_trajectory = of_trajectory.reshape(-1)
    path = np.repeat(np.arange(len(data.trajectory_id)), np.diff(data.offset))
    slot, unit = np.floor(data.t / data.grid_s).astype(np.int64), of_trajectory[path]
    state = np.where(place < 0, OUTSIDE, PUBLISHED).astype(np.uint8)
    width = int(place.max(initial=0)) + 1
    pairs = np.unique(unit[place >= 0] * width + place[place >= 0])
    few = np.bincount(pairs // width, minlength=key.shape[1]) < max(min_cells, 1)
    state[few[unit] & (place >= 0)] = FEW_CELLS
    number = np.where(few, -1, np.cumsum(~few) - 1)
    order = np.flatnonzero(state == PUBLISHED)
    order = order[np.lexsort((slot[order], number[unit[order]]))]
    own, at, here = number[unit[order]], slot[order], place[order]
    new = np.ones(len(order), bool)
    # A point of section III: a stay ends with the place, or with a gap too long to say where the person was.
    new[1:] = (own[1:] != own[:-1]) | (here[1:] != here[:-1]) | ((at[1:] - at[:-1]) * data.grid_s > gap_s)
    first = np.flatnonzero(new)
    last = np.append(first, len(order))[1:] - 1
    count = int((~few).sum())
    names = np.argsort(rank)  # codes of subjects, by rank
    return Units(
        subject=names[key[0][~few]],
        offset=np.searchsorted(own[first], np.arange(count + 1)),
        start=at[first],
        end=at[last] + 1,
        place=here[first].astype(np.int32),
        fix_offset=np.searchsorted(own, np.arange(count + 1)),
        fix_slot=at,
        fix_place=here.astype(np.int32),
        of_trajectory=number[of_trajectory],
        of_fix=np.where(state == PUBLISHED, number[unit], -1),
        state=state,
    )
