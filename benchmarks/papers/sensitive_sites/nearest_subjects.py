"""KNN: each site, in an order drawn at random, takes the k nearest subjects that are left.

The baseline of Krishnamachari, Ghinita, Kalnis, SSDBM 2008, section 5. It searches a strip of subjects sorted by x,
where the paper has an R*-tree; both find the same subjects.
"""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from typing import Any

import numpy as np

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Int, Int32
from dbanon.methods.sensitive_sites._boxes import Boxes

_FAR = np.int64(2**31)


def take(subjects: Boxes, sites: Boxes, k: int, order: Int) -> Int32:
    """Let each site take its k nearest subjects, in an order.

    Parameters
    ----------
    subjects, sites : Boxes
        n and m, n >= k m.
    k : int
    order : int64[m]
        The sites, first to last.

    Returns
    -------
    int32[n]
        The site of each subject, -1 for the others. Nearer is what has fewer cells between; of equally near subjects
        those of lower index.

    Notes
    -----
    From the site to either side in x, until the next subject is farther in x alone than the k nearest so far: O(n) a
    site at worst, and mostly a strip as wide as its k subjects. Memory: 20 bytes a subject.
    """
    by_x = np.argsort(subjects.x0, kind="stable")
    widest = int((subjects.x1 - subjects.x0).max(initial=0))
    site = np.full(len(subjects.x0), -1, np.int32)
    nearest, distance = np.empty(k, np.int64), np.empty(k, np.int64)
    _take(*subjects.take(by_x), by_x, widest, *sites, order, nearest, distance, site)
    return site


@compile_kernel
def _take(
    x0: Any, y0: Any, x1: Any, y1: Any, subject: Any, widest: Any, sx0: Any, sy0: Any, sx1: Any, sy1: Any, order: Any,
    nearest: Any, distance: Any, site: Any,
) -> None:  # fmt: skip
    """`nearest` holds the best subjects so far by (squared distance, index), the worst of them last."""
    n, k = len(x0), len(nearest)
    for s in order:
        filled = 0
        right = np.searchsorted(x0, sx0[s])
        left = right - 1
        # Kept true: subjects between `left` and `right` were looked at; the others are min(before, after) away or more.
        while left >= 0 or right < n:
            # The side that may hold the nearer one; a subject on the left reaches `widest` beyond its x0 at most.
            before = max(np.int64(0), np.int64(sx0[s]) - x0[left] - widest) if left >= 0 else _FAR
            after = max(np.int64(0), np.int64(x0[right]) - sx1[s]) if right < n else _FAR
            at = right if after <= before else left
            if filled == k and min(before, after) ** 2 > distance[k - 1]:
                break
            if after <= before:
                right += 1
            else:
                left -= 1
            u = subject[at]
            if site[u] >= 0:
                continue
            dx = max(np.int64(0), np.int64(x0[at]) - sx1[s], np.int64(sx0[s]) - x1[at])
            dy = max(np.int64(0), np.int64(y0[at]) - sy1[s], np.int64(sy0[s]) - y1[at])
            away = dx * dx + dy * dy
            if filled == k and (away > distance[k - 1] or (away == distance[k - 1] and u > nearest[k - 1])):
                continue
            # Insert in the order of (squared distance, index); the k-th falls out where there were k.
            filled = min(filled + 1, k)
            place = filled - 1
            while place > 0 and (
                distance[place - 1] > away or (distance[place - 1] == away and nearest[place - 1] > u)
            ):
                distance[place], nearest[place] = distance[place - 1], nearest[place - 1]
                place -= 1
            distance[place], nearest[place] = away, u
        for place in range(k):
            site[nearest[place]] = s
