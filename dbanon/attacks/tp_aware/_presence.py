"""Whether presence follows requests, so that a guest's instants would tell when it asked."""

import math

import numpy as np

from dbanon.attacks.shared.keys import sort_distinct
from dbanon.attacks.shared.replay import Sighting, map_sightings, number_slots
from dbanon.attacks.tp_aware._run_statements import Rules
from dbanon.attacks.tp_aware.evidence import RequestEvidence
from dbanon.base.trajectory import Float

# Of many people the attack draws others than the method. Its limits are wider, so that chance refuses nothing.
_MAX_RATIO, _MAX_OWN_RATIO, _MAX_FOLLOWING = 2.5, 4, 0.02
_MIN_OTHERS, _ONCE_OR_TWICE, _FEW = 10, 2, 3
_DEVIATIONS = 3  # of counts of chance
_SAMPLED_POSITIONS = 1 << 22


def is_following(evidence: RequestEvidence, rules: Rules) -> bool:
    """Say whether senders who are not always there are mostly there when they ask."""
    counts = _count_by_sender(evidence, rules)
    asked, met, others, there = counts.sum(axis=1)
    if others and met > _FEW + _add_chance(_MAX_RATIO * asked * there / others):
        return True
    asked, met, others, there = counts[:, (counts[0] > 0) & (counts[2] >= _MIN_OTHERS)]
    share = there / others
    following = (met > _MAX_OWN_RATIO * share * asked).sum()
    by_chance = np.where((asked <= _ONCE_OR_TWICE) & (share < 1 / _MAX_OWN_RATIO), 1 - (1 - share) ** asked, 0).sum()
    return bool(following > 1 and following > _add_chance(by_chance) + _MAX_FOLLOWING * len(asked))


def _add_chance(mean: float) -> float:
    return float(mean + _DEVIATIONS * np.sqrt(mean))


def _count_by_sender(evidence: RequestEvidence, rules: Rules) -> Float:
    """Count instants of each sender, in windows in which it is there at some: float64[4, senders].

    Of those at which it had just asked, and of those further than `max_gap_s` from all its requests: all, and those at
    which it is there.
    """
    data, timetable = evidence.trajectories, rules.timetable
    length, step, gap = timetable.length, timetable.step, rules.max_gap_s // data.grid_s
    senders = np.intersect1d(evidence.request_subject, data.subject)
    senders = senders[:: max(1, math.ceil(len(senders) * timetable.count / _SAMPLED_POSITIONS))]
    # One key of the sender and the slot; slots that are near no instant are left out.
    slot = number_slots(evidence.request_t, data.grid_s) - timetable.first + gap + step
    width = timetable.windows * length * step + 2 * (gap + step)
    kept = np.isin(evidence.request_subject, senders) & (slot >= 0) & (slot < width)
    key = sort_distinct(evidence.request_subject[kept] * width + slot[kept])

    def look(sighting: Sighting) -> Float:
        some = np.flatnonzero(sighting.seen & ~sighting.present & np.isin(sighting.subject, senders))
        subject, inside, there = sighting.subject[some], sighting.inside[some], sighting.there[some]
        instant = sighting.window[some, None] * length + np.arange(length)
        own = subject[:, None] * width + instant * step + gap + step
        just, near = (
            np.searchsorted(key, own + after, "right") > np.searchsorted(key, own - before)
            for before, after in ((step - 1, 0), (gap, gap))
        )
        times, place = (just & inside, ~near & inside), np.searchsorted(senders, subject)
        counts = [kind.sum(axis=1) for time in times for kind in (time, time & there)]
        return np.stack([np.bincount(place, count, len(senders)) for count in counts])

    found = map_sightings(data, timetable, rules.align, rules.max_gap_s, look)
    return sum(found, np.zeros((4, len(senders))))
