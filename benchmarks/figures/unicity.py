"""Measures how many people a few places and times of the raw data single out, which no promise covers."""

from collections.abc import Sequence

import numpy as np

from benchmarks.figures.files import Tracks
from dbanon.base.trajectory import Bool, Int
from dbanon.metrics.counts import compute_exact_interval
from dbanon.results.figures import Figure


def measure_unicity(
    tracks: Tracks,
    rng: np.random.Generator,
    *,
    points: Sequence[int] = (1, 2, 3, 4, 5, 6),
    cell_m: float = 1000.0,
    slot_s: float = 3600.0,
    people: int = 1000,
) -> tuple[Figure, ...]:
    """Measure the unicity of the raw data: the share of people that a few of their points single out.

    For each of `people` persons, drawn at random, p distinct points (cell and slot) are drawn; the person is unique if
    no other person was at all of them. ``unicity_p`` is the share of unique people among all with p points, with its
    exact binomial 90 % interval. The p + 1 points of a person are the p points and one more.

    Only rows of drawn points are looked at again, so that memory is for the positions, not for people x points.

    Source: de Montjoye, Hidalgo, Verleysen, Blondel: Unique in the Crowd, Scientific Reports 3, 1376, 2013.
    """
    person, point = _number_points(tracks, cell_m, slot_s)
    persons, first = np.unique(person, return_index=True)
    end = np.append(first[1:], len(person))
    sample = rng.choice(len(persons), min(people, len(persons)), replace=False)
    drawn = [
        point[first[i] + rng.permutation(end[i] - first[i])[: max(points)]] if len(persons) else point for i in sample
    ]
    wanted = np.unique(np.concatenate([np.empty(0, np.int64), *drawn]))
    met = _is_among(point, wanted)
    order = np.argsort(point[met], kind="stable")
    where, who = point[met][order], person[met][order]
    unique = np.array([_count_until_unique(known, where, who) for known in drawn])
    length = np.array([len(known) for known in drawn])
    return tuple(_measure_share(f"unicity_{p}", unique[length >= p] <= p) for p in points)


def _number_points(tracks: Tracks, cell_m: float, slot_s: float) -> tuple[Int, Int]:
    """Number the distinct points of each person, by person: int64[n] persons and points."""
    code = np.zeros(len(tracks.t), np.int64)
    for values, unit in ((tracks.t, slot_s), (tracks.x, cell_m), (tracks.y, cell_m)):
        axis = np.floor(values / unit)
        axis -= axis.min(initial=np.inf) if len(axis) else 0
        size = int(axis.max(initial=0)) + 1
        code = code * size + axis.astype(np.int64)
    order = np.lexsort((code, tracks.person))
    person, code = tracks.person[order], code[order]
    new = np.append(np.ones(min(1, len(code)), np.bool_), (np.diff(person) != 0) | (np.diff(code) != 0))
    return person[new], code[new]


def _is_among(values: Int, ascending: Int) -> Bool:
    """Test which values are in a list; this takes less memory than `numpy.isin`, which sorts all."""
    if not len(ascending):
        return np.zeros(len(values), np.bool_)
    index = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.asarray(ascending[index] == values)


def _count_until_unique(known: Int, where: Int, who: Int) -> float:
    """Count the known points until one person is left; infinite if all do not suffice.

    `where` ascends, with the persons of each point.
    """
    left: Int | None = None
    for p, point in enumerate(known, 1):
        there = who[np.searchsorted(where, point) : np.searchsorted(where, point, side="right")]
        left = there if left is None else left[_is_among(left, there)]
        if len(left) == 1:
            return p
    return np.inf


def _measure_share(name: str, hits: Bool) -> Figure:
    if not len(hits):
        return Figure(name=name, value=None)
    low, high = compute_exact_interval(int(hits.sum()), len(hits))
    return Figure(name=name, value=float(hits.mean()), low=low, high=high)
