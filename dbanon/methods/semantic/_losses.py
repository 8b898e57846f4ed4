"""What a merge of two points loses in time and space (section III-B of the paper), and what one of two trajectories."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Int
from dbanon.methods.semantic import Parameters
from dbanon.methods.semantic._graph import MM2_PER_M2


class Scale(NamedTuple):
    """How losses are weighed: what they are counted in, and where they are capped."""

    weight_time: float
    span: float  # slots that count as a full loss
    area: float  # square millimetres that count as a full loss


class Track(NamedTuple):
    """The points of a trajectory or the rows of a group; starts ascend, and ends do."""

    start: Int  # [p]; start, end: slots, half-open
    end: Int  # [p]
    first: Int  # [p + 1]: the atoms of point i are ``atom[first[i]:first[i + 1]]``, ascending
    atom: NDArray[np.int32]  # []


def make_scale(params: Parameters, grid_s: int) -> Scale:
    """Put the parameters in the units of kernels."""
    return Scale(
        weight_time=params.weight_time,
        span=params.full_loss_span_s / grid_s,
        area=max(params.full_loss_area_km2 * 1e6 * MM2_PER_M2, 1.0),
    )


@compile_kernel
def compute_loss(
    area: Int, scale: Scale, longer: Track, shorter: Track, n_longer: int, n_shorter: int, step: int, limit: float
) -> Any:
    """C_ij of two tracks: the mean of what each point of the longer loses with the one that suits it best.

    Parameters
    ----------
    area : int64[a]
        Of each atom, square millimetres.
    longer, shorter : Track
        The longer first; where both are as long, the second in the order of the run.
    n_longer, n_shorter : int
        People in each.
    step : int
        Every step-th point of `longer` is looked at: all with 1, else the mean is an estimate.
    limit : float
        Infinity is given for any loss above this.
    """
    total, points = 0.0, 0
    count = (len(longer.start) + step - 1) // step
    mine, theirs = n_longer / (n_longer + n_shorter), n_shorter / (n_longer + n_shorter)
    for i in range((len(longer.start) - 1) % step // 2, len(longer.start), step):
        best = np.inf
        start, end = longer.start[i], longer.end[i]
        own = _sum_area(area, longer, i)
        middle = np.searchsorted(shorter.start, start, side="right")
        # Outwards in time: near periods come first and lower `best`, which lets most of the others be passed over.
        for way in (-1, 1):
            j = middle - 1 if way < 0 else middle
            while 0 <= j < len(shorter.start):
                # The loss in time of section III-B: the mean over the people of both sides, capped.
                whole = max(end, shorter.end[j]) - min(start, shorter.start[j])
                lost = whole - mine * (end - start) - theirs * (shorter.end[j] - shorter.start[j])
                lost = scale.weight_time * min(lost / scale.span, 1.0)
                if lost < best:
                    # The loss in space, likewise: the merged region is the union, which atoms need no path for.
                    united, there = _measure_union(area, longer, i, shorter, j)
                    space = united - mine * own - theirs * there
                    best = min(best, lost + (1 - scale.weight_time) * min(space / scale.area, 1.0))
                elif (shorter.end[j] <= end) if way < 0 else (shorter.end[j] >= end):
                    # From here on `whole` grows by more than the others' periods can: no loss in time is smaller.
                    break
                j += way
        total, points = total + best, points + 1
        # Each point loses something: the mean is above the limit whatever the rest loses.
        if total > limit * count:
            return np.inf
    return total / points


@compile_kernel
def _sum_area(area: Int, track: Track, point: int) -> Any:
    total = np.int64(0)
    for at in range(track.first[point], track.first[point + 1]):
        total += area[track.atom[at]]
    return total


@compile_kernel
def _measure_union(area: Int, one: Track, i: int, other: Track, j: int) -> Any:
    """Area of the atoms of two points together, and of those of the second."""
    a, a_end = one.first[i], one.first[i + 1]
    b, b_end = other.first[j], other.first[j + 1]
    united, second = np.int64(0), np.int64(0)
    while a < a_end or b < b_end:
        # Kept true: atoms before `a` and `b` are counted, each once, for both lists ascend.
        if b == b_end or (a < a_end and one.atom[a] < other.atom[b]):
            united += area[one.atom[a]]
            a += 1
            continue
        if a < a_end and one.atom[a] == other.atom[b]:
            a += 1
        united += area[other.atom[b]]
        second += area[other.atom[b]]
        b += 1
    return united, second
