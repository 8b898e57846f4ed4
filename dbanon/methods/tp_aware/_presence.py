"""Whether people are present because they asked for something: then a guest's presence would betray its requests."""

import math

import numpy as np

from dbanon.base.trajectory import Int, Requests, Trajectories
from dbanon.methods.kernels import align
from dbanon.methods.kernels.in_run_time import select_in_run_time
from dbanon.methods.kernels.instants import is_in_own_time, list_instants
from dbanon.methods.tp_aware import Parameters

MAX_RATIO = 2.0
"""Of presence where people asked to their presence elsewhere."""

_MAX_OWN_RATIO, _MAX_FOLLOWING = 4, 0.01  # of a person's own, which at most so many people may exceed
_FEW_TIMES, _MIN_OTHERS = 3, 10  # asked, below which a person may exceed it by chance; not asked, of who is judged
_MIN_POSITIONS = 30  # of both kinds, without which there is no evidence
_SAMPLED_POSITIONS = 1 << 22


def judge(data: Trajectories, params: Parameters, requests: Requests) -> str:
    """Say whether presence is independent of requests; see `dbanon.methods.tp_aware.judge_presence`."""
    data = select_in_run_time("tp-aware", data, params.since, params.until, before_s=params.max_gap_s)
    if not data.fixes:
        return "unknown"
    own, line, whole = (
        is_in_own_time(requests.t, data, params),
        align.merge(data),
        list_instants("tp-aware", data, params),
    )
    subject = requests.subject[own]
    senders = np.flatnonzero(np.isin(line.subject, subject)).astype(np.int32)
    if not whole.count or not len(senders):
        return "unknown"
    # Some senders, evenly spread, so that many people or instants take no longer.
    senders = senders[:: math.ceil(len(senders) * whole.count / _SAMPLED_POSITIONS)]
    present = ~np.isnan(align.compute_positions(line, whole, senders)[0])
    seen = np.logical_or.reduceat(present, np.arange(0, whole.count, params.instants), axis=1)
    # Who is there all the time is no guest, whenever it asks.
    seen &= ~np.logical_and.reduceat(present, np.arange(0, whole.count, params.instants), axis=1)
    seen = np.repeat(seen, params.instants, axis=1)[:, : whole.count]
    kept = np.isin(subject, line.subject[senders])
    sender = np.searchsorted(line.subject[senders], subject[kept])
    slot = np.floor(requests.t[own][kept] / data.grid_s) * data.grid_s - whole.start
    asked, near = np.zeros_like(present), np.zeros((len(senders), whole.count + 1), np.int64)
    # A fix made by a request counts from the first instant after its slot's begin, for max_gap_s.
    first = np.ceil(slot / whole.step_s).astype(np.int64)
    inside = (first >= 0) & (first < whole.count)
    asked[sender[inside], first[inside]] = True
    begin, end = np.ceil((slot - whole.max_gap_s) / whole.step_s), (slot + whole.max_gap_s) // whole.step_s + 1
    for sign, at in ((1, begin), (-1, end)):
        np.add.at(near, (sender, np.clip(at, 0, whole.count).astype(np.int64)), sign)
    here, elsewhere = asked & seen, (np.cumsum(near[:, :-1], axis=1) == 0) & seen
    if min(here.sum(), elsewhere.sum()) < _MIN_POSITIONS:
        return "unknown"
    times, met = here.sum(axis=1), (here & present).sum(axis=1)
    others, there = elsewhere.sum(axis=1), (elsewhere & present).sum(axis=1)
    is_asked = met.sum() * others.sum() > MAX_RATIO * there.sum() * times.sum()
    return "asked" if is_asked or _are_some_following(times, met, others, there) else "on"


def _are_some_following(times: Int, met: Int, others: Int, there: Int) -> bool:
    """Say whether more than a few people are there only to ask, who are lost in the mean of many who are not."""
    judged = (times > 0) & (others >= _MIN_OTHERS)
    times, met, others, there = times[judged], met[judged], others[judged], there[judged]
    following = met * others > _MAX_OWN_RATIO * there * times
    # Of those who asked once or twice, so many are there then though they are as often there at other times.
    few = (times < _FEW_TIMES) & (_MAX_OWN_RATIO * there < others)
    by_chance = (1 - (1 - there[few] / others[few]) ** times[few]).sum()
    return bool(following.sum() > by_chance + 2 * np.sqrt(by_chance) + _MAX_FOLLOWING * len(times))
