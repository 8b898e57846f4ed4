"""Compares two tallies of people by cell, hour, trip or class: the true one and the published one."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dbanon.base.trajectory import Float, Int


@dataclass(frozen=True, kw_only=True, eq=False)
class Tally:
    """Numbers of people by key.

    Attributes
    ----------
    keys : array[n] or array[n, d]
        Whole numbers or texts; a key that stands twice counts twice.
    values : float64[n]
    """

    keys: NDArray[Any]
    values: Float


def measure_density_jsd(true: Tally, told: Tally) -> float | None:
    """Compare maps of people: the mean over hours of the Jensen-Shannon divergence of the shares of cells.

    Keys begin with the hour. Hours without people in truth do not count; an hour with people in truth alone counts 1.
    None if no hour has people.

    Source: density error of Gursoy et al., CCS 2018, by hour and in base 2.
    """
    keys, a, e = _align(true, told)
    hours, hour = np.unique(keys[:, 0], return_inverse=True)
    divergences = [measure_divergence(a[hour == h], e[hour == h]) for h in range(len(hours)) if a[hour == h].sum() > 0]
    return float(np.mean(divergences)) if divergences else None


def measure_trip_jsd(true: Tally, told: Tally) -> float | None:
    """Compare tables of origins and destinations: the Jensen-Shannon divergence of their shares, base 2.

    Source: trip error of Gursoy et al., CCS 2018. None, if there are no true trips.
    """
    _, a, e = _align(true, told)
    return measure_divergence(a, e) if a.sum() > 0 else None


def measure_tally_error(true: Tally, told: Tally) -> float | None:
    """Sum |e - a| / sum a over all keys of either: such as `flow_error` of pairs of zones.

    None if there are no people in truth.
    """
    _, a, e = _align(true, told)
    return float(np.abs(e - a).sum() / a.sum()) if a.sum() > 0 else None


def measure_location_tau_b(true: Tally, told: Tally) -> float | None:
    """Compare orders of cells by Kendall's tau-b of people a cell, over all cells that have people in either.

    With C pairs of cells in the same order, D in the reverse, T ties in truth alone and U ties in the other alone::

        tau_b = (C - D) / sqrt((C + D + T) (C + D + U))

    Ties are taken out on both sides, so the same data give 1. The programs of AdaTrace and LDPTrace divide by all pairs
    and give less for the same data. None if all cells have the same number on one side.

    Source: Kendall: The Treatment of Ties in Ranking Problems, Biometrika 33(3), 1945.
    """
    _, a, e = _align(true, told)
    there = (a > 0) | (e > 0)
    if len(np.unique(a[there])) < 2 or len(np.unique(e[there])) < 2:
        return None
    return float(stats.kendalltau(a[there], e[there], variant="b").statistic)


def measure_divergence(a: Float, e: Float) -> float:
    """Jensen-Shannon divergence of two lists of numbers, each taken as shares of its sum, in bits: 0 to 1.

    With p and q the shares and m their mean: (sum p log2(p / m) + sum q log2(q / m)) / 2. This is the divergence
    itself, not its root, which `scipy.spatial.distance.jensenshannon` gives. AdaTrace and LDPTrace take natural
    logarithms: their greatest value is 0.69. If one list has nothing, 1; if both have, 0.

    Source: Lin: Divergence Measures Based on the Shannon Entropy, IEEE Transactions on Information Theory 37(1), 1991.
    """
    if a.sum() <= 0 or e.sum() <= 0:
        return float((a.sum() > 0) != (e.sum() > 0))
    p, q = a / a.sum(), e / e.sum()
    m = (p + q) / 2
    parts = sum(np.sum(s[s > 0] * np.log2(s[s > 0] / m[s > 0])) for s in (p, q))
    return float(np.clip(parts / 2, 0, 1))


def sum_weights(number: Int, weights: Float, size: int) -> Float:
    """Sum weights by number: float64[size]."""
    return np.bincount(number, weights=weights, minlength=size).astype(np.float64, copy=False)


def _align(true: Tally, told: Tally) -> tuple[Int, Float, Float]:
    """Align the values of both by key: keys int64[m, d], and m values of each."""
    both = [np.asarray(tally.keys) for tally in (true, told)]
    columns = [keys if keys.ndim == 2 else keys[:, None] for keys in both]
    wide = max(column.shape[1] if len(column) else 1 for column in columns)
    codes = np.empty((sum(map(len, columns)), wide), np.int64)
    for i in range(wide):
        own = [column[:, i] for column in columns if len(column)]
        codes[:, i] = np.unique(np.concatenate(own), return_inverse=True)[1] if own else 0
    keys, index = np.unique(codes, axis=0, return_inverse=True)
    index = index.reshape(-1)
    n, m = len(columns[0]), len(keys)
    return keys, sum_weights(index[:n], true.values, m), sum_weights(index[n:], told.values, m)
