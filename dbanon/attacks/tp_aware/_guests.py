"""Whether guests are those who should be, and boxes no larger than their members need.

Boxes are computed anew: of the full members, as the run's first step has them, whose median area in a window is the
cap; and of all members at the instants at which they are present. They are compared with the stored ones.
"""

import math
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
    """The sound records of each window, and what a guest may cost there.

    Records that lie near one another form parts, with boxes around theirs at each instant: whom none of a part can take
    is mostly seen from these.
    """

    begin: Int  # where the boxes of each record begin, by window and part
    first: Int  # [windows + 1]: the first part of each window
    part: Int  # [parts + 1]: the first record of each part
    around: Int32  # [parts, length, 6]: the box, and the least width and height of a record's
    cap: Float  # [windows]: cells an instant; negative where there is nobody to join


class Misplaced(NamedTuple):
    """How much is wrong with guests."""

    left_out: int  # people whom a record could take
    unwanted: int  # records that guests widen too far, or all that have some where presence follows requests
    loose: int  # rows larger than their members need


def count_misplaced(
    evidence: RequestEvidence, rules: Rules, records: Records, members: Members, feasible: Bool
) -> Misplaced:
    """Compare those left out with the records of their windows, and the rows with their members."""
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
    return Misplaced(near, unwanted, _count_loose(records, boxes, held))


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
    windows, length = rules.timetable.windows, rules.timetable.length
    there = np.flatnonzero(records.sound)
    there = there[np.argsort(records.window[there], kind="stable")]
    bound = np.searchsorted(records.window[there], np.arange(windows + 1))
    begins, parts, around, first = [np.empty(0, np.int64)], [0], [np.empty((0, length, 6), np.int32)], [0]
    cap, count = np.full(windows, -1.0), rules.timetable.count_instants(np.arange(windows))
    for window in range(windows):
        own = records.begin[there[bound[window] : bound[window + 1]]]
        if feasible[window] and len(own):
            each = math.isqrt(len(own)) + 1
            own = _sort_by_place(boxes.full[own], own, each)
            at = np.add.outer(own, np.arange(int(count[window])))
            full = boxes.full[at].astype(np.float64)
            sides = full[..., 2:] - full[..., :2]
            cap[window] = np.median(sides[..., 0] * sides[..., 1])
            heads = np.arange(0, len(own), each)
            around.append(_bound_parts(boxes.everybody[at], heads, length))
            begins.append(own)
            parts += (parts[-1] + np.append(heads[1:], len(own))).tolist()
        first.append(len(parts) - 1)
    return _Halls(np.concatenate(begins), np.array(first), np.array(parts), np.concatenate(around), cap)


def _sort_by_place(box: Int32, values: Int, each: int) -> Int:
    """Sort values of boxes so that about `each` successive ones lie near: by column, from south to north."""
    column = np.empty(len(box), np.int64)
    column[np.argsort(box[:, 0], kind="stable")] = np.arange(len(box)) // (each * math.isqrt(len(box) // each + 1))
    return values[np.lexsort((box[:, 1], column))]


def _bound_parts(box: Int32, heads: Int, length: int) -> Int32:
    """Put boxes around those of each part, ``[r, instants, 4]`` of records of which parts begin at `heads`."""
    around = np.zeros((len(heads), length, 6), np.int32)
    low, side = box[..., :2], box[..., 2:] - box[..., :2]
    for columns, values, least in ((slice(2), low, np.minimum), (slice(2, 4), box[..., 2:], np.maximum),
                                   (slice(4, 6), side, np.minimum)):  # fmt: skip
        around[:, : box.shape[1], columns] = least.reduceat(values, heads, axis=0)
    return around


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
        near = False
        for part in range(halls.first[window], halls.first[window + 1]):
            if near or _measure(halls.around[part], there[p], cells, origin, most) > most:
                continue
            for h in range(halls.part[part], halls.part[part + 1]):
                if not near and _measure(everybody[halls.begin[h] :], there[p], cells, origin, most) <= most:
                    near = True
        found += near
    return found


@compile_kernel
def _measure(box: Int32, there: Bool, cells: Float, origin: Float, most: float) -> float:
    """Count the cells by which boxes at each instant grow; of a part's, by which any grows at least. Ends at `most`."""
    growth, of_part = 0.0, box.shape[1] == 6
    for place in range(len(there)):
        if growth > most:
            break
        if there[place]:
            own, x, y = box[place], cells[0, place] - origin[0], cells[1, place] - origin[1]
            wide = np.float64(own[4] if of_part else own[2] - own[0])
            high = np.float64(own[5] if of_part else own[3] - own[1])
            wider, higher = max(own[0] - x, x + 1 - own[2], 0.0), max(own[1] - y, y + 1 - own[3], 0.0)
            growth += wider * high + wide * higher + wider * higher
    return growth


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
