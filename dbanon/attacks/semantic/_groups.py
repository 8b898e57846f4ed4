"""Groups: records that are alike in rows and members, and whether they are as many as whom they hide."""

from dataclasses import dataclass

import numpy as np

from dbanon.attacks.semantic._run_statements import Rules
from dbanon.attacks.semantic._units import Units, count_subjects, has_few_atoms
from dbanon.attacks.semantic.evidence import RegionEvidence
from dbanon.attacks.shared.keys import find, sort_distinct
from dbanon.attacks.shared.replay import join_ranges
from dbanon.base.trajectory import Int


@dataclass(frozen=True, kw_only=True, eq=False)
class Groups:
    """The groups of records, and the rows of one record of each, by group and time."""

    first: Int  # [g]: index of a record of each group
    unit: Int  # [p]; unit, unit_group: which units are members of which group, each pair once
    unit_group: Int  # [p]
    # The group of each unit, -1 where it is in none; once more for units that are in a second one, and so on.
    of_unit: tuple[Int, ...]  # tuple of int64[u]
    crowd: Int  # [g]: distinct subjects
    row: Int  # [c]: index of the rows of one record of each group
    row_group: Int  # [c]; row_group, start, end: their group, and their slots, half-open
    start: Int  # [c]
    end: Int  # [c]
    faults: int  # records, memberships and units that are not as they should be
    miscounted: int  # rows that do not say how many people their group has, or that they stand for one


def find_groups(evidence: RegionEvidence, units: Units, start: Int, end: Int, rules: Rules) -> Groups:
    """Put records that are alike together, and count what is not as it should be.

    `start`, `end` (int64[c]): slots of the rows.
    """
    members, faults = _find_members(evidence, units)
    record, first = _number_groups(evidence, members, start, end)
    number = len(first)
    low = np.searchsorted(members[0], np.stack([first, first + 1]))
    path = members[1][join_ranges(low[0], low[1] - low[0])]
    width = len(units.subject)
    pair = sort_distinct(np.repeat(np.arange(number), low[1] - low[0]) * width + units.unit[path])
    group, unit = pair // width, pair % width
    # All trajectories of each unit: as many as there are, for each is one of a unit that is there.
    due = np.bincount(group, np.bincount(units.unit, minlength=width)[unit], number)
    faults += int(np.abs(due - (low[1] - low[0])).sum())
    faults += int(np.abs(np.bincount(group, minlength=number) - np.bincount(record, minlength=number)).sum())
    faults += len(unit) - len(sort_distinct(unit)) + int(has_few_atoms(units, rules)[unit].sum())
    faults += len(evidence.hiding_record)
    crowd = count_subjects(group, units.subject[unit], number)
    expected = np.repeat(crowd[record], np.diff(evidence.offset))
    miscounted = (evidence.cloak_crowd != expected) | (evidence.cloak_subjects != 1)
    length = np.diff(evidence.offset)[first]
    row = join_ranges(evidence.offset[:-1][first], length)
    row_group = np.repeat(np.arange(number), length)
    order = np.lexsort((start[row], row_group))
    row = row[order]
    return Groups(
        first=first, unit=unit, unit_group=group, of_unit=_split_layers(unit, group, width), crowd=crowd, row=row,
        row_group=row_group[order], start=start[row], end=end[row], faults=faults,
        miscounted=int(miscounted.sum()),
    )  # fmt: skip


def _split_layers(unit: Int, group: Int, width: int) -> tuple[Int, ...]:
    """Give each unit its first group, then those that have more their second one, and so on."""
    order = np.argsort(unit, kind="stable")
    unit, group = unit[order], group[order]
    turn = np.arange(len(unit)) - np.searchsorted(unit, unit)
    layers = np.full((int(turn.max(initial=0)) + 1, width), -1)
    layers[turn, unit] = group
    return tuple(layers)


def _find_members(evidence: RegionEvidence, units: Units) -> tuple[tuple[Int, Int], int]:
    """Find the memberships of whole considered trajectories, by record and trajectory, each once; count the others."""
    ids, by_id = np.unique(evidence.record_id, return_index=True)
    at, path = find(ids, evidence.member_record), find(units.trajectory_id, evidence.member_trajectory)
    sound = (at >= 0) & (path >= 0) & evidence.member_whole
    width = len(units.trajectory_id)
    key = sort_distinct(by_id[at[sound]] * width + path[sound])
    return (key // width, key % width), len(at) - len(key) + len(evidence.record_id) - len(ids)


def _number_groups(evidence: RegionEvidence, members: tuple[Int, Int], start: Int, end: Int) -> tuple[Int, Int]:
    """Number the groups of records whose rows and members are the same to the last bit."""
    rows = np.stack([evidence.region.astype(np.int64), start, end, evidence.cloak_seq], axis=1)
    low = np.searchsorted(members[0], np.arange(len(evidence.record_id) + 1))
    met: dict[tuple[bytes, bytes], int] = {}
    record, first = np.empty(len(evidence.record_id), np.int64), list[int]()
    for at in range(len(record)):
        own, whom = rows[evidence.offset[at] : evidence.offset[at + 1]], members[1][low[at] : low[at + 1]]
        record[at] = met.setdefault((own.tobytes(), whom.tobytes()), len(met))
        if record[at] == len(first):
            first.append(at)
    return record, np.array(first, np.int64)
