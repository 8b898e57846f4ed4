"""Compiled loops of the replay: the fixes of some subjects, the windows they reach, and positions at instants."""

from typing import NamedTuple

import numpy as np

from dbanon.attacks.shared.replay import Sighting, Timetable
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Float, Int


class Fixes(NamedTuple):
    """The fixes of some subjects, by subject and time."""

    subject: Int  # [s]: codes
    first: Int  # [s + 1]: those of subject i are ``[first[i], first[i + 1])``
    trajectory: Int  # [n]: index of the trajectory of each
    slot: Int  # [n]
    x: Float  # [n]
    y: Float  # [n]


class Served(NamedTuple):
    """The windows that each fix is the first of its subject's to serve."""

    window: Int  # [n]: the first of them
    number: Int  # [n]: how many, which may be 0


@compile_kernel
def gather_fixes(
    chosen: Int, subject: Int, offset: Int, t: Float, x: Float, y: Float
) -> tuple[Int, Int, Int, Float, Float, Float, bool]:
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
        shift = offset[i] - offset[i] % len(t)  # 0 where each fix has a time of its own
        for f in range(offset[i], offset[i + 1]):
            ordered &= at == first[person] or t[f - shift] >= time[at - 1]
            trajectory[at], time[at], east[at], north[at] = i, t[f - shift], x[f], y[f]
            at += 1
    return who, first, trajectory, time, east, north, ordered


@compile_kernel
def find_windows(fixes: Fixes, times: Timetable, gap: int) -> Served:
    """For each fix find the windows it can serve and no earlier fix of its subject can."""
    first, slot, begin, step = fixes.first, fixes.slot, times.first, times.step
    window, number = np.zeros(len(slot), np.int64), np.zeros(len(slot), np.int64)
    for person in range(len(first) - 1):
        reached = 0  # the windows before it are given to fixes before
        for f in range(first[person], first[person + 1]):
            # The first instant not before the fix (rounded up), and the last one within `gap` of it: what it may serve.
            low = max(-((begin - slot[f]) // step), 0)
            high = min((slot[f] + gap - begin) // step, times.count - 1)
            if low <= high:
                window[f] = max(low // times.length, reached)
                number[f] = max(high // times.length - window[f] + 1, 0)
                reached = max(reached, high // times.length + 1)
    return Served(window, number)


@compile_kernel
def find_positions(
    low: int, high: int, fixes: Fixes, served: Served, times: Timetable, gap: int, is_linear: bool
) -> Sighting:
    """Find positions in the windows that the fixes from `low` to before `high` serve.

    They are of the last fix, up to `gap` old at the instant, or on the line between two fixes not further apart.
    """
    subject, first, trajectory, slot, x, y = fixes
    sighting = _make_room(low, high, served, times)
    who, window, inside, there, east, north, before, _ = sighting
    after = before.copy() if is_linear else before
    person, pair = 0, 0
    # Kept true: `person` is whose fix f is, and the pairs before `pair` are those of the fixes before.
    for f in range(low, high):
        while f >= first[person + 1]:
            person += 1
        for w in range(served.window[f], served.window[f] + served.number[f]):
            who[pair], window[pair], last = subject[person], w, f
            for place in range(min(times.length, times.count - w * times.length)):
                at = times.first + (w * times.length + place) * times.step
                last = _move_on(slot, last, first[person], first[person + 1], at)
                inside[pair, place] = True
                if last < first[person]:
                    continue
                ahead, since = last + 1, at - slot[last]
                east[pair, place], north[pair, place] = x[last], y[last]
                before[pair, place] = after[pair, place] = trajectory[last]
                there[pair, place] = since == 0 if is_linear else since <= gap
                # The next fix comes after the instant, so the two are in two slots.
                if is_linear and since > 0 and ahead < first[person + 1]:
                    apart = slot[ahead] - slot[last]
                    if apart <= gap:
                        share = since / apart
                        east[pair, place] += (x[ahead] - x[last]) * share
                        north[pair, place] += (y[ahead] - y[last]) * share
                        after[pair, place] = trajectory[ahead]
                        there[pair, place] = True
            pair += 1
    return Sighting(who, window, inside, there, east, north, before, after)


@compile_kernel
def _make_room(low: int, high: int, served: Served, times: Timetable) -> Sighting:
    """Make room for the windows that some fixes serve; nobody is anywhere yet. `before` is `after`, too."""
    pairs = 0
    for f in range(low, high):
        pairs += served.number[f]
    shape = (pairs, times.length)
    subject, of, before = np.empty(pairs, np.int64), np.empty(pairs, np.int64), np.zeros(shape, np.int64)
    inside, there, x, y = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_), np.zeros(shape), np.zeros(shape)
    return Sighting(subject, of, inside, there, x, y, before, before)


@compile_kernel
def _move_on(slot: Int, last: int, begin: int, end: int, at: int) -> int:
    """Find a subject's last fix not after an instant, from the one before on: before `begin` if there is none."""
    while last >= begin and slot[last] > at:
        last -= 1
    while last + 1 < end and slot[last + 1] <= at:
        last += 1
    return last
