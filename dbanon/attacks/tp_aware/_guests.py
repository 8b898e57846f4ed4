"""Whether guests are those who should be, and boxes no larger than their members need.

Boxes are computed anew: of the full members, as the run's first step has them, whose median area in a window is the
cap; and of all members at the instants at which they are present. They are compared with the stored ones.
"""

from typing import NamedTuple

import numpy as np

from dbanon.attacks.shared.replay import Sighting, join_ranges, map_sightings, replay
from dbanon.attacks.tp_aware import _presence, _stored
from dbanon.attacks.tp_aware._run_statements import Rules
from dbanon.attacks.tp_aware._stored import Members, Records
from dbanon.attacks.tp_aware.evidence import RequestEvidence
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Bool, Float, Int, Int32

_MAX_DISTANCE = 2**29  # cells from the corner of the full members' boxes, beyond which nobody is a guest
_NOBODY = 2**31 - 1


class _Boxes(NamedTuple):
    """Boxes at each instant of each record, in the order of `Records.covering`; half-open cells counted from `origin`.

    Where nobody is, the least side is `_NOBODY`.
    """

    origin: Float  # [2]
    full: Int32  # [i, 4]: of those who are no guests
    everybody: Int32  # [i, 4]: of those present


class _Halls(NamedTuple):
    """The sound records of each window, and what a guest may cost there."""

    begin: Int  # where the boxes of each record begin, by window
    first: Int  # [windows + 1]
    cap: Float  # [windows]: cells an instant; negative where there is nobody to join


def count_misplaced(
    evidence: RequestEvidence, rules: Rules, records: Records, members: Members, feasible: Bool
) -> tuple[int, int, int]:
    """Count people left out who are not beyond the cap, rows larger than they must be, and records of unwanted guests.

    Notes
    -----
    Those left out are compared with all records of their windows, most of them at one instant alone.
    """
    held = _stored.find_held_cells(evidence.cloak_bounds[records.order], rules.cell_m)
    boxes = _find_boxes(evidence, rules, records, members, held)
    halls = _find_halls(rules, records, boxes, feasible)
    least = boxes.full[:, :2].min(axis=0, initial=_NOBODY) + boxes.origin
    windows, data = rules.timetable.windows, evidence.trajectories

    def look(sighting: Sighting) -> int:
        pair, _ = members.find_entries(sighting.subject * windows + sighting.window)
        out = sighting.seen & ~sighting.present & (halls.cap[sighting.window] >= 0)
        out[pair] = False
        return _count_near(np.flatnonzero(out), sighting, boxes, halls, least, rules.cell_m)

    near = sum(map_sightings(data, rules.timetable, rules.align, rules.max_gap_s, look))
    unwanted = _count_grown(rules, records, members, boxes, halls)
    if (members.guest >= 0).any() and _presence.is_following(evidence, rules):
        unwanted += int((members.subjects > members.crowd).sum())
    return near, _count_loose(records, boxes, held), unwanted


def _find_boxes(evidence: RequestEvidence, rules: Rules, records: Records, members: Members, held: Float) -> _Boxes:
    corners = held[np.isfinite(held).all(axis=1), :2]
    origin = corners.min(axis=0) if len(corners) else np.zeros(2)
    boxes = _Boxes(origin, *(np.full((len(records.covering), 4), _NOBODY, np.int32) for _ in range(2)))
    for side in (boxes.full, boxes.everybody):
        side[:, 2:] = -_NOBODY
    for sighting in replay(evidence.trajectories, rules.timetable, rules.align, rules.max_gap_s):
        pair, member = members.find_entries(sighting.subject * rules.timetable.windows + sighting.window)
        _widen(pair, members.record[member], members.guest[member] < 0, sighting, records, boxes, rules.cell_m)
    return boxes


@compile_kernel
def _widen(
    pair: Int, record: Int, is_full: Bool, sighting: Sighting, records: Records, boxes: _Boxes, cell_m: float
) -> None:
    there, x, y, far = sighting.there, sighting.x, sighting.y, 2.0**30
    sound, begin, origin = records.sound, records.begin, boxes.origin
    for m in range(len(pair)):
        p, r = pair[m], record[m]
        for place in range(there.shape[1] if sound[r] else 0):
            if not there[p, place]:
                continue
            # Who is so far away is in no stored box, either.
            east = np.int32(min(max(np.floor(x[p, place] / cell_m) - origin[0], -far), far))
            north = np.int32(min(max(np.floor(y[p, place] / cell_m) - origin[1], -far), far))
            for box in (boxes.full, boxes.everybody) if is_full[m] else (boxes.everybody, boxes.everybody):
                own = box[begin[r] + place]
                own[0], own[1] = min(own[0], east), min(own[1], north)
                own[2], own[3] = max(own[2], east + 1), max(own[3], north + 1)


def _find_halls(rules: Rules, records: Records, boxes: _Boxes, feasible: Bool) -> _Halls:
    windows = rules.timetable.windows
    there = np.flatnonzero(records.sound)
    record = there[np.argsort(records.window[there], kind="stable")]
    first = np.searchsorted(records.window[record], np.arange(windows + 1))
    begin, cap = records.begin[record], np.full(windows, -1.0)
    count = rules.timetable.count_instants(np.arange(windows))
    for window in np.flatnonzero(feasible & (np.diff(first) > 0)).tolist():
        own = begin[first[window] : first[window + 1]]
        full = boxes.full[np.add.outer(own, np.arange(int(count[window])))].astype(np.float64)
        sides = full[..., 2:] - full[..., :2]
        cap[window] = np.median(sides[..., 0] * sides[..., 1])
    return _Halls(begin, first, cap)


@compile_kernel
def _count_near(out: Int, sighting: Sighting, boxes: _Boxes, halls: _Halls, least: Float, cell_m: float) -> int:
    """Count those who would make a box grow by the cap an instant or less."""
    there, origin, everybody = sighting.there, boxes.origin, boxes.everybody
    cells, found = np.empty((2, there.shape[1])), 0
    for p in out:
        count, known = 0, True
        for place in range(there.shape[1]):
            if there[p, place]:
                cells[0, place] = np.floor(sighting.x[p, place] / cell_m)
                cells[1, place] = np.floor(sighting.y[p, place] / cell_m)
                count += 1
                for axis in range(2):
                    known = known and abs(cells[axis, place] - least[axis]) <= _MAX_DISTANCE
        window = sighting.window[p]
        most = halls.cap[window] * count if known else -1.0
        for h in range(halls.first[window], halls.first[window + 1]):
            begin, growth = halls.begin[h], 0.0
            for place in range(there.shape[1]):
                if growth > most:
                    break
                if there[p, place]:
                    box = everybody[begin + place]
                    x, y = cells[0, place] - origin[0], cells[1, place] - origin[1]
                    wide, high = np.float64(box[2]) - box[0], np.float64(box[3]) - box[1]
                    wider, higher = max(box[0] - x, x + 1 - box[2], 0.0), max(box[1] - y, y + 1 - box[3], 0.0)
                    growth += (wide + wider) * (high + higher) - wide * high
            if growth <= most:
                found += 1
                break
    return found


def _count_loose(records: Records, boxes: _Boxes, held: Float) -> int:
    """Count rows of sound records that reach beyond the cells of those present at their instants."""
    if not len(records.covering):
        return 0
    head = np.flatnonzero(np.diff(records.covering, prepend=-1))
    row = records.covering[head]
    owner = np.repeat(np.arange(len(records.first)), _stored.count_rows(records))[row]
    low = np.minimum.reduceat(boxes.everybody[:, :2], head) + boxes.origin
    high = np.maximum.reduceat(boxes.everybody[:, 2:], head) + boxes.origin
    beyond = (held[row, :2] < low).any(axis=1) | (held[row, 2:] > high).any(axis=1)
    return int((beyond & records.sound[owner]).sum())


def _count_grown(rules: Rules, records: Records, members: Members, boxes: _Boxes, halls: _Halls) -> int:
    """Count sound records whose guests together widen them by more than the cap for each of their instants.

    Each guest grew the boxes that those before it had left, so the whole growth is the sum of theirs.
    """
    guest = np.flatnonzero(members.guest >= 0)
    guest = guest[records.sound[members.record[guest]]]
    instants = np.bincount(
        members.record[guest], members.said[members.guest[guest]].sum(axis=1), minlength=len(records.key)
    )
    record = np.flatnonzero(instants)
    number = rules.timetable.count_instants(records.window[record])
    at, owner = join_ranges(records.begin[record], number), np.repeat(np.arange(len(record)), number)
    areas = [(box[at, 2:].astype(np.float64) - box[at, :2]).prod(axis=1) for box in (boxes.everybody, boxes.full)]
    growth = np.bincount(owner, areas[0] - areas[1], minlength=len(record))
    return int((growth > halls.cap[records.window[record]] * instants[record] * (1 + 1e-9)).sum())
