"""Whom the run considers: one unit a record, all trajectories of a subject, or those of one of its days."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.attacks import Evidence
from dbanon.attacks.semantic._claims import Rules
from dbanon.attacks.semantic.evidence import RegionEvidence
from dbanon.attacks.shared.apart import call_where_fixes_are
from dbanon.attacks.shared.claims import demand
from dbanon.attacks.shared.keys import find, sort_distinct
from dbanon.attacks.shared.replay import join_ranges, number_slots
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Places:
    """Where and when the considered fixes of some trajectories are."""

    trajectory_id: Int  # [n]: those with any, ascending
    number: Int  # [n]: how many each has
    slot: Int  # [m]; slot, cell, t: of each fix, by trajectory and time
    cell: NDArray[np.int32]  # [m]
    t: Float  # [m]


def find_units(evidence: RegionEvidence, atom: Int, rules: Rules) -> Units:
    """Find the considered fixes and the units they make.

    `atom` (int64[c]): of each cell, from 0 on.

    Raises `UndecidableError` if there is no fix, or the data span too long a time to be counted in slots.
    """
    data, at = evidence.trajectories, _find_places(evidence, rules)
    demand(len(at.slot) > 0, "The time the run considers must hold a fix to attack with. It holds none.")
    demand(int(at.slot.max()) - int(at.slot.min()) < _MAX_SPAN_SLOTS, "Fixes must lie within 2^40 slots. They do not.")
    there = find(data.trajectory_id, at.trajectory_id)
    day = np.zeros(len(there), np.int64) if data.day is None else data.day[there]
    # From the data alone, by subject and day: what the run says of its records is compared with this.
    who, unit = np.unique(np.stack([data.subject[there], day]), axis=1, return_inverse=True)
    unit = unit.reshape(-1)
    fix_unit = np.repeat(unit.astype(np.int32), at.number)
    width, inside = int(atom.max()) + 1, at.cell >= 0
    seen = sort_distinct(fix_unit[inside].astype(np.int64) * width + atom[at.cell[inside]])
    return Units(
        subject=who[0],
        atoms=np.bincount(seen // width, minlength=who.shape[1]),
        trajectory_id=at.trajectory_id,
        unit=unit,
        fix_t=at.t,
        fix_unit=fix_unit,
        fix_cell=at.cell,
        fix_slot=at.slot,
    )


def _find_places(evidence: RegionEvidence, rules: Rules) -> Places:
    """Find where and when all considered fixes are, by trajectory."""
    cells = evidence.cells
    some = call_where_fixes_are(
        evidence, _find_part_places, rules, len(cells.cell_id), given="fix_cell", here=(cells.fix_cell,)
    )
    if len(some) == 1:
        return some[0]
    number = np.concatenate([one.number for one in some])
    ids = np.concatenate([one.trajectory_id for one in some])
    order = np.argsort(ids)
    at = join_ranges((np.cumsum(number) - number)[order], number[order])
    slot, cell, t = (np.concatenate([getattr(one, name) for one in some])[at] for name in ("slot", "cell", "t"))
    return Places(trajectory_id=ids[order], number=number[order], slot=slot, cell=cell, t=t)


def _find_part_places(evidence: Evidence, rules: Rules, cells: int, fix_cell: Int) -> Places:
    """Find where and when the considered fixes of some people are."""
    data = evidence.trajectories
    demand(len(fix_cell) == data.fixes, "Each fix must come with its cell. This is a defect of the read.")
    sane = bool((fix_cell >= -1).all() and (fix_cell < cells).all())
    demand(sane, "The cell of each fix must be one of the dataset's. Some are not.")
    slot = number_slots(data.t, data.grid_s)
    kept = np.ones(len(slot), bool)
    if rules.since is not None:
        kept &= slot >= rules.since
    if rules.until is not None:
        kept &= slot < rules.until
    path = np.repeat(np.arange(len(data.trajectory_id), dtype=np.int32), np.diff(data.offset))[kept]
    number = np.bincount(path, minlength=len(data.trajectory_id))
    return Places(
        trajectory_id=data.trajectory_id[number > 0],
        number=number[number > 0],
        slot=slot[kept],
        cell=fix_cell[kept].astype(np.int32),
        t=data.t[kept],
    )


def count_subjects(group: Int, subject: Int, groups: int) -> Int:
    """Count the distinct subjects of each group: int64[groups]."""
    width = int(subject.max(initial=0)) + 1
    return np.bincount(sort_distinct(group * width + subject) // width, minlength=groups)


def has_few_atoms(of: Units, rules: Rules) -> Bool:
    """Say which units are left out because they are in too few atoms."""
    return of.atoms < rules.least_atoms
