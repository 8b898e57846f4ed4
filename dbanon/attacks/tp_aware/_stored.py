"""The stored rows in the forms the attack looks at: records, members, and published requests."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dbanon.attacks import Evidence
from dbanon.attacks.shared.keys import find, sort_distinct
from dbanon.attacks.shared.replay import Timetable, join_ranges
from dbanon.attacks.tp_aware._run_statements import Rules
from dbanon.attacks.tp_aware.evidence import RequestEvidence
from dbanon.base.trajectory import Bool, Float, Int

TOLERANCE_CELLS = 1e-6


class Records(NamedTuple):
    """Rows sorted by (record, seq), and the records they form."""

    order: Int  # [c]: sorts the evidence's rows
    key: Int  # [n]: distinct record ids, ascending
    first: Int  # [n]: index of the first sorted row
    window: Int  # [n]: the window the first row lies in; -1 where there is none
    sound: Bool  # [n]: whether the rows follow one another from the first to the last instant of that window
    # The sorted row that covers each instant, record after record; of those that are not sound, each row once.
    covering: Int  # []
    begin: Int  # [n]: index into `covering` of the first instant of each record


class Members(NamedTuple):
    """Who is in which record, in distinct subjects."""

    # record, subject: distinct pairs (index of the record, code of the subject) sorted by (subject, window) where the
    # window is known.
    record: Int  # [p]
    subject: Int  # [p]
    # ``subject * windows + window``; records without a known window are left out of `record`, `subject` and `key`.
    key: Int  # [p]
    crowd: Int  # [n]: distinct subjects of each record that are no guests
    subjects: Int  # [n]: distinct subjects of each record
    guest: Int  # [p]: the row of `said` of each guest; -1 for others
    said: Bool  # [g, length]: at which instants of the window each guest is present, as it is stored
    listed: Int  # [q]: sorted ``record * trajectories + trajectory`` of all known memberships
    faults: int  # memberships that are unknown, double, partial, or of no record, and records without any

    def find_entries(self, key: Int) -> tuple[Int, Int]:
        """Find, for each key, the entries with it: index of the key, index of the entry."""
        low = np.searchsorted(self.key, key)
        number = np.searchsorted(self.key, key, side="right") - low
        return np.repeat(np.arange(len(key)), number), join_ranges(low, number)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Published requests by row."""

    record: Int  # [q]: index of the record; -1 where there is none
    seq: Int  # [q]
    content: Int  # [q]
    # Numbers the rows that have any, ascending; the requests of one row are in the order they are stored in.
    row: Int  # [q]


def build_records(evidence: Evidence, rules: Rules) -> Records:
    record, seq, timetable = evidence.cloak_record, evidence.cloak_seq, rules.timetable
    order = np.lexsort((seq, record))
    key, first, rows = np.unique(record[order], return_index=True, return_counts=True)
    start_s, end_s = evidence.cloak_start_s[order], evidence.cloak_end_s[order]
    instant = timetable.find_instant(start_s[first])
    window = np.where(instant < 0, -1, instant // timetable.length)
    # The first row must begin with the window, the others where the one before ends, and the last must end with it.
    due_s = np.append(0.0, end_s[:-1])
    due_s[first] = timetable.start_s(window * timetable.length)
    with np.errstate(invalid="ignore"):
        span = (end_s - start_s) / timetable.step_s
        whole = np.isfinite(span) & (span == np.floor(span)) & (span >= 1)
    place = join_ranges(np.zeros(len(key), dtype=np.int64), rows)
    right = (seq[order] == place + 1) & (start_s == due_s) & whole & ((span == 1) | (rules.min_contents > 1))
    filled = np.add.reduceat(np.where(whole, span, 0), first) == timetable.count_instants(window)
    sound = np.logical_and.reduceat(right, first) & (window >= 0) & filled
    # A joined row covers several instants. A row of an unsound record counts as one: its period may be false.
    instants = np.where(np.repeat(sound, rows), span, 1).astype(np.int64)
    return Records(
        order=order,
        key=key,
        first=first,
        window=window,
        sound=sound,
        covering=np.repeat(np.arange(len(order)), instants),
        begin=(np.cumsum(instants) - instants)[first],
    )


def count_rows(records: Records) -> Int:
    return np.diff(np.append(records.first, len(records.order)))


def find_members(evidence: Evidence, records: Records, rules: Rules) -> Members:
    data, timetable = evidence.trajectories, rules.timetable
    record = find(records.key, evidence.member_record)
    trajectory = find(data.trajectory_id, evidence.member_trajectory)
    known = (record >= 0) & (trajectory >= 0)
    # The crowd is of distinct subjects: a subject with several trajectories in a record counts once (Definition 2).
    listed = sort_distinct(record[known] * len(data.trajectory_id) + trajectory[known])
    codes = int(data.subject.max()) + 1
    person = record[known] * codes + data.subject[trajectory[known]]
    partial = ~evidence.member_whole[known] & rules.guests
    begins_s = np.where(partial, evidence.member_start_s[known], -np.inf)
    pair, guests, times = sort_distinct(person), sort_distinct(person[partial]), len(listed)
    faults = int((~known).sum() + known.sum())
    if partial.any():  # a guest has several stretches, and is no full member
        times = np.unique(np.stack([record[known], trajectory[known], begins_s]), axis=1).shape[1]
        faults += len(np.intersect1d(guests, person[~partial]))
    faults += (0 if rules.guests else int((~evidence.member_whole).sum())) - times
    said, wrong = _find_said(
        records, timetable, guests // codes, np.searchsorted(guests, person[partial]),
        np.stack([begins_s, evidence.member_end_s[known]])[:, partial],
    )  # fmt: skip
    guest = find(guests, pair) if len(guests) else np.full(len(pair), -1)
    record, subject = np.divmod(pair, codes)
    subjects = np.bincount(record, minlength=len(records.key))
    crowd = np.bincount(record[guest < 0], minlength=len(records.key))
    placed = records.window[record] >= 0
    record, subject, guest = record[placed], subject[placed], guest[placed]
    key = subject * timetable.windows + records.window[record]
    order = np.argsort(key, kind="stable")
    return Members(
        record=record[order],
        subject=subject[order],
        key=key[order],
        crowd=crowd,
        subjects=subjects,
        guest=guest[order],
        said=said,
        listed=listed,
        faults=faults + wrong + int((subjects == 0).sum()),
    )


def _find_said(records: Records, timetable: Timetable, record: Int, guest: Int, stretch_s: Float) -> tuple[Bool, int]:
    """Find the instants of the stretches of each guest, bool[g, length], and count stretches that are of no instants.

    `record` is of each guest; `guest` and `stretch_s`, ``[2, m]``, of each stretch.
    """
    window = records.window[record]
    first_s, count = timetable.start_s(window * timetable.length), timetable.count_instants(window)
    place = (stretch_s - first_s[guest]) / timetable.step_s
    right = (place == np.rint(place)).all(axis=0) & (place[0] >= 0) & (place[0] < place[1]) & (place[1] <= count[guest])
    change = np.zeros((len(record), timetable.length + 1), np.int64)
    for sign, at in zip((1, -1), place, strict=True):
        np.add.at(change, (guest[right], at[right].astype(np.int64)), sign)
    return np.cumsum(change[:, :-1], axis=1) > 0, int((~right & (window[guest] >= 0)).sum())


def count_guests(members: Members, timetable: Timetable) -> Int:
    """Count the guests in each window."""
    keys = sort_distinct(members.key[members.guest >= 0])
    return np.bincount(keys % timetable.windows, minlength=timetable.windows)


def count_published(members: Members, timetable: Timetable) -> Int:
    """Distinct subjects published in each window."""
    return np.bincount(sort_distinct(members.key) % timetable.windows, minlength=timetable.windows)


def find_shown_requests(evidence: RequestEvidence, records: Records) -> Shown:
    record, seq = evidence.published_request_record, evidence.published_request_seq.astype(np.int64, copy=False)
    content = evidence.published_request_content
    earlier = (record[1:] < record[:-1]) | ((record[1:] == record[:-1]) & (seq[1:] < seq[:-1]))
    if earlier.any():
        order = np.lexsort((seq, record))  # stable: the elements of a row stay in their order
        record, seq, content = record[order], seq[order], content[order]
    new = (np.diff(record, prepend=record[:1]) != 0) | (np.diff(seq, prepend=seq[:1]) != 0)
    return Shown(record=find(records.key, record), seq=seq, content=content, row=np.cumsum(new))


def find_held_cells(bounds: Float, cell_m: float) -> Float:
    """First and behind-last whole cell inside each cloak: float64[c, 4], so that NaN holds nothing."""
    low, high = bounds[:, :2] / cell_m, bounds[:, 2:] / cell_m
    return np.concatenate((np.ceil(low - TOLERANCE_CELLS), np.floor(high + TOLERANCE_CELLS)), axis=1)
