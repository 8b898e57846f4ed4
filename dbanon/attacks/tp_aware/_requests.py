"""Compares the requests that members sent with those that are published, and counts those that point to few people."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.attacks.shared.keys import find, sort_distinct
from dbanon.attacks.shared.replay import Timetable, join_ranges
from dbanon.attacks.shared.run_statements import is_in_own_time
from dbanon.attacks.tp_aware import _contents
from dbanon.attacks.tp_aware._run_statements import Rules
from dbanon.attacks.tp_aware._stored import Members, Records, Shown, count_rows
from dbanon.attacks.tp_aware.evidence import RequestEvidence
from dbanon.base import cores
from dbanon.base.trajectory import Int

_REQUESTS_PER_PART = 1 << 18  # requests looked at together


@dataclass(frozen=True, kw_only=True)
class Requests:
    """Published requests no member sent, requests of members not published, and requests left out by reason."""

    unsent: int
    missing: int
    left_out: Mapping[str, int]


def select_own_requests(evidence: RequestEvidence) -> RequestEvidence:
    """Leave out the requests beyond the run's own time: another evening's point to nobody in this one."""
    own = is_in_own_time(evidence.request_t, evidence.trajectories, evidence.params)
    if own.all():
        return evidence
    subject, t, content = evidence.request_subject[own], evidence.request_t[own], evidence.request_content[own]
    return replace(evidence, request_subject=subject, request_t=t, request_content=content)


def compare_requests(
    evidence: RequestEvidence, rules: Rules, records: Records, members: Members, shown: Shown
) -> Requests:
    instant = rules.timetable.find_instant(evidence.request_t)
    request, record, place = _find_addressed_rows(evidence.request_subject, instant, rules.timetable, records, members)
    addressed, here = len(sort_distinct(request)), place >= 0
    if not here.all():
        request, record, place = request[here], record[here], place[here]
    content = evidence.request_content[request]
    # Contents are counted by record: where they are too few, the record loses the requests of all its members.
    few = np.zeros(len(request), dtype=bool)
    if rules.min_contents > 1:
        few = _contents.count_distinct(record.astype(np.int64), content)[record] < rules.min_contents
    left_out = {
        "outside_windows": int((instant < 0).sum()),
        "sender_not_published": int((instant >= 0).sum()) - addressed,
        "sender_absent": addressed - len(sort_distinct(request)),
        "bundle_below_min_contents": len(sort_distinct(request[few])),
    }
    del request, instant  # as long as the requests, as is each of what follows
    # Sets of (record, row, content): what members sent, and what is published.
    place += 1
    sent, published = _number_keys((record, place, content), (shown.record, shown.seq, shown.content))
    del record, place, content
    all_sent = sort_distinct(sent)
    due = all_sent if not few.any() else sort_distinct(sent[~few])
    del sent
    return Requests(
        unsent=_count_lacking(published, all_sent),
        missing=_count_lacking(due, sort_distinct(published)),
        left_out=left_out,
    )


def _find_addressed_rows(
    subject: Int, instant: Int, timetable: Timetable, records: Records, members: Members
) -> list[NDArray[Any]]:
    """Find the rows that requests belong in: three int32[m], see `_passes.find_addressed_rows`."""
    from dbanon.attacks.tp_aware import _passes  # Numba is slow to import

    first = np.searchsorted(members.subject, np.arange(int(members.subject.max(initial=-1)) + 2))

    def find_part(low: int) -> list[NDArray[Any]]:
        at = instant[low : low + _REQUESTS_PER_PART]
        window, place = np.divmod(at, timetable.length)  # -1 // length is -1
        sent = _passes.Sent(subject[low : low + _REQUESTS_PER_PART], window, place)
        part = _passes.find_addressed_rows(sent, members, first, timetable.windows, records)
        part[0] += low
        return [column.astype(np.int32) for column in part]  # each goes by itself

    parts = [[*np.empty((3, 0), np.int32)], *cores.map_each(find_part, range(0, len(subject), _REQUESTS_PER_PART))]
    return [np.concatenate([part.pop(0) for part in parts]) for _ in range(3)]


def _count_lacking(keys: Int, known: Int) -> int:
    """Count the keys that are not among the known ones, which are sorted."""
    return int((find(known, keys) < 0).sum()) if len(known) else len(keys)


def _number_keys(sent: tuple[Int, Int, Int], shown: tuple[Int, Int, Int]) -> tuple[Int, Int]:
    """Number rows of two tables of integers, -1 or more, so that equal ones have one number."""
    seqs, contents = (2 + max(int(table[i].max(initial=0)) for table in (sent, shown)) for i in (1, 2))
    records = 2 + max(int(table[0].max(initial=0)) for table in (sent, shown))
    least = min(int(column.min(initial=-1)) for table in (sent, shown) for column in table)
    if least == -1 and records * seqs * contents < 1 << 62:
        first, second = (_pack_keys(*table, seqs, contents) for table in (sent, shown))
        return first, second
    # Numbers that a change of the stored rows has made very large, or small.
    columns = [np.concatenate(column) for column in zip(sent, shown, strict=True)]
    code = np.unique(np.stack(columns), axis=1, return_inverse=True)[1].ravel()
    return code[: len(sent[0])], code[len(sent[0]) :]


def _pack_keys(record: Int, seq: Int, content: Int, seqs: int, contents: int) -> Int:
    key = record.astype(np.int64)
    key += 1
    key *= seqs
    key += seq
    key += 1
    key *= contents
    key += content
    key += 1
    return key


def count_poor_rows(shown: Shown, least: int) -> int:
    """Count rows with requests of fewer distinct contents than `least`."""
    return int((_contents.count_distinct(shown.row, shown.content) < least).sum()) if least > 1 else 0


def count_unordered_requests(shown: Shown) -> int:
    """Count requests that do not come strictly after the one before them in their row."""
    return int(((np.diff(shown.row) == 0) & (np.diff(shown.content) <= 0)).sum())


def count_rare_contents(
    evidence: RequestEvidence, records: Records, members: Members, shown: Shown, k: int
) -> dict[str, int | float]:
    """Count published contents that point to few people by themselves."""
    published = int(shown.content.max(initial=-1)) + 1
    senders = _contents.count_distinct(evidence.request_content, evidence.request_subject, published)
    senders = senders[sort_distinct(shown.content)]
    known = (shown.record >= 0) & (records.window[shown.record] >= 0)
    seen = shown.content[known], shown.record[known]
    absent = _find_absent(records, members, *seen, shown.seq[known]) if len(members.said) else None
    fronts = _contents.find_fronts(*seen, records.window, members.record, members.subject, k=k, absent=absent)
    worst = min(fronts, default=_contents.Front(1, 0, 0, 0))
    return {
        "requests_of_one_subject": int((senders == 1).sum()),
        "requests_of_few_subjects": int(((senders > 0) & (senders < k)).sum()),
        "requests_of_few_over_windows": len(fronts),
        "few_over_windows_windows": worst.windows,
        "few_over_windows_greatest": worst.greatest,
        "few_over_windows_people": worst.people,
    }


def _find_absent(records: Records, members: Members, content: Int, record: Int, seq: Int) -> tuple[Int, Int, Int]:
    """List contents, records and guests who were at none of the instants of the rows that show the content there."""
    right = records.sound[record] & (seq >= 1) & (seq <= count_rows(records)[record])
    content, record, row = content[right], record[right], (records.first[record] + seq - 1)[right]
    first, end = (np.searchsorted(records.covering, row, side) - records.begin[record] for side in ("left", "right"))
    own = np.flatnonzero(members.guest >= 0)
    own = own[np.argsort(members.record[own], kind="stable")]
    low, high = (np.searchsorted(members.record[own], record, side) for side in ("left", "right"))
    shown = np.repeat(np.arange(len(row)), high - low)
    entry = own[join_ranges(low, high - low)]
    there = np.pad(np.cumsum(members.said, axis=1), ((0, 0), (1, 0)))
    met = there[members.guest[entry], end[shown]] > there[members.guest[entry], first[shown]]
    triples = np.stack([content[shown], record[shown], members.subject[entry]])
    distinct, place = np.unique(triples, axis=1, return_inverse=True)
    away = np.bincount(place.ravel(), weights=met, minlength=distinct.shape[1]) == 0
    return distinct[0, away], distinct[1, away], distinct[2, away]
