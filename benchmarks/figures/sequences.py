"""Compares tracks: their lengths, diameters, and the most frequent sequences of cells."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.figures.files import Tracks
from benchmarks.figures.tallies import measure_divergence, sum_weights
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Bool, Float, Int

BUCKETS = 20
COMPARED_PATTERNS = 100
PATTERN_LENGTHS_CELLS = (2, 3, 4, 5)


@dataclass(frozen=True, kw_only=True)
class Patterns:
    """`f1` of the most frequent patterns, and `support`, the error of their numbers; None if there are no true ones."""

    f1: float | None
    support: float | None


def measure_length_jsd(true: Tracks, told: Tracks) -> float | None:
    """Compare the lengths of tracks: the sum of the distances between successive positions, in metres.

    The Jensen-Shannon divergence, base 2, of 20 buckets of one width between the least and the greatest true length;
    the first and the last are open, so that no track falls out. Tracks count as many people as their first position.
    None if there are no true tracks.

    Source: length error of Gursoy et al., CCS 2018.
    """
    return _compare(true, _measure_lengths(true), told, _measure_lengths(told))


def measure_diameter_jsd(true: Tracks, told: Tracks) -> float | None:
    """Compare the diameters of tracks as `measure_length_jsd` does.

    A diameter is the greatest distance between two positions.

    Source: diameter error of Gursoy et al., CCS 2018.
    """
    return _compare(true, measure_diameters(true), told, measure_diameters(told))


def compare_patterns(true: Tracks, told: Tracks, cell_m: float) -> Patterns:
    """Compare the 100 most frequent sequences of 2 to 5 successive distinct cells.

    A track is the cells of its positions in order, without repeating one that it stays in. Each place in a track where
    a sequence begins counts as many people as the position there. With A the most frequent true ones, E the others'::

        pattern_f1      = 2 |A and E| / (|A| + |E|), 0 if none agree
        pattern_support = mean over A of |told - true| / true, of how often each occurs

    Equally frequent sequences are ordered by length, then by cells, on both sides.

    Source: Gursoy et al., CCS 2018 (FP F1 similarity, FP average relative error); LDPTrace divides by 0 if none agree.
    """
    counts = _count_patterns(true, told, cell_m)
    most = [np.argsort(-count, kind="stable")[:COMPARED_PATTERNS] for count in counts]
    a, e = (top[count[top] > 0] for top, count in zip(most, counts, strict=True))
    if not len(a):
        return Patterns(f1=None, support=None)
    f1 = 2 * len(np.intersect1d(a, e)) / (len(a) + len(e))
    return Patterns(f1=f1, support=float(np.mean(np.abs(counts[1][a] - counts[0][a]) / counts[0][a])))


def measure_diameters(tracks: Tracks) -> Float:
    """Measure the greatest distance within each track: float64[tracks]."""
    begin = np.flatnonzero(_mark_begins(tracks))
    greatest = np.empty(len(begin))
    _fill_diameters(tracks.x, tracks.y, np.append(begin, len(tracks.x)), greatest)
    return greatest


@compile_kernel
def _fill_diameters(x: Any, y: Any, begin: Any, greatest: Any) -> None:
    """Find the greatest distance of two positions in each track, beginning with those far from its middle.

    With r the distances from the middle, two positions are at most r[i] + r[j] apart: once that is less than the
    greatest distance found, no later pair of i is farther apart, and once 2 r[i] is, no pair at all.
    """
    for track in range(len(greatest)):
        px, py = x[begin[track] : begin[track + 1]], y[begin[track] : begin[track + 1]]
        r = np.sqrt((px - px.mean()) ** 2 + (py - py.mean()) ** 2)
        order = np.argsort(-r)
        most = 0.0
        for i in range(len(order)):
            a = order[i]
            if 2 * r[a] < most:
                break
            for j in range(i + 1, len(order)):
                b = order[j]
                if r[a] + r[b] < most:
                    break
                most = max(most, np.sqrt((px[a] - px[b]) ** 2 + (py[a] - py[b]) ** 2))
        greatest[track] = most


def _mark_begins(tracks: Tracks) -> Bool:
    """Tell which positions are the first of their track."""
    person = tracks.person
    return np.append(np.ones(min(1, len(person)), np.bool_), person[1:] != person[:-1])


def _measure_lengths(tracks: Tracks) -> Float:
    begin = _mark_begins(tracks)
    step = np.hypot(np.diff(tracks.x, prepend=np.nan), np.diff(tracks.y, prepend=np.nan))[: len(begin)]
    return sum_weights(np.cumsum(begin) - 1, np.where(begin, 0.0, step), 0)


def _compare(true: Tracks, a: Float, told: Tracks, e: Float) -> float | None:
    if not len(a):
        return None
    edges = np.linspace(a.min(), a.max(), BUCKETS + 1)[1:-1]
    return measure_divergence(*(
        sum_weights(np.searchsorted(edges, sizes, side="right"), moved.weight[_mark_begins(moved)], BUCKETS)
        for moved, sizes in ((true, a), (told, e))
    ))  # fmt: skip


def _count_patterns(true: Tracks, told: Tracks, cell_m: float) -> tuple[Float, Float]:
    """Count every sequence that occurs, in truth and as published: float64[patterns] each."""
    cell, track, weight, is_told = _list_visits(true, told, cell_m)
    pairs: list[tuple[Float, Float]] = [(np.empty(0), np.empty(0))]
    label, cells = cell, int(cell.max(initial=-1)) + 1
    for length in range(2, PATTERN_LENGTHS_CELLS[-1] + 1):
        # A sequence is one that is a cell shorter, and a cell: numbered again each time, so the product stays small.
        whole = track[length - 1 :] == track[: len(track) - length + 1]
        code = (label[: len(whole)] * cells + cell[length - 1 :])[whole]
        if not len(code):
            break
        kinds, number = _number(code)
        people, of_told = weight[: len(whole)][whole], is_told[: len(whole)][whole]
        a, e = (sum_weights(number, people * part, kinds) for part in (~of_told, of_told))
        pairs.append((a, e))
        label = np.zeros(len(whole), np.int64)
        label[whole] = number
    return np.concatenate([a for a, _ in pairs]), np.concatenate([e for _, e in pairs])


def _list_visits(true: Tracks, told: Tracks, cell_m: float) -> tuple[Int, Int, Float, Bool]:
    """List the visits of cells, first true, then published ones: cell, track, weight, and whether it is published."""
    both = (true, told)
    column, row = (
        _number(np.floor(np.concatenate([getattr(moved, axis) for moved in both]) / cell_m).astype(np.int64))
        for axis in ("x", "y")
    )
    cell = _number(column[1] * row[0] + row[1])[1]
    begin = np.concatenate([_mark_begins(moved) for moved in both])
    track = np.cumsum(begin)
    new = begin | (np.diff(cell, prepend=-1) != 0)
    weight = np.concatenate([moved.weight for moved in both])
    is_told = np.arange(len(cell)) >= len(true.t)
    return cell[new], track[new], weight[new], is_told[new]


def _number(code: Int) -> tuple[int, Int]:
    """Number the distinct codes in their order; returns how many there are, and the number of each."""
    if not len(code):
        return 0, code
    least, span = int(code.min()), int(code.max()) - int(code.min()) + 1
    if span > 4 * len(code) + 1_000_000:
        kinds, number = np.unique(code, return_inverse=True)
        return len(kinds), number
    there = np.zeros(span, np.int64)  # a table is several times as fast as sorting
    there[code - least] = 1
    numbers = np.cumsum(there)
    return int(numbers[-1]), numbers[code - least] - 1
