"""Compiled loops of `dbanon.attacks.together`: the moves that people made, and who made them together."""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from typing import Any

import numpy as np

from dbanon.base.kernels import compile_kernel

_HALVINGS = 24  # finds the greatest distance to a millionth of what bounds it


@compile_kernel
def find_moves(first: Any, x: Any, y: Any, moves: Any) -> Any:
    """Find the greatest distance that each person moved on so often (0: never), and the fixes at which moves ended.

    A move ends at the first fix that is so far, or farther, from the one at which the last move ended.
    """
    people = len(first) - 1
    distance, stop, stops = np.zeros(people), np.zeros((people, moves), np.int64), np.zeros(moves, np.int64)
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
                    stops[number], at = f, f
                    number += 1
                    if number == moves:
                        break
            if number == moves:
                low = middle
                stop[person] = stops
            else:
                high = middle
        distance[person] = low
    return distance, stop


@compile_kernel
def is_followed(stop: Any, limit: Any, begin: Any, end: Any, t: Any, x: Any, y: Any, least: Any, missed: Any) -> Any:
    """Whether the person whose fixes go from `begin` to before `end` is within `limit` at nearly all stops of another.

    A position is known between two fixes: it must be at `least` stops, and may be away at the share `missed` of these.
    """
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
            if away > missed * len(stop):
                return False
    return known >= least and away <= missed * known


@compile_kernel
def mark_together(
    offset: Any, member: Any, first: Any, t: Any, x: Any, y: Any, distance: Any, stop: Any, near: Any, least: Any,
    missed: Any,
) -> Any:  # fmt: skip
    """Mark the people who made their moves with another member of a group within `near` of a move, and that other."""
    marked = np.zeros(len(first) - 1, np.bool_)
    for group in range(len(offset) - 1):
        for leader in member[offset[group] : offset[group + 1]]:
            for other in member[offset[group] : offset[group + 1]]:
                begin, end = first[other], first[other + 1]
                if leader == other or distance[leader] == 0 or begin == end or (marked[leader] and marked[other]):
                    continue
                if is_followed(stop[leader], near * distance[leader], begin, end, t, x, y, least, missed):
                    marked[leader] = marked[other] = True
    return marked
