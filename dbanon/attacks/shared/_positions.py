"""Compiled loops of the replay: the fixes of some subjects, the windows they reach, and positions at instants."""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from typing import Any

import numpy as np

from dbanon.base.kernels import compile_kernel


@compile_kernel
def gather_fixes(chosen: Any, subject: Any, offset: Any, t: Any, x: Any, y: Any) -> Any:
    """Copy the fixes of chosen trajectories, which come by subject.

    Returns
    -------
    who : int64[n]
        The subjects.
    first : int64[n + 1]
        The fixes of subject i are ``[first[i], first[i + 1])``.
    trajectory, time, east, north : [m]
        Of each fix.
    ordered : bool
        Whether the fixes of each subject come by time: where trajectories overlap they may not.
    """
    number, people = 0, 0
    for c in range(len(chosen)):
        number += offset[chosen[c] + 1] - offset[chosen[c]]
        people += c == 0 or subject[chosen[c]] != subject[chosen[c - 1]]
    who, first = np.empty(people, np.int64), np.empty(people + 1, np.int64)
    trajectory, time, east, north = np.empty(number, np.int64), np.empty(number), np.empty(number), np.empty(number)
    first[people] = number
    at, person, ordered = 0, -1, True
    for c in range(len(chosen)):
        i = chosen[c]
        if c == 0 or subject[i] != subject[chosen[c - 1]]:
            person += 1
            who[person], first[person] = subject[i], at
        for f in range(offset[i], offset[i + 1]):
            ordered &= at == first[person] or t[f] >= time[at - 1]
            trajectory[at], time[at], east[at], north[at] = i, t[f], x[f], y[f]
            at += 1
    return who, first, trajectory, time, east, north, ordered


@compile_kernel
def find_windows(first: Any, slot: Any, begin: Any, step: Any, count: Any, length: Any, gap: Any) -> Any:
    """For each fix the windows it can serve and no earlier fix of its subject can: the first, and how many."""
    window, number = np.zeros(len(slot), np.int64), np.zeros(len(slot), np.int64)
    for person in range(len(first) - 1):
        reached = 0  # the windows before it are given to fixes before
        for f in range(first[person], first[person + 1]):
            # The first instant not before the fix (rounded up), and the last one within `gap` of it: what it may serve.
            low = max(-((begin - slot[f]) // step), 0)
            high = min((slot[f] + gap - begin) // step, count - 1)
            if low <= high:
                window[f] = max(low // length, reached)
                number[f] = max(high // length - window[f] + 1, 0)
                reached = max(reached, high // length + 1)
    return window, number


@compile_kernel
def find_positions(  # noqa: C901 - one loop, in which the last fix before an instant only moves on
    low: Any, high: Any, first: Any, slot: Any, x: Any, y: Any, trajectory: Any, window: Any, number: Any,
    begin: Any, step: Any, count: Any, length: Any, gap: Any, linear: Any,
) -> Any:  # fmt: skip
    """Find the positions at all instants of the windows given to the fixes from `low` to before `high`."""
    pairs = 0
    for f in range(low, high):
        pairs += number[f]
    owner, of = np.empty(pairs, np.int64), np.empty(pairs, np.int64)
    inside, there = np.zeros((pairs, length), np.bool_), np.zeros((pairs, length), np.bool_)
    east, north = np.zeros((pairs, length)), np.zeros((pairs, length))
    before = np.zeros((pairs, length), np.int64)
    after = np.zeros((pairs, length), np.int64) if linear else before
    person, pair = 0, 0
    for f in range(low, high):
        while f >= first[person + 1]:
            person += 1
        for w in range(window[f], window[f] + number[f]):
            owner[pair], of[pair] = person, w
            # `last` is the subject's last fix not after the instant; one before its first if there is none.
            last = f
            for place in range(min(length, count - w * length)):
                at = begin + (w * length + place) * step
                while last >= first[person] and slot[last] > at:
                    last -= 1
                while last + 1 < first[person + 1] and slot[last + 1] <= at:
                    last += 1
                inside[pair, place] = True
                if last < first[person]:
                    continue
                ahead, since = last + 1, at - slot[last]
                east[pair, place], north[pair, place] = x[last], y[last]
                before[pair, place] = after[pair, place] = trajectory[last]
                there[pair, place] = since == 0 if linear else since <= gap
                # Between two fixes of one subject, strictly, and no longer apart than `gap`.
                if linear and since > 0 and ahead < first[person + 1]:
                    apart = slot[ahead] - slot[last]
                    if apart <= gap:
                        share = since / apart
                        east[pair, place] += (x[ahead] - x[last]) * share
                        north[pair, place] += (y[ahead] - y[last]) * share
                        after[pair, place] = trajectory[ahead]
                        there[pair, place] = True
            pair += 1
    return owner, of, inside, there, east, north, before, after
