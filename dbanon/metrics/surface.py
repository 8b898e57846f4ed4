"""The surface of a release: how many people are in which cell of a raster, as its rows together say.

Regions overlap, and many of them together show where people are. A surface is the raster of intensities that explains
the rows best: areal interpolation by expectation maximisation (Flowerdew and Green, Developments in areal
interpolation methods and GIS, 1994). It is made of published rows alone, so that any reader can make it again, and
rounded, so that another machine makes the same bytes.

The likelihood of a row decides. A region is the least rectangle around its crowd, so one of the crowd is on each edge.
The crowd has n people, where each is by intensity `lambda`. S is a subset of left, right, bottom and top. Without the
outermost cells along the edges in S, the share F(S) of the rectangle's intensity remains. Then

    P(the rectangle is this one)        =  sum over S of (-1)^|S| F(S)^n
    E(share of the people in a cell z)  ~  lambda(z) x sum over S that leave z of (-1)^|S| F(S)^(n - 1)

so that the expected people are `lambda` times a factor that is constant in each of nine parts: corners, edges, inside.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Float, Int

PASSES = 8

ESTIMATED_CROWD = 4
"""Estimates take larger crowds for so many, as those of a group are not independent: benchmarks/results/surface.md."""

MAX_CELLS = 400_000
"""The sums of a surface are at most 1.6 MB; a city of 50 km in cells of 125 m has 160,000."""

CELLS_PER_SIDE = 16
"""So many cells, or more, are along the longer side of a median row's region."""

TOTAL = 1 << 30
"""The intensities of a surface sum to about this."""

BITS = 8
"""So many leading binary digits of an intensity are kept."""

_ROWS_PER_PART = 2_000_000

_OUTLYING_SHARE = 0.001  # of rows, on each side, reach beyond the raster, which one wrong fix would make too coarse

LEAST_CHANCE = 1e-10
"""Where a rectangle is less likely, its people are taken to be anywhere within by intensity: differences are noise."""


class Surface(NamedTuple):
    """Intensities of square cells, as sums over all cells below and to the left of each corner."""

    cell_m: float  # side of a cell; edges are multiples of it
    left: int  # left, bottom: the first column and row, as multiples of the side
    bottom: int
    columns: int
    rows: int
    speed_mps: float  # how fast the edges of records' regions move, as one of the people at them does
    sums: Int  # int64[(rows + 1) * (columns + 1)], row by row; ascends along rows and columns


class _Looks(NamedTuple):
    """Distinct rectangles of cells, each with the crowd of a row and how much all such rows weigh together."""

    cells: Int  # int64[r, 4]: first column and row, and those after the last, from the surface's corner
    crowd: Int  # int64[r]
    weight: Float  # float64[r]


class Rows(NamedTuple):
    """Rows of a release, those of a record one after the other, as indices of distinct regions."""

    bounds: Float  # float64[r, 4]: xmin, ymin, xmax, ymax of each region in metres
    crowd: Int  # int64[r]
    subjects: Int  # int64[r]
    offset: Int  # int64[R + 1]: rows of record i are ``[offset[i], offset[i + 1])``
    region: NDArray[np.integer]  # integers[c]
    start_s: Float  # float64[c]
    end_s: Float


def make_surface(rows: Rows) -> Surface | None:
    """Make the surface of rows whose regions are least rectangles around their crowd; None where there are no rows.

    The order of regions and records makes no difference.
    """
    if not len(rows.region):
        return None
    seconds = np.bincount(rows.region, rows.end_s - rows.start_s, len(rows.crowd))
    looks, shape = _gather_looks(rows.bounds, rows.crowd, np.asarray(seconds * rows.subjects, float))
    sums = np.zeros((shape.rows + 1, shape.columns + 1))
    rounded = _round(_estimate(looks, shape, sums))
    sums[1:, 1:] = np.cumsum(np.cumsum(rounded, axis=0), axis=1)
    return shape._replace(sums=sums.ravel().astype(np.int64), speed_mps=_measure_speed(rows))


def _measure_speed(rows: Rows) -> float:
    """Measure how fast edges move from row to row, in one direction, and people in two: in tenths."""
    first = np.zeros(len(rows.region), bool)
    first[rows.offset[:-1]] = True
    moved, passed = 0.0, 0.0
    for at in range(0, len(first) - 1, _ROWS_PER_PART):
        part = slice(at, at + _ROWS_PER_PART + 1)
        goes_on = ~first[part][1:] & (np.diff(rows.crowd[rows.region[part]]) == 0)  # not to an exact row
        middle = (rows.start_s[part] + rows.end_s[part]) / 2
        moved += float(np.abs(np.diff(rows.bounds[rows.region[part]], axis=0))[goes_on].mean(axis=1).sum())
        passed += float(np.diff(middle)[goes_on].sum())
    return round(np.pi / 2 * moved / passed, 1) if passed > 0 else 0.0


def prepare() -> None:
    """Compile what makes surfaces."""
    one, times = np.array([2]), np.array([0.0, 1.0])
    make_surface(
        Rows(np.array([[0.0, 0.0, 9.0, 9.0]]), one, one, np.array([0, 1]), np.array([0]), times[:1], times[1:])
    )


def _gather_looks(bounds: Float, crowd: Int, weight: Float) -> tuple[_Looks, Surface]:
    """Choose a raster, leave out what reaches beyond it, widen rectangles to whole cells, and join those alike."""
    low = np.array([_find_quantile(edge, weight, _OUTLYING_SHARE) for edge in bounds[:, :2].T])
    high = np.array([_find_quantile(edge, weight, 1 - _OUTLYING_SHARE) for edge in bounds[:, 2:].T])
    within = (bounds[:, :2] >= low).all(axis=1) & (bounds[:, 2:] <= high).all(axis=1)
    if not within.any():
        within, low, high = ~within, bounds[:, :2].min(axis=0), bounds[:, 2:].max(axis=0)
    bounds, crowd, weight = bounds[within], crowd[within], weight[within]
    side = _find_quantile((bounds[:, 2:] - bounds[:, :2]).max(axis=1), weight, 0.5)
    cell_m = _choose_cell(side, *(high - low).tolist())
    cells = np.floor(bounds / cell_m).astype(np.int64)
    first, last = np.floor(low / cell_m).astype(np.int64), np.floor(high / cell_m).astype(np.int64)
    left, bottom, columns, rows = map(int, (*first, *(last - first + 1)))
    cells += np.array([-left, -bottom, 1 - left, 1 - bottom])
    order = np.lexsort((crowd, *cells.T))
    new = np.append(True, (np.diff(cells[order], axis=0) != 0).any(axis=1) | (np.diff(crowd[order]) != 0))
    looks = _Looks(cells[order][new], crowd[order][new], np.add.reduceat(weight[order], np.flatnonzero(new)))
    return looks, Surface(cell_m, left, bottom, columns, rows, 0.0, np.empty(0, np.int64))


def _find_quantile(values: Float, weight: Float, share: float) -> float:
    """Find the least value that, with those below, has a share of the weight."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weight[order])
    return float(values[order[np.searchsorted(total, share * total[-1])]])


def _choose_cell(side_m: float, wide_m: float, high_m: float) -> float:
    """Choose a kilometre halved or doubled: a share of a side, or larger for a wide country."""
    cell_m = 1000.0 * 2.0 ** np.floor(np.log2(max(side_m / CELLS_PER_SIDE, 1.0) / 1000.0))
    while (wide_m / cell_m + 2) * (high_m / cell_m + 2) > MAX_CELLS:
        cell_m *= 2
    return float(cell_m)


def _estimate(looks: _Looks, shape: Surface, sums: Float) -> Float:
    """Estimate intensities from an even start: float64[rows, columns]; `sums` is a place to work in."""
    intensity = np.ones((shape.rows, shape.columns))
    for _ in range(PASSES):
        sums[1:, 1:] = np.cumsum(np.cumsum(intensity, axis=0), axis=1)
        change = np.zeros_like(sums)
        _spread(sums, looks.cells, np.minimum(looks.crowd, ESTIMATED_CROWD), looks.weight, change)
        intensity *= np.maximum(np.cumsum(np.cumsum(change, axis=0), axis=1)[:-1, :-1], 0.0)
    return intensity


def _round(intensity: Float) -> Float:
    """Scale intensities to `TOTAL`, and keep their first digits: whole numbers."""
    digits, exponent = np.frexp(intensity * (TOTAL / intensity.sum()))
    whole: Float = np.floor(np.ldexp(np.round(np.ldexp(digits, BITS)), exponent - BITS))
    return whole


@compile_kernel
def _find_factors(sums: Any, cells: Any, crowd: Any, corners: Any) -> Any:
    """Find the factors of a row as changes at corners: float64[4, 4] by row and column.

    Returns the people that the factors, times the intensities, sum to; 0 where the rectangle has no intensity.
    """
    xs = (cells[0], cells[0] + 1, cells[2] - 1, cells[2])
    ys = (cells[1], cells[1] + 1, cells[3] - 1, cells[3])
    corners[:] = 0.0
    full = sums[ys[3], xs[3]] - sums[ys[0], xs[3]] - sums[ys[3], xs[0]] + sums[ys[0], xs[0]]
    if full <= 0.0:
        return 0.0
    chance = 0.0
    for edges in range(16):
        left, right, bottom, top = edges & 1, 3 - ((edges >> 1) & 1), (edges >> 2) & 1, 3 - ((edges >> 3) & 1)
        if xs[left] >= xs[right] or ys[bottom] >= ys[top]:
            continue  # nothing is left
        rest = (
            sums[ys[top], xs[right]]
            - sums[ys[bottom], xs[right]]
            - sums[ys[top], xs[left]]
            + sums[ys[bottom], xs[left]]
        ) / full
        power = 1.0
        for _ in range(crowd - 1):  # on every machine the same, which pow is not
            power *= rest
        if (edges ^ (edges >> 1) ^ (edges >> 2) ^ (edges >> 3)) & 1:
            power = -power
        chance += power * rest
        corners[bottom, left] += power
        corners[bottom, right] -= power
        corners[top, left] -= power
        corners[top, right] += power
    if chance < LEAST_CHANCE:
        corners[:] = 0.0
        corners[0, 0] = corners[3, 3] = 1.0
        corners[0, 3] = corners[3, 0] = -1.0
        chance = 1.0
    return full * chance


@compile_kernel
def _spread(sums: Any, cells: Any, crowd: Any, weight: Any, change: Any) -> None:
    """Add the factors of all rows, as changes at corners: float64[rows + 1, columns + 1]."""
    corners = np.empty((4, 4))
    for look in range(len(cells)):
        people = _find_factors(sums, cells[look], crowd[look], corners)
        if people == 0.0:
            continue
        own = cells[look]
        xs = (own[0], own[0] + 1, own[2] - 1, own[2])
        ys = (own[1], own[1] + 1, own[3] - 1, own[3])
        for b in range(4):
            for a in range(4):
                change[ys[b], xs[a]] += weight[look] / people * corners[b, a]
