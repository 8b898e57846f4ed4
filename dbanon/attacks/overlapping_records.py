"""Whether a run counts each person once: what core adds to the verdict on every run, whatever its family.

Two promises are core's own and not a family's. Analysts may sum the column ``subjects`` over rows of one time. And
composition takes the members of a record for the people among whom its rows leave each of them. Both fail where a
person is in two groups at a time.

A group is all records with the very same members, as where five people are published as five equal records. Where
hiding sets overlap, the owner of a record is its one member, and ``Evidence.hiding_other`` says who the others are.
"""

from dataclasses import dataclass, replace

import numpy as np

from dbanon.attacks import Clause, Evidence, Verdict
from dbanon.attacks.shared.clauses import Condition
from dbanon.attacks.shared.keys import find, sort_distinct
from dbanon.attacks.shared.replay import cut_slices, join_ranges
from dbanon.base.trajectory import Float, Int, Trajectories

ONE_GROUP = Condition(
    name="one-group",
    must="Each person must be in one record at a time, or in several with the very same members",
    broken_by="people",
    remedy="The method must form groups that do not overlap.",
    plain="No person is in two groups at a time, which a reader could compare.",
    test="linkability",
)
SUBJECTS_SUM = Condition(
    name="subjects-sum",
    must="Rows of one time must stand for no more people than their records have members",
    broken_by="groups",
    remedy="The method must state fewer people.",
    plain="The column `subjects` may be added up over the rows of one time: no person is counted twice.",
)
CLAUSES = (ONE_GROUP, SUBJECTS_SUM)
_ROWS_PER_PART = 1 << 20


@dataclass(frozen=True, kw_only=True, eq=False)
class _Records:
    """The records that have rows, by id."""

    record_id: Int  # [R]: ascending
    first: Int  # [R]; first, length: where the rows of each begin in the evidence, and how many there are
    length: Int  # [R]
    # start_s, end_s: from the start of its first row to the end of its last; gaps between rows count as its time.
    start_s: Float  # [R]
    end_s: Float  # [R]
    # How many people its rows stand for at one time, or more than that where rows of one record overlap.
    stands_for: Int  # [R]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Pieces:
    """The time of each record, cut where a member joins or leaves: in a piece the members are the same."""

    time_s: Float  # [t]: the distinct times, ascending, of which `start` and `end` are indices
    record: Int  # [p]
    start: Int  # [p]
    end: Int  # [p]
    offset: Int  # [p + 1]
    member: Int  # []: the people of piece i are ``member[offset[i]:offset[i + 1]]``, ascending

    def list_members(self, piece: Int) -> tuple[Int, Int]:
        """List the members of some pieces: of each the index into `piece`, and the person."""
        number = np.diff(self.offset)[piece]
        return np.repeat(np.arange(len(piece)), number), self.member[join_ranges(self.offset[piece], number)]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Groups:
    """Pieces with the same members whose times overlap, by their start."""

    group: Int  # [p]: the group of each piece
    piece: Int  # [g]: one piece of each group
    start: Int  # [g]; start, end: indices into the distinct times
    end: Int  # [g]


def add_clauses(verdict: Verdict, evidence: Evidence, *, counts_days: bool, has_guests: bool) -> Verdict:
    """Add the clauses of core to the verdict of a family's attack.

    `counts_days` is that of `decide_clauses`; a guest counts in its record for the whole of its time, as its rows say.
    """
    if has_guests:
        whole = np.full(len(evidence.member_record), np.nan)
        evidence = replace(evidence, member_start_s=whole, member_end_s=whole)
    own = decide_clauses(evidence, counts_days=counts_days)
    passed = verdict.passed and all(clause.passed for clause in own)
    return replace(verdict, passed=passed, clauses=(*verdict.clauses, *own))


def decide_clauses(evidence: Evidence, *, counts_days: bool) -> tuple[Clause, Clause]:
    """Decide whether each person is in one group at a time, and whether ``subjects`` may be summed.

    Parameters
    ----------
    evidence : Evidence
        The stored rows and the data, with or without what the family's attack has added to them.
    counts_days : bool
        Whether each day of a person counts as a person, where the trajectories have days.

    Notes
    -----
    O((rows + members) log) time; of the rows only some are copied at a time.
    """
    records = _build_records(evidence)
    pieces = _cut_pieces(evidence, records, _number_people(evidence.trajectories, counts_days=counts_days))
    groups = _group_pieces(pieces)
    twice, overstated = _count_in_two_groups(pieces, groups), _count_overstated(evidence, records, pieces, groups)
    people, number = len(sort_distinct(pieces.member)), len(groups.piece)
    return ONE_GROUP.make_clause(twice, {}, among=people), SUBJECTS_SUM.make_clause(overstated, {}, among=number)


def _number_people(data: Trajectories, *, counts_days: bool) -> Int:
    """Number the person of each trajectory: int64[n]."""
    if not counts_days or data.day is None:
        return data.subject
    day = data.day - data.day.min(initial=0)
    return np.unique(data.subject * (day.max(initial=0) + 1) + day, return_inverse=True)[1]


def _build_records(evidence: Evidence) -> _Records:
    """Find the time of each record, and how many people its rows stand for at once."""
    length = np.diff(evidence.offset)
    chosen = np.argsort(evidence.record_id, kind="stable")
    chosen = chosen[length[chosen] > 0]
    start_s, end_s, stands_for = np.empty(len(length)), np.empty(len(length)), np.zeros(len(length), np.int64)
    for low, high in cut_slices(length, _ROWS_PER_PART):
        there = low + np.flatnonzero(length[low:high])
        rows = slice(int(evidence.offset[low]), int(evidence.offset[high]))
        if not len(there):
            continue
        heads = evidence.offset[there] - rows.start
        start, end = (side[evidence.period[rows]] for side in (evidence.period_start_s, evidence.period_end_s))
        subjects = evidence.region_subjects[evidence.region[rows]].astype(np.int64)
        early = np.append(False, start[1:] < end[:-1])  # begins before the row ahead of it ends
        early[heads] = False
        start_s[there], end_s[there] = np.minimum.reduceat(start, heads), np.maximum.reduceat(end, heads)
        overlap = np.logical_or.reduceat(early, heads)
        stands_for[there] = np.where(overlap, np.add.reduceat(subjects, heads), np.maximum.reduceat(subjects, heads))
    return _Records(
        record_id=evidence.record_id[chosen],
        first=evidence.offset[chosen],
        length=length[chosen],
        start_s=start_s[chosen],
        end_s=end_s[chosen],
        stands_for=stands_for[chosen],
    )


def _cut_pieces(evidence: Evidence, records: _Records, person: Int) -> _Pieces:
    """Cut the records where members join or leave, and list the people of each piece."""
    record, path = (
        _find_ids(records.record_id, evidence.member_record),
        _find_ids(evidence.trajectories.trajectory_id, evidence.member_trajectory),
    )
    known = (record >= 0) & (path >= 0)
    record, path, whole = record[known], path[known], evidence.member_whole[known]
    # Only a membership for a stretch cuts its record, as far as the record has that time.
    part = np.flatnonzero(~whole)
    within = records.start_s[record[part]], records.end_s[record[part]]
    start_s, end_s = (np.clip(side[known][part], *within) for side in (evidence.member_start_s, evidence.member_end_s))
    ends = np.concatenate((records.start_s, records.end_s, start_s, end_s))
    time_s, time = np.unique(ends, return_inverse=True)
    count, width = len(records.record_id), max(len(time_s), 1)
    # A key is a record and one of its times; a piece lasts from one key to the next of the same record.
    marks = np.concatenate((np.arange(count), np.arange(count), record[part], record[part])) * width + time
    key = sort_distinct(marks)
    last = np.append(key[1:] // width != key[:-1] // width, True)[: len(key)]
    piece = np.cumsum(~last) - ~last  # of each key: how many pieces begin before it
    place = piece[np.searchsorted(key, marks)]
    # A membership has the pieces from `low` to before `high`: those of its record, or of its stretch.
    low, high = place[:count][record], place[count : 2 * count][record]
    low[part], high[part] = place[2 * count :][: len(part)], place[2 * count + len(part) :]
    number = high - low
    people = int(person.max(initial=0)) + 1
    pair = sort_distinct(np.repeat(person[path], number) + people * join_ranges(low, number))
    begin = np.flatnonzero(~last)
    return _Pieces(
        time_s=time_s,
        record=key[begin] // width,
        start=key[begin] % width,
        end=key[begin + 1] % width,
        offset=np.searchsorted(pair, np.arange(len(begin) + 1) * people),
        member=pair % people,
    )


def _find_ids(ids: Int, values: Int) -> Int:
    """Find each of some ids in ascending ones, which may be none: -1 where it is not there."""
    if not len(ids) or ids[-1] - ids[0] >= len(ids):
        return find(ids, values) if len(ids) else np.full(len(values), -1)
    at = values - ids[0]  # numbered in one go, as most are: a search would take most of the time of all this
    return np.where((at >= 0) & (at < len(ids)), at, -1)


def _group_pieces(pieces: _Pieces) -> _Groups:
    """Put pieces together that have the same members at overlapping times."""
    alike = _number_member_sets(pieces)
    order = np.lexsort((pieces.start, alike))
    width = max(len(pieces.time_s), 1)
    begins = alike[order] * width + pieces.start[order]
    until = np.maximum.accumulate(alike[order] * width + pieces.end[order])
    # Kept true: `until` is of the same members as long as pieces are, since times are below `width`.
    first = np.flatnonzero(np.append(True, begins[1:] >= until[:-1])[: len(order)])
    group = np.empty(len(order), np.int64)
    group[order] = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(order))))
    start, end = begins[first] % width, until[np.append(first, len(order))[1:] - 1] % width
    by_start = np.argsort(start, kind="stable")
    place = np.empty(len(first), np.int64)
    place[by_start] = np.arange(len(first))
    return _Groups(group=place[group], piece=order[first][by_start], start=start[by_start], end=end[by_start])


def _number_member_sets(pieces: _Pieces) -> Int:
    """Number the sets of members of the pieces: two have the same number if and only if their members are the same."""
    number = np.diff(pieces.offset)
    # Sets are compared by the sum of a random weight of each person, then by person.
    weight = np.random.default_rng(0).integers(1 << 63, size=int(pieces.member.max(initial=0)) + 1)
    total = np.append(0, np.cumsum(weight[pieces.member]))  # beyond 64 bits it goes on from 0, which is as good
    summed = total[pieces.offset[1:]] - total[pieces.offset[:-1]]
    _, first, alike = np.unique(summed, return_index=True, return_inverse=True)
    # Two different sets with one sum: the second one gets a number of its own.
    model = first[alike]
    other = number != number[model]
    same = np.flatnonzero(~other)
    of, member = pieces.list_members(same)
    other[same[of[member != pieces.list_members(model[same])[1]]]] = True
    return np.where(other, len(first) + np.arange(len(alike)), alike)


def _count_in_two_groups(pieces: _Pieces, groups: _Groups) -> int:
    """Count the people who are in two groups at a time."""
    width = max(len(groups.piece), 1)
    group, person = pieces.list_members(groups.piece)
    pair = sort_distinct(person * width + group)
    # Groups go by their start: a person who is in any two at a time is in two that follow one another.
    person, group = pair // width, pair % width
    meets = (person[1:] == person[:-1]) & (groups.start[group[1:]] < groups.end[group[:-1]])
    return len(sort_distinct(person[1:][meets]))


def _count_overstated(evidence: Evidence, records: _Records, pieces: _Pieces, groups: _Groups) -> int:
    """Count the groups whose rows stand at some time for more people than there are in the group."""
    people = np.diff(pieces.offset)[groups.piece]
    at_most = np.bincount(groups.group, records.stands_for[pieces.record], len(people))
    doubtful = (at_most > people)[groups.group]
    if not doubtful.any():
        return 0
    # Only of these, few if any: when each row begins and ends, and how many people it adds then and takes away.
    group, record = groups.group[doubtful], pieces.record[doubtful]
    length = records.length[record]
    row, group = join_ranges(records.first[record], length), np.repeat(group, length)
    period = evidence.period[row]
    start_s, end_s = (np.repeat(pieces.time_s[side[doubtful]], length) for side in (pieces.start, pieces.end))
    start_s = np.maximum(evidence.period_start_s[period], start_s)
    end_s = np.minimum(evidence.period_end_s[period], end_s)
    there = start_s < end_s
    subjects = evidence.region_subjects[evidence.region[row]].astype(np.int64)[there]
    group, change = np.tile(group[there], 2), np.append(subjects, -subjects)
    order = np.lexsort((change, np.append(start_s[there], end_s[there]), group))
    summed = np.cumsum(change[order])
    return len(sort_distinct(group[order][summed > people[group[order]]]))
