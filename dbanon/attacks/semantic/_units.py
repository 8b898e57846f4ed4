"""Whom the run considers: one unit a record, all trajectories of a subject, or those of one of its days."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.attacks.semantic._claims import Rules
from dbanon.attacks.shared.claims import must
from dbanon.attacks.shared.keys import distinct
from dbanon.attacks.shared.replay import slots
from dbanon.base.trajectory import Bool, Cells, Int, Trajectories

_MOST_SLOTS = 1 << 40


@dataclass(frozen=True, kw_only=True, eq=False)
class Units:
    """The considered fixes, by trajectory and time, and whose they are."""

    subject: Int  # [u]: of each unit
    atoms: Int  # [u]: in how many distinct atoms each unit has fixes
    trajectory_id: Int  # [n]; trajectory_id, unit: the considered trajectories, ascending, and the unit of each
    unit: Int  # [n]
    fix: Int  # [m]: index into the fixes of the dataset of each that is considered
    fix_unit: NDArray[np.int32]  # [m]
    fix_cell: NDArray[np.int32]  # [m]
    fix_slot: Int  # [m]


def units(data: Trajectories, cells: Cells, atom: Int, rules: Rules) -> Units:
    """Find the considered fixes and the units they make.

    `atom` (int64[c]): of each cell, from 0 on.

    Raises `UndecidableError` if there is no fix, or the data span too long a time to be counted in slots.
    """
    slot = slots(data.t, data.grid_s)
    kept = np.ones(len(slot), bool)
    if rules.since is not None:
        kept &= slot >= rules.since
    if rules.until is not None:
        kept &= slot < rules.until
    fix = np.flatnonzero(kept)
    must(len(fix) > 0, "The time the run considers must hold a fix to attack with; it holds none.")
    slot = slot[fix]
    must(int(slot.max()) - int(slot.min()) < _MOST_SLOTS, "Fixes must lie within 2^40 slots; they do not.")
    path = np.repeat(np.arange(len(data.trajectory_id)), np.diff(data.offset))[fix]
    there = distinct(path)
    day = np.zeros(len(there), np.int64) if data.day is None else data.day[there]
    # From the data alone, by subject and day: what the run says of its records is compared with this.
    who, unit = np.unique(np.stack([data.subject[there], day]), axis=1, return_inverse=True)
    unit = unit.reshape(-1)
    of_path = np.zeros(len(data.trajectory_id), np.int32)
    of_path[there] = unit
    fix_unit, fix_cell = of_path[path], cells.fix_cell[fix].astype(np.int32)
    width, inside = int(atom.max()) + 1, fix_cell >= 0
    seen = distinct(fix_unit[inside].astype(np.int64) * width + atom[fix_cell[inside]])
    return Units(
        subject=who[0],
        atoms=np.bincount(seen // width, minlength=who.shape[1]),
        trajectory_id=data.trajectory_id[there],
        unit=unit,
        fix=fix,
        fix_unit=fix_unit,
        fix_cell=fix_cell,
        fix_slot=slot,
    )


def count_subjects(group: Int, subject: Int, groups: int) -> Int:
    """Count the distinct subjects of each group: int64[groups]."""
    width = int(subject.max(initial=0)) + 1
    return np.bincount(distinct(group * width + subject) // width, minlength=groups)


def few(of: Units, rules: Rules) -> Bool:
    """Say which units are left out because they are in too few atoms."""
    return of.atoms < rules.least_atoms
