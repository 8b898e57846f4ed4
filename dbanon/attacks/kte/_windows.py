"""The adversary that knows all that a subject did in some stretch of tau, and looks for records that fit it.

A record fits what is known of a subject in a stretch if each of the subject's published samples in it lies in one of
the record's rows, and each row wholly in it holds one of these. What fits in a stretch fits in every part of it: a row
wholly in the part is wholly in the stretch, so it holds a sample, which lies in the part as the row does. So windows of
tau + leak that begin with an epoch decide for all stretches of tau in them; where fewer than k subjects' records fit
such a window, its stretches are looked at one by one.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dbanon.attacks.kte._rows import Cover, Members, Rows, Samples
from dbanon.attacks.kte._run_statements import Rules
from dbanon.attacks.shared.keys import find
from dbanon.attacks.shared.replay import join_ranges
from dbanon.attacks.shared.run_statements import demand
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Bool, Int

_MAX_WINDOWS = 10_000_000
_MAX_LEAK_SLOTS = 1 << 20


class Timetable(NamedTuple):
    """The windows: each `window` epochs of `leak` slots, the first from the epoch `first` on."""

    first: int  # the first epoch of the first window, counted from 1970
    epochs: int  # to the last one of the last window
    count: int  # type: ignore[assignment]  # number of windows, at least 1; nobody calls the method of tuples
    window: int
    leak: int


class Scene(NamedTuple):
    """What the adversary works with: one record a subject."""

    known: Samples
    covered: Bool  # [m]: whether a sample is published
    stored: Rows  # those of a record are apart in time, and in its order
    record: Int  # [s]: index of the record of each subject; -1 where it has none
    by_first: Int  # [c]: rows by their first slot
    begins: Int  # [c]: first slots of the rows in that order
    longest: int  # slots of the longest row
    rivals: Bool  # [R]: whether it is known whose record it is: only these are counted


@dataclass(frozen=True, kw_only=True, eq=False)
class Speaking:
    """Which subjects have published samples in which windows, each pair once: int64[p], sorted."""

    subject: Int
    window: Int
    key: Int

    def find(self, subject: Int, window: Int, count: int) -> Int:
        """Index of each pair; -1 where it is none."""
        sought = subject * count + window
        return find(self.key, sought) if len(self.key) else np.full(len(sought), -1)


class _Verdicts(NamedTuple):
    """What is found of some subjects, each in a window."""

    subject: Int  # [q]
    begin: Int  # [q]: first slot of the window
    exposed: Bool  # [q]: whether in a stretch with samples fewer than k records fit
    alone: Bool  # [q]: whether in a stretch without any fewer than k records say nothing
    slid: Bool  # [q]: whether the window did not decide, so that its stretches were looked at


@dataclass(frozen=True, kw_only=True, eq=False)
class Hidden:
    """What the adversary finds in all windows."""

    # Whether each pair of `Speaking` has a stretch in which something is published and fewer than k subjects' records
    # fit.
    exposed: Bool  # [p]
    silent: int  # pairs with a stretch of which nothing is published and fewer than k subjects' records say nothing
    # searched, slid: pairs that the records of those whose hiding sets have the subject did not decide, and those that
    # the window did not.
    searched: int
    slid: int
    fewest_silent: int  # the least number of records that say nothing in a window in which any does; 0 if none does


def build_timetable(known: Samples, rules: Rules) -> Timetable:
    """Lay out the windows over the samples and beyond both ends; one for all where it holds all of their epochs."""
    epoch = np.array([known.slot.min(), known.slot.max()]) // rules.leak
    first, epochs = int(epoch[0]), int(epoch[1] - epoch[0]) + 1
    if epochs > rules.window:
        # What is known may lie in the first or the last epoch alone.
        first, epochs = first - rules.window + 1, epochs + 2 * (rules.window - 1)
    count = max(1, epochs - rules.window + 1)
    demand(count <= _MAX_WINDOWS, f"A run must have {_MAX_WINDOWS} windows at most. It has more.")
    demand(
        rules.leak <= _MAX_LEAK_SLOTS,
        f"The run's parameter 'leak_s' must be {_MAX_LEAK_SLOTS} slots at most. It is more.",
    )
    return Timetable(first=first, epochs=epochs, count=count, window=rules.window, leak=rules.leak)


def build_scene(known: Samples, stored: Rows, who: Members, seen: Cover) -> Scene:
    """Give each subject its record: the last of several, which are refused elsewhere."""
    record = np.full(len(known.subject), -1)
    record[who.subject] = who.record
    rivals = np.zeros(len(stored.record_id), bool)
    rivals[record[record >= 0]] = True
    by_first = np.argsort(stored.first, kind="stable")
    return Scene(
        known=known,
        covered=seen.covered,
        stored=stored,
        record=record,
        by_first=by_first,
        begins=stored.first[by_first],
        longest=int((stored.last - stored.first).max(initial=0)) + 1,
        rivals=rivals,
    )


def find_speaking(scene: Scene, times: Timetable) -> Speaking:
    """Find in which windows each subject has published samples."""
    epoch = scene.known.slot[scene.covered] // times.leak - times.first
    owner = scene.known.owner[scene.covered]
    subject, window = _spread(owner, epoch - times.window + 1, epoch, times.count)
    return Speaking(subject=subject, window=window, key=subject * times.count + window)


def _spread(owner: Int, low: Int, high: Int, count: int) -> tuple[Int, Int]:
    """Give the pairs (owner, window) of intervals of windows, each once; `high` must not fall within an owner's."""
    low, high = np.maximum(low, 0), np.minimum(high, count - 1)
    # Begin behind the interval before, of the same owner: what lies in both is given once.
    same = owner[1:] == owner[:-1]
    low[1:] = np.maximum(low[1:], np.where(same, high[:-1] + 1, 0))
    number = np.maximum(high - low + 1, 0)
    return np.repeat(owner, number), join_ranges(low, number)


def count_silent(scene: Scene, times: Timetable) -> Int:
    """Count the records that have no row wholly in each window: int64[count]."""
    begin, end = scene.stored.first // times.leak - times.first, scene.stored.last // times.leak - times.first
    # A row lies wholly in the windows from `end - window + 1` to `begin`: none if it spans more epochs than a window.
    whole = scene.rivals[scene.stored.record] & (begin - end + times.window > 0)
    _, window = _spread(scene.stored.record[whole], end[whole] - times.window + 1, begin[whole], times.count)
    return int(scene.rivals.sum()) - np.bincount(window, minlength=times.count)


def mark_fitting(scene: Scene, subject: Int, record: Int, epoch: Int, length: int, times: Timetable) -> Bool:
    """Say whether each record fits what is known of a subject in `length` epochs from `epoch` on: bool[q]."""
    fits = np.zeros(len(subject), bool)
    begin = (times.first + epoch) * times.leak
    _fit_all(scene, subject, record, begin, begin + length * times.leak, fits)
    return fits


def find_exposed(scene: Scene, speaks: Speaking, fitting: Int, times: Timetable, k: int) -> Hidden:
    """Find the stretches of tau in which fewer than k subjects' records fit what is known of a subject.

    `fitting` (int64[p]): how many other subjects' records are known to fit, of each pair of `speaks`.
    """
    # With the subject's own record, k - 1 others that fit are enough: only where fewer are known, all are searched.
    doubtful = np.flatnonzero(fitting < k - 1)
    number = count_silent(scene, times)
    quiet = int((scene.record >= 0).sum()) - np.bincount(speaks.window, minlength=times.count)
    subject, window = [speaks.subject[doubtful]], [speaks.window[doubtful]]
    # Who says nothing in a window is hidden among those who say nothing in it, wherever in it the stretch lies.
    few = np.flatnonzero((quiet > 0) & (number < k))
    order = np.argsort(speaks.window, kind="stable")
    low, high = (np.searchsorted(speaks.window[order], few, side=side) for side in ("left", "right"))
    for at, begin_at, end_at in zip(few, low, high, strict=True):
        mute = scene.record >= 0
        mute[speaks.subject[order[begin_at:end_at]]] = False
        who = np.flatnonzero(mute)
        subject.append(who)
        window.append(np.full(len(who), at))
    subjects, windows = np.concatenate(subject), np.concatenate(window)
    marks = (np.zeros(len(subjects), bool) for _ in range(3))
    verdicts = _Verdicts(subjects, (times.first + windows) * times.leak, *marks)
    _search(scene, times, k, verdicts)
    exposed = np.zeros(len(speaks.key), bool)
    exposed[doubtful] = verdicts.exposed[: len(doubtful)]
    return Hidden(
        exposed=exposed,
        silent=int(verdicts.alone.sum()),
        searched=len(subjects),
        slid=int(verdicts.slid.sum()),
        fewest_silent=int(number[quiet > 0].min(initial=len(scene.record))) if (quiet > 0).any() else 0,
    )


@compile_kernel
def _fit_all(scene: Scene, subject: Int, record: Int, begin: Int, end: Int, fits: Bool) -> None:
    """Fill `fits`: whether each record fits its subject from `begin` to `end`."""
    for q in range(len(subject)):
        fits[q] = _fit(scene, subject[q], record[q], begin[q], end[q])


@compile_kernel
def _fit(scene: Scene, subject: int, record: int, begin: int, end: int) -> bool:
    """Whether a record fits a subject's samples in the slots from `begin` to before `end`: one pass over both."""
    offset, slot, x, y = scene.known.offset, scene.known.slot, scene.known.x, scene.known.y
    covered, first, last, box = scene.covered, scene.stored.first, scene.stored.last, scene.stored.box
    i_end, row_end = offset[subject + 1], scene.stored.offset[record + 1]
    i = _find_first(slot, offset[subject], i_end, begin)
    row = _find_first(last, scene.stored.offset[record], row_end, begin)
    held = False  # whether `row` holds a sample; all before it that lie in the stretch do
    while i < i_end and slot[i] < end:
        if covered[i]:
            while row < row_end and last[row] < slot[i]:
                # Its time is over. A row that began before the stretch may hold a sample from before it.
                if first[row] >= begin and not held:
                    return False
                row, held = row + 1, False
            if row == row_end or first[row] > slot[i] or not _is_inside(x[i], y[i], box, row):
                return False
            held = True
        i += 1
    # Of the rows left, those that end in the stretch must hold a sample too; one that ends later need not.
    while row < row_end and last[row] < end:
        if first[row] >= begin and not held:
            return False
        row, held = row + 1, False
    return True


@compile_kernel
def _is_inside(x: int, y: int, box: Int, row: int) -> bool:
    return bool(box[row, 0] <= x <= box[row, 2] and box[row, 1] <= y <= box[row, 3])


@compile_kernel
def _find_first(values: Int, low: int, high: int, least: int) -> int:
    """Index of the first of some ascending values that is not less than `least`."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] < least:
            low = middle + 1
        else:
            high = middle
    return low


@compile_kernel
def _search(scene: Scene, times: Timetable, k: int, verdicts: _Verdicts) -> None:
    """Look for k records that fit each window among all, and where there are fewer, at each stretch of tau in it."""
    offset, slot, covered, leak = scene.known.offset, scene.known.slot, scene.covered, times.leak
    met = np.full(len(scene.rivals), -1)  # in which turn each record was looked at last
    turn = 0
    for q in range(len(verdicts.subject)):
        subject = verdicts.subject[q]
        high = offset[subject + 1]
        # Stretch 0 is the whole window. The others last tau, an epoch less: 1 begins with it, each next a slot later.
        for stretch in range(leak + 2):
            begin = verdicts.begin[q] + max(stretch - 1, 0)
            end = begin + times.window * leak - (0 if stretch == 0 else leak)
            i = _find_first(slot, offset[subject], high, begin)
            while i < high and slot[i] < end and not covered[i]:
                i += 1
            speaks = i < high and slot[i] < end
            # One stretch of a kind is enough.
            if stretch > 0 and (verdicts.exposed[q] if speaks else verdicts.alone[q]):
                continue
            if speaks:
                turn += 1
                few = _has_few_fitting(scene, subject, i, begin, end, k, met, turn)
            else:
                few = _has_few_silent(scene, scene.record[subject], begin, end, k)
            # What fits the window fits each stretch of it, so where k records fit the window the stretches are not
            # tried.
            if stretch == 0:
                verdicts.slid[q] = few
                if not few:
                    break
            else:
                verdicts.exposed[q] |= few and speaks
                verdicts.alone[q] |= few and not speaks


@compile_kernel
def _has_few_fitting(scene: Scene, subject: int, i: int, begin: int, end: int, k: int, met: Int, turn: int) -> bool:
    """Whether fewer than k records, with the subject's own, fit it in a stretch of which `i` is the first sample."""
    by_first, begins, record, rivals = scene.by_first, scene.begins, scene.stored.record, scene.rivals
    last, box, slot, x, y = scene.stored.last, scene.stored.box, scene.known.slot[i], scene.known.x[i], scene.known.y[i]
    # What is published of a subject is in its own record, so it has one, which fits.
    met[scene.record[subject]] = turn
    number = 1
    # Whatever fits has a row that holds that sample, which begins at most as long before it as the longest row lasts.
    at = _find_first(begins, 0, len(begins), slot - scene.longest + 1)
    while number < k and at < len(begins) and begins[at] <= slot:
        row = by_first[at]
        other = record[row]
        # A record is asked once a turn, however many of its rows hold the sample.
        if last[row] >= slot and _is_inside(x, y, box, row) and rivals[other] and met[other] != turn:
            met[other] = turn
            number += _fit(scene, subject, other, begin, end)
        at += 1
    return number < k


@compile_kernel
def _has_few_silent(scene: Scene, mine: int, begin: int, end: int, k: int) -> bool:
    """Whether fewer than k records, with the subject's own, have no row wholly in a stretch."""
    rivals, offset, first, last = scene.rivals, scene.stored.offset, scene.stored.first, scene.stored.last
    number = 1
    for other in range(len(rivals)):
        if number >= k:
            break
        if rivals[other] and other != mine:
            row = _find_first(last, offset[other], offset[other + 1], begin)
            # The first row that does not end before the stretch may begin before it; the next one does not.
            while row < offset[other + 1] and first[row] < begin:
                row += 1
            number += not (row < offset[other + 1] and last[row] < end)
    return number < k
