"""The trajectory- and policy-aware adversary against stored bundles.

It knows every trajectory and the parameters, lays out the windows anew, finds who is where at every instant, and asks
of each stored bundle whether at least k distinct subjects could each have sent every request in it (Definition 2).
Invariant: a verdict passes only if every clause was decided and none is broken.

References
----------
Deutsch, Hull, Vyas, Zhao: Trajectory and Policy Aware Sender Anonymity in Location Based Services, 2012, section 3.1.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.attacks import Verdict
from dbanon.attacks.shared.claims import UndecidableError, considered, decided, hours_misstated, undecided
from dbanon.attacks.shared.keys import distinct, find
from dbanon.attacks.shared.replay import Sighting, Timetable, replay, runs
from dbanon.attacks.tp_aware import _contents
from dbanon.attacks.tp_aware._claims import Rules, Stated, read_rules, read_stated
from dbanon.attacks.tp_aware.evidence import RequestEvidence, read
from dbanon.trajectory import Float, Int

__all__ = ["attack", "read"]

NAME = "tp-aware"
_TOLERANCE = 1e-6  # of a cell

Bool = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class _Records:
    """Rows sorted by (record, seq), and the records they form.

    Attributes
    ----------
    order : int64[c]
        Sorts the evidence's rows.
    key : int64[n]
        Distinct record ids, ascending.
    first : int64[n]
        Index of the first sorted row.
    window : int64[n]
        The window the first row lies in; -1 where there is none.
    sound : bool[n]
        Whether the rows follow one another from the first to the last instant of that window.
    covering : int64[]
        The sorted row that covers each instant, record after record; of those that are not sound, each row once.
    begin : int64[n]
        Index into `covering` of the first instant of each record.
    """

    order: Int
    key: Int
    first: Int
    window: Int
    sound: Bool
    covering: Int
    begin: Int

    def rows_at(self, record: Int, place: Int) -> Int:
        """Find the sorted rows that cover an instant, counted from the first of the window, of sound records."""
        return np.asarray(self.covering[np.minimum(self.begin[record] + place, len(self.covering) - 1)])


@dataclass(frozen=True, kw_only=True)
class _Members:
    """Who is in which record, in distinct subjects.

    Attributes
    ----------
    record, subject : int64[p]
        Distinct pairs (index of the record, code of the subject) sorted by (subject, window) where the window is known.
    key : int64[p]
        ``subject * windows + window``; records without a known window are left out of `record`, `subject` and `key`.
    crowd : int64[n]
        Distinct subjects of each record.
    listed : int64[q]
        Sorted ``record * trajectories + trajectory`` of all known memberships.
    faults : int
        Memberships that are unknown, double, partial, or of no record, and records without any.
    """

    record: Int
    subject: Int
    key: Int
    crowd: Int
    listed: Int
    faults: int

    def of(self, key: Int) -> tuple[Int, Int]:
        """Find, for each key, the entries with it: index of the key, index of the entry."""
        low = np.searchsorted(self.key, key)
        number = np.searchsorted(self.key, key, side="right") - low
        return np.repeat(np.arange(len(key)), number), runs(low, number)


@dataclass(kw_only=True)
class _Watch:
    """What a replay of the data finds; counts by window, and violations."""

    seen: Int
    present: Int
    missed: Int
    presences: int = 0
    unmasked: int = 0
    unlisted: int = 0


def attack(evidence: RequestEvidence) -> Verdict:
    """Decide whether the stored bundles keep their promise.

    Parameters
    ----------
    evidence : RequestEvidence
        The stored rows, the data and the requests of the run.

    Returns
    -------
    Verdict
        With the clause `decidable` alone if the evidence makes no sense.

    Notes
    -----
    O((fixes + subjects x instants) log) time; memory beyond the evidence is that of the rows and members.
    """
    try:
        evidence = considered(evidence, since=False)  # instants begin at `since`, at positions that may be older
        rules = read_rules(evidence)
        stated = read_stated(evidence.suppressed, rules.timetable)
    except UndecidableError as doubt:
        return undecided(NAME, doubt)
    return _decide(evidence, rules, stated)


def _decide(evidence: RequestEvidence, rules: Rules, stated: Stated) -> Verdict:
    records = _records(evidence, rules)
    members = _members(evidence, records, rules.timetable)
    watch = _watch(evidence, rules, records, members)
    published = _published(members, records, rules.timetable)
    requests = _requests(evidence, rules, records, members)
    crowd = np.empty(evidence.rows, dtype=np.int64)
    crowd[records.order] = np.repeat(members.crowd, _rows(records))
    miscounted = (evidence.cloak_crowd != crowd) | (evidence.cloak_subjects != crowd)
    feasible = watch.present >= rules.k
    broken = {
        "decidable": 0,
        "window-shape": int((~records.sound).sum()),
        "rectangle": _misshapen(evidence, rules),
        "crowd-size": int((members.crowd < rules.k).sum()),
        "crowd-count": int(miscounted.sum()),
        "one-bundle": int((np.diff(members.key) == 0).sum()),
        "membership": members.faults + watch.unlisted,
        "masking": watch.unmasked,
        "presence": len(members.key) - watch.presences,
        "completeness": int(watch.missed[feasible].sum()),
        "suppressed": _misstated(stated, watch, published, requests.left_out, rules),
        "requests-sent": requests.unsent,
        "requests-set": _untidy(evidence),
        "requests-few": _too_few(evidence, rules.min_contents),
        "requests-complete": requests.missing,
        "no-other-columns": int((evidence.cloak_other_keys != 0).sum()),
    }
    figures = _figures(evidence, members, watch, published) | _of_few(evidence, records, members, rules.k)
    return decided(NAME, _SENTENCES, broken, figures, rules.k)


# What must hold, and what is counted that breaks it.
_SENTENCES = {
    "decidable": ("Parameters, data and stored rows must make sense together", "contradictions"),
    "window-shape": (
        "The rows of every record must follow one another without gap or overlap from the first to the last instant of "
        "one window, one an instant unless min_contents joins them",
        "records",
    ),
    "rectangle": ("Every region must be one rectangle on the method's grid in the dataset's SRID", "rows"),
    "crowd-size": ("Every record must hide at least k = {k} distinct subjects", "records"),
    "crowd-count": ("The crowd and subjects of every row must be the number of its distinct subjects", "rows"),
    "one-bundle": ("Every subject must be in one record of a window at most", "further memberships"),
    "membership": (
        "Memberships must be of the dataset's trajectories, whole, single, of every record, and name all that supply a "
        "position",
        "memberships or records",
    ),
    "masking": ("Every cloak must hold the cell of every member at each of its instants", "positions"),
    "presence": ("Every member must be present at all instants of its window", "members"),
    "completeness": (
        "Every subject present at all instants of a window must be published unless fewer than k = {k} are",
        "subjects in a window",
    ),
    "suppressed": ("What the run says it left out must be what the data say was left out", "counts"),
    "requests-sent": ("Every published request must have been sent by a member in the period of its row", "requests"),
    "requests-set": (
        "The requests of a row must be a set sorted by content, so that order reveals nothing",
        "requests",
    ),
    "requests-few": ("The requests of a row must have at least min_contents distinct contents, or none", "rows"),
    "requests-complete": (
        "Every request a member sent must be in its row, save where a record's members sent fewer contents in all than "
        "min_contents",
        "requests",
    ),
    "no-other-columns": ("Rows must hold no columns but the method's", "rows"),
}


def _figures(evidence: RequestEvidence, members: _Members, watch: _Watch, published: Int) -> dict[str, int | float]:
    return {
        "records": len(members.crowd),
        "rows": evidence.rows,
        "members": int(members.crowd.sum()),
        "smallest_crowd": int(members.crowd.min()),
        "windows": len(published),
        "windows_published": int((published > 0).sum()),
        "seen": int(watch.seen.sum()),
        "present": int(watch.present.sum()),
        "published": int(published.sum()),
        "suppressed": int(watch.seen.sum() - published.sum()),
        "requests": len(evidence.request_t),
        "request_contents_published": len(evidence.published_request_seq),
    }


def _of_few(evidence: RequestEvidence, records: _Records, members: _Members, k: int) -> dict[str, int | float]:
    """Count published contents that point to few people by themselves."""
    senders = _contents.senders(evidence.request_content, evidence.request_subject, evidence.published_request_content)
    record = find(records.key, evidence.published_request_record)
    known = (record >= 0) & (records.window[record] >= 0)
    shown = evidence.published_request_content[known], record[known]
    common = _contents.common(*shown, records.window, members.record, members.subject)
    return {
        "requests_of_one_subject": int((senders == 1).sum()),
        "requests_of_few_subjects": int((senders < k).sum()),
        "requests_of_few_over_windows": int(((common > 0) & (common < k)).sum()),
    }


# Records and their members, as stored.


def _records(evidence: RequestEvidence, rules: Rules) -> _Records:
    record, seq, timetable = evidence.cloak_record, evidence.cloak_seq, rules.timetable
    order = np.lexsort((seq, record))
    key, first, rows = np.unique(record[order], return_index=True, return_counts=True)
    start_s, end_s = evidence.cloak_start_s[order], evidence.cloak_end_s[order]
    instant = timetable.instant(start_s[first])
    window = np.where(instant < 0, -1, instant // timetable.length)
    # The first row must begin with the window, the others where the one before ends, and the last must end with it.
    due_s = np.append(0.0, end_s[:-1])
    due_s[first] = timetable.start_s(window * timetable.length)
    with np.errstate(invalid="ignore"):
        span = (end_s - start_s) / timetable.step_s
        whole = np.isfinite(span) & (span == np.floor(span)) & (span >= 1)
    place = runs(np.zeros(len(key), dtype=np.int64), rows)
    right = (seq[order] == place + 1) & (start_s == due_s) & whole & ((span == 1) | (rules.min_contents > 1))
    filled = np.add.reduceat(np.where(whole, span, 0), first) == timetable.instants(window)
    sound = np.logical_and.reduceat(right, first) & (window >= 0) & filled
    instants = np.where(np.repeat(sound, rows), span, 1).astype(np.int64)
    return _Records(
        order=order,
        key=key,
        first=first,
        window=window,
        sound=sound,
        covering=np.repeat(np.arange(len(order)), instants),
        begin=(np.cumsum(instants) - instants)[first],
    )


def _rows(records: _Records) -> Int:
    return np.diff(np.append(records.first, len(records.order)))


def _members(evidence: RequestEvidence, records: _Records, timetable: Timetable) -> _Members:
    data = evidence.trajectories
    record = find(records.key, evidence.member_record)
    trajectory = find(data.trajectory_id, evidence.member_trajectory)
    known = (record >= 0) & (trajectory >= 0)
    # The crowd is of distinct subjects: a subject with several trajectories in a record counts once (Definition 2).
    listed = distinct(record[known] * len(data.trajectory_id) + trajectory[known])
    faults = int((~known).sum() + known.sum() - len(listed) + (~evidence.member_whole).sum())
    codes = int(data.subject.max()) + 1
    record, subject = np.divmod(distinct(record[known] * codes + data.subject[trajectory[known]]), codes)
    crowd = np.bincount(record, minlength=len(records.key))
    placed = records.window[record] >= 0
    record, subject = record[placed], subject[placed]
    key = subject * timetable.windows + records.window[record]
    order = np.argsort(key, kind="stable")
    return _Members(
        record=record[order],
        subject=subject[order],
        key=key[order],
        crowd=crowd,
        listed=listed,
        faults=faults + int((crowd == 0).sum()),
    )


def _published(members: _Members, records: _Records, timetable: Timetable) -> Int:
    """Distinct subjects published in each window."""
    return np.bincount(distinct(members.key) % timetable.windows, minlength=timetable.windows)


def _misshapen(evidence: RequestEvidence, rules: Rules) -> int:
    sides = evidence.region_bounds / rules.cell_m
    with np.errstate(invalid="ignore"):
        on_grid = (np.abs(sides - np.rint(sides)) <= _TOLERANCE).all(axis=1)
        positive = (np.rint(sides[:, 2:]) > np.rint(sides[:, :2])).all(axis=1)
    right = evidence.region_rectangle & (evidence.region_srid == evidence.trajectories.srid) & on_grid & positive
    return int((~right[evidence.region]).sum())


# The replay: who is present, who is missed, which cloaks do not hold their members.


def _watch(evidence: RequestEvidence, rules: Rules, records: _Records, members: _Members) -> _Watch:
    windows, data = rules.timetable.windows, evidence.trajectories
    seen, present, missed = np.zeros((3, windows), dtype=np.int64)
    watch = _Watch(seen=seen, present=present, missed=missed)
    held = _held(evidence.cloak_bounds[records.order], rules.cell_m)
    shared = np.bincount(data.subject) > 1
    # Every pair comes once. Of those with a position: seen, present, missed; of members: unmasked, unlisted.
    for sighting in replay(data, rules.timetable, rules.align, rules.max_gap_s):
        pair, member = members.of(sighting.subject * windows + sighting.window)
        whole, published = sighting.present, np.zeros(len(sighting.window), dtype=bool)
        published[pair] = True
        np.add.at(seen, sighting.window[sighting.seen], 1)
        np.add.at(present, sighting.window[whole], 1)
        np.add.at(missed, sighting.window[whole & ~published], 1)
        watch.presences += int(whole[pair].sum())
        record = members.record[member]
        sound = records.sound[record]
        # Beyond the last instant of a shorter window some other row comes, and no position is there.
        row = records.rows_at(record[sound][:, None], np.arange(sighting.inside.shape[1]))
        watch.unmasked += _unmasked(sighting, pair[sound], row, held, rules.cell_m)
        several = shared[sighting.subject[pair]]  # a subject with one trajectory is a member by that one
        watch.unlisted += _unlisted(sighting, pair[several], record[several], members.listed, len(data.trajectory_id))
    return watch


def _held(bounds: Float, cell_m: float) -> Float:
    """First and behind-last whole cell inside each cloak: float64[4, c], so that NaN holds nothing."""
    low, high = bounds[:, :2] / cell_m, bounds[:, 2:] / cell_m
    return np.ascontiguousarray(np.concatenate((np.ceil(low - _TOLERANCE), np.floor(high + _TOLERANCE)), axis=1).T)


def _unmasked(sighting: Sighting, pair: Int, row: Int, held: Float, cell_m: float) -> int:
    inside = np.ones(row.shape, dtype=bool)
    for low, high, position in ((held[0], held[2], sighting.x), (held[1], held[3], sighting.y)):
        # Definition 1, masking: the whole cell of the position lies in the cloak; NaN compares false and is not held.
        cell = np.floor(position[pair] / cell_m)
        inside &= (low[row] <= cell) & (cell + 1 <= high[row])
    return int((sighting.there[pair] & ~inside).sum())


def _unlisted(sighting: Sighting, pair: Int, record: Int, listed: Int, trajectories: int) -> int:
    """Count trajectories that supply a member's position and are not listed with its record."""
    if not len(pair):
        return 0
    supplies = []
    for side in (sighting.before[pair], sighting.after[pair]):
        there = sighting.there[pair]
        there[:, 1:] &= (side[:, 1:] != side[:, :-1]) | ~there[:, :-1]  # who supplies two instants on end counts once
        owner = np.broadcast_to(record[:, None], there.shape)[there]
        supplies.append(owner * trajectories + side[there])
    return int((find(listed, distinct(np.concatenate(supplies))) < 0).sum())


def _misstated(stated: Stated, watch: _Watch, published: Int, left_out: Mapping[str, int], rules: Rules) -> int:
    """Count windows, hours, reasons and requests of which the run says something else than the data do."""
    windows = len(published)
    instants = rules.timetable.instants(np.arange(windows))
    found = np.stack((instants, watch.seen, watch.present, published), axis=1)
    said = np.zeros((windows, 4), dtype=np.int64)
    said[:, 0] = instants  # a window without any seen subject need not be listed
    for window, counts in stated.windows.items():
        said[window] = np.minimum(counts, np.iinfo(np.int64).max)
    absent = int((watch.seen - watch.present).sum())
    below = int(watch.present[watch.present < rules.k].sum())
    reasons = {"absent_at_some_instant": absent, "window_below_k": below}
    names = reasons.keys() | stated.subjects.keys()
    wrong = sum(reasons.get(name, 0) != stated.subjects.get(name) for name in names)
    wrong += hours_misstated(stated.hours, rules.timetable.start_s(np.arange(windows) * rules.timetable.length), {
        "seen": watch.seen,
        "published": published,
        "left_out absent_at_some_instant": watch.seen - watch.present,
        "left_out window_below_k": np.where(watch.present < rules.k, watch.present, 0),
    })  # fmt: skip
    wrong += sum(left_out.get(name, 0) != stated.requests.get(name, 0) for name in left_out.keys() | stated.requests)
    return wrong + int((found != said).any(axis=1).sum())


# Requests: what members sent, and what is published.


@dataclass(frozen=True, kw_only=True)
class _Requests:
    """Published requests no member sent, requests of members not published, and requests left out by reason."""

    unsent: int
    missing: int
    left_out: Mapping[str, int]


def _requests(evidence: RequestEvidence, rules: Rules, records: _Records, members: _Members) -> _Requests:
    subject, timetable = evidence.request_subject, rules.timetable
    instant = timetable.instant(evidence.request_t)
    window = instant // timetable.length
    sender = np.where((subject >= 0) & (instant >= 0), subject * timetable.windows + window, -1)
    request, member = members.of(sender)
    record, content = members.record[member], evidence.request_content[request]
    place = instant[request] % timetable.length
    seq = np.where(records.sound[record], records.rows_at(record, place) - records.first[record], place) + 1
    few = _contents.numbers(record, content)[record] < rules.min_contents
    stored = find(records.key, evidence.published_request_record)
    rows = (stored, evidence.published_request_seq, evidence.published_request_content)
    # Sets of (record, row, content): what members sent, and what is published.
    sent, shown = _codes((record, seq, content), rows)
    return _Requests(
        unsent=int((~np.isin(shown, sent)).sum()),
        missing=len(np.setdiff1d(sent[~few], shown)),
        left_out={
            "outside_windows": int((instant < 0).sum()),
            "sender_not_published": int((instant >= 0).sum()) - len(distinct(request)),
            "bundle_below_min_contents": len(distinct(request[few])),
        },
    )


def _too_few(evidence: RequestEvidence, least: int) -> int:
    """Count rows with requests of fewer distinct contents than `least`."""
    row = _codes((evidence.published_request_record, evidence.published_request_seq))[0]
    number = _contents.numbers(row, evidence.published_request_content)
    return int(((number > 0) & (number < least)).sum())


def _codes(*tables: Iterable[NDArray[Any]]) -> list[Int]:
    """Number the distinct rows of tables of integers, in codes shared by all."""
    columns = [np.concatenate([np.asarray(c, dtype=np.int64) for c in column]) for column in zip(*tables, strict=True)]
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:  # compressed after each column: a product of three could overflow
        distinct, inverse = np.unique(column, return_inverse=True)
        code = np.unique(code * len(distinct) + inverse, return_inverse=True)[1]
    ends = np.cumsum([len(next(iter(table))) for table in tables])[:-1]
    return [np.asarray(part, dtype=np.int64) for part in np.split(code, ends)]


def _untidy(evidence: RequestEvidence) -> int:
    """Count requests that do not come strictly after the one before them in their row."""
    record, seq = evidence.published_request_record, evidence.published_request_seq
    order = np.lexsort((seq, record))  # stable: the elements of a row stay in their order
    same = (np.diff(record[order]) == 0) & (np.diff(seq[order]) == 0)
    return int((same & (np.diff(evidence.published_request_content[order]) <= 0)).sum())
