"""Which row holds each fix, which are left out and why, and what a run should say of these."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.attacks.semantic._groups import Groups
from dbanon.attacks.semantic._regions import Regions
from dbanon.attacks.semantic._run_statements import COARSE, FEW, REASONS, Rules, Stated
from dbanon.attacks.semantic._units import Units, has_few_atoms
from dbanon.attacks.shared.keys import sort_distinct
from dbanon.attacks.shared.run_statements import count_misstated_hours
from dbanon.base.trajectory import Bool, Float, Int, Trajectories

PUBLISHED = len(REASONS)
"""The state of a fix that is not left out; the others are indices into `REASONS`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fixes:
    """What becomes of the considered fixes."""

    state: NDArray[np.int8]  # [m]
    # Those in rows, once for each row that they are in.
    row: Int  # [p]: the row of `Groups` that each is in
    cell: NDArray[np.int32]  # [p]
    covered: Bool  # [p]: whether the row's region holds this cell
    missing: int  # those in no row though no threshold allows it
    empty: int  # pairs of a row and a member without a fix in it


def trace_fixes(of: Units, grouped: Groups, regions: Regions, region: Int, rules: Rules) -> Fixes:
    """Find the row of each fix.

    `region` (int64[c]): the region of each row of `grouped`.
    """
    inside = np.flatnonzero(of.fix_cell >= 0)
    unit, slot, cell = of.fix_unit[inside], of.fix_slot[inside], of.fix_cell[inside]
    left = has_few_atoms(of, rules)[unit]
    units, shown = len(of.subject), np.zeros(len(inside), bool)
    rows, cells, covered, met = list[Int](), list[NDArray[np.int32]](), list[Bool](), [np.empty(0, np.int64)]
    # A unit is in one group unless rows were tampered with; then each of its groups is looked at.
    for group in grouped.of_unit:
        row = _find_rows(grouped, group[unit], slot)
        at = np.flatnonzero((row >= 0) & ~left)
        shown[at] = True
        row = row[at]
        rows.append(row)
        cells.append(cell[at])
        covered.append(_mark_covered(region[row], cell[at], regions))
        met.append(sort_distinct(row * units + unit[at]))
    state = np.zeros(len(of.fix_cell), np.int8)
    state[inside] = np.where(left, REASONS.index(FEW), np.where(shown, PUBLISHED, REASONS.index(COARSE)))
    sought = grouped.unit_group[~has_few_atoms(of, rules)[grouped.unit]]
    due = np.bincount(sought, minlength=len(grouped.first))[grouped.row_group]
    seen = np.bincount(np.concatenate(met) // units, minlength=len(due))
    return Fixes(
        state=state,
        row=np.concatenate(rows),
        cell=np.concatenate(cells),
        covered=np.concatenate(covered),
        missing=0 if rules.may_drop_rows else int((state == REASONS.index(COARSE)).sum()),
        empty=int(np.maximum(due - seen, 0).sum()),
    )


def _mark_covered(region: Int, cell: NDArray[np.int32], regions: Regions) -> Bool:
    """Say whether each region holds a cell."""
    # Each pair is looked up once, and each fix only where one of these is false.
    key = sort_distinct(region * regions.width + cell)
    if regions.hold(key // regions.width, key % regions.width).all():
        return np.ones(len(cell), bool)
    return regions.hold(region, cell.astype(np.int64))


def _find_rows(grouped: Groups, group: Int, slot: Int) -> Int:
    """Find the row of `grouped` that holds each slot of a group; -1 where none does."""
    if not len(grouped.row):
        return np.full(len(slot), -1)
    low = min(int(slot.min(initial=0)), int(grouped.start.min()))
    span = max(int(slot.max(initial=0)), int(grouped.start.max())) - low + 1
    at = np.searchsorted(grouped.row_group * span + grouped.start - low, group * span + slot - low, side="right") - 1
    safe = np.maximum(at, 0)
    there = (group >= 0) & (at >= 0) & (grouped.row_group[safe] == group) & (slot < grouped.end[safe])
    return np.where(there, at, -1)


def count_misstated(data: Trajectories, of: Units, state: NDArray[np.int8], stated: Stated) -> int:
    """Count what the run says it left out and is not what is missing."""
    subject, t = of.subject[of.fix_unit], of.fix_t
    hour = of.fix_slot * data.grid_s // 3600
    hours = sort_distinct(hour)
    people, width = int(subject.max()) + 1, PUBLISHED + 1
    fixes_of, subjects_of = np.bincount(state, minlength=width), np.zeros(width, np.int64)
    subjects_of += np.bincount(_find_reasons(subject, t, state)[1], minlength=width)
    seen, why = _find_reasons(np.searchsorted(hours, hour) * people + subject, t, state)
    counts = np.bincount(seen // people * width + why, minlength=len(hours) * width).reshape(len(hours), width)
    wrong = sum(
        claims.get(name, 0) != due[i]
        for claims, due in ((stated.fixes, fixes_of), (stated.subjects, subjects_of))
        for i, name in enumerate(REASONS)
    )
    due = {"seen": counts.sum(axis=1), "published": counts[:, PUBLISHED]}
    due |= {f"left_out {name}": counts[:, i] for i, name in enumerate(REASONS)}
    return int(wrong) + count_misstated_hours(stated.hours, hours * 3600, due)


def _find_reasons(key: Int, t: Float, state: NDArray[np.int8]) -> tuple[Int, Int]:
    """Say of each key that occurs whether a fix of it is published, or else why its first one is not."""
    shown = sort_distinct(key[state == PUBLISHED])
    lost: Bool = state != PUBLISHED
    if len(shown):
        at = np.minimum(np.searchsorted(shown, key), len(shown) - 1)
        lost &= shown[at] != key
    left = np.flatnonzero(lost)
    # Stable: of two at one time the one of the lower trajectory comes first.
    order = left[np.lexsort((t[left], key[left]))]
    heads = order[np.diff(key[order], prepend=-1) != 0]
    keys = np.concatenate([shown, key[heads]])
    return keys, np.concatenate([np.full(len(shown), PUBLISHED), state[heads].astype(np.int64)])
