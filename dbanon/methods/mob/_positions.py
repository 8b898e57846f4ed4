"""Where every subject is at every instant, and the instants at which an adversary is taken to know it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.base.errors import DataError, format_count
from dbanon.base.trajectory import Int, QuasiIdentifiers, Trajectories, freeze
from dbanon.methods.kernels import align, hilbert
from dbanon.methods.kernels.instants import list_instants
from dbanon.methods.mob import Parameters

Words = NDArray[np.uint64]

MAX_POSITIONS = 400_000_000
MAX_SPAN_CELLS = 2**30
MAX_CURVE_ORDER = 21
"""Of a curve: deviations at a million instants still add up in int64."""

_POSITIONS_PER_BATCH = 1 << 22  # positions found at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class Positions:
    """The aligned cells of subjects that have any, and their quasi-identifiers."""

    subject: Int  # [n]: codes of the subjects, ascending
    rank: Int  # [n]: place of each in the run's order, distinct
    x: NDArray[np.int32]  # [n, T]; x, y: cells, from (0, 0) for the least; 0 where a subject is absent
    y: NDArray[np.int32]  # [n, T]
    there: Words  # [n, W]: at which instants each is present: instant t is bit ``t % 64`` of word ``t // 64``
    own: Words  # [n, W]: at which instants of these each has a quasi-identifier
    offset: Int  # [n + 1]
    # The same as a list: those of subject i are ``instant[offset[i]:offset[i + 1]]``, ascending.
    instant: NDArray[np.int32]  # [q]
    instants: align.Instants  # the T instants
    origin: tuple[int, int]  # the least cell, in cells of the dataset's grid

    def __post_init__(self) -> None:
        freeze(self)


@dataclass(frozen=True, kw_only=True)
class Dropped:
    """How many quasi-identifiers are not used, by reason."""

    absent: int
    outside: int
    without_subject: int


def find(
    data: Trajectories, params: Parameters, rank: Int, quasi_identifiers: QuasiIdentifiers
) -> tuple[Positions, Dropped]:
    """Align subjects to instants, and quasi-identifiers to those whose slot holds them.

    Parameters
    ----------
    data : Trajectories
        What the run considers.
    rank : int64
        Place of each subject in the run's order, by its code.

    Raises `ParameterError` if `step_s` or `start` does not fit the data's grid; `DataError` if there is no instant with
    a position, or there are too many, or positions lie too far apart.
    """
    align.demand_sane_times(data)
    _demand_near(data)
    line, when = align.merge(data), list_instants("mob", data, params)
    _demand_instants(len(line.subject), when)
    seen, cells, there = _find_cells(line, when, data.grid_m)
    x, y, origin = _count_from_least(cells, there)
    owner, instant, dropped = _find_slots(quasi_identifiers, line.subject[seen], there, when)
    own = np.zeros_like(there)
    own[owner, instant] = True
    return Positions(
        subject=line.subject[seen],
        rank=rank[line.subject[seen]],
        x=x,
        y=y,
        there=_pack_words(there),
        own=_pack_words(own),
        offset=np.searchsorted(owner, np.arange(len(there) + 1)),
        instant=instant.astype(np.int32),
        instants=when,
        origin=origin,
    ), dropped


def number_places(positions: Positions) -> Int:
    """Number the cells of all positions along the Hilbert curve: int64[n, T]; arbitrary where absent.

    The curve is of the least order that separates all cells. Where that is above `MAX_CURVE_ORDER`, neighbouring cells
    share a place.
    """
    order = hilbert.choose_order(int(max(positions.x.max(), positions.y.max())) + 1)
    coarser = max(order - MAX_CURVE_ORDER, 0)
    x, y = (positions.x >> coarser, positions.y >> coarser) if coarser else (positions.x, positions.y)
    return hilbert.number_cells(x, y, order - coarser)


def unpack_presence(positions: Positions) -> NDArray[np.bool_]:
    """Say of each subject at which instants it is present: bool[n, T]."""
    return unpack_words(positions.there, positions.instants.count)


def unpack_words(words: Words, count: int) -> NDArray[np.bool_]:
    """Unpack words, uint64[W] or uint64[n, W]: bool[T] or bool[n, T]."""
    return np.unpackbits(words.view(np.uint8), axis=-1, count=count, bitorder="little").astype(bool)


def _demand_instants(subjects: int, when: align.Instants) -> None:
    if not when.count:
        raise DataError(
            "The data must hold a fix at or after the first instant. There is none. Set start within the data."
        )
    if subjects * when.count > MAX_POSITIONS:
        raise DataError(
            f"A run of mob must have at most {MAX_POSITIONS:,} positions: people times instants. Got "
            f"{format_count(subjects, 'person', 'people')} and {format_count(when.count, 'instant')}. Remove fixes "
            "at wild "
            f"times, raise step_s or choose since and until."
        )


def _find_cells(
    line: align.Timeline, when: align.Instants, cell_m: float
) -> tuple[Int, list[NDArray[np.float64]], NDArray[np.bool_]]:
    """Find who has a position at all, and their cells, in float64: two of [n, T]; NaN where there is none."""
    batch = max(1, _POSITIONS_PER_BATCH // when.count)
    parts, seen = [], []
    for first in range(0, len(line.subject), batch):
        who = np.arange(first, min(first + batch, len(line.subject)), dtype=np.int32)
        both = np.floor(np.stack(align.compute_positions(line, when, who)) / cell_m)
        # A subject without any position is not among the objects: it can neither be hidden nor hide others.
        any_there = ~np.isnan(both[0]).all(axis=1)
        parts.append(both[:, any_there])
        seen.append(who[any_there])
    x, y = (np.concatenate([part[axis] for part in parts]) for axis in (0, 1))
    return np.concatenate(seen), [x, y], ~np.isnan(x)


def _demand_near(data: Trajectories) -> None:
    """Raise `DataError` if fixes lie too far apart to be numbered in cells, those between two instants as well."""
    for along in (data.x, data.y):
        span = (float(along.max()) - float(along.min())) / data.grid_m if data.fixes else 0.0
        if span >= MAX_SPAN_CELLS:
            raise DataError(
                f"Positions must lie within 2^30 cells of one another. They span {span + 1:.3g}. "
                "Keep wild fixes out when loading."
            )


def _count_from_least(
    cells: list[NDArray[np.float64]], there: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.int32], tuple[int, int]]:
    """Count cells from the least one, and empty `cells`, which are large."""
    if not there.any():
        raise DataError(
            "At least one person must have a position at an instant. There is none. Raise max_gap_s, or choose "
            "another start or step_s."
        )
    counted, origin = [], []
    while cells:
        along = cells.pop(0)
        least = float(np.nanmin(along))
        along -= least
        along[~there] = 0
        counted.append(along.astype(np.int32))
        origin.append(int(least))
    return counted[0], counted[1], (origin[0], origin[1])


def _find_slots(
    quasi_identifiers: QuasiIdentifiers, subject: Int, there: NDArray[np.bool_], when: align.Instants
) -> tuple[Int, Int, Dropped]:
    """Find the distinct pairs of a subject and an instant that quasi-identifiers are of, sorted, and count the rest."""
    owner = np.searchsorted(subject, quasi_identifiers.subject)
    # A code above all lands on the first subject, from which it differs.
    owner[owner == len(subject)] = 0
    known = subject[owner] == quasi_identifiers.subject
    instant = np.floor((quasi_identifiers.t - when.start) / when.step_s)
    inside = (instant >= 0) & (instant < when.count)
    at = np.where(inside, instant, 0).astype(np.int64)
    seen = known & inside & there[owner, at]
    # Each pair once, by subject and instant: the order in which `offset` cuts the list.
    key = np.unique(owner[seen] * when.count + at[seen])
    return (
        key // when.count,
        key % when.count,
        Dropped(
            absent=int((known & inside & ~seen).sum()),
            outside=int((known & ~inside).sum()),
            without_subject=int((~known).sum()),
        ),
    )


def _pack_words(flags: NDArray[np.bool_]) -> Words:
    """Pack bool[n, T] into words: uint64[n, W]."""
    # The lowest bit first and eight bytes a word, the lowest first, as little-endian machines read them.
    packed = np.packbits(flags, axis=1, bitorder="little")
    padded = np.zeros((len(flags), -(-flags.shape[1] // 64) * 8), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)
