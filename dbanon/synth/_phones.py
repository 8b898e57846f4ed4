"""Turns movement into phone records: where a network sees phones, and only when people call or write.

Calls and messages come in bursts, many by day and few at night, and each is placed at the tower nearest to the phone.
Like journeys, records depend on nothing but the seed and the number of their object.
"""

import numpy as np
from scipy.spatial import cKDTree

from dbanon.synth._journeys import Fixes, Float, Int, hash_uniform
from dbanon.synth._network import Network
from dbanon.synth._requests import draw_poisson

BURSTS_BY_HOUR = (1, 1, 0.5, 0.5, 0.5, 1, 4, 12, 16, 16, 16, 18, 20, 18, 16, 16, 18, 22, 24, 22, 18, 12, 6, 3)
"""How many bursts begin in each hour of the day (UTC), in proportion."""

MEAN_BURST_CALLS = 3.0
"""Mean number of calls and messages in a burst, one an instant."""

LONGEST_BURST_CALLS = 300

TOWER_SPACING_M = 700.0
"""About how far a tower is from the next."""

_BURSTS, _MOMENT, _SIZE, _TOWER, _ = range(2**61, 2**61 + 5)  # no object has such a number


def make_phone_records(
    fixes: Fixes,
    network: Network,
    seed: int,
    *,
    stations: Float,
    start_s: int,
    step_s: int,
    instants: int,
    per_day: float,
) -> Fixes:
    """Keep the fixes at which an object calls or writes, each moved to the nearest tower.

    Parameters
    ----------
    fixes : Fixes
        Every object at every instant at which it is there.
    network : Network
        Towers cover its bounding box.
    stations : float64[s, 2]
        Base stations of the network, which are its towers unless there are none.
    start_s, step_s, instants : int
        When fixes were recorded.
    per_day : float
        Mean number of calls and messages in 24 hours.

    Returns
    -------
    Fixes
        At least one of every object, at an instant at which it is there.
    """
    activity = np.array(BURSTS_BY_HOUR) / np.mean(BURSTS_BY_HOUR)
    reach = np.cumsum(activity[(start_s + step_s * np.arange(instants)) // 3600 % 24])
    mean = per_day / MEAN_BURST_CALLS * reach[-1] * step_s / 86_400
    count = draw_poisson(hash_uniform(seed, np.full(len(fixes.number), _BURSTS), fixes.number), mean)
    row = np.repeat(np.arange(len(count)), count)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    moment, size = (_draw_uniform(seed, purpose, fixes.number[row], nth) for purpose in (_MOMENT, _SIZE))
    begin = np.searchsorted(reach, moment * reach[-1], side="right")
    # Geometric, so that most bursts are short and some are long.
    length = 1 + np.floor(np.log1p(-size) / np.log1p(-1 / MEAN_BURST_CALLS)).astype(np.int64).clip(
        0, LONGEST_BURST_CALLS - 1
    )
    own = np.repeat(np.arange(len(row)), length)
    at = begin[own] + np.arange(len(own)) - np.repeat(np.cumsum(length) - length, length)
    # Fixes of an object are of successive instants: what is before its first, or after its last, is not recorded.
    early = np.round((fixes.xym[fixes.offset[:-1], 2] - start_s) / step_s).astype(np.int64)
    place = at - early[row[own]]
    there = (place >= 0) & (place < np.diff(fixes.offset)[row[own]])
    chosen = np.unique(
        np.concatenate([fixes.offset[row[own]][there] + place[there], _find_first_fixes(fixes, row[own][there])])
    )
    xym = fixes.xym[chosen].copy()
    at = xym[:, :2]
    xym[:, :2] = stations[cKDTree(stations).query(at)[1]] if len(stations) else find_nearest_towers(network, seed, at)
    return Fixes(fixes.number, fixes.kind, np.searchsorted(chosen, fixes.offset), xym)


def _find_first_fixes(fixes: Fixes, row: Int) -> Int:
    """Find the first fix of each object that is in no row."""
    silent = np.ones(len(fixes.number), bool)
    silent[row] = False
    return fixes.offset[:-1][silent]


def find_nearest_towers(network: Network, seed: int, at: Float) -> Float:
    """Find the tower nearest to each position: one in each square of a grid, somewhere in it."""
    middle_x, middle_y, half_x, half_y = network.extent
    low = np.array([middle_x - half_x, middle_y - half_y])
    square = np.floor((at - low) / TOWER_SPACING_M).astype(np.int64)
    best, nearest = np.full(len(at), np.inf), at.copy()
    for right in range(-2, 3):
        for up in range(-2, 3):
            near = square + np.array([right, up])
            parts = [_draw_uniform(seed, _TOWER + axis, near[:, 0] + 2**31, near[:, 1] + 2**31) for axis in (0, 1)]
            tower = low + (near + np.stack(parts, axis=1)) * TOWER_SPACING_M
            away = ((tower - at) ** 2).sum(axis=1)
            nearer = away < best
            best[nearer], nearest[nearer] = away[nearer], tower[nearer]
    return nearest


def _draw_uniform(seed: int, purpose: int, number: Int, nth: Int) -> Float:
    return hash_uniform(seed, np.full(len(number), purpose), number, nth)
