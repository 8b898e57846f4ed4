"""W4M with linear spatio-temporal distance: k trajectories moved into one cylinder, with made-up samples.

Abul, Bonchi, Nanni: Anonymization of moving objects databases by clustering and perturbation, Information Systems 35,
2010. What it publishes is not true of its subjects, so the family's attack refuses it.
"""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from dbanon.base import cores
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Float, Int, freeze
from dbanon.methods.kte._samples import Merged, Samples

DELTA_M = 1_000.0  # diameter of the discs; the k-merge paper takes W4M's own settings and does not name them
MAX_TRASH_SHARE = 0.1  # of the subjects
RADIUS_GROWTH = 1.5  # of the radius, each time there was more
RADIUS_SUBJECTS = 32  # subjects whose nearest k - 1 decide the first radius


@dataclass(frozen=True, kw_only=True, eq=False)
class Edited:
    """What editing trajectories to be alike made of them.

    Attributes
    ----------
    rows : Merged
        One record a subject: one slot and one cell a row; none where it is in no cluster.
    source : int64[c]
        Which of the subject's samples was moved to a row; -1 where there is none, and the row is made up.
    deleted : int64[s]
        Samples of each subject that were matched with nothing.
    """

    rows: Merged
    source: Int
    deleted: Int

    def __post_init__(self) -> None:
        freeze(self)

    @property
    def counts(self) -> dict[str, int]:
        """Samples created and deleted."""
        return {"created": int((self.source < 0).sum()), "deleted": int(self.deleted.sum())}


def cluster_by_w4m(samples: Samples, k: int, delta_m: float, rank: Int, rng: np.random.Generator) -> tuple[Int, Edited]:
    """Cluster subjects around pivots and move the members of each cluster into a cylinder along its pivot.

    Parameters
    ----------
    samples : Samples
    k : int
    delta_m : float
        Diameter of the cylinders.
    rank : int64[codes]
        Place of each subject, by its code, in the run's order: it decides between equal distances.
    rng : numpy.random.Generator
        For the first pivot.

    Returns
    -------
    group : int64[s]
        Number of the cluster of each subject, in the order of their pivots; -1 for trash, at most `MAX_TRASH_SHARE` of
        the subjects unless there are fewer than k.
    edited : Edited

    Notes
    -----
    A pass over the clusters takes O(p s) distances for p pivots, those tried in vain included, each linear in the
    samples of both; distances are not kept.

    Departures: the first radius is a low one among the distances to (k-1)th neighbours, where the paper has a share
    of the extent, which one wild fix makes useless. A second sample in a slot is deleted. Matching takes time and
    memory in proportion to the lesser number of samples times the difference of both.
    """
    order = np.argsort(rank[samples.subject], kind="stable")
    tracks = _Tracks.from_samples(samples)
    clusters = _make_clusters(tracks, k, order, rng)
    group = np.full(len(order), -1, np.int64)
    for number, cluster in enumerate(clusters):
        group[cluster] = number
    return group, edit(samples, clusters, delta_m)


def edit(samples: Samples, clusters: list[Int], delta_m: float) -> Edited:
    """Match the samples of each cluster's members to the slots of its pivot, and move them into a disc there.

    Parameters
    ----------
    samples : Samples
    clusters : list of int64[n]
        Positions in `samples`, the pivot first. A subject is in one of them at most.
    delta_m : float
        Diameter of the discs.

    Returns
    -------
    Edited
        Samples are matched with the pivot's slots in order, as many as can be, with the least shifts in time in all
        (the earliest of equals). Samples that are left are deleted; in a slot that is left one is created on the
        straight line between the subject's neighbouring samples. The disc's centre is the mean of its positions.
    """
    tracks = _Tracks.from_samples(samples)
    parts: list[tuple[Any, ...]] = [()] * len(samples.subject)
    for cluster in clusters:
        slot = tracks.take_subject(int(cluster[0]))[0]
        source, x, y, deleted = _match(tracks.offset, tracks.slot, tracks.x, tracks.y, cluster, slot)
        cells = [np.floor(values).astype(np.int64) for values in _move_into_disc(x, y, delta_m / samples.grid_m / 2)]
        source = np.where(source < 0, -1, tracks.at[source])
        for row, subject in enumerate(cluster):
            parts[subject] = slot, cells[0][row], cells[1][row], source[row], deleted[row] + tracks.doubled[subject]
    there = [part for part in parts if part]
    slot, x, y, source = (np.concatenate([np.zeros(0, np.int64), *(part[i] for part in there)]) for i in range(4))
    offset = np.cumsum([0, *(len(part[0]) if part else 0 for part in parts)])
    return Edited(
        rows=Merged(offset=offset, first=slot, last=slot, box=np.column_stack([x, y, x, y])),
        source=source,
        deleted=np.array([part[4] if part else 0 for part in parts], np.int64),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Tracks:
    """One position a slot: centres of cells, in cells."""

    offset: Int
    at: Int  # which of the samples
    slot: Int
    x: Float
    y: Float
    doubled: Int  # samples left out of each subject
    pace: float  # cells a slot in the mean: what a slot of time is worth in space

    @classmethod
    def from_samples(cls, samples: Samples) -> "_Tracks":
        """Keep the first sample, by x and y, of every slot."""
        subject = np.repeat(np.arange(len(samples.subject)), np.diff(samples.offset))
        new = np.ones(len(subject), bool)
        new[1:] = (subject[1:] != subject[:-1]) | (samples.slot[1:] != samples.slot[:-1])
        slot, who = samples.slot[new], subject[new]
        x, y = (np.asarray(v[new] + 0.5, np.float64) for v in (samples.x, samples.y))
        offset = np.searchsorted(who, np.arange(len(samples.subject) + 1))
        same = who[1:] == who[:-1]
        slots = np.diff(slot)[same].sum()
        way = np.hypot(np.diff(x)[same], np.diff(y)[same]).sum()
        doubled = np.diff(samples.offset) - np.diff(offset)
        pace = float(way / slots) if slots else 0.0
        return cls(offset=offset, at=np.flatnonzero(new), slot=slot, x=x, y=y, doubled=doubled, pace=pace)

    def take_subject(self, one: int) -> tuple[Int, Float, Float]:
        """Slots and positions of a subject."""
        part = slice(self.offset[one], self.offset[one + 1])
        return self.slot[part], self.x[part], self.y[part]

    def compute_distances(self, one: int, others: Int) -> Float:
        """Linear spatio-temporal distance, in cells, of a subject from others."""
        out = np.empty(len(others))
        places = [part for part in np.array_split(np.arange(len(others)), cores.count_threads()) if len(part)]

        def work(part: Int) -> None:
            here = out[part[0] : part[-1] + 1]
            _measure_distances(self.offset, self.slot, self.x, self.y, self.pace, one, others[part], here)

        with ThreadPoolExecutor(max(1, len(places))) as pool:
            list(pool.map(work, places))
        return out


def _make_clusters(tracks: _Tracks, k: int, order: Int, rng: np.random.Generator) -> list[Int]:
    """Pivots first, then the members as they came; the radius grows until the trash is small."""
    s = len(order)
    if s < k:
        return []
    start = int(rng.integers(s))
    # The lower quartile of what k - 1 neighbours take: it is seldom enough, and then it grows.
    seeds = order[np.linspace(0, s - 1, min(s, RADIUS_SUBJECTS)).astype(np.int64)]
    reach = [np.sort(tracks.compute_distances(int(one), order))[k - 1] for one in seeds]
    radius = max(float(np.quantile(reach, 0.25)), 1.0)
    while True:
        clusters, trash = _cluster_greedily(tracks, k, order, start, radius)
        if trash <= MAX_TRASH_SHARE * s:
            return clusters
        radius *= RADIUS_GROWTH


def _cluster_greedily(tracks: _Tracks, k: int, order: Int, start: int, radius: float) -> tuple[list[Int], int]:
    """One pass with one radius: the clusters and how many subjects are in none."""
    s = len(order)
    tried, taken = np.zeros(s, bool), np.zeros(s, bool)  # by rank, as everything here: ties go to the lesser
    apart = np.full(s, np.inf)  # from the nearest pivot so far
    nearest = np.full(s, -1, np.int64)
    clusters: list[list[int]] = []
    pivot = start
    while True:
        tried[pivot] = True
        cost = tracks.compute_distances(int(order[pivot]), order)
        free = np.flatnonzero(~taken)
        free = free[free != pivot]
        near = free[np.argsort(cost[free], kind="stable")[: k - 1]]
        if len(near) == k - 1 and (k == 1 or cost[near[-1]] <= radius):
            taken[pivot] = True
            taken[near] = True
            nearest[cost < apart] = len(clusters)
            apart = np.minimum(apart, cost)
            clusters.append([pivot, *near.tolist()])
        active = np.flatnonzero(~taken & ~tried)
        if not len(active):
            break
        pivot = int(active[np.argmax(apart[active])])  # the farthest from all pivots; before there is one, the first
    # The rest goes to the nearest pivot within the radius, or to the trash.
    for one in np.flatnonzero(~taken & (apart <= radius)):
        clusters[nearest[one]].append(int(one))
        taken[one] = True
    return [order[np.array(cluster)] for cluster in clusters], int(s - taken.sum())


def _move_into_disc(x: Float, y: Float, radius: float) -> tuple[Float, Float]:
    """Move positions [n, slots] by the least that puts those of a slot into a disc around their mean."""
    at_x, at_y = x.mean(0), y.mean(0)
    away = np.hypot(x - at_x, y - at_y)
    share = np.minimum(1.0, np.divide(radius, away, out=np.ones_like(away), where=away > 0))
    return at_x + (x - at_x) * share, at_y + (y - at_y) * share


@compile_kernel
def _locate_at(slot: Any, x: Any, y: Any, begin: Any, end: Any, at: Any, t: Any) -> Any:
    """Where a subject is at t if it goes straight from sample to sample, and how many slots t is outside its samples.

    `at` is its first sample not before t, or `end`.
    """
    if at == end:
        return x[end - 1], y[end - 1], t - slot[end - 1]
    if at == begin or slot[at] == t:
        return x[at], y[at], slot[at] - t
    share = (t - slot[at - 1]) / (slot[at] - slot[at - 1])
    return x[at - 1] + share * (x[at] - x[at - 1]), y[at - 1] + share * (y[at] - y[at - 1]), 0


@compile_kernel
def _measure_one_way(slot: Any, x: Any, y: Any, pace: Any, a: Any, a_end: Any, b: Any, b_end: Any) -> Any:
    """Mean distance of the samples [a, a_end) from another subject; time outside its samples costs `pace` a slot."""
    total, at = 0.0, b
    for i in range(a, a_end):
        while at < b_end and slot[at] < slot[i]:
            at += 1
        x_there, y_there, outside = _locate_at(slot, x, y, b, b_end, at, slot[i])
        total += np.hypot(x[i] - x_there, y[i] - y_there) + outside * pace
    return total / (a_end - a)


@compile_kernel
def _measure_distances(offset: Any, slot: Any, x: Any, y: Any, pace: Any, one: Any, others: Any, out: Any) -> None:
    """Mean of both ways between a subject and others."""
    a, a_end = offset[one], offset[one + 1]
    for place in range(len(others)):
        b, b_end = offset[others[place]], offset[others[place] + 1]
        there = _measure_one_way(slot, x, y, pace, a, a_end, b, b_end)
        back = _measure_one_way(slot, x, y, pace, b, b_end, a, a_end)
        out[place] = (there + back) / 2


@compile_kernel
def _match(offset: Any, slot: Any, x: Any, y: Any, cluster: Any, pivot: Any) -> Any:
    """Give every member a sample in each of the pivot's slots: which (-1: made up), x and y, [n, slots].

    Also how many samples of each member went nowhere.
    """
    n, c = len(cluster), len(pivot)
    source, to_x, to_y = np.full((n, c), -1, np.int64), np.empty((n, c)), np.empty((n, c))
    deleted = np.zeros(n, np.int64)
    for row in range(n):
        begin, end = offset[cluster[row]], offset[cluster[row] + 1]
        if end - begin <= c:
            for i, p in enumerate(_align(slot[begin:end], pivot)):
                source[row, p] = begin + i
        else:
            source[row] = begin + _align(pivot, slot[begin:end])
            deleted[row] = end - begin - c
        at = begin
        for p in range(c):
            while at < end and slot[at] < pivot[p]:
                at += 1
            if source[row, p] >= 0:
                to_x[row, p], to_y[row, p] = x[source[row, p]], y[source[row, p]]
            else:
                to_x[row, p], to_y[row, p], _ = _locate_at(slot, x, y, begin, end, at, pivot[p])
    return source, to_x, to_y, deleted


@compile_kernel
def _align(short: Any, long: Any) -> Any:
    """Find which of the longer each of the shorter is matched with, in order, at the least sum of differences."""
    spare = len(long) - len(short)
    # Kept true: `least[e]` is what those so far cost, where they leave out at most e of the longer; `last` says
    # whether that is because the last of them leaves out e.
    least, last = np.zeros(spare + 1, np.int64), np.empty((len(short), spare + 1), np.bool_)
    for i in range(len(short)):
        for e in range(spare + 1):
            cost = least[e] + abs(short[i] - long[i + e])
            last[i, e] = e == 0 or cost < least[e - 1]
            least[e] = cost if last[i, e] else least[e - 1]
    chosen, e = np.empty(len(short), np.int64), spare
    for i in range(len(short) - 1, -1, -1):
        while not last[i, e]:
            e -= 1
        chosen[i] = i + e
    return chosen
