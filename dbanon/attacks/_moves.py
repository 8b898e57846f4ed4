"""Compiled loops of `dbanon.attacks.together`: the moves that people made, and who made them together."""

from typing import NamedTuple

import numpy as np

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Bool, Float, Int

_LEAST_KNOWN, _NEAR, _MISSED = 15, 1 / 3, 0.1  # stops; share of a move; share of the stops that are known
_HALVINGS = 24  # finds the greatest distance to a millionth of what bounds it


class Paths(NamedTuple):
    """The fixes of some people, by person and time."""

    first: Int  # [n + 1]: those of person i are ``[first[i], first[i + 1])``
    t: Float  # [m]
    x: Float  # [m]
    y: Float  # [m]


class Moves(NamedTuple):
    """The moves of each person."""

    distance: Float  # [n]: how far each was; 0 where the person did not make so many
    stop: Int  # [n, moves]: the fixes at which they ended


@compile_kernel
def find_moves(paths: Paths, moves: int) -> Moves:
    """Find the greatest distance that each person moved on so often (0: never), and the fixes at which moves ended.

    A move ends at the first fix that is so far, or farther, from the one at which the last move ended.
    """
    first, _, x, y = paths
    people = len(first) - 1
    distance, stop, found = np.zeros(people), np.zeros((people, moves), np.int64), np.zeros(moves, np.int64)
    for person in range(people):
        begin, end = first[person], first[person + 1]
        if end - begin <= moves:
            continue
        low, high = 0.0, 0.0
        for f in range(begin, end):
            high = max(high, abs(x[f] - x[begin]) + abs(y[f] - y[begin]))
        high *= 2.1
        # Kept true: the person moved on by `low` so many times, or it is 0; and never by `high`.
        for _ in range(_HALVINGS):
            middle, number, at = (low + high) / 2, 0, begin
            for f in range(begin + 1, end):
                if (x[f] - x[at]) ** 2 + (y[f] - y[at]) ** 2 >= middle * middle > 0:
                    found[number], at = f, f
                    number += 1
                    if number == moves:
                        break
            if number == moves:
                low = middle
                stop[person] = found
            else:
                high = middle
        distance[person] = low
    return Moves(distance, stop)


@compile_kernel
def is_followed(stop: Int, limit: float, paths: Paths, other: int) -> bool:
    """Whether another person is within `limit` at nearly all stops of one.

    A position is known between two fixes: it must be at `_LEAST_KNOWN` stops, and may be away at the share `_MISSED` of
    these.
    """
    first, t, x, y = paths
    begin, end = first[other], first[other + 1]
    known, away = 0, 0
    for at in stop:
        if t[begin] <= t[at] <= t[end - 1]:
            # Kept true: `before` is not after the stop, and `after` is, or the last fix.
            before, after = begin, end - 1
            while after - before > 1:
                middle = (before + after) // 2
                before, after = (middle, after) if t[middle] <= t[at] else (before, middle)
            share = (t[at] - t[before]) / (t[after] - t[before]) if after > before else 0.0
            east, north = x[before] + share * (x[after] - x[before]), y[before] + share * (y[after] - y[before])
            known += 1
            away += (east - x[at]) ** 2 + (north - y[at]) ** 2 > limit * limit
            # Too many, however many of the stops that are left are known.
            if away > _MISSED * len(stop):
                return False
    return known >= _LEAST_KNOWN and away <= _MISSED * known


@compile_kernel
def mark_together(offset: Int, member: Int, paths: Paths, moves: Moves) -> Bool:
    """Mark the people who made their moves with another member of a group within `_NEAR` of a move, and that other."""
    first, distance, stop = paths.first, moves.distance, moves.stop
    marked = np.zeros(len(distance), np.bool_)
    for group in range(len(offset) - 1):
        for leader in member[offset[group] : offset[group + 1]]:
            for other in member[offset[group] : offset[group + 1]]:
                begin, end = first[other], first[other + 1]
                # A pair that is marked already adds nothing, and people without a move or a fix are not compared.
                if leader == other or distance[leader] == 0 or begin == end or (marked[leader] and marked[other]):
                    continue
                if is_followed(stop[leader], _NEAR * distance[leader], paths, other):
                    marked[leader] = marked[other] = True
    return marked
