"""Measures attacks that no promise covers: on the raw data, and by an adversary that knows a person's whole way."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dbanon.base.errors import ParameterError
from dbanon.base.figures import Figure, Movements
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Bool, Float, Int
from dbanon.metrics.counts import INTERVAL_QUANTILES, compute_exact_interval, draw_resamples


def measure_unicity(
    movements: Movements,
    rng: np.random.Generator,
    *,
    points: Sequence[int] = (1, 2, 3, 4, 5, 6),
    cell_m: float,
    slot_s: float,
    people: int = 1000,
) -> tuple[Figure, ...]:
    """Measure the unicity of the raw data: the share of people that a few of their points single out.

    For each of `people` persons, drawn at random, p distinct points (cell and slot) are drawn; the person is unique if
    no other person was at all of them. ``unicity_p`` is the share of unique people among all with p points, with its
    exact binomial 90 % interval. The p + 1 points of a person are the p points and one more.

    Only rows of drawn points are looked at again, so that memory is for the positions, not for people x points.

    Source: de Montjoye, Hidalgo, Verleysen, Blondel: Unique in the Crowd, Scientific Reports 3, 1376, 2013.
    """
    person, point = _number_points(movements, cell_m, slot_s)
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


def link_nearest(
    true: Movements, told: Movements, member_of: tuple[Int, Int], rng: np.random.Generator, *, people: int = 200
) -> Figure:
    """Measure how often the nearest published track is a person's own.

    The adversary knows the whole true way of a person, and takes the told track whose mean distance to it, over the
    times that both have, is least. If the person is a member of that record, the adversary is right with probability
    1 / subjects; several tracks that are equally near share this. ``linked_nearest`` is the mean over `people` persons
    drawn at random, with a bootstrap 90 % interval, or a binomial one if all have the same result. None if there are no
    people.

    Parameters
    ----------
    member_of : (int64[m], int64[m])
        Persons, and the published tracks that they are members of.

    Source: record linkage by distance, as of Domingo-Ferrer and Trujillo-Rasua, Information Sciences 208, 2012.
    """
    persons = np.unique(true.person)
    sample = np.sort(rng.choice(persons, min(people, len(persons)), replace=False))
    if not len(sample):
        return Figure(name="linked_nearest", value=None)
    times = np.intersect1d(true.t, told.t)
    x, y = _find_true_ways(true, sample, times)
    mine = np.isin(member_of[0], sample)
    of, track = np.searchsorted(sample, member_of[0][mine]), member_of[1][mine]
    order = np.lexsort((track, of))
    begin = np.searchsorted(of[order], np.arange(len(sample) + 1))
    right = np.zeros(len(sample))
    if len(times):
        at = np.searchsorted(times, told.t)
        at[np.append(times, np.nan)[at] != told.t] = -1
        _link(told.track, at, told.x, told.y, told.weight, x, y, begin, np.append(track[order], -1), right)
    low, high = compute_exact_interval(float(right.sum()), len(right))
    if np.ptp(right):  # a bootstrap of equal results has no width
        low, high = np.quantile(draw_resamples(len(right), rng) @ right / len(right), INTERVAL_QUANTILES).tolist()
    return Figure(name="linked_nearest", value=float(right.mean()), low=low, high=high)


def _number_points(movements: Movements, cell_m: float, slot_s: float) -> tuple[Int, Int]:
    """Number the distinct points of each person, by person: int64[n] persons and points."""
    code = np.zeros(len(movements.t), np.int64)
    room = 1
    for values, unit in ((movements.t, slot_s), (movements.x, cell_m), (movements.y, cell_m)):
        axis = np.floor(values / unit)
        axis -= axis.min(initial=np.inf) if len(axis) else 0
        size = int(axis.max(initial=0)) + 1
        room *= size
        if room > 2**62:
            raise ParameterError(
                "Cells and slots must be so large that they can be numbered. Got smaller ones. Make cells larger, "
                "such as 1000 m."
            )
        code = code * size + axis.astype(np.int64)
    order = np.lexsort((code, movements.person))
    person, code = movements.person[order], code[order]
    new = np.append(np.ones(min(1, len(code)), np.bool_), (np.diff(person) != 0) | (np.diff(code) != 0))
    return person[new], code[new]


def _is_among(values: Int, ascending: Int) -> Bool:
    """Test which values are in a list; this takes less memory than `numpy.isin`, which sorts all."""
    if not len(ascending):
        return np.zeros(len(values), np.bool_)
    found = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.asarray(ascending[found] == values)


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


def _find_true_ways(true: Movements, sample: Int, times: Float) -> tuple[Float, Float]:
    """Find the positions of a sample at times: float64[people, times], NaN if there is none."""
    chosen = np.flatnonzero(_is_among(true.person, sample) & _is_among_times(true.t, times))
    rows, columns = np.searchsorted(sample, true.person[chosen]), np.searchsorted(times, true.t[chosen])
    x, y = (np.full((len(sample), len(times)), np.nan) for _ in range(2))
    x[rows, columns], y[rows, columns] = true.x[chosen], true.y[chosen]
    return x, y


def _is_among_times(t: Float, times: Float) -> Bool:
    found = np.append(times, np.nan)[np.searchsorted(times, t)]
    return np.asarray(found == t)


@compile_kernel
def _link(  # noqa: PLR0917 - Numba kernels take arrays by position
    track: Any, at: Any, x: Any, y: Any, weight: Any, raw_x: Any, raw_y: Any, begin: Any, own: Any, right: Any
) -> None:
    """Find the nearest track of each person, and whether it is the person's; tracks ascend, and by person in `own`."""
    people = len(raw_x)
    nearest, ties, hits = np.full(people, np.inf), np.zeros(people), np.zeros(people)
    following = begin[:people].copy()
    start = 0
    while start < len(track):
        stop = start
        while stop < len(track) and track[stop] == track[start]:
            stop += 1
        for p in range(people):
            while following[p] < begin[p + 1] and own[following[p]] < track[start]:
                following[p] += 1
            mean = _measure_distance(start, stop, at, x, y, raw_x[p], raw_y[p], nearest[p])
            if mean < nearest[p]:
                nearest[p], ties[p], hits[p] = mean, 0, 0
            if mean == nearest[p] and mean < np.inf:
                ties[p] += 1
                if following[p] < begin[p + 1] and own[following[p]] == track[start]:
                    hits[p] += 1 / weight[start]
        start = stop
    for p in range(people):
        right[p] = hits[p] / max(1, ties[p])


@compile_kernel
def _measure_distance(  # noqa: PLR0917 - Numba kernels take arrays by position
    start: Any, stop: Any, at: Any, x: Any, y: Any, raw_x: Any, raw_y: Any, least: Any
) -> Any:
    """Measure the mean distance of a track to a way over common times; infinite if none are, or it is not least."""
    total, common = 0.0, 0
    # The mean is at least total / (stop - start): a track is given up once that is too much, most of them at once.
    limit = least * (stop - start) * (1 + 1e-12)
    for i in range(start, stop):
        if at[i] >= 0:
            apart = np.sqrt((x[i] - raw_x[at[i]]) ** 2 + (y[i] - raw_y[at[i]]) ** 2)
            if not np.isnan(apart):
                total += apart
                common += 1
                if total > limit:
                    return np.inf
    return total / common if common else np.inf
