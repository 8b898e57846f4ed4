"""Requests joined to finished bundles: a set of contents for each row, and rows joined until sets are large enough."""

import dataclasses
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dbanon.base.cloaks import Cloaks, summarise_sides
from dbanon.base.trajectory import Bool, Int, Requests, Trajectories
from dbanon.methods.kernels.instants import is_in_own_time
from dbanon.methods.parsing import LATEST_S
from dbanon.methods.tp_aware import Parameters

_ROWS_PER_BATCH = 1 << 16  # rows whose sets are Python's lists, or texts, at once


def join(cloaks: Cloaks, data: Trajectories, params: Parameters, requests: Requests) -> Cloaks:
    """Join requests to finished cloaks; see `dbanon.methods.tp_aware.attach`."""
    # Bundles are final: requests fill their rows and never change who is in them, or groups would betray senders
    # (Example 11).
    requests = _select_in_run_time(requests, data, params)
    # Bounds are whole seconds: t < end exactly where floor(t) < end.
    time = np.floor(np.clip(requests.t, -2 * LATEST_S, 2 * LATEST_S)).astype(np.int64)
    record, unsent = _find_records(cloaks, data, params.step_s, requests.subject, time)
    if cloaks.member_start is not None and cloaks.member_end is not None:
        stretches = cloaks.member_start, cloaks.member_end
        absent = _is_absent(cloaks, stretches, data, record, requests.subject, time)
        unsent["sender_absent"] = int(absent.sum())
        record[absent] = 0
    if params.min_contents > 1:
        # A bundle keeps all its requests or none, by a count over all its members, so nothing depends on who of them
        # sent which.
        few = (record > 0) & (_count_distinct(record, requests.content)[record] < params.min_contents)
        unsent["bundle_below_min_contents"] = int(few.sum())
        record[few] = 0
    carried = record > 0
    content = requests.content[carried]
    first_row = cloaks.offset[record[carried] - 1]
    row = first_row + (time[carried] - cloaks.periods[cloaks.period[first_row], 0]) // params.step_s
    if params.min_contents > 1:
        begins = _find_begins(cloaks, row, content, params.min_contents)
        cloaks, row = _join_rows(cloaks, begins), np.cumsum(begins)[row] - 1
    extra, extras = _make_request_sets(cloaks.rows, row, content, requests.contents)
    senders = _count_distinct(requests.content, requests.subject)[np.unique(requests.content[carried])]
    counts = {
        "requests_total": len(time),
        "requests_published": int(carried.sum()),
        "requests_of_one_subject": int((senders == 1).sum()),
        "requests_of_few_subjects": int((senders < params.k).sum()),
    }
    return dataclasses.replace(
        cloaks.replace_extra(extra, extras),
        suppressed={**cloaks.suppressed, "requests": unsent},
        metrics={**cloaks.metrics, **counts},
    )


def _select_in_run_time(requests: Requests, data: Trajectories, params: Parameters) -> Requests:
    """Keep the requests of the run's own time: those of other evenings are not left out of this one."""
    own = is_in_own_time(requests.t, data, params)
    if own.all():
        return requests
    subject, t, content = requests.subject[own], requests.t[own], requests.content[own]
    return dataclasses.replace(requests, subject=subject, t=t, content=content)


def _find_records(cloaks: Cloaks, data: Trajectories, step: int, subject: Int, time: Int) -> tuple[Int, dict[str, int]]:
    """Find the record that carries each request, 0 where none does, and count the latter by reason."""
    span = cloaks.suppressed["windows"]
    window_start = np.array([w["start"] for w in span], np.int64)
    inside = (time >= window_start[0]) & (time < span[-1]["start"] + span[-1]["instants"] * step)
    record = np.zeros(len(time), np.int64)
    record[inside] = _find_window_records(cloaks, data, window_start, subject[inside], time[inside])
    return record, {
        "sender_not_published": int((inside & (record == 0)).sum()),
        "outside_windows": int((~inside).sum()),
    }


def _find_window_records(cloaks: Cloaks, data: Trajectories, window_start: Int, subject: Int, time: Int) -> Int:
    """Find the record that carries each subject in the window of each time; 0 where none does."""
    record_start = cloaks.periods[cloaks.period[cloaks.offset[cloaks.member_record - 1]], 0]
    joined = _split_by_window(np.searchsorted(window_start, record_start), len(window_start))
    asked = _split_by_window(np.searchsorted(window_start, time, side="right") - 1, len(window_start))
    carried = _find_subjects(data, cloaks.member_trajectory)
    record = np.zeros(len(time), np.int64)
    # The record of each subject in one window. The last is of -1, the senders without a trajectory, and stays 0.
    carrier = np.zeros(int(max(carried.max(initial=0), subject.max(initial=0))) + 2, np.int64)
    for members, some in zip(joined, asked, strict=True):
        carrier[carried[members]] = cloaks.member_record[members]
        record[some] = carrier[subject[some]]
        carrier[carried[members]] = 0
    return record


def _is_absent(
    cloaks: Cloaks, stretches: tuple[Int, Int], data: Trajectories, record: Int, subject: Int, time: Int
) -> Bool:
    """Find the requests that a guest of its record sent at an instant without a position: bool[n]."""
    own, codes = stretches[0] < stretches[1], int(data.subject.max()) + 1
    start, end = (side[own] for side in stretches)
    guest, number = np.unique(
        cloaks.member_record[own] * codes + _find_subjects(data, cloaks.member_trajectory[own]), return_inverse=True
    )
    sent = record * codes + subject
    at = np.minimum(np.searchsorted(guest, sent), len(guest) - 1)
    # Stretches by guest and start; bounds are instants, which begin with their slots.
    least = min(int(start.min()), int(time.min(initial=0)))
    span = max(int(end.max()), int(time.max(initial=0))) - least + 1
    order = np.argsort(number * span + (start - least))
    begins = number[order] * span + (start[order] - least)
    last = order[np.maximum(np.searchsorted(begins, at * span + (time - least), side="right") - 1, 0)]
    present = (number[last] == at) & (start[last] <= time) & (time < end[last])
    return np.asarray((record > 0) & (guest[at] == sent) & ~present)


def _split_by_window(window: Int, windows: int) -> list[Int]:
    """List the places of each window."""
    order = np.argsort(window, kind="stable")
    return np.split(order, np.searchsorted(window[order], np.arange(1, windows)))


def _find_subjects(data: Trajectories, trajectory: Int) -> Int:
    """Give the subject of each trajectory id; sorted, since searches at random places take ten times as long."""
    order = np.argsort(trajectory)
    subject = np.empty(len(order), np.int64)
    subject[order] = data.subject[np.searchsorted(data.trajectory_id, trajectory[order])]
    return subject


def _find_begins(cloaks: Cloaks, row: Int, content: Int, least: int) -> Bool:
    """Find the rows that stay, or begin a joined one: bool[c]. Every record with requests has `least` contents or more.

    It depends on what is sent in a record and when, not on who of it sends it.
    """
    begins = np.ones(cloaks.rows, bool)
    record = cloaks.record_id
    for _, own in groupby(_iter_sets(row, content), key=lambda item: record[item[0]]):
        for first, last in _find_stretches(own, least):
            begins[first + 1 : last + 1] = False
    return begins


def _find_stretches(sets: Iterable[tuple[int, list[int]]], least: int) -> list[tuple[int, int]]:
    """Find the first and last rows to join in one record, of its rows that have requests, in order of time."""
    stretches: list[tuple[int, int]] = []
    held: set[int] = set()
    begin = end = -1
    for end, contents in sets:
        # Kept true: `held` are the contents since `begin`, and empty where no stretch is open.
        begin = begin if held else end
        held.update(contents)
        if len(held) >= least:
            stretches.append((begin, end))
            held = set()
    if held:  # a last short stretch joins the one before that has enough, and what is between them
        stretches[-1] = (stretches[-1][0], end)
    return stretches


def _join_rows(cloaks: Cloaks, begins: Bool) -> Cloaks:
    """Join every row that does not begin one to the row before it: periods united, a rectangle around rectangles."""
    first = np.flatnonzero(begins)
    last = np.append(first[1:], cloaks.rows) - 1
    low, high = np.minimum.reduceat(cloaks.bounds[:, :2], first), np.maximum.reduceat(cloaks.bounds[:, 2:], first)
    return Cloaks.from_rows(
        record_id=cloaks.record_id[first],
        start=cloaks.start[first],
        end=cloaks.end[last],
        bounds=np.hstack([low, high]),
        crowd=cloaks.crowd[first],
        subjects=cloaks.subjects[first],
        member_record=cloaks.member_record,
        member_trajectory=cloaks.member_trajectory,
        member_start=cloaks.member_start,
        member_end=cloaks.member_end,
        suppressed=cloaks.suppressed,
        metrics={**cloaks.metrics, **summarise_sides(*(high - low).T)},
    )


def _make_request_sets(rows: int, row: Int, content: Int, contents: tuple[str, ...]) -> tuple[Int, tuple[str, ...]]:
    """Make each row's set of contents as JSON text; -1 where there is none. Equal sets share one text."""
    row, content, offset = _find_distinct_sets(row, content)
    known = pa.array(contents, pa.string())

    def write_block(low: int) -> pa.DictionaryArray:
        at = offset[low : low + _ROWS_PER_BATCH + 1]
        own = known.take(pa.array(content[at[0] : at[-1]]))
        lists = pc.binary_join(pa.ListArray.from_arrays(pa.array(at - at[0], pa.int32()), own), ", ")
        return pc.binary_join_element_wise('{"requests": [', lists, "]}", "").dictionary_encode()

    blocks = [write_block(low) for low in range(0, len(row), _ROWS_PER_BATCH)] or [
        pa.array([], pa.string()).dictionary_encode()
    ]
    sets = pa.chunked_array(blocks).unify_dictionaries()
    extra = np.full(rows, -1, np.int64)
    extra[row] = np.concatenate([chunk.indices for chunk in sets.chunks])
    return extra, tuple(sets.chunk(0).dictionary.to_pylist())


def _iter_sets(row: Int, content: Int) -> Iterator[tuple[int, list[int]]]:
    """List the rows that have requests, each with its distinct contents, sorted."""
    row, content, offset = _find_distinct_sets(row, content)
    for low in range(0, len(row), _ROWS_PER_BATCH):
        places = pairwise(offset[low : low + _ROWS_PER_BATCH + 1].tolist())
        for one, (begin, end) in zip(row[low : low + _ROWS_PER_BATCH].tolist(), places, strict=True):
            yield one, content[begin:end].tolist()


def _find_distinct_sets(row: Int, content: Int) -> tuple[Int, Int, Int]:
    """Find the rows that have requests, their distinct contents, sorted, and where those of each row begin and end."""
    base = int(content.max(initial=0)) + 1
    of, content = np.divmod(_sort_distinct(row * base + content), base)
    first = np.flatnonzero(np.diff(of, prepend=-1))
    return of[first], content, np.append(first, len(of))


def _count_distinct(of: Int, what: Int) -> Int:
    """Count the distinct values of `what`, -1 or more, that go with each ``0, 1, ...`` of `of`."""
    base = int(what.max(initial=-1)) + 2
    return np.bincount(_sort_distinct(of * base + what + 1) // base)


def _sort_distinct(values: Int) -> Int:
    """Sort and keep one of each; `np.unique` hashes first, which takes ten times as long for millions."""
    values = np.sort(values)
    new = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return np.asarray(values[new])
