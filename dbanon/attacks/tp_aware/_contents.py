"""Counts contents: those of each row and record, and those that point to few people, which publishing reports."""

from typing import NamedTuple

import numpy as np

from dbanon.attacks.shared.keys import find, sort_distinct
from dbanon.attacks.shared.replay import cut_slices, join_ranges
from dbanon.base.trajectory import Int

_MEMBERS_PER_PART = 1 << 22
_LEAST_WINDOWS = 3
_MAX_CHANCE = 0.02  # so that contents sent at random count in at most 1 in 100 (benchmarks/returning.py)


class Front(NamedTuple):
    """A content with fewer than k people in front."""

    chance: float  # at most how many people chance would take there
    windows: int  # with the content
    greatest: int  # in so many of these one person is in a group with it
    people: int  # in so many


def count_distinct(of: Int, what: Int, count: int = 0) -> Int:
    """Count the distinct values of `what`, -1 or more, that go with each of ``0, 1, ...``: `count` or more of these."""
    base = int(what.max(initial=-1)) + 2
    return np.bincount(sort_distinct(of * base + what + 1) // base, minlength=count)


def find_fronts(
    content: Int, record: Int, window: Int, member_record: Int, member_subject: Int, *, k: int,
    absent: tuple[Int, Int, Int] | None = None,
) -> list[Front]:  # fmt: skip
    """Find the contents of three windows or more that fewer than k people met as often as anyone.

    Parameters
    ----------
    content, record : int64[q]
        Published contents, and the records they are in.
    window : int64[n]
        Of each record.
    member_record, member_subject : int64[m]
        Distinct pairs.
    absent : three int64[], optional
        Contents, records and subjects: guests of the record who were not there when the content was sent.

    Notes
    -----
    In a window, the members of all records with the content may have sent it: O(those, over all contents) time. That
    nobody met it in all windows is no safety, since another person may have sent it in one.
    """
    from scipy.special import bdtrc  # slow to import

    if not len(content):
        return []
    stated = sort_distinct(content * len(window) + record)
    windows, codes = int(window.max()) + 1, int(member_subject.max(initial=0)) + 1
    away = np.empty(0, np.int64)
    if absent is not None:
        away = sort_distinct(find(stated, absent[0] * len(window) + absent[1]) * codes + absent[2])
    content, record = np.divmod(stated, len(window))
    seen, at = np.divmod(sort_distinct(content * windows + window[record]), windows)
    seen, code, number = np.unique(seen, return_inverse=True, return_counts=True)
    present = np.bincount(code, weights=np.bincount(window[member_record], minlength=windows)[at])
    returning = number >= _LEAST_WINDOWS
    repeated = np.isin(content, seen[returning])
    number, present = number[returning], present[returning]
    content, record = np.unique(content[repeated], return_inverse=True)[1], record[repeated]
    place = np.flatnonzero(repeated)  # among all that is stated
    by_record = np.argsort(member_record, kind="stable")
    begin = np.searchsorted(member_record[by_record], np.arange(len(window) + 1))
    size, fronts = np.diff(begin)[record], list[Front]()
    first = np.searchsorted(content, np.arange(len(number) + 1))
    for low, high in cut_slices(np.add.reduceat(size, first[:-1]) if len(number) else number, _MEMBERS_PER_PART):
        part = slice(first[low], first[high])
        subject = member_subject[by_record[join_ranges(begin[record[part]], size[part])]]
        # Triples of content, subject and window: a subject met a content in as many windows as there are triples.
        key = np.repeat(content[part] - low, size[part]) * codes + subject
        key = key * windows + np.repeat(window[record[part]], size[part])
        if len(away):
            key = key[find(away, np.repeat(place[part], size[part]) * codes + subject) < 0]
        key = sort_distinct(key) // windows
        pair, often = np.unique(key, return_counts=True)
        of, greatest = pair // codes, np.zeros(high - low, np.int64)
        np.maximum.at(greatest, of, often)
        people = np.bincount(of[often == greatest[of]], minlength=high - low)
        met = np.bincount(of, weights=often, minlength=high - low)
        few = np.flatnonzero(people < k)
        seen_in, there = number[low + few], present[low + few]
        # Members drawn anew: a person of an average window is in one of its groups with this share. Where windows
        # differ the binomial tail is an upper bound (Hoeffding, On the distribution of the number of successes, 1956).
        chance = there / seen_in * bdtrc(greatest[few] - 1, seen_in, met[few] / there)
        fronts += map(Front, *(of_few.tolist() for of_few in (chance, seen_in, greatest[few], people[few])))
    return [front for front in fronts if front.chance <= _MAX_CHANCE]
