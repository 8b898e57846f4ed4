"""The samples that the adversary knows, the stored rows in slots and cells, and which of the ones the others hold."""

from typing import NamedTuple

import numpy as np

from dbanon.attacks import Evidence
from dbanon.attacks.kte._run_statements import Rules, demand_near
from dbanon.attacks.shared.keys import find, sort_distinct
from dbanon.attacks.shared.rectangles import find_region_cells
from dbanon.attacks.shared.run_statements import LARGEST_NUMBER
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Bool, Int, Trajectories

_NO_WINDOW = -(1 << 40)  # before all slots that can be numbered


class Samples(NamedTuple):
    """What the data say, once a slot and cell of a subject; where windows are apart, of a subject in each of them."""

    subject: Int  # [s]: codes, ascending
    window: Int  # [s]: ascending for each code; 0 where there is one
    offset: Int  # [s + 1]: samples of subject i are ``[offset[i], offset[i + 1])``, by slot, x and y
    slot: Int  # [m]
    x: Int  # [m]
    y: Int  # [m]
    fixes: Int  # [m]: how many fixes each sample is

    @property
    def owner(self) -> Int:
        """The subject of each sample: int64[m]."""
        return np.repeat(np.arange(len(self.subject)), np.diff(self.offset))


class Rows(NamedTuple):
    """The stored rows that have a period, sorted by record and time."""

    record_id: Int  # [R]: ascending
    offset: Int  # [R + 1]
    record: Int  # [c]: index into `record_id`
    first: Int  # [c]; first, last: slots, both inside
    last: Int  # [c]
    box: Int  # [c, 4]: x0, y0, x1, y1 of cells, all inside
    window: Int  # [R]: that of the first row of each record; 0 where there is one, -2^40 where there is no row
    # off_time, off_grid, unordered: rows whose period is not whole slots (where there are epochs, of one; where there
    # are windows, of its record's), whose region is no rectangle of cells, and that do not come one after the other.
    off_time: int
    off_grid: int
    unordered: int

    def select(self, records: Int) -> "Rows":
        """Keep some records, by ascending index."""
        kept = np.isin(self.record, records)
        record = find(records, self.record[kept]) if len(records) else self.record[kept]
        return self._replace(
            record_id=self.record_id[records],
            offset=np.searchsorted(record, np.arange(len(records) + 1)),
            record=record,
            first=self.first[kept],
            last=self.last[kept],
            box=self.box[kept],
            window=self.window[records],
        )


class Members(NamedTuple):
    """Whose records they are; of a group's records, one for each member, the first stands for all."""

    record: Int  # [p]; record, subject: distinct pairs of indices, by record
    subject: Int  # [p]
    crowd: Int  # [R]: distinct subjects of each record
    shared: Int  # []: by every record id that has rows, ascending: crowd of the record that stands for it
    faults: int  # memberships, records and trajectories that are not as they should be
    unlike: int  # records of a group that are not like its first, that are lacking or too many


class _Legs(NamedTuple):
    """What trajectories are in windows, by trajectory and time: records of the window have them all as members."""

    path: Int  # [l]: index of the trajectory
    window: Int  # [l]
    subject: Int  # [l]: index of the samples of its subject and window

    def find(self, path: Int, window: Int) -> Int:
        """Index of each pair; -1 where it is none."""
        low, high = self.window.min(), self.window.max() + 1
        at = find((self.path * (high - low) + self.window - low), path * (high - low) + window - low)
        return np.where((window >= low) & (window < high) & (path >= 0), at, -1)


class Cover(NamedTuple):
    """Which samples are published: bool[m]; rows without a real sample of a member: bool[c]."""

    covered: Bool
    fictitious: Bool


def find_samples(evidence: Evidence, rules: Rules) -> Samples:
    """Snap every fix to its slot and cell.

    Raises `UndecidableError` if some are too far away to be numbered.
    """
    data = evidence.trajectories
    demand_near(data, rules.grid_s, rules.grid_m)
    subject = np.repeat(data.subject, np.diff(data.offset))
    columns = ((data.t, rules.grid_s), (data.x, rules.grid_m), (data.y, rules.grid_m))
    slot, x, y = (np.floor(values / side).astype(np.int64) for values, side in columns)
    order = _sort_by_keys(y, x, slot, subject)
    new = np.zeros(len(order), bool)
    new[:1] = True
    for values in (subject, slot, x, y):
        new[1:] |= values[order[1:]] != values[order[:-1]]
    at, kept = np.flatnonzero(new), order[new]
    window = _find_windows(slot[kept], rules)
    first = np.flatnonzero((np.diff(subject[kept], prepend=-1) != 0) | (np.diff(window, prepend=window[:1]) != 0))
    return Samples(
        subject=subject[kept][first],
        window=window[first],
        offset=np.append(first, len(kept)),
        slot=slot[kept],
        x=x[kept],
        y=y[kept],
        fixes=np.diff(np.append(at, len(order))),
    )


def _find_windows(slot: Int, rules: Rules) -> Int:
    """Number the window of each slot from 1970 on; 0 where there is one."""
    return slot // rules.apart if rules.apart else np.zeros_like(slot)


def _sort_by_keys(*keys: Int) -> Int:
    """Sort by several keys, the last one first, as `np.lexsort` does; at once where they are in order."""
    *_, minor, major = keys
    later = (major[1:] > major[:-1]) | ((major[1:] == major[:-1]) & (minor[1:] > minor[:-1]))
    return np.arange(len(major)) if later.all() else np.lexsort(keys)


def build_rows(evidence: Evidence, rules: Rules) -> Rows:
    """Express the stored rows in slots and cells."""
    record_id = sort_distinct(evidence.record_id)
    record, seq = find(record_id, evidence.cloak_record), evidence.cloak_seq
    first, last, known, timed = (values[evidence.period] for values in _find_period_slots(evidence, rules))
    box, on_grid = find_region_cells(evidence.region_bounds, rules.grid_m)
    on_grid &= evidence.region_rectangle & (evidence.region_srid == evidence.trajectories.srid)
    order = _sort_by_keys(seq, record)
    place = np.arange(len(order)) - np.searchsorted(record[order], record[order])
    unordered = seq[order] != place + 1
    later = (record[order[1:]] != record[order[:-1]]) | (first[order[1:]] > last[order[:-1]])
    unordered[1:] |= ~later
    # What is a little off the grid is refused, and looked at where it almost is.
    kept = _sort_by_keys(first, record)
    kept = kept[known[kept]]
    offset = np.searchsorted(record[kept], np.arange(len(record_id) + 1))
    window = np.full(len(record_id), _NO_WINDOW if rules.apart else 0)
    some = np.diff(offset) > 0
    window[some] = _find_windows(first[kept][offset[:-1][some]], rules)
    for slot in (first, last):
        timed &= _find_windows(slot, rules) == window[record]
    return Rows(
        record_id=record_id,
        offset=offset,
        window=window,
        record=record[kept],
        first=first[kept],
        last=last[kept],
        box=box[evidence.region[kept]],
        off_time=int((~timed).sum()),
        off_grid=int((~on_grid[evidence.region]).sum()),
        unordered=int(unordered.sum()),
    )


def _find_period_slots(evidence: Evidence, rules: Rules) -> tuple[Int, Int, Bool, Bool]:
    """Give the first and the last slot of each period, whether it has any, and whether it is as it should be."""
    start_s, end_s = evidence.period_start_s, evidence.period_end_s
    known = (
        (np.abs(start_s) <= LARGEST_NUMBER) & (np.abs(end_s) <= LARGEST_NUMBER) & (start_s < end_s)
    )  # not so for NaN
    start_s, end_s = np.where(known, start_s, 0.0), np.where(known, end_s, 1.0)
    first = np.floor(start_s / rules.grid_s).astype(np.int64)
    last = np.ceil(end_s / rules.grid_s).astype(np.int64) - 1
    whole = known & (first * rules.grid_s == start_s) & ((last + 1) * rules.grid_s == end_s)
    return first, last, known, whole & (first // rules.leak == last // rules.leak) if rules.hides else whole


def find_members(evidence: Evidence, stored: Rows, known: Samples, rules: Rules) -> tuple[Rows, Members]:
    """Find whose record each is, and count what keeps records from being all trajectories of their subjects, once.

    The rows given back are those of the records that stand for themselves or their group.
    """
    data, size = evidence.trajectories, len(known.subject)
    record = find(stored.record_id, evidence.member_record)
    legs = _find_legs(data, known, rules)
    leg = legs.find(find(data.trajectory_id, evidence.member_trajectory), stored.window[record])
    right = (record >= 0) & (leg >= 0)
    faults = int((~(right & evidence.member_whole)).sum())
    order = np.lexsort((leg[right], record[right]))
    record, leg = record[right][order], leg[right][order]
    group, unlike = np.arange(len(stored.record_id)), 0
    if not rules.hides:
        first, group, unlike = _find_groups(stored, record, leg)
        stored = stored.select(first)
        record, kept = find(first, record), np.isin(record, first)
        record, leg = record[kept], leg[kept]
    pairs = sort_distinct(record * size + legs.subject[leg])
    crowd = np.bincount(pairs // size, minlength=len(stored.record_id))
    people, paths = sort_distinct(pairs % size), sort_distinct(leg)
    owed = np.isin(legs.subject, people)
    # All are 0 only where all that trajectories of a published subject are in a window is in one record, wholly, and in
    # no other.
    faults += (len(leg) - len(paths)) + (int(owed.sum()) - len(paths))
    faults += int((crowd == 0).sum()) + (len(pairs) - len(people))
    unlike += int(np.abs(crowd - np.bincount(group, minlength=len(crowd))).sum())
    return stored, Members(
        record=pairs // size, subject=pairs % size, crowd=crowd, shared=crowd[group], faults=faults, unlike=unlike
    )


def _find_legs(data: Trajectories, known: Samples, rules: Rules) -> _Legs:
    path = np.repeat(np.arange(len(data.subject)), np.diff(data.offset))
    window = _find_windows(np.floor(data.t / rules.grid_s).astype(np.int64), rules)
    first, span = window.min(), window.max() - window.min() + 1
    key = sort_distinct(path * span + window - first)
    path, window = key // span, key % span + first
    owner = find(known.subject * span + known.window - first, data.subject[path] * span + window - first)
    return _Legs(path, window, owner)


def _find_groups(stored: Rows, record: Int, leg: Int) -> tuple[Int, Int, int]:
    """Find the first record of each group and the group of each, and count records that are not like the first."""
    offset = np.searchsorted(record, np.arange(len(stored.record_id) + 1))
    # Records with one least leg should have all in common.
    least = np.append(leg, -1)[np.minimum(offset[:-1], len(leg))]
    least = np.where(np.diff(offset) > 0, least, -1 - np.arange(len(least)))
    _, first, group = np.unique(least, return_index=True, return_inverse=True)
    unlike = _mark_unlike(offset, first[group], leg)
    unlike |= _mark_unlike(stored.offset, first[group], stored.first, stored.last, *stored.box.T)
    place = np.argsort(np.argsort(first))
    return np.sort(first), place[group], int(unlike.sum())


def _mark_unlike(offset: Int, model: Int, *columns: Int) -> Bool:
    """Say of each part of a ragged array whether it differs from that of its model."""
    length = np.diff(offset)
    unlike: Bool = length != length[model]
    same = np.flatnonzero(~unlike)
    owner = np.repeat(same, length[same])
    place = np.arange(len(owner)) - np.repeat(np.cumsum(length[same]) - length[same], length[same])
    for column in columns:
        wrong = column[offset[owner] + place] != column[offset[model[owner]] + place]
        unlike[owner[wrong]] = True
    return unlike


def find_cover(known: Samples, stored: Rows, who: Members) -> Cover:
    """Find which samples lie in a row of their subject's record, and the rows that hold none of a member's."""
    seen = Cover(covered=np.zeros(len(known.slot), bool), fictitious=who.crowd[stored.record] == 0)
    _mark_covered(who, known, stored, seen, np.full(len(stored.record), -1))
    return seen


@compile_kernel
def _mark_covered(who: Members, known: Samples, stored: Rows, seen: Cover, held: Int) -> None:
    """Mark the samples in a row of their subject's record, and the rows without a sample of each subject of theirs.

    `held` (int64[c]): -1 everywhere.
    """
    sample_offset, slot, x, y = known.offset, known.slot, known.x, known.y
    row_offset, first, last, box = stored.offset, stored.first, stored.last, stored.box
    covered, fictitious = seen
    for pair in range(len(who.record)):
        record, subject = who.record[pair], who.subject[pair]
        row, end = row_offset[record], row_offset[record + 1]
        begin = row
        # Samples and rows both come in order of time: no row before `row` ends as late as the sample.
        for i in range(sample_offset[subject], sample_offset[subject + 1]):
            while row < end and last[row] < slot[i]:
                row += 1
            if row == end:
                break
            inside = box[row, 0] <= x[i] <= box[row, 2] and box[row, 1] <= y[i] <= box[row, 3]
            if first[row] <= slot[i] and inside:
                covered[i] = True
                # Of the last pair that has a sample in the row: nothing has to be cleared between pairs.
                held[row] = pair
        for row in range(begin, end):
            fictitious[row] |= held[row] != pair
