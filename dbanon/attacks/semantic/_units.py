"""Whom the run considers: one unit a record, all trajectories of a subject, or those of one of its days."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.attacks.semantic._run_statements import Rules
from dbanon.attacks.semantic.evidence import RegionEvidence
from dbanon.attacks.shared.keys import sort_distinct
from dbanon.attacks.shared.replay import number_slots
from dbanon.attacks.shared.run_statements import demand
from dbanon.base.trajectory import Bool, Float, Int

_MAX_SPAN_SLOTS = 1 << 40


@dataclass(frozen=True, kw_only=True, eq=False)
class Units:
    """The considered fixes, by trajectory and time, and whose they are."""

    subject: Int  # [u]: of each unit
    atoms: Int  # [u]: in how many distinct atoms each unit has fixes
    trajectory_id: Int  # [n]; trajectory_id, unit: the considered trajectories, ascending, and the unit of each
    unit: Int  # [n]
    fix_t: Float  # [m]
    fix_unit: NDArray[np.int32]  # [m]
    fix_cell: NDArray[np.int32]  # [m]
    fix_slot: Int  # [m]


def find_units(evidence: RegionEvidence, atom: Int, rules: Rules) -> Units:
    """Find the considered fixes and the units they make.

    `atom` (int64[c]): of each cell, from 0 on.

    Raises `UndecidableError` if there is no fix, or the data span too long a time to be counted in slots.
    """
    data, fix_cell = evidence.trajectories, evidence.cells.fix_cell
    demand(len(fix_cell) == data.fixes, "Each fix must come with its cell. This is a defect of the read.")
    sane = bool((fix_cell >= -1).all() and (fix_cell < len(evidence.cells.cell_id)).all())
    demand(sane, "The cell of each fix must be one of the dataset's. Some are not.")
    slot = number_slots(data.t, data.grid_s)
    kept = np.ones(len(slot), bool)
    if rules.since is not None:
        kept &= slot >= rules.since
    if rules.until is not None:
        kept &= slot < rules.until
    slot, cell = slot[kept], fix_cell[kept].astype(np.int32)
    demand(len(slot) > 0, "The time the run considers must hold a fix to attack with. It holds none.")
    demand(int(slot.max()) - int(slot.min()) < _MAX_SPAN_SLOTS, "Fixes must lie within 2^40 slots. They do not.")
    path = np.repeat(np.arange(len(data.trajectory_id), dtype=np.int32), np.diff(data.offset))[kept]
    number = np.bincount(path, minlength=len(data.trajectory_id))
    there = number > 0
    day = np.zeros(len(there), np.int64) if data.day is None else data.day
    # From the data alone, by subject and day: what the run says of its records is compared with this.
    who, unit = np.unique(np.stack([data.subject, day])[:, there], axis=1, return_inverse=True)
    unit = unit.reshape(-1)
    fix_unit = np.repeat(unit.astype(np.int32), number[there])
    width, inside = int(atom.max()) + 1, cell >= 0
    seen = sort_distinct(fix_unit[inside].astype(np.int64) * width + atom[cell[inside]])
    return Units(
        subject=who[0],
        atoms=np.bincount(seen // width, minlength=who.shape[1]),
        trajectory_id=data.trajectory_id[there],
        unit=unit,
        fix_t=data.t[kept],
        fix_unit=fix_unit,
        fix_cell=cell,
        fix_slot=slot,
    )


def count_subjects(group: Int, subject: Int, groups: int) -> Int:
    """Count the distinct subjects of each group: int64[groups]."""
    width = int(subject.max(initial=0)) + 1
    return np.bincount(sort_distinct(group * width + subject) // width, minlength=groups)


def has_few_atoms(units: Units, rules: Rules) -> Bool:
    """Say which units are left out because they are in too few atoms."""
    return units.atoms < rules.least_atoms
