"""Counts contents: those of each row and record, and those that point to few people, which publishing reports."""

import numpy as np

from dbanon.attacks.shared.keys import sort_distinct
from dbanon.attacks.shared.replay import cut_slices, join_ranges
from dbanon.base.trajectory import Int

_MEMBERS_PER_PART = 1 << 22


def count_distinct(of: Int, what: Int, count: int = 0) -> Int:
    """Count the distinct values of `what`, -1 or more, that go with each of ``0, 1, ...``: `count` or more of these."""
    base = int(what.max(initial=-1)) + 2
    return np.bincount(sort_distinct(of * base + what + 1) // base, minlength=count)


def count_senders(content: Int, subject: Int, published: Int) -> Int:
    """Count the distinct subjects that sent each distinct published content, where any did."""
    number = count_distinct(content, subject, int(published.max(initial=-1)) + 1)[sort_distinct(published)]
    return np.asarray(number[number > 0])


def count_common_senders(content: Int, record: Int, window: Int, member_record: Int, member_subject: Int) -> Int:
    """Count the subjects that may have sent a content in every window it is published in, if one subject did.

    Parameters
    ----------
    content, record : int64[q]
        Published contents, and the records they are in.
    window : int64[n]
        Of each record.
    member_record, member_subject : int64[m]
        Distinct pairs.

    Returns
    -------
    int64[]
        A number for each content that is published in two windows or more.

    Notes
    -----
    In a window, the members of all records with the content may have sent it: O(those, over all contents) time.
    """
    if not len(content):
        return np.empty(0, np.int64)
    content, record = np.divmod(sort_distinct(content * len(window) + record), len(window))
    windows, codes = int(window.max()) + 1, int(member_subject.max(initial=0)) + 1
    seen, number = np.unique(sort_distinct(content * windows + window[record]) // windows, return_counts=True)
    # A content of one window is not intersected with anything: its senders are counted by `count_senders`.
    repeated = np.isin(content, seen[number > 1])
    due = number[number > 1]
    content, record = np.unique(content[repeated], return_inverse=True)[1], record[repeated]
    by_record = np.argsort(member_record, kind="stable")
    begin = np.searchsorted(member_record[by_record], np.arange(len(window) + 1))
    size, left = np.diff(begin)[record], np.zeros(len(due), np.int64)
    first = np.searchsorted(content, np.arange(len(due) + 1))
    for low, high in cut_slices(np.add.reduceat(size, first[:-1]) if len(due) else due, _MEMBERS_PER_PART):
        part = slice(first[low], first[high])
        subject = member_subject[by_record[join_ranges(begin[record[part]], size[part])]]
        # Triples of content, subject and window; a subject that is in all windows of a content may have sent it in all.
        key = np.repeat(content[part] - low, size[part]) * codes + subject
        key = sort_distinct(key * windows + np.repeat(window[record[part]], size[part])) // windows
        pair, often = np.unique(key, return_counts=True)
        of = pair // codes
        left[low:high] = np.bincount(of[often == due[low + of]], minlength=high - low)
    return left
