"""Where each subject was, what each record shows at each instant, and whether that is true.

Everything is in tables of subjects by instants, of four bytes each; instants beyond the last are there to fill up
windows, and nobody is there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.attacks.mob._run_statements import Rules, demand_near
from dbanon.attacks.mob.evidence import ObjectEvidence
from dbanon.attacks.shared.keys import find, sort_distinct
from dbanon.attacks.shared.rectangles import find_region_cells
from dbanon.attacks.shared.replay import Timetable, replay
from dbanon.base import cores
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Bool, Int, Int32, Trajectories

AnyInt = NDArray[np.integer]

ABSENT = -1  # instead of a cell, and instead of a region
_REGIONS_PER_PART = 1 << 18  # regions made cells together
_INSTANTS_PER_PART = 16  # instants looked at together: a line of memory holds as many
_SUBJECTS_PER_PART = 4096  # subjects looked at together


class Positions(NamedTuple):
    """Where every subject was at every instant."""

    subject: Int  # [n]: codes of all considered subjects, ascending
    x: Int32  # [n, T]; x, y: cells, counted from `origin`; `ABSENT` where the subject has no position
    y: Int32  # [n, T]
    origin: tuple[int, int]

    @property
    def seen(self) -> Bool:
        """Whether each subject has a position at any instant."""
        return np.asarray((self.x != ABSENT).any(axis=1))


class Own(NamedTuple):
    """The own instants of each subject."""

    offset: Int  # [n + 1]
    instant: Int32  # [q]: those of subject i are ``instant[offset[i]:offset[i + 1]]``, ascending

    @property
    def has_instants(self) -> Bool:
        """Whether each subject has any."""
        return np.diff(self.offset) > 0


class Shown(NamedTuple):
    """What the records show."""

    # The region of the row of each subject's record at each instant; `ABSENT` where there is none.
    region: Int32  # [n, T]
    box: Int32  # [r, 4]: the cells of each region's envelope, counted from the positions' origin
    sound: Bool  # [r]
    cloaked: NDArray[np.int8]  # [r]
    crowd: AnyInt  # [r]
    subjects: AnyInt  # [r]
    published: Bool  # [n]: whose records there are
    owner: Int  # [R]: whose record each of `key` is; -1 where it is not known whose
    key: Int  # [R]: record ids, ascending
    faults: int  # records and memberships that are not one record of one subject each
    off_time: int  # rows that do not stand for one instant, or not for a later one than the row before


class Truth(NamedTuple):
    """How many rows are not what they should be, how many are exact, and what is lost in them."""

    # incomplete, inexact, unmasked, uncounted: rows that break the clauses `complete`, `exact`, `covers` and, in the
    # subjects they stand for, `crowd`.
    incomplete: int
    inexact: int
    unmasked: int
    uncounted: int
    rows: int  # all rows looked at
    exact: int  # those of them that say they are not cloaked
    loss: float  # sum of 1 - 1 / area in cells over those whose region is a rectangle on the grid


@dataclass(frozen=True, kw_only=True, eq=False)
class Classes:
    """The distinct cloaked regions of each instant."""

    size: Int  # [c]: how many subjects share each
    miscounted: int  # rows whose crowd is another number


def map_parts(count: int, size: int, task: Callable[[int, int], Any]) -> Iterator[Any]:
    """Do parts of `size` items each on all threads; what they give, in order."""
    cuts = range(0, count, size)
    yield from cores.map_each(lambda low: task(low, min(low + size, count)), cuts)


def find_positions(evidence: ObjectEvidence, rules: Rules) -> Positions:
    """Find every subject's cell at every instant.

    Raises `UndecidableError` if they are too far apart to be numbered.
    """
    data = evidence.trajectories
    demand_near(data)
    times, subject = rules.timetable, sort_distinct(data.subject)
    origin = tuple(int(np.floor(float(v.min()) / data.grid_m)) - 1 for v in (data.x, data.y))
    x, y = (np.full((len(subject) * times.windows, times.length), ABSENT, np.int32) for _ in range(2))
    for sighting in replay(data, times, rules.align, rules.max_gap_s):
        # A row a subject and window: end to end, the windows of a subject are its instants.
        at = np.searchsorted(subject, sighting.subject) * times.windows + sighting.window
        for table, value, least in ((x, sighting.x, origin[0]), (y, sighting.y, origin[1])):
            table[at] = np.where(sighting.there, np.floor(value / data.grid_m) - least, ABSENT)
    wide = (len(subject), times.windows * times.length)
    return Positions(subject=subject, x=x.reshape(wide), y=y.reshape(wide), origin=(origin[0], origin[1]))


def lay_out_rows(evidence: ObjectEvidence, all_data: Trajectories, at: Positions, times: Timetable) -> Shown:
    """Lay out the rows by subject and instant."""
    order = np.argsort(evidence.record_id, kind="stable")
    owner, faults = _find_owners(evidence, all_data, at.subject, evidence.record_id[order])
    instant = _find_instants(evidence, times)
    of = np.empty(len(order), np.int64)
    of[order] = owner
    region = np.full(at.x.shape, ABSENT, np.int32)
    off_time = int(_write_regions(evidence.offset, evidence.region, instant, evidence.period, of, region))
    if evidence.place is not None:
        numbers = np.arange(1, evidence.rows + 1) - np.repeat(evidence.offset[:-1], np.diff(evidence.offset))
        off_time += int((evidence.place != numbers).sum())
    published = np.zeros(len(at.subject), bool)
    published[owner[owner >= 0]] = True
    box, sound = _find_boxes(evidence, at.origin)
    stated = evidence.region_cloaked, evidence.region_crowd, evidence.region_subjects
    return Shown(region, box, sound, *stated, published, owner, evidence.record_id[order], faults, off_time)


def _find_owners(evidence: ObjectEvidence, all_data: Trajectories, subject: Int, key: Int) -> tuple[Int, int]:
    """Find whose record each is, and count what keeps records from being a subject's with all it has, each once."""
    data, people = evidence.trajectories, len(subject)
    record, any_path = find(key, evidence.member_record), find(all_data.trajectory_id, evidence.member_trajectory)
    path = find(data.trajectory_id, evidence.member_trajectory)
    who = np.where(any_path >= 0, find(subject, all_data.subject[any_path]), -1)
    known = (record >= 0) & (who >= 0)
    right = known & evidence.member_whole
    record, who, path = record[known], who[known], path[known]
    pair = sort_distinct(record * people + who)
    owner = np.full(len(key), -1)
    owner[pair // people] = pair % people
    # Every record one subject, every subject one record at most, every membership once.
    twice = (len(pair) - len(sort_distinct(record))) + (len(pair) - len(sort_distinct(who)))
    listed = sort_distinct(record * (len(all_data.trajectory_id) + 1) + any_path[known])
    faults = int((~right).sum()) + twice + (len(record) - len(listed)) + int((owner < 0).sum())
    # And all the trajectories the run considers; of others of the subject nothing is asked.
    own = np.isin(find(subject, data.subject), who)
    return owner, faults + int((own & ~np.isin(np.arange(len(own)), path)).sum())


def _find_instants(evidence: ObjectEvidence, times: Timetable) -> Int32:
    """Find the instant of each period whose slot it is; -1 where it is none."""
    at = times.find_instant(evidence.period_start_s)
    exact = (at >= 0) & (times.start_s(at) == evidence.period_start_s)
    exact &= evidence.period_end_s == evidence.period_start_s + times.step_s
    return np.where(exact, at, -1).astype(np.int32)


def _find_boxes(evidence: ObjectEvidence, origin: tuple[int, int]) -> tuple[Int32, Bool]:
    """Make the regions cells, in parts: there may be as many regions as places."""
    count, data = len(evidence.region_no), evidence.trajectories
    box, sound = np.empty((count, 4), np.int32), np.empty(count, bool)
    most = np.iinfo(np.int32).max

    def look(low: int, high: int) -> None:
        part = slice(low, high)
        cells, on_grid = find_region_cells(evidence.region_bounds[part], data.grid_m)
        sound[part] = on_grid & evidence.region_rectangle[part] & (evidence.region_srid[part] == data.srid)
        # What lies beyond all positions is as good as at their edge.
        box[part] = np.clip(cells - np.array(origin * 2), -2, most)

    for _ in map_parts(count, _REGIONS_PER_PART, look):
        pass
    return box, sound


@compile_kernel
def _write_regions(offset: Int, region: AnyInt, instant: Int32, period: AnyInt, owner: Int, table: Int32) -> int:
    """Write each row's region to its subject and instant; count rows that do not follow the one before."""
    wrong = 0
    for record in range(len(owner)):
        last = -1
        for row in range(offset[record], offset[record + 1]):
            at = instant[period[row]]
            # A period that is no instant is -1, so its row never follows another.
            if at <= last:
                wrong += 1
            elif owner[record] >= 0:
                table[owner[record], at] = region[row]
            last = max(at, last)
    return wrong


def compare_rows(at: Positions, shown: Shown, own: Own, qid_only: bool) -> Truth:
    """Compare every row with its subject's position, and every position with its row."""
    counts, losses = [], []
    look = partial(_compare, at, shown, own, qid_only)
    for count, loss in map_parts(len(at.subject), _SUBJECTS_PER_PART, look):
        counts.append(count)
        losses.append(loss)
    total = np.sum(counts, axis=0)
    return Truth._make([*total.tolist(), float(sum(losses))])


@compile_kernel
def _compare(at: Positions, shown: Shown, own: Own, qid_only: bool, low: int, high: int) -> tuple[Int, float]:
    """Compare the rows of the subjects from `low` to before `high`."""
    _, x, y, _ = at
    region, box, sound, cloaked, crowd, subjects = shown[:6]
    offset, instant = own
    # In the order of `Truth`: incomplete, inexact, unmasked, uncounted, rows, exact.
    count, loss = np.zeros(6, np.int64), 0.0
    for i in range(low, high):
        if not shown.published[i]:
            continue
        # With exact rows a row wherever the subject is; without, none but cloaked ones, at its own instants at least.
        if qid_only:
            for q in range(offset[i], offset[i + 1]):
                count[0] += region[i, instant[q]] == ABSENT
        for t in range(x.shape[1]):
            r, there = region[i, t], x[i, t] != ABSENT
            if r == ABSENT:
                count[0] += there and not qid_only
                continue
            hides = cloaked[r] == 1
            if not there or (qid_only and not hides):
                count[0] += 1
            x0, y0, x1, y1 = box[r, 0], box[r, 1], box[r, 2], box[r, 3]
            if hides:
                count[2] += not (x0 <= x[i, t] <= x1 and y0 <= y[i, t] <= y1)
            else:
                same = x0 == x[i, t] and x1 == x[i, t] and y0 == y[i, t] and y1 == y[i, t]
                count[1] += not same or crowd[r] != 1
            count[3] += subjects[r] != 1
            count[4] += 1
            count[5] += not hides
            if sound[r]:
                loss += 1.0 - 1.0 / ((float(x1) - float(x0) + 1.0) * (float(y1) - float(y0) + 1.0))
    return count, loss


def measure_classes(evidence: ObjectEvidence, shown: Shown) -> Classes:
    """Count who shares a region at an instant: regions are one where an analyst sees no difference."""
    same = _number_regions(evidence)

    def look(low: int, high: int) -> tuple[Int, int]:
        columns = np.ascontiguousarray(shown.region[:, low:high].T)
        return _count(columns, same, shown.crowd, int(same.max(initial=-1)) + 1)

    sizes, miscounted = [np.empty(0, np.int64)], 0
    for size, wrong in map_parts(shown.region.shape[1], _INSTANTS_PER_PART, look):
        sizes.append(size)
        miscounted += int(wrong)
    return Classes(size=np.concatenate(sizes), miscounted=miscounted)


def _number_regions(evidence: ObjectEvidence) -> Int32:
    """Number the distinct bounds of cloaked regions, to the last bit: int32[r], -1 where it is not cloaked."""
    cloaked = np.flatnonzero(evidence.region_cloaked == 1)
    columns = evidence.region_bounds[cloaked].T
    order = np.lexsort(columns)
    new = np.zeros(len(cloaked), bool)
    for column in columns:
        new[1:] |= column[order[1:]] != column[order[:-1]]
    same = np.full(len(evidence.region_no), -1, np.int32)
    same[cloaked[order]] = np.cumsum(new)
    return same


@compile_kernel
def _count(columns: Int32, same: Int32, crowd: AnyInt, regions: int) -> tuple[Int, int]:
    """Count who is in each class of some instants, class by class, and the rows whose crowd is another number."""
    size, wrong = [0 for _ in range(0)], 0
    number = np.zeros(regions, np.int32)
    for t in range(columns.shape[0]):
        touched = [0 for _ in range(0)]
        for i in range(columns.shape[1]):
            r = columns[t, i]
            if r != -1 and same[r] != -1:
                if number[same[r]] == 0:
                    touched.append(same[r])
                number[same[r]] += 1
        for i in range(columns.shape[1]):
            r = columns[t, i]
            wrong += r != -1 and same[r] != -1 and number[same[r]] != crowd[r]
        # Class by class, since an instant has far fewer classes than there are regions.
        for c in touched:
            size.append(number[c])
            number[c] = 0
    sizes = np.empty(len(size), np.int64)
    for at in range(len(size)):
        sizes[at] = size[at]
    return sizes, wrong
