"""Requests joined to finished bundles: a set of contents for each row."""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from dbanon.cloaks import Cloaks
from dbanon.methods._parsing import LATEST_S
from dbanon.methods.tp_aware import Parameters
from dbanon.trajectory import Int, Requests, Trajectories


def join(cloaks: Cloaks, data: Trajectories, params: Parameters, requests: Requests) -> Cloaks:
    """Join requests to finished cloaks; see `dbanon.methods.tp_aware.attach`."""
    span = cloaks.suppressed["windows"]
    # Bounds are whole seconds: t < end exactly where floor(t) < end.
    time = np.floor(np.clip(requests.t, -2 * LATEST_S, 2 * LATEST_S)).astype(np.int64)
    step = params.step_s
    window_start = np.array([w["start"] for w in span], np.int64)
    last = span[-1]["start"] + span[-1]["instants"] * step
    inside = (time >= window_start[0]) & (time < last)
    record = np.zeros(len(time), np.int64)
    record[inside] = _records_of(cloaks, data, window_start, requests.subject[inside], time[inside])
    carried = record > 0
    first_row = cloaks.offset[record[carried] - 1]
    row = first_row + (time[carried] - cloaks.periods[cloaks.period[first_row], 0]) // step
    extra, extras = _request_sets(cloaks.rows, row, requests.content[carried], requests.contents)
    unsent = {"sender_not_published": int((inside & ~carried).sum()), "outside_windows": int((~inside).sum())}
    counts = {
        "requests_total": len(time),
        "requests_published": int(carried.sum()),
        "requests_of_one_subject": _of_one_subject(requests, carried),
    }
    return dataclasses.replace(
        cloaks.with_extra(extra, extras),
        suppressed={**cloaks.suppressed, "requests": unsent},
        metrics={**cloaks.metrics, **counts},
    )


def _records_of(cloaks: Cloaks, data: Trajectories, window_start: Int, subject: Int, time: Int) -> Int:
    """Find the record that carries each subject in the window of each time; 0 where none does."""
    first_row = cloaks.offset[cloaks.member_record - 1]
    record_start = cloaks.periods[cloaks.period[first_row], 0]
    base = int(max(data.subject.max(), subject.max(initial=0))) + 2
    trajectory = np.searchsorted(data.trajectory_id, cloaks.member_trajectory)
    known = np.searchsorted(window_start, record_start) * base + data.subject[trajectory] + 1
    asked = (np.searchsorted(window_start, time, side="right") - 1) * base + subject + 1
    order = np.argsort(known, kind="stable")
    at = np.minimum(np.searchsorted(known[order], asked), len(known) - 1)
    member = order[at]
    return np.where(known[member] == asked, cloaks.member_record[member], 0)


def _request_sets(rows: int, row: Int, content: Int, contents: tuple[str, ...]) -> tuple[Int, tuple[str, ...]]:
    """Make each row's set of contents as JSON text; -1 where there is none. Equal sets share one text."""
    base = max(len(contents), 1)
    row, content = np.divmod(np.unique(row * base + content), base)
    extra = np.full(rows, -1, np.int64)
    first = np.flatnonzero(np.diff(row, prepend=-1))
    texts: dict[str, int] = {}
    for at, own in zip(row[first].tolist(), np.split(content, first[1:]), strict=False):  # no rows: one empty part
        text = '{"requests": [' + ", ".join(contents[c] for c in own.tolist()) + "]}"
        extra[at] = texts.setdefault(text, len(texts))
    return extra, tuple(texts)


def _of_one_subject(requests: Requests, carried: NDArray[np.bool_]) -> int:
    """Count published contents that one subject of the dataset alone ever sends: they identify by themselves."""
    pairs = np.unique(np.stack([requests.content, requests.subject]), axis=1)
    senders = np.bincount(pairs[0], minlength=len(requests.contents))
    return int((senders[np.unique(requests.content[carried])] == 1).sum())
