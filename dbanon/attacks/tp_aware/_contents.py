"""Counts contents: those of each row and record, and those that point to few people, which publishing reports."""

import math
from typing import NamedTuple

import numpy as np

from dbanon.attacks.shared.keys import sort_distinct
from dbanon.attacks.shared.replay import cut_slices, join_ranges
from dbanon.base.trajectory import Int

_MEMBERS_PER_PART = 1 << 22
_LEAST_WINDOWS = 3
_MAX_CHANCE = (
    0.02  # of contents that are sent at random fewer than 1 in 100 have a sender in front (benchmarks/returning.py)
)


class Front(NamedTuple):
    """A content with fewer than k people in front: those that were most often in the groups that sent it."""

    chance: float  # at most how many people would be so often, had chance drawn the members
    windows: int  # with the content
    greatest: int  # in so many of these one person is in a group with it
    people: int  # in so many, or one less


def count_distinct(of: Int, what: Int, count: int = 0) -> Int:
    """Count the distinct values of `what`, -1 or more, that go with each of ``0, 1, ...``: `count` or more of these."""
    base = int(what.max(initial=-1)) + 2
    return np.bincount(sort_distinct(of * base + what + 1) // base, minlength=count)


def count_senders(content: Int, subject: Int, published: Int) -> Int:
    """Count the distinct subjects that sent each distinct published content, where any did."""
    number = count_distinct(content, subject, int(published.max(initial=-1)) + 1)[sort_distinct(published)]
    return np.asarray(number[number > 0])


def find_fronts(
    content: Int, record: Int, window: Int, member_record: Int, member_subject: Int, *, k: int
) -> list[Front]:
    """Find the contents of three windows or more that fewer than k people met as often as anyone, or once less.

    Parameters
    ----------
    content, record : int64[q]
        Published contents, and the records they are in.
    window : int64[n]
        Of each record.
    member_record, member_subject : int64[m]
        Distinct pairs.

    Notes
    -----
    In a window, the members of all records with the content may have sent it: O(those, over all contents) time. That
    nobody met it in all windows is no safety, since somebody else may have sent it in one.
    """
    if not len(content):
        return []
    content, record = np.divmod(sort_distinct(content * len(window) + record), len(window))
    windows, codes = int(window.max()) + 1, int(member_subject.max(initial=0)) + 1
    seen, at = np.divmod(sort_distinct(content * windows + window[record]), windows)
    seen, code, number = np.unique(seen, return_inverse=True, return_counts=True)
    present = np.bincount(code, weights=np.bincount(window[member_record], minlength=windows)[at])
    returning = number >= _LEAST_WINDOWS
    repeated = np.isin(content, seen[returning])
    number, present = number[returning], present[returning]
    content, record = np.unique(content[repeated], return_inverse=True)[1], record[repeated]
    by_record = np.argsort(member_record, kind="stable")
    begin = np.searchsorted(member_record[by_record], np.arange(len(window) + 1))
    size, found = np.diff(begin)[record], []
    first = np.searchsorted(content, np.arange(len(number) + 1))
    for low, high in cut_slices(np.add.reduceat(size, first[:-1]) if len(number) else number, _MEMBERS_PER_PART):
        part = slice(first[low], first[high])
        subject = member_subject[by_record[join_ranges(begin[record[part]], size[part])]]
        # Triples of content, subject and window: a subject met a content in as many windows as there are triples.
        key = np.repeat(content[part] - low, size[part]) * codes + subject
        key = sort_distinct(key * windows + np.repeat(window[record[part]], size[part])) // windows
        pair, often = np.unique(key, return_counts=True)
        of, greatest = pair // codes, np.zeros(high - low, np.int64)
        np.maximum.at(greatest, of, often)
        people = np.bincount(of[often >= greatest[of] - 1], minlength=high - low)
        met = np.bincount(of, weights=often, minlength=high - low)
        for i in np.flatnonzero(people < k).tolist():
            chance = _compute_chance(int(number[low + i]), float(present[low + i]), float(met[i]), int(greatest[i]))
            found.append(Front(chance, int(number[low + i]), int(greatest[i]), int(people[i])))
    return [front for front in found if front.chance <= _MAX_CHANCE]


def _compute_chance(windows: int, present: float, met: float, greatest: int) -> float:
    """Bound the people that would be in so many groups, had chance drawn the members of each from those present.

    A person of an average window is in one with the share ``met / present``. For windows that differ the binomial tail
    is an upper bound (Hoeffding, On the distribution of the number of successes in independent trials, 1956).
    """
    share = min(met / present, 1 - 1e-9)
    every = math.lgamma(windows + 1) + windows * math.log1p(-share)
    odds = math.log(share) - math.log1p(-share)
    terms = (every - math.lgamma(i + 1) - math.lgamma(windows - i + 1) + i * odds for i in range(greatest, windows + 1))
    return present / windows * math.fsum(map(math.exp, terms))
