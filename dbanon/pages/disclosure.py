"""Decides which figures of a release's rows a page shows: none about few or single people, or ends of distributions.

All are computed from rows that readers have, so a page adds nothing to their knowledge. But a page travels further than
a login, so it is coarser: figures are joined until none of them is about fewer than k people.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from dbanon.base.errors import format_count
from dbanon.pages.maps import Window

BIN_FACTOR = 1.25
"""The factor from one bin of lengths to the next."""
_LAST_BIN_SHARE, _FIRST_BIN_SHARE = 0.95, 0.02
_MAX_BARS = 7


class Bin(NamedTuple):
    """The weight (people x time) and the number of people between two values; `until` may be infinite."""

    since: float
    until: float
    weight: float
    people: float


class Question(NamedTuple):
    """A question about a square, and its answer by the rows."""

    label: str
    at_least: float
    expected: float
    at_most: float


@dataclass(frozen=True, kw_only=True)
class Moment:
    """The rows that hold at one time, which a fixed rule chose."""

    at: datetime
    regions: Sequence[str]  # paths of the drawn regions: those in the window of k people or more
    rows: int  # number of rows that hide people and hold at that time
    undrawn: int = 0  # number of other regions in the window. If there are too many, every n-th by area is drawn.
    # classes of squares by the people expected in the hour, by the surface and if people were spread evenly
    expected: Mapping[int, str] = field(default_factory=dict)
    even: Mapping[int, str] = field(default_factory=dict)
    marked: int | None = None  # the place of one group's region, on private pages alone

    @property
    def said(self) -> str:
        """Words for how many regions are drawn."""
        drawn = len(self.regions)
        regions = format_count(drawn + self.undrawn, "region")
        return f"{drawn:,} of {regions}" if self.undrawn else regions


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The drawing of a release's rows; if the release grows, of one part.

    Attributes
    ----------
    k : int
    window : Window or None
        None if there are no rows.
    hours : sequence of (datetime, mapping)
        For each hour the path of each class of cells; see `name_levels`.
    cell_m : float
        The side of these cells.
    sizes : sequence of (float, float, float)
        Bins of the longer side of a region, and their share of people and time; the last is open.
    sides : sequence of float
        Quantiles of this side: 10, 50 and 90 %; empty if no row hides people.
    crowds : sequence of (str, float)
        The number of people that a row hides, and the share of people and time.
    exact : float
        The share of people and time in exact rows.
    questions : sequence of Question
    atoms : str
        A path of all atoms, if the method has them.
    streets : str
        A path of the lines of a table that the operator gives, under the maps.
    """

    k: int
    window: Window | None = None
    moment: Moment | None = None
    hours: Sequence[tuple[datetime, Mapping[int, str]]] = ()
    cell_m: float = 0
    sizes: Sequence[tuple[float, float, float]] = ()
    sides: Sequence[float] = ()
    crowds: Sequence[tuple[str, float]] = ()
    exact: float = 0
    questions: Sequence[Question] = ()
    atoms: str = ""
    streets: str = ""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """True positions, which only a private page shows beside `Shown`."""

    # positions of people at the moment that is shown, in units of the window, as the run found them
    places: Sequence[tuple[float, float]]
    marked: Sequence[tuple[float, float]] = field(default_factory=tuple)  # positions of the marked group
    people: int = 0  # number of people with a position at that moment, in the window or not
    align: str = "last"  # the way a position was found: "last", "linear" or "exact"


def sample_paths(paths: Sequence[str], most: int, most_bytes: int) -> list[str]:
    """Draw an even sample of paths in the order of their areas, few and short enough."""
    number = min(len(paths), most)
    while True:
        drawn = [paths[n * len(paths) // number] for n in range(number)]
        if sum(map(len, drawn)) <= most_bytes:
            return drawn
        number //= 2


def select_questions(questions: Iterable[Question], k: int) -> list[Question]:
    """Keep up to eight questions to which the rows tell k people or more, most people first."""
    kept = sorted((one for one in questions if one.expected >= k), key=lambda one: -one.expected)
    return kept[:: -(-len(kept) // 8) or 1]


def name_levels(k: int) -> list[str]:
    """Name the classes of cells: all counts below k are one class."""
    return [f"fewer than {k}", *(f"{k * f:,} to {2 * k * f:,}" for f in (1, 2, 4)), f"{8 * k:,} and more"]


def find_level(people: float, k: float) -> int:
    """Give the class of a cell by the number of people expected in it."""
    return 0 if people < k else min(int(math.log2(people / k)) + 1, 4)


def draw_squares(
    cells: Iterable[tuple[float, float, float]], side_m: float, window: Window, k: float, *, tints_few: bool
) -> dict[int, str]:
    """Draw the cells in a window, as one path for each class.

    Parameters
    ----------
    cells : iterable of (x, y, people)
    tints_few : bool
        Whether cells with fewer than k people are tinted; False if rows may be of single people.
    """
    side, by_class = round(side_m / window.unit_m), dict[int, list[str]]()
    for x, y, people in cells:
        if x + side_m <= window.x0 or x >= window.x1 or y + side_m <= window.y0 or y >= window.y1:
            continue
        at = find_level(people, k)
        if at or tints_few:
            left, top = ((x - window.x0) / window.unit_m, (window.y1 - y - side_m) / window.unit_m)
            by_class.setdefault(at, []).append(f"M{left:.0f} {top:.0f}h{side}v{side}h-{side}z")
    return {at: "".join(paths) for at, paths in by_class.items()}


def join_bins(bins: Sequence[Bin], k: int) -> list[Bin]:
    """Join bins until each has at least k people; the last one is open.

    The first 2 % and the last 5 % of the weight are one bin each, because the least and the greatest region may be that
    of a single group. The first bin begins at the last of the bins that it joins.
    """
    total, done = sum(one.weight for one in bins), 0.0
    made: list[list[Bin]] = []
    for one in bins:
        joins_first = bool(made) and done <= _FIRST_BIN_SHARE * total
        joins_last = (
            bool(made)
            and done >= _LAST_BIN_SHARE * total
            and done - sum(b.weight for b in made[-1]) >= _LAST_BIN_SHARE * total
        )
        lacks_people = bool(made) and sum(b.people for b in made[-1]) < k
        if joins_first or joins_last or lacks_people:
            made[-1].append(one)
        else:
            made.append([one])
        done += one.weight
    if len(made) > 1 and sum(one.people for one in made[-1]) < k:
        made[-2:] = [made[-2] + made[-1]]
    if not made or sum(one.people for one in made[-1]) < k:
        return []
    joined = [Bin(of[0].since, of[-1].until, sum(b.weight for b in of), sum(b.people for b in of)) for of in made]
    joined[0] = joined[0]._replace(since=made[0][-1].since if len(made) > 1 else made[0][0].since)
    # The last begins at the end of the one before, and not at its own regions, which may be one remote group's.
    begin = joined[-2].until if len(joined) > 1 else joined[0].since
    joined[-1] = joined[-1]._replace(since=begin, until=math.inf)
    return joined


def make_bars(hidden: Sequence[Bin]) -> list[tuple[float, float, float]]:
    """Make bars of joined bins, with their share; the last is open, and its width does not depend on its regions."""
    total = sum(one.weight for one in hidden)
    return [
        (one.since, one.since * BIN_FACTOR**2 if math.isinf(one.until) else one.until, one.weight / total)
        for one in hidden
    ]


def compute_quantiles(bins: Sequence[Bin], shares: Sequence[float] = (0.1, 0.5, 0.9)) -> list[float]:
    """Read quantiles off bins, between the ends of a bin by factors."""
    total, quantiles = sum(one.weight for one in bins), []
    for share in shares:
        done = 0.0
        for one in bins:
            if done + one.weight >= share * total:
                part = (share * total - done) / one.weight
                quantiles.append(one.since * (one.until / one.since) ** part)
                break
            done += one.weight
    return quantiles


def make_crowd_bars(crowds: Sequence[tuple[int, float, float]], k: int) -> list[tuple[str, float]]:
    """Make bars of the number of people that rows hide, each of one number or a range, and of at least k people.

    The last tenth is one open bar, because the fullest group is a single one.

    Parameters
    ----------
    crowds : sequence of (crowd, weight, people)
        In ascending order of crowd, from k on.
    """
    total, done = sum(weight for _, weight, _ in crowds), 0.0
    single = bool(crowds) and crowds[-1][0] - crowds[0][0] < _MAX_BARS
    bars: list[_Bar] = []
    for crowd, weight, people in crowds:
        low = crowd if single else k << max(int(math.log2(crowd / k)), 0)
        high = crowd if single else 2 * low - 1
        last = bars[-1] if bars else None
        if last and (last.high >= crowd or last.people < k or done - last.weight >= 0.9 * total):
            bars[-1] = _Bar(last.low, max(last.high, high), last.weight + weight, last.people + people)
        else:
            bars.append(_Bar(low, high, weight, people))
        done += weight
    if len(bars) > 1 and bars[-1].people < k:
        last = bars.pop()
        bars[-1] = _Bar(bars[-1].low, last.high, bars[-1].weight + last.weight, bars[-1].people + last.people)
    if not bars or bars[-1].people < k:
        return []
    words = [f"{one.low} people" if one.low == one.high else f"{one.low} to {one.high}" for one in bars[:-1]]
    words.append(f"{bars[-2].high + 1 if len(bars) > 1 else k} or more")  # and not the size of the fullest group
    return [(word, one.weight / total) for word, one in zip(words, bars, strict=True)]


class _Bar(NamedTuple):
    low: int
    high: int
    weight: float
    people: float
